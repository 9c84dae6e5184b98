package engine

import (
	"strconv"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// retrySchedule is the time until a due schedule that was refused is tried
// again.
const retrySchedule = time.Minute

// retryGated is the time until one is tried again that waits for the gates' first
// word.
const retryGated = time.Second

// setSchedule arms, moves or (with 0) disarms the schedule. The time is in
// seconds since the epoch (clients.md §0.3).
func (d *domain) setSchedule(at uint64) *Refusal {
	if at != 0 && at < uint64(max(d.now().Wall.Unix(), 0)) {
		return &Refusal{CodeInvalidTime, "Scheduled time is in the past"}
	}
	d.values.saved.ScheduleTime, d.scheduleAgain = at, 0
	return nil
}

// schedules makes a due schedule a request, once: late rather than never, unless
// the configuration says how late is too late. The request's id is the time that
// it was set for, so that a crash between the request and the note that it has
// been made does not repeat it.
func (d *domain) schedules() {
	s := &d.values.saved
	at := s.ScheduleTime
	if at == 0 || d.now().Wall.Unix() < 0 || uint64(d.now().Wall.Unix()) < at || d.boot() < d.scheduleAgain {
		return
	}
	if d.core.gated(s.ScheduleOp) {
		d.scheduleAgain = d.boot() + retryGated
		return
	}
	if d.core.gateRefusal(s.ScheduleOp) != nil {
		d.scheduleAgain = d.boot() + retrySchedule
		return
	}
	s.ScheduleTime = 0
	if late := d.core.cfg.OverdueMax; late > 0 && d.now().Wall.Sub(time.Unix(int64(at), 0)) > late {
		d.core.emit(incidentEffect{Incident{Kind: IncidentOverdue, Domain: d.cfg.ID}})
		return
	}
	refused := func(a Answer) {
		if a.Err != nil && s.ScheduleTime == 0 {
			s.ScheduleTime, d.scheduleAgain = at, d.boot()+retrySchedule
		}
	}
	d.requestAs("schedule", strconv.FormatUint(at, 10), d.object(s.ScheduleOp), s.ScheduleOp, state.RestartCauseScheduledPowerOn, refused)
}

// scheduleDeadline is when the schedule is due by the boot clock, as far as
// the wall clock says now; the poll looks again, so a clock step is noticed.
func (d *domain) scheduleDeadline() time.Duration {
	s := d.values.saved
	if s.ScheduleTime == 0 || s.ScheduleTime > 1<<40 {
		return 0
	}
	return max(d.boot()+time.Unix(int64(s.ScheduleTime), 0).Sub(d.now().Wall), d.scheduleAgain, 1)
}
