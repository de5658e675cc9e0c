#include "tracker/launch_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/core/demangle.hpp>

#include "tracker/options.h"
#include "tracker/record_parts.h"

namespace devtrace {
namespace {

using namespace record_parts;
using Pointer = MisplacedLaunch::Pointer;

// `void at::native::vectorized_elementwise_kernel<4, …>(int, …)` → at::native::vectorized_elementwise_kernel
std::string short_name(std::string_view demangled) {
  size_t depth = 0;
  size_t end = demangled.size();
  for (size_t i = 0; i < demangled.size(); ++i) {
    if (demangled[i] == '<' || demangled[i] == '(') {
      // "(anonymous namespace)::" belongs to the name.
      if (depth == 0 && demangled.substr(i).starts_with("(anonymous namespace)")) {
        i += std::string_view("(anonymous namespace)").size() - 1;
        continue;
      }
      if (depth++ == 0) end = std::min(end, i);
    } else if (demangled[i] == '>' || demangled[i] == ')') {
      --depth;
    } else if (demangled[i] == ' ' && depth == 0 && end == demangled.size()) {
      demangled.remove_prefix(i + 1);  // the type that a template's function returns
      return short_name(demangled);
    }
  }
  return std::string(demangled.substr(0, end));
}

// One operand for each memory block: what is known of it is where it came from.
Json operands(const MisplacedLaunch& misplaced, const SourceLine& source) {
  Json list = Json::array();
  for (const Pointer& pointer : misplaced.pointers) {
    Json operand{{"role", "parameter"}, {"device", pointer.device.name()}};
    operand["parameter"] = pointer.parameter;
    operand["address"] = fmt::format("{:#x}", pointer.address);
    if (pointer.device != misplaced.device) operand["odd"] = true;
    add_provenance(operand, pointer.address, "", source);
    list.push_back(std::move(operand));
  }
  return list;
}

}  // namespace

report::Json launch_record(const MisplacedLaunch& misplaced) {
  const auto& pointers = misplaced.pointers;
  const Device first = pointers.front().device;
  // Nothing of the launch lies where it runs, and all of it in one other place: the place it runs is the mistake.
  const bool all_there =
      std::all_of(pointers.begin(), pointers.end(), [&](const Pointer& p) { return p.device == first; });
  const bool host = std::any_of(pointers.begin(), pointers.end(), [](const Pointer& p) { return p.device.is_cpu(); });
  Json record = begin(host ? "host-access" : all_there ? "wrong-current-device" : "remote-access");
  const std::string kernel = boost::core::demangle(misplaced.launch.kernel->name.c_str());
  const Native native = native_stack();
  const auto odd = std::find_if(pointers.begin(), pointers.end(), [&](const Pointer& p) {
    return host ? p.device.is_cpu() : p.device != misplaced.device;
  });
  record["message"] = host        ? fmt::format("{} runs on {} and was given memory of the host, which it cannot reach",
                                                short_name(kernel), misplaced.device.name())
                      : all_there ? fmt::format("{} runs on {}, and all its memory is on {}", short_name(kernel),
                                                misplaced.device.name(), first.name())
                                  : fmt::format("{} runs on {} and was given memory of {}", short_name(kernel),
                                                misplaced.device.name(), odd->device.name());
  record["operation"] = native.operation.empty() ? short_name(kernel) : "aten::" + native.operation;
  record["argument"] = fmt::format("parameter {}", odd->parameter);
  record["current_device"] = misplaced.device.name();
  Json devices = Json::array();
  add_device(devices, misplaced.device.name());
  for (const Pointer& pointer : pointers) add_device(devices, pointer.device.name());
  record["devices"] = std::move(devices);
  const SourceLine source = source_from_disk();
  record["operands"] = operands(misplaced, source);
  record["python"] = python_json(stacks::resolve(stacks::capture_python()), "", source);
  if (options().native) record["native"] = native_json(native.frames);
  const auto& grid = misplaced.launch.grid;
  const auto& block = misplaced.launch.block_shape;
  record["launch"] = {{"kernel", kernel},
                      {"grid", {grid[0], grid[1], grid[2]}},
                      {"block", {block[0], block[1], block[2]}},
                      {"stream", fmt::format("{:#x}", reinterpret_cast<uintptr_t>(misplaced.launch.stream))},
                      {"parameter", odd->parameter},
                      {"offset", odd->in_parameter}};
  return record;
}

}  // namespace devtrace
