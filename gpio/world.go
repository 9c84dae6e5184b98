package gpio

import (
	"sort"
	"time"
)

// Guest states of a virtual board.
const (
	GuestOff      = "off"
	GuestPost     = "post"     // the firmware starts
	GuestRunning  = "running"  // POST is complete
	GuestStopping = "stopping" // it shuts down, or hangs while doing so
	GuestCrashed  = "crashed"  // it answers nothing until it is reset
)

// Kinds of what is due on a virtual board.
const (
	duePowerGood = "powerGood"
	dueSioGood   = "sioGood"
	duePost      = "post" // the firmware starts
	duePostDone  = "postDone"
	dueGuestDown = "guestDown"
	dueGuestBoot = "guestBoot" // the guest's own reboot
	dueOverride  = "override"  // the power button was held long enough
	dueDropPower = "dropPower"
	dueFlicker   = "flicker"
	dueUnpress   = "unpress" // a front panel button is let go
)

// edgeBacklog bounds the edges that a world remembers for the boards that
// watch it, as the kernel's event buffer does.
const edgeBacklog = 64

// due is something that happens by the clock.
type due struct {
	_ [0]func() // see state.Incomparable

	At     time.Duration `json:"at"`
	Kind   string        `json:"kind"`
	Signal string        `json:"signal,omitempty"`
	Count  int           `json:"count,omitempty"`
}

// edge is a change of an input, numbered for the boards that watch.
type edge struct {
	_ [0]func() // see state.Incomparable

	Seq      uint64 `json:"seq"`
	Signal   string `json:"signal"`
	Asserted bool   `json:"asserted"`
}

// world is a simulated board: pure and deterministic. Times are on the
// machine's CLOCK_BOOTTIME. Every method first needs advance to the present.
type world struct {
	ID      string        `json:"id"`      // of this life of the board: new after AC loss
	Machine string        `json:"machine"` // boot id of the machine whose clock Now is on
	Config  VirtualConfig `json:"config"`  // resolved; its faults are the current ones
	Given   Faults        `json:"given"`   // by the configuration, which may be older
	Now     time.Duration `json:"now"`

	Wires map[string]bool `json:"wires"` // outputs and inputs
	Held  map[string]bool `json:"held"`  // outputs that the BMC holds at idle
	On    bool            `json:"on"`    // power is good
	Start bool            `json:"start"` // asked for power, not good yet
	Guest string          `json:"guest"`
	Due   []due           `json:"due"` // by time, then by age

	Pressed time.Duration `json:"pressed"` // since when the power button is down
	Down    bool          `json:"down"`    // it is
	Used    bool          `json:"used"`    // this press has had its effect
	InReset bool          `json:"inReset"` // a reset button is down
	Level   bool          `json:"level"`   // what a level-type PowerOut last did

	Seq     uint64 `json:"seq"` // of the newest edge
	Edges   []edge `json:"edges"`
	Buttons []edge `json:"buttons"`
	Lost    uint64 `json:"lost"` // newest edge that no longer is in Edges or Buttons

	// What was last appended to the wire log, and where: see boardFile.
	Tail   string `json:"tail"`
	TailAt int64  `json:"tailAt"`

	pid     int // who moves the wires now; 0 = the board itself
	changes []Wire
	touched bool
}

// newWorld is a board to which AC was just applied.
func newWorld(id, machine string, cfg VirtualConfig, now time.Duration) *world {
	w := &world{
		ID: id, Machine: machine, Config: cfg, Now: now,
		Wires: map[string]bool{}, Held: map[string]bool{}, Guest: GuestOff, Given: cfg.Faults, touched: true,
	}
	w.setWire(SIOS5, true)
	w.setWire(PlatformReset, true)
	w.setWire(SlotPower, true)
	if cfg.StartOn && cfg.PowerLevel {
		w.setWire(PowerOut, true)
		w.react()
	} else if cfg.StartOn {
		w.askPower()
	}
	return w
}

