# Which processor it is built for: `make ARCH=aarch64 …` with Debian's cross compiler, into build/aarch64. scripts/get/arm64
# brings that, the libraries that are linked, and what runs it here (qemu's user mode).
MACHINE := $(shell uname -m)
# Of the command line only: an environment's ARCH may be `amd64`, and means something else.
ifneq ($(origin ARCH),command line)
ARCH := $(MACHINE)
endif
CACHE := .cache
OBJCOPY := objcopy
# In front of a program of the build, to run it here.
EMULATOR :=
ifneq ($(ARCH),$(MACHINE))
ifneq ($(ARCH),aarch64)
$(error ARCH=$(ARCH): there are $(MACHINE) and aarch64)
endif
CROSS := aarch64-linux-gnu-
CXX := $(CROSS)g++
CC := $(CROSS)gcc
AR := $(CROSS)ar
OBJCOPY := $(CROSS)objcopy
CACHE := .cache/aarch64
# Headers without code of their own are this system's; behind those of the C library that is compiled for.
CROSS_CXXFLAGS := -idirafter /usr/include
LDFLAGS += -L$(CACHE)/lib
# Debian's Python and PyTorch of that processor (`scripts/get/arm64 --pytorch`), for qemu; the quick kernels of a rehearsal are linked with it.
TARGET_ROOT := $(CACHE)/root
TARGET_TORCH = $(TARGET_ROOT)/usr/lib/python3/dist-packages/torch
# Static: what is preloaded is for the program that it runs, and not for itself.
EMULATOR := qemu-aarch64-static -L $(if $(wildcard $(TARGET_ROOT)/usr),$(TARGET_ROOT),/usr/aarch64-linux-gnu)
override BUILD := $(patsubst %/aarch64,%,$(BUILD))/aarch64
endif
