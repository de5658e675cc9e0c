# === bits_of_a_quantizer_built_at_first_call
# thread: https://github.com/cern-nextgen/PQuantML/issues/77
# about: a search tries several widths of numbers for a small network. Each trial builds a network whose layers round what they get, and trains it
# operation: div on cuda:0, cpu
# operands: other|step
# category: created-without-device
# line: pquant/quantizer.py: self.f = nn.Parameter(torch.full(
# line: pquant/quantizer.py: self.i = nn.Parameter(torch.full(
# line: pquant/quantizer.py: self.k = nn.Parameter(torch.full(
# line: pquant/quantizer.py: self.build(x)
# line: hpo.py: model = JetTagger(
# repair: pquant/quantizer.py: self.k = nn.Parameter(torch.full(param_shape, float(self.k_init)), requires_grad=False) -> self.k =
#   nn.Parameter(torch.full(param_shape, float(self.k_init), device=x.device), requires_grad=False)
# repair: pquant/quantizer.py: self.i = nn.Parameter(torch.full(param_shape, float(self.i_init))) -> self.i =
#   nn.Parameter(torch.full(param_shape, float(self.i_init), device=x.device))
# repair: pquant/quantizer.py: self.f = nn.Parameter(torch.full(param_shape, float(self.f_init))) -> self.f =
#   nn.Parameter(torch.full(param_shape, float(self.f_init), device=x.device))
import torch

from hpo import run_trials

TRIALS = [
    {"k": 1, "i": 2, "f": 5, "granularity": "per_tensor"},
    {"k": 1, "i": 1, "f": 3, "granularity": "per_channel"},
    {"k": 1, "i": 2, "f": 2, "granularity": "per_channel"},
]

if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    results = run_trials(TRIALS, device, epochs=6)
    print("trials", [f"{loss:.4f} at {bits:.2f} bits" for loss, bits in results])
# --- pquant/quantizer.py
import torch
from torch import nn


def ste_round(x):
    return x + (torch.round(x) - x).detach()


class Quantizer(nn.Module):
    """Fixed-point numbers: k says whether there is a sign, i and f are the bits before and after the point."""

    def __init__(self, k, i, f, granularity="per_tensor"):
        super().__init__()
        self.k_init, self.i_init, self.f_init = k, i, f
        self.granularity = granularity
        self.built = False

    def compute_shape(self, x):
        if self.granularity == "per_channel":
            return (1,) * (x.dim() - 1) + (x.shape[-1],)
        return (1,)

    def build(self, x):
        param_shape = self.compute_shape(x)
        self.k = nn.Parameter(torch.full(param_shape, float(self.k_init)), requires_grad=False)
        self.i = nn.Parameter(torch.full(param_shape, float(self.i_init)))
        self.f = nn.Parameter(torch.full(param_shape, float(self.f_init)))
        self.built = True

    def bits(self):
        return (self.k + self.i + self.f).mean()

    def forward(self, x):
        if not self.built:
            self.build(x)
        step = torch.exp2(-self.f)
        scaled = ste_round(x / step) * step
        top = torch.exp2(self.i)
        return torch.minimum(torch.maximum(scaled, -self.k * top), top - step)
# --- pquant/layers.py
from torch import nn
from torch.nn import functional as F

from pquant.quantizer import Quantizer


class PQDense(nn.Linear):
    def __init__(self, in_features, out_features, config):
        super().__init__(in_features, out_features)
        self.input_quantizer = Quantizer(**config)
        self.weight_quantizer = Quantizer(**config)

    def forward(self, x):
        return F.linear(self.input_quantizer(x), self.weight_quantizer(self.weight), self.bias)


class JetTagger(nn.Module):
    def __init__(self, config, features=6, classes=3):
        super().__init__()
        self.dense1 = PQDense(features, 10, config)
        self.dense2 = PQDense(10, classes, config)

    def forward(self, x):
        return self.dense2(F.relu(self.dense1(x)))

    def mean_bits(self):
        layers = (self.dense1, self.dense2)
        return sum(layer.input_quantizer.bits() + layer.weight_quantizer.bits() for layer in layers) / 4
