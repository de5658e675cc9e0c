# === magnitudes_say_what_to_skip
# thread: https://github.com/kijai/ComfyUI-WanVideoWrapper/issues/780
# about: how much a step of denoising changes is known before, so some steps are not computed but repeat the last change. That is kept in RAM, if one wants memory of the GPU for other things
# operation: addmm|mm|linear|matmul on cpu, cuda:0
# operands: mat1|input|x|hidden|.*
# category: cached-state|input-not-moved
# line: magcache.py: return hidden.to(self.cache_device) + self.residuals[branch]
# line: wan.py: hidden = cache.repeat(
# line: wan.py: return self.head(
# repair: magcache.py: return hidden.to(self.cache_device) + self.residuals[branch] -> return hidden + self.residuals[branch].to(hidden.device)
import torch

from magcache import MagCache
from sampler import sample
from wan import WanModel

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = WanModel(width=8, depth=3).to(device).eval()
cache = MagCache(ratios=[1.0, 0.99, 0.97, 0.98, 0.9, 0.7], threshold=0.04, cache_device="cpu")
draw = torch.Generator().manual_seed(3)
noise, words, nothing = torch.randn(6, 8, generator=draw), torch.randn(8, generator=draw), torch.zeros(8)
video = sample(model, noise.to(device), words.to(device), nothing.to(device), cache, steps=6, scale=2.0)
print("skipped", cache.skipped, "video", [round(value, 4) for value in video.mean(0).tolist()[:4]])
# --- magcache.py
class MagCache:
    """Steps are repeated while what that costs, summed up, is little."""

    def __init__(self, ratios, threshold, cache_device):
        self.ratios, self.threshold, self.cache_device = ratios, threshold, cache_device
        self.residuals, self.errors, self.skipped = {}, {}, 0

    def skips(self, branch, step):
        if branch not in self.residuals:
            return False
        self.errors[branch] = self.errors.get(branch, 0.0) + abs(1 - self.ratios[step])
        if self.errors[branch] > self.threshold:
            self.errors[branch] = 0.0
            return False
        self.skipped += 1
        return True

    def keep(self, branch, before, after):
        self.residuals[branch] = (after - before).to(self.cache_device)

    def repeat(self, branch, hidden):
        return hidden.to(self.cache_device) + self.residuals[branch]
# --- wan.py
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.ffn = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x, words):
        seen, _ = self.attention(x, x + words, x, need_weights=False)
        return x + seen + self.ffn(x)

class WanModel(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.patch, self.head = nn.Linear(width, width), nn.Linear(width, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x, words, step, branch, cache):
        before = self.patch(x)[None]
        if cache.skips(branch, step):
            hidden = cache.repeat(branch, before)
        else:
            hidden = before
            for block in self.blocks:
                hidden = block(hidden, words)
            cache.keep(branch, before, hidden)
        return self.head(hidden)[0]
# --- sampler.py
import torch

@torch.no_grad()
def sample(model, x, words, nothing, cache, steps, scale):
    for step in range(steps):
        wanted = model(x, words, step, "cond", cache)
        other = model(x, nothing, step, "uncond", cache)
        x = x - (other + scale * (wanted - other)) / steps
    return x.cpu()

# === the_next_block_is_fetched_before
# thread: https://github.com/orssorbit/ComfyUI-wanBlockswap/issues/4
# about: the last blocks of a model do not fit on the GPU. While one of them computes the next is fetched, and each goes back to RAM when it is done
# operation: .*layer_norm on cuda:0, cpu
# operands: weight|.*norm.*weight
# category: module-split
# line: swap.py: self.blocks[index].register_forward_pre_hook(
# line: swap.py: if index < len(self.blocks):
# line: swap.py: self.blocks[index].to(self.device)
# repair: swap.py: self.blocks[index].register_forward_pre_hook(functools.partial(self.fetch, index + 1)) -> self.blocks[index - 1].register_forward_pre_hook(functools.partial(self.fetch, index))
import torch

from nodes import BlockSwapNode, SamplerNode
from video_model import VideoModel

torch.manual_seed(0)
model = VideoModel(width=6, depth=5).eval()
patched = BlockSwapNode().apply(model, blocks_to_swap=2)
frames = SamplerNode().sample(patched, shape=(4, 6), steps=3, seed=11)
print("frames", [round(value, 4) for value in frames.mean(1).tolist()])
# --- video_model.py
import torch
from torch import nn

class VideoBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix, self.scale = nn.Linear(width, width), nn.Linear(1, width)

    def forward(self, x, level):
        x = self.norm(x) * (1 + self.scale(level)) + x
        return x + self.mix(x).tanh()

class VideoModel(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.patch_embedding, self.head = nn.Linear(width, width), nn.Linear(width, width)
        self.blocks = nn.ModuleList(VideoBlock(width) for _ in range(depth))

    def forward(self, x, sigma):
        level = torch.full((len(x), 1), sigma, device=x.device)
        x = self.patch_embedding(x)
        for block in self.blocks:
            x = block(x, level)
        return self.head(x)
# --- swap.py
import functools

class BlockSwap:
    def __init__(self, model, count, device):
        self.blocks, self.device = list(model.blocks), device
        self.first = len(self.blocks) - count
        model.to(device)
        for block in self.blocks[self.first :]:
            block.to("cpu")
        for index in range(self.first, len(self.blocks)):
            self.blocks[index].register_forward_pre_hook(functools.partial(self.fetch, index + 1))
            self.blocks[index].register_forward_hook(functools.partial(self.put_back, index))

    def fetch(self, index, module, args):
        if index < len(self.blocks):
            self.blocks[index].to(self.device)

    def put_back(self, index, module, args, output):
        self.blocks[index].to("cpu")
# --- nodes.py
import torch

from swap import BlockSwap

def get_torch_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")

class BlockSwapNode:
    def apply(self, model, blocks_to_swap):
        model.swap = BlockSwap(model, blocks_to_swap, get_torch_device())
        return model

class SamplerNode:
    @torch.no_grad()
    def sample(self, model, shape, steps, seed):
        device = get_torch_device()
        x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)
        for step in range(steps):
            sigma = 1 - step / steps
            x = x - sigma * model(x, sigma) / steps
        return x.cpu()

# === words_no_caption_begins_with
# thread: https://github.com/huggingface/transformers/pull/46280
# about: a sound is listened to on one GPU and told in words on another. Of several captions the best go on, and objects that change scores forbid some words, a few of them at the start only
# operation: isin|eq|.*unique.* on cuda:1, cuda:0
# operands: .*begin_suppress_tokens.*|test_elements|.*
# category: module-split|cached-state|input-not-moved
# line: processors.py: suppressed = torch.isin(
# line: main.py: processors = [
# repair: processors.py: suppressed = torch.isin(vocabulary, self.begin_suppress_tokens) -> suppressed = torch.isin(vocabulary, self.begin_suppress_tokens.to(scores.device))
import torch

from beams import beam_search
from captioner import Captioner
from processors import NoRepeats, SuppressAtBegin

torch.manual_seed(0)
count = torch.cuda.device_count()
devices = [f"cuda:{index}" for index in range(count)] or ["cpu"]
model = Captioner(vocabulary=14, width=8, listens=devices[0], speaks=devices[-1]).eval()
processors = [SuppressAtBegin([3, 5, 7, 9], begin_index=1, device=model.device), NoRepeats()]
sound = torch.randn(1, 2, 24, generator=torch.Generator().manual_seed(1))
captions = beam_search(model, sound.to(model.device), processors, beams=3, length=5)
print("captions", [tokens for tokens, _ in captions], "scores", [round(score, 3) for _, score in captions])
# --- captioner.py
import torch
from torch import nn

class Captioner(nn.Module):
    BEGIN, END = 0, 1

    def __init__(self, vocabulary, width, listens, speaks):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(2, width, 4, stride=4), nn.GELU()).to(listens)
        self.embed, self.head = nn.Embedding(vocabulary, width).to(speaks), nn.Linear(width, vocabulary).to(speaks)
        self.decoder = nn.TransformerDecoderLayer(width, 2, 16, dropout=0.0, batch_first=True).to(speaks)
        self.speaks = torch.device(speaks)

    @property
    def device(self):
        return self.encoder[0].weight.device

    def encode(self, sound):
        return self.encoder(sound).transpose(1, 2)

    def forward(self, tokens, heard):
        steps = tokens.shape[1]
        later = torch.ones(steps, steps, dtype=torch.bool, device=tokens.device).triu(1)
        hidden = self.decoder(self.embed(tokens), heard.expand(len(tokens), -1, -1), tgt_mask=later)
        return self.head(hidden[:, -1])
