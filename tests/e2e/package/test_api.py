"""`import devtrace` in a process that was started without it: start and stop, findings as objects, where a tensor came from, tests of placement."""

import os
import re
import subprocess
import sys

import pytest
from conftest import BUILD, DEVTRACE, TOP, environment, execute
from interpreters import OTHERS, pyenv_root
from notebooks import PACKAGE

DEVICES = [DEVTRACE, "rehearse", "--gpus", "2", "--no-trace", "--"]
FAULT = """
def make():
    return torch.ones(3, device="cuda:1")

def fault():
    w = make()
    x = torch.ones(3).to("cuda:0")
    try:
        return x + w
    except RuntimeError as error:
        return error
"""


def run(folder, program, words=DEVICES, **variables):
    (folder / "program.py").write_text(program)
    return execute([*words, sys.executable, "-Wdefault", "program.py"], folder, environment(None, {**PACKAGE, **variables}))


@pytest.mark.parametrize("order", ["import torch\nimport devtrace\ndevtrace.start()", "import devtrace\ndevtrace.start()\nimport torch"])
def test_it_begins_before_or_after_pytorch(tmp_path, order):
    outcome = run(tmp_path, order + FAULT + """
assert devtrace.findings() == [] and devtrace.last() is None
fault()
(finding,) = devtrace.findings()
assert finding == devtrace.last()
assert (finding.kind, finding.severity, finding.operation, finding.devices) == ("refused-op", "error", "aten::add", ("cuda:0", "cuda:1")), finding
x, w = finding.operands
assert (x.name, x.device, x.dtype, x.shape, x.moved.line, x.moved.function) == ("x", "cuda:0", "float32", (3,), finding.where.line - 2, "fault"), x
assert (w.name, w.device, w.created.function, w.moved) == ("w", "cuda:1", "make", None), w
assert finding.where.source.strip() == "return x + w" and finding.where.function == "fault" and finding.frames[0] == finding.where
assert finding.cause.fix and finding.cause.confidence in ("high", "medium", "low")
text = str(finding)
assert text.startswith(f"==") and "aten::add was given tensors on cuda:0 and cuda:1" in text and "The process" not in text
assert finding._repr_markdown_().startswith("#") and "<pre" in finding._repr_html_() and "<script" not in finding._repr_html_()
assert devtrace.report().endswith(".html") and devtrace.log_path().endswith(".jsonl")
fault()
assert len(devtrace.findings()) == 1
devtrace.stop()
devtrace.stop()
fault()
assert len(devtrace.findings()) == 1
print("done")
""")
    assert outcome.out == "done\n", outcome.err
    assert "refused-op" in outcome.err, "the report, as with the preload"


def test_a_block(tmp_path):
    outcome = run(tmp_path, "import torch, devtrace\n" + FAULT + """
with devtrace.watch(text=False) as watched:
    assert watched.findings == []
    fault()
    assert len(watched.findings) == 1
assert [each.operation for each in watched.findings] == ["aten::add"]
fault()
with devtrace.watch(text=False) as again:
    pass
assert again.findings == []
with devtrace.watch(text=False) as again:
    fault()
    with devtrace.watch() as inner:
        pass
    assert inner.findings == [] and len(again.findings) == 1, "it is known already, and occurred again"
try:
    with devtrace.watch(text=False) as raised:
        make() + torch.ones(3, device="cuda:0")
except RuntimeError:
    assert len(raised.findings) == 1
print("done")
""")
    assert (outcome.out, outcome.err) == ("done\n", "")


