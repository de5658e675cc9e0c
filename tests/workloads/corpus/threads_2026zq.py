# === places_added_to_a_volume
# thread: https://github.com/tatp22/multidim-positional-encoding/issues/33
# about: where a patch lies in a volume is added to what is in it. Before the test the size of the model's work is counted, with one volume, while the model is still on the CPU
# operation: add on cuda:0, cpu
# operands: other|penc|.*cached_penc.*
# category: cached-state
# line: torch_encodings.py: return tensor + penc
# line: torch_encodings.py: return self.cached_penc
# line: torch_encodings.py: if self.cached_penc is not None
# line: torch_encodings.py: self.cached_penc = None
# repair: torch_encodings.py: return tensor + penc -> return tensor + penc.to(tensor.device)
import argparse

import torch
from torch.utils.data import DataLoader

from network import VolumeTransformer
from profile_model import count_activations
from volumes import Phantoms


@torch.no_grad()
def test(model, loader, device):
    scores = []
    for volumes, labels in loader:
        logits = model(volumes.to(device))
        hits = (logits.argmax(dim=-1) == labels.to(device)).float()
        scores.append(hits.mean().item())
    return sum(scores) / len(scores)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--width", type=int, default=12)
    parser.add_argument("--classes", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(4)
    model = VolumeTransformer(patch=4, width=args.width, classes=args.classes).eval()
    dataset = Phantoms(count=6, size=8, classes=args.classes)
    activations = count_activations(model, dataset[0][0].unsqueeze(0))

    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model.to(device)
    score = test(model, DataLoader(dataset, batch_size=args.batch_size), device)
    print("activations", activations, "score", round(score, 3))
# --- volumes.py
import torch
from torch.utils.data import Dataset


class Phantoms(Dataset):
    """Cubes of noise with one bright corner; which one it is is the class."""

    def __init__(self, count, size, classes):
        draw = torch.Generator().manual_seed(8)
        self.labels = torch.randint(0, classes, (count,), generator=draw)
        self.volumes = torch.rand(count, 1, size, size, size, generator=draw)
        for volume, label in zip(self.volumes, self.labels.tolist()):
            volume[0, : size // 2, : size // 2, label : label + size // 2] += 2

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.volumes[index], self.labels[index]
# --- profile_model.py
import torch
from torch import nn


def count_activations(model, example):
    """How many numbers the layers of a model put out for an example."""
    total = 0

    def hook(module, inputs, output):
        nonlocal total
        total += output.numel()

    handles = [m.register_forward_hook(hook) for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv3d))]
    with torch.no_grad():
        model(example)
    for handle in handles:
        handle.remove()
    return total
# --- torch_encodings.py
import math

import torch
from torch import nn


def get_emb(sin_inp):
    return torch.stack((sin_inp.sin(), sin_inp.cos()), dim=-1).flatten(-2, -1)


class PositionalEncoding3D(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.org_channels = channels
        channels = math.ceil(channels / 6) * 2
        self.channels = channels + channels % 2
        inv_freq = 1.0 / (10000 ** (torch.arange(0, self.channels, 2).float() / self.channels))
        self.register_buffer("inv_freq", inv_freq)
        self.cached_penc = None

    def forward(self, tensor):
        if self.cached_penc is not None and self.cached_penc.shape == tensor.shape:
            return self.cached_penc

        self.cached_penc = None
        batch_size, x, y, z, orig_ch = tensor.shape
        emb = torch.zeros((x, y, z, self.channels * 3), device=tensor.device, dtype=tensor.dtype)
        for axis, size in enumerate((x, y, z)):
            positions = torch.arange(size, device=tensor.device, dtype=self.inv_freq.dtype)
            part = get_emb(torch.einsum("i,j->ij", positions, self.inv_freq))
            shape = [size if i == axis else 1 for i in range(3)] + [self.channels]
            emb[..., axis * self.channels : (axis + 1) * self.channels] = part.view(shape)
        self.cached_penc = emb[None, ..., :orig_ch].repeat(batch_size, 1, 1, 1, 1)
        return self.cached_penc


class Summer(nn.Module):
    def __init__(self, penc):
        super().__init__()
        self.penc = penc

    def forward(self, tensor):
        penc = self.penc(tensor)
        assert tensor.size() == penc.size()
        return tensor + penc
# --- network.py
from torch import nn

from torch_encodings import PositionalEncoding3D, Summer


class VolumeTransformer(nn.Module):
    def __init__(self, patch, width, classes):
        super().__init__()
        self.patch_embed = nn.Conv3d(1, width, kernel_size=patch, stride=patch)
        self.add_position = Summer(PositionalEncoding3D(width))
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, classes)

    def forward(self, volumes):
        x = self.patch_embed(volumes).permute(0, 2, 3, 4, 1)
        x = self.add_position(x).flatten(1, 3)
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v)
        return self.head(x.mean(dim=1))

# === signs_written_as_poses
# thread: https://github.com/rotem-shalev/Ham2Pose/pull/6
# about: a sign is written in symbols, and a signer's pose is drawn from them, frame after frame, from the first pose on. Poses are read from a file, one at a time
# operation: mm|matmul|linear on cpu, cuda:0
# operands: input|self|pose_sequence|.*first_pose.*|mat2
# category: input-not-moved
# line: pred.py: first_pose = datum["pose"]["data"][
# line: model.py: pose_sequence = first_pose
# line: pred.py: frames = list(model.forward(
# repair: pred.py: first_pose = datum["pose"]["data"][:1] -> first_pose = datum["pose"]["data"][:1].to(model.device)
import io
from types import SimpleNamespace

import torch

from dataset import get_dataset
from model import IterativeTextGuidedPoseGenerationModel
from pred import pred
from tokenizer import HamNoSysTokenizer

ARGS = SimpleNamespace(hidden_dim=12, num_steps=4, max_seq_size=6, output_dim=3, seed=42)


def saved_checkpoint(tokenizer):
    """What a training would have left behind."""
    torch.manual_seed(ARGS.seed)
    model = IterativeTextGuidedPoseGenerationModel(tokenizer, ARGS)
    file = io.BytesIO()
    torch.save({"state_dict": model.state_dict()}, file)
    file.seek(0)
    return file


def main():
    tokenizer = HamNoSysTokenizer("abcdefgh")
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    checkpoint = torch.load(saved_checkpoint(tokenizer), map_location=device)
    model = IterativeTextGuidedPoseGenerationModel(tokenizer, ARGS)
    model.load_state_dict(checkpoint["state_dict"])
    model = model.to(device).eval()

    lengths = pred(model, get_dataset("test"))
    for name, (length, mean) in lengths.items():
        print(name, "frames", length, "mean", round(mean, 4))


if __name__ == "__main__":
    main()
# --- tokenizer.py
import torch


class HamNoSysTokenizer:
    def __init__(self, glyphs):
        self.pad_token_id = 0
        self.i2s = dict(enumerate(glyphs, start=1))
        self.s2i = {glyph: number for number, glyph in self.i2s.items()}
        self.vocab_size = len(self.i2s) + 1

    def __call__(self, texts, device=None):
        rows = [[self.s2i[glyph] for glyph in text] for text in texts]
        longest = max(len(row) for row in rows)
        rows = [row + [self.pad_token_id] * (longest - len(row)) for row in rows]
        return torch.tensor(rows, dtype=torch.long, device=device)
# --- dataset.py
import numpy as np
import torch

POINTS = 4
DATA = {
    "train": [("abc", 5), ("hea", 4)],
    "test": [("bad", 3), ("face", 6)],
}


def get_dataset(split):
    rng = np.random.default_rng(17)
    data = []
    for number, (hamnosys, frames) in enumerate(DATA[split]):
        pose = torch.from_numpy(rng.normal(size=(frames, POINTS * 2)).astype(np.float32))
        data.append({"id": f"{split}_{number}", "hamnosys": hamnosys, "pose": {"data": pose, "length": frames}})
    return data
# --- pred.py
import torch


@torch.no_grad()
def pred(model, dataset):
    results = {}
    for datum in dataset:
        first_pose = datum["pose"]["data"][:1]
        frames = list(model.forward(text=datum["hamnosys"], first_pose=first_pose))
        sequence = frames[-1]
        results[datum["id"]] = (len(sequence), sequence.mean().item())
    return results
