# === columns_in_groups_of_their_own
# thread: https://github.com/dreamquark-ai/tabnet/issues/578
# about: a network for tables looks at few columns in each step. Which columns are looked at together is given; if it is not, each is alone
# operation: mm|matmul|addmm on cuda:0, cpu
# operands: .*group_attention_matrix.*|mat2|other|self.*
# category: state-not-registered
# line: encoder.py: self.group_attention_matrix = torch.eye(columns)
# line: encoder.py: per_column = mask @ self.group_attention_matrix
# repair: encoder.py: self.group_attention_matrix = torch.eye(columns) if groups is None else groups -> self.register_buffer("group_attention_matrix", torch.eye(columns) if groups is None else groups)
import torch

from fit import fit
from tab_network import TabNetNoEmbeddings

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
network = TabNetNoEmbeddings(columns=5, classes=2, steps=2).to(device)
x = torch.randn(12, 5, generator=torch.Generator().manual_seed(1))
y = (x[:, 1] * x[:, 3] > 0).long()
print("losses", fit(network, x.to(device), y.to(device), epochs=4))
# --- encoder.py
import torch
from torch import nn

class Encoder(nn.Module):
    def __init__(self, columns, width, steps, groups=None):
        super().__init__()
        self.group_attention_matrix = torch.eye(columns) if groups is None else groups
        self.groups = self.group_attention_matrix.shape[0]
        self.first = nn.Linear(columns, width)
        self.attentions = nn.ModuleList(nn.Linear(width, self.groups) for _ in range(steps))
        self.features = nn.ModuleList(nn.Linear(columns, width) for _ in range(steps))

    def forward(self, x):
        prior = torch.ones(len(x), self.groups, device=x.device)
        hidden, outputs = self.first(x).relu(), []
        for attention, feature in zip(self.attentions, self.features):
            mask = (attention(hidden) * prior).softmax(-1)
            prior = prior * (1.3 - mask)
            per_column = mask @ self.group_attention_matrix
            hidden = feature(per_column * x).relu()
            outputs.append(hidden)
        return sum(outputs)
# --- tab_network.py
from torch import nn

from encoder import Encoder

class TabNetNoEmbeddings(nn.Module):
    def __init__(self, columns, classes, steps, width=8, groups=None):
        super().__init__()
        self.norm = nn.BatchNorm1d(columns, momentum=0.02)
        self.encoder = Encoder(columns, width, steps, groups)
        self.head = nn.Linear(width, classes, bias=False)

    def forward(self, x):
        return self.head(self.encoder(self.norm(x)))
# --- fit.py
import torch
from torch import nn

def fit(network, x, y, epochs, lr=0.05):
    optimizer, losses = torch.optim.Adam(network.parameters(), lr=lr), []
    for _ in range(epochs):
        loss = nn.functional.cross_entropy(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === anchors_from_coarse_to_fine
# thread: https://github.com/wyf0912/ContextGS/pull/11
# about: anchors of a scene are coded level by level, coarse ones first, and what is known of coarse ones helps with those of the next level
# operation: index on cpu, cuda:0
# operands: .*order.*|self|to_code|indices|index.*
# error: indices should be either on
# category: created-without-device
# line: gaussian_model.py: order = torch.arange(len(to_code))
# line: gaussian_model.py: index = order[to_code]
# repair: gaussian_model.py: order = torch.arange(len(to_code)) -> order = torch.arange(len(to_code), device=to_code.device)
import torch

from gaussian_model import AnchorModel
from levels import levels_of

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
positions = torch.rand(10, 3, generator=torch.Generator().manual_seed(2)).to(device)
features = torch.rand(10, 4, generator=torch.Generator().manual_seed(3)).to(device)
model = AnchorModel(width=4).to(device)
bits = model.encode(positions, features, levels_of(positions, sizes=(0.6, 0.3)))
print("bits", [round(each, 3) for each in bits])
# --- levels.py
import torch

def levels_of(positions, sizes):
    """The level at which each anchor is coded: that of the coarsest voxel size of which it is the first."""
    levels = torch.full((len(positions),), len(sizes), device=positions.device)
    for level in reversed(range(len(sizes))):
        voxels = (positions / sizes[level]).floor()
        same = (voxels[:, None] == voxels[None]).all(-1)
        first = same.long().argmax(1) == torch.arange(len(positions), device=positions.device)
        levels[first] = level
    return levels
# --- gaussian_model.py
import torch
from torch import nn

class AnchorModel(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.context, self.step = nn.Linear(width + 3, width), 0.05

    def predicted(self, positions, known_positions, known):
        if not len(known):
            return self.context(nn.functional.pad(positions, (known.shape[1], 0)))
        nearest = torch.cdist(positions, known_positions).argmin(1)
        return self.context(torch.cat([known[nearest], positions - known_positions[nearest]], 1))

    @torch.no_grad()
    def encode(self, positions, features, levels):
        coded, bits = torch.zeros_like(levels, dtype=torch.bool), []
        for level in range(int(levels.max()) + 1):
            to_code = levels == level
            order = torch.arange(len(to_code))
            index = order[to_code]
            mean = self.predicted(positions[index], positions[coded], features[coded])
            off = ((features[index] - mean) / self.step).round()
            bits.append((off.abs() + 1).log2().sum().item())
            coded = coded | to_code
        return bits

# === area_weights_of_what_is_kept
# thread: https://github.com/ecmwf/anemoi-core/pull/339
# about: nodes of a graph on the globe get attributes, one after the other. The area that a node stands for can be restricted to those that another attribute keeps
# operation: mul on cuda:0, cpu
# operands: mask|other|.*mask.*
# category: input-not-moved|input
# line: area_weights.py: mask = nodes[self.mask_node_attr_name].squeeze()
# line: area_weights.py: return attr_values * mask
# repair: area_weights.py: mask = nodes[self.mask_node_attr_name].squeeze() -> mask = nodes[self.mask_node_attr_name].squeeze().to(self.device)
import torch

from area_weights import AreaWeights, MaskedAreaWeights
from base import InsideBox
from builder import NodeStorage, build

device = "cuda" if torch.cuda.is_available() else "cpu"
generator = torch.Generator().manual_seed(4)
latitudes = torch.rand(9, generator=generator) * 3 - 1.5
longitudes = torch.rand(9, generator=generator) * 6
nodes = NodeStorage(coords=torch.stack([latitudes, longitudes], 1))
attributes = {"cutout": InsideBox(south=-0.5, north=1.2), "area": AreaWeights(device), "weight": MaskedAreaWeights("cutout", device)}
build(nodes, attributes)
print("weights", [round(value, 4) for value in nodes["weight"].flatten().tolist()])
# --- base.py
import torch

class NodeAttribute:
    """What a node has, computed on a device and kept with the graph, which lives in RAM."""

    def __init__(self, device="cpu"):
        self.device = torch.device(device)

    def normalised(self, values):
        return values

    def compute(self, nodes):
        values = self.normalised(self.get_raw_values(nodes)).cpu()
        return values[:, None]

class InsideBox(NodeAttribute):
    def __init__(self, south, north, device="cpu"):
        super().__init__(device)
        self.south, self.north = south, north

    def get_raw_values(self, nodes):
        latitudes = nodes["coords"][:, 0].to(self.device)
        return (latitudes > self.south) & (latitudes < self.north)
# --- area_weights.py
import torch

from base import NodeAttribute

class AreaWeights(NodeAttribute):
    def get_raw_values(self, nodes):
        """By how far the nearest other nodes are."""
        latitude, longitude = nodes["coords"].to(self.device).unbind(1)
        points = torch.stack([latitude.cos() * longitude.cos(), latitude.cos() * longitude.sin(), latitude.sin()], 1)
        return torch.cdist(points, points).topk(4, largest=False).values[:, 1:].mean(1) ** 2

    def normalised(self, values):
        return values / values.max()

class MaskedAreaWeights(AreaWeights):
    def __init__(self, mask_node_attr_name, device="cpu"):
        super().__init__(device)
        self.mask_node_attr_name = mask_node_attr_name

    def get_raw_values(self, nodes):
        if self.mask_node_attr_name not in nodes:
            raise KeyError(self.mask_node_attr_name)
        attr_values = super().get_raw_values(nodes)
        mask = nodes[self.mask_node_attr_name].squeeze()
        return attr_values * mask
# --- builder.py
class NodeStorage(dict):
    """Of a graph's nodes what is known by name."""

def build(nodes, attributes):
    for name, attribute in attributes.items():
        nodes[name] = attribute.compute(nodes)
    return nodes

# === index_of_an_offloaded_layer
# thread: https://github.com/huggingface/transformers/pull/48763
# about: what earlier words left behind waits in RAM, layer by layer, and each layer fetches that of the next one. A small index says which of the words are worth attention
# operation: cat on cpu, cuda:0
# operands: .*indexer_keys.*|tensors.*|keys
# category: cached-state
# line: attention.py: chosen = cache.update_indexer(
# line: attention.py: keys, values = cache.update(
# line: cache.py: self.indexer_keys = keys if
# line: cache.py: self.move("cpu")
# repair: attention.py: keys, values = cache.update(self.key(hidden), self.value(hidden), self.layer) -> index = cache.update_indexer(self.index_key(hidden), self.layer)
# repair: attention.py: chosen = cache.update_indexer(self.index_key(hidden), self.layer) -> keys, values = cache.update(self.key(hidden), self.value(hidden), self.layer)
# repair: attention.py: worth = self.index_query(hidden) @ chosen.transpose(1, 2) -> worth = self.index_query(hidden) @ index.transpose(1, 2)
import torch

from attention import Model
from cache import OffloadedCache

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Model(words=12, dim=6, layers=2).to(device).eval()
ids = torch.tensor([[3, 1, 4, 1]], device=device)
print("written", model.generate(ids, OffloadedCache(layers=2), new=4)[0].tolist())
# --- cache.py
import torch

class Layer:
    def __init__(self):
        self.keys = self.values = self.indexer_keys = None

    def move(self, device):
        for name in ("keys", "values", "indexer_keys"):
            if getattr(self, name) is not None:
                setattr(self, name, getattr(self, name).to(device, non_blocking=True))

    def offload(self):
        self.move("cpu")

    def update(self, keys, values):
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys], 1)
        self.values = values if self.values is None else torch.cat([self.values, values], 1)
        return self.keys, self.values

    def update_indexer(self, keys):
        self.indexer_keys = keys if self.indexer_keys is None else torch.cat([self.indexer_keys, keys], 1)
        return self.indexer_keys

