// Where every parameter, buffer and cache of the program's modules lies. It is sampled now and then, between two
// instructions of the main thread's Python, and written to the log when it has changed.
//
// Models are local variables more often than not, and gone when the process ends: the end alone would know nothing.
#pragma once

namespace devtrace::placement {

// Hot: a nanosecond, but for one call in very many, which asks Python for a sample (Py_AddPendingCall: no GIL). Any
// thread; no allocator's lock may be held.
void launched();
void copied();

// Devtrace was attached: writes what lives now, under the GIL, for which a second is waited at most; without a GIL the
// main thread does, once it runs Python again.
void look_now();

// Writes what lives now. Does nothing where the calling thread does not hold the GIL.
void look_last();

// What the page beside the log lacks, where there is one.
void write_rest();

void before_fork();
void after_fork(bool child);

}  // namespace devtrace::placement
