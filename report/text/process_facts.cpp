#include "report/text/process_facts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/format.h"
#include "common/text.h"
#include "report/phrasing/phrasing.h"

namespace devtrace::report {
namespace {

using Facts = std::vector<std::pair<std::string_view, std::string>>;

std::string joined(const Json& words) {
  std::string out;
  for (const Json& word : words) {
    if (word.is_string()) out += (out.empty() ? "" : " ") + word.get<std::string>();
  }
  return out;
}

// "2 NVIDIA H100 80GB HBM3": parts of one name together, in the order of their first.
std::string parts(const Json& devices) {
  std::vector<std::pair<std::string, int>> counts;
  for (const Json& device : devices) {
    const std::string name(string(device, "name"));
    const auto known = std::find_if(counts.begin(), counts.end(), [&](const auto& each) { return each.first == name; });
    if (known == counts.end())
      counts.emplace_back(name, 1);
    else
      ++known->second;
  }
  std::string out;
  for (const auto& [name, count] : counts)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, name.empty() ? "of an unknown name" : name);
  return out;
}

Facts facts_of(const Json& process, const Json& end) {
  const auto pid = integer(process, "pid");
  const auto started = number(process, "started");
  const auto attached = number(process, "attached");
  const auto exit = integer(end, "exit");
  Facts all = {{"command", joined(array(process, "command"))},
               {"directory", std::string(string(process, "cwd"))},
               {"host", std::string(string(process, "host"))},
               {"process", pid ? std::to_string(*pid) : ""},
               {"started", started ? clock_time(*started) : ""},
               {"attached", attached ? clock_time(*attached) : ""},
               {"Python", std::string(string(process, "python"))},
               {"PyTorch", std::string(string(process, "torch"))},
               {"CUDA runtime", std::string(string(process, "cuda_runtime"))},
               {"devices", parts(array(process, "devices"))},
               {"visible", std::string(string(process, "visible_devices"))},
               {"exit code", exit ? std::to_string(*exit) : ""},
               {"devtrace", std::string(string(process, "devtrace"))}};
  std::erase_if(all, [](const auto& fact) { return fact.second.empty(); });
  for (auto& [name, value] : all) value = shortened(printable(value), 400);
  return all;
}

}  // namespace

std::vector<std::string> caveats(const Json& process, const Json& end) {
  std::vector<std::string> out;
  if (flag(process, "rehearsal")) out.emplace_back("Rehearsal: the devices were simulated.");
  if (number(process, "attached"))
    out.emplace_back("devtrace was attached to the running process: what was before is not known.");
  if (end.empty()) out.emplace_back("The process was killed, or is still running: its log has no end.");
  if (const auto dropped = integer(end, "dropped"); dropped && *dropped > 0)
    out.push_back(fmt::format("{} more findings were dropped: max_findings was reached.", *dropped));
  if (flag(process, "redacted")) out.emplace_back("Redacted: paths and names were replaced.");
  return out;
}

std::string process_text(const Json& process, const Json& end) {
  std::string out = "The process\n";
  for (const auto& [name, value] : facts_of(process, end)) out += fmt::format("  {:<13} {}\n", name, value);
  for (const std::string& caveat : caveats(process, end)) out += fmt::format("  {}\n", caveat);
  return out;
}

std::string process_markdown(const Json& process, const Json& end) {
  std::string out = "### The process\n\n";
  for (const std::string& caveat : caveats(process, end)) out += fmt::format("*{}*\n\n", caveat);
  std::string lines;
  for (const auto& [name, value] : facts_of(process, end)) lines += fmt::format("{:<13} {}\n", name, value);
  // Indented code: no fence that a value could close.
  for (std::string_view rest = lines; !rest.empty();) {
    const size_t line_end = rest.find('\n') + 1;
    out += fmt::format("    {}", rest.substr(0, line_end));
    rest.remove_prefix(line_end);
  }
  return out;
}

}  // namespace devtrace::report
