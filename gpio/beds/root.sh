#!/bin/bash
# A small Debian root for the beds: systemd as PID 1, the system bus, busctl, gpiod.
#
# usage: root.sh ARCH        prints the path of the base image (an uncompressed cpio)
#
# Every bed boots this image with a second, small cpio behind it that holds what is
# under test, so the image is built once per architecture and recipe. Packages are
# unpacked, not installed: no maintainer script runs, and so a foreign architecture
# needs no emulation. What the scripts would have done is done by hand below.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
arch=$1

PACKAGES=(systemd-sysv systemd dbus udev gpiod kmod coreutils dash util-linux mount
  base-files base-passwd procps grep sed libnss-systemd)

# Not needed by any test; most of the weight. Reading the image is a good part of
# the boot time of an emulated machine.
LEFT_OUT=('usr/bin/perl*' 'usr/lib/*/libperl.*' usr/lib/systemd/systemd-networkd lib/systemd/systemd-networkd
  'usr/lib/*/libmvec*' 'usr/lib/*/libdb-5*' usr/share/initramfs-tools usr/share/man usr/share/doc usr/share/locale usr/share/info usr/share/zoneinfo usr/share/perl5
  usr/share/bash-completion usr/share/zsh usr/share/lintian usr/share/bug usr/share/i18n usr/share/polkit-1
  usr/lib/udev/hwdb.d lib/udev/hwdb.d usr/lib/systemd/catalog lib/systemd/catalog usr/share/perl
  'usr/lib/*/gconv' 'usr/lib/*/perl' 'usr/lib/*/perl-base' lib/systemd/system-generators
  usr/lib/systemd/system-generators boot)

# Units that have no business in a bed; each costs a fork, and under emulation a
# fork is a tenth of a second. Generators cost one at every daemon-reload as well
# and are left out above.
MASKED=(getty.target systemd-logind.service systemd-update-utmp.service systemd-update-utmp-runlevel.service
  systemd-ask-password-wall.path systemd-ask-password-console.path systemd-hwdb-update.service ldconfig.service
  dpkg-db-backup.timer fstrim.timer systemd-pstore.service systemd-random-seed.service systemd-firstboot.service
  systemd-machine-id-commit.service systemd-journal-catalog-update.service systemd-journal-flush.service
  systemd-binfmt.service sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount dev-mqueue.mount
  sys-fs-fuse-connections.mount systemd-boot-system-token.service systemd-repart.service systemd-networkd.service
  systemd-networkd.socket modprobe@fuse.service modprobe@drm.service modprobe@efi_pstore.service
  modprobe@configfs.service sys-kernel-config.mount kmod-static-nodes.service systemd-remount-fs.service
  proc-sys-fs-binfmt_misc.automount systemd-sysctl.service systemd-modules-load.service
  systemd-udev-trigger.service systemd-sysusers.service systemd-timesyncd.service systemd-rfkill.socket)

unpack() { # DIR
  local root=$1 link f files skip=()
  for link in bin sbin lib; do mkdir -p "$root/usr/$link"; ln -s "usr/$link" "$root/$link"; done
  [ "$arch" != amd64 ] || { mkdir -p "$root/usr/lib64"; ln -s usr/lib64 "$root/lib64"; }
  for f in "${LEFT_OUT[@]}"; do skip+=(--exclude="./$f"); done
  files=$(debs "$arch" yes "${PACKAGES[@]}")
  for f in $files; do
    dpkg-deb --fsys-tarfile "$f" | tar -x -C "$root" --keep-directory-symlink "${skip[@]}"
  done
}

accounts() { # DIR
  local root=$1 group
  cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
  cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
  sed -i 's/^root:\*:/root::/' "$root/etc/passwd"
  echo 'messagebus:x:100:102::/nonexistent:/usr/sbin/nologin' >>"$root/etc/passwd"
  for group in messagebus:102 systemd-journal:190 systemd-network:191 kvm:192 render:193 sgx:194 input:195; do
    echo "${group%:*}:x:${group#*:}:" >>"$root/etc/group"
  done
  local helper=$root/usr/lib/dbus-1.0/dbus-daemon-launch-helper
  chown 0:102 "$helper" && chmod 4754 "$helper"
}

settings() { # DIR
  local root=$1 unit
  echo bed >"$root/etc/hostname"
  # An unknown machine id makes every boot the first one, and systemd presets all units.
  echo 0bed0bed0bed0bed0bed0bed0bed0bed >"$root/etc/machine-id"
  printf 'passwd: files systemd\ngroup: files systemd\nhosts: files\n' >"$root/etc/nsswitch.conf"
  : >"$root/etc/fstab"
  rm -rf "$root/var/run" "$root/var/lock"
  ln -s /run "$root/var/run"; ln -s /run/lock "$root/var/lock"
  ln -sf /lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
  for unit in "${MASKED[@]}"; do ln -sf /dev/null "$root/etc/systemd/system/$unit"; done
  cp -r "$BEDS/root/." "$root/"
  mkdir -p "$root/etc/systemd/system/"{multi-user,sysinit}.target.wants
  ln -sf ../bed.service "$root/etc/systemd/system/multi-user.target.wants/bed.service"
  ln -sf ../bed-setup.service "$root/etc/systemd/system/sysinit.target.wants/bed-setup.service"
}

build() { # DIR
  update_for "$arch"
  mkdir "$1/root"
  unpack "$1/root"; accounts "$1/root"; settings "$1/root"
  (cd "$1/root" && find . -print0 | cpio --quiet -0 -o -H newc) >"$1/base.cpio"
  rm -rf "$1/root"
}

need cpio=cpio
overlay=$(cd "$BEDS/root" && find . -type f | sort | while read -r f; do echo "$BEDS/root/$f"; done)
# shellcheck disable=SC2086
image=$(cached "root-$arch-$(key "$0" $overlay)" build)
echo "$image/base.cpio"
