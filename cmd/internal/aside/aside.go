// Package aside keeps what cannot be read for whoever wants to know why.
package aside

import (
	"os"
	"strconv"
)

// Move gives a file a name under which nothing reads it, <path>.unreadable, and
// returns that. Files that were set aside before stay: a later one is numbered.
func Move(path string) (to string, err error) {
	to = path + ".unreadable"
	for i := 1; ; i++ {
		if _, err := os.Lstat(to); err != nil {
			return to, os.Rename(path, to)
		}
		to = path + ".unreadable." + strconv.Itoa(i)
	}
}
