#include "simulate/common/library.h"

#include <cstring>
#include <mutex>
#include <unordered_set>

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

bool work(const char* name, CUcontext context, CUstream stream, const Memory& memory) {
  std::vector<const void*> all = memory.read;
  for (const auto* part : {&memory.leading_on, &memory.written}) all.insert(all.end(), part->begin(), part->end());
  return devtrace_sim_library_work(name, context, stream, all.data(), all.size(), memory.leading_on.size(),
                                   memory.written.size()) != CUDA_SUCCESS;
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

bool launch(const char* name, const void* handle) {
  return devtrace_sim_library_launch(name, object(handle)->stream) != CUDA_SUCCESS;
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

void succeed(int* info, long long count) {
  if (info && count > 0) std::memset(info, 0, static_cast<size_t>(count) * sizeof *info);
}

}  // namespace devtrace::simulate::library
