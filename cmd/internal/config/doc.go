// Package config reads bmcstate.json (DESIGN.md §7).
//
// The reader is strict: an unknown key, a wrong type or a value out of range is
// an error that names file, line, column, field and value and says what is
// allowed. All errors of a file are reported at once. A field that is wrong
// keeps its default and the others apply, so that a typing mistake neither
// hides a host nor shortens the history; but nothing is driven then.
//
// A new key is one row in [Config.keys] (or in the table of its block), one
// field with a doc comment, and one line in [Default].
package config
