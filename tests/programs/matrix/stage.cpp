#include "tests/programs/matrix/stage.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/programs/matrix/launch.h"

namespace matrix {

char stub;
cudaKernel_t kernel;
CUmodule modules[2];
CUfunction functions[2];
CUcontext contexts[2];
CUgraph graph;
CUgraphNode node;
CUgraphExec exec;
void* here;

void use(int device) {
  CHECK(cuda.cudaSetDevice(device));
}

void prepare() {
  const std::string text = kernel_text();
  static char image[1 << 14];  // in the program itself, where nvcc puts it
  if (text.size() >= sizeof image) std::abort();
  std::memcpy(image, text.c_str(), text.size() + 1);
  static struct {
    int magic, version;
    const void* data;
    void* more;
  } wrapper{0x466243b1, 1, image, nullptr};
  void** const binary = cuda.__cudaRegisterFatBinary(&wrapper);
  static char name[] = "touch";
  cuda.__cudaRegisterFunction(binary, &stub, name, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  for (int device : {1, 0}) {
    use(device);
    CHECK(cuda.cudaFree(nullptr));
    CHECK(cuda.cuCtxGetCurrent(&contexts[device]));
    CHECK(cuda.cuModuleLoadData(&modules[device], text.c_str()));
    CHECK(cuda.cuModuleGetFunction(&functions[device], modules[device], "touch"));
  }
  CHECK(cuda.__cudaGetKernel(&kernel, &stub));
  CHECK(cuda.cudaMalloc(&here, kBytes));
  CHECK(cuda.cuGraphCreate(&graph, 0));
  Arguments clean = arguments_with("", here, here);
  const Launch add{"", [](const Call& call) -> int {
                     const auto p = driver_node<CUDA_KERNEL_NODE_PARAMS_v2>(call);
                     return cuda.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &p);
                   }};
  CHECK(run(add, clean));
  CHECK(cuda.cuGraphInstantiateWithFlags(&exec, graph, 0));
}

}  // namespace matrix
