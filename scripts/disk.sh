#!/usr/bin/env bash
# Gives the temporary files of tests a file system with a journal, if theirs is an ext4
# without one: that searches the inodes which were deleted in the last minute for each
# file that it makes. It is for the short tests: an engine that a test kills removes its
# containers late there, and some terminals of tests have no room for the longer name.
#
#   disk.sh mount PID      prints a directory for temporary files, a file system of its
#                          own for as long as the process PID lives; or nothing, if that
#                          would be no better, or cannot be
#   disk.sh unmount PID    removes it, with all files
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# The beginning of the names of all such directories; the rest is a process id.
prefix=/tmp/disk.

# The most that they can hold, which the disk must have free; they take what they have.
size=8 # GiB

# journal succeeds if the file system of a directory is no ext4, or has a journal.
journal() {
	local device type
	read -r device type < <(findmnt -no SOURCE,FSTYPE -T "$1") || return 0
	[ "$type" != ext4 ] || compgen -G "/proc/fs/jbd2/${device##*/}-*" >/dev/null
}

room() { [ "$(df --output=avail -BG "$1" | tail -n 1 | tr -d ' G')" -gt "$size" ]; }

# make_disk DIR makes a file system and mounts it. Its file has no name any more, so that
# it ends with the mount; nobody needs it after a crash, so it waits for no disk. In /tmp,
# others may have made anything before, which is not used: mkdir and mktemp fail then.
make_disk() {
	local image
	mkdir "$1" && image=$(mktemp "$1.XXXXXX") || return
	truncate -s "${size}G" "$image" &&
		mkfs.ext4 -q -E lazy_itable_init=1 "$image" &&
		mount -o loop,noatime,noinit_itable,barrier=0 "$image" "$1" &&
		chmod 1777 "$1" || {
		rm -f "$image"
		return 1
	}
	rm -f "$image"
}

unmount() {
	[ -L "$1" ] || umount --lazy "$1" 2>/dev/null || true
	rmdir "$1" 2>/dev/null || true
}

# sweep removes what killed runs have left: directories, and files that have a name yet.
sweep() {
	local left pid
	for left in "$prefix"*; do
		pid=${left#"$prefix"}
		if [ -L "$left" ] || [ -d "/proc/${pid%%.*}" ]; then continue; fi
		if [ -d "$left" ]; then unmount "$left"; else rm -f "$left"; fi
	done
}

case "${1:-}" in
mount)
	dir=$prefix$2
	if [ "$(id -u)" != 0 ] || [ -n "${TMPDIR:-}" ] || journal /tmp || ! room /tmp; then exit 0; fi
	sweep
	if make_disk "$dir" >&2; then
		echo "$dir"
	else
		say "temporary files stay in /tmp, which makes the tests slower"
		unmount "$dir"
	fi
	;;
unmount) unmount "$prefix$2" ;;
*) die "usage: disk.sh mount PID | unmount PID" ;;
esac
