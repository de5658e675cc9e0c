#include "simulate/model/asynchronous/effect.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/device.h"
#include "simulate/model/memory/memory.h"
#include "simulate/values/asynchronous.h"

namespace devtrace::simulate::asynchronous {
namespace {

// An operator whose real kernel runs.
struct Running {
  bool keeps_host = false;
  std::shared_ptr<Effect> effect;
  std::vector<CUstream> streams;
};
thread_local std::vector<Running> t_running;  // those that are made of others first

void use(Running& one, CUstream stream) {
  if (std::find(one.streams.begin(), one.streams.end(), stream) == one.streams.end()) one.streams.push_back(stream);
}

void begin(bool keeps_host) {
  t_running.push_back({keeps_host, std::make_shared<Effect>(), {}});
}

bool end(void (*compute)(void*), void (*drop)(void*), void* data) {
  const Running one = std::move(t_running.back());
  t_running.pop_back();
  if (!t_running.empty())
    for (CUstream stream : one.streams) use(t_running.back(), stream);
  if (fill(one.effect, compute, drop, data)) return true;
  for (CUstream stream : one.streams)
    if (handles<CUstream_st>().has(stream)) wait_for(stream);
  if (one.streams.empty()) wait_for_all();  // nobody knows which stream it would have used
  return false;
}

bool outlives_call(uintptr_t address) {
  Allocation a;
  return find_memory(address, &a);
}

void assertion(const char* text) {
  std::fprintf(stderr, "devtrace: device-side assertion: %.*s\n", static_cast<int>(std::strcspn(text, "\n")), text);
  if (CUcontext context = working_for()) context->sticky = CUDA_ERROR_ASSERT;
}

constexpr values::Asynchronous kFunctions = {begin, end, outlives_call, assertion};

}  // namespace

void operator_used(CUstream stream, bool own) {
  if (t_running.empty()) return;
  use(t_running.back(), stream);
  if (own) place(t_running.back().effect, stream);
}

bool operator_keeps_host() {
  return !t_running.empty() && t_running.back().keeps_host;
}

void offer_effects() {
  values::set_asynchronous(&kFunctions);
}

}  // namespace devtrace::simulate::asynchronous
