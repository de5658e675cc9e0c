// Which finding is shown: the address says it, so that every finding can be linked to and the browser's own buttons work.

let shown = null;

function showFromAddress() {
  const wanted = window.location.hash.slice(1);
  const row = log.rows.find((each) => anchorOf(each) === wanted) || shown || log.rows[0] || null;
  if (row === shown && shown) return;
  const first = shown === null;
  shown = row;
  drawFinding(row);
  for (const id of ["copy", "redact"]) document.getElementById(id).hidden = !row;
  drawRows();
  if (row) bringIntoView(row);
  if (!first) {
    window.scrollTo(0, 0);
    announce(headline(findingOf(row)));
  }
}

function show(row) {
  if (row) window.location.hash = anchorOf(row);
}

function step(by) {
  const at = list.visible.findIndex(isShown);
  show(list.visible[at < 0 ? 0 : at + by]);
}

// For those who hear the page.
function announce(text) {
  document.getElementById("said").textContent = printable(text);
}
