# The simulated devices, in $(BUILD)/simulate: stub libraries in the place of CUDA's, and what computes true values.
SIM := $(BUILD)/simulate
SIM_GEN := $(BUILD)/obj/simulate/generated
CUDA_WHEEL_LIBRARIES ?= $(shell $(PYTHON) -c "import sysconfig; print(sysconfig.get_paths()['purelib'])" 2>/dev/null)/nvidia

include simulate/stub_libraries.mk

# A stub is a library of the table built for one version of CUDA: `cublas` for CUDA 13, `cuda12/cublas` for CUDA 12. What
# is generated for one lies in $(SIM_GEN) under this name.
STUBS_13 := $(STUB_LIBRARIES)
STUBS_12 := $(foreach l,$(STUB_LIBRARIES),$(if $(filter -,$(call stub_cell,$(l),3)),,cuda12/$(l)))
STUBS := $(STUBS_13) $(STUBS_12)
# $(call by_cuda,STUB,WHAT FOR CUDA 12,WHAT FOR CUDA 13)
by_cuda = $(if $(filter cuda12/%,$(1)),$(2),$(3))
# What the table says of a stub; its file as a path below $(SIM). Where one of these functions names another without
# `call`, it asks about the same stub.
stub_file = $(call by_cuda,$(1),cuda12/$(call stub_cell,$(1),3),$(call stub_cell,$(1),2))
stub_path = $(SIM)/$(stub_file)
stub_symbols = $(call stub_cell,$(1),4)
stub_code = $(call stub_cell,$(1),5)
stub_besides = $(call stub_cell,$(1),6)
GENERATED_STUBS := $(foreach s,$(STUBS),$(if $(filter generated,$(call stub_besides,$(s))),$(s)))
PROFILED_STUBS := $(foreach s,$(STUBS),$(if $(filter Driver Runtime,$(call stub_besides,$(s))),$(s)))

.PHONY: simulate simulate-cuda12
simulate: $(foreach s,$(STUBS_13),$(call stub_path,$(s))) $(SIM)/static_runtime.so $(SIM)/device_files.so $(SIM)/preload.list $(SIM)/python/copied $(SIM)/torch/built
# Not part of `make`, as no wheel that the set-up installs is for CUDA 12.
simulate-cuda12: simulate $(foreach s,$(STUBS_12),$(call stub_path,$(s))) $(SIM)/cuda12/preload.list

# What LD_PRELOAD has to name.
$(SIM)/preload.list $(SIM)/cuda12/preload.list: simulate/stub_libraries.mk simulate/module.mk
	mkdir -p $(@D)
	printf '%s\n' $(PRELOADED) > $@
$(SIM)/preload.list: PRELOADED = static_runtime.so device_files.so $(foreach l,$(STUB_LIBRARIES),$(call stub_file,$(l)))
$(SIM)/cuda12/preload.list: PRELOADED = ../static_runtime.so ../device_files.so $(foreach l,$(STUB_LIBRARIES),\
  $(if $(filter cuda12/$(l),$(STUBS_12)),$(notdir $(call stub_file,cuda12/$(l))),../$(call stub_file,$(l))))

# --- What the stubs are made from: headers, and the names that the real libraries export. ---

# The driver is in no wheel: its names come out of the headers, as NVML's do.
DRIVER_LISTS := $(addprefix $(SIM_GEN)/driver,.names _versions.inc _symbols.inc _aliases.inc)
$(DRIVER_LISTS) &: simulate/tools/driver_symbols.py | setup-python
	mkdir -p $(SIM_GEN)
	$(PYTHON) $< $(CUDA_INCLUDE) --names $(SIM_GEN)/driver.names --table $(SIM_GEN)/driver_versions.inc
	sed 's/ .*//; s/.*/SYMBOL(&)/' $(SIM_GEN)/driver.names > $(SIM_GEN)/driver_symbols.inc
	sed 's/ .*//; s/.*/#pragma redefine_extname & devtrace_sim_&/' $(SIM_GEN)/driver.names > $(SIM_GEN)/driver_aliases.inc

$(SIM_GEN)/nvml.names: simulate/module.mk | setup-python
	mkdir -p $(@D)
	sed -n 's/.*DECLDIR .*\(nvml[A-Za-z0-9_]*\)(.*/\1/p' $(CUDA_INCLUDE)/nvml.h | sort -u > $@

