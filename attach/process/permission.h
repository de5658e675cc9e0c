// Why the kernel does not let one process trace another, and what to do.
#pragma once

#include <sys/types.h>

#include <string>

namespace devtrace::attach {

struct PermissionFacts {
  uid_t own_user = 0, user = 0;
  bool capable = false;    // CAP_SYS_PTRACE
  bool dumpable = true;    // the target lets its user look at it
  int yama = -1;           // /proc/sys/kernel/yama/ptrace_scope; -1: there is no Yama
  bool contained = false;  // this process runs in a container
};

// One sentence, with what to do. `again`: the command that was typed, for the advice to type it otherwise.
std::string why_refused(pid_t process, const PermissionFacts& facts, const std::string& again);

PermissionFacts permission_facts(uid_t user, bool dumpable);

}  // namespace devtrace::attach
