# === backwarp_cache
# thread: https://github.com/sniklaus/pytorch-spynet/issues/17
# about: a decorator's cache answers by size alone; the tensor was made in an earlier call for the other device
# operation: add on cuda:0, cuda:1
# operands: flow
# category: cached-state
# line: warp.py: key = tuple(
# line: warp.py: grid = identity_grid(flow)
# repair: warp.py: key = tuple(flow.shape) -> key = (tuple(flow.shape), flow.device)
import torch
from torch import nn

from warp import backwarp


class FlowNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.basic = nn.Conv2d(6, 2, 3, padding=1)

    def forward(self, first, second):
        flow = self.basic(torch.cat((first, second), dim=1)) * 0.1
        flow = flow + self.basic(torch.cat((first, backwarp(second, flow)), dim=1)) * 0.1
        return backwarp(second, flow)


def estimate(pairs, devices):
    torch.manual_seed(0)
    nets = [FlowNet().to(device) for device in devices]
    sums = []
    with torch.no_grad():
        for i, (first, second) in enumerate(pairs):
            device = devices[i % len(devices)]
            sums.append(nets[i % len(devices)](first.to(device), second.to(device)).sum().item())
    return sums


pairs = [(torch.full((1, 3, 8, 8), 0.1 * i), torch.full((1, 3, 8, 8), 0.2 * i)) for i in range(4)]
print("warped", [round(value, 3) for value in estimate(pairs, ["cuda:0", "cuda:1"])])
# --- warp.py
import functools

import torch
from torch.nn import functional as F


def remember(function):
    """Grids of one size are made once."""
    results = {}

    @functools.wraps(function)
    def wrapper(flow):
        key = tuple(flow.shape)
        if key not in results:
            results[key] = function(flow)
        return results[key]

    return wrapper


@remember
def identity_grid(flow):
    n, _, height, width = flow.shape
    ys = torch.linspace(-1, 1, height, device=flow.device)
    xs = torch.linspace(-1, 1, width, device=flow.device)
    ys, xs = torch.meshgrid(ys, xs, indexing="ij")
    return torch.stack((xs, ys), dim=-1).expand(n, height, width, 2)


def backwarp(image, flow):
    grid = identity_grid(flow) + flow.permute(0, 2, 3, 1)
    return F.grid_sample(image, grid, align_corners=True)

# === batch_transforms
# thread: https://github.com/fastai/fastai2/issues/158
# about: a transform is no module: the loader goes to the CPU, what the transform keeps does not
# operation: sub|div on cpu, cuda:0
# operands: x|batch, self.mean|mean
# category: cached-state
# line: transforms.py: self.mean, self.std =
# line: transforms.py: return (x - self.mean) / self.std
# line: main.py: loaders.cpu()
# repair: transforms.py: return (x - self.mean) / self.std -> return (x - self.mean.to(x.device)) / self.std.to(x.device)
import torch

from transforms import Loaders, Normalize

torch.manual_seed(0)
items = torch.randint(0, 255, (6, 3, 4, 4))
loaders = Loaders(items, batch_size=2, device="cuda:0")
loaders.after_batch = [lambda x: x.float() / 255, Normalize.from_stats([0.5, 0.4, 0.3], [0.2, 0.2, 0.1], device=loaders.device)]
first = loaders.one_batch()
loaders.cpu()
print("batch", first.device.type, round(loaders.one_batch().mean().item(), 4))
# --- transforms.py
import torch


class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    @classmethod
    def from_stats(cls, mean, std, device):
        shape = (1, -1, 1, 1)
        return cls(torch.tensor(mean, device=device).view(shape), torch.tensor(std, device=device).view(shape))

    def __call__(self, x):
        return (x - self.mean) / self.std


