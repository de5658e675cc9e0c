"""recipes/fleet on Ray: three nodes of a real cluster, one of which dies while a cell runs on it; the version that brought a fault is found."""

import json
import os
import re
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from conftest import DEVTRACE, TOP, environment, execute
from local_wheel import make_wheel
from running import has_ended

FLEET = TOP / "recipes" / "fleet"
# 1.1 forgets on which device its argument is, which only a second device shows.
PACKAGE = "import torch\n\ndef like(tensor):\n    return torch.ones_like(tensor{how})\n"
PROGRAM = """
import os
import socket
import time

import shapes
import torch

if socket.gethostname().endswith("2") and not os.path.exists({flag!r}):
    open({flag!r}, "x").write(str(os.getpid()))
    time.sleep(600)  # until its node is killed

def {step}(tensor):
    return tensor + shapes.like(tensor)

{step}(torch.ones(3, device=f"cuda:{{torch.cuda.device_count() - 1}}"))
"""
# Three nodes; the last is killed as soon as a cell hangs on it.
CLUSTER = """
import os, subprocess, sys, threading, time
from ray.cluster_utils import Cluster

flag, *words = sys.argv[1:]
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, "env_vars": {"DEVTRACE_SIM_HOST": "0"}})
nodes = [cluster.add_node(num_cpus=1, env_vars={"DEVTRACE_SIM_HOST": str(number)}) for number in (1, 2)]
cluster.wait_for_nodes()
matrix = subprocess.Popen(words, env={**os.environ, "RAY_ADDRESS": cluster.address})
while matrix.poll() is None and not os.path.exists(flag):
    time.sleep(0.1)
cluster.remove_node(nodes[1], allow_graceful=False)
code = matrix.wait()
on_gpus = [word.replace("matrix.toml", "gpus.toml") for word in words]
for _ in range(2):
    print("gpus:", subprocess.call(on_gpus, env={**os.environ, "RAY_ADDRESS": cluster.address}), flush=True)
    cluster.add_node(num_cpus=1, num_gpus=2)
cluster.shutdown()
sys.exit(code)
"""


@pytest.mark.slow
def test_a_matrix_on_three_nodes_finds_the_version_though_one_dies(tmp_path):
    flag = tmp_path / "hangs"
    for version, how in (("1.0", ""), ("1.1", ', device="cuda"'), ("1.2", ', device="cuda"')):
        make_wheel(tmp_path / "wheels", "shapes", version, PACKAGE.format(how=how))
    for program in ("train", "serve", "evaluate"):
        (tmp_path / f"{program}.py").write_text(PROGRAM.format(flag=str(flag), step=f"{program}_step"))
    (tmp_path / "matrix.toml").write_text(f"""
logs = "logs"
devtrace = ["rehearse", "--no-values"]
devices = [1, 2]
uv = ["--offline", "--no-index", "--no-deps", "--find-links", "wheels"]
[programs]
train = "python train.py"
serve = "python serve.py"
evaluate = "python evaluate.py"
[versions]
"shapes 1.0" = ["shapes==1.0"]
"shapes 1.1" = ["shapes==1.1"]
"shapes 1.2" = ["shapes==1.2"]
[environment]
PYTHONPATH = "{sysconfig.get_path("purelib")}"
""")
    (tmp_path / "gpus.toml").write_text("""
logs = "logs-gpus"
devtrace = ["run"]
devices = [1, 2]
[programs]
visible = "python -c 'import os; print(os.environ[\\"CUDA_VISIBLE_DEVICES\\"])'"
[versions]
here = []
""")
    (tmp_path / "cluster.py").write_text(CLUSTER)
    bin = Path(sys.executable).parent
    with tempfile.TemporaryDirectory(prefix="ray-") as sockets:  # whose paths must be short
        env = environment(None, {"DEVTRACE": str(DEVTRACE), "DEVTRACE_FLEET_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path), "RAY_TMPDIR": sockets, "RAY_USAGE_STATS_ENABLED": "0",
                                 "PATH": f"{bin}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"})
        done = execute([sys.executable, "cluster.py", flag, sys.executable, FLEET / "on_ray.py", "matrix.toml", "--", "--html", "all.html"], tmp_path, env, timeout=300)
    out = done.out
    assert done.code == 1, out + done.err
    lost = re.findall(r"^(\w+, shapes [\d.]+, \d devices?): lost \(\w+\), try 2 of 3$", out, re.MULTILINE)
    assert lost, "a cell ran on the node that was killed\n" + out
    assert has_ended(flag.read_text()), "what ran on the node outlives it"
    ended = dict(re.findall(r"^(\w+, shapes [\d.]+, \d devices?): exit (\d) after", out, re.MULTILINE))
    assert len(ended) == 18 and set(lost) <= set(ended), out
    collected = {path.parent.relative_to(tmp_path / "logs").as_posix(): json.loads(path.read_text()) for path in (tmp_path / "logs").rglob("cell.json")}
    assert len(collected) == 18 and {"0", "1"} <= {host[-1] for cell in collected.values() for host in cell["hosts"]}
    assert max(cell["attempt"] for cell in collected.values()) >= 2
    brought = re.findall(r"^new in (.+), not yet in (.+): [0-9a-f]{16}\n  (.+)\n  programs: (.+); devices: (.+); hosts: (.+)$", out, re.MULTILINE)
    assert len(brought) == 3 and "not judged" not in out.partition("gpus: ")[0], out
    assert {(new, before, devices) for new, before, _, _, devices, _ in brought} == {("shapes 1.1", "shapes 1.0", "2")}
    assert {programs for *_, programs, _, _ in brought} == {"train", "serve", "evaluate"}
    for _, _, text, program, _, hosts in brought:
        found = {host for folder, cell in collected.items() for host in cell["hosts"] if re.fullmatch(rf"{program}/shapes 1\.[12]/2", folder)}
        assert text.startswith("aten::add was given tensors on cuda:") and hosts == ", ".join(sorted(found))
    # On GPUs, which Ray only counts: where no node has them, and where one has.
    assert re.findall(r"^gpus: (\d)$", out, re.MULTILINE) == ["2", "2"] and "no node has 2 GPUs" in done.err
    seen = {path.parent.name: path.read_text().strip() for path in (tmp_path / "logs-gpus").rglob("output.txt")}
    assert seen["2"] == "0,1" and seen["1"] in ("0", "1")
    assert "3 new, 0 known, 0 gone" in out and (tmp_path / "all.html").exists()
