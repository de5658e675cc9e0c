"""A log that this process is writing, read as it grows."""

from __future__ import annotations

import json
import os

from .finding import Finding


class Log:
    """The findings of this process's log, by their ids, as far as it was read."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.findings: dict[int, Finding] = {}
        self.lost = False  # somebody deleted the log: findings may have no record
        self._process = b""
        self._first = b""
        self._read = 0

    def refresh(self, path: str) -> None:
        """Reads what the log at `path` has grown by."""
        if not path:
            return
        if path != self.path:
            self.path, self.findings, self._first, self._read = path, {}, b"", 0
        try:
            log = open(path, "rb")
        except OSError:
            self.lost, self._first, self._read = True, b"", 0
            return
        with log:
            if log.read(len(self._first)) != self._first:  # made anew, by the first finding after it was deleted
                self.lost, self._first, self._read = True, b"", 0
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                self._first = self._first or line
                record = json.loads(line)
                if record.get("pid") != os.getpid():  # several processes may write one file
                    continue
                if record["record"] == "process":
                    self._process = line
                elif record["record"] == "finding":
                    self.findings[record["id"]] = Finding.read(line, self._process)
