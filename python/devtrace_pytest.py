"""pytest --devtrace: a test that mixes devices fails, with devtrace's report in its output.

The library has to be in the process before PyTorch is. Without it, `pytest --devtrace` starts itself again under `devtrace run`, or with
--devtrace-gpus N under `devtrace rehearse --gpus N`, which needs no GPU. Workers of pytest-xdist inherit it.

A test that mixes devices on purpose is marked: @pytest.mark.devtrace(allow="why"); one that needs two: @pytest.mark.gpus(2).
"""

import os
import signal
import subprocess
import sys
import tempfile

import pytest
from devtrace import DevtraceError, command
from devtrace.library import loaded
from devtrace.rendering import rendered
from devtrace.session import Mark, log_path


def pytest_addoption(parser):
    group = parser.getgroup("devtrace", "findings of devtrace")
    group.addoption("--devtrace", action="store_true", help="fail a test in which devtrace made a finding")
    group.addoption("--devtrace-gpus", type=int, metavar="N", help="with --devtrace: run on N simulated devices")
    group.addoption("--devtrace-suppressions", metavar="FILE", help="with --devtrace: findings that fail no test")
    group.addoption("--devtrace-logs", metavar="FOLDER", help="with --devtrace: keep the logs there, for devtrace check")


def pytest_configure(config):
    config.addinivalue_line("markers", "devtrace(allow): why this test may mix devices")
    config.addinivalue_line("markers", "gpus(count): how many CUDA devices this test needs; it is skipped where there are fewer")
    if config.getoption("devtrace"):
        config.pluginmanager.register(Watch(), "devtrace-watch")


def pytest_runtest_setup(item):
    mark = item.get_closest_marker("gpus")
    if mark is None:
        return
    import torch

    wanted, there = mark.args[0] if mark.args else mark.kwargs["count"], torch.cuda.device_count()
    if there < wanted:
        have = f"there {'is' if there == 1 else 'are'} {there}"
        pytest.skip(f"it needs {wanted} CUDA devices, and {have}: pytest --devtrace --devtrace-gpus {wanted} simulates them")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    if not config.getoption("devtrace") or loaded() is not None or config.option.help:
        return None
    return restart(config)


def restart(config):
    """The same pytest under devtrace; returns its exit code."""
    gpus, logs = config.option.devtrace_gpus, config.option.devtrace_logs
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()  # else the new pytest would write where this one puts its output away
    try:
        devtrace = command()
    except DevtraceError as error:
        raise pytest.UsageError(f"--devtrace: {error}") from None
    with tempfile.TemporaryDirectory(prefix="devtrace-pytest-") as folder:
        words = [devtrace, *(["rehearse", "--gpus", str(gpus)] if gpus else ["run"]), "--no-html", "--option", "max_findings=0"]
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


def report(mark):
    """What occurred since, as the text of `devtrace report`; empty where nothing did."""
    faults = mark.faults()
    if faults:
        return rendered("text", faults[0].lines[0], [finding.lines[1] for finding in faults]) + "\n"
    return f"Its record went with the log, which a test deleted: {log_path()}\n" if mark.lost() else ""


class Watch:
    def watch(self, item, phase):
        before = Mark()
        error = None
        try:
            return (yield)
        except BaseException as raised:
            error = raised
            raise
        finally:
            text = report(before)
            mark = item.get_closest_marker("devtrace")
            allowed = mark is not None and (mark.args or mark.kwargs.get("allow"))
            if text and not allowed:
                count = max(1, len(before.faults()))
                # A test that failed by itself keeps its own traceback; the report stands below it.
                if error is None or isinstance(error, pytest.skip.Exception):
                    pytest.fail(f"devtrace: {count} finding{'s' if count > 1 else ''} in this test\n\n{text}", pytrace=False)
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
