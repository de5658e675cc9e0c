// cuFFT on several devices: memory in parts, by rows of the first dimension, or by transforms where there are several,
// always in the order in which the program sees it. Calls return when they are done.
#include <cstring>
#include <mutex>
#include <unordered_set>

#include "simulate/cufft/plan.h"

namespace {

namespace lib = devtrace::simulate::library;
namespace numbers = devtrace::simulate::numbers;
using namespace devtrace::simulate::cufft;

struct Live {
  std::mutex mutex;
  std::unordered_set<cudaLibXtDesc*> all;
};
Live& live() {
  static auto* one = new Live;
  return *one;
}
bool alive(cudaLibXtDesc* descriptor) {
  std::lock_guard lock(live().mutex);
  return live().all.count(descriptor) == 1;
}

struct Part {
  uint8_t* data;
  size_t bytes;
};
std::vector<Part> parts_of(const cudaLibXtDesc& d) {
  std::vector<Part> all;
  for (int i = 0; i < d.descriptor->nGPUs; ++i)
    all.push_back({static_cast<uint8_t*>(d.descriptor->data[i]), d.descriptor->size[i]});
  return all;
}
size_t bytes_of(const cudaLibXtDesc& d) {
  size_t bytes = 0;
  for (const Part& part : parts_of(d)) bytes += part.bytes;
  return bytes;
}

std::vector<uint8_t> gathered(const cudaLibXtDesc& d) {
  std::vector<uint8_t> all;
  for (const Part& part : parts_of(d)) all.insert(all.end(), part.data, part.data + part.bytes);
  return all;
}
void scatter(const uint8_t* from, const cudaLibXtDesc& d) {
  for (const Part& part : parts_of(d)) {
    std::memcpy(part.data, from, part.bytes);
    from += part.bytes;
  }
}

// Units that are not divided: how many, and the bytes of each.
struct Units {
  int64_t count;
  size_t bytes;
};
Units units_of(const Plan& plan) {
  const auto last = static_cast<size_t>(plan.rank - 1);
  const auto bytes = [&](const Layout& one, const Layout& other) {
    const bool real = one.type == CUDA_R_32F || one.type == CUDA_R_64F;
    const bool half = real || other.type == CUDA_R_32F || other.type == CUDA_R_64F;
    int64_t all = 1;
    for (size_t i = 0; i < last; ++i) all *= plan.sizes[i];
    all *= half ? (plan.sizes[last] / 2 + 1) * (real ? 2 : 1) : plan.sizes[last];
    return static_cast<size_t>(all) * numbers::bytes_of(one.type);
  };
  const size_t one = std::max(bytes(plan.input, plan.output), bytes(plan.output, plan.input));
  if (plan.batch > 1) return {plan.batch, one};
  return {plan.sizes[0], one / static_cast<size_t>(plan.sizes[0])};
}

void release(cudaLibXtDesc* d) {
  for (int i = 0; i < d->descriptor->nGPUs; ++i)
    lib::on_device(d->descriptor->GPUs[i],
                   [&] { return !cuMemFree(reinterpret_cast<CUdeviceptr>(d->descriptor->data[i])); });
  delete d->descriptor;
  delete d;
}

cufftResult execute(const char* name, cufftHandle number, cudaLibXtDesc* from, cudaLibXtDesc* to, int direction) {
  Plan plan;
  if (!find_plan(number, &plan) || plan.devices.empty() || !plan.rank) return CUFFT_INVALID_PLAN;
  if (!alive(from) || !alive(to)) return CUFFT_INVALID_VALUE;
  if (!is_computed(plan)) return CUFFT_NOT_SUPPORTED;
  const bool failed = lib::calculate_on(plan.devices, name, [&] {
    std::vector<uint8_t> all = gathered(*from);
    transform(plan, all.data(), all.data(), direction == CUFFT_INVERSE);
    scatter(all.data(), *to);
  });
  return failed ? CUFFT_EXEC_FAILED : CUFFT_SUCCESS;
}

}  // namespace

