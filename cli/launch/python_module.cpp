#include "cli/launch/python_module.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/launch/installation.h"
#include "cli/launch/program_cuda.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "process/start.h"

namespace devtrace::cli {
namespace {

namespace fs = std::filesystem;

// The one among whose packages pip has put this command, else the active environment's.
std::string interpreter_of_package() {
  std::error_code error;
  const fs::path beside = own_command().parent_path() / "python3";
  return find_python_package().empty() && fs::exists(beside, error) ? beside.string() : usual_python();
}

}  // namespace

PythonModule::PythonModule(const std::string& module, const std::vector<std::string>& words) {
  process::Program program;
  program.words = {interpreter_of_package(), "-m", "devtrace." + module};
  program.words.insert(program.words.end(), words.begin(), words.end());
  program.environment = process::own_environment();
  program.environment.erase("LD_PRELOAD");
  program.environment.erase("DEVTRACE_OPTIONS");
  program.environment["PYTHONSAFEPATH"] = "1";  // a file of this folder's is no package
  program.environment["DEVTRACE"] = own_command().string();
  if (const fs::path package = find_python_package(); !package.empty()) {
    std::string& path = program.environment["PYTHONPATH"];
    path = package.string() + (path.empty() ? "" : ":" + path);
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Failure(kBadUsage, fmt::format("no pipe: {}", std::strerror(errno)));
  pipe_handler_ = ::signal(SIGPIPE, SIG_IGN);  // a module that ends early is told by what it said
  try {
    process_ = process::start(program, [&] { return ::dup2(ends[0], STDIN_FILENO) >= 0; });
  } catch (const process::CannotStart& error) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw Failure(kBadUsage, fmt::format("needs a Python with pip install 'devtrace[{}]': {}",
                                         module.substr(0, module.find('.')), error.what()));
  }
  ::close(ends[0]);
  input_ = ends[1];
}

PythonModule::~PythonModule() {
  if (process_ > 0) finish();
}

void PythonModule::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(input_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw Failure(kBadUsage, "nothing more was written");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

std::string PythonModule::input() const {
  return fmt::format("/proc/self/fd/{}", input_);
}

int PythonModule::finish() {
  ::close(input_);
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  ::signal(SIGPIPE, pipe_handler_);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace devtrace::cli
