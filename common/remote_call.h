// Where a process that devtrace is in takes a call from outside. libdevtrace.so exports one of these under the name
// below; a thread of it waits there for what `devtrace attach` asks (attach/interpreter_call.h).
#pragma once

#include <cstdint>

namespace devtrace {

struct RemoteCall {
  static constexpr const char* kSymbol = "devtrace_remote_call";
  static constexpr uint32_t kVersion = 1;
  // Nobody waits; a thread waits; it was asked; it has answered.
  enum State : uint32_t { idle = 0, waiting = 1, asked = 2, answered = 3 };

  uint32_t version;
  uint32_t process;  // whose thread waits: a fork's child has the parent's state
  uint32_t state;
  uint32_t result;  // as interpose/devtrace.h numbers them
  uint32_t detach;  // asked for: 0 to attach, 1 to detach
  char options[8192];
  char reply[4096];
};

}  // namespace devtrace
