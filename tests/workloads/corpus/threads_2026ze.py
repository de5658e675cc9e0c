# === what_an_eye_saw_at_each_level
# thread: https://github.com/vllm-project/vllm/pull/40336
# about: what an encoder sees at several levels is kept in rows that are made once, for as many tokens as there may be. The first layers of a language model add them
# operation: add on cuda:0, cpu
# operands: other|.*deepstack.*|.*level.*
# category: state-not-registered|created-without-device|cached-state
# line: qwen_vl.py: self.deepstack.append(
# line: qwen_vl.py: return self.deepstack[level][:count]
# line: qwen_vl.py: x = x + self.level_of(
# repair: qwen_vl.py: self.deepstack.append(torch.zeros(most_tokens, width)) -> self.register_buffer(f"deepstack_{level}", torch.zeros(most_tokens, width), persistent=False)
# repair: qwen_vl.py: self.deepstack[level][: len(features)].copy_(features) -> getattr(self, f"deepstack_{level}")[: len(features)].copy_(features)
# repair: qwen_vl.py: self.deepstack[level][:count].zero_() -> getattr(self, f"deepstack_{level}")[:count].zero_()
# repair: qwen_vl.py: return self.deepstack[level][:count] -> return getattr(self, f"deepstack_{level}")[:count]
import torch

from qwen_vl import QwenVL
from runner import Runner

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
runner = Runner(QwenVL(vocabulary=20, width=8, depth=3, levels=2, most_tokens=16), device)
draw = torch.Generator().manual_seed(1)
picture = torch.rand(4, 12, generator=draw)
for prompt, image in (([3, 0, 0, 0, 0, 7], picture), ([5, 6], None), ([0, 0, 0, 0, 9], picture.flip(0))):
    scores = runner.execute(prompt, image)
print("scores", [round(value, 4) for value in scores[:6].tolist()], "next", scores.argmax().item())
# --- vision.py
import torch
from torch import nn

class VisionEncoder(nn.Module):
    def __init__(self, width, levels):
        super().__init__()
        self.patch = nn.Linear(12, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(levels))
        self.mergers = nn.ModuleList(nn.Linear(width, width) for _ in range(levels))

    def forward(self, patches):
        x, seen = self.patch(patches), []
        for block, merger in zip(self.blocks, self.mergers):
            x = x + torch.tanh(block(x))
            seen.append(merger(x))
        return x, seen
# --- qwen_vl.py
import torch
from torch import nn

from vision import VisionEncoder

class QwenVL(nn.Module):
    IMAGE = 0

    def __init__(self, vocabulary, width, depth, levels, most_tokens):
        super().__init__()
        self.levels = levels
        self.visual = VisionEncoder(width, levels)
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.deepstack = []
        for level in range(levels):
            self.deepstack.append(torch.zeros(most_tokens, width))

    def keep_level(self, level, features):
        self.deepstack[level][: len(features)].copy_(features)

    def clear(self, count):
        for level in range(self.levels):
            self.deepstack[level][:count].zero_()

    def level_of(self, level, count):
        return self.deepstack[level][:count]

    def embed_inputs(self, ids, patches):
        x = self.embed(ids)
        if patches is None:
            return x
        places = ids == self.IMAGE
        features, seen = self.visual(patches)
        x = x.masked_scatter(places[:, None], features)
        for level, each in enumerate(seen):
            self.keep_level(level, torch.zeros_like(x).masked_scatter(places[:, None], each))
        return x

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            x = x + torch.tanh(layer(x.cumsum(0)))
            if index < self.levels:
                x = x + self.level_of(index, len(x))
        self.clear(len(x))
        return self.head(x[-1])
# --- runner.py
import torch

class Runner:
    def __init__(self, model, device):
        self.device = device
        self.model = model.to(device).eval()

    @torch.inference_mode()
    def execute(self, prompt, image):
        ids = torch.tensor(prompt, device=self.device)
        patches = None if image is None else image.to(self.device)
        return self.model(self.model.embed_inputs(ids, patches)).cpu()

# === a_cache_for_layers_on_two_cards
# thread: https://github.com/huggingface/transformers/issues/34706
# about: keys and values have room for all steps from the start, in windows for some layers. A model's layers are on two cards, and what generates asks the model for its device
# operation: index_put_?|_index_put_impl_|index_copy_? on cuda:0, cuda:1
# operands: indices|.*positions.*|.*
# category: module-split|cached-state|default-or-current-device
# line: generate.py: cache = HybridCache(
# repair: generate.py: cache = HybridCache(model.config, batch=len(ids), length=ids.shape[1] + steps, device=model.device) -> cache = HybridCache(model.config, batch=len(ids), length=ids.shape[1] + steps, device=model.device, device_map=model.layer_devices())
import torch
from accelerate import dispatch_model

from gemma import Config, Gemma
from generate import generate

torch.manual_seed(0)
config = Config(vocabulary=24, width=8, depth=4, window=4)
model = Gemma(config).eval()
count = torch.cuda.device_count()
if count > 1:
    device_map = {"embed": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "norm": 1, "head": 1}
    model = dispatch_model(model, device_map)
ids = torch.randint(0, 24, (2, 3), generator=torch.Generator().manual_seed(1))
tokens, score = generate(model, ids.to(model.device), steps=5)
print("tokens", tokens.tolist(), "score", round(score, 4))
# --- gemma.py
from dataclasses import dataclass

import torch
from torch import nn

@dataclass
class Config:
    vocabulary: int
    width: int
    depth: int
    window: int

class Layer(nn.Module):
    def __init__(self, config, index):
        super().__init__()
        self.index, self.scale = index, config.width**-0.5
        self.qkv, self.out = nn.Linear(config.width, 3 * config.width), nn.Linear(config.width, config.width)

    def forward(self, x, positions, cache):
        queries, keys, values = self.qkv(x).chunk(3, dim=-1)
        keys, values, held = cache.update(self.index, keys, values, positions)
        scores = queries @ keys.transpose(1, 2) * self.scale
        scores = scores.masked_fill((held[None] > positions[:, None])[None], float("-inf"))
        return x + self.out(scores.softmax(-1) @ values)

