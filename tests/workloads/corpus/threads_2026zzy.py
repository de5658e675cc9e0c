# === sliders_trained_with_another_sampler
# thread: https://github.com/rohitgandikota/sliders/issues/20
# about: a slider is a small change of a network that makes pictures. The sampler that makes pictures less noisy is named by the configuration
# operation: mul on cpu, cuda:0
# operands: noise|self
# category: created-without-device|input-not-moved
# line: train_util.py: noise = get_random_noise(n_imgs, height, width, generator=generator)
# line: train_util.py: latents = noise * scheduler.init_noise_sigma
# line: model_util.py: self.init_noise_sigma = self.sigmas.max()
# repair: train_util.py: noise = get_random_noise(n_imgs, height, width, generator=generator).repeat(n_prompts, 1, 1, 1) ->
#   noise = get_random_noise(n_imgs, height, width, generator=generator).repeat(n_prompts, 1, 1, 1).to("cuda")
import torch

from train_lora import PromptSettings, RootConfig, train

if __name__ == "__main__":
    config = RootConfig(noise_scheduler="euler_a", iterations=4, lr=0.02, max_denoising_steps=6)
    prompts = [PromptSettings(target="person", positive="old person", negative="young person")]
    losses, strength = train(config, prompts, device=torch.device("cuda:0"))
    print("loss", [f"{loss:.4f}" for loss in losses], f"strength {strength:.4f}")
# --- model_util.py
import torch
from torch import nn

TRAIN_STEPS = 1000


class DDIMScheduler:
    init_noise_sigma = 1.0

    def __init__(self):
        betas = torch.linspace(0.00085 ** 0.5, 0.012 ** 0.5, TRAIN_STEPS) ** 2
        self.alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)

    def set_timesteps(self, num, device=None):
        self.timesteps = torch.linspace(TRAIN_STEPS - 1, 0, num).long().to(device)
        self.alphas = torch.cat([self.alphas_cumprod.to(device)[self.timesteps], torch.ones(1, device=device)])

    def scale_model_input(self, sample, step):
        return sample

    def step(self, noise_pred, step, sample):
        alpha, before = self.alphas[step:step + 2]
        original = (sample - (1 - alpha).sqrt() * noise_pred) / alpha.sqrt()
        return before.sqrt() * original + (1 - before).sqrt() * noise_pred


class EulerScheduler(DDIMScheduler):
    def set_timesteps(self, num, device=None):
        super().set_timesteps(num, device)
        self.sigmas = ((1 - self.alphas) / self.alphas) ** 0.5
        self.init_noise_sigma = self.sigmas.max()

    def scale_model_input(self, sample, step):
        return sample / (self.sigmas[step] ** 2 + 1) ** 0.5

    def step(self, noise_pred, step, sample):
        return sample + noise_pred * (self.sigmas[step + 1] - self.sigmas[step])


def create_noise_scheduler(name):
    return {"ddim": DDIMScheduler, "euler_a": EulerScheduler}[name]()


class UNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.text_encoder = nn.EmbeddingBag(50, width)
        self.conv_in = nn.Conv2d(4, width, 3, padding=1)
        self.to_q = nn.Linear(width, width)
        self.conv_out = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, sample, tokens):
        hidden = self.conv_in(sample) + self.to_q(self.text_encoder(tokens))[..., None, None]
        return self.conv_out(torch.tanh(hidden))
# --- train_util.py
import torch

UNET_IN_CHANNELS = 4


def get_random_noise(batch_size, height, width, generator=None):
    return torch.randn((batch_size, UNET_IN_CHANNELS, height, width), generator=generator, device="cpu")


def get_initial_latents(scheduler, n_imgs, height, width, n_prompts, generator=None):
    noise = get_random_noise(n_imgs, height, width, generator=generator).repeat(n_prompts, 1, 1, 1)
    latents = noise * scheduler.init_noise_sigma
    return latents


def tokenize(prompt):
    return torch.tensor([[sum(map(ord, word)) % 50 for word in prompt.split()]])


@torch.no_grad()
def diffusion(unet, scheduler, latents, tokens, total_timesteps):
    for step in range(total_timesteps):
        noise_pred = unet(scheduler.scale_model_input(latents, step), tokens)
        latents = scheduler.step(noise_pred, step, latents)
    return latents
# --- train_lora.py
from dataclasses import dataclass

import torch
from torch import nn

import train_util
from model_util import UNet, create_noise_scheduler


@dataclass
class PromptSettings:
    target: str
    positive: str
    negative: str


@dataclass
class RootConfig:
    noise_scheduler: str = "ddim"
    iterations: int = 500
    lr: float = 2e-4
    max_denoising_steps: int = 50
    resolution: int = 8
    guidance_scale: float = 2.0