# --- hpo.py
import torch
from torch.nn import functional as F

from pquant.layers import JetTagger


def jets(count, generator):
    labels = torch.arange(count) % 3
    centers = torch.randn(3, 6, generator=generator)
    return centers[labels] + 0.4 * torch.randn(count, 6, generator=generator), labels


def objective(config, train_x, train_y, device, epochs, weight=1e-3):
    torch.manual_seed(77)
    model = JetTagger(config).to(device)
    model(train_x[:1])
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05)
    for _ in range(epochs):
        loss = F.cross_entropy(model(train_x), train_y) + weight * model.mean_bits()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item(), model.mean_bits().item()


def run_trials(trials, device, epochs):
    train_x, train_y = (each.to(device) for each in jets(48, torch.Generator().manual_seed(7)))
    return [objective(config, train_x, train_y, device, epochs) for config in trials]

# === a_backbone_asks_for_its_sequence
# thread: https://github.com/facebookresearch/esm/issues/374
# about: the bones of a protein are given, and a model scores a sequence for them and writes one of its own, letter by letter
# operation: addmm|linear|mm on cpu, cuda:0
# operands: mat1|input|.*coords.*|features, weight|mat2|.*weight.*|bias|self
# category: input-not-moved|created-without-device
# line: esm/inverse_folding/gvp_transformer.py: batch_coords, padding_mask = batch_converter([
# line: esm/inverse_folding/gvp_transformer.py: sampled_tokens = torch.full(
# line: esm/inverse_folding/gvp_transformer.py: encoder_out = self.encoder(
# repair: esm/inverse_folding/gvp_transformer.py: batch_coords, padding_mask = batch_converter([(coords, None)])[:2] -> batch_coords, padding_mask =
#   batch_converter([(coords, None)], device=next(self.parameters()).device)[:2]
# repair: esm/inverse_folding/gvp_transformer.py: sampled_tokens = torch.full((1, 1 + L), self.alphabet.mask_idx, dtype=torch.long) ->
#   sampled_tokens = torch.full((1, 1 + L), self.alphabet.mask_idx, dtype=torch.long, device=next(self.parameters()).device)
import numpy as np
import torch

from esm.data import Alphabet
from esm.inverse_folding.gvp_transformer import GVPTransformerModel
from esm.inverse_folding.util import score_sequence


def helix(residues):
    turn = np.arange(residues * 3).reshape(residues, 3) * 0.6
    return np.stack([2.3 * np.cos(turn), 2.3 * np.sin(turn), 0.5 * turn], axis=-1).astype(np.float32)


if __name__ == "__main__":
    torch.manual_seed(374)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    alphabet = Alphabet()
    model = GVPTransformerModel(alphabet, dim=16).eval()
    model.to(device)
    coords = helix(9)
    ll = score_sequence(model, alphabet, coords, "MKVLAGERT")
    sampled_seq = model.sample(coords)
    ll_sampled = score_sequence(model, alphabet, coords, sampled_seq)
    print(f"native {ll:.4f} sampled {sampled_seq} {ll_sampled:.4f}")
# --- esm/data.py
class Alphabet:
    def __init__(self):
        self.all_toks = ["<cath>", "<pad>", "<mask>"] + list("ACDEFGHIKLMNPQRSTVWY")
        self.tok_to_idx = {tok: idx for idx, tok in enumerate(self.all_toks)}
        self.padding_idx, self.mask_idx = 1, 2

    def get_idx(self, tok):
        return self.tok_to_idx[tok]

    def get_tok(self, idx):
        return self.all_toks[idx]

    def __len__(self):
        return len(self.all_toks)
# --- esm/inverse_folding/util.py
import torch
from torch.nn import functional as F


