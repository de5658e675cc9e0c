"""The ledger of what moves between devices: it says what was really moved, by whom, also of a process that is killed."""

import json
import re
import signal
import subprocess
import sysconfig
import textwrap
from pathlib import Path

import pytest
from c_programs import build
from conftest import BUILD, DEVTRACE, LIBRARY, by_line, environment, execute, traffic

MIB = 1 << 20


def test_says_what_was_moved(rehearse):
    outcome = rehearse("""
        import torch
        a = torch.ones(1024, 1024)
        b = a.to("cuda:0")  # UP
        for _ in range(7):
            c = b.to("cuda:1")  # ACROSS
        d = c.cpu()  # DOWN
        pinned = torch.ones(1000, 250).pin_memory()
        for _ in range(3):
            e = pinned.to("cuda:1", non_blocking=True)  # ASYNC
        f = torch.empty(1000, 250, pin_memory=True)
        f.copy_(e, non_blocking=True)  # BACK
        torch.cuda.synchronize()
        g = b.clone(); b.copy_(g)  # STAYS
        print(e.sum().item())  # ITEM
        model = torch.nn.Linear(100, 10)
        model.to("cuda:1")  # MODEL
        model.cpu()  # OFFLOAD
    """)
    assert outcome.code == 0 and outcome.findings == [], outcome.err
    assert by_line(outcome) == {
        ("UP", "cpu", "cuda:0"): (4 * MIB, 1),
        ("ACROSS", "cuda:0", "cuda:1"): (7 * 4 * MIB, 7),
        ("DOWN", "cuda:1", "cpu"): (4 * MIB, 1),
        ("ASYNC", "cpu", "cuda:1"): (3 * 1000000, 3),
        ("BACK", "cuda:1", "cpu"): (1000000, 1),
        ("ITEM", "cuda:1", "cpu"): (4, 1),
        ("MODEL", "cpu", "cuda:1"): (1010 * 4, 2),
        ("OFFLOAD", "cuda:1", "cpu"): (1010 * 4, 2),
    }
    assert all("staged" in record for record in traffic(outcome) if "cpu" not in (record["from"], record["to"]))
    assert outcome.records[-1]["record"] == "end"


def test_says_it_in_every_report(rehearse):
    outcome = rehearse("""
        import torch
        a = torch.ones(1024, 1024, device="cuda:0")
        def step():
            return a.to("cuda:1")
        step(), step()
    """)
    report = {
        name: subprocess.run([DEVTRACE, "report", "--format", name, outcome.logs[0]], capture_output=True, text=True, check=True).stdout
        for name in ("text", "markdown", "json")
    }
    assert re.search(r"^Traffic between devices: 8.0 MiB in 2 copies, at least \d", report["text"])
    assert re.search(r"^  cuda:0 to cuda:1 +8.0 MiB +2 copies +\S+ .s  step \(program.py:5\)$", report["text"], re.MULTILINE)
    assert "| `step (program.py:5)` | `cuda:0` | `cuda:1` | 8.0 MiB | 2 |" in report["markdown"]
    assert [json.loads(line)["record"] for line in report["json"].splitlines()] == ["process", "traffic", "memory", "memory", "end"]


def test_what_a_killed_process_has_moved_is_known(rehearse):
    outcome = rehearse(
        """
        import os, time, torch
        a = torch.ones(1000, device="cuda:0")
        deadline = time.time() + 20
        def written():
            return '"traffic"' in open(f"devtrace-{os.getpid()}.jsonl").read()
        count = 0
        while not written() and time.time() < deadline:
            a.cpu()  # DOWN
            count += 1
            time.sleep(0.02)
        print(count, flush=True)
        os.kill(os.getpid(), 9)
        """,
        options="traffic_interval=1",
    )
    assert outcome.code == 128 + signal.SIGKILL
    assert [record["record"] for record in outcome.records][-1] == "traffic"
    ((key, (bytes_, copies)),) = by_line(outcome).items()
    assert key == ("DOWN", "cuda:0", "cpu")
    assert copies == int(outcome.out) and bytes_ == copies * 4000, "all of it, but for what came after"


