// Which image each kernel comes from: what nvcc's code registers when a library is loaded, and what programs load
// through the driver. Remembers pointers only, and reads nothing before somebody asks.
#pragma once

#include <memory>
#include <string>

#include "binary/device/image.h"

namespace devtrace::interpose::kernel_images {

// nvcc's registrations: hundreds of thousands when PyTorch is loaded, so each takes nanoseconds and no malloc. `handle`
// is the runtime's; `data` and `name` stay where they are until the handle is taken back.
void fat_binary(void** handle, const void* data);
void kernel_of_fat_binary(void** handle, const void* stub, const char* name);
void fat_binary_gone(void** handle);

// A module or library that CUDA has just accepted: copied, unless it lies in a loaded object.
void loaded(const void* container, const void* image);
void loaded_file(const void* container, const char* path);
void same_image(const void* container, const void* as);
void unloaded(const void* container);

// A function or kernel out of a module or library; or another handle of the same.
void kernel_of(const void* function, const void* container, const char* name);
void same_kernel(const void* function, const void* as);

// The bytes stay while `keeps` lives or, where it is empty, while their library stays loaded.
struct Code {
  binary::View image;
  std::string name;  // of the kernel in it; empty when only CUDA knows
  std::shared_ptr<const void> keeps;
};
// Slow. Empty when nobody saw where the function came from.
Code code_of(const void* function);

void before_fork();
void after_fork();

}  // namespace devtrace::interpose::kernel_images
