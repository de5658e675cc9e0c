# === batch_to_dict
# thread: https://github.com/microsoft/mattersim/pull/147
# about: a function that makes a model's inputs of a batch of graphs takes the device, and leaves it at that
# operation: index_select|embedding on cpu, cuda:0
# operands: .*atomic_numbers.*|input.*|index|indices, .*weight
# category: input-not-moved|created-without-device
# line: convert.py: "atomic_numbers": graph_batch.atomic_numbers,
# line: convert.py: "positions": graph_batch.positions,
# line: convert.py: "edge_index": graph_batch.edge_index,
# line: convert.py: "batch": graph_batch.batch,
# line: convert.py: "num_graphs": torch.tensor(
# line: potential.py: inputs = batch_to_dict(graph_batch, device=self.device)
# repair: convert.py: "atomic_numbers": graph_batch.atomic_numbers, -> "atomic_numbers": graph_batch.atomic_numbers.to(device),
# repair: convert.py: "positions": graph_batch.positions, -> "positions": graph_batch.positions.to(device),
# repair: convert.py: "edge_index": graph_batch.edge_index, -> "edge_index": graph_batch.edge_index.to(device),
# repair: convert.py: "batch": graph_batch.batch, -> "batch": graph_batch.batch.to(device),
# repair: convert.py: "num_graphs": torch.tensor(graph_batch.num_graphs), -> "num_graphs": torch.tensor(graph_batch.num_graphs, device=device),
import torch
from torch.utils.data import DataLoader

from convert import GraphBatch, build_graph
from potential import Potential, PotentialModel

torch.manual_seed(0)
structures = [(torch.randint(1, 9, (size,)), 3 * torch.rand(size, 3)) for size in (3, 5, 4)]
graphs = [build_graph(numbers, positions, cutoff=2.5) for numbers, positions in structures]
loader = DataLoader(graphs, batch_size=2, collate_fn=GraphBatch)
potential = Potential(PotentialModel(width=8), device="cuda:0")
energies, forces = potential.predict_properties(loader, include_forces=True)
print("energies", [round(each, 4) for each in energies], "force", round(max(each.abs().max().item() for each in forces), 4))
# --- convert.py
from dataclasses import dataclass

import torch

@dataclass
class Graph:
    atomic_numbers: torch.Tensor
    positions: torch.Tensor
    edge_index: torch.Tensor

def build_graph(atomic_numbers, positions, cutoff):
    distance = torch.cdist(positions, positions)
    edges = ((distance < cutoff) & (distance > 0)).nonzero().T
    return Graph(atomic_numbers, positions, edges)

class GraphBatch:
    """One graph of many, whose nodes know which one they belong to."""

    def __init__(self, graphs):
        sizes = torch.tensor([len(each.positions) for each in graphs])
        starts = sizes.cumsum(0) - sizes
        self.num_graphs = len(graphs)
        self.atomic_numbers = torch.cat([each.atomic_numbers for each in graphs])
        self.positions = torch.cat([each.positions for each in graphs])
        self.edge_index = torch.cat([each.edge_index + start for each, start in zip(graphs, starts)], dim=1)
        self.batch = torch.arange(len(graphs)).repeat_interleave(sizes)

def batch_to_dict(graph_batch, model_type="m3gnet", device="cuda"):
    if model_type != "m3gnet":
        raise NotImplementedError(model_type)
    return {
        "atomic_numbers": graph_batch.atomic_numbers,
        "positions": graph_batch.positions,
        "edge_index": graph_batch.edge_index,
        "batch": graph_batch.batch,
        "num_graphs": torch.tensor(graph_batch.num_graphs),
    }
# --- potential.py
import torch
from torch import nn

from convert import batch_to_dict

