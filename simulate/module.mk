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
SIM_CODE_nvml := 3
SIM_FILE_cupti := libcupti.so.13
SIM_REAL_cupti := cu13/lib/libcupti.so.13
SIM_CODE_cupti := 27

# The fat binaries' compression; static, so that no program meets a second libzstd.
SIM_LIBS_cuda := -l:libzstd.a

# Libraries whose many functions tools/library.py writes.
SIM_GENERATED := cublas cusparse cusolver

.PHONY: simulate
simulate: $(foreach l,$(STANDINS),$(SIM)/$(SIM_FILE_$(l))) $(SIM)/preload.list

$(SIM)/preload.list: simulate/module.mk
	@mkdir -p $(@D)
	printf '%s\n' $(SIM_PRELOAD) > $@

$(SIM_GEN)/driver_symbols.inc: simulate/tools/driver_symbols.py | setup-native
	@mkdir -p $(@D)
	$(PYTHON) $< $(CUDA_INCLUDE) --names $(SIM_GEN)/driver.names --table $(SIM_GEN)/driver_versions.inc
	sed 's/ .*//; s/.*/SYMBOL(&)/' $(SIM_GEN)/driver.names > $@
	sed 's/ .*//; s/.*/#pragma redefine_extname & devtrace_sim_&/' $(SIM_GEN)/driver.names > $(SIM_GEN)/driver_aliases.inc

# One library: its own objects, and what is the same in each.
define standin
SIM_SOURCES_$(1) := $$(wildcard simulate/$(1)/*.cpp) $(if $(filter cuda,$(1)),$$(wildcard simulate/model/*.cpp)) simulate/common/unsupported.cpp \
  $(if $(filter cuda cudart,$(1)),,simulate/common/library.cpp)
SIM_OBJECTS_$(1) := $$(patsubst %.cpp,$$(BUILD)/obj/%.o,$$(SIM_SOURCES_$(1)))

$$(SIM_GEN)/$(1).map: $$(SIM_OBJECTS_$(1)) $(if $(filter $(1),$(SIM_GENERATED)),$$(SIM_GEN)/$(1)_many.o) simulate/tools/standin.py simulate/module.mk $$(SIM_GEN)/driver_symbols.inc
	$$(PYTHON) simulate/tools/standin.py --out $$(SIM_GEN)/$(1) --code $$(SIM_CODE_$(1)) \
	  $(if $(SIM_REAL_$(1)),--real $$(CUDA_WHEEL_LIBRARIES)/$$(SIM_REAL_$(1)) --extra devtrace_simulation $$(SIM_EXTRA_$(1)),$(if $(filter cuda,$(1)),--names $$(SIM_GEN)/driver.names --alias devtrace_sim_ --extra 'devtrace_sim_*' devtrace_simulation)) \
	  --objects $$(filter %.o,$$^)

$$(SIM)/$$(SIM_FILE_$(1)): $$(SIM_GEN)/$(1).map $(if $(filter cuda,$(1)),,$$(SIM)/libcuda.so.1)
	@mkdir -p $$(@D)
	$$(CXX) -shared -o $$@ -Wl,-soname,$$(SIM_FILE_$(1)) -Wl,--version-script=$$< -Wl,-Bsymbolic -Wl,-z,defs -static-libstdc++ -static-libgcc \
	  -g $$(SIM_OBJECTS_$(1)) $(if $(filter $(1),$(SIM_GENERATED)),$$(SIM_GEN)/$(1)_many.o) $$(SIM_GEN)/$(1).stubs.S \
	  $(if $(filter cuda,$(1)),,$$(SIM)/libcuda.so.1) $$(SIM_LIBS_$(1)) -lpthread -ldl

$$(SIM_OBJECTS_$(1)): EXTRA_CXXFLAGS = -isystem $$(CUDA_INCLUDE) -isystem $$(CUDA_WHEEL_LIBRARIES)/cudnn/include -I$$(SIM_GEN)
$$(SIM_OBJECTS_$(1)): | $$(SIM_GEN)/driver_symbols.inc
endef

# The generated part of a mathematics library.
define many
$$(SIM_GEN)/$(1)_many.cpp: $$(SIM_OBJECTS_$(1)) simulate/tools/library.py simulate/tools/standin.py
	$$(PYTHON) simulate/tools/library.py $(1) --include $$(CUDA_INCLUDE) --out $$@ --objects $$(SIM_OBJECTS_$(1))
$$(SIM_GEN)/$(1)_many.o: $$(SIM_GEN)/$(1)_many.cpp
	$$(CXX) $$(ALL_CXXFLAGS) -O1 -g0 -isystem $$(CUDA_INCLUDE) -I$$(SIM_GEN) -c $$< -o $$@
endef

$(foreach l,$(STANDINS),$(eval $(call standin,$(l))))
$(foreach l,$(SIM_GENERATED),$(eval $(call many,$(l))))

# The device model's own tests, linked with the stand-ins.
SIM_TEST_OBJECTS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard tests/unit/simulate/*.cpp))
$(SIM_TEST_OBJECTS): EXTRA_CXXFLAGS = -isystem $(CUDA_INCLUDE)
UNIT_TEST_BINARIES += $(BUILD)/simulate-tests
$(BUILD)/simulate-tests: $(SIM_TEST_OBJECTS) $(SIM)/libcudart.so.13 $(SIM)/libcuda.so.1
	$(CXX) -o $@ $^ -lgtest -lpthread -Wl,-rpath,'$$ORIGIN/simulate'
