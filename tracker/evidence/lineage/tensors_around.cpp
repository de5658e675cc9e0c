#include "tracker/evidence/lineage/tensors_around.h"

#include <cctype>
#include <set>

#include "common/name_steps.h"
#include "common/python_scan.h"
#include "tracker/evidence/objects/accelerate_hooks.h"
#include "tracker/python/gil/dict_entries.h"

namespace devtrace::evidence {
namespace {

constexpr size_t kMostInFrame = 32;

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

}  // namespace

finding::List<finding::FrameExpression> tensors_around(const python::Api& api, const Torch& torch,
                                                       const std::vector<Frame>& frames, const Scope& scope,
                                                       ObjectWalk& walk, Holders& holders) {
  finding::List<finding::FrameExpression> found;
  for (size_t frame = 0; frame < frames.size(); ++frame) {
    if (frames[frame].around.text.empty()) continue;
    const std::string text = with_one_quote(frames[frame].around.text);
    const size_t before = found.size();
    const auto note = [&](std::string expression, std::string device) {
      finding::FrameExpression& told = found.emplace_back();
      told.frame = frame;
      told.expression = std::move(expression);
      told.device = std::move(device);
    };
    const auto visit = [&](const ReachedObject& reached) {
      if (found.size() - before == kMostInFrame || !names(text, reached.name)) return;
      if (torch.is_module(reached.object) && names(text, reached.name + "(")) {
        const auto& devices = holders.devices_of(reached.object);
        if (devices.size() == 1 && hook_of(api, reached.object).empty()) note(reached.name + "()", devices[0]);
      }
      if (!torch.is_tensor(reached.object) || torch.is_opaque(reached.object)) return;
      const TensorFacts facts = torch.facts(reached.object);
      if (facts.device.empty() || facts.device == "meta" || (facts.device == "cpu" && facts.shape.empty())) return;
      note(reached.name, facts.device);
    };
    scope.for_each_local(frame, [&](const std::string& variable, PyObject* value) {
      if (!names(text, variable)) return;
      const bool module = torch.is_module(value);
      walk.walk(value, variable, 2, variable == "self", visit);
      if (!module) return;
      for_each_state_tensor(api, torch, value, [&](PyObject* tensor, const std::string& name, const char* role) {
        visit({tensor, variable + "." + name, role});
        return true;
      });
      const python::Ref children = module_table(api, value, kChildTable);
      for (python::DictEntries each(api, children.get()); each.next();)
        visit({each.value(), variable + "." + python::text(api, each.key()), kChildTable.role});
      if (names(text, variable + ".")) walk.module_attributes(value, variable, 2, visit);
    });
    for (const std::string& expression : named_by_steps(text)) {
      for (const Path& path : read_expression(api, expression, true, "").mentioned) {
        if (to_string(path) != expression) continue;
        if (const Scope::Found reached = scope.follow(path, frame); reached.value)
          visit({reached.value.get(), expression, reached.role});
      }
    }
  }
  return found;
}

}  // namespace devtrace::evidence
