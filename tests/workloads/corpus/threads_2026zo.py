# === a_model_read_onto_the_gpu
# thread: https://github.com/coreweave/tensorizer/issues/90
# about: weights are read from a file straight onto the GPU, into a model that was built without any. What the file does not hold stays as it was built
# operation: mul on cuda:0, cpu
# operands: other|.*inv_freq.*
# category: module-split|checkpoint|state-not-registered
# line: main.py: deserializer.load_into_module(
# line: modeling.py: freqs = positions
# line: modeling.py: self.register_buffer("inv_freq",
# repair: main.py: deserializer.load_into_module(model) -> deserializer.load_into_module(model); model.to(device)
import argparse
import tempfile
from pathlib import Path

import torch

from modeling import GPTConfig, GPTForCausalLM
from serialization import TensorDeserializer, TensorSerializer
from utils import no_init


def write(path, config):
    torch.manual_seed(17)
    with TensorSerializer(path) as serializer:
        serializer.write_module(GPTForCausalLM(config))


def load(path, config, device):
    with no_init():
        model = GPTForCausalLM(config)
    with TensorDeserializer(path, device=device) as deserializer:
        deserializer.load_into_module(model)
    return model.eval()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--max-new-tokens", type=int, default=4)
    args = parser.parse_args()
    config = GPTConfig(vocab_size=20, width=16, layers=2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tensors"
        write(path, config)
        model = load(path, config, torch.device(args.device))
    ids = torch.tensor([[3, 1, 4, 1]], device=args.device)
    print("tokens", model.generate(ids, args.max_new_tokens)[0].tolist())


if __name__ == "__main__":
    main()
# --- utils.py
from contextlib import contextmanager

from torch import nn


@contextmanager
def no_init():
    """Layers are not filled with numbers by chance: they are read in a moment."""
    kept = {cls: cls.reset_parameters for cls in (nn.Linear, nn.Embedding)}
    try:
        for cls in kept:
            cls.reset_parameters = lambda self: None
        yield
    finally:
        for cls, method in kept.items():
            cls.reset_parameters = method
# --- serialization.py
import numpy as np
import torch
from torch import nn


class TensorSerializer:
    def __init__(self, path):
        self.path, self.arrays = path, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with open(self.path, "wb") as file:
            np.savez(file, **self.arrays)

    def write_module(self, module):
        self.arrays.update((name, tensor.numpy()) for name, tensor in module.state_dict().items())


class TensorDeserializer:
    def __init__(self, path, device):
        self.path, self.device = path, device

    def __enter__(self):
        self.arrays = np.load(self.path)
        return self

    def __exit__(self, *_):
        self.arrays.close()

    def load_into_module(self, module):
        buffers = dict(module.named_buffers())
        for name in self.arrays.files:
            tensor = torch.from_numpy(self.arrays[name]).to(self.device)
            owner, _, leaf = name.rpartition(".")
            owner = module.get_submodule(owner)
            setattr(owner, leaf, tensor if name in buffers else nn.Parameter(tensor, requires_grad=False))
        return len(self.arrays.files)
# --- modeling.py
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class GPTConfig:
    vocab_size: int
    width: int
    layers: int
    base: float = 100.0


class RotaryEmbedding(nn.Module):
    def __init__(self, width, base):
        super().__init__()
        inv_freq = base ** (-torch.arange(0, width, 2) / width)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, x):
        positions = torch.arange(x.shape[1], device=x.device).float()
        freqs = positions[:, None] * self.inv_freq
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * freqs.cos() - b * freqs.sin(), b * freqs.cos() + a * freqs.sin()], dim=-1)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.rotary = RotaryEmbedding(config.width, config.base)

    def forward(self, x):
        q, k, v = self.qkv(self.ln(x)).chunk(3, dim=-1)
        return x + nn.functional.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)


class GPTForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.width)
        self.h = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.lm_head = nn.Linear(config.width, config.vocab_size, bias=False)

    def forward(self, ids):
        x = self.wte(ids)
        for block in self.h:
            x = block(x)
        return self.lm_head(x)

    @torch.no_grad()
    def generate(self, ids, max_new_tokens):
        for _ in range(max_new_tokens):
            ids = torch.cat([ids, self(ids)[:, -1:].argmax(-1)], dim=1)
        return ids

# === how_far_it_has_come
# thread: https://github.com/kozistr/pytorch_optimizer/issues/266
# about: an optimizer finds its step size from how far weights have come, and sums this up for each group of them. A training on the second GPU is resumed from a file
# operation: add_? on cpu, cuda:1
# operands: self|d_numerator
# category: optimizer|checkpoint
# line: prodigy.py: d_numerator = group["d_numerator"]
# line: trainer.py: optimizer.load_state_dict(
# line: trainer.py: checkpoint = torch.load(
# repair: prodigy.py: d_numerator = group["d_numerator"] -> d_numerator = group["d_numerator"] = group["d_numerator"].to(device)
import tempfile
from pathlib import Path

import torch

from aigen import TextModel, tokens
from trainer import Trainer

config = {
    "accelerator": "cuda" if torch.cuda.is_available() else "cpu",
    "devices": [1],
    "optimizer": {"name": "Prodigy", "lr": 1.0, "weight_decay": 0.01},
    "steps": 3,
}


def train(folder, ckpt_path=None):
    torch.manual_seed(8)
    trainer = Trainer(config, folder)
    losses = trainer.fit(TextModel(vocabulary=11, width=12), tokens(seed=5), ckpt_path=ckpt_path)
    return trainer, losses


with tempfile.TemporaryDirectory() as folder:
    first, before = train(Path(folder))
    second, after = train(Path(folder), ckpt_path=first.last_checkpoint)
print("losses", before, "resumed", after)
# --- aigen.py
import torch
from torch import nn


def tokens(seed, batches=4, batch_size=3, length=6):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 11, (batch_size, length), generator=draw) for _ in range(batches)]


class TextModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary)

    def training_step(self, batch):
        hidden = self.mix(self.embed(batch[:, :-1])).tanh().cumsum(1)
        return nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), batch[:, 1:].flatten())
# --- prodigy.py
import torch
from torch.optim import Optimizer


class Prodigy(Optimizer):
    """Adam whose learning rate is an estimate of the distance to the solution."""

    def __init__(self, params, lr=1.0, betas=(0.9, 0.99), d0=1e-3, weight_decay=0.0, eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, d=d0, d_max=d0, weight_decay=weight_decay, eps=eps, step=0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            self.step_group(group)

    def step_group(self, group):
        params = [p for p in group["params"] if p.grad is not None]
        device = params[0].device
        beta1, beta2 = group["betas"]
        group["step"] += 1
        if group["step"] == 1:
            group["d_numerator"] = torch.zeros(1, device=device)
        d_numerator = group["d_numerator"]
        d_numerator.mul_(beta2**0.5)
        d_de_nom = torch.zeros(1, device=device)
        for p in params:
            state = self.state[p]
            if len(state) == 0:
                state["p0"] = p.clone()
                state["s"], state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(p) for _ in range(3))
            d, grad = group["d"], p.grad
            d_numerator.add_(torch.dot(grad.flatten(), (state["p0"] - p).flatten()), alpha=d)
            state["exp_avg"].mul_(beta1).add_(grad, alpha=d * (1 - beta1))
            state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=d * d * (1 - beta2))
            state["s"].mul_(beta2**0.5).add_(grad, alpha=d)
            d_de_nom.add_(state["s"].abs().sum())
        group["d_max"] = max(group["d_max"], (d_numerator / d_de_nom.clamp(min=1e-12)).item())
        group["d"] = min(group["d_max"], 0.1)
        for p in params:
            state = self.state[p]
            p.mul_(1 - group["weight_decay"] * group["d"] * group["lr"])
            denom = state["exp_avg_sq"].sqrt().add_(group["d"] * group["eps"])
            p.addcdiv_(state["exp_avg"], denom, value=-group["d"] * group["lr"])
