"""Which test suites of other projects are run under rehearsal: of the packages that .venv has, in the version that it has, from their sdists."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Suite:
    name: str  # of the package on PyPI
    files: tuple[str, ...]  # below tests/ of the sdist
    needs: tuple[str, ...] = ()  # what the tests import besides
    arguments: tuple[str, ...] = ()  # to pytest


SUITES = (
    Suite(
        "accelerate",
        ("test_accelerator.py", "test_big_modeling.py", "test_cpu.py", "test_data_loader.py", "test_dataclasses.py", "test_grad_sync.py",
         "test_hooks.py", "test_kwargs_handlers.py", "test_load_checkpoint_and_dispatch_with_broadcast.py", "test_logging.py",
         "test_memory_utils.py", "test_metrics.py"),
        ("parameterized", "torchdata", "nvidia-ml-py"),
    ),
)  # fmt: skip
