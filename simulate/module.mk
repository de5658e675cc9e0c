# Stand-ins for the CUDA libraries: one shared object for each row of STANDINS, in $(BUILD)/simulate/.
# The lists of symbols come out of the wheels' own libraries and headers, by simulate/tools.
SIM := $(BUILD)/simulate
SIM_GEN := $(BUILD)/obj/simulate/generated
CUDA_WHEEL_LIBRARIES ?= $(shell $(PYTHON) -c "import sysconfig; print(sysconfig.get_paths()['purelib'])" 2>/dev/null)/nvidia

# To add a stand-in: its name here, the four values below, a folder of sources, and rules for its many functions in tools/library.py.
STANDINS := cuda cudart cublasLt cublas cusparse cusolver cufft cudnn nvml cupti
# What LD_PRELOAD has to name, in this order: a library before those that need it.
SIM_PRELOAD = $(foreach l,$(STANDINS),$(SIM_FILE_$(l)))

SIM_FILE_cuda := libcuda.so.1
SIM_NAMES_cuda := $(SIM_GEN)/driver.names
SIM_CODE_cuda := 801
SIM_FILE_cudart := libcudart.so.13
SIM_REAL_cudart := cu13/lib/libcudart.so.13
SIM_CODE_cudart := 801
SIM_FILE_cublas := libcublas.so.13
SIM_REAL_cublas := cu13/lib/libcublas.so.13
SIM_CODE_cublas := 15
SIM_FILE_cublasLt := libcublasLt.so.13
SIM_REAL_cublasLt := cu13/lib/libcublasLt.so.13
SIM_CODE_cublasLt := 15
SIM_FILE_cusparse := libcusparse.so.12
SIM_REAL_cusparse := cu13/lib/libcusparse.so.12
SIM_CODE_cusparse := 10
SIM_FILE_cusolver := libcusolver.so.12
SIM_REAL_cusolver := cu13/lib/libcusolver.so.12
SIM_CODE_cusolver := 9
SIM_FILE_cufft := libcufft.so.12
SIM_REAL_cufft := cu13/lib/libcufft.so.12
SIM_CODE_cufft := 16
SIM_FILE_cudnn := libcudnn.so.9
SIM_REAL_cudnn := cudnn/lib/libcudnn.so.9
SIM_CODE_cudnn := 3000
SIM_EXTRA_cudnn := _ZNK2at7Context16userEnabledCuDNNEv _ZNK2at7Context19userEnabledCuDNNSDPEv
SIM_FILE_nvml := libnvidia-ml.so.1
SIM_NAMES_nvml := $(SIM_GEN)/nvml.names
SIM_CODE_nvml := 3
SIM_FILE_cupti := libcupti.so.13
SIM_REAL_cupti := cu13/lib/libcupti.so.13
SIM_CODE_cupti := 27

SIM_LIBS_cuda := $(LINK_device_code)

# Libraries whose many functions tools/library.py writes.
SIM_GENERATED := cublas cusparse cusolver

.PHONY: simulate
simulate: $(foreach l,$(STANDINS),$(SIM)/$(SIM_FILE_$(l))) $(SIM)/preload.list $(SIM)/python/copied $(SIM)/torch/built

