// The list of findings. However many there are, only the rows in sight are in the document: each has the same height, and lies where its
// number puts it.

const ROW = { height: 68, margin: 6 };  // pixels; rows beyond the edges, for scrolling with the keyboard
const anchorOf = (row) => row.anchor;

const list = { groups: new Map(), visible: [], drawn: "" };

function groupOf(row) {
  return list.groups.get(row.fingerprint) || [row];
}

function prepareList() {
  for (const row of log.rows) {
    row.words = [row.title, row.where, row.function, row.summary, row.kind, row.severity, row.category, row.status, row.fingerprint].map(string).join(" ").toLowerCase();
    const key = string(row.fingerprint) || anchorOf(row);
    if (list.groups.has(key)) list.groups.get(key).push(row);
    else list.groups.set(key, [row]);
  }
  if (log.rows.length < 2) return;
  document.getElementById("list").hidden = false;
  document.getElementById("page").classList.add("many");
  document.getElementById("group-choice").hidden = list.groups.size === log.rows.length;
  const scroller = document.getElementById("rows");
  scroller.addEventListener("scroll", drawRows);
  new ResizeObserver(drawRows).observe(scroller);
  applyFilter();
}

const grouped = () => document.getElementById("group").checked && list.groups.size < log.rows.length;

// Every word must occur. Of a group the first that matches stands for all.
function applyFilter() {
  const words = document.getElementById("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = log.rows.filter((row) => words.every((word) => row.words.includes(word)));
  const seen = new Set();
  list.visible = grouped() ? matching.filter((row) => {
    const group = groupOf(row);
    return !seen.has(group) && seen.add(group);
  }) : matching;
  const all = `${log.rows.length} findings`;
  const groups = grouped() ? `, ${list.visible.length} different` : "";
  document.getElementById("list-count").textContent = (words.length ? `${matching.length} of ${all}` : all) + groups;
  document.getElementById("no-match").hidden = matching.length > 0;
  document.getElementById("findings").style.height = `${list.visible.length * ROW.height}px`;
  list.drawn = "";
  drawRows();
}

const isShown = (row) => row === shown || (grouped() && shown && groupOf(shown).includes(row));

function drawRow(row, at) {
  const count = grouped() ? groupOf(row).reduce((all, each) => all + each.count, 0) : row.count;
  const link = make("a", { href: "#" + anchorOf(row), title: printable(shortened(string(row.summary), 300)) },
    make("span", null, make("b", null, shortened(string(row.title), 80)), count > 1 && quiet(` ×${count}`)),
    make("small", null, baseName(shortened(string(row.where), 160)), string(row.function) && ` in ${shortened(string(row.function), 80)}`),
    make("small", null, [string(row.status), string(row.kind), string(row.category), row.severity === "note" && "note"].filter(Boolean).join(" · ")));
  if (isShown(row)) link.setAttribute("aria-current", "true");
  return make("li", { style: `top: ${at * ROW.height}px; height: ${ROW.height}px`, "aria-posinset": String(at + 1), "aria-setsize": String(list.visible.length) }, link);
}

function drawRows() {
  const scroller = document.getElementById("rows");
  const first = Math.max(0, Math.floor(scroller.scrollTop / ROW.height) - ROW.margin);
  const last = Math.min(list.visible.length, Math.ceil((scroller.scrollTop + scroller.clientHeight) / ROW.height) + ROW.margin);
  const wanted = `${first} ${last} ${shown ? shown.anchor : ""}`;
  if (wanted === list.drawn) return;
  list.drawn = wanted;
  const held = document.activeElement?.closest("#findings") && document.activeElement.getAttribute("href");
  document.getElementById("findings").replaceChildren(...list.visible.slice(first, last).map((row, at) => drawRow(row, first + at)));
  // The focus stays with its row as long as that is there.
  if (held) [...document.querySelectorAll("#findings a")].find((link) => link.getAttribute("href") === held)?.focus({ preventScroll: true });
}

function bringIntoView(row) {
  const at = list.visible.findIndex((each) => each === row || (grouped() && groupOf(row).includes(each)));
  const scroller = document.getElementById("rows");
  if (at < 0) return;
  if (at * ROW.height < scroller.scrollTop) scroller.scrollTop = at * ROW.height;
  else if ((at + 1) * ROW.height > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = (at + 1) * ROW.height - scroller.clientHeight;
}
