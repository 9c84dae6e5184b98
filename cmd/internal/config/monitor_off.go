//go:build !faults

package config

// Monitor is empty in a program that is built without the fault monitor, whose
// block is then an unknown key.
type Monitor struct{}

func defaultMonitor() Monitor { return Monitor{} }

func (c *Config) withMonitor(all []key) []key { return all }