def test_what_grows_slowly_is_not_written_every_second(rehearse):
    outcome = rehearse(
        """
        import time, torch
        a = torch.ones(1000, device="cuda:0")
        end = time.time() + 4.5
        while time.time() < end:
            for _ in range(16):
                a.cpu()  # DOWN
            time.sleep(0.001)
        """,
        options="traffic_interval=1",
    )
    records = [record["bytes"] for record in outcome.records if record["record"] == "traffic"]
    assert 2 <= len(records) <= 6 and records == sorted(records)
    assert all(later > 1.25 * earlier for earlier, later in zip(records, records[1:-1]))


def test_a_fork_counts_its_own(rehearse):
    outcome = rehearse("""
        import os, torch
        a = torch.ones(1000)
        b = a.to("cuda:0")  # UP
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        b.cpu()  # DOWN
    """)
    assert set(by_line(outcome)) == {("UP", "cpu", "cuda:0"), ("DOWN", "cuda:0", "cpu")}
    assert len(outcome.logs) == 1


def test_threads_add_up(rehearse):
    outcome = rehearse("""
        import threading, torch
        a = torch.ones(1000, device="cuda:0")
        def work():
            for _ in range(50):
                a.to("cuda:1")  # ACROSS
        threads = [threading.Thread(target=work) for _ in range(12)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    """)
    assert by_line(outcome) == {("ACROSS", "cuda:0", "cuda:1"): (12 * 50 * 4000, 12 * 50)}


def test_can_be_switched_off(rehearse):
    outcome = rehearse('import torch\ntorch.ones(10).to("cuda:0")', options="copies=0")
    assert traffic(outcome) == [] and outcome.code == 0


def test_a_program_without_python_is_known_by_its_native_caller(tmp_path):
    (tmp_path / "program.c").write_text(
        textwrap.dedent("""
        #include <stdlib.h>
        int cudaMalloc(void**, size_t);
        int cudaMemcpy(void*, const void*, size_t, int);
        __attribute__((noinline)) void move_up(void* to, void* from) {
          for (int i = 0; i < 5; ++i) cudaMemcpy(to, from, 4096, 1);
        }
        int main() {
          void *device = 0, *host = calloc(1, 4096);
          cudaMalloc(&device, 4096);
          move_up(device, host);
          return cudaMemcpy(host, device, 4096, 2);
        }
        """)
    )
    cudart = next((BUILD / "simulate").glob("libcudart.so.13"))
    command = ["cc", "-g", "-rdynamic", "-o", tmp_path / "program", tmp_path / "program.c", cudart, "-Wl,--allow-shlib-undefined"]
    subprocess.run(command, check=True)
    outcome = execute([DEVTRACE, "rehearse", "--gpus", 2, "--", tmp_path / "program"], tmp_path, environment(None))
    assert outcome.code == 0, outcome.err
    records = traffic(outcome)
    assert {(record["native"][0]["function"], record["from"], record["to"], record["copies"]) for record in records} == {
        ("move_up", "cpu", "cuda:0", 5),
        ("main", "cuda:0", "cpu", 1),
    }
    assert all(record["native"][0]["module"].endswith("/program") and record["native"][0]["line"] for record in records)


def test_a_process_that_copies_nothing_between_devices_says_nothing(rehearse):
    outcome = rehearse('import torch\na = torch.zeros(100, device="cuda:0")\nb = a.clone()\nb.copy_(a)\ntorch.cuda.synchronize()')
    assert [record["record"] for record in outcome.records] == ["process", "memory", "end"]


CAPTURED = """
import torch
pinned = torch.ones(1024, 256).pin_memory()
here, there = torch.zeros(1024, 256, device="cuda:0"), torch.zeros(1024, 256, device="cuda:0")
back = torch.empty(1024, 256, pin_memory=True)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    here.copy_(pinned, non_blocking=True)  # UP
    there.copy_(here)  # STAYS
    for _ in range(2):
        back.copy_(there, non_blocking=True)  # BACK
print("captured", flush=True)
REPLAYS
torch.cuda.synchronize()
"""


@pytest.mark.parametrize("backend", ["interpose", "cupti"])
@pytest.mark.parametrize("times", [0, 1, 37])
def test_a_graphs_copies_are_counted_at_each_launch(rehearse, backend, times):
    """Under the line that was captured; not when they are captured, for then nothing moves."""
    outcome = rehearse(CAPTURED.replace("REPLAYS", f"for _ in range({times}): graph.replay()"), options=f"backend={backend}")
    assert outcome.code == 0 and "captured" in outcome.out and outcome.findings == [], outcome.err
    found = {key: moved for key, moved in by_line(outcome).items() if key[0] in ("UP", "BACK", "STAYS")}
    up, back = ("UP", "cpu", "cuda:0"), ("BACK", "cuda:0", "cpu")
    assert found == ({up: (times * MIB, times), back: (2 * times * MIB, 2 * times)} if times else {})


