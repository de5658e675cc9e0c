# report: REPORT_OBJS goes into libdevtrace.so and into the command; the command adds what only runs offline.
REPORT_OBJS := $(patsubst %,$(BUILD)/obj/report/%.o, \
  fields characters wording suppressions fingerprint redact text time_line process_facts links traffic name_groups placement markdown html/html html/assets \
  verdict/verdict verdict/evidence verdict/cause verdict/source_line $(patsubst report/%.cpp,%,$(wildcard report/verdict/rules/*.cpp)))

REPORT_COMMAND_OBJS := $(patsubst report/%.cpp,$(BUILD)/obj/report/%.o, report/log_reader.cpp $(wildcard report/check/*.cpp) $(wildcard report/command/*.cpp))

$(REPORT_OBJS) $(REPORT_COMMAND_OBJS): EXTRA_CXXFLAGS += -DFMT_HEADER_ONLY

$(BUILD)/obj/report/html/assets.o: report/html/assets.S report/html/report.html $(wildcard report/html/style/* report/html/script/*)
	@mkdir -p $(@D)
	$(CXX) -fPIC -c $< -o $@

# What a rehearsal can be asked for is read as the simulation itself reads it; suppressions have the policy's patterns.
REPORT_COMMAND_USES := $(BUILD)/obj/simulate/model/parts.o $(BUILD)/obj/simulate/model/readings.o $(BUILD)/obj/tracker/pattern.o

$(BUILD)/devtrace: $(REPORT_COMMAND_OBJS) $(REPORT_OBJS) $(REPORT_COMMAND_USES)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) $^ -o $@

# Everything but main, under GoogleTest.
REPORT_TEST_SRCS := $(wildcard tests/unit/report/*.cpp)
REPORT_TEST_OBJS := $(REPORT_TEST_SRCS:%.cpp=$(BUILD)/obj/%.o)
$(REPORT_TEST_OBJS): EXTRA_CXXFLAGS += -DFMT_HEADER_ONLY

$(BUILD)/report-tests: $(REPORT_TEST_OBJS) $(REPORT_OBJS) $(filter-out %/command/main.o,$(REPORT_COMMAND_OBJS)) $(REPORT_COMMAND_USES)
	$(CXX) $(LDFLAGS) $^ -lgmock -lgtest -lgtest_main -pthread -o $@
UNIT_TEST_BINARIES += $(BUILD)/report-tests
