#include "simulate/values/large.h"

#include <cstdint>
#include <mutex>

#include "simulate/settings/wanted_values.h"

namespace devtrace::simulate::values {
namespace {

std::atomic<bool> g_followed{false}, g_compiled{false};
std::atomic<const std::string*> g_why{nullptr};  // set before large_bytes() changes

}  // namespace

std::atomic<size_t>& large_bytes() {
  static std::atomic<size_t> from{wanted_values().policy == ValuesPolicy::small ? wanted_values().large : SIZE_MAX};
  return from;
}

size_t large_from() {
  return large_bytes().load(std::memory_order_acquire);
}

void kernels_follow_unknown() {
  g_followed = true;
}

void code_is_compiled() {
  g_compiled = true;
}

bool leave_large_from_now(const std::string& what) {
  static std::mutex mutex;
  if (wanted_values().asked || !g_followed || g_compiled) return false;
  const std::lock_guard lock(mutex);
  if (large_from() != SIZE_MAX) return true;
  g_why = new std::string(what);
  large_bytes().store(wanted_values().large, std::memory_order_release);
  return true;
}

const std::string* why_large_is_left() {
  return g_why;
}

}  // namespace devtrace::simulate::values
