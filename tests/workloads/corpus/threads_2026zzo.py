# === where_a_hand_would_touch_it
# thread: https://github.com/yyvhang/IAGNet/issues/4
# about: a network finds the part of a cloud of points that a hand would touch, from a picture of somebody who does.
#   A second run goes on from the best of the first
# operation: lerp|mul|add|addcmul on cpu, cuda:0
# operands: .*exp_avg.*|state|self, .*grad.*|end|other|tensors1
# category: optimizer|checkpoint
# line: train.py: model = model.to(device)
# line: train.py: optimizer.load_state_dict(
# line: train.py: model = get_IAGNet(
# line: train.py: model.load_state_dict(
# repair: train.py: model = get_IAGNet(N_p=opt.N_p, emb_dim=opt.emb_dim) -> model = get_IAGNet(N_p=opt.N_p, emb_dim=opt.emb_dim).to(device)
import argparse
import os
import tempfile

import train

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--Epoch", type=int, default=3)
parser.add_argument("--N_p", type=int, default=24)
parser.add_argument("--emb_dim", type=int, default=12)
parser.add_argument("--resume", action="store_true")
parser.add_argument("--checkpoint_path", type=str, default="best_seen.pt")

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as runs:
        path = ["--checkpoint_path", os.path.join(runs, "best_seen.pt")]
        first = train.main(parser.parse_args(path))
        second = train.main(parser.parse_args(path + ["--resume", "--Epoch", "6"]))
    print("loss", [f"{loss:.4f}" for loss in first + second])
# --- data_utils/dataset.py
import torch
from torch.utils.data import Dataset


class PIAD(Dataset):
    """Pictures, points, and how much each point is touched."""

    def __init__(self, num=12, n_points=24):
        generator = torch.Generator().manual_seed(5)
        self.points = torch.randn(num, 3, n_points, generator=generator)
        self.imgs = torch.rand(num, 3, 8, 8, generator=generator)
        self.labels = torch.arange(num) % 3
        height = self.points[:, 1] - self.labels[:, None] + 1
        self.gts = torch.sigmoid(2.0 * height)

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return self.imgs[index], self.points[index], self.gts[index], self.labels[index]
# --- model/iagnet.py
import torch
from torch import nn


class Cross_Attention(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()
        self.proj_q = nn.Linear(emb_dim, emb_dim)
        self.proj_k = nn.Linear(emb_dim, emb_dim)
        self.layernorm = nn.LayerNorm(emb_dim)

    def forward(self, obj, scene):
        att = torch.softmax(self.proj_q(obj) @ self.proj_k(scene).transpose(1, 2), dim=-1)
        return self.layernorm(obj + att @ scene)


class IAG(nn.Module):
    def __init__(self, N_p, emb_dim, num_affordance=3):
        super().__init__()
        self.N_p = N_p
        self.img_encoder = nn.Sequential(nn.Conv2d(3, emb_dim, 4, stride=4), nn.ReLU(), nn.Flatten(2))
        self.point_encoder = nn.Sequential(nn.Conv1d(3, emb_dim, 1), nn.ReLU())
        self.ARM = Cross_Attention(emb_dim)
        self.out_head = nn.Sequential(nn.Linear(emb_dim, emb_dim), nn.ReLU(), nn.Linear(emb_dim, 1), nn.Sigmoid())
        self.cls_head = nn.Linear(emb_dim, num_affordance)

    def forward(self, img, xyz):
        F_I = self.img_encoder(img).transpose(1, 2)
        F_P = self.point_encoder(xyz).transpose(1, 2)
        joint = self.ARM(F_P, F_I)
        return self.out_head(joint).squeeze(-1), self.cls_head(joint.mean(dim=1))


def get_IAGNet(N_p, emb_dim):
    torch.manual_seed(42)
    return IAG(N_p, emb_dim)
# --- utils/loss.py
from torch import nn


class HM_Loss(nn.Module):
    def __init__(self, gamma=2.0):
        super().__init__()
        self.gamma = gamma

    def forward(self, pred, target):
        temp1 = -(1 - pred).pow(self.gamma) * target * (pred + 1e-6).log()
        temp2 = -pred.pow(self.gamma) * (1 - target) * (1 - pred + 1e-6).log()
        overlap = (pred * target).sum(1) / (pred + target).sum(1)
        return (temp1 + temp2).mean() + (1 - 2 * overlap).mean()
# --- train.py
import torch
from torch import nn
from torch.utils.data import DataLoader

from data_utils.dataset import PIAD
from model.iagnet import get_IAGNet
from utils.loss import HM_Loss


def main(opt):
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    train_loader = DataLoader(PIAD(n_points=opt.N_p), batch_size=4)

    model = get_IAGNet(N_p=opt.N_p, emb_dim=opt.emb_dim)
    criterion_hm, criterion_ce = HM_Loss(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=opt.lr, betas=(0.9, 0.999), weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)

    start_epoch = 0
    if opt.resume:
        model_checkpoint = torch.load(opt.checkpoint_path, map_location="cpu")
        model.load_state_dict(model_checkpoint["model"])
        optimizer.load_state_dict(model_checkpoint["optimizer"])
        scheduler.load_state_dict(model_checkpoint["scheduler"])
        start_epoch = model_checkpoint["Epoch"]

    model = model.to(device)

    losses = []
    for epoch in range(start_epoch, opt.Epoch):
        loss_sum = 0.0
        for img, points, gts, labels in train_loader:
            optimizer.zero_grad()
            img, points, gts, labels = (each.to(device) for each in (img, points, gts, labels))
            _3d, logits = model(img, points)
            loss = criterion_hm(_3d, gts) + 0.3 * criterion_ce(logits, labels)
            loss.backward()
            optimizer.step()
            loss_sum += loss.item()
        scheduler.step()
        losses.append(loss_sum / len(train_loader))
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "Epoch": epoch + 1},
            opt.checkpoint_path,
        )
    return losses

