// The hooks of CUDA's mathematics libraries. Each row of library_hooks.inc is a symbol that jumps to an instance of one
// of the templates here, made with the parameters that the library's header declares.

#include <cublasLt.h>
#include <cublas_api.h>
#include <cudnn.h>
#include <cufft.h>
#include <cufftXt.h>
#include <curand.h>
#include <cusolverDn.h>
#include <cusolverSp.h>
#include <cusparse.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "binary/elf/loaded.h"
#include "binary/elf/plain_text.h"
#include "interpose/cuda/current_device.h"
#include "interpose/linking/lazy_symbol.h"
#include "interpose/linking/original.h"
#include "tracker/events.h"

// The table has what the headers call deprecated: programs call it.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace devtrace::interpose {
namespace {

// Which of several cuBLAS libraries a call means: CUDA 12's and 13's may be in one process, and a handle of one is none
// of the other.
constinit std::atomic<bool> several{false};

std::string_view library_of(Symbol symbol) {
  return kHookRows[static_cast<int>(symbol)].library;
}

// What the object that `caller` lies in is linked to; null: it found the function by another way.
void* needed_by(const void* caller, Symbol symbol) {
  const link_map* const listed = elf::object_at(caller);
  if (!listed) return nullptr;
  std::string_view wanted;
  elf::Loaded(*listed).for_each_needed([&](const char* name) {
    if (const std::string_view file = elf::plain_view(name); wanted.empty() && is_library(file, library_of(symbol)))
      wanted = file;
  });
  void* found = nullptr;
  elf::for_each_object([&](const elf::Object& object) {
    const elf::Loaded library(object);
    if (!wanted.empty() && elf::plain_compare(library.soname(), wanted) == 0) found = library.find(name_of(symbol));
    return found != nullptr;
  });
  return found;
}

// Hot: the function that the call which returns to `caller` means. One load, unless several libraries of that name are
// loaded; then microseconds.
void* library_function_for(Symbol symbol, const void* caller) {
  if (several.load(std::memory_order_relaxed)) [[unlikely]]
    if (void* const function = needed_by(caller, symbol)) return function;
  if (void* const function = original_for(symbol, caller)) return function;
  // In a file of another name, opened for all: somebody's own, or cuBLAS linked into it.
  return ::dlsym(RTLD_NEXT, name_of(symbol));
}

// Before a handle is made, or where one turns up that nobody saw being made: looks how many libraries there are now.
// The library that the caller means stays loaded from then on, as its functions are remembered.
void look_at_libraries(Symbol symbol, const void* caller) {
  // Of two files of one name everybody gets the first's functions: in a rehearsal NVIDIA's own is loaded as well.
  std::string_view first;
  elf::for_each_object([&](const elf::Object& object) {
    if (!is_library(object.file(), library_of(symbol))) return false;
    if (first.empty()) first = object.file();
    if (elf::plain_compare(object.file(), first) != 0) several.store(true, std::memory_order_relaxed);
    return false;
  });
  Dl_info info{};
  void* const function = library_function_for(symbol, caller);
  if (function && ::dladdr(function, &info) && info.dli_fname && !there_at_start(function))
    ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

// What programs write: cublasSgemm of cublasSgemm_v2, cublasSgemm_64 of cublasSgemm_v2_64.
template <Symbol kSymbol>
constexpr auto kWritten = [] {
  constexpr std::string_view kName = name_of(kSymbol);
  constexpr size_t kVersion = kName.find("_v2");
  std::array<char, kName.size() + 1> text{};
  for (size_t i = 0, out = 0; i < kName.size(); ++i)
    if (kVersion == kName.npos || i < kVersion || i >= kVersion + 3) text[out++] = kName[i];
  return text;
}();

// A plan of cuFFT's is a small number: it becomes one that is no pointer.
events::LibraryHandle number_of(const void* handle) {
  return reinterpret_cast<uintptr_t>(handle);
}
events::LibraryHandle number_of(int plan) {
  return uint64_t{1} << 48 | static_cast<uint32_t>(plan);
}

template <class Argument>
const void* address_in(const Argument& argument) {
  if constexpr (std::is_pointer_v<Argument> && !std::is_function_v<std::remove_pointer_t<Argument>>)
    return argument;
  else
    return nullptr;
}

// cuSPARSE's descriptors of vectors and matrices, constant ones too.
template <class Argument>
constexpr bool kDescribes = [] {
  using Described = std::remove_const_t<std::remove_pointer_t<Argument>>;
  return std::is_pointer_v<Argument> &&
         (std::is_same_v<Described, cusparseSpVecDescr> || std::is_same_v<Described, cusparseSpMatDescr> ||
          std::is_same_v<Described, cusparseDnVecDescr> || std::is_same_v<Described, cusparseDnMatDescr>);
}();

// Of those of the arguments that are addresses.
template <class... Arguments>
size_t addresses_in(const void** found, const Arguments&... arguments) {
  size_t count = 0;
  const auto add = [&](const auto& argument) {
    if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(argument)>>) found[count++] = argument;
  };
  (add(arguments), ...);
  return count;
}

constinit LazySymbol<decltype(&::cublasGetStream_v2)> cublas_stream("libcublas.so", "cublasGetStream_v2");

events::StreamOfHandle stream_of_cublas(events::LibraryHandle handle) {
  cudaStream_t stream = nullptr;
  const auto ask = cublas_stream.get();
  if (!ask || ask(reinterpret_cast<cublasHandle_t>(handle), &stream) != CUBLAS_STATUS_SUCCESS || !stream) return {};
  return {stream, device_of_stream(stream)};
}

template <Symbol kSymbol, class Result, class... Parameters>
auto function_for(const void* caller) {
  return reinterpret_cast<Result (*)(Parameters...)>(library_function_for(kSymbol, caller));
}

// Of a function that is nowhere nobody could have come here.
template <class Result>
constexpr auto kAbsent = static_cast<Result>(1);

template <Symbol kSymbol, class Function>
struct Makes;
template <Symbol kSymbol, class Result, class Handle, class... Rest>
struct Makes<kSymbol, Result (*)(Handle*, Rest...)> {
  static Result call(Handle* handle, Rest... rest) {
    const void* const caller = __builtin_return_address(0);
    look_at_libraries(kSymbol, caller);
    const auto original = function_for<kSymbol, Result, Handle*, Rest...>(caller);
    if (!original) return kAbsent<Result>;
    const Result result = original(handle, rest...);
    if (static_cast<int>(result) == 0 && handle)
      events::library_handle_made(number_of(*handle), kWritten<kSymbol>.data());
    return result;
  }
};

template <Symbol kSymbol, class Function>
struct Binds;
template <Symbol kSymbol, class Result, class Handle, class... Rest>
struct Binds<kSymbol, Result (*)(Handle, Rest...)> {
  static Result call(Handle handle, Rest... rest) {
    const auto original = function_for<kSymbol, Result, Handle, Rest...>(__builtin_return_address(0));
    if (!original) return kAbsent<Result>;
    const Result result = original(handle, rest...);
    if (static_cast<int>(result) == 0) events::library_handle_made(number_of(handle), kWritten<kSymbol>.data());
    return result;
  }
};

template <Symbol kSymbol, class Function>
struct Ends;
template <Symbol kSymbol, class Result, class Handle>
struct Ends<kSymbol, Result (*)(Handle)> {
  static Result call(Handle handle) {
    events::library_handle_gone(number_of(handle));
    const auto original = function_for<kSymbol, Result, Handle>(__builtin_return_address(0));
    return original ? original(handle) : kAbsent<Result>;
  }
};

template <Symbol kSymbol, class Function>
struct Describes;
template <Symbol kSymbol, class Result, class Descriptor, class... Rest>
struct Describes<kSymbol, Result (*)(Descriptor*, Rest...)> {
  static Result call(Descriptor* descriptor, Rest... rest) {
    const auto original = function_for<kSymbol, Result, Descriptor*, Rest...>(__builtin_return_address(0));
    if (!original) return kAbsent<Result>;
    const Result result = original(descriptor, rest...);
    const void* memory[sizeof...(Rest)];
    const size_t count = addresses_in(memory, rest...);
    if (static_cast<int>(result) == 0 && descriptor) events::descriptor_made(*descriptor, memory, count);
    return result;
  }
};

template <Symbol kSymbol, class Function>
struct Redescribes;
template <Symbol kSymbol, class Result, class Descriptor, class... Rest>
struct Redescribes<kSymbol, Result (*)(Descriptor, Rest...)> {
  static Result call(Descriptor descriptor, Rest... rest) {
    const auto original = function_for<kSymbol, Result, Descriptor, Rest...>(__builtin_return_address(0));
    if (!original) return kAbsent<Result>;
    const Result result = original(descriptor, rest...);
    const void* memory[sizeof...(Rest)];
    const size_t count = addresses_in(memory, rest...);
    if (static_cast<int>(result) == 0) events::descriptor_changed(descriptor, memory, count);
    return result;
  }
};

template <Symbol kSymbol, class Function>
struct EndsDescription;
template <Symbol kSymbol, class Result, class Descriptor>
struct EndsDescription<kSymbol, Result (*)(Descriptor)> {
  static Result call(Descriptor descriptor) {
    events::descriptor_gone(descriptor);
    const auto original = function_for<kSymbol, Result, Descriptor>(__builtin_return_address(0));
    return original ? original(descriptor) : kAbsent<Result>;
  }
};

template <Symbol kSymbol, class Function>
struct Calls;
template <Symbol kSymbol, class Result, class Handle, class... Rest>
struct Calls<kSymbol, Result (*)(Handle, Rest...)> {
  static constexpr bool kCublas = std::is_same_v<Handle, cublasHandle_t>;  // cuBLASLt is given its stream
  static constexpr bool kCufft = std::is_same_v<Handle, cufftHandle>;
  static constexpr uint64_t kDescriptors = [] {
    uint64_t bits = 0, bit = 1;
    ((bits |= kDescribes<Rest> ? bit : 0, bit <<= 1), ...);
    return bits;
  }();

