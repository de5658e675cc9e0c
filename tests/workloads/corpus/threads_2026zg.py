# === words_that_find_things_again
# thread: https://github.com/PozzettiAndrea/ComfyUI-Grounding/issues/14
# about: things in a picture are found by words. A model is kept after it was used, but in RAM, if one does not ask for it to stay on the GPU; the second picture is not the first
# operation: embedding|index_select on cpu, cuda:0
# operands: index|weight|.*
# category: module-split|cached-state
# line: loader.py: return self.kept[name]
# line: nodes.py: model = self.loader.load(
# line: nodes.py: model.to(OFFLOAD)
# line: nodes.py: if not keep_loaded:
# repair: loader.py: return self.kept[name] -> return self.kept[name].to(self.device)
import torch

from loader import ModelLoader
from nodes import GroundingNode

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
node = GroundingNode(ModelLoader(device))
draw = torch.Generator().manual_seed(2)
found = []
for words in ([3, 1], [4, 4, 2]):
    image = torch.rand(1, 3, 8, 8, generator=draw)
    found.append(node.detect("tiny", image, words, keep_loaded=False))
print("boxes", [[round(value, 3) for value in box] for box in found])
# --- detector.py
import torch
from torch import nn

class Detector(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.words, self.patches = nn.Embedding(vocabulary, width), nn.Conv2d(3, width, 4, stride=4)
        self.box = nn.Linear(width, 4)

    def forward(self, image, words):
        asked = self.words(words).mean(1)
        seen = self.patches(image).flatten(2).transpose(1, 2)
        shares = (seen @ asked[..., None]).softmax(1)
        return self.box((shares * seen).sum(1)).sigmoid()
# --- loader.py
import torch

from detector import Detector

SIZES = {"tiny": 8, "base": 16}

class ModelLoader:
    def __init__(self, device):
        self.device, self.kept = device, {}

    def load(self, name):
        if name in self.kept:
            return self.kept[name]
        torch.manual_seed(len(name))
        model = Detector(vocabulary=6, width=SIZES[name]).eval()
        self.kept[name] = model
        return model.to(self.device)
# --- nodes.py
import torch

OFFLOAD = torch.device("cpu")

class GroundingNode:
    def __init__(self, loader):
        self.loader = loader

    @torch.no_grad()
    def detect(self, name, image, words, keep_loaded):
        model = self.loader.load(name)
        device = self.loader.device
        words = torch.tensor([words], device=device)
        box = model(image.to(device), words)[0].tolist()
        if not keep_loaded:
            model.to(OFFLOAD)
        return box

# === what_was_learned_goes_into_the_weights
# thread: https://github.com/hiyouga/LlamaFactory/issues/8355
# about: what an adapter learned is added to the weights of its model, which then needs no adapter. The model is on the GPU that a process was given, and the adapter comes from a file
# operation: add_? on cuda:1, cuda:0
# operands: other|delta|.*
# category: default-or-current-device|checkpoint|input-not-moved
# line: merge.py: layer.weight += delta
# line: adapter.py: tensors = load_file(
# line: adapter.py: device = infer_device()
# line: merge.py: delta = adapter.delta(
# line: export.py: adapter = Adapter.load(
# repair: merge.py: layer.weight += delta -> layer.weight += delta.to(layer.weight.device)
import tempfile
from pathlib import Path

import torch

from export import export_model
from model import TinyLM
from train import train_adapter

count = torch.cuda.device_count()
device = f"cuda:{count - 1}" if count else "cpu"
torch.manual_seed(0)
model = TinyLM(vocabulary=10, width=8)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "adapter_model.safetensors"
    train_adapter(model, path, rank=2, seed=3)
    merged = export_model(model, path, device)
print("merged", [round(value, 4) for value in merged[0, -1, :4].tolist()])
# --- model.py
from torch import nn

class TinyLM(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.q_proj, self.v_proj = nn.Embedding(vocabulary, width), nn.Linear(width, width), nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.head(x + self.q_proj(x).sigmoid() * self.v_proj(x).cumsum(1))
# --- train.py
import torch
from safetensors.torch import save_file

def train_adapter(model, path, rank, seed):
    """As far as this goes: what a training would have come to."""
    draw, tensors = torch.Generator().manual_seed(seed), {}
    for name in ("q_proj", "v_proj"):
        outputs, inputs = model.get_submodule(name).weight.shape
        tensors[f"{name}.lora_A"] = torch.randn(rank, inputs, generator=draw)
        tensors[f"{name}.lora_B"] = torch.randn(outputs, rank, generator=draw)
    save_file(tensors, path)
# --- adapter.py
import torch
from safetensors.torch import load_file

def infer_device():
    return "cuda" if torch.cuda.is_available() else "cpu"

class Adapter:
    def __init__(self, tensors, scale):
        self.tensors, self.scale = tensors, scale
        self.names = sorted({name.rpartition(".")[0] for name in tensors})

    @classmethod
    def load(cls, path, scale=0.5):
        device = infer_device()
        tensors = load_file(path, device=device)
        return cls(tensors, scale)

    def delta(self, name):
        return self.tensors[f"{name}.lora_B"] @ self.tensors[f"{name}.lora_A"] * self.scale
# --- merge.py
import torch

@torch.no_grad()
def merge(model, adapter):
    for name in adapter.names:
        layer = model.get_submodule(name)
        delta = adapter.delta(name)
        layer.weight += delta
    return model
# --- export.py
import torch

from adapter import Adapter
from merge import merge

@torch.no_grad()
def export_model(model, path, device):
    model = model.to(device).eval()
    adapter = Adapter.load(path)
    merged = merge(model, adapter)
    tokens = torch.tensor([[1, 7, 2, 2]], device=device)
    return merged(tokens).cpu()

# === a_cache_for_layers_of_two_gpus
# thread: https://github.com/huggingface/transformers/pull/36543
# about: room for keys and values is made before a text is written, so that it need not grow. The layers are on two GPUs, and each layer has a cache of its own
# operation: index_copy_? on cuda:0, cuda:1
# operands: self|source|index|.*
# category: cached-state|created-without-device|module-split
# line: generate.py: cache = StaticCache(
# line: cache.py: self.keys = [
# line: cache.py: self.values = [
# repair: cache.py: def __init__(self, model, length, device): -> def __init__(self, model, length, devices):
# repair: cache.py: self.keys = [torch.zeros(shape, device=device) for _ in model.layers] -> self.keys = [torch.zeros(shape, device=device) for device in devices]
# repair: cache.py: self.values = [torch.zeros(shape, device=device) for _ in model.layers] -> self.values = [torch.zeros(shape, device=device) for device in devices]
# repair: generate.py: cache = StaticCache(model, length, device=model.device) -> cache = StaticCache(model, length, devices=model.devices)
import torch

from decoder import Decoder
from generate import generate

torch.manual_seed(0)
count = torch.cuda.device_count()
devices = [f"cuda:{index}" for index in range(count)] or ["cpu"]
model = Decoder(vocabulary=12, width=8, heads=2, layers=4).spread(devices).eval()
texts = [generate(model, prompt, length=10) for prompt in ([3, 8], [5, 1, 9])]
print("texts", texts)
# --- cache.py
import torch

class StaticCache:
    def __init__(self, model, length, device):
        shape = (1, model.heads, length, model.width // model.heads)
        self.keys = [torch.zeros(shape, device=device) for _ in model.layers]
        self.values = [torch.zeros(shape, device=device) for _ in model.layers]

    def update(self, layer, keys, values, places):
        self.keys[layer].index_copy_(2, places.to(keys.device), keys)
        self.values[layer].index_copy_(2, places.to(keys.device), values)
        return self.keys[layer], self.values[layer]
# --- decoder.py
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width, heads, layer):
        super().__init__()
        self.heads, self.layer = heads, layer
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, cache, places):
        query, keys, values = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        keys, values = cache.update(self.layer, keys, values, places)
        later = torch.arange(keys.shape[2], device=x.device) > places.to(x.device)[:, None]
        scores = (query @ keys.transpose(2, 3)).masked_fill(later, float("-inf"))
        return x + self.out((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))

class Decoder(nn.Module):
    def __init__(self, vocabulary, width, heads, layers):
        super().__init__()
        self.width, self.heads = width, heads
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.ModuleList(Attention(width, heads, layer) for layer in range(layers))
        self.devices = [torch.device("cpu")] * layers

    @property
    def device(self):
        return self.embed.weight.device

    def spread(self, devices):
        self.devices = [torch.device(devices[index * len(devices) // len(self.layers)]) for index in range(len(self.layers))]
        for layer, device in zip(self.layers, self.devices):
            layer.to(device)
        self.embed.to(self.devices[0])
        self.head.to(self.devices[-1])
        return self

    def forward(self, tokens, cache, places):
        x = self.embed(tokens)
        for layer, device in zip(self.layers, self.devices):
            x = layer(x.to(device), cache, places)
        return self.head(x[:, -1])
# --- generate.py
import torch

from cache import StaticCache

@torch.no_grad()
def generate(model, prompt, length):
    cache = StaticCache(model, length, device=model.device)
    text, new = list(prompt), list(prompt)
    while len(text) < length:
        places = torch.arange(len(text) - len(new), len(text), device=model.device)
        scores = model(torch.tensor([new], device=model.device), cache, places)
        new = [scores.argmax(-1).item()]
        text += new
    return text

# === pushed_towards_a_word
# thread: https://github.com/TransformerLensOrg/TransformerLens/pull/1507
# about: what a model thinks of is read as words, and pushed towards another word, layer by layer. Directions come from the last matrix, and layers are on two GPUs
# operation: mul on cuda:0, cuda:1
# operands: other|unit|.*
# category: input-not-moved|module-split
# line: lens.py: delta = scale * unit
# line: lens.py: direction = self.lens_vectors(
# line: lens.py: unit = direction / direction.norm()
# repair: lens.py: delta = scale * unit -> delta = scale * unit.to(activation.device)
import torch

from bridge import Bridge
from lens import JacobianLens

torch.manual_seed(0)
count = torch.cuda.device_count()
devices = [f"cuda:{index}" for index in range(count)] or ["cpu"]
model = Bridge(vocabulary=11, width=8, layers=4, devices=devices).eval()
lens = JacobianLens(model)
tokens = torch.tensor([[4, 9, 1]])
plain = model(tokens)[0, -1].softmax(-1)
with model.hooked(lens.steer(word=6, layers=[0, 2], alpha=0.8)):
    pushed = model(tokens)[0, -1].softmax(-1)
print("chance of the word", round(plain[6].item(), 4), round(pushed[6].item(), 4), "reads", lens.readout(tokens, layer=3))
# --- bridge.py
import contextlib

import torch
from torch import nn

class Bridge(nn.Module):
    def __init__(self, vocabulary, width, layers, devices):
        super().__init__()
        place = [devices[index * len(devices) // layers] for index in range(layers)]
        self.embed = nn.Embedding(vocabulary, width).to(place[0])
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.Tanh()).to(device) for device in place)
        self.W_U = nn.Parameter(torch.randn(width, vocabulary).to(place[-1]))
        self.place = place

    @torch.no_grad()
    def forward(self, tokens, upto=None):
        x = self.embed(tokens.to(self.place[0]))
        for block, device in zip(self.blocks[:upto], self.place):
            x = x.to(device)
            x = block(x) + x
        return x if upto else x @ self.W_U

    @contextlib.contextmanager
    def hooked(self, hooks):
        handles = [self.blocks[layer].register_forward_hook(hook) for layer, hook in hooks]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
# --- lens.py
import torch

class JacobianLens:
    def __init__(self, model):
        self.model = model

    def lens_vectors(self, word):
        return self.model.W_U[:, word].detach()

    def steer(self, word, layers, alpha):
        hooks = []
        for layer in layers:
            direction = self.lens_vectors(word)
            unit = direction / direction.norm()

            def steer_fn(module, args, activation, unit=unit):
                scale = alpha * activation.float().norm(dim=-1, keepdim=True)
                delta = scale * unit
                return activation + delta

            hooks.append((layer, steer_fn))
        return hooks

    @torch.no_grad()
    def readout(self, tokens, layer, count=2):
        x = self.model(tokens, upto=layer + 1)[0, -1]
        return (x.to(self.model.W_U.device) @ self.model.W_U).topk(count).indices.tolist()

# === a_loss_in_pieces
# thread: https://github.com/unslothai/unsloth/issues/2882
# about: a loss over many words is computed a piece of the vocabulary at a time. The layers of a model are shared out evenly between two GPUs, and the last one is not where the texts went
# operation: gather on cuda:1, cuda:0
# operands: index|labels|.*
# category: input-not-moved|module-split
# line: losses.py: labels = shifted(
# line: losses.py: losses = FastCrossEntropy.apply(
# line: trainer.py: loss = fast_loss(
# repair: losses.py: labels = shifted(labels).flatten() -> labels = shifted(labels).flatten().to(logits.device)
import torch

from split import SplitLM, balanced
from trainer import Trainer

torch.manual_seed(0)
count = torch.cuda.device_count()
model = SplitLM(vocabulary=20, width=8, layers=4)
model.dispatch(balanced(layers=4, count=count))
draw = torch.Generator().manual_seed(5)
rows = [torch.randint(1, 20, (2, 7), generator=draw) for _ in range(3)]
losses = Trainer(model).train(rows)
print("losses", [round(loss, 4) for loss in losses])
# --- split.py
import torch
from torch import nn

def balanced(layers, count):
    """The device of each layer; the first has the words, too, and the last the scores."""
    return [torch.device("cuda", index * count // layers) if count else torch.device("cpu") for index in range(layers)]

class SplitLM(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.ModuleList(nn.GRU(width, width, batch_first=True) for _ in range(layers))
        self.map = []

    def dispatch(self, device_map):
        self.map = device_map
        self.embed.to(device_map[0])
        self.head.to(device_map[-1])
        for layer, device in zip(self.layers, device_map):
            layer.to(device)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for layer, device in zip(self.layers, self.map):
            x = x.to(device)
            x = x + layer(x)[0]
        return self.head(x)
# --- losses.py
import torch

CHUNK = 8

class FastCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels):
        pieces = [piece.logsumexp(-1) for piece in logits.split(CHUNK, dim=-1)]
        total = torch.stack(pieces).logsumexp(0)
        picked = logits.gather(-1, labels.clamp(min=0)[:, None])[:, 0]
        losses = (total - picked).masked_fill(labels == -100, 0)
        ctx.save_for_backward(logits, total, labels)
        return losses

    @staticmethod
    def backward(ctx, grad):
        logits, total, labels = ctx.saved_tensors
        chances = (logits - total[:, None]).exp()
        chances.scatter_add_(-1, labels.clamp(min=0)[:, None], -torch.ones_like(total)[:, None])
        chances.masked_fill_((labels == -100)[:, None], 0)
        return chances * grad[:, None], None

def shifted(labels):
    return torch.nn.functional.pad(labels[:, 1:], (0, 1), value=-100)

def fast_loss(logits, labels):
    labels = shifted(labels).flatten()
    losses = FastCrossEntropy.apply(logits.flatten(0, 1), labels)
    return losses.sum() / (labels != -100).sum().item()
# --- trainer.py
import torch

from losses import fast_loss

class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, foreach=False)

    def train(self, rows):
        losses = []
        for row in rows:
            inputs = row.to(self.model.embed.weight.device)
            loss = fast_loss(self.model(inputs), inputs)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses

# === words_that_count_in_the_loss
# thread: https://github.com/huggingface/transformers/issues/37545
# about: several batches make one step, and the loss is divided by how many words there are in all of them. That is counted where the batches are, and the model ends on another GPU
# operation: div|true_divide on cuda:1, cuda:0
# operands: other|num_items_in_batch|.*
# category: input-not-moved|module-split
# line: loss.py: return total / num_items_in_batch
# line: trainer.py: num_items =
# line: trainer.py: loss = causal_loss(
# repair: loss.py: return total / num_items_in_batch -> return total / num_items_in_batch.to(total.device)
import torch

from model import PipelineLM
from trainer import Trainer

torch.manual_seed(1)
count = torch.cuda.device_count()
devices = [f"cuda:{index}" for index in range(count)] or ["cpu"]
model = PipelineLM(vocabulary=9, width=6, first=devices[0], last=devices[-1])
draw = torch.Generator().manual_seed(4)
batches = [torch.randint(0, 9, (2, length), generator=draw) for length in (5, 4, 6, 3)]
trainer = Trainer(model, accumulate=2, device=devices[0])
print("losses", [round(loss, 4) for loss in trainer.train(batches)])
# --- model.py
from torch import nn

class PipelineLM(nn.Module):
    def __init__(self, vocabulary, width, first, last):
        super().__init__()
        self.first, self.last = first, last
        self.lower = nn.Sequential(nn.Embedding(vocabulary, width), nn.Linear(width, width), nn.GELU()).to(first)
        self.upper = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, vocabulary)).to(last)

    def forward(self, tokens):
        hidden = self.lower(tokens).cumsum(1)
        return self.upper(hidden.to(self.last))
# --- loss.py
from torch import nn

def causal_loss(logits, labels, num_items_in_batch=None):
    labels = nn.functional.pad(labels[:, 1:], (0, 1), value=-100).to(logits.device)
    reduction = "mean" if num_items_in_batch is None else "sum"
    total = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction=reduction)
    if num_items_in_batch is None:
        return total
    return total / num_items_in_batch
# --- trainer.py
import torch

from loss import causal_loss

class Trainer:
    def __init__(self, model, accumulate, device):
        self.model, self.accumulate, self.device = model, accumulate, device
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.3)

    def batch_samples(self, batches):
        """As many batches as make a step, and the words that count in them."""
        for start in range(0, len(batches), self.accumulate):
            samples = [batch.to(self.device) for batch in batches[start : start + self.accumulate]]
            num_items = torch.stack([(sample[:, 1:] != 0).sum() for sample in samples]).sum()
            yield samples, num_items

    def train(self, batches):
        losses = []
        for samples, num_items in self.batch_samples(batches):
            step = 0.0
            for sample in samples:
                labels = sample.masked_fill(sample == 0, -100)
                loss = causal_loss(self.model(sample), labels, num_items)
                loss.backward()
                step += loss.item()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(step)
        return losses

# === blocks_that_wait_in_ram
# thread: https://github.com/vladmandic/sdnext/issues/4209
# about: a video model is too large for the GPU, so its layers wait in RAM, and each comes when it is called and goes when it is done
# operation: add on cpu, cuda:0
# operands: self|.*scale_shift_table|.*
# category: module-split
# line: offload.py: if next(module.children(), None) is not None:
# line: wan.py: table = self.scale_shift_table +
# repair: offload.py: if next(module.children(), None) is not None: -> if next(module.parameters(recurse=False), None) is None:
import torch

from pipeline import VideoPipeline
from wan import WanTransformer

torch.manual_seed(0)
pipeline = VideoPipeline(WanTransformer(width=8, depth=3).eval())
draw = torch.Generator().manual_seed(6)
words = torch.randn(1, 4, 8, generator=draw)
video = pipeline(words, frames=5, steps=3, seed=1)
print("video", [round(value, 4) for value in video.mean(-1)[0].tolist()])
# --- wan.py
import torch
from torch import nn

class WanBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.ffn = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.scale_shift_table = nn.Parameter(torch.randn(1, 3, width) / width**0.5)

    def forward(self, x, words, time):
        table = self.scale_shift_table + time[:, None]
        shift, scale, gate = table.chunk(3, dim=1)
        hidden = self.norm(x) * (1 + scale) + shift
        query = self.ffn(hidden)
        shares = (query @ words.transpose(1, 2)).softmax(-1)
        return x + gate * (shares @ words)

class WanTransformer(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.patch, self.time, self.out = nn.Linear(width, width), nn.Linear(1, width), nn.Linear(width, width)
        self.blocks = nn.ModuleList(WanBlock(width) for _ in range(depth))

    def forward(self, x, words, sigma):
        time = self.time(sigma)
        x = self.patch(x)
        for block in self.blocks:
            x = block(x, words, time)
        return self.out(x)
# --- offload.py
class LayerOffload:
    def __init__(self, model, device):
        self.device, self.handles = device, []
        model.to("cpu")
        for module in model.modules():
            if next(module.children(), None) is not None:
                continue
            self.handles.append(module.register_forward_pre_hook(self.onload))
            self.handles.append(module.register_forward_hook(self.offload))

    def onload(self, module, args):
        module.to(self.device)

    def offload(self, module, args, output):
        module.to("cpu")
# --- pipeline.py
import torch

from offload import LayerOffload

class VideoPipeline:
    def __init__(self, transformer):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.transformer = transformer
        self.offload = LayerOffload(transformer, self.device)

    @torch.no_grad()
    def __call__(self, words, frames, steps, seed):
        draw = torch.Generator().manual_seed(seed)
        latents = torch.randn(1, frames, words.shape[-1], generator=draw).to(self.device)
        words = words.to(self.device)
        for step in range(steps):
            sigma = torch.full((1, 1), 1 - step / steps, device=self.device)
            latents = latents - self.transformer(latents, words, sigma) / steps
        return latents.cpu()

# === an_adapter_for_a_model_in_ram
# thread: https://github.com/huggingface/peft/issues/3793
# about: a page on the web keeps its model in RAM, and only borrows a GPU for a request. Adapters are loaded when the page starts, each from its own file
# operation: mm|addmm|linear|matmul on cpu, cuda:0
# operands: mat2|.*lora_A.*|.*
# category: default-or-current-device|checkpoint|module-split
# line: peft_model.py: torch_device = infer_device()
# line: peft_model.py: tensors = load_file(
# line: peft_model.py: self.base.load_state_dict(
# line: main.py: model.load_adapter(
# repair: peft_model.py: torch_device = infer_device() -> torch_device = next(self.base.parameters()).device
import tempfile
from pathlib import Path

import torch

from adapters import write_adapter
from base import Scorer
from peft_model import PeftModel

torch.manual_seed(0)
model = PeftModel(Scorer(inputs=6, width=8), rank=2)
with tempfile.TemporaryDirectory() as folder:
    for seed, name in enumerate(("formal", "casual")):
        write_adapter(Path(folder) / f"{name}.safetensors", model.shapes(name), seed)
        model.load_adapter(Path(folder) / f"{name}.safetensors", name)
texts = torch.randn(3, 6, generator=torch.Generator().manual_seed(7))
scores = {name: model.use(name)(texts).detach() for name in ("formal", "casual")}
print("scores", {name: [round(value, 4) for value in row.flatten().tolist()] for name, row in scores.items()})
# --- base.py
from torch import nn

class Scorer(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.up, self.down = nn.Linear(inputs, width), nn.Linear(width, 1)

    def forward(self, x):
        return self.down(self.up(x).tanh())
# --- adapters.py
import torch
from safetensors.torch import save_file

def write_adapter(path, shapes, seed):
    draw = torch.Generator().manual_seed(seed)
    save_file({name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}, path)
# --- lora.py
import torch
from torch import nn

class LoraLinear(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base, self.rank, self.active = base, rank, None
        self.lora_A, self.lora_B = nn.ParameterDict(), nn.ParameterDict()

    def add(self, name):
        self.lora_A[name] = nn.Parameter(torch.zeros(self.rank, self.base.in_features))
        self.lora_B[name] = nn.Parameter(torch.zeros(self.base.out_features, self.rank))

    def forward(self, x):
        y = self.base(x)
        if self.active is None:
            return y
        return y + x @ self.lora_A[self.active].T @ self.lora_B[self.active].T
# --- peft_model.py
import torch
from safetensors.torch import load_file
from torch import nn

from lora import LoraLinear

def infer_device():
    return "cuda" if torch.cuda.is_available() else "cpu"

class PeftModel(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        for name, layer in list(base.named_children()):
            base.set_submodule(name, LoraLinear(layer, rank))

    def layers(self):
        return [(name, layer) for name, layer in self.base.named_modules() if isinstance(layer, LoraLinear)]

    def shapes(self, adapter):
        for _, layer in self.layers():
            layer.add(adapter)
        return {name: tuple(tensor.shape) for name, tensor in self.base.state_dict().items() if name.endswith(f".{adapter}")}

    def load_adapter(self, path, adapter, torch_device=None):
        if torch_device is None:
            torch_device = infer_device()
        tensors = load_file(path, device=str(torch_device))
        self.base.load_state_dict(tensors, strict=False, assign=True)

    def use(self, adapter):
        for _, layer in self.layers():
            layer.active = adapter
        return self

    def forward(self, x):
        return self.base(x)

# === rows_with_no_picture
# thread: https://github.com/hiyouga/LlamaFactory/pull/10453
# about: words and parts of pictures have places of three numbers. A row that is there only so that each process has a picture has no words, and is counted through
# operation: cat|stack on cuda:0, cpu
# operands: tensors|.*
# category: created-without-device
# line: rope.py: places = torch.arange(
# line: rope.py: return torch.stack(rows)
# repair: rope.py: places = torch.arange(length).expand(3, length) -> places = torch.arange(length, device=attention_mask.device).expand(3, length)
import torch

from collator import collate
from qwen import TinyVL

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = TinyVL(vocabulary=15, width=6).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
features = [([4, 2, 9, 9, 9, 9, 3], (2, 2)), ([5, 6, 9, 9, 7], (1, 2)), ([], None), ([8, 1, 1], None)]
losses = []
for start in (0, 1):
    batch = {name: value.to(device) if torch.is_tensor(value) else value for name, value in collate(features[start : start + 3]).items()}
    loss = model(**batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- collator.py
import torch

IMAGE = 9

def collate(features):
    longest = max(len(tokens) for tokens, _ in features)
    ids = torch.tensor([tokens + [0] * (longest - len(tokens)) for tokens, _ in features])
    mask = torch.tensor([[1] * len(tokens) + [0] * (longest - len(tokens)) for tokens, _ in features])
    return {"input_ids": ids, "attention_mask": mask, "grids": [grid for _, grid in features]}
# --- rope.py
import torch

from collator import IMAGE

def picture_places(count, grid, first):
    height, width = grid
    index = torch.arange(count)
    return torch.stack([torch.zeros_like(index), index // width % height, index % width]) + first

def rope_index(input_ids, attention_mask, grids):
    rows = []
    for ids, mask, grid in zip(input_ids, attention_mask, grids):
        length = len(ids)
        if not mask.any():
            places = torch.arange(length).expand(3, length)
            rows.append(places)
            continue
        places = (mask.cumsum(0) - 1).clamp(min=0).expand(3, length).clone()
        if grid is not None:
            where = (ids == IMAGE).nonzero()[:, 0].tolist()
            places[:, where] = picture_places(len(where), grid, where[0]).to(places.device)
        rows.append(places)
    return torch.stack(rows)
# --- qwen.py
import torch
from torch import nn

from rope import rope_index

class TinyVL(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.register_buffer("speeds", 10.0 ** -torch.arange(width // 3).float())

    def forward(self, input_ids, attention_mask, grids):
        places = rope_index(input_ids, attention_mask, grids)
        turned = (places[..., None] * self.speeds).permute(0, 2, 1, 3).flatten(2)
        hidden = self.embed(input_ids) * turned.cos()
        scores = self.head(hidden.cumsum(1))[:, :-1]
        labels = input_ids.masked_fill(attention_mask == 0, -100)[:, 1:]
        return nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=-100)

# === the_second_step_looks_back
# thread: https://github.com/huggingface/diffusers/issues/13488
# about: from its second step on, a solver uses what the model said before. How noisy each step is was computed once, and kept in RAM, as single numbers there may be used with what is on the GPU
# operation: cat|stack on cpu, cuda:0
# operands: tensors|.*
# category: cached-state|created-without-device
# line: unipc.py: self.sigmas = torch.from_numpy(
# line: unipc.py: rks.append((back - here) / h)
# line: unipc.py: rks = torch.stack(
# line: unipc.py: rks.append(torch.ones(
# repair: unipc.py: self.sigmas = torch.from_numpy(sigmas).to("cpu") -> self.sigmas = torch.from_numpy(sigmas).to(device)
import torch

from denoiser import Denoiser
from sample import sample
from unipc import UniPCScheduler

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Denoiser(channels=4).to(device).eval()
latents = sample(model, UniPCScheduler(order=2), (2, 4, 6), steps=5, seed=3, device=device)
print("latents", [round(value, 4) for value in latents.mean((0, 2)).tolist()])
# --- denoiser.py
from torch import nn

class Denoiser(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.inner, self.outer = nn.Conv1d(channels, 8, 3, padding=1), nn.Conv1d(8, channels, 3, padding=1)

    def forward(self, x, timestep):
        return self.outer((self.inner(x) + timestep.view(-1, 1, 1) / 1000).tanh())
# --- unipc.py
import numpy as np
import torch

class UniPCScheduler:
    def __init__(self, order, shift=3.0):
        self.order, self.shift = order, shift
        self.sigmas = self.timesteps = None
        self.outputs = []

    def set_timesteps(self, steps, device):
        sigmas = np.linspace(0.98, 0.02, steps, dtype=np.float32)
        sigmas = self.shift * sigmas / (1 + (self.shift - 1) * sigmas)
        self.timesteps = torch.from_numpy(sigmas * 1000).to(device)
        self.sigmas = torch.from_numpy(sigmas).to("cpu")
        self.outputs, self.index = [], 0

    def level(self, index):
        sigma = self.sigmas[index]
        return torch.log(1 - sigma) - torch.log(sigma)

    def step(self, output, sample):
        self.outputs = (self.outputs + [sample - self.sigmas[self.index] * output])[-self.order :]
        if self.index + 1 == len(self.sigmas):
            return self.outputs[-1]
        here, there = self.level(self.index), self.level(self.index + 1)
        h = there - here
        now, then = self.sigmas[self.index], self.sigmas[self.index + 1]
        result = then / now * sample - (1 - then) * torch.expm1(-h) * self.outputs[-1]
        if len(self.outputs) > 1:
            result = result - (1 - then) * torch.expm1(-h) * self.look_back(sample, here, h)
        self.index += 1
        return result

    def look_back(self, sample, here, h):
        rks, changes = [], []
        for past in range(1, len(self.outputs)):
            back = self.level(self.index - past)
            rks.append((back - here) / h)
            changes.append(self.outputs[-1 - past] - self.outputs[-1])
        rks.append(torch.ones((), device=sample.device))
        rks = torch.stack(rks)
        return sum(change / rk for change, rk in zip(changes, rks)) / (2 * rks[-1])
# --- sample.py
import torch

@torch.no_grad()
def sample(model, scheduler, shape, steps, seed, device):
    scheduler.set_timesteps(steps, device=device)
    latents = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)
    for timestep in scheduler.timesteps:
        output = model(latents, timestep)
        latents = scheduler.step(output, latents)
    return latents.cpu()

# === places_of_frames_and_words
# thread: https://github.com/bytedance/GRN/issues/33
# about: a pipeline may be told which GPU to use. What turns queries and keys by their places is computed when a size comes for the first time, and kept
# operation: mul on cuda:1, cuda:0
# operands: other|.*cos.*|.*
# category: default-or-current-device|cached-state
# line: rope.py: angles = angles.cuda()
# line: grn.py: cos, sin = self.rope(
# line: grn.py: query, key = turn(
# repair: rope.py: angles = angles.cuda() if torch.cuda.is_available() else angles -> angles = angles.to(device)
# repair: rope.py: def __call__(self, size): -> def __call__(self, size, device):
# repair: grn.py: cos, sin = self.rope((frames, height)) -> cos, sin = self.rope((frames, height), x.device)
import torch

from pipeline import GRNPipeline

count = torch.cuda.device_count()
pipeline = GRNPipeline(device=f"cuda:{count - 1}" if count else "cpu", seed=2)
videos = [pipeline(frames, height, seed) for frames, height, seed in ((2, 3, 0), (3, 2, 1), (2, 3, 2))]
print("means", [round(video.mean().item(), 4) for video in videos], "tables", len(pipeline.model.rope.kept))
# --- rope.py
import torch

class VisualRope:
    def __init__(self, width, base=100.0):
        self.speeds = base ** -(torch.arange(width // 4) / (width // 4))
        self.kept = {}

    def __call__(self, size):
        if size not in self.kept:
            frames, height = (torch.arange(count).float() for count in size)
            grid = torch.cartesian_prod(frames, height)
            angles = (grid[..., None] * self.speeds).flatten(1)
            angles = angles.cuda() if torch.cuda.is_available() else angles
            self.kept[size] = angles.cos(), angles.sin()
        return self.kept[size]

def turn(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
# --- grn.py
import torch
from torch import nn

from rope import VisualRope, turn

class GRN(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.qkv, self.out = nn.Linear(3, width), nn.Linear(width, 3 * width), nn.Linear(width, 3)
        self.rope = VisualRope(width)

    def forward(self, x, frames, height):
        query, key, value = self.qkv(self.inner(x)).chunk(3, dim=-1)
        cos, sin = self.rope((frames, height))
        query, key = turn(query, cos, sin), turn(key, cos, sin)
        seen = nn.functional.softmax(query @ key.transpose(1, 2), dim=-1) @ value
        return self.out(seen)
# --- pipeline.py
import torch

from grn import GRN

class GRNPipeline:
    def __init__(self, device, seed):
        torch.manual_seed(seed)
        self.device = torch.device(device)
        self.model = GRN(width=8).to(self.device).eval()

    @torch.no_grad()
    def __call__(self, frames, height, seed, steps=3):
        noise = torch.randn(1, frames * height, 3, generator=torch.Generator().manual_seed(seed))
        video = noise.to(self.device)
        for _ in range(steps):
            video = video - self.model(video, frames, height) / steps
        return video.unflatten(1, (frames, height)).cpu()

# === a_body_in_a_picture
# thread: https://github.com/facebookresearch/sam-3d-body/pull/81
# about: a body is found in parts of a picture, with what the camera is like. All that an estimator needs goes to the GPU in one call, however it is nested
# operation: .*conv.* on cuda:0, cuda:1
# error: should be the same|on the same device
# operands: weight|input|.*
# category: default-or-current-device|input-not-moved
# line: estimator.py: batch = recursive_to(
# line: estimator.py: found = self.model(
# repair: estimator.py: batch = recursive_to(batch, "cuda" if torch.cuda.is_available() else "cpu") -> batch = recursive_to(batch, self.device)
import numpy as np
import torch

from estimator import BodyEstimator
from model import BodyModel

torch.manual_seed(4)
count = torch.cuda.device_count()
device = torch.device("cuda", count - 1) if count else torch.device("cpu")
estimator = BodyEstimator(BodyModel(joints=3, width=6).to(device).eval(), device)
picture = np.random.default_rng(1).random((12, 16, 3)).astype(np.float32)
bodies = estimator.process(picture, boxes=[(0, 0, 8, 8), (6, 2, 14, 10)], focal=20.0)
print("bodies", [[round(float(value), 3) for value in body[0]] for body in bodies])
# --- nested.py
import torch

def recursive_to(nested, target):
    if isinstance(nested, torch.Tensor):
        return nested.to(target)
    if isinstance(nested, dict):
        return {name: recursive_to(each, target) for name, each in nested.items()}
    if isinstance(nested, (list, tuple)):
        return type(nested)(recursive_to(each, target) for each in nested)
    return nested
# --- prepare.py
import torch

def prepare(picture, boxes, focal):
    """A part of the picture for each box, and where its rays come from."""
    height, width, _ = picture.shape
    parts = [torch.from_numpy(picture[top:bottom, left:right]).permute(2, 0, 1) for left, top, right, bottom in boxes]
    centers = [((left + right - width) / 2, (top + bottom - height) / 2) for left, top, right, bottom in boxes]
    return {"parts": torch.stack(parts), "camera": {"centers": torch.tensor(centers), "focal": focal}, "boxes": boxes}
# --- model.py
import torch
from torch import nn

class BodyModel(nn.Module):
    def __init__(self, joints, width):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, width, 4, stride=4), nn.ReLU(), nn.Flatten())
        self.rays = nn.Linear(2, width)
        self.head, self.joints = nn.Linear(5 * width, 3 * joints), joints

    def forward(self, batch):
        seen = self.backbone(batch["parts"])
        rays = self.rays(batch["camera"]["centers"] / batch["camera"]["focal"])
        return self.head(torch.cat([seen, rays], dim=1)).unflatten(1, (self.joints, 3))
# --- estimator.py
import torch

from nested import recursive_to
from prepare import prepare

class BodyEstimator:
    def __init__(self, model, device):
        self.model, self.device = model, device

    @torch.no_grad()
    def process(self, picture, boxes, focal):
        batch = prepare(picture, boxes, focal)
        batch = recursive_to(batch, "cuda" if torch.cuda.is_available() else "cpu")
        found = self.model(batch)
        return [joints.cpu().numpy() for joints in found]
