package gpio

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bmcstate/bmcstate/state/jsonpos"
)

const ms = time.Millisecond

// script runs a world through time and notes what its wires do, in ms.
type script struct {
	t *testing.T
	w *world
}

func newScript(t *testing.T, cfg VirtualConfig) *script {
	return &script{t, newWorld("id", "machine", cfg.resolved(), 0)}
}

func (s *script) at(when time.Duration, do func(w *world)) *script {
	s.w.advance(when)
	if do != nil {
		do(s.w)
	}
	return s
}

// press is a pulse of an output by the BMC.
func (s *script) press(signal string, from, to time.Duration) *script {
	s.at(from, func(w *world) { w.drive(signal, true, 7) })
	return s.at(to, func(w *world) { w.drive(signal, false, 7) })
}

func (s *script) stimulate(when time.Duration, st Stimulus) *script {
	return s.at(when, func(w *world) { require.NoError(s.t, w.stimulate(st)) })
}

// log renders the changes so far: "310 +PowerOk".
func (s *script) log() []string {
	var all []string
	for _, c := range s.w.changes {
		sign := "-"
		if c.Asserted {
			sign = "+"
		}
		all = append(all, fmt.Sprintf("%d %s%s", c.At/ms, sign, c.Signal))
	}
	return all
}

func (s *script) expect(until time.Duration, guest string, want string) {
	s.t.Helper()
	s.at(until, nil)
	require.Equal(s.t, strings.Split(want, ", "), s.log())
	require.Equal(s.t, guest, s.w.Guest)
}

const (
	onAt0    = "0 +PowerOut, 100 -PowerOut, 300 +PowerOk, 800 +PostComplete"
	powerCut = "-PostComplete, %[1]d -PowerOk"
)

func running(t *testing.T, f Faults) *script {
	return newScript(t, VirtualConfig{Faults: f}).press(PowerOut, 0, 100*ms)
}

func off(at int) string { return fmt.Sprintf("%[1]d "+powerCut, at) }

func TestWorldPowersOn(t *testing.T) {
	running(t, Faults{}).expect(5*time.Second, GuestRunning, onAt0)
}

func TestWorldShortPressShutsTheGuestDown(t *testing.T) {
	running(t, Faults{}).press(PowerOut, 1000*ms, 1100*ms).
		expect(5*time.Second, GuestOff, onAt0+", 1000 +PowerOut, 1100 -PowerOut, "+off(1600))
}

func TestWorldLongPressCutsThePower(t *testing.T) {
	running(t, Faults{}).press(PowerOut, 1000*ms, 2000*ms).
		expect(5*time.Second, GuestOff, onAt0+", 1000 +PowerOut, "+off(1400)+", 2000 -PowerOut")
}

func TestWorldPressHeldFromOffIsOverridden(t *testing.T) {
	newScript(t, VirtualConfig{}).press(PowerOut, 0, 4000*ms).
		expect(5*time.Second, GuestOff, "0 +PowerOut, 300 +PowerOk, 400 -PowerOk, 4000 -PowerOut")
}

func TestWorldReset(t *testing.T) {
	running(t, Faults{}).press(ResetOut, 1000*ms, 1200*ms).
		expect(5*time.Second, GuestRunning, onAt0+", 1000 +ResetOut, 1000 -PostComplete, 1200 -ResetOut, 1700 +PostComplete")
}

func TestWorldResetWhileOffDoesNothing(t *testing.T) {
	newScript(t, VirtualConfig{}).press(ResetOut, 0, 100*ms).
		expect(5*time.Second, GuestOff, "0 +ResetOut, 100 -ResetOut")
}

func TestWorldResetHeldWhilePowerComesKeepsPostWaiting(t *testing.T) {
	s := newScript(t, VirtualConfig{})
	s.at(0, func(w *world) { w.drive(ResetOut, true, 7) })
	s.press(PowerOut, 0, 100*ms)
	s.at(1000*ms, func(w *world) { w.drive(ResetOut, false, 7) })
	s.expect(5*time.Second, GuestRunning,
		"0 +ResetOut, 0 +PowerOut, 100 -PowerOut, 300 +PowerOk, 1000 -ResetOut, 1500 +PostComplete")
}

