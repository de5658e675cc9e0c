# Programs that the tests of whole programs start.

# The matrix of launches, allocations and places: a program linked to the stubs, and what it puts between them and libdevtrace.so.
MATRIX_OBJECTS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(filter-out %/shim.cpp,$(wildcard tests/programs/matrix/*.cpp)))
$(MATRIX_OBJECTS): EXTRA_CXXFLAGS = -isystem $(CUDA_INCLUDE)
$(MATRIX_OBJECTS): | setup-python
$(BUILD)/matrix: $(MATRIX_OBJECTS) $(IN_SIMULATE)
	$(CXX) -o $@ $^ -ldl -Wl,-rpath,'$$ORIGIN/simulate'
# The same, by the same name, with a runtime inside, as nvcc links it.
$(BUILD)/static/matrix: $(MATRIX_OBJECTS) $(IN_SIMULATE)
	mkdir -p $(@D)
	$(CXX) -o $@ $(filter %.o,$^) $(CUDA_INCLUDE)/../lib/libcudart_static.a $(filter %/libcuda.so.1,$^) -lrt -lpthread -ldl -Wl,-rpath,'$$ORIGIN/../simulate'
$(BUILD)/matrix-shim.so: $(BUILD)/obj/tests/programs/matrix/shim.o
	$(CXX) -shared -o $@ $^ -ldl
E2E_PROGRAMS += $(BUILD)/matrix $(BUILD)/static/matrix $(BUILD)/matrix-shim.so

# A profiler of the stubs' calls: a program that subscribes, and a library that the driver loads.
PROFILER_OBJECTS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard tests/programs/cupti/*.cpp))
$(PROFILER_OBJECTS): EXTRA_CXXFLAGS = -isystem $(CUDA_INCLUDE)
$(PROFILER_OBJECTS): | setup-python
$(BUILD)/cupti-tests: $(filter-out %/injected.o,$(PROFILER_OBJECTS)) $(SIM)/libcupti.so.13 $(IN_SIMULATE)
	$(CXX) -o $@ $^ -lgtest -lpthread -ldl -Wl,-rpath,'$$ORIGIN/simulate'
$(BUILD)/cupti-injected.so: $(BUILD)/obj/tests/programs/cupti/injected.o $(SIM)/libcupti.so.13 $(SIM)/libcuda.so.1
	$(CXX) -shared -o $@ $^ -Wl,-rpath,'$$ORIGIN/simulate'
E2E_PROGRAMS += $(BUILD)/cupti-tests $(BUILD)/cupti-injected.so

# Look-ups by name, by the million: a test of what they leave behind and a benchmark of what they cost.
$(BUILD)/tests/lookups: $(BUILD)/obj/tests/programs/lookups/lookups.o
	mkdir -p $(@D)
	$(CXX) -o $@ $^ -ldl
E2E_PROGRAMS += $(BUILD)/tests/lookups
