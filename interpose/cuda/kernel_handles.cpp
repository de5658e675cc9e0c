#include "interpose/cuda/kernel_handles.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cerrno>

#include "interpose/cuda/current_device.h"
#include "interpose/cuda/kernel_images.h"
#include "interpose/linking/cuda_runtimes.h"
#include "interpose/linking/original.h"
#include "tracker/base/thread_state.h"
#include "tracker/events.h"

namespace devtrace::interpose {
namespace {

// What answers for one type of handle. Both calls return 0 for success, in the driver as in the runtime.
struct Questions {
  const char* library;
  const char* name;
  const char* layout;
};
constexpr Questions kQuestions[] = {
    {"libcudart.so", "cudaFuncGetName", "cudaFuncGetParamInfo"},
    {"libcuda.so", "cuKernelGetName", "cuKernelGetParamInfo"},
    {"libcuda.so", "cuFuncGetName", "cuFuncGetParamInfo"},
};
constexpr size_t kMostParameters = 4096;  // more than 4 KiB of them cannot be passed but by newer parts, 32 KiB then

using GetName = int (*)(const char**, const void*);
using GetLayout = int (*)(const void*, size_t, size_t*, size_t*);

// Both questions; null: it has none, or is not loaded.
struct Functions {
  GetName get_name;
  GetLayout get_layout;
};

bool ask(const Functions& functions, const void* function, std::string& name,
         std::vector<device::Parameter>& parameters) {
  const auto [get_name, get_layout] = functions;
  if (!get_layout || !get_name) return false;
  const char* text = nullptr;
  if (get_name(&text, function) != 0 || !text) return false;
  // Past the last parameter the index is invalid; any other error says that the question is not understood.
  std::vector<device::Parameter> found;
  int error = 0;
  for (device::Parameter next; found.size() < kMostParameters; found.push_back(next))
    if ((error = get_layout(function, found.size(), &next.offset, &next.size)) != 0) break;
  if (error != CUDA_ERROR_INVALID_VALUE) return false;
  name = text;
  parameters = std::move(found);
  return true;
}

bool ask(const Questions& questions, const void* function, std::string& name,
         std::vector<device::Parameter>& parameters) {
  return ask({reinterpret_cast<GetName>(find_in_library(questions.library, questions.name)),
              reinterpret_cast<GetLayout>(find_in_library(questions.library, questions.layout))},
             function, name, parameters);
}

// A stub is known to the runtime in which it was registered. The last question for a parameter fails, and the runtime
// keeps that as the thread's error: PyTorch would take it for the launch's. An error of the program's own that was
// there before stays as it is if nothing is asked; false: so it was, or nobody could be asked.
bool ask_runtimes(const void* stub, std::string& name, std::vector<device::Parameter>& parameters, bool& answered) {
  using LastError = int (*)();
  bool request = false, left_out = false;
  void* found = nullptr;
  for (int which = 0; !answered && cuda_runtimes::function_of(which, "cudaPeekAtLastError", found); ++which) {
    const auto of_it = [&](const char* symbol) {
      void* function = nullptr;
      cuda_runtimes::function_of(which, symbol, function);
      return function;
    };
    const auto peek = reinterpret_cast<LastError>(found);
    const auto clear = reinterpret_cast<LastError>(of_it("cudaGetLastError"));
    if (!peek || !clear || peek() != 0) {
      left_out = true;
      continue;
    }
    request = true;
    const Questions& questions = kQuestions[static_cast<int>(Handle::stub)];
    answered =
        ask({reinterpret_cast<GetName>(of_it(questions.name)), reinterpret_cast<GetLayout>(of_it(questions.layout))},
            stub, name, parameters);
    clear();
  }
  return answered || (request && !left_out);
}

// Of the current device: 90 for 9.0; 0 when unknown.
int architecture() {
  const int device = exact_current_device();
  int major = 0, minor = 0;
  const bool known = device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major) &&
                     device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, minor);
  return known ? major * 10 + minor : 0;
}

// Before CUDA 12.4 nobody answers: the image tells, too.
bool read_layout(const void* function, std::string& name, std::vector<device::Parameter>& parameters) {
  const kernel_images::Code code = kernel_images::code_of(function);
  device::KernelFacts facts;
  if (!device::read_kernel(code.image, architecture(), code.name, &facts)) return false;
  parameters = std::move(facts.parameters);
  name = code.name;
  return true;
}

}  // namespace

const Kernel* kernel_of(const void* function, Handle handle) {
  if (const Kernel* kernel = events::known_kernel(function)) return kernel;
  if (!function || thread_state::inside()) return nullptr;
  const ReentrancyGuard inside;
  const int saved = errno;
  std::string name;
  std::vector<device::Parameter> parameters;
  const Kernel* kernel = nullptr;
  try {
    bool answered = false, askable = true;
    if (handle == Handle::stub)
      askable = ask_runtimes(function, name, parameters, answered);
    else
      answered = ask(kQuestions[static_cast<int>(handle)], function, name, parameters);
    // cuLaunchKernel takes a CUkernel as well.
    if (!answered && handle == Handle::function)
      answered = ask(kQuestions[static_cast<int>(Handle::kernel)], function, name, parameters);
    if (!answered && askable) read_layout(function, name, parameters);
    // What nobody tells is remembered too, as a kernel without words.
    if (askable) kernel = events::kernel_described(function, std::move(name), parameters);
  } catch (...) {  // out of memory: this launch is not looked at
  }
  errno = saved;
  return kernel;
}

WordUses uses_of_parameters(const void* function, const std::string& name) {
  const kernel_images::Code code = kernel_images::code_of(function);
  device::KernelFacts facts;
  if (code.image.size == 0 ||
      !device::read_kernel(code.image, architecture(), code.name.empty() ? name : code.name, &facts))
    return {};
  return [facts = std::move(facts)](size_t in_block) {
    using As = WordUse::As;
    WordUse use;
    if (!facts.reads_address(in_block)) return use;
    use.as = facts.follows_address(in_block) ? As::address : As::possible_address;
    if (const device::Array* const array = facts.array_at(in_block)) use.array = *array;
    return use;
  };
}

}  // namespace devtrace::interpose
