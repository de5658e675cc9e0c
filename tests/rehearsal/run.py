"""Values of a rehearsal on PyTorch's own operator database (op_db): every sample on cuda:0 against the same on the CPU.

A process that an operator crashes or hangs is started again behind it, and the operator is reported.
Exit code 0: at least 98 % of the samples are equal.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "helpers"))

from operator_drivers import Supervisor, how, side_by_side  # noqa: E402

from report import markdown, summary  # noqa: E402

STALLED_AFTER_S = 240
ENOUGH = 0.98


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
