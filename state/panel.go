package state

// Button is a front panel button.
type Button uint8

// The buttons.
const (
	ButtonPower Button = iota
	ButtonReset
	ButtonNMI
	ButtonID
	Buttons = 4 // how many there are
)

var buttonNames = [...]string{"power", "reset", "nmi", "id"}

// String returns the last element of the button's path, for example "power".
func (b Button) String() string { return name(buttonNames[:], b, "Button") }

// Panel is what a host's front panel shows, and what the private interfaces of
// x86-power-control show beside the standard ones (power-sequencing.md §1.3).
type Panel struct {
	Pressed        [Buttons]bool
	Masked         [Buttons]bool
	RestartCause   RestartCause
	RequestedCause RestartCause
	OS             OSState
}
