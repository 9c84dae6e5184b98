package dbustest

import (
	"net"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

// Monitor sees every message on a bus in the order in which the bus passed them
// on, whoever sent them. That is what tells which of two connections was first.
type Monitor struct {
	t    testing.TB
	in   chan *godbus.Message
	mu   sync.Mutex
	seen []*godbus.Message
}

// Monitor starts to listen. It ends with the test.
func (b *Bus) Monitor(t testing.TB) *Monitor {
	t.Helper()
	socket, err := net.Dial("unix", b.socket)
	must(t, err)
	conn, err := godbus.NewConn(socket)
	must(t, err)
	// Not conn.Close: the library's reader may then send on the channel that Close
	// has closed. When the reader itself sees the end, it does not.
	t.Cleanup(func() { _ = socket.Close() })
	must(t, conn.Auth(nil))
	must(t, conn.Hello())
	m := &Monitor{t: t, in: make(chan *godbus.Message, 100_000)}
	must(t, conn.BusObject().Call(busName+".Monitoring.BecomeMonitor", 0, []string{}, uint32(0)).Err)
	conn.Eavesdrop(m.in)
	return m
}

// Until returns the messages up to the first that is what is wanted, those of
// earlier calls included. It fails the test after 30 s.
func (m *Monitor) Until(what string, wanted func(*godbus.Message) bool) []*godbus.Message {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	late := time.After(patience)
	for n := 0; ; n++ {
		for n >= len(m.seen) {
			select {
			case msg, ok := <-m.in:
				if !ok {
					m.t.Fatalf("the bus went while %s was waited for", what)
				}
				m.seen = append(m.seen, msg)
			case <-late:
				m.t.Fatalf("waited in vain for %s on the bus", what)
			}
		}
		if wanted(m.seen[n]) {
			return m.seen[:n+1]
		}
	}
}

// IsCall reports whether a message calls a method.
func IsCall(m *godbus.Message, member string) bool {
	return m.Type == godbus.TypeMethodCall && m.Headers[godbus.FieldMember].Value() == member
}

// Shows reports whether a message is the signal that a property has become a
// value.
func Shows(m *godbus.Message, property string, value any) bool {
	if m.Type != godbus.TypeSignal || m.Headers[godbus.FieldMember].Value() != "PropertiesChanged" || len(m.Body) < 2 {
		return false
	}
	changed, _ := m.Body[1].(map[string]godbus.Variant)
	v, ok := changed[property]
	return ok && v.Value() == value
}
