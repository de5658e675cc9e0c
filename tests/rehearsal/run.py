"""Values of a rehearsal on PyTorch's own operator database (op_db): every sample on cuda:0 against the same on the CPU.

A process that an operator crashes or hangs is started again behind it, and the operator is reported.
Exit code 0: at least 98 % of the samples are equal. With --markdown the page docs/guide/rehearsal.md is written; page.md is its hand-written part.
"""

import argparse
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "helpers"))

from operator_drivers import Supervisor, how, side_by_side  # noqa: E402

STALLED_AFTER_S = 240
ENOUGH = 0.98
MODES = {"float32": "float32 forward", "bfloat16": "bfloat16 forward", "backward": "float32 backward"}


def of_mode(verdicts, mode):
    return {op: modes[mode] for op, modes in verdicts["operators"].items() if mode in modes}


def rows(verdicts):
    for mode, title in MODES.items():
        found = of_mode(verdicts, mode)
        samples, equal = sum(m["samples"] for m in found.values()), sum(m["equal"] for m in found.values())
        if found:
            yield title, len([m for m in found.values() if m["samples"]]), samples, equal, 100 * equal / max(samples, 1)


def faults(verdicts):
    """(operator, mode's title, counts) of each operator with a sample that is not equal."""
    for mode, title in MODES.items():
        for op, counts in of_mode(verdicts, mode).items():
            if counts["equal"] < counts["samples"]:
                yield op, title, counts


def summary(verdicts) -> str:
    lines = [f"{title:<18} {ops:>4} operators {samples:>6} samples {equal:>6} equal {share:6.2f} %" for title, ops, samples, equal, share in rows(verdicts)]
    lines += [f"  {op}, {title}: {c['samples'] - c['equal']} of {c['samples']}: {c['faults'][0]}" for op, title, c in faults(verdicts)]
    unusable = {(op, m["unusable"]) for of_one in [verdicts["operators"]] for op, modes in of_one.items() for m in modes.values() if "unusable" in m}
    lines += [f"  {op}: no samples: {why}" for op, why in sorted(unusable)]
    lines += [f"  crashed: {line}" for line in verdicts["crashed"]]
    return "\n".join(lines)


def markdown(verdicts, page: str) -> str:
    table = ["| | operators | samples | equal to the CPU's | |", "|---|---:|---:|---:|---:|"]
    table += [f"| {title} | {ops} | {samples} | {equal} | {share:.2f} % |" for title, ops, samples, equal, share in rows(verdicts)]
    rest = [f"| `{op}` | {title} | {c['samples'] - c['equal']} of {c['samples']} | {cell(c['faults'][0])} |" for op, title, c in faults(verdicts)]
    crashed = [f"- {line}" for line in verdicts["crashed"]]
    text = page.replace("@VERSION@", version("torch")).replace("@TABLE@", "\n".join(table))
    text = text.replace("@REST@", "\n".join(["| operator | | samples | first difference |", "|---|---|---:|---|", *rest]) if rest else "None.")
    return text.replace("@CRASHED@", "\n".join(crashed) if crashed else "No operator crashed or hung.")


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with the devtrace command")
    parser.add_argument("--json", type=Path, help="write the verdicts there")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th operator")
    parser.add_argument("--samples", type=int, default=0, help="samples of an operator and mode, 0 for all")
    parser.add_argument("--modes", nargs="*", help="float32, bfloat16, backward [all]")
    parser.add_argument("--operators", nargs="*", help="only these")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        command = [str((TOP / options.build / "devtrace").resolve()), "rehearse", "--gpus", "1", "--no-trace", "--"]
        flags = ["--samples", str(options.samples)] + (["--modes", *options.modes] if options.modes else [])
        workers = [Supervisor(HERE / "driver.py", Path(scratch) / str(i), command, flags, STALLED_AFTER_S) for i in range(options.jobs)]
        operators = options.operators
        if not operators:
            operators = [r["op"] for r in workers[0].start(["--list"], -1)[1]][:: options.every]
        side_by_side([(worker, operators[i :: len(workers)]) for i, worker in enumerate(workers)])
    ended = sorted((r for w in workers for r in w.records if r["event"] == "end"), key=lambda r: operators.index(r["op"]))
    verdicts = {"operators": {r["op"]: r["modes"] for r in ended}, "crashed": sorted(f"{op}: {how(code)}" for w in workers for op, code in w.crashed)}
    print(summary(verdicts))
    if options.json:
        options.json.write_text(json.dumps(verdicts, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(verdicts, (HERE / "page.md").read_text(encoding="utf-8")))
    samples, equal = totals(verdicts)
    return 0 if samples and equal >= ENOUGH * samples and not verdicts["crashed"] else 1


def totals(verdicts) -> tuple[int, int]:
    modes = [m for of_one in verdicts["operators"].values() for m in of_one.values()]
    return sum(m["samples"] for m in modes), sum(m["equal"] for m in modes)


if __name__ == "__main__":
    sys.exit(main())
