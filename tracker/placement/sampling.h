// When to take a sample that costs milliseconds: often while a program begins, rarely later, and never for more than a
// small part of its time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace devtrace::placement {

// One program's samples. Times in seconds since the program began.
class Sampling {
 public:
  static constexpr double kShare = 0.005;     // of the program's time
  static constexpr double kAllowance = 0.06;  // of a program that is short
  // A rehearsal is slow anyway.
  static constexpr double kRehearsalShare = 0.1, kRehearsalAllowance = 2;
  static constexpr double kLeastGap = 1;
  static constexpr double kMostGap = 60;

  explicit Sampling(double share = kShare, double allowance = kAllowance) : share_(share), allowance_(allowance) {}

  // `much`: far more has happened since than had before, so that a short program is not missed; else time decides.
  bool due(double now, bool much) {
    wanted_ = wanted_ || much || now - last_ >= std::clamp(now / 8, kLeastGap, kMostGap);
    return wanted_ && spent_ + cost_ <= std::max(now * share_, allowance_);
  }

  void took(double now, double cost) {
    last_ = now;
    cost_ = cost;
    spent_ += cost;
    wanted_ = false;
  }

 private:
  double share_, allowance_;
  double last_ = 0;
  double cost_ = 0;  // of the last sample: what the next one is taken to cost
  double spent_ = 0;
  bool wanted_ = false;  // one is owed, and the share was used up
};

}  // namespace devtrace::placement
