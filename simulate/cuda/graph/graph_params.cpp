#include "simulate/cuda/graph/graph_params.h"

#include "simulate/model/memory/memory.h"
#include "simulate/model/memory/pool.h"

namespace devtrace::simulate {
namespace {

CUresult with_context(Operation& op, CUcontext given) {
  REQUIRE_CONTEXT(context);
  if (given && !handles<CUctx_st>().has(given)) return CUDA_ERROR_INVALID_CONTEXT;
  op.context = given ? given : context;
  return CUDA_SUCCESS;
}

CUresult assign_alloc(Operation& op, CUDA_MEM_ALLOC_NODE_PARAMS& p) {
  int ordinal = p.poolProps.location.id;
  if (!p.bytesize || p.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  TRY(GraphMemory::allocate(default_pool(ordinal), p.bytesize, op.context, &op.memory));
  p.dptr = op.memory->address();
  op.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  op.alloc = p;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult assign(Operation& op, const CUDA_KERNEL_NODE_PARAMS& p) {
  TRY(with_context(op, p.ctx));
  Shape shape = {{p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ}, p.sharedMemBytes};
  CUfunction function = p.func ? p.func : reinterpret_cast<CUfunction>(p.kern);
  TRY(make_kernel(function, shape, p.kernelParams, p.extra, &op));
  keep_arguments(&op);
  return CUDA_SUCCESS;
}

CUresult assign(Operation& op, const CUDA_MEMCPY3D& p) {
  TRY(with_context(op, nullptr));
  TRY(check_copy(p));
  op.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  op.copy = p;
  return CUDA_SUCCESS;
}

CUresult assign(Operation& op, const CUDA_MEMSET_NODE_PARAMS& p) {
  TRY(with_context(op, nullptr));
  TRY(check_set(p));
  op.type = CU_GRAPH_NODE_TYPE_MEMSET;
  op.set = p;
  return CUDA_SUCCESS;
}

CUresult assign(Operation& op, const CUDA_HOST_NODE_PARAMS& p) {
  TRY(with_context(op, nullptr));
  if (!p.fn) return CUDA_ERROR_INVALID_VALUE;
  op.type = CU_GRAPH_NODE_TYPE_HOST;
  op.host = p;
  return CUDA_SUCCESS;
}

CUresult assign_event(Operation& op, CUgraphNodeType type, CUevent event) {
  TRY(with_context(op, nullptr));
  if (!handles<CUevent_st>().has(event)) return CUDA_ERROR_INVALID_HANDLE;
  op.type = type;
  op.event = event;
  return CUDA_SUCCESS;
}

CUresult assign_child(Operation& op, CUgraph child) {
  if (!handles<CUgraph_st>().has(child)) return CUDA_ERROR_INVALID_VALUE;
  op.type = CU_GRAPH_NODE_TYPE_GRAPH;
  op.child = clone_graph(child);
  op.child->child = true;
  return CUDA_SUCCESS;
}

CUresult assign(Operation& op, CUgraphNodeParams& p) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS k = {};
      k.func = p.kernel.func;
      k.gridDimX = p.kernel.gridDimX;
      k.gridDimY = p.kernel.gridDimY;
      k.gridDimZ = p.kernel.gridDimZ;
      k.blockDimX = p.kernel.blockDimX;
      k.blockDimY = p.kernel.blockDimY;
      k.blockDimZ = p.kernel.blockDimZ;
      k.sharedMemBytes = p.kernel.sharedMemBytes;
      k.kernelParams = p.kernel.kernelParams;
      k.extra = p.kernel.extra;
      k.kern = p.kernel.kern;
      k.ctx = p.kernel.ctx;
      return assign(op, k);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return assign(op, p.memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      CUDA_MEMSET_NODE_PARAMS m = {p.memset.dst,         p.memset.pitch, p.memset.value,
                                   p.memset.elementSize, p.memset.width, p.memset.height};
      return assign(op, m);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      return assign(op, CUDA_HOST_NODE_PARAMS{p.host.fn, p.host.userData});
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return assign_child(op, p.graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      op.type = p.type;
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return assign_event(op, p.type, p.eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return assign_event(op, p.type, p.eventWait.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      TRY(with_context(op, nullptr));
      CUDA_MEM_ALLOC_NODE_PARAMS a = {};
      a.poolProps = p.alloc.poolProps;
      a.bytesize = p.alloc.bytesize;
      TRY(assign_alloc(op, a));
      p.alloc.dptr = a.dptr;
      return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      op.type = p.type;
      op.free = p.free.dptr;
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
      TRY(with_context(op, p.conditional.ctx));
      TRY(make_conditional(p.conditional, &op.conditional));
      op.type = p.type;
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

void expose_arguments(Operation& op, CUDA_KERNEL_NODE_PARAMS* p) {
  *p = op.kernel;
  op.arguments.pointers.clear();
  for (size_t offset : op.arguments.offsets) op.arguments.pointers.push_back(op.arguments.values.data() + offset);
  p->kernelParams = op.arguments.pointers.empty() ? nullptr : op.arguments.pointers.data();
  p->ctx = op.context;
}

}  // namespace devtrace::simulate
