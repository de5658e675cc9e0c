#include "tracker/python/python_reader.h"

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>

#include "binary/elf/loaded_objects.h"
#include "tracker/base/message.h"
#include "tracker/base/processor.h"
#include "tracker/base/spinlock.h"
#include "tracker/python/find_python.h"
#include "tracker/python/frame_decoder.h"
#include "tracker/python/safe_memory.h"
#include "tracker/python/version.h"

namespace devtrace::python {

using namespace elf;
namespace {

enum class Stage {
  untried,
  no_python,  // looked: none is loaded, or none has started
  candidate,  // a known version; no stack of it was tried
  tried,      // a whole stack was read with the kernel's help and everything in it has the right type
  checked,    // and Python itself gave the same frames and lines
  refused,    // for ever
};

using detail::published;
constinit std::atomic<Stage> stage{Stage::untried};
constinit std::atomic<int64_t> next_look{0};  // CLOCK_MONOTONIC_COARSE, nanoseconds
constinit SpinLock lock;                      // what is below
constinit PythonReader reader{};
constinit python::Api api{};  // all of it, for the main thread under the GIL; reader.api is its part for everybody
constinit python::PythonFound found = python::PythonFound::nothing;
constinit unsigned long long looked_at_objects = 0, unloaded_then = 0;
constinit int failures = 0;
constinit char version[32] = "";
constinit char problem[160] = "";
constinit bool check_asked = false;
constinit bool newer_than_known = false;  // nothing is given out before Python itself has agreed

constexpr int kMaxFailures = 16;  // stacks that do not read well before this Python is given up

// --- The death of code objects

using Destructor = void (*)(void*);
constinit std::atomic<Destructor> code_destructor{nullptr};  // Python's own
using Observer = void (*)(uintptr_t);
constinit Observer observer = nullptr;

void watched_destructor(void* code) {
  if (observer) observer(reinterpret_cast<uintptr_t>(code));
  code_destructor.load(std::memory_order_relaxed)(code);
}

// A type's destructor is a plain pointer in writable memory; Python's own watchers (3.12) need the GIL to install.
void watch_code_deaths() {
  if (code_destructor.load() != nullptr) return;
  auto* slot = reinterpret_cast<Destructor*>(reader.code_type + kTypeDealloc + reader.layout.extra_header);
  code_destructor.store(__atomic_load_n(slot, __ATOMIC_ACQUIRE));
  __atomic_store_n(slot, &watched_destructor, __ATOMIC_RELEASE);
}

// --- The comparison with what Python says

void refuse(const char* format, const char* what, long mine = 0, long theirs = 0) {
  std::snprintf(problem, sizeof problem, format, what, mine, theirs);
  if (verbose()) explain("Python %s is not read: %s", version, problem);
  stage.store(Stage::refused, std::memory_order_release);
  published.store(nullptr, std::memory_order_release);
}

bool same_text(PyObject* code, const char* name, size_t (*mine)(const Layout&, const RawFrame&, char*, size_t),
               const RawFrame& frame) {
  char text[1024];
  const size_t size = mine(reader.layout, frame, text, sizeof text);
  PyObject* attribute = api.PyObject_GetAttrString(code, name);
  ssize_t length = 0;
  const char* theirs = attribute == nullptr ? nullptr : api.PyUnicode_AsUTF8AndSize(attribute, &length);
  // A name that is not valid Unicode has no UTF-8 to compare with.
  const bool same = theirs == nullptr || size == sizeof text ||
                    std::string_view(theirs, static_cast<size_t>(length)) == std::string_view(text, size);
  api.PyErr_Clear();
  if (attribute != nullptr) api.Py_DecRef(attribute);
  return same;
}

bool same_frame(PyObject* frame, const RawFrame& raw) {
  PyObject* code = api.PyFrame_GetCode(frame);
  const int line = std::max(api.PyFrame_GetLineNumber(frame), 0);
  const int my_line = line_of(reader.layout, raw);
  bool same = false;
  if (reinterpret_cast<uintptr_t>(code) != raw.code) {
    refuse("%s", "another function was read than Python says is running");
  } else if (line != my_line) {
    refuse("%s: %ld was read, Python says %ld", "a line differs", my_line, line);
  } else if (!same_text(code, "co_filename", file_of, raw)) {
    refuse("%s", "a file name differs from what Python says");
  } else if (!same_text(code, reader.layout.minor >= 11 ? "co_qualname" : "co_name", function_of, raw)) {
    refuse("%s", "a function's name differs from what Python says");
  } else {
    same = true;
  }
  api.Py_DecRef(code);
  return same;
}

// A program that embeds Python may close its library again. From here on frames are read at every event, without a look
// at whether Python is still there, and its type of code objects calls us: so it stays loaded.
void keep_loaded() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(api.Py_GetVersion), &info) && info.dli_fname && info.dli_fname[0] == '/')
    ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

