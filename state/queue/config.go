package queue

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// Unlimited switches a bound or a lifetime of [Config] off.
const Unlimited = -1

// Config selects the policy and the bounds of a domain. A zero field takes the
// default named beside it; [Unlimited] switches a number or duration off.
type Config struct {
	_ state.Incomparable

	Policy     state.Policy // FIFO_DEDUP
	DepthLimit int          // waiting requests of the domain; 32
	Share      int          // waiting requests of one uid; 16
	ConnShare  int          // waiting requests of one bus connection; 8

	HistoryMax   int           // records of the domain; 4096
	HistoryTTL   time.Duration // of uptime that a final record lives; 7 days
	RepeatWindow time.Duration // in which a final record is not evicted for room; 10 min
	PendingTTL   time.Duration // that a request waits at most, unless it names its own; 10 min

	// RetryInvalid lets a repeat of a key that ended INVALID be judged again
	// (repeatAfterInvalid: "retry") instead of being answered INVALID.
	RetryInvalid bool

	// LogMax is how many deliveries are kept for [Queue.Deliveries]; 4096.
	LogMax int
}

// WithDefaults returns c with its zero fields set.
func (c Config) WithDefaults() Config {
	if c.Policy == 0 {
		c.Policy = state.FIFODedup
	}
	setDefault(&c.DepthLimit, 32)
	setDefault(&c.Share, 16)
	setDefault(&c.ConnShare, 8)
	setDefault(&c.HistoryMax, 4096)
	setDefault(&c.HistoryTTL, 7*24*time.Hour)
	setDefault(&c.RepeatWindow, 10*time.Minute)
	setDefault(&c.PendingTTL, 10*time.Minute)
	setDefault(&c.LogMax, 4096)
	return c
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// reached reports whether n things fill a bound.
func reached(n, bound int) bool { return bound >= 0 && n >= bound }
