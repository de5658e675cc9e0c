"""Which fault was seen on which night of a fleet: the content of its page."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

# What a cell says. A fault that comes back on a later night is known.
NOT_YET, NOT_RUN, GONE, KNOWN, NEW = range(5)
STATES = ("not seen yet", "not run", "gone", "known", "new")
LINKS = 20_000  # of a page, the newest of each fault first
SHOWN = 12  # versions and hosts of a fault that are named
PROGRAMS = 2_000  # above that many different commands they are one

# Read once: of a folder of tables each query would open all its files again.
ROWS = """
CREATE OR REPLACE TEMP TABLE fault_rows AS SELECT * FROM findings WHERE coalesce(severity, 'error') <> 'note' AND NOT suppressed;
CREATE OR REPLACE TEMP TABLE runs AS SELECT date, host, log, pid, path, CAST(command AS VARCHAR) AS program FROM processes;
"""
FAULTS = """
SELECT fingerprint, min(date) AS first_night, max(date) AS last_night, count(DISTINCT date) AS nights, count(DISTINCT host) AS hosts,
       CAST(sum(count) AS BIGINT) AS occurrences, arg_min(torch, date) AS first_torch, arg_min(host, date) AS first_host,
       list_sort(list(DISTINCT torch)) AS versions, list_sort(list(DISTINCT host))[:{shown}] AS some_hosts,
       arg_max({{kind: kind, operation: operation, category: category, confidence: confidence, because: because, fix: fix, fix_file: fix_file,
                 fix_line: fix_line, repairs: repairs, verified: verified, message: message, file: file, line: line, function: function,
                 source: source}}, date) AS latest
FROM fault_rows GROUP BY fingerprint ORDER BY last_night DESC, first_night DESC, occurrences DESC, fingerprint
"""
CELLS = """
SELECT f.place AS fault, n.place AS night, s.occurrences FROM (
  SELECT fingerprint, date, CAST(sum(count) AS INTEGER) AS occurrences FROM fault_rows GROUP BY ALL) s
JOIN fault_places f USING (fingerprint) JOIN night_places n USING (date)
"""
# Which programs met a fault, and on which nights each was run.
MET = """
SELECT DISTINCT f.place AS fault, p.place AS program FROM fault_rows JOIN runs r USING (log, pid) JOIN fault_places f USING (fingerprint)
JOIN program_places p ON p.program = r.program
"""
RUN = """
SELECT DISTINCT p.place AS program, n.place AS night FROM runs r JOIN night_places n USING (date) JOIN program_places p ON p.program = r.program
"""
LOGS = """
SELECT s.place AS fault, n.place AS night, s.host, r.path FROM (
  SELECT f.place, date, host, log, pid FROM fault_rows JOIN fault_places f USING (fingerprint)
  QUALIFY row_number() OVER (PARTITION BY f.place ORDER BY date DESC, host, log) <= {links}) s
JOIN runs r USING (log, pid) JOIN night_places n ON n.date = s.date WHERE r.path IS NOT NULL ORDER BY 1, 2 DESC, 3
"""


@dataclass
class History:
    nights: list[datetime.date]
    processes: list[int]  # that were run on each
    faults: list[dict[str, Any]]
    states: np.ndarray  # faults x nights, of the constants above
    occurrences: np.ndarray  # of the same shape
    links: list[tuple[int, int, str, str]]  # fault, night, host, log


def _with_places(connection: duckdb.DuckDBPyConnection, table: str, column: str, values: list[Any], type_: str) -> None:
    rows = f"SELECT unnest(?::{type_}[]) AS {column}, unnest(range(?)) AS place"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {rows}", [values, len(values)])


def _pairs(connection: duckdb.DuckDBPyConnection, query: str, shape: tuple[int, int]) -> np.ndarray:
    found = connection.execute(query).fetchnumpy()
    first, second = list(found.values())[:2]
    matrix = np.zeros(shape, dtype=bool)
    matrix[np.asarray(first, dtype=int), np.asarray(second, dtype=int)] = True
    return matrix


def read(connection: duckdb.DuckDBPyConnection) -> History:
    connection.execute(ROWS)
    ran = connection.execute("SELECT date, count(*) FROM runs GROUP BY date ORDER BY date").fetchall()
    if not ran:
        raise SystemExit("devtrace fleet: the tables hold no process yet")
    days = {date: count for date, count in ran}
    nights = [ran[0][0] + datetime.timedelta(days=day) for day in range((ran[-1][0] - ran[0][0]).days + 1)]
    if len(nights) > 4 * len(ran):  # a few nights years apart
        nights = list(days)
    cursor = connection.execute(FAULTS.format(shown=SHOWN))
    names = [column[0] for column in cursor.description]
    faults = [dict(zip(names, row)) for row in cursor.fetchall()]
    faults = [{**each, **each.pop("latest")} for each in faults]
    shape = len(faults), len(nights)

    _with_places(connection, "fault_places", "fingerprint", [each["fingerprint"] for each in faults], "VARCHAR")
    _with_places(connection, "night_places", "date", nights, "DATE")
    occurrences = np.zeros(shape, dtype=np.uint16)
    cells = connection.execute(CELLS).fetchnumpy()
    occurrences[np.asarray(cells["fault"], dtype=int), np.asarray(cells["night"], dtype=int)] = np.minimum(np.asarray(cells["occurrences"]), 65535)

    distinct = "SELECT DISTINCT program FROM runs WHERE program IS NOT NULL LIMIT ?"
    programs = [row[0] for row in connection.execute(distinct, [PROGRAMS + 1]).fetchall()]
    any_run = np.array([night in days for night in nights])
    if 1 < len(programs) <= PROGRAMS:
        _with_places(connection, "program_places", "program", programs, "VARCHAR")
        met = _pairs(connection, MET, (len(faults), len(programs)))
        run = (met.astype(np.float32) @ _pairs(connection, RUN, (len(programs), len(nights))).astype(np.float32)) > 0
        run[~met.any(axis=1)] = any_run
    else:
        run = np.tile(any_run, (len(faults), 1))

    seen = occurrences > 0
    before = np.zeros(shape, dtype=bool)  # seen on an earlier night
    before[:, 1:] = np.logical_or.accumulate(seen, axis=1)[:, :-1]
    states = np.full(shape, NOT_YET, dtype=np.uint8)
    states[before & ~seen] = GONE
    states[~run & ~seen] = NOT_RUN
    states[seen & before] = KNOWN
    states[seen & ~before] = NEW
    links = connection.execute(LOGS.format(links=max(SHOWN, LINKS // max(1, len(faults))))).fetchall()
    return History(nights, [days.get(night, 0) for night in nights], faults, states, occurrences, links)


def page_beside(log: str) -> Path | None:
    """The page of that log, where it is there."""
    page = Path(log).with_suffix(".html")
    return page.resolve() if page.exists() else None
