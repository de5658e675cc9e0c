// Light or dark: as the system has it, until somebody chooses.

// Where pages may keep nothing (files, in some browsers), the choice lasts as long as the page.
function keep(value) {
  try {
    if (value) localStorage.setItem("devtrace-theme", value);
    return localStorage.getItem("devtrace-theme");
  } catch {
    return null;
  }
}

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  keep(root.dataset.theme);
}

function applyKeptTheme() {
  const kept = keep();
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
}
