#include "cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/subcommand.h"
#include "common/format.h"

namespace devtrace::cli {

namespace fs = std::filesystem;

std::string new_file(const std::string& name) {
  constexpr int kMostTries = 100;
  for (int number = 0; number < kMostTries; ++number) {
    const std::string path = number == 0 ? name : fmt::format("{}{}", name, number);
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor >= 0) return ::close(descriptor), path;
    if (errno != EEXIST) break;
  }
  return {};
}

namespace {

// What a link leads to, there or not.
std::string real_path(const std::string& link) {
  constexpr int kMostLinks = 40;  // as the kernel has it
  fs::path path = link;
  std::error_code fault;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, fault); ++i)
    path = path.parent_path() / fs::read_symlink(path, fault);
  return path.string();
}

}  // namespace

Output::Output(const std::string& file) : file_(file == "-" ? "" : file) {
  if (file_.empty()) return;
  std::error_code ignored;
  const bool device = fs::exists(file_, ignored) && !fs::is_regular_file(file_, ignored);  // a pipe, /dev/null
  if (!device) {
    if (fs::is_symlink(file_, ignored)) file_ = real_path(file_);  // a link stays one
    part_ = new_file(file_ + ".part");
    if (part_.empty()) failed("cannot be written");
  }
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

void write_file(const std::string& file, std::string_view text) {
  if (file.empty()) return;
  Output out(file);
  out.write(text);
  out.finish();
}

bool to_terminal() {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
}

}  // namespace devtrace::cli
