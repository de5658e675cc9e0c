#include "tracker/log/process_record.h"

#include <dlfcn.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "binary/elf/loaded_objects.h"
#include "common/version.h"
#include "tracker/base/process_start.h"
#include "tracker/interface/platform.h"
#include "tracker/log/missing_symbols.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::log {
namespace {

using report::Json;

// Says which job, rank or run a process belonged to.
constexpr const char* kEnvironment[] = {"RANK",
                                        "LOCAL_RANK",
                                        "WORLD_SIZE",
                                        "GROUP_RANK",
                                        "MASTER_ADDR",
                                        "SLURM_JOB_ID",
                                        "SLURM_PROCID",
                                        "SLURM_NODEID",
                                        "OMPI_COMM_WORLD_RANK",
                                        "GITHUB_RUN_ID",
                                        "CI_JOB_ID",
                                        "PYTORCH_CUDA_ALLOC_CONF",
                                        "PYTORCH_ALLOC_CONF"};

std::string file_text(const char* path) {
  std::ifstream stream(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

// When the kernel started the process, in ticks since boot: stays the same through exec. Field 22 of /proc/self/stat;
// the second field, the command's name, may hold blanks and brackets.
uint64_t start_ticks() {
  const std::string text = file_text("/proc/self/stat");
  size_t at = text.rfind(')');
  for (int field = 2; at != std::string::npos && field < 22; ++field) at = text.find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at, nullptr, 10);
}

Json command_line() {
  Json arguments = Json::array();
  const std::string text = file_text("/proc/self/cmdline");
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return arguments;
}

std::string python_version() {
  using Function = const char* (*)();
  const auto version = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, "Py_GetVersion"));
  if (!version) return {};
  const std::string text = version();
  return text.substr(0, text.find(' '));
}

}  // namespace

// torch/version.py lies beside torch/lib/libc10.so; reading it needs neither the GIL nor an imported torch.
std::string torch_version() {
  std::string library;
  elf::for_each_object([&](const elf::Object& object) {
    if (object.path.ends_with("/libc10.so")) library = object.path;
    return !library.empty();
  });
  const size_t lib = library.rfind("/lib/");
  if (lib == std::string::npos) return {};
  const std::string text = file_text((library.substr(0, lib) + "/version.py").c_str());
  const size_t assignment = text.find("__version__ = '");
  if (assignment == std::string::npos) return {};
  const size_t begin = assignment + std::strlen("__version__ = '");
  return text.substr(begin, text.find('\'', begin) - begin);
}

namespace {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// Names the machine since it was started, the same in all of its containers: whose processes have one clock.
std::string boot_id() {
  const std::string text = file_text("/proc/sys/kernel/random/boot_id");
  return text.substr(0, text.find('\n'));
}

// Names whose pids these are: containers have their own.
std::string pid_namespace() {
  char text[64] = {};
  const ssize_t size = ::readlink("/proc/self/ns/pid", text, sizeof text - 1);  // "pid:[4026531836]"
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : std::string();
}

// How far the machine's clock is from the right time at most, in seconds, when it is being kept right (NTP, PTP); else
// below 0.
double clock_error() {
  timex clock{};
  const int state = ::adjtimex(&clock);
  return state == -1 || state == TIME_ERROR || clock.maxerror < 0 ? -1 : static_cast<double>(clock.maxerror) * 1e-6;
}

std::string directory_of_process() {
  char* path = ::getcwd(nullptr, 0);
  std::string text = path ? path : "";
  std::free(path);
  return text;
}

void add(Json& record, const char* key, std::string value) {
  if (!value.empty()) record[key] = std::move(value);
}

}  // namespace

Json process_record() {
  Json record;
  record["record"] = "process";
  record["schema"] = 1;
  record["pid"] = ::getpid();
  record["ppid"] = ::getppid();
  record["command"] = command_line();
  record["started"] = process_start::time();
  if (const double attached = process_start::attached(); attached > 0) record["attached"] = attached;
  if (const uint64_t ticks = start_ticks()) record["start_ticks"] = ticks;
  add(record, "host", host_name());
  add(record, "boot", boot_id());
  add(record, "pid_namespace", pid_namespace());
  if (const double error = clock_error(); error >= 0) record["clock_error"] = error;
  add(record, "cwd", directory_of_process());
  add(record, "python", python_version());
  add(record, "torch", torch_version());
  add(record, "cuda_runtime", platform().cuda_version());
  Json devices = Json::array();
  for (const DeviceFacts& device : platform().devices()) {
    Json entry{{"index", device.index}, {"name", device.name}};
    add(entry, "uuid", device.uuid);
    if (device.memory > 0) entry["memory"] = device.memory;
    devices.push_back(std::move(entry));
  }
  if (!devices.empty()) record["devices"] = std::move(devices);
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) record["visible_devices"] = visible;
  record["devtrace"] = kVersion;
  record["backend"] = platform().backend();
  record["rehearsal"] = platform().simulated();
  add(record, "stacks", stacks::python_status());
  if (Json missing = missing_symbols(); !missing.empty()) record["missing_symbols"] = std::move(missing);
  Json environment = Json::object();
  for (const char* name : kEnvironment)
    if (const char* value = std::getenv(name)) environment[name] = value;
  if (!environment.empty()) record["environment"] = std::move(environment);
  return record;
}

}  // namespace devtrace::log
