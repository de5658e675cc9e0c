# === offsets_of_joined_graph_states
# thread: https://github.com/GFNOrg/torchgfn/pull/323
# about: graphs grow edge by edge, and states of many graphs are one big graph. Two such batches are joined; at which node each graph begins is known from Python's numbers
# operation: add on cpu, cuda:0
# operands: .*offsets.*|self
# category: created-without-device
# line: states.py: offsets = torch.cat([self.offsets, other.offsets + self.ptr[-1]])
# line: states.py: offsets = torch.tensor([0, *sizes[:-1]])
# repair: states.py: offsets = torch.tensor([0, *sizes[:-1]]).cumsum(0) -> offsets = torch.tensor([0, *sizes[:-1]], device=graphs[0].x.device).cumsum(0)
import torch

from graphs import ring
from policy import EdgePolicy
from states import GraphStates

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
policy = EdgePolicy(features=2, width=6).to(device)
states = GraphStates.collate([ring(3, device), ring(4, device)])
states = states.extend(GraphStates.collate([ring(5, device)]))
with torch.no_grad():
    scores = policy(states)
print("first nodes", states.offsets.tolist(), "scores", [round(score, 4) for score in scores.tolist()])
# --- graphs.py
from dataclasses import dataclass

import torch

@dataclass
class Graph:
    x: torch.Tensor
    edge_index: torch.Tensor

def ring(nodes, device):
    at = torch.arange(nodes, device=device)
    angle = at * (2 * torch.pi / nodes)
    return Graph(torch.stack([angle.cos(), angle.sin()], 1), torch.stack([at, at.roll(-1)]))
# --- states.py
from dataclasses import dataclass

import torch

@dataclass
class GraphStates:
    x: torch.Tensor
    edge_index: torch.Tensor
    ptr: torch.Tensor
    offsets: torch.Tensor

    @classmethod
    def collate(cls, graphs):
        sizes = [len(graph.x) for graph in graphs]
        offsets = torch.tensor([0, *sizes[:-1]]).cumsum(0)
        edges = [graph.edge_index + offset for graph, offset in zip(graphs, offsets.tolist())]
        x = torch.cat([graph.x for graph in graphs])
        ptr = torch.tensor([0, *sizes], device=x.device).cumsum(0)
        return cls(x, torch.cat(edges, dim=1), ptr, offsets)

    def extend(self, other):
        offsets = torch.cat([self.offsets, other.offsets + self.ptr[-1]])
        ptr = torch.cat([self.ptr, other.ptr[1:] + self.ptr[-1]])
        edges = torch.cat([self.edge_index, other.edge_index + self.ptr[-1]], dim=1)
        return GraphStates(torch.cat([self.x, other.x]), edges, ptr, offsets)
# --- policy.py
import torch
from torch import nn

class EdgePolicy(nn.Module):
    """How promising it is to go on with a graph."""

    def __init__(self, features, width):
        super().__init__()
        self.message, self.score = nn.Linear(2 * features, width), nn.Linear(width, 1)

    def forward(self, states):
        source, target = states.edge_index
        messages = self.message(torch.cat([states.x[source], states.x[target]], 1)).tanh()
        nodes = torch.zeros(len(states.x), messages.shape[1], device=messages.device).index_add(0, target, messages)
        sums = torch.cat([nodes.new_zeros(1, nodes.shape[1]), nodes.cumsum(0)])
        return self.score(sums[states.ptr[1:]] - sums[states.ptr[:-1]])[:, 0]

# === noise_between_two_gradient_steps
# thread: https://github.com/galilai-group/stable-worldmodel/pull/162
# about: a planner follows the gradient of a learned model's cost. So that a run can be repeated, all its chance comes from a source of its own; actions are shaken between steps
# operation: randn|normal on cpu, cuda:0
# operands: generator|self.generator
# error: Expected a 'cpu' device type for generator but found 'cuda'
# category: generator|created-without-device
# line: solver.py: shaken = torch.randn(
# repair: solver.py: shaken = torch.randn(actions.shape, generator=self.generator) -> shaken = torch.randn(actions.shape, generator=self.generator, device=actions.device)
import torch

from solver import GradientSolver
from world import PointWorld

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
world = PointWorld(dim=2).to(device)
start, goal = torch.tensor([[0.0, 0.0], [1.0, -1.0]]), torch.tensor([[1.0, 0.5], [-0.5, 0.0]])
solver = GradientSolver(world, horizon=3, samples=4, device=device, action_noise=0.01, seed=3)
actions = solver.solve(start.to(device), goal.to(device), steps=60, lr=0.2)
ends = world.rollout(start.to(device), actions)
print("actions", tuple(actions.shape), "reached", [bool(far < 0.1) for far in (ends - goal.to(device)).norm(dim=1)])
# --- world.py
import torch
from torch import nn

class PointWorld(nn.Module):
    """A point that goes where it is pushed."""

    def __init__(self, dim):
        super().__init__()
        self.push = nn.Parameter(0.8 * torch.eye(dim), requires_grad=False)

    def rollout(self, state, actions):
        for action in actions.unbind(-2):
            state = state + action @ self.push
        return state

    def cost(self, start, goal, actions):
        return (self.rollout(start, actions) - goal).square().sum(-1)
# --- solver.py
import torch

class GradientSolver:
    def __init__(self, model, horizon, samples, device, action_noise, seed):
        self.model, self.horizon, self.samples = model, horizon, samples
        self.device, self.action_noise = device, action_noise
        self.generator = torch.Generator(device=device).manual_seed(seed)

    def first_guess(self, count, dim):
        shape = (self.samples, count, self.horizon, dim)
        return 0.1 * torch.randn(shape, generator=self.generator, device=self.device)

    def solve(self, start, goal, steps, lr):
        actions = self.first_guess(*start.shape).requires_grad_()
        for step in range(steps):
            cost = self.model.cost(start, goal, actions)
            (gradient,) = torch.autograd.grad(cost.sum(), actions)
            with torch.no_grad():
                actions -= lr * gradient
                if self.action_noise > 0 and step < steps // 2:
                    shaken = torch.randn(actions.shape, generator=self.generator)
                    actions += self.action_noise * shaken
        best = self.model.cost(start, goal, actions).argmin(0)
        return actions.detach()[best, torch.arange(len(start), device=best.device)]

# === cache_brought_back_between_chunks
# thread: https://github.com/deepseek-ai/DeepSeek-VL2/pull/91
# about: long prompts with images are read in chunks; between two of them keys and values wait in the host's memory, so that there is room. Layers are on two GPUs
# operation: cat on cuda:0, cuda:1
# operands: .*past.*|k|v|tensors.*
# category: cached-state|module-split
# line: prefill.py: return [(k.to(device), v.to(device)) for k, v in past]
# line: prefill.py: past = onto(past, embeds.device)
# line: model.py: k = torch.cat([past[0], k], dim=1)
# line: model.py: hidden, kept = layer(hidden.to(layer.qkv.weight.device)
# repair: model.py: hidden, kept = layer(hidden.to(layer.qkv.weight.device), past[index] if past else None) -> hidden, kept = layer(hidden.to(layer.qkv.weight.device), [each.to(layer.qkv.weight.device) for each in past[index]] if past else None)
import torch

