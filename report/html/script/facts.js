// What else is known of the finding and of its process.

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return make("dl", { className: "facts" }, shown.flatMap(([name, value]) => [make("dt", null, name), make("dd", { className: "long" }, String(value))]));
}

function drawFindingFacts(finding, count) {
  const launch = object(finding.launch);
  const copy = object(finding.copy);
  const tried = object(object(finding.cause).verified);
  const worked = Array.isArray(tried.devices_with_work) ? tried.devices_with_work.filter((each) => typeof each === "string") : [];
  const size = (value) => (Array.isArray(value) ? value.filter(Number.isInteger).join(" × ") : "");
  const byDefault = object(finding.device_choice).by_default ? " (by default: this thread never chose one)" : "";
  return section("This finding", facts([
    ["Message", string(finding.message)], ["Operation", string(finding.operation) + (string(finding.overload) ? `, overload ${string(finding.overload)}` : "")],
    ["Argument", string(finding.argument)], ["Checked in", string(finding.method)], ["Current device", string(finding.current_device) && string(finding.current_device) + byDefault],
    ["Kernel", string(launch.kernel)], ["Grid, block", size(launch.grid) && `${size(launch.grid)}, ${size(launch.block)}`],
    ["The kernel", string(object(finding.shown).access)], ["Launch", launch.graph === true ? "not yet: it was made part of a graph" : ""], ["Copy", string(copy.function) && [copy.function, string(copy.direction), bytes(copy.bytes)].filter(Boolean).join(", ")],
    ["Thread", [finding.thread, string(finding.thread_name)].filter(Boolean).join(" ")], ["Time", time(finding.time)], ["Seen", timesOf(count)],
    ["Seen by", string(finding.seen_by)], ["First", string(finding.first_seen_by)], ["The fix, tried", [Number.isInteger(tried.runs) && timesOf(tried.runs), worked.length && `work on ${worked.join(", ")}`, string(tried.patch)].filter(Boolean).join("; ")],
    ["To suppress it", string(object(finding.shown).suppression)],
    ["Kind", string(finding.kind)], ["Fingerprint", string(finding.fingerprint)]]));
}

function drawProcessFacts() {
  const process = log.process;
  const environment = Object.entries(object(process.environment)).map(([key, value]) => `${key}=${value}`).join(" ");
  return section("The process", facts([
    ["Command", Array.isArray(process.command) ? process.command.join(" ") : ""], ["Directory", string(process.cwd)], ["Host", string(process.host)], ["Process", process.pid],
    ["Started", time(process.started)], ["Attached", process.attached && time(process.attached)], ["Python", string(process.python)], ["PyTorch", string(process.torch)], ["CUDA runtime", string(process.cuda_runtime)],
    ["Devices", objects(process.devices).map((device) => `cuda:${device.index} ${string(device.name)} ${string(device.uuid)}`.trim()).join("\n")],
    ["Visible devices", string(process.visible_devices)], ["Environment", environment], ["Stacks", string(process.stacks)],
    ["Missing in PyTorch", objects(process.missing_symbols).map((one) => `${string(one.symbol)}: ${string(one.effect)}`).join("\n")],
    ["Exit code", log.end && log.end.exit], ["devtrace", string(process.devtrace)]]));
}
