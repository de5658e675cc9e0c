# === linear_illumination
# thread: https://github.com/kornia/kornia/pull/4523
# about: samplers were brought to the device of random numbers; of what they gave one goes on to the device of parameters, the sign does not
# operation: mul on cuda:1, cpu
# operands: .*sign.*|self, .*ramp.*|other
# category: input-not-moved
# line: generator.py: sign = 2.0 * self.sign_sampler.sample(
# line: generator.py: gradient = sign.view(
# repair: generator.py: sign = 2.0 * self.sign_sampler.sample((batch,)) - 1.0 -> sign = (2.0 * self.sign_sampler.sample((batch,)) - 1.0).to(device)
import torch
from torch import nn

from augmentation import RandomLinearIllumination

class Sequential(nn.Sequential):
    def set_rng_device(self, device):
        for module in self:
            module.generator.make_samplers(torch.device(device))
        return self

torch.manual_seed(0)
images = torch.rand(3, 3, 5, 6, device="cuda:1")
augment = Sequential(RandomLinearIllumination(gain=(0.05, 0.2)), RandomLinearIllumination(gain=(0.1, 0.1), vertical=True))
augment.set_rng_device("cuda:1")
augmented = augment(images)
print("augmented", tuple(augmented.shape), round((augmented - images).double().abs().sum().item(), 3))
# --- augmentation.py
from torch import nn

from generator import LinearIlluminationGenerator

class RandomLinearIllumination(nn.Module):
    def __init__(self, gain, vertical=False):
        super().__init__()
        self.generator = LinearIlluminationGenerator(gain, vertical)

    def forward(self, input):
        params = self.generator(input.shape)
        return self.apply_transform(input, params)

    def apply_transform(self, input, params):
        return (input + params["gradient"].to(input.device, input.dtype)).clamp(0, 1)
# --- generator.py
import torch
from torch.distributions import Bernoulli, Uniform

class LinearIlluminationGenerator:
    """Parameters are made where `gain` is, so that the same ones may be used for images of several devices."""

    def __init__(self, gain, vertical):
        self.gain, self.vertical = torch.tensor(gain), vertical
        self.make_samplers(torch.device("cpu"))

    def make_samplers(self, device):
        low, high = self.gain.to(device)
        self.gain_sampler = Uniform(low, high + 1e-6, validate_args=False)
        self.sign_sampler = Bernoulli(torch.tensor(0.5, device=device))

    def __call__(self, shape):
        batch, channels, height, width = shape
        device = self.gain.device
        strength = self.gain_sampler.sample((batch,)).to(device)
        sign = 2.0 * self.sign_sampler.sample((batch,)) - 1.0
        ramp = torch.linspace(0, 1, height if self.vertical else width)
        ramp = ramp.view(1, 1, -1, 1) if self.vertical else ramp.view(1, 1, 1, -1)
        gradient = sign.view(-1, 1, 1, 1) * (ramp - 0.5)
        gradient = gradient.expand(batch, channels, height, width) * strength.view(-1, 1, 1, 1)
        return {"gradient": gradient, "strength": strength, "sign": sign}

# === physics_mixture
# thread: https://github.com/deepinv/deepinv/issues/1090
# about: all generators of operators share one of random numbers; the one that picks among them is not told where that is
# operation: rand|uniform on cpu, cuda:0
# operands: generator|rng|self.rng
# error: Expected a 'cpu' device type for generator but found 'cuda'
# category: generator|created-without-device
# line: generators.py: super().__init__(rng=rng)
# line: generators.py: pick = torch.rand(
# line: generators.py: self.device = torch.device(device)
# repair: generators.py: super().__init__(rng=rng) -> super().__init__(rng=rng, device=generators[0].device)
import torch
from torch.nn import functional as F

from generators import GeneratorMixture, MotionBlur, NoiseLevel

def degrade(images, params):
    if "filter" in params:
        kernel = params["filter"]
        count = images.shape[1]
        images = F.conv2d(images, kernel.expand(count, 1, *kernel.shape[-2:]), padding="same", groups=count)
    if "sigma" in params:
        images = images + params["sigma"].view(-1, 1, 1, 1) * (images - images.mean())
    return images

torch.manual_seed(0)
rng = torch.Generator(device="cuda:0").manual_seed(4)
blur = MotionBlur(size=3, device="cuda:0", rng=rng)
levels = NoiseLevel(0.1, 0.3, device="cuda:0", rng=rng)
mixture = GeneratorMixture([blur, levels], probs=[0.4, 0.6], rng=rng)
images = torch.rand(2, 3, 8, 8, device="cuda:0")
outputs = [degrade(images, mixture.step(len(images))) for _ in range(4)]
print("degraded", [round(each.double().mean().item(), 4) for each in outputs])
# --- generators.py
import torch

