"""Recall and precision of refused-op findings on PyTorch's own operator database (op_db), on two simulated devices.

Two processes go through the same calls: one under devtrace, one without it, whose C++ stack traces are the judge of which operator was
refused. A process that an operator crashes or hangs is started again behind it, and the operator is reported.
Exit code 0: every refusal has exactly one right finding, and nothing else has any.
"""

import argparse
import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "helpers"))

import silent  # noqa: E402
from judge import Verdicts, judge  # noqa: E402
from operator_drivers import Supervisor, how, side_by_side  # noqa: E402

STALLED_AFTER_S = 120
SECTIONS = (  # attribute, title, whether devtrace is at fault
    ("missed", "Refusals without a finding"),
    ("duplicate", "Refusals with more than one finding"),
    ("wrong_operation", "Findings with the wrong operation"),
    ("wrong_devices", "Findings without both devices"),
    ("false", "Findings where nothing was refused"),
    ("changed", "Exceptions that differ from those without devtrace"),
)


def by_operator(lines: list[str]) -> list[str]:
    """One line an operator: its first fault and how many more of the kind there are."""
    found = {}
    for line in lines:
        found.setdefault(line.split()[0].rstrip(","), []).append(line)
    return [f"{of_one[0]}" + (f" (and {len(of_one) - 1} more of this operator)" if len(of_one) > 1 else "") for of_one in found.values()]


def rows(v: Verdicts) -> list[tuple[str, str]]:
    return [
        ("operators with at least two tensor operands", f"{v.operators}"),
        ("calls with one operand on another device", f"{v.calls}"),
        ("refused by PyTorch's C++", f"{v.refused} ({len(v.refused_operators)} operators)"),
        ("… with exactly one finding, the right operation and both devices", f"{v.explained}"),
        *[(title.lower(), f"{len(getattr(v, attribute))}") for attribute, title in SECTIONS],
        ("refused by Python code, never seen in C++", f"{len(v.in_python)} operators"),
        ("not judged: fails in simulation with all operands on cuda:0, too", f"{len(v.not_judged)} operators, in part or whole"),
        ("crashed or hung", f"{len(v.crashed)}"),
    ]


def table(v: Verdicts, seconds: float) -> str:
    lines = [f"{label:<70} {value}" for label, value in rows(v)]
    for attribute, title in SECTIONS:
        lines += [f"{title}:", *[f"  {line}" for line in by_operator(getattr(v, attribute))]] if getattr(v, attribute) else []
    lines += ["Crashed or hung:", *[f"  {line}" for line in v.crashed]] if v.crashed else []
    return "\n".join([*lines, f"{seconds:.0f} s"])


