#include "cli/fix/apply.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "cli/subcommand.h"
#include "common/format.h"

namespace devtrace::cli {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : number_(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW)) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return number_; }

 private:
  int number_;
};

// All of the file, and on the disk.
bool fill(int file, std::string_view text) {
  const auto size = static_cast<off_t>(text.size());
  for (off_t at = 0; at < size;) {
    const ssize_t written = pwrite(file, text.data() + at, static_cast<size_t>(size - at), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
  }
  return ftruncate(file, size) == 0 && fsync(file) == 0;
}

// Access lists and what else the file system keeps of a file by name.
bool copy_attributes(int from, int to) {
  std::vector<char> names(XATTR_LIST_MAX), value(XATTR_SIZE_MAX);
  const ssize_t length = flistxattr(from, names.data(), names.size());
  if (length < 0) return errno == ENOTSUP;
  for (const char* name = names.data(); name < names.data() + length; name += std::strlen(name) + 1) {
    const ssize_t size = fgetxattr(from, name, value.data(), value.size());
    if (size < 0 || fsetxattr(to, name, value.data(), static_cast<size_t>(size), 0) != 0) return false;
  }
  return true;
}

class File {
 public:
  File(const std::string& path, const std::string& before, const std::string& after)
      : path_(path), before_(before), after_(after) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error) failed(error.message());
    path_ = real.string();
  }
  ~File() {
    if (!beside_.empty()) unlink(beside_.c_str());
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }

  bool changed() const {
    std::ifstream in(path_, std::ios::binary);
    if (!in) failed(std::strerror(errno));
    return std::string(std::istreambuf_iterator<char>(in), {}) != before_;
  }

  // Makes what needs room on the disk.
  void prepare() {
    if ((takes_place_ = replacement())) return;
    copy();
    if (Descriptor(path_, O_WRONLY) < 0) failed(std::strerror(errno));
  }

  void write() {
    if (takes_place_ && std::rename(beside_.c_str(), path_.c_str()) == 0) return beside_.clear();
    if (takes_place_) copy();  // a file that is mounted by itself: nothing takes its place
    const Descriptor file(path_, O_WRONLY);
    if (file < 0) failed(std::strerror(errno));
    if (fill(file, after_)) return;
    const int error = errno;
    const std::string kept = std::exchange(beside_, {});
    failed(fmt::format("{}; what it was is in {}", std::strerror(error), kept));
  }

 private:
  [[noreturn]] void failed(const std::string& what) const {
    throw Failure(kBadUsage, fmt::format("--apply: {}: {}", path_, what));
  }

  // Another file beside it that has the new text and all else of it; false: there can be none.
  bool replacement() {
    const Descriptor old(path_, O_RDONLY);
    struct stat has {};
    if (old < 0 || fstat(old, &has) != 0 || has.st_nlink != 1) return false;
    beside_ = new_file(path_ + ".part");
    const Descriptor made(beside_, O_WRONLY);
    return made >= 0 && fchown(made, has.st_uid, has.st_gid) == 0 && copy_attributes(old, made) &&
           fchmod(made, has.st_mode & 07777) == 0 && fill(made, after_);
  }

  // The file as it is, beside it.
  void copy() {
    if (!beside_.empty()) unlink(beside_.c_str());
    beside_ = new_file(path_ + ".before");
    const Descriptor made(beside_, O_WRONLY);
    if (made < 0 || fchmod(made, 0600) != 0 || !fill(made, before_))
      failed(fmt::format("no copy can be kept beside it: {}", std::strerror(errno)));
  }

  std::string path_, before_, after_, beside_;
  bool takes_place_ = false;
};

}  // namespace

void apply(const std::map<std::string, std::string>& before, const std::map<std::string, std::string>& after) {
  std::list<File> files;
  for (const auto& [path, text] : after) files.emplace_back(path, before.at(path), text);
  std::string changed;
  for (const File& each : files)
    if (each.changed()) changed += (changed.empty() ? "" : ", ") + each.path();
  if (!changed.empty())
    throw Failure(kBadUsage, fmt::format("--apply: no file was written: changed since it was read: {}", changed));
  for (File& each : files) each.prepare();
  std::string written;
  for (File& each : files) {
    try {
      if (each.changed()) throw Failure(kBadUsage, fmt::format("--apply: {}: changed a moment ago", each.path()));
      each.write();
    } catch (const Failure& failure) {
      if (written.empty()) throw;
      throw Failure(failure.code, fmt::format("{}\nwritten before that: {}", failure.what(), written));
    }
    written += (written.empty() ? "" : ", ") + each.path();
  }
}

}  // namespace devtrace::cli
