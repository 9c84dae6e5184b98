package monitor

// Decision is what the monitor decided, or what became of it.
type Decision uint8

// The decisions that [Decide] gives.
const (
	Nothing       Decision = iota // a good probe
	MonitorError                  // the status means nothing: no failure, UNKNOWN
	InGrace                       // a probe failed inside the start grace: not counted
	Suppressed                    // a parent is bad: not counted
	Suspended                     // recorded, no action
	IsQuiesced                    // recorded, no action
	Partial                       // counted, below the threshold
	DoRestart                     // restart this resource
	DoEscalate                    // give over
	Exhausted                     // limit reached and no escalation: wait for restarts to age
	RestartGaveUp                 // the restart failed and there is no escalation
	WouldRestart                  // as DoRestart, in LOG_ONLY or a dry run
	WouldEscalate                 // as DoEscalate, in LOG_ONLY or a dry run
)

// Outcomes and other events worth a log line.
const (
	Restarted         Decision = iota + WouldEscalate + 1 // a restart succeeded
	RestartedByOthers                                     // the service manager restarted it
	GaveOver                                              // an escalation was accepted
	WasDenied                                             // an escalation was refused
	Quiesce                                               // the denial budget is spent
	WasCancelled                                          // a decision was dropped before it was carried out
	Held                                                  // waiting for back-off, limit or inhibition
	WasPostponed                                          // will be tried again
	Recovered                                             // OK after DEGRADED or FAULTED
	Flapping                                              // too many restarts in the long window
	FlappingEnded
	WentOffline
	WentOnline
	WasSuspended
	WasResumed
	WasReset
	Reconfigured
	SlowProbe // took more than 80 % of its time-out
	LateLoop  // the loop woke far too late: a deadline was given again
)

var decisionNames = []string{
	Nothing: "NOTHING", MonitorError: "MONITOR_ERROR", InGrace: "IN_GRACE", Suppressed: "SUPPRESSED",
	Suspended: "SUSPENDED", IsQuiesced: "IS_QUIESCED", Partial: "PARTIAL", DoRestart: "RESTART",
	DoEscalate: "ESCALATE", Exhausted: "EXHAUSTED", RestartGaveUp: "RESTART_FAILED",
	WouldRestart: "WOULD_RESTART", WouldEscalate: "WOULD_ESCALATE",
	Restarted: "RESTARTED", RestartedByOthers: "RESTARTED_BY_OTHERS",
	GaveOver: "GAVE_OVER", WasDenied: "DENIED", Quiesce: "QUIESCE", WasCancelled: "CANCELLED",
	Held: "HELD", WasPostponed: "POSTPONED", Recovered: "RECOVERED", Flapping: "FLAPPING",
	FlappingEnded: "FLAPPING_ENDED", WentOffline: "OFFLINE", WentOnline: "ONLINE",
	WasSuspended: "SUSPEND", WasResumed: "RESUME", WasReset: "RESET", Reconfigured: "RECONFIGURED",
	SlowProbe: "SLOW_PROBE", LateLoop: "LATE_LOOP",
}

// String returns the decision as log and D-Bus show it, for example "RESTART".
func (d Decision) String() string { return name(decisionNames, d, "Decision") }
