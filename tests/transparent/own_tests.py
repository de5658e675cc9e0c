"""Python's own tests and NumPy's without and with devtrace, compared test by test: nothing may differ.

    own_tests.py --build build [--rows 3.11 3.9 numpy …] [--only test_codecs …] [--markdown docs/evidence/transparent.md]

Rows are 3.11 (every module), its sample, each other Python of this machine (a third of the modules and the sample) and NumPy. What differs is run three
times more either way; a test is different when it came out more than once, with devtrace, as it never did without.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree as ElementTree
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "helpers"))
from interpreters import READABLE, READABLE_FREE_THREADED  # noqa: E402
from watcher import MARK  # noqa: E402

AGAIN = 3
TOGETHER = 8  # of NumPy's modules in a process, which imports PyTorch
SHOWN = 5  # unsteady ones of a module
CODE, NO_END, DIED = "exit code", "no end", "died"
# Of 3.11; where exceptions, codecs, subinterpreters, threads, signals, forks and getsizeof are tried.
SAMPLE = """test__interpreters test_atexit test_baseexception test_codeccallbacks test_codecs test_exception_group test_exceptions test_fork1 test_gc test_raise test_sys
test_thread test_threadsignals test_traceback""".split()
REHEARSE, PRELOADED = ["rehearse", "--gpus", "2", "--"], ["run", "--"]
RUNNING: set[int] = set()  # modules under way, each in a session of its own
STARTING = threading.RLock()  # held while a module that has started is not among these yet
NUMPYS = "import sys, torch, pytest; torch.cuda.is_available() and torch.cuda.init(); sys.exit(pytest.main(sys.argv[1:]))"


@dataclass
class Row:
    label: str
    which: str
    command: list[str]  # before a file for the outcomes, and modules
    modules: list[str]  # those with a space between them run in one process
    way: list[str]
    path: str = ""  # for Python's modules


@dataclass
class Context:
    build: Path
    limit: float
    preloaded: Path  # the stand-in


def cpython(python: str, label: str, which: str, way: list[str], chosen) -> Row:
    done = subprocess.run([python, "-m", "test", "--list-tests"], capture_output=True, text=True)
    modules = [line for line in done.stdout.split() if line.startswith("test")] if done.returncode == 0 else []
    return Row(label, which, [python, "-m", "test", "--junit-xml"], chosen(sorted(set(modules))), way)


def sample_of(modules: list[str]) -> list[str]:
    return [module for module in modules if module.removeprefix("test.").split(".")[0] in SAMPLE]


def third_of(modules: list[str]) -> list[str]:
    """By the name alone, so that a module is in every Python's third or in none's."""
    return sorted({*(module for module in modules if zlib.crc32(module.encode()) % 3 == 0), *sample_of(modules)})


def numpy(build: Path) -> Row:
    import numpy

    needs = build / "transparent" / "hypothesis"
    if not needs.exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", needs, "hypothesis"], check=True)
    root = Path(numpy.__file__).parent
    files = sorted(".".join(file.relative_to(root.parent).with_suffix("").parts) for file in root.rglob("tests/test_*.py"))
    command = [sys.executable, "-c", NUMPYS, "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0", "-m", "not slow", "--pyargs", "--junit-xml"]
    together = [" ".join(files[first : first + TOGETHER]) for first in range(0, len(files), TOGETHER)]
    return Row(f"NumPy {numpy.__version__} on {platform.python_version()}, beside PyTorch", "all", command, together, REHEARSE, str(needs))


def rows(build: Path, wanted: list[str]) -> list[Row]:
    found = []
    mine = os.path.realpath(sys.executable)
    full = f"3.{sys.version_info[1]}"
    pythons = {f"3.{minor}": path for minor, path in READABLE} | {f"3.{minor}t": path for minor, path in READABLE_FREE_THREADED} | {full: mine}
    if missing := set(wanted) - {*pythons, "sample", "numpy"}:
        raise SystemExit(f"{', '.join(sorted(missing))}: there is no such row; there are {', '.join(pythons)}, sample, numpy")
    for name, path in pythons.items():
        if not wanted or name in wanted:
            version = subprocess.run([path, "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True).stdout.strip()
            label = version + "t" * name.endswith("t")
            found.append(cpython(path, label, *(("all", REHEARSE, list) if name == full else ("a third", REHEARSE, third_of))))
    if not wanted or "sample" in wanted:
        found.append(cpython(mine, platform.python_version(), "a sample", PRELOADED, sample_of))
    if not wanted or "numpy" in wanted:
        found.append(numpy(build))
    return found


def end_all(number: int, _) -> None:
    STARTING.acquire()  # for good: nothing more is started
    for each in [*RUNNING]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each, signal.SIGKILL)
    os._exit(128 + number)


def outcome_of(case) -> str:
    return next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")


def run(context: Context, row: Row, module: str, way: list[str]) -> dict[str, list[str]]:
    """How each test came out. A module that has no end, or tells nothing, has its exit code alone."""
    with tempfile.TemporaryDirectory(prefix="own-", ignore_cleanup_errors=True) as top:
        env = {key: value for key, value in os.environ.items() if key == MARK or not key.startswith(("DEVTRACE", "LD_PRELOAD", "PYTHON"))}
        env |= {"LC_ALL": "C.UTF-8", "HOME": top, "TMPDIR": top, "LD_PRELOAD": str(context.preloaded)}
        env |= {"PYTHONPATH": row.path} if row.path else {}
        told = Path(top, "outcomes.xml")
        command = [*([str(context.build / "devtrace"), *way] if way else []), *row.command, str(told), *module.split()]
        with STARTING:
            process = subprocess.Popen(
                command, cwd=top, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            )  # fmt: skip
            RUNNING.add(process.pid)
        try:
            code = str(process.wait(context.limit))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = NO_END
        RUNNING.discard(process.pid)
        outcomes: dict[str, list[str]] = {CODE: [code]}
        try:
            cases = list(ElementTree.parse(told).iter("testcase"))
        except (OSError, ElementTree.ParseError):
            cases = []
        for case in cases:
            name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
            outcomes.setdefault(re.sub(r"\b0x[0-9a-f]{6,}\b", "ADDRESS", name), []).append(outcome_of(case))
        return {name: sorted(one) for name, one in outcomes.items()}


def died(code: list[str]) -> bool:
    """Of a signal, which `devtrace` tells as a shell does."""
    return code[0] != NO_END and not 0 <= int(code[0]) <= 128


def compare(context: Context, row: Row, module: str) -> tuple[str, Counter, list[str]]:
    """Its name; how many tests of each sort; the different ones."""
    bare, traced = run(context, row, module, []), run(context, row, module, row.way)
    counts, different = Counter(modules=len(module.split())), []
    if bare[CODE] == [NO_END] or died(bare[CODE]):
        return module, counts + Counter([NO_END if bare[CODE] == [NO_END] else DIED]), []
    suspects = {name for name in bare | traced if bare.get(name) != traced.get(name)}
    bares, traceds = [bare], [traced]
    if suspects:
        bares += [run(context, row, module, []) for _ in range(AGAIN)]
        traceds += [run(context, row, module, row.way) for _ in range(AGAIN)]
    for name in bare | traced:
        without, with_it = [one.get(name) for one in bares], [one.get(name) for one in traceds]
        never = [one for one in with_it if one not in without]
        if len(never) > 1 or (name == CODE and any(died(one) for one in never)):
            what = "different"
            different.append(f"{module}: {name}: without {without}, with {with_it}")
        elif name in suspects:
            what = "unsteady"
            if counts[what] < SHOWN:
                print(f"unsteady   {row.label} {module}: {name}: without {without}, with {with_it}", flush=True)
        elif name == CODE:
            continue
        else:
            what = "fails without" if {"failure", "error"} & {*bare[name]} else "skipped" if {*bare[name]} == {"skipped"} else "same"
        counts[what] += 1
    return module, counts, different


PAGE = """# Python's own tests and NumPy's, without and with devtrace

