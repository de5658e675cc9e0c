"""A file of tests as PyTorch's are, of two ranks, and the page that is made of it. The files themselves need PyTorch's source."""

import json
import subprocess
import sys
from pathlib import Path

from conftest import BUILD

HERE = Path(__file__).resolve().parent
FILE = """
import torch, torch.distributed as dist
from torch.testing._internal.common_distributed import MultiProcessTestCase, skip_if_lt_x_gpu


class Ranks(MultiProcessTestCase):
    world_size = 2

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def reduced(self):
        torch.cuda.set_device(self.rank)
        dist.init_process_group("nccl", store=dist.FileStore(self.file_name, 2), rank=self.rank, world_size=2)
        x = torch.full((3,), self.rank + 1.0, device="cuda")
        dist.all_reduce(x)
        dist.destroy_process_group()
        return x.tolist()

    def test_right(self):
        assert self.reduced() == [3.0] * 3

    def test_wrong(self):
        assert self.reduced() == [4.0] * 3

    @skip_if_lt_x_gpu(8)
    def test_of_eight(self):
        pass
"""


def test_what_passes_fails_and_is_skipped(tmp_path):
    folder = tmp_path / "source/test/distributed"
    folder.mkdir(parents=True)
    (folder / "test_c10d_nccl.py").write_text(FILE)
    run = [sys.executable, HERE / "distributed_files.py", "--build", BUILD, "--source", tmp_path / "source", "--scratch", tmp_path / "out", "--jobs", "0"]
    subprocess.run([*run, "--json", tmp_path / "found.json", "--markdown", tmp_path / "page.md"], check=True, timeout=120)
    (file,) = json.loads((tmp_path / "found.json").read_text())["suites"]["c10d over NCCL"].values()
    assert {test["name"]: test["outcome"] for test in file["tests"]} == {"Ranks::test_right": "passed", "Ranks::test_wrong": "failed", "Ranks::test_of_eight": "skipped"}
    page = (tmp_path / "page.md").read_text()
    assert "| c10d over NCCL | 1 | every | 3 | 1 | 1 | 1 | 50 % |" in page and "`Ranks::test_wrong`" in page and "| Need at least 8 CUDA devices | 1 |" in page