# === things_and_how_they_stand_to_each_other
# thread: https://github.com/YiwuZhong/Sub-GC/issues/15
# about: a caption is made from the part of a scene graph it speaks of.
#   Each picture has another number of things in it, and the things are read as a sequence
# operation: pack_padded_sequence on cuda:0
# operands: lengths|sorted_lengths
# error: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor
# category: input
# line: models/AttModel.py: tmp = pack_padded_sequence(
# line: models/AttModel.py: sorted_lengths, indices = torch.sort(
# line: models/AttModel.py: packed, inv_ix = sort_pack_padded_sequence(
# repair: models/AttModel.py: tmp = pack_padded_sequence(input[indices], sorted_lengths, batch_first=True) -> tmp =
#   pack_padded_sequence(input[indices], sorted_lengths.cpu(), batch_first=True)
import torch

from dataloader import DataLoader
from misc.loss_wrapper import LossWrapper
from models.AttModel import AttModel

if __name__ == "__main__":
    torch.manual_seed(123)
    loader = DataLoader(batch_size=4, vocab_size=10)
    model = AttModel(vocab_size=10, input_size=8, rnn_size=16).cuda()
    lw_model = LossWrapper(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for iteration in range(6):
        data = loader.get_batch("train")
        tmp = [data["att_feats"], data["labels"], data["masks"], data["att_masks"]]
        fc_feats, labels, masks, att_masks = [_.cuda() for _ in tmp]
        optimizer.zero_grad()
        loss = lw_model(fc_feats, labels, masks, att_masks)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    print(f"iter {iteration}, train_loss = {loss.item():.4f}")
# --- dataloader.py
import numpy as np
import torch


class DataLoader:
    def __init__(self, batch_size, vocab_size, seq_length=5, max_nodes=6):
        self.batch_size, self.vocab_size = batch_size, vocab_size
        self.seq_length, self.max_nodes = seq_length, max_nodes
        self.rng = np.random.RandomState(7)

    def get_batch(self, split):
        assert split in ("train", "val")
        nodes = self.rng.randint(2, self.max_nodes + 1, self.batch_size)
        words = self.rng.randint(2, self.seq_length + 1, self.batch_size)
        att_feats = np.zeros((self.batch_size, self.max_nodes, 8), dtype="float32")
        att_masks = np.zeros((self.batch_size, self.max_nodes), dtype="float32")
        labels = np.zeros((self.batch_size, self.seq_length + 1), dtype="int64")
        masks = np.zeros((self.batch_size, self.seq_length), dtype="float32")
        for i, (n, w) in enumerate(zip(nodes, words)):
            att_feats[i, :n] = self.rng.normal(size=(n, 8))
            att_masks[i, :n] = 1
            labels[i, 1:w + 1] = 1 + (n + np.arange(w)) % (self.vocab_size - 1)
            masks[i, :w] = 1
        data = {"att_feats": att_feats, "att_masks": att_masks, "labels": labels, "masks": masks}
        return {k: torch.from_numpy(v) for k, v in data.items()}
# --- misc/loss_wrapper.py
from torch import nn


class LanguageModelCriterion(nn.Module):
    def forward(self, input, target, mask):
        output = -input.gather(2, target.unsqueeze(2)).squeeze(2) * mask
        return output.sum() / mask.sum()


class LossWrapper(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.crit = LanguageModelCriterion()

    def forward(self, att_feats, labels, masks, att_masks):
        return self.crit(self.model(att_feats, labels, att_masks), labels[:, 1:], masks)
# --- models/AttModel.py
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


def sort_pack_padded_sequence(input, lengths):
    sorted_lengths, indices = torch.sort(lengths, descending=True)
    tmp = pack_padded_sequence(input[indices], sorted_lengths, batch_first=True)
    inv_ix = indices.clone()
    inv_ix[indices] = torch.arange(0, len(indices)).type_as(inv_ix)
    return tmp, inv_ix


def pad_unsort_packed_sequence(input, inv_ix):
    tmp, _ = pad_packed_sequence(input, batch_first=True)
    return tmp[inv_ix]


def pack_wrapper(module, att_feats, att_masks):
    """Runs the module on what is not padding."""
    if att_masks is None:
        return module(att_feats)
    packed, inv_ix = sort_pack_padded_sequence(att_feats, att_masks.data.long().sum(1))
    return pad_unsort_packed_sequence(PackedSequence(module(packed[0]), packed[1]), inv_ix)


class AttModel(nn.Module):
    def __init__(self, vocab_size, input_size, rnn_size):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, rnn_size)
        self.att_embed = nn.Sequential(nn.Linear(input_size, rnn_size), nn.ReLU())
        self.ctx2att = nn.Linear(rnn_size, rnn_size)
        self.core = nn.LSTMCell(2 * rnn_size, rnn_size)
        self.logit = nn.Linear(rnn_size, vocab_size)

    def _prepare_feature(self, att_feats, att_masks):
        longest = int(att_masks.sum(1).max())
        att_feats, att_masks = att_feats[:, :longest], att_masks[:, :longest]
        att_feats = pack_wrapper(self.att_embed, att_feats, att_masks)
        return att_feats, self.ctx2att(att_feats), att_masks

    def attend(self, h, att_feats, p_att_feats, att_masks):
        weight = torch.softmax((p_att_feats * h.unsqueeze(1)).sum(2), dim=1) * att_masks
        weight = weight / weight.sum(1, keepdim=True)
        return torch.bmm(weight.unsqueeze(1), att_feats).squeeze(1)

    def forward(self, att_feats, seq, att_masks):
        att_feats, p_att_feats, att_masks = self._prepare_feature(att_feats, att_masks)
        state = (att_feats.mean(1), att_feats.new_zeros(len(att_feats), att_feats.size(2)))
        outputs = []
        for i in range(seq.size(1) - 1):
            att_res = self.attend(state[0], att_feats, p_att_feats, att_masks)
            state = self.core(torch.cat([self.embed(seq[:, i]), att_res], 1), state)
            outputs.append(F.log_softmax(self.logit(state[0]), dim=1))
        return torch.stack(outputs, 1)

# === a_norm_that_adds_first
# thread: https://github.com/state-spaces/mamba/pull/103
# about: the norm of each block adds the residual before, in one kernel for both, and keeps mean and deviation of each row for the way back
# operation: sub|mul on cuda:1, cuda:0
# operands: x|.*RESIDUAL_OUT.*|self, mean|other|.*Mean.*
# category: default-or-current-device|created-without-device
# line: mamba_ssm/ops/layernorm.py: mean = torch.empty((M,), dtype=torch.float32, device="cuda")
# line: mamba_ssm/ops/layernorm.py: rstd = torch.empty((M,), dtype=torch.float32, device="cuda")
# line: benchmark.py: device = "cuda:1"
# line: mamba_ssm/ops/layernorm.py: x_hat = (RESIDUAL_OUT[rows]
# repair: mamba_ssm/ops/layernorm.py: mean = torch.empty((M,), dtype=torch.float32, device="cuda") -> mean = torch.empty((M,), dtype=torch.float32,
#   device=x.device)
# repair: mamba_ssm/ops/layernorm.py: rstd = torch.empty((M,), dtype=torch.float32, device="cuda") -> rstd = torch.empty((M,), dtype=torch.float32,
#   device=x.device)
from benchmark import run

if __name__ == "__main__":
    losses = run(batch=3, seqlen=8, steps=4)
    print("losses", " ".join(f"{loss:.4f}" for loss in losses))
# --- benchmark.py
import torch
import torch.nn.functional as F

from mamba_ssm.models.mixer_seq_simple import MixerModel


def run(batch, seqlen, steps):
    device = "cuda:1"
    torch.manual_seed(0)
    model = MixerModel(d_model=16, n_layer=2, vocab_size=11).to(device)
    input_ids = (torch.arange(batch)[:, None] + 2 * torch.arange(seqlen + 1)) % 11
    input_ids = input_ids.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    losses = []
    for _ in range(steps):
        logits = model(input_ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), input_ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
# --- mamba_ssm/ops/layernorm.py
import torch

BLOCK_M = 8


def _layer_norm_fwd_1pass_kernel(X, Y, W, B, RESIDUAL, RESIDUAL_OUT, Mean, Rstd, eps):
    """What the kernel does to its blocks of rows, one after the other."""
    for start in range(0, len(X), BLOCK_M):
        rows = slice(start, start + BLOCK_M)
        RESIDUAL_OUT[rows] = X[rows] if RESIDUAL is None else X[rows] + RESIDUAL[rows]
        Mean[rows] = RESIDUAL_OUT[rows].mean(dim=1)
        Rstd[rows] = torch.rsqrt(RESIDUAL_OUT[rows].var(dim=1, unbiased=False) + eps)
        x_hat = (RESIDUAL_OUT[rows] - Mean[rows, None]) * Rstd[rows, None]
        Y[rows] = x_hat * W + B


def _layer_norm_fwd(x, weight, bias, eps, residual=None):
    M, N = x.shape
    assert weight.shape == (N,) and bias.shape == (N,)
    y = torch.empty_like(x)
    residual_out = torch.empty_like(x)
    mean = torch.empty((M,), dtype=torch.float32, device="cuda")
    rstd = torch.empty((M,), dtype=torch.float32, device="cuda")
    _layer_norm_fwd_1pass_kernel(x, y, weight, bias, residual, residual_out, mean, rstd, eps)
    return y, mean, rstd, residual_out


def _layer_norm_bwd(dy, x, weight, mean, rstd, dresidual):
    x_hat = (x - mean[:, None]) * rstd[:, None]
    wdy = dy * weight
    c1 = (x_hat * wdy).mean(dim=1, keepdim=True)
    c2 = wdy.mean(dim=1, keepdim=True)
    dx = (wdy - (x_hat * c1 + c2)) * rstd[:, None] + dresidual
    return dx, (dy * x_hat).sum(dim=0), dy.sum(dim=0)


class LayerNormFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, residual, eps):
        shape = x.shape
        rows = None if residual is None else residual.reshape(-1, shape[-1])
        y, mean, rstd, residual_out = _layer_norm_fwd(x.reshape(-1, shape[-1]), weight, bias, eps, rows)
        ctx.save_for_backward(residual_out, weight, mean, rstd)
        ctx.shape, ctx.has_residual = shape, residual is not None
        return y.reshape(shape), residual_out.reshape(shape).clone()

    @staticmethod
    def backward(ctx, dy, dresidual):
        x, weight, mean, rstd = ctx.saved_tensors
        dy, dresidual = dy.reshape(x.shape), dresidual.reshape(x.shape)
        dx, dw, db = _layer_norm_bwd(dy, x, weight, mean, rstd, dresidual)
        dx = dx.reshape(ctx.shape)
        return dx, dw, db, dx if ctx.has_residual else None, None


