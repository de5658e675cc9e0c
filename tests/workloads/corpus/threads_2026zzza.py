# === charges_with_several_powers_of_distance
# thread: https://github.com/lab-cosmo/torch-pme/issues/142
# about: energies of charges in a periodic box are summed up after Ewald, near and far apart. Several powers of the distance are mixed in one
#   potential, and the charges themselves are fitted to given energies
# operation: (special_)?gammaincc|igammac on cpu, cuda:0
# operands: self|input|.*peff.*|.*exponent.*
# category: module-split|input-not-moved|created-without-device
# line: main.py: calculator = EwaldCalculator(potential, lr_wavelength=0.5)
# line: main.py: potential = InversePowerLawPotential(
# line: potentials.py: self.register_buffer("exponent", torch.tensor(exponent))
# line: potentials.py: peff = (3 - self.exponent) / 2
# line: potentials.py: ratio = gammaincc(peff, x)
# line: potentials.py: half = self.exponent / 2
# repair: main.py: calculator = EwaldCalculator(potential, lr_wavelength=0.5) -> calculator = EwaldCalculator(potential, lr_wavelength=0.5).to(device)
import torch

from calculators import EwaldCalculator
from potentials import CoulombPotential, InversePowerLawPotential
from system import define_crystal, neighbor_list


