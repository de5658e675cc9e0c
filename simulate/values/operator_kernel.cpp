#include "simulate/values/asynchronous.h"
#include "simulate/values/functions.h"
#include "simulate/values/interpreter.h"
#include "simulate/values/uncomputed.h"
#include "simulate/values/unwatched.h"
#include "simulate/values/values.h"

namespace devtrace::simulate::values {
namespace {

bool is_number(PyObject* value) {
  PyObject* type = type_of(value);
  return type == g_python.PyFloat_Type || type == g_python.PyLong_Type || type == g_python.PyBool_Type ||
         type == g_python.PyComplex_Type;
}

// PyTorch hands a number that stands for a tensor (`x + 2`) to Python as a number, but takes only tensors back. A new
// reference to the arguments with such numbers as tensors; null with an exception.
PyObject* with_tensors(PyObject* arguments, PyObject* positions, PyObject* wrap_number) {
  const python::Api& p = g_python;
  const ssize_t size = p.PyTuple_Size(arguments), count = p.PyTuple_Size(positions);
  PyObject* changed = nullptr;
  for (ssize_t i = 0; i < count; ++i) {
    const long at = p.PyLong_AsLong(p.PyTuple_GetItem(positions, i));
    if (at >= size) break;
    PyObject* value = p.PyTuple_GetItem(arguments, at);
    if (!is_number(value)) continue;
    PyObject* tensor = call(wrap_number, value);
    if (!tensor) {
      if (changed) p.Py_DecRef(changed);
      return nullptr;
    }
    if (!changed) {
      changed = p.PyTuple_New(size);
      for (ssize_t j = 0; j < size; ++j) {
        PyObject* each = p.PyTuple_GetItem(arguments, j);
        p.Py_IncRef(each);
        p.PyTuple_SetItem(changed, j, each);
      }
    }
    p.PyTuple_SetItem(changed, at, tensor);
  }
  if (changed) return changed;
  p.Py_IncRef(arguments);
  return arguments;
}

// What wrap() was given: the real kernel; compute(result, arguments, keywords, state); second_chance(error, arguments,
// keywords, state) or None; before(arguments, keywords) or None, which returns the state: (whether nested operators are
// computed too, …); the positions of tensors; wrap_number(number); the type of pending results; again(error) or None:
// whether the real kernel may have failed for want of values that its own nested operators compute; follow(arguments,
// keywords, result): what is as little computed as its operands.
enum Part { kReal, kCompute, kSecondChance, kBefore, kTensorPositions, kWrapNumber, kPending, kAgain, kFollow };

// A result whose size only the CPU knew (a tuple of type kPending): make(*shape and strides, **options) allocates it,
// here, so that the block is seen to come from the program's own line; finish(it) fills it in.
PyObject* allocate(PyObject* pending) {
  const auto member = [&](ssize_t i) { return g_python.PyTuple_GetItem(pending, i); };
  PyObject* made = g_python.PyObject_Call(member(0), member(1), member(2));
  if (!made) return nullptr;
  const Unwatched unwatched;
  PyObject* result = call(member(3), made);
  g_python.Py_DecRef(made);
  return result;
}

struct Call {
  PyObject* arguments;
  PyObject* keywords;
  PyObject* state;
  PyObject* pending_type;
};

// compute or second_chance. A new reference, or null with an exception.
PyObject* then(PyObject* function, PyObject* first, const Call& given) {
  PyObject* result = nullptr;
  {
    const Unwatched unwatched;
    result = call(function, first, given.arguments, given.keywords, given.state);
  }
  // Several results may be waiting: one at a time.
  while (result && type_of(result) == given.pending_type) {
    PyObject* next = allocate(result);
    g_python.Py_DecRef(result);
    result = next;
  }
  return result;
}

// The error that the real kernel raised, out of Python's sight while another way is tried.
class RaisedError {
 public:
  RaisedError() { g_python.PyErr_Fetch(&type_, &value_, &traceback_); }
  RaisedError(const RaisedError&) = delete;
  RaisedError& operator=(const RaisedError&) = delete;

  PyObject* value() const { return value_ ? value_ : none(); }

