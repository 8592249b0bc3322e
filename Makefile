# The commands of the house. `make` alone lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup build demo test check lint race fuzz zones planted faults bench

LINT_VERSION ?= v2.15.0
DEMO_ARGS ?=
BENCH_SIMS ?= 100000
BENCH_SECONDS ?= 30
FUZZ_TIME ?= 20s
FAULT_SCHEDULES ?= 10000
TEST_ARGS ?=

# Whole-system packages take minutes under the race detector and in each zone; the rest is quick.
heavy := /(acceptance|faults|internal/cli|internal/pgembed)$$
quick = $$(go list ./... | grep -vE '$(heavy)')

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what this machine lacks (Postgres 15 or newer)
	@scripts/setup.sh

build: ## build bin/simwarden
	CGO_ENABLED=0 go build -trimpath -o bin/simwarden ./cmd/simwarden

demo: setup build ## set up, build, and watch a fleet being kept in order (DEMO_ARGS="--for 40s")
	./bin/simwarden demo $(DEMO_ARGS)

test: setup ## set up, then all tests as a change must pass them (about 12 minutes at most)
	@if go vet ./... && go test -timeout 12m -p 2 $(TEST_ARGS) ./...; \
	then echo "simwarden: all tests passed"; \
	else echo "simwarden: TESTS FAILED, see the first lines above that start with FAIL, --- FAIL or a file's name"; exit 1; fi

check: test lint race fuzz zones planted ## test, and all that a release must pass: lint, race, fuzz, zones, planted
	@echo "simwarden: all checks passed"

lint: ## golangci-lint, built by go run
	go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION) run

race: setup ## the quick packages under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -timeout 20m -p 2 $(quick)

fuzz: setup ## every fuzz target for FUZZ_TIME
	scripts/fuzz.sh $(FUZZ_TIME)

# The time zone is not part of what go test keeps its results by, hence -count=1 (F66).
zones: setup ## the quick packages under three time zones of the machine
	@for zone in Asia/Shanghai America/St_Johns Pacific/Apia; do \
		echo "TZ=$$zone"; \
		TZ=$$zone go test -count=1 -timeout 12m -p 2 $(quick) || exit 1; \
	done

# The table at the end says in which schedule each was caught; one that is not caught fails this.
planted: setup ## one bug planted for each invariant, which the checker must catch; how soon, as JSON (FAULT_PLANTED=V1,V2)
	go test -tags planted -count=1 -timeout 15m -run TestPlantedBugsAreCaught ./acceptance
	go test -c -tags planted -o bin/faults-planted.test ./faults
	cd faults && ../bin/faults-planted.test -test.timeout 2h -test.run TestPlanted

faults: setup ## FAULT_SCHEDULES seeded schedules of faults on whole nodes, in virtual time
	go test -c -o bin/faults.test ./faults
	cd faults && FAULT_SCHEDULES=$(FAULT_SCHEDULES) ../bin/faults.test -test.timeout 24h -test.run TestSchedules

bench: setup build ## what a poll costs, as JSON (BENCH_SIMS, BENCH_SECONDS)
	./bin/simwarden bench poll --sims $(BENCH_SIMS) --seconds $(BENCH_SECONDS)