extern "C" {

cufftResult CUFFTAPI cufftXtSetGPUs(cufftHandle number, int count, int* devices) {
  Plan plan;
  if (!find_plan(number, &plan) || plan.rank) return CUFFT_INVALID_PLAN;
  int there = 0;
  if (cuInit(0) || cuDeviceGetCount(&there) || count < 1 || !devices) return CUFFT_INVALID_VALUE;
  for (int i = 0; i < count; ++i)
    if (devices[i] < 0 || devices[i] >= there) return CUFFT_INVALID_DEVICE;
  plan.devices.assign(devices, devices + count);
  set_plan(number, plan);
  return CUFFT_SUCCESS;
}

cufftResult CUFFTAPI cufftXtMalloc(cufftHandle number, cudaLibXtDesc** descriptor, cufftXtSubFormat format) {
  Plan plan;
  if (!find_plan(number, &plan) || plan.devices.empty() || !plan.rank) return CUFFT_INVALID_PLAN;
  if (!descriptor) return CUFFT_INVALID_VALUE;
  const Units units = units_of(plan);
  auto* const made = new cudaLibXtDesc{};
  made->library = LIB_FORMAT_CUFFT;
  made->subFormat = format;
  made->descriptor = new cudaXtDesc{};
  const auto devices = static_cast<int64_t>(plan.devices.size());
  for (int64_t i = 0; i < devices; ++i) {
    const int device = plan.devices[static_cast<size_t>(i)];
    const size_t bytes = static_cast<size_t>(units.count / devices + (i < units.count % devices)) * units.bytes;
    CUdeviceptr memory = 0;
    if (bytes && !lib::on_device(device, [&] { return !cuMemAlloc(&memory, bytes); })) {
      release(made);
      return CUFFT_ALLOC_FAILED;
    }
    made->descriptor->GPUs[i] = device;
    made->descriptor->data[i] = reinterpret_cast<void*>(memory);
    made->descriptor->size[i] = bytes;
    made->descriptor->nGPUs = static_cast<int>(i + 1);
  }
  std::lock_guard lock(live().mutex);
  live().all.insert(made);
  *descriptor = made;
  return CUFFT_SUCCESS;
}

cufftResult CUFFTAPI cufftXtFree(cudaLibXtDesc* descriptor) {
  {
    std::lock_guard lock(live().mutex);
    if (!live().all.erase(descriptor)) return CUFFT_INVALID_VALUE;
  }
  release(descriptor);
  return CUFFT_SUCCESS;
}

// The host's memory has no room behind the end of a real transform's rows: it has as many bytes as it is asked for.
cufftResult CUFFTAPI cufftXtMemcpy(cufftHandle number, void* to, void* from, cufftXtCopyType type) {
  Plan plan;
  if (!find_plan(number, &plan) || plan.devices.empty()) return CUFFT_INVALID_PLAN;
  auto* const target = static_cast<cudaLibXtDesc*>(to);
  auto* const source = static_cast<cudaLibXtDesc*>(from);
  if (type < CUFFT_COPY_HOST_TO_DEVICE || type > CUFFT_COPY_DEVICE_TO_DEVICE || !to || !from)
    return CUFFT_INVALID_VALUE;
  if (type != CUFFT_COPY_DEVICE_TO_HOST && !alive(target)) return CUFFT_INVALID_VALUE;
  if (type != CUFFT_COPY_HOST_TO_DEVICE && !alive(source)) return CUFFT_INVALID_VALUE;
  const bool failed = lib::calculate_on(plan.devices, "cufftXtMemcpy", [&] {
    if (type == CUFFT_COPY_HOST_TO_DEVICE) return scatter(static_cast<const uint8_t*>(from), *target);
    const std::vector<uint8_t> all = gathered(*source);
    if (type == CUFFT_COPY_DEVICE_TO_HOST)
      std::memcpy(to, all.data(), all.size());
    else if (bytes_of(*target) == all.size())
      scatter(all.data(), *target);
  });
  return failed ? CUFFT_EXEC_FAILED : CUFFT_SUCCESS;
}

cufftResult CUFFTAPI cufftXtSetWorkArea(cufftHandle number, void**) {
  Plan plan;
  return find_plan(number, &plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

// One piece a device, in the natural order.
cufftResult CUFFTAPI cufftXtQueryPlan(cufftHandle number, void* query, cufftXtQueryType type) {
  Plan plan;
  if (!find_plan(number, &plan) || plan.devices.empty() || plan.rank != 1) return CUFFT_INVALID_PLAN;
  if (type != CUFFT_QUERY_1D_FACTORS || !query) return CUFFT_INVALID_TYPE;
  const auto devices = static_cast<long long>(plan.devices.size());
  for (long long i = 0; i < devices; ++i) {
    cufftXt1dFactors& one = static_cast<cufftXt1dFactors*>(query)[i];
    one = {};
    one.size = plan.sizes[0];
    one.stringCount = devices;
    one.stringLength = one.substringLength = plan.sizes[0] / devices;
    one.factor1 = plan.sizes[0];
    one.factor2 = 1;
  }
  return CUFFT_SUCCESS;
}

cufftResult CUFFTAPI cufftXtExecDescriptor(cufftHandle plan, cudaLibXtDesc* from, cudaLibXtDesc* to, int direction) {
  return execute("cufftXtExecDescriptor", plan, from, to, direction);
}
cufftResult CUFFTAPI cufftXtExecDescriptorC2C(cufftHandle plan, cudaLibXtDesc* from, cudaLibXtDesc* to, int direction) {
  return execute("cufftXtExecDescriptorC2C", plan, from, to, direction);
}
cufftResult CUFFTAPI cufftXtExecDescriptorR2C(cufftHandle plan, cudaLibXtDesc* from, cudaLibXtDesc* to) {
  return execute("cufftXtExecDescriptorR2C", plan, from, to, CUFFT_FORWARD);
}
cufftResult CUFFTAPI cufftXtExecDescriptorC2R(cufftHandle plan, cudaLibXtDesc* from, cudaLibXtDesc* to) {
  return execute("cufftXtExecDescriptorC2R", plan, from, to, CUFFT_INVERSE);
}
cufftResult CUFFTAPI cufftXtExecDescriptorZ2Z(cufftHandle plan, cudaLibXtDesc* from, cudaLibXtDesc* to, int direction) {
  return execute("cufftXtExecDescriptorZ2Z", plan, from, to, direction);
}
cufftResult CUFFTAPI cufftXtExecDescriptorD2Z(cufftHandle plan, cudaLibXtDesc* from, cudaLibXtDesc* to) {
  return execute("cufftXtExecDescriptorD2Z", plan, from, to, CUFFT_FORWARD);
}
cufftResult CUFFTAPI cufftXtExecDescriptorZ2D(cufftHandle plan, cudaLibXtDesc* from, cudaLibXtDesc* to) {
  return execute("cufftXtExecDescriptorZ2D", plan, from, to, CUFFT_INVERSE);
}

}  // extern "C"
