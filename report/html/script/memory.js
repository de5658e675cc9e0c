// How much of each device's memory was in use at the most, of what that consisted, how it went, and where it was not enough.

const MEMORY = { width: 720, height: 180, bar: 14, left: 64, bottom: 20, rows: 64 };
const PARTS = ["weights", "gradients", "optimizer", "caches", "activations", "other"];

// In its words, so that text, Markdown and page say the same; and the parts as lengths of a bar, the device's whole memory as its frame.
function drawPeak(record) {
  const shown = object(record.shown);
  const parts = objects(shown.parts);
  const all = Math.max(Number(shown.capacity) || 0, Number(record.reserved) || 0, Number(record.peak) || 0, 1);
  let at = 0;
  const lengths = PARTS.flatMap((name, index) => parts.filter((part) => part.name === name).map((part) => {
    const width = MEMORY.width * (Number(part.bytes) || 0) / all;
    at += width;
    return draw("rect", { class: `part-${index}`, x: at - width, y: 0, width, height: MEMORY.bar }, draw("title", null, `${name}: ${bytes(part.bytes)}`));
  }));
  const held = MEMORY.width * Math.max(0, (Number(record.reserved) || 0) - (Number(record.peak) || 0)) / all;
  return make("div", { className: "peak" }, draw("svg", { viewBox: `0 0 ${MEMORY.width} ${MEMORY.bar}`, role: "img", "aria-label": `${string(record.device)}: ${string(shown.words)}`, preserveAspectRatio: "none" },
    draw("rect", { class: "whole", x: 0, y: 0, width: MEMORY.width, height: MEMORY.bar }), lengths,
    draw("rect", { class: "part-held", x: at, y: 0, width: held, height: MEMORY.bar }, draw("title", null, "fragmentation"))), string(shown.words));
}

function numbers(values) {
  return Array.isArray(values) ? values.map((value) => (Number.isFinite(value) ? value : 0)) : [];
}

// A line for each device: bytes in tensors; thin above it what PyTorch held.
function drawCourses(records) {
  const courses = records.map((record) => ({ device: string(record.device), capacity: Number(object(record.shown).capacity) || 0, time: numbers(object(record.course).time), tensors: numbers(object(record.course).tensors), reserved: numbers(object(record.course).reserved) }))
    .filter((course) => course.time.length > 1);
  if (!courses.length) return null;
  const begin = Math.min(...courses.map((course) => course.time[0]));
  const end = Math.max(...courses.map((course) => course.time.at(-1)), begin + 1e-3);
  const most = Math.max(...courses.flatMap((course) => [...course.reserved, ...course.tensors]), 1);
  const capacities = [...new Set(courses.map((course) => course.capacity))].filter((capacity) => capacity > 0 && capacity <= most * 4);
  const top = Math.max(most, ...capacities) * 1.04;
  const inner = MEMORY.height - MEMORY.bottom;
  const x = (time) => MEMORY.left + (MEMORY.width - MEMORY.left) * (time - begin) / (end - begin);
  const y = (value) => inner - inner * value / top;
  const path = (course, values) => values.map((value, at) => `${at ? "L" : "M"}${x(course.time[at]).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const level = (value, text, name) => [draw("line", { class: name, x1: MEMORY.left, x2: MEMORY.width, y1: y(value), y2: y(value) }),
    draw("text", { x: MEMORY.left - 6, y: y(value) + 4, "text-anchor": "end" }, text)];
  const picture = draw("svg", { class: "course", viewBox: `0 0 ${MEMORY.width} ${MEMORY.height}`, role: "img", "aria-label": `Memory over time: ${courses.map((course) => course.device).join(", ")}` },
    level(0, "0", "axis"), level(most, bytes(most), "axis"), capacities.filter((capacity) => Math.abs(y(capacity) - y(most)) > 14).flatMap((capacity) => level(capacity, bytes(capacity), "limit")),
    courses.map((course) => draw("g", { style: hue(course.device) }, draw("title", null, course.device), draw("path", { class: "reserved", d: path(course, course.reserved) }), draw("path", { class: "tensors", d: path(course, course.tensors) }))),
    draw("text", { x: MEMORY.left, y: MEMORY.height - 4 }, "0 s"), draw("text", { x: MEMORY.width, y: MEMORY.height - 4, "text-anchor": "end" }, `${(end - begin).toFixed(end - begin < 10 ? 2 : 0)} s`));
  return [make("h3", null, "Memory over time"), picture, make("p", { className: "quiet" }, "Bytes in tensors; the thin line is what PyTorch held of the device. A point is the most of equally many allocations.")];
}

// Of several processes' devices each with its process.
const ofProcess = (record) => [...deviceName(string(record.device)), string(record.process) && make("small", null, ` ${string(record.process)}`)];

function drawMemory() {
  const peaks = [...log.memory.values()].slice(0, MEMORY.rows);
  if (!peaks.length && !log.outOfMemory.length) return null;
  const key = make("p", { className: "parts quiet" }, [...PARTS, "fragmentation"].map((name, at) => make("span", { className: at < PARTS.length ? `part-${at}` : "part-held" }, name)));
  const ends = log.outOfMemory.map((record) => [ofProcess(record), make("b", { className: "bad" }, string(object(record.shown).words))]);
  return section("Memory of devices at the most", ends.length > 0 && table("memory ends", ["Device", "Out of memory"], ends, "Where memory was not enough"),
    ...(peaks.length > 0 ? [key, table("memory", ["Device", "At the most"], peaks.map((record) => [ofProcess(record), drawPeak(record)]), "Memory of devices at the most"), ...(drawCourses(peaks) || [])] : []));
}
