// Package cases is what bed 4 runs inside, under a real systemd. Its tests are
// built only with the tag bed4 and must run as root on a system that may be
// thrown away.
package cases
