# === logits_mask_pinned
# thread: https://github.com/huggingface/transformers/pull/38558
# about: the processor asked the model for its device, and that is the first layer's
# operation: add on cuda:1, cuda:0
# operands: scores, self.bias|bias
# category: cached-state|input-not-moved|module-split
# line: return scores + self.bias
# line: processors = LogitsProcessorList(
# repair: return scores + self.bias -> return scores + self.bias.to(scores.device)
import torch
from torch import nn
from transformers import LogitsProcessor, LogitsProcessorList, TopKLogitsWarper


class TokenBiasProcessor(LogitsProcessor):
    def __init__(self, bias_of_token, vocab_size, device="cpu"):
        self.bias = torch.zeros(vocab_size)
        for token, bias in bias_of_token.items():
            self.bias[token] = bias
        self.bias = self.bias.to(device)

    def __call__(self, input_ids, scores):
        return scores + self.bias


class Recurrent(nn.Module):
    """The embedding and the first cell on one device, the others and the head on another."""

    def __init__(self, vocab_size, width=12):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        self.lower, self.upper = nn.GRU(width, width, batch_first=True), nn.GRU(width, width, batch_first=True)
        self.lm_head = nn.Linear(width, vocab_size)

    @property
    def device(self):
        return next(self.parameters()).device

    def shard(self, first, second):
        for module in (self.embed, self.lower):
            module.to(first)
        for module in (self.upper, self.lm_head):
            module.to(second)
        return self

    def forward(self, input_ids):
        hidden, _ = self.lower(self.embed(input_ids))
        hidden, _ = self.upper(hidden.to(self.lm_head.weight.device))
        return self.lm_head(hidden[:, -1])


@torch.no_grad()
def generate(model, input_ids, processors, max_new_tokens):
    input_ids = input_ids.to(model.device)
    for _ in range(max_new_tokens):
        scores = processors(input_ids, model(input_ids))
        input_ids = torch.cat((input_ids, scores.argmax(-1, keepdim=True).to(model.device)), dim=1)
    return input_ids


torch.manual_seed(3)
model = Recurrent(vocab_size=40).shard("cuda:0", "cuda:1")
processors = LogitsProcessorList([TokenBiasProcessor({7: 4.0, 9: -9.0}, 40, device=model.device), TopKLogitsWarper(5)])
print(generate(model, torch.tensor([[1, 30, 22]]), processors, max_new_tokens=4).tolist())

# === minimum_length
# thread: https://github.com/huggingface/transformers/pull/31401
# about: an object that is no module has kept the ids for the device of the model that was meant first
# operation: isin on cuda:1, cuda:0
# operands: vocabulary|elements, self.eos_token_id|eos_token_id|test_elements
# category: cached-state
# error: on cuda:0|on the same device|same device
# line: ends = torch.isin(
# line: self.eos_token_id = torch.tensor(
# line: processors = [
# repair: ends = torch.isin(vocabulary, self.eos_token_id) -> ends = torch.isin(vocabulary, self.eos_token_id.to(scores.device))
import torch
from torch import nn


class MinLength:
    """No end before there are enough tokens."""

    def __init__(self, min_length, eos_token_id, device):
        self.min_length = min_length
        self.eos_token_id = torch.tensor(eos_token_id, device=device)

    def __call__(self, ids, scores):
        vocabulary = torch.arange(scores.shape[-1], device=scores.device)
        ends = torch.isin(vocabulary, self.eos_token_id)
        if ids.shape[-1] < self.min_length:
            scores = scores.masked_fill(ends, -float("inf"))
        return scores


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.head(self.embed(ids).mean(1))

    @torch.no_grad()
    def generate(self, ids, processors, length):
        while ids.shape[1] < length:
            scores = self(ids)
            for process in processors:
                scores = process(ids, scores)
            ids = torch.cat([ids, scores.argmax(-1, keepdim=True)], dim=1)
        return ids


torch.manual_seed(0)
model, assistant = Model(12, 8).to("cuda:0"), Model(12, 4).to("cuda:1")
processors = [MinLength(6, [0, 7], device="cuda:0")]
prompt = torch.tensor([[1, 4]])
whole = model.generate(prompt.to("cuda:0"), processors, 6)
draft = assistant.generate(prompt.to("cuda:1"), processors, 6)
print("whole", whole.tolist()[0], "draft", draft.tolist()[0])