# --- model.py
import torch
from torch import nn

from dataset import POINTS


class IterativeTextGuidedPoseGenerationModel(nn.Module):
    def __init__(self, tokenizer, args):
        super().__init__()
        self.tokenizer, self.args = tokenizer, args
        self.embedding = nn.Embedding(tokenizer.vocab_size, args.hidden_dim, padding_idx=tokenizer.pad_token_id)
        self.step_embedding = nn.Embedding(args.num_steps, args.hidden_dim)
        self.frame_embedding = nn.Embedding(args.max_seq_size, args.hidden_dim)
        self.seq_length = nn.Linear(args.hidden_dim, 1)
        self.pose_projection = nn.Linear(POINTS * 2, args.hidden_dim, bias=False)
        self.pose_diff_projection = nn.Sequential(nn.Linear(args.hidden_dim, args.hidden_dim), nn.SiLU(), nn.Linear(args.hidden_dim, POINTS * 2))

    @property
    def device(self):
        return self.embedding.weight.device

    def encode_text(self, texts):
        tokenized = self.tokenizer(texts, device=self.device)
        encoding = self.embedding(tokenized).mean(dim=1)
        length = self.seq_length(encoding).abs().mul(20).clamp(2, self.args.max_seq_size)
        return encoding, int(length.item())

    def refine_pose_sequence(self, pose_sequence, text_encoding, step):
        positions = torch.arange(len(pose_sequence), device=self.device)
        steps = torch.full((len(pose_sequence),), step, device=self.device)
        x = self.pose_projection(pose_sequence)
        x = x + self.frame_embedding(positions) + self.step_embedding(steps) + text_encoding
        return self.pose_diff_projection(x)

    def forward(self, text, first_pose):
        """One sequence after another, each nearer to the sign than that before."""
        text_encoding, sequence_length = self.encode_text([text])
        pose_sequence = first_pose.expand(sequence_length, -1)
        for step in range(self.args.num_steps):
            change = self.refine_pose_sequence(pose_sequence, text_encoding, step)
            pose_sequence = pose_sequence + change / (step + 2)
            yield pose_sequence

# === layers_that_propose_boxes
# thread: https://github.com/open-mmlab/mmyolo/issues/437
# about: boxes are proposed by layers of several sizes. For each box in a picture it is noted which layer it is from; then those are kept that overlap a true box
# operation: index on cpu, cuda:0
# operands: self|_?from_which_layer|fg_mask_inboxes|indices|index
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# category: created-without-device
# line: assigner.py: _from_which_layer.append(torch.ones(
# line: assigner.py: _from_which_layer = torch.cat(
# line: assigner.py: _from_which_layer = _from_which_layer[fg_mask_inboxes]
# repair: assigner.py: _from_which_layer.append(torch.ones(size=(len(boxes),)) * i) -> _from_which_layer.append(torch.ones(size=(len(boxes),), device=boxes.device) * i)
import torch

from config import Config
from data import batches
from head import YOLOHead
from registry import TASK_UTILS

import assigner  # noqa: F401, it registers itself

cfg = Config.fromstring("""
model:
  strides: [4, 8]
  width: 6
train_cfg:
  assigner: {type: BatchYOLOv7Assigner, candidate_topk: 3}
  lr: 0.05
  max_iters: 3
seed: 11
""")


def main():
    torch.manual_seed(cfg.seed)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    head = YOLOHead(**cfg.model, assigner=TASK_UTILS.build(cfg.train_cfg["assigner"])).to(device)
    optimizer = torch.optim.SGD(head.parameters(), lr=cfg.train_cfg["lr"], foreach=False)
    log = []
    for images, gt_bboxes in batches(cfg.train_cfg["max_iters"], size=16, seed=cfg.seed):
        losses = head.loss(images.to(device), [bboxes.to(device) for bboxes in gt_bboxes])
        optimizer.zero_grad()
        losses["loss_bbox"].backward()
        optimizer.step()
        log.append((round(losses["loss_bbox"].item(), 4), losses["per_layer"]))
    print(*log)


if __name__ == "__main__":
    main()
# --- config.py
from types import SimpleNamespace

import yaml


class Config(SimpleNamespace):
    @classmethod
    def fromstring(cls, text):
        return cls(**yaml.safe_load(text))
# --- registry.py
class Registry:
    def __init__(self, name):
        self.name, self._modules = name, {}

    def register_module(self):
        def register(cls):
            self._modules[cls.__name__] = cls
            return cls

        return register

    def build(self, cfg):
        kwargs = dict(cfg)
        return self._modules[kwargs.pop("type")](**kwargs)


TASK_UTILS = Registry("task utils")
# --- data.py
import torch


def batches(count, size, seed):
    draw = torch.Generator().manual_seed(seed)
    for _ in range(count):
        images = torch.rand(2, 3, size, size, generator=draw)
        corners = torch.rand(2, 2, 2, generator=draw) * size / 2
        extents = 3 + torch.rand(2, 2, 2, generator=draw) * size / 2
        yield images, list(torch.cat([corners, corners + extents], dim=-1))
# --- head.py
import torch
from torch import nn


class YOLOHead(nn.Module):
    def __init__(self, strides, width, assigner):
        super().__init__()
        self.strides, self.assigner = strides, assigner
        self.stems = nn.ModuleList(nn.Conv2d(3, width, stride, stride) for stride in strides)
        self.preds = nn.ModuleList(nn.Conv2d(width, 4, 1) for _ in strides)

    def decode(self, pred, stride):
        height, width = pred.shape[-2:]
        rows = torch.arange(height, device=pred.device) * stride
        columns = torch.arange(width, device=pred.device) * stride
        y, x = torch.meshgrid(rows, columns, indexing="ij")
        centers = torch.stack([x, y], dim=-1) + stride / 2
        near, far = pred.permute(0, 2, 3, 1).exp().chunk(2, dim=-1)
        boxes = torch.cat([centers - near * stride, centers + far * stride], dim=-1)
        return boxes.flatten(1, 2)

    def loss(self, images, gt_bboxes):
        levels = [self.decode(pred(stem(images).relu()), s) for stem, pred, s in zip(self.stems, self.preds, self.strides)]
        total, counts = 0, [0] * len(levels)
        for number, bboxes in enumerate(gt_bboxes):
            with torch.no_grad():
                assigned = self.assigner([level[number] for level in levels], bboxes)
            for layer, (chosen, targets) in enumerate(assigned):
                counts[layer] += len(chosen)
                total = total + (levels[layer][number][chosen] - targets).abs().sum() / 16
        return {"loss_bbox": total, "per_layer": counts}
# --- assigner.py
import torch

from registry import TASK_UTILS


def bbox_overlaps(a, b):
    lower = torch.maximum(a[:, None, :2], b[None, :, :2])
    upper = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = (upper - lower).clamp(min=0).prod(dim=-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(dim=-1) for boxes in (a, b)]
    return shared / (areas[0][:, None] + areas[1][None, :] - shared)


@TASK_UTILS.register_module()
class BatchYOLOv7Assigner:
    def __init__(self, candidate_topk):
        self.candidate_topk = candidate_topk

    def __call__(self, level_boxes, gt_bboxes):
        _from_which_layer, numbers = [], []
        for i, boxes in enumerate(level_boxes):
            _from_which_layer.append(torch.ones(size=(len(boxes),)) * i)
            numbers.append(torch.arange(len(boxes), device=boxes.device))
        _from_which_layer = torch.cat(_from_which_layer, dim=0)
        numbers = torch.cat(numbers, dim=0)

        cost = -bbox_overlaps(gt_bboxes, torch.cat(level_boxes))
        matching_matrix = torch.zeros_like(cost)
        for row, each in zip(matching_matrix, cost):
            row[each.topk(self.candidate_topk, largest=False).indices] = 1
        fg_mask_inboxes = matching_matrix.sum(0) > 0
        matched_gt_inds = cost[:, fg_mask_inboxes].argmin(0)

        _from_which_layer = _from_which_layer[fg_mask_inboxes]
        numbers = numbers[fg_mask_inboxes]
        assigned = []
        for i in range(len(level_boxes)):
            layer_idx = _from_which_layer == i
            assigned.append((numbers[layer_idx], gt_bboxes[matched_gt_inds[layer_idx]]))
        return assigned

