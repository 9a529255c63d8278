#!/usr/bin/env bash
# Checks the code and the module with gofmt, go vet, staticcheck and go mod tidy.
# All of them run even if one fails, so that one run shows everything.
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