class PotentialModel(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.atoms = nn.Embedding(10, width)
        self.message = nn.Sequential(nn.Linear(2 * width + 1, width), nn.SiLU(), nn.Linear(width, width))
        self.readout = nn.Linear(width, 1)

    def forward(self, inputs):
        source, target = inputs["edge_index"]
        nodes = self.atoms(inputs["atomic_numbers"])
        vectors = inputs["positions"][source] - inputs["positions"][target]
        distance = vectors.norm(dim=-1, keepdim=True)
        messages = self.message(torch.cat([nodes[source], nodes[target], distance], dim=-1))
        nodes = nodes.index_add(0, target, messages)
        energies = nodes.new_zeros(inputs["num_graphs"].item(), 1)
        return energies.index_add(0, inputs["batch"], self.readout(nodes)).squeeze(-1)

class Potential:
    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()

    def predict_properties(self, loader, include_forces=False):
        energies, forces = [], []
        for graph_batch in loader:
            inputs = batch_to_dict(graph_batch, device=self.device)
            inputs["positions"].requires_grad_(include_forces)
            total = self.model(inputs)
            if include_forces:
                forces.append(-torch.autograd.grad(total.sum(), inputs["positions"])[0])
            energies += total.detach().cpu().tolist()
        return energies, forces

# === emd_marginals
# thread: https://github.com/PythonOT/POT/issues/679
# about: costs are on the GPU, masses made by the library's own function are not; gradients, computed by numpy, go where the masses are, and autograd refuses them
# operation: .* on cuda:0, cpu
# operands: .*
# error: invalid gradient|on the same device|expected device
# category: default-or-current-device|input-not-moved|created-without-device|
# line: transport.py: type_as = a
# line: transport.py: return torch.full(
# line: main.py: masses = unif(
# line: main.py: loss = emd2(
# line: backend.py: return torch.from_numpy(
# repair: transport.py: type_as = a -> type_as = M
import torch
from torch import nn

from transport import dist, emd2, unif

class Generator(nn.Module):
    def __init__(self, noise, points):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(noise, 16), nn.ReLU(), nn.Linear(16, points))

    def forward(self, z):
        return self.layers(z)

def train(generator, samples, steps, device):
    optimizer = torch.optim.SGD(generator.parameters(), lr=0.05)
    masses = unif(len(samples))
    for _ in range(steps):
        fake = generator(torch.randn(len(samples), 3, generator=torch.Generator().manual_seed(2)).to(device))
        M = dist(fake, samples)
        loss = emd2(masses, masses, M)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()

torch.manual_seed(0)
device = torch.device("cuda:0")
samples = torch.randn(8, 2).to(device)
print("distance", round(train(Generator(3, 2).to(device), samples, 4, device), 4))
# --- backend.py
import torch
from torch.autograd import Function

class ValFunction(Function):
    """A value with gradients that somebody else has computed."""

    @staticmethod
    def forward(ctx, val, grads, *inputs):
        ctx.grads = grads
        return val

    @staticmethod
    def backward(ctx, grad_output):
        return (None, None) + tuple(grad.mul(grad_output.item()) for grad in ctx.grads)

class TorchBackend:
    def to_numpy(self, *tensors):
        return [each.detach().cpu().double().numpy() for each in tensors]

    def from_numpy(self, array, type_as):
        return torch.from_numpy(array).to(dtype=type_as.dtype, device=type_as.device)

    def set_gradients(self, val, inputs, grads):
        return ValFunction.apply(val, grads, *inputs)
# --- transport.py
import numpy as np
import torch
from scipy.optimize import linprog

from backend import TorchBackend

def unif(n):
    return torch.full((n,), 1 / n)

def dist(x1, x2):
    return (x1[:, None] - x2[None]).pow(2).sum(-1)

def solve(a, b, M):
    n, m = M.shape
    rows = np.kron(np.eye(n), np.ones(m))
    columns = np.kron(np.ones(n), np.eye(m))
    result = linprog(M.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([a, b]), bounds=(0, None), method="highs")
    return result.x.reshape(n, m), result.fun, result.eqlin.marginals[:n], result.eqlin.marginals[n:]

