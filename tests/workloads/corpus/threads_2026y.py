# === clashes_after_a_rebuild
# thread: https://github.com/HatPdotS/TorchRef/pull/19
# about: atoms of a crystal must not clash. Which of them are near enough to matter is searched anew every few cycles, on the CPU; all that was built first went to the model's device
# operation: sub|rsub on cpu, cuda:0
# operands: .*vdw_limits.*|self|other|distances
# category: cached-state|created-without-device|state-not-registered
# line: restraints.py: self.vdw_limits = torch.from_numpy(
# line: restraints.py: clash = (self.vdw_limits - distances)
# line: refinement.py: model.restraints.build_vdw(
# line: restraints.py: self.to(xyz.device)
# repair: restraints.py: self.vdw_limits = torch.from_numpy(radii[pairs].sum(1)) -> self.vdw_limits = torch.from_numpy(radii[pairs].sum(1)).to(self.lengths.device)
# repair: restraints.py: self.vdw_pairs = torch.from_numpy(pairs) -> self.vdw_pairs = torch.from_numpy(pairs).to(self.lengths.device)
import torch

from refinement import Model, refine

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(5)
start = torch.arange(7.0)[:, None] * torch.tensor([1.2, 0.3, 0.0]) + 0.4 * torch.randn(7, 3, generator=generator)
model = Model(start, radii=torch.tensor([1.7, 1.5, 1.5, 1.7, 1.6, 1.5, 1.7])).to(device)
model.restraints.build(model.xyz)
print("targets", refine(model, cycles=5, every=2, step=0.02))
# --- restraints.py
import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import nn


class Restraints(nn.Module):
    """What is known of a molecule without any measurement: how long bonds are, and how near other atoms may come."""

    def __init__(self, bonds, lengths, radii, reach=4.0):
        super().__init__()
        self.register_buffer("bonds", bonds)
        self.register_buffer("lengths", lengths)
        self.register_buffer("radii", radii)
        self.register_buffer("vdw_pairs", None)
        self.register_buffer("vdw_limits", None)
        self.reach = reach

    def build(self, xyz):
        self.build_vdw(xyz)
        self.to(xyz.device)

    def build_vdw(self, xyz):
        tree = cKDTree(xyz.detach().cpu().numpy())
        pairs = np.unique(tree.query_pairs(self.reach, output_type="ndarray"), axis=0)
        pairs = pairs[pairs[:, 1] - pairs[:, 0] > 1]
        radii = self.radii.cpu().numpy()
        self.vdw_pairs = torch.from_numpy(pairs)
        self.vdw_limits = torch.from_numpy(radii[pairs].sum(1))

    def forward(self, xyz):
        first, second = self.bonds.unbind(1)
        stretch = (xyz[first] - xyz[second]).norm(dim=1) - self.lengths
        first, second = self.vdw_pairs.unbind(1)
        distances = (xyz[first] - xyz[second]).norm(dim=1)
        clash = (self.vdw_limits - distances).clamp(min=0)
        return (stretch**2).sum() + 0.1 * (clash**2).sum()
# --- refinement.py
import torch
from torch import nn

from restraints import Restraints


class Model(nn.Module):
    def __init__(self, xyz, radii):
        super().__init__()
        self.xyz = nn.Parameter(xyz)
        order = torch.arange(len(xyz))
        bonds = torch.stack([order[:-1], order[1:]], 1)
        self.restraints = Restraints(bonds, torch.full((len(bonds),), 1.5), radii)

    def forward(self):
        return self.restraints(self.xyz)


def maintenance(model):
    """Atoms have moved: others are neighbours now."""
    model.restraints.build_vdw(model.xyz)


def refine(model, cycles, every, step):
    optimizer, targets = torch.optim.SGD(model.parameters(), lr=step), []
    for cycle in range(cycles):
        if cycle and cycle % every == 0:
            maintenance(model)
        target = model()
        optimizer.zero_grad()
        target.backward()
        optimizer.step()
        targets.append(round(target.item(), 3))
    return targets

# === survivors_of_a_beam
# thread: https://github.com/roussel-ryan/gpsr/issues/73
# about: a network makes particles of a beam, which a line of magnets then bends and an aperture stops. It is trained until a screen shows what was measured
# operation: mul on cpu, cuda:0
# operands: .*survival.*|self|other|inside
# category: created-without-device
# line: beams.py: survival = torch.ones(
# line: beams.py: self.survival = survival
# line: generator.py: return ParticleBeam(
# line: lattice.py: return ParticleBeam(beam.particles, beam.energy, beam.survival * inside)
# line: lattice.py: return ParticleBeam(moved, beam.energy, beam.survival)
# repair: beams.py: survival = torch.ones(particles.shape[:-1]) -> survival = torch.ones(particles.shape[:-1], device=particles.device)
import torch

from generator import NNBeamGenerator
from lattice import Aperture, Drift, Quadrupole, Screen
from train import fit

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
lattice = torch.nn.Sequential(Quadrupole(0.4), Drift(0.8), Aperture(1.5), Drift(0.5)).to(device)
screen = Screen(bins=4, width=2.0).to(device)
measured = torch.tensor([0.1, 0.4, 0.4, 0.1])
generator = NNBeamGenerator(count=24, energy=1e6).to(device)
print("losses", fit(generator, lattice, screen, measured.to(device), epochs=4))
# --- beams.py
import torch


