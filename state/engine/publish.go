package engine

import (
	"reflect"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
)

// finishedObjects is how many finished launches stay objects on the bus
// (DESIGN.md §6).
const finishedObjects = 16

// shown is what was published last.
type shown struct {
	host     state.Host
	chassis  state.Chassis
	schedule state.Schedule
	slot     state.Chassis
	panel    state.Panel
	settings state.Settings
	queue    state.Queue
	once     bool
}

// publish shows what differs from what was shown. The order is what readers
// rely on: requests, chassis, host, queue.
func (d *domain) publish() {
	d.publishRestored()
	d.publishRequests()
	first := !d.shown.once
	d.shown.once = true
	if c := d.chassis(); first || c != d.shown.chassis {
		d.shown.chassis = c
		for _, i := range d.cfg.Chassis {
			d.core.emit(publishChassis{index: i, chassis: c})
		}
	}
	if h := d.host(); first || !reflect.DeepEqual(h, d.shown.host) {
		if cameUp := h.Current == state.HostStateRunning && d.shown.host.Current != state.HostStateRunning; cameUp && !first && d.hands.phase == 0 {
			d.values.hostCameUp()
		}
		d.shown.host = h
		for _, i := range d.cfg.Hosts {
			d.core.emit(publishHost{i, h})
		}
	}
	if p := d.panel(); first || p != d.shown.panel {
		d.shown.panel = p
		for _, i := range d.cfg.Hosts {
			d.core.emit(publishPanel{host: i, panel: p})
		}
	}
	if s := d.schedule(); first || s != d.shown.schedule {
		d.shown.schedule = s
		for _, i := range d.cfg.Hosts {
			d.core.emit(publishSchedule{index: i, schedule: s})
		}
	}
	d.publishSettings(first)
	if s := d.slot(); d.cfg.Slot != 0 && (first || s != d.shown.slot) {
		d.shown.slot = s
		d.core.emit(publishSystem{index: d.cfg.Slot, chassis: s})
	}
	if q := d.queue(); first || q != d.shown.queue {
		d.saveCounters(q, d.shown.queue)
		d.shown.queue = q
		d.core.emit(publishQueue{domain: d.cfg.ID, queue: q})
	}
	if _, known := d.powered(); known {
		d.values.lastHost, d.values.lastPower = d.shown.host.Current, d.shown.chassis.Current
		if !d.values.lastHost.Transitional() {
			d.values.saved.Running = d.values.lastHost == state.HostStateRunning
		}
	}
	d.save()
}

// countersEvery is how often counters that no launch moved are journalled: a
// client that repeats itself all day must not wear the flash out.
const countersEvery = time.Minute

// saveCounters journals the totals: with each launch, and now and then.
func (d *domain) saveCounters(q, before state.Queue) {
	totals := history.Counters{Launches: q.Launches, DuplicatesSuppressed: q.DuplicatesSuppressed, Refused: q.Refused}
	if totals == d.counted || q.Launches == before.Launches && d.boot() < d.countedAt+countersEvery {
		return
	}
	d.counted, d.countedAt = totals, d.boot()
	d.core.record(d, history.Entry{Kind: history.KindCounters, Domain: d.cfg.ID, Counters: totals})
}

var allowedTransitions = []state.Operation{
	state.HostOff, state.HostOn, state.HostReboot, state.HostGracefulWarmReboot, state.HostForceWarmReboot,
}

func (d *domain) host() state.Host {
	s := d.values.saved
	h := state.Host{
		Requested: state.HostOff, Current: d.hostState(), RestartCause: s.RestartCause, Allowed: allowedTransitions,
		BootProgress: s.Progress, BootProgressUpdate: s.ProgressAt, OS: s.OS,
		AttemptsLeft: s.AttemptsLeft, RetryAttempts: s.Retry, Hypervisor: s.Hypervisor,
	}
	if s.Inherited != 0 {
		h.Requested = s.Inherited
	}
	if n, ok := d.q.Newest(state.Object{Kind: state.KindHost, Index: d.cfg.Hosts[0]}); ok {
		h.Requested = n.Op
	}
	return h
}

