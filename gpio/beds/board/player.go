package board

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Wires are the lines between the board and the BMC, by the names that the
// kernel gives them. Levels are electrical: high is true.
type Wires interface {
	// Read returns the level of a line that the BMC drives.
	Read(line string) (bool, error)
	// Drive sets the level of a line that the BMC reads.
	Drive(line string, high bool) error
}

// Pinout says which line is which. An empty name means that the board does not
// have the signal. Lines in High are asserted high, all others low.
type Pinout struct {
	PowerOut, ResetOut       string   // driven by the BMC
	PowerGood, PostComplete  string   // read by the BMC
	PowerButton, ResetButton string   // read by the BMC, pressed by a finger
	NMIButton, IDButton      string   // read by the BMC, no effect on the board
	Watched                  []string // driven by the BMC, no effect on the board
	High                     map[string]bool
}

// Stock is the pinout of x86-power-control's default configuration.
func Stock() Pinout {
	return Pinout{
		PowerOut: "POWER_OUT", ResetOut: "RESET_OUT",
		PowerGood: "PS_PWROK", PostComplete: "POST_COMPLETE",
		PowerButton: "POWER_BUTTON", ResetButton: "RESET_BUTTON",
		NMIButton: "NMI_BUTTON", IDButton: "ID_BUTTON",
		High: map[string]bool{"PS_PWROK": true, "NMI_OUT": true},
	}
}

// Edge is one change of a line.
type Edge struct {
	At       time.Duration // since the player began; when it was seen
	Before   time.Duration // when the look before began: the change is not older
	Line     string
	Asserted bool
}

// Pulse is one press of a line.
type Pulse struct {
	Width time.Duration // as seen
	// What it can have been at least and at most. A player that gets the
	// processor late sees either end of a pulse late.
	Shortest, Longest time.Duration
}

// Player runs a board on wires. All methods are safe for concurrent use.
type Player struct {
	// Rest is how many times as long as a look took the player rests after it:
	// where player and BMC share a slow processor, looks must not eat it up. Set
	// it before Run; 0 rests for the tick alone.
	Rest int

	pins  Pinout
	wires Wires
	tick  time.Duration
	began time.Time

	mu      sync.Mutex
	board   *Board
	fingers map[string]bool          // buttons held by a finger
	seen    map[string]bool          // last asserted-ness of every line
	looked  map[string]time.Duration // when the last look at a line began
	edges   []Edge
	failure error
	unplug  bool
}

// NewPlayer returns a player that looks at the wires once per tick. Nothing
// moves before [Player.Run].
func NewPlayer(b *Board, pins Pinout, wires Wires, tick time.Duration) *Player {
	return &Player{
		pins: pins, wires: wires, tick: tick, began: time.Now(), board: b,
		fingers: map[string]bool{}, seen: map[string]bool{}, looked: map[string]time.Duration{},
	}
}

// Run plays until the context ends or a wire breaks, and returns what broke.
func (p *Player) Run(ctx context.Context) error {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		began := time.Now()
		if err := p.Step(); err != nil {
			return err
		}
		t.Reset(max(p.tick, time.Duration(p.Rest)*time.Since(began)))
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// Step looks at the wires once and lets the board react.
func (p *Player) Step() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil || p.unplug {
		return p.failure
	}
	p.failure = p.step()
	return p.failure
}

func (p *Player) step() error {
	power, err := p.look(p.pins.PowerOut)
	if err != nil {
		return err
	}
	reset, err := p.look(p.pins.ResetOut)
	if err != nil {
		return err
	}
	for _, line := range p.pins.Watched {
		if _, err := p.look(line); err != nil {
			return err
		}
	}
	p.board.Step(p.now(), power || p.fingers[p.pins.PowerButton], reset || p.fingers[p.pins.ResetButton])
	if err := p.show(p.pins.PowerGood, p.board.PowerGood()); err != nil {
		return err
	}
	if err := p.show(p.pins.PostComplete, p.board.PostComplete()); err != nil {
		return err
	}
	for _, button := range []string{p.pins.PowerButton, p.pins.ResetButton, p.pins.NMIButton, p.pins.IDButton} {
		if err := p.show(button, p.fingers[button]); err != nil {
			return err
		}
	}
	return nil
}

