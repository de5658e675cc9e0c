// Images of machine code whose PTX is known, because the compiler that made them was seen.
#pragma once

#include <string>

#include "binary/view.h"

namespace devtrace::simulate {

// The PTX that the image was made of; empty: not known.
std::string ptx_made_into(binary::View image);

}  // namespace devtrace::simulate
