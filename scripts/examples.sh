#!/usr/bin/env bash
# Builds every example, and runs those that need no key: an example with a file
# output.txt must print exactly that.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
unset OPENAI_API_KEY OPENAI_BASE_URL
export PYGENT_IMAGE="${PYGENT_IMAGE:-$PYGENT_TEST_IMAGE}"

built=0
for main in examples/*/main.go; do
	[ -e "$main" ] || continue
	dir=${main%/main.go}
	name=${dir##*/}
	go build -o "$out/$name" "./$dir"
	built=$((built + 1))
	[ -e "$dir/output.txt" ] || continue
	if ! (cd "$dir" && timeout 120 "$out/$name" </dev/null) >"$out/printed" 2>"$out/errors"; then
		cat "$out/printed" "$out/errors" >&2
		die "$dir does not run"
	fi
	diff -u "$dir/output.txt" "$out/printed" || die "$dir prints something else than its output.txt"
	say "$dir prints what it should"
done
say "$built examples built"