class CoordBatchConverter:
    def __init__(self, alphabet):
        self.alphabet = alphabet

    def __call__(self, raw_batch, device=None):
        """
        Args:
            raw_batch: List of tuples (coords, seq); coords is an array of shape L x 3 x 3
        """
        max_len = max(len(coords) for coords, _ in raw_batch)
        coords = torch.full((len(raw_batch), max_len, 3, 3), float("nan"), device=device)
        tokens = torch.full((len(raw_batch), max_len + 1), self.alphabet.padding_idx, device=device)
        tokens[:, 0] = self.alphabet.get_idx("<cath>")
        for row, (cd, seq) in enumerate(raw_batch):
            coords[row, :len(cd)] = torch.from_numpy(cd)
            if seq is not None:
                tokens[row, 1:len(seq) + 1] = torch.tensor([self.alphabet.get_idx(tok) for tok in seq])
        padding_mask = coords.isnan().any(dim=-1).any(dim=-1)
        return coords.nan_to_num(), padding_mask, tokens


@torch.no_grad()
def score_sequence(model, alphabet, coords, seq):
    device = next(model.parameters()).device
    batch_converter = CoordBatchConverter(alphabet)
    coords, padding_mask, tokens = batch_converter([(coords, seq)], device=device)
    logits = model(coords, padding_mask, tokens[:, :-1])
    loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], ignore_index=alphabet.padding_idx)
    return -loss.item()
# --- esm/inverse_folding/gvp_transformer.py
import torch
from torch import nn

from esm.inverse_folding.util import CoordBatchConverter


class GVPEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embed_ingraph_features = nn.Linear(9, dim)
        self.layer = nn.TransformerEncoderLayer(dim, nhead=2, dim_feedforward=2 * dim, dropout=0.0, batch_first=True)

    def forward(self, coords, padding_mask):
        centered = coords - coords.mean(dim=2, keepdim=True)
        features = self.embed_ingraph_features(centered.flatten(2))
        return self.layer(features, src_key_padding_mask=padding_mask)


class GVPTransformerModel(nn.Module):
    """A graph encoder reads coordinates, and a decoder writes a sequence from left to right."""

    def __init__(self, alphabet, dim):
        super().__init__()
        self.alphabet = alphabet
        self.encoder = GVPEncoder(dim)
        self.embed_tokens = nn.Embedding(len(alphabet), dim, padding_idx=alphabet.padding_idx)
        self.decoder = nn.GRU(2 * dim, dim, batch_first=True)
        self.output_projection = nn.Linear(dim, len(alphabet))

    def decode(self, encoder_out, prev_output_tokens):
        steps = prev_output_tokens.shape[1]
        x = torch.cat([self.embed_tokens(prev_output_tokens), encoder_out[:, :steps]], dim=-1)
        return self.output_projection(self.decoder(x)[0])

    def forward(self, coords, padding_mask, prev_output_tokens):
        return self.decode(self.encoder(coords, padding_mask), prev_output_tokens)

    @torch.no_grad()
    def sample(self, coords):
        L = len(coords)
        batch_converter = CoordBatchConverter(self.alphabet)
        batch_coords, padding_mask = batch_converter([(coords, None)])[:2]
        sampled_tokens = torch.full((1, 1 + L), self.alphabet.mask_idx, dtype=torch.long)
        sampled_tokens[0, 0] = self.alphabet.get_idx("<cath>")
        encoder_out = self.encoder(batch_coords, padding_mask)
        for i in range(1, L + 1):
            logits = self.decode(encoder_out, sampled_tokens[:, :i])[0, -1]
            logits[:3] = -torch.inf
            sampled_tokens[0, i] = logits.argmax()
        return "".join(self.alphabet.get_tok(idx) for idx in sampled_tokens[0, 1:].tolist())

# === a_step_uphill_over_two_cards
# thread: https://github.com/davda54/sam/pull/5
# about: a network whose two halves are on two cards is trained with steps that first climb to where the loss is worst nearby
# operation: stack|cat on cuda:0, cuda:1
# operands: tensors|.*norm.*|.*grad.*
# category: optimizer|module-split
# line: sam.py: p.grad.norm(p=2)
# line: sam.py: torch.stack([
# repair: sam.py: p.grad.norm(p=2) -> p.grad.norm(p=2).to(self.param_groups[0]["params"][0].device)
# repair: sam.py: e_w = p.grad * scale -> e_w = p.grad * scale.to(p)
import torch

