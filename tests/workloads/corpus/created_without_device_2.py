# === graph_recurrent_cell
# thread: https://github.com/benedekrozemberczki/pytorch_geometric_temporal/issues/18
# operation: cat on cuda:0, cpu
# operands: X|H|tensors
# category: created-without-device
# line: H = torch.zeros(
# line: Z = torch.cat(
# repair: H = torch.zeros(X.shape[0], self.out_channels) -> H = torch.zeros(X.shape[0], self.out_channels, device=X.device)
import torch
from torch import nn


class DiffusionConv(nn.Module):
    def __init__(self, in_channels, out_channels, hops):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(hops + 1, in_channels, out_channels) * 0.2)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, X, edges):
        adjacency = torch.zeros(len(X), len(X), device=X.device).index_put((edges[0], edges[1]), torch.ones((), device=X.device))
        walk = adjacency / adjacency.sum(1, keepdim=True).clamp(min=1)
        out = X @ self.weight[0]
        for hop in self.weight[1:]:
            X = walk @ X
            out = out + X @ hop
        return out + self.bias


class DCRNN(nn.Module):
    """A gated recurrent unit whose gates look at neighbours."""

    def __init__(self, in_channels, out_channels, hops=2):
        super().__init__()
        self.out_channels = out_channels
        self.update = DiffusionConv(in_channels + out_channels, out_channels, hops)
        self.candidate = DiffusionConv(in_channels + out_channels, out_channels, hops)

    def _hidden(self, X, H):
        if H is None:
            H = torch.zeros(X.shape[0], self.out_channels)
        return H

    def forward(self, X, edges, H=None):
        H = self._hidden(X, H)
        Z = torch.cat([X, H], dim=1)
        gate = torch.sigmoid(self.update(Z, edges))
        return gate * H + (1 - gate) * torch.tanh(self.candidate(Z, edges))


torch.manual_seed(0)
cell = DCRNN(3, 5).to("cuda:0")
edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]]).to("cuda:0")
state = None
for _ in range(3):
    state = cell(torch.randn(4, 3).to("cuda:0"), edges, state)
print("state", tuple(state.shape), round(state.sum().item(), 4))

# === guided_attention
# thread: https://github.com/mozilla/TTS/issues/491
# about: what is made without a device is filled by a function that knows one
# operation: mul on cuda:0, cpu
# operands: ga_masks, att_ws
# category: created-without-device
# line: losses.py: ga_masks = torch.zeros(
# repair: losses.py: ga_masks = torch.zeros((B, max_olen, max_ilen)) -> ga_masks = torch.zeros((B, max_olen, max_ilen), device=olens.device)
import torch
from torch import nn

from losses import TacotronLoss