# --- trainer.py
import torch

from prodigy import Prodigy

OPTIMIZERS = {"Prodigy": Prodigy, "SGD": torch.optim.SGD}


class Trainer:
    def __init__(self, config, folder):
        self.config, self.folder = config, folder
        self.device = torch.device(config["accelerator"])
        if self.device.type == "cuda":
            self.device = torch.device("cuda", config["devices"][0])
        self.last_checkpoint = folder / "last.ckpt"

    def configure_optimizer(self, model):
        options = dict(self.config["optimizer"])
        return OPTIMIZERS[options.pop("name")](model.parameters(), **options)

    def restore(self, path, model, optimizer):
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        return checkpoint["global_step"]

    def fit(self, model, batches, ckpt_path=None):
        model.to(self.device)
        optimizer = self.configure_optimizer(model)
        start = 0 if ckpt_path is None else self.restore(ckpt_path, model, optimizer)
        losses = []
        for step in range(start, start + self.config["steps"]):
            loss = model.training_step(batches[step % len(batches)].to(self.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 4))
        state = {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict(), "global_step": step + 1}
        torch.save(state, self.last_checkpoint)
        return losses

# === who_was_lost_from_sight
# thread: https://github.com/Novartis/torchsurv/issues/145
# about: some patients are lost from sight before anything happens to them. The others count more in a score, by how likely it was to be seen so long
# operation: index_put.* on cuda:0, cpu
# operands: values?|.*censoring.*
# category: created-without-device
# line: kaplan_meier.py: survival = torch.empty(
# line: ipcw.py: ipcw[seen] =
# line: ipcw.py: censoring = estimator.predict(
# repair: kaplan_meier.py: survival = torch.empty(len(new_time)) -> survival = torch.empty(len(new_time), device=new_time.device)
import torch

from brier import brier_score
from cohort import draw_cohort
from cox import CoxNet, baseline_survival, neg_partial_log_likelihood

EPOCHS = 4
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(12)
x, event, time = (each.to(device) for each in draw_cohort(patients=30, seed=3))
model = CoxNet(x.shape[1]).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05, foreach=False)
for epoch in range(EPOCHS):
    loss = neg_partial_log_likelihood(model(x), event, time)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
with torch.no_grad():
    horizon = time.median()
    estimate = baseline_survival(model(x), event, time, horizon)
print("brier score", round(brier_score(estimate, event, time, horizon).item(), 4))
# --- cohort.py
import torch


