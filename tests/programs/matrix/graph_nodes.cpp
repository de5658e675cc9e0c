// Nodes are only added and changed, never launched.
#include "tests/programs/matrix/launch.h"

namespace matrix {

namespace {

cudaKernelNodeParams runtime_node(const Call& call) {
  cudaKernelNodeParams p{};
  p.func = &stub;
  p.gridDim = p.blockDim = dim3(1);
  p.kernelParams = call.parameters;
  return p;
}
cudaGraphNodeParams any_runtime_node(const Call& call) {
  cudaGraphNodeParams p{};
  p.type = cudaGraphNodeTypeKernel;
  p.kernel.func = &stub;
  p.kernel.gridDim = dim3(1);
  p.kernel.blockDim = dim3(1);
  p.kernel.kernelParams = call.parameters;
  return p;
}
CUgraphNodeParams any_driver_node(const Call& call) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_KERNEL;
  p.kernel = driver_node<CUDA_KERNEL_NODE_PARAMS_v3>(call);
  return p;
}

CUgraphNode added;  // the last one

}  // namespace

std::vector<Launch> graph_nodes() {
  using C = const Call&;
  return {
      {"cudaGraphAddKernelNode",
       [](C c) -> int { return cuda.cudaGraphAddKernelNode(&added, graph, nullptr, 0, address(runtime_node(c))); }},
      {"cudaGraphKernelNodeSetParams",
       [](C c) -> int { return cuda.cudaGraphKernelNodeSetParams(node, address(runtime_node(c))); }},
      {"cudaGraphExecKernelNodeSetParams",
       [](C c) -> int {
         const auto p = runtime_node(c);
         use(1);  // a node keeps its device
         const int result = cuda.cudaGraphExecKernelNodeSetParams(exec, node, &p);
         use(0);
         return result;
       }},
      {"cudaGraphAddNode",
       [](C c) -> int {
         return cuda.cudaGraphAddNode(&added, graph, nullptr, nullptr, 0, address(any_runtime_node(c)));
       }},
      {"cudaGraphNodeSetParams",
       [](C c) -> int { return cuda.cudaGraphNodeSetParams(node, address(any_runtime_node(c))); }},
      {"cudaGraphExecNodeSetParams",
       [](C c) -> int { return cuda.cudaGraphExecNodeSetParams(exec, node, address(any_runtime_node(c))); }},
      {"cuGraphAddKernelNode",
       [](C c) -> int {
         return cuda.cuGraphAddKernelNode(&added, graph, nullptr, 0,
                                          address(driver_node<CUDA_KERNEL_NODE_PARAMS_v1>(c)));
       }},
      {"cuGraphAddKernelNode_v2",
       [](C c) -> int {
         return cuda.cuGraphAddKernelNode_v2(&added, graph, nullptr, 0,
                                             address(driver_node<CUDA_KERNEL_NODE_PARAMS_v2>(c)));
       }},
      {"cuGraphAddKernelNode_v2:block",
       [](C c) -> int {
         return cuda.cuGraphAddKernelNode_v2(&added, graph, nullptr, 0,
                                             address(driver_node<CUDA_KERNEL_NODE_PARAMS_v2>(c, true)));
       }},
      {"cuGraphAddKernelNode_v2:context",
       [](C c) -> int {
         auto p = driver_node<CUDA_KERNEL_NODE_PARAMS_v2>(c);
         p.func = nullptr;
         p.kern = kernel;
         p.ctx = contexts[0];
         use(1);  // the device that counts is the context's
         const int result = cuda.cuGraphAddKernelNode_v2(&added, graph, nullptr, 0, &p);
         use(0);
         return result;
       }},
      {"cuGraphKernelNodeSetParams",
       [](C c) -> int {
         return cuda.cuGraphKernelNodeSetParams(node, address(driver_node<CUDA_KERNEL_NODE_PARAMS_v1>(c)));
       }},
      {"cuGraphKernelNodeSetParams_v2",
       [](C c) -> int {
         return cuda.cuGraphKernelNodeSetParams_v2(node, address(driver_node<CUDA_KERNEL_NODE_PARAMS_v2>(c)));
       }},
      {"cuGraphExecKernelNodeSetParams",
       [](C c) -> int {
         return cuda.cuGraphExecKernelNodeSetParams(exec, node, address(driver_node<CUDA_KERNEL_NODE_PARAMS_v1>(c)));
       }},
      {"cuGraphExecKernelNodeSetParams_v2",
       [](C c) -> int {
         return cuda.cuGraphExecKernelNodeSetParams_v2(exec, node, address(driver_node<CUDA_KERNEL_NODE_PARAMS_v2>(c)));
       }},
      {"cuGraphAddNode",
       [](C c) -> int { return cuda.cuGraphAddNode(&added, graph, nullptr, 0, address(any_driver_node(c))); }},
      {"cuGraphAddNode_v2",
       [](C c) -> int {
         return cuda.cuGraphAddNode_v2(&added, graph, nullptr, nullptr, 0, address(any_driver_node(c)));
       }},
      {"cuGraphNodeSetParams", [](C c) -> int { return cuda.cuGraphNodeSetParams(node, address(any_driver_node(c))); }},
      {"cuGraphExecNodeSetParams",
       [](C c) -> int { return cuda.cuGraphExecNodeSetParams(exec, node, address(any_driver_node(c))); }},
  };
}

}  // namespace matrix
