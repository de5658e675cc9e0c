// Here are no hooks, and so none of the entries before them.
#include "interpose/linking/cuda_runtimes.h"

extern "C" {
extern void* const devtrace_slot_trampolines[1][devtrace::interpose::runtimes::kSlots] = {};
extern const char devtrace_trampolines_begin[1] = {}, devtrace_trampolines_end[1] = {};
}