# === angles_no_map_names
# thread: https://github.com/OpenGVLab/InternVL/pull/789
# about: a model that sees and speaks is shared out to two GPUs by a map that is written by hand. Parameters have to be in it; the angles that turn queries and keys are none
# operation: bmm|matmul on cpu, cuda:0
# operands: self|.*inv_freq.*|mat2
# category: module-split|state-not-registered
# line: split.py: FIRST_GPU = (
# line: split.py: device_map = dict.fromkeys(
# line: modeling_internlm2.py: freqs = (inv_freq @
# line: modeling_internlm2.py: inv_freq = self.inv_freq[
# repair: split.py: FIRST_GPU = ("vision_model", "mlp1", "language_model.model.tok_embeddings", "language_model.output") -> FIRST_GPU = ("vision_model", "mlp1", "language_model.model.tok_embeddings", "language_model.output", "language_model.model.rotary_emb")
import torch
from accelerate import dispatch_model

from modeling_internvl_chat import InternVLChatModel, InternVLConfig
from split import split_model

IMG_CONTEXT = 1


def load(config):
    torch.manual_seed(2)
    model = InternVLChatModel(config).eval()
    if torch.cuda.device_count() > 1:
        model = dispatch_model(model, device_map=split_model(config))
    return model


def main():
    config = InternVLConfig(num_layers=5, hidden_size=12, vocab_size=20, tiles=2)
    model = load(config)
    draw = torch.Generator().manual_seed(2)
    pixel_values = torch.rand(config.tiles, 3, 8, 8, generator=draw)
    question = [4, 5] + [IMG_CONTEXT] * config.tiles + [9, 6]
    response = model.chat(pixel_values, torch.tensor([question]), IMG_CONTEXT, max_new_tokens=4)
    print("response", response)


if __name__ == "__main__":
    main()
# --- split.py
import math

import torch

FIRST_GPU = ("vision_model", "mlp1", "language_model.model.tok_embeddings", "language_model.output")


def split_model(config):
    """The first GPU has the eyes, too, so that it gets fewer layers."""
    world_size = torch.cuda.device_count()
    num_layers_per_gpu = math.ceil(config.num_layers / (world_size - 0.5))
    counts = [num_layers_per_gpu] * world_size
    counts[0] = math.ceil(counts[0] * 0.5)
    device_map = dict.fromkeys(FIRST_GPU, 0)
    layer = 0
    for gpu, count in enumerate(counts):
        for _ in range(count):
            if layer < config.num_layers:
                device_map[f"language_model.model.layers.{layer}"] = gpu
                layer += 1
    device_map[f"language_model.model.layers.{config.num_layers - 1}"] = 0
    device_map["language_model.model.norm"] = 0
    return device_map
# --- modeling_internlm2.py
import torch
from torch import nn


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    @torch.no_grad()
    def forward(self, x, position_ids):
        inv_freq = self.inv_freq[None, :, None].expand(position_ids.shape[0], -1, 1)
        freqs = (inv_freq @ position_ids[:, None, :].float()).transpose(1, 2)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(x.dtype), emb.sin().to(x.dtype)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class InternLM2DecoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.wqkv = nn.Linear(width, 3 * width, bias=False)
        self.wo = nn.Linear(width, width, bias=False)

    def forward(self, hidden_states, position_embeddings):
        q, k, v = self.wqkv(self.attention_norm(hidden_states)).chunk(3, dim=-1)
        q, k = (rotate(x, *position_embeddings) for x in (q, k))
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return hidden_states + self.wo(attended)


class InternLM2Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tok_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.rotary_emb = RotaryEmbedding(config.hidden_size)
        self.layers = nn.ModuleList(InternLM2DecoderLayer(config.hidden_size) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(config.hidden_size)

    def forward(self, inputs_embeds):
        position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device).unsqueeze(0)
        position_embeddings = self.rotary_emb(inputs_embeds, position_ids)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, position_embeddings)
        return self.norm(hidden_states)


class InternLM2ForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = InternLM2Model(config)
        self.output = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, inputs_embeds):
        return self.output(self.model(inputs_embeds)[:, -1])
# --- modeling_internvl_chat.py
from dataclasses import dataclass

import torch
from torch import nn

from modeling_internlm2 import InternLM2ForCausalLM


@dataclass
class InternVLConfig:
    num_layers: int
    hidden_size: int
    vocab_size: int
    tiles: int


class InternVLChatModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.vision_model = nn.Sequential(nn.Flatten(), nn.Linear(192, 10), nn.GELU())
        self.mlp1 = nn.Linear(10, config.hidden_size)
        self.language_model = InternLM2ForCausalLM(config)

    @torch.no_grad()
    def chat(self, pixel_values, input_ids, img_context_token_id, max_new_tokens):
        embed = self.language_model.model.tok_embeddings
        input_ids = input_ids.to(embed.weight.device)
        vit_embeds = self.mlp1(self.vision_model(pixel_values))
        inputs_embeds = embed(input_ids)
        inputs_embeds[input_ids == img_context_token_id] = vit_embeds.to(inputs_embeds.device)
        response = []
        for _ in range(max_new_tokens):
            token = self.language_model(inputs_embeds).argmax(dim=-1)
            response.append(token.item())
            inputs_embeds = torch.cat([inputs_embeds, embed(token.to(input_ids.device))[:, None]], dim=1)
        return response

# === patches_sent_to_the_gpu_anyway
# thread: https://github.com/tangh18/timesfm_torch/issues/5
# about: a model for series of any kind, read from a file, tells how they go on. How often they were measured is told by a number, for which there is an embedding
# operation: embedding|index_select on cpu, cuda:0
# operands: index|indices|input|freq.*
# category: default-or-current-device|module-split|input-not-moved
# line: timesfm.py: freq = torch.as_tensor(freq, dtype=torch.long).
# line: timesfm.py: f_emb = self.freq_emb(freq)
# repair: timesfm.py: freq = torch.as_tensor(freq, dtype=torch.long).reshape(-1, 1).to("cuda") -> freq = torch.as_tensor(freq, dtype=torch.long).reshape(-1, 1).to(self.freq_emb.weight.device)
import numpy as np

from forecast import forecast
from series import SERIES, evaluate


def main():
    contexts = [values[:-8] for values, _ in SERIES.values()]
    frequencies = [frequency for _, frequency in SERIES.values()]
    point_forecast = forecast(contexts, frequencies, horizon_len=8)
    for (name, (values, _)), predicted in zip(SERIES.items(), point_forecast):
        print(name, "mae", round(evaluate(values[-8:], predicted), 4))
    print("mean", round(float(np.mean(point_forecast)), 4))


if __name__ == "__main__":
    main()
# --- series.py
import numpy as np

hours = np.arange(40, dtype=np.float32)
SERIES = {
    "load": (10 + 3 * np.sin(hours / 4) + 0.1 * hours, 0),
    "sales": (50 + (hours % 7 == 0) * 20, 1),
    "level": (5 + 0.2 * np.cos(hours), 2),
}


def evaluate(true, predicted):
    return float(np.abs(true - predicted).mean())
# --- forecast.py
import io

import numpy as np
import torch

from patched_decoder import ResidualBlock
from timesfm import TimesFm, TimesFMConfig


def checkpoint():
    torch.manual_seed(31)
    file = io.BytesIO()
    torch.save(TimesFm(TimesFMConfig()).state_dict(), file)
    file.seek(0)
    return file


def load_from_checkpoint(file):
    model = TimesFm(TimesFMConfig())
    model.load_state_dict(torch.load(file, map_location="cpu"))
    count = sum(isinstance(module, ResidualBlock) for module in model.modules())
    print("loaded", count, "residual blocks")
    return model.eval()


def forecast(contexts, frequencies, horizon_len):
    model = load_from_checkpoint(checkpoint())
    input_ts = torch.tensor(np.stack(contexts), dtype=torch.float32)
    with torch.no_grad():
        predicted = model.decode(input_ts, frequencies, horizon_len)
    return predicted.cpu().numpy()
