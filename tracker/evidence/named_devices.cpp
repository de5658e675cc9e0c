#include "tracker/evidence/named_devices.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "tracker/python/gil/dict_entries.h"
#include "tracker/python/gil/elements.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;
using python::Shape;

constexpr ssize_t kMost = 64;                                           // of one list or dict
constexpr std::string_view kTypes[] = {"cpu", "cuda", "meta", "disk"};  // the last is accelerate's
// What has a device that C code tells.
constexpr std::string_view kOnADevice[] = {"Stream", "ExternalStream", "Event", "Generator", "UntypedStorage"};

// A class made in C does not keep its module's name; Python code cannot make one.
bool of_torch(const Api& api, PyObject* type) {
  if (python::is_builtin(api, type)) return true;
  const std::string module = python::text(api, python::attribute(api, type, "__module__").get());
  return module == "torch" || module.starts_with("torch.");
}

bool is_device(std::string_view text) {
  const std::string_view type = text.substr(0, text.find(':'));
  if (std::find(std::begin(kTypes), std::end(kTypes), type) == std::end(kTypes)) return false;
  if (type.size() == text.size()) return true;
  const std::string_view index = text.substr(type.size() + 1);
  return !index.empty() && index.size() <= 3 &&
         std::all_of(index.begin(), index.end(), [](unsigned char c) { return std::isdigit(c); });
}

// torch.cuda.FloatStorage and its like: legacy classes of what lies on the current device.
bool is_class_of_cuda(const Api& api, PyObject* value) {
  const std::string name = python::type_name(api, value);
  return (name.ends_with("Storage") || name.ends_with("Tensor")) &&
         python::text(api, python::attribute(api, value, "__module__").get()) == "torch.cuda";
}

std::string device_of(const Api& api, PyObject* value) {
  if (python::shape_of(api, value) == Shape::unicode) {
    std::string text = python::text(api, value);
    return is_device(text) ? text : std::string();
  }
  if (python::is_class(api, value)) return is_class_of_cuda(api, value) ? "cuda" : std::string();
  const Ref type = python::type_of(api, value);
  const std::string name = python::type_name(api, type.get());
  if (!of_torch(api, type.get())) return {};
  if (name == "device") return python::as_text(api, value);
  if (name == "TypedStorage" || name.ends_with("Storage")) {
    // The legacy classes keep one in theirs; their property is Python code.
    const Ref own = python::instance_dict(api, value);
    const Ref untyped = python::entry(api, own.get(), "_untyped_storage");
    if (untyped && untyped.get() != value) return device_of(api, untyped.get());
  }
  if (std::find(std::begin(kOnADevice), std::end(kOnADevice), name) == std::end(kOnADevice)) return {};
  const Ref device = python::attribute(api, value, "device");
  return device && class_of(api, device.get()) == "device" ? python::as_text(api, device.get()) : std::string();
}

template <class Visit>
void for_each_entry(const Api& api, PyObject* dict, const Visit& visit) {
  ssize_t seen = 0;
  for (python::DictEntries each(api, dict); seen < kMost && each.next(); ++seen) visit(each.value());
}

}  // namespace

void for_each_mapped_device(const Api& api, PyObject* map, const std::function<void(const std::string&)>& visit) {
  if (python::shape_of(api, map) != Shape::dict) return;
  for_each_entry(api, map, [&](PyObject* value) {
    std::string device = device_of_index(api, value);
    if (device.empty()) device = device_of(api, value);
    if (!device.empty()) visit(device);
  });
}

void for_each_named_device(const Api& api, const Torch& torch, PyObject* value,
                           const std::function<void(const std::string&)>& visit) {
  if (torch.is_tensor(value) || torch.is_module(value)) return;
  const auto give = [&](PyObject* one) {
    if (const std::string device = device_of(api, one); !device.empty()) visit(device);
  };
  switch (python::shape_of(api, value)) {
    case Shape::tuple:
    case Shape::list:
      for (python::Elements each(api, value, kMost); each.next();) give(each.value());
      break;
    case Shape::dict:
      for_each_entry(api, value, give);
      break;
    case Shape::unicode:
    case Shape::other:
      give(value);
  }
}

std::string device_of_index(const Api& api, PyObject* value) {
  if (class_of(api, value) != "int") return {};
  constexpr long long kMostDevices = 128;
  const long long index = python::integer(api, value, -1);
  return index >= 0 && index < kMostDevices ? "cuda:" + std::to_string(index) : std::string();
}

}  // namespace devtrace::evidence
