// Package cases holds the acceptance cases of the test beds: the product on
// Linux GPIO character devices, with a board that plays back.
//
// Nothing here runs on a developer's machine. With the build tag bed1 the cases
// are compiled into a program that runs inside bed 1, on gpio-sim chips that they
// make themselves; with bed5 they run outside and drive an emulated BMC. What
// holds for both stands in files without either word in their name.
package cases
