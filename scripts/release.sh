#!/usr/bin/env bash
# Builds releases with goreleaser, whose configuration is .goreleaser.yaml, into
# .build/dist.
#
#   release.sh quick      checks the configuration, builds a snapshot for linux and amd64,
#                         and checks what that has
#   release.sh snapshot   builds and checks it for all systems, which takes four times as
#                         long; with docker's buildx also the images
#   release.sh publish    publishes the release of the tag that is checked out;
#                         .github/workflows/release.yml calls it
#   release.sh prepare    makes the completions and man pages; goreleaser calls it
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

dist=.build/dist
extras=.build/release
# Newer versions need modules that not all proxies of Go modules have.
goreleaser=(go run github.com/goreleaser/goreleaser/v2@v2.16.0)

prepare() {
	rm -rf "$extras"
	mkdir -p "$extras/completions" "$extras/man" "$extras/bin"
	go build -o "$extras/bin" ./cmd/pygent
	"$extras/bin/pygent" completion bash >"$extras/completions/pygent.bash"
	"$extras/bin/pygent" completion zsh >"$extras/completions/_pygent"
	"$extras/bin/pygent" completion fish >"$extras/completions/pygent.fish"
	go run ./cmd/internal/man | gzip -9n >"$extras/man/pygent.1.gz"
	echo '.so man1/pygent.1' | gzip -9n >"$extras/man/pygent-ui.1.gz"
}

# notes VERSION writes what CHANGELOG.md says of a version.
notes() {
	awk -v version="## [$1]" '
		index($0, version) == 1 { found = 1; next }
		/^## / || /^\[.*\]: / { if (found) exit }
		found' CHANGELOG.md | awk 'NF { text = 1 } text' >"$work/notes"
	[ -s "$work/notes" ] || die "CHANGELOG.md has no section $1"
}

# build CONFIG FLAG... builds a snapshot. goreleaser asks for the address of a remote.
build() {
	if ! git ls-remote --get-url >/dev/null 2>&1; then
		export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/x/pygent
	fi
	"${goreleaser[@]}" check .goreleaser.yaml
	"${goreleaser[@]}" release --snapshot --clean --config "$1" "${@:2}"
}

# has TEXT COMMAND... fails unless the output of a command contains a text.
has() {
	local got
	got=$("${@:2}" 2>&1 </dev/null) && [[ $got == *"$1"* ]] || die "${*:2}: no \"$1\" in: $got"
}

