# Builds beside the usual one, each in a folder of its own inside $(BUILD):
#   make SANITIZE=address,undefined unit    and SANITIZE=thread: the unit tests under g++'s sanitizers
#   make DEBUG=1                            for a debugger, with the asserts of tracker/base/assert.h
#   make COVERAGE=1 unit                    counts the lines that ran: `make coverage` shows them
comma := ,
VARIANT := $(strip $(if $(SANITIZE),sanitize-$(subst $(comma),-,$(SANITIZE))) $(if $(filter-out 0,$(DEBUG)),debug) $(if $(filter-out 0,$(COVERAGE)),coverage))
ifneq ($(word 2,$(VARIANT)),)
$(error one of SANITIZE, DEBUG and COVERAGE at a time)
endif

# The usual build, from which the unit tests of a variant take the stub libraries: those are what is tested against.
PLAIN_BUILD := $(BUILD)
ifneq ($(VARIANT),)
# Idempotent, as a make that a recipe calls may see either.
PLAIN_BUILD := $(patsubst %/$(VARIANT),%,$(BUILD))
override BUILD := $(PLAIN_BUILD)/$(VARIANT)
endif

ifneq ($(SANITIZE),)
# The first fault ends the program with its stack. Names and lines are enough; -O1 keeps the stacks whole. What g++ warns of
# in the C++ library when sanitizers have changed the code is not there without them.
CXXFLAGS := -O1 -g1
VARIANT_CXXFLAGS := -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -Wno-stringop-overflow -Wno-array-bounds -Wno-tsan -DDEVTRACE_DEBUG
VARIANT_LDFLAGS := -fsanitize=$(SANITIZE)
# No search for leaks: what hooks may still look at is never freed, and half of it is known to memory of mmap's only.
export ASAN_OPTIONS := detect_leaks=0
export UBSAN_OPTIONS := print_stacktrace=1
export TSAN_OPTIONS := suppressions=$(CURDIR)/scripts/sanitizers/thread.supp second_deadlock_stack=1
# As a GoogleTest filter: what runs, less what no sanitizer allows.
empty :=
SKIPPED_TESTS := -$(subst $(empty) ,:,$(shell awk -v of=$(SANITIZE) '/^[A-Z]/ && (NF == 1 || index(of, $$2)) { print $$1 }' scripts/sanitizers/skipped-tests))
else ifeq ($(VARIANT),debug)
CXXFLAGS := -O0 -g
VARIANT_CXXFLAGS := -DDEVTRACE_DEBUG
else ifeq ($(VARIANT),coverage)
# Counters of threads are added up; the paths in the notes are those of the sources.
CXXFLAGS := -O0 -g1
VARIANT_CXXFLAGS := --coverage -fprofile-update=atomic -fprofile-abs-path
VARIANT_LDFLAGS := --coverage
endif
