#include "cli/place/measure.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>
#include <tuple>

#include "common/format.h"
#include "fix/trials/child.h"
#include "fix/trials/workspace.h"
#include "report/record/json_access.h"
#include "report/record/log_reader.h"

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

int device_of(std::string_view name) {
  return name.starts_with("cuda:") ? std::atoi(std::string(name.substr(5)).c_str()) : -1;
}

// What the simulated devices' and the map's files say.
void read_summaries(const fs::path& folder, Measured* measured) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != ".json") continue;
    const Json json = Json::parse(text_of(entry.path()), nullptr, false);
    if (!json.is_object()) continue;
    if (const auto peaks = json.find("peak"); peaks != json.end() && peaks->is_object())
      for (const auto& [name, bytes] : peaks->items())
        if (bytes.is_number_unsigned()) measured->peaks[device_of(name)] += bytes.get<uint64_t>();
    if (const auto map = json.find("device_map"); map != json.end() && map->is_object())
      for (const auto& [name, place] : map->items())
        if (place.is_string()) measured->map[name] = place.get<std::string>();
    if (const auto limits = json.find("max_memory"); limits != json.end() && limits->is_object())
      for (const auto& [device, size] : limits->items())
        if (size.is_number_unsigned()) measured->limits[std::atoi(device.c_str())] = size.get<uint64_t>();
  }
}

// The logs' traffic: of records of one id in a log the last holds.
void read_traffic(const fs::path& folder, Measured* measured) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != ".jsonl") continue;
    std::map<int64_t, Json> last;
    try {
      report::read_log(
          entry.path(),
          [&](Json&& record) {
            if (report::string(record, "record") != "traffic") return;
            const int64_t id = report::integer(record, "id").value_or(0);  // before the record is moved
            last[id] = std::move(record);
          },
          [](const report::FindingLine&) { return true; });
    } catch (const report::LogError&) {  // of a process that did nothing
    }
    for (const auto& [id, record] : last) {
      const int from = device_of(report::string(record, "from")), to = device_of(report::string(record, "to"));
      const auto bytes = static_cast<uint64_t>(report::integer(record, "bytes").value_or(0));
      if (from >= 0 && to >= 0 && from != to) measured->between += bytes;
      if (from < 0 && to >= 0) measured->to_devices += bytes;
    }
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
  read_traffic(folder, &measured);
  return measured;
}

std::vector<const Measured*> cheapest(const std::vector<Measured>& all) {
  std::map<Values, const Measured*> best;
  for (const Measured& each : all) {
    if (each.end != End::fits) continue;
    Values own = each.values;
    std::erase_if(own, [](const auto& value) { return is_ours(value.first); });
    const Measured*& known = best[own];
    const auto rank = [](const Measured& one) { return std::tuple(one.cost(), one.gpus, one.between); };
    if (!known || rank(each) < rank(*known)) known = &each;
  }
  std::vector<const Measured*> found;
  for (const auto& [own, one] : best) found.push_back(one);
  return found;
}

}  // namespace devtrace::cli::place
