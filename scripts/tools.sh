#!/usr/bin/env bash
# Installs what the tests need on the host besides Go: a C compiler for the race
# detector, git, python3 for a test that reads history files, node with npm for
# the model server of another project, and the toolchains that have to work in
# confined commands.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

command -v go >/dev/null || die "Go is missing: see https://go.dev/doc/install"
if ! command -v "$(go env CC)" >/dev/null; then
	apt_install gcc libc6-dev
fi

# The tests run as an ordinary user too, who has no access to the home of root.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
need git git ca-certificates
need python3 python3
python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv
need script bsdutils
need ps procps
need node nodejs
need npm npm
need gcc gcc libc6-dev
need cargo cargo
need javac default-jdk-headless
need mvn maven
need tmux tmux
