"""Other projects' test suites under rehearsal; writes docs/suites.md. Needs PyPI.

    python tests/suites/run.py --build build --markdown docs/suites.md
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent

from failure_reasons import reason  # noqa: E402
from results import FAILED, read  # noqa: E402
from suites import SUITES, Suite  # noqa: E402
from suites_page import markdown  # noqa: E402

TEST_LIMIT_S = 120
FILE_LIMIT_S = 1500
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


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
        needs = self.scratch / "needs"
        if self.suite.needs and not needs.exists():
            subprocess.run([*pip, "install", "--no-deps", "--target", str(needs), *self.suite.needs], check=True)
        commands = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"  # torchrun and accelerate are started by name
        self.environment = {**os.environ, **OFFLINE, "PYTHONPATH": str(needs), "PATH": commands}

    @property
    def tests(self) -> Path:
        return self.scratch / f"{self.suite.name}-{self.version}"

    def pytest(self, prefix: list[str], junit: Path, arguments: list[str]) -> None:
        """Leaves `junit`, unless it takes too long or dies."""
        command = [*prefix, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--timeout", str(TEST_LIMIT_S), f"--junitxml={junit}"]
        with open(junit.with_suffix(".txt"), "wb") as output:
            try:
                subprocess.run([*command, *self.suite.arguments, *arguments], cwd=self.tests, env=self.environment, stdout=output, stderr=output, timeout=FILE_LIMIT_S)
            except subprocess.TimeoutExpired:
                pass

    def file(self, file: str) -> dict:
        """{"outcomes": {test: …}, "failures": […], "ended": …} of one file."""
        junit = self.scratch / f"{Path(file).stem}.xml"
        if not (self.keep and junit.exists()):
            self.pytest(self.rehearse, junit, [f"tests/{file}"])
        results = read(junit)
        failed = {r.name: r for r in results if r.outcome == FAILED}
        without = {}
        if failed:
            again = junit.with_name(f"{junit.stem}-without.xml")
            names = {r.name.partition("::")[2] for r in failed.values()}
            if not (self.keep and again.exists()):
                self.pytest([], again, [f"tests/{file}", *(f"--deselect={d}" for d in self.others(file, names, results))])
            without = {r.name: r.outcome for r in read(again)}
        print(f"{self.suite.name}: {file}: {len(results)} tests, {len(failed)} failed" + ("" if results else "; did not run to its end"), flush=True)
        return {
            "outcomes": {f"{file}::{r.name}": r.outcome for r in results},
            "failures": [
                {"test": f"{file}::{name}", "message": r.message, "reason": reason(r.message + r.text), "without": without.get(name)} for name, r in failed.items()
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with the devtrace command")
    parser.add_argument("--json", type=Path, help="write what came out there")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    parser.add_argument("--suites", nargs="*", help="only these")
    parser.add_argument("--files", nargs="*", default=[], help="only these files")
    parser.add_argument("--keep", action="store_true", help="files that ran already do not run again")
    parser.add_argument("--read", nargs="*", type=Path, help="run nothing: what earlier runs wrote by --json")
    options = parser.parse_args()
    build = (TOP / options.build).resolve()
    if options.read:
        verdicts = {name: suite for file in options.read for name, suite in json.loads(file.read_text()).items()}
    else:
        verdicts = {s.name: run(s, build, build / "suites", options.files, options.keep) for s in SUITES if not options.suites or s.name in options.suites}
    if options.json:
        options.json.write_text(json.dumps(verdicts, indent=1) + "\n")
    if options.markdown:
        versions = f"PyTorch {importlib.metadata.version('torch')}, transformers {importlib.metadata.version('transformers')}"
        options.markdown.write_text(markdown(verdicts, versions), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
