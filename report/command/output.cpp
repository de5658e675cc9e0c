#include "report/command/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "report/base/format.h"
#include "report/command/subcommand.h"

namespace devtrace::command {

namespace fs = std::filesystem;

Output::Output(const std::string& file) : file_(file == "-" ? "" : file) {
  if (file_.empty()) return;
  std::error_code ignored;
  const bool device = fs::exists(file_, ignored) && !fs::is_regular_file(file_, ignored);  // a pipe, /dev/null
  if (!device) part_ = file_ + ".part";
  out_.open(device ? file_ : part_, std::ios::binary | std::ios::trunc);
  if (!out_) failed("cannot be written");
}

Output::~Output() {
  if (part_.empty()) return;
  out_.close();
  std::error_code ignored;
  fs::remove(part_, ignored);
}

void Output::write(std::string_view text) {
  if (file_.empty()) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) failed("writing failed");
  } else if (!out_.write(text.data(), static_cast<std::streamsize>(text.size()))) {
    failed("writing failed");
  }
}

void Output::finish() {
  if (file_.empty()) {
    if (std::fflush(stdout) != 0) failed("writing failed");
    return;
  }
  out_.close();
  if (!out_) failed("writing failed");
  if (!part_.empty() && std::rename(part_.c_str(), file_.c_str()) != 0) failed("cannot be written");
  part_.clear();
}

void Output::failed(const char* what) const {
  const int error = errno;
  throw Failure(kBadUsage,
                fmt::format("{}: {}: {}", file_.empty() ? "standard output" : file_, what, std::strerror(error)));
}

bool to_terminal() {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
}

}  // namespace devtrace::command
