// A finding, typed: what the tracker gathers, what the verdict looks at, and what a log's record says
// (docs/reference/log.md). fields.inc says of each member how it is called in the log, and how it is redacted. A fact
// that is not known is empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace devtrace::finding {

// A list that may be known to be empty; then the log has it, too.
template <typename T>
struct List : std::vector<T> {
  using std::vector<T>::vector;
  using std::vector<T>::operator=;
  bool known = false;

  // All of what was looked for, perhaps none.
  static List all(std::vector<T> of) {
    List list;
    list = std::move(of);
    list.known = true;
    return list;
  }

  bool is_known() const { return known || !this->empty(); }
};

using Index = size_t;
inline constexpr Index kNoIndex = -1;

struct Frame {
  std::string module;  // of a native frame, as `offset` and `inlined`
  std::string function;
  std::string offset;
  std::string file;
  int64_t line = 0;
  bool inlined = false;
  bool project = false;  // the user's own code
  std::string source;
  int64_t source_line = 0;  // where `source` begins, if its statement does above `line`; an edit replaces it from there
  // Of a stack's innermost frame of the user's: the lines around it, from number `line` on.
  struct Around {
    int64_t line = 0;
    std::string text;
  } around;

  bool known() const { return !file.empty() || !function.empty(); }
  bool is_native() const { return !module.empty() || !offset.empty(); }
  // The same place in the same function, as far as two stacks can tell.
  bool same_function(const Frame& other) const { return file == other.file && function == other.function; }
  bool same_line(const Frame& other) const {
    return same_function(other) && line == other.line && (line != 0 || offset == other.offset);
  }
};
using Around = Frame::Around;
struct NativeFrame;  // the rows of a native Frame: in an order of their own

using Stack = List<Frame>;  // innermost first

// Index of the innermost frame of the user's own code; nothing when there is none.
std::optional<size_t> innermost_project(const Stack& stack);
// The frame that a reader knows: the innermost of the user's own, else the innermost. Null for an empty stack.
const Frame* user_frame(const Stack& python);
// The same of a native stack: the innermost of the user's own, else the innermost outside of CUDA's and PyTorch's
// libraries, one with a source line first, else the innermost.
const Frame* native_user_frame(const Stack& native);

// … of an event, or a finding, with both: Python's stack where there is one.
template <typename T>
const Frame* user_frame_of(const T& it) {
  return it.stack.empty() ? native_user_frame(it.native) : user_frame(it.stack);
}

// Whose device is current: what a thread chose, or what it was given by default. Device empty: not known.
struct DeviceChoice {
  std::string device;
  bool by_default = false;
  std::optional<double> time;
  Stack stack;
  std::string call;
  Stack native;  // where no Python ran
};
// … as one of several, in their order.
struct DeviceChange : DeviceChoice {};

// How something came to where it lies.
struct Event {
  std::optional<double> time;
  std::optional<int64_t> thread;
  Stack stack;
  std::string call;  // CUDA's function
  Stack native;      // where no Python ran
  std::string device;
  std::string from, to;  // of a move
  DeviceChoice choice;   // of that thread, then

  bool known() const;
  // The line that a person would point at: the innermost frame of the user's code, else the innermost frame. Null for
  // none.
  const Frame* line() const { return user_frame(stack); }
};

// Where memory was made, and how it came to where it lies.
struct Provenance {
  bool before_attach = false;
  Event created, moved;
};

// A part of a module, or a module of an object.
struct Part {
  std::string name;
  List<std::string> devices;
};

// One object on the way from a variable to an operand.
struct Holder {
  std::string name, kind, type, holds;
  std::string function;  // of a bound method
  List<std::string> devices;
  bool replica = false;
  bool mixed = false;  // a list, tuple or dict that holds something else than tensors, too
  List<Part> modules;  // of an object that holds several
  Frame bound;         // the line that gave it the attribute by which it holds the next one

  bool is_module() const { return kind == "module"; }
  // Does .to() of this module reach what it holds?
  bool registers() const { return is_module() && (holds == "parameter" || holds == "buffer" || holds == "module"); }
};

struct Chain {
  Index frame = kNoIndex;
  std::string name;  // of the operand, from the first holder on
  List<Holder> holders;
};

struct Name {
  Index frame = kNoIndex;  // into the failing stack
  std::string name;
  bool read_again = false;  // a variable, which the function reads below the line that it is in, too
  std::string holder = {};  // how what has it there goes to another device: "moves", "within", "frozen", or empty
};

// What said the device where a tensor was made, or to which it was moved.
struct DeviceSource {
  std::string name, role, says, kind, type;
  List<std::string> devices;
  Frame bound;            // of an attribute: the line of its object's constructor that gave it
  std::string otherwise;  // what that line stores where the constructor is given nothing
};

// A tensor that a function, or an object, keeps without having registered it.
struct KeptTensor : Provenance {
  std::string name, device;
  List<int64_t> shape;
};

