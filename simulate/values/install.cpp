// Python's side of true values, brought in from here: no environment variable, no sitecustomize and no import hook that
// the program or its child processes could see or lose, and nothing at all in a process that does not use CUDA.
//
// Python's functions are found where the process has them; there are no Python headers in the build.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/python_api.h"
#include "simulate/values/asynchronous.h"
#include "simulate/values/older_pytorch.h"
#include "simulate/values/uncomputed.h"
#include "simulate/values/unwatched.h"
#include "simulate/values/values.h"

namespace devtrace::simulate::values {

thread_local Thread t_thread;

namespace {

python::Api g_python;

bool find_python() {
  const auto find = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
  if (!find("Py_IsInitialized")) return false;
  const bool functions = python::find_functions(g_python, find);
  return python::find_data(g_python, find) && functions;
}

PyObject* none() {
  return g_python._Py_NoneStruct;
}

PyObject* type_of(PyObject* value) {
  PyObject* type = g_python.PyObject_Type(value);
  g_python.Py_DecRef(type);  // a type lives on
  return type;
}

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
    PyObject* call = p.PyTuple_Pack(1, value);
    PyObject* tensor = p.PyObject_Call(wrap_number, call, nullptr);
    p.Py_DecRef(call);
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
  PyObject* call = g_python.PyTuple_Pack(1, made);
  g_python.Py_DecRef(made);
  PyObject* result = call ? g_python.PyObject_Call(member(3), call, nullptr) : nullptr;
  if (call) g_python.Py_DecRef(call);
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
    PyObject* call = g_python.PyTuple_Pack(4, first, given.arguments, given.keywords, given.state);
    result = call ? g_python.PyObject_Call(function, call, nullptr) : nullptr;
    if (call) g_python.Py_DecRef(call);
  }
  // Several results may be waiting: one at a time.
  while (result && type_of(result) == given.pending_type) {
    PyObject* next = allocate(result);
    g_python.Py_DecRef(result);
    result = next;
  }
  return result;
}

// Operators that read a size which no kernel has written may fail where hardware would not. What the real one raised
// stands unless the CPU's value shows that it was wrong.
PyObject* second_chance(PyObject* function, const Call& given) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  g_python.PyErr_Fetch(&type, &value, &traceback);
  PyObject* result = then(function, value ? value : none(), given);
  if (!result) {
    g_python.PyErr_Clear();
    g_python.PyErr_Restore(type, value, traceback);
    return nullptr;
  }
  for (PyObject* each : {type, value, traceback})
    if (each) g_python.Py_DecRef(each);
  return result;
}

// The real kernel failed: once more, with its nested operators computed, if again(error) says so. What is still refused
// then is refused on hardware, too, and the first error stands.
PyObject* real_again(PyObject* real, PyObject* again, PyObject* arguments, PyObject* keywords) {
  const python::Api& p = g_python;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr, *result = nullptr;
  p.PyErr_Fetch(&type, &value, &traceback);
  PyObject* call = p.PyTuple_Pack(1, value ? value : none());
  PyObject* wanted = call ? p.PyObject_Call(again, call, nullptr) : nullptr;
  if (wanted && p.PyObject_IsTrue(wanted) == 1) {
    const OperatorScope scope(t_thread, false);
    result = p.PyObject_Call(real, arguments, keywords);
  }
  for (PyObject* each : {call, wanted})
    if (each) p.Py_DecRef(each);
  if (!result) {
    p.PyErr_Clear();
    p.PyErr_Restore(type, value, traceback);
    return nullptr;
  }
  for (PyObject* each : {type, value, traceback})
    if (each) p.Py_DecRef(each);
  return result;
}

// False: an exception.
bool follow(PyObject* function, const Call& given, PyObject* result) {
  const Unwatched unwatched;
  PyObject* call = g_python.PyTuple_Pack(3, given.arguments, given.keywords, result);
  PyObject* done = call ? g_python.PyObject_Call(function, call, nullptr) : nullptr;
  for (PyObject* each : {call, done})
    if (each) g_python.Py_DecRef(each);
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
    PyObject* call = p.PyTuple_Pack(2, arguments, keywords ? keywords : none());
    state = call ? p.PyObject_Call(part(kBefore), call, nullptr) : nullptr;
    if (call) p.Py_DecRef(call);
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
  // Held: inside another operator, which is computed as a whole.
  PyObject* result = copies_suppressed() ? p.PyObject_Call(p.PyTuple_GetItem(self, kReal), arguments, keywords)
                                         : whole(self, arguments, keywords);
  p.Py_DecRef(arguments);
  return result;
}

