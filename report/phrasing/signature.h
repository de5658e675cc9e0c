// C++ signatures as demanglers write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace devtrace::report {

// `cudaMalloc<float>` of "cudaError cudaMalloc<float>(float**, unsigned long)".
std::string_view name_in_signature(std::string_view signature);

// `add` of "void mine::add<float>(float*, int)", `operator+` of "operator+<float>".
std::string unqualified_name(std::string_view signature);

// The whole name as people read it: `each<…>` where what stands in brackets fills the line, as the type of a lambda
// does.
std::string short_name_in_signature(std::string_view signature);

// {"float**", "unsigned long"} of the same; nothing of what is no signature.
std::vector<std::string_view> parameter_types(std::string_view signature);

// What stands between commas outside of brackets: the arguments of a call, or its parameters.
std::vector<std::string_view> split_arguments(std::string_view arguments);

}  // namespace devtrace::report