# only PATTERN prints the one file of the release that matches.
only() {
	local found
	mapfile -t found < <(compgen -G "$dist/$1")
	[ ${#found[@]} = 1 ] || die "$dist/$1 are ${#found[@]} files"
	echo "${found[0]}"
}

check_archive() {
	mkdir "$work/archive"
	tar -xf "$(only 'pygent_*_linux_amd64.tar.gz')" -C "$work/archive"
	local file
	for file in LICENSE README.md CHANGELOG.md THIRD_PARTY_NOTICES.txt completions/{pygent.bash,_pygent,pygent.fish} man/{pygent,pygent-ui}.1.gz; do
		[ -s "$work/archive/$file" ] || die "the archive has no $file"
	done
	has "commit: $(git rev-parse HEAD)" "$work/archive/pygent" version
	has "-snapshot." "$work/archive/pygent-ui" --version
	has "primes.sh prints the primes below 50: 2 3 5 7" "$work/archive/pygent" demo --no-docker
}

# check_packages installs the deb in a container, and lists the rpm.
check_packages() {
	local deb rpm
	deb=$(only '*_amd64.deb')
	rpm=$(only '*.x86_64.rpm')
	# The container gets the package by standard input, because an engine may be elsewhere.
	docker run --rm -i --network none "$PYGENT_TEST_IMAGE" sh -ec '
		cat >/tmp/pygent.deb
		dpkg -i /tmp/pygent.deb >&2
		pygent version >/tmp/version
		for file in bash-completion/completions/pygent zsh/vendor-completions/_pygent fish/vendor_completions.d/pygent.fish \
			doc/pygent/copyright doc/pygent/THIRD_PARTY_NOTICES.txt; do
			test -s "/usr/share/$file"
		done
		dpkg -L pygent | grep -x /usr/share/man/man1/pygent.1.gz' <"$deb" >&2
	need rpm rpm
	has /usr/share/zsh/site-functions/_pygent rpm -qpl "$rpm"
	has /usr/bin/pygent-ui rpm -qpl "$rpm"
	has "License     : MIT" rpm -qpi "$rpm"
}

# check_image builds the image on that of the tests, without buildx.
check_image() {
	local image=pygent.invalid/release:check
	mkdir -p "$work/image/linux/amd64"
	cp LICENSE THIRD_PARTY_NOTICES.txt "$work/image"
	cp "$work/archive/pygent" "$work/image/linux/amd64"
	DOCKER_BUILDKIT=0 docker build -q --build-arg BASE="$PYGENT_TEST_IMAGE" --build-arg TARGETPLATFORM=linux/amd64 \
		-f Dockerfile -t "$image" "$work/image" >/dev/null 2>"$work/log" || die "$(cat "$work/log")"
	has "system: linux/amd64" docker run --rm --network none "$image" version
	has "primes.sh prints the primes below 50: 2 3 5 7" docker run --rm --network none "$image" demo --no-docker
	docker rmi "$image" >/dev/null
}

check() {
	(cd "$dist" && sha256sum --quiet -c checksums.txt)
	local file
	for file in "$dist"/*.{tar.gz,deb,rpm,cdx.json}; do
		grep -q "  ${file##*/}$" "$dist/checksums.txt" || die "checksums.txt does not have ${file##*/}"
	done
	check_archive
	check_packages
	check_image
	python3 - "$(only 'pygent_*_linux_amd64.cdx.json')" <<-'EOF'
		import json, sys
		bom = json.load(open(sys.argv[1]))
		assert bom["bomFormat"] == "CycloneDX"
		assert "github.com/alecthomas/kong" in {c["name"] for c in bom["components"]}
	EOF
	has "binary \"pygent-ui\"" cat "$dist/homebrew/Casks/pygent.rb"
	if command -v man >/dev/null; then
		MANPAGER=cat LC_ALL=C.UTF-8 man --warnings -l "$extras/man/pygent.1.gz" >"$work/man" 2>"$work/log"
		[ ! -s "$work/log" ] || die "the man page: $(cat "$work/log")"
	fi
}

# check_others runs the programs for other systems under emulators.
check_others() {
	[ -s "$dist/scoop/pygent.json" ] || die "no manifest for scoop"
	need qemu-aarch64-static qemu-user-static
	mkdir "$work/arm64" "$work/windows"
	tar -xf "$(only 'pygent_*_linux_arm64.tar.gz')" -C "$work/arm64"
	has "system: linux/arm64" qemu-aarch64-static "$work/arm64/pygent" version
	python3 -m zipfile -e "$(only 'pygent_*_windows_amd64.zip')" "$work/windows"
	scripts/windows.sh "$work/windows/pygent.exe" version | tee "$work/log"
	has "system: windows/amd64" cat "$work/log"
	only 'pygent_*_darwin_arm64.tar.gz' >/dev/null
	only 'pygent_*_windows_arm64.zip' >/dev/null
}

# A release names its commit.
in_git() { git rev-parse HEAD >/dev/null 2>&1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case "${1:-}" in
prepare) prepare ;;
publish)
	notes "$(git describe --exact-match --tags | sed 's/^v//')"
	"${goreleaser[@]}" release --clean --release-notes "$work/notes"
	;;
quick)
	in_git || {
		say "this is no git repository, so there is no snapshot to build"
		exit
	}
	mkdir -p .build
	sed 's/goos: \[.*/goos: [linux]/; s/goarch: \[.*/goarch: [amd64]/' .goreleaser.yaml >.build/goreleaser.yaml
	build .build/goreleaser.yaml --skip=docker,scoop
	check
	say "$dist has a release for linux and amd64"
	;;
snapshot)
	skip=()
	docker buildx version >/dev/null 2>&1 || skip=(--skip=docker)
	PYGENT_RELEASE_BASE=$PYGENT_TEST_IMAGE build .goreleaser.yaml "${skip[@]}"
	check
	check_others
	say "$dist has a release for all systems"
	;;
*) die "usage: release.sh quick | snapshot | publish | prepare" ;;
esac