def layer_norm_fn(x, weight, bias, residual=None, eps=1e-5):
    return LayerNormFn.apply(x, weight, bias, residual, eps)
# --- mamba_ssm/models/mixer_seq_simple.py
import torch
from torch import nn

from mamba_ssm.ops.layernorm import layer_norm_fn


class Mixer(nn.Module):
    """A scan with a decay for each channel, and a gate."""

    def __init__(self, d_model):
        super().__init__()
        self.in_proj = nn.Linear(d_model, 2 * d_model)
        self.decay = nn.Parameter(torch.linspace(-1.0, 2.0, d_model))
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, hidden_states):
        x, z = self.in_proj(hidden_states).chunk(2, dim=-1)
        state, ys = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            state = torch.sigmoid(self.decay) * state + x[:, t]
            ys.append(state)
        return self.out_proj(torch.stack(ys, dim=1) * nn.functional.silu(z))


class Block(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.mixer = Mixer(d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, hidden_states, residual=None):
        hidden_states, residual = layer_norm_fn(hidden_states, self.norm.weight, self.norm.bias, residual, self.norm.eps)
        return self.mixer(hidden_states), residual


class MixerModel(nn.Module):
    def __init__(self, d_model, n_layer, vocab_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.layers = nn.ModuleList(Block(d_model) for _ in range(n_layer))
        self.norm_f = nn.LayerNorm(d_model)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, input_ids):
        hidden_states, residual = self.embedding(input_ids), None
        for layer in self.layers:
            hidden_states, residual = layer(hidden_states, residual)
        hidden_states, _ = layer_norm_fn(hidden_states, self.norm_f.weight, self.norm_f.bias, residual, self.norm_f.eps)
        return self.lm_head(hidden_states)

# === a_face_kept_over_two_pictures
# thread: https://github.com/sipie800/ComfyUI-PuLID-Flux-Enhanced/issues/35
# about: attention to a face is built into a model that draws.
#   A manager brings the weights onto the card for each run, and off it again
# operation: layer_norm on cuda:0, cpu
# operands: .*weight|.*bias|weight|bias|norm1.*
# category: module-split|state-not-registered|cached-state
# line: pulidflux.py: img = img + node_data["weight"] * ca(
# line: comfy/model_patcher.py: for module in self.modules:
# line: comfy/model_patcher.py: self.modules = [
# line: comfy/model_patcher.py: self.model.to(self.offload_device)
# line: pulidflux.py: self.pulid_ca.to(device)
# line: pulidflux.py: flux_model.pulid_ca = self.pulid_ca
# repair: pulidflux.py: img = img + node_data["weight"] * ca(node_data["embedding"], img) -> img = img + node_data["weight"] *
#   ca.to(img.device)(node_data["embedding"], img)
import torch

from comfy.flux import Flux
from comfy.model_patcher import ModelPatcher
from comfy.samplers import KSampler
from pulidflux import ApplyPulidFlux, PulidFluxModel

if __name__ == "__main__":
    torch.manual_seed(35)
    model = ModelPatcher(Flux(width=16, depth=4), load_device=torch.device("cuda:0"), offload_device=torch.device("cpu"))
    pulid = PulidFluxModel(dim=16, num_ca=2)
    face = torch.randn(1, 5, 16)
    model = ApplyPulidFlux().apply(model, pulid, face, weight=0.8)
    sums = []
    for seed in (1, 2):
        latent = KSampler(steps=3).sample(model, seed=seed, size=6)
        sums.append(latent.abs().mean().item())
    print("latents", [f"{each:.4f}" for each in sums])
# --- comfy/flux.py
import torch
from torch import nn


class DoubleStreamBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.img_norm = nn.LayerNorm(width)
        self.img_mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, img, vec):
        return img + self.img_mlp(self.img_norm(img) + vec[:, None])


