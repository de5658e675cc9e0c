// C++ programs: memory that lies on another device than what works on it, and the line that put it there, or that
// should have let that device reach it.
#pragma once

#include <optional>
#include <string>

#include "report/verdict/cause.h"

namespace devtrace::report::verdict {

// What works on the memory: a kernel, or a library by its handle.
struct MemoryUser {
  std::string_view device;
  const DeviceChoice& choice;  // which made that device current
  std::string where;           // "The kernel runs on cuda:1, since main.cpp:9."
  std::string_view what;       // "kernel"
};

// "x (cuda:0, allocated at main.cpp:9)".
std::string with_allocation(const Operand& operand);
// ", since main.cpp:9"; empty where nobody knows who chose it.
std::string chosen_where(const DeviceChoice& choice);

// Nothing where it is not known which device was current when the memory was made.
std::optional<Cause> memory_elsewhere(const Evidence& evidence, const Operand& memory, const MemoryUser& user);

// Of memory that its range's access was set for: the same for the device that works on it, behind the line that set it.
std::optional<Fix> opened_to_user(const Operand& memory, const MemoryUser& user);

}  // namespace devtrace::report::verdict
