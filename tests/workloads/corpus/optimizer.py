# === lorafa_resume
# thread: https://github.com/MakazhanAlpamys/Soup/pull/962
# about: load_state_dict casts the states of parameters; these are kept by a name
# operation: add on cpu, cuda:0
# operands: exp_avg, grad_B|grad
# category: optimizer
# line: main.py: saved = torch.load(
# line: lorafa.py: exp_avg, exp_avg_sq = state[
# repair: main.py: saved = torch.load(path, map_location="cpu") -> saved = torch.load(path, map_location="cuda:0")
import tempfile
from pathlib import Path

import torch
from torch import nn

from lora import add_lora
from lorafa import LoraFAOptimizer


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 4))
    model = add_lora(model, r=2).to("cuda:0")
    return model, LoraFAOptimizer(model.named_parameters(), lr=0.05)


def train(model, optimizer, batches):
    for features, labels in batches:
        loss = nn.functional.cross_entropy(model(features.to("cuda:0")), labels.to("cuda:0"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def resume(path):
    model, optimizer = build()
    saved = torch.load(path, map_location="cpu")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return model, optimizer


torch.manual_seed(1)
batches = [(torch.randn(8, 6), torch.arange(8) % 4) for _ in range(6)]
with tempfile.TemporaryDirectory() as folder:
    checkpoint = Path(folder) / "checkpoint.pt"
    model, optimizer = build()
    train(model, optimizer, batches[:3])
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)
    model, optimizer = resume(checkpoint)
print("loss", round(train(model, optimizer, batches[3:]), 4))
# --- lora.py
import torch
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, base, r):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.randn(r, base.in_features) * 0.3, requires_grad=False)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))

    def forward(self, x):
        return self.base(x) + x @ self.lora_A.T @ self.lora_B.T


def add_lora(model, r):
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, LoraLinear(child, r))
    return model
# --- lorafa.py
import torch


