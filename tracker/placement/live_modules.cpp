#include "tracker/placement/live_modules.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "common/cache_names.h"
#include "tracker/evidence/objects/object_walk.h"
#include "tracker/evidence/objects/parts.h"
#include "tracker/placement/root_names.h"
#include "tracker/python/gil/elements.h"
#include "tracker/python/gil/no_collector.h"
#include "tracker/python/layout.h"
#include "tracker/python/objects/object_layout.h"

namespace devtrace::placement {
namespace {

using evidence::ObjectWalk;
using evidence::Torch;
using memory::live_memory::Use;
using python::Api;
using python::Ref;
using python::Shape;

constexpr int kDeepest = 64;             // modules in modules
constexpr int kDeepestContainer = 3;     // lists, dicts and cache layers in an attribute
constexpr ssize_t kMostElements = 4096;  // of one container
constexpr size_t kMostUsed = 4 * kMostPlaced;

// What nn.Module itself needs: holds no tensors, or is walked by name.
bool is_modules_own(std::string_view attribute) {
  return attribute == "_non_persistent_buffers_set" ||
         std::any_of(std::begin(evidence::kModuleTables), std::end(evidence::kModuleTables),
                     [&](const evidence::ModuleTable& table) { return attribute == table.name; });
}

uintptr_t number(PyObject* object) {
  return reinterpret_cast<uintptr_t>(object);
}

// What the objects of a type are to us. Asked of the type alone, which runs nobody's code.
enum class Sort : uint8_t { other, module, cache, tensor, optimizer };

class Types {
 public:
  Types(const Api& api, const Torch& torch, uint16_t header)
      : api_(api),
        torch_(torch),
        optimizer_(python::attribute(api, python::imported_module(api, "torch.optim").get(), "Optimizer")),
        header_(header) {}

  // An object's type without a reference to it: most of a sample's time would go into counting.
  PyObject* raw_type(PyObject* object) const {
    uintptr_t type;
    std::memcpy(&type, reinterpret_cast<const char*>(object) + python::kObjectType + header_, sizeof type);
    return reinterpret_cast<PyObject*>(type);
  }

  Sort sort(PyObject* object) {
    PyObject* type = raw_type(object);
    Recent& recent = recent_[number(type) / 64 % std::size(recent_)];
    if (recent.type == type) return recent.sort;
    const auto [entry, fresh] = sorts_.try_emplace(type, Sort::other);
    if (fresh) entry->second = judge(type);
    recent = {type, entry->second};
    return entry->second;
  }

  // Not by attribute: a metaclass may answer with code of its own.
  std::string class_name(PyObject* type) const {
    const char* name;
    std::memcpy(&name, reinterpret_cast<const char*>(type) + python::kTypeName + header_, sizeof name);
    const std::string_view whole = name ? name : "";
    return std::string(whole.substr(whole.rfind('.') + 1));  // npos + 1 is 0
  }

 private:
  Sort judge(PyObject* type) const {
    if (api_.PyType_IsSubtype(type, torch_.module_class())) return Sort::module;
    if (api_.PyType_IsSubtype(type, torch_.tensor_class())) return Sort::tensor;
    if (optimizer_ && api_.PyType_IsSubtype(type, optimizer_.get())) return Sort::optimizer;
    const unsigned long flags = api_.PyType_GetFlags(type);
    constexpr unsigned long kData = python::kListFlag | python::kTupleFlag | python::kDictFlag | python::kTypeFlag;
    if (!(flags & python::kHeapTypeFlag) || (flags & kData)) return Sort::other;
    return class_name(type).ends_with("Cache") ? Sort::cache : Sort::other;
  }

  struct Recent {
    PyObject* type = nullptr;
    Sort sort = Sort::other;
  };
  const Api& api_;
  const Torch& torch_;
  const Ref optimizer_;  // the class
  const uint16_t header_;
  std::unordered_map<PyObject*, Sort> sorts_;
  Recent recent_[512];  // most objects are of a few types
};

// Every live module, cache and optimizer, in the order in which the collector has them. Holds a reference to each.
class Found {
 public:
  Found(const Api& api, Types& types) : api_(api), types_(types) {}

