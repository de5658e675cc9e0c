#ifdef __x86_64__  // by its registers; see thread_call.cpp
#include "attach/signal_frame.h"

#include <cpuid.h>
#include <ucontext.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace devtrace::attach {
namespace {

// include/linux/errno.h of the kernel: only a tracer sees these.
constexpr long kRestartSys = -512, kRestartNoIntr = -513, kRestartNoHand = -514, kRestartBlock = -516;

// struct _fpx_sw_bytes of the kernel's asm/sigcontext.h, in bytes of the XSAVE area that are software's own.
struct SoftwareBytes {
  uint32_t magic, extended_size;
  uint64_t features;
  uint32_t size, unused[7];
};
constexpr size_t kSoftwareBytes = 464, kHeader = 512, kEndOfHeader = 576;
constexpr uint32_t kMagic = 0x46505853, kEndMagic = 0x46505845;
constexpr uint64_t kTiles = 1 << 18;  // of a thread that has asked for them alone
constexpr size_t kAligned = 64;

template <typename T>
T at(const std::vector<char>& bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void put(std::vector<char>& bytes, size_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// Bytes of an XSAVE area with these features.
size_t size_of(uint64_t features) {
  size_t size = kEndOfHeader;
  for (unsigned each = 2; each < 63; ++each) {
    unsigned bytes = 0, offset = 0, ecx = 0, edx = 0;
    if (features >> each & 1 && __get_cpuid_count(0xd, each, &bytes, &offset, &ecx, &edx))
      size = std::max<size_t>(size, offset + bytes);
  }
  return size;
}

// As a signal frame has it; empty where it is no XSAVE area.
std::vector<char> vector_state(std::vector<char> area) {
  if (area.size() < kEndOfHeader) return {};
  auto features = at<uint64_t>(area, kSoftwareBytes);  // those that the kernel knows: ptrace says so in this place
  const auto used = at<uint64_t>(area, kHeader);
  if (!(used & kTiles)) features &= ~kTiles;
  const size_t size = size_of(features);
  if (features == 0 || size > area.size()) return {};
  area.resize(size + sizeof kEndMagic);
  put(area, kHeader, used & features);
  put(area, kSoftwareBytes,
      SoftwareBytes{kMagic, static_cast<uint32_t>(area.size()), features, static_cast<uint32_t>(size), {}});
  put(area, size, kEndMagic);
  return area;
}

}  // namespace

bool ThreadState::restarts() const {
  const auto result = static_cast<long>(registers.rax);
  return static_cast<long>(registers.orig_rax) >= 0 &&
         (result == kRestartSys || result == kRestartNoIntr || result == kRestartNoHand || result == kRestartBlock);
}

SignalFrame signal_frame(const ThreadState& state, uintptr_t restorer, uintptr_t top) {
  // The kernel's ucontext ends behind the first word of the mask.
  constexpr size_t kContext = offsetof(ucontext_t, uc_sigmask) + sizeof(uint64_t);
  // Neither a stack for handlers nor none: the kernel then leaves the thread's as it is.
  constexpr int kNoSuchFlags = 0x100;
  constexpr unsigned long kVectorState = 1, kStackSegment = 2, kStrictStackSegment = 4;  // of the kernel's uc_flags
  const std::vector<char> extended = vector_state(state.extended);
  if (extended.empty()) return {};
  const uintptr_t extended_at = (top - extended.size()) & ~(kAligned - 1);
  SignalFrame frame;
  frame.address = ((extended_at - sizeof restorer - kContext) & ~uintptr_t{15}) - sizeof restorer;
  frame.bytes.resize(extended_at + extended.size() - frame.address);

  ucontext_t context{};
  context.uc_flags = kVectorState | kStackSegment | kStrictStackSegment;
  context.uc_stack.ss_flags = kNoSuchFlags;
  user_regs_struct registers = state.registers;
  if (state.restarts()) {
    registers.rax = registers.orig_rax;
    registers.rip -= 2;  // the instruction `syscall`
  }
  const std::pair<int, unsigned long long> values[] = {
      {REG_R8, registers.r8},
      {REG_R9, registers.r9},
      {REG_R10, registers.r10},
      {REG_R11, registers.r11},
      {REG_R12, registers.r12},
      {REG_R13, registers.r13},
      {REG_R14, registers.r14},
      {REG_R15, registers.r15},
      {REG_RDI, registers.rdi},
      {REG_RSI, registers.rsi},
      {REG_RBP, registers.rbp},
      {REG_RBX, registers.rbx},
      {REG_RDX, registers.rdx},
      {REG_RAX, registers.rax},
      {REG_RCX, registers.rcx},
      {REG_RSP, registers.rsp},
      {REG_RIP, registers.rip},
      {REG_EFL, registers.eflags},
      {REG_CSGSFS, registers.cs | registers.gs << 16 | registers.fs << 32 | registers.ss << 48}};
  for (const auto& [index, value] : values) context.uc_mcontext.gregs[index] = static_cast<greg_t>(value);
  context.uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(extended_at);
  std::memcpy(&context.uc_sigmask, &state.mask, sizeof state.mask);

  put(frame.bytes, 0, restorer);
  std::memcpy(frame.bytes.data() + sizeof restorer, &context, kContext);
  std::memcpy(frame.bytes.data() + (extended_at - frame.address), extended.data(), extended.size());
  return frame;
}

}  // namespace devtrace::attach
#endif
