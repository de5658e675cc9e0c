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
