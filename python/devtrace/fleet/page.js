"use strict";
// What a cell says, by mouse and by keys; the picture itself is Bokeh's.
(() => {
  const began = performance.now();
  const parsed = id => JSON.parse(document.getElementById(id).textContent);
  const about = parsed("details-data");
  const { nights, faults, states } = about;
  const rows = faults.length;
  let plot, image, chosen = { row: 0, column: nights.length - 1 };

  const element = (name, text, of = {}) => Object.assign(document.createElement(name), { textContent: text ?? "" }, of);
  const stateOf = (row, column) => states[image.at(row, column)];

  function addDefinition(list, term, ...content) {
    const definition = element("dd");
    definition.append(...content);
    list.append(element("dt", term), definition);
  }

  function logItem([night, host, log, page]) {
    const item = element("li");
    const text = `${nights[night]} ${host}`;
    item.append(page ? element("a", text, { href: encodeURI(page) }) : text, page ? "" : `: ${log}`);
    return item;
  }

  function showFault(fault, column) {
    const section = document.getElementById("fault");
    section.hidden = false;
    section.replaceChildren(element("h2", fault.name));
    const said = element("dl");
    const place = fault.file ? `${fault.function ?? ""} (${fault.file}:${fault.line})` : "";
    for (const [term, value] of [["kind", fault.kind], ["message", fault.message], ["where", place], ["line", fault.source],
      ["why", fault.because && `${fault.because} (${fault.confidence} confidence)`],
      ["first seen", `${fault.first_night} on ${fault.first_host}, torch ${fault.first_torch ?? "?"}`],
      ["last seen", `${fault.last_night}; on ${fault.nights} nights, ${fault.occurrences} times`],
      ["versions", fault.versions.join(", ")],
      ["hosts", fault.some_hosts.join(", ") + (fault.hosts > fault.some_hosts.length ? `, … (${fault.hosts})` : "")],
      ["fingerprint", fault.fingerprint]])
      if (value) addDefinition(said, term, value);
    if (fault.fix) {
      const where = fault.fix_file ? `${fault.fix_file}:${fault.fix_line}` : "";
      addDefinition(said, "repair", element("pre", fault.fix), [where, fault.verified && `tried: ${fault.verified}`].filter(Boolean).join("; "));
    }
    const ofNight = fault.logs.filter(([night]) => night === column);
    const list = element("ul", "", { className: "logs" });
    list.append(...(ofNight.length ? ofNight : fault.logs).map(logItem));
    if (fault.logs.length) addDefinition(said, ofNight.length ? "reports of that night" : "newest reports", list);
    section.append(said);
  }

  function choose(row, column, scroll = true) {
    if (!rows) return;
    chosen = { row: Math.min(Math.max(row, 0), rows - 1), column: Math.min(Math.max(column, 0), nights.length - 1) };
    const fault = faults[chosen.row], bottom = rows - 1 - chosen.row;
    plot.select("chosen")[0].data_source.data = { left: [chosen.column - 0.5], right: [chosen.column + 0.5], bottom: [bottom - 0.5], top: [bottom + 0.5] };
    document.getElementById("cell").textContent =
      `${nights[chosen.column]} (${about.processes[chosen.column]} processes): ${fault.name}: ${stateOf(chosen.row, chosen.column)}`;
    showFault(fault, chosen.column);
    if (!scroll) return;
    for (const [range, at] of [[plot.x_range, chosen.column], [plot.y_range, bottom]]) {
      const extent = range.end - range.start;
      if (at - 0.5 < range.start) range.setv({ start: at - 0.5, end: at - 0.5 + extent });
      if (at + 0.5 > range.end) range.setv({ start: at + 0.5 - extent, end: at + 0.5 });
    }
  }

  // Around the chosen cell.
  function zoom(factor) {
    for (const [range, at, end] of [[plot.x_range, chosen.column, nights.length - 0.5], [plot.y_range, rows - 1 - chosen.row, rows - 0.5]]) {
      const start = Math.max(-0.5, at - (at - range.start) * factor), stop = Math.min(end, at + (range.end - at) * factor);
      if (stop - start >= 2) range.setv({ start, end: stop });
    }
  }

  function otherNight(step) {
    for (let column = chosen.column + step; column >= 0 && column < nights.length; column += step)
      if (["new", "known"].includes(stateOf(chosen.row, column))) return choose(chosen.row, column);
  }

  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-20, 0], PageDown: [20, 0] };
  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
    if (event.key === "t") return theme(!dark);
    if (event.key === "+" || event.key === "-") return zoom(event.key === "+" ? 0.5 : 2);
    if (event.key === "[" || event.key === "]") return otherNight(event.key === "[" ? -1 : 1);
    const move = moves[event.key];
    if (!move || event.target.closest("#fault")) return;
    event.preventDefault();
    choose(chosen.row + move[0], chosen.column + move[1]);
  }

  let dark = matchMedia("(prefers-color-scheme: dark)").matches;
  function theme(wanted) {
    dark = wanted;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    const colours = dark ? about.dark : about.light, style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink").trim(), paper = style.getPropertyValue("--paper").trim();
    document.querySelectorAll("#legend span").forEach((span, state) => { span.style.backgroundColor = colours[state]; });
    if (!plot) return;
    if (image) image.mapper.palette = colours;
    plot.setv({ background_fill_color: paper, border_fill_color: paper, outline_line_color: style.getPropertyValue("--line").trim() });
    for (const axis of [...plot.below, ...plot.left])
      axis.setv({ major_label_text_color: ink, axis_line_color: ink, major_tick_line_color: ink, minor_tick_line_color: null });
    plot.select("chosen")[0].glyph.line_color = { value: style.getPropertyValue("--link").trim() };
  }

  async function start() {
    document.getElementById("legend").append(...states.map(name => {
      const item = element("li");
      item.append(element("span"), name);
      return item;
    }));
    theme(dark);
    Bokeh.logger.set_level("error");
    await Bokeh.embed.embed_item(parsed("picture-data"));
    plot = Bokeh.documents[0].roots()[0];
    const drawn = plot.renderers.find(each => each.glyph.type === "Image");
    if (drawn) {
      const cells = drawn.data_source.data.image[0], mapper = drawn.glyph.color_mapper;
      image = { mapper, at: (row, column) => cells[(rows - 1 - row) * nights.length + column] };
    }
    theme(dark);
    plot.on_event("tap", event => choose(rows - 1 - Math.round(event.y), Math.round(event.x), false));
    document.addEventListener("keydown", key);
    document.getElementById("theme").addEventListener("click", () => theme(!dark));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", event => theme(event.matches));
    const names = new Map(faults.flatMap((fault, row) => [[fault.fingerprint, row], [`${fault.name} ${fault.fingerprint}`, row]]));
    document.getElementById("faults").append(...[...names.keys()].filter(name => name.includes(" ")).map(value => element("option", "", { value })));
    document.getElementById("find").addEventListener("change", event => {
      const text = event.target.value;
      const row = names.get(text) ?? faults.findIndex(fault => JSON.stringify(Object.values(fault)).includes(text));
      if (row >= 0) choose(row, nights.indexOf(faults[row].last_night));
    });
    if (rows) choose(0, nights.indexOf(faults[0].last_night));
    else document.getElementById("cell").textContent = "No fault was seen.";
    requestAnimationFrame(() => { document.body.dataset.drawn = Math.round(performance.now()); document.body.dataset.script = Math.round(performance.now() - began); });
  }
  start();
})();
