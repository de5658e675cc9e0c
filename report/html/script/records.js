// The log's records, which lie after the page in inert script elements. A finding's element says in its data-row what the list shows of it.
// The finding itself is read when it is looked at, so that a page with a thousand of them opens at once.

const log = { process: {}, rows: [], ids: new Map(), traffic: [], sites: new Map(), models: new Map(), memory: new Map(), outOfMemory: [], check: null, leftOut: null, end: null, torn: 0 };

function parsed(json) {
  try {
    return object(JSON.parse(json));
  } catch {
    return null;
  }
}

function readRecords() {
  const elements = [...document.querySelectorAll("script.record")];
  for (const element of elements) {
    if (element.dataset.row !== undefined) {
      const row = parsed(element.dataset.row);
      // Only what was written last can have been cut off.
      if (!row || (element === elements.at(-1) && !parsed(element.textContent))) log.torn += 1;
      else log.rows.push({ ...row, count: row.count ?? 1, element, anchor: freeAnchor(row.id) });
      continue;
    }
    const record = parsed(element.textContent);
    if (!record) log.torn += 1;
    else if (record.record === "process") startProcess(record);
    else if (record.record === "count") countAgain(record);
    else if (record.record === "traffic") moreTraffic(record);
    else if (record.record === "placement") log.models.set(record.id, record);
    else if (record.record === "memory") log.memory.set(`${string(record.process)} ${record.device}`, record);
    else if (record.record === "out_of_memory") log.outOfMemory.push(record);
    else if (record.record === "check") log.check = record;
    else if (record.record === "left_out") log.leftOut = record;
    else if (record.record === "end") log.end = record;
  }
}

// A log that goes on with another program of the same process has its ids twice.
function freeAnchor(id) {
  const times = (log.ids.get(id) || 0) + 1;
  log.ids.set(id, times);
  return times > 1 ? `finding-${id}-${times}` : `finding-${id}`;
}

// The whole finding of a row.
function findingOf(row) {
  if (!row.finding) {
    row.finding = parsed(row.element.textContent) || { message: "This record could not be read." };
  }
  return row.finding;
}

// A log may go on with another program of the same process, which counts its ids anew.
function startProcess(record) {
  Object.assign(log.process, record);
  log.sites.clear();
  log.models.clear();
  log.memory.clear();
  log.outOfMemory = [];
}

// Of a call site's totals the last one holds.
function moreTraffic(record) {
  const known = log.sites.get(record.id);
  if (known === undefined) {
    log.sites.set(record.id, log.traffic.length);
    log.traffic.push(record);
  } else {
    log.traffic[known] = record;
  }
}

// Of a finding's counts the largest holds.
function countAgain(record) {
  const row = log.rows.find((each) => each.id === record.id && each.fingerprint === record.fingerprint);
  if (row && record.count > row.count) row.count = record.count;
}
