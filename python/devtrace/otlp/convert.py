"""Records as log records and metrics of OpenTelemetry's: names by its semantic conventions where they have one, else `devtrace.…`."""

from __future__ import annotations

import datetime
import hashlib
import json
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from .spool import Record

SCHEMA = "https://opentelemetry.io/schemas/1.36.0"
PARTS = ("weights", "gradients", "optimizer", "caches", "activations", "other")
Attributes = dict[str, Any]


def nanoseconds(seconds: float | None) -> int:
    return int((seconds or 0) * 1e9)


def without_nothing(attributes: Attributes) -> Attributes:
    return {key: value for key, value in attributes.items() if value is not None and value != "" and value != []}


def digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def resource_of(process: Record, unit: str) -> Resource:
    """The process that was watched. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES of the environment outrank what is known of it."""
    started = process.get("started")
    known = {
        "service.name": "devtrace",
        "service.instance.id": unit,
        "host.name": process.get("host"),
        "process.pid": process.get("pid"),
        "process.parent_pid": process.get("ppid"),
        "process.command_args": process.get("command"),
        "process.working_directory": process.get("cwd"),
        "process.creation.time": started and datetime.datetime.fromtimestamp(started, datetime.timezone.utc).isoformat().replace("+00:00", "Z"),
        "process.runtime.name": "cpython" if process.get("python") else None,
        "process.runtime.version": process.get("python"),
        "devtrace.version": process.get("devtrace"),
        "devtrace.torch.version": process.get("torch"),
        "devtrace.cuda_runtime.version": process.get("cuda_runtime"),
        "devtrace.rehearsal": process.get("rehearsal"),
        "devtrace.rank": process.get("environment", {}).get("RANK"),
    }
    return Resource(without_nothing(known), SCHEMA).merge(OTELResourceDetector().detect())


def scope_of(process: Record) -> InstrumentationScope:
    return InstrumentationScope("devtrace", process.get("devtrace") or "", SCHEMA)


# ---- where it is ---------------------------------------------------------------------------------------------------------------------


def frames_of(record: Record) -> list[Record]:
    return record.get("python") or record.get("native") or []


def code_of(record: Record, stack: bool = False) -> Attributes:
    """code.*: the innermost frame of the project, else the innermost that has a file."""
    frames = frames_of(record)
    placed = [frame for frame in frames if frame.get("file")]
    where = next((frame for frame in placed if frame.get("project")), placed[0] if placed else {})
    lines = [f"{frame.get('function', '?')} ({frame.get('file') or frame.get('module', '?')}:{frame.get('line', 0)})" for frame in frames]
    return without_nothing(
        {
            "code.function.name": where.get("function"),
            "code.file.path": where.get("file"),
            "code.line.number": where.get("line"),
            "code.stacktrace": "\n".join(lines) if stack else None,
        }
    )


# ---- findings ------------------------------------------------------------------------------------------------------------------------


def log_of(finding: Record, process: Record, resource: Resource, unit: str) -> tuple[str, ReadableLogRecord]:
    """Its id, by which who receives it twice can tell (`log.record.uid`), and the record."""
    uid = digest(unit, finding.get("id"), finding.get("fingerprint"))
    cause, note = finding.get("cause", {}), finding.get("severity") == "note"
    attributes = {
        **code_of(finding, stack=True),
        "log.record.uid": uid,
        "thread.id": finding.get("thread"),
        "thread.name": finding.get("thread_name"),
        "devtrace.kind": finding.get("kind"),
        "devtrace.fingerprint": finding.get("fingerprint"),
        "devtrace.operation": finding.get("operation"),
        "devtrace.current_device": finding.get("current_device"),
        "devtrace.devices": [each for each in finding.get("devices", []) if isinstance(each, str)],
        "devtrace.operands": [f"{each.get('name') or '?'} on {each.get('device', '?')}" for each in finding.get("operands", [])],
        "devtrace.cause.category": cause.get("category"),
        "devtrace.cause.confidence": cause.get("confidence"),
        "devtrace.cause.because": cause.get("because"),
        "devtrace.cause.fix": cause.get("fix"),
        "devtrace.cause.file.path": cause.get("file"),
        "devtrace.cause.line.number": cause.get("line"),
    }
    time = nanoseconds(finding.get("time"))
    record = LogRecord(
        timestamp=time,
        observed_timestamp=time,
        severity_number=SeverityNumber.INFO if note else SeverityNumber.ERROR,
        severity_text="INFO" if note else "ERROR",
        body=finding.get("message") or finding.get("kind"),
        attributes=without_nothing(attributes),
        event_name="devtrace.finding",
    )
    return uid, ReadableLogRecord(record, resource, scope_of(process))


