// The slots through which loaded objects call each other (GOT and PLT). The loader binds them to a preloaded library by
// itself; to one that comes later by nobody, so the slots of the functions of hooks.inc are written.
//
// Not reached: pointers that somebody has taken before, from dlsym or cuGetProcAddress.
#pragma once

#include <cstddef>

namespace devtrace::interpose::import_slots {

struct Redirected {
  size_t slots = 0;
  size_t left =
      0;  // hold something that the loader has not put there: another tool's, or a page that cannot be written
};

// Every slot of a hooked function in every loaded object leads to its hook from now on. What is redirected already
// stays. Allocates nothing.
Redirected redirect();

// Every such slot holds again what it held. The hooks may still run in other threads, so this library must stay loaded.
void restore();

// Between the two.
bool active();

// The same for what has been loaded since. To be called where somebody may use what has just been opened.
void notice();

}  // namespace devtrace::interpose::import_slots
