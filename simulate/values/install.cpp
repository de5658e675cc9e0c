// Python's side of true values, brought in from here: no environment variable, no sitecustomize and no import hook that
// the program or its child processes could see or lose. Nothing at all is done in a process that does not use CUDA.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "simulate/settings/wanted_values.h"
#include "simulate/values/functions.h"
#include "simulate/values/interpreter.h"
#include "simulate/values/uncomputed.h"
#include "simulate/values/unwatched.h"
#include "simulate/values/values.h"

namespace devtrace::simulate::values {

thread_local Thread t_thread;

namespace {

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

// Python code that knows the package's folder.
Ref run(const char* source, PyObject* globals) {
  const python::Api& p = g_python;
  p.PyDict_SetItemString(globals, "__builtins__", p.PyImport_AddModule("builtins"));
  const Ref folder(p.PyUnicode_FromString(package_folder().c_str()));
  p.PyDict_SetItemString(globals, "folder", folder.get());
  const Ref code(p.Py_CompileString(source, "<devtrace>", kFileInput));
  return Ref(code ? p.PyEval_EvalCode(code.get(), globals, globals) : nullptr);
}

// The program's line; whatever it has printed is written. Empty where Python cannot be asked.
std::string line_of_python() {
  const python::Api& p = g_python;
  if (!p.Py_IsInitialized() || (p.Py_IsFinalizing && p.Py_IsFinalizing())) return {};
  const int state = p.PyGILState_Ensure();
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  p.PyErr_Fetch(&type, &value, &traceback);
  std::string line;
  {
    const Ref globals(p.PyDict_New());
    const Ref done = run(kLine, globals.get());
    PyObject* found = done ? p.PyDict_GetItemString(globals.get(), "found") : nullptr;
    const char* text = found ? p.PyUnicode_AsUTF8AndSize(found, nullptr) : nullptr;
    line = text ? text : "";
  }
  p.PyErr_Clear();
  p.PyErr_Restore(type, value, traceback);
  p.PyGILState_Release(state);
  return line;
}

std::atomic<bool> g_failed{false}, g_torch{false};
PyObject* g_triton = nullptr;  // puts what computes Triton's kernels behind its launches, if Triton is there
PyObject* g_look = nullptr;    // replaces the kernels of operators that were defined since
std::atomic<bool> g_defined{false};

constexpr const char* kStart = R"(
def start(folder, functions):
    import importlib.util, sys
    spec = importlib.util.spec_from_file_location('_devtrace_values', folder + '/__init__.py', submodule_search_locations=[folder])
    module = importlib.util.module_from_spec(spec)
    sys.modules['_devtrace_values'] = module
    spec.loader.exec_module(module)
    return module.install(**functions)
try:
    triton, look = start(folder, functions)
except Exception as error:
    failed = True
    import traceback
    verbose = __import__('os').environ.get('DEVTRACE_SIM_VERBOSE') == '1'
    print('devtrace: values are not computed:', traceback.format_exc() if verbose else error, file=__import__('sys').stderr)
)";

void install() {
  const python::Api& p = g_python;
  PyObject* globals = p.PyModule_GetDict(p.PyImport_AddModule("_devtrace_values_start"));
  const Ref functions(p.PyDict_New());
  for (python::PyMethodDef& each : values::functions())
    p.PyDict_SetItemString(functions.get(), each.ml_name, Ref(p.PyCFunction_NewEx(&each, nullptr, nullptr)).get());
  p.PyDict_SetItemString(globals, "functions", functions.get());
  const Ref done = run(kStart, globals);
  if (!done) p.PyErr_Print();
  g_failed = !done || p.PyDict_GetItemString(globals, "failed");
  for (const auto& [name, kept] : {std::pair{"triton", &g_triton}, std::pair{"look", &g_look}}) {
    *kept = p.PyDict_GetItemString(globals, name);
    if (*kept) p.Py_IncRef(*kept);
  }
}

// For a thread that holds the GIL. -1 with an exception, as for whoever presses Ctrl-C meanwhile.
int look_again(void*) {
  if (!g_defined.exchange(false) || !g_look) return 0;
  const Unwatched unwatched;
  return call(g_look) ? 0 : -1;
}

// What `devtrace place` changes has to be changed before a model is loaded, which may be the first use of CUDA.
constexpr const char* kMaps = R"(
import importlib.util, sys
spec = importlib.util.spec_from_file_location('_devtrace_values', folder + '/__init__.py', submodule_search_locations=[folder])
sys.modules['_devtrace_values'] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules['_devtrace_values'])
from _devtrace_values import device_maps
device_maps.install()
)";

int install_maps(void*) {
  const Unwatched unwatched;
  const Ref globals(g_python.PyDict_New());
  if (!globals || !run(kMaps, globals.get())) g_python.PyErr_Print();
  return 0;
}

bool places_differently() {
  for (const char* const name : {"DEVTRACE_SIM_DEVICE_MAP", "DEVTRACE_SIM_TENSOR_PARALLEL"})
    if (const char* const value = std::getenv(name); value && *value) return true;
  return false;
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
  return wanted_values().policy == ValuesPolicy::none;
}

}  // namespace

bool are_computed() {
  return !switched_off() && !g_failed;
}

void ensure_installed() {
  int state = g_state.load(std::memory_order_acquire);
  if (state == kDone) {
    // Defined by another thread than the main one, which may be waiting for it.
    if (g_defined && g_python.PyGILState_Check() && !g_python.PyErr_Occurred() && look_again(nullptr))
      g_python.PyErr_Print();
    return;
  }
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
  if (const Ref found = call(g_triton)) done = p.PyObject_IsTrue(found.get()) == 1;
  p.PyErr_Clear();
}

bool has_torch() {
  return g_torch;
}

}  // namespace devtrace::simulate::values

// For torch/: an operator was defined, perhaps while its library is opened. The next thing that the main thread runs of
// Python is a look at it, as its kernels are there by then.
extern "C" __attribute__((visibility("default"))) void devtrace_sim_operators_defined() {
  using namespace devtrace::simulate::values;
  const auto& p = g_python;
  if (!p.Py_IsInitialized() || (p.Py_IsFinalizing && p.Py_IsFinalizing()) || g_defined.exchange(true)) return;
  p.Py_AddPendingCall(look_again, nullptr);
}

// A library with kernels was opened, PyTorch's as a rule: while Python imports it.
extern "C" __attribute__((visibility("default"))) void devtrace_sim_kernels_came() {
  using namespace devtrace::simulate::values;
  static std::atomic<bool> came{false};
  if (came.exchange(true) || !places_differently() || !find_python() || !g_python.Py_IsInitialized()) return;
  g_python.Py_AddPendingCall(install_maps, nullptr);
}

// For the kernels of torch/.
extern "C" __attribute__((visibility("default"))) devtrace::simulate::values::Thread* devtrace_sim_values_thread() {
  return &devtrace::simulate::values::t_thread;
}