class LoraFAOptimizer(torch.optim.Optimizer):
    """Learns the B of each adapter, A is frozen; the gradient is scaled by what A lets through."""

    def __init__(self, named_parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        names, params = zip(*named_parameters)
        super().__init__([{"params": list(params), "names": list(names)}], dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            found = dict(zip(group["names"], group["params"]))
            for name, lora_B in found.items():
                if not name.endswith("lora_B") or lora_B.grad is None:
                    continue
                lora_A = found[name.replace("lora_B", "lora_A")]
                grad_B = lora_B.grad @ torch.linalg.inv(lora_A @ lora_A.T + 1e-3 * torch.eye(len(lora_A), device=lora_A.device))
                state = self.state[name.replace("lora_B", "lora")]
                if not state:
                    state.update(step=0, exp_avg_B=torch.zeros_like(lora_B), exp_avg_sq_B=torch.zeros_like(lora_B))
                exp_avg, exp_avg_sq = state["exp_avg_B"], state["exp_avg_sq_B"]
                state["step"] += 1
                exp_avg.mul_(beta1)
                exp_avg.add_(grad_B, alpha=1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(grad_B, grad_B, value=1 - beta2)
                rate = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                lora_B.addcdiv_(exp_avg, exp_avg_sq.sqrt().add_(group["eps"]), value=-rate)

# === migrate_worker
# thread: https://github.com/pytorch/pytorch/issues/1442
# about: raised in torch/optim; the parameters have moved under the optimizer, its state has not
# operation: lerp on cuda:0, cuda:1
# operands: exp_avg|state, grad
# category: optimizer
# line: self.model.to(device)
# repair: self.model.to(device) -> self.model.to(device); self.optimizer.load_state_dict(self.optimizer.state_dict())
from __future__ import annotations

import torch
from torch import Tensor, nn


class Worker:
    """Trains on whichever GPU the scheduler of the cluster has free for it."""

    def __init__(self, model: nn.Module, device: str) -> None:
        self.device = device
        self.model = model.to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2, foreach=False)

    def migrate(self, device: str) -> None:
        self.device = device
        self.model.to(device)

    def train(self, batches: list[tuple[Tensor, Tensor]]) -> float:
        for x, y in batches:
            prediction = self.model(x.to(self.device))
            loss = nn.functional.mse_loss(prediction, y.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(1442)
    x = torch.randn(32, 5)
    batches = list(zip(x.split(8), x.sum(dim=1, keepdim=True).split(8)))
    worker = Worker(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)), "cuda:0")
    before = worker.train(batches)
    worker.migrate("cuda:1")
    print("still learning after the move:", worker.train(batches) < before)

# === nero
# thread: https://github.com/jxbz/nero/issues/1
# about: an optimizer that makes its state when it is made, before the network is moved
# operation: add on cuda:0, cpu
# operands: exp_avg_sq|state, norm|square|grad
# category: optimizer
# line: main.py: optimizer = Nero(
# line: nero.py: state["exp_avg_sq"] = self.beta
# line: main.py: net.cuda()
# repair: main.py: optimizer = Nero(net.parameters(), lr=0.01) -> optimizer = Nero(net.cuda().parameters(), lr=0.01)
import torch
from torch import nn

from nero import Nero

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
optimizer = Nero(net.parameters(), lr=0.01)
net.cuda()

x = torch.randn(12, 8).cuda()
y = (torch.arange(12) % 3).cuda()
for step in range(3):
    loss = nn.functional.cross_entropy(net(x), y)
    net.zero_grad()
    loss.backward()
    optimizer.step()
print("loss after %d steps: %.4f" % (step + 1, loss.item()))
# --- nero.py
import torch


def neuron_norm(x):
    """The norm of what comes into each neuron."""
    return x.abs() if x.dim() <= 1 else x.flatten(1).norm(dim=1).view(-1, *[1] * (x.dim() - 1))


class Nero(torch.optim.Optimizer):
    def __init__(self, params, lr=0.01, beta=0.999):
        super().__init__(params, dict(lr=lr))
        self.beta = beta
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["step"] = 0
                state["exp_avg_sq"] = torch.zeros_like(neuron_norm(p.detach()))
                state["scale"] = neuron_norm(p.detach()).mean().item() or 0.01

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["step"] += 1
                state["exp_avg_sq"] = self.beta * state["exp_avg_sq"] + (1 - self.beta) * neuron_norm(p.grad) ** 2
                denominator = (state["exp_avg_sq"] / (1 - self.beta ** state["step"])).sqrt()
                p.sub_(group["lr"] * state["scale"] * torch.nan_to_num(p.grad / denominator))

# === prodigy_resume
# thread: https://github.com/konstmish/prodigy/issues/1
# about: the tensor is in param_groups, which load_state_dict does not cast; loaded to the CPU in another file
# operation: add on cuda:0, cpu
# operands: numerator
# category: optimizer
# line: main.py: saved = torch.load(
# line: prodigy.py: numerator = group[
# repair: main.py: saved = torch.load(io.BytesIO(checkpoint), map_location="cpu") -> saved = torch.load(io.BytesIO(checkpoint), map_location="cuda:0")
import io

import torch
from torch import nn

from prodigy import Prodigy


def run(steps, checkpoint=None):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).to("cuda:0")
    optimizer = Prodigy(model.parameters())
    if checkpoint is not None:
        saved = torch.load(io.BytesIO(checkpoint), map_location="cpu")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    x = torch.rand(16, 6).to("cuda:0")
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
    saved = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, saved)
    print("step length", round(optimizer.param_groups[0]["d"], 5), "loss", round(loss.item(), 4))
    return saved.getvalue()


run(3, checkpoint=run(3))
# --- prodigy.py
import torch


class Prodigy(torch.optim.Optimizer):
    """Gradient descent that finds its own step length from how far it has come."""

    def __init__(self, params, d0=1e-2, beta=0.9):
        super().__init__(params, dict(d0=d0, d=d0, beta=beta, numerator=None))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            if group["numerator"] is None:
                group["numerator"] = torch.zeros((), device=group["params"][0].device)
            numerator = group["numerator"]
            numerator.mul_(group["beta"])
            for p in group["params"]:
                state = self.state[p]
                if "p0" not in state:
                    state["p0"] = p.detach().clone()
                numerator.add_(torch.dot(p.grad.flatten(), (state["p0"] - p).flatten()))
            group["d"] = max(group["d"], group["d0"] + 0.05 * numerator.item())
            for p in group["params"]:
                p.sub_(p.grad, alpha=group["d"])

