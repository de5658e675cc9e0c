# === prior_distribution
# thread: https://github.com/pytorch/pytorch/issues/12082
# about: the tensors are inside a distribution; raised in torch/distributions/normal.py
# operation: sub on cuda:0, cpu
# operands: value|z, self.loc|loc
# category: state-not-registered
# line: self.prior = Independent(
# repair: self.prior = Independent(Normal(torch.zeros(latent), torch.ones(latent)), 1) -> self.prior = Independent(Normal(torch.zeros(latent, device="cuda:0"), torch.ones(latent, device="cuda:0")), 1)
import torch
from torch import nn
from torch.distributions import Independent, Normal


class VAE(nn.Module):
    def __init__(self, width, latent):
        super().__init__()
        self.encoder = nn.Linear(width, 2 * latent)
        self.decoder = nn.Linear(latent, width)
        self.prior = Independent(Normal(torch.zeros(latent), torch.ones(latent)), 1)

    def posterior(self, x):
        mean, log_std = self.encoder(x).chunk(2, dim=-1)
        return Independent(Normal(mean, log_std.exp()), 1)

    def forward(self, x):
        posterior = self.posterior(x)
        z = posterior.rsample()
        divergence = posterior.log_prob(z) - self.prior.log_prob(z)
        return (divergence + (self.decoder(z) - x).square().sum(-1)).mean()


torch.manual_seed(0)
vae = VAE(6, 3).to("cuda:0")
optimizer = torch.optim.Adam(vae.parameters())
for _ in range(2):
    optimizer.zero_grad()
    loss = vae(torch.rand(8, 6, device="cuda:0"))
    loss.backward()
    optimizer.step()
print("finite", bool(loss.isfinite()))

# === quant_state_code
# thread: https://github.com/huggingface/diffusers/issues/10798
# about: a side table of a packed weight stays where the weight was packed, with the first device current
# operation: index on cuda:0, cuda:1
# operands: code, low|high|indices|nibbles
# category: state-not-registered|default-or-current-device|cached-state
# error: indices should be either on cpu or on the same device as the indexed tensor \(cuda:0\)
# line: functional.py: self.absmax = self.absmax.to(device)
# line: functional.py: code = torch.tensor(NF4
# line: functional.py: values = state.code[nibbles]
# line: main.py: transformer = quantize(
# repair: functional.py: self.absmax = self.absmax.to(device) -> self.absmax, self.code = self.absmax.to(device), self.code.to(device)
import torch
from torch import nn

from linear4bit import Linear4bit