class OffloadedCache:
    def __init__(self, layers):
        self.layers = [Layer() for _ in range(layers)]

    def update(self, keys, values, layer):
        found = self.layers[layer].update(keys, values)
        self.layers[layer].offload()
        self.layers[(layer + 1) % len(self.layers)].move(keys.device)
        return found

    def update_indexer(self, keys, layer):
        return self.layers[layer].update_indexer(keys)
# --- attention.py
import torch
from torch import nn

class SparseAttention(nn.Module):
    def __init__(self, dim, layer, top=3):
        super().__init__()
        self.layer, self.top = layer, top
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.index_query, self.index_key = nn.Linear(dim, 2), nn.Linear(dim, 2)

    def forward(self, hidden, cache):
        keys, values = cache.update(self.key(hidden), self.value(hidden), self.layer)
        chosen = cache.update_indexer(self.index_key(hidden), self.layer)
        worth = self.index_query(hidden) @ chosen.transpose(1, 2)
        lowest = worth.topk(min(self.top, worth.shape[-1])).values[..., -1:]
        scores = self.query(hidden) @ keys.transpose(1, 2)
        return scores.masked_fill(worth < lowest, float("-inf")).softmax(-1) @ values

class Model(nn.Module):
    def __init__(self, words, dim, layers):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, dim), nn.Linear(dim, words)
        self.layers = nn.ModuleList(SparseAttention(dim, layer) for layer in range(layers))

    @torch.no_grad()
    def generate(self, ids, cache, new):
        fed = ids
        for _ in range(new):
            hidden = self.embed(fed)
            for layer in self.layers:
                hidden = hidden + layer(hidden, cache)
            fed = self.head(hidden[:, -1:]).argmax(-1)
            ids = torch.cat([ids, fed], 1)
        return ids

# === places_for_pictures_in_a_text
# thread: https://github.com/huggingface/transformers/pull/45826
# about: a model for texts with pictures is spread over two GPUs, each part fetching what it is called with. Pictures are put where the text has a word for them
# operation: masked_scatter.* on cuda:1, cuda:0
# operands: mask|.*mask.*|special_image_mask
# error: same device|mask
# category: module-split|input-not-moved
# line: modeling.py: image_mask = image_mask[..., None]
# line: modeling.py: inputs_embeds = inputs_embeds.masked_scatter(
# repair: modeling.py: image_mask = image_mask[..., None].expand_as(inputs_embeds) -> image_mask = image_mask[..., None].expand_as(inputs_embeds).to(inputs_embeds.device)
import torch

from dispatch import dispatch
from modeling import PictureModel

