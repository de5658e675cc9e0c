#include "cli/launch/hosts.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/subcommand.h"
#include "common/format.h"

namespace devtrace::cli {
namespace {

// A port of the loopback that nobody listens on.
int free_port() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool found = listener >= 0 && bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int problem = errno;
  if (listener >= 0) close(listener);
  if (!found) throw Failure(kBadUsage, fmt::format("--hosts needs a port of 127.0.0.1: {}", std::strerror(problem)));
  return ntohs(address.sin_port);
}

// PET_…: torchrun's options of the same names. Hosts meet on the loopback, where no name server knows them.
Launch on_host(Launch launch, int host, int hosts, int port) {
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, std::string>>{{"DEVTRACE_SIM_HOST", std::to_string(host)},
                                                                  {"NODE_RANK", std::to_string(host)},
                                                                  {"PET_NODE_RANK", std::to_string(host)},
                                                                  {"PET_NNODES", std::to_string(hosts)},
                                                                  {"PET_MASTER_ADDR", "127.0.0.1"},
                                                                  {"PET_MASTER_PORT", std::to_string(port)},
                                                                  {"PET_LOCAL_ADDR", "127.0.0.1"}})
    launch.environment.emplace_back(name, value);
  return launch;
}

}  // namespace

int launch_on_hosts(const Launch& launch, int hosts) {
  const int port = free_port();
  std::vector<pid_t> others;
  for (int host = 1; host < hosts; ++host) {
    const pid_t child = fork();
    if (child < 0) throw Failure(kBadUsage, fmt::format("--hosts: {}", std::strerror(errno)));
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      return cli::launch(on_host(launch, host, hosts, port));
    }
    others.push_back(child);
  }
  int code = cli::launch(on_host(launch, 0, hosts, port));
  for (const pid_t other : others) {
    if (code > 128) kill(other, SIGTERM);  // ours was ended, and theirs would wait for it
    int status = 0;
    while (waitpid(other, &status, 0) < 0 && errno == EINTR) {
    }
    if (code == 0) code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return code;
}

}  // namespace devtrace::cli
