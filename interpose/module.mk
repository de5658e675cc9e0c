# interpose: libdevtrace.so itself.
INTERPOSE_OBJS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard interpose/*.cpp))
# Recursively expanded: simulate/module.mk says where the CUDA headers are. System headers: their warnings are not ours.
# __CUDA_API_VERSION_INTERNAL: cuda.h then declares every symbol under its own name (cuMemAlloc_v2) and renames none; hooks.inc names symbols.
$(INTERPOSE_OBJS): EXTRA_CXXFLAGS = -isystem $(CUDA_INCLUDE) -D__CUDA_API_VERSION_INTERNAL -ftls-model=initial-exec

# What the library exports is the table of hooks, what CUDA calls in an injected library, and its own C interface; everything else, libstdc++ and libunwind included, stays inside.
# A reference without a version accepts `devtrace`; the C library's functions name themselves unversioned, which any version accepts; the CUDA runtime's versions are those of interpose/runtime_entries.cpp.
$(BUILD)/libdevtrace.map: interpose/hooks.inc interpose/runtime_versions.inc interpose/module.mk
	@mkdir -p $(@D)
	{ echo 'devtrace { global:'; sed -n '/"libc\.so"/d; s/^HOOK("[^"]*", \(.*\))$$/  \1;/p' $<; echo '  InitializeInjection; devtrace_*;'; echo 'local: *; };'; \
	  sed -n 's/^VERSION([0-9]*, \(.*\))$$/\1 { };/p' interpose/runtime_versions.inc; } > $@

# Everything static but the C library: a preloaded object must bring nothing along that the program did not ask for.
# -lgcc_eh comes before libunwind, so that our own exceptions keep libgcc's unwinder.
$(BUILD)/libdevtrace.so: $(INTERPOSE_OBJS) $(CUPTI_TRACER_OBJS) $(TRACKER_OBJS) $(STACKS_OBJS) $(REPORT_OBJS) $(DEVICE_CODE_OBJS) $(BUILD)/libdevtrace.map
	$(CXX) -shared $(LDFLAGS) -Wl,-Bsymbolic-functions -Wl,--version-script=$(BUILD)/libdevtrace.map -Wl,-z,defs -Wl,--gc-sections -Wl,-soname,libdevtrace.so \
	  -static-libstdc++ -static-libgcc $(filter %.o,$^) -lgcc_eh $(STACKS_LIBS) $(DEVICE_CODE_LIBS) -ldl -o $@

# The hooks with a recorder in the tracker's place, in front of the stand-ins: what they tell.
INTERPOSE_TEST_OBJS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard tests/unit/interpose/*.cpp))
$(INTERPOSE_TEST_OBJS): EXTRA_CXXFLAGS = -isystem $(CUDA_INCLUDE) -D__CUDA_API_VERSION_INTERNAL
UNIT_TEST_BINARIES += $(BUILD)/interpose-tests
# Recursively expanded: simulate/module.mk comes later.
INTERPOSE_TEST_SIM = $(SIM)/libcudart.so.13 $(SIM)/libcuda.so.1
$(BUILD)/interpose-tests: $(INTERPOSE_TEST_OBJS) $(INTERPOSE_OBJS) $(TRACKER_OBJS) $(STACKS_OBJS) $(DEVICE_CODE_OBJS) $(BUILD)/libdevtrace.map | simulate
	$(CXX) $(LDFLAGS) $(INTERPOSE_TEST_OBJS) $(filter-out %/lifecycle.o %/c_api.o %/injection.o %/cuda_facts.o %/pytorch_hooks.o %/pytorch_map_hooks.o,$(INTERPOSE_OBJS)) \
	  $(filter %/current_thread.o %/kernels.o %/ownership.o %/host_memory.o,$(TRACKER_OBJS)) $(filter %/loaded_objects.o,$(STACKS_OBJS)) $(STACKS_WRAP) \
	  $(DEVICE_CODE_OBJS) $(INTERPOSE_TEST_SIM) -lgtest $(DEVICE_CODE_LIBS) -pthread -ldl -Wl,--version-script=$(BUILD)/libdevtrace.map -Wl,-rpath,'$$ORIGIN/simulate' -o $@

# The callbacks with the same recorder; CUPTI's part is played by the test, its names are the real library's.
CUPTI_TEST_OBJS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard tests/unit/cupti_tracer/*.cpp))
$(CUPTI_TEST_OBJS): EXTRA_CXXFLAGS = -isystem $(CUDA_INCLUDE) -DDEVTRACE_REAL_CUPTI='"$(abspath $(CUDA_WHEEL_LIBRARIES)/$(SIM_REAL_cupti))"'
UNIT_TEST_BINARIES += $(BUILD)/cupti-tracer-tests
CUPTI_TESTED_OBJS = $(filter-out %_hooks.o %/runtime_entries.o %/lifecycle.o %/c_api.o %/injection.o %/cuda_facts.o,$(INTERPOSE_OBJS)) \
  $(filter-out %/tracer.o %/activity.o,$(CUPTI_TRACER_OBJS)) \
  $(filter %/current_thread.o %/kernels.o %/ownership.o %/host_memory.o %/own_code.o,$(TRACKER_OBJS)) $(STACKS_OBJS)
$(BUILD)/cupti-tracer-tests: $(CUPTI_TEST_OBJS) $(CUPTI_TRACER_OBJS) $(INTERPOSE_OBJS) $(INTERPOSE_TEST_OBJS) $(TRACKER_OBJS) $(STACKS_OBJS) $(DEVICE_CODE_OBJS) $(BUILD)/libdevtrace.map | simulate
	$(CXX) $(LDFLAGS) $(CUPTI_TEST_OBJS) $(filter %/recorder.o,$(INTERPOSE_TEST_OBJS)) $(CUPTI_TESTED_OBJS) \
	  $(DEVICE_CODE_OBJS) $(INTERPOSE_TEST_SIM) -lgtest -lgcc_eh $(STACKS_LIBS) $(DEVICE_CODE_LIBS) -pthread -ldl -Wl,--version-script=$(BUILD)/libdevtrace.map -Wl,-rpath,'$$ORIGIN/simulate' -o $@
