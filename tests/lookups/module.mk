# Look-ups by name, by the million: a test of what they leave behind and a benchmark of what they cost.
$(BUILD)/tests/lookups: $(BUILD)/obj/tests/lookups/lookups.o
	@mkdir -p $(@D)
	$(CXX) -o $@ $^ -ldl
e2e: $(BUILD)/tests/lookups
