// A log: read, redacted, told as text, and the suppression that is offered for each finding must cover it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>

#include "report/log/redact.h"
#include "report/log/suppressions.h"
#include "report/record/log_reader.h"
#include "report/text/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace devtrace::report;
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  Redactor redactor;
  Json process;
  try {
    read_log(in, "log", [&](Json&& record) {
      if (record.value("record", Json()) == "process") {
        process = record;
        redactor.process(record);
        return;
      }
      redactor.record(record);
      text(process, record, false);
      suppression_entry(process, record);
    });
  } catch (const LogError&) {
  }
  return 0;
}
