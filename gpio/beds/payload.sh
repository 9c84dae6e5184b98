#!/bin/bash
# What is under test, laid out as it is installed on a BMC.
#
# usage: payload.sh GOARCH DIR
#
# Puts the programs, units and policies of this repository below DIR, ready to be
# laid over the base image.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
goarch=$1 dir=$2

export CGO_ENABLED=0 GOARCH=$goarch GOARM=7
mkdir -p "$dir/usr/bin" "$dir/usr/lib/systemd/system" "$dir/usr/share/dbus-1/system.d"
for program in bmcstated bmcstatectl; do
  [ -d "$REPO/cmd/$program" ] || { say "cmd/$program is not there yet: the bed goes without it"; continue; }
  (cd "$REPO" && nice -n 10 go build -tags=godbus_no_tcp -trimpath -ldflags='-s -w' -o "$dir/usr/bin/$program" "./cmd/$program")
done
dist=$REPO/cmd/bmcstated/dist
for unit in "$dist"/*.service "$dist"/*.target; do
  [ ! -e "$unit" ] || cp "$unit" "$dir/usr/lib/systemd/system/"
done
for policy in "$dist"/*.conf; do
  ! grep -qs '<busconfig>' "$policy" || cp "$policy" "$dir/usr/share/dbus-1/system.d/"
done