# --- processors.py
import torch

class SuppressAtBegin:
    def __init__(self, tokens, begin_index, device):
        self.begin_suppress_tokens = torch.tensor(tokens, device=device)
        self.begin_index = begin_index

    def __call__(self, tokens, scores):
        vocabulary = torch.arange(scores.shape[-1], device=scores.device)
        suppressed = torch.isin(vocabulary, self.begin_suppress_tokens)
        if tokens.shape[1] != self.begin_index:
            return scores
        return scores.masked_fill(suppressed, float("-inf"))

class NoRepeats:
    """No word twice in a row."""

    def __call__(self, tokens, scores):
        return scores.scatter(1, tokens[:, -1:], float("-inf"))
# --- beams.py
import torch

@torch.no_grad()
def beam_search(model, sound, processors, beams, length):
    heard = model.encode(sound).to(model.speaks)
    tokens = torch.full((beams, 1), model.BEGIN, device=heard.device)
    totals = torch.tensor([0.0] + [-1e9] * (beams - 1), device=heard.device)
    for _ in range(length):
        scores = model(tokens, heard).log_softmax(-1)
        for processor in processors:
            scores = processor(tokens, scores)
        sums = (totals[:, None] + scores).flatten()
        totals, chosen = sums.topk(beams)
        rows, words = chosen // scores.shape[-1], chosen % scores.shape[-1]
        tokens = torch.cat([tokens[rows], words[:, None]], 1)
    return list(zip(tokens.tolist(), totals.tolist()))

# === codes_become_sound_elsewhere
# thread: https://github.com/vllm-project/vllm-omni/pull/6539
# about: a stage writes codes of sound, and another makes sound of them, piece by piece. What knows the codes may be put on the CPU by a variable of the environment; a stage has a device of its own
# operation: embedding|index_select on cuda:0, cpu
# operands: index|indices|input|.*codes.*|.*weight
# category: default-or-current-device|input-not-moved
# line: code2wav.py: codes = torch.tensor(
# line: code2wav.py: piece = self.tokenizer.decode(
# line: codec.py: hidden = sum(
# repair: code2wav.py: codes = torch.tensor(request["codes"][start:stop], device=self.device) -> codes = torch.tensor(request["codes"][start:stop], device=self.tokenizer.device)
import os

import torch

from code2wav import Code2Wav
from pipeline import Pipeline
from talker import Talker

os.environ.setdefault("AUDIO_TOKENIZER_DEVICE", "cpu")
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pipeline = Pipeline([Talker(device, books=2, codes=10, seed=1), Code2Wav(device, books=2, codes=10, seed=2, chunk=4)])
for request in ({"id": "a", "text": "good morning"}, {"id": "b", "text": "rain, later sun"}):
    finished = pipeline.run(request)
    print(finished["id"], "samples", len(finished["wave"]))