# CUDA 12: `make simulate-cuda12 CUDA12_SITE=…/site-packages/nvidia` reads the headers and the names of a CUDA 12 PyTorch.
# Without it, pip downloads the wheels (1.3 GB, of which 6 MB are kept in .cache).
CUDA12 := .cache/cuda12
$(CUDA12)/ready: simulate/tools/cuda12.py simulate/tools/stub_library.py | setup-python
	$(PYTHON) $< $(if $(CUDA12_SITE),--site $(CUDA12_SITE)) --out $(@D)
	touch $@

stub_include = $(call by_cuda,$(1),$(CUDA12)/include,$(CUDA_INCLUDE))
# As an option of tools/stub_library.py.
stub_names = $(if $(filter %.names,$(stub_symbols)),--names $(SIM_GEN)/$(stub_symbols),--real $(stub_real))
stub_real = $(call by_cuda,$(1),$(CUDA12)/$(notdir $(stub_file)).symbols,$(CUDA_WHEEL_LIBRARIES)/$(stub_symbols)/$(stub_file))
REAL_CUPTI = $(call stub_real,cupti)

# CUPTI's names of the callback ids and of the errors (but for two that the real one does not know either).
CUPTI_STUBS := $(filter cupti cuda12/cupti,$(STUBS))
CUPTI_IDS := $(foreach s,$(CUPTI_STUBS),$(SIM_GEN)/$(s)_driver_names.inc $(SIM_GEN)/$(s)_runtime_names.inc)
CUPTI_RESULTS := $(CUPTI_STUBS:%=$(SIM_GEN)/%_results.inc)
$(CUPTI_IDS): $(SIM_GEN)/%_names.inc: | setup-python
	mkdir -p $(@D)
	sed -n 's/.*CUPTI_[A-Z]*_TRACE_CBID_\(\w*\) *= \([0-9]*\),.*/NAME(\2, "\1")/p' $(call stub_include,$*)/$(*F)_cbid.h | grep -v SIZE > $@
$(CUPTI_RESULTS): $(SIM_GEN)/%_results.inc: | setup-python
	mkdir -p $(@D)
	sed -n 's/^ *\(CUPTI_SUCCESS\|CUPTI_ERROR_\w*\) *= .*/RESULT(\1)/p' $(call stub_include,$*)/cupti_result.h | grep -v 'OLD_PROFILER\|OPENACC' > $@
$(filter $(SIM_GEN)/cuda12/%,$(CUPTI_IDS) $(CUPTI_RESULTS)): $(CUDA12)/ready

# --- What is written by hand. ---

SIM_FLAGS_13 := -isystem $(CUDA_INCLUDE) -I$(SIM_GEN)
# CUDA 13's folder follows: it has the cuda.h of both.
SIM_FLAGS_12 := -isystem $(CUDA12)/include -I$(SIM_GEN)/cuda12 $(SIM_FLAGS_13)
stub_flags = $(call by_cuda,$(1),$(SIM_FLAGS_12),$(SIM_FLAGS_13))

# Compiled for CUDA 13 by the rule of all folders; settings and values need no header of CUDA's.
WITH_CUDA := $(filter-out simulate/kernels simulate/settings simulate/values simulate/values/torch simulate/static_runtime simulate/dlopen simulate/jit simulate/device_files,$(filter simulate/%,$(FOLDERS)))
$(foreach f,$(WITH_CUDA),$(eval FLAGS_$(f) += $(SIM_FLAGS_13)))
FLAGS_simulate/cudnn += -isystem $(CUDA_WHEEL_LIBRARIES)/cudnn/include
FLAGS_simulate/nccl += -isystem $(CUDA_WHEEL_LIBRARIES)/nccl/include
# Eigen's factorisations in four precisions: the wheel has to stay small.
FLAGS_simulate/cusolver += -Os
FLAGS_simulate/cusparse += -Os
FLAGS_simulate/kernels += -O3 # loops over the threads of a block
FLAGS_simulate/nccl += -O3 # the sums over ranks: -O2 does not vectorise them
$(foreach f,$(WITH_CUDA),$(OBJECTS_$(f))): | $(DRIVER_LISTS)

