package peers

import (
	"context"
	"strings"
	"sync"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/slog"
)

// Mode says who keeps the settings objects (DESIGN.md §9, S50).
type Mode uint8

// The modes.
const (
	ModeAuto   Mode = iota // we do, while the settings daemon is absent for long
	ModeClient             // the settings daemon alone
	ModeServe              // we do, unless the settings daemon is there
)

// SettingsOptions say what [Settings] does.
type SettingsOptions struct {
	Mode  Mode
	Hosts []int
	// Absent is how long ModeAuto waits for the settings daemon, and Retry the
	// time until what could not be read or written is tried again.
	Absent, Retry time.Duration
	Post          func(engine.Event)
	// Serve serves the objects ourselves; owner is the unique name that has the
	// service then.
	Serve func(context.Context) (owner string, end func(), err error)
	Log   *slog.Logger
}

// Settings keeps the engine informed of the settings, and changes those that
// another daemon keeps.
type Settings struct {
	link  *Link
	opt   SettingsOptions
	wake  chan struct{}
	ended chan struct{}
	stop  context.CancelFunc

	mu     sync.Mutex
	writes map[settingKey]uint64 // not done yet

	// The rest belongs to the goroutine.
	told  map[int]engine.Settings
	ours  string // unique name that serves for us, "" = nobody does
	end   func()
	since time.Time // that the service has had no owner
}

type settingKey struct {
	host int
	what state.Setting
}

// NewSettings starts to watch the settings over a link, until Close.
func NewSettings(link *Link, o SettingsOptions) *Settings {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Settings{link: link, opt: o, wake: make(chan struct{}, 1), ended: make(chan struct{}), stop: cancel,
		writes: map[settingKey]uint64{}, told: map[int]engine.Settings{}}
	link.Watch(s.signalled, comings(openbmc.SettingsService), changesOf(godbus.WithMatchSender(openbmc.SettingsService)))
	go s.run(ctx)
	return s
}

// Close stops watching, and serving.
func (s *Settings) Close() {
	s.stop()
	<-s.ended
}

// Write changes a setting that the settings daemon keeps. What fails is tried
// again. It does not block.
func (s *Settings) Write(host int, what state.Setting, value uint64) {
	s.mu.Lock()
	s.writes[settingKey{host, what}] = value
	s.mu.Unlock()
	s.rouse()
}

func (s *Settings) signalled(sig *godbus.Signal) {
	if sig == nil || sig.Name == ownerMoved || strings.HasPrefix(string(sig.Path), string(openbmc.ControlRoot)) {
		s.rouse()
	}
}

func (s *Settings) rouse() {
	select {
	case s.wake <- struct{}{}:
	default: // it looks anyway
	}
}

