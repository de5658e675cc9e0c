#include "report/placement/memory_use.h"

#include <algorithm>

#include "common/format.h"
#include "common/text.h"
#include "report/text/markdown.h"
#include "report/traffic/traffic.h"

namespace devtrace::report {
namespace {

constexpr size_t kMostDevices = 64, kMostEnds = 16;

uint64_t count_of(const Json& record, const char* key) {
  return static_cast<uint64_t>(std::max<int64_t>(0, integer(record, key).value_or(0)));
}

std::string at_words(const Json& process, const Json& record) {
  return array(record, "python").empty()
             ? ""
             : ", at " + shortened(printable(call_site(record, string(process, "cwd"))), 100);
}

// "model.layers.35.mlp (LlamaMLP) of LlamaForCausalLM"; empty: not known.
std::string module_words(const Json& record) {
  const Json& module = object(record, "module");
  const auto name = [&](const char* key) { return printable(shortened(string(module, key), 160)); };
  if (string(module, "path").empty()) return name("class");
  return fmt::format("{} ({}) of {}", name("path"), name("class"), name("root"));
}

std::string out_of_memory_words(const Json& process, const Json& record) {
  std::string out = fmt::format("out of memory: {} were asked for", size(count_of(record, "asked")));
  if (record.contains("missing"))
    out += fmt::format(", {} were free, {} were missing", size(count_of(record, "free")),
                       size(count_of(record, "missing")));
  const std::string module = module_words(record);
  return out + at_words(process, record) + (module.empty() ? "" : ", in " + module);
}

// What PyTorch holds beside its tensors can serve no allocation that is larger than its pieces.
uint64_t held_besides(const Json& record) {
  const uint64_t peak = count_of(record, "peak"), reserved = count_of(record, "reserved");
  return reserved - std::min(reserved, peak);
}

std::string peak_words(const Json& process, const Json& record) {
  const uint64_t capacity = capacity_of(process, string(record, "device"));
  std::string out = size(count_of(record, "peak"));
  if (capacity > 0) out += " of " + size(capacity);
  const char* before = ": ";
  for (const auto& [name, bytes] : parts_of_peak(record)) {
    out += fmt::format("{}{} {}", before, name, size(bytes));
    before = ", ";
  }
  return out + fmt::format("; fragmentation {}", size(held_besides(record))) + at_words(process, record);
}

bool is_end(const Json& record) {
  return string(record, "record") == "out_of_memory";
}

}  // namespace

void MemoryUse::take(const Json& record) {
  if (string(record, "record") == "out_of_memory") {
    if (ends_.size() < kMostEnds) ends_.push_back(record);
    return;
  }
  const auto same = [&](const Json& each) { return string(each, "device") == string(record, "device"); };
  std::erase_if(devices_, same);
  if (devices_.size() < kMostDevices) devices_.push_back(record);
}

std::vector<std::pair<const char*, uint64_t>> parts_of_peak(const Json& memory) {
  constexpr std::pair<const char*, const char*> kNames[] = {{"weights", "weights"},         {"gradients", "gradients"},
                                                            {"optimizer", "optimizer"},     {"caches", "caches"},
                                                            {"activations", "activations"}, {"other", "other"}};
  std::vector<std::pair<const char*, uint64_t>> parts;
  for (const auto& [key, name] : kNames)
    if (const uint64_t bytes = count_of(memory, key); bytes > 0) parts.emplace_back(name, bytes);
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return parts;
}

std::string memory_words(const Json& process, const Json& record) {
  return is_end(record) ? out_of_memory_words(process, record) : peak_words(process, record);
}

uint64_t capacity_of(const Json& process, std::string_view device) {
  for (const Json& each : array(process, "devices"))
    if (const auto index = integer(each, "index"); index && fmt::format("cuda:{}", *index) == device)
      return count_of(each, "memory");
  return 0;
}

std::string memory_text(const Json& process, const MemoryUse& memory) {
  if (memory.empty()) return {};
  std::string out = "Memory of devices at the most:\n";
  for (const std::vector<Json>* all : {&memory.devices(), &memory.ends()})
    for (const Json& each : *all)
      out +=
          fmt::format("  {:<8}  {}\n", printable(shortened(string(each, "device"), 20)), memory_words(process, each));
  return out;
}

std::string memory_markdown(const Json& process, const MemoryUse& memory) {
  if (memory.empty()) return {};
  std::string out = "### Memory of devices at the most\n\n| device | |\n|---|---|\n";
  for (const std::vector<Json>* all : {&memory.devices(), &memory.ends()})
    for (const Json& each : *all)
      out += fmt::format("| {} | {} |\n", markdown_cell(markdown_code(shortened(string(each, "device"), 20))),
                         markdown_cell(memory_words(process, each)));
  return out;
}

}  // namespace devtrace::report