  // Without a list of all objects where this Python can do so; the list tells the program's audit hooks of itself. A
  // free-threaded one stops its other threads meanwhile, which may hold locks: nothing may be called then that takes
  // one.
  void search() {
    if (api_.PyUnstable_GC_VisitObjects) {
      api_.PyUnstable_GC_VisitObjects(
          [](PyObject* object, void* self) { return static_cast<Found*>(self)->take(object) ? 1 : 0; }, this);
      return;
    }
    const Ref gc = python::imported_module(api_, "gc");
    const Ref all = python::call_method(api_, gc.get(), "get_objects");
    if (!all) return;
    PyObject** items;
    std::memcpy(&items, reinterpret_cast<const char*>(all.get()) + python::kListItems, sizeof items);
    constexpr ssize_t kAhead = 16;  // the objects lie all over the memory
    for (ssize_t i = 0, n = api_.PyList_Size(all.get()); i < n; ++i) {
      if (i + kAhead < n) __builtin_prefetch(items[i + kAhead]);
      if (!take(items[i])) break;
    }
  }

  const std::vector<Ref>& modules() const { return modules_; }
  const std::vector<Ref>& caches() const { return caches_; }
  const std::vector<Ref>& optimizers() const { return optimizers_; }
  bool cut() const { return cut_; }

 private:
  bool take(PyObject* object) noexcept try {
    if (++seen_ > kMostObjects) {
      cut_ = true;
      return false;
    }
    const Sort sort = types_.sort(object);
    if (sort == Sort::module) modules_.push_back(Ref::borrowed(api_, object));
    if (sort == Sort::cache) caches_.push_back(Ref::borrowed(api_, object));
    if (sort == Sort::optimizer) optimizers_.push_back(Ref::borrowed(api_, object));
    return true;
  } catch (...) {  // out of memory
    cut_ = true;
    return false;
  }

  const Api& api_;
  Types& types_;
  std::vector<Ref> modules_, caches_, optimizers_;
  size_t seen_ = 0;
  bool cut_ = false;
};

// Calls `visit` with the name and the value of each entry whose key is a str or an int.
template <class Visit>
void each_entry(const Api& api, PyObject* dict, const Visit& visit) {
  const auto named = [&](const evidence::Part& part) {
    if (const std::string name = part.name(api); !name.empty()) visit(name, part.value);
  };
  evidence::entries_of(api, dict, false, named, kMostElements);
}

class Walk {
 public:
  Walk(const Api& api, const Torch& torch, Types& types) : api_(api), torch_(torch), types_(types) {}

  template <class Visit>
  void each_child(PyObject* module, const Visit& visit) const {
    const Ref children = evidence::module_table(api_, module, evidence::kChildTable);
    if (!children || python::shape_of(api_, children.get()) != Shape::dict) return;
    each_entry(api_, children.get(), [&](const std::string& name, PyObject* child) {
      if (types_.sort(child) == Sort::module) visit(name, child);
    });
  }

  // The module that a wrapper stands for; itself where it is none.
  PyObject* unwrapped(PyObject* module) const {
    for (int depth = 0; depth < kDeepest; ++depth) {
      PyObject* inner = nullptr;
      size_t children = 0;
      each_child(module, [&](const std::string& name, PyObject* child) {
        ++children;
        if (name == "module" || name == "_orig_mod" || name == "_fsdp_wrapped_module") inner = child;
      });
      if (!inner || children != 1 || inner == module || has_state(module)) break;
      module = inner;
    }
    return module;
  }

  // A copy that nn.DataParallel makes for one step.
  bool is_replica(PyObject* module) const {
    const Ref dict = python::instance_dict(api_, module);
    return python::is_true(api_, python::entry(api_, dict.get(), "_is_replica").get());
  }

  PlacedRoot module_root(PyObject* module) {
    begin(module);
    on_way_.clear();
    enter_module(module, "", false, 0);
    return std::move(root_);
  }

  PlacedRoot cache_root(PyObject* cache) {
    begin(cache);
    enter(cache, "", "cache", 0);
    return std::move(root_);
  }

  // What an optimizer keeps for each parameter, in dicts and lists.
  void optimizer_state(PyObject* optimizer) {
    keep_state(python::entry(api_, python::instance_dict(api_, optimizer).get(), "state").get(), 0);
  }

  std::vector<UsedTensor> take_used() { return std::move(used_); }

  // Caches that a module holds belong to it.
  bool is_part(uintptr_t cache) const { return caches_.contains(cache); }

 private:
  void begin(PyObject* object) {
    root_ = {};
    root_.object = number(object);
    root_.name = types_.class_name(types_.raw_type(object));
    names_.clear();
  }