# === parallel_anchors
# thread: https://github.com/pytorch/vision/issues/1255
# about: the replicas share the cache, which an image that went to the first device alone has filled
# operation: mul on cuda:0, cuda:1
# operands: sizes|anchors, deltas
# category: cached-state|data-parallel
# line: anchors.py: key = (tuple(grid_sizes), tuple(strides))
# line: anchors.py: if key in self._cache:
# repair: anchors.py: key = (tuple(grid_sizes), tuple(strides)) -> key = (tuple(grid_sizes), tuple(strides), device)
import torch
from torch import nn

from anchors import AnchorGenerator
from boxes import apply_deltas


class RegionProposalNetwork(nn.Module):
    def __init__(self, channels: int, strides: tuple[int, ...]):
        super().__init__()
        self.strides = strides
        self.levels = nn.ModuleList(nn.Conv2d(3, channels, kernel_size=s, stride=s) for s in strides)
        self.bbox_pred = nn.Conv2d(channels, 4, kernel_size=1)
        self.anchor_generator = AnchorGenerator(sizes=[2 * s for s in strides])

    def forward(self, images):
        feature_maps = [level(images) for level in self.levels]
        anchors = self.anchor_generator(feature_maps, self.strides)
        proposals = []
        for feature_map, level_anchors in zip(feature_maps, anchors):
            deltas = self.bbox_pred(feature_map).flatten(2).transpose(1, 2)
            proposals.append(apply_deltas(deltas, level_anchors))
        return torch.cat(proposals, dim=1)


if __name__ == "__main__":
    torch.manual_seed(7)
    rpn = nn.DataParallel(RegionProposalNetwork(5, strides=(4, 8)).to("cuda"), device_ids=[0, 1])
    dataset = torch.rand(5, 3, 16, 16)
    with torch.no_grad():
        first = rpn(dataset[:1])  # a look at one image before it starts
        rest = rpn(dataset[1:])
    print("proposals", list(first.shape), list(rest.shape), round(rest.sum().item(), 2))
# --- anchors.py
from torch import nn
import torch