# --- patched_decoder.py
from torch import nn


class ResidualBlock(nn.Module):
    def __init__(self, input_dims, hidden_dims, output_dims):
        super().__init__()
        self.hidden_layer = nn.Sequential(nn.Linear(input_dims, hidden_dims), nn.SiLU())
        self.output_layer = nn.Linear(hidden_dims, output_dims)
        self.residual_layer = nn.Linear(input_dims, output_dims)

    def forward(self, x):
        return self.output_layer(self.hidden_layer(x)) + self.residual_layer(x)


class StackedDecoder(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            q, k, v = layer(x).chunk(3, dim=-1)
            x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x
# --- timesfm.py
from dataclasses import dataclass

import torch
from torch import nn

from patched_decoder import ResidualBlock, StackedDecoder


@dataclass
class TimesFMConfig:
    patch_len: int = 8
    horizon_len: int = 8
    hidden_size: int = 16
    num_layers: int = 2
    frequencies: int = 3


class TimesFm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.input_ff_layer = ResidualBlock(2 * config.patch_len, 16, config.hidden_size)
        self.freq_emb = nn.Embedding(config.frequencies, config.hidden_size)
        self.stacked_transformer = StackedDecoder(config.hidden_size, config.num_layers)
        self.horizon_ff_layer = ResidualBlock(config.hidden_size, 16, config.horizon_len)

    def forward(self, input_ts, input_padding, freq):
        patched = input_ts.unflatten(1, (-1, self.config.patch_len))
        padded = input_padding.unflatten(1, (-1, self.config.patch_len))
        mu, sigma = patched[:, 0].mean(-1), patched[:, 0].std(-1) + 1e-3
        patched = (patched - mu[:, None, None]) / sigma[:, None, None]
        model_input = self.input_ff_layer(torch.cat([patched, padded], dim=-1))
        freq = torch.as_tensor(freq, dtype=torch.long).reshape(-1, 1).to("cuda")
        f_emb = self.freq_emb(freq)
        model_output = self.stacked_transformer(model_input + f_emb)
        return self.horizon_ff_layer(model_output[:, -1]) * sigma[:, None] + mu[:, None]

    def decode(self, input_ts, freq, horizon_len):
        outputs = []
        for _ in range(0, horizon_len, self.config.horizon_len):
            predicted = self.forward(input_ts, torch.zeros_like(input_ts), freq)
            outputs.append(predicted)
            input_ts = torch.cat([input_ts, predicted], dim=1)
        return torch.cat(outputs, dim=1)[:, :horizon_len]

# === time_of_a_trend
# thread: https://github.com/ServiceNow/N-BEATS/issues/18
# about: a series is taken apart into a trend and what comes again. Each part is a sum of functions of time, which are known before; a network says how much there is of each
# operation: einsum|bmm|mm|matmul on cuda:0, cpu
# operands: mat2|operands|.*_basis.*
# category: state-not-registered
# line: nbeats.py: self.backcast_basis = powers(
# line: nbeats.py: self.forecast_basis = powers(
# line: nbeats.py: class TrendBasis:
# line: nbeats.py: forecast = torch.einsum(
# line: nbeats.py: backcast = torch.einsum(
# repair: nbeats.py: backcast = torch.einsum("bp,pt->bt", theta[:, self.size :], self.backcast_basis) -> backcast = torch.einsum("bp,pt->bt", theta[:, self.size :], self.backcast_basis.to(theta.device))
# repair: nbeats.py: forecast = torch.einsum("bp,pt->bt", theta[:, : self.size], self.forecast_basis) -> forecast = torch.einsum("bp,pt->bt", theta[:, : self.size], self.forecast_basis.to(theta.device))
import numpy as np
import torch

from experiment import instance
from sampler import TimeseriesSampler
from trainer import trainer

MODEL = {"input_size": 12, "output_size": 4, "trend_degree": 2, "harmonics": 2, "layers": 2, "layer_size": 16}
TRAIN = {"iterations": 6, "learning_rate": 0.01}

np.random.seed(0)
torch.manual_seed(0)
months = np.arange(48)
timeseries = [20 + 0.3 * months + 4 * np.sin(months / 2), 35 - 0.2 * months, 12 + (months % 12)]
training_set = TimeseriesSampler(timeseries, MODEL["input_size"], MODEL["output_size"], batch_size=4)
model = trainer(model=instance(**MODEL), training_set=iter(training_set), **TRAIN)
x, x_mask = training_set.last_insample_window()
with torch.no_grad():
    forecast = model(x, x_mask)
print("forecast", forecast.mean(dim=1).cpu().round(decimals=3).tolist())
# --- torch_utils.py
import torch


def default_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def to_device(thing):
    return thing.to(default_device())


def to_tensor(array):
    return to_device(torch.tensor(array, dtype=torch.float32))
# --- sampler.py
import numpy as np

from torch_utils import to_tensor


class TimeseriesSampler:
    def __init__(self, timeseries, insample_size, outsample_size, batch_size):
        self.timeseries = timeseries
        self.insample_size, self.outsample_size = insample_size, outsample_size
        self.batch_size = batch_size

    def __iter__(self):
        while True:
            insample = np.zeros((self.batch_size, self.insample_size))
            outsample = np.zeros((self.batch_size, self.outsample_size))
            for row, which in enumerate(np.random.randint(len(self.timeseries), size=self.batch_size)):
                series = self.timeseries[which]
                cut = np.random.randint(self.insample_size, len(series) - self.outsample_size)
                insample[row] = series[cut - self.insample_size : cut]
                outsample[row] = series[cut : cut + self.outsample_size]
            yield insample, np.ones_like(insample), outsample, np.ones_like(outsample)

    def last_insample_window(self):
        insample = np.stack([series[-self.insample_size :] for series in self.timeseries])
        return to_tensor(insample), to_tensor(np.ones_like(insample))
# --- nbeats.py
import torch
from torch import nn


def powers(degree, size):
    time = torch.arange(size, dtype=torch.float32) / size
    return torch.stack([time**power for power in range(degree + 1)])


class TrendBasis:
    """A polynomial; what comes before and what comes after have their own time."""

    def __init__(self, degree, backcast_size, forecast_size):
        self.size = degree + 1
        self.backcast_basis = powers(degree, backcast_size)
        self.forecast_basis = powers(degree, forecast_size)

    def __call__(self, theta):
        backcast = torch.einsum("bp,pt->bt", theta[:, self.size :], self.backcast_basis)
        forecast = torch.einsum("bp,pt->bt", theta[:, : self.size], self.forecast_basis)
        return backcast, forecast


class SeasonalityBasis(nn.Module):
    def __init__(self, harmonics, backcast_size, forecast_size):
        super().__init__()
        self.size = 2 * harmonics
        waves = 2 * torch.pi * torch.arange(1, harmonics + 1)[:, None] / forecast_size
        for name, size in (("backcast", backcast_size), ("forecast", forecast_size)):
            angles = waves * torch.arange(size)
            basis = torch.cat([angles.cos(), angles.sin()])
            self.register_parameter(name, nn.Parameter(basis, requires_grad=False))

    def forward(self, theta):
        return theta[:, self.size :] @ self.backcast, theta[:, : self.size] @ self.forecast


class NBeatsBlock(nn.Module):
    def __init__(self, input_size, basis_function, layers, layer_size):
        super().__init__()
        sizes = [input_size] + [layer_size] * layers
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.basis_parameters = nn.Linear(layer_size, 2 * basis_function.size)
        self.basis_function = basis_function

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.basis_function(self.basis_parameters(x))


class NBeats(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks

    def forward(self, x, input_mask):
        level = x[:, -1:]
        residuals, forecast = (x / level).flip(dims=(1,)), 1
        for block in self.blocks:
            backcast, block_forecast = block(residuals)
            residuals = (residuals - backcast) * input_mask.flip(dims=(1,))
            forecast = forecast + block_forecast
        return forecast * level
# --- experiment.py
from torch import nn

from nbeats import NBeats, NBeatsBlock, SeasonalityBasis, TrendBasis


def instance(input_size, output_size, trend_degree, harmonics, layers, layer_size):
    trend = TrendBasis(trend_degree, input_size, output_size)
    seasonality = SeasonalityBasis(harmonics, input_size, output_size)
    blocks = [NBeatsBlock(input_size, basis, layers, layer_size) for basis in (trend, seasonality)]
    return NBeats(nn.ModuleList(blocks))
# --- trainer.py
import torch

from torch_utils import to_device, to_tensor


def smape(forecast, target, mask):
    weights = 200 * mask / (target.abs() + forecast.detach().abs())
    return ((forecast - target).abs() * weights).mean()


def trainer(model, training_set, iterations, learning_rate):
    model = to_device(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, foreach=False)
    for _ in range(iterations):
        x, x_mask, y, y_mask = map(to_tensor, next(training_set))
        loss = smape(model(x, x_mask), y, y_mask)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()
    return model

# === speech_that_comes_in_chunks
# thread: https://github.com/pengzhendong/streaming-sensevoice/pull/1
# about: speech is understood while it comes, a chunk at a time. A few learned vectors that ask for language and mood stand before each chunk; how long it is tells what is not to be seen
# operation: mul on cuda:0, cpu
# operands: other|mask|masks|.*lengths.*
# category: created-without-device|input-not-moved
# line: streaming_sensevoice.py: speech_lengths = torch.tensor(
# line: streaming_sensevoice.py: text = self.model.inference(
# line: sense_voice.py: masks = sequence_mask(
# repair: streaming_sensevoice.py: speech_lengths = torch.tensor([speech.shape[1]]) -> speech_lengths = torch.tensor([speech.shape[1]], device=self.device)
import argparse
import math

import torch

from streaming_sensevoice import StreamingSenseVoice


def microphone(seconds, rate=800, step=0.25):
    """Two tones, one after the other, in pieces as a sound card gives them."""
    samples = [math.sin(i * (0.3 if i < seconds * rate / 2 else 0.9)) for i in range(int(seconds * rate))]
    size = int(step * rate)
    for start in range(0, len(samples), size):
        yield samples[start : start + size]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chunk-size", type=int, default=6)
    parser.add_argument("--padding", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    torch.manual_seed(19)
    recognizer = StreamingSenseVoice(args.chunk_size, args.padding, args.device)
    heard = []
    for samples in microphone(args.seconds):
        for result in recognizer.streaming_inference(samples):
            heard.append(result)
    print("heard", "".join(heard), "of", recognizer.frames, "frames")


if __name__ == "__main__":
    main()
# --- frontend.py
import torch


class OnlineFbank:
    """Energies of a few bands; what does not fill a frame waits for more."""

    def __init__(self, window_size=40, bands=8):
        self.window_size, self.bands = window_size, bands
        self.waiting = []

    def accept_waveform(self, samples):
        self.waiting += samples

    def get_frames(self):
        count = len(self.waiting) // self.window_size
        taken = self.waiting[: count * self.window_size]
        self.waiting = self.waiting[count * self.window_size :]
        if not count:
            return torch.zeros(0, self.bands)
        spectrum = torch.fft.rfft(torch.tensor(taken).view(count, -1)).abs()
        return spectrum[:, : self.bands * 2].view(count, self.bands, 2).sum(-1).add(1e-3).log()
# --- sense_voice.py
import torch
from torch import nn


def sequence_mask(lengths, maxlen=None):
    maxlen = lengths.max() if maxlen is None else maxlen
    row_vector = torch.arange(0, maxlen, device=lengths.device)
    return (row_vector < lengths.unsqueeze(-1)).float()


class MemoryBlock(nn.Module):
    """An attention that is only a filter over time, with what went in added."""

    def __init__(self, width, kernel_size=3):
        super().__init__()
        self.fsmn_block = nn.Conv1d(width, width, kernel_size, groups=width, padding=kernel_size // 2, bias=False)
        self.feed_forward = nn.Linear(width, width)

    def forward(self, inputs, mask):
        inputs = inputs * mask
        x = self.fsmn_block(inputs.transpose(1, 2)).transpose(1, 2)
        return (torch.relu(self.feed_forward(x + inputs)) + inputs) * mask


class SenseVoiceSmall(nn.Module):
    def __init__(self, bands, width, vocabulary, queries=2):
        super().__init__()
        self.vocabulary, self.queries = vocabulary, queries
        self.embed = nn.Embedding(queries, bands)
        self.proj = nn.Linear(bands, width)
        self.encoders = nn.ModuleList(MemoryBlock(width) for _ in range(2))
        self.ctc_lo = nn.Linear(width, len(vocabulary) + 1)

    def encode(self, speech, speech_lengths):
        xs_pad = self.proj(speech)
        masks = sequence_mask(speech_lengths, maxlen=xs_pad.shape[1])[:, :, None]
        for encoder in self.encoders:
            xs_pad = encoder(xs_pad, masks)
        return xs_pad

    @torch.no_grad()
    def inference(self, speech, speech_lengths):
        queries = self.embed(torch.arange(self.queries, device=speech.device)).unsqueeze(0)
        speech = torch.cat([queries, speech], dim=1)
        speech_lengths = speech_lengths + self.queries
        best = self.ctc_lo(self.encode(speech, speech_lengths))[0, self.queries :].argmax(dim=-1)
        best = torch.unique_consecutive(best).tolist()
        return "".join(self.vocabulary[token - 1] for token in best if token)
# --- streaming_sensevoice.py
import torch

from frontend import OnlineFbank
from sense_voice import SenseVoiceSmall


class StreamingSenseVoice:
    def __init__(self, chunk_size, padding, device):
        self.chunk_size, self.padding, self.device = chunk_size, padding, device
        self.fbank = OnlineFbank()
        self.model = SenseVoiceSmall(self.fbank.bands, width=12, vocabulary="aeioubdg").to(device).eval()
        self.cache = torch.zeros(padding, self.fbank.bands)
        self.frames = 0

    def streaming_inference(self, samples):
        self.fbank.accept_waveform(samples)
        features = self.fbank.get_frames()
        for chunk in features.split(self.chunk_size):
            if not len(chunk):
                continue
            self.frames += len(chunk)
            speech = torch.cat([self.cache, chunk]).unsqueeze(0).to(self.device)
            speech_lengths = torch.tensor([speech.shape[1]])
            text = self.model.inference(speech, speech_lengths)
            self.cache = speech[0, -self.padding :].cpu()
            yield text

# === where_a_module_is_placed
# thread: https://github.com/Thinklab-SJTU/EDA-AI/issues/21
# about: modules of a chip are placed one after another by a policy. Where it wants to place one is a number that comes from the GPU; the board knows what is taken
# operation: index on cpu, cuda:0
# operands: indices|index|x|y|self|ob
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# category: input-not-moved
# line: place_env.py: x = action // self.n
# line: place_env.py: y = action % self.n
# line: vec_env.py: obs, done, reward = env.step(action)
# line: main.py: obs, done, reward = envs.step(action)
# repair: vec_env.py: obs, done, reward = env.step(action) -> obs, done, reward = env.step(action.cpu())
import argparse

import torch

from algo import ReinforceAgent
from model import Policy
from place_env import PlaceEnv
from vec_env import VecPyTorch


def get_args():
    parser = argparse.ArgumentParser(description="placement")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-cuda", action="store_true", default=False)
    parser.add_argument("--grid", type=int, default=5)
    parser.add_argument("--num-processes", type=int, default=1)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()
    args.cuda = not args.no_cuda and torch.cuda.is_available()
    return args


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    device = torch.device("cuda:0" if args.cuda else "cpu")
    netlist = [(0, 1), (1, 2), (2, 3), (0, 3)]
    envs = VecPyTorch([PlaceEnv(args.grid, netlist) for _ in range(args.num_processes)], device)
    actor = Policy(args.grid).to(device)
    agent = ReinforceAgent(actor, args.lr)

    returns = []
    for _ in range(args.updates):
        obs = envs.reset()
        log_probs, done = [], False
        while not done:
            action, action_log_prob = actor.act(obs)
            obs, done, reward = envs.step(action)
            log_probs.append(action_log_prob)
        agent.update(torch.stack(log_probs), reward)
        returns.append(round(reward.mean().item(), 3))
    print("returns", returns)


if __name__ == "__main__":
    main()
# --- model.py
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, grid):
        super().__init__()
        self.base = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * grid**2, grid**2))

    def act(self, inputs):
        logits = self.base(inputs)
        logits = logits.masked_fill(inputs.flatten(1) >= 1, -1e9)
        dist = torch.distributions.Categorical(logits=logits)
        action = dist.sample()
        return action.unsqueeze(-1), dist.log_prob(action)
# --- algo.py
import torch


class ReinforceAgent:
    def __init__(self, actor, lr):
        self.optimizer = torch.optim.RMSprop(actor.parameters(), lr=lr, foreach=False)
        self.baseline = None

    def update(self, log_probs, reward):
        self.baseline = reward if self.baseline is None else 0.9 * self.baseline + 0.1 * reward
        loss = -((reward - self.baseline) * log_probs).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
# --- vec_env.py
import torch


class VecPyTorch:
    """Some boards that are filled at the same pace."""

    def __init__(self, envs, device):
        self.envs, self.device = envs, device

    def reset(self):
        return torch.stack([env.reset() for env in self.envs]).to(self.device)

    def step(self, actions):
        results = []
        for env, action in zip(self.envs, actions):
            obs, done, reward = env.step(action)
            results.append((obs, done, reward))
        obs, dones, rewards = zip(*results)
        return torch.stack(obs).to(self.device), all(dones), torch.tensor(rewards, device=self.device)
# --- place_env.py
import torch


def search(ob, x, y, depth, n):
    """The cell itself, or if it is taken the next that is free."""
    if ob[x, y] < 1.0:
        return x, y
    if depth > n * n:
        raise RuntimeError("the board is full")
    y = y + 1
    return search(ob, (x + y // n) % n, y % n, depth + 1, n)


class PlaceEnv:
    def __init__(self, n, netlist):
        self.n, self.netlist = n, netlist
        self.count = 1 + max(max(net) for net in netlist)

    def reset(self):
        self.obs = torch.zeros(1, self.n, self.n)
        self.results = []
        return self.obs.clone()

    def wirelength(self):
        total = 0
        for a, b in self.netlist:
            (ax, ay), (bx, by) = self.results[a], self.results[b]
            total += abs(ax - bx) + abs(ay - by)
        return total

    def step(self, action):
        x = action // self.n
        y = action % self.n
        x, y = search(self.obs[0], x, y, 0, self.n)
        self.obs[0, x, y] = 1.0
        self.results.append((int(x), int(y)))
        done = len(self.results) == self.count
        reward = -0.1 * self.wirelength() if done else 0.0
        return self.obs.clone(), done, reward

# === channels_nobody_needs
# thread: https://github.com/VainF/Torch-Pruning/issues/344
# about: channels that count for little are taken out of a network. Which layers hang together is found by an example that runs through the network
# operation: conv.*|.*convolution.* on cpu, cuda:0
# operands: input|.*, weight|.*weight.*
# error: Input type \(torch.FloatTensor\) and weight type \(torch.cuda.FloatTensor\) should be the same|on the same device
# category: created-without-device|input-not-moved
# line: prune.py: example_inputs = torch.randn(
# line: dependency.py: model(example_inputs)
# line: pruner.py: self.DG = DependencyGraph().build_dependency(
# repair: prune.py: example_inputs = torch.randn(1, 3, 8, 8) -> example_inputs = torch.randn(1, 3, 8, 8, device=next(model.parameters()).device)
import torch

from prune import finetune, progressive_pruning
from resnet import build_model
from settings import get_args


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    model = build_model(width=args.width, num_classes=args.classes).to(device)
    draw = torch.Generator().manual_seed(args.seed)
    images = torch.randn(8, 3, 8, 8, generator=draw).to(device)
    labels = torch.randint(0, args.classes, (8,), generator=draw).to(device)

    before = sum(p.numel() for p in model.parameters())
    finetune(model, images, labels, steps=2)
    model = progressive_pruning(model, args.pruning_ratio)
    losses = finetune(model, images, labels, steps=2)
    after = sum(p.numel() for p in model.parameters())
    print("parameters", before, "->", after, "losses", [round(loss, 4) for loss in losses])


if __name__ == "__main__":
    main()
# --- settings.py
import argparse

import torch


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--classes", type=int, default=4)
    parser.add_argument("--pruning-ratio", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()
# --- resnet.py
from torch import nn


def build_model(width, num_classes):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, num_classes),
    )
# --- dependency.py
import torch
from torch import nn


class DependencyGraph:
    """Which layer puts channels out, and which are the next that take them in."""

    def build_dependency(self, model, example_inputs):
        order, handles = [], []
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.BatchNorm2d, nn.Linear)):
                handles.append(module.register_forward_hook(lambda module, inputs, output: order.append(module)))
        training = model.training
        model.eval()
        with torch.no_grad():
            model(example_inputs)
        model.train(training)
        for handle in handles:
            handle.remove()
        self.groups, root = [], None
        for module in order:
            if root is not None:
                self.groups[-1].append(module)
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                root = module
                self.groups.append([root])
        self.groups.pop()  # what comes last tells the classes
        return self
