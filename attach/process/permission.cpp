#include "attach/process/permission.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string_view>

#include "common/format.h"

namespace devtrace::attach {
namespace {

bool has_capability() {
  constexpr unsigned kPtrace = 19;
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("CapEff:")) return std::strtoull(line.c_str() + 7, nullptr, 16) >> kPtrace & 1;
  return false;
}

int yama_scope() {
  std::ifstream in("/proc/sys/kernel/yama/ptrace_scope");
  int scope = -1;
  return in >> scope ? scope : -1;
}

bool in_container() {
  if (::access("/.dockerenv", F_OK) == 0 || ::access("/run/.containerenv", F_OK) == 0) return true;
  return std::getenv("KUBERNETES_SERVICE_HOST") != nullptr;
}

}  // namespace

std::string why_refused(pid_t process, const PermissionFacts& facts, const std::string& again) {
  const std::string as_root = fmt::format("type: sudo {}", again);
  if (facts.yama == 3)
    return "this kernel lets no process trace another (kernel.yama.ptrace_scope is 3, until the machine is started "
           "anew); start the program with: devtrace run";
  if (!facts.capable && facts.own_user != facts.user)
    return fmt::format("process {} belongs to another user (uid {}); {}", process, facts.user, as_root);
  if (!facts.capable && facts.yama == 2)
    return fmt::format("kernel.yama.ptrace_scope is 2: only who has CAP_SYS_PTRACE may trace; {}", as_root);
  if (!facts.capable && facts.yama == 1)
    return fmt::format(
        "kernel.yama.ptrace_scope is 1: only a process's parents may trace it; {}, or once: sudo sysctl "
        "kernel.yama.ptrace_scope=0",
        as_root);
  if (!facts.capable && !facts.dumpable)
    return fmt::format(
        "process {} has forbidden its user to look at it (prctl PR_SET_DUMPABLE, or its file has "
        "capabilities or cannot be read); {}",
        process, as_root);
  if (facts.contained && !facts.capable)
    return "the container does not allow ptrace: start it with --cap-add=SYS_PTRACE (Kubernetes: "
           "securityContext.capabilities.add: [SYS_PTRACE]), or run the program with: devtrace run";
  if (facts.contained)
    return "a seccomp filter or a security module of the container forbids ptrace, though CAP_SYS_PTRACE is there: "
           "start "
           "it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined, or run the program with: "
           "devtrace run";
  return "the kernel does not allow it (a security module such as SELinux or AppArmor, or a seccomp filter, forbids "
         "ptrace, or the process has capabilities that you have not); start the program with: devtrace run";
}

PermissionFacts permission_facts(uid_t user, bool dumpable) {
  return {.own_user = ::geteuid(),
          .user = user,
          .capable = has_capability(),
          .dumpable = dumpable,
          .yama = yama_scope(),
          .contained = in_container()};
}

}  // namespace devtrace::attach