class Gemma(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.depth))
        self.norm, self.head = nn.LayerNorm(config.width), nn.Linear(config.width, config.vocabulary)

    @property
    def device(self):
        return self.embed.weight.device

    def layer_devices(self):
        return {layer.index: layer.out.weight.device for layer in self.layers}

    def forward(self, ids, positions, cache):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, positions, cache)
        return self.head(self.norm(x[:, -1]))
# --- cache.py
import torch

class HybridCache:
    """Every second layer sees a window only, whose places are used again."""

    def __init__(self, config, batch, length, device, device_map=None):
        device_map = device_map or {}
        self.sizes, self.keys, self.values, self.held = [], [], [], []
        default = device
        for layer in range(config.depth):
            size = length if layer % 2 else min(length, config.window)
            device = device_map.get(layer, default)
            self.sizes.append(size)
            self.keys.append(torch.zeros(batch, size, config.width, device=device))
            self.values.append(torch.zeros(batch, size, config.width, device=device))
            self.held.append(torch.full((size,), 1 << 20, device=device))

    def update(self, layer, keys, values, positions):
        places = positions % self.sizes[layer]
        self.keys[layer][:, places] = keys
        self.values[layer][:, places] = values
        self.held[layer][places] = positions
        return self.keys[layer], self.values[layer], self.held[layer]
# --- generate.py
import torch

from cache import HybridCache

@torch.no_grad()
def generate(model, ids, steps):
    cache = HybridCache(model.config, batch=len(ids), length=ids.shape[1] + steps, device=model.device)
    fresh, total = ids, 0.0
    for _ in range(steps):
        positions = torch.arange(ids.shape[1] - fresh.shape[1], ids.shape[1], device=ids.device)
        scores = model(fresh, positions, cache).to(ids.device).log_softmax(-1)
        best, fresh = scores.max(-1, keepdim=True)
        total += best.sum().item()
        ids = torch.cat([ids, fresh], -1)
    return ids, total

# === a_picture_between_epochs
# thread: https://github.com/huggingface/diffusers/issues/11422
# about: a painter learns words of one prompt that were encoded before, so what encodes them goes to RAM. Now and then it paints another prompt, to look at
# operation: addmm|linear on cpu, cuda:0
# operands: mat1|input|.*embeds.*
# category: input-not-moved|module-split
# line: validation.py: embeds = text_encoding(
# line: validation.py: images.append(pipeline(
# line: pipeline.py: words = self.transformer.words(
# repair: validation.py: embeds = text_encoding(prompt) -> embeds = text_encoding(prompt).to(accelerator.device)
# repair: validation.py: nothing = text_encoding("") -> nothing = text_encoding("").to(accelerator.device)
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

from pipeline import TextEncoding, Transformer
from train import train

set_seed(0)
accelerator = Accelerator()
text_encoding = TextEncoding(vocabulary=40, width=16)
transformer = Transformer(channels=4, width=8, words=16)
picture = torch.rand(9, 4, generator=torch.Generator().manual_seed(2))
losses, images = train(accelerator, transformer, text_encoding, picture, prompt="a sks mug", validation="a sks mug in snow", epochs=2)
print("losses", [round(loss, 4) for loss in losses], "image", [round(value, 4) for value in images[-1].mean(0).tolist()])
# --- pipeline.py
import zlib

import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from torch import nn
from transformers import CLIPTextConfig, CLIPTextModel

class TextEncoding:
    def __init__(self, vocabulary, width):
        config = CLIPTextConfig(
            vocab_size=vocabulary, hidden_size=width, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=8, bos_token_id=0, eos_token_id=1, pad_token_id=1,
        )  # fmt: skip
        self.encoder, self.vocabulary = CLIPTextModel(config).eval(), vocabulary

    def to(self, device):
        self.encoder.to(device)
        return self

    @torch.no_grad()
    def __call__(self, prompt):
        words = [2 + zlib.crc32(word.encode()) % (self.vocabulary - 2) for word in prompt.split()]
        ids = torch.tensor([[0, *words, 1]], device=self.encoder.device)
        return self.encoder(input_ids=ids).last_hidden_state

class Transformer(nn.Module):
    def __init__(self, channels, width, words):
        super().__init__()
        self.inner, self.outer = nn.Linear(channels, width), nn.Linear(width, channels)
        self.words, self.attention = nn.Linear(words, width), nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, x, sigma, words):
        hidden = self.inner(x) + sigma
        seen, _ = self.attention(hidden, words, words, need_weights=False)
        return self.outer((hidden + seen).tanh())

class PaintingPipeline:
    def __init__(self, transformer, device):
        self.transformer, self.device = transformer, device
        self.scheduler = FlowMatchEulerDiscreteScheduler()

    @torch.no_grad()
    def __call__(self, prompt_embeds, negative_embeds, steps, seed, scale=2.0):
        words = self.transformer.words(prompt_embeds)
        other = self.transformer.words(negative_embeds)
        x = torch.randn(1, 9, 4, generator=torch.Generator().manual_seed(seed)).to(self.device)
        self.scheduler.set_timesteps(steps, device=self.device)
        for index, time in enumerate(self.scheduler.timesteps):
            sigma = self.scheduler.sigmas[index]
            away = self.transformer(x, sigma, other)
            velocity = away + scale * (self.transformer(x, sigma, words) - away)
            x = self.scheduler.step(velocity, time, x).prev_sample
        return x[0]
# --- validation.py
from pipeline import PaintingPipeline

