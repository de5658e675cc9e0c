"""make matrix: devtrace with each pair of Python and PyTorch, and docs/reference/versions.md about it.

An environment is a folder `<Python>-<PyTorch>`; one that is missing is made with that Python and what pip brings for that PyTorch, some
gigabytes each. One of the `newest` is made anew each time. `…-aarch64` is arm64's PyTorch under qemu's user mode, on another processor (docs/internals/arm64.md). What was found out is kept in docs/reference/versions.json; a pair that is not run again keeps its line."""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "helpers"))
from interpreters import FOUND  # noqa: E402

PROGRAM = Path(__file__).with_name("program.py")
KEPT = TOP / "docs/reference/versions.json"
PAGE = TOP / "docs/reference/versions.md"
PAIRS = [
    "3.9-2.4.1", "3.10-2.4.1", "3.10-2.6.0", "3.10-2.11.0", "3.11-2.8.0", "3.11-2.11.0", "3.11-2.11.0-aarch64", "3.11-2.15.0", "3.12-2.9.1",
    "3.12-2.10.0", "3.12-2.12.1", "3.12-2.13.0", "3.12-2.14.1", "3.12-2.15.0",
    "3.13-2.15.0", "3.13t-2.11.0", "3.14-2.15.0", "3.14t-2.15.0", "3.15-2.15.0", "3.15t-2.15.0", "3.11-newest",
]  # fmt: skip

ARM64, NEWEST = "-aarch64", "-newest"
ARM64_PYTHON = TOP / ".cache" / "aarch64" / "root" / "usr" / "bin" / "python"


def line_of(mark: str) -> int:
    return next(number for number, text in enumerate(PROGRAM.read_text().splitlines(), 1) if f"# {mark}" in text)


class Run:
    """What the program said, and what devtrace left of it."""

    def __init__(self, python: Path, build: Path):
        with tempfile.TemporaryDirectory() as folder:
            self.folder = Path(folder)
            command = [build / "devtrace", "rehearse", "--gpus", "2", "--", python, PROGRAM, TOP / "tests" / "helpers"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, env=self.environment())
            self.errors = done.stderr
            self.records = []
            for log in self.folder.glob("devtrace-*.jsonl"):
                self.records += [json.loads(line) for line in log.read_text().splitlines()]
            last = done.stdout.splitlines()[-1:] or ["{}"]
            self.said = json.loads(last[0]) if last[0].startswith("{") else {}
            self.code = done.returncode
            self.checked = subprocess.run([build / "devtrace", "check", folder], cwd=folder, capture_output=True, text=True).returncode
            self.plugin = self.with_plugin(python, build)

    @staticmethod
    def environment() -> dict:
        return {key: value for key, value in os.environ.items() if not key.startswith(("DEVTRACE", "PYTHON", "LD_"))}

    def with_plugin(self, python: Path, build: Path) -> str:
        test = self.folder / "test_it.py"
        test.write_text("import torch\ndef test_it():\n    torch.ones(2, device='cuda:0') + torch.ones(2, device='cuda:1')\n")
        environment = {**self.environment(), "PYTHONPATH": str(TOP / "python"), "DEVTRACE": str(build / "devtrace")}
        environment["PATH"] = f"{build}:{environment['PATH']}"
        command = [python, "-m", "pytest", "-p", "no:cacheprovider", "--devtrace", "--devtrace-gpus", "2", test]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=600, env=environment)
        return done.stdout + done.stderr

    def findings(self, kind: str) -> list[dict]:
        return [one for one in self.records if one["record"] == "finding" and one["kind"] == kind]

    def of(self, record: str) -> list[dict]:
        return [one for one in self.records if one["record"] == record]


def own_line(record: dict) -> int:
    return next((frame["line"] for frame in record.get("python", ()) if frame["file"] == str(PROGRAM)), 0)


def stacks(run: Run) -> bool:
    return run.of("process")[0]["stacks"].endswith("agree with Python's own")


def refusal(run: Run) -> bool:
    if "missing_symbols" in run.of("process")[0]:
        return False
    found = [one for one in run.findings("refused-op") if own_line(one) == line_of("REFUSED")]
    names = [operand["name"] for one in found for operand in one["operands"]]
    return len(found) == 1 and names == ["hidden", "self.scale"] and "register_buffer" in found[0]["cause"]["fix"]


def expression(run: Run) -> bool:
    """Read from the interpreter's value stack."""
    found = [one["operands"] for one in run.findings("refused-op") if own_line(one) == line_of("EXPRESSION")]
    return [[operand["expression"] for operand in operands] for operands in found] == [["torch.sin(x)", "moved_away(x)"]]


def raised(run: Run) -> bool:
    return [one["operation"] for one in run.findings("refused-op") if own_line(one) == line_of("RAISED")] == ["torch.Tensor.numpy"]


def launch(run: Run) -> bool:
    return [one["launch"]["kernel"] for one in run.findings("remote-access")] == ["touch"]


def copy(run: Run) -> bool:
    found = run.findings("copy-mismatch")
    return [own_line(one) for one in found] == [line_of("COPIED")] and found[0]["devices"] == ["cuda:0"]