from data.dataset import blobs
from model.wide_net import WideNet
from train import train

if __name__ == "__main__":
    torch.manual_seed(5)
    devices = [torch.device("cuda:0"), torch.device("cuda:1")]
    model = WideNet(in_features=8, width=12, labels=4, devices=devices)
    losses, accuracy = train(model, blobs(64), devices, epochs=4, rho=0.05)
    print("losses", [f"{loss:.4f}" for loss in losses], f"accuracy {accuracy:.3f}")
# --- data/dataset.py
import torch


def blobs(count, classes=4, features=8):
    generator = torch.Generator().manual_seed(11)
    centers = 1.5 * torch.randn(classes, features, generator=generator)
    targets = torch.arange(count) % classes
    inputs = centers[targets] + torch.randn(count, features, generator=generator)
    return list(zip(inputs.split(16), targets.split(16)))
# --- model/wide_net.py
from torch import nn


class WideNet(nn.Module):
    def __init__(self, in_features, width, labels, devices):
        super().__init__()
        self.devices = devices
        self.stem = nn.Sequential(nn.Linear(in_features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()).to(devices[0])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, labels)).to(devices[1])

    def forward(self, x):
        return self.head(self.stem(x).to(self.devices[1]))
# --- sam.py
import torch


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base_optimizer, rho=0.05, **kwargs):
        assert rho >= 0.0, f"Invalid rho, should be non-negative: {rho}"
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self, zero_grad=False):
        grad_norm = self._grad_norm()
        for group in self.param_groups:
            scale = group["rho"] / (grad_norm + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                e_w = p.grad * scale
                p.add_(e_w)  # climb to the local maximum "w + e(w)"
                self.state[p]["e_w"] = e_w
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad=False):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.sub_(self.state[p]["e_w"])  # get back to "w" from "w + e(w)"
        self.base_optimizer.step()
        if zero_grad:
            self.zero_grad()

    def _grad_norm(self):
        return torch.norm(
            torch.stack([
                p.grad.norm(p=2)
                for group in self.param_groups for p in group["params"]
                if p.grad is not None
            ]),
            p=2,
        )
# --- train.py
import torch
from torch.nn import functional as F

from sam import SAM


def train(model, dataset, devices, epochs, rho):
    optimizer = SAM(model.parameters(), torch.optim.SGD, rho=rho, lr=0.1, momentum=0.9)
    losses = []
    for _ in range(epochs):
        total, correct, seen = 0.0, 0, 0
        for inputs, targets in dataset:
            inputs, targets = inputs.to(devices[0]), targets.to(devices[1])
            predictions = model(inputs)
            loss = F.cross_entropy(predictions, targets, label_smoothing=0.1)
            loss.backward()
            optimizer.first_step(zero_grad=True)
            F.cross_entropy(model(inputs), targets, label_smoothing=0.1).backward()
            optimizer.second_step(zero_grad=True)
            total += loss.item()
            correct += (predictions.argmax(1) == targets).sum().item()
            seen += len(targets)
        losses.append(total / len(dataset))
    return losses, correct / seen

# === sounds_become_numbers_of_a_book
# thread: https://github.com/lucidrains/vector-quantize-pytorch/issues/37
# about: sound is encoded, each frame is replaced by the nearest entry of a codebook that is learned on the way, and sound is made of it again
# operation: _?(cdist|euclidean_dist).* on cuda:0, cpu
# operands: x1|flatten|.*flatten.*, x2|embed|.*embed.*
# error: X1 and X2 must have the same device type|device of X1|on the same device
# category: module-split|input-not-moved
# line: codec.py: self.vq = vq
# line: main.py: vq = VectorQuantize(
# repair: codec.py: self.vq = vq -> self.vq = vq.to(device)
import torch

from codec import Codec
from networks import Decoder, Encoder
from vector_quantize import VectorQuantize


