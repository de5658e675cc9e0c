#include "tracker/evidence/lineage/tensors_around.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "common/name_steps.h"
#include "common/python_scan.h"
#include "tracker/evidence/named_devices.h"
#include "tracker/evidence/objects/accelerate_hooks.h"
#include "tracker/python/gil/dict_entries.h"

namespace devtrace::evidence {
namespace {

bool names(const std::string& text, const std::string& name) {
  for (size_t at = 0; (at = text.find(name, at)) != text.npos; ++at) {
    const bool begins = at == 0 || (!word_char(text[at - 1]) && text[at - 1] != '.');
    const size_t end = at + name.size();
    if (begins && (end == text.size() || !word_char(text[end]) || !word_char(name.back()))) return true;
  }
  return false;
}

bool begins_name(const std::string& text, size_t at) {
  return at < text.size() && word_char(text[at]) && !std::isdigit(static_cast<unsigned char>(text[at]));
}

// `self.keys[layer]`, each once: what a variable chooses has another name where it is kept. And `batch.images`, of an
// object that is not looked into as a whole. As far as each of its steps.
std::set<std::string> named_by_steps(const std::string& text) {
  std::set<std::string> found;
  const auto word_end = [&](size_t at) {
    while (at < text.size() && word_char(text[at])) ++at;
    return at;
  };
  for (size_t begin = 0, end = 1; begin < text.size(); begin = end++) {
    if (!word_char(text[begin])) continue;
    end = word_end(begin);
    if (!begins_name(text, begin) || (begin > 0 && text[begin - 1] == '.')) continue;
    bool elements = false;
    const bool own = text.compare(begin, end - begin, "self") == 0;
    while (begins_name(text, end + 1)) {
      const size_t after = word_end(end + 1);
      if (text[end] == '.' && (after == text.size() || text[after] != '(')) {
        end = after;
      } else if (text[end] == '[' && after < text.size() && text[after] == ']') {
        elements = true;
        end = after + 1;
      } else {
        break;
      }
      if (elements || !own) found.insert(text.substr(begin, end - begin));
    }
  }
  return found;
}

// `self.device` and `DEVICE`, each once: names that say what they are.
std::set<std::string> named_as_devices(std::string_view text) {
  std::set<std::string> found;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = begin;
    while (end < text.size() && (word_char(text[end]) || text[end] == '.')) ++end;
    const std::string name(text.substr(begin, end - begin));
    std::string last = name.substr(name.rfind('.') + 1);
    std::ranges::transform(last, last.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool called = end < text.size() && text[end] == '(';
    if (begins_name(name, 0) && !called && last.find("device") != last.npos) found.insert(name);
  }
  return found;
}

bool has_state(const python::Api& api, const Torch& torch, PyObject* module) {
  bool any = false;
  for_each_state_tensor(api, torch, module, [&](PyObject*, const std::string&, const char*) {
    any = true;
    return false;
  });
  return any;
}

// What a text names, at most 32.
class Named {
 public:
  // `elements`: note_elements() will be asked, for which all that has no name in the text is looked at.
  Named(const python::Api& api, const Torch& torch, const std::string& text, ObjectWalk& walk, Holders& holders,
        bool elements)
      : api_(api), torch_(torch), text_(text), walk_(walk), holders_(holders), by_element_(elements) {}

  void visit(const ReachedObject& reached) {
    if (found.size() == kMost) return;
    if (!names(text_, reached.name)) {
      if (by_element_) visit_element(reached);
      return;
    }
    if (torch_.is_module(reached.object) && names(text_, reached.name + "(")) {
      const auto& devices = holders_.devices_of(reached.object);
      const bool told = devices.size() == 1 || (devices.empty() && !has_state(api_, torch_, reached.object));
      if (told && hook_of(api_, reached.object).empty()) note(reached.name + "()", devices.empty() ? "" : devices[0]);
    }
    if (!torch_.is_tensor(reached.object) || torch_.is_opaque(reached.object)) return;
    const TensorFacts facts = torch_.facts(reached.object);
    if (facts.device.empty() || facts.device == "meta" || (facts.device == "cpu" && facts.shape.empty())) return;
    note(reached.name, facts.device);
  }

  void visit_variable(PyObject* value, const std::string& variable, bool own) {
    if (!names(text_, variable)) return;
    const auto visit_one = [&](const ReachedObject& reached) { visit(reached); };
    const bool module = torch_.is_module(value);
    walk_.walk(value, variable, 2, own, visit_one);
    if (!module) return;
    for_each_state_tensor(api_, torch_, value, [&](PyObject* tensor, const std::string& name, const char* role) {
      visit({tensor, variable + "." + name, role});
      return true;
    });
    const python::Ref children = module_table(api_, value, kChildTable);
    for (python::DictEntries each(api_, children.get()); each.next();)
      visit({each.value(), variable + "." + python::text(api_, each.key()), kChildTable.role});
    if (names(text_, variable + ".")) walk_.module_attributes(value, variable, 2, visit_one);
  }