func TestWorldFrontPanel(t *testing.T) {
	press := func(signal string, hold Duration) Stimulus { return Stimulus{Do: DoPress, Signal: signal, Hold: hold} }
	t.Run("power button", func(t *testing.T) {
		newScript(t, VirtualConfig{}).stimulate(0, press(PowerButton, 0)).
			expect(5*time.Second, GuestRunning, "0 +PowerButton, 50 -PowerButton, 300 +PowerOk, 800 +PostComplete")
	})
	t.Run("held power button", func(t *testing.T) {
		running(t, Faults{}).stimulate(1000*ms, press(PowerButton, Duration(time.Second))).
			expect(5*time.Second, GuestOff, onAt0+", 1000 +PowerButton, "+off(1400)+", 2000 -PowerButton")
	})
	t.Run("reset button", func(t *testing.T) {
		running(t, Faults{}).stimulate(1000*ms, press(ResetButton, 0)).
			expect(5*time.Second, GuestRunning, onAt0+", 1000 +ResetButton, 1000 -PostComplete, 1050 -ResetButton, 1550 +PostComplete")
	})
	t.Run("id button does nothing", func(t *testing.T) {
		newScript(t, VirtualConfig{}).stimulate(0, press(IdButton, 0)).
			expect(5*time.Second, GuestOff, "0 +IdButton, 50 -IdButton")
	})
	t.Run("masked power button does nothing", func(t *testing.T) {
		newScript(t, VirtualConfig{}).at(0, func(w *world) { w.hold(PowerOut, true) }).stimulate(0, press(PowerButton, 0)).
			expect(5*time.Second, GuestOff, "0 +PowerButton, 50 -PowerButton")
	})
}

func TestWorldGuest(t *testing.T) {
	for name, c := range map[string]struct {
		stimulus string
		guest    string
		want     string
	}{
		"powers off": {DoPowerOff, GuestOff, ", " + off(1500)},
		"reboots":    {DoReboot, GuestRunning, ", 1500 -PostComplete, 2010 +PostComplete"},
		"crashes":    {DoCrash, GuestCrashed, ""},
		"loses power": {
			DoDropPower, GuestOff, ", " + off(1000),
		},
	} {
		t.Run(name, func(t *testing.T) {
			running(t, Faults{}).stimulate(1000*ms, Stimulus{Do: c.stimulus}).expect(9*time.Second, c.guest, onAt0+c.want)
		})
	}
}

func TestWorldWake(t *testing.T) {
	newScript(t, VirtualConfig{}).stimulate(0, Stimulus{Do: DoWake}).
		expect(5*time.Second, GuestRunning, "300 +PowerOk, 800 +PostComplete")
}

func TestWorldStartsOnWithAC(t *testing.T) {
	newScript(t, VirtualConfig{StartOn: true}).expect(5*time.Second, GuestRunning, "300 +PowerOk, 800 +PostComplete")
}

func TestWorldFaults(t *testing.T) {
	short := ", 1000 +PowerOut, 1100 -PowerOut"
	for name, c := range map[string]struct {
		f     Faults
		press bool // a short one at 1 s
		guest string
		want  string
	}{
		"never power good":    {Faults{NeverPowerGood: true}, false, GuestOff, "0 +PowerOut, 100 -PowerOut"},
		"never POST complete": {Faults{NeverPostComplete: true}, false, GuestPost, "0 +PowerOut, 100 -PowerOut, 300 +PowerOk"},
		"drops power good":    {Faults{DropPowerGoodAfter: Duration(700 * ms)}, false, GuestOff, onAt0 + ", " + off(1000)},
		"guest hangs":         {Faults{GuestHangsOnShutdown: true}, true, GuestStopping, onAt0 + short},
		"guest crash":         {Faults{GuestCrash: true}, true, GuestCrashed, onAt0 + short},
		"flickers": {Faults{PowerGoodFlickers: 2}, false, GuestRunning,
			"0 +PowerOut, 100 -PowerOut, 300 +PowerOk, 300 -PowerOk, 301 +PowerOk, 301 -PowerOk, 302 +PowerOk, 800 +PostComplete"},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(t, c.f)
			if c.press {
				s.press(PowerOut, 1000*ms, 1100*ms)
			}
			s.expect(9*time.Second, c.guest, c.want)
		})
	}
}

func TestWorldForceOffIgnored(t *testing.T) {
	running(t, Faults{ForceOffIgnored: 1}).
		press(PowerOut, 1000*ms, 2000*ms).press(PowerOut, 3000*ms, 4000*ms).
		expect(9*time.Second, GuestOff, onAt0+", 1000 +PowerOut, 2000 -PowerOut, 3000 +PowerOut, "+off(3400)+", 4000 -PowerOut")
}