class ParticleBeam:
    """Places and slopes of particles, with the share of each that is still there."""

    def __init__(self, particles, energy, survival=None):
        self.particles, self.energy = particles, energy
        if survival is None:
            survival = torch.ones(particles.shape[:-1])
        self.survival = survival
# --- generator.py
import torch
from torch import nn

from beams import ParticleBeam


class NNBeamGenerator(nn.Module):
    def __init__(self, count, energy, width=8):
        super().__init__()
        base = torch.randn(count, 4, generator=torch.Generator().manual_seed(1))
        self.register_buffer("base_particles", base)
        self.register_buffer("energy", torch.tensor(energy))
        self.transform = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 4))

    def forward(self):
        particles = self.base_particles + self.transform(self.base_particles)
        return ParticleBeam(particles, self.energy)
# --- lattice.py
import torch
from torch import nn

from beams import ParticleBeam


class Linear(nn.Module):
    def __init__(self, matrix):
        super().__init__()
        self.register_buffer("matrix", torch.tensor(matrix))

    def forward(self, beam):
        moved = beam.particles @ self.matrix.T
        return ParticleBeam(moved, beam.energy, beam.survival)


class Drift(Linear):
    def __init__(self, length):
        super().__init__([[1, length, 0, 0], [0, 1, 0, 0], [0, 0, 1, length], [0, 0, 0, 1.0]])


class Quadrupole(Linear):
    def __init__(self, strength):
        super().__init__([[1, 0, 0, 0], [-strength, 1, 0, 0], [0, 0, 1, 0], [0, 0, strength, 1.0]])


class Aperture(nn.Module):
    def __init__(self, radius):
        super().__init__()
        self.radius = radius

    def forward(self, beam):
        off = beam.particles[..., ::2].norm(dim=-1)
        inside = torch.sigmoid(4 * (self.radius - off))
        return ParticleBeam(beam.particles, beam.energy, beam.survival * inside)


class Screen(nn.Module):
    """How much arrives in each bin, smooth enough to learn from."""

    def __init__(self, bins, width):
        super().__init__()
        self.register_buffer("centres", torch.linspace(-width, width, bins))

    def forward(self, beam):
        near = torch.exp(-((beam.particles[:, :1] - self.centres) ** 2))
        seen = (near * beam.survival[:, None]).sum(0)
        return seen / seen.sum()
# --- train.py
import torch


def fit(generator, lattice, screen, measured, epochs):
    optimizer, losses = torch.optim.Adam(generator.parameters(), lr=0.05), []
    for _ in range(epochs):
        loss = ((screen(lattice(generator())) - measured) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 5))
    return losses

# === charge_of_an_ellipsoid
# thread: https://github.com/desy-ml/cheetah/issues/483
# about: beams are drawn from distributions on the device that a caller names. If no charge is given, each particle has that of its kind, which is an electron if no kind is given
# operation: mul on cuda:0, cpu
# operands: total_charge.*|other|.*charge.*
# category: created-without-device|input-not-moved
# line: particle_beam.py: species = Species("electron")
# line: particle_beam.py: total_charge = species.charge
# line: particle_beam.py: shares = torch.ones(
# line: species.py: self.register_buffer("charge"
# line: main.py: incoming = ParticleBeam.uniform_ellipsoid(
# repair: particle_beam.py: species = Species("electron") -> species = Species("electron").to(device)
import torch

from particle_beam import ParticleBeam
from space_charge import Kick

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
incoming = ParticleBeam.uniform_ellipsoid(radius=torch.tensor([1.0, 0.5, 2.0], device=device), count=12, seed=3, device=device)
outgoing = Kick(length=0.3).to(device)(incoming)
print("momenta", [round(value, 4) for value in outgoing.momenta[0].tolist()], "spread", round(outgoing.momenta.std().item(), 4))
# --- species.py
import torch
from torch import nn

KNOWN = {"electron": (-1.0, 0.511), "proton": (1.0, 938.272)}


class Species(nn.Module):
    def __init__(self, name):
        super().__init__()
        charge, mass = KNOWN[name]
        self.name = name
        self.register_buffer("charge", torch.tensor(charge))
        self.register_buffer("mass", torch.tensor(mass))
# --- particle_beam.py
import torch
from torch import nn

from species import Species


class ParticleBeam(nn.Module):
    def __init__(self, positions, momenta, charges, species):
        super().__init__()
        self.register_buffer("positions", positions)
        self.register_buffer("momenta", momenta)
        self.register_buffer("charges", charges)
        self.species = species

    @classmethod
    def uniform_ellipsoid(cls, radius, count, seed, total_charge=None, species=None, device=None):
        draw = torch.Generator().manual_seed(seed)
        direction = nn.functional.normalize(torch.randn(count, 3, generator=draw), dim=1)
        share = torch.rand(count, 1, generator=draw) ** (1 / 3)
        positions = (share * direction).to(device) * radius
        return cls.at_rest(positions, total_charge, species, device)

    @classmethod
    def at_rest(cls, positions, total_charge=None, species=None, device=None):
        count = len(positions)
        if species is None:
            species = Species("electron")
        if total_charge is None:
            total_charge = species.charge * count
        shares = torch.ones(count, device=device) * total_charge.unsqueeze(-1)
        return cls(positions, torch.zeros_like(positions), shares / count, species)
