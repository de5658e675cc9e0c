// A program that leaves no process behind, whoever kills it.
#pragma once

#include <string_view>

namespace devtrace::process {

// Goes on in a new process. The one before waits for that, hands on signals that were sent to it, ends as it has ended,
// and ends what it has left behind. `spared`: the name of a process that is left alone, as it ends by itself. If the
// one before is killed, the new one gets SIGTERM. Children that it had already stay. To be called before any thread is
// made and before signals are handled.
void supervise(std::string_view spared);

// Kills this process's children and theirs, also those that left its session and whose parents have ended: the kernel
// makes them children of the process that supervise() has made. Returns whether there were any.
bool kill_descendants(std::string_view spared);
// Does so until there is none, and waits for them, ten seconds at most.
void end_descendants(std::string_view spared = {});

}  // namespace devtrace::process
