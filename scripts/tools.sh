#!/usr/bin/env bash
# Installs what the tests need of the host besides Go: a C compiler for the race
# detector, git, python3, which reads our history files, and node with npm for a
# model server that is not ours.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

command -v go >/dev/null || die "Go is missing: see https://go.dev/doc/install"
if ! command -v "$(go env CC)" >/dev/null; then
	apt_install gcc libc6-dev
fi
need git git ca-certificates
need python3 python3
python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv
need script bsdutils
need node nodejs
need npm npm
