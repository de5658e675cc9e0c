#include "interpose/cuda/copy_events.h"

#include "interpose/cuda/current_device.h"
#include "interpose/linking/lazy_symbol.h"
#include "tracker/interface/platform.h"

namespace devtrace::interpose {
namespace {

using events::Copy;
using events::Direction;

constinit LazySymbol<decltype(&::cudaGetSymbolAddress)> symbol_address("libcudart.so", "cudaGetSymbolAddress");
constinit LazySymbol<decltype(&::cuArrayGetDescriptor_v2)> array_descriptor("libcuda.so", "cuArrayGetDescriptor_v2");

// Bytes of one of an array's elements; widths are counted in them where an array takes part. 1 without an array, or
// where the format is packed in blocks.
size_t element_bytes(const void* array) {
  const auto ask = array_descriptor.get();
  CUDA_ARRAY_DESCRIPTOR facts{};
  if (!array || !ask || ask(&facts, static_cast<CUarray>(const_cast<void*>(array))) != CUDA_SUCCESS) return 1;
  switch (facts.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return facts.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return size_t{2} * facts.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return size_t{4} * facts.NumChannels;
    default:
      return 1;
  }
}

const void* at(const cudaPitchedPtr& memory, const cudaPos& position) {
  const size_t offset = (position.z * memory.ysize + position.y) * memory.pitch + position.x;
  return memory.ptr ? static_cast<const char*>(memory.ptr) + offset : nullptr;
}

template <class Parameters>
Copy of_runtime(const Parameters& copy) {
  const void* const array = copy.srcArray ? copy.srcArray : copy.dstArray;
  Copy described;
  described.to = copy.dstArray ? nullptr : at(copy.dstPtr, copy.dstPos);
  described.from = copy.srcArray ? nullptr : at(copy.srcPtr, copy.srcPos);
  described.bytes = copy.extent.width * copy.extent.height * copy.extent.depth * element_bytes(array);
  return described;
}

struct End {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
};

const void* at(const End& end, size_t offset) {
  const char* start = nullptr;
  if (end.type == CU_MEMORYTYPE_HOST) start = static_cast<const char*>(end.host);
  if (end.type == CU_MEMORYTYPE_DEVICE || end.type == CU_MEMORYTYPE_UNIFIED)
    start = reinterpret_cast<const char*>(end.device);
  return start ? start + offset : nullptr;
}

Direction direction(CUmemorytype from, CUmemorytype to) {
  if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED) return Direction::undeclared;
  if (from == CU_MEMORYTYPE_HOST) return to == CU_MEMORYTYPE_HOST ? Direction::host_to_host : Direction::host_to_device;
  return to == CU_MEMORYTYPE_HOST ? Direction::device_to_host : Direction::device_to_device;
}

template <class Parameters>
Copy of_driver_3d(const Parameters& copy) {
  Copy described;
  described.to = at({copy.dstMemoryType, copy.dstHost, copy.dstDevice},
                    (copy.dstZ * copy.dstHeight + copy.dstY) * copy.dstPitch + copy.dstXInBytes);
  described.from = at({copy.srcMemoryType, copy.srcHost, copy.srcDevice},
                      (copy.srcZ * copy.srcHeight + copy.srcY) * copy.srcPitch + copy.srcXInBytes);
  described.bytes = copy.WidthInBytes * copy.Height * copy.Depth;
  described.direction = direction(copy.srcMemoryType, copy.dstMemoryType);
  return described;
}

}  // namespace

Direction declared_direction(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return Direction::host_to_host;
    case cudaMemcpyHostToDevice:
      return Direction::host_to_device;
    case cudaMemcpyDeviceToHost:
      return Direction::device_to_host;
    case cudaMemcpyDeviceToDevice:
      return Direction::device_to_device;
    default:
      return Direction::undeclared;
  }
}

Copy as_copy(const cudaMemcpy3DParms& copy) {
  Copy described = of_runtime(copy);
  described.direction = declared_direction(copy.kind);
  return described;
}

Copy as_copy(const cudaMemcpy3DPeerParms& copy) {
  Copy described = of_runtime(copy);
  described.to_device = copy.dstDevice;
  described.from_device = copy.srcDevice;
  return described;
}

Copy as_copy(const cudaMemcpy3DBatchOp& copy) {
  const bool to_array = copy.dst.type == cudaMemcpyOperandTypeArray;
  const bool from_array = copy.src.type == cudaMemcpyOperandTypeArray;
  Copy described;
  described.to = to_array ? nullptr : copy.dst.op.ptr.ptr;
  described.from = from_array ? nullptr : copy.src.op.ptr.ptr;
  described.bytes = copy.extent.width * copy.extent.height * copy.extent.depth *
                    element_bytes(from_array ? copy.src.op.array.array
                                  : to_array ? copy.dst.op.array.array
                                             : nullptr);
  return described;
}

Copy as_copy(const CUDA_MEMCPY2D& copy) {
  Copy described;
  described.to = at({copy.dstMemoryType, copy.dstHost, copy.dstDevice}, copy.dstY * copy.dstPitch + copy.dstXInBytes);
  described.from = at({copy.srcMemoryType, copy.srcHost, copy.srcDevice}, copy.srcY * copy.srcPitch + copy.srcXInBytes);
  described.bytes = copy.WidthInBytes * copy.Height;
  described.direction = direction(copy.srcMemoryType, copy.dstMemoryType);
  return described;
}

Copy as_copy(const CUDA_MEMCPY3D& copy) {
  return of_driver_3d(copy);
}

Copy as_copy(const CUDA_MEMCPY3D_PEER& copy) {
  Copy described = of_driver_3d(copy);
  described.to_device = device_of_context(copy.dstContext);
  described.from_device = device_of_context(copy.srcContext);
  return described;
}

Copy as_copy(const CUDA_MEMCPY3D_BATCH_OP& copy) {
  const bool to_array = copy.dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
  const bool from_array = copy.src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
  Copy described;
  described.to = to_array ? nullptr : reinterpret_cast<const void*>(copy.dst.op.ptr.ptr);
  described.from = from_array ? nullptr : reinterpret_cast<const void*>(copy.src.op.ptr.ptr);
  described.bytes = copy.extent.width * copy.extent.height * copy.extent.depth *
                    element_bytes(from_array ? copy.src.op.array.array
                                  : to_array ? copy.dst.op.array.array
                                             : nullptr);
  return described;
}

void emit_variable_set(const void* symbol, size_t bytes) {
  const auto ask = platform().simulated() ? symbol_address.get() : nullptr;
  void* address = nullptr;
  if (ask && ask(&address, symbol) == cudaSuccess) events::variable_set(address, bytes, current_device());
}

}  // namespace devtrace::interpose