def fit_charges(calculator, system, target, steps=6):
    charges = system["charges"].clone().requires_grad_()
    optimizer = torch.optim.Adam([charges], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        potential = calculator(charges, system["cell"], system["positions"], *system["pairs"])
        loss = (0.5 * (charges * potential).sum() - target) ** 2
        loss.backward()
        optimizer.step()
    return loss.item(), charges.detach().flatten().tolist()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    positions, charges, cell = define_crystal(atoms=6, seed=142)
    i, j, distances = neighbor_list(positions, cell, cutoff=2.4)
    system = {
        "positions": positions.to(device),
        "charges": charges.to(device),
        "cell": cell.to(device),
        "pairs": (i.to(device), j.to(device), distances.to(device)),
    }
    coulomb = EwaldCalculator(CoulombPotential(smearing=1.0), lr_wavelength=0.5)
    reference = coulomb(system["charges"], system["cell"], system["positions"], *system["pairs"])
    potential = InversePowerLawPotential(
        exponent=[1.0, 1.5, 2.0],
        smearing=1.0,
    )
    calculator = EwaldCalculator(potential, lr_wavelength=0.5)
    loss, fitted = fit_charges(calculator, system, 0.5 * (system["charges"] * reference).sum().detach())
    print(f"loss {loss:.4f} charges", [f"{charge:.3f}" for charge in fitted])
# --- system.py
import torch


def define_crystal(atoms, seed):
    generator = torch.Generator().manual_seed(seed)
    cell = 4.0 * torch.eye(3, dtype=torch.float64)
    positions = 4.0 * torch.rand((atoms, 3), generator=generator, dtype=torch.float64)
    charges = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(atoms // 2)[:, None]
    return positions, charges, cell


def neighbor_list(positions, cell, cutoff):
    """Half list of the pairs that are nearer than the cutoff, over the nearest images."""
    i, j = torch.triu_indices(len(positions), len(positions), offset=1)
    delta = positions[j] - positions[i]
    lengths = cell.diagonal()
    delta = delta - lengths * torch.round(delta / lengths)
    distances = delta.norm(dim=1)
    near = distances < cutoff
    return i[near], j[near], distances[near]
# --- potentials.py
import math

import torch
from torch.special import gammaincc, gammaln


class Potential(torch.nn.Module):
    """Split in a part of short range, summed over pairs, and one of long range, over waves."""

    def __init__(self, smearing):
        super().__init__()
        self.smearing = smearing

    def sr_from_dist(self, dist):
        return self.from_dist(dist) - self.lr_from_dist(dist)


class CoulombPotential(Potential):
    def from_dist(self, dist):
        return 1.0 / dist

    def lr_from_dist(self, dist):
        return torch.erf(dist / (self.smearing * math.sqrt(2))) / dist

    def lr_from_k_sq(self, k_sq):
        return 4 * math.pi * torch.exp(-0.5 * self.smearing**2 * k_sq) / k_sq


class InversePowerLawPotential(Potential):
    def __init__(self, exponent, smearing):
        super().__init__(smearing)
        self.register_buffer("exponent", torch.tensor(exponent))

    def from_dist(self, dist):
        return (dist[:, None] ** -self.exponent).mean(dim=1)

    def lr_from_dist(self, dist):
        half = self.exponent / 2
        x = 0.5 * dist[:, None] ** 2 / self.smearing**2
        return ((1 - gammaincc(half, x)) / dist[:, None] ** self.exponent).mean(dim=1)

    def lr_from_k_sq(self, k_sq):
        peff = (3 - self.exponent) / 2
        prefac = math.pi**1.5 * torch.exp(gammaln(peff) - gammaln(self.exponent / 2)) * (2 * self.smearing**2) ** peff
        x = 0.5 * self.smearing**2 * k_sq[:, None]
        ratio = gammaincc(peff, x)
        return (prefac * ratio / x**peff).mean(dim=1)
# --- calculators.py
import math

import torch


class EwaldCalculator(torch.nn.Module):
    def __init__(self, potential, lr_wavelength):
        super().__init__()
        self.potential = potential
        self.k_max = int(1 / lr_wavelength)

    def _waves(self, cell):
        steps = torch.arange(-self.k_max, self.k_max + 1, device=cell.device, dtype=cell.dtype)
        waves = torch.cartesian_prod(steps, steps, steps)
        waves = waves[waves.square().sum(dim=1) > 0]
        return 2 * math.pi * waves @ torch.linalg.inv(cell).T

    def _compute_kspace(self, charges, cell, positions):
        waves = self._waves(cell)
        green = self.potential.lr_from_k_sq(waves.square().sum(dim=1))
        phase = positions @ waves.T
        cos, sin = torch.cos(phase), torch.sin(phase)
        summed = cos @ (green[:, None] * (cos.T @ charges)) + sin @ (green[:, None] * (sin.T @ charges))
        return summed / cell.diagonal().prod()

    def _compute_rspace(self, charges, i, j, distances):
        bare = self.potential.sr_from_dist(distances)[:, None]
        potential = torch.zeros_like(charges)
        potential = potential.index_add(0, i, charges[j] * bare)
        return potential.index_add(0, j, charges[i] * bare)

    def forward(self, charges, cell, positions, i, j, distances):
        return self._compute_kspace(charges, cell, positions) + self._compute_rspace(charges, i, j, distances)

# === splines_slice_by_slice
# thread: https://github.com/biweidai/SINF/pull/4
# about: a density is learned by splines along directions, one layer after another. Outside of its knots each spline goes on as a straight line
# operation: index on cpu, cuda:0
# operands: indices.*|.*select0.*|self|dim
# error: indices should be either on cpu
# category: created-without-device
# line: RQspline.py: dim = torch.arange(self.ndim)
# line: RQspline.py: dim0 = dim[select0]
# line: RQspline.py: dimn = dim[selectn]
# line: RQspline.py: dimm = dim[selectm]
# line: RQspline.py: select0 = index == 0
# line: RQspline.py: selectn = index == self.nknot
# line: RQspline.py: selectm = ~(select0 | selectn)
# repair: RQspline.py: dim0 = dim[select0] -> dim0 = dim[select0.cpu()]
# repair: RQspline.py: dimn = dim[selectn] -> dimn = dim[selectn.cpu()]
# repair: RQspline.py: dimm = dim[selectm] -> dimm = dim[selectm.cpu()]
import argparse

import numpy as np
import torch

from GIS import learn_layers, log_likelihood

parser = argparse.ArgumentParser()
parser.add_argument("--nocuda", action="store_true")
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--seed", type=int, default=4)


def two_rings(size, seed):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, size)
    radius = np.where(np.arange(size) % 2, 2.0, 0.8) + 0.1 * rng.normal(size=size)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), rng.normal(size=size)], axis=1).astype(np.float32)


if __name__ == "__main__":
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    device = torch.device("cpu" if args.nocuda else "cuda:0")
    data = torch.tensor(two_rings(96, args.seed)).to(device)
    test = torch.tensor(two_rings(64, args.seed + 1)).to(device)
    model = learn_layers(data, layers=args.layers, nknot=8)
    print(f"train {log_likelihood(model, data):.3f} test {log_likelihood(model, test):.3f}")
# --- GIS.py
import math

import torch
from torch import nn

from RQspline import RQspline, estimate_knots


