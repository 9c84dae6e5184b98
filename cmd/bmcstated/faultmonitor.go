package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/cmd/bmcstated/faults"
	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/dbus"
	"github.com/bmcstate/bmcstate/dbus/failover"
	"github.com/bmcstate/bmcstate/dbus/inputs"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// faultMonitor is the loop of the fault monitor and what it is wired to. The
// zero value watches nothing.
type faultMonitor struct {
	loop   *faults.Loop
	units  *systemd.Units
	props  *inputs.Source
	lines  probeLines
	hosts  map[int]*faults.HostView
	names  []string
	m      *machine
	server *dbus.Server // set before run
}

// openFaultMonitor makes the loop that the configuration asks for. What cannot
// be watched is logged: it is no reason to leave the power unmanaged.
func openFaultMonitor(f flags, cfg config.Config, m *machine, post func(engine.Event), log *slog.Logger) *faultMonitor {
	fm := &faultMonitor{m: m, hosts: map[int]*faults.HostView{}}
	if len(cfg.Monitor.Resources) == 0 {
		return fm
	}
	o := faults.Options{
		Limits: cfg.Monitor.Limits, Show: fm, Now: m.now, Random: rand.Float64,
		BootID: m.bootID, RunDir: f.runDir, Log: log, Post: post, Failover: askFailover,
	}
	fm.openUnits(cfg.Monitor.Resources, log)
	o.Units = fm.units
	fm.openProperties(cfg.Monitor, log)
	fm.openLines(f, cfg.Monitor.Resources, log)
	for _, w := range cfg.Monitor.Resources {
		r, err := fm.resourceOf(w)
		if err != nil {
			log.Error("the fault monitor does not watch a resource", "resource", w.Config.Name, "err", err)
			continue
		}
		o.Resources = append(o.Resources, r)
		fm.names = append(fm.names, w.Config.Name)
	}
	loop, err := faults.New(o)
	if err != nil {
		log.Error("the fault monitor watches nothing", "err", err)
		fm.close()
		return &faultMonitor{m: m}
	}
	fm.loop = loop
	return fm
}

// unitResync is the time between two looks at units that nothing else has read:
// the probes look more often, each at its own pace.
const unitResync = 5 * time.Minute

// openUnits connects to systemd where some resource needs it.
func (fm *faultMonitor) openUnits(all []config.Watched, log *slog.Logger) {
	for _, w := range all {
		if w.Unit != "" || w.Command != nil || w.Config.Escalation == monitor.EscalateUnit || w.Config.QuiesceTarget != "" {
			fm.units = systemd.Open(systemd.Options{Log: log, Resync: unitResync})
			return
		}
	}
}

// askFailover asks the other BMC to take over.
func askFailover(ctx context.Context) (monitor.Answer, string) {
	if refusal := failover.Start(ctx, ""); refusal != "" {
		return monitor.Denied, refusal
	}
	return monitor.Accepted, ""
}

// run runs the loop until ctx ends.
func (fm *faultMonitor) run(ctx context.Context) {
	if fm.loop != nil {
		passed := make(chan struct{})
		go func() {
			defer close(passed)
			fm.passProperties(ctx)
		}()
		moved := make(chan struct{})
		go func() {
			defer close(moved)
			if fm.lines.board != nil {
				fm.passLines()
			}
		}()
		fm.loop.Run(ctx)
		<-passed
		fm.close()
		<-moved
		return
	}
	fm.close()
}

func (fm *faultMonitor) close() {
	if fm.lines.board != nil {
		_ = fm.lines.board.Close() // there is nobody left to tell
	}
	if fm.props != nil {
		fm.props.Close()
	}
	if fm.units != nil {
		fm.units.Close()
	}
}

// sign takes what the engine sees.
func (fm *faultMonitor) sign(s engine.Sign) {
	if fm.loop != nil {
		fm.loop.Sign(s)
	}
}

// publisher has the fault monitor see what hosts show.
func (fm *faultMonitor) publisher(p engine.Publisher) engine.Publisher {
	if len(fm.hosts) == 0 {
		return p
	}
	return hostWatch{Publisher: p, fm: fm}
}

type hostWatch struct {
	_ state.Incomparable

	engine.Publisher
	fm *faultMonitor
}

