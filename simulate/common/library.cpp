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

bool launch(const char* name, const void* handle, std::initializer_list<const void*> memory, size_t written) {
  const Object& of = *object(handle);
  return devtrace_sim_library_work(name, of.context, of.stream, memory.begin(), memory.size(), written) != CUDA_SUCCESS;
}

void succeed(int* info, long long count) {
  if (info && count > 0) std::memset(info, 0, static_cast<size_t>(count) * sizeof *info);
}

}  // namespace devtrace::simulate::library