class SlicedLayer(nn.Module):
    """Turns the data, maps every direction with a spline of its own, and turns them back."""

    def __init__(self, ndim, nknot):
        super().__init__()
        self.wT = nn.Parameter(torch.linalg.qr(torch.randn(ndim, ndim))[0])
        self.spline = RQspline(ndim, nknot)

    def fit(self, data):
        with torch.no_grad():
            estimate_knots(self.spline, data @ self.wT)
        return self

    def forward(self, data):
        y, logderiv = self.spline(data @ self.wT)
        return y @ self.wT.T, logderiv.sum(dim=1)


def learn_layers(data, layers, nknot):
    model = nn.ModuleList()
    for _ in range(layers):
        layer = SlicedLayer(data.shape[1], nknot).to(data.device).fit(data)
        with torch.no_grad():
            data, _ = layer(data)
        model.append(layer)
    return model


@torch.no_grad()
def log_likelihood(model, data):
    logj = torch.zeros(len(data), device=data.device)
    for layer in model:
        data, log_j = layer(data)
        logj = logj + log_j
    normal = -0.5 * data.square().sum(dim=1) - 0.5 * data.shape[1] * math.log(2 * math.pi)
    return (normal + logj).mean().item()
# --- RQspline.py
import torch
from torch import nn


class RQspline(nn.Module):
    """Rising curves, one for each dimension, given by knots. Here straight between two knots."""

    def __init__(self, ndim, nknot):
        super().__init__()
        self.ndim = ndim
        self.nknot = nknot
        self.xx = nn.Parameter(torch.linspace(-1.0, 1.0, nknot).repeat(ndim, 1))
        self.yy = nn.Parameter(torch.linspace(-1.0, 1.0, nknot).repeat(ndim, 1))

    def forward(self, x):
        index = torch.searchsorted(self.xx, x.T.contiguous()).T
        y = torch.zeros_like(x)
        deriv = torch.zeros_like(x)

        select0 = index == 0
        selectn = index == self.nknot
        selectm = ~(select0 | selectn)
        slope = (self.yy[:, 1:] - self.yy[:, :-1]) / (self.xx[:, 1:] - self.xx[:, :-1])
        dim = torch.arange(self.ndim).expand(len(x), -1)

        dim0 = dim[select0]
        y[select0] = self.yy[dim0, 0] + (x[select0] - self.xx[dim0, 0]) * slope[dim0, 0]
        deriv[select0] = slope[dim0, 0]

        dimn = dim[selectn]
        y[selectn] = self.yy[dimn, -1] + (x[selectn] - self.xx[dimn, -1]) * slope[dimn, -1]
        deriv[selectn] = slope[dimn, -1]

        dimm = dim[selectm]
        knot = index[selectm] - 1
        y[selectm] = self.yy[dimm, knot] + (x[selectm] - self.xx[dimm, knot]) * slope[dimm, knot]
        deriv[selectm] = slope[dimm, knot]
        return y, deriv.log()


def estimate_knots(spline, data):
    """Quantiles of the data become those of a normal distribution."""
    levels = (torch.arange(spline.nknot, device=data.device) + 0.5) / spline.nknot
    spline.xx.copy_(torch.quantile(data, levels, dim=0).T)
    spline.yy.copy_(torch.special.ndtri(levels).expand(spline.ndim, -1))

# === proposals_from_every_level
# thread: https://github.com/IDEA-Research/detrex/pull/295
# about: a detector picks its queries out of proposals on maps of several sizes. Each map gives at most its share of those that are left after
#   overlaps are dropped
# operation: eq on cuda:0, cpu
# operands: other|self|.*arange.*
# category: created-without-device
# line: modeling/deformable_transformer.py: torch.arange(len(spatial_shapes))[:, None]
# line: modeling/deformable_transformer.py: is_level_ordered = (
# repair: modeling/deformable_transformer.py: torch.arange(len(spatial_shapes))[:, None] -> torch.arange(len(spatial_shapes),
#   device=level_ids.device)[:, None]
import torch

from configs.deta_tiny import dataloader, model, train
from modeling.criterion import set_loss


