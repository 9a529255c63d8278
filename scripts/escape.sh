#!/usr/bin/env bash
# Attacks the runtimes from within: in a container on this machine, in one of a
# remote engine, and in a confined process. It runs all attacks in e2e/escape, the
# random ones for ESCAPE_TIME (default a minute). It fails if one of them
# succeeds or is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

scripts/tools.sh
scripts/engine.sh start
scripts/images.sh
scripts/remote.sh status || trap 'scripts/remote.sh stop' EXIT
scripts/remote.sh start
eval "$(scripts/remote.sh env)"

export PYGENT_TEST_REQUIRE_DOCKER=1 ESCAPE_TIME="${ESCAPE_TIME:-60s}"
go test -count=1 -timeout 20m -v ./e2e/escape "$@" 2>&1 | awk -f scripts/test.awk
