package powerconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// FileName returns the name of a host's file.
func FileName(host int) string { return fmt.Sprintf("power-config-host%d.json", host) }

// Load reads the file of a host from dir. Warnings are to be logged; with an
// error, which joins one [*Error] for each thing that is wrong, no line of the
// host may be driven.
func Load(dir string, host int) (Config, []Warning, error) {
	path := filepath.Join(dir, FileName(host))
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, nil, fmt.Errorf("power configuration of host %d cannot be read: %w", host, err)
	}
	return Parse(path, data)
}

// Parse reads a file's text, as [Load] does; file is the name that messages
// show.
func Parse(file string, data []byte) (Config, []Warning, error) {
	p := &parser{file: file, data: data, config: defaults()}
	blank, err := jsonpos.Blank(data)
	if err != nil {
		return Config{}, nil, p.syntax(err)
	}
	p.data = blank // same offsets, and messages quote no comments
	root, err := jsonpos.Parse(blank)
	if err != nil {
		return Config{}, nil, p.syntax(err)
	}
	p.root(root)
	if err := errors.Join(p.errs...); err != nil {
		return Config{}, p.warnings, err
	}
	return p.config, p.warnings, nil
}

type parser struct {
	file     string
	data     []byte
	config   Config
	warnings []Warning
	errs     []error
	powerOn  *jsonpos.Node // read when all signals are
}

func (p *parser) syntax(err error) error {
	var syntax *jsonpos.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	return &Error{File: p.file, At: jsonpos.PositionOf(p.data, syntax.Offset), Text: "not valid JSON: " + syntax.Text}
}

func (p *parser) warn(offset int, format string, args ...any) {
	p.warnings = append(p.warnings, Warning{File: p.file, At: jsonpos.PositionOf(p.data, offset), Text: fmt.Sprintf(format, args...)})
}

func (p *parser) fail(offset int, format string, args ...any) {
	p.errs = append(p.errs, &Error{File: p.file, At: jsonpos.PositionOf(p.data, offset), Text: fmt.Sprintf(format, args...)})
}

// section reads the value of one key of the file's top level.
type section struct {
	key  string
	kind jsonpos.Kind
	read func(*parser, *jsonpos.Node)
}

var sections = []section{
	{"gpio_configs", jsonpos.Array, (*parser).signals},
	{"timing_configs", jsonpos.Object, (*parser).timings},
	{"event_configs", jsonpos.Object, (*parser).events},
	{"sequence_gpio_configs", jsonpos.Array, (*parser).extras},
	{"power_on_sequence", jsonpos.Array, func(p *parser, n *jsonpos.Node) { p.powerOn = n }},
}

func (p *parser) root(n *jsonpos.Node) {
	if n.Kind != jsonpos.Object {
		p.fail(n.Offset, "the file is %s, not an object", n.Kind)
		return
	}
	for _, m := range p.members(n) {
		i := 0
		for i < len(sections) && sections[i].key != m.Key {
			i++
		}
		switch {
		case i == len(sections):
			p.warn(m.Offset, "unknown key %q is ignored", m.Key)
		case m.Value.Kind != sections[i].kind:
			p.fail(m.Value.Offset, "%s is %s, not %s", m.Key, m.Value.Kind, sections[i].kind)
		default:
			sections[i].read(p, m.Value)
		}
	}
	p.sharedLines()
	p.mandatory(n)
	if p.powerOn != nil && len(p.errs) == 0 {
		p.sequence(p.powerOn)
	}
}

func (p *parser) mandatory(n *jsonpos.Node) {
	var missing []string
	for name, f := range signals {
		if _, ok := p.config.Signals[name]; f.mandatory && !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		state.Sort(missing)
		p.fail(n.Offset, "gpio_configs has no usable entry for %s; the host cannot be driven without",
			strings.Join(missing, ", "))
	}
}

// members returns the members of an object, without all but the last of those
// with the same key: x86-power-control takes the last.
func (p *parser) members(n *jsonpos.Node) []jsonpos.Member {
	last := make(map[string]int, len(n.Members))
	for i, m := range n.Members {
		last[m.Key] = i
	}
	var kept []jsonpos.Member
	for i, m := range n.Members {
		if last[m.Key] != i {
			p.warn(m.Offset, "%q is there twice; the last one counts", m.Key)
			continue
		}
		kept = append(kept, m)
	}
	return kept
}

func (p *parser) events(n *jsonpos.Node) {
	for _, m := range p.members(n) {
		switch m.Key {
		case "NMIWhenPoweredOff":
			p.flag(m, &p.config.NMIWhenPoweredOff)
		case "ButtonPassthrough":
			p.flag(m, &p.config.ButtonPassthrough)
		case "WarmResetSource":
			p.warmResetSource(m.Value)
		default:
			p.warn(m.Offset, "unknown key event_configs.%s is ignored", m.Key)
		}
	}
}

func (p *parser) flag(m jsonpos.Member, to *bool) {
	if m.Value.Kind != jsonpos.Bool {
		p.fail(m.Value.Offset, "event_configs.%s is %s, not true or false", m.Key, m.Value.Kind)
		return
	}
	*to = m.Value.Bool
}

// warmResetSources are the inputs that can show a warm reset.
var warmResetSources = []string{gpio.PostComplete, gpio.PlatformReset, "none"}

func (p *parser) warmResetSource(n *jsonpos.Node) {
	if n.Kind != jsonpos.String || !state.Contains(warmResetSources, n.Text) {
		p.fail(n.Offset, "event_configs.WarmResetSource is %s; allowed: %q", n.Source(p.data, 40), warmResetSources)
		return
	}
	p.config.WarmResetSource = n.Text
}