constexpr int kMethod = python::METH_VARARGS | python::METH_KEYWORDS;
python::PyMethodDef g_kernel = {"kernel", python::as_method(kernel), kMethod, "An operator on simulated devices."};

// wrap(…, see Part): the kernel to register.
PyObject* wrap(PyObject*, PyObject* arguments, PyObject*) {
  return g_python.PyCFunction_NewEx(&g_kernel, arguments, nullptr);
}

// not_computed(name, reason)
PyObject* not_computed(PyObject*, PyObject* arguments, PyObject*) {
  const char* name = g_python.PyUnicode_AsUTF8AndSize(g_python.PyTuple_GetItem(arguments, 0), nullptr);
  const char* reason = g_python.PyUnicode_AsUTF8AndSize(g_python.PyTuple_GetItem(arguments, 1), nullptr);
  if (!name || !reason) return nullptr;
  not_computed_operator(name, reason);
  g_python.Py_IncRef(none());
  return none();
}

PyObject* call_without_arguments(PyObject* function) {
  PyObject* call = g_python.PyTuple_Pack(0);
  PyObject* result = call ? g_python.PyObject_Call(function, call, nullptr) : nullptr;
  if (call) g_python.Py_DecRef(call);
  return result;
}

// What is computed there and not as an operator reads what streams may have yet to do.
void wait_for_streams() {
  if (const Asynchronous* functions = asynchronous()) functions->wait_for_all();
}

// wait()
PyObject* wait(PyObject*, PyObject*, PyObject*) {
  wait_for_streams();
  g_python.Py_IncRef(none());
  return none();
}

// within(function, *arguments): the call, as inside an operator that is computed elsewhere: no copy touches memory.
PyObject* within(PyObject*, PyObject* arguments, PyObject*) {
  PyObject* function = g_python.PyTuple_GetItem(arguments, 0);
  wait_for_streams();
  const OperatorScope scope(t_thread);
  return call_without_arguments(function);
}

// The arguments from `first` on; a new reference.
PyObject* rest(PyObject* arguments, ssize_t first) {
  const python::Api& p = g_python;
  const ssize_t size = p.PyTuple_Size(arguments);
  PyObject* made = p.PyTuple_New(size - first);
  for (ssize_t i = first; made && i < size; ++i) {
    PyObject* each = p.PyTuple_GetItem(arguments, i);
    p.Py_IncRef(each);
    p.PyTuple_SetItem(made, i - first, each);
  }
  return made;
}

// after(first, second…), whose result nobody wants: `result`, or null where it failed.
PyObject* and_then(PyObject* after, PyObject* given, PyObject* result) {
  PyObject* done = given ? g_python.PyObject_Call(after, given, nullptr) : nullptr;
  if (done) {
    g_python.Py_DecRef(done);
    return result;
  }
  g_python.Py_DecRef(result);
  return nullptr;
}

// defer(real, after, …): real(…), in which what is launched is not told as not computed, as give_up may yet do; then
// after(…). Here, so that no frame of ours stands between the program's and Triton's.
PyObject* defer(PyObject*, PyObject* arguments, PyObject* keywords) {
  const python::Api& p = g_python;
  PyObject* given = rest(arguments, 2);
  if (!given) return nullptr;
  ++t_thread.kernels_deferred;
  PyObject* result = p.PyObject_Call(p.PyTuple_GetItem(arguments, 0), given, keywords);
  --t_thread.kernels_deferred;
  if (result) result = and_then(p.PyTuple_GetItem(arguments, 1), given, result);
  p.Py_DecRef(given);
  return result;
}

// around(within, before, real, after, …): state = before(…), result = real(…), after(state, result). Where the state is
// None only real(…). `within`: it is computed elsewhere, as inside an operator.
PyObject* around(PyObject*, PyObject* arguments, PyObject* keywords) {
  const python::Api& p = g_python;
  const auto part = [&](ssize_t i) { return p.PyTuple_GetItem(arguments, i); };
  PyObject* given = rest(arguments, 4);
  PyObject* state = given ? p.PyObject_Call(part(1), given, keywords) : nullptr;
  PyObject* result = nullptr;
  if (state && state != none() && p.PyObject_IsTrue(part(0)) == 1) {
    const OperatorScope scope(t_thread);
    result = p.PyObject_Call(part(2), given, keywords);
  } else if (state) {
    result = p.PyObject_Call(part(2), given, keywords);
  }
  if (result && state != none()) {
    PyObject* both = p.PyTuple_Pack(2, state, result);
    result = and_then(part(3), both, result);
    if (both) p.Py_DecRef(both);
  }
  for (PyObject* each : {given, state})
    if (each) p.Py_DecRef(each);
  return result;
}

