// The wheels' own libcupti, which needs no driver to say how it names its callbacks.
#pragma once

#include <cupti.h>
#include <dlfcn.h>

#include <string>

namespace real_cupti {

inline std::string path() {
  return DEVTRACE_REAL_CUPTI;
}

inline decltype(&cuptiGetCallbackName) callback_name() {
  static void* const library = ::dlopen(path().c_str(), RTLD_LAZY | RTLD_LOCAL);
  return library ? reinterpret_cast<decltype(&cuptiGetCallbackName)>(::dlsym(library, "cuptiGetCallbackName"))
                 : nullptr;
}

inline std::string name(CUpti_CallbackDomain domain, uint32_t id) {
  const char* text = nullptr;
  return callback_name()(domain, id, &text) == CUPTI_SUCCESS && text ? text : "";
}

}  // namespace real_cupti
