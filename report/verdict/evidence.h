// A finding as the verdict's rules look at it: operands with their origins, and the questions that several rules ask.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/base/json_access.h"

namespace devtrace::report::verdict {

struct Frame {
  std::string_view file, function, source;
  int64_t line = 0;
  bool project = false;
  std::string_view offset = {};  // of a native frame, in its module
  // Of a stack's innermost frame of the user's: the lines around it, from number `first` on.
  struct {
    std::string_view text;
    int64_t first = 0;
  } around = {};

  bool known() const { return !file.empty() || !function.empty(); }
  // The same place in the same function, as far as two stacks can tell.
  bool same_function(const Frame& other) const { return file == other.file && function == other.function; }
  bool same_line(const Frame& other) const {
    return same_function(other) && line == other.line && (line != 0 || offset == other.offset);
  }
};
using Stack = std::vector<Frame>;  // innermost first

// Index of the innermost frame of the user's own code; nothing when there is none.
std::optional<size_t> innermost_project(const Stack& stack);

// Whose device is current: what a thread chose, or what it was given by default. Device empty: not known.
struct DeviceChoice {
  std::string_view device;
  bool by_default = false;
  Stack stack;
  Stack native;  // where no Python ran
};

struct Event {
  bool known = false;
  std::optional<double> time;
  std::string_view from, to;  // `moved` only
  std::optional<int64_t> thread;
  DeviceChoice choice;  // of that thread, then
  Stack stack;
  Stack native;           // where no Python ran
  std::string_view call;  // CUDA's function
  // The line that a person would point at: the innermost frame of the user's code, else the innermost frame. Null for
  // none.
  const Frame* line() const;
};

// One object on the way from a variable to an operand; docs/reference/log.md says what the words mean.
struct Holder {
  std::string_view name, kind, type, holds, function;
  std::vector<std::string_view> devices;
  bool replica = false;
  struct Part {
    std::string_view name;
    std::vector<std::string_view> devices;
  };
  std::vector<Part> modules;
  Frame bound;  // the line that gave it the attribute

  bool is_module() const { return kind == "module"; }
  // Does .to() of this module reach what it holds?
  bool registers() const { return is_module() && (holds == "parameter" || holds == "buffer" || holds == "module"); }
};

struct Chain {
  size_t frame = 0;
  std::string_view name;  // of the operand, from the first holder on
  std::vector<Holder> holders;
};

struct Operand {
  std::string name;             // best name; "the result of …" or "a tensor" when there is none
  std::string_view expression;  // of a temporary, as the failing line writes it
  std::string_view role, device, dtype, module_path, module_class, root_class, hook, device_map;
  bool odd = false;
  bool is_parameter = false;
  struct Name {
    size_t frame;  // index into the failing stack
    std::string_view name;
  };
  std::vector<Name> names;
  Event created, moved;
  std::vector<std::string_view> root_devices;  // of all state of the outermost module
  std::vector<Chain> held_by;
  std::string_view view_of;
  struct {
    std::string_view name, device;
  } moved_away;  // the registered tensor that was this one before it was moved
  struct Kept {
    std::string_view name, device;
    Event created, moved;
  };
  struct {
    std::string_view name, kind;
    std::vector<std::string_view> devices;  // of a module: where its state lies
    std::vector<Kept> keeps;
  } given_by;  // what was called to give it
  struct {
    std::string_view name, role, says, kind, type;
    std::vector<std::string_view> devices;
  } device_from;  // what said the device where it was made, or to which it was moved
  std::vector<int64_t> shape;
  std::vector<Operand> computed_from;
  bool generator = false;
  bool is_tensor = true;            // of PyTorch's, as far as is known
  std::optional<int64_t> position;  // in the schema of the operator, of a C++ call; of a list's element none

  // Is it the result of a module, or computed from one?
  bool came_from_a_module() const;
  // … from registered state?
  bool came_from_state() const;

  bool on_cpu() const { return device == "cpu"; }
  // Registered state of a module: what model.to() moves.
  bool is_state() const { return is_parameter || role == "parameter" || role == "buffer"; }
  // … or a view of it: memory that a module has registered, or that a constructor registered by the line that made it.
  bool is_of_state() const;
  // Does all state of its model lie on one device, and is it known?
  bool is_of_whole_model() const { return root_devices.size() == 1; }