class PhysicsGenerator:
    def __init__(self, rng=None, device="cpu"):
        self.device = torch.device(device)
        self.rng = rng if rng is not None else torch.Generator(device=self.device)

    def rng_manual_seed(self, seed):
        self.rng.manual_seed(seed)

    def step(self, batch_size):
        raise NotImplementedError

class MotionBlur(PhysicsGenerator):
    def __init__(self, size, rng=None, device="cpu"):
        super().__init__(rng=rng, device=device)
        self.size = size

    def step(self, batch_size):
        weights = torch.rand(1, 1, self.size, self.size, generator=self.rng, device=self.device)
        return {"filter": weights / weights.sum()}

class NoiseLevel(PhysicsGenerator):
    def __init__(self, low, high, rng=None, device="cpu"):
        super().__init__(rng=rng, device=device)
        self.low, self.high = low, high

    def step(self, batch_size):
        unit = torch.rand(batch_size, generator=self.rng, device=self.device)
        return {"sigma": self.low + (self.high - self.low) * unit}

class GeneratorMixture(PhysicsGenerator):
    """Of several, one each step."""

    def __init__(self, generators, probs, rng=None):
        super().__init__(rng=rng)
        self.generators = generators
        self.cumulative = torch.tensor(probs).cumsum(0).tolist()

    def step(self, batch_size):
        pick = torch.rand(1, generator=self.rng, device=self.device).item()
        index = next(i for i, bound in enumerate([*self.cumulative[:-1], 1.0]) if pick <= bound)
        return self.generators[index].step(batch_size)

# === parameter_offload
# thread: https://github.com/ByteDance-Seed/VeOmni/pull/776
# about: parameters come to the device while their module runs and leave it again; buffers are left where they are
# operation: mul on cuda:0, cpu
# operands: .*position.*|self, inv_freq|self.inv_freq|other
# category: module-split|input-not-moved
# line: offload.py: for tensor in module.parameters(
# line: model.py: angles = positions
# repair: offload.py: for tensor in module.parameters(recurse=False): -> for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
import math

import torch
from torch.nn import functional as F

from model import Decoder
from offload import offload

def perplexity(model, batches, device):
    total, count = 0.0, 0
    for tokens in batches:
        logits = model(tokens[:, :-1].to(device))
        labels = tokens[:, 1:].to(logits.device)
        total += F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum").item()
        count += labels.numel()
    return math.exp(total / count)

torch.manual_seed(0)
model = Decoder(vocabulary=16, width=8, layers=2).eval()
batches = torch.randint(0, 16, (3, 2, 7))
offload(model, "cuda:0")
with torch.no_grad():
    value = perplexity(model, batches, "cuda:0")
print("perplexity", round(value, 3), sorted({str(each.device) for each in model.parameters()}))
# --- model.py
import torch
from torch import nn

class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base=100.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2) / dim), persistent=False)

    def forward(self, x):
        positions = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)
        angles = positions[:, None] * self.inv_freq
        return angles.cos(), angles.sin()

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def rotate(self, x, cos, sin):
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.cat([even * cos - odd * sin, even * sin + odd * cos], dim=-1)

    def forward(self, x, cos, sin):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        attended = nn.functional.scaled_dot_product_attention(self.rotate(q, cos, sin), self.rotate(k, cos, sin), v, is_causal=True)
        return x + self.proj(attended)