# --- space_charge.py
import torch
from torch import nn

from particle_beam import ParticleBeam


class Kick(nn.Module):
    """What particles of a beam do to one another on a short way."""

    def __init__(self, length):
        super().__init__()
        self.length = length

    def forward(self, beam):
        apart = beam.positions[:, None] - beam.positions[None]
        distance = apart.norm(dim=-1) + 0.1
        force = beam.charges[:, None, None] * beam.charges[None, :, None] * apart / distance[..., None] ** 3
        momenta = beam.momenta + self.length * force.sum(1)
        return ParticleBeam(beam.positions, momenta, beam.charges, beam.species)

# === two_tracks_of_two_rates
# thread: https://github.com/christian-byrne/audio-separation-nodes-comfyui/pull/31
# about: nodes of a graph hand tracks to each other. Two of them are combined; the one with the lower rate is brought to the other's rate first, which a GPU does
# operation: add_? on cuda:0, cpu
# operands: waveform_1|waveform_2|self|other
# category: input-not-moved
# line: combine.py: waveform_1.to("cpu")
# line: combine.py: return waveform_1 + waveform_2
# line: combine.py: waveform_1 = resample(
# line: combine.py: waveform_1, waveform_2 = waveform_1[
# repair: combine.py: waveform_1.to("cpu") -> waveform_1 = waveform_1.to("cpu")
import torch

from graph import run
from nodes import AudioCombine, Gain, Tone

graph = {
    "voice": (Tone(), {"pitch": 3.0, "rate": 8}),
    "noise": (Tone(), {"pitch": 5.0, "rate": 16}),
    "soft": (Gain(), {"audio": "voice", "factor": 0.5}),
    "both": (AudioCombine(), {"audio_1": "soft", "audio_2": "noise", "method": "add"}),
}
mixed = run(graph, "both")
print("rate", mixed["sample_rate"], "samples", [round(value, 3) for value in mixed["waveform"][0, 0, 1:9].tolist()])
# --- graph.py
def run(graph, name):
    """What a node gives; others are run as they are asked for."""
    node, inputs = graph[name]
    known = {key: run(graph, value) if value in graph else value for key, value in inputs.items()}
    return getattr(node, node.FUNCTION)(**known)
# --- nodes.py
import math

import torch

from combine import combined


class Tone:
    FUNCTION = "make"

    def make(self, pitch, rate):
        time = torch.arange(2 * rate) / rate
        return {"waveform": torch.sin(2 * math.pi * pitch * time)[None, None], "sample_rate": rate}


class Gain:
    FUNCTION = "apply"

    def apply(self, audio, factor):
        return {**audio, "waveform": factor * audio["waveform"]}


class AudioCombine:
    FUNCTION = "main"
    METHODS = ("add", "mean")

    def main(self, audio_1, audio_2, method="add"):
        rate = max(audio_1["sample_rate"], audio_2["sample_rate"])
        waveform = combined(audio_1["waveform"], audio_1["sample_rate"], audio_2["waveform"], audio_2["sample_rate"])
        return {"waveform": waveform / (2 if method == "mean" else 1), "sample_rate": rate}
# --- combine.py
from torch_device import get_device

from resample import resample


def combined(waveform_1, rate_1, waveform_2, rate_2):
    if rate_1 < rate_2:
        waveform_1 = resample(waveform_1.to(get_device()), rate_1, rate_2)
        waveform_1.to("cpu")
    elif rate_2 < rate_1:
        waveform_2 = resample(waveform_2.to(get_device()), rate_2, rate_1)
        waveform_2 = waveform_2.to("cpu")
    length = min(waveform_1.shape[-1], waveform_2.shape[-1])
    waveform_1, waveform_2 = waveform_1[..., :length], waveform_2[..., :length]
    return waveform_1 + waveform_2
# --- resample.py
import math

import torch


