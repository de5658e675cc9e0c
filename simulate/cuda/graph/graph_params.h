// Between the parameter structs of graph nodes and operations: one overload of assign() a kind of node. So adding
// a node, changing it, and changing it in an executable graph are one function each.
#pragma once

#include "simulate/cuda/api.h"
#include "simulate/cuda/launch.h"
#include "simulate/model/graph/graph.h"

namespace devtrace::simulate {

CUresult assign(Operation& op, const CUDA_KERNEL_NODE_PARAMS& p);
CUresult assign(Operation& op, const CUDA_MEMCPY3D& p);
CUresult assign(Operation& op, const CUDA_MEMSET_NODE_PARAMS& p);
CUresult assign(Operation& op, const CUDA_HOST_NODE_PARAMS& p);
// A node whose kind only the struct itself says.
CUresult assign(Operation& op, CUgraphNodeParams& p);
// For the two kinds of event node, which share a parameter type.
CUresult assign_event(Operation& op, CUgraphNodeType type, CUevent event);
CUresult assign_child(Operation& op, CUgraph child);

// The type that a parameter struct stands for; EMPTY for those that fit several.
inline CUgraphNodeType type_of(const CUDA_KERNEL_NODE_PARAMS&) {
  return CU_GRAPH_NODE_TYPE_KERNEL;
}
inline CUgraphNodeType type_of(const CUDA_MEMCPY3D&) {
  return CU_GRAPH_NODE_TYPE_MEMCPY;
}
inline CUgraphNodeType type_of(const CUDA_MEMSET_NODE_PARAMS&) {
  return CU_GRAPH_NODE_TYPE_MEMSET;
}
inline CUgraphNodeType type_of(const CUDA_HOST_NODE_PARAMS&) {
  return CU_GRAPH_NODE_TYPE_HOST;
}
inline CUgraphNodeType type_of(const CUgraphNodeParams& p) {
  return p.type;
}

// The kernel's arguments as kernelParams: valid until the node changes.
void expose_arguments(Operation& op, CUDA_KERNEL_NODE_PARAMS* p);

}  // namespace devtrace::simulate
