// A library's function, looked up in its own table of symbols: how dlsym and dlvsym themselves are found, both of which
// this library replaces.
#pragma once

#include <link.h>

namespace devtrace::interpose {

// A loaded object's file name without its folder; null when it has none.
const char* file_name(const dl_phdr_info& object);

// The default version of a function that a loaded library exports; null when the library is not loaded or has none.
// `library` is a file's name without its folder. Allocates nothing and calls nothing that a hook could stand before.
void* elf_symbol(const char* library, const char* symbol);

}  // namespace devtrace::interpose
