// The program's functions that torch.compile is compiling: Dynamo interprets their byte code, so no frame of Python's
// runs them. Its interpreter is an object of the frame that does, and is read like any other: attributes only.
#pragma once

#include <optional>
#include <string>

#include "tracker/evidence/source.h"

namespace devtrace::evidence {

struct CompiledFrame {
  python::Ref code;
  python::Ref globals;
  python::Ref locals;  // dict of ours: the program's own tensors and modules where they are known, else fake tensors
  Region region;       // of the instruction that is being interpreted
};

// What a frame of `function` in `file` interprets; nothing for every other frame.
std::optional<CompiledFrame> compiled_by(const python::Api& api, PyObject* frame, const std::string& file,
                                         const std::string& function);

}  // namespace devtrace::evidence
