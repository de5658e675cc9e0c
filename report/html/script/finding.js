// One finding, from its answer to its facts, below what its reader must know of the program before he believes the rest.

function drawBanners() {
  const banners = [];
  if (log.process.rehearsal === true) banners.push("Rehearsal: the devices were simulated.");
  if (log.check) banners.push(`Compared with a baseline: ${string(log.check.tally)}.`);
  if (!log.end) banners.push("The process was killed, or is still running: its log has no end.");
  if (log.torn) banners.push(`${log.torn} record${log.torn > 1 ? "s" : ""} could not be read: cut off while being written.`);
  if (log.end && log.end.dropped > 0) banners.push(`${log.end.dropped} more findings were dropped: max_findings was reached.`);
  if (log.leftOut) banners.push(string(log.leftOut.says));
  if (log.process.redacted === true) banners.push("Redacted: paths and names were replaced.");
  document.getElementById("banners").replaceChildren(banners.length ? make("div", { className: "banner" }, banners.join(" ")) : "");
}

function drawProgram() {
  const command = Array.isArray(log.process.command) ? log.process.command.filter((word) => typeof word === "string").join(" ") : "";
  const element = document.getElementById("program");
  element.textContent = printable([shortened(command, 200), string(log.process.host)].filter(Boolean).join(" · "));
  element.title = element.textContent;
}

// Which of those with the same fingerprint this is, and the way to its neighbours.
function drawOccurrences(row) {
  const group = groupOf(row);
  const at = group.indexOf(row);
  const link = (to, text) => to && make("a", { href: "#" + anchorOf(to) }, text);
  return group.length > 1 && make("span", { className: "occurrences" }, `occurrence ${at + 1} of ${group.length} `, link(group[at - 1], "previous"), " ", link(group[at + 1], "next"));
}

function drawTitle(row, finding) {
  const seen = row.count > 1 && make("span", { className: "tag" }, `seen ${row.count} times`);
  const link = make("a", { className: "permalink", href: "#" + anchorOf(row), "aria-label": "Link to this finding" }, "#" + anchorOf(row));
  return [make("p", { className: "kind" }, make("span", { className: finding.severity === "note" ? "tag" : "tag fault" }, string(finding.kind) || "finding"), seen, drawOccurrences(row), link),
    make("h1", null, shortened(headline(finding), 180))];
}

function drawFinding(row) {
  const main = document.getElementById("finding");
  main.replaceChildren();
  if (!row) {
    append(main, [make("h1", null, "No findings"), make("p", null, "No operation mixed devices while devtrace watched."), drawMoved(), drawTraffic(), drawPlacement(), drawMemory(), drawProcessFacts()]);
    return;
  }
  const finding = findingOf(row);
  append(main, [drawTitle(row, finding), drawAnswer(finding), drawOperands(finding), drawStacks(finding), drawTimeLine(finding), drawTraffic(), drawMoved(), drawPlacement(), drawMemory(),
    drawFindingFacts(finding, row.count), drawProcessFacts()]);
  // What scrolls by itself must be within the keyboard's reach.
  for (const each of main.querySelectorAll(".long, .excerpt")) if (each.scrollHeight > each.clientHeight) each.tabIndex = 0;
}
