// How things are called. What is said of a finding as a whole comes with its record, written by the same code as the text report.

// As report/phrasing/phrasing.cpp has it: a path as its reader knows it.
function shownFile(file) {
  const installed = /^.*\/(?:site|dist)-packages\/(.+)$/s.exec(file);
  if (installed) return installed[1];
  const folder = string(log.process.cwd).replace(/\/+$/, "") + "/";
  return folder.length > 1 && file.startsWith(folder) && file.length > folder.length ? file.slice(folder.length) : file;
}

function location(frame) {
  if (!string(frame.file) && string(frame.module)) return `${baseName(string(frame.module))}+${string(frame.offset)}`;
  const line = Number.isInteger(frame.line) && frame.line > 0 ? ":" + frame.line : "";
  return shownFile(string(frame.file)) + line;
}

const baseName = (path) => path.split("/").pop();

// Where there is no room for a path.
const shortLocation = (frame) => baseName(location(frame));

// Behind the bracket that closes the one at `open`; 0 for none.
function behindClosing(name, open) {
  let depth = 0;
  for (let at = open; at < name.length; ++at) {
    if (name[at] === "(" || name[at] === "{") ++depth;
    if ((name[at] === ")" || name[at] === "}") && !--depth) return at + 1;
  }
  return 0;
}

// Where the signature of an enclosing function ends, if the parameters at `open` are of one; 0: they are not.
function behindEnclosing(name, open) {
  const behind = behindClosing(name, open);
  const inside = behind ? /^(?: const)?(?: volatile)?(?: &&?)?::/.exec(name.slice(behind)) : null;
  return inside ? behind + inside[0].length : 0;
}

// Of a native frame, as report/phrasing/signature.cpp has it, the name without its parameters.
function functionOf(frame) {
  const name = string(frame.function);
  if (!string(frame.module)) return name.replace(/\.<locals>\.<(?:dict|list|set)comp>$|\.<locals>\.<genexpr>$/, "");
  let depth = 0;
  let start = 0;
  let inner = 0;
  for (let at = 0; at < name.length; ++at) {
    const before = name.slice(inner, at);
    const inOperator = before.includes("operator") && !before.includes("(");
    if (!inOperator && name[at] === "<") ++depth;
    if (!inOperator && name[at] === ">" && depth) --depth;
    if (depth) continue;
    if (name[at] === " " && !inOperator) start = inner = at + 1;
    if (name[at] === "{") {
      const behind = behindClosing(name, at);
      if (!behind) break;
      at = behind - 1;
      continue;
    }
    if (name[at] !== "(" || before.endsWith("operator")) continue;
    if (name.startsWith("(anonymous namespace)", at)) {
      at += "(anonymous namespace)".length - 1;
      continue;
    }
    const behind = behindEnclosing(name, at);
    if (!behind) return name.slice(start, at);
    inner = behind;
    at = behind - 1;
  }
  return name.slice(start);
}

// Python's frames of a record, or where no Python ran the native ones.
const framesOf = (record) => (objects(object(record).python).length ? objects(record.python) : objects(object(record).native));

function userFrame(frames) {
  const all = objects(frames);
  return all.find((frame) => frame.project === true) || all[0] || null;
}

// As report/phrasing/phrasing.cpp has it: behind an operand of which it is not known where it came from stands what it was computed from.
function operandsAndSources(finding) {
  return objects(finding.operands).flatMap((operand) => {
    const source = objects(operand.computed_from)[0];
    if (isObject(operand.created) || isObject(operand.moved) || !source) return [operand];
    return [operand, { ...source, role: `of which ${nameOf(operand)} was computed` }];
  });
}

function place(frame) {
  const where = location(frame);
  const name = functionOf(frame);
  return name && where ? `${name} (${where})` : name || where;
}

function bytes(count) {
  if (!Number.isFinite(count) || count < 0) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit < units.length - 1; ++unit) count /= 1024;
  return `${unit && count < 10 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

function duration(seconds) {
  if (!Number.isFinite(seconds) || seconds < 0) return "";
  const [value, unit] = seconds < 1e-3 ? [seconds * 1e6, "µs"] : seconds < 1 ? [seconds * 1e3, "ms"] : [seconds, "s"];
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}`;
}

function time(seconds) {
  const date = new Date(seconds * 1000);
  return typeof seconds === "number" && !Number.isNaN(date.getTime()) ? date.toISOString().replace("T", " ").replace("Z", " UTC") : "";
}

const copiesOf = (count) => `${count} ${count === 1 ? "copy" : "copies"}`;
const timesOf = (count) => (count === 1 ? "once" : `${count} times`);

const headline = (finding) => string(object(finding.shown).headline) || `${string(finding.operation) || "an operation"} mixed devices`;
const operationOf = (finding) => string(finding.operation) || string(object(finding.launch).kernel);
const POOLS = { cupy: "CuPy" };
const madeBy = (operand) => string(operand.pool) ? `is in memory that ${POOLS[operand.pool] || string(operand.pool)}'s pool took` : "created";
const nameOf = (operand) => string(object(operand.shown).name) || string(operand.name) || (string(operand.expression) ? `the result of ${string(operand.expression)}` : "a tensor");

function extent(operand) {
  const shape = Array.isArray(operand.shape) ? ` [${operand.shape.map((size) => (Number.isInteger(size) ? size : "?")).join(", ")}]` : "";
  return (string(operand.dtype) + shape).trim();
}

function role(operand) {
  if ((Number.isInteger(operand.parameter) || Number.isInteger(operand.position)) && string(object(operand.shown).role)) return operand.shown.role;
  const owner = string(operand.module_class);
  const root = string(operand.root_class);
  return [string(operand.role), owner && "of " + owner, root && root !== owner && "in " + root].filter(Boolean).join(" ");
}

// cpu before cuda:0, cuda:2 before cuda:10.
const deviceNumber = (name) => (name === "cpu" ? -1 : Number(/\d+$/.exec(name)) || 0);
const inOrder = (devices) => [...new Set(devices.filter((each) => typeof each === "string" && each))].sort((a, b) => deviceNumber(a) - deviceNumber(b));

function modelOf(device) {
  const index = /^cuda:(\d+)$/.exec(device);
  return string(object(index && objects(log.process.devices).find((each) => each.index === Number(index[1]))).name);
}
