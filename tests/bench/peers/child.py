"""One program in one way, in a process of its own: for each number that is read runs so many steps, and answers with the processor time."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from programs import PROGRAMS
from ways import WAYS


def with_one_runtime() -> None:
    """The tests' environment has CUDA 12's runtime, too. PyTorch would load it beside its own, which few programs do: a call is then asked which is meant."""
    packages = next((Path(folder) for folder in sys.path if (Path(folder) / "nvidia/cu13").is_dir()), None)
    if packages is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "nvidia").mkdir()
        (Path(folder) / "nvidia/cu13").symlink_to(packages / "nvidia/cu13")
        sys.path.insert(0, folder)
        import torch  # noqa: F401

        sys.path.remove(folder)


def main(program: str, way: str) -> None:
    with_one_runtime()
    import torch

    torch.set_num_threads(1)
    step = PROGRAMS[program].prepare()
    with WAYS[way].around():
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        print("ready", os.getpid(), flush=True)
        for line in sys.stdin:
            began = time.process_time()
            for _ in range(int(line)):
                step()
            print(json.dumps(time.process_time() - began), flush=True)


main(*sys.argv[1:])
