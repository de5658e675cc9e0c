"""pytest --devtrace: a test that mixes devices fails, with devtrace's report in its output.

The library has to be in the process before PyTorch is. Without it, `pytest --devtrace` starts itself again under `devtrace run`, or with
--devtrace-gpus N under `devtrace rehearse --gpus N`, which needs no GPU. Workers of pytest-xdist inherit it.

A test that mixes devices on purpose is marked: @pytest.mark.devtrace(allow="why").
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest


def pytest_addoption(parser):
    group = parser.getgroup("devtrace", "findings of devtrace")
    group.addoption("--devtrace", action="store_true", help="fail a test in which devtrace made a finding")
    group.addoption("--devtrace-gpus", type=int, metavar="N", help="with --devtrace: run on N simulated devices")
    group.addoption("--devtrace-suppressions", metavar="FILE", help="with --devtrace: findings that fail no test")
    group.addoption("--devtrace-logs", metavar="FOLDER", help="with --devtrace: keep the logs there, for devtrace check")


def pytest_configure(config):
    config.addinivalue_line("markers", "devtrace(allow): why this test may mix devices")
    if config.getoption("devtrace"):
        config.pluginmanager.register(Watch(library(), command()), "devtrace-watch")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    if not config.getoption("devtrace") or library() is not None or config.option.help:
        return None
    return restart(config)


def library():
    """libdevtrace.so, when it is in this process."""
    process = ctypes.CDLL(None)
    try:
        process.devtrace_fault_count.restype = ctypes.c_uint64
        process.devtrace_occurrences.restype = ctypes.c_uint64
        process.devtrace_occurrences.argtypes = [ctypes.c_uint64]
        process.devtrace_log_path.restype = ctypes.c_char_p
    except AttributeError:
        return None
    return process


def command():
    """The devtrace command: $DEVTRACE, beside this file's installation (PREFIX/lib/devtrace/python, a wheel's environment), or on PATH."""
    here = Path(__file__).resolve().parent
    for candidate in (os.environ.get("DEVTRACE"), here.parents[2] / "bin" / "devtrace", here.parents[1] / "build" / "devtrace",
                      Path(sysconfig.get_path("data")) / "bin" / "devtrace", shutil.which("devtrace")):
        if candidate and os.access(candidate, os.X_OK):
            return str(candidate)
    raise pytest.UsageError("--devtrace: there is no devtrace command on PATH; say where it is in DEVTRACE")


def restart(config):
    """The same pytest under devtrace; returns its exit code."""
    gpus, logs = config.option.devtrace_gpus, config.option.devtrace_logs
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()  # else the new pytest would write where this one puts its output away
    with tempfile.TemporaryDirectory(prefix="devtrace-pytest-") as folder:
        words = [command(), *(["rehearse", "--gpus", str(gpus)] if gpus else ["run"]), "--no-html", "--option", "max_findings=0"]
        if config.option.devtrace_suppressions:
            words += ["--suppressions", config.option.devtrace_suppressions]
        words += ["--log-path", os.path.join(os.path.abspath(logs or folder), "devtrace-%h-%p.jsonl")]
        words += ["--", sys.executable, "-m", "pytest", *map(str, config.invocation_params.args)]
        # Ctrl-C goes to both; the new pytest ends by it, and then this one.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return subprocess.run(words, cwd=config.invocation_params.dir, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)).returncode
        finally:
            signal.signal(signal.SIGINT, before)


class Watch:
    def __init__(self, process, devtrace):
        self.process = process
        self.devtrace = devtrace
        self.records = {}  # the log's findings by id
        self.counts = {}  # their occurrences before the phase that runs
        self.read = 0
        self.path = None
        self.first = b""  # its first line
        self.lost = False  # a test deleted the log: findings may have no record

    def log_path(self):
        return self.process.devtrace_log_path().decode()

    def refresh(self):
        """Reads what the log has grown by."""
        path = self.log_path()
        if not path:
            return
        if path != self.path:
            self.path, self.first, self.read, self.records = path, b"", 0, {}
        try:
            log = open(path, "rb")
        except OSError:
            self.lost, self.first, self.read = True, b"", 0
            return
        with log:
            if log.read(len(self.first)) != self.first:  # made anew, by the first finding after it was deleted
                self.lost, self.first, self.read = True, b"", 0
            log.seek(self.read)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self.read += len(line)
                self.first = self.first or line
                record = json.loads(line)
                if record.get("record") == "process":
                    self.records[0] = line
                elif record.get("record") == "finding" and record.get("severity") != "note" and "suppressed" not in record:
                    self.records[record["id"]] = line

    def made_since(self, before):
        """Ids of the findings that occurred since `before` = (faults, counts by id); None for one whose record is lost."""
        faults, counts = before
        if self.process.devtrace_fault_count() == faults:
            return []
        self.refresh()
        # With dedupe=0 there are no counts, and every occurrence has a line of its own.
        made = [id for id in self.records if id and (id not in counts or self.process.devtrace_occurrences(id) > counts[id])]
        return made or [None] * self.lost

    def now(self):
        self.refresh()
        return self.process.devtrace_fault_count(), {id: self.process.devtrace_occurrences(id) for id in self.records if id}

    def report(self, ids):
        """The text report, as devtrace report writes it."""
        if ids == [None]:
            return f"Its record went with the log, which a test deleted: {self.path}\n"
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "devtrace-test.jsonl"
            log.write_bytes(b"".join([self.records.get(0, b'{"record":"process","schema":1}\n'), *(self.records[id] for id in ids), b'{"record":"end"}\n']))
            plain = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "DEVTRACE_OPTIONS")}
            done = subprocess.run([self.devtrace, "report", "--format", "text", str(log)], env=plain, capture_output=True, text=True, errors="replace")
        return done.stdout or f"devtrace report failed: {done.stderr}"

    def watch(self, item, phase):
        before = self.now()
        error = None
        try:
            return (yield)
        except BaseException as raised:
            error = raised
            raise
        finally:
            made = self.made_since(before)
            mark = item.get_closest_marker("devtrace")
            allowed = mark is not None and (mark.args or mark.kwargs.get("allow"))
            if made and not allowed:
                text = self.report(made)
                # A test that failed by itself keeps its own traceback; the report stands below it.
                if error is None or isinstance(error, pytest.skip.Exception):
                    pytest.fail(f"devtrace: {len(made)} finding{'s' if len(made) > 1 else ''} in this test\n\n{text}", pytrace=False)
                item.add_report_section(phase, "devtrace", text)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item):
        return (yield from self.watch(item, "setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        return (yield from self.watch(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item):
        return (yield from self.watch(item, "teardown"))