class AnchorGenerator(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self._cache = {}

    def grid_anchors(self, grid_sizes, strides, device):
        anchors = []
        for (height, width), stride, size in zip(grid_sizes, strides, self.sizes):
            shift_x = torch.arange(width, dtype=torch.float32, device=device) * stride
            shift_y = torch.arange(height, dtype=torch.float32, device=device) * stride
            y, x = torch.meshgrid(shift_y, shift_x, indexing="ij")
            centers = torch.stack((x.flatten(), y.flatten()), dim=1)
            anchors.append(torch.cat((centers, torch.full_like(centers, size)), dim=1))
        return anchors

    def cached_grid_anchors(self, grid_sizes, strides, device):
        key = (tuple(grid_sizes), tuple(strides))
        if key in self._cache:
            return self._cache[key]
        anchors = self.grid_anchors(grid_sizes, strides, device)
        self._cache[key] = anchors
        return anchors

    def forward(self, feature_maps, strides):
        grid_sizes = [feature_map.shape[-2:] for feature_map in feature_maps]
        return self.cached_grid_anchors(grid_sizes, strides, feature_maps[0].device)
# --- boxes.py
import torch


def apply_deltas(deltas, anchors):
    """Boxes (center, size) that the deltas make of the anchors."""
    centers, sizes = anchors.split(2, dim=-1)
    new_centers = deltas[..., :2] * sizes + centers
    new_sizes = deltas[..., 2:].exp() * sizes
    return torch.cat((new_centers, new_sizes), dim=-1)

# === predictor_device
# thread: https://github.com/ultralytics/ultralytics/issues/4556
# about: the first prediction moves the model by itself; the second, after the same .to(), fails
# operation: conv on cuda:0, cuda:1
# operands: image|x|input, stem.weight|weight
# category: cached-state|default-or-current-device|module-split
# line: if self.predictor is None:
# line: return image.float().to(self.device)
# line: self.device = torch.device(
# repair: return image.float().to(self.device) -> return image.float().to(next(self.model.parameters()).device)
import torch
from torch import nn


class DetectionModel(nn.Module):
    def __init__(self, classes=2, width=6):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.body = nn.Sequential(nn.BatchNorm2d(width), nn.SiLU(), nn.Conv2d(width, width, 3, stride=2, padding=1), nn.SiLU())
        self.detect = nn.Conv2d(width, 4 + classes, 1)

    def forward(self, image):
        return self.detect(self.body(self.stem(image))).flatten(2).transpose(1, 2)


class Predictor:
    """Images in, boxes out; knows its model once it has been set up."""

    def __init__(self, conf):
        self.conf, self.model = conf, None

    def setup_model(self, model, device=None):
        self.device = torch.device(device or "cuda:0")
        self.model = model.eval().to(self.device)

    def preprocess(self, image):
        return image.float().to(self.device)

    @torch.inference_mode()
    def __call__(self, image):
        found = self.model(self.preprocess(image))[0]
        return found[found[:, 4:].sigmoid().amax(1) > self.conf].cpu()


class YOLO:
    def __init__(self):
        self.model, self.predictor = DetectionModel(), None

    def to(self, device):
        self.model.to(device)

    def __call__(self, source, conf=0.25):
        if self.predictor is None:
            self.predictor = Predictor(conf)
            self.predictor.setup_model(self.model)
        return self.predictor(source)


torch.manual_seed(0)
model = YOLO()
frames = torch.rand(2, 1, 3, 16, 16).to("cuda:1")
boxes = []
for frame in frames:
    model.to("cuda:1")
    boxes.append(model(frame, conf=0.3))
print("boxes", [(len(found), round(found.sum().item(), 3)) for found in boxes])

# === spiking_state
# thread: https://github.com/jeshraghian/snntorch/issues/225
# about: the state of the last run on the GPU is in a plain attribute when the network goes to the CPU
# operation: mul|add|sub on cpu, cuda:0
# operands: self.mem|mem, x|input_|current
# category: cached-state|state-not-registered
# line: self.mem = self.beta
# line: self.mem = None
# line: self.mem = torch.zeros_like(
# repair: self.mem = self.beta * self.mem + x -> self.mem = self.beta * self.mem.to(x.device) + x
import torch
from torch import nn


class Leaky(nn.Module):
    """A leaky integrate and fire neuron that keeps its potential from one call to the next."""

    def __init__(self, beta, threshold=0.5):
        super().__init__()
        self.register_buffer("beta", torch.tensor(beta))
        self.threshold = threshold
        self.mem = None

    def forward(self, x):
        if self.mem is None:
            self.mem = torch.zeros_like(x)
        self.mem = self.beta * self.mem + x
        spikes = (self.mem > self.threshold).float()
        self.mem = self.mem - spikes * self.threshold
        return spikes


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), Leaky(0.9), nn.Linear(8, 2), Leaky(0.8))

    def forward(self, x):
        return torch.stack([self.layers(frame) for frame in x]).sum(0)


torch.manual_seed(0)
net = Net().to("cuda:0")
frames = torch.rand(5, 3, 6)
with torch.no_grad():
    there = net(frames.to("cuda:0")).sum().item()
    net.to("cpu")
    here = net(frames).sum().item()
print("spikes", there, here)

# === static_cache_split
# thread: https://github.com/huggingface/transformers/issues/32624
# about: the cache of all layers was made on the first layers' device before anything ran
# operation: index_copy on cuda:0, cuda:1
# operands: keys|self, key_states|cache_position|index|source
# category: cached-state|module-split|created-without-device
# line: main.py: cache = StaticCache(
# line: cache.py: where = (layer_devices or {}).get(
# line: cache.py: keys.index_copy_(
# repair: main.py: cache = StaticCache(len(model.layers), (1, 2, 16, 4), device=ids.device) -> cache = StaticCache(len(model.layers), (1, 2, 16, 4), device=ids.device, layer_devices={2: "cuda:1", 3: "cuda:1"})
import torch
from accelerate import dispatch_model

from cache import StaticCache
from model import TinyDecoder


