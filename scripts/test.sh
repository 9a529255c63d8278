#!/usr/bin/env bash
# Sets up everything and runs all tests with the race detector, and without it those
# that mean nothing with it, which measure memory, say (their files have the build
# constraint !race), and those of packages without goroutines. It fails if a test fails
# or is skipped. Arguments are passed to go test; the default is ./... and the modules
# that it leaves out.
#
# Of all packages it runs those of which something has changed since they passed; go test
# keeps the results of the others. GOFLAGS=-count=1 runs all, and so does .ci/run.
set -euo pipefail
shopt -s inherit_errexit
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
programs=$PATH # without an ssh that remote.sh has written
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
# Linking is most of what the tests of most packages cost, and without what debuggers
# read it costs a third less.
link="-ldflags=-s -w"
flags=(-timeout 40m -p "$at_once" -parallel 8 -vet=off "$link" -v)

# beside COMMAND... runs a command beside the others, and prints what it printed when it
# has ended. Tests that compute, and the compilers of other modules, yield to tests that
# have only so much patience with a program.
beside() {
	{
		local log
		log=$(mktemp "$logs/XXXXXX")
		nice -n "${yields:-0}" "$@" >"$log" 2>&1 </dev/null || echo "FAIL $1 $2" >>"$log"
		flock "$logs" cat "$log"
	} &
}

