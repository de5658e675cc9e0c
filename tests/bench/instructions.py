"""How many instructions looking at a launch or a copy takes: the same on every machine and at every load, which nanoseconds are not.

    python tests/bench/instructions.py --build build

Counted by valgrind's callgrind inside the hook, over some thousands of calls of the benchmarks beside this file.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HOOK = "(anonymous namespace)::{}(void const*, void**)"
COPIED = "devtrace::events::copied(devtrace::events::Copy const&)"
# What is counted, the benchmark's program and name, the function in which to count, one that it calls once.
CASES = (
    *((f"launch, {words} words: {what}", "launch", f"launch<{hook}>/words:{words}/live:10/numbers:0", HOOK.format(hook), HOOK.format("original") if hook == "empty_hook" else "devtrace::launch::kernels::known(void const*)")
      for words in (4, 16, 128) for hook, what in (("empty_hook", "empty hook"), ("hook", "hook"))),
    ("copy within one device", "copy", "WithinOneDevice$", COPIED, "devtrace::placement::copied("),
    ("copy from the host", "copy", "FromTheHost$", COPIED, "devtrace::placement::copied("),
    ("copy between devices", "copy", "BetweenDevices$", COPIED, "devtrace::placement::copied("),
    ("copy between devices, 20 Python frames", "copy", "BetweenDevicesWithPython/20$", COPIED, "devtrace::placement::copied("),
)  # fmt: skip


def calls_of(inner: str, profile: str) -> int:
    """How often `inner` was called, out of a callgrind file. Names are written once and then by number."""
    number = re.search(rf"^c?fn=\((\d+)\) {re.escape(inner)}", profile, re.MULTILINE)
    if not number:
        return 0
    return sum(int(calls) for calls in re.findall(rf"^cfn=\({number[1]}\)[^\n]*\n(?:c[fo][^\n]*\n)*calls=(\d+)", profile, re.MULTILINE))


def count(build: Path, program: str, benchmark: str, function: str, inner: str) -> float | None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        command = [
            "valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no", f"--toggle-collect={function}",
            build / "bench" / program, f"--benchmark_filter={benchmark}", "--benchmark_min_time=0.01",
        ]  # fmt: skip
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode or not out.exists():
            print(done.stderr, file=sys.stderr)
            return None
        profile = out.read_text()
    calls = calls_of(inner, profile)
    return int(re.search(r"^totals: (\d+)", profile, re.MULTILINE)[1]) / calls if calls else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", type=Path, help="folder with bench/")
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        print("instructions are not counted: no valgrind (apt-get install valgrind)")
        return 0
    failed = False
    for label, *case in CASES:
        found = count(options.build.resolve(), *case)
        failed |= found is None
        print(f"{label:<32} {'not counted' if found is None else f'{found:.0f} instructions'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
