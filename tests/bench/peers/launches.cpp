// A C++ program that only launches, as child.py runs the Python ones: for each number that is read runs so many steps,
// and answers with the processor time. A step is a hundred launches on each of two devices, one memory block made and
// freed with every tenth.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int kDevices = 2, kLaunches = 100, kBuffers = 4;
constexpr size_t kBytes = 1 << 16;
constexpr const char* kKernel = R"(.version 8.0
.target sm_75
.address_size 64
.visible .entry add(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  ret;
}
)";

void check(cudaError_t answer) {
  if (answer == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(answer));
  std::exit(1);
}

struct Device {
  std::array<void*, kBuffers> buffers{};
  cudaStream_t stream = nullptr;
};
std::array<Device, kDevices> devices;
cudaKernel_t kernel;

void prepare() {
  cudaLibrary_t library;
  check(cudaLibraryLoadData(&library, kKernel, nullptr, nullptr, 0, nullptr, nullptr, 0));
  check(cudaLibraryGetKernel(&kernel, library, "add"));
  for (int i = 0; i < kDevices; ++i) {
    check(cudaSetDevice(i));
    check(cudaStreamCreateWithFlags(&devices[i].stream, cudaStreamNonBlocking));
    for (void*& buffer : devices[i].buffers) check(cudaMalloc(&buffer, kBytes));
  }
}

void step() {
  for (int i = 0; i < kDevices; ++i) {
    Device& device = devices[i];
    check(cudaSetDevice(i));
    for (int launch = 0; launch < kLaunches; ++launch) {
      unsigned n = kBytes / sizeof(float);
      void* arguments[] = {&device.buffers[0], &device.buffers[1], &device.buffers[2], &device.buffers[3], &n};
      check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(64), dim3(256), arguments, 0, device.stream));
      if (launch % 10 != 0) continue;
      void* block;
      check(cudaMallocAsync(&block, kBytes, device.stream));
      check(cudaFreeAsync(block, device.stream));
    }
  }
}

double processor_time() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

int main() {
  prepare();
  for (int i = 0; i < 3; ++i) step();
  std::printf("ready %d\n", getpid());
  std::fflush(stdout);
  for (int steps; std::scanf("%d", &steps) == 1;) {
    const double began = processor_time();
    for (int i = 0; i < steps; ++i) step();
    std::printf("%.9f\n", processor_time() - began);
    std::fflush(stdout);
  }
}