# --- pruner.py
import torch
from torch import nn

from dependency import DependencyGraph


class MagnitudePruner:
    def __init__(self, model, example_inputs, pruning_ratio):
        self.DG = DependencyGraph().build_dependency(model, example_inputs)
        self.pruning_ratio = pruning_ratio

    def keep(self, root):
        importance = root.weight.detach().flatten(1).norm(dim=1)
        count = round(len(importance) * (1 - self.pruning_ratio))
        return importance.topk(count).indices.sort().values

    def step(self):
        for root, *others in self.DG.groups:
            idxs = self.keep(root)
            root.weight = nn.Parameter(root.weight.detach()[idxs])
            root.out_channels = len(idxs)
            for other in others:
                if isinstance(other, nn.BatchNorm2d):
                    for name in ("running_mean", "running_var"):
                        setattr(other, name, getattr(other, name)[idxs])
                    other.weight = nn.Parameter(other.weight.detach()[idxs])
                    other.bias = nn.Parameter(other.bias.detach()[idxs])
                    other.num_features = len(idxs)
                else:
                    other.weight = nn.Parameter(other.weight.detach()[:, idxs])
# --- prune.py
import torch

from pruner import MagnitudePruner


def progressive_pruning(model, ratio):
    example_inputs = torch.randn(1, 3, 8, 8)
    pruner = MagnitudePruner(model, example_inputs, ratio)
    pruner.step()
    return model


