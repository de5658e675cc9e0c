#ifdef __x86_64__  // by its registers; see thread_call.cpp
#include "attach/traced_thread.h"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "process/maps.h"

namespace devtrace::attach {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeToStop = 200ms;  // a thread that waits for a disk or a device stops later
constexpr auto kTimeToCall = 5000ms;
constexpr size_t kRedZone = 128;  // below the stack pointer a function without calls may keep what it likes
constexpr size_t kMostExtended = 1u << 16;
constexpr int kSystemCallStop = SIGTRAP | 0x80;  // PTRACE_O_TRACESYSGOOD
constexpr unsigned long long kNoSystemCall = ~0ull;

// Seized, and not yet stopped when they were given up.
std::vector<pid_t>& late() {
  static auto& all = *new std::vector<pid_t>;
  return all;
}

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

bool set_mask(pid_t thread, uint64_t mask) {
  return ::ptrace(PTRACE_SETSIGMASK, thread, as_pointer(sizeof mask), &mask) == 0;
}

bool detach(pid_t thread, int signal) {
  return ::ptrace(PTRACE_DETACH, thread, nullptr, as_pointer(static_cast<uint64_t>(signal))) == 0;
}

void set_arguments(user_regs_struct& registers, std::initializer_list<uint64_t> arguments, bool of_kernel) {
  unsigned long long* const places[] = {&registers.rdi, &registers.rsi,
                                        &registers.rdx, of_kernel ? &registers.r10 : &registers.rcx,
                                        &registers.r8,  &registers.r9};
  size_t i = 0;
  for (const uint64_t argument : arguments) *places[i++] = argument;
}

}  // namespace

TracedThread::~TracedThread() {
  if (!seized_) return;
  if (away_) give_back();
  if (!seized_) return;
  if (at_ == Stop::none || !detach(thread_, pending_signal_)) late().push_back(thread_);
}

bool TracedThread::is_late(pid_t thread) {
  return std::ranges::find(late(), thread) != late().end();
}

void TracedThread::release_late() {
  std::erase_if(late(), [](pid_t thread) {
    int status = 0;
    const pid_t changed = ::waitpid(thread, &status, __WALL | WNOHANG);
    if (changed == 0) return false;
    if (changed == thread && WIFSTOPPED(status)) detach(thread, is_event_stop(status) ? 0 : WSTOPSIG(status));
    return true;
  });
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
  if (::ptrace(PTRACE_SEIZE, thread_, nullptr, as_pointer(PTRACE_O_TRACESYSGOOD)) != 0) return errno;
  seized_ = true;
  if (::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) != 0) return errno;
  int status = 0;
  if (!wait_for_stop(kTimeToStop, status)) return EAGAIN;
  if (!WIFSTOPPED(status)) {
    seized_ = false;
    return ESRCH;
  }
  at_ = Stop::event;
  if (!is_event_stop(status)) {
    pending_signal_ = WSTOPSIG(status);  // is delivered when the thread is let go
    return EAGAIN;
  }
  if (WSTOPSIG(status) != SIGTRAP) return EAGAIN;  // somebody has stopped the process
  return get_registers(thread_, before_.registers) ? 0 : errno;
}

bool TracedThread::is_safe(const UnsafeCode& unsafe) const {
  constexpr uint16_t kSyscall = 0x050f;
  const user_regs_struct& registers = before_.registers;
  uint16_t instruction = 0;
  const bool in_system_call = static_cast<long>(registers.orig_rax) >= 0 &&
                              memory_.read(registers.rip - sizeof instruction, instruction) && instruction == kSyscall;
  std::vector<uintptr_t> stack(kStackLooked / sizeof(uintptr_t));
  stack.resize(memory_.read_some(registers.rsp, stack.data(), kStackLooked) / sizeof(uintptr_t));
  return attach::is_safe({registers.rip, in_system_call ? static_cast<long>(registers.orig_rax) : -1, stack}, unsafe);
}

bool TracedThread::borrow() {
  before_.extended.resize(kMostExtended);
  iovec place{before_.extended.data(), before_.extended.size()};
  if (::ptrace(PTRACE_GETREGSET, thread_, as_pointer(NT_X86_XSTATE), &place) != 0 ||
      ::ptrace(PTRACE_GETSIGMASK, thread_, as_pointer(sizeof before_.mask), &before_.mask) != 0)
    return false;
  before_.extended.resize(place.iov_len);
  const user_regs_struct& registers = before_.registers;
  const uintptr_t stack = process::own_stack(process_, registers.rsp, registers.fs_base);
  if (stack == 0) return false;
  frame_ = signal_frame(before_, instructions_.restorer, registers.rsp - kRedZone);
  if (frame_.bytes.empty() || frame_.address < stack) return false;
  beneath_.resize(frame_.bytes.size());
  return memory_.read(frame_.address, beneath_.data(), beneath_.size()) &&
         memory_.write(frame_.address, frame_.bytes.data(), frame_.bytes.size());
}