// advance lets the board run until now.
func (w *world) advance(now time.Duration) {
	for len(w.Due) > 0 && w.Due[0].At <= now {
		d := w.Due[0]
		w.Due = w.Due[1:]
		w.Now = max(w.Now, d.At)
		w.touched = true
		w.happen(d)
	}
	w.Now = max(w.Now, now)
}

// nextDue is when the board next does something of itself.
func (w *world) nextDue() (time.Duration, bool) {
	if len(w.Due) == 0 {
		return 0, false
	}
	return w.Due[0].At, true
}

func (w *world) after(d Duration, kind string) { w.plan(due{Kind: kind}, d) }

// plan puts d behind all that is due at the same time.
func (w *world) plan(d due, in Duration) {
	d.At = w.Now + time.Duration(in)
	at := 0
	for at < len(w.Due) && w.Due[at].At <= d.At {
		at++
	}
	w.Due = append(w.Due, due{})
	copy(w.Due[at+1:], w.Due[at:])
	w.Due[at] = d
	w.touched = true
}

func (w *world) cancel(kinds ...string) {
	left := w.Due[:0]
	for _, d := range w.Due {
		if !contains(kinds, d.Kind) {
			left = append(left, d)
		}
	}
	w.Due = left
}

// contains is slices.Contains without that function's code for every type.
func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// setWire moves a wire, if the board has it.
func (w *world) setWire(signal string, asserted bool) {
	if !w.Config.has(signal) || w.Wires[signal] == asserted {
		return
	}
	w.Wires[signal] = asserted
	w.touched = true
	w.changes = append(w.changes, Wire{At: w.Now, Signal: signal, Asserted: asserted, PID: w.pid})
	switch signalKinds[signal] {
	case kindInput:
		w.Seq++
		w.Edges = w.remember(w.Edges, edge{Seq: w.Seq, Signal: signal, Asserted: asserted})
	case kindButton:
		w.Seq++
		w.Buttons = w.remember(w.Buttons, edge{Seq: w.Seq, Signal: signal, Asserted: asserted})
	}
}

func (w *world) remember(edges []edge, e edge) []edge {
	if len(edges) >= edgeBacklog {
		w.Lost = max(w.Lost, edges[0].Seq)
		edges = edges[1:]
	}
	return append(edges, e)
}

// since returns the edges after seq in order, and whether some were lost.
func (w *world) since(seq uint64) (edges []edge, lost bool) {
	for _, e := range w.Edges {
		if e.Seq > seq {
			edges = append(edges, e)
		}
	}
	for _, e := range w.Buttons {
		if e.Seq > seq {
			edges = append(edges, e)
		}
	}
	sort.Slice(edges, func(i, j int) bool { return int64(edges[i].Seq-edges[j].Seq) < 0 })
	return edges, w.Lost > seq
}

// drive moves an output and lets the board react.
func (w *world) drive(signal string, asserted bool, pid int) {
	w.pid = pid
	w.setWire(signal, asserted)
	w.pid = 0
	w.react()
}

// hold keeps an output at idle against its front panel button, or lets go.
func (w *world) hold(signal string, on bool) {
	if w.Held[signal] == on {
		return
	}
	w.Held[signal] = on
	w.touched = true
	w.react()
}

// react follows the wires that act on the board: the power and the reset
// button, each pressed by the BMC or passed through from the front panel, a
// level that holds the power on, and the slot's power.
func (w *world) react() {
	if w.Config.has(SlotPower) && !w.Wires[SlotPower] {
		w.powerOff(false)
	}
	level := w.Config.PowerLevel
	if level && w.Wires[PowerOut] != w.Level {
		w.Level = w.Wires[PowerOut]
		w.touched = true
		if w.Level {
			w.askPower()
		} else {
			w.powerOff(true)
		}
	}
	down := w.Wires[PowerOut] && !level || w.Wires[PowerButton] && !w.Held[PowerOut]
	if down != w.Down {
		w.Down = down
		w.touched = true
		if down {
			w.powerPressed()
		} else {
			w.powerLetGo()
		}
	}
	w.reset(w.resetDown())
}

func (w *world) resetDown() bool {
	return w.Wires[ResetOut] || w.Wires[ResetButton] && !w.Held[ResetOut]
}
