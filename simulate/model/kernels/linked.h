// Images that are linked when they are loaded: by the driver's linker, or because nvcc -rdc=true left that to it.
#pragma once

#include <string>
#include <vector>

#include "binary/device/image.h"

namespace devtrace::simulate {

// One text out of the PTX of all; one image's as it is. False: there is no image, one has no PTX, or they do not fit
// together, and *why says so.
bool link_ptx(const std::vector<const void*>& images, device::PtxText* out, std::string* why);

// Whether one of NVIDIA's compilers has made it, whose licence leaves what is done with it to whoever has it.
bool made_by_nvidia(const device::PtxText& ptx);

}  // namespace devtrace::simulate
