#!/usr/bin/env bash
# Starts a second Docker Engine that behaves like a remote one: it does not share
# our file system. It runs in its own mount namespace, in which the directories of
# workspaces and caches are empty. It listens on a socket that only root and the
# group docker may use, as that of the first engine: whoever reaches an engine has the
# machine. An SSH server on loopback leads to the same engine, with a key of the tests.
#
#   remote.sh start    starts both, and loads the images of the tests
#   remote.sh stop     stops them
#   remote.sh status   succeeds if the engine answers
#   remote.sh env      prints the variables by which the tests find them, for eval
#
# PYGENT_TEST_REMOTE_ENGINE and PYGENT_TEST_SSH_ENGINE have the form of DOCKER_HOST.
# For the latter, PATH begins with the directory of an ssh that has the key.
# Without these variables, tests of remote engines are skipped, or fail if
# PYGENT_TEST_REQUIRE_DOCKER is 1.
#
# Environment:
#   PYGENT_REMOTE_DIR       a directory for all files of both servers. It must not
#                           be in a directory that hidden prints. Default:
#                           /var/lib/pygent-remote
#   PYGENT_REMOTE_SSH_PORT  the SSH server's port. Default: 23722
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# The time limit for each server to answer or end, in seconds.
patience=60

dir=$remote_dir
engine=unix://$dir/docker.sock
ssh_port=${PYGENT_REMOTE_SSH_PORT:-23722}
bridge=pygent$ssh_port
docker_pid=$dir/docker.pid
sshd_pid=$dir/sshd.pid

remote() { DOCKER_HOST=$engine DOCKER_CONTEXT='' docker "$@"; }

answers() { command -v docker >/dev/null && timeout 10 docker -H "$engine" version --format '{{.Server.Version}}' >/dev/null 2>&1; }

ssh_answers() { timeout 10 "$dir/bin/ssh" -p "$ssh_port" root@127.0.0.1 true >/dev/null 2>&1; }

# ours PID-FILE NAME prints the process id in the file if that process runs and has
# the name.
ours() {
	local pid
	pid=$(cat "$1" 2>/dev/null) && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] && echo "$pid"
}

# await COMMAND waits until the command succeeds. It fails at the time limit.
await() {
	local until=$((SECONDS + patience))
	until "$@"; do
		[ "$SECONDS" -lt "$until" ] || return 1
		sleep 0.2
	done
}

# hidden prints the directories that the second engine must not see: all in which
# somebody may have a workspace, a cache or temporary files, now or when it runs. The one
# of containerd's socket is among them: dockerd would use a containerd that an init system
# has started, and that sees our file system.
hidden() {
	{
		find / -maxdepth 1 -mindepth 1 -type d | grep -vxE '/(bin|boot|dev|etc|lib[0-9a-z]*|proc|run|sbin|sys|usr|var)'
		printf '%s\n' /var/tmp /run/containerd "$HOME" "${XDG_CACHE_HOME:-$HOME/.cache}" "${TMPDIR:-/tmp}"
	} | awk '$0 != "/" && !seen[$0]++'
}

# launch LOG COMMAND runs a command in its own mount namespace, detached from this
# script.
launch() {
	local log=$1 script='log=$1; shift; for d in $HIDDEN; do [ ! -d "$d" ] || mount -t tmpfs -o mode=1777 tmpfs "$d"; done; exec "$@" >>"$log" 2>&1 </dev/null'
	as_root setsid env -C / "HIDDEN=$(hidden | tr '\n' ' ')" unshare --mount --propagation private \
		sh -c "$script" launch "$@" >/dev/null 2>&1 &
}

# make_bridge makes a bridge for the second engine, which nothing uses. Without a
# bridge, the engine would remove docker0, and so the first engine's network.
make_bridge() {
	[ -d "/sys/class/net/$bridge" ] && return
	as_root ip link add name "$bridge" type bridge
	as_root ip address add 10.213.47.1/24 dev "$bridge"
}

start_engine() {
	as_root sh -c ": >'$dir/dockerd.log'"
	make_bridge
	launch "$dir/dockerd.log" "${quick_engine[@]}" --host "$engine" --data-root "$dir/data" --exec-root "$dir/exec" \
		--pidfile "$docker_pid" --bridge "$bridge" --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false
	await answers || {
		as_root tail -n 30 "$dir/dockerd.log" >&2
		die "the second dockerd did not answer within $patience seconds"
	}
	say "a second engine answers at $engine, process $(ours "$docker_pid" dockerd)"
}

