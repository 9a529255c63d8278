#!/usr/bin/env bash
# Sets up everything and runs all tests with the race detector, and without it those
# that mean nothing with it, which measure memory, say: their files have the build
# constraint !race. It fails if a test fails or is skipped. Arguments are passed to go
# test; the default is ./... and the modules that it leaves out.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

scripts/tools.sh
scripts/aimock.sh
scripts/xterm.sh
scripts/chromium.sh
scripts/engine.sh start
scripts/images.sh clients
logs=$(mktemp -d)
started=
trap 'rm -rf "$logs"; [ -z "$started" ] || scripts/remote.sh stop' EXIT
scripts/remote.sh status || started=yes
scripts/remote.sh start
eval "$(scripts/remote.sh env)"
export PYGENT_TEST_REQUIRE_DOCKER=1 PYGENT_TEST_REQUIRE_AIMOCK=1 PYGENT_TEST_REQUIRE_TOOLS=1

# A program with the race detector waits at its end for goroutines that may still race:
# by default for a second, which is longer than most of our packages and sessions take.
export GORACE="atexit_sleep_ms=50 ${GORACE:-}"

# The race detector would make unpacking the guest the most expensive part of most
# sessions. The decompressor has no goroutines.
race=(-race -gcflags=compress/flate=-race=false)

# Most tests wait most of the time, for a program or for a person's pause, so more of
# them, and more packages, run at once than there are processors. scripts/lint.sh vets.
flags=(-count=1 -timeout 40m -p $(($(nproc) + 1)) -parallel 8 -vet=off -v)

# beside DIRECTORY ARGUMENTS... runs go test in a directory, beside the other tests, and
# keeps what it prints.
beside() {
	local dir=$1 log
	shift
	log=$(mktemp "$logs/XXXXXX")
	{ go test -C "$dir" "${flags[@]}" "$@" || echo "FAIL go test in $dir"; } >"$log" 2>&1 &
}

# without_race runs the tests that are left out with the race detector.
without_race() {
	local list files tests packages
	list=$(go list -race -f '{{range .IgnoredGoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}' ./...)
	mapfile -t files < <(grep '_test\.go$' <<<"$list" | xargs -r grep -lE '^//go:build .*!race')
	[ ${#files[@]} -gt 0 ] || return 0
	tests=$(grep -ohE '^func Test[A-Za-z0-9_]*' "${files[@]}" | sed 's/^func //' | paste -sd '|')
	mapfile -t packages < <(dirname "${files[@]}" | sort -u)
	beside . -run "^($tests)\$" "${packages[@]}"
}

everything() {
	local module
	for module in examples/*/go.mod e2e/*/go.mod bench/*/go.mod; do # which ./... leaves out
		beside "${module%/go.mod}" ./...
	done
	without_race
	go test "${race[@]}" "${flags[@]}" ./... 2>&1 || echo "FAIL go test"
	wait
	cat "$logs"/*
}

some() { go test "${race[@]}" "${flags[@]}" "$@" 2>&1 || echo "FAIL go test"; }

if [ $# -eq 0 ]; then everything; else some "$@"; fi | awk -f scripts/test.awk
