#!/bin/bash
# make size: the size of the ARMv7 programs, which must not exceed LIMIT, and the
# resident memory of the daemon after some work, run natively.
#
# usage: size.sh LIMIT-IN-BYTES ARM-PROGRAM...
set -uo pipefail
. "$(dirname "$0")/lib.sh"
trap stop EXIT
trap 'exit 1' INT TERM
limit=$1
shift
failed=0

for program in "$@"; do
  bytes=$(stat -c %s "$program")
  echo "$(basename "$program"), ARMv7, static: $bytes bytes of at most $limit"
  if [ "$bytes" -gt "$limit" ]; then
    echo "$(basename "$program") is $((bytes - limit)) bytes too large"
    failed=1
  fi
done

start_bus
start_daemon --config "$(unhurried)"
for transition in on reboot chassis-off; do
  "$PROGRAMS/bmcstatectl" $transition --wait --timeout 120s >/dev/null || failed=1
done
for _ in $(seq 50); do
  answers || failed=1
done
memory() { sed -n "s/^$1:[ \t]*//p" "/proc/$DAEMON/status"; }
echo "bmcstated, native, resident after three transitions and 50 reads: $(memory VmRSS), at most $(memory VmHWM)"
exit $failed
