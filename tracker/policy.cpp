#include "tracker/policy.h"

namespace devtrace::policy {
namespace {

// To excuse more: a row. A pattern matches anywhere in the kernel's name as its image has it.
struct Row {
  std::string_view pattern;
  const char* reason;
};
constexpr Row kExcused[] = {
    {"nccl", "NCCL's kernels move data between devices"},
    {"nvshmem", "NVSHMEM's symmetric heap spans devices"},
    {"symm_mem", "PyTorch's symmetric memory spans devices"},
    {"multimem_all_reduce", "PyTorch's symmetric memory spans devices"},
    {"one_shot_all_reduce", "PyTorch's symmetric memory spans devices"},
    {"two_shot_all_reduce", "PyTorch's symmetric memory spans devices"},
    {"cublasmp", "cuBLASMp's kernels work on several devices at once"},
    {"direct_copy_kernel", "PyTorch copies between devices that can reach each other with a kernel"},
};

}  // namespace

bool may_reach_other_devices(std::string_view kernel) {
  for (const Row& row : kExcused)
    if (kernel.find(row.pattern) != kernel.npos) return true;
  return false;
}

}  // namespace devtrace::policy