// What was called to give a tensor.
struct Producer {
  std::string name, kind;
  List<std::string> devices;  // of a module: where its state lies
  List<KeptTensor> keeps;

  bool known() const { return !name.empty(); }
};

// The registered tensor that an operand was before that was moved.
struct MovedAway {
  std::string name, device;
};

// An expression that a line can use, and the device that it means there.
struct DeviceExpression {
  std::string expression, device;
  bool unnumbered = false;  // "cuda": the current device
};

// A line that an operand has passed on its way to where it was refused, and where it could have got another device.
struct Step {
  // defaulted, given, appended, made, constructed, moved, discarded, returned, assigned, left, chosen
  std::string what;
  Frame line;
  // defaulted and given: what it calls, a parameter of that, and the default or what it gives; constructed: the class;
  // left: what stands beside the container and was brought elsewhere
  std::string call, parameter, otherwise;
  std::string branch;  // discarded: how the branch begins that the line is in, if it may not have been taken
  List<DeviceExpression> devices;  // one for each device
};

struct Operand : Provenance {
  std::string name;
  List<Name> names;
  std::string role;
  std::string argument;             // of an operator that C++ called: in its schema
  std::optional<int64_t> position;  // in the schema, or in a library's call
  bool mismatched = false;
  std::string expression;  // of a temporary, as the failing line writes it
  std::string device;
  std::optional<std::string> dtype;  // of a tensor, as `shape` and `bytes`; empty where that cannot be read
  List<int64_t> shape;
  std::optional<int64_t> bytes;
  std::optional<int64_t> parameter;  // of a kernel
  std::string type, parameter_name;
  std::optional<int64_t> extent;  // of memory that no tensor is known to lie in
  std::string address, array_of, pool;
  std::string module_path, module_class, root_class, hook, device_map;
  bool requires_grad = false;
  bool is_parameter = false;
  List<std::string> root_devices;  // of all state of the outermost module
  std::string view_of;
  bool generator = false;
  List<Chain> held_by;
  DeviceSource device_from;
  List<Step> lineage;  // oldest first
  List<Operand> computed_from;
  List<Operand> siblings;  // what came there in the same way, and will be computed with
  Producer given_by;
  MovedAway moved_away;
  KeptTensor kept_for;       // of an optimizer's state: the parameter
  Event opened;              // in C++: what let other devices reach it, and not this one
  bool only_loaded = false;  // … nothing was ever computed on its device

  bool on_cpu() const { return device == "cpu"; }
  bool is_tensor() const { return array_of.empty(); }  // of PyTorch's, as far as is known
  // Registered state of a module: what model.to() moves.
  bool is_state() const { return is_parameter || role == "parameter" || role == "buffer"; }
  // … or a view of it: memory that a module has registered, or that a constructor registered by the line that made it.
  bool is_of_state() const;
  // Does all state of its model lie on one device, and is it known?
  bool is_of_whole_model() const { return root_devices.size() == 1; }
  // Is it the result of a module, or computed from one? … from registered state?
  bool came_from_a_module() const;
  bool came_from_state() const;

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
  // What it is called in that frame; empty when it has no name there.
  std::string_view name_in(size_t frame) const;
  // Is that a variable which the frame's function reads again below its line?
  bool read_again_in(size_t frame) const;
  // How what has it by the name that the frame calls it can be brought to another device.
  std::string_view holder_in(size_t frame) const;
};

// Does the frame call a module of PyTorch's?
bool is_module_call(std::string_view file, std::string_view function);
bool calls_modules(const Frame& frame);
// Was it made by any module's forward, in the failing call or an earlier one?
bool made_by_a_module(const Operand& operand);

// A module whose method is running.
struct RunningModule {
  Index frame = kNoIndex;  // whose `self` it is
  std::string type;
  List<std::string> devices;  // of all its state
  List<Part> parts;           // of one that lies on several devices
  std::string hook;           // accelerate's
  List<std::string> skip_keys;
  bool replica = false;
};

// A tensor on no operand's behalf, that a frame's call names.
struct Mention {
  Index frame = kNoIndex;
  std::string name, device;
};

// … that a frame of the user's can use in its line.
struct FrameExpression : DeviceExpression {
  Index frame = kNoIndex;
};

// A function of the program's own that the lines which a frame is still to run call, or another one of these.
struct CalledFunction {
  Index frame = kNoIndex;          // … that calls it
  Index by = kNoIndex;             // … or the function that does, of their list
  std::string expression;          // `self.encode`, as it is called
  Frame code;                      // from its `def` on, in `around`
  List<DeviceExpression> tensors;  // of its object, as Refusal::tensors
};

// A gradient that lies elsewhere than what it is for, and the torch.autograd.Function that gave it.
struct Gradient {
  std::optional<int64_t> index;
  std::string function;
  std::string argument;  // what its forward calls what the gradient is for
  Frame forward, backward;
  struct Hook {
    Frame code;
    std::string tensor;
  };
  List<Hook> hooks;  // that it passed before
};
using GradientHook = Gradient::Hook;

