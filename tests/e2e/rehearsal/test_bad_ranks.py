"""Jobs of several ranks where something is wrong: more ranks than devices, a killed one, a port that is taken. And two jobs side by side."""

import importlib.metadata
import importlib.util
import json
import os
import re
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import DEVTRACE, start
from forked_ranks import FORKED

JOB = """
import os, signal, sys
import torch, torch.distributed as dist
rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
torch.cuda.set_device(local % torch.cuda.device_count() if "modulo" in sys.argv else local)
dist.init_process_group("nccl")
x = torch.full((1000,), rank + 1.0, device="cuda")
for step in range(20):
    if "killed" in sys.argv and rank == 2 and step == 10:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
assert x.tolist() == [(world + 1) / 2] * 1000
sys.stdout.write(f"rank {rank} of {os.environ['TORCHELASTIC_RUN_ID']}\\n")
dist.destroy_process_group()
"""


def torchrun(folder, *words, ranks, gpus, place=("--standalone",)):
    (folder / "job.py").write_text(JOB)
    return start(["-m", "torch.distributed.run", *place, "--nproc-per-node", ranks, "job.py", *words], folder, gpus=gpus, env={"OMP_NUM_THREADS": "1"})


def shared_memory():
    return {path.name for path in Path("/dev/shm").iterdir() if "devtrace" in path.name or "nccl" in path.name}


def left_running(folder):
    """Processes that are still in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(folder):
                found.append((process / "cmdline").read_text().split("\0"))
        except OSError:
            pass
    return found


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path):
    before = shared_memory()
    yield
    assert left_running(tmp_path) == []
    assert shared_memory() <= before


def test_a_rank_without_a_device_is_named(tmp_path):
    outcome = torchrun(tmp_path, ranks=3, gpus=2)
    assert outcome.code == 1, outcome.err
    assert "asked for cuda:2, and this process sees 2 CUDA devices" in outcome.err
    log = [record for record in outcome.records if record["record"] in ("process", "finding")]
    assert [record["kind"] for record in log if record["record"] == "finding"] == ["refused-op"]
    assert "2" in [record["environment"]["RANK"] for record in log if record["record"] == "process"]


def test_two_ranks_on_one_device_are_named(tmp_path):
    outcome = torchrun(tmp_path, "modulo", ranks=3, gpus=2)
    assert outcome.code == 1, outcome.err
    assert "devtrace: NCCL: Duplicate GPU detected : rank 0 and rank 2 both on CUDA device 10000" in outcome.err


def test_a_killed_rank_leaves_the_others_logs(tmp_path):
    outcome = torchrun(tmp_path, "killed", ranks=4, gpus=4)
    assert outcome.code == 1 and "Signal 9 (SIGKILL)" in outcome.err, outcome.err
    assert outcome.findings == []
    ranks = {record["environment"]["RANK"] for record in outcome.records if record["record"] == "process" and "RANK" in record.get("environment", {})}
    assert ranks == {"0", "1", "2", "3"}
    for log in outcome.logs:
        report = subprocess.run([DEVTRACE, "report", log], capture_output=True, text=True, timeout=60)
        assert report.returncode == 0, report.stderr


def test_a_taken_port_is_the_program_s_error(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        outcome = torchrun(tmp_path, ranks=2, gpus=2, place=("--master-addr", "127.0.0.1", "--master-port", port))
    assert outcome.code == 1 and f"port: {port}" in outcome.err and "address already in use" in outcome.err, outcome.err
    assert outcome.findings == []


def test_two_jobs_at_once_do_not_meet(tmp_path):
    outcomes = {}

    def run(name):
        (tmp_path / name).mkdir()
        outcomes[name] = torchrun(tmp_path / name, ranks=2, gpus=2)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    said = {name: sorted(outcome.out.splitlines()) for name, outcome in outcomes.items()}
    for name, outcome in outcomes.items():
        assert outcome.code == 0, outcome.err
        assert [line.split(" of ")[0] for line in said[name]] == ["rank 0", "rank 1"], json.dumps(said)
        assert outcome.findings == []
    assert set(said["a"]).isdisjoint(said["b"])


# Ranks without a launcher that ends the others where one has failed: each has the time to say why it cannot go on. The store is in rank 0.
WITHOUT_LAUNCHER = """
import multiprocessing, multiprocessing.connection, os, signal, socket, sys, time
from datetime import timedelta
import torch, torch.distributed as dist

def sums(rank):
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()

def tells(rank):
    x = torch.ones(8, device="cuda")
    dist.broadcast(x, src=0)
    torch.cuda.synchronize()

def run(rank, port, what):
    torch.set_num_threads(1)
    world = 3 if what == "another size" and rank == 1 else 2
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    torch.ones(1, device="cuda")
    if what == "store gone before" and rank == 0:
        store = dist.TCPStore("127.0.0.1", port, 2, True, wait_for_workers=False)
        while not store.check(["rank 1 is here"]): time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "store gone before":
        dist.TCPStore("127.0.0.1", port, 2, False, timeout=timedelta(seconds=60)).set("rank 1 is here", "1")
    dist.init_process_group("nccl", timeout=timedelta(seconds=20))
    if what == "store gone amid" and rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    (tells if what == "another program" and rank == 1 else sums)(rank)
    dist.destroy_process_group()

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
ranks = [multiprocessing.get_context("fork").Process(target=run, args=(rank, port, sys.argv[1])) for rank in range(2)]
for each in ranks: each.start()
if sys.argv[1] == "another size":  # one of the two is refused, the other one waits on, and devtrace looks after three seconds
    multiprocessing.connection.wait([each.sentinel for each in ranks], 60)
    time.sleep(8)