from model import TinyLanguageModel
from prefill import incremental_prefill

torch.manual_seed(0)
devices = ["cuda:0", "cuda:1"] if torch.cuda.is_available() else ["cpu", "cpu"]
model = TinyLanguageModel(dim=8, layers=4, words=20, devices=devices)
generator = torch.Generator().manual_seed(6)
words = torch.randint(20, (1, 5), generator=generator).to(devices[0])
image = torch.randn(1, 4, 8, generator=generator).to(devices[0])
with torch.no_grad():
    embeds = torch.cat([image, model.embed(words)], dim=1)
    logits, past = incremental_prefill(model, embeds, chunk_size=4)
print("next", logits[0, -1].topk(3).indices.tolist(), "cached", past[0][0].shape[1])
# --- model.py
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, hidden, past):
        q, k, v = self.qkv(hidden).chunk(3, dim=-1)
        if past is not None:
            k = torch.cat([past[0], k], dim=1)
            v = torch.cat([past[1], v], dim=1)
        before = k.shape[1] - q.shape[1]
        allowed = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=q.device).tril(before)
        return hidden + self.out(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)), (k, v)

class TinyLanguageModel(nn.Module):
    def __init__(self, dim, layers, words, devices):
        super().__init__()
        self.embed = nn.Embedding(words, dim).to(devices[0])
        self.layers = nn.ModuleList(Layer(dim) for _ in range(layers))
        for index, layer in enumerate(self.layers):
            layer.to(devices[index * len(devices) // layers])
        self.head = nn.Linear(dim, words).to(devices[-1])

    def forward(self, embeds, past=None):
        hidden, cache = embeds, []
        for index, layer in enumerate(self.layers):
            hidden, kept = layer(hidden.to(layer.qkv.weight.device), past[index] if past else None)
            cache.append(kept)
        return self.head(hidden), cache
# --- prefill.py
def onto(past, device):
    return [(k.to(device), v.to(device)) for k, v in past]

def incremental_prefill(model, embeds, chunk_size):
    past = None
    for chunk in embeds.split(chunk_size, dim=1):
        if past is not None:
            past = onto(past, embeds.device)
        logits, past = model(chunk, past)
        past = onto(past, "cpu")
    return logits, past

# === metrics_of_each_split
# thread: https://github.com/theislab/interscale/issues/28
# about: a model of cells counts how good it is, for each part of the data in metrics of its own. It is moved to the GPU with all that belongs to it
# operation: add_?|iadd on cpu, cuda:0
# operands: .*sum_squared_error.*|self|.*measures.*
# error: Encountered different devices in metric calculation|on the same device
# category: state-not-registered
# line: task.py: self.measures = {split: MeanSquaredError()
# line: task.py: self.measures[split].update(
# repair: task.py: self.measures = {split: MeanSquaredError() for split in ("fit", "held_out")} -> self.measures = nn.ModuleDict({split: MeanSquaredError() for split in ("fit", "held_out")})
import torch

from cells import expressions
from task import Regression

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Regression(genes=6, neighbours=4).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
fit, held_out = expressions(count=24, genes=6, seed=1), expressions(count=8, genes=6, seed=2)
for _ in range(4):
    optimizer.zero_grad()
    model.step("fit", *(part.to(device) for part in fit)).backward()
    optimizer.step()
with torch.no_grad():
    model.step("held_out", *(part.to(device) for part in held_out))
print("errors", model.summary())
# --- cells.py
import torch

def expressions(count, genes, seed):
    """What cells express, and of each how much of it its neighbours explain."""
    generator = torch.Generator().manual_seed(seed)
    neighbours = torch.rand(count, 4, genes, generator=generator)
    return neighbours, neighbours.mean(1).sum(1).log1p()
# --- task.py
from torch import nn
from torchmetrics import MeanSquaredError

class Regression(nn.Module):
    def __init__(self, genes, neighbours):
        super().__init__()
        self.weigh = nn.Linear(genes, 1)
        self.net = nn.Sequential(nn.Linear(genes, 8), nn.SiLU(), nn.Linear(8, 1))
        self.measures = {split: MeanSquaredError() for split in ("fit", "held_out")}

    def forward(self, neighbours):
        weights = self.weigh(neighbours).softmax(1)
        return self.net((weights * neighbours).sum(1))[:, 0]

    def step(self, split, neighbours, target):
        predicted = self(neighbours)
        self.measures[split].update(predicted.detach(), target)
        return nn.functional.gaussian_nll_loss(predicted, target, 0.1 * target.new_ones(len(target)))

    def summary(self):
        return {split: round(measure.compute().item(), 4) for split, measure in self.measures.items()}

# === telescopes_of_a_black_hole
# thread: https://github.com/devzhk/InverseBench/pull/9
# about: an image is looked for that explains what telescopes have measured. The measuring is a class of its own, which is told its device; the run has been given the second GPU
# operation: mul|matmul|mm|einsum|bmm on cuda:1, cuda:0
# operands: .*baselines.*|phase.*|other|self.*
# category: default-or-current-device
# line: blackhole.py: self.baselines = on_gpu(
# line: blackhole.py: return values.cuda()
# line: blackhole.py: phase = self.grid @ self.baselines.T
# repair: blackhole.py: self.baselines = on_gpu(torch.tensor(baselines)) -> self.baselines = torch.tensor(baselines).to(self.device)
import torch

from blackhole import BlackHoleImaging
from solve import reconstruct

torch.manual_seed(0)
device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")
baselines = [[0.5, 1.0], [2.0, -1.0], [1.5, 3.0], [-2.5, 0.5], [0.0, 2.0]]
problem = BlackHoleImaging(size=5, baselines=baselines, device=device)
truth = torch.zeros(1, 5, 5)
truth[0, 1:4, 2] = 1.0
measured = problem.forward(truth.to(device))
image, losses = reconstruct(problem, measured, steps=25, lr=0.05)
print("misfit", losses[0], "->", losses[-1], "brightest row", image.sum(2).argmax(1).tolist())
# --- blackhole.py
import torch

def on_gpu(values):
    return values.cuda() if torch.cuda.is_available() else values

class BlackHoleImaging:
    """Each pair of telescopes measures one frequency of the image."""

    def __init__(self, size, baselines, device):
        self.size, self.device = size, device
        steps = torch.linspace(-0.5, 0.5, size, device=device)
        self.grid = torch.cartesian_prod(steps, steps)
        self.baselines = on_gpu(torch.tensor(baselines))

    def forward(self, images):
        phase = self.grid @ self.baselines.T
        waves = torch.polar(torch.ones_like(phase), -2 * torch.pi * phase)
        visibilities = images.flatten(1).to(waves.dtype) @ waves
        return torch.cat([visibilities.abs(), visibilities.angle()], dim=1)

    def misfit(self, images, measured):
        return (self.forward(images) - measured).square().mean()
# --- solve.py
import torch

def reconstruct(problem, measured, steps, lr):
    image = torch.full((len(measured), problem.size, problem.size), 0.2, device=problem.device).requires_grad_()
    optimizer, losses = torch.optim.Adam([image], lr=lr), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = problem.misfit(image.clamp(min=0), measured)
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 3))
    return image.detach().clamp(min=0), losses

