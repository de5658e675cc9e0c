"""PyTorch's files of tests of torch.distributed (`test/distributed` of its source) over the simulated NCCL; writes docs/evidence/distributed-files.md.

    python tests/conformance/distributed_files.py --build build --source pytorch --markdown docs/evidence/distributed-files.md
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
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(TOP / "tests" / "suites"))
from distributed import skips_and_findings, table  # noqa: E402
from suite_runner import FAILED, PASSED, SKIPPED, UNEXPLAINED, read  # noqa: E402
from suites_page import one_line  # noqa: E402

GPUS = 4
TEST_LIMIT_S = 400  # PyTorch waits for half of it, by default 300 s
FILE_LIMIT_S = 3000


@dataclass(frozen=True)
class Suite:
    name: str
    files: tuple[str, ...]  # below test/distributed; a folder has another name in other versions of PyTorch
    launched: int = 0  # so many ranks; before PyTorch 2.8 each runs the file itself, as torchrun starts it


SUITES = (
    Suite("c10d over NCCL", ("test_c10d_nccl.py", "test_c10d_spawn_nccl.py", "test_nccl.py", "test_c10d_functional_native.py", "test_c10d_object_collectives.py",
                             "test_device_mesh.py")),
    Suite("c10d's operators", ("test_c10d_ops_nccl.py",), launched=GPUS),
    Suite("DDP", ("algorithms/ddp_comm_hooks/test_ddp_hooks.py", "_composable/test_replicate.py", "test_data_parallel.py")),
    Suite("fully_shard", ("_composable/fsdp/test_fully_shard_*.py", "_composable/test_composability/test_2d*.py")),
    Suite("FSDP", ("fsdp/test_*.py",)),
    Suite("DTensor", ("tensor/test_*.py", "_tensor/test_*.py")),
    Suite("tensor parallel", ("tensor/parallel/test_*.py",)),
    Suite("pipelining", ("pipelining/test_*.py",)),
    Suite("pipelining by several ranks", ("pipelining/test_schedule_multiproc.py", "pipelining/test_stage.py"), launched=2),
    Suite("checkpoints", ("checkpoint/test_*.py", "checkpoint/fsdp/test_*.py", "checkpoint/e2e/test_*.py")),
)  # fmt: skip
# By file and test, or by what the message has in it. The first row that fits stands.
WHY_FAILED = (
    (r"::test_nan_assert_", "a kernel of PyTorch's own has to trap at a NaN, which no simulated device runs"),
    (r"::test_intra_node_comm_all_reduce", "PyTorch's own kernels over NVLink, which NVML does not tell of in a rehearsal"),
    (r"::test_pass_nccl_options_config", "it reads the debug output of NVIDIA's NCCL"),
    (r"::test_param_layout_mismatch_error", "the other ranks hear at once of a rank that ends, which the test does not expect"),
    (r"::test_unwaited", "what is computed from a pending collective [waits in the host](../guide/rehearsal.md#several-ranks), where hardware's stream would"),
    (r"::test_ddp_complex_params", "PyTorch 2.6's FFT on the CPU refuses what cuFFT computes, without devtrace, too"),
    (r"::test_dcp_logger", "it counts a logger's handlers, to which pytest adds its own, without devtrace, too"),
    (r"Timeout|timed out", "it took longer than the limit, on two processors that others used as well"),
)  # fmt: skip


def why(test: dict) -> str:
    where = f"{test['file']}::{test['name']}"
    return next((reason for pattern, reason in WHY_FAILED if re.search(pattern, where) or re.search(pattern, test["message"])), UNEXPLAINED)


def each_rank_runs_the_file() -> bool:
    from torch.testing._internal import common_distributed

    return not hasattr(common_distributed, "MultiProcContinuousTest")


def worst(results: list) -> list:
    """Of a test that each rank tells of."""
    of_test = {}
    for result in results:
        known = of_test.get(result.name)
        if known is None or (known.outcome, result.outcome) in ((PASSED, SKIPPED), (PASSED, FAILED), (SKIPPED, FAILED)):
            of_test[result.name] = result
    return list(of_test.values())


def run(build: Path, scratch: Path, file: Path, name: str, launched: int, options) -> dict:
    folder = scratch / name.replace("/", "-").removesuffix(".py")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "logs").mkdir(parents=True)
    junit = folder / "results.xml"
    command = [build / "devtrace", "rehearse", "--gpus", GPUS, "--log-path", folder / "logs/devtrace-%p.jsonl", "--no-html", "--no-text", "--", sys.executable]
    if launched:
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", launched]
    command += ["-m", "pytest", "-q", "--noconftest", "-c", os.devnull, "-p", "no:cacheprovider", "-p", "forked_tests", "--timeout", TEST_LIMIT_S, f"--junitxml={junit}"]
    command += ["-k", options.only, *(["-n", options.jobs] if options.jobs and not launched else [])]
    path = ":".join(part for part in (str(HERE), os.environ.get("PYTHONPATH")) if part)
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(TEST_LIMIT_S // 2), "SAMPLE": str(options.sample)}
    with open(folder / "output.txt", "wb") as output:
        process = subprocess.Popen([str(word) for word in (*command, file)], cwd=file.parent, env=environment, stdout=output, stderr=output, start_new_session=True)
        try:
            process.wait(FILE_LIMIT_S)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)  # ranks that a test has left, too
        except ProcessLookupError:
            pass
        process.wait()
    results = worst([result for xml in sorted(folder.glob("results.xml*")) for result in read(xml)])
    findings = [json.loads(line) for log in (folder / "logs").glob("*.jsonl") for line in log.read_text(errors="replace").splitlines() if line.startswith('{"record":"finding"')]
    count = Counter(result.outcome for result in results)
    print(f"{name}: {count[PASSED]} passed, {count[FAILED]} failed, {count[SKIPPED]} skipped" + ("" if results else "; did not run to its end"), flush=True)
    return {
        "sample": options.sample,
        "tests": [{"file": name, "name": result.name, "outcome": result.outcome, "message": result.message} for result in results],
        "findings": [{key: each.get(key) for key in ("kind", "operation", "message")} for each in findings],
    }  # fmt: skip


def run_all(build: Path, scratch: Path, source: Path, options) -> dict:
    tests, launches = source / "test" / "distributed", each_rank_runs_the_file()
    found = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    found["torch"] = importlib.metadata.version("torch")
    of = found.setdefault("suites", {})
    for suite in SUITES:
        files = [file for pattern in suite.files for file in sorted(tests.glob(pattern))]
        taken = {file for other in SUITES if other.launched and launches and not suite.launched for pattern in other.files for file in tests.glob(pattern)}
        for file in files:
            name = str(file.relative_to(tests))
            if file in taken or (options.files and not any(word in name for word in options.files)):
                continue
            of.setdefault(suite.name, {})[name] = run(build, scratch, file, name, suite.launched if launches else 0, options)
            if options.json:
                options.json.write_text(json.dumps(found, indent=1) + "\n")
    return found


def every_nth(samples: set[int]) -> str:
    return ", ".join("every" if number == 1 else f"{number}th" for number in sorted(samples))


def markdown(found: dict) -> str:
    suites = {name: [test for file in files.values() for test in file["tests"]] for name, files in found["suites"].items()}
    every = [test for tests in suites.values() for test in tests]
    samples = {name: {file.get("sample", 1) for file in files.values()} for name, files in found["suites"].items()}
    lines = [
        "# PyTorch's files of tests of torch.distributed", "",
        f"Written by `make conformance-distributed`; PyTorch {found['torch']}, {GPUS} simulated devices. The files are those of `test/distributed` in PyTorch's source, unchanged, which",
        "[scripts/get/pytorch-tests](../../scripts/get/pytorch-tests) brings (`PYTORCH_SOURCE=folder`: a clone that is here already). [A plugin](../../tests/conformance/forked_tests.py) forks the",
        "ranks, where PyTorch starts an interpreter for each. A row tells of the files and tests that ran; those of a suite can be more.", "",
        "| suite | files | of which every … test | tests | passed | failed | skipped | passed of those that ran |", "|---|---:|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for name, tests in [*suites.items(), ("all", every)]:
        count = Counter(test["outcome"] for test in tests)
        ran = count[PASSED] + count[FAILED]
        share = f"{100 * count[PASSED] / ran:.0f} %" if ran else ""
        lines.append(f"| {name} | {len({test['file'] for test in tests})} | {every_nth(samples.get(name, set()))} | {len(tests)} | {count[PASSED]} | {count[FAILED]} | {count[SKIPPED]} | {share} |")
    nothing = [name for files in found["suites"].values() for name, file in files.items() if not file["tests"]]
    waiting = [suite.name for suite in SUITES if suite.name not in suites]
    lines += ["", *([f"Not run yet: {', '.join(waiting)}.", ""] if waiting else []), *([f"Of these files no test was heard of: {', '.join(f'`{name}`' for name in nothing)}.", ""] if nothing else []), "## Why tests fail", ""]
    failed = [test for test in every if test["outcome"] == FAILED]
    lines += table("why", Counter(why(test) for test in failed)) if failed else ["None does.", ""]
    unexplained = [test for test in failed if why(test) == UNEXPLAINED]
    if unexplained:
        lines += ["| file | test | what it says |", "|---|---|---|", *(f"| {test['file']} | `{test['name']}` | {one_line(test['message'])} |" for test in unexplained), ""]
    lines += skips_and_findings(every, [each for files in found["suites"].values() for file in files.values() for each in file["findings"]])
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with the devtrace command")
    parser.add_argument("--source", type=Path, help="PyTorch's source [fetched]")
    parser.add_argument("--jobs", type=int, default=2, help="tests at once")
    parser.add_argument("--sample", type=int, default=1, help="every so manieth test of a file")
    parser.add_argument("--only", default="", help="as pytest's -k")
    parser.add_argument("--files", nargs="*", default=[], help="only those with one of these words in their path")
    parser.add_argument("--scratch", type=Path, help="folder for logs and output [distributed-files, in that of --build]")
    parser.add_argument("--json", type=Path, help="write what came out there; what other files gave stays")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    parser.add_argument("--read", type=Path, help="run nothing: what an earlier run wrote by --json")
    options = parser.parse_args()
    build = (TOP / options.build).resolve()
    source = options.source
    if not source and not options.read:
        version = importlib.metadata.version("torch").partition("+")[0]
        source = TOP / ".cache" / f"pytorch-{version}"
        subprocess.run([TOP / "scripts/get/pytorch-tests", version, source], check=True)
    found = json.loads(options.read.read_text()) if options.read else run_all(build, options.scratch or build / "distributed-files", source.resolve(), options)
    if options.markdown:
        options.markdown.write_text(markdown(found), encoding="utf-8")
    return 0 if any(file["tests"] for files in found["suites"].values() for file in files.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
