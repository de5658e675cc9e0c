#include "tests/programs/matrix/launch.h"

namespace matrix {

namespace {

CUlaunchConfig driver_config() {
  CUlaunchConfig c{};
  c.gridDimX = c.gridDimY = c.gridDimZ = c.blockDimX = c.blockDimY = c.blockDimZ = 1;
  return c;
}
cudaLaunchConfig_t runtime_config() {
  cudaLaunchConfig_t c{};
  c.gridDim = c.blockDim = dim3(1);
  return c;
}

int set_one_by_one(const Call& call) {
  CHECK(cuda.cuFuncSetBlockShape(functions[0], 1, 1, 1));
  CHECK(cuda.cuParamSetSize(functions[0], sizeof(Arguments)));
  CHECK(cuda.cuParamSetv(functions[0], 0, &call.arguments, sizeof(Arguments)));
  return 0;
}

const dim3 kOne(1);

}  // namespace

std::vector<Launch> plain_launches() {
  using C = const Call&;
  return {
      {"cudaLaunchKernel",
       [](C c) -> int { return cuda.cudaLaunchKernel(&stub, kOne, kOne, c.parameters, 0, nullptr); }},
      {"cudaLaunchKernel:kernel",
       [](C c) -> int { return cuda.cudaLaunchKernel(kernel, kOne, kOne, c.parameters, 0, nullptr); }},
      {"cudaLaunchKernel_ptsz",
       [](C c) -> int { return cuda.cudaLaunchKernel_ptsz(&stub, kOne, kOne, c.parameters, 0, nullptr); }},
      {"cudaLaunchKernelExC",
       [](C c) -> int { return cuda.cudaLaunchKernelExC(address(runtime_config()), &stub, c.parameters); }},
      {"cudaLaunchKernelExC_ptsz",
       [](C c) -> int { return cuda.cudaLaunchKernelExC_ptsz(address(runtime_config()), &stub, c.parameters); }},
      {"cudaLaunchCooperativeKernel",
       [](C c) -> int { return cuda.cudaLaunchCooperativeKernel(&stub, kOne, kOne, c.parameters, 0, nullptr); }},
      {"cudaLaunchCooperativeKernel_ptsz",
       [](C c) -> int { return cuda.cudaLaunchCooperativeKernel_ptsz(&stub, kOne, kOne, c.parameters, 0, nullptr); }},
      {"__cudaLaunchKernel",
       [](C c) -> int { return cuda.__cudaLaunchKernel(kernel, kOne, kOne, c.parameters, 0, nullptr); }},
      {"__cudaLaunchKernel_ptsz",
       [](C c) -> int { return cuda.__cudaLaunchKernel_ptsz(kernel, kOne, kOne, c.parameters, 0, nullptr); }},
      {"cudaLaunchKernel:captured",
       [](C c) -> int {
         cudaStream_t stream;
         cudaGraph_t captured;
         CHECK(cuda.cudaStreamCreate(&stream));
         CHECK(cuda.cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
         const int result = cuda.cudaLaunchKernel(&stub, kOne, kOne, c.parameters, 0, stream);
         CHECK(cuda.cudaStreamEndCapture(stream, &captured));
         CHECK(cuda.cudaGraphDestroy(captured));
         CHECK(cuda.cudaStreamDestroy(stream));
         return result;
       }},
      {"cuLaunchKernel",
       [](C c) -> int {
         return cuda.cuLaunchKernel(functions[0], 1, 1, 1, 1, 1, 1, 0, nullptr, c.parameters, nullptr);
       }},
      {"cuLaunchKernel:block",
       [](C c) -> int { return cuda.cuLaunchKernel(functions[0], 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, c.extra); }},
      {"cuLaunchKernel:kernel",
       [](C c) -> int {
         return cuda.cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, c.parameters,
                                    nullptr);
       }},
      {"cuLaunchKernel_ptsz",
       [](C c) -> int {
         return cuda.cuLaunchKernel_ptsz(functions[0], 1, 1, 1, 1, 1, 1, 0, nullptr, c.parameters, nullptr);
       }},
      {"cuLaunchKernelEx",
       [](C c) -> int { return cuda.cuLaunchKernelEx(address(driver_config()), functions[0], c.parameters, nullptr); }},
      {"cuLaunchKernelEx:block",
       [](C c) -> int { return cuda.cuLaunchKernelEx(address(driver_config()), functions[0], nullptr, c.extra); }},
      {"cuLaunchKernelEx_ptsz",
       [](C c) -> int {
         return cuda.cuLaunchKernelEx_ptsz(address(driver_config()), functions[0], c.parameters, nullptr);
       }},
      {"cuLaunchCooperativeKernel",
       [](C c) -> int {
         return cuda.cuLaunchCooperativeKernel(functions[0], 1, 1, 1, 1, 1, 1, 0, nullptr, c.parameters);
       }},
      {"cuLaunchCooperativeKernel_ptsz",
       [](C c) -> int {
         return cuda.cuLaunchCooperativeKernel_ptsz(functions[0], 1, 1, 1, 1, 1, 1, 0, nullptr, c.parameters);
       }},
      {"cuLaunchCooperativeKernelMultiDevice",
       [](C c) -> int {
         CUstream stream;
         CHECK(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
         CUDA_LAUNCH_PARAMS one{functions[0], 1, 1, 1, 1, 1, 1, 0, stream, c.parameters};
         use(1);  // the device that counts is the stream's
         const int result = cuda.cuLaunchCooperativeKernelMultiDevice(&one, 1, 0);
         use(0);
         CHECK(cuda.cuStreamSynchronize(stream));
         CHECK(cuda.cuStreamDestroy_v2(stream));
         return result;
       }},
      {"cuLaunch", [](C c) -> int { return set_one_by_one(c) ? 1 : cuda.cuLaunch(functions[0]); }},
      {"cuLaunchGrid", [](C c) -> int { return set_one_by_one(c) ? 1 : cuda.cuLaunchGrid(functions[0], 1, 1); }},
      {"cuLaunchGridAsync",
       [](C c) -> int { return set_one_by_one(c) ? 1 : cuda.cuLaunchGridAsync(functions[0], 1, 1, nullptr); }},
  };
}

}  // namespace matrix
