#include "simulate/common/library.h"

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <unordered_set>
#include <utility>

namespace devtrace::simulate::library {
namespace {

struct Live {
  std::mutex mutex;
  std::unordered_set<const void*> objects;
};
Live& live() {
  static auto* l = new Live;
  return *l;
}

std::vector<const void*> all_of(const Memory& memory) {
  std::vector<const void*> all = memory.read;
  for (const auto* part : {&memory.leading_on, &memory.written}) all.insert(all.end(), part->begin(), part->end());
  return all;
}

bool work(const char* name, CUcontext context, CUstream stream, const Memory& memory) {
  const std::vector<const void*> all = all_of(memory);
  return devtrace_sim_library_work(name, context, stream, all.data(), all.size(), memory.leading_on.size(),
                                   memory.written.size()) != CUDA_SUCCESS;
}

// Ends a calculation that cannot go on.
struct GivenUp {};

void compute(void* data) {
  try {
    (*static_cast<std::function<void()>*>(data))();
  } catch (const GivenUp&) {
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "devtrace: a function of a library is not computed: the host has no memory left for it\n");
  }
}

}  // namespace

Object* make() {
  CUcontext context = nullptr;
  if (cuInit(0) || cuCtxGetCurrent(&context)) return nullptr;
  if (!context && (cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))) return nullptr;
  auto* made = new Object;
  made->context = context;
  std::lock_guard lock(live().mutex);
  live().objects.insert(made);
  return made;
}

bool alive(const void* handle) {
  std::lock_guard lock(live().mutex);
  return live().objects.count(handle) == 1;
}

bool destroy(const void* handle) {
  {
    std::lock_guard lock(live().mutex);
    if (live().objects.erase(handle) == 0) return false;
  }
  delete object(handle);
  return true;
}

void Object::describe(std::initializer_list<const void*> memory) {
  size_t count = 0;
  for (void*& each : pointers) each = count < memory.size() ? const_cast<void*>(memory.begin()[count++]) : nullptr;
}

void Memory::describe(const void* descriptor) {
  if (!alive(descriptor)) return;
  for (const void* each : object(descriptor)->pointers)
    if (each) written.push_back(each);
}

bool launch(const char* name, const void* handle, const Memory& memory) {
  return work(name, object(handle)->context, object(handle)->stream, memory);
}

bool launch_in_current(const char* name, const void* handle, const Memory& memory) {
  return work(name, nullptr, object(handle)->stream, memory);
}

bool calculate(const char* name, CUcontext context, CUstream stream, const Memory& memory, std::function<void()> work) {
  const std::vector<const void*> all = all_of(memory);
  const auto drop = [](void* data) { delete static_cast<std::function<void()>*>(data); };
  return devtrace_sim_library_calculate(name, context, stream, all.data(), all.size(), memory.leading_on.size(),
                                        memory.written.size(), compute, drop,
                                        new std::function<void()>(std::move(work))) != CUDA_SUCCESS;
}

bool calculate(const char* name, const void* handle, const Memory& memory, std::function<void()> work) {
  return calculate(name, object(handle)->context, object(handle)->stream, memory, std::move(work));
}

bool calculate_in_current(const char* name, const void* handle, const Memory& memory, std::function<void()> work) {
  return calculate(name, nullptr, object(handle)->stream, memory, std::move(work));
}

// The context stays, as with a library that uses the runtime: memory that was allocated in it would end with it.
bool on_device(int device, const std::function<bool()>& work) {
  static std::mutex mutex;
  static auto* const kept = new std::map<int, CUcontext>;
  CUcontext context, popped;
  {
    std::lock_guard lock(mutex);
    CUcontext& known = (*kept)[device];
    if (!known && cuDevicePrimaryCtxRetain(&known, device)) return false;
    context = known;
  }
  if (cuCtxPushCurrent(context)) return false;
  const bool done = work();
  cuCtxPopCurrent(&popped);
  return done;
}

bool calculate_on(const std::vector<int>& devices, const char* name, const std::function<void()>& work) {
  if (!calculates()) return false;
  for (const int device : devices) {
    const auto finish = [&] { return !calculate(name, nullptr, nullptr, {}, [] {}) && !cuCtxSynchronize(); };
    if (!on_device(device, finish)) return true;
  }
  work();
  return false;
}

bool calculates() {
  return devtrace_sim_library_calculates();
}

void give_up() {
  throw GivenUp();
}

void reads(const void* memory, size_t bytes) {
  if (!devtrace_sim_library_reach(memory, bytes, false)) give_up();
}

void writes(const void* memory, size_t bytes) {
  if (!devtrace_sim_library_reach(memory, bytes, true)) give_up();
}

bool wait(const void* handle) {
  CUcontext const context = object(handle)->context;
  CUstream const stream = object(handle)->stream;
  if (context && cuCtxPushCurrent(context)) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const bool done = (stream && cuStreamIsCapturing(stream, &status)) || status != CU_STREAM_CAPTURE_STATUS_NONE ||
                    !cuStreamSynchronize(stream);
  CUcontext popped;
  if (context) cuCtxPopCurrent(&popped);
  return done;
}

void succeed(int* info, long long count) {
  if (info && count > 0) std::memset(info, 0, static_cast<size_t>(count) * sizeof *info);
}

}  // namespace devtrace::simulate::library
