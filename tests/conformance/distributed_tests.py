"""PyTorch's own tests of torch.distributed, which are in its wheel: pytest collects them here. Its test_distributed_spawn.py does the same, but
that ranks are forks here, of one process that has imported PyTorch: a test takes a second, not ten.
"""

import os
import sys
import tempfile
from unittest import mock

os.environ.setdefault("BACKEND", "nccl")
os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp())
# CUDA that is initialized cannot be forked. Here PyTorch would, as it counts devices, and Numba, as it looks for them.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
sys.modules["numba"] = None

import torch  # noqa: E402

# It would ask a device how new it is, for tests of attention.
with mock.patch("torch.utils._triton.has_triton", return_value=False):
    import torch.testing._internal.common_device_type  # noqa: F401
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402


class TestDistributed(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)
