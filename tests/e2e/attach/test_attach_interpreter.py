"""CPython 3.14 and later are asked by their own interface for remote debuggers (PEP 768), where ptrace is not allowed."""

import os
import subprocess

import pytest
from conftest import BUILD, DEVTRACE, environment
from forbidden_calls import PTRACE, forbid
from interpreters import READABLE, READABLE_FREE_THREADED
from running import Running, command, running, wait_for  # noqa: F401

RUNTIME = BUILD / "simulate" / "libcudart.so.13"
CYCLES = int(os.environ.get("DEVTRACE_ATTACH_TIMES", 4))
INTERPRETERS = [
    pytest.param(path, id=f"3.{minor}{free}")
    for found, free in ((READABLE, ""), (READABLE_FREE_THREADED, "t"))
    for minor, path in found
    if minor >= 14
] or [pytest.param(None, id="3.14", marks=pytest.mark.skip(reason="no CPython 3.14 or later: scripts/get/pythons"))]

# The main thread comes back to Python's instructions each hundredth of a second; `blocked`, it never does.
SOURCE = f"""
import ctypes, os, select, sys, threading

runtime = ctypes.CDLL("{RUNTIME}")
host = ctypes.create_string_buffer(4096)
own = ctypes.c_void_p()
runtime.cudaMalloc(ctypes.byref(own), 4096)


def wrong():
    late = ctypes.CDLL("{RUNTIME}")
    return late.cudaMemcpy(own, host, 4096, 2)


def serve(line):
    if line.startswith("modules"):
        print("answer", *sorted(sys.modules), flush=True)
    else:
        print("answer", wrong(), flush=True)
    return not line.startswith("end")


def lines():
    while True:
        if sys.argv[1:] == ["blocked"] or select.select([0], [], [], 0.01)[0]:
            yield sys.stdin.readline()


def forbid(event, arguments):
    if event == "cpython.remote_debugger_script":
        raise RuntimeError(event)


if sys.argv[1:] == ["audited"]:
    sys.addaudithook(forbid)
print("ready", os.getpid(), flush=True)
for line in lines():
    if line.startswith("end"):
        break
    serve(line)
print("ended", flush=True)
"""


def server(folder, interpreter, *arguments, env=None) -> Running:
    (folder / "program.py").write_text(SOURCE)
    return Running(
        [DEVTRACE, "rehearse", "--gpus", 2, "--no-trace", "--", interpreter, "program.py", *arguments], folder, environment(None, env)
    )


@pytest.fixture(autouse=True)
def folder_of_scripts(tmp_path, monkeypatch):
    (tmp_path / "scripts").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scripts"))


def scripts() -> set[str]:
    return set(os.listdir(os.environ["TMPDIR"]))


def complaints(one: Running) -> list[str]:
    return [line for line in one.err.splitlines() if "Traceback" in line or "Exception ignored" in line]


def sleeps(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "S"


def attach_by_ptrace(one: Running) -> None:
    done = command("attach", "--no-wait", one.pid)
    assert done.returncode == 0, done.stderr
    one.ask("wrong")
    assert len(one.findings) == 1


# The filter shows which way it was: without ptrace there is only the interpreter's.
@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_no_thread_is_stopped(tmp_path, running, interpreter):  # noqa: F811
    running.append(server(tmp_path, interpreter))
    one = running[0]
    before, modules = scripts(), one.ask("modules")
    for _ in range(CYCLES):
        done = command("attach", "--no-wait", one.pid, preexec_fn=forbid(PTRACE))
        assert done.returncode == 0 and f"attached to process {one.pid}" in done.stderr, done.stderr
        one.ask("wrong")
        assert len(one.findings) == 1
        done = command("detach", one.pid, preexec_fn=forbid(PTRACE))
        assert done.returncode == 0, done.stderr
        assert len(os.listdir(f"/proc/{one.pid}/task")) == 1, "a thread was left behind"
    assert one.ask("modules") == modules
    assert scripts() <= before
    assert one.end() == 0
    assert complaints(one) == []


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_a_main_thread_that_is_blocked_is_not_waited_for(tmp_path, running, interpreter):  # noqa: F811
    running.append(server(tmp_path, interpreter, "blocked"))
    one = running[0]
    wait_for(lambda: sleeps(one.pid))
    done = command("attach", "--no-wait", one.pid, preexec_fn=forbid(PTRACE))
    assert done.returncode == 4, done.stderr
    assert "libdevtrace.so" not in open(f"/proc/{one.pid}/maps").read()
    # What was asked of it was taken back.
    one.ask("wrong")
    assert "libdevtrace.so" not in open(f"/proc/{one.pid}/maps").read() and one.findings == []
    attach_by_ptrace(one)
    assert command("detach", one.pid).returncode == 0
    assert one.end() == 0
    assert "Exception ignored" not in one.err


@pytest.mark.parametrize("interpreter", INTERPRETERS[:1])
def test_where_it_is_switched_off_ptrace_is_used(tmp_path, running, interpreter):  # noqa: F811
    running.append(server(tmp_path, interpreter, env={"PYTHON_DISABLE_REMOTE_DEBUG": "1"}))
    one = running[0]
    assert command("attach", "--no-wait", one.pid, preexec_fn=forbid(PTRACE)).returncode == 4
    attach_by_ptrace(one)
    assert one.end() == 0


@pytest.mark.parametrize("interpreter", INTERPRETERS[:1])
def test_an_audit_hook_hears_nothing(tmp_path, running, interpreter):  # noqa: F811
    running.append(server(tmp_path, interpreter, "audited"))
    one = running[0]
    attach_by_ptrace(one)
    assert command("detach", one.pid).returncode == 0
    assert one.end() == 0
    assert complaints(one) == []


@pytest.mark.parametrize("interpreter", INTERPRETERS[:1])
def test_a_killed_command_leaves_no_file(tmp_path, running, interpreter):  # noqa: F811
    running.append(server(tmp_path, interpreter, "blocked"))
    one = running[0]
    wait_for(lambda: sleeps(one.pid))
    before = scripts()
    with subprocess.Popen([DEVTRACE, "attach", "--no-wait", str(one.pid)], preexec_fn=forbid(PTRACE)) as attaching:
        wait_for(lambda: scripts() - before)
        attaching.kill()
    one.ask("wrong")  # the main thread comes back to Python
    wait_for(lambda: not scripts() - before)
    assert one.end() == 0
    assert complaints(one) == []
