#include "simulate/model/kernels/made_of.h"

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "binary/device/image.h"
#include "simulate/settings/settings.h"

namespace devtrace::simulate {
namespace {

std::mutex mutex;

// By an image's bytes. Never destroyed: modules are loaded until the process ends.
std::unordered_map<std::string, std::string>& texts() {
  static auto* const all = new std::unordered_map<std::string, std::string>;
  return *all;
}

std::string bytes_of(binary::View image) {
  return {reinterpret_cast<const char*>(image.data), image.size};
}

}  // namespace

bool ptx_of(binary::View image, device::PtxText* out) {
  if (device::read_ptx_text(image, settings().gpu_model->architecture(), out)) return true;
  std::lock_guard lock(mutex);
  const auto found = texts().find(bytes_of(image));
  if (found == texts().end()) return false;
  out->text = found->second;
  return true;
}

}  // namespace devtrace::simulate

// For simulate/jit: a compiler made this image of this PTX.
extern "C" __attribute__((visibility("default"))) void devtrace_sim_image_made_of(const void* image, size_t bytes,
                                                                                  const char* ptx, size_t ptx_bytes) {
  using namespace devtrace;
  const binary::View known = device::image_at(image, bytes);
  std::lock_guard lock(simulate::mutex);
  simulate::texts()[simulate::bytes_of(known)].assign(ptx, ptx_bytes);
}
