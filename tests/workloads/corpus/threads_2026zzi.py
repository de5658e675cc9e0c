# === boxes_turned_in_pictures_from_the_air
# thread: https://github.com/lx-cly/YOLOv7_OBB/issues/13
# about: ships and cars are found in pictures taken from the air, as boxes that may be turned. Of boxes that lie on each other the surest is kept
# operation: index on cpu, cuda:0
# operands: self|ori_inds, indices|.*too_small.*
# category: created-without-device
# line: nms_rotated_wrapper.py: ori_inds = torch.arange(
# line: nms_rotated_wrapper.py: ori_inds = ori_inds[~too_small]
# repair: nms_rotated_wrapper.py: ori_inds = torch.arange(dets.size(0)) -> ori_inds = torch.arange(dets.size(0), device=dets.device)
import argparse

import torch

from general import non_max_suppression_obb
from yolo import attempt_load


def detect(opt):
    device = torch.device('cuda:' + opt.device if torch.cuda.is_available() else 'cpu')
    model = attempt_load(seed=7, device=device)
    g = torch.Generator().manual_seed(13)
    kept, sure = 0, 0.0
    for _ in range(opt.tiles):
        img = torch.rand(3, 48, 48, generator=g).to(device)
        with torch.no_grad():
            pred = model(img.unsqueeze(0))
        pred = non_max_suppression_obb(pred, opt.conf_thres, opt.iou_thres)
        for det in pred:
            kept += len(det)
            sure += det[:, 5].sum().item()
    print(f'{kept} boxes, {sure:.3f}')


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--device', default='0')
    parser.add_argument('--tiles', type=int, default=3)
    parser.add_argument('--conf-thres', type=float, default=0.4)
    parser.add_argument('--iou-thres', type=float, default=0.3)
    detect(parser.parse_args())
# --- yolo.py
import torch
import torch.nn as nn


class DetectOBB(nn.Module):
    """Center, sides, angle, how sure, and which class, for each cell."""

    def __init__(self, nc, ch, stride):
        super().__init__()
        self.nc, self.stride = nc, stride
        self.m = nn.Conv2d(ch, 6 + nc, 1)

    def forward(self, x):
        x = self.m(x)
        bs, no, ny, nx = x.shape
        yv, xv = torch.meshgrid(torch.arange(ny, device=x.device), torch.arange(nx, device=x.device), indexing='ij')
        grid = torch.stack((xv, yv), 2).view(1, ny * nx, 2).float()
        y = x.view(bs, no, -1).permute(0, 2, 1)
        xy = (y[..., :2].sigmoid() * 2 + grid - 0.5) * self.stride
        wh = (y[..., 2:4] * 3).exp() * self.stride / 2
        theta = (y[..., 4:5].sigmoid() - 0.5) * torch.pi
        return torch.cat((xy, wh, theta, y[..., 5:].sigmoid()), -1)


class Model(nn.Module):
    def __init__(self, nc=3, ch=16):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, ch, 3, 2, 1), nn.SiLU(), nn.Conv2d(ch, ch, 3, 2, 1), nn.SiLU())
        self.detect = DetectOBB(nc, ch, stride=4)

    def forward(self, x):
        return self.detect(self.backbone(x))


def attempt_load(seed, device):
    torch.manual_seed(seed)
    return Model().to(device).eval()
# --- general.py
import torch

from nms_rotated_wrapper import obb_nms


def non_max_suppression_obb(prediction, conf_thres=0.25, iou_thres=0.45, max_det=50):
    """Boxes as [x, y, w, h, theta, conf, cls], for each picture."""
    max_wh = 4096
    output = [torch.zeros((0, 7), device=prediction.device)] * prediction.shape[0]
    for xi, x in enumerate(prediction):
        x = x[x[:, 5] * x[:, 6:].amax(1) > conf_thres / 2]
        if not x.shape[0]:
            continue
        conf, j = (x[:, 6:] * x[:, 5:6]).max(1, keepdim=True)
        x = torch.cat((x[:, :5], conf, j.float()), 1)
        x = x[x[:, 5].argsort(descending=True)]
        rboxes = x[:, :5].clone()
        rboxes[:, :2] = rboxes[:, :2] + x[:, 6:7] * max_wh
        _, i = obb_nms(rboxes, x[:, 5], iou_thres)
        output[xi] = x[i[:max_det]]
    return output