  // The other way's result; null: the error stands, whatever that way raised. Once.
  PyObject* replaced_by(PyObject* result) {
    if (!result) {
      g_python.PyErr_Clear();
      g_python.PyErr_Restore(type_, value_, traceback_);
      return nullptr;
    }
    for (PyObject* each : {type_, value_, traceback_})
      if (each) g_python.Py_DecRef(each);
    return result;
  }

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

// Operators that read a size which no kernel has written may fail where hardware would not. What the real one raised
// stands unless the CPU's value shows that it was wrong.
PyObject* second_chance(PyObject* function, const Call& given) {
  RaisedError error;
  return error.replaced_by(then(function, error.value(), given));
}

// The real kernel failed: once more, with its nested operators computed, if again(error) says so. What is still refused
// then is refused on hardware, too, and the first error stands.
PyObject* real_again(PyObject* real, PyObject* again, PyObject* arguments, PyObject* keywords) {
  const python::Api& p = g_python;
  RaisedError error;
  PyObject* wanted = call(again, error.value());
  PyObject* result = nullptr;
  if (wanted && p.PyObject_IsTrue(wanted) == 1) {
    const OperatorScope scope(t_thread, false);
    result = p.PyObject_Call(real, arguments, keywords);
  }
  if (wanted) p.Py_DecRef(wanted);
  return error.replaced_by(result);
}

// False: an exception.
bool follow(PyObject* function, const Call& given, PyObject* result) {
  const Unwatched unwatched;
  PyObject* done = call(function, given.arguments, given.keywords, result);
  if (done) g_python.Py_DecRef(done);
  return done != nullptr;
}

// The operator as a whole, with tensors for numbers.
PyObject* whole(PyObject* self, PyObject* arguments, PyObject* keywords) {
  const python::Api& p = g_python;
  const auto part = [&](Part which) { return p.PyTuple_GetItem(self, which); };
  PyObject* state = none();
  bool nested_too = false;
  if (part(kBefore) != none()) {
    const OperatorScope scope(t_thread);
    const Unwatched unwatched;
    state = call(part(kBefore), arguments, keywords ? keywords : none());
    if (!state) return nullptr;
    nested_too = p.PyObject_IsTrue(p.PyTuple_GetItem(state, 0)) == 1;
  } else {
    p.Py_IncRef(state);
  }
  PyObject* result = nullptr;
  RealKernel running(asynchronous());
  {
    const OperatorScope scope(t_thread, !nested_too);
    result = p.PyObject_Call(part(kReal), arguments, keywords);
  }
  if (!result && !nested_too && part(kAgain) != none())
    result = real_again(part(kReal), part(kAgain), arguments, keywords);
  running.end(nullptr, nullptr, nullptr);
  const OperatorScope scope(t_thread);
  const Call given = {arguments, keywords ? keywords : none(), state, part(kPending)};
  if (result) {
    PyObject* computed = then(part(kCompute), result, given);
    p.Py_DecRef(result);
    result = computed;
  } else if (part(kSecondChance) != none()) {
    result = second_chance(part(kSecondChance), given);
  }
  if (result && values::any_uncomputed() && !follow(part(kFollow), given, result)) {
    p.Py_DecRef(result);
    result = nullptr;
  }
  p.Py_DecRef(state);
  return result;
}

// An operator's kernel. Written here and not in Python so that a refusal passes no Python frame of ours, in tracebacks
// and in stacks.
PyObject* kernel(PyObject* self, PyObject* given, PyObject* keywords) {
  const python::Api& p = g_python;
  PyObject* arguments =
      with_tensors(given, p.PyTuple_GetItem(self, kTensorPositions), p.PyTuple_GetItem(self, kWrapNumber));
  if (!arguments) return nullptr;
  // Suppressed: inside another operator, which is computed as a whole.
  PyObject* result = copies_suppressed() ? p.PyObject_Call(p.PyTuple_GetItem(self, kReal), arguments, keywords)
                                         : whole(self, arguments, keywords);
  p.Py_DecRef(arguments);
  return result;
}

python::PyMethodDef g_kernel = {"kernel", python::as_method(kernel), kMethod, "An operator on simulated devices."};

}  // namespace

PyObject* wrap(PyObject*, PyObject* arguments, PyObject*) {
  return g_python.PyCFunction_NewEx(&g_kernel, arguments, nullptr);
}

}  // namespace devtrace::simulate::values
