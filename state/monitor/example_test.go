package monitor_test

import (
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
)

// The loop of a daemon, with a service that dies once and is restarted.
func Example() {
	cfg := monitor.DefaultConfig("webserver.service")
	cfg.Backoff = monitor.Backoff{}
	mon, err := monitor.New(monitor.Limits{RestartsPerMinute: 10, Parallel: 2}, func() float64 { return 0.5 })
	if err != nil {
		fmt.Println(err)
		return
	}
	now := state.Instant{}
	type answer struct {
		name  string
		event monitor.Event
	}
	var answers []answer // carried out first, told afterwards
	carryOut := func(actions []monitor.Action) {
		for _, a := range actions {
			switch a := a.(type) {
			case monitor.StartProbe:
				answers = append(answers, answer{a.Resource, monitor.ProbeResult{Tag: a.Tag, Status: monitor.ProbeOK}})
			case monitor.Restart:
				fmt.Println("restart:", a.Reason)
				answers = append(answers, answer{a.Resource, monitor.RestartDone{Generation: a.Generation, Outcome: monitor.RestartOK}})
			case monitor.Publish:
				fmt.Printf("%v %s %q\n", now.Boot, a.View.Status, a.View.Message)
			}
		}
	}
	tell := func(name string, ev monitor.Event) {
		answers = append(answers, answer{name, ev})
		for len(answers) > 0 {
			next := answers[0]
			answers = answers[1:]
			actions, err := mon.Step(now, next.name, next.event)
			if err != nil {
				fmt.Println(err)
			}
			carryOut(actions)
		}
	}
	actions, err := mon.Configure(now, []monitor.Config{cfg})
	if err != nil {
		fmt.Println(err)
		return
	}
	carryOut(actions)
	now.Boot = 7 * time.Second
	tell(cfg.Name, monitor.Died{Detail: "signal 9"})
	now.Boot, _ = mon.NextDeadline()
	carryOut(mon.Tick(now))
	now.Boot += time.Millisecond
	tell(cfg.Name, monitor.Tick{})
	// Output:
	// 0s UNKNOWN "not probed yet"
	// restart: death: signal 9
	// 7s DEGRADED "restart 1 of 2: death: signal 9"
	// 7s DEGRADED "restarted, not probed yet"
	// 17.001s OK ""
}