def hums(count, length, generator):
    pitch = 0.1 + 0.05 * torch.arange(count)[:, None]
    return torch.sin(pitch * torch.arange(length)) + 0.02 * torch.randn(count, length, generator=generator)


if __name__ == "__main__":
    torch.manual_seed(37)
    vq = VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0)
    codec = Codec(Encoder(dim=8), vq, Decoder(dim=8), device="cuda" if torch.cuda.is_available() else "cpu")
    sounds = hums(6, 128, torch.Generator().manual_seed(3))
    losses = codec.fit(sounds, steps=12)
    codes = codec.tokenize(sounds)
    print("loss", f"{losses[0]:.4f} to {losses[-1]:.4f}", "codes", codes[0, :6].tolist(), "used", codes.unique().numel())
# --- networks.py
from torch import nn


class Encoder(nn.Module):
    def __init__(self, dim, stride=8):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, dim, stride, stride=stride), nn.ELU(), nn.Conv1d(dim, dim, 3, padding=1))

    def forward(self, sounds):
        return self.net(sounds[:, None]).transpose(1, 2)


class Decoder(nn.Module):
    def __init__(self, dim, stride=8):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(dim, dim, 3, padding=1), nn.ELU(), nn.ConvTranspose1d(dim, 1, stride, stride=stride))

    def forward(self, quantized):
        return self.net(quantized.transpose(1, 2))[:, 0]
# --- vector_quantize.py
import torch
from torch import nn
from torch.nn import functional as F


class VectorQuantize(nn.Module):
    def __init__(self, dim, codebook_size, decay=0.8, commitment_weight=1.0, eps=1e-5):
        super().__init__()
        self.decay, self.eps = decay, eps
        self.commitment_weight = commitment_weight
        embed = 0.3 * torch.randn(codebook_size, dim)
        self.register_buffer("embed", embed)
        self.register_buffer("embed_avg", embed.clone())
        self.register_buffer("cluster_size", torch.ones(codebook_size))

    def update_codebook(self, flatten, embed_ind):
        embed_onehot = F.one_hot(embed_ind, len(self.embed)).to(flatten.dtype)
        self.cluster_size.lerp_(embed_onehot.sum(0), 1 - self.decay)
        self.embed_avg.lerp_(embed_onehot.t() @ flatten, 1 - self.decay)
        total = self.cluster_size.sum()
        smoothed = (self.cluster_size + self.eps) / (total + len(self.embed) * self.eps) * total
        self.embed.copy_(self.embed_avg / smoothed[:, None])

    def forward(self, x):
        flatten = x.reshape(-1, x.shape[-1])
        dist = -torch.cdist(flatten, self.embed, p=2)
        embed_ind = dist.argmax(dim=-1)
        quantize = F.embedding(embed_ind, self.embed).view_as(x)
        commit_loss = self.commitment_weight * F.mse_loss(quantize.detach(), x)
        if self.training:
            self.update_codebook(flatten.detach(), embed_ind)
            quantize = x + (quantize - x).detach()
        return quantize, embed_ind.view(x.shape[:-1]), commit_loss
# --- codec.py
import itertools

import torch
from torch.nn import functional as F


class Codec:
    def __init__(self, encoder, vq, decoder, device):
        self.device = device
        self.encoder = encoder.to(device)
        self.vq = vq
        self.decoder = decoder.to(device)

    def fit(self, sounds, steps):
        parameters = itertools.chain(self.encoder.parameters(), self.decoder.parameters())
        optimizer = torch.optim.Adam(parameters, lr=1e-2)
        sounds, losses = sounds.to(self.device), []
        for _ in range(steps):
            quantized, _, commit_loss = self.vq(self.encoder(sounds))
            loss = F.mse_loss(self.decoder(quantized), sounds) + commit_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    @torch.no_grad()
    def tokenize(self, sounds):
        self.vq.eval()
        return self.vq(self.encoder(sounds.to(self.device)))[1].cpu()

