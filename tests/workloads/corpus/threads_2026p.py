# === streaming_states
# thread: https://github.com/kyutai-labs/pocket-tts/pull/49
# about: each layer of a streaming model makes the state of its stream itself, in a method that is told sizes and no device
# operation: cat on cpu, cuda:0
# operands: .*previous.*
# category: created-without-device
# line: conv.py: return {"previous": torch.zeros(
# line: attention.py: return {"keys": torch.zeros(
# line: stateful.py: states[name] = module.init_state(
# line: conv.py: joined = torch.cat(
# repair: stateful.py: states[name] = module.init_state(batch_size, length) -> states[name] = module.init_state(batch_size, length, device=next(model.parameters()).device)
# repair: stateful.py: def init_state(self, batch_size, length): -> def init_state(self, batch_size, length, device):
# repair: conv.py: def init_state(self, batch_size, length): -> def init_state(self, batch_size, length, device):
# repair: conv.py: return {"previous": torch.zeros(batch_size, self.channels, self.kernel - 1)} -> return {"previous": torch.zeros(batch_size, self.channels, self.kernel - 1, device=device)}
# repair: attention.py: def init_state(self, batch_size, length): -> def init_state(self, batch_size, length, device):
# repair: attention.py: return {"keys": torch.zeros(batch_size, length, self.dim), "values": torch.zeros(batch_size, length, self.dim), "offset": 0} -> return {"keys": torch.zeros(batch_size, length, self.dim, device=device), "values": torch.zeros(batch_size, length, self.dim, device=device), "offset": 0}
import torch

from speech import SpeechDecoder
from stateful import init_states

torch.manual_seed(0)
decoder = SpeechDecoder(codes=16, dim=8).eval().to("cuda:0" if torch.cuda.is_available() else "cpu")
codes = torch.randint(16, (1, 9), generator=torch.Generator().manual_seed(4))
states = init_states(decoder, batch_size=1, length=9)
chunks = [decoder(chunk, states) for chunk in codes.split(3, dim=1)]
print("audio", [round(value, 4) for value in torch.cat(chunks, dim=-1)[0, :6].tolist()])
# --- stateful.py
from torch import nn

class StatefulModule(nn.Module):
    def init_state(self, batch_size, length):
        raise NotImplementedError

def init_states(model, batch_size, length):
    """The states of all layers that have one, by the layer's name."""
    states = {}
    for name, module in model.named_modules():
        if isinstance(module, StatefulModule):
            module.state_name = name
            states[name] = module.init_state(batch_size, length)
    return states
# --- conv.py
import torch
from torch import nn

from stateful import StatefulModule

class StreamingConv1d(StatefulModule):
    """Looks back at the end of the chunk before."""

    def __init__(self, channels, kernel):
        super().__init__()
        self.channels, self.kernel = channels, kernel
        self.conv = nn.Conv1d(channels, channels, kernel)

    def init_state(self, batch_size, length):
        return {"previous": torch.zeros(batch_size, self.channels, self.kernel - 1)}

    def forward(self, x, states):
        state = states[self.state_name]
        joined = torch.cat([state["previous"], x], dim=-1)
        state["previous"] = joined[..., 1 - self.kernel :]
        return nn.functional.elu(self.conv(joined))
# --- attention.py
import torch
from torch import nn

from stateful import StatefulModule

class StreamingAttention(StatefulModule):
    def __init__(self, dim):
        super().__init__()
        self.dim, self.qkv, self.out = dim, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def init_state(self, batch_size, length):
        return {"keys": torch.zeros(batch_size, length, self.dim), "values": torch.zeros(batch_size, length, self.dim), "offset": 0}

    def forward(self, x, states):
        state = states[self.state_name]
        start, end = state["offset"], state["offset"] + x.shape[1]
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        state["keys"][:, start:end], state["values"][:, start:end], state["offset"] = k, v, end
        scores = q @ state["keys"][:, :end].transpose(-2, -1) / self.dim**0.5
        return x + self.out(scores.softmax(-1) @ state["values"][:, :end])
# --- speech.py
import torch
from torch import nn

from attention import StreamingAttention
from conv import StreamingConv1d

