#include "tracker/evidence/source/raising_code.h"

#include <string_view>

#include "common/text.h"
#include "tracker/evidence/source/expression.h"

namespace devtrace::evidence {
namespace {

// The folder of a package below site-packages; empty: the standard library's, or no package at all.
std::string_view package_of(std::string_view file) {
  const std::string_view rest = within_packages(file);
  return rest.substr(0, rest.find('/'));
}

// Whose __call__ runs another function of the module's.
bool calls_modules(const Frame& frame) {
  return frame.torch && frame.file.ends_with("/torch/nn/modules/module.py");
}

// torch.no_grad() and the like give the function that stands in front of another one their own name since 2.15.
bool decorates(const Frame& frame) {
  return frame.function.find("<locals>") != frame.function.npos ||
         (frame.torch && frame.file.ends_with("/torch/utils/_contextlib.py"));
}

// `torch.arange` of `torch.arange(3, out=x)`.
std::string written_name(const python::Api& api, const Frame& frame) {
  if (!frame.exact) return {};
  const std::vector<Operation> operations = read_expression(api, frame.expression, true, frame.statement).operations;
  if (operations.size() != 1 || !operations[0].callee || !operations[0].callee->path) return {};
  std::string name = to_string(*operations[0].callee->path);
  return name.starts_with("torch.") ? name : std::string();
}

// `apply_` of `x.apply_(f)`: a method whose class is not known.
std::string written_method(const python::Api& api, const Frame& frame) {
  if (!frame.exact) return {};
  const std::vector<Operation> operations = read_expression(api, frame.expression, true, frame.statement).operations;
  if (operations.size() != 1 || !operations[0].callee) return {};
  const std::string& text = operations[0].callee->text;
  const size_t dot = text.rfind('.');
  return dot == text.npos ? std::string() : text.substr(dot + 1);
}

// `torch.nn.LSTM` for LSTM.forward of torch.nn.modules.rnn: the outermost package that has the same object.
std::string public_name(const python::Api& api, const Frame& frame) {
  const python::Ref globals = frame.globals(api);
  const std::string module = python::text(api, python::entry(api, globals.get(), "__name__").get());
  if (module.empty()) return {};
  std::string function = frame.function;
  for (const std::string_view method : {".forward", ".__init__", ".__new__", ".__call__"})
    if (function.ends_with(method)) function.resize(function.size() - method.size());
  const std::string first = function.substr(0, function.find('.'));
  const python::Ref object = python::entry(api, globals.get(), first);
  for (size_t end = module.find('.'); object && end != module.npos; end = module.find('.', end + 1)) {
    const python::Ref package = python::imported_module(api, module.substr(0, end).c_str());
    const python::Ref names = package ? python::instance_dict(api, package.get()) : python::Ref();
    if (python::entry(api, names.get(), first).get() == object.get()) return module.substr(0, end) + "." + function;
  }
  return module + "." + function;
}

}  // namespace

size_t asking_frame(const std::vector<Frame>& frames) {
  if (frames[0].project) return 0;
  const std::string_view package = package_of(frames[0].file);
  for (size_t i = 1; i < frames.size(); ++i) {
    if (frames[i].project) return i;
    const std::string_view other = package_of(frames[i].file);
    if (!other.empty() && other != package) return i;
  }
  return frames.size() - 1;
}

bool compiling(const std::vector<Frame>& frames) {
  for (const Frame& frame : frames)
    if (frame.project) return frame.compiled;
  return false;
}

std::string called_function(const python::Api& api, const std::vector<Frame>& frames, size_t asking) {
  if (std::string text = written_name(api, frames[asking]); !text.empty()) return text;
  // Decorators and nn.Module.__call__ stand in front of what was called.
  size_t inner = asking;
  while (inner > 0 && (calls_modules(frames[inner - 1]) || decorates(frames[inner - 1]))) --inner;
  if (inner == 0) inner = asking;
  if (inner == 0) return written_method(api, frames[asking]);
  if (frames[inner - 1].project) return {};
  return public_name(api, frames[inner - 1]);
}

}  // namespace devtrace::evidence
