#include "tracker/evidence/frames.h"

#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

#include "common/text.h"
#include "common/torch_function_frames.h"
#include "tracker/evidence/source/compiled_frames.h"
#include "tracker/evidence/source/generated_code.h"
#include "tracker/python/frame_decoder.h"
#include "tracker/python/objects/object_layout.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;

// What the user's function did above the line, and does below, tells what a repair has to reach, too.
constexpr Margin kNearby = {24, 32};
constexpr size_t kMostExcerpts = 4;

// The region of the instruction that a frame is executing, in bytes, from code.co_positions() (3.11 and later).
Region position_of(const Api& api, long long instruction, PyObject* code) {
  Region region;
  if (instruction < 0) return region;
  const Ref positions = python::call_method(api, code, "co_positions");
  if (!positions) return region;
  Ref position;
  for (long long i = 0; i <= instruction / 2; ++i) {
    position = Ref(api, api.PyIter_Next(positions.get()));
    if (!position) return region;
  }
  const auto at = [&](ssize_t i) {
    return static_cast<int>(python::integer(api, api.PyTuple_GetItem(position.get(), i), -1));
  };
  if (at(0) < 1) return region;
  return {at(0), at(1), at(2), at(3)};
}

void describe_code(const Api& api, Ref code, Frame& out) {
  out.file = python::text(api, python::attribute(api, code.get(), "co_filename").get());
  out.function = python::text(api, python::attribute(api, code.get(), "co_qualname").get());
  if (out.function.empty()) out.function = python::text(api, python::attribute(api, code.get(), "co_name").get());
  out.code = std::move(code);
}

Frame describe(const Api& api, const python::PythonReader& reader, const python::RawFrame& raw) {
  Frame out;
  describe_code(api, Ref::borrowed(api, python::code_of(raw)), out);
  out.region = position_of(api, raw.offset, out.code.get());
  if (out.region.line < 1) out.region = Region{python::line_of(reader.layout, raw), 0, -1, -1};
  out.reader = &reader;
  out.live = raw;
  return out;
}

// Of a Python whose frames are not known as memory.
Frame describe(const Api& api, Ref frame) {
  Frame out;
  describe_code(api, Ref(api, api.PyFrame_GetCode(frame.get())), out);
  const long long instruction = python::integer(api, python::attribute(api, frame.get(), "f_lasti").get(), -1);
  out.region = position_of(api, instruction, out.code.get());
  if (out.region.line < 1) out.region = Region{api.PyFrame_GetLineNumber(frame.get()), 0, -1, -1};
  out.frame = std::move(frame);
  return out;
}

// Of such a frame: a function's variables stay in a dict on the frame up to 3.12. Later a proxy reads them where they
// are; a body's are a dict of its own.
Ref variables_left_alone(const Api& api, PyObject* frame, PyObject* code) {
  constexpr int kSelfContained = 13;
  const std::string_view version = api.Py_GetVersion();
  const bool proxy = version.starts_with("3.") && std::atoi(version.data() + 2) >= kSelfContained;
  const long long flags = python::integer(api, python::attribute(api, code, "co_flags").get(), 0);
  if (!proxy && (flags & python::kOptimized)) return {};
  Ref mapping = python::attribute(api, frame, "f_locals");
  if (!mapping) return {};
  // exec() may give a frame a mapping of the user's own class: reading it would run the user's code.
  const std::string kind = python::type_name(api, python::type_of(api, mapping.get()).get());
  return kind == "dict" || kind == "FrameLocalsProxy" ? std::move(mapping) : Ref();
}

// After `x[i]`: is it the target of a plain assignment?
bool is_assigned(const std::string& rest) {
  const size_t at = rest.find_first_not_of(" \t");
  return at != std::string::npos && rest[at] == '=' && (at + 1 == rest.size() || rest[at + 1] != '=');
}

bool ends_with(const std::string& text, char last) {
  const size_t at = text.find_last_not_of(" \t");
  return at != std::string::npos && text[at] == last;
}

}  // namespace

Ref Frame::locals(const Api& api) const {
  if (compiled) return Ref::borrowed(api, compiled_locals.get());
  return reader ? python::variables_of(api, *reader, live) : variables_left_alone(api, frame.get(), code.get());
}

Ref Frame::globals(const Api& api) const {
  if (compiled) return Ref::borrowed(api, compiled_globals.get());
  return reader ? python::globals_of(api, *reader, live) : python::attribute(api, frame.get(), "f_globals");
}

// Is it one of the first `count` names?
static bool has_name(const Api& api, const Ref& names, long long count, const std::string& name) {
  if (!names) return false;
  for (ssize_t i = 0, n = api.PyTuple_Size(names.get()); i < n && i < count; ++i)
    if (python::text(api, api.PyTuple_GetItem(names.get(), i)) == name) return true;
  return false;
}