$(BUILD)/obj/cuda12/%.o: %.cpp $(CUDA12)/ready | $(DRIVER_LISTS)
	mkdir -p $(@D)
	scripts/make/progress $(BUILD) cuda12/$<
	$(CXX) $(ALL_CXXFLAGS) $(SIM_FLAGS_12) -c $< -o $@

# A stub's folder and those below it, and what it needs of simulate/common. That is where calls of functions end that are not
# simulated, and, unless it has streams of its own, handles with a stream.
stub_folders = $(filter $(call below,simulate/$(notdir $(1))),$(FOLDERS)) $(call by_cuda,$(1),simulate/$(notdir $(1))/cuda12)
stub_common = $(patsubst %,$(BUILD)/obj/simulate/common/%.o,unsupported $(if $(filter $(1),$(PROFILED_STUBS)),,library))
stub_objects_13 = $(foreach f,$(filter-out simulate/common,$(filter simulate/%,$(stub_folders))),$(OBJECTS_$(f))) $(stub_common)
stub_objects = $(call by_cuda,$(1),$(patsubst $(BUILD)/obj/%,$(BUILD)/obj/cuda12/%,$(stub_objects_13)),$(stub_objects_13))

$(foreach s,$(CUPTI_STUBS),$(eval $(call stub_objects,$(s)): | $(filter $(SIM_GEN)/$(s)_%,$(CUPTI_IDS) $(CUPTI_RESULTS))))

# --- What is generated around it. ---

# The many functions of a library of mathematics.
stub_functions = $(patsubst %,$(SIM_GEN)/%_many.o,$(filter $(1),$(GENERATED_STUBS)))
$(foreach s,$(GENERATED_STUBS),$(eval $(SIM_GEN)/$(s)_many.cpp: $(call stub_objects,$(s))))
$(GENERATED_STUBS:%=$(SIM_GEN)/%_many.cpp): $(SIM_GEN)/%_many.cpp: simulate/tools/library.py simulate/tools/stub_library.py
	mkdir -p $(@D)
	$(PYTHON) $< $(*F) --include $(call stub_include,$*) --out $@ --objects $(filter %.o,$^)
$(GENERATED_STUBS:%=$(SIM_GEN)/%_many.o): %_many.o: %_many.cpp
	scripts/make/progress $(BUILD) simulate/generated/$(@F)
	$(CXX) $(ALL_CXXFLAGS) -O1 -g0 $(call stub_flags,$(patsubst $(SIM_GEN)/%,%,$*)) -c $< -o $@

# What makes the library complete: its .map of exports, .stubs.S with what is not simulated, and the lists of what follows.
$(foreach s,$(STUBS),$(eval $(SIM_GEN)/$(s).map: $(call stub_objects,$(s)) $(call stub_functions,$(s))))
$(foreach s,$(STUBS),$(eval $(SIM_GEN)/$(s).map: $(addprefix $(SIM_GEN)/,$(filter %.names,$(call stub_symbols,$(s))))))
$(SIM_GEN)/cudart.map $(SIM_GEN)/nccl.map: $(SIM_GEN)/%.map: simulate/%/newer.names
$(STUBS:%=$(SIM_GEN)/%.map): $(SIM_GEN)/%.map: simulate/tools/stub_library.py simulate/stub_libraries.mk
	mkdir -p $(@D)
	$(PYTHON) $< --out $(SIM_GEN)/$* --code $(call stub_code,$*) $(call stub_names,$*) --extra devtrace_simulation $(STUB_EXPORTS_$(*F)) \
	  $(if $(filter $*,$(PROFILED_STUBS)),--callbacks $(call stub_besides,$*) $(call stub_include,$*)) --objects $(filter %.o,$^)

# Functions for a default stream a thread, and wrappers that tell profilers.
STUB_DECLARATIONS = "simulate/$(*F)/api_declarations.h"
$(PROFILED_STUBS:%=$(SIM_GEN)/%_per_thread.o): $(SIM_GEN)/%_per_thread.o: simulate/common/per_thread.cpp $(SIM_GEN)/%.map
	scripts/make/progress $(BUILD) simulate/generated/$(@F)
	$(CXX) $(ALL_CXXFLAGS) $(call stub_flags,$*) -DPER_THREAD_HEADER='$(STUB_DECLARATIONS)' -DPER_THREAD_LIST='"$*.per_thread.inc"' -c $< -o $@
