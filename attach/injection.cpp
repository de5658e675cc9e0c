#include "attach/injection.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "attach/injected_code.h"
#include "attach/permission.h"
#include "attach/process.h"
#include "attach/remote_memory.h"
#include "attach/remote_object.h"
#include "attach/safe_point.h"
#include "attach/traced_thread.h"
#include "report/base/format.h"

namespace devtrace::attach {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kTimeToFind = 10s;    // a moment at which a thread may be borrowed
constexpr auto kTimeToAnswer = 30s;  // another thread may hold the loader's lock
constexpr const char* kLibrary = "libdevtrace.so";

// What is to be called.
struct Request {
  std::string library;  // to be opened; empty: `function` is there already
  std::string name;     // of the function
  uint64_t function = 0;
  std::optional<std::string> options;  // the first argument; the reply's place and its size follow
};

// Of the C library in the target.
struct Functions {
  uint64_t pthread_create, pthread_self, pthread_detach, dlopen, dlsym, dlerror, munmap;
  uintptr_t system_call;  // an instruction `syscall`
};

[[noreturn]] void refuse_access(pid_t process, const Status& status, const std::string& again) {
  throw Failure(Code::no_permission,
                fmt::format("not allowed to trace process {}: {}", process,
                            why_refused(process, permission_facts(status.user, status.dumpable), again)));
}

Failure ended(pid_t process) {
  return Failure(Code::no_process, fmt::format("process {} has ended", process));
}

Status checked_status(pid_t process) {
  const auto status = status_of(process);
  if (!status) throw Failure(Code::no_process, fmt::format("there is no process {}", process));
  if (status->state == 'Z' || status->state == 'X')
    throw Failure(Code::no_process, fmt::format("process {} is exiting", process));
  if (status->state == 'T')
    throw Failure(Code::cannot_be,
                  fmt::format("process {} is stopped; let it go on first: kill -CONT {}", process, process));
  if (status->tracer != 0)
    throw Failure(Code::cannot_be,
                  fmt::format("process {} is traced by process {} (a debugger, strace); end that first", process,
                              status->tracer));
  return *status;
}

void check_architecture(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/exe", process), std::ios::binary);
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!file || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return;  // the mappings tell more
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
    throw Failure(Code::cannot_be,
                  fmt::format("process {} runs a program for another architecture; devtrace is for x86-64", process));
}

std::vector<Mapping> checked_mappings(pid_t process, const Status& status, const std::string& again) {
  const std::string path = fmt::format("/proc/{}/maps", process);
  if (::access(fmt::format("/proc/{}", process).c_str(), F_OK) != 0) throw ended(process);
  std::ifstream readable(path);
  if (!readable || readable.peek() == std::ifstream::traits_type::eof()) {
    char link[16];
    if (::readlink(fmt::format("/proc/{}/exe", process).c_str(), link, sizeof link) < 0 && errno == ENOENT)
      throw Failure(Code::cannot_be, fmt::format("process {} is one of the kernel's own, or exiting", process));
    refuse_access(process, status, again);
  }
  return mappings_of(process);
}

bool is_cuda(const LoadedObject& object) {
  const std::string file = object.file();
  return std::ranges::any_of(
      std::initializer_list<const char*>{"libcuda.so", "libcudart", "libtorch_cuda", "libc10_cuda"},
      [&](const char* name) { return file.starts_with(name); });
}

const LoadedObject* find_library(const std::vector<LoadedObject>& objects) {
  const auto found =
      std::ranges::find_if(objects, [](const LoadedObject& each) { return each.file().starts_with(kLibrary); });
  return found == objects.end() ? nullptr : &*found;
}

uintptr_t find_system_call(const RemoteMemory& memory, const RemoteObject& library) {
  const Range function = library.symbol("syscall");
  unsigned char code[64] = {};
  const size_t size = memory.read_some(function.begin, code, std::min(sizeof code, function.end - function.begin));
  for (size_t i = 0; i + 1 < size; ++i)
    if (code[i] == 0x0f && code[i + 1] == 0x05) return function.begin + i;
  return 0;
}

Functions find_functions(pid_t process, const RemoteMemory& memory, const std::vector<LoadedObject>& objects) {
  for (const LoadedObject& each : objects) {
    if (!each.file().starts_with("libc.so") && !each.file().starts_with("libc-2")) continue;
    const RemoteObject library(memory, each.start);
    const auto function = [&](const char* name) { return library.symbol(name).begin; };
    const Functions found{function("pthread_create"), function("pthread_self"),
                          function("pthread_detach"), function("dlopen"),
                          function("dlsym"),          function("dlerror"),
                          function("munmap"),         find_system_call(memory, library)};
    if (found.pthread_create && found.pthread_self && found.pthread_detach && found.dlopen && found.dlsym &&
        found.dlerror && found.munmap && found.system_call)
      return found;
    throw Failure(Code::cannot_be, fmt::format("process {} runs with {}, which is older than glibc 2.34 or none of "
                                               "glibc's: devtrace cannot be brought into it",
                                               process, each.path));
  }
  throw Failure(
      Code::cannot_be,
      fmt::format("process {} has no C library loaded: it is linked statically, or just being started", process));
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
  data->function = request.function;
  data->pause[1] = 5'000'000;
  data->patience = 12'000;
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
uintptr_t start_in(TracedThread& thread, const RemoteMemory& memory, const Functions& functions, InjectedData& data,
                   const Request& request, std::string& why) {
  const auto pages =
      thread.system_call(functions.system_call, SYS_mmap,
                         {0, kInjectedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0});
  if (!pages || *pages < 0) {
    why = "it gets no memory";
    return 0;
  }
  const auto start = static_cast<uintptr_t>(*pages);
  place(data, start, request);
  std::string code(injected_code());
  code.resize(kTrapOffset, '\x90');
  code += '\xcc';
  const auto undo = [&](const char* reason) {
    why = reason;
    thread.system_call(functions.system_call, SYS_munmap, {start, kInjectedBytes});
    return uintptr_t{0};
  };
  if (!memory.write(start, code.data(), code.size()) || !memory.write(start + kPage, &data, sizeof data))
    return undo("its memory cannot be written");
  const auto allowed = thread.system_call(functions.system_call, SYS_mprotect, {start, kPage, PROT_READ | PROT_EXEC});
  if (!allowed || *allowed != 0) return undo("a security module forbids new code in it (SELinux's execmem)");
  const auto made = thread.call(memory, functions.pthread_create, start + kTrapOffset,
                                {start + kPage + offsetof(InjectedData, reply), 0, start, start + kPage});
  if (!made || *made != 0) return undo("it cannot make another thread");
  return start;
}

uintptr_t start_somewhere(pid_t process, const Status& status, const RemoteMemory& memory, const Functions& functions,
                          const UnsafeCode& unsafe, const Request& request, const std::string& again) {
  const auto data = data_for(request, functions);
  const auto until = Clock::now() + kTimeToFind;
  std::string why;
  for (auto pause = 1ms; Clock::now() < until; pause = std::min<decltype(pause)>(pause * 2, 50ms)) {
    std::vector<pid_t> threads = threads_of(process);
    if (threads.empty()) throw ended(process);
    std::ranges::stable_partition(threads, [&](pid_t each) { return sleeps_in_system_call(process, each); });
    for (const pid_t each : threads) {
      TracedThread thread(each);
      const int fault = thread.stop();
      if (fault == EPERM) {
        const auto now = status_of(process);
        if (!now || now->state == 'Z' || now->state == 'X') throw ended(process);
        if (each != process && ::access(fmt::format("/proc/{}/task/{}", process, each).c_str(), F_OK) != 0) continue;
        refuse_access(process, status, again);
      }
      if (fault != 0 || !thread.is_safe(memory, unsafe) || !thread.borrow()) continue;
      if (const uintptr_t pages = start_in(thread, memory, functions, *data, request, why)) return pages;
      if (!why.empty()) throw Failure(Code::library, fmt::format("process {}: {}", process, why));
    }
    std::this_thread::sleep_for(pause);
  }
  throw Failure(
      Code::no_safe_moment,
      fmt::format("process {}: in {} seconds no thread was outside of malloc and the loader; it is as it was. "
                  "Try again",
                  process, kTimeToFind / 1s));
}

Answer wait_for_answer(pid_t process, const RemoteMemory& memory, uintptr_t pages, const Request& request) {
  const uintptr_t at = pages + kPage;
  const auto until = Clock::now() + kTimeToAnswer;
  for (auto pause = 1ms; Clock::now() < until; pause = std::min<decltype(pause)>(pause * 2, 20ms)) {
    uint32_t state = InjectedData::running;
    if (!memory.read(at + offsetof(InjectedData, state), state)) throw ended(process);
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
    if (!read) throw ended(process);
    if (state == InjectedData::called) return answer;
    throw Failure(Code::library, fmt::format("process {} cannot open {}: {}", process, request.library, answer.reply));
  }
  throw Failure(Code::no_safe_moment,
                fmt::format("process {}: no answer in {} seconds: another thread holds the loader's lock, or Python's; "
                            "when it lets go, what was asked for still happens",
                            process, kTimeToAnswer / 1s));
}

// Everything that is known of the process before it is touched.
struct Target {
  Status status;
  std::vector<LoadedObject> objects;
  RemoteMemory memory;

  Target(pid_t process, const std::string& again) : status(checked_status(process)), memory(process) {
    check_architecture(process);
    objects = loaded_objects(checked_mappings(process, status, again));
    uint32_t word = 0;
    if (!objects.empty() && !memory.read(objects.front().start, word)) {
      if (errno == ESRCH) throw ended(process);
      if (errno == EPERM) refuse_access(process, status, again);
    }
  }
};

Answer call(pid_t process, const Target& target, const Request& request, const std::string& again) {
  const Functions functions = find_functions(process, target.memory, target.objects);
  const UnsafeCode unsafe = unsafe_code(target.memory, target.objects);
  const uintptr_t pages = start_somewhere(process, target.status, target.memory, functions, unsafe, request, again);
  return wait_for_answer(process, target.memory, pages, request);
}

// The target may live in a container of its own, with other files.
void check_library(pid_t process, const std::string& library) {
  struct stat here {
  }, there{};
  if (::stat(library.c_str(), &here) != 0)
    throw Failure(Code::library, fmt::format("{}: {}", library, std::strerror(errno)));
  const std::string path = fmt::format("/proc/{}/root{}", process, library);
  if (::stat(path.c_str(), &there) != 0 || here.st_ino != there.st_ino || here.st_dev != there.st_dev)
    throw Failure(Code::library, fmt::format("process {} does not see {}: it lives in another container or root; run "
                                             "devtrace attach in there",
                                             process, library));
}

}  // namespace

std::string Answer::value(const std::string& key) const {
  const std::string text = "\n" + reply;
  const size_t at = text.find("\n" + key + "=");
  if (at == text.npos) return {};
  const size_t begin = at + key.size() + 2;
  return text.substr(begin, text.find('\n', begin) - begin);
}

Answer attach(pid_t process, const std::string& library, const std::string& options, const std::string& again) {
  const Target target(process, again);
  Request request{library, "devtrace_attach", 0, options};
  if (const LoadedObject* const there = find_library(target.objects)) {
    request.function = RemoteObject(target.memory, there->start).symbol(request.name).begin;
    if (request.function == 0)
      throw Failure(Code::library, fmt::format("process {} has an older {} that cannot be attached to: start it anew",
                                               process, there->path));
  } else {
    if (std::ranges::none_of(target.objects, is_cuda))
      throw Failure(
          Code::no_cuda,
          fmt::format("process {} ({}) has not loaded CUDA, so there is nothing to see; attach when it has, or "
                      "start it with: devtrace run",
                      process, target.status.name));
    check_library(process, library);
  }
  return call(process, target, request, again);
}

Answer detach(pid_t process, const std::string& again) {
  const Target target(process, again);
  const LoadedObject* const there = find_library(target.objects);
  if (!there)
    throw Failure(Code::not_attached, fmt::format("process {} ({}) is not attached to", process, target.status.name));
  const uintptr_t function = RemoteObject(target.memory, there->start).symbol("devtrace_detach").begin;
  if (function == 0)
    throw Failure(Code::library,
                  fmt::format("process {} has an older {} that cannot be detached from", process, there->path));
  return call(process, target, {"", "devtrace_detach", function, std::nullopt}, again);
}

bool uses_cuda(pid_t process) {
  return std::ranges::any_of(loaded_objects(mappings_of(process)), is_cuda);
}

bool has_library(pid_t process) {
  const auto objects = loaded_objects(mappings_of(process));
  return find_library(objects) != nullptr;
}

}  // namespace devtrace::attach
