// A call of a function that is computed: what the generated function (tools/library.py) knows of it.
#pragma once

#include <functional>
#include <utility>

#include "simulate/common/library.h"
#include "simulate/numbers/memory.h"
#include "simulate/numbers/scalar.h"
#pragma GCC visibility push(default)
#include <cublas_v2.h>
#pragma GCC visibility pop

namespace devtrace::simulate::cublas {

using namespace numbers;

// What a handle keeps besides its stream, by its place in library::Object::modes.
enum Mode { kPointer, kMath, kAtomics, kSmCount };

struct Call {
  const char* name;
  const void* handle;
  library::Memory memory;
  bool on_several = false;  // of cublasXt: its scalars are the host's

  // Alpha, beta and results are in memory of the device.
  bool on_device() const {
    return !on_several && library::object(handle)->modes[kPointer] == CUBLAS_POINTER_MODE_DEVICE;
  }
  Scalar scalar(const void* address, cudaDataType type) const { return {address, type, on_device()}; }
  Result result(void* address, cudaDataType type) const { return {address, type, on_device()}; }
};

// cublasXt's: at once, when all of its devices have done what they have.
cublasStatus_t compute_on_several(const Call& call, const std::function<void()>& work);

inline cublasStatus_t compute(const Call& call, std::function<void()> work) {
  if (call.on_several) return compute_on_several(call, work);
  return library::calculate(call.name, call.handle, call.memory, std::move(work)) ? CUBLAS_STATUS_EXECUTION_FAILED
                                                                                  : CUBLAS_STATUS_SUCCESS;
}

// The same, and the host's result is there when the call returns.
inline cublasStatus_t compute_result(const Call& call, std::function<void()> work) {
  if (const cublasStatus_t status = compute(call, std::move(work))) return status;
  if (call.on_device() || !library::calculates() || library::wait(call.handle)) return CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_EXECUTION_FAILED;
}

// A function for some types only: others are recorded.
inline cublasStatus_t record(const Call& call) {
  return library::launch(call.name, call.handle, call.memory) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

inline Operation operation_of(cublasOperation_t operation) {
  return static_cast<Operation>(operation);
}
inline Fill fill_of(cublasFillMode_t fill) {
  return static_cast<Fill>(fill);
}

}  // namespace devtrace::simulate::cublas
