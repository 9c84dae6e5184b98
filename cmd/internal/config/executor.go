package config

import (
	"fmt"
	"strconv"

	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// Executor is what carries the transitions of a domain out (DESIGN.md §4).
type Executor uint8

// The executors.
const (
	// ExecutorAuto is gpio where the host has a power-config file, else systemd
	// where its targets are loaded, else nothing is driven.
	ExecutorAuto        Executor = iota
	ExecutorGPIO                 // lines, as the power-config file says
	ExecutorSystemd              // the targets of OpenBMC
	ExecutorGPIOTargets          // the targets, whose units have us drive the lines
)

var executorNames = []string{"auto", "gpio", "systemd", "gpio-targets"}

// String returns the word of the configuration.
func (e Executor) String() string { return executorNames[e] }

const executorRange = `"auto", "gpio", "systemd" or "gpio-targets"`

func parseExecutor(s string) (Executor, error) {
	for i, name := range executorNames {
		if s == name {
			return Executor(i), nil
		}
	}
	return 0, errOutOfRange
}

// ExecutorOf returns the executor of a domain.
func (c *Config) ExecutorOf(domain int) Executor {
	if e, ok := c.Executors[domain]; ok {
		return e
	}
	return c.Executor
}

// UsesLineTargets reports whether some domain is run by targets whose units have
// the lines driven.
func (c *Config) UsesLineTargets() bool {
	for _, e := range c.Executors {
		if e == ExecutorGPIOTargets {
			return true
		}
	}
	return c.Executor == ExecutorGPIOTargets
}

// readExecutor reads one executor for all domains, or an object from domain to
// executor, with "default" for those that it does not name.
func (c *Config) readExecutor(d *decoder, field string, n *jsonpos.Node) {
	one := func(to *Executor) reader { return text(to, executorRange, parseExecutor) }
	switch n.Kind {
	case jsonpos.String:
		one(&c.Executor)(d, field, n)
	case jsonpos.Object:
		c.Executors = map[int]Executor{}
		keys := []key{{"default", one(&c.Executor)}}
		for i := range maxIndex + 1 {
			keys = append(keys, key{strconv.Itoa(i), func(d *decoder, field string, n *jsonpos.Node) {
				var e Executor
				one(&e)(d, field, n)
				c.Executors[i] = e
			}})
		}
		d.object(field, n, keys)
	default:
		d.wrongType(field, n, fmt.Sprintf("%s, or an object from a domain's number or \"default\" to one of them", executorRange))
	}
}