class LoRANetwork(nn.Module):
    """Changes what a layer gives, while it is entered as a context."""

    def __init__(self, layer, rank=2):
        super().__init__()
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        self.active = False
        layer.register_forward_hook(lambda _, args, output: output + self.up(self.down(args[0])) if self.active else output)

    def __enter__(self):
        self.active = True

    def __exit__(self, *exception):
        self.active = False


def train(config, prompts, device):
    torch.manual_seed(20)
    unet = UNet().requires_grad_(False).to(device)
    network = LoRANetwork(unet.to_q).to(device)
    noise_scheduler = create_noise_scheduler(config.noise_scheduler)
    optimizer = torch.optim.AdamW(network.parameters(), lr=config.lr)
    generator = torch.Generator().manual_seed(1)

    losses = []
    for iteration in range(config.iterations):
        noise_scheduler.set_timesteps(config.max_denoising_steps, device=device)
        settings = prompts[iteration % len(prompts)]
        target, positive, negative = (train_util.tokenize(prompt).to(device) for prompt in vars(settings).values())
        latents = train_util.get_initial_latents(noise_scheduler, 1, config.resolution, config.resolution, 1, generator).to(device)
        timesteps_to = 1 + iteration % (config.max_denoising_steps - 1)
        with network:
            denoised = train_util.diffusion(unet, noise_scheduler, latents, target, timesteps_to)
        scaled = noise_scheduler.scale_model_input(denoised, timesteps_to)
        wanted, unwanted, neutral = (unet(scaled, tokens) for tokens in (positive, negative, target))
        with network:
            predicted = unet(scaled, target)
        loss = torch.nn.functional.mse_loss(predicted, neutral + config.guidance_scale * (wanted - unwanted))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, (network.up.weight @ network.down.weight).norm().item()

# === forces_between_argon_atoms
# thread: https://github.com/torchmd/torchmd/issues/30
# about: atoms in a box attract and repel each other by a force field, which is read into tables. They are followed for some steps
# operation: index on cpu, cuda:0
# operands: self|atom_types|.*mapped_atom_types.*
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# category: created-without-device|cached-state|state-not-registered
# line: torchmd/parameters.py: self.mapped_atom_types = torch.tensor(
# line: torchmd/parameters.py: self.A = self.A.to(device)
# line: torchmd/parameters.py: self.B = self.B.to(device)
# line: torchmd/parameters.py: self.masses = self.masses.to(device)
# line: torchmd/parameters.py: self.device = device
# line: torchmd/parameters.py: def to_(self, device):
# line: torchmd/forces.py: atomtype_indices = atom_types[pair_indeces]
# line: torchmd/forces.py: self.par.mapped_atom_types,
# line: torchmd/forces.py: energy, force_coeff = evaluate_LJ(
# repair: torchmd/parameters.py: self.A = self.A.to(device) ->
#   self.A, self.mapped_atom_types = self.A.to(device), self.mapped_atom_types.to(device)
import numpy as np
import torch

from torchmd.forces import Forces
from torchmd.parameters import Parameters
from torchmd.systems import Integrator, System

LJ = {"AR": (0.238, 3.405, 39.948), "KR": (0.325, 3.636, 83.798)}

if __name__ == "__main__":
    device = "cuda:0"
    precision = torch.float
    rng = np.random.default_rng(30)
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 3), axis=-1).reshape(-1, 3) * 3.9
    coords = grid + rng.normal(0.0, 0.1, grid.shape)

    parameters = Parameters(LJ, ["AR", "AR", "KR"] * 9, precision=precision, device=device)
    system = System(len(coords), nreplicas=1, precision=precision, device=device)
    system.set_positions(coords[None])
    system.set_box(np.full(3, 3 * 3.9))
    forces = Forces(parameters, cutoff=5.5, switch_dist=4.5)
    start = forces.compute(system.pos, system.box, system.forces)
    kinetic, potential = Integrator(system, forces, timestep=2.0).step(niter=20)
    print(f"before {start[0]:.3f} after {potential[0]:.3f} kinetic {kinetic:.3f}")
# --- torchmd/parameters.py
import torch


class Parameters:
    """What a force field says of the atoms of a molecule."""

    def __init__(self, ff, atomtypes, precision=torch.float, device="cpu"):
        self.natoms = len(atomtypes)
        self.build_parameters(ff, atomtypes)
        self.precision_(precision)
        self.to_(device)

    def to_(self, device):
        self.A = self.A.to(device)
        self.B = self.B.to(device)
        self.masses = self.masses.to(device)
        self.device = device

    def precision_(self, precision):
        self.A = self.A.type(precision)
        self.B = self.B.type(precision)
        self.masses = self.masses.type(precision)

    def build_parameters(self, ff, atomtypes):
        uqatomtypes = sorted(set(atomtypes))
        self.mapped_atom_types = torch.tensor([uqatomtypes.index(each) for each in atomtypes])
        self.A, self.B = self.make_lj(ff, uqatomtypes)
        self.masses = torch.tensor([ff[each][2] for each in atomtypes]).unsqueeze(1)

    def make_lj(self, ff, uqatomtypes):
        epsilon, sigma = (torch.tensor([ff[each][k] for each in uqatomtypes]) for k in (0, 1))
        sigma_table = 0.5 * (sigma + sigma[:, None])
        eps_table = torch.sqrt(epsilon * epsilon[:, None])
        sigma_6 = sigma_table ** 6
        return eps_table * 4 * sigma_6 ** 2, eps_table * 4 * sigma_6
