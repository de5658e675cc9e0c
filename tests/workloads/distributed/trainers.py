"""What trains over ranks by itself: accelerate, transformers' Trainer, Lightning. Each gives what one process gives on the CPU."""

import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)


class Rows(Dataset):
    """Every rank's batches are, together, those of one process that takes `world` times as many rows."""

    def __init__(self, count=12 * world):
        torch.manual_seed(5)
        self.x, self.y = torch.randn(count, 6), torch.randn(count, 4)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "y": self.y[i]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 4)

    def forward(self, x, y):
        return {"loss": F.mse_loss(self.b(torch.tanh(self.a(x))), y)}


def alone(epochs=2):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for batch in DataLoader(Rows(), batch_size=4 * world):
            model(**batch)["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
    return model


def compare(name, parameters):
    for got, wanted in zip(parameters, alone().parameters(), strict=True):
        torch.testing.assert_close(got.detach().cpu(), wanted.detach(), rtol=1e-5, atol=1e-6)
    if rank == 0:
        print(name, flush=True)


def with_accelerate():
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = Net()
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), DataLoader(Rows(), batch_size=4))
    for _ in range(2):
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch)["loss"]
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
    assert accelerator.gather(loss.detach().reshape(1)).shape == (world,)
    compare("accelerate", accelerator.get_state_dict(model).values())


def with_trainer():
    from transformers import Trainer, TrainingArguments

    class InOrder(Trainer):
        def _get_train_sampler(self, *_):
            return None

    arguments = TrainingArguments("trainer", per_device_train_batch_size=4, num_train_epochs=2, learning_rate=0.1, optim="sgd", lr_scheduler_type="constant",
                                  max_grad_norm=0, report_to=[], save_strategy="no", disable_tqdm=True, remove_unused_columns=False)
    trainer = InOrder(Net(), arguments, train_dataset=Rows())
    trainer.train()
    compare("trainer", trainer.model.parameters())


def with_lightning(strategy):
    import lightning
    from torch.distributed.fsdp import FullyShardedDataParallel

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, _):
            return self.net(**batch)["loss"]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

        def on_train_end(self):
            assert isinstance(self.trainer.strategy.model, FullyShardedDataParallel if strategy == "fsdp" else DistributedDataParallel)
            with FullyShardedDataParallel.summon_full_params(self.trainer.strategy.model):
                compare(strategy, self.trainer.strategy.model.parameters())

    trainer = lightning.Trainer(accelerator="gpu", devices=world, strategy=strategy, max_epochs=2, logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False)
    trainer.fit(Module(), DataLoader(Rows(), batch_size=4, sampler=[i for i in range(len(Rows())) if i // 4 % world == rank]))


with_accelerate()
with_trainer()
for strategy in ("ddp", "fsdp"):
    with_lightning(strategy)
torch.distributed.destroy_process_group()
