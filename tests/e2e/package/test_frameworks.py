"""Frameworks' own switches, in the real frameworks: a run is watched, and only that."""

import json
import sys
import tempfile

import pytest
from conftest import DEVTRACE, environment, execute
from notebooks import PACKAGE

LIGHTNING = """
import torch, lightning, warnings
from devtrace.frameworks import LightningCallback
warnings.simplefilter("ignore")

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.scale = [torch.ones(1)]
    def training_step(self, batch, index):
        return (self.layer(batch) @ self.scale[0].expand(1, 1)).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

watch = LightningCallback(text=False)
trainer = lightning.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                            enable_model_summary=False, callbacks=[watch])
run = lambda: trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2))
"""
TRANSFORMERS = """
import torch, transformers, warnings
from devtrace.frameworks import TransformersCallback
warnings.simplefilter("ignore")

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.scale = [torch.ones(1, 1)]
    def forward(self, x):
        return {"loss": (self.layer(x) @ self.scale[0]).sum()}

watch = TransformersCallback(text=False)
arguments = transformers.TrainingArguments("out", max_steps=1, report_to=[], disable_tqdm=True, save_strategy="no")
run = lambda: transformers.Trainer(Model(), arguments, train_dataset=[{"x": torch.ones(2)}] * 4, callbacks=[watch]).train()
"""
ACCELERATE = """
import torch, accelerate
from devtrace.frameworks import AccelerateTracker

watch = AccelerateTracker(text=False)
accelerator = accelerate.Accelerator(log_with=[watch])
def run():
    accelerator.init_trackers("run")
    try:
        model = accelerator.prepare(torch.nn.Linear(2, 1))
        model(torch.ones(1, 2))
    finally:
        accelerator.end_training()
"""
CHECK = """
import devtrace
from devtrace import session
try:
    run()
except RuntimeError:
    pass
found = watch.findings or devtrace.findings()
print([each.operation for each in found][:1], session.watching())
"""


@pytest.mark.parametrize("program, operation, stays", [
    (LIGHTNING, "aten::mm", False), (TRANSFORMERS, "aten::mm", True), (ACCELERATE, "aten::addmm", False)], ids=["lightning", "transformers", "accelerate"])
def test_a_run_is_watched(tmp_path, program, operation, stays):
    (tmp_path / "program.py").write_text(program + CHECK)
    outcome = execute([DEVTRACE, "rehearse", "--gpus", "1", "--no-trace", "--", sys.executable, "program.py"], tmp_path, environment(None, PACKAGE))
    assert outcome.out.splitlines()[-1:] == [f"['{operation}'] {stays}"], outcome.out + outcome.err


RAY = """
import ray
import ray.exceptions

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, runtime_env={"devtrace": {"log_path": FOLDER + "/devtrace-%p.jsonl", "text": False}})

@ray.remote
def fault():
    import devtrace
    import torch

    try:
        torch.ones(3, device="cuda:1") + torch.ones(3, device="cuda:0")
    except RuntimeError:
        (found,) = devtrace.findings()
        return found.operation, found.where.function, devtrace.log_path().startswith(FOLDER)

print(ray.get(fault.remote()))
try:
    ray.get(fault.options(runtime_env={"devtrace": "text=0"}).remote())
except ray.exceptions.RuntimeEnvSetupError as error:
    print("takes the options of devtrace by their names" in str(error))
ray.shutdown()
"""


@pytest.mark.slow
def test_rays_workers_are_watched(tmp_path):
    """Their program was started without devtrace; what is no dict is refused where the environment is made."""
    pytest.importorskip("ray")
    (tmp_path / "program.py").write_text(RAY.replace("FOLDER", repr(str(tmp_path))))
    with tempfile.TemporaryDirectory(prefix="ray-") as sockets:  # whose paths must be short
        ray = {"RAY_RUNTIME_ENV_PLUGINS": json.dumps([{"class": "devtrace.frameworks.RayPlugin"}]), "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": sockets, "HOME": str(tmp_path)}
        outcome = execute([DEVTRACE, "rehearse", "--gpus", "2", "--no-trace", "--", sys.executable, "program.py"], tmp_path, environment(None, {**PACKAGE, **ray}))
    assert outcome.out.splitlines()[-2:] == ["('aten::add', 'fault', True)", "True"], outcome.out + outcome.err


def test_what_there_is_not(tmp_path):
    (tmp_path / "program.py").write_text("import devtrace.frameworks\ntry:\n    devtrace.frameworks.KerasCallback\nexcept AttributeError as error:\n    print(error)")
    outcome = execute([sys.executable, "program.py"], tmp_path, environment(None, PACKAGE))
    assert outcome.out == "devtrace.frameworks has no KerasCallback: there are LightningCallback, TransformersCallback, AccelerateTracker, RayPlugin\n"