# True values: the Python side, which libcuda.so.1 finds beside itself.
$(SIM)/python/copied: $(wildcard simulate/values/python/*.py)
	@mkdir -p $(SIM)/python
	rm -rf $(SIM)/python/devtrace_values
	cp -r simulate/values/python $(SIM)/python/devtrace_values
	@touch $@

# ... and its quick way, for the PyTorch whose headers are here, by whose commit it is called: values/python/native.py looks for
# that. The name begins like those of CUDA's libraries, whose lines no stack is looked up for.
TORCH := $(dir $(CUDA_WHEEL_LIBRARIES))torch
TORCH_VERSION = $(shell sed -n "s/^git_version = '\(.*\)'/\1/p" $(TORCH)/version.py)
TORCH_KERNELS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard simulate/values/torch/*.cpp))
$(TORCH_KERNELS): EXTRA_CXXFLAGS = -isystem $(TORCH)/include
$(TORCH_KERNELS): $(wildcard $(TORCH)/version.py)
$(SIM)/torch/built: $(TORCH_KERNELS)
	rm -rf $(@D) && mkdir -p $(@D)
	$(CXX) -shared -o $(@D)/libcuda_values-$(TORCH_VERSION).so -Wl,-z,defs -g $^ -L$(TORCH)/lib -ltorch_cpu -lc10 -ldl
	@touch $@

$(SIM)/preload.list: simulate/module.mk
	@mkdir -p $(@D)
	printf '%s\n' $(SIM_PRELOAD) > $@

$(SIM_GEN)/driver_symbols.inc: simulate/tools/driver_symbols.py | setup-python
	@mkdir -p $(@D)
	$(PYTHON) $< $(CUDA_INCLUDE) --names $(SIM_GEN)/driver.names --table $(SIM_GEN)/driver_versions.inc
	sed 's/ .*//; s/.*/SYMBOL(&)/' $(SIM_GEN)/driver.names > $@
	sed 's/ .*//; s/.*/#pragma redefine_extname & devtrace_sim_&/' $(SIM_GEN)/driver.names > $(SIM_GEN)/driver_aliases.inc

$(SIM_GEN)/nvml.names: simulate/module.mk | setup-python
	@mkdir -p $(@D)
	sed -n 's/.*DECLDIR  *\(nvml[A-Za-z0-9_]*\)(.*/\1/p' $(CUDA_INCLUDE)/nvml.h | sort -u > $@

# CUDA 12: the same sources against the headers of its wheels, in $(SIM)/cuda12. Not part of `make`, as no wheel that setup installs has
# them: `make simulate-cuda12 CUDA12_SITE=…/site-packages/nvidia` reads those of a CUDA 12 PyTorch; without it, pip downloads them
# (1.3 GB, of which 6 MB are kept in .cache). libcuda, NVML and cuDNN are those of the other build.
CUDA12 := .cache/cuda12
STANDINS_12 := cudart cublasLt cublas cusparse cusolver cufft cupti
SIM_FILE_cudart_12 := libcudart.so.12
SIM_FILE_cublas_12 := libcublas.so.12
SIM_FILE_cublasLt_12 := libcublasLt.so.12
SIM_FILE_cusparse_12 := libcusparse.so.12
SIM_FILE_cusolver_12 := libcusolver.so.11
SIM_FILE_cufft_12 := libcufft.so.11
SIM_FILE_cupti_12 := libcupti.so.12

# What differs between the two builds, by suffix.
SIM_OUT := $(SIM)
SIM_OUT_12 := $(SIM)/cuda12
SIM_OBJ := $(BUILD)/obj
SIM_OBJ_12 := $(BUILD)/obj/cuda12
SIM_SYMBOLS = $(CUDA_WHEEL_LIBRARIES)/$(SIM_REAL_$(1))
SIM_SYMBOLS_12 = $(CUDA12)/$(SIM_FILE_$(1)_12).symbols
SIM_INCLUDE := $(CUDA_INCLUDE)
SIM_INCLUDE_12 := $(CUDA12)/include
SIM_FLAGS = $(addprefix -isystem ,$(CUDA_INCLUDE) $(CUDA_WHEEL_LIBRARIES)/cudnn/include) -I$(SIM_GEN)
SIM_FLAGS_12 = -isystem $(SIM_INCLUDE_12) -I$(SIM_GEN)/cuda12 $(SIM_FLAGS)  # CUDA 13's folder follows: it has the cuda.h of both
SIM_PRELOAD_12 = $(foreach l,$(STANDINS),$(if $(SIM_FILE_$(l)_12),$(SIM_FILE_$(l)_12),../$(SIM_FILE_$(l))))

.PHONY: simulate-cuda12
simulate-cuda12: simulate $(foreach l,$(STANDINS_12),$(SIM_OUT_12)/$(SIM_FILE_$(l)_12)) $(SIM_OUT_12)/preload.list

$(SIM_OUT_12)/preload.list: simulate/module.mk
	@mkdir -p $(@D)
	printf '%s\n' $(SIM_PRELOAD_12) > $@

$(CUDA12)/ready: simulate/tools/cuda12.py simulate/tools/stub_library.py | setup-python
	$(PYTHON) $< $(if $(CUDA12_SITE),--site $(CUDA12_SITE)) --out $(@D)
	touch $@

$(SIM_OBJ_12)/%.o: %.cpp $(CUDA12)/ready | setup-python
	@mkdir -p $(@D)
	$(CXX) $(ALL_CXXFLAGS) $(EXTRA_CXXFLAGS) -c $< -o $@

# Libraries with functions for a default stream a thread, and what declares these.
SIM_PER_THREAD_cuda := <cuda.h>
SIM_PER_THREAD_cudart := "simulate/cudart/api_declarations.h"

# Libraries whose functions a profiler can be told of: how CUPTI's names of their callback ids begin, the headers of these and of
# the parameters, the domain, and what declares the functions.
SIM_CALLBACKS_cuda = CUPTI_DRIVER_TRACE_CBID_ $(SIM_INCLUDE$(1))/cupti_driver_cbid.h $(SIM_INCLUDE$(1))/generated_cuda_meta.h
SIM_CALLBACKS_cudart = CUPTI_RUNTIME_TRACE_CBID_ $(SIM_INCLUDE$(1))/cupti_runtime_cbid.h $(SIM_INCLUDE$(1))/generated_cuda_runtime_api_meta.h
SIM_DOMAIN_cuda := kDriver
SIM_DOMAIN_cudart := kRuntime
SIM_DECLARED_cuda := "simulate/cuda/api_declarations.h"
SIM_DECLARED_cudart := "simulate/cudart/api_declarations.h"
# Objects that mean the exported functions where they name one. In all others a function with callbacks gets another name, and the
# exported one jumps to it or to its wrapper.
SIM_KEEP_NAMES := simulate/cuda/symbols.o

# CUPTI's names of the callback ids and of the errors (but for two that the real one does not know either), of one build (1: nothing
# or _12).
SIM_CUPTI_NAMES := $(addprefix $(SIM_GEN)/cupti_,driver_names.inc runtime_names.inc results.inc)
SIM_CUPTI_NAMES_12 := $(addprefix $(SIM_GEN)/cuda12/cupti_,driver_names.inc runtime_names.inc results.inc)
define cupti_names
$$(SIM_CUPTI_NAMES$(1)) &: $(if $(1),$$(CUDA12)/ready) simulate/module.mk | setup-python
	@mkdir -p $$(dir $$(firstword $$(SIM_CUPTI_NAMES$(1))))
	sed -n 's/.*CUPTI_DRIVER_TRACE_CBID_\(\w*\) *= \([0-9]*\),.*/NAME(\2, "\1")/p' $$(SIM_INCLUDE$(1))/cupti_driver_cbid.h | grep -v SIZE > $$(word 1,$$(SIM_CUPTI_NAMES$(1)))
	sed -n 's/.*CUPTI_RUNTIME_TRACE_CBID_\(\w*\) *= \([0-9]*\),.*/NAME(\2, "\1")/p' $$(SIM_INCLUDE$(1))/cupti_runtime_cbid.h | grep -v SIZE > $$(word 2,$$(SIM_CUPTI_NAMES$(1)))
	sed -n 's/^ *\(CUPTI_SUCCESS\|CUPTI_ERROR_\w*\) *= .*/RESULT(\1)/p' $$(SIM_INCLUDE$(1))/cupti_result.h | grep -v 'OLD_PROFILER\|OPENACC' > $$(word 3,$$(SIM_CUPTI_NAMES$(1)))
$$(SIM_OBJECTS_cupti$(1)): | $$(SIM_CUPTI_NAMES$(1))
endef

# One library (1) of one build (2: nothing or _12): its own objects, and what is the same in each.
define standin
SIM_SOURCES_$(1)$(2) := $$(wildcard simulate/$(1)/*.cpp) $(if $(filter cuda,$(1)),$$(wildcard simulate/cuda/*/*.cpp simulate/settings/*.cpp simulate/model/*.cpp simulate/values/*.cpp)) simulate/common/unsupported.cpp \
  $(if $(2),$$(wildcard simulate/$(1)/cuda12/*.cpp)) $(if $(filter cuda cudart,$(1)),,simulate/common/library.cpp)
SIM_OBJECTS_$(1)$(2) := $$(patsubst %.cpp,$$(SIM_OBJ$(2))/%.o,$$(SIM_SOURCES_$(1)$(2)))

$$(SIM_GEN)/$(1)$(2).map: $$(SIM_OBJECTS_$(1)$(2)) $(if $(filter $(1),$(SIM_GENERATED)),$$(SIM_GEN)/$(1)_many$(2).o) simulate/tools/stub_library.py simulate/module.mk $$(SIM_GEN)/driver_symbols.inc $(if $(filter nvml,$(1)),$$(SIM_NAMES_$(1)))
	$$(PYTHON) simulate/tools/stub_library.py --out $$(SIM_GEN)/$(1)$(2) --code $$(SIM_CODE_$(1)) \
	  $(if $(SIM_REAL_$(1)),--real $$(call SIM_SYMBOLS$(2),$(1)) --extra devtrace_simulation $$(SIM_EXTRA_$(1)),$(if $(SIM_NAMES_$(1)),--names $$(SIM_NAMES_$(1))) $(if $(filter cuda,$(1)),--alias devtrace_sim_ --extra 'devtrace_sim_*' devtrace_simulation)) \
	  $(if $(SIM_PER_THREAD_$(1)),--per-thread $$(SIM_GEN)/$(1)$(2).per_thread.inc) \
	  $(if $(SIM_CALLBACKS_$(1)),--callbacks $$(call SIM_CALLBACKS_$(1),$(2))) --objects $$(filter %.o,$$^)

$(if $(SIM_PER_THREAD_$(1)),$$(SIM_GEN)/$(1)_per_thread$(2).o: simulate/common/per_thread.cpp $$(SIM_GEN)/$(1)$(2).map
	$$(CXX) $$(ALL_CXXFLAGS) $$(SIM_FLAGS$(2)) -DPER_THREAD_HEADER='$(SIM_PER_THREAD_$(1))' -DPER_THREAD_LIST='"$(1)$(2).per_thread.inc"' -c $$< -o $$@)

$(if $(SIM_CALLBACKS_$(1)),$$(SIM_GEN)/$(1)_callbacks$(2).o: simulate/common/callbacks.cpp $$(SIM_GEN)/$(1)$(2).map
	$$(CXX) $$(ALL_CXXFLAGS) $$(SIM_FLAGS$(2)) -DCALLBACK_HEADER='$(SIM_DECLARED_$(1))' -DCALLBACK_LIST='"$(1)$(2).callbacks.inc"' -DCALLBACK_DOMAIN=$(SIM_DOMAIN_$(1)) -c $$< -o $$@
$$(SIM_GEN)/$(1)_renamed$(2).o: $$(SIM_OBJECTS_$(1)$(2)) $$(SIM_GEN)/$(1)_per_thread$(2).o $$(SIM_GEN)/$(1)$(2).map
	$$(CXX) -nostdlib -r -o $$@.joined $$(filter-out $$(addprefix $$(SIM_OBJ$(2))/,$$(SIM_KEEP_NAMES)),$$(filter %.o,$$^))
	objcopy --redefine-syms=$$(SIM_GEN)/$(1)$(2).rename $$@.joined $$@
	rm $$@.joined)

# What of it is linked.
SIM_LINKED_$(1)$(2) := $(if $(SIM_CALLBACKS_$(1)),$$(SIM_GEN)/$(1)_renamed$(2).o $$(SIM_GEN)/$(1)_callbacks$(2).o $$(filter $$(addprefix $$(SIM_OBJ$(2))/,$$(SIM_KEEP_NAMES)),$$(SIM_OBJECTS_$(1)$(2))),$$(SIM_OBJECTS_$(1)$(2)))

$$(SIM_OUT$(2))/$$(SIM_FILE_$(1)$(2)): $$(SIM_LINKED_$(1)$(2)) $(if $(filter cuda,$(1)),$$(OBJECTS_device_code)) $$(SIM_GEN)/$(1)$(2).map $(if $(filter cuda,$(1)),,$$(SIM)/libcuda.so.1)
	@mkdir -p $$(@D)
	$$(CXX) -shared -o $$@ -Wl,-soname,$$(SIM_FILE_$(1)$(2)) -Wl,--version-script=$$(SIM_GEN)/$(1)$(2).map -Wl,-Bsymbolic -Wl,-z,defs -Wl,--gc-sections -static-libstdc++ -static-libgcc \
	  -g $$(SIM_LINKED_$(1)$(2)) $(if $(filter cuda,$(1)),$$(OBJECTS_device_code)) $(if $(filter $(1),$(SIM_GENERATED)),$$(SIM_GEN)/$(1)_many$(2).o) $$(SIM_GEN)/$(1)$(2).stubs.S \
	  $(if $(filter cuda,$(1)),,$$(SIM)/libcuda.so.1) $$(SIM_LIBS_$(1)) -lpthread -ldl

$$(SIM_OBJECTS_$(1)$(2)): EXTRA_CXXFLAGS = $$(SIM_FLAGS$(2))
$$(SIM_OBJECTS_$(1)$(2)): | $$(SIM_GEN)/driver_symbols.inc
endef

# The generated part of a mathematics library.
define many
$$(SIM_GEN)/$(1)_many$(2).cpp: $$(SIM_OBJECTS_$(1)$(2)) simulate/tools/library.py simulate/tools/stub_library.py
	$$(PYTHON) simulate/tools/library.py $(1) --include $$(SIM_INCLUDE$(2)) --out $$@ --objects $$(SIM_OBJECTS_$(1)$(2))
$$(SIM_GEN)/$(1)_many$(2).o: $$(SIM_GEN)/$(1)_many$(2).cpp
	$$(CXX) $$(ALL_CXXFLAGS) -O1 -g0 $$(SIM_FLAGS$(2)) -c $$< -o $$@
endef

$(foreach l,$(STANDINS),$(eval $(call standin,$(l))))
$(foreach l,$(SIM_GENERATED),$(eval $(call many,$(l))))
$(eval $(call cupti_names))
$(foreach l,$(STANDINS_12),$(eval $(call standin,$(l),_12)))
$(foreach l,$(SIM_GENERATED),$(eval $(call many,$(l),_12)))
$(eval $(call cupti_names,_12))

