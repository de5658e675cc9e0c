"""What devtrace attach and devtrace top show while they stay: memory by device, traffic, findings."""

import os
import pty
import re
import select
import subprocess
import sys
import time

from conftest import DEVTRACE, TOP, environment
from running import Looking, python_server, running  # noqa: F401
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


def watching(server) -> bool:
    """What is found is in the log before PyTorch raises."""
    count = len(server.findings) + sum(record.get("record") == "count" for record in server.records)
    server.ask("fault")
    return len(server.findings) + sum(record.get("record") == "count" for record in server.records) > count


def test_memory_and_traffic_are_lines_where_there_is_no_terminal(tmp_path, running):  # noqa: F811
    running.append(python_server(tmp_path, SOURCE))
    server = running[0]
    one = Looking(tmp_path, "top", server.pid)
    running.append(one)

    def rows() -> list[str]:
        return [line for line in one.out.splitlines() if line.startswith("memory of cuda:1:")]

    def used() -> list[float]:
        return [float(re.search(r"tensors ([\d.]+) MiB", row)[1]) for row in rows()]

    def rates() -> list[str]:
        return [line for line in one.out.splitlines() if "cuda:1 → cpu" in line and "copying (program.py:" in line]

    # What was there before, then with 32 MiB more, then without.
    one.wait(rows)
    assert 4 <= used()[0] < 8, one.out
    server.ask("more")
    one.wait(lambda: used()[-1] >= 36)
    held = int(server.ask("less")[1])
    one.wait(lambda: used()[-1] < 16)
    assert f"PyTorch holds {held / 2**20:.0f} MiB" in rows()[-1]
    assert float(re.search(r"peak ([\d.]+) MiB", rows()[-1])[1]) >= 36
    one.wait(lambda: any(" 0 B/s" not in row for row in rates()))
    server.ask("fault")
    one.wait(lambda: "refused-op program.py:" in one.out)
    assert one.end() == 0, one.err
    assert "\033" not in one.out
    # It was not there before: nor is it now.
    assert f"process {server.pid} is detached from; 1 finding" in one.err
    assert not watching(server)
    assert server.end() == 0


def test_on_a_terminal_it_is_a_table_that_is_drawn_over(tmp_path, running):  # noqa: F811
    running.append(python_server(tmp_path, SOURCE))
    server = running[0]
    ours, theirs = pty.openpty()
    one = Looking(tmp_path, "attach", server.pid, out=theirs)
    running.append(one)
    os.close(theirs)
    shown = [b""]

    def drawn_over() -> bool:
        while select.select([ours], [], [], 0)[0]:
            try:
                shown[0] += os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
        screens = shown[0].decode(errors="replace").split("\033[")
        return len(screens) > 2 and any("memory of cuda:1: tensors" in each and "cuda:1 → cpu" in each for each in screens)

    one.wait(drawn_over)
    assert one.end() == 0, one.err
    os.close(ours)
    assert server.end() == 0


def test_top_leaves_a_process_that_was_watched_as_it_was(tmp_path, running):  # noqa: F811
    running.append(python_server(tmp_path, SOURCE, preloaded=True))
    server = running[0]
    one = Looking(tmp_path, "top", server.pid)
    running.append(one)

    def written() -> int:
        return sum(record["record"] == "traffic" for record in server.records)

    # Each second while it is looked on, each minute afterwards.
    one.wait(lambda: written() >= 2 and "memory of cuda:1: tensors" in one.out and "cuda:1 → cpu" in one.out)
    assert one.end() == 0 and "is being watched as before" in one.err, one.err
    before = written()
    time.sleep(3)
    assert written() <= before + 1
    assert watching(server)
    assert server.end() == 0


def test_memory_of_a_c_program_is_what_was_seen(tmp_path, running):  # noqa: F811
    running.append(start(tmp_path))
    one = Looking(tmp_path, "top", running[0].pid)
    running.append(one)
    one.wait(lambda: "memory of cuda:0: allocated" in one.out)
    assert "as far as is known" in one.out
    assert one.end() == 0, one.err
    assert running[0].end() == 0


STALLED = """
import os, sys, time
import torch, torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
x = torch.ones(4, device="cuda")
dist.all_reduce(x)
if rank == 1:
    print("ready", os.getpid(), flush=True)
    while not os.path.exists("evaluated"): time.sleep(0.05)
dist.all_reduce(x)  # WAITS
x.tolist()
os._exit(0)
"""


def test_top_says_which_rank_has_not_come(tmp_path):
    (tmp_path / "train.py").write_text(STALLED)
    env = environment("html=0:text=0", {"RANKS_END_AFTER": "60"})
    with open(tmp_path / "err.txt", "w") as err, subprocess.Popen(
        [DEVTRACE, "rehearse", "--", sys.executable, TOP / "tests/helpers/forked_torchrun.py", "2", "train.py"],
            cwd=tmp_path, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True) as job:
        try:
            pid = job.stdout.readline().split()[1]
            done = subprocess.run([DEVTRACE, "top", "--duration", "3s", pid], capture_output=True, text=True, env=env, timeout=60)
        finally:
            job.kill()
    rows = [line for line in done.stdout.splitlines() if "rank" in line]
    assert len(rows) == 2, done.stdout + done.stderr
    waiting, missing = rows
    assert waiting == "group of 2: rank 0 waits in dist.all_reduce(x)  # WAITS (train.py:13), the collective 2", done.stdout + done.stderr
    assert missing.startswith(f"  rank 1, process {pid}, has not come") and missing.endswith("its last was dist.all_reduce(x) (train.py:9)"), missing
