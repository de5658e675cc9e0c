// Making elements. Text of a record reaches the page as text nodes and attribute values only, never as markup.

function append(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(typeof child === "string" ? printable(child) : child);
  }
  return element;
}

// An element with properties, attributes (names with "-", and role, style) and children: nodes, strings, or nothing.
function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key.includes("-") || key === "role" || key === "style") element.setAttribute(key, value);
    else element[key] = value;
  }
  return append(element, children);
}

// The same of SVG, where everything is an attribute.
function draw(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  return append(element, children);
}

// Long paths and dotted names may go on in the next line, but after a separator rather than within a word.
function breakable(text) {
  return text.split(/(?<=[/._(\[,])(?=\w)(?!(?<=\.)py\b)/).flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part]));
}

const code = (text) => make("code", null, breakable(text));
const quiet = (...children) => make("span", { className: "quiet" }, ...children);
const section = (title, ...children) => make("section", { className: "part" }, make("h2", null, title), ...children);

function hue(device) {
  const index = /^cuda:(\d+)$/.exec(device);
  return `--hue: var(--device-${index ? Number(index[1]) % 8 : "cpu"})`;
}
const deviceName = (device) => [make("span", { className: "dot", style: hue(device), "aria-hidden": "true" }), device];

// A table: titles, and rows of cells; the first cell of a row is its head. What is too wide scrolls by itself, also with the keyboard.
function table(className, titles, rows, label) {
  const cell = (content, tag, scope) => (content instanceof HTMLTableCellElement ? content : make(tag, scope && { scope }, ...[content].flat()));
  return make("div", { className: "scroll", role: "region", "aria-label": label, tabIndex: 0 }, make("table", { className },
    make("thead", null, make("tr", null, titles.map((title) => cell(title, "th", "col")))),
    make("tbody", null, rows.map((row) => make("tr", null, row.map((content, at) => cell(content, at ? "td" : "th", at ? null : "row")))))));
}
