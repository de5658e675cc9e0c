// Kernels whose text was changed and torn: an error comes of it, a fault, or what they compute; never harm.
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "tests/unit/simulate/kernels/kernel.h"

namespace {

using namespace devtrace::simulate::kernels;
using namespace devtrace::simulate::kernels::test;

// What of it can be read is run; each kernel has a quarter of a second. How many were.
int run_all(const std::string& text) {
  std::string error;
  const auto program = load(text, &error);
  int count = 0;
  if (!program) return count;
  for (uint32_t i = 0; i < program->codes.size(); ++i) {
    const devtrace::ptx::Function& f = program->module.functions[i];
    if (!f.entry || !f.defined) continue;
    Blocks memory;
    std::vector<uint64_t> words(512);
    const uint64_t address = memory.add(words);
    Launch launch;
    launch.block[0] = 33;
    launch.grid[0] = 2;
    launch.dynamic_shared = 256;
    launch.seconds = 0.25;
    size_t bytes = 0;
    for (const auto& parameter : f.parameters) bytes += parameter.bytes + 128;
    if (bytes > 65536) continue;
    const std::vector<uint64_t> addresses(bytes / 8 + 1, address);
    launch.parameters.resize(bytes);
    std::memcpy(launch.parameters.data(), addresses.data(), bytes);
    launch.variables.assign(program->module.variables.size(), address);
    set_cluster(*program, i, &launch);
    run(*program, i, launch, memory);
    ++count;
  }
  return count;
}

// The seed is fixed: the same texts each time.
TEST(KernelText, ChangedAndTornOnesNeverHarm) {
  for (const char* name : {"sums", "matrices"}) {
    std::ifstream file(std::string("tests/fuzz/ptx/") + name + ".ptx");
    const std::string whole{std::istreambuf_iterator<char>(file), {}};
    ASSERT_FALSE(whole.empty()) << name;
    std::vector<size_t> words;
    for (size_t at = 0; at < whole.size(); ++at)
      if (whole[at] == '%' || whole[at] == '.' || whole[at] == ' ') words.push_back(at);
    std::mt19937 random(1);
    int ran = 0;
    for (size_t end = 0; end < whole.size(); end += 7) run_all(whole.substr(0, end) + "\nret; }\n");
    for (int round = 0; round < 10000; ++round) {
      std::string text = whole;
      for (int i = random() % 3; i >= 0; --i) {
        const size_t at = words[random() % words.size()], from = words[random() % words.size()];
        const size_t length = text.find_first_of(" ,;", from + 1) - from;
        switch (random() % 4) {
          case 0:  // another number
            text.replace(std::min(at, text.size() - 1), 1, std::to_string(random()));
            break;
          case 1:  // another word of the same text
            text.replace(std::min(at, text.size() - 1), length, whole.substr(from, length));
            break;
          case 2:
            text.erase(std::min(at, text.size() - 1), random() % 20);
            break;
          default:
            text.insert(std::min(at, text.size()), whole.substr(from, random() % 40));
        }
      }
      ran += run_all(text);
    }
    EXPECT_GT(ran, 1000) << name;
  }
}

}  // namespace
