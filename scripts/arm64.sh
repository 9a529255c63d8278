#!/usr/bin/env bash
# Runs the arm64 tests of the local runtime, of its guest and what supervises that, and of
# owners, under qemu-user in two ways. In one, the kernel starts arm64 programs under qemu, so
# the guest is a separate process. In the other it does not, so the guest has to
# run inside the test's process.
#
# qemu is registered with the kernel in a separate user namespace, which nobody
# else on this machine sees.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# The time limit for the tests of one package, in seconds.
patience=180
qemu=qemu-aarch64-static

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The first bytes of a Linux program for arm64, and a mask of the bits to compare.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

# registered runs a command where the kernel starts arm64 programs under qemu.
registered() {
	local script='mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc && printf %s "$0" >/proc/sys/fs/binfmt_misc/register && exec "$@"'
	unshare --user --map-root-user --mount sh -c "$script" ":pygent-arm64:M::$magic:$mask:$(command -v $qemu):F" timeout -k 5 "$patience" "$@"
}

# unregistered runs a command under qemu where the kernel does not know qemu.
unregistered() { timeout -k 5 "$patience" $qemu "$@"; }

build() { GOARCH=arm64 CGO_ENABLED=0 go test -c -o "$work/$1" "$2"; }

# run WAY NAME PACKAGE TESTS runs the tests of PACKAGE that match TESTS. WAY is
# registered or unregistered; NAME names the test program.
run() {
	local way=$1 binary=$work/$2
	[ -e "$binary" ] || build "$2" "$3"
	(cd "$3" && "$way" "$binary" -test.v -test.parallel 1 -test.timeout "${patience}s" -test.run "$4" </dev/null 2>&1) |
		awk -f scripts/test.awk
}

# Left out are:
# - tests with containers, whose programs are for this machine's architecture;
# - tests with many concurrent commands, some of which the emulator fails to start (so no
#   tests run at the same time);
# - tests with processes that escape by setsid. The emulator does not support
#   subreapers, without which the guest does not promise to find such processes.
guest='^Test(HelloTellsWhereItRuns|CommandResults|OrderOfBothStreamsIsTrue|EnvironmentAndDirectory|LargeScripts|OutputIsBoundedAndSpilled|CancelKillsAndReturnsOutput|FilesAreWrittenAndRead|FilesOutsideTheWorkspaceAreRefused|DirectoriesAreUploadedAndExported)$/^local$'
root='^TestBash(ReportsOutputAndStatus|StopsAtItsTimeLimit|KillsWhatIgnoresTerm|CancelReturnsWhatIsKnown|ReturnsAlthoughAChildHoldsThePipe|BoundsOutput|RunsScriptsOfAnySize|Directory)$/^local$|^TestLocalTellsWhatItCannotDo$'

need $qemu qemu-user-static
need unshare util-linux
for way in registered unregistered; do
	say "by way of $way"
	run $way owner ./internal/owner '^TestAProcessIsAliveToItsThreads$'
	run $way supervise ./internal/guest/supervise '^TestGroup'
	run $way guest ./internal/guest "$guest"
	run $way pygent . "$root"
done
