#include "report/traffic/interconnect.h"

#include <algorithm>

#include "common/format.h"

namespace devtrace::report {
namespace {

// To know one more: a row. The first whose name occurs in the device's decides. `nvlink` only where every board of that
// name has it, with all devices of a machine connected.
struct Part {
  std::string_view name;
  int pcie;         // generation, 16 lanes
  double nvlink;    // bytes a second in one direction; 0: none that can be relied on
  double host = 0;  // where the host is reached by something else than PCIe
};
constexpr double GB = 1e9;
constexpr Part kParts[] = {
    {"GB300", 6, 900 * GB, 450 * GB},
    {"GB200", 6, 900 * GB, 450 * GB},
    {"GH200", 5, 450 * GB, 450 * GB},
    {"B300", 6, 900 * GB},
    {"B200", 5, 900 * GB},
    {"B100", 5, 900 * GB},
    {"H200 NVL", 5, 0},
    {"H200", 5, 450 * GB},
    {"H100 80GB HBM3", 5, 450 * GB},  // SXM; the other boards are named PCIe and NVL
    {"H800", 5, 200 * GB},
    {"H20", 5, 450 * GB},
    {"H100", 5, 0},
    {"A100-SXM", 4, 300 * GB},
    {"A800-SXM", 4, 200 * GB},
    {"A100", 4, 0},
    {"RTX 50", 5, 0},
    {"RTX PRO", 5, 0},
    {"L40", 4, 0},
    {"L4", 4, 0},
    {"RTX 40", 4, 0},
    {"RTX 30", 4, 0},
    {"A40", 4, 0},
    {"A30", 4, 0},
    {"A10", 4, 0},
    {"RTX A", 4, 0},
    {"V100-SXM", 3, 150 * GB},
    {"V100", 3, 0},
    {"P100", 3, 0},
    {"T4", 3, 0},
    {"RTX 20", 3, 0},
};
constexpr Part kOther = {"", 4, 0};

const Part& part_of(std::string_view name) {
  for (const Part& part : kParts)
    if (name.find(part.name) != name.npos) return part;
  return kOther;
}

// Bytes a second of 16 lanes in one direction, after the line code.
double pcie_rate(int generation) {
  constexpr double kRates[] = {0, 4 * GB, 8 * GB, 15.75 * GB, 31.5 * GB, 63 * GB, 126 * GB};
  return kRates[std::clamp(generation, 1, 6)];
}

std::string_view name_of_device(const Json& process, std::string_view device) {
  for (const Json& each : array(process, "devices"))
    if (const auto index = integer(each, "index"); index && fmt::format("cuda:{}", *index) == device)
      return string(each, "name");
  return {};
}

struct Way {
  double rate;
  std::string name;
};
Way to_host(const Part& part) {
  if (part.host > 0) return {part.host, "NVLink-C2C"};
  return {pcie_rate(part.pcie), fmt::format("PCIe {}.0 x16", part.pcie)};
}

}  // namespace

Link link_for(const Json& process, std::string_view from, std::string_view to, bool staged, uint64_t count) {
  const auto bytes = static_cast<double>(count);
  const bool ranks = from == "ranks";
  const Part& target = part_of(name_of_device(process, to));
  const Part& source = ranks ? target : part_of(name_of_device(process, from));
  const bool known = !ranks && (from == "cpu" || !source.name.empty()) && (to == "cpu" || !target.name.empty());
  const char* assumed = known ? "" : " (assumed)";
  if (from == "cpu" || to == "cpu") {
    const Way way = to_host(from == "cpu" ? target : source);
    return {bytes / way.rate, way.name + assumed};
  }
  const Way first = to_host(source), second = to_host(target);
  if (staged)
    return {bytes / first.rate + bytes / second.rate,
            fmt::format("{}{}, through the host{}", first.name,
                        second.name == first.name ? " twice" : " and " + second.name, assumed)};
  if (source.nvlink > 0 && target.nvlink > 0)
    return {bytes / std::min(source.nvlink, target.nvlink), std::string("NVLink") + assumed};
  const Way& slower = first.rate < second.rate ? first : second;
  return {bytes / slower.rate, slower.name + assumed};
}

}  // namespace devtrace::report
