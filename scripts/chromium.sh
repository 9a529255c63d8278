#!/usr/bin/env bash
# Installs what the tests of the web page need: Chromium, and axe-core into .build/axe.
# The version of axe-core is pinned in e2e/browser/axe.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

need chromium chromium
npm_install axe e2e/browser/axe
