# All of this needs make and Go, which ./make installs, and on Debian apt: what else
# a target lacks it installs, and says so.

SHELL := /bin/bash
BUILD := build
TOOLS := $(BUILD)/tools
DEMO := cmd/bmcstated/demo
PROGRAMS := bmcstated bmcstatectl bmcstate-sim

export DESTDIR PREFIX BIN

# What bmcstated --version prints.
RELEASE := -X main.release=$(shell git describe --always --dirty 2>/dev/null || echo devel)

# Programs that go on a BMC, and how large each may be there.
# 4.5 MB, as ls -h counts.
TARGETS := bmcstated bmcstatectl
LIMIT := 4718592

# The programs speak to unix sockets only. Without godbus's transports over TCP
# the resolver of package net is not linked, which is 230 KB.
BUILDTAGS := godbus_no_tcp

# Build tags of code that a plain build leaves out.
TAGS := inject,bed1,bed4

GOLANGCI := $(TOOLS)/golangci-lint
GOLANGCI_VERSION := 2.15.0

.PHONY: all demo run build arm install uninstall test race test-systemd test-gpio test-bmc lint size fuzz-smoke bench deps clean

all: build

## build: the programs for this machine, in build/
build:
	go build -tags=$(BUILDTAGS) -trimpath -ldflags="$(RELEASE)" -o $(BUILD)/ $(PROGRAMS:%=./cmd/%)

## arm: static programs for a BMC (ARMv7), in build/arm/
# A program that inlines only what is no larger than the call is 8 % smaller, one
# with Go's older garbage collector 0.5 %, and one with segments rounded to the
# pages of an ARMv7 kernel (-R) another 2 %. That counts for more on a BMC's flash
# than the calls that it costs. A toolchain without these experiments inlines
# nothing (-l), which is 1 % larger. Two optimisations of Go that repeat code are
# off, another 0.6 %: slices of varying size that may be on the stack or the heap
# (variablemakethreshold), and deferred calls written out at each return
# (noopendefer). What a program does is the same.
EXPERIMENT := $(shell GOEXPERIMENT=newinliner,nogreenteagc go env GOEXPERIMENT 2>/dev/null)
COMPILE := $(if $(findstring newinliner,$(EXPERIMENT)),-d=inlbudgetslack=-74,-l) -d=variablemakethreshold=0,noopendefer=1
arm:
	mkdir -p $(BUILD)/arm
	CGO_ENABLED=0 GOOS=linux GOARCH=arm GOARM=7 GOEXPERIMENT=$(EXPERIMENT) go build -tags=$(BUILDTAGS) -trimpath -gcflags='all=$(COMPILE)' -ldflags='-s -w -R 0x1000 $(RELEASE)' -o $(BUILD)/arm/ $(TARGETS:%=./cmd/%)

## install: programs, unit, targets, bus policy and tmpfiles below DESTDIR (of an
## image), under PREFIX (/usr); BIN says where the programs are (build, build/arm)
install:
	@cmd/bmcstated/dist/install.sh install

## uninstall: takes away what install has put there
uninstall:
	@cmd/bmcstated/dist/install.sh uninstall

## demo: drive a virtual chassis with busctl on a private bus; checks every answer
demo: deps build
	@PROGRAMS=$(BUILD) $(DEMO)/demo.sh

## run: the same set-up, until Ctrl-C
run: deps build
	@PROGRAMS=$(BUILD) $(DEMO)/run.sh

# Packages with tests that need no race detector and are slow under it. The
# daemons of the crash tests wait more than they work: eight at a time.
PLAIN := ./state/engine ./cmd/bmcstated/crash ./cmd/bmcstate-sim

## test: vet, and every test on a real bus, under the race detector where that
## shows something
test: deps
	@$(DEMO)/deps.sh gcc=gcc cc=libc6-dev setpriv=util-linux
	go vet ./...
	@set -o pipefail; export CI=$${CI:-true}; { go test -race -timeout 30m -json ./...; \
		a=$$?; go test -timeout 30m -parallel 8 -json $(PLAIN); b=$$?; exit $$((a | b)); } | go run ./.ci/summary.go dbus/scenarios/COVERAGE.md

race: test

## test-systemd: the daemon under a real systemd as PID 1 (bed 4); needs root, and
## caches what it builds and fetches in build/beds
test-systemd:
	@systemd/beds/bed4.sh

## test-gpio: bed 1, the daemon on gpio-sim's lines under Debian's kernel in QEMU
test-gpio:
	@gpio/beds/bed1.sh

## test-bmc: bed 5, the ARMv7 programs on an emulated AST2600, its lines moved from outside
test-bmc:
	@gpio/beds/bed5.sh

## lint: golangci-lint, the rule of the journal's tokens, and that the rules bite
lint: $(GOLANGCI)-$(GOLANGCI_VERSION)
	$< run --allow-parallel-runners --build-tags=$(TAGS) ./...
	$< run --allow-parallel-runners --build-tags=bed5 ./gpio/beds/...
	go run ./.ci/durable.go
	.ci/lint-bites $<

# Not in go.mod: its hundreds of dependencies are none of ours.
$(GOLANGCI)-$(GOLANGCI_VERSION):
	@echo "installing golangci-lint $(GOLANGCI_VERSION): this takes some minutes, once"
	GOBIN=$(abspath $(TOOLS)) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(GOLANGCI_VERSION)
	mv $(GOLANGCI) $@

## size: ARMv7 sizes and the daemon's resident memory; fails above the limit
size: deps build arm
	@PROGRAMS=$(BUILD) $(DEMO)/size.sh $(LIMIT) $(TARGETS:%=$(BUILD)/arm/%)

## fuzz-smoke: every fuzz target for a few seconds
fuzz-smoke:
	@for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime 5s $$package || exit 1; \
		done; \
	done

## bench: every benchmark
bench:
	go test -run '^$$' -bench . -benchmem ./...

deps:
	@$(DEMO)/deps.sh dbus-daemon=dbus-daemon busctl=systemd

clean:
	rm -rf $(BUILD)