// The line that begins the process group, and what it can call its rank on its machine.
struct GroupSetup {
  Frame line;
  std::string local_rank;
};

// What findings of one kind have besides; kinds.inc says which of these a kind has.
struct Refusal {
  std::string overload, method;
  std::string wanted_device;            // where the operation wants what it refused
  bool handles = false;                 // events or streams were refused
  std::optional<int64_t> device_count;  // of a refusal of a device that is not there: how many are
  List<std::string> state_devices;      // of all registered tensors within reach
  List<RunningModule> modules;          // innermost first
  List<Mention> mentions;
  List<FrameExpression> expressions;
  List<FrameExpression> tensors;        // of the frames that have `around`: those that its text names
  List<FrameExpression> named_devices;  // … and what it calls a device
  List<CalledFunction> called;          // what these frames call next
  Gradient gradient;
  GroupSetup setup;  // of a collective
  std::string incomplete;
  bool waiting = false;  // `stack` is of the thread that waits for autograd's
};

// What a kernel did that its device may not do, as a rehearsal sees that computes kernels.
struct KernelAccess {
  std::string instruction;
  bool writes = false;
  std::string address;
  std::optional<int64_t> bytes;
  List<int64_t> block, thread;
  Frame line;  // of the kernel's source
  std::string whose;
  std::string variable;  // of the module, by which the kernel came there
  std::optional<int64_t>
      in_memory;  // where the parameter or variable leads: bytes from there to the address's own place
};
struct KernelLaunch {
  std::string kernel;
  List<int64_t> grid, block;
  std::string stream;
  bool graph = false;
  std::string stream_device;
  std::optional<int64_t> parameter, offset;
  KernelAccess access;
};
struct Launch {
  DeviceChange choice;  // who made the current device current
  KernelLaunch launch;
};

struct DeclaredCopy {
  std::string function, direction, destination, source;
  std::optional<int64_t> bytes;
  std::string stream;
};
struct Copy {
  DeclaredCopy copy;
};

struct OtherHandle {
  std::string device;
  Event created;
};
struct HandleUse {
  std::string function, device;
  bool refused = false;
  bool used = false;  // its handle has worked on memory of its own device
  std::string stream, stream_device;
  List<OtherHandle> other_handles;  // those of the device on which the memory lies
};
struct LibraryCall {
  HandleUse library_call;
};

// What a rank is one of.
struct Communicator {
  std::string function;  // of NCCL's, that was called
  std::optional<int64_t> size, rank, local_rank, visible;
};
struct Ranks {
  DeviceChange choice;  // who made the current device current
  Communicator communicator;
  GroupSetup setup;
};

// What trying a change has shown.
struct Verified {
  std::string outcome;
  std::optional<int64_t> findings_before, findings_after;
  bool same_output = false;
  std::string patch;
  std::optional<int64_t> bytes_per_step, bytes, runs;
  List<std::string> devices_with_work, open;
};

// A statement, and what it should say.
struct Edit {
  std::string file;
  int64_t line = 0;
  std::string fix;
};

struct Cause {
  std::string category, confidence, because, fix, file;
  int64_t line = 0;
  std::string repairs;
  List<Edit> also;  // the same mistake in other lines
  Verified verified;
};

// The entry of the suppressions that covers it.
struct Suppressed {
  std::string file;
  int64_t line = 0;
  std::string reason;

  bool known() const { return line > 0; }
};

using Facts = std::variant<Refusal, Launch, Copy, LibraryCall, Ranks>;

struct Finding {
  std::optional<int64_t> id;
  std::string kind, severity, fingerprint;
  std::optional<double> time;
  std::optional<int64_t> thread;
  std::string thread_name, note, message, operation, argument, current_device;
  List<std::string> devices;
  Facts facts;
  List<Operand> operands;
  List<DeviceChange> device_changes;
  Stack stack;   // of the failing call
  Stack native;  // absent without the option
  Suppressed suppressed;
  Cause cause;
  std::optional<int64_t> count, pid;
  std::vector<std::pair<std::string, std::string>> unknown;  // fields of other versions, as JSON

  bool is_note() const { return severity == "note"; }
  // The facts of one kind; empty ones where it is of another.
  template <typename T>
  const T& of() const {
    static const T& none = *new T;
    const T* own = std::get_if<T>(&facts);
    return own ? *own : none;
  }
};

// The operand's name. Without one "the result of b.neg()" where the text that made it is known, "parameter 1 (float
// const*)" of a kernel, else "a tensor". Of what is no tensor "memory of 4.0 KiB from cudaMalloc at main.cpp:12".
std::string name_of(const Operand& operand);

// "input_ids on cuda:0, embeddings.word_embeddings.weight on cuda:1"; empty without operands.
std::string who_is_where(const Finding& finding);

}  // namespace devtrace::finding
