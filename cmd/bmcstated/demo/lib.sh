# Starts a private bus with bmcstated --simulate on it, and ends both. To be
# sourced; takes the programs from $PROGRAMS.

PROGRAMS=${PROGRAMS:?where bmcstated and bmcstatectl are}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
WORK=$(mktemp -d "${TMPDIR:-/tmp}/bmcstate.XXXXXX")
PIDS=() # in the order in which they were started

# own PID: stop will end that process.
own() { PIDS+=("$1"); }

die() {
  echo "$*" >&2
  exit 1
}

start_bus() {
  dbus-daemon --nofork --nopidfile --nosyslog --config-file="$HERE/bus.conf" \
    --address="unix:path=$WORK/bus" >"$WORK/bus.log" 2>&1 &
  own $!
  eventually 10 test -S "$WORK/bus" || die "dbus-daemon does not start: $(cat "$WORK/bus.log")"
  export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$WORK/bus
}

# start_daemon [FLAG...]: returns when the daemon serves its objects.
start_daemon() {
  "$PROGRAMS/bmcstated" --simulate --state-dir "$WORK/state" --run-dir "$WORK/run" "$@" >"$WORK/daemon.log" 2>&1 &
  DAEMON=$!
  own $DAEMON
  eventually 10 answers || die "bmcstated does not start: $(cat "$WORK/daemon.log")"
}

answers() {
  busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" get-property xyz.openbmc_project.State.TransitionQueue \
    /xyz/openbmc_project/state/queue0 xyz.openbmc_project.State.TransitionQueue Policy >/dev/null 2>&1
}

# eventually SECONDS COMMAND...: whether the command succeeds within that time.
eventually() {
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $until ] || return 1
    sleep 0.05
  done
}

# stop ends what was started, the newest first, and fails when a process does
# not end by itself.
stop() {
  local pid failed=0 i
  for ((i = ${#PIDS[@]} - 1; i >= 0; i--)); do
    pid=${PIDS[i]}
    kill "$pid" 2>/dev/null || continue
    if ! eventually 10 gone "$pid"; then
      echo "process $pid does not end" >&2
      kill -KILL "$pid" 2>/dev/null
      failed=1
    fi
    wait "$pid" 2>/dev/null
  done
  PIDS=()
  rm -rf "$WORK"
  return $failed
}

# gone PID: whether the process has ended (a child that was not waited for yet
# still has a state).
gone() { ! [ -e "/proc/$1" ] || grep -q '^State:.*zombie' "/proc/$1/status" 2>/dev/null; }
