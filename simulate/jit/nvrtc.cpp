// NVRTC has the PTX of whatever it compiles, also where the program asks it for machine code alone.
#include <string>

#include "simulate/jit/original.h"

namespace {

namespace jit = devtrace::simulate::jit;

constexpr std::string_view kLibrary = "libnvrtc.so.";
constexpr int kSuccess = 0, kInternalError = 11;  // nvrtcResult

template <class Destination>
int call(const char* symbol, void* program, Destination* out) {
  auto* const function = jit::original<int(void*, Destination*)>(kLibrary, symbol);
  return function ? function(program, out) : kInternalError;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int nvrtcGetCUBIN(void* program, char* cubin) {
  const int result = call("nvrtcGetCUBIN", program, cubin);
  size_t bytes = 0, text = 0;
  if (result != kSuccess || call("nvrtcGetCUBINSize", program, &bytes) != kSuccess ||
      call("nvrtcGetPTXSize", program, &text) != kSuccess || !text)
    return result;
  std::string ptx(text, '\0');
  if (call("nvrtcGetPTX", program, ptx.data()) == kSuccess) jit::note_ptx(cubin, bytes, ptx.c_str());
  return result;
}