  // `self.sums[name]`, whichever it is, where all that were reached lie on one device.
  void note_elements() {
    for (const auto& [name, devices] : elements_)
      if (devices.size() == 1) note(name, *devices.begin());
  }

  finding::List<finding::DeviceExpression> found;

 private:
  static constexpr size_t kMost = 32;

  void visit_element(const ReachedObject& reached) {
    const std::string container = reached.name.substr(0, reached.name.rfind('[') + 1);
    if (!container.ends_with('[') || !torch_.is_tensor(reached.object) || torch_.is_opaque(reached.object)) return;
    const std::string device = torch_.facts(reached.object).device;
    for (size_t at = 0; (at = text_.find(container, at)) != text_.npos; ++at) {
      size_t end = at + container.size();
      if (!begins_name(text_, end)) continue;
      while (end < text_.size() && word_char(text_[end])) ++end;
      const std::string name = text_.substr(at, end + 1 - at);
      if (!name.ends_with(']') || !names(text_, name)) continue;
      elements_[name].insert(device);
    }
  }

  void note(std::string expression, std::string device) { found.push_back({std::move(expression), std::move(device)}); }

  const python::Api& api_;
  const Torch& torch_;
  const std::string& text_;
  ObjectWalk& walk_;
  Holders& holders_;
  const bool by_element_;
  std::map<std::string, std::set<std::string>> elements_;  // their devices
};

// Calls `visit` with what an expression of a frame's text leads to, if it can be followed to its end.
template <class Visit>
void follow(const python::Api& api, const Scope& scope, const std::string& expression, size_t frame,
            const Visit& visit) {
  for (const Path& path : read_expression(api, expression, true, "").mentioned) {
    if (to_string(path) != expression) continue;
    if (const Scope::Found reached = scope.follow(path, frame); reached.value) visit(reached);
  }
}

}  // namespace

finding::List<finding::FrameExpression> tensors_around(const python::Api& api, const Torch& torch,
                                                       const std::vector<Frame>& frames, const Scope& scope,
                                                       ObjectWalk& walk, Holders& holders) {
  finding::List<finding::FrameExpression> found;
  for (size_t frame = 0; frame < frames.size(); ++frame) {
    if (frames[frame].around.text.empty()) continue;
    const std::string text = with_one_quote(frames[frame].around.text);
    Named named(api, torch, text, walk, holders, false);
    scope.for_each_local(frame, [&](const std::string& variable, PyObject* value) {
      named.visit_variable(value, variable, variable == "self");
    });
    for (const std::string& expression : named_by_steps(text))
      follow(api, scope, expression, frame, [&](const Scope::Found& reached) {
        named.visit({reached.value.get(), expression, reached.role});
      });
    for (finding::DeviceExpression& each : named.found) {
      finding::FrameExpression& told = found.emplace_back();
      static_cast<finding::DeviceExpression&>(told) = std::move(each);
      told.frame = frame;
    }
  }
  return found;
}

finding::List<finding::FrameExpression> devices_around(const python::Api& api, const Torch& torch,
                                                       const std::vector<Frame>& frames, const Scope& scope) {
  finding::List<finding::FrameExpression> found;
  for (size_t frame = 0; frame < frames.size(); ++frame) {
    const auto note = [&](const std::string& name, PyObject* value) {
      if (python::shape_of(api, value) != python::Shape::other &&
          python::shape_of(api, value) != python::Shape::unicode)
        return;
      for_each_named_device(api, torch, value, [&](const std::string& device) {
        finding::FrameExpression& told = found.emplace_back();
        told.frame = frame;
        told.expression = name;
        told.device = device;
      });
    };
    if (frames[frame].around.text.empty()) continue;
    for (const std::string& name : named_as_devices(frames[frame].around.text))
      follow(api, scope, name, frame, [&](const Scope::Found& reached) { note(name, reached.value.get()); });
  }
  return found;
}

finding::List<finding::DeviceExpression> tensors_of(const python::Api& api, const Torch& torch, PyObject* object,
                                                    const std::string& name, const std::string& text, ObjectWalk& walk,
                                                    Holders& holders) {
  const std::string one_quote = with_one_quote(text);
  Named named(api, torch, one_quote, walk, holders, true);
  named.visit_variable(object, name, true);
  named.note_elements();
  return std::move(named.found);
}

}  // namespace devtrace::evidence
