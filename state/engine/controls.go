package engine

import (
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
)

const (
	nmiOut   = "NMIOut"
	nmiWidth = 200 * time.Millisecond // as x86-power-control's; not configurable there
)

// buttons are the inputs of the front panel.
var buttons = map[string]state.Button{
	"PowerButton": state.ButtonPower, "ResetButton": state.ButtonReset, "NMIButton": state.ButtonNMI, "IdButton": state.ButtonID,
}

// maskOutputs are the lines that a mask holds. The NMI button has none: its
// press reaches the host through us alone.
var maskOutputs = [state.Buttons]string{state.ButtonPower: sequence.PowerOut, state.ButtonReset: sequence.ResetOut}

// controls is the front panel of a domain, and what is under way on it.
type controls struct {
	pressed        [state.Buttons]bool
	masked         [state.Buttons]bool
	requestedCause state.RestartCause
	last           uint64                // id given
	nmi            uint64                // the NMI pulse under way, 0 = none
	passing        [state.Buttons]uint64 // presses that are passed on, likewise
	waiting        map[uint64]func(error)
	resets         int           // outputs that are being given their level of the boot
	resetAgain     time.Duration // when that is tried again
}

// panel is what the front panel shows.
func (d *domain) panel() state.Panel {
	return state.Panel{
		Pressed: d.controls.pressed, Masked: d.controls.masked, RequestedCause: d.controls.requestedCause,
		RestartCause: d.values.saved.RestartCause, OS: d.values.saved.OS,
	}
}

// buttonsSeen takes the buttons' levels, as an edge may have been lost.
func (d *domain) buttonsSeen() {
	for b, l := range d.levels.Pressed {
		if l.Known() {
			d.controls.pressed[b] = l == state.LevelOn
		}
	}
}

// begin remembers who waits for a control and returns its id.
func (k *controls) begin(done func(error)) uint64 {
	if k.waiting == nil {
		k.waiting = map[uint64]func(error){}
	}
	k.last++
	k.waiting[k.last] = done
	return k.last
}

func (d *domain) controlled(ev controlled) {
	done := d.controls.waiting[ev.id]
	delete(d.controls.waiting, ev.id)
	if done != nil {
		done(ev.err)
	}
}

// mask masks a button. The property says so only once the line is held.
func (c *Core) mask(ev Mask) {
	d := c.domainOf(state.Object{Kind: state.KindHost, Index: ev.Host})
	if d == nil {
		c.refuse(ev.Reply, invalidArgument("there is no host%d", ev.Host))
		return
	}
	out := maskOutputs[ev.Button]
	if out == sequence.PowerOut && d.cfg.Options.PowerLevel {
		out = "" // held in any case
	}
	if ev.Button == state.ButtonID {
		c.refuse(ev.Reply, notAllowedText("the ID button cannot be masked"))
		return
	}
	if out == "" || d.controls.masked[ev.Button] == ev.On {
		d.controls.masked[ev.Button] = ev.On
		c.emitReplyLater(ev.Reply, Answer{})
		return
	}
	id := d.controls.begin(func(err error) {
		if err != nil {
			c.emitReplyLater(ev.Reply, Answer{Err: unavailable(err)})
			return
		}
		d.controls.masked[ev.Button] = ev.On
		c.emitReplyLater(ev.Reply, Answer{})
	})
	c.emit(holdEffect{domain: d.cfg.ID, id: id, signal: out, hold: ev.On})
}

// nmi pulses the NMI output.
func (c *Core) nmi(ev NMI) {
	d := c.domainOf(state.Object{Kind: state.KindHost, Index: ev.Host})
	if d == nil {
		c.refuse(ev.Reply, invalidArgument("there is no host%d", ev.Host))
		return
	}
	d.pulseNMI(func(err error) {
		if err != nil {
			c.emitReplyLater(ev.Reply, Answer{Err: unavailable(err)})
			return
		}
		c.emitReplyLater(ev.Reply, Answer{})
	})
}

// pulseNMI pulses the NMI output, one pulse at a time.
func (d *domain) pulseNMI(done func(error)) {
	switch _, known := d.powered(); {
	case !d.cfg.Driven:
		done(fmt.Errorf("nothing is driven: no lines are configured"))
		return
	case !known:
		done(fmt.Errorf("the power state is not known yet: %s", d.readText()))
		return
	case d.controls.nmi != 0:
		done(fmt.Errorf("the NMI output is asserted already"))
		return
	}
	id := d.controls.begin(func(err error) {
		d.controls.nmi = 0
		if err == nil {
			d.tell(NoticeNMI)
		}
		done(err)
	})
	d.controls.nmi = id
	d.core.emit(pressEffect{domain: d.cfg.ID, id: id, signal: nmiOut, width: nmiWidth})
}

// nmiButton passes a press of the NMI button on.
func (d *domain) nmiButton(b state.Button, pressed bool) {
	on, known := d.powered()
	if b != state.ButtonNMI || !pressed || !known || !on && !d.cfg.NMIWhenPoweredOff {
		return
	}
	d.pulseNMI(func(error) {}) // the line's error is in the board's log
}

// buttonNotices are the presses that leave a trail.
var buttonNotices = [state.Buttons]NoticeKind{
	state.ButtonPower: NoticePowerButton, state.ButtonReset: NoticeResetButton, state.ButtonNMI: NoticeNMIButton,
}

// buttonMoved takes an edge of a button that is not masked.
func (d *domain) buttonMoved(b state.Button, down bool) {
	if kind := buttonNotices[b]; kind != 0 && down {
		d.tell(kind)
	}
	d.nmiButton(b, down)
	if d.cfg.PassThrough {
		d.passThrough(b, down)
	}
}

// passThrough presses the output of a button for as long as the button is down,
// on boards whose hardware does not (x86-power-control's button-passthrough). It
// is a pulse like any other: marked, bounded by the longest hold, and left out
// while a pulse of ours is on that line.
func (d *domain) passThrough(b state.Button, down bool) {
	out, k := maskOutputs[b], &d.controls
	_, known := d.powered()
	switch {
	case out == "" || out == sequence.PowerOut && d.cfg.Options.PowerLevel:
	case !down && k.passing[b] != 0:
		d.core.emit(releaseEffect{domain: d.cfg.ID, signal: out})
	case !down || !known || k.passing[b] != 0 || d.run != nil && d.run.pulsing == out:
	default:
		id := k.begin(func(error) { k.passing[b] = 0 }) // the line's error is in the board's log
		k.passing[b] = id
		d.core.emit(pressEffect{domain: d.cfg.ID, id: id, signal: out, width: d.cfg.Timings.ForceOffPulse})
	}
}

// maskedRefusal refuses an operation whose button is masked. Requests of our own
// are not refused: they stand for no press.
func (d *domain) maskedRefusal(op state.Operation) *Refusal {
	needs := []state.Button{state.ButtonPower}
	switch op {
	case state.HostForceWarmReboot:
		needs = []state.Button{state.ButtonReset}
	case state.HostGracefulWarmReboot: // x86-power-control looks at reset, and presses power
		needs = []state.Button{state.ButtonReset, state.ButtonPower}
	}
	for _, b := range needs {
		if d.controls.masked[b] {
			return notAllowedText(fmt.Sprintf("%s needs the %s button, which is masked: set ButtonMasked to false first", op, b))
		}
	}
	return nil
}

func notAllowedText(text string) *Refusal { return &Refusal{CodeNotAllowed, text} }
