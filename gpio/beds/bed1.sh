#!/bin/bash
# Bed 1: the product on real GPIO character devices. An x86 Debian kernel in QEMU,
# gpio-sim chips, systemd and the system bus; the cases run inside, as root.
#
# usage: bed1.sh [TEST-FLAG...]      for example: bed1.sh -test.run 'TestPowerOn|TestReset'
#
# Environment: BED_TIMEOUT (seconds for the run, default 1800), BED_CACHE.
# The exit status is that of the cases.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
began=$SECONDS

need qemu-system-x86_64=qemu-system-x86 cpio=cpio
base=$("$BEDS/root.sh" amd64)
kernel=$("$BEDS/kernel.sh" amd64 configfs)
module=$("$BEDS/simko.sh" "$kernel")

run=$(mktemp -d "$CACHE/run1.XXXXXX")
trap 'rm -rf "$run"' EXIT
mkdir -p "$run/payload/bed"
"$BEDS/payload.sh" amd64 "$run/payload"
cp -r "$kernel/modules" "$run/payload/bed/"
cp "$module" "$run/payload/bed/modules/"
basename "$module" >>"$run/payload/bed/modules/order"
cp "$BEDS/guest/setup" "$run/payload/bed/"
cp "$BEDS/guest/bed1" "$run/payload/bed/run"
printf "%q " -test.v "$@" >"$run/payload/bed/arguments"
(cd "$REPO" && CGO_ENABLED=0 nice -n 10 go test -c -tags bed1 -trimpath -ldflags='-s -w' \
  -o "$run/payload/bed/cases" ./gpio/beds/cases)
(cd "$run/payload" && find . -print0 | cpio --quiet -0 -o -H newc) >"$run/payload.cpio"
cat "$base" "$run/payload.cpio" >"$run/initrd"
say "ready to boot after $((SECONDS - began)) s"

# -cpu Nehalem on one processor costs the least to emulate. With -icount the
# machine's clock is the number of instructions that it has executed, 2 ns each
# (about the speed of a BMC), and jumps over idle time: a busy host makes the run
# longer, but no pulse, and a wait costs next to nothing.
timeout --foreground -k 5 "${BED_TIMEOUT:-1800}" nice -n 10 qemu-system-x86_64 \
  -nodefaults -no-user-config -display none -no-reboot -serial stdio \
  -machine pc -accel tcg,tb-size=512 -icount shift=1,sleep=off -cpu Nehalem -smp 1 -m 1024 \
  -kernel "$kernel/vmlinuz" -initrd "$run/initrd" \
  -append "console=ttyS0 rdinit=/lib/systemd/systemd quiet loglevel=4 systemd.show_status=0 \
panic=-1 cryptomgr.notests apparmor=0 selinux=0 audit=0 mitigations=off tsc=reliable no_timer_check random.trust_cpu=on" \
  </dev/null 2>&1 | sed -u 's/\r$//' | tee "$CACHE/bed1.log" || true

tally gpio "$CACHE/bed1.log"
say "bed 1 took $((SECONDS - began)) s; the output is in $CACHE/bed1.log"
status=$(sed -n 's/^BED-EXIT \([0-9]*\)$/\1/p' "$CACHE/bed1.log")
[ -n "$status" ] || die "the bed did not finish: it hung or the kernel died"
exit "$status"