def draw_cohort(patients, seed, features=4):
    """Some things happen later to who has a low risk; and some leave before."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(patients, features, generator=draw)
    risk = x[:, 0] - 0.5 * x[:, 1]
    happens = -torch.rand(patients, generator=draw).log() * torch.exp(-risk)
    leaves = -torch.rand(patients, generator=draw).log() * 1.5
    return x, happens <= leaves, torch.minimum(happens, leaves)
# --- cox.py
import torch
from torch import nn


class CoxNet(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def neg_partial_log_likelihood(log_hazard, event, time):
    order = time.argsort(descending=True)
    log_hazard, event = log_hazard[order], event[order]
    at_risk = torch.logcumsumexp(log_hazard, dim=0)
    return -(log_hazard - at_risk)[event].mean()


def baseline_survival(log_hazard, event, time, horizon):
    order = time.argsort(descending=True)
    at_risk = log_hazard[order].exp().cumsum(0)
    happened = event[order] & (time[order] <= horizon)
    cumulated = (happened / at_risk).sum()
    return torch.exp(-cumulated * log_hazard.exp())
# --- kaplan_meier.py
import torch


class KaplanMeierEstimator:
    def __call__(self, event, time, censoring_dist=False):
        happened = ~event if censoring_dist else event
        self.time, inverse, total = torch.unique(time, return_inverse=True, return_counts=True)
        deaths = torch.zeros(len(self.time), device=time.device).index_add_(0, inverse, happened.float())
        at_risk = total.flip(0).cumsum(0).flip(0)
        self.km_est = torch.cumprod(1 - deaths / at_risk, dim=0)
        return self

    def predict(self, new_time):
        position = torch.searchsorted(self.time, new_time, right=True) - 1
        survival = torch.empty(len(new_time))
        survival[:] = self.km_est[position.clamp(min=0)]
        survival[position < 0] = 1.0
        return survival
# --- ipcw.py
import torch

from kaplan_meier import KaplanMeierEstimator


def get_ipcw(event, time, new_time=None):
    """Inverse probability of censoring weights; nothing for who was lost."""
    estimator = KaplanMeierEstimator()(event, time, censoring_dist=True)
    new_time = time if new_time is None else new_time
    censoring = estimator.predict(new_time)
    ipcw = torch.zeros_like(new_time)
    seen = censoring > 0
    ipcw[seen] = 1.0 / censoring[seen]
    return ipcw
# --- brier.py
import torch

from ipcw import get_ipcw


def brier_score(estimate, event, time, horizon):
    at_event = get_ipcw(event, time)
    at_horizon = get_ipcw(event, time, horizon.expand(len(time)))
    died = (event & (time <= horizon)) * at_event * estimate.square()
    alive = (time > horizon) * at_horizon * (1 - estimate).square()
    return torch.mean(died + alive)

# === windows_put_together_again
# thread: https://github.com/ProjectNeura/MIPCandy/issues/32
# about: a volume that is too large is cut into windows, which overlap, and what a network says of them is put together again. In its middle a window counts most
# operation: mul on cuda:0, cpu
# operands: other|kernel|.*gaussian.*
# category: default-or-current-device|created-without-device|input-not-moved|module-split
# line: sliding_window.py: kernel = self.gaussian(
# line: sliding_window.py: canvas = torch.zeros(
# line: sliding_window.py: acc_w = torch.zeros(
# line: sliding_window.py: x = torch.linspace(
# line: predictor.py: self.sliding_window = UNetSlidingWindow(
# repair: sliding_window.py: x = torch.linspace(-1, 1, size, device=self._device) -> x = torch.linspace(-1, 1, size, device=device)
# repair: sliding_window.py: def gaussian_1d(self, size): -> def gaussian_1d(self, size, device):
# repair: sliding_window.py: line = [self.gaussian_1d(size) for size in shape] -> line = [self.gaussian_1d(size, device) for size in shape]
# repair: sliding_window.py: def gaussian(self, shape): -> def gaussian(self, shape, device):
# repair: sliding_window.py: kernel = self.gaussian(windows.shape[2:]) -> kernel = self.gaussian(windows.shape[2:], windows.device)
# repair: sliding_window.py: canvas = torch.zeros(windows.shape[1], *metadata.shape, device=self._device) -> canvas = torch.zeros(windows.shape[1], *metadata.shape, device=windows.device)
# repair: sliding_window.py: acc_w = torch.zeros(metadata.shape, device=self._device) -> acc_w = torch.zeros(metadata.shape, device=windows.device)
import torch

from network import make_network
from predictor import Predictor
from volumes import load_case

torch.manual_seed(4)
device = "cuda" if torch.cuda.is_available() else "cpu"
predictor = Predictor(make_network(num_channels=2, num_classes=3), device=device)
for case in ("liver_001", "liver_002"):
    mask = predictor.predict(load_case(case))
    print(case, "voxels of each class", torch.bincount(mask.flatten().cpu(), minlength=3).tolist())
# --- volumes.py
import torch


def load_case(name, shape=(10, 9)):
    draw = torch.Generator().manual_seed(sum(map(ord, name)))
    return torch.rand(2, *shape, generator=draw)
# --- network.py
from torch import nn


def make_network(num_channels, num_classes):
    return nn.Sequential(
        nn.Conv2d(num_channels, 6, 3, padding=1),
        nn.LeakyReLU(),
        nn.Conv2d(6, num_classes, 1),
    )
# --- layout.py
from abc import ABCMeta, abstractmethod
from dataclasses import dataclass


class HasDevice:
    def __init__(self, device="cpu"):
        self._device = device

    def device(self, *, device=None):
        if device is None:
            return self._device
        self._device = device


@dataclass
class SWMetadata:
    shape: tuple
    starts: list


class WindowShape(metaclass=ABCMeta):
    @abstractmethod
    def get_window_shape(self):
        raise NotImplementedError
# --- sliding_window.py
import torch

from layout import HasDevice, SWMetadata, WindowShape


class SlidingWindow(HasDevice, WindowShape):
    def do_sliding_window(self, image):
        height, width = self.get_window_shape()
        starts = [(y, x) for y in self.steps(image.shape[1], height) for x in self.steps(image.shape[2], width)]
        windows = torch.stack([image[:, y : y + height, x : x + width] for y, x in starts])
        return windows, SWMetadata(tuple(image.shape[1:]), starts)

    @staticmethod
    def steps(length, window):
        return sorted({min(start, length - window) for start in range(0, length, window // 2)})

    def gaussian_1d(self, size):
        x = torch.linspace(-1, 1, size, device=self._device)
        return torch.exp(-2 * x**2)

    def gaussian(self, shape):
        line = [self.gaussian_1d(size) for size in shape]
        return torch.outer(*line)

    def revert_sliding_window(self, windows, metadata):
        kernel = self.gaussian(windows.shape[2:])
        canvas = torch.zeros(windows.shape[1], *metadata.shape, device=self._device)
        acc_w = torch.zeros(metadata.shape, device=self._device)
        height, width = windows.shape[2:]
        for window, (y, x) in zip(windows, metadata.starts):
            canvas[:, y : y + height, x : x + width] += window * kernel
            acc_w[y : y + height, x : x + width] += kernel
        return canvas / acc_w
# --- predictor.py
import torch

from layout import HasDevice
from sliding_window import SlidingWindow


class UNetSlidingWindow(SlidingWindow):
    def get_window_shape(self):
        return 6, 6


class Predictor(HasDevice):
    def __init__(self, network, device="cpu"):
        super().__init__(device)
        self.network = network.to(self._device).eval()
        self.sliding_window = UNetSlidingWindow()

    @torch.no_grad()
    def predict(self, image):
        windows, metadata = self.sliding_window.do_sliding_window(image.to(self._device))
        logits = torch.cat([self.network(window[None]) for window in windows])
        return self.sliding_window.revert_sliding_window(logits, metadata).argmax(0)

# === few_modes_of_many_snapshots
# thread: https://github.com/PINA-org/PINA/issues/649
# about: solutions of an equation are told by few numbers, those of their most important modes. A network learns these numbers, and is moved to the GPU when its training starts
# operation: mm|matmul|addmm on cuda:0, cpu
# operands: other|mat2|.*basis.*
# category: state-not-registered
# line: pod_block.py: self._basis = None
# line: pod_block.py: self._basis = modes[: self.rank]
# line: pod_block.py: return coefficients @ self.basis
# line: main.py: pod.fit(
# repair: pod_block.py: self._basis = None -> self.register_buffer("_basis", None)
import torch

from feed_forward import FeedForward
from pod_block import PODBlock
from problem import SupervisedProblem
from trainer import Trainer


class PODNN(torch.nn.Module):
    """Parameters of the equation come in, and its whole solution goes out."""

    def __init__(self, pod, layers, inputs):
        super().__init__()
        self.pod = pod
        self.nn = FeedForward(inputs, pod.rank, layers, func=torch.nn.Softplus)

    def forward(self, parameters):
        return self.pod.expand(self.nn(parameters))


torch.manual_seed(20)
problem = SupervisedProblem.heat(samples=12, points=30)
pod = PODBlock(rank=3)
pod.fit(problem.output_)
model = PODNN(pod, layers=[10, 10], inputs=problem.input_.shape[1])
accelerator = "gpu" if torch.cuda.is_available() else "cpu"
trainer = Trainer(model, problem, max_epochs=5, accelerator=accelerator)
print("losses", trainer.train())
# --- problem.py
from dataclasses import dataclass

import torch


@dataclass
class SupervisedProblem:
    input_: torch.Tensor
    output_: torch.Tensor

    @classmethod
    def heat(cls, samples, points):
        draw = torch.Generator().manual_seed(samples)
        parameters = torch.rand(samples, 2, generator=draw)
        x = torch.linspace(0, 3.1416, points)
        time, strength = parameters[:, :1], parameters[:, 1:]
        first, second = torch.exp(-time) * x.sin(), torch.exp(-4 * time) * (2 * x).sin()
        return cls(parameters, first + strength * second)
# --- feed_forward.py
from torch import nn


class FeedForward(nn.Module):
    def __init__(self, input_dimensions, output_dimensions, layers, func=nn.Tanh):
        super().__init__()
        sizes = [input_dimensions, *layers]
        modules = []
        for before, after in zip(sizes, sizes[1:]):
            modules += [nn.Linear(before, after), func()]
        self.model = nn.Sequential(*modules, nn.Linear(sizes[-1], output_dimensions))

    def forward(self, x):
        return self.model(x)
# --- pod_block.py
import torch
from torch import nn


class PODBlock(nn.Module):
    """Proper orthogonal decomposition: what is projected can be expanded again."""

    def __init__(self, rank):
        super().__init__()
        self.rank = rank
        self._basis = None

    @property
    def basis(self):
        if self._basis is None:
            raise RuntimeError("fit() has not been called yet")
        return self._basis

    def fit(self, snapshots):
        _, _, modes = torch.linalg.svd(snapshots, full_matrices=False)
        self._basis = modes[: self.rank].clone()

    def reduce(self, snapshots):
        return snapshots @ self.basis.T

    def expand(self, coefficients):
        return coefficients @ self.basis
# --- trainer.py
import torch

DEVICES = {"gpu": "cuda:0", "cpu": "cpu"}


class Trainer:
    def __init__(self, model, problem, max_epochs, accelerator):
        self.model, self.problem = model, problem
        self.max_epochs = max_epochs
        self.device = torch.device(DEVICES[accelerator])

    def train(self):
        self.model.to(self.device)
        optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01, foreach=False)
        input_, target = self.problem.input_.to(self.device), self.problem.output_.to(self.device)
        losses = []
        for _ in range(self.max_epochs):
            loss = torch.nn.functional.mse_loss(self.model(input_), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 4))
        return losses

# === the_sum_of_three_models
# thread: https://github.com/hako-mikan/sd-webui-supermerger/pull/422
# about: models are merged weight by weight; an option has it done on the GPU, to which two of the models' weights are taken. One way to merge takes three
# operation: add on cuda:0, cpu
# operands: other|.*theta_2.*
# category: input-not-moved
# line: mergers.py: theta_1[key] = theta_1[key].to("cuda")
# line: mergers.py: theta_0[key] = theta_0[key].to("cuda")
# line: calcmodes.py: return a * (1 - alpha - beta)
# line: mergers.py: merged = MODES[
# repair: mergers.py: theta_1[key] = theta_1[key].to("cuda") -> theta_1[key] = theta_1[key].to("cuda"); theta_2.update({key: theta_2[key].to("cuda")} if theta_2 else {})
import argparse

import torch

from checkpoints import load_model, model_hash
from mergers import smerge


def get_parser():
    parser = argparse.ArgumentParser(description="Merge checkpoints of one architecture")
    parser.add_argument("--model-a", default="photon_v1")
    parser.add_argument("--model-b", default="darksun_v4")
    parser.add_argument("--model-c", default="dream_c3")
    parser.add_argument("--mode", default="Triple sum", choices=["Weight sum", "Add difference", "Triple sum"])
    parser.add_argument("--alpha", type=float, default=0.5)
    parser.add_argument("--beta", type=float, default=0.25)
    parser.add_argument("--no-cuda", action="store_true")
    return parser


if __name__ == "__main__":
    args = get_parser().parse_args()
    options = ["save fp32"]
    if torch.cuda.is_available() and not args.no_cuda:
        options.append("use cuda")
    models = [load_model(name) for name in (args.model_a, args.model_b)]
    if args.mode != "Weight sum":
        models.append(load_model(args.model_c))
    theta, message = smerge(models, args.mode, args.alpha, args.beta, options)
    print(message, model_hash(theta))
# --- checkpoints.py
import torch

SHAPES = {
    "model.diffusion_model.input_blocks.0.0.weight": (4, 3),
    "model.diffusion_model.input_blocks.0.0.bias": (4,),
    "model.diffusion_model.out.2.weight": (3, 4),
    "first_stage_model.encoder.conv_in.weight": (2, 3),
    "cond_stage_model.transformer.text_model.embeddings.position_ids": (1, 5),
}


def load_model(name):
    draw = torch.Generator().manual_seed(sum(map(ord, name)))
    theta = {}
    for key, shape in SHAPES.items():
        if key.endswith("position_ids"):
            theta[key] = torch.arange(shape[1])[None]
        else:
            theta[key] = torch.randn(shape, generator=draw)
    return theta


def model_hash(theta):
    return round(sum(value.double().sum().item() for value in theta.values()), 4)
# --- calcmodes.py
def weight_sum(a, b, c, alpha, beta):
    return a * (1 - alpha) + b * alpha


def add_difference(a, b, c, alpha, beta):
    return a + (b - c) * alpha


def triple_sum(a, b, c, alpha, beta):
    return a * (1 - alpha - beta) + b * alpha + c * beta


MODES = {"Weight sum": weight_sum, "Add difference": add_difference, "Triple sum": triple_sum}
# --- mergers.py
import torch
from tqdm import tqdm

from calcmodes import MODES

SKIP = ("position_ids", "first_stage_model")


def smerge(models, mode, alpha, beta, save_sets):
    usecuda = "use cuda" in save_sets
    theta_0, theta_1 = dict(models[0]), dict(models[1])
    theta_2 = dict(models[2]) if len(models) > 2 else {}
    merged_keys = 0
    for key in tqdm(theta_0, desc="Stage 1/2", disable=True):
        if key not in theta_1 or any(part in key for part in SKIP):
            continue
        if theta_0[key].shape != theta_1[key].shape:
            continue
        if usecuda:
            theta_0[key] = theta_0[key].to("cuda")
            theta_1[key] = theta_1[key].to("cuda")
        merged = MODES[mode](theta_0[key], theta_1[key], theta_2.get(key), alpha, beta)
        theta_0[key] = merged.cpu() if usecuda else merged
        theta_1[key] = theta_1[key].cpu()
        merged_keys += 1
    dtype = torch.float32 if "save fp32" in save_sets else torch.float16
    theta_0 = {key: value.to(dtype) if value.is_floating_point() else value for key, value in theta_0.items()}
    return theta_0, f"{mode}: {merged_keys} of {len(theta_0)} merged"

# === a_picture_that_fools_a_classifier
# thread: https://github.com/Trusted-AI/adversarial-robustness-toolbox/issues/2553
# about: pictures are changed a little at a time, so that a network is wrong about them. What was changed is made smaller when it is larger than what is allowed
# operation: minimum on cpu, cuda:0
# operands: self|input|.*ones.*
# category: created-without-device
# line: projected_gradient_descent_pytorch.py: values_tmp = values_tmp * torch.minimum(
# repair: projected_gradient_descent_pytorch.py: values_tmp = values_tmp * torch.minimum(torch.ones(1), eps / (values_norm + tol)).unsqueeze(-1) -> values_tmp = values_tmp * torch.minimum(torch.ones(1).to(values_tmp.device), eps / (values_norm + tol)).unsqueeze(-1)
import numpy as np
import torch
from torch import nn

from data import load_digits_like
from projected_gradient_descent_pytorch import ProjectedGradientDescentPyTorch
from pytorch_classifier import PyTorchClassifier

torch.manual_seed(6)
x_train, y_train, x_test, y_test = load_digits_like(seed=9)
model = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 4))
classifier = PyTorchClassifier(
    model=model,
    loss=nn.CrossEntropyLoss(),
    optimizer=torch.optim.Adam(model.parameters(), lr=0.02, foreach=False),
    clip_values=(0.0, 1.0),
    device_type="gpu",
)
classifier.fit(x_train, y_train, batch_size=8, nb_epochs=3)
right = np.mean(classifier.predict(x_test).argmax(1) == y_test)
attack = ProjectedGradientDescentPyTorch(estimator=classifier, norm=2, eps=0.8, eps_step=0.3, max_iter=4)
x_adv = attack.generate(x=x_test, y=y_test)
fooled = np.mean(classifier.predict(x_adv).argmax(1) == y_test)
print("accuracy", right, "after the attack", fooled, "changed", round(float(np.abs(x_adv - x_test).mean()), 4))
# --- data.py
import numpy as np


def load_digits_like(seed, train=32, test=8):
    rng = np.random.default_rng(seed)
    y = np.arange(train + test) % 4
    x = rng.random((train + test, 1, 6, 6)).astype(np.float32) * 0.5
    for i, label in enumerate(y):
        x[i, 0, label, :] += 0.4
    return x[:train], y[:train], x[train:], y[train:]
# --- pytorch_classifier.py
import numpy as np
import torch


class PyTorchClassifier:
    """Arrays come in and go out; in between they are tensors on the model's device."""

    def __init__(self, model, loss, optimizer, clip_values=None, device_type="gpu"):
        self.clip_values = clip_values
        if device_type == "cpu" or not torch.cuda.is_available():
            self._device = torch.device("cpu")
        else:
            self._device = torch.device(f"cuda:{torch.cuda.current_device()}")
        self.model, self.loss, self.optimizer = model.to(self._device), loss, optimizer

    @property
    def device(self):
        return self._device

    def fit(self, x, y, batch_size, nb_epochs):
        for _ in range(nb_epochs):
            for start in range(0, len(x), batch_size):
                inputs = torch.from_numpy(x[start : start + batch_size]).to(self._device)
                labels = torch.from_numpy(y[start : start + batch_size]).to(self._device)
                self.optimizer.zero_grad()
                self.loss(self.model(inputs), labels).backward()
                self.optimizer.step()

    @torch.no_grad()
    def predict(self, x):
        return self.model(torch.from_numpy(np.ascontiguousarray(x)).to(self._device)).cpu().numpy()

    def loss_gradient(self, x, y):
        x = x.detach().clone().requires_grad_(True)
        self.loss(self.model(x), y).backward()
        return x.grad
