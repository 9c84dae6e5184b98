package gpio

import "errors"

// releaseChardev releases a marked line of a real chip.
func releaseChardev(k mark) error { return errors.ErrUnsupported }
