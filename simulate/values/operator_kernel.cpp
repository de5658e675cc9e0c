#include <utility>

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

// PyTorch hands a number that stands for a tensor (`x + 2`) to Python as a number, but takes only tensors back. The
// arguments with such numbers as tensors.
Ref with_tensors(PyObject* arguments, PyObject* positions, PyObject* wrap_number) {
  const python::Api& p = g_python;
  const ssize_t size = p.PyTuple_Size(arguments), count = p.PyTuple_Size(positions);
  Ref changed;
  for (ssize_t i = 0; i < count; ++i) {
    const long at = p.PyLong_AsLong(p.PyTuple_GetItem(positions, i));
    if (at >= size) break;
    PyObject* value = p.PyTuple_GetItem(arguments, at);
    if (!is_number(value)) continue;
    Ref tensor = call(wrap_number, value);
    if (!tensor) return nullptr;
    if (!changed) changed = items_from(arguments, 0);
    p.PyTuple_SetItem(changed.get(), at, tensor.release());
  }
  return changed ? std::move(changed) : new_reference(arguments);
}

// What wrap() was given: the real kernel; compute(result, arguments, keywords, state). second_chance(error, arguments,
// keywords, state) or None; before(arguments, keywords) or None, which returns the state: (whether nested operators are
// computed too, …). The positions of tensors; wrap_number(number); the type of pending results. again(error) or None:
// whether the real kernel may have failed for want of values that its own nested operators compute. follow(arguments,
// keywords, result): what is as little computed as its operands.
enum Part { kReal, kCompute, kSecondChance, kBefore, kTensorPositions, kWrapNumber, kPending, kAgain, kFollow };

// A result whose size only the CPU knew (a tuple of type kPending): make(*shape and strides, **options) allocates it.
// This is done here, so that the block is seen to come from the program's own line. finish(it) fills it in.
Ref allocate(PyObject* pending) {
  const auto member = [&](ssize_t i) { return g_python.PyTuple_GetItem(pending, i); };
  const Ref made(g_python.PyObject_Call(member(0), member(1), member(2)));
  if (!made) return nullptr;
  const Unwatched unwatched;
  return call(member(3), made.get());
}

struct Call {
  PyObject* arguments;
  PyObject* keywords;
  PyObject* state;
  PyObject* pending_type;
};

// compute or second_chance.
Ref then(PyObject* function, PyObject* first, const Call& given) {
  Ref result;
  {
    const Unwatched unwatched;
    result = call(function, first, given.arguments, given.keywords, given.state);
  }
  // Several results may be waiting: one at a time.
  while (result && type_of(result.get()) == given.pending_type) result = allocate(result.get());
  return result;
}

// The error that the real kernel raised, out of Python's sight while another way is tried.
class RaisedError {
 public:
  RaisedError() {
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    g_python.PyErr_Fetch(&type, &value, &traceback);
    type_.reset(type);
    value_.reset(value);
    traceback_.reset(traceback);
  }

  PyObject* value() const { return value_ ? value_.get() : none(); }

  // The other way's result; null: the error stands, whatever that way raised. Once.
  Ref replaced_by(Ref result) {
    if (!result) {
      g_python.PyErr_Clear();
      g_python.PyErr_Restore(type_.release(), value_.release(), traceback_.release());
    }
    return result;
  }

 private:
  Ref type_, value_, traceback_;
};

// Operators that read a size which no kernel has written may fail where hardware would not. What the real one raised
// stands unless the CPU's value shows that it was wrong.
Ref second_chance(PyObject* function, const Call& given) {
  RaisedError error;
  return error.replaced_by(then(function, error.value(), given));
}

// The real kernel failed: once more, with its nested operators computed, if again(error) says so. What is still refused
// then is refused on hardware, too, and the first error stands.
Ref real_again(PyObject* real, PyObject* again, PyObject* arguments, PyObject* keywords) {
  const python::Api& p = g_python;
  RaisedError error;
  const Ref wanted = call(again, error.value());
  Ref result;
  if (wanted && p.PyObject_IsTrue(wanted.get()) == 1) {
    const OperatorScope scope(t_thread, false);
    result.reset(p.PyObject_Call(real, arguments, keywords));
  }
  return error.replaced_by(std::move(result));
}

// False: an exception.
bool follow(PyObject* function, const Call& given, PyObject* result) {
  const Unwatched unwatched;
  return call(function, given.arguments, given.keywords, result) != nullptr;
}

// The operator as a whole, with tensors for numbers.
Ref whole(PyObject* self, PyObject* arguments, PyObject* keywords) {
  const python::Api& p = g_python;
  const auto part = [&](Part which) { return p.PyTuple_GetItem(self, which); };
  Ref state = new_reference(none());
  bool nested_too = false;
  if (part(kBefore) != none()) {
    const OperatorScope scope(t_thread);
    const Unwatched unwatched;
    state = call(part(kBefore), arguments, keywords ? keywords : none());
    if (!state) return nullptr;
    nested_too = p.PyObject_IsTrue(p.PyTuple_GetItem(state.get(), 0)) == 1;
  }
  Ref result;
  RealKernel running(asynchronous());
  {
    const OperatorScope scope(t_thread, !nested_too);
    result.reset(p.PyObject_Call(part(kReal), arguments, keywords));
  }
  if (!result && !nested_too && part(kAgain) != none())
    result = real_again(part(kReal), part(kAgain), arguments, keywords);
  running.end(nullptr, nullptr, nullptr);
  const OperatorScope scope(t_thread);
  const Call given = {arguments, keywords ? keywords : none(), state.get(), part(kPending)};
  if (result) {
    result = then(part(kCompute), result.get(), given);
  } else if (part(kSecondChance) != none()) {
    result = second_chance(part(kSecondChance), given);
  }
  if (result && values::any_uncomputed() && !follow(part(kFollow), given, result.get())) return nullptr;
  return result;
}

// An operator's kernel. Written here and not in Python so that a refusal passes no Python frame of ours, in tracebacks
// and in stacks.
PyObject* kernel(PyObject* self, PyObject* given, PyObject* keywords) {
  const python::Api& p = g_python;
  const Ref arguments =
      with_tensors(given, p.PyTuple_GetItem(self, kTensorPositions), p.PyTuple_GetItem(self, kWrapNumber));
  if (!arguments) return nullptr;
  // Suppressed: inside another operator, which is computed as a whole.
  return copies_suppressed() ? p.PyObject_Call(p.PyTuple_GetItem(self, kReal), arguments.get(), keywords)
                             : whole(self, arguments.get(), keywords).release();
}

python::PyMethodDef g_kernel = {"kernel", python::as_method(kernel), kMethod, "An operator on simulated devices."};

}  // namespace

PyObject* wrap(PyObject*, PyObject* arguments, PyObject*) {
  return g_python.PyCFunction_NewEx(&g_kernel, arguments, nullptr);
}

}  // namespace devtrace::simulate::values
