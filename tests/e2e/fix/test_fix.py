"""devtrace fix: from a program's findings to a patch with which it runs."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import DEVTRACE, TOP, Outcome, environment, execute, start
from nightly import first

sys.path.insert(0, str(TOP / "tests/workloads"))
from case_form import cases_in  # noqa: E402

THREE_FAULTS = {
    "program.py": """
        import torch
        from net import Net

        torch.manual_seed(0)
        model = Net().to("cuda:0")
        ids = torch.arange(8).view(2, 4)
        out = model(ids)
        target = torch.ones(2, 4, 3)
        print("loss", round((out - target).square().mean().item(), 4))
        """,
    "net.py": """
        import torch
        from torch import nn


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(16, 3)
                self.scale = torch.full((3,), 2.0)

            def forward(self, ids):
                return self.embed(ids) * self.scale
        """,
}

ONE_FAULT = """
    import torch

    weight = torch.ones(3, 3).to("cuda:0")
    x = torch.ones(2, 3)
    print("sum", (x @ weight).sum().item())
    """


def write(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        lines = text.strip("\n").split("\n")
        indent = len(lines[0]) - len(lines[0].lstrip())
        (folder / name).write_text("\n".join(line[indent:] for line in lines).rstrip() + "\n")
    return folder


def tree(folder: Path) -> dict[str, tuple]:
    return {
        str(path.relative_to(folder)): (path.read_bytes() if path.is_file() else None, path.lstat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path != folder
    }


def fix(folder: Path, *words, out: Path | None = None, timeout=400, env=None) -> Outcome:
    output = [] if out is None else ["--output", out]
    return execute([DEVTRACE, "fix", *output, *words], folder, environment(None, env), timeout)


def fixed_log(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "devtrace-fix.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    folder = write(tmp_path_factory.mktemp("three") / "tree", THREE_FAULTS)
    before = tree(folder)
    out = folder.parent / "out"
    outcome = fix(folder, "--tries", "6", "--", sys.executable, "program.py", out=out)
    return folder, before, outcome, out


def test_three_faults_one_patch(three, tmp_path):
    folder, before, outcome, out = three
    assert outcome.code == 0, outcome.out + outcome.err
    assert "verified: with this change the program ran to its end in rehearsal; 3 findings before, 0 after; it prints what it would on one device" in outcome.out
    assert tree(folder) == before
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    applied = subprocess.run(["git", "apply", out / "devtrace.patch"], cwd=copy, capture_output=True, text=True)
    assert applied.returncode == 0, applied.stderr
    again = start(["program.py"], copy)
    assert again.code == 0 and not again.findings, again.err
    assert again.out.startswith("loss ")


LOST_WRITE = """
    import torch

    class Counts:
        def __init__(self, classes):
            self.seen = torch.zeros(classes)

        def update(self, labels):
            self.seen.index_add_(0, labels, torch.ones(len(labels), device=labels.device))

    counts = Counts(3)
    for step in range(2):
        counts.update(torch.tensor([0, 1, 1]).to("cuda:0"))
    print("seen", counts.seen.tolist())
    """


def test_an_edit_that_loses_what_is_written_is_no_repair(tmp_path):
    """`self.seen.to(labels.device).index_add_(…)` runs to the end, and counts nothing."""
    folder = write(tmp_path / "tree", {"program.py": LOST_WRITE})
    outcome = fix(folder, "--apply", "--", sys.executable, "program.py", out=tmp_path / "out")
    assert outcome.code == 0 and "it prints what it would on one device" in outcome.out, outcome.out + outcome.err
    assert start(["program.py"], folder).out == "seen [2.0, 4.0, 0.0]\n"


def test_another_output_than_on_one_device_is_said(tmp_path):
    folder = write(tmp_path / "tree", {"program.py": ONE_FAULT.rstrip() + "\n    import time\n    print(time.time())\n"})
    outcome = fix(folder, "--tries", "2", "--", sys.executable, "program.py", out=tmp_path / "out")
    assert outcome.code == 0 and "It prints something else than it would on one device" in outcome.out, outcome.out + outcome.err


RANKS_OF_ONE_DEVICE = """
    import os
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    total = torch.full((4,), dist.get_rank() + 1.0, device="cuda")
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print("total", total.tolist())
    dist.destroy_process_group()
    """


def test_ranks_get_a_device_each(tmp_path):
    folder = write(tmp_path / "tree", {"ranks.py": RANKS_OF_ONE_DEVICE})
    outcome = fix(folder, "--apply", "--", sys.executable, TOP / "tests/helpers/forked_torchrun.py", "2", "ranks.py", out=tmp_path / "out")
    assert outcome.code == 0 and "0 after" in outcome.out, outcome.out + outcome.err
    assert 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))' in (folder / "ranks.py").read_text()
    again = start([TOP / "tests/helpers/forked_torchrun.py", 2, "ranks.py"], folder)
    assert again.code == 0 and again.findings == [] and again.out == "total [3.0, 3.0, 3.0, 3.0]\n", again.err


@pytest.mark.slow
def test_ranks_tell_each_other_in_trials(tmp_path):
    """Which rank chose, and which stayed, two processes know together only; each alone tells of a device without a cause."""
    case = cases_in(TOP / "tests/workloads/ranks/one_device.py")["chosen_too_late"]
    folder = write(tmp_path / "tree", {"ranks.py": case.files[case.main]})
    outcome = fix(folder, "--", sys.executable, TOP / "tests/helpers/forked_torchrun.py", "2", "ranks.py", out=tmp_path / "out")
    assert outcome.code == 0 and "1 finding before, 0 after" in outcome.out, outcome.out + outcome.err


def test_what_is_left_of_it(three):
    _, _, outcome, out = three
    records = fixed_log(out)
    findings = [record for record in records if record["record"] == "finding"]
    assert [finding["id"] for finding in findings] == [1, 2, 3]
    for finding in findings:
        verified = finding["cause"]["verified"]
        assert verified["outcome"] == "ran-to-end"
        assert (verified["findings_before"], verified["findings_after"]) == (3, 0)
        assert finding["cause"]["fix"] in outcome.out
    tried = [record for record in records if record["record"] == "fix"]
    assert len(tried) == 3 and all(len(record["tried"]) >= 1 for record in tried)
    # The rest are runs without one of the changes each, at the end.
    assert sum(len(record["tried"]) for record in tried) + 1 < findings[0]["cause"]["verified"]["runs"]
    assert (out / "devtrace-fix.html").read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_private_gpt(tmp_path):
    folder = tmp_path / "private_gpt"
    shutil.copytree(TOP / "tests/workloads/private_gpt", folder, ignore=shutil.ignore_patterns("__pycache__"))
    before = tree(folder)
    outcome = fix(folder, "--", sys.executable, "private_gpt.py", out=tmp_path / "out")
    assert outcome.code == 0, outcome.out + outcome.err
    assert tree(folder) == before
    assert "value.to(self.model.device)" in (tmp_path / "out/devtrace.patch").read_text()


# Refusals of one operand, and those that Python code raises.
ONE_OPERAND = {
    "asarray": ("import numpy as np", "x = torch.ones(4, device='cuda:0')", "print(np.asarray(x).sum())"),
    "asarray of a result": ("import numpy as np", "x = torch.ones(4, device='cuda:0')", "print(np.asarray(x * 2).sum())"),
    "rows": ("import numpy as np", "rows = [torch.ones(4, device='cuda:0') for _ in range(3)]", "print(np.stack(rows).shape)"),
    "pinned": ("x = torch.ones(4, device='cuda:0')", "print(x.pin_memory().shape)"),
    "lengths": (
        "from torch.nn.utils.rnn import pack_padded_sequence",
        "batch = {k: v.to('cuda:0') for k, v in dict(x=torch.ones(2, 3, 4), n=torch.tensor([3, 2])).items()}",
        "print(pack_padded_sequence(batch['x'], batch['n'], batch_first=True).data.shape)",
    ),
    "load": ("torch.save(torch.ones(3, device='cuda:1'), 'x.pt')", "torch.cuda.device_count = lambda: 1", "print(torch.load('x.pt').shape)"),
    "data parallel": ("model = torch.nn.DataParallel(torch.nn.Linear(3, 3).to('cuda:1'))", "print(model(torch.ones(2, 3)).shape)"),
    "meta": ("model = torch.nn.Linear(3, 3, device='meta')", "model = model.to('cuda:0')", "print(model(torch.ones(2, 3, device='cuda:0')).shape)"),
}


@pytest.mark.parametrize("name", first(1, ONE_OPERAND))
def test_a_patch_for_one_operand(tmp_path, name):
    (tmp_path / "program.py").write_text("\n".join(("import torch", *ONE_OPERAND[name])) + "\n")
    command = [DEVTRACE, "fix", "--gpus", 2, "--", sys.executable, "program.py"]
    outcome = execute(command, tmp_path, environment("html=0"), 280)
    assert outcome.code == 0, outcome.err[-3000:]
    assert "ran to its end" in outcome.err
    assert (tmp_path / "devtrace.patch").read_text().count("\n+") >= 2


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def processes_of(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if f"DEVTRACE_TRIAL={folder}".encode() in (process / "environ").read_bytes():
                    found.append(int(process.name))
            except OSError:
                pass
    return found


@pytest.mark.parametrize("kind", first(1, [signal.SIGKILL, signal.SIGINT, signal.SIGTERM]), ids=lambda kind: kind.name)
def test_stopped_at_any_moment(tmp_path, kind):
    folder = write(tmp_path / "tree", {"program.py": ONE_FAULT + "\n    import time; time.sleep(60)"})
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = tree(folder)
    process = subprocess.Popen(
        [DEVTRACE, "fix", "--", sys.executable, "program.py"], cwd=folder, env=environment(None, {"TMPDIR": str(scratch)}),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while len(processes_of(scratch)) < 1 or not list(scratch.glob("*/run-00002")):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    process.send_signal(kind)
    process.communicate(timeout=60)
    assert process.returncode == (-9 if kind == signal.SIGKILL else 128 + kind)
    end = time.time() + 30
    while (left_in(scratch) or processes_of(scratch)) and time.time() < end:
        time.sleep(0.1)
    assert left_in(scratch) == [] and processes_of(scratch) == []
    assert tree(folder) == before


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("kind", first(2, [None, signal.SIGINT, signal.SIGTERM, signal.SIGKILL]), ids=lambda kind: kind.name if kind else "the end")
def test_what_a_trial_started_ends_with_it(tmp_path, kind):
    """In a session of its own, its parent gone, its environment cleared."""
    pids = tmp_path / "pids"
    pids.mkdir()
    leaves = f"""
    import subprocess, time

    subprocess.run(["sh", "-c", "setsid env -i sh -c 'touch {pids}/$$; exec sleep 300' & sleep 0.5"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    """
    folder = write(tmp_path / "tree", {"program.py": leaves + ONE_FAULT + ("\n    time.sleep(60)" if kind else "")})
    (scratch := tmp_path / "scratch").mkdir()
    process = subprocess.Popen(
        [DEVTRACE, "fix", "--tries", "2", "--output", tmp_path, "--", sys.executable, "program.py"], cwd=folder, env=environment(None, {"TMPDIR": str(scratch)}),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    if kind:
        while len(left_in(pids)) < 1 or not any(alive(int(pid)) for pid in left_in(pids)):
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.05)
        process.send_signal(kind)
    process.communicate(timeout=200)
    assert process.returncode == (0 if kind is None else -9 if kind == signal.SIGKILL else 128 + kind)
    assert left_in(pids)
    end = time.time() + (30 if kind == signal.SIGKILL else 0)
    while (any(alive(int(pid)) for pid in left_in(pids)) or left_in(scratch)) and time.time() < end:
        time.sleep(0.1)
    assert not [pid for pid in left_in(pids) if alive(int(pid))] and left_in(scratch) == []


def test_what_a_run_started_ends_before_the_next_begins(tmp_path):
    """As above; the first run's time is over, and of those behind it each looks for what others left."""
    leaves = f"""
    import os, pathlib, subprocess, time

    pids = pathlib.Path("{tmp_path}/pids")
    left = [pid for pid in (pids.read_text().split() if pids.exists() else []) if os.path.exists(f"/proc/{{pid}}/exe")]  # of one that has ended it leads nowhere
    with open("{tmp_path}/left", "a") as file:
        file.write(f"{{len(left)}}\\n")
    subprocess.run(["sh", "-c", "setsid env -i sh -c 'echo $$ >> {tmp_path}/pids; exec sleep 300' & sleep 0.5"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    """
    folder = write(tmp_path / "tree", {"program.py": leaves + ONE_FAULT + "\n    time.sleep(60)"})
    fix(folder, "--tries", "1", "--jobs", "1", "--timeout", "20", "--", sys.executable, "program.py", out=tmp_path / "out")
    found = (tmp_path / "left").read_text().split()
    assert len(found) > 1 and set(found) == {"0"}, found


def test_what_ran_before_stays(tmp_path):
    """A child of the shell that became `devtrace fix` is no trial's."""
    folder = write(tmp_path / "tree", {"program.py": "print(1)"})
    line = f"setsid sleep 300 > ../null 2>&1 & echo $! > ../pid; exec {DEVTRACE} fix -- {sys.executable} program.py"
    outcome = execute(["sh", "-c", line + " > ../out 2>&1"], folder, environment(None), 120)
    assert outcome.code == 0, (tmp_path / "out").read_text()
    pid = int((tmp_path / "pid").read_text())
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)


def test_apply(tmp_path):
    folder = write(tmp_path / "tree", {"program.py": ONE_FAULT})
    program = folder / "program.py"
    program.chmod(0o755)
    outcome = fix(folder, "--apply", "--tries", "2", "--", sys.executable, "program.py", out=tmp_path / "out")
    assert outcome.code == 0, outcome.out + outcome.err
    assert "applied to 1 file" in outcome.out
    assert ".to(weight.device)" in program.read_text() or "device=weight.device" in program.read_text()
    assert program.stat().st_mode & 0o777 == 0o755
    again = fix(folder, "--", sys.executable, "program.py", out=tmp_path / "again")
    assert again.code == 0 and "nothing to fix" in again.out
    assert not (tmp_path / "again/devtrace.patch").exists()


def test_apply_leaves_a_file_that_was_saved_meanwhile(tmp_path):
    saved = "# saved meanwhile"
    # By a run that reads a net.py whose second fault is edited.
    meanwhile = f"""
    import subprocess

    if "self.scale = torch.full((3,), 2.0)\\n" not in open("net.py").read():
        subprocess.run(["sh", "-c", "grep -q '{saved}' net.py || echo '{saved}' >> net.py"], env={{}})
    """
    folder = write(tmp_path / "tree", {"program.py": meanwhile + THREE_FAULTS["program.py"].replace("\n    ", "\n"), "net.py": THREE_FAULTS["net.py"]})
    before = {name: (folder / name).read_text() for name in THREE_FAULTS}
    outcome = fix(folder, "--apply", "--tries", "6", "--jobs", "1", "--", sys.executable, "program.py", out=tmp_path / "out")
    assert outcome.code == 2, outcome.out + outcome.err
    assert f"no file was written: changed since it was read: {folder / 'net.py'}" in outcome.err
    assert f"the patch is in {tmp_path / 'out/devtrace.patch'}" in outcome.err
    assert (folder / "program.py").read_text() == before["program.py"]
    now = (folder / "net.py").read_text()
    assert now == before["net.py"] + saved + "\n"
    # It is of what was read: what was saved meanwhile is not in it.
    assert saved not in (tmp_path / "out/devtrace.patch").read_text()


def test_a_log_of_another_run(tmp_path):
    folder = write(tmp_path / "tree", {"program.py": ONE_FAULT})
    ran = start(["program.py"], folder, fresh=True)  # its command is in the log
    log = ran.logs[0]
    outcome = fix(tmp_path, "--yes", "--tries", "2", log, out=tmp_path / "out")
    assert outcome.code == 0, outcome.out + outcome.err
    assert (tmp_path / "out/devtrace.patch").read_text().startswith("--- a/program.py\n+++ b/program.py\n")
    moved = tmp_path / "moved"
    folder.rename(moved)
    gone = fix(tmp_path, moved / log.name)
    assert gone.code == 2 and "which is not here" in gone.err
    by_command = fix(moved, "--tries", "2", "--command", f"{sys.executable} program.py", out=tmp_path / "by-command")
    assert by_command.code == 0, by_command.out + by_command.err
    missing = fix(tmp_path, "devtrace-1.jsonl")
    assert missing.code == 2 and "no such log" in missing.err


def sent(folder: Path) -> Path:
    """A log whose command leaves a mark, and moves the cursor where it is shown as it is."""
    process = {"record": "process", "schema": 1, "pid": 1, "cwd": str(folder), "command": [sys.executable, "-c", "open('ran', 'w') #\x1b[A"]}
    log = folder / "devtrace-1.jsonl"
    log.write_text(json.dumps(process) + "\n")
    return log


def test_a_logs_command_is_not_run_without_a_word(tmp_path):
    log = sent(tmp_path)
    outcome = fix(tmp_path, log)
    assert outcome.code == 2 and "give --yes, or the program after --" in outcome.err, outcome.err
    assert "open('\\''ran'\\'', '\\''w'\\'') #\\x1b[A" in outcome.err and f"in the folder {tmp_path}" in outcome.err
    assert not (tmp_path / "ran").exists()
    by_words = fix(tmp_path, log, "--", sys.executable, "-c", "print(1)")
    assert by_words.code == 0 and "says was run" not in by_words.err, by_words.err
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("answer", "runs"), [("y", True), ("", False), ("no", False), ("\x04", False)], ids=["y", "return", "no", "end of file"])
def test_a_logs_command_is_asked_about(tmp_path, answer, runs):
    log = sent(tmp_path)
    ours, its = pty.openpty()
    process = subprocess.Popen([DEVTRACE, "fix", log], cwd=tmp_path, env=environment(None), stdin=its, stderr=its, stdout=subprocess.DEVNULL)
    os.close(its)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(ours, 4096)
    assert str(tmp_path).encode() in shown and b"\\x1b[A" in shown
    os.write(ours, answer.encode() if answer == "\x04" else answer.encode() + b"\n")
    code = process.wait(timeout=120)
    os.close(ours)
    assert code == (0 if runs else 2)
    assert (tmp_path / "ran").exists() == runs


