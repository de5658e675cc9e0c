// What a process has computed, as a file for tools: DEVTRACE_SIM_SUMMARY names the folder.
#pragma once

namespace devtrace::simulate {

// Once, when the devices are made: the file is written when this process ends, by exit, _exit or the end of main. A
// process that is killed leaves none, and neither does one that has computed nothing, or a fork's child.
void summarize_at_exit();

}  // namespace devtrace::simulate
