"""Attaching to PyTorch servers with everything at once: threads, a busy allocator, DataLoader's workers, CUDA graphs; and one that forks all the
time."""

import os
import random
import time

from conftest import operand
from running import command, python_server, running, wait_for  # noqa: F401

CYCLES = int(os.environ.get("DEVTRACE_ATTACH_TIMES", 6))  # make attach-soak: 200
SOURCE = """
import os, random, sys, threading, torch
import numpy.random  # each worker would import it, and open libraries
from torch.utils.data import DataLoader, Dataset

stop = False
done = dict.fromkeys(["requests", "allocations", "replays", "epochs"], 0)
wrong = []


class Numbers(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.full((4,), float(index))


def request(number):
    weight = torch.eye(16, device=f"cuda:{number}") * 2
    generator = torch.Generator()  # a worker that is forked while the default one is locked waits for it for ever
    while not stop:
        x = torch.rand(8, 16, generator=generator)
        answer = (x.to(weight.device) @ weight).cpu()
        if not torch.allclose(answer, 2 * x):
            wrong.append(("request", number))
        done["requests"] += 1


def allocate():
    kept = []
    while not stop:
        kept.append(torch.full((random.randrange(1, 100_000),), 3.0, device="cuda:1"))
        if len(kept) > 30:
            if float(kept.pop(random.randrange(30))[0]) != 3:
                wrong.append("allocation")
        if done["allocations"] % 500 == 499:
            torch.cuda.empty_cache()
        done["allocations"] += 1


def replay():
    with torch.cuda.device(0):
        x = torch.ones(16, device="cuda:0")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            y = x + 1
        while not stop:
            x.fill_(done["replays"] % 100)
            graph.replay()
            if float(y[3]) != done["replays"] % 100 + 1:
                wrong.append("replay")
            done["replays"] += 1


def load():
    while not stop:
        total = sum(float(batch.to("cuda:1").sum()) for batch in DataLoader(Numbers(), batch_size=8, num_workers=2, timeout=100))
        if total != 4 * sum(range(32)):
            wrong.append(("epoch", total))
        done["epochs"] += 1


def fault():
    try:
        early + torch.ones(16, device="cuda:1")  # HERE
    except RuntimeError:
        pass


if __name__ == "__main__":
    early = torch.ones(16, device="cuda:0")
    replaying = threading.Thread(target=replay)
    replaying.start()
    while not done["replays"]:  # nobody else may allocate while a graph is captured
        pass
    threads = [threading.Thread(target=request, args=(number,)) for number in (0, 1)]
    threads += [threading.Thread(target=allocate), threading.Thread(target=load)]
    [thread.start() for thread in threads]
    print("ready", os.getpid(), flush=True)
    # Not by sys.stdin: a worker that is forked meanwhile would wait for its lock for ever.
    for line in iter(lambda: os.read(0, 1000).decode(), ""):
        if line.startswith("end"):
            break
        if line.startswith("fault"):
            fault()
        if line.startswith("count"):
            print("answer", len(os.listdir("/proc/self/fd")), sum(1 for _ in open("/proc/self/maps")), flush=True)
        else:
            print("answer", *done.values(), len(wrong), flush=True)
    stop = True
    [thread.join() for thread in [*threads, replaying]]
    print("ended", flush=True)
"""


def test_a_server_under_load_of_every_kind(tmp_path, running):  # noqa: F811
    running.append(python_server(tmp_path, SOURCE))
    server = running[0]
    progress = lambda: [int(one) for one in server.ask("how far")]  # noqa: E731
    wait_for(lambda: min(progress()[:4]) > 0, 100)
    counts, began = [], time.monotonic()
    for _ in range(CYCLES):
        before = progress()
        done = command("attach", "--no-wait", "--no-text", server.pid)
        assert done.returncode == 0, done.stderr
        time.sleep(random.random() / 5)
        done = command("detach", server.pid)
        assert done.returncode == 0, done.stderr
        wait_for(lambda before=before: all(now > then for now, then in zip(progress()[:4], before[:4], strict=False)), 100)
        counts.append([int(one) for one in server.ask("count")])
    # For docs/evidence/measurements.md: make attach-soak shows it.
    for index, what in enumerate(("descriptors", "mappings")):
        print(f"{what}: {[min(count[index] for count in part) for part in (counts[:10], counts[-10:])]}, the least of the first and last ten")
    print(f"{CYCLES} cycles, {time.monotonic() - began:.0f} seconds, {progress()[:4]} done meanwhile")
    assert progress()[4] == 0, "a wrong answer"
    # Workers' pipes and queues come and go, as arenas that the C library makes for threads do: what is left at the end counts.
    files, mappings = (max(count[index] for count in counts[:3]) for index in (0, 1))
    wait_for(lambda: int(server.ask("count")[0]) <= files, 60)
    wait_for(lambda: int(server.ask("count")[1]) <= mappings + 40, 60)
    assert command("attach", "--no-wait", server.pid).returncode == 0
    server.ask("fault")
    assert command("detach", server.pid).returncode == 0
    assert server.end() == 0, server.err
    findings = [one for one in server.findings if one["pid"] == server.pid]
    assert [one["kind"] for one in findings] == ["refused-op"], findings
    here = next(number for number, line in enumerate(SOURCE.splitlines(), 1) if "# HERE" in line)
    assert findings[0]["python"][0]["line"] == here
    assert operand(findings[0], "cuda:0")["before_attach"] is True
    assert operand(findings[0], "cuda:1")["created"]["python"][0]["line"] == here


FORKING = """
import os, sys, threading, time, torch

stop = False
forks = replays = 0
wrong = []


def fork():
    global forks
    while not stop:
        child = os.fork()
        if child == 0:
            os._exit(7)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 7:
            wrong.append(child)
        forks += 1
        time.sleep(0.005)


def replay():
    global replays
    with torch.cuda.device(1):
        x = torch.ones(16, device="cuda:1")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            y = x + 1
        while not stop:
            graph.replay()
            replays += 1
            time.sleep(0.001)


if __name__ == "__main__":
    threads = [threading.Thread(target=replay), threading.Thread(target=fork)]
    [thread.start() for thread in threads]
    print("ready", os.getpid(), flush=True)
    for line in sys.stdin:
        if line.startswith("end"):
            break
        print("answer", forks, replays, len(wrong), flush=True)
    stop = True
    [thread.join() for thread in threads]
    print("ended", flush=True)
"""


def test_forks_and_graphs_under_load(tmp_path, running):  # noqa: F811
    running.append(python_server(tmp_path, FORKING))
    server = running[0]
    wait_for(lambda: int(server.ask("how far")[0]) > 0, 60)
    for _ in range(CYCLES):
        for action in (["attach", "--no-wait", "--children"], ["detach", "--children"]):
            done = command(*action, server.pid)
            assert done.returncode == 0, done.stderr
    forks, replays, wrong = map(int, server.ask("how far"))
    wait_for(lambda: int(server.ask("how far")[0]) > forks and int(server.ask("how far")[1]) > replays, 60)
    assert wrong == 0
    assert server.end() == 0, server.err
    assert server.findings == []
