// Which way the events of CUDA come to the tracker: the hooks, or CUPTI's callbacks (option `backend`).
#pragma once

namespace devtrace::interpose {

// At the process's start: where CUPTI is wished for, has CUDA call InitializeInjection when it starts.
void ask_cuda_for_injection();

// "interpose" or "cupti".
const char* backend();

void leave_cupti();            // at the process's end
void forget_cupti_in_child();  // after a fork
}  // namespace devtrace::interpose
