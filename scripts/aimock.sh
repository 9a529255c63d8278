#!/usr/bin/env bash
# Installs aimock, a model server of another project, for the tests in e2e. It
# puts the version that e2e/aimock pins into .build/aimock.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

home=.build/aimock
pins=$(cat e2e/aimock/package.json e2e/aimock/package-lock.json | sha256sum)
if [ -f "$home/node_modules/@copilotkit/aimock/dist/cli.js" ] && [ "$(cat "$home/pins" 2>/dev/null)" = "$pins" ]; then
	exit 0
fi
rm -rf "$home"
mkdir -p "$home"
cp e2e/aimock/package.json e2e/aimock/package-lock.json "$home"
say "installing aimock"
npm ci --prefix "$home" --no-audit --no-fund --ignore-scripts --loglevel=error >&2
printf '%s\n' "$pins" >"$home/pins"