# machine prints what tests depend on that go test does not see: the kernel, the limits of
# processes, the environment, the programs and libraries of this machine and their
# settings, what installs or starts them, the engines and their images. Where it does not
# know which packages are installed, it prints the time, so that no result is found again.
machine() {
	local python host
	uname -srvm
	cat /proc/cmdline # by which the kernel has Landlock, say
	sysctl -a -r '^(user|kernel\.(apparmor|keys|unprivileged|yama)|vm\.(memfd|overcommit))' 2>/dev/null || true # not all may be read
	stat -fc %T . "${TMPDIR:-/tmp}" "${HOME:-/}"
	id
	umask
	ulimit -a
	nproc
	env | grep -vE '^(_|SHLVL|PWD|OLDPWD|WINDOWID|SSH_(CLIENT|CONNECTION|TTY)|XDG_SESSION_ID)=' | sort
	dpkg-query -W 2>/dev/null || date +%s%N
	(IFS=: && find -L $programs -maxdepth 1 -type f -printf '%p %s %T@\n' 2>/dev/null | sort) || true
	(git -C / config --list; cat ~/.config/git/* /etc/gitattributes) 2>/dev/null || true
	cat "$(dirname "$(readlink -f "$(command -v npm)")")/../package.json" 2>/dev/null || date +%s%N # the program in PATH is the same for each version
	for python in python3 /usr/bin/python3; do
		"$python" -c 'import os, sys; print(sys.version, sorted(n for d in sys.path if os.path.isdir(d) for n in os.listdir(d) if n.endswith("-info")))'
	done
	cat scripts/*.sh go.mod go.sum .build/*/pins
	docker context inspect
	for host in "${DOCKER_HOST:-}" "$PYGENT_TEST_REMOTE_ENGINE"; do
		DOCKER_HOST=$host docker version
		DOCKER_HOST=$host docker info 2>/dev/null | grep -vE '^ +(Containers|Running|Paused|Stopped|Images|File Descriptors|Goroutines|System Time|EventsListeners):' |
			tr -s ' ' '\n' | sort # the names of runtimes come in any order
		DOCKER_HOST=$host docker image inspect --format '{{.Id}}' "$PYGENT_TEST_IMAGE" "$PYGENT_TEST_BUSYBOX_IMAGE"
	done
	docker image inspect --format '{{.Id}}' "$PYGENT_TEST_CLIENTS_IMAGE"
	docker network inspect --format '{{json .IPAM}} {{json .Options}}' bridge || echo "no bridge"
}

# sources prints what programs of ours are built from and read.
sources() {
	LC_ALL=C find . \( -path ./.git -o -path ./.build \) -prune -o -type f ! -name '*_test.go' ! -regex '\./[A-Z]*\.md' -print0 | sort -z | xargs -0 sha256sum
}

# key NAME prints a checksum of what the function NAME prints.
key() { { "$1"; cat ".build/tests/$1" 2>/dev/null || true; } | sha256sum | cut -c -16; }

# settle NAME KEY makes sure that no result that was found meanwhile is found again if the
# key of the function NAME is another one by now: nobody knows what the tests have seen.
settle() { [ "$(key "$1")" = "$2" ] || date +%s%N >".build/tests/$1"; }

# using PATTERN prints the packages with a match in the Go files of their tests, or of what
# these use, except for the standard library and what checks results.
using() {
	local matches
	matches=$(grep -v '\.test|' <<<"$uses" | cut -d '|' -f 2 | tr ' ' '\n' | grep / | sort -u | xargs bash -c 'grep -lP -- "$0" "$@" || [ $? = 1 ]' "$1")
	awk -F '|' '
		NR == FNR { matches[$0]; next }
		!/\.test\|/ { n = split($2, files, " "); for (i = 1; i <= n; i++) if (files[i] in matches) found[$1] }
		/\.test\|/ { deps[$1] = $3 }
		END { for (p in deps) { n = split(deps[p], d, ","); for (i = 1; i <= n && !(d[i] in found); i++); if (i <= n) print substr(p, 1, length(p) - 5) } }
	' <(printf 'C\n%s\n' "$matches") <(echo "$uses") | sort
}

# What starts a goroutine, in Go files. Without one nothing can race.
goroutines='(^|[{;])[[:space:]]*go |\.Go\(|Parallel\(|AfterFunc|Eventually|SetFinalizer|AddCleanup|synctest|"(C|net|net/http.*|net/rpc.*|net/smtp|os/exec|os/signal|database/.*|unsafe)"'

# What runs a program of ours or builds one, in Go files. The exceptions read nothing of
# ours.
builds='internal/testkit/cmdtest"|exec\.Command(Context)?\(.*"go"(?!, "(env|mod", "download|build", "runtime)")'

# run PACKAGES FLAG... tests packages. It names no test, but what go test does not see, to
# skip, because the flags are a part of that by which go test finds results.
run() {
	local list
	if list=$(grep -vxF "$builders" <<<"$1"); then beside go test "${@:2}" "${flags[@]}" -skip "^$state\$" $list; fi
	if list=$(grep -xF "$builders" <<<"$1"); then beside go test "${@:2}" "${flags[@]}" -skip "^$state-$source\$" $list; fi
}

# without_race runs the tests that are left out with the race detector.
without_race() {
	local list files tests
	list=$(go list -race -f '{{range .IgnoredGoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}' ./...)
	files=$(grep '_test\.go$' <<<"$list" | xargs -r grep -lE '^//go:build .*!race') || true # of several greps, one finds none
	[ -n "$files" ] || return 0
	tests=$(grep -ohE '^func Test[A-Za-z0-9_]*' $files | sed 's/^func //' | paste -sd '|')
	run "$(dirname $files | sort -u | xargs go list)" -run "^($tests)\$"
}

everything() {
	local all alone builders racing uses module yields
	export PYGENT_TEST_COMMAND=$PWD/.build/tests/pygent # which would be linked for each package that runs it
	# A file that is written anew, even with the same bytes, is another one for go test.
	go build -buildvcs=false "$link" -o "$logs/pygent" ./cmd/pygent || echo "FAIL go build ./cmd/pygent"
	mkdir -p .build/tests
	cmp -s "$logs/pygent" "$PYGENT_TEST_COMMAND" || mv "$logs/pygent" "$PYGENT_TEST_COMMAND"
	go list "${race[@]}" -export ./... >/dev/null || echo "FAIL go list" # two that build at once build much twice
	state=$(key machine)
	source=$(key sources)
	trap 'settle machine "$state"; settle sources "$source"' EXIT
	uses=$(go list -test -deps -f '{{if not .Standard}}{{.ImportPath}}|{{range .GoFiles}}{{$.Dir}}/{{.}} {{end}}{{range .CgoFiles}}C {{end}}|{{join .Deps ","}}{{end}}' ./... |
		grep -vE '^(github.com/stretchr/testify|go.uber.org/goleak)')
	all=$(go list ./...)
	builders=$(using "$builds")
	racing=$(using "$goroutines")
	alone=$(comm -23 <(sort <<<"$all") <(echo "$racing"))
	run "$(grep -vxF "$alone" <<<"$all")" "${race[@]}"
	yields=10 run "$alone"
	yields=10 without_race
	for module in examples/*/go.mod e2e/*/go.mod bench/*/go.mod; do # which ./... leaves out
		case $module in e2e/*) yields=0 ;; *) yields=10 ;; esac
		beside go test -C "${module%/go.mod}" "${flags[@]}" -skip "^$state-$source\$" ./...
	done
	wait
}

some() { go test "${race[@]}" -count=1 "${flags[@]}" "$@" 2>&1 || echo "FAIL go test"; }

if [ $# -eq 0 ]; then everything; else some "$@"; fi | awk -f scripts/test.awk
