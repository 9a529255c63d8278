#!/usr/bin/env bash
# Checks the code and the module with gofmt, go vet, staticcheck and go mod tidy, that
# THIRD_PARTY_NOTICES.txt has the licences of what is linked, and the workflows.
# It runs all of them even if one fails, so that one run reports everything.
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
go run ./cmd/internal/notices -check || status=1
go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 .github/workflows/*.yml || status=1
# Examples and tests with dependencies of their own are modules of their own.
for module in examples/*/go.mod e2e/*/go.mod bench/*/go.mod; do
	(cd "$(dirname "$module")" && go mod tidy -diff && go vet ./... && go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...) || status=1
done
exit $status
