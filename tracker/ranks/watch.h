// Ranks that do not come to a collective in which others wait: looked for by a thread that wakes rarely.
#pragma once

namespace devtrace::ranks {

// From now on, if the options want it: the thread is started once.
void watch();
void forget_watch_in_child();

}  // namespace devtrace::ranks
