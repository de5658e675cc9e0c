"""Which test suites of other projects are run under rehearsal: of the packages that .venv has, in the version that it has, from their sdists."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Suite:
    name: str  # of the package on PyPI
    files: tuple[str, ...]  # below tests/ of the sdist; file::class where all of it would take hours
    needs: tuple[str, ...] = ()  # what the tests import besides
    arguments: tuple[str, ...] = ()  # to pytest
    ours: str = ""  # a file beside this one that is laid into tests/, for what the sdist leaves out of them


SUITES = (
    Suite(
        "accelerate",
        ("test_accelerator.py", "test_big_modeling.py", "test_cpu.py", "test_data_loader.py", "test_dataclasses.py", "test_grad_sync.py",
         "test_hooks.py", "test_kwargs_handlers.py", "test_load_checkpoint_and_dispatch_with_broadcast.py", "test_logging.py",
         "test_memory_utils.py", "test_metrics.py"),
        ("parameterized", "torchdata", "nvidia-ml-py"),
    ),
    Suite(
        "transformers",
        ("transformers_models.py::LlamaTest", "transformers_models.py::MixtralTest", "transformers_models.py::GPT2Test", "transformers_models.py::BertTest",
         "transformers_models.py::T5Test"),
        ("parameterized",),
        ours="transformers_models.py",
    ),
    Suite(
        "peft",
        ("test_adamss_asa.py", "test_bdlora.py", "test_boft.py", "test_bufferdict.py", "test_custom_models.py::TestRequiresGrad",
         "test_lora_variants.py", "test_mixed.py"),
        ("parameterized", "datasets", "pyarrow", "dill", "xxhash", "multiprocess", "pandas", "python-dateutil", "pytz", "six"),
    ),
)  # fmt: skip
