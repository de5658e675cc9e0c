# device_code: kernels in cubins, PTX and fat binaries; part of libdevtrace.so and of the simulated driver.
DEVICE_CODE_OBJS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard device_code/*.cpp))
# The fat binaries' compression; static, so that no program meets a second libzstd.
DEVICE_CODE_LIBS := -l:libzstd.a

# The tests read real machine code: their PTX, compiled by the assembler that comes with Triton.
DEVICE_CODE_DATA := $(BUILD)/device-code-data
DEVICE_CODE_CUBINS := $(patsubst %,$(DEVICE_CODE_DATA)/sm_%.cubin,75 80 90 100)
PTXAS = $(firstword $(wildcard $(CUDA_WHEEL_LIBRARIES)/../triton/backends/nvidia/bin/$(1)) $(wildcard $(CUDA_WHEEL_LIBRARIES)/../triton/backends/nvidia/bin/ptxas))
$(DEVICE_CODE_DATA)/sm_%.cubin: tests/unit/device_code/kernels.ptx | setup-native
	@mkdir -p $(@D)
	cp $< $(@D)
	$(call PTXAS,$(if $(filter 100,$*),ptxas-blackwell,ptxas)) -arch sm_$* $< -o $@

DEVICE_CODE_TEST_OBJS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard tests/unit/device_code/*.cpp))
UNIT_TEST_BINARIES += $(BUILD)/device-code-tests
$(BUILD)/device-code-tests: $(DEVICE_CODE_TEST_OBJS) $(DEVICE_CODE_OBJS) $(DEVICE_CODE_CUBINS)
	$(CXX) $(LDFLAGS) $(filter %.o,$^) -lgtest -lgtest_main $(DEVICE_CODE_LIBS) -pthread -o $@
