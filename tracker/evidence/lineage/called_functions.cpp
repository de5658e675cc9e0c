#include "tracker/evidence/lineage/called_functions.h"

#include <algorithm>
#include <deque>
#include <sstream>

#include "common/python_scan.h"
#include "common/text.h"
#include "tracker/evidence/lineage/tensors_around.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;

constexpr size_t kMostFollowed = 16;
constexpr int kMostCalledLines = 48;

// `self.encode` and `scaled` of `x = self.encode(scaled(y))`, each once, in their order.
std::vector<std::string> callees_in(std::string_view text) {
  std::vector<std::string> found;
  const Scan scan(text);
  for (size_t open = text.find('('); open != text.npos; open = text.find('(', open + 1)) {
    size_t begin = open;
    while (begin > 0 && (word_char(text[begin - 1]) || text[begin - 1] == '.')) --begin;
    const std::string name(text.substr(begin, open - begin));
    const bool defines = text.substr(0, begin).ends_with("def ") || text.substr(0, begin).ends_with("class ");
    if (name.empty() || name[0] == '.' || !scan.code[open] || defines) continue;
    if (std::ranges::find(found, name) == found.end()) found.push_back(name);
  }
  return found;
}

// A Python function, and the object whose method it is, as its first argument.
struct CalledBy {
  Ref function, object;
};

// The function that an attribute of a class or an object, or a variable, is when it is called.
CalledBy function_of(const Api& api, Ref value, Ref object) {
  for (int step = 0; value && step < 4; ++step) {
    const std::string kind = python::type_name(api, python::type_of(api, value.get()).get());
    if (kind == "function") {
      Ref wrapped = python::entry(api, python::instance_dict(api, value.get()).get(), "__wrapped__");
      if (!wrapped) return {std::move(value), std::move(object)};
      value = std::move(wrapped);
    } else if (kind == "method" || kind == "staticmethod" || kind == "classmethod") {
      object = kind == "staticmethod" ? Ref()
               : kind == "method"     ? python::attribute(api, value.get(), "__self__")
                                      : std::move(object);
      value = python::attribute(api, value.get(), "__func__");
    } else {
      return {};
    }
  }
  return {};
}

class CallFinder {
 public:
  CallFinder(const Api& api, const Torch& torch, const std::vector<Frame>& frames, const Scope& scope, ObjectWalk& walk,
             Holders& holders, const KnownNames& names, const SourceText& source)
      : api_(api),
        torch_(torch),
        frames_(frames),
        scope_(scope),
        walk_(walk),
        holders_(holders),
        names_(names),
        source_(source) {}

  finding::List<finding::CalledFunction> run() {
    for (size_t frame = 0; frame < frames_.size(); ++frame) {
      const Frame& here = frames_[frame];
      if (here.around.text.empty()) continue;
      const FunctionText* const text = names_.function_of(here.file, here.function, here.region.line);
      if (!text) continue;
      // What comes next is asked for first.
      std::string below, above;
      int line = here.around.line;
      std::istringstream lines(here.around.text);
      for (std::string each; std::getline(lines, each); ++line)
        if (line >= text->first && line <= text->last)
          (line < here.region.line ? above : below).append(each).append("\n");
      finding::CalledFunction by;
      by.frame = frame;
      add(by, below + above, [&](const std::string& name) { return scope_.follow({name, {}}, frame).value; });
    }
    for (size_t i = 0; i < owners_.size(); ++i) {
      if (found_[i].by != finding::kNoIndex) break;  // two deep
      const CalledBy& own = owners_[i];
      finding::CalledFunction by;
      by.by = i;
      const std::string& text = found_[i].code.around.text;
      add(by, text.substr(std::min(text.find('\n'), text.size())), [&](const std::string& name) {
        if (name == "self" || name == "cls") return own.object ? Ref::borrowed(api_, own.object.get()) : Ref();
        return python::entry(api_, python::attribute(api_, own.function.get(), "__globals__").get(), name);
      });
    }
    return std::move(found_);
  }