class Loaders:
    def __init__(self, items, batch_size, device):
        self.items, self.batch_size, self.device = items, batch_size, device
        self.after_batch = []

    def cpu(self):
        self.device = torch.device("cpu")
        return self

    def one_batch(self):
        x = self.items[: self.batch_size].to(self.device)
        for transform in self.after_batch:
            x = transform(x)
        return x

# === best_score
# thread: https://github.com/Lightning-AI/pytorch-lightning/issues/14446
# about: the first run is well; the scores of the callback come from the file of a run before, where they were put on the CPU. A metric without dimensions would do
# operation: lt|less on cuda:0, cpu
# operands: current
# category: cached-state|checkpoint
# line: self.best_k_models = state[
# line: callback.load_state_dict(
# line: return bool(torch.lt(current, worst).any())
# repair: return bool(torch.lt(current, worst).any()) -> return bool(torch.lt(current, worst.to(current.device)).any())
import os
import tempfile

import torch
from torch import nn


class ModelCheckpoint:
    """Keeps the best models, by the metric that is monitored."""

    def __init__(self, save_top_k):
        self.save_top_k = save_top_k
        self.best_k_models = {}

    def check_monitor_top_k(self, current):
        if len(self.best_k_models) < self.save_top_k:
            return True
        worst = max(self.best_k_models.values(), key=lambda score: score.item())
        return bool(torch.lt(current, worst).any())

    def on_validation_end(self, name, current):
        if self.check_monitor_top_k(current):
            self.best_k_models[name] = current
            while len(self.best_k_models) > self.save_top_k:
                worst = max(self.best_k_models, key=lambda name: self.best_k_models[name].item())
                del self.best_k_models[worst]

    def state_dict(self):
        return {"best_k_models": self.best_k_models}

    def load_state_dict(self, state):
        self.best_k_models = state["best_k_models"]


class Trainer:
    def __init__(self, callback, device):
        self.callback, self.device = callback, device

    def fit(self, model, x, y, epochs, ckpt_path=None):
        start = 0
        if ckpt_path is not None:
            checkpoint = torch.load(ckpt_path, map_location="cpu")
            model.load_state_dict(checkpoint["model"])
            self.callback.load_state_dict(checkpoint["callback"])
            start = checkpoint["epoch"]
        model.to(self.device)
        x, y = x.to(self.device), y.to(self.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(start, epochs):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            with torch.no_grad():
                self.callback.on_validation_end(f"epoch-{epoch}", (model(x) - y).square().mean(0))
        return {"model": model.state_dict(), "callback": self.callback.state_dict(), "epoch": epochs}


torch.manual_seed(0)
x, y = torch.rand(16, 3), torch.rand(16, 1)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "last.ckpt")
    torch.save(Trainer(ModelCheckpoint(2), "cuda:0").fit(nn.Linear(3, 1), x, y, 2), path)
    resumed = ModelCheckpoint(2)
    Trainer(resumed, "cuda:0").fit(nn.Linear(3, 1), x, y, 5, ckpt_path=path)
print("best", sorted(resumed.best_k_models))

# === binary_weights
# thread: https://github.com/mzemlyanikin/binary-nets/issues/1
# about: a copy of a parameter, made in the first run on the CPU
# operation: copy|add|mul|sub|where|lerp on cuda:0, cpu
# operands: self.original|original, weight|self.weight|sign
# category: cached-state|state-not-registered
# line: self.original = self.weight
# line: latent = self.original
# repair: latent = self.original * 0.5 + self.weight.detach() * 0.5 -> latent = self.original.to(self.weight.device) * 0.5 + self.weight.detach() * 0.5
import torch
from torch import nn
from torch.nn import functional as F


class BinaryLinear(nn.Linear):
    """Uses the signs of its weights, and keeps what they were."""

    original = None

    def forward(self, x):
        if self.original is None:
            self.original = self.weight.detach().clone()
        latent = self.original * 0.5 + self.weight.detach() * 0.5
        return F.linear(x, latent.sign() * latent.abs().mean(), self.bias)