# --- torchmd/systems.py
import torch

TIMEFACTOR = 48.88821


class System:
    def __init__(self, natoms, nreplicas, precision, device):
        self.box = torch.zeros(nreplicas, 3, 3, dtype=precision, device=device)
        self.pos = torch.zeros(nreplicas, natoms, 3, dtype=precision, device=device)
        self.vel = torch.zeros_like(self.pos)
        self.forces = torch.zeros_like(self.pos)

    def set_positions(self, pos):
        self.pos[:] = torch.as_tensor(pos, dtype=self.pos.dtype)

    def set_box(self, box):
        for replica in self.box:
            replica.diagonal()[:] = torch.as_tensor(box, dtype=self.box.dtype)


class Integrator:
    def __init__(self, systems, forces, timestep):
        self.dt = timestep / TIMEFACTOR
        self.systems, self.forces = systems, forces

    def step(self, niter):
        s = self.systems
        masses = self.forces.par.masses
        for _ in range(niter):
            s.vel += 0.5 * self.dt * s.forces / masses
            s.pos += self.dt * s.vel
            pot = self.forces.compute(s.pos, s.box, s.forces)
            s.vel += 0.5 * self.dt * s.forces / masses
        return (0.5 * masses * s.vel ** 2).sum().item(), pot
# --- torchmd/forces.py
import torch


class Forces:
    def __init__(self, parameters, cutoff, switch_dist):
        self.par = parameters
        self.cutoff, self.switch_dist = cutoff, switch_dist
        self.ava_idx = self._make_indeces(parameters.natoms, parameters.device)

    def _make_indeces(self, natoms, device):
        fullmat = torch.full((natoms, natoms), True, device=device)
        return torch.triu(fullmat, diagonal=1).nonzero()

    def compute(self, pos, box, forces):
        forces.zero_()
        pot = []
        for i in range(pos.shape[0]):
            nb_dist, nb_unitvec = calculate_distances(pos[i], self.ava_idx, box[i].diagonal())
            near = nb_dist <= self.cutoff
            ava_idx, nb_dist, nb_unitvec = self.ava_idx[near], nb_dist[near], nb_unitvec[near]
            energy, force_coeff = evaluate_LJ(
                nb_dist,
                ava_idx,
                self.par.mapped_atom_types,
                self.par.A,
                self.par.B,
                self.switch_dist,
                self.cutoff,
            )
            forcevec = nb_unitvec * force_coeff[:, None]
            forces[i].index_add_(0, ava_idx[:, 0], -forcevec)
            forces[i].index_add_(0, ava_idx[:, 1], forcevec)
            pot.append(energy.sum().item())
        return pot


def calculate_distances(atom_pos, atom_idx, box):
    direction_vec = atom_pos[atom_idx[:, 0]] - atom_pos[atom_idx[:, 1]]
    direction_vec = direction_vec - box * torch.round(direction_vec / box)
    dist = torch.norm(direction_vec, dim=1)
    return dist, direction_vec / dist.unsqueeze(1)


def evaluate_LJ(dist, pair_indeces, atom_types, A, B, switch_dist, cutoff):
    atomtype_indices = atom_types[pair_indeces]
    aa = A[atomtype_indices[:, 0], atomtype_indices[:, 1]]
    bb = B[atomtype_indices[:, 0], atomtype_indices[:, 1]]
    rinv6 = dist ** -6
    pot = aa * rinv6 ** 2 - bb * rinv6
    force = (-12 * aa * rinv6 ** 2 + 6 * bb * rinv6) / dist
    t = ((dist - switch_dist) / (cutoff - switch_dist)).clamp_min(0.0)
    switch_val = 1 + t ** 3 * (-10 + t * (15 - t * 6))
    switch_deriv = t * t * (-30 + t * (60 - t * 30)) / (cutoff - switch_dist)
    return pot * switch_val, switch_val * force + pot * switch_deriv

# === densities_over_a_line_and_a_sphere
# thread: https://github.com/thoglu/jammy_flows/issues/2
# about: a density over a line and a sphere at once is made of flows, and depends on what was measured. A short name says which flows it is made of
# operation: sub|rsub|baddbmm on cpu, cuda:0
# operands: self|.*identity.*
# category: state-not-registered|created-without-device|cached-state
# line: jammy_flows/layers/spheres.py: self.identity = torch.eye(
# line: jammy_flows/layers/spheres.py: return self.identity - 2.0 *
# repair: jammy_flows/layers/spheres.py: self.identity = torch.eye(dimension + 1)[None] ->
#   self.register_buffer("identity", torch.eye(dimension + 1)[None])
import numpy as np
import torch