def log_validation(accelerator, transformer, text_encoding, prompt, count):
    pipeline = PaintingPipeline(accelerator.unwrap_model(transformer), accelerator.device)
    embeds = text_encoding(prompt)
    nothing = text_encoding("")
    images = []
    for seed in range(count):
        images.append(pipeline(embeds, nothing, steps=3, seed=seed).cpu())
    return images
# --- train.py
import torch

from validation import log_validation

def train(accelerator, transformer, text_encoding, picture, prompt, validation, epochs):
    optimizer = torch.optim.AdamW(transformer.parameters(), lr=0.01)
    transformer, optimizer = accelerator.prepare(transformer, optimizer)
    text_encoding.to(accelerator.device)
    embeds = text_encoding(prompt)
    text_encoding.to("cpu")
    picture = picture[None].to(accelerator.device)
    draw, losses = torch.Generator().manual_seed(0), []
    for _ in range(epochs):
        for _ in range(2):
            sigma = torch.rand(1, generator=draw).to(accelerator.device)
            noise = torch.randn(picture.shape, generator=draw).to(accelerator.device)
            words = accelerator.unwrap_model(transformer).words(embeds)
            predicted = transformer((1 - sigma) * picture + sigma * noise, sigma, words)
            loss = (predicted - (noise - picture)).square().mean()
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss.item())
        images = log_validation(accelerator, transformer, text_encoding, validation, count=2)
    return losses, images

# === filters_that_no_call_fetches
# thread: https://github.com/huggingface/transformers/pull/46978
# about: weights stay in RAM, and a layer's are fetched when it is called. One layer's filter is used without a call, for it also makes one step at a time from what came before
# operation: conv1d|conv_depthwise.*|convolution|.*conv.* on cuda:0, cpu
# operands: weight|.*conv.*weight.*
# error: should be the same|on the same device
# category: module-split|cached-state
# line: linear_attention.py: mixed = F.conv1d(
# repair: linear_attention.py: mixed = F.conv1d(padded, self.conv1d.weight, self.conv1d.bias, groups=self.width) -> mixed = self.conv1d(padded)
import torch

from linear_attention import LinearLM
from offload import offload_layers
from score import perplexity

torch.manual_seed(0)
model = LinearLM(vocabulary=20, width=8, depth=2, reach=3).eval()
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
offload_layers(model, device)
draw = torch.Generator().manual_seed(1)
texts = [torch.randint(0, 20, (1, length), generator=draw) for length in (6, 9, 4)]
print("perplexity", [round(value, 4) for value in perplexity(model, texts)])
# --- offload.py
from accelerate import cpu_offload_with_hook

def offload_layers(model, device):
    """A layer is on the device from when it is called until the next one is."""
    hook = None
    for module in model.modules():
        if next(module.children(), None) is None and next(module.parameters(), None) is not None:
            _, hook = cpu_offload_with_hook(module, device, prev_module_hook=hook)
# --- linear_attention.py
import torch
from torch import nn
from torch.nn import functional as F

class LinearAttention(nn.Module):
    def __init__(self, width, reach):
        super().__init__()
        self.width, self.reach = width, reach
        self.inner, self.gate, self.outer = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.conv1d = nn.Conv1d(width, width, reach, groups=width)

    def forward(self, x):
        padded = F.pad(self.inner(x).transpose(1, 2), (self.reach - 1, 0))
        mixed = F.conv1d(padded, self.conv1d.weight, self.conv1d.bias, groups=self.width)
        return self.outer(F.silu(mixed).transpose(1, 2) * torch.sigmoid(self.gate(x)))

class LinearLM(nn.Module):
    def __init__(self, vocabulary, width, depth, reach):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.layers = nn.ModuleList(LinearAttention(width, reach) for _ in range(depth))

    def forward(self, ids):
        x = self.embed(ids)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return self.head(x)
# --- score.py
import torch
from torch.nn import functional as F

@torch.no_grad()
def perplexity(model, texts):
    found = []
    for ids in texts:
        scores = model(ids)
        loss = F.cross_entropy(scores[0, :-1].cpu(), ids[0, 1:])
        found.append(loss.exp().item())
    return found

# === the_same_noise_on_every_card
# thread: https://github.com/NVIDIA/TensorRT-LLM/pull/17670
# about: noise is drawn in RAM, so that a seed gives the same on cards of every kind. A pipeline paints frames and makes sound to them
# operation: normal_?|randn on cuda:0
# operands: generator|.*
# error: device type for generator
# category: generator|default-or-current-device
# line: ltx2.py: audio = torch.randn(
# line: vae.py: grain = torch.randn(
# repair: ltx2.py: audio = torch.randn(self.audio_shape, generator=generator, device=self.device) -> audio = randn_tensor(self.audio_shape, generator=generator, device=self.device)
# repair: vae.py: grain = torch.randn(frames.shape, generator=generator, device=frames.device) -> grain = torch.randn(frames.shape, generator=generator).to(frames.device)
import torch

from ltx2 import LTX2Pipeline
from wan import WanPipeline

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
wan = WanPipeline(device, seed=0)
video = wan(seed=42, steps=3)
ltx = LTX2Pipeline(device, seed=0)
video, sound = ltx(seed=42, steps=3)
print("video", [round(value, 4) for value in video.flatten()[:4].tolist()], "sound", [round(value, 4) for value in sound.flatten()[:4].tolist()])
# --- noise.py
import torch

def make_noise_generator(seed):
    """One that draws alike wherever what is drawn goes to."""
    return torch.Generator("cpu").manual_seed(seed)
# --- base.py
import torch
from torch import nn

class Pipeline:
    def __init__(self, device, seed):
        torch.manual_seed(seed)
        self.device = device
        self.build()

    def denoiser(self, channels):
        return nn.Sequential(nn.Linear(channels + 1, 12), nn.SiLU(), nn.Linear(12, channels)).to(self.device).eval()

    @staticmethod
    def step(model, x, sigma, length):
        level = torch.full_like(x[..., :1], sigma)
        return x - length * model(torch.cat([x, level], -1))
