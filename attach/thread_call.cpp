#include "attach/thread_call.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "attach/injected_code.h"
#include "attach/safe_point.h"
#include "attach/signals_held.h"
#include "attach/traced_thread.h"
#include "common/format.h"

#ifndef __x86_64__
// What a thread is made to run is written in one processor's instructions, and its registers are that one's.
devtrace::attach::Answer devtrace::attach::call_by_thread(const Target& target, const Request&) {
  throw Failure(
      Code::cannot_be,
      fmt::format(
          "process {}: on this processor only Python 3.14 and later let devtrace in, and this process does not: "
          "start it with devtrace run",
          target.process));
}
#else

namespace devtrace::attach {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kTimeToFind = 10s;    // a moment at which a thread may be borrowed
constexpr auto kTimeToAnswer = 30s;  // another thread may hold the loader's lock

constexpr uint32_t kPatience = 1000;  // of 5 ms each: the new thread waits so long for one who has died

// Of the C library in the target.
struct Functions {
  uint64_t pthread_create, pthread_self, pthread_detach, dlopen, dlsym, dlerror, munmap;
  Instructions instructions;
};

// The first of these bytes in the target's memory; 0: they are not there.
uintptr_t find_bytes(const process::RemoteMemory& memory, const Range& range, std::string_view bytes) {
  std::string text(range.end - range.begin, '\0');
  text.resize(memory.read_some(range.begin, text.data(), text.size()));
  const size_t at = text.find(bytes);
  return at == text.npos ? 0 : range.begin + at;
}

Instructions find_instructions(const process::RemoteMemory& memory, const RemoteObject& symbols,
                               const LoadedObject& library) {
  using namespace std::string_view_literals;
  // One of the calls without an error.
  Instructions found{find_bytes(memory, symbols.symbol("getuid"), "\x0f\x05\xc3"sv), 0};
  // What the C library gives the kernel with each handler of a signal: `mov $15, %rax`, `syscall`.
  for (const Range& each : library.code)
    if (found.restorer == 0) found.restorer = find_bytes(memory, each, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"sv);
  return found;
}

// The C library's functions in the target. Up to glibc 2.33 they lie in several files.
Functions find_functions(const Target& target) {
  constexpr const char* kFiles[] = {"libc.so", "libc-2", "libpthread.so", "libpthread-2", "libdl.so", "libdl-2"};
  std::vector<RemoteObject> libraries;
  const LoadedObject* c_library = nullptr;
  for (const char* begin : kFiles)
    for (const LoadedObject& each : target.objects) {
      if (!each.file().starts_with(begin)) continue;
      if (!c_library) c_library = &each;
      libraries.emplace_back(target.memory, each.start);
    }
  if (!c_library)
    throw Failure(
        Code::cannot_be,
        fmt::format("process {} has no C library loaded: it is just being started, or needs none", target.process));
  const auto function = [&](const char* name) {
    for (const RemoteObject& library : libraries)
      if (const uintptr_t found = library.symbol(name).begin) return found;
    return uintptr_t{0};
  };
  const Functions found{function("pthread_create"), function("pthread_self"),
                        function("pthread_detach"), function("dlopen"),
                        function("dlsym"),          function("dlerror"),
                        function("munmap"),         find_instructions(target.memory, libraries.front(), *c_library)};
  if (found.pthread_create && found.pthread_self && found.pthread_detach && found.dlopen && found.dlsym &&
      found.dlerror && found.munmap && found.instructions.system_call && found.instructions.restorer)
    return found;
  throw Failure(Code::cannot_be,
                fmt::format("process {} runs with {}, which is none of glibc's, or has neither libpthread nor libdl "
                            "loaded beside it: devtrace cannot be brought into it",
                            target.process, c_library->path));
}

// A path too long, or options, are told before anything is touched.
template <size_t N>
void put(char (&place)[N], const std::string& text, const char* what) {
  if (text.size() >= N) throw Failure(Code::library, fmt::format("{} is longer than {} characters", what, N - 1));
  std::memcpy(place, text.c_str(), text.size() + 1);
}

std::unique_ptr<InjectedData> data_for(const Request& request, const Functions& functions) {
  auto data = std::make_unique<InjectedData>();
  std::memset(data.get(), 0, sizeof *data);
  data->pthread_self = functions.pthread_self;
  data->pthread_detach = functions.pthread_detach;
  data->dlopen = functions.dlopen;
  data->dlsym = functions.dlsym;
  data->dlerror = functions.dlerror;
  data->munmap = functions.munmap;
  data->bytes = kInjectedBytes;
  data->made = ~0u;
  data->function = request.function;
  data->pause[1] = 5'000'000;
  data->patience = kPatience;
  data->flags = RTLD_NOW | RTLD_NODELETE;
  put(data->name, request.name, "a function's name");
  put(data->library, request.library, "the library's path");
  put(data->options, request.options.value_or(""), "the list of options");
  return data;
}

void place(InjectedData& data, uintptr_t pages, const Request& request) {
  const uintptr_t at = pages + kPage;
  data.pages = pages;
  const uint64_t reply = at + offsetof(InjectedData, reply);
  if (request.options) {
    data.arguments[0] = at + offsetof(InjectedData, options);
    data.arguments[1] = reply;
    data.arguments[2] = sizeof data.reply;
  } else {
    data.arguments[0] = reply;
    data.arguments[1] = sizeof data.reply;
  }
}

// In the borrowed thread: pages with the code, and a thread that runs it. The pages' address; 0: something of it was
// refused, and is undone.
uintptr_t start_in(TracedThread& thread, const Target& target, const Functions& functions, InjectedData& data,
                   const Request& request, std::string& why) {
  const auto pages = thread.system_call(
      SYS_mmap, {0, kInjectedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0});
  if (!pages || *pages < 0) {
    why = "it gets no memory";
    return 0;
  }
  const process::RemoteMemory& memory = target.memory;
  const auto start = static_cast<uintptr_t>(*pages);
  const uintptr_t there = start + kPage;
  place(data, start, request);
  const auto undo = [&](const char* reason) {
    why = reason;
    thread.system_call(SYS_munmap, {start, kInjectedBytes});
    return uintptr_t{0};
  };
  const std::string_view code = injected_code();
  if (!memory.write(start, code.data(), code.size()) || !memory.write(there, &data, sizeof data))
    return undo("its memory cannot be written");
  const auto allowed = thread.system_call(SYS_mprotect, {start, kPage, PROT_READ | PROT_EXEC});
  if (!allowed || *allowed != 0) return undo("a security module forbids new code in it (SELinux's execmem)");
  if (!thread.call(start + kMakeThread, start + kInjectedBytes,
                   {there + offsetof(InjectedData, reply), 0, start, there, there, functions.pthread_create})) {
    // It hangs in pthread_create, or the process has ended: whoever waits for an answer says which.
    return start;
  }
  uint32_t made = ~0u;
  memory.read(there + offsetof(InjectedData, made), made);
  return made == 0 ? start : undo("it cannot make another thread");
}

[[noreturn]] void why_all_refused(const Target& target) {
  const auto now = process::status_of(target.process);
  if (!now || now->state == 'Z' || now->state == 'X') throw target.ended();
  check_untraced(target.process, *now);
  target.refuse_access();
}

uintptr_t start_somewhere(const Target& target, const Functions& functions, const UnsafeCode& unsafe,
                          const Request& request) {
  const pid_t process = target.process;
  const auto data = data_for(request, functions);
  const auto until = Clock::now() + kTimeToFind;
  std::string why;
  for (auto pause = 1ms; Clock::now() < until; pause = std::min<decltype(pause)>(pause * 2, 50ms)) {
    std::vector<pid_t> threads = process::threads_of(process);
    if (threads.empty()) throw target.ended();
    std::stable_partition(threads.begin(), threads.end(),
                          [&](pid_t each) { return process::sleeps_in_system_call(process, each); });
    size_t refused = 0;
    for (const pid_t each : threads) {
      const SignalsHeld held;
      TracedThread::release_late();
      if (TracedThread::is_late(each)) continue;
      target.check_memory_is_its_own();
      TracedThread thread(process, each, target.memory, functions.instructions);
      const int fault = thread.stop();
      if (fault == EPERM) ++refused;
      if (fault != 0 || !thread.is_safe(unsafe) || !thread.borrow()) continue;
      if (const uintptr_t pages = start_in(thread, target, functions, *data, request, why)) return pages;
      if (!why.empty()) throw Failure(Code::library, fmt::format("process {}: {}", process, why));
    }
    // One thread alone is refused when it is ending, or somebody traces it; what is not allowed is refused of all.
    if (refused == threads.size()) why_all_refused(target);
    std::this_thread::sleep_for(pause);
  }
  throw Failure(
      Code::no_safe_moment,
      fmt::format("process {}: in {} seconds no thread was outside of malloc and the loader, with room on a stack of "
                  "its own; it is as it was. Try again",
                  process, kTimeToFind / 1s));
}

Answer wait_for_answer(const Target& target, uintptr_t pages, const Request& request) {
  const pid_t process = target.process;
  const process::RemoteMemory& memory = target.memory;
  const uintptr_t at = pages + kPage;
  const auto until = Clock::now() + kTimeToAnswer;
  for (auto pause = 1ms; Clock::now() < until; pause = std::min<decltype(pause)>(pause * 2, 20ms)) {
    uint32_t state = InjectedData::running;
    TracedThread::release_late();
    const uint32_t patience = kPatience;
    if (!memory.read(at + offsetof(InjectedData, state), state) ||
        !memory.write(at + offsetof(InjectedData, patience), &patience, sizeof patience))
      throw target.ended();
    if (state == InjectedData::running) {
      std::this_thread::sleep_for(pause);
      continue;
    }
    uint32_t result = 0;
    const bool read = memory.read(at + offsetof(InjectedData, result), result);
    Answer answer{static_cast<Result>(result),
                  memory.text(at + offsetof(InjectedData, reply), sizeof InjectedData::reply)};
    const uint32_t yes = 1;
    memory.write(at + offsetof(InjectedData, read), &yes, sizeof yes);
    if (!read) throw target.ended();
    if (state == InjectedData::called) return answer;
    throw Failure(Code::library, fmt::format("process {} cannot open {}: {}", process, request.library, answer.reply));
  }
  throw Failure(Code::no_safe_moment,
                fmt::format("process {}: no answer in {} seconds: another thread holds the loader's lock, or Python's; "
                            "when it lets go, what was asked for still happens",
                            process, kTimeToAnswer / 1s));
}

}  // namespace

Answer call_by_thread(const Target& target, const Request& request) {
  const Functions functions = find_functions(target);
  const UnsafeCode unsafe = unsafe_code(target.memory, target.objects);
  return wait_for_answer(target, start_somewhere(target, functions, unsafe, request), request);
}

}  // namespace devtrace::attach
#endif
