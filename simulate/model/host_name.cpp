// The name of the machine, where one plays several (`devtrace rehearse --hosts`): "node7" is "node7-1" to the second.
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

extern "C" __attribute__((visibility("default"))) int uname(utsname* facts) noexcept {
  if (syscall(SYS_uname, facts) != 0) return -1;
  const char* host = std::getenv("DEVTRACE_SIM_HOST");
  if (!host) return 0;
  const std::string name = std::string(facts->nodename) + "-" + host;
  if (name.size() < sizeof facts->nodename) std::memcpy(facts->nodename, name.c_str(), name.size() + 1);
  return 0;
}

extern "C" __attribute__((visibility("default"))) int gethostname(char* name, size_t size) noexcept {
  utsname facts;
  if (uname(&facts) != 0) return -1;
  const size_t length = std::strlen(facts.nodename) + 1;
  std::memcpy(name, facts.nodename, length < size ? length : size);
  if (length <= size) return 0;
  errno = ENAMETOOLONG;
  return -1;
}
