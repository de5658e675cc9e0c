"""A fork after start-up: each side keeps its own log, and both go on finding."""

import json
import re


def by_process(outcome) -> dict[int, list[dict]]:
    """pid → the findings in that process's log."""
    found = {}
    for log in outcome.logs:
        records = [json.loads(line) for line in log.read_text().splitlines()]
        assert records[0]["record"] == "process"
        assert str(records[0]["pid"]) in log.name
        found[records[0]["pid"]] = [record for record in records if record["record"] == "finding"]
    return found


def test_both_sides_of_a_fork_find_their_own(rehearse):
    outcome = rehearse(
        """
        import os, sys
        import torch

        left, right = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")

        def in_parent():
            left + right

        def in_child():
            left * right

        def refuse(function):
            try:
                function()
            except RuntimeError:
                return
            sys.exit("not refused")

        refuse(in_parent)
        child = os.fork()
        if child == 0:
            refuse(in_child)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        refuse(lambda: torch.cat([left, right]))
        print(os.getpid(), child, status)
        """
    )
    assert outcome.code == 0, outcome.err
    parent, child, status = map(int, outcome.out.split())
    assert status == 0
    found = by_process(outcome)
    assert [finding["operation"] for finding in found[parent]] == ["aten::add", "aten::cat"]
    assert [finding["operation"] for finding in found[child]] == ["aten::mul"]
    assert found[child][0]["python"][0]["function"].endswith("in_child")


# PyTorch's allocator of CPU memory takes a lock of the whole process while it tells a profiler, and devtrace made it tell
# always. A child that was forked meanwhile waited for it at its first tensor.
def test_a_fork_while_another_thread_allocates(rehearse):
    outcome = rehearse(
        """
        import os, signal, threading
        import torch

        stop = False
        torch.empty(1)  # a child that is forked in the middle of a process's first call of an operator hangs without devtrace, too

        def allocate():
            while not stop:
                torch.empty(100)

        threads = [threading.Thread(target=allocate) for _ in range(2)]
        [thread.start() for thread in threads]
        hung = 0
        for _ in range(100):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                torch.empty(10)
                os._exit(0)
            hung += os.waitpid(child, 0)[1] != 0
            if hung:
                break
        stop = True
        [thread.join() for thread in threads]
        print("hung", hung)
        """,
        fresh=False,
    )
    assert (outcome.code, outcome.out) == (0, "hung 0\n"), outcome.err


def test_data_loader_workers(rehearse):
    outcome = rehearse(
        """
        import os
        import torch
        from torch.utils.data import DataLoader, Dataset

        weight = torch.ones(3, device="cuda:1")

        class Rows(Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, number):
                return torch.full((3,), float(number))

        if __name__ == "__main__":
            try:
                weight + torch.ones(3, device="cuda:0")
            except RuntimeError:
                pass
            total = 0
            for batch in DataLoader(Rows(), batch_size=2, num_workers=2):
                total += batch.sum().item()
                try:
                    batch * weight
                except RuntimeError:
                    pass
            print(os.getpid(), total)
        """,
        fresh=False,
    )
    assert outcome.code == 0, outcome.err
    parent, total = outcome.out.split()
    assert float(total) == 3 * sum(range(8))
    found = by_process(outcome)
    assert [(f["operation"], set(f["devices"])) for f in found.pop(int(parent))] == [
        ("aten::add", {"cuda:1", "cuda:0"}),
        ("aten::mul", {"cpu", "cuda:1"}),
    ]
    assert all(findings == [] for findings in found.values())


def test_a_refusal_in_a_loader_worker(rehearse):
    outcome = rehearse(
        """
        import os
        import torch
        from torch.utils.data import DataLoader, Dataset

        mean = torch.zeros(3, device="cuda:1")

        class Rows(Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, number):
                return torch.ones(3) - mean

        if __name__ == "__main__":
            try:
                list(DataLoader(Rows(), num_workers=2))
            except RuntimeError as error:
                print(os.getpid(), "same device" in str(error))
        """,
        fresh=False,
    )
    assert outcome.code == 0, outcome.err
    parent, told = outcome.out.split()
    assert told == "True"
    found = by_process(outcome)
    assert found.pop(int(parent), []) == []
    findings = [finding for findings in found.values() for finding in findings]
    assert 1 <= len(findings) <= 2  # the other worker may be stopped before it comes to its row
    assert {finding["python"][0]["function"] for finding in findings} == {"Rows.__getitem__"}


def test_a_signals_handler_that_leaves_is_not_held_up(rehearse):
    """Data loaders end their workers so; whatever the signal interrupted, a report too, keeps its locks for ever."""
    outcome = rehearse(
        """
        import ctypes, os, signal
        import torch
        try:
            torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")
        except RuntimeError:
            pass
        libc = ctypes.CDLL(None)
        libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
        libc.signal(signal.SIGTERM, ctypes.cast(libc._exit, ctypes.c_void_p))
        os.kill(os.getpid(), signal.SIGTERM)
        """
    )
    assert outcome.code == 15 and len(outcome.findings) == 1, outcome.err
    assert [record["record"] for record in outcome.records if record["record"] == "end"] == []


def test_exec_and_subprocess(rehearse):
    outcome = rehearse(
        """
        import subprocess, sys
        import torch

        torch.ones(3, device="cuda:1")
        print(subprocess.run(["bash", "-c", "echo hello; exit 3"], capture_output=True).returncode, flush=True)
        subprocess.run([sys.executable, "-c", "import torch; torch.ones(3, device='cuda:0') + torch.ones(3)"], stderr=subprocess.DEVNULL)
        """,
        fresh=False,
    )
    assert (outcome.code, outcome.out) == (0, "3\n"), outcome.err
    assert [finding["devices"] for finding in outcome.findings] == [["cuda:0", "cpu"]]


def test_a_program_that_calls_exec_goes_on_in_its_page(rehearse):
    outcome = rehearse(
        """
        import os, sys
        import torch

        def refuse(operation):
            try:
                operation(torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1"))
            except RuntimeError:
                pass

        if len(sys.argv) < 2:
            refuse(torch.add)
            os.execv(sys.executable, [sys.executable, __file__, "again"])
        refuse(torch.mul)
        """
    )
    assert [finding["operation"] for finding in outcome.findings] == ["aten::add", "aten::mul"], outcome.err
    (page,) = outcome.pages
    text = page.read_text()
    assert text.count("<!doctype html>") == 1
    processes = [json.loads(record)["command"] for record in re.findall(r'<script type="application/json" class="record">({"record":"process".*?)</script>', text)]
    assert [command[-1] for command in processes] == [str(outcome.folder / "program.py"), "again"], processes
    assert text.count('class="record" data-row=') == 2
