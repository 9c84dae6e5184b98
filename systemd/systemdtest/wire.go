package systemdtest

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	godbus "github.com/godbus/dbus/v5"
)

const (
	busName      = "org.freedesktop.systemd1"
	managerPath  = "/org/freedesktop/systemd1"
	managerIface = busName + ".Manager"
	unitIface    = busName + ".Unit"
	serviceIface = busName + ".Service"
	jobIface     = busName + ".Job"
	propsIface   = "org.freedesktop.DBus.Properties"
	errPrefix    = busName + "."
)

// loop answers messages one after the other, as PID 1 does.
func (s *Systemd) loop(conn *godbus.Conn, in <-chan *godbus.Message, owned chan<- error) {
	for m := range in {
		switch m.Type {
		case godbus.TypeMethodReply, godbus.TypeError:
			// The only call we make is RequestName.
			if owned != nil {
				owned <- ownedError(m)
				owned = nil
			}
		case godbus.TypeMethodCall:
			s.serve(conn, m)
		}
	}
}

func ownedError(m *godbus.Message) error {
	if m.Type == godbus.TypeError {
		return fmt.Errorf("RequestName: %v", m.Body)
	}
	if code, _ := m.Body[0].(uint32); code != 1 {
		return fmt.Errorf("RequestName answered %d: somebody else is systemd on this bus", code)
	}
	return nil
}

// serve waits while the double hangs, then answers m.
func (s *Systemd) serve(conn *godbus.Conn, m *godbus.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.hung && s.conn == conn {
		s.unhung.Wait()
	}
	if s.conn != conn {
		return // it left meanwhile: what it had not read is lost
	}
	path, _ := m.Headers[godbus.FieldPath].Value().(godbus.ObjectPath)
	iface, _ := m.Headers[godbus.FieldInterface].Value().(string)
	member, _ := m.Headers[godbus.FieldMember].Value().(string)
	sender, _ := m.Headers[godbus.FieldSender].Value().(string)
	c := &request{s: s, m: m, conn: conn, sender: sender, path: string(path), member: member}
	switch iface {
	case managerIface:
		s.manager(c)
	case propsIface:
		s.properties(c)
	default:
		c.refuse("org.freedesktop.DBus.Error.UnknownInterface", "no such interface: "+iface)
	}
}

// request is one method call in the making of its answer.
type request struct {
	s      *Systemd
	m      *godbus.Message
	conn   *godbus.Conn
	sender string
	path   string
	member string
}

func (c *request) str(i int) string {
	if i < len(c.m.Body) {
		v, _ := c.m.Body[i].(string)
		return v
	}
	return ""
}

func (c *request) num() uint32 {
	if len(c.m.Body) == 0 {
		return 0
	}
	v, _ := c.m.Body[0].(uint32)
	return v
}

func (c *request) answer(t godbus.Type, name string, body ...any) {
	m := &godbus.Message{Type: t, Body: body, Headers: map[godbus.HeaderField]godbus.Variant{
		godbus.FieldReplySerial: godbus.MakeVariant(c.m.Serial()),
		godbus.FieldDestination: godbus.MakeVariant(c.sender),
	}}
	if name != "" {
		m.Headers[godbus.FieldErrorName] = godbus.MakeVariant(name)
	}
	c.s.send(c.conn, m)
}

func (c *request) reply(body ...any) { c.answer(godbus.TypeMethodReply, "", body...) }

func (c *request) refuse(name, text string) { c.answer(godbus.TypeError, name, text) }

func (s *Systemd) send(conn *godbus.Conn, m *godbus.Message) {
	if len(m.Body) > 0 {
		m.Headers[godbus.FieldSignature] = godbus.MakeVariant(godbus.SignatureOf(m.Body...))
	}
	conn.Send(m, nil) // a closed connection is part of the game
}

func (s *Systemd) signal(path, iface, member string, body ...any) {
	if s.conn == nil {
		return
	}
	s.send(s.conn, &godbus.Message{Type: godbus.TypeSignal, Body: body, Headers: map[godbus.HeaderField]godbus.Variant{
		godbus.FieldPath:      godbus.MakeVariant(godbus.ObjectPath(path)),
		godbus.FieldInterface: godbus.MakeVariant(iface),
		godbus.FieldMember:    godbus.MakeVariant(member),
	}})
}

func (s *Systemd) properties(c *request) {
	if s.holding && strings.HasPrefix(c.path, managerPath+"/job/") {
		s.held = append(s.held, c)
		return
	}
	iface := c.str(0)
	props := s.propertiesOf(c.path, iface)
	if props == nil {
		c.refuse("org.freedesktop.DBus.Error.UnknownObject", "unknown object "+c.path)
		return
	}
	if c.member == "GetAll" {
		c.reply(props)
		return
	}
	v, ok := props[c.str(1)]
	if !ok {
		c.refuse("org.freedesktop.DBus.Error.UnknownProperty", "unknown property "+c.str(1))
		return
	}
	c.reply(v)
}

func (s *Systemd) propertiesOf(path, iface string) map[string]godbus.Variant {
	v := func(x any) godbus.Variant { return godbus.MakeVariant(x) }
	switch {
	case path == managerPath:
		return map[string]godbus.Variant{"Version": v("systemdtest"), "SystemState": v("running")}
	case strings.HasPrefix(path, managerPath+"/job/"):
		id, _ := strconv.ParseUint(path[len(managerPath+"/job/"):], 10, 32)
		j := s.jobs[uint32(id)]
		if j == nil {
			return nil
		}
		return map[string]godbus.Variant{
			"Id": v(j.id), "JobType": v(j.typ), "State": v("running"),
			"Unit": v(unitLink{j.unit, godbus.ObjectPath(UnitPath(j.unit))}),
		}
	case strings.HasPrefix(path, managerPath+"/unit/"):
		for name := range s.units {
			if UnitPath(name) == path {
				return s.unitProperties(name, iface)
			}
		}
	}
	return nil
}

type unitLink struct {
	Name string
	Path godbus.ObjectPath
}

type jobLink struct {
	ID   uint32
	Path godbus.ObjectPath
}

func (s *Systemd) unitProperties(name, iface string) map[string]godbus.Variant {
	u := s.units[name]
	v := func(x any) godbus.Variant { return godbus.MakeVariant(x) }
	if iface == serviceIface {
		return map[string]godbus.Variant{"Result": v(u.Result), "NRestarts": v(u.NRestarts), "MainPID": v(u.MainPID),
			"ExecMainCode": v(u.ExecMainCode), "ExecMainStatus": v(u.ExecMainStatus)}
	}
	path := godbus.ObjectPath("/")
	if u.job != 0 {
		path = godbus.ObjectPath(jobPath(u.job))
	}
	id, _ := hex.DecodeString(u.InvocationID)
	return map[string]godbus.Variant{
		"Id": v(name), "LoadState": v(u.Load), "ActiveState": v(u.Active), "SubState": v(u.Sub),
		"Requires":     v(append([]string{}, u.Requires...)),
		"InvocationID": v(id), "StateChangeTimestampMonotonic": v(u.stateChange),
		"Job": v(jobLink{u.job, path}),
	}
}