class SpeechDecoder(nn.Module):
    def __init__(self, codes, dim):
        super().__init__()
        self.embed = nn.Embedding(codes, dim)
        self.conv, self.attention, self.head = StreamingConv1d(dim, kernel=3), StreamingAttention(dim), nn.Linear(dim, 4)

    @torch.inference_mode()
    def forward(self, codes, states):
        hidden = self.embed(codes.to(self.head.weight.device))
        hidden = self.conv(hidden.transpose(1, 2), states).transpose(1, 2)
        return self.head(self.attention(hidden, states)).tanh().flatten(1).cpu()

# === magnitude_left_behind
# thread: https://github.com/modelscope/ms-swift/pull/3709
# about: weights are merged group by group for the engine that generates. Of an offloaded layer the base and two low-rank parts are fetched, not the magnitude that DoRA has
# operation: div on cpu, cuda:0
# operands: .*magnitude.*
# category: input-not-moved|module-split
# line: sync.py: module.lora_b.to(
# line: sync.py: module.lora_a.to(
# line: sync.py: module.base.to(
# line: sync.py: module.merge(
# line: dora.py: factor = self.magnitude /
# repair: sync.py: module.lora_b.to(device) -> module.lora_b.to(device); module.magnitude.data = module.magnitude.data.to(device)
import torch

