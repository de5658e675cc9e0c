// The operands as a picture and as a table. How the operands came to lie where they are. A lane for each device, a row for each operand, from where it was made over its last move to
// where the operation found it. An SVG whose units are the page's pixels; it is drawn anew when the page's width changes.

const PICTURE = { head: 46, row: 58, pill: 26, letter: 7.4, small: 6.4, foot: 46, rows: 8, lanes: 8, roomy: 190, narrow: 125 };

const stationsOf = (operand) => {
  const created = object(operand.created);
  const moved = object(operand.moved);
  const stations = [
    created.device && { device: created.device, did: string(operand.pool) ? "pool's memory" : "created", frame: userFrame(framesOf(created)) },
    moved.from && { device: moved.from, did: "", frame: null },
    moved.to && { device: moved.to, did: "moved", frame: userFrame(framesOf(moved)) },
    operand.device && { device: operand.device, did: "", frame: null },
  ].filter((each) => each && typeof each.device === "string");
  // One after the other on the same device is one station.
  return stations.reduce((path, next) => {
    const last = path.at(-1);
    if (last && last.device === next.device) path[path.length - 1] = { ...last, ...(next.did ? next : {}) };
    else path.push(next);
    return path;
  }, []);
};

function pictureFor(finding, width) {
  const operands = operandsAndSources(finding).filter((each) => typeof each.device === "string").slice(0, PICTURE.rows);
  const ways = operands.map(stationsOf);
  // A kernel runs where its device is, whether or not anything of it lies there.
  const runsOn = string(object(finding.launch).kernel) && string(finding.current_device);
  const lanes = inOrder([...ways.flat().map((station) => station.device), runsOn]).slice(0, PICTURE.lanes);
  if (!lanes.length) return null;
  const lane = width / lanes.length;
  const roomy = lane >= PICTURE.roomy;
  const narrow = lane < PICTURE.narrow;
  const row = roomy ? PICTURE.row : PICTURE.row + 18;
  const height = PICTURE.head + ways.length * row + PICTURE.foot;
  const left = (device) => lanes.indexOf(device) * lane;
  const fitting = (text, room, letter) => shortened(text, Math.max(4, 2 * Math.floor(room / letter / 2) - 1));
  const told = operands.map((operand, at) => `${nameOf(operand)}: ${ways[at].map((each) => each.device).join(", then ")}`).join("; ");
  const svg = draw("svg", { class: "picture", viewBox: `0 0 ${Math.round(width)} ${height}`, role: "img", "aria-label": printable(shortened("Where each operand was made and moved. " + told, 900)) });

  for (const [at, device] of lanes.entries()) {
    svg.append(draw("g", { style: hue(device) },
      draw("rect", { class: "lane", x: at * lane + 3, y: 0, width: lane - 6, height: height - PICTURE.foot + 4, rx: 8 }),
      draw("text", { class: "device-name", x: at * lane + 14, y: 20 }, device),
      !narrow && draw("text", { class: "small", x: at * lane + 14, y: 36 }, fitting(modelOf(device), lane - 28, PICTURE.small))));
  }

  operands.forEach((operand, index) => {
    const way = ways[index];
    const top = PICTURE.head + index * row + (roomy ? 0 : 18);
    const middle = top + PICTURE.pill / 2;
    const group = draw("g", null, draw("title", null, `${nameOf(operand)}: ${extent(operand)}`));
    if (!roomy) group.append(draw("text", { class: "name", x: 10, y: top - 6 }, fitting(nameOf(operand), width - 20, PICTURE.letter)));
    way.forEach((station, at) => {
      const x = left(station.device) + 12;
      const last = at === way.length - 1;
      const note = station.frame && !narrow ? `${station.did} ${shortLocation(station.frame)}` : station.did;
      if (!last) {
        const target = left(way[at + 1].device);
        const rightwards = target > x;
        const from = x + (rightwards ? 13 : -1);
        const to = rightwards ? target + 10 : target + lane - 12;
        group.append(draw("line", { class: "way", x1: from, y1: middle, x2: to - (rightwards ? 7 : -7), y2: middle }),
          draw("path", { class: "tip", d: `M${to} ${middle} l${rightwards ? -8 : 8} -5 v10 z` }),
          draw("circle", { class: "was", style: hue(station.device), cx: x + 6, cy: middle, r: 6 }));
      } else {
        group.append(draw("g", { style: hue(station.device) },
          draw("rect", { class: "pill", x, y: top, width: lane - 24, height: PICTURE.pill, rx: 6 }),
          draw("text", { class: roomy ? "name" : "small", x: x + 9, y: middle + 4.5 }, fitting(roomy ? nameOf(operand) : narrow ? string(operand.dtype) : extent(operand), lane - 40, roomy ? PICTURE.letter : PICTURE.small))));
      }
      if (note) group.append(draw("text", { class: "small", x, y: top + PICTURE.pill + 14 }, fitting(note, lane - 24, PICTURE.small)));
    });
    svg.append(group);
  });

  const found = lanes.filter((device) => device === runsOn || operands.some((operand) => operand.device === device));
  const y = height - PICTURE.foot + 14;
  const from = Math.min(...found.map(left)) + 12;
  const to = Math.max(...found.map(left)) + lane - 12;
  const verb = found.length > 1 ? "✕" : "·";
  svg.append(draw("g", { class: found.length > 1 ? "meeting bad" : "meeting" },
    found.map((device) => draw("line", { x1: left(device) + lane / 2, x2: left(device) + lane / 2, y1: y - 10, y2: y })),
    draw("rect", { x: from, y, width: to - from, height: 28, rx: 6 }),
    draw("text", { x: (from + to) / 2, y: y + 18.5, "text-anchor": "middle" }, fitting(`${verb} ${operationOf(finding) || "the operation"}${runsOn ? ` runs on ${runsOn}` : ""}`, to - from - 20, PICTURE.letter))));
  return svg;
}

