#!/usr/bin/env bash
# Installs aimock, a third-party fake model server for the tests in e2e, into
# .build/aimock. The version is pinned in e2e/aimock.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

npm_install aimock e2e/aimock
