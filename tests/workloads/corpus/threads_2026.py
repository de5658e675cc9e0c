# === visual_masks
# thread: https://github.com/modelscope/ms-swift/pull/7372
# about: a mask is brought to the embeddings only in the branch of what there is; with images alone the other one stays
# operation: bitwise_or|__or__ on cuda:0, cuda:1
# operands: image_mask|self, video_mask|other
# category: input-not-moved|module-split
# line: vision_text.py: visual_pos_masks = image_mask | video_mask
# line: vision_text.py: video_mask = video_mask.to(
# line: vision_text.py: image_mask, video_mask =
# line: main.py: embeds, visual_pos_masks = merge(
# line: main.py: value = model(input_ids
# repair: vision_text.py: visual_pos_masks = image_mask | video_mask -> visual_pos_masks = image_mask | video_mask.to(image_mask.device)
import torch
from torch import nn

from vision_text import merge

class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width).to("cuda:0")
        self.visual = nn.Linear(6, width).to("cuda:0")
        self.layer = nn.Linear(width, width).to("cuda:1")

    def forward(self, input_ids, pixel_values=None, pixel_values_videos=None):
        embeds = self.embed_tokens(input_ids.to("cuda:0"))
        pictures = [None if x is None else self.visual(x.to("cuda:0")) for x in (pixel_values, pixel_values_videos)]
        embeds, visual_pos_masks = merge(input_ids, embeds, *pictures)
        hidden = self.layer(embeds.to("cuda:1"))
        return hidden[visual_pos_masks.squeeze(-1).to(hidden.device)].sum() + hidden.mean()

torch.manual_seed(0)
input_ids = torch.tensor([[5, 1, 1, 7], [4, 1, 8, 9]])
model = Model(vocabulary=12, width=4)
images = torch.rand(3, 6)
value = model(input_ids.to("cuda:1"), pixel_values=images)
print("pooled", round(value.item(), 4))
# --- vision_text.py
IMAGE, VIDEO = 1, 2

def merge(input_ids, embeds, image_embeds, video_embeds):
    """Puts features where their placeholders are; says too where that is, for the layers that add more of them."""
    image_mask, video_mask = ((input_ids == token).unsqueeze(-1) for token in (IMAGE, VIDEO))
    if image_embeds is not None:
        image_mask = image_mask.to(embeds.device)
        embeds = embeds.masked_scatter(image_mask.expand_as(embeds), image_embeds)
    if video_embeds is not None:
        video_mask = video_mask.to(embeds.device)
        embeds = embeds.masked_scatter(video_mask.expand_as(embeds), video_embeds)
    visual_pos_masks = image_mask | video_mask
    return embeds, visual_pos_masks

# === cache_positions
# thread: https://github.com/pytorch/executorch/pull/19174
# about: the cache is updated in a method that is given a number; slices would do without a tensor of places
# operation: index_copy on cuda:0, cpu
# operands: k_cache|self.k_cache|k_val|self|source, indices|index
# category: created-without-device
# line: attention.py: indices = torch.arange(
# line: attention.py: self.k_cache.index_copy_(
# repair: attention.py: indices = torch.arange(k_val.shape[2]) + start_pos -> indices = torch.arange(k_val.shape[2], device=k_val.device) + start_pos
import torch
from torch import nn

from attention import Attention

class Transformer(nn.Module):
    def __init__(self, vocabulary, dim, heads, max_context):
        super().__init__()
        self.tok_embeddings, self.output = nn.Embedding(vocabulary, dim), nn.Linear(dim, vocabulary)
        self.layer = Attention(dim, heads, max_context)

    def forward(self, tokens, start_pos):
        h = self.tok_embeddings(tokens)
        return self.output(h + self.layer(h, start_pos))

torch.manual_seed(0)
model = Transformer(vocabulary=16, dim=8, heads=2, max_context=12).to("cuda:0")
prompt = torch.tensor([[3, 9, 4, 11]], device="cuda:0")
generated = []
with torch.no_grad():
    logits = model(prompt, start_pos=0)
    for position in range(prompt.shape[1], 10):
        token = logits[:, -1:].argmax(-1)
        generated.append(token.item())
        logits = model(token, start_pos=position)
print("generated", generated, round(logits.double().pow(2).sum().item(), 3))
# --- attention.py
import torch
from torch import nn
from torch.nn import functional as F

