// A finding as the verdict's rules look at it: operands with their origins, and the questions that several rules ask.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "finding/finding.h"

namespace devtrace::report::verdict {

using finding::Chain;
using finding::DeviceChoice;
using finding::Event;
using finding::Finding;
using finding::Frame;
using finding::Holder;
using finding::made_by_a_module;
using finding::Operand;
using finding::Stack;

// The class of a method, else the function itself.
std::string_view owner_of(const Frame& frame);
// Does it run while an object is constructed?
bool in_a_constructor(const Stack& stack);
// … of that class?
bool constructs(const Stack& stack, std::string_view type);
// Did a layer of PyTorch's compute it?
bool made_by_a_layer(const Operand& operand);
// Did a data loader or a file give it, whoever asked for it? Then it is data, whatever line made it there.
bool is_loaded_data(const Operand& operand);
// Made on a GPU by a line that says so, and in no constructor: no move of a model has left it behind.
bool placed_by_choice(const Operand& operand);
// Does the line that constructed its module put that where it lies, too: `Tokenizer(codes).to(device)`?
const finding::Step* placed_when_constructed(const Operand& state);
// The step in which a call gave a GPU without a number to what made it, `f(x, device="cuda")`; null: none did.
const finding::Step* given_the_current_device(const Operand& operand);
// Does it lie where an attribute says, a device that somebody wrote down, which the other one has left since?
bool by_a_stale_device(const Operand& operand, const Operand& other);

// Lives no longer than the finding.
struct Evidence {
  explicit Evidence(const Finding& finding);

  // The same with operands in whose place stands what they were computed from, the nearest first.
  std::vector<Evidence> traced() const;

  const Finding& finding;
  const finding::Refusal& refusal = finding.of<finding::Refusal>();
  const DeviceChoice& choice = finding.of<finding::Launch>().choice;  // who made the current device current
  const finding::DeclaredCopy& copy = finding.of<finding::Copy>().copy;
  const finding::HandleUse& library_call = finding.of<finding::LibraryCall>().library_call;
  const std::string &kind = finding.kind, &operation = finding.operation, &argument = finding.argument,
                    &message = finding.message, &current_device = finding.current_device, &note = finding.note;
  const std::vector<std::string>& devices = finding.devices;
  const std::optional<int64_t>& thread = finding.thread;
  const Stack& native = finding.native;
  Stack stack = finding.stack;    // an edit may stand in its lines
  std::vector<Operand> operands;  // named, and without what says nothing
  std::string computed;           // what was computed from what, in words: of traced evidence

  // Is it about a C++ program?
  bool in_cpp() const { return stack.empty() && !native.empty(); }

  // Two operands on different devices that a rule can speak about: the first one that satisfies `wanted` and any that
  // lies elsewhere and satisfies `met`.
  struct Pair {
    const Operand* it = nullptr;
    const Operand* other = nullptr;
    explicit operator bool() const { return it != nullptr; }
  };
  template <typename Predicate, typename Met>
  Pair pair(Predicate wanted, Met met) const {
    for (const Operand& it : operands) {
      if (it.device.empty() || !wanted(it)) continue;
      for (const Operand& other : operands) {
        if (&other != &it && !other.device.empty() && other.device != it.device && met(other)) return {&it, &other};
      }
    }
    return {};
  }

  // Was it put there by a thread that never chose a device, and the other one in the refusing thread, which has?
  bool by_another_threads_default(const Operand& it, const Operand& other) const;
  // Was it taken from where the other one is to the device that is current, which no number in that line names, and
  // where nothing registered lies? "cuda" says as much.
  bool taken_to_current_device(const Operand& it, const Operand& other) const;

  // Was a model on the CPU put there, and not forgotten? It was on a GPU before; or the function or class that calls it
  // says a device in the line that makes it, or in sight of that.
  bool put_on_the_cpu(const Operand& state, size_t caller) const;

  // A moment before that frame made its call: when the last was put in its place of what the frame names or made. What
  // is older was not made in the call, though a loop may have come by the same lines when it was.
  std::optional<double> placed_before_call(size_t frame) const;

  // The device of all state of the module whose code fails: its work is done there. Nothing where it lies on several,
  // or is no module's code.
  std::optional<std::string_view> own_device() const;
  // Does it say which elements of the other one are meant? Their result lies where that lies.
  bool is_index_of(const Operand& it, const Operand& other) const;

  // Does anything registered lie there, as far as can be seen?
  bool has_state_on(std::string_view device) const;

  // Any frame of the failing call in a file whose path contains `part`.
  bool passes_through(std::string_view part) const;

  // Index of the frame that called the outermost module: what is below it runs inside model(…). Nothing when no module
  // was called.
  std::optional<size_t> caller_of_model() const;

  // Was the tensor made after that call began, by the model itself? Both stacks must show it; "no" when either is
  // unknown.
  bool made_inside_model(const Operand& operand) const;
  // … or was that done to it?
  bool happened_inside_model(const Event& event) const;
  // Was it made while the method runs that this frame is in, by its code or by what that calls? As above.
  bool made_under(const Operand& operand, size_t frame) const;
  // … and by the very line that this frame is in?
  bool made_by_line(const Operand& operand, size_t frame) const;
  // Was the tensor there before the innermost function of the user's that is running was called? "No" where the stacks
  // do not show it: also for what an earlier round of a loop around that call made.
  bool made_before_call(const Operand& operand) const;
  // Was it made by this very frame's function, while that was running?
  std::optional<size_t> frame_that_made(const Operand& operand) const;
  // Did the line that made it make another one, too, which was brought to where it meets this one? Null: none was.
  const Operand* left_of_its_line(const Operand& operand) const;
  // Was that a method of a module's, also where nobody called the module?
  bool made_by_a_modules_method(const Operand& operand) const;
};

// Has the line that made it taken something to the CPU? `x.cpu()[rows]` lies there because of that, and not of `rows`.
bool is_taken_where_made(const Operand&);

// Was it computed by a module that lies there? What that was given can lie nowhere else.
bool computed_where_its_module_lies(const Operand&);

}  // namespace devtrace::report::verdict
