#include "simulate/model/textures.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "simulate/model/array.h"
#include "simulate/model/device.h"
#include "simulate/model/handles.h"
#include "simulate/model/kernels/fault.h"
#include "simulate/model/kernels/kernel_memory.h"
#include "simulate/model/memory/memory.h"

namespace devtrace::simulate {
namespace {

using Format = kernels::Texture::Format;

std::mutex g_mutex;
std::map<CUtexObject, TextureObject> g_objects;

struct Row {
  CUarray_format format;
  Format kind;
  size_t bytes;
};
constexpr Row kFormats[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, Format::u8, 1},   {CU_AD_FORMAT_SIGNED_INT8, Format::s8, 1},
    {CU_AD_FORMAT_UNSIGNED_INT16, Format::u16, 2}, {CU_AD_FORMAT_SIGNED_INT16, Format::s16, 2},
    {CU_AD_FORMAT_UNSIGNED_INT32, Format::u32, 4}, {CU_AD_FORMAT_SIGNED_INT32, Format::s32, 4},
    {CU_AD_FORMAT_HALF, Format::f16, 2},           {CU_AD_FORMAT_FLOAT, Format::f32, 4},
};

const Row* row_of(CUarray_format format) {
  for (const Row& row : kFormats)
    if (row.format == format) return &row;
  return nullptr;
}

// The memory of the object, as far as the context's kernels reach it.
bool place(CUcontext context, const TextureObject& object, kernels::Texture* t, CUarray_format* format,
           std::string* why) {
  const auto& r = object.resource.res;
  const auto linear = [&](CUdeviceptr at, size_t bytes) {
    Allocation a;
    t->data = reinterpret_cast<uint8_t*>(at);
    if (find_memory(at, &a) && usable(context, a) && bytes <= a.size - (at - a.base)) return true;
    *why = whose(context, find_memory(at, &a) && usable(context, a) ? a.base + a.size : at);
    return false;
  };
  switch (object.resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
      if (!handles<CUarray_st>().has(r.array.hArray)) {
        *why = "an array that was destroyed";
        return false;
      }
      const CUarray_st& array = *r.array.hArray;
      const CUDA_ARRAY3D_DESCRIPTOR& d = array.descriptor;
      t->data = array.data;
      t->size[0] = static_cast<uint32_t>(d.Width);
      t->size[1] = static_cast<uint32_t>(array.rows());
      t->size[2] = static_cast<uint32_t>(array.slices());
      t->pitch = array.pitch;
      t->slice = array.pitch * array.rows();
      t->channels = static_cast<uint8_t>(d.NumChannels);
      *format = d.Format;
      return true;
    }
    case CU_RESOURCE_TYPE_LINEAR: {
      const size_t element = std::max<size_t>(element_bytes(r.linear.format, r.linear.numChannels), 1);
      t->size[0] = static_cast<uint32_t>(r.linear.sizeInBytes / element);
      t->channels = static_cast<uint8_t>(r.linear.numChannels);
      *format = r.linear.format;
      return linear(r.linear.devPtr, r.linear.sizeInBytes);
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      t->size[0] = static_cast<uint32_t>(r.pitch2D.width);
      t->size[1] = static_cast<uint32_t>(r.pitch2D.height);
      t->pitch = r.pitch2D.pitchInBytes;
      t->channels = static_cast<uint8_t>(r.pitch2D.numChannels);
      *format = r.pitch2D.format;
      const size_t last = r.pitch2D.width * element_bytes(r.pitch2D.format, r.pitch2D.numChannels);
      return r.pitch2D.height && linear(r.pitch2D.devPtr, r.pitch2D.pitchInBytes * (r.pitch2D.height - 1) + last);
    }
    default:
      *why = "a mipmapped array, which is not simulated";
      return false;
  }
}

}  // namespace

size_t element_bytes(CUarray_format format, unsigned channels) {
  const Row* const row = row_of(format);
  return row ? row->bytes * channels : 0;
}

CUtexObject remember(const TextureObject& object) {
  static CUtexObject last = 0;
  const std::lock_guard lock(g_mutex);
  g_objects[++last] = object;
  return last;
}

bool forget_texture(CUtexObject handle) {
  const std::lock_guard lock(g_mutex);
  return g_objects.erase(handle);
}

std::optional<TextureObject> texture_of(CUtexObject handle) {
  const std::lock_guard lock(g_mutex);
  const auto found = g_objects.find(handle);
  return found == g_objects.end() ? std::nullopt : std::optional(found->second);
}

uintptr_t memory_of(const TextureObject& object) {
  const auto& r = object.resource.res;
  switch (object.resource.resType) {
    case CU_RESOURCE_TYPE_LINEAR:
      return r.linear.devPtr;
    case CU_RESOURCE_TYPE_PITCH2D:
      return r.pitch2D.devPtr;
    default:
      return 0;
  }
}

bool usable_texture(CUcontext context, CUtexObject handle, kernels::Texture* found, std::string* why) {
  const std::optional<TextureObject> object = texture_of(handle);
  if (!object) {
    *why = "no texture or surface object (" + std::to_string(handle) + ")";
    return false;
  }
  if (object->device != context->device) {
    *why = "an object of device " + std::to_string(object->device) + ", whose kernels alone may use it";
    return false;
  }
  *found = {};
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  if (!place(context, *object, found, &format, why)) return false;
  const Row* const row = row_of(format);
  if (!row) {
    *why = "a format that is not simulated";
    return false;
  }
  const CUDA_TEXTURE_DESC& t = object->texture;
  found->format = row->kind;
  found->integers = t.flags & CU_TRSF_READ_AS_INTEGER;
  found->normalized = t.flags & CU_TRSF_NORMALIZED_COORDINATES;
  found->linear = t.filterMode == CU_TR_FILTER_MODE_LINEAR;
  for (int i = 0; i < 3; ++i) found->edges[i] = static_cast<kernels::Texture::Edge>(t.addressMode[i] & 3);
  std::copy_n(t.borderColor, 4, found->border);
  return true;
}

}  // namespace devtrace::simulate
