# Stacks: $(STACKS_OBJS) and what to link them with.
ifndef STACKS_OBJS
STACKS_SOURCES := $(wildcard tracker/stacks/*.cpp)
STACKS_OBJS := $(STACKS_SOURCES:%.cpp=$(BUILD)/obj/%.o)
# libgcc's unwinder first: libunwind defines the same names, and our own exceptions must keep the one they were compiled for.
# --wrap: what stands in dl_iterate_phdr's place (loaded_objects.h), for whatever is linked in.
STACKS_WRAP := -Wl,--wrap=dl_iterate_phdr
STACKS_LIBS := $(STACKS_WRAP) -lgcc_eh .cache/libunwind/lib/libunwind.a -lbacktrace

$(STACKS_OBJS): EXTRA_CXXFLAGS += -isystem .cache/libunwind/include -DBOOST_STACKTRACE_USE_BACKTRACE

STACKS_SHARED := -shared -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL -Wl,-z,defs

# What the tests load into interpreters with ctypes.
$(BUILD)/tests/stack_probe.so: $(BUILD)/obj/tests/e2e/stack_probe.o $(STACKS_OBJS) .cache/libunwind/lib/libunwind.a
	@mkdir -p $(@D)
	$(CXX) $(STACKS_SHARED) -o $@ $(filter %.o,$^) $(STACKS_LIBS)
# The same with rows of layouts that a test can make wrong.
$(BUILD)/tests/stack_probe_wrong_layout.so: $(BUILD)/obj/tests/e2e/stack_probe.o $(BUILD)/obj/tests/e2e/stack_probe_wrong_layout.o $(STACKS_OBJS)
	@mkdir -p $(@D)
	$(CXX) $(STACKS_SHARED) -Wl,--wrap=_ZN8devtrace6stacks9layout_ofEi -o $@ $(filter %.o,$^) $(STACKS_LIBS)
e2e: $(BUILD)/tests/stack_probe.so $(BUILD)/tests/stack_probe_wrong_layout.so

STACKS_TEST_OBJS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard tests/unit/tracker/stacks_*.cpp))
$(STACKS_TEST_OBJS): EXTRA_CXXFLAGS += -isystem .cache/libunwind/include
UNIT_TEST_BINARIES += $(BUILD)/stacks-tests
# -rdynamic: tests look up names of their own functions.
$(BUILD)/stacks-tests: $(STACKS_TEST_OBJS) $(STACKS_OBJS)
	$(CXX) $(LDFLAGS) -rdynamic $(filter %.o,$^) -lgmock -lgtest -lgtest_main $(STACKS_LIBS) -pthread -ldl -o $@

BENCHMARKS += $(BUILD)/bench/stacks
$(BUILD)/bench/stacks: $(BUILD)/obj/tests/bench/stacks_bench.o $(STACKS_OBJS)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) $(filter %.o,$^) -lbenchmark $(STACKS_LIBS) -pthread -ldl -o $@
endif
