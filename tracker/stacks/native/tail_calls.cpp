#include "tracker/stacks/native/tail_calls.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "tracker/python/safe_memory.h"
#include "tracker/stacks/native/caller.h"
#include "tracker/stacks/native/modules.h"

namespace devtrace::stacks {
namespace {

constexpr int kDeepest = 4;           // functions that jump to one another
constexpr int kMost = 32;             // that are looked at for one frame
constexpr size_t kLongest = 1 << 16;  // bytes of a function that are looked at

class Search {
 public:
  Search(const NativeFrame& callee, void (*name)(std::vector<NativeFrame>&))
      : own_(caller::is_own(callee.address)), callee_(begin_of(callee)), name_(name) {}

  // The function that the instruction before `address` calls by name; 0 where it calls by a pointer.
  uintptr_t called_before(uintptr_t address) const {
    unsigned char code[5];
    if (address < sizeof code || !memory_.copy(address - sizeof code, code, sizeof code) || code[0] != 0xe8) return 0;
    return through_table(address + static_cast<uintptr_t>(relative(code + 1)));
  }

  bool is_callee(uintptr_t function) const { return own_ ? caller::is_own(function) : function == callee_; }

  // The jumps from `function` to the callee, outermost first.
  std::vector<NativeFrame> way_from(uintptr_t function, int depth = 0) {
    if (++looked_at_ > kMost) return {};
    std::vector<NativeFrame> here(1);
    here[0].address = function;
    name_(here);
    if (here[0].module.empty() || !may_be_the_users(here[0].module) || begin_of(here[0]) != function) return {};
    std::vector<Jump> jumps = jumps_of(function, std::min(here[0].function_bytes, kLongest));
    const auto direct = [&](const Jump& jump) { return is_callee(jump.target); };
    if (const auto found = std::find_if(jumps.begin(), jumps.end(), direct); found != jumps.end())
      return {at(here[0], *found, std::count_if(jumps.begin(), jumps.end(), direct) > 1)};
    if (depth == kDeepest) return {};
    for (const Jump& jump : jumps) {
      std::vector<NativeFrame> rest = way_from(jump.target, depth + 1);
      if (rest.empty()) continue;
      rest.insert(rest.begin(), at(here[0], jump, false));
      return rest;
    }
    return {};
  }

 private:
  struct Jump {
    uintptr_t place, target;
  };

  static uintptr_t begin_of(const NativeFrame& frame) {
    return frame.function_bytes == 0 ? 0 : frame.address - frame.offset + frame.function_offset;
  }

  static int32_t relative(const unsigned char* bytes) {
    int32_t value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }

  static NativeFrame at(const NativeFrame& function, const Jump& jump, bool one_of_several) {
    NativeFrame frame = function;
    frame.address = jump.place + 1;
    frame.offset += frame.address - function.address;
    frame.one_of_several = one_of_several;
    return frame;
  }

  // What an entry of the procedure linkage table jumps to; any other address is itself.
  uintptr_t through_table(uintptr_t address) const {
    unsigned char code[16];
    if (!memory_.copy(address, code, sizeof code)) return address;
    size_t at = std::memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0 ? 4 : 0;
    if (code[at] == 0xf2) ++at;
    if (code[at] != 0xff || code[at + 1] != 0x25) return address;
    uintptr_t target = 0;
    const uintptr_t slot = address + at + 6 + static_cast<uintptr_t>(relative(code + at + 2));
    return memory_.read(slot, target) ? target : address;
  }

  // Of jmp and jcc, near and short, and jmp by a table; 0 of others.
  static size_t jump_length(const unsigned char* code, size_t rest) {
    if (code[0] == 0xeb || (code[0] & 0xf0) == 0x70) return 2;
    if (rest >= 5 && code[0] == 0xe9) return 5;
    const bool near = code[0] == 0x0f && (code[1] & 0xf0) == 0x80;
    return rest >= 6 && (near || (code[0] == 0xff && code[1] == 0x25)) ? 6 : 0;
  }

  // Wherever its bytes would be a jump out of it. Data and the middle of instructions may look like one: what counts is
  // that it leads to the callee.
  std::vector<Jump> jumps_of(uintptr_t function, size_t size) const {
    std::vector<unsigned char> code(size);
    constexpr size_t kPage = 4096;
    for (size_t done = 0; done < size; done += kPage)
      if (!memory_.copy(function + done, code.data() + done, std::min(kPage, size - done))) return {};
    std::vector<Jump> jumps;
    for (size_t i = 0; i + 2 <= size; ++i) {
      const size_t length = jump_length(code.data() + i, size - i);
      if (length == 0) continue;
      const uintptr_t place = function + i;
      const unsigned char* const last = code.data() + i + length;
      uintptr_t target = place + length + static_cast<uintptr_t>(length == 2 ? int8_t(last[-1]) : relative(last - 4));
      if (code[i] != 0xff)
        target = target - function < size ? target : through_table(target);
      else if (const uintptr_t slot = target; !memory_.read(slot, target))
        continue;
      if (target - function >= size) jumps.push_back({place, target});
    }
    return jumps;
  }

  python::SafeMemory memory_;
  bool own_;
  uintptr_t callee_;
  void (*name_)(std::vector<NativeFrame>&);
  int looked_at_ = 0;
};

// What a compiler moves out of a function for being rarely run is a symbol of its own.
std::string_view without_cold(std::string_view symbol) {
  return symbol.substr(0, symbol.find(".cold"));
}

}  // namespace

void add_tail_calls(std::vector<NativeFrame>& frames, void (*name)(std::vector<NativeFrame>&)) {
  for (size_t i = 1; i < frames.size(); ++i) {
    const NativeFrame& caller = frames[i];
    if (caller.module.empty() || !may_be_the_users(caller.module) || caller::is_own(caller.address)) continue;
    if (frames[i - 1].function_bytes == 0 && !caller::is_own(frames[i - 1].address)) continue;
    Search search(frames[i - 1], name);
    const uintptr_t called = search.called_before(caller.address + 1);
    if (called == 0 || search.is_callee(called)) continue;
    const std::vector<NativeFrame> missing = search.way_from(called);
    if (missing.empty() || missing.front().mangled == without_cold(frames[i - 1].mangled)) continue;
    frames.insert(frames.begin() + static_cast<ptrdiff_t>(i), missing.rbegin(), missing.rend());
    i += missing.size();
  }
}

}  // namespace devtrace::stacks
