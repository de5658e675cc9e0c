"""PyTorch's own tests of torch.distributed over the simulated NCCL; writes docs/evidence/distributed.md.

    python tests/conformance/distributed.py --build build --markdown docs/evidence/distributed.md
"""

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(TOP / "tests" / "suites"))
from suite_runner import FAILED, PASSED, SKIPPED, UNEXPLAINED, read  # noqa: E402
from suites_page import one_line  # noqa: E402

RANKS = (2, 4, 8)
WANTS_MORE = re.compile("world size|at least . CUDA devices")  # of a skipped test
TEST_LIMIT_S = 180
LIMIT_S = 3600
# By test, or by what the message has in it. The first row that fits stands.
WHY_FAILED = (
    (r"^test_ddp_model_diff_shape_across_ranks", "one rank copies what a broadcast will give, and then meets the other by gloo: [the host waits for the copy](../guide/rehearsal.md#several-ranks), "
     "where hardware's stream would"),
    (r"Timeout", "it took longer than the limit"),
)  # fmt: skip


def why(test: dict) -> str:
    return next((reason for pattern, reason in WHY_FAILED if re.search(pattern, test["name"]) or re.search(pattern, test["message"])), UNEXPLAINED)


def run(build: Path, scratch: Path, ranks: int, jobs: int, only: str) -> dict:
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "logs").mkdir(parents=True)
    junit = scratch / "results.xml"
    rehearse = [build / "devtrace", "rehearse", "--gpus", ranks, "--log-path", scratch / "logs/devtrace-%p.jsonl", "--no-html", "--no-text", "--"]
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", jobs, "--timeout", TEST_LIMIT_S, f"--junitxml={junit}", "-k", only]
    environment = {**os.environ, "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1", "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(TEST_LIMIT_S // 2)}
    with open(scratch / "output.txt", "wb") as output:
        process = subprocess.Popen([str(word) for word in (*rehearse, *pytest, HERE / "distributed_tests.py")], cwd=scratch, env=environment,
                                   stdout=output, stderr=output, start_new_session=True)  # fmt: skip
        try:
            process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    findings = [json.loads(line) for log in (scratch / "logs").glob("*.jsonl") for line in log.read_text().splitlines() if line.startswith('{"record":"finding"')]
    return {
        "tests": [{"name": re.split("::|@", r.name)[1], "ranks": ranks, "outcome": r.outcome, "message": r.message} for r in read(junit)],
        "findings": [{key: each.get(key) for key in ("kind", "operation", "message")} for each in findings],
    }  # fmt: skip


def run_all(build: Path, scratch: Path, jobs: int, only: str) -> dict:
    """With as many ranks as a test wants; most are content with the least."""
    tests, findings, waiting = {}, [], None
    for ranks in RANKS:
        found = run(build, scratch / str(ranks), ranks, jobs, only)
        tests |= {test["name"]: test for test in found["tests"] if waiting is None or test["name"] in waiting}
        findings += found["findings"]
        waiting = [test["name"] for test in tests.values() if test["outcome"] == SKIPPED and WANTS_MORE.search(test["message"])]
        if not waiting:
            break
        only = " or ".join(waiting)
    return {"tests": list(tests.values()), "findings": findings}


def table(head: str, rows) -> list[str]:
    return [f"| {head} | tests |", "|---|---:|", *(f"| {what} | {count} |" for what, count in rows.most_common()), ""]


def skips_and_findings(tests: list[dict], findings: list[dict]) -> list[str]:
    skipped = Counter(one_line(test["message"]) for test in tests if test["outcome"] == SKIPPED)
    lines = ["## Why tests are skipped", "", "In PyTorch's words.", "", *table("why", skipped), "## Findings", ""]
    kinds = Counter((each["kind"], one_line(each["message"] or each["operation"] or "")) for each in findings)
    return lines + (["| kind | what | findings |", "|---|---|---:|", *(f"| {kind} | {what} | {number} |" for (kind, what), number in kinds.most_common())] if kinds else ["None."])


def markdown(found: dict) -> str:
    tests = found["tests"]
    count = Counter(test["outcome"] for test in tests)
    failed = Counter(why(test) for test in tests if test["outcome"] == FAILED)
    lines = [
        "# PyTorch's own tests of torch.distributed", "",
        f"Written by `make conformance-distributed`; PyTorch {importlib.metadata.version('torch')}, backend nccl, ranks with a simulated device each. The tests are those that",
        "PyTorch's wheel has, `DistributedTest` of `torch.testing._internal.distributed.distributed_test`, unchanged; [one class](../../tests/conformance/distributed_tests.py) collects them.",
        "Ranks are forked. Where they are spawned, `test_DistributedDataParallel` saves and loads its model between steps, and a DDP with a static graph then reduces no gradients, in",
        "PyTorch 2.11 over gloo on the CPU, too. The tests that the wheel lacks: [files](distributed-files.md).", "",
        "| tests | passed | failed | skipped | findings |", "|---:|---:|---:|---:|---:|",
        f"| {len(tests)} | {count[PASSED]} | {count[FAILED]} | {count[SKIPPED]} | {len(found['findings'])} |", "",
        f"{', '.join(f'{number} with {ranks} ranks' for ranks, number in sorted(Counter(test['ranks'] for test in tests).items()))}: those that are skipped for want of ranks run again with more.", "",
        "## Why tests fail", "",
    ]  # fmt: skip
    lines += table("why", failed) if failed else ["None does.", ""]
    unexplained = [test for test in tests if test["outcome"] == FAILED and why(test) == UNEXPLAINED]
    if unexplained:
        lines += ["| test | what it says |", "|---|---|", *(f"| `{test['name']}` | {one_line(test['message'])} |" for test in unexplained), ""]
    lines += skips_and_findings(tests, found["findings"])
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with the devtrace command")
    parser.add_argument("--jobs", type=int, default=2, help="tests at once")
    parser.add_argument("--only", default="", help="as pytest's -k")
    parser.add_argument("--scratch", type=Path, help="folder for logs and output [distributed, in that of --build]")
    parser.add_argument("--json", type=Path, help="write what came out there")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    parser.add_argument("--read", type=Path, help="run nothing: what an earlier run wrote by --json")
    options = parser.parse_args()
    build = (TOP / options.build).resolve()
    found = json.loads(options.read.read_text()) if options.read else run_all(build, options.scratch or build / "distributed", options.jobs, options.only)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(found), encoding="utf-8")
    return 0 if found["tests"] else 1


if __name__ == "__main__":
    sys.exit(main())
