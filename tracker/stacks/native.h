// Around fork(): see stacks.h.
#pragma once

namespace devtrace::stacks {

void before_fork_native();
void after_fork_native();

}  // namespace devtrace::stacks
