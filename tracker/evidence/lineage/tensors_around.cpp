#include "tracker/evidence/lineage/tensors_around.h"

#include <algorithm>

#include "common/python_scan.h"

namespace devtrace::evidence {
namespace {

constexpr size_t kMostInFrame = 32;

// With one kind of quotes, as names have them.
std::string unified(std::string text) {
  std::replace(text.begin(), text.end(), '\'', '"');
  return text;
}

bool names(const std::string& text, const std::string& name) {
  for (size_t at = 0; (at = text.find(name, at)) != text.npos; ++at) {
    const bool begins = at == 0 || (!word_char(text[at - 1]) && text[at - 1] != '.');
    const size_t end = at + name.size();
    if (begins && (end == text.size() || !word_char(text[end]) || !word_char(name.back()))) return true;
  }
  return false;
}

}  // namespace

finding::List<finding::FrameExpression> tensors_around(const python::Api& api, const Torch& torch,
                                                       const std::vector<Frame>& frames, const Scope& scope,
                                                       ObjectWalk& walk) {
  finding::List<finding::FrameExpression> found;
  for (size_t frame = 0; frame < frames.size(); ++frame) {
    if (frames[frame].around.text.empty()) continue;
    const std::string text = unified(frames[frame].around.text);
    const size_t before = found.size();
    const auto visit = [&](const ReachedObject& reached) {
      if (found.size() - before == kMostInFrame || !torch.is_tensor(reached.object) ||
          torch.is_opaque(reached.object) || !names(text, reached.name))
        return;
      const TensorFacts facts = torch.facts(reached.object);
      if (facts.device.empty() || facts.device == "meta" || (facts.device == "cpu" && facts.shape.empty())) return;
      finding::FrameExpression& told = found.emplace_back();
      told.frame = frame;
      told.expression = reached.name;
      told.device = facts.device;
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
      if (variable == "self") walk.module_attributes(value, variable, 2, visit);
    });
  }
  return found;
}

}  // namespace devtrace::evidence
