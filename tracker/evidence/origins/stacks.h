// Stacks as a finding tells them: Python's and native ones, with the lines of their sources.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "finding/finding.h"
#include "tracker/evidence/frames.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::evidence {

// The text of a line and what stands around it: from Python, which knows notebooks too, or from disk, where the GIL
// may not be taken.
struct SourceText {
  std::function<std::string(const std::string& file, int line)> lines;
  std::function<int(const std::string& file, int line)> first_line;  // … of these
  std::function<finding::Around(const std::string& file, int line)> around;
  std::string standard_library = {};  // the interpreter's folder of it; empty: not known
  std::function<const std::vector<std::string>&(const std::string& file)> file = {};  // all its lines; may be none
};
SourceText source_from_disk();

// The statement of C++ that a line is of, at most ten lines.
std::string cpp_statement(const SourceText& source, const std::string& file, int line);

// A line as a finding has it. Of a line that is too long to be read there is none.
std::string shown_source(std::string text);
// The same for a line of Python, with where its statement begins.
void tell_source(finding::Frame& frame, const SourceText& source);

finding::Stack python_stack(const std::vector<Frame>& frames);
finding::Stack python_stack(const std::vector<stacks::PythonFrame>& frames, const SourceText& source);
// `kernel`: the launched one's name; a function of that name is nvcc's, which launches it.
finding::Stack native_stack(const std::vector<stacks::NativeFrame>& frames, const SourceText& source,
                            std::string_view kernel = {});

// Index of the user's innermost frame, from `from` on; nothing when there is none.
std::optional<size_t> innermost_project(const std::vector<stacks::PythonFrame>& stack, const SourceText& source,
                                        size_t from = 0);

// Where the code that made something stands in the stack that is running.
struct LiveLine {
  size_t frame;
  int line;  // of then
};
// The innermost frame that was already running then. Nothing of a stack that was cut.
std::optional<LiveLine> live_line(const std::vector<stacks::PythonFrame>& made, const std::vector<Frame>& frames);

// The calling thread's native stack, from the function outside this library that called into it.
struct NativeStack {
  std::vector<stacks::NativeFrame> frames;
  std::string operation;  // `at::_ops::index_select` gives index_select: the innermost one
  std::string outermost;  // the operator that the program called, which called the others; often the same
  std::string calling;    // the operator whose kernel, in Python, is at work; empty: none is
  std::string asked;      // the outermost of these: kernels in Python call operators whose kernels are in Python
  bool autograd = false;  // the engine runs it: no Python expression asked for this operation
};
NativeStack capture_native_stack();

// The frame runs Python code: what is further out than that has called that Python.
bool evaluates_python(const stacks::NativeFrame& frame);

}  // namespace devtrace::evidence
