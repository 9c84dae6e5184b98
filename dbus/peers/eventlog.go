package peers

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/state/slog"
)

// Entry is one for the BMC's event log.
type Entry struct {
	Message  string            `json:"message"`  // the error's name
	Critical bool              `json:"critical"` // otherwise a notice, or an error
	Notice   bool              `json:"notice"`
	Data     map[string]string `json:"data"`
	Dump     bool              `json:"dump"` // have the BMC's state dumped, too
}

// EventLogOptions say how an [EventLog] writes.
type EventLogOptions struct {
	Retry time.Duration // until what was not taken is tried again
	Kept  []Entry       // by an earlier run
	// Keep, where not nil, is given what has not been written yet whenever that
	// has changed, for a later run. It is called from one goroutine.
	Keep func([]Entry)
	Log  *slog.Logger
}

// EventLog writes to xyz.openbmc_project.Logging. What it does not take is kept
// and tried again. Each entry has an id of its own in its additional data, so
// that one whose answer was lost, with the bus or with this daemon, is found in
// the log and not written twice.
type EventLog struct {
	link  *Link
	opts  EventLogOptions
	wake  chan struct{}
	stop  chan struct{}
	ended chan struct{}

	mu      sync.Mutex
	entries []Entry
	changed bool // since Keep was called
}

const (
	logging     = "xyz.openbmc_project.Logging"
	loggingPath = "/xyz/openbmc_project/logging"
)

// maxEntries bounds what is kept for a log that does not come; the oldest says
// most.
const maxEntries = 64

// NewEventLog returns a log that is written over link until Close.
func NewEventLog(link *Link, opts EventLogOptions) *EventLog {
	e := &EventLog{link: link, opts: opts, entries: opts.Kept, wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	e.Wake()
	link.Watch(func(*godbus.Signal) { e.Wake() }, comings(logging))
	go e.run()
	return e
}

// Wake has what is kept tried again now.
func (e *EventLog) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Close stops; what has not been written is with Keep.
func (e *EventLog) Close() {
	close(e.stop)
	<-e.ended
}

// EventID is the datum that tells an entry from all others. Whoever may add an
// entry again after a crash sets it.
const EventID = "EVENT_ID"

// Add writes an entry. It does not block.
func (e *EventLog) Add(entry Entry) {
	data := map[string]string{EventID: strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.Itoa(os.Getpid())}
	for k, v := range entry.Data {
		data[k] = v
	}
	entry.Data = data
	e.opts.Log.Warn("event", "error", entry.Message, "data", entry.Data)
	e.mu.Lock()
	if len(e.entries) < maxEntries {
		e.entries = append(e.entries, entry)
		e.changed = true
	}
	e.mu.Unlock()
	e.Wake()
}

// keep hands on what has not been written.
func (e *EventLog) keep() {
	e.mu.Lock()
	changed := e.changed
	e.changed = false
	entries := append([]Entry{}, e.entries...)
	e.mu.Unlock()
	if changed && e.opts.Keep != nil {
		e.opts.Keep(entries)
	}
}

func (e *EventLog) run() {
	defer close(e.ended)
	retry := time.NewTicker(e.opts.Retry)
	defer retry.Stop()
	for {
		e.keep()
		select {
		case <-e.stop:
			return
		case <-e.wake:
		case <-retry.C:
		}
		for e.keep(); e.writeFirst(); e.keep() {
		}
	}
}

// writeFirst writes the oldest entry and reports whether there may be more.
func (e *EventLog) writeFirst() bool {
	e.mu.Lock()
	if len(e.entries) == 0 {
		e.mu.Unlock()
		return false
	}
	first := e.entries[0]
	e.mu.Unlock()
	if !e.has(first.Data[EventID]) {
		if err := e.write(first); err != nil {
			return false
		}
	}
	if first.Dump {
		// Whether there is a dump or not, the log says why.
		_ = e.link.Call("xyz.openbmc_project.Dump.Manager", "/xyz/openbmc_project/dump/bmc", "xyz.openbmc_project.Dump.Create.CreateDump", nil, map[string]godbus.Variant{})
	}
	e.mu.Lock()
	e.entries, e.changed = e.entries[1:], true
	e.mu.Unlock()
	return true
}

func (e *EventLog) write(entry Entry) error {
	level := "xyz.openbmc_project.Logging.Entry.Level.Error"
	if entry.Critical {
		level = "xyz.openbmc_project.Logging.Entry.Level.Critical"
	}
	if entry.Notice {
		level = "xyz.openbmc_project.Logging.Entry.Level.Notice"
	}
	data := map[string]string{"_PID": strconv.Itoa(os.Getpid())}
	for k, v := range entry.Data {
		data[k] = v
	}
	return e.link.Call(logging, loggingPath, logging+".Create.Create", nil, entry.Message, level, data)
}

// has reports whether an entry is in the log. One that cannot be looked for is
// written: rather twice than not at all.
func (e *EventLog) has(id string) bool {
	var objects map[godbus.ObjectPath]map[string]map[string]godbus.Variant
	if id == "" || e.link.Call(logging, loggingPath, "org.freedesktop.DBus.ObjectManager.GetManagedObjects", &objects) != nil {
		return false
	}
	for _, ifaces := range objects {
		// An array of KEY=value, and lately a dictionary.
		if strings.Contains(fmt.Sprint(ifaces[logging+".Entry"]["AdditionalData"].Value()), id) {
			return true
		}
	}
	return false
}