// PublishHost implements engine.Publisher.
func (w hostWatch) PublishHost(index int, h state.Host) {
	if v := w.fm.hosts[index]; v != nil {
		v.Show(h, w.fm.m.boot())
	}
	w.Publisher.PublishHost(index, h)
}

// ShowFault implements faults.Shower.
func (fm *faultMonitor) ShowFault(v monitor.View, lastFailure uint64) {
	fm.server.ShowFault(dbus.Fault{
		Name: v.Name, Status: v.Status.String(), Message: v.Message, NextAction: v.NextAction, LastDecision: v.LastDecision,
		FailureSum: v.FailureSum, Restarts: v.RestartsInInterval, RetryCount: v.RetryCount, RetryInterval: v.RetryInterval,
		LastFailure: lastFailure,
	})
}

// RemoveFault implements faults.Shower. Resources are those of the start.
func (fm *faultMonitor) RemoveFault(string) {}

// call takes what a client asks for.
func (fm *faultMonitor) call(c dbus.FaultCall) {
	tell := func(ev monitor.Event) { fm.loop.Tell(c.Resource, ev, answered(c)) }
	switch c.Op {
	case dbus.FaultSuspend:
		tell(monitor.Suspend{Owner: ownerOf(c.UID, c.Owner), For: c.Lasts})
	case dbus.FaultResume:
		fm.resume(c)
	case dbus.FaultReset:
		tell(monitor.Reset{})
	case dbus.FaultProbe:
		tell(monitor.ProbeNow{})
	case dbus.FaultRetryCount:
		fm.loop.Change(c.Resource, func(cfg *monitor.Config) { cfg.RetryCount = int(c.Value) }, invalid(c))
	case dbus.FaultRetryInterval:
		fm.loop.Change(c.Resource, func(cfg *monitor.Config) { cfg.RetryInterval = seconds(c.Value) }, invalid(c))
	case dbus.FaultHistory:
		fm.loop.Inspect(c.Resource, func(r *monitor.Resource) { c.Reply(nil, fm.records(r, c.Max)) })
	}
}

// ownerOf keeps the owners of different users apart.
func ownerOf(uid uint32, owner string) string {
	if uid == 0 || owner == "" {
		return owner
	}
	return fmt.Sprintf("%s (uid %d)", owner, uid)
}

// resume ends the caller's own suspension; root ends every one of that owner.
func (fm *faultMonitor) resume(c dbus.FaultCall) {
	if c.UID != 0 {
		fm.loop.Tell(c.Resource, monitor.Resume{Owner: ownerOf(c.UID, c.Owner)}, answered(c))
		return
	}
	fm.loop.Inspect(c.Resource, func(r *monitor.Resource) {
		owner := c.Owner
		if r != nil {
			for _, s := range r.Suspensions() {
				if strings.HasPrefix(s.Owner, c.Owner+" (uid ") {
					owner = s.Owner
				}
			}
		}
		fm.loop.Tell(c.Resource, monitor.Resume{Owner: owner}, answered(c))
	})
}

func answered(c dbus.FaultCall) func(string) { return refusing(c, engine.CodeNotAllowed) }
func invalid(c dbus.FaultCall) func(string)  { return refusing(c, engine.CodeInvalidArgument) }

func refusing(c dbus.FaultCall, code engine.Code) func(string) {
	return func(refusal string) {
		if refusal == "" {
			c.Reply(nil, nil)
			return
		}
		c.Reply(&engine.Refusal{Code: code, Text: refusal}, nil)
	}
}

// seconds is a property's number of seconds as a duration; one that is out of
// any range stays so.
func seconds(n int64) time.Duration {
	const most = int64(1 << 32)
	return time.Duration(max(-most, min(n, most))) * time.Second
}

func (fm *faultMonitor) records(r *monitor.Resource, most int) []dbus.FaultRecord {
	if r == nil {
		return nil
	}
	now := fm.m.now()
	var all []dbus.FaultRecord
	for _, rec := range r.Records(most) {
		all = append(all, dbus.FaultRecord{
			At: monitor.WallOf(now, rec.At), Decision: rec.Decision.String(), Text: rec.Text,
			Status: int32(rec.Status), Sum: uint32(rec.Sum), Restarts: uint32(rec.Restarts),
		})
	}
	return all
}