torch.manual_seed(0)
devices = ["cuda:0", "cuda:1"] if torch.cuda.is_available() else ["cpu", "cpu"]
model = PictureModel(words=16, dim=6, image_token=15).eval()
dispatch(model, {"vision": devices[0], "embed": devices[1], "layers": devices[1], "head": devices[1]})
ids = torch.tensor([[2, 15, 15, 7], [15, 15, 9, 4]]).to(devices[0])
pictures = torch.rand(2, 2, 5, generator=torch.Generator().manual_seed(6)).to(devices[0])
with torch.no_grad():
    print("best", model(ids, pictures).argmax(-1).tolist())
# --- dispatch.py
import torch

def dispatch(model, device_map):
    """Puts each part where the map has it and lets it fetch its inputs."""
    for name, device in device_map.items():
        part = model.get_submodule(name).to(device)
        part.register_forward_pre_hook(lambda module, args, device=device: tuple(each.to(device) if isinstance(each, torch.Tensor) else each for each in args))
# --- modeling.py
from torch import nn

class PictureModel(nn.Module):
    def __init__(self, words, dim, image_token):
        super().__init__()
        self.image_token = image_token
        self.vision, self.embed = nn.Linear(5, dim), nn.Embedding(words, dim)
        self.layers, self.head = nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, words)

    def placeholders(self, input_ids):
        image_mask = input_ids == self.image_token
        return image_mask

    def forward(self, input_ids, pictures):
        image_mask = self.placeholders(input_ids)
        inputs_embeds = self.embed(input_ids.masked_fill(image_mask, 0))
        features = self.vision(pictures).to(inputs_embeds.device, inputs_embeds.dtype)
        image_mask = image_mask[..., None].expand_as(inputs_embeds)
        inputs_embeds = inputs_embeds.masked_scatter(image_mask, features)
        return self.head(self.layers(inputs_embeds)[0])

# === mask_of_a_batch_with_pads
# thread: https://github.com/huggingface/transformers/pull/37612
# about: a vision part fills the first GPU, so the text's part begins on the next. What each place may look at is laid out as soon as texts of a batch differ in length
# operation: gt|le|ge|lt|mul_? on cuda:1, cuda:0
# operands: cache_position|other|.*cache_position.*
# category: module-split|input-not-moved
# line: masks.py: hidden = torch.arange(
# line: generation.py: cache_position = torch.arange(
# line: text.py: causal_mask = prepare_mask(
# repair: masks.py: hidden = torch.arange(target, device=device)[None] > cache_position[:, None] -> hidden = torch.arange(target, device=device)[None] > cache_position[:, None].to(device)
import torch

from generation import generate
from text import TextModel

torch.manual_seed(0)
devices = ["cuda:0", "cuda:1"] if torch.cuda.is_available() else ["cpu", "cpu"]
model = TextModel(words=14, dim=6).to(devices[1]).eval()
ids = torch.tensor([[0, 0, 5, 3], [7, 2, 9, 1]], device=devices[0])
print("written", generate(model, ids, ids != 0, new=3).tolist())
# --- masks.py
import torch

def prepare_mask(attention_mask, cache_position, target, device):
    """Nothing may look at what comes later, nor at pads."""
    hidden = torch.arange(target, device=device)[None] > cache_position[:, None]
    hidden = hidden[None] | ~attention_mask[:, None].to(device)
    return torch.zeros(hidden.shape, device=device).masked_fill(hidden, -1e4)
# --- text.py
import torch
from torch import nn

from masks import prepare_mask

class TextModel(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, dim), nn.Linear(dim, words)
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, input_ids, attention_mask, cache_position):
        inputs_embeds = self.embed(input_ids.to(self.embed.weight.device))
        causal_mask = prepare_mask(attention_mask, cache_position, attention_mask.shape[1], inputs_embeds.device)
        scores = self.query(inputs_embeds) @ self.key(inputs_embeds).transpose(1, 2) + causal_mask
        return self.head(inputs_embeds + scores.softmax(-1) @ self.value(inputs_embeds))
# --- generation.py
import torch

@torch.no_grad()
def generate(model, ids, attention_mask, new):
    for _ in range(new):
        cache_position = torch.arange(ids.shape[1], device=ids.device)
        logits = model(ids, attention_mask, cache_position)
        next_ids = logits[:, -1:].argmax(-1).to(ids.device)
        ids = torch.cat([ids, next_ids], 1)
        attention_mask = torch.cat([attention_mask, torch.ones_like(next_ids, dtype=torch.bool)], 1)
    return ids.cpu()

# === magnitudes_of_a_quantized_layer
# thread: https://github.com/huggingface/peft/pull/3418
# about: an adapter needs to know how long a weight's rows are. The weight is of eight bits, on the CPU; for want of a kernel there it is taken to the GPU for this, and back
# operation: mul on cuda:0, cpu
# operands: .*SCB.*|other|scale.*
# category: input-not-moved|module-split
# line: bnb.py: full = data.float() * state.SCB
# line: bnb.py: data, state = on_accelerator(
# line: bnb.py: return weight.to(accelerator()), state
# repair: bnb.py: full = data.float() * state.SCB[:, None] / 127 -> full = data.float() * state.SCB.to(data.device)[:, None] / 127
import torch

from adapter import DoraLinear
from quantized import Linear8bit

torch.manual_seed(0)
base = Linear8bit(torch.nn.Linear(6, 4))
layer = DoraLinear(base, rank=2)
x = torch.randn(3, 6, generator=torch.Generator().manual_seed(2))
with torch.no_grad():
    print("magnitudes", [round(value, 4) for value in layer.magnitude.tolist()], "sum", round(layer(x).sum().item(), 4))
# --- quantized.py
import torch
from torch import nn

class State:
    """What a weight of eight bits is worth: of each row the biggest value."""

    def __init__(self, SCB):
        self.SCB = SCB

class Linear8bit(nn.Module):
    def __init__(self, linear):
        super().__init__()
        biggest = linear.weight.detach().abs().amax(1)
        self.weight = nn.Parameter((linear.weight.detach() / biggest[:, None] * 127).round().to(torch.int8), requires_grad=False)
        self.bias, self.state = nn.Parameter(linear.bias.detach().clone()), State(biggest)

    def forward(self, x):
        return nn.functional.linear(x, self.weight.float() * self.state.SCB[:, None] / 127, self.bias)
# --- bnb.py
import torch

def accelerator():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")

def on_accelerator(weight, state):
    """Kernels for eight bits are there only."""
    return weight.to(accelerator()), state

def dequantize(weight, state):
    device = weight.device
    data, state = on_accelerator(weight, state)
    full = data.float() * state.SCB[:, None] / 127
    return full.to(device)
