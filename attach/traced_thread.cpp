#ifdef __x86_64__  // by its registers; see thread_call.cpp
#include "attach/traced_thread.h"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace devtrace::attach {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeToStop = 200ms;  // a thread that waits for a disk or a device stops later
constexpr auto kTimeToCall = 5000ms;
constexpr size_t kRedZone = 128;  // below the stack pointer a function without calls may keep what it likes

void* as_pointer(uint64_t number) {
  return reinterpret_cast<void*>(number);
}

bool is_event_stop(int status) {
  return WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP;
}

bool get_registers(pid_t thread, user_regs_struct& registers) {
  iovec place{&registers, sizeof registers};
  return ::ptrace(PTRACE_GETREGSET, thread, as_pointer(NT_PRSTATUS), &place) == 0;
}

bool set_registers(pid_t thread, const user_regs_struct& registers) {
  iovec place{const_cast<user_regs_struct*>(&registers), sizeof registers};
  return ::ptrace(PTRACE_SETREGSET, thread, as_pointer(NT_PRSTATUS), &place) == 0;
}

}  // namespace

TracedThread::~TracedThread() {
  if (!seized_) return;
  give_back();
  // A thread that still runs is let go when this process ends.
  if (stopped_) ::ptrace(PTRACE_DETACH, thread_, nullptr, as_pointer(static_cast<uint64_t>(pending_signal_)));
}

bool TracedThread::wait_for_stop(std::chrono::milliseconds limit, int& status) const {
  const auto until = std::chrono::steady_clock::now() + limit;
  for (auto pause = 20us; std::chrono::steady_clock::now() < until; pause = std::min<decltype(pause)>(pause * 2, 1ms)) {
    const pid_t changed = ::waitpid(thread_, &status, __WALL | WNOHANG);
    if (changed == thread_) return true;
    if (changed < 0 && errno != EINTR) return false;
    std::this_thread::sleep_for(pause);
  }
  errno = EAGAIN;
  return false;
}

int TracedThread::stop() {
  if (::ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) != 0) return errno;
  seized_ = true;
  if (::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) != 0) return errno;
  int status = 0;
  if (!wait_for_stop(kTimeToStop, status)) return EAGAIN;
  if (!WIFSTOPPED(status)) {
    seized_ = false;
    return ESRCH;
  }
  stopped_ = true;
  if (!is_event_stop(status)) {
    pending_signal_ = WSTOPSIG(status);  // is delivered when the thread is let go
    return EAGAIN;
  }
  return get_registers(thread_, before_) ? 0 : errno;
}

bool TracedThread::is_safe(const RemoteMemory& memory, const UnsafeCode& unsafe) const {
  constexpr uint16_t kSyscall = 0x050f;
  uint16_t instruction = 0;
  const bool in_system_call = static_cast<long>(before_.orig_rax) >= 0 &&
                              memory.read(before_.rip - sizeof instruction, instruction) && instruction == kSyscall;
  std::vector<uintptr_t> stack(kStackLooked / sizeof(uintptr_t));
  stack.resize(memory.read_some(before_.rsp, stack.data(), kStackLooked) / sizeof(uintptr_t));
  return attach::is_safe({before_.rip, in_system_call ? static_cast<long>(before_.orig_rax) : -1, stack}, unsafe);
}

bool TracedThread::borrow() {
  extended_before_.resize(1u << 16);
  iovec place{extended_before_.data(), extended_before_.size()};
  if (::ptrace(PTRACE_GETREGSET, thread_, as_pointer(NT_X86_XSTATE), &place) != 0) return false;
  extended_before_.resize(place.iov_len);
  uint64_t all = ~uint64_t{0};
  if (::ptrace(PTRACE_GETSIGMASK, thread_, as_pointer(sizeof mask_before_), &mask_before_) != 0 ||
      ::ptrace(PTRACE_SETSIGMASK, thread_, as_pointer(sizeof all), &all) != 0)
    return false;
  return borrowed_ = true;
}

// The kernel begins an interrupted system call again, by the registers that say so.
void TracedThread::give_back() {
  if (!borrowed_) return;
  if (!stopped_) {  // it hangs where we sent it
    ::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr);
    int status = 0;
    if (!wait_for_stop(kTimeToStop, status) || !WIFSTOPPED(status)) return;
    stopped_ = true;
  }
  iovec place{extended_before_.data(), extended_before_.size()};
  ::ptrace(PTRACE_SETREGSET, thread_, as_pointer(NT_X86_XSTATE), &place);
  set_registers(thread_, before_);
  ::ptrace(PTRACE_SETSIGMASK, thread_, as_pointer(sizeof mask_before_), &mask_before_);
  borrowed_ = false;
}

bool TracedThread::run_until(uintptr_t instruction, bool one_step, const user_regs_struct& with,
                             user_regs_struct& after) {
  if (!set_registers(thread_, with)) return false;
  for (;;) {
    if (::ptrace(one_step ? PTRACE_SINGLESTEP : PTRACE_CONT, thread_, nullptr, nullptr) != 0) return false;
    stopped_ = false;
    int status = 0;
    if (!wait_for_stop(kTimeToCall, status)) return false;
    if (!WIFSTOPPED(status)) {
      seized_ = borrowed_ = false;  // it ended
      return false;
    }
    stopped_ = true;
    if (is_event_stop(status)) continue;  // somebody stopped the process: it stops when we have let it go
    return WSTOPSIG(status) == SIGTRAP && get_registers(thread_, after) && after.rip == instruction;
  }
}

namespace {

void set_arguments(user_regs_struct& registers, std::initializer_list<uint64_t> arguments, bool of_kernel) {
  unsigned long long* const places[] = {&registers.rdi, &registers.rsi,
                                        &registers.rdx, of_kernel ? &registers.r10 : &registers.rcx,
                                        &registers.r8,  &registers.r9};
  size_t i = 0;
  for (const uint64_t argument : arguments) *places[i++] = argument;
}

}  // namespace

std::optional<long> TracedThread::system_call(uintptr_t instruction, long number,
                                              std::initializer_list<uint64_t> arguments) {
  user_regs_struct registers = before_, after{};
  registers.rip = instruction;
  registers.rax = static_cast<unsigned long long>(number);
  registers.orig_rax = ~0ull;  // no system call of its own is begun again meanwhile
  set_arguments(registers, arguments, true);
  if (!run_until(instruction + 2, true, registers, after)) return std::nullopt;
  return static_cast<long>(after.rax);
}

std::optional<uint64_t> TracedThread::call(const RemoteMemory& memory, uintptr_t function, uintptr_t trap,
                                           std::initializer_list<uint64_t> arguments) {
  constexpr unsigned long long kDirection = 1u << 10, kTrap = 1u << 8;
  user_regs_struct registers = before_, after{};
  registers.rsp = ((before_.rsp - kRedZone) & ~uint64_t{15}) - sizeof trap;
  if (!memory.write(registers.rsp, &trap, sizeof trap)) return std::nullopt;
  registers.rip = function;
  registers.rax = 0;
  registers.orig_rax = ~0ull;
  registers.eflags &= ~(kDirection | kTrap);
  set_arguments(registers, arguments, false);
  if (!run_until(trap + 1, false, registers, after)) return std::nullopt;
  return after.rax;
}

}  // namespace devtrace::attach
#endif
