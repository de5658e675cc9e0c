// Slow work of ours on a thread of the program's: a finding, a record of the log.
//
// Meanwhile no handler of the program's runs on the thread, so none can leave by siglongjmp with our locks held and the
// thread marked as busy for ever. Nothing cancels it. And the stack is one of ours, as the thread's own may be of 16
// KiB (a handler's, a coroutine's). What faults is told as ever: SIGSEGV and its like are not blocked.
//
// No ReentrancyGuard may stand around it: a handler that has waited runs at its end, and may not come back.
#pragma once

namespace devtrace {

// On which stack: Python from 3.14 on knows where a thread's stack lies, and takes another for an overflow.
enum class Stack { ours, callers };

void run_isolated(Stack stack, void (*work)(const void*), const void* argument);

// Exceptions end here: memory had run out. errno stays.
template <class Work>
void run_isolated(Stack stack, const Work& work) {
  run_isolated(
      stack,
      [](const void* argument) {
        try {
          (*static_cast<const Work*>(argument))();
        } catch (...) {
        }
      },
      &work);
}

}  // namespace devtrace
