#!/bin/bash
# What is under test, as make builds and installs it on a BMC.
#
# usage: payload.sh GOARCH DIR
#
# Puts the programs, units and policies of this repository below DIR, ready to be
# laid over the base image.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
goarch=$1 dir=$2
programs=$(mktemp -d "$CACHE/programs.XXXXXX")
trap 'rm -rf "$programs"' EXIT

case $goarch in
  arm) target=arm bin=$programs/arm ;;
  amd64) target=build bin=$programs ;;
  *) die "no programs for $goarch" ;;
esac
CGO_ENABLED=0 nice -n 10 make -s -C "$REPO" BUILD="$programs" PROGRAMS='bmcstated bmcstatectl' "$target"
DESTDIR=$dir BIN=$bin PREFIX=/usr "$REPO/cmd/bmcstated/dist/install.sh" install