def markdown(v: Verdicts) -> str:
    page = [
        "# Conformance: PyTorch's own operator database",
        "",
        f"Written by `make conformance`; PyTorch {version('torch')}, two simulated devices.",
        "",
        "Every operator of `torch.testing._internal.common_methods_invocations.op_db` with at least two tensor operands runs on every sample that the database",
        "gives for it (float32, or the first dtype it takes): all operands on cuda:0, then each tensor operand in turn on cuda:1, then on the CPU. A mixed call that",
        "raises although the same call on one device did not is a refusal; the one device is cuda:0, or the CPU for an operand there among operators that have no",
        "kernel for CUDA. Which operator was refused is read from PyTorch's own C++ stack trace of the same call in a second process without devtrace (for jitted",
        "kernels, from their source); the same process shows that devtrace changes no exception.",
        "",
        "| | |",
        "|---|---:|",
        *[f"| {label} | {value} |" for label, value in rows(v)],
        "",
    ]
    for attribute, title in SECTIONS:
        lines = by_operator(getattr(v, attribute))
        if lines:
            page += [f"## {title}", "", *[f"- `{line}`" for line in lines], ""]
    named = (
        ("in_python", "Refused by Python code", "PyTorch's Python functions raise these themselves; no C++ check is reached, so there is nothing to hook."),
        ("no_operator", "Refused outside any operator", "No operator of PyTorch's dispatcher is at work there, so the finding names none."),
        ("names_no_device", "Refusals whose message names no device", "Counted as refusals all the same."),
        ("not_judged", "Fails in simulation on one device, too", "PyTorch has no kernel for it there, or the simulated libraries lack something; the first message of each."),
    )
    for attribute, title, why in named:
        entries = getattr(v, attribute)
        if entries:
            page += [f"## {title}", "", why, "", *[f"- `{op}`: {text}" for op, text in sorted(entries.items())], ""]
    if v.crashed:
        page += ["## Crashed or hung", "", *[f"- {line}" for line in v.crashed], ""]
    return "\n".join(page)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with the devtrace command")
    parser.add_argument("--json", type=Path, help="write the verdicts there")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    parser.add_argument("--silent", type=Path, help="write the page about operators that accept mixed devices there")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="only every N-th operator, its first sample, its first and last operand")
    parser.add_argument("--operators", nargs="*", help="only these")
    parser.add_argument("--keep", type=Path, help="folder for the processes' logs and records (must not exist)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch) / "conformance"
        folder.mkdir(parents=True)
        verdicts, records, seconds = run(options, folder)
    print(table(verdicts, seconds))
    if options.json:
        options.json.write_text(json.dumps(verdicts.__dict__, indent=1, default=sorted) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(verdicts))
    if options.silent:
        options.silent.write_text(silent.markdown(records))
    return 1 if verdicts.faults() or not verdicts.refused else 0


def run(options, folder: Path) -> tuple[Verdicts, list[dict], float]:
    began = time.monotonic()
    pair = Pair(folder, options)
    pair.all(options.operators)
    # Without values (which take three times as long) memory holds zeros, which some operators refuse: those run again with them.
    again = sorted(judge(pair.traced.records, pair.plain.records).not_judged)
    if again:
        (folder / "values").mkdir()
        other = Pair(folder / "values", options, values=True)
        other.all(again)
        for first, second in ((pair.traced, other.traced), (pair.plain, other.plain)):
            first.records = [r for r in first.records if r.get("op") not in again] + second.records
            first.crashed += second.crashed
    verdicts = judge(pair.traced.records, pair.plain.records)
    verdicts.crashed = [f"{op} under devtrace: {how(code)}" for op, code in pair.traced.crashed]
    verdicts.crashed += [f"{op} without devtrace: {how(code)}" for op, code in pair.plain.crashed]
    return verdicts, pair.traced.records, time.monotonic() - began


class Pair:
    """The same operators under devtrace and without it, side by side."""

    def __init__(self, folder: Path, options, values: bool = False):
        devtrace = [str((TOP / options.build / "devtrace").resolve()), "rehearse", "--gpus", "2", *([] if values else ["--no-values"])]
        flags = ["--samples", "1", "--ends"] if options.sample else []
        self.sample = options.sample or 1
        self.traced = Supervisor(HERE / "driver.py", folder / "traced", [*devtrace, "--"], flags, STALLED_AFTER_S,
                                 {"DEVTRACE_OPTIONS": "dedupe=0:max_findings=0:text=0:html=0"})  # fmt: skip
        # PyTorch's symbolizer needs no source lines here, and addr2line would take minutes.
        self.plain = Supervisor(HERE / "driver.py", folder / "plain", [*devtrace, "--no-trace", "--"], flags, STALLED_AFTER_S,
                                {"TORCH_SHOW_CPP_STACKTRACES": "1", "TORCH_DISABLE_ADDR2LINE": "1"})  # fmt: skip

    def all(self, operators: list[str] | None) -> None:
        if not operators:
            _, listed = self.plain.start(["--list"], -1)
            operators = [r["op"] for r in listed][:: self.sample]
        side_by_side([(one, operators) for one in (self.traced, self.plain)])
        if not all(r["tracer"] for r in self.traced.records if r["event"] == "start"):
            raise SystemExit("conformance: libdevtrace.so was not in the traced process")


if __name__ == "__main__":
    sys.exit(main())
