"""A program that the server forks leaves what the same program leaves that is started by itself: end, output, records."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import server_of, start

REFUSE = """
import torch
def refuse(name="add"):
    here, there = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
    getattr(torch, name)(here, there)
"""
PROGRAMS = {
    "refused": REFUSE + "refuse()",
    "caught, twice": REFUSE + "for name in ('mul', 'mul', 'dot'):\n    try: refuse(name)\n    except RuntimeError as error: print(error)",
    "without a finding": REFUSE + "print(torch.ones(3, device='cuda:1').sum().item())",
    "no CUDA": "import torch\nprint(torch.ones(3).sum().item())",
    "an exit code": "import sys\nsys.stdout.write('said')\nsys.exit(7)",
    "words at the end": "import sys\nsys.exit('words')",
    "a signal": REFUSE + "import os, signal\ntry: refuse()\nexcept RuntimeError: os.kill(os.getpid(), signal.SIGKILL)",
    "handlers at exit": REFUSE + "import atexit\natexit.register(refuse, 'sub')\nimport threading\nthreading.Thread(target=print, args=('thread',)).start()",
    "_exit": "import os\nprint('lost')\nos._exit(3)",
    "what it sees": """
        import os, sys, threading, __main__
        print(__name__, __file__, sys.argv, sys.path[0], os.getcwd(), sorted(vars(__main__)), threading.current_thread(), threading.main_thread())
        print(sys.stdin.read(), threading.get_native_id() == os.getpid(), sys.gettrace(), os.environ["DEVTRACE_OPTIONS"], sys._getframe().f_back)
        """,
    "a child of its own": REFUSE + "import os\nif os.fork() == 0: torch.add(torch.ones(2), torch.ones(2)); os._exit(0)\nos.wait()\nrefuse('cat')",
    "no syntax": "def f(:\n",
}
OF_EACH_PROCESS = {"pid", "ppid", "command", "started", "start_ticks", "time", "thread", "address", "data_ptr", "clock_error", "elapsed"}


def alike(value, folder):
    if isinstance(value, dict):
        return {key: alike(each, folder) for key, each in value.items() if key not in OF_EACH_PROCESS and key != "native"} | {
            "native": [frame["function"] for frame in value.get("native", []) if frame.get("project")]}  # fmt: skip
    if isinstance(value, list):
        return [alike(each, folder) for each in value]
    return re.sub(r"0x[0-9a-f]{6,}|devtrace-\d+|==\d+==|(?<=Thread, started )\d+", "N", value.replace(folder, "HERE")) if isinstance(value, str) else value


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_ways(tmp_path, name):
    left = []
    for fresh in (True, False):
        folder = tmp_path / ("fresh" if fresh else "forked")
        folder.mkdir()
        outcome = start(PROGRAMS[name], folder, "max_findings=5", fresh=fresh)
        left.append(alike([outcome.code, outcome.out, outcome.err, outcome.records], str(folder)))
    assert left[0] == left[1]


def test_one_options_after_the_other(tmp_path):
    """Each child reads its own; none has another's findings."""
    program = PROGRAMS["caught, twice"]
    for number, options in enumerate(("html=0:dedupe=0", "max_findings=1", None)):
        folder = tmp_path / str(number)
        folder.mkdir()
        outcome = start(program, folder, options)
        assert (len(outcome.findings), bool(outcome.pages)) == [(3, False), (1, True), (2, True)][number]


def test_what_its_programs_cost_is_counted(tmp_path):
    """A hundredth of a second each; tests/costs.json is made of these."""
    start("pass", tmp_path)
    before = sum(server_of(True, threading.get_ident()).ticks())
    start("import time\nwhile time.process_time() < 0.5: pass", tmp_path)
    assert sum(server_of(True, threading.get_ident()).ticks()) - before >= 50


def test_two_threads_have_programs_of_their_own(tmp_path):
    def run(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        outcome = start(f"print({number})\nraise SystemExit({number})", folder)
        return outcome.code, outcome.out

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(run, range(8))) == [(number, f"{number}\n") for number in range(8)]
