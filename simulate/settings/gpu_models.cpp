#include "simulate/settings/gpu_models.h"

#include <cstring>
#include <string>

namespace devtrace::simulate {
namespace {

constexpr size_t KiB = 1024, MiB = 1024 * KiB;

// To add a part: one row.
// clang-format off
constexpr GpuModel kGpuModels[] = {
    // key      name                       cc    SMs  memory        clock    mem clock bus   L2        thr/SM blk smem/SM    optin      ecc   W    pci
    {"h100",    "NVIDIA H100 80GB HBM3",   9, 0, 132, 81079 * MiB,  1980000, 2619000,  5120, 50 * MiB,  2048, 32, 228 * KiB, 227 * KiB, true, 700},
    {"h200",    "NVIDIA H200",             9, 0, 132, 143156 * MiB, 1980000, 3201000,  6144, 60 * MiB,  2048, 32, 228 * KiB, 227 * KiB, true, 700},
    {"a100",    "NVIDIA A100-SXM4-80GB",   8, 0, 108, 81153 * MiB,  1410000, 1593000,  5120, 40 * MiB,  2048, 32, 164 * KiB, 163 * KiB, true, 400},
    {"l40s",    "NVIDIA L40S",             8, 9, 142, 45589 * MiB,  2520000, 9001000,  384,  96 * MiB,  1536, 24, 100 * KiB, 99 * KiB,  true, 350},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 8, 9, 128, 24217 * MiB,  2520000, 10501000, 384,  72 * MiB,  1536, 24, 100 * KiB, 99 * KiB,  false, 450},
    {"t4",      "Tesla T4",                7, 5, 40,  15095 * MiB,  1590000, 5001000,  256,  4 * MiB,   1024, 16, 64 * KiB,  64 * KiB,  true, 70},
};
// clang-format on

}  // namespace

const GpuModel* find_gpu_model(const char* key) {
  for (const GpuModel& gpu_model : kGpuModels)
    if (!std::strcmp(gpu_model.key, key)) return &gpu_model;
  return nullptr;
}

const char* gpu_model_keys() {
  static const std::string* const keys = [] {  // leaked: messages may be written at exit
    auto* all = new std::string;
    for (const GpuModel& gpu_model : kGpuModels) (*all += all->empty() ? "" : ", ") += gpu_model.key;
    return all;
  }();
  return keys->c_str();
}

}  // namespace devtrace::simulate