  bool has_state(PyObject* module) const {
    bool any = false;
    for (const evidence::ModuleTable& table : evidence::kStateTables)
      each_entry(api_, evidence::module_table(api_, module, table).get(),
                 [&](const std::string&, PyObject* value) { any = any || types_.sort(value) == Sort::tensor; });
    return any;
  }

  // accelerate brings such a module's weights to their device for its forward and takes them away again: where they are
  // found depends on the moment.
  bool offloads(PyObject* dict, const char* what) const {
    const Ref hook = python::entry(api_, dict, "_hf_hook");
    if (!hook) return false;
    const auto attribute = [&](PyObject* object, const char* name) {
      return python::entry(api_, python::instance_dict(api_, object).get(), name);
    };
    const auto says = [&](PyObject* object) { return python::is_true(api_, attribute(object, what).get()); };
    const Ref several = attribute(hook.get(), "hooks");  // a SequentialHook's
    if (!several || python::shape_of(api_, several.get()) != Shape::tuple) return says(hook.get());
    for (python::Elements each(api_, several.get(), kMostElements); each.next();)
      if (says(each.value())) return true;
    return false;
  }

  void enter_module(PyObject* module, const std::string& prefix, bool offloaded, int depth) {
    if (depth > kDeepest || std::find(on_way_.begin(), on_way_.end(), module) != on_way_.end()) return;
    on_way_.push_back(module);
    const Ref dict = python::instance_dict(api_, module);
    const bool own = offloads(dict.get(), "offload");
    const auto enter_table = [&](const evidence::ModuleTable& table, bool away) {
      each_entry(api_, evidence::module_table(api_, module, table).get(), [&](const std::string& key, PyObject* value) {
        if (types_.sort(value) == Sort::tensor) add(value, prefix + key, table.role, away);
      });
    };
    enter_table(evidence::kParameterTable, offloaded || own);
    enter_table(evidence::kBufferTable, offloaded || (own && offloads(dict.get(), "offload_buffers")));
    each_entry(api_, dict.get(), [&](const std::string& key, PyObject* value) {
      if (is_modules_own(key)) return;
      const bool cache = names_a_cache(key) || types_.sort(value) == Sort::cache;
      enter(value, prefix + key, cache ? "cache" : "attribute", 0);
    });
    const bool below = offloaded || (own && offloads(dict.get(), "place_submodules"));
    each_child(module, [&](const std::string& key, PyObject* child) {
      enter_module(child, prefix + key + ".", below, depth + 1);
    });
    on_way_.pop_back();
  }

  // Tensors that are no module's state: in lists, tuples, dicts and caches.
  void enter(PyObject* value, const std::string& name, const char* kind, int depth) {
    const Sort sort = types_.sort(value);
    if (sort == Sort::tensor) return add(value, name, kind, false);
    if (sort == Sort::module || depth > kDeepestContainer) return;
    const std::string prefix = name.empty() ? "" : name + ".";
    const auto element = [&](const std::string& key, PyObject* inner) { enter(inner, prefix + key, kind, depth + 1); };
    const unsigned long flags = api_.PyType_GetFlags(types_.raw_type(value));
    if (flags & python::kDictFlag) {
      each_entry(api_, value, element);
    } else if (flags & (python::kListFlag | python::kTupleFlag)) {
      evidence::parts_of(api_, value, kMostElements, false,
                         [&](const evidence::Part& part) { element(part.name(api_), part.value); });
    } else if (sort == Sort::cache || (kind == std::string_view("cache") && is_layer(value))) {
      if (sort == Sort::cache && number(value) != root_.object) caches_.insert(number(value));
      each_entry(api_, python::instance_dict(api_, value).get(), element);
    }
  }

  // transformers keeps a cache as a list of DynamicLayer, StaticLayer, …
  bool is_layer(PyObject* value) const { return types_.class_name(types_.raw_type(value)).ends_with("Layer"); }

  void keep_state(PyObject* value, int depth) {
    if (!value || depth > kDeepestContainer) return;
    if (types_.sort(value) == Sort::tensor) return add_used(value, Use::optimizer);
    if (types_.sort(value) == Sort::other)
      evidence::parts_of(api_, value, kMostElements, false,
                         [&](const evidence::Part& part) { keep_state(part.value, depth + 1); });
  }

  void add_used(PyObject* tensor, Use use) {
    const Ref local = torch_.is_opaque(tensor) ? local_part(tensor) : Ref::borrowed(api_, tensor);
    if (!local || used_.size() >= kMostUsed) return;
    if (torch_.placement(local.get()).device.starts_with("cuda")) used_.push_back({torch_.storage(local.get()), use});
  }

