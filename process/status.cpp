#include "process/status.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

namespace devtrace::process {
namespace {

std::string folder_of(pid_t process) {
  return "/proc/" + std::to_string(process);
}

std::string text_of(const std::string& path) {
  // A thread that ends meanwhile is an error that the stream's buffer throws.
  try {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  } catch (const std::ios_base::failure&) {
    return {};
  }
}

std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> found;
  DIR* const directory = ::opendir(folder.c_str());
  if (!directory) return found;
  while (const dirent* const entry = ::readdir(directory))
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0]))) found.push_back(std::atoi(entry->d_name));
  ::closedir(directory);
  std::ranges::sort(found);
  return found;
}

// A field of /proc/PID/stat, counted from 1 as its manual page does. The second, the name, may hold blanks and
// brackets.
std::string field_of_stat(pid_t process, int wanted) {
  const std::string text = text_of(folder_of(process) + "/stat");
  const size_t name_end = text.rfind(')');
  if (name_end == text.npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int number = 3; fields >> field; ++number)
    if (number == wanted) return field;
  return {};
}

}  // namespace

Status parse_status(const std::string& text) {
  Status status;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "Name:") std::getline(words >> std::ws, status.name);
    if (key == "State:") words >> status.state;
    if (key == "TracerPid:") words >> status.tracer;
    if (key == "Tgid:") words >> status.group;
    if (key == "Uid:") words >> status.user;
    if (key == "PPid:") words >> status.parent;
    if (key == "Seccomp:") words >> status.seccomp;
    if (key == "Seccomp_filters:") words >> status.seccomp_filters;
  }
  return status;
}

std::optional<Status> status_of(pid_t process) {
  const std::string text = text_of(folder_of(process) + "/status");
  if (process <= 0 || text.empty()) return std::nullopt;
  Status status = parse_status(text);
  struct stat file {};  // of a process that may not be looked at it is root's
  status.dumpable = ::stat((folder_of(process) + "/status").c_str(), &file) != 0 || file.st_uid == status.user;
  char own[64] = {}, theirs[64] = {};
  const bool known = ::readlink("/proc/self/ns/pid", own, sizeof own - 1) > 0 &&
                     ::readlink((folder_of(process) + "/ns/pid").c_str(), theirs, sizeof theirs - 1) > 0;
  status.same_pid_namespace = !known || std::string(own) == theirs;
  return status;
}

std::vector<pid_t> threads_of(pid_t process) {
  return numbers_in(folder_of(process) + "/task");
}

std::vector<pid_t> descendants_of(pid_t process) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t each : numbers_in("/proc"))
    if (const std::string parent = field_of_stat(each, 4); !parent.empty())
      children.emplace(std::atoi(parent.c_str()), each);
  std::vector<pid_t> found{process};
  for (size_t i = 0; i < found.size(); ++i)
    for (auto [one, end] = children.equal_range(found[i]); one != end; ++one) found.push_back(one->second);
  found.erase(found.begin());
  return found;
}

bool sleeps_in_system_call(pid_t process, pid_t thread) {
  const std::string text = text_of(folder_of(process) + "/task/" + std::to_string(thread) + "/syscall");
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0]));
}

std::string path_from_here(pid_t process, const std::string& file) {
  struct stat here {
  }, there{};
  const std::string through = folder_of(process) + "/root" + file;
  if (file.empty() || ::stat(through.c_str(), &there) != 0) return file;
  const bool same = ::stat(file.c_str(), &here) == 0 && here.st_ino == there.st_ino && here.st_dev == there.st_dev;
  return same ? file : through;
}

uint64_t start_ticks_of(pid_t process) {
  return std::strtoull(field_of_stat(process, 22).c_str(), nullptr, 10);
}

}  // namespace devtrace::process
