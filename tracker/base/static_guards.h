// Variables of functions that are initialised when they are first reached (`static const T t = ...`), and fork().
#pragma once

namespace devtrace::static_guards {

// What another thread of the parent was initialising is begun anew in the child: that thread will not end it. To be
// called in a fork's child before anything else of devtrace. pthread_once has the same rule.
void after_fork_in_child();

}  // namespace devtrace::static_guards
