// What a C++ statement calls the memory that it makes.
#pragma once

#include <string_view>

namespace devtrace::report {

// `x` of `float* x = field(4);`, `cudaMalloc((void**)&x, 4)` and `thrust::device_vector<float> x(4);`, `p.in` of
// `p.in = make(4);`. Empty where the statement shows none.
std::string_view made_name(std::string_view statement);

}  // namespace devtrace::report