# --- nms_rotated_wrapper.py
import torch


def overlap_of_gaussians(dets):
    """How alike turned boxes are, when each is taken for a cloud."""
    xy, wh, theta = dets[:, :2], dets[:, 2:4] / 2, dets[:, 4]
    cos, sin = theta.cos(), theta.sin()
    spread_x = (wh[:, 0] * cos).square() + (wh[:, 1] * sin).square()
    spread_y = (wh[:, 0] * sin).square() + (wh[:, 1] * cos).square()
    spread = torch.stack((spread_x, spread_y), 1)
    apart = (xy[:, None] - xy[None]).square() / (spread[:, None] + spread[None])
    return (-apart.sum(-1)).exp()


def nms_rotated(dets, scores, iou_thr):
    order = scores.argsort(descending=True)
    alike = overlap_of_gaussians(dets)[order][:, order]
    keep = torch.ones_like(order, dtype=torch.bool)
    for i in range(len(order)):
        if keep[i]:
            keep[i + 1:] &= alike[i, i + 1:] < iou_thr
    return order[keep]


def obb_nms(dets, scores, iou_thr):
    if dets.numel() == 0:
        inds = dets.new_zeros(0, dtype=torch.int64)
    else:
        # a box as thin as this has no direction
        too_small = dets[:, [2, 3]].min(1)[0] < 0.001
        if too_small.all():
            inds = dets.new_zeros(0, dtype=torch.int64)
        else:
            ori_inds = torch.arange(dets.size(0))
            ori_inds = ori_inds[~too_small]
            inds = nms_rotated(dets[~too_small], scores[~too_small], iou_thr)
            inds = ori_inds[inds]
    return dets[inds, :], inds

# === gradients_added_up_and_pulled_back
# thread: https://github.com/facebookresearch/madgrad/issues/4
# about: a learner is given a way to train that sums up all gradients and pulls the weights back to where they began. It fits a small classifier
# operation: addcmul_ on cpu, cuda:0, cuda:0
# operands: self|.*grad_sum_sq.*, tensor1|tensor2|grad
# category: optimizer
# line: madgrad.py: self.init_state(p, momentum)
# line: madgrad.py: state = self.state[p]
# line: learner.py: self.opt = self.opt_func(
# line: learner.py: self.model.to(self.dls.device)
# repair: madgrad.py: self.init_state(p, momentum) -> assert p.requires_grad
# repair: madgrad.py: state = self.state[p] -> state = self.state[p] or self.init_state(p, group["momentum"])
from functools import partial

import torch
from torch import nn

from data import DataLoaders
from learner import Learner
from madgrad import MADGRAD


def simple_classifier(n_in, n_out):
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(n_in, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, n_out))


def main():
    dls = DataLoaders.from_blobs(n_classes=3, n_features=5, bs=16)
    model = simple_classifier(5, 3)
    opt_func = partial(MADGRAD, momentum=0.9, weight_decay=1e-3)
    learn = Learner(dls, model, loss_func=nn.CrossEntropyLoss(), opt_func=opt_func, lr=2e-2)
    learn.fit(3)
    print(*learn.validate())


if __name__ == "__main__":
    main()
# --- data.py
import torch


class DataLoaders:
    def __init__(self, train, valid, bs, device=None):
        self.train_ds, self.valid_ds, self.bs = train, valid, bs
        self.device = device or torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

    @classmethod
    def from_blobs(cls, n_classes, n_features, bs, n=64):
        draw = torch.Generator().manual_seed(31)
        centers = 2 * torch.randn(n_classes, n_features, generator=draw)
        sets = []
        for _ in range(2):
            y = torch.randint(n_classes, (n,), generator=draw)
            sets.append((centers[y] + torch.randn(n, n_features, generator=draw), y))
        return cls(*sets, bs)

    def _batches(self, ds):
        for xb, yb in zip(*(part.split(self.bs) for part in ds)):
            yield xb.to(self.device), yb.to(self.device)

    @property
    def train(self):
        return self._batches(self.train_ds)

    @property
    def valid(self):
        return self._batches(self.valid_ds)
