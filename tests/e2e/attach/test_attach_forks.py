"""Attaching while processes are forked and CUDA graphs are replayed."""

import os

from running import Running, command, python_server, running, wait_for  # noqa: F401

CYCLES = int(os.environ.get("DEVTRACE_ATTACH_TIMES", 6))
SOURCE = """
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
    running.append(python_server(tmp_path, SOURCE))
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