$(PROFILED_STUBS:%=$(SIM_GEN)/%_callbacks.o): $(SIM_GEN)/%_callbacks.o: simulate/common/callbacks.cpp $(SIM_GEN)/%.map
	scripts/make/progress $(BUILD) simulate/generated/$(@F)
	$(CXX) $(ALL_CXXFLAGS) $(call stub_flags,$*) -DCALLBACK_HEADER='$(STUB_DECLARATIONS)' \
	  -DCALLBACK_LIST='"$*.callbacks.inc"' -DCALLBACK_DOMAIN=k$(call stub_besides,$*) -c $< -o $@

# A function with callbacks gets another name; the exported one jumps to it or to its wrapper. Only these objects mean the
# exported functions where they name one.
MEAN_EXPORTS := $(BUILD)/obj/simulate/cuda/symbols.o
$(foreach s,$(PROFILED_STUBS),$(eval $(SIM_GEN)/$(s)_renamed.o: $(filter-out $(MEAN_EXPORTS),$(call stub_objects,$(s)))))
$(PROFILED_STUBS:%=$(SIM_GEN)/%_renamed.o): %_renamed.o: %_per_thread.o %.map
	$(CXX) -nostdlib -r -o $@.joined $(filter %.o,$^)
	$(OBJCOPY) --redefine-syms=$*.rename $@.joined $@
	rm $@.joined

# --- The libraries: what each is linked from, and how all of them are. ---

stub_hand_written = $(if $(filter $(1),$(PROFILED_STUBS)),\
  $(SIM_GEN)/$(1)_renamed.o $(SIM_GEN)/$(1)_callbacks.o $(filter $(MEAN_EXPORTS),$(stub_objects)),$(stub_objects))
stub_elsewhere = $(foreach f,$(call reverse,$(filter-out simulate/%,$(stub_folders))),$(LIBRARY_$(f)))
stub_linked = $(stub_hand_written) $(stub_elsewhere) $(stub_functions) $(SIM_GEN)/$(1).map $(if $(filter cuda,$(1)),,$(SIM)/libcuda.so.1) $(OLD_GLIBC_NEEDS)
$(foreach s,$(STUBS),$(eval $(call stub_path,$(s)): $(call stub_linked,$(s))))
# Each finds libcuda.so.1 in this folder also where nobody has preloaded it.
$(foreach s,$(STUBS),$(call stub_path,$(s))): simulate/module.mk simulate/common/stub_instructions.inc
	mkdir -p $(@D)
	$(CXX) -shared -I. $(LDFLAGS) $(LINK_INPUTS) -o $@ -Wl,-soname,$(@F) -Wl,--version-script=$(filter %.map,$^) -Wl,-Bsymbolic -Wl,-z,defs -Wl,--gc-sections -static-libstdc++ -static-libgcc \
	  -Wl,-rpath,$(if $(filter $(SIM)/cuda12/%,$@),'$$ORIGIN/..','$$ORIGIN') -g $(filter %.o,$^) $(patsubst %.map,%.stubs.S,$(filter %.map,$^)) $(filter %.a %.so.1,$^) $(STUB_LIBS) $(OLD_GLIBC) -lpthread -ldl
$(SIM)/libcuda.so.1: STUB_LIBS = $(LINK_device)

# --- What sends a CUDA runtime inside a file to the stand-in runtime, and who opens a CUDA library by its path to its stand-in; what stands before compilers. ---

$(SIM)/static_runtime.so: $(call libraries,simulate/static_runtime simulate/dlopen simulate/jit) $(OLD_GLIBC_NEEDS)
	mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) $(LINK_INPUTS) -o $@ -Wl,-soname,$(@F) -Wl,-z,defs,-z,initfirst,-z,now -Wl,--gc-sections -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL \
	  -Wl,--wrap=dl_iterate_phdr -g $(OBJECTS_simulate/static_runtime) $(OBJECTS_simulate/dlopen) $(OBJECTS_simulate/jit) $^ $(OLD_GLIBC)

