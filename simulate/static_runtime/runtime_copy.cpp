#include "simulate/static_runtime/runtime_copy.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "binary/elf/file.h"

namespace devtrace::simulate::static_runtime {
namespace {

bool is_of_runtime(std::string_view name) {
  if (name.starts_with("__")) name.remove_prefix(2);
  return name.starts_with("cuda") && name.size() > 4 && name[4] >= 'A' && name[4] <= 'Z';
}

// Of functions that each jump to the runtime's, which the file opens itself: XLA's, in JAX and TensorFlow, are made by
// Implib.so.
bool is_trampoline(std::string_view name) {
  return name.find("cudart") != name.npos && name.find("_tramp_") != name.npos;
}

// By what came and went. Asking the copy itself (cudaRuntimeGetVersion) would run code of an object that is not
// relocated yet.
int major_of(const std::vector<RuntimeFunction>& entries) {
  const auto has = [&](std::string_view name) {
    return std::any_of(entries.begin(), entries.end(), [&](const RuntimeFunction& e) { return e.name == name; });
  };
  if (has("cudaBindTexture")) return 11;  // or before: gone since 12
  // CUDA 13 has the newer structure of properties under the plain name, and no launch on several devices.
  return has("cudaGetDeviceProperties_v2") || has("cudaLaunchCooperativeKernelMultiDevice") ? 12 : 13;
}

// Of the runtime that the file is linked to: by what it needs, or by a version of a symbol, both of which are among its
// dynamic strings. 0: to none.
int major_outside(const elf::File& file) {
  constexpr std::string_view kLibrary = "libcudart.so.";
  const std::string_view strings = file.bytes_of(".dynstr");
  const size_t at = strings.find(kLibrary);
  return at == strings.npos ? 0 : std::atoi(std::string(strings.substr(at + kLibrary.size(), 3)).c_str());
}

}  // namespace

RuntimeCopy find_runtime_copy(const std::string& path) {
  RuntimeCopy copy;
  const elf::File file(path);
  if ((copy.major = major_outside(file)) != 0) {
    copy.state = RuntimeCopy::State::outside;
    return copy;
  }
  std::vector<uintptr_t> functions;
  bool trampolines = false;
  file.for_each_symbol([&](const Elf64_Sym& symbol, std::string_view name) {
    trampolines |= is_trampoline(name);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) return;
    functions.push_back(symbol.st_value);
    if (is_of_runtime(name)) copy.entries.push_back({std::string(name), symbol.st_value, 0});
  });
  const bool whole = std::any_of(copy.entries.begin(), copy.entries.end(),
                                 [](const RuntimeFunction& e) { return e.name == "__cudaRegisterFatBinary"; });
  if (trampolines) copy.state = RuntimeCopy::State::outside;
  if (!whole || trampolines) {
    copy.entries.clear();
    return copy;
  }
  std::sort(functions.begin(), functions.end());
  for (RuntimeFunction& entry : copy.entries) {
    const auto next = std::upper_bound(functions.begin(), functions.end(), entry.offset);
    entry.room = next == functions.end() ? 0 : *next - entry.offset;
  }
  copy.state = RuntimeCopy::State::named;
  copy.major = major_of(copy.entries);
  return copy;
}

}  // namespace devtrace::simulate::static_runtime
