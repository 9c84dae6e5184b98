#!/bin/bash
# make, for a machine that may have neither make nor Go: what is missing is
# installed first, and said. Debian's Go may be older than go.mod asks for; it then
# fetches the right one, as a module whose checksum it verifies.
#
# usage: ./make TARGET...     the targets stand in the Makefile
set -euo pipefail
cd "$(dirname "$0")"
deps=cmd/bmcstated/demo/deps.sh

$deps make=make
if ! go list -m >/dev/null 2>&1; then
  version=$(sed -n 's/^go //p' go.mod)
  $deps go=golang-go update-ca-certificates=ca-certificates
  echo "fetching Go $version: this takes a minute, once"
  # Elsewhere than here, where an older Go stumbles over go.mod.
  root=$(cd / && GOTOOLCHAIN=local go mod download -json \
    "golang.org/toolchain@v0.0.1-go$version.linux-$(go env GOHOSTARCH)" | sed -nE 's/^\s*"(Dir|Error)": "(.*)",?$/\1 \2/p') || true
  case $root in
  Dir\ *) root=${root#Dir } ;;
  *)
    echo "Go $version could not be fetched: ${root#Error }; install it from go.dev and put it into PATH" >&2
    exit 1
    ;;
  esac
  chmod a+x "$root"/bin/* "$root"/pkg/tool/*/*
  export PATH=$root/bin:$PATH GOTOOLCHAIN=local
fi
exec make "$@"