function drawPicture(finding) {
  const holder = make("div", { className: "picture-holder" });
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.max(280, holder.clientWidth);
    if (width === drawn || !holder.isConnected) return;
    drawn = width;
    holder.replaceChildren(pictureFor(finding, width) || "");
  }).observe(holder);
  return holder;
}

function origin(event, isRank = false) {
  if (!isObject(event)) return quiet("not known");
  const frame = userFrame(framesOf(event));
  const way = event.from && event.to ? `${string(event.from)} → ${string(event.to)}` : string(event.device);
  return [way && make("span", null, way, " "), string(event.call) && make("span", null, isRank ? `${event.call} ` : `by ${event.call} `), frame ? code(location(frame)) : !isRank && !string(event.call) && quiet("at an unknown place")];
}

// The lines that it passed since it was made.
const PASSED = { defaulted: "its device left out at ", given: "its device given at ", appended: "its parts put into a list at ", brought: "from what was brought there at ", constructed: "by a module constructed at ", discarded: "not moved, as the result is dropped, at ", returned: "returned to ", assigned: "assigned at ", left: "left where it was, beside what is moved, at ", chosen: "with the device chosen at " };
const passed = (operand) => objects(operand.lineage).filter((step) => Object.hasOwn(PASSED, string(step.what)))
  .map((step) => quiet(make("br"), PASSED[step.what], code(location(object(step.line)))));

function drawOperands(finding) {
  const operands = operandsAndSources(finding);
  if (!operands.length) return null;
  const rows = operands.map((operand) => [
    [code(shortened(nameOf(operand), 200)), ...(operand.odd ? [" ", make("span", { className: "tag" }, "odd one out")] : [])],
    deviceName(string(operand.device)),
    [extent(operand), make("br"), bytes(operand.bytes) !== extent(operand) && quiet(bytes(operand.bytes))],
    [role(operand), string(operand.hook) && quiet(make("br"), `hook: ${string(operand.hook)}`)],
    operand.before_attach === true && !operand.created ? quiet("before devtrace was attached")
      : string(operand.pool) ? [origin(operand.created), quiet(make("br"), madeBy(operand))] : [origin(operand.created, operand.role === "rank"), passed(operand)],
    operand.moved ? origin(operand.moved) : quiet(operand.created ? "never seen" : "not known"),
  ]);
  return section("Operands", drawPicture(finding), table("operands", ["Name", "Device", "Type", "Role", "Created", "Last moved"], rows, "Operands"));
}
