#pragma once

namespace devtrace::simulate::nccl {

// That of the NCCL which PyTorch in this process has beside it, else of the one whose header this was compiled with.
int version();

}  // namespace devtrace::simulate::nccl
