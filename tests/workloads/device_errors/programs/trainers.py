"""Lightning, peft and transformers' Trainer."""

import torch

from ..provokes import provokes
from .elementwise import HOST, ONE, TWO, ones


@provokes("lightning-device-should-be-cpu-got-instead", "lightning.fabric.accelerators.CPUAccelerator.setup_device", TWO)
def cpu_accelerator_of_a_gpu():
    from lightning.fabric.accelerators import CPUAccelerator

    CPUAccelerator().setup_device(torch.device(TWO))


@provokes("lightning-device-should-be-cuda-got-instead", "lightning.fabric.accelerators.CUDAAccelerator.setup_device", HOST)
def cuda_accelerator_of_the_cpu():
    from lightning.fabric.accelerators import CUDAAccelerator

    CUDAAccelerator().setup_device(torch.device(HOST))


@provokes("lightning-device-should-be-gpu-got-instead", "lightning.pytorch.accelerators.CUDAAccelerator.setup_device", HOST)
def trainers_cuda_accelerator_of_the_cpu():
    from lightning.pytorch.accelerators import CUDAAccelerator

    CUDAAccelerator().setup_device(torch.device(HOST))


def optimizer_of_meta():
    model = torch.nn.Linear(2, 2, device="meta")
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


@provokes("lightning-the-optimizer-has-references-to-the-models-meta", "lightning.Fabric.setup_optimizers", "meta")
def fabric_optimizer_of_meta():
    from lightning.fabric import Fabric

    _, optimizer = optimizer_of_meta()
    Fabric(accelerator="cuda", devices=1).setup_optimizers(optimizer)


@provokes("lightning-the-optimizer-has-references-to-the-models", "lightning.Fabric.setup", "meta")
def fabric_model_and_optimizer_of_meta():
    from lightning.fabric import Fabric
    from lightning.fabric.strategies import FSDPStrategy

    model, optimizer = optimizer_of_meta()
    fabric = Fabric(accelerator="cuda", devices=1, strategy=FSDPStrategy())
    fabric.launch()
    fabric.setup(model, optimizer)


@provokes("peft-coefficients-must-be-on-the-same-device", "peft.tuners.waveft.waverec2d.waverec2d", ONE, TWO)
def wavelet_coefficients():
    from peft.tuners.waveft.waverec2d import waverec2d

    return waverec2d([ones(1, 2, 2), (ones(1, 2, 2), ones(1, 2, 2, device=TWO), ones(1, 2, 2))], "haar")


@provokes("peft-kasa-could-not-apply-its-svd-base", "peft.tuners.lora.Linear", "meta")
def truncation_of_a_meta_weight():
    from peft import LoraConfig, get_peft_model
    from peft.tuners.lora import KasaConfig

    model = torch.nn.Sequential(torch.nn.Linear(4, 4, device="meta"))
    model = get_peft_model(model, LoraConfig(target_modules=["0"], r=2, kasa_config=KasaConfig()), low_cpu_mem_usage=True)
    return model(torch.ones(1, 4, device="meta"))


@provokes("transformers-calculated-loss-must-be-on-the-original", "transformers.trainer.Trainer.train", ONE, TWO)
def loss_of_another_device():
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def forward(self, x):
            return {"loss": self.layer(x).sum().to(TWO)}

    arguments = TrainingArguments("trained", max_steps=1, per_device_train_batch_size=1, report_to=[], logging_nan_inf_filter=False)
    arguments._n_gpu = 1  # not DataParallel, which brings the losses together
    Trainer(Model(), arguments, train_dataset=[{"x": torch.ones(2)}]).train()


@provokes("transformers-queries-and-passages-must-be-on-the", "transformers.models.colpali.processing_colpali.ColPaliProcessor.score_retrieval", ONE, TWO)
def queries_and_passages():
    from transformers import ColPaliProcessor

    return ColPaliProcessor.score_retrieval(None, [ones(2, 2)], [ones(2, 2, device=TWO)])
