// True values: which work of the program PyTorch's CPU kernels compute, and what nobody does.
#pragma once

#include <map>
#include <string>

namespace devtrace::simulate::values {

// The calling thread is inside an operator whose result will be computed on the CPU right after it (torch/, python/).
struct Thread {
  int in_operator = 0;        // its kernels need no mention
  int copies_suppressed = 0;  // and its copies and fills must not touch memory: see copies_suppressed()
  int kernels_deferred = 0;   // what is launched may be computed when the launch is done (python/triton_kernels.py)
};
extern thread_local Thread t_thread;

// What an operator launches and copies: its results are computed right after it. `copies_suppressed`: those of
// nested operators are not.
class OperatorScope {
 public:
  explicit OperatorScope(Thread& thread, bool copies_suppressed = true)
      : thread_(thread), copies_suppressed_(copies_suppressed) {
    ++thread_.in_operator;
    thread_.copies_suppressed += copies_suppressed_;
  }
  ~OperatorScope() {
    --thread_.in_operator;
    thread_.copies_suppressed -= copies_suppressed_;
  }
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  Thread& thread_;
  const int copies_suppressed_;
};

inline bool in_operator() {
  return t_thread.in_operator > 0;
}
// The operator's kernels have not run, so what it copies is not yet there, and its inputs have to outlive it. What it
// copies to the host reads as zero, which no operator takes for a failure or for a size.
inline bool copies_suppressed() {
  return t_thread.copies_suppressed > 0;
}

// Puts python/triton_kernels.py behind Triton's launches once Triton is there; asked when a device's properties are,
// which Triton does before its first launch. Cheap to call often.
void look_for_triton();

// Brings python/ into this process's Python, once, as soon as PyTorch is there. Cheap to call often: before every use
// of CUDA but the question how many devices there are. Does nothing in a thread that does not hold the GIL, in
// processes without Python, or under DEVTRACE_SIM_VALUES=0. With DEVTRACE_SIM_VALUES=python the kernels of torch/ stay
// out of it.
void ensure_installed();

// Whether results are computed at all: not under DEVTRACE_SIM_VALUES=0, nor beside a PyTorch that does not let us.
bool are_computed();

// Whether PyTorch is in this process, as far as ensure_installed() has seen.
bool has_torch();

// Something whose result nobody computed: said once at exit, with the others of its kind. `mangled` is a kernel's name
// in its image, or an operator's with the reason.
void not_computed_kernel(const std::string& mangled, const std::string& reason = "");
// In how many places it may have written besides, by addresses that lie in memory.
void not_computed_reached(const std::string& mangled, size_t places);
void not_computed_operator(const std::string& name, const std::string& reason);

// Of a function's or kernel's name as it stands in an object or image; what is not mangled stays as it is.
std::string readable_name(const std::string& mangled);

// All of them so far.
struct NotComputed {
  std::map<std::string, unsigned long> kernels;  // name as people read it, launches
  std::map<std::string, std::string> operators;  // name, reason
};
NotComputed not_computed();

}  // namespace devtrace::simulate::values
