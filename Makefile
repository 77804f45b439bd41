# The short front door; CMakePresets.json holds the configurations and tools/ the scripts.
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)

.PHONY: help setup configure build demo test test-long test-asan test-tsan test-cuda bench bench-kernels format lint clean

help:
	@echo "make setup      install what is missing for everything below (Debian packages, peers of the tests)"
	@echo "make build      build build/lily (Release)"
	@echo "make demo       serve the small model and talk with it: a greeting, a document, a tool call, the speed"
	@echo "make test       all tests but the long ones"
	@echo "make test-long  the long tests (installs their Python peers, some 350 MB, into build/)"
	@echo "make test-asan  the tests under the address and undefined behaviour sanitizers"
	@echo "make test-tsan  the tests under the thread sanitizer"
	@echo "make test-cuda  the tests that run on an NVIDIA GPU, on this machine's"
	@echo "make bench      speed of the small model on this machine"
	@echo "make bench-kernels  speed of each CPU kernel beside the machine's limits (some minutes)"
	@echo "make format     format all sources; make lint: check format and run clang-tidy on all of them"
	@echo "make clean      remove the build folders"

setup:
	@tools/setup.sh --tests

configure:
	@tools/setup.sh
	@cmake --preset release > /dev/null

build: configure
	@cmake --build --preset release --parallel $(JOBS)

demo: configure
	@cmake --build --preset release --parallel $(JOBS) --target lily
	@tools/demo.sh build/lily models/lily-mini

test: setup build
	@ctest --preset release --parallel $(JOBS)

test-long:
	@tools/setup.sh --long-tests
	@$(MAKE) --no-print-directory build
	@ctest --preset long

test-asan: setup
	@cmake --preset asan > /dev/null
	@cmake --build --preset asan --parallel $(JOBS)
	@ctest --preset asan --parallel $(JOBS)

test-tsan: setup
	@cmake --preset tsan > /dev/null
	@cmake --build --preset tsan --parallel $(JOBS)
	@ctest --preset tsan --parallel $(JOBS)

test-cuda: setup build
	@ctest --preset release -L cuda

bench: build
	@build/lily bench --model models/lily-mini --prompt 512,4096 --decode 64

bench-kernels: setup build
	@build/lily_kernel_benchmarks

format:
	@tools/format.sh --fix

lint: setup build
	@tools/format.sh --check
	@tools/lint.sh

clean:
	@rm -rf build build-debug build-asan build-tsan
