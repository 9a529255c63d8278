# The commands of a developer. Longer ones are in scripts/.

FUZZTIME ?= 30s
BENCH ?= .
BENCHTIME ?= 1s
SOAK ?= 10000
# Tests of other packages in which engines, processes and disks fail.
FAULTS ?= Engine|Crash|Killed|Fault|Disk|Writer
export FUZZTIME

.PHONY: help test quick lint bench soak escape faults examples fuzz cross windows arm64 demo docs picture engine images remote aimock snapshot ci

help: ## show this
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

test: ## install what is missing, then run all tests of which something has changed; none may be skipped
	@scripts/test.sh

# Compiling and linking take as long as the tests after a change of the package pygent, and
# a third less without inlining and without what debuggers read. Links take about a tenth
# less without C, and links and tests together a twentieth less if they collect garbage
# later. Packages without tests, the examples among them, are not compiled. scripts/test.sh
# tests with C, and with the collector as it is.
quick: ## run the short tests that need nothing but Go
	@DOCKER_HOST=unix:///nonexistent CGO_ENABLED=0 GOGC=400 scripts/disk.sh go test -short -vet=off -gcflags='-l -dwarf=false' -ldflags='-s -w' -p $$(($$(nproc 2>/dev/null || echo 2) * 2)) -parallel 12 $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)

lint: ## gofmt, go vet, staticcheck, go mod tidy, licences, workflows
	@scripts/lint.sh

bench: ## print all figures that have goals, then measure the rest: BENCH=regexp BENCHTIME=1s
	go run ./bench/table
	go run ./bench/steps
	go run ./bench/longrun
	go run ./bench/page
	go test -run '^$$' -bench '$(BENCH)' -benchtime '$(BENCHTIME)' -benchmem ./...

soak: ## run SOAK commands with time limits, cancels and kills; nothing may leak
	PYGENT_SOAK=$(SOAK) go test -count=1 -timeout 60m -run TestSoak -v ./bench

escape: ## attack the runtimes from within, with a minute of random attacks
	@scripts/escape.sh

faults: engine images remote ## stop, kill and freeze an engine at each phase of a run
	PYGENT_TEST_REQUIRE_DOCKER=1 PYGENT_TEST_FAULTS=1 go test -count=1 -timeout 30m -parallel 6 ./e2e/faults
	eval "$$(scripts/remote.sh env)" && PYGENT_TEST_REQUIRE_DOCKER=1 go test -count=1 -run '$(FAULTS)' . ./checkpoint ./sessions ./snapshot ./internal/... ./cmd/...

examples: ## run all examples and compare what they print
	go test -count=1 ./examples

fuzz: ## run each fuzz target for FUZZTIME
	@scripts/fuzz.sh

cross: ## vet the code as other systems see it
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...

windows: ## run the tests of Windows under wine
	@scripts/windows.sh

arm64: ## run the tests of the local runtime for arm64 under qemu-user
	@scripts/arm64.sh

demo: ## see a session at once, without a key
	go run ./cmd/pygent demo

docs: ## write the reference and build the documentation's site, into .build/site
	go run ./cmd/internal/docs
	@scripts/docs.sh

picture: ## draw the sessions of the README anew; the tests play them without comparing the pictures, which have times
	go test -count=1 -run TestTheSessionOfTheREADME ./cmd/internal/cli -update
	scripts/chromium.sh
	cd e2e/browser && go test -count=1 -run TestThePageOfTheREADME . -update

engine: ## start a Docker Engine if none answers
	@scripts/engine.sh start

images: engine ## make the images of the tests
	@scripts/images.sh

remote: images ## start a second engine, which sees none of our files
	@scripts/remote.sh start
	@echo 'now type: eval "$$(scripts/remote.sh env)"'

aimock: ## install the model server, the terminal and the browser that tests use
	@scripts/aimock.sh
	@scripts/xterm.sh
	@scripts/chromium.sh

snapshot: engine images ## build a release for all systems into .build/dist, and check it
	@scripts/release.sh snapshot

ci: ## what the continuous integration runs
	@.ci/run
