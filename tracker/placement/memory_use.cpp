#include "tracker/placement/memory_use.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

#include "finding/json.h"
#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/evidence/origins/stacks.h"
#include "tracker/interface/device.h"
#include "tracker/log/log.h"
#include "tracker/memory/live_memory.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::placement {
namespace {

using report::Json;

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
  add_stack(record, stacks::capture(), evidence::source_from_disk());
  log::write(record);
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
    Json record{{"record", "memory"},
                {"device", Device::cuda(index).name()},
                {"peak", peak.tensors},
                {"reserved", peak.reserved},
                {"time", static_cast<double>(peak.time) * 1e-9}};
    add_stack(record, peak.stack, source);
    log::write(record);
  }
}

}  // namespace devtrace::placement
