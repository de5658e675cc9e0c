"""A plugin of pytest's for PyTorch's tests of several processes: these are forks of one that has imported PyTorch, not new interpreters.

A process that has used CUDA cannot be forked: then they are new interpreters all the same. So what runs in pytest's own process comes last, and what would use CUDA while tests are collected is
answered without it. SAMPLE=3: every third test alone. Under torchrun pytest itself is a rank, and runs what such a launcher would."""

import os
import sys
import unittest

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
sys.modules["numba"] = None  # it uses CUDA where it is imported

import torch  # noqa: E402
import torch.multiprocessing  # noqa: E402

torch.multiprocessing.set_start_method("fork")  # where PyTorch asks for another one it takes what is set already

import torch.utils._triton  # noqa: E402

torch.utils._triton.has_triton = lambda *_: False  # it asks a device how new it is

from torch.testing._internal import common_device_type, common_distributed  # noqa: E402

# It asks a device as well. None that is simulated can do that.
common_distributed.requires_multicast_support = lambda: unittest.skip("multicast support is not available")


def set_up_class(cls):
    """It computes on a device to ask for what simulated ones have not, before the ranks of its tests are there."""
    cls.no_magma = cls.no_cudnn = True
    cls.cudnn_version, cls.primary_device = None, "cuda:0"


common_device_type.CUDATestBase.setUpClass = classmethod(set_up_class)
PROCESSES = common_distributed.MultiProcessTestCase
# Named in two ways.
CONTINUOUS = getattr(common_distributed, "MultiProcContinuousTest", None) or getattr(common_distributed, "MultiProcContinousTest", None)


context_of = torch.multiprocessing.get_context
torch.multiprocessing.get_context = lambda method=None: context_of("fork" if method == "spawn" and not torch.cuda.is_initialized() else method)


def is_of_processes(item) -> bool:
    return issubclass(getattr(item, "cls", None) or object, tuple(kind for kind in (PROCESSES, CONTINUOUS) if kind))


def pytest_collection_modifyitems(config, items):
    sample = int(os.environ.get("SAMPLE", "1"))
    others = [item for number, item in enumerate(items) if number % sample]
    if others:
        items[:] = [item for number, item in enumerate(items) if number % sample == 0]
        config.hook.pytest_deselected(items=others)
    items.sort(key=lambda item: not is_of_processes(item))


def pytest_configure(config):
    if "RANK" in os.environ and CONTINUOUS:
        CONTINUOUS.rank, CONTINUOUS.world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        config.option.xmlpath = f"{config.option.xmlpath}.{os.environ['RANK']}"
