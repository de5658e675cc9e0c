// Stacks side by side: the failing call at the left, and a row for each operand: where it was created, where it was last moved. The user's own
// frames stand out, those of libraries fold away between them.

const linesShown = 3; // above and below; what the log has beyond them is read by the verdict

// The frame's line with those around it, where the log has them.
function drawSource(frame) {
  const around = object(frame.around);
  const first = Number.isInteger(around.line) ? around.line : 0;
  const lines = string(around.text).split("\n");
  if (first < 1 || !string(around.text)) return string(frame.source) && make("pre", null, breakable(shortened(compact(dedented(frame.source)), 1000)));
  const last = frame.line + Math.max(1, string(frame.source).split("\n").length) - 1;
  const from = Math.max(0, frame.line - linesShown - first);
  return make("pre", { className: "lines" }, dedented(lines.slice(from, last + linesShown - first + 1).join("\n")).split("\n").slice(0, 20).map((text, at) => {
    const number = first + from + at;
    const here = number >= frame.line && number <= last;
    const shownText = here && number > frame.line ? text.replace(/^ {13,}/, " ".repeat(12)) : text;
    return make("span", { className: here ? "line here" : "line" }, make("i", { "aria-hidden": "true" }, String(number)), " ", here ? breakable(shortened(shownText, 300)) : shortened(text, 300), "\n");
  }));
}

function drawFrame(frame) {
  const mine = frame.project === true;
  return make("li", { className: mine ? "frame mine" : "frame" },
    make("span", { className: "code" }, breakable(shortened(functionOf(frame) || "?", 200))), " ", make("span", null, breakable(location(frame))), drawSource(frame));
}

function folded(frames, title) {
  return make("li", null, make("details", null, make("summary", null, title), make("ol", null, frames.map(drawFrame))));
}

// A stack with no frame of the user's shows its innermost ones.
function drawFrames(frames) {
  // A comprehension before Python 3.12 is a frame of its own, on the same line as the one around it.
  const all = objects(frames).filter((frame, at, whole) => at === 0 || place(frame) !== place(whole[at - 1]) || !frame.project);
  const excerpt = all.find((frame) => frame.around);
  const anyMine = all.some((frame) => frame.project === true);
  const items = [];
  let at = 0;
  if (!anyMine) {
    items.push(...all.slice(0, 3).map(drawFrame));
    at = 3;
  }
  while (at < all.length) {
    let end = at;
    while (end < all.length && all[end].project !== true) ++end;
    if (end > at) items.push(folded(all.slice(at, end), `${end - at} library frame${end - at > 1 ? "s" : ""}`));
    if (end < all.length) items.push(drawFrame(all[end] === excerpt ? excerpt : { ...all[end], around: null }));
    at = end + 1;
  }
  return make("ol", null, items);
}

function drawStack(title, about, event, className = "stack") {
  const frames = framesOf(event);
  return make("section", { className }, make("h3", null, breakable(title)), about && make("p", { className: "quiet" }, about),
    frames.length ? drawFrames(frames) : make("p", { className: "quiet" }, isObject(event) ? "No frame could be read." : "Not seen by devtrace."));
}

function drawNative(finding) {
  const native = objects(finding.native);
  return native.length > 0 && make("details", { className: "native" }, make("summary", null, `Native stack (${native.length} frames)`),
    make("ol", { className: "code" }, native.map((frame) => make("li", null, string(frame.function) || "?", " ",
      quiet(string(frame.file) ? location(frame) : `${string(frame.module)}+${string(frame.offset)}`, frame.inlined === true && ", inlined")))));
}

function drawStacks(finding) {
  const pairs = [];
  for (const operand of operandsAndSources(finding).slice(0, 8)) {
    const { created, moved } = operand;
    if (!isObject(created) && !isObject(moved)) continue;
    const name = shortened(nameOf(operand), 80);
    const on = string(object(created).device);
    const about = [on && "on " + on, time(object(created).time), !isObject(moved) && "no move of it was seen"].filter(Boolean).join(", ");
    pairs.push(drawStack(`${name}: ${madeBy(operand)}`, about, created, isObject(moved) ? "stack" : "stack wide"));
    if (isObject(moved)) pairs.push(drawStack(`${name}: last moved`, [string(moved.from) && `${string(moved.from)} → ${string(moved.to)}`, time(moved.time)].filter(Boolean).join(", "), moved));
  }
  const choice = object(finding.device_choice);
  if (framesOf(choice).length) pairs.push(drawStack(`${string(finding.current_device)}: made the current device`, time(choice.time), choice, "stack wide"));
  if (!objects(finding.python).length && !objects(finding.native).some((frame) => frame.project === true) && !pairs.length) return drawNative(finding) && section("Stacks", drawNative(finding));
  return section("Stacks", make("div", { className: pairs.length ? "stacks" : "stacks alone" },
    drawStack("Failing call", time(finding.time), finding), pairs.length > 0 && make("div", { className: "pairs" }, pairs)), drawNative(finding));
}