// keep_kernel(name, overload, from, to), see older_pytorch.h: the name; None where it cannot be.
PyObject* keep(PyObject*, PyObject* arguments, PyObject*) {
  const python::Api& p = g_python;
  const auto text = [&](ssize_t i) { return p.PyUnicode_AsUTF8AndSize(p.PyTuple_GetItem(arguments, i), nullptr); };
  const auto key = [&](ssize_t i) { return static_cast<int>(p.PyLong_AsLong(p.PyTuple_GetItem(arguments, i))); };
  PyObject* kept = keep_kernel(text(0), text(1), key(2), key(3)) ? p.PyTuple_GetItem(arguments, 0) : none();
  p.Py_IncRef(kept);
  return kept;
}

// A function with other dispatch keys as its first argument than it was given. Not written in Python, as kernel().
PyObject* call_with_keys(PyObject* self, PyObject* given, PyObject* keywords) {
  const python::Api& p = g_python;
  const ssize_t size = p.PyTuple_Size(given);
  PyObject* arguments = p.PyTuple_New(size);
  for (ssize_t i = 0; i < size; ++i) {
    PyObject* each = i == 0 ? p.PyTuple_GetItem(self, 1) : p.PyTuple_GetItem(given, i);
    p.Py_IncRef(each);
    p.PyTuple_SetItem(arguments, i, each);
  }
  PyObject* result = p.PyObject_Call(p.PyTuple_GetItem(self, 0), arguments, keywords);
  p.Py_DecRef(arguments);
  return result;
}

python::PyMethodDef g_with_keys = {"real", python::as_method(call_with_keys), kMethod, nullptr};

// with_keys(function, keys)
PyObject* with_keys(PyObject*, PyObject* arguments, PyObject*) {
  return g_python.PyCFunction_NewEx(&g_with_keys, arguments, nullptr);
}

// give_up(): the last kernel that was launched so is not computed.
PyObject* give_up(PyObject*, PyObject*, PyObject*) {
  give_up_deferred_kernel();
  g_python.Py_IncRef(none());
  return none();
}

// unwatched(function): the call, of which libdevtrace.so sees nothing.
PyObject* unwatched(PyObject*, PyObject* arguments, PyObject*) {
  wait_for_streams();
  const Unwatched scope;
  return call_without_arguments(g_python.PyTuple_GetItem(arguments, 0));
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
  g_python.Py_IncRef(none());
  return none();
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
    {"any_uncomputed", python::as_method(any_uncomputed), kMethod, nullptr},
    {"follow_uncomputed", python::as_method(follow_uncomputed), kMethod, nullptr},
    {"mark_uncomputed", python::as_method(mark_uncomputed), kMethod, nullptr},
};

// Beside this library.
std::string package_folder() {
  Dl_info own;
  if (!dladdr(reinterpret_cast<void*>(&package_folder), &own) || !own.dli_fname) return {};
  const std::string path = own.dli_fname;
  return path.substr(0, path.rfind('/') + 1) + "python/devtrace_values";
}

constexpr int kFileInput = 257;  // Py_file_input

constexpr const char* kLine = R"(
import importlib.util
spec = importlib.util.spec_from_file_location('_devtrace_program_line', folder + '/program_line.py')
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
found = module.line()
)";

// The program's line; whatever it has printed is written. Empty where Python cannot be asked.
std::string line_of_python() {
  const python::Api& p = g_python;
  if (!p.Py_IsInitialized() || (p.Py_IsFinalizing && p.Py_IsFinalizing())) return {};
  const int state = p.PyGILState_Ensure();
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  p.PyErr_Fetch(&type, &value, &traceback);
  PyObject* globals = p.PyDict_New();
  p.PyDict_SetItemString(globals, "__builtins__", p.PyImport_AddModule("builtins"));
  PyObject* folder = p.PyUnicode_FromString(package_folder().c_str());
  p.PyDict_SetItemString(globals, "folder", folder);
  PyObject* code = p.Py_CompileString(kLine, "<devtrace>", kFileInput);
  PyObject* done = code ? p.PyEval_EvalCode(code, globals, globals) : nullptr;
  PyObject* found = done ? p.PyDict_GetItemString(globals, "found") : nullptr;
  const char* text = found ? p.PyUnicode_AsUTF8AndSize(found, nullptr) : nullptr;
  const std::string line = text ? text : "";
  for (PyObject* each : {folder, code, done, globals})
    if (each) p.Py_DecRef(each);
  p.PyErr_Clear();
  p.PyErr_Restore(type, value, traceback);
  p.PyGILState_Release(state);
  return line;
}

std::atomic<bool> g_failed{false}, g_torch{false};
PyObject* g_triton = nullptr;  // puts what computes Triton's kernels behind its launches, if Triton is there