# --- wan.py
import torch
from diffusers.utils.torch_utils import randn_tensor

from base import Pipeline
from noise import make_noise_generator

class WanPipeline(Pipeline):
    def build(self):
        self.video = self.denoiser(4)

    @torch.no_grad()
    def __call__(self, seed, steps):
        generator = make_noise_generator(seed)
        x = randn_tensor((1, 6, 4), generator=generator, device=self.device)
        for index in range(steps):
            x = self.step(self.video, x, 1 - index / steps, 1 / steps)
        return x.cpu()
# --- vae.py
import torch
from torch import nn

class GrainyDecoder(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.out, self.grain = nn.Linear(channels, 3), nn.Parameter(torch.tensor(0.1))

    def forward(self, latents, generator):
        frames = self.out(latents)
        grain = torch.randn(frames.shape, generator=generator, device=frames.device)
        return frames + self.grain * grain
# --- ltx2.py
import torch
from diffusers.utils.torch_utils import randn_tensor

from base import Pipeline
from noise import make_noise_generator
from vae import GrainyDecoder

class LTX2Pipeline(Pipeline):
    video_shape, audio_shape = (1, 6, 4), (1, 8, 2)

    def build(self):
        self.video, self.sound = self.denoiser(4), self.denoiser(2)
        self.decoder = GrainyDecoder(4).to(self.device).eval()

    def prepare_latents(self, generator):
        video = randn_tensor(self.video_shape, generator=generator, device=self.device)
        audio = torch.randn(self.audio_shape, generator=generator, device=self.device)
        return video, audio

    @torch.no_grad()
    def __call__(self, seed, steps):
        generator = make_noise_generator(seed)
        video, audio = self.prepare_latents(generator)
        for index in range(steps):
            sigma = 1 - index / steps
            video = self.step(self.video, video, sigma, 1 / steps)
            audio = self.step(self.sound, audio + video.mean() * 0.1, sigma, 1 / steps)
        return self.decoder(video, generator).cpu(), audio.cpu()

# === boxes_before_the_weak_are_dropped
# thread: https://github.com/ultralytics/ultralytics/pull/25042
# about: a tracker also wants boxes that were dropped for their overlap, so what a network says is kept in RAM before. An exported network says it in a list
# operation: minimum|min on cuda:0, cpu
# operands: other|b2|.*
# category: input-not-moved|cached-state
# line: tracker.py: predictor.raw = [
# line: tracker.py: loose = predictor.postprocess(
# repair: tracker.py: predictor.raw = [pred.detach().clone() for pred in preds] if isinstance(preds, list) else preds.detach().to("cpu", copy=True) -> predictor.raw = (preds[0] if isinstance(preds, list) else preds).detach().to("cpu", copy=True)
import torch

from backend import ExportedBackend, TorchBackend
from predictor import Predictor
from tracker import Tracker, attach_raw_hook

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
draw = torch.Generator().manual_seed(4)
frames = [torch.rand(6, 8, generator=draw) for _ in range(3)]
for backend in (TorchBackend(8, device), ExportedBackend(8, device)):
    predictor, tracker = Predictor(backend, device), Tracker()
    attach_raw_hook(predictor)
    for frame in frames:
        tracks = tracker.update(predictor, predictor(frame))
    print(type(backend).__name__, len(tracks))
print("tracks", [[round(value, 4) for value in box] for box in tracks[:3]], "dropped", tracker.dropped)
# --- backend.py
import torch
from torch import nn

class TorchBackend:
    def __init__(self, width, device):
        torch.manual_seed(1)
        self.net = nn.Linear(width, 5).to(device).eval()

    def __call__(self, frame):
        out = self.net(frame).sigmoid()
        corner = out[:, :2]
        return torch.cat([corner, corner + 0.2 + out[:, 2:4], out[:, 4:]], -1)

class ExportedBackend(TorchBackend):
    """As a session of a runtime: it has outputs, of which the first is the boxes."""

    def __call__(self, frame):
        return [super().__call__(frame)]
# --- boxes.py
import torch

def box_iou(a, b):
    a1, a2 = a[:, None].chunk(2, -1)
    b1, b2 = b[None].chunk(2, -1)
    inter = (torch.minimum(a2, b2) - torch.maximum(a1, b1)).clamp(min=0).prod(-1)
    return inter / ((a2 - a1).prod(-1) + (b2 - b1).prod(-1) - inter)

def suppress(boxes, limit):
    boxes = boxes[boxes[:, 4].argsort(descending=True)]
    keep = []
    overlap = box_iou(boxes[:, :4], boxes[:, :4]).tolist()
    for index in range(len(boxes)):
        if all(overlap[index][other] < limit for other in keep):
            keep.append(index)
    return boxes[keep]
# --- predictor.py
import torch

from boxes import suppress

class Predictor:
    def __init__(self, backend, device):
        self.backend, self.device, self.hooks, self.raw = backend, device, [], None

    def postprocess(self, preds, limit):
        boxes = preds[0] if isinstance(preds, list) else preds
        return suppress(boxes[boxes[:, 4] > 0.3], limit)

    @torch.no_grad()
    def __call__(self, frame):
        preds = self.backend(frame.to(self.device))
        for hook in self.hooks:
            hook(self, preds)
        return self.postprocess(preds, limit=0.3).cpu()
# --- tracker.py
from boxes import box_iou

def attach_raw_hook(predictor):
    def keep(predictor, preds):
        predictor.raw = [pred.detach().clone() for pred in preds] if isinstance(preds, list) else preds.detach().to("cpu", copy=True)

    predictor.hooks.append(keep)

class Tracker:
    def __init__(self):
        self.tracks, self.dropped = [], 0

    def update(self, predictor, tight):
        loose = predictor.postprocess(predictor.raw, limit=0.95)
        overlap = box_iou(loose[:, :4], tight[:, :4]).amax(1)
        dropped = loose[overlap < 0.9]
        self.dropped += len(dropped)
        self.tracks = tight[:, :4].tolist() + dropped[:, :4].tolist()
        return self.tracks

# === what_cells_look_like_after_training
# thread: https://github.com/scverse/scvi-tools/issues/3585
# about: a model of cells is trained by a trainer that takes it to the GPU. Asked afterwards what cells look like, it has batches put where it was trained
# operation: addmm|linear on cuda:0, cpu
# operands: mat1|input|.*
# category: input-not-moved|module-split|default-or-current-device|cached-state
# line: mrvi.py: self.module.eval()
# line: mrvi.py: self.device = self.trainer.strategy.root_device
# repair: mrvi.py: self.module.eval() -> self.module.to(self.device).eval()
import logging
import warnings

import torch

from cells import cells_of
from mrvi import MRVI

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
counts, samples = cells_of(samples=3, cells=24, genes=10, seed=5)
model = MRVI(counts, samples, latent=4, seed=0)
model.train(max_epochs=2, accelerator="gpu" if torch.cuda.is_available() else "cpu")
latent = model.get_latent_representation(batch_size=16)
distances = model.get_local_sample_distances(batch_size=16)
print("latent", [round(value, 4) for value in latent[0].tolist()], "distances", [round(value, 4) for value in distances.mean(0).flatten().tolist()[:4]])
# --- cells.py
import torch

def cells_of(samples, cells, genes, seed):
    draw = torch.Generator().manual_seed(seed)
    owner = torch.arange(cells) % samples
    rates = torch.rand(samples, genes, generator=draw) * 6
    return torch.poisson(rates[owner], generator=draw), owner
# --- module.py
import torch
from lightning.pytorch import LightningModule
from torch import nn

class MRVAE(LightningModule):
    def __init__(self, genes, samples, latent):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(genes, 16), nn.ReLU(), nn.Linear(16, 2 * latent))
        self.sample = nn.Embedding(samples, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 16), nn.ReLU(), nn.Linear(16, genes))

    def inference(self, counts):
        mean, log_scale = self.encoder(torch.log1p(counts)).chunk(2, -1)
        return mean, log_scale.exp()

    def training_step(self, batch, index):
        counts, owner = batch
        mean, scale = self.inference(counts)
        rates = nn.functional.softplus(self.decoder(mean + self.sample(owner)))
        likely = counts * torch.log(rates + 1e-6) - rates
        return (0.5 * (mean**2 + scale**2) - torch.log(scale)).sum(-1).mean() - likely.sum(-1).mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)