class Decoder(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rotary = RotaryEmbedding(width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embed(tokens)
        cos, sin = self.rotary(x)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(x)
# --- offload.py
import torch

def move(module, device):
    for tensor in module.parameters(recurse=False):
        tensor.data = tensor.data.to(device)

def offload(model, device, home="cpu"):
    """Keeps a model at home; each part is on the device only while it runs."""
    device, home = torch.device(device), torch.device(home)
    for module in model.modules():
        module.register_forward_pre_hook(lambda module, args: move(module, device))
        module.register_forward_hook(lambda module, args, output: move(module, home))

# === interval_conditions
# thread: https://github.com/synthesizer-project/synference/pull/37
# about: of two masks that come from lists one is brought to the device by a helper, the other is read past it
# operation: bitwise_and|__and__ on cuda:0, cpu
# operands: condition_mask|known|self, .*constraint_mask|other
# category: created-without-device|input-not-moved
# line: simformer.py: constraint_mask = torch.as_tensor(
# repair: simformer.py: constraint_mask = torch.as_tensor(np.asarray(constraint_mask), dtype=torch.bool) -> constraint_mask = self._as_mask(constraint_mask)
import numpy as np
import torch

from score import ScoreNetwork
from simformer import Simformer

torch.manual_seed(0)
names = ["mass", "age", "dust", "flux_u", "flux_r"]
model = Simformer(ScoreNetwork(len(names), width=8), names).to("cuda:0")
observed = np.array([0.0, 0.0, 0.0, 0.7, -0.2], dtype=np.float32)
known = [name.startswith("flux") for name in names]
samples = model.sample(6, observed, known)
bounded = model.sample_intervals(6, observed, known, [name == "flux_r" for name in names], low=-0.5, high=0.1)
print("samples", tuple(samples.shape), round(float(np.abs(samples).sum()), 3), round(float(np.abs(bounded).sum()), 3))
# --- simformer.py
import numpy as np
import torch

class Simformer:
    """Samples some of a joint distribution's variables, given the others."""

    def __init__(self, network, names):
        self.network, self.names, self.device = network.eval(), names, torch.device("cpu")

    def to(self, device):
        self.network.to(device)
        self.device = torch.device(device)
        return self

    def _as_mask(self, mask):
        mask = torch.as_tensor(np.asarray(mask), dtype=torch.bool)
        if mask.shape != (len(self.names),):
            raise ValueError(f"a mask has one value for each of {self.names}")
        return mask.to(self.device)

    def _observed(self, x, mask):
        return torch.where(mask, torch.as_tensor(x, device=self.device), torch.zeros(len(self.names), device=self.device))

    @torch.no_grad()
    def _integrate(self, count, x, mask, steps, clip=None):
        state = torch.randn(count, len(self.names)).to(self.device)
        for step in range(steps, 0, -1):
            state = torch.where(mask, x, state)
            time = torch.full((count, 1), step / steps, device=self.device)
            state = state + self.network(state, time) / steps
            if clip is not None:
                state = clip(state)
        return torch.where(mask, x, state).cpu().numpy()

    def sample(self, count, x, condition_mask, steps=4):
        condition_mask = self._as_mask(condition_mask)
        return self._integrate(count, self._observed(x, condition_mask), condition_mask, steps)

    def sample_intervals(self, count, x, condition_mask, constraint_mask, low, high, steps=4):
        condition_mask = self._as_mask(condition_mask)
        constraint_mask = torch.as_tensor(np.asarray(constraint_mask), dtype=torch.bool)
        effective = condition_mask & ~constraint_mask

        def clip(state):
            return torch.where(constraint_mask, state.clamp(low, high), state)

        return self._integrate(count, self._observed(x, effective), effective, steps, clip)
# --- score.py
import torch
from torch import nn

class ScoreNetwork(nn.Module):
    def __init__(self, variables, width):
        super().__init__()
        self.identity = nn.Parameter(0.1 * torch.randn(variables, width))
        self.value = nn.Linear(2, width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.out = nn.Linear(width, 1)

    def forward(self, state, time):
        tokens = self.value(torch.stack([state, time.expand_as(state)], dim=-1)) + self.identity
        mixed, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        return self.out(tokens + mixed).squeeze(-1) - state

# === wavelet_output
# thread: https://github.com/spdlearn/spd_learn/pull/16
# about: a layer brings its result to the device that it was made with, which is another by now
# operation: .*mm|matmul|einsum|linear|mul on cpu, cuda:0
# operands: X|X.*|other|mat1, self.weight.*|weight.*|self
# category: input-not-moved|default-or-current-device
# line: wavelet.py: return torch.cat(
# line: wavelet.py: self.device = torch.device(
# line: main.py: WaveletConv(
# repair: wavelet.py: return torch.cat(responses, dim=1).to(self.device) -> return torch.cat(responses, dim=1)
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from spd import BiMap, Covariance, LogEig
from wavelet import WaveletConv

class Classifier(nn.Sequential):
    def __init__(self, channels, foi, classes):
        size = channels * len(foi)
        super().__init__(
            WaveletConv(kernel_length=9, foi=foi),
            Covariance(shrinkage=0.1),
            BiMap(size, 4),
            LogEig(),
            nn.Flatten(),
            nn.Linear(16, classes),
        )

torch.manual_seed(0)
rng = np.random.default_rng(0)
signals = torch.from_numpy(rng.standard_normal((8, 2, 40)).astype(np.float32))
labels = torch.from_numpy(rng.integers(0, 2, 8))
model = Classifier(channels=2, foi=[0.1, 0.25, 0.4], classes=2).to("cuda:0")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    loss = F.cross_entropy(model(signals.to("cuda:0")), labels.to("cuda:0"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 3))
# --- wavelet.py
import math

import torch
from torch import nn
from torch.nn import functional as F

class WaveletConv(nn.Module):
    """Each channel convolved with one wavelet for each frequency of interest."""

    def __init__(self, kernel_length, foi, device="cpu"):
        super().__init__()
        self.device = torch.device(device)
        self.foi = nn.Parameter(torch.tensor(foi, device=self.device))
        self.width = nn.Parameter(torch.full((len(foi),), 2.0, device=self.device))
        self.register_buffer("time", torch.arange(kernel_length, device=self.device) - kernel_length // 2)

    def kernel(self, frequency, width):
        window = torch.exp(-((self.time / width) ** 2) / 2)
        return window * torch.cos(2 * math.pi * frequency * self.time)

    def forward(self, X):
        responses = []
        for frequency, width in zip(self.foi, self.width):
            weight = self.kernel(frequency, width).expand(X.shape[1], 1, -1)
            responses.append(F.conv1d(X, weight, padding="same", groups=X.shape[1]))
        return torch.cat(responses, dim=1).to(self.device)
# --- spd.py
import torch
from torch import nn

class Covariance(nn.Module):
    def __init__(self, shrinkage):
        super().__init__()
        self.shrinkage = shrinkage

    def forward(self, X):
        X = X - X.mean(dim=-1, keepdim=True)
        covariance = X @ X.mT / (X.shape[-1] - 1)
        mean = covariance.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
        eye = torch.eye(X.shape[1], dtype=X.dtype, device=X.device)
        return (1 - self.shrinkage) * covariance + self.shrinkage * mean * eye

class BiMap(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(inputs, outputs)).Q)

    def forward(self, X):
        return self.weight.T @ X @ self.weight

class LogEig(nn.Module):
    def forward(self, X):
        values, vectors = torch.linalg.eigh(X)
        return vectors @ torch.diag_embed(values.clamp(min=1e-5).log()) @ vectors.mT

# === injected_adapters
# thread: https://github.com/ViperEkura/AstrAI/pull/20
# about: adapters take the place of layers of a model that is on the device; those of a run that goes on are read into them
# operation: addmm|mm|linear|matmul on cuda:0, cpu
# operands: input|x|hidden|self|mat1, weight|self.lora_A|lora_A|mat2|other
# category: created-without-device
# line: lora.py: self.lora_A = nn.Parameter(
# line: lora.py: setattr(
# line: lora.py: layer = LoRALinear(
# line: context.py: inject_lora(
# line: context.py: model.to(self.device)
# repair: lora.py: setattr(parent, name, layer) -> setattr(parent, name, layer.to(child.weight.device))
import io

import torch
from torch import nn
from torch.nn import functional as F

from context import TrainContextBuilder

class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mlp = nn.ModuleDict({"up": nn.Linear(width, 2 * width), "down": nn.Linear(2 * width, width)})
        self.lm_head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        hidden = hidden + self.mlp["down"](F.silu(self.mlp["up"](hidden)))
        return self.lm_head(hidden)

def train(context, tokens, steps):
    tokens = tokens.to(context.device)
    for _ in range(steps):
        loss = F.cross_entropy(context.model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        context.optimizer.zero_grad()
        loss.backward()
        context.optimizer.step()
    return loss.item()

torch.manual_seed(0)
tokens = torch.randint(0, 12, (4, 6))
checkpoint = io.BytesIO()
builder = TrainContextBuilder("cuda:0", lora={"rank": 2, "targets": ("up", "down")})
context = builder.build(Model(12, 8))
losses = [train(context, tokens, steps=3)]
context.save(checkpoint)
checkpoint.seek(0)
losses.append(train(builder.build(Model(12, 8), checkpoint), tokens, steps=3))
print("losses", [round(loss, 4) for loss in losses])
# --- context.py
from dataclasses import dataclass

import torch
from torch import nn

from lora import inject_lora

@dataclass
class TrainContext:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    device: torch.device

    def save(self, file):
        torch.save(self.model.state_dict(), file)

class TrainContextBuilder:
    def __init__(self, device, lora=None):
        self.device, self.lora = torch.device(device), lora

    def build(self, model, checkpoint=None):
        model.to(self.device)
        if self.lora is not None:
            inject_lora(model, **self.lora)
        if checkpoint is not None:
            model.load_state_dict(torch.load(checkpoint, map_location=self.device))
        trained = [each for each in model.parameters() if each.requires_grad]
        return TrainContext(model, torch.optim.AdamW(trained, lr=0.05), self.device)
# --- lora.py
import torch
from torch import nn
from torch.nn import functional as F

class LoRALinear(nn.Module):
    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base, self.scaling = base, alpha / rank
        self.lora_A = nn.Parameter(torch.randn(rank, base.in_features) / rank)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + self.scaling * F.linear(F.linear(x, self.lora_A), self.lora_B)

def inject_lora(model, rank, targets, alpha=4):
    model.requires_grad_(False)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if name in targets and isinstance(child, nn.Linear):
                layer = LoRALinear(child, rank, alpha)
                setattr(parent, name, layer)
