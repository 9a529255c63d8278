#!/usr/bin/env bash
# Runs a command whose temporary files have a file system with a journal, if theirs would
# be an ext4 without one: that searches the inodes which were deleted in the last minute
# for each file that it makes. It is for the short tests: an engine that a test kills
# removes its containers late there.
#
#   disk.sh COMMAND...
#
# The file system is seen by the command alone, and ends with it, however that ends. Its
# name is always the same: go test runs everything again in another TMPDIR.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

# A directory that every Linux has, and that nobody has to look into meanwhile.
place=/mnt

# The most that the files can take, which the disk must have free; they take what they have.
size=8 # GiB

# journal succeeds if the file system of a directory is no ext4, or has a journal.
journal() {
	local device type
	read -r device type < <(findmnt -no SOURCE,FSTYPE -T "$1") || return 0
	[ "$type" != ext4 ] || compgen -G "/proc/fs/jbd2/${device##*/}-*" >/dev/null
}

room() { [ "$(df --output=avail -BG "$1" | tail -n 1 | tr -d ' G')" -gt "$size" ]; }

# make_disk makes a file system and mounts it. Its file has no name any more, so that it
# ends with the mount; nobody needs it after a crash, so it waits for no disk.
make_disk() {
	local image
	image=$(mktemp) || return
	truncate -s "${size}G" "$image" &&
		mkfs.ext4 -q -E lazy_itable_init=1 "$image" &&
		mount -o loop,noatime,noinit_itable,barrier=0 "$image" "$place" &&
		chmod 1777 "$place" || {
		rm -f "$image"
		return 1
	}
	rm -f "$image"
}

# ours succeeds if nothing that the command needs can lie in the place.
ours() { [ -d "$place" ] && [[ $PWD/ != "$place"/* && $here/ != "$place"/* && $(go env GOCACHE GOMODCACHE GOROOT) != *"$place"/* ]]; }

case "${1:-}" in
"") die "usage: disk.sh COMMAND..." ;;
--mounted)
	shift
	if make_disk >&2; then
		export TMPDIR=$place
	else
		say "temporary files stay in /tmp, which makes the tests slower"
	fi
	exec "$@"
	;;
esac
if [ "$(id -u)" != 0 ] || [ -n "${TMPDIR:-}" ] || journal /tmp || ! room /tmp || ! ours || ! unshare -m true 2>/dev/null; then exec "$@"; fi
exec unshare -m "$here/disk.sh" --mounted "$@"