# --- projected_gradient_descent_pytorch.py
import numpy as np
import torch


class ProjectedGradientDescentPyTorch:
    def __init__(self, estimator, norm, eps, eps_step, max_iter):
        self.estimator, self.norm = estimator, norm
        self.eps, self.eps_step, self.max_iter = eps, eps_step, max_iter

    def generate(self, x, y):
        inputs = torch.from_numpy(x).to(self.estimator.device)
        targets = torch.from_numpy(y).to(self.estimator.device)
        adv_x = inputs.clone()
        for _ in range(self.max_iter):
            adv_x = self._apply_perturbation(adv_x, self._compute_perturbation(adv_x, targets))
            adv_x = inputs + self._projection(adv_x - inputs, self.eps, self.norm)
        return adv_x.cpu().detach().numpy()

    def _compute_perturbation(self, x, y):
        grad = self.estimator.loss_gradient(x, y)
        if self.norm == np.inf:
            return grad.sign()
        return grad / (torch.norm(grad.flatten(1), dim=1).view(-1, 1, 1, 1) + 1e-8)

    def _apply_perturbation(self, x, perturbation):
        x = x + self.eps_step * perturbation
        return x if self.estimator.clip_values is None else x.clamp(*self.estimator.clip_values)

    @staticmethod
    def _projection(values, eps, norm_p):
        tol = 1e-7
        values_tmp = values.reshape(values.shape[0], -1)
        if norm_p == 2:
            values_norm = torch.linalg.norm(values_tmp, ord=2, dim=1)
            values_tmp = values_tmp * torch.minimum(torch.ones(1), eps / (values_norm + tol)).unsqueeze(-1)
        elif norm_p == np.inf:
            values_tmp = values_tmp.sign() * torch.clamp(values_tmp.abs(), max=eps)
        return values_tmp.reshape(values.shape)