@torch.no_grad()
def generate(model, ids, max_new_tokens):
    cache = StaticCache(len(model.layers), (1, 2, 16, 4), device=ids.device)
    position = torch.arange(ids.shape[1], device=ids.device)
    step = ids
    for _ in range(max_new_tokens):
        logits = model(step, past_key_values=cache, cache_position=position)
        step = logits[:, -1:].argmax(-1)
        ids = torch.cat((ids, step.to(ids.device)), dim=1)
        position = position[-1:] + 1
    return ids


torch.manual_seed(0)
placement = {"embed": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "head": 1}
model = dispatch_model(TinyDecoder(layers=4).eval(), placement)
prompt = torch.tensor([[5, 3, 8, 13]]).to("cuda:0")
print("generated", generate(model, prompt, max_new_tokens=6).tolist())
# --- cache.py
import torch


class StaticCache:
    """Keys and values of a fixed length, so that a compiled step always sees the same shapes."""

    def __init__(self, num_layers, shape, device, layer_devices=None):
        self.key_cache, self.value_cache = [], []
        for layer in range(num_layers):
            where = (layer_devices or {}).get(layer, device)
            self.key_cache.append(torch.zeros(shape, device=where))
            self.value_cache.append(torch.zeros(shape, device=where))

    def update(self, key_states, value_states, layer_idx, cache_position):
        keys, values = self.key_cache[layer_idx], self.value_cache[layer_idx]
        keys.index_copy_(2, cache_position, key_states)
        values.index_copy_(2, cache_position, value_states)
        return keys, values
# --- model.py
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, layer_idx, heads=2, width=8):
        super().__init__()
        self.layer_idx, self.heads = layer_idx, heads
        self.qkv = nn.Linear(width, 3 * width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden, past_key_values, cache_position):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(hidden).chunk(3, dim=-1))
        k, v = past_key_values.update(k, v, self.layer_idx, cache_position)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        future = torch.arange(k.shape[2], device=k.device) > cache_position[:, None]
        scores = scores.masked_fill(future, float("-inf"))
        hidden = hidden + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return hidden + self.mlp(hidden)


class TinyDecoder(nn.Module):
    def __init__(self, layers, vocabulary=32, width=8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(i) for i in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids, past_key_values, cache_position):
        hidden = self.embed(ids)
        for layer in self.layers:
            hidden = layer(hidden, past_key_values=past_key_values, cache_position=cache_position)
        return self.head(hidden)

# === tft_relative_index
# thread: https://github.com/unit8co/darts/issues/3052
# about: made anew only for another batch size; the model went back to the CPU after the training
# operation: cat on cuda:0, cpu
# operands: self.relative_index|relative_index|tensors
# category: cached-state|state-not-registered
# line: if len(x) != self.batch_size_last:
# line: x = torch.cat([x, self.relative_index]
# repair: if len(x) != self.batch_size_last: -> if len(x) != self.batch_size_last or self.relative_index.device != x.device:
import math

import torch
from torch import nn


class TFTModule(nn.Module):
    """Forecasts a series from its past and from where in the window a value stands."""

    def __init__(self, n_variables: int, hidden: int, output_chunk_length: int):
        super().__init__()
        self.lstm = nn.LSTM(n_variables + 1, hidden, batch_first=True)
        self.output_layer = nn.Linear(hidden, output_chunk_length)
        self.batch_size_last = -1
        self.relative_index = None

    @staticmethod
    def get_relative_index(length, batch_size, device):
        index = torch.arange(-length + 1, 1, dtype=torch.float32, device=device) / length
        return index.reshape(1, -1, 1).expand(batch_size, -1, -1)

    def forward(self, x):
        if len(x) != self.batch_size_last:
            self.relative_index = self.get_relative_index(x.shape[1], len(x), x.device)
            self.batch_size_last = len(x)
        x = torch.cat([x, self.relative_index], dim=2)
        _, (hidden, _) = self.lstm(x)
        return self.output_layer(hidden[-1])


