// Images of machine code whose PTX is known, because the compiler that made them was seen.
#pragma once

#include "binary/device/image.h"

namespace devtrace::simulate {

// The image's PTX, or that which it was made of. False: none is known.
bool ptx_of(binary::View image, device::PtxText* out);

}  // namespace devtrace::simulate
