// How fast bytes can move between two devices, as far as their names tell. All of it is an estimate.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "report/record/json_access.h"

namespace devtrace::report {

struct Link {
  double seconds = 0;     // at the link's full rate: it takes no less; or as measured
  std::string name;       // "PCIe 5.0 x16", "NVLink", "PCIe 4.0 x16 twice, through the host (assumed)"
  bool measured = false;  // by the device itself
};

// `process`: the log's process record, whose `devices` tell the names. `from` and `to`: "cpu", "cuda:1". `staged`: of
// two CUDA devices: neither may reach the other, so that CUDA goes through the host. From "ranks" the way is taken to
// be that between two such devices.
Link link_for(const Json& process, std::string_view from, std::string_view to, bool staged, uint64_t bytes);

}  // namespace devtrace::report
