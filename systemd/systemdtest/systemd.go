package systemdtest

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

// Unit is a unit's state in the double.
type Unit struct {
	Load, Active, Sub, Result string
	InvocationID              string // 32 hex digits
	NRestarts, MainPID        uint32
	Requires                  []string
	ExecMainCode              int32 // CLD_EXITED is 1, CLD_KILLED 2
	ExecMainStatus            int32

	job         uint32
	stateChange uint64
}

// Script says what becomes of jobs on a unit. The zero value is a job that is
// done at once.
type Script struct {
	Refuse         string        // error name with which the call is refused, for example "…systemd1.UnitMasked"
	ReplyDelay     time.Duration // the reply comes this much later than the job
	Unfinished     bool          // the job stays until [Systemd.Finish]
	EndBeforeReply bool          // JobRemoved goes out before the reply
	Result         string        // "" = "done"
	Active         string        // ActiveState after the job; "" = what type and result lead to
	Pulls          []string      // units started in the same transaction
	Stops          []string      // units stopped in the same transaction (conflicts)
	Once           bool          // forget the script after one call
}

// Call is one call of a Manager method that acts.
type Call struct {
	Method, Unit, Mode string
	JobID              uint32 // of CancelJob
	At                 time.Time
}

// String returns "StartUnit(obmc-host-start@0.target, replace)".
func (c Call) String() string {
	var args []string
	for _, a := range []string{c.Unit, c.Mode} {
		if a != "" {
			args = append(args, a)
		}
	}
	if c.JobID != 0 {
		args = append(args, fmt.Sprint(c.JobID))
	}
	return c.Method + "(" + strings.Join(args, ", ") + ")"
}

// Systemd is the double. Its methods are safe for concurrent use.
type Systemd struct {
	t       testing.TB
	address string
	wg      sync.WaitGroup

	mu      sync.Mutex
	unhung  *sync.Cond
	called  *sync.Cond
	conn    *godbus.Conn // nil while absent
	socket  net.Conn     // of conn
	hung    bool
	units   map[string]*Unit
	scripts map[string]Script
	jobs    map[uint32]*job
	nextJob uint32
	nextInv uint64
	calls   []Call
	clients map[string]bool // subscribed
	refuse  map[string]string
	late    []*time.Timer // replies to come
	holding bool          // what asks for a job waits in held
	held    []*request
}

type job struct {
	id     uint32
	unit   string
	typ    string
	client bool
	script Script
}

// Start has the double own org.freedesktop.systemd1 on the bus at address until
// the test's end. Every unit exists and is inactive until told otherwise.
func Start(t testing.TB, address string) *Systemd {
	t.Helper()
	s := New(t, address)
	s.Arrive()
	return s
}

// New is a double that is not on the bus yet; [Systemd.Arrive] brings it there.
func New(t testing.TB, address string) *Systemd {
	s := &Systemd{
		t: t, address: address,
		units: make(map[string]*Unit), scripts: make(map[string]Script), jobs: make(map[uint32]*job),
		clients: make(map[string]bool), refuse: make(map[string]string), nextJob: 100,
	}
	s.unhung, s.called = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	t.Cleanup(func() {
		s.Leave()
		s.wg.Wait()
	})
	return s
}

// Arrive takes the name, as a booted or re-executed systemd does. Jobs and units
// are as they were; nobody is subscribed.
func (s *Systemd) Arrive() {
	s.t.Helper()
	path, _, _ := strings.Cut(strings.TrimPrefix(s.address, "unix:path="), ",")
	socket, err := net.Dial("unix", path)
	var conn *godbus.Conn
	if err == nil {
		conn, err = godbus.NewConn(socket)
	}
	if err == nil {
		err = conn.Auth(nil)
	}
	if err == nil {
		err = conn.Hello()
	}
	if err != nil {
		s.t.Fatalf("systemdtest: %v", err)
	}
	in := make(chan *godbus.Message, 4096)
	conn.Eavesdrop(in)
	owned := make(chan error, 1)
	s.mu.Lock()
	s.conn, s.socket = conn, socket
	clear(s.clients)
	s.mu.Unlock()
	s.wg.Go(func() { s.loop(conn, in, owned) })
	s.send(conn, &godbus.Message{Type: godbus.TypeMethodCall, Body: []any{busName, uint32(4)}, Headers: map[godbus.HeaderField]godbus.Variant{
		godbus.FieldDestination: godbus.MakeVariant("org.freedesktop.DBus"),
		godbus.FieldPath:        godbus.MakeVariant(godbus.ObjectPath("/org/freedesktop/DBus")),
		godbus.FieldInterface:   godbus.MakeVariant("org.freedesktop.DBus"),
		godbus.FieldMember:      godbus.MakeVariant("RequestName"),
	}})
	if err := <-owned; err != nil {
		s.t.Fatalf("systemdtest: %v", err)
	}
}

