#!/usr/bin/env bash
# Runs the tests of the local runtime, of the guest and of its supervision for
# arm64, under qemu-user. It does so in two ways: with the guest as a program of
# its own, which the kernel starts under qemu, and with the guest inside the
# test's process.
#
# qemu is registered with the kernel in a user namespace of its own, so nobody
# else on this machine sees it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# How long the tests of one package may take, in seconds.
patience=60
qemu=qemu-aarch64-static

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The header of a program for Linux on arm64, and which of its bits count.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

# registered runs a command where the kernel starts arm64 programs under qemu.
registered() {
	local script='mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc && printf %s "$0" >/proc/sys/fs/binfmt_misc/register && exec "$@"'
	unshare --user --map-root-user --mount sh -c "$script" ":pygent-arm64:M::$magic:$mask:$(command -v $qemu):F" timeout -k 5 "$patience" "$@"
}

# unregistered runs a command under qemu where the kernel does not do that.
unregistered() { timeout -k 5 "$patience" $qemu "$@"; }

build() { GOARCH=arm64 CGO_ENABLED=0 go test -c -o "$work/$1" "$2"; }

# run WAY NAME PACKAGE TESTS runs the tests of a package that match.
run() {
	local way=$1 binary=$work/$2
	[ -e "$binary" ] || build "$2" "$3"
	(cd "$3" && "$way" "$binary" -test.v -test.timeout "${patience}s" -test.run "$4" </dev/null 2>&1) |
		awk -f scripts/test.awk
}

# Left out are tests with containers, whose programs are of this machine's
# architecture, and tests with many commands at once, some of which the emulator
# fails to start. Tests of processes that get away by setsid are left out too,
# because under the emulator the guest does not become the parent of orphans.
guest='^Test(HelloTellsWhereItRuns|CommandResults|OrderOfBothStreamsIsTrue|EnvironmentAndDirectory|LargeScripts|OutputIsBoundedAndSpilled|CancelKillsAndReturnsOutput|FilesAreWrittenAndRead|FilesOutsideTheWorkspaceAreRefused|DirectoriesAreUploadedAndExported)$/^local$'
root='^TestBash(ReportsOutputAndStatus|StopsAtItsTimeLimit|KillsWhatIgnoresTerm|CancelReturnsWhatIsKnown|ReturnsAlthoughAChildHoldsThePipe|BoundsOutput|RunsScriptsOfAnySize|Directory)$/^local$|^TestLocalTellsWhatItCannotDo$'

need $qemu qemu-user-static
need unshare util-linux
for way in registered unregistered; do
	say "by way of $way"
	run $way supervise ./internal/guest/supervise '^TestGroup'
	run $way guest ./internal/guest "$guest"
	run $way pygent . "$root"
done
