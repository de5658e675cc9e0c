#include "tracker/evidence/objects/tensor_lookup.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "tracker/evidence/objects/array_reader.h"
#include "tracker/evidence/objects/module_tables.h"
#include "tracker/python/objects/variables.h"

namespace devtrace::evidence {
namespace {

using python::Objects;

constexpr size_t kMostFrames = 64;
// Objects looked at: some ten milliseconds in all. A library's frames hold much that is not the reader's.
constexpr size_t kMostLookedAt = 6000;
constexpr size_t kMostObjectsOfLibrary = 300;  // a frame
constexpr size_t kMostNames = 8;               // of one tensor
constexpr int kMostDepth = 3;                  // containers in containers
constexpr int kMostModuleDepth = 24;

// Packages between a program and its launch, which call its arrays by names of their own.
constexpr std::string_view kLaunchers[] = {"/torch/", "/triton/", "/numba/", "/numba_cuda/", "/cupy/", "/cuda/"};

class Search {
 public:
  Search(const std::vector<uintptr_t>& addresses, const std::vector<stacks::PythonFrame>& frames,
         const std::vector<bool>& own)
      : addresses_(addresses), frames_(frames), own_(own), found_(addresses.size()) {}

  std::vector<std::optional<NamedTensor>> run() {
    if (!addresses_.empty())
      python::for_each_variable(
          std::min(frames_.size(), kMostFrames), [&](size_t frame) { return own_[frame] && !done(); },
          [&](const Objects& objects, const python::Variable& variable) { look(objects, variable); });
    for (std::optional<NamedTensor>& holder : found_)
      if (holder) settle(*holder);
    return std::move(found_);
  }

 private:
  struct Way {
    size_t frame;
    std::string name;
    std::string role;
    std::string prefix;  // the way from the outermost module to the one that is looked at: "encoder.layers."
    int depth = 0;
  };

  void look(const Objects& objects, const python::Variable& variable) {
    if (variable.name.starts_with("__") || done()) return;
    if (variable.frame != frame_) {  // a name in each frame
      frame_ = variable.frame;
      left_in_frame_ = own_[frame_] ? kMostLookedAt : kMostObjectsOfLibrary;
      seen_.clear();
    }
    visit(objects, variable.object,
          {variable.frame, variable.name, variable.argument ? "argument" : "variable", "", 0});
  }

  std::optional<TensorMetadata> read(const Objects& objects, uintptr_t object) {
    const bool torch = tensors_.usable();
    if (auto tensor = torch ? tensors_.read(objects, object) : std::nullopt) return tensor;
    return arrays_.read(objects, object);
  }

  void visit(const Objects& objects, uintptr_t object, const Way& way) {
    if (left_ == 0 || left_in_frame_ == 0 || way.depth > kMostDepth) return;
    --left_;
    --left_in_frame_;
    if (const auto tensor = read(objects, object)) return note(*tensor, way, "");
    if (!seen_.insert(object).second) return;
    const uint64_t flags = objects.flags_of_type(objects.type_of(object));
    const auto inner = [&](const std::string& name, const char* role) {
      return Way{way.frame, way.name + name, role, "", way.depth + 1};
    };
    if (flags & (python::kListFlag | python::kTupleFlag)) {
      objects.for_each_item(object, [&](size_t index, uintptr_t value) {
        visit(objects, value, inner("[" + std::to_string(index) + "]", "element"));
      });
    } else if (flags & python::kDictFlag) {
      objects.for_each_entry(object, [&](const std::string& key, uintptr_t value) {
        visit(objects, value, inner("[\"" + key + "\"]", "element"));
      });
    } else if (!plain(objects, object)) {
      instance(objects, object, way);
    }
  }

  // Of what an instance holds, a module's state is called as nn.Module's attributes call it.
  void instance(const Objects& objects, uintptr_t object, const Way& way) {
    std::vector<std::pair<std::string, uintptr_t>> attributes;
    objects.for_each_attribute(object, [&](const std::string& name, uintptr_t value) {
      if (attributes.size() < 128) attributes.emplace_back(name, value);
    });
    const auto attribute = [&](const char* name) {
      const auto it =
          std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.first == name; });
      return it == attributes.end() ? uintptr_t{0} : it->second;
    };
    const bool is_module = std::all_of(std::begin(evidence::kModuleTables), std::end(evidence::kModuleTables),
                                       [&](const evidence::ModuleTable& table) { return attribute(table.name) != 0; });
    for (const auto& [name, value] : attributes) {
      if (name.starts_with("_")) continue;
      visit(objects, value, {way.frame, way.name + "." + name, "attribute", "", way.depth + 1});
    }
    if (!is_module) return;
    for (const evidence::ModuleTable& table : evidence::kStateTables)
      objects.for_each_entry(attribute(table.name), [&](const std::string& key, uintptr_t value) {
        if (const auto tensor = read(objects, value))
          note(*tensor, {way.frame, way.name + "." + key, table.role, "", 0}, way.prefix + key);
      });
    if (std::count(way.prefix.begin(), way.prefix.end(), '.') >= kMostModuleDepth) return;
    objects.for_each_entry(attribute(evidence::kChildTable.name), [&](const std::string& key, uintptr_t value) {
      visit(objects, value, {way.frame, way.name + "." + key, evidence::kChildTable.role, way.prefix + key + ".", 0});
    });
  }