// Leave takes the double off the bus, with what it had not read.
func (s *Systemd) Leave() {
	s.mu.Lock()
	socket := s.socket
	s.conn, s.socket = nil, nil
	for _, timer := range s.late {
		timer.Stop()
	}
	s.late = nil
	s.unhung.Broadcast()
	s.mu.Unlock()
	if socket != nil {
		// Not conn.Close: the library's reader may then send on the channel that
		// Close has closed. When the reader itself sees the end, it does not.
		_ = socket.Close()
	}
}

// Hang stops or resumes the answering of messages; they queue up meanwhile.
func (s *Systemd) Hang(hang bool) {
	s.mu.Lock()
	s.hung = hang
	s.unhung.Broadcast()
	s.mu.Unlock()
}

// HoldJobs leaves those who ask for a job's properties waiting, or answers them.
func (s *Systemd) HoldJobs(hold bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding = hold
	if hold {
		return
	}
	for _, c := range s.held {
		s.properties(c)
	}
	s.held = nil
}

// DropSubscriptions forgets who subscribed, without a word.
func (s *Systemd) DropSubscriptions() {
	s.mu.Lock()
	clear(s.clients)
	s.mu.Unlock()
}

// RefuseMethod has every call of a Manager method refused with an error name; ""
// ends that.
func (s *Systemd) RefuseMethod(method, name string) {
	s.mu.Lock()
	s.refuse[method] = name
	s.mu.Unlock()
}

// Script sets what becomes of jobs on unit.
func (s *Systemd) Script(unit string, sc Script) {
	s.mu.Lock()
	s.scripts[unit] = sc
	s.mu.Unlock()
}

// Change alters a unit's state and announces it. A unit that becomes active gets
// a new invocation id unless change sets one.
func (s *Systemd) Change(unit string, change func(*Unit)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.unit(unit)
	before := *u
	change(u)
	if u.Active != before.Active {
		s.stamp(u, before.InvocationID == u.InvocationID && u.Active == "active")
	}
	s.changed(unit)
}

// SetActive is [Systemd.Change] for the ActiveState.
func (s *Systemd) SetActive(unit, active string) {
	s.Change(unit, func(u *Unit) { u.Active = active })
}

// Unit returns a unit's state.
func (s *Systemd) Unit(name string) Unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.unit(name)
}

// Foreign queues a job as if another client had asked for it and returns its id.
// It stays until [Systemd.Finish].
func (s *Systemd) Foreign(unit, typ string) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue(unit, typ, false, Script{Unfinished: true}).id
}

// Finish ends a job with a result; the unit goes where type and result lead.
func (s *Systemd) Finish(id uint32, result string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil {
		s.finish(j, result)
	}
}

// Vanish ends a job without a signal, as an end during re-execution does.
func (s *Systemd) Vanish(id uint32, active string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil {
		u := s.unit(j.unit)
		delete(s.jobs, id)
		u.job, u.Active = 0, active
	}
}

// Job returns the id of the unit's job, 0 if it has none.
func (s *Systemd) Job(unit string) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unit(unit).job
}

// Reload announces a daemon-reload from beginning to end.
func (s *Systemd) Reload() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal(managerPath, managerIface, "Reloading", true)
	s.signal(managerPath, managerIface, "Reloading", false)
}

// Calls returns the recorded calls, of the given methods only if any is given.
func (s *Systemd) Calls(methods ...string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callsOf(methods)
}

func (s *Systemd) callsOf(methods []string) []Call {
	var out []Call
	for _, c := range s.calls {
		if len(methods) == 0 || slices.Contains(methods, c.Method) {
			out = append(out, c)
		}
	}
	return out
}

// ClearCalls forgets the recorded calls.
func (s *Systemd) ClearCalls() {
	s.mu.Lock()
	s.calls = nil
	s.mu.Unlock()
}

// patience bounds every wait of the double; nothing is judged by it.
const patience = 2 * time.Minute

// WaitCalls waits until n calls of method were received and returns them. It
// fails the test after [patience].
func (s *Systemd) WaitCalls(method string, n int) []Call {
	s.t.Helper()
	late := time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.called.Broadcast()
	})
	defer late.Stop()
	end := time.Now().Add(patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		got := s.callsOf([]string{method})
		if len(got) >= n {
			return got
		}
		if !time.Now().Before(end) {
			s.t.Fatalf("systemdtest: %d calls of %s after %s, want %d; all: %v", len(got), method, patience, n, s.calls)
		}
		s.called.Wait()
	}
}

// UnitPath returns a unit's object path.
func UnitPath(name string) string {
	var b strings.Builder
	b.WriteString(managerPath + "/unit/")
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// ForeignStart starts a unit as if another client had asked for it, with the
// transaction that the unit's script tells, and returns the job's id.
func (s *Systemd) ForeignStart(unit string) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	script := s.scripts[unit]
	j := s.queue(unit, "start", false, script)
	s.follow(script)
	if !script.Unfinished {
		s.finish(j, script.result())
	}
	return j.id
}
