#include "cli/launch/temporary_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "common/format.h"

namespace devtrace::cli {

TemporaryFile::TemporaryFile(const char* name) {
  const char* folder = std::getenv("TMPDIR");
  path_ = fmt::format("{}/devtrace-{}-XXXXXX", folder && *folder ? folder : "/tmp", name);
  const int file = mkostemp(path_.data(), O_CLOEXEC);
  if (file < 0)
    error_ = errno;
  else
    close(file);
}

TemporaryFile::~TemporaryFile() {
  if (error_ == 0) unlink(path_.c_str());
}

bool TemporaryFile::has_text() const {
  struct stat status {};
  return error_ == 0 && stat(path_.c_str(), &status) == 0 && status.st_size > 0;
}

}  // namespace devtrace::cli
