// From what device how much went to which, and the lines that moved it.

const TRAFFIC = { devices: 17, sites: 20 };

function trafficRows() {
  return log.traffic.map((record) => ({
    record, from: string(record.from), to: string(record.to), bytes: Number(record.bytes) || 0, copies: Number(record.copies) || 0,
    seconds: Number(object(record.shown).seconds) || 0, link: string(object(record.shown).link), name: string(object(record.shown).name), measured: object(record.shown).measured === true, working: object(record.shown).working === true, place: string(object(record.shown).place),
  })).filter((row) => row.from && row.to);
}

// As traffic.cpp has it: the link's name, and the rate where it was measured.
function linkWords(row) {
  if (!row.measured || !(row.seconds > 0)) return row.name;
  const rate = row.bytes / row.seconds * 1e-9;
  return [row.name, `measured: ${rate.toFixed(rate < 10 ? 1 : 0)} GB/s`].filter(Boolean).join(", ");
}

// Several stacks of a library may end in the same line of the user's.
function bySite(rows) {
  const sites = new Map();
  for (const row of rows) {
    const key = [row.place, row.from, row.to, row.name, row.measured].join("\n");
    const site = sites.get(key);
    if (!site) sites.set(key, { ...row });
    else for (const what of ["bytes", "copies", "seconds"]) site[what] += row[what];
  }
  for (const site of sites.values()) site.link = linkWords(site);
  return [...sites.values()].sort((a, b) => b.seconds - a.seconds || b.bytes - a.bytes);
}

function sum(rows) {
  return rows.reduce((all, row) => ({ bytes: all.bytes + row.bytes, copies: all.copies + row.copies, seconds: all.seconds + row.seconds }), { bytes: 0, copies: 0, seconds: 0 });
}

function drawMatrix(rows) {
  const names = inOrder(rows.flatMap((row) => [row.from, row.to])).slice(0, TRAFFIC.devices);
  const between = (from, to) => rows.filter((row) => row.from === from && row.to === to);
  const most = Math.max(...names.flatMap((from) => names.map((to) => sum(between(from, to)).bytes)));
  const tokens = Number(log.process.tokens) || 0;
  const cell = (from, to) => {
    const some = between(from, to);
    if (!some.length) return make("td", { className: "quiet" }, from === to ? "" : "–");
    const all = sum(some);
    const working = sum(some.filter((row) => row.working));
    const links = [...new Set(some.map((row) => row.link).filter(Boolean))].join("; ");
    return make("td", { title: printable(links) }, make("b", null, bytes(all.bytes)), make("small", null, `${copiesOf(all.copies)}, ≥ ${duration(all.seconds)}`),
      tokens > 0 && make("small", null, working.bytes > 0 ? `a token: ${bytes(working.bytes / tokens)}, ≥ ${duration(working.seconds / tokens)}` : "a token: nothing"),
      make("span", { className: "meter", style: `width: ${Math.max(2, Math.round(100 * all.bytes / most))}%`, "aria-hidden": "true" }));
  };
  return table("matrix", ["from \\ to", ...names.map(deviceName)], names.map((from) => [deviceName(from), ...names.map((to) => cell(from, to))]), "Traffic by pairs of devices");
}

function drawSites(rows) {
  return table("sites", ["Call site", "From", "To", "Bytes", "Copies", "At least", "Link"], rows.slice(0, TRAFFIC.sites).map((row) => {
    const frame = userFrame(framesOf(row.record));
    return [[code(shortened(row.place, 200)), frame && string(frame.source) && make("pre", { className: "quiet" }, shortened(dedented(frame.source), 300))],
      deviceName(row.from), deviceName(row.to), bytes(row.bytes), String(row.copies), duration(row.seconds), row.link];
  }), "Traffic by call site");
}

function drawTraffic() {
  const rows = trafficRows();
  if (!rows.length) return null;
  const all = sum(rows);
  const sites = bySite(rows);
  return section("Traffic between devices",
    make("p", null, `${bytes(all.bytes)} in ${copiesOf(all.copies)}, at least ${duration(all.seconds)}. `,
      quiet("Times that are not said to be measured are estimates: the bytes at the full rate of the link that the devices' names suggest, so it takes no less.")),
    drawMatrix(rows), drawSites(sites), sites.length > TRAFFIC.sites && make("p", { className: "quiet" }, `And ${sites.length - TRAFFIC.sites} more call sites.`));
}
