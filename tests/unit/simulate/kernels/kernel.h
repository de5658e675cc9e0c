// Runs a few lines of PTX for many threads, and gives what each has stored.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "simulate/kernels/launch.h"

namespace devtrace::simulate::kernels::test {

// Memory of which the test says what a kernel may use.
class Blocks : public Memory {
 public:
  Found find(uintptr_t address, size_t, bool, Extent* extent) override {
    for (const Extent& one : blocks_)
      if (address - one.begin < one.size) return *extent = one, Found::yes;
    return Found::no;
  }
  uintptr_t allocate(size_t size) override {
    given_.push_back(std::make_unique<std::vector<uint8_t>>(size));
    return add(*given_.back());
  }
  void release(uintptr_t) override { ++released; }
  int released = 0;
  template <class T>
  uint64_t add(std::vector<T>& data) {
    blocks_.push_back({reinterpret_cast<uintptr_t>(data.data()), data.size() * sizeof(T)});
    return blocks_.back().begin;
  }

 private:
  std::vector<std::unique_ptr<std::vector<uint8_t>>> given_;
  std::vector<Extent> blocks_;
};

// Registers of every sort: %h 16 bits, %r 32, %rd 64, %f, %fd, %p.
inline std::string entry(const std::string& body, const std::string& before = "") {
  return ".version 8.3\n.target sm_90\n.address_size 64\n" + before +
         "\n.visible .entry kernel(.param .u64 in, .param .u64 out, .param .u64 other) {\n"
         ".reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<10>; .reg .f64 "
         "%fd<10>;\n" +
         body + "\n}\n";
}

struct Ran {
  Result result;
  uint64_t parameters[3] = {};
};

// The kernel with three addresses, in a grid of one block unless told otherwise.
inline Result launch(const std::string& ptx, Blocks& memory, const std::vector<uint64_t>& addresses, uint32_t threads,
                     uint32_t blocks = 1, size_t shared = 0, unsigned workers = 1, double seconds = 60,
                     uint64_t workspace = 0) {
  std::string error;
  const auto program = load(ptx, &error);
  EXPECT_TRUE(program) << error;
  if (!program) return {};
  Launch l;
  l.block[0] = threads;
  l.grid[0] = blocks;
  l.dynamic_shared = shared;
  l.threads = workers;
  l.seconds = seconds;
  l.workspace = workspace;
  l.parameters.resize(24);
  std::memcpy(l.parameters.data(), addresses.data(), std::min<size_t>(24, 8 * addresses.size()));
  std::vector<std::vector<uint8_t>> variables;
  for (const ptx::Variable& v : program->module.variables) {
    variables.emplace_back(v.initial).resize(v.bytes + 16);
    memory.add(variables.back());
  }
  for (auto& v : variables) l.variables.push_back(reinterpret_cast<uint64_t>(v.data()));
  set_cluster(*program, program->functions.at("kernel"), &l);
  return run(*program, program->functions.at("kernel"), l, memory);
}

// Each thread has elements `per` of `in` in %rd1's memory and stores `results` elements to %rd2's: both point to its
// own; %r0 is its number.
template <class Out, class In>
std::vector<Out> each(const std::string& body, std::vector<In> in, size_t per, size_t results = 1,
                      const std::string& before = "") {
  const auto threads = static_cast<uint32_t>(in.size() / per);
  std::vector<Out> out(threads * results);
  Blocks memory;
  const std::string head =
      "mov.u32 %r0, %tid.x;\nld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\n"
      "mad.wide.u32 %rd1, %r0, " +
      std::to_string(per * sizeof(In)) +
      ", %rd1;\n"
      "mad.wide.u32 %rd2, %r0, " +
      std::to_string(results * sizeof(Out)) + ", %rd2;\n";
  const Result r = launch(entry(head + body + "\nret;", before), memory, {memory.add(in), memory.add(out)}, threads);
  EXPECT_EQ(r.kind, FaultKind::none) << r.text << " " << r.instruction << "\n" << body;
  return out;
}

}  // namespace devtrace::simulate::kernels::test