# --- mrvi.py
import torch
from lightning.pytorch import Trainer
from torch.utils.data import DataLoader, TensorDataset

from module import MRVAE

class MRVI:
    def __init__(self, counts, samples, latent, seed):
        torch.manual_seed(seed)
        self.dataset, self.samples = TensorDataset(counts, samples), int(samples.max()) + 1
        self.module = MRVAE(counts.shape[1], self.samples, latent)

    def train(self, max_epochs, accelerator):
        loader = DataLoader(self.dataset, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(0))
        self.trainer = Trainer(
            max_epochs=max_epochs, accelerator=accelerator, devices=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        self.trainer.fit(self.module, loader)
        self.device = self.trainer.strategy.root_device
        self.module.eval()

    def batches(self, batch_size):
        for counts, _ in DataLoader(self.dataset, batch_size=batch_size):
            yield counts.to(self.device)

    @torch.inference_mode()
    def get_latent_representation(self, batch_size):
        found = []
        for counts in self.batches(batch_size):
            mean, _ = self.module.inference(counts)
            found.append(mean.cpu())
        return torch.cat(found)

    @torch.inference_mode()
    def get_local_sample_distances(self, batch_size):
        found = []
        every = torch.arange(self.samples, device=self.device)
        for counts in self.batches(batch_size):
            mean, _ = self.module.inference(counts)
            worlds = self.module.decoder(mean[:, None] + self.module.sample(every)[None])
            found.append((worlds[:, :, None] - worlds[:, None]).square().sum(-1).sqrt().cpu())
        return torch.cat(found)

# === rows_that_fill_up_a_prompt
# thread: https://github.com/Comfy-Org/ComfyUI/issues/11673
# about: not all of a model has room on the GPU; what has none is copied there as it is used. A prompt is filled up to a length with rows that were learned
# operation: cat on cuda:0, cpu
# operands: tensors|.*registers.*
# category: module-split|input-not-moved
# line: connector.py: rows = self.learnable_registers[
# line: connector.py: hidden = torch.cat(
# repair: connector.py: rows = self.learnable_registers[hidden.shape[1] :] -> rows = self.learnable_registers[hidden.shape[1] :].to(hidden.device)
import torch

from connector import Connector, Ops
from nodes import CLIPTextEncode, TextEncoder

torch.manual_seed(0)
encoder = TextEncoder(Connector(Ops, vocabulary=30, width=8, registers=6, depth=2), budget=1200)
for text in ("a lake in spring", "night"):
    condition = CLIPTextEncode().encode(encoder, text)
print("condition", list(condition.shape), [round(value, 4) for value in condition[0, -1, :5].tolist()])
# --- connector.py
import torch
from torch import nn

class Ops:
    """Layers that copy their weights to where their input is, if they are told so."""

    class Linear(nn.Linear):
        cast = False

        def forward(self, x):
            if not self.cast:
                return super().forward(x)
            return nn.functional.linear(x, self.weight.to(x.device), self.bias.to(x.device))

    class Embedding(nn.Embedding):
        cast = False

        def forward(self, ids):
            weight = self.weight.to(ids.device) if self.cast else self.weight
            return nn.functional.embedding(ids, weight)

class Block(nn.Module):
    def __init__(self, ops, width):
        super().__init__()
        self.query, self.value, self.out = (ops.Linear(width, width) for _ in range(3))

    def forward(self, x):
        seen = (self.query(x) @ x.transpose(1, 2)).softmax(-1) @ self.value(x)
        return x + self.out(seen)

class Connector(nn.Module):
    def __init__(self, ops, vocabulary, width, registers, depth):
        super().__init__()
        self.embed = ops.Embedding(vocabulary, width)
        self.learnable_registers = nn.Parameter(torch.randn(registers, width))
        self.blocks = nn.ModuleList(Block(ops, width) for _ in range(depth))

    def forward(self, ids):
        hidden = self.embed(ids)
        rows = self.learnable_registers[hidden.shape[1] :]
        hidden = torch.cat([hidden, rows.expand(len(hidden), -1, -1)], 1)
        for block in self.blocks:
            hidden = block(hidden)
        return hidden
# --- patcher.py
class ModelPatcher:
    def __init__(self, model, load_device, budget):
        self.model, self.load_device, self.budget = model, load_device, budget

    def sizes(self):
        for module in self.model.modules():
            own = [value for _, value in module.named_parameters(recurse=False)]
            nested = len(own) < len(list(module.parameters()))
            if own and not nested:
                yield sum(value.numel() * value.element_size() for value in own), module

    def load(self):
        left, lowvram = self.budget, 0
        for size, module in sorted(self.sizes(), key=lambda each: -each[0]):
            module.cast = size > left
            if module.cast:
                lowvram += 1
                continue
            module.to(self.load_device)
            left -= size
        return lowvram
# --- nodes.py
import zlib

import torch

from patcher import ModelPatcher

def get_torch_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")

class TextEncoder:
    def __init__(self, model, budget):
        self.model, self.patcher = model.eval(), ModelPatcher(model, get_torch_device(), budget)

    @torch.no_grad()
    def encode(self, ids):
        self.patcher.load()
        return self.model(ids.to(get_torch_device())).cpu()

class CLIPTextEncode:
    def encode(self, encoder, text):
        ids = [zlib.crc32(word.encode()) % 30 for word in text.split()]
        return encoder.encode(torch.tensor([ids]))

# === weights_that_wait_on_another_card
# thread: https://github.com/vllm-project/compressed-tensors/pull/621
# about: weights wait where there is room, be it RAM or another card, and are brought to the card that computes. Meanwhile ranges of what passes are noted
# operation: addmm|linear on cuda:0, cuda:1
# operands: bias|weight|mat2|.*weight.*
# category: module-split|cached-state|default-or-current-device
# line: cache.py: if value.device.type == self.onload_device.type:
# line: dispatch.py: return F.linear(
# repair: cache.py: if value.device.type == self.onload_device.type: -> if value.device == self.onload_device:
import torch
from torch import nn

from calibrate import calibrate
from dispatch import offload_model

torch.manual_seed(0)
count = torch.cuda.device_count()
onload = torch.device("cuda:0" if count else "cpu")
offload = torch.device(f"cuda:{count - 1}" if count else "cpu")
model = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 12), nn.GELU(), nn.Linear(12, 4)).eval()
offload_model(model, onload_device=onload, offload_device=offload)
batches = [torch.randn(5, 6, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
scales, outputs = calibrate(model, batches, onload)
print("scales", {name: round(value, 5) for name, value in scales.items()}, "sum", round(outputs.sum().item(), 4))
# --- cache.py
import torch

class OffloadCache:
    """Parameters of a module by name; what is asked for comes to the card that computes."""

    def __init__(self, onload_device, offload_device):
        self.onload_device, self.offload_device = onload_device, offload_device
        self.values = {}

    def __setitem__(self, name, value):
        self.values[name] = value.detach().to(self.offload_device)

    def __getitem__(self, name):
        return self.onload(self.values[name])

    def update(self, name, value):
        self.values[name].copy_(value)

    def onload(self, value):
        raise NotImplementedError

class CPUCache(OffloadCache):
    def onload(self, value):
        return value.to(self.onload_device)

class DeviceCache(OffloadCache):
    def onload(self, value):
        if value.device.type == self.onload_device.type:
            return value
        return value.to(self.onload_device, non_blocking=True)

def cache_for(onload_device, offload_device):
    kind = CPUCache if offload_device.type == "cpu" else DeviceCache
    return kind(torch.device(onload_device), torch.device(offload_device))
# --- dispatch.py
from functools import partial

from torch.nn import functional as F
from torch import nn

from cache import cache_for

def offloaded_forward(module, x):
    return F.linear(x, module.cache["weight"], module.cache["bias"])

def offload_module(module, onload_device, offload_device):
    module.cache = cache_for(onload_device, offload_device)
    for name in ("weight", "bias"):
        module.cache[name] = getattr(module, name)
        delattr(module, name)
    module.forward = partial(offloaded_forward, module)

def offload_model(model, onload_device, offload_device):
    for module in model.modules():
        if isinstance(module, nn.Linear):
            offload_module(module, onload_device, offload_device)
    return model
# --- calibrate.py
import torch

class MinMax:
    def __init__(self):
        self.most = 0.0

    def __call__(self, module, args):
        self.most = max(self.most, args[0].abs().max().item())

@torch.no_grad()
def calibrate(model, batches, device, bits=8):
    observers = {}
    for name, module in model.named_modules():
        if hasattr(module, "cache"):
            observers[name] = MinMax()
            module.register_forward_pre_hook(observers[name])
    outputs = torch.cat([model(batch.to(device)) for batch in batches])
    scales = {name: observer.most / (2 ** (bits - 1) - 1) for name, observer in observers.items()}
    for name, scale in scales.items():
        weight = model.get_submodule(name).cache["weight"]
        step = weight.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
        model.get_submodule(name).cache.update("weight", (weight / step).round() * step)
    return scales, outputs.cpu()

# === where_to_look_next
# thread: https://github.com/meta-pytorch/botorch/pull/2906
# about: an experiment is costly, so it is tried where most may be gained by what is known of others. Where to look is drawn evenly within bounds
# operation: mul on cuda:0, cpu
# operands: other|.*points.*|.*unit.*
# category: created-without-device|input-not-moved
# line: candidates.py: unit = SobolEngine(
# line: candidates.py: points = bounds[0] + (bounds[1] - bounds[0]) * unit
# repair: candidates.py: points = bounds[0] + (bounds[1] - bounds[0]) * unit -> points = bounds[0] + (bounds[1] - bounds[0]) * unit.to(bounds)
import torch

from acquisition import best_candidate
from candidates import draw_sobol
from gp import SingleTaskGP
from problem import branin

torch.set_default_dtype(torch.float64)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
bounds = torch.tensor([[-5.0, 0.0], [10.0, 15.0]], device=device)
inputs = draw_sobol(bounds, count=5, seed=3)
values = -branin(inputs)
for trial in range(4):
    model = SingleTaskGP((inputs - bounds[0]) / (bounds[1] - bounds[0]), values, length=0.3, noise=1e-4)
    chosen = best_candidate(model, bounds, values.max(), count=32, seed=trial)
    inputs, values = torch.cat([inputs, chosen]), torch.cat([values, -branin(chosen)])
print("best", round(values.max().item(), 4), "at", [round(value, 4) for value in inputs[values.argmax()].tolist()])
# --- problem.py
import math

import torch

def branin(x):
    first, second = x.unbind(-1)
    bowl = second - 5.1 / (4 * math.pi**2) * first**2 + 5 / math.pi * first - 6
    return bowl**2 + 10 * (1 - 1 / (8 * math.pi)) * torch.cos(first) + 10
# --- candidates.py
from torch.quasirandom import SobolEngine

def draw_sobol(bounds, count, seed):
    unit = SobolEngine(bounds.shape[1], scramble=True, seed=seed).draw(count, dtype=bounds.dtype)
    points = bounds[0] + (bounds[1] - bounds[0]) * unit
    return points
# --- gp.py
import torch

class SingleTaskGP:
    def __init__(self, inputs, values, length, noise):
        self.inputs, self.length = inputs, length
        self.mean, self.scale = values.mean(), values.std()
        known = self.kernel(inputs, inputs) + noise * torch.eye(len(inputs), device=inputs.device)
        self.root = torch.linalg.cholesky(known)
        targets = (values - self.mean) / self.scale
        self.weights = torch.cholesky_solve(targets[:, None], self.root)

    def kernel(self, a, b):
        apart = (a[:, None] - b[None]).square().sum(-1) / self.length**2
        root = (5 * apart).clamp(min=1e-18).sqrt()
        return (1 + root + root**2 / 3) * torch.exp(-root)

    def posterior(self, points):
        cross = self.kernel(points, self.inputs)
        solved = torch.linalg.solve_triangular(self.root, cross.T, upper=False)
        mean = (cross @ self.weights)[:, 0] * self.scale + self.mean
        variance = (1 - solved.square().sum(0)).clamp(min=1e-10)
        return mean, variance.sqrt() * self.scale
# --- acquisition.py
import math

import torch

from candidates import draw_sobol

def expected_improvement(model, points, best):
    mean, scale = model.posterior(points)
    standing = (mean - best) / scale
    density = torch.exp(-0.5 * standing**2) / math.sqrt(2 * math.pi)
    return scale * (density + standing * 0.5 * (1 + torch.erf(standing / math.sqrt(2))))

def best_candidate(model, bounds, best, count, seed):
    points = draw_sobol(bounds, count, seed)
    gains = expected_improvement(model, (points - bounds[0]) / (bounds[1] - bounds[0]), best)
    return points[gains.argmax()][None]

# === who_speaks_is_told_as_they_speak
# thread: https://github.com/QuentinFuxa/WhisperLiveKit/issues/206
# about: who speaks is told piece by piece, with what was heard before kept in a state. Pieces come to a task of their own and wait in a queue
# operation: lt on cuda:0, cpu
# operands: other|.*lengths.*
# category: created-without-device|input-not-moved
# line: sortformer_backend.py: lengths = torch.tensor(
# line: sortformer_backend.py: odds, self.state = self.model.forward_streaming_step(
# line: sortformer.py: valid = torch.arange(
# repair: sortformer_backend.py: lengths = torch.tensor([mels.shape[1]]) -> lengths = torch.tensor([mels.shape[1]]).to(self.device)
import asyncio

import torch

from audio_processor import AudioProcessor
from sortformer_backend import SortformerDiarization

torch.manual_seed(0)
diarization = SortformerDiarization(piece=16, device="cuda" if torch.cuda.is_available() else "cpu")
sound = torch.randn(80, generator=torch.Generator().manual_seed(6)).numpy()
segments = asyncio.run(AudioProcessor(diarization, piece=16).process(sound))
print("segments", segments, "odds", [round(value, 4) for value in diarization.odds[-1].tolist()])
# --- audio_processor.py
import asyncio

class AudioProcessor:
    def __init__(self, diarization, piece):
        self.diarization, self.piece = diarization, piece

    async def feed(self, queue, sound):
        for start in range(0, len(sound), self.piece):
            await queue.put(sound[start : start + self.piece])
            await asyncio.sleep(0)
        await queue.put(None)

    async def diarize(self, queue):
        segments = []
        while (piece := await queue.get()) is not None:
            for speaker in await self.diarization.diarize(piece):
                if not segments or segments[-1][0] != speaker:
                    segments.append([speaker, 0])
                segments[-1][1] += 1
        return segments

    async def process(self, sound):
        queue = asyncio.Queue(maxsize=2)
        _, segments = await asyncio.gather(self.feed(queue, sound), self.diarize(queue))
        return segments
# --- sortformer.py
from dataclasses import dataclass

import torch
from torch import nn

@dataclass
class StreamingState:
    speakers: torch.Tensor
    fifo: torch.Tensor

class Sortformer(nn.Module):
    def __init__(self, mels, width, most, kept):
        super().__init__()
        self.width, self.kept = width, kept
        self.pre_encode = nn.Linear(mels, width)
        self.encoder = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, most)

    def init_streaming_state(self, batch, device):
        speakers = torch.zeros(batch, 1, self.width, device=device)
        return StreamingState(speakers, speakers[:, :0])

    def forward_streaming_step(self, mels, lengths, state):
        fresh = self.pre_encode(mels)
        valid = torch.arange(fresh.shape[1], device=fresh.device) < lengths[:, None]
        fresh = fresh.masked_fill(~valid[..., None], 0.0)
        joined = torch.cat([state.speakers, state.fifo, fresh], 1)
        odds = self.head(self.encoder(joined)).sigmoid()
        fifo = torch.cat([state.fifo, fresh], 1)[:, -self.kept :]
        best = odds[:, -fresh.shape[1] :].amax(-1).argmax(1)
        speakers = 0.8 * state.speakers + 0.2 * fresh[torch.arange(len(fresh)), best][:, None]
        return odds[:, -fresh.shape[1] :], StreamingState(speakers, fifo)
# --- sortformer_backend.py
import torch

from sortformer import Sortformer

class SortformerDiarization:
    def __init__(self, piece, device):
        self.device, self.odds = torch.device(device), []
        self.model = Sortformer(mels=4, width=8, most=3, kept=6).to(self.device).eval()
        self.window = torch.hann_window(6, device=self.device)
        self.state = self.model.init_streaming_state(batch=1, device=self.device)

    def mels_of(self, sound):
        frames = sound.unfold(0, 6, 3) * self.window
        return torch.log1p(torch.fft.rfft(frames).abs())

    @torch.inference_mode()
    def step(self, piece):
        sound = torch.from_numpy(piece).to(self.device)
        mels = self.mels_of(sound)[None]
        lengths = torch.tensor([mels.shape[1]])
        odds, self.state = self.model.forward_streaming_step(mels, lengths, self.state)
        self.odds.append(odds[0, -1].cpu())
        return odds[0].argmax(-1).tolist()

    async def diarize(self, piece):
        return self.step(piece)

# === moments_of_weights_in_ram
# thread: https://github.com/bghira/SimpleTuner/pull/2530
# about: weights stay in RAM and are copied to the GPU for each use, where their gradients stay. An optimizer that takes gradients from there keeps moments of them
# operation: lerp_?|mul_?|add_? on cpu, cuda:0
# operands: self|end|other|.*exp_avg.*|grad
# category: optimizer|input-not-moved|module-split
# line: optim.py: state["exp_avg"] = torch.zeros_like(p)
# line: optim.py: grad = p.grad if grad is None else grad
# line: optim.py: grad = getattr(p, "ram_grad", None)
# line: ramlinear.py: owner.ram_grad =
# repair: optim.py: state["exp_avg"] = torch.zeros_like(p) -> state["exp_avg"] = torch.zeros_like(grad)
# repair: optim.py: state["exp_avg_sq"] = torch.zeros_like(p) -> state["exp_avg_sq"] = torch.zeros_like(grad)
# repair: optim.py: p.sub_(group["lr"] * change) -> p.sub_(group["lr"] * change.to(p.device))
import torch

from model import Tuned
from optim import RamAdamW
from train import train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Tuned(width=6, hidden=12, depth=2, device=device)
optimizer = RamAdamW(model.parameters(), lr=0.02, weight_decay=0.01)
losses = train(model, optimizer, device, steps=5, seed=1)
print("losses", [round(value, 4) for value in losses])
# --- ramlinear.py
import torch
from torch import nn

class RamMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, owner):
        ctx.save_for_backward(x)
        ctx.owner = owner
        return x @ weight.to(x.device).T

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        owner = ctx.owner
        found = grad.flatten(0, -2).T @ x.flatten(0, -2)
        owner.ram_grad = found if owner.ram_grad is None else owner.ram_grad + found
        return grad @ owner.detach().to(grad.device), None, None

