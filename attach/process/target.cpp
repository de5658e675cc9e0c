#include "attach/process/target.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <initializer_list>

#include "attach/process/permission.h"
#include "attach/process/seccomp.h"
#include "binary/elf/file.h"
#include "common/format.h"

namespace devtrace::attach {
namespace {

constexpr const char* kLibrary = "libdevtrace.so";

process::Status checked_status(pid_t process) {
  const auto status = process::status_of(process);
  if (!status) throw Failure(Code::no_process, fmt::format("there is no process {}", process));
  // What lies in /proc under a thread's number is its process's, but its log and its end are not.
  if (status->group != 0 && status->group != process)
    throw Failure(Code::no_process,
                  fmt::format("{} is a thread of process {}; give that number", process, status->group));
  if (status->state == 'Z' && process::threads_of(process).size() > 1)
    throw Failure(Code::cannot_be,
                  fmt::format("the main thread of process {} has ended, and the kernel shows nothing of "
                              "the others; start it with: devtrace run",
                              process));
  if (status->state == 'Z' || status->state == 'X')
    throw Failure(Code::no_process, fmt::format("process {} is exiting: there is nothing left to attach to", process));
  if (status->state == 'T')
    throw Failure(Code::cannot_be,
                  fmt::format("process {} is stopped; let it go on first: kill -CONT {}", process, process));
  check_untraced(process, *status);
  check_seccomp(process, *status);
  return *status;
}

std::string program_of(pid_t process) {
  return fmt::format("/proc/{}/exe", process);
}

void check_architecture(pid_t process) {
  const elf::File program(program_of(process));
  if (program.is_elf() && program.header().e_machine != EM_X86_64)  // of none the mappings tell more
    throw Failure(Code::cannot_be,
                  fmt::format("process {} runs a program for another architecture; devtrace is for x86-64", process));
}

// The program's file asks for a loader (PT_INTERP): it is linked dynamically.
bool asks_for_loader(pid_t process) {
  return elf::File(program_of(process)).has_segment(PT_INTERP);
}

bool any_begins(const std::vector<LoadedObject>& objects, std::initializer_list<const char*> begins) {
  return std::ranges::any_of(objects, [&](const LoadedObject& each) {
    return std::ranges::any_of(begins, [&](const char* begin) { return each.file().starts_with(begin); });
  });
}

bool runs_with_musl(const std::vector<LoadedObject>& objects) {
  return any_begins(objects, {"ld-musl", "libc.musl"});
}

bool has_loader(const std::vector<LoadedObject>& objects) {
  return runs_with_musl(objects) || any_begins(objects, {"ld-linux", "ld-2", "ld.so", "libc.so", "libc-2"});
}

std::vector<process::Mapping> checked_mappings(const Target& target) {
  const pid_t process = target.process;
  const std::string path = fmt::format("/proc/{}/maps", process);
  if (::access(fmt::format("/proc/{}", process).c_str(), F_OK) != 0) throw target.ended();
  std::ifstream readable(path);
  if (!readable || readable.peek() == std::ifstream::traits_type::eof()) {
    char link[16];
    if (::readlink(fmt::format("/proc/{}/exe", process).c_str(), link, sizeof link) < 0 && errno == ENOENT)
      throw Failure(Code::cannot_be, fmt::format("process {} is one of the kernel's own, or exiting", process));
    target.refuse_access();
  }
  return process::mappings_of(process);
}

}  // namespace

void check_untraced(pid_t process, const process::Status& status) {
  if (status.tracer != 0)
    throw Failure(
        Code::cannot_be,
        fmt::format("process {} is traced by process {} (a debugger, strace); end that first", process, status.tracer));
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

Target::Target(pid_t process, const std::string& again)
    : process(process), again(again), status(checked_status(process)), memory(process) {
  check_architecture(process);
  check_memory_is_its_own();
  // The kernel maps a program before its loader: who has just started a process would else be told that it is linked
  // statically.
  constexpr int kTries = 200;  // of 5 milliseconds
  for (int i = 0; i < kTries; ++i) {
    objects = loaded_objects(checked_mappings(*this));
    if (has_loader(objects) || !asks_for_loader(process)) break;
    ::usleep(5000);
  }
  uint32_t word = 0;
  if (!objects.empty() && !memory.read(objects.front().start, word)) {
    if (errno == ESRCH) throw ended();
    if (errno == EPERM) refuse_access();
  }
}

const LoadedObject* Target::library() const {
  return find_library(objects);
}

bool Target::uses_cuda() const {
  return std::ranges::any_of(objects, is_cuda);
}

bool Target::registers_rseq() const {
  return std::ranges::any_of(objects, [&](const LoadedObject& each) {
    if (!each.file().starts_with("ld-linux")) return false;  // where glibc has it
    const uintptr_t found = RemoteObject(memory, each.start).symbol("__rseq_size").begin;
    uint32_t size = 0;
    return found != 0 && memory.read(found, size) && size != 0;
  });
}

void Target::check_c_library() const {
  if (runs_with_musl(objects))
    throw Failure(Code::cannot_be, fmt::format("process {} ({}) runs with musl; devtrace needs the C library glibc",
                                               process, status.name));
  if (has_loader(objects)) return;
  if (asks_for_loader(process))
    throw Failure(Code::cannot_be, fmt::format("process {} ({}) is just being started: its loader has not begun; try "
                                               "again in a moment",
                                               process, status.name));
  throw Failure(Code::cannot_be, fmt::format("process {} ({}) is linked statically, so that no library can be brought "
                                             "into it; link it dynamically",
                                             process, status.name));
}

void Target::check_memory_is_its_own() const {
  const auto now = process::status_of(process);
  if (!now || now->parent <= 0) return;
  constexpr int kMemory = 1;  // KCMP_VM
  if (::syscall(SYS_kcmp, process, now->parent, kMemory, 0, 0) != 0) return;
  throw Failure(Code::cannot_be,
                fmt::format("process {} ({}) still runs in the memory of its parent {} (vfork); try again in a moment",
                            process, status.name, now->parent));
}

bool Target::sees(const std::string& file) const {
  struct stat here {
  }, there{};
  return ::stat(file.c_str(), &here) == 0 &&
         ::stat(fmt::format("/proc/{}/root{}", process, file).c_str(), &there) == 0 && here.st_ino == there.st_ino &&
         here.st_dev == there.st_dev;
}

void Target::check_library(const std::string& library) const {
  struct stat here {};
  if (::stat(library.c_str(), &here) != 0)
    throw Failure(Code::library, fmt::format("{}: {}", library, std::strerror(errno)));
  if (!sees(library))
    throw Failure(Code::library, fmt::format("process {} does not see {}: it lives in another container or root; run "
                                             "devtrace attach in there",
                                             process, library));
}

void Target::refuse_access() const {
  throw Failure(Code::no_permission,
                fmt::format("not allowed to trace process {}: {}", process,
                            why_refused(process, permission_facts(status.user, status.dumpable), again)));
}

Failure Target::ended() const {
  return Failure(Code::no_process, fmt::format("process {} has ended", process));
}

}  // namespace devtrace::attach