// Sends it to where these registers say. No handler of the program's runs on it then; without a tracer one could, which
// it does between two instructions of the program as well.
bool TracedThread::go_to(const user_regs_struct& registers) {
  if (!set_registers(thread_, registers)) return false;
  away_ = true;
  return set_mask(thread_, ~uint64_t{0});
}

// To the beginning or the end of its next system call, by turns.
bool TracedThread::next_system_call(user_regs_struct& after) {
  const Stop next = at_ == Stop::entry ? Stop::exit : Stop::entry;
  for (int signal = 0;;) {
    if (::ptrace(PTRACE_SYSCALL, thread_, nullptr, as_pointer(static_cast<uint64_t>(signal))) != 0) return false;
    at_ = Stop::none;
    int status = 0;
    if (!wait_for_stop(kTimeToCall, status)) return false;
    if (!WIFSTOPPED(status)) {
      seized_ = away_ = false;  // it ended
      return false;
    }
    at_ = Stop::event;
    if (WSTOPSIG(status) == kSystemCallStop) {
      at_ = next;
      return get_registers(thread_, after);
    }
    // SIGSTOP cannot be blocked: it stops the process, and this thread with it once that is let go.
    signal = is_event_stop(status) ? 0 : WSTOPSIG(status);
    if (signal != 0 && signal != SIGSTOP) return false;
  }
}

bool TracedThread::run_to_return(uintptr_t returned) {
  user_regs_struct after{};
  while (next_system_call(after))
    if (at_ == Stop::entry && after.orig_rax == SYS_rt_sigreturn && after.rsp == returned) return true;
  return false;
}

std::optional<long> TracedThread::system_call(long number, std::initializer_list<uint64_t> arguments) {
  user_regs_struct registers = before_.registers, after{};
  registers.rip = instructions_.system_call;
  registers.rsp = frame_.address;
  registers.rax = static_cast<unsigned long long>(number);
  registers.orig_rax = kNoSystemCall;  // no system call of its own is begun again meanwhile
  set_arguments(registers, arguments, true);
  if (!go_to(registers) || !next_system_call(after) || !next_system_call(after)) return std::nullopt;
  return static_cast<long>(after.rax);
}

bool TracedThread::call(uintptr_t function, uintptr_t top, std::initializer_list<uint64_t> arguments) {
  constexpr unsigned long long kDirection = 1u << 10, kTrap = 1u << 8;
  const SignalFrame frame = signal_frame(before_, instructions_.restorer, top);
  if (!memory_.write(frame.address, frame.bytes.data(), frame.bytes.size())) return false;
  user_regs_struct registers = before_.registers;
  registers.rip = function;
  registers.rsp = frame.address;
  registers.rax = 0;
  registers.orig_rax = kNoSystemCall;
  registers.eflags &= ~(kDirection | kTrap);
  set_arguments(registers, arguments, false);
  if (!go_to(registers) || !run_to_return(frame.returned())) return false;
  // From here on by the frame on its own stack: who has called the function may take the other one away.
  user_regs_struct after{};
  if (!get_registers(thread_, after)) return false;
  after.rsp = frame_.returned();
  return set_registers(thread_, after);
}

// At the beginning of rt_sigreturn.
void TracedThread::put_back() {
  user_regs_struct after{};
  set_mask(thread_, before_.mask);
  if (before_.restarts()) {
    // The kernel goes on with the system call in the place of rt_sigreturn; of one with a time limit it knows what is
    // left.
    constexpr unsigned long long kRestartBlock = -516ull, kNotDone = -38ull;  // -ENOSYS, as at every beginning
    iovec place{before_.extended.data(), before_.extended.size()};
    user_regs_struct registers = before_.registers;
    if (registers.rax == kRestartBlock) registers.orig_rax = SYS_restart_syscall;
    registers.rax = kNotDone;
    if (::ptrace(PTRACE_SETREGSET, thread_, as_pointer(NT_X86_XSTATE), &place) != 0 ||
        !set_registers(thread_, registers))
      return;  // by the frame
  } else if (!next_system_call(after)) {
    return;
  }
  memory_.write(frame_.address, beneath_.data(), beneath_.size());
}

// What it was sent into has raised a signal. In such a stop the kernel begins an interrupted system call again by
// itself.
void TracedThread::put_back_at_once() {
  iovec place{before_.extended.data(), before_.extended.size()};
  ::ptrace(PTRACE_SETREGSET, thread_, as_pointer(NT_X86_XSTATE), &place);
  set_registers(thread_, before_.registers);
  set_mask(thread_, before_.mask);
}

void TracedThread::give_back() {
  if (at_ == Stop::exit) run_to_return(frame_.returned());
  if (at_ == Stop::entry) return put_back();
  if (at_ == Stop::event) return put_back_at_once();
  // It hangs where it was sent; what it does there it does to its end, and the kernel puts it back.
  if (!seized_ || ::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) != 0) return;
  int status = 0;
  if (!wait_for_stop(kTimeToStop, status) || !WIFSTOPPED(status)) return;
  at_ = Stop::event;
  if (!is_event_stop(status) && WSTOPSIG(status) != kSystemCallStop) pending_signal_ = WSTOPSIG(status);
}

}  // namespace devtrace::attach
#endif