// now is never zero, as Board.Step asks.
func (p *Player) now() time.Duration { return time.Since(p.began) + 1 }

func (p *Player) look(line string) (bool, error) {
	if line == "" {
		return false, nil
	}
	began := p.now()
	high, err := p.wires.Read(line)
	if err != nil {
		return false, fmt.Errorf("board: reading %s: %w", line, err)
	}
	asserted := high == p.pins.High[line]
	p.record(line, asserted)
	p.looked[line] = began
	return asserted, nil
}

func (p *Player) show(line string, asserted bool) error {
	if line == "" {
		return nil
	}
	if last, known := p.seen[line]; known && last == asserted {
		return nil
	}
	p.looked[line] = p.now()
	if err := p.wires.Drive(line, asserted == p.pins.High[line]); err != nil {
		return fmt.Errorf("board: driving %s: %w", line, err)
	}
	p.record(line, asserted)
	return nil
}

func (p *Player) record(line string, asserted bool) {
	if last, known := p.seen[line]; known && last == asserted {
		return
	}
	p.seen[line] = asserted
	p.edges = append(p.edges, Edge{At: p.now(), Before: p.looked[line], Line: line, Asserted: asserted})
}

// Redrive sets every wire anew: the other side forgot its levels, as an emulated
// controller does at reset. The lines of the BMC are pulled to idle.
func (p *Player) Redrive() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range append([]string{p.pins.PowerOut, p.pins.ResetOut}, p.pins.Watched...) {
		if line == "" {
			continue
		}
		if err := p.wires.Drive(line, !p.pins.High[line]); err != nil {
			return fmt.Errorf("board: pulling %s: %w", line, err)
		}
	}
	for _, line := range []string{
		p.pins.PowerGood, p.pins.PostComplete, p.pins.PowerButton, p.pins.ResetButton, p.pins.NMIButton, p.pins.IDButton,
	} {
		if line == "" {
			continue
		}
		if err := p.wires.Drive(line, p.seen[line] == p.pins.High[line]); err != nil {
			return fmt.Errorf("board: driving %s: %w", line, err)
		}
	}
	return nil
}

// Do changes the board between two looks at the wires.
func (p *Player) Do(change func(*Board)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p.board)
}

// Press holds or lets go a button of the front panel.
func (p *Player) Press(button string, held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fingers[button] = held
}

// Unplug stops the board from looking at its wires until it is plugged in
// again: a chip that is about to go takes them away.
func (p *Player) Unplug(out bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unplug = out
	if !out {
		p.seen = map[string]bool{}
	}
}

// Asserted reports whether a line was asserted when last looked at.
func (p *Player) Asserted(line string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[line]
}

// Mark returns a place in the record, for [Player.Since].
func (p *Player) Mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.edges)
}

// Since returns the changes of a line after a mark, oldest first.
func (p *Player) Since(mark int, line string) []Edge {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []Edge
	for _, e := range p.edges[mark:] {
		if e.Line == line {
			found = append(found, e)
		}
	}
	return found
}

// Pulses returns how long a line was asserted each time since a mark. One that
// is still asserted counts until now.
func (p *Player) Pulses(mark int, line string) []Pulse {
	var pulses []Pulse
	edges := p.Since(mark, line)
	for i, e := range edges {
		if !e.Asserted {
			continue
		}
		now := p.now()
		end := Edge{At: now, Before: now}
		if i+1 < len(edges) {
			end = edges[i+1]
		}
		pulses = append(pulses, Pulse{Width: end.At - e.At, Shortest: max(0, end.Before-e.At), Longest: end.At - e.Before})
	}
	return pulses
}
