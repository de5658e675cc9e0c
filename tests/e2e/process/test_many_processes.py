"""One log a process, whoever starts it, and all of them read as one."""

import json
import re
import socket
import subprocess
import sys

from conftest import DEVTRACE, environment, execute, start

# Every rank refuses the same line; the first one has a child that does so, too.
RANKS = """
    import os, subprocess, sys
    import torch

    def step(device):
        return torch.ones(3, device=device) + torch.ones(3, device="cuda:3")

    if len(sys.argv) > 1:
        try:
            step("cuda:0")
        except RuntimeError:
            sys.exit(0)
    import torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    try:
        step(f"cuda:{rank}")
    except RuntimeError as error:
        os.write(1, b"rank %d refused\\n" % rank)
    if rank == 0:
        subprocess.run([sys.executable, __file__, "child"], check=True)
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == dist.get_world_size()
    dist.destroy_process_group()
"""


def test_torchrun_leaves_one_log_a_process_and_they_are_one_finding(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("\n".join(line[4:] for line in RANKS.splitlines()))
    log_path = "logs/rank-%q{RANK}-%h-%p.jsonl"
    command = [DEVTRACE, "rehearse", "--gpus", 4, "--log-path", log_path, "--", sys.executable, "-m", "torch.distributed.run",
               "--nproc-per-node", 3, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", program]
    outcome = execute(command, tmp_path, environment(None, {"OMP_NUM_THREADS": "1"}), 240)
    assert outcome.code == 0, outcome.err[-3000:]
    assert sorted(re.findall(r"rank \d refused", outcome.out)) == ["rank 0 refused", "rank 1 refused", "rank 2 refused"]
    logs = sorted((tmp_path / "logs").glob("*.jsonl"))
    host = re.escape(socket.gethostname())
    found = {}
    for log in logs:
        records = [json.loads(line) for line in log.read_text().splitlines()]
        assert records[0]["record"] == "process" and records[-1]["record"] == "end", log
        rank, pid = re.fullmatch(rf"rank-(\d*)-{host}-(\d+)", log.stem).groups()
        assert int(pid) == records[0]["pid"]
        findings = [record for record in records if record["record"] == "finding"]
        if findings:
            assert records[0]["environment"]["RANK"] == rank and "boot" in records[0]
            found.setdefault(rank, []).append(findings)
    assert {rank: len(each) for rank, each in found.items()} == {"0": 2, "1": 1, "2": 1}, "the first rank's child as well"

    done = subprocess.run([DEVTRACE, "check", "--expect-processes", "4", "logs"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "1 new, 0 known, 0 gone: 4 logs of 4 processes on 1 host" in done.stdout
    assert re.search(r"seen by 4 processes, 4 times: rank 0 \(\S+, pid \d+\), rank 0 \(\S+, pid \d+\), rank 1 \(\S+, pid \d+\), rank 2", done.stdout)
    assert re.search(r"first in rank \d \(\S+, pid \d+\), [\d.]+ \S+ before rank \d", done.stdout)


LEFT = """
    import json, os
    with open(f"devtrace-{{os.getpid()}}.jsonl", "w") as log:
        print(json.dumps({process}), file=log)
"""
BOTH = """
    import torch
    try:
        torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")
    except RuntimeError:
        print("refused")
"""


def test_a_log_of_another_machine_with_our_pid_is_left_alone(tmp_path):
    """Nodes that share a disk: pids are given twice. The program writes the other machine's log of its own pid first."""
    theirs = {"record": "process", "schema": 1, "host": "another", "start_ticks": 1, "started": 4e9, "boot": "other"}
    outcome = start(LEFT.format(process=theirs) + BOTH, tmp_path)
    assert outcome.out == "refused\n", outcome.err
    foreign, ours = sorted(outcome.logs, key=lambda log: len(log.name))
    assert json.loads(foreign.read_text()) == theirs
    assert ours.name == f"{foreign.stem}-{socket.gethostname()}.jsonl"
    records = [json.loads(line)["record"] for line in ours.read_text().splitlines()]
    assert records[0] == "process" and "finding" in records and records[-1] == "end"
    assert [page.stem for page in outcome.pages] == [ours.stem]


def test_a_log_that_an_earlier_process_with_our_pid_left_is_replaced(tmp_path):
    stale = {"record": "process", "schema": 1, "host": socket.gethostname(), "start_ticks": 1, "started": 1e9, "boot": "before"}
    outcome = start(LEFT.format(process=stale) + BOTH, tmp_path)
    (log,) = outcome.logs
    assert '"before"' not in log.read_text() and len(outcome.findings) == 1


CHILD = """
    import subprocess, sys
    import torch
    try:
        torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")
    except RuntimeError:
        print("refused", flush=True)
    if len(sys.argv) == 1:
        subprocess.run([sys.executable, __file__, "child"], check=True)
"""


def test_a_rank_and_its_child_may_share_a_log(tmp_path):
    """%q{RANK} without %p: the records say whose they are."""
    program = tmp_path / "program.py"
    program.write_text("\n".join(line[4:] for line in CHILD.splitlines()))
    command = [DEVTRACE, "rehearse", "--gpus", 2, "--log-path", "devtrace-%q{RANK}.jsonl", "--", sys.executable, program]
    outcome = execute(command, tmp_path, environment(None, {"RANK": "3"}))
    assert outcome.out == "refused\n" * 2, outcome.err
    (log,) = outcome.logs
    assert log.name == "devtrace-3.jsonl"
    processes = [record["pid"] for record in outcome.records if record["record"] == "process"]
    assert len(set(processes)) == 2
    assert sorted(page.name for page in outcome.pages) == sorted(["devtrace-3.html", f"devtrace-3-{processes[1]}.html"])
    for page in outcome.pages:
        assert page.read_text().count("<!doctype html>") == 1
    done = subprocess.run([DEVTRACE, "check", log], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "1 new, 0 known, 0 gone: 1 log of 2 processes on 1 host" in done.stdout
    assert re.search(r"seen by 2 processes, twice: rank 3 \(\S+, pid \d+\), rank 3 \(\S+, pid \d+\)", done.stdout)
