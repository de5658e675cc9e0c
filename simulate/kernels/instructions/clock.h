// %clock, %clock64 and %globaltimer.
#pragma once

#include <algorithm>
#include <chrono>

#include "simulate/kernels/code.h"
#include "simulate/kernels/machine.h"

namespace devtrace::simulate::kernels {

// Nanoseconds: a device with 1 GHz.
template <class T>
void read_clock(Machine& m, const Step& s) {
  using namespace std::chrono;
  const bool global = static_cast<Special>(s.mode) == Special::globaltimer;
  const auto now = global ? system_clock::now().time_since_epoch() : steady_clock::now().time_since_epoch();
  const auto value = static_cast<T>(duration_cast<nanoseconds>(now).count());
  T* const d = m.at<T>(s.d);
  m.ticks += 256;  // who reads it in a loop waits
  for (const Run run : *m.lanes) std::fill(d + run.begin, d + run.end, value);
}

}  // namespace devtrace::simulate::kernels