# === rate_mask
# thread: https://github.com/wochenlong/lora-scripts-next/pull/320
# about: an optimizer restores a part of its state itself, past what load_state_dict() casts
# operation: mul|add on cuda:0, cpu
# operands: lr_mask|rates|mask
# category: optimizer
# line: automagic.py: state["lr_mask"] = torch.tensor(
# line: automagic.py: rates = state["lr_mask"]
# line: main.py: checkpoint = torch.load(
# repair: automagic.py: state["lr_mask"] = torch.tensor(saved["lr_mask"]) -> state["lr_mask"] = torch.tensor(saved["lr_mask"], device=p.device)
import io

import torch
from torch import nn

from automagic import Automagic


def train(model, optimizer, steps):
    for _ in range(steps):
        loss = (model(torch.ones(4, 6).to("cuda:0")) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(0)
model = nn.Linear(6, 3).to("cuda:0")
optimizer = Automagic(model.parameters(), lr=0.05)
first = train(model, optimizer, 3)
file = io.BytesIO()
torch.save(optimizer.state_dict(), file)
file.seek(0)
checkpoint = torch.load(file, map_location="cpu")
optimizer = Automagic(model.parameters(), lr=0.05)
optimizer.load_state_dict(checkpoint)
print("lower", train(model, optimizer, 3) < first)
# --- automagic.py
import torch


class Automagic(torch.optim.Optimizer):
    """Signed steps; each weight has a rate of its own, larger while its sign stays."""

    def __init__(self, params, lr, more=1e-3):
        super().__init__(params, dict(lr=lr, more=more))

    def state_dict(self):
        packed = super().state_dict()
        for state in packed["state"].values():
            state["lr_mask"] = state["lr_mask"].tolist()
        return packed

    def load_state_dict(self, packed):
        super().load_state_dict(packed)
        parameters = [p for group in self.param_groups for p in group["params"]]
        for index, saved in packed["state"].items():
            p = parameters[index]
            state = self.state[p]
            state["lr_mask"] = torch.tensor(saved["lr_mask"])

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["lr_mask"] = torch.full_like(p, group["lr"])
                    state["sign"] = torch.zeros_like(p)
                same = state["sign"] == p.grad.sign()
                change = torch.where(same, group["more"], -group["more"])
                rates = state["lr_mask"].add_(change).clamp_(min=1e-4)
                state["sign"] = p.grad.sign()
                p.sub_(rates * state["sign"])

# === slow_weights
# thread: https://github.com/kozistr/pytorch_optimizer/issues/306
# about: an optimizer around an optimizer copied the weights before they were moved
# operation: mul|add|lerp|sub on cuda:0, cpu
# operands: slow|slow_params|fast|p
# category: optimizer
# line: main.py: model.to(device)
# line: lookahead.py: self.slow = [
# line: main.py: optimizer = Lookahead(
# repair: lookahead.py: slow.lerp_(p, self.alpha) -> slow.data = slow.data.to(p.device).lerp_(p, self.alpha)
import torch
from torch import nn

from lookahead import Lookahead

torch.manual_seed(0)
device = "cuda:0"
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = Lookahead(torch.optim.SGD(model.parameters(), lr=0.1), k=2, alpha=0.5)
model.to(device)
for _ in range(4):
    loss = (model(torch.ones(3, 4).to(device)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
# --- lookahead.py
import torch


class Lookahead:
    """k steps forward, one back."""

    def __init__(self, optimizer, k, alpha):
        self.optimizer, self.k, self.alpha = optimizer, k, alpha
        self.steps = 0
        self.slow = [[p.detach().clone() for p in group["params"]] for group in optimizer.param_groups]

    def zero_grad(self):
        self.optimizer.zero_grad()

    @torch.no_grad()
    def update(self, group, slow_params):
        for p, slow in zip(group["params"], slow_params):
            slow.lerp_(p, self.alpha)
            p.copy_(slow)

    def step(self):
        self.optimizer.step()
        self.steps += 1
        if self.steps % self.k == 0:
            for group, slow_params in zip(self.optimizer.param_groups, self.slow):
                self.update(group, slow_params)