def test_a_test_command(tmp_path):
    write(
        tmp_path / "tree",
        {
            "scaled.py": """
                import torch


                def scaled(x):
                    return x * torch.tensor([1.0, 2.0])
                """,
            "test_scaled.py": """
                import torch
                from scaled import scaled


                def test_scaled():
                    assert scaled(torch.ones(2).to("cuda:1")).sum().item() == 3
                """,
        },
    )
    folder = tmp_path / "tree"
    before = tree(folder)
    outcome = fix(folder, "--tries", "3", "--", sys.executable, "-m", "pytest", "-q", "test_scaled.py::test_scaled", out=tmp_path / "out")
    assert outcome.code == 0, outcome.out + outcome.err
    patch = (tmp_path / "out/devtrace.patch").read_text()
    assert "+++ b/scaled.py" in patch and "x.device" in patch
    assert tree(folder) == before


def test_values_that_were_not_computed_are_said(tmp_path):
    folder = write(tmp_path / "tree", {"program.py": ONE_FAULT})
    outcome = fix(folder, "--no-values", "--tries", "2", "--", sys.executable, "program.py", out=tmp_path / "out")
    assert outcome.code == 0, outcome.out + outcome.err
    assert "No values were computed (--no-values)" in outcome.out
    finding = next(record for record in fixed_log(tmp_path / "out") if record["record"] == "finding")
    assert "No values were computed" in finding["cause"]["verified"]["open"][0]


