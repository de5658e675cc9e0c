# === rotary_cached_freqs
# thread: https://github.com/lucidrains/rotary-embedding-torch/pull/48
# about: angles of positions are kept from the first call. That was the check of shapes on the CPU, and what keeps them hangs on a settings object, so that .to() misses it
# operation: mul on cuda:0, cpu
# operands: freqs.*|.*cached_freqs
# category: cached-state|state-not-registered
# line: rotary.py: return self.cached_freqs[offset : offset + seq_len].detach()
# line: rotary.py: self.cached_freqs = freqs.detach()
# line: rotary.py: return t * freqs.cos() + rotate_half(t) * freqs.sin()
# line: rotary.py: freqs = self.forward(
# line: encoder.py: self.settings = settings
# line: main.py: encoder = encoder.to(
# line: main.py: shapes = check_shapes(
# repair: rotary.py: return self.cached_freqs[offset : offset + seq_len].detach() -> return self.cached_freqs[offset : offset + seq_len].detach().to(positions.device)
import torch

from encoder import Encoder, Settings

def check_shapes(encoder, settings):
    with torch.no_grad():
        return tuple(encoder(torch.zeros(1, settings.max_len, dtype=torch.long)).shape)

def train(encoder, settings, device, steps):
    generator = torch.Generator().manual_seed(2)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        tokens = torch.randint(settings.vocab, (4, settings.max_len - 4), generator=generator).to(device)
        logits = encoder(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

torch.manual_seed(0)
settings = Settings(vocab=20, dim=16, heads=2, depth=2, max_len=12)
encoder = Encoder(settings)
shapes = check_shapes(encoder, settings)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
encoder = encoder.to(device)
print("shape", shapes, "losses", [round(loss, 4) for loss in train(encoder, settings, device, steps=3)])
# --- rotary.py
import torch
from torch import nn

def rotate_half(x):
    x = x.unflatten(-1, (-1, 2))
    first, second = x.unbind(dim=-1)
    return torch.stack((-second, first), dim=-1).flatten(-2)

class RotaryEmbedding(nn.Module):
    def __init__(self, dim, theta=10000.0, cache_if_possible=True):
        super().__init__()
        freqs = 1.0 / theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim)
        self.register_buffer("freqs", freqs, persistent=False)
        self.cache_if_possible = cache_if_possible
        self.register_buffer("cached_freqs", None, persistent=False)

    def get_seq_pos(self, seq_len, device, offset=0):
        return torch.arange(seq_len, device=device) + offset

    def forward(self, positions, seq_len, offset=0):
        cached = self.cached_freqs
        if self.cache_if_possible and cached is not None and offset + seq_len <= len(cached):
            return self.cached_freqs[offset : offset + seq_len].detach()
        freqs = positions.to(self.freqs)[:, None] * self.freqs
        freqs = freqs.repeat_interleave(2, dim=-1)
        if self.cache_if_possible and offset == 0:
            self.cached_freqs = freqs.detach()
        return freqs

    def rotate_queries_or_keys(self, t, offset=0):
        seq_len = t.shape[-2]
        freqs = self.forward(self.get_seq_pos(seq_len, t.device, offset), seq_len, offset)
        return t * freqs.cos() + rotate_half(t) * freqs.sin()
# --- encoder.py
from dataclasses import dataclass, field

import torch
from torch import nn

from rotary import RotaryEmbedding