from dora import add_dora
from engine import Engine
from model import Scorer
from sync import move_model_to_engine

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
model = add_dora(Scorer(dim=8, depth=2), rank=2).to(device)
engine = Engine(Scorer(dim=8, depth=2).to(device))
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
x, rewards = torch.randn(10, 8), []
for _ in range(3):
    model.to("cpu")  # the engine needs the room
    move_model_to_engine(model, engine, device, batches=2)
    answers = engine.generate(x.to(device))
    model.to(device)
    loss = (model(x.to(device)) - answers.sign()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    rewards.append(round(loss.item(), 4))
print("losses", rewards)
# --- model.py
import torch
from torch import nn

class Scorer(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.head(x)[:, 0]
# --- dora.py
import torch
from torch import nn

class DoraLinear(nn.Module):
    """A linear layer whose weight's direction has a low-rank change, and whose magnitude is trained."""

    def __init__(self, base, rank):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Linear(base.in_features, rank, bias=False)
        self.lora_b = nn.Linear(rank, base.out_features, bias=False)
        nn.init.normal_(self.lora_b.weight, std=0.1)
        self.magnitude = nn.Parameter(base.weight.detach().norm(dim=1))

    def merge(self):
        changed = self.base.weight + self.lora_b.weight @ self.lora_a.weight
        factor = self.magnitude / changed.detach().norm(dim=1)
        return factor[:, None] * changed

    def forward(self, x):
        return nn.functional.linear(x, self.merge(), self.base.bias)

def add_dora(model, rank):
    model.requires_grad_(False)
    model.layers = nn.ModuleList(DoraLinear(layer, rank) for layer in model.layers)
    return model
# --- engine.py
import torch

class Engine:
    def __init__(self, model):
        self.model = model.eval()

    @torch.no_grad()
    def load_weights(self, weights):
        for name, value in weights:
            self.model.get_parameter(name).copy_(value)

    @torch.inference_mode()
    def generate(self, x):
        return self.model(x).clone()
# --- sync.py
import torch

def parameter_groups(model, batches):
    names = [name for name, _ in model.layers.named_children()]
    size = -(-len(names) // batches)
    return [names[start : start + size] for start in range(0, len(names), size)]

@torch.no_grad()
def move_model_to_engine(model, engine, device, batches):
    """Merges a group of layers at a time where the engine is, so that the whole model need not be there."""
    for group in parameter_groups(model, batches):
        merged = []
        for name in group:
            module = model.layers.get_submodule(name)
            module.base.to(device)
            module.lora_a.to(device)
            module.lora_b.to(device)
            merged.append((f"layers.{name}.weight", module.merge()))
        engine.load_weights(merged)
        for name in group:
            model.layers.get_submodule(name).to("cpu")

# === legacy_pairs
# thread: https://github.com/talmolab/sleap-nn/pull/133
# about: peaks of body parts are paired along fields of their connections; what pairs are worth by distance is written with the legacy constructor, which takes no device
# operation: div on cuda:0, cpu
# operands: .*max_lengths.*
# category: created-without-device
# line: grouping.py: max_lengths = torch.Tensor(
# line: grouping.py: excess = lengths
# repair: grouping.py: max_lengths = torch.Tensor([edge.max_length for edge in edges]) -> max_lengths = torch.tensor([edge.max_length for edge in edges], device=peaks.device)
import torch

from grouping import Edge, group_instances
from network import BottomUp

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
edges = [Edge(0, 1, max_length=4.0), Edge(1, 2, max_length=5.0)]
network = BottomUp(parts=3, edges=2, width=6).eval().to(device)
image = torch.rand(1, 1, 12, 12, generator=torch.Generator().manual_seed(6))
with torch.inference_mode():
    heatmaps, fields = network(image.to(device))
    pairs = group_instances(heatmaps[0], fields[0], edges, candidates=2)
print("pairs", pairs)
# --- network.py
from torch import nn

class BottomUp(nn.Module):
    """Heatmaps of parts, and a field of directions for each connection."""

    def __init__(self, parts, edges, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, width, 5, padding=2), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU())
        self.heatmaps, self.fields = nn.Conv2d(width, parts, 1), nn.Conv2d(width, 2 * edges, 1)

    def forward(self, image):
        features = self.body(image)
        return self.heatmaps(features), self.fields(features).unflatten(1, (-1, 2))
# --- peaks.py
import torch

def find_peaks(heatmaps, candidates):
    """Where the highest values of each part are: (parts, candidates, 2) as x, y."""
    width = heatmaps.shape[-1]
    places = heatmaps.flatten(1).topk(candidates, dim=1).indices
    return torch.stack([places % width, places // width], dim=-1).float()
# --- grouping.py
from dataclasses import dataclass

import torch

from peaks import find_peaks

@dataclass
class Edge:
    source: int
    target: int
    max_length: float

def along(field, sources, targets, points=4):
    """The field's mean at points between both ends, as far as it leads from one to the other."""
    steps = torch.linspace(0, 1, points, device=field.device)[:, None, None, None]
    samples = (sources[:, None] * (1 - steps) + targets[None] * steps).round().long()
    direction = torch.nn.functional.normalize(targets[None] - sources[:, None], dim=-1)
    return (field[:, samples[..., 1], samples[..., 0]].permute(1, 2, 3, 0) * direction).sum(-1).mean(0)

def group_instances(heatmaps, fields, edges, candidates):
    peaks = find_peaks(heatmaps, candidates)
    ends = torch.stack([torch.stack([peaks[edge.source], peaks[edge.target]]) for edge in edges])
    lengths = torch.stack([torch.cdist(source, target) for source, target in ends])
    scores = torch.stack([along(field, source, target) for field, (source, target) in zip(fields, ends)])
    max_lengths = torch.Tensor([edge.max_length for edge in edges])
    excess = lengths / max_lengths[:, None, None] - 1
    penalty = excess.clamp(min=0)
    best = (scores - penalty).flatten(1).argmax(1).tolist()
    return [(edge.source, place // candidates, edge.target, place % candidates) for edge, place in zip(edges, best)]

# === second_card_image
# thread: https://github.com/DepthAnything/Depth-Anything-V2/pull/284
# about: a model is put on the second GPU; its own helper makes a tensor of an image and brings it where CUDA is, which is the first one
# operation: convolution|conv2d on cuda:0, cuda:1
# operands: x|input|image|images
# error: should be the same|same device
# category: default-or-current-device|input-not-moved
# line: dpt.py: DEVICE = "cuda" if
# line: dpt.py: image = image.to(
# line: dpt.py: image, size = self.image2tensor(
# line: dpt.py: depth = self.forward(
# line: encoder.py: x = self.patches(
# repair: dpt.py: DEVICE = "cuda" if torch.cuda.is_available() else "cpu" -> DEVICE = next(self.parameters()).device
import numpy as np
import torch

from dpt import DepthAnything

torch.manual_seed(0)
model = DepthAnything(width=8, patch=4)
last = torch.cuda.device_count() - 1
model = model.to(f"cuda:{last}" if torch.cuda.is_available() else "cpu").eval()
photo = (np.random.default_rng(3).random((20, 28, 3)) * 255).astype(np.uint8)
depth = model.infer_image(photo, input_size=16)
print("depth", depth.shape, round(float(depth.mean()), 5))
# --- transform.py
import numpy as np

class Resize:
    """To sizes that patches fit into, by the nearest pixel."""

    def __init__(self, size, multiple):
        self.size, self.multiple = size, multiple

    def __call__(self, image):
        scale = self.size / min(image.shape[:2])
        rows, columns = (max(1, round(side * scale / self.multiple)) * self.multiple for side in image.shape[:2])
        return image[np.arange(rows) * image.shape[0] // rows][:, np.arange(columns) * image.shape[1] // columns]

class NormalizeImage:
    def __init__(self, mean, std):
        self.mean, self.std = np.array(mean, dtype=np.float32), np.array(std, dtype=np.float32)

    def __call__(self, image):
        return (image - self.mean) / self.std
# --- encoder.py
from torch import nn

class Encoder(nn.Module):
    def __init__(self, width, patch):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.mix = nn.Sequential(nn.GroupNorm(1, width), nn.Conv2d(width, width, 3, padding=1), nn.GELU())

    def forward(self, x):
        x = self.patches(x)
        return x + self.mix(x)
# --- dpt.py
import torch
from torch import nn

from encoder import Encoder
from transform import NormalizeImage, Resize

class DepthAnything(nn.Module):
    def __init__(self, width, patch):
        super().__init__()
        self.patch, self.pretrained = patch, Encoder(width, patch)
        self.depth_head = nn.Conv2d(width, 1, 1)

    def forward(self, images):
        depth = self.depth_head(self.pretrained(images))
        depth = nn.functional.interpolate(depth, images.shape[-2:], mode="bilinear", align_corners=True)
        return depth.relu()[:, 0]

    @torch.no_grad()
    def infer_image(self, raw_image, input_size=518):
        image, size = self.image2tensor(raw_image, input_size)
        depth = self.forward(image)
        depth = nn.functional.interpolate(depth[:, None], size, mode="bilinear", align_corners=True)[0, 0]
        return depth.cpu().numpy()

    def image2tensor(self, raw_image, input_size):
        transform = [Resize(input_size, self.patch), NormalizeImage([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
        image = raw_image[..., ::-1] / 255.0
        for step in transform:
            image = step(image)
        image = torch.from_numpy(image.transpose(2, 0, 1).copy()).float().unsqueeze(0)
        DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
        image = image.to(DEVICE)
        return image, raw_image.shape[:2]

# === policy_by_name
# thread: https://github.com/huggingface/trl/issues/2864
# about: the engine that generates makes its own GPU the current one. A policy given by its name is loaded to the first; the accelerator's device has no index and follows
# operation: embedding|index_select on cuda:0, cuda:1
# operands: .*embed.*|.*weight|.*ids.*
# category: default-or-current-device|input-not-moved
# line: main.py: trainer = GRPOTrainer(
# line: trainer.py: model = load_policy(model).to(
# line: trainer.py: device, length = self.accelerator.device
# line: trainer.py: ids = torch.tensor(
# line: trainer.py: logits = self.model(
# line: engine.py: torch.cuda.set_device(
# line: arguments.py: return torch.device(
# repair: main.py: trainer = GRPOTrainer(model="policy.pt", engine=engine, args=args) -> trainer = GRPOTrainer(model=load_policy("policy.pt").to(Accelerator().device), engine=engine, args=args)
import torch
from accelerate import Accelerator

from arguments import GRPOArguments
from engine import Engine
from policy import Policy, load_policy, save_policy
from trainer import GRPOTrainer

torch.manual_seed(0)
save_policy(Policy(words=12, dim=8), "policy.pt")
args = GRPOArguments(lr=0.05, samples=3, length=4)
accelerator = Accelerator()
last = torch.cuda.device_count() - 1
engine = Engine(load_policy("policy.pt"), device=f"cuda:{last}")
trainer = GRPOTrainer(model="policy.pt", engine=engine, args=args)
print("losses", [trainer.step([[1, 5], [2, 3]], seed=seed) for seed in range(3)])
# --- arguments.py
from dataclasses import dataclass

import torch

@dataclass
class GRPOArguments:
    lr: float
    samples: int
    length: int

    @property
    def device(self):
        """Without a launcher it is the first one."""
        return torch.device("cuda:0")
# --- policy.py
import torch
from torch import nn

class Policy(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.sizes = words, dim
        self.embed, self.rnn, self.head = nn.Embedding(words, dim), nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, words)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])

def save_policy(policy, path):
    torch.save({"sizes": policy.sizes, "state": policy.state_dict()}, path)

def load_policy(path):
    saved = torch.load(path, map_location="cpu", weights_only=True)
    policy = Policy(*saved["sizes"])
    policy.load_state_dict(saved["state"])
    return policy
# --- engine.py
import torch

class Engine:
    """Samples on a GPU of its own."""

    def __init__(self, policy, device):
        self.device = torch.device(device)
        torch.cuda.set_device(self.device)
        self.policy = policy.to(self.device).eval()

    def sync(self, state):
        self.policy.load_state_dict(state)

    @torch.no_grad()
    def generate(self, prompts, samples, length, seed):
        generator = torch.Generator().manual_seed(seed)
        ids = torch.tensor(prompts).repeat_interleave(samples, 0)
        for _ in range(length):
            logits = self.policy(ids.to(self.device))[:, -1]
            ids = torch.cat([ids, torch.multinomial(logits.softmax(-1).cpu(), 1, generator=generator)], dim=1)
        return ids.tolist()
# --- trainer.py
import torch
from accelerate import Accelerator

from policy import load_policy

class GRPOTrainer:
    def __init__(self, model, engine, args):
        self.accelerator, self.engine, self.args = Accelerator(), engine, args
        if isinstance(model, str):
            model = load_policy(model).to(args.device)
        self.model = model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr)

    def advantages(self, completions):
        rewards = torch.tensor([[float(token % 2 == 0) for token in tokens] for tokens in completions]).mean(-1)
        groups = rewards.view(-1, self.args.samples)
        return ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)).flatten()

    def step(self, prompts, seed):
        device, length = self.accelerator.device, self.args.length
        rows = self.engine.generate(prompts, self.args.samples, length, seed)
        ids = torch.tensor(rows, device=device)
        advantages = self.advantages([row[-length:] for row in rows]).to(device)
        logits = self.model(ids[:, :-1])[:, -length:]
        logps = logits.log_softmax(-1).gather(-1, ids[:, -length:, None])[..., 0]
        loss = -(torch.exp(logps - logps.detach()) * advantages[:, None]).mean() - 0.1 * logps.mean()
        self.optimizer.zero_grad()
        self.accelerator.backward(loss)
        self.optimizer.step()
        self.engine.sync(self.model.state_dict())
        return round(loss.item(), 4)

# === rotary_of_the_node
# thread: https://github.com/logtd/ComfyUI-HunyuanLoom/pull/17
# about: a node puts a forward of its own in the place of the model's. It takes rotary embeddings as they are computed, which the old one brought to the latents
# operation: mul on cuda:0, cpu
# operands: freqs_cos|cos|freqs
# category: input-not-moved|created-without-device
# line: loom.py: cos, sin = rotary_embeds(
# line: rotary.py: return tokens * cos
# line: loom.py: tokens = block(
# line: model.py: q, k = (rotate(
# repair: loom.py: cos, sin = rotary_embeds(len(latents), model.dim) -> cos, sin = (each.to(latents.device) for each in rotary_embeds(len(latents), model.dim))
import torch

from loom import FlowEditNode
from model import HunyuanModel

torch.manual_seed(0)
device = "cuda:0" if torch.cuda.is_available() else "cpu"
model = HunyuanModel(dim=8, depth=2).eval().to(device)
latents = torch.randn(5, 8, generator=torch.Generator().manual_seed(2)).to(device)
with torch.inference_mode():
    before = model(latents, 0.5)
    edited = FlowEditNode(strength=0.4).patch(model)(latents, 0.5)
print("moved", round((edited - before).norm().item(), 5))
# --- rotary.py
import torch

def rotary_embeds(length, dim, theta=256.0):
    """Cosines and sines of all positions: two tables of length by dim."""
    frequencies = theta ** -(torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    positions = torch.arange(length, dtype=torch.float32)
    angles = torch.outer(positions, frequencies).repeat_interleave(2, dim=1)
    return angles.cos(), angles.sin()

def rotate(tokens, cos, sin):
    real, imaginary = tokens.unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack([-imaginary, real], dim=-1).flatten(-2)
    return tokens * cos + turned * sin
# --- model.py
import torch
from torch import nn

from rotary import rotary_embeds, rotate

class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, tokens, cos, sin):
        q, k, v = self.qkv(self.norm(tokens)).chunk(3, dim=-1)
        q, k = (rotate(each, cos, sin) for each in (q, k))
        scores = q @ k.T / q.shape[-1] ** 0.5
        return tokens + self.out(scores.softmax(-1) @ v)

class HunyuanModel(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.dim, self.blocks = dim, nn.ModuleList(Block(dim) for _ in range(depth))
        self.time, self.final = nn.Linear(1, dim), nn.Linear(dim, dim)

    def embedded(self, latents, timestep):
        return latents + self.time(latents.new_tensor([[timestep]]))

    def forward(self, latents, timestep):
        cos, sin = (each.to(latents) for each in rotary_embeds(len(latents), self.dim))
        tokens = self.embedded(latents, timestep)
        for block in self.blocks:
            tokens = block(tokens, cos, sin)
        return self.final(tokens)
# --- loom.py
from functools import partial

from rotary import rotary_embeds

def edited_forward(model, strength, latents, timestep):
    """Each block's change is applied in part, the more the later it comes."""
    cos, sin = rotary_embeds(len(latents), model.dim)
    tokens = model.embedded(latents, timestep)
    for index, block in enumerate(model.blocks, 1):
        before = tokens
        tokens = block(tokens, cos, sin)
        tokens = before.lerp(tokens, 1 - strength / index)
    return model.final(tokens)

class FlowEditNode:
    def __init__(self, strength):
        self.strength = strength

    def patch(self, model):
        model.forward = partial(edited_forward, model, self.strength)
        return model

# === membership_attack
# thread: https://github.com/ispras/GNN-AID/pull/81
# about: whom a model was trained on is known on the CPU; what an attack guesses of that comes of answers of the GPU, and a report compares both
# operation: eq on cpu, cuda:0
# operands: true_labels|.*true.*
# category: input-not-moved
# line: report.py: right = (
# line: main.py: print("attack", evaluate(
# line: attack.py: return self.confidence(graph, nodes) >
# line: main.py: guessed = attacker
# repair: report.py: right = (true_labels == pred_labels).float() -> right = (true_labels == pred_labels.to(true_labels.device)).float()
import torch

from attack import ThresholdAttacker
from gnn import GraphNet, train
from graph import ring_of_friends
from report import evaluate

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
graph = ring_of_friends(nodes=12, features=5, seed=1)
targets = {node: bool(graph["train_mask"][node]) for node in range(0, 12, 2)}
model = GraphNet(features=5, classes=3).to(device)
train(model, graph, device, epochs=15, lr=0.05)
attacker = ThresholdAttacker(model, device)
attacker.calibrate(graph, known=[1, 3, 5, 7])
guessed = attacker.attack(graph, list(targets))
print("attack", evaluate(torch.tensor(list(targets.values())), guessed))
# --- graph.py
import torch

def ring_of_friends(nodes, features, seed):
    generator = torch.Generator().manual_seed(seed)
    around = torch.arange(nodes)
    edges = torch.stack([torch.cat([around, around]), torch.cat([(around + 1) % nodes, (around + 3) % nodes])])
    labels = torch.randint(3, (nodes,), generator=generator)
    x = torch.randn(nodes, features, generator=generator)
    return {"x": x, "edge_index": edges, "y": labels, "train_mask": torch.rand(nodes, generator=generator) < 0.5}
# --- gnn.py
import torch
from torch import nn

class GraphNet(nn.Module):
    def __init__(self, features, classes, width=8):
        super().__init__()
        self.inner, self.outer = nn.Linear(features, width), nn.Linear(2 * width, classes)

    def forward(self, x, edge_index):
        hidden = torch.relu(self.inner(x))
        gathered = torch.zeros_like(hidden).index_add(0, edge_index[1], hidden[edge_index[0]])
        return self.outer(torch.cat([hidden, gathered / 2], dim=-1))

def train(model, graph, device, epochs, lr):
    x, edges, y, mask = (graph[name].to(device) for name in ("x", "edge_index", "y", "train_mask"))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        loss = nn.functional.cross_entropy(model(x, edges)[mask], y[mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()
# --- attack.py
import torch

class ThresholdAttacker:
    """Whom the model is surer of than of those in the middle was in its training set."""

    def __init__(self, model, device):
        self.model, self.device = model.eval(), device

    @torch.no_grad()
    def confidence(self, graph, nodes):
        posteriors = self.model(graph["x"].to(self.device), graph["edge_index"].to(self.device)).softmax(-1)
        chosen = torch.tensor(nodes, device=self.device)
        return posteriors[chosen].gather(1, graph["y"].to(self.device)[chosen, None])[:, 0]

    def calibrate(self, graph, known):
        members = graph["train_mask"][known].to(self.device)
        sure = self.confidence(graph, known)
        self.threshold = (sure[members].mean() + sure[~members].mean()) / 2

    def attack(self, graph, nodes):
        return self.confidence(graph, nodes) > self.threshold
# --- report.py
def evaluate(true_labels, pred_labels):
    right = (true_labels == pred_labels).float()
    members = true_labels.float().mean().item()
    return {"accuracy": round(right.mean().item(), 4), "members": round(members, 4)}

# === weights_by_safetensors
# thread: https://github.com/huggingface/lerobot/pull/4042
# about: each rank makes its own GPU the current one. safetensors does not know of that: "cuda" is the first one to it, and the weights that it reads are assigned as they are
# operation: addmm|linear on cuda:1, cuda:0
# operands: .*weight|observation|input
# category: default-or-current-device|checkpoint|input-not-moved
# line: checkpoint.py: state = load_file(
# line: checkpoint.py: policy.load_state_dict(
# line: rollout.py: policy = load_policy(
# line: checkpoint.py: return policy.eval()
# line: main.py: config = PolicyConfig(
# repair: checkpoint.py: state = load_file(path, device=device) -> state = load_file(path, device=f"cuda:{torch.cuda.current_device()}" if device == "cuda" else device)
import torch

from checkpoint import save_policy
from config import PolicyConfig
from policy import Policy
from rollout import rollout

torch.manual_seed(0)
config = PolicyConfig(observations=4, actions=2, width=8, device="cuda")
save_policy(Policy(config), "policy.safetensors")
local_rank = torch.cuda.device_count() - 1
torch.cuda.set_device(local_rank)
print("actions", rollout(config, "policy.safetensors", steps=5, seed=local_rank))
# --- config.py
from dataclasses import dataclass

@dataclass(frozen=True)
class PolicyConfig:
    observations: int
    actions: int
    width: int
    device: str
# --- policy.py
import torch
from torch import nn

class Policy(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(config.observations, config.width), nn.SiLU())
        self.mean, self.log_std = nn.Linear(config.width, config.actions), nn.Parameter(torch.zeros(config.actions))

    def forward(self, observation, noise):
        hidden = self.body(observation)
        return torch.tanh(self.mean(hidden) + 0.1 * self.log_std.exp() * noise)
# --- checkpoint.py
import torch
from safetensors.torch import load_file, save_file

from policy import Policy

def save_policy(policy, path):
    save_file(policy.state_dict(), path)

def load_policy(config, path, device):
    """Nothing is initialized twice: the module has no weights until those of the file are its own."""
    with torch.device("meta"):
        policy = Policy(config)
    state = load_file(path, device=device)
    policy.load_state_dict(state, assign=True)
    return policy.eval()
# --- rollout.py
import torch

from checkpoint import load_policy

@torch.no_grad()
def rollout(config, path, steps, seed):
    policy = load_policy(config, path, config.device)
    generator = torch.Generator().manual_seed(seed)
    observation, taken = torch.rand(config.observations, generator=generator), []
    for _ in range(steps):
        noise = torch.randn(config.actions, generator=generator).to(config.device)
        action = policy(observation.to(config.device), noise).cpu()
        observation = (observation * 0.9).add(0.1 * action.repeat(config.observations // config.actions))
        taken.append(round(action.sum().item(), 4))
    return taken
