#include <map>
#include <stdexcept>
#include <utility>

#include "report/check/comparison.h"

namespace devtrace::report::check {
namespace {

Json without_names(const Json& gone) {
  Json out = Json::object();
  for (const char* key : {"fingerprint", "kind"})
    if (const auto value = string(gone, key); !value.empty()) out[key] = value;
  return out;
}

std::vector<Displaced> without_names(std::vector<Displaced> all) {
  for (Displaced& each : all) {
    each.root = "a model's";
    each.names = "state";
  }
  return all;
}

}  // namespace

Comparison redacted(const Comparison& judged, const Collection& logs) {
  std::map<std::pair<std::string_view, bool>, const Fault*> by_name;
  for (const Fault& fault : logs.faults()) by_name.try_emplace({fault.fingerprint, fault.note}, &fault);
  Comparison out;
  for (const ClassifiedFault& each : judged.faults) {
    const auto found = by_name.find({each.fault->fingerprint, each.fault->note});
    if (found == by_name.end()) throw std::runtime_error("the logs have changed while they were read");
    out.faults.push_back({found->second, each.status, ""});
  }
  for (const Json& gone : judged.gone) out.gone.push_back(without_names(gone));
  for (Comparison::MoreTraffic each : judged.traffic) {
    each.site = each.site.substr(0, each.site.find(" at "));  // whose code it is
    each.now.hosts.clear();
    out.traffic.push_back(std::move(each));
  }
  out.placement = judged.placement;
  for (auto* changed : {&out.placement.moved, &out.placement.added, &out.placement.gone})
    *changed = without_names(std::move(*changed));
  out.placement_fails = judged.placement_fails;
  if (!judged.problems.empty())
    out.problems.push_back(
        "not everything could be judged; what and why is left out here, as it names files and hosts");
  return out;
}

}  // namespace devtrace::report::check