def resample(waveform, old, new, taps=8):
    """By a windowed sinc."""
    at = torch.arange(waveform.shape[-1] * new // old, device=waveform.device) * old / new
    offset = torch.arange(waveform.shape[-1], device=waveform.device)[None] - at[:, None]
    kernel = torch.sinc(offset) * torch.cos(math.pi * offset / (2 * taps)) ** 2 * (offset.abs() < taps)
    return waveform @ kernel.T
# --- torch_device.py
import torch


def get_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")

# === decoders_read_when_needed
# thread: https://github.com/decoderesearch/circuit-tracer/pull/63
# about: features of a layer write to all later layers, so a transcoder's weights do not all fit into a GPU. They stay in a file until asked for. The second GPU is to do the work
# operation: addmm|linear|mm|matmul|t on cuda:1, cuda:0
# operands: .*weight.*|mat2|.*W_.*|encoder|other|bias
# category: default-or-current-device
# line: cross_layer_transcoder.py: with safe_open(
# line: cross_layer_transcoder.py: return file.get_tensor(
# line: cross_layer_transcoder.py: features = (hidden @ self.read(
# line: cross_layer_transcoder.py: written[target] = written[target] + features @ self.read(
# line: main.py: device = torch.device(
# repair: cross_layer_transcoder.py: with safe_open(self.path, framework="pt", device=self.device.type) as file: -> with safe_open(self.path, framework="pt", device=str(self.device)) as file:
import tempfile
from pathlib import Path

import torch

from cross_layer_transcoder import load_clt
from replacement import ReplacementModel
from weights import write

torch.manual_seed(0)
device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "clt.safetensors"
    write(path, layers=3, width=4, features=6)
    clt = load_clt(path, layers=3, device=device)
    model = ReplacementModel(layers=3, width=4, clt=clt).to(device)
    tokens = torch.randn(2, 4, generator=torch.Generator().manual_seed(1)).to(device)
    with torch.no_grad():
        print("left over", [round(error, 4) for error in model.errors(tokens)])
# --- weights.py
import torch
from safetensors.torch import save_file


def write(path, layers, width, features):
    draw = torch.Generator().manual_seed(7)
    tensors = {}
    for layer in range(layers):
        tensors[f"W_enc_{layer}"] = torch.randn(width, features, generator=draw) / 2
        for target in range(layer, layers):
            tensors[f"W_dec_{layer}_{target}"] = torch.randn(features, width, generator=draw) / 4
    save_file(tensors, path)
# --- cross_layer_transcoder.py
import torch
from safetensors import safe_open
from torch import nn


class CrossLayerTranscoder(nn.Module):
    """Sparse features of each layer, written to that layer and to all after it."""

    def __init__(self, path, layers, device):
        super().__init__()
        self.path, self.layers, self.device = path, layers, device
        self.threshold = nn.Parameter(torch.full((layers,), 0.1, device=device))

    def read(self, name):
        with safe_open(self.path, framework="pt", device=self.device.type) as file:
            return file.get_tensor(name)

    def forward(self, inputs):
        written = [torch.zeros_like(each) for each in inputs]
        for layer, hidden in enumerate(inputs):
            features = (hidden @ self.read(f"W_enc_{layer}") - self.threshold[layer]).relu()
            for target in range(layer, self.layers):
                written[target] = written[target] + features @ self.read(f"W_dec_{layer}_{target}")
        return written


def load_clt(path, layers, device):
    return CrossLayerTranscoder(path, layers, torch.device(device))
# --- replacement.py
from torch import nn


class ReplacementModel(nn.Module):
    def __init__(self, layers, width, clt):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(layers))
        self.clt = clt

    def errors(self, hidden):
        """What of each block's output its features do not explain."""
        inputs, outputs = [], []
        for block in self.blocks:
            inputs.append(hidden)
            outputs.append(block(hidden))
            hidden = hidden + outputs[-1]
        return [(output - told).norm().item() for output, told in zip(outputs, self.clt(inputs))]

# === light_through_a_circuit
# thread: https://github.com/merlinquantum/merlin/issues/22
# about: a layer of a network is a circuit that light goes through. It can be told a circuit, or an ansatz from which it makes one. It is told the device that it is to work on
# operation: addmm|linear on cpu, cuda:0
# operands: input|mat1|x|.*probabilities.*
# category: created-without-device|input-not-moved|cached-state
# line: layer.py: process = Process(ansatz.circuit())
# line: process.py: self.device = device or torch.device("cpu")
# line: process.py: angles = angles.to(self.device)
# line: process.py: return state**2
# line: layer.py: return self.process.probabilities(
# line: layer.py: self.process = process
# line: main.py: nn.Linear(3, 2)
# line: main.py: QuantumLayer(
# repair: layer.py: process = Process(ansatz.circuit()) -> process = Process(ansatz.circuit(), device)
import torch
from torch import nn

