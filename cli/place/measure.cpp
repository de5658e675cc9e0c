#include "cli/place/measure.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>
#include <tuple>

#include "common/format.h"
#include "common/text.h"
#include "fix/trials/child.h"
#include "fix/trials/workspace.h"
#include "report/placement/memory_use.h"
#include "report/record/json_access.h"
#include "report/record/log_reader.h"
#include "report/traffic/traffic.h"

namespace devtrace::cli::place {
namespace {

namespace fs = std::filesystem;
using report::Json;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The last line that is not devtrace's own.
std::string last_line(const std::string& text) {
  std::string last;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (!line.empty() && !line.starts_with("devtrace:") && !line.starts_with("SUMMARY:")) last = line;
    at = end + 1;
  }
  return last.substr(0, 200);
}

// The device's number among all that are simulated: CUDA_VISIBLE_DEVICES gives a process others.
int device_of(const Json& process, std::string_view name) {
  if (!name.starts_with("cuda:")) return -1;
  int index = std::atoi(std::string(name.substr(5)).c_str());
  std::string_view visible = report::string(process, "visible_devices");
  if (visible.empty() || visible.find_first_not_of("0123456789,") != visible.npos) return index;
  for (; index > 0 && visible.find(',') != visible.npos; --index) visible.remove_prefix(visible.find(',') + 1);
  return std::atoi(std::string(visible.substr(0, visible.find(','))).c_str());
}

// What the map's file says.
void read_summaries(const fs::path& folder, Measured* measured) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != ".json") continue;
    const Json json = Json::parse(text_of(entry.path()), nullptr, false);
    if (!json.is_object()) continue;
    if (const auto map = json.find("device_map"); map != json.end() && map->is_object())
      for (const auto& [name, place] : map->items())
        if (place.is_string()) measured->map[name] = place.get<std::string>();
    if (const auto limits = json.find("max_memory"); limits != json.end() && limits->is_object())
      for (const auto& [device, size] : limits->items())
        if (size.is_number_unsigned()) measured->limits[std::atoi(device.c_str())] = size.get<uint64_t>();
    for (const Json& block : report::array(json, "blocks"))
      if (block.is_array() && block.size() == 2 && block[0].is_string() && block[1].is_number_unsigned())
        measured->blocks.push_back({block[0].get<std::string>(), block[1].get<uint64_t>()});
  }
}

void add_memory(const Json& process, const report::MemoryUse& memory, Measured* measured) {
  for (const Json& each : memory.devices()) {
    const int device = device_of(process, report::string(each, "device"));
    const auto count = [&](const char* key) {
      return static_cast<uint64_t>(std::max<int64_t>(0, report::integer(each, key).value_or(0)));
    };
    measured->peaks[device] += count("peak");
    measured->weights[device] += count("weights");
  }
  for (const Json& each : memory.ends())
    measured->full.push_back(
        fmt::format("{}: {}", printable(report::string(each, "device")), report::memory_words(process, each)));
}

// From another rank it comes over a link as well.
void add_traffic(const Json& process, const report::Traffic& traffic, Measured* measured) {
  for (const report::Traffic::Row& row : traffic.pairs(process)) {
    const int from = device_of(process, row.from), to = device_of(process, row.to);
    if (to < 0) continue;
    if (row.from == "ranks" || (from >= 0 && from != to)) {
      measured->between += row.bytes;
      measured->working += row.working_bytes;
    }
    if (row.from == "cpu") {
      measured->to_devices += row.bytes;
      measured->offloaded += row.working_bytes;
    }
  }
}

void read_logs(const fs::path& folder, Measured* measured) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != ".jsonl") continue;
    Json process;
    report::Traffic traffic;
    report::MemoryUse memory;
    try {
      report::read_log(
          entry.path(),
          [&](Json&& record) {
            const std::string kind(report::string(record, "record"));
            if (kind == "process") process = std::move(record);
            if (kind == "traffic") traffic.take(record);
            if (kind == "memory" || kind == "out_of_memory") memory.take(record);
          },
          [](const report::FindingLine&) { return true; });
    } catch (const report::LogError&) {  // of a process that did nothing
    }
    add_memory(process, memory, measured);
    add_traffic(process, traffic, measured);
  }
}

}  // namespace

Measured run(const process::Program& program, const fs::path& folder, double timeout) {
  fix::ProgramToRun subject;
  subject.words = program.words;
  subject.environment = program.environment;
  subject.environment[fix::kMark] = folder;
  subject.environment["DEVTRACE_SIM_SUMMARY"] = folder / "summary";
  fs::create_directories(folder / "summary");
  std::string& options = subject.environment["DEVTRACE_OPTIONS"];
  options += fmt::format("{}log_path=\"{}/devtrace-%p.jsonl\":html=0:text=0:error_exitcode=0:halt_on_error=0",
                         options.empty() ? "" : ":", folder.string());
  Measured measured;
  {
    fix::Child child(subject, folder / "output");
    while (!child.ended()) {
      if (child.seconds() > timeout) {
        child.end(folder);
        measured.end = End::too_long;
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    measured.code = child.code();
    measured.seconds = child.seconds();
  }
  fix::kill_all_of(folder);
  const std::string output = text_of(folder / "output");
  if (measured.end != End::too_long) {
    const bool full = output.find("CUDA out of memory") != output.npos;
    measured.end = measured.code == 0 ? End::fits : full ? End::out_of_memory : End::failed;
  }
  if (measured.end != End::fits) measured.last_line = last_line(output);
  read_summaries(folder / "summary", &measured);
  read_logs(folder, &measured);
  return measured;
}

std::string balanced_map(const Measured& measured) {
  const auto devices = static_cast<size_t>(measured.gpus);
  std::vector<double> besides(devices, 0);  // bytes at the peak that no map moves
  double all = 0;
  for (const Block& block : measured.blocks) all += static_cast<double>(block.bytes);
  if (devices == 0 || all <= 0) return {};
  double target = all;
  for (const auto& [device, peak] : measured.peaks) {
    const auto weights = measured.weights.find(device);
    if (device < 0 || static_cast<size_t>(device) >= devices || weights == measured.weights.end()) return {};
    besides[static_cast<size_t>(device)] = static_cast<double>(peak - std::min(peak, weights->second));
    target += besides[static_cast<size_t>(device)];
  }
  target /= static_cast<double>(devices);
  Json map = Json::object();
  size_t device = 0;
  double begin = 0, end = std::max(0.0, target - besides[0]);  // of the weights that this device has
  for (const Block& block : measured.blocks) {
    const double middle = begin + static_cast<double>(block.bytes) / 2;
    while (middle > end && device + 1 < devices) end += std::max(0.0, target - besides[++device]);
    map[block.name] = device;
    begin += static_cast<double>(block.bytes);
  }
  return map.dump();
}

std::vector<const Measured*> cheapest(const std::vector<Measured>& all) {
  std::map<Values, const Measured*> best;
  for (const Measured& each : all) {
    if (each.end != End::fits) continue;
    Values own = each.values;
    std::erase_if(own, [](const auto& value) { return is_ours(value.first); });
    const Measured*& known = best[own];
    const auto rank = [](const Measured& one) { return std::tuple(one.cost(), one.gpus, one.working); };
    if (!known || rank(each) < rank(*known)) known = &each;
  }
  std::vector<const Measured*> found;
  for (const auto& [own, one] : best) found.push_back(one);
  return found;
}

}  // namespace devtrace::cli::place