# --- learner.py
import torch


class Learner:
    def __init__(self, dls, model, loss_func, opt_func, lr=1e-3):
        self.dls, self.model, self.loss_func, self.opt_func, self.lr = dls, model, loss_func, opt_func, lr
        self.opt = self.opt_func(self.model.parameters(), lr=self.lr)

    def before_fit(self):
        self.model.to(self.dls.device)
        self.model.train()

    def one_batch(self, xb, yb):
        loss = self.loss_func(self.model(xb), yb)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad()
        return loss.item()

    def fit(self, n_epoch):
        self.before_fit()
        for epoch in range(n_epoch):
            losses = [self.one_batch(*batch) for batch in self.dls.train]
            print(epoch, f"{sum(losses) / len(losses):.3f}")

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        right, total, loss = 0, 0, 0.0
        for xb, yb in self.dls.valid:
            out = self.model(xb)
            right += (out.argmax(1) == yb).sum().item()
            loss += self.loss_func(out, yb).item() * len(yb)
            total += len(yb)
        return f"{loss / total:.3f}", f"{right / total:.3f}"
# --- madgrad.py
import math

import torch
import torch.optim


class MADGRAD(torch.optim.Optimizer):
    """Dual averages of gradients, with a momentum."""

    def __init__(self, params, lr=1e-2, momentum=0.9, weight_decay=0.0, eps=1e-6):
        if not 0 <= momentum < 1:
            raise ValueError(f"Momentum {momentum} must be in the range [0,1)")
        if lr <= 0:
            raise ValueError(f"Learning rate {lr} must be positive")
        super().__init__(params, dict(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay))
        self.k = 0

        for group in self.param_groups:
            for p in group["params"]:
                self.init_state(p, momentum)

    def init_state(self, p, momentum):
        self.state[p] = dict(grad_sum_sq=torch.zeros_like(p.data), s=torch.zeros_like(p.data))
        if momentum != 0:
            self.state[p]["x0"] = p.data.clone()
        return self.state[p]

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            eps = group["eps"]
            lamb = (group["lr"] + eps) * math.sqrt(self.k + 1)
            for p in group["params"]:
                if p.grad is not None:
                    self.step_of(p, p.grad.add(p, alpha=group["weight_decay"]), group, lamb)
        self.k += 1

    def step_of(self, p, grad, group, lamb):
        momentum = group["momentum"]
        state = self.state[p]
        grad_sum_sq, s = state["grad_sum_sq"], state["s"]
        if momentum == 0:
            x0 = p.addcdiv(s, grad_sum_sq.pow(1 / 3).add(group["eps"]))
        else:
            x0 = state["x0"]
        grad_sum_sq.addcmul_(grad, grad, value=lamb)
        rms = grad_sum_sq.pow(1 / 3).add_(group["eps"])
        s.add_(grad, alpha=lamb)
        z = x0.addcdiv(s, rms, value=-1)
        p.mul_(momentum).add_(z, alpha=1 - momentum)

# === voice_prompt_kept_in_a_file
# thread: https://github.com/NVIDIA/personaplex/pull/35
# about: a model that talks is first given the voice it shall have. What it made of that voice is kept in a file, and a later talk begins with it
# operation: cat on cuda:0, cpu
# operands: tensors|.*embed.*
# category: checkpoint|input-not-moved
# line: lm_gen.py: state = torch.load(path
# line: lm_gen.py: self.voice_prompt_embeddings = state["embeddings"]
# line: lm_gen.py: self.step_embeddings(next_embed)
# line: lm_gen.py: state = {"embeddings":
# line: lm_gen.py: def step_embeddings(
# line: lm.py: self.context = torch.cat(
# repair: lm_gen.py: state = torch.load(path) -> state = torch.load(path, map_location=self.lm_model.device)
import argparse
import os
import tempfile

import torch