class Flux(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.time_in = nn.Linear(1, width)
        self.double_blocks = nn.ModuleList(DoubleStreamBlock(width) for _ in range(depth))
        self.final_layer = nn.Linear(width, width)

    def forward_orig(self, img, timesteps):
        vec = torch.tanh(self.time_in(timesteps[:, None]))
        for block in self.double_blocks:
            img = block(img, vec)
        return self.final_layer(img)

    def forward(self, img, timesteps):
        return self.forward_orig(img, timesteps)
# --- comfy/model_patcher.py
import torch


class ModelPatcher:
    """Knows where the weights of a model are wanted while it runs, and where else."""

    def __init__(self, model, load_device, offload_device):
        self.model = model
        self.load_device, self.offload_device = load_device, offload_device
        self.modules = [module for module in model.modules() if any(True for _ in module.parameters(recurse=False))]

    def load(self):
        for module in self.modules:
            module.to(self.load_device)
        return self.model

    def unload(self):
        self.model.to(self.offload_device)
        torch.cuda.empty_cache()
# --- comfy/samplers.py
import torch


class KSampler:
    def __init__(self, steps):
        self.steps = steps

    @torch.no_grad()
    def sample(self, patcher, seed, size):
        noise = torch.randn(1, size, 16, generator=torch.Generator().manual_seed(seed))
        diffusion_model = patcher.load()
        x = noise.to(patcher.load_device)
        for step in range(self.steps):
            sigma = torch.full((1,), 1.0 - step / self.steps, device=x.device)
            x = x - diffusion_model(x, sigma) / self.steps
        samples = x.cpu()
        patcher.unload()
        return samples
# --- pulidflux.py
import types

import torch
from torch import nn


class PerceiverAttentionCA(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, latents):
        x = self.norm1(x)
        latents = self.norm2(latents)
        k, v = self.to_kv(x).chunk(2, dim=-1)
        weight = torch.softmax(self.to_q(latents) @ k.transpose(-2, -1) / k.shape[-1] ** 0.5, dim=-1)
        return self.to_out(weight @ v)


def forward_orig(self, img, timesteps):
    vec = torch.tanh(self.time_in(timesteps[:, None]))
    ca_idx = 0
    for i, block in enumerate(self.double_blocks):
        img = block(img, vec)
        if i % self.pulid_double_interval == 0:
            ca = self.pulid_ca[ca_idx]
            for node_data in self.pulid_data.values():
                img = img + node_data["weight"] * ca(node_data["embedding"], img)
            ca_idx += 1
    return self.final_layer(img)


class PulidFluxModel(nn.Module):
    def __init__(self, dim, num_ca, double_interval=2):
        super().__init__()
        self.double_interval = double_interval
        self.pulid_encoder = nn.Linear(dim, dim)
        self.pulid_ca = nn.ModuleList(PerceiverAttentionCA(dim) for _ in range(num_ca))

    @torch.no_grad()
    def get_embeds(self, face_embed):
        return torch.nn.functional.normalize(self.pulid_encoder(face_embed), dim=-1)

    def attach(self, flux_model, device):
        self.pulid_ca.to(device)
        flux_model.pulid_ca = self.pulid_ca
        flux_model.pulid_double_interval = self.double_interval
        flux_model.pulid_data = {}
        flux_model.forward_orig = types.MethodType(forward_orig, flux_model)


class ApplyPulidFlux:
    def apply(self, model, pulid_flux, face_embed, weight):
        device = model.load_device
        pulid_flux.attach(model.model, device)
        embedding = pulid_flux.get_embeds(face_embed).to(device)
        model.model.pulid_data[id(self)] = {"weight": weight, "embedding": embedding}
        return model

# === what_was_read_so_far_is_put_away
# thread: https://github.com/wenda-LLM/wenda/issues/370
# about: a chat goes on from a state that was put away after an earlier question. A strategy says on which card which layers of the model are
# operation: cat on cuda:0, cuda:1
# operands: tensors|.*state.*|each.*
# category: module-split
# line: llms/llm_rwkv.py: return torch.cat([each.reshape(-1) for each in state])
# line: llms/llm_rwkv.py: all_state[hash(ctx)] = pack(
# line: rwkv/model.py: return x, state
# line: wenda.py: "strategy": "cuda:0 fp32 *2 -> cuda:1 fp32",
# repair: llms/llm_rwkv.py: return torch.cat([each.reshape(-1) for each in state]) -> return torch.cat([each.reshape(-1).cpu() for each in state])
import torch

import wenda

if __name__ == "__main__":
    torch.manual_seed(370)
    answers = [wenda.chat("Is it far to the sea", limit=4), wenda.chat("Is it far to the sea and is it deep", limit=4)]
    print(" / ".join(f"{tokens} {score:.4f}" for tokens, score in answers))
# --- wenda.py
from llms import llm_rwkv

settings = {
    "llm_type": "rwkv",
    "rwkv": {
        "n_layer": 4,
        "n_embd": 12,
        "strategy": "cuda:0 fp32 *2 -> cuda:1 fp32",
        "historymode": "state",
    },
}


def chat(prompt, limit):
    if llm_rwkv.model is None:
        llm_rwkv.load_model(settings["rwkv"])
    return llm_rwkv.chat_one(prompt, limit)
# --- rwkv/model.py
import torch
from torch import nn


def devices_of(strategy, n_layer):
    """`cuda:0 fp32 *2 -> cuda:1 fp32`: two layers, then all that are left."""
    devices = []
    for part in strategy.split("->"):
        words = part.split()
        count = int(words[2][1:]) if len(words) > 2 else n_layer - len(devices)
        devices += [torch.device(words[0])] * count
    return devices


class TimeMix(nn.Module):
    def __init__(self, n_embd):
        super().__init__()
        self.key = nn.Linear(n_embd, n_embd, bias=False)
        self.value = nn.Linear(n_embd, n_embd, bias=False)
        self.receptance = nn.Linear(n_embd, n_embd, bias=False)
        self.time_decay = nn.Parameter(torch.linspace(0.2, 0.95, n_embd))

    def forward(self, x, aa, bb):
        k = torch.exp(self.key(x).clamp(max=4.0))
        aa = self.time_decay * aa + k * self.value(x)
        bb = self.time_decay * bb + k
        return x + torch.sigmoid(self.receptance(x)) * aa / bb, aa, bb


class RWKV:
    def __init__(self, n_layer, n_embd, strategy, vocab=29):
        self.n_embd = n_embd
        self.strategy = devices_of(strategy, n_layer)
        self.emb = nn.Embedding(vocab, n_embd).to(self.strategy[0])
        self.blocks = [TimeMix(n_embd).to(device) for device in self.strategy]
        self.head = nn.Linear(n_embd, vocab).to(self.strategy[-1])

    def empty_state(self):
        return [torch.zeros(self.n_embd, device=device) for device in self.strategy for _ in range(2)]

    @torch.no_grad()
    def forward(self, tokens, state):
        state = self.empty_state() if state is None else list(state)
        for token in tokens:
            x = self.emb(torch.tensor(token, device=self.strategy[0]))
            for i, block in enumerate(self.blocks):
                x, state[2 * i], state[2 * i + 1] = block(x.to(self.strategy[i]), state[2 * i], state[2 * i + 1])
        x = self.head(x).log_softmax(dim=-1)
        return x, state
# --- llms/llm_rwkv.py
import torch

from rwkv.model import RWKV

model = None
all_state = {}


def load_model(settings):
    global model
    model = RWKV(settings["n_layer"], settings["n_embd"], settings["strategy"])


def pack(state):
    return torch.cat([each.reshape(-1) for each in state])


def unpack(packed):
    """The states of all layers, each where its layer is."""
    parts = packed.split(model.n_embd)
    return [part.to(model.strategy[i // 2]) for i, part in enumerate(parts)]


def encode(text):
    return [1 + sum(map(ord, word)) % 28 for word in text.split()]


def find_state(words):
    """The longest beginning of the prompt that was read before."""
    for end in range(len(words), 0, -1):
        ctx = " ".join(words[:end])
        if hash(ctx) in all_state:
            return unpack(all_state[hash(ctx)]), words[end:]
    return None, words


def chat_one(prompt, limit):
    words = prompt.split()
    state, rest = find_state(words)
    out, state = model.forward(encode(" ".join(rest)), state)
    save_state(prompt, state)
    tokens, score = [], 0.0
    for _ in range(limit):
        best, token = out.max(dim=-1)
        tokens.append(token.item())
        score += best.item()
        out, state = model.forward([token.item()], state)
    return tokens, score


def save_state(ctx, state):
    all_state[hash(ctx)] = pack(state)

# === weights_are_rounded_one_layer_after_the_other
# thread: https://github.com/xhedit/quantkit/issues/7
# about: a model is too large for the card. Its layers come onto it one after the other, are rounded to four bits there, and go back
# operation: (b?mm|matmul) on cpu, cuda:0
# operands: self|.*inv_freq.*, mat2|other|.*position_ids.*
# category: module-split|state-not-registered|input-not-moved
# line: auto_gptq/modeling/llama.py: outside_layer_modules = [
# line: auto_gptq/modeling/base.py: for name in self.outside_layer_modules:
# line: transformers_llama.py: inv_freq_expanded = self.inv_freq
# line: transformers_llama.py: position_ids = torch.arange(
# line: transformers_llama.py: cos, sin = self.rotary_emb(
# repair: auto_gptq/modeling/llama.py: outside_layer_modules = ["model.embed_tokens", "model.norm"] -> outside_layer_modules = ["model.embed_tokens",
#   "model.norm", "model.rotary_emb"]
import torch

from quantkit import convert

if __name__ == "__main__":
    torch.manual_seed(7)
    model, before = convert.gptq(bits=4, group_size=8, calibration_rows=3)
    tokens = torch.arange(10)[None] % 17
    after = model(tokens).log_softmax(dim=-1)
    picked = after.gather(-1, tokens.roll(-1, dims=1)[..., None]).mean()
    print(f"score {picked.item():.4f} drift {(after - before).abs().mean().item():.4f}")
# --- transformers_llama.py
import torch
from torch import nn


class LlamaRotaryEmbedding(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        inv_freq = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, position_ids):
        inv_freq_expanded = self.inv_freq[None, :, None].expand(len(position_ids), -1, 1)
        position_ids_expanded = position_ids[:, None, :].float()
        freqs = (inv_freq_expanded @ position_ids_expanded).transpose(1, 2)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos(), emb.sin()


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class LlamaDecoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(width)
        self.qkv_proj = nn.Linear(width, 3 * width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, hidden, cos, sin):
        q, k, v = self.qkv_proj(self.input_layernorm(hidden)).chunk(3, dim=-1)
        scores = rotate(q, cos, sin) @ rotate(k, cos, sin).transpose(1, 2)
        blocked = torch.ones_like(scores[0]).triu(1).bool()
        attention = scores.div(q.shape[-1] ** 0.5).masked_fill(blocked, float("-inf")).softmax(dim=-1)
        return hidden + self.o_proj(attention @ v)


class LlamaModel(nn.Module):
    def __init__(self, vocab, width, layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(LlamaDecoderLayer(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.rotary_emb = LlamaRotaryEmbedding(width)

    def forward(self, input_ids):
        hidden = self.embed_tokens(input_ids)
        position_ids = torch.arange(input_ids.shape[1], device=hidden.device)[None]
        cos, sin = self.rotary_emb(position_ids)
        for layer in self.layers:
            hidden = layer(hidden, cos, sin)
        return self.norm(hidden)


class LlamaForCausalLM(nn.Module):
    def __init__(self, vocab=17, width=16):
        super().__init__()
        self.model = LlamaModel(vocab, width, layers=2)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    @torch.no_grad()
    def forward(self, input_ids):
        return self.lm_head(self.model(input_ids))
# --- quantkit/convert.py
import torch

from auto_gptq.modeling.llama import LlamaGPTQForCausalLM
from transformers_llama import LlamaForCausalLM


def gptq(bits, group_size, calibration_rows):
    model = LlamaForCausalLM()
    tokens = torch.arange(10)[None] % 17
    before = model(tokens).log_softmax(dim=-1)
    generator = torch.Generator().manual_seed(11)
    examples = [{"input_ids": torch.randint(17, (1, 12), generator=generator)} for _ in range(calibration_rows)]
    LlamaGPTQForCausalLM(model, bits=bits, group_size=group_size).quantize(examples)
    return model, before
# --- auto_gptq/modeling/llama.py
from auto_gptq.modeling.base import BaseGPTQForCausalLM


class LlamaGPTQForCausalLM(BaseGPTQForCausalLM):
    layers_block_name = "model.layers"
    outside_layer_modules = ["model.embed_tokens", "model.norm"]
    inside_layer_modules = ["qkv_proj", "o_proj"]
# --- auto_gptq/modeling/base.py
import torch
from torch import nn

CPU, CUDA_0 = torch.device("cpu"), torch.device("cuda:0")


class LayerHijacker(nn.Module):
    """Stands in for the first layer and keeps what comes in."""

    def __init__(self, module):
        super().__init__()
        self.module, self.inputs = module, []

    def forward(self, *args):
        self.inputs.append(args)
        raise ValueError


class BaseGPTQForCausalLM:
    def __init__(self, model, bits, group_size):
        self.model, self.bits, self.group_size = model, bits, group_size

    def round(self, weight, scale_of):
        groups = (weight * scale_of).reshape(len(weight), -1, self.group_size)
        step = groups.abs().amax(dim=-1, keepdim=True) / (2 ** (self.bits - 1) - 1)
        return ((groups / step).round() * step).reshape(weight.shape) / scale_of

    def first_inputs(self, examples):
        layers = self.model.get_submodule(self.layers_block_name)
        for name in self.outside_layer_modules:
            self.model.get_submodule(name).to(CUDA_0)
        layers[0] = LayerHijacker(layers[0])
        for example in examples:
            try:
                self.model(example["input_ids"].to(CUDA_0))
            except ValueError:
                continue
        inputs, layers[0] = layers[0].inputs, layers[0].module
        for name in self.outside_layer_modules:
            self.model.get_submodule(name).to(CPU)
        return inputs

    @torch.no_grad()
    def quantize(self, examples):
        inputs = self.first_inputs(examples)
        for layer in self.model.get_submodule(self.layers_block_name):
            layer.to(CUDA_0)
            seen = {name: [] for name in self.inside_layer_modules}
            for name, kept in seen.items():
                layer.get_submodule(name).register_forward_pre_hook(lambda _, args, kept=kept: kept.append(args[0].abs().mean(dim=(0, 1))))
            for args in inputs:
                layer(*args)
            for name, kept in seen.items():
                module = layer.get_submodule(name)
                scale_of = torch.stack(kept).mean(dim=0).clamp_min(1e-3).sqrt()
                module.weight.copy_(self.round(module.weight, scale_of))
                module._forward_pre_hooks.clear()
            inputs = [(layer(*args), *args[1:]) for args in inputs]
            layer.to(CPU)
