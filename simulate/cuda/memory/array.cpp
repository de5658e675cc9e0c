// CUDA arrays and the objects by which kernels read them: textures and surfaces.
#include "simulate/model/array.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "simulate/cuda/api.h"
#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/handles.h"
#include "simulate/model/textures.h"

namespace {

bool alive(CUarray array) {
  return simulate::handles<CUarray_st>().has(array);
}

}  // namespace

struct CUmipmappedArray_st {
  std::vector<CUarray> levels;
};

extern "C" {

CUresult CUDAAPI cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  REQUIRE_CONTEXT(context);
  if (!out || !d || !d->Width || !simulate::element_bytes(d->Format, d->NumChannels)) return CUDA_ERROR_INVALID_VALUE;
  if (d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4) return CUDA_ERROR_INVALID_VALUE;
  auto* array = new CUarray_st;
  array->descriptor = *d;
  array->device = context->device;
  array->pitch = d->Width * simulate::element_bytes(d->Format, d->NumChannels);
  array->bytes = array->pitch * array->rows() * array->slices();
  array->data = static_cast<uint8_t*>(std::calloc(1, array->bytes));
  if (!array->data) {
    delete array;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  simulate::handles<CUarray_st>().add(array);
  *out = array;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR wide = {d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
  return cuArray3DCreate(out, &wide);
}
CUresult CUDAAPI cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR* d, CUarray array) {
  TRY(ready());
  if (!alive(array)) return CUDA_ERROR_INVALID_HANDLE;
  *d = array->descriptor;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* d, CUarray array) {
  TRY(ready());
  if (!alive(array)) return CUDA_ERROR_INVALID_HANDLE;
  const CUDA_ARRAY3D_DESCRIPTOR& w = array->descriptor;
  *d = {w.Width, w.Height, w.Format, w.NumChannels};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuArrayDestroy(CUarray array) {
  TRY(ready());
  if (!alive(array) || !array->owned) return CUDA_ERROR_INVALID_HANDLE;
  simulate::finish_work();
  simulate::handles<CUarray_st>().remove(array);
  std::free(array->data);
  delete array;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* d, unsigned int levels) {
  if (!out || !d || !levels) return CUDA_ERROR_INVALID_VALUE;
  auto* mipmap = new CUmipmappedArray_st;
  CUDA_ARRAY3D_DESCRIPTOR level = *d;
  for (unsigned i = 0; i < levels; ++i) {
    CUarray array;
    if (CUresult e = cuArray3DCreate(&array, &level)) {
      delete mipmap;
      return e;
    }
    array->owned = false;
    mipmap->levels.push_back(array);
    level.Width = std::max<size_t>(level.Width / 2, 1);
    level.Height = level.Height ? std::max<size_t>(level.Height / 2, 1) : 0;
    level.Depth = level.Depth ? std::max<size_t>(level.Depth / 2, 1) : 0;
  }
  simulate::handles<CUmipmappedArray_st>().add(mipmap);
  *out = mipmap;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMipmappedArrayGetLevel(CUarray* level, CUmipmappedArray mipmap, unsigned int index) {
  TRY(ready());
  if (!simulate::handles<CUmipmappedArray_st>().has(mipmap)) return CUDA_ERROR_INVALID_HANDLE;
  if (!level || index >= mipmap->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *level = mipmap->levels[index];
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray mipmap) {
  TRY(ready());
  if (!simulate::handles<CUmipmappedArray_st>().remove(mipmap)) return CUDA_ERROR_INVALID_HANDLE;
  for (CUarray level : mipmap->levels) {
    level->owned = true;
    cuArrayDestroy(level);
  }
  delete mipmap;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexObjectCreate(CUtexObject* object, const CUDA_RESOURCE_DESC* resource,
                                   const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC*) {
  REQUIRE_CONTEXT(context);
  if (!object || !resource || !texture) return CUDA_ERROR_INVALID_VALUE;
  *object = simulate::remember({*resource, *texture, context->device});
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuTexObjectDestroy(CUtexObject object) {
  TRY(ready());
  return simulate::forget_texture(object) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUtexObject object) {
  const auto texture = simulate::texture_of(object);
  if (!resource || !texture) return CUDA_ERROR_INVALID_VALUE;
  *resource = texture->resource;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject object) {
  const auto texture = simulate::texture_of(object);
  if (!out || !texture) return CUDA_ERROR_INVALID_VALUE;
  *out = texture->texture;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuSurfObjectCreate(CUsurfObject* object, const CUDA_RESOURCE_DESC* resource) {
  CUDA_TEXTURE_DESC none = {};
  return cuTexObjectCreate(object, resource, &none, nullptr);
}
CUresult CUDAAPI cuSurfObjectDestroy(CUsurfObject object) {
  return cuTexObjectDestroy(object);
}

}  // extern "C"