  static Result call(Handle handle, Rest... rest) {
    const void* const caller = __builtin_return_address(0);
    const void* const arguments[] = {address_in(rest)...};
    const events::LibraryCall call{kWritten<kSymbol>.data(),
                                   number_of(handle),
                                   arguments,
                                   sizeof...(Rest),
                                   kCublas ? &stream_of_cublas : nullptr,
                                   kDescriptors};
    const events::HandleKnown known = events::library_called(call);
    // Whose handle nobody saw being made may be of a library that nobody has counted.
    if (known == events::HandleKnown::no) look_at_libraries(kSymbol, caller);
    const auto original = function_for<kSymbol, Result, Handle, Rest...>(caller);
    if (!original) return kAbsent<Result>;
    const Result result = original(handle, rest...);
    if (known == events::HandleKnown::told) events::library_returned();
    if constexpr (kCufft)
      if (result == CUFFT_INVALID_DEVICE && known == events::HandleKnown::yes) events::library_refused(call);
    return result;
  }
};

// The type of a function as the library has it. Three have an overload of C++'s in the header, which the library knows
// nothing of: their types are those of their variants for 64 bits, which have none.
template <class Function>
struct Narrow;
template <class Result, class... Parameters>
struct Narrow<Result (*)(Parameters...)> {
  using Type = Result (*)(std::conditional_t<std::is_same_v<Parameters, int64_t>, int, Parameters>...);
};
template <class Function>
using NarrowType = typename Narrow<Function>::Type;
template <class Result, class... Parameters>
auto library_type(Result (*)(Parameters...)) -> Result (*)(Parameters...);
auto library_type(NarrowType<decltype(&::cublasGemmEx_64)> function) -> decltype(function);
auto library_type(NarrowType<decltype(&::cublasGemmBatchedEx_64)> function) -> decltype(function);
auto library_type(NarrowType<decltype(&::cublasGemmStridedBatchedEx_64)> function) -> decltype(function);

}  // namespace

