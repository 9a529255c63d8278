#!/usr/bin/env bash
# Makes the images that the tests run commands in, unless the engine has them: a
# Debian with bash, python3 and git, and a busybox with little more than /bin/sh.
# With the argument "clients" it also makes the Debian with the clients of package
# registries: curl, wget, pip and npm. The images are built from Debian packages,
# because a registry may be out of reach. Their file systems are kept in a cache,
# so that the next time is quick.
#
# Environment: PYGENT_TEST_IMAGE, PYGENT_TEST_BUSYBOX_IMAGE and
# PYGENT_TEST_CLIENTS_IMAGE name the images.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

packages=bash,ca-certificates,git,python3
clients="curl wget python3-pip npm"
applets="cat echo ls sh sleep true"
advice="provide the images $PYGENT_TEST_IMAGE ($packages) and $PYGENT_TEST_BUSYBOX_IMAGE (busybox), or name others in PYGENT_TEST_IMAGE and PYGENT_TEST_BUSYBOX_IMAGE"

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/pygent
mkdir -p "$cache"
work=
trap '[ -z "$work" ] || as_root rm -rf "$work"' EXIT

missing() { ! docker image inspect "$1" >/dev/null 2>&1; }

# mirror prints where this machine gets its packages from.
mirror() {
	apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
		awk -v suite="$1" '$2 == suite && $3 == "main" { print $1; exit }'
}

# debian_tar makes the file system of the larger image.
debian_tar() {
	local suite
	suite=$(. /etc/os-release && echo "${VERSION_CODENAME:?this release has no code name}")
	need debootstrap debootstrap
	say "building $suite with $packages"
	as_root debootstrap --variant=minbase --include="$packages" "$suite" "$work/root" "$(mirror "$suite")" >"$work/log" 2>&1 || {
		tail -n 20 "$work/log" >&2
		return 1
	}
	as_root tar -C "$work/root" --numeric-owner --exclude='./dev/*' --exclude='./var/cache/apt/*' \
		--exclude='./var/lib/apt/lists/*' -c . >"$1"
}

# clients_tar makes the file system of the image with clients from that of the
# larger image.
clients_tar() {
	say "adding $clients"
	mkdir "$work/root"
	docker_tar "$PYGENT_TEST_IMAGE" | as_root tar -C "$work/root" --numeric-owner -x
	as_root cp /etc/resolv.conf "$work/root/etc/resolv.conf"
	as_root mknod -m 666 "$work/root/dev/null" c 1 3 2>/dev/null || true
	local inside=(as_root chroot "$work/root" env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get -qq -y -o Acquire::Retries=3)
	{
		"${inside[@]}" update
		# shellcheck disable=SC2086 # the words are separate packages
		"${inside[@]}" install --no-install-recommends $clients
	} >"$work/log" 2>&1 || {
		tail -n 20 "$work/log" >&2
		return 1
	}
	as_root tar -C "$work/root" --numeric-owner --exclude='./dev/*' --exclude='./var/cache/apt/*' \
		--exclude='./var/lib/apt/lists/*' -c . >"$1"
}

# docker_tar writes the file system of an image.
docker_tar() {
	local container
	container=$(docker create "$1")
	docker export "$container"
	docker rm "$container" >/dev/null
}

# busybox_tar makes the file system of the smaller image. It does not install the
# package, which would replace the machine's own busybox.
busybox_tar() {
	# apt's own user for downloads may have no access to the cache.
	local download=(apt-get -qq -o APT::Sandbox::User=root download busybox-static)
	(cd "$work" && "${download[@]}") || {
		apt_update
		(cd "$work" && "${download[@]}")
	}
	dpkg-deb -x "$work"/busybox-static_*.deb "$work/package"
	mkdir -p "$work/root/bin"
	find "$work/package" -path '*/bin/busybox' -exec cp {} "$work/root/bin/busybox" \;
	local applet
	for applet in $applets; do
		ln -s busybox "$work/root/bin/$applet"
	done
	tar -C "$work/root" --owner=0 --group=0 --numeric-owner -c . >"$1"
}

# provide NAME COMMAND WHAT [INGREDIENT...] makes the image NAME from the file
# system that the function WHAT makes, or from the cached one.
provide() {
	local name=$1 command=$2 what=$3
	missing "$name" || return 0
	apt_ready "$advice"
	local recipe tar
	recipe=$(printf '%s\n' "$what" "$packages" "$applets" "${@:4}" "$(. /etc/os-release && echo "$ID $VERSION_ID")" | sha256sum)
	tar=$cache/$what-$(dpkg --print-architecture)-${recipe:0:12}.tar
	if [ ! -s "$tar" ]; then
		work=$(mktemp -d "$cache/build.XXXXXX")
		chmod 755 "$work"
		"$what" "$work/image.tar"
		mv "$work/image.tar" "$tar"
		as_root rm -rf "$work"
		work=
	fi
	say "importing $name"
	docker import --change "CMD [\"$command\"]" "$tar" "$name" >/dev/null
}

command -v docker >/dev/null || die "no docker client: run scripts/engine.sh first"
provide "$PYGENT_TEST_IMAGE" bash debian_tar
provide "$PYGENT_TEST_BUSYBOX_IMAGE" sh busybox_tar
[ "${1:-}" != clients ] || provide "$PYGENT_TEST_CLIENTS_IMAGE" bash clients_tar "$clients"
