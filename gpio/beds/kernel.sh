#!/bin/bash
# Debian's own kernel for a bed, with a few of its modules.
#
# usage: kernel.sh FLAVOUR [MODULE...]     FLAVOUR: amd64 or armmp
#
# Prints a directory that holds vmlinuz, version, modules/*.ko and modules/order
# (the names in the order in which insmod wants them), and the device trees of the
# AST2600 where there are any. It is the newest 6.1 kernel that apt offers at the
# time, and stays until this recipe changes.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
flavour=$1; shift
modules=("$@")
case $flavour in
  amd64) arch=amd64 ;;
  armmp) arch=armhf ;;
  *) die "no such kernel flavour: $flavour" ;;
esac

newest() { # prints for example 6.1.0-48
  apt_for "$arch" apt-cache search --names-only "^linux-image-6\\.1\\.0-[0-9]+-$flavour\$" |
    sed -n "s/^linux-image-\\(.*\\)-$flavour .*/\\1/p" | sort -V | tail -n 1
}

build() { # DIR
  local out=$1 x=$1/x version deb module ko
  update_for "$arch"
  version=$(newest)
  [ -n "$version" ] || die "apt offers no 6.1 kernel for $arch"
  deb=$(debs "$arch" no "linux-image-$version-$flavour")
  mkdir "$x" "$out/modules"
  dpkg-deb -x "$deb" "$x"
  cp "$x"/boot/vmlinuz-* "$out/vmlinuz"
  echo "$version" >"$out/version"
  cp "$x"/usr/lib/linux-image-*/aspeed-ast2600-evb*.dtb "$out/" 2>/dev/null || true
  depmod -b "$x" "$version-$flavour"
  for module in "${modules[@]}"; do
    modprobe -d "$x" -S "$version-$flavour" --show-depends "$module" | awk '/^insmod/{print $2}'
  done | awk '!seen[$0]++' | while read -r ko; do
    cp "$ko" "$out/modules/"
    basename "$ko" >>"$out/modules/order"
  done
  rm -rf "$x"
}

need depmod=kmod
cached "kernel-$flavour-$(key "$0" "${modules[@]}")" build
