// What stands over every finding: which program this was, and what its reader must know before he believes the rest.

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
