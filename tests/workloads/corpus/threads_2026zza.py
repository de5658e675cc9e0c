# === sparse_after_a_teacher
# thread: https://github.com/ivannz/cplxmodule/pull/3
# about: layers keep only some of their weights, by masks that are set after the layers are made. The net is then run on two cards at once
# operation: mul on cuda:1, cuda:0
# operands: other|.*mask.*, self|.*weight.*
# category: data-parallel
# line: base.py: self.mask.copy_(mask.detach())
# line: base.py: if not self.is_sparse and mask is not None:
# line: base.py: elif self.is_sparse and mask is not None:
# line: base.py: self.mask_(value)
# line: base.py: return self.weight * self.mask
# repair: base.py: self.mask.copy_(mask.detach()) -> self.register_buffer("mask", mask.detach().to(self.weight.device).expand(self.weight.shape).contiguous())
import torch
from torch.nn.parallel import data_parallel

from layers import LinearMasked
from utils import binarize_masks, deploy_masks


class Net(torch.nn.Module):
    def __init__(self, n_inputs, n_hidden, n_outputs):
        super().__init__()
        self.body = torch.nn.Sequential(LinearMasked(n_inputs, n_hidden), torch.nn.ReLU())
        self.head = LinearMasked(n_hidden, n_outputs, bias=False)

    def forward(self, input):
        return self.head(self.body(input))


def dense_teacher(n_inputs, n_hidden, n_outputs):
    return torch.nn.ModuleDict({
        "body": torch.nn.Sequential(torch.nn.Linear(n_inputs, n_hidden), torch.nn.ReLU()),
        "head": torch.nn.Linear(n_hidden, n_outputs, bias=False),
    })


if __name__ == "__main__":
    torch.manual_seed(3)
    net, teacher = Net(15, 30, 4), dense_teacher(15, 30, 4)
    net.load_state_dict(teacher.state_dict(), strict=False)
    deploy_masks(net, binarize_masks(teacher, threshold=0.05))

    x = torch.randn(64, 15)
    if torch.cuda.device_count() > 1:
        output = data_parallel(net.cuda(0), x.cuda(0), [0, 1])
    else:
        output = net(x)
    kept = sum(int(layer.mask.sum()) for layer in net.modules() if isinstance(layer, LinearMasked))
    print("weights kept:", kept)
    print("output", tuple(output.shape), [round(value, 3) for value in output.detach().cpu().mean(dim=0).tolist()])
# --- base.py
import torch