  void add(PyObject* tensor, const std::string& name, const char* kind, bool offloaded) {
    if (placed_ >= kMostPlaced) {
      ++root_.left_out;
      return;
    }
    PlacedTensor placed{name, kind, "", 0, ""};
    const auto [known, fresh] = names_.try_emplace(tensor, name);
    if (!fresh) placed.same_as = known->second;
    const Ref local = torch_.is_opaque(tensor) ? local_part(tensor) : Ref::borrowed(api_, tensor);
    evidence::TensorPlacement where;
    if (local) where = torch_.placement(local.get());
    if (where.device.empty()) {
      ++root_.left_out;
      return;
    }
    ++placed_;
    if (fresh && where.device.starts_with("cuda") && used_.size() < kMostUsed) {
      const bool cache = kind == std::string_view("cache");
      used_.push_back({torch_.storage(local.get()), cache ? Use::cache : Use::weights});
      if (kind == std::string_view(evidence::kParameterTable.role))
        if (const Ref gradient = torch_.gradient(tensor); gradient && types_.sort(gradient.get()) == Sort::tensor)
          add_used(gradient.get(), Use::gradients);
    }
    placed.device = offloaded ? "meta" : std::move(where.device);
    placed.bytes = where.bytes;
    root_.tensors.push_back(std::move(placed));
  }

  // Of a DTensor this process's own piece. Other tensors with a dispatch of their own are not asked.
  Ref local_part(PyObject* tensor) const {
    if (types_.class_name(types_.raw_type(tensor)) != "DTensor") return {};
    ObjectWalk objects{api_, torch_};
    Ref local = objects.step(tensor, {evidence::Step::attribute, "_local_tensor"}).first;
    return local && torch_.is_tensor(local.get()) && !torch_.is_opaque(local.get()) ? std::move(local) : Ref();
  }

  const Api& api_;
  const Torch& torch_;
  Types& types_;
  PlacedRoot root_;
  std::unordered_map<PyObject*, std::string> names_;
  std::unordered_set<uintptr_t> caches_;
  std::vector<PyObject*> on_way_;  // modules may hold each other
  size_t placed_ = 0;
  std::vector<UsedTensor> used_;
};

}  // namespace

LiveModules live_modules(const Api& api, const Torch& torch, const std::vector<uintptr_t>& wanted) {
  const python::NoCollector quiet(api);
  const std::optional<uint16_t> header = python::extra_header(api);
  if (!header) return {};
  Types types(api, torch, *header);
  Found found(api, types);
  found.search();
  Walk walk(api, torch, types);
  std::unordered_map<PyObject*, PyObject*> parents;
  for (const Ref& module : found.modules())
    walk.each_child(module.get(), [&](const std::string&, PyObject* child) { parents.emplace(child, module.get()); });
  LiveModules live;
  live.cut = found.cut();
  std::unordered_set<PyObject*> roots;
  const auto keep = [&](PlacedRoot root) {
    if (root.tensors.empty() && root.left_out == 0) return;
    if (live.roots.size() == kMostRoots)
      live.cut = true;
    else
      live.roots.push_back(std::move(root));
  };
  for (const Ref& module : found.modules()) {
    if (parents.contains(module.get()) || walk.is_replica(module.get())) continue;
    PyObject* root = walk.unwrapped(module.get());
    if (roots.insert(root).second) keep(walk.module_root(root));
  }
  for (const Ref& cache : found.caches())
    if (!walk.is_part(number(cache.get()))) keep(walk.cache_root(cache.get()));
  std::erase_if(live.roots, [&](const PlacedRoot& root) { return walk.is_part(root.object); });
  for (const uintptr_t object : wanted) {
    auto* part = reinterpret_cast<PyObject*>(object);
    auto parent = parents.find(part);
    if (parent == parents.end() || roots.contains(part)) continue;
    PyObject* top = part;
    for (int depth = 0; parent != parents.end() && depth < kDeepest; ++depth) {
      top = parent->second;
      if (roots.contains(top)) break;
      parent = parents.find(top);
    }
    live.parts.push_back({object, types.class_name(types.raw_type(part)), number(top)});
  }
  for (const Ref& optimizer : found.optimizers()) walk.optimizer_state(optimizer.get());
  live.used = walk.take_used();
  name_roots(live.roots);
  return live;
}

}  // namespace devtrace::placement
