# Functions for the other scripts, which source this file: messages, running as
# root, Debian packages.

# A minimal shell of root may lack these directories.
export PATH="$PATH:/usr/local/go/bin:/usr/local/sbin:/usr/sbin:/sbin"

# The images in which the tests run commands.
export PYGENT_TEST_IMAGE="${PYGENT_TEST_IMAGE:-pygent.invalid/debian:latest}"
export PYGENT_TEST_BUSYBOX_IMAGE="${PYGENT_TEST_BUSYBOX_IMAGE:-pygent.invalid/busybox:latest}"
export PYGENT_TEST_CLIENTS_IMAGE="${PYGENT_TEST_CLIENTS_IMAGE:-pygent.invalid/clients:latest}"

# The directory of the second engine's files, which scripts/remote.sh starts.
remote_dir=${PYGENT_REMOTE_DIR:-/var/lib/pygent-remote}

# The command that starts a Docker Engine for the tests. They make hundreds of
# containers; an engine that collects garbage only when it has much of it takes about a
# tenth less processor time for each. So do the containerd and the shims that it starts.
quick_engine=(env GOGC=off GOMEMLIMIT=512MiB dockerd)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
	say "$@"
	exit 1
}

# as_root runs a command as root, through sudo if necessary.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "root is needed for: $*; run this as root, or install sudo"
	fi
}

# apt_update fetches the package lists, but only once in a script.
apt_update() {
	[ -z "${apt_updated:-}" ] || return 0
	say "apt-get update"
	as_root apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 update || return
	apt_updated=yes
}

# apt_ready ADVICE makes sure that there are package lists. Without apt, it fails
# with the advice.
apt_ready() {
	command -v apt-get >/dev/null || die "this is neither Debian nor Ubuntu: $1"
	if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
		apt_update
	fi
}

# apt_install installs packages. The usual reason for a failure is package lists
# that are older than the mirror, so it tries again with new ones.
apt_install() {
	apt_ready "install what corresponds to $*"
	say "installing $*"
	local install=(env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get -qq -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 install --no-install-recommends)
	as_root "${install[@]}" "$@" >/dev/null && return
	apt_update
	as_root "${install[@]}" "$@" >/dev/null
}

# need COMMAND PACKAGE... installs packages if the command does not exist.
need() {
	local name=$1
	shift
	command -v "$name" >/dev/null || apt_install "$@"
}

# npm_install NAME DIR installs the npm packages that are pinned in a directory into
# .build/NAME, unless they are there.
npm_install() {
	local home=.build/$1 dir=$2 pins
	pins=$(cat "$dir/package.json" "$dir/package-lock.json" | sha256sum)
	[ "$(cat "$home/pins" 2>/dev/null)" != "$pins" ] || return 0
	rm -rf "$home"
	mkdir -p "$home"
	cp "$dir/package.json" "$dir/package-lock.json" "$home"
	say "installing $1"
	npm ci --prefix "$home" --no-audit --no-fund --ignore-scripts --loglevel=error >&2
	printf '%s\n' "$pins" >"$home/pins"
}