import jammy_flows.flows as jammy_flows

if __name__ == "__main__":
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    energy = rng.normal(size=(64, 1))
    zenith = np.clip(0.9 + 0.3 * energy + 0.1 * rng.normal(size=(64, 1)), 0.1, 3.0)
    azimuth = 3.0 + 0.4 * energy ** 2 + 0.1 * rng.normal(size=(64, 1))
    measured = np.concatenate([energy, zenith, azimuth, rng.normal(size=(64, 1))], axis=1) + 0.2 * rng.normal(size=(64, 4))

    pdf = jammy_flows.pdf("e1+s2", "gg+n", conditional_input_dim=4, hidden_mlp_dim=16).to("cuda")
    inp = torch.tensor(np.concatenate([energy, zenith, azimuth], axis=1), dtype=torch.float).to("cuda")
    cond = torch.tensor(measured, dtype=torch.float).to("cuda")
    optimizer = torch.optim.Adam(pdf.parameters(), lr=0.02)
    history = []
    for _ in range(15):
        log_pdf, log_pdf_base, base_pos = pdf(inp, conditional_input=cond)
        loss = -log_pdf.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    print(f"first {history[0]:.4f} last {history[-1]:.4f} base {base_pos.abs().mean().item():.4f}")
# --- jammy_flows/flows.py
import math

import torch
from torch import nn

from jammy_flows.layers.gaussianization import gf_block
from jammy_flows.layers.spheres import normal_sphere

FLOWS = {"g": gf_block, "n": normal_sphere}


class pdf(nn.Module):
    """A joint density: the flows of each part take their parameters from a small network."""

    def __init__(self, pdf_defs, flow_defs, conditional_input_dim, hidden_mlp_dim):
        super().__init__()
        self.dims = [int(each[1:]) for each in pdf_defs.split("+")]
        self.layer_list = nn.ModuleList()
        self.mlp_predictors = nn.ModuleList()
        seen = conditional_input_dim
        for dim, names in zip(self.dims, flow_defs.split("+")):
            layers = nn.ModuleList(FLOWS[name](dim) for name in names)
            num_params = sum(layer.total_param_num for layer in layers)
            self.layer_list.append(layers)
            self.mlp_predictors.append(nn.Sequential(nn.Linear(seen, hidden_mlp_dim), nn.Tanh(), nn.Linear(hidden_mlp_dim, num_params)))
            seen += dim

    def all_layer_inverse(self, x, log_det, data_summary):
        base = []
        for target, layers, mlp in zip(x.split(self.dims, dim=1), self.layer_list, self.mlp_predictors):
            params = mlp(data_summary)
            sizes = [layer.total_param_num for layer in layers]
            position = target
            for layer, extra_inputs in zip(layers, params.split(sizes, dim=1)):
                position, log_det = layer.inv_flow_mapping([position, log_det], extra_inputs)
            base.append(position)
            data_summary = torch.cat([data_summary, target], dim=1)
        return torch.cat(base, dim=1), log_det

    def forward(self, x, conditional_input):
        tot_log_det = torch.zeros(x.shape[0]).type_as(x)
        base_pos, tot_log_det = self.all_layer_inverse(x, tot_log_det, conditional_input)
        log_pdf_base = (-0.5 * base_pos ** 2 - 0.5 * math.log(2 * math.pi)).sum(dim=1)
        return log_pdf_base + tot_log_det, log_pdf_base, base_pos
# --- jammy_flows/layers/gaussianization.py
import torch
from torch import nn


class layer_base(nn.Module):
    def __init__(self, dimension, total_param_num):
        super().__init__()
        self.dimension = dimension
        self.total_param_num = total_param_num


class gf_block(layer_base):
    def __init__(self, dimension):
        super().__init__(dimension, total_param_num=3 * dimension)

    def inv_flow_mapping(self, inputs, extra_inputs):
        x, log_det = inputs
        log_scale, shift, bend = extra_inputs.chunk(3, dim=1)
        z = (x - shift) * torch.exp(log_scale)
        slope = 1 + torch.sigmoid(bend) * torch.cos(z).clamp_min(-0.9)
        out = z + torch.sigmoid(bend) * torch.sin(z)
        return out, log_det + (log_scale + torch.log(slope.abs() + 1e-3)).sum(dim=1)
# --- jammy_flows/layers/spheres.py
import math

import torch

from jammy_flows.layers.gaussianization import layer_base