# === agents_that_change_no_more
# thread: https://github.com/bqth29/simulated-bifurcation-algorithm/issues/73
# about: many agents look for the signs of numbers that make an energy low. Now and then energies are compared with those of the time before; who stays the same is done
# operation: eq on cuda:0, cpu
# operands: other|.*self\.energies.*|energies
# category: created-without-device|cached-state
# line: stop_window.py: self.energies = torch.tensor(
# line: stop_window.py: torch.eq(
# repair: stop_window.py: self.energies = torch.tensor([float("inf")] * n_agents, dtype=dtype) -> self.energies = torch.tensor([float("inf")] * n_agents, dtype=dtype, device=device)
import torch

from models import NumberPartitioning

torch.manual_seed(0)
device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
numbers = [4, 7, 1, 8, 5, 3, 6, 2]
model = NumberPartitioning(numbers, dtype=torch.float32, device=device)
spins, energy = model.minimize(agents=6, max_steps=120, sampling_period=10, convergence_threshold=2)
left = [n for n, s in zip(numbers, spins) if s > 0]
right = [n for n, s in zip(numbers, spins) if s <= 0]
print("left", sum(left), "right", sum(right), "energy", round(energy, 3))
# --- models.py
import torch

from simulated_bifurcation_engine import SimulatedBifurcationOptimizer


class NumberPartitioning:
    def __init__(self, numbers, dtype, device):
        values = torch.tensor(numbers, dtype=dtype, device=device)
        self.ising = torch.outer(values, values) / values.square().sum()
        self.ising.fill_diagonal_(0)

    def minimize(self, agents, max_steps, sampling_period, convergence_threshold):
        optimizer = SimulatedBifurcationOptimizer(agents, max_steps, sampling_period, convergence_threshold)
        spins = optimizer.run_integrator(self.ising)
        energies = torch.einsum("ia,ij,ja->a", spins, self.ising, spins)
        best = energies.argmin()
        return spins[:, best].tolist(), energies[best].item()
# --- simulated_bifurcation_engine.py
import torch

from stop_window import StopWindow


class SimulatedBifurcationOptimizer:
    """Positions of oscillators go to one side or the other as the pressure grows."""

    def __init__(self, agents, max_steps, sampling_period, convergence_threshold, time_step=0.1):
        self.agents, self.max_steps = agents, max_steps
        self.sampling_period, self.convergence_threshold = sampling_period, convergence_threshold
        self.time_step = time_step

    def run_integrator(self, ising):
        size = ising.shape[0]
        draw = torch.Generator().manual_seed(size)
        position, momentum = 0.2 * torch.rand(2, size, self.agents, generator=draw).to(ising) - 0.1
        window = StopWindow(size, self.agents, self.convergence_threshold, ising, ising.dtype, ising.device)
        for step in range(1, self.max_steps + 1):
            pressure = min(1.0, step / self.max_steps * 1.5)
            momentum += self.time_step * (pressure - 1) * position
            momentum -= self.time_step * 0.8 * (ising @ position)
            position += self.time_step * momentum
            outside = position.abs() > 1
            momentum[outside] = 0
            position.clamp_(-1, 1)
            if step % self.sampling_period == 0 and not window.must_continue(position.sign()):
                break
        return window.get_bifurcated_spins(position.sign())
