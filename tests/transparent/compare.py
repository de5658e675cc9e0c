"""Runs commands without and with devtrace preloaded, and says what is not the same. Compared are exit code, output, files left behind, and of each process at
its end its descriptors, environment, signals' dispositions and mask, threads, folder and peak of memory.

    compare.py --build build [--only TEXT] [--limit SECONDS] [LIST…]      a command of sh a line; lines that begin with # are left out

What differs is run three times more either way, as programs race with themselves. A command is different when no run with devtrace is like any
without, and unsteady, which says nothing, when no two runs without it are alike. A command that is not there, or does not end within the limit
either way, says nothing and is counted apart.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
AGAIN = 3
MORE_MEMORY = 24 << 10  # KiB that devtrace may take in a process
NO_END = "no end"
SAYS_NOTHING = {127: "not there", NO_END: NO_END}  # 127: the shell found no such command
LISTS = ["commands.txt", "pytorch.txt", "servers.txt"]
# What differs from run to run by its nature.
UNSTEADY = [
    (re.compile(r"/tmp/transparent-\w+"), "FOLDER"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "ADDRESS"),
    (re.compile(r"\d+(\.\d+)?(?= ?(?:s|ms|us|µs|ns|sec|seconds)\b)"), "TIME"),
    (re.compile(r"\b[IWE]\d{4} [\d:.]+ \d+ "), "LOGGED "),
    (re.compile(r"\bpid:? \d+"), "pid PID"),
    (re.compile(r"(pipe|socket|anon_inode):\[?\w+\]?"), r"\1"),
]


def steady(text: str) -> str:
    for pattern, word in UNSTEADY:
        text = pattern.sub(word, text)
    return text


def build_probe(folder: Path) -> Path:
    probe = folder / "libprobe.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", probe, HERE / "probe.c"], check=True)
    return probe


def processes(folder: Path) -> tuple[Counter, dict[str, int]]:
    """What the processes held, as often as it was; and the peak of memory by name, of the largest."""
    held, peaks = Counter(), {}
    for path in folder.iterdir():
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line for line in lines if line.startswith("Name:")), "Name: ?")
        peak = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
        peaks[name] = max(peaks.get(name, 0), peak)
        kept = sorted(steady(line) for line in lines if not line.startswith(("VmHWM:", "environment TRANSPARENT_PROBE=", "environment _=")))
        held["\n".join([name, *kept])] += 1
    return held, peaks


def wait_for_group(group: int, seconds: float = 10) -> None:
    """What has closed its output may still be ending, and the probe writes then."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)


def run(command: str, libraries: list[Path], limit: float) -> dict:
    with tempfile.TemporaryDirectory(prefix="transparent-", ignore_cleanup_errors=True) as top:
        work, probed = Path(top, "work"), Path(top, "probe")
        work.mkdir()
        probed.mkdir()
        (work / "text").write_text("one line\nand another\nthe third\n" * 9)
        (work / "numbers").write_text("".join(f"{i * 7919 % 1000}\n" for i in range(500)))
        env = {key: value for key, value in os.environ.items() if not key.startswith(("DEVTRACE", "LD_PRELOAD"))}
        env |= {"LD_PRELOAD": ":".join(map(str, libraries)), "TRANSPARENT_PROBE": str(probed), "LC_ALL": "C", "PYTHON": sys.executable, "HERE": str(HERE)}
        env |= {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(work), "TMPDIR": str(work)}
        process = subprocess.Popen(
            ["sh", "-c", command], cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=limit)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            code = NO_END
        wait_for_group(process.pid)
        held, peaks = processes(probed)
        pid = str(process.pid)
        return {
            "exit code": code,
            "output": steady(out.decode("utf-8", "replace")).replace(pid, "PID"),
            "errors": steady(err.decode("utf-8", "replace")).replace(pid, "PID"),
            "files": sorted(str(path.relative_to(work)) for path in work.rglob("*")),
            "processes": held,
            "peaks": peaks,
        }


def differences(bare: dict, traced: dict) -> list[str]:
    found = [what for what in ("exit code", "output", "errors", "files", "processes") if bare[what] != traced[what]]
    for name, peak in traced["peaks"].items():
        if peak > bare["peaks"].get(name, peak) + MORE_MEMORY:
            found.append(f"memory of {name}: {bare['peaks'][name]} and {peak} KiB")
    return found


def show(bare, traced) -> str:
    """The lines that only one of the two has."""
    lines = []
    for sign, mine, other in (("-", bare, traced), ("+", traced, bare)):
        if isinstance(mine, Counter):
            mine, other = ["\n".join((mine - other).elements()), "\n".join((other - mine).elements())]
        mine, other = [value.splitlines() if isinstance(value, str) else value if isinstance(value, list) else [str(value)] for value in (mine, other)]
        lines += [f"      {sign} {line}" for line in mine if line not in other][:6]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("lists", nargs="*", type=Path, default=[HERE / name for name in LISTS])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a command may take")
    options = parser.parse_args()
    library = (options.build / "libdevtrace.so").resolve()
    counts, failed = Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        probe = build_probe(Path(folder))
        for command in [line for path in options.lists for line in path.read_text().splitlines() if line and not line.startswith("#")]:
            if options.only not in command:
                continue
            once = partial(run, command, limit=options.limit)
            bare, traced = once([probe]), once([library, probe])
            if bare["exit code"] == traced["exit code"] and bare["exit code"] in SAYS_NOTHING:
                counts[SAYS_NOTHING[bare["exit code"]]] += 1
                print(f"{SAYS_NOTHING[bare['exit code']]:<10} {command}", flush=True)
                continue
            found = differences(bare, traced)
            if found:
                bares = [bare, *(once([probe]) for _ in range(AGAIN))]
                if all(differences(one, other) for index, one in enumerate(bares) for other in bares[:index]):
                    counts["unsteady"] += 1
                    print(f"unsteady   {command}", flush=True)
                    continue
                again = [traced, *(once([library, probe]) for _ in range(AGAIN))]
                if not all(differences(one, other) for one in bares for other in again):
                    found = []
            counts["different" if found else "same"] += 1
            if not found:
                continue
            failed.append(command)
            print(f"different  {command}: {', '.join(found)}", flush=True)
            for what in found:
                if what in bare:
                    print(show(bare[what], traced[what]), flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if failed or not counts["same"] else 0


if __name__ == "__main__":
    sys.exit(main())