class sphere_base(layer_base):
    """Angles become points of the embedding space, and these are spread over the plane."""

    def to_embedding(self, x):
        theta, phi = x[:, :1], x[:, 1:]
        return torch.cat([torch.sin(theta) * torch.cos(phi), torch.sin(theta) * torch.sin(phi), torch.cos(theta)], dim=1)

    def to_plane(self, points):
        height = (1.0 + points[:, 2:]).clamp(1e-4, 2 - 1e-4) / 2
        radius = torch.sqrt(-2.0 * torch.log(height))
        direction = points[:, :2] / points[:, :2].norm(dim=1, keepdim=True).clamp_min(1e-6)
        log_det = 0.5 * radius.squeeze(1) ** 2 - math.log(2.0)
        return radius * direction, log_det


class normal_sphere(sphere_base):
    def __init__(self, dimension):
        super().__init__(dimension, total_param_num=2 * (dimension + 1) + dimension)
        self.identity = torch.eye(dimension + 1)[None]

    def compute_householder_matrix(self, vs):
        vs = vs / vs.norm(dim=1, keepdim=True)
        return self.identity - 2.0 * vs[:, :, None] * vs[:, None, :]

    def inv_flow_mapping(self, inputs, extra_inputs):
        x, log_det = inputs
        log_det = log_det + torch.log(torch.sin(x[:, 0]).abs() + 1e-6)
        *vectors, log_scale = extra_inputs.split([self.dimension + 1] * 2 + [self.dimension], dim=1)
        points = self.to_embedding(x)
        for vs in vectors:
            points = torch.bmm(self.compute_householder_matrix(vs), points[:, :, None]).squeeze(2)
        plane, plane_log_det = self.to_plane(points)
        return plane * torch.exp(log_scale), log_det + plane_log_det + log_scale.sum(dim=1)

# === answers_learned_from_films
# thread: https://github.com/omerbsezer/Fast-Pytorch/issues/3
# about: two recurrent networks learn to answer a line of a film. Lines of a batch differ in length, and the longest comes first
# operation: _?pack_padded_sequence on cuda:0
# operands: lengths|input_lengths
# error: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor
# category: input
# line: chatbot_train.py: lengths = lengths.to(device)
# line: models.py: packed = nn.utils.rnn.pack_padded_sequence(embedded, input_lengths)
# line: chatbot_train.py: encoder_outputs, encoder_hidden = encoder(input_variable, lengths)
# repair: chatbot_train.py: lengths = lengths.to(device) -> lengths = lengths.to("cpu")
import torch

from chatbot_train import trainIters
from models import EncoderRNN, LuongAttnDecoderRNN
from vocabulary import Voc

PAIRS = [
    ("where are you going", "home"),
    ("home", "so early"),
    ("do you know him", "i met him once in paris"),
    ("what did he say", "nothing"),
    ("you are late again", "i know i know"),
    ("who is it", "open the door and see"),
]

if __name__ == "__main__":
    torch.manual_seed(3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    voc = Voc("films")
    for pair in PAIRS:
        for sentence in pair:
            voc.addSentence(sentence)
    embedding = torch.nn.Embedding(voc.num_words, 12)
    encoder = EncoderRNN(12, embedding).to(device)
    decoder = LuongAttnDecoderRNN(embedding, 12, voc.num_words).to(device)
    losses = trainIters(voc, PAIRS, encoder, decoder, n_iteration=6, batch_size=4, clip=50.0, learning_rate=0.01, device=device)
    print("average loss", [f"{loss:.3f}" for loss in losses])
# --- vocabulary.py
import itertools

import torch

PAD_token, SOS_token, EOS_token = 0, 1, 2


class Voc:
    def __init__(self, name):
        self.name = name
        self.word2index = {}
        self.num_words = 3

    def addSentence(self, sentence):
        for word in sentence.split(" "):
            if word not in self.word2index:
                self.word2index[word] = self.num_words
                self.num_words += 1


def indexesFromSentence(voc, sentence):
    return [voc.word2index[word] for word in sentence.split(" ")] + [EOS_token]


def zeroPadding(indexes_batch, fillvalue=PAD_token):
    return list(itertools.zip_longest(*indexes_batch, fillvalue=fillvalue))


def batch2TrainData(voc, pair_batch):
    pair_batch = sorted(pair_batch, key=lambda x: len(x[0].split(" ")), reverse=True)
    inputs, outputs = ([indexesFromSentence(voc, pair[k]) for pair in pair_batch] for k in (0, 1))
    lengths = torch.tensor([len(indexes) for indexes in inputs])
    output_variable = torch.LongTensor(zeroPadding(outputs))
    mask = output_variable != PAD_token
    return torch.LongTensor(zeroPadding(inputs)), lengths, output_variable, mask, max(map(len, outputs))
# --- models.py
import torch
import torch.nn.functional as F
from torch import nn


class EncoderRNN(nn.Module):
    def __init__(self, hidden_size, embedding):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = embedding
        self.gru = nn.GRU(hidden_size, hidden_size, bidirectional=True)

    def forward(self, input_seq, input_lengths, hidden=None):
        embedded = self.embedding(input_seq)
        packed = nn.utils.rnn.pack_padded_sequence(embedded, input_lengths)
        outputs, hidden = self.gru(packed, hidden)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs)
        outputs = outputs[:, :, : self.hidden_size] + outputs[:, :, self.hidden_size:]
        return outputs, hidden


