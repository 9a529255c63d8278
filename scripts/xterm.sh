#!/usr/bin/env bash
# Installs xterm.js without its window, in which the tests of the terminal see what a
# person would see, into .build/xterm. The version is pinned in
# internal/testkit/termtest/emulator.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

npm_install xterm internal/testkit/termtest/emulator