from lm import LMModel
from lm_gen import LMGen

VOICES = {"NATF0": 5, "NATM1": 8}


def seed_all(seed):
    torch.manual_seed(seed)


def run_inference(voice, voice_prompt_dir, device, n_steps):
    seed_all(35)
    lm = LMModel(card=12, dim=16, num_heads=2).to(device).eval()
    voice_prompt_path = os.path.join(voice_prompt_dir, voice + ".pt")

    if not os.path.exists(voice_prompt_path):
        recorder = LMGen(lm)
        tokens = torch.randint(12, (VOICES[voice],), generator=torch.Generator().manual_seed(VOICES[voice]))
        recorder.record_voice_prompt(tokens, voice_prompt_path)

    lm_gen = LMGen(lm)
    lm_gen.load_voice_prompt_embeddings(voice_prompt_path)
    lm_gen.step_system_prompts()
    return lm_gen.generate(first_token=3, n_steps=n_steps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--voice-prompt", default="NATF0", choices=list(VOICES))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--n-steps", type=int, default=6)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as voice_prompt_dir:
        tokens, surprise = run_inference(args.voice_prompt, voice_prompt_dir, torch.device(args.device), args.n_steps)
    print(tokens, f"{surprise:.3f}")


if __name__ == "__main__":
    main()
# --- lm.py
import torch
from torch import nn


class StreamingState:
    """What was embedded so far, of which each step sees all."""

    def __init__(self, batch_size, dim, device):
        self.context = torch.zeros(batch_size, 1, dim, device=device)
        self.offset = 0

    def append(self, embedding):
        self.context = torch.cat([self.context, embedding], dim=1)
        self.offset += embedding.shape[1]


class LMModel(nn.Module):
    def __init__(self, card, dim, num_heads):
        super().__init__()
        self.dim, self.num_heads = dim, num_heads
        self.emb = nn.Embedding(card, dim)
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.text_linear = nn.Linear(dim, card)

    @property
    def device(self):
        return next(iter(self.parameters())).device

    def embed_codes(self, tokens):
        return self.emb(tokens)

    def forward_embeddings(self, state):
        x = nn.functional.rms_norm(state.context, (self.dim,))
        q, k, v = self.in_proj(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q[:, :, -1:], k, v)
        out = x[:, -1:] + self.out_proj(seen.transpose(1, 2).flatten(2))
        return self.text_linear(out)
# --- lm_gen.py
import torch

from lm import LMModel, StreamingState


class LMGen:
    def __init__(self, lm_model: LMModel):
        self.lm_model = lm_model
        self.state = StreamingState(1, lm_model.dim, lm_model.device)
        self.voice_prompt_embeddings = None

    @torch.no_grad()
    def step_embeddings(self, embeddings: torch.Tensor):
        self.state.append(embeddings)
        return self.lm_model.forward_embeddings(self.state)

    def step(self, tokens: torch.Tensor):
        embeddings = self.lm_model.embed_codes(tokens)
        return self.step_embeddings(embeddings), embeddings

    def record_voice_prompt(self, tokens: torch.Tensor, path: str):
        saved_embeddings = []
        for token in tokens.to(self.lm_model.device):
            _, embeddings = self.step(token.view(1, 1))
            saved_embeddings.append(embeddings)
        state = {"embeddings": torch.stack(saved_embeddings, dim=0).detach().cpu(), "offset": self.state.offset}
        torch.save(state, path)

    def load_voice_prompt_embeddings(self, path: str):
        state = torch.load(path)
        self.voice_prompt_embeddings = state["embeddings"]
        assert len(self.voice_prompt_embeddings) == state["offset"]

    def step_system_prompts(self):
        for next_embed in self.voice_prompt_embeddings:
            self.step_embeddings(next_embed)

    def generate(self, first_token: int, n_steps: int):
        token = torch.full((1, 1), first_token, device=self.lm_model.device)
        tokens, surprise = [], 0.0
        for _ in range(n_steps):
            logits, _ = self.step(token)
            logprobs = logits[:, -1].log_softmax(-1)
            token = logprobs.argmax(-1, keepdim=True)
            tokens.append(token.item())
            surprise -= logprobs.max().item()
        return tokens, surprise / n_steps