bool Frame::is_of_closure(const Api& api, const std::string& name) const {
  return has_name(api, python::attribute(api, code.get(), "co_freevars"), std::numeric_limits<long long>::max(), name);
}

bool Frame::is_parameter(const Api& api, const std::string& name) const {
  constexpr long long kVarArguments = 0x04, kVarKeywords = 0x08;
  const long long flags = python::integer(api, python::attribute(api, code.get(), "co_flags").get(), 0);
  const long long count = python::integer(api, python::attribute(api, code.get(), "co_argcount").get(), 0) +
                          python::integer(api, python::attribute(api, code.get(), "co_kwonlyargcount").get(), 0) +
                          ((flags & kVarArguments) != 0) + ((flags & kVarKeywords) != 0);
  return has_name(api, python::attribute(api, code.get(), "co_varnames"), count, name);
}

std::vector<std::string> Frame::positional(const Api& api) const {
  const Ref names = python::attribute(api, code.get(), "co_varnames");
  const long long count = python::integer(api, python::attribute(api, code.get(), "co_argcount").get(), 0);
  std::vector<std::string> out;
  if (!names) return out;
  for (ssize_t i = 0, n = api.PyTuple_Size(names.get()); i < n && i < count; ++i)
    out.push_back(python::text(api, api.PyTuple_GetItem(names.get(), i)));
  return out;
}

std::vector<Frame> frames(const Api& api, const python::FrameSource& from, size_t most, const SourceReader& sources) {
  std::vector<Frame> found;
  size_t excerpts = 0;
  const std::string library = standard_library(api);
  const auto take = [&](Frame frame) {
    const Source& source = sources.file(frame.file);
    frame.project = is_project_file(frame.file, library) &&
                    !notice_generated(api, frame.file, source, frame.globals(api).get(), library);
    frame.torch = frame.file.find("/torch/") != std::string::npos && !frame.project;
    frame.region = source.closed(frame.region);
    frame.source = source.lines(frame.region);
    frame.source_line = source.first_line(frame.region);
    if (frame.project && excerpts++ < kMostExcerpts) frame.around = source.around(frame.region, kNearby);
    frame.exact = frame.region.column >= 0;
    const Region whole = source.with_receiver(frame.region);
    frame.expression = frame.exact ? source.text(whole) : frame.source;
    frame.cut = ends_with(source.before(whole), '.');
    if (is_assigned(source.after(frame.region))) frame.statement = source.lines({frame.region.line});
    found.push_back(std::move(frame));
  };
  const auto take_with_inlined = [&](Frame frame) {
    if (auto compiled = compiled_by(api, frame)) {
      Frame interpreted;
      describe_code(api, std::move(compiled->code), interpreted);
      interpreted.region = compiled->region;
      interpreted.compiled = true;
      interpreted.compiled_locals = std::move(compiled->locals);
      interpreted.compiled_globals = std::move(compiled->globals);
      take(std::move(interpreted));
    }
    take(std::move(frame));
  };
  for (const python::RawFrame& raw : python::live_frames(from, most))
    if (found.size() < most) take_with_inlined(describe(api, *from.reader, raw));
  Ref next = from.reader || !python::holds_gil(api) ? Ref() : Ref::borrowed(api, api.PyEval_GetFrame());
  while (next && found.size() < most) {
    Ref outer(api, api.PyFrame_GetBack(next.get()));
    take_with_inlined(describe(api, std::move(next)));
    next = std::move(outer);
  }
  leave_out_torch_function(found, [&](const Frame& frame) {
    const std::vector<std::string> given = frame.positional(api);  // the class or mode, and the function
    return frame.expression.starts_with("super().__torch_function__(") ||
           (given.size() > 1 && frame.expression.starts_with(given[1] + "("));
  });
  return found;
}

bool is_project_file(const std::string& file, const std::string& standard_library) {
  if (!within_packages(file).empty()) return false;
  if (file.starts_with("<frozen ") || file.starts_with("<__array_function__") || file.starts_with("<eval_with_key>"))
    return false;
  if (is_generated(file) || file.find("/devtrace_values/") != std::string::npos) return false;  // a rehearsal's own
  // Without the GIL nobody says where the standard library lies: as a rule in .../lib/python3.11/.
  if (standard_library.empty()) return file.find("/lib/python3.") == std::string::npos;
  return !file.starts_with(standard_library + "/");
}

std::string standard_library(const Api& api) {
  const Ref os = python::imported_module(api, "os");
  const std::string file = python::text(api, python::attribute(api, os.get(), "__file__").get());
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? std::string() : file.substr(0, slash);
}

}  // namespace devtrace::evidence
