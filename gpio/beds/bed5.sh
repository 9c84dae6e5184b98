#!/bin/bash
# Bed 5: the product on the BMC it is made for. An emulated AST2600 with Debian's
# armhf kernel, systemd and the system bus, /var on an SD card; the ARMv7 programs
# run inside, the server board and the cases outside.
#
# usage: bed5.sh [TEST-FLAG...]      for example: bed5.sh -test.run 'TestBMC/(Wires|On)$'
#
# Environment: BED_TIMEOUT (seconds for the run, default 1800), BED_CACHE.
# The exit status is that of the cases.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
began=$SECONDS

need qemu-system-arm=qemu-system-arm cpio=cpio fdtput=device-tree-compiler mkfs.ext4=e2fsprogs
base=$("$BEDS/root.sh" armhf)
kernel=$("$BEDS/kernel.sh" armmp gpio-aspeed sdhci-of-aspeed ext4 crc32c_generic)

run=$(mktemp -d "$CACHE/run5.XXXXXX")
trap 'rm -rf "$run"' EXIT

# The initrd: the base, and over it what is under test.
mkdir -p "$run/payload/bed" "$run/var/lib" "$run/var/tmp"
"$BEDS/payload.sh" arm "$run/payload"
cp -r "$kernel/modules" "$run/payload/bed/"
cp "$BEDS/guest/setup" "$run/payload/bed/"
(cd "$REPO" && CGO_ENABLED=0 GOARCH=arm GOARM=7 nice -n 10 go build -trimpath -ldflags='-s -w' \
  -o "$run/payload/bed/agent" ./gpio/beds/agent)
printf '#!/bin/sh\nexec /bed/agent /dev/ttyS0\n' >"$run/payload/bed/run"
chmod +x "$run/payload/bed/run"
echo /dev/mmcblk0 >"$run/payload/bed/disk"
printf '%s\n' 'POWER_OUT 1' 'RESET_OUT 1' 'NMI_OUT 0' >"$run/payload/bed/idle"
(cd "$run/payload" && find . -print0 | cpio --quiet -0 -o -H newc) >"$run/payload.cpio"
cat "$base" "$run/payload.cpio" >"$run/initrd"

# The SD card that keeps /var; an SD card's size is a power of two.
ln -s /run "$run/var/run"; ln -s /run/lock "$run/var/lock"
truncate -s 64M "$run/var.img"
mkfs.ext4 -q -d "$run/var" "$run/var.img"

# The evaluation board's device tree, with the lines named, the first serial port
# on for the agent.
gpio=/ahb/apb/gpio@1e780000
names=(POWER_OUT RESET_OUT PS_PWROK POST_COMPLETE POWER_BUTTON RESET_BUTTON NMI_OUT NMI_BUTTON ID_BUTTON)
cp "$kernel/aspeed-ast2600-evb.dtb" "$run/bmc.dtb"
empty=(); for ((i = ${#names[@]}; i < 208; i++)); do empty+=(''); done
fdtput -t s "$run/bmc.dtb" "$gpio" gpio-line-names "${names[@]}" "${empty[@]}"
fdtput -t s "$run/bmc.dtb" /ahb/apb/serial@1e783000 status okay
# Without a seed the first getrandom waits for a minute of jitter.
# shellcheck disable=SC2046
fdtput -t bx "$run/bmc.dtb" /chosen rng-seed $(od -An -v -tx1 -N64 /dev/urandom)

(cd "$REPO" && nice -n 10 go test -c -tags bed5 -o "$run/cases" ./gpio/beds/cases)
say "ready to boot after $((SECONDS - began)) s"

# The board must not wait for the processor behind its own machine: it is the
# machine that is run with low priority.
status=0
export BED5_DIR=$run BED5_KERNEL=$kernel/vmlinuz BED5_LOG=$CACHE/bed5.console BED5_LINES="${names[*]}"
timeout --foreground -k 10 "${BED_TIMEOUT:-1800}" "$run/cases" -test.v "$@" 2>&1 |
  tee "$CACHE/bed5.log" || status=$?
tally bmc "$CACHE/bed5.log"
say "bed 5 took $((SECONDS - began)) s; the output is in $CACHE/bed5.log, the machine's in $CACHE/bed5.console"
exit "$status"
