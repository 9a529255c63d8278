# The other scripts source this for messages, root and Debian packages.

# The PATH of a root shell may lack these.
export PATH="$PATH:/usr/local/go/bin:/usr/local/sbin:/usr/sbin:/sbin"

# The images that the tests run commands in.
export PYGENT_TEST_IMAGE="${PYGENT_TEST_IMAGE:-pygent-test/debian:latest}"
export PYGENT_TEST_BUSYBOX_IMAGE="${PYGENT_TEST_BUSYBOX_IMAGE:-pygent-test/busybox:latest}"
export PYGENT_TEST_CLIENTS_IMAGE="${PYGENT_TEST_CLIENTS_IMAGE:-pygent-test/clients:latest}"

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
	say "$@"
	exit 1
}

# as_root runs a command as root, through sudo if it has to.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "root is needed for: $*; run this as root, or install sudo"
	fi
}

# apt_update fetches the package lists, once in a script.
apt_update() {
	[ -z "${apt_updated:-}" ] || return 0
	say "apt-get update"
	as_root apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 update || return
	apt_updated=yes
}

# apt_ready makes sure that there are package lists.
apt_ready() {
	command -v apt-get >/dev/null || die "this is neither Debian nor Ubuntu: $1"
	if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
		apt_update
	fi
}

# apt_install installs packages. If that fails, the package lists are usually too
# old for the mirror, so it tries again with new ones.
apt_install() {
	apt_ready "install what corresponds to $*"
	say "installing $*"
	local install=(env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get -qq -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 install --no-install-recommends)
	as_root "${install[@]}" "$@" >/dev/null && return
	apt_update
	as_root "${install[@]}" "$@" >/dev/null
}

# need COMMAND PACKAGE... installs the packages unless there is the command.
need() {
	local name=$1
	shift
	command -v "$name" >/dev/null || apt_install "$@"
}
