// What happened before, in order and by thread: where the operands were made and moved, who chose the thread's device, when copies between
// devices began. Read downwards; a lane at the left for each thread.

const TIME_LINE = { most: 40, others: 12, lane: 16, row: 28, tallest: 2000 };

function eventsOf(finding) {
  const events = [];
  const add = (time, thread, kind, device, text, frame, where = frame ? location(frame) : "") => {
    if (typeof time === "number" && time > 0) events.push({ time, thread: Number(thread) || 0, kind, device: string(device), text, where });
  };
  for (const operand of operandsAndSources(finding)) {
    const { created, moved } = operand;
    const name = shortened(nameOf(operand), 60);
    if (isObject(created)) add(created.time, created.thread, "made", created.device, [code(name), ` ${madeBy(operand)} on ${string(created.device)}`], userFrame(framesOf(created)));
    if (isObject(moved)) add(moved.time, moved.thread, "moved", moved.to, [code(name), ` moved ${string(moved.from)} → ${string(moved.to)}`], userFrame(framesOf(moved)));
  }
  for (const change of objects(finding.device_changes)) {
    add(change.time, finding.thread, "chose", change.device, [`${string(change.device) || "a context"} made the current device`], userFrame(framesOf(change)));
  }
  for (const record of log.traffic) {
    const first = object(record.first);
    add(first.time, first.thread, "copied", record.to, [`${record.copies === 1 ? "" : "first of "}${copiesOf(Number(record.copies) || 0)} ${string(record.from)} → ${string(record.to)}`], userFrame(framesOf(record)));
  }
  const others = log.rows.filter((row) => row.id !== finding.id && typeof row.time === "number").sort((a, b) => Math.abs(a.time - finding.time) - Math.abs(b.time - finding.time));
  for (const row of others.slice(0, TIME_LINE.others)) {
    add(row.time, row.thread, "other", "", [make("a", { href: "#" + anchorOf(row) }, shortened(string(row.title) || "another finding", 80))], null, string(row.where));
  }
  add(finding.time, finding.thread, "found", "", [make("b", null, shortened(headline(finding), 120))], userFrame(framesOf(finding)));
  // The log's clocks differ in how fine they are. Within a millisecond a move is its allocation, its copy, and then itself.
  const order = ["made", "chose", "copied", "moved", "other", "found"];
  const tick = (event) => Math.floor(event.time * 1000);
  return events.sort((a, b) => tick(a) - tick(b) || order.indexOf(a.kind) - order.indexOf(b.kind));
}

// A shape for each kind, so that colour says nothing alone.
function mark(kind, x, y) {
  if (kind === "made") return draw("circle", { class: "mark open", cx: x, cy: y, r: 4.5 });
  if (kind === "moved") return draw("path", { class: "mark", d: `M${x - 5} ${y - 5} l10 5 l-10 5 z` });
  if (kind === "chose") return draw("path", { class: "mark", d: `M${x} ${y - 6} l6 6 l-6 6 l-6 -6 z` });
  if (kind === "copied") return draw("circle", { class: "mark", cx: x, cy: y, r: 3 });
  return draw("path", { class: kind === "found" ? "mark cross bad" : "mark cross", d: `M${x - 5} ${y - 5} l10 10 m0 -10 l-10 10` });
}

function drawTimeLine(finding) {
  const all = eventsOf(finding);
  if (all.length < 2) return null;
  // What is left out lies farthest from the finding.
  const near = new Set([...all].sort((a, b) => Math.abs(a.time - finding.time) - Math.abs(b.time - finding.time)).slice(0, TIME_LINE.most));
  const events = all.filter((event) => near.has(event));
  const threads = [...new Set([Number(finding.thread) || 0, ...events.map((event) => event.thread)])];
  const names = threads.map((thread) => (thread === finding.thread && string(finding.thread_name) ? `${thread} ${string(finding.thread_name)}` : String(thread || "?")));
  const start = typeof log.process.started === "number" && log.process.started <= events[0].time ? log.process.started : events[0].time;
  const width = threads.length * TIME_LINE.lane;
  // Its lines go on as far as the row is high.
  const gutter = (event) => make("div", { className: "gutter-box" }, draw("svg", { class: "gutter", width, height: TIME_LINE.tallest, "aria-hidden": "true", style: event.device ? hue(event.device) : "" },
    threads.map((_, at) => draw("line", { x1: (at + 0.5) * TIME_LINE.lane, x2: (at + 0.5) * TIME_LINE.lane, y1: 0, y2: TIME_LINE.tallest })),
    mark(event.kind, (threads.indexOf(event.thread) + 0.5) * TIME_LINE.lane, TIME_LINE.row / 2)));
  const rows = events.map((event) => [
    make("th", { scope: "row", title: time(event.time) }, `+${(event.time - start).toFixed(3)} s`),
    make("td", { className: "gutter-cell", style: `min-width: ${width + 12}px` }, gutter(event)),
    ...(threads.length > 1 ? [names[threads.indexOf(event.thread)]] : []),
    event.text, event.where && code(shortened(event.where, 160))]);
  const titles = ["Time", make("th", { scope: "col" }, make("span", { className: "visually-hidden" }, "Kind")), ...(threads.length > 1 ? ["Thread"] : []), "What", "Where"];
  const left = all.length - events.length;
  return section("Time line", make("p", { className: "quiet" },
    `${threads.length > 1 ? `${threads.length} threads` : `Thread ${names[0]}`}; seconds since ${start === log.process.started ? "the program began" : "the first of these"}.` + (left > 0 ? ` ${left} events farther away are left out.` : "")),
  table("time-line", titles, rows, "Time line"));
}
