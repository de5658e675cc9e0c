// Answers to the tracker's questions about CUDA.
#pragma once

namespace devtrace::interpose {

// Sets devtrace::runtime().
void answer_runtime_questions();

}  // namespace devtrace::interpose