@dataclass
class Settings:
    vocab: int
    dim: int
    heads: int
    depth: int
    max_len: int
    rotary: RotaryEmbedding = field(init=False)

    def __post_init__(self):
        self.rotary = RotaryEmbedding(self.dim // self.heads)

class Attention(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        self.norm = nn.LayerNorm(settings.dim)
        self.to_qkv = nn.Linear(settings.dim, 3 * settings.dim, bias=False)
        self.to_out = nn.Linear(settings.dim, settings.dim, bias=False)

    def forward(self, x):
        split = self.to_qkv(self.norm(x)).unflatten(-1, (3, self.settings.heads, -1))
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        queries, keys = (self.settings.rotary.rotate_queries_or_keys(each) for each in (queries, keys))
        attended = nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return self.to_out(attended.transpose(1, 2).flatten(-2))

class Encoder(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.embed = nn.Embedding(settings.vocab, settings.dim)
        self.layers = nn.ModuleList(Attention(settings) for _ in range(settings.depth))
        self.head = nn.Linear(settings.dim, settings.vocab)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)

# === traced_distances
# thread: https://github.com/sarulab-speech/Sidon/issues/7
# about: the feature extractor is exported by a trace on the CPU, in which the distances of positions become constants; the loaded module goes to the GPU without them
# operation: index_select|embedding on cpu, cuda:0
# operands: .*
# category: cached-state|created-without-device|state-not-registered
# line: export.py: traced = torch.jit.trace(
# line: export.py: example = torch.zeros(
# line: export.py: extractor = extractor.eval()
# line: model.py: positions = torch.arange(
# repair: export.py: extractor = extractor.eval() -> extractor = extractor.eval().to(device)
# repair: export.py: example = torch.zeros(1, frames, extractor.mels) -> example = torch.zeros(1, frames, extractor.mels, device=device)
import io

import torch

from export import export, load
from model import FeatureExtractor
from vocoder import Vocoder

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
file = io.BytesIO()
export(FeatureExtractor(mels=6, width=8, heads=2, left=3, right=2), file, frames=10, device=device)
file.seek(0)
restore = Vocoder(load(file, device), width=8, hop=4).to(device).eval()
noisy = torch.randn(2, 10, 6, generator=torch.Generator().manual_seed(5))
with torch.inference_mode():
    clean = restore(noisy.to(device))
print("restored", tuple(clean.shape), [round(value, 4) for value in clean.mean(-1).tolist()])
# --- model.py
import torch
from torch import nn

class RelativeAttention(nn.Module):
    """Attention to which the distance of two frames, bounded, adds its own key."""

    def __init__(self, width, heads, left, right):
        super().__init__()
        self.heads, self.left, self.right = heads, left, right
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.distance_embedding = nn.Embedding(left + right + 1, width // heads)

    def forward(self, x):
        batch, frames, width = x.shape
        qkv = self.qkv(x).view(batch, frames, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = qkv[0], qkv[1], qkv[2]
        positions = torch.arange(frames, dtype=torch.long, device=x.device)
        distances = positions[None, :] - positions[:, None]
        distances = distances.clamp(-self.left, self.right)
        offsets = distances + self.left
        bias = self.distance_embedding(offsets)
        scores = query @ key.transpose(-1, -2) + torch.einsum("bhld,lrd->bhlr", query, bias)
        attended = (scores / key.shape[-1] ** 0.5).softmax(-1) @ value
        return self.out(attended.transpose(1, 2).reshape(batch, frames, width))

class FeatureExtractor(nn.Module):
    def __init__(self, mels, width, heads, left, right):
        super().__init__()
        self.mels = mels
        self.project, self.norm = nn.Linear(mels, width), nn.LayerNorm(width)
        self.attention = RelativeAttention(width, heads, left, right)

    def forward(self, features):
        hidden = self.project(features)
        return hidden + self.attention(self.norm(hidden))
# --- export.py
import torch

def export(extractor, file, frames, device):
    """Writes the extractor as a program of its own, which needs none of our code."""
    extractor = extractor.eval()
    example = torch.zeros(1, frames, extractor.mels)
    with torch.no_grad():
        traced = torch.jit.trace(extractor, example, check_trace=False)
    torch.jit.save(traced, file)

def load(file, device):
    module = torch.jit.load(file, map_location=device)
    return module.eval()
# --- vocoder.py
import torch
from torch import nn

class Vocoder(nn.Module):
    def __init__(self, extractor, width, hop):
        super().__init__()
        self.extractor = extractor
        self.upsample = nn.ConvTranspose1d(width, 1, hop, stride=hop)

    def forward(self, features):
        hidden = self.extractor(features)
        return torch.tanh(self.upsample(hidden.transpose(1, 2))).squeeze(1)

# === mel_of_the_stream
# thread: https://github.com/QuentinFuxa/WhisperLiveKit/issues/197
# about: chunks of a microphone come as arrays. What makes mel features of them was built for the GPU when there is one, and only the model's own input is moved
# operation: mul on cpu, cuda:0
# operands: frames|waveform
# category: input-not-moved|default-or-current-device
# line: diarization.py: chunk = torch.from_numpy(
# line: diarization.py: features = self.audio2mel.get_features(
# line: diarization.py: waveform = torch.cat(
# line: features.py: frames = waveform.unfold(
# line: features.py: self.device = device or
# line: diarization.py: self.audio2mel = AudioToMel(
# repair: diarization.py: chunk = torch.from_numpy(np.asarray(samples, dtype=np.float32)) -> chunk = torch.from_numpy(np.asarray(samples, dtype=np.float32)).to(self.device)
import numpy as np
import torch

from diarization import StreamingDiarization
from model import SortformerDiarizer

def microphone(seconds, rate, speakers, seed=0):
    """Chunks of a conversation: each speaker is a tone in noise."""
    random = np.random.default_rng(seed)
    for second in range(seconds):
        t = np.arange(rate) / rate
        yield np.sin(2 * np.pi * (40 + 60 * (second % speakers)) * t) + 0.1 * random.standard_normal(rate)

torch.manual_seed(0)
stream = StreamingDiarization(SortformerDiarizer(mels=8, width=12, speakers=2), rate=400, chunk_seconds=1)
turns = [stream.diarize(chunk) for chunk in microphone(seconds=4, rate=400, speakers=2)]
print("speakers", turns, "activity", [round(value, 3) for value in stream.total.mean(0).tolist()])
# --- features.py
import torch

def mel_filterbank(mels, bins, rate):
    edges = torch.linspace(0, rate / 2, mels + 2)
    frequencies = torch.linspace(0, rate / 2, bins)
    rising = (frequencies[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - frequencies[None]) / (edges[2:] - edges[1:-1])[:, None]
    return torch.minimum(rising, falling).clamp(min=0)

class AudioToMel:
    """Log mel features, one frame each hop."""

    def __init__(self, rate, mels=8, window=64, hop=32, device=None):
        self.device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.size, self.hop = window, hop
        self.window = torch.hann_window(window, device=self.device)
        self.filterbank = mel_filterbank(mels, window // 2 + 1, rate).to(self.device)

    def get_features(self, waveform):
        frames = waveform.unfold(-1, self.size, self.hop)
        spectrum = torch.fft.rfft(frames * self.window).abs().square()
        return (spectrum @ self.filterbank.T + 1e-6).log()
# --- diarization.py
import numpy as np
import torch

from features import AudioToMel

class StreamingDiarization:
    def __init__(self, model, rate, chunk_seconds):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device).eval()
        self.audio2mel = AudioToMel(rate, mels=model.mels)
        self.needed = int(rate * chunk_seconds)
        self.buffer, self.state = [], None
        self.total = torch.zeros(0, model.speakers)

    def _take(self):
        waveform = torch.cat(self.buffer)
        self.buffer = [waveform[self.needed :]]
        return waveform[: self.needed]

    @torch.inference_mode()
    def diarize(self, samples):
        chunk = torch.from_numpy(np.asarray(samples, dtype=np.float32))
        self.buffer.append(chunk)
        if sum(map(len, self.buffer)) < self.needed:
            return None
        features = self.audio2mel.get_features(self._take())
        preds, self.state = self.model.forward_streaming_step(features.to(self.device)[None], self.state)
        self.total = torch.cat([self.total, preds[0].cpu()])
        return int(preds[0].mean(0).argmax())
# --- model.py
import torch
from torch import nn

class SortformerDiarizer(nn.Module):
    def __init__(self, mels, width, speakers):
        super().__init__()
        self.mels, self.speakers = mels, speakers
        self.encoder = nn.GRU(mels, width, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, speakers))

    def forward_streaming_step(self, features, state):
        hidden, state = self.encoder(features, state)
        return self.head(hidden).sigmoid(), state

# === metrics_of_the_system
# thread: https://github.com/project-lighter/lighter/pull/158
# about: metrics are given to the system by name in a plain dict, one for each stage. The strategy moves the system to its device, and the metrics are no part of it
# operation: add on cpu, cuda:0
# operands: .*
# error: Encountered different devices in metric calculation
# category: state-not-registered|module-split
# line: system.py: self.metrics = {
# line: system.py: metric(pred, target)
# line: system.py: return self.metrics[mode]
# line: main.py: metrics = {
# line: runner.py: self.system = system.to(self.device)
# repair: system.py: self.metrics = {mode: MetricCollection(dict(each)) for mode, each in metrics.items()} -> self.metrics = nn.ModuleDict({f"{mode}_metrics": MetricCollection(dict(each)) for mode, each in metrics.items()})
# repair: system.py: return self.metrics[mode] -> return self.metrics[f"{mode}_metrics"]
import torch
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

from runner import Runner
from system import System

def loaders(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(24, 5, generator=generator)
    y = (x[:, :3]).argmax(-1)
    return [{"input": x[i : i + 8], "target": y[i : i + 8]} for i in range(0, 24, 8)]

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
metrics = {
    "train": {"accuracy": MulticlassAccuracy(num_classes=3)},
    "val": {"accuracy": MulticlassAccuracy(num_classes=3), "f1": MulticlassF1Score(num_classes=3)},
}
system = System(model, torch.nn.CrossEntropyLoss(), metrics, lr=0.5)
history = Runner(system).fit(loaders(1), loaders(2), epochs=3)
print("validation", history[-1])
# --- system.py
import torch
from torch import nn
from torchmetrics import MetricCollection

class System(nn.Module):
    """What is trained: a model, its criterion, its optimizer, and metrics for each stage."""

    def __init__(self, model, criterion, metrics, lr):
        super().__init__()
        self.model, self.criterion, self.lr = model, criterion, lr
        self.metrics = {mode: MetricCollection(dict(each)) for mode, each in metrics.items()}

    def configure_optimizers(self):
        return torch.optim.SGD(self.model.parameters(), lr=self.lr)

    def metrics_of(self, mode):
        return self.metrics[mode]

    def step(self, batch, mode):
        pred = self.model(batch["input"])
        loss = self.criterion(pred, batch["target"])
        self._calculate_metrics(pred.detach(), batch["target"], mode)
        return loss

    def _calculate_metrics(self, pred, target, mode):
        for metric in self.metrics_of(mode).values():
            metric(pred, target)

    def end_of_epoch(self, mode):
        collection = self.metrics_of(mode)
        values = {name: round(value.item(), 4) for name, value in collection.compute().items()}
        collection.reset()
        return values
# --- runner.py
import torch

def move(value, device):
    if isinstance(value, dict):
        return {name: move(each, device) for name, each in value.items()}
    return value.to(device) if isinstance(value, torch.Tensor) else value

class Runner:
    def __init__(self, system):
        self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        self.system = system.to(self.device)
        self.optimizer = system.configure_optimizers()

    def run_epoch(self, loader, mode):
        self.system.train(mode == "train")
        for batch in loader:
            with torch.set_grad_enabled(mode == "train"):
                loss = self.system.step(move(batch, self.device), mode)
            if mode == "train":
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        return self.system.end_of_epoch(mode)

    def fit(self, train, val, epochs):
        history = []
        for _ in range(epochs):
            self.run_epoch(train, "train")
            history.append(self.run_epoch(val, "val"))
        return history

# === bypassed_lora
# thread: https://github.com/Comfy-Org/ComfyUI/issues/10940
# about: weights that lie on the CPU come to the input's GPU for the moment of use. Functions that then add what is trained to them have their own tensors, made with the weights
# operation: add on cuda:0, cpu
# operands: .*diff.*|.*up|.*down
# category: module-split|state-not-registered|input-not-moved
# line: adapter.py: diff = torch.mm(
# line: adapter.py: return w + self.scale * diff.reshape(w.shape)
# line: adapter.py: self.up, self.down =
# line: train.py: adapter = LoRA(
# line: train.py: adapters = add_adapters(
# repair: adapter.py: return w + self.scale * diff.reshape(w.shape) -> return w + self.scale * diff.reshape(w.shape).to(w.device)
import torch

from model import Denoiser
from model_management import load_model
from train import train_lora

torch.manual_seed(0)
model = load_model(Denoiser(channels=4, width=8), keep_on_gpu=("head",))
latents = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
losses = train_lora(model, latents, rank=2, steps=3, lr=0.05)
print("losses", [round(loss, 5) for loss in losses])
# --- model_management.py
import torch

def get_torch_device():
    return torch.device("cuda", torch.cuda.current_device())

def load_model(model, keep_on_gpu):
    """Low memory: only these layers are put on the GPU, all others stay and are cast when they are used."""
    for name, layer in model.named_children():
        if name in keep_on_gpu:
            layer.to(get_torch_device())
    return model
# --- ops.py
import torch
from torch import nn

def cast_bias_weight(layer, x):
    weight, bias = layer.weight.to(x), layer.bias.to(x)
    for function in layer.weight_function:
        weight = function(weight)
    return weight, bias

class CastLinear(nn.Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.weight_function = []

    def forward(self, x):
        weight, bias = cast_bias_weight(self, x)
        return torch.nn.functional.linear(x, weight, bias)
# --- adapter.py
import torch
from torch import nn

class LoRA(nn.Module):
    def __init__(self, weight, rank, alpha=1.0):
        super().__init__()
        rows, columns = weight.shape
        up, down = torch.zeros(rows, rank), torch.randn(rank, columns) / rank
        self.up, self.down = nn.Parameter(up.to(weight)), nn.Parameter(down.to(weight))
        self.scale = alpha / rank

    def forward(self, w):
        diff = torch.mm(self.up, self.down)
        return w + self.scale * diff.reshape(w.shape)
# --- model.py
import torch
from torch import nn

from ops import CastLinear

class Denoiser(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.embed, self.mix, self.head = CastLinear(channels + 1, width), CastLinear(width, width), CastLinear(width, channels)

    def forward(self, x, sigma):
        hidden = torch.tanh(self.embed(torch.cat([x, sigma[:, None].log()], dim=-1)))
        return self.head(hidden + torch.tanh(self.mix(hidden)))
# --- train.py
import torch

from adapter import LoRA
from model_management import get_torch_device
from ops import CastLinear

def add_adapters(model, rank):
    adapters = torch.nn.ModuleDict()
    for name, layer in model.named_children():
        if isinstance(layer, CastLinear):
            adapter = LoRA(layer.weight, rank)
            layer.weight_function.append(adapter)
            adapters[name] = adapter
    return adapters

def train_lora(model, latents, rank, steps, lr):
    device = get_torch_device()
    model.requires_grad_(False)
    adapters = add_adapters(model, rank)
    optimizer = torch.optim.AdamW(adapters.parameters(), lr=lr)
    generator = torch.Generator().manual_seed(3)
    losses = []
    for _ in range(steps):
        sigma = torch.rand(len(latents), generator=generator) + 0.1
        noise = torch.randn(latents.shape, generator=generator)
        noisy = (latents + sigma[:, None] * noise).to(device)
        predicted = model(noisy, sigma.to(device))
        loss = torch.nn.functional.mse_loss(predicted, noise.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

# === per_layer_inputs
# thread: https://github.com/huggingface/transformers/pull/45347
# about: what layers share goes through them in an object of its own, which the hooks of a model on two GPUs do not look into. Each layer takes its part of it
# operation: mul on cuda:1, cuda:0
# operands: per_layer|.*per_layer_inputs.*
# category: module-split|input-not-moved
# line: decoder.py: per_layer = shared.per_layer_inputs[self.index]
# line: decoder.py: gated = nn.functional.gelu(self.gate(hidden)) * per_layer
# line: decoder.py: hidden = layer(hidden, shared)
# line: main.py: device_map = {
# repair: decoder.py: per_layer = shared.per_layer_inputs[self.index] -> per_layer = shared.per_layer_inputs[self.index].to(hidden.device)
import torch
from accelerate import dispatch_model

from decoder import Decoder, DecoderConfig

def generate(model, prompt, count):
    tokens = prompt
    with torch.no_grad():
        for _ in range(count):
            logits = model(tokens)[:, -1]
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True).to(tokens.device)], dim=-1)
    return tokens[:, prompt.shape[1] :].tolist()

torch.manual_seed(0)
config = DecoderConfig(vocab=40, width=16, per_layer_width=4, layers=4)
device_map = {"embed": 0, "embed_per_layer": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "norm": 1, "head": 1}
model = dispatch_model(Decoder(config).eval(), device_map)
print("tokens", generate(model, torch.tensor([[3, 14, 15], [9, 26, 5]]).to("cuda:0"), count=6))
# --- decoder.py
from dataclasses import dataclass

import torch
from torch import nn

@dataclass
class DecoderConfig:
    vocab: int
    width: int
    per_layer_width: int
    layers: int

class SharedInputs:
    """What all layers are given: the tokens' embeddings for each layer, and the mask."""

    def __init__(self, per_layer_inputs):
        self.per_layer_inputs = per_layer_inputs

class DecoderLayer(nn.Module):
    def __init__(self, config, index):
        super().__init__()
        self.index = index
        self.norm = nn.LayerNorm(config.width)
        self.mix = nn.GRU(config.width, config.width, batch_first=True)
        self.gate = nn.Linear(config.width, config.per_layer_width)
        self.back = nn.Linear(config.per_layer_width, config.width)

    def forward(self, hidden, shared):
        hidden = hidden + self.mix(self.norm(hidden))[0]
        per_layer = shared.per_layer_inputs[self.index]
        gated = nn.functional.gelu(self.gate(hidden)) * per_layer
        return hidden + self.back(gated)

class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.width)
        self.embed_per_layer = nn.Embedding(config.vocab, config.layers * config.per_layer_width)
        self.layers = nn.ModuleList(DecoderLayer(config, index) for index in range(config.layers))
        self.norm, self.head = nn.LayerNorm(config.width), nn.Linear(config.width, config.vocab)

    def get_per_layer_inputs(self, tokens):
        embedded = self.embed_per_layer(tokens)
        return list(embedded.chunk(self.config.layers, dim=-1))

    def forward(self, tokens):
        hidden = self.embed(tokens)
        shared = SharedInputs(self.get_per_layer_inputs(tokens))
        for layer in self.layers:
            hidden = layer(hidden, shared)
        return self.head(self.norm(hidden))

# === rope_on_the_first_card
# thread: https://github.com/XunhaoLai/native-sparse-attention-triton/pull/15
# about: layers are made on the device of the rank. The rotary table is asked for without one, and its own default is "cuda", the current card, which nobody has set
# operation: mul on cuda:1, cuda:0
# operands: cos
# category: default-or-current-device|created-without-device
# line: attention.py: self.rope = RotaryEmbedding(
# line: rope.py: device="cuda"
# line: rope.py: return x * cos + rotate_half(x) * sin
# line: main.py: device = torch.device("cuda", local_rank)
# line: rope.py: cos, sin = self.generate_cos_sin(
# repair: attention.py: self.rope = RotaryEmbedding(RopeConfig(head_dim=head_dim, max_positions=config.max_positions)) -> self.rope = RotaryEmbedding(RopeConfig(head_dim=head_dim, max_positions=config.max_positions), device=device)
import os

import torch

from attention import SparseConfig, ToyNSALM

def batches(vocab, count, generator):
    for _ in range(count):
        yield torch.randint(vocab, (2, 17), generator=generator)

local_rank = int(os.environ.get("LOCAL_RANK", "1"))
device = torch.device("cuda", local_rank)
torch.manual_seed(0)
config = SparseConfig(vocab=24, hidden=16, heads=2, block=4, topk=2, layers=2, max_positions=32)
model = ToyNSALM(config, device=device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
losses = []
for tokens in batches(config.vocab, 3, torch.Generator().manual_seed(local_rank)):
    tokens = tokens.to(device)
    loss = model.loss(tokens[:, :-1], tokens[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- rope.py
from dataclasses import dataclass

import torch
from torch import nn

@dataclass
class RopeConfig:
    head_dim: int
    max_positions: int
    theta: float = 10000.0

def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)

class RotaryEmbedding(nn.Module):
    def __init__(self, config, device="cuda"):
        super().__init__()
        self.config = config
        exponents = torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim
        inv_freq = 1.0 / config.theta**exponents
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def generate_cos_sin(self, length, dtype):
        positions = torch.arange(length, device=self.inv_freq.device).float()
        angles = torch.outer(positions, self.inv_freq)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def forward(self, x):
        cos, sin = self.generate_cos_sin(x.shape[-2], x.dtype)
        return x * cos + rotate_half(x) * sin
# --- attention.py
from dataclasses import dataclass

import torch
from torch import nn

from rope import RopeConfig, RotaryEmbedding

@dataclass
class SparseConfig:
    vocab: int
    hidden: int
    heads: int
    block: int
    topk: int
    layers: int
    max_positions: int

class SparseAttention(nn.Module):
    """Each query attends to the keys of those blocks whose means it likes best."""

    def __init__(self, config, device):
        super().__init__()
        self.config, head_dim = config, config.hidden // config.heads
        self.qkv = nn.Linear(config.hidden, 3 * config.hidden, bias=False, device=device)
        self.proj = nn.Linear(config.hidden, config.hidden, bias=False, device=device)
        self.rope = RotaryEmbedding(RopeConfig(head_dim=head_dim, max_positions=config.max_positions))

    def forward(self, x):
        batch, length, _ = x.shape
        query, key, value = self.qkv(x).view(batch, length, 3, self.config.heads, -1).permute(2, 0, 3, 1, 4)
        query, key = self.rope(query), self.rope(key)
        blocks = key.unflatten(2, (-1, self.config.block)).mean(3)
        chosen = (query @ blocks.transpose(-1, -2)).topk(self.config.topk, dim=-1).indices
        near = torch.zeros(batch, self.config.heads, length, blocks.shape[2], dtype=torch.bool, device=x.device).scatter(-1, chosen, True)
        steps = torch.arange(length, device=x.device)
        mask = near.repeat_interleave(self.config.block, dim=-1) & (steps[:, None] >= steps) | (steps[:, None] == steps)
        attended = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.proj(attended.transpose(1, 2).reshape(x.shape))

class ToyNSALM(nn.Module):
    def __init__(self, config, device):
        super().__init__()
        self.embed = nn.Embedding(config.vocab, config.hidden, device=device)
        self.layers = nn.ModuleList(SparseAttention(config, device) for _ in range(config.layers))
        self.head = nn.Linear(config.hidden, config.vocab, device=device)

    def loss(self, tokens, labels):
        x = self.embed(tokens)
        for layer in self.layers:
            x = x + layer(nn.functional.layer_norm(x, x.shape[-1:]))
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())

# === mask_of_the_first_block
# thread: https://github.com/TransformerLensOrg/TransformerLens/issues/968
# about: blocks lie on two GPUs and the residual goes from one to the next. The mask of padding stays where the tokens are, and picks rows of the other GPU's table
# operation: index on cuda:1, cuda:0
# operands: position_ids
# error: indices should be either on cpu or on the same device as the indexed tensor
# category: module-split|input-not-moved
# line: transformer.py: residual = block(residual, attention_mask)
# line: transformer.py: residual = residual.to(get_device_for_block_index(
# line: attention.py: position_ids = get_offset_position_ids(attention_mask)
# line: attention.py: cos, sin = self.rotary_cos[position_ids]
# repair: transformer.py: residual = block(residual, attention_mask) -> residual = block(residual, attention_mask.to(residual.device))
import torch

from transformer import HookedConfig, HookedTransformer

def pad(prompts, padding):
    longest = max(map(len, prompts))
    return torch.tensor([[padding] * (longest - len(prompt)) + prompt for prompt in prompts])

torch.manual_seed(0)
cfg = HookedConfig(d_vocab=30, d_model=16, n_heads=2, n_layers=4, n_ctx=24, device="cuda", n_devices=2)
model = HookedTransformer(cfg)
tokens = pad([[4, 9, 17], [5, 6, 7, 8, 9]], padding=0)
print("generated", model.generate(tokens, max_new_tokens=5, padding=0).tolist())
# --- devices.py
import torch

def get_device_for_block_index(index, cfg):
    """Blocks go to devices in equal shares, beginning with the model's own."""
    device = torch.device(cfg.device)
    if device.type == "cpu" or cfg.n_devices == 1:
        return device
    first = device.index or 0
    return torch.device(device.type, first + index // (cfg.n_layers // cfg.n_devices))
# --- attention.py
import torch
from torch import nn

def get_offset_position_ids(attention_mask):
    shifted = attention_mask.long().cumsum(-1) - 1
    return shifted.clamp(min=0)

def rotate_every_two(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)

class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n_heads, d_head = cfg.n_heads, cfg.d_model // cfg.n_heads
        self.W_QKV, self.W_O = nn.Linear(cfg.d_model, 3 * cfg.d_model), nn.Linear(cfg.d_model, cfg.d_model)
        frequencies = 1 / 10000 ** (torch.arange(0, d_head, 2) / d_head)
        angles = torch.arange(cfg.n_ctx)[:, None] * frequencies.repeat(2)
        self.register_buffer("rotary_cos", angles.cos())
        self.register_buffer("rotary_sin", angles.sin())
        self.register_buffer("causal", torch.ones(cfg.n_ctx, cfg.n_ctx, dtype=torch.bool).tril())

    def apply_rotary(self, x, cos, sin):
        return x * cos + rotate_every_two(x) * sin

    def forward(self, x, attention_mask):
        queries, keys, values = self.W_QKV(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        position_ids = get_offset_position_ids(attention_mask)
        cos, sin = self.rotary_cos[position_ids][:, None], self.rotary_sin[position_ids][:, None]
        queries, keys = (self.apply_rotary(each, cos, sin) for each in (queries, keys))
        length = x.shape[1]
        visible = self.causal[:length, :length] & attention_mask[:, None, None, :].bool()
        scores = (queries @ keys.transpose(-1, -2) / keys.shape[-1] ** 0.5).masked_fill(~visible, -1e9)
        return self.W_O((scores.softmax(-1) @ values).transpose(1, 2).flatten(-2))
# --- transformer.py
from dataclasses import dataclass

import torch
from torch import nn

from attention import Attention
from devices import get_device_for_block_index

@dataclass
class HookedConfig:
    d_vocab: int
    d_model: int
    n_heads: int
    n_layers: int
    n_ctx: int
    device: str
    n_devices: int = 1

class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln, self.attn = nn.LayerNorm(cfg.d_model), Attention(cfg)

    def forward(self, residual, attention_mask):
        return residual + self.attn(self.ln(residual), attention_mask)

class HookedTransformer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embed, self.unembed = nn.Embedding(cfg.d_vocab, cfg.d_model), nn.Linear(cfg.d_model, cfg.d_vocab)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layers))
        self.move_model_modules_to_device()

    def move_model_modules_to_device(self):
        self.embed.to(get_device_for_block_index(0, self.cfg))
        for index, block in enumerate(self.blocks):
            block.to(get_device_for_block_index(index, self.cfg))
        self.unembed.to(get_device_for_block_index(self.cfg.n_layers - 1, self.cfg))

    def forward(self, tokens, attention_mask):
        residual = self.embed(tokens)
        for index, block in enumerate(self.blocks):
            residual = residual.to(get_device_for_block_index(index, self.cfg))
            residual = block(residual, attention_mask)
        return self.unembed(residual)

    @torch.inference_mode()
    def generate(self, tokens, max_new_tokens, padding):
        tokens = tokens.to(self.embed.weight.device)
        for _ in range(max_new_tokens):
            logits = self(tokens, tokens != padding)[:, -1].clone()
            logits[:, padding] = -torch.inf
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True).to(tokens.device)], dim=-1)
        return tokens

# === posterior_back_on_host
# thread: https://github.com/sbi-dev/sbi/issues/1368
# about: trained on the GPU, the estimator of a posterior is moved to the CPU for the rounds to come; the observation that the copied posterior keeps is not
# operation: sub on cuda:0, cpu
# operands: x|condition
# category: cached-state|input-not-moved
# line: posterior.py: samples = self.posterior_estimator.sample(
# line: posterior.py: x = self._x_else_default_x(x)
# line: posterior.py: return self._x if x is None else
# line: estimator.py: embedded = self.embedding(
# line: estimator.py: condition = condition.expand(
# line: main.py: posterior.posterior_estimator.to("cpu")
# line: main.py: posterior.set_default_x(
# repair: posterior.py: samples = self.posterior_estimator.sample(count, x) -> samples = self.posterior_estimator.sample(count, x.to(next(self.posterior_estimator.parameters()).device))
import torch

from inference import NPE
from prior import BoxUniform

def simulator(theta):
    return torch.stack([theta[:, 0] + theta[:, 1], theta[:, 0] * theta[:, 1]], dim=-1)

torch.manual_seed(0)
device = "cuda:0" if torch.cuda.is_available() else "cpu"
prior = BoxUniform(torch.tensor([-1.0, -1.0]), torch.tensor([1.0, 1.0]))
observation = simulator(torch.tensor([[0.3, 0.6]]))
inference = NPE(prior, device=device)
theta = prior.sample(64, torch.Generator().manual_seed(1))
inference.append_simulations(theta, simulator(theta)).train(epochs=5)
posterior = inference.build_posterior()
posterior.set_default_x(observation)
print("on the device", [round(value, 3) for value in posterior.sample(8, seed=2).mean(0).tolist()])
posterior.posterior_estimator.to("cpu")
theta = posterior.sample(16, seed=3)
print("simulated", [round(value, 4) for value in simulator(theta).mean(0).tolist()])
# --- prior.py
import torch

class BoxUniform:
    def __init__(self, low, high):
        self.low, self.high = low, high

    def sample(self, count, generator):
        return self.low + (self.high - self.low) * torch.rand(count, len(self.low), generator=generator)
# --- estimator.py
import torch
from torch import nn

class Standardize(nn.Module):
    def __init__(self, x):
        super().__init__()
        self.register_buffer("mean", x.mean(0))
        self.register_buffer("std", x.std(0))

    def forward(self, x):
        return (x - self.mean) / self.std

class ConditionalGaussian(nn.Module):
    def __init__(self, theta, x, width=16):
        super().__init__()
        self.embedding = nn.Sequential(Standardize(x), nn.Linear(x.shape[1], width), nn.Tanh())
        self.heads = nn.Linear(width, 2 * theta.shape[1])

    def parameters_of(self, condition):
        embedded = self.embedding(condition)
        mean, log_std = self.heads(embedded).chunk(2, dim=-1)
        return mean, log_std.clamp(-4, 2).exp()

    def loss(self, theta, condition):
        mean, std = self.parameters_of(condition)
        return (((theta - mean) / std).square() / 2 + std.log()).sum(-1).mean()

    def sample(self, count, condition, generator=None):
        condition = condition.expand(count, -1)
        mean, std = self.parameters_of(condition)
        noise = torch.randn(mean.shape, generator=generator)
        return mean + std * noise.to(mean.device)
# --- inference.py
import copy

import torch

from estimator import ConditionalGaussian
from posterior import DirectPosterior

class NPE:
    """Neural posterior estimation."""

    def __init__(self, prior, device="cpu"):
        self._prior, self._device = prior, device
        self._theta, self._x, self._posterior = [], [], None

    def append_simulations(self, theta, x):
        self._theta.append(theta)
        self._x.append(x)
        return self

    def train(self, epochs, lr=0.02):
        theta, x = torch.cat(self._theta).to(self._device), torch.cat(self._x).to(self._device)
        self._neural_net = ConditionalGaussian(theta, x).to(self._device)
        optimizer = torch.optim.Adam(self._neural_net.parameters(), lr=lr)
        for _ in range(epochs):
            optimizer.zero_grad()
            self._neural_net.loss(theta, x).backward()
            optimizer.step()
        return self._neural_net

    def build_posterior(self):
        self._posterior = DirectPosterior(self._neural_net, self._prior, self._device)
        return copy.deepcopy(self._posterior)
# --- posterior.py
import torch

class DirectPosterior:
    def __init__(self, posterior_estimator, prior, device):
        self.posterior_estimator, self.prior, self._device = posterior_estimator, prior, device
        self._x = None

    def set_default_x(self, x):
        self._x = torch.atleast_2d(x).to(self._device)
        return self

    def _x_else_default_x(self, x):
        return self._x if x is None else torch.atleast_2d(x).to(self._device)

    @torch.no_grad()
    def sample(self, count, x=None, seed=0):
        torch.manual_seed(seed)
        x = self._x_else_default_x(x)
        samples = self.posterior_estimator.sample(count, x)
        return samples

# === second_utterance
# thread: https://github.com/diodiogod/TTS-Audio-Suite/issues/143
# about: a loaded engine is kept by its name and its device. Between two runs the memory manager takes its model to the CPU, and the engine is handed out again as it is
# operation: embedding|index_select on cpu, cuda:0
# operands: .*weight
# category: cached-state|module-split
# line: loader.py: return self.engines[key]
# line: engine.py: return self.model(tokens
# line: nodes.py: engine = self.loader.load(
# line: nodes.py: return engine.generate(
# repair: loader.py: return self.engines[key] -> return self.engines[key].to(device)
import torch

from memory import MemoryManager
from nodes import SpeechNode

torch.manual_seed(0)
manager = MemoryManager()
node = SpeechNode(manager, device="cuda" if torch.cuda.is_available() else "cpu")
lines = ["the quick brown fox", "jumps over", "the lazy dog"]
spoken = []
for line in lines:
    audio = node.run(line, voice="narrator")
    spoken.append((audio.shape[-1], round(audio.abs().mean().item(), 4)))
    manager.free_memory()
print("spoken", spoken)
# --- memory.py
class MemoryManager:
    """Knows what has been loaded; when a workflow has ended all of it makes room."""

    def __init__(self):
        self.loaded = []

    def track(self, model):
        if not any(each is model for each in self.loaded):
            self.loaded.append(model)

    def free_memory(self):
        for model in self.loaded:
            model.to("cpu")
# --- engine.py
import torch
from torch import nn

class CharacterTokenizer:
    alphabet = " abcdefghijklmnopqrstuvwxyz"

    def encode(self, text):
        return torch.tensor([[self.alphabet.index(letter) for letter in text.lower() if letter in self.alphabet]])

class SpeechModel(nn.Module):
    def __init__(self, letters, width, samples):
        super().__init__()
        self.text, self.decoder = nn.Embedding(letters, width), nn.GRU(2 * width, width, batch_first=True)
        self.head = nn.Linear(width, samples)

    def forward(self, tokens, speaker):
        text = self.text(tokens)
        hidden, _ = self.decoder(torch.cat([text, speaker.expand_as(text)], dim=-1))
        return self.head(hidden).tanh().flatten(1)

class Engine:
    def __init__(self, model, device):
        self.tokenizer, self.model = CharacterTokenizer(), model.eval()
        self.voices = {}
        self.to(device)

    def to(self, device):
        self.device = torch.device(device)
        self.model.to(self.device)
        return self

    def voice_of(self, name):
        if name not in self.voices:
            generator = torch.Generator().manual_seed(sum(map(ord, name)))
            self.voices[name] = torch.randn(1, 1, self.model.text.embedding_dim, generator=generator)
        return self.voices[name].to(self.device)

    @torch.inference_mode()
    def generate(self, text, voice):
        tokens = self.tokenizer.encode(text).to(self.device)
        return self.model(tokens, self.voice_of(voice)).cpu()
# --- loader.py
from engine import CharacterTokenizer, Engine, SpeechModel

class EngineLoader:
    def __init__(self, manager):
        self.manager, self.engines = manager, {}

    def load(self, name, device):
        key = (name, str(device))
        if key in self.engines:
            return self.engines[key]
        engine = Engine(SpeechModel(len(CharacterTokenizer.alphabet), width=8, samples=5), device)
        self.manager.track(engine.model)
        self.engines[key] = engine
        return engine
# --- nodes.py
from loader import EngineLoader

class SpeechNode:
    def __init__(self, manager, device):
        self.loader, self.device = EngineLoader(manager), device

    def run(self, text, voice):
        engine = self.loader.load("chatter", self.device)
        return engine.generate(text, voice)

# === refined_with_the_nodes_generator
# thread: https://github.com/jtydhr88/ComfyUI-UltraShape1/issues/15
# about: the node makes its generator on the GPU; where noise is made is asked of the pipeline, whose first model has been put away
# operation: randn|normal on cpu
# operands: generator
# error: Expected a 'cpu' device type for generator but found 'cuda'
# category: generator
# line: pipeline.py: latents = torch.randn(
# line: pipeline.py: device = self.device
# line: pipeline.py: return next(self.vae.parameters()).device
# line: nodes.py: generator = torch.Generator(
# repair: pipeline.py: latents = torch.randn(shape, generator=generator, device=device) -> latents = torch.randn(shape, generator=generator, device=generator.device).to(device)
import torch

from nodes import RefineNode
from pipeline import DiT, RefinePipeline, ShapeVAE

torch.manual_seed(0)
pipeline = RefinePipeline(ShapeVAE(channels=3, width=6), DiT(width=6), low_vram=True)
coarse = torch.rand(1, 10, 3, generator=torch.Generator().manual_seed(4))
shape = RefineNode().refine(pipeline, coarse, steps=3, seed=7)
print("refined", tuple(shape.shape), "finite", bool(shape.isfinite().all()))
# --- nodes.py
import torch

class RefineNode:
    def refine(self, pipeline, coarse, steps, seed):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        generator = torch.Generator(device=device).manual_seed(seed)
        return pipeline(coarse, num_inference_steps=steps, generator=generator)
# --- pipeline.py
import torch
from torch import nn

class ShapeVAE(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.width = width
        self.encoder, self.decoder = nn.Linear(channels, width), nn.Linear(width, channels)

class DiT(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 * width + 1, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))

    def forward(self, latents, condition, t):
        return self.net(torch.cat([latents, condition, t.expand(*latents.shape[:-1], 1)], dim=-1))

class RefinePipeline:
    def __init__(self, vae, dit, low_vram=False):
        self.vae, self.dit = vae.eval(), dit.eval()
        self.execution_device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.dit.to(self.execution_device)
        self.vae.to("cpu" if low_vram else self.execution_device)

    @property
    def device(self):
        return next(self.vae.parameters()).device

    def prepare_latents(self, shape, generator):
        device = self.device
        latents = torch.randn(shape, generator=generator, device=device)
        return latents

    @torch.no_grad()
    def __call__(self, coarse, num_inference_steps, generator):
        condition = self.vae.encoder(coarse.to(self.device))
        latents = self.prepare_latents(condition.shape, generator)
        times = torch.linspace(1, 0, num_inference_steps + 1)
        for t, following in zip(times, times[1:]):
            velocity = self.dit(latents.to(self.execution_device), condition.to(self.execution_device), t.to(self.execution_device))
            latents = latents + (following - t) * velocity.to(latents.device)
        return self.vae.decoder(latents)

# === compiled_before_the_move
# thread: https://github.com/pytorch/pytorch/issues/163064
# about: the model is compiled and tried on the CPU; then it goes to the GPU and is compiled again, and requests are made into tensors as before
# operation: addmm|linear on cpu, cuda:0
# operands: .*
# error: two different devices|same device|device mismatch
# category: cached-state|input-not-moved
# line: service.py: rows = torch.tensor(
# line: service.py: logits = self.compiled(
# line: service.py: self.model.to(device)
# repair: service.py: logits = self.compiled(self.rows_of(requests)) -> logits = self.compiled(self.rows_of(requests).to(next(self.model.parameters()).device))
import torch

from model import Scorer
from service import ScoringService

requests = [{"age": 31.0, "income": 4.2, "visits": 3.0}, {"age": 58.0, "income": 2.9, "visits": 11.0}]
torch.manual_seed(0)
service = ScoringService(Scorer(features=3, width=8, classes=2), ["age", "income", "visits"])
print("tried", service.score(requests))
if torch.cuda.is_available():
    service.accelerate("cuda")
print("scores", service.score(requests))
# --- model.py
import torch
from torch import nn

class Scorer(nn.Module):
    def __init__(self, features, width, classes):
        super().__init__()
        self.register_buffer("scale", torch.full((features,), 10.0))
        self.hidden, self.out = nn.Linear(features, width), nn.Linear(width, classes)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(torch.log1p(x))))
# --- service.py
import torch

class ScoringService:
    def __init__(self, model, columns):
        self.model, self.columns = model.eval(), columns
        self.device = torch.device("cpu")
        self.compiled = torch.compile(self.model, backend="eager")

    def accelerate(self, device):
        """Moves the model and compiles it anew for where it is."""
        self.model.to(device)
        torch.compiler.reset()
        self.compiled = torch.compile(self.model, backend="eager")

    def rows_of(self, requests):
        rows = torch.tensor([[request[column] for column in self.columns] for request in requests], device=self.device)
        return rows

    @torch.inference_mode()
    def score(self, requests):
        logits = self.compiled(self.rows_of(requests))
        return [round(value, 4) for value in logits.softmax(-1)[:, 1].tolist()]
