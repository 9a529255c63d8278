#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (default 10s). Targets of code that protects
# this machine from a container run for FUZZTIME_GUEST (default FUZZTIME).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# fuzz TARGET TIME DIRECTORY runs a target. The number of minimizing steps is limited
# because minimizing one slow input could take all of the time.
fuzz() {
	go test -run '^$' -fuzz "^$1\$" -fuzztime "$2" -fuzzminimizetime 5x "$3" </dev/null 2>&1 | tee "$log"
}

# fuzz_again runs a target again, up to three times, if its failure was not a finding.
# Before Go 1.27, a worker that is busy when the time is up is reported as a failure
# (go.dev/issue/75804).
fuzz_again() {
	local again
	for again in 1 2 3; do
		grep -q '^    context deadline exceeded$' "$log" && ! grep -q 'Failing input written' "$log" || return
		say "the fuzzer was late at the end of its time; again ($again of 3)"
		fuzz "$@" && return
	done
	return 1
}

grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file target; do
	target=${target#func }
	time=${FUZZTIME:-10s}
	case $file in ./internal/guest/* | ./internal/tree/* | ./internal/workspace/* | ./runtime_copy_*) time=${FUZZTIME_GUEST:-$time} ;; esac
	say "$target in ${file%/*} for $time"
	fuzz "$target" "$time" "${file%/*}" || fuzz_again "$target" "$time" "${file%/*}"
done
