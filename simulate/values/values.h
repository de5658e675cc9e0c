// True values: which work of the program PyTorch's CPU kernels compute, and what nobody does.
#pragma once

#include <string>

namespace devtrace::sim::values {

// The calling thread is inside an operator whose result will be computed on the CPU right after it (torch/, python/).
struct Thread {
  int covered = 0;  // its kernels need no mention
  int held = 0;     // and its copies and fills must not touch memory: see held()
};
extern thread_local Thread t_thread;

// What an operator launches and copies: its results are computed right after it. `held`: those of nested operators are
// not.
class Covered {
 public:
  explicit Covered(Thread& thread, bool held = true) : thread_(thread), held_(held) {
    ++thread_.covered;
    thread_.held += held_;
  }
  ~Covered() {
    --thread_.covered;
    thread_.held -= held_;
  }
  Covered(const Covered&) = delete;
  Covered& operator=(const Covered&) = delete;

 private:
  Thread& thread_;
  const int held_;
};

inline bool covered() {
  return t_thread.covered > 0;
}
// The operator's kernels have not run, so what it copies is not yet there, and its inputs have to outlive it. What it
// copies to the host reads as zero, which no operator takes for a failure or for a size.
inline bool held() {
  return t_thread.held > 0;
}

// Brings python/ into this process's Python, once, as soon as PyTorch is there. Cheap to call often: before every use
// of CUDA. Does nothing in a thread that does not hold the GIL, in processes without Python, or under
// DEVTRACE_SIM_VALUES=0. With DEVTRACE_SIM_VALUES=python the kernels of torch/ stay out of it.
void bring_in();

// Something whose result nobody computed: said once at exit, with the others of its kind. `mangled` is a kernel's name
// in its image, or an operator's with the reason.
void not_computed_kernel(const std::string& mangled);
void not_computed_operator(const std::string& name, const std::string& reason);

}  // namespace devtrace::sim::values
