"""`%load_ext devtrace` in real kernels: the report under the cell, cells by their names, the cell's changed text, kernels on simulated devices."""

import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from conftest import DEVTRACE, TOP, environment
from notebooks import PACKAGE, Notebook, changed, html_of, said

WITHOUT_DEVTRACE = [DEVTRACE, "rehearse", "--gpus", "2", "--no-trace", "--"]
IMPORTS = "import torch\nfrom torch import nn"
MODEL = "model = nn.Embedding(8, 2).to('cuda:1')\nids = torch.tensor([1, 2]).to('cuda:0')"
FAULT = "%time\nfor _ in range(1):\n    rows = model(ids)\nprint(rows.sum())"


@pytest.fixture
def notebook(tmp_path):
    opened = []

    def start(words=None, name="tested"):
        opened.append(Notebook(tmp_path, words, name))
        return opened[-1]

    yield start
    for each in opened:
        each.end()


def test_the_report_stands_under_the_cell(notebook):
    """In a kernel that was started with nothing, PyTorch imported before; a line's magic in the cell stays in its changed text."""
    it = notebook(WITHOUT_DEVTRACE)
    assert it.run(IMPORTS) == [] and it.run("%load_ext devtrace") == [] and it.run(MODEL) == []
    outputs = it.run(FAULT)
    kinds = [each["output_type"] for each in outputs if each.get("name") != "stdout"]
    assert kinds == ["display_data", "error"], "above the traceback"
    (shown,) = html_of(outputs)
    assert "<b>devtrace</b>: Cell In[4], line 3" in shown and "Cell In[3], line 2" in shown
    assert "ipykernel" not in shown and "<script" not in shown and "SUMMARY" not in shown
    assert "ids" in shown and "parameter of Embedding" in shown
    (cell,) = changed(outputs)
    assert cell.startswith("%time\nfor _ in range(1):\n    rows = model(ids.to(") and cell.endswith("\nprint(rows.sum())")
    repaired = it.run(cell)
    assert [each["output_type"] for each in repaired if each.get("name") != "stdout"] == [], "the changed text runs"
    # The same cell again: it is no new finding, and shown all the same.
    assert len(html_of(it.run(FAULT))) == 1
    assert html_of(it.run("print(1)")) == []
    # Nothing raises, and the report comes at the cell's end.
    assert len(html_of(it.run("try:\n    model(ids)\nexcept RuntimeError:\n    pass"))) == 1


def test_magics_stay_in_the_changed_text(notebook):
    """They are no Python, some are several lines, and what `%time` and cell magics run is compiled apart. A statement over several lines is replaced as a whole."""
    it = notebook(WITHOUT_DEVTRACE)
    it.run(f"{IMPORTS}\n%load_ext devtrace")
    it.run(MODEL)
    statement = "rows = model(\n    ids)"
    for number, (cell, line) in enumerate([
        (f"%precision 3\n!true\nhere = %pwd\n{statement}\nprint(rows.sum())", 4),
        (f"!true \\\n  && true\nk = 1\n{statement}\nk = 2", 3),
        (f"%time k = 1\n{statement}", 2),
        (f"%%time\nk = 1\n{statement}\nk = 2", 3),
        (f"\n%%time\n\nk = 1\n{statement}", 5),
        (f"%%devtrace\nk = 1\n{statement}", 3),
        (f"%%capture seen\nk = 1\n{statement}", 3),
        ("%%time\nmodel(ids)", 2),
        ("k = 1\n%time rows = model(ids)\nk = 2", 2),
    ], 3):
        outputs = it.run(cell)
        (shown,) = html_of(outputs)
        assert f"<b>devtrace</b>: Cell In[{number}], line {line}<" in shown and f"at &lt;module&gt; (Cell In[{number}], line {line})" in shown, shown
        assert changed(outputs) == [cell.replace("ids)", "ids.to(next(model.parameters()).device))")], cell
    # A function that was timed has the file name of all that is: what is timed later is not taken for it.
    it.run("%%time\ndef look_up(it):\n    return model(it)")
    outputs = it.run("%%time\nk = 1\nj = 2\nlook_up(ids)")
    assert "&lt;timed exec&gt;:2" in html_of(outputs)[0] and changed(outputs) == []


