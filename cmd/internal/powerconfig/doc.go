// Package powerconfig reads x86-power-control's power-config-host<N>.json as it
// stands on a board.
//
// What that daemon tolerated is at most a [Warning] here: comments, an entry
// without a name, an empty line name, keys that it does not know, a timing key
// by its old name. What it refused, or would have misread into a wrong line, is
// an error, and so is anything wrong with the keys that only we read: a line
// must not be driven by a guess.
//
// Our own keys of an entry of Type "GPIO":
//
//	chip      label of the GPIO chip; narrows the search for LineName
//	offset    number of the line on chip, instead of LineName
//	bias      "as-is", "disabled", "pull-up" or "pull-down"
//	drive     outputs: "push-pull", "open-drain" or "open-source"
//	debounce  inputs: a Go duration, for example "5ms"
//	idle      pulse outputs, between pulses: "release" (as x86-power-control does) or "hold"
//	level     PowerOut: true holds the power on by a level that is kept, false presses
//	reset     level-type outputs: "on" or "off" is driven once per boot of the BMC, when
//	          the host is seen off; "keep" drives nothing. SlotPower and HpmStbyEn: "on"
//
// of event_configs:
//
//	WarmResetSource    "PostComplete", "PlatformReset" or "none": the input that
//	                   shows a reset by others (x86-power-control's use-plt-rst)
//	ButtonPassthrough  true has us press PowerOut and ResetOut while their buttons are
//	                   down, where the hardware does not (its build option of that name)
//
// and of the file, for boards on which more than PowerOut applies power:
//
//	sequence_gpio_configs    lines with names of your own, in the form of gpio_configs and
//	                         with a direction, "output" (level-type) or "input"
//	power_on_sequence        what applies power, step by step:
//
//	{"set": "RailEn", "to": true}                    drive a level-type output
//	{"await": "RailGood", "to": true, "ms": 2000}    wait for an input, at most so long
//	{"delay": 100}                                   wait, in milliseconds
//	{"pulse": "PowerOut", "ms": 200}                 pulse an output; PowerOut: PowerPulseMs
//
// PowerOut must be set or pulsed in it. Power good is waited for afterwards
// (PowerOKWatchdogMs). Power off, and a sequence that fails, take back what was
// set, the last first.
package powerconfig