  // The way to it by which a module holds it without having registered it: `.to()` of that module does not reach it.
  // Nothing where the same module has registered it as well.
  struct Hidden {
    const Chain* chain = nullptr;
    size_t module = 0;  // the module, as an index of the chain's holders
    const Holder& owner() const { return chain->holders[module]; }
    explicit operator bool() const { return chain != nullptr; }
  };
  Hidden hidden() const;
  // The event that put it on its device: its last move, else its creation. Null when neither is known.
  const Event* placed() const;
  // Itself; of an intermediate result of the failing line, which says nothing of its own, the first that it was
  // computed from and that was put there.
  const Operand& origin() const;
  // Made on a GPU by a line that says so, and in no constructor: no move of a model has left it behind.
  bool placed_by_choice() const;
  // Does it lie where an attribute says, a device that somebody wrote down, which the other one has left since?
  bool by_a_stale_device(const Operand& other) const;
  // What it is called in that frame; empty when it has no name there.
  std::string_view name_in(size_t frame) const;
};

struct Evidence {
  explicit Evidence(const Json& finding);

  // The same with operands in whose place stands what they were computed from, the nearest first.
  std::vector<Evidence> traced() const;

  std::string_view kind, operation, argument, message, current_device, note;
  std::string_view wanted_device;  // where the operation wants what it refused
  std::vector<std::string_view> devices;
  std::optional<int64_t> device_count;  // of a refusal of a device that is not there: how many are
  bool handles = false;                 // events or streams were refused
  std::optional<int64_t> thread;
  std::vector<Operand> operands;
  Stack stack;  // of the failing call
  Stack native;
  DeviceChoice choice;  // at a launch: who made the current device current
  // Is it about a C++ program?
  bool in_cpp() const { return stack.empty() && !native.empty(); }
  std::vector<Event> other_handles;  // of a library's call: those of the device on which the memory lies
  bool handle_used = false;          // its handle has worked on memory of its own device
  struct RunningModule {
    size_t frame;
    std::string_view type, hook;
    std::vector<std::string_view> devices, skip_keys;
    std::vector<Holder::Part> parts;
    bool replica;
  };
  std::vector<RunningModule> modules;           // innermost first
  std::vector<std::string_view> state_devices;  // of all registered tensors within reach
  struct Mention {
    size_t frame;
    std::string_view name, device;
  };
  std::vector<Mention> mentions;
  std::string computed;  // what was computed from what, in words: of traced evidence
  struct {
    std::string_view direction, source, destination;  // as the copy's caller says
  } copy;
  // Of a gradient that was refused: the torch.autograd.Function that gave it, what its forward calls what it is for,
  // and hooks that it passed before.
  struct GradientHook {
    std::string_view tensor;
    Frame code;
  };
  struct {
    std::string_view function, argument;
    Frame forward, backward;
    std::vector<GradientHook> hooks;
  } gradient;

  // Two operands on different devices that a rule can speak about: the first one that satisfies `wanted` and any that
  // lies elsewhere and satisfies `met`.
  struct Pair {
    const Operand* it = nullptr;
    const Operand* other = nullptr;
    explicit operator bool() const { return it != nullptr; }
  };
  template <typename Wanted, typename Met>
  Pair pair(Wanted wanted, Met met) const {
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
  // Was it made while the method runs that this frame is in, by its code or by what that calls? As above.
  bool made_under(const Operand& operand, size_t frame) const;
  // … and by the very line that this frame is in?
  bool made_by_line(const Operand& operand, size_t frame) const;
  // Was the tensor there before the innermost function of the user's that is running was called? "No" where the stacks
  // do not show it: also for what an earlier round of a loop around that call made.
  bool made_before_call(const Operand& operand) const;
  // Was it made by any module's forward, in this call or an earlier one?
  static bool made_by_a_module(const Operand& operand);
  // … and by this very frame's function, while it was running.
  std::optional<size_t> frame_that_made(const Operand& operand) const;
};

}  // namespace devtrace::report::verdict
