// Kernels that a library has as machine code alone, computed by their published meaning.
#pragma once

#include "simulate/model/kernels/module.h"
#include "simulate/model/operation.h"

namespace devtrace::simulate {

// Gives the launch what computes it, where its kernel is one of the table's; `arguments`: its parameters.
void compute_by_meaning(Operation* operation, const Function& f, const Arguments& arguments);

// Whether compute_by_meaning would: cheap, for every launch.
bool has_meaning(const Function& f);

}  // namespace devtrace::simulate