func TestWorldSio(t *testing.T) {
	cfg := VirtualConfig{Inputs: []string{PowerOk, SioPowerGood, SioOnControl, SIOS5, PlatformReset, PostComplete}}
	newScript(t, cfg).press(PowerOut, 0, 100*ms).stimulate(2000*ms, Stimulus{Do: DoReboot}).stimulate(5000*ms, Stimulus{Do: DoDropPower}).
		expect(9*time.Second, GuestOff, "0 +SIOS5, 0 +PlatformReset, "+
			"0 +PowerOut, 0 +SioOnControl, 0 -SIOS5, 100 -PowerOut, 300 +PowerOk, 350 +SioPowerGood, 350 -PlatformReset, 850 +PostComplete, "+
			"2500 -PostComplete, 2500 +PlatformReset, 2510 -PlatformReset, 3010 +PostComplete, "+
			"5000 -SioOnControl, 5000 -PostComplete, 5000 -SioPowerGood, 5000 -PowerOk, 5000 +SIOS5, 5000 +PlatformReset")
}

// A platform that wants its power off goes to S5 first.
func TestWorldGuestGoesToS5(t *testing.T) {
	cfg := VirtualConfig{Inputs: []string{PowerOk, SIOS5}}
	newScript(t, cfg).press(PowerOut, 0, 100*ms).stimulate(2000*ms, Stimulus{Do: DoPowerOff}).
		expect(9*time.Second, GuestOff, "0 +SIOS5, 0 +PowerOut, 0 -SIOS5, 100 -PowerOut, 300 +PowerOk, 2500 +SIOS5, 2500 -PowerOk")
}

func TestWorldSlotPower(t *testing.T) {
	s := newScript(t, VirtualConfig{SlotPower: true}).press(PowerOut, 0, 100*ms)
	s.at(1000*ms, func(w *world) { w.drive(SlotPower, false, 7) })
	s.press(PowerOut, 2000*ms, 2100*ms)
	s.expect(5*time.Second, GuestOff, "0 +SlotPower, "+onAt0+", 1000 -SlotPower, "+off(1000)+", 2000 +PowerOut, 2100 -PowerOut")
}

func TestWorldScale(t *testing.T) {
	newScript(t, VirtualConfig{Scale: 0.1}).press(PowerOut, 0, 20*ms).
		expect(time.Second, GuestRunning, "0 +PowerOut, 20 -PowerOut, 30 +PowerOk, 80 +PostComplete")
}

func TestWorldEdgesAreNumberedAndBounded(t *testing.T) {
	s := running(t, Faults{PowerGoodFlickers: edgeBacklog})
	seq := s.w.Seq
	s.at(time.Second, nil)
	edges, lost := s.w.since(seq)
	require.True(t, lost)
	require.Len(t, edges, edgeBacklog)
	s.stimulate(2*time.Second, Stimulus{Do: DoPress, Signal: IdButton})
	edges, lost = s.w.since(edges[len(edges)-1].Seq)
	require.False(t, lost)
	require.Equal(t, []edge{{Seq: s.w.Seq, Signal: IdButton, Asserted: true}}, edges)
}

// However often the board is looked at, and whether or not it goes through its
// file in between, its wires do the same at the same time.
func TestWorldDoesNotDependOnWhoLooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := VirtualConfig{Faults: Faults{
			PowerGoodFlickers:    rapid.IntRange(0, 3).Draw(t, "flickers"),
			ForceOffIgnored:      rapid.IntRange(0, 1).Draw(t, "ignored"),
			GuestHangsOnShutdown: rapid.Bool().Draw(t, "hangs"),
		}}.resolved()
		a, b := newWorld("id", "machine", cfg, 0), newWorld("id", "machine", cfg, 0)
		var log []Wire
		for now := time.Duration(0); now < 2*time.Second; {
			now += time.Duration(rapid.IntRange(1, 400).Draw(t, "step")) * ms
			act := rapid.SampledFrom([]Stimulus{
				{}, {Do: DoPress, Signal: PowerButton}, {Do: DoPress, Signal: PowerButton, Hold: Duration(time.Second)},
				{Do: DoPress, Signal: ResetButton}, {Do: DoReboot}, {Do: DoDropPower}, {Do: DoWake}, {Do: DoCrash},
			}).Draw(t, "act")
			for at := b.Now; at < now; at += 90 * ms {
				b.advance(at)
				raw := jsonpos.Marshal(b)
				standard, err := json.Marshal(b)
				require.NoError(t, err)
				require.Equal(t, string(standard), string(raw))
				log = append(log, b.changes...)
				b = &world{}
				require.NoError(t, jsonpos.Unmarshal(raw, b))
			}
			for _, w := range []*world{a, b} {
				w.advance(now)
				if act.Do != "" {
					require.NoError(t, w.stimulate(act))
				}
			}
		}
		require.Equal(t, a.changes, append(log, b.changes...))
	})
}