# load IMAGE copies an image from the first engine to the second.
load() {
	local id
	id=$(docker image inspect --format '{{.Id}}' "$1") || die "no image $1: run scripts/images.sh first"
	[ "$(remote image inspect --format '{{.Id}}' "$1" 2>/dev/null)" = "$id" ] && return
	say "loading $1"
	docker save "$1" | remote load >/dev/null
}

# write_ssh makes keys that are valid for this server only, and an ssh that uses
# them and comes first in PATH. DOCKER_HOST is set in its sessions, so that docker
# finds the second engine there.
write_ssh() {
	as_root mkdir -p "$dir/bin" /run/sshd
	as_root chown "$(id -u):$(id -g)" "$dir/bin"
	[ -f "$dir/bin/key" ] || ssh-keygen -q -t ed25519 -N '' -C pygent-test -f "$dir/bin/key"
	[ -f "$dir/host_key" ] || as_root ssh-keygen -q -t ed25519 -N '' -C pygent-test -f "$dir/host_key"
	as_root cp "$dir/bin/key.pub" "$dir/authorized_keys"
	printf '[127.0.0.1]:%s %s\n' "$ssh_port" "$(as_root cat "$dir/host_key.pub")" >"$dir/bin/known_hosts"
	cat >"$dir/bin/config" <<-END
		IdentityFile $dir/bin/key
		IdentitiesOnly yes
		UserKnownHostsFile $dir/bin/known_hosts
		BatchMode yes
	END
	printf '#!/bin/sh\nexec %q -F %q "$@"\n' "$(PATH=${PATH//$dir\/bin:/} command -v ssh)" "$dir/bin/config" >"$dir/bin/ssh"
	chmod 755 "$dir/bin/ssh"
	as_root tee "$dir/sshd_config" >/dev/null <<-END
		ListenAddress 127.0.0.1:$ssh_port
		HostKey $dir/host_key
		PidFile $sshd_pid
		AuthorizedKeysFile $dir/authorized_keys
		PermitRootLogin prohibit-password
		PasswordAuthentication no
		KbdInteractiveAuthentication no
		UsePAM no
		StrictModes no
		PrintMotd no
		SetEnv DOCKER_HOST=$engine
	END
}

start_sshd() {
	write_ssh
	launch "$dir/sshd.log" "$(command -v sshd)" -D -e -f "$dir/sshd_config"
	await ssh_answers || {
		as_root tail -n 30 "$dir/sshd.log" >&2
		die "the SSH server did not answer within $patience seconds"
	}
	say "an SSH server answers at 127.0.0.1:$ssh_port, process $(ours "$sshd_pid" sshd)"
}

install_servers() {
	need dockerd docker.io iptables
	need docker docker-cli
	need unshare util-linux
	need ip iproute2
	need ssh openssh-client
	# On machines with an init system, the package also starts its own server.
	need sshd openssh-server
}

start() {
	[ "$(uname -s)" = Linux ] || die "the second engine needs Linux"
	install_servers
	as_root mkdir -p "$dir"
	as_root chmod 755 "$dir"
	answers || start_engine
	load "$PYGENT_TEST_IMAGE"
	load "$PYGENT_TEST_BUSYBOX_IMAGE"
	{ [ -x "$dir/bin/ssh" ] && ssh_answers; } || start_sshd
}

# stop_one PID-FILE NAME stops a server that start has started.
stop_one() {
	local pid
	pid=$(ours "$1" "$2") || return 0
	as_root kill "$pid"
	gone() { [ ! -d "/proc/$pid" ]; }
	await gone || die "$2, process $pid, does not end"
	say "$2 has ended"
}

stop() {
	stop_one "$sshd_pid" sshd
	stop_one "$docker_pid" dockerd
	[ ! -d "/sys/class/net/$bridge" ] || as_root ip link delete "$bridge"
}

show_env() {
	printf 'export PYGENT_TEST_REMOTE_ENGINE=%q\n' "$engine"
	printf 'export PYGENT_TEST_SSH_ENGINE=%q\n' "ssh://root@127.0.0.1:$ssh_port"
	printf 'export PATH=%q:"$PATH"\n' "$dir/bin"
}

case "${1:-start}" in
start) start ;;
stop) stop ;;
status) answers ;;
env) show_env ;;
*) die "usage: remote.sh [start|stop|status|env]" ;;
esac
