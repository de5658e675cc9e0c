// CuPy's pool asks CUDA for memory seldom, and gives the same memory out again and again: to each array as a new object
// of its class PooledMemory. These objects are seen as they are made and freed, by the two functions of the class that
// allocate them.
//
// The hook is set when the interpreter loads a module of CuPy's that needs that class, which looks for the module's
// function with the GIL held. In a process that has done so already, it is set when devtrace is attached.

#include "interpose/python/pool_hook.h"

#include <atomic>
#include <cstdint>
#include <string_view>

#include "binary/elf/loaded_objects.h"
#include "interpose/linking/lookup_watch.h"
#include "tracker/base/message.h"
#include "tracker/base/options.h"
#include "tracker/base/thread_state.h"
#include "tracker/events.h"
#include "tracker/python/gil/borrowed_gil.h"
#include "tracker/python/layout.h"
#include "tracker/python/objects/object_layout.h"
#include "tracker/python/python_api.h"
#include "tracker/python/safe_memory.h"
#include "tracker/python/version.h"

namespace devtrace::interpose {
namespace {

constexpr char kModule[] = "cupy.cuda.memory", kClass[] = "PooledMemory", kFullName[] = "cupy.cuda.memory.PooledMemory";
// Of a type; the same in CPython 3.9 to 3.15, but for Layout::extra_header.
constexpr uint16_t kTypeAlloc = 304, kTypeFree = 320;
constexpr size_t kMostBytes = 512;  // of an object of the class

using Allocate = PyObject* (*)(PyObject* type, ssize_t items);
using Free = void (*)(void* object);

// Once they are known they stay: a thread may be on its way through the hook when that is taken back.
constinit std::atomic<Allocate> original_allocate{nullptr};
constinit std::atomic<Free> original_free{nullptr};
constinit size_t object_bytes = 0;
constinit uintptr_t hooked_class = 0;
constinit uint16_t extra_header = 0;

// In the place of the class's tp_alloc. Its fields are filled in after this.
PyObject* allocate(PyObject* type, ssize_t items) {
  PyObject* const object = original_allocate.load(std::memory_order_relaxed)(type, items);
  events::pool_object_made(object, object_bytes);
  return object;
}

// In the place of its tp_free.
void free_object(void* object) {
  events::pool_object_gone(object);
  original_free.load(std::memory_order_relaxed)(object);
}

// Other threads may be reading it: those that another interpreter's lock, or none, lets run.
template <class Function>
void write_slot(uintptr_t type, uint16_t offset, Function function) {
  auto& slot = *reinterpret_cast<Function*>(type + offset + extra_header);
  std::atomic_ref<Function>(slot).store(function, std::memory_order_release);
}
template <class Function>
Function slot_of(const python::SafeMemory& memory, uintptr_t type, uint16_t offset) {
  uintptr_t function = 0;
  return memory.read(type + offset + extra_header, function) ? reinterpret_cast<Function>(function) : nullptr;
}

bool is_called(const python::SafeMemory& memory, uintptr_t type, std::string_view wanted) {
  uintptr_t name = 0;
  char text[64] = {};
  return memory.read(type + python::kTypeName + extra_header, name) && memory.copy(name, text, wanted.size() + 1) &&
         text == wanted;
}

// The class, if it is as every one known so far: made in C, its objects allocated and freed as an int is. That also
// says that the slots are where they are thought to be.
uintptr_t known_class(const python::Api& api, const python::SafeMemory& memory) {
  const python::Ref module = python::imported_module(api, kModule);
  if (!module) return 0;
  const python::Ref found = python::entry(api, api.PyModule_GetDict(module.get()), kClass);
  if (!found || !python::is_class(api, found.get()) || !python::is_builtin(api, found.get())) return 0;
  const auto type = reinterpret_cast<uintptr_t>(found.get()), plain = reinterpret_cast<uintptr_t>(api.PyLong_Type);
  if (!is_called(memory, type, kFullName)) return 0;
  const auto as_plain = [&](uint16_t offset) {
    const auto function = slot_of<void*>(memory, type, offset);
    return function != nullptr && function == slot_of<void*>(memory, plain, offset);
  };
  size_t bytes = 0;
  if (!as_plain(kTypeAlloc) || !as_plain(kTypeFree)) return 0;
  if (!memory.read(type + python::kTypeBasicSize + extra_header, bytes) || bytes > kMostBytes) return 0;
  object_bytes = bytes;
  return type;
}

// Under the GIL.
void set_hook(const python::Api& api) {
  const python::Version version = python::version_of(api.Py_GetVersion());
  const python::Layout* const layout = python::layout_of(version.minor, version.free_threaded);
  const python::SafeMemory memory;
  if (layout) extra_header = layout->extra_header;
  const uintptr_t type = layout ? known_class(api, memory) : 0;
  if (type == 0 && verbose()) explain("CuPy's pool is not looked into: its class is not known as it is");
  if (type == 0) return;
  original_allocate.store(slot_of<Allocate>(memory, type, kTypeAlloc));
  original_free.store(slot_of<Free>(memory, type, kTypeFree));
  write_slot(type, kTypeFree, free_object);
  write_slot(type, kTypeAlloc, allocate);
  hooked_class = type;
}

void on_module_lookup() {
  if (hooked_class != 0 || thread_state::inside() || !options().provenance) return;
  const ReentrancyGuard inside;
  const python::Api* const api = python::api();
  if (!api || !python::holds_gil(*api)) return;
  const python::Gil gil(*api);
  set_hook(*api);
}

[[gnu::constructor]] void watch() {
  watch_lookup({"PyInit__routines_manipulation", on_module_lookup});
}

bool has_cupy() {
  bool found = false;
  elf::for_each_object([&](const elf::Object& object) {
    return found = object.path.find("/cupy/cuda/memory.") != std::string_view::npos;
  });
  return found;
}

}  // namespace

void hook_pool() {
  const python::Api* const api = hooked_class == 0 && options().provenance && has_cupy() ? python::api() : nullptr;
  if (api) python::with_gil(*api, [&] { set_hook(*api); });
}

void unhook_pool() {
  const python::Api* const api = hooked_class != 0 ? python::api() : nullptr;
  if (!api) return;
  python::with_gil(*api, [] {
    const python::SafeMemory memory;
    // Not where somebody else has come since.
    if (slot_of<Allocate>(memory, hooked_class, kTypeAlloc) != allocate ||
        slot_of<Free>(memory, hooked_class, kTypeFree) != free_object)
      return;
    write_slot(hooked_class, kTypeAlloc, original_allocate.load());
    write_slot(hooked_class, kTypeFree, original_free.load());
    hooked_class = 0;
  });
}

}  // namespace devtrace::interpose
