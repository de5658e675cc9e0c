// Which findings of a very long log are shown, so that its page opens and its text can be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>

namespace devtrace::report {

// So many different ones at most.
constexpr size_t kMostShown = 1000;

// The first ones, and of the later ones those whose fingerprint is not shown yet, as long as there is room.
class FirstFindings {
 public:
  bool shows(std::string_view fingerprint) const {
    return shown_ < kMostShown || (fingerprints_.size() < kMostShown && !fingerprints_.contains(fingerprint));
  }
  void take(std::string_view fingerprint) {
    ++shown_;
    fingerprints_.emplace(fingerprint);
  }
  void leave_out(std::string_view fingerprint);
  // What is not shown, as a sentence; empty when all is.
  std::string left_out() const;

 private:
  std::set<std::string, std::less<>> fingerprints_;
  std::unordered_set<size_t> others_;  // hashes of fingerprints that are not shown
  uint64_t shown_ = 0, left_out_ = 0;
};

}  // namespace devtrace::report
