package monitor

import (
	"fmt"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// observation is one report that the table is asked about.
type observation struct {
	_ state.Incomparable

	status        int
	n             int // how often it counts
	cause         Cause
	elapsed       time.Duration
	detail        string
	grace         bool // the probe began inside the start grace
	death         bool // not a probe but a death: a denial is followed by a local restart
	byOthers      bool // the service manager has restarted it already
	restartFailed bool // not a new failure: the restart for it has failed
	local         bool // the one local restart after a denied escalation
}

// maxDeaths bounds how many deaths one report can count.
const maxDeaths = maxHistory

func (r *Resource) inputs(o observation) Inputs {
	return Inputs{
		Status: o.status, Sum: r.hist.sum(), Restarts: len(r.hist.restarts),
		RetryCount: r.cfg.RetryCount, RetryInterval: r.cfg.RetryInterval,
		Mode: r.cfg.Mode, Escalation: r.cfg.Escalation, DryRun: r.cfg.DryRun,
		Grace: o.grace, Suppressed: len(r.badParents) > 0,
		Suspended: len(r.suspensions) > 0, Quiesced: r.quiesced,
		RestartFailed: o.restartFailed, LocalRetry: o.local,
	}
}

// observe counts a report where it counts, and acts on it.
func (r *Resource) observe(o observation) {
	if r.phase == restarting || r.phase == ended { // of an instance that nobody watches
		return
	}
	r.prune()
	hidden := o.grace || len(r.badParents) > 0
	if validStatus(o.status) && o.status > 0 && !hidden {
		r.count(o)
	}
	if r.phase == escalating { // the answer decides
		r.work.seen.death = r.work.seen.death || o.death
		return
	}
	r.judge(o)
}

func (r *Resource) count(o observation) {
	r.forgiveIfStable()
	r.stable = unset
	r.health.lastFailure = r.now.Boot
	r.counters.Failures[o.cause] += uint64(o.n)
	for range o.n {
		r.hist.addFailure(Failure{Mark: r.mark(), Weight: min(o.status, threshold), Cause: o.cause, Elapsed: o.elapsed})
	}
	r.dirty = true
}

// judge asks the table about o, which has been counted, and acts.
func (r *Resource) judge(o observation) {
	r.prune()
	in := r.inputs(o)
	row, d := decide(in)
	r.logRow(row, d, in, o)
	switch d {
	case Nothing:
		r.good()
	case MonitorError:
		r.counters.MonitorErrors++
		r.stable = unset // what is not seen is not stable
		r.set(StatusUnknown, "monitor error: "+r.describe(o))
	case Suppressed:
		r.set(StatusDegraded, r.parentMessage())
	case Suspended:
		r.judgeSuspended(in, o)
	case IsQuiesced:
		r.quiesceAgain(in)
	case Partial:
		r.set(StatusDegraded, fmt.Sprintf("partial %d/%d: %s", in.Sum, threshold, r.describe(o)))
	case WouldRestart, WouldEscalate:
		r.pretend(d, o)
	case DoRestart:
		if o.byOthers {
			r.noteForeignRestart(o)
			return
		}
		r.want(d, o)
	case DoEscalate:
		r.want(d, o)
	case Exhausted:
		r.set(StatusFaulted, fmt.Sprintf("retry limit: %d restarts within %s: %s", in.Restarts, r.interval(), r.describe(o)))
	case RestartGaveUp:
		r.set(StatusFaulted, "restart failed: "+r.describe(o))
	}
}

// judgeSuspended shows the status that the histories give; nothing is done.
func (r *Resource) judgeSuspended(in Inputs, o observation) {
	switch {
	case in.Status == ProbeOK:
		r.good()
	case in.Sum < threshold:
		r.set(StatusDegraded, fmt.Sprintf("partial %d/%d: %s", in.Sum, threshold, r.describe(o)))
	default:
		r.set(StatusFaulted, r.describe(o))
	}
}

// pretend shows what would have been done. LOG_ONLY leaves the histories
// alone; a dry run keeps them as if the restart had been made and had worked.
func (r *Resource) pretend(d Decision, o observation) {
	if d == WouldRestart && r.cfg.Mode != ModeLogOnly {
		r.hist.addRestart(r.mark())
		r.hist.forgive()
		r.dirty = true
	}
	r.set(StatusFaulted, fmt.Sprintf("%s: %s", d, r.describe(o)))
}

// good is a probe that found the resource healthy. It erases no history, and says
// nothing of a host whose power has not come back.
func (r *Resource) good() {
	if r.power.lost {
		return
	}
	if r.stable == unset {
		r.stable = r.now.Boot
	}
	r.dropPending("a good probe came first")
	r.health.bad = false
	if len(r.badParents) > 0 {
		r.set(StatusDegraded, r.parentMessage())
		return
	}
	if r.health.ill {
		r.log(Recovered, "stable since boot time %v", r.stable)
	}
	r.set(StatusOK, "")
}

// forgiveIfStable forgets back-off and denials after StableFor without a
// failure.
func (r *Resource) forgiveIfStable() {
	if r.stable != unset && r.now.Boot-r.stable >= r.cfg.StableFor {
		r.step, r.escalation.denials = 0, 0
	}
}

// died takes a death. One failure seen in several ways counts once: by
// invocation, by generation, and by a probe that was failing as it happened.
func (r *Resource) died(ev Died) {
	known := ev.Invocation != ""
	stale := ev.Generation != 0 && ev.Generation < r.generation ||
		known && (ev.Invocation == r.dead || ev.Invocation == r.previous)
	switch {
	case r.presence != present || r.phase == ended:
		return
	case stale:
		r.counters.Stale++
		return
	case r.phase == restarting:
		r.diedInRestart(ev)
		return
	}
	if known {
		r.dead = ev.Invocation
		r.setInvocation(ev.Invocation)
	}
	n := min(max(ev.N, 1), maxDeaths)
	if r.seenByProbe(ev.At) {
		n--
	}
	r.abandonProbe()
	o := observation{status: ProbeCompleteFailure, n: n, cause: CauseDeath, death: true, detail: ev.Detail}
	switch {
	case ev.Restarted:
		r.restartedByOthers(o)
	case n > 0:
		r.observe(o)
	}
}

// setInvocation notes which invocation is watched, "" = not known.
func (r *Resource) setInvocation(invocation string) {
	if r.invocation != "" && r.invocation != invocation {
		r.previous = r.invocation
	}
	r.invocation = invocation
}

// diedInRestart keeps the death of the new instance until the restart's
// answer; the end of the old one is what the restart is for.
func (r *Resource) diedInRestart(ev Died) {
	other := ev.Invocation != "" && r.invocation != "" && ev.Invocation != r.invocation
	if (ev.Generation == r.generation || other) && len(r.work.early) < maxDeaths {
		r.work.early = append(r.work.early, ev)
	}
}

func (r *Resource) seenByProbe(at time.Duration) bool {
	l := r.probing.last
	if at == 0 {
		at = r.now.Boot
	}
	return l.failed && l.instance == r.instance && at >= l.start && at <= l.end
}

// restartedByOthers counts each death with the restart that the service
// manager has made for it, until the limit.
func (r *Resource) restartedByOthers(o observation) {
	o.byOthers = true
	n := o.n
	o.n = 1
	for range n {
		r.observe(o)
		if r.phase != watching {
			return
		}
	}
	r.instance++
	r.startGrace()
}

// noteForeignRestart books a restart that others have made.
func (r *Resource) noteForeignRestart(o observation) {
	r.dropPending("the service manager has restarted it")
	r.hist.addRestart(r.mark())
	r.hist.forgive()
	r.flap.add(r.now.Boot)
	r.health.bad = true
	r.counters.RestartsByOthers++
	r.log(RestartedByOthers, "restart %d of %s", len(r.hist.restarts), r.limit())
	r.set(StatusDegraded, "restarted by the service manager: "+r.describe(o))
}

// describe says in words what o is.
func (r *Resource) describe(o observation) string {
	var b strings.Builder
	switch {
	case o.restartFailed || o.cause == 0:
	case o.cause == CauseProbe:
		fmt.Fprintf(&b, "probe reported %d", o.status)
	case o.cause == CauseTimeout:
		b.WriteString("probe")
	default:
		b.WriteString(o.cause.String())
	}
	if o.n > 1 {
		fmt.Fprintf(&b, " x%d", o.n)
	}
	if o.detail != "" {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(o.detail)
	}
	if b.Len() == 0 {
		fmt.Fprintf(&b, "status %d", o.status)
	}
	return b.String()
}

func (r *Resource) limit() string {
	if r.cfg.RetryCount < 0 {
		return "unlimited"
	}
	return fmt.Sprint(r.cfg.RetryCount)
}

func (r *Resource) interval() string {
	if r.cfg.RetryInterval < 0 {
		return "all time"
	}
	return r.cfg.RetryInterval.String()
}
