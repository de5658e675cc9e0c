#include "tracker/log/missing_symbols.h"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "binary/names.h"
#include "common/version.h"
#include "report/phrasing/signature.h"
#include "tracker/base/message.h"
#include "tracker/interface/platform.h"

namespace devtrace::log {
namespace {

using report::Json;

// c10::Error::Error: without parameters, which no line has room for.
std::string readable(const std::string& symbol) {
  const std::string signature = binary::demangled(symbol);
  if (signature == symbol) return symbol;
  return signature.starts_with("vtable for ") ? signature : std::string(report::name_in_signature(signature));
}

}  // namespace

Json missing_symbols() {
  Json found = Json::array();
  if (!platform().missing_symbols) return found;
  for (const MissingSymbol& one : platform().missing_symbols())
    found.push_back({{"library", one.library}, {"symbol", one.symbol}, {"effect", one.effect}});
  return found;
}

void tell_missing_symbols(const Json& missing, const std::string& torch) {
  static std::atomic<bool> told{false};
  if (missing.empty() || told.exchange(true)) return;
  std::vector<std::pair<std::string, std::string>> names;  // by effect, in the order of the table
  for (const Json& one : missing) {
    const std::string effect = one.value("effect", ""), name = readable(one.value("symbol", ""));
    if (!names.empty() && names.back().first == effect)
      names.back().second += ", " + name;
    else
      names.emplace_back(effect, name);
  }
  std::string line = "PyTorch" + (torch.empty() ? "" : " " + torch) + " has no ";
  for (const auto& [effect, symbols] : names) {
    if (&effect != &names.front().first) line += "; no ";
    line += symbols + ": " + effect;
  }
  warn(line + ". devtrace " + kVersion + " does not know this version of it; another devtrace may.");
}

}  // namespace devtrace::log
