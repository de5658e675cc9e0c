// What devtrace needs of PyTorch by symbol, and what it cannot do without each: a new PyTorch may call it otherwise.
#pragma once

#include <vector>

#include "tracker/interface/platform.h"

namespace devtrace::interpose {

// Of the libraries that are loaded: the symbols that none of their spellings is found of. Slow path only.
std::vector<MissingSymbol> missing_pytorch_symbols();

}  // namespace devtrace::interpose
