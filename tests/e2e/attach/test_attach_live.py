"""What devtrace attach and devtrace top show while they stay: memory by device, traffic, findings."""

import os
import pty
import re
import signal
import subprocess
import time

from conftest import DEVTRACE, environment
from running import command, python_server, running, wait_for  # noqa: F401
from test_attach_programs import start

SOURCE = """
import os, sys, threading, torch

weight = torch.ones(1 << 20, device="cuda:1")  # 4 MiB
stop = False


def copying():
    while not stop:
        weight[:256 * 1024].to("cpu")  # COPIES


thread = threading.Thread(target=copying)
thread.start()
print("ready", os.getpid(), flush=True)
more = []
for line in sys.stdin:
    order = line.split()[0]
    if order == "end":
        break
    if order == "more":
        more.append(torch.ones(8 << 20, device="cuda:1"))
    if order == "less":
        more.clear()
    if order == "fault":
        try:
            weight + torch.ones(1 << 20, device="cuda:0")
        except RuntimeError:
            pass
    print("answer", torch.cuda.memory_allocated(1), torch.cuda.memory_reserved(1), flush=True)
stop = True
thread.join()
print("ended", flush=True)
"""


def looking(server, subcommand, out=subprocess.PIPE):
    return subprocess.Popen(
        [str(DEVTRACE), subcommand, str(server.pid)], env=environment(None), stdout=out, stderr=subprocess.PIPE, text=True
    )


def watching(server) -> bool:
    count = len(server.findings) + sum(record.get("record") == "count" for record in server.records)
    server.ask("fault")
    time.sleep(0.2)
    return len(server.findings) + sum(record.get("record") == "count" for record in server.records) > count


def test_memory_and_traffic_are_lines_where_there_is_no_terminal(tmp_path, running):  # noqa: F811
    running.append(python_server(tmp_path, SOURCE))
    server = running[0]
    one = looking(server, "top")
    wait_for(lambda: any(record["record"] == "traffic" for record in server.records))
    time.sleep(2)
    server.ask("more")
    time.sleep(2)
    held = int(server.ask("less")[1])
    server.ask("fault")
    time.sleep(2)
    one.send_signal(signal.SIGINT)
    out, err = one.communicate(timeout=60)
    assert one.returncode == 0, err
    rows = [line for line in out.splitlines() if line.startswith("memory of cuda:1:")]
    # What was there before, then with 32 MiB more, then without.
    used = [float(re.search(r"tensors ([\d.]+) MiB", row)[1]) for row in rows]
    assert 4 <= used[0] < 8 and max(used) >= 36 and used[-1] < 16, out
    assert f"PyTorch holds {held / 2**20:.0f} MiB" in rows[-1]
    assert any(float(re.search(r"peak ([\d.]+) MiB", row)[1]) >= 36 for row in rows[-1:])
    rates = [line for line in out.splitlines() if "cuda:1 → cpu" in line and "copying (program.py:" in line]
    assert any(" 0 B/s" not in row for row in rates), out
    assert "refused-op program.py:" in out
    assert "\033" not in out
    # It was not there before: nor is it now.
    assert f"process {server.pid} is detached from; 1 finding" in err
    assert not watching(server)
    assert server.end() == 0


def test_on_a_terminal_it_is_a_table_that_is_drawn_over(tmp_path, running):  # noqa: F811
    running.append(python_server(tmp_path, SOURCE))
    server = running[0]
    ours, theirs = pty.openpty()
    one = looking(server, "attach", theirs)
    os.close(theirs)
    wait_for(lambda: any(record["record"] == "traffic" for record in server.records))
    time.sleep(3)
    one.send_signal(signal.SIGINT)
    err = one.communicate(timeout=60)[1]
    out = b""
    try:
        while more := os.read(ours, 4096):
            out += more
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert one.returncode == 0, err
    screens = out.decode().split("\033[")
    assert len(screens) > 2 and any("memory of cuda:1: tensors" in screen and "cuda:1 → cpu" in screen for screen in screens), out
    assert server.end() == 0


def test_top_leaves_a_process_that_was_watched_as_it_was(tmp_path, running):  # noqa: F811
    running.append(python_server(tmp_path, SOURCE, preloaded=True))
    server = running[0]
    done = command("top", "--duration", "4s", server.pid)
    assert done.returncode == 0 and "is being watched as before" in done.stderr, done.stderr
    assert "memory of cuda:1: tensors" in done.stdout and "cuda:1 → cpu" in done.stdout
    written = sum(record["record"] == "traffic" for record in server.records)
    assert written >= 2, "each second while it was looked on"
    time.sleep(3)
    assert sum(record["record"] == "traffic" for record in server.records) <= written + 1, "and each minute afterwards"
    assert watching(server)
    assert server.end() == 0


def test_memory_of_a_c_program_is_what_was_seen(tmp_path, running):  # noqa: F811
    running.append(start(tmp_path))
    done = command("top", "--duration", "3s", running[0].pid)
    assert done.returncode == 0, done.stderr
    assert "memory of cuda:0: allocated" in done.stdout and "as far as is known" in done.stdout, done.stdout
    assert running[0].end() == 0