print("wave", [round(value, 4) for value in finished["wave"][:5]], "loudest", round(max(map(abs, finished["wave"])), 4))
# --- pipeline.py
class Pipeline:
    """Each stage adds to a request what the next one needs."""

    def __init__(self, stages):
        self.stages = stages

    def run(self, request):
        for stage in self.stages:
            request = {**request, **stage(request)}
        return request
# --- talker.py
import zlib

import torch
from torch import nn

class Talker:
    def __init__(self, device, books, codes, seed):
        torch.manual_seed(seed)
        self.device, self.books, self.codes = device, books, codes
        self.cell, self.heads = nn.GRUCell(1, 6).to(device), nn.Linear(6, books * codes).to(device)

    @torch.inference_mode()
    def __call__(self, request):
        state, rows = torch.zeros(1, 6, device=self.device), []
        for letter in request["text"]:
            state = self.cell(torch.full((1, 1), zlib.crc32(letter.encode()) % 7 - 3.0, device=self.device), state)
            scores = self.heads(state).view(self.books, self.codes)
            rows.append(scores.argmax(-1).tolist())
        return {"codes": rows}
# --- codec.py
import os

import torch
from torch import nn

class AudioTokenizer(nn.Module):
    def __init__(self, books, codes, width=6, hop=3):
        super().__init__()
        self.books = nn.ModuleList(nn.Embedding(codes, width) for _ in range(books))
        self.upsample = nn.ConvTranspose1d(width, 1, hop, stride=hop)

    @property
    def device(self):
        return self.upsample.weight.device

    def decode(self, codes):
        hidden = sum(book(codes[:, index]) for index, book in enumerate(self.books))
        return self.upsample(hidden.T[None]).tanh()[0, 0]

def load_tokenizer(books, codes, device):
    device = os.environ.get("AUDIO_TOKENIZER_DEVICE", device)
    return AudioTokenizer(books, codes).to(device).eval()
# --- code2wav.py
import torch

from codec import load_tokenizer

class Code2Wav:
    def __init__(self, device, books, codes, seed, chunk):
        torch.manual_seed(seed)
        self.device, self.chunk = device, chunk
        self.tokenizer = load_tokenizer(books, codes, device)

    @torch.inference_mode()
    def __call__(self, request):
        wave = []
        for start in range(0, len(request["codes"]), self.chunk):
            stop = start + self.chunk
            codes = torch.tensor(request["codes"][start:stop], device=self.device)
            piece = self.tokenizer.decode(codes)
            wave += piece.tolist()
        return {"wave": wave}

# === weights_in_four_bits_are_packed
# thread: https://github.com/intel/auto-round/pull/2394
# about: weights are rounded to few bits, with what is best found on the GPU, and packed into whole numbers on the CPU. For layers whose zero is in the middle, and for others
# operation: add on cpu, cuda:0
# operands: other|zero
# category: input-not-moved
# line: export.py: scale, layer, zero = scale.to("cpu"), layer.to("cpu"), zero
# line: export.py: layer, scale, zero = model.get_submodule(
# repair: export.py: scale, layer, zero = scale.to("cpu"), layer.to("cpu"), zero -> scale, layer, zero = scale.to("cpu"), layer.to("cpu"), zero.to("cpu")
import torch
from torch import nn

from autoround import AutoRound
from export import pack_layer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8), nn.GELU(), nn.Linear(8, 4)).to(device)
seen = torch.randn(12, 8, generator=torch.Generator().manual_seed(1))
with torch.no_grad():
    aims = model(seen.to(device)).cpu()
found = AutoRound(bits=4, group=4, sym={"0": True, "2": False, "4": True}).quantize(model)
for name, config in found.items():
    model.set_submodule(name, pack_layer(model, name, config))
model.cpu()
with torch.no_grad():
    error = (model(seen) - aims).square().mean()
print("packed", sum(layer.packed.numel() for layer in model if hasattr(layer, "packed")), "error", round(1e6 * error.item(), 2))
# --- autoround.py
import torch
from torch import nn

class AutoRound:
    """Tries how far weights of a group may be cut off, and keeps what loses least."""

    def __init__(self, bits, group, sym):
        self.bits, self.group, self.sym = bits, group, sym

    def parameters_for(self, weight, sym, cut):
        low, high = (cut * weight.amin(-1, keepdim=True)).clamp(max=0), (cut * weight.amax(-1, keepdim=True)).clamp(min=0)
        most = 2**self.bits - 1
        if sym:
            scale = 2 * torch.maximum(-low, high) / most
            return scale, torch.full_like(scale, 2 ** (self.bits - 1))
        scale = (high - low) / most
        zero = torch.round(-low / scale)
        return scale, zero

    def loss(self, weight, scale, zero):
        codes = torch.round(weight / scale + zero).clamp(0, 2**self.bits - 1)
        return ((codes - zero) * scale - weight).square().sum().item()

    @torch.no_grad()
    def quantize(self, model):
        found = {}
        for name, layer in model.named_modules():
            if isinstance(layer, nn.Linear):
                weight, sym = layer.weight.unflatten(1, (-1, self.group)), self.sym[name]
                tried = [self.parameters_for(weight, sym, cut) for cut in (1.0, 0.9, 0.8)]
                scale, zero = min(tried, key=lambda pair: self.loss(weight, *pair))
                found[name] = {"scale": scale, "zero": zero, "sym": sym, "bits": self.bits, "group": self.group}
        return found
# --- export.py
import torch

from qlinear import QuantLinear

