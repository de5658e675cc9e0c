#include "simulate/values/functions.h"

#include <utility>

#include "simulate/values/asynchronous.h"
#include "simulate/values/interpreter.h"
#include "simulate/values/large.h"
#include "simulate/values/uncomputed.h"
#include "simulate/values/unwatched.h"
#include "simulate/values/values.h"

namespace devtrace::simulate::values {
namespace {

// not_computed(name, reason)
PyObject* not_computed(PyObject*, PyObject* arguments, PyObject*) {
  const char* name = g_python.PyUnicode_AsUTF8AndSize(g_python.PyTuple_GetItem(arguments, 0), nullptr);
  const char* reason = g_python.PyUnicode_AsUTF8AndSize(g_python.PyTuple_GetItem(arguments, 1), nullptr);
  if (!name || !reason) return nullptr;
  not_computed_operator(name, reason);
  return new_reference(none()).release();
}

// wait(): what is computed there and not as an operator reads what streams may have yet to do.
PyObject* wait(PyObject*, PyObject*, PyObject*) {
  wait_for_streams();
  return new_reference(none()).release();
}

// within(function, *arguments): the call, as inside an operator that is computed elsewhere: no copy touches memory.
PyObject* within(PyObject*, PyObject* arguments, PyObject*) {
  PyObject* function = g_python.PyTuple_GetItem(arguments, 0);
  wait_for_streams();
  const OperatorScope scope(t_thread);
  return call(function).release();
}

// after(first, second…), whose result nobody wants: `result`, or null where it failed.
Ref and_then(PyObject* after, const Ref& given, Ref result) {
  const Ref done(given ? g_python.PyObject_Call(after, given.get(), nullptr) : nullptr);
  return done ? std::move(result) : nullptr;
}

// defer(real, after, …): real(…), in which what is launched is not told as not computed, as give_up may yet do; then
// after(…). Here, so that no frame of ours stands between the program's and Triton's.
PyObject* defer(PyObject*, PyObject* arguments, PyObject* keywords) {
  const python::Api& p = g_python;
  const Ref given = items_from(arguments, 2);
  if (!given) return nullptr;
  ++t_thread.kernels_deferred;
  Ref result(p.PyObject_Call(p.PyTuple_GetItem(arguments, 0), given.get(), keywords));
  --t_thread.kernels_deferred;
  if (result) result = and_then(p.PyTuple_GetItem(arguments, 1), given, std::move(result));
  return result.release();
}

// around(within, before, real, after, …): state = before(…), result = real(…), after(state, result). Where the state is
// None only real(…). `within`: it is computed elsewhere, as inside an operator.
PyObject* around(PyObject*, PyObject* arguments, PyObject* keywords) {
  const python::Api& p = g_python;
  const auto part = [&](ssize_t i) { return p.PyTuple_GetItem(arguments, i); };
  const Ref given = items_from(arguments, 4);
  const Ref state(given ? p.PyObject_Call(part(1), given.get(), keywords) : nullptr);
  if (!state) return nullptr;
  const bool computed = state.get() != none();
  Ref result;
  if (computed && p.PyObject_IsTrue(part(0)) == 1) {
    const OperatorScope scope(t_thread);
    result.reset(p.PyObject_Call(part(2), given.get(), keywords));
  } else {
    result.reset(p.PyObject_Call(part(2), given.get(), keywords));
  }
  if (result && computed) {
    const Ref both(p.PyTuple_Pack(2, state.get(), result.get()));
    result = and_then(part(3), both, std::move(result));
  }
  return result.release();
}

// keep_kernel(name, overload, from, to), see functions.h: the name; None where it cannot be.
PyObject* keep(PyObject*, PyObject* arguments, PyObject*) {
  const python::Api& p = g_python;
  const auto text = [&](ssize_t i) { return p.PyUnicode_AsUTF8AndSize(p.PyTuple_GetItem(arguments, i), nullptr); };
  const auto key = [&](ssize_t i) { return static_cast<int>(p.PyLong_AsLong(p.PyTuple_GetItem(arguments, i))); };
  return new_reference(keep_kernel(text(0), text(1), key(2), key(3)) ? p.PyTuple_GetItem(arguments, 0) : none())
      .release();
}

// A function with other dispatch keys as its first argument than it was given. Not written in Python, as kernel().
PyObject* call_with_keys(PyObject* self, PyObject* given, PyObject* keywords) {
  const python::Api& p = g_python;
  const Ref arguments = items_from(given, 0);
  if (!arguments) return nullptr;
  p.PyTuple_SetItem(arguments.get(), 0, new_reference(p.PyTuple_GetItem(self, 1)).release());
  return p.PyObject_Call(p.PyTuple_GetItem(self, 0), arguments.get(), keywords);
}

python::PyMethodDef g_with_keys = {"real", python::as_method(call_with_keys), kMethod, nullptr};

// with_keys(function, keys)
PyObject* with_keys(PyObject*, PyObject* arguments, PyObject*) {
  return g_python.PyCFunction_NewEx(&g_with_keys, arguments, nullptr);
}

// give_up(): the last kernel that was launched so is not computed.
PyObject* give_up(PyObject*, PyObject*, PyObject*) {
  give_up_deferred_kernel();
  return new_reference(none()).release();
}

// unwatched(function): the call, of which libdevtrace.so sees nothing.
PyObject* unwatched(PyObject*, PyObject* arguments, PyObject*) {
  wait_for_streams();
  const Unwatched scope;
  return call(g_python.PyTuple_GetItem(arguments, 0)).release();
}

// A tuple of addresses and sizes by turns.
template <class Do>
void each_range(PyObject* ranges, const Do& act) {
  const python::Api& p = g_python;
  for (ssize_t i = 0; i + 1 < p.PyTuple_Size(ranges); i += 2)
    act(static_cast<uintptr_t>(p.PyLong_AsLongLong(p.PyTuple_GetItem(ranges, i))),
        static_cast<size_t>(p.PyLong_AsLongLong(p.PyTuple_GetItem(ranges, i + 1))));
}

// None, or something that is true.
PyObject* truth(bool value) {
  if (value) return g_python.PyTuple_Pack(1, none());
  return new_reference(none()).release();
}

// code_is_compiled(): torch.compile's, which is computed as a whole.
PyObject* code_is_compiled(PyObject*, PyObject*, PyObject*) {
  values::code_is_compiled();
  return new_reference(none()).release();
}

// any_uncomputed()
PyObject* any_uncomputed(PyObject*, PyObject*, PyObject*) {
  return truth(values::any_uncomputed());
}

// follow_uncomputed(read, written, told): the ranges of what was read and written by something that was computed; told:
// the result is the host's.
PyObject* follow_uncomputed(PyObject*, PyObject* arguments, PyObject*) {
  Source source = 0;
  const auto part = [&](ssize_t i) { return g_python.PyTuple_GetItem(arguments, i); };
  each_range(part(0), [&](uintptr_t begin, size_t size) {
    if (!source) source = uncomputed().find(begin, size);
  });
  each_range(part(1), [&](uintptr_t begin, size_t size) {
    if (source)
      uncomputed().mark(begin, size, source);
    else
      uncomputed().clear(begin, size);
  });
  if (source && g_python.PyObject_IsTrue(part(2)) == 1) uncomputed_is_read(source);
  return truth(source != 0);
}

// mark_uncomputed(operator, ranges)
PyObject* mark_uncomputed(PyObject*, PyObject* arguments, PyObject*) {
  const char* name = g_python.PyUnicode_AsUTF8AndSize(g_python.PyTuple_GetItem(arguments, 0), nullptr);
  if (!name) return nullptr;
  const Source source = operator_source(name);
  each_range(g_python.PyTuple_GetItem(arguments, 1), [&](uintptr_t begin, size_t size) {
    uncomputed().mark(begin, size, source);
    poison(begin, size);
  });
  return truth(false);
}

python::PyMethodDef g_functions[] = {
    {"wrap", python::as_method(wrap), kMethod, nullptr},
    {"not_computed", python::as_method(not_computed), kMethod, nullptr},
    {"within", python::as_method(within), kMethod, nullptr},
    {"wait", python::as_method(wait), kMethod, nullptr},
    {"keep_kernel", python::as_method(keep), kMethod, nullptr},
    {"with_keys", python::as_method(with_keys), kMethod, nullptr},
    {"defer", python::as_method(defer), kMethod, nullptr},
    {"around", python::as_method(around), kMethod, nullptr},
    {"give_up", python::as_method(give_up), kMethod, nullptr},
    {"unwatched", python::as_method(unwatched), kMethod, nullptr},
    {"code_is_compiled", python::as_method(code_is_compiled), kMethod, nullptr},
    {"any_uncomputed", python::as_method(any_uncomputed), kMethod, nullptr},
    {"follow_uncomputed", python::as_method(follow_uncomputed), kMethod, nullptr},
    {"mark_uncomputed", python::as_method(mark_uncomputed), kMethod, nullptr},
};

}  // namespace

std::span<python::PyMethodDef> functions() {
  return g_functions;
}

}  // namespace devtrace::simulate::values
