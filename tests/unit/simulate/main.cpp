// The settings are read at the first call, so they are made before any.
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  setenv("DEVTRACE_SIM_GPUS", "4", 1);
  setenv("DEVTRACE_SIM_MEMORY", "64MiB", 1);
  setenv("DEVTRACE_SIM_PEER", "0-1,2-3", 1);
  unsetenv("CUDA_VISIBLE_DEVICES");
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
