// A file of suppressions, and a finding that it may cover.
#include "report/log/suppressions.h"

#include <cstddef>
#include <cstdint>

#include "finding/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace devtrace::report;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Suppressions all = parse_suppressions(text, "file");
  static const auto finding = devtrace::finding::read(Json::parse(
      R"({"kind":"refused-op","operation":"aten::add","fingerprint":"0123456789abcdef","launch":{"kernel":"k"},
      "python":[{"file":"a.py","function":"f","project":true}],"native":[{"module":"/x/lib.so","function":"g"}],
      "operands":[{"module_class":"Net","module_path":"a.b"}]})"));
  all.covering(finding, "2026-01-01");
  return 0;
}
