// Package failover asks the other BMC of a redundant pair to take over
// (fault-monitor.md §1.6). It never forces, and does not ask where the answer is
// known to be no.
package failover

import (
	"context"
	"fmt"
	"strings"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/outgoing"
)

// Where the daemon of BMC redundancy (phosphor-rbmc-state-manager of the
// repository ibm-openbmc/phosphor-state-manager) has both its interfaces: its
// README and its rbmctool call StartFailover there, and the README says that the
// active BMC takes the call.
const (
	Service   = "xyz.openbmc_project.State.BMC.Redundancy"
	Path      = "/xyz/openbmc_project/state/bmc0"
	Interface = Service
	control   = "xyz.openbmc_project.Control.Failover"
	// requester is the closest of the enum's values to a fault monitor.
	requester = control + ".Requester.SystemConfig"

	mapper     = "xyz.openbmc_project.ObjectMapper"
	mapperPath = "/xyz/openbmc_project/object_mapper"
)

// Start asks for a failover over the bus at address (empty: as for the daemon's
// own services). It returns "" once that has begun, else why not. The call ends
// with ctx.
func Start(ctx context.Context, address string) (refusal string) {
	conn, err := outgoing.Dial(ctx, address)
	if err != nil {
		return "the bus cannot be reached: " + err.Error()
	}
	defer func() { _ = conn.Close() }()
	o := conn.Object(Service, Path)
	var shown map[string]godbus.Variant
	err = o.CallWithContext(ctx, "org.freedesktop.DBus.Properties.GetAll", godbus.FlagNoAutoStart, Interface).Store(&shown)
	if err != nil {
		return "no redundancy is shown: " + err.Error()
	}
	if why := forbidden(shown); why != "" {
		return why
	}
	service, path, err := place(ctx, conn)
	if err != nil {
		return err.Error()
	}
	err = conn.Object(service, path).CallWithContext(ctx, control+".StartFailover", godbus.FlagNoAutoStart, requester, map[string]godbus.Variant{}).Err
	if err != nil {
		return err.Error()
	}
	return ""
}

// place returns who takes the call. The interface leaves open which object has
// it, so the mapper is asked; without an answer it is where that daemon has it.
func place(ctx context.Context, conn *godbus.Conn) (service string, path godbus.ObjectPath, err error) {
	var tree map[godbus.ObjectPath]map[string][]string
	_ = conn.Object(mapper, mapperPath).CallWithContext(ctx, mapper+".GetSubTree", godbus.FlagNoAutoStart, "/", int32(0), []string{control}).Store(&tree)
	if len(tree[Path]) > 0 || len(tree) == 0 {
		return Service, Path, nil
	}
	for path = range tree {
		for service = range tree[path] {
		}
	}
	if len(tree) > 1 || len(tree[path]) > 1 {
		return "", "", fmt.Errorf("more than one object has %s, and none is %s", control, Path)
	}
	return service, path, nil
}

// forbidden says why a failover would be refused, "" if it may be asked for.
func forbidden(shown map[string]godbus.Variant) string {
	is := func(name string) bool { b, _ := shown[name].Value().(bool); return b }
	last := func(name string) string {
		s, _ := shown[name].Value().(string)
		return s[strings.LastIndexByte(s, '.')+1:]
	}
	switch {
	case last("Role") != "Active":
		return fmt.Sprintf("this BMC's role is %s, not Active", last("Role"))
	case is("FailoverInProgress") || is("FailoverImminent"):
		return "a failover is under way already"
	case !is("RedundancyEnabled"):
		return "redundancy is not enabled"
	case !is("FailoversAllowed"):
		return "failovers are not allowed: " + last("FailoversNotAllowedReason")
	}
	return ""
}
