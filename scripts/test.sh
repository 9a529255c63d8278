#!/usr/bin/env bash
# Sets up everything and runs all tests with the race detector. It fails if a test
# fails or is skipped. Arguments are passed to go test; the default is ./...
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

scripts/tools.sh
scripts/aimock.sh
scripts/xterm.sh
scripts/chromium.sh
scripts/engine.sh start
scripts/images.sh clients
scripts/remote.sh status || trap 'scripts/remote.sh stop' EXIT
scripts/remote.sh start
eval "$(scripts/remote.sh env)"

failed=0 # one failure leaves the other tests to be seen
if [ $# -eq 0 ]; then
	set -- ./...
	for module in examples/*/go.mod e2e/*/go.mod bench/*/go.mod; do # which ./... leaves out
		(cd "$(dirname "$module")" && PYGENT_TEST_REQUIRE_TOOLS=1 go test -count=1 ./...) || failed=1
	done
fi
export PYGENT_TEST_REQUIRE_DOCKER=1 PYGENT_TEST_REQUIRE_AIMOCK=1 PYGENT_TEST_REQUIRE_TOOLS=1
go test -race -count=1 -timeout 40m -v "$@" 2>&1 | awk -f scripts/test.awk || failed=1
exit $failed
