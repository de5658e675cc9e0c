// The device's runtime: what kernels call to launch kernels, to copy, and to have memory (libcudadevrt).
#include <cstring>
#include <string_view>

#include "simulate/kernels/block.h"
#include "simulate/kernels/instructions/reach.h"

namespace devtrace::simulate::kernels {
namespace {

// cudaError_t
constexpr uint64_t kSuccess = 0, kInvalidValue = 1, kNoMemory = 2, kTooManyLaunches = 69, kInvalidFunction = 98;
constexpr uint64_t kTailLaunch = 3;   // cudaStreamTailLaunch
constexpr uint64_t kHandle = 0x1000;  // of a stream or event: none of them is looked at

struct Row {
  std::string_view name;
  Builtin builtin;
};
// Without what stands in front of them (__cudaCDP2, cuda) and behind them (_ptsz).
constexpr Row kRuntime[] = {{"GetParameterBuffer", Builtin::buffer},
                            {"GetParameterBufferV2", Builtin::buffer_of},
                            {"LaunchDevice", Builtin::launch},
                            {"LaunchDeviceV2", Builtin::launch_of},
                            {"MemcpyAsync", Builtin::copy},
                            {"MemsetAsync", Builtin::set},
                            {"Malloc", Builtin::allocate},
                            {"Free", Builtin::release},
                            {"GetDevice", Builtin::device},
                            {"DeviceGetAttribute", Builtin::attribute},
                            {"GraphSetConditional", Builtin::condition},
                            {"StreamCreateWithFlags", Builtin::make},
                            {"EventCreateWithFlags", Builtin::make},
                            {"StreamDestroy", Builtin::success},
                            {"StreamWaitEvent", Builtin::success},
                            {"EventRecord", Builtin::success},
                            {"EventRecordWithFlags", Builtin::success},
                            {"EventDestroy", Builtin::success},
                            {"GetLastError", Builtin::success},
                            {"PeekAtLastError", Builtin::success}};
constexpr Row kOthers[] = {{"vprintf", Builtin::vprintf},
                           {"malloc", Builtin::malloc},
                           {"free", Builtin::free},
                           {"__assertfail", Builtin::assertfail},
                           {"__assert_fail", Builtin::assertfail}};

// Without what stands in front of those of the runtime; empty: it is none of them.
std::string_view bare(std::string_view name) {
  for (const std::string_view prefix : {"__cudaCDP2", "cuda"})
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return {};
}

}  // namespace

Builtin builtin_called(std::string_view name) {
  for (const Row& row : kOthers)
    if (row.name == name) return row.builtin;
  name = bare(name);
  if (name.ends_with("_ptsz")) name.remove_suffix(5);
  for (const Row& row : kRuntime)
    if (row.name == name) return row.builtin;
  return Builtin::none;
}

bool is_of_the_runtime(std::string_view name) {
  return !bare(name).empty();
}

// Of the kernel's parameters; 0 with no *function: the address is no kernel's.
size_t Block::parameter_bytes(uint64_t kernel, uint32_t* function) const {
  const uint64_t index = (kernel - kFunctionAddress) / 16;
  if (kernel < kFunctionAddress || index >= program_.codes.size()) return 0;
  const Code& code = program_.codes[index];
  if (!code.function || !code.function->entry) return 0;
  *function = static_cast<uint32_t>(index);
  const std::vector<ptx::Variable>& formal = code.function->parameters;
  return formal.empty() ? 0 : code.offsets.back() + formal.back().bytes;
}

bool Block::give(uint64_t to, uint64_t value, size_t bytes, uint32_t lane) {
  Extent block;
  uint8_t* const at = find_memory(m_, lane, to, bytes, true, &block);
  if (at) std::memcpy(at, &value, bytes);
  return at;
}

// What the function gives back.
uint64_t Block::runtime(const CallSite& site, const Frame& frame, uint32_t lane) {
  const auto number = [&](size_t i) { return argument(frame, site, i, lane); };
  const auto three = [&](size_t i, uint32_t(&to)[3]) {
    if (i < site.arguments.size() && site.arguments[i].bytes >= sizeof to)
      std::memcpy(to, place(frame, site.arguments[i], lane), sizeof to);
  };
  Child child;
  uint32_t function = UINT32_MAX;
  switch (site.builtin) {
    case Builtin::buffer:
      return children_.buffer(*m_.memory, child, number(1));
    case Builtin::buffer_of: {
      const size_t bytes = parameter_bytes(number(0), &function);
      if (function == UINT32_MAX) return 0;
      child.function = function;
      three(1, child.grid);
      three(2, child.block);
      child.dynamic_shared = static_cast<uint32_t>(number(3));
      return children_.buffer(*m_.memory, child, bytes);
    }
    case Builtin::launch:
      parameter_bytes(number(0), &function);
      if (function == UINT32_MAX) return kInvalidFunction;
      child.function = function;
      three(2, child.grid);
      three(3, child.block);
      child.dynamic_shared = static_cast<uint32_t>(number(4));
      child.at_the_end = number(5) == kTailLaunch;
      return children_.launch(*m_.memory, number(1), child) ? kSuccess : kTooManyLaunches;
    case Builtin::launch_of:
      return children_.launch(*m_.memory, number(0), number(1) == kTailLaunch) ? kSuccess : kTooManyLaunches;
    case Builtin::copy:
      child.does = Child::Does::copy;
      child.to = number(0);
      child.from = number(1);
      child.bytes = number(2);
      child.at_the_end = number(4) == kTailLaunch;
      children_.add(child);
      return kSuccess;
    case Builtin::set:
      child.does = Child::Does::set;
      child.to = number(0);
      child.value = static_cast<uint8_t>(number(1));
      child.bytes = number(2);
      child.at_the_end = number(3) == kTailLaunch;
      children_.add(child);
      return kSuccess;
    case Builtin::allocate: {
      const uint64_t address = m_.memory->allocate(number(1));
      return give(number(0), address, 8, lane) && address ? kSuccess : kNoMemory;
    }
    case Builtin::release:
      m_.memory->release(number(0));
      return kSuccess;
    case Builtin::device:
      return give(number(0), static_cast<uint64_t>(m_.memory->device()), 4, lane) ? kSuccess : kInvalidValue;
    case Builtin::attribute: {
      int value = 0;
      return m_.memory->attribute(static_cast<int>(number(1)), static_cast<int>(number(2)), &value) &&
                     give(number(0), static_cast<uint32_t>(value), 4, lane)
                 ? kSuccess
                 : kInvalidValue;
    }
    case Builtin::condition:
      m_.memory->set_condition(number(0), static_cast<uint32_t>(number(1)));
      return kSuccess;
    case Builtin::make:
      return give(number(0), kHandle, 8, lane) ? kSuccess : kInvalidValue;
    default:
      return kSuccess;
  }
}

}  // namespace devtrace::simulate::kernels
