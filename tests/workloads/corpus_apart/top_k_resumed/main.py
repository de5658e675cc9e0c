# EXPECT {"kind":"refused-op","operation":"lt|less","devices":["cuda:0","cpu"],"operands":["current|val_loss","best|best_k_models.*|kth_best"],"category":"cached state|input not moved","line":["trainer.py: self.callback_metrics[name] = value","checkpoint.py: if torch.lt(current,","checkpoint.py: self.best_k_models = state","trainer.py: checkpoint = torch.load(","main.py: trainer.log("],"error":"on the same device","thread":"https://github.com/Lightning-AI/pytorch-lightning/issues/14446","hard":"the model was brought back to the GPU, a callback's memory of its scores was not; a score without dimensions would have passed"}
# FIX trainer.py: self.callback_metrics[name] = value -> self.callback_metrics[name] = value.squeeze()
import torch
from torch import nn

from checkpoint import ModelCheckpoint
from trainer import Trainer


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1))

    def loss(self, batch):
        inputs, targets = batch
        return (self.net(inputs) - targets).square().mean(dim=0)

    def validation_step(self, trainer, batch):
        trainer.log("val_loss", self.loss(batch))


def data(n):
    generator = torch.Generator().manual_seed(14446)
    inputs = torch.rand(n, 4, generator=generator)
    return inputs, inputs.sum(dim=1, keepdim=True).sin()


def run(max_epochs, ckpt=None):
    torch.manual_seed(0)
    model, callback = Classifier(), ModelCheckpoint(monitor="val_loss", save_top_k=2)
    trainer = Trainer(max_epochs, callback)
    trainer.fit(model, data(24), data(8), ckpt)
    return trainer.dump(), callback


saved, _ = run(max_epochs=3)
_, callback = run(max_epochs=5, ckpt=saved)
print("kept", {path: round(score.item(), 4) for path, score in sorted(callback.best_k_models.items())})
