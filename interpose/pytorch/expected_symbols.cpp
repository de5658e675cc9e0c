#include "interpose/pytorch/expected_symbols.h"

#include <algorithm>
#include <string_view>

#include "interpose/linking/original.h"

namespace devtrace::interpose {
namespace {

// One of the spellings is enough: the newest first, which is the one that is named. Unused ones are null.
struct ExpectedSymbol {
  const char* library;
  const char* effect;  // of its absence: a clause that follows "PyTorch has no …:"
  const char* spellings[4];
};

constexpr const char* kRefusals = "what it refuses is not seen";
constexpr const char* kPieces = "the devices, shapes and origins of operands are not read";
constexpr const char* kArguments = "the operands of C++ programs are not read";
constexpr ExpectedSymbol kExpected[] = {
    {"libc10.so",
     kRefusals,
     {"_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
      "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
      "_ZN3c105ErrorC1ENS_14SourceLocationESs", "_ZN3c105ErrorC2ENS_14SourceLocationESs"}},
    {"libc10.so",
     kRefusals,
     {"_ZN3c106detail14torchCheckFailEPKcS2_jS2_",
      "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
      "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"}},
    {"libtorch_cpu.so",
     "which operand its device check minds is not known",
     {"_ZN3c104impl27common_device_check_failureENS_6DeviceERKN2at6TensorEPKcS7_",
      "_ZN3c104impl27common_device_check_failureERNS_8optionalINS_6DeviceEEERKN2at6TensorEPKcSA_"}},
    {"libc10.so",
     "where its tensors were made and moved is not known",
     {"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
      "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE"}},
    {"libc10.so",
     "where its tensors on the CPU were made is not known",
     {"_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm"}},
    {"libc10.so",
     "which of its tensors on the CPU have ended is not known",
     {"_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv"}},
    {"libtorch_cpu.so",
     "where tensors in mapped files were made is not known",
     {"_ZN2at12MapAllocatorC1ENS_6WithFdESt17basic_string_viewIcSt11char_traitsIcEEiim",
      "_ZN2at12MapAllocatorC2ENS_6WithFdESt17basic_string_viewIcSt11char_traitsIcEEiim",
      "_ZN2at12MapAllocatorC1ENS_6WithFdEN3c1017basic_string_viewIcEEiim",
      "_ZN2at12MapAllocatorC2ENS_6WithFdEN3c1017basic_string_viewIcEEiim"}},
    {"libtorch_cpu.so",
     "mapped files that were closed are taken for tensors",
     {"_ZN2at12MapAllocatorD1Ev", "_ZN2at12MapAllocatorD2Ev"}},
    {"libc10.so", kPieces, {"_ZTVN3c1010TensorImplE"}},
    {"libtorch_cpu.so", kPieces, {"aoti_torch_get_data_ptr"}},
    {"libtorch_cpu.so", kPieces, {"aoti_torch_get_sizes"}},
    {"libtorch_cpu.so", kPieces, {"aoti_torch_get_dim"}},
    {"libtorch_cpu.so", kPieces, {"aoti_torch_get_numel"}},
    {"libtorch_cpu.so", kPieces, {"aoti_torch_get_dtype"}},
    {"libtorch_cpu.so", kArguments, {"aoti_torch_get_device_type"}},
    {"libtorch_cpu.so", kArguments, {"aoti_torch_get_device_index"}},
    {"libc10.so", kArguments, {"_ZTVN3c1019UndefinedTensorImplE"}},
    {"libtorch_python.so", "tensors in Python's variables are not found", {"THPVariableClass"}},
    {"libtorch_python.so", "parameters in Python's variables are not found", {"ParameterClass"}},
};

// A hook that is missing here would be lost without a word.
constexpr bool expects_every_hook() {
  for (const HookRow& hook : kHookRows) {
    const std::string_view library = hook.library;
    if (!library.starts_with("libtorch") && !library.starts_with("libc10")) continue;
    bool expected = false;
    for (const ExpectedSymbol& row : kExpected)
      for (const char* spelling : row.spellings)
        expected = expected || (spelling && library == row.library && std::string_view(hook.symbol) == spelling);
    if (!expected) return false;
  }
  return true;
}
static_assert(expects_every_hook(), "a hook of PyTorch's in hooks.inc has no row in kExpected");

}  // namespace

std::vector<MissingSymbol> missing_pytorch_symbols() {
  std::vector<MissingSymbol> missing;
  for (const ExpectedSymbol& row : kExpected) {
    if (!is_loaded(row.library)) continue;
    const bool found = std::any_of(std::begin(row.spellings), std::end(row.spellings), [&](const char* spelling) {
      return spelling && find_in_library(row.library, spelling);
    });
    if (!found) missing.push_back({row.library, row.spellings[0], row.effect});
  }
  return missing;
}

}  // namespace devtrace::interpose
