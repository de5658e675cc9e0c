# devtrace: `make help` lists what can be asked for. Which folders there are, and what each may include: folders.mk.
BUILD ?= build
include scripts/make/processor.mk
include scripts/make/variants.mk
PYTHON := .venv/bin/python

CXX ?= g++
WARNINGS := -Wall -Wextra
# Lines and functions, but no types and variables, which would make objects five times as large: CXXFLAGS="-O0 -g" to debug.
CXXFLAGS ?= -O2 -g1
ALL_CXXFLAGS := -std=c++20 -fPIC -fvisibility=hidden -fno-omit-frame-pointer $(WARNINGS) $(CXXFLAGS) $(VARIANT_CXXFLAGS) $(CROSS_CXXFLAGS) -I. -MMD -MP
# The CUDA headers of the PyTorch wheels (or a toolkit's): a link that scripts/setup makes.
CUDA_INCLUDE := .cache/cuda/include

# Every core, unless a number of jobs was asked for, or by the make that calls this one.
ifeq ($(MAKELEVEL)$(filter -j% --jobs% --jobserver%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif
# V=1 shows the commands.
$(V).SILENT:

# scripts/make/progress names each folder once a run.
ifeq ($(MAKELEVEL),0)
$(shell rm -f $(BUILD)/.compiling)
endif

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

include scripts/make/setup.mk
include scripts/make/library.mk
include folders.mk
include scripts/make/flags.mk
include interpose/interpose.mk
include cli/cli.mk
include simulate/module.mk
include fix/overlay/overlay.mk
include tests/module.mk
include tests/fuzz/fuzz.mk
include scripts/make/precompiled.mk
include scripts/make/tools.mk

$(BUILD)/includes-checked: $(CODE)

.PHONY: all
all: $(BUILD)/includes-checked $(BUILD)/libdevtrace.so $(BUILD)/devtrace simulate fix ## build libdevtrace.so, the command and the simulated devices

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
