package peers

import (
	"context"
	"sync"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/slog"
)

// The settings daemon's record of where the last NMI came from
// (power-sequencing.md §4.4). There is one for the whole machine.
const (
	nmiPath   = "/xyz/openbmc_project/Chassis/Control/NMISource"
	nmiIface  = "xyz.openbmc_project.Chassis.Control.NMISource"
	nmiButton = nmiIface + ".BMCSourceSignal.FrontPanelButton"
)

// NMISource sends the host an NMI when Enabled becomes true at the settings
// daemon, and sets it to false after every NMI. A front panel NMI is recorded
// there, and does not depend on it.
type NMISource struct {
	link  *Link
	host  int
	retry time.Duration
	post  func(engine.Event)
	log   *slog.Logger
	wake  chan struct{}
	ended chan struct{}
	stop  context.CancelFunc

	mu     sync.Mutex
	asked  bool // Enabled has changed
	clear  bool // Enabled is to be set to false
	button bool // BMCSource is to say that it was the button
}

// NewNMISource watches the object for a host until Close.
func NewNMISource(link *Link, host int, retry time.Duration, post func(engine.Event), log *slog.Logger) *NMISource {
	ctx, cancel := context.WithCancel(context.Background())
	n := &NMISource{link: link, host: host, retry: retry, post: post, log: log,
		wake: make(chan struct{}, 1), ended: make(chan struct{}), stop: cancel}
	link.Watch(n.signalled, comings(openbmc.SettingsService), changesOf(godbus.WithMatchSender(openbmc.SettingsService)))
	n.want(&n.clear) // what was left there is nobody's wish any more
	go n.run(ctx)
	return n
}

// Close ends the watch.
func (n *NMISource) Close() {
	n.stop()
	<-n.ended
}

// Pressed records a press of the NMI button.
func (n *NMISource) Pressed() { n.want(&n.button) }

// Sent records that an NMI was sent.
func (n *NMISource) Sent() { n.want(&n.clear) }

func (n *NMISource) want(what *bool) {
	n.mu.Lock()
	*what = true
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default: // it looks anyway
	}
}

func (n *NMISource) signalled(sig *godbus.Signal) {
	switch {
	case sig == nil || sig.Name == ownerMoved:
		n.want(&n.clear)
	case sig.Path == nmiPath:
		n.want(&n.asked)
	}
}

func (n *NMISource) run(ctx context.Context) {
	defer close(n.ended)
	for {
		var again <-chan time.Time
		if !n.look() {
			again = time.After(n.retry)
		}
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		case <-again:
		}
	}
}

// look does what is to be done, and reports whether all of it is.
func (n *NMISource) look() bool {
	n.mu.Lock()
	asked, clear, button := n.asked, n.clear, n.button
	n.asked = false
	n.mu.Unlock()
	owner, err := n.link.Owner(openbmc.SettingsService)
	if err != nil || owner == "" {
		return true // its coming tells
	}
	enabled, err := n.link.Get(owner, nmiPath, nmiIface, "Enabled")
	if err != nil {
		n.done(&n.clear, &n.button)
		return true // this settings daemon has no such object
	}
	on, _ := enabled.(bool)
	if asked && on && !clear {
		n.post(engine.NMI{Host: n.host, Reply: func(a engine.Answer) {
			if a.Err != nil {
				n.log.Warn("an NMI that the settings ask for was not sent", "err", a.Err)
				n.Sent() // it was answered all the same
			}
		}})
	}
	if clear && on {
		err = n.link.Set(owner, nmiPath, nmiIface, "Enabled", false)
	}
	if err == nil && clear {
		n.done(&n.clear)
	}
	if button {
		if e := n.link.Set(owner, nmiPath, nmiIface, "BMCSource", nmiButton); e != nil {
			err = e
		} else {
			n.done(&n.button)
		}
	}
	if err != nil {
		n.log.Warn("the source of an NMI could not be recorded; it is tried again", "err", err)
	}
	return err == nil
}

func (n *NMISource) done(what ...*bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range what {
		*w = false
	}
}