# === normals_under_many_lights
# thread: https://github.com/bbrument/RNb-NeuS/pull/1
# about: normals and colors of pictures are turned into pictures under several lights, and a surface is fitted to rays through pixels drawn at random
# operation: index on cpu, cuda:0
# operands: self|.*normals.*|.*images.*, indices|index|pixels_[xy]
# error: indices should be either on cpu or on the same device
# category: input-not-moved|created-without-device
# line: models/dataset.py: normal = self.normals[img_idx]
# line: models/dataset.py: albedo = self.albedos[img_idx]
# line: models/dataset.py: mask = self.masks[img_idx]
# line: models/dataset.py: self.normals = torch.from_numpy(
# line: models/dataset.py: self.albedos = torch.from_numpy(
# line: models/dataset.py: self.masks = torch.from_numpy(
# repair: models/dataset.py: normal = self.normals[img_idx][(pixels_y, pixels_x)].to(self.device) -> normal = self.normals[img_idx][(pixels_y.cpu(),
#   pixels_x.cpu())].to(self.device)
# repair: models/dataset.py: albedo = self.albedos[img_idx][(pixels_y, pixels_x)].to(self.device) -> albedo = self.albedos[img_idx][(pixels_y.cpu(),
#   pixels_x.cpu())].to(self.device)
# repair: models/dataset.py: mask = self.masks[img_idx][(pixels_y, pixels_x)].to(self.device) -> mask = self.masks[img_idx][(pixels_y.cpu(),
#   pixels_x.cpu())].to(self.device)
import torch

from exp_runner import Runner

if __name__ == "__main__":
    torch.manual_seed(1)
    conf = {"n_images": 3, "side": 20, "batch_size": 32, "end_iter": 10, "learning_rate": 1e-2, "mask_weight": 0.1}
    runner = Runner(conf)
    losses = runner.train_rnb()
    print("losses", [f"{loss:.4f}" for loss in losses[::3]])
# --- models/dataset.py
import numpy as np
import torch


def sphere(side, angle):
    """A ball seen from the front: normals, colors that turn with the angle, and where the ball is."""
    y, x = np.mgrid[-1:1:side * 1j, -1:1:side * 1j]
    mask = x ** 2 + y ** 2 < 0.8
    z = np.sqrt(np.clip(0.8 - x ** 2 - y ** 2, 0, None))
    normal = np.stack([x, y, z], axis=-1) / np.sqrt(0.8) * mask[..., None]
    albedo = 0.5 + 0.4 * np.sin(np.stack([3 * x + angle, 3 * y, x + y + angle], axis=-1))
    return normal.astype(np.float32), albedo.astype(np.float32), mask.astype(np.float32)


class Dataset:
    def __init__(self, conf):
        self.device = torch.device("cuda")
        self.n_images = conf["n_images"]
        views = [sphere(conf["side"], angle) for angle in np.linspace(0, 2, self.n_images)]
        self.normals = torch.from_numpy(np.stack([view[0] for view in views]))  # [n_images, H, W, 3]
        self.albedos = torch.from_numpy(np.stack([view[1] for view in views]))
        self.masks = torch.from_numpy(np.stack([view[2] for view in views]))[..., None]
        self.H, self.W = conf["side"], conf["side"]
        intrinsics = torch.tensor([[self.W, 0, self.W / 2], [0, self.H, self.H / 2], [0, 0, 1]])
        self.intrinsics_inv = torch.inverse(intrinsics).to(self.device)
        angles = torch.linspace(0, 1, self.n_images)
        self.light_directions = torch.stack([angles.sin(), angles.cos() * 0.5, angles.cos()], dim=-1).to(self.device)

    def gen_random_rays_at(self, img_idx, batch_size):
        """Generate random rays at world space from one camera."""
        pixels_x = torch.randint(low=0, high=self.W, size=[batch_size], device=self.device)
        pixels_y = torch.randint(low=0, high=self.H, size=[batch_size], device=self.device)
        normal = self.normals[img_idx][(pixels_y, pixels_x)].to(self.device)
        albedo = self.albedos[img_idx][(pixels_y, pixels_x)].to(self.device)
        mask = self.masks[img_idx][(pixels_y, pixels_x)].to(self.device)
        p = torch.stack([pixels_x, pixels_y, torch.ones_like(pixels_y)], dim=-1).float()
        p = torch.matmul(self.intrinsics_inv, p[:, :, None]).squeeze(-1)
        rays_v = p / torch.linalg.norm(p, ord=2, dim=-1, keepdim=True)
        return torch.cat([rays_v, albedo, normal, mask], dim=-1)

    def shade(self, albedo, normal):
        """Colors under each of the lights, [batch, lights, 3]."""
        cosine = torch.relu(normal @ self.light_directions.t())
        return albedo[:, None] * cosine[..., None]