class KVCache(nn.Module):
    def __init__(self, heads, max_context, head_dim):
        super().__init__()
        self.register_buffer("k_cache", torch.zeros(1, heads, max_context, head_dim))
        self.register_buffer("v_cache", torch.zeros(1, heads, max_context, head_dim))

    def update(self, start_pos, k_val, v_val):
        indices = torch.arange(k_val.shape[2]) + start_pos
        self.k_cache.index_copy_(2, indices, k_val)
        self.v_cache.index_copy_(2, indices, v_val)
        return self.k_cache, self.v_cache

class Attention(nn.Module):
    def __init__(self, dim, heads, max_context):
        super().__init__()
        self.heads = heads
        self.wqkv, self.wo = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.cache = KVCache(heads, max_context, dim // heads)

    def forward(self, x, start_pos):
        batch, length, dim = x.shape
        q, k, v = self.wqkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v = self.cache.update(start_pos, k, v)
        places = torch.arange(k.shape[2], device=x.device)
        mask = places <= start_pos + torch.arange(length, device=x.device)[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).reshape(batch, length, dim))

# === resampler_table
# thread: https://github.com/vllm-project/vllm/pull/43194
# about: from numpy, cut for each image, kept in a list, padded into one, added a function later
# operation: add on cuda:0, cpu
# operands: x, pos_embed
# category: created-without-device|state-not-registered
# line: resampler.py: pos_embed = nn.utils.rnn.pad_sequence(
# line: resampler.py: self.pos_table = torch.from_numpy(
# line: resampler.py: k = x + pos_embed
# line: resampler.py: pos_embed.append(
# repair: resampler.py: pos_embed = nn.utils.rnn.pad_sequence(pos_embed, batch_first=True) -> pos_embed = nn.utils.rnn.pad_sequence(pos_embed, batch_first=True).to(x.device)
import torch

from resampler import Resampler

torch.manual_seed(0)
resampler = Resampler(queries=3, width=8, max_side=6).to("cuda:0").eval()
sizes = [(2, 3), (4, 2), (1, 1)]
patches = torch.zeros(len(sizes), max(h * w for h, w in sizes), 8)
for row, (h, w) in zip(patches, sizes):
    row[: h * w] = torch.rand(h * w, 8)
with torch.no_grad():
    out = resampler(patches.to("cuda:0"), sizes)
print("resampled", tuple(out.shape), round(out.double().pow(2).sum().item(), 4))
# --- resampler.py
import numpy as np
import torch
from torch import nn