 private:
  template <typename LookUp>
  void add(const finding::CalledFunction& by, const std::string& text, const LookUp& look_up) {
    for (const std::string& callee : callees_in(text)) {
      if (found_.size() == kMostFollowed) return;
      Ref object, value;
      for (size_t begin = 0, end = 0; end != callee.npos; begin = end + 1) {
        end = callee.find('.', begin);
        const std::string name = callee.substr(begin, end - begin);
        object = std::move(value);
        if (begin == 0) {
          value = look_up(name);
        } else {
          value = walk_.step(object.get(), {Step::attribute, name, 0}).first;
          if (!value) value = python::attribute(api_, object.get(), name.c_str());
        }
        if (!value) break;
      }
      if (value) add(by, callee, std::move(value), std::move(object));
    }
  }

  void add(finding::CalledFunction by, const std::string& callee, Ref value, Ref object) {
    if (torch_.is_module(value.get())) return;
    CalledBy function = function_of(api_, Ref::borrowed(api_, value.get()), std::move(object));
    if (!function.function && !python::is_class(api_, value.get())) {
      Ref called = python::attribute(api_, python::type_of(api_, value.get()).get(), "__call__");
      function = function_of(api_, std::move(called), std::move(value));
    }
    const Ref code = function.function ? python::attribute(api_, function.function.get(), "__code__") : Ref();
    const auto runs = [&](const Frame& each) { return each.code.get() == code.get(); };
    if (!code || std::ranges::any_of(frames_, runs)) return;
    by.code.file = python::text(api_, python::attribute(api_, code.get(), "co_filename").get());
    if (!is_project_file(by.code.file, source_.standard_library)) return;
    by.code.function = python::text(api_, python::attribute(api_, code.get(), "co_qualname").get());
    const std::string name = python::text(api_, python::attribute(api_, code.get(), "co_name").get());
    if (by.code.function.empty()) by.code.function = name;
    const Lines& lines = source_.file(by.code.file);
    const auto first =
        static_cast<int>(python::integer(api_, python::attribute(api_, code.get(), "co_firstlineno").get(), 0));
    const FunctionText* text = nullptr;
    for (int line = std::max(1, first); !text && line < first + 8 && line <= static_cast<int>(lines.size()); ++line)
      if (lines[static_cast<size_t>(line) - 1].find("def " + name + "(") != std::string::npos)
        text = names_.function_of(by.code.file, name, line);
    if (!text || text->module) return;
    const auto same = [&](const finding::CalledFunction& each) {
      return each.frame == by.frame && each.by == by.by && each.expression == callee;
    };
    if (std::ranges::any_of(found_, same)) return;
    by.expression = callee;
    by.code.line = text->first;
    by.code.project = true;
    by.code.around =
        around(lines, text->first, text->first, {0, std::min(text->last - text->first, kMostCalledLines - 1)});
    if (text->method && function.object)
      by.tensors =
          tensors_of(api_, torch_, function.object.get(), text->parameters[0], by.code.around.text, walk_, holders_);
    found_.push_back(std::move(by));
    owners_.push_back(std::move(function));
  }

  const Api& api_;
  const Torch& torch_;
  const std::vector<Frame>& frames_;
  const Scope& scope_;
  ObjectWalk& walk_;
  Holders& holders_;
  const KnownNames& names_;
  const SourceText& source_;
  finding::List<finding::CalledFunction> found_;
  std::deque<CalledBy> owners_;  // of each of these; it grows while they are read
};

}  // namespace

finding::List<finding::CalledFunction> called_functions(const Api& api, const Torch& torch,
                                                        const std::vector<Frame>& frames, const Scope& scope,
                                                        ObjectWalk& walk, Holders& holders, const KnownNames& names,
                                                        const SourceText& source) {
  return CallFinder(api, torch, frames, scope, walk, holders, names, source).run();
}

}  // namespace devtrace::evidence