func (d *domain) chassis() state.Chassis {
	s := d.values.saved
	c := state.Chassis{
		Requested: state.ChassisOff, Current: d.powerState(), Status: d.powerStatus,
		LastStateChange: s.StateChange, POHCounter: s.POH,
	}
	if n, ok := d.q.Newest(state.Object{Kind: state.KindChassis, Index: d.cfg.Chassis[0]}); ok {
		c.Requested = n.Op
	}
	if _, known := d.powered(); !known {
		c.Status = state.PowerStatusUndefined
	}
	return c
}

// slot is what the domain's slot shows.
func (d *domain) slot() state.Chassis {
	c := state.Chassis{Requested: state.ChassisOn, Status: state.PowerStatusGood}
	if n, ok := d.q.Newest(state.Object{Kind: state.KindSystem, Index: d.cfg.Slot}); ok {
		c.Requested = n.Op
	}
	s := &d.values.saved
	if on := d.levels.Slot == state.LevelOn; !d.levels.Slot.Known() {
		c.Status = state.PowerStatusUndefined
	} else if s.SlotChange == 0 || on != s.SlotOn {
		s.SlotOn, s.SlotChange = on, d.now().WallMillis()
	}
	if s.SlotOn {
		c.Current = state.PowerStateOn
	}
	c.LastStateChange = s.SlotChange
	return c
}

func (d *domain) schedule() state.Schedule {
	return state.Schedule{Time: d.values.saved.ScheduleTime, Transition: d.values.saved.ScheduleOp}
}

func (d *domain) queue() state.Queue {
	cfg, n := d.q.Config(), d.q.Counters()
	q := state.Queue{
		Policy: cfg.Policy, DepthLimit: uint32(max(cfg.DepthLimit, 0)), Depth: uint32(d.q.Depth()),
		Launches: n.Launches, DuplicatesSuppressed: n.DuplicatesSuppressed, Refused: n.Refused,
	}
	if r, ok := d.q.Running(); ok {
		q.Running = r.Seq
	}
	return q
}

// touch marks a request whose object may have changed.
func (d *domain) touch(seq uint64) { d.touched[seq] = true }

// publishRequests shows the requests that changed. One that is decided at once
// as NOOP or INVALID never becomes an object.
func (d *domain) publishRequests() {
	seqs := make([]uint64, 0, len(d.touched))
	for seq := range d.touched {
		seqs = append(seqs, seq)
	}
	state.Sort(seqs)
	for _, seq := range seqs {
		req, ok := d.q.Get(seq)
		if ok && (d.undurable[seq] || d.undecided(seq)) {
			continue // looked at again when it is decided
		}
		delete(d.touched, seq)
		if ok {
			d.publishOne(req)
			d.follow(&req)
		} else {
			d.remove(seq)
		}
	}
}

func (d *domain) publishOne(req state.Request) {
	old, isObject := d.live[req.Seq]
	final := req.Status.Final()
	if !isObject && final && !req.Launched || isObject && old.Status == req.Status && reflect.DeepEqual(old, req) {
		return
	}
	d.live[req.Seq] = req
	d.core.emit(publishRequest{d.cfg.ID, req})
	switch {
	case !final || isObject && old.Status.Final():
	case !req.Launched:
		d.remove(req.Seq)
	default:
		d.objects = append(d.objects, req.Seq)
		if len(d.objects) > finishedObjects {
			d.remove(d.objects[0])
		}
	}
}

// remove takes a request's object off the bus.
func (d *domain) remove(seq uint64) {
	d.objects = state.Remove(d.objects, seq)
	if _, ok := d.live[seq]; ok {
		delete(d.live, seq)
		d.core.emit(removeRequest{d.cfg.ID, seq})
	}
}

// publishRestored shows the newest finished launches of an earlier run.
func (d *domain) publishRestored() {
	for _, seq := range d.restored {
		d.objects = append(d.objects, seq)
		d.core.emit(publishRequest{d.cfg.ID, d.live[seq]})
	}
	d.restored = nil
}
