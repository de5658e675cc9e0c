// Where the value of one Python expression lies, as its text says it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/python_scan.h"

namespace devtrace::report::verdict {

// What an expression gives.
struct FlowValue {
  std::string device;               // where the tensor lies; empty: not known, or none
  std::string said;                 // of what names a device, as `x.device`: which one
  std::vector<FlowValue> elements;  // of a display
  std::string base;                 // a name in it that lies there, too
  std::string reference;            // `x`, `self.weight`, `batch["ids"]`: where it is no more than that
  size_t begin = 0, end = 0;        // in the statement
  bool indexed = false;             // by a tensor
  bool several = false;             // tensors that lie there, as `x.max(dim=1)` gives, and a module may
  bool compound = false;            // a dot behind it would not be of all of it
  bool number = false;              // on the CPU and without dimensions: only a module refuses it
};

// A part of a statement that `.to(device)` is to stand behind, or `.cpu()`.
struct FlowMove {
  size_t begin = 0, end = 0;
  bool compound = false;
  std::string device;
};

// What a call is given, with the keyword by which it is.
struct FlowGiven {
  std::string keyword;
  FlowValue value;
};

// What is known where an expression stands.
struct FlowNames {
  // What lies on `from` is brought to `to` where it meets what lies there: nothing else is known of what is right.
  // `words`: that mean the latter, where what lies there has no name; empty for none.
  std::string from, to, words;
  std::map<std::string, std::string, std::less<>> names, devices;  // of tensors, and of modules as `net()`; of devices
  // What a call of that function gives: of "forward" every call whose function is not known.
  std::optional<std::pair<std::string, FlowValue>> returned;
  // … and of another one, which is followed: nothing where it is not known what that does.
  std::function<std::optional<FlowValue>(const FlowNames&, const std::string& function, const std::vector<FlowGiven>&)>
      follow = {};
  std::string current = {};   // the current device, which "cuda" means; empty: not known
  bool modules_come = false;  // the fix has brought a module from there: others go with it
};

// Is thrown for what is not followed: a lambda, what a comprehension gives, a text that is no expression.
struct NotFollowed {};

class FlowReader {
 public:
  // From that place of the text on. Both live longer than this.
  FlowReader(const FlowNames& known, std::string_view text, size_t at)
      : known_(known), text_(text), scan_(text), at_(at) {}

  // All that follows, `a, b` too; and one expression.
  FlowValue whole() { return display('\0'); }
  FlowValue one() { return ternary(); }
  bool at_end();

  std::vector<FlowMove> moves;  // that what was read wants

 private:
  struct Operator {
    std::string_view text;
    int rank;
    bool meets;
  };
  struct Given {
    std::vector<FlowValue> all;
    std::optional<std::string> said;  // device=, or what names a device: known or not
    bool unknown_device = false;
    std::vector<FlowGiven> each;  // those, and the device, as they are given
    bool unpacked = false;        // some of them by `*` or `**`
  };

  void skip();
  bool take(std::string_view symbol);
  bool take_word(std::string_view word);
  bool next_is(std::string_view symbol);
  bool next_is_word(std::string_view word);
  const Operator* next_operator();
  FlowValue meet(const std::vector<const FlowValue*>& values);
  FlowValue ternary();
  FlowValue binary(int least);
  FlowValue unary();
  void literals();
  FlowValue atom();
  void look_up(FlowValue& value) const;
  void leave_brackets();
  FlowValue display(char closing);
  FlowValue primary();
  FlowValue attribute(const FlowValue& value, const std::string& word, size_t end) const;
  FlowValue subscript(const FlowValue& value);
  Given given();
  FlowValue method(const FlowValue& value, const std::string& word);
  FlowValue call(const FlowValue& callee);
  FlowValue call_of_module(const FlowValue& callee, const std::string& device, const Given& arguments);
  FlowValue call_of_torch(const std::string& function, const Given& arguments);

  const FlowNames& known_;
  const std::string_view text_;
  const Scan scan_;
  size_t at_;
};

}  // namespace devtrace::report::verdict
