package monitor

import (
	"reflect"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// maxSuspensions bounds how many owners can suspend one resource.
const maxSuspensions = 16

// Suspension is one owner's maintenance of a resource.
type Suspension struct {
	_ state.Incomparable

	Owner string        `json:"owner"`
	Until time.Duration `json:"until"` // boot time; never = until Resume
}

// Suspensions returns who has suspended the resource.
func (r *Resource) Suspensions() []Suspension { return append([]Suspension(nil), r.suspensions...) }

func (r *Resource) suspend(ev Suspend) {
	i := len(r.suspensions) - 1
	for i >= 0 && r.suspensions[i].Owner != ev.Owner {
		i--
	}
	switch {
	case ev.Owner == "":
		r.refuse("a suspension needs an owner")
		return
	case ev.For < 0:
		r.refuse("a suspension cannot last %v: give 0 (until Resume) or more", ev.For)
		return
	case i < 0 && len(r.suspensions) >= maxSuspensions:
		r.refuse("%s is suspended by %d owners already: resume one", r.cfg.Name, maxSuspensions)
		return
	}
	s := Suspension{Owner: ev.Owner, Until: never}
	if ev.For > 0 && ev.For < never-r.now.Boot {
		s.Until = r.now.Boot + ev.For
	}
	if i < 0 {
		r.suspensions = append(r.suspensions, s)
	} else {
		r.suspensions[i] = s
	}
	r.dirty = true
	r.log(WasSuspended, "by %s", ev.Owner)
	r.dropPending("suspended by " + ev.Owner)
}

func (r *Resource) resume(ev Resume) {
	mine := func(s Suspension) bool { return ev.All || s.Owner == ev.Owner }
	if !r.endSuspensions(mine, "by "+ev.Owner) {
		r.refuse("%s is not suspended by %q", r.cfg.Name, ev.Owner)
	}
}

// expireSuspensions comes before the event of a step: what happens after an
// expiry finds the resource resumed.
func (r *Resource) expireSuspensions() {
	r.endSuspensions(func(s Suspension) bool { return r.now.Boot >= s.Until }, "expired")
}

// endSuspensions reports whether there was one to end.
func (r *Resource) endSuspensions(which func(Suspension) bool, why string) bool {
	var left []Suspension
	for _, s := range r.suspensions {
		if !which(s) {
			left = append(left, s)
		}
	}
	if len(left) == len(r.suspensions) {
		return false
	}
	r.suspensions = left
	r.dirty = true
	r.log(WasResumed, "%s", why)
	if len(r.suspensions) == 0 {
		r.hist.clear() // what maintenance broke is nobody's failure
	}
	return true
}

func (r *Resource) suspensionExpiry() time.Duration {
	at := never
	for _, s := range r.suspensions {
		at = min(at, s.Until)
	}
	return at
}

func (r *Resource) owners() string {
	names := make([]string, len(r.suspensions))
	for i, s := range r.suspensions {
		names[i] = s.Owner
	}
	return strings.Join(names, ", ")
}

// rearm forgets all that has led to where the resource is.
func (r *Resource) rearm(why string) {
	r.dropPending(why)
	r.hist.clear()
	r.flap = flap{on: r.flap.on}
	r.step, r.stable = 0, unset
	r.quiesced = false
	e := &r.escalation
	e.denials, e.deniedAt, e.quiesceDone, e.quiesceAt = 0, unset, false, 0
	if r.phase == ended {
		r.phase = watching
	}
	if r.phase != escalating {
		e.attempt++ // a late answer is nobody's any more
	}
	r.dirty = true
}

func (r *Resource) reset() {
	r.rearm("reset")
	r.log(WasReset, "histories cleared")
	if r.presence == present && r.phase == watching {
		r.set(StatusUnknown, "reset, not probed yet")
		r.probing.nextThorough = r.now.Boot
	}
}

// operatorOn re-arms a resource that was off, quiesced or given over. One that
// is watched already keeps its history: a client that repeats On must not
// defeat the limit.
func (r *Resource) operatorOn() {
	if r.presence == present && !r.quiesced && r.phase != ended {
		r.dropPending("turned on by an operator")
		return
	}
	r.rearm("turned on by an operator")
	r.cancelWork()
	r.setInvocation("") // a new one, not known yet
	r.comeOnline()
}

func (r *Resource) goAbsent(reason string) {
	if r.presence != operatorOff && r.phase != restarting {
		r.goOffline(absent, reason)
	}
}

func (r *Resource) goOffline(p presence, reason string) {
	r.cancelWork()
	r.dropPending("offline")
	r.abandonProbe()
	r.power.lostAt = never
	if r.presence != p {
		r.log(WentOffline, "%s", reason)
		r.dirty = true
	}
	r.presence = p
	r.set(StatusOffline, reason)
}

// started is a new instance that others have started: F belongs to the old one.
func (r *Resource) started(invocation string) {
	known := invocation != "" && invocation == r.invocation
	if invocation != "" {
		r.setInvocation(invocation)
	}
	switch {
	case r.phase == restarting, r.presence == operatorOff, known && r.presence == present:
		return
	case r.presence == absent:
		r.hist.forgive()
		r.comeOnline()
	case r.phase == watching:
		r.dropPending("started by others")
		r.hist.forgive()
		r.newInstance()
	}
}

func (r *Resource) newInstance() {
	r.abandonProbe()
	r.instance++
	r.stable = unset
	r.startGrace()
	r.dirty = true
}

func (r *Resource) comeOnline() {
	r.presence = present
	r.newInstance()
	r.health.bad = true // until a good probe
	r.log(WentOnline, "watched again")
	switch {
	case r.phase == ended:
		r.set(StatusFaulted, r.gaveOverMessage())
	case r.quiesced:
		r.set(StatusFaulted, "quiesced")
	default:
		r.set(StatusUnknown, "started, not probed yet")
	}
}

func (r *Resource) lostSight(reason string) {
	r.abandonProbe()
	r.stable = unset
	if r.presence == present && r.phase == watching && !r.quiesced {
		r.set(StatusUnknown, reason)
	}
}

// newIntent drops what was decided before the operator spoke. What is in
// flight carries the older generation and ends CANCELLED at launch.
func (r *Resource) newIntent(generation uint64) {
	if generation <= r.intent {
		return
	}
	r.intent = generation
	r.dirty = true
	r.dropPending("a newer intent of an operator")
}

func (r *Resource) parentBad(parent string) {
	if state.Contains(r.badParents, parent) {
		return
	}
	r.badParents = append(r.badParents, parent)
	state.Sort(r.badParents)
	r.dropPending("dependency " + parent)
	if r.presence == present && r.phase == watching && r.health.status != StatusFaulted {
		r.set(StatusDegraded, r.parentMessage())
	}
}

func (r *Resource) parentGood(parent string) {
	if !state.Contains(r.badParents, parent) {
		return
	}
	r.badParents = state.Remove(r.badParents, parent)
	if len(r.badParents) > 0 || r.presence != present || r.phase != watching {
		return
	}
	r.abandonProbe()
	r.startGrace()
	if r.health.status == StatusDegraded {
		r.set(StatusDegraded, "dependency "+parent+" is good again, not probed yet")
	}
}

func (r *Resource) parentMessage() string { return "dependency " + strings.Join(r.badParents, ", ") }

func (r *Resource) setInhibit(reason string) {
	if r.inhibit = reason; reason == "" {
		r.releaseHold()
	}
}

func (r *Resource) configure(c Config) {
	if c.Name != r.cfg.Name {
		r.refuse("the name %q cannot become %q", r.cfg.Name, c.Name)
		return
	}
	if _, err := c.Validate(); err != nil {
		r.refuse("%v", err)
		return
	}
	if reflect.DeepEqual(c, r.cfg) {
		return
	}
	r.cfg = c
	p, now := &r.probing, r.now.Boot
	p.nextThorough = min(p.nextThorough, now+c.ThoroughProbe)
	p.nextCheap = min(p.nextCheap, now+c.CheapProbe)
	r.dirty = true
	r.log(Reconfigured, "RetryCount %s, RetryInterval %s, %s", r.limit(), r.interval(), c.Mode)
}
