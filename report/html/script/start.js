// The keyboard. Nothing is taken away from whoever types into the filter, or from the browser's own combinations.

function toFilter(event) {
  if (log.rows.length < 2) return;
  event.preventDefault();
  document.getElementById("list-fold").open = true;
  document.getElementById("filter").focus();
}

// From the list into the finding that is shown, and back.
function toFinding() {
  document.getElementById("finding").focus();
}

function toList() {
  document.querySelector("#findings a[aria-current]")?.focus();
}

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  c: copyMarkdown,
  t: switchTheme,
  "/": toFilter,
  "?": () => document.getElementById("help").showModal(),
  Enter: (event) => {
    // A link or a button has its own idea of Enter.
    if (event.target === document.body) toFinding();
    else if (event.target.closest("#findings a")) setTimeout(toFinding);
  },
  Escape: toList,
};

const FILTER_KEYS = {
  Enter: () => {
    show(list.visible[0]);
    toFinding();
  },
  // Once for the words, once more for the field.
  Escape: (event) => {
    if (event.target.value === "") event.target.blur();
    event.target.value = "";
    applyFilter();
  },
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("help").open) return;
  if (event.target.id === "filter") FILTER_KEYS[event.key]?.(event);
  else KEYS[event.key]?.(event);
}

// The page begins: its theme at once, the rest when the browser has come to the end of the records.

applyKeptTheme();

document.addEventListener("DOMContentLoaded", () => {
  const on = (id, event, does) => document.getElementById(id).addEventListener(event, does);
  readRecords();
  drawBanners();
  drawProgram();
  if (matchMedia("(max-width: 760px)").matches) document.getElementById("list-fold").open = false;
  prepareList();
  showFromAddress();
  window.addEventListener("hashchange", showFromAddress);
  document.addEventListener("keydown", onKey);
  on("filter", "input", applyFilter);
  on("group", "change", applyFilter);
  on("copy", "click", copyMarkdown);
  on("redact", "click", switchRedaction);
  on("theme", "click", switchTheme);
  on("help-open", "click", () => document.getElementById("help").showModal());
  // On paper everything is unfolded.
  window.addEventListener("beforeprint", () => document.querySelectorAll("main details").forEach((each) => { each.open = true; }));
});
