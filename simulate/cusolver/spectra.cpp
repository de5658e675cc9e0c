// Eigenvalues and singular values, in double precision for all types.
#include <eigen3/Eigen/Eigenvalues>
#include <eigen3/Eigen/SVD>

#include "simulate/cusolver/compute.h"

namespace devtrace::simulate::cusolver {
namespace {

cudaDataType real_type(cudaDataType type) {
  return type == CUDA_C_32F ? CUDA_R_32F : type == CUDA_C_64F ? CUDA_R_64F : type;
}

}  // namespace

cusolverStatus_t eigenvalues(const Call& call, bool vectors, Fill fill, Dense a, const void* values, int* info) {
  if (is_wrong(a)) return CUSOLVER_STATUS_INVALID_VALUE;
  return compute(call, info, 1, wider(precision_of(a.type), Precision::real64), [=](auto s) {
    using S = decltype(s);
    Matrix<S> matrix = numbers::read<S>(a);
    mirror(matrix, fill, true);
    const Eigen::SelfAdjointEigenSolver<Matrix<S>> solved(
        matrix, vectors ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
    const Strided place = {real_type(a.type), values, a.rows, 1};
    numbers::write<typename Eigen::NumTraits<S>::Real>(place, solved.eigenvalues());
    if (vectors) numbers::write<S>(a, solved.eigenvectors());
    put(info, 0, solved.info() == Eigen::Success ? 0 : static_cast<int>(a.rows));
  });
}

cusolverStatus_t singular_values(const Call& call, char u_wanted, char v_wanted, bool v_itself, Dense a,
                                 const void* values, Dense u, Dense v, int* info) {
  if (is_wrong(a)) return CUSOLVER_STATUS_INVALID_VALUE;
  if (u_wanted == 'O' || v_wanted == 'O') return CUSOLVER_STATUS_INVALID_VALUE;
  return compute(call, info, 1, wider(precision_of(a.type), Precision::real64), [=](auto s) {
    using S = decltype(s);
    const auto option = [](char wanted, unsigned all, unsigned some) {
      return wanted == 'A' ? all : wanted == 'S' ? some : 0u;
    };
    const Eigen::JacobiSVD<Matrix<S>> svd(numbers::read<S>(a),
                                          option(u_wanted, Eigen::ComputeFullU, Eigen::ComputeThinU) |
                                              option(v_wanted, Eigen::ComputeFullV, Eigen::ComputeThinV));
    const Strided place = {real_type(a.type), values, std::min(a.rows, a.columns), 1};
    numbers::write<typename Eigen::NumTraits<S>::Real>(place, svd.singularValues());
    const auto sized = [](Dense m, const Matrix<S>& by) {
      return Dense{m.type, m.data, by.rows(), by.cols(), m.stride};
    };
    if (u_wanted != 'N') numbers::write<S>(sized(u, svd.matrixU()), svd.matrixU());
    if (v_wanted != 'N') {
      const Matrix<S> right = v_itself ? Matrix<S>(svd.matrixV()) : Matrix<S>(svd.matrixV().adjoint());
      numbers::write(sized(v, right), right);
    }
    put(info, 0, 0);
  });
}

}  // namespace devtrace::simulate::cusolver