func (s *Settings) run(ctx context.Context) {
	defer close(s.ended)
	defer s.endServing()
	s.since = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(s.look(ctx))
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// look finds out who keeps the settings and passes them on. It returns when to
// look again at the latest.
func (s *Settings) look(ctx context.Context) time.Duration {
	owner, err := s.link.Owner(openbmc.SettingsService)
	switch {
	case err != nil:
		s.endServing() // our own connection has gone with the bus
		s.tellAll(engine.Settings{})
		return s.opt.Retry
	case owner == "":
		s.endServing()
		return s.absent(ctx)
	case owner == s.ours:
		return time.Hour // signals tell
	}
	s.endServing()
	s.since = time.Time{}
	s.carryOut(owner)
	whole := true
	for _, h := range s.opt.Hosts {
		ev, ok := s.read(owner, h)
		s.tell(ev)
		whole = whole && ok
	}
	if whole && len(s.pending()) == 0 {
		return time.Hour
	}
	return s.opt.Retry
}

// absent serves the settings ourselves, where that is wanted and its time has
// come.
func (s *Settings) absent(ctx context.Context) time.Duration {
	s.tellAll(engine.Settings{})
	if s.since.IsZero() {
		s.since = time.Now()
	}
	wait := s.opt.Absent - time.Since(s.since)
	if s.opt.Mode == ModeServe {
		wait = 0
	}
	if s.opt.Mode == ModeClient {
		return time.Hour
	}
	if wait > 0 {
		return wait
	}
	owner, end, err := s.opt.Serve(ctx)
	if err != nil {
		s.opt.Log.Warn("the settings cannot be served", "err", err)
		return s.opt.Retry
	}
	s.ours, s.end = owner, end
	s.opt.Log.Info("the settings are kept here: there is no settings daemon")
	s.tellAll(engine.Settings{Own: true})
	return 0 // the name may have been taken over already
}

func (s *Settings) endServing() {
	if s.end == nil {
		return
	}
	s.end()
	s.ours, s.end = "", nil
	s.opt.Log.Info("the settings are not kept here any more")
}

func (s *Settings) tellAll(ev engine.Settings) {
	for _, h := range s.opt.Hosts {
		ev.Host = h
		s.tell(ev)
	}
}

func (s *Settings) tell(ev engine.Settings) {
	if old, ok := s.told[ev.Host]; ok && old == ev {
		return
	}
	s.told[ev.Host] = ev
	s.opt.Post(ev)
}

// settingPlace is where a setting is on the bus.
func settingPlace(k settingKey) (path, iface, name string) {
	oneTime := k.what == state.SettingRestoreOnce || k.what == state.SettingAutoRebootOnce
	switch k.what {
	case state.SettingAutoReboot, state.SettingAutoRebootOnce:
		return string(openbmc.AutoRebootPath(k.host, oneTime)), openbmc.IfaceRebootPolicy, "AutoReboot"
	case state.SettingRestoreDelay:
		return string(openbmc.RestorePolicyPath(k.host, false)), openbmc.IfaceRestorePolicy, "PowerRestoreDelay"
	default:
		return string(openbmc.RestorePolicyPath(k.host, oneTime)), openbmc.IfaceRestorePolicy, "PowerRestorePolicy"
	}
}

// read reads a host's settings. They are known with the persistent restore
// policy; whole says that everything could be read. What cannot be read of the
// reboot policy forbids a reboot (openbmc-state-manager.md §2.3).
func (s *Settings) read(owner string, host int) (ev engine.Settings, whole bool) {
	ev, whole = engine.Settings{Host: host}, true
	for what := state.SettingRestore; what <= state.SettingAutoRebootOnce; what++ {
		path, iface, name := settingPlace(settingKey{host, what})
		raw, err := s.link.Get(owner, path, iface, name)
		v, ok := parseSetting(what, raw)
		if err != nil || !ok {
			s.opt.Log.Warn("a setting cannot be read", "path", path, "property", name, "value", raw, "err", err)
			whole = false
			continue
		}
		ev.Known = ev.Known || what == state.SettingRestore
		ev.Values = ev.Values.With(what, v)
	}
	for k, v := range s.pending() {
		if k.host == host {
			ev.Values = ev.Values.With(k.what, v)
		}
	}
	return ev, whole
}

func parseSetting(what state.Setting, raw any) (uint64, bool) {
	switch v := raw.(type) {
	case bool:
		if v {
			return 1, what >= state.SettingAutoReboot
		}
		return 0, what >= state.SettingAutoReboot
	case string:
		p, ok := openbmc.RestorePolicies.Parse(v)
		return uint64(p), ok && what <= state.SettingRestoreOnce
	case uint64:
		return v, what == state.SettingRestoreDelay
	default:
		return 0, false
	}
}

func (s *Settings) pending() map[settingKey]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[settingKey]uint64, len(s.writes))
	for k, v := range s.writes {
		all[k] = v
	}
	return all
}

// carryOut writes what is to be written.
func (s *Settings) carryOut(owner string) {
	for k, v := range s.pending() {
		path, iface, name := settingPlace(k)
		if err := s.link.Set(owner, path, iface, name, settingVariant(k.what, v)); err != nil {
			s.opt.Log.Warn("a setting could not be written; it is tried again", "path", path, "property", name, "err", err)
			continue
		}
		s.mu.Lock()
		if s.writes[k] == v {
			delete(s.writes, k)
		}
		s.mu.Unlock()
	}
}

func settingVariant(what state.Setting, v uint64) any {
	switch what {
	case state.SettingRestore, state.SettingRestoreOnce:
		return openbmc.RestorePolicies.String(state.RestorePolicy(v))
	case state.SettingRestoreDelay:
		return v
	default:
		return v != 0
	}
}