# --- stop_window.py
import torch


class StopWindow:
    """Agents whose energy has been the same for a while have bifurcated."""

    def __init__(self, n_spins, n_agents, convergence_threshold, ising_tensor, dtype, device):
        self.convergence_threshold = convergence_threshold
        self.ising_tensor = ising_tensor
        self.stability = torch.zeros(n_agents, dtype=torch.int16, device=device)
        self.bifurcated = torch.zeros(n_agents, dtype=torch.bool, device=device)
        self.equal_energies = torch.zeros(n_agents, dtype=torch.bool, device=device)
        self.energies = torch.tensor([float("inf")] * n_agents, dtype=dtype)
        self.final_spins = torch.zeros(n_spins, n_agents, dtype=dtype, device=device)

    def _compare_energies(self, sampled_spins):
        energies = torch.einsum("ia,ij,ja->a", sampled_spins, self.ising_tensor, sampled_spins)
        torch.eq(energies, self.energies, out=self.equal_energies)
        self.energies = energies

    def must_continue(self, sampled_spins):
        self._compare_energies(sampled_spins)
        self.stability = torch.where(self.equal_energies, self.stability + 1, torch.zeros_like(self.stability))
        newly = (self.stability >= self.convergence_threshold) & ~self.bifurcated
        self.final_spins[:, newly] = sampled_spins[:, newly]
        self.bifurcated |= newly
        return not bool(self.bifurcated.all())

    def get_bifurcated_spins(self, sampled_spins):
        return torch.where(self.bifurcated, self.final_spins, sampled_spins)

# === rows_of_a_kernel_on_each_gpu
# thread: https://github.com/cornellius-gp/gpytorch/issues/2575
# about: how alike points are is a large matrix, whose rows are shared out between two GPUs, and computed only when the matrix is used. What it is multiplied with is on the first one
# operation: mm|matmul|addmm on cuda:1, cuda:0
# operands: other|mat2|rhs
# category: data-parallel|module-split|input-not-moved
# line: lazy.py: rows.append(part.evaluate()
# repair: lazy.py: rows.append(part.evaluate() @ rhs) -> rows.append((part.evaluate() @ rhs.to(part.device)).to(self.output_device))
import torch

from exact_gp import ExactGPModel
from settings import Settings

settings = Settings(preconditioner_size=0, max_cg_iterations=12, output_device="cuda:0")
if not torch.cuda.is_available():
    settings.output_device, settings.n_devices = "cpu", 1


def make_data(n, seed):
    draw = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 2, generator=draw)
    y = torch.sin(6 * x[:, 0]) + 0.5 * x[:, 1] + 0.05 * torch.randn(n, generator=draw)
    return x, y


train_x, train_y = (each.to(settings.output_device) for each in make_data(40, seed=1))
test_x, test_y = (each.to(settings.output_device) for each in make_data(10, seed=2))
errors = {}
for lengthscale in (0.1, 0.3, 0.9):
    model = ExactGPModel(train_x, train_y, lengthscale, noise=0.01, settings=settings)
    mean = model.predict(test_x)
    errors[lengthscale] = round((mean - test_y).abs().mean().item(), 4)
best = min(errors, key=errors.get)
print("Mean absolute errors", errors, "best lengthscale", best)
# --- settings.py
from dataclasses import dataclass, field

import torch


@dataclass
class Settings:
    preconditioner_size: int = 100
    max_cg_iterations: int = 20
    output_device: str = "cuda:0"
    n_devices: int = field(default_factory=torch.cuda.device_count)

    @property
    def device_ids(self):
        return list(range(self.n_devices))
# --- kernels.py
import torch
from torch import nn
from torch.nn.parallel import DataParallel

from lazy import CatLazyTensor, LazyEvaluatedKernel


class RBFKernel(nn.Module):
    def __init__(self, lengthscale):
        super().__init__()
        self.raw_lengthscale = nn.Parameter(torch.tensor([lengthscale]).log())

    def forward(self, x1, x2):
        scaled = torch.cdist(x1, x2) / self.raw_lengthscale.exp()
        return torch.exp(-0.5 * scaled**2)


class MultiDeviceKernel(DataParallel):
    """Allocates the covariance matrix on distributed devices, e.g. multiple GPUs."""

    def __init__(self, base_kernel, device_ids, output_device):
        super().__init__(base_kernel, device_ids=device_ids, output_device=output_device)
        self.target = torch.device(output_device)

    def forward(self, x1, x2):
        if len(self.device_ids) < 2:
            return LazyEvaluatedKernel(self.module, x1, x2)
        pieces = x1.chunk(len(self.device_ids))
        replicas = self.replicate(self.module, self.device_ids)
        parts = []
        for replica, piece, number in zip(replicas, pieces, self.device_ids):
            device = torch.device("cuda", number)
            parts.append(LazyEvaluatedKernel(replica, piece.to(device), x2.to(device)))
        return self.gather(parts, self.target)

    def gather(self, outputs, output_device):
        return CatLazyTensor(outputs, output_device=output_device)
# --- lazy.py
import torch


class LazyEvaluatedKernel:
    """Remembers kernel and points; numbers are computed when they are needed."""

    def __init__(self, kernel, x1, x2):
        self.kernel, self.x1, self.x2 = kernel, x1, x2

    @property
    def device(self):
        return self.x1.device

    @torch.no_grad()
    def evaluate(self):
        return self.kernel(self.x1, self.x2)

    def matmul(self, rhs):
        return self.evaluate() @ rhs


class CatLazyTensor:
    def __init__(self, parts, output_device):
        self.parts, self.output_device = parts, output_device

    def matmul(self, rhs):
        rows = []
        for part in self.parts:
            rows.append(part.evaluate() @ rhs)
        return torch.cat(rows)


def linear_cg(covariance, noise, rhs, max_iter):
    solution, residual = torch.zeros_like(rhs), rhs.clone()
    direction, norm = residual.clone(), residual.square().sum()
    for _ in range(max_iter):
        product = covariance.matmul(direction) + noise * direction
        step = norm / (direction * product).sum()
        solution += step * direction
        residual -= step * product
        norm, before = residual.square().sum(), norm
        direction = residual + norm / before * direction
    return solution
# --- exact_gp.py
from kernels import MultiDeviceKernel, RBFKernel
from lazy import linear_cg


class ExactGPModel:
    def __init__(self, train_x, train_y, lengthscale, noise, settings):
        base = RBFKernel(lengthscale).to(settings.output_device)
        self.covar_module = MultiDeviceKernel(base, settings.device_ids, settings.output_device)
        self.train_x, self.train_y, self.noise = train_x, train_y, noise
        self.settings = settings

    def predict(self, x):
        offset = self.train_y.mean()
        covariance = self.covar_module(self.train_x, self.train_x)
        target = (self.train_y - offset).unsqueeze(-1)
        weights = linear_cg(covariance, self.noise, target, self.settings.max_cg_iterations)
        return self.covar_module(x, self.train_x).matmul(weights).squeeze(-1) + offset

