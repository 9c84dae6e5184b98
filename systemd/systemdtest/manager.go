package systemdtest

import (
	"fmt"
	"strings"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

var enqueues = map[string]string{
	"StartUnit": "start", "StopUnit": "stop", "RestartUnit": "restart",
	"ReloadUnit": "reload", "TryRestartUnit": "restart", "StartTransientUnit": "start",
}

// manager answers one Manager method; callers hold mu.
func (s *Systemd) manager(c *request) {
	if typ := enqueues[c.member]; typ != "" {
		s.record(Call{Method: c.member, Unit: c.str(0), Mode: c.str(1)})
		if !s.refused(c) {
			s.enqueue(c, typ)
		}
		return
	}
	switch c.member {
	case "CancelJob":
		s.record(Call{Method: c.member, JobID: c.num()})
	case "ResetFailedUnit", "UnrefUnit":
		s.record(Call{Method: c.member, Unit: c.str(0)})
	case "Subscribe", "Unsubscribe", "Reboot", "Reload":
		s.record(Call{Method: c.member})
	}
	if s.refused(c) {
		return
	}
	switch c.member {
	case "Subscribe":
		if s.clients[c.sender] {
			c.refuse(errPrefix+"AlreadySubscribed", "Client is already subscribed.")
			return
		}
		s.clients[c.sender] = true
		c.reply()
	case "Unsubscribe":
		delete(s.clients, c.sender)
		c.reply()
	case "LoadUnit":
		s.unit(c.str(0))
		c.reply(godbus.ObjectPath(UnitPath(c.str(0))))
	case "ListUnitsByNames":
		c.reply(s.rows(c))
	case "GetUnit":
		if s.units[c.str(0)] == nil {
			c.refuse(errPrefix+"NoSuchUnit", "Unit "+c.str(0)+" not loaded.")
			return
		}
		c.reply(godbus.ObjectPath(UnitPath(c.str(0))))
	case "GetJob", "CancelJob":
		j := s.jobs[c.num()]
		if j == nil {
			c.refuse(errPrefix+"NoSuchJob", fmt.Sprintf("Job %d does not exist.", c.num()))
			return
		}
		if c.member == "GetJob" {
			c.reply(godbus.ObjectPath(jobPath(j.id)))
			return
		}
		c.reply()
		s.finish(j, "canceled")
	case "ResetFailedUnit":
		if u := s.unit(c.str(0)); u.Active == "failed" {
			u.Active = "inactive"
			s.changed(c.str(0))
		}
		c.reply()
	case "Reload":
		s.signal(managerPath, managerIface, "Reloading", true)
		c.reply()
		s.signal(managerPath, managerIface, "Reloading", false)
	case "Reboot", "UnrefUnit":
		c.reply()
	default:
		c.refuse("org.freedesktop.DBus.Error.UnknownMethod", "Unknown method "+c.member)
	}
}

// unitRow is a row of ListUnitsByNames.
type unitRow struct {
	Name, Description, Load, Active, Sub, Following string
	Path                                            godbus.ObjectPath
	JobID                                           uint32
	JobType                                         string
	JobPath                                         godbus.ObjectPath
}

func (s *Systemd) rows(c *request) []unitRow {
	names, _ := c.m.Body[0].([]string)
	rows := make([]unitRow, 0, len(names))
	for _, name := range names {
		u := s.unit(name)
		row := unitRow{Name: name, Load: u.Load, Active: u.Active, Sub: u.Sub, Path: godbus.ObjectPath(UnitPath(name)), JobPath: "/"}
		if j := s.jobs[u.job]; j != nil {
			row.JobID, row.JobType, row.JobPath = j.id, j.typ, godbus.ObjectPath(jobPath(j.id))
		}
		rows = append(rows, row)
	}
	return rows
}

func (s *Systemd) record(c Call) {
	c.At = time.Now()
	s.calls = append(s.calls, c)
	s.called.Broadcast()
}

func (s *Systemd) refused(c *request) bool {
	name := s.refuse[c.member]
	if name != "" {
		c.refuse(name, "refused by the test")
	}
	return name != ""
}

func (s *Systemd) enqueue(c *request, typ string) {
	name := c.str(0)
	script := s.scripts[name]
	if script.Once {
		delete(s.scripts, name)
	}
	u := s.unit(name)
	switch {
	case script.Refuse != "":
		c.refuse(script.Refuse, "refused by the test")
		return
	case u.Load == "masked":
		c.refuse(errPrefix+"UnitMasked", "Unit "+name+" is masked.")
		return
	case u.Load == "not-found":
		c.refuse(errPrefix+"NoSuchUnit", "Unit "+name+" not found.")
		return
	}
	j := s.queue(name, typ, true, script)
	script = j.script // of the job that was joined, if there was one
	path := godbus.ObjectPath(jobPath(j.id))
	if script.EndBeforeReply {
		s.finish(j, script.result())
	}
	if script.ReplyDelay > 0 {
		s.late = append(s.late, time.AfterFunc(script.ReplyDelay, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			c.reply(path)
		}))
	} else {
		c.reply(path)
	}
	s.follow(script)
	if !script.Unfinished && !script.EndBeforeReply {
		s.finish(j, script.result())
	}
}