def do_train():
    torch.manual_seed(train["seed"])
    net = model()
    net.to(train["device"])
    optimizer = torch.optim.AdamW(net.parameters(), lr=train["lr"])
    for iteration, (images, boxes) in enumerate(dataloader(train["max_iter"])):
        images, boxes = images.to(train["device"]), boxes.to(train["device"])
        pred_logits, pred_boxes = net(images)
        loss = set_loss(pred_logits, pred_boxes, boxes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield iteration, loss.item(), pred_boxes.mean().item()


if __name__ == "__main__":
    for iteration, loss, center in do_train():
        last = f"iter {iteration} loss {loss:.4f} mean {center:.4f}"
    print(last)
# --- configs/deta_tiny.py
import torch

from modeling.deta import DETA

train = dict(seed=295, lr=1e-2, max_iter=4, device="cuda")


def model():
    return DETA(embed_dim=12, num_queries=6, num_levels=2)


def dataloader(max_iter):
    generator = torch.Generator().manual_seed(8)
    for _ in range(max_iter):
        center = 0.25 + 0.5 * torch.rand((1, 2), generator=generator)
        boxes = torch.cat([center, torch.full((1, 2), 0.25)], dim=1)
        grid = (torch.arange(16) + 0.5) / 16
        inside = (grid[None, :] - center[0, 0]).abs().lt(0.125) & (grid[:, None] - center[0, 1]).abs().lt(0.125)
        yield inside.float()[None, None].repeat(1, 3, 1, 1), boxes
# --- modeling/criterion.py
import torch
import torch.nn.functional as F


def set_loss(pred_logits, pred_boxes, boxes):
    """The query that is nearest shall find the box, all others nothing."""
    cost = torch.cdist(pred_boxes, boxes, p=1)
    matched = cost.argmin(dim=0)
    target = torch.zeros_like(pred_logits)
    target[matched] = 1.0
    return F.binary_cross_entropy_with_logits(pred_logits, target) + F.l1_loss(pred_boxes[matched], boxes)
# --- modeling/deta.py
import torch
from torch import nn

from modeling.deformable_transformer import DeformableDetrTransformer


class DETA(nn.Module):
    def __init__(self, embed_dim, num_queries, num_levels):
        super().__init__()
        self.backbone = nn.ModuleList([nn.Conv2d(3, embed_dim, 4, stride=4)])
        for _ in range(num_levels - 1):
            self.backbone.append(nn.Conv2d(embed_dim, embed_dim, 2, stride=2))
        self.transformer = DeformableDetrTransformer(embed_dim, num_queries)
        self.class_embed = nn.Linear(embed_dim, 1)
        self.bbox_embed = nn.Linear(embed_dim, 4)

    def forward(self, images):
        features, x = [], images
        for layer in self.backbone:
            x = torch.relu(layer(x))
            features.append(x)
        hidden, reference = self.transformer(features)
        boxes = (self.bbox_embed(hidden) + torch.logit(reference, eps=1e-4)).sigmoid()
        return self.class_embed(hidden).squeeze(-1), boxes
# --- modeling/deformable_transformer.py
import torch
from torch import nn


def nms(boxes, scores, threshold):
    """Indices of boxes to keep, best first, none too near to a better one."""
    order, keep = scores.argsort(descending=True), []
    distance = torch.cdist(boxes[:, :2], boxes[:, :2])
    for index in order.tolist():
        if all(distance[index, other] > threshold for other in keep):
            keep.append(index)
    return torch.tensor(keep, device=boxes.device)


class DeformableDetrTransformer(nn.Module):
    def __init__(self, embed_dim, two_stage_num_proposals):
        super().__init__()
        self.two_stage_num_proposals = two_stage_num_proposals
        self.enc_score = nn.Linear(embed_dim, 1)
        self.enc_output = nn.Sequential(nn.Linear(embed_dim, embed_dim), nn.LayerNorm(embed_dim))
        self.decoder = nn.MultiheadAttention(embed_dim, 2, batch_first=True)

    def gen_encoder_output_proposals(self, spatial_shapes, device):
        proposals, level_ids = [], []
        for level, (height, width) in enumerate(spatial_shapes):
            y, x = torch.meshgrid(torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij")
            center = torch.stack([(x + 0.5) / width, (y + 0.5) / height], dim=-1).view(-1, 2)
            proposals.append(torch.cat([center, torch.full_like(center, 0.15 * 2**level)], dim=1))
            level_ids.append(torch.full((height * width,), level, device=device))
        return torch.cat(proposals), torch.cat(level_ids)

    def select(self, scores, proposals, level_ids, spatial_shapes):
        topk = self.two_stage_num_proposals
        post_nms_inds = nms(proposals, scores, threshold=0.2)
        q_per_l = topk // len(spatial_shapes)
        is_level_ordered = (
            level_ids[post_nms_inds][None] ==
            torch.arange(len(spatial_shapes))[:, None]
        )
        keep_inds_mask = is_level_ordered & (is_level_ordered.cumsum(1) <= q_per_l)
        keep_inds_mask = keep_inds_mask.any(0)
        if keep_inds_mask.sum() < topk:
            num_to_add = topk - keep_inds_mask.sum()
            pad_inds = (~keep_inds_mask).nonzero()[:num_to_add]
            keep_inds_mask[pad_inds] = True
        return post_nms_inds[keep_inds_mask][:topk]

    def forward(self, features):
        spatial_shapes = [each.shape[-2:] for each in features]
        memory = torch.cat([each.flatten(2).transpose(1, 2) for each in features], dim=1)[0]
        proposals, level_ids = self.gen_encoder_output_proposals(spatial_shapes, memory.device)
        scores = self.enc_score(memory).squeeze(-1)
        chosen = self.select(scores, proposals, level_ids, spatial_shapes)
        query = self.enc_output(memory[chosen])[None]
        hidden, _ = self.decoder(query, memory[None], memory[None])
        return hidden[0] * scores[chosen].sigmoid()[:, None], proposals[chosen]

# === renorm_between_two_experiences
# thread: https://github.com/ContinualAI/avalanche/pull/1188
# about: a net learns one group of classes after the other and renormalizes its batches. How far it may correct them grows with the batches it has
#   seen, up to a limit that is set anew when an experience begins
# operation: clamp|clip on cuda:0, cpu
# operands: min|max|.*r_max.*
# category: created-without-device|cached-state|state-not-registered
# line: models/batch_renorm.py: self.r_max = min(
# line: models/batch_renorm.py: r = torch.clamp(
# line: models/batch_renorm.py: d = torch.clamp(
# line: models/batch_renorm.py: self.d_max = min(
# line: training/ar1.py: module.max_r_max, module.max_d_max = limits
# line: training/ar1.py: limits = torch.tensor(
# repair: models/batch_renorm.py: r = torch.clamp(std_b / self.running_std, 1.0 / self.r_max, self.r_max).detach() ->
#   r = torch.clamp(std_b / self.running_std, 1.0 / torch.as_tensor(self.r_max, device=x.device),
#   torch.as_tensor(self.r_max, device=x.device)).detach()
# repair: models/batch_renorm.py: d = torch.clamp((mean_b - self.running_mean) / self.running_std, -self.d_max, self.d_max).detach() ->
#   d = torch.clamp((mean_b - self.running_mean) / self.running_std, -torch.as_tensor(self.d_max, device=x.device),
#   torch.as_tensor(self.d_max, device=x.device)).detach()
import torch

from benchmarks import split_stripes
from training.ar1 import AR1

if __name__ == "__main__":
    torch.manual_seed(11)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    benchmark = split_stripes(experiences=2, classes_per_experience=2)
    cl_strategy = AR1(n_classes=4, max_r_max=1.25, max_d_max=0.5, inc_step=4e-2, device=device)
    results = []
    for exp_id, experience in enumerate(benchmark["train"]):
        cl_strategy.train(experience)
        results.append(cl_strategy.eval(benchmark["test"]))
    print("losses", [f"{loss:.3f}" for loss in results])
# --- benchmarks.py
import torch


def split_stripes(experiences, classes_per_experience, size=12):
    """Stripes, of another width for each class. Each experience has some of the classes."""
    generator = torch.Generator().manual_seed(5)
    column = torch.arange(size).float()

    def images(classes, each):
        labels = torch.tensor(classes).repeat_interleave(each)
        shift = 6.28 * torch.rand((len(labels), 1), generator=generator)
        rows = torch.sin((0.4 + 0.5 * labels[:, None]) * column + shift)
        noise = 0.2 * torch.randn((len(labels), 1, size, size), generator=generator)
        return rows[:, None, None, :] + noise, labels

    groups = [list(range(k * classes_per_experience, (k + 1) * classes_per_experience)) for k in range(experiences)]
    return {"train": [images(group, 12) for group in groups], "test": images(sum(groups, []), 6)}
# --- models/batch_renorm.py
import torch
from torch import nn


class BatchRenorm2D(nn.Module):
    """As batch norm, but corrected toward what was seen over all batches."""

    def __init__(self, num_features, momentum=0.1, eps=1e-5, inc_step=1e-4):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(1, num_features, 1, 1))
        self.beta = nn.Parameter(torch.zeros(1, num_features, 1, 1))
        self.register_buffer("running_mean", torch.zeros(1, num_features, 1, 1))
        self.register_buffer("running_std", torch.ones(1, num_features, 1, 1))
        self.momentum, self.eps, self.inc_step = momentum, eps, inc_step
        self.max_r_max, self.max_d_max = 3.0, 5.0
        self.r_max, self.d_max = 1.0, 0.0

    def forward(self, x):
        if not self.training:
            return self.gamma * (x - self.running_mean) / self.running_std + self.beta
        mean_b = x.mean(dim=(0, 2, 3), keepdim=True)
        std_b = (x.var(dim=(0, 2, 3), keepdim=True) + self.eps).sqrt()
        r = torch.clamp(std_b / self.running_std, 1.0 / self.r_max, self.r_max).detach()
        d = torch.clamp((mean_b - self.running_mean) / self.running_std, -self.d_max, self.d_max).detach()
        y = self.gamma * ((x - mean_b) / std_b * r + d) + self.beta

        self.r_max = min(self.r_max + self.inc_step * len(x), self.max_r_max)
        self.d_max = min(self.d_max + self.inc_step * len(x), self.max_d_max)
        self.running_mean += self.momentum * (mean_b.detach() - self.running_mean)
        self.running_std += self.momentum * (std_b.detach() - self.running_std)
        return y
# --- training/ar1.py
import torch
from torch import nn

from models.batch_renorm import BatchRenorm2D


class AR1:
    def __init__(self, n_classes, max_r_max, max_d_max, inc_step, device):
        self.max_r_max, self.max_d_max = max_r_max, max_d_max
        self.device, self.clock = device, 0
        self.model = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False),
            BatchRenorm2D(8, inc_step=inc_step),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(3),
            nn.Flatten(),
            nn.Linear(72, n_classes),
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.criterion = nn.CrossEntropyLoss()

    def _before_training_exp(self):
        self.model.to(self.device).train()
        for module in self.model.modules():
            if isinstance(module, BatchRenorm2D) and self.clock > 0:
                limits = torch.tensor([[self.max_r_max], [self.max_d_max]])
                module.max_r_max, module.max_d_max = limits
        self.clock += 1

    def train(self, experience, epochs=2, mb_size=8):
        self._before_training_exp()
        images, labels = experience
        for order in (torch.randperm(len(labels)) for _ in range(epochs)):
            for rows in order.split(mb_size):
                mb_x, mb_y = images[rows].to(self.device), labels[rows].to(self.device)
                self.optimizer.zero_grad()
                self.criterion(self.model(mb_x), mb_y).backward()
                self.optimizer.step()

    @torch.no_grad()
    def eval(self, test):
        self.model.eval()
        images, labels = (each.to(self.device) for each in test)
        return self.criterion(self.model(images), labels).item()