class Model:
    def fit(self, windows, targets, n_epochs=1):
        self.module = TFTModule(1, 8, targets.shape[1]).cuda()
        optimizer = torch.optim.Adam(self.module.parameters())
        for _ in range(n_epochs):
            loss = nn.functional.l1_loss(self.module(windows.cuda()), targets.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        self.module.cpu()
        return self

    def predict(self, windows):
        with torch.no_grad():
            return self.module.eval()(windows)


torch.manual_seed(3052)
series = torch.tensor([math.sin(i / 3) for i in range(20)])
windows = series.unfold(0, 6, 2)[..., None]
model = Model().fit(windows[:, :4], windows[:, 4:, 0], n_epochs=2)
print("forecast", [round(value, 3) for value in model.predict(windows[:, 2:])[-1].tolist()])

# === unipc_rks
# thread: https://github.com/huggingface/diffusers/pull/13450
# about: the list mixes a tensor computed from the sigmas, which are kept on the CPU on purpose, with a new one
# operation: stack|cat on cuda:0, cpu
# operands: rks|rk|tensors
# category: cached-state|created-without-device|input-not-moved
# line: scheduler.py: self.sigmas = self.sigmas.to(
# line: scheduler.py: rks.append(torch.ones(
# line: scheduler.py: rks = torch.stack(
# repair: scheduler.py: self.sigmas = self.sigmas.to("cpu")  # avoid too much traffic between the CPU and the device -> self.sigmas = self.sigmas.to(device=device)
import torch
from torch import nn

from scheduler import UniPCScheduler


class Transformer(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.time = nn.Linear(1, channels)
        self.conv = nn.Conv3d(channels, channels, 3, padding=1)

    def forward(self, latents, timestep):
        shift = self.time(timestep.float().reshape(1, 1) / 1000)
        return self.conv(latents + shift[:, :, None, None, None])


class ImageToVideoPipeline:
    def __init__(self, transformer, scheduler):
        self.transformer, self.scheduler = transformer, scheduler

    def to(self, device):
        self.transformer.to(device)
        self.device = torch.device(device)
        return self

    @torch.no_grad()
    def __call__(self, latents, num_inference_steps):
        latents = latents.to(self.device)
        self.scheduler.set_timesteps(num_inference_steps, device=self.device)
        for t in self.scheduler.timesteps:
            noise = self.transformer(latents, t)
            latents = self.scheduler.step(noise, latents)
        return latents


torch.manual_seed(0)
pipe = ImageToVideoPipeline(Transformer(4), UniPCScheduler()).to("cuda:0")
video = pipe(torch.randn(1, 4, 2, 4, 4), num_inference_steps=4)
print("video", tuple(video.shape), round(video.abs().mean().item(), 3))
# --- scheduler.py
import numpy as np
import torch


class UniPCScheduler:
    """Predicts the next sample from the last two outputs of the model, for flow matching."""

    def __init__(self, train_steps=1000):
        self.train_steps = train_steps

    def set_timesteps(self, steps, device=None):
        sigmas = np.linspace(0.98, 0.05, steps + 1).astype(np.float32)
        self.timesteps = torch.from_numpy(sigmas[:-1] * self.train_steps).to(device=device, dtype=torch.int64)
        self.sigmas = torch.from_numpy(sigmas)
        self.sigmas = self.sigmas.to("cpu")  # avoid too much traffic between the CPU and the device
        self.outputs, self.index = [], 0

    def lambda_at(self, index):
        return torch.log(1 - self.sigmas[index]) - torch.log(self.sigmas[index])

    def step(self, model_output, sample):
        converted = sample - self.sigmas[self.index] * model_output
        self.outputs = (self.outputs + [converted])[-2:]
        sample = self.predict(sample, order=len(self.outputs))
        self.index += 1
        return sample

    def predict(self, sample, order):
        now, m0 = self.index, self.outputs[-1]
        h = self.lambda_at(now + 1) - self.lambda_at(now)
        rks, d1s = [], []
        for k in range(1, order):
            rk = (self.lambda_at(now - k) - self.lambda_at(now)) / h
            rks.append(rk)
            d1s.append((self.outputs[-1 - k] - m0) / rk)
        rks.append(torch.ones((), device=sample.device))
        rks = torch.stack(rks)
        rhos = 0.5 * rks / rks.abs().sum()
        ratio = self.sigmas[now + 1] / self.sigmas[now]
        predicted = ratio * sample + (1 - ratio) * m0
        for rho, d1 in zip(rhos, d1s):
            predicted = predicted + 0.1 * rho * d1
        return predicted
