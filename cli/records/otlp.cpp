#include "cli/records/otlp.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "cli/launch/installation.h"
#include "cli/launch/program_cuda.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "process/start.h"

namespace devtrace::cli {
namespace {

namespace fs = std::filesystem;

// Of the environment into which pip has put this command, else of the active one.
std::string interpreter() {
  std::error_code error;
  for (const char* const name : {"python3", "python"})
    if (const fs::path beside = own_command().parent_path() / name; fs::exists(beside, error)) return beside.string();
  return usual_python();
}

}  // namespace

OtlpSender::OtlpSender(const std::string& endpoint, const std::string& spool) {
  if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://"))
    throw Failure(kBadUsage,
                  fmt::format("--otlp: '{}' is no address of OTLP over HTTP, like http://collector:4318", endpoint));
  process::Program python{{interpreter(), "-m", "devtrace.otlp", endpoint}, process::own_environment()};
  if (!spool.empty()) python.words.push_back(fs::absolute(spool).string());
  if (const fs::path package = find_python_package(); !package.empty()) {
    std::string& path = python.environment["PYTHONPATH"];
    path = package.string() + (path.empty() ? "" : ":" + path);
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Failure(kBadUsage, "--otlp: no pipe");
  try {
    child_ = process::start(python, [&] { return ::dup2(ends[0], 0) == 0; });
  } catch (const process::CannotStart& error) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw Failure(kBadUsage, fmt::format("--otlp needs a Python that has OpenTelemetry's SDK: {}", error.what()));
  }
  ::close(ends[0]);
  input_ = ends[1];
  ::signal(SIGPIPE, SIG_IGN);  // where it ends early it has said why
}

OtlpSender::~OtlpSender() {
  if (child_ > 0) finish();
}

std::string OtlpSender::input() const {
  return fmt::format("/proc/self/fd/{}", input_);
}

int OtlpSender::finish() {
  ::close(input_);
  int status = 0;
  ::waitpid(child_, &status, 0);
  child_ = -1;
  ::signal(SIGPIPE, SIG_DFL);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : kBadUsage;
}

}  // namespace devtrace::cli
