// The program's functions that torch.compile is compiling: Dynamo interprets their byte code, so no frame of Python's
// runs them. Its interpreter is an object of the frame that does, and is read like any other: attributes only.
#pragma once

#include <optional>
#include <string>

#include "tracker/evidence/source/source.h"
#include "tracker/python/python_api.h"

namespace devtrace::evidence {

struct CompiledFrame {
  python::Ref code;
  python::Ref globals;
  python::Ref locals;  // dict of ours: the program's own tensors and modules where they are known, else fake tensors
  Region region;       // of the instruction that is being interpreted
};

struct Frame;

// What a frame interprets; nothing for every frame but Dynamo's.
std::optional<CompiledFrame> compiled_by(const python::Api& api, const Frame& frame);

}  // namespace devtrace::evidence
