package engine

import (
	"fmt"
	"math"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/queue"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// domain is one power domain: its queue, its executor, what is seen of it and
// what is shown.
type domain struct {
	core *Core
	cfg  DomainConfig
	q    *queue.Queue

	// What is seen.
	levels   state.Levels
	readErr  error  // of the last reading
	inFlight uint64 // probe that has not answered, 0 = none
	again    bool   // something moved since it was sent
	lastRead time.Duration
	lostAt   time.Duration // when the power state was last lost; a start with a journal knows none
	sentRead time.Duration
	asked    bool        // a reading was asked for since start
	post     state.Level // POST complete as last handled

	// The executor. At most one of judging and run is set.
	judging   *judging
	run       *launch
	parked    uint64        // head that could be launched and waits for other domains
	preempt   uint64        // Chassis Off that takes over as soon as no pulse is asserted
	barrierAt time.Duration // when that Off goes ahead without the journal; 0 = never
	barrier   uint64        // request that went ahead of the journal and is not in it yet
	owed      []uint64      // power offs that the journal has not taken yet
	barrierUp bool          // its barrier has been written
	retryAt   time.Duration // when the barrier's record is written again
	press     openPress
	hands     otherHands
	reset     resetSign
	controls  controls
	recovered []recovered // records of an earlier run that wait for the power state
	others    otherJobs
	drives    []*drive             // calls of DriveLines that are not answered yet
	intent    uint64               // generation of what people outside want
	followers map[uint64]*follower // of the fault monitor's requests
	fading    bool                 // power good has an edge that says off, and no reading since

	resupplied    bool          // the supplies are good again: see resupply
	scheduleAgain time.Duration // when a schedule that was refused is tried again
	onSince       time.Duration // power is on and its hours are counted from; 0 = off

	hostFailed bool   // to be decided: see autoReboot
	rebooting  uint64 // the newest automatic reboot

	// The power restore policy.
	look        look
	free        time.Duration // nothing but the stagger has held the restore policy back since, by the boot clock; 0 = something does
	held        settingsOf
	powerStatus state.PowerStatus
	absent      bool // as the inventory has it

	// What is shown.
	counted   history.Counters // as last journalled
	countedAt time.Duration
	values    values
	shown     shown
	pending   []call                   // calls that are not answered yet
	decided   bool                     // some of them may have an answer now
	undurable map[uint64]bool          // requests that the journal has not confirmed
	touched   map[uint64]bool          // requests that changed since the last publication
	objects   []uint64                 // finished launches that are objects on the bus, oldest first
	restored  []uint64                 // finished launches of an earlier run that are to be shown
	live      map[uint64]state.Request // requests as last published
}

// openPress is a press of the power button that nothing has confirmed yet. No
// other press may follow it before until: the second would undo the first.
type openPress struct {
	_ state.Incomparable

	until   time.Duration // 0 = none
	raising bool
	at      time.Duration
}

// otherHands is a transition that somebody else began. Requests wait until it
// settles; nothing is forced.
type otherHands struct {
	_ state.Incomparable

	until time.Duration  // 0 = none
	up    bool           // towards on
	phase sequence.Phase // that it shows; 0 = none
}

func newDomain(c *Core, cfg DomainConfig) *domain {
	d := &domain{core: c, cfg: cfg, q: queue.New(cfg.Queue), live: map[uint64]state.Request{},
		undurable: map[uint64]bool{}, touched: map[uint64]bool{},
		followers: map[uint64]*follower{}, powerStatus: state.PowerStatusGood}
	if c.cfg.Supplies {
		d.powerStatus = state.PowerStatusUndefined
	}
	d.values = newValues(cfg, c.cfg.RetryAttempts)
	return d
}

func (d *domain) owns(o state.Object) bool {
	switch o.Kind {
	case state.KindHost, state.KindSchedule:
		return state.Contains(d.cfg.Hosts, o.Index)
	case state.KindChassis:
		return state.Contains(d.cfg.Chassis, o.Index)
	case state.KindSystem:
		return d.cfg.Slot != 0 && d.cfg.Slot == o.Index
	default:
		return false
	}
}

// object returns the object of the domain that an operation is written to when
// the caller names only the domain.
func (d *domain) object(op state.Operation) state.Object {
	if op.Kind() == state.KindHost {
		return state.Object{Kind: state.KindHost, Index: d.cfg.Hosts[0]}
	}
	return state.Object{Kind: state.KindChassis, Index: d.cfg.Chassis[0]}
}

func (d *domain) now() state.Instant       { return d.core.now }
func (d *domain) boot() time.Duration      { return d.core.now.Boot }
func (d *domain) due(t time.Duration) bool { return t != 0 && d.boot() >= t }

// powered returns the power state; known is false before the first reading
// that says on or off, and while the inputs cannot be read.
func (d *domain) powered() (on, known bool) { return d.levels.Power() }

func (d *domain) running() bool { return d.levels.HostRunning(d.cfg.Options.StrictRunning) }

func (d *domain) column() state.Column {
	on, _ := d.powered()
	quiesced := d.levels.Quiesced == state.LevelOn || d.levels.Diagnostic == state.LevelOn
	return state.ColumnOf(on, d.running(), d.values.saved.Exhausted || quiesced)
}

// advance does what has become possible or due.
func (d *domain) advance() {
	for _, seq := range d.q.Expire(d.now()) {
		d.journalStatus(seq)
	}
	d.q.Evict(d.now()) // the journal drops what is not in the queue when it compacts
	d.expireHints()
	d.settleOthers()
	d.dueBarrier()
	d.settleRecovered()
	d.runOverdue()
	d.takeOver()
	d.adopt()
	d.driveLines()
	d.schedules()
	d.countHours()
	d.restore()
	d.autoReboot()
	if d.run == nil && len(d.recovered) == 0 && d.resetOutputs() {
		d.poll()
		return
	}
	for d.run == nil && d.judgeHead() {
	}
	d.poll()
}

// presses are the verdicts whose plan begins with a short press of the power
// button.
var presses = [256]bool{
	state.VerdictPowerOn: true, state.VerdictGracefulOff: true, state.VerdictReboot: true, state.VerdictGracefulWarm: true,
}

// keepOff has a power off that finds nothing to do last all the same: what
// others, or an earlier operation, left waiting must not apply power behind it.
func (d *domain) keepOff(req state.Request) {
	if req.Op.Raising() {
		return
	}
	d.others.guardUntil = d.boot() + d.core.cfg.Times.OffGuard
	if d.cfg.Targets != nil {
		d.core.emit(abandonEffect{d.cfg.ID, req.Seq})
	}
}

// finish gives a request its final status, in memory at once and in the
// journal as soon as the disk takes it.
func (d *domain) finish(seq uint64, status state.Status, reason string) {
	if err := d.q.Finish(d.now(), seq, status, reason); err != nil {
		panic(fmt.Sprintf("engine: finish %d as %s: %v", seq, status, err))
	}
	d.journalStatus(seq)
}

// journalStatus writes the present status of a request.
func (d *domain) journalStatus(seq uint64) {
	d.touch(seq)
	req, ok := d.q.Get(seq)
	if !ok {
		return
	}
	if req.Status.Final() {
		d.cameTo(&req)
	}
	if kind, ok := statusNotice(req.Status); ok {
		d.core.notice(kind, d.cfg.ID, d.q, seq)
	}
	d.core.record(d, history.Entry{
		Kind: history.KindStatus, Domain: d.cfg.ID, Request: seq,
		Status: req.Status, Reason: req.Reason, Superseded: req.Superseded,
	})
}

// nextDeadline returns the boot clock of the domain's next tick.
func (d *domain) nextDeadline() time.Duration {
	next := time.Duration(math.MaxInt64)
	if d.cfg.Driven {
		next = d.pollAt()
	}
	at := func(t time.Duration) {
		if t != 0 {
			next = min(next, t)
		}
	}
	if t, ok := d.q.NextDeadline(); ok {
		at(t)
	}
	if d.judging != nil {
		at(d.judging.since + d.core.cfg.Times.Judge)
	} else if head, ok := d.q.Head(); ok && d.run == nil {
		if _, known := d.powered(); !known {
			at(d.knownDeadline(head))
		}
	}
	if d.run != nil {
		at(d.run.deadline)
	}
	if d.others.adoptAt > d.boot() {
		at(d.others.adoptAt)
	}
	if d.controls.resetAgain > d.boot() {
		at(d.controls.resetAgain)
	}
	for _, t := range []time.Duration{d.hands.until, d.press.until, d.barrierAt, d.retryAt, d.values.nextHint(), d.scheduleDeadline(), d.restoreDeadline(), d.hoursDeadline()} {
		at(t)
	}
	for _, r := range d.recovered {
		at(r.deadline)
	}
	for _, c := range d.pending {
		if d.core.gates.wait && d.undecided(c.seq) {
			req, _ := d.q.Get(c.seq)
			at(req.Accepted.Boot + d.core.cfg.Times.Read)
		}
	}
	for _, c := range d.drives {
		if !d.drivesNow(c) {
			at(c.until)
		}
	}
	if next < 0 {
		return math.MaxInt64
	}
	return next
}
