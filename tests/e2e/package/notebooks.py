"""Notebooks whose cells run in a real kernel, as JupyterLab runs them."""

import html
import json
import os
import re
import sys
from pathlib import Path

import nbformat
from conftest import DEVTRACE, TOP, environment
from nbclient import NotebookClient

PACKAGE = {"PYTHONPATH": str(TOP / "python"), "DEVTRACE": str(DEVTRACE)}


def kernel_spec(folder: Path, words: list, name: str = "tested") -> None:
    """A kernel that is started with `words` in front of Python's own command."""
    place = folder / "jupyter/kernels" / name
    place.mkdir(parents=True)
    argv = [*map(str, words), sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (place / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": name, "language": "python"}))


class Notebook:
    """A kernel in simulated devices (of which devtrace itself is no part), and what its cells give."""

    def __init__(self, folder: Path, words: list | None = None, name: str = "tested") -> None:
        if words is not None:
            kernel_spec(folder, words, name)
        self.folder = folder
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update(environment(None, {**PACKAGE, "JUPYTER_PATH": str(folder / "jupyter"), "IPYTHONDIR": str(folder / "ipython")}))
        try:
            self.notebook = nbformat.v4.new_notebook()
            self.client = NotebookClient(self.notebook, kernel_name=name, allow_errors=True, timeout=120, resources={"metadata": {"path": str(folder)}})
            self.client.create_kernel_manager()
            self.client.start_new_kernel()
            self.client.start_new_kernel_client()
        finally:
            os.environ.clear()
            os.environ.update(before)

    def run(self, text: str) -> list:
        """The outputs of a cell."""
        cell = nbformat.v4.new_code_cell(text)
        self.notebook.cells.append(cell)
        self.client.execute_cell(cell, len(self.notebook.cells) - 1)
        return cell.outputs

    def end(self) -> None:
        self.client._cleanup_kernel()


def html_of(outputs: list) -> list[str]:
    return [each["data"]["text/html"] for each in outputs if "text/html" in each.get("data", {})]


def changed(outputs: list) -> list[str]:
    """The changed texts of all cells, as the buttons copy them."""
    return [html.unescape(text) for shown in html_of(outputs) for text in re.findall(r"<pre[^>]*>([^<]*)</pre></details>", shown)]


def said(outputs: list) -> str:
    return "".join(each.get("text", "") for each in outputs)