# === answered_requests_leave_the_batch
# thread: https://github.com/deepjavalibrary/djl-serving/pull/960
# about: requests are answered together, a word of each at a time. One that has its last word leaves, and the rest of the batch goes on
# operation: index on cuda:1, cuda:0
# operands: self|tensor|.*past_key_values.*, indices|keep_indices
# category: module-split|input-not-moved
# line: utils.py: return tensor[keep_indices]
# line: batch.py: key_values.append(
# line: batch.py: for k, v in self.past_key_values:
# line: main.py: model = TinyCausalLM(
# repair: utils.py: return tensor[keep_indices] -> return tensor[keep_indices.to(tensor.device)]
import torch

from lm_block import HuggingfaceBlock, TinyCausalLM
from scheduler import SeqBatchScheduler


def main():
    torch.manual_seed(960)
    devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())] or [torch.device("cpu")]
    model = TinyCausalLM(vocab=17, dim=8, layers=4, device_map=devices)
    scheduler = SeqBatchScheduler(HuggingfaceBlock(model), max_new_seqlen=8)
    draw = torch.Generator().manual_seed(1)
    prompts = torch.randint(1, 17, (4, 3), generator=draw).to(devices[0])
    scheduler.add_request(prompts, request_uids=["a", "b", "c", "d"], budgets=[2, 7, 4, 7])
    while not scheduler.is_empty():
        scheduler.inference_call()
    for uid, tokens in sorted(scheduler.results.items()):
        print(uid, tokens)
    print(sum(sum(tokens) for tokens in scheduler.results.values()), f"{scheduler.certainty:.3f}")


if __name__ == "__main__":
    main()
# --- lm_block.py
import torch
from torch import nn


class DecoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, past):
        q, k, v = self.qkv(x).unsqueeze(1).chunk(3, dim=-1)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        seen = torch.softmax(q @ k.transpose(-1, -2) / k.shape[-1] ** 0.5, dim=-1) @ v
        x = x + seen.squeeze(1)
        return x + self.mlp(x), (k, v)


