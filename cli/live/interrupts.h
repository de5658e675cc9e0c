// What Ctrl-C and its like mean while a process is looked on at: the end of that, with the process left in order.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>

namespace devtrace::cli::live {

class Interrupts {
 public:
  Interrupts() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, signal);
    sigprocmask(SIG_BLOCK, &set_, nullptr);
    file_ = signalfd(-1, &set_, SFD_CLOEXEC);
  }
  ~Interrupts() { close(file_); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Whether one came within the time.
  bool wait(std::chrono::milliseconds limit) const {
    pollfd one{file_, POLLIN, 0};
    return poll(&one, 1, static_cast<int>(limit.count())) > 0;
  }

 private:
  sigset_t set_;
  int file_ = -1;
};

}  // namespace devtrace::cli::live