def finetune(model, images, labels, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=False)
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

# === labels_that_are_seldom
# thread: https://github.com/Nacriema/Loss-Functions-For-Semantic-Segmentation/pull/1
# about: in a picture of organs few points are of the small ones. A loss weights each class by how seldom it is, and puts together two parts, of overlap and of entropy
# operation: gather on cpu, cuda:0
# operands: self|input|w_l|.*class_weights.*|index
# category: created-without-device
# line: exp_log_loss.py: w_l = torch.tensor(
# line: exp_log_loss.py: weights = w_l.gather(
# repair: exp_log_loss.py: w_l = torch.tensor(self.class_weights) -> w_l = torch.tensor(self.class_weights, device=label.device)
import torch

from losses import build_loss
from train import train
from unet import TinyUNet

EXPERIMENT = {
    "classes": 3,
    "loss": {"name": "exp_log", "w_dice": 0.8, "w_cross": 0.2, "gamma": 0.3},
    "epochs": 3,
    "lr": 0.05,
}


def phantoms(count, size):
    """A large organ, and a small one in it."""
    draw = torch.Generator().manual_seed(14)
    masks = torch.zeros(count, size, size, dtype=torch.long)
    for mask, (row, column) in zip(masks, torch.randint(1, size - 5, (count, 2), generator=draw).tolist()):
        mask[row : row + 5, column : column + 5] = 1
        mask[row + 2, column + 2 : column + 4] = 2
    images = masks.unsqueeze(1).float() + 0.2 * torch.randn(count, 1, size, size, generator=draw)
    return images, masks