  // Modules (their variables are globals), functions and other things that have attributes and are no data.
  bool plain(const Objects& objects, uintptr_t object) {
    const uintptr_t type = objects.type_of(object);
    const auto [entry, fresh] = plain_types_.try_emplace(type, true);
    if (!fresh) return entry->second;
    constexpr std::string_view kOthers[] = {"module", "function", "method", "type",     "str",
                                            "int",    "float",    "bool",   "NoneType", "code"};
    char text[24] = {};
    const uintptr_t name = objects.name_of_type(type);
    if (name == 0 || !objects.memory().copy(name, text, sizeof text - 1)) return true;
    return entry->second =
               std::find(std::begin(kOthers), std::end(kOthers), std::string_view(text)) != std::end(kOthers);
  }

  void note(const TensorMetadata& tensor, const Way& way, const std::string& module_path) {
    for (size_t i = 0; i < addresses_.size(); ++i) {
      if (addresses_[i] - tensor.address >= static_cast<uint64_t>(tensor.bytes)) continue;
      std::optional<NamedTensor>& holder = found_[i];
      const bool starts = addresses_[i] == tensor.address;
      if (!holder) holder = NamedTensor{tensor, {}, {}, {}};
      // Of two tensors over one memory the one that starts at the address is the one that was passed.
      if (starts && holder->tensor.address != addresses_[i]) holder = NamedTensor{tensor, {}, {}, {}};
      // What is known of an array is known of its address, too.
      if (holder->tensor.address_only && !tensor.address_only) holder = NamedTensor{tensor, {}, {}, {}};
      if (holder->tensor.address != tensor.address || holder->tensor.shape != tensor.shape) continue;
      if (holder->names.size() < kMostNames) holder->names.push_back({way.frame, way.name, way.role});
      if (module_path.size() > holder->module_path.size()) holder->module_path = module_path;
    }
  }

  // Everything has a name that its reader knows.
  bool done() const {
    return std::all_of(found_.begin(), found_.end(), [&](const std::optional<NamedTensor>& holder) {
      return holder && std::any_of(holder->names.begin(), holder->names.end(), [&](const NamedTensor::Name& name) {
               return own_[name.frame] && name.frame < frame_;
             });
    });
  }

  bool library(size_t frame) const {
    const std::string& file = frames_[frame].file;
    return !own_[frame] && std::any_of(std::begin(kLaunchers), std::end(kLaunchers),
                                       [&](std::string_view package) { return file.find(package) != file.npos; });
  }

  void settle(NamedTensor& holder) const {
    std::stable_sort(holder.names.begin(), holder.names.end(),
                     [](const auto& a, const auto& b) { return a.frame < b.frame; });
    const auto best = std::find_if(holder.names.begin(), holder.names.end(),
                                   [&](const NamedTensor::Name& name) { return !library(name.frame); });
    if (best != holder.names.end()) holder.best = *best;
  }

  const std::vector<uintptr_t>& addresses_;
  const std::vector<stacks::PythonFrame>& frames_;
  const std::vector<bool>& own_;
  TensorReader tensors_;
  ArrayReader arrays_;
  std::vector<std::optional<NamedTensor>> found_;
  std::set<uintptr_t> seen_;
  std::map<uintptr_t, bool> plain_types_;
  size_t frame_ = SIZE_MAX;
  size_t left_ = kMostLookedAt;
  size_t left_in_frame_ = 0;
};

}  // namespace

std::vector<std::optional<NamedTensor>> tensors_at(const std::vector<uintptr_t>& addresses,
                                                   const std::vector<stacks::PythonFrame>& frames,
                                                   const std::vector<bool>& own) {
  return Search(addresses, frames, own).run();
}

}  // namespace devtrace::evidence
