// The page's buttons. Light or dark: as the system has it, until somebody chooses. The shown finding as Markdown for a bug tracker, with
// paths and names replaced if wanted.

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

const wantsRedacted = () => document.getElementById("redact").getAttribute("aria-pressed") === "true";

function switchRedaction() {
  document.getElementById("redact").setAttribute("aria-pressed", String(!wantsRedacted()));
  announce(wantsRedacted() ? "Copies are redacted: paths and names are replaced" : "Copies are not redacted");
}

async function copyMarkdown() {
  const button = document.getElementById("copy");
  const texts = object(shown && findingOf(shown).shown);
  const text = string(wantsRedacted() && texts.redacted ? texts.redacted : texts.markdown);
  if (!text) return;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission, or in a browser that has no clipboard for files.
    const area = make("textarea", { value: text, className: "visually-hidden", "aria-hidden": "true" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "Copied";
  announce(wantsRedacted() ? "Copied as Markdown, redacted" : "Copied as Markdown");
  setTimeout(() => { button.textContent = "Copy as Markdown"; }, 1500);
}