# --- adapter.py
import torch
from torch import nn

from bnb import dequantize

class DoraLinear(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        outputs, inputs = base.weight.shape
        self.lora_a, self.lora_b = nn.Parameter(torch.full((rank, inputs), 0.1)), nn.Parameter(torch.zeros(outputs, rank))
        self.magnitude = nn.Parameter(self.length(dequantize(base.weight, base.state)))

    def length(self, weight):
        return (weight + self.lora_b.detach() @ self.lora_a.detach()).norm(dim=1)

    def forward(self, x):
        weight = dequantize(self.base.weight, self.base.state)
        scale = self.magnitude / self.length(weight)
        return scale * (self.base(x) - self.base.bias + x @ self.lora_a.T @ self.lora_b.T) + self.base.bias

# === one_scale_for_fused_layers
# thread: https://github.com/intel/auto-round/issues/1166
# about: layers that are to be fused share a scale, so after each has found its own, they take the smallest. A block is tuned with its layers spread over two GPUs
# operation: cat on cuda:0, cuda:1
# operands: tensors.*|.*scale.*
# category: module-split
# line: fuse.py: scales = [layer.weight_global_scale
# line: fuse.py: shared = torch.cat(scales)
# repair: fuse.py: shared = torch.cat(scales).min(dim=0, keepdim=True).values -> shared = torch.cat([scale.to(scales[0].device) for scale in scales]).min(dim=0, keepdim=True).values
import torch

from block import Block
from tune import quantize_block

torch.manual_seed(0)
devices = ["cuda:0", "cuda:1"] if torch.cuda.is_available() else ["cpu", "cpu"]
block = Block(dim=6)
block.spread({"q_proj": devices[0], "k_proj": devices[0], "v_proj": devices[1], "o_proj": devices[1]})
x = torch.randn(1, 4, 6, generator=torch.Generator().manual_seed(1))
with torch.no_grad():
    before = block(x.to(devices[0])).cpu()
    quantize_block(block)
    after = block(x.to(devices[0])).cpu()
print("scale", round(block.q_proj.weight_global_scale.item(), 3), "off by", round((after - before).abs().max().item(), 4))
# --- block.py
from torch import nn

class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def spread(self, device_map):
        for name, device in device_map.items():
            layer = getattr(self, name).to(device)
            layer.register_forward_pre_hook(lambda layer, args: tuple(each.to(layer.weight.device) for each in args))

    def forward(self, x):
        scores = self.q_proj(x) @ self.k_proj(x).transpose(1, 2)
        values = self.v_proj(x)
        return self.o_proj(scores.softmax(-1).to(values.device) @ values).to(x.device) + x
# --- fuse.py
import torch

FUSED = [("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj")]

def update_fused_scales(block):
    """A fused kernel has one scale for what it fuses."""
    for names in FUSED:
        layers = [getattr(block, name) for name in names if hasattr(block, name)]
        if len(layers) < 2:
            continue
        scales = [layer.weight_global_scale for layer in layers]
        shared = torch.cat(scales).min(dim=0, keepdim=True).values
        for layer in layers:
            layer.weight_global_scale = shared.to(layer.weight.device)
# --- tune.py
from torch import nn

from fuse import update_fused_scales

def global_scale(weight, levels=7, fine=16):
    return levels * fine / weight.abs().max().reshape(1)

def quantize_block(block):
    linears = [module for module in block.modules() if isinstance(module, nn.Linear)]
    for linear in linears:
        linear.weight_global_scale = global_scale(linear.weight.detach())
    update_fused_scales(block)
    for linear in linears:
        scale = linear.weight_global_scale / 16
        linear.weight.copy_((linear.weight * scale).round().clamp(-7, 7) / scale)
    return block

# === centres_that_stay_where_they_are
# thread: https://github.com/TorchSim/torch-sim/issues/580
# about: many systems are one state, atom after atom, and a constraint keeps the centre of each in place. What belongs to a system is summed over its atoms
# operation: index_add_?|scatter_add_? on cpu, cuda:0
# operands: self|index|source|values|.*system_idx.*|total.*
# category: created-without-device
# line: transforms.py: totals = torch.zeros(
# line: transforms.py: return totals.index_add_(
# repair: transforms.py: totals = torch.zeros((count, *values.shape[1:]), dtype=values.dtype) -> totals = torch.zeros((count, *values.shape[1:]), dtype=values.dtype, device=values.device)
import torch

from integrate import integrate
from state import SimState, FixCom

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(9)
state = SimState(
    positions=torch.rand(7, 3, generator=generator, dtype=torch.float64).to(device),
    masses=torch.tensor([1.0, 1.0, 16.0, 1.0, 1.0, 12.0, 1.0], dtype=torch.float64, device=device),
    system_idx=torch.tensor([0, 0, 0, 1, 1, 1, 1], device=device),
)
free = integrate(state, steps=3, dt=0.05)
print("free", round(free.positions.sum().item(), 4))
state.constraints = [FixCom([0, 1])]
fixed = integrate(state, steps=3, dt=0.05)
print("fixed", round(fixed.positions.sum().item(), 4), "off by", round((fixed.centres() - state.centres()).abs().max().item(), 6))
# --- transforms.py
import torch

def sum_over_systems(values, system_idx, count):
    totals = torch.zeros((count, *values.shape[1:]), dtype=values.dtype)
    return totals.index_add_(0, system_idx, values)

def get_centers_of_mass(positions, masses, system_idx, count):
    weighted = sum_over_systems(masses[:, None] * positions, system_idx, count)
    return weighted / sum_over_systems(masses, system_idx, count)[:, None]
# --- state.py
from dataclasses import dataclass, field, replace

import torch

from transforms import get_centers_of_mass

class FixCom:
    """Moves atoms back by what their system's centre was moved by."""

    def __init__(self, systems):
        self.systems = systems

    def adjusted(self, state, positions):
        moved = get_centers_of_mass(positions - state.positions, state.masses, state.system_idx, state.count)
        return positions - moved[state.system_idx]

@dataclass
class SimState:
    positions: torch.Tensor
    masses: torch.Tensor
    system_idx: torch.Tensor
    constraints: list = field(default_factory=list)

    @property
    def count(self):
        return int(self.system_idx.max()) + 1

    def centres(self):
        return get_centers_of_mass(self.positions, self.masses, self.system_idx, self.count)

    def moved_to(self, positions):
        for constraint in self.constraints:
            positions = constraint.adjusted(self, positions)
        return replace(self, positions=positions)
# --- integrate.py
def forces(state):
    """Towards one point, whatever the atom."""
    return 0.4 - state.positions

def integrate(state, steps, dt):
    for _ in range(steps):
        state = state.moved_to(state.positions + dt * forces(state) / state.masses[:, None])
    return state

# === labels_of_an_evaluation
# thread: https://github.com/cvpr-vand/challenge/pull/4
# about: a model that finds broken parts is tried on some categories. A script gives it pictures and what is known of them to the metrics, which live where the model does
# operation: bitwise_and|__and__|logical_and|and.* on cuda:0, cpu
# operands: targets|other|.*label.*|input
# category: input-not-moved|input
# line: evaluate.py: image_metric.update(
# line: metrics.py: targets = targets.flatten().bool()
# line: metrics.py: self.hits +=
# line: evaluate.py: for data in DataLoader(
# repair: evaluate.py: image_metric.update(output["score"], data["label"]) -> image_metric.update(output["score"], data["label"].to(device))
import torch

from evaluate import evaluate
from model import NearestNeighbour

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
results = {}
for seed, category in enumerate(("cable", "screw")):
    results[category] = evaluate(NearestNeighbour(threshold=0.9), category, seed, device)
print("f1", {category: round(value, 4) for category, value in results.items()})
# --- data.py
import torch
from torch.utils.data import Dataset

class Category(Dataset):
    """Pictures of one thing; some have a scratch."""

    def __init__(self, name, seed, count, broken):
        generator = torch.Generator().manual_seed(seed)
        self.name, self.labels = name, torch.rand(count, generator=generator) < broken
        self.images = 0.2 * torch.randn(count, 6, generator=generator)
        self.images[:, 2] += 1.5 * self.labels.float()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return {"image": self.images[index], "label": self.labels[index]}
# --- model.py
import torch
from torch import nn

class NearestNeighbour(nn.Module):
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold
        self.register_buffer("bank", torch.empty(0))

    def setup(self, images):
        self.bank = images.to(self.bank.device)

    def forward(self, images):
        distances = torch.cdist(images, self.bank).min(1).values
        return {"distance": distances, "score": distances / (2 * self.threshold)}
# --- metrics.py
import torch
from torch import nn

class F1Score(nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("hits", "found", "there"):
            self.register_buffer(name, torch.zeros((), dtype=torch.long))

    def update(self, scores, targets):
        found = scores.flatten() > 0.5
        targets = targets.flatten().bool()
        self.hits += (found & targets).sum()
        self.found += found.sum()
        self.there += targets.sum()

    def compute(self):
        return (2 * self.hits / (self.found + self.there).clamp(min=1)).item()
# --- evaluate.py
import torch
from torch.utils.data import DataLoader

from data import Category
from metrics import F1Score

@torch.no_grad()
def evaluate(model, category, seed, device):
    model.to(device).setup(Category(category, seed + 10, count=5, broken=0.0).images)
    image_metric = F1Score().to(device)
    for data in DataLoader(Category(category, seed, count=9, broken=0.4), batch_size=4):
        output = model(data["image"].to(device))
        image_metric.update(output["score"], data["label"])
    return image_metric.compute()

# === joints_that_have_a_motor
# thread: https://github.com/newton-physics/newton/pull/3971
# about: a policy commands the joints that have a motor. Which these are is laid out when a simulation begins, for tensors that its solver has on a device of one's choice
# operation: index on cuda:1, cuda:0
# operands: .*indices.*|self|.*q.*
# error: indices should be either on
# category: default-or-current-device
# line: simulation.py: self._torch_device = "cuda"
# line: simulation.py: self._actuated_indices_tensor = torch.tensor(
# line: simulation.py: return torch.cat([self.q[:, self._actuated_indices_tensor]
# repair: simulation.py: self._torch_device = "cuda" if self.device.type == "cuda" else "cpu" -> self._torch_device = self.device
import torch

from policy import Policy
from simulation import Simulation

torch.manual_seed(0)
device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")
simulation = Simulation(joints=[("hip", 1, True), ("knee", 1, True), ("foot", 2, False), ("arm", 1, True)], worlds=2, device=device)
policy = Policy(simulation.dofs, simulation.actuated).to(device)
with torch.no_grad():
    for _ in range(3):
        simulation.step(policy(simulation.state()))
print("angles", [[round(value, 3) for value in world] for world in simulation.q.tolist()])
# --- solver.py
class Solver:
    """Joints as springs with a damper."""

    def __init__(self, stiffness, damping):
        self.stiffness, self.damping = stiffness, damping

    def step(self, q, qd, target, dt):
        force = self.stiffness * (target - q) - self.damping * qd
        qd = qd + dt * force
        return q + dt * qd, qd
# --- simulation.py
import torch

from solver import Solver

class Simulation:
    def __init__(self, joints, worlds, device, dt=0.1):
        self.device, self.dt, self.solver = torch.device(device), dt, Solver(stiffness=4.0, damping=0.5)
        self._torch_device = "cuda" if self.device.type == "cuda" else "cpu"
        self.dofs = sum(ndofs for _, ndofs, _ in joints)
        self.q = torch.zeros(worlds, self.dofs, device=self.device)
        self.qd = torch.zeros_like(self.q)
        self._make_indices(joints)

    def _make_indices(self, joints):
        indices, offset = [], 0
        for _, ndofs, motor in joints:
            if motor:
                indices.extend(range(offset, offset + ndofs))
            offset += ndofs
        self.actuated = len(indices)
        self._actuated_indices_tensor = torch.tensor(indices, device=self._torch_device)

    def state(self):
        """Where joints with a motor are, and how fast all go."""
        return torch.cat([self.q[:, self._actuated_indices_tensor], self.qd], 1)

    def step(self, action):
        target = torch.zeros_like(self.q)
        target[:, self._actuated_indices_tensor] = action
        self.q, self.qd = self.solver.step(self.q, self.qd, target, self.dt)
# --- policy.py
from torch import nn

class Policy(nn.Sequential):
    def __init__(self, dofs, actions):
        super().__init__(nn.Linear(dofs + actions, 6), nn.Tanh(), nn.Linear(6, actions))

# === tokens_of_a_partly_loaded_encoder
# thread: https://github.com/Saganaki22/Pixal3D-ComfyUI/issues/10
# about: for want of memory an interface loads of a model what fits, layer by layer. An encoder of pictures puts words of its own in front of a picture's patches
# operation: cat on cpu, cuda:0
# operands: tensors.*|tokens|.*patch.*
# category: module-split|state-not-registered
# line: loader.py: for module in leaves(model):
# line: encoder.py: tokens = torch.cat(
# line: encoder.py: hidden = torch.cat([tokens, patches], dim=1)
# line: main.py: load_partially(encoder
# repair: encoder.py: hidden = torch.cat([tokens, patches], dim=1) -> hidden = torch.cat([tokens.to(patches.device), patches], dim=1)
import torch

from encoder import PictureEncoder
from loader import load_partially

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
encoder = PictureEncoder(dim=6, layers=2).eval()
load_partially(encoder, device, budget=400)
picture = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(5))
with torch.no_grad():
    features = encoder(picture.to(device))
print("features", tuple(features.shape), [round(value, 4) for value in features.mean((0, 1)).tolist()])
# --- loader.py
def leaves(model):
    """Layers with weights: what is loaded one by one, big ones first."""
    found = [module for module in model.modules() if not list(module.children()) and hasattr(module, "weight")]
    return sorted(found, key=lambda module: -module.weight.numel())

def fetch(module, args):
    """A layer that stayed behind is loaded for its call."""
    return module.to(args[0].device) and None

def load_partially(model, device, budget):
    for module in leaves(model):
        size = sum(parameter.numel() for parameter in module.parameters())
        if size <= budget:
            module.to(device)
            budget -= size
        else:
            module.register_forward_pre_hook(fetch)
    return model
# --- encoder.py
import torch
from torch import nn

class Embeddings(nn.Module):
    def __init__(self, dim, registers):
        super().__init__()
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.register_tokens = nn.Parameter(torch.randn(1, registers, dim))
        self.patches = nn.Conv2d(3, dim, 4, stride=4)

    def forward(self, pixel_values):
        patches = self.patches(pixel_values).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token, self.register_tokens], dim=1).expand(len(patches), -1, -1)
        hidden = torch.cat([tokens, patches], dim=1)
        return hidden

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, hidden):
        return hidden + self.outer(self.inner(self.norm(hidden)).relu())

