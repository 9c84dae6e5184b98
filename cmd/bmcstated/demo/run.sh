#!/bin/bash
# make run: bmcstated with a virtual chassis on a private bus, until Ctrl-C.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
trap stop EXIT
trap 'exit 0' INT TERM

start_bus
start_daemon "$@"
cat <<END
bmcstated runs with a virtual chassis on a private bus. In another terminal, paste

  export DBUS_SYSTEM_BUS_ADDRESS=$DBUS_SYSTEM_BUS_ADDRESS

and then, for example,

  $PROGRAMS/bmcstatectl status
  $PROGRAMS/bmcstatectl on --wait
  busctl --address=\$DBUS_SYSTEM_BUS_ADDRESS introspect xyz.openbmc_project.State.Host0 /xyz/openbmc_project/state/host0

Its log follows; Ctrl-C ends it.

END
tail -n +1 -f "$WORK/daemon.log" &
own $!
wait "$DAEMON"
