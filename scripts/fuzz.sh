#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (default 10s). Targets of code that protects
# this machine from a container run for FUZZTIME_GUEST (default FUZZTIME). As many
# packages are fuzzed at once as there are processors, each by one worker. With
# directories of packages as arguments, it fuzzes only those.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# packages prints the directories of packages with fuzz targets, those with most targets
# first, so that none of them is the last to begin.
packages() {
	grep -rcE --include='*_test.go' '^func Fuzz' . | awk -F: '$2 { sub("/[^/]*$", "", $1); targets[$1] += $2 }
		END { for (p in targets) print targets[p], p }' | sort -rn | cut -d ' ' -f 2
}

if [ $# -ne 1 ]; then
	{ if [ $# -eq 0 ]; then packages; else printf '%s\n' "$@"; fi; } | xargs -n 1 -P "$(nproc)" scripts/fuzz.sh
	exit
fi

directory=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fuzz TARGET TIME runs a target. The number of minimizing steps is limited because
# minimizing one slow input could take all of the time. Inputs are kept where go test
# keeps them.
fuzz() {
	(cd "$directory" && "$work/test" -test.run '^$' -test.fuzz "^$1\$" -test.fuzztime "$2" -test.fuzzminimizetime 5x \
		-test.fuzzcachedir "$cache" -test.parallel 1 -test.paniconexit0) </dev/null >"$work/log" 2>&1
}

# fuzz_again runs a target again, up to three times, if its failure was not a finding.
# Before Go 1.27, a worker that is busy when the time is up is reported as a failure
# (go.dev/issue/75804).
fuzz_again() {
	local again
	for again in 1 2 3; do
		grep -q '^    context deadline exceeded$' "$work/log" && ! grep -q 'Failing input written' "$work/log" || return
		say "the fuzzer was late at the end of its time; again ($again of 3)"
		fuzz "$@" && return
	done
	return 1
}

go test -c -fuzz . -ldflags '-s -w' -o "$work/test" "$directory" >&2
cache=$(go env GOCACHE)/fuzz/$(go list "$directory")
status=0
while IFS=: read -r file target; do
	target=${target#func }
	time=${FUZZTIME:-10s}
	case $file in ./internal/guest/* | ./internal/tree/* | ./internal/workspace/* | ./internal/sandbox/copy_*) time=${FUZZTIME_GUEST:-$time} ;; esac
	fuzz "$target" "$time" || fuzz_again "$target" "$time" || status=1
	printf '%s: %s in %s for %s\n%s\n' "${0##*/}" "$target" "$directory" "$time" "$(cat "$work/log")"
done < <(grep -HoE '^func Fuzz[A-Za-z0-9_]*' "$directory"/*_test.go | sort)
exit $status