class PictureEncoder(nn.Module):
    def __init__(self, dim, layers, registers=2):
        super().__init__()
        self.embeddings = Embeddings(dim, registers)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(layers))

    def forward(self, pixel_values):
        hidden = self.embeddings(pixel_values)
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden

# === places_in_pictures_of_any_size
# thread: https://github.com/huggingface/transformers/pull/39981
# about: pictures of a batch differ in size and shape. Each patch is told its place in one grid for all; the table of places is not on the GPU of the first layer
# operation: index_put_?|_index_put_impl_?|copy_? on cuda:1, cuda:0
# operands: self|values|position_ids|.*value.*
# category: module-split|input-not-moved
# line: vision.py: down, across = (self.buckets(
# line: vision.py: position_ids[row, mask.flatten()
# repair: vision.py: down, across = (self.buckets(count, pixel_values.device) for count in self.extent(mask)) -> down, across = (self.buckets(count, position_ids.device) for count in self.extent(mask))
import torch

from batch import padded
from vision import VisionEmbeddings

torch.manual_seed(0)
devices = ["cuda:0", "cuda:1"] if torch.cuda.is_available() else ["cpu", "cpu"]
model = VisionEmbeddings(dim=5, grid=4)
model.patches.to(devices[0])
model.places.to(devices[1])
pixel_values, mask = padded([torch.ones(3, 4, 8), torch.full((3, 8, 4), 0.5)], patch=2)
with torch.no_grad():
    hidden = model(pixel_values.to(devices[0]), mask.to(devices[0]))