# === series_as_pictures_and_words
# thread: https://github.com/kyegomez/zeta/issues/197
# about: series are sorted into classes by a transformer that reads them twice, as patches of a picture and as tokens. An expert takes both kinds
#   apart
# operation: (native_)?layer_norm on cuda:0, cpu
# operands: weight|bias|.*norm.*
# category: state-not-registered|module-split|created-without-device
# line: zeta/visual_expert.py: class VisualExpert:
# line: zeta/visual_expert.py: self.norm = nn.LayerNorm(dim)
# line: zeta/visual_expert.py: self.dim = dim
# line: model/mmm4tsc.py: self.visual_expert = VisualExpert(
# line: train.py: model = MMM4TSC(
# repair: zeta/visual_expert.py: class VisualExpert: -> class VisualExpert(nn.Module):
# repair: zeta/visual_expert.py: self.dim = dim -> super().__init__(); self.dim = dim
import torch

import train

if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    losses, right = train.fit(device, epochs=5)
    print("losses", [f"{loss:.3f}" for loss in losses], "right", right)
# --- zeta/visual_expert.py
import torch
from torch import nn

from zeta.feedforward import SimpleFeedForward


class VisualExpert:
    """Attention over all, after weights that differ for pictures and for text."""

    def __init__(self, dim, hidden_dim, heads):
        self.dim = dim
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv_text = nn.Linear(dim, 3 * dim)
        self.qkv_image = nn.Linear(dim, 3 * dim)
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.feedforward_text = SimpleFeedForward(dim, hidden_dim)
        self.feedforward_image = SimpleFeedForward(dim, hidden_dim)

    def __call__(self, x, images):
        normalized = self.norm(x)
        image, text = normalized[:, :images], normalized[:, images:]
        q, k, v = torch.cat([self.qkv_image(image), self.qkv_text(text)], dim=1).chunk(3, dim=-1)
        attended = x + self.attention(q, k, v)[0]
        normalized = self.norm(attended)
        image, text = normalized[:, :images], normalized[:, images:]
        return attended + torch.cat([self.feedforward_image(image), self.feedforward_text(text)], dim=1)
