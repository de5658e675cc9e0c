#include "fix/overlay/ports.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/interposed.h"

namespace devtrace::fix::overlay {
namespace {

// In network order, and for all processes of the run.
struct Port {
  std::atomic<in_port_t> has;    // what the run has instead, where the program names this one
  std::atomic<in_port_t> named;  // what the program names, where the run has this one
};
constexpr size_t kSize = 65536 * sizeof(Port);
constinit std::atomic<Port*> known{nullptr};

// Null: this is no trial, or its folder takes no file.
Port* ports() {
  if (Port* const found = known.load()) return found;
  const char* const folder = std::getenv("DEVTRACE_TRIAL");
  char path[4096];
  if (!folder || std::snprintf(path, sizeof path, "%s/ports", folder) >= static_cast<int>(sizeof path)) return nullptr;
  const auto file = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file < 0) return nullptr;
  void* const pages =
      ::ftruncate(file, kSize) == 0 ? ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  ::syscall(SYS_close, file);
  if (pages == MAP_FAILED) return nullptr;
  known.store(static_cast<Port*>(pages));
  return static_cast<Port*>(pages);
}

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = sizeof bytes;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
  // Null: it is none of IP's.
  in_port_t* port() {
    if (bytes.ss_family == AF_INET && size >= sizeof(sockaddr_in))
      return &reinterpret_cast<sockaddr_in*>(&bytes)->sin_port;
    if (bytes.ss_family == AF_INET6 && size >= sizeof(sockaddr_in6))
      return &reinterpret_cast<sockaddr_in6*>(&bytes)->sin6_port;
    return nullptr;
  }
};

// The TCP port that the address names; null: a program names none.
Port* port_of(int descriptor, const sockaddr* given, socklen_t size, Address& address) {
  if (!given || size > sizeof address.bytes) return nullptr;
  std::memcpy(&address.bytes, given, address.size = size);
  const in_port_t* const port = address.port();
  int type = 0;
  socklen_t length = sizeof type;
  if (!port || ntohs(*port) < 1024 || ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) != 0 ||
      type != SOCK_STREAM)
    return nullptr;
  Port* const all = ports();
  return all ? &all[ntohs(*port)] : nullptr;
}

constinit Next<int(int, const sockaddr*, socklen_t)> next_bind("bind"), next_connect("connect");
constinit Next<int(int, sockaddr*, socklen_t*)> next_getsockname("getsockname");

// Nobody can bind to an address of another machine.
bool is_of_this_machine(Address address) {
  *address.port() = 0;
  const int probe = ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool own = probe >= 0 && next_bind(probe, address.get(), address.size) == 0;
  if (probe >= 0) ::syscall(SYS_close, probe);
  return own;
}

int bind_for_run(int descriptor, const sockaddr* given, socklen_t size) {
  Address address;
  Port* const port = port_of(descriptor, given, size, address);
  if (!port) return next_bind(descriptor, given, size);
  const in_port_t named = *address.port();
  *address.port() = port->has.load();  // 0 at first: any that is free
  const int result = next_bind(descriptor, address.get(), address.size);
  Address bound;
  if (result == 0 && next_getsockname(descriptor, bound.get(), &bound.size) == 0 && bound.port()) {
    ports()[ntohs(*bound.port())].named.store(named);
    port->has.store(*bound.port());
  }
  return result;
}

int connect_in_run(int descriptor, const sockaddr* given, socklen_t size) {
  const int error = errno;
  Address address;
  const Port* const port = port_of(descriptor, given, size, address);
  const in_port_t has = port ? port->has.load() : 0;
  const bool ours = has != 0 && is_of_this_machine(address);
  errno = error;
  if (!ours) return next_connect(descriptor, given, size);
  *address.port() = has;
  return next_connect(descriptor, address.get(), address.size);
}

// The program is told the port that it has named.
int name_as_named(int descriptor, sockaddr* into, socklen_t* size) {
  const int result = next_getsockname(descriptor, into, size);
  if (result != 0 || !into || !size) return result;
  Address address;
  const Port* const port = port_of(descriptor, into, std::min<socklen_t>(*size, sizeof address.bytes), address);
  if (const in_port_t named = port ? port->named.load() : 0) {
    *address.port() = named;
    std::memcpy(into, &address.bytes, address.size);
  }
  return result;
}

}  // namespace

void forget_ports() {
  known.store(nullptr);
}

}  // namespace devtrace::fix::overlay

#define EXPORT __attribute__((visibility("default")))

extern "C" {
EXPORT int bind(int descriptor, const sockaddr* address, socklen_t size) noexcept {
  return devtrace::fix::overlay::bind_for_run(descriptor, address, size);
}
EXPORT int connect(int descriptor, const sockaddr* address, socklen_t size) {
  return devtrace::fix::overlay::connect_in_run(descriptor, address, size);
}
EXPORT int getsockname(int descriptor, sockaddr* address, socklen_t* size) noexcept {
  return devtrace::fix::overlay::name_as_named(descriptor, address, size);
}
}
