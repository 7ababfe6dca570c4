# What the scripts of this folder share. Sourced, from the source folder.
# shellcheck shell=bash

started_at=${VERBATIM_STARTED_AT:-$(date +%s)}
export VERBATIM_STARTED_AT=$started_at

say() {
  local s=$(($(date +%s) - started_at))
  printf '[%2d:%02d] %s\n' $((s / 60)) $((s % 60)) "$*"
}

die() {
  printf 'verbatim: %s\n' "$*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

last_line() { grep -v '^[[:space:]]*$' "$1" | tail -n 1; }

# How many things to do at a time: VERBATIM_JOBS, or one a core.
jobs=${VERBATIM_JOBS:-$(nproc)}
[[ $jobs =~ ^[1-9][0-9]{0,3}$ ]] || die "VERBATIM_JOBS is no number of jobs: $jobs"

# The compiler cache, where there is one, also serves a second checkout of the same source.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD}
export CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