def test_no_edit_is_found(tmp_path):
    program = """
        code = '''import torch
        torch.ones(3, 3).to("cuda:0") @ torch.ones(3, 3)'''
        exec("\\n".join(line.strip() for line in code.split("\\n")))
        """
    folder = write(tmp_path / "tree", {"program.py": program})
    outcome = fix(folder, "--tries", "2", "--", sys.executable, "program.py", out=tmp_path / "out")
    assert outcome.code == 1, outcome.out + outcome.err
    assert "no edit was found with which the program gets further" in outcome.out
    assert not (tmp_path / "out/devtrace.patch").exists()


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("import torch; torch.ones(2).to('cuda:1')", 0, "nothing to fix"),
        ("raise ValueError('of its own')", 2, "with no finding of devtrace's: ValueError: of its own"),
        ("import time; time.sleep(60)", 2, "had no finding in 3 s"),
    ],
    ids=["clean", "another error", "time"],
)
def test_without_a_finding(tmp_path, program, code, said):
    folder = write(tmp_path / "tree", {"program.py": program})
    timeout = ["--timeout", "3"] if code == 2 else []
    outcome = fix(folder, *timeout, "--", sys.executable, "program.py")
    assert outcome.code == code and said in outcome.out + outcome.err
    assert left_in(folder) == ["program.py"]


