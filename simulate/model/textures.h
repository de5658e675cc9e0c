// Texture and surface objects: what their handles stand for.
#pragma once

#include <optional>
#include <string>

#include "simulate/common/cuda_headers.h"
#include "simulate/kernels/texture.h"

namespace devtrace::simulate {

struct TextureObject {
  CUDA_RESOURCE_DESC resource = {};
  CUDA_TEXTURE_DESC texture = {};
  int device = 0;
};

// As on hardware a handle is a small number and no address.
CUtexObject remember(const TextureObject& object);
bool forget_texture(CUtexObject handle);
std::optional<TextureObject> texture_of(CUtexObject handle);

// Where its memory begins; 0: it is an array's.
uintptr_t memory_of(const TextureObject& object);

// As kernels in the context use it. False: they cannot, and *why says so.
bool usable_texture(CUcontext context, CUtexObject handle, kernels::Texture* found, std::string* why);

// Bytes of an element; 0: no such format.
size_t element_bytes(CUarray_format format, unsigned channels);

}  // namespace devtrace::simulate
