// The page: reads the log's records, which lie after it in inert script elements of class "record", and draws one finding at a time.
// Everything in a record comes from somebody's program: it reaches the page as text nodes only, never as markup.
"use strict";

// A scope of its own: at the top level `name`, `location`, `status` and many more are the window's.
{

const log = { process: {}, findings: [], traffic: [], sites: new Map(), end: null, torn: 0 };

// ---- records --------------------------------------------------------------------------------------------------------------------------

function readRecords() {
  for (const element of document.querySelectorAll("script.record")) {
    let record;
    try {
      record = JSON.parse(element.textContent);
    } catch {
      log.torn += 1;
      continue;
    }
    if (!isObject(record)) continue;
    if (record.record === "process") startProcess(record);
    else if (record.record === "finding") log.findings.push(record);
    else if (record.record === "count") countAgain(record);
    else if (record.record === "traffic") moreTraffic(record);
    else if (record.record === "end") log.end = record;
  }
}

// A log may go on with another program of the same process, which counts its ids anew.
function startProcess(record) {
  Object.assign(log.process, record);
  log.sites.clear();
}

// Of a call site's totals the last one holds.
function moreTraffic(record) {
  const known = log.sites.get(record.id);
  if (known === undefined) {
    log.sites.set(record.id, log.traffic.length);
    log.traffic.push(record);
  } else {
    log.traffic[known] = record;
  }
}

// Of a finding's counts the largest holds.
function countAgain(record) {
  const finding = log.findings.find((each) => each.id === record.id && each.fingerprint === record.fingerprint);
  if (finding && record.count > (finding.count || 1)) finding.count = record.count;
}

// ---- reading what may be of any type ------------------------------------------------------------------------------------------------------

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const objects = (value) => (Array.isArray(value) ? value.filter(isObject) : []);
const object = (value) => (isObject(value) ? value : {});
const string = (value) => (typeof value === "string" ? value : "");
const shortened = (text, limit) => (text.length <= limit ? text : text.slice(0, limit / 2) + "…" + text.slice(-limit / 2));

// Control characters would be invisible, and those that reorder text would lie about it.
const printable = (text) =>
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

// ---- words ----------------------------------------------------------------------------------------------------------------------------

// As wording.cpp has it: a path as its reader knows it.
function shownFile(file) {
  const installed = /^.*\/(?:site|dist)-packages\/(.+)$/s.exec(file);
  if (installed) return installed[1];
  const folder = string(log.process.cwd).replace(/\/+$/, "") + "/";
  return folder.length > 1 && file.startsWith(folder) && file.length > folder.length ? file.slice(folder.length) : file;
}

function location(frame) {
  const line = Number.isInteger(frame.line) && frame.line > 0 ? ":" + frame.line : "";
  return shownFile(string(frame.file)) + line;
}

const functionOf = (frame) => string(frame.function).replace(/\.<locals>\.<(?:dict|list|set)comp>$|\.<locals>\.<genexpr>$/, "");

function userFrame(frames) {
  const all = objects(frames);
  return all.find((frame) => frame.project === true) || all[0] || null;
}

function place(frame) {
  const where = location(frame);
  const name = functionOf(frame);
  return name && where ? `${name} (${where})` : name || where;
}

function dedented(source) {
  const indent = /^[ \t]*/.exec(source)[0].length;
  return source.split("\n").map((line) => line.slice(Math.min(indent, line.length - line.trimStart().length)).trimEnd()).join("\n").trimEnd();
}

function bytes(count) {
  if (!Number.isFinite(count) || count < 0) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit < units.length - 1; ++unit) count /= 1024;
  return `${unit && count < 10 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

function extent(operand) {
  const shape = Array.isArray(operand.shape) ? ` [${operand.shape.map((size) => (Number.isInteger(size) ? size : "?")).join(", ")}]` : "";
  return (string(operand.dtype) + shape).trim();
}

function role(operand) {
  const owner = string(operand.module_class);
  const root = string(operand.root_class);
  return [string(operand.role), owner && "of " + owner, root && root !== owner && "in " + root].filter(Boolean).join(" ");
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

const headline = (finding) => string(object(finding.shown).headline) || `${string(finding.operation) || "an operation"} mixed devices`;
const summary = (finding) => string(object(finding.shown).summary) || headline(finding);
const nameOf = (operand) => string(operand.name) || (string(operand.expression) ? `the result of ${string(operand.expression)}` : "a tensor");

function hue(device) {
  const index = /^cuda:(\d+)$/.exec(device);
  return `--hue: var(--device-${index ? Number(index[1]) % 8 : "cpu"})`;
}

// ---- drawing --------------------------------------------------------------------------------------------------------------------------

// An element with properties, attributes (names with "-", and role, style) and children: nodes, strings, or nothing.
function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key.includes("-") || key === "role" || key === "style") element.setAttribute(key, value);
    else element[key] = value;
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(typeof child === "string" ? printable(child) : child);
  }
  return element;
}

const code = (text) => make("code", null, text);

function drawBanners() {
  const banners = [];
  if (log.process.rehearsal === true) banners.push("Rehearsal: the devices were simulated.");
  if (!log.end) banners.push("The process was killed, or is still running: its log has no end.");
  if (log.torn) banners.push(`${log.torn} record${log.torn > 1 ? "s" : ""} could not be read: cut off while being written.`);
  if (log.end && log.end.dropped > 0) banners.push(`${log.end.dropped} more findings were dropped: max_findings was reached.`);
  document.getElementById("banners").replaceChildren(banners.length ? make("div", { className: "banner" }, banners.join(" ")) : "");
}

function drawProgram() {
  const command = Array.isArray(log.process.command) ? log.process.command.filter((word) => typeof word === "string").join(" ") : "";
  const element = document.getElementById("program");
  element.textContent = printable([shortened(command, 200), string(log.process.host)].filter(Boolean).join(" · "));
  element.title = element.textContent;
}

// Boxes, one a device, with what lies in them; between two of them the line that must not be.
// As the user calls it: aten::add, or the kernel.
const operationOf = (finding) => string(finding.operation) || string(object(finding.launch).kernel);

function drawDevices(finding) {
  const names = [...new Set([...(Array.isArray(finding.devices) ? finding.devices : []), ...objects(finding.operands).map((each) => each.device)]
    .filter((each) => typeof each === "string" && each))].slice(0, 8);
  if (!names.length) return null;
  const boxes = names.map((name) => {
    const index = /^cuda:(\d+)$/.exec(name);
    const known = index && objects(log.process.devices).find((device) => device.index === Number(index[1]));
    const held = objects(finding.operands).filter((operand) => operand.device === name).slice(0, 4);
    const runs = string(object(finding.launch).kernel) && finding.current_device === name;
    return make("div", { className: "device", style: hue(name) },
      make("b", null, name), known && make("small", null, string(known.name)),
      runs && make("span", { className: "held" }, make("small", null, "runs"), code(shortened(operationOf(finding), 80))),
      held.map((operand) => make("span", { className: "held" }, code(shortened(nameOf(operand), 80)), make("small", null, extent(operand)))));
  });
  const between = () => make("div", { className: "apart", "aria-hidden": "true" }, make("span", null, "✕"));
  const caption = names.map((name) => {
    const held = objects(finding.operands).filter((operand) => operand.device === name).map(nameOf);
    const runs = string(object(finding.launch).kernel) && finding.current_device === name ? `runs ${operationOf(finding)} and ` : "";
    return `${name} ${runs}holds ${held.length ? held.join(", ") : "nothing that is named"}`;
  }).join("; ");
  return make("div", { className: "devices", role: "img", "aria-label": printable(shortened(caption, 600)) },
    boxes.flatMap((box, index) => (index ? [between(), box] : [box])));
}

// What the log says of the line that the fix replaces.
function sourceOfLine(finding, file, line) {
  const stacks = [finding.python, ...objects(finding.operands).flatMap((operand) => [object(operand.created).python, object(operand.moved).python])];
  for (const frame of stacks.flatMap(objects)) {
    if (frame.file === file && frame.line === line && string(frame.source)) return frame.source;
  }
  return "";
}

function drawFix(finding) {
  const cause = object(finding.cause);
  const fix = string(cause.fix);
  if (!fix) {
    const told = "No line can be named with certainty. The places where each operand was created and last moved are below.";
    return make("section", { className: "fix" }, make("h2", null, "Fix"), make("p", { className: "quiet" }, told));
  }
  const before = dedented(sourceOfLine(finding, cause.file, cause.line)).split("\n").filter((line) => line.trim());
  const after = fix.split("\n");
  const lines = before.filter((line) => !after.includes(line)).map((line) => make("div", { className: "minus" }, "− " + line))
    .concat(after.map((line) => make("div", { className: before.includes(line) ? "" : "plus" }, (before.includes(line) ? "  " : "+ ") + line)));
  return make("section", { className: "fix" }, make("h2", null, "Fix"),
    string(cause.file) && make("p", { className: "place" }, code(location({ file: cause.file, line: cause.line }))),
    make("div", { className: "excerpt diff code" }, lines));
}

// The native frame that a person would point at, as the text report chooses it (report/wording.cpp).
const LIBRARIES = /^(libcu|libtorch|libc10|libnv|libc\.so|libc\+\+|libstdc\+\+|ld-)/;
function nativeUserFrame(frames) {
  const all = objects(frames);
  const own = all.filter((frame) => string(frame.module) && !LIBRARIES.test(string(frame.module).split("/").pop()));
  return own.find((frame) => string(frame.file)) || own[0] || all[0];
}

function nativePlace(frame) {
  const where = string(frame.file) ? location(frame) : `${string(frame.module).split("/").pop()}+${string(frame.offset)}`;
  return string(frame.function) ? `${frame.function} (${where})` : where;
}

function drawAnswer(finding) {
  const frame = userFrame(finding.python);
  const native = nativeUserFrame(finding.native);
  const cause = object(finding.cause);
  const confidence = string(cause.confidence);
  return make("div", { className: "answer" },
    make("section", { className: "what", "aria-label": "What" }, drawDevices(finding)),
    make("section", { className: "where" }, make("h2", null, "Where"),
      frame ? [make("p", { className: "place" }, code(place(frame))),
        string(frame.source) && make("pre", { className: "excerpt" }, shortened(dedented(frame.source), 1000))]
        : native ? make("p", { className: "place" }, code(nativePlace(native)))
          : make("p", { className: "quiet" }, "No Python frame could be read.")),
    make("section", { className: "why" }, make("h2", null, "Why"), make("p", null, shortened(string(cause.because), 800) || "Not known."),
      make("p", { className: "tags" }, [string(cause.category), confidence && confidence + " confidence", finding.severity === "note" && "a note, not a fault"].filter(Boolean)
        .map((text) => make("span", { className: "tag" }, text)))),
    drawFix(finding));
}

function drawOperands(finding) {
  const operands = objects(finding.operands);
  if (!operands.length) return [];
  const origin = (event) => {
    if (!isObject(event)) return make("span", { className: "quiet" }, "not known");
    const frame = userFrame(event.python);
    const way = event.from && event.to ? `${string(event.from)} → ${string(event.to)}` : string(event.device);
    return [way && make("span", null, way, " "), frame ? code(location(frame)) : make("span", { className: "quiet" }, "at an unknown place")];
  };
  const rows = operands.map((operand) => make("tr", null,
    make("th", { scope: "row" }, code(shortened(nameOf(operand), 200))),
    make("td", null, make("span", { className: "dot", style: hue(operand.device) }), string(operand.device)),
    make("td", null, extent(operand), make("br"), make("span", { className: "quiet" }, bytes(operand.bytes))),
    make("td", null, role(operand)),
    make("td", null, origin(operand.created)),
    make("td", null, operand.moved ? origin(operand.moved) : make("span", { className: "quiet" }, operand.created ? "never seen" : "not known"))));
  return [make("h2", null, "Operands"), make("div", { className: "scroll" }, make("table", null,
    make("thead", null, make("tr", null, ["Name", "Device", "Type", "Role", "Created", "Last moved"].map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", null, rows)))];
}

function drawFrame(frame) {
  const mine = frame.project === true;
  return make("li", { className: mine ? "frame mine" : "frame" },
    make("span", { className: "code" }, shortened(functionOf(frame) || "?", 200)), " ", make("span", null, location(frame)),
    string(frame.source) && make("pre", null, shortened(dedented(frame.source), 1000)));
}

// Frames of libraries fold away between the user's own; a stack with none of those shows its innermost frames.
function drawFrames(frames) {
  // A comprehension before Python 3.12 is a frame of its own, on the same line as the one around it.
  const all = objects(frames).filter((frame, at, whole) => at === 0 || place(frame) !== place(whole[at - 1]) || !frame.project);
  const anyMine = all.some((frame) => frame.project === true);
  const items = [];
  for (let at = 0; at < all.length;) {
    let end = at;
    while (end < all.length && all[end].project !== true) ++end;
    if (!anyMine && at === 0) {
      items.push(...all.slice(0, 3).map(drawFrame));
      at = 3;
    }
    if (end > at) {
      items.push(make("li", null, make("details", null, make("summary", null, `${end - at} library frame${end - at > 1 ? "s" : ""}`),
        make("ol", null, all.slice(at, end).map(drawFrame)))));
    }
    if (end < all.length) items.push(drawFrame(all[end]));
    at = end + 1;
  }
  return make("ol", null, items);
}

function drawStacks(finding) {
  const stacks = [];
  const add = (title, frames, about) => {
    if (objects(frames).length) stacks.push(make("section", { className: "stack" }, make("h3", null, title), about && make("p", { className: "quiet" }, about), drawFrames(frames)));
  };
  add("Failing call", finding.python, time(finding.time));
  for (const operand of objects(finding.operands).slice(0, 8)) {
    const created = object(operand.created);
    const moved = object(operand.moved);
    const name = shortened(nameOf(operand), 80);
    add(`${name}: created`, created.python, [string(created.device) && "on " + string(created.device), time(created.time)].filter(Boolean).join(", "));
    add(`${name}: last moved`, moved.python, [string(moved.from) && `${string(moved.from)} → ${string(moved.to)}`, time(moved.time)].filter(Boolean).join(", "));
  }
  const choice = object(finding.device_choice);
  add(`${string(finding.current_device)}: made the current device`, choice.python, time(choice.time));
  if (!stacks.length) return [];
  const native = objects(finding.native);
  const nativeList = native.length && make("details", null, make("summary", null, `Native stack (${native.length})`),
    make("ol", { className: "code" }, native.map((frame) => make("li", null, string(frame.function) || "?", " ",
      make("span", { className: "quiet" }, string(frame.file) ? location(frame) : `${string(frame.module)}+${string(frame.offset)}`)))));
  return [make("h2", null, "Stacks"), make("div", { className: "stacks" }, stacks), nativeList];
}

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return make("dl", { className: "facts" }, shown.flatMap(([name, value]) => [make("dt", null, name), make("dd", { className: "long" }, String(value))]));
}

function drawFacts(finding) {
  const process = log.process;
  const thread = [finding.thread, string(finding.thread_name)].filter(Boolean).join(" ");
  const environment = Object.entries(object(process.environment)).map(([key, value]) => `${key}=${value}`).join(" ");
  return [make("h2", null, "This finding"),
    facts([["Message", string(finding.message)], ["Operation", string(finding.operation)], ["Argument", string(finding.argument)], ["Checked in", string(finding.method)],
      ["Current device", string(finding.current_device) + (object(finding.device_choice).by_default ? " (by default: this thread never chose one)" : "")], ["Thread", thread], ["Time", time(finding.time)], ["Seen", finding.count > 1 ? finding.count + " times" : "once"],
      ["Kernel", string(object(finding.launch).kernel)], ["Kind", string(finding.kind)], ["Fingerprint", string(finding.fingerprint)]]),
    make("h2", null, "The process"),
    facts([["Command", Array.isArray(process.command) ? process.command.join(" ") : ""], ["Directory", string(process.cwd)], ["Host", string(process.host)], ["Process", process.pid],
      ["Started", time(process.started)], ["Python", string(process.python)], ["PyTorch", string(process.torch)], ["CUDA runtime", string(process.cuda_runtime)],
      ["Devices", objects(process.devices).map((device) => `cuda:${device.index} ${string(device.name)} ${string(device.uuid)}`.trim()).join("\n")],
      ["Visible devices", string(process.visible_devices)], ["Environment", environment], ["Stacks", string(process.stacks)],
      ["Exit code", log.end && log.end.exit], ["devtrace", string(process.devtrace)]])];
}

// From what device how much went to which, and the lines that moved it.
function drawTraffic() {
  const rows = log.traffic.map((record) => ({
    record, from: string(record.from), to: string(record.to), bytes: Number(record.bytes) || 0, copies: Number(record.copies) || 0,
    seconds: Number(object(record.shown).seconds) || 0, link: string(object(record.shown).link), place: string(object(record.shown).place),
  })).filter((row) => row.from && row.to).sort((a, b) => b.seconds - a.seconds || b.bytes - a.bytes);
  if (!rows.length) return [];
  const sum = (some) => some.reduce((all, row) => ({ bytes: all.bytes + row.bytes, copies: all.copies + row.copies, seconds: all.seconds + row.seconds }), { bytes: 0, copies: 0, seconds: 0 });
  const index = (name) => (name === "cpu" ? -1 : Number(/\d+$/.exec(name)) || 0);
  const names = [...new Set(rows.flatMap((row) => [row.from, row.to]))].sort((a, b) => index(a) - index(b)).slice(0, 17);
  const pairs = new Map(names.flatMap((from) => names.map((to) => [from + ">" + to, rows.filter((row) => row.from === from && row.to === to)])));
  const most = Math.max(...[...pairs.values()].map((some) => sum(some).bytes));
  const head = (name) => [make("span", { className: "dot", style: hue(name) }), name];
  const cell = (from, to) => {
    const some = pairs.get(from + ">" + to);
    if (!some.length) return make("td", { className: "quiet" }, from === to ? "" : "–");
    const all = sum(some);
    const links = [...new Set(some.map((row) => row.link).filter(Boolean))].join("; ");
    return make("td", { title: printable(links) }, make("b", null, bytes(all.bytes)), make("small", null, `${all.copies} ${all.copies === 1 ? "copy" : "copies"}, ≥ ${duration(all.seconds)}`),
      make("span", { className: "meter", style: `width: ${Math.max(2, Math.round(100 * all.bytes / most))}%`, "aria-hidden": "true" }));
  };
  const all = sum(rows);
  const shownRows = rows.slice(0, 20);
  return [make("h2", null, "Traffic between devices"),
    make("p", null, `${bytes(all.bytes)} in ${all.copies} ${all.copies === 1 ? "copy" : "copies"}, at least ${duration(all.seconds)}. `,
      make("span", { className: "quiet" }, "The times are estimates: the bytes at the full rate of the link that the devices' names suggest, so it takes no less.")),
    make("div", { className: "scroll" }, make("table", { className: "matrix" },
      make("thead", null, make("tr", null, make("th", { scope: "col" }, "from \\ to"), names.map((name) => make("th", { scope: "col" }, head(name))))),
      make("tbody", null, names.map((from) => make("tr", null, make("th", { scope: "row" }, head(from)), names.map((to) => cell(from, to))))))),
    make("div", { className: "scroll" }, make("table", { className: "sites" },
      make("thead", null, make("tr", null, ["Call site", "From", "To", "Bytes", "Copies", "At least", "Link"].map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", null, shownRows.map((row) => {
        const frame = userFrame(row.record.python);
        return make("tr", null,
          make("th", { scope: "row" }, code(shortened(row.place, 200)), frame && string(frame.source) && make("pre", { className: "quiet" }, shortened(dedented(frame.source), 300))),
          make("td", null, head(row.from)), make("td", null, head(row.to)), make("td", null, bytes(row.bytes)), make("td", null, String(row.copies)),
          make("td", null, duration(row.seconds)), make("td", null, row.link));
      })))),
    rows.length > shownRows.length && make("p", { className: "quiet" }, `And ${rows.length - shownRows.length} more call sites.`)].filter(Boolean);
}

function drawFinding(finding) {
  const main = document.getElementById("finding");
  if (!finding) {
    main.replaceChildren(make("h1", null, "No findings"), make("p", null, "No operation mixed devices while devtrace watched."), ...drawTraffic(), ...drawFacts({}).slice(2));
    return;
  }
  main.replaceChildren(make("h1", null, shortened(headline(finding), 180)), drawAnswer(finding), ...drawOperands(finding), ...drawStacks(finding).filter(Boolean), ...drawTraffic(), ...drawFacts(finding));
}

// ---- the list, and which finding is shown -----------------------------------------------------------------------------------------------

const anchorOf = (finding) => "finding-" + finding.id;
let shown = null;
let entries = [];  // {finding, item, link, text}

function drawList() {
  if (log.findings.length < 2) return;
  document.getElementById("list").hidden = false;
  document.getElementById("page").classList.add("many");
  entries = log.findings.map((finding) => {
    const frame = userFrame(finding.python);
    const count = (finding.count > 1 ? ` ×${finding.count}` : "") + (finding.severity === "note" ? " (note)" : "");
    const link = make("a", { href: "#" + anchorOf(finding) }, make("span", null, shortened(string(finding.operation) || headline(finding), 80) + count),
      make("small", null, shortened(frame ? location(frame) : "", 80)), make("small", null, shortened(string(object(finding.cause).category), 60)));
    return { finding, link, item: make("li", null, link), text: [summary(finding), headline(finding), finding.kind, finding.fingerprint, object(finding.cause).category].join(" ").toLowerCase() };
  });
  document.getElementById("findings").replaceChildren(...entries.map((entry) => entry.item));
  applyFilter();
}

// Every word must occur.
function applyFilter() {
  const words = document.getElementById("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  let matching = 0;
  for (const entry of entries) {
    entry.item.hidden = !words.every((word) => entry.text.includes(word));
    if (!entry.item.hidden) ++matching;
  }
  document.getElementById("no-match").hidden = matching > 0;
  document.getElementById("list-count").textContent = words.length ? `${matching} of ${entries.length} findings` : `${entries.length} findings`;
}

function showFromAddress() {
  const wanted = window.location.hash.slice(1);
  const finding = log.findings.find((each) => anchorOf(each) === wanted) || shown || log.findings[0] || null;
  if (finding === shown && shown) return;
  const first = shown === null;
  shown = finding;
  drawFinding(finding);
  document.getElementById("copy").hidden = !finding || !string(object(finding.shown).markdown);
  for (const entry of entries) {
    if (entry.finding === finding) entry.link.setAttribute("aria-current", "true");
    else entry.link.removeAttribute("aria-current");
  }
  if (!first) {
    window.scrollTo(0, 0);
    entries.find((entry) => entry.finding === finding)?.link.scrollIntoView({ block: "nearest" });
  }
}

function step(by) {
  const visible = entries.filter((entry) => !entry.item.hidden);
  const at = visible.findIndex((entry) => entry.finding === shown);
  const next = visible[at < 0 ? 0 : at + by];
  if (next) window.location.hash = anchorOf(next.finding);
}

// ---- buttons and keys -------------------------------------------------------------------------------------------------------------------

function say(text) {
  document.getElementById("said").textContent = text;
}

async function copyMarkdown() {
  const button = document.getElementById("copy");
  const text = string(object(object(shown).shown).markdown);
  if (!text) return;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission, or in a browser that has no clipboard for files.
    const area = make("textarea", { value: text, className: "visually-hidden", "aria-hidden": "true" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "Copied";
  say("Copied as Markdown");
  setTimeout(() => { button.textContent = "Copy as Markdown"; }, 1500);
}

// Where pages may keep nothing (files, in some browsers), the choice lasts as long as the page.
function keep(value) {
  try {
    if (value) localStorage.setItem("devtrace-theme", value);
    return localStorage.getItem("devtrace-theme");
  } catch {
    return null;
  }
}

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  keep(root.dataset.theme);
}

const keys = {
  j: () => step(1),
  k: () => step(-1),
  c: copyMarkdown,
  t: switchTheme,
  "/": (event) => {
    if (!entries.length) return;
    event.preventDefault();
    document.getElementById("list-fold").open = true;
    document.getElementById("filter").focus();
  },
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  keys[event.key]?.(event);
}

// ---- start ------------------------------------------------------------------------------------------------------------------------------

const kept = keep();
if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;

document.addEventListener("DOMContentLoaded", () => {
  readRecords();
  drawBanners();
  drawProgram();
  if (matchMedia("(max-width: 760px)").matches) document.getElementById("list-fold").open = false;
  drawList();
  showFromAddress();
  window.addEventListener("hashchange", showFromAddress);
  document.getElementById("filter").addEventListener("input", applyFilter);
  document.getElementById("copy").addEventListener("click", copyMarkdown);
  document.getElementById("theme").addEventListener("click", switchTheme);
  document.addEventListener("keydown", onKey);
  // On paper everything is unfolded.
  window.addEventListener("beforeprint", () => document.querySelectorAll("main details").forEach((each) => { each.open = true; }));
});

}
