// Transforms in double precision, by Eigen's: along each dimension in its turn.
#include <complex>
#include <cstring>
#include <eigen3/unsupported/Eigen/FFT>

#include "simulate/cufft/plan.h"

namespace devtrace::simulate::cufft {
namespace {

using numbers::Complex64;
using Sizes = std::array<int64_t, kMostDimensions>;

bool is_real(cudaDataType type) {
  return type == CUDA_R_32F || type == CUDA_R_64F;
}

// One side of a plan: `sizes` numbers, of which those of a real transform's other side are half in the last dimension.
struct Side {
  Layout layout;
  Sizes sizes = {};
  int rank;

  Side(const Plan& plan, const Layout& of, bool other_is_real, bool in_place) : layout(of), rank(plan.rank) {
    sizes = plan.sizes;
    int64_t& last = sizes[static_cast<size_t>(rank - 1)];
    if (other_is_real && !is_real(layout.type)) last = last / 2 + 1;
    if (layout.given) return;
    layout.embed = sizes;
    if (is_real(layout.type) && in_place) layout.embed[static_cast<size_t>(rank - 1)] = 2 * (last / 2 + 1);
    layout.stride = 1;
    layout.distance = 1;
    for (int i = 0; i < rank; ++i) layout.distance *= layout.embed[static_cast<size_t>(i)];
  }
  int64_t rows() const {
    int64_t all = 1;
    for (int i = 0; i + 1 < rank; ++i) all *= sizes[static_cast<size_t>(i)];
    return all;
  }
  int64_t length() const { return sizes[static_cast<size_t>(rank - 1)]; }
  // Where the i-th row of one transform begins.
  int64_t row(int64_t i) const {
    int64_t place = 0, step = layout.stride * layout.embed[static_cast<size_t>(rank - 1)];
    for (int d = rank - 2; d >= 0; --d) {
      const int64_t size = sizes[static_cast<size_t>(d)];
      place += i % size * step;
      i /= size;
      step *= layout.embed[static_cast<size_t>(d)];
    }
    return place;
  }
  size_t row_bytes() const {
    return static_cast<size_t>((length() - 1) * layout.stride + 1) * numbers::bytes_of(layout.type);
  }
};

// Numbers of one transform, the last dimension closest.
struct Grid {
  std::vector<Complex64> values;
  Sizes sizes;
  int rank;

  void along(int dimension, bool inverse) {
    const int64_t n = sizes[static_cast<size_t>(dimension)];
    if (n == 1) return;  // one number is its own transform, of which Eigen's ends in a fault
    int64_t inner = 1;
    for (int d = dimension + 1; d < rank; ++d) inner *= sizes[static_cast<size_t>(d)];
    const int64_t outer = static_cast<int64_t>(values.size()) / (n * inner);
    thread_local Eigen::FFT<double> fft(Eigen::default_fft_impl<double>(), Eigen::FFT<double>::Unscaled);
    std::vector<Complex64> line(static_cast<size_t>(n)), found(static_cast<size_t>(n));
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        Complex64* const first = values.data() + o * n * inner + i;
        for (int64_t k = 0; k < n; ++k) line[static_cast<size_t>(k)] = first[k * inner];
        if (inverse)
          fft.inv(found.data(), line.data(), n);
        else
          fft.fwd(found.data(), line.data(), n);
        for (int64_t k = 0; k < n; ++k) first[k * inner] = found[static_cast<size_t>(k)];
      }
  }

  // The half of a real signal's spectrum that is not stored: the conjugates of the other one.
  void complete(int64_t stored) {
    const auto last = static_cast<size_t>(rank - 1);
    const int64_t n = sizes[last], rows = static_cast<int64_t>(values.size()) / n;
    for (int64_t row = 0; row < rows; ++row) {
      int64_t opposite = 0, rest = row, step = 1;
      for (int d = rank - 2; d >= 0; --d) {
        const int64_t size = sizes[static_cast<size_t>(d)], at = rest % size;
        opposite += (size - at) % size * step;
        step *= size;
        rest /= size;
      }
      for (int64_t k = stored; k < n; ++k)
        values[static_cast<size_t>(row * n + k)] = std::conj(values[static_cast<size_t>(opposite * n + n - k)]);
    }
  }
};

}  // namespace

bool is_computed(const Plan& plan) {
  return plan.rank > 0 && !plan.has_callback && numbers::is_known(plan.input.type) &&
         numbers::is_known(plan.output.type);
}

void transform(const Plan& plan, const void* from, void* to, bool inverse) {
  const bool real_input = is_real(plan.input.type), real_output = is_real(plan.output.type);
  const Side input(plan, plan.input, real_output, from == to), output(plan, plan.output, real_input, from == to);
  int64_t rows = input.rows(), n = plan.sizes[static_cast<size_t>(plan.rank - 1)];
  const auto size = static_cast<size_t>(rows * n);
  std::vector<Grid> all;
  for (int64_t b = 0; b < plan.batch; ++b) {
    Grid& grid = all.emplace_back(Grid{std::vector<Complex64>(size), plan.sizes, plan.rank});
    for (int64_t i = 0; i < rows; ++i) {
      const void* const row = numbers::at(input.layout.type, from, b * input.layout.distance + input.row(i));
      library::reads(row, input.row_bytes());
      numbers::get(input.layout.type, row, input.layout.stride, input.length(), grid.values.data() + i * n);
    }
    if (real_output) grid.complete(input.length());
    for (int d = 0; d < plan.rank; ++d) grid.along(d, inverse || real_output);
    if (from == to) continue;  // what is written may lie where the next one is read
    for (int64_t i = 0; i < rows; ++i) {
      void* const row = numbers::at(output.layout.type, to, b * output.layout.distance + output.row(i));
      library::writes(row, output.row_bytes());
      numbers::put(output.layout.type, row, output.layout.stride, output.length(), grid.values.data() + i * n);
    }
    all.clear();
  }
  for (int64_t b = 0; b < static_cast<int64_t>(all.size()); ++b)
    for (int64_t i = 0; i < rows; ++i) {
      void* const row = numbers::at(output.layout.type, to, b * output.layout.distance + output.row(i));
      library::writes(row, output.row_bytes());
      numbers::put(output.layout.type, row, output.layout.stride, output.length(),
                   all[static_cast<size_t>(b)].values.data() + i * n);
    }
}

}  // namespace devtrace::simulate::cufft
