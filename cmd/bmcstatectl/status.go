package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bmcstate/bmcstate/dbus/client"
)

var errNoObjects = errors.New("no state objects on the bus; is bmcstated running, and is this its bus?")

func runStatus(ctx context.Context, e *env, args []string) error {
	f := e.flags("status", "")
	asJSON := f.Bool("json", false, "print all objects with all properties as JSON")
	if _, err := e.parse(f, args, 0); err != nil {
		return err
	}
	objects, err := e.objects(ctx)
	if err != nil {
		return err
	}
	if *asJSON {
		return writeJSON(e.stdout, objects)
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	for _, o := range objects {
		if line := summary(o); line != "" {
			fmt.Fprintf(w, "%s\t%s\n", shortPath(o.Path), line)
		}
	}
	return w.Flush()
}

func (e *env) objects(ctx context.Context) ([]client.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	objects, err := c.Objects(ctx)
	if err == nil && len(objects) == 0 {
		err = errNoObjects
	}
	return objects, err
}

// part is one thing that a summary says of an object: its label and property.
type part struct{ label, property string }

// summaries are the parts by the object's stem: the first is the state itself.
var summaries = map[string][]part{
	"bmc":     {{"", "CurrentBMCState"}, {"last reboot", "LastRebootCause"}},
	"chassis": {{"", "CurrentPowerState"}, {"power", "CurrentPowerStatus"}, {"requested", "RequestedPowerTransition"}},
	"host": {
		{"", "CurrentHostState"}, {"requested", "RequestedHostTransition"}, {"boot", "BootProgress"},
		{"OS", "OperatingSystemState"}, {"attempts left", "AttemptsLeft"}, {"restart cause", "RestartCause"},
	},
	"queue": {
		{"", "Policy"}, {"depth", "Depth"}, {"limit", "DepthLimit"}, {"running", "Running"},
		{"launches", "Launches"}, {"duplicates", "DuplicatesSuppressed"}, {"refused", "Refused"},
	},
}

// summary returns one line about a state object, "" for other objects.
func summary(o client.Object) string {
	if strings.HasPrefix(shortPath(o.Path), "scheduled/") {
		return schedule(o)
	}
	if strings.Contains(shortPath(o.Path), "/") {
		return "" // a request
	}
	var said []string
	for _, p := range summaries[strings.TrimRight(path.Base(o.Path), "0123456789")] {
		if v := o.Get(p.property); v != nil {
			said = append(said, strings.TrimSpace(p.label+" "+shortValue(v)))
		}
	}
	return strings.Join(said, ", ")
}

func schedule(o client.Object) string {
	seconds, _ := o.Get("ScheduledTime").(uint64)
	if seconds == 0 {
		return "nothing scheduled"
	}
	at := time.Unix(int64(seconds), 0).Format(time.RFC3339)
	return fmt.Sprintf("%s at %s", shortValue(o.Get("ScheduledTransition")), at)
}

const (
	stateRoot  = "/xyz/openbmc_project/state/"
	root       = "/xyz/openbmc_project/"
	enumPrefix = "xyz.openbmc_project."
)

// shortPath returns "host0", "queue0/request/7" or "scheduled/host0".
func shortPath(p string) string {
	if short, ok := strings.CutPrefix(p, stateRoot); ok {
		return short
	}
	return strings.TrimPrefix(p, root)
}

// shortValue returns a value for people: an enum's last word, a path's end.
func shortValue(v any) string {
	s := fmt.Sprint(v)
	if strings.HasPrefix(s, enumPrefix) {
		return s[strings.LastIndexByte(s, '.')+1:]
	}
	if s == "/" {
		return "none"
	}
	return shortPath(s)
}

func writeJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(v)
}
