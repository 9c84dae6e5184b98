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
//	level     outputs: true keeps the level that was set, false pulses
//
// and of event_configs:
//
//	WarmResetSource    "PostComplete", "PlatformReset" or "none": the input that
//	                   shows a reset by others (x86-power-control's use-plt-rst)
package powerconfig
