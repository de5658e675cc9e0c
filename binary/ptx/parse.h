// PTX text to data.
#pragma once

#include <optional>
#include <string>

#include "binary/ptx/module.h"

namespace devtrace::ptx {

struct Error {
  size_t line = 0;
  std::string text;
};

// Bad text is an error with its line. Takes memory in proportion to the text, whatever that claims. Throws
// std::bad_alloc and nothing else.
std::optional<Module> parse(std::string text, Error* error);

}  // namespace devtrace::ptx
