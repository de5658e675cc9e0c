// The files by which NVIDIA's driver shows that it is there. Programs look for them before they ask CUDA (JAX). And
// checkpoints, of which the header may be all that there is (header_only.h).
//
// In their place there is the null device: a character device that everybody may open, which knows none of the driver's
// requests. Only these paths are recognized, as they are written; no folder lists the files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/interposed.h"
#include "simulate/device_files/header_only.h"

namespace {

// What stands behind /dev/nvidia: a device's number, or what all of them share.
bool is_device(const char* name) {
  for (const char* const shared : {"ctl", "-modeset", "-uvm", "-uvm-tools"})
    if (!std::strcmp(name, shared)) return true;
  const char* const given = std::getenv("DEVTRACE_SIM_GPUS");
  const int devices = given ? std::atoi(given) : 1;
  char number[16];
  for (int i = 0; i < devices; ++i) {
    std::snprintf(number, sizeof number, "%d", i);
    if (!std::strcmp(name, number)) return true;
  }
  return false;
}

const char* shown(const char* path) {
  constexpr char kDevices[] = "/dev/nvidia";
  constexpr size_t kLength = sizeof kDevices - 1;
  return path && !std::strncmp(path, kDevices, kLength) && is_device(path + kLength) ? "/dev/null" : path;
}

}  // namespace

// Result, name, parameters, what is passed on.
#define FUNCTIONS(F)                                                                                                 \
  F(int, stat, (const char* path, struct stat* out) noexcept, shown(path), out)                                      \
  F(int, stat64, (const char* path, struct stat64* out) noexcept, shown(path), out)                                  \
  F(int, lstat, (const char* path, struct stat* out) noexcept, shown(path), out)                                     \
  F(int, lstat64, (const char* path, struct stat64* out) noexcept, shown(path), out)                                 \
  F(int, fstatat, (int at, const char* path, struct stat* out, int flags) noexcept, at, shown(path), out, flags)     \
  F(int, fstatat64, (int at, const char* path, struct stat64* out, int flags) noexcept, at, shown(path), out, flags) \
  F(int, statx, (int at, const char* path, int flags, unsigned mask, struct statx* out) noexcept, at, shown(path),   \
    flags, mask, out)                                                                                                \
  F(int, __xstat, (int version, const char* path, struct stat* out), version, shown(path), out)                      \
  F(int, __xstat64, (int version, const char* path, struct stat64* out), version, shown(path), out)                  \
  F(int, __lxstat, (int version, const char* path, struct stat* out), version, shown(path), out)                     \
  F(int, __lxstat64, (int version, const char* path, struct stat64* out), version, shown(path), out)                 \
  F(int, access, (const char* path, int mode) noexcept, shown(path), mode)                                           \
  F(int, faccessat, (int at, const char* path, int mode, int flags) noexcept, at, shown(path), mode, flags)          \
  F(FILE*, fopen, (const char* path, const char* mode), shown(path), mode)                                           \
  F(FILE*, fopen64, (const char* path, const char* mode), shown(path), mode)
// With flags, and no mode.
#define FLAGGED_FUNCTIONS(F)                                                        \
  F(int, __open_2, (const char* path, int flags), shown(path), flags)               \
  F(int, __open64_2, (const char* path, int flags), shown(path), flags)             \
  F(int, __openat_2, (int at, const char* path, int flags), at, shown(path), flags) \
  F(int, __openat64_2, (int at, const char* path, int flags), at, shown(path), flags)
// The same with a mode behind them, where the flags ask for one.
#define OPENING_FUNCTIONS(F)                                                         \
  F(int, open, (const char* path, int flags, ...), shown(path), flags)               \
  F(int, open64, (const char* path, int flags, ...), shown(path), flags)             \
  F(int, openat, (int at, const char* path, int flags, ...), at, shown(path), flags) \
  F(int, openat64, (int at, const char* path, int flags, ...), at, shown(path), flags)

// NOLINTBEGIN(bugprone-macro-parentheses): types, names and lists.
#define EXPORT extern "C" __attribute__((visibility("default")))
#define DEFINE(result, function, parameters, ...)                         \
  namespace {                                                             \
  constinit devtrace::Next<result parameters> next_##function(#function); \
  }                                                                       \
  EXPORT result function parameters {                                     \
    return next_##function(__VA_ARGS__);                                  \
  }
#define DEFINE_OPENING(result, function, parameters, ...)                                    \
  namespace {                                                                                \
  constinit devtrace::Next<result parameters> next_##function(#function);                    \
  }                                                                                          \
  EXPORT result function parameters {                                                        \
    GET_MODE(mode, flags)                                                                    \
    return devtrace::simulate::header_only(next_##function(__VA_ARGS__, mode), path, flags); \
  }
#define DEFINE_FLAGGED(result, function, parameters, ...)                              \
  namespace {                                                                          \
  constinit devtrace::Next<result parameters> next_##function(#function);              \
  }                                                                                    \
  EXPORT result function parameters {                                                  \
    return devtrace::simulate::header_only(next_##function(__VA_ARGS__), path, flags); \
  }
FUNCTIONS(DEFINE)
FLAGGED_FUNCTIONS(DEFINE_FLAGGED)
OPENING_FUNCTIONS(DEFINE_OPENING)

// Before there is a second thread: a fork's child or a signal's handler finds all of it there.
#define FIND(result, function, parameters, ...) next_##function.get();
[[gnu::constructor]] static void start() {
  FUNCTIONS(FIND)
  FLAGGED_FUNCTIONS(FIND)
  OPENING_FUNCTIONS(FIND)
}
// NOLINTEND(bugprone-macro-parentheses)
