#!/bin/bash
# gpio-sim.ko for the amd64 kernel of bed 1, built out of tree from Debian's source.
#
# usage: simko.sh KERNELDIR        prints the path of the module
#
# Debian's kernels have neither gpio-sim nor the IRQ simulator that it needs, so
# both are compiled into one module, against the headers of exactly that kernel.
# Nothing is installed on this machine.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
kernel=$1
version=$(<"$kernel/version")

sources() { # ARCHIVE DIR
  # Three files of a large tarball; tar reads to the end whatever we do.
  dpkg-deb --fsys-tarfile "$1" | tar -xOf - ./usr/src/linux-source-6.1.tar.xz | xz -dc -T0 |
    tar -x -C "$2" --strip-components=3 --occurrence=1 \
      linux-source-6.1/drivers/gpio/gpio-sim.c linux-source-6.1/drivers/gpio/gpiolib.h \
      linux-source-6.1/kernel/irq/irq_sim.c || true # tar stops reading, xz hears SIGPIPE
  mv "$2/gpio-sim.c" "$2/gpio-sim-core.c"
  # irq_to_desc() is not exported to modules; this is the exported call with the same effect.
  sed -i -e '/^EXPORT_SYMBOL/d' \
    -e 's/handle_simple_irq(irq_to_desc(irqnum));/generic_handle_irq_safe(irqnum);/' "$2/irq_sim.c"
  printf 'obj-m := gpio-sim.o\ngpio-sim-y := gpio-sim-core.o irq_sim.o\n' >"$2/Kbuild"
}

build() { # DIR
  local out=$1 x=$1/x common deb files source
  common=$x/usr/src/linux-headers-$version-common
  update_for amd64
  mkdir -p "$x" "$out/module"
  files=$(debs amd64 no "linux-headers-$version-amd64" "linux-headers-$version-common" linux-kbuild-6.1)
  for deb in $files; do dpkg-deb -x "$deb" "$x"; done
  source=linux-source-6.1=$(apt_for amd64 apt-cache show "linux-headers-$version-amd64" | awk '/^Version:/{print $2; exit}')
  sources "$(debs amd64 no "$source")" "$out/module"
  # The headers expect to be installed under /usr/src: point them here.
  sed -i "s#^include .*#include $common/Makefile#" "$x/usr/src/linux-headers-$version-amd64/Makefile"
  nice -n 10 make -C "$x/usr/src/linux-headers-$version-amd64" M="$out/module" modules
  strip -g -o "$out/gpio-sim.ko" "$out/module/gpio-sim.ko"
  rm -rf "$x" "$out/module"
}

need make=make gcc=gcc xz=xz-utils strip=binutils /usr/include/libelf.h=libelf-dev
module=$(cached "simko-$(key "$0" "$version")" build)
echo "$module/gpio-sim.ko"