class RamLinear(nn.Module):
    """Its weight is in RAM; what it should be changed by stays where it was found."""

    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner) / inner**0.5)
        self.weight.ram_grad = None

    def forward(self, x):
        return RamMatmul.apply(x, self.weight, self.weight)
# --- model.py
from torch import nn

from ramlinear import RamLinear

class Tuned(nn.Module):
    def __init__(self, width, hidden, depth, device):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth)).to(device)
        self.ups = nn.ModuleList(RamLinear(width, hidden) for _ in range(depth))
        self.downs = nn.ModuleList(RamLinear(hidden, width) for _ in range(depth))

    def forward(self, x):
        for norm, up, down in zip(self.norms, self.ups, self.downs):
            x = x + down(nn.functional.gelu(up(norm(x))))
        return x
# --- optim.py
import torch

class RamAdamW(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def zero_grad(self, set_to_none=True):
        super().zero_grad(set_to_none)
        for group in self.param_groups:
            for p in group["params"]:
                if hasattr(p, "ram_grad"):
                    p.ram_grad = None

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                grad = getattr(p, "ram_grad", None)
                grad = p.grad if grad is None else grad
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                first, second = group["betas"]
                state["exp_avg"].lerp_(grad, 1 - first)
                state["exp_avg_sq"].mul_(second).addcmul_(grad, grad, value=1 - second)
                scale = (state["exp_avg_sq"] / (1 - second ** state["step"])).sqrt() + group["eps"]
                change = state["exp_avg"] / (1 - first ** state["step"]) / scale
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * change)
# --- train.py
import torch

def train(model, optimizer, device, steps, seed):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 6, generator=draw).to(device).requires_grad_()
    y = torch.randn(8, 6, generator=draw).to(device)
    losses = []
    for _ in range(steps):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
