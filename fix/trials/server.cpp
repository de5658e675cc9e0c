#include "fix/trials/server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "common/format.h"
#include "process/status.h"
#include "report/record/json.h"

namespace devtrace::fix {

namespace fs = std::filesystem;
using report::Json;

std::optional<fs::path> Server::main_file(const ProgramToRun& program) {
  const auto& words = program.words;
  if (words.empty() || fs::path(words[0]).filename().string().find("python") == std::string::npos) return std::nullopt;
  size_t i = 1;
  for (; i < words.size() && words[i].starts_with("-"); ++i) {
    if (words[i] == "-W" || words[i] == "-X") ++i;
    // A program in the arguments, a module's, or one that a terminal goes on with.
    else if (words[i].starts_with("--") || words[i].find_first_of("cmi") != std::string::npos)
      return std::nullopt;
  }
  if (i >= words.size() || !words[i].ends_with(".py")) return std::nullopt;
  std::error_code error;
  const fs::path file = fs::absolute(program.folder / words[i], error);
  return !error && fs::is_regular_file(file, error) ? std::optional(file) : std::nullopt;
}

Server::Server(ProgramToRun program, const fs::path& main, const fs::path& folder) : environment_(program.environment) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error(fmt::format("no socket: {}", std::strerror(errno)));
  socket_ = ends[0];
  fs::copy_file(main, folder / "main", fs::copy_options::overwrite_existing);
  program.environment["DEVTRACE_SERVER"] = fmt::format("{} {}", ends[1], (folder / "main").string());
  program.inherited = ends[1];
  try {
    child_.emplace(program, folder / "output");
  } catch (...) {
    close(ends[1]);
    close(socket_);
    throw;
  }
  close(ends[1]);
}

Server::~Server() {
  child_.reset();
  close(socket_);
}

std::optional<std::string> Server::answer(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    if (const size_t end = heard_.find('\n'); end != heard_.npos) {
      std::string line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return line;
    }
    const std::chrono::duration<double, std::milli> left = until - std::chrono::steady_clock::now();
    pollfd one{socket_, POLLIN, 0};
    const int come = poll(&one, 1, left.count() > 0 ? static_cast<int>(left.count()) + 1 : 0);
    if (come < 0 && errno == EINTR) continue;
    if (come <= 0) return std::nullopt;
    char bytes[256];
    const ssize_t size = read(socket_, bytes, sizeof bytes);
    if (size <= 0) return std::string();
    heard_.append(bytes, static_cast<size_t>(size));
  }
}

std::optional<bool> Server::ready() {
  if (!ready_)
    if (const auto said = answer(0)) ready_ = said == "ready";
  return ready_;
}

std::optional<pid_t> Server::fork(const ProgramToRun& program, const fs::path& output) {
  Json order = {{"set", Json::object()},
                {"unset", Json::array()},
                {"output", output.string()},
                {"parent", static_cast<int>(getpid())}};
  for (const auto& [name, value] : program.environment) {
    const auto theirs = environment_.find(name);
    if (theirs == environment_.end() || theirs->second != value) order["set"][name] = value;
  }
  for (const auto& [name, value] : environment_)
    if (!program.environment.contains(name)) order["unset"].push_back(name);
  const std::string line = order.dump(-1, ' ', true, Json::error_handler_t::replace) + '\n';
  constexpr double kForks = 20;  // seconds, on a machine that is very busy
  if (send(socket_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) return std::nullopt;
  const auto pid = static_cast<pid_t>(std::strtol(answer(kForks).value_or("").c_str(), nullptr, 10));
  const auto status = pid > 0 ? process::status_of(pid) : std::nullopt;
  if (!status || status->parent != getpid()) return std::nullopt;
  return pid;
}

}  // namespace devtrace::fix