int try_this_stack();

// Runs on the main thread with the GIL, between two instructions. Never inside a hook: it makes frame objects.
int check_against_python(void*) {
  constexpr size_t kChecked = 64;
  keep_loaded();
  std::lock_guard hold(lock);
  const auto thread = reinterpret_cast<uintptr_t>(api.PyGILState_GetThisThreadState());
  if (thread == 0 || stage.load() == Stage::refused) return 0;
  if (newer_than_known && try_this_stack() <= 0) {
    refuse("%s", "what is read does not look like frames");
    return 0;
  }
  RawFrame raw[kChecked];
  size_t count = 0;
  walk(reader.layout, PlainMemory(), reader.code_type, thread, [&](const RawFrame& frame) {
    if (count < kChecked) raw[count] = frame;
    ++count;
  });
  // Making a frame object may start a collection up to 3.11, and that runs other people's code.
  const bool collecting = api.PyGC_Disable != nullptr && api.PyGC_Enable != nullptr && api.PyGC_Disable() != 0;
  size_t seen = 0;
  bool same = true;
  PyObject* frame = api.PyEval_GetFrame();
  if (frame != nullptr) api.Py_IncRef(frame);
  for (; frame != nullptr && same && seen < std::min(count, kChecked); ++seen) {
    same = same_frame(frame, raw[seen]);
    PyObject* back = api.PyFrame_GetBack(frame);
    api.Py_DecRef(frame);
    frame = back;
  }
  if (same && (frame != nullptr) != (count > kChecked)) {
    refuse("%s", "Python says that the stack has another depth");
    same = false;
  }
  if (frame != nullptr) api.Py_DecRef(frame);
  if (collecting) api.PyGC_Enable();
  if (same && seen != 0) {
    stage.store(Stage::checked, std::memory_order_release);
    if (verbose()) explain("Python %s: read as by itself, frame by frame (%zu)", version, seen);
    published.store(&reader, std::memory_order_release);  // also where every stack so far had a single frame
  }
  return 0;
}

// --- The trial of one stack

bool has_type(const SafeMemory& memory, uintptr_t object, const PyObject* type) {
  uintptr_t actual;
  return memory.read(object + kObjectType + reader.layout.extra_header, actual) &&
         actual == reinterpret_cast<uintptr_t>(type);
}

bool readable_code(const SafeMemory& memory, uintptr_t code) {
  const Layout& layout = reader.layout;
  uintptr_t file, name, lines;
  return memory.read(code + layout.code_filename, file) && memory.read(code + layout.code_name, name) &&
         memory.read(code + layout.code_line_table, lines) && has_type(memory, file, reader.api.PyUnicode_Type) &&
         has_type(memory, name, reader.api.PyUnicode_Type) && has_type(memory, lines, reader.api.PyBytes_Type);
}

// Frames of the calling thread's stack if all of it reads well; 0 when there is none, -1 when something is wrong.
int try_this_stack() {
  const auto thread = reinterpret_cast<uintptr_t>(reader.api.PyGILState_GetThisThreadState());
  if (thread == 0) return 0;
  const SafeMemory memory;
  if (!memory.usable()) return 0;
  int frames = 0;
  bool good = true;
  LeftOut left_out;
  const WalkEnd end = walk(
      reader.layout, memory, reader.code_type, thread,
      [&](const RawFrame& frame) {
        ++frames;
        good = good && readable_code(memory, frame.code);
      },
      &left_out);
  // Frames of which not one has begun are no stack either.
  const bool none_began = frames == 0 && left_out.in_set_up != 0;
  return good && left_out.foreign == 0 && !none_began && end != WalkEnd::broken ? frames : -1;
}

// --- Finding a Python

int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

