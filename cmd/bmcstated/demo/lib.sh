# Starts a private bus with bmcstated --simulate on it, and ends both. To be
# sourced; takes the programs from $PROGRAMS.

PROGRAMS=${PROGRAMS:?where bmcstated and bmcstatectl are}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
WORK=$(mktemp -d "${TMPDIR:-/tmp}/bmcstate.XXXXXX")
# In memory, as on a BMC: a busy disk would stretch every press of the virtual board.
RUN=$(mktemp -d /dev/shm/bmcstate.XXXXXX 2>/dev/null) || RUN=$WORK/run
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
  eventually 60 test -S "$WORK/bus" || die "dbus-daemon does not start: $(cat "$WORK/bus.log")"
  export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$WORK/bus
}

# start_daemon [FLAG...]: returns when the daemon serves its objects.
start_daemon() {
  "$PROGRAMS/bmcstated" --simulate --state-dir "$WORK/state" --run-dir "$RUN" "$@" >"$WORK/daemon.log" 2>&1 &
  DAEMON=$!
  own $DAEMON
  eventually 60 answers || die "bmcstated does not start: $(cat "$WORK/daemon.log")"
}

# unhurried: the name of a configuration whose virtual board has times that a busy
# machine keeps. On the quick one a press that takes 0.4 s is a forced off.
unhurried() {
  echo '{"simulate": {"timings": {"overrideHold": "1s", "forceOffPulse": "10s", "powerOKWatchdog": "60s"}}}' >"$WORK/bmcstate.json"
  echo "$WORK/bmcstate.json"
}

# answers: each service has its name.
answers() {
  local s=xyz.openbmc_project.State
  reads $s.TransitionQueue state/queue0 $s.TransitionQueue Policy &&
    reads $s.Host0 state/host0 $s.Host CurrentHostState &&
    reads $s.Chassis0 state/chassis0 $s.Chassis CurrentPowerState &&
    reads $s.ScheduledHostTransition0 scheduled/host0 $s.ScheduledHostTransition ScheduledTime &&
    reads $s.BMC state/bmc0 $s.BMC CurrentBMCState
}

reads() {
  busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" get-property "$1" "/xyz/openbmc_project/$2" "$3" "$4" >/dev/null 2>&1
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
    if ! eventually 60 gone "$pid"; then
      echo "process $pid does not end" >&2
      kill -KILL "$pid" 2>/dev/null
      failed=1
    fi
    wait "$pid" 2>/dev/null
  done
  PIDS=()
  rm -rf "$WORK" "$RUN"
  return $failed
}

# gone PID: whether the process has ended (a child that was not waited for yet
# still has a state).
gone() { ! [ -e "/proc/$1" ] || grep -q '^State:.*zombie' "/proc/$1/status" 2>/dev/null; }
