// What autograd's engine has refused: it runs on threads of its own, where no Python line asked for anything.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tracker/evidence/frames.h"
#include "tracker/evidence/objects/torch_objects.h"

namespace devtrace::evidence {

// The thread that waits in `backward()` or `torch.autograd.grad()` for the engine; nothing where none does, or several.
std::optional<python::FrameSource> waiting_for_autograd(const python::Api& api);

// Where a function of the program's begins, or a line of it.
struct CodePlace {
  std::string file;
  std::string function;
  int line = 0;
  std::string source;
};

// A gradient that lies elsewhere than what it is for.
struct RefusedGradient {
  size_t index = 0;            // which of the node's, as the message counts
  std::vector<PyObject*> met;  // the gradient, if it was given from outside, and the tensor that it is for, if that has
                               // a name; the references below keep them
  // Of a torch.autograd.Function:
  std::string function;  // its class
  std::string argument;  // what its forward calls what the gradient is for
  CodePlace forward;
  CodePlace backward;      // the only `return` of it, else where it begins
  std::string expression;  // what that line returns as this gradient
  // Hooks of a tensor that the gradient passed before the node had it.
  struct Hook {
    std::string tensor;
    CodePlace code;
  };
  std::vector<Hook> hooks;
  std::vector<python::Ref> kept;
};

// `frames`: of the thread that called the engine. `node`: its name, as the message says it; empty: the gradients that
// the program itself gave to `backward`. Nothing where the graph has several such nodes, or none.
std::optional<RefusedGradient> refused_gradient(const python::Api& api, const Torch& torch,
                                                const std::vector<Frame>& frames, const SourceReader& sources,
                                                std::string_view node, std::string_view message);

}  // namespace devtrace::evidence
