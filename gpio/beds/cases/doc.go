// Package cases holds the acceptance cases of the test beds.
package cases
