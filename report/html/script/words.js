// How things are called. What is said of a finding, its operands and its frames comes with its record (`shown`), written by the same code as
// the text report.

// Of a frame: the file and the line.
const location = (frame) => string(object(frame.shown).at);

const baseName = (path) => path.split("/").pop();

// Where there is no room for a path.
const shortLocation = (frame) => baseName(location(frame));

const functionOf = (frame) => string(object(frame.shown).function) || string(frame.function);

// Python's frames of a record, or where no Python ran the native ones.
const framesOf = (record) => (objects(object(record).python).length ? objects(record.python) : objects(object(record).native));

// The one that a reader knows.
const userFrame = (frames) => objects(frames).find((frame) => object(frame.shown).known === true) || null;

// Behind an operand of which it is not known where it came from stands what it was computed from.
const operandsAndSources = (finding) => objects(finding.operands).flatMap((operand) => [operand, ...objects(operand.computed_from).filter((source) => source.shown)]);

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

const headline = (finding) => string(object(finding.shown).headline);
const operationOf = (finding) => string(finding.operation) || string(object(finding.launch).kernel);
const madeBy = (operand) => string(object(operand.shown).made);
const nameOf = (operand) => string(object(operand.shown).name);
const extent = (operand) => string(object(operand.shown).extent);
const role = (operand) => string(object(operand.shown).role);

// cpu before cuda:0, cuda:2 before cuda:10.
const deviceNumber = (name) => (name === "cpu" ? -1 : Number(/\d+$/.exec(name)) || 0);
const inOrder = (devices) => [...new Set(devices.filter((each) => typeof each === "string" && each))].sort((a, b) => deviceNumber(a) - deviceNumber(b));

function modelOf(device) {
  const index = /^cuda:(\d+)$/.exec(device);
  return string(object(index && objects(log.process.devices).find((each) => each.index === Number(index[1]))).name);
}
