# Unit tests (GoogleTest) and whole programs (pytest).

# A program of unit tests: $(call unit_test,NAME,FOLDERS WITH ITS SOURCES,FOLDERS THAT IT LINKS,FLAGS,LIBRARIES).
# What must be linked though nobody calls it: further prerequisites.
define unit_test_program
UNIT_OBJECTS_$(1) := $$(call objects,tests/$(1),$$(foreach d,$(2),$$(wildcard $$d/*.cpp)))
$$(UNIT_OBJECTS_$(1)): EXTRA_CXXFLAGS = $(4)
UNIT_TESTS += $$(BUILD)/tests/$(1)
$$(BUILD)/tests/$(1): $$(UNIT_OBJECTS_$(1)) $$(call libraries,$(3)) | $$(BUILD)/includes-checked
	mkdir -p $$(@D)
	$$(CXX) $$(LDFLAGS) $$(VARIANT_LDFLAGS) $$(filter %.o,$$^) $$(filter -lgtest_main,$(5)) $$(filter %.a,$$^) $$(filter %.so.1 %.so.13,$$^) -lgmock -lgtest $(5) -pthread -ldl -o $$@
endef
unit_test = $(eval $(call unit_test_program,$(1),$(2),$(3),$(4),$(5)))

$(call unit_test,report,tests/unit/report tests/unit/cli,report/check cli,-O1,-lgtest_main)
$(call unit_test,attach,tests/unit/attach tests/unit/attach/process tests/unit/process,attach,-O1,-lgtest_main)
$(call unit_test,fix,tests/unit/fix tests/unit/fix/record,fix/trials,-O1,-lgtest_main)
TRACKER_TESTS := $(filter-out %/stacks %/python,$(wildcard tests/unit/tracker/*))
$(call unit_test,tracker,tests/unit/tracker $(TRACKER_TESTS),tracker,-O1,$$(LINK_stacks) -lgtest_main)
# -rdynamic: tests look up names of their own functions.
$(call unit_test,stacks,tests/unit/tracker/stacks tests/unit/tracker/python,tracker/stacks tracker/evidence,-isystem $(CACHE)/libunwind/include,-rdynamic $$(LINK_stacks) -lgtest_main)
BINARY_TEST_LINK = -Wl,--wrap=dl_iterate_phdr $(LINK_device)
$(call unit_test,binary,tests/unit/binary $(wildcard tests/unit/binary/*),binary/device binary/dwarf,,$$(BINARY_TEST_LINK) -lgtest_main)
$(UNIT_OBJECTS_stacks) $(UNIT_OBJECTS_tracker): | setup-libunwind

# The tests read real machine code: their PTX, compiled by the assembler that comes with Triton.
DEVICE_DATA := $(BUILD)/tests/device-data
DEVICE_CUBINS := $(patsubst %,$(DEVICE_DATA)/sm_%.cubin,75 80 90 100)
PTXAS = $(firstword $(wildcard $(CUDA_WHEEL_LIBRARIES)/../triton/backends/nvidia/bin/$(1)) $(wildcard $(CUDA_WHEEL_LIBRARIES)/../triton/backends/nvidia/bin/ptxas))
$(DEVICE_DATA)/sm_%.cubin: tests/unit/binary/device/kernels.ptx | setup-python
	mkdir -p $(@D)
	cp $< $(@D)
	$(call PTXAS,$(if $(filter 100,$*),ptxas-blackwell,ptxas)) -arch sm_$* $< -o $@
$(BUILD)/tests/binary: $(DEVICE_CUBINS)

# The hooks with a recorder in the tracker's place, in front of the stubs: what they report.
IN_SIMULATE := $(addprefix $(PLAIN_BUILD)/simulate/,libcudart.so.13 libcuda.so.1)
STUBS_RPATH := -Wl,-rpath,'$$ORIGIN/../$(if $(VARIANT),../)simulate'
ifneq ($(VARIANT),)
# The usual build's stub libraries do for every variant. A file that is not written anew makes nothing else anew.
.PHONY: stubs
stubs:
	$(MAKE) --no-print-directory BUILD=$(PLAIN_BUILD) SANITIZE= DEBUG= COVERAGE= $(IN_SIMULATE)
$(IN_SIMULATE): stubs ;
endif
HOOK_TEST_FLAGS := -isystem $(CUDA_INCLUDE) -D__CUDA_API_VERSION_INTERNAL -DDEVTRACE_TEST_LIBRARIES='"$(abspath $(BUILD))/tests"'
# -rdynamic: the hooks are looked up among what the program exports.
HOOK_TEST_LINK = -rdynamic -Wl,--wrap=dl_iterate_phdr $(LINK_device) -Wl,--version-script=$(EXPORTS) $(STUBS_RPATH)
$(call unit_test,interpose,tests/unit/interpose,interpose/cuda,$$(HOOK_TEST_FLAGS),$$(HOOK_TEST_LINK))
$(BUILD)/tests/interpose: $(BUILD)/tests/imports_lazy.so $(BUILD)/tests/imports_now.so
# Opened by the tests; bound to the stub runtime, each in its way.
$(BUILD)/tests/imports_lazy.so $(BUILD)/tests/imports_now.so: $(BUILD)/tests/imports_%.so: tests/unit/interpose/imports/imports.c $(IN_SIMULATE)
	mkdir -p $(@D)
	$(CC) -shared -fPIC -O1 $< -o $@ -Wl,-z,relro,-z,$* $(filter %libcudart.so.13,$^) $(STUBS_RPATH)
$(BUILD)/tests/interpose: $(OBJECTS_interpose/cuda_hooks) $(OBJECTS_interpose/linking) $(IN_SIMULATE) $(EXPORTS)

# The callbacks with the same recorder; CUPTI's part is played by the test, its names are the real library's.
$(call unit_test,cupti-tracer,tests/unit/cupti_tracer,interpose/cuda,\
  -isystem $$(CUDA_INCLUDE) -DDEVTRACE_REAL_CUPTI='"$$(abspath $$(REAL_CUPTI))"',$$(HOOK_TEST_LINK) $$(LINK_stacks))
$(BUILD)/tests/cupti-tracer: $(BUILD)/obj/tests/unit/interpose/recorder.o $(CALLBACK_OBJECTS) $(IN_SIMULATE) $(EXPORTS)
$(UNIT_OBJECTS_interpose) $(UNIT_OBJECTS_cupti-tracer): | setup-python

# The device model's own tests, linked with the stub libraries.
$(call unit_test,simulate,tests/unit/simulate,,-isystem $$(CUDA_INCLUDE) -isystem $$(CUDA_WHEEL_LIBRARIES)/nccl/include,$$(STUBS_RPATH))
$(BUILD)/tests/simulate: $(addprefix $(BUILD)/obj/simulate/,curand/engines.o model/kernels/signature.o model/memory/host_memory.o nccl/exchange.o nccl/reduction.o nccl/region.o settings/option_parsing.o settings/wanted_values.o values/large.o values/not_computed.o values/older_pytorch.o values/uncomputed.o) $(IN_SIMULATE)
$(UNIT_OBJECTS_simulate): | setup-python

$(call unit_test,kernels,tests/unit/simulate/kernels,simulate/kernels,-O1,-lgtest_main)

# What the tests load into interpreters with ctypes: the reader of stacks alone. The second has rows of layouts that a test
# can make wrong.
STACKS_LIBRARIES := $(call libraries,tracker/stacks tracker/evidence)
STACKS_SHARED := -shared -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL -Wl,-z,defs
STACK_PROBES := $(BUILD)/tests/stack_probe.so $(BUILD)/tests/stack_probe_wrong_layout.so
$(BUILD)/tests/stack_probe.so: $(BUILD)/obj/tests/e2e/process/stack_probe.o
$(BUILD)/tests/stack_probe_wrong_layout.so: $(BUILD)/obj/tests/e2e/process/stack_probe.o $(BUILD)/obj/tests/e2e/process/stack_probe_wrong_layout.o
$(BUILD)/tests/stack_probe_wrong_layout.so: STACKS_SHARED += -Wl,--wrap=_ZN8devtrace6python9layout_ofEib
$(STACK_PROBES): $(STACKS_LIBRARIES)
	mkdir -p $(@D)
	$(CXX) $(STACKS_SHARED) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LINK_stacks) -ldl
E2E_PROGRAMS += $(STACK_PROBES)

include tests/programs/module.mk

# Ratios and costs: see `make bench`.
BENCHMARKS := $(patsubst tests/bench/%_bench.cpp,$(BUILD)/bench/%,$(wildcard tests/bench/*_bench.cpp))
$(BENCHMARKS): $(BUILD)/bench/%: $(BUILD)/obj/tests/bench/%_bench.o $(call libraries,tracker)
	mkdir -p $(@D)
	$(CXX) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) -lbenchmark $(LINK_stacks) -pthread -ldl -o $@

.PHONY: ready pythons test test-all unit unit-test sanitizers e2e test-gpu conformance matrix newest demo demo-cpp nvcc pictures rehearsal-values rehearsal-overloads cases-page corpus transparent suites wheels conformance-distributed soak attach-soak hardware-bundle bench large published
PYTEST := DEVTRACE_BUILD=$(BUILD) $(PYTHON) -m pytest -c tests/pytest.ini
# Tests of hardware that are worth running on simulated devices, too; DEVTRACE_TEST_GPU=simulated make test-gpu runs all of them there.
SIMULATED_GPU_TESTS := $(patsubst %,tests/gpu/test_gpu_%.py,memory_elsewhere static_runtime)
TESTS ?= tests/e2e tests/conformance tests/versions tests/rehearsal tests/soak tests/suites tests/wheels tests/hardware $(SIMULATED_GPU_TESTS)

# What CI builds at once: while PyTorch is downloaded there is a core left.
ready: all $(UNIT_TESTS) $(E2E_PROGRAMS) nvcc ## build all that `make test` starts

# pytest comes last, so that its summary closes the output.
test: ready ## every test that needs no GPU
	$(MAKE) --no-print-directory unit
	$(MAKE) --no-print-directory e2e

# Every program runs, even after one has failed: a run tells all that is wrong. Those that use streams run once more with streams behind the host.
UNIT_CHOSEN := $(if $(ONLY),$(filter $(ONLY:%=$(BUILD)/tests/%),$(UNIT_TESTS)),$(UNIT_TESTS))
UNIT_RUNS := $(foreach program,$(UNIT_CHOSEN),"$(strip $(EMULATOR) $(program))") \
  $(foreach program,$(filter %/simulate %/cupti-tracer,$(UNIT_CHOSEN)),"env DEVTRACE_SIM_ASYNC=1 $(strip $(EMULATOR) $(program))")
unit: $(UNIT_CHOSEN) ## unit tests; FILTER='Ownership*' some of them; ONLY=report builds and runs one program of them
	failed=; for program in $(UNIT_RUNS); do \
	  echo "== $$program"; $$program --gtest_brief=1 $(if $(FILTER)$(SKIPPED_TESTS),--gtest_filter='$(FILTER)$(SKIPPED_TESTS)') || failed="$$failed $$program"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }
unit-test: unit

# Each in a build of its own; all run, even after one has failed.
SANITIZERS ?= thread address,undefined
sanitizers: ## the unit tests under sanitizers; SANITIZERS=thread one of them
	failed=; for each in $(SANITIZERS); do $(MAKE) --no-print-directory SANITIZE=$$each unit || failed="$$failed $$each"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# What cannot be installed is skipped, with the reason.
nvcc: | setup-python
	scripts/get/nvcc || echo "setup: no nvcc; the tests of its programs are skipped"

# A mirror may lack one: then its tests are skipped, with the reason.
PYTHONS ?= 3.14 3.15 3.13t 3.14t 3.15t
pythons: | setup-packages
	scripts/get/pythons $(PYTHONS) || echo "pythons: not all could be had; the tests of the others are skipped"

# A fifth of its time a test waits for what it has started: one worker more than processors.
WORKERS ?= $(shell expr $$(nproc) + 1)
# Tests that share a program that ran once stay with one worker; the order is of tests/helpers/schedule.py.
e2e: all $(E2E_PROGRAMS) nvcc ## whole programs; K=fork some of them, TESTS=tests/e2e/report a folder or a file; SLOW=1 also those for the nightly run; COSTS=1 writes down what each takes
	DEVTRACE_TEST_GPU=simulated $(PYTEST) -n $(WORKERS) --dist loadgroup --no-loadscope-reorder $(if $(SLOW),--slow) $(if $(COSTS),--write-costs) $(if $(K),-k '$(K)') $(TESTS)

# What a fresh machine skips: other Pythons (Debian's later ones, free-threaded ones from their source), one of them with PyTorch, CUDA 12.
test-all: ## `make test` with every Python and CUDA 12, which it fetches: some gigabytes, and an hour to build
	$(MAKE) --no-print-directory pythons
	$(MAKE) --no-print-directory simulate-cuda12
	$(MAKE) --no-print-directory matrix PAIRS=3.13t-2.11.0
	$(MAKE) --no-print-directory test

# Skipped with the reason where there is no GPU. Not in parallel: there are figures among them.
test-gpu: all ## the tests of hardware
	$(PYTEST) tests/gpu

# Recall and precision on PyTorch's whole operator database; minutes, so `make test` runs a sample of it.
conformance: all ## findings on PyTorch's whole operator database
	$(PYTHON) tests/conformance/run.py --build $(BUILD) --json $(BUILD)/conformance.json --markdown docs/evidence/conformance.md --silent docs/evidence/silent-operators.md

# The command as this machine starts one, for what starts it by its path.
EMULATED := $(BUILD)/emulated/devtrace
$(EMULATED): scripts/make/processor.mk
	mkdir -p $(@D)
	printf '#!/bin/sh\nexec %s "$$@"\n' '$(subst -L .,-L $(CURDIR)/.,$(EMULATOR)) $(abspath $(BUILD)/devtrace)' > $@
	chmod +x $@
ifneq ($(EMULATOR),)
# An emulated try takes minutes.
DEMO := DEMO_FIX='--timeout 1800 --budget 7200' DEMO_DEVTRACE=$(EMULATED) DEMO_PYTHON=$(abspath $(TARGET_ROOT))/usr/bin/python
demo: $(EMULATED)
endif

demo: all ## the main job on a real program, with two simulated GPUs
	$(DEMO) scripts/demo $(BUILD)

demo-cpp: all ## the same on a C++ program, built by nvcc from PyPI's wheels
	scripts/demo-cpp $(BUILD)

# The pictures of the report in docs/guide/, made anew.
pictures: demo
	$(PYTHON) scripts/pictures $(BUILD)/demo/broken/devtrace-*.jsonl docs/guide
	$(PYTHON) scripts/pictures notebook docs/guide

# Values of a rehearsal on PyTorch's whole operator database, and the page about them; minutes, so `make test` runs a sample of it.
rehearsal-values: all ## values of a rehearsal on the same
	$(PYTHON) tests/rehearsal/run.py --build $(BUILD) --json $(BUILD)/rehearsal-values.json --markdown docs/guide/rehearsal.md

# Then the files of test/distributed, which PyTorch's wheel lacks: PYTORCH_SOURCE=folder, else fetched; hours, SAMPLE=4 every fourth test. Another
# PyTorch than .venv's: its wheel in a folder that PYTHONPATH names.
SAMPLE ?= 1
conformance-distributed: all ## PyTorch's own tests of torch.distributed in a rehearsal
	$(PYTHON) tests/conformance/distributed.py --build $(BUILD) --json $(BUILD)/distributed.json --markdown docs/evidence/distributed.md
	$(PYTHON) tests/conformance/distributed_files.py --build $(BUILD) $(PYTORCH_SOURCE:%=--source %) --sample $(SAMPLE) --json $(BUILD)/distributed-files.json --markdown docs/evidence/distributed-files.md

# Other projects' tests, from their sdists on PyPI; half an hour.
wheels: all ## wheels of others in a rehearsal; ONLY='jax trl' some of them
	$(PYTHON) tests/wheels/run.py $(ONLY) --build $(BUILD) --markdown docs/evidence/wheels.md

large: all ## whole models larger than the machine, by their shapes; a minute or two
	$(PYTEST) tests/large -s

# Peaks of memory beside those that others have published, and the page about them.
published: all ## peaks of a rehearsal beside published ones
	$(PYTHON) tests/workloads/placement/published_page.py --build $(BUILD) --markdown docs/evidence/placement.md

suites: all ## other projects' test suites in a rehearsal
	$(PYTHON) tests/suites/run.py --build $(BUILD) --json $(BUILD)/suites.json --markdown docs/evidence/suites.md

# The same over every overload that has a CUDA kernel, and every type; minutes.
rehearsal-overloads: all ## values of a rehearsal by overload and type
	$(PYTHON) tests/rehearsal/overloads/run.py --build $(BUILD) --json $(BUILD)/rehearsal-overloads.json --markdown docs/evidence/rehearsal-values.md

# Its line there, and build/newest-values.md: what a new operator's values are.
newest: all ## the newest PyTorch on PyPI, as the nightly run does
	$(PYTHON) -m pip install --quiet --disable-pip-version-check 'pip>=24.1'
	$(PYTHON) tests/versions/run.py --build $(BUILD) 3.11-newest
	.cache/matrix/3.11-newest/bin/python tests/rehearsal/overloads/run.py --build $(BUILD) --json $(BUILD)/newest-values.json --markdown $(BUILD)/newest-values.md

matrix: all simulate-cuda12 ## which Python, which PyTorch: docs/reference/versions.md; environments of some gigabytes each, PAIRS='3.14-2.15.0 …' some
	$(PYTHON) -m pip install --quiet --disable-pip-version-check 'pip>=24.1' # an older one takes wheels of 3.13 for 3.13t
	[ ! -e .cache/aarch64/root ] || $(MAKE) --no-print-directory ARCH=aarch64 all $(BUILD)/aarch64/emulated/devtrace
	$(PYTHON) tests/versions/run.py --build $(BUILD) $(PAIRS)

# What the verdict says of the five systems and the cases.
cases-page: all ## the verdicts on all cases
	DEVTRACE_BUILD=$(BUILD) $(PYTHON) tests/workloads/cases_page.py

# `devtrace fix` on every case of the corpus, and the page about it; an hour.
corpus: all ## verdicts and verified fixes on the whole corpus
	DEVTRACE_BUILD=$(BUILD) $(PYTHON) tests/workloads/corpus_score.py

# 292 commands without and with devtrace: nothing may differ; half an hour. LISTS=tests/transparent/commands.txt some of them, ONLY=perl those that say so.
# Then what every Python here and NumPy bring for tests of their own, test by test; hours. ROWS='3.11 numpy' some of these. The page is written when all ran.
transparent: all ## commands of all kinds, then Python's own tests and NumPy's, without and with devtrace
	failed=; \
	$(if $(ONLY)$(LISTS)$(if $(ROWS),,all),$(PYTHON) tests/transparent/compare.py --build $(BUILD) --only '$(ONLY)' $(LISTS) || failed=1;) \
	$(if $(ROWS)$(if $(ONLY)$(LISTS),,all),$(PYTHON) tests/transparent/own_tests.py --build $(BUILD) --json $(BUILD)/transparent.json \
	  $(if $(ROWS),--rows $(ROWS),--markdown docs/evidence/transparent.md) || failed=1;) \
	[ -z "$$failed" ]

# Without and with devtrace at the same time; the samples go to build/soak-*.csv. First all that a program does with devtrace preloaded, then two ranks
# that are attached to and detached from each 20 seconds.
HOURS ?= 1
SOAK := $(PYTHON) tests/soak/soak.py --build $(BUILD) --hours $(HOURS)
soak: all ## memory, descriptors, threads and mappings of two long runs, preloaded and attached to; HOURS=0.1
	failed=; $(SOAK) --samples $(BUILD)/soak-mix.csv || failed=1; $(SOAK) --attach 20 --samples $(BUILD)/soak-ranks.csv || failed=1; [ -z "$$failed" ]

# The tests of attaching under load, more often than there is time for in a test.
TIMES ?= 200
attach-soak: all ## attach and detach TIMES=200 times, programs under load
	DEVTRACE_ATTACH_TIMES=$(TIMES) $(PYTEST) -o timeout=7200 -k 'under_load or each_python or each_millisecond' tests/e2e/attach

# build/hardware: copied to a machine with a GPU, `./run` there, results/ brought back.
hardware-bundle: all ## a folder that tests hardware without network and compiler
	BUILD=$(BUILD) PYTHON=$(PYTHON) scripts/hardware-bundle $(BUILD)/hardware

# Ratios and costs, never a test: machines are noisy.
bench: all $(BENCHMARKS) $(BUILD)/tests/lookups ## what hooks and rehearsals cost
	for program in $(BENCHMARKS); do echo "== $$program"; $$program --benchmark_min_time=0.2 || exit 1; done
	echo "== allocations in C++"; $(PYTHON) tests/bench/allocations.py --build $(BUILD)
	echo "== streams and events in C++"; $(PYTHON) tests/bench/streams.py --build $(BUILD)
	echo "== look-ups"; $(PYTHON) tests/bench/lookups.py --build $(BUILD)
	echo "== several runtimes"; $(PYTHON) tests/bench/runtimes.py --build $(BUILD)
	echo "== instructions"; $(PYTHON) tests/bench/instructions.py --build $(BUILD)
	echo "== rehearsal"; $(PYTHON) tests/bench/rehearsal_bench.py --build $(BUILD)
	echo "== kernels that are computed"; $(PYTHON) tests/bench/kernels_bench.py --build $(BUILD)
	echo "== collectives between processes"; $(PYTHON) tests/bench/collectives_bench.py --build $(BUILD)
	echo "== attached and detached"; $(PYTHON) tests/bench/attach_bench.py --build $(BUILD)
	echo "== devtrace.start() beside the preload"; $(PYTHON) tests/bench/session_bench.py --build $(BUILD)
	echo "== operators in a rehearsal"; $(PYTHON) tests/bench/operators_bench.py --build $(BUILD)
	echo "== ordinary programs in a rehearsal"; $(PYTHON) tests/bench/ordinary_bench.py --build $(BUILD)
	echo "== exceptions"; $(PYTHON) tests/bench/exceptions_bench.py --build $(BUILD)

# A program of C++ among those that are compared.
PEER_LAUNCHES := $(BUILD)/obj/tests/bench/peers/launches.o
$(PEER_LAUNCHES): EXTRA_CXXFLAGS = -isystem $(CUDA_INCLUDE)
$(PEER_LAUNCHES): | setup-python
$(BUILD)/bench/peer-launches: $(PEER_LAUNCHES) $(SIM)/libcudart.so.13
	mkdir -p $(@D)
	$(CXX) -o $@ $^ -Wl,--allow-shlib-undefined -Wl,-rpath,'$$ORIGIN/../simulate'

.PHONY: bench-peers
bench-peers: all $(BUILD)/bench/peer-launches ## what devtrace costs beside memray, torch.profiler and others: writes docs/evidence/cost.md (half an hour)
	$(PYTHON) -m pip install --quiet --constraint scripts/packages/constraints.txt --requirement scripts/packages/requirements-peers.txt
	$(PYTHON) tests/bench/peers/run.py --build $(BUILD) --instructions --write

.PHONY: bench-growth
bench-growth: all $(BUILD)/bench/growth ## how costs grow with blocks, stacks, threads, devices and ranks: writes docs/evidence/growth.md (six minutes)
	$(PYTHON) -m pip install --quiet --constraint scripts/packages/constraints.txt --requirement scripts/packages/requirements-peers.txt
	$(PYTHON) tests/bench/growth.py --build $(BUILD) --write
