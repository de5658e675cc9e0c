// What the host can still give: simulated memory is the host's, and a host that is out of it ends processes.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace devtrace::simulate {

// Bytes that processes can still get, by MemAvailable and by the memory limits of the process's control group (v1 and
// v2) and those above it. Nothing where neither can be read. `root`: in front of /proc and /sys, for tests.
std::optional<size_t> host_available(const std::string& root = {});

// What devices have been given of it, and how much of that is in use: the rest will be asked for when it is written to.
// Of large blocks nobody knows how much will be: programs take nearly a whole device for a pool, and use little of it.
// --values small leaves them alone from a size on, and without values hardly anything is written at all.
size_t large_block();
struct HostUse {
  size_t given = 0, touched = 0;
  size_t large = 0;  // of `given`: in large blocks
};

// Whether the host has `size` bytes more for a device. If not, one line says so, once a process; another one if a large
// block is given all the same, as nothing of it is in use yet. Asks the host only now and then.
// DEVTRACE_SIM_HOST_MEMORY: what all devices may be given together, in the place of what the host says; of large blocks
// what is written to counts where not all values are computed.
bool host_gives(size_t size, const std::function<HostUse()>& in_use);

}  // namespace devtrace::simulate
