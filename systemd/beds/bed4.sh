#!/bin/bash
# Bed 4: the product under a real systemd. A Debian root with systemd as PID 1 and
# a system bus boots in systemd-nspawn on this machine's own kernel (no GPIO); the
# cases run inside, as root.
#
# usage: bed4.sh [TEST-FLAG...]      for example: bed4.sh -test.run 'TestReexec|TestKill'
#
# Environment: BED_TIMEOUT (seconds for the run, default 3600), BED_CACHE.
# The exit status is that of the cases.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# The recipe for the root and the payload is the one of the GPIO beds.
. "$here/../../gpio/beds/lib.sh"
began=$SECONDS

need systemd-nspawn=systemd-container cpio=cpio
[ "$(id -u)" = 0 ] || die "not root: systemd-nspawn needs it"

unpack() { # IMAGE DIR
  mkdir "$2/root"
  (cd "$2/root" && cpio --quiet -idm --no-absolute-filenames <"$1")
}
image=$("$BEDS/root.sh" amd64)
base=$(cached "nspawn-amd64-$(key "$image")" unpack "$image")/root

run=$(mktemp -d "$CACHE/run4.XXXXXX")
trap 'rm -rf "$run"' EXIT
mkdir -p "$run/payload/bed"
# Installed as on an image, and with what makes a death or a hang come when a case
# wants it.
(cd "$REPO" && CGO_ENABLED=0 nice -n 10 go build -tags inject -trimpath -ldflags='-s -w' -o "$run/bin/" ./cmd/bmcstated ./cmd/bmcstatectl)
DESTDIR=$run/payload BIN=$run/bin "$REPO/cmd/bmcstated/dist/install.sh" install
wants=$run/payload/etc/systemd/system/multi-user.target.wants
mkdir -p "$wants" && ln -s /usr/lib/systemd/system/bmcstated.service "$wants/"
mkdir -p "$run/payload/etc/dbus-1/system.d" && cp "$here/doubles.conf" "$run/payload/etc/dbus-1/system.d/"
cp "$here/guest" "$run/payload/bed/run"
echo "-test.v $*" >"$run/payload/bed/arguments"
(cd "$REPO" && CGO_ENABLED=0 nice -n 10 go test -c -tags bed4 -trimpath -ldflags='-s -w' \
  -o "$run/payload/bed/cases" ./systemd/beds/cases)
# Links, not copies: the run writes to an overlay in memory.
cp -al "$base" "$run/root"
cp -r --remove-destination "$run/payload/." "$run/root/"
say "ready to boot after $((SECONDS - began)) s"

# Without a systemd on the outside: no registration, no unit of our own, and the
# unified hierarchy asked for by hand.
SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 timeout --foreground -k 5 "${BED_TIMEOUT:-3600}" \
  systemd-nspawn --quiet --directory="$run/root" --volatile=overlay --register=no --keep-unit \
  --private-network --boot systemd.show_status=0 </dev/null 2>&1 | tr -d '\r' | tee "$CACHE/bed4.log" || true

say "bed 4 took $((SECONDS - began)) s; the output is in $CACHE/bed4.log"
count() { grep -cE "^--- $1:" "$CACHE/bed4.log" || true; }
echo "systemd bed: $(count PASS) passed, $(count FAIL) failed"
status=$(sed -n 's/^BED-EXIT \([0-9]*\)$/\1/p' "$CACHE/bed4.log")
[ -n "$status" ] || die "the bed did not finish: it hung or died"
exit "$status"
