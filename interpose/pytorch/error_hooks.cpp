// PyTorch's device checks and its errors.
//
// Every hook of a function that raises records first and calls the original last, in a frame that has nothing to clean
// up. PyTorch's exception passes through it with no landing pad of ours. What records is noexcept and lives in
// functions of its own.
//
// One refusal passes several hooks: common_device_check_failure, then torchCheckFail, then the constructor of
// c10::Error. The first knows the mismatched tensor but not the message, so it only leaves a note for the second.
// Whichever hook reports leaves word for the constructor, the end of every such sequence, which takes the notes away.

#include <cstdint>
#include <string>
#include <string_view>

#include "interpose/pytorch/hook.h"
#include "tracker/base/thread_state.h"
#include "tracker/events.h"

using devtrace::Device;
using devtrace::interpose::TorchDevice;
using devtrace::interpose::tracked;
namespace events = devtrace::events;

namespace {

// c10::SourceLocation: passed by value on the stack.
struct SourceLocation {
  const char* function;
  const char* file;
  uint32_t line;
};

using NewString = std::string;
// std::string before the C++11 ABI: a pointer to the characters, whose length lies 24 bytes before them.
struct OldString {
  const char* data;
};

std::string_view view(const NewString& text) {
  return text;
}
std::string_view view(const OldString& text) {
  size_t length = 0;
  __builtin_memcpy(&length, text.data - 24, sizeof length);
  return {text.data, length};
}

// What common_device_check_failure knows and the later hooks do not. Pointers live as long as its frame, which the
// exception ends.
struct Note {
  bool set = false;
  bool reported = false;
  Device common;
  Device mismatched;
  const void* mismatched_data = nullptr;
  const char* method = nullptr;
  const char* argument = nullptr;
};
thread_local constinit Note note;

void report(std::string_view function, std::string_view file, std::string_view message) noexcept {
  events::Refused refusal;
  refusal.message = message;
  refusal.function = function;
  refusal.file = file;
  if (note.set) {
    refusal.common = note.common;
    refusal.mismatched = note.mismatched;
    refusal.mismatched_data = note.mismatched_data;
    if (note.method) refusal.method = note.method;
    if (note.argument) refusal.argument = note.argument;
  }
  note.reported = true;
  events::refused(refusal);
}

std::string_view text(const char* c_string) {
  return c_string ? c_string : "";
}

// torchCheckFail: always followed by the constructor of c10::Error.
[[gnu::noinline]] void on_check_fail(const char* function, const char* file, std::string_view message) noexcept {
  if (!devtrace::thread_state::inside()) report(text(function), text(file), message);
}

[[gnu::noinline]] void on_error(const SourceLocation& where, std::string_view message) noexcept {
  if (devtrace::thread_state::inside()) return;
  if (!note.reported) report(text(where.function), text(where.file), message);
  note = Note{};
}

// Reads a tensor through PyTorch's stable C interface (2.3 and later). Looked up in the library that holds the check
// itself.
template <class Value>
bool ask_tensor(const char* question, const void* tensor, Value& out) {
  const auto ask = reinterpret_cast<int32_t (*)(const void*, Value*)>(
      devtrace::interpose::find_in_library("libtorch_cpu.so", question));
  return ask && ask(tensor, &out) == 0;
}

[[gnu::noinline]] void on_device_check(Device common, const void* tensor, const char* method,
                                       const char* argument) noexcept {
  if (devtrace::thread_state::inside()) return;
  const devtrace::ReentrancyGuard inside;  // a question may raise: an opaque tensor has no data pointer
  note = Note{};
  note.set = true;
  note.common = common;
  note.method = method;
  note.argument = argument;
  int32_t type = -1, index = -1;
  if (ask_tensor("aoti_torch_get_device_type", tensor, type) &&
      ask_tensor("aoti_torch_get_device_index", tensor, index))
    note.mismatched = tracked({static_cast<int8_t>(type), static_cast<int8_t>(index)});
  void* data = nullptr;
  if (ask_tensor("aoti_torch_get_data_ptr", tensor, data)) note.mismatched_data = data;
}

}  // namespace

PYTORCH_HOOK(void, device_check, (TorchDevice common, const void* tensor, const char* method, const char* argument),
             _ZN3c104impl27common_device_check_failureENS_6DeviceERKN2at6TensorEPKcS7_) {
  on_device_check(tracked(common), tensor, method, argument);
  return ORIGINAL_AS(_ZN3c104impl27common_device_check_failureENS_6DeviceERKN2at6TensorEPKcS7_, device_check)(
      common, tensor, method, argument);
}

PYTORCH_HOOK(void, device_check_up_to_2_1, (void* common, const void* tensor, const char* method, const char* argument),
             _ZN3c104impl27common_device_check_failureERNS_8optionalINS_6DeviceEEERKN2at6TensorEPKcSA_) {
  on_device_check(Device{}, tensor, method, argument);
  return ORIGINAL_AS(_ZN3c104impl27common_device_check_failureERNS_8optionalINS_6DeviceEEERKN2at6TensorEPKcSA_,
                     device_check_up_to_2_1)(common, tensor, method, argument);
}

PYTORCH_HOOK(void, check_fail_literal, (const char* function, const char* file, uint32_t line, const char* message),
             _ZN3c106detail14torchCheckFailEPKcS2_jS2_) {
  on_check_fail(function, file, text(message));
  return ORIGINAL_AS(_ZN3c106detail14torchCheckFailEPKcS2_jS2_, check_fail_literal)(function, file, line, message);
}

PYTORCH_HOOK(void, check_fail_string, (const char* function, const char* file, uint32_t line, const NewString* message),
             _ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE) {
  on_check_fail(function, file, view(*message));
  return ORIGINAL_AS(_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE,
                     check_fail_string)(function, file, line, message);
}

PYTORCH_HOOK(void, check_fail_old_string,
             (const char* function, const char* file, uint32_t line, const OldString* message),
             _ZN3c106detail14torchCheckFailEPKcS2_jRKSs) {
  on_check_fail(function, file, view(*message));
  return ORIGINAL_AS(_ZN3c106detail14torchCheckFailEPKcS2_jRKSs, check_fail_old_string)(function, file, line, message);
}

#define ERROR_HOOK(name, String, symbol)                                                  \
  PYTORCH_HOOK(void, name, (void* self, SourceLocation where, String* message), symbol) { \
    on_error(where, view(*message));                                                      \
    return ORIGINAL_AS(symbol, name)(self, where, message);                               \
  }
ERROR_HOOK(error_complete, NewString,
           _ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE)
ERROR_HOOK(error_base, NewString,
           _ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE)
ERROR_HOOK(error_complete_old_string, OldString, _ZN3c105ErrorC1ENS_14SourceLocationESs)
ERROR_HOOK(error_base_old_string, OldString, _ZN3c105ErrorC2ENS_14SourceLocationESs)
