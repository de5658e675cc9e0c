// C++ exceptions that are thrown without c10::Error: torch::TypeError and its like, std::runtime_error of extensions.
//
// Only libstdc++'s function is stood in for, under its version. This library's own exceptions keep the function of the
// libstdc++ that is linked into it.

#include <exception>
#include <stdexcept>
#include <string_view>
#include <typeinfo>

#include "interpose/linking/original.h"
#include "tracker/base/thread_state.h"
#include "tracker/events.h"
#include "tracker/interface/device_words.h"

namespace events = devtrace::events;

namespace {

// The base class's part of an exception of any class; null: it has none. Classes are compared by name, so that those of
// another copy of libstdc++ are the same.
template <class Base>
const Base* base_of(void* object, const std::type_info& type) {
  return typeid(Base).__do_catch(&type, &object, 1) ? static_cast<const Base*>(object) : nullptr;
}

// No function of the program's is called: the standard classes' own what(), and that of PyTorch's errors, which are a
// string. pybind11's error, a std::runtime_error once, would ask Python; its own text says nothing then.
std::string_view message_of(void* object, const std::type_info& type) {
  const char* text = nullptr;
  if (const auto* error = base_of<std::runtime_error>(object, type))
    text = error->std::runtime_error::what();
  else if (const auto* error = base_of<std::logic_error>(object, type))
    text = error->std::logic_error::what();
  else if (const std::string_view name = type.name(); name.starts_with("N5torch") && name.ends_with("ErrorE"))
    if (const auto* error = base_of<std::exception>(object, type)) text = error->what();
  return text ? text : "";
}

[[gnu::noinline]] void on_throw(void* object, const std::type_info* type) noexcept {
  if (!object || !type || devtrace::thread_state::inside()) return;
  const std::string_view message = message_of(object, *type);
  if (!devtrace::speaks_of_devices(message)) return;
  events::Refused refusal;
  refusal.message = message;
  refusal.raised = events::Raised::thrown;
  events::refused(refusal);
}

}  // namespace

extern "C" void cxa_throw_hook(void* object, std::type_info* type, void (*destroy)(void*));
__asm__(".symver cxa_throw_hook, __cxa_throw@CXXABI_1.3");
extern "C" DEVTRACE_EXPORT void cxa_throw_hook(void* object, std::type_info* type, void (*destroy)(void*)) {
  on_throw(object, type);
  return ORIGINAL_AS(__cxa_throw, cxa_throw_hook)(object, type, destroy);
}
