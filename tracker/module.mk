# tracker: what is known, and evidence when a finding is made.
-include tracker/stacks/module.mk
TRACKER_OBJS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard tracker/*.cpp tracker/evidence/*.cpp))
$(TRACKER_OBJS): EXTRA_CXXFLAGS += -DFMT_HEADER_ONLY -ftls-model=initial-exec

# stacks_*.cpp are tracker/stacks' own.
TRACKER_TEST_OBJS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(filter-out tests/unit/tracker/stacks_%,$(wildcard tests/unit/tracker/*.cpp)))
$(TRACKER_TEST_OBJS): EXTRA_CXXFLAGS += -DFMT_HEADER_ONLY
UNIT_TEST_BINARIES += $(BUILD)/tracker-tests
$(BUILD)/tracker-tests: $(TRACKER_TEST_OBJS) $(TRACKER_OBJS) $(STACKS_OBJS) $(REPORT_OBJS)
	$(CXX) $(LDFLAGS) $(filter %.o,$^) -lgmock -lgtest -lgtest_main -lgcc_eh $(STACKS_LIBS) -pthread -ldl -o $@

TRACKER_BENCHMARKS := $(BUILD)/bench/provenance $(BUILD)/bench/launch
BENCHMARKS += $(TRACKER_BENCHMARKS)
$(TRACKER_BENCHMARKS): $(BUILD)/bench/%: $(BUILD)/obj/tests/bench/%_bench.o $(TRACKER_OBJS) $(STACKS_OBJS) $(REPORT_OBJS)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) $(filter %.o,$^) -lbenchmark -lgcc_eh $(STACKS_LIBS) -pthread -ldl -o $@

BENCHMARKS += $(BUILD)/bench/copy
$(BUILD)/bench/copy: $(BUILD)/obj/tests/bench/copy_bench.o $(TRACKER_OBJS) $(STACKS_OBJS) $(REPORT_OBJS)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) $(filter %.o,$^) -lbenchmark -lgcc_eh $(STACKS_LIBS) -pthread -ldl -o $@
