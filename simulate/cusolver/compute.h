// How a function of cuSOLVER is computed on its handle's stream.
#pragma once

#include <algorithm>

#include "simulate/cusolver/dense.h"

namespace devtrace::simulate::cusolver {

inline bool is_wrong(const Dense& m) {
  return m.rows < 0 || m.columns < 0 || m.stride < std::max<int64_t>(1, m.rows) || !is_known(m.type);
}

inline void put(int* info, int64_t i, int value) {
  if (!info) return;
  library::writes(info + i, sizeof value);
  info[i] = value;
}

// `work(S())` with what numbers of the kind are computed in.
template <class Work>
cusolverStatus_t compute(const Call& call, int* info, int64_t count, Precision kind, Work work) {
  if (!library::calculates()) library::succeed(info, count);
  const bool failed = library::calculate_in_current(call.name, call.handle, call.memory,
                                                    [=] { in_precision(kind, [&](auto s) { work(s); }); });
  return failed ? CUSOLVER_STATUS_EXECUTION_FAILED : CUSOLVER_STATUS_SUCCESS;
}

}  // namespace devtrace::simulate::cusolver