if __name__ == "__main__":
    torch.manual_seed(14)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, masks = phantoms(count=6, size=12)
    frequencies = masks.flatten().bincount(minlength=EXPERIMENT["classes"]).tolist()
    model = TinyUNet(EXPERIMENT["classes"]).to(device)
    loss_fn = build_loss(frequencies=frequencies, **EXPERIMENT["loss"])
    history = train(model, loss_fn, images, masks, device, EXPERIMENT["epochs"], EXPERIMENT["lr"])
    print("history", history)
# --- losses.py
from exp_log_loss import ExponentialLogarithmicLoss
from sensitivity import SensitivitySpecificityLoss

LOSSES = {"exp_log": ExponentialLogarithmicLoss, "sensitivity_specificity": SensitivitySpecificityLoss}


def build_loss(name, frequencies, **kwargs):
    total = sum(frequencies)
    class_weights = [(total / max(count, 1)) ** 0.5 for count in frequencies]
    return LOSSES[name](class_weights=class_weights, **kwargs)
# --- sensitivity.py
import torch
from torch import nn
from torch.nn import functional as F


class SensitivitySpecificityLoss(nn.Module):
    def __init__(self, class_weights, alpha=0.5):
        super().__init__()
        self.register_buffer("weight", torch.tensor(class_weights))
        self.alpha = alpha

    def forward(self, logits, label):
        true = F.one_hot(label, logits.shape[1]).movedim(-1, 1).float()
        error = (true - logits.softmax(dim=1)) ** 2
        axes = (0, 2, 3)
        sensitivity = (error * true).sum(axes) / (true.sum(axes) + 1e-5)
        specificity = (error * (1 - true)).sum(axes) / ((1 - true).sum(axes) + 1e-5)
        return (self.weight * (self.alpha * sensitivity + (1 - self.alpha) * specificity)).mean()
# --- exp_log_loss.py
import torch
from torch import nn
from torch.nn import functional as F


class ExponentialLogarithmicLoss(nn.Module):
    def __init__(self, class_weights, w_dice, w_cross, gamma):
        super().__init__()
        self.class_weights = class_weights
        self.w_dice, self.w_cross, self.gamma = w_dice, w_cross, gamma

    def exp_dice(self, probabilities, label):
        true = F.one_hot(label, probabilities.shape[1]).movedim(-1, 1).float()
        shared = (probabilities * true).sum(dim=(2, 3))
        dice = (2 * shared + 1) / (probabilities.sum(dim=(2, 3)) + true.sum(dim=(2, 3)) + 1)
        return ((-dice.log()).clamp(min=1e-6) ** self.gamma).mean()

    def exp_cross_entropy(self, probabilities, label):
        w_l = torch.tensor(self.class_weights)
        weights = w_l.gather(0, label.flatten())
        p_l = probabilities.gather(1, label.unsqueeze(1)).flatten()
        return (weights * (-p_l.clamp(1e-6, 1 - 1e-6).log()) ** self.gamma).mean()

    def forward(self, logits, label):
        probabilities = logits.softmax(dim=1)
        l_dice = self.exp_dice(probabilities, label)
        l_cross = self.exp_cross_entropy(probabilities, label)
        return self.w_dice * l_dice + self.w_cross * l_cross
# --- unet.py
import torch
from torch import nn


class TinyUNet(nn.Module):
    def __init__(self, classes, width=6):
        super().__init__()
        self.enter = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.Conv2d(width, width, 2, stride=2)
        self.up = nn.ConvTranspose2d(width, width, 2, stride=2)
        self.out = nn.Conv2d(2 * width, classes, 1)

    def forward(self, x):
        skip = torch.relu(self.enter(x))
        deep = torch.relu(self.down(skip))
        return self.out(torch.cat([skip, self.up(deep)], dim=1))
# --- train.py
import torch
from torch.utils.data import DataLoader, TensorDataset


def train(model, loss_fn, images, masks, device, epochs, lr):
    loader = DataLoader(TensorDataset(images, masks), batch_size=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, foreach=False)
    loss_fn = loss_fn.to(device)
    history = []
    for _ in range(epochs):
        total = 0.0
        for image, mask in loader:
            loss = loss_fn(model(image.to(device)), mask.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        history.append(round(total / len(loader), 4))
    return history

# === a_projection_of_its_own
# thread: https://github.com/QwenLM/Qwen-VL/issues/476
# about: a model for pictures and words is shared out to two GPUs as room is. What sees is cut in two, and has a matrix that is no layer, but a parameter of its own
# operation: mm|matmul on cuda:1, cuda:0
# operands: mat2|other|.*proj
# category: module-split
# line: visual.py: x = x @ self.proj
# line: main.py: device_map = device_map_of(
# line: visual.py: self.proj = nn.Parameter(
# repair: visual.py: x = x @ self.proj -> x = x @ self.proj.to(x.device)
import tempfile
from pathlib import Path

import torch
from accelerate import init_empty_weights, load_checkpoint_and_dispatch
from safetensors.torch import save_file

from chat import from_list_format
from device_map import device_map_of
from modeling_qwen import QWenLMHeadModel


def saved_weights(folder):
    torch.manual_seed(7)
    path = Path(folder) / "model.safetensors"
    save_file(QWenLMHeadModel().state_dict(), path)
    return path


def main():
    with init_empty_weights():
        model = QWenLMHeadModel()
    device_map = device_map_of(model, no_split_module_classes=("QWenBlock", "VisualAttentionBlock"))
    with tempfile.TemporaryDirectory() as folder:
        model = load_checkpoint_and_dispatch(model, str(saved_weights(folder)), device_map=device_map).eval()

    image = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(7))
    query = from_list_format([{"image": image}, {"text": "who is it"}])
    response = model.chat(query, max_new_tokens=4)
    print("response", response)


if __name__ == "__main__":
    main()
# --- device_map.py
import torch


def device_map_of(model, no_split_module_classes):
    """One after the other, in the order they are in, until half of the numbers are on the first GPU."""
    total = sum(p.numel() for p in model.parameters())
    second = 1 if torch.cuda.device_count() > 1 else 0
    used, device_map = 0, {}

    def place(name, module):
        nonlocal used
        children = list(module.named_children())
        if not children or type(module).__name__ in no_split_module_classes:
            device_map[name] = 0 if used < total / 2 else second
            used += sum(p.numel() for p in module.parameters())
            return
        for parameter_name, parameter in module.named_parameters(recurse=False):
            device_map[f"{name}.{parameter_name}".lstrip(".")] = 0 if used < total / 2 else second
            used += parameter.numel()
        for child_name, child in children:
            place(f"{name}.{child_name}".lstrip("."), child)

    place("", model)
    return device_map
# --- chat.py
import torch

WORDS = "<img> </img> who is it a cat dog no one".split()


def from_list_format(parts):
    ids, images = [], []
    for part in parts:
        if "image" in part:
            ids += [WORDS.index("<img>")] * 2 + [WORDS.index("</img>")]
            images.append(part["image"])
        else:
            ids += [WORDS.index(word) for word in part["text"].split()]
    return {"input_ids": torch.tensor([ids]), "images": torch.cat(images)}
# --- visual.py
import torch
from torch import nn


class VisualAttentionBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.in_proj = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = self.in_proj(self.ln_1(x)).chunk(3, dim=-1)
        return x + nn.functional.scaled_dot_product_attention(q, k, v)


