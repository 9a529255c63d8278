#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (default 10s), and those that stand between
# a container and this machine for FUZZTIME_GUEST (default the same).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file target; do
	target=${target#func }
	time=${FUZZTIME:-10s}
	case $file in ./internal/guest/* | ./internal/tree/* | ./internal/workspace/* | ./runtime_copy_*) time=${FUZZTIME_GUEST:-$time} ;; esac
	say "$target in ${file%/*} for $time"
	# Without a bound on minimizing, one slow input can take all of the time.
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 5x "${file%/*}" </dev/null
done
