"""Values of a rehearsal over every overload that has a CUDA kernel and the types that CUDA takes; writes the page docs/evidence/rehearsal-values.md.

Exit code 0: nothing is wrong.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent.parent
sys.path.insert(0, str(TOP / "tests/helpers"))

from operator_drivers import Supervisor, how, side_by_side  # noqa: E402
from page import markdown, summary  # noqa: E402

STALLED_AFTER_S = 240


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with the devtrace command")
    parser.add_argument("--json", type=Path, help="write the verdicts there")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    parser.add_argument("--operators", nargs="*", help="only these overloads")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th overload")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        calls = Path(scratch) / "calls.pickle"
        subprocess.run([sys.executable, str(HERE / "gather.py"), "--out", str(calls)], check=True, cwd=scratch, stderr=subprocess.DEVNULL)
        command = [str((TOP / options.build / "devtrace").resolve()), "rehearse", "--gpus", "1", "--no-trace", "--"]
        workers = [Supervisor(HERE / "driver.py", Path(scratch) / str(i), command, ["--calls", str(calls)], STALLED_AFTER_S) for i in range(options.jobs)]
        overloads = options.operators or [r["op"] for r in workers[0].start(["--list"], -1)[1]][:: options.every]
        side_by_side([(worker, overloads[i :: len(workers)]) for i, worker in enumerate(workers)])
    ended = {r["op"]: {"counts": r["counts"], "kinds": r["kinds"]} for w in workers for r in w.records if r["event"] == "end"}
    verdicts = {"overloads": {name: ended[name] for name in overloads if name in ended}, "crashed": sorted(f"{op}: {how(code)}" for w in workers for op, code in w.crashed)}
    print(summary(verdicts))
    if options.json:
        options.json.write_text(json.dumps(verdicts, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(verdicts))
    wrong = sum(v["counts"].get("wrong", 0) for v in verdicts["overloads"].values())
    return 1 if wrong or verdicts["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
