#!/usr/bin/env bash
# Starts a Docker Engine if none answers.
#
#   engine.sh start    does nothing if an engine answers. Otherwise it installs
#                      what is missing (on Debian and Ubuntu) and starts dockerd
#                      itself, so it works without an init system.
#   engine.sh stop     stops the dockerd that start has started, and no other
#   engine.sh status   succeeds if an engine answers
#
# Environment:
#   PYGENT_ENGINE_DIR     a directory for all files of the engine, including its
#                         socket, so that it is separate from the machine's own
#   PYGENT_DOCKERD_FLAGS  additional flags for dockerd
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# The time limit for dockerd to answer or end, in seconds.
patience=60

if [ -n "${PYGENT_ENGINE_DIR:-}" ]; then
	mkdir -p "$PYGENT_ENGINE_DIR"
	dir=$(cd "$PYGENT_ENGINE_DIR" && pwd)
	export DOCKER_HOST="unix://$dir/docker.sock"
	pid_file=$dir/docker.pid
	log=$dir/dockerd.log
	flags=(--data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$pid_file" --host "$DOCKER_HOST")
else
	pid_file=/var/run/pygent-dockerd.pid
	log=/var/log/pygent-dockerd.log
	flags=(--pidfile "$pid_file")
fi
read -ra more_flags <<<"${PYGENT_DOCKERD_FLAGS:-}"

answers() {
	command -v docker >/dev/null && timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1
}

# ours prints the process id of the dockerd that this script started, if it runs.
ours() {
	local pid
	pid=$(cat "$pid_file" 2>/dev/null) && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ] && echo "$pid"
}

# any_dockerd succeeds if any dockerd runs, whoever started it, except for the second
# engine of the tests.
any_dockerd() {
	local process
	for process in /proc/[0-9]*; do
		[ "$(cat "$process/comm" 2>/dev/null)" != dockerd ] ||
			tr '\0' '\n' <"$process/cmdline" 2>/dev/null | grep -qxF "$remote_dir/data" || return 0
	done
	return 1
}

# await PID waits until the engine answers. It fails if the process PID ends
# before that, or the time limit is reached.
await() {
	local until=$((SECONDS + patience))
	while [ "$SECONDS" -lt "$until" ]; do
		answers && return 0
		[ -d "/proc/$1" ] || return 1
		sleep 0.2
	done
	return 1
}

# mount_cgroups mounts the control groups if no init system has done so.
mount_cgroups() {
	grep -q ' cgroup2\? ' /proc/mounts || as_root mount -t cgroup2 cgroup2 /sys/fs/cgroup
}

# launch starts dockerd, detached from this script, and waits until it answers.
# The engine chooses its storage driver: overlay2 if the file system supports it.
launch() {
	local command
	printf -v command '%q ' "${quick_engine[@]}" "${flags[@]}" "$@"
	as_root sh -c "setsid $command >>'$log' 2>&1 </dev/null & echo \$! >'$pid_file.starting'"
	local pid
	pid=$(cat "$pid_file.starting")
	as_root rm -f "$pid_file.starting"
	await "$pid" && return
	if [ -d "/proc/$pid" ]; then
		as_root kill "$pid"
		while [ -d "/proc/$pid" ]; do sleep 0.2; done
	fi
	return 1
}

install_engine() {
	need dockerd docker.io iptables
	# Newer releases have the client in a separate package.
	need docker docker-cli
	need iptables iptables
}

start() {
	if answers; then
		say "an engine answers already"
		return
	fi
	case "${DOCKER_HOST:-unix://}" in
	unix://*) ;;
	*) die "no engine answers at DOCKER_HOST=$DOCKER_HOST" ;;
	esac
	[ "$(uname -s)" = Linux ] || die "no Docker Engine answers: start Docker Desktop or its like"
	install_engine
	# A service may run that the new package has just started, or one that has
	# been running for other users.
	if [ -z "${PYGENT_ENGINE_DIR:-}" ] && any_dockerd; then
		await $$ && return
		die "an engine runs, but does not answer this user: add yourself to the group docker, or run as root"
	fi
	mount_cgroups
	as_root sh -c ": >'$log'"
	say "starting dockerd, log in $log"
	if ! launch "${more_flags[@]}"; then
		# Kernels without netfilter cannot give containers a network. The tests
		# do not need one.
		say "dockerd did not start; trying without a network bridge"
		if ! launch --bridge=none --iptables=false "${more_flags[@]}"; then
			as_root tail -n 30 "$log" >&2
			die "dockerd did not answer within $patience seconds; its log is $log"
		fi
	fi
	say "dockerd answers, process $(ours)"
}

stop() {
	local pid
	pid=$(ours) || return 0
	as_root kill "$pid"
	local until=$((SECONDS + patience))
	while [ -d "/proc/$pid" ]; do
		[ "$SECONDS" -lt "$until" ] || die "dockerd, process $pid, does not end"
		sleep 0.2
	done
	say "dockerd has ended"
}

case "${1:-start}" in
start) start ;;
stop) stop ;;
status) answers ;;
*) die "usage: engine.sh [start|stop|status]" ;;
esac
