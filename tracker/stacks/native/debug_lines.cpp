#include "tracker/stacks/native/debug_lines.h"

#include <backtrace.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "binary/dwarf/inlined.h"
#include "binary/elf/file.h"
#include "binary/elf/loaded_objects.h"
#include "binary/names.h"
#include "tracker/base/spinlock.h"
#include "tracker/stacks/native/modules.h"

namespace devtrace::stacks {

using namespace elf;
namespace {

struct Module {
  std::string path;
  bool has_lines;
};

constinit SpinLock lock;
std::vector<Module>* modules = nullptr;  // never deleted: a finding may come while the process ends

// libbacktrace's, for one thread at a time. It gives nothing back, and knows the objects that were loaded when it was
// made: one is made anew only where an object of the user's came later.
backtrace_state* state = nullptr;
unsigned long long state_objects = 0;

void complain_to_nobody(void*, const char*, int) {}

void make_state() {
  state_objects = loaded_objects();
  state = ::backtrace_create_state(nullptr, 0, complain_to_nobody, nullptr);
}

bool may_have_lines(const std::string& path) {
  if (!may_be_the_users(path)) return false;
  if (modules == nullptr) modules = new std::vector<Module>;
  for (const Module& module : *modules) {
    if (module.path == path) return module.has_lines;
  }
  const File file(path);
  const bool has_lines = file.has(".debug_line") || file.has(".gnu_debuglink");
  modules->push_back({path, has_lines});
  return has_lines;
}

struct Found {
  std::string function, file;
  int line;
};

// Innermost inlined function first, the function of the symbol last.
std::vector<Found> look_up(uintptr_t address) {
  std::vector<Found> found;
  const auto add = [](void* data, uintptr_t, const char* file, int line, const char* function) {
    if (file != nullptr)
      static_cast<std::vector<Found>*>(data)->push_back({function ? binary::demangled(function) : "", file, line});
    return 0;
  };
  if (state != nullptr) ::backtrace_pcinfo(state, address, add, complain_to_nobody, &found);
  return found;
}

// Of split debug information libbacktrace knows the innermost line alone: the calls that lead there are put behind it.
void add_split_calls(std::vector<Found>& found, const std::vector<dwarf::InlinedCall>& outermost_first) {
  for (size_t i = outermost_first.size(); i-- > 0;) {
    const dwarf::InlinedCall& call = outermost_first[i];
    std::string around = std::move(found.back().function);
    found.back().function = binary::demangled(call.function);
    found.push_back({std::move(around), call.file, call.line});
  }
}

}  // namespace

void add_lines(std::vector<NativeFrame>& frames) {
  std::lock_guard hold(lock);
  std::vector<NativeFrame> all;
  all.reserve(frames.size());
  for (NativeFrame& frame : frames) {
    std::vector<Found> found;
    if (!frame.module.empty() && !frame.one_of_several && may_have_lines(frame.module)) {
      if (state == nullptr) make_state();
      found = look_up(frame.address);
      if (found.empty() && loaded_objects() != state_objects) {
        make_state();
        found = look_up(frame.address);
      }
      if (found.size() == 1) add_split_calls(found, dwarf::inlined_at(frame.module, frame.offset));
    }
    for (size_t i = 0; i < found.size(); ++i) {
      NativeFrame one = frame;
      one.file = std::move(found[i].file);
      one.line = found[i].line;
      one.inlined = i + 1 < found.size();
      if (one.inlined) one.mangled.clear();
      if ((one.inlined || one.function.empty()) && !found[i].function.empty())
        one.function = std::move(found[i].function);
      all.push_back(std::move(one));
    }
    if (found.empty()) all.push_back(std::move(frame));
  }
  frames = std::move(all);
}

void before_fork_lines() {
  lock.lock();
}
void after_fork_lines() {
  lock.unlock();
}

}  // namespace devtrace::stacks