class LuongAttnDecoderRNN(nn.Module):
    def __init__(self, embedding, hidden_size, output_size):
        super().__init__()
        self.embedding = embedding
        self.gru = nn.GRU(hidden_size, hidden_size)
        self.concat = nn.Linear(hidden_size * 2, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, input_step, last_hidden, encoder_outputs):
        rnn_output, hidden = self.gru(self.embedding(input_step), last_hidden)
        attn_weights = F.softmax((rnn_output * encoder_outputs).sum(dim=2).t(), dim=1).unsqueeze(1)
        context = attn_weights.bmm(encoder_outputs.transpose(0, 1))
        concat_output = torch.tanh(self.concat(torch.cat((rnn_output.squeeze(0), context.squeeze(1)), 1)))
        return F.softmax(self.out(concat_output), dim=1), hidden
# --- chatbot_train.py
import random

import torch
from torch import nn, optim

from vocabulary import SOS_token, batch2TrainData


def maskNLLLoss(inp, target, mask):
    crossEntropy = -torch.log(torch.gather(inp, 1, target.view(-1, 1)).squeeze(1))
    return crossEntropy.masked_select(mask).mean(), mask.sum().item()


def train(input_variable, lengths, target_variable, mask, max_target_len, encoder, decoder, encoder_optimizer, decoder_optimizer, clip, device):
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    input_variable = input_variable.to(device)
    lengths = lengths.to(device)
    target_variable = target_variable.to(device)
    mask = mask.to(device)

    loss, totals, n_totals = 0, [], 0
    encoder_outputs, encoder_hidden = encoder(input_variable, lengths)
    decoder_input = torch.full((1, input_variable.shape[1]), SOS_token, device=device)
    decoder_hidden = encoder_hidden[:1]
    for t in range(max_target_len):
        decoder_output, decoder_hidden = decoder(decoder_input, decoder_hidden, encoder_outputs)
        decoder_input = target_variable[t].view(1, -1)
        if mask[t].any():
            mask_loss, nTotal = maskNLLLoss(decoder_output, target_variable[t], mask[t])
            loss = loss + mask_loss
            totals.append(mask_loss.item() * nTotal)
            n_totals += nTotal
    loss.backward()
    nn.utils.clip_grad_norm_(encoder.parameters(), clip)
    nn.utils.clip_grad_norm_(decoder.parameters(), clip)
    encoder_optimizer.step()
    decoder_optimizer.step()
    return sum(totals) / n_totals


def trainIters(voc, pairs, encoder, decoder, n_iteration, batch_size, clip, learning_rate, device):
    choice = random.Random(3)
    encoder_optimizer = optim.Adam(encoder.parameters(), lr=learning_rate)
    decoder_optimizer = optim.Adam(decoder.parameters(), lr=learning_rate * 5.0)
    losses = []
    for _ in range(n_iteration):
        batch = batch2TrainData(voc, [choice.choice(pairs) for _ in range(batch_size)])
        losses.append(train(*batch, encoder, decoder, encoder_optimizer, decoder_optimizer, clip, device))
    return losses

# === colors_of_parts_of_a_cell
# thread: https://github.com/PytorchConnectomics/pytorch_connectomics/pull/129
# about: a network finds the parts of cells in a stack of pictures. While it trains, a picture is made of what it finds, with a color for each part
# operation: index on cpu, cuda:0
# operands: self|index|indices|pred|.*semantic_colors.*
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# category: created-without-device|cached-state|state-not-registered|input-not-moved|input
# line: connectomics/utils/visualizer.py: pred = torch.argmax(output, dim=1)
# line: connectomics/utils/visualizer.py: return self.semantic_colors[topt][pred]
# line: connectomics/utils/visualizer.py: self.semantic_colors[topt] = torch.tensor(
# line: connectomics/utils/visualizer.py: canvas.append(self.get_semantic_map(
# line: connectomics/engine/trainer.py: self.vis.visualize(volume, pred)
# repair: connectomics/utils/visualizer.py: pred = torch.argmax(output, dim=1) -> pred = torch.argmax(output.cpu(), dim=1)
import numpy as np
import torch

from connectomics.engine.trainer import Trainer
from connectomics.utils.visualizer import Visualizer

CFG = {"target_opt": ["0", "9-4"], "semantic_classes": 4, "iterations": 9, "iteration_vis": 3, "lr": 0.03}


