// Where the values of a function's names lie, followed through its statements: what PyTorch would refuse next.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace devtrace::report::verdict {

// What an expression gives, as far as its text says it.
struct FlowValue {
  std::string device;               // where the tensor lies; empty: not known, or none
  std::string said;                 // of what names a device, as `x.device`: which one
  std::vector<FlowValue> elements;  // of a display
  std::string base;                 // a name in it that lies there, too
  std::string reference;            // `x`, `self.weight`, `batch["ids"]`: where it is no more than that
  size_t begin = 0, end = 0;        // in the statement
  bool indexed = false;             // by a tensor
  bool compound = false;            // a dot behind it would not be of all of it
};

// A part of a statement that `.to(device)` is to stand behind.
struct FlowMove {
  size_t begin = 0, end = 0;
  bool compound = false;
  std::string device;
};

class DeviceFlow {
 public:
  // What lies on `from` is brought to `to` where it meets what lies there: nothing else is known of what is right.
  // `words`: that mean the latter in these statements, where what lies there has no name; empty for none.
  DeviceFlow(std::string from, std::string to, std::string words) : from_(from), to_(to), words_(words) {}

  // Tensors by their names, and devices.
  std::map<std::string, std::string, std::less<>> names, devices;
  // What a call of that function gives: of "forward" every call whose function is not known.
  std::optional<std::pair<std::string, FlowValue>> returned;

  // Follows one statement. Answers with it where something that it reads is to be moved, in front of nothing else.
  std::optional<std::string> run(std::string_view statement);
  // What a statement that has run returned; empty: it was no `return`.
  const std::optional<FlowValue>& result() const { return result_; }

 private:
  void assign(std::string_view targets, const FlowValue& value);
  void forget(std::string_view name);
  void store(std::string_view text, std::string_view target, const FlowValue& value,
             std::vector<FlowMove>& moves) const;

  std::string from_, to_, words_;
  std::optional<FlowValue> result_;
};

}  // namespace devtrace::report::verdict