else:
    ranks[1].join(60)
print("rank 1", ranks[1].exitcode, flush=True)
for each in ranks: each.kill()
for each in ranks: each.join()
"""


def without_launcher(folder, what):
    (folder / "job.py").write_text(WITHOUT_LAUNCHER)
    outcome = start(["job.py", what], folder, gpus=3, options="collective_wait=3")
    for log in outcome.logs:  # each rank's
        report = subprocess.run([DEVTRACE, "report", log], capture_output=True, text=True, timeout=60)
        assert report.returncode == 0, report.stderr
    assert {record["environment"]["RANK"] for record in outcome.records if record["record"] == "process" and "RANK" in record.get("environment", {})} == {"0", "1"}
    return outcome


@pytest.mark.parametrize("what, said", [("store gone before", "127.0.0.1"), ("store gone amid", "crash on rank 0")])
def test_a_store_that_goes_away_is_the_program_s_error(tmp_path, what, said):
    outcome = without_launcher(tmp_path, what)
    assert "rank 1 1\n" in outcome.out and "torch.distributed.Dist" in outcome.err and said in outcome.err, outcome.err
    assert outcome.findings == []


def test_a_rank_with_another_world_size_is_named(tmp_path):
    outcome = without_launcher(tmp_path, "another size")
    assert re.search(r"devtrace: NCCL: rank [01] says that there are [23] ranks, another one said [23]", outcome.err), outcome.err
    assert outcome.finding["kind"] == "collective-stalled" and " not come to a group of " in outcome.finding["message"], outcome.err


def test_ranks_with_different_programs_are_told_side_by_side(tmp_path):
    outcome = without_launcher(tmp_path, "another program")
    finding = outcome.finding
    assert finding["kind"] == "collective-mismatch" and {each["name"] for each in finding["operands"]} == {"rank 0", "rank 1"}, outcome.err
    assert re.search(r"job\.py:\d+", outcome.err) and "dist.broadcast(x, src=0)" in outcome.err and "dist.all_reduce(x)" in outcome.err


VERSION = """
import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["RANK"]))
dist.init_process_group("nccl")
x = torch.ones(4, device="cuda")
dist.all_reduce(x)
dist.destroy_process_group()
"""
EACH_ITS_OWN = """
import os, subprocess, sys
environment = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[1]}
ranks = [subprocess.Popen([sys.executable, "rank.py"], env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank), "PYTHONPATH": path}) for rank, path in enumerate(("", "newer"))]
print([each.wait() for each in ranks])
"""


def another_version(folder):
    """This PyTorch under another version's number: its files are linked to, all but the one that says it."""
    found = Path(importlib.util.find_spec("torch").origin).parent
    (folder / "torch" / "lib").mkdir(parents=True)
    for file in [*found.iterdir(), *(found / "lib").iterdir()]:
        to = folder / "torch" / file.relative_to(found)
        if file.name == "version.py":
            to.write_text(re.sub("__version__ = '.*'", "__version__ = '2.99.0'", file.read_text()))
        elif to != folder / "torch" / "lib":
            to.symlink_to(file)


def test_ranks_with_different_versions_of_pytorch_are_named(tmp_path):
    another_version(tmp_path / "newer")
    (tmp_path / "rank.py").write_text(VERSION)
    (tmp_path / "job.py").write_text(EACH_ITS_OWN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    outcome = start(["job.py", port], tmp_path, gpus=2)
    assert outcome.out == "[0, 0]\n", outcome.err
    ours = re.escape(importlib.metadata.version("torch"))
    rank = {0: rf"rank 0 \(process \d+\) has PyTorch {ours}\S*", 1: r"rank 1 \(process \d+\) has PyTorch 2\.99\.0"}
    lines = [line for line in outcome.err.splitlines() if "has PyTorch" in line]
    assert len(lines) == 1 and any(re.fullmatch(f"devtrace: {rank[a]} and {rank[b]}: the ranks of a job need one version", lines[0]) for a, b in ((0, 1), (1, 0))), outcome.err


ONE_OF_EIGHT = FORKED + """
import signal, threading

def killed(rank, world):
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()
    if rank == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Timer(12, os._exit, [3]).start()  # what of the job would wait for ever
    dist.all_reduce(x)
    x.tolist()

end("killed", begin("killed", killed, 8))
"""


def test_one_of_eight_ranks_is_killed(tmp_path):
    (tmp_path / "job.py").write_text(ONE_OF_EIGHT)
    outcome = start(["job.py"], tmp_path, gpus=8, options="collective_wait=2", fresh=True)
    assert outcome.out.startswith("killed [") and outcome.out.count("-9") == 1, outcome.err
    finding = outcome.finding
    assert (finding["kind"], finding["cause"]["category"]) == ("collective-stalled", "rank-ended"), outcome.err
    assert {each["name"] for each in finding["operands"] if "has ended" in each["created"]["call"]} == {"rank 5"}
    ranks = {}
    for log in outcome.logs:
        report = subprocess.run([DEVTRACE, "report", log], capture_output=True, text=True, timeout=60)
        assert report.returncode == 0, report.stderr
        first = json.loads(log.read_text().splitlines()[0])
        ranks[first["environment"].get("RANK")] = report.stdout
    assert {str(rank) for rank in range(8)} - set(ranks) <= {"5"}
    (page,) = (page for page in outcome.pages if page.name.startswith("devtrace-job-"))
    assert f"devtrace: report of {len(outcome.logs)} ranks: {page}" in outcome.err
