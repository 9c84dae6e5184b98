package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"strconv"
	"syscall"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// maxFile is the size in bytes up to which a file is read; a real one has a
// few hundred.
const maxFile = 1 << 20

// Load reads the configuration at path. A file that is missing at
// [DefaultPath] is no error: the defaults apply, with Driven false. With an
// error the Config is still usable: it has every field that was right,
// defaults for the rest, and Driven is false. The error joins one
// [*FieldError] for each thing that is wrong, or says why the file could not
// be read.
func Load(path string) (Config, error) {
	data, err := readFile(path)
	if path == DefaultPath && errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	if err != nil {
		return Default(), fmt.Errorf("configuration cannot be read: %w", err)
	}
	return Parse(path, data)
}

func readFile(path string) ([]byte, error) {
	// Not blocking: a pipe without a writer must not hold the daemon up.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return data, err
}

// Parse reads a configuration from data, as [Load] does; file is the name that
// errors show.
func Parse(file string, data []byte) (Config, error) {
	c := Default()
	d := &decoder{file: file, data: data}
	root, err := jsonpos.Parse(data)
	if err != nil {
		return c, d.syntax(err)
	}
	object(c.keys)(d, "", root)
	c.check(d, root)
	c.Driven = len(d.errs) == 0
	return c, errors.Join(d.errs...)
}

func (d *decoder) syntax(err error) error {
	var syntax *jsonpos.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	return &FieldError{
		File: d.file, At: jsonpos.PositionOf(d.data, syntax.Offset),
		Problem: "not valid JSON: " + syntax.Text,
	}
}

// check looks at what two fields say together.
func (c *Config) check(d *decoder, root *jsonpos.Node) {
	if c.RepeatWindow > c.HistoryTTL {
		d.report(offsetOf(root, "repeatWindow", "historyTTL"), FieldError{
			Field: "repeatWindow", Value: strconv.Quote(short(c.RepeatWindow)), Problem: "is longer than historyTTL",
			Allowed: fmt.Sprintf("a duration up to historyTTL, %q", short(c.HistoryTTL)),
		})
		c.RepeatWindow = c.HistoryTTL
	}
	domains := append(Domains(c.Hosts), Domains(c.SimulatedHosts())...)
	for _, n := range state.SortedKeys(c.Executors) {
		d.checkDomain(domains, root, "executor", fmt.Sprintf("executor.%d", n), n, strconv.Quote(c.Executors[n].String()))
	}
	for _, n := range state.SortedKeys(c.Policies) {
		d.checkDomain(domains, root, "policy", fmt.Sprintf("policy.%d", n), n, strconv.Quote(c.Policies[n].String()))
	}
	c.Monitor.checkPlaces(d, root, domains)
}

// checkDomain reports a field below key that names no domain by n.
func (d *decoder) checkDomain(domains []Domain, root *jsonpos.Node, key, field string, n int, value string) {
	for i := range domains {
		if domains[i].Number == n {
			return
		}
	}
	d.report(offsetOf(root, key), FieldError{
		Field: field, Value: value, Problem: "names no domain of hosts",
		Allowed: "the lowest chassis of a domain",
	})
}

// offsetOf returns where the first of the keys that root has stands.
func offsetOf(root *jsonpos.Node, keys ...string) int {
	for _, k := range keys {
		for _, m := range root.Members {
			if m.Key == k {
				return m.Value.Offset
			}
		}
	}
	return root.Offset
}

// readPolicy reads one policy for all domains, or an object from domain to
// policy, with "default" for those that it does not name.
func (c *Config) readPolicy(d *decoder, field string, n *jsonpos.Node) {
	allowed := policyRange + ", or an object from a domain's number or \"default\" to one of them"
	if n.Kind == jsonpos.String {
		policy(&c.Policy)(d, field, n)
		return
	}
	if n.Kind != jsonpos.Object {
		d.wrongType(field, n, allowed)
		return
	}
	before, per := len(d.errs), make([]state.Policy, maxIndex+1)
	keys := []key{{"default", policy(&c.Policy)}}
	for i := range per {
		keys = append(keys, key{strconv.Itoa(i), policy(&per[i])})
	}
	d.object(field, n, keys)
	if len(d.errs) > before {
		return
	}
	c.Policies = make(map[int]state.Policy)
	for i, p := range per {
		if p != 0 {
			c.Policies[i] = p
		}
	}
}

// readHosts reads a count, or a list of {host, chassis}.
func (c *Config) readHosts(d *decoder, field string, n *jsonpos.Node) {
	if n.Kind == jsonpos.Number {
		var count int
		before := len(d.errs)
		integer(&count, 1, maxIndex+1)(d, field, n)
		if len(d.errs) == before {
			c.Hosts = oneToOne(count)
		}
		return
	}
	if allowed := fmt.Sprintf(`a whole number from 1 to %d, or a list of objects such as {"host": 0, "chassis": 0}`,
		maxIndex+1); n.Kind != jsonpos.Array || len(n.Elems) == 0 {
		d.fail(field, n, "is not allowed here", allowed)
		return
	}
	var all []Mapping
	before := len(d.errs)
	list(&all, (maxIndex+1)*(maxIndex+1), mapping)(d, field, n)
	if len(d.errs) == before {
		sort.Slice(all, func(i, j int) bool {
			a, b := all[i], all[j]
			return a.Host < b.Host || a.Host == b.Host && a.Chassis < b.Chassis
		})
		c.Hosts = all
	}
}

func mapping(to *Mapping) reader {
	return func(d *decoder, field string, n *jsonpos.Node) {
		*to = Mapping{Host: -1, Chassis: -1}
		before := len(d.errs)
		object(func() []key {
			return []key{{"host", integer(&to.Host, 0, maxIndex)}, {"chassis", integer(&to.Chassis, 0, maxIndex)}}
		})(d, field, n)
		if len(d.errs) == before && (to.Host < 0 || to.Chassis < 0) {
			d.fail(field, n, "is not complete", `both "host" and "chassis"`)
		}
	}
}
