# The matrix of launches, allocations and places: a program linked to the stand-ins, and what it puts between them and libdevtrace.so.
MATRIX_OBJS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(filter-out %/shim.cpp,$(wildcard tests/matrix/*.cpp)))
$(MATRIX_OBJS): EXTRA_CXXFLAGS = -isystem $(CUDA_INCLUDE)
$(BUILD)/matrix: $(MATRIX_OBJS) $(SIM)/libcudart.so.13 $(SIM)/libcuda.so.1
	$(CXX) -o $@ $^ -ldl -Wl,-rpath,'$$ORIGIN/simulate'
$(BUILD)/matrix-shim.so: $(BUILD)/obj/tests/matrix/shim.o
	$(CXX) -shared -o $@ $^ -ldl
e2e: $(BUILD)/matrix $(BUILD)/matrix-shim.so
