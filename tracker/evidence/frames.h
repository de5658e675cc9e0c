// A thread's Python frames, under the GIL.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tracker/evidence/source/source.h"
#include "tracker/python/live_frames.h"
#include "tracker/python/python_api.h"

namespace devtrace::evidence {

struct Frame {
  const python::PythonReader* reader = nullptr;  // of `live`
  python::RawFrame live;                         // nothing where `compiled`, and where `frame` is something
  python::Ref frame;                             // only of a Python whose frames are not known as memory
  python::Ref code;
  std::string file;
  std::string function;
  Region region;           // of the call that is under way; line 0 when unknown
  std::string source;      // the whole lines of its statement
  int source_line = 0;     // number of the first of these
  finding::Around around;  // and what stands around them; of the innermost frames of the user's own
  std::string expression;  // its own text; `source` where `exact` is false
  std::string statement;   // of an assignment whose target the expression is
  bool exact = false;      // the interpreter told the call's columns
  bool cut = false;        // the expression is a method's call without what it is called on
  bool project = false;    // the user's own code: neither the standard library nor an installed package
  bool torch = false;      // a file of the torch package

  // A function that torch.compile interprets: not on Python's stack, but in front of the frame that does it.
  bool compiled = false;
  python::Ref compiled_locals, compiled_globals;

  // A dict of ours, which nothing of the program's knows.
  python::Ref locals(const python::Api& api) const;
  python::Ref globals(const python::Api& api) const;
  // Is `name` one of the parameters of the frame's function?
  bool is_parameter(const python::Api& api, const std::string& name) const;
  // … or a variable of the function that this one is written in?
  bool is_of_closure(const python::Api& api, const std::string& name) const;
  // Those that are given by their place, `self` among them.
  std::vector<std::string> positional(const python::Api& api) const;
};

// Innermost first, at most `most`. Without a reader only the calling thread's, and those have variables where asking
// for them leaves nothing behind.
std::vector<Frame> frames(const python::Api& api, const python::FrameSource& from, size_t most,
                          const SourceReader& sources);

// Does a file belong to the user's own code? `standard_library`: the folder of the interpreter's library, "" when
// unknown.
bool is_project_file(const std::string& file, const std::string& standard_library);
std::string standard_library(const python::Api& api);

}  // namespace devtrace::evidence