def test_a_program_that_prints_without_end(tmp_path):
    prints = """
    import time

    for number in range(100):
        print("x" * (1 << 20), flush=True)
        time.sleep(0.02)
    raise ValueError("of its own")
    """
    folder = write(tmp_path / "tree", {"program.py": prints})
    (scratch := tmp_path / "scratch").mkdir()
    process = subprocess.Popen([DEVTRACE, "fix", "--", sys.executable, "program.py"], cwd=folder, env=environment(None, {"TMPDIR": str(scratch)}),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    most = 0
    while process.poll() is None:
        for output in scratch.glob("*/run-*/output"):
            try:
                most = max(most, output.stat().st_blocks * 512)
            except OSError:
                pass  # cleared up at that moment
        time.sleep(0.01)
    said = process.communicate()[1]
    assert process.returncode == 2, said
    assert 1 << 20 < most < 60 << 20
    assert re.search(r"ValueError: of its own \(\d+ MiB in the middle of its output were not kept\)", said), said


def test_bad_usage(tmp_path):
    for words, said in (
        ([], "no program is given"),
        (["--tries", "0", "--", "true"], "--tries"),
        (["--", "no-such-program-anywhere"], "cannot run 'no-such-program-anywhere'"),
        (["--frobnicate", "--", "true"], "there is no option --frobnicate"),
    ):
        outcome = fix(tmp_path, *words)
        assert outcome.code == 2 and said in outcome.err, outcome.err


def test_the_time_is_over(tmp_path):
    folder = write(tmp_path / "tree", {"program.py": ONE_FAULT + "\n    raise SystemExit(3)"})
    outcome = fix(folder, "--budget", "1", "--", sys.executable, "program.py", out=tmp_path / "out")
    assert outcome.code in (1, 2)
    assert os.listdir(folder) == ["program.py"]
