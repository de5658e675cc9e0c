"""Training frameworks' own switches: a run is watched from its start to its end, also where it ends with an error.

    import devtrace.frameworks

    lightning.Trainer(callbacks=[devtrace.frameworks.LightningCallback()])
    transformers.Trainer(..., callbacks=[devtrace.frameworks.TransformersCallback()])
    accelerate.Accelerator(log_with=[devtrace.frameworks.AccelerateTracker()])

Each of these takes the options of `devtrace.start`, and has `findings` afterwards. The framework is imported when its class is asked for.
Ray's workers are watched by a plugin of its runtime environments, which is named where Ray is started:

    RAY_RUNTIME_ENV_PLUGINS='[{"class": "devtrace.frameworks.RayPlugin"}]' python program.py
    ray.init(runtime_env={"devtrace": {"log_path": "/shared/devtrace-%h-%p.jsonl"}})
"""

from __future__ import annotations

import functools
import os
from typing import Any

from . import installation, session
from .finding import Finding


class _Watch:
    """What the three have in common."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options
        self._mark: session.Mark | None = None
        self._began = False
        self.findings: list[Finding] = []  # of the last run

    def _begin(self) -> None:
        self._began = not session.watching()
        if self._began:
            session.start(**self._options)
        self._mark = session.Mark()

    def _end(self) -> None:
        if self._mark is None:
            return
        self.findings = self._mark.findings()
        self._mark = None
        if self._began:
            session.stop()


@functools.cache
def _lightning() -> type:
    try:
        from lightning.pytorch.callbacks import Callback
    except ImportError:
        from pytorch_lightning.callbacks import Callback  # type: ignore[import-not-found, no-redef, assignment, unused-ignore]

    class LightningCallback(_Watch, Callback):  # type: ignore[misc, unused-ignore]
        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            self._begin()

        def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
            self._end()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self._end()

    return LightningCallback


@functools.cache
def _transformers() -> type:
    from transformers import TrainerCallback

    class TransformersCallback(_Watch, TrainerCallback):  # type: ignore[misc, unused-ignore]
        """An error leaves the run without a last call: then it stays watched, and `devtrace.findings()` has what was found."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            self._begin()

        def on_train_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            self._end()

    return TransformersCallback


@functools.cache
def _accelerate() -> type:
    from accelerate.tracking import GeneralTracker  # type: ignore[import-untyped, unused-ignore]

    class AccelerateTracker(_Watch, GeneralTracker):  # type: ignore[misc, unused-ignore]
        name = "devtrace"
        requires_logging_directory = False
        main_process_only = False

        @property
        def tracker(self) -> list[Finding]:
            return self.findings

        def start(self) -> None:
            self._begin()

        def store_init_configuration(self, values: dict[str, Any]) -> None:
            pass

        def log(self, values: dict[str, Any], step: int | None = None, **named: Any) -> None:
            pass

        def finish(self) -> None:
            self._end()

    return AccelerateTracker


@functools.cache
def _ray() -> type:
    from ray._private.runtime_env.plugin import RuntimeEnvPlugin  # type: ignore[import-not-found, unused-ignore]

    class RayPlugin(RuntimeEnvPlugin):  # type: ignore[misc, unused-ignore]
        """Its value are the options of devtrace, {} where there are none. A worker has the library before PyTorch, as under `devtrace run`."""

        name = "devtrace"

        @staticmethod
        def validate(runtime_env_dict: dict[str, Any]) -> None:
            if not isinstance(runtime_env_dict["devtrace"], dict):
                raise ValueError('runtime_env={"devtrace": {…}} takes the options of devtrace by their names')

        def modify_context(self, uris: list[str], runtime_env: Any, context: Any, logger: Any) -> None:
            preloaded = context.env_vars.get("LD_PRELOAD") or os.environ.get("LD_PRELOAD", "")
            context.env_vars["LD_PRELOAD"] = f"{installation.library()}:{preloaded}".rstrip(":")
            context.env_vars["DEVTRACE_OPTIONS"] = session.options_text(runtime_env["devtrace"])

    return RayPlugin


_CLASSES = {"LightningCallback": _lightning, "TransformersCallback": _transformers, "AccelerateTracker": _accelerate, "RayPlugin": _ray}


def __getattr__(name: str) -> type:
    if name not in _CLASSES:
        raise AttributeError(f"devtrace.frameworks has no {name}: there are {', '.join(_CLASSES)}")
    return _CLASSES[name]()
