// Where control goes: branches, calls, barriers, ends.
#include <string>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/hazards.h"

namespace devtrace::simulate::kernels {
namespace {

void trap(Machine& m, const Step&) {
  m.fail(FaultKind::trap, m.lanes->begin()->begin);
}
void pause(Machine& m, const Step&) {
  m.ticks += 4096;
}
void fence(Machine& m, const Step&) {
  if (m.hazards) m.hazards->barrier();
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void arrive_in_cluster(Machine& m, const Step&) {
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) ++m.arrivals[l];
}

bool decode_barrier(Decoder& d) {
  if (d.has(".warp")) {
    d.wait_for_warp(0);
    return true;
  }
  if (d.has(".cluster")) {
    if (d.has(".arrive")) d.emit(arrive_in_cluster);
    if (d.has(".wait")) d.emit(nullptr).flow = Flow::cluster_wait;
    return d.has(".arrive") || d.has(".wait");
  }
  const bool reduces = d.has(".red");
  size_t at = 0;
  Slot result = kNoSlot;
  uint8_t mode = 0;
  if (reduces) {
    mode = d.has(".popc") ? 1 : d.has(".and") ? 2 : 3;
    result = d.destination(0, mode == 1 ? Type::b32 : Type::pred);
    at = 1;
  }
  const size_t numbers = d.operand_count() - at - (reduces ? 1 : 0);
  if (d.operand_count() < at || numbers > 2) return false;
  const Slot id = numbers > 0 ? d.source(at, Type::b32) : d.constant(0, 4);
  const Slot count = numbers > 1 ? d.source(at + 1, Type::b32) : kNoSlot;
  const Slot p = reduces ? d.predicate(d.operand(d.operand_count() - 1)) : kNoSlot;
  Step& step = d.emit(nullptr, result, id, count, p);
  step.flow = d.has(".arrive") ? Flow::arrive : Flow::barrier;
  step.mode = mode;
  return true;
}

}  // namespace

Slot Decoder::wait_for_warp(size_t operand_index) {
  const Slot mask = source(operand_index, Type::b32);
  emit(nullptr, kNoSlot, mask).flow = Flow::warp_sync;
  return mask;
}

Place Decoder::place_of(const Operand& o, const ptx::Variable* formal) {
  Place place;
  if (o.kind == Operand::Kind::variable) {
    const ptx::Variable& v = function_.variables[o.index];
    if (v.space == Space::param || v.space == Space::local) {
      place.in_local = true;
      place.offset = local_[o.index];
      place.bytes = static_cast<uint32_t>(v.bytes);
      return place;
    }
  }
  if (o.kind == Operand::Kind::parameter && !function_.entry) {
    return own_place(o);
  }
  if (o.kind == Operand::Kind::reg) {
    size_t bytes = 0;
    bool sign = false;
    place.slot = raw(o, Type::b64, &bytes, &sign);
    place.bytes = static_cast<uint32_t>(bytes);
    return place;
  }
  const Type type = formal ? formal->type : Type::b64;
  place.slot = source(o, type);
  place.bytes = static_cast<uint32_t>(ptx::bytes_of(type));
  return place;
}

// call {(results),} function {, (arguments)} {, prototype}
bool Decoder::call() {
  size_t at = 0;
  CallSite site;
  const Operand* results = nullptr;
  if (operand(0).kind == Operand::Kind::list) results = &operand(at++);
  const Operand& target = operand(at++);
  const Operand* arguments = operand(at).kind == Operand::Kind::list ? &operand(at) : nullptr;
  const ptx::Function* callee = nullptr;
  if (target.kind == Operand::Kind::name) {
    const auto found = program_.functions.find(target.name);
    if (found == program_.functions.end()) return false;
    site.function = found->second;
    callee = &program_.module.functions[found->second];
    // NVIDIA's library has the device's runtime as PTX, too, made of calls that only its driver knows.
    if (!callee->defined || is_of_the_runtime(target.name)) site.builtin = builtin_called(target.name);
    if (!callee->defined && site.builtin == Builtin::none) {
      refuse("call of " + std::string(target.name));
      return true;
    }
  } else if (target.kind == Operand::Kind::reg) {
    site.pointer = source(target, Type::b64);
  } else {
    return false;
  }
  const auto formal = [&](const std::vector<ptx::Variable>& list, size_t i) {
    return i < list.size() ? &list[i] : nullptr;
  };
  if (arguments)
    for (size_t i = 0; i < arguments->parts.size(); ++i)
      for (const Operand& part : parts(arguments->parts[i]))
        site.arguments.push_back(place_of(part, callee ? formal(callee->parameters, i) : nullptr));
  if (results)
    for (size_t i = 0; i < results->parts.size(); ++i)
      for (const Operand& part : parts(results->parts[i]))
        site.results.push_back(place_of(part, callee ? formal(callee->results, i) : nullptr));
  Step& step = emit(nullptr);
  step.flow = Flow::call;
  step.extra = static_cast<uint32_t>(code_.calls.size());
  code_.calls.push_back(std::move(site));
  return true;
}

bool decode_flow(Decoder& d) {
  const std::string_view op = d.instruction().opcode;
  if (op == "bra") {
    if (d.operand(0).kind != Operand::Kind::label) return false;
    const uint32_t target = d.operand(0).index;
    Step& step = d.emit(nullptr);
    step.flow = Flow::branch;
    step.extra = target;
    return true;
  }
  if (op == "brx") {
    if (d.operand(1).kind != Operand::Kind::table) return false;
    const Slot index = d.source(0, Type::b32);
    Step& step = d.emit(nullptr, kNoSlot, index);
    step.flow = Flow::table;
    step.extra = d.operand(1).index;
    return true;
  }
  if (op == "bar" || op == "barrier") return decode_barrier(d);
  if (op == "call") return d.call();
  if (op == "ret" || op == "exit") {
    d.emit(nullptr).flow = op == "ret" ? Flow::ret : Flow::exit;
    return true;
  }
  if (op == "trap") d.emit(trap);
  if (op == "nanosleep") d.emit(pause);
  if (op == "fence" || op == "membar") d.emit(fence);
  return true;  // brkpt, pmevent, griddepcontrol, setmaxnreg: nothing to see
}

}  // namespace devtrace::simulate::kernels
