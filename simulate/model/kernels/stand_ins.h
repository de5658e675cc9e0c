// Kernels that a library has as machine code alone, computed by their published meaning.
#pragma once

#include "simulate/model/kernels/module.h"
#include "simulate/model/operation.h"

namespace devtrace::simulate {

// Gives the launch what computes it, where its kernel is one of the table's; `arguments`: its parameters.
void use_stand_in(Operation* operation, const Function& f, const Arguments& arguments);

// Whether use_stand_in would: cheap, for every launch.
bool has_stand_in(const Function& f);

}  // namespace devtrace::simulate
