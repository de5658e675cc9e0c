#include "simulate/values/older_pytorch.h"

#include <gtest/gtest.h>

namespace devtrace::simulate::values {
namespace {

// That kernels are kept, the pairs of `make matrix` with a PyTorch before 2.9 show.
TEST(OlderPytorch, WithoutPytorchNoKernelIsKept) {
  EXPECT_FALSE(keep_kernel("aten::add", "Tensor", 1, 2));
}

}  // namespace
}  // namespace devtrace::simulate::values
