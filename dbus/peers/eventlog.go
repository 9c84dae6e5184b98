package peers

import (
	"os"
	"strconv"
	"sync"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/state/slog"
)

// Entry is one for the BMC's event log.
type Entry struct {
	Message  string // the error's name
	Critical bool   // otherwise an error
	Data     map[string]string
	Dump     bool // have the BMC's state dumped, too
}

// EventLog writes to xyz.openbmc_project.Logging. What it does not take is kept
// and tried again.
type EventLog struct {
	link  *Link
	log   *slog.Logger
	retry time.Duration
	wake  chan struct{}
	stop  chan struct{}
	ended chan struct{}

	mu      sync.Mutex
	entries []Entry
}

// maxEntries bounds what is kept for a log that does not come; the oldest says
// most.
const maxEntries = 64

// NewEventLog returns a log that is written over link until Close.
func NewEventLog(link *Link, retry time.Duration, log *slog.Logger) *EventLog {
	e := &EventLog{link: link, log: log, retry: retry, wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	go e.run()
	return e
}

// Close stops; what has not been written is lost.
func (e *EventLog) Close() {
	close(e.stop)
	<-e.ended
}

// Add writes an entry. It does not block.
func (e *EventLog) Add(entry Entry) {
	e.log.Warn("event", "error", entry.Message, "data", entry.Data)
	e.mu.Lock()
	if len(e.entries) < maxEntries {
		e.entries = append(e.entries, entry)
	}
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *EventLog) run() {
	defer close(e.ended)
	retry := time.NewTicker(e.retry)
	defer retry.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-e.wake:
		case <-retry.C:
		}
		for e.writeFirst() {
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
	if err := e.write(first); err != nil {
		return false
	}
	e.mu.Lock()
	e.entries = e.entries[1:]
	e.mu.Unlock()
	return true
}

func (e *EventLog) write(entry Entry) error {
	level := "xyz.openbmc_project.Logging.Entry.Level.Error"
	if entry.Critical {
		level = "xyz.openbmc_project.Logging.Entry.Level.Critical"
	}
	data := map[string]string{"_PID": strconv.Itoa(os.Getpid())}
	for k, v := range entry.Data {
		data[k] = v
	}
	const create = "xyz.openbmc_project.Logging.Create"
	if err := e.link.Call("xyz.openbmc_project.Logging", "/xyz/openbmc_project/logging", create+".Create", nil, entry.Message, level, data); err != nil {
		return err
	}
	if entry.Dump {
		// Whether there is a dump or not, the log says why.
		_ = e.link.Call("xyz.openbmc_project.Dump.Manager", "/xyz/openbmc_project/dump/bmc", "xyz.openbmc_project.Dump.Create.CreateDump", nil, map[string]godbus.Variant{})
	}
	return nil
}