# === default_boxes_of_each_grid
# thread: https://github.com/tenstorrent/tt-forge-models/pull/486
# about: a detector has boxes of some shapes at each point of its grids. Shapes are at hand in a list and taken to where images are; the points are counted anew for each image
# operation: cat on cpu, cuda:0
# operands: shifts|tensors.*|.*wh_pairs.*
# category: created-without-device
# line: boxes.py: default_boxes = self.grid_default_boxes(
# line: boxes.py: shifts = torch.cartesian_prod(
# line: boxes.py: steps_y, steps_x = torch.arange(rows), torch.arange(columns)
# line: boxes.py: default_box = torch.cat(
# repair: boxes.py: steps_y, steps_x = torch.arange(rows), torch.arange(columns) -> steps_y, steps_x = torch.arange(rows, device=wh_pairs.device), torch.arange(columns, device=wh_pairs.device)
import torch

from boxes import DefaultBoxGenerator
from ssd import TinySSD

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = TinySSD(classes=3, boxes=DefaultBoxGenerator(scales=[0.2, 0.5], ratios=[1.0, 2.0])).to(device).eval()
image = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(9))
with torch.no_grad():
    boxes, scores = model(image.to(device))
best = scores[..., 1:].amax(-1)[0].topk(3).indices
print("boxes", boxes.shape[1], "best", [[round(value, 3) for value in boxes[0, at].tolist()] for at in best])
# --- boxes.py
import torch

class DefaultBoxGenerator:
    """Boxes of each scale and ratio, as shares of the image."""

    def __init__(self, scales, ratios):
        self.wh_pairs = [torch.tensor([[scale * ratio**0.5, scale / ratio**0.5] for ratio in ratios]) for scale in scales]

    def per_point(self):
        return [len(pairs) for pairs in self.wh_pairs]

    def grid_default_boxes(self, grid_sizes, pairs):
        boxes = []
        for (rows, columns), wh_pairs in zip(grid_sizes, pairs):
            steps_y, steps_x = torch.arange(rows), torch.arange(columns)
            shifts = torch.cartesian_prod((steps_y + 0.5) / rows, (steps_x + 0.5) / columns).flip(1)
            shifts = shifts.repeat_interleave(len(wh_pairs), dim=0)
            default_box = torch.cat((shifts, wh_pairs.repeat(rows * columns, 1)), dim=1)
            boxes.append(default_box)
        return torch.cat(boxes)

    def __call__(self, images, features):
        grid_sizes = [feature.shape[-2:] for feature in features]
        pairs = [each.to(images.device) for each in self.wh_pairs]
        default_boxes = self.grid_default_boxes(grid_sizes, pairs)
        return default_boxes[None].expand(len(images), -1, -1)
# --- ssd.py
import torch
from torch import nn

class TinySSD(nn.Module):
    def __init__(self, classes, boxes):
        super().__init__()
        self.boxes, self.classes = boxes, classes
        self.stem, self.down = nn.Conv2d(3, 8, 4, stride=4), nn.Conv2d(8, 8, 2, stride=2)
        self.heads = nn.ModuleList(nn.Conv2d(8, count * (4 + classes), 1) for count in boxes.per_point())

    def forward(self, images):
        fine = self.stem(images).relu()
        features = [fine, self.down(fine).relu()]
        found = [head(feature).permute(0, 2, 3, 1).reshape(len(images), -1, 4 + self.classes) for head, feature in zip(self.heads, features)]
        found, default = torch.cat(found, dim=1), self.boxes(images, features)
        centres = default[..., :2] + 0.1 * found[..., :2] * default[..., 2:]
        sizes = default[..., 2:] * (0.2 * found[..., 2:4]).exp()
        return torch.cat([centres - sizes / 2, centres + sizes / 2], dim=-1), found[..., 4:].softmax(-1)

# === positions_of_the_evaluation_size
# thread: https://github.com/RT-DETRs/RT-DETRv4/issues/36
# about: images have many sizes in training and one in evaluation. For that one positions are made at once, by the encoder's constructor
# operation: add on cuda:0, cpu
# operands: pos_embed|other|.*pos_embed.*
# category: state-not-registered|cached-state
# line: encoder.py: return tensor if pos_embed is None else tensor + pos_embed
# line: encoder.py: setattr(self, f"pos_embed{level}"
# line: encoder.py: pos_embed = getattr(self, f"pos_embed{level}")
# repair: encoder.py: setattr(self, f"pos_embed{level}", sincos(height // stride, width // stride, dim)) -> self.register_buffer(f"pos_embed{level}", sincos(height // stride, width // stride, dim), persistent=False)
import torch

from detector import TinyDetector
from loop import train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = TinyDetector(dim=8, classes=3, eval_size=(16, 16)).to(device)
generator = torch.Generator().manual_seed(1)
batches = [(torch.rand(2, 3, size, size, generator=generator), torch.tensor([0, 2])) for size in (8, 24)]
losses = train(model, batches, device, lr=0.01)
model.eval()
with torch.no_grad():
    logits = model(torch.rand(1, 3, 16, 16, generator=generator).to(device))
print("losses", losses, "logits", [round(value, 4) for value in logits[0].tolist()])
# --- positions.py
import torch

