// The module whose work a thread does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tracker/evidence/frames.h"
#include "tracker/evidence/objects/torch_objects.h"

namespace devtrace::placement {

struct ModuleAtWork {
  std::string path;  // from the outermost module that has it: "model.layers.35.mlp"; empty: none is known to have it
  std::string name;  // its class
  std::string root;  // … and that module's; empty where `path` is
};

// `frames`: innermost first. The innermost `self` that is a module; or, in a function of the user's own, the variable
// that is a part of a module. Under a Gil; runs no code of the user's.
std::optional<ModuleAtWork> module_at_work(const python::Api& api, const evidence::Torch& torch,
                                           const std::vector<evidence::Frame>& frames);

}  // namespace devtrace::placement
