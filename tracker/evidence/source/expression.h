// What an operation was given, as its source text says it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tracker/python/python_api.h"

namespace devtrace::evidence {

// One step from a value to a part of it: `.name`, `["name"]`, `[position]`, or `[name]` with a variable.
struct Step {
  enum Kind { attribute, key, index, variable } kind;
  std::string name;
  long position = 0;
};
// `x.shape`, `x.size(0)`, `x.device`: nothing of what x holds.
bool asks_only(const Step& step);

// `encoded["input_ids"]`: a variable and the steps from it.
struct Path {
  std::string variable;
  std::vector<Step> steps;
};
// As Python would write it.
std::string to_string(const Path& path);

// One expression whose value an operation was given.
struct Value {
  std::string text;          // as the source has it, on one line
  std::optional<Path> path;  // where the value is kept; nothing: it is the result of another expression, or a number
  std::vector<Value> like;   // where the values of these are tensors of one device, so is this one's
  bool number = false;       // a literal: lies nowhere
  std::optional<Path> callee = {};  // of a call's result: what was called
  // Which of the values that the interpreter gives the operation it is (StackOperands): the number of one, then of
  // elements within it. kReceiver alone: what a method was called on. Empty where the text does not say.
  std::vector<int> place = {};
  static constexpr int kReceiver = -1;
  std::string keyword = {};  // of an argument, the one by which it is given
};

struct Operation {
  std::vector<Value> given;     // in order; elements of displays and starred arguments on their own
  std::optional<Value> callee;  // of a call, unless it is a method of given[0]
  bool hidden = false;          // something was given that the text does not show
};

// What source text says about the operation that is under way.
struct Expression {
  std::vector<Operation> operations;  // those that it may be: one where the text is the operation's own
  std::vector<Path> mentioned;        // everything that the text names, once each
  std::vector<Path> used;             // … but for what it brings to another device first: `x.cuda()`
  std::vector<Path> devices;          // what it gives as device=, or to .to(…) and .cuda(…)
};

// `text` is the operation's own where `exact`, else whole lines: then every operation in them is one that it may be.
// `statement` is the whole statement around it, for an assignment's target (`x[i]` of `x[i] = y`), else empty. Reads
// with Python's own parser; no operations when that cannot: a part of a statement, a text that has changed since.
Expression read_expression(const python::Api& api, const std::string& text, bool exact, const std::string& statement);

}  // namespace devtrace::evidence
