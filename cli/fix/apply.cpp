#include "cli/fix/apply.h"

#include <filesystem>

#include "cli/output.h"
#include "cli/subcommand.h"
#include "common/format.h"

namespace devtrace::cli {

namespace fs = std::filesystem;

void apply(const std::map<std::string, std::string>& texts) {
  for (const auto& [path, text] : texts) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    const fs::perms permissions = error ? fs::perms::none : fs::status(real, error).permissions();
    if (error) throw Failure(kBadUsage, fmt::format("--apply: {}: {}", path, error.message()));
    Output out(real.string());
    out.write(text);
    out.finish();
    fs::permissions(real, permissions, error);
  }
}

}  // namespace devtrace::cli
