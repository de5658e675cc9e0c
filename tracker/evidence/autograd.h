// What autograd's engine has refused: it runs on threads of its own, where no Python line asked for anything.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tracker/evidence/frames.h"
#include "tracker/evidence/objects/torch_objects.h"
#include "tracker/evidence/origins/stacks.h"

namespace devtrace::evidence {

// The thread that waits in `backward()` or `torch.autograd.grad()` for the engine; nothing where none does, or several.
std::optional<python::FrameSource> waiting_for_autograd(const python::Api& api);

// A gradient that lies elsewhere than what it is for.
struct RefusedGradient {
  finding::Gradient gradient;
  std::string expression;      // what the only line of its `backward` that returns gives as this gradient
  std::vector<PyObject*> met;  // the gradient, if it was given from outside, and the tensor that it is for, if that has
                               // a name; the references below keep them
  std::vector<python::Ref> kept;
};

// `frames`: of the thread that called the engine. `node`: its name, as the message says it; empty: the gradients that
// the program itself gave to `backward`. `index`: which of its gradients. Nothing where the graph has several such
// nodes, or none.
std::optional<RefusedGradient> refused_gradient(const python::Api& api, const Torch& torch,
                                                const std::vector<Frame>& frames, const SourceText& source,
                                                std::string_view node, size_t index);

}  // namespace devtrace::evidence
