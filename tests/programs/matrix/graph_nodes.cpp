// Nodes are only added and changed, never launched.
#include "tests/programs/matrix/launch.h"
#include "tests/programs/matrix/stage.h"

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
  p.kernel = driver_node<CUDA_KERNEL_NODE_PARAMS_v3>(functions[0], call, false);
  return p;
}

}  // namespace

std::vector<Launch> graph_nodes() {
  using C = const Call&;
  return {
      {"cudaGraphAddKernelNode",
       [](C c) -> int {
         const auto p = runtime_node(c);
         CUgraphNode added;
         return cuda.cudaGraphAddKernelNode(&added, graph, nullptr, 0, &p);
       }},
      {"cudaGraphKernelNodeSetParams",
       [](C c) -> int {
         const auto p = runtime_node(c);
         return cuda.cudaGraphKernelNodeSetParams(node, &p);
       }},
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
         auto p = any_runtime_node(c);
         CUgraphNode added;
         return cuda.cudaGraphAddNode(&added, graph, nullptr, nullptr, 0, &p);
       }},
      {"cudaGraphNodeSetParams",
       [](C c) -> int {
         auto p = any_runtime_node(c);
         return cuda.cudaGraphNodeSetParams(node, &p);
       }},
      {"cudaGraphExecNodeSetParams",
       [](C c) -> int {
         auto p = any_runtime_node(c);
         return cuda.cudaGraphExecNodeSetParams(exec, node, &p);
       }},
      {"cuGraphAddKernelNode",
       [](C c) -> int {
         const auto p = driver_node<CUDA_KERNEL_NODE_PARAMS_v1>(functions[0], c, false);
         CUgraphNode added;
         return cuda.cuGraphAddKernelNode(&added, graph, nullptr, 0, &p);
       }},
      {"cuGraphAddKernelNode_v2",
       [](C c) -> int {
         const auto p = driver_node<CUDA_KERNEL_NODE_PARAMS_v2>(functions[0], c, false);
         CUgraphNode added;
         return cuda.cuGraphAddKernelNode_v2(&added, graph, nullptr, 0, &p);
       }},
      {"cuGraphAddKernelNode_v2:block",
       [](C c) -> int {
         const auto p = driver_node<CUDA_KERNEL_NODE_PARAMS_v2>(functions[0], c, true);
         CUgraphNode added;
         return cuda.cuGraphAddKernelNode_v2(&added, graph, nullptr, 0, &p);
       }},
      {"cuGraphAddKernelNode_v2:context",
       [](C c) -> int {
         auto p = driver_node<CUDA_KERNEL_NODE_PARAMS_v2>(functions[0], c, false);
         p.func = nullptr;
         p.kern = kernel;
         p.ctx = contexts[0];
         CUgraphNode added;
         use(1);  // the device that counts is the context's
         const int result = cuda.cuGraphAddKernelNode_v2(&added, graph, nullptr, 0, &p);
         use(0);
         return result;
       }},
      {"cuGraphKernelNodeSetParams",
       [](C c) -> int {
         const auto p = driver_node<CUDA_KERNEL_NODE_PARAMS_v1>(functions[0], c, false);
         return cuda.cuGraphKernelNodeSetParams(node, &p);
       }},
      {"cuGraphKernelNodeSetParams_v2",
       [](C c) -> int {
         const auto p = driver_node<CUDA_KERNEL_NODE_PARAMS_v2>(functions[0], c, false);
         return cuda.cuGraphKernelNodeSetParams_v2(node, &p);
       }},
      {"cuGraphExecKernelNodeSetParams",
       [](C c) -> int {
         const auto p = driver_node<CUDA_KERNEL_NODE_PARAMS_v1>(functions[0], c, false);
         return cuda.cuGraphExecKernelNodeSetParams(exec, node, &p);
       }},
      {"cuGraphExecKernelNodeSetParams_v2",
       [](C c) -> int {
         const auto p = driver_node<CUDA_KERNEL_NODE_PARAMS_v2>(functions[0], c, false);
         return cuda.cuGraphExecKernelNodeSetParams_v2(exec, node, &p);
       }},
      {"cuGraphAddNode",
       [](C c) -> int {
         auto p = any_driver_node(c);
         CUgraphNode added;
         return cuda.cuGraphAddNode(&added, graph, nullptr, 0, &p);
       }},
      {"cuGraphAddNode_v2",
       [](C c) -> int {
         auto p = any_driver_node(c);
         CUgraphNode added;
         return cuda.cuGraphAddNode_v2(&added, graph, nullptr, nullptr, 0, &p);
       }},
      {"cuGraphNodeSetParams",
       [](C c) -> int {
         auto p = any_driver_node(c);
         return cuda.cuGraphNodeSetParams(node, &p);
       }},
      {"cuGraphExecNodeSetParams",
       [](C c) -> int {
         auto p = any_driver_node(c);
         return cuda.cuGraphExecNodeSetParams(exec, node, &p);
       }},
  };
}

}  // namespace matrix