class VolumeDataset:
    """Cells are rings around a bright middle; some have a second membrane."""

    def __init__(self, num_classes, side=16, seed=7):
        self.rng = np.random.default_rng(seed)
        self.num_classes, self.side = num_classes, side

    def sample(self, batch):
        rows, columns = np.mgrid[:self.side, :self.side]
        middles = self.rng.uniform(5, self.side - 5, (batch, 2, 1, 1))
        far = np.hypot(rows - middles[:, 0], columns - middles[:, 1])
        label = np.minimum(far / 2.5, self.num_classes - 1).astype(np.int64)
        volume = np.cos(label) + 0.2 * self.rng.normal(size=label.shape)
        foreground = (label < self.num_classes - 1).astype(np.float32)
        return torch.tensor(volume, dtype=torch.float)[:, None], [torch.tensor(foreground)[:, None], torch.tensor(label)]


if __name__ == "__main__":
    torch.manual_seed(129)
    device = torch.device("cuda:0")
    trainer = Trainer(CFG, device, VolumeDataset(CFG["semantic_classes"]), Visualizer(CFG))
    losses = trainer.train()
    red, green, blue = trainer.vis.pages[-1][-1].mean(axis=(0, 1))
    print("loss", [f"{loss:.3f}" for loss in losses[::4]], f"colors {red:.3f} {green:.3f} {blue:.3f}")
# --- connectomics/model/unet.py
import torch
from torch import nn


class UNet2D(nn.Module):
    def __init__(self, out_channel, width=8):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ELU(), nn.Conv2d(width, width, 3, stride=2, padding=1), nn.ELU())
        self.up = nn.ConvTranspose2d(width, width, 2, stride=2)
        self.io = nn.Conv2d(width + 1, out_channel, 3, padding=1)

    def forward(self, x):
        return self.io(torch.cat([x, self.up(self.down(x))], dim=1))
# --- connectomics/utils/visualizer.py
import numpy as np
import torch


class Visualizer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.semantic_colors = {}
        for topt in cfg["target_opt"]:
            if topt[0] == "9":
                rng = np.random.default_rng(4)
                table = rng.random((int(topt.split("-")[1]), 3))
                table[0] = 0.0
                self.semantic_colors[topt] = torch.tensor(table, dtype=torch.float)
        self.pages = []

    def split(self, output):
        channels = [int(topt.split("-")[1]) if topt[0] == "9" else 1 for topt in self.cfg["target_opt"]]
        return output.split(channels, dim=1)

    @torch.no_grad()
    def visualize(self, volume, output):
        canvas = [self.normalize(volume)]
        for topt, each in zip(self.cfg["target_opt"], self.split(output)):
            if topt[0] == "9":
                canvas.append(self.get_semantic_map(each, topt))
            else:
                canvas.append(torch.sigmoid(each).permute(0, 2, 3, 1).expand(-1, -1, -1, 3))
        self.pages.append([picture[0].cpu().numpy() for picture in canvas])

    def normalize(self, volume):
        low, high = volume.min(), volume.max()
        return ((volume - low) / (high - low)).permute(0, 2, 3, 1).expand(-1, -1, -1, 3)

    def get_semantic_map(self, output, topt):
        pred = torch.argmax(output, dim=1)
        return self.semantic_colors[topt][pred]
# --- connectomics/engine/trainer.py
import torch
import torch.nn.functional as F

from connectomics.model.unet import UNet2D