def pack_layer(model, name, config):
    layer, scale, zero = model.get_submodule(name), config["scale"], config["zero"]
    qlayer = QuantLinear(layer.in_features, layer.out_features, config["bits"], config["group"])
    qlayer.to("cpu")
    if config["sym"] and isinstance(zero, torch.Tensor):
        layer, scale, zero = layer.to("cpu"), scale.to("cpu"), zero.to("cpu")
        zero = int(zero.flatten()[0])
    else:
        scale, layer, zero = scale.to("cpu"), layer.to("cpu"), zero
    qlayer.pack(layer, scale, zero)
    return qlayer
# --- qlinear.py
import torch
from torch import nn

class QuantLinear(nn.Module):
    def __init__(self, inputs, outputs, bits, group):
        super().__init__()
        self.bits, self.group, self.per = bits, group, 32 // bits
        self.register_buffer("packed", torch.zeros(outputs, inputs // self.per, dtype=torch.int64))
        self.register_buffer("scales", torch.zeros(outputs, inputs // group, 1))
        self.register_buffer("zeros", torch.zeros(outputs, inputs // group, 1))
        self.register_buffer("bias", torch.zeros(outputs))

    @torch.no_grad()
    def pack(self, linear, scales, zeros):
        groups = linear.weight.unflatten(1, (-1, self.group))
        codes = torch.round(groups / scales + zeros).clamp(0, 2**self.bits - 1).flatten(1).long()
        self.packed.copy_((codes.unflatten(1, (-1, self.per)) << self.shifts()).sum(-1))
        self.scales.copy_(scales)
        self.zeros.copy_(torch.as_tensor(zeros).expand_as(scales))
        self.bias.copy_(linear.bias)

    def shifts(self):
        return self.bits * torch.arange(self.per, device=self.packed.device)

    def forward(self, x):
        codes = (self.packed[..., None] >> self.shifts()) & (2**self.bits - 1)
        weight = (codes.flatten(1).unflatten(1, (-1, self.group)) - self.zeros) * self.scales
        return nn.functional.linear(x, weight.flatten(1), self.bias)

# === prompts_from_a_model_on_two_gpus
# thread: https://github.com/BitMind-AI/bitmind-subnet/pull/194
# about: a picture is described, and a language model makes the description livelier. The larger of the two is spread over the GPUs, and a method brings both to where they compute
# operation: mul|.*rms_norm|linear|mm|addmm on cuda:0, cuda:1
# operands: .*weight|self|other|.*
# category: module-split
# line: prompt_generator.py: self.llm.to(self.device)
# repair: prompt_generator.py: self.llm.to(self.device) -> self.llm.eval()
import torch

from prompt_generator import PromptGenerator

device = "cuda:0" if torch.cuda.is_available() else "cpu"
generator = PromptGenerator(device=device, seed=2)
generator.load_models()
draw = torch.Generator().manual_seed(8)
prompts = [generator.generate(torch.rand(1, 3, 8, 8, generator=draw), length=4) for _ in range(2)]
generator.clear_gpu()
print("prompts", prompts)
# --- placement.py
import torch

def device_map_for(layers):
    """As many layers to each GPU; None, if there is but one."""
    count = torch.cuda.device_count()
    if count < 2:
        return None
    return {
        "model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": count - 1, "lm_head": count - 1,
        **{f"model.layers.{index}": index * count // layers for index in range(layers)},
    }  # fmt: skip
# --- captions.py
import torch
from torch import nn

class Captioner(nn.Module):
    """Says what is in a picture, in a few words that it knows."""

    def __init__(self, words):
        super().__init__()
        self.features, self.words = nn.Conv2d(3, 4, 4, stride=4), nn.Linear(16, words)

    @torch.no_grad()
    def forward(self, picture, count):
        scores = self.words(self.features(picture).relu().flatten(1))
        return scores.topk(count).indices
# --- prompt_generator.py
import gc

import torch
from accelerate import dispatch_model
from transformers import LlamaConfig, LlamaForCausalLM

from captions import Captioner
from placement import device_map_for

class PromptGenerator:
    def __init__(self, device, seed, layers=4):
        self.device, self.seed, self.layers = device, seed, layers
        self.vlm = self.llm = None

    def load_models(self):
        torch.manual_seed(self.seed)
        self.vlm = Captioner(words=30)
        config = LlamaConfig(
            vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=self.layers, num_attention_heads=2, num_key_value_heads=2,
            max_position_embeddings=32, bos_token_id=30, eos_token_id=31, pad_token_id=31, tie_word_embeddings=False,
        )  # fmt: skip
        self.llm = LlamaForCausalLM(config).eval()
        device_map = device_map_for(self.layers)
        if device_map:
            self.llm = dispatch_model(self.llm, device_map)
        self.to_device()

    def to_device(self):
        self.vlm.to(self.device)
        self.llm.to(self.device)

    def generate(self, picture, length):
        caption = self.vlm(picture.to(self.device), count=3)
        mask = torch.ones_like(caption)
        livelier = self.llm.generate(caption, attention_mask=mask, max_new_tokens=length, do_sample=False)
        return livelier[0].tolist()

    def clear_gpu(self):
        self.vlm = self.llm = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

# === roads_and_where_they_are
# thread: https://github.com/roarer008/STDN/issues/5
# about: traffic of the next minutes is predicted from that of the last, and from the time of day. Where a road is in the net of roads counts, too, and is computed once with NumPy
# operation: addmm|mm|linear|matmul on cpu, cuda:0
# operands: mat1|input|self|.*lpls.*|.*
# category: input-not-moved
# line: train.py: predicted = model(
# line: model.py: places = self.place(
# line: main.py: lpls = laplacian_positions(
# line: main.py: losses = train(
# repair: train.py: predicted = model(past, clock, lpls) -> predicted = model(past, clock, lpls.to(device))
import torch

from data import RoadSeries, laplacian_positions
from model import TrafficModel
from train import train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
series = RoadSeries(roads=6, minutes=40, past=6, future=3, seed=4)
lpls = laplacian_positions(series.links, series.roads, size=3)
model = TrafficModel(past=6, future=3, places=3, width=8).to(device)
losses = train(model, series, lpls, device, epochs=2)
print("losses", [round(loss, 4) for loss in losses])
# --- data.py
import numpy as np
import torch
from torch.utils.data import Dataset

class RoadSeries(Dataset):
    def __init__(self, roads, minutes, past, future, seed):
        drawn, time = np.random.default_rng(seed), np.arange(minutes)
        self.roads, self.past, self.future = roads, past, future
        self.links = [(road, road + 1, 1.0 + 0.3 * road) for road in range(roads - 1)]
        flow = np.sin(time[:, None] / 5 + np.arange(roads) / 3) + 0.1 * drawn.standard_normal((minutes, roads))
        self.flow = torch.from_numpy(flow).float()
        self.clock = torch.from_numpy(time % 20).long()

    def __len__(self):
        return len(self.flow) - self.past - self.future + 1

    def __getitem__(self, at):
        now = at + self.past
        return self.flow[at:now].T, self.clock[now], self.flow[now : now + self.future].T

def laplacian_positions(links, roads, size):
    """Each road's share in the slowest swings of the net."""
    near = np.zeros((roads, roads))
    for first, second, weight in links:
        near[first, second] = near[second, first] = weight
    laplacian = np.diag(near.sum(0)) - near
    _, swings = np.linalg.eigh(laplacian)
    return torch.from_numpy(swings[:, 1 : 1 + size] ** 2).float()
# --- model.py
import torch
from torch import nn

class TrafficModel(nn.Module):
    def __init__(self, past, future, places, width):
        super().__init__()
        self.past, self.time = nn.Linear(past, width), nn.Embedding(20, width)
        self.place = nn.Sequential(nn.Linear(places, width), nn.ReLU(), nn.Linear(width, width))
        self.gate, self.future = nn.Linear(width, width), nn.Linear(width, future)

    def forward(self, past, clock, lpls):
        hidden = self.past(past)
        times = self.time(clock)[:, None]
        places = self.place(lpls)
        hidden = hidden * torch.sigmoid(self.gate(times + places))
        return self.future(hidden.relu() + hidden)
# --- train.py
import torch
from torch.utils.data import DataLoader

def train(model, series, lpls, device, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(epochs):
        total = 0.0
        for past, clock, future in DataLoader(series, batch_size=8):
            past, clock, future = past.to(device), clock.to(device), future.to(device)
            optimizer.zero_grad()
            predicted = model(past, clock, lpls)
            loss = (predicted - future).abs().mean()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(past)
        losses.append(total / len(series))
    return losses

# === a_style_is_looked_at_before_painting
# thread: https://github.com/bytedance/USO/pull/16
# about: a picture is painted in the style of another. On a GPU with little memory one part of the pipeline is there at a time, the others wait in RAM. A part of the painter reads what a style is
# operation: .*layer_norm on cuda:0, cpu
# operands: weight|.*feature_embedder.*|.*weight
# category: module-split
# line: pipeline.py: style = self.parts["painter"].feature_embedder(
# line: pipeline.py: self.activate("vision")
# line: pipeline.py: self.activate("painter")
# repair: pipeline.py: style = self.parts["painter"].feature_embedder(seen) -> self.activate("painter"); style = self.parts["painter"].feature_embedder(seen)
import torch

from pipeline import USOPipeline

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pipeline = USOPipeline(device, offload=True)
draw = torch.Generator().manual_seed(5)
for name, reference in (("none", None), ("dots", torch.rand(1, 3, 8, 8, generator=draw))):
    picture = pipeline("a house by a lake", reference, size=4, steps=3, seed=9)
    print(name, round(picture.mean().item(), 4))
print("picture", [round(value, 4) for value in picture[0].mean((1, 2)).tolist()])
# --- encoders.py
import zlib

import torch
from torch import nn
from transformers import SiglipVisionConfig, SiglipVisionModel

class TextEncoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(50, width)

    def forward(self, prompt):
        tokens = [zlib.crc32(word.encode()) % 50 for word in prompt.split()]
        return self.embed(torch.tensor([tokens], device=self.embed.weight.device))

def vision_encoder():
    config = SiglipVisionConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=8, patch_size=4)
    return SiglipVisionModel(config)
# --- painter.py
import torch
from torch import nn

class Painter(nn.Module):
    def __init__(self, channels, width, vision_width):
        super().__init__()
        self.feature_embedder = nn.Sequential(nn.LayerNorm(vision_width), nn.Linear(vision_width, width))
        self.inner, self.outer = nn.Linear(channels, width), nn.Linear(width, channels)
        self.block = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)

    def forward(self, x, words, style, level):
        tokens = torch.cat([each for each in (style, words, self.inner(x) + level) if each is not None], 1)
        return self.outer(self.block(tokens)[:, -x.shape[1] :])
# --- pipeline.py
import torch
from torch import nn

from encoders import TextEncoder, vision_encoder
from painter import Painter

class USOPipeline:
    def __init__(self, device, offload):
        self.device, self.offload = device, offload
        self.parts = {"text": TextEncoder(8), "vision": vision_encoder(), "painter": Painter(4, 8, 16), "decoder": nn.Linear(4, 3)}
        for part in self.parts.values():
            part.eval().to("cpu" if offload else device)

    def activate(self, *names):
        if self.offload:
            for name, part in self.parts.items():
                part.to(self.device if name in names else "cpu")

    @torch.no_grad()
    def __call__(self, prompt, reference, size, steps, seed):
        self.activate("text")
        words = self.parts["text"](prompt)
        style = None
        if reference is not None:
            self.activate("vision")
            seen = self.parts["vision"](reference.to(self.device)).last_hidden_state
            style = self.parts["painter"].feature_embedder(seen)
        x = torch.randn(1, size * size, 4, generator=torch.Generator().manual_seed(seed)).to(self.device)
        self.activate("painter")
        for step in range(steps):
            x = x - self.parts["painter"](x, words, style, 1 - step / steps) / steps
        self.activate("decoder")
        return self.parts["decoder"](x).sigmoid().transpose(1, 2).unflatten(2, (size, size)).cpu()

# === a_small_painter_and_its_words
# thread: https://github.com/martin-rizzo/ComfyUI-TinyBreaker/issues/4
# about: nodes paint with a small model. One of them reads a prompt, with an encoder that stays in RAM, and gives words with a mask; another brings the painter to the GPU
# operation: addmm|mm|linear|matmul on cpu, cuda:0
# operands: mat1|input|.*embeds.*|.*cond.*|.*
# category: input-not-moved
# line: sampler.py: embeds = torch.cat(
# line: sampler.py: noise = patcher.model(
# line: pixart.py: words = self.caption_projection(
# line: nodes.py: return self.t5(
# repair: sampler.py: embeds = torch.cat([padded(each, longest) for each, _ in conditionings]) -> embeds = torch.cat([padded(each, longest) for each, _ in conditionings]).to(patcher.load_device)
import torch

from memory import ModelPatcher
from nodes import PromptEncoder, TinyPainterSampler
from pixart import PixArt
from t5 import small_t5

torch.manual_seed(0)
encoder = PromptEncoder(small_t5(vocabulary=40, width=16))
patcher = ModelPatcher(PixArt(channels=4, width=8, words=16).eval())
positive, negative = encoder.encode("a lighthouse at night, stars"), encoder.encode("blurry")
latents = TinyPainterSampler().run(patcher, positive, negative, steps=3, cfg=2.5, seed=13)
print("latents", [round(value, 4) for value in latents.mean(1)[0].tolist()])
# --- t5.py
from transformers import T5Config, T5EncoderModel

def small_t5(vocabulary, width):
    config = T5Config(vocab_size=vocabulary, d_model=width, d_kv=8, d_ff=24, num_layers=1, num_heads=2, dropout_rate=0.0)
    return T5EncoderModel(config).eval()
# --- memory.py
import torch

def get_torch_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")

class ModelPatcher:
    """A model, where it computes, and where it waits."""

    def __init__(self, model):
        self.model, self.load_device, self.offload_device = model, get_torch_device(), torch.device("cpu")

    def __enter__(self):
        self.model.to(self.load_device)
        return self

    def __exit__(self, *error):
        self.model.to(self.offload_device)
# --- pixart.py
import torch
from torch import nn

class PixArt(nn.Module):
    def __init__(self, channels, width, words):
        super().__init__()
        self.caption_projection = nn.Sequential(nn.Linear(words, width), nn.GELU(), nn.Linear(width, width))
        self.inner, self.outer, self.level = nn.Linear(channels, width), nn.Linear(width, channels), nn.Linear(1, width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, x, level, embeds, mask):
        words = self.caption_projection(embeds)
        hidden = self.inner(x) + self.level(level)
        seen, _ = self.attention(hidden, words, words, key_padding_mask=mask == 0, need_weights=False)
        return self.outer((hidden + seen).tanh())
# --- sampler.py
import torch
from torch.nn.functional import pad

def padded(embeds, longest):
    return pad(embeds, (0, 0, 0, longest - embeds.shape[1]))

@torch.no_grad()
def sample(patcher, x, conditionings, steps, cfg):
    """What is wanted and what is not go through the model together."""
    longest = max(each.shape[1] for each, _ in conditionings)
    embeds = torch.cat([padded(each, longest) for each, _ in conditionings])
    mask = torch.cat([pad(each, (0, longest - each.shape[1])) for _, each in conditionings]).to(x.device)
    for step in range(steps):
        level = torch.full((2, 1, 1), 1 - step / steps, device=x.device)
        noise = patcher.model(torch.cat([x, x]), level, embeds, mask)
        wanted, unwanted = noise.chunk(2)
        x = x - (unwanted + cfg * (wanted - unwanted)) / steps
    return x
# --- nodes.py
import zlib

import torch

from sampler import sample

class PromptEncoder:
    def __init__(self, t5):
        self.t5 = t5

    @torch.no_grad()
    def encode(self, text):
        tokens = [zlib.crc32(word.encode()) % 39 + 1 for word in text.replace(",", " ,").split()]
        tokens = torch.tensor([tokens])
        mask = torch.ones_like(tokens)
        return self.t5(input_ids=tokens, attention_mask=mask).last_hidden_state, mask

class TinyPainterSampler:
    def run(self, patcher, positive, negative, steps, cfg, seed):
        x = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(seed))
        with patcher:
            latents = sample(patcher, x.to(patcher.load_device), [positive, negative], steps, cfg)
        return latents.to(patcher.offload_device)

# === a_window_of_keys_that_turns
# thread: https://github.com/pytorch/executorch/pull/22087
# about: some layers look back only so far, and their keys are in a ring of that size; others see all. A model that is to be exported is run as it is first, on a GPU
# operation: index_copy_? on cuda:0, cpu
# operands: index|indices|.*
# category: created-without-device
# line: ring_cache.py: indices = torch.arange(
# line: ring_cache.py: cache.index_copy_(
# line: attention.py: mask = sliding_mask(
# repair: ring_cache.py: indices = torch.arange(start, start + new.shape[2]) % self.size -> indices = torch.arange(start, start + new.shape[2], device=cache.device) % self.size
# repair: attention.py: mask = sliding_mask(start, x.shape[1], self.cache.size, self.window) -> mask = sliding_mask(start, x.shape[1], self.cache.size, self.window).to(x.device)
import torch

from decoder import Decoder
from generate import generate

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
decoder = Decoder(vocabulary=20, width=16, windows=[4, None, 4], longest=12).to(device).eval()
tokens = generate(decoder, torch.tensor([[3, 14, 7]], device=device), count=6)
print("tokens", tokens)
# --- ring_cache.py
import torch
from torch import nn

class RingCache(nn.Module):
    def __init__(self, heads, size, width):
        super().__init__()
        self.size = size
        self.register_buffer("keys", torch.zeros(1, heads, size, width), persistent=False)
        self.register_buffer("values", torch.zeros(1, heads, size, width), persistent=False)

    def put(self, cache, new, start):
        indices = torch.arange(start, start + new.shape[2]) % self.size
        cache.index_copy_(2, indices, new)
        return cache

    def update(self, keys, values, start):
        return self.put(self.keys, keys, start), self.put(self.values, values, start)

def sliding_mask(start, steps, size, window):
    """Which slots of a ring hold what a step may see."""
    keys, queries = torch.arange(size), torch.arange(start, start + steps)
    last = start + steps - 1
    held = last - (last - keys) % size
    seen = (held[None] <= queries[:, None]) & (held[None] >= 0)
    if window is not None:
        seen = seen & (queries[:, None] - held[None] < window)
    return seen
# --- attention.py
import torch
from torch import nn

from ring_cache import RingCache, sliding_mask

class CachedAttention(nn.Module):
    def __init__(self, width, heads, window, longest):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        size = longest if window is None else 2 * window
        self.cache = RingCache(heads, size, width // heads)

    def forward(self, x, start):
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        keys, values = self.cache.update(k, v, start)
        mask = sliding_mask(start, x.shape[1], self.cache.size, self.window)
        scores = q @ keys.transpose(-1, -2) / keys.shape[-1] ** 0.5
        weights = torch.where(mask, scores, float("-inf")).softmax(-1)
        return self.out((weights @ values).transpose(1, 2).flatten(2))
# --- decoder.py
from torch import nn

from attention import CachedAttention

class Decoder(nn.Module):
    def __init__(self, vocabulary, width, windows, longest):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.ModuleList(CachedAttention(width, 2, window, longest) for window in windows)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in windows)

    def forward(self, tokens, start):
        hidden = self.embed(tokens)
        for norm, layer in zip(self.norms, self.layers):
            hidden = hidden + layer(norm(hidden), start)
        return self.head(hidden[:, -1])
# --- generate.py
import torch

@torch.no_grad()
def generate(decoder, prompt, count):
    tokens, start, new = prompt[0].tolist(), 0, prompt
    for _ in range(count):
        logits = decoder(new, start)
        start += new.shape[1]
        new = logits.argmax(-1, keepdim=True)
        tokens.append(new.item())
    return tokens

# === words_of_a_pipeline_that_offloads
# thread: https://github.com/huggingface/diffusers/issues/12066
# about: a pipeline reads a prompt in a frame of words that it cuts off again, and paints. Its library brings a part to the GPU when that is called, and the pipeline knows where it is said to compute
# operation: mul on cuda:0, cpu
# operands: other|.*attention_mask.*|.*mask.*
# category: default-or-current-device|input-not-moved
# line: pipeline.py: tokens = self.tokenizer(
# line: pipeline.py: kept = hidden[:, FRAME:] * tokens
# repair: pipeline.py: tokens = self.tokenizer(prompt).to(self.device) -> tokens = self.tokenizer(prompt).to(device)
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from transformers import Qwen2Config, Qwen2Model

from pipeline import PaintingPipeline
from transformer import SmallTransformer
from words import FramedTokenizer

torch.manual_seed(0)
config = Qwen2Config(
    vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=32,
)  # fmt: skip
pipeline = PaintingPipeline(Qwen2Model(config).eval(), SmallTransformer(4, 16).eval(), FlowMatchEulerDiscreteScheduler())
pipeline.tokenizer = FramedTokenizer(longest=6)
pipeline.set_progress_bar_config(disable=True)
if torch.cuda.is_available():
    pipeline.enable_model_cpu_offload(gpu_id=0)
picture = pipeline(["a boat", "two boats in a storm"], steps=3, seed=21)
print("picture", [round(value, 3) for value in picture.abs().mean((1, 2)).tolist()])
# --- words.py
import zlib

import torch
from transformers import BatchEncoding

FRAME = 2

class FramedTokenizer:
    """Two words before each prompt say what to do with it."""

    def __init__(self, longest):
        self.longest = longest

    def __call__(self, prompts):
        rows = [[1, 2] + [zlib.crc32(word.encode()) % 36 + 4 for word in prompt.split()][: self.longest] for prompt in prompts]
        length = self.longest + FRAME
        ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
        return BatchEncoding({"input_ids": ids, "attention_mask": (ids > 0).long()})
# --- transformer.py
import torch
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from torch import nn

class SmallTransformer(ModelMixin, ConfigMixin):
    @register_to_config
    def __init__(self, channels=4, width=16):
        super().__init__()
        self.inner, self.outer, self.level = nn.Linear(channels, width), nn.Linear(width, channels), nn.Linear(1, width)
        self.block = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)

    def forward(self, x, level, embeds):
        hidden = self.inner(x) + self.level(level[:, None, None])
        return self.outer(self.block(torch.cat([embeds, hidden], 1))[:, embeds.shape[1] :])
# --- pipeline.py
import torch
from diffusers import DiffusionPipeline

from words import FRAME

class PaintingPipeline(DiffusionPipeline):
    model_cpu_offload_seq = "text_encoder->transformer"

    def __init__(self, text_encoder, transformer, scheduler):
        super().__init__()
        self.register_modules(text_encoder=text_encoder, transformer=transformer, scheduler=scheduler)

    def encode_prompt(self, prompt, device):
        tokens = self.tokenizer(prompt).to(self.device)
        hidden = self.text_encoder(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).last_hidden_state
        kept = hidden[:, FRAME:] * tokens.attention_mask[:, FRAME:, None]
        return kept.to(device)

    @torch.no_grad()
    def __call__(self, prompt, steps, seed):
        device = self._execution_device
        embeds = self.encode_prompt(prompt, device)
        x = torch.randn(len(prompt), 5, 4, generator=torch.Generator().manual_seed(seed)).to(device)
        self.scheduler.set_timesteps(steps, device=device)
        for time in self.progress_bar(self.scheduler.timesteps):
            level = (time / 1000).expand(len(x))
            velocity = self.transformer(x, level, embeds)
            x = self.scheduler.step(velocity, time, x, return_dict=False)[0]
        self.maybe_free_model_hooks()
        return x.cpu()

# === pictures_of_any_size_in_one_row
# thread: https://github.com/EvolvingLMMs-Lab/lmms-engine/pull/113
# about: patches of pictures of all sizes are put behind each other, and a network learns how noise becomes them. Accelerate moves a batch's tensors; classes and sizes are lists of numbers
# operation: embedding|index_select on cuda:0, cpu
# operands: index|indices|input|.*labels.*
# category: created-without-device|input-not-moved
# line: trainer.py: labels = torch.tensor(
# line: nit.py: classes = self.classes(
# line: trainer.py: predicted, _ = self.model(
# line: trainer.py: sizes = torch.tensor(
# line: data.py: return {"patches":
# repair: trainer.py: labels = torch.tensor(batch["label"]) -> labels = torch.tensor(batch["label"], device=patches.device)
# repair: trainer.py: sizes = torch.tensor(batch["size"]) -> sizes = torch.tensor(batch["size"], device=patches.device)
import torch

from data import Pictures, collate
from nit import NativeTransformer
from trainer import NitTrainer

torch.manual_seed(0)
trainer = NitTrainer(NativeTransformer(patch=12, width=8, classes=3), Pictures(count=8, seed=2), collate, batch_size=4, seed=3)
losses = [trainer.epoch() for _ in range(3)]
print("losses", [round(loss, 4) for loss in losses])
# --- data.py
import random

import torch
from torch.utils.data import Dataset

class Pictures(Dataset):
    def __init__(self, count, seed):
        drawn, draw = random.Random(seed), torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(count):
            height, width = drawn.randrange(1, 4), drawn.randrange(1, 4)
            picture = torch.rand(3, 2 * height, 2 * width, generator=draw)
            self.rows.append((picture, [height, width], drawn.randrange(3)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        return self.rows[at]

def collate(rows):
    patches = []
    for picture, (height, width), _ in rows:
        cut = picture.reshape(3, height, 2, width, 2).permute(1, 3, 0, 2, 4)
        patches.append(cut.flatten(0, 1).flatten(1))
    return {"patches": torch.cat(patches), "size": [size for _, size, _ in rows], "label": [label for _, _, label in rows]}
# --- nit.py
import torch
from torch import nn

class NativeTransformer(nn.Module):
    """Patches look at those of the same picture."""

    def __init__(self, patch, width, classes):
        super().__init__()
        self.inner, self.outer, self.classes = nn.Linear(patch, width), nn.Linear(width, patch), nn.Embedding(classes, width)
        self.qkv, self.mlp = nn.Linear(width, 3 * width), nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, patches, times, labels, sizes):
        counts = sizes.prod(1)
        classes = self.classes(labels).repeat_interleave(counts, 0)
        owner = torch.arange(len(sizes), device=patches.device).repeat_interleave(counts)
        hidden = self.inner(patches) + classes + times[owner][:, None]
        q, k, v = self.qkv(hidden).chunk(3, -1)
        scores = (q @ k.T / q.shape[-1] ** 0.5).masked_fill(owner[:, None] != owner[None], float("-inf"))
        hidden = hidden + scores.softmax(-1) @ v
        return self.outer(hidden + self.mlp(hidden)), owner
# --- trainer.py
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

class NitTrainer:
    def __init__(self, model, dataset, collate, batch_size, seed):
        self.accelerator = Accelerator()
        loader = DataLoader(dataset, batch_size=batch_size, collate_fn=collate)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(model, optimizer, loader)
        self.draw = torch.Generator().manual_seed(seed)

    def compute_loss(self, batch):
        patches = batch["patches"]
        labels = torch.tensor(batch["label"])
        sizes = torch.tensor(batch["size"])
        noise = torch.randn(patches.shape, generator=self.draw).to(patches.device)
        times = torch.rand(len(batch["label"]), generator=self.draw).to(patches.device)
        share = torch.cat([time.expand(height * width) for time, (height, width) in zip(times, batch["size"])])[:, None]
        noisy = (1 - share) * patches + share * noise
        predicted, _ = self.model(noisy, times, labels, sizes)
        return (predicted - (noise - patches)).square().mean()

    def epoch(self):
        losses = []
        for batch in self.loader:
            loss = self.compute_loss(batch)
            self.optimizer.zero_grad()
            self.accelerator.backward(loss)
            self.optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)
