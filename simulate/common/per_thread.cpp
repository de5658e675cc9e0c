// The _ptsz variants of one library: programs compiled with a default stream for each thread call these, and mean that
// stream where they pass 0. Which there are tools/stub_library.py finds out; PER_THREAD_LIST is its answer,
// PER_THREAD(function of the same parameters) a line.
#define __CUDA_API_VERSION_INTERNAL
#include PER_THREAD_HEADER

#ifdef CUDART_VERSION
#include "simulate/common/undo_aliases.h"
#endif
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

template <typename T>
T replaced(T argument) {
  return argument;
}
CUstream replaced(CUstream stream) {
  return stream ? stream : CU_STREAM_PER_THREAD;
}

// A launch's stream is in its configuration.
template <typename T>
struct Argument {
  T value;
  explicit Argument(T given) : value(replaced(given)) {}
  T get() { return value; }
};
template <typename Config>
struct InConfig {
  Config copy;
  bool null;
  explicit InConfig(const Config* given) : copy(given ? *given : Config{}), null(!given) {}
  const Config* get() { return null ? nullptr : &copy; }
};
template <>
struct Argument<const CUlaunchConfig*> : InConfig<CUlaunchConfig> {
  explicit Argument(const CUlaunchConfig* given) : InConfig(given) { copy.hStream = replaced(copy.hStream); }
};
#ifdef CUDART_VERSION
template <>
struct Argument<const cudaLaunchConfig_t*> : InConfig<cudaLaunchConfig_t> {
  explicit Argument(const cudaLaunchConfig_t* given) : InConfig(given) { copy.stream = replaced(copy.stream); }
};
#endif

template <auto F>
struct PerThread;
template <typename R, typename... A, R (*F)(A...)>
struct PerThread<F> {
  static R call(A... arguments) { return F(Argument<A>(arguments).get()...); }
};

}  // namespace

#define PER_THREAD(function)                                                                    \
  extern "C" __attribute__((visibility("hidden"))) void* const devtrace_per_thread_##function = \
      reinterpret_cast<void*>(&PerThread<&function>::call);
#include PER_THREAD_LIST