def sincos(height, width, dim, device=None):
    """Where a patch is, as waves: a row each."""
    rows, columns = torch.meshgrid(torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij")
    rates = 100.0 ** -torch.linspace(0, 1, dim // 4, device=device)
    waves = [axis.flatten()[:, None] * rates for axis in (rows, columns)]
    return torch.cat([wave for angle in waves for wave in (angle.sin(), angle.cos())], dim=1)[None]
# --- encoder.py
from torch import nn

from positions import sincos

class HybridEncoder(nn.Module):
    def __init__(self, dim, strides, eval_size):
        super().__init__()
        self.strides, self.eval_size = strides, eval_size
        self.layers = nn.ModuleList(nn.MultiheadAttention(dim, 2, batch_first=True) for _ in strides)
        height, width = eval_size
        for level, stride in enumerate(strides):
            setattr(self, f"pos_embed{level}", sincos(height // stride, width // stride, dim))

    @staticmethod
    def with_pos_embed(tensor, pos_embed):
        return tensor if pos_embed is None else tensor + pos_embed

    def forward(self, features):
        results = []
        for level, feature in enumerate(features):
            height, width = feature.shape[-2:]
            tokens = feature.flatten(2).transpose(1, 2)
            if self.training:
                pos_embed = sincos(height, width, tokens.shape[-1], tokens.device)
            else:
                pos_embed = getattr(self, f"pos_embed{level}")
            q = k = self.with_pos_embed(tokens, pos_embed)
            results.append(tokens + self.layers[level](q, k, tokens, need_weights=False)[0])
        return results
# --- detector.py
import torch
from torch import nn

from encoder import HybridEncoder

class TinyDetector(nn.Module):
    def __init__(self, dim, classes, eval_size):
        super().__init__()
        self.backbone = nn.ModuleList(nn.Conv2d(3, dim, stride, stride=stride) for stride in (4, 8))
        self.encoder, self.head = HybridEncoder(dim, (4, 8), eval_size), nn.Linear(dim, classes)

    def forward(self, images):
        levels = self.encoder([stage(images) for stage in self.backbone])
        return self.head(torch.cat(levels, dim=1).mean(1))
# --- loop.py
import torch
from torch import nn

def train(model, batches, device, lr):
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=lr), []
    for images, labels in batches:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === table_of_a_resampler
# thread: https://github.com/ROCm/vllm/pull/977
# about: patches of an image of any size become few tokens. A table of positions is made anew for images that are larger than it, where they are. A loader fills the weights in
# operation: add on cuda:0, cpu
# operands: pos_embed|other|.*pos_embed.*
# category: module-split|cached-state|created-without-device|state-not-registered
# line: resampler.py: pos_embed = self.pos_embed[:height, :width].reshape(
# line: resampler.py: self.set_pos_cache(max_size
# line: resampler.py: keys = x + pos_embed
# line: resampler.py: if height > self.max_size[0] or width > self.max_size[1]:
# line: loader.py: for name, parameter in model.named_parameters():
# line: main.py: load_weights(model, weights, device)
# repair: resampler.py: pos_embed = self.pos_embed[:height, :width].reshape(height * width, -1).to(x.dtype) -> pos_embed = self.pos_embed[:height, :width].reshape(height * width, -1).to(x)
import torch

from checkpoint import weights_of
from loader import load_weights
from resampler import Resampler

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Resampler(queries=3, dim=8, max_size=(6, 6))
weights = weights_of(model, seed=4)
load_weights(model, weights, device)
generator = torch.Generator().manual_seed(2)
images = {"wide": (2, 9), "small": (3, 4)}
with torch.no_grad():
    for name, (height, width) in sorted(images.items()):
        patches = torch.randn(1, height * width, 8, generator=generator)
        images[name] = model(patches.to(device), height, width)
print("tokens", {name: [round(value, 3) for value in tokens[0, 0, :4].tolist()] for name, tokens in images.items()})
# --- checkpoint.py
import torch

def weights_of(model, seed):
    generator = torch.Generator().manual_seed(seed)
    return {name: 0.3 * torch.randn(each.shape, generator=generator) for name, each in model.state_dict().items()}
# --- loader.py
import torch

@torch.no_grad()
def load_weights(model, weights, device):
    for name, parameter in model.named_parameters():
        parameter.data = weights[name].to(device)
    model.eval()
# --- resampler.py
import torch
from torch import nn

def table(size, dim, device):
    height, width = size
    rates = 50.0 ** -torch.linspace(0, 1, dim // 4, device=device)
    down = (torch.arange(height, device=device)[:, None] * rates)[:, None].expand(-1, width, -1)
    across = (torch.arange(width, device=device)[:, None] * rates)[None].expand(height, -1, -1)
    return torch.cat([down.sin(), down.cos(), across.sin(), across.cos()], dim=-1)

class Resampler(nn.Module):
    def __init__(self, queries, dim, max_size):
        super().__init__()
        self.query = nn.Parameter(torch.empty(queries, dim))
        self.kv, self.proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.set_pos_cache(max_size)

    def set_pos_cache(self, max_size, device="cpu"):
        self.max_size = max_size
        self.register_buffer("pos_embed", table(max_size, self.query.shape[1], device), persistent=False)

    def adjust_pos_cache(self, height, width, device):
        if height > self.max_size[0] or width > self.max_size[1]:
            self.set_pos_cache((max(height, self.max_size[0]), max(width, self.max_size[1])), device)

    def forward(self, x, height, width):
        self.adjust_pos_cache(height, width, x.device)
        x = self.kv(x)
        pos_embed = self.pos_embed[:height, :width].reshape(height * width, -1).to(x.dtype)
        keys = x + pos_embed
        attended = nn.functional.scaled_dot_product_attention(self.query.expand(len(x), -1, -1), keys, x)
        return self.proj(attended)

# === columns_in_torchs_format
# thread: https://github.com/huggingface/datasets/issues/7958
# about: a table of examples is told to hand out tensors, and of which device. Numbers and lists of them are cells of it, and since a release arrays, too
# operation: addmm|linear|mm on cpu, cuda:0
# operands: .*input.*|mat1|.*batch.*
# category: input-not-moved|created-without-device
# line: formatting.py: return torch.from_numpy(cell)
# line: main.py: loss = model.loss(
# repair: formatting.py: return torch.from_numpy(cell) -> return torch.from_numpy(cell).to(self.kwargs.get("device"))
import torch

from classifier import Classifier
from table import Table

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
table = Table.of_waves(rows=12, length=5)
table.set_format("torch", columns=["input", "labels"], device=device)
model = Classifier(length=5, classes=3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
losses = []
for start in range(0, len(table), 4):
    batch = table[start : start + 4]
    loss = model.loss(batch["input"], batch["labels"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- table.py
import numpy as np

from formatting import TorchFormatter

class Table:
    def __init__(self, columns):
        self.columns, self.shown, self.formatter = columns, list(columns), None

    @classmethod
    def of_waves(cls, rows, length):
        kinds = np.arange(rows) % 3
        waves = np.sin(np.outer(kinds + 1, np.linspace(0, 2, length))).astype(np.float32)
        return cls({"name": [f"wave {row}" for row in range(rows)], "input": waves, "labels": kinds.tolist()})

    def set_format(self, kind, columns, **kwargs):
        if kind != "torch":
            raise ValueError(f"format {kind} is not known")
        self.shown, self.formatter = columns, TorchFormatter(**kwargs)

    def __len__(self):
        return len(self.columns["labels"])

    def __getitem__(self, rows):
        cells = {name: self.columns[name][rows] for name in self.shown}
        return {name: self.formatter.tensorize(cell) for name, cell in cells.items()} if self.formatter else cells
# --- formatting.py
import numpy as np
import torch

class TorchFormatter:
    """Makes tensors of cells; what is said of them is said to torch.tensor."""

    def __init__(self, **kwargs):
        self.kwargs = kwargs

    def tensorize(self, cell):
        if isinstance(cell, str):
            return cell
        if isinstance(cell, np.ndarray):
            return torch.from_numpy(cell)
        return torch.tensor(cell, **self.kwargs)
# --- classifier.py
from torch import nn

class Classifier(nn.Module):
    def __init__(self, length, classes):
        super().__init__()
        self.inner, self.outer = nn.Linear(length, 8), nn.Linear(8, classes)

    def forward(self, waves):
        hidden = self.inner(waves).relu()
        return self.outer(hidden)

    def loss(self, waves, labels):
        return nn.functional.cross_entropy(self(waves), labels)

# === device_of_one_epoch
# thread: https://github.com/huggingface/pytorch-image-models/issues/2488
# about: a script of training says by an argument on which device it runs. Its function for an epoch has a device among its many arguments, and its function for validation has one
# operation: .*conv.* on cuda:0, cuda:1
# operands: input|images|self
# error: Input type|on the same device|same device
# category: default-or-current-device|input-not-moved
# line: train.py: losses.append(train_one_epoch(
# line: epoch.py: def train_one_epoch(
# line: epoch.py: images, labels = images.to(device), labels.to(device)
# repair: train.py: losses.append(train_one_epoch(epoch, model, loader, optimizer, loss_fn, log_every=2)) -> losses.append(train_one_epoch(epoch, model, loader, optimizer, loss_fn, log_every=2, device=device))
import torch

from train import main

print(main(["--device", "cuda:1" if torch.cuda.is_available() else "cpu", "--epochs", "2"]))
# --- train.py
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from epoch import train_one_epoch, validate
from shapes import Shapes

def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args(arguments)
    device = torch.device(args.device)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 2)).to(device)
    optimizer, loss_fn = torch.optim.SGD(model.parameters(), lr=0.3), nn.CrossEntropyLoss().to(device)
    loader, losses = DataLoader(Shapes(12), batch_size=4), []
    for epoch in range(args.epochs):
        losses.append(train_one_epoch(epoch, model, loader, optimizer, loss_fn, log_every=2))
    return {"losses": losses, "top1": validate(model, loader, device=device)}
# --- shapes.py
import torch
from torch.utils.data import Dataset

class Shapes(Dataset):
    """Lines that stand and lines that lie."""

    def __init__(self, count):
        self.images, self.labels = torch.zeros(count, 1, 7, 7), torch.arange(count) % 2
        for index, label in enumerate(self.labels.tolist()):
            line = self.images[index, 0]
            (line.T if label else line)[1 + index % 5] = 1.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]
# --- epoch.py
import torch

DEFAULT = torch.device("cuda" if torch.cuda.is_available() else "cpu")

def train_one_epoch(epoch, model, loader, optimizer, loss_fn, device=DEFAULT, lr_scheduler=None, log_every=50, model_ema=None):
    model.train()
    total = 0.0
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        loss = loss_fn(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        if lr_scheduler is not None:
            lr_scheduler.step()
        if step % log_every == 0:
            print(f"train {epoch} {step}: {loss.item():.3f}")
    return round(total / len(loader), 4)

@torch.no_grad()
def validate(model, loader, device=DEFAULT):
    model.eval()
    right = sum((model(images.to(device)).argmax(1) == labels.to(device)).sum().item() for images, labels in loader)
    return round(100 * right / len(loader.dataset), 1)

# === selection_beside_the_factors
# thread: https://github.com/wmyw96/FAST-NN/issues/1
# about: of many variables a network sees few factors, by a projection that is not learned. For what factors leave out it selects some variables by weights of its own
# operation: mm|matmul|addmm on cuda:0, cpu
# operands: .*rs_mat.*|mat2|other
# category: state-not-registered
# line: fast.py: self.rs_mat = torch.tensor(
# line: fast.py: factors_part = x @ self.rs_mat
# repair: fast.py: self.rs_mat = torch.tensor(rs_mat, dtype=torch.float32) -> self.register_buffer("rs_mat", torch.tensor(rs_mat, dtype=torch.float32))
import torch

from data import factor_model
from fast import FactorAugmentedNetwork
from fit import fit

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x, y, dp_mat, rs_mat = factor_model(samples=40, variables=12, factors=2, seed=3)
model = FactorAugmentedNetwork(variables=12, factors=2, width=8, dp_mat=dp_mat, rs_mat=rs_mat).to(device)
losses = fit(model, x.to(device), y.to(device), epochs=6, lr=0.02, penalty=0.01)
print("losses", losses)
# --- data.py
import numpy as np
import torch

def factor_model(samples, variables, factors, seed):
    """Variables that are driven by few factors; what is asked for hangs on these and on two of the variables."""
    rng = np.random.default_rng(seed)
    loadings, hidden = rng.normal(size=(variables, factors)), rng.normal(size=(samples, factors))
    own = 0.3 * rng.normal(size=(samples, variables))
    x = hidden @ loadings.T + own
    y = hidden[:, 0] * hidden[:, 1] + own[:, 0] - own[:, 5]
    _, _, right = np.linalg.svd(x, full_matrices=False)
    dp_mat = np.abs(right[:factors]) / np.sqrt(variables)
    rs_mat = np.linalg.lstsq(x @ dp_mat.T, x, rcond=None)[0]
    tensors = [torch.tensor(part, dtype=torch.float32) for part in (x, y[:, None])]
    return *tensors, dp_mat, dp_mat.T @ rs_mat
# --- fast.py
import torch
from torch import nn

class FactorAugmentedNetwork(nn.Module):
    def __init__(self, variables, factors, width, dp_mat, rs_mat):
        super().__init__()
        self.diversified_projection = nn.Linear(variables, factors, bias=False)
        self.diversified_projection.weight = nn.Parameter(torch.tensor(dp_mat, dtype=torch.float32), requires_grad=False)
        self.rs_mat = torch.tensor(rs_mat, dtype=torch.float32)
        self.variable_selection = nn.Linear(variables, width, bias=False)
        self.net = nn.Sequential(nn.Linear(factors + width, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        factors = self.diversified_projection(x)
        factors_part = x @ self.rs_mat
        selected = self.variable_selection(x - factors_part)
        return self.net(torch.cat((factors, selected), dim=-1))

    def selection_loss(self, tau=0.05):
        return (self.variable_selection.weight.abs() / tau).clamp(max=1).sum()
# --- fit.py
import torch
from torch import nn

def fit(model, x, y, epochs, lr, penalty):
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer, losses = torch.optim.Adam(trained, lr=lr), []
    for _ in range(epochs):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        (loss + penalty * model.selection_loss()).backward()
        optimizer.step()
        losses.append(round(loss.item(), 3))
    return losses

# === spectrum_of_each_replica
# thread: https://github.com/WenjieDu/PyPOTS/issues/632
# about: models of a library know their device and work there; given several devices, the library has them run on all of them at once. One forecasts by frequencies and leaves high ones empty
# operation: cat on cuda:1, cuda:0
# operands: empty|tensors.*
# category: data-parallel|created-without-device
# line: fits.py: empty = torch.zeros(
# line: fits.py: spectrum = torch.cat([low, empty]
# repair: fits.py: empty = torch.zeros(*low.shape[:-1], self.length // 2 + 1 - low.shape[-1], dtype=low.dtype, device=self.device) -> empty = torch.zeros(*low.shape[:-1], self.length // 2 + 1 - low.shape[-1], dtype=low.dtype, device=low.device)
import torch

from forecaster import Forecaster
from fits import SpectrumBackbone

torch.manual_seed(0)
devices = ["cuda:0", "cuda:1"] if torch.cuda.is_available() else ["cpu"]
time = torch.arange(40) / 4
series = torch.stack([(time * rate).sin() for rate in (0.5, 1.0, 1.5, 2.0)])
forecaster = Forecaster(lambda device: SpectrumBackbone(steps=16, horizon=8, kept=4, device=device), devices)
losses = forecaster.fit(series[:, :16], series[:, :24], epochs=5, lr=0.05)
print("losses", losses)
# --- forecaster.py
import torch
from torch import nn

class Forecaster:
    def __init__(self, build, devices):
        self.devices = [torch.device(each) for each in devices]
        self.device = self.devices[0]
        self.model = build(self.device).to(self.device)
        if len(self.devices) > 1:
            self.model = nn.DataParallel(self.model, device_ids=self.devices, output_device=self.device)

    def fit(self, past, whole, epochs, lr):
        optimizer, losses = torch.optim.Adam(self.model.parameters(), lr=lr), []
        past, whole = past.to(self.device), whole.to(self.device)
        for _ in range(epochs):
            loss = nn.functional.mse_loss(self.model(past), whole)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 4))
        return losses
# --- fits.py
import torch
from torch import nn

class SpectrumBackbone(nn.Module):
    """Takes low frequencies of the past to those of past and future together."""

    def __init__(self, steps, horizon, kept, device):
        super().__init__()
        self.length, self.kept, self.device = steps + horizon, kept, device
        self.real, self.imag = nn.Linear(kept, kept), nn.Linear(kept, kept)

    def forward(self, past):
        mean = past.mean(1, keepdim=True)
        spectrum = torch.fft.rfft(past - mean)[:, : self.kept]
        real = self.real(spectrum.real) - self.imag(spectrum.imag)
        imag = self.real(spectrum.imag) + self.imag(spectrum.real)
        low = torch.stack([real, imag], dim=1)
        empty = torch.zeros(*low.shape[:-1], self.length // 2 + 1 - low.shape[-1], dtype=low.dtype, device=self.device)
        spectrum = torch.cat([low, empty], dim=-1)
        return torch.fft.irfft(torch.complex(spectrum[:, 0], spectrum[:, 1]), n=self.length) + mean

# === classifier_built_on_a_language_model
# thread: https://github.com/babylm/evaluation-pipeline-2025/pull/7
# about: models are judged by what they learn of a task. A trainer has a device, takes the batches there, and builds a classifier around the language model that it reads from a file
# operation: embedding|index_select on cpu, cuda:0
# operands: .*weight|input|ids|.*ids.*|index|indices
# category: module-split|input-not-moved
# line: trainer.py: self.model = Classifier(
# line: trainer.py: self.load(
# repair: trainer.py: self.model = Classifier(encoder, dim=8, labels=2) -> self.model = Classifier(encoder, dim=8, labels=2).to(self.device)
import tempfile
from pathlib import Path

import torch

from models import Encoder
from task import acceptability
from trainer import Trainer

torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "encoder.pt"
    torch.save(Encoder(words=12, dim=8).state_dict(), file)
    trainer = Trainer(file, words=12, lr=0.1)
results = [trainer.epoch(acceptability(seed)) for seed in (1, 2, 3)]
print("losses", results, "accuracy", trainer.accuracy(acceptability(4)))
# --- models.py
import torch
from torch import nn

class Encoder(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.embed, self.mix = nn.Embedding(words, dim), nn.GRU(dim, dim, batch_first=True)

    def forward(self, ids):
        return self.mix(self.embed(ids))[0]

class Classifier(nn.Module):
    def __init__(self, encoder, dim, labels):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(dim, labels)

    def forward(self, ids):
        return self.head(self.encoder(ids)[:, -1])
# --- task.py
import torch

def acceptability(seed, count=8):
    """Sentences, in batches; those that end with a word of a certain kind are right."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(12, (2, count, 5), generator=generator)
    return list(zip(ids, (ids[..., -1] % 2)))
# --- trainer.py
import torch
from torch import nn

from models import Classifier, Encoder

class Trainer:
    def __init__(self, file, words, lr):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.load(file, words)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)

    def load(self, file, words):
        encoder = Encoder(words, dim=8)
        encoder.load_state_dict(torch.load(file, map_location="cpu"))
        self.model = Classifier(encoder, dim=8, labels=2)

    def epoch(self, batches):
        total = 0.0
        for ids, labels in batches:
            ids, labels = ids.to(self.device), labels.to(self.device)
            loss = nn.functional.cross_entropy(self.model(ids), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return round(total / len(batches), 4)

    @torch.no_grad()
    def accuracy(self, batches):
        right = [(self.model(ids.to(self.device)).argmax(1) == labels.to(self.device)).float().mean().item() for ids, labels in batches]
        return round(sum(right) / len(right), 3)

# === angles_of_the_second_gpu
# thread: https://github.com/open-compass/VLMEvalKit/issues/793
# about: a model that sees images is spread over two GPUs to be judged. In each of its layers words are turned by angles of three positions: in time, in height, in width
# operation: bmm|matmul|mm on cuda:1, cuda:0
# operands: .*position.*|mat2|other
# category: module-split|input-not-moved
# line: model.py: hidden = layer(hidden.to(layer.device), position_ids)
# line: rotary.py: angles = (self.inv_freq[None, None, :, None].expand(3, -1, -1, 1) @ position_ids
# repair: model.py: hidden = layer(hidden.to(layer.device), position_ids) -> hidden = layer(hidden.to(layer.device), position_ids.to(layer.device))
import torch

from model import TinyVisionLanguageModel, split_model
from rotary import grid_positions

torch.manual_seed(0)
devices = ["cuda:0", "cuda:1"] if torch.cuda.is_available() else ["cpu", "cpu"]
model = split_model(TinyVisionLanguageModel(words=16, dim=12, layers=4), devices)
ids = torch.tensor([[1, 7, 7, 7, 7, 3, 5]], device=devices[0])
position_ids = grid_positions(before=1, grid=(2, 2), after=2, device=devices[0])
with torch.no_grad():
    logits = model(ids, position_ids)
print("logits", [round(value, 3) for value in logits[0, -1, :6].tolist()])
# --- rotary.py
import torch
from torch import nn

def grid_positions(before, grid, after, device):
    """Of each word three positions; those of an image's patches differ by row and by column."""
    rows, columns = torch.meshgrid(*(torch.arange(size, device=device) for size in grid), indexing="ij")
    patches = torch.stack([torch.zeros_like(rows), rows, columns]).flatten(1) + before
    words = [torch.arange(count, device=device) + first for count, first in ((before, 0), (after, before + max(grid)))]
    return torch.cat([words[0].expand(3, -1), patches, words[1].expand(3, -1)], dim=1)[:, None]

class Rotary(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("inv_freq", 100.0 ** -torch.linspace(0, 1, dim // 2), persistent=False)

    def forward(self, x, position_ids):
        angles = (self.inv_freq[None, None, :, None].expand(3, -1, -1, 1) @ position_ids[:, :, None].float()).transpose(2, 3)
        angles = torch.cat([part[kind] for kind, part in enumerate(angles.chunk(3, dim=-1))], dim=-1)
        even, odd = x.chunk(2, dim=-1)
        return torch.cat([even * angles.cos() - odd * angles.sin(), odd * angles.cos() + even * angles.sin()], dim=-1)
# --- model.py
from torch import nn

from rotary import Rotary

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.rotary, self.qkv, self.out = Rotary(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    @property
    def device(self):
        return self.qkv.weight.device

    def forward(self, hidden, position_ids):
        q, k, v = self.qkv(hidden).chunk(3, dim=-1)
        q, k = self.rotary(q, position_ids), self.rotary(k, position_ids)
        return hidden + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))

class TinyVisionLanguageModel(nn.Module):
    def __init__(self, words, dim, layers):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, dim), nn.Linear(dim, words)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(layers))

    def forward(self, ids, position_ids):
        hidden = self.embed(ids)
        for layer in self.layers:
            hidden = layer(hidden.to(layer.device), position_ids)
        return self.head(hidden.to(self.head.weight.device))

def split_model(model, devices):
    """Layers evenly; words in and words out on the first."""
    model.embed.to(devices[0])
    model.head.to(devices[0])
    for index, layer in enumerate(model.layers):
        layer.to(devices[index * len(devices) // len(model.layers)])
    return model

# === slots_of_a_sliding_window
# thread: https://github.com/huggingface/transformers/issues/39730
# about: a cache keeps the last words of each layer and pushes the oldest out. A layer's part is made when it is first written to, on that layer's GPU
# operation: add|remainder|sub on cuda:1, cuda:0
# operands: .*cache_position.*|shift|over|other
# category: module-split|input-not-moved|cached-state
# line: cache.py: shift = (cache_position
# line: cache.py: slots = (torch.arange(self.window, device=self.keys.device) + shift
# line: model.py: k, v = cache.update(
# line: model.py: hidden = layer(hidden, cache.layers[index], cache_position)
# repair: cache.py: slots = (torch.arange(self.window, device=self.keys.device) + shift[-1:]) % self.window -> slots = (torch.arange(self.window, device=self.keys.device) + shift[-1:].to(self.keys.device)) % self.window
import torch

from generate import greedy
from model import TinyModel

torch.manual_seed(0)
devices = ["cuda:0", "cuda:1"] if torch.cuda.is_available() else ["cpu", "cpu"]
model = TinyModel(words=24, dim=8, devices=devices)
prompt = torch.tensor([[3, 14, 15]], device=devices[0])
print("words", greedy(model, prompt, window=4, new=5)[0].tolist())
# --- cache.py
import torch

class SlidingWindowLayer:
    """Keys and values of the last `window` words, oldest first."""

    def __init__(self, window):
        self.window, self.keys, self.values = window, None, None

    def lazy_initialization(self, keys):
        shape = (len(keys), self.window, keys.shape[-1])
        self.keys, self.values = torch.zeros(2, *shape, dtype=keys.dtype, device=keys.device)

    def update(self, keys, values, cache_position):
        if self.keys is None:
            self.lazy_initialization(keys)
        shift = (cache_position >= self.window).long()
        slots = (torch.arange(self.window, device=self.keys.device) + shift[-1:]) % self.window
        self.keys, self.values = self.keys[:, slots], self.values[:, slots]
        at = cache_position.clamp(max=self.window - 1).to(self.keys.device)
        self.keys[:, at], self.values[:, at] = keys, values
        return self.keys, self.values

class SlidingWindowCache:
    def __init__(self, layers, window):
        self.window = window
        self.layers = [SlidingWindowLayer(window) for _ in range(layers)]
# --- model.py
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, hidden, cache, cache_position):
        q, k, v = self.qkv(hidden).chunk(3, dim=-1)
        k, v = cache.update(k, v, cache_position)
        filled = torch.arange(cache.window, device=q.device) <= cache_position.max().to(q.device)
        return hidden + self.out(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=filled[None]))

class TinyModel(nn.Module):
    def __init__(self, words, dim, devices):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, dim).to(devices[0]), nn.Linear(dim, words).to(devices[1])
        self.layers = nn.ModuleList(Layer(dim).to(device) for device in devices)

    def forward(self, ids, cache, cache_position):
        hidden = self.embed(ids)
        for index, layer in enumerate(self.layers):
            hidden = hidden.to(layer.out.weight.device)
            hidden = layer(hidden, cache.layers[index], cache_position)
        return self.head(hidden)
# --- generate.py
import torch

from cache import SlidingWindowCache

@torch.no_grad()
def greedy(model, ids, window, new):
    """One word at a time, those of the prompt too."""
    cache, length = SlidingWindowCache(len(model.layers), window), ids.shape[1]
    for at in range(length + new - 1):
        cache_position = torch.arange(at, at + 1, device=ids.device)
        logits = model(ids[:, at : at + 1], cache, cache_position)
        if at + 1 >= length:
            ids = torch.cat([ids, logits.argmax(-1).to(ids.device)], dim=1)
    return ids

# === positions_of_packed_texts
# thread: https://github.com/huggingface/transformers/pull/43369
# about: short texts are packed behind each other into one row, and the packing counts anew for each of them. A loop takes words and labels to the GPU
# operation: bmm|matmul|mm on cuda:0, cpu
# operands: .*position_ids.*|mat2|other
# category: input-not-moved|input
# line: rotary.py: position_ids_expanded = position_ids[:, None, :].float()
# line: rotary.py: angles = (inv_freq_expanded @ position_ids_expanded
# line: loop.py: logits = model(batch["input_ids"].to(device)
# line: model.py: cos, sin = self.rotary(
# repair: loop.py: logits = model(batch["input_ids"].to(device), batch["position_ids"]) -> logits = model(batch["input_ids"].to(device), batch["position_ids"].to(device))
import torch

from loop import train
from model import TinyLlama
from packing import pack

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = TinyLlama(words=11, dim=8).to(device)
texts = [[1, 4, 2], [5, 6, 7, 8], [2, 1], [9, 3, 10, 0, 4]]
print("losses", train(model, [pack(texts[:2]), pack(texts[2:])], device, epochs=3))
# --- packing.py
import torch

def pack(texts):
    """A row of all texts; no first word is foretold from another text."""
    labels = [word if at else -100 for text in texts for at, word in enumerate(text)]
    return {
        "input_ids": torch.tensor([sum(texts, [])]),
        "labels": torch.tensor([labels]),
        "position_ids": torch.cat([torch.arange(len(text)) for text in texts])[None],
    }
# --- rotary.py
import torch
from torch import nn

class RotaryEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("inv_freq", 1000.0 ** -torch.linspace(0, 1, dim // 2), persistent=False)

    @torch.no_grad()
    def forward(self, x, position_ids):
        inv_freq_expanded = self.inv_freq[None, :, None].float().expand(len(x), -1, 1).to(x.device)
        position_ids_expanded = position_ids[:, None, :].float()
        angles = (inv_freq_expanded @ position_ids_expanded).transpose(1, 2)
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

def rotated(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin
# --- model.py
from torch import nn

from rotary import RotaryEmbedding, rotated

class TinyLlama(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.embed, self.rotary = nn.Embedding(words, dim), RotaryEmbedding(dim)
        self.qkv, self.head = nn.Linear(dim, 3 * dim), nn.Linear(dim, words)

    def forward(self, input_ids, position_ids):
        hidden = self.embed(input_ids)
        cos, sin = self.rotary(hidden, position_ids)
        q, k, v = self.qkv(hidden).chunk(3, dim=-1)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        return self.head(hidden + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
# --- loop.py
import torch
from torch import nn

def train(model, batches, device, epochs, lr=0.05):
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=lr), []
    for _ in range(epochs):
        for batch in batches:
            logits = model(batch["input_ids"].to(device), batch["position_ids"])
            labels = batch["labels"].to(device)
            loss = nn.functional.cross_entropy(logits[0, :-1], labels[0, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 4))
    return losses

# === valid_part_of_each_prompt
# thread: https://github.com/HabanaAI/vllm-fork/pull/1947
# about: prompts of a batch are filled up to the same length. An engine takes what it has read of them to the accelerator, their lengths as well; a runner masks what is not theirs
# operation: lt|le|ge|gt on cpu, cuda:0
# operands: positions|self|.*steps.*
# category: created-without-device
# line: runner.py: positions = torch.arange(
# line: runner.py: return positions[None] < valid_len[:, None]
# repair: runner.py: positions = torch.arange(length) -> positions = torch.arange(length, device=valid_len.device)
import torch

from engine import Engine
from pooler import Pooler
from runner import Runner

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
engine = Engine(Runner(Pooler(words=20, dim=6).to(device)), device, bucket=4)
vectors = engine.embed([[4, 9, 12], [7, 1, 3, 3, 18], [2]])
print("vectors", [[round(value, 4) for value in vector[:3]] for vector in vectors])
# --- engine.py
import torch

class Engine:
    def __init__(self, runner, device, bucket):
        self.runner, self.device, self.bucket = runner, device, bucket

    def padded(self, prompts):
        longest = max(len(prompt) for prompt in prompts)
        length = -(-longest // self.bucket) * self.bucket
        return torch.tensor([prompt + [0] * (length - len(prompt)) for prompt in prompts])

    def embed(self, prompts):
        ids = self.padded(prompts).to(self.device)
        valid_len = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        return self.runner.execute(ids, valid_len).tolist()
# --- runner.py
import torch

class Runner:
    def __init__(self, model):
        self.model = model

    def valid_mask(self, length, valid_len):
        positions = torch.arange(length)
        return positions[None] < valid_len[:, None]

    @torch.no_grad()
    def execute(self, ids, valid_len):
        mask = self.valid_mask(ids.shape[1], valid_len)
        return self.model(ids, mask)
# --- pooler.py
from torch import nn

class Pooler(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.embed, self.attention = nn.Embedding(words, dim), nn.MultiheadAttention(dim, 2, batch_first=True)

    def forward(self, ids, mask):
        hidden = self.embed(ids)
        hidden = hidden + self.attention(hidden, hidden, hidden, key_padding_mask=~mask, need_weights=False)[0]
        return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

# === samples_from_cached_texts
# thread: https://github.com/kijai/ComfyUI-FluxTrainer/issues/116
# about: an adapter for images is trained. Texts are encoded once, so that their encoder need not be on the GPU; now and then images are made, to be looked at
# operation: addmm|linear|mm on cpu, cuda:0
# operands: .*text.*|mat1|input|.*cached.*|condition
# category: cached-state|input-not-moved
# line: sample.py: condition = cache[prompt]
# line: sample.py: moved = model(
# line: caching.py: cache[text] = encoder(
# repair: sample.py: condition = cache[prompt] -> condition = cache[prompt].to(latents.device)
import torch

from caching import TextEncoder, cache_texts
from model import TinyFlux
from sample import sample
from train import train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
encoder = TextEncoder(dim=6)
cache = cache_texts(encoder, ["a red fox", "an old house", "a fox"], device)
model = TinyFlux(latent=4, text=6, width=8).to(device)
losses = train(model, cache, ["a red fox", "an old house"], device, steps=4)
image = sample(model, cache, "a fox", device, steps=3, seed=7)
print("losses", losses, "image", [round(value, 4) for value in image[0].tolist()])
# --- caching.py
import torch
from torch import nn

class TextEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embed = nn.Embedding(128, dim)

    def forward(self, text):
        codes = torch.tensor([[ord(letter) % 128 for letter in text]], device=self.embed.weight.device)
        return self.embed(codes).mean(1)

@torch.no_grad()
def cache_texts(encoder, texts, device):
    encoder.to(device)
    cache = {}
    for text in texts:
        cache[text] = encoder(text).cpu()
    encoder.to("cpu")
    return cache
# --- model.py
from torch import nn

class TinyFlux(nn.Module):
    def __init__(self, latent, text, width):
        super().__init__()
        self.image, self.text, self.out = nn.Linear(latent, width), nn.Linear(text, width), nn.Linear(width, latent)

    def forward(self, latents, condition):
        hidden = self.image(latents) + self.text(condition)
        return self.out(hidden.tanh())
# --- sample.py
import torch

@torch.no_grad()
def sample(model, cache, prompt, device, steps, seed):
    latents = torch.randn(1, 4, generator=torch.Generator().manual_seed(seed)).to(device)
    condition = cache[prompt]
    for _ in range(steps):
        moved = model(latents, condition)
        latents = latents + moved / steps
    return latents
# --- train.py
import torch
from torch import nn

def train(model, cache, texts, device, steps, lr=0.05):
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(len(texts), 4, generator=generator).to(device)
    conditions = torch.cat([cache[text] for text in texts]).to(device)
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=lr), []
    for step in range(steps):
        noise = torch.randn(images.shape, generator=generator).to(device)
        share = (step + 1) / (steps + 1)
        loss = nn.functional.mse_loss(model((1 - share) * noise + share * images, conditions), images - noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses
