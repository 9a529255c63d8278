#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (default 10s).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file target; do
	target=${target#func }
	say "$target in ${file%/*}"
	# Without a bound on minimizing, one slow input can take all of the time.
	go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" -fuzzminimizetime 5x "${file%/*}" </dev/null
done
