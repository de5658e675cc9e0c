// Factors of matrices as LAPACK stores them.
#pragma once

#include <vector>

#include "simulate/numbers/memory.h"

namespace devtrace::simulate::numbers {

// P A = L U in the place of A; row i was exchanged with row pivots[i] - 1; none where `pivots` is null. The result: 0,
// or which number on U's diagonal is the first that is zero, from 1.
template <class S>
int factorise_lu(Matrix<S>& a, int* pivots);
// op(A) X = B by such factors; `pivots` null: without exchanges.
template <class S>
void solve_lu(const Matrix<S>& factors, const int* pivots, Operation on_a, Matrix<S>& b);
// A = L L^H or U^H U on that side of the diagonal. The result: 0, or the order of the first minor that is not positive.
template <class S>
int factorise_cholesky(Matrix<S>& a, Fill fill);
template <class S>
void solve_cholesky(const Matrix<S>& factor, Fill fill, Matrix<S>& b);
// A = Q R: R on and above the diagonal, the reflectors below it, their factors in `tau`.
template <class S>
void factorise_qr(Matrix<S>& a, Vector<S>& tau);
// op(Q) C, or C op(Q), of as many reflectors as there are factors.
template <class S>
void multiply_q(const Matrix<S>& reflectors, const Vector<S>& tau, Operation on_q, bool from_left, Matrix<S>& c);

}  // namespace devtrace::simulate::numbers
