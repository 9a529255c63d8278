#!/usr/bin/env bash
# Installs what the tests of the web page need: Chromium, if possible without what shows
# windows, and axe-core into .build/axe.
# The version of axe-core is pinned in e2e/browser/axe.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

shell=chromium-headless-shell
if apt-cache show "$shell" >/dev/null 2>&1; then
	need "$shell" "$shell"
else
	need chromium chromium
fi
npm_install axe e2e/browser/axe
