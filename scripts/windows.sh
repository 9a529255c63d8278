#!/usr/bin/env bash
# Runs the Windows tests of the local runtime under wine: how it finds the shell,
# and job objects. Git's bash is not available here, so the test's program acts as
# the shell. With arguments, it runs a program for Windows instead.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# The time limit for starting wine, and for the tests, in seconds.
patience=240

install_wine() {
	need wine wine64 wine
	need x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
}

work=$(mktemp -d)
export WINEPREFIX=$work/wine WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml='
trap 'wineserver -k >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

# Debian installs wineserver outside of PATH.
export PATH="$PATH:/usr/lib/wine"

make_prefix() {
	mkdir -p "$WINEPREFIX"
	timeout -k 5 "$patience" wine wineboot --init </dev/null >/dev/null 2>&1 || die "wine does not start"
	x86_64-w64-mingw32-gcc -shared -O2 -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" scripts/prng.c -ladvapi32
}

# run PACKAGE TESTS runs the tests of PACKAGE that match TESTS.
run() {
	local binary=$work/tests.exe
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go test -c -o "$binary" "$1"
	(cd "$1" && timeout -k 5 "$patience" wine "$binary" -test.v -test.timeout "${patience}s" -test.run "$2" </dev/null 2>&1) |
		tr -d '\r' | awk -f scripts/test.awk
}

[ "$(uname -m)" = x86_64 ] || die "wine runs programs of this machine's processor, and these tests are for x86_64"
install_wine
make_prefix
if [ $# -gt 0 ]; then
	timeout -k 5 "$patience" wine "$@" </dev/null 2>&1 | tr -d '\r'
	exit
fi
run . '^TestWindows'