torch.manual_seed(0)
net = nn.Sequential(BinaryLinear(6, 8), nn.Hardtanh(), BinaryLinear(8, 2))
summary = tuple(net(torch.zeros(1, 6)).shape)
net.cuda()
with torch.no_grad():
    out = net(torch.ones(3, 6).cuda())
print("out", summary, round(out.sum().item(), 4))

# === cell_anchors
# thread: https://github.com/pytorch/vision/issues/1738
# about: trained on the GPU, then moved to the CPU; the shapes of the anchors were made at the first step, and everything made of them follows them
# operation: mul on cpu, cuda:0
# operands: shift, sides
# category: cached-state
# line: anchors.py: if self.cells is not None:
# line: anchors.py: for feature, cell in zip(
# line: detector.py: middles, sides = self.anchor_generator(
# repair: anchors.py: if self.cells is not None: -> if self.cells is not None and self.cells[0].device == device:
import torch

from detector import RegionProposals


def train(model, device, steps=2):
    model.train().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    images = torch.rand(2, 3, 32, 32).to(device)
    for _ in range(steps):
        boxes, scores = model(images)
        loss = scores.sigmoid().mean() + (boxes - 16).abs().mean() / 32
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def export(model):
    """What is shipped runs without a GPU."""
    model.eval().to("cpu")
    with torch.no_grad():
        boxes, scores = model(torch.rand(1, 3, 32, 32))
    return boxes[0, scores[0].argmax()].tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = RegionProposals()
    loss = train(model, "cuda:0")
    print("loss", round(loss, 3), "best box", [round(side, 1) for side in export(model)])
# --- anchors.py
import torch
from torch import nn


class AnchorGenerator(nn.Module):
    """At every place of a feature map some boxes of different shapes, as middles and sides."""

    def __init__(self, sizes=(8.0, 16.0), aspect_ratios=(0.5, 1.0, 2.0)):
        super().__init__()
        self.sizes, self.aspect_ratios = sizes, aspect_ratios
        self.cells = None

    def prepare_cells(self, device):
        if self.cells is not None:
            return
        shape = torch.tensor([[ratio**-0.5, ratio**0.5] for ratio in self.aspect_ratios], device=device)
        self.cells = [size * shape for size in self.sizes]

    def forward(self, features, image_size):
        self.prepare_cells(features[0].device)
        middles, sides = [], []
        for feature, cell in zip(features, self.cells):
            step = image_size / feature.shape[-1]
            axis = (torch.arange(feature.shape[-1], device=cell.device) + 0.5) * step
            places = torch.cartesian_prod(axis, axis)
            middles.append(places.repeat_interleave(len(cell), dim=0))
            sides.append(cell.repeat(len(places), 1))
        return torch.cat(middles), torch.cat(sides)
# --- detector.py
import torch
from torch import nn

from anchors import AnchorGenerator


