#!/usr/bin/env bash
# Installs what the tests need on this machine besides Go: a C compiler for the race
# detector; git; python3, which reads our history files; node with npm, for a
# third-party fake model server; other terminals; a browser, for the page of an example; and toolchains
# that confined commands must be able to use.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

command -v go >/dev/null || die "Go is missing: see https://go.dev/doc/install"
if ! command -v "$(go env CC)" >/dev/null; then
	apt_install gcc libc6-dev
fi

# Some tests run as an ordinary user, who cannot use programs in root's home.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
need git git ca-certificates
need python3 python3
python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv
need pip3 python3-pip
need script bsdutils
need ps procps
need node nodejs
need npm npm
need gcc gcc libc6-dev
need cargo cargo
need javac default-jdk-headless
need mvn maven
need tmux tmux
need screen screen
/usr/bin/python3 -c 'import pyte' 2>/dev/null || apt_install python3-pyte
need chromedriver chromium chromium-driver