# === any_gate_of_a_circuit
# thread: https://github.com/TuringQ/deepquantum/issues/23
# about: a circuit changes a state gate by gate. Most gates are made from an angle; one takes any matrix, such as an array of NumPy. States are made on the GPU
# operation: mm|matmul|bmm on cpu, cuda:0
# operands: self|mat1|.*matrix.*|unitary
# category: module-split|created-without-device|input-not-moved
# line: main.py: circuit = build(
# line: main.py: state = circuit(
# line: gate.py: unitary = torch.tensor(
# line: gate.py: return matrix @ state
# line: main.py: init_state = QubitState(
# repair: main.py: state = circuit(init_state) -> state = circuit.to(device)(init_state)
import numpy as np
import torch

from circuit import QubitCircuit
from state import QubitState


def fourier(wires):
    size = 2**wires
    powers = np.outer(np.arange(size), np.arange(size))
    return np.exp(2j * np.pi * powers / size) / np.sqrt(size)


def build(nqubit):
    circuit = QubitCircuit(nqubit)
    circuit.any(unitary=fourier(nqubit), name="QFT")
    circuit.ry_layer(angles=[0.3 * (wire + 1) for wire in range(nqubit)])
    circuit.any(unitary=fourier(nqubit).conj().T, name="inverse QFT")
    return circuit


device = "cuda" if torch.cuda.is_available() else "cpu"
circuit = build(nqubit=2)
init_state = QubitState(nqubit=2, state="zeros", device=device)
state = circuit(init_state)
probabilities = state.real.square() + state.imag.square()
print(circuit.names(), [round(p, 4) for p in probabilities.flatten().tolist()])
# --- state.py
import torch
from torch import nn


class QubitState(nn.Module):
    """A vector of amplitudes, one for each word of zeros and ones."""

    def __init__(self, nqubit, state="zeros", device="cpu"):
        super().__init__()
        self.nqubit = nqubit
        size = 2**nqubit
        if state == "zeros":
            amplitudes = torch.zeros(size, 1, dtype=torch.cfloat, device=device)
            amplitudes[0] = 1
        elif state == "equal":
            amplitudes = torch.full((size, 1), size**-0.5, dtype=torch.cfloat, device=device)
        else:
            amplitudes = torch.as_tensor(state, dtype=torch.cfloat, device=device).reshape(size, 1)
        self.register_buffer("state", amplitudes)
# --- gate.py
import math

import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, name, nqubit):
        super().__init__()
        self.name, self.nqubit = name, nqubit

    def get_matrix(self):
        raise NotImplementedError

    def forward(self, state):
        matrix = self.get_matrix()
        return matrix @ state


class UAnyGate(Gate):
    """Arbitrary unitary gate."""

    def __init__(self, unitary, name="uany", nqubit=1):
        super().__init__(name, nqubit)
        if not isinstance(unitary, torch.Tensor):
            unitary = torch.tensor(unitary, dtype=torch.cfloat).reshape(-1, 2**nqubit)
        if unitary.shape != (2**nqubit, 2**nqubit):
            raise ValueError(f"{name} is no matrix for {nqubit} qubits")
        self.register_buffer("matrix", unitary)

    def get_matrix(self):
        return self.matrix


class RyLayer(Gate):
    def __init__(self, angles):
        super().__init__("Ry", len(angles))
        self.angles = angles

    def get_matrix(self):
        matrix = torch.ones(1, 1, dtype=torch.cfloat)
        for angle in self.angles:
            c, s = math.cos(angle / 2), math.sin(angle / 2)
            matrix = torch.kron(matrix, torch.tensor([[c, -s], [s, c]], dtype=torch.cfloat))
        return matrix

    def forward(self, state):
        return self.get_matrix().to(state.device) @ state
# --- circuit.py
from torch import nn

from gate import RyLayer, UAnyGate


class QubitCircuit(nn.Module):
    def __init__(self, nqubit):
        super().__init__()
        self.nqubit = nqubit
        self.operators = nn.Sequential()

    def add(self, op):
        if op.nqubit != self.nqubit:
            raise ValueError(f"{op.name} acts on {op.nqubit} wires, not on {self.nqubit}")
        self.operators.append(op)

    def any(self, unitary, name="uany"):
        self.add(UAnyGate(unitary, name, self.nqubit))

    def ry_layer(self, angles):
        self.add(RyLayer(angles))

    def names(self):
        return [op.name for op in self.operators]

    def forward(self, state):
        return self.operators(state.state)

# === where_a_protein_is_sent
# thread: https://github.com/teevee112/DeepLoc-2.0/pull/2
# about: parts of a protein tell where in a cell it is sent. After a training in batches all proteins are looked at at once, to choose from which score on a signal counts
# operation: addmm|linear|mm|matmul on cpu, cuda:0
# operands: self|mat1|input|X_train|X_valid|x
# category: input-not-moved
# line: train_ss.py: X_train_preds = torch.sigmoid(model(
# line: train_ss.py: X_test_preds = torch.sigmoid(model(
# line: train_ss.py: X_train, y_train = torch.stack(
# line: train_ss.py: X_test = torch.stack(
# repair: train_ss.py: X_train_preds = torch.sigmoid(model(X_train)).cpu().numpy() -> X_train_preds = torch.sigmoid(model(X_train.to(device))).cpu().numpy()
# repair: train_ss.py: X_test_preds = torch.sigmoid(model(X_test)).cpu().numpy() -> X_test_preds = torch.sigmoid(model(X_test.to(device))).cpu().numpy()
import argparse

import torch

from model import SignalTypeMLP
from proteins import ProteinDataset, split
from train_ss import predict_ss_values, train_signal_model

SIGNALS = ["SP", "TM", "MT", "CH"]


def parse_args():
    parser = argparse.ArgumentParser(description="Train the sorting signal predictor")
    parser.add_argument("-m", "--model", default="Fast", choices=["Fast", "Accurate"])
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=6)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(14)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    embedding = {"Fast": 12, "Accurate": 24}[args.model]
    dataset = ProteinDataset(count=24, embedding=embedding, signals=len(SIGNALS), seed=2)
    for fold in range(args.folds):
        train, test = split(dataset, fold, args.folds)
        model = SignalTypeMLP(embedding, len(SIGNALS)).to(device)
        train_signal_model(model, train, epochs=args.epochs, device=device)
        thresholds, found = predict_ss_values(model, train, test, device)
        print("fold", fold, "thresholds", dict(zip(SIGNALS, thresholds)), "found", found)


if __name__ == "__main__":
    main()
# --- proteins.py
import torch
from torch.utils.data import Dataset, Subset


class ProteinDataset(Dataset):
    """Averages of embeddings, and what signals their proteins have."""

    def __init__(self, count, embedding, signals, seed):
        draw = torch.Generator().manual_seed(seed)
        self.embeddings = torch.randn(count, embedding, generator=draw)
        direction = torch.randn(embedding, signals, generator=draw)
        self.annotations = (self.embeddings @ direction > 0.5).float()

    def __len__(self):
        return len(self.embeddings)

    def __getitem__(self, index):
        return self.embeddings[index], self.annotations[index]


