// Factors of dense matrices, and what is solved by them. `info` is one of the device's, as LAPACK says it.
#pragma once

#include <functional>

#include "simulate/common/library.h"
#include "simulate/numbers/memory.h"
#pragma GCC visibility push(default)
#include <cusolverDn.h>
#pragma GCC visibility pop

namespace devtrace::simulate::cusolver {

using namespace numbers;

struct Call {
  const char* name;
  const void* handle;
  library::Memory memory;
};

// Of pivots: 32 or 64 bits each; null: none.
struct Pivots {
  void* data;
  size_t bytes_of_one;
};
template <class Integer>
Pivots pivots_at(const Integer* data) {
  return {const_cast<Integer*>(data), sizeof(Integer)};
}

cusolverStatus_t factorise_lu(const Call& call, Dense a, Pivots pivots, int* info);
cusolverStatus_t solve_lu(const Call& call, Operation on_a, Dense a, Pivots pivots, Dense b, int* info);
// Of many by tables of addresses, so many; 0: of one.
cusolverStatus_t factorise_cholesky(const Call& call, Fill fill, Dense a, int64_t count, int* info);
cusolverStatus_t solve_cholesky(const Call& call, Fill fill, Dense a, Dense b, int64_t count, int* info);
cusolverStatus_t invert_cholesky(const Call& call, Fill fill, Dense a, int* info);
cusolverStatus_t factorise_qr(const Call& call, Dense a, const void* tau, int* info);
// `a` becomes Q's first columns, of `count` reflectors.
cusolverStatus_t make_q(const Call& call, Dense a, int64_t count, const void* tau, int* info);
cusolverStatus_t multiply_q(const Call& call, bool from_left, Operation on_q, Dense reflectors, const void* tau,
                            Dense c, int* info);
// Ascending; the vectors in a's place.
cusolverStatus_t eigenvalues(const Call& call, bool vectors, Fill fill, Dense a, const void* values, int* info);
// a = U diag(values) V^H: of U and V^H all, the first ones, or none, as LAPACK's letters say (A, S, N). `v_itself`: V
// is wanted, not V^H.
cusolverStatus_t singular_values(const Call& call, char u_wanted, char v_wanted, bool v_itself, Dense a,
                                 const void* values, Dense u, Dense v, int* info);

}  // namespace devtrace::simulate::cusolver
