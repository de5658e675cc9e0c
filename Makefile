# devtrace: `make` builds, `make demo` shows the main job, `make test` proves it. Each folder's part is in its module.mk.
BUILD ?= build
PYTHON := .venv/bin/python

CXX ?= g++
WARNINGS := -Wall -Wextra
CXXFLAGS ?= -O2 -g
ALL_CXXFLAGS := -std=c++20 -fPIC -fvisibility=hidden -fno-omit-frame-pointer $(WARNINGS) $(CXXFLAGS) -I. -MMD -MP

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.PHONY: all demo test test-gpu conformance bench install wheel format format-check clean setup

include scripts/module.mk
# In this order: a rule's prerequisites may name objects of the folders before it.
include report/module.mk
include device_code/module.mk
include tracker/module.mk
include cupti_tracer/module.mk
include interpose/module.mk
include simulate/module.mk
include tests/module.mk

all: $(BUILD)/libdevtrace.so $(BUILD)/devtrace simulate

# Every object lies under $(BUILD)/obj with the path of its source, so that a folder can be renamed without touching rules.
$(BUILD)/obj/%.o: %.cpp | setup-native
	@mkdir -p $(@D)
	$(CXX) $(ALL_CXXFLAGS) $(EXTRA_CXXFLAGS) -c $< -o $@

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# The libraries are found relative to the command: PREFIX may be anywhere, and moved later.
PREFIX ?= /usr/local
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/devtrace/simulate $(DESTDIR)$(PREFIX)/include
	install -m 755 $(BUILD)/devtrace $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(BUILD)/libdevtrace.so $(DESTDIR)$(PREFIX)/lib/devtrace/
	cp -a $(BUILD)/simulate/. $(DESTDIR)$(PREFIX)/lib/devtrace/simulate/
	install -m 644 interpose/devtrace.h $(DESTDIR)$(PREFIX)/include/
	install -d $(DESTDIR)$(PREFIX)/lib/devtrace/python $(DESTDIR)$(PREFIX)/share/devtrace
	cp -a recipes/pytest/. $(DESTDIR)$(PREFIX)/lib/devtrace/python/
	cp -a recipes/nightly recipes/which-version recipes/*.sql recipes/*.yml recipes/*.yaml recipes/*.sbatch $(DESTDIR)$(PREFIX)/share/devtrace/

# build/wheel/devtrace-….whl, for `pip install`.
wheel: all
	BUILD=$(BUILD) PYTHON=$(PYTHON) scripts/make-wheel $(BUILD)/wheel

# Ratios and costs, never a test: machines are noisy.
bench: all $(BENCHMARKS) $(BUILD)/tests/lookups
	@for program in $(BENCHMARKS); do echo "== $$program"; $$program --benchmark_min_time=0.2 || exit 1; done
	@echo "== look-ups"; $(PYTHON) tests/bench/lookups.py --build $(BUILD)
	@echo "== several runtimes"; $(PYTHON) tests/bench/runtimes.py --build $(BUILD)
	@echo "== instructions"; $(PYTHON) tests/bench/instructions.py --build $(BUILD)
	@echo "== rehearsal"; $(PYTHON) tests/bench/rehearsal_bench.py --build $(BUILD)