// In the order of the rows.
extern "C" __attribute__((visibility("hidden"), used)) void* const devtrace_library_hooks[] = {
#define INSTANCE(sort, symbol) reinterpret_cast<void*>(&sort<Symbol::symbol, decltype(library_type(&::symbol))>::call),
#define LIBRARY_MAKES(library, symbol) INSTANCE(Makes, symbol)
#define LIBRARY_BINDS(library, symbol) INSTANCE(Binds, symbol)
#define LIBRARY_ENDS(library, symbol) INSTANCE(Ends, symbol)
#define LIBRARY_CALL(library, symbol) INSTANCE(Calls, symbol)
#define LIBRARY_DESCRIBES(library, symbol) INSTANCE(Describes, symbol)
#define LIBRARY_REDESCRIBES(library, symbol) INSTANCE(Redescribes, symbol)
#define LIBRARY_ENDS_DESCRIPTION(library, symbol) INSTANCE(EndsDescription, symbol)
#include "interpose/linking/library_hooks.inc"
#undef LIBRARY_MAKES
#undef LIBRARY_BINDS
#undef LIBRARY_ENDS
#undef LIBRARY_CALL
#undef LIBRARY_DESCRIBES
#undef LIBRARY_REDESCRIBES
#undef LIBRARY_ENDS_DESCRIPTION
};

}  // namespace devtrace::interpose

// Each in the place of every version of it (libcublas.so.12, .13), as dlsym is.
// clang-format off
#define SYMBOL(library, symbol) "library_hook " #symbol "\n"
#define LIBRARY_MAKES SYMBOL
#define LIBRARY_BINDS SYMBOL
#define LIBRARY_ENDS SYMBOL
#define LIBRARY_CALL SYMBOL
#define LIBRARY_DESCRIBES SYMBOL
#define LIBRARY_REDESCRIBES SYMBOL
#define LIBRARY_ENDS_DESCRIPTION SYMBOL
#ifdef __x86_64__
#define JUMP_TO_ROW "  jmp *(devtrace_library_hooks + 8 * devtrace_library_row)(%rip)\n"
#else
#define JUMP_TO_ROW                                             \
  "  adrp x16, devtrace_library_hooks + 8 * devtrace_library_row\n" \
  "  ldr x16, [x16, :lo12:devtrace_library_hooks + 8 * devtrace_library_row]\n  br x16\n"
#endif
__asm__(R"(
.set devtrace_library_row, 0
.macro library_hook symbol
  .globl \symbol
  .type \symbol, @function
\symbol:
)" JUMP_TO_ROW R"(
  .size \symbol, . - \symbol
  .symver \symbol, \symbol@@
  .set devtrace_library_row, devtrace_library_row + 1
.endm
.pushsection .text
)"
#include "interpose/linking/library_hooks.inc"
".popsection\n");
