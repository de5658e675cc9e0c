"""What is to be sent, on the disk, and what was: so that an endpoint that is away loses nothing, and nothing is sent twice.

    FOLDER/waiting/UNIT.jsonl     records of one process: a line that says the endpoint, and the records
    FOLDER/sent/UNIT              the ids of what of it has arrived, one a line
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]
MOST_BYTES = 64 << 20  # of what waits; then the oldest is left out
MOST_DAYS = 30
MOST_SENT = 10_000  # processes of which it is known what was sent; then the oldest is forgotten
PATIENCE = 10  # seconds, for another call that sends


class Spool:
    def __init__(self, folder: Path) -> None:
        self.waiting, self._sent, self._lock = folder / "waiting", folder / "sent", folder / "lock"
        for each in (self.waiting, self._sent):
            each.mkdir(parents=True, exist_ok=True, mode=0o700)

    def add(self, endpoint: str, records: list[Record]) -> Path:
        """The records of one process, from its `process` on. What waits of it already is what it had before."""
        file = self.waiting / f"{unit_of(endpoint, records[0])}.jsonl"
        with tempfile.NamedTemporaryFile("w", dir=self.waiting, suffix=".part", delete=False, encoding="utf-8") as part:
            for record in ({"endpoint": endpoint}, *records):
                part.write(json.dumps(record) + "\n")
        os.replace(part.name, file)
        return file

    def read(self, file: Path) -> tuple[str, list[Record]]:
        """The endpoint, and the records."""
        head, *records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return head["endpoint"], records

    def bound(self) -> list[str]:
        """Leaves out what is too old or too much; says what."""
        said, all_bytes = [], 0
        for file in reversed(self.files()):
            state = file.stat()
            all_bytes += state.st_size
            if all_bytes > MOST_BYTES or time.time() - state.st_mtime > MOST_DAYS * 86400:
                file.unlink(missing_ok=True)
                said.append(f"{file}: left out and never sent: {'too much' if all_bytes > MOST_BYTES else 'too old'}")
        known = sorted(self._sent.iterdir(), key=lambda file: file.stat().st_mtime)
        for file in known[: max(0, len(known) - MOST_SENT)]:
            file.unlink(missing_ok=True)
        return said

    def files(self) -> list[Path]:
        """What waits, the oldest first."""
        return sorted(self.waiting.glob("*.jsonl"), key=lambda file: file.stat().st_mtime)

    def sent(self, file: Path) -> set[str]:
        try:
            return set((self._sent / file.stem).read_text().split())
        except FileNotFoundError:
            return set()

    def mark(self, file: Path, ids: list[str]) -> None:
        with open(self._sent / file.stem, "a") as out:
            out.write("".join(f"{each}\n" for each in ids))

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether nobody else sends: two at once would send the same."""
        until = time.monotonic() + PATIENCE
        with open(self._lock, "w") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        yield False
                        return
                    time.sleep(0.1)
            yield True


def unit_of(endpoint: str, process: Record) -> str:
    """Names the process for good. Redacted machines are numbered anew by each call, so they tell nothing here."""
    keys = ("pid", "started", "start_ticks", "unit", "redacted") if process.get("redacted") else ("pid", "started", "start_ticks", "unit", "host")
    return hashlib.sha256(json.dumps([endpoint, *(process.get(key) for key in keys)]).encode()).hexdigest()[:32]


def default_folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "devtrace" / "otlp"