def quantize(module):
    """Every linear layer in four bits, packed on the device that is current."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Linear4bit(child))
        else:
            quantize(child)
    return module


class FluxBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


torch.manual_seed(0)
transformer = quantize(nn.Sequential(FluxBlock(8), FluxBlock(8)))
transformer.to("cuda:1")
with torch.no_grad():
    latents = transformer(torch.randn(2, 5, 8).to("cuda:1"))
print("latents", tuple(latents.shape), round(latents.abs().sum().item(), 2))
# --- functional.py
import torch

NF4 = [-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0, 0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0]


class QuantState:
    """What it takes to read a packed weight: the largest value of each block, and what the sixteen codes mean."""

    def __init__(self, absmax, code, shape, blocksize):
        self.absmax, self.code, self.shape, self.blocksize = absmax, code, shape, blocksize

    def to(self, device):
        self.absmax = self.absmax.to(device)
        return self


def quantize_4bit(weight, blocksize=16):
    code = torch.tensor(NF4, device=weight.device)
    blocks = weight.reshape(-1, blocksize)
    absmax = blocks.abs().amax(dim=1)
    nearest = ((blocks / absmax[:, None]).flatten()[:, None] - code).abs().argmin(dim=1).to(torch.uint8)
    return nearest[0::2] * 16 + nearest[1::2], QuantState(absmax, code, weight.shape, blocksize)


def dequantize_4bit(packed, state):
    nibbles = torch.stack((packed // 16, packed % 16), dim=1).flatten().long()
    values = state.code[nibbles]
    return (values.view(-1, state.blocksize) * state.absmax[:, None]).view(state.shape)
# --- linear4bit.py
import torch
from torch import nn

from functional import dequantize_4bit, quantize_4bit


class Linear4bit(nn.Module):
    def __init__(self, linear):
        super().__init__()
        device = torch.device("cuda", torch.cuda.current_device())
        packed, self.quant_state = quantize_4bit(linear.weight.data.to(device))
        self.register_buffer("packed", packed)
        self.bias = nn.Parameter(linear.bias.data.to(device))

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self.quant_state.to(self.packed.device)
        return self

    def forward(self, x):
        weight = dequantize_4bit(self.packed, self.quant_state)
        return nn.functional.linear(x, weight, self.bias)

# === smooth_top_k
# thread: https://github.com/mahmoodlab/MIL-Lab/issues/4
# about: the module looks after its table in cuda(), which to() does not call
# operation: ne|eq|index|sub|where on cuda:0, cpu
# operands: self.labels|labels, y|targets
# category: state-not-registered
# line: svm.py: self.labels = torch.arange(
# line: svm.py: wrong = labels
# line: svm.py: def cuda(
# repair: svm.py: self.labels = torch.arange(classes) -> self.register_buffer("labels", torch.arange(classes), persistent=False)
# repair: svm.py: self.labels = self.labels.cuda(device) -> pass
import torch
from torch import nn

from svm import SmoothSVM


class MultipleInstance(nn.Module):
    """A bag of patches: attention says which of them speak for the bag, a classifier is trained on the extremes."""

    def __init__(self, width, loss):
        super().__init__()
        self.attention, self.classifier = nn.Linear(width, 1), nn.Linear(width, 2)
        self.instance_loss = loss

    def forward(self, bag, k=3):
        order = self.attention(bag).squeeze(-1).argsort(descending=True)
        chosen = torch.cat([bag[order[:k]], bag[order[-k:]]])
        targets = torch.cat([torch.ones(k), torch.zeros(k)]).long().to(bag.device)
        return self.instance_loss(self.classifier(chosen), targets)


torch.manual_seed(0)
model = MultipleInstance(6, SmoothSVM(classes=2)).to("cuda:0")
loss = model(torch.randn(20, 6).to("cuda:0"))
loss.backward()
print("instance loss", round(loss.item(), 4))
# --- svm.py
import torch
from torch import nn


class SmoothSVM(nn.Module):
    """A hinge loss over all wrong classes, smoothed."""

    def __init__(self, classes, alpha=1.0, tau=1.0):
        super().__init__()
        self.alpha, self.tau = alpha, tau
        self.labels = torch.arange(classes)

    def cuda(self, device=None):
        super().cuda(device)
        self.labels = self.labels.cuda(device)
        return self

    def forward(self, x, y):
        return smooth_hinge(x, y, self.labels, self.alpha, self.tau)


def smooth_hinge(x, y, labels, alpha, tau):
    wrong = labels[None] != y[:, None]
    margins = x + alpha * wrong - x.gather(1, y[:, None])
    return tau * torch.logsumexp(margins / tau, dim=1).mean()

# === stft_losses
# thread: https://github.com/csteinmetz1/auraloss/issues/17
# about: the losses are in a ModuleList and were moved; the windows of them are plain attributes, made by the name that getattr is given
# operation: stft|mul|_fft.* on cuda:0, cpu
# operands: window|self.window
# category: state-not-registered
# line: losses.py: self.window = getattr(torch, window)(
# repair: losses.py: self.window = getattr(torch, window)(win_length) -> self.register_buffer("window", getattr(torch, window)(win_length))
import torch

from losses import MultiResolutionSTFTLoss

torch.manual_seed(0)
loss = MultiResolutionSTFTLoss((64, 32), (16, 8), (48, 32)).cuda()
model = torch.nn.Conv1d(1, 1, 9, padding=4).cuda()
target = torch.rand(2, 1, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    optimizer.zero_grad()
    value = loss(model(target), target)
    value.backward()
    optimizer.step()
print("loss", round(value.item(), 3))
# --- losses.py
import torch
from torch import nn


class SpectralConvergenceLoss(nn.Module):
    def forward(self, x_mag, y_mag):
        return torch.norm(y_mag - x_mag, p="fro") / torch.norm(y_mag, p="fro")


class STFTLoss(nn.Module):
    def __init__(self, fft_size, hop_size, win_length, window="hann_window", w_sc=1.0, w_log_mag=1.0):
        super().__init__()
        self.fft_size, self.hop_size, self.win_length = fft_size, hop_size, win_length
        self.w_sc, self.w_log_mag = w_sc, w_log_mag
        self.window = getattr(torch, window)(win_length)
        self.spectralconv = SpectralConvergenceLoss()

    def stft(self, x):
        x_stft = torch.stft(x, self.fft_size, self.hop_size, self.win_length, self.window, return_complex=True)
        return x_stft.abs().clamp(min=1e-8)

    def forward(self, x, y):
        x_mag, y_mag = self.stft(x.flatten(0, 1)), self.stft(y.flatten(0, 1))
        log_mag = nn.functional.l1_loss(x_mag.log(), y_mag.log())
        return self.w_sc * self.spectralconv(x_mag, y_mag) + self.w_log_mag * log_mag


class MultiResolutionSTFTLoss(nn.Module):
    def __init__(self, fft_sizes, hop_sizes, win_lengths):
        super().__init__()
        self.stft_losses = nn.ModuleList(STFTLoss(*sizes) for sizes in zip(fft_sizes, hop_sizes, win_lengths))

    def forward(self, x, y):
        return sum(each(x, y) for each in self.stft_losses) / len(self.stft_losses)

# === stft_window
# thread: https://github.com/mozilla/TTS/issues/619
# operation: stft on cuda:0, cpu
# operands: self.window|window, x|y_hat|input
# category: state-not-registered
# error: stft input and window must be on the same device
# line: losses.py: self.window = torch.hann_window(
# line: losses.py: spectrum = torch.stft(
# repair: losses.py: spectrum = torch.stft(x, self.n_fft, self.hop_length, self.win_length, self.window, return_complex=True) -> spectrum = torch.stft(x, self.n_fft, self.hop_length, self.win_length, self.window.to(x.device), return_complex=True)
import torch
from torch import nn

from losses import MultiScaleSTFTLoss

torch.manual_seed(0)
generator = nn.Conv1d(1, 1, 5, padding=2).cuda()
criterion = MultiScaleSTFTLoss([(64, 16, 32), (32, 8, 32)]).cuda()
optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
noise, wave = torch.rand(2, 1, 256).cuda(), torch.rand(2, 256).cuda()
for _ in range(2):
    optimizer.zero_grad()
    loss = criterion(generator(noise).squeeze(1), wave)
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 3))
# --- losses.py
import torch
from torch import nn


class TorchSTFT:
    """Magnitudes of a short-time Fourier transform."""

    def __init__(self, n_fft, hop_length, win_length):
        self.n_fft = n_fft
        self.hop_length = hop_length
        self.win_length = win_length
        self.window = torch.hann_window(win_length)

    def __call__(self, x):
        spectrum = torch.stft(x, self.n_fft, self.hop_length, self.win_length, self.window, return_complex=True)
        return spectrum.abs().clamp(min=1e-4)


class STFTLoss(nn.Module):
    def __init__(self, n_fft, hop_length, win_length):
        super().__init__()
        self.stft = TorchSTFT(n_fft, hop_length, win_length)

    def forward(self, y_hat, y):
        return nn.functional.l1_loss(self.stft(y_hat).log(), self.stft(y).log())


class MultiScaleSTFTLoss(nn.Module):
    def __init__(self, scales):
        super().__init__()
        self.losses = nn.ModuleList(STFTLoss(*scale) for scale in scales)

    def forward(self, y_hat, y):
        return sum(loss(y_hat, y) for loss in self.losses) / len(self.losses)

# === teacher_heads
# thread: https://github.com/JDAI-CV/fast-reid/issues/690
# about: the teachers stand in a plain list so that they are not saved with the student
# operation: addmm|linear on cuda:1, cpu
# operands: weight|bias, images|x|input
# category: state-not-registered
# line: distiller.py: self.teachers = [
# line: distiller.py: outputs = [teacher(images)
# line: main.py: distiller =
# repair: distiller.py: outputs = [teacher(images) for teacher in self.teachers] -> outputs = [teacher.to(images.device)(images) for teacher in self.teachers]
import torch

from distiller import Distiller

torch.manual_seed(0)
distiller = Distiller(width=8, classes=5, teachers=2)
distiller.to("cuda:1")
optimizer = torch.optim.SGD(distiller.parameters(), lr=0.1)
for step in range(2):
    images, targets = torch.randn(6, 8).to("cuda:1"), torch.randint(5, (6,)).to("cuda:1")
    losses = distiller(images, targets)
    optimizer.zero_grad()
    sum(losses.values()).backward()
    optimizer.step()
print({name: round(value.item(), 3) for name, value in losses.items()})
# --- distiller.py
import torch
from torch import nn
from torch.nn import functional as F


def backbone(width, classes, hidden):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


class Distiller(nn.Module):
    """A student that also learns from what larger networks answer."""

    def __init__(self, width, classes, teachers):
        super().__init__()
        self.student = backbone(width, classes, 8)
        self.teachers = [backbone(width, classes, 32).eval() for _ in range(teachers)]

    @torch.no_grad()
    def answers(self, images):
        outputs = [teacher(images) for teacher in self.teachers]
        return torch.stack(outputs).mean(0)

    def forward(self, images, targets):
        logits = self.student(images)
        soft = F.kl_div(logits.log_softmax(-1), self.answers(images).softmax(-1), reduction="batchmean")
        return {"hard": F.cross_entropy(logits, targets), "soft": soft}

# === value_norm
# thread: https://github.com/marlbenchmark/on-policy/pull/107
# about: the input is moved to a device that the module wrote down in a dict before it was moved itself
# operation: mul|addcmul|lerp|sub|add on cuda:0, cpu
# operands: self.running_mean|running_mean
# category: state-not-registered
# line: value_norm.py: self.tpdv = dict(
# line: value_norm.py: returns = returns.to(**self.tpdv)
# line: main.py: normalizer = ValueNorm(
# repair: main.py: normalizer = ValueNorm(1).to(device) -> normalizer = ValueNorm(1, device=device)
import torch
from torch import nn

from value_norm import ValueNorm

torch.manual_seed(0)
device = torch.device("cuda:0")
critic = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
normalizer = ValueNorm(1).to(device)
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)
for _ in range(3):
    observations, returns = torch.randn(32, 5).to(device), torch.randn(32, 1).to(device)
    normalizer.update(returns)
    loss = (critic(observations) - normalizer.normalize(returns)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("value loss", round(loss.item(), 3))
# --- value_norm.py
import torch
from torch import nn


class ValueNorm(nn.Module):
    """Normalizes returns with a debiased running mean and variance."""

    def __init__(self, width, beta=0.9, device=torch.device("cpu")):
        super().__init__()
        self.beta = beta
        self.tpdv = dict(dtype=torch.float32, device=device)
        self.running_mean = nn.Parameter(torch.zeros(width), requires_grad=False).to(**self.tpdv)
        self.running_mean_sq = nn.Parameter(torch.zeros(width), requires_grad=False).to(**self.tpdv)
        self.debias = nn.Parameter(torch.tensor(0.0), requires_grad=False).to(**self.tpdv)

    def statistics(self):
        mean = self.running_mean / self.debias.clamp(min=1e-5)
        variance = self.running_mean_sq / self.debias.clamp(min=1e-5) - mean**2
        return mean, variance.clamp(min=1e-2)

    @torch.no_grad()
    def update(self, returns):
        returns = returns.to(**self.tpdv)
        self.running_mean.mul_(self.beta).add_(returns.mean(0) * (1 - self.beta))
        self.running_mean_sq.mul_(self.beta).add_(returns.square().mean(0) * (1 - self.beta))
        self.debias.mul_(self.beta).add_(1 - self.beta)

    def normalize(self, returns):
        returns = returns.to(**self.tpdv)
        mean, variance = self.statistics()
        return (returns - mean) / variance.sqrt()

# === vecnorm_stats
# thread: https://github.com/pytorch/rl/pull/3364
# about: the statistics are made at the first observation; the environment moves on between that and the next
# operation: lerp|sub|mul|add on cuda:0, cpu
# operands: _loc|loc|mean|_var, data_mean|data|value|obs|observation
# category: state-not-registered|cached-state
# line: transforms.py: self._loc =
# line: transforms.py: self._var =
# repair: transforms.py: self._loc = torch.zeros_like(value[0]) -> self.register_buffer("_loc", torch.zeros_like(value[0]))
# repair: transforms.py: self._var = torch.zeros_like(value[0]) -> self.register_buffer("_var", torch.zeros_like(value[0]))
import torch

from environments import Environment
from transforms import VecNorm

torch.manual_seed(0)
env = Environment(width=4, count=3)
env.append_transform(VecNorm(decay=0.9))
env.reset()
env = env.to("cuda:0")
for step in range(3):
    observation = env.step(torch.ones(3, 4).to("cuda:0") * step)
print("normalized", tuple(observation.shape), round(observation.mean().item(), 3))
# --- environments.py
import torch
from torch import nn


class Environment(nn.Module):
    """Points that are pushed about."""

    def __init__(self, width, count):
        super().__init__()
        self.transforms = nn.ModuleList()
        self.register_buffer("state", torch.zeros(count, width))

    def append_transform(self, transform):
        self.transforms.append(transform)

    def _observed(self):
        value = self.state
        for transform in self.transforms:
            value = transform(value)
        return value

    def reset(self):
        self.state.zero_()
        return self._observed()

    def step(self, action):
        self.state = 0.9 * self.state + action
        return self._observed()
# --- transforms.py
import torch
from torch import nn


class VecNorm(nn.Module):
    """Brings what is observed to mean 0 and variance 1, by what was observed so far."""

    def __init__(self, decay, eps=1e-4):
        super().__init__()
        self.decay, self.eps = decay, eps
        self.ready = False

    def _maybe_init(self, value):
        if self.ready:
            return
        self._loc = torch.zeros_like(value[0])
        self._var = torch.zeros_like(value[0])
        self.ready = True

    def _update(self, value):
        weight = 1 - self.decay
        self._loc.lerp_(value.mean(0), weight)
        self._var.lerp_(value.square().mean(0), weight)

    def forward(self, value):
        self._maybe_init(value)
        self._update(value)
        scale = (self._var - self._loc.square()).clamp_min(self.eps).sqrt()
        return (value - self._loc) / scale