def split(dataset, fold, folds):
    test = [index for index in range(len(dataset)) if index % folds == fold]
    train = [index for index in range(len(dataset)) if index % folds != fold]
    return Subset(dataset, train), Subset(dataset, test)
# --- model.py
from torch import nn


class SignalTypeMLP(nn.Module):
    def __init__(self, embedding, signals):
        super().__init__()
        self.ln1 = nn.Linear(embedding, 16)
        self.ln2 = nn.Linear(16, signals)

    def forward(self, x):
        return self.ln2(nn.functional.relu(self.ln1(x)))
# --- train_ss.py
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader


def train_signal_model(model, train, epochs, device):
    loader = DataLoader(train, batch_size=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, foreach=False)
    criterion = nn.BCEWithLogitsLoss()
    model.train()
    for _ in range(epochs):
        for x, y in loader:
            loss = criterion(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def f1(truth, guess):
    hits = np.logical_and(truth, guess).sum()
    return 2 * hits / max(1, truth.sum() + guess.sum())


def predict_ss_values(model, train, test, device):
    X_train, y_train = torch.stack([x for x, _ in train]), torch.stack([y for _, y in train]).numpy()
    X_test = torch.stack([x for x, _ in test])
    model.eval()
    with torch.no_grad():
        X_train_preds = torch.sigmoid(model(X_train)).cpu().numpy()
        X_test_preds = torch.sigmoid(model(X_test)).cpu().numpy()
    grid = np.linspace(0.2, 0.8, 7)
    thresholds = []
    for signal in range(y_train.shape[1]):
        scores = [f1(y_train[:, signal], X_train_preds[:, signal] > threshold) for threshold in grid]
        thresholds.append(round(float(grid[int(np.argmax(scores))]), 2))
    found = (X_test_preds > np.array(thresholds)).sum(0).tolist()
    return thresholds, found

# === behind_all_splats
# thread: https://github.com/nerfstudio-project/nerfstudio/pull/3219
# about: a scene is made of soft spots, and what they leave open shows a background. In training it is any colour, and one colour of the configuration when pictures are judged
# operation: mul on cuda:0, cpu
# operands: other|background|.*background_color.*
# category: state-not-registered|created-without-device
# line: splatfacto.py: background = self.background_color
# line: splatfacto.py: self.background_color = get_color(
# line: splatfacto.py: rgb = rgb + (1 - alpha) * background
# repair: splatfacto.py: background = self.background_color -> background = self.background_color.to(self.device)
import torch

from cameras import Cameras
from pipeline import VanillaPipeline
from splatfacto import SplatfactoModelConfig

torch.manual_seed(24)
device = "cuda" if torch.cuda.is_available() else "cpu"
config = SplatfactoModelConfig(num_random=12, background_color="random", eval_color="white")
pipeline = VanillaPipeline(config, Cameras.around(count=4, size=8), device=device)
steps_per_eval_image = 3
for step in range(1, 7):
    loss = pipeline.train_iteration(step)
    if step % steps_per_eval_image == 0:
        metrics = pipeline.get_eval_image_metrics(step % 4)
        print("step", step, "loss", round(loss, 4), metrics)
# --- cameras.py
import math
from dataclasses import dataclass

import torch


@dataclass
class Cameras:
    angles: list
    size: int

    @classmethod
    def around(cls, count, size):
        return cls([2 * math.pi * number / count for number in range(count)], size)

    def __len__(self):
        return len(self.angles)

    def image(self, index):
        """What the camera has seen: a disc in front of white."""
        axis = torch.linspace(-1, 1, self.size)
        x, y = torch.meshgrid(axis, axis, indexing="xy")
        disc = ((x - 0.3 * math.cos(self.angles[index])) ** 2 + y**2 < 0.3).float()[..., None]
        return disc * torch.tensor([0.8, 0.3, 0.1]) + (1 - disc)
# --- colors.py
import torch

COLORS_DICT = {
    "white": torch.tensor([1.0, 1.0, 1.0]),
    "black": torch.tensor([0.0, 0.0, 0.0]),
    "gray": torch.tensor([0.5, 0.5, 0.5]),
}


def get_color(color):
    if isinstance(color, str):
        if color.lower() not in COLORS_DICT:
            raise ValueError(f"{color} is not a valid preset color")
        return COLORS_DICT[color.lower()]
    return torch.tensor(color)
# --- splatfacto.py
import math
from dataclasses import dataclass

import torch
from torch import nn

from colors import get_color


@dataclass
class SplatfactoModelConfig:
    num_random: int = 50
    background_color: str = "random"
    eval_color: str = "white"


class SplatfactoModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.populate_modules()

    def populate_modules(self):
        count = self.config.num_random
        self.means = nn.Parameter(torch.rand(count, 3) - 0.5)
        self.scales = nn.Parameter(torch.full((count,), -1.0))
        self.opacities = nn.Parameter(torch.zeros(count))
        self.features_dc = nn.Parameter(torch.rand(count, 3))
        chosen = self.config.background_color
        self.background_color = get_color(self.config.eval_color if chosen == "random" else chosen)

    @property
    def device(self):
        return self.means.device

    def _get_background_color(self):
        if self.config.background_color == "random" and self.training:
            background = torch.rand(3, device=self.device)
        else:
            background = self.background_color
        return background

    def get_outputs(self, angle, size):
        axis = torch.linspace(-1, 1, size, device=self.device)
        x, y = torch.meshgrid(axis, axis, indexing="xy")
        u = self.means[:, 0] * math.cos(angle) - self.means[:, 2] * math.sin(angle)
        distance = (x[..., None] - u) ** 2 + (y[..., None] - self.means[:, 1]) ** 2
        weight = self.opacities.sigmoid() * torch.exp(-distance / self.scales.exp())
        alpha = (1 - torch.prod(1 - weight, dim=-1))[..., None]
        rgb = alpha * (weight @ self.features_dc) / (weight.sum(-1, keepdim=True) + 1e-6)
        background = self._get_background_color()
        rgb = rgb + (1 - alpha) * background
        return {"rgb": rgb.clamp(0, 1), "accumulation": alpha, "background": background}
# --- pipeline.py
import torch

from splatfacto import SplatfactoModel


class VanillaPipeline:
    def __init__(self, config, cameras, device):
        self.model = SplatfactoModel(config).to(device)
        self.cameras = cameras
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.05, foreach=False)

    def train_iteration(self, step):
        self.model.train()
        index = step % len(self.cameras)
        outputs = self.model.get_outputs(self.cameras.angles[index], self.cameras.size)
        loss = (outputs["rgb"] - self.cameras.image(index).to(self.model.device)).abs().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def get_eval_image_metrics(self, index):
        self.model.eval()
        outputs = self.model.get_outputs(self.cameras.angles[index], self.cameras.size)
        image = self.cameras.image(index).to(self.model.device)
        psnr = -10 * torch.log10((outputs["rgb"] - image).square().mean())
        return {"psnr": round(psnr.item(), 3)}
