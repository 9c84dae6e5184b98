# shellcheck shell=bash
# What every bed script needs: messages, the cache, and Debian packages for any
# architecture. Sourced, never run. Expects `set -euo pipefail`.

shopt -s inherit_errexit
BEDS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
REPO=$(cd "$BEDS/../.." && pwd)
CACHE=${BED_CACHE:-$REPO/build/beds}
mkdir -p "$CACHE"

say() { printf 'bed: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# need COMMAND=PACKAGE...: installs what is missing, and says so.
need() {
  local pair missing=()
  for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null 2>&1 || [ -e "${pair%%=*}" ] || missing+=("${pair#*=}")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "this machine lacks ${missing[*]}: installing with apt-get"
  [ "$(id -u)" = 0 ] || die "not root: install them by hand, then run again"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -q install -y --no-install-recommends "${missing[@]}" >"$CACHE/apt.log" 2>&1 ||
    { apt-get -q update >>"$CACHE/apt.log" 2>&1 &&
      apt-get -q install -y --no-install-recommends "${missing[@]}" >>"$CACHE/apt.log" 2>&1; } ||
    die "apt-get failed; see $CACHE/apt.log"
}

# key FILE_OR_WORD...: twelve hex digits of the contents of the files and of the
# words. A recipe that changes makes a new key, so the cache is never stale.
key() {
  local x
  for x in "$@"; do if [ -f "$x" ]; then cat "$x"; else printf '%s\n' "$x"; fi; done |
    sha256sum | cut -c1-12
}

# cached NAME COMMAND...: prints $CACHE/NAME; when it is not there, runs COMMAND
# with a scratch directory as its last argument and renames that into place, so a
# killed build leaves nothing that looks finished. Takes a lock per name.
cached() {
  local name=$1 dir=$CACHE/$1 tmp status; shift
  exec 8>"$CACHE/.lock-${name%-*}"; flock 8
  if [ ! -d "$dir" ]; then
    local began=$SECONDS
    say "building $name"
    rm -rf "$CACHE/${name%-*}"-*.tmp.*; tmp=$dir.tmp.$$; mkdir -p "$tmp"
    # Not `… || die`: bash would switch errexit off inside.
    set +e; (set -e; "$@" "$tmp") >"$CACHE/$name.log" 2>&1 8>&-; status=$?; set -e
    [ "$status" = 0 ] || { tail -n 20 "$CACHE/$name.log" >&2; die "building $name failed; see $CACHE/$name.log"; }
    rm -rf "$CACHE/${name%-*}"-????????????   # what an older recipe made
    mv "$tmp" "$dir"
    say "built $name in $((SECONDS - began)) s"
  fi
  exec 8>&-
  printf '%s\n' "$dir"
}

# apt_for ARCH ARGUMENT...: apt with package lists of its own for ARCH and nothing
# installed, but the machine's own sources, keys and proxies. dpkg is not touched.
apt_for() {
  local arch=$1 tool=$2 d=$CACHE/apt-$1; shift 2
  mkdir -p "$d/lists/partial" "$d/archives/partial"; : >>"$d/status"
  "$tool" -q -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o APT::Sandbox::User=root \
    -o APT::Install-Recommends=false -o Dir::State::lists="$d/lists" -o Dir::State::status="$d/status" \
    -o Dir::State::extended_states="$d/extended" -o Dir::Cache="$d" -o Dir::Cache::archives="$d/archives" \
    -o Dir::Etc::preferencesparts=/dev/null -o Acquire::Languages=none "$@"
}

# debs ARCH DEPENDS PACKAGE...: downloads the packages (with DEPENDS=yes, all that
# they depend on) and prints the file names.
debs() {
  local arch=$1 depends=$2 d=$CACHE/apt-$1 uris action; shift 2
  if [ "$depends" = yes ]; then action=(install --yes --download-only); else action=(download); fi
  # apt names only what it has not downloaded yet: ask where nothing is.
  mkdir -p "$d/nothing/partial"
  uris=$(cd "$d/nothing" && apt_for "$arch" apt-get -o Dir::Cache::archives="$d/nothing" \
    "${action[@]}" --print-uris "$@" | awk '/^\047/{print $2}')
  [ -n "$uris" ] || die "apt offers no ${*} for $arch"
  (cd "$d/archives" && apt_for "$arch" apt-get "${action[@]}" "$@" >&2)
  sed "s#^#$d/archives/#" <<<"$uris"
}

# update_for ARCH: package lists of the last hour. A mirror that is being synced
# serves a list that does not fit its index for a while; the others still do.
update_for() {
  local stamp=$CACHE/apt-$1/updated try
  find "$stamp" -mmin -60 2>/dev/null | grep -q . && return
  for try in 1 2 3; do apt_for "$1" apt-get update >&2 && { touch "$stamp"; return; }; sleep "$try"; done
  say "some package lists could not be fetched; going on with the others"
}

# tally BED LOG: every case of a verbose go test run and how it ended, and the count.
tally() {
  sed -nE 's/^ *--- (PASS|FAIL|SKIP): ([^ ]+) .*/\1 \2/p' "$2"
  printf '%s bed: %d passed, %d failed, %d skipped\n' "$1" "$(grep -cE '^ *--- PASS:' "$2")" \
    "$(grep -cE '^ *--- FAIL:' "$2")" "$(grep -cE '^ *--- SKIP:' "$2")" || true
}
