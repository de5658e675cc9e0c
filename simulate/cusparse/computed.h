// cuSPARSE's functions that are computed, by the parameters that its header gives them, without the handle:
// tools/library.py writes the calls.
#pragma once

#include "simulate/cusparse/matrix.h"

namespace devtrace::simulate::cusparse {

template <class... Rest>
cusparseStatus_t preprocess(const Call& call, const Rest&...) {
  return prepare(call);
}

}  // namespace devtrace::simulate::cusparse
