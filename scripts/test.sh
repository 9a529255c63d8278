#!/usr/bin/env bash
# Sets up everything and runs all tests with the race detector, and without it those
# that mean nothing with it, which measure memory, say (their files have the build
# constraint !race), and those of packages without goroutines. It fails if a test fails
# or is skipped. Arguments are passed to go test; the default is ./... and the modules
# that it leaves out.
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
at_once=$(($(nproc) + 1))
flags=(-count=1 -timeout 40m -p "$at_once" -parallel 8 -vet=off -v)

# beside COMMAND... runs a command beside the other tests, and keeps what it prints.
beside() {
	local log
	log=$(mktemp "$logs/XXXXXX.log")
	{ "$@" || echo "FAIL $*"; } >"$log" 2>&1 &
}

# kept NAME RUN PACKAGE... tests packages with programs that it keeps in
# .build/tests/NAME. RUN matches the names of tests. If the name is race, they have the
# race detector. go test links each program every time, which takes longer than the tests
# of most packages; go test -c links only those in which something has changed.
kept() {
	local dir=$PWD/.build/tests/$1 run=$2 detector=() list part
	[ "$1" != race ] || detector=("${race[@]}")
	shift 2
	# Programs whose names are equal are in different parts. The packages without tests are
	# compiled as well.
	list=$(go list "${detector[@]}" -export -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' "$@" |
		awk -v dir="$dir" 'NF { name = $1; sub(/.*\//, "", name); print dir "/" n[name]++ "/" name ".test", $0 }') || return
	mkdir -p "$dir"
	find "$dir" -name '*.test' | grep -vxF "$(cut -d ' ' -f 1 <<<"$list")" | xargs -r rm || true
	for part in $(sed 's|/[^/]* .*||' <<<"$list" | sort -u); do
		mkdir -p "$part"
		awk -v part="$part/" 'index($1, part) == 1 { print $2 }' <<<"$list" |
			xargs go test -c "${detector[@]}" -vet=off -ldflags='-s -w' -o "$part/" || return
	done
	GOROOT=$(go env GOROOT) logs=$logs run=$run xargs -P "$at_once" -L 1 bash -c 'one_kept "$@"' one_kept <<<"$list"
}

# one_kept PROGRAM PACKAGE DIRECTORY runs a test program, and prints what go test would.
one_kept() {
	local log start=$SECONDS result=ok
	log=$(mktemp "$logs/XXXXXX")
	(
		cd "$3" &&
			PATH="$GOROOT/bin:$PATH" exec "$1" -test.paniconexit0 -test.timeout 40m -test.parallel 8 -test.v -test.run "$run"
	) >"$log" 2>&1 </dev/null || result=FAIL
	printf '%-4s\t%s\t%ds\n' "$result" "$2" $((SECONDS - start)) >>"$log"
	flock "$logs" cat "$log"
	rm "$log"
}
export -f one_kept

# What starts a goroutine, in Go files. Without one nothing can race.
goroutines='(^|[{;])[[:space:]]*go |\.Go\(|Parallel\(|AfterFunc|Eventually|SetFinalizer|AddCleanup|synctest|"(C|net|net/http.*|net/rpc.*|net/smtp|os/exec|os/signal|database/.*|unsafe)"'

# sequential prints the packages whose tests start no goroutine, and neither does any
# package that they use, except for the standard library and what checks results.
sequential() {
	local list
	list=$(go list -test -deps -f '{{if not .Standard}}{{.ImportPath}}|{{range .GoFiles}}{{$.Dir}}/{{.}} {{end}}{{range .CgoFiles}}C {{end}}|{{join .Deps ","}}{{end}}' ./... |
		grep -vE '^(github.com/stretchr/testify|go.uber.org/goleak)')
	awk -F '|' '
		NR == FNR { starts[$0]; next }
		!/\.test\|/ { n = split($2, files, " "); for (i = 1; i <= n; i++) if (files[i] in starts) concurrent[$1] }
		/\.test\|/ { deps[$1] = $3 }
		END { for (p in deps) { n = split(deps[p], d, ","); for (i = 1; i <= n && !(d[i] in concurrent); i++); if (i > n) print substr(p, 1, length(p) - 5) } }
	' <(echo C; grep -v '\.test|' <<<"$list" | cut -d '|' -f 2 | tr ' ' '\n' | grep / | sort -u | xargs grep -lE "$goroutines") <(echo "$list") | sort
}

# without_race runs the tests that are left out with the race detector, and the packages
# given, in which it would find nothing.
without_race() {
	local list files tests packages
	list=$(go list -race -f '{{range .IgnoredGoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}' ./...)
	mapfile -t files < <(grep '_test\.go$' <<<"$list" | xargs -r grep -lE '^//go:build .*!race')
	[ $# -eq 0 ] || beside kept sequential . "$@"
	[ ${#files[@]} -gt 0 ] || return 0
	tests=$(grep -ohE '^func Test[A-Za-z0-9_]*' "${files[@]}" | sed 's/^func //' | paste -sd '|')
	mapfile -t packages < <(dirname "${files[@]}" | sort -u)
	beside kept slow "^($tests)\$" "${packages[@]}"
}

everything() {
	local module alone packages
	export PYGENT_TEST_COMMAND=$PWD/.build/tests/pygent # which would be linked for each package that runs it
	go build -ldflags='-s -w' -o "$PYGENT_TEST_COMMAND" ./cmd/pygent || echo "FAIL go build ./cmd/pygent"
	mapfile -t alone < <(sequential)
	mapfile -t packages < <(go list ./... | grep -vxF "$(printf '%s\n' "${alone[@]}")")
	for module in examples/*/go.mod e2e/*/go.mod bench/*/go.mod; do # which ./... leaves out
		beside go test -C "${module%/go.mod}" "${flags[@]}" ./...
	done
	without_race "${alone[@]}"
	kept race . "${packages[@]}" 2>&1 || echo "FAIL go test"
	wait
	cat "$logs"/*.log
}

some() { go test "${race[@]}" "${flags[@]}" "$@" 2>&1 || echo "FAIL go test"; }

if [ $# -eq 0 ]; then everything; else some "$@"; fi | awk -f scripts/test.awk