class BaseMasked(torch.nn.Module):
    """A layer whose weights have a pattern of zeros. Without a mask it is dense."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", None)

    @property
    def is_sparse(self):
        return isinstance(self.mask, torch.Tensor)

    def mask_(self, mask):
        """Sets, changes or takes away the mask."""
        if mask is not None and not isinstance(mask, torch.Tensor):
            raise TypeError(f"a mask is a tensor or None, not {type(mask).__name__}")

        if not self.is_sparse and mask is not None:
            mask = mask.detach().to(self.weight.device, self.weight.dtype)
            self.register_buffer("mask", mask.expand(self.weight.shape).contiguous())

        elif self.is_sparse and mask is not None:
            self.mask.copy_(mask.detach())

        elif self.is_sparse and mask is None:
            del self.mask
            self.register_buffer("mask", None)

        return self

    def __setattr__(self, name, value):
        if name != "mask":
            return super().__setattr__(name, value)
        self.mask_(value)


class MaskedWeightMixin:
    @property
    def weight_masked(self):
        if not self.is_sparse:
            raise RuntimeError(f"{type(self).__name__} has no mask yet")
        return self.weight * self.mask
# --- layers.py
import torch
import torch.nn.functional as F

from base import BaseMasked, MaskedWeightMixin


class LinearMasked(torch.nn.Linear, BaseMasked, MaskedWeightMixin):
    """A linear layer, of whose weights some stay zero."""

    def forward(self, input):
        return F.linear(input, self.weight_masked, self.bias)
# --- utils.py
import torch

from base import BaseMasked


def named_masked(module):
    return ((name, layer) for name, layer in module.named_modules() if isinstance(layer, BaseMasked))


def deploy_masks(module, masks):
    """Each layer that is named in `masks` gets its mask."""
    for name, layer in named_masked(module):
        layer.mask = masks.get(name)
    return module


def binarize_masks(module, threshold):
    """Where weights are large, in magnitude."""
    return {
        name: (layer.weight.detach().abs() > threshold).float()
        for name, layer in module.named_modules()
        if isinstance(layer, torch.nn.Linear)
    }

# === few_pixels_at_a_time
# thread: https://github.com/BorealisAI/advertorch/pull/97
# about: pictures are changed a little, a pixel at each step, until a classifier errs. The sum of all changes is held within a bound
# operation: add on cuda:1, cuda:0
# operands: other|delta.*, self|xvar.*
# category: default-or-current-device
# line: attacks.py: delta.data = delta.data.cuda()
# line: attacks.py: delta.data = batch_l1_proj(
# line: attacks.py: delta.data = clamp(
# line: main.py: device = torch.device(
# repair: attacks.py: delta.data = delta.data.cuda() -> delta.data = delta.data.to(xvar.device)
import argparse

import torch
import torch.nn as nn

from attacks import L1PGDAttack, LinfPGDAttack
from models import LeNet


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=1)
    parser.add_argument("--attacks", nargs="*", default=["linf", "l1"])
    return parser.parse_args()


def synthetic_digits(count):
    draw = torch.Generator().manual_seed(96)
    return torch.rand(count, 1, 12, 12, generator=draw), torch.randint(0, 5, (count,), generator=draw)


def main():
    args = get_args()
    torch.manual_seed(0)
    device = torch.device("cuda", args.gpu) if torch.cuda.is_available() else torch.device("cpu")
    model = LeNet(num_classes=5).to(device).eval()
    data, target = synthetic_digits(6)
    data, target = data.to(device), target.to(device)

    loss_fn = nn.CrossEntropyLoss(reduction="sum")
    adversaries = {
        "linf": LinfPGDAttack(model, loss_fn, eps=0.1, nb_iter=3, eps_iter=0.05),
        "l1": L1PGDAttack(model, loss_fn, eps=2.0, nb_iter=4, eps_iter=0.7),
    }
    clean = loss_fn(model(data), target).item()
    report = [round(clean, 3)]
    for name in args.attacks:
        adv = adversaries[name].perturb(data, target)
        moved = (adv - data).flatten(1)
        print(name, "largest change", round(moved.abs().max().item(), 3))
        report += [round(moved.abs().sum(dim=1).mean().item(), 3), round(loss_fn(model(adv), target).item(), 3)]
    print("losses and norms", report)


if __name__ == "__main__":
    main()
# --- models.py
import torch.nn as nn


class LeNet(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.ReLU())
        self.linear = nn.Linear(8 * 3 * 3, num_classes)

    def forward(self, x):
        return self.linear(self.conv(x).flatten(1))
# --- utils.py
import torch


def clamp(input, min=0.0, max=1.0):
    return torch.clamp(input, min, max)


def normalize_by_l1(x, small_constant=1e-6):
    norm = x.abs().flatten(1).sum(dim=1).clamp(min=small_constant)
    return x / norm.view(-1, 1, 1, 1)


def batch_l1_proj(x, eps):
    """The nearest point of each row whose magnitudes sum to at most eps, by sorting."""
    view = x.flatten(1)
    sorted_abs, _ = view.abs().sort(dim=1, descending=True)
    cumulated = sorted_abs.cumsum(dim=1) - eps
    counts = torch.arange(1, view.size(1) + 1, dtype=view.dtype, device=view.device)
    rho = (sorted_abs - cumulated / counts > 0).sum(dim=1, keepdim=True).clamp(min=1)
    theta = (cumulated.gather(1, rho - 1) / rho).clamp(min=0)
    return (view.sign() * (view.abs() - theta).clamp(min=0)).view_as(x)
# --- attacks.py
import torch

from utils import batch_l1_proj, clamp, normalize_by_l1


def perturb_iterative(xvar, yvar, predict, nb_iter, eps, eps_iter, loss_fn, ord):
    delta = torch.zeros_like(xvar)
    delta.requires_grad_()
    for _ in range(nb_iter):
        loss = loss_fn(predict(xvar + delta), yvar)
        loss.backward()
        grad = delta.grad.data
        if ord == "inf":
            delta.data = (delta.data + eps_iter * grad.sign()).clamp(-eps, eps)
        elif ord == 1:
            view = grad.abs().flatten(1)
            vals, idx = view.topk(1)
            out = torch.zeros_like(view).scatter_(1, idx, vals).view_as(grad)
            grad = grad.sign() * (out > 0).float()
            delta.data = delta.data + eps_iter * normalize_by_l1(grad)
            delta.data = batch_l1_proj(delta.data.cpu(), eps)
            if xvar.is_cuda:
                delta.data = delta.data.cuda()
        else:
            raise NotImplementedError(f"no attack is bounded by ord {ord}")
        delta.data = clamp(xvar.data + delta.data) - xvar.data
        delta.grad.data.zero_()
    return clamp(xvar + delta).detach()


class PGDAttack:
    ord = None

    def __init__(self, predict, loss_fn, eps, nb_iter, eps_iter):
        self.predict, self.loss_fn = predict, loss_fn
        self.eps, self.nb_iter, self.eps_iter = eps, nb_iter, eps_iter

    def perturb(self, x, y):
        return perturb_iterative(x.detach().clone(), y, self.predict, self.nb_iter, self.eps, self.eps_iter, self.loss_fn, self.ord)


class LinfPGDAttack(PGDAttack):
    ord = "inf"


class L1PGDAttack(PGDAttack):
    ord = 1

# === cohorts_and_a_central_step
# thread: https://github.com/apple/pfl-research/pull/76
# about: users train a model on what they have, one after another, and only their changes are kept. The server makes a step with the mean of these
# operation: _?(foreach_)?addcmul_ on cpu, cuda:0, cuda:0
# operands: .*state_sums?.*|self|.*sum.*
# category: optimizer
# line: main.py: pytorch_model = make_model(
# line: main.py: central_optimizer = torch.optim.Adagrad(
# line: pytorch_model.py: self.pytorch_model = model.to(
# line: pytorch_model.py: self.central_optimizer = central_optimizer
# repair: main.py: pytorch_model = make_model(arguments.num_features, arguments.hidden) -> pytorch_model = make_model(arguments.num_features,
#   arguments.hidden).to(get_default_device())
import argparse

import torch

from algorithm import FederatedAveraging
from dataset import make_federated_dataset
from pytorch_model import PyTorchModel
from pytorch_ops import get_default_device, to_tensor


def get_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_features", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=8)
    parser.add_argument("--cohort_size", type=int, default=3)
    parser.add_argument("--central_num_iterations", type=int, default=4)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    return parser.parse_args()


def make_model(num_features, hidden):
    return torch.nn.Sequential(torch.nn.Linear(num_features, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1))


def main():
    torch.manual_seed(76)
    arguments = get_arguments()
    users, val_data = make_federated_dataset(num_users=9, num_features=arguments.num_features)

    pytorch_model = make_model(arguments.num_features, arguments.hidden)
    params = [p for p in pytorch_model.parameters() if p.requires_grad]
    central_optimizer = torch.optim.Adagrad(params, arguments.learning_rate, initial_accumulator_value=0.1)

    model = PyTorchModel(pytorch_model, local_optimizer_create=torch.optim.SGD, central_optimizer=central_optimizer)
    algorithm = FederatedAveraging(users, arguments.cohort_size, local_learning_rate=0.05)
    algorithm.run(model, arguments.central_num_iterations)

    features, labels = (to_tensor(each) for each in val_data)
    print("on", get_default_device().type)
    print("validation loss", round(model.loss(features, labels).item(), 3), "norm", round(model.norm(), 3))


if __name__ == "__main__":
    main()
# --- pytorch_ops.py
import torch


def get_default_device():
    return torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")


def to_tensor(values):
    return torch.as_tensor(values, dtype=torch.float32, device=get_default_device())
# --- dataset.py
import numpy as np


def make_federated_dataset(num_users, num_features):
    rng = np.random.default_rng(0)
    truth = rng.normal(size=num_features)

    def draw(points, shift):
        features = rng.normal(loc=shift, size=(points, num_features))
        return features, np.tanh(features @ truth)[:, None]

    return [draw(int(rng.integers(4, 10)), rng.normal(scale=0.3)) for _ in range(num_users)], draw(16, 0.0)
# --- algorithm.py
import torch

from pytorch_ops import to_tensor


class FederatedAveraging:
    def __init__(self, users, cohort_size, local_learning_rate):
        self.users = users
        self.cohort_size = cohort_size
        self.local_learning_rate = local_learning_rate

    def cohort(self, iteration):
        start = iteration * self.cohort_size
        return [self.users[(start + offset) % len(self.users)] for offset in range(self.cohort_size)]

    def run(self, model, iterations):
        for iteration in range(iterations):
            statistics = None
            for user in self.cohort(iteration):
                features, labels = (to_tensor(each) for each in user)
                change = model.train_locally(features, labels, self.local_learning_rate, epochs=2)
                statistics = change if statistics is None else [a + b for a, b in zip(statistics, change)]
            model.apply_model_update([each / self.cohort_size for each in statistics])
# --- pytorch_model.py
import torch

from pytorch_ops import get_default_device


class PyTorchModel:
    """What users train, and what the server makes its step with."""

    def __init__(self, model, local_optimizer_create, central_optimizer):
        self.pytorch_model = model.to(get_default_device())
        self.local_optimizer_create = local_optimizer_create
        self.central_optimizer = central_optimizer

    def loss(self, features, labels):
        return torch.nn.functional.mse_loss(self.pytorch_model(features), labels)

    def parameters(self):
        return list(self.pytorch_model.parameters())

    def norm(self):
        return sum(p.detach().square().sum().item() for p in self.parameters()) ** 0.5

    def train_locally(self, features, labels, learning_rate, epochs):
        before = [p.detach().clone() for p in self.parameters()]
        optimizer = self.local_optimizer_create(self.pytorch_model.parameters(), lr=learning_rate)
        for _ in range(epochs):
            optimizer.zero_grad()
            self.loss(features, labels).backward()
            optimizer.step()
        with torch.no_grad():
            change = [old - new for old, new in zip(before, self.parameters())]
            for p, old in zip(self.parameters(), before):
                p.copy_(old)
        return change

    def apply_model_update(self, statistics):
        self.central_optimizer.zero_grad()
        for p, difference in zip(self.parameters(), statistics):
            p.grad = difference
        self.central_optimizer.step()

# === training_goes_on_with_its_average
# thread: https://github.com/mosaicml/composer/pull/1003
# about: a run is stopped and begun again from its file. An algorithm keeps a slow average of the weights and puts it into the model while this is evaluated
# operation: lerp_ on cpu, cuda:0
# operands: self|.*average.*|.*param_list.*, end|.*param.*
# category: checkpoint|cached-state
# line: ema.py: self.match_events =
# line: ema.py: assert 0 <
# line: ema.py: self.ema_model = ShadowModel(
# line: ema.py: average.lerp_(
# line: trainer.py: checkpoint = torch.load(
# line: trainer.py: algorithm.load_state_dict(
# repair: ema.py: self.match_events = [Event.BATCH_END, Event.EVAL_START, Event.EVAL_END] -> self.match_events = [Event.FIT_START, Event.BATCH_END,
#   Event.EVAL_START, Event.EVAL_END]
# repair: ema.py: assert 0 < self.smoothing < 1 -> if event == Event.FIT_START and self.ema_model: self.ema_model.param_list = [s.to(d.device) for s, d in
#   zip(self.ema_model.param_list, state.model.parameters())]
import tempfile
from pathlib import Path

import torch

from ema import EMA
from trainer import Trainer


def make_model():
    return torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))


def make_batches(seed, count):
    draw = torch.Generator().manual_seed(seed)
    return [(torch.randn(8, 5, generator=draw), torch.randint(0, 3, (8,), generator=draw)) for _ in range(count)]


def main():
    torch.manual_seed(12)
    train, evaluation = make_batches(1, 6), make_batches(2, 2)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "ep1.pt"
        first = Trainer(make_model(), train, evaluation, algorithms=[EMA(half_life=3)])
        first.fit(epochs=1)
        first.save_checkpoint(checkpoint)
        second = Trainer(make_model(), train, evaluation, algorithms=[EMA(half_life=3)], load_path=checkpoint)
        second.fit(epochs=1)
    weights = torch.cat([p.detach().cpu().flatten() for p in second.state.model.parameters()])
    print("batches", second.state.batch, "eval", round(second.state.eval_loss, 3), "weights", round(weights.norm().item(), 3))


if __name__ == "__main__":
    main()
# --- core.py
import enum
from dataclasses import dataclass
from typing import Any


Event = enum.Enum("Event", "FIT_START BATCH_END EVAL_START EVAL_END")


@dataclass
class State:
    model: Any
    optimizer: Any
    batch: int = 0
    eval_loss: float = float("nan")


class Engine:
    def __init__(self, state, algorithms):
        self.state, self.algorithms = state, algorithms

    def run_event(self, event):
        for algorithm in self.algorithms:
            if event in algorithm.match_events:
                algorithm.apply(event, self.state)
# --- ema.py
import copy

import torch

from core import Event


class ShadowModel:
    def __init__(self, param_list):
        self.param_list = [copy.deepcopy(p.data) for p in param_list]


def swap(shadow, model):
    for average, param in zip(shadow.param_list, model.parameters()):
        kept = param.data.clone()
        param.data.copy_(average)
        average.copy_(kept)


class EMA:
    def __init__(self, half_life):
        self.smoothing = 2 ** (-1 / half_life)
        self.ema_model = None
        self.match_events = [Event.BATCH_END, Event.EVAL_START, Event.EVAL_END]

    def apply(self, event, state):
        assert 0 < self.smoothing < 1
        if event == Event.BATCH_END:
            if self.ema_model is None:
                self.ema_model = ShadowModel(state.model.parameters())
            self.update(state.model)
        elif self.ema_model and event in (Event.EVAL_START, Event.EVAL_END):
            swap(self.ema_model, state.model)

    @torch.no_grad()
    def update(self, model):
        for average, param in zip(self.ema_model.param_list, model.parameters()):
            average.lerp_(param, 1 - self.smoothing)

    def state_dict(self):
        return {"smoothing": self.smoothing, "ema_model": list(self.ema_model.param_list)}

    def load_state_dict(self, serialized):
        self.smoothing = serialized["smoothing"]
        self.ema_model = ShadowModel(serialized["ema_model"])
# --- trainer.py
import torch
import torch.nn.functional as F

from core import Engine, Event, State


class Trainer:
    def __init__(self, model, train_batches, eval_batches, algorithms, load_path=None, device="gpu"):
        self.device = torch.device("cuda:0" if device == "gpu" and torch.cuda.is_available() else "cpu")
        self.train_batches, self.eval_batches = train_batches, eval_batches
        self.state = State(model.to(self.device), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        self.algorithms = algorithms
        self.engine = Engine(self.state, algorithms)
        if load_path is not None:
            self.load_checkpoint(load_path)

    def save_checkpoint(self, path):
        state = {"model": self.state.model.state_dict(), "optimizer": self.state.optimizer.state_dict(), "batch": self.state.batch}
        torch.save({**state, "algorithms": [algorithm.state_dict() for algorithm in self.algorithms]}, path)

    def load_checkpoint(self, path):
        checkpoint = torch.load(path, map_location="cpu")
        self.state.model.load_state_dict(checkpoint["model"])
        self.state.optimizer.load_state_dict(checkpoint["optimizer"])
        self.state.batch = checkpoint["batch"]
        for algorithm, serialized in zip(self.algorithms, checkpoint["algorithms"]):
            algorithm.load_state_dict(serialized)

    def fit(self, epochs):
        self.engine.run_event(Event.FIT_START)
        for _ in range(epochs):
            for batch in self.train_batches:
                x, y = batch[0].to(self.device), batch[1].to(self.device)
                self.state.optimizer.zero_grad()
                F.cross_entropy(self.state.model(x), y).backward()
                self.state.optimizer.step()
                self.state.batch += 1
                self.engine.run_event(Event.BATCH_END)
            self.evaluate()

    @torch.no_grad()
    def evaluate(self):
        self.engine.run_event(Event.EVAL_START)
        losses = [F.cross_entropy(self.state.model(x.to(self.device)), y.to(self.device)).item() for x, y in self.eval_batches]
        self.state.eval_loss = sum(losses) / len(losses)
        self.engine.run_event(Event.EVAL_END)

# === scores_of_each_epoch
# thread: https://github.com/ludwig-ai/ludwig/pull/1668
# about: a model has outputs of several kinds, each with its scores. These are parts of the model, gathered over an epoch and begun anew for the next
# operation: add_ on cpu, cuda:0
# operands: self|.*total.*
# category: created-without-device
# line: metric_modules.py: self.avg = RunningMean()
# line: metric_modules.py: self.avg.update(
# line: metric_modules.py: self.total +=
# line: trainer.py: self.model.reset_metrics()
# repair: metric_modules.py: self.avg = RunningMean() -> self.avg.reset()
import torch

from features import OutputFeature
from trainer import ECD, Trainer

CONFIG = {
    "input_size": 6,
    "output_features": [{"name": "price", "type": "number"}, {"name": "kind", "type": "category", "num_classes": 4}],
    "training": {"epochs": 2, "learning_rate": 0.05, "batch_size": 8},
}


def make_dataset(rows):
    draw = torch.Generator().manual_seed(1668)
    inputs = torch.randn(rows, CONFIG["input_size"], generator=draw)
    return inputs, {"price": inputs.sum(dim=1), "kind": torch.randint(0, 4, (rows,), generator=draw)}


def main():
    torch.manual_seed(8)
    features = {each["name"]: OutputFeature(**each) for each in CONFIG["output_features"]}
    model = ECD(CONFIG["input_size"], features)
    trainer = Trainer(model, **CONFIG["training"])
    history = trainer.train(make_dataset(24))
    for epoch, scores in enumerate(history):
        print("epoch", epoch, ", ".join(f"{name} {value:.3f}" for name, value in sorted(scores.items())))


if __name__ == "__main__":
    main()
# --- metric_modules.py
import torch
from torch import nn


class RunningMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(1))
        self.register_buffer("count", torch.zeros(1))

    def update(self, values):
        self.total += values.sum()
        self.count += values.numel()

    def compute(self):
        return self.total / self.count

    def reset(self):
        self.total.zero_()
        self.count.zero_()


class MeanMetric(nn.Module):
    """The mean over all rows of what get_current_value says of a batch."""

    def __init__(self, average=RunningMean):
        super().__init__()
        self.avg = average()

    def update(self, preds, target):
        self.avg.update(self.get_current_value(preds, target))

    def compute(self):
        return self.avg.compute()

    def reset(self):
        self.avg = RunningMean()


class MAEMetric(MeanMetric):
    def get_current_value(self, preds, target):
        return (preds - target).abs()


class CategoryAccuracy(MeanMetric):
    def get_current_value(self, preds, target):
        return (preds.argmax(dim=1) == target).float()
# --- features.py
import torch.nn.functional as F
from torch import nn

from metric_modules import CategoryAccuracy, MAEMetric

METRICS = {"number": {"mean_absolute_error": MAEMetric}, "category": {"accuracy": CategoryAccuracy}}
LOSSES = {"number": F.mse_loss, "category": F.cross_entropy}


class OutputFeature(nn.Module):
    def __init__(self, name, type, num_classes=1):
        super().__init__()
        self.feature_name, self.output_size = name, num_classes
        self.train_loss = LOSSES[type]
        self._metrics = nn.ModuleDict({name: metric() for name, metric in METRICS[type].items()})

    def update_metrics(self, target, preds):
        for metric in self._metrics.values():
            metric.update(preds.detach(), target)

    def get_metrics(self):
        return {f"{self.feature_name}.{name}": metric.compute().item() for name, metric in self._metrics.items()}
# --- trainer.py
import torch
from torch import nn


class ECD(nn.Module):
    """One combiner of all inputs, and a decoder for each output feature."""

    def __init__(self, input_size, output_features, hidden=12):
        super().__init__()
        self.combiner = nn.Sequential(nn.Linear(input_size, hidden), nn.ReLU())
        self.output_features = nn.ModuleDict(output_features)
        self.decoders = nn.ModuleDict({name: nn.Linear(hidden, each.output_size) for name, each in output_features.items()})

    def forward(self, inputs):
        hidden = self.combiner(inputs)
        return {name: decoder(hidden).squeeze(1) for name, decoder in self.decoders.items()}

    def reset_metrics(self):
        for feature in self.output_features.values():
            for metric in feature._metrics.values():
                metric.reset()


class Trainer:
    def __init__(self, model, epochs, learning_rate, batch_size):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = model.to(self.device)
        self.epochs, self.batch_size = epochs, batch_size
        self.optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)

    def train(self, dataset):
        history = []
        inputs, targets = dataset
        for _ in range(self.epochs):
            self.model.reset_metrics()
            for start in range(0, len(inputs), self.batch_size):
                rows = slice(start, start + self.batch_size)
                self.train_step(inputs[rows].to(self.device), {name: each[rows].to(self.device) for name, each in targets.items()})
            features = self.model.output_features.values()
            history.append({name: value for feature in features for name, value in feature.get_metrics().items()})
        return history

    def train_step(self, inputs, targets):
        self.optimizer.zero_grad()
        outputs = self.model(inputs)
        features = self.model.output_features
        sum(features[name].train_loss(preds, targets[name]) for name, preds in outputs.items()).backward()
        self.optimizer.step()
        for name, preds in outputs.items():
            features[name].update_metrics(targets[name], preds)

# === people_found_by_what_is_told
# thread: https://github.com/anosorae/IRRA/issues/11
# about: pictures of people are found by sentences. All pictures and sentences are made into features, and it is told how often the right person comes first
# operation: index on cpu, cuda:0
# operands: self|g_pids|gids, indices
# category: input-not-moved
# line: metrics.py: gids = torch.cat(
# line: metrics.py: qids = torch.cat(
# line: metrics.py: pred_labels = g_pids[indices]
# line: metrics.py: gids.append(
# line: metrics.py: qids.append(
# line: metrics.py: indices = torch.argsort(
# line: metrics.py: t2i = rank(
# line: metrics.py: qfeats, gfeats, qids, gids = self._compute_embedding(
# repair: metrics.py: gids = torch.cat(gids, 0) -> gids = torch.cat(gids, 0).to(device)
# repair: metrics.py: qids = torch.cat(qids, 0) -> qids = torch.cat(qids, 0).to(device)
import argparse

import torch

from datasets import build_loaders
from metrics import Evaluator
from model import IRRA


def main():
    parser = argparse.ArgumentParser(description="Text-to-image person retrieval")
    parser.add_argument("--num_people", type=int, default=5)
    parser.add_argument("--embed_dim", type=int, default=16)
    parser.add_argument("--i2t", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(11)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    img_loader, txt_loader = build_loaders(args.num_people)
    model = IRRA(vocab_size=30, embed_dim=args.embed_dim)
    model.to(device)
    evaluator = Evaluator(img_loader, txt_loader)
    table = evaluator.eval(model, i2t_metric=args.i2t)
    for task, row in table.items():
        print(task, "R1 {:.3f} R5 {:.3f} mAP {:.3f} mINP {:.3f}".format(*row))


if __name__ == "__main__":
    main()
# --- datasets.py
import torch
from torch.utils.data import DataLoader, TensorDataset


def build_loaders(num_people, batch_size=4):
    """Three pictures and two sentences of each person."""
    draw = torch.Generator().manual_seed(4)
    pids = torch.arange(num_people)
    images = torch.rand(num_people * 3, 3, 8, 4, generator=draw)
    captions = torch.randint(1, 30, (num_people * 2, 7), generator=draw)
    img_set = TensorDataset(pids.repeat_interleave(3), images)
    txt_set = TensorDataset(pids.repeat_interleave(2), captions)
    return DataLoader(img_set, batch_size), DataLoader(txt_set, batch_size)
# --- model.py
import torch.nn as nn


class IRRA(nn.Module):
    def __init__(self, vocab_size, embed_dim):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, embed_dim)
        self.text_projection = nn.Linear(embed_dim, embed_dim)
        self.visual = nn.Sequential(nn.Conv2d(3, embed_dim, 4, stride=4), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def encode_text(self, caption):
        return self.text_projection(self.token_embedding(caption).mean(dim=1))

    def encode_image(self, image):
        return self.visual(image)
# --- metrics.py
import torch
import torch.nn.functional as F


def rank(similarity, q_pids, g_pids, max_rank=10):
    indices = torch.argsort(similarity, dim=1, descending=True)
    pred_labels = g_pids[indices]
    matches = pred_labels.eq(q_pids.view(-1, 1))

    all_cmc = matches[:, :max_rank].cumsum(1)
    all_cmc[all_cmc > 1] = 1
    all_cmc = all_cmc.float().mean(0) * 100

    num_rel = matches.sum(1)
    tmp_cmc = matches.cumsum(1)
    last = [row.nonzero()[-1] for row in matches]
    mINP = torch.cat([tmp_cmc[i][place] / (place + 1.0) for i, place in enumerate(last)]).mean() * 100

    precision = torch.stack([tmp_cmc[:, i] / (i + 1.0) for i in range(tmp_cmc.shape[1])], 1) * matches
    mAP = (precision.sum(1) / num_rel).mean() * 100
    return all_cmc, mAP, mINP


class Evaluator:
    def __init__(self, img_loader, txt_loader):
        self.img_loader = img_loader
        self.txt_loader = txt_loader

    @torch.no_grad()
    def _compute_embedding(self, model):
        model = model.eval()
        device = next(model.parameters()).device
        qids, gids, qfeats, gfeats = [], [], [], []
        for pid, caption in self.txt_loader:
            qids.append(pid.view(-1))
            qfeats.append(model.encode_text(caption.to(device)))
        qids = torch.cat(qids, 0)
        qfeats = torch.cat(qfeats, 0)

        for pid, img in self.img_loader:
            gids.append(pid.view(-1))
            gfeats.append(model.encode_image(img.to(device)))
        gids = torch.cat(gids, 0)
        gfeats = torch.cat(gfeats, 0)
        return qfeats, gfeats, qids, gids

    def eval(self, model, i2t_metric=False):
        qfeats, gfeats, qids, gids = self._compute_embedding(model)
        similarity = F.normalize(qfeats, p=2, dim=1) @ F.normalize(gfeats, p=2, dim=1).t()
        t2i = rank(similarity=similarity, q_pids=qids, g_pids=gids)
        table = {"t2i": self.row(*t2i)}
        if i2t_metric:
            table["i2t"] = self.row(*rank(similarity=similarity.t(), q_pids=gids, g_pids=qids))
        return table

    @staticmethod
    def row(cmc, mAP, mINP):
        cmc = cmc.cpu().numpy()
        return cmc[0], cmc[4], mAP.cpu().numpy(), mINP.cpu().numpy()
