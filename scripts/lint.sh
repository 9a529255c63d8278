#!/usr/bin/env bash
# Checks the form of the code and of the module: gofmt, go vet, staticcheck, go
# mod tidy. All of them run, so that one run tells everything.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. scripts/lib.sh

status=0
unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
	say "gofmt would change:"$'\n'"$unformatted"
	status=1
fi
go vet ./... || status=1
go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./... || status=1
go mod tidy -diff || status=1
exit $status
