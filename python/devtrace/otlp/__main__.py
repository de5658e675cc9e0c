"""python -m devtrace.otlp ENDPOINT [SPOOL]: spools the records on standard input, and sends what waits for that endpoint.

Exit code 0: sent, or kept for the next call; 2: it cannot be sent from here, and why."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .spool import Record, Spool, default_folder

MOST_SECONDS = 10.0  # for all of it, however much waits
A_REQUEST = 5.0  # seconds
BATCH = 256  # log records
KEPT = ("process", "finding", "count", "traffic", "memory", "end")


def say(what: str) -> None:
    print(f"devtrace report: {what}", file=sys.stderr)


def pid_of(record: Record) -> Any:
    pid = record.get("pid")
    return pid if isinstance(pid, int) else None


def processes(lines: Any) -> Iterator[list[Record]]:
    """The records of each process, the `process` record first. After an exec it is one of its own, whose ids begin anew."""
    units: dict[Any, list[Record]] = {}
    order: list[list[Record]] = []
    latest: list[Record] = []
    for line in lines:
        record = json.loads(line)
        if record.get("record") == "process":
            before = units.get(pid_of(record))
            keys = ("started",) if record.get("redacted") else ("start_ticks", "host")
            if before is not None and all(before[0].get(key) == record.get(key) for key in keys):
                record = {**before[0], **record, "unit": before[0].get("unit", 0) + 1}
            latest = units[pid_of(record)] = [record]
            order.append(latest)
        elif record.get("record") in KEPT and latest:
            units.get(pid_of(record), latest).append(record)
    yield from order


class Reasons(logging.Handler):
    """Why the SDK could not send, in its own words."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = "no answer"
        logging.getLogger("opentelemetry").addHandler(self)
        logging.getLogger("opentelemetry").propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage().splitlines()[0][:300]


class Sender:
    def __init__(self, endpoint: str, spool: Spool) -> None:
        self.endpoint, self.spool, self.until = endpoint, spool, time.monotonic() + MOST_SECONDS

    def seconds(self) -> float:
        return min(A_REQUEST, self.until - time.monotonic())

    def send(self, file: Path, records: list[Record]) -> bool:
        """What of a process has not arrived yet. What has is marked at once, so that the next call begins behind it."""
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk._logs.export import LogRecordExportResult
        from opentelemetry.sdk.metrics.export import MetricExportResult

        from . import convert

        unit, sent = file.stem, self.spool.sent(file)
        logs = [(uid, log) for uid, log in convert.logs_of(records, unit).items() if uid not in sent]
        for begin in range(0, len(logs), BATCH):
            batch = logs[begin : begin + BATCH]
            if self.seconds() <= 0:
                return False
            exporter = OTLPLogExporter(endpoint=f"{self.endpoint}/v1/logs", timeout=self.seconds())
            if exporter.export([log for _, log in batch]) is not LogRecordExportResult.SUCCESS:
                return False
            self.spool.mark(file, [uid for uid, _ in batch])
        uid, metrics = convert.metrics_of(records, unit)
        if metrics is not None and uid not in sent:
            if self.seconds() <= 0:
                return False
            metric_exporter = OTLPMetricExporter(endpoint=f"{self.endpoint}/v1/metrics", timeout=self.seconds())
            if metric_exporter.export(metrics) is not MetricExportResult.SUCCESS:
                return False
            self.spool.mark(file, [uid])
        return True

    def send_all(self, files: list[Path]) -> int:
        """How many processes could not be sent in that time."""
        left = 0
        for file in files:
            try:
                endpoint, records = self.spool.read(file)
            except (OSError, ValueError):
                continue  # taken by somebody else
            if endpoint != self.endpoint:
                continue
            try:
                arrived = self.seconds() > 0 and self.send(file, records)
            except Exception as error:  # a log may hold anything, and what follows is to be sent all the same
                say(f"{file.stem}: these records cannot be sent, and are left out: {error!r}")
                arrived = True
            if arrived:
                file.unlink(missing_ok=True)
            left += not arrived
        return left


def main(endpoint: str, folder: Path) -> int:
    spool = Spool(folder)
    own = [spool.add(endpoint, records) for records in processes(sys.stdin.buffer)]
    for said in spool.bound():
        say(said)
    try:
        import opentelemetry.exporter.otlp.proto.http  # noqa: F401

        from . import convert  # noqa: F401
    except ImportError as error:
        say(f"--otlp needs OpenTelemetry's SDK in {sys.executable}: pip install 'devtrace[otlp]', or opentelemetry-sdk and "
            f"opentelemetry-exporter-otlp-proto-http ({error}). What is to be sent is kept in {folder}")  # fmt: skip
        return 2
    reasons = Reasons()
    with spool.alone() as alone:
        if not alone:
            say(f"another call sends to {endpoint}: what is to be sent is kept in {folder}, and the next call sends it")
            return 0
        # Its own first: what is older may be what the endpoint refuses.
        older = [file for file in spool.files() if file not in own]
        left = Sender(endpoint, spool).send_all([*own, *older])
    if left:
        say(f"{endpoint}: {reasons.last}; the records of {left} process{'es' * (left > 1)} are kept in {folder}, and the next call sends them")
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main(sys.argv[1].rstrip("/"), Path(sys.argv[2]) if len(sys.argv) > 2 else default_folder()))
