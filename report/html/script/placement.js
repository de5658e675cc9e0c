// Where the program's models lie: by device, and by module within it. What moved since the baseline, on the page of devtrace check.

const PLACEMENT = { models: 20, groups: 100, tensors: 300 };

const tensorsOf = (count) => `${count} tensor${count === 1 ? "" : "s"}`;

// Of several models of one class each is called by the variable that holds it.
function modelName(model) {
  const variable = string(model.variable);
  return string(model.root) + (variable ? ` (${variable})` : "");
}

function drawTensors(entries) {
  return make("ul", { className: "tensors", tabIndex: 0 }, entries.slice(0, PLACEMENT.tensors).map((entry) => make("li", null, code(shortened(string(entry.name), 200)), " ",
    quiet([string(entry.kind), bytes(entry.bytes)].filter(Boolean).join(", ")))),
  entries.length > PLACEMENT.tensors && make("li", { className: "quiet" }, `And ${entries.length - PLACEMENT.tensors} more.`));
}

// A part of a model; its tensors are drawn when they are asked for.
function drawGroup(group, entries) {
  const summary = make("summary", null, code(shortened(string(group.name), 200)), " ", quiet(`${tensorsOf(group.tensors)}, ${bytes(group.bytes)}`));
  const fold = make("details", { className: "fold" }, summary);
  fold.addEventListener("toggle", () => fold.childElementCount < 2 && append(fold, [drawTensors(entries())]));
  return fold;
}

// The model from its first tensor to its last, as long as they have bytes; a lane for each device.
function drawMap(model, names) {
  const groups = objects(object(model.shown).groups);
  const of = Array.isArray(object(model.shown).of) ? model.shown.of : [];
  const entries = objects(model.entries);
  const runs = [];
  let at = 0;
  entries.forEach((entry, index) => {
    const size = Number(entry.bytes) || 0;
    const last = runs.at(-1);
    if (last && last.group === of[index]) last.size += size;
    else runs.push({ group: of[index], at, size });
    at += size;
  });
  if (at === 0 || names.length < 2) return null;
  const width = 720, lane = 18;
  return draw("svg", { class: "map", viewBox: `0 0 ${width} ${names.length * lane}`, role: "img", "aria-label": `Map of ${modelName(model)}: ${names.join(", ")}` },
    runs.filter((run) => groups[run.group]).map((run) => {
      const { device, name } = groups[run.group];
      return draw("rect", { class: "run", style: hue(string(device)), x: width * run.at / at, width: Math.max(0.5, width * run.size / at), y: names.indexOf(string(device)) * lane + 2, height: lane - 4 },
        draw("title", null, `${string(device)}: ${string(name)}, ${bytes(run.size)}`));
    }));
}

function drawModel(model) {
  const groups = objects(object(model.shown).groups);
  const of = Array.isArray(object(model.shown).of) ? model.shown.of : [];
  const names = inOrder(groups.map((group) => string(group.device)));
  const rows = names.map((name) => {
    const here = groups.map((group, at) => ({ group, at })).filter(({ group }) => group.device === name);
    const all = (what) => here.reduce((sum, { group }) => sum + (Number(group[what]) || 0), 0);
    const folds = here.slice(0, PLACEMENT.groups).map(({ group, at }) => drawGroup(group, () => objects(model.entries).filter((_, entry) => of[entry] === at)));
    const more = here.length > PLACEMENT.groups && quiet(`And ${here.length - PLACEMENT.groups} more.`);
    return [deviceName(name), bytes(all("bytes")), String(all("tensors")), [...folds, more]];
  });
  const left = Number(model.left_out) > 0 && make("p", { className: "quiet" }, `Of ${tensorsOf(model.left_out)} more nothing is known.`);
  return [make("h3", null, code(shortened(modelName(model), 160))), table("placement", ["Device", "Bytes", "Tensors", "What"], rows, `Where ${modelName(model)} lies`), drawMap(model, names), left];
}

function drawPlacement() {
  const models = [...log.models.values()].filter((model) => objects(object(model.shown).groups).length);
  if (!models.length) return null;
  return section("Where the model lives", models.slice(0, PLACEMENT.models).flatMap(drawModel),
    models.length > PLACEMENT.models && make("p", { className: "quiet" }, `And ${models.length - PLACEMENT.models} more.`));
}

function drawMoved() {
  const moved = objects(object(log.check).moved);
  if (!moved.length) return null;
  return section("Moved to another device", table("moved", ["What", "Now", "In the baseline"], moved.map((each) =>
    [code(shortened(string(each.what), 300)), string(each.now), string(each.before)]), "What lies on another device than in the baseline"));
}