class VisionTransformer(nn.Module):
    def __init__(self, width, layers, output_dim):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 4, stride=4, bias=False)
        self.blocks = nn.ModuleList(VisualAttentionBlock(width) for _ in range(layers))
        self.ln_post = nn.LayerNorm(width)
        self.proj = nn.Parameter(width**-0.5 * torch.randn(width, output_dim))

    def forward(self, x):
        x = self.conv1(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        x = self.ln_post(x).unflatten(1, (2, 2)).mean(dim=2)
        x = x @ self.proj
        return x
# --- modeling_qwen.py
import torch
from torch import nn

from chat import WORDS
from visual import VisionTransformer


class QWenBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.mlp = nn.Linear(width, width)

    def forward(self, hidden_states):
        q, k, v = self.c_attn(hidden_states).chunk(3, dim=-1)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return hidden_states + self.mlp(attended)


class QWenLMHeadModel(nn.Module):
    def __init__(self, width=8, layers=1):
        super().__init__()
        self.wte = nn.Embedding(len(WORDS), width)
        self.visual = VisionTransformer(width=12, layers=4, output_dim=width)
        self.h = nn.ModuleList(QWenBlock(width) for _ in range(layers))
        self.lm_head = nn.Linear(width, len(WORDS), bias=False)

    def forward(self, input_ids, images):
        hidden_states = self.wte(input_ids)
        hidden_states[input_ids == WORDS.index("<img>")] = self.visual(images).flatten(0, 1).to(hidden_states.device)
        for block in self.h:
            hidden_states = block(hidden_states)
        return self.lm_head(hidden_states[:, -1])

    @torch.no_grad()
    def chat(self, query, max_new_tokens):
        input_ids = query["input_ids"].to(self.wte.weight.device)
        for _ in range(max_new_tokens):
            token = self(input_ids, query["images"]).argmax(dim=-1, keepdim=True)
            input_ids = torch.cat([input_ids, token.to(input_ids.device)], dim=1)
        return " ".join(WORDS[token] for token in input_ids[0, -max_new_tokens:].tolist())

# === messages_of_a_new_memory
# thread: https://github.com/pyg-team/pytorch_geometric/issues/8926
# about: a memory of each node of a graph takes in what happened to it, when next it is asked or when the training pauses. To begin with, nothing has happened, and an empty message is stored for each
# operation: sub on cpu, cuda:0
# operands: self|t|other|.*last_update.*
# category: cached-state|state-not-registered
# line: tgn.py: t = torch.cat(t, dim=0)
# line: tgn.py: src = torch.cat(src, dim=0)
# line: tgn.py: raw_msg = torch.cat(raw_msg, dim=0)
# line: tgn.py: self.__reset_message_store__()  # as nothing
# repair: tgn.py: t = torch.cat(t, dim=0) -> t = torch.cat(t, dim=0).to(self.last_update.device)
# repair: tgn.py: src = torch.cat(src, dim=0) -> src = torch.cat(src, dim=0).to(self.last_update.device)
# repair: tgn.py: raw_msg = torch.cat(raw_msg, dim=0) -> raw_msg = torch.cat(raw_msg, dim=0).to(self.last_update.device)
import torch

from events import TemporalData
from train import evaluate, set_up, train_epoch

torch.manual_seed(26)
data = TemporalData.random(num_nodes=6, num_events=24, msg_dim=3, seed=26)
train_data, val_data = data[:16], data[16:]
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
memory, predictor, optimizer = set_up(num_nodes=6, msg_dim=3, device=device)
scores = [evaluate(memory, predictor, val_data.to(device))]
for epoch in range(2):
    train_epoch(memory, predictor, optimizer, train_data.to(device))
    scores.append(evaluate(memory, predictor, val_data.to(device)))
print("scores", [round(score, 4) for score in scores])
# --- events.py
from dataclasses import dataclass, fields

import torch


@dataclass
class TemporalData:
    src: torch.Tensor
    dst: torch.Tensor
    t: torch.Tensor
    msg: torch.Tensor

    @classmethod
    def random(cls, num_nodes, num_events, msg_dim, seed):
        draw = torch.Generator().manual_seed(seed)
        src, dst = torch.randint(0, num_nodes, (2, num_events), generator=draw)
        t = torch.randint(1, 5, (num_events,), generator=draw).cumsum(0)
        return cls(src, dst, t, torch.randn(num_events, msg_dim, generator=draw))

    def _map(self, function):
        return TemporalData(*(function(getattr(self, field.name)) for field in fields(self)))

    def __getitem__(self, part):
        return self._map(lambda value: value[part])

    def to(self, device):
        return self._map(lambda value: value.to(device))

    def batches(self, size):
        for start in range(0, len(self.src), size):
            yield self[start : start + size]
# --- tgn.py
import torch
from torch import nn


class TimeEncoder(nn.Module):
    def __init__(self, out_channels):
        super().__init__()
        self.lin = nn.Linear(1, out_channels)

    def forward(self, t):
        return self.lin(t.view(-1, 1)).cos()


class TGNMemory(nn.Module):
    def __init__(self, num_nodes, raw_msg_dim, memory_dim, time_dim):
        super().__init__()
        self.num_nodes, self.raw_msg_dim = num_nodes, raw_msg_dim
        self.time_enc = TimeEncoder(time_dim)
        self.gru = nn.GRUCell(raw_msg_dim + 2 * memory_dim + time_dim, memory_dim)
        self.register_buffer("memory", torch.zeros(num_nodes, memory_dim))
        self.register_buffer("last_update", torch.zeros(num_nodes, dtype=torch.long))
        self.__reset_message_store__()  # as nothing has happened yet

    @property
    def device(self):
        return self.time_enc.lin.weight.device

    def reset_state(self):
        self.memory.zero_()
        self.last_update.zero_()
        self.__reset_message_store__()

    def __reset_message_store__(self):
        i = self.memory.new_empty((0,), dtype=torch.long)
        msg = self.memory.new_empty((0, self.raw_msg_dim))
        self.msg_store = {node: (i, i, i, msg) for node in range(self.num_nodes)}

    def forward(self, n_id):
        return self._get_updated_memory(n_id) if self.training else (self.memory[n_id], self.last_update[n_id])

    def _get_updated_memory(self, n_id):
        src, dst, t, raw_msg = zip(*(self.msg_store[node] for node in n_id.tolist()))
        src = torch.cat(src, dim=0)
        dst = torch.cat(dst, dim=0).to(src.device)
        t = torch.cat(t, dim=0)
        raw_msg = torch.cat(raw_msg, dim=0)
        t_rel = t - self.last_update[src]
        t_enc = self.time_enc(t_rel.to(raw_msg.dtype))
        msg = torch.cat([self.memory[src], self.memory[dst], raw_msg, t_enc], dim=-1)
        aggregated = msg.new_zeros(self.num_nodes, msg.shape[1]).index_add(0, src, msg)
        updated = self.gru(aggregated[n_id], self.memory[n_id])
        last_update = self.last_update.scatter_reduce(0, src, t, reduce="amax")[n_id]
        return updated, last_update

    @torch.no_grad()
    def update_state(self, batch):
        n_id = torch.cat([batch.src, batch.dst]).unique()
        self._update_memory(n_id)
        for node in n_id.tolist():
            mine = batch.src == node
            self.msg_store[node] = (batch.src[mine], batch.dst[mine], batch.t[mine], batch.msg[mine])

    def _update_memory(self, n_id):
        memory, last_update = self._get_updated_memory(n_id)
        self.memory[n_id] = memory.detach()
        self.last_update[n_id] = last_update

    def train(self, mode=True):
        if self.training and not mode:  # what is stored goes into the memory now
            self._update_memory(torch.arange(self.num_nodes, device=self.memory.device))
            self.__reset_message_store__()
        return super().train(mode)
# --- train.py
import torch
from torch import nn

from tgn import TGNMemory


def set_up(num_nodes, msg_dim, device):
    memory = TGNMemory(num_nodes, msg_dim, memory_dim=6, time_dim=4).to(device)
    predictor = nn.Bilinear(6, 6, 1).to(device)
    parameters = [*memory.parameters(), *predictor.parameters()]
    return memory, predictor, torch.optim.Adam(parameters, lr=0.02, foreach=False)


def loss_of(memory, predictor, batch):
    (src, _), (dst, _) = memory(batch.src), memory(batch.dst)
    return -nn.functional.logsigmoid(predictor(src, dst) * batch.msg[:, :1].sign()).mean()


def train_epoch(memory, predictor, optimizer, data):
    memory.train()
    memory.reset_state()
    for batch in data.batches(8):
        loss = loss_of(memory, predictor, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        memory.update_state(batch)


@torch.no_grad()
def evaluate(memory, predictor, data):
    memory.eval()
    losses = []
    for batch in data.batches(4):
        losses.append(loss_of(memory, predictor, batch).item())
        memory.update_state(batch)
    return sum(losses) / len(losses)