def traffic(run: Run) -> bool:
    sites = {(one["from"], one["to"], one["bytes"]) for one in run.of("traffic") if own_line(one) == line_of("MOVED")}
    return sites == {("cuda:0", "cuda:1", 16)}


def placement(run: Run) -> bool:
    entries = {(entry["name"], entry["device"]) for one in run.of("placement") if one["root"] == "Net" for entry in one["entries"]}
    return {("inner.weight", "cuda:0"), ("inner.bias", "cuda:0"), ("scale", "cuda:1")} <= entries


def values(run: Run) -> bool:
    return abs(run.said["values"] - run.said["values of the CPU"]) < 1e-6 and run.said["moved"] == [0, 1, 2, 3]


def plugin(run: Run) -> bool:
    return "SUMMARY: devtrace: refused-op test_it.py:3" in run.plugin


def check(run: Run) -> bool:
    return run.checked == 1


CHECKS = {
    "stacks": stacks, "refusal, names, fix": refusal, "expressions": expression, "raised in Python": raised, "launch": launch, "copy": copy, "traffic": traffic,
    "placement": placement, "values": values, "pytest": plugin, "check": check,
}  # fmt: skip


def environment_of(pair: str, folder: Path) -> Path | str:
    """Its interpreter; a sentence where there is none."""
    place = folder / pair
    python = ARM64_PYTHON if pair.endswith(ARM64) else place / "bin" / "python"
    if pair.endswith(NEWEST):
        shutil.rmtree(place, ignore_errors=True)
    if python.exists():
        return python
    if pair.endswith(ARM64):
        return "no arm64 PyTorch here (scripts/get/arm64 --pytorch .cache/aarch64/root)"
    version, _, torch = pair.partition("-")
    wanted = int(version.removesuffix("t").partition(".")[2]), version.endswith("t")
    interpreter = next((path for path, found in FOUND.items() if found == wanted), None)
    if interpreter is None:
        return f"no CPython {version} here (scripts/get/pythons)"
    subprocess.run([interpreter, "-m", "venv", "--without-pip", place], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet", "--only-binary", ":all:"]
    done = subprocess.run([*pip, "torch" if pair.endswith(NEWEST) else f"torch=={torch}", "numpy", "pytest", "expecttest"], capture_output=True, text=True)
    return python if done.returncode == 0 else "pip: " + done.stderr.strip().splitlines()[-1]


def outcome(pair: str, folder: Path, build: Path) -> dict:
    python = environment_of(pair, folder)
    if isinstance(python, str):
        return {"why": python}
    if pair.endswith(ARM64):
        build = build / "aarch64" / "emulated"
    try:
        run = Run(python, build)
    except subprocess.TimeoutExpired:
        return {"why": "the program did not end"}
    if not run.said:
        return {"why": (run.errors.strip().splitlines() or ["no word"])[-1]}
    result = {"date": datetime.date.today().isoformat(), "torch": run.said["torch"], "python": run.of("process")[0].get("python", "")}
    for name, judge in CHECKS.items():
        try:
            result[name] = bool(judge(run))
        except (KeyError, IndexError, StopIteration):
            result[name] = False
    return result


def page(kept: dict) -> str:
    lines = [
        "# Which Python, which PyTorch", "",
        "Written by `make matrix`: one program ([tests/versions/program.py](../../tests/versions/program.py)) on two simulated devices with each pair. "
        "`yes`: what devtrace said was right in every part; [tests/versions/run.py](../../tests/versions/run.py) has what that is.", "",
        "| Python | PyTorch | " + " | ".join(CHECKS) + " | run |", "|---|---|" + "---|" * (len(CHECKS) + 1),
    ]  # fmt: skip
    for pair in PAIRS:
        result = kept.get(pair, {"why": "not run yet"})
        version, _, torch = pair.removesuffix(ARM64).partition("-")
        platform = " on arm64 (qemu)" if pair.endswith(ARM64) else ""
        if "why" in result:
            lines.append(f"| {version}{platform} | {torch} |" + " |" * len(CHECKS) + f" {result['why']} |")
            continue
        cells = ["yes" if result.get(name) else "**no**" for name in CHECKS]
        lines.append(f"| {result['python']}{'t' if version.endswith('t') else ''}{platform} | {result['torch']}{', the newest' if pair.endswith(NEWEST) else ''} | " + " | ".join(cells) + f" | {result['date']} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=TOP / "build")
    parser.add_argument("--environments", type=Path, default=TOP / ".cache" / "matrix")
    parser.add_argument("pairs", nargs="*", default=PAIRS, metavar="PYTHON-TORCH")
    options = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for pair in options.pairs:
        kept[pair] = outcome(pair, options.environments, options.build.resolve())
        print(pair, kept[pair], flush=True)
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        PAGE.write_text(page(kept))
    return int(any("why" in kept[pair] or not all(kept[pair][name] for name in CHECKS) for pair in options.pairs))


if __name__ == "__main__":
    sys.exit(main())
