// Whether devtrace's calls may be what a seccomp filter ends a process for. The kernel tells how many filters there
// are, not which; but a filter is inherited at a fork and never taken away.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "process/status.h"

namespace devtrace::attach {

// Of a process, with its number; nothing: it has ended, or is not to be seen from here.
using StatusOf = std::function<std::optional<process::Status>(pid_t)>;

// Both have as many filters as each process between them and the one that both come from: they are that one's. Where
// both come into the PID namespace from outside (parent 0), they are those that a container's runtime gives. False also
// where that cannot be known: no number is told (before Linux 5.9), or a parent has ended.
bool have_same_filters(pid_t target, pid_t own, const StatusOf& status_of);

// Throws Failure where the process, or a thread of it, runs under filters that this command does not run under.
void check_seccomp(pid_t process, const process::Status& status);

// Under the same filters: a child of this command makes the calls of attaching first, as `library` does. Throws Failure
// where that ends or hinders it. `registers_rseq`: the process's C library registers restartable sequences (2.35 on).
void try_under_filters(pid_t process, const std::string& library, bool registers_rseq);

}  // namespace devtrace::attach
