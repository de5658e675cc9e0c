# cupti_tracer: the same events from CUPTI. libcupti is opened at run time; only its headers are used here.
CUPTI_TRACER_OWN := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard cupti_tracer/*.cpp))
$(CUPTI_TRACER_OWN): EXTRA_CXXFLAGS = -isystem $(CUDA_INCLUDE) -ftls-model=initial-exec

# The hooks of CUDA's functions once more, as the bodies of CUPTI's callbacks (interpose/cuda_hook.h). What nvcc's code calls when it is
# loaded is no callback of CUPTI's that says whether it succeeded.
CALLBACK_SOURCES := $(filter-out interpose/cuda_registration_hooks.cpp,$(wildcard interpose/cuda_*_hooks.cpp))
CALLBACK_OBJS := $(patsubst interpose/%.cpp,$(BUILD)/obj/cupti_tracer/%.o,$(CALLBACK_SOURCES))
$(CALLBACK_OBJS): EXTRA_CXXFLAGS = -isystem $(CUDA_INCLUDE) -D__CUDA_API_VERSION_INTERNAL -ftls-model=initial-exec -DDEVTRACE_HOOKS_AS_CALLBACKS
$(CALLBACK_OBJS): $(BUILD)/obj/cupti_tracer/%.o: interpose/%.cpp | setup-native
	@mkdir -p $(@D)
	$(CXX) $(ALL_CXXFLAGS) $(EXTRA_CXXFLAGS) -c $< -o $@

CUPTI_TRACER_OBJS := $(CUPTI_TRACER_OWN) $(CALLBACK_OBJS)
