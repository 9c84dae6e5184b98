package gpio

import "time"

// resetTime is how long the platform stays in reset when the guest restarts
// itself, before scaling.
const resetTime = Duration(10 * time.Millisecond)

// powerPressed: a board that is off starts; one that is on waits to see how
// long the button stays down.
func (w *world) powerPressed() {
	w.Pressed = w.Now
	w.Used = false
	w.after(w.Config.OverrideHold, dueOverride)
	if !w.On && !w.Start {
		w.Used = true
		w.askPower()
	}
}

// powerLetGo: a short press asks the guest to shut down.
func (w *world) powerLetGo() {
	w.cancel(dueOverride)
	if !w.Used && w.On {
		w.askGuest(dueGuestDown)
	}
	w.Used = true
}

// override: the button was held so long that the hardware cuts the power.
func (w *world) override() {
	if w.Start || w.On {
		w.Used = true
		if w.Config.Faults.ForceOffIgnored > 0 {
			w.Config.Faults.ForceOffIgnored--
			return
		}
		w.powerOff(true)
	}
}

// supplied reports whether the outputs let power come up.
func (w *world) supplied() bool {
	for _, s := range []string{SlotPower, HpmStbyEn} {
		if w.Config.has(s) && !w.Wires[s] {
			return false
		}
	}
	return true
}

// askPower begins the way to power good.
func (w *world) askPower() {
	f := w.Config.Faults
	if w.On || w.Start || f.NeverPowerGood || !w.supplied() {
		return
	}
	w.Start = true
	w.setWire(SioOnControl, true)
	w.setWire(SIOS5, false)
	w.after(w.Config.PowerGoodDelay, duePowerGood)
}

func (w *world) powerGood() {
	f := w.Config.Faults
	w.Start, w.On = false, true
	w.setWire(PowerOk, true)
	if f.PowerGoodFlickers > 0 {
		w.flicker(f.PowerGoodFlickers)
	}
	if f.DropPowerGoodAfter > 0 {
		w.after(w.Config.scaled(f.DropPowerGoodAfter), dueDropPower)
	}
	if w.Config.has(SioPowerGood) {
		w.after(w.Config.SioDelay, dueSioGood)
		return
	}
	w.startPost()
}

// flicker toggles the power good wire count times, without any loss of power.
func (w *world) flicker(count int) {
	w.plan(due{Kind: dueFlicker, Count: 2 * count}, w.Config.FlickerPeriod/2)
}

func (w *world) flick(left int) {
	w.setWire(PowerOk, left%2 == 1)
	if left > 1 {
		w.plan(due{Kind: dueFlicker, Count: left - 1}, w.Config.FlickerPeriod/2)
	}
}

// startPost lets the platform out of reset, unless a button keeps it there.
func (w *world) startPost() {
	if !w.On || w.resetDown() {
		return
	}
	w.setWire(PlatformReset, false)
	w.Guest = GuestPost
	w.touched = true
	if !w.Config.Faults.NeverPostComplete {
		w.after(w.Config.PostDelay, duePostDone)
	}
}

func (w *world) postDone() {
	w.setWire(PostComplete, true)
	w.Guest = GuestRunning
	if w.Config.Faults.GuestCrash {
		w.Guest = GuestCrashed
	}
}

// reset holds the platform in reset while the line is down, and restarts it
// when the line comes back.
func (w *world) reset(down bool) {
	if down == w.InReset {
		return
	}
	w.InReset = down
	w.touched = true
	switch {
	case !w.On:
	case down:
		w.enterReset()
	default:
		w.cancel(duePost)
		if !w.Config.has(SioPowerGood) || w.Wires[SioPowerGood] {
			w.startPost()
		}
	}
}

func (w *world) enterReset() {
	w.cancel(duePost, duePostDone, dueGuestDown, dueGuestBoot)
	w.setWire(PostComplete, false)
	w.setWire(PlatformReset, true)
	w.Guest = GuestPost
	w.touched = true
}

// askGuest asks the guest to shut down, for good or for a restart. A crashed
// guest, or one that hangs, does not answer.
func (w *world) askGuest(then string) {
	if w.Guest != GuestRunning && w.Guest != GuestPost {
		return
	}
	w.cancel(duePostDone)
	w.Guest = GuestStopping
	w.touched = true
	if !w.Config.Faults.GuestHangsOnShutdown {
		w.after(w.Config.GuestShutdown, then)
	}
}

// guestBoot is a restart that the guest does itself.
func (w *world) guestBoot() {
	w.enterReset()
	w.after(w.Config.scaled(resetTime), duePost)
}

// powerOff is the end of power. A platform that wants it goes to S5 before; one
// that loses it goes there because of that.
func (w *world) powerOff(wanted bool) {
	if !w.On && !w.Start {
		return
	}
	w.cancel(duePowerGood, dueSioGood, duePost, duePostDone, dueGuestDown, dueGuestBoot, dueDropPower, dueFlicker)
	w.On, w.Start = false, false
	w.Guest = GuestOff
	w.touched = true
	if wanted {
		w.setWire(SIOS5, true)
	}
	w.setWire(SioOnControl, false)
	w.setWire(PostComplete, false)
	w.setWire(SioPowerGood, false)
	w.setWire(PowerOk, false)
	w.setWire(SIOS5, true)
	w.setWire(PlatformReset, true)
}

// happen does what has become due.
func (w *world) happen(d due) {
	switch d.Kind {
	case duePowerGood:
		w.powerGood()
	case dueSioGood:
		w.setWire(SioPowerGood, true)
		w.startPost()
	case duePost:
		w.startPost()
	case duePostDone:
		w.postDone()
	case dueGuestDown, dueDropPower:
		w.powerOff(d.Kind == dueGuestDown)
	case dueGuestBoot:
		w.guestBoot()
	case dueOverride:
		w.override()
	case dueFlicker:
		w.flick(d.Count)
	case dueUnpress:
		w.setWire(d.Signal, false)
		w.react()
	}
}

// crash leaves the wires as they are.
func (w *world) crash() {
	if w.Guest == GuestOff {
		return
	}
	w.cancel(duePostDone, dueGuestDown, dueGuestBoot)
	w.Guest = GuestCrashed
	w.touched = true
}
