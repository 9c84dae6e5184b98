package config

import (
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
		var apart []Domain
		for _, d := range all {
			if state.Contains(d.Hosts, m.Host) || state.Contains(d.Chassis, m.Chassis) {
				joined.Hosts = append(joined.Hosts, d.Hosts...)
				joined.Chassis = append(joined.Chassis, d.Chassis...)
			} else {
				apart = append(apart, d)
			}
		}
		all = append(apart, joined)
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

// ascending sorts s and leaves one of each.
func ascending(s []int) []int {
	state.Sort(s)
	one := s[:1]
	for _, n := range s[1:] {
		if n != one[len(one)-1] {
			one = append(one, n)
		}
	}
	return one
}
