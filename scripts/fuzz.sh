#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (default 10s), and those for code between a
# container and this machine for FUZZTIME_GUEST (default the same).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# fuzz TARGET TIME DIRECTORY runs a target. Without a limit for minimizing, one
# slow input could take all of the time.
fuzz() {
	go test -run '^$' -fuzz "^$1\$" -fuzztime "$2" -fuzzminimizetime 5x "$3" </dev/null 2>&1 | tee "$log"
}

# fuzz_again runs a target once more if it failed without a finding. Until Go 1.27
# a worker that is busy when the time is up counts as a failure
# (go.dev/issue/75804).
fuzz_again() {
	grep -q '^    context deadline exceeded$' "$log" && ! grep -q 'Failing input written' "$log" || return
	say "the fuzzer was late at the end of its time; once more"
	fuzz "$@"
}

grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file target; do
	target=${target#func }
	time=${FUZZTIME:-10s}
	case $file in ./internal/guest/* | ./internal/tree/* | ./internal/workspace/* | ./runtime_copy_*) time=${FUZZTIME_GUEST:-$time} ;; esac
	say "$target in ${file%/*} for $time"
	fuzz "$target" "$time" "${file%/*}" || fuzz_again "$target" "$time" "${file%/*}"
done
