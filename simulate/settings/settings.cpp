#include "simulate/settings/settings.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "simulate/settings/identity.h"
#include "simulate/settings/wanted_values.h"

namespace devtrace::simulate {
namespace {

void complain(const char* variable, const char* value, const char* expected) {
  std::fprintf(stderr, "devtrace: %s=%s: %s\n", variable, value, expected);
}

void read_gpus(Settings& s, const char* value) {
  char* end;
  long n = std::strtol(value, &end, 10);
  if (*value && !*end && n >= 1 && n <= kMaxDevices)
    s.gpus = static_cast<int>(n);
  else
    complain("DEVTRACE_SIM_GPUS", value, "not a number from 1 to 16; simulating 1 device");
}

void read_part(Settings& s, const char* value) {
  std::string key;
  for (const char* c = value; *c; ++c) key += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  if (const GpuModel* gpu_model = find_gpu_model(key.c_str()))
    s.gpu_model = gpu_model;
  else
    complain("DEVTRACE_SIM_PART", value, (std::string("not one of ") + gpu_model_keys() + "; simulating h100").c_str());
}

void set_memory(Settings& s, const char* value) {
  if (const std::optional<size_t> bytes = read_memory(value))
    s.memory = *bytes;
  else
    complain("DEVTRACE_SIM_MEMORY", value, "not a size from 2MiB to 1TiB like 24GiB; the part's own memory stands");
}

void set_peers(Settings& s, const char* value) {
  if (const std::optional<Peers> peers = read_peers(value))
    s.peers = *peers;
  else
    complain("DEVTRACE_SIM_PEER", value, "not all, none or pairs like 0-1,2-3; all devices are peers");
}

void set_async(Settings& s, const char* value) {
  s.async = read_seed(value);
  if (!s.async)
    complain("DEVTRACE_SIM_ASYNC", value, "not a number from 0 to 18446744073709551615; streams run at once");
}

bool is_one(const char* variable) {
  const char* value = std::getenv(variable);
  return value && !std::strcmp(value, "1");
}

void set_kernels(Settings& s) {
  const char* const kernels = std::getenv("DEVTRACE_SIM_KERNELS");
  if (is_one("DEVTRACE_SIM_KERNELS")) s.kernels = KernelPolicy::all;
  if ((kernels && !std::strcmp(kernels, "0")) || wanted_values().policy == ValuesPolicy::none)
    s.kernels = KernelPolicy::none;
  if (const char* v = std::getenv("DEVTRACE_SIM_KERNEL_CHECKS")) {
    s.kernel_checks = !std::strcmp(v, "all");
    if (!s.kernel_checks && std::strcmp(v, "owner") != 0)
      complain("DEVTRACE_SIM_KERNEL_CHECKS", v, "neither owner nor all; owner stands");
  }
  if (const char* v = std::getenv("DEVTRACE_SIM_KERNEL_SECONDS")) {
    const double seconds = std::atof(v);
    if (seconds > 0)
      s.kernel_seconds = seconds;
    else
      complain("DEVTRACE_SIM_KERNEL_SECONDS", v, "not a number of seconds; 600 stands");
  }
  s.kernel_threads = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
}

// As the driver reads it: entries up to the first that names no device; "" hides all.
void read_visible(Settings& s, const char* value) {
  s.visible_count = 0;
  if (!value) {
    for (int i = 0; i < s.gpus; ++i) s.visible[s.visible_count++] = i;
    return;
  }
  for (const char* p = value; *p;) {
    size_t length = std::strcspn(p, ",");
    std::string entry(p, length);
    while (!entry.empty() && entry.front() == ' ') entry.erase(0, 1);
    while (!entry.empty() && entry.back() == ' ') entry.pop_back();
    int found = -1;
    char* end;
    long index = std::strtol(entry.c_str(), &end, 10);
    if (!entry.empty() && !*end && index >= 0 && index < s.gpus) found = static_cast<int>(index);
    for (int i = 0; found < 0 && entry.size() > 4 && i < s.gpus; ++i)
      if (device_uuid_text(s.host, i).compare(0, entry.size(), entry) == 0) found = i;
    if (found < 0) return;
    for (int i = 0; i < s.visible_count; ++i)
      if (s.visible[i] == found) {  // a device named twice makes the driver see none
        s.visible_count = 0;
        return;
      }
    s.visible[s.visible_count++] = found;
    p += length;
    if (*p == ',') ++p;
  }
}

Settings read() {
  Settings s;
  s.gpu_model = find_gpu_model("h100");
  if (const char* v = std::getenv("DEVTRACE_SIM_HOST")) s.host = std::clamp(std::atoi(v), 0, kMaxHosts - 1);
  if (const char* v = std::getenv("DEVTRACE_SIM_GPUS")) read_gpus(s, v);
  if (const char* v = std::getenv("DEVTRACE_SIM_PART")) read_part(s, v);
  s.memory = s.gpu_model->memory;
  if (const char* v = std::getenv("DEVTRACE_SIM_MEMORY")) set_memory(s, v);
  if (const char* v = std::getenv("DEVTRACE_SIM_PEER")) set_peers(s, v);
  if (const char* v = std::getenv("DEVTRACE_SIM_ASYNC")) set_async(s, v);
  read_visible(s, std::getenv("CUDA_VISIBLE_DEVICES"));
  s.launch_blocking = is_one("CUDA_LAUNCH_BLOCKING");
  s.old_driver = is_one("DEVTRACE_SIM_OLD_DRIVER");
  s.no_faults = is_one("DEVTRACE_SIM_NO_FAULTS");
  s.pageable = is_one("DEVTRACE_SIM_PAGEABLE");
  set_kernels(s);
  return s;
}

}  // namespace

const Settings& settings() {
  static const Settings s = read();
  return s;
}

}  // namespace devtrace::simulate
