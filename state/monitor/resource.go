package monitor

import (
	"errors"
	"math"
	"reflect"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

const (
	never = time.Duration(math.MaxInt64) // a deadline that is not set
	unset = time.Duration(-1)            // a past instant that is not known

	// loopGap is how late a deadline may be noticed before the loop itself is
	// to blame (the BMC slept or was starved): it is then given once more.
	loopGap = 5 * time.Second
	// postponedRetry is the wait after a refusal that holds only for now.
	postponedRetry = 10 * time.Second
	// maxStep bounds the back-off exponent.
	maxStep = 64
)

// phase is what the resource itself is at.
type phase uint8

const (
	watching   phase = iota
	restarting       // a Restart is in flight
	escalating       // an Escalate is in flight
	ended            // an escalation was accepted: nothing is done any more
)

// presence is whether there is anything to watch.
type presence uint8

const (
	present     presence = iota
	absent               // rightly not there, until it is started
	operatorOff          // turned off from outside, until turned on from outside
)

// timer is a deadline that a late loop extends once.
type timer struct {
	_ state.Incomparable

	at    time.Duration
	again bool
}

// Resource is the monitor of one thing. It is not safe for concurrent use.
type Resource struct {
	cfg  Config
	rand func() float64
	gate gate

	now   state.Instant
	out   []Action // of the step under way
	dirty bool     // what a snapshot holds has changed

	hist   history
	flap   flap
	frozen time.Duration // time spent in restarts: what the window clock leaves out

	phase      phase
	presence   presence
	quiesced   bool
	generation uint64 // counts our restarts
	instance   uint64 // counts instances, whoever started them
	invocation string // of the instance, "" = not known
	previous   string // the invocation before it
	dead       string // invocation of the last death counted
	intent     uint64

	probing     probing
	pending     *pending
	work        work
	escalation  escalation
	power       power
	suspensions []Suspension
	badParents  []string
	inhibit     string

	health    health
	step      int           // restarts since stable: exponent of the back-off
	stable    time.Duration // first good probe since the last failure, or unset
	counters  Counters
	records   []Record
	logged    logKey
	postponed string // why the last restart or escalation was not made, "" = it was
	shown     View
	begun     bool // View has been published
}

// NewResource returns a resource that is watched from now on. random gives
// numbers in [0,1) for the jitter. Warnings of cfg are the caller's to log, see
// [Config.Validate]. The first actions come with the first step.
func NewResource(now state.Instant, cfg Config, random func() float64) (*Resource, error) {
	if random == nil {
		return nil, errors.New("monitor: no source of random numbers")
	}
	if _, err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Resource{cfg: cfg, rand: random, gate: openGate{}, now: now, stable: unset}
	r.health = health{message: "not probed yet", since: now.Boot, lastFailure: unset}
	r.power.offSign = unset
	r.power.lostAt = never
	r.escalation.deniedAt = unset
	r.startGrace()
	return r, nil
}

// Config returns the configuration in force.
func (r *Resource) Config() Config { return r.cfg }

// Step tells the resource what happened and returns what is to be done, in
// order. Time never runs backwards: an older now is taken as the last one.
func (r *Resource) Step(now state.Instant, ev Event) []Action {
	now.Boot = max(now.Boot, r.now.Boot)
	r.now, r.out, r.dirty = now, nil, false
	r.expireSuspensions()
	r.handle(ev)
	r.due()
	return r.finish()
}

func (r *Resource) handle(ev Event) {
	switch ev := ev.(type) {
	case Tick:
	case ProbeResult:
		r.probeResult(ev)
	case Died:
		r.died(ev)
	case Started:
		r.started(ev.Invocation)
	case RestartDone:
		r.restartDone(ev)
	case EscalationAnswer:
		r.answered(ev)
	case ProbeNow:
		r.probeNow()
	case OffSign:
		r.offSign(ev)
	case PowerGood:
		r.powerGood(ev.On)
	default:
		r.handleOrder(ev)
	}
}

// handleOrder takes what people, parents and the Monitor say.
func (r *Resource) handleOrder(ev Event) {
	switch ev := ev.(type) {
	case Suspend:
		r.suspend(ev)
	case Resume:
		r.resume(ev)
	case Reset:
		r.reset()
	case OperatorOff:
		r.goOffline(operatorOff, ev.Reason)
	case OperatorOn:
		r.operatorOn()
	case Absent:
		r.goAbsent(ev.Reason)
	case LostSight:
		r.lostSight(ev.Reason)
	case Intent:
		r.newIntent(ev.Generation)
	case ParentBad:
		r.parentBad(ev.Parent)
	case ParentGood:
		r.parentGood(ev.Parent)
	case Inhibit:
		r.setInhibit(ev.Reason)
	case Precheck:
		r.escalation.precheck = ev.Refusal
	case Configure:
		r.configure(ev.Config)
	case retryLaunch:
		r.releaseHold()
	}
}

// due does what has become due, in the order in which one thing can lead to
// another.
func (r *Resource) due() {
	r.workOverdue()
	r.probeOverdue()
	r.powerOverdue()
	r.launch()
	r.startDueProbe()
}

// NextDeadline returns the boot time at which the resource wants to be stepped
// with [Tick] if nothing else happens before; false = never.
func (r *Resource) NextDeadline() (time.Duration, bool) {
	at := min(r.suspensionExpiry(), r.power.lostAt, r.probeDeadline())
	if r.phase == restarting || r.phase == escalating {
		at = min(at, r.work.deadline.at)
	}
	if r.pending != nil {
		at = min(at, r.pending.due)
	}
	return at, at != never
}

// finish adds what changed to the actions of the step.
func (r *Resource) finish() []Action {
	if r.flap.update(r.cfg.Flap, r.now.Boot) {
		d := FlappingEnded
		if r.flap.on {
			d = Flapping
		}
		r.log(d, "%d restarts within %v", len(r.flap.marks), r.cfg.Flap.Window)
	}
	r.prune()
	if v := r.View(); !r.begun || !reflect.DeepEqual(v, r.shown) {
		r.shown, r.begun = v, true
		r.emit(Publish{v})
	}
	if r.dirty {
		r.out = append([]Action{Save{r.cfg.Name}}, r.out...)
	}
	out := r.out
	r.out = nil
	return out
}

func (r *Resource) emit(a Action) { r.out = append(r.out, a) }

// expired reports whether t is over. The first time that it is noticed far too
// late, the loop was not running: t gets another span instead.
func (r *Resource) expired(t *timer, span time.Duration) bool {
	late := r.now.Boot - t.at
	if late < 0 {
		return false
	}
	if late > loopGap && !t.again {
		t.at, t.again = r.now.Boot+span, true
		r.log(LateLoop, "woke %v after a deadline: waiting another %v", late, span)
		return false
	}
	return true
}

// windowNow is the window clock: it stands still during a restart.
func (r *Resource) windowNow() time.Duration {
	now := r.now.Boot
	if r.phase == restarting {
		now = r.work.since
	}
	return now - r.frozen
}

func (r *Resource) mark() Mark { return Mark{At: r.now.Boot, Window: r.windowNow()} }

func (r *Resource) prune() { r.hist.prune(r.windowNow(), r.cfg.RetryInterval) }