def test_where_a_tensor_came_from(tmp_path):
    outcome = run(tmp_path, "import torch, devtrace\nold = torch.ones(2, device='cuda:1')\ndevtrace.start(text=False)\n" + FAULT + """
w = make()
found = devtrace.where(w[1:])
assert (found.device, found.created.function, found.moved, found.moved_from) == ("cuda:1", "make", None, "")
moved = w.to("cuda:0")
found = devtrace.where(moved)
assert (found.device, found.created.function, found.moved.source.strip(), found.moved_from) == ("cuda:0", "make", 'moved = w.to("cuda:0")', "cuda:1"), found
assert "moved from cuda:1 at" in str(found)
assert devtrace.where(old).created is None and "nobody saw where" in str(devtrace.where(old))
for wrong in (3, None, [w]):
    try:
        devtrace.where(wrong)
    except TypeError as error:
        print(error)
""")
    assert outcome.out == "".join(f"devtrace.where takes a torch.Tensor, not {name}\n" for name in ("int", "NoneType", "list")), outcome.err


def test_where_needs_a_watched_process(tmp_path):
    outcome = run(tmp_path, "import torch, devtrace\ndevtrace.where(torch.ones(1))")
    assert outcome.err.endswith("DevtraceError: devtrace: this process is not watched; devtrace.start() first\n")


def test_a_models_placement(tmp_path):
    outcome = run(tmp_path, """
import torch, devtrace
from torch import nn
model = nn.Sequential(nn.Linear(2, 2).to("cuda:1"), nn.BatchNorm1d(2))
devtrace.assert_placement(model, {"0.*": "cuda:1", "1.*": torch.device("cpu")})
devtrace.assert_placement(model, {"0.weight": "cuda"})
try:
    devtrace.assert_placement(model, {"0.weight": "cuda:0", "*.running_mean": "cuda", "2.*": "cpu", "*": "cpu"})
except AssertionError as error:
    print(error)
""")
    assert outcome.out == """Sequential does not lie where it should:
  0.weight lies on cuda:1, not on cuda:0
  0.bias lies on cuda:1, not on cpu
  1.running_mean lies on cpu, not on cuda
  2.*: no parameter or buffer has such a name
""", outcome.err


def test_preloaded_it_is_the_same(tmp_path):
    outcome = run(tmp_path, "import torch, devtrace\n" + FAULT + """
fault()
assert len(devtrace.findings()) == 1
with devtrace.watch() as watched:
    fault()
assert len(watched.findings) == 1
fault()
assert devtrace.watching(), "it was so before"
print("done")
""".replace("devtrace.watching()", "__import__('devtrace.session').session.watching()"), [*DEVICES[:-2], "--no-text", "--"])
    assert outcome.out == "done\n", outcome.err


def test_a_forks_child(tmp_path):
    """Its parent's findings are not its own."""
    outcome = run(tmp_path, "import os, torch, devtrace\n" + FAULT + """
def child():
    assert devtrace.findings() == []
    fault()
    assert len(devtrace.findings()) == 1 and devtrace.log_path().endswith(f"-{os.getpid()}.jsonl")

devtrace.start(text=False)
if (pid := os.fork()) == 0:
    child()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert devtrace.findings() == []
devtrace.stop()
if (pid := os.fork()) == 0:
    devtrace.start(text=False)
    child()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print("done")
""")
    assert (outcome.out, outcome.err) == ("done\n", "")


@pytest.mark.parametrize("program, warning", [
    ("devtrace.start()\ndevtrace.start()", "devtrace watches this process already"),
    ("devtrace.start()\ndevtrace.start(text=False)", "devtrace watches this process already; the options hold from now on"),
    ("devtrace.start()\nimport os\nif os.fork() == 0:\n    devtrace.start()\n    os._exit(0)\nos.wait()", "devtrace watches this process already"),
    ("import os\nos.chdir('/proc')\ndevtrace.start()", "cannot write"),
    ("devtrace.start('/proc/none/x.jsonl')", "cannot write"),
    ("devtrace.start(colour=3)", "there is no option 'colour'"),
])
def test_what_start_warns_of(tmp_path, program, warning):
    outcome = run(tmp_path, f"import devtrace\n{program}\nprint('on')")
    assert outcome.out == "on\n" and outcome.code == 0
    assert len(re.findall(re.escape(warning), outcome.err)) == 1, outcome.err