// follow queues the other jobs of a transaction and ends those that are not
// scripted to stay.
func (s *Systemd) follow(script Script) {
	var jobs []*job
	for _, name := range script.Stops {
		if u := s.unit(name); u.Active != "inactive" || u.job != 0 {
			jobs = append(jobs, s.queue(name, "stop", true, Script{}))
		}
	}
	for _, name := range script.Pulls {
		jobs = append(jobs, s.queue(name, "start", true, s.scripts[name]))
	}
	for _, j := range jobs {
		if !j.script.Unfinished {
			s.finish(j, j.script.result())
		}
	}
}

func (sc Script) result() string {
	if sc.Result == "" {
		return "done"
	}
	return sc.Result
}

// queue installs a job: an equal one is joined, another one is replaced.
func (s *Systemd) queue(name, typ string, client bool, script Script) *job {
	u := s.unit(name)
	if old := s.jobs[u.job]; old != nil {
		if old.typ == typ {
			return old
		}
		s.end(old, "canceled")
	}
	s.nextJob++
	j := &job{id: s.nextJob, unit: name, typ: typ, client: client, script: script}
	s.jobs[j.id] = j
	u.job = j.id
	s.jobSignal(j, "JobNew", j.id, godbus.ObjectPath(jobPath(j.id)), name)
	if typ != "stop" && u.Active != "active" {
		u.Active = "activating"
		s.stamp(u, true)
	}
	s.changed(name)
	return j
}

// finish moves the unit and ends the job, in this order: systemd tells the end
// last, too.
func (s *Systemd) finish(j *job, result string) {
	u := s.unit(j.unit)
	u.job = 0
	before := u.Active
	u.Active = ending(j.typ, result, before)
	if j.script.Active != "" {
		u.Active = j.script.Active
	}
	if before != u.Active || j.typ == "restart" {
		s.stamp(u, j.typ == "restart")
	}
	s.changed(j.unit)
	s.end(j, result)
}

func ending(typ, result, before string) string {
	switch {
	case typ == "stop" && result == "done":
		return "inactive"
	case result == "done":
		return "active"
	case result == "failed", result == "timeout":
		return "failed"
	case before == "activating":
		return "inactive"
	default:
		return before
	}
}

func (s *Systemd) end(j *job, result string) {
	delete(s.jobs, j.id)
	if u := s.unit(j.unit); u.job == j.id {
		u.job = 0
	}
	s.jobSignal(j, "JobRemoved", j.id, godbus.ObjectPath(jobPath(j.id)), j.unit, result)
}

// jobSignal goes out if somebody subscribed, or asked for this very job.
func (s *Systemd) jobSignal(j *job, member string, body ...any) {
	if len(s.clients) > 0 || j.client {
		s.signal(managerPath, managerIface, member, body...)
	}
}

func (s *Systemd) changed(name string) {
	if len(s.clients) > 0 {
		s.signal(UnitPath(name), propsIface, "PropertiesChanged", unitIface,
			map[string]godbus.Variant{"ActiveState": godbus.MakeVariant(s.units[name].Active)}, []string{})
	}
}

func (s *Systemd) unit(name string) *Unit {
	u := s.units[name]
	if u == nil {
		u = &Unit{Load: "loaded", Active: "inactive", Sub: "dead"}
		if strings.HasSuffix(name, ".service") {
			u.Result = "success"
		}
		s.units[name] = u
	}
	return u
}

func (s *Systemd) stamp(u *Unit, newInvocation bool) {
	u.stateChange = monotonicMicros()
	u.Sub = map[string]string{"active": "active", "failed": "failed", "activating": "start"}[u.Active]
	if u.Sub == "" {
		u.Sub = "dead"
	}
	if newInvocation {
		s.nextInv++
		u.InvocationID = fmt.Sprintf("%032x", s.nextInv)
	}
}

// monotonicMicros is systemd's clock for its time stamps.
func monotonicMicros() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the clock is always there
	}
	return uint64(ts.Nano() / 1000)
}

func jobPath(id uint32) string { return fmt.Sprintf("%s/job/%d", managerPath, id) }