// Sets the stage to candidate or refused if there is a started Python.
void look_for_python() {
  constexpr int64_t kPause = 100'000'000;
  const int64_t time = now();
  if (time < next_look.load(std::memory_order_relaxed)) return;
  next_look.store(time + kPause, std::memory_order_relaxed);
  const unsigned long long objects = loaded_objects();  // while it stays, no new Python can have appeared
  if (objects != looked_at_objects) {
    looked_at_objects = objects;
    unloaded_then = unloaded_objects();
    found = python::find_python(api);
    reader.api = api;
  }
  stage.store(Stage::no_python, std::memory_order_release);
  if (found == python::PythonFound::nothing) return;
  if (!api.Py_IsInitialized()) {
    looked_at_objects = 0;  // another one may have started by the next time
    return;
  }
  const std::string_view full = api.Py_GetVersion();  // "3.11.7 (main, …) [GCC …]"
  const size_t length = std::min({full.find(' '), full.size(), sizeof version - 1});
  std::memcpy(version, full.data(), length);
  version[length] = 0;
  const auto [minor, free_threaded] = version_of(full.data());
  const Layout* const row = layout_of(minor, free_threaded);
  const std::optional<Layout> guess = row ? std::nullopt : layout_as_newest(minor, free_threaded);
  if (!row && !guess) return refuse("%s", "its frames' layout is not known here");
  reader.layout = row ? *row : *guess;
  newer_than_known = !row;
  const char* why = nullptr;
  if (found != python::PythonFound::complete) return refuse("%s", "it does not export all that is needed");
  if (!apply_debug_offsets(api._PyRuntime, reader.layout, &why)) return refuse("%s", why);
  reader.code_type = reinterpret_cast<uintptr_t>(api.PyCode_Type);
  if (verbose() && newer_than_known)
    explain("Python %s is newer than all that are known here: its frames are read if its own description holds",
            version);
  else if (verbose())
    explain("Python %s: its frames are laid out as those of 3.%d", version, minor);
  stage.store(Stage::candidate, std::memory_order_release);
}

}  // namespace

constinit std::atomic<const PythonReader*> detail::published{nullptr};

const PythonReader* detail::find_and_try() {
  const Stage before = stage.load(std::memory_order_acquire);
  if (before == Stage::refused) return nullptr;
  if (before == Stage::no_python && now() < next_look.load(std::memory_order_relaxed)) return nullptr;
  // Whoever holds the lock may wait for the loader's; this thread may be inside it. A stack lost here is better than
  // that.
  constexpr int kPatience = 10'000;
  for (int i = 0; !lock.try_lock(); ++i) {
    if (i == kPatience) return nullptr;
    pause_processor();
  }
  std::lock_guard hold(lock, std::adopt_lock);
  if (const PythonReader* other = published.load(std::memory_order_acquire)) return other;
  if (stage.load() == Stage::candidate && unloaded_objects() != unloaded_then) {  // it may be what was unloaded
    looked_at_objects = 0;
    next_look.store(0, std::memory_order_relaxed);
    stage.store(Stage::untried, std::memory_order_release);
  }
  if (stage.load() < Stage::candidate) look_for_python();
  if (stage.load() < Stage::candidate || stage.load() == Stage::refused) return nullptr;
  if (api.Py_IsFinalizing()) return nullptr;
  const int frames = try_this_stack();
  if (frames < 0 && ++failures == kMaxFailures) refuse("%s", "what is read does not look like frames");
  if (frames <= 0) return nullptr;
  watch_code_deaths();
  if (!check_asked) check_asked = api.Py_AddPendingCall(check_against_python, nullptr) == 0;
  if (newer_than_known && stage.load() != Stage::checked) return nullptr;
  if (frames > 1) {  // a single frame does not show that the way to its caller is known
    if (stage.load() == Stage::candidate) stage.store(Stage::tried, std::memory_order_release);
    published.store(&reader, std::memory_order_release);
  }
  return &reader;
}

void observe_code_deaths(void (*died)(uintptr_t code)) {
  observer = died;
}

std::string python_status() {
  const std::string python = std::string("CPython ") + version + ": ";
  switch (stage.load(std::memory_order_acquire)) {
    case Stage::untried:
      return "";
    case Stage::no_python:
      return "no Python in this process";
    case Stage::candidate:
      return python + "no stack was read yet";
    case Stage::tried:
      return python + "frames are read without the GIL, not yet compared with Python's own";
    case Stage::checked:
      return python + "frames are read without the GIL, and agree with Python's own";
    case Stage::refused:
      return python + problem + "; native frames only";
  }
  return "";
}

void before_fork_reader() {
  lock.lock();
}
void after_fork_reader() {
  lock.unlock();
}

}  // namespace devtrace::python
