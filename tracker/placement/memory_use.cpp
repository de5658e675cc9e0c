#include "tracker/placement/memory_use.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "finding/json.h"
#include "report/html/html.h"
#include "report/placement/memory_use.h"
#include "tracker/base/message.h"
#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/evidence/autograd.h"
#include "tracker/evidence/objects/torch_objects.h"
#include "tracker/evidence/origins/stacks.h"
#include "tracker/interface/device.h"
#include "tracker/interface/platform.h"
#include "tracker/log/log.h"
#include "tracker/memory/live_memory.h"
#include "tracker/placement/module_at_work.h"
#include "tracker/python/gil/borrowed_gil.h"
#include "tracker/python/live_frames.h"
#include "tracker/python/python_api.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::placement {
namespace {

using report::Json;

constexpr size_t kMostFrames = 128;
constexpr int kMostOutOfMemory = 16;  // records: programs look for their batch's size by trying

void add_stack(Json& record, stacks::StackId stack, const evidence::SourceText& source) {
  if (stack == 0 || stacks::is_native(stack)) return;
  record["python"] = finding::to_json(evidence::python_stack(stacks::resolve(stack), source));
}

// "15.77 GiB", "512 bytes" right behind `words`.
std::optional<uint64_t> bytes_behind(std::string_view text, std::string_view words) {
  const size_t at = text.find(words);
  if (at == text.npos) return std::nullopt;
  text.remove_prefix(at + words.size());
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  double unit = 1;
  if (text.starts_with(" KiB")) unit = 1 << 10;
  if (text.starts_with(" MiB")) unit = 1 << 20;
  if (text.starts_with(" GiB")) unit = 1 << 30;
  return static_cast<uint64_t>(number * unit);
}

// The text before the free bytes names the device and its capacity: "… GPU 1 has a total capacity of 16.00 GiB of which
// 3.5 GiB is free."
std::optional<uint64_t> free_bytes(std::string_view message) {
  const size_t total = message.find(" has a total capac");
  return total == message.npos ? std::nullopt : bytes_behind(message.substr(total), " of which ");
}

void write_both(const Json& record) {
  log::write(record);
  if (log::has_html()) log::write_html(report::html_memory(log::process(), record));
}

// Who rehearses asks where a model fits; small programs are spared, but where the memory was not enough.
constexpr uint64_t kWorthALine = 1u << 30;  // bytes in tensors
constinit std::atomic<bool> was_full{false};

void say_in_short(const Json& record, uint64_t peak) {
  if (!platform().simulated() || !options().text || (peak < kWorthALine && !was_full.load())) return;
  warn("memory of " + std::string(report::string(record, "device")) + ": " +
       report::memory_words(log::process(), record));
}

// Under the GIL, where it can be had: the stack, of a backward pass the one that asked for it; and the module.
bool add_place(Json& record) {
  const python::Api* const api = python::api();
  if (!api) return false;
  const python::FrameSource own = python::FrameSource::of_this_thread();
  bool placed = false;
  python::with_gil(*api, [&] {
    try {
      const python::Gil gil(*api);
      const evidence::Torch torch(*api);
      const evidence::SourceReader sources(*api);
      std::vector<evidence::Frame> frames = evidence::frames(*api, own, kMostFrames, sources);
      if (frames.empty())
        if (const auto waiting = evidence::waiting_for_autograd(*api))
          frames = evidence::frames(*api, *waiting, kMostFrames, sources);
      if (frames.empty()) return;
      record["python"] = finding::to_json(evidence::python_stack(frames));
      placed = true;
      if (!torch.imported()) return;
      if (const auto module = module_at_work(*api, torch, frames)) {
        Json& told = record["module"] = {{"class", module->name}};
        if (!module->path.empty()) told.update({{"path", module->path}, {"root", module->root}});
      }
    } catch (...) {  // of the host's memory
    }
  });
  return placed;
}

void write_out_of_memory(std::string_view message) {
  const std::optional<uint64_t> asked = bytes_behind(message, "Tried to allocate ");
  const std::optional<uint64_t> device = bytes_behind(message, "GPU ");
  if (!asked || !device) return;
  static std::atomic<int> written{0};
  if (written.fetch_add(1, std::memory_order_relaxed) >= kMostOutOfMemory) return;
  Json record{{"record", "out_of_memory"},
              {"device", "cuda:" + std::to_string(*device)},
              {"time", process_start::now()},
              {"asked", *asked}};
  if (const auto free = free_bytes(message)) {
    record["free"] = *free;
    record["missing"] = *asked - std::min(*asked, *free);
  }
  if (!add_place(record)) add_stack(record, stacks::capture(), evidence::source_from_disk());
  write_both(record);
  was_full.store(true);
  say_in_short(record, 0);
}

// Of what the peak consisted, as far as a look at the program has shown.
void add_uses(Json& record, const memory::live_memory::Peak& peak) {
  using memory::live_memory::Use;
  constexpr std::pair<const char*, Use> kNames[] = {{"weights", Use::weights},
                                                    {"gradients", Use::gradients},
                                                    {"optimizer", Use::optimizer},
                                                    {"caches", Use::cache},
                                                    {"activations", Use::activations}};
  uint64_t known = 0;
  for (const auto& [name, use] : kNames) {
    const uint64_t bytes = std::min(peak.uses[static_cast<size_t>(use)], peak.tensors - known);
    record[name] = bytes;
    known += bytes;
  }
  record["other"] = peak.tensors - known;
}

// Column by column: [[time, …], …] would be twice as long.
void add_course(Json& record, Device device) {
  Json times = Json::array(), tensors = Json::array(), reserved = Json::array();
  for (const memory::live_memory::Point& each : memory::live_memory::course_of(device)) {
    times.push_back(static_cast<double>(each.time) * 1e-9);
    tensors.push_back(each.tensors);
    reserved.push_back(each.reserved);
  }
  record["course"] = {{"time", std::move(times)}, {"tensors", std::move(tensors)}, {"reserved", std::move(reserved)}};
}

}  // namespace

void note_out_of_memory(std::string_view message) noexcept {
  if (!message.starts_with("CUDA out of memory. ") || !log::is_open() || !options().placement) return;
  try {
    write_out_of_memory(message);
  } catch (...) {  // of the host's memory
  }
}

void write_memory() {
  if (!log::is_open() || !options().placement) return;
  const evidence::SourceText source = evidence::source_from_disk();
  for (int index = 0; index < LiveMemory::kDevices; ++index) {
    const memory::live_memory::Peak peak = memory::live_memory::peak_of(Device::cuda(index));
    if (peak.tensors == 0) continue;
    Json record{{"record", "memory"}, {"device", Device::cuda(index).name()}};
    record["peak"] = peak.tensors;
    record["reserved"] = peak.reserved;
    record["time"] = static_cast<double>(peak.time) * 1e-9;
    add_uses(record, peak);
    add_stack(record, peak.stack, source);
    add_course(record, Device::cuda(index));
    write_both(record);
    say_in_short(record, peak.tensors);
  }
}

}  // namespace devtrace::placement