class RegionProposals(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.body = nn.ModuleList((nn.Conv2d(3, channels, 5, stride=8, padding=2), nn.Conv2d(channels, channels, 3, stride=2, padding=1)))
        self.anchor_generator = AnchorGenerator()
        self.objectness = nn.Conv2d(channels, 3, 1)
        self.deltas = nn.Conv2d(channels, 3 * 4, 1)

    @staticmethod
    def decode(deltas, middles, sides):
        """Boxes from what the network says of the anchors: how far to shift them, and how much to stretch."""
        shift, stretch = deltas.split(2, dim=-1)
        wanted = middles + shift * sides
        half = sides * stretch.clamp(max=4).exp() / 2
        return torch.cat((wanted - half, wanted + half), dim=-1)

    def forward(self, images):
        features, x = [], images
        for layer in self.body:
            x = torch.relu(layer(x))
            features.append(x)
        scores = torch.cat([self.objectness(one).permute(0, 2, 3, 1).flatten(1) for one in features], dim=1)
        deltas = torch.cat([self.deltas(one).permute(0, 2, 3, 1).reshape(len(images), -1, 4) for one in features], dim=1)
        middles, sides = self.anchor_generator(features, images.shape[-1])
        return self.decode(deltas, middles, sides), scores

# === field_normalizers
# thread: https://github.com/Emmi-AI/noether/pull/156
# about: in the data pipeline it is right on the CPU; the trainer uses it again for what the model gives
# operation: mul|add|sub|div on cuda:0, cpu
# operands: x|value|prediction, self.scale|scale|self.shift|shift
# category: cached-state|state-not-registered
# line: normalizers.py: return x * self.scale
# line: normalizers.py: return (x - self.shift)
# line: normalizers.py: self.shift, self.scale
# repair: normalizers.py: return x * self.scale + self.shift -> return x * self.scale.to(x.device) + self.shift.to(x.device)
import torch
from torch import nn

from normalizers import Pipeline, ShiftAndScale

torch.manual_seed(0)
pipeline = Pipeline({"pressure": ShiftAndScale([1.0], [2.0]), "velocity": ShiftAndScale([0.0, 1.0, 0.5], [1.0, 3.0, 2.0])})
model = nn.Linear(3, 1).to("cuda:0")
errors = []
for step in range(2):
    sample = pipeline({"pressure": torch.rand(5, 1), "velocity": torch.rand(5, 3)})
    prediction = model(sample["velocity"].to("cuda:0"))
    physical = pipeline.inverse("pressure", prediction)
    errors.append(round((physical - pipeline.inverse("pressure", sample["pressure"].to("cuda:0"))).abs().mean().item(), 4))
print("errors", errors)
# --- normalizers.py
import torch


class ShiftAndScale:
    def __init__(self, shift, scale):
        self.shift, self.scale = torch.tensor(shift), torch.tensor(scale)

    def __call__(self, x):
        return (x - self.shift) / self.scale

    def inverse(self, x):
        return x * self.scale + self.shift


class Pipeline:
    def __init__(self, normalizers):
        self.normalizers = normalizers

    def __call__(self, sample):
        return {name: self.normalizers[name](value) for name, value in sample.items()}

    def inverse(self, name, value):
        return self.normalizers[name].inverse(value)

# === guided_schedule
# thread: https://github.com/modelscope/modelscope/issues/220
# about: the table is in a plain object; a free function is given it
# operation: index on cpu, cuda:0
# operands: tensor|self.alphas|self.sigmas|alphas|sigmas, t
# category: cached-state|state-not-registered
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# line: diffusion.py: self.sigmas, self.alphas =
# line: diffusion.py: return tensor[t]
# line: main.py: diffusion = Diffusion(
# repair: diffusion.py: return tensor[t].view(shape).to(x) -> return tensor[t.to(tensor.device)].view(shape).to(x)
import torch
from torch import nn

from diffusion import Diffusion, schedule


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(width + 1, width)

    def forward(self, x, t):
        return self.body(torch.cat([x, t[:, None] / 10], dim=1))


torch.manual_seed(0)
diffusion = Diffusion(schedule(10))
model = Denoiser(4).to("cuda:0").eval()
noise = torch.randn(3, 4).to("cuda:0")
image = diffusion.sample(model, noise, steps=5)
print("image", round(image.sum().item(), 4))
# --- diffusion.py
import torch


def schedule(steps):
    return torch.linspace(0.1, 0.95, steps)


def _i(tensor, t, x):
    """A value for each sample, to be used with x."""
    shape = (x.size(0),) + (1,) * (x.ndim - 1)
    return tensor[t].view(shape).to(x)


class Diffusion:
    def __init__(self, sigmas):
        self.sigmas, self.alphas = sigmas, (1 - sigmas**2).sqrt()
        self.steps = len(sigmas)

    def denoise(self, model, xt, t):
        sigmas, alphas = _i(self.sigmas, t, xt), _i(self.alphas, t, xt)
        return alphas * xt - sigmas * model(xt, t)

    @torch.no_grad()
    def sample(self, model, noise, steps):
        xt = noise
        for step in torch.linspace(self.steps - 1, 0, steps).long().tolist():
            t = torch.full((len(xt),), step, dtype=torch.long, device=xt.device)
            xt = self.denoise(model, xt, t)
        return xt

# === local_attention_cache
# thread: https://github.com/huggingface/transformers/pull/30273
# about: the caches of all layers were made on the device of the input; a layer that lies elsewhere meets its own
# operation: index|_unsafe_index|cat|index_copy|copy|index_put on cuda:1, cuda:0
# operands: self.key_states|key_states|k_out|.*
# category: cached-state|default-or-current-device|input-not-moved
# error: on the same device|should be either on cpu or on the same device|indices should be|two devices
# line: modeling.py: k_out = self.key_states
# line: modeling.py: v_out = self.value_states
# line: modeling.py: self.key_states = torch.zeros(
# line: modeling.py: layer.temporal_block._setup_cache(batch, device)
# repair: modeling.py: layer.temporal_block._setup_cache(batch, device) -> layer.temporal_block._setup_cache(batch, layer.temporal_block.k_proj.weight.device)
import torch

from modeling import RecurrentModel

torch.manual_seed(0)
model = RecurrentModel(vocabulary=20, width=8, layers=4, window=3)
model.dispatch({0: "cuda:0", 1: "cuda:0", 2: "cuda:1", 3: "cuda:1"})
print("generated", model.generate(torch.tensor([[1, 7, 3]]).to("cuda:0"), steps=4))
# --- modeling.py
import torch
from torch import nn


class LocalAttention(nn.Module):
    def __init__(self, width, window):
        super().__init__()
        self.window = window
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))

    def _setup_cache(self, batch, device):
        width = self.k_proj.out_features
        self.key_states = torch.zeros(batch, self.window, width, device=device)
        self.value_states = torch.zeros(batch, self.window, width, device=device)

    def _update_cache(self, key, value):
        """The window goes on by one token."""
        k_out = self.key_states
        v_out = self.value_states
        k_out = torch.cat((k_out[:, 1:], key), dim=1)
        v_out = torch.cat((v_out[:, 1:], value), dim=1)
        self.key_states, self.value_states = k_out, v_out
        return k_out, v_out

    def forward(self, x):
        keys, values = self._update_cache(self.k_proj(x), self.v_proj(x))
        return (self.q_proj(x) @ keys.transpose(1, 2)).softmax(-1) @ values


class Layer(nn.Module):
    def __init__(self, width, window):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.temporal_block = LocalAttention(width, window)

    def forward(self, x):
        x = x.to(self.norm.weight.device)
        return x + self.temporal_block(self.norm(x))


class RecurrentModel(nn.Module):
    def __init__(self, vocabulary, width, layers, window):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, window) for _ in range(layers))

    def dispatch(self, device_map):
        self.embed_tokens.to(device_map[0])
        for index, layer in enumerate(self.layers):
            layer.to(device_map[index])

    def _setup_cache(self, batch, device):
        for layer in self.layers:
            layer.temporal_block._setup_cache(batch, device)

    def forward(self, token):
        x = self.embed_tokens(token)
        for layer in self.layers:
            x = layer(x)
        return x[:, -1].to(self.embed_tokens.weight.device) @ self.embed_tokens.weight.T

    @torch.no_grad()
    def generate(self, input_ids, steps):
        self._setup_cache(input_ids.shape[0], input_ids.device)
        for position in range(input_ids.shape[1]):
            logits = self(input_ids[:, position : position + 1])
        out = []
        for _ in range(steps):
            token = logits.argmax(-1, keepdim=True)
            out.append(token.item())
            logits = self(token)
        return out
