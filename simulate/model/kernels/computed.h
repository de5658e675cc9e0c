// Launches whose effect is computed, by the PTX that the kernel's image has.
#pragma once

#include <optional>

#include "simulate/model/kernels/module.h"
#include "simulate/model/operation.h"

namespace devtrace::simulate {

// Keeps an image's PTX where the program may take the image away after it was loaded. With the container's lock held.
void keep_ptx(Container& container);

// Whether the launch may be computed: the kernel's image has PTX, whose maker leaves that to whoever has it, or the
// person has said --kernels.
bool may_compute(const Operation& operation, const Function& f);

// Does what the kernel does. An access that its device may not make, a trap or a failed assertion becomes the context's
// error, and a line. False: not computed after all, and why is kept for the list at exit.
bool compute_kernel(const Operation& operation, const Function& f);

// Of the PTX that the kernel is computed by, as 90 for sm_90; null: nobody computes it.
std::optional<int> computed_architecture(const Function& f);

// What a block needs: of a kernel that is computed as its PTX has it, for machine code beside that was compiled with
// other bounds. How many registers only machine code says; the text says at the most how many.
struct Needs {
  int max_threads = 1024;                          // that it may have
  int static_shared = 0, constant = 0, local = 0;  // bytes
  int registers = 32;                              // a thread
};
Needs needs_of(const Function& f);

// Why nobody computes the kernel, as far as there is something to do or to know: "" where its image has no PTX.
std::string why_not_computed(const Function& f);

}  // namespace devtrace::simulate
