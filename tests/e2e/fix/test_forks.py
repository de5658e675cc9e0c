"""devtrace fix: most trials are forks of a process that has imported what the program imports."""

import json
import sys
from pathlib import Path

import pytest
from nightly import first
from test_fix import fix, write

# Whether PyTorch was there before the program's first line, and what else a program may see of its start.
PROGRAM = """
    import sys

    forked = "torch" in sys.modules
    import json, os, signal, threading

    import helper
    import torch

    {first}
    names = [name for name in globals() if not name.startswith("_")]
    with open("starts", "a") as file:
        seen = [
            sys.argv, sys.orig_argv, __name__, __file__, __doc__, sys.path[0], os.getcwd(), names, threading.current_thread().name,
            open("/proc/self/cmdline").read(), open("/proc/self/comm").read(), os.getppid() == os.getpgid(os.getppid()), os.getpgid(0) == os.getpid(),
            signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, sorted(name for name in os.environ if name not in ("DEVTRACE_OVERLAY", "DEVTRACE_RANKS", "DEVTRACE_SIM_KEEP_GOING")),
            os.isatty(0), sys._getframe().f_back is None,
        ]
        file.write(json.dumps([forked, seen], default=str) + "\\n")
    weight = torch.ones(3, 3, device="cuda:1")
    x = helper.made()
    print("sum", (x @ weight).sum().item())
    {last}
    """
HELPER = """
    from torch import ones


    def made():
        return ones(2, 3, device="cuda:0")
    """


def tried(folder: Path, first="", last="", jobs=1):
    program = PROGRAM.replace("{first}", first).replace("{last}", last)
    write(folder, {"program.py": program, "helper.py": HELPER})
    outcome = fix(folder, "--jobs", jobs, "--no-html", "--", sys.executable, "program.py", "argument", out=folder / "out")
    return outcome, [json.loads(line) for line in (folder / "starts").read_text().splitlines()]


@pytest.mark.parametrize("jobs", first(1, [2, 1]))
def test_a_fork_sees_what_a_fresh_start_sees(tmp_path, jobs):
    outcome, starts = tried(tmp_path, jobs=jobs)
    assert outcome.code == 0, outcome.err
    forked = [each[0] for each in starts]
    assert not forked[0] and any(forked) and not all(forked[1:]), "the first run and the one that is taken are fresh"
    for _, seen in starts[1:]:
        assert seen == starts[0][1]


def test_a_program_that_breaks_in_a_fork_has_fresh_starts(tmp_path):
    outcome, starts = tried(tmp_path, first="if forked: raise SystemExit(3)")
    assert outcome.code == 0, outcome.err
    assert not any(each[0] for each in starts) and len(starts) > 2


def test_a_repair_that_only_forks_show_is_none(tmp_path):
    outcome, starts = tried(tmp_path, last="assert forked")
    assert outcome.code == 1, outcome.out
    assert "\nnot verified" in outcome.out
    assert any(each[0] for each in starts) and not starts[-1][0]


@pytest.mark.slow
@pytest.mark.parametrize("options", first(1, [["-m", "program"], ["-c", "import program"]]))
def test_other_ways_to_start_have_fresh_starts(tmp_path, options):
    write(tmp_path, {"program.py": PROGRAM.replace("{first}", "").replace("{last}", ""), "helper.py": HELPER})
    outcome = fix(tmp_path, "--no-html", "--", sys.executable, *options, out=tmp_path / "out")
    assert outcome.code == 0, outcome.err
    assert not any(json.loads(line)[0] for line in (tmp_path / "starts").read_text().splitlines())