# --- models/fields.py
import torch
from torch import nn


class RenderingNetwork(nn.Module):
    def __init__(self, d_hidden=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, d_hidden), nn.Softplus(beta=10), nn.Linear(d_hidden, d_hidden), nn.Softplus(beta=10))
        self.albedo, self.normal, self.weight = nn.Linear(d_hidden, 3), nn.Linear(d_hidden, 3), nn.Linear(d_hidden, 1)

    def forward(self, rays_v):
        hidden = self.layers(rays_v)
        normal = nn.functional.normalize(self.normal(hidden), dim=-1)
        return torch.sigmoid(self.albedo(hidden)), normal, torch.sigmoid(self.weight(hidden))
# --- exp_runner.py
import torch
from torch.nn import functional as F

from models.dataset import Dataset
from models.fields import RenderingNetwork


class Runner:
    def __init__(self, conf):
        self.conf = conf
        self.device = torch.device("cuda")
        self.dataset = Dataset(conf)
        self.color_network = RenderingNetwork().to(self.device)
        self.optimizer = torch.optim.Adam(self.color_network.parameters(), lr=conf["learning_rate"])

    def train_rnb(self):
        losses = []
        for iter_i in range(self.conf["end_iter"]):
            data = self.dataset.gen_random_rays_at(iter_i % self.dataset.n_images, self.conf["batch_size"])
            rays_v, true_albedo, true_normal, mask = data.split([3, 3, 3, 1], dim=-1)
            albedo, normal, weight = self.color_network(rays_v)
            error = (self.dataset.shade(albedo, normal) - self.dataset.shade(true_albedo, true_normal)) * mask[..., None]
            loss = error.abs().sum() / (mask.sum() + 1e-5) + self.conf["mask_weight"] * F.binary_cross_entropy(weight, mask)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses

# === piano_transcribed_without_the_card
# thread: https://github.com/jongwook/onsets-and-frames/issues/21
# about: a recording of a piano becomes notes: a spectrogram is made by convolutions, and a network says when keys are struck and how long they sound
# operation: conv|convolution|_convolution|conv1d on cpu, cuda:0
# operands: input|.*input_data.*|y, weight|.*forward_basis.*
# error: Input type \(torch.FloatTensor\) and weight type \(torch.cuda.FloatTensor\) should be the same|on the same device
# category: default-or-current-device|module-split|input-not-moved
# line: transcribe.py: mel = melspectrogram(
# line: onsets_and_frames/mel.py: melspectrogram.to(DEFAULT_DEVICE)
# line: onsets_and_frames/constants.py: DEFAULT_DEVICE =
# line: main.py: parser.add_argument("--device",
# repair: transcribe.py: mel = melspectrogram(audio.reshape(-1, audio.shape[-1])[:, :-1]).transpose(-1, -2) -> mel =
#   melspectrogram.to(audio.device)(audio.reshape(-1, audio.shape[-1])[:, :-1]).transpose(-1, -2)
import argparse

from transcribe import transcribe_file

parser = argparse.ArgumentParser()
parser.add_argument("--onset-threshold", default=0.5, type=float)
parser.add_argument("--frame-threshold", default=0.5, type=float)
parser.add_argument("--device", default="cpu")

if __name__ == "__main__":
    notes, total = transcribe_file(**vars(parser.parse_args()))
    print("notes", notes[:4], f"of {len(notes)}, frames {total:.4f}")
# --- onsets_and_frames/constants.py
import torch

