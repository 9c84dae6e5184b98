package main

import (
	"fmt"
	"strings"

	"github.com/bmcstate/bmcstate/state"
)

// snapshot is what the status line tells of the daemon. Its zero value is a
// daemon that has nothing to do.
type snapshot struct {
	phase    string   // what the daemon as a whole does; "" = serving
	problems []string // lasting ones, found at start: a wrong configuration, a volatile state directory
	storage  string   // why the journal takes nothing; "" = it does
	domains  []domainStatus
}

// domainStatus is what one power domain does.
type domainStatus struct {
	_ state.Incomparable

	name    string // "domain 0", "BMC"
	running string // the operation; "" = none
	by      string // who asked for it
	unknown bool   // it is not confirmed, and the levels are read again
	waiting int    // requests that wait for their turn
	stuck   string // why the last request got stuck; "" = it did not
}

// statusLimit bounds the line: systemctl status shows one.
const statusLimit = 500

// statusLine says in one line what the daemon is doing. What is wrong comes
// first: an operator who reads only the beginning has read the important part.
func statusLine(s snapshot) string {
	var parts []string
	if s.storage != "" {
		parts = append(parts, "requests are refused: "+s.storage)
	}
	for _, d := range s.domains {
		if d.stuck != "" {
			parts = append(parts, d.name+" got stuck: "+d.stuck)
		}
	}
	parts = append(parts, s.problems...)
	for _, d := range s.domains {
		if text := d.doing(); text != "" {
			parts = append(parts, d.name+": "+text)
		}
	}
	if s.phase != "" {
		parts = append(parts, s.phase)
	}
	if len(parts) == 0 {
		return "serving"
	}
	line := strings.ReplaceAll(strings.Join(parts, "; "), "\n", " ")
	if len(line) > statusLimit {
		line = strings.ToValidUTF8(line[:statusLimit], "") + "…"
	}
	return line
}

// doing is empty where the domain has nothing to do.
func (d domainStatus) doing() string {
	var text string
	if d.running != "" {
		text = d.running
		if d.by != "" {
			text += " for " + d.by
		}
		if d.unknown {
			text += ", not confirmed yet"
		}
	}
	if d.waiting == 0 {
		return text
	}
	if text != "" {
		text += ", "
	}
	return text + fmt.Sprint(d.waiting) + " waiting"
}
