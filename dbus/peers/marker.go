package peers

import (
	"context"
	"errors"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/state"
)

const (
	mapper        = "xyz.openbmc_project.ObjectMapper"
	mapperObject  = "/xyz/openbmc_project/object_mapper"
	objectManager = busDriver + ".ObjectManager"
)

// The marks of what keeps power from being applied (openbmc-state-manager.md
// §2.16): a daemon that is updating firmware, and an error in the event log that
// somebody has to see to first.
const (
	MarkUpdate = "xyz.openbmc_project.Software.ActivationBlocksTransition"
	MarkError  = "xyz.openbmc_project.Logging.ErrorBlocksTransition"
)

// Marker tells whether some object bears a mark, an interface without members.
// The mapper knows them all; what comes and goes is told by signals, long before
// anybody asks the mapper again. Without a mapper there are none.
type Marker struct {
	link  *Link
	mark  string
	tell  func(bool)
	every time.Duration
	seen  chan moved
	wake  chan struct{}
	stop  context.CancelFunc
	ended chan struct{}

	marked map[string]time.Time // when a signal told of it, by path; the loop's own
	told   bool
	spoken bool // told means something: tell was called
	heard  bool // the mapper has answered, or there is none
}

// moved is an object that has come or gone.
type moved struct {
	_ state.Incomparable

	path string
	gone bool
}

// marksQueued bounds the news that wait; what does not fit is asked for.
const marksQueued = 64

// marksRetry is the time until the mapper is asked again that has never answered.
const marksRetry = time.Second

// WatchMark calls tell with what the mapper's first answer says, then when the
// first object with a mark has come and when the last has gone, until Close; it
// asks the mapper at least that often. That there is no mapper is an answer.
func (l *Link) WatchMark(mark string, every time.Duration, tell func(marked bool)) *Marker {
	ctx, cancel := context.WithCancel(context.Background())
	m := &Marker{link: l, mark: mark, tell: tell, every: every, seen: make(chan moved, marksQueued), wake: make(chan struct{}, 1),
		stop: cancel, ended: make(chan struct{}), marked: map[string]time.Time{}}
	managed := func(member string) []godbus.MatchOption {
		return []godbus.MatchOption{godbus.WithMatchInterface(objectManager), godbus.WithMatchMember(member)}
	}
	l.Watch(m.signalled, comings(mapper), managed("InterfacesAdded"), managed("InterfacesRemoved"))
	go m.run(ctx)
	return m
}

// Close ends the watch.
func (m *Marker) Close() {
	m.stop()
	<-m.ended
}

// signalled takes the coming and going of objects from what every daemon says.
func (m *Marker) signalled(sig *godbus.Signal) {
	if sig == nil || sig.Name == ownerMoved {
		m.ask()
		return
	}
	var path godbus.ObjectPath
	change := moved{}
	switch sig.Name {
	case objectManager + ".InterfacesAdded":
		var added map[string]map[string]godbus.Variant
		if godbus.Store(sig.Body, &path, &added) != nil || added[m.mark] == nil {
			return
		}
	case objectManager + ".InterfacesRemoved":
		var removed []string
		if godbus.Store(sig.Body, &path, &removed) != nil || !has(removed, m.mark) {
			return
		}
		change.gone = true
	default:
		return
	}
	change.path = string(path)
	select {
	case m.seen <- change:
	default:
		m.ask()
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

func (m *Marker) ask() {
	select {
	case m.wake <- struct{}{}:
	default: // it is about to
	}
}

func (m *Marker) run(ctx context.Context) {
	defer close(m.ended)
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	var soon <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-m.seen:
			if o.gone {
				delete(m.marked, o.path)
			} else {
				m.marked[o.path] = time.Now()
			}
		case <-m.wake:
			m.look()
		case <-soon:
			m.look()
		case <-tick.C:
			m.look()
		}
		soon = nil
		if !m.heard { // somebody waits for it
			soon = time.After(marksRetry)
		}
		marked := len(m.marked) > 0
		if (marked || m.heard) && (marked != m.told || !m.spoken) {
			m.told, m.spoken = marked, true
			m.tell(marked)
		}
	}
}

// look asks the mapper. What a signal told of a moment ago it may not know yet.
func (m *Marker) look() {
	var paths []string
	err := m.link.Call(mapper, mapperObject, mapper+".GetSubTreePaths", &paths, "/", int32(0), []string{m.mark})
	var refused godbus.Error
	if err != nil && !errors.As(err, &refused) {
		return // no answer is no news; a refusal says that there is none
	}
	m.heard = true
	for path, at := range m.marked {
		if !has(paths, path) && time.Since(at) > m.every {
			delete(m.marked, path)
		}
	}
	for _, path := range paths {
		if _, known := m.marked[path]; !known {
			m.marked[path] = time.Now().Add(-m.every)
		}
	}
}