def test_an_unsupported_python():
    olds = [path for minor, path in OTHERS if minor < 9]
    if not olds:
        pytest.skip(f"no CPython before 3.9 on PATH or in pyenv ({pyenv_root()})")
    done = subprocess.run([olds[-1], "-c", "import devtrace"], capture_output=True, text=True, env=environment(None, PACKAGE))
    assert done.stderr.splitlines()[-1] == "ImportError: devtrace: the package needs Python 3.9 or later; `devtrace run` does not"


def test_without_devices_and_without_pytorch(tmp_path):
    outcome = run(tmp_path, "import devtrace\ndevtrace.start()\nprint(devtrace.findings())", [])
    assert outcome.out == "[]\n" and "there is no NVIDIA driver here" in outcome.err and "devtrace rehearse --gpus 2" in outcome.err
    (tmp_path / "none").mkdir()
    outcome = execute([*DEVICES, sys._base_executable, "-S", "program.py"], tmp_path, environment(None, PACKAGE))
    assert outcome.out == "[]\n" and "there is no PyTorch here" in outcome.err


def test_the_command_is_not_there(tmp_path):
    """A package that was copied out of its installation."""
    (tmp_path / "devtrace").symlink_to(TOP / "python/devtrace")
    program = "import devtrace.installation as i; i._commands = lambda: iter(['']); import devtrace; devtrace.start()"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, env=environment(None))
    assert done.stderr.endswith("DevtraceError: devtrace: its command is neither installed with this package nor on PATH; say where it is in DEVTRACE\n")


def test_an_installation_finds_its_own_library(tmp_path):
    """`make install`'s folders, which may be moved."""
    place = tmp_path / "place"
    (place / "bin").mkdir(parents=True)
    (place / "lib/devtrace").mkdir(parents=True)
    (place / "bin/devtrace").hardlink_to(DEVTRACE) if os.stat(DEVTRACE).st_dev == os.stat(place).st_dev else (place / "bin/devtrace").write_bytes(DEVTRACE.read_bytes())
    (place / "bin/devtrace").chmod(0o755)
    (place / "lib/devtrace/libdevtrace.so").symlink_to(BUILD / "libdevtrace.so")
    (place / "lib/devtrace/python").symlink_to(TOP / "python")
    program = "from devtrace import installation; print(installation.command()); print(installation.library())"
    for variables in ({"DEVTRACE": str(place / "bin/devtrace")}, {"PATH": f"{place / 'bin'}:/usr/bin:/bin", "DEVTRACE": ""}):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment(None, {"PYTHONPATH": str(TOP / "python"), **variables}))
        if variables["DEVTRACE"]:
            assert done.stdout.split() == [str(place / "bin/devtrace"), str(place / "lib/devtrace/libdevtrace.so")], done.stderr
        else:
            assert done.stdout.split()[0] in (str(DEVTRACE), str(place / "bin/devtrace")), done.stderr


def test_the_pages_examples(tmp_path):
    page = (TOP / "docs/guide/notebook.md").read_text()
    outcome = run(tmp_path, "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)))
    assert outcome.code == 0 and "cuda:0" in outcome.out and "moved from cpu" in outcome.out, outcome.err


@pytest.mark.slow
def test_its_types_are_strict():
    """Of all that programs import: what the command alone runs of Arrow's, DuckDB's and Bokeh's has no types to hold it to, and takes minutes."""
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "--exclude", "devtrace/fleet/", TOP / "python/devtrace"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_editors_agree_on_its_types():
    """Pyright, and so what VS Code underlines. Its wheel and Node's are whole: nothing is downloaded."""
    variables = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    words = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, TOP / "python/devtrace"]
    done = subprocess.run(words, cwd=TOP, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