class Attention(nn.Module):
    """Which letter each frame of speech is about."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, frames, text):
        return torch.softmax(self.query(frames) @ self.key(text).transpose(1, 2), dim=-1)


torch.manual_seed(0)
device = torch.device("cuda", 0)
model = Attention(6).to(device)
criterion = TacotronLoss(ga_alpha=5.0).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
frames, text = torch.rand(2, 8, 6).to(device), torch.rand(2, 5, 6).to(device)
text_lengths, mel_lengths = torch.tensor([5, 3]).to(device), torch.tensor([8, 6]).to(device)
for _ in range(2):
    alignments = model(frames, text)
    losses = criterion(alignments, mel_lengths, text_lengths)
    optimizer.zero_grad()
    losses["loss"].backward()
    optimizer.step()
print("loss", round(losses["loss"].item(), 4))
# --- losses.py
import torch
from torch import nn


class GuidedAttentionLoss(nn.Module):
    """Attention far from the diagonal costs."""

    def __init__(self, sigma=0.4):
        super().__init__()
        self.sigma = sigma

    def _make_ga_masks(self, ilens, olens):
        B = len(ilens)
        max_ilen = max(ilens)
        max_olen = max(olens)
        ga_masks = torch.zeros((B, max_olen, max_ilen))
        for idx, (ilen, olen) in enumerate(zip(ilens, olens)):
            ga_masks[idx, :olen, :ilen] = self._make_ga_mask(ilen, olen, self.sigma)
        return ga_masks

    @staticmethod
    def _make_ga_mask(ilen, olen, sigma):
        grid_x, grid_y = torch.meshgrid(torch.arange(olen).to(olen), torch.arange(ilen).to(ilen), indexing="ij")
        grid_x, grid_y = grid_x.float(), grid_y.float()
        return 1.0 - torch.exp(-((grid_y / ilen - grid_x / olen) ** 2) / (2 * sigma**2))

    def forward(self, att_ws, ilens, olens):
        ga_masks = self._make_ga_masks(ilens, olens)
        return (ga_masks * att_ws).mean()


class TacotronLoss(nn.Module):
    def __init__(self, ga_alpha):
        super().__init__()
        self.ga_alpha = ga_alpha
        self.criterion_ga = GuidedAttentionLoss()

    def forward(self, alignments, output_lens, input_lens):
        ga_loss = self.criterion_ga(alignments, input_lens, output_lens)
        return {"loss": ga_loss * self.ga_alpha, "ga_loss": ga_loss}

# === piecewise_kernel
# thread: https://github.com/cornellius-gp/gpytorch/issues/2199
# about: made and used in one expression of a helper
# operation: max|maximum on cuda:0, cpu
# operands: torch.zeros\(1\)|zero|floor, r|1 - r|distance
# category: created-without-device
# line: return torch.max(torch.zeros(1), 1 - r).pow(j + q)
# repair: return torch.max(torch.zeros(1), 1 - r).pow(j + q) -> return torch.max(torch.zeros(1, device=r.device), 1 - r).pow(j + q)
import math

import torch
from torch import nn


def fmax(r, j, q):
    return torch.max(torch.zeros(1), 1 - r).pow(j + q)


def get_cov(r, j, q):
    return 1 if q == 0 else (j + 1) * r + 1


class PiecewisePolynomialKernel(nn.Module):
    """A kernel of compact support: points further apart than the length scale have nothing to do with each other."""

    def __init__(self, q=1):
        super().__init__()
        self.q = q
        self.raw_lengthscale = nn.Parameter(torch.zeros(()))

    def forward(self, x1, x2):
        lengthscale = nn.functional.softplus(self.raw_lengthscale)
        r = torch.cdist(x1 / lengthscale, x2 / lengthscale, compute_mode="donot_use_mm_for_euclid_dist")
        j = math.floor(x1.shape[-1] / 2.0) + self.q + 1
        return fmax(r, j, self.q) * get_cov(r, j, self.q)


class ExactGP(nn.Module):
    def __init__(self, train_x, train_y, kernel):
        super().__init__()
        self.train_inputs, self.train_targets = (train_x,), train_y
        self.covar_module = kernel
        self.raw_noise = nn.Parameter(torch.zeros(()))

    def forward(self):
        covar = self.covar_module(*self.train_inputs, *self.train_inputs)
        covar = covar + nn.functional.softplus(self.raw_noise) * torch.eye(len(covar), device=covar.device)
        return 0.5 * (self.train_targets @ torch.linalg.solve(covar, self.train_targets) + torch.logdet(covar))


torch.manual_seed(0)
output_device = torch.device("cuda:0")
train_x, train_y = torch.rand(8, 2).to(output_device), torch.rand(8).to(output_device)
model = ExactGP(train_x, train_y, PiecewisePolynomialKernel(q=1)).to(output_device)
loss = model()
loss.backward()
print("nll", round(loss.item(), 3))

# === random_contrast
# thread: https://github.com/balbasty/cornucopia/pull/22
# about: the result of an expression meets another one's; one of them has no dimension
# operation: mul|add|index on cuda:0, cpu
# operands: vmax|vmin|x|new_mu
# category: created-without-device
# error: on the same device|cuda:0
# line: new_mu = torch.rand(
# repair: new_mu = torch.rand(self.levels) * (vmax - vmin) + vmin -> new_mu = torch.rand(self.levels).to(x.device) * (vmax - vmin) + vmin
import torch


class ContrastLookup:
    """Every intensity window gets a new mean, as another scanner would show it."""

    def __init__(self, levels):
        self.levels = levels

    def make_final(self, x):
        vmin, vmax = x.aminmax()
        edges = torch.linspace(0, 1, self.levels + 1).to(x) * (vmax - vmin) + vmin
        new_mu = torch.rand(self.levels) * (vmax - vmin) + vmin
        return edges, new_mu

    def __call__(self, x):
        edges, new_mu = self.make_final(x)
        window = torch.bucketize(x, edges[1:-1])
        return new_mu[window.flatten()].view_as(x)


torch.manual_seed(0)
scan = torch.rand(1, 8, 8).to("cuda:0")
augmented = ContrastLookup(4)(scan)
print("windows", len(augmented.unique()), tuple(augmented.shape))

# === render_background
# thread: https://github.com/nerfstudio-project/nerfstudio/pull/2381
# about: a constant of a module, handed through a dataclass's default
# operation: mul on cuda:0, cpu
# operands: background_color|background|color, opacity|sub|rsub
# category: created-without-device|input-not-moved|state-not-registered
# line: renderer.py: background = self.background_color
# line: renderer.py: return color + background * (1.0 - opacity)
# line: colors.py: WHITE = torch.tensor(
# repair: renderer.py: background = self.background_color -> background = self.background_color.to(rgb.device)
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

import colors
from renderer import RGBRenderer


@dataclass
class NeRFConfig:
    samples: int = 8
    far: float = 2.0
    background_color: Tensor = field(default_factory=lambda: colors.WHITE)


class VanillaNeRF(nn.Module):
    def __init__(self, config: NeRFConfig):
        super().__init__()
        self.config = config
        self.field = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
        self.renderer_rgb = RGBRenderer(background_color=config.background_color)

    def forward(self, origins: Tensor, directions: Tensor) -> Tensor:
        steps = torch.linspace(0.0, self.config.far, self.config.samples, device=origins.device)
        points = origins[:, None] + steps[None, :, None] * directions[:, None]
        rgb, density = self.field(points).split([3, 1], dim=-1)
        return self.renderer_rgb(rgb.sigmoid(), density.relu() * self.config.far / self.config.samples)


torch.manual_seed(2381)
model = VanillaNeRF(NeRFConfig()).to("cuda:0")
directions = nn.functional.normalize(torch.randn(5, 3), dim=-1).to("cuda:0")
image = model(torch.zeros_like(directions), directions)
print("mean color", [round(channel, 4) for channel in image.mean(dim=0).tolist()])
# --- colors.py
"""Common colors."""

import torch

WHITE = torch.tensor([1.0, 1.0, 1.0])
BLACK = torch.tensor([0.0, 0.0, 0.0])
RED = torch.tensor([1.0, 0.0, 0.0])
# --- renderer.py
import torch
from torch import Tensor, nn


class RGBRenderer(nn.Module):
    """Composites samples along a ray over a background."""

    def __init__(self, background_color: Tensor) -> None:
        super().__init__()
        self.background_color = background_color

    @staticmethod
    def weights(density: Tensor) -> Tensor:
        alpha = 1.0 - torch.exp(-density)
        transmittance = torch.cumprod(1.0 - alpha, dim=-2)
        return alpha * torch.cat([torch.ones_like(alpha[..., :1, :]), transmittance[..., :-1, :]], dim=-2)

    def forward(self, rgb: Tensor, density: Tensor) -> Tensor:
        weights = self.weights(density)
        color = (weights * rgb).sum(dim=-2)
        opacity = weights.sum(dim=-2)
        background = self.background_color
        return color + background * (1.0 - opacity)

# === reppoints_range
# thread: https://github.com/open-mmlab/mmdetection/pull/10026
# about: the message names the indexed tensor's device alone
# operation: index on cpu, cuda:0
# operands: points_range, same_level|indices
# category: created-without-device
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# line: points_range = torch.arange(
# line: candidates = points_range[same_level]
# repair: points_range = torch.arange(len(points)) -> points_range = torch.arange(len(points), device=points.device)
import torch
from torch import nn


def assign_points(points, boxes, labels, nearest=2, scale=4):
    """Which box each point has to learn: every box takes the points of its own level that are nearest to its middle."""
    targets = torch.zeros_like(points[:, 0], dtype=torch.long)
    level_of_point = points[:, 2].log2().round()
    middles, sides = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    level_of_box = (sides.prod(1).sqrt() / scale).log2().floor()
    level_of_box = level_of_box.clamp(level_of_point.min(), level_of_point.max())

    points_range = torch.arange(len(points))
    for middle, side, level, label in zip(middles, sides, level_of_box, labels):
        same_level = level_of_point == level
        away = ((points[same_level, :2] - middle) / side).square().sum(1)
        candidates = points_range[same_level]
        targets[candidates[away.argsort()[:nearest]]] = label + 1
    return targets


class RepPointsHead(nn.Module):
    def __init__(self, channels=4, classes=3, strides=(4, 8)):
        super().__init__()
        self.strides = strides
        self.cls = nn.Conv2d(channels, classes + 1, 1)

    def points(self, feats):
        levels = []
        for feat, stride in zip(feats, self.strides):
            y, x = (torch.arange(size, device=feat.device) * float(stride) for size in feat.shape[-2:])
            grid = torch.cartesian_prod(x, y)
            levels.append(torch.cat((grid, torch.full_like(grid[:, :1], stride)), dim=1))
        return torch.cat(levels)

    def loss(self, feats, boxes, labels):
        scores = torch.cat([self.cls(feat)[0].flatten(1).T for feat in feats])
        targets = assign_points(self.points(feats), boxes, labels)
        return nn.functional.cross_entropy(scores, targets), int((targets > 0).sum())


torch.manual_seed(0)
head = RepPointsHead().cuda()
feats = [torch.rand(1, 4, 8, 8).cuda(), torch.rand(1, 4, 4, 4).cuda()]
boxes = torch.tensor([[2.0, 3.0, 20.0, 17.0], [1.0, 1.0, 30.0, 31.0]]).cuda()
loss, positives = head.loss(feats, boxes, torch.tensor([0, 2]).cuda())
print(f"loss {loss.item():.3f}, {positives} points assigned")

# === rho_loss
# thread: https://github.com/eth-easl/modyn/pull/525
# about: the tensor is empty, and made again for every sampling; the class knows its device
# operation: cat on cpu, cuda:0
# operands: self.rho_loss|rho_loss
# category: created-without-device
# line: sampling.py: self.rho_loss = torch.tensor([])
# line: sampling.py: self.rho_loss = torch.cat(
# repair: sampling.py: self.rho_loss = torch.tensor([]) -> self.rho_loss = torch.tensor([], device=self._device)
import torch
from torch import nn

from sampling import RHOLossDownsampling

torch.manual_seed(0)
model, holdout = nn.Linear(4, 3).to("cuda:0"), nn.Linear(4, 3).to("cuda:0")
sampler = RHOLossDownsampling(0.5, holdout, "cuda:0")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
used = []
for epoch in range(2):
    sampler.init_downsampler()
    batches = [(torch.rand(4, 4).to("cuda:0"), torch.randint(0, 3, (4,)).to("cuda:0")) for _ in range(2)]
    for data, target in batches:
        sampler.inform_samples(model(data), data, target)
    chosen = sampler.select_points()
    data, target = (torch.cat(each)[chosen] for each in zip(*batches))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(data), target)
    loss.backward()
    optimizer.step()
    used += chosen.tolist()
print("used", used)
# --- sampling.py
import torch
from torch import nn


class Downsampling:
    def __init__(self, ratio, device):
        self.ratio, self._device = ratio, device
        self.number_of_points_seen = 0

    def init_downsampler(self):
        raise NotImplementedError

    def count(self):
        return max(1, int(self.ratio * self.number_of_points_seen))


class RHOLossDownsampling(Downsampling):
    """Points whose loss is still high, though it need not be: a model that was trained on other data has it low."""

    def __init__(self, ratio, holdout_model, device):
        super().__init__(ratio, device)
        self.holdout_model = holdout_model
        self.per_sample_loss = nn.CrossEntropyLoss(reduction="none")

    def init_downsampler(self):
        self.rho_loss = torch.tensor([])
        self.number_of_points_seen = 0

    @torch.no_grad()
    def inform_samples(self, forward_output, data, target):
        training_loss = self.per_sample_loss(forward_output, target)
        irreducible_loss = self.per_sample_loss(self.holdout_model(data), target)
        self.rho_loss = torch.cat([self.rho_loss, training_loss - irreducible_loss])
        self.number_of_points_seen += len(target)

    def select_points(self):
        return torch.topk(self.rho_loss, self.count()).indices

# === spike_state_batch
# thread: https://github.com/synsense/sinabs/issues/84
# about: only the last, smaller batch gets there
# operation: index_select on cpu, cuda:0
# operands: buffer, indices
# category: created-without-device
# line: indices = torch.randint(
# line: resized = torch.index_select(
# repair: indices = torch.randint(low=0, high=len(buffer), size=(batch_size,)) -> indices = torch.randint(low=0, high=len(buffer), size=(batch_size,)).to(buffer.device)
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LeakyLayer(nn.Module):
    """Integrates its input over time; what is left of a batch is where the next one begins."""

    def __init__(self, shape, tau=0.9):
        super().__init__()
        self.tau = tau
        self.register_buffer("v_mem", torch.zeros(1, *shape))

    def fit_batch(self, batch_size):
        for name, buffer in list(self.named_buffers()):
            indices = torch.randint(low=0, high=len(buffer), size=(batch_size,))
            resized = torch.index_select(buffer, 0, indices)
            setattr(self, name, resized)

    def forward(self, spikes):
        if len(self.v_mem) not in (1, len(spikes)):
            self.fit_batch(len(spikes))
        out = []
        for step in spikes.unbind(1):
            self.v_mem = self.tau * self.v_mem.detach() + step
            out.append((self.v_mem > 1.0).float())
        return torch.stack(out, 1)


torch.manual_seed(0)
network = nn.Sequential(nn.Linear(6, 5), LeakyLayer((5,)), nn.Linear(5, 2)).to("cuda:0")
for layer in network:
    if isinstance(layer, nn.Linear):
        nn.init.constant_(layer.weight, 0.4)
        nn.init.zeros_(layer.bias)
loader = DataLoader(TensorDataset(torch.ones(11, 7, 6)), batch_size=4)
counts = []
with torch.no_grad():
    for (events,) in loader:
        counts.append(round(network(events.to("cuda:0")).sum().item(), 2))
print("spikes", counts)

# === spline_base_distribution
# thread: https://github.com/pyro-ppl/pyro/issues/2761
# about: the transform is a module and was moved; the distribution is none, and raises inside torch.distributions
# operation: sub|mul|div on cpu, cuda:0
# operands: loc|self.loc|scale, value
# category: created-without-device|cached-state
# line: base_dist = dist.Normal(
# repair: base_dist = dist.Normal(torch.zeros(2), torch.ones(2)) -> base_dist = dist.Normal(torch.zeros(2, device=device), torch.ones(2, device=device))
import torch
from torch import distributions as dist
from torch import nn
from torch.distributions import constraints, transforms


class Coupling(transforms.Transform, nn.Module):
    """The second half is shifted and scaled by what a network makes of the first."""

    domain = codomain = constraints.real_vector
    bijective = True

    def __init__(self, width=8):
        nn.Module.__init__(self)
        transforms.Transform.__init__(self)
        self.network = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 2))

    __hash__ = nn.Module.__hash__

    def parts(self, first):
        shift, log_scale = self.network(first).chunk(2, -1)
        return shift, log_scale.tanh()

    def _call(self, x):
        shift, log_scale = self.parts(x[..., :1])
        return torch.cat([x[..., :1], x[..., 1:] * log_scale.exp() + shift], -1)

    def _inverse(self, y):
        shift, log_scale = self.parts(y[..., :1])
        return torch.cat([y[..., :1], (y[..., 1:] - shift) * (-log_scale).exp()], -1)

    def log_abs_det_jacobian(self, x, y):
        return self.parts(x[..., :1])[1].sum(-1)


torch.manual_seed(0)
device = "cuda:0"
dataset = torch.rand(32, 2).to(device)
base_dist = dist.Normal(torch.zeros(2), torch.ones(2))
transform = Coupling().to(device)
flow_dist = dist.TransformedDistribution(base_dist, [transform])
optimizer = torch.optim.Adam(transform.parameters(), lr=1e-2)
for _ in range(3):
    optimizer.zero_grad()
    loss = -flow_dist.log_prob(dataset).mean()
    loss.backward()
    optimizer.step()
    transform._cached_x_y = None, None
print("loss", round(loss.item(), 3))

# === t5_position_bias
# thread: https://github.com/pytorch/text/pull/2007
# about: the device is given to the constructor, cpu by default, and kept; the model was moved afterwards
# operation: index_select|embedding on cpu, cuda:0
# operands: weight|self.relative_attention_bias.weight|.*relative_attention_bias.weight, relative_position_bucket|buckets|input
# category: created-without-device|default-or-current-device
# line: query_position = torch.arange(
# line: key_position = torch.arange(
# line: position_bias = self._compute_bias(
# repair: position_bias = self._compute_bias(x.shape[1], x.shape[1], self.device) -> position_bias = self._compute_bias(x.shape[1], x.shape[1], x.device)
import torch
from torch import nn


class T5Attention(nn.Module):
    def __init__(self, width, heads, buckets=8, device=None):
        super().__init__()
        self.device = torch.device("cpu") if device is None else torch.device(device)
        self.heads, self.buckets = heads, buckets
        self.in_proj = nn.Linear(width, 3 * width, device=device)
        self.out_proj = nn.Linear(width, width, device=device)
        self.relative_attention_bias = nn.Embedding(buckets, heads, device=device)

    def _relative_position_bucket(self, relative_position):
        half = self.buckets // 2
        positive = (relative_position > 0).long() * half
        return positive + relative_position.abs().clamp(max=half - 1)

    def _compute_bias(self, query_length, key_length, device):
        query_position = torch.arange(query_length, device=device)[:, None]
        key_position = torch.arange(key_length, device=device)[None]
        relative_position_bucket = self._relative_position_bucket(key_position - query_position)
        values = self.relative_attention_bias(relative_position_bucket)
        return values.permute(2, 0, 1)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = self.in_proj(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        position_bias = self._compute_bias(x.shape[1], x.shape[1], self.device)
        scores = query @ key.transpose(-1, -2) + position_bias
        return self.out_proj((scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, width))


class T5Encoder(nn.Module):
    def __init__(self, vocabulary, width, layers, device=None):
        super().__init__()
        self.token_embeddings = nn.Embedding(vocabulary, width, device=device)
        self.layers = nn.ModuleList(T5Attention(width, 2, device=device) for _ in range(layers))

    def forward(self, tokens):
        x = self.token_embeddings(tokens)
        for layer in self.layers:
            x = x + layer(x)
        return x


torch.manual_seed(0)
encoder = T5Encoder(40, 8, 2).to("cuda:0")
model_input = torch.tensor([[3, 9, 11, 1], [5, 7, 1, 0]]).to("cuda:0")
print("encoded", tuple(encoder(model_input).shape), round(encoder(model_input).sum().item(), 3))
