package gpio

import (
	"context"
	"time"

	"github.com/warthog618/go-gpiocdev/uapi"
)

// ReadOnce reads the level of the input of that name, whatever chip it is on, and
// lets go of it; true is high. A kernel that has not answered within limit is left
// behind with ErrStuck; ErrMissing means that there is no such line.
func ReadOnce(name string, limit time.Duration) (high bool, err error) {
	return readOnce(linux{}, name, limit)
}

func readOnce(k kernel, name string, limit time.Duration) (bool, error) {
	level := make(chan bool, 1)
	var one call
	var worker crew
	err := one.do(context.Background(), &worker, limit, func() error {
		at, err := resolve(k, Line{Name: name})
		if err != nil {
			return err
		}
		f, err := request(k, at, uapi.LineConfig{Flags: uapi.LineFlagV2Input}, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return ioctl(f, func(fd uintptr) error {
			high, err := k.get(fd)
			level <- high
			return err
		})
	})
	if err != nil {
		return false, err
	}
	return <-level, nil
}
