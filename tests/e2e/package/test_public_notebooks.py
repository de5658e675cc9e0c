"""Notebooks of public threads, rebuilt small: the report under the failing cell, its cell and line, and the changed text, which runs."""

import json

import pytest
from conftest import DEVTRACE, TOP, environment
from jupyterlab import jupyterlab, run_all, wait
from nightly import first
from notebooks import PACKAGE, Notebook, changed, html_of, kernel_spec, said
from pages import browser  # noqa: F401

FOLDER = TOP / "tests/workloads/notebooks"
WITHOUT_DEVTRACE = [DEVTRACE, "rehearse", "--gpus", "2", "--no-trace", "--"]
INPUT, LABEL = 'self(dataset["train_input"].to(device', '\n            loss = (prediction - dataset["train_label"].to(device)'

# The cell and line that fail; what is changed in which cell, again where something else fails then; what it prints at the end.
EXPECTED = {
    "pykan118": ((4, 3), [
        (2, INPUT + "))" + LABEL, INPUT + ").to(next(self.parameters()).device))" + LABEL + ".to(prediction.device)"),
    ], "fitted: True"),
    "pbdl_book31": ((4, 2), [(3, "torch.tensor([step / steps])", "torch.tensor([step / steps], device=start.device)")], "4 steps to (32, 2)"),
    "fastai3297": ((4, 1), [(2, "        self.loss = self.loss_func(", "        self.loss_func.to(y.device)\n        self.loss = self.loss_func(")], "a loss: True"),
    "cgccp_2023_1": ((3, 4), [(2, "* QUANTILES)", "* QUANTILES.to(spread.device))")], "4 steps"),
}


def cells_of(name):
    return ["".join(cell["source"]) for cell in json.loads((FOLDER / f"{name}.ipynb").read_text())["cells"]]


def test_each_is_expected():
    assert {file.stem for file in FOLDER.glob("*.ipynb")} == set(EXPECTED)


@pytest.mark.parametrize("name", first(1, EXPECTED))
def test_in_a_kernel(tmp_path, name):
    it = Notebook(tmp_path, WITHOUT_DEVTRACE)
    (cell, line), changes, prints = EXPECTED[name]
    cells, counts, begin = cells_of(name), {}, 1
    try:
        for number, before, after in [*changes, (0, "", "")]:
            for place in range(begin, len(cells) + 1):
                counts[place] = len(it.notebook.cells) + 1
                outputs = it.run(cells[place - 1])
                if place < cell:
                    assert html_of(outputs) == [] and all(each["output_type"] != "error" for each in outputs), outputs
            if not number:
                break
            assert [each["output_type"] for each in outputs if each["output_type"] != "stream"] == ["display_data", "error"], outputs
            (shown,) = html_of(outputs)
            assert f"<b>devtrace</b>: Cell In[{counts[cell]}], line {line}<" in shown, shown
            assert f"Cell In[{counts[number]}] with the fix <button" in shown and "ipykernel" not in shown, shown
            assert "InteractiveShell" not in shown and "IPCompleter" not in shown, "what holds the user's variables in any notebook"
            assert before in cells[number - 1] and changed(outputs) == [cells[number - 1].replace(before, after)], shown
            (cells[number - 1],) = changed(outputs)
            begin = number
        assert html_of(outputs) == [] and prints in said(outputs).splitlines(), outputs
    finally:
        it.end()


@pytest.mark.slow
def test_in_jupyterlab(browser, tmp_path):  # noqa: F811
    kernel_spec(tmp_path, WITHOUT_DEVTRACE)
    with jupyterlab(tmp_path, {name: cells_of(name) for name in EXPECTED}, "tested", environment(None, PACKAGE)) as addresses:
        for name, ((cell, line), changes, _) in EXPECTED.items():
            run_all(browser, addresses[name])
            # Under the cell that fails, and above the traceback.
            outputs = wait(browser, f"""
                const cell = document.querySelectorAll('.jp-Notebook .jp-CodeCell')[{cell - 1}];
                const all = [...cell?.querySelectorAll('.jp-OutputArea-output') ?? []].map(each => each.innerText);
                return all.some(each => each.startsWith('--------')) && all""")
            (report,) = (place for place, text in enumerate(outputs) if text.startswith(f"devtrace: Cell In[{cell}], line {line}\n"))
            assert outputs[report + 1].startswith("--------"), outputs
            assert browser.execute_script("return document.querySelectorAll('.devtrace').length") == 1
            number, before, after = changes[0]
            assert browser.execute_script("const button = document.querySelector('.devtrace button'); button.click(); return button.textContent") == "copied"
            text = browser.execute_script("return document.querySelector('.devtrace details pre').textContent")
            assert text == cells_of(name)[number - 1].replace(before, after)
