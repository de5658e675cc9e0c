"""Lightning, peft and transformers' Trainer."""

import torch

ONE, TWO, HOST = "cuda:0", "cuda:1", "cpu"


def ones(*shape, device=ONE, **options):
    return torch.ones(*shape, device=device, **options)


def optimizer_of_meta():
    model = torch.nn.Linear(2, 2, device="meta")
    return model, torch.optim.SGD(model.parameters(), lr=0.1)

# === cpu_accelerator_of_a_gpu
# message: lightning-device-should-be-cpu-got-instead
# operation: lightning.fabric.accelerators.CPUAccelerator.setup_device on cuda:1
def cpu_accelerator_of_a_gpu():
    from lightning.fabric.accelerators import CPUAccelerator

    CPUAccelerator().setup_device(torch.device(TWO))

# === cuda_accelerator_of_the_cpu
# message: lightning-device-should-be-cuda-got-instead
# operation: lightning.fabric.accelerators.CUDAAccelerator.setup_device on cpu
def cuda_accelerator_of_the_cpu():
    from lightning.fabric.accelerators import CUDAAccelerator

    CUDAAccelerator().setup_device(torch.device(HOST))

# === trainers_cuda_accelerator_of_the_cpu
# message: lightning-device-should-be-gpu-got-instead
# operation: lightning.pytorch.accelerators.CUDAAccelerator.setup_device on cpu
def trainers_cuda_accelerator_of_the_cpu():
    from lightning.pytorch.accelerators import CUDAAccelerator

    CUDAAccelerator().setup_device(torch.device(HOST))

# === fabric_optimizer_of_meta
# message: lightning-the-optimizer-has-references-to-the-models-meta
# operation: lightning.Fabric.setup_optimizers on meta
def fabric_optimizer_of_meta():
    from lightning.fabric import Fabric

    _, optimizer = optimizer_of_meta()
    Fabric(accelerator="cuda", devices=1).setup_optimizers(optimizer)

# === fabric_model_and_optimizer_of_meta
# message: lightning-the-optimizer-has-references-to-the-models
# operation: lightning.Fabric.setup on meta
def fabric_model_and_optimizer_of_meta():
    from lightning.fabric import Fabric
    from lightning.fabric.strategies import FSDPStrategy

    model, optimizer = optimizer_of_meta()
    fabric = Fabric(accelerator="cuda", devices=1, strategy=FSDPStrategy())
    fabric.launch()
    fabric.setup(model, optimizer)

# === wavelet_coefficients
# message: peft-coefficients-must-be-on-the-same-device
# operation: peft.tuners.waveft.waverec2d.waverec2d on cuda:0, cuda:1
def wavelet_coefficients():
    from peft.tuners.waveft.waverec2d import waverec2d

    return waverec2d([ones(1, 2, 2), (ones(1, 2, 2), ones(1, 2, 2, device=TWO), ones(1, 2, 2))], "haar")

# === truncation_of_a_meta_weight
# message: peft-kasa-could-not-apply-its-svd-base
# operation: peft.tuners.lora.Linear on meta
def truncation_of_a_meta_weight():
    from peft import LoraConfig, get_peft_model
    from peft.tuners.lora import KasaConfig

    model = torch.nn.Sequential(torch.nn.Linear(4, 4, device="meta"))
    model = get_peft_model(model, LoraConfig(target_modules=["0"], r=2, kasa_config=KasaConfig()), low_cpu_mem_usage=True)
    return model(torch.ones(1, 4, device="meta"))

# === loss_of_another_device
# message: transformers-calculated-loss-must-be-on-the-original
# operation: transformers.trainer.Trainer.train on cuda:0, cuda:1
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

# === queries_and_passages
# message: transformers-queries-and-passages-must-be-on-the
# operation: transformers.models.colpali.processing_colpali.ColPaliProcessor.score_retrieval on cuda:0, cuda:1
def queries_and_passages():
    from transformers import ColPaliProcessor

    return ColPaliProcessor.score_retrieval(None, [ones(2, 2)], [ones(2, 2, device=TWO)])