# --- zeta/feedforward.py
from torch import nn


def SimpleFeedForward(dim, hidden_dim):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, dim))
# --- model/mmm4tsc.py
import torch
from torch import nn

from zeta.visual_expert import VisualExpert


class MMM4TSC(nn.Module):
    def __init__(self, length, num_classes, dim=16, patch=4, bins=10):
        super().__init__()
        self.patch, self.bins = patch, bins
        self.to_patch = nn.Linear(patch * patch, dim)
        self.to_token = nn.Embedding(bins, dim)
        self.position = nn.Parameter(0.02 * torch.randn(1, length // patch + (length // patch) ** 2, dim))
        self.visual_expert = VisualExpert(dim, hidden_dim=2 * dim, heads=2)
        self.head = nn.Linear(dim, num_classes)

    def picture(self, x):
        """Differences between all points of a series, cut into squares."""
        recurrence = torch.tanh(x[:, :, None] - x[:, None, :])
        squares = recurrence.unfold(1, self.patch, self.patch).unfold(2, self.patch, self.patch)
        return squares.flatten(3).flatten(1, 2)

    def forward(self, x):
        image = self.to_patch(self.picture(x))
        levels = (x[:, :: self.patch].sigmoid() * self.bins).long().clamp(0, self.bins - 1)
        concat = torch.cat([image, self.to_token(levels)], dim=1) + self.position
        fused = self.visual_expert(concat, images=image.shape[1])
        return self.head(fused.mean(dim=1))
# --- train.py
import numpy as np
import torch
from torch import nn

from model.mmm4tsc import MMM4TSC


def series(size, length):
    rng = np.random.default_rng(197)
    label = np.arange(size) % 3
    time = np.linspace(0.0, 6.28, length)
    values = np.sin(time * (1 + label[:, None]) + rng.uniform(0, 0.8, (size, 1)))
    values = values + 0.1 * rng.normal(size=values.shape)
    return torch.tensor(values, dtype=torch.float32), torch.tensor(label)


def fit(device, epochs):
    torch.manual_seed(0)
    x, y = series(size=24, length=16)
    model = MMM4TSC(length=16, num_classes=3)
    model = model.to(device)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss()
    losses = []
    for _ in range(epochs):
        for batch_x, batch_y in loader:
            batch_x, batch_y = batch_x.to(device), batch_y.to(device)
            loss = criterion(model(batch_x), batch_y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        right = (model(x.to(device)).argmax(dim=1).cpu() == y).sum().item()
    return losses, right

# === experts_that_share_the_load
# thread: https://github.com/lucidrains/mixture-of-experts/issues/5
# about: each row goes to the best experts of a layer, chosen with some noise. A second loss asks that all experts get alike many rows
# operation: sub on cuda:0, cpu
# operands: other|.*loc.*|.*normal.*
# category: created-without-device|cached-state|state-not-registered
# line: moe.py: self.normal = Normal(torch.tensor([0.0]), torch.tensor([1.0]))
# line: moe.py: normal = self.normal
# line: moe.py: prob_if_in = normal.cdf(
# line: moe.py: prob_if_out = normal.cdf(
# repair: moe.py: normal = self.normal ->
#   normal = Normal(torch.zeros(1, device=clean_values.device), torch.ones(1, device=clean_values.device))
import torch

from moe import MoE
from rows import blobs


def train(model, x, y, optim, steps):
    model.train()
    for _ in range(steps):
        y_hat, aux_loss = model(x)
        loss = torch.nn.functional.nll_loss(y_hat.clamp_min(1e-6).log(), y) + aux_loss
        optim.zero_grad()
        loss.backward()
        optim.step()
    return loss.item(), aux_loss.item()


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        y_hat, _ = model(x)
    return (y_hat.argmax(dim=1) == y).sum().item()


if __name__ == "__main__":
    torch.manual_seed(5)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = blobs(rows=48, dim=10, classes=4, seed=5)
    net = MoE(input_size=10, output_size=4, num_experts=6, hidden_size=12, noisy_gating=True, k=2).to(device)
    optim = torch.optim.Adam(net.parameters(), lr=0.02)
    loss, aux_loss = train(net, x.to(device), y.to(device), optim, steps=8)
    right = evaluate(net, x.to(device), y.to(device))
    print(f"loss {loss:.2f} aux {aux_loss:.3f} right {right} of {len(y)}")
# --- rows.py
import torch


def blobs(rows, dim, classes, seed):
    generator = torch.Generator().manual_seed(seed)
    middles = 2.0 * torch.randn((classes, dim), generator=generator)
    y = torch.arange(rows) % classes
    return middles[y] + torch.randn((rows, dim), generator=generator), y
# --- moe.py
import torch
from torch import nn
from torch.distributions.normal import Normal

from experts import MLP, SparseDispatcher, cv_squared


class MoE(nn.Module):
    """Experts behind a gate that lets each row through to k of them."""

    def __init__(self, input_size, output_size, num_experts, hidden_size, noisy_gating=True, k=4):
        super().__init__()
        self.noisy_gating, self.num_experts, self.k = noisy_gating, num_experts, k
        self.experts = nn.ModuleList(MLP(input_size, output_size, hidden_size) for _ in range(num_experts))
        self.w_gate = nn.Parameter(torch.zeros(input_size, num_experts))
        self.w_noise = nn.Parameter(torch.zeros(input_size, num_experts))
        self.noise = torch.Generator().manual_seed(1)
        self.normal = Normal(torch.tensor([0.0]), torch.tensor([1.0]))

    def _gates_to_load(self, gates):
        return (gates > 0).sum(0).float()

    def _prob_in_top_k(self, clean_values, noisy_values, noise_stddev, noisy_top_values):
        """Chance that an expert is among the best k, if its noise were drawn anew."""
        normal = self.normal
        threshold_if_in = noisy_top_values[:, self.k:self.k + 1]
        threshold_if_out = noisy_top_values[:, self.k - 1:self.k]
        is_in = noisy_values > threshold_if_in
        prob_if_in = normal.cdf((clean_values - threshold_if_in) / noise_stddev)
        prob_if_out = normal.cdf((clean_values - threshold_if_out) / noise_stddev)
        return torch.where(is_in, prob_if_in, prob_if_out)

    def noisy_top_k_gating(self, x, train, noise_epsilon=1e-2):
        clean_logits = x @ self.w_gate
        noisy = self.noisy_gating and train
        logits = clean_logits
        if noisy:
            noise_stddev = nn.functional.softplus(x @ self.w_noise) + noise_epsilon
            drawn = torch.randn(clean_logits.shape, generator=self.noise).to(x.device)
            noisy_logits = logits = clean_logits + drawn * noise_stddev
        top_logits, top_indices = logits.topk(self.k + 1, dim=1)
        top_k_gates = top_logits[:, :self.k].softmax(dim=1)
        gates = torch.zeros_like(logits).scatter(1, top_indices[:, :self.k], top_k_gates)
        if noisy:
            load = self._prob_in_top_k(clean_logits, noisy_logits, noise_stddev, top_logits).sum(0)
        else:
            load = self._gates_to_load(gates)
        return gates, load

    def forward(self, x, loss_coef=1e-2):
        gates, load = self.noisy_top_k_gating(x, self.training)
        loss = loss_coef * (cv_squared(gates.sum(0)) + cv_squared(load))
        dispatcher = SparseDispatcher(gates)
        outputs = [expert(rows) for expert, rows in zip(self.experts, dispatcher.dispatch(x))]
        return dispatcher.combine(outputs), loss
# --- experts.py
import torch
from torch import nn


def cv_squared(x, eps=1e-10):
    return x.float().var() / (x.float().mean() ** 2 + eps)


class MLP(nn.Module):
    def __init__(self, input_size, output_size, hidden_size):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(input_size, hidden_size), nn.ReLU(), nn.Linear(hidden_size, output_size), nn.Softmax(1))

    def forward(self, x):
        return self.layers(x)


class SparseDispatcher:
    """Sends rows to the experts whose gate is open, and adds up what comes back."""

    def __init__(self, gates):
        self._gates = gates
        self._rows = [gate.nonzero().squeeze(1) for gate in gates.t()]

    def dispatch(self, inp):
        return [inp[rows] for rows in self._rows]

    def combine(self, expert_out):
        width = expert_out[0].shape[1]
        combined = torch.zeros(len(self._gates), width, device=self._gates.device)
        for expert, (rows, out) in enumerate(zip(self._rows, expert_out)):
            combined = combined.index_add(0, rows, out * self._gates[rows, expert, None])
        return combined
