#include "tracker/placement/root_names.h"

#include <map>
#include <string>

#include "tracker/python/objects/variables.h"

namespace devtrace::placement {
namespace {

constexpr size_t kMostFramesAsked = 64;

// What the calling thread's variables hold: of several names that of the outermost frame, which lives longest.
class NameSearch {
 public:
  explicit NameSearch(const std::vector<PlacedRoot*>& roots) {
    for (PlacedRoot* root : roots) roots_[root->object] = root;
  }

  void look() {
    python::for_each_variable(
        kMostFramesAsked, [](size_t) { return false; },
        [&](const python::Objects& objects, const python::Variable& variable) {
          if (variable.name.starts_with("_") || variable.global) return;
          note(variable.object, variable.name, variable.frame);
          const auto inner = [&](const std::string& part) {
            return
                [&, part](auto key, uintptr_t value) { note(value, named(variable.name, part, key), variable.frame); };
          };
          const uint64_t flags = objects.flags_of_type(objects.type_of(variable.object));
          if (flags & (python::kListFlag | python::kTupleFlag))
            objects.for_each_item(variable.object, inner("[]"));
          else if (flags & python::kDictFlag)
            objects.for_each_entry(variable.object, inner("{}"));
          else if (!roots_.contains(variable.object) && (flags & python::kHeapTypeFlag))
            objects.for_each_attribute(variable.object, inner("."));
        });
  }

 private:
  static std::string named(const std::string& holder, const std::string&, size_t index) {
    return holder + "[" + std::to_string(index) + "]";
  }
  static std::string named(const std::string& holder, const std::string& part, const std::string& key) {
    return part == "." ? holder + "." + key : holder + "[\"" + key + "\"]";
  }

  // In one frame the variable itself comes before what another holds; the first name stands.
  void note(uintptr_t object, const std::string& name, size_t frame) {
    const auto root = roots_.find(object);
    if (root == roots_.end()) return;
    const auto [known, fresh] = frames_.try_emplace(object, frame);
    const bool better = !fresh && (frame > known->second || (frame == known->second && shorter(name, *root->second)));
    if (!fresh && !better) return;
    known->second = frame;
    root->second->variable = name;
  }
  static bool shorter(const std::string& name, const PlacedRoot& root) {
    const auto direct = [](const std::string& text) { return text.find_first_of(".[") == text.npos; };
    return direct(name) && !direct(root.variable);
  }

  std::map<uintptr_t, PlacedRoot*> roots_;
  std::map<uintptr_t, size_t> frames_;
};

}  // namespace

void name_roots(std::vector<PlacedRoot>& roots) {
  std::map<std::string, std::vector<PlacedRoot*>> classes;
  for (PlacedRoot& root : roots) classes[root.name].push_back(&root);
  std::vector<PlacedRoot*> namesakes;
  for (const auto& [name, all] : classes)
    if (all.size() > 1) namesakes.insert(namesakes.end(), all.begin(), all.end());
  if (!namesakes.empty()) NameSearch(namesakes).look();
}

}  // namespace devtrace::placement
