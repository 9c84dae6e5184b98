package engine

import (
	"fmt"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// Firmware says whether some daemon is updating firmware. While one is, nothing
// that applies power and no reboot of the BMC is accepted; taking power away is,
// and so are repeats of what was accepted before.
type Firmware struct{ Updating bool }

func (Firmware) isEvent() {}

// firmware takes the news.
func (c *Core) firmware(ev Firmware) {
	c.updating = ev.Updating
	c.emit(signEffect{Sign{Kind: SignFirmware, On: ev.Updating}})
}

var errUpdating = fmt.Errorf("a firmware update is in progress: ask again when it has ended, or switch off")

// gated refuses what may not begin now; nil lets it pass.
func (c *Core) gated(dl queue.Delivery, q *queue.Queue) *Refusal {
	blocked := dl.Op.Raising() || dl.Op == state.BMCReboot
	if !c.updating || !blocked || q.Repeats(dl) {
		return nil
	}
	return unavailable(errUpdating)
}