Written by `make transparent` ([own_tests.py](../../tests/transparent/own_tests.py)) on {date}. Each module runs without devtrace and with it, and each test has
to come out alike: passed, failed, an error, skipped. With it is `devtrace rehearse --gpus 2`: the library and simulated devices are preloaded into the whole
tree of processes. A sample runs under `devtrace run` as well. Exceptions are hooked once PyTorch is there, so
[a stand-in](../../tests/transparent/torch_stand_in.c) has every Python look for it; beside NumPy it is PyTorch itself, with the values of rehearsal.

| tests of | modules | ran | same | different | skipped | fail without it | unsteady |
|---|---:|---:|---:|---:|---:|---:|---:|
{table}

A third are modules chosen by a checksum of their names, and the sample: {sample}. What wants a network, a screen or a quarter of an hour is not
asked for, as `python -m test` has it, and is skipped. What differs is run three times more either way: different is what came out more than once as it never did without
devtrace, unsteady the rest. Nothing is said by tests that fail without devtrace, and by modules that have no end or die without it: {left_out}.
"""
COLUMNS = ["same", "different", "skipped", "fails without", "unsteady"]


def page(results: dict) -> str:
    lines, left_out = [], []
    for label, one in results.items():
        counts = sum(map(Counter, one["modules"].values()), Counter())
        cells = [counts["modules"], counts["same"] + counts["different"], *(counts[what] for what in COLUMNS)]
        lines.append(f"| {label}{'' if counts['modules'] else ' (not installed)'} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
        left_out += [f"`{module}` of {label.split(':')[0]} ({why})" for module, counted in one["modules"].items() for why in (NO_END, DIED) if why in counted]
    sample = ", ".join(f"`{module}`" for module in SAMPLE)
    date = max(one["date"] for one in results.values())
    return PAGE.format(date=date, sample=sample, table="\n".join(lines), left_out=", ".join(left_out) or "none")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--rows", nargs="*", default=[], help="3.11, 3.9, 3.13t, sample, numpy; all of them otherwise")
    parser.add_argument("--only", nargs="*", default=[], help="these modules")
    parser.add_argument("--limit", type=float, default=600, help="seconds that a module may take")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="what came out is put there, beside what is there already")
    parser.add_argument("--keep", action="store_true", help="modules that are in there do not run again")
    parser.add_argument("--markdown", type=Path, help="the page is written there")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell starts with `&`, and tests wait for one
    signal.signal(signal.SIGTERM, end_all)
    build = options.build.resolve()
    results = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    failed = compared = False
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        stand_in = Path(folder, "libtorch_python.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", stand_in, HERE / "torch_stand_in.c"], check=True)
        context = Context(build, options.limit, stand_in)
        for row in rows(build, options.rows):
            label = f"{row.label}: {row.which}{', `devtrace run`' if row.way is PRELOADED else ''}"
            kept = results[label]["modules"] if options.keep and label in results else {}
            results[label] = {"date": datetime.date.today().isoformat(), "modules": kept}
            chosen = [module for module in row.modules if (not options.only or module in options.only) and module not in kept]
            for done in as_completed(pool.submit(compare, context, row, module) for module in chosen):
                module, counts, different = done.result()
                kept[module] = counts
                for line in different:
                    print(f"different  {label} {line}", flush=True)
                if options.json:
                    options.json.write_text(json.dumps(results, indent=1) + "\n")
            counts = sum(map(Counter, kept.values()), Counter())
            failed, compared = failed or counts["different"] > 0, compared or counts["same"] > 0
            print(f"{label}: " + ", ".join(f"{count} {what}" for what, count in counts.items()), flush=True)
    if options.markdown:
        options.markdown.write_text(page(results))
    return 1 if failed or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
