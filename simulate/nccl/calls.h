// What the files of NCCL's functions share: how a call is refused, and calls between ncclGroupStart and ncclGroupEnd.
#pragma once

#include <string>

#include "simulate/nccl/communicator.h"
#include "simulate/nccl/newer.h"
#include "simulate/nccl/window.h"

namespace devtrace::simulate::nccl {

ncclResult_t refuse(ncclResult_t code, std::string why);  // what ncclGetLastError says on this thread
ncclResult_t no_communicator();
ncclResult_t refuse_group(ncclResult_t result);  // the whole group of this thread's

// Joins now, or where the group ends. A communicator that is not joined becomes null.
ncclResult_t init(Joining joining, ncclComm_t* comm);

// What a rank asks for, now or where the group ends.
ncclResult_t submit(Request request);
// Registers it now, or where the group ends.
ncclResult_t register_window(const std::shared_ptr<Window>& window);

}  // namespace devtrace::simulate::nccl