def logs_of(records: list[Record], unit: str) -> dict[str, ReadableLogRecord]:
    """By their ids. What somebody accepts (`suppressed`) is told nowhere."""
    resource = resource_of(records[0], unit)
    return dict(log_of(each, records[0], resource, unit) for each in records if each.get("record") == "finding" and not each.get("suppressed"))


# ---- metrics -------------------------------------------------------------------------------------------------------------------------


def counted(records: list[Record]) -> dict[str, tuple[Record, int]]:
    """Occurrences by fingerprint, with a finding of it."""
    findings = {each.get("id"): each for each in records if each.get("record") == "finding" and not each.get("suppressed")}
    counts = {number: int(each.get("count") or 1) for number, each in findings.items()}
    for each in records:
        if each.get("record") == "count" and each.get("id") in counts:
            counts[each["id"]] = max(counts[each["id"]], int(each.get("count") or 0))
    found: dict[str, tuple[Record, int]] = {}
    for number, finding in findings.items():
        name = str(finding.get("fingerprint", ""))
        found[name] = (finding, counts[number] + found.get(name, (finding, 0))[1])
    return found


def metrics_of(records: list[Record], unit: str) -> tuple[str, MetricsData | None]:
    """What the records say in numbers, as of the last of them; and an id, the same as long as they say the same."""
    process = records[0]
    start = nanoseconds(process.get("started"))
    end = max([start, *(nanoseconds(each.get("time")) for each in records if isinstance(each.get("time"), (int, float)))])
    points: dict[tuple[str, str, str, str], list[NumberDataPoint]] = {}

    def add(kind: str, name: str, unit_of_it: str, description: str, value: Any, attributes: Attributes) -> None:
        if isinstance(value, int):
            point = NumberDataPoint(without_nothing(attributes), start, end, value)
            points.setdefault((kind, name, unit_of_it, description), []).append(point)

    for finding, count in counted(records).values():
        where = {"devtrace.fingerprint": finding.get("fingerprint"), "devtrace.kind": finding.get("kind"), **code_of(finding)}
        add("count", "devtrace.findings", "{finding}", "Occurrences of a finding", count, where)
    for site in {each.get("id"): each for each in records if each.get("record") == "traffic"}.values():
        where = {"devtrace.from": site.get("from"), "devtrace.to": site.get("to"), **code_of(site)}
        add("count", "devtrace.traffic.io", "By", "Bytes copied between devices, by call site", site.get("bytes"), where)
        add("count", "devtrace.traffic.copies", "{copy}", "Copies between devices, by call site", site.get("copies"), where)
    names = {f"cuda:{each.get('index')}": each for each in process.get("devices", [])}
    hardware = {name: {"hw.id": each.get("uuid") or name, "hw.name": name, "hw.model": each.get("name"), "hw.type": "gpu"} for name, each in names.items()}
    for name, each in names.items():
        add("amount", "hw.gpu.memory.limit", "By", "Size of the GPU memory", each.get("memory"), hardware[name])
    for each in {each.get("device"): each for each in records if each.get("record") == "memory"}.values():
        where = hardware.get(str(each.get("device")), {"hw.id": each.get("device"), "hw.name": each.get("device"), "hw.type": "gpu"})
        add("level", "devtrace.memory.peak", "By", "Bytes in PyTorch's tensors, at the most", each.get("peak"), where)
        add("level", "devtrace.memory.reserved", "By", "Bytes that PyTorch's allocator held at that moment", each.get("reserved"), where)
        for part in PARTS:
            add("level", "devtrace.memory.peak.part", "By", "Of what that peak consisted", each.get(part), {**where, "devtrace.part": part})
    if not points:
        return "", None

    def data(kind: str, of: list[NumberDataPoint]) -> Any:
        return Gauge(of) if kind == "level" else Sum(of, AggregationTemporality.CUMULATIVE, is_monotonic=kind == "count")

    metrics = [Metric(name, description, unit_of_it, data(kind, of)) for (kind, name, unit_of_it, description), of in points.items()]
    said = [(name, [[each.value, dict(each.attributes or {})] for each in of]) for (_, name, _, _), of in points.items()]
    scopes = [ScopeMetrics(scope_of(process), metrics, SCHEMA)]
    return digest("metrics", end, said), MetricsData([ResourceMetrics(resource_of(process, unit), scopes, SCHEMA)])
