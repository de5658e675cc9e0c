/* The C interface that libdevtrace.so offers to the program it runs in (dlsym, ctypes): every function may be called at
 * any time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version, "MAJOR.MINOR.PATCH". */
const char* devtrace_version(void);

/* Findings of this process so far, repetitions and dropped ones included. */
uint64_t devtrace_finding_count(void);

/* Those of them that are neither notes nor suppressed: what fails a run. */
uint64_t devtrace_fault_count(void);

/* Occurrences so far of the finding with that id in this process's log (1, 2, ...); 0 for none, and with dedupe=0. */
uint64_t devtrace_occurrences(uint64_t id);

/* Path of this process's log; "" while there is none. The string stays until the calling thread asks again. */
const char* devtrace_log_path(void);

/* What is known of the memory at an address, as an operand of the log has it: a JSON object with `created`,
 * `moved` and `before_attach`. `device`: where the caller knows it to lie, "cpu" or "cuda:1".
 * Returns the length without the end; what does not fit is left out, as by snprintf. Sources are read from disk. */
size_t devtrace_where(const void* address, const char* device, char* reply, size_t size);

/* Between these two the calling thread is not watched: no finding is made, no block or copy is recorded. Pairs nest. */
void devtrace_pause(void);
void devtrace_resume(void);

/* What devtrace_attach and devtrace_detach answer. */
enum {
  DEVTRACE_CHANGED = 0,
  DEVTRACE_UNCHANGED = 1, /* it was attached, or detached, already */
  DEVTRACE_BUSY = 2,      /* another thread is attaching or detaching */
  DEVTRACE_FAILED = 3     /* out of memory */
};

/* Begins to watch the whole process, if this library was opened while it ran (dlopen) or was detached; what was before
 * stays unseen. `options`: as in DEVTRACE_OPTIONS, on top of it; may be null. `reply` gets lines of key=value (the path
 * of the log), as many as fit; may be null. Where it is watched already, the options hold from then on, but for the
 * log's path. Waits for Python's GIL for a second at most. */
int devtrace_attach(const char* options, char* reply, size_t size);

/* The way back: no call of the process leads here any more but through pointers that somebody keeps, and those do
 * nothing. The library must stay loaded. */
int devtrace_detach(char* reply, size_t size);

/* 1 while the process is watched, else 0. */
int devtrace_watching(void);

#ifdef __cplusplus
}
#endif
