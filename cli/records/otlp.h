// Records for a collector of OpenTelemetry's: its official SDK sends them, which is Python's.
#pragma once

#include <sys/types.h>

#include <string>

namespace devtrace::cli {

class OtlpSender {
 public:
  // `python -m devtrace.otlp`, by the environment's interpreter. `spool`: where it keeps what could not be sent; empty:
  // its own place. Throws Failure where the address is none of HTTP's, or there is no Python.
  OtlpSender(const std::string& endpoint, const std::string& spool);
  ~OtlpSender();
  OtlpSender(const OtlpSender&) = delete;
  OtlpSender& operator=(const OtlpSender&) = delete;

  // A file into which the records are to be written, one a line.
  std::string input() const;
  // Waits until they are sent, or kept for the next call: 0. Else 2; it has said why on standard error.
  int finish();

 private:
  pid_t child_ = -1;
  int input_ = -1;
};

}  // namespace devtrace::cli
