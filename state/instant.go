package state

import "time"

// Instant is one moment as the daemon sees it. Deadlines, ages and orders use
// Boot only, so a step of the wall clock changes nothing.
type Instant struct {
	// Boot is the time since boot by CLOCK_BOOTTIME. It survives a restart of
	// the daemon and starts again at zero with each boot.
	Boot time.Duration
	// Wall is the time of day, for display and for LastStateChangeTime only.
	Wall time.Time
}

// Since returns how long ago earlier was, by the boot clock.
func (i Instant) Since(earlier time.Duration) time.Duration { return i.Boot - earlier }

// WallMicros returns the wall clock in microseconds since the epoch, 0 for the
// zero Instant.
func (i Instant) WallMicros() uint64 {
	if i.Wall.IsZero() {
		return 0
	}
	return uint64(i.Wall.UnixMicro())
}

// WallMillis returns the wall clock in milliseconds since the epoch, 0 for the
// zero Instant.
func (i Instant) WallMillis() uint64 {
	if i.Wall.IsZero() {
		return 0
	}
	return uint64(i.Wall.UnixMilli())
}
