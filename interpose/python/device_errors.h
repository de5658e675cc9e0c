// Exceptions of PyTorch's that are made of an operator and devices, and write their text only in their own __init__,
// after they were looked at: what they will say.
#pragma once

#include <optional>
#include <string>

#include "tracker/python/python_api.h"

namespace devtrace::interpose {

struct DeviceError {
  std::string message;  // the exception's text
  std::string operation, at, wanted;
};

// None of them has fewer.
inline constexpr size_t kFewestArguments = 3;

// Whether a class of that name is worth asking for. A few comparisons; no Python.
bool may_be_device_error(const char* class_name, size_t arguments);

// Of such an exception that is being made. Under the GIL, with no Python error set; runs no code of the program's.
std::optional<DeviceError> device_error(const python::Api& api, const char* class_name, PyObject* const* arguments);

}  // namespace devtrace::interpose
