/* The C interface that libdevtrace.so offers to the program it runs in (dlsym, ctypes): every function may be called at
 * any time. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version, "0.1.0". */
const char* devtrace_version(void);

/* Findings of this process so far, repetitions and dropped ones included. */
uint64_t devtrace_finding_count(void);

/* Path of this process's log; "" while there is none. The string stays until the calling thread asks again. */
const char* devtrace_log_path(void);

/* Between these two the calling thread is not watched: no finding is made, no block or copy is recorded. Pairs nest. */
void devtrace_pause(void);
void devtrace_resume(void);

#ifdef __cplusplus
}
#endif
