// CPython's C API as found in the running process, and the two guards under which it may be used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/python_api.h"

namespace devtrace::python {

// nullptr when the process has no usable Python (none, not initialised, or finalizing).
const Api* api();

// Does the calling thread hold the GIL, in the main interpreter? No GIL is needed to ask.
bool holds_gil(const Api& api);

// Bytes that an object's header has besides the usual ones; nothing where that is not known.
std::optional<uint16_t> extra_header(const Api& api);

// The text of the exception that the calling thread handles in an `except` block: its first argument, "" if that is no
// str. Nothing where it handles none. It holds the GIL.
std::optional<std::string> handled_exception(const Api& api);

// Holds the GIL, keeps the pending exception, and keeps the garbage collector from running finalizers of the user's in
// our frames.
class Gil {
 public:
  explicit Gil(const Api& api);
  ~Gil();
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  const Api& api_;
  int state_;
  int collecting_ = 0;
  PyObject* error_[3] = {};
};

// Gives up a reference: to the thread's KeptReferences (kept_references.h) where there are any.
void let_go(const Api& api, PyObject* object) noexcept;

// An owned reference; empty when the call that made it failed (the Python error is cleared).
class Ref {
 public:
  Ref() = default;
  Ref(const Api& api, PyObject* owned) : api_(&api), object_(owned) {
    if (!owned) api.PyErr_Clear();
  }
  static Ref borrowed(const Api& api, PyObject* object) {
    if (object) api.Py_IncRef(object);
    return Ref(api, object);
  }
  Ref(Ref&& other) noexcept : api_(other.api_), object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) let_go(*api_, object_);
  }
  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  const Api* api_ = nullptr;
  PyObject* object_ = nullptr;
};

// What follows runs no Python code of the user's: no class's __getattribute__ or __getattr__, nor its class's, no
// descriptor, no operator. Only C slots of built-in types are reached.

// An attribute as it is stored: of an instance its own, else its class's. That is asked for its value where it is
// one of C's descriptors (__slots__, what an extension's class has). Of a class what it or one of its bases has, as it
// stands there. Empty where only code could say it.
Ref attribute(const Api& api, PyObject* object, const char* name);
// Of a dict by a str: keys of other classes may compare as they like, and are passed by. Empty: not there, or no dict.
Ref entry(const Api& api, PyObject* dict, std::string_view name);
// Of a list or tuple; empty past its end, and of anything else.
Ref element(const Api& api, PyObject* sequence, ssize_t index);
Ref bases_of(const Api& api, PyObject* type);       // its __mro__, a tuple
Ref dict_of_class(const Api& api, PyObject* type);  // its own __dict__, a mapping
bool is_builtin(const Api& api, PyObject* type);    // made in C: no Python code can have made or changed it
bool is_class(const Api& api, PyObject* object);
bool is_true(const Api& api, PyObject* object);  // is it True itself?
Ref call(const Api& api, PyObject* callable);    // no arguments
Ref call_method(const Api& api, PyObject* object, const char* name);
Ref call_with(const Api& api, PyObject* callable, PyObject* argument);
Ref type_of(const Api& api, PyObject* object);
std::string text(const Api& api, PyObject* unicode);    // "" when it is no str
std::string as_text(const Api& api, PyObject* object);  // str(object); "" where that would run code
std::string type_name(const Api& api, PyObject* type);  // __qualname__
Ref imported_module(const Api& api, const char* name);  // of sys.modules; empty when it is not there
// A class of what `import` gives: ModuleType or one below it, as transformers has for modules it imports late.
bool is_module_class(const Api& api, PyObject* type);
long long integer(const Api& api, PyObject* object, long long otherwise);  // of an int

enum class Shape { other, tuple, list, dict, unicode };
Shape shape_of(const Api& api, PyObject* object);  // by type flags, subclasses included

// The instance's own attributes, without asking the class: empty for objects that have none. To be read only: of an
// object that has no dict yet it is a copy. 3.11 and 3.12 load attributes slowly of one that was asked for its dict.
Ref instance_dict(const Api& api, PyObject* object);

}  // namespace devtrace::python