constexpr const char* kStart = R"(
def start(folder, functions):
    import importlib.util, sys
    spec = importlib.util.spec_from_file_location('_devtrace_values', folder + '/__init__.py', submodule_search_locations=[folder])
    module = importlib.util.module_from_spec(spec)
    sys.modules['_devtrace_values'] = module
    spec.loader.exec_module(module)
    return module.install(**functions)
try:
    triton = start(folder, functions)
except Exception as error:
    failed = True
    import traceback
    verbose = __import__('os').environ.get('DEVTRACE_SIM_VERBOSE') == '1'
    print('devtrace: values are not computed:', traceback.format_exc() if verbose else error, file=__import__('sys').stderr)
)";

void install() {
  const python::Api& p = g_python;
  PyObject* globals = p.PyModule_GetDict(p.PyImport_AddModule("_devtrace_values_start"));
  p.PyDict_SetItemString(globals, "__builtins__", p.PyImport_AddModule("builtins"));
  PyObject* folder = p.PyUnicode_FromString(package_folder().c_str());
  p.PyDict_SetItemString(globals, "folder", folder);
  p.Py_DecRef(folder);
  PyObject* functions = p.PyDict_New();
  for (python::PyMethodDef& each : g_functions) {
    PyObject* function = p.PyCFunction_NewEx(&each, nullptr, nullptr);
    p.PyDict_SetItemString(functions, each.ml_name, function);
    p.Py_DecRef(function);
  }
  p.PyDict_SetItemString(globals, "functions", functions);
  p.Py_DecRef(functions);
  PyObject* code = p.Py_CompileString(kStart, "<devtrace>", kFileInput);
  PyObject* done = code ? p.PyEval_EvalCode(code, globals, globals) : nullptr;
  if (!done) p.PyErr_Print();
  g_failed = !done || p.PyDict_GetItemString(globals, "failed");
  g_triton = p.PyDict_GetItemString(globals, "triton");
  if (g_triton) p.Py_IncRef(g_triton);
  for (PyObject* each : {code, done})
    if (each) p.Py_DecRef(each);
}

// PyTorch, imported to the end.
bool torch_is_there() {
  PyObject* modules = g_python.PyImport_GetModuleDict();
  if (!modules || !g_python.PyDict_GetItemString(modules, "torch.library")) return false;
  PyObject* torch = g_python.PyDict_GetItemString(modules, "torch");
  // The last thing of torch/__init__.py that a use of CUDA could need.
  return torch && g_python.PyDict_GetItemString(g_python.PyModule_GetDict(torch), "compile");
}

enum State { kUnknown, kWaiting, kDone };
std::atomic<int> g_state{kUnknown};

bool switched_off() {
  const char* values = std::getenv("DEVTRACE_SIM_VALUES");
  return values && !std::strcmp(values, "0");
}

}  // namespace

bool are_computed() {
  return !switched_off() && !g_failed;
}

void ensure_installed() {
  int state = g_state.load(std::memory_order_acquire);
  if (state == kDone) return;
  if (state == kUnknown) {
    // Also right before a thread's first look while another one fills the table: it writes the same pointers.
    state = !switched_off() && find_python() ? kWaiting : kDone;
    if (state == kWaiting) set_line_of_python(line_of_python);
    g_state.store(state, std::memory_order_release);
    if (state == kDone) return;
  }
  if (!g_python.Py_IsInitialized() || !g_python.PyGILState_Check() || g_python.PyErr_Occurred()) return;
  if (!torch_is_there()) return;
  if (g_state.exchange(kDone) == kDone) return;
  const OperatorScope scope(t_thread);
  const Unwatched unwatched;
  install();
  g_torch = true;
  if (g_failed) end_if_strict();
}

void look_for_triton() {
  static std::atomic<bool> done{false};
  const python::Api& p = g_python;
  if (done.load(std::memory_order_relaxed) || !g_torch || !g_triton) return;
  if (!p.PyGILState_Check() || p.PyErr_Occurred()) return;
  PyObject* modules = p.PyImport_GetModuleDict();
  if (!modules || !p.PyDict_GetItemString(modules, "triton.backends.nvidia.driver")) return;
  const Unwatched unwatched;
  PyObject* found = call_without_arguments(g_triton);
  if (found) done = p.PyObject_IsTrue(found) == 1;
  if (found) p.Py_DecRef(found);
  p.PyErr_Clear();
}

bool has_torch() {
  return g_torch;
}

}  // namespace devtrace::simulate::values

// For the kernels of torch/.
extern "C" __attribute__((visibility("default"))) devtrace::simulate::values::Thread* devtrace_sim_values_thread() {
  return &devtrace::simulate::values::t_thread;
}
