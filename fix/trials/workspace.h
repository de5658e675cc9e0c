// A temporary folder for runs, which ends with everything that was started in it, however this process ends.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace devtrace::fix {

class Workspace {
 public:
  // Below $TMPDIR, or /tmp. Throws std::runtime_error when it cannot be made. To be made before any thread is.
  Workspace();
  // Kills what still runs with mark() in its environment, and removes the folder. A process of its own does so: it
  // also does when this one is killed.
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  // A new folder in it.
  std::filesystem::path make(const std::string& name) const;

 private:
  std::filesystem::path folder_;
  int pipe_ = -1;
  pid_t guard_ = -1;
};

// The environment variable that every run carries: it names the run's folder, so that all of its processes are found,
// also those that left its process group.
constexpr const char* kMark = "DEVTRACE_TRIAL";

// The name of the process that clears up.
constexpr const char* kGuard = "devtrace-guard";

// Kills every process whose environment's kMark lies in `folder`, until there is none. Returns how many.
int kill_all_of(const std::filesystem::path& folder);

}  // namespace devtrace::fix