def emd2(a, b, M):
    nx = TorchBackend()
    a0, b0, M0 = a, b, M
    type_as = a
    G, cost, u, v = solve(*nx.to_numpy(a, b, M))
    cost = nx.from_numpy(np.asarray(cost), type_as)
    grads = [nx.from_numpy(u - u.mean(), a0), nx.from_numpy(v - v.mean(), b0), nx.from_numpy(G, type_as)]
    return nx.set_gradients(cost, (a0, b0, M0), grads)

# === window_weights
# thread: https://github.com/ProjectNeura/MIPCandy/pull/33
# about: windows are cut out of an image and put together again with weights, on a device of the cutter's own; where the windows are nobody asks
# operation: mul on cuda:0, cpu
# operands: part|self, weight|other
# category: created-without-device|default-or-current-device|input-not-moved
# line: sliding_window.py: coordinates = torch.arange(
# line: sliding_window.py: canvas = torch.zeros(
# line: sliding_window.py: acc_w = torch.zeros(
# line: sliding_window.py: weight = self.gaussian_1d(
# line: predictor.py: self.window = Square(
# repair: sliding_window.py: coordinates = torch.arange(k, dtype=torch.float32, device=self._device) - (k - 1) / 2 -> coordinates = torch.arange(k, dtype=torch.float32, device=device or self._device) - (k - 1) / 2
# repair: sliding_window.py: canvas = torch.zeros((batch, windows.shape[1], height, width), device=self._device) -> canvas = torch.zeros((batch, windows.shape[1], height, width), device=windows.device)
# repair: sliding_window.py: acc_w = torch.zeros((1, 1, height, width), device=self._device) -> acc_w = torch.zeros((1, 1, height, width), device=windows.device)
# repair: sliding_window.py: weight = self.gaussian_1d(size)[:, None] * self.gaussian_1d(size)[None] -> weight = self.gaussian_1d(size, device=windows.device)[:, None] * self.gaussian_1d(size, device=windows.device)[None]
import torch
from torch import nn

from predictor import Predictor

class Segmenter(nn.Sequential):
    def __init__(self, channels, classes):
        super().__init__(nn.Conv2d(channels, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, classes, 1))

torch.manual_seed(0)
predictor = Predictor(Segmenter(1, 3), window=8, device="cuda:0")
masks = predictor.predict([torch.rand(1, 20, 14), torch.rand(1, 9, 16)])
print("masks", [tuple(mask.shape) for mask in masks], [round(mask.float().mean().item(), 4) for mask in masks])
# --- predictor.py
import torch

from sliding_window import SlidingWindow

class Square(SlidingWindow):
    def __init__(self, size, **kwargs):
        super().__init__(**kwargs)
        self.size = size

    def get_window_size(self):
        return self.size

class Predictor:
    def __init__(self, model, window, device="cpu"):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        self.window = Square(window, overlap=0.5)

    @torch.no_grad()
    def predict_image(self, image):
        windows, metadata = self.window.do_sliding_window(image[None].to(self.device))
        logits = torch.cat([self.model(part) for part in windows.split(4)])
        return self.window.revert_sliding_window(logits, metadata)[0].argmax(dim=0)

    def predict(self, images):
        return [self.predict_image(image).cpu() for image in images]
# --- sliding_window.py
from abc import ABCMeta, abstractmethod
from dataclasses import dataclass

import torch

@dataclass
class Metadata:
    batch: int
    shape: tuple
    padded: tuple
    corners: list

