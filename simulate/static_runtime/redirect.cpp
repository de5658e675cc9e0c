#include "simulate/static_runtime/redirect.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace devtrace::simulate::static_runtime {
namespace {

constexpr size_t kFarJump = 16;  // a jump to the address behind it
// What a near jump reaches: a distance of 32 bits, or of 26 in instructions.
#ifdef __x86_64__
constexpr uintptr_t kNear = uintptr_t{1} << 31;
#else
constexpr uintptr_t kNear = uintptr_t{1} << 27;
#endif

// Memory below the functions that a near jump reaches from all of them; null: there is none. Above the program its
// heap grows.
uint8_t* memory_near(uintptr_t lowest, uintptr_t highest, size_t bytes) {
  constexpr uintptr_t kStep = 1 << 20, kReach = kNear - kStep;
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (uintptr_t at = lowest & ~(page - 1); at > kStep && highest - at < kReach; at -= std::min(at, kStep)) {
    void* const wanted = reinterpret_cast<void*>(at);
    void* const got =
        mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == wanted) return static_cast<uint8_t*>(got);
    if (got != MAP_FAILED) munmap(got, bytes);  // Linux before 4.17 takes the address for a hint
  }
  return nullptr;
}

#ifdef __x86_64__
void write_far_jump(uint8_t* at, const void* to) {
  const uint8_t jump[8] = {0xff, 0x25, 2, 0, 0, 0};  // jmp *2(%rip)
  std::memcpy(at, jump, sizeof jump);
  std::memcpy(at + sizeof jump, &to, sizeof to);
}

void write_near_jump(uintptr_t at, const uint8_t* to) {
  auto* const code = reinterpret_cast<uint8_t*>(at);
  const auto distance = static_cast<int32_t>(reinterpret_cast<intptr_t>(to) - static_cast<intptr_t>(at + kJumpBytes));
  code[0] = 0xe9;
  std::memcpy(code + 1, &distance, sizeof distance);
}
#else
void write_far_jump(uint8_t* at, const void* to) {
  const uint32_t jump[2] = {0x58000050, 0xd61f0200};  // ldr x16, .+8; br x16
  std::memcpy(at, jump, sizeof jump);
  std::memcpy(at + sizeof jump, &to, sizeof to);
}

void write_near_jump(uintptr_t at, const uint8_t* to) {
  const auto distance = (reinterpret_cast<intptr_t>(to) - static_cast<intptr_t>(at)) / 4;
  const uint32_t jump = 0x14000000 | (static_cast<uint32_t>(distance) & 0x03ffffff);  // b
  std::memcpy(reinterpret_cast<void*>(at), &jump, sizeof jump);
}
#endif

// For processors that do not see by themselves that code was written.
void code_was_written(const void* at, size_t bytes) {
  auto* const begin = static_cast<char*>(const_cast<void*>(at));
  __builtin___clear_cache(begin, begin + bytes);
}

}  // namespace

bool redirect(const std::vector<Jump>& jumps, Code code) {
  if (jumps.empty()) return true;
  const auto [lowest, highest] =
      std::minmax_element(jumps.begin(), jumps.end(), [](const Jump& a, const Jump& b) { return a.from < b.from; });
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = lowest->from & ~(page - 1);
  const uintptr_t end = (highest->from + kJumpBytes + page - 1) & ~(page - 1);
  const size_t bytes = (jumps.size() * kFarJump + page - 1) & ~(page - 1);
  uint8_t* const far = memory_near(begin, highest->from, bytes);
  if (!far) return false;
  for (size_t i = 0; i < jumps.size(); ++i) write_far_jump(far + i * kFarJump, jumps[i].to);
  // Makes the pages this process's own; the file stays as it is.
  if (mprotect(far, bytes, PROT_READ | PROT_EXEC) ||
      mprotect(reinterpret_cast<void*>(begin), end - begin,
               PROT_READ | PROT_WRITE | (code == Code::in_use ? PROT_EXEC : 0))) {
    munmap(far, bytes);
    return false;
  }
  code_was_written(far, bytes);
  for (size_t i = 0; i < jumps.size(); ++i) {
    write_near_jump(jumps[i].from, far + i * kFarJump);
    code_was_written(reinterpret_cast<const void*>(jumps[i].from), kJumpBytes);
  }
  return !mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_EXEC);
}

}  // namespace devtrace::simulate::static_runtime
