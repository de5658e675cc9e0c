// How a hook of a C++ function is declared: by its symbol, so that no header of PyTorch's is needed and every version's
// spelling is one row.
#pragma once

#include "interpose/linking/original.h"

#define PYTORCH_HOOK(type, name, parameters, symbol)                \
  extern "C" DEVTRACE_EXPORT type name parameters __asm__(#symbol); \
  extern "C" type name parameters
