// Where every symbol without an implementation ends (tools/stub_library.py writes the jumps).
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Returns `code`. Says the name once, as whoever wonders about the error has no other way to learn it;
// DEVTRACE_SIM_VERBOSE=0 keeps it quiet.
extern "C" int devtrace_sim_unsupported(const char* name, char* said, int code) {
  if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED)) {
    const char* verbose = std::getenv("DEVTRACE_SIM_VERBOSE");
    if (!verbose || std::strcmp(verbose, "0") != 0) std::fprintf(stderr, "devtrace: not simulated: %s\n", name);
  }
  return code;
}
