# Stacks: $(STACKS_OBJS) and what to link them with.
ifndef STACKS_OBJS
STACKS_SOURCES := $(wildcard tracker/stacks/*.cpp)
STACKS_OBJS := $(STACKS_SOURCES:%.cpp=$(BUILD)/obj/%.o)
# libgcc's unwinder first: libunwind defines the same names, and our own exceptions must keep the one they were compiled for.
STACKS_LIBS := -lgcc_eh .cache/libunwind/lib/libunwind.a -lbacktrace

$(STACKS_OBJS): EXTRA_CXXFLAGS += -isystem .cache/libunwind/include -DBOOST_STACKTRACE_USE_BACKTRACE

STACKS_SHARED := -shared -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL -Wl,-z,defs

# What the tests load into interpreters with ctypes.
$(BUILD)/tests/stack_probe.so: $(BUILD)/obj/tests/e2e/stack_probe.o $(STACKS_OBJS) .cache/libunwind/lib/libunwind.a
	@mkdir -p $(@D)
	$(CXX) $(STACKS_SHARED) -o $@ $(filter %.o,$^) $(STACKS_LIBS)
endif
