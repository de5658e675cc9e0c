#include "tracker/findings/operand_json.h"

#include "report/base/format.h"
#include "tracker/base/options.h"
#include "tracker/memory/provenance.h"

namespace devtrace::findings {

using namespace log::record_fields;

namespace {

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

Json place_json(const evidence::CodePlace& place, const std::string& library) {
  Json one{{"file", place.file}, {"line", place.line}, {"function", place.function}};
  if (options().source) add_source(one, place.source);
  one["project"] = evidence::is_project_file(place.file, library);
  return one;
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

}  // namespace

Json with_odd(Json operand, bool odd) {
  if (odd)
    operand["odd"] = true;
  else
    operand.erase("odd");
  return operand;
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
  record["odd"] = operand.odd;
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
    record["computed_from"].push_back(with_odd(operand_json(from, library, source), from.odd));
  if (operand.given_by) record["given_by"] = giver_json(*operand.given_by, library, source);
  add_provenance(record, operand.tensor.storage, library, source);
  note_moved_away(operand, record);
  return record;
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

}  // namespace devtrace::findings
