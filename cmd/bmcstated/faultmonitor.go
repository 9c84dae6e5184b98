//go:build faults

package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/cmd/bmcstated/faults"
	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/dbus"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/systemd"
)

// faultMonitor is the loop of the fault monitor and what it is wired to. The
// zero value watches nothing.
type faultMonitor struct {
	loop   *faults.Loop
	units  *systemd.Units
	names  []string
	m      *machine
	server *dbus.Server // set before run
}

// openFaultMonitor makes the loop that the configuration asks for. What cannot
// be watched is logged: it is no reason to leave the power unmanaged.
func openFaultMonitor(f flags, cfg config.Config, m *machine, log *slog.Logger) *faultMonitor {
	fm := &faultMonitor{m: m}
	if len(cfg.Monitor.Resources) == 0 {
		return fm
	}
	o := faults.Options{
		Limits: cfg.Monitor.Limits, Show: fm, Now: m.now, Random: rand.Float64,
		BootID: m.bootID, RunDir: f.runDir, Log: log,
	}
	var names []string
	wantsUnits := false
	for _, w := range cfg.Monitor.Resources {
		o.Resources = append(o.Resources, resourceOf(w))
		names = append(names, w.Config.Name)
		wantsUnits = wantsUnits || w.Unit != "" || w.Config.Escalation == monitor.EscalateUnit || w.Config.QuiesceTarget != ""
	}
	if wantsUnits {
		fm.units = systemd.Open(systemd.Options{Log: log})
		o.Units = fm.units
	}
	loop, err := faults.New(o)
	if err != nil {
		log.Error("the fault monitor watches nothing", "err", err)
		fm.close()
		return &faultMonitor{m: m}
	}
	fm.loop, fm.names = loop, names
	return fm
}

func resourceOf(w config.Watched) faults.Resource {
	r := faults.Resource{Config: w.Config, Unit: w.Unit}
	if n := w.Net; n != nil {
		r.Probe = faults.Net{
			Host: n.Host, Port: strconv.Itoa(n.Port), Send: n.Send, Expect: n.Expect, HTTPPath: n.HTTPPath, FamilyWeight: n.FamilyWeight,
			Lookup: lookup,
		}
	}
	return r
}

func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	return systemd.ResolveHost(ctx, "", name)
}

// run runs the loop until ctx ends.
func (fm *faultMonitor) run(ctx context.Context) {
	if fm.loop != nil {
		fm.loop.Run(ctx)
	}
	fm.close()
}

func (fm *faultMonitor) close() {
	if fm.units != nil {
		fm.units.Close()
	}
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
