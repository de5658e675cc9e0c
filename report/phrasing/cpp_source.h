// Calls in the text of a C++ statement. Every function answers nothing rather than guess.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace devtrace::report {

struct CppCall {
  size_t begin = 0, end = 0;                // of the whole call in the text, receiver included
  std::string_view receiver;                // `net->fc` of net->fc->forward(x); empty for a plain function
  std::string_view configuration;           // `4, 256` of a kernel<<<4, 256>>>(x)
  std::vector<std::string_view> arguments;  // as they are written
};

// The statement's only call of a function, by its name without namespaces and template arguments. Comments and strings
// are left out.
std::optional<CppCall> only_call(std::string_view statement, std::string_view name);

// The two sides of the statement's only binary operator of that text (`+`, `+=`, `<`), as far as brackets, commas,
// `return`, `=` and looser operators.
std::optional<CppCall> only_operator(std::string_view statement, std::string_view symbol);

// What a statement gives to one of PyTorch's operators, in the operator's order: as a function's arguments, as a
// method's receiver and arguments, or by a sign (`+` for add).
std::optional<std::vector<std::string_view>> operator_arguments(std::string_view statement, std::string_view operation);

// Whether the text calls a function of that name, or has the sign that an operator's name says (`operator*`).
bool calls(std::string_view text, std::string_view name);

// `float* x` gives x; nothing of an unnamed parameter.
std::string_view name_of_parameter(std::string_view declaration);

// How many more brackets open than close in a line; semicolons outside of brackets end a statement.
struct LineShape {
  int open = 0;
  int braces = 0;             // the same of { and }
  bool ends = false;          // its last sign is ; { or }
  bool is_statement = false;  // it is ;
};
LineShape shape_of(std::string_view line);

}  // namespace devtrace::report