# --- What shows the driver's files. ---

$(SIM)/device_files.so: $(OBJECTS_simulate/device_files) $(OLD_GLIBC_NEEDS)
	mkdir -p $(@D)
	$(link_in_front_of_libc)

# --- True values. ---

# The Python side, which libcuda.so.1 finds beside itself.
$(SIM)/python/copied: $(wildcard simulate/values/python/*.py)
	mkdir -p $(@D)
	rm -rf $(@D)/devtrace_values
	cp -r simulate/values/python $(@D)/devtrace_values
	touch $@

# ... and its quick way, for the PyTorch whose headers are here, by whose commit it is called: values/python/native.py looks
# for that. The name begins like those of CUDA's libraries, whose lines no stack is looked up for.
TORCH = $(or $(TARGET_TORCH),$(dir $(CUDA_WHEEL_LIBRARIES))torch)
TORCH_KERNELS := $(OBJECTS_simulate/values/torch)
# $(call torch_flags,FOLDER OF A PYTORCH). Its headers name themselves in their errors: not by where they lie on the machine that builds. g++
# resolves links in the paths of system headers.
torch_flags = -isystem $(1)/include -isystem $(CUDA_INCLUDE) $(foreach path,$(1)/include $(realpath $(1)/include),-ffile-prefix-map=$(path)/=)
FLAGS_simulate/values/torch += $(call torch_flags,$(TORCH))
$(TORCH_KERNELS): $(wildcard $(TORCH)/version.py) | setup-python
# $(call link_torch_kernels,FOLDER OF A PYTORCH,OBJECTS)
torch_commit = $(shell sed -n "s/^git_version = '\(.*\)'/\1/p" $(1)/version.py)
link_torch_kernels = $(CXX) -shared $(LINK_INPUTS) -o $(SIM)/torch/libcuda_values-$(call torch_commit,$(1)).so -Wl,-z,defs -g $(2) -L$(1)/lib -ltorch_cpu -lc10 $(OLD_GLIBC_ALONE) -ldl
$(SIM)/torch/built: $(TORCH_KERNELS) $(OLD_GLIBC_NEEDS)
	rm -rf $(@D) && mkdir -p $(@D)
	$(call link_torch_kernels,$(TORCH),$(filter %.o,$^))
	touch $@

# The same for other releases, by the headers of their wheels, for the wheel: with a release that is not among them Python computes. Not part
# of `make`: $(TORCH_CACHE) gets them once, 0.5 to 0.9 GB each, of which 60 MB are kept. Only releases that were tried stand here.
TORCH_RELEASES := 2.9.0 2.9.1 2.10.0 2.11.0 2.12.0 2.12.1 2.13.0 2.14.0 2.14.1 2.15.0
TORCH_CACHE := $(CACHE)/torch
OTHER_TORCH_RELEASES := $(filter-out $(shell sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" $(TORCH)/version.py 2>/dev/null),$(TORCH_RELEASES))
.PHONY: simulate-torch
simulate-torch: $(OTHER_TORCH_RELEASES:%=$(SIM)/torch/built-%)
$(TORCH_CACHE)/%/ready: simulate/tools/torch_release.py | setup-python
	$(PYTHON) $< $* $(@D) $(CXX)
	touch $@
.PRECIOUS: $(TORCH_CACHE)/%/ready
define torch_release
$(BUILD)/obj/torch-$(1)/%.o: $(BUILD)/obj/%.cpp $(TORCH_CACHE)/$(1)/ready
	mkdir -p $$(@D)
	scripts/make/progress $(BUILD) torch-$(1)/$$<
	$$(CXX) $$(ALL_CXXFLAGS) $$(call torch_flags,$(TORCH_CACHE)/$(1)) -c $$< -o $$@
$(SIM)/torch/built-$(1): $(TORCH_KERNELS:$(BUILD)/obj/%=$(BUILD)/obj/torch-$(1)/%) $(SIM)/torch/built
	$$(call link_torch_kernels,$(TORCH_CACHE)/$(1),$$(filter %.o,$$^))
	touch $$@
endef
$(foreach r,$(OTHER_TORCH_RELEASES),$(eval $(call torch_release,$(r))))
