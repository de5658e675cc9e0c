"""One suite: its sdist, and each of its files under rehearsal; what fails there once more without. What pytest's JUnit files say of each
test, and why one fails that the same test without devtrace does not explain."""

import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from suites import Suite

HERE = Path(__file__).resolve().parent

TEST_LIMIT_S = 300
FILE_LIMIT_S = 3000
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Result:
    name: str  # class and test
    outcome: str
    message: str = ""
    text: str = ""  # with its traceback


def read(junit: Path) -> list[Result]:
    """Empty where pytest did not get so far."""
    if not junit.exists():
        return []
    return [one(case) for case in ElementTree.parse(junit).iter("testcase")]


def one(case) -> Result:
    name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
    for tag, outcome in (("failure", FAILED), ("error", FAILED), ("skipped", SKIPPED)):
        found = case.find(tag)
        if found is not None:
            return Result(name, outcome, found.get("message") or "", found.text or "")
    return Result(name, PASSED)


# What the message has in it (a regular expression), and the reason as the page says it. The first row that fits stands.
REASONS = (
    (r"NCCL between processes is not simulated", "it wants NCCL between processes, which a rehearsal refuses"),
    (r"huggingface\.co|LocalEntryNotFound|OfflineModeIsEnabled|Can't load (the configuration|tokenizer)|offline mode|couldn't connect to|Cannot (find|reach)",
     "it wants a model or data from the Hugging Face hub, and runs without a network"),
    (r"OutOfMemoryError.*Tried to allocate \d\d[.\d]* GiB", "it fills a device, and the host that runs the rehearsal has less memory than that"),
    (r"package must be available|No module named|requires the `?\w+`? library|ImportError", "it wants a package that is not there"),
    (r"Timeout(Expired| )|Failed: Timeout", "it took longer than the limit"),
    (r"fixture '\w+' not found", "it wants a fixture of a conftest.py that the sdist lacks"),
    (r"No such file or directory", "it wants a file that the sdist lacks"),
)  # fmt: skip
UNEXPLAINED = "not explained"


def reason(message: str) -> str:
    return next((why for pattern, why in REASONS if re.search(pattern, message)), UNEXPLAINED)


def why(failed: Result, without: str | None) -> str:
    """By what it says; by its traceback, which quotes the test's text, only where the test passes without devtrace."""
    told = reason(failed.message)
    return told if told != UNEXPLAINED or without == FAILED else reason(failed.text)


class Runner:
    def __init__(self, suite: Suite, build: Path, scratch: Path, keep: bool):
        self.suite, self.scratch, self.keep = suite, scratch / suite.name, keep
        self.version = importlib.metadata.version(suite.name)
        self.rehearse = [str(build / "devtrace"), "rehearse", "--gpus", "2", "--option", f"log_path={self.scratch}/logs/devtrace-%p.jsonl:text=0:html=0", "--"]
        (self.scratch / "logs").mkdir(parents=True, exist_ok=True)

    def fetch(self) -> None:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
        sdist = self.scratch / f"{self.suite.name}-{self.version}.tar.gz"
        if not sdist.exists():
            subprocess.run([*pip, "download", "--no-deps", "--no-binary", ":all:", "-d", str(self.scratch), f"{self.suite.name}=={self.version}"], check=True)
        with tarfile.open(sdist) as archive:
            archive.extractall(self.scratch, filter="data")
        (self.tests / "tests" / "__init__.py").touch()  # sdists lack it, and tests import what lies beside them
        if self.suite.ours:
            shutil.copy(HERE / self.suite.ours, self.tests / "tests")
        needs = self.scratch / "needs"
        if self.suite.needs and not needs.exists():
            subprocess.run([*pip, "install", "--no-deps", "--target", str(needs), *self.suite.needs], check=True)
        commands = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"  # torchrun and accelerate are started by name
        # An extension that is compiled takes minutes, and nobody computes its kernels; without nvcc, peft's BOFT takes PyTorch's operators.
        without_nvcc = {"CUDA_HOME": str(self.scratch / "no-nvcc"), "TORCH_EXTENSIONS_DIR": str(self.scratch / "extensions")}
        self.environment = {**os.environ, **OFFLINE, **without_nvcc, "PYTHONPATH": str(needs), "PATH": commands}

    @property
    def tests(self) -> Path:
        return self.scratch / f"{self.suite.name}-{self.version}"

    def pytest(self, prefix: list[str], junit: Path, arguments: list[str]) -> None:
        """Leaves `junit`, unless it takes too long or dies."""
        command = [*prefix, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--timeout", str(TEST_LIMIT_S), f"--junitxml={junit}"]
        given = junit.with_suffix(".arguments")  # thousands of names are too long for a command line
        given.write_text("\n".join((*self.suite.arguments, *arguments)) + "\n")
        with open(junit.with_suffix(".txt"), "wb") as output:
            process = subprocess.Popen([*command, f"@{given}"], cwd=self.tests, env=self.environment, stdout=output, stderr=output, start_new_session=True)
            try:
                process.wait(FILE_LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with pytest, which the command started
                process.wait()

    def file(self, file: str) -> dict:
        """{"outcomes": {test: …}, "failures": […], "ended": …} of one file."""
        whole, _, of_class = file.partition("::")
        junit = self.scratch / f"{Path(whole).stem}{of_class and '-'}{of_class}.xml"
        if not (self.keep and junit.exists()):
            self.pytest(self.rehearse, junit, [f"tests/{file}"])
        results = read(junit)
        failed = {r.name: r for r in results if r.outcome == FAILED}
        without = {}
        if failed:
            again = junit.with_name(f"{junit.stem}-without.xml")
            names = {r.name.partition("::")[2] for r in failed.values()}
            if not (self.keep and again.exists()):
                self.pytest([], again, [f"tests/{file}", *(f"--deselect={d}" for d in self.others(whole, names, results))])
            without = {r.name: r.outcome for r in read(again)}
        print(f"{self.suite.name}: {file}: {len(results)} tests, {len(failed)} failed" + ("" if results else "; did not run to its end"), flush=True)
        return {
            "outcomes": {f"{whole}::{r.name}": r.outcome for r in results},
            "failures": [
                {"test": f"{whole}::{name}", "message": r.message, "reason": why(r, without.get(name)), "without": without.get(name)} for name, r in failed.items()
            ],
            "ended": bool(results),
        }  # fmt: skip

    @staticmethod
    def others(file: str, wanted: set[str], results) -> list[str]:
        """Tests that need not run again."""
        names = (r.name.partition("::") for r in results if r.name.partition("::")[2] not in wanted)
        return [f"tests/{file}::{name}" if of == Path(file).stem else f"tests/{file}::{of}::{name}" for of, _, name in names]

    def findings(self) -> list[dict]:
        records = []
        for log in sorted((self.scratch / "logs").glob("*.jsonl")):
            for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    record = json.loads(line)
                except json.JSONDecodeError:
                    continue
                if record.get("record") == "finding":
                    records.append(record)
        return records


def run(suite: Suite, build: Path, scratch: Path, only: list[str], keep: bool) -> dict:
    runner = Runner(suite, build, scratch, keep)
    runner.fetch()
    files = {file: runner.file(file) for file in suite.files if not only or file in only}
    return {
        "version": runner.version,
        "outcomes": {test: outcome for of in files.values() for test, outcome in of["outcomes"].items()},
        "failures": [failure for of in files.values() for failure in of["failures"]],
        "not_ended": [file for file, of in files.items() if not of["ended"]],
        "findings": [{k: f.get(k) for k in ("kind", "operation", "devices", "severity", "message")} for f in runner.findings()],
    }