from circuit import Ansatz
from layer import QuantumLayer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(
    nn.Linear(4, 3),
    QuantumLayer(ansatz=Ansatz(modes=3, depth=2), inputs=3, device=device),
    nn.Linear(3, 2),
).to(device)
x = torch.rand(6, 4, generator=torch.Generator().manual_seed(2)).to(device)
y = torch.tensor([0, 1, 1, 0, 1, 0], device=device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
losses = []
for step in range(4):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- circuit.py
class Ansatz:
    """A known shape of circuits, by how many modes and how deep."""

    def __init__(self, modes, depth):
        self.modes, self.depth = modes, depth

    def circuit(self):
        splitters = [(layer, mode) for layer in range(self.depth) for mode in range(layer % 2, self.modes - 1, 2)]
        return {"modes": self.modes, "splitters": [mode for _, mode in splitters]}
# --- process.py
import torch


class Process:
    """Computes what comes out of a circuit."""

    def __init__(self, circuit, device=None):
        self.circuit = circuit
        self.device = device or torch.device("cpu")

    @property
    def angles(self):
        return len(self.circuit["splitters"])

    def probabilities(self, angles):
        angles = angles.to(self.device)
        state = torch.zeros(len(angles), self.circuit["modes"], device=self.device)
        state[:, 0] = 1
        for angle, mode in zip(angles.unbind(1), self.circuit["splitters"]):
            columns = list(state.unbind(1))
            upper, lower = columns[mode], columns[mode + 1]
            columns[mode] = angle.cos() * upper - angle.sin() * lower
            columns[mode + 1] = angle.sin() * upper + angle.cos() * lower
            state = torch.stack(columns, 1)
        return state**2
# --- layer.py
import torch
from torch import nn

from process import Process


class QuantumLayer(nn.Module):
    def __init__(self, inputs, circuit=None, ansatz=None, device=None):
        super().__init__()
        if ansatz is not None:
            process = Process(ansatz.circuit())
        else:
            process = Process(circuit, device)
        self.process = process
        self.encode = nn.Linear(inputs, process.angles).to(device)
        self.phases = nn.Parameter(torch.linspace(0.1, 0.9, process.angles, device=device))

    def forward(self, x):
        return self.process.probabilities(self.encode(x) + self.phases)

# === sizes_in_a_keyframe
# thread: https://github.com/ChenHoy/DROID-Splat/issues/21
# about: a map is made of splats, and each remembers the keyframe in which it was first seen. How big those of a few keyframes are on average tells how to scale a new one's depth
# operation: logical_or|bitwise_or|__or__ on cuda:0, cpu
# operands: other|.*unique_kfIDs.*|.*ids.*|select
# category: created-without-device|cached-state|input-not-moved
# line: gaussian_model.py: new_kf_ids = torch.full(
# line: gaussian_model.py: self.unique_kfIDs = torch.empty(
# line: gaussian_model.py: self.unique_kfIDs = torch.cat(
# line: gaussian_model.py: select = torch.logical_or(
# line: gaussian_model.py: select = torch.zeros(
# repair: gaussian_model.py: new_kf_ids = torch.full((len(points),), kf_id, dtype=torch.int) -> new_kf_ids = torch.full((len(points),), kf_id, dtype=torch.int, device=points.device)
# repair: gaussian_model.py: self.unique_kfIDs = torch.empty(0, dtype=torch.int) -> self.unique_kfIDs = torch.empty(0, dtype=torch.int, device=device)
import torch

from gaussian_model import GaussianModel
from mapper import Mapper
from stream import frames

device = "cuda" if torch.cuda.is_available() else "cpu"
mapper = Mapper(GaussianModel(device), window=2, device=device)
for number, (depth, pose) in enumerate(frames(count=4, pixels=6, seed=8)):
    mapper.track(number, depth, pose)
print("splats", len(mapper.gaussians.xyz), "scales", [round(scale, 4) for scale in mapper.scales])
# --- stream.py
import torch


def frames(count, pixels, seed):
    draw = torch.Generator().manual_seed(seed)
    for number in range(count):
        yield 1 + torch.rand(pixels, generator=draw), torch.tensor([0.1 * number, 0.0, 0.0])
# --- gaussian_model.py
import torch


class GaussianModel:
    def __init__(self, device):
        self.device = device
        self.xyz = torch.empty(0, 3, device=device)
        self.scaling = torch.empty(0, device=device)
        self.unique_kfIDs = torch.empty(0, dtype=torch.int)

    def extend_from_points(self, points, kf_id):
        """Each new splat is as big as its nearest neighbour is far."""
        apart = torch.cdist(points, points) + 1e3 * torch.eye(len(points), device=points.device)
        new_kf_ids = torch.full((len(points),), kf_id, dtype=torch.int)
        self.xyz = torch.cat([self.xyz, points])
        self.scaling = torch.cat([self.scaling, apart.min(1).values])
        self.unique_kfIDs = torch.cat([self.unique_kfIDs, new_kf_ids])

    def get_avg_scale(self, kf_ids):
        select = torch.zeros(len(self.xyz), dtype=torch.bool, device=self.xyz.device)
        for kf_id in kf_ids:
            select = torch.logical_or(select, self.unique_kfIDs == kf_id)
        return self.scaling[select].mean()
# --- mapper.py
import torch


class Mapper:
    def __init__(self, gaussians, window, device):
        self.gaussians, self.window, self.device = gaussians, window, device
        self.keyframes, self.scales = [], []

    def points(self, depth, pose):
        across = torch.linspace(-1, 1, len(depth), device=self.device)
        depth = depth.to(self.device)
        return torch.stack([across * depth, torch.zeros_like(depth), depth], 1) + pose.to(self.device)

    def track(self, number, depth, pose):
        factor = 1.0
        if len(self.keyframes) >= self.window:
            factor = self.gaussians.get_avg_scale(self.keyframes[-self.window :]).item()
            self.scales.append(factor)
        self.gaussians.extend_from_points(self.points(depth * (1 + 0.1 * factor), pose), number)
        self.keyframes.append(number)

# === graph_before_a_question
# thread: https://github.com/XiaoxinHe/G-Retriever/issues/38
# about: a question about a graph is put to a language model: what a graph network says of the graph stands where a word would, before the question's words
# operation: embedding|index_select on cuda:0, cpu
# operands: index|indices|input|.*ids.*|question
# category: input-not-moved
# line: graph_llm.py: question = torch.tensor(
# line: graph_llm.py: question_embeds = self.word_embedding(
# repair: graph_llm.py: question = torch.tensor(self.tokenizer.encode(text)) -> question = torch.tensor(self.tokenizer.encode(text), device=self.device)
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from dataset import SceneGraphs
from graph_llm import GraphLLM
from tokenizer import WordTokenizer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
dataset = SceneGraphs()
tokenizer = WordTokenizer(dataset.texts)
config = LlamaConfig(
    vocab_size=len(tokenizer.words), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=2, bos_token_id=1, eos_token_id=None, pad_token_id=0,
)  # fmt: skip
model = GraphLLM(LlamaForCausalLM(config), tokenizer, node_width=3).to(device).eval()
answers = [model.inference(sample, new=3) for sample in dataset]
print("answers", answers)
# --- tokenizer.py
class WordTokenizer:
    def __init__(self, texts):
        self.words = ["<pad>", "<s>"] + sorted({word for text in texts for word in text.split()})

    def encode(self, text):
        return [1] + [self.words.index(word) for word in text.split()]

    def decode(self, ids):
        return " ".join(self.words[index] for index in ids)
# --- dataset.py
import torch


class SceneGraphs:
    texts = ["what is left of the cup", "is the plate on the table"]

    def __iter__(self):
        draw = torch.Generator().manual_seed(3)
        for text in self.texts:
            edges = torch.tensor([[0, 1, 2, 3], [1, 2, 0, 0]])
            yield {"x": torch.randn(4, 3, generator=draw), "edge_index": edges, "question": text}
# --- gnn.py
import torch
from torch import nn


class GraphEncoder(nn.Module):
    def __init__(self, node_width, width):
        super().__init__()
        self.own, self.others = nn.Linear(node_width, width), nn.Linear(node_width, width)

    def forward(self, x, edge_index):
        source, target = edge_index
        gathered = torch.zeros_like(x).index_add_(0, target, x[source])
        return (self.own(x) + self.others(gathered)).relu().mean(0, keepdim=True)
# --- graph_llm.py
import torch
from torch import nn

from gnn import GraphEncoder


class GraphLLM(nn.Module):
    def __init__(self, llm, tokenizer, node_width):
        super().__init__()
        self.model, self.tokenizer = llm, tokenizer
        self.word_embedding = llm.get_input_embeddings()
        width = llm.config.hidden_size
        self.graph_encoder = GraphEncoder(node_width, 8)
        self.projector = nn.Sequential(nn.Linear(8, 12), nn.Sigmoid(), nn.Linear(12, width))

    @property
    def device(self):
        return self.model.device

    def encode_graph(self, sample):
        return self.projector(self.graph_encoder(sample["x"].to(self.device), sample["edge_index"].to(self.device)))

    @torch.no_grad()
    def inference(self, sample, new):
        text = sample["question"]
        question = torch.tensor(self.tokenizer.encode(text))
        graph_embeds = self.encode_graph(sample)
        question_embeds = self.word_embedding(question)
        inputs_embeds = torch.cat([question_embeds[:1], graph_embeds, question_embeds[1:]])[None]
        mask = torch.ones(inputs_embeds.shape[:2], dtype=torch.long, device=self.device)
        ids = self.model.generate(inputs_embeds=inputs_embeds, attention_mask=mask, max_new_tokens=new, do_sample=False)
        return self.tokenizer.decode(ids[0].tolist())

# === better_of_two_answers
# thread: https://github.com/huggingface/alignment-handbook/issues/209
# about: a model learns which of two answers people like better, while another of the same kind tells how likely both were at first
# operation: embedding|index_select on cpu, cuda:0
# operands: .*ids.*|index|indices|input|weight|self.*
# category: module-split|input-not-moved
# line: trainer.py: self.ref_model = ref_model.eval()
# line: trainer.py: reference = self.log_probabilities(self.ref_model, batch)
# line: trainer.py: self.model, self.optimizer, self.loader = accelerator.prepare(
# line: run_dpo.py: ref_model = AutoModelForCausalLM.from_config(
# line: run_dpo.py: ref_model.load_state_dict(
# line: run_dpo.py: trainer = DPOTrainer(
# line: trainer.py: logits = model(
# repair: trainer.py: self.ref_model = ref_model.eval() -> self.ref_model = accelerator.prepare_model(ref_model.eval(), evaluation_mode=True)
from run_dpo import main

main(beta=0.2, epochs=2)
# --- data.py
import torch
from torch.utils.data import Dataset


class Preferences(Dataset):
    """A prompt with an answer that was chosen and one that was rejected."""

    def __init__(self, count, words, seed):
        draw = torch.Generator().manual_seed(seed)
        self.rows = torch.randint(1, words, (count, 2, 6), generator=draw)
        self.rows[:, 1, :3] = self.rows[:, 0, :3]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        chosen, rejected = self.rows[index]
        return {"chosen_ids": chosen, "rejected_ids": rejected}
# --- run_dpo.py
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, GPT2Config

from data import Preferences
from trainer import DPOTrainer


def main(beta, epochs):
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=20, n_positions=16, n_embd=12, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    model = AutoModelForCausalLM.from_config(config)
    ref_model = AutoModelForCausalLM.from_config(config)
    ref_model.load_state_dict(model.state_dict())
    loader = DataLoader(Preferences(count=6, words=20, seed=4), batch_size=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    trainer = DPOTrainer(Accelerator(), model, ref_model, optimizer, loader, beta, prompt=3)
    print("losses", trainer.train(epochs))
# --- trainer.py
import torch
from torch import nn


class DPOTrainer:
    def __init__(self, accelerator, model, ref_model, optimizer, loader, beta, prompt):
        self.accelerator, self.beta, self.prompt = accelerator, beta, prompt
        self.model, self.optimizer, self.loader = accelerator.prepare(model, optimizer, loader)
        self.ref_model = ref_model.eval()

    def log_probabilities(self, model, batch):
        """Of both answers, the chosen ones first."""
        ids = torch.cat([batch["chosen_ids"], batch["rejected_ids"]])
        logits = model(input_ids=ids).logits[:, :-1]
        each = logits.log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
        return each[:, self.prompt - 1 :].sum(1).chunk(2)

    def loss(self, batch):
        chosen, rejected = self.log_probabilities(self.model, batch)
        with torch.no_grad():
            reference = self.log_probabilities(self.ref_model, batch)
        margin = (chosen - reference[0]) - (rejected - reference[1])
        return -nn.functional.logsigmoid(self.beta * margin).mean()

    def train(self, epochs):
        losses = []
        for _ in range(epochs):
            for batch in self.loader:
                loss = self.loss(batch)
                self.optimizer.zero_grad()
                self.accelerator.backward(loss)
                self.optimizer.step()
                losses.append(round(loss.item(), 4))
        return losses

# === denoiser_in_fewer_bits
# thread: https://github.com/huggingface/optimum-quanto/issues/376
# about: a pipeline's biggest part is rounded to few bits, which its wrapper does. Parts wait in RAM until the pipeline needs them, as its library sees to
# operation: addmm|linear|.*conv.* on cuda:0, cpu
# operands: input|mat1|sample|.*emb.*|self|weight|bias|latents
# error: on the same device|Input type
# category: module-split|input-not-moved
# line: main.py: pipeline = DenoisingPipeline(
# line: main.py: pipeline.enable_model_cpu_offload(
# line: main.py: denoiser = QuantizedModel.quantize(
# line: quantized.py: return self.wrapped(
# line: quantized.py: class QuantizedModel
# line: pipeline.py: predicted = self.denoiser(
# repair: main.py: pipeline = DenoisingPipeline(denoiser=denoiser, vae=vae, scheduler=DDIMScheduler(num_train_timesteps=20)) -> pipeline = DenoisingPipeline(denoiser=denoiser.wrapped, vae=vae, scheduler=DDIMScheduler(num_train_timesteps=20))
import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DModel

from pipeline import DenoisingPipeline
from quantized import QuantizedModel

torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8,), norm_num_groups=4,
    down_block_types=("DownBlock2D",), up_block_types=("UpBlock2D",),
)  # fmt: skip
vae = AutoencoderKL(block_out_channels=(8,), latent_channels=4, norm_num_groups=4, sample_size=8)
denoiser = QuantizedModel.quantize(unet, bits=8)
pipeline = DenoisingPipeline(denoiser=denoiser, vae=vae, scheduler=DDIMScheduler(num_train_timesteps=20))
if torch.cuda.is_available():
    pipeline.enable_model_cpu_offload(gpu_id=0)
