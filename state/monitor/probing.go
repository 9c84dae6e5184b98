package monitor

import (
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// nearTimeout is the share of the time-out, in percent, from which a probe is
// called slow.
const nearTimeout = 80

// probing is when probes are due and the one in flight.
type probing struct {
	_ state.Incomparable

	slot         *slot
	nextThorough time.Duration
	nextCheap    time.Duration
	graceUntil   time.Duration
	last         probeSpan
	slow         bool // the last probe was, and it was said
}

// slot is the one place for a probe. It stays taken until the executor has
// answered, so that a resource never has more than one probe stuck.
type slot struct {
	_ state.Incomparable

	tag       Tag
	instance  uint64
	thorough  bool
	start     time.Duration
	deadline  timer
	abandoned bool // its result will be dropped
}

// probeSpan is the last probe that counted as a complete failure: a death
// within it is the same failure.
type probeSpan struct {
	_ state.Incomparable

	failed     bool
	instance   uint64
	start, end time.Duration
}

// startGrace begins the grace of a new instance. The next probe comes after it.
func (r *Resource) startGrace() {
	now, g := r.now.Boot, r.cfg.StartGrace
	r.probing.graceUntil = now + g
	r.probing.last = probeSpan{}
	if g == 0 {
		r.scheduleProbes()
		return
	}
	r.probing.nextThorough, r.probing.nextCheap = now+g, now+g
}

// scheduleProbes sleeps one interval from now, as the DSDL loop does.
func (r *Resource) scheduleProbes() {
	r.probing.nextThorough = r.now.Boot + r.cfg.ThoroughProbe
	r.scheduleCheap()
}

func (r *Resource) scheduleCheap() {
	r.probing.nextCheap = r.now.Boot + r.cfg.CheapProbe
}

func (r *Resource) canProbe() bool { return r.phase == watching && r.presence == present }

// probeDeadline returns when the probing wants to be woken next.
func (r *Resource) probeDeadline() time.Duration {
	p := &r.probing
	switch {
	case p.slot != nil && !p.slot.abandoned:
		return p.slot.deadline.at
	case !r.canProbe():
		return never
	case r.cfg.CheapProbe > 0:
		return min(p.nextThorough, p.nextCheap)
	default:
		return p.nextThorough
	}
}

func (r *Resource) startDueProbe() {
	p, now := &r.probing, r.now.Boot
	thorough := now >= p.nextThorough
	cheap := r.cfg.CheapProbe > 0 && now >= p.nextCheap
	if !r.canProbe() || !thorough && !cheap {
		return
	}
	switch {
	case p.slot == nil:
		r.startProbe(thorough)
	case p.slot.abandoned:
		r.stuckProbe()
	}
}

func (r *Resource) startProbe(thorough bool) {
	r.counters.Probes++
	tag := Tag{r.generation, r.counters.Probes}
	deadline := r.now.Boot + r.cfg.ProbeTimeout
	r.probing.slot = &slot{
		tag: tag, instance: r.instance, thorough: thorough,
		start: r.now.Boot, deadline: timer{at: deadline},
	}
	r.emit(StartProbe{Resource: r.cfg.Name, Tag: tag, Thorough: thorough, Deadline: deadline})
}

func (r *Resource) probeNow() {
	s := r.probing.slot
	switch {
	case !r.canProbe():
		r.refuse("%s is not being probed: %s", r.cfg.Name, r.health.message)
	case s == nil:
		r.startProbe(true)
	case s.abandoned:
		r.refuse("the probe of %s that began at %v has not returned", r.cfg.Name, s.start)
	}
}

// abandonProbe drops the probe in flight: it asked an instance that is gone,
// or ran out of time. The executor has until the next probe to end it.
func (r *Resource) abandonProbe() {
	if s := r.probing.slot; s != nil && !s.abandoned {
		s.abandoned = true
		r.scheduleProbes()
		r.emit(CancelProbe{Resource: r.cfg.Name, Tag: s.tag})
	}
}

// probeOverdue counts a probe that missed its deadline.
func (r *Resource) probeOverdue() {
	s := r.probing.slot
	if s == nil || s.abandoned || !r.expired(&s.deadline, r.cfg.ProbeTimeout) {
		return
	}
	r.abandonProbe()
	r.probed(s, r.timedOut(s, r.now.Boot-s.start))
}

// timedOut is a probe without an answer within ProbeTimeout.
func (r *Resource) timedOut(s *slot, elapsed time.Duration) observation {
	r.counters.Timeouts++
	return observation{
		status: r.cfg.TimeoutWeight, n: 1, cause: CauseTimeout, elapsed: elapsed,
		grace: s.start < r.probing.graceUntil, detail: fmt.Sprintf("no answer within %v", r.cfg.ProbeTimeout),
	}
}

// stuckProbe is called when a probe is due and the place is still taken. For
// the same instance that is one more missing answer; of a new one it says
// nothing.
func (r *Resource) stuckProbe() {
	s := r.probing.slot
	r.scheduleProbes()
	detail := fmt.Sprintf("the probe begun at %v has not returned", s.start)
	if s.instance != r.instance {
		r.observe(observation{status: ProbeMonitorError, detail: detail})
		return
	}
	r.observe(observation{status: r.cfg.TimeoutWeight, n: 1, cause: CauseStuck, detail: detail,
		grace: s.start < r.probing.graceUntil})
}

func (r *Resource) probeResult(ev ProbeResult) {
	s := r.probing.slot
	if s == nil || s.tag != ev.Tag {
		r.counters.Stale++
		return
	}
	r.probing.slot = nil
	if s.abandoned {
		r.counters.Stale++
		return
	}
	elapsed := ev.Elapsed
	if elapsed <= 0 {
		elapsed = r.now.Boot - s.start
	}
	r.counters.observe(elapsed)
	o := observation{
		status: ev.Status, n: 1, cause: CauseProbe, elapsed: elapsed, detail: ev.Detail,
		grace: s.start < r.probing.graceUntil,
	}
	if elapsed > r.cfg.ProbeTimeout && validStatus(ev.Status) && ev.Status < r.cfg.TimeoutWeight {
		o = r.timedOut(s, elapsed) // a slow success is a failure
	}
	r.noteSlow(elapsed)
	r.probed(s, o)
}

// noteSlow warns once, until a probe is fast again.
func (r *Resource) noteSlow(elapsed time.Duration) {
	slow := elapsed*100 >= r.cfg.ProbeTimeout*nearTimeout
	if slow && !r.probing.slow {
		r.log(SlowProbe, "probe took %v of %v", elapsed, r.cfg.ProbeTimeout)
	}
	r.probing.slow = slow
}

// probed takes what a probe saw, sleeping an interval from here.
func (r *Resource) probed(s *slot, o observation) {
	if s.thorough {
		r.probing.nextThorough = r.now.Boot + r.cfg.ThoroughProbe
	}
	r.scheduleCheap()
	r.probing.last = probeSpan{
		failed: validStatus(o.status) && o.status >= threshold && !o.grace, instance: s.instance,
		start: s.start, end: r.now.Boot,
	}
	r.observe(o)
}