NODES = r"""
#include <cuda_runtime_api.h>
static cudaGraphExec_t ready(cudaGraph_t graph) { cudaGraphExec_t exec; CHECK(cudaGraphInstantiate(&exec, graph, 0)); return exec; }
static void* here, *host, *there;
static cudaGraphNode_t add(cudaGraph_t graph, void* to, void* from, size_t bytes) {
  cudaGraphNode_t node;
  CHECK(cudaGraphAddMemcpyNode1D(&node, graph, 0, 0, to, from, bytes, cudaMemcpyDefault));
  return node;
}
static void launch(cudaGraphExec_t exec, int times) { while (times--) CHECK(cudaGraphLaunch(exec, 0)); CHECK(cudaDeviceSynchronize()); }
int main() {
  CHECK(cudaSetDevice(0)); CHECK(cudaMalloc(&here, 1 << 20));
  CHECK(cudaMallocHost(&host, 1 << 20));
  CHECK(cudaSetDevice(1)); CHECK(cudaMalloc(&there, 1 << 20)); CHECK(cudaSetDevice(0));
  cudaGraph_t graph, child, outer;
  CHECK(cudaGraphCreate(&graph, 0)); CHECK(cudaGraphCreate(&child, 0)); CHECK(cudaGraphCreate(&outer, 0));
  cudaGraphNode_t up = add(graph, here, host, 1000), across = add(graph, there, here, 100), inside;
  cudaGraphExec_t exec = ready(graph);
  launch(exec, 3);                                                                             // up 3 * 1000, across 3 * 100
  CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, up, here, host, 2000, cudaMemcpyDefault));
  launch(exec, 2);                                                                             // up 2 * 2000, across 2 * 100
  CHECK(cudaGraphNodeSetEnabled(exec, up, 0));
  launch(exec, 5);                                                                             // across 5 * 100
  CHECK(cudaGraphMemcpyNodeSetParams1D(across, there, here, 50, cudaMemcpyDefault));
  cudaGraphExecUpdateResultInfo info;
  CHECK(cudaGraphExecUpdate(exec, graph, &info));
  CHECK(cudaGraphNodeSetEnabled(exec, up, 1));
  launch(exec, 1);                                                                             // up 1000, across 50
  add(child, host, here, 10);
  CHECK(cudaGraphAddChildGraphNode(&inside, outer, 0, 0, child));
  cudaGraphExec_t nested = ready(outer);
  launch(nested, 4);                                                                           // down 4 * 10
  CHECK(cudaGraphExecDestroy(exec)); CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphCreate(&graph, 0));
  exec = ready(graph);  // perhaps at the old one's place: it copies nothing
  launch(exec, 9);
  printf("done\n");
}
"""


@pytest.mark.parametrize("backend", ["interpose", "cupti"])
def test_a_graphs_changes_change_what_is_counted(tmp_path, backend):
    check = '#define CHECK(call) do { int e = call; if (e) { printf("%s: %d\\n", #call, e); exit(1); } } while (0)\n'
    include = Path(sysconfig.get_path("purelib")) / "nvidia/cu13/include"
    program = build(tmp_path, "program", check + NODES, f"-I{include}", BUILD / "simulate/libcudart.so.13", f"-Wl,-rpath-link,{BUILD / 'simulate'}")
    env = {"LD_LIBRARY_PATH": str(BUILD / "simulate"), "DEVTRACE_SIM_GPUS": "2", "DEVTRACE_SIM_PEER": "0-1", "LD_PRELOAD": str(LIBRARY)}
    outcome = execute([program], tmp_path, environment(f"backend={backend}", env))
    assert outcome.out == "done\n" and outcome.findings == [], outcome.out + outcome.err
    sums = {}
    for record in traffic(outcome):
        bytes_, copies = sums.get((record["from"], record["to"]), (0, 0))
        sums[record["from"], record["to"]] = (bytes_ + record["bytes"], copies + record["copies"])
    assert sums == {("cpu", "cuda:0"): (8000, 6), ("cuda:0", "cuda:1"): (1050, 11), ("cuda:0", "cpu"): (40, 4)}
