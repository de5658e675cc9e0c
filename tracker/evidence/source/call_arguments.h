// What a call gave to the Python function that is running, by its places in the call's text.
#pragma once

#include <string>
#include <vector>

#include "tracker/evidence/frames.h"
#include "tracker/evidence/source/expression.h"
#include "tracker/evidence/source/scope.h"

namespace devtrace::evidence {

// Of the function in a frame, called by the frame outside of it. Under the GIL. A parameter may have been given another
// value since: whoever asks compares what the text does name.
class CallArguments {
 public:
  CallArguments(const python::Api& api, const std::vector<Frame>& frames, const Scope& scope, size_t called);

  // Is it the function that a call of this text calls: by its name; or what every call of a module goes through, or a
  // decorator's function, which takes anything?
  bool called_as(const std::string& callee) const;
  // Empty where it is not known.
  python::Ref at(const Value& value) const;
  // The parameter that gets it; empty where the function has none of its own for that.
  std::string parameter_of(const Value& value) const;

 private:
  python::Ref parameter(const std::string& name) const;

  const python::Api& api_;
  const Scope& scope_;
  size_t frame_;
  std::string function_;
  std::vector<std::string> positional_;    // without self
  std::string all_others_, all_keywords_;  // `*args`, `**kwargs`
};

}  // namespace devtrace::evidence
