// A container brought to a device, as the file can write it.
#include <gtest/gtest.h>

#include "report/verdict/cpp/device.h"
#include "report/verdict/edits/fixes.h"

namespace devtrace::report::verdict {
namespace {

// `batch["ids"]` beside `batch["masks"][0]`, in a file of that line.
std::string moved_in(const std::string& line) {
  read_sources_by([](const std::string& file) { return std::vector<std::string>{file}; });
  Operand ids;
  ids.names.emplace_back().name = "batch[\"ids\"]";
  ids.siblings.emplace_back().names.emplace_back().name = "batch[\"masks\"][0]";
  const std::string code = moved_container(ids, "batch", "[\"ids\"]", "batch", "device", line);
  read_sources_by(nullptr);
  return code;
}

TEST(MovedContainer, SaysTorchOnlyWhereItIsImported) {
  EXPECT_EQ(moved_in("import torch"),
            "torch.utils._pytree.tree_map_only(torch.Tensor, lambda value: value.to(device), batch)");
  EXPECT_EQ(moved_in("from loader import batch"),
            "{key: value.to(device) if hasattr(value, \"to\") else value for key, value in batch.items()}");
}

}  // namespace
}  // namespace devtrace::report::verdict
