// The first screen: what, where, why, fix.

// Boxes, one a device, with what lies in them; between two of them the line that must not be.
function drawDevices(finding) {
  const operands = objects(finding.operands);
  const names = [...new Set([...(Array.isArray(finding.devices) ? finding.devices : []), ...operands.map((each) => each.device)]
    .filter((each) => typeof each === "string" && each))].slice(0, 8);
  if (!names.length) return null;
  const runsOn = (name) => string(object(finding.launch).kernel) && finding.current_device === name;
  const boxes = names.map((name) => {
    const held = operands.filter((operand) => operand.device === name);
    return make("div", { className: "device", style: hue(name) },
      make("b", null, name), make("small", null, modelOf(name)),
      runsOn(name) && make("span", { className: "held" }, make("small", null, "runs"), code(shortened(operationOf(finding), 80))),
      held.slice(0, 4).map((operand) => make("span", { className: "held" }, code(shortened(nameOf(operand), 80)), make("small", null, extent(operand)))),
      held.length > 4 && make("small", null, `and ${held.length - 4} more`));
  });
  const between = () => make("div", { className: "apart", "aria-hidden": "true" }, make("span", null, "✕"));
  const caption = names.map((name) => {
    const held = operands.filter((operand) => operand.device === name).map(nameOf);
    return `${name} ${runsOn(name) ? `runs ${operationOf(finding)} and ` : ""}holds ${held.length ? held.join(", ") : "nothing that is named"}`;
  }).join("; ");
  return make("div", { className: names.length > 2 ? "devices several" : "devices", role: "img", "aria-label": printable(shortened(caption, 600)) },
    boxes.flatMap((box, index) => (index ? [between(), box] : [box])));
}

function drawWhere(finding) {
  const native = object(userFrame(finding.native));
  const frame = userFrame(finding.python) || (string(native.file) ? native : null);
  const inLibrary = frame && frame.project !== true && objects(finding.python).length > 0;
  return make("section", { className: "where" }, make("h2", null, "Where"),
    frame ? [make("p", { className: "place" }, code(place(frame))),
      string(frame.source) ? make("pre", { className: "excerpt" }, breakable(shortened(compact(dedented(frame.source)), 1000)))
        : make("p", { className: "quiet" }, "The source of this line was not at hand."),
      inLibrary && make("p", { className: "quiet" }, "No frame of your own code is on this thread's stack; this is the innermost one.")]
      : Object.keys(native).length ? [make("p", { className: "place" }, code(place(native))), make("p", { className: "quiet" }, string(object(finding.shown).without_lines) || "There was no Python frame.")]
        : make("p", { className: "quiet" }, string(log.process.stacks) && finding.python === undefined
          ? `No Python frame could be read: ${string(log.process.stacks)}.` : "No Python frame could be read."));
}

// How it stands to the baseline that it was compared with (devtrace check).
function standing(finding) {
  const reason = shortened(string(finding.status_reason), 200);
  return finding.status + (reason ? `: ${reason}` : "");
}

function drawWhy(finding) {
  const cause = object(finding.cause);
  const confidence = string(cause.confidence);
  const tags = [string(finding.status) && standing(finding), confidence && confidence + " confidence", finding.severity === "note" && "a note, not a fault"];
  return make("section", { className: "why" }, make("h2", null, "Why"), make("p", null, shortened(string(cause.because), 800) || "Not known."),
    string(finding.note) && make("p", null, shortened(finding.note, 300)),
    make("p", { className: "tags" }, tags.filter(Boolean).map((text) => make("span", { className: "tag" }, text))));
}

// What the log says of the line that the fix replaces.
function sourceOfLine(finding, file, line) {
  const operands = operandsAndSources(finding).flatMap((operand) => [operand, ...objects(operand.siblings)]);
  const stacks = [finding, ...operands.flatMap((operand) => [operand.created, operand.moved])].map(framesOf);
  const passed = [object(finding.setup), ...operands.flatMap((operand) => objects(operand.lineage))].map((step) => object(step.line));
  for (const frame of [...stacks.flatMap(objects), ...passed]) {
    if (frame.file === file && frame.line === line && string(frame.source)) return frame.source;
  }
  return "";
}

// What trying it has shown.
function drawVerification(finding) {
  const said = object(object(finding.shown).verification);
  if (!string(said.words)) return null;
  return make("p", { className: said.label === "verified" ? "verification good" : "verification" }, make("b", null, string(said.label)), " ", shortened(said.words, 800));
}

function drawEdit(finding, edit) {
  const before = dedented(sourceOfLine(finding, edit.file, edit.line)).split("\n").filter((line) => line.trim());
  const after = string(edit.fix).split("\n");
  const lines = before.filter((line) => !after.includes(line)).map((line) => make("div", { className: "minus" }, "− ", breakable(line)))
    .concat(after.map((line) => make("div", { className: before.includes(line) ? "" : "plus" }, before.includes(line) ? "  " : "+ ", breakable(line))));
  return [string(edit.file) && make("p", { className: "place" }, code(location(edit))), make("div", { className: "excerpt diff code" }, lines)];
}

function drawFix(finding) {
  const cause = object(finding.cause);
  const fix = string(cause.fix);
  if (!fix) {
    const line = string(cause.file) && location(cause);
    const told = line ? "This is the line to change. What it should say is not known."
      : "No line can be named with certainty. The places where each operand was created and last moved are below.";
    return make("section", { className: "fix" }, make("h2", null, "Fix"), make("p", { className: "quiet" }, told),
      line && make("p", { className: "place" }, code(line)), drawVerification(finding));
  }
  const does = { line: "Makes this line run, whatever the cause.", cause: "Repairs the cause." }[string(cause.repairs)];
  return make("section", { className: "fix" }, make("h2", null, "Fix"), does && make("p", { className: "quiet" }, does),
    [cause, ...objects(cause.also)].flatMap((edit) => drawEdit(finding, edit)), drawVerification(finding));
}

function drawAnswer(finding) {
  return make("div", { className: "answer" },
    make("section", { className: "what", "aria-label": "What" }, drawDevices(finding)), drawWhere(finding), drawWhy(finding), drawFix(finding));
}