def test_cells_of_colab(monkeypatch):
    """IPython 7 has no way to name them; it calls their files so."""
    monkeypatch.syspath_prepend(TOP / "python")
    from devtrace.cells import Cells

    cells = Cells(SimpleNamespace(compile=object()))
    assert cells.number("<ipython-input-12-0a1b2c>") == 12 and cells.number("/tmp/program.py") is None


def test_off_on_and_one_cell(notebook):
    it = notebook(WITHOUT_DEVTRACE)
    it.run(IMPORTS)
    it.run("%load_ext devtrace")
    it.run(MODEL)
    assert it.run("%devtrace off") == [] and html_of(it.run(FAULT)) == []
    assert len(html_of(it.run("%%devtrace\nmodel(ids)"))) == 1
    assert html_of(it.run("model(ids)")) == []
    assert it.run("%devtrace on") == [] and len(html_of(it.run("model(ids)"))) == 1
    assert "the magics are" in said(it.run("%devtrace of"))
    assert it.run("%unload_ext devtrace") == [] and html_of(it.run("model(ids)")) == []
    assert "not found" in said(it.run("%devtrace off"))


def test_a_kernel_that_cannot_write_here(notebook):
    """Nobody may in /proc, root neither."""
    it = notebook(WITHOUT_DEVTRACE)
    it.run(IMPORTS)
    it.run("import os\nos.chdir('/proc')")
    assert it.run("%load_ext devtrace") == []
    it.run(MODEL)
    assert len(html_of(it.run("model(ids)"))) == 1


def test_without_devices_it_is_said_what_to_do(notebook):
    it = notebook([])
    assert "%devtrace_rehearse 2" in said(it.run("%load_ext devtrace"))
    it.run("%devtrace_rehearse 3")
    deadline = time.monotonic() + 60
    while True:  # what is asked before it is there is answered by the new one, or lost
        time.sleep(1)
        devices = said(it.run("import torch; print(torch.cuda.device_count())"))
        if devices == "3\n" or time.monotonic() > deadline:
            break
    assert devices == "3\n"
    it.run("from torch import nn")
    it.run(MODEL)
    assert len(html_of(it.run("model(ids)"))) == 1, "the extension comes with it"
    assert "takes a number of devices, not 'many'" in said(it.run("%devtrace_rehearse many"))


def test_a_kernel_among_the_others(notebook, tmp_path):
    done = subprocess.run([DEVTRACE, "kernel", "install", "--rehearse", "2", "--prefix", tmp_path, "--python", sys.executable],
                          env=environment(None), capture_output=True, text=True, check=True)
    assert "Python (2 simulated GPUs)" in done.stdout
    shutil.copytree(tmp_path / "share/jupyter", tmp_path / "jupyter")
    it = notebook(name="devtrace-2")
    assert said(it.run(f"{IMPORTS}\nprint(torch.cuda.device_count())")) == "2\n"
    it.run(MODEL)
    assert len(html_of(it.run(FAULT))) == 1
    # Stop reaches the program.
    it.client.timeout, it.client.interrupt_on_timeout = 3, True
    assert "KeyboardInterrupt" in [each.get("ename") for each in it.run("while True:\n    pass")]
    it.client.timeout = 60
    assert said(it.run("print(1)")) == "1\n"


@pytest.mark.parametrize("variables, options, place", [
    ({"JUPYTER_DATA_DIR": "data"}, [], "data/kernels"),
    ({"XDG_DATA_HOME": "xdg"}, [], "xdg/jupyter/kernels"),
    ({"HOME": "home"}, [], "home/.local/share/jupyter/kernels"),
    ({"VIRTUAL_ENV": "venv", "JUPYTER_DATA_DIR": "data"}, [], "venv/share/jupyter/kernels"),
    ({"VIRTUAL_ENV": "venv", "JUPYTER_DATA_DIR": "data"}, ["--user"], "data/kernels"),
])
def test_where_a_kernel_is_put(tmp_path, variables, options, place):
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to(sys.executable)
    plain = {key: value for key, value in environment(None).items() if key not in ("VIRTUAL_ENV", "JUPYTER_DATA_DIR", "XDG_DATA_HOME")}
    subprocess.run([DEVTRACE, "kernel", "install", *options], env={**plain, **{key: str(tmp_path / value) for key, value in variables.items()}}, check=True,
                   capture_output=True)
    kernel = json.loads((tmp_path / place / "devtrace-2/kernel.json").read_text())
    assert kernel["argv"][:4] == [str(DEVTRACE), "rehearse", "--gpus", "2"] and "{connection_file}" in kernel["argv"]