def sincos_2d(width, side):
    """(side, side, width): the first half says the row, the second the column."""
    omega = 1.0 / 100 ** (np.arange(width // 4) / (width // 4))
    angles = np.arange(side)[:, None] * omega
    one = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    rows = np.repeat(one[:, None], side, axis=1)
    return np.concatenate([rows, rows.transpose(1, 0, 2)], axis=2)

class Resampler(nn.Module):
    def __init__(self, queries, width, max_side):
        super().__init__()
        self.query = nn.Parameter(torch.linspace(-1, 1, queries * width).view(queries, width))
        self.kv_proj = nn.Linear(width, width)
        self.pos_table = torch.from_numpy(sincos_2d(width, max_side)).float()

    def forward(self, x, sizes):
        pos_embed = []
        padding = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        for i, (h, w) in enumerate(sizes):
            pos_embed.append(self.pos_table[:h, :w].reshape(h * w, -1))
            padding[i, : h * w] = False
        pos_embed = nn.utils.rnn.pad_sequence(pos_embed, batch_first=True)
        x = self.kv_proj(x)
        return self._attend(x, pos_embed, padding)

    def _attend(self, x, pos_embed, padding):
        k = x + pos_embed
        scores = self.query @ k.transpose(1, 2) / k.shape[-1] ** 0.5
        return scores.masked_fill(padding[:, None], float("-inf")).softmax(-1) @ x

# === ema_before_placement
# thread: https://github.com/mllam/neural-lam/pull/739
# about: the callback's state is restored before the model is moved; the device that it asks the model for is the one of then
# operation: lerp on cpu, cuda:0
# operands: average|self.shadow.*|self, param|end
# category: checkpoint|cached-state|input-not-moved|state-not-registered
# line: ema.py: average.lerp_(
# line: ema.py: self.shadow = {name:
# line: ema.py: for name, param in trainer.model.named_parameters():
# line: trainer.py: self.model.to(self.device)
# repair: ema.py: average.lerp_(param.detach(), 1 - self.decay) -> self.shadow[name] = average.to(param.device).lerp_(param.detach(), 1 - self.decay)
import copy
import io

import torch
from torch import nn

from ema import EMACallback
from trainer import Trainer

torch.manual_seed(0)
inputs = torch.rand(24, 3)
batches = [(x, x.sum(1, keepdim=True)) for x in inputs.split(6)]
model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
first = Trainer(copy.deepcopy(model), "cuda:0", EMACallback(0.8))
first.fit(batches, epochs=1)
checkpoint = io.BytesIO()
first.save(checkpoint)
checkpoint.seek(0)
second = Trainer(model, "cuda:0", EMACallback(0.8))
loss = second.fit(batches, epochs=2, checkpoint=checkpoint)
print("loss", round(loss, 5), round(sum(each.sum().item() for each in second.callback.shadow.values()), 4))
# --- trainer.py
import torch
from torch.nn import functional as F

class Trainer:
    def __init__(self, model, device, callback):
        self.model, self.device, self.callback = model, torch.device(device), callback

    def fit(self, batches, epochs, checkpoint=None):
        if checkpoint is not None:
            state = torch.load(checkpoint, map_location="cpu")
            self.model.load_state_dict(state["model"])
            self.callback.load_state_dict(self, state["callback"])
        self.model.to(self.device)
        self.callback.on_fit_start(self)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for _ in range(epochs):
            for x, y in batches:
                loss = F.mse_loss(self.model(x.to(self.device)), y.to(self.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                self.callback.on_train_batch_end(self)
        return loss.item()

    def save(self, file):
        torch.save({"model": self.model.state_dict(), "callback": self.callback.shadow}, file)
# --- ema.py
import torch

class EMACallback:
    def __init__(self, decay):
        self.decay, self.shadow = decay, {}

    def load_state_dict(self, trainer, state):
        device = next(trainer.model.parameters()).device
        self.shadow = {name: value.to(device) for name, value in state.items()}

    def on_fit_start(self, trainer):
        if not self.shadow:
            self.shadow = {name: param.detach().clone() for name, param in trainer.model.named_parameters()}

    @torch.no_grad()
    def on_train_batch_end(self, trainer):
        for name, param in trainer.model.named_parameters():
            average = self.shadow[name]
            average.lerp_(param.detach(), 1 - self.decay)

# === confidence_cuda
# thread: https://github.com/NVlabs/InstantSplat/pull/124
# about: the depth lies with the pixels; the confidence, read beside it, is taken to the device that is current
# operation: index on cuda:0, cuda:1
# operands: conf|self, imc|indices
# error: indices should be either on cpu or on the same device as the indexed tensor
# category: default-or-current-device
# line: confs[ni] = conf.cuda()[
# repair: confs[ni] = conf.cuda()[imc[:, 1], imc[:, 0]] -> confs[ni] = conf.to(imc.device)[imc[:, 1], imc[:, 0]]
import torch

def project(points, camera):
    """Pixels (column, row) and depths of points that a pinhole camera sees."""
    seen = (points - camera["position"]) @ camera["rotation"].T
    return seen[:, :2] / seen[:, 2:] * camera["focal"] + camera["center"], seen[:, 2]

class Fusion:
    def __init__(self, cameras, depthmaps, confmaps, truncation, device):
        self.device, self.truncation = torch.device(device), truncation
        self.cameras = [{name: value.to(device) for name, value in camera.items()} for camera in cameras]
        self.depthmaps = [depth.to(device) for depth in depthmaps]
        self.confmaps = confmaps

    def sample(self, points):
        size = len(self.cameras), len(points)
        depths, confs, distances = (torch.zeros(size, device=self.device) for _ in range(3))
        valid = torch.zeros(size, dtype=torch.bool, device=self.device)
        for ni, (camera, depth, conf) in enumerate(zip(self.cameras, self.depthmaps, self.confmaps)):
            pixels, distances[ni] = project(points, camera)
            height, width = depth.shape
            imc = pixels.round().long()
            valid[ni] = ((imc >= 0) & (imc < torch.tensor([width, height], device=imc.device))).all(dim=1)
            imc = imc * valid[ni, :, None]
            depths[ni] = depth[imc[:, 1], imc[:, 0]]
            confs[ni] = conf.cuda()[imc[:, 1], imc[:, 0]]
        return depths, confs, distances, valid

    def __call__(self, points):
        depths, confs, distances, valid = self.sample(points.to(self.device))
        signed = (depths - distances).clamp(-self.truncation, self.truncation)
        weight = confs * valid
        return (signed * weight).sum(0) / weight.sum(0).clamp(min=1e-6)

torch.manual_seed(0)
cameras = [
    {"position": torch.tensor([x, 0.0, -3.0]), "rotation": torch.eye(3), "focal": torch.tensor(6.0), "center": torch.tensor([4.0, 3.0])}
    for x in (-0.3, 0.3)
]
depthmaps = [torch.full((6, 8), 3.0), torch.full((6, 8), 3.2)]
confmaps = [torch.rand(6, 8) for _ in cameras]
fusion = Fusion(cameras, depthmaps, confmaps, truncation=0.5, device="cuda:1")
sdf = fusion(torch.rand(20, 3) - 0.5)
print("sdf", tuple(sdf.shape), round(sdf.double().abs().sum().item(), 4))

# === captured_kwargs
# thread: https://github.com/ModelCloud/GPTQModel/issues/2440
# about: what the first layer was called with is kept and used again on another device; of the kept arguments one is a tuple of tensors
# operation: mul on cuda:0, cpu
# operands: q|query_states|self, cos|other
# category: input-not-moved|cached-state
# line: quantize.py: return {name: value.to(device)
# line: quantize.py: kwargs = to_device(
# repair: quantize.py: return {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in kwargs.items()} -> return torch.utils._pytree.tree_map_only(torch.Tensor, lambda value: value.to(device), kwargs)
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from quantize import quantize

torch.manual_seed(0)
config = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, attn_implementation="eager")
model = LlamaForCausalLM(config).eval()
samples = torch.randint(0, 32, (2, 6))
quantize(model, samples, device="cuda:0", bits=4)
with torch.no_grad():
    logits = model(samples).logits
print("logits", tuple(logits.shape), round(logits.double().abs().sum().item(), 2))
# --- quantize.py
import contextlib

import torch
from torch import nn

class Caught(Exception):
    pass

def first_inputs(model, samples):
    """What the first layer is called with; nothing is computed past it."""
    caught = {}

    def keep(module, args, kwargs):
        caught.update(hidden=args[0], kwargs=kwargs)
        raise Caught

    handle = model.model.layers[0].register_forward_pre_hook(keep, with_kwargs=True)
    with contextlib.suppress(Caught):
        model(samples, use_cache=False)
    handle.remove()
    return caught["hidden"], caught["kwargs"]

def to_device(kwargs, device):
    return {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in kwargs.items()}

def round_weight(linear, bits):
    step = linear.weight.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
    linear.weight.copy_((linear.weight / step).round() * step)

@torch.no_grad()
def quantize(model, samples, device, bits):
    hidden, kwargs = first_inputs(model, samples)
    for layer in model.model.layers:
        layer.to(device)
        hidden = hidden.to(device)
        kwargs = to_device(kwargs, device)
        hidden = layer(hidden, **kwargs)
        for module in layer.modules():
            if isinstance(module, nn.Linear):
                round_weight(module, bits)
        layer.to("cpu")

# === tokens_alias
# thread: https://github.com/TransformerLensOrg/TransformerLens/issues/1508
# about: a second name is given to the prompt before the first name gets the copy on the device; it is used when all is sampled
# operation: cat on cpu, cuda:1
# operands: input_tokens|tokens|input|tensors, sampled|sampled_tokens|tensors
# category: input-not-moved
# line: hooked.py: input_tokens = input
# line: hooked.py: input = input.to(self.device)
# line: hooked.py: output = torch.cat(
# line: main.py: continued = model.generate(
# repair: hooked.py: output = torch.cat((input_tokens, torch.cat(sampled, dim=1)), dim=1) -> output = torch.cat((input, torch.cat(sampled, dim=1)), dim=1)
import torch

from hooked import HookedTransformer

torch.manual_seed(0)
model = HookedTransformer(vocabulary=8, width=8, device="cuda:1")
prompts = torch.randint(0, 7, (4, 3))
continued = model.generate(prompts, max_new_tokens=5, eos_token=6)
print("continued", continued.tolist())
# --- hooked.py
import torch
from torch import nn

class HookedTransformer(nn.Module):
    def __init__(self, vocabulary, width, device):
        super().__init__()
        self.device = torch.device(device)
        self.embed = nn.Embedding(vocabulary, width)
        self.unembed = nn.Linear(width, vocabulary)
        self.to(self.device)

    def forward(self, tokens):
        return self.unembed(torch.tanh(self.embed(tokens).cumsum(dim=1)))

    @torch.no_grad()
    def generate(self, input, max_new_tokens, eos_token):
        input_tokens = input
        input = input.to(self.device)
        finished = torch.zeros(len(input), dtype=torch.bool, device=self.device)
        sampled = []
        for _ in range(max_new_tokens):
            logits = self(torch.cat((input, *sampled), dim=1))[:, -1]
            token = logits.argmax(dim=-1)
            token = token.masked_fill(finished, eos_token)
            finished |= token == eos_token
            sampled.append(token[:, None])
        output = torch.cat((input_tokens, torch.cat(sampled, dim=1)), dim=1)
        return output

# === cross_pivots
# thread: https://github.com/ion-g-ion/torchTT/pull/36
# about: places are kept on the CPU, where numpy needs them; the pivots come from a matrix that the function gave on the GPU
# operation: index on cpu, cuda:0
# operands: candidates|self, rows|indices
# error: indices should be either on cpu or on the same device as the indexed tensor
# category: input-not-moved|default-or-current-device|created-without-device
# line: cross.py: best = torch.topk(
# line: cross.py: return torch.unravel_index(
# line: cross.py: left = candidates[rows]
# line: cross.py: rows, _ = pivots(
# repair: cross.py: best = torch.topk(matrix.abs().flatten(), count).indices -> best = torch.topk(matrix.abs().flatten(), count).indices.cpu()
import torch

from cross import interpolate

torch.manual_seed(0)
grid = torch.rand(4, 5, 3, 4, dtype=torch.float64).to("cuda:0")

def oracle(places):
    i, j, k, n = places.unbind(dim=1)
    return grid[i, j, k, n]

lefts = interpolate(oracle, shape=grid.shape, rank=3, device="cuda:0")
print("places", [left.tolist() for left in lefts])
# --- cross.py
import numpy as np
import torch

def outer(*columns):
    """All combinations of rows, as numpy makes them."""
    picks = np.meshgrid(*(np.arange(len(each)) for each in columns), indexing="ij")
    return torch.cat([each[torch.from_numpy(pick.ravel())] for each, pick in zip(columns, picks)], dim=1)

def pivots(matrix, count):
    best = torch.topk(matrix.abs().flatten(), count).indices
    return torch.unravel_index(best, matrix.shape)

def interpolate(function, shape, rank, device):
    """For each split of the axes, the places left of it that say most."""
    generator = torch.Generator().manual_seed(1)
    rights = [torch.stack([torch.randint(n, (rank,), generator=generator) for n in shape[k + 1 :]], dim=1) for k in range(len(shape) - 1)]
    left, lefts = torch.zeros(1, 0, dtype=torch.long), []
    for k, right in enumerate(rights):
        here = torch.arange(shape[k])[:, None]
        candidates = outer(left, here)
        values = function(outer(candidates, right).to(device)).view(len(candidates), len(right))
        rows, _ = pivots(values, min(rank, len(candidates)))
        left = candidates[rows]
        lefts.append(left)
    return lefts

# === sam_prompts
# thread: https://github.com/voxel51/fiftyone/pull/8064
# about: the low-level call is used past the public one, which would have moved the prompts; some of them may be None
# operation: matmul|mm|bmm on cpu, cuda:0
# operands: coords|points|corners|self, self.gaussian|gaussian|other|mat2
# category: input-not-moved
# line: predictor.py: masks.append(self.model.predict_low(
# line: predictor.py: prompts = build_prompts(
# line: predictor.py: return torch.as_tensor(
# line: sam.py: projected = 2
# repair: predictor.py: masks.append(self.model.predict_low(features, **prompts)) -> masks.append(self.model.predict_low(features, **{name: value if value is None else value.to(self.device) for name, value in prompts.items()}))
import torch

from predictor import Predictor
from sam import Sam

torch.manual_seed(0)
model = Sam(width=8).to("cuda:0").eval()
predictor = Predictor(model, device="cuda:0")
samples = [
    {"image": torch.rand(3, 6, 6), "keypoints": [(1, 2), (4, 4)], "labels": [1, 0]},
    {"image": torch.rand(3, 6, 6), "box": (0, 1, 5, 4)},
]
areas = predictor.predict(samples)
print("areas", [round(area, 3) for area in areas])
# --- predictor.py
import numpy as np
import torch

def scaled(values, size):
    return torch.as_tensor(np.asarray(values, dtype=np.float32).reshape(-1, 2) * size)

def build_prompts(sample, size):
    prompts = {"points": None, "labels": None, "boxes": None}
    if "keypoints" in sample:
        prompts["points"] = scaled(sample["keypoints"], size)
        prompts["labels"] = torch.tensor(sample["labels"])
    if "box" in sample:
        prompts["boxes"] = scaled(sample["box"], size)
    return prompts

class Predictor:
    def __init__(self, model, device):
        self.model, self.device = model, torch.device(device)

    @torch.no_grad()
    def predict(self, samples):
        masks = []
        for sample in samples:
            features = self.model.encode(sample["image"].to(self.device))
            prompts = build_prompts(sample, self.model.size)
            masks.append(self.model.predict_low(features, **prompts))
        return [mask.sigmoid().mean().item() for mask in masks]
# --- sam.py
import torch
from torch import nn

class PromptEncoder(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.size = size
        self.register_buffer("gaussian", torch.linspace(-1, 1, width).view(2, width // 2))
        self.point_embeddings = nn.Embedding(2, width)
        self.box_embedding = nn.Parameter(torch.ones(width))

    def encode(self, coords):
        projected = 2 * torch.pi * ((coords + 0.5) / self.size) @ self.gaussian
        return torch.cat((projected.sin(), projected.cos()), dim=-1)

    def forward(self, points, labels, boxes):
        tokens = []
        if points is not None:
            tokens.append(self.encode(points) + self.point_embeddings(labels))
        if boxes is not None:
            tokens.append(self.encode(boxes) + self.box_embedding)
        return torch.cat(tokens)

class Sam(nn.Module):
    def __init__(self, width, size=2):
        super().__init__()
        self.size, self.prompt_encoder = size, PromptEncoder(width, 6 * size)
        self.image_encoder = nn.Conv2d(3, width, 1)

    def encode(self, image):
        return self.image_encoder(image[None])[0].flatten(1)

    def predict_low(self, features, points=None, labels=None, boxes=None):
        tokens = self.prompt_encoder(points, labels, boxes)
        return tokens.mean(0) @ features

# === windows_cache
# thread: https://github.com/fukka/vggt-omega/issues/26
# about: the device to work on is that of the first window; windows that were cached are read back to the CPU
# operation: addmm|linear|mm on cuda:0, cpu
# operands: weight|bias|self, input|images|mat1
# category: checkpoint|input-not-moved|cached-state
# line: main.py: return torch.load(
# line: main.py: windows = cached_windows(
# line: adapter.py: device = windows[0].images.device
# line: adapter.py: features = backbone(
# repair: main.py: return torch.load(path, map_location="cpu", weights_only=False) -> return torch.load(path, map_location=device, weights_only=False)
import os

import torch
from torch import nn

from adapter import fit_adapter
from windows import load_sequence

def cached_windows(path, device):
    if os.path.exists(path):
        return torch.load(path, map_location="cpu", weights_only=False)
    windows = load_sequence(frames=8, length=3, stride=2, device=device)
    torch.save(windows, path)
    return windows

def run(cache, steps):
    torch.manual_seed(1)
    device = torch.device("cuda:0")
    backbone = nn.Sequential(nn.Linear(12, 6), nn.LayerNorm(6)).to(device)
    windows = cached_windows(cache, device)
    return fit_adapter(backbone, windows, steps)

fresh = run("windows.pt", steps=3)
again = run("windows.pt", steps=6)
os.remove("windows.pt")
print("losses", round(fresh, 5), round(again, 5))
# --- windows.py
from dataclasses import dataclass

import torch

@dataclass
class Window:
    images: torch.Tensor
    poses: torch.Tensor

def load_sequence(frames, length, stride, device):
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(frames, 12, generator=generator)
    poses = images[:, :3].cumsum(0)
    starts = range(0, frames - length + 1, stride)
    return [Window(images[i : i + length].to(device), poses[i : i + length].to(device)) for i in starts]
# --- adapter.py
import torch
from torch import nn
from torch.nn import functional as F

def fit_adapter(backbone, windows, steps):
    device = windows[0].images.device
    adapter = nn.Sequential(nn.Linear(6, 2), nn.Tanh(), nn.Linear(2, 3)).to(device)
    optimizer = torch.optim.SGD(adapter.parameters(), lr=0.05)
    for step in range(steps):
        window = windows[step % len(windows)]
        with torch.no_grad():
            features = backbone(window.images)
        loss = F.l1_loss(adapter(features), window.poses.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()

# === tied_embedding
# thread: https://github.com/unslothai/unsloth/pull/9995
# about: the planner puts embedding and head, which are tied, on the other device; the dispatcher hooks no module whose weight it met before
# operation: index_select|embedding on cuda:1, cuda:0
# operands: weight|self.embed_tokens.*|self, input_ids|indices|input|index
# category: module-split|tied-weights|input-not-moved
# line: dispatch.py: if not own or
# line: model.py: hidden = self.embed_tokens(input_ids)
# line: planner.py: plan["embed_tokens"] = plan["lm_head"] =
# line: model.py: logits = self.lm_head(
# repair: dispatch.py: if not own or own <= shared: -> if not own:
import torch

from dispatch import dispatch
from model import TiedDecoder
from planner import plan_devices

torch.manual_seed(0)
model = TiedDecoder(vocabulary=24, width=6, layers=3)
plan = plan_devices(model, layers=3, budget=250)
dispatch(model, plan)
loss = model(torch.randint(0, 24, (2, 5)).to("cuda:0"))
loss.backward()
print("loss", round(loss.item(), 4), round(model.embed_tokens.weight.grad.abs().sum().item(), 4))
# --- planner.py
def plan_devices(model, layers, budget):
    """Layers first; what is left over, with the vocabulary, goes where there is room."""
    plan = {f"layers.{i}": "cuda:0" for i in range(layers)} | {"norm": "cuda:0"}
    left = budget - sum(parameter.numel() for parameter in model.layers.parameters())
    plan["embed_tokens"] = plan["lm_head"] = "cuda:0" if left >= model.lm_head.weight.numel() else "cuda:1"
    return plan
# --- dispatch.py
from collections import Counter

import torch

def bring(module, args):
    device = next(module.parameters()).device
    return tuple(arg.to(device) if isinstance(arg, torch.Tensor) else arg for arg in args)

def dispatch(model, plan):
    """Each part to its device, and a hook that brings its arguments there. What is shared is hooked once, by its owner."""
    for name, device in plan.items():
        model.get_submodule(name).to(device)
    seen = Counter(id(p) for _, p in model.named_parameters(remove_duplicate=False))
    shared = {key for key, count in seen.items() if count > 1}
    for name in plan:
        own = {id(p) for p in model.get_submodule(name).parameters()}
        if not own or own <= shared:
            continue
        model.get_submodule(name).register_forward_pre_hook(bring)
# --- model.py
import torch
from torch import nn
from torch.nn import functional as F

class TiedDecoder(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.embed_tokens.weight

    def forward(self, input_ids):
        hidden = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden))
        logits = self.lm_head(self.norm(hidden))
        shifted = input_ids[:, 1:].to(logits.device)
        return F.cross_entropy(logits[:, :-1].transpose(1, 2), shifted)

# === bark_offload
# thread: https://github.com/huggingface/transformers/issues/47169
# about: a part that is called first has a hook of its own; then the whole looks at its first parameter, which is there, and stays behind
# operation: addmm|linear|mm on cpu, cuda:0
# operands: weight|bias|self.*, input_embeds|hidden|input|mat1
# category: module-split|input-not-moved
# line: bark.py: tokens = self.semantic(
# line: bark.py: embeds = self.semantic.input_embeds_layer(
# line: bark.py: self.semantic.input_embeds_layer, _ =
# repair: bark.py: tokens = self.semantic(input_embeds=embeds) -> tokens = self.semantic.to(self.execution_device)(input_embeds=embeds)
import torch

from bark import Bark

torch.manual_seed(0)
model = Bark(vocabulary=20, width=8).eval()
text, history = torch.randint(0, 20, (2, 1, 6))
model.enable_cpu_offload("cuda:0")
with torch.no_grad():
    audio = model.generate(text, history)
print("audio", tuple(audio.shape), round(audio.double().abs().sum().item(), 4))
# --- bark.py
import torch
from accelerate import cpu_offload_with_hook
from torch import nn

class Causal(nn.Module):
    """Goes on from embeddings."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.input_embeds_layer = nn.Embedding(vocabulary, width)
        self.layer, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary)

    def forward(self, tokens=None, input_embeds=None):
        hidden = self.input_embeds_layer(tokens) if input_embeds is None else input_embeds
        return self.lm_head(self.norm(torch.tanh(self.layer(hidden)))).argmax(-1)

class Bark(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.semantic, self.coarse = Causal(vocabulary, width), Causal(vocabulary, width)
        self.codec = nn.Sequential(nn.Embedding(vocabulary, width), nn.Linear(width, 4), nn.Flatten(1))
        self.execution_device = torch.device("cpu")

    def enable_cpu_offload(self, device):
        self.execution_device = device = torch.device(device)
        # called before the rest of semantic
        self.semantic.input_embeds_layer, _ = cpu_offload_with_hook(self.semantic.input_embeds_layer, device)
        hook = None
        for part in (self.semantic, self.coarse, self.codec):
            _, hook = cpu_offload_with_hook(part, device, prev_module_hook=hook)
        self.last_hook = hook

    def generate(self, text, history):
        text, history = text.to(self.execution_device), history.to(self.execution_device)
        embeds = self.semantic.input_embeds_layer(text) + self.semantic.input_embeds_layer(history)
        tokens = self.semantic(input_embeds=embeds)
        audio = self.codec(self.coarse(tokens))
        self.last_hook.offload()
        return audio

# === late_head
# thread: https://github.com/fideus-labs/KonfAI/pull/26
# about: placement moves only parts that have no mark yet; the head that load() adds lies in one that has
# operation: .*conv.* on cuda:0, cpu
# operands: input|features|self, weight|bias|self.conv.*
# error: should be the same|on the same device
# category: created-without-device|module-split|input-not-moved
# line: network.py: if module.placed is None:
# line: network.py: self.head.add_module(
# line: composite.py: self.model.place(self.device)
# repair: network.py: self.head.add_module("conv", nn.Conv2d(self.width, classes, 1)) -> self.head.add_module("conv", nn.Conv2d(self.width, classes, 1).to(self.backbone.conv.weight.device))
import torch

from composite import Composite

def checkpoint(seed, classes, width=4):
    torch.manual_seed(seed)
    return {
        "backbone.conv.weight": torch.randn(width, 1, 3, 3), "backbone.conv.bias": torch.randn(width),
        "head.conv.weight": torch.randn(classes, width, 1, 1), "head.conv.bias": torch.randn(classes),
    }  # fmt: skip

ensemble = Composite([checkpoint(1, classes=3), checkpoint(2, classes=5)], "cuda:0")
torch.manual_seed(0)
volume = torch.rand(1, 1, 6, 6)
labels = ensemble.predict(volume)
print("labels", [sorted(set(each.flatten().tolist())) for each in labels], sum(each.sum().item() for each in labels))
# --- composite.py
import torch

from network import Segmentation

class Composite:
    """One model in memory, which becomes one after the other of the ensemble."""

    def __init__(self, checkpoints, device):
        self.checkpoints, self.device = checkpoints, device
        self.model = Segmentation(width=4)
        self.model.place(device)

    @torch.no_grad()
    def predict(self, volume):
        labels = []
        for checkpoint in self.checkpoints:
            self.model.load(checkpoint)
            self.model.place(self.device)
            labels.append(self.model(volume.to(self.device)).argmax(1).cpu())
        return labels
# --- network.py
import torch
from torch import nn

class Network(nn.Module):
    placed = None

    def place(self, device):
        """Each part once, as it comes."""
        for module in self.children():
            if module.placed is None:
                module.to(device)
                module.placed = device

class Part(Network):
    def forward(self, features):
        return self.conv(features)

class Segmentation(Network):
    def __init__(self, width):
        super().__init__()
        self.width, self.backbone, self.head = width, Part(), Part()
        self.backbone.add_module("conv", nn.Conv2d(1, width, 3, padding=1))

    def load(self, state):
        classes = len(state["head.conv.bias"])
        self.head.add_module("conv", nn.Conv2d(self.width, classes, 1))
        self.load_state_dict(state)

    def forward(self, x):
        return self.head(torch.relu(self.backbone(x)))