class SlidingWindow(metaclass=ABCMeta):
    def __init__(self, overlap=0.5, device="cpu"):
        self.overlap, self._device = overlap, torch.device(device)

    @abstractmethod
    def get_window_size(self):
        raise NotImplementedError

    def gaussian_1d(self, k, sigma=0.25, device=None):
        coordinates = torch.arange(k, dtype=torch.float32, device=self._device) - (k - 1) / 2
        return torch.exp(-0.5 * (coordinates / (sigma * k)).square())

    def do_sliding_window(self, image):
        size = self.get_window_size()
        stride = int(size * (1 - self.overlap))
        height, width = image.shape[-2:]
        padded = [max(0, -(-(each - size) // stride)) * stride + size for each in (height, width)]
        image = torch.nn.functional.pad(image, (0, padded[1] - width, 0, padded[0] - height))
        corners = [(y, x) for y in range(0, padded[0] - size + 1, stride) for x in range(0, padded[1] - size + 1, stride)]
        windows = torch.cat([image[..., y : y + size, x : x + size] for y, x in corners])
        return windows, Metadata(len(image), (height, width), tuple(padded), corners)

    def revert_sliding_window(self, windows, metadata):
        size, batch = self.get_window_size(), metadata.batch
        height, width = metadata.padded
        canvas = torch.zeros((batch, windows.shape[1], height, width), device=self._device)
        acc_w = torch.zeros((1, 1, height, width), device=self._device)
        weight = self.gaussian_1d(size)[:, None] * self.gaussian_1d(size)[None]
        for (y, x), part in zip(metadata.corners, windows.split(batch)):
            canvas[..., y : y + size, x : x + size] += part * weight
            acc_w[..., y : y + size, x : x + size] += weight
        return (canvas / acc_w)[..., : metadata.shape[0], : metadata.shape[1]]

# === token_bitmask
# thread: https://github.com/dottxt-ai/outlines/pull/1714
# about: bits of allowed tokens are written by numpy, for which they have to stay on the host; scores to be masked by them are on the GPU
# operation: .*shift.*|bitwise.*|masked_fill.* on cpu, cuda:0
# operands: bitmask.*|self, bits|other
# category: input-not-moved|created-without-device
# line: processor.py: return apply_token_bitmask(scores, self.bitmasks)
# line: kernels.py: words = bitmask[:, :, None] >> bits
# repair: processor.py: return apply_token_bitmask(scores, self.bitmasks) -> return apply_token_bitmask(scores, self.bitmasks.to(scores.device))
import torch
from transformers import LlamaConfig, LlamaForCausalLM, LogitsProcessorList

from processor import Guide, StructuredLogitsProcessor

def digits_and_dashes(digits, dash, end):
    """Three digits, a dash, two digits."""
    index = {state: {token: state + 1 for token in digits} for state in (0, 1, 2, 4, 5)}
    return {**index, 3: {dash: 4}, 6: {end: 7}, 7: {end: 7}}

class Generator:
    def __init__(self, model):
        self.model = model.eval()

    def __call__(self, prompts, index, max_new_tokens):
        processors = LogitsProcessorList([StructuredLogitsProcessor(lambda: Guide(index))])
        prompts = prompts.to(self.model.device)
        output = self.model.generate(prompts, attention_mask=torch.ones_like(prompts), logits_processor=processors, max_new_tokens=max_new_tokens, do_sample=False)
        return output[:, prompts.shape[1] :]

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=70, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
    bos_token_id=1, eos_token_id=2, pad_token_id=2,
)
generator = Generator(LlamaForCausalLM(config).to("cuda:0"))
index = digits_and_dashes(digits=range(30, 40), dash=41, end=2)
print("tokens", generator(torch.randint(3, 70, (2, 4)), index, max_new_tokens=8).tolist())
# --- kernels.py
import numpy as np
import torch

def allocate_token_bitmask(batch_size, vocab_size):
    return torch.from_numpy(np.zeros((batch_size, (vocab_size + 31) // 32), dtype=np.int32))

def fill_bitmask(tokens, row):
    row[:] = 0
    for token in tokens:
        row.view(np.uint32)[token // 32] |= np.uint32(1 << token % 32)

def apply_token_bitmask(logits, bitmask):
    bits = torch.arange(32, dtype=torch.int32, device=logits.device)
    words = bitmask[:, :, None] >> bits
    allowed = (words & 1).bool().flatten(1)[:, : logits.shape[-1]]
    return logits.masked_fill(~allowed, float("-inf"))
# --- processor.py
from transformers import LogitsProcessor

from kernels import allocate_token_bitmask, apply_token_bitmask, fill_bitmask

class Guide:
    def __init__(self, index):
        self.index, self.state = index, 0

    def allowed(self):
        return self.index[self.state]

    def advance(self, token):
        self.state = self.index[self.state][token]

class StructuredLogitsProcessor(LogitsProcessor):
    def __init__(self, make_guide):
        self.make_guide, self.guides = make_guide, None

    def setup(self, batch_size, vocab_size):
        self.guides = [self.make_guide() for _ in range(batch_size)]
        self.bitmasks = allocate_token_bitmask(batch_size, vocab_size)

    def __call__(self, input_ids, scores):
        if self.guides is None:
            self.setup(*scores.shape)
        else:
            for guide, token in zip(self.guides, input_ids[:, -1].tolist()):
                guide.advance(token)
        for guide, row in zip(self.guides, self.bitmasks.numpy()):
            fill_bitmask(guide.allowed(), row)
        return apply_token_bitmask(scores, self.bitmasks)

# === derived_zero_point
# thread: https://github.com/pytorch/executorch/pull/14978
# about: a bias is quantized by scales of two observers, which a function joins; the zero that it adds is made anew, and is on the CPU
# operation: fake_quantize.* on cuda:0, cpu
# operands: .*bias.*|self|input, zero_point|zero
# category: created-without-device
# line: observers.py: zero = torch.zeros(scale.size()).to(torch.int32)
# line: observers.py: return scale, zero
# repair: observers.py: zero = torch.zeros(scale.size()).to(torch.int32) -> zero = torch.zeros(scale.size(), device=scale.device).to(torch.int32)
import torch
from torch import nn

from quantize import convert, prepare

torch.manual_seed(0)
device = torch.device("cuda:0")
model = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 4)).to(device).eval()
prepared = prepare(model)
with torch.no_grad():
    for _ in range(3):
        prepared(torch.randn(16, 6).to(device))
    quantized = convert(prepared)
    x = torch.randn(5, 6).to(device)
    error = (quantized(x) - model(x)).abs().max().item()
print("error", round(error, 4), "bits", [module.bits for module in quantized if hasattr(module, "bits")])
# --- observers.py
import torch
from torch import nn

class MinMaxObserver(nn.Module):
    def __init__(self, bits, axis=None):
        super().__init__()
        self.bits, self.axis = bits, axis
        self.register_buffer("peak", torch.zeros(()))

    def forward(self, x):
        peak = x.abs().max() if self.axis is None else x.abs().amax(dim=[i for i in range(x.dim()) if i != self.axis])
        self.peak = torch.maximum(self.peak, peak)
        return x

    def calculate_qparams(self):
        scale = (self.peak / (2 ** (self.bits - 1) - 1)).clamp_min(1e-8)
        return scale, torch.zeros_like(scale, dtype=torch.int32)

class DerivedObserver:
    def __init__(self, observers, derive_qparams):
        self.observers, self.derive_qparams = observers, derive_qparams

    def calculate_qparams(self):
        return self.derive_qparams(self.observers)

def derive_bias_qparams(observers):
    (act_scale, _), (weight_scale, _) = [each.calculate_qparams() for each in observers]
    scale = (act_scale * weight_scale).to(torch.float32)
    zero = torch.zeros(scale.size()).to(torch.int32)
    return scale, zero
# --- quantize.py
import copy

import torch
from torch import nn

from observers import DerivedObserver, MinMaxObserver, derive_bias_qparams

class ObservedLinear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.linear = linear
        device = linear.weight.device
        self.activation, self.weight = MinMaxObserver(8).to(device), MinMaxObserver(8, axis=0).to(device)
        self.bias = DerivedObserver([self.activation, self.weight], derive_bias_qparams)

    def forward(self, x):
        self.weight(self.linear.weight)
        return self.linear(self.activation(x))

class QuantizedLinear(nn.Module):
    bits = {"activation": 8, "weight": 8, "bias": 32}

    def __init__(self, observed):
        super().__init__()
        scale, zero_point = observed.weight.calculate_qparams()
        self.register_buffer("weight", torch.fake_quantize_per_channel_affine(observed.linear.weight, scale, zero_point, 0, -128, 127))
        scale, zero_point = observed.bias.calculate_qparams()
        self.register_buffer("bias", torch.fake_quantize_per_channel_affine(observed.linear.bias, scale, zero_point, 0, -(2**24), 2**24))
        scale, zero_point = observed.activation.calculate_qparams()
        self.scale, self.zero_point = scale.item(), int(zero_point)

    def forward(self, x):
        x = torch.fake_quantize_per_tensor_affine(x, self.scale, self.zero_point, -128, 127)
        return nn.functional.linear(x, self.weight, self.bias)

def prepare(model):
    return nn.Sequential(*(ObservedLinear(copy.deepcopy(each)) if isinstance(each, nn.Linear) else each for each in model))

def convert(prepared):
    return nn.Sequential(*(QuantizedLinear(each) if isinstance(each, ObservedLinear) else each for each in prepared))

# === lbfgs_gains
# thread: https://github.com/gdalsanto/flamo/issues/14
# about: an equalizer's gains are searched by L-BFGS in a function that is given all else on the device; they are made in it, and read in the closure
# operation: mv|matmul|mm|addmv on cuda:0, cpu
# operands: G|self|.*, parameters|gains|vec|other|.*
# category: created-without-device
# line: minimize.py: gains = nn.Parameter(torch.ones(
# line: minimize.py: predicted = G @ gains
# repair: minimize.py: gains = nn.Parameter(torch.ones(num_freq + 1)) -> gains = nn.Parameter(torch.ones(num_freq + 1, device=G.device))
import torch

from equalizer import GraphicEqualizer

class Reverberator:
    def __init__(self, delays, fs, device):
        self.delays, self.fs, self.device = delays, fs, torch.device(device)
        self.equalizer = GraphicEqualizer([125, 250, 500, 1000, 2000, 4000], fs, device=self.device)

    def attenuation(self, decay_times):
        """In decibels for each delay line and band."""
        return -60 * self.delays[:, None].to(self.device) / (self.fs * decay_times.to(self.device))

    def design(self, decay_times):
        targets = self.attenuation(decay_times)
        return torch.stack([self.equalizer.design(target) for target in targets])

reverberator = Reverberator(torch.tensor([997.0, 1153.0]), fs=48000, device="cuda:0")
gains = reverberator.design(torch.tensor([1.8, 1.6, 1.4, 1.2, 0.9, 0.7]))
print("gains", tuple(gains.shape), round(gains.sum().item(), 2))
# --- equalizer.py
import math

import torch

from minimize import minimize_lbfgs

class GraphicEqualizer:
    def __init__(self, centers, fs, device, points=48):
        self.centers = torch.tensor(centers, dtype=torch.float32, device=device)
        self.frequencies = torch.logspace(math.log10(60), math.log10(fs / 2), points, device=device)

    def interactions(self):
        """What each band does at each frequency, and one gain for all."""
        octaves = torch.log2(self.frequencies[:, None] / self.centers)
        bands = 1 / (1 + octaves.square() * 4)
        return torch.cat([torch.ones(len(bands), 1, device=bands.device), bands], dim=1)

    def interpolated(self, target):
        nearest = (self.frequencies[:, None].log() - self.centers.log()).abs().argmin(dim=1)
        return target[nearest]

    def design(self, target):
        return minimize_lbfgs(self.interactions(), self.interpolated(target), num_freq=len(self.centers))
# --- minimize.py
import torch
from torch import nn

def minimize_lbfgs(G, target, num_freq, max_iter=20, bound=10.0):
    gains = nn.Parameter(torch.ones(num_freq + 1))
    optimizer = torch.optim.LBFGS([gains], max_iter=max_iter, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        predicted = G @ gains
        loss = (predicted - target).square().mean() + torch.relu(gains.abs() - bound).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return gains.detach()

# === reordered_cache
# thread: https://github.com/huggingface/transformers/pull/43177
# about: a cache has its values in host memory and its keys on the GPU; the beams that go on are brought to where the keys are, for both
# operation: index_select on cpu, cuda:0
# operands: self.values|self, beam_idx|index
# category: input-not-moved|cached-state
# line: cache.py: self.values = self.values.index_select(0, beam_idx)
# line: cache.py: beam_idx = beam_idx.to(self.keys.device)
# line: cache.py: self.values = value_states.to(self.offload_device)
# repair: cache.py: self.values = self.values.index_select(0, beam_idx) -> self.values = self.values.index_select(0, beam_idx.to(self.values.device))
import torch
from torch import nn

from cache import OffloadedValuesCache
from search import beam_search

class Decoder(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.projections = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, cache):
        hidden = self.embed(tokens)
        for i, projection in enumerate(self.projections):
            q, k, v = projection(hidden).chunk(3, dim=-1)
            keys, values = cache.update(k, v, i)
            mask = torch.ones(q.shape[1], keys.shape[1], dtype=torch.bool, device=q.device).tril(keys.shape[1] - q.shape[1])
            hidden = hidden + nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return self.head(hidden[:, -1])

torch.manual_seed(0)
model = Decoder(vocabulary=17, width=12, layers=2).to("cuda:0").eval()
prompt = torch.randint(0, 17, (2, 4))
sequences, scores = beam_search(model, OffloadedValuesCache(2), prompt.to("cuda:0"), num_beams=3, max_new_tokens=5)
print("sequences", sequences.tolist(), [round(score, 3) for score in scores.tolist()])
# --- cache.py
import torch

class OffloadedValuesLayer:
    def __init__(self, offload_device):
        self.keys = self.values = None
        self.offload_device = torch.device(offload_device)

    def update(self, key_states, value_states):
        if self.keys is not None:
            key_states = torch.cat([self.keys, key_states], dim=1)
            value_states = torch.cat([self.values.to(value_states.device), value_states], dim=1)
        self.keys = key_states
        self.values = value_states.to(self.offload_device)
        return key_states, value_states

    def reorder_cache(self, beam_idx):
        if self.keys is not None and self.keys.numel():
            beam_idx = beam_idx.to(self.keys.device)
            self.keys = self.keys.index_select(0, beam_idx)
            self.values = self.values.index_select(0, beam_idx)

class OffloadedValuesCache:
    def __init__(self, layers, offload_device="cpu"):
        self.layers = [OffloadedValuesLayer(offload_device) for _ in range(layers)]

    def update(self, key_states, value_states, layer_idx):
        return self.layers[layer_idx].update(key_states, value_states)

    def reorder_cache(self, beam_idx):
        for layer in self.layers:
            layer.reorder_cache(beam_idx)
# --- search.py
import torch

@torch.no_grad()
def beam_search(model, cache, input_ids, num_beams, max_new_tokens):
    batch = len(input_ids)
    sequences = input_ids.repeat_interleave(num_beams, dim=0)
    scores = torch.full((batch, num_beams), -1e9, device=input_ids.device)
    scores[:, 0] = 0
    tokens = sequences
    for _ in range(max_new_tokens):
        log_probs = model(tokens, cache).log_softmax(dim=-1)
        vocabulary = log_probs.shape[-1]
        total = (scores.view(-1, 1) + log_probs).view(batch, -1)
        scores, flat = total.topk(num_beams, dim=-1)
        offsets = torch.arange(batch, device=flat.device)[:, None] * num_beams
        beam_idx = (flat // vocabulary + offsets).view(-1)
        tokens = (flat % vocabulary).view(-1, 1)
        sequences = torch.cat([sequences[beam_idx], tokens], dim=1)
        cache.reorder_cache(beam_idx)
    return sequences[::num_beams], scores[:, 0]

# === traced_anchors
# thread: https://github.com/ultralytics/ultralytics/pull/25569
# about: anchors are remembered for a size; forgotten once too often they are made in the trace, which writes the device of then into the graph
# operation: sub|mul|add on cpu, cuda:0
# operands: .*
# category: created-without-device|cached-state|default-or-current-device|
# line: export.py: head.shape = None
# line: export.py: traced = torch.jit.trace(
# line: head.py: sx = torch.arange(
# line: head.py: sy = torch.arange(
# line: main.py: model = torch.jit.load(
# repair: export.py: head.shape = None -> pass
import io

import torch

from export import export_torchscript
from head import Detector

torch.manual_seed(0)
file = export_torchscript(Detector(classes=2), io.BytesIO(), imgsz=32)
device = torch.device("cuda:0")
model = torch.jit.load(file, map_location=device)
with torch.no_grad():
    for image in torch.rand(2, 1, 3, 32, 32):
        boxes, scores = model(image.to(device))
        best = scores.flatten(1).argmax(dim=1)
print("boxes", tuple(boxes.shape), [round(value, 3) for value in boxes[0, :, best % boxes.shape[2]].flatten().tolist()])
# --- export.py
import torch

def export_torchscript(model, file, imgsz):
    model = model.float().eval()
    head = model.head
    image = torch.zeros(1, 3, imgsz, imgsz)
    head.shape, head.export = None, True
    with torch.no_grad():
        for _ in range(2):
            model(image)
        head.shape = None
        traced = torch.jit.trace(model, image, strict=False, check_trace=False)
    torch.jit.save(traced, file)
    file.seek(0)
    return file
# --- head.py
import torch
from torch import nn

def make_anchors(features, strides, offset=0.5):
    points, scales = [], []
    for feature, stride in zip(features, strides):
        height, width = feature.shape[-2:]
        sx = torch.arange(width, device=feature.device, dtype=feature.dtype) + offset
        sy = torch.arange(height, device=feature.device, dtype=feature.dtype) + offset
        y, x = torch.meshgrid(sy, sx, indexing="ij")
        points.append(torch.stack((x, y), -1).view(-1, 2))
        scales.append(torch.full((len(points[-1]), 1), stride, device=feature.device, dtype=feature.dtype))
    return torch.cat(points), torch.cat(scales)

class Detect(nn.Module):
    strides = (4.0, 8.0)

    def __init__(self, classes, widths):
        super().__init__()
        self.boxes = nn.ModuleList(nn.Conv2d(width, 4, 1) for width in widths)
        self.scores = nn.ModuleList(nn.Conv2d(width, classes, 1) for width in widths)
        self.shape, self.export = None, False

    def decode(self, features, distance):
        if self.shape != features[0].shape:
            self.anchors, self.scales = (each.T for each in make_anchors(features, self.strides))
            self.shape = features[0].shape
        lt, rb = distance.chunk(2, dim=1)
        return torch.cat([self.anchors[None] - lt, self.anchors[None] + rb], dim=1) * self.scales

    def forward(self, features):
        distance = torch.cat([box(each).flatten(2).exp() for box, each in zip(self.boxes, features)], dim=2)
        scores = torch.cat([score(each).flatten(2) for score, each in zip(self.scores, features)], dim=2)
        return self.decode(features, distance), scores.sigmoid()

class Detector(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.SiLU(), nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.SiLU())
        self.down = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.SiLU())
        self.head = Detect(classes, (8, 16))

    def forward(self, image):
        fine = self.stem(image)
        return self.head([fine, self.down(fine)])
