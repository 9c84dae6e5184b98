package config

import (
	"slices"
	"sort"

	"github.com/bmcstate/bmcstate/state"
)

// Domain is one connected component of the map of hosts to chassis: what
// shares power, and so one queue (DESIGN.md P1).
type Domain struct {
	Number  int   // its lowest chassis
	Hosts   []int // ascending
	Chassis []int // ascending
}

// Domains returns the domains of the mappings, by number.
func Domains(mappings []Mapping) []Domain {
	var all []Domain
	for _, m := range mappings {
		joined := Domain{Hosts: []int{m.Host}, Chassis: []int{m.Chassis}}
		all = slices.DeleteFunc(all, func(d Domain) bool {
			touches := slices.Contains(d.Hosts, m.Host) || slices.Contains(d.Chassis, m.Chassis)
			if touches {
				joined.Hosts = append(joined.Hosts, d.Hosts...)
				joined.Chassis = append(joined.Chassis, d.Chassis...)
			}
			return touches
		})
		all = append(all, joined)
	}
	for i := range all {
		all[i].Hosts = ascending(all[i].Hosts)
		all[i].Chassis = ascending(all[i].Chassis)
		all[i].Number = all[i].Chassis[0]
	}
	// Package sort has one copy of its code for all types; slices.SortFunc would
	// add ten kilobytes to the daemon.
	sort.Slice(all, func(i, j int) bool { return all[i].Number < all[j].Number })
	return all
}

func ascending(s []int) []int {
	state.Sort(s)
	return slices.Compact(s)
}
