#include "tracker/findings/refusal_record.h"

#include <algorithm>
#include <set>

#include "report/base/format.h"
#include "tracker/base/message.h"
#include "tracker/base/options.h"
#include "tracker/evidence/autograd.h"
#include "tracker/evidence/operands.h"
#include "tracker/evidence/operation.h"
#include "tracker/evidence/source/raising_code.h"
#include "tracker/evidence/stack_values.h"
#include "tracker/findings/cpp_operands.h"
#include "tracker/interface/platform.h"
#include "tracker/log/record_fields.h"
#include "tracker/memory/provenance.h"
#include "tracker/python/gil/borrowed_gil.h"
#include "tracker/refusals/swallowed_errors.h"

namespace devtrace::findings {
namespace {

using evidence::Frame;
using refusals::RefusalMessage;
using namespace log::record_fields;

const char kAten[] = "aten::";
constexpr std::string_view kDotted = "aten.";  // of "aten.add.Tensor", as Python calls an overload
constexpr size_t kMostFrames = 128;

Json chains_json(const std::vector<evidence::Chain>& chains, const SourceText& source) {
  Json list = Json::array();
  for (const evidence::Chain& chain : chains) {
    Json holders = Json::array();
    for (const evidence::Holder& holder : chain.holders) {
      Json one{{"name", holder.name}, {"kind", holder.kind}, {"class", holder.type}, {"holds", holder.holds}};
      add(one, "function", holder.bound);
      if (!holder.devices.empty()) one["devices"] = holder.devices;
      if (holder.replica) one["replica"] = true;
      for (const auto& [name, devices] : holder.modules)
        if (holder.modules.size() > 1) one["modules"].push_back({{"name", name}, {"devices", devices}});
      if (holder.bound_line > 0) {
        one["bound"] = {{"file", holder.bound_file}, {"line", holder.bound_line}};
        if (options().source) add_source(one["bound"], source.lines(holder.bound_file, holder.bound_line));
      }
      holders.push_back(std::move(one));
    }
    list.push_back({{"frame", chain.frame}, {"name", chain.name}, {"holders", std::move(holders)}});
  }
  return list;
}

Json giver_json(const evidence::Giver& giver, const std::string& library, const SourceText& source) {
  Json keeps = Json::array();
  for (const evidence::Giver::Kept& kept : giver.keeps) {
    Json one{{"name", kept.name}, {"device", kept.tensor.device}, {"shape", kept.tensor.shape}};
    add_provenance(one, kept.tensor.storage, library, source);
    keeps.push_back(std::move(one));
  }
  Json one{{"name", giver.name}, {"kind", giver.kind}};
  if (!giver.devices.empty()) one["devices"] = giver.devices;
  if (!keeps.empty()) one["keeps"] = std::move(keeps);
  return one;
}

Json modules_json(const std::vector<evidence::RunningModule>& modules) {
  Json list = Json::array();
  for (const evidence::RunningModule& module : modules) {
    Json one{{"frame", module.frame}, {"class", module.type}};
    if (!module.devices.empty()) one["devices"] = module.devices;
    for (const auto& part : module.parts) one["parts"].push_back({{"name", part.name}, {"devices", part.devices}});
    add(one, "hook", module.hook);
    if (!module.skip_keys.empty()) one["skip_keys"] = module.skip_keys;
    if (module.replica) one["replica"] = true;
    list.push_back(std::move(one));
  }
  return list;
}

Json operand_json(const evidence::Operand& operand, const std::string& library, const SourceText& source) {
  Json record;
  add(record, "name", operand.name);
  Json names = Json::array();
  for (const evidence::Name& name : operand.names) names.push_back({{"frame", name.frame}, {"name", name.name}});
  if (!names.empty()) record["names"] = std::move(names);
  add(record, "role", operand.role);
  if (operand.odd) record["odd"] = true;
  add(record, "expression", operand.expression);
  record["device"] = operand.tensor.device;
  if (operand.tensor.object) {
    record["dtype"] = operand.tensor.dtype;
    record["shape"] = operand.tensor.shape;
    record["bytes"] = operand.tensor.bytes;
  }
  if (operand.tensor.address) record["address"] = fmt::format("{:#x}", operand.tensor.address);
  add(record, "module_path", operand.module_path);
  add(record, "module_class", operand.module_class);
  add(record, "root_class", operand.root_class);
  add(record, "hook", operand.hook);
  add(record, "device_map", operand.device_map);
  if (operand.tensor.requires_grad) record["requires_grad"] = true;
  if (operand.tensor.is_parameter) record["is_parameter"] = true;
  if (!operand.root_devices.empty()) record["root_devices"] = operand.root_devices;
  add(record, "view_of", operand.view_of);
  if (operand.generator) record["generator"] = true;
  if (!operand.held_by.empty()) record["held_by"] = chains_json(operand.held_by, source);
  if (const auto& from = operand.device_from) {
    Json one{{"name", from->name}, {"role", from->role}};
    add(one, "says", from->says);
    add(one, "kind", from->kind);
    add(one, "class", from->type);
    if (!from->devices.empty()) one["devices"] = from->devices;
    record["device_from"] = std::move(one);
  }
  for (const evidence::Operand& from : operand.computed_from)
    record["computed_from"].push_back(operand_json(from, library, source));
  if (operand.given_by) record["given_by"] = giver_json(*operand.given_by, library, source);
  add_provenance(record, operand.tensor.storage, library, source);
  return record;
}

std::string first_line(std::string_view text) {
  constexpr size_t kLongest = 4000;
  return std::string(text.substr(0, std::min(text.find('\n'), kLongest)));
}

// Of an operand that is no registered tensor: the one that was it until a module moved it away. A tensor's memory that
// was filled by a move remembers where the memory it came from was made.
void note_moved_away(const evidence::Operand& operand, Json& record) {
  const auto own = memory::provenance::find(operand.tensor.storage);
  if (!own || own->moved_from.known() || own->allocated.stack == 0) return;
  for (const evidence::Registered& registered : operand.registered) {
    const auto block = memory::provenance::find(registered.tensor.storage);
    if (!block || !block->moved_from.known()) continue;
    const bool same = block->created.stack == own->allocated.stack && block->created.time == own->allocated.time &&
                      block->created.thread == own->allocated.thread && block->moved_from == own->allocated.device;
    if (!same) continue;
    record["moved_away"] = {{"name", registered.name}, {"device", registered.tensor.device}};
    return;
  }
}

std::optional<evidence::Made> made_by(uintptr_t storage) {
  const auto block = storage ? memory::provenance::find(storage) : std::nullopt;
  if (!block) return std::nullopt;
  return evidence::Made{stacks::resolve(block->allocated.stack), block->allocated.time, block->moved_from.known()};
}

struct Gathered {
  Json python = Json::array();
  bool waiting = false;  // `python` is of the thread that waits for this one
  Json gradient = Json::object();
  Json operands = Json::array();
  Json history = Json::object();             // `device_changes`, if there were any
  Json surroundings = Json::object();        // `modules` and `mentions`
  std::vector<std::string> operand_devices;  // in order
  std::vector<std::string> named_devices;    // by the call, which gives no tensor there
  bool raised_by_program = false;            // its own code made the exception
  bool told_before = false;                  // in other words
  std::set<std::string> mentioned_devices;   // of all tensors that the failing expression mentions
  std::string operation;
  std::string overload;
  std::optional<std::string> swallowed;  // why it is a note
  std::string incomplete;                // what is not there, and why
};

// What only the refusing thread itself can be asked; the evidence may be gathered on another.
struct Refusing {
  Native native = native_stack();
  python::FrameSource frames = python::FrameSource::of_this_thread();
  DeviceChanges changes = device_changes();
  // What "cuda" means to it; device 0 until it chooses another.
  std::string cuda = Device::cuda(std::max(0, platform().current_device())).name();
};

// What the generator's numbers were asked for: a tensor without a name, on the current device.
void add_drawn(const RefusalMessage& message, const Refusing& thread, const std::vector<Frame>& frames, Gathered& out) {
  Json drawn{{"role", "temporary"}};
  const std::string device = message.generator_wanted != "cuda" ? message.generator_wanted : thread.cuda;
  const std::string& text = frames.empty() ? std::string() : frames[0].expression;
  if (!frames.empty() && frames[0].exact && text.size() <= 120 && text.find('\n') == text.npos)
    add(drawn, "expression", text);
  drawn["device"] = device;
  out.operands.push_back(std::move(drawn));
  out.operand_devices.push_back(device);
}

// Does a tensor there answer to what a message calls a device? "cuda" is any of CUDA's.
bool lies(const std::string& device, const std::string& said) {
  return device == said || (said == "cuda" && device.starts_with("cuda:"));
}

evidence::Wanted wanted_of(const events::Refused& refusal, const RefusalMessage& message, const Native& native,
                           const std::vector<Frame>& frames) {
  evidence::Wanted wanted;
  if (refusal.odd.known()) {
    wanted.odd_data = reinterpret_cast<uintptr_t>(refusal.odd_data);
    wanted.odd_device = refusal.odd.name();
  }
  wanted.devices_named = message.devices_named;
  wanted.devices_of_operands = message.devices_of_operands;
  wanted.direct = !native.autograd;
  wanted.generator = !message.generator_wanted.empty();
  const bool in_python = refusal.raised == events::Raised::in_python;
  if (!frames.empty() && (in_python || evidence::compiling(frames))) wanted.asking = evidence::asking_frame(frames);
  wanted.fake = wanted.asking > 0;
  if (const auto& known = message.known) {
    wanted.variable = known->row->operand;
    wanted.none = known->row->no_tensor;
    wanted.ordinals = known->row->ordinal;
    wanted.on_meta = known->at == "meta" || known->wanted == "meta";
    if (!known->at.empty()) wanted.devices_of_operands = {known->at};
    if (known->row->wanted.empty()) wanted.other_device = known->wanted;
    wanted.all_named = known->operation.starts_with(kDotted);
    if (wanted.all_named) wanted.devices_of_operands.push_back(known->wanted);
  }
  return wanted;
}

// Of a known refusal only those operands count that lie where it says that they do; the one that should be elsewhere is
// the odd one.
void keep_those_meant(const refusals::KnownMatch& known, evidence::Operands& operands) {
  if (known.at.empty()) return;
  const auto at = [&](const evidence::Operand& each) { return lies(each.tensor.device, known.at); };
  if (std::none_of(operands.list.begin(), operands.list.end(), at)) return;
  // With a device of the message's own there is a second operand; a place where the operation works has none.
  const bool second = !known.wanted.empty() && known.row->wanted.empty();
  std::erase_if(operands.list,
                [&](const auto& each) { return !at(each) && !(second && lies(each.tensor.device, known.wanted)); });
  if (std::count_if(operands.list.begin(), operands.list.end(), at) == 1)
    std::find_if(operands.list.begin(), operands.list.end(), at)->odd = true;
}

Json place_json(const evidence::CodePlace& place, const std::string& library) {
  Json one{{"file", place.file}, {"line", place.line}, {"function", place.function}};
  if (options().source) add_source(one, place.source);
  one["project"] = evidence::is_project_file(place.file, library);
  return one;
}

Json gradient_json(const evidence::RefusedGradient& gradient, const std::string& library) {
  Json one{{"index", gradient.index}};
  add(one, "function", gradient.function);
  add(one, "argument", gradient.argument);
  if (gradient.forward.line > 0) one["forward"] = place_json(gradient.forward, library);
  if (gradient.backward.line > 0) one["backward"] = place_json(gradient.backward, library);
  for (const evidence::RefusedGradient::Hook& hook : gradient.hooks) {
    Json code = place_json(hook.code, library);
    code["tensor"] = hook.tensor;
    one["hooks"].push_back(std::move(code));
  }
  return one;
}

// Is it about what a node of autograd's graph gave, or what the program gave to backward()?
bool is_of_a_gradient(const RefusalMessage& message) {
  return message.known && message.known->row->argument == "gradient";
}

// The gradient itself, of which nothing but the device is known.
void say_gradient(const evidence::RefusedGradient& gradient, const refusals::KnownMatch& known,
                  evidence::Operands& operands) {
  if (known.operation.empty()) return;
  const auto unnamed = [&](const evidence::Operand& each) {
    return !each.is_object() && each.tensor.device == known.at;
  };
  auto found = std::find_if(operands.list.begin(), operands.list.end(), unnamed);
  if (found == operands.list.end()) found = operands.list.insert(operands.list.begin(), evidence::Operand());
  found->tensor.device = known.at;
  found->role = "temporary";
  found->expression = gradient.expression;
  found->odd = true;
}

// The operator that the program asked for, where PyTorch runs its kernel as Python code: that calls other operators,
// one of which was refused. Empty: there is none such.
std::string asked_of_python_kernel(const Native& native, const std::vector<Frame>& frames) {
  if (native.asked.empty() || frames.empty() || !frames[0].torch) return {};
  const size_t asking = evidence::asking_frame(frames);
  const auto program = frames.begin() + static_cast<ptrdiff_t>(asking);
  if (!std::all_of(frames.begin(), program, [](const Frame& frame) { return frame.torch; })) return {};
  // A mode of the program's own is called by the operator too: then it is not known which one was asked for inside.
  const bool dispatched = std::any_of(
      program, frames.end(), [](const Frame& frame) { return frame.function.ends_with("__torch_dispatch__"); });
  return dispatched ? std::string() : native.asked;
}

// The operation's public name, where no operator of the dispatcher was refused.
std::string public_name(const python::Api& api, const RefusalMessage& message, const Native& native,
                        const std::vector<Frame>& frames, Gathered& out) {
  if (message.known && !message.known->operation.empty()) {
    const std::string& said = message.known->operation;
    if (!said.starts_with(kDotted)) return said;
    const size_t dot = said.find('.', 5);
    if (dot != said.npos && said.substr(dot + 1) != "default") out.overload = said.substr(dot + 1);
    return kAten + said.substr(5, dot == said.npos ? dot : dot - 5);
  }
  if (!message.without_kernel.empty()) return message.without_kernel;
  if (frames.empty()) return {};
  // A kernel that is written in Python refuses for the operator.
  if (frames[0].torch && !native.calling.empty()) {
    auto [operation, overload] = evidence::schema_name(api, native.calling);
    out.overload = std::move(overload);
    return kAten + operation;
  }
  return evidence::called_function(api, frames, evidence::asking_frame(frames));
}

void gather_with_gil(const python::Api* api, const events::Refused& refusal, const RefusalMessage& message,
                     const Refusing& thread, Gathered& out) {
  const Native& native = thread.native;
  const python::Gil gil(*api);
  const evidence::Torch torch(*api);
  const evidence::SourceReader sources(*api);
  std::vector<Frame> frames = evidence::frames(*api, thread.frames, kMostFrames, sources);
  if (frames.empty() && native.autograd)
    if (const auto waiting = evidence::waiting_for_autograd(*api)) {
      frames = evidence::frames(*api, *waiting, kMostFrames, sources);
      out.waiting = true;
    }
  const std::string library = evidence::standard_library(*api);
  const SourceText source{[&](const std::string& file, int line) { return sources.lines(file, line); },
                          [&](const std::string& file, int line) { return sources.around(file, line); }};
  out.python = python_json(frames);
  const bool raised_here = refusal.raised == events::Raised::in_python && !frames.empty() &&
                           !evidence::StackValues(*api, frames).calls_c_code();
  out.raised_by_program = raised_here && frames[0].project;
  if (raised_here && message.rewords) {
    out.told_before = true;
    return;
  }
  // PyTorch's own checks always were faults, whoever runs into them.
  if (message.known || refusal.raised != events::Raised::checked) out.swallowed = refusals::swallowed(frames);
  add_device_changes(out.history, thread.changes, library, source);
  if (!torch.imported()) return;
  evidence::Wanted wanted = wanted_of(refusal, message, native, frames);
  wanted.made = made_by;
  wanted.sources = &sources;
  wanted.standard_library = library;
  const auto gradient =
      is_of_a_gradient(message)
          ? evidence::refused_gradient(*api, torch, frames, sources, message.known->operation, refusal.message)
          : std::nullopt;
  if (gradient) wanted.met = gradient->met;
  evidence::Operands operands = evidence::operands(*api, torch, frames, wanted);
  if (gradient) say_gradient(*gradient, *message.known, operands);
  if (gradient) out.gradient = gradient_json(*gradient, library);
  if (message.known) keep_those_meant(*message.known, operands);
  if (!message.without_kernel.empty() && operands.list.size() == 1) operands.list[0].odd = true;

  out.mentioned_devices = operands.mentioned;
  out.named_devices = operands.named_devices;
  for (evidence::Operand& operand : operands.list) {
    if (operand.generator && operand.tensor.device == "cuda") operand.tensor.device = thread.cuda;
    out.operands.push_back(operand_json(operand, library, source));
    note_moved_away(operand, out.operands.back());
    out.operand_devices.push_back(operand.tensor.device);
  }
  if (wanted.generator) add_drawn(message, thread, frames, out);
  if (!operands.state_devices.empty()) out.surroundings["state_devices"] = operands.state_devices;
  if (!operands.modules.empty()) out.surroundings["modules"] = modules_json(operands.modules);
  for (const evidence::Mention& mention : operands.mentions)
    out.surroundings["mentions"].push_back(
        {{"frame", mention.frame}, {"name", mention.name}, {"device", mention.device}});
  const bool named =
      message.known && !message.known->operation.empty() && !message.known->operation.starts_with(kDotted);
  if (const std::string asked = asked_of_python_kernel(native, frames); !named && !asked.empty()) {
    std::tie(out.operation, out.overload) = evidence::schema_name(*api, asked);
    out.operation.insert(0, kAten);
    return;
  }
  if (native.operation.empty()) {
    out.operation = evidence::jitted_kernel(*api, frames);
    if (out.operation.empty()) out.operation = public_name(*api, message, native, frames, out);
    return;
  }
  std::tie(out.operation, out.overload) = evidence::schema_name(*api, native.operation);
  out.operation.insert(0, kAten);
}

// Without the GIL: what is read as memory.
void gather_without_gil(const Refusing& thread, Gathered& out) {
  const SourceText source = source_from_disk();
  out.python = python_json(stacks::resolve(thread.changes.here), "", source);
  add_device_changes(out.history, thread.changes, "", source);
  out.incomplete = "operands were not read: another thread held Python's GIL and did not let go of it in time";
  say("refused-op: " + out.incomplete);
}

void gather_python(const events::Refused& refusal, const RefusalMessage& message, const Refusing& thread,
                   Gathered& out) {
  const python::Api* api = python::api();
  if (!api) return;
  const bool gathered = python::with_gil(*api, [&] {
    try {
      gather_with_gil(api, refusal, message, thread, out);
    } catch (...) {  // out of memory: what there is
    }
  });
  if (!gathered) gather_without_gil(thread, out);
}

// Of a program without Python what C++ knows.
void gather_cpp(const events::Refused& refusal, const Refusing& thread, const Json& native_frames,
                const SourceText& source, Gathered& out) {
  add_device_changes(out.history, thread.changes, "", source);
  auto operands = cpp_operands(refusal, thread.native, native_frames, source);
  if (!operands) return;
  out.operation = kAten + operands->operation;
  out.overload = operands->overload;
  out.operands = std::move(operands->list);
  out.operand_devices = std::move(operands->devices);
}

// Whether operands on different devices can be what an error is about that only speaks of devices.
bool mixes_devices(const RefusalMessage& message, const Gathered& gathered) {
  std::set<std::string> devices = gathered.mentioned_devices;
  devices.insert(gathered.operand_devices.begin(), gathered.operand_devices.end());
  if (!message.without_kernel.empty())
    return std::any_of(devices.begin(), devices.end(), [](const auto& each) { return lies(each, "cuda"); });
  if (devices.size() >= 2 || message.devices_of_operands.size() >= 2) return true;
  return devices.empty() && message.devices_named.size() >= 2;
}

// Whether an error that speaks of devices is a refusal of where operands lie.
bool is_refusal(const events::Refused& refusal, const RefusalMessage& message, const Gathered& gathered) {
  if (message.known) return !message.known->row->handles || gathered.named_devices.size() >= 2;
  if (message.catalogued && !gathered.raised_by_program) return true;
  if (refusal.raised == events::Raised::checked)
    return message.likelihood == refusals::Likelihood::certain || mixes_devices(message, gathered);
  // Words are no evidence: anybody may have written them.
  std::set<std::string> devices(gathered.operand_devices.begin(), gathered.operand_devices.end());
  return devices.size() >= 2;
}

// Does the message itself name the device of what has no tensor?
bool names_all(const RefusalMessage& message) {
  return message.known && message.known->row->no_tensor && !message.known->at.empty();
}

bool is_missing(const std::string& device) {
  const std::vector<DeviceFacts> devices = platform().devices();
  return device != "cuda" && std::none_of(devices.begin(), devices.end(), [&](const DeviceFacts& each) {
           return Device::cuda(each.index).name() == device;
         });
}

}  // namespace

std::optional<Json> refusal_record(const events::Refused& refusal, const RefusalMessage& message) {
  const Refusing thread;
  const Native& native = thread.native;
  Gathered gathered;
  if (!native.operation.empty()) gathered.operation = kAten + native.operation;
  gather_python(refusal, message, thread, gathered);
  const SourceText source = source_from_disk();
  Json native_frames = native_json(native.frames, source);
  if (gathered.python.empty() && !native.operation.empty())
    gather_cpp(refusal, thread, native_frames, source, gathered);

  if (gathered.told_before || !is_refusal(refusal, message, gathered)) return std::nullopt;

  Json record = begin("refused-op");
  if (gathered.swallowed) {
    record["severity"] = "note";
    record["note"] = *gathered.swallowed;
  }
  record["message"] = first_line(refusal.message);
  add(record, "operation", gathered.operation);
  add(record, "overload", gathered.overload);
  add(record, "method", refusal.method.empty() ? message.method : std::string(refusal.method));
  std::string argument = refusal.argument.empty() ? message.argument : std::string(refusal.argument);
  if (argument.empty() && message.known) argument = message.known->row->argument;
  add(record, "argument", std::move(argument));
  if (const int device = platform().current_device(); device >= 0)
    record["current_device"] = Device::cuda(device).name();
  // Operands of one device only: it is the CPU that they should be on.
  const bool lacks_kernel_of_one_device =
      !message.without_kernel.empty() && std::none_of(gathered.operand_devices.begin(), gathered.operand_devices.end(),
                                                      [](const auto& each) { return each == "cpu"; });
  Json devices = Json::array();
  for (const std::string& device : gathered.operand_devices) add_device(devices, device);
  for (const std::string& device : message.devices_of_operands) add_device(devices, device);
  add_device(devices, refusal.common.name());
  add_device(devices, refusal.odd.name());
  if (message.known) add_device(devices, message.known->at);
  // What lies on one device alone was refused for what the call says of another, if it says any.
  if (devices.size() < 2 && (message.known || message.catalogued) && !names_all(message))
    for (const std::string& device : gathered.named_devices)
      if (!message.known || !message.known->row->ordinal || is_missing(device))
        add_device(devices, device == "cuda" ? thread.cuda : device);
  if (message.known) {
    // "cuda" is the device that is current. Where nothing is known to lie elsewhere, it says nothing.
    if (!devices.empty()) add_device(devices, message.known->wanted == "cuda" ? thread.cuda : message.known->wanted);
    add(record, "wanted_device", message.known->wanted);
    if (message.known->row->handles) record["handles"] = true;
    if (message.known->row->ordinal) record["device_count"] = platform().devices().size();
  }
  if (message.wants_cpu || lacks_kernel_of_one_device) {
    add_device(devices, "cpu");
    record["wanted_device"] = "cpu";
  }
  // "expected its indices to be on cpu": what a message names otherwise may be where nothing lies.
  if (devices.size() < 2 && !message.known)
    for (const std::string& device : message.devices_named) add_device(devices, device);
  record["devices"] = std::move(devices);
  if (!gathered.operands.empty()) record["operands"] = std::move(gathered.operands);
  record.update(gathered.history);
  record.update(gathered.surroundings);
  if (!gathered.gradient.empty()) record["gradient"] = std::move(gathered.gradient);
  add(record, "incomplete", gathered.incomplete);
  if (gathered.waiting) record["waiting"] = true;
  record["python"] = std::move(gathered.python);
  if (options().native) record["native"] = std::move(native_frames);
  return record;
}

}  // namespace devtrace::findings
