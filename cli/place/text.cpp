#include "cli/place/text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/format.h"
#include "common/text.h"
#include "report/traffic/traffic.h"

namespace devtrace::cli::place {
namespace {

using Json = nlohmann::ordered_json;

const char* in_words(End end) {
  switch (end) {
    case End::fits:
      return "fits";
    case End::out_of_memory:
      return "out of memory";
    case End::too_long:
      return "took too long";
    case End::failed:
      return "failed";
  }
  return "";
}

std::string values_of(const Measured& one) {
  std::string text;
  for (const auto& [name, value] : one.values) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text.empty() ? "as it is" : text;
}

std::string peaks_of(const Measured& one) {
  std::string text;
  for (const auto& [device, bytes] : one.peaks)
    text += fmt::format("{}{:.2f}", text.empty() ? "" : " ", static_cast<double>(bytes) / (1u << 30));
  return text.empty() ? "-" : text;
}

std::string between_of(const Measured& one, unsigned tokens) {
  return report::size(tokens ? one.working / tokens : one.between);
}

// What comes again for each token: weights that accelerate keeps there, and what the program reads in.
std::string from_host_of(const Measured& one, unsigned tokens) {
  const uint64_t bytes = tokens ? one.offloaded / tokens : 0;
  return bytes ? fmt::format(", {} from the host", report::size(bytes)) : "";
}

std::string what_to_write(const Measured& one) {
  std::string text;
  const auto map = one.values.find("device-map");
  const bool measured = map != one.values.end() && map->second == "measured";
  if (map != one.values.end() && !measured) text += fmt::format("    device_map=\"{}\"\n", map->second);
  if (measured && one.limits.empty()) {
    std::string places;
    for (const auto& [name, place] : one.map)
      places += fmt::format("{}\"{}\": {}", places.empty() ? "" : ", ", printable(name), printable(place));
    text += fmt::format("    device_map={{{}}}\n", places);
  }
  if (const auto ranks = one.values.find("tensor-parallel"); ranks != one.values.end() && ranks->second != "1")
    text += fmt::format("    tp_plan=\"auto\", and torchrun --nproc-per-node {}\n", ranks->second);
  if (!one.limits.empty()) {
    std::string limits;
    for (const auto& [device, size] : one.limits)
      limits += fmt::format("{}{}: \"{}MiB\"", limits.empty() ? "" : ", ", device, size);
    text += fmt::format("    {}device_map=\"sequential\", max_memory={{{}}}\n", measured ? "" : "or ", limits);
  }
  return text;
}

}  // namespace

std::string as_text(const std::vector<Measured>& all, unsigned tokens) {
  const std::string between = tokens ? "between devices a token" : "between devices";
  std::vector<std::vector<std::string>> rows = {{"try", "", "peak by device, GiB", between, "time"}};
  for (const Measured& each : all)
    rows.push_back({values_of(each), in_words(each.end), peaks_of(each),
                    between_of(each, tokens) + from_host_of(each, tokens), fmt::format("{:.0f} s", each.seconds)});
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  for (const Measured& each : all)
    if (each.end == End::failed)
      text += fmt::format("{}: exit status {}: {}\n", values_of(each), each.code, printable(each.last_line));
  for (const Measured& each : all)
    if (each.end == End::out_of_memory && !each.full.empty())
      text += fmt::format("{}: {}\n", values_of(each), each.full.back());
  const std::vector<const Measured*> best = cheapest(all);
  if (best.empty()) text += "none of them fits\n";
  for (const Measured* each : best)
    text += fmt::format("the cheapest that fits: {}: {} of {:.1f} GiB, {} {}{}\n{}", values_of(*each),
                        each->gpus == 1 ? "1 device" : fmt::format("{} devices", each->gpus),
                        static_cast<double>(each->memory) / (1u << 30), between_of(*each, tokens), between,
                        from_host_of(*each, tokens), what_to_write(*each));
  return text;
}

std::string as_json(const std::vector<Measured>& all, unsigned tokens) {
  const std::vector<const Measured*> best = cheapest(all);
  Json tries = Json::array();
  for (const Measured& each : all) {
    Json one = {{"values", each.values},
                {"end", in_words(each.end)},
                {"exit_status", each.code},
                {"seconds", each.seconds},
                {"gpus", each.gpus},
                {"memory", each.memory},
                {"between_devices", each.between},
                {"from_host", each.to_devices},
                {"cheapest", std::find(best.begin(), best.end(), &each) != best.end()}};
    if (tokens) {
      one["between_devices_a_token"] = each.working / tokens;
      one["from_host_a_token"] = each.offloaded / tokens;
    }
    for (const auto& [device, bytes] : each.peaks) one["peak"][fmt::format("cuda:{}", device)] = bytes;
    if (!each.map.empty()) one["device_map"] = each.map;
    for (const auto& [device, size] : each.limits)
      one["max_memory"][std::to_string(device)] = fmt::format("{}MiB", size);
    for (const std::string& where : each.full) one["out_of_memory"].push_back(where);
    if (!each.last_line.empty()) one["last_line"] = each.last_line;
    tries.push_back(std::move(one));
  }
  return Json{{"tries", std::move(tries)}}.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace devtrace::cli::place
