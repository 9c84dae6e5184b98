#!/bin/bash
# Installs the programs that it is told of, as far as they are missing, from
# Debian's packages, and says so.
#
# usage: deps.sh PROGRAM=PACKAGE...     for example: deps.sh busctl=systemd
set -euo pipefail

packages=()
for pair in "$@"; do
  command -v "${pair%%=*}" >/dev/null || packages+=("${pair#*=}")
done
if [ ${#packages[@]} -eq 0 ]; then
  exit 0
fi
echo "installing what is missing: ${packages[*]}"
if ! command -v apt-get >/dev/null; then
  echo "this system has no apt-get: install the packages that correspond to: ${packages[*]}" >&2
  exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  sudo=(sudo)
fi
"${sudo[@]}" apt-get update -q
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}"
