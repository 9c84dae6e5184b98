#!/bin/bash
# Puts the product where a BMC's image has it, or takes it away again.
#
# usage: install.sh install|uninstall
#
# Environment: DESTDIR (the image's root, default /), PREFIX (default /usr), BIN
# (where the programs are, default build; build/arm after make arm), WITHOUT_BIN=1
# (no programs). Neither the configuration in /etc/bmcstate nor the journal in
# /var/lib/bmcstate is touched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../../.." && pwd)
DESTDIR=${DESTDIR:-} PREFIX=${PREFIX:-/usr} BIN=${BIN:-$repo/build}

# files: one line each, "mode source target".
files() {
  local program unit
  if [ -z "${WITHOUT_BIN:-}" ]; then
    for program in bmcstated bmcstatectl; do echo "755 $BIN/$program $PREFIX/bin/$program"; done
  fi
  echo "644 $here/bmcstated.service $PREFIX/lib/systemd/system/bmcstated.service"
  echo "644 $here/bmcstated.conf $PREFIX/share/dbus-1/system.d/bmcstated.conf"
  echo "644 $here/bmcstate.tmpfiles $PREFIX/lib/tmpfiles.d/bmcstate.conf"
  echo "644 $here/probes-net.conf $PREFIX/share/doc/bmcstate/examples/probes-net.conf"
  for unit in "$repo"/systemd/targets/*; do echo "644 $unit $PREFIX/lib/systemd/system/$(basename "$unit")"; done
}

install_all() {
  local mode source target
  while read -r mode source target; do
    [ -e "$source" ] || { echo "$source is not there: run make build, or make arm and BIN=build/arm" >&2; exit 1; }
    install -D -m "$mode" "$source" "$DESTDIR$target"
    # Units name the programs by their place.
    case $target in *.service) sed -i "s#/usr/bin/\(bmcstate\)#$PREFIX/bin/\1#" "$DESTDIR$target" ;; esac
  done < <(files)
}

# Takes the files away, and the directories that are empty then, up to PREFIX.
uninstall_all() {
  local target dir
  while read -r _ _ target; do
    rm -f "$DESTDIR$target"
    dir=$(dirname "$target")
    while [ "$dir" != "$PREFIX" ] && rmdir "$DESTDIR$dir" 2>/dev/null; do dir=$(dirname "$dir"); done
  done < <(files)
}

case ${1:-} in
  install) install_all ;;
  uninstall) uninstall_all ;;
  *) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