class Trainer:
    def __init__(self, cfg, device, dataset, vis):
        self.cfg, self.device, self.dataset, self.vis = cfg, device, dataset, vis
        self.model = UNet2D(out_channel=1 + cfg["semantic_classes"]).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=cfg["lr"], momentum=0.9)

    def criterion(self, pred, target):
        foreground, semantic = self.vis.split(pred)
        return F.binary_cross_entropy_with_logits(foreground, target[0]) + F.cross_entropy(semantic, target[1])

    def train(self):
        losses = []
        for iter_total in range(self.cfg["iterations"]):
            volume, target = self.dataset.sample(batch=4)
            volume = volume.to(self.device, non_blocking=True)
            target = [each.to(self.device, non_blocking=True) for each in target]
            pred = self.model(volume)
            loss = self.criterion(pred, target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
            if (iter_total + 1) % self.cfg["iteration_vis"] == 0:
                self.vis.visualize(volume, pred)
        return losses

# === which_arm_to_pull_after_these
# thread: https://github.com/neural-bandits/calvera/issues/114
# about: a bandit chooses one of several actions and is told the reward. All that it has seen is kept, and its network is trained anew with it
# operation: cat on cuda:0, cuda:1
# operands: tensors.*|.*contexts.*|.*self.contextualized_actions.*|contextualized_actions
# category: default-or-current-device|created-without-device|cached-state
# line: main.py: buffer = InMemoryDataBuffer(max_size=48)
# line: calvera/utils/data_storage.py: self.device = device or default_device()
# line: calvera/utils/data_storage.py: self.contextualized_actions = torch.empty(0, n_features, device=self.device)
# line: calvera/utils/data_storage.py: self.rewards = torch.empty(0, device=self.device)
# line: calvera/utils/data_storage.py: self.contextualized_actions = torch.cat(
# line: calvera/utils/data_storage.py: self.rewards = torch.cat(
# repair: main.py: buffer = InMemoryDataBuffer(max_size=48) -> buffer = InMemoryDataBuffer(max_size=48, device=torch.device("cuda:1"))
import numpy as np
import torch

from calvera.bandits.neural_linear_bandit import NeuralLinearBandit
from calvera.trainer import Trainer
from calvera.utils.data_storage import InMemoryDataBuffer


def environment(rounds, n_arms, n_features):
    rng = np.random.default_rng(114)
    best = rng.normal(size=n_features)
    for _ in range(rounds):
        contexts = rng.normal(size=(8, n_arms, n_features))
        yield torch.tensor(contexts, dtype=torch.float), torch.tensor(np.tanh(contexts @ best), dtype=torch.float)


if __name__ == "__main__":
    torch.manual_seed(11)
    buffer = InMemoryDataBuffer(max_size=48)
    bandit = NeuralLinearBandit(n_features=5, n_embedding=8, buffer=buffer)
    trainer = Trainer(accelerator="gpu", devices=[1], max_steps=6)
    regrets = trainer.fit(bandit, environment(rounds=10, n_arms=4, n_features=5))
    print("regret", [f"{regret:.3f}" for regret in regrets[::3]], f"theta {bandit.theta.norm().item():.3f}")
# --- calvera/utils/data_storage.py
import torch


def default_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class InMemoryDataBuffer:
    """What was seen last: the chosen actions with their context, and their rewards."""

    def __init__(self, max_size=None, device=None):
        self.max_size = max_size
        self.device = device or default_device()
        self.contextualized_actions = None
        self.rewards = None

    def reserve(self, n_features):
        self.contextualized_actions = torch.empty(0, n_features, device=self.device)
        self.rewards = torch.empty(0, device=self.device)

    def add_batch(self, contextualized_actions, rewards):
        self.contextualized_actions = torch.cat([self.contextualized_actions, contextualized_actions], dim=0)
        self.rewards = torch.cat([self.rewards, rewards], dim=0)
        if self.max_size and len(self) > self.max_size:
            self.contextualized_actions = self.contextualized_actions[-self.max_size:]
            self.rewards = self.rewards[-self.max_size:]

    def get_all_data(self):
        return self.contextualized_actions, self.rewards

    def __len__(self):
        return 0 if self.rewards is None else len(self.rewards)
# --- calvera/bandits/neural_linear_bandit.py
import torch
from torch import nn


class NeuralLinearBandit(nn.Module):
    def __init__(self, n_features, n_embedding, buffer, lambda_=1.0):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(n_features, 16), nn.ReLU(), nn.Linear(16, n_embedding))
        self.head = nn.Linear(n_embedding, 1, bias=False)
        self.buffer = buffer
        buffer.reserve(n_features)
        self.register_buffer("precision_matrix", lambda_ * torch.eye(n_embedding))
        self.register_buffer("b", torch.zeros(n_embedding))
        self.register_buffer("theta", torch.zeros(n_embedding))

    @torch.no_grad()
    def forward(self, contextualized_actions):
        embedded = self.network(contextualized_actions)
        width = (embedded @ torch.linalg.inv(self.precision_matrix) * embedded).sum(dim=-1).sqrt()
        return (embedded @ self.theta + 0.5 * width).argmax(dim=-1)

    def record_feedback(self, chosen_actions, rewards):
        self.buffer.add_batch(chosen_actions, rewards)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)

    def training_step(self, batch):
        contexts, rewards = batch
        return nn.functional.mse_loss(self.head(self.network(contexts)).squeeze(-1), rewards)

    @torch.no_grad()
    def on_train_end(self):
        contexts, rewards = self.buffer.get_all_data()
        embedded = self.network(contexts)
        self.precision_matrix.copy_(torch.eye(embedded.shape[1], device=embedded.device) + embedded.t() @ embedded)
        self.b.copy_(embedded.t() @ rewards)
        self.theta.copy_(torch.linalg.solve(self.precision_matrix, self.b))
# --- calvera/trainer.py
import torch


class Trainer:
    def __init__(self, accelerator, devices, max_steps):
        self.root_device = torch.device("cuda", devices[0]) if accelerator == "gpu" else torch.device("cpu")
        self.max_steps = max_steps

    def fit(self, bandit, rounds):
        bandit.to(self.root_device)
        optimizer = bandit.configure_optimizers()
        regrets = []
        for contexts, all_rewards in rounds:
            contexts, all_rewards = contexts.to(self.root_device), all_rewards.to(self.root_device)
            chosen = bandit(contexts)
            rows = torch.arange(len(chosen), device=self.root_device)
            rewards = all_rewards[rows, chosen]
            bandit.record_feedback(contexts[rows, chosen], rewards)
            for _ in range(self.max_steps):
                loss = bandit.training_step(bandit.buffer.get_all_data())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            bandit.on_train_end()
            regrets.append((all_rewards.amax(dim=1) - rewards).mean().item())
        return regrets
