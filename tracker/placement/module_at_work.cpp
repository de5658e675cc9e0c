#include "tracker/placement/module_at_work.h"

#include <string_view>
#include <unordered_set>

#include "tracker/evidence/objects/parts.h"

namespace devtrace::placement {
namespace {

using evidence::Frame;
using evidence::Torch;
using python::Api;
using python::Ref;

constexpr size_t kMostModules = 200'000;  // that are looked at for one path
constexpr size_t kMostVariables = 64;     // modules in the variables of one frame

class Paths {
 public:
  Paths(const Api& api, const Torch& torch) : api_(api), torch_(torch) {}

  // The way from a module to another one; nothing where there is none. Wrappers around one module are left out of it:
  // `root` becomes the module that it begins at.
  std::optional<std::string> between(PyObject*& root, PyObject* target) {
    seen_.clear();
    std::vector<Step> way;
    if (!search(root, target, way)) return std::nullopt;
    std::string path;
    for (const Step& step : way) {
      if (path.empty() && is_wrapped(step.name))
        root = step.module;
      else
        path += (path.empty() ? "" : ".") + step.name;
    }
    return path;
  }

 private:
  struct Step {
    std::string name;
    PyObject* module;
  };

  static bool is_wrapped(std::string_view name) {
    return name == "module" || name == "_orig_mod" || name == "_fsdp_wrapped_module";
  }

  bool search(PyObject* module, PyObject* target, std::vector<Step>& way) {
    if (module == target) return true;
    if (seen_.size() >= kMostModules || !seen_.insert(module).second) return false;
    const Ref children = evidence::module_table(api_, module, evidence::kChildTable);
    bool found = false;
    if (children && python::shape_of(api_, children.get()) == python::Shape::dict)
      evidence::entries_of(api_, children.get(), false, [&](const evidence::Part& part) {
        if (found || !torch_.is_module(part.value)) return;
        way.push_back({part.name(api_), part.value});
        found = search(part.value, target, way);
        if (!found) way.pop_back();
      });
    return found;
  }

  const Api& api_;
  const Torch& torch_;
  std::unordered_set<PyObject*> seen_;
};

// Modules in the variables of a frame; `self` first.
struct Variables {
  PyObject* self = nullptr;
  std::vector<PyObject*> others;
  Ref kept;
};
Variables modules_of(const Api& api, const Torch& torch, const Frame& frame) {
  Variables found;
  found.kept = frame.locals(api);
  if (!found.kept) return found;
  evidence::entries_of(api, found.kept.get(), false, [&](const evidence::Part& part) {
    if (found.others.size() >= kMostVariables || !torch.is_module(part.value)) return;
    if (part.name(api) == "self")
      found.self = part.value;
    else if (frame.project)
      found.others.push_back(part.value);
  });
  return found;
}

}  // namespace

std::optional<ModuleAtWork> module_at_work(const Api& api, const Torch& torch, const std::vector<Frame>& frames) {
  std::vector<Variables> variables;
  for (const Frame& frame : frames) variables.push_back(modules_of(api, torch, frame));
  Paths paths(api, torch);
  // From the outermost frame inwards: a module that has this one.
  const auto placed = [&](PyObject* module) -> std::optional<ModuleAtWork> {
    for (auto outer = variables.rbegin(); outer != variables.rend(); ++outer) {
      std::vector<PyObject*> roots = outer->others;
      if (outer->self) roots.push_back(outer->self);
      for (PyObject* root : roots)
        if (const auto path = root == module ? std::nullopt : paths.between(root, module))
          return ModuleAtWork{*path, evidence::class_of(api, module), evidence::class_of(api, root)};
    }
    return std::nullopt;
  };
  for (size_t at = 0; at < frames.size(); ++at) {
    if (PyObject* const self = variables[at].self) {
      auto found = placed(self);
      return found ? found : ModuleAtWork{"", evidence::class_of(api, self), ""};
    }
    if (frames[at].function == "<module>") continue;
    // Of several the one that is farthest in.
    std::optional<ModuleAtWork> deepest;
    for (PyObject* const module : variables[at].others)
      if (auto found = placed(module); found && (!deepest || found->path.size() > deepest->path.size()))
        deepest = std::move(found);
    if (deepest) return deepest;
  }
  return std::nullopt;
}

}  // namespace devtrace::placement