class TinyCausalLM(nn.Module):
    """Its layers are dealt to the devices in turn, as many to each."""

    def __init__(self, vocab, dim, layers, device_map):
        super().__init__()
        self.homes = [device_map[index * len(device_map) // layers] for index in range(layers)]
        self.embed = nn.Embedding(vocab, dim).to(device_map[0])
        self.layers = nn.ModuleList(DecoderLayer(dim).to(home) for home in self.homes)
        self.lm_head = nn.Linear(dim, vocab).to(device_map[-1])

    def forward(self, input_ids, past_key_values=None):
        x, present = self.embed(input_ids), []
        for index, (layer, home) in enumerate(zip(self.layers, self.homes)):
            x, key_value = layer(x.to(home), past_key_values and past_key_values[index])
            present.append(key_value)
        return self.lm_head(x).to(input_ids.device), tuple(present)


class HuggingfaceBlock:
    def __init__(self, model):
        self.model = model

    @torch.no_grad()
    def forward(self, input_ids, past_key_values=None):
        return self.model(input_ids, past_key_values=past_key_values)
# --- batch.py
import torch

from utils import trim_tensor


class Batch:
    def __init__(self, next_input_ids, past_key_values):
        self.next_input_ids = next_input_ids
        self.past_key_values = past_key_values

    def trim(self, keep_indices: torch.Tensor):
        self.next_input_ids = trim_tensor(self.next_input_ids, keep_indices)
        key_values = []
        for k, v in self.past_key_values:
            key_values.append((trim_tensor(k, keep_indices), trim_tensor(v, keep_indices)))
        self.past_key_values = tuple(key_values)
# --- utils.py
import torch


def trim_tensor(tensor: torch.Tensor, keep_indices: torch.Tensor) -> torch.Tensor:
    if len(keep_indices) == len(tensor):
        return tensor
    return tensor[keep_indices]


def greedy_step_generate(logits: torch.Tensor):
    probs = logits[:, -1].softmax(-1)
    return probs.argmax(-1, keepdim=True), probs.max(-1).values.sum().item()
# --- scheduler.py
import torch

from batch import Batch
from utils import greedy_step_generate


class SeqBatchScheduler:
    def __init__(self, lm_block, max_new_seqlen):
        self.lm_block, self.max_new_seqlen = lm_block, max_new_seqlen
        self.uids, self.budgets, self.results = [], {}, {}
        self.certainty = 0.0

    def add_request(self, input_ids, request_uids, budgets):
        self.uids = list(request_uids)
        self.budgets = dict(zip(request_uids, budgets))
        logits, key_values = self.lm_block.forward(input_ids)
        self.batch = Batch(self._next(logits), key_values)

    def _next(self, logits):
        ids, certainty = greedy_step_generate(logits)
        self.certainty += certainty
        for uid, token in zip(self.uids, ids.view(-1).tolist()):
            self.results.setdefault(uid, []).append(token)
        return ids

    def is_empty(self):
        return not self.uids

    def inference_call(self):
        logits, key_values = self.lm_block.forward(self.batch.next_input_ids, self.batch.past_key_values)
        self.batch = Batch(self._next(logits), key_values)
        keep = [i for i, uid in enumerate(self.uids) if len(self.results[uid]) < min(self.budgets[uid], self.max_new_seqlen)]
        keep_indices = torch.tensor(keep, dtype=torch.int64, device=logits.device)
        self.uids = [self.uids[i] for i in keep]
        if keep:
            self.batch.trim(keep_indices)

# === strain_of_a_speckled_plate
# thread: https://github.com/LianpoWang/MaskDICNet/issues/23
# about: a plate with speckles is photographed before and after it is pulled, and a net finds how far each speckle went. Two nets are compared, each on its own
#   card
# operation: add on cuda:0, cuda:1
# operands: self|.*backwarp_tenGrid.*, other|tenFlow
# category: cached-state
# line: warp.py: key = str(tenFlow.shape)
# line: warp.py: tenGrid = backwarp_tenGrid[key]
# line: warp.py: tenGrid + tenFlow
# line: warp.py: if key not in backwarp_tenGrid:
# repair: warp.py: key = str(tenFlow.shape) -> key = str(tenFlow.shape) + str(tenFlow.device)
import torch

from net import MaskDIC
from speckles import pulled_plates

CHECKPOINTS = {'maskdic': 23, 'maskdic-l': 24}


def evaluate(name, card, pairs):
    device = torch.device('cuda', card) if torch.cuda.is_available() else torch.device('cpu')
    if device.type == 'cuda':
        torch.cuda.set_device(device)
    torch.manual_seed(CHECKPOINTS[name])
    netNetwork = MaskDIC(levels=2).to(device).eval()
    errors = []
    with torch.no_grad():
        for tenOne, tenTwo, tenTrue in pairs:
            tenFlow = netNetwork(tenOne.to(device), tenTwo.to(device))
            errors.append((tenFlow.cpu() - tenTrue).square().sum(1).sqrt().mean().item())
    return sum(errors) / len(errors)


def main():
    pairs = pulled_plates(n=2, size=24)
    cards = max(torch.cuda.device_count(), 1)
    results = {}
    for index, name in enumerate(CHECKPOINTS):
        results[name] = evaluate(name, index % cards, pairs)
        print(name, 'done')
    print(' '.join(f'{name} {error:.3f}' for name, error in results.items()))


if __name__ == '__main__':
    main()
# --- speckles.py
import torch


def pulled_plates(n, size):
    """Pairs of pictures, and how far each point went from the first to the second."""
    draw = torch.Generator().manual_seed(5)
    pairs = []
    for index in range(n):
        tenOne = torch.rand(1, 1, size, size, generator=draw)
        tenOne = torch.nn.functional.avg_pool2d(tenOne, 3, 1, 1)
        tenTrue = torch.zeros(1, 2, size, size)
        tenTrue[:, 0] = (index + 1) * torch.linspace(0, 1, size).view(1, 1, size)
        tenTwo = torch.roll(tenOne, index + 1, dims=3)
        pairs.append((tenOne, tenTwo, tenTrue))
    return pairs
# --- warp.py
import torch

backwarp_tenGrid = {}


def backwarp(tenInput, tenFlow):
    """The second picture, with each point brought back to where it came from."""
    key = str(tenFlow.shape)
    if key not in backwarp_tenGrid:
        height, width = tenFlow.shape[2:]
        tenHor = torch.linspace(-1.0 + 1.0 / width, 1.0 - 1.0 / width, width).view(1, 1, 1, -1).expand(-1, -1, height, -1)
        tenVer = torch.linspace(-1.0 + 1.0 / height, 1.0 - 1.0 / height, height).view(1, 1, -1, 1).expand(-1, -1, -1, width)
        tenHorVer = torch.cat([tenHor, tenVer], 1)
        backwarp_tenGrid[key] = tenHorVer.cuda() if torch.cuda.is_available() else tenHorVer
    tenGrid = backwarp_tenGrid[key]

    tenFlow = torch.cat([tenFlow[:, 0:1] * (2.0 / tenInput.shape[3]), tenFlow[:, 1:2] * (2.0 / tenInput.shape[2])], 1)
    tenPlaces = (tenGrid + tenFlow).permute(0, 2, 3, 1)
    return torch.nn.functional.grid_sample(input=tenInput, grid=tenPlaces, mode='bilinear', padding_mode='border', align_corners=False)
# --- net.py
import torch
from torch import nn

from warp import backwarp


class Decoder(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.netMask = nn.Sequential(nn.Conv2d(2, width, 3, padding=1), nn.LeakyReLU(0.1), nn.Conv2d(width, 1, 1))
        self.netMain = nn.Sequential(nn.Conv2d(4, width, 3, padding=1), nn.LeakyReLU(0.1), nn.Conv2d(width, 2, 3, padding=1))

    def forward(self, tenOne, tenTwo, tenFlow):
        tenWarped = backwarp(tenTwo, tenFlow)
        tenMask = self.netMask(torch.cat([tenOne, tenWarped], 1)).sigmoid()
        return tenFlow + tenMask * self.netMain(torch.cat([tenOne, tenWarped, tenFlow], 1))


class MaskDIC(nn.Module):
    def __init__(self, levels):
        super().__init__()
        self.netDecoders = nn.ModuleList(Decoder() for _ in range(levels))

    def forward(self, tenOne, tenTwo):
        tenFlow = tenOne.new_zeros(tenOne.shape[0], 2, *tenOne.shape[2:])
        for netDecoder in self.netDecoders:
            tenFlow = netDecoder(tenOne, tenTwo, tenFlow)
        return tenFlow

# === forces_between_beads_of_a_chain
# thread: https://github.com/coarse-graining/cgnet/issues/74
# about: a net learns the forces between the beads of a chain. After each step its layers are scaled down, so that none makes a difference too large
# operation: max|maximum on cuda:1, cuda:0
# operands: other|.*tensor.*
# category: default-or-current-device
# line: utils.py: lip_reg = torch.max(largest / strength, torch.tensor([1.0]).cuda())
# line: main.py: device = torch.device(
# repair: utils.py: lip_reg = torch.max(largest / strength, torch.tensor([1.0]).cuda()) -> lip_reg = torch.max(largest / strength,
#   torch.tensor([1.0]).to(weight.device))
import torch
from torch.utils.data import DataLoader

from dataset import MoleculeDataset, sample_chain
from network import CGnet, ForceLoss, HarmonicLayer
from utils import dataset_loss, lipschitz_projection

NUM_EPOCHS = 2
LIPSCHITZ_STRENGTH = 0.6


def main():
    torch.manual_seed(74)
    device = torch.device("cuda:1" if torch.cuda.device_count() > 1 else "cpu")
    coords, forces = sample_chain(frames=48, beads=5)
    dataset = MoleculeDataset(coords, forces, device=device)
    net = CGnet(beads=5, width=16, criterion=ForceLoss(), prior=HarmonicLayer(rest=1.0, stiffness=8.0)).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)

    def regularize(model):
        lipschitz_projection(model, strength=LIPSCHITZ_STRENGTH)

    for epoch in range(NUM_EPOCHS):
        loss = dataset_loss(net, DataLoader(dataset, batch_size=16), optimizer, regularize)
        print(f"epoch {epoch} loss {loss:.3f}")
    print(f"{dataset_loss(net, DataLoader(dataset, batch_size=16)):.3f}")


if __name__ == "__main__":
    main()
# --- dataset.py
import torch
from torch.utils.data import Dataset


def sample_chain(frames, beads):
    """Beads about one apart, and the forces of springs between them."""
    draw = torch.Generator().manual_seed(33)
    coords = torch.randn(frames, beads, 3, generator=draw) * 0.15
    coords[..., 0] += torch.arange(beads)
    bonds = coords[:, 1:] - coords[:, :-1]
    lengths = bonds.norm(dim=-1, keepdim=True)
    pull = 10 * (lengths - 1) * bonds / lengths
    forces = torch.zeros_like(coords)
    forces[:, :-1] += pull
    forces[:, 1:] -= pull
    return coords, forces


class MoleculeDataset(Dataset):
    def __init__(self, coordinates, forces, device=torch.device("cpu")):
        self.coordinates, self.forces, self.device = coordinates, forces, device

    def __len__(self):
        return len(self.coordinates)

    def __getitem__(self, index):
        coords = self.coordinates[index].to(self.device).requires_grad_()
        return coords, self.forces[index].to(self.device)
# --- network.py
import torch
import torch.nn as nn


def LinearLayer(d_in, d_out, activation=None):
    seq = [nn.Linear(d_in, d_out)]
    return seq if activation is None else [*seq, activation]


class HarmonicLayer(nn.Module):
    def __init__(self, rest, stiffness):
        super().__init__()
        self.rest, self.stiffness = rest, stiffness

    def forward(self, bonds):
        return (self.stiffness / 2 * (bonds - self.rest) ** 2).sum(dim=1, keepdim=True)


class ForceLoss(nn.Module):
    def forward(self, force, labels):
        return ((force - labels) ** 2).mean()


class CGnet(nn.Module):
    def __init__(self, beads, width, criterion, prior):
        super().__init__()
        self.arch = nn.Sequential(
            *LinearLayer(beads * (beads - 1) // 2, width, nn.Tanh()),
            *LinearLayer(width, width, nn.Tanh()),
            *LinearLayer(width, 1),
        )
        self.criterion, self.prior = criterion, prior

    def features(self, coords):
        beads = coords.shape[1]
        first, second = torch.triu_indices(beads, beads, 1, device=coords.device)
        return (coords[:, first] - coords[:, second]).norm(dim=-1), (coords[:, 1:] - coords[:, :-1]).norm(dim=-1)

    def forward(self, coords):
        distances, bonds = self.features(coords)
        energy = self.arch(distances) + self.prior(bonds)
        force = torch.autograd.grad(-energy.sum(), coords, create_graph=True)[0]
        return energy, force
# --- utils.py
import torch
import torch.nn as nn


def lipschitz_projection(model, strength=10.0):
    """A layer whose largest singular value is above `strength` is scaled down to it."""
    for layer in model.arch:
        if isinstance(layer, nn.Linear):
            weight = layer.weight.data
            largest = torch.linalg.svdvals(weight)[0]
            if weight.is_cuda:
                lip_reg = torch.max(largest / strength, torch.tensor([1.0]).cuda())
            else:
                lip_reg = torch.max(largest / strength, torch.tensor([1.0]))
            layer.weight.data = weight / lip_reg


def dataset_loss(model, loader, optimizer=None, regularization_function=None):
    loss, batches = 0.0, 0
    for coords, force in loader:
        _, predicted_force = model(coords)
        batch_loss = model.criterion(predicted_force, force)
        if optimizer is not None:
            optimizer.zero_grad()
            batch_loss.backward()
            optimizer.step()
            if regularization_function is not None:
                regularization_function(model)
        loss += batch_loss.item()
        batches += 1
    return loss / batches
