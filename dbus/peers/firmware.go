package peers

import (
	"context"
	"errors"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/state/engine"
)

const (
	mapper        = "xyz.openbmc_project.ObjectMapper"
	mapperObject  = "/xyz/openbmc_project/object_mapper"
	objectManager = busDriver + ".ObjectManager"

	// blocksTransition marks an object whose daemon is updating firmware
	// (openbmc-state-manager.md §2.16).
	blocksTransition = "xyz.openbmc_project.Software.ActivationBlocksTransition"
)

// Firmware tells the engine whether some object blocks transitions because
// firmware is being updated. The mapper knows them all; what comes and goes is
// told by signals, long before anybody asks the mapper again. Without a mapper
// nothing is blocked.
type Firmware struct {
	link  *Link
	post  func(engine.Event)
	every time.Duration
	seen  chan mark
	wake  chan struct{}
	stop  context.CancelFunc
	ended chan struct{}

	marked map[string]time.Time // when a signal told of it, by path; the loop's own
	told   bool
}

// mark is an object that has come or gone.
type mark struct {
	path string
	gone bool
}

// marksQueued bounds the news that wait; what does not fit is asked for.
const marksQueued = 64

// NewFirmware watches until Close, and asks the mapper at least that often.
func NewFirmware(link *Link, every time.Duration, post func(engine.Event)) *Firmware {
	ctx, cancel := context.WithCancel(context.Background())
	f := &Firmware{link: link, post: post, every: every, seen: make(chan mark, marksQueued), wake: make(chan struct{}, 1),
		stop: cancel, ended: make(chan struct{}), marked: map[string]time.Time{}}
	managed := func(member string) []godbus.MatchOption {
		return []godbus.MatchOption{godbus.WithMatchInterface(objectManager), godbus.WithMatchMember(member)}
	}
	link.Watch(f.signalled, comings(mapper), managed("InterfacesAdded"), managed("InterfacesRemoved"))
	go f.run(ctx)
	return f
}

// Close ends the watch.
func (f *Firmware) Close() {
	f.stop()
	<-f.ended
}

// signalled takes the coming and going of objects from what every daemon says.
func (f *Firmware) signalled(sig *godbus.Signal) {
	if sig == nil || sig.Name == ownerMoved {
		f.ask()
		return
	}
	var path godbus.ObjectPath
	m := mark{}
	switch sig.Name {
	case objectManager + ".InterfacesAdded":
		var added map[string]map[string]godbus.Variant
		if godbus.Store(sig.Body, &path, &added) != nil || added[blocksTransition] == nil {
			return
		}
	case objectManager + ".InterfacesRemoved":
		var removed []string
		if godbus.Store(sig.Body, &path, &removed) != nil || !has(removed, blocksTransition) {
			return
		}
		m.gone = true
	default:
		return
	}
	m.path = string(path)
	select {
	case f.seen <- m:
	default:
		f.ask()
	}
}

func has(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

func (f *Firmware) ask() {
	select {
	case f.wake <- struct{}{}:
	default: // it is about to
	}
}

func (f *Firmware) run(ctx context.Context) {
	defer close(f.ended)
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-f.seen:
			if m.gone {
				delete(f.marked, m.path)
			} else {
				f.marked[m.path] = time.Now()
			}
		case <-f.wake:
			f.look()
		case <-tick.C:
			f.look()
		}
		if updating := len(f.marked) > 0; updating != f.told {
			f.told = updating
			f.post(engine.Firmware{Updating: updating})
		}
	}
}

// look asks the mapper. What a signal told of a moment ago it may not know yet.
func (f *Firmware) look() {
	var paths []string
	err := f.link.Call(mapper, mapperObject, mapper+".GetSubTreePaths", &paths, "/", int32(0), []string{blocksTransition})
	var refused godbus.Error
	if err != nil && !errors.As(err, &refused) {
		return // no answer is no news; a refusal says that there is none
	}
	for path, at := range f.marked {
		if !has(paths, path) && time.Since(at) > f.every {
			delete(f.marked, path)
		}
	}
	for _, path := range paths {
		if _, known := f.marked[path]; !known {
			f.marked[path] = time.Now().Add(-f.every)
		}
	}
}
