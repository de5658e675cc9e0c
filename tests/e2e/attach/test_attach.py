"""devtrace attach and detach: a PyTorch program under load that was started without devtrace."""

import json
import os
import random
import subprocess
import time

import pytest
from c_programs import build
from conftest import LIBRARY, environment, execute, operand
from running import Looking, Running, command, python_server, running, wait_for  # noqa: F401

CYCLES = int(os.environ.get("DEVTRACE_ATTACH_TIMES", 12))  # make attach-soak: 200


def line_of(server: Running, text: str) -> int:
    lines = (server.folder / "program.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.fixture
def server(tmp_path, running):  # noqa: F811
    running.append(python_server(tmp_path))
    return running[0]


def attach(server: Running, *options) -> None:
    done = command("attach", "--no-wait", *options, server.pid)
    assert done.returncode == 0, done.stderr
    assert f"attached to process {server.pid}; log {server.folder}/devtrace-{server.pid}.jsonl" in done.stderr


def detach(server: Running) -> None:
    done = command("detach", server.pid)
    assert done.returncode == 0, done.stderr


def test_a_fault_after_attaching_is_reported_as_with_preloading(server, tmp_path_factory, running):  # noqa: F811
    assert server.ask("fault")[0] == "Expected"
    attach(server)
    server.ask("fault")
    server.ask("fault")
    server.ask("numpy")
    detach(server)
    assert server.end() == 0
    mixed, numpy = server.findings
    # The same program, preloaded.
    folder = tmp_path_factory.mktemp("preloaded")
    running.append(python_server(folder, preloaded=True))
    running[1].ask("fault")
    running[1].ask("numpy")
    assert running[1].end() == 0
    preloaded = running[1].findings
    assert [one["fingerprint"] for one in (mixed, numpy)] == [one["fingerprint"] for one in preloaded]
    assert [one.get("name") for one in mixed["operands"]] == [one.get("name") for one in preloaded[0]["operands"]]
    # What was made since has its origin; of what was there before it is said that it was.
    assert operand(mixed, "cuda:1")["created"]["python"][0]["function"] == "fault"
    before = operand(mixed, "cuda:0")
    assert "created" not in before and before["before_attach"] is True
    assert mixed["python"][0]["line"] == line_of(server, "# HERE") and numpy["python"][0]["line"] == line_of(server, "# NUMPY")
    assert "before devtrace was attached" in server.err
    process = server.records[0]
    assert process["record"] == "process" and process["attached"] >= process["started"] - 1
    assert max(record["count"] for record in server.records if record["record"] == "count") == 2


def test_after_detaching_nothing_is_seen_until_the_next_attaching(server):
    attach(server)
    detach(server)
    server.ask("fault")
    server.ask("numpy")
    assert server.findings == []
    attach(server)
    server.ask("fault")
    assert [one["kind"] for one in server.findings] == ["refused-op"]
    detach(server)
    kinds = [record["record"] for record in server.records if record["record"] in ("attached", "detached")]
    assert kinds == ["detached", "attached", "detached"]
    assert server.end() == 0
    assert server.records[-1]["record"] == "end"


def test_pytorch_does_not_complain_of_blocks_from_before(server):
    """Its CPU allocator would, of tensors that end while a profiler is on and began before."""
    attach(server)
    server.ask("forget")
    detach(server)
    assert server.end() == 0
    assert "unknown size" not in server.err


def test_many_times_at_random_moments_under_load(server):
    before = [int(one) for one in server.ask("steps")]
    counts = []
    for _ in range(CYCLES):
        attach(server, "--no-text")
        time.sleep(random.random() / 20)
        detach(server)
        counts.append([int(one) for one in server.ask("count")])
    after = [int(one) for one in server.ask("steps")]
    assert all(now > then for now, then in zip(after, before)), "a thread stands still"
    assert float(server.ask("sum")[0]) == 2 * 32 * 32
    # A file that is just being read is no leak, nor is an arena that the C library makes for a thread.
    files, mappings = (max(count[index] for count in counts[:3]) for index in (0, 1))
    wait_for(lambda: int(server.ask("count")[0]) <= files)
    wait_for(lambda: int(server.ask("count")[1]) <= mappings + 8)
    attach(server)
    server.ask("fault")
    assert len(server.findings) == 1
    assert server.end() == 0


def test_it_stays_shows_what_comes_and_detaches_at_the_end(server, running):  # noqa: F811
    looking = Looking(server.folder, "attach", server.pid)
    running.append(looking)

    # Of the first copies, made while another thread finds Python, the stack may be native only.
    def is_shown(device: str) -> bool:
        rows = [line for line in looking.out.splitlines() if "→" in line and "/s" in line]
        return any(f"cpu → {device}" in row and "work (program.py:" in row for row in rows)

    looking.wait(lambda: is_shown("cuda:0") and is_shown("cuda:1"))
    server.ask("fault")
    looking.wait(lambda: "refused-op program.py:" in looking.out and "in fault" in looking.out)
    assert looking.end() == 0, looking.err
    assert f"process {server.pid} is detached from; 1 finding" in looking.err
    found = len(server.findings)
    server.ask("numpy")
    assert len(server.findings) == found
    assert server.end() == 0


def test_it_ends_after_the_time_that_was_given_and_when_the_process_ends(server, running):  # noqa: F811
    done = command("attach", "--duration", "1s", server.pid)
    assert done.returncode == 0 and "is detached from; 0 findings" in done.stderr, done.stderr
    looking = Looking(server.folder, "attach", server.pid)
    running.append(looking)
    looking.wait(lambda: "Ctrl-C detaches" in looking.err)
    assert server.end() == 0
    assert looking.process.wait(100) == 0
    assert f"process {server.pid} has ended" in looking.err


def test_options_and_the_logs_path_hold_for_the_process(server, tmp_path):
    path = tmp_path / "logs" / "of-%p.jsonl"
    done = command("attach", "--no-wait", "--log-path", path, "--no-html", "--option", "native=0", server.pid)
    assert done.returncode == 0, done.stderr
    server.ask("fault")
    log = tmp_path / "logs" / f"of-{server.pid}.jsonl"
    finding = next(record for record in map(json.loads, log.read_text().splitlines()) if record["record"] == "finding")
    assert "native" not in finding and not list(log.parent.glob("*.html"))
    assert server.end() == 0


def test_a_process_that_was_preloaded_is_watched_already_and_can_be_left(tmp_path, running):  # noqa: F811
    running.append(python_server(tmp_path, preloaded=True))
    server = running[0]
    done = command("attach", "--no-wait", server.pid)
    assert done.returncode == 0 and "was started with devtrace and is being watched" in done.stderr
    detach(server)
    server.ask("fault")
    assert server.findings == []
    attach(server)
    server.ask("fault")
    server.ask("forget")
    assert len(server.findings) == 1
    assert server.end() == 0
    assert "unknown size" not in server.err


def test_objects_that_are_opened_later_are_seen_too(tmp_path, running):  # noqa: F811
    source = """
    import ctypes, os, sys
    import torch.cuda
    device = torch.ones(1024, device="cuda:0").data_ptr()
    print("ready", os.getpid(), flush=True)
    for line in sys.stdin:
        if line.startswith("end"):
            break
        torch.ones(3, device="cuda:1")
        import late
        print("answer", late.wrong(device), flush=True)
    print("ended", flush=True)
    """
    (tmp_path / "late.py").write_text("import ctypes\nlibrary = ctypes.CDLL('./liblate.so')\n\ndef wrong(device):\n    return library.wrong(ctypes.c_void_p(device))\n")
    subprocess.run(
        ["gcc", "-x", "c", "-shared", "-fPIC", "-o", tmp_path / "liblate.so", "-", "-Wl,-z,now,-z,relro"],
        input="int cudaMalloc(void**, unsigned long); int cudaMemcpy(void*, const void*, unsigned long, int); static char host[64];\n"
        "int wrong(void* device) { void* own; cudaMalloc(&own, 64); return cudaMemcpy(own, host, 64, 2); }\n", text=True, check=True,
    )  # fmt: skip
    running.append(python_server(tmp_path, source))
    server = running[0]
    attach(server)
    server.ask("late")
    assert server.end() == 0
    assert [(one["kind"], one["operation"]) for one in server.findings] == [("copy-mismatch", "cudaMemcpy")]


def test_children_that_use_cuda_are_attached_to_as_well(tmp_path, running):  # noqa: F811
    source = """
    import multiprocessing, os, sys, torch

    def child(orders, answers):
        weight = torch.ones(4, device="cuda:0")
        answers.put(os.getpid())
        while orders.get() == "fault":
            try:
                weight + torch.ones(4, device="cuda:1")
            except RuntimeError as error:
                answers.put(str(error)[:8])

    if __name__ == "__main__":
        spawn = multiprocessing.get_context("spawn")
        orders, answers = spawn.Queue(), spawn.Queue()
        torch.ones(1, device="cuda:0")
        process = spawn.Process(target=child, args=(orders, answers))
        process.start()
        pid = answers.get()
        print("ready", os.getpid(), flush=True)
        for line in sys.stdin:
            orders.put(line.strip())
            if line.startswith("end"):
                break
            print("answer", pid, answers.get(), flush=True)
        process.join()
        print("ended", flush=True)
    """
    running.append(python_server(tmp_path, source))
    server = running[0]
    done = command("attach", "--children", "--no-wait", server.pid)
    assert done.returncode == 0, done.stderr
    child = server.ask("fault")[0]
    assert f"attached to process {child};" in done.stderr
    assert [(one["pid"], one["kind"]) for one in server.findings] == [(int(child), "refused-op")]
    done = command("detach", "--children", server.pid)
    assert done.returncode == 0 and f"process {child} is detached from" in done.stderr
    assert server.end() == 0


def test_the_library_may_attach_itself(tmp_path, running):  # noqa: F811
    source = f"""
    import ctypes, os, sys, torch
    weight = torch.ones(4, device="cuda:0")
    library = ctypes.CDLL("{LIBRARY}")
    reply = ctypes.create_string_buffer(4096)
    assert library.devtrace_attach(b"text=0", reply, 4096) == 0
    assert library.devtrace_attach(b"", reply, 4096) == 1
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    try:
        weight + torch.ones(4, device="cuda:1")
    except RuntimeError:
        pass
    assert library.devtrace_detach(reply, 4096) == 0
    assert library.devtrace_detach(None, 0) == 1
    print("answer", reply.value.decode(), flush=True)
    sys.stdin.readline()
    print("ended", flush=True)
    """
    running.append(python_server(tmp_path, source))
    assert running[0].ask("fault")[0].startswith("log=")
    assert running[0].end() == 0
    assert [one["kind"] for one in running[0].findings] == ["refused-op"]
    assert os.path.basename(running[0].folder / "stderr") and "SUMMARY" not in running[0].err


MANY_AT_ONCE = """
static int (*attach)(const char*, char*, size_t), (*leave)(char*, size_t);
static volatile int stop;
static void* change(void* unused) {
  while (!stop) {
    attach("text=0:html=0", NULL, 0);
    leave(NULL, 0);
  }
}
int main(int argc, char** argv) {
  void* library = dlopen(argv[1], RTLD_NOW);
  pthread_t threads[8];
  attach = dlsym(library, "devtrace_attach");
  leave = dlsym(library, "devtrace_detach");
  for (int i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, change, NULL);
  sleep(2);
  stop = 1;
  for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
  int attached = attach("", NULL, 0);
  printf("%d %d\\n", attached == 0 || attached == 1, leave(NULL, 0));
}
"""


def test_several_threads_may_attach_and_detach_at_once(tmp_path):
    """Whoever comes while another one changes the process is told so, and nobody is told so for ever."""
    outcome = execute([build(tmp_path, "many", MANY_AT_ONCE), LIBRARY], tmp_path, environment(None))
    assert (outcome.code, outcome.out) == (0, "1 0\n"), outcome.err
