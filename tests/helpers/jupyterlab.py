"""A notebook in a real JupyterLab, in a real headless browser."""

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat

# A model in one cell, and what it is given on another device in the next.
ENCODER = [
    "import torch\nfrom torch import nn\n%load_ext devtrace",
    "class Encoder(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.embeddings = nn.Embedding(100, 8)\n\n"
    "    def forward(self, ids):\n        return self.embeddings(ids).mean(1)\n\nmodel = Encoder().to('cuda:1')",
    "ids = torch.tensor([[3, 1, 4]], device='cuda:0')\nvector = model(ids)\nprint(vector.shape)",
]


@contextlib.contextmanager
def jupyterlab(folder: Path, notebooks: dict[str, list[str]], kernel: str, env: dict):
    """The addresses of notebooks, each of its cells, in JupyterLab with that kernel; `folder` is its own."""
    for name, cells in notebooks.items():
        notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}},
                                            cells=[nbformat.v4.new_code_cell(text) for text in cells])
        nbformat.write(notebook, folder / f"{name}.ipynb")
    home = {each: str(folder / "home") for each in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR")}
    settings = folder / "home/@jupyterlab/apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')  # else it asks in front of the notebook
    log = folder / "jupyterlab.txt"
    with open(log, "w") as out:
        server = subprocess.Popen([sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port=0", "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True",
                                   "--LabApp.expose_app_in_browser=True", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"],
                                  cwd=folder, env={**env, **home, "JUPYTER_PATH": str(folder / "jupyter")}, stdout=out, stderr=out, start_new_session=True)
    try:
        deadline = time.monotonic() + 90
        address = ""
        while not address:
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
            address = next((word.split("/lab")[0] for word in log.read_text().split() if word.startswith("http://127.0.0.1:")), "")
        urllib.request.urlopen(f"{address}/api/status", timeout=30).close()
        yield {name: f"{address}/doc/tree/{name}.ipynb?reset" for name in notebooks}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, 15)
        server.wait(30)


def wait(driver, script: str, seconds: float = 120):
    """What a script gives as soon as that is something."""
    deadline = time.monotonic() + seconds
    while not (found := driver.execute_script(script)):
        assert time.monotonic() < deadline, f"not in {seconds} s: {script}"
        time.sleep(0.1)
    return found


def run_all(driver, address: str) -> None:
    """Opens the notebook and runs its cells, as its menu does."""
    driver.get(address)
    wait(driver, "return window.jupyterapp && document.querySelectorAll('.jp-Notebook .jp-CodeCell').length")
    session = "window.jupyterapp.shell.currentWidget?.context?.sessionContext"
    wait(driver, f"return {session}?.isReady && {session}.session?.kernel?.status === 'idle'")
    driver.execute_script("window.jupyterapp.commands.execute('notebook:run-all-cells')")
