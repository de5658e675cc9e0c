// What a kernel's PTX does with its parameters, statement by statement.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "binary/device/image.h"

namespace devtrace::device {

// A number in PTX, clamped: what is larger is nonsense.
constexpr size_t kMostNumber = size_t{1} << 30;
size_t ptx_number(std::string_view word);

class PtxBody {
 public:
  using Names = std::unordered_map<std::string, Parameter>;
  PtxBody(const Names& names, KernelFacts* facts) : names_(names), facts_(facts) {}
  // The words of one statement, without its semicolon.
  void statement(const std::vector<std::string_view>& words);

 private:
  // Virtual registers mostly are written once; of one that is written with two things nothing is known.
  struct Origin {
    size_t offset = 0;
    bool either = false;
  };
  using Origins = std::unordered_map<std::string, Origin>;
  void read_parameters(const std::vector<std::string_view>& words, size_t from);
  void follow(const std::vector<std::string_view>& words, size_t from, bool guarded);
  const Origin* origin(std::string_view name) const;
  void set(std::string_view name, const Origin* origin);

  const Names& names_;
  KernelFacts* facts_;
  Origins origins_;
};

}  // namespace devtrace::device
