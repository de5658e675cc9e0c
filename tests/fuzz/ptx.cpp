// PTX as a program may hand it to the driver: torn, or made to do harm. What can be read is decoded and run.
#include <cstring>
#include <string>
#include <vector>

#include "simulate/kernels/launch.h"

namespace {

using namespace devtrace::simulate::kernels;

class OneBlock : public Memory {
 public:
  Found find(uintptr_t address, size_t, bool, Extent* extent) override {
    if (address - begin() >= sizeof bytes_) return Found::no;
    *extent = {begin(), sizeof bytes_};
    return Found::yes;
  }
  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(bytes_); }

 private:
  alignas(64) uint8_t bytes_[4096] = {};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string error;
  const auto program = load(std::string(reinterpret_cast<const char*>(data), size), &error);
  if (!program) return 0;
  constexpr size_t kMost = 4;  // kernels, of which each has a quarter of a second
  size_t kernels = 0;
  for (size_t i = 0; i < program->codes.size() && kernels < kMost; ++i) {
    const devtrace::ptx::Function& f = program->module.functions[i];
    if (!f.entry || !f.defined) continue;
    OneBlock memory;
    Launch launch;
    launch.block[0] = 33;
    launch.grid[0] = 2;
    launch.dynamic_shared = 256;
    launch.seconds = 0.25;
    launch.hazards = kernels % 2;
    size_t bytes = 0;
    for (const auto& parameter : f.parameters) bytes += parameter.bytes + 16;
    if (bytes > 65536) continue;
    launch.parameters.resize(bytes);
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
      const uint64_t address = memory.begin();
      std::memcpy(launch.parameters.data() + at, &address, 8);
    }
    launch.variables.assign(program->module.variables.size(), memory.begin());
    set_cluster(*program, static_cast<uint32_t>(i), &launch);
    run(*program, static_cast<uint32_t>(i), launch, memory);
    ++kernels;
  }
  return 0;
}