image = pipeline(steps=2, generator=torch.Generator().manual_seed(3))
print("image", tuple(image.shape), "mean", round(image.mean().item(), 3))
# --- quantized.py
import torch


class QuantizedModel:
    """A model whose weights were rounded; it can be called and asked as the model itself."""

    def __init__(self, wrapped, bits):
        self.wrapped, self.bits = wrapped, bits

    @classmethod
    @torch.no_grad()
    def quantize(cls, model, bits, exclude=("norm",)):
        most = 2 ** (bits - 1) - 1
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and not any(part in name for part in exclude):
                scale = parameter.abs().amax() / most
                parameter.copy_((parameter / scale).round() * scale)
        return cls(model.eval(), bits)

    def __call__(self, *args, **kwargs):
        return self.wrapped(*args, **kwargs)

    @property
    def config(self):
        return self.wrapped.config
# --- pipeline.py
import torch
from diffusers import DiffusionPipeline
from diffusers.utils.torch_utils import randn_tensor


class DenoisingPipeline(DiffusionPipeline):
    model_cpu_offload_seq = "denoiser->vae"

    def __init__(self, denoiser, vae, scheduler):
        super().__init__()
        self.register_modules(denoiser=denoiser, vae=vae, scheduler=scheduler)

    @torch.no_grad()
    def __call__(self, steps, generator=None):
        device = self._execution_device
        config = self.denoiser.config
        shape = (1, config.in_channels, config.sample_size, config.sample_size)
        latents = randn_tensor(shape, generator=generator, device=device)
        self.scheduler.set_timesteps(steps, device=device)
        for step in self.scheduler.timesteps:
            predicted = self.denoiser(latents, step).sample
            latents = self.scheduler.step(predicted, step, latents).prev_sample
        return self.vae.decode(latents).sample.cpu()

# === averages_of_a_resumed_run
# thread: https://github.com/MultimediaTechLab/YOLO/pull/235
# about: weights of a detector are averaged over all steps, by a callback of its trainer. The average is kept in the checkpoint with which a run goes on
# operation: lerp_?|_foreach_lerp_? on cpu, cuda:0
# operands: self|end|.*shadow.*|average|parameter
# category: checkpoint|cached-state
# line: ema.py: self.shadow = dict(
# line: ema.py: average.lerp_(
# line: ema.py: average = self.shadow[name]
# line: ema.py: if self.shadow is None:
# repair: ema.py: average.lerp_(parameter.detach(), 1 - self.beta()) -> self.shadow[name] = average.to(parameter.device).lerp_(parameter.detach(), 1 - self.beta())
import logging
import tempfile
import warnings

import lightning
import torch

from data import loader
from detector import Detector
from ema import EMA

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def trainer(epochs, average, folder):
    return lightning.Trainer(
        accelerator="gpu" if torch.cuda.is_available() else "cpu", devices=1, max_epochs=epochs, callbacks=[average], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip


with tempfile.TemporaryDirectory() as folder:
    torch.manual_seed(0)
    first = trainer(1, EMA(decay=0.9), folder)
    first.fit(Detector(anchors=3), loader())
    first.save_checkpoint(f"{folder}/last.ckpt")
    average = EMA(decay=0.9)
    trainer(2, average, folder).fit(Detector(anchors=3), loader(), ckpt_path=f"{folder}/last.ckpt")
    print("steps", average.steps, "average", round(sum(each.sum().item() for each in average.shadow.values()), 4))
# --- data.py
import torch
from torch.utils.data import DataLoader, TensorDataset


def loader():
    draw = torch.Generator().manual_seed(6)
    return DataLoader(TensorDataset(torch.rand(8, 5, generator=draw), torch.rand(8, 3, 4, generator=draw)), batch_size=4)
# --- detector.py
import lightning
import torch
from torch import nn


class Detector(lightning.LightningModule):
    def __init__(self, anchors):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(5, 8), nn.SiLU())
        self.head = nn.Linear(8, anchors * 4)

    def forward(self, images):
        return self.head(self.backbone(images)).unflatten(1, (-1, 4))

    def training_step(self, batch, index):
        images, boxes = batch
        return nn.functional.smooth_l1_loss(self(images), boxes)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
# --- ema.py
import lightning
import torch


class EMA(lightning.Callback):
    def __init__(self, decay, warm=4):
        self.decay, self.warm, self.steps, self.shadow = decay, warm, 0, None

    def beta(self):
        return self.decay * (1 - 2.0 ** (-self.steps / self.warm))

    def on_train_start(self, trainer, module):
        if self.shadow is None:
            self.shadow = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}

    @torch.no_grad()
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_index):
        self.steps += 1
        for name, parameter in module.named_parameters():
            average = self.shadow[name]
            average.lerp_(parameter.detach(), 1 - self.beta())

    def state_dict(self):
        return {"steps": self.steps, "shadow": {name: average.cpu() for name, average in self.shadow.items()}}

    def load_state_dict(self, state):
        self.steps = state["steps"]
        self.shadow = dict(state["shadow"])

# === room_for_words_to_come
# thread: https://github.com/boson-ai/higgs-audio/pull/2
# about: a server of voices keeps rooms of a few lengths for what earlier words leave behind, made once, and takes the smallest in which a request fits. Its model is on the second GPU
# operation: add on cuda:1, cuda:0
# operands: past_seen_tokens|other|self|.*arange.*
# category: default-or-current-device
# line: serve_engine.py: cache.early_initialization(
# line: serve_engine.py: self.device = device
# line: main.py: engine = ServeEngine(
# line: main.py: model = tiny_model(
# line: main.py: device = "cuda"
# line: serve_engine.py: logits = self.model(
# repair: serve_engine.py: cache.early_initialization(1, heads, head_dim, torch.float32, self.device) -> cache.early_initialization(1, heads, head_dim, torch.float32, self.model.device)
import torch

from model import tiny_model
from serve_engine import ServeEngine

gpus = torch.cuda.device_count()
device = "cuda" if gpus else "cpu"
model = tiny_model(words=24, seed=0).to(f"cuda:{gpus - 1}" if gpus else "cpu").eval()
engine = ServeEngine(model, device=device, lengths=(8, 16))
print("first", engine.generate([5, 3, 9], new=4))
print("second", engine.generate([2, 7, 1, 8, 2, 8], new=5))
# --- model.py
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def tiny_model(words, seed):
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=words, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=32,
    )  # fmt: skip
    return LlamaForCausalLM(config)
# --- serve_engine.py
import torch
from transformers import StaticCache


class ServeEngine:
    def __init__(self, model, device, lengths):
        self.model = model
        self.device = device
        self.caches = {length: self.room(length) for length in sorted(lengths)}

    def room(self, length):
        config = self.model.config
        heads, head_dim = config.num_key_value_heads, config.hidden_size // config.num_attention_heads
        cache = StaticCache(config=config, max_cache_len=length)
        cache.early_initialization(1, heads, head_dim, torch.float32, self.device)
        return cache

    def prepared(self, length):
        fitting = next(size for size in self.caches if size >= length)
        self.caches[fitting].reset()
        return self.caches[fitting]

    @torch.inference_mode()
    def generate(self, ids, new):
        cache = self.prepared(len(ids) + new)
        fed, written = torch.tensor([ids], device=self.model.device), []
        for _ in range(new):
            logits = self.model(input_ids=fed, past_key_values=cache, use_cache=True).logits
            fed = logits[:, -1:].argmax(-1)
            written.append(fed.item())
        return written