SAMPLE_RATE = 2000
HOP_LENGTH = 64
WINDOW_LENGTH = 256
N_MELS = 16
N_KEYS = 12
DEFAULT_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# --- onsets_and_frames/mel.py
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from onsets_and_frames.constants import DEFAULT_DEVICE, HOP_LENGTH, N_MELS, WINDOW_LENGTH


class STFT(nn.Module):
    """adapted from Prem Seetharaman's: sines and cosines are the filters of a convolution"""

    def __init__(self, filter_length, hop_length):
        super().__init__()
        self.filter_length, self.hop_length = filter_length, hop_length
        fourier_basis = np.fft.fft(np.eye(filter_length))[:filter_length // 2 + 1]
        fourier_basis = np.vstack([fourier_basis.real, fourier_basis.imag]) * np.hanning(filter_length)
        self.register_buffer("forward_basis", torch.tensor(fourier_basis[:, None], dtype=torch.float32))

    def forward(self, input_data):
        input_data = F.pad(input_data[:, None], (self.filter_length // 2,) * 2, mode="reflect")
        transform = F.conv1d(input_data, self.forward_basis, stride=self.hop_length, padding=0)
        real, imaginary = transform.chunk(2, dim=1)
        return torch.sqrt(real ** 2 + imaginary ** 2)


class MelSpectrogram(nn.Module):
    def __init__(self, n_mels, filter_length, hop_length):
        super().__init__()
        self.stft = STFT(filter_length, hop_length)
        centers = torch.linspace(0, filter_length // 4, n_mels)[:, None]
        self.register_buffer("mel_basis", torch.relu(1 - (torch.arange(filter_length // 2 + 1) - centers).abs() / 5))

    def forward(self, y):
        magnitudes = self.stft(y)
        return torch.log(torch.clamp(torch.matmul(self.mel_basis, magnitudes), min=1e-5))


melspectrogram = MelSpectrogram(N_MELS, WINDOW_LENGTH, HOP_LENGTH)
melspectrogram.to(DEFAULT_DEVICE)
# --- onsets_and_frames/transcriber.py
import torch
from torch import nn

from onsets_and_frames.constants import N_KEYS, N_MELS


class OnsetsAndFrames(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.onset_stack = nn.GRU(N_MELS, width, batch_first=True, bidirectional=True)
        self.onset_head = nn.Linear(2 * width, N_KEYS)
        self.frame_head = nn.Linear(N_MELS + N_KEYS, N_KEYS)

    def forward(self, mel):
        onset_pred = torch.sigmoid(self.onset_head(self.onset_stack(mel)[0]))
        frame_pred = torch.sigmoid(self.frame_head(torch.cat([mel, onset_pred], dim=-1)))
        return onset_pred, frame_pred
# --- transcribe.py
import torch

from onsets_and_frames.constants import SAMPLE_RATE
from onsets_and_frames.mel import melspectrogram
from onsets_and_frames.transcriber import OnsetsAndFrames


def load_audio(seconds=1.0):
    time = torch.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    first, second = torch.sin(6.2832 * 220 * time), torch.sin(6.2832 * 330 * time)
    return torch.where(time < 0.5, first, second) * torch.exp(-3 * (time % 0.5))


def transcribe(model, audio):
    mel = melspectrogram(audio.reshape(-1, audio.shape[-1])[:, :-1]).transpose(-1, -2)
    onset_pred, frame_pred = model(mel)
    return onset_pred[0], frame_pred[0]


def extract_notes(onsets, frames, onset_threshold, frame_threshold):
    struck = onsets > onset_threshold
    struck[1:] &= ~struck[:-1].clone()
    return [(frame, key) for frame, key in struck.nonzero().tolist() if frames[frame, key] > frame_threshold]


@torch.no_grad()
def transcribe_file(device, onset_threshold, frame_threshold):
    torch.manual_seed(21)
    model = OnsetsAndFrames().to(device).eval()
    onsets, frames = transcribe(model, load_audio().to(device))
    return extract_notes(onsets, frames, onset_threshold, frame_threshold), frames.sum().item()
