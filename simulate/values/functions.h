// What python/ may call of us.
#pragma once

#include <span>

#include "common/python_api.h"

namespace devtrace::simulate::values {

// One row for each; what it takes and gives stands at its definition.
std::span<python::PyMethodDef> functions();

}  // namespace devtrace::simulate::values
