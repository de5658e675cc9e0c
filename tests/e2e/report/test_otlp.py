"""devtrace report --otlp: what a collector gets, over HTTP and as protobuf; and what it gets later, when it was away."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from checked_logs import DATA, end, finding, lines, process
from conftest import DEVTRACE, environment
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse
from opentelemetry.semconv._incubating.attributes import hw_attributes, process_attributes, thread_attributes
from opentelemetry.semconv._incubating.metrics import hw_metrics
from opentelemetry.semconv.attributes import code_attributes
from secret_log import LOG as SECRET_LOG
from secret_log import assert_nothing_is_told

SIGNALS = {"/v1/logs": (ExportLogsServiceRequest, ExportLogsServiceResponse), "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse)}


class Collector(ThreadingHTTPServer):
    """Keeps what it is sent. `answers`: status codes for the next requests, before all is well."""

    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Receiver)
        self.answers, self.requests, self.bodies = [], [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def logs(self):
        """(attributes of the resource, the record) of each."""
        return [(attributes(each.resource), record) for request in self.requests if isinstance(request, ExportLogsServiceRequest)
                for each in request.resource_logs for scope in each.scope_logs for record in scope.log_records]

    def points(self):
        """(name, unit, attributes, value, of a monotonic sum) of each."""
        found = []
        for request in self.requests:
            if isinstance(request, ExportMetricsServiceRequest):
                for metric in (metric for each in request.resource_metrics for scope in each.scope_metrics for metric in scope.metrics):
                    kind = metric.WhichOneof("data")
                    found += [(metric.name, metric.unit, attributes(point), point.as_int, kind == "sum" and metric.sum.is_monotonic) for point in getattr(metric, kind).data_points]
        return found


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        code = self.server.answers.pop(0) if self.server.answers else 200
        request, response = SIGNALS[self.path]
        if code == 200:
            assert self.headers["Content-Type"] == "application/x-protobuf"
            self.server.bodies.append(body)
            self.server.requests.append(request.FromString(body))
        self.send_response(code)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()
        self.wfile.write(response().SerializeToString())

    def log_message(self, *words):
        pass


def value_of(value):
    kind = value.WhichOneof("value")
    return [value_of(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def attributes(of):
    return {each.key: value_of(each.value) for each in of.attributes}


@pytest.fixture
def collector():
    server = Collector()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def send(tmp_path):
    """send(address, logs…): devtrace report --otlp with a spool of the test's own."""

    def run(address, *words, spool=tmp_path / "spool", **variables):
        env = environment(None, {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", "HOME": str(tmp_path), "no_proxy": "*", **variables})
        command = [DEVTRACE, "report", "--otlp", address, *(["--otlp-spool", spool] if spool else []), *words]
        return subprocess.run(list(map(str, command)), cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)

    (tmp_path / "logs").mkdir()
    return run


def traffic(pid=1, number=1, bytes=100, **fields):
    frames = [{"file": "/x/step.py", "line": 3, "function": "step", "project": True}]
    return {"record": "traffic", "pid": pid, "id": number, "from": "cuda:0", "to": "cuda:1", "bytes": bytes, "copies": 2, "python": frames, **fields}


MEMORY = {"record": "memory", "pid": 1, "time": 1763690402.0, "device": "cuda:1", "peak": 1000, "reserved": 2000, "weights": 600, "gradients": 0, "optimizer": 0, "caches": 0, "activations": 400, "other": 0}


def write(tmp_path, *records, name="devtrace-1.jsonl"):
    (tmp_path / "logs" / name).write_text(lines(*records))


def waiting(tmp_path):
    return list((tmp_path / "spool/waiting").iterdir())


def test_a_finding_is_a_log_record(send, collector, tmp_path):
    """By the names of the semantic conventions, where they have one."""
    write(tmp_path, process(), finding(), finding(number=2, severity="note", operation="aten::noted"), finding(number=3, suppressed={"file": "a", "line": 1}), end())
    done = send(collector.address, "logs")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (resource, fault), (_, note) = collector.logs()
    assert {"host.name": "gpu-07", process_attributes.PROCESS_PID: 1, process_attributes.PROCESS_PARENT_PID: 4200, process_attributes.PROCESS_COMMAND_ARGS: ["python", "private_gpt.py"],
            process_attributes.PROCESS_WORKING_DIRECTORY: "/home/ada/private-gpt", process_attributes.PROCESS_RUNTIME_NAME: "cpython", process_attributes.PROCESS_RUNTIME_VERSION: "3.11.9",
            process_attributes.PROCESS_CREATION_TIME: "2025-11-21T02:00:00.250000Z", "service.name": "devtrace", "devtrace.torch.version": "2.11.0+cu130"}.items() <= resource.items()
    assert (fault.severity_text, fault.event_name, note.severity_text) == ("ERROR", "devtrace.finding", "INFO")
    assert fault.body.string_value.startswith("Expected all tensors to be on the same device")
    told = attributes(fault)
    assert told[code_attributes.CODE_FILE_PATH].endswith("/embedding_component.py") and told[code_attributes.CODE_LINE_NUMBER] == 41
    assert told[code_attributes.CODE_FUNCTION_NAME] == "EmbeddingComponent.embed" and "embedding_component.py:41)" in told[code_attributes.CODE_STACKTRACE]
    assert told[thread_attributes.THREAD_ID] > 0 and re.fullmatch("[0-9a-f]{16}", told["devtrace.fingerprint"])
    assert told["devtrace.kind"] == "refused-op" and told["devtrace.devices"] == ["cuda:1", "cuda:0"] and "input_ids on cuda:0" in told["devtrace.operands"]
    assert told["devtrace.cause.line.number"] == 40 and ".to(" in told["devtrace.cause.fix"]
    assert told["log.record.uid"] != attributes(note)["log.record.uid"] and fault.time_unix_nano > 1763690400 * 10**9


def test_traffic_and_memory_are_metrics(send, collector, tmp_path):
    """Of the records of one call site the last holds; so it does for a finding's count."""
    write(tmp_path, process(), finding(), traffic(), traffic(bytes=500), {"record": "count", "pid": 1, "id": 1, "count": 7}, MEMORY, end())
    assert send(collector.address, "logs").returncode == 0
    points = {name: (unit, told, value, monotonic) for name, unit, told, value, monotonic in collector.points() if name != "devtrace.memory.peak.part"}
    unit, told, value, monotonic = points["devtrace.traffic.io"]
    assert (unit, value, monotonic) == ("By", 500, True)
    assert told == {"devtrace.from": "cuda:0", "devtrace.to": "cuda:1", "code.function.name": "step", "code.file.path": "/x/step.py", "code.line.number": 3}
    assert points["devtrace.traffic.copies"][2] == 2 and points["devtrace.findings"][2] == 7
    assert points["devtrace.memory.peak"][2] == 1000 and points["devtrace.memory.reserved"][2] == 2000
    assert points["devtrace.memory.peak"][1] == {hw_attributes.HW_ID: "GPU-4f1c0e2a-0001-4c11-8a51-3d8f6a1e0001", hw_attributes.HW_NAME: "cuda:1", hw_attributes.HW_MODEL: "NVIDIA H100 80GB HBM3",
                                                 hw_attributes.HW_TYPE: hw_attributes.HwTypeValues.GPU.value}
    parts = {told["devtrace.part"]: value for name, _, told, value, _ in collector.points() if name == "devtrace.memory.peak.part"}
    assert parts["weights"] == 600 and sum(parts.values()) == 1000
    write(tmp_path, {**process(), "devices": [{"index": 0, "name": "H100", "memory": 80}]}, end(), name="devtrace-2.jsonl")
    assert send(collector.address, "logs").returncode == 0
    assert hw_metrics.HW_GPU_MEMORY_LIMIT in {name for name, *_ in collector.points()}


def test_what_was_sent_is_not_sent_again(send, collector, tmp_path):
    """A log that has grown since sends what is new; another endpoint is sent all."""
    write(tmp_path, process(), finding(), traffic())
    send(collector.address, "logs")
    first = (len(collector.logs()), len(collector.points()))
    send(collector.address, "logs", "logs/devtrace-1.jsonl")
    assert (len(collector.logs()), len(collector.points())) == first == (1, 3)
    write(tmp_path, process(), finding(), finding(number=2, operation="aten::later"), traffic(bytes=900), end())
    send(collector.address, "logs")
    assert len(collector.logs()) == 2 and collector.points()[-2][3] == 900
    other = Collector()
    try:
        send(other.address, "logs")
        assert len(other.logs()) == 2
    finally:
        other.shutdown()
        other.server_close()


def test_an_endpoint_that_is_away_fails_nothing_and_gets_it_later(send, tmp_path):
    write(tmp_path, process(), finding(), traffic(), end())
    write(tmp_path, process(pid=2), finding(pid=2), end(pid=2), name="devtrace-2.jsonl")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.monotonic()
    done = send(f"http://127.0.0.1:{port}", "logs")
    assert done.returncode == 0 and time.monotonic() - began < 20
    assert re.fullmatch(rf"devtrace report: http://127.0.0.1:{port}: .+; the records of 2 processes are kept in {tmp_path}/spool, and the next call sends them\n", done.stderr), done.stderr
    assert len(waiting(tmp_path)) == 2
    (tmp_path / "logs/devtrace-1.jsonl").unlink()
    write(tmp_path, process(pid=3), finding(pid=3), end(pid=3), name="devtrace-3.jsonl")
    (tmp_path / "logs/devtrace-2.jsonl").unlink()
    collector = Collector(port)
    try:
        assert send(collector.address, "logs").returncode == 0
        assert sorted(resource["process.pid"] for resource, _ in collector.logs()) == [1, 2, 3] and waiting(tmp_path) == []
    finally:
        collector.shutdown()
        collector.server_close()


def test_one_that_never_answers_does_not_block(send, tmp_path):
    write(tmp_path, process(), finding(), end())
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        done = send(f"http://127.0.0.1:{silent.getsockname()[1]}", "logs")
    assert done.returncode == 0 and time.monotonic() - began < 25 and "are kept in" in done.stderr and len(waiting(tmp_path)) == 1


def test_what_arrived_before_it_went_away_is_not_sent_again(send, collector, tmp_path):
    """300 findings are two requests; the second one is refused."""
    write(tmp_path, process(), *(finding(number=number, operation=f"aten::op{number}") for number in range(300)), end())
    collector.answers = [200, 400]
    assert "are kept in" in send(collector.address, "logs").stderr and len(collector.logs()) == 256
    assert send(collector.address, "logs").stderr == "" and len(collector.logs()) == 300
    assert len({attributes(record)["log.record.uid"] for _, record in collector.logs()}) == 300


def test_what_waits_is_bounded(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DEVTRACE.parent.parent / "python"))
    from devtrace.otlp import spool

    kept = spool.Spool(tmp_path / "spool")
    monkeypatch.setattr(spool, "MOST_BYTES", 3000)
    files = []
    for pid in range(4):
        files.append(kept.add("http://x", [{"record": "process", "pid": pid, "started": 1.0, "text": "x" * 1000}]))
        os.utime(files[-1], (time.time() - 100 + pid,) * 2)
    old = kept.add("http://x", [{"record": "process", "pid": 9, "started": 1.0}])
    os.utime(old, (1, 1))
    said = kept.bound()
    assert kept.files() == files[2:] and len(said) == 3 and all("left out and never sent" in each for each in said)
    monkeypatch.setattr(spool, "MOST_SENT", 1)
    for file in files:
        kept.mark(file, ["a"])
    kept.bound()
    assert sum(kept.sent(file) == {"a"} for file in files) == 1


def test_without_the_sdk_it_is_said_how_to_get_it(send, collector, tmp_path):
    """The interpreter is the active environment's; what it could not send it has kept."""
    write(tmp_path, process(), finding(), end())
    (tmp_path / "bare/bin").mkdir(parents=True)
    (tmp_path / "bare/bin/python").write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -S "$@"\n')
    (tmp_path / "bare/bin/python").chmod(0o755)
    done = send(collector.address, "logs", VIRTUAL_ENV=str(tmp_path / "bare"))
    assert done.returncode == 2 and "pip install 'devtrace[otlp]'" in done.stderr and len(waiting(tmp_path)) == 1, done.stderr
    done = send(collector.address, "logs", VIRTUAL_ENV=str(tmp_path / "none"))
    assert done.returncode == 2 and "needs a Python with pip install 'devtrace[otlp]'" in done.stderr
    assert send("collector:4318", "logs").returncode == 2
    assert send(collector.address, "logs").returncode == 0 and len(collector.logs()) == 1


def test_a_report_besides_is_asked_for(send, collector, tmp_path):
    write(tmp_path, process(), finding(), end())
    done = send(collector.address, "--format", "text", "logs", spool=None)
    assert done.returncode == 0 and "SUMMARY: devtrace: refused-op" in done.stdout and len(collector.logs()) == 1
    state = tmp_path / ".local/state/devtrace/otlp"
    assert len(list((state / "sent").iterdir())) == 1 and state.stat().st_mode & 0o077 == 0
    done = send(collector.address, "logs", "no-such-log")
    assert done.returncode == 2 and "no-such-log" in done.stderr


def test_redacted_records_tell_nothing_of_the_program(send, collector, tmp_path):
    """Neither what is sent nor what waits on the disk."""
    write(tmp_path, SECRET_LOG.read_text().rstrip("\n"), name="acme.jsonl")
    assert send(collector.address, "logs/acme.jsonl").returncode == 0 and any(b"acme" in body for body in collector.bodies)
    collector.bodies.clear()
    collector.answers = [400]
    assert send(collector.address, "--redact", "logs/acme.jsonl").returncode == 0
    (kept,) = waiting(tmp_path)
    assert_nothing_is_told(kept.read_text())
    assert send(collector.address, "--redact", "logs/acme.jsonl").returncode == 0 and len(collector.bodies) == 2
    for body in collector.bodies:
        assert_nothing_is_told(body)
    (resource, fault) = collector.logs()[-1]
    assert resource["host.name"] == "machine1" and attributes(fault)["devtrace.fingerprint"] == "00000000000000aa"


def test_a_log_that_holds_anything_keeps_nobody_waiting(send, collector, tmp_path):
    """Fields of other types than they have; the others are sent, and nothing of it waits for ever."""
    write(tmp_path, process(), finding(cause=[1], operands={"a": 1}, python=[3]), traffic(bytes="many"), end())
    shutil.copy(DATA / "hostile.jsonl", tmp_path / "logs/devtrace-2.jsonl")
    write(tmp_path, process(pid=3), finding(pid=3), end(pid=3), name="devtrace-3.jsonl")
    done = send(collector.address, "logs")
    assert done.returncode in (0, 2) and "Traceback" not in done.stderr and waiting(tmp_path) == [], done.stderr
    assert 3 in {resource["process.pid"] for resource, _ in collector.logs()}


def test_the_environment_names_the_service(send, collector, tmp_path):
    write(tmp_path, process(), finding(), end())
    assert send(collector.address, "logs", OTEL_SERVICE_NAME="train", OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=nightly").returncode == 0
    ((resource, _),) = collector.logs()
    assert resource["service.name"] == "train" and resource["deployment.environment.name"] == "nightly"


def test_an_exec_begins_anew(send, collector, tmp_path):
    """Its ids do, too."""
    write(tmp_path, process(), finding(), process(), finding(operation="aten::after_exec"), end())
    assert send(collector.address, "logs").returncode == 0
    assert sorted(attributes(record)["devtrace.operation"] for _, record in collector.logs()) == ["aten::after_exec", "aten::index_select"]
    assert send(collector.address, "logs").returncode == 0 and len(collector.logs()) == 2


def test_records_as_the_sdk_has_them(tmp_path, monkeypatch):
    """Through the SDK's own in-memory exporter: what is made of a record is the SDK's own kind of record."""
    monkeypatch.syspath_prepend(str(DEVTRACE.parent.parent / "python"))
    from devtrace.otlp import convert
    from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter

    exporter = InMemoryLogRecordExporter()
    exporter.export(list(convert.logs_of([process(), finding()], "unit").values()))
    (log,) = exporter.get_finished_logs()
    assert json.loads(log.to_json())["attributes"]["devtrace.kind"] == "refused-op"
