// Tells that somebody looks a name up (dlsym), before the answer: how an interpreter's loading of a module is noticed.
#pragma once

namespace devtrace::interpose {

// A few names in the process, told before main. All live as long as it does. `asked` may be called by any thread, and
// often.
struct LookupWatch {
  const char* name = nullptr;
  void (*asked)() = nullptr;
};
void watch_lookup(const LookupWatch& watch);

}  // namespace devtrace::interpose
