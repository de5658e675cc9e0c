#include "interpose/python/device_errors.h"

#include <algorithm>
#include <cstring>

namespace devtrace::interpose {
namespace {

// Which argument is what. {wanted} and {at} of `message` are theirs.
struct ErrorClass {
  const char* name;
  size_t arguments;
  size_t operation;  // a torch._ops.OpOverload
  size_t wanted;     // torch.device
  size_t at;         // torch.device
  const char* message;
};
constexpr ErrorClass kClasses[] = {
    // torch/_subclasses/fake_tensor.py, from 2.15 on.
    {"FakeTensorDeviceMismatchError", 3, 0, 1, 2,
     "Expected all tensors to be on the same device, but found at least two devices, {wanted} and {at}!"},
};
static_assert(std::ranges::all_of(kClasses, [](const ErrorClass& one) { return one.arguments >= kFewestArguments; }));

const ErrorClass* class_named(const char* name, size_t arguments) {
  for (const ErrorClass& one : kClasses)
    if (one.arguments == arguments && std::strcmp(one.name, name) == 0) return &one;
  return nullptr;
}

// "aten.add.Tensor", as Python calls the overload.
std::string operation_of(const python::Api& api, PyObject* overload) {
  if (python::type_name(api, python::type_of(api, overload).get()) != "OpOverload") return {};
  std::string name = python::text(api, python::attribute(api, overload, "_name").get());  // "aten::add.Tensor"
  if (const size_t colons = name.find("::"); colons != std::string::npos) name.replace(colons, 2, ".");
  return name;
}

std::string device_of(const python::Api& api, PyObject* device) {
  const bool is_device = python::type_name(api, python::type_of(api, device).get()) == "device";
  return is_device ? python::as_text(api, device) : std::string();
}

std::string filled(std::string text, const char* hole, const std::string& value) {
  if (const size_t at = text.find(hole); at != std::string::npos) text.replace(at, std::strlen(hole), value);
  return text;
}

}  // namespace

bool may_be_device_error(const char* class_name, size_t arguments) {
  return class_named(class_name, arguments);
}

std::optional<DeviceError> device_error(const python::Api& api, const char* class_name, PyObject* const* arguments) {
  for (const ErrorClass& one : kClasses) {
    if (std::strcmp(one.name, class_name) != 0) continue;
    const std::string operation = operation_of(api, arguments[one.operation]);
    const std::string wanted = device_of(api, arguments[one.wanted]), at = device_of(api, arguments[one.at]);
    if (operation.empty() || wanted.empty() || at.empty()) continue;
    return DeviceError{filled(filled(one.message, "{wanted}", wanted), "{at}", at), operation, at, wanted};
  }
  return std::nullopt;
}

}  // namespace devtrace::interpose
