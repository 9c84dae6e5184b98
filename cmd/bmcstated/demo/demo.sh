#!/bin/bash
# make demo: drives a virtual chassis with busctl alone. Prints each command and
# its answer, checks each answer, and exits 1 when one of them is wrong.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
trap stop EXIT
trap 'exit 1' INT TERM
passed=0 failed=0

S=xyz.openbmc_project.State
HOST=($S.Host0 /xyz/openbmc_project/state/host0 $S.Host)
CHASSIS=($S.Chassis0 /xyz/openbmc_project/state/chassis0 $S.Chassis)
QUEUE=($S.TransitionQueue /xyz/openbmc_project/state/queue0 $S.TransitionQueue)

say() { printf '\n# %s\n' "$*"; }

# bus ARGUMENT...: shows a busctl command, runs it, shows its answer and leaves
# it in $ANSWER.
bus() {
  printf '$ busctl %s\n' "$*"
  ANSWER=$(busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" "$@" 2>&1) || ANSWER="error: $ANSWER"
  [ -z "$ANSWER" ] || printf '%s\n' "$ANSWER"
}

# check WHAT COMMAND...: counts whether the command succeeds.
check() {
  local what=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "WRONG: $what"
  fi
}

is() { [ "$ANSWER" = "$1" ]; }
has() { grep -Eq -- "$1" <<<"$ANSWER"; }

get() { bus get-property "$@"; }

# request OBJECT... PROPERTY VALUE: a write, which answers nothing when it is
# accepted. A power off that a slow disk has not taken yet keeps it back.
request() {
  local until=$((SECONDS + 60))
  bus set-property "$1" "$2" "$3" "$4" s "$5"
  while has "must be written first" && [ $SECONDS -lt $until ]; do
    sleep 0.05
    bus set-property "$1" "$2" "$3" "$4" s "$5"
  done
  check "the write is accepted" is ""
}

# number OBJECT... PROPERTY: shows a counter and leaves its value in $NUMBER.
number() {
  get "$@"
  NUMBER=${ANSWER##* }
}

# monitor: from now on what busctl sees of the host's state comes from fd 3.
monitor() {
  mkfifo "$WORK/signals"
  busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" --json=short \
    --match="type='signal',path='${HOST[1]}',member='PropertiesChanged'" monitor >"$WORK/signals" 2>"$WORK/monitor.log" &
  own $!
  exec 3<"$WORK/signals"
  eventually 60 grep -q Monitoring "$WORK/monitor.log" || die "busctl monitor does not start: $(cat "$WORK/monitor.log")"
}

# passes STATE...: whether CurrentHostState now goes through exactly these
# states, as its signals say. Shows each as it comes.
passes() {
  local line state wanted
  for wanted in "$@"; do
    while :; do
      if ! read -r -t 120 line <&3; then
        echo "CurrentHostState does not change to $wanted"
        return 1
      fi
      state=$(sed -n 's/.*"CurrentHostState":{"type":"s","data":"\([^"]*\)"}.*/\1/p' <<<"$line")
      [ -z "$state" ] || break
    done
    echo "  CurrentHostState is now $state"
    [ "${state##*.}" = "$wanted" ] || return 1
  done
}

start_bus
start_daemon --config "$(unhurried)"
monitor

say "What is there"
bus introspect "${HOST[@]:0:2}"
check "host0 has its interfaces" has "^$S.Host +interface"
check "host0 can be asked for transitions" has '^\.RequestedHostTransition +property +s .*writable'
get "${HOST[@]}" CurrentHostState
check "the host is off" is "s \"$S.Host.HostState.Off\""

say "On: the virtual chassis raises power good, and the state follows"
request "${HOST[@]}" RequestedHostTransition $S.Host.Transition.On
check "Off, TransitioningToRunning, Running" passes TransitioningToRunning Running
get "${HOST[@]}" CurrentHostState
check "the host runs" is "s \"$S.Host.HostState.Running\""
get "${CHASSIS[@]}" CurrentPowerState
check "the chassis is on" is "s \"$S.Chassis.PowerState.On\""

say "Reboot, twice quickly: one launch"
number "${QUEUE[@]}" Launches
before=$NUMBER
request "${HOST[@]}" RequestedHostTransition $S.Host.Transition.Reboot
request "${HOST[@]}" RequestedHostTransition $S.Host.Transition.Reboot
check "the host goes down and comes up" passes TransitioningToOff Off TransitioningToRunning Running
number "${QUEUE[@]}" Launches
check "Launches rose by one" [ "$NUMBER" = $((before + 1)) ]

say "Chassis Off: power is cut at once"
request "${CHASSIS[@]}" RequestedPowerTransition $S.Chassis.Transition.Off
check "the host goes off" passes TransitioningToOff Off
get "${CHASSIS[@]}" CurrentPowerState
check "the chassis is off" is "s \"$S.Chassis.PowerState.Off\""

say "On, Off, On in a burst: three launches, in this order"
number "${QUEUE[@]}" Launches
before=$NUMBER
bus call "${QUEUE[@]}" History tu 0 1000
last=$(grep -Eo '"Sequence" t [0-9]+' <<<"$ANSWER" | tail -n 1 | grep -Eo '[0-9]+$')
request "${HOST[@]}" RequestedHostTransition $S.Host.Transition.On
request "${HOST[@]}" RequestedHostTransition $S.Host.Transition.Off
request "${HOST[@]}" RequestedHostTransition $S.Host.Transition.On
check "on, off, on" passes TransitioningToRunning Running TransitioningToOff Off TransitioningToRunning Running
number "${QUEUE[@]}" Launches
check "Launches rose by three" [ "$NUMBER" = $((before + 3)) ]
bus call "${QUEUE[@]}" History tu "${last:-0}" 1000
order=$(grep -Eo 'Host\.Transition\.[A-Za-z]+' <<<"$ANSWER" | sed 's/.*\.//' | tr '\n' ' ')
check "the history has On, Off, On" [ "$order" = "On Off On " ]

say "Chassis Off, and everything read back"
request "${CHASSIS[@]}" RequestedPowerTransition $S.Chassis.Transition.Off
check "the host goes off" passes TransitioningToOff Off
get "${HOST[@]}" CurrentHostState
check "the host is off" is "s \"$S.Host.HostState.Off\""
get "${HOST[@]}" RequestedHostTransition
check "the newest request of the host was On" is "s \"$S.Host.Transition.On\""
get "${CHASSIS[@]}" CurrentPowerState
check "the chassis is off" is "s \"$S.Chassis.PowerState.Off\""
get "${CHASSIS[@]}" RequestedPowerTransition
check "the newest request of the chassis was Off" is "s \"$S.Chassis.Transition.Off\""
get "$S.BMC" /xyz/openbmc_project/state/bmc0 "$S.BMC" CurrentBMCState
check "the BMC is ready" is "s \"$S.BMC.BMCState.Ready\""
get "$S.ScheduledHostTransition0" /xyz/openbmc_project/scheduled/host0 "$S.ScheduledHostTransition" ScheduledTime
check "nothing is scheduled" is "t 0"
number "${QUEUE[@]}" Depth
check "the queue is empty" [ "$NUMBER" = 0 ]
get "${QUEUE[@]}" Running
check "nothing runs" is 'o "/"'
number "${QUEUE[@]}" DuplicatesSuppressed
check "one write was a repeat" [ "$NUMBER" = 1 ]
number "${QUEUE[@]}" Refused
check "nothing was refused" [ "$NUMBER" = 0 ]

say "Stop"
exec 3<&-
pids=("${PIDS[@]}")
log=$(cat "$WORK/daemon.log")
trap - EXIT
check "everything ends when it is told to" stop
for pid in "${pids[@]}"; do
  check "process $pid has ended" gone "$pid"
done
if [ $failed -gt 0 ]; then
  printf '\nthe log of bmcstated:\n%s\n' "$log"
fi
echo
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