print("hidden", [[round(value, 4) for value in each] for each in hidden.mean(1).tolist()])
# --- batch.py
import torch

def padded(pictures, patch):
    """One tensor, and of which patches something is known."""
    height, width = (max(picture.shape[at] for picture in pictures) for at in (1, 2))
    pixel_values = torch.zeros(len(pictures), 3, height, width)
    mask = torch.zeros(len(pictures), height // patch, width // patch, dtype=torch.bool)
    for row, picture in enumerate(pictures):
        pixel_values[row, :, : picture.shape[1], : picture.shape[2]] = picture
        mask[row, : picture.shape[1] // patch, : picture.shape[2] // patch] = True
    return pixel_values, mask
# --- vision.py
import torch
from torch import nn

class VisionEmbeddings(nn.Module):
    def __init__(self, dim, grid, patch=2):
        super().__init__()
        self.grid = grid
        self.patches, self.places = nn.Conv2d(3, dim, patch, stride=patch), nn.Embedding(grid * grid, dim)

    def extent(self, mask):
        return int(mask[:, 0].sum()), int(mask[0].sum())

    def buckets(self, count, device):
        return (torch.arange(count, device=device) * self.grid // count).clamp(max=self.grid - 1)

    def position_ids(self, pixel_values, patch_mask):
        position_ids = torch.zeros(patch_mask[0].numel() * len(patch_mask), dtype=torch.long, device=self.places.weight.device).view(len(patch_mask), -1)
        for row, mask in enumerate(patch_mask):
            down, across = (self.buckets(count, pixel_values.device) for count in self.extent(mask))
            position_ids[row, mask.flatten().to(position_ids.device)] = (down[:, None] * self.grid + across).flatten()
        return position_ids

    def forward(self, pixel_values, patch_mask):
        hidden = self.patches(pixel_values).flatten(2).transpose(1, 2)
        position_ids = self.position_ids(pixel_values, patch_mask)
        return hidden + self.places(position_ids).to(hidden.device)

# === views_from_a_loaded_pipeline
# thread: https://github.com/huanngzh/ComfyUI-MVAdapter/issues/55
# about: nodes of an interface: one loads a pipeline, from the hub or from a file of one's own, another one draws views with it, from a seed
# operation: randn|normal.* on cpu, cuda:0
# operands: generator
# error: Expected a 'cpu' device type for generator but found 'cuda'
# category: generator|module-split
# line: nodes.py: return self.prepared(pipe)
# line: nodes.py: pipe = ViewPipeline(denoiser)
# line: nodes.py: denoiser = Denoiser(checkpoint
# line: nodes.py: generator = torch.Generator(
# line: nodes.py: return pipe(prompt
# line: pipeline.py: latents = torch.randn(
# line: main.py: pipe = FilePipelineLoader()
# repair: nodes.py: generator = torch.Generator(torch_device()).manual_seed(seed) -> generator = torch.Generator(pipe.device).manual_seed(seed)
import torch

from nodes import FilePipelineLoader, ViewSampler
from pipeline import Denoiser

torch.manual_seed(0)
checkpoint = {"state_dict": Denoiser(channels=4).state_dict(), "channels": 4}
pipe = FilePipelineLoader().load(checkpoint)
views = ViewSampler().sample(pipe, prompt="a chair", views=3, steps=2, seed=21)
print("views", tuple(views.shape), "within", bool(views.abs().max() <= 4), "finite", bool(views.isfinite().all()))
# --- pipeline.py
import torch
from torch import nn

class Denoiser(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.channels, self.words, self.mix = channels, nn.Embedding(128, channels), nn.Linear(channels, channels)

    def forward(self, latents, prompt):
        return self.mix(latents + self.words(prompt).mean(0)).tanh()

class ViewPipeline:
    def __init__(self, denoiser):
        self.denoiser = denoiser.eval()

    @property
    def device(self):
        return self.denoiser.mix.weight.device

    def to(self, device):
        self.denoiser.to(device)
        return self

    @torch.no_grad()
    def __call__(self, prompt, views, steps, generator):
        ids = torch.tensor([ord(letter) for letter in prompt], device=self.device)
        latents = torch.randn((views, self.denoiser.channels), generator=generator, device=self.device)
        latents = latents.clamp(-3, 3)
        for _ in range(steps):
            latents = latents - self.denoiser(latents, ids) / steps
        return latents.cpu()
# --- nodes.py
import torch

from pipeline import Denoiser, ViewPipeline

def torch_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")

class HubPipelineLoader:
    def load(self, denoiser):
        return ViewPipeline(denoiser).to(torch_device())

class FilePipelineLoader:
    """From one file; schedulers and the like are set up here, too."""

    def prepared(self, pipe):
        pipe.denoiser.requires_grad_(False)
        return pipe

    def load(self, checkpoint):
        denoiser = Denoiser(checkpoint["channels"])
        denoiser.load_state_dict(checkpoint["state_dict"])
        pipe = ViewPipeline(denoiser)
        return self.prepared(pipe)

class ViewSampler:
    def sample(self, pipe, prompt, views, steps, seed):
        generator = torch.Generator(torch_device()).manual_seed(seed)
        return pipe(prompt, views, steps, generator)

# === beams_of_a_lidar
# thread: https://github.com/georghess/neurad-studio/issues/75
# about: a script draws what a lidar would have seen. Its rays are ordered as beams lie, some of which a table of angles tells apart; scans are cached by a loader
# operation: gt|ge|lt|le on cpu, cuda:0
# operands: .*boundaries.*|other|elevation|self
# category: input-not-moved|input
# line: render.py: raster = to_raster(
# line: render.py: boundaries = torch.tensor(
# line: raster.py: beam = (elevation[:, None] > boundaries
# line: render.py: for lidar, batch in loader:
# repair: render.py: raster = to_raster(batch["lidar"], boundaries, columns=6) -> raster = to_raster(batch["lidar"].to(device), boundaries, columns=6)
import torch

from loader import LidarLoader
from render import RayModel, render

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = RayModel(width=4).to(device).eval()
print("errors", render(model, LidarLoader(scans=2, points=12, seed=3), device))
# --- loader.py
import torch

class LidarLoader:
    """Scans, and where the lidar was. They are kept in RAM: there may be many."""

    def __init__(self, scans, points, seed):
        generator = torch.Generator().manual_seed(seed)
        self.scans = [torch.randn(points, 3, generator=generator) * torch.tensor([4.0, 4.0, 0.7]) for _ in range(scans)]

    def __iter__(self):
        for number, points in enumerate(self.scans):
            lidar = {"number": number, "height": 1.8}
            yield lidar, {"lidar": points}
# --- raster.py
import math

import torch

def to_raster(points, boundaries, columns):
    """Of each ray its beam, its column and how far it went."""
    distance = points.norm(dim=1)
    elevation = torch.rad2deg((points[:, 2] / distance).asin())
    beam = (elevation[:, None] > boundaries).sum(1)
    column = ((torch.atan2(points[:, 1], points[:, 0]) / math.pi + 1) / 2 * columns).long().clamp(max=columns - 1)
    return torch.stack([beam.float(), column.float(), distance], 1)
# --- render.py
import torch
from torch import nn

from raster import to_raster

class RayModel(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, rays):
        return self.field(rays / 6)[:, 0].exp()

@torch.no_grad()
def render(model, loader, device):
    errors = []
    for lidar, batch in loader:
        boundaries = torch.tensor([-20.0, -8.0, -2.5, 0.25, 4.0, 15.0], device=device)
        raster = to_raster(batch["lidar"], boundaries, columns=6)
        rays, distance = raster.to(device).split([2, 1], dim=1)
        errors.append((lidar["number"], round((model(rays) - distance[:, 0]).abs().median().item(), 4)))
    return errors

# === sampler_beside_a_default_device
# thread: https://github.com/optuna/optuna/issues/6113
# about: a sampler of settings fits a Gaussian process to what was tried, with an optimizer that knows NumPy only. The script around it has all tensors made on the GPU
# operation:  on cuda:0
# operands: .*scales.*|.*
# category: |default-or-current-device
# error: can't convert cuda:0 device type tensor to numpy
# line: gp.py: start = np.log(params.inverse_squared_lengthscales
# line: gp.py: params = KernelParams(torch.ones(
# repair: gp.py: start = np.log(params.inverse_squared_lengthscales.detach().numpy()) -> start = np.log(params.inverse_squared_lengthscales.detach().cpu().numpy())
import numpy as np
import torch

from sampler import GPSampler

if torch.cuda.is_available():
    torch.set_default_device("cuda")
weights = torch.tensor([0.5, -0.25])
sampler, trials = GPSampler(seed=3), []
for number in range(6):
    setting = sampler.suggest(trials, size=2)
    value = ((torch.tensor(setting, dtype=torch.float32) - weights) ** 2).sum().item()
    trials.append((setting, value))
best = min(trials, key=lambda trial: trial[1])
print("best", np.round(best[0], 3).tolist(), round(best[1], 4))
# --- sampler.py
import numpy as np

from gp import fit_kernel_params, predicted

class GPSampler:
    def __init__(self, seed, startup=3):
        self.rng, self.startup = np.random.RandomState(seed), startup

    def suggest(self, trials, size):
        candidates = self.rng.uniform(-1, 1, (16, size))
        if len(trials) < self.startup:
            return candidates[0]
        x, y = np.stack([setting for setting, _ in trials]), np.array([value for _, value in trials])
        params = fit_kernel_params(x, y)
        return candidates[int(np.argmin(predicted(params, x, y, candidates)))]
# --- gp.py
from dataclasses import dataclass

import numpy as np
import torch

@dataclass
class KernelParams:
    inverse_squared_lengthscales: torch.Tensor
    noise: float = 0.01

def kernel(scales, a, b):
    return torch.exp(-((a[:, None] - b[None]) ** 2 * scales).sum(-1) / 2)

def loss(logs, x, y, noise):
    """How badly the process tells what was seen."""
    scales = torch.exp(torch.tensor(logs))
    x, y = torch.tensor(x), torch.tensor(y)
    matrix = kernel(scales, x, x) + noise * torch.eye(len(x), dtype=x.dtype)
    return (y @ torch.linalg.solve(matrix, y) + torch.linalg.slogdet(matrix)[1]).item()

def fit_kernel_params(x, y):
    params = KernelParams(torch.ones(x.shape[1], dtype=torch.float64))
    start = np.log(params.inverse_squared_lengthscales.detach().numpy())
    steps = [start + step for step in (-1.0, 0.0, 1.0, 2.0)]
    best = min(steps, key=lambda logs: loss(logs, x, y - y.mean(), params.noise))
    return KernelParams(torch.exp(torch.tensor(best)), params.noise)

def predicted(params, x, y, candidates):
    x, centred, candidates = torch.tensor(x), torch.tensor(y - y.mean()), torch.tensor(candidates)
    matrix = kernel(params.inverse_squared_lengthscales, x, x) + params.noise * torch.eye(len(x), dtype=x.dtype)
    return (kernel(params.inverse_squared_lengthscales, candidates, x) @ torch.linalg.solve(matrix, centred)).tolist()

# === encoder_trained_on_another_gpu
# thread: https://github.com/LemuelPuglisi/BrLP/pull/3
# about: scans are written in few numbers by a network that was trained elsewhere. To need less memory, what was saved takes the place of what a network begins with
# operation: addmm|linear|mm|.*conv.* on cuda:0, cuda:1
# operands: weight|.*weight.*|bias|mat1|mat2|input|.*bias.*
# category: checkpoint
# line: networks.py: network.load_state_dict(torch.load(
# line: main.py: autoencoder = load_if(
# repair: networks.py: network.load_state_dict(torch.load(checkpoint), assign=True) -> network.load_state_dict(torch.load(checkpoint, map_location=next(network.parameters()).device), assign=True)
import tempfile
from pathlib import Path

import torch

from networks import Autoencoder, load_if
from train import pretrain

torch.manual_seed(0)
on_gpu = torch.cuda.is_available()
device, trained_on = torch.device("cuda:0" if on_gpu else "cpu"), torch.device("cuda:1" if on_gpu else "cpu")
scans = torch.rand(4, 8, generator=torch.Generator().manual_seed(1))
with tempfile.TemporaryDirectory() as folder:
    checkpoint = Path(folder) / "autoencoder.pth"
    pretrain(scans.to(trained_on), checkpoint, steps=3)
    autoencoder = load_if(checkpoint, Autoencoder(size=8, latent=3).to(device))
with torch.no_grad():
    latents = autoencoder.encode(scans.to(device))
print("latents", [round(value, 4) for value in latents[0].tolist()])
# --- networks.py
import torch
from torch import nn

class Autoencoder(nn.Module):
    def __init__(self, size, latent):
        super().__init__()
        self.inner, self.outer = nn.Linear(size, latent), nn.Linear(latent, size)

    def encode(self, scans):
        return self.inner(scans).tanh()

    def forward(self, scans):
        return self.outer(self.encode(scans))

def load_if(checkpoint, network):
    """What was saved, if there is such a file."""
    if checkpoint is not None:
        network.load_state_dict(torch.load(checkpoint), assign=True)
    return network
# --- train.py
import torch
from torch import nn

from networks import Autoencoder

def pretrain(scans, checkpoint, steps, lr=0.05):
    network = Autoencoder(size=scans.shape[1], latent=3).to(scans.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=lr)
    for _ in range(steps):
        loss = nn.functional.mse_loss(network(scans), scans)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(network.state_dict(), checkpoint)

# === scales_of_each_expert
# thread: https://github.com/vllm-project/vllm-gaudi/pull/1597
# about: of many experts a layer's weights are read as eight bits, and scales with them. Each expert is then given its own, in an operator that makes them whole again for its call
# operation: mul on cuda:0, cpu
# operands: .*scale.*|other
# category: input-not-moved|state-not-registered|module-split
# line: ops.py: return self.weight.float() * self.scale_inv_fp8
# line: ops.py: self.scale_inv_fp8 = scale
# line: quantization.py: expert.set_scale_inv_fp8(
# repair: ops.py: return self.weight.float() * self.scale_inv_fp8 -> return self.weight.float() * self.scale_inv_fp8.to(self.weight.device)
import torch

from layer import MoELayer
from loader import read
from quantization import process_weights_after_loading

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
layer = MoELayer(dim=5, experts=4, top=2).to(device)
weights, scales = read(experts=4, dim=5, seed=8)
process_weights_after_loading(layer, weights, scales, device)
x = torch.randn(3, 5, generator=torch.Generator().manual_seed(2)).to(device)
with torch.no_grad():
    print("hidden", [[round(value, 4) for value in row] for row in layer(x).tolist()])
# --- loader.py
import torch

def read(experts, dim, seed):
    """As a file has them: eight bits, and for each row what they are worth."""
    generator, weights, scales = torch.Generator().manual_seed(seed), [], []
    for _ in range(experts):
        weight = torch.randn(dim, dim, generator=generator)
        scale = weight.abs().amax(1, keepdim=True) / 127
        weights.append((weight / scale).round().to(torch.int8))
        scales.append(scale)
    return weights, scales
# --- ops.py
from torch import nn

class MoeFP8Matmul(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = self.scale_inv_fp8 = None

    def set_weight(self, weight):
        self.weight = weight

    def set_scale_inv_fp8(self, scale):
        self.scale_inv_fp8 = scale

    def dequantized(self):
        """Whole rows, each with a scale of its own."""
        return self.weight.float() * self.scale_inv_fp8

    def forward(self, x):
        return nn.functional.linear(x, self.dequantized())
# --- quantization.py
def process_weights_after_loading(layer, weights, scales, device):
    for expert, weight, scale in zip(layer.experts, weights, scales):
        expert.set_weight(weight.to(device))
        expert.set_scale_inv_fp8(scale)
    return layer
# --- layer.py
import torch
from torch import nn

from ops import MoeFP8Matmul

class MoELayer(nn.Module):
    def __init__(self, dim, experts, top):
        super().__init__()
        self.top, self.gate = top, nn.Linear(dim, experts)
        self.experts = nn.ModuleList(MoeFP8Matmul() for _ in range(experts))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(self.top, dim=-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, place = (chosen == number).nonzero(as_tuple=True)
            out = out.index_add(0, rows, weights[rows, place][:, None] * expert(x[rows]))
        return out
