#include "simulate/cudart/registry.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "simulate/common/callbacks.h"
#include "simulate/cudart/api_declarations.h"

namespace devtrace::simulate::cudart {
namespace {

// Lives until nobody uses it: one thread may open its library while another takes it back.
struct Fatbin {
  const void* image = nullptr;
  std::vector<const void*> stubs, shadows;  // under the registry's lock
  std::mutex mutex;                         // of what follows
  CUlibrary library = nullptr;              // opened at the first use of one of its kernels
  bool gone = false;                        // the image may be read no more
};

struct Stub {
  std::shared_ptr<Fatbin> fatbin;
  const char* name = nullptr;
  CUkernel kernel = nullptr;
};

struct Variable {
  std::shared_ptr<Fatbin> fatbin;
  const char* name;
  size_t size;
  void** managed;                     // of a managed variable: where the program reads its address
  std::map<int, CUdeviceptr> places;  // by device
};

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<void**, std::shared_ptr<Fatbin>> fatbins;  // by handle
  std::unordered_map<const void*, Stub> stubs;
  std::unordered_map<const void*, Variable> variables;
};

// Libraries register in their constructors, before ours could run: so made at the first use, and never destroyed.
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

// With its lock held.
bool open(Fatbin& f) {
  if (f.gone || quiet_cuInit(0) != CUDA_SUCCESS) return false;
  return f.library || !cuLibraryLoadData(&f.library, f.image, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

CUkernel kernel_in(Fatbin& f, const char* name) {
  std::lock_guard lock(f.mutex);
  CUkernel kernel = nullptr;
  if (!open(f)) return nullptr;
  return cuLibraryGetKernel(&kernel, f.library, name) == CUDA_SUCCESS ? kernel : nullptr;
}

// The variable of the image, with the value that it begins with; where the image does not name it, zeros.
CUresult place(const Variable& v, CUdeviceptr* at) {
  size_t bytes;
  {
    std::lock_guard lock(v.fatbin->mutex);
    if (open(*v.fatbin) && cuLibraryGetGlobal(at, &bytes, v.fatbin->library, v.name) == CUDA_SUCCESS)
      if (bytes >= v.size) return CUDA_SUCCESS;
  }
  const CUresult made = v.managed ? cuMemAllocManaged(at, v.size, CU_MEM_ATTACH_GLOBAL) : cuMemAlloc(at, v.size);
  return made ? made : cuMemsetD8(*at, 0, v.size);
}

void add_variable(void** handle, const void* shadow, const char* name, size_t size, void** managed) {
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  auto it = r.fatbins.find(handle);
  if (it == r.fatbins.end()) return;
  r.variables[shadow] = {it->second, name, size, managed, {}};
  it->second->shadows.push_back(shadow);
}

}  // namespace

CUkernel kernel_of(const void* stub) {
  Registry& r = registry();
  Stub found;
  {
    std::shared_lock lock(r.mutex);
    auto it = r.stubs.find(stub);
    if (it == r.stubs.end()) return nullptr;
    if (it->second.kernel) return it->second.kernel;
    found = it->second;
  }
  CUkernel kernel = kernel_in(*found.fatbin, found.name);
  if (!kernel) return nullptr;
  std::unique_lock lock(r.mutex);
  auto it = r.stubs.find(stub);
  if (it == r.stubs.end() || it->second.fatbin != found.fatbin) return nullptr;  // taken back meanwhile
  it->second.kernel = kernel;
  return kernel;
}

const char* name_of(const void* handle) {
  {
    Registry& r = registry();
    std::shared_lock lock(r.mutex);
    if (auto it = r.stubs.find(handle); it != r.stubs.end()) return it->second.name;
  }
  return devtrace_sim_kernel_name(handle);
}

cudaError_t variable_of(const void* shadow, CUdeviceptr* address, size_t* size) {
  Registry& r = registry();
  if (CUresult e = ensure()) return static_cast<cudaError_t>(e);
  std::unique_lock lock(r.mutex);
  auto it = r.variables.find(shadow);
  if (it == r.variables.end()) return cudaErrorInvalidSymbol;
  Variable& v = it->second;
  CUdeviceptr& known = v.places[v.managed ? 0 : current_device()];
  if (!known) {
    CUdeviceptr at = 0;
    if (CUresult e = place(v, &at)) return static_cast<cudaError_t>(e);
    known = at;
    if (v.managed) *v.managed = reinterpret_cast<void*>(at);
  }
  if (address) *address = known;
  if (size) *size = v.size;
  return cudaSuccess;
}

}  // namespace devtrace::simulate::cudart

using namespace devtrace::simulate::cudart;

extern "C" {

struct FatbinWrapper {
  int magic, version;
  const void* data;
  void* more;
};

void** __cudaRegisterFatBinary(void* wrapper) {
  auto f = std::make_shared<Fatbin>();
  // Of images that are linked the wrapper knows more than its container.
  const auto& known = *static_cast<FatbinWrapper*>(wrapper);
  f->image = known.version == 2 ? wrapper : known.data;
  void** handle = reinterpret_cast<void**>(f.get());
  devtrace_sim_kernels_came();
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  r.fatbins[handle] = std::move(f);
  return handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  Registry& r = registry();
  std::shared_ptr<Fatbin> f;
  {
    std::unique_lock lock(r.mutex);
    auto it = r.fatbins.find(handle);
    if (it == r.fatbins.end()) return;
    f = std::move(it->second);
    r.fatbins.erase(it);
    for (const void* stub : f->stubs) r.stubs.erase(stub);
    for (const void* shadow : f->shadows) r.variables.erase(shadow);
  }
  // The image goes away with its library, so the open CUlibrary must not be read again; it is closed, and its kernels
  // are dead handles.
  std::lock_guard lock(f->mutex);
  f->gone = true;
  if (f->library) cuLibraryUnload(f->library);
  f->library = nullptr;
}

void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int, void*, void*, void*, void*,
                            int*) {
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  auto it = r.fatbins.find(handle);
  if (it == r.fatbins.end()) return;
  r.stubs[stub] = {it->second, name, nullptr};
  it->second->stubs.push_back(stub);
}

void __cudaRegisterVar(void** handle, char* shadow, char*, const char* name, int, size_t size, int, int) {
  add_variable(handle, shadow, name, size, nullptr);
}

void __cudaRegisterManagedVar(void** handle, void** shadow, char*, const char* name, int, size_t size, int, int) {
  add_variable(handle, shadow, name, size, shadow);
}

void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}
void __cudaRegisterUnifiedTable(void**, void*) {}

char __cudaInitModule(void** handle) {
  auto* f = reinterpret_cast<Fatbin*>(handle);
  std::vector<const void*> managed;
  {
    Registry& r = registry();
    std::shared_lock lock(r.mutex);
    for (const void* shadow : f->shadows)
      if (auto it = r.variables.find(shadow); it != r.variables.end() && it->second.managed) managed.push_back(shadow);
  }
  for (const void* shadow : managed) variable_of(shadow, nullptr, nullptr);
  return 1;
}

}  // extern "C"
