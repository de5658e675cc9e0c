// Parameters for a device that a call has left to their defaults.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tracker/evidence/lineage/known_names.h"

namespace devtrace::evidence {

struct LeftOut {
  size_t frame = 0;                  // of the stack, in whose line the call is
  std::string call;                  // `self.anchors`, as it is written
  std::string parameter, otherwise;  // and its default, as it is written
};

// By which call the line in that frame of a stack came to the device: followed outward through functions of the
// user's that give on what they were given. Nothing where one names a device, or where its text does not show it. Under
// the GIL; some parses of a line.
std::optional<LeftOut> left_to_default(const python::Api& api, const std::vector<stacks::PythonFrame>& made,
                                       size_t frame, const KnownNames& names, const SourceText& source);

}  // namespace devtrace::evidence
