// The wrappers of one library's functions: each packs its arguments into the structure that CUPTI's headers promise,
// tells the listener, calls the function and tells again. CALLBACK_LIST is tools/stub_library.py's answer, a line a
// function: CALLBACK(symbol, declared function of the same parameters, callback id, structure of the parameters).
#define __CUDA_API_VERSION_INTERNAL
#include "simulate/common/callbacks.h"

#include CALLBACK_HEADER
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <generated_cuda_meta.h>
#ifdef CUDART_VERSION
#include <generated_cuda_runtime_api_meta.h>

#include "simulate/common/undo_aliases.h"
#endif

#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

using devtrace::simulate::Call;
using devtrace::simulate::Callable;

struct None {};  // the headers have no structure for the function
struct Anything {
  template <typename T>
  operator T() const;
};

template <typename P, typename... A>
concept Fits = requires {
  P{std::declval<A>()...};
}
&&!requires {
  P{std::declval<A>()..., Anything()};
};

// The arguments one behind the other, each at its own alignment: how the headers' structures are made, for a function
// that they leave out.
template <typename... A>
struct Packed {
  alignas(16) unsigned char bytes[((sizeof(A) + alignof(A)) + ... + 1)];
  explicit Packed(const A&... arguments) {
    size_t at = 0;
    auto put = [&](const void* from, size_t size, size_t alignment) {
      at = (at + alignment - 1) & ~(alignment - 1);
      std::memcpy(bytes + at, from, size);
      at += size;
    };
    (put(&arguments, sizeof(A), alignof(A)), ...);
  }
};

constexpr bool launches(std::string_view name) {
  while (name.starts_with("_")) name.remove_prefix(1);
  return (name.starts_with("cuLaunch") || name.starts_with("cudaLaunch")) && name.find("HostFunc") == name.npos;
}

// A runtime call initialises the driver before anything else, but for these.
constexpr bool needs_driver(std::string_view name) {
  for (std::string_view without : {"__cudaRegister", "__cudaUnregister", "__cudaPush", "__cudaPop", "cudaGetError",
                                   "cudaGetLastError", "cudaPeekAtLastError", "cudaRuntimeGetVersion"})
    if (name.starts_with(without)) return false;
  return true;
}

template <typename T>
const char* kernel_name(const T& argument) {
  if constexpr (std::is_same_v<T, CUfunction> || std::is_same_v<T, CUkernel>) return devtrace_sim_kernel_name(argument);
#ifdef CUDART_VERSION
  else if constexpr (std::is_same_v<T, const void*>)
    return devtrace::simulate::runtime::name_of(argument);
#endif
  else
    return nullptr;
}

template <typename Row, typename F>
struct Wrapper;
template <typename Row, typename R, typename... A>
struct Wrapper<Row, R (*)(A...)> {
  static R call(A... a) {
    using P = typename Row::Parameters;
    if constexpr (sizeof...(A) == 0) {
      return notify(nullptr);
    } else if constexpr (std::is_same_v<P, None>) {
      const Packed<A...> parameters(a...);
      return notify(&parameters, a...);
    } else {
      static_assert(Fits<P, A...>, "the callback id is another version's");
      const P parameters = {a...};
      return notify(&parameters, a...);
    }
  }

 private:
  static R notify(const void* parameters, A... a) {
    if constexpr (Row::kDomain == devtrace::simulate::kRuntime && needs_driver(Row::kName)) devtrace_sim_inject();
    Call c = {Row::kDomain, Row::kCallback, Row::kName, parameters, nullptr, nullptr};
    if constexpr (launches(Row::kName)) (void)((c.symbol = kernel_name(a)) || ...);
    auto* const implementation = reinterpret_cast<R (*)(A...)>(Row::kImplementation);
    if constexpr (std::is_void_v<R>) {
      devtrace_sim_call_enter(&c);
      implementation(a...);
      devtrace_sim_call_exit(&c);
    } else {
      R result = {};
      c.result = &result;
      devtrace_sim_call_enter(&c);
      result = implementation(a...);
      devtrace_sim_call_exit(&c);
      return result;
    }
  }
};

}  // namespace

#define CALLBACK(symbol, like, id, structure)                                     \
  extern "C" __attribute__((visibility("hidden"))) void* devtrace_entry_##symbol; \
  extern "C" __attribute__((visibility("hidden"))) void devtrace_impl_##symbol(); \
  namespace {                                                                     \
  struct Row_##symbol {                                                           \
    using Parameters = structure;                                                 \
    static constexpr auto kDomain = devtrace::simulate::CALLBACK_DOMAIN;          \
    static constexpr uint32_t kCallback = id;                                     \
    static constexpr const char* kName = #symbol;                                 \
    static constexpr auto kImplementation = &devtrace_impl_##symbol;              \
  };                                                                              \
  }
#include CALLBACK_LIST
#undef CALLBACK

namespace {

#define CALLBACK(symbol, like, id, structure)                                               \
  {id, #symbol, &devtrace_entry_##symbol, reinterpret_cast<void*>(&devtrace_impl_##symbol), \
   reinterpret_cast<void*>(&Wrapper<Row_##symbol, decltype(&::like)>::call)},
const Callable kFunctions[] = {
#include CALLBACK_LIST
};
#undef CALLBACK

__attribute__((constructor)) void add() {
  devtrace_sim_calls_add(devtrace::simulate::CALLBACK_DOMAIN, kFunctions, sizeof kFunctions / sizeof *kFunctions);
}

}  // namespace