@pytest.mark.parametrize("arguments, complaint", [
    (["install", "--python", "no-such-python"], "there is no no-such-python"),
    (["install", "--rehearse", "0"], "not in range 1 to 16"),
    (["install", "--prefix", "/proc"], "cannot write /proc/share/jupyter/kernels/devtrace-2/kernel.json"),
    (["install", "--prefix", "a", "--user"], "excludes"),
    ([], "subcommand is required"),
])
def test_bad_input(arguments, complaint):
    done = subprocess.run([DEVTRACE, "kernel", *arguments], env=environment(None), capture_output=True, text=True)
    assert done.returncode == 2 and complaint in done.stderr, done.stderr


def test_in_a_terminal_it_is_text(tmp_path):
    """IPython's own shell: text above the traceback."""
    program = "\n".join([*IMPORTS.split("\n"), "%load_ext devtrace", *MODEL.split("\n"), "model(ids)", "print('on')", ""])
    done = subprocess.run([*WITHOUT_DEVTRACE, sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=nocolor"], cwd=tmp_path, input=program,
                          capture_output=True, text=True, env=environment(None, {**PACKAGE, "IPYTHONDIR": str(tmp_path / "ipython")}), timeout=120)
    assert "fix Cell In[6], line 1" in done.stdout and "on\n" in done.stdout, done.stdout + done.stderr
    assert done.stdout.index("fix Cell In[6]") < done.stdout.index("Traceback")


def test_without_ipython(tmp_path):
    """The package comes without it."""
    (tmp_path / "IPython.py").write_text("raise ImportError('none here')")
    program = "import devtrace\ntry:\n    devtrace.load_ipython_extension(None)\nexcept devtrace.DevtraceError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, env=environment(None, {**PACKAGE, "PYTHONPATH": f"{tmp_path}{os.pathsep}{TOP / 'python'}"}))
    assert done.stdout == "devtrace: there is no IPython here; devtrace.start() watches without it\n", done.stderr


def typed(folder, lines, last):
    """What IPython's own terminal shows when lines are typed, each at a prompt, until it shows `last`."""
    environ = environment(None, {**PACKAGE, "IPYTHONDIR": str(folder / "ipython"), "TERM": "dumb", "PYTHONUNBUFFERED": "1"})
    main, terminal = os.openpty()
    words = [*WITHOUT_DEVTRACE, sys.executable, "-m", "IPython", "--no-banner", "--colors=nocolor", "--no-confirm-exit", "--simple-prompt"]
    process = subprocess.Popen(words, cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal, env=environ, start_new_session=True)
    os.close(terminal)
    shown = ""
    try:
        for line in [*lines, None]:
            begin, deadline = len(shown), time.monotonic() + 60
            while not (last in shown if line is None else re.search(r"(In \[\d+\]: |ipdb> )$", shown[begin:])):
                assert time.monotonic() < deadline and select.select([main], [], [], 60)[0], shown
                shown += os.read(main, 65536).decode(errors="replace").replace("\r", "")
            if line is not None:
                os.write(main, f"{line}\n".encode())
    finally:
        process.kill()
        process.wait()
        os.close(main)
    return shown


def test_the_debugger_and_a_terminal(tmp_path):
    """`%debug` after a failing cell stands in the frame that raised, as without devtrace. The report is text, above the traceback."""
    lines = [*IMPORTS.split("\n"), "%load_ext devtrace", *MODEL.split("\n"), "model(ids)", "%debug", "p 'in', input.device.index", "q", "print('go' + 'on')"]
    shown = typed(tmp_path, lines, "goon")
    assert shown.index("fix Cell In[6], line 1") < shown.index("Traceback"), shown
    assert "embedding(weight, input" in shown[shown.index("%debug") :] and "('in', 0)" in shown, shown
    assert shown.count("fix Cell In[6]") == 1, "not again by the debugger"
