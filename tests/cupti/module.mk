# A profiler of the stand-ins' calls: a program that subscribes, and a library that the driver loads.
$(BUILD)/obj/tests/cupti/%.o: EXTRA_CXXFLAGS = -isystem $(CUDA_INCLUDE)
CUPTI_TEST_OBJECTS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(filter-out tests/cupti/injected.cpp,$(wildcard tests/cupti/*.cpp)))
$(BUILD)/cupti-tests: $(CUPTI_TEST_OBJECTS) $(SIM)/libcupti.so.13 $(SIM)/libcudart.so.13 $(SIM)/libcuda.so.1
	$(CXX) -o $@ $^ -lgtest -lpthread -ldl -Wl,-rpath,'$$ORIGIN/simulate'
$(BUILD)/cupti-injected.so: $(BUILD)/obj/tests/cupti/injected.o $(SIM)/libcupti.so.13 $(SIM)/libcuda.so.1
	$(CXX) -shared -o $@ $^ -Wl,-rpath,'$$ORIGIN/simulate'
e2e: $(BUILD)/cupti-tests $(BUILD)/cupti-injected.so
