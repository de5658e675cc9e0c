// Names of native addresses. Not dladdr: it looks at every symbol of an object for each address; this looks at each
// object once for all addresses. And dladdr knows exported names only.
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "binary/elf/file.h"
#include "binary/elf/loaded.h"
#include "binary/names.h"
#include "tracker/base/spinlock.h"
#include "tracker/stacks/native/debug_lines.h"
#include "tracker/stacks/native/tail_calls.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::stacks {

using namespace elf;
namespace {

// Looks for the symbols that a module's frames lie in.
class Matcher {
 public:
  void add(NativeFrame& frame) { wanted_.push_back({frame.offset, 0, &frame}); }

  void start() {
    std::sort(wanted_.begin(), wanted_.end(), [](const Query& a, const Query& b) { return a.offset < b.offset; });
  }

  void look_at(const Elf64_Sym& symbol, const char* name) {
    const uintptr_t begin = symbol.st_value, end = begin + symbol.st_size;
    if (end <= wanted_.front().offset || begin > wanted_.back().offset) return;
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if (type != STT_FUNC && type != STT_GNU_IFUNC) return;
    auto at = std::lower_bound(wanted_.begin(), wanted_.end(), begin,
                               [](const Query& wanted, uintptr_t value) { return wanted.offset < value; });
    for (; at != wanted_.end() && at->offset < end; ++at) {
      if (!at->frame->mangled.empty() && begin <= at->symbol) continue;
      at->symbol = begin;
      at->frame->mangled = name;
      at->frame->function_offset = symbol.st_value;
      at->frame->function_bytes = symbol.st_size;
    }
  }

  bool complete() const {
    return std::none_of(wanted_.begin(), wanted_.end(), [](const Query& w) { return w.frame->mangled.empty(); });
  }
  bool empty() const { return wanted_.empty(); }

 private:
  struct Query {
    uintptr_t offset;
    uintptr_t symbol;  // where the one found begins
    NativeFrame* frame;
  };
  std::vector<Query> wanted_;
};

struct Module {
  std::string path;
  Matcher matcher;
};

std::string path_of(const Object& object) {
  if (!object.path.empty()) return std::string(object.path);
  char path[PATH_MAX];  // the program itself
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  return size > 0 ? std::string(path, size) : std::string();
}

// All of them at once: to go through an object's symbols takes longer than to look for many addresses in them.
void find_names(std::vector<NativeFrame>& frames) {
  std::vector<Module> incomplete;  // some name is not among the exported ones
  for_each_object([&](const Object& object) {
    Module module;
    for (NativeFrame& frame : frames) {
      if (!frame.module.empty() || object.bytes_behind(frame.address) == 0) continue;
      if (module.path.empty()) module.path = path_of(object);
      frame.module = module.path;
      frame.offset = frame.address - object.base;
      module.matcher.add(frame);
    }
    if (module.matcher.empty()) return false;
    module.matcher.start();
    Loaded(object).for_each([&](const Elf64_Sym& symbol, const char* name) { module.matcher.look_at(symbol, name); });
    if (!module.matcher.complete()) incomplete.push_back(std::move(module));
    return false;
  });
  for (Module& module : incomplete)
    File(module.path).for_each_symbol([&](const Elf64_Sym& symbol, const char* name) {
      module.matcher.look_at(symbol, name);
    });
  for (NativeFrame& frame : frames)
    if (!frame.mangled.empty()) frame.function = binary::demangled(frame.mangled);
}

// Names that were found before. A hundred findings share nearly all of their native frames, and to find the names of a
// stack of PyTorch's takes ten milliseconds.
class Names {
 public:
  // Fills what is known, finds the rest. Not while another thread does, nor in a child in which that thread is not.
  static void of(std::vector<NativeFrame>& frames) {
    const std::unique_lock hold(lock, std::try_to_lock);
    if (!hold) return find_names(frames);
    if (!known) known = new Known;  // never deleted: a finding may come while the process ends
    // What lies at an address stays the same until something is unloaded.
    if (const auto count = elf::unloaded_objects(); count != unloaded || known->size() > kMost) {
      known->clear();
      unloaded = count;
    }
    std::vector<NativeFrame> unknown;
    for (const NativeFrame& frame : frames)
      if (!known->contains(frame.address)) unknown.push_back(frame);
    if (!unknown.empty()) find_names(unknown);
    for (NativeFrame& frame : unknown)
      if (!frame.module.empty()) known->emplace(frame.address, frame);  // generated code comes and goes
    for (NativeFrame& frame : frames)
      if (const auto found = known->find(frame.address); found != known->end()) frame = found->second;
  }

 private:
  using Known = std::unordered_map<uintptr_t, NativeFrame>;
  static constexpr size_t kMost = 1u << 14;
  static inline constinit SpinLock lock;
  static inline Known* known = nullptr;
  static inline unsigned long long unloaded = 0;
};

}  // namespace

std::vector<NativeFrame> symbolize(void* const* addresses, size_t count, bool with_lines) {
  std::vector<NativeFrame> frames(count);
  for (size_t i = 0; i < count; ++i) frames[i].address = reinterpret_cast<uintptr_t>(addresses[i]) - 1;
  Names::of(frames);
  if (!with_lines) return frames;
  add_tail_calls(frames, Names::of);
  add_lines(frames);
  return frames;
}

}  // namespace devtrace::stacks
