# === energy_of_a_crystal_from_a_half_moved_graph
# thread: https://github.com/orbital-materials/orb-models/issues/14
# about: a network gives the energy of a crystal. Its graph of neighbours is searched on the card, but what is known of the atoms stays where numpy left it
# operation: mm|addmm|linear on cpu, cuda:0
# operands: mat1|input|.*atomic_numbers_embedding.*|atom_type_embedding
# category: input-not-moved|input
# line: orb_models/forcefield/atomic_system.py: return atom_graph
# line: graph = atomic_system.ase_atoms_to_atom_graphs(
# line: batch = batch_graphs(graphs)
# line: result = orbff.predict(batch)
# repair: orb_models/forcefield/atomic_system.py: return atom_graph -> return atom_graph.to(featurization_utilities.get_device())
import numpy as np
import torch

from orb_models.forcefield import atomic_system
from orb_models.forcefield.atomic_system import Atoms, batch_graphs
from orb_models.forcefield.graph_regressor import GraphRegressor


def bulk(number, a, strain=0.0):
    corners = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    cell = np.eye(3) * a * (1 + strain)
    return Atoms(np.full(4, number), corners @ cell, cell)


def orb_v1(device):
    torch.manual_seed(14)
    return GraphRegressor(latent_dim=12, num_message_passing_steps=2).to(device).eval()


if __name__ == "__main__":
    orbff = orb_v1(device="cuda")
    graphs = []
    for strain in (-0.02, 0.0, 0.02):
        atoms = bulk(number=29, a=3.58, strain=strain)
        graph = atomic_system.ase_atoms_to_atom_graphs(atoms, radius=3.0, max_num_neighbors=20)
        graphs.append(graph)
    batch = batch_graphs(graphs)
    with torch.no_grad():
        result = orbff.predict(batch)
    print("atoms", batch.n_node.tolist(), "edges", batch.n_edge.tolist())
    print("energies", [round(energy, 3) for energy in result["graph_pred"].tolist()])
# --- orb_models/forcefield/featurization_utilities.py
import torch


def get_device(requested_device=None):
    if requested_device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(requested_device)


def gaussian_basis_function(scalars, num_bases, radius):
    means = torch.linspace(0, radius, num_bases, device=scalars.device)
    return torch.exp(-((scalars[:, None] - means) ** 2))


def compute_pbc_radius_graph(positions, periodic_boundaries, radius, max_number_neighbors):
    """Pairs of atoms that are near, also across the borders of the cell, and the way from one to the other."""
    device = get_device()
    positions, cell = positions.to(device), periodic_boundaries.to(device)
    steps = torch.cartesian_prod(*[torch.arange(-1.0, 2.0, device=device)] * 3)
    images = positions[None, :, :] + (steps @ cell)[:, None, :]
    vectors = images.reshape(-1, 3)[None] - positions[:, None]
    distances = vectors.norm(dim=-1)
    distances[distances < 1e-3] = float("inf")
    nearest, which = distances.topk(min(max_number_neighbors, distances.shape[1]), largest=False)
    receivers, column = (nearest < radius).nonzero(as_tuple=True)
    chosen = which[receivers, column]
    edge_index = torch.stack([chosen % len(positions), receivers])
    return edge_index, vectors[receivers, chosen]
# --- orb_models/forcefield/atomic_system.py
from dataclasses import dataclass, fields, replace

import numpy as np
import torch

from orb_models.forcefield import featurization_utilities


@dataclass
class Atoms:
    numbers: np.ndarray
    positions: np.ndarray
    cell: np.ndarray


@dataclass
class AtomGraphs:
    senders: torch.Tensor
    receivers: torch.Tensor
    n_node: torch.Tensor
    n_edge: torch.Tensor
    node_features: dict
    edge_features: dict

    def to(self, device):
        def move(value):
            return {name: each.to(device) for name, each in value.items()} if isinstance(value, dict) else value.to(device)

        return replace(self, **{field.name: move(getattr(self, field.name)) for field in fields(self)})


def ase_atoms_to_atom_graphs(atoms, radius, max_num_neighbors):
    atomic_numbers = torch.from_numpy(atoms.numbers).to(torch.long)
    atom_type_embedding = torch.nn.functional.one_hot(atomic_numbers, num_classes=118)
    node_feats = {
        "atomic_numbers": atomic_numbers,
        "atomic_numbers_embedding": atom_type_embedding.to(torch.float32),
        "positions": torch.from_numpy(atoms.positions).to(torch.float32),
    }
    cell = torch.from_numpy(atoms.cell).to(torch.float32)
    edge_index, edge_vectors = featurization_utilities.compute_pbc_radius_graph(node_feats["positions"], cell, radius, max_num_neighbors)
    atom_graph = AtomGraphs(
        senders=edge_index[0],
        receivers=edge_index[1],
        n_node=torch.tensor([len(atomic_numbers)]),
        n_edge=torch.tensor([edge_index.shape[1]]),
        node_features=node_feats,
        edge_features={"vectors": edge_vectors, "r": edge_vectors.norm(dim=-1)},
    )
    return atom_graph


def batch_graphs(graphs):
    offsets = np.cumsum([0] + [int(graph.n_node.sum()) for graph in graphs])[:-1].tolist()

    def join(name):
        return {key: torch.cat([getattr(graph, name)[key] for graph in graphs]) for key in getattr(graphs[0], name)}

    return AtomGraphs(
        senders=torch.cat([graph.senders + start for graph, start in zip(graphs, offsets)]),
        receivers=torch.cat([graph.receivers + start for graph, start in zip(graphs, offsets)]),
        n_node=torch.cat([graph.n_node for graph in graphs]),
        n_edge=torch.cat([graph.n_edge for graph in graphs]),
        node_features=join("node_features"),
        edge_features=join("edge_features"),
    )
# --- orb_models/forcefield/graph_regressor.py
import torch
from torch import nn

from orb_models.forcefield.featurization_utilities import gaussian_basis_function


class GraphRegressor(nn.Module):
    def __init__(self, latent_dim, num_message_passing_steps, num_bases=8, radius=3.0):
        super().__init__()
        self.num_bases, self.radius = num_bases, radius
        self.node_encoder = nn.Linear(118, latent_dim)
        self.edge_encoder = nn.Linear(num_bases, latent_dim)
        self.steps = nn.ModuleList(nn.Linear(2 * latent_dim, latent_dim) for _ in range(num_message_passing_steps))
        self.graph_head = nn.Linear(latent_dim, 1)
        self.reference = nn.Linear(118, 1, bias=False)

    def forward(self, batch):
        nodes = self.node_encoder(batch.node_features["atomic_numbers_embedding"])
        basis = gaussian_basis_function(batch.edge_features["r"], self.num_bases, self.radius)
        edges = torch.tanh(self.edge_encoder(basis))
        for step in self.steps:
            messages = torch.zeros_like(nodes).index_add(0, batch.receivers, nodes[batch.senders] * edges)
            nodes = nodes + torch.tanh(step(torch.cat([nodes, messages], dim=-1)))
        return nodes

    def predict(self, batch):
        nodes = self(batch)
        per_atom = self.graph_head(nodes) + self.reference(batch.node_features["atomic_numbers_embedding"])
        graph_index = torch.repeat_interleave(torch.arange(len(batch.n_node), device=nodes.device), batch.n_node)
        energy = torch.zeros(len(batch.n_node), device=nodes.device).index_add(0, graph_index, per_atom.squeeze(-1))
        return {"graph_pred": energy}

# === order_of_a_fractional_transform_found
# thread: https://github.com/tunakasif/torch-frft/issues/9
# about: a layer turns signals by a part of a Fourier transform, whose order is learned. Between two turns it weighs them with linear layers that forward makes anew
# operation: mm|addmm|linear on cuda:0, cpu
# operands: mat1|input|a1|mat2|weight|.*fc1.*|self
# category: module-split|created-without-device|state-not-registered
# line: fc1 = fixed_window(nn.Linear(
# line: fc2 = fixed_window(nn.Linear(
# repair: fc1 = fixed_window(nn.Linear(self.in_features, self.in_features, dtype=a1.dtype)) -> fc1 = fixed_window(nn.Linear(self.in_features, self.in_features, dtype=a1.dtype, device=a1.device))
# repair: fc2 = fixed_window(nn.Linear(self.in_features, self.out_features, dtype=a2.dtype)) -> fc2 = fixed_window(nn.Linear(self.in_features, self.out_features, dtype=a2.dtype, device=a2.device))
import torch
from torch import nn

from torch_frft.dfrft_module import dfrft


def fixed_window(layer):
    """Weights that smooth along the axis; they are not learned."""
    rows, columns = (torch.linspace(0, 1, size)[:, None] for size in layer.weight.shape)
    window = torch.exp(-30 * (rows - columns.t()) ** 2)
    with torch.no_grad():
        layer.weight.copy_(window / window.sum(dim=1, keepdim=True))
        layer.bias.zero_()
    return layer


class CustomLayer(nn.Module):
    def __init__(self, in_feat: int, out_feat: int, *, order: float = 1.0, dim: int = -1) -> None:
        super().__init__()
        self.in_features = in_feat
        self.out_features = out_feat
        self.order = nn.Parameter(torch.tensor(order, dtype=torch.float32), requires_grad=True)
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x1 = dfrft(x, self.order, dim=self.dim)
        a1 = nn.ReLU()(x1.real) + 1j * nn.ReLU()(x1.imag)
        fc1 = fixed_window(nn.Linear(self.in_features, self.in_features, dtype=a1.dtype))
        x2 = fc1(a1)
        x3 = dfrft(x2, -self.order, dim=self.dim)
        a2 = nn.ReLU()(x3.real) + 1j * nn.ReLU()(x3.imag)
        fc2 = fixed_window(nn.Linear(self.in_features, self.out_features, dtype=a2.dtype))
        return nn.ReLU()(fc2(a2).real)


def chirps(num_samples, seq_length, generator):
    start = torch.rand(num_samples, 1, generator=generator) * 3
    time = torch.linspace(0, 1, seq_length)
    return torch.cos(start * time + 9 * time**2)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator().manual_seed(9)
    num_samples, seq_length, out_features = 16, 12, 4
    X = chirps(num_samples, seq_length, generator).to(device)
    Y = X.reshape(num_samples, out_features, -1).abs().mean(dim=-1)

    model = CustomLayer(seq_length, out_features, order=1.25).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for epoch in range(8):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(X), Y)
        loss.backward()
        optimizer.step()
        if epoch % 4 == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}")
    print(f"loss {loss.item():.3f}, order {model.order.item():.3f}")


if __name__ == "__main__":
    main()
# --- torch_frft/dfrft_module.py
import torch


def dfrft(x, a, *, dim=-1):
    """The discrete fractional Fourier transform of order `a` along `dim`."""
    matrix = dfrftmtx(x.size(dim), a, device=x.device)
    turned = x.type(torch.complex64).movedim(dim, -1) @ matrix.t()
    return turned.movedim(-1, dim)


def dfrftmtx(size, a, *, device):
    evecs = _hermite_like(size).to(device).type(torch.complex64)
    index = torch.arange(size, dtype=torch.float32, device=device)
    index[-1] += 1
    evals = torch.exp(-1j * a * (torch.pi / 2) * index)
    return (evecs * evals) @ evecs.t()


def _hermite_like(size):
    """Vectors that a Fourier transform leaves as they are, but for a factor, with the fewest changes of sign first. `size` is even."""
    turn = 2 * torch.pi * torch.arange(size, dtype=torch.float64) / size
    neighbours = torch.roll(torch.eye(size, dtype=torch.float64), 1, dims=0)
    commuting = torch.diag(2 * torch.cos(turn) - 4) + neighbours + neighbours.t()
    mirror = torch.roll(torch.eye(size, dtype=torch.float64).flip(0), 1, dims=0)
    evens, odds = (_part_of(commuting, mirror, sign) for sign in (1, -1))
    count = odds.shape[1]
    pairs = torch.stack([evens[:, :count], odds], dim=2).flatten(1)
    return torch.cat([pairs, evens[:, count:]], dim=1)


def _part_of(commuting, mirror, sign):
    values, vectors = torch.linalg.eigh((torch.eye(len(mirror), dtype=torch.float64) + sign * mirror) / 2)
    basis = vectors[:, values > 0.5]
    _, inner = torch.linalg.eigh(basis.t() @ commuting @ basis)
    return (basis @ inner).flip(-1)

# === camera_that_zooms_out_over_a_swarm
# thread: https://github.com/proroklab/VectorizedMultiAgentSimulator/pull/22
# about: many small worlds are simulated side by side. After some steps one is drawn, with a camera that has to hold all of its agents
# operation: div|true_divide on cuda:0, cpu
# operands: cam_range|other
# category: created-without-device
# line: vmas/simulator/environment.py: cam_range = torch.tensor([VIEWER_MIN_SIZE * aspect_ratio, VIEWER_MIN_SIZE])
# line: vmas/simulator/environment.py: cam_range = torch.tensor([VIEWER_MIN_SIZE, VIEWER_MIN_SIZE / aspect_ratio])
# line: vmas/simulator/environment.py: all_poses = torch.stack(
# line: vmas/simulator/environment.py: viewer_size_fit = all_poses
# line: vmas/simulator/environment.py: viewer_size = torch.maximum(
# repair: vmas/simulator/environment.py: cam_range = torch.tensor([VIEWER_MIN_SIZE * aspect_ratio, VIEWER_MIN_SIZE]) -> cam_range = torch.tensor([VIEWER_MIN_SIZE * aspect_ratio, VIEWER_MIN_SIZE], device=self.device)
# repair: vmas/simulator/environment.py: cam_range = torch.tensor([VIEWER_MIN_SIZE, VIEWER_MIN_SIZE / aspect_ratio]) -> cam_range = torch.tensor([VIEWER_MIN_SIZE, VIEWER_MIN_SIZE / aspect_ratio], device=self.device)
import torch

from vmas.simulator.environment import Environment


def use_vmas_env(num_envs=6, n_agents=4, n_steps=12, device="cuda"):
    env = Environment(num_envs=num_envs, n_agents=n_agents, device=device, seed=22)
    obs = env.reset()
    total_reward = torch.zeros(num_envs, device=device)
    frames = []
    for step in range(n_steps):
        actions = [torch.tanh(2 * each[:, 2:4] - each[:, :2]) for each in obs]
        obs, rews = env.step(actions)
        total_reward += torch.stack(rews, dim=1).mean(dim=1)
        if step % 4 == 3:
            frames.append(env.render(env_index=0))
    print("frames", len(frames), "of", frames[0].shape)
    bounds = ", ".join(f"{bound:.3f}" for bound in env.viewer.bounds)
    print(f"reward {total_reward.mean().item():.3f}, drawn {int(sum(frame.sum() for frame in frames))}, bounds {bounds}")


if __name__ == "__main__":
    use_vmas_env()
# --- vmas/simulator/core.py
import torch


class AgentState:
    def __init__(self, batch_dim, device):
        self.pos = torch.zeros(batch_dim, 2, device=device)
        self.vel = torch.zeros(batch_dim, 2, device=device)


class Agent:
    def __init__(self, name, batch_dim, device):
        self.name = name
        self.state = AgentState(batch_dim, device)
        self.force = torch.zeros(batch_dim, 2, device=device)


class World:
    def __init__(self, batch_dim, n_agents, device, dt=0.1, damping=0.2):
        self.dt, self.damping = dt, damping
        self.agents = [Agent(f"agent {i}", batch_dim, device) for i in range(n_agents)]

    def step(self):
        for agent in self.agents:
            away = sum(self._push(agent, other) for other in self.agents if other is not agent)
            agent.state.vel = agent.state.vel * (1 - self.damping) + (agent.force + away) * self.dt
        for agent in self.agents:
            agent.state.pos = agent.state.pos + agent.state.vel * self.dt

    def _push(self, agent, other):
        delta = agent.state.pos - other.state.pos
        distance = delta.norm(dim=-1, keepdim=True).clamp_min(1e-3)
        return delta / distance * torch.relu(0.3 - distance) * 20
# --- vmas/simulator/rendering.py
import numpy as np


class Viewer:
    """Draws into an array of numpy."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.bounds = None

    def set_bounds(self, left, right, bottom, top):
        self.bounds = [float(bound) for bound in (left, right, bottom, top)]

    def render(self, points):
        left, right, bottom, top = self.bounds
        frame = np.zeros((self.height, self.width), dtype=np.int64)
        for number, (x, y) in enumerate(points, 1):
            column = int((x - left) / (right - left) * (self.width - 1))
            row = int((y - bottom) / (top - bottom) * (self.height - 1))
            frame[row, column] = number * (column + 1)
        return frame
# --- vmas/simulator/environment.py
import torch

from vmas.simulator.core import World
from vmas.simulator.rendering import Viewer

VIEWER_MIN_SIZE = 1.2
X, Y = 0, 1


class Environment:
    def __init__(self, num_envs, n_agents, device, seed, viewer_size=(70, 40)):
        self.num_envs = num_envs
        self.device = torch.device(device)
        self.world = World(num_envs, n_agents, self.device)
        self.agents = self.world.agents
        self.generator = torch.Generator().manual_seed(seed)
        self.viewer_size = viewer_size
        self.viewer = None
        self.goals = [torch.rand(num_envs, 2, generator=self.generator).to(self.device) * 4 - 2 for _ in self.agents]

    def reset(self):
        for agent in self.agents:
            start = torch.rand(self.num_envs, 2, generator=self.generator) * 6 - 3
            agent.state.pos = start.to(self.device)
            agent.state.vel = torch.zeros_like(agent.state.pos)
        return self.observations()

    def observations(self):
        return [torch.cat([agent.state.pos, goal, agent.state.vel], dim=-1) for agent, goal in zip(self.agents, self.goals)]

    def step(self, actions):
        for agent, action in zip(self.agents, actions):
            agent.force = action.to(self.device)
        self.world.step()
        rews = [-(agent.state.pos - goal).norm(dim=-1) for agent, goal in zip(self.agents, self.goals)]
        return self.observations(), rews

    def render(self, env_index=0, agent_index_focus=None):
        if self.viewer is None:
            self.viewer = Viewer(*self.viewer_size)
        aspect_ratio = self.viewer_size[X] / self.viewer_size[Y]
        if aspect_ratio < 1:
            cam_range = torch.tensor([VIEWER_MIN_SIZE, VIEWER_MIN_SIZE / aspect_ratio])
        else:
            cam_range = torch.tensor([VIEWER_MIN_SIZE * aspect_ratio, VIEWER_MIN_SIZE])

        if agent_index_focus is None:
            # zoom out until everyone is seen
            all_poses = torch.stack([agent.state.pos[env_index] for agent in self.world.agents], dim=0)
            viewer_size_fit = all_poses.abs().amax(dim=0) + VIEWER_MIN_SIZE - 1
            viewer_size = torch.maximum(viewer_size_fit / cam_range, torch.tensor(1))
            cam_range *= torch.max(viewer_size)
            self.viewer.set_bounds(-cam_range[X], cam_range[X], -cam_range[Y], cam_range[Y])
        else:
            pos = self.agents[agent_index_focus].state.pos[env_index]
            self.viewer.set_bounds(pos[X] - cam_range[X], pos[X] + cam_range[X], pos[Y] - cam_range[Y], pos[Y] + cam_range[Y])
        return self.viewer.render([agent.state.pos[env_index].tolist() for agent in self.agents])

# === noise_levels_looked_up_at_each_step
# thread: https://github.com/yang-song/score_sde_pytorch/issues/43
# about: pictures are drawn out of noise, backwards through an equation. Its levels of noise are kept in a table, and each step looks up its own and the next
# operation: index on cpu
# operands: .*discrete_sigmas.*|self|input|.*timestep.*|indices
# error: indices should be either on cpu or on the same device
# category: cached-state|created-without-device|state-not-registered
# line: sde_lib.py: adjacent_sigma = torch.where(timestep == 0, torch.zeros_like(t),
# line: sde_lib.py: self.discrete_sigmas = torch.exp(
# repair: sde_lib.py: adjacent_sigma = torch.where(timestep == 0, torch.zeros_like(t), self.discrete_sigmas[timestep - 1].to(t.device)) -> adjacent_sigma = torch.where(timestep == 0, torch.zeros_like(t), self.discrete_sigmas.to(t.device)[timestep - 1])
import torch
from torch import nn

from sampling import get_pc_sampler
from sde_lib import VESDE


class NCSN(nn.Module):
    """Guesses the noise from a picture and the size of its noise."""

    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(1, channels, 3, padding=1)
        self.embed = nn.Linear(1, channels)
        self.last = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x, labels):
        sigma = labels[:, None, None, None]
        hidden = torch.tanh(self.first(x / (1 + sigma)) + self.embed(labels.log()[:, None])[:, :, None, None])
        return -(x + 0.1 * self.last(hidden)) / (1 + sigma**2)


def get_score_fn(sde, model):
    def score_fn(x, t):
        labels = sde.marginal_prob(torch.zeros_like(x), t)[1]
        return model(x, labels)

    return score_fn


if __name__ == "__main__":
    torch.manual_seed(43)
    device = "cuda:0"
    score_model = NCSN(channels=6).to(device).eval()
    sde = VESDE(sigma_min=0.01, sigma_max=10, N=16)
    sampling_fn = get_pc_sampler(sde, shape=(3, 1, 8, 8), snr=0.16, n_steps=1, eps=1e-5, device=device)
    x, n = sampling_fn(get_score_fn(sde, score_model))
    print("steps", n, "of", tuple(x.shape))
    print(f"mean {x.mean().item():.3f}, spread {x.std().item():.3f}, brightest {x.amax(dim=(1, 2, 3)).sum().item():.3f}")
# --- sde_lib.py
import abc

import numpy as np
import torch


class SDE(abc.ABC):
    def __init__(self, N):
        super().__init__()
        self.N = N

    @property
    @abc.abstractmethod
    def T(self):
        """When it ends."""

    @abc.abstractmethod
    def discretize(self, x, t):
        """What is added at a step, and how much noise."""

    def reverse(self, score_fn, probability_flow=False):
        return RSDE(self, score_fn, probability_flow)


class RSDE:
    """An equation run backwards, with a guess of the score in it."""

    def __init__(self, forward, score_fn, probability_flow):
        self.forward, self.score_fn = forward, score_fn
        self.probability_flow = probability_flow
        self.weight = 0.5 if probability_flow else 1.0

    @property
    def N(self):
        return self.forward.N

    def discretize(self, x, t):
        f, G = self.forward.discretize(x, t)
        pull = G.square().view(-1, 1, 1, 1) * self.score_fn(x, t)
        return f - self.weight * pull, G * (not self.probability_flow)


class VESDE(SDE):
    def __init__(self, sigma_min=0.01, sigma_max=50, N=1000):
        super().__init__(N)
        self.sigma_min, self.sigma_max = sigma_min, sigma_max
        self.discrete_sigmas = torch.exp(torch.linspace(np.log(sigma_min), np.log(sigma_max), N))

    @property
    def T(self):
        return 1

    def marginal_prob(self, x, t):
        return x, self.sigma_min * (self.sigma_max / self.sigma_min) ** t

    def prior_sampling(self, shape):
        return torch.randn(*shape) * self.sigma_max

    def discretize(self, x, t):
        timestep = (t * (self.N - 1) / self.T).long()
        sigma = self.discrete_sigmas.to(t.device)[timestep]
        adjacent_sigma = torch.where(timestep == 0, torch.zeros_like(t), self.discrete_sigmas[timestep - 1].to(t.device))
        return torch.zeros_like(x), (sigma.square() - adjacent_sigma.square()).sqrt()
# --- sampling.py
import torch


def noise_like(x):
    return torch.randn(x.shape).to(x.device)


class ReverseDiffusionPredictor:
    def __init__(self, sde, score_fn, probability_flow=False):
        self.rsde = sde.reverse(score_fn, probability_flow)

    def update_fn(self, x, t):
        f, G = self.rsde.discretize(x, t)
        x_mean = x - f
        return x_mean + G[:, None, None, None] * noise_like(x), x_mean


class LangevinCorrector:
    def __init__(self, score_fn, snr, n_steps):
        self.score_fn, self.snr, self.n_steps = score_fn, snr, n_steps

    def update_fn(self, x, t):
        x_mean = x
        for _ in range(self.n_steps):
            grad, noise = self.score_fn(x, t), noise_like(x)
            sizes = [each.flatten(1).norm(dim=-1).mean() for each in (grad, noise)]
            step_size = 2 * (self.snr * sizes[1] / sizes[0]) ** 2
            x_mean = x + step_size * grad
            x = x_mean + (2 * step_size).sqrt() * noise
        return x, x_mean


def get_pc_sampler(sde, shape, snr, n_steps, eps, device):
    def pc_sampler(score_fn):
        predictor = ReverseDiffusionPredictor(sde, score_fn)
        corrector = LangevinCorrector(score_fn, snr, n_steps)
        with torch.no_grad():
            x = sde.prior_sampling(shape).to(device)
            timesteps = torch.linspace(sde.T, eps, sde.N, device=device)
            for t in timesteps:
                vec_t = torch.ones(shape[0], device=t.device) * t
                x, x_mean = corrector.update_fn(x, vec_t)
                x, x_mean = predictor.update_fn(x, vec_t)
        return x_mean, sde.N * (n_steps + 1)

    return pc_sampler

# === points_given_to_turned_boxes
# thread: https://github.com/open-mmlab/mmrotate/pull/1039
# about: a detector of ships from above learns from points. Before each step, an assigner says which points belong to which of the turned boxes
# operation: index on cpu
# operands: points_range|self|input|lvl_idx|indices
# error: indices should be either on cpu or on the same device
# category: created-without-device
# line: mmrotate/core/bbox/assigners/convex_assigner.py: points_range = torch.arange(points.shape[0])
# repair: mmrotate/core/bbox/assigners/convex_assigner.py: points_range = torch.arange(points.shape[0]) -> points_range = torch.arange(points.shape[0], device=points.device)
import torch
from torch import nn

from mmrotate.core.bbox.assigners.convex_assigner import ConvexAssigner


def grid_points(size, strides):
    points = []
    for stride in strides:
        axis = torch.arange(0, size, stride) + stride / 2
        y, x = torch.meshgrid(axis, axis, indexing="ij")
        points.append(torch.stack([x.flatten(), y.flatten(), torch.full((x.numel(),), float(stride))], dim=1))
    return torch.cat(points)


def turned_boxes(count, size, generator):
    centre = torch.rand(count, 1, 2, generator=generator) * size * 0.6 + size * 0.2
    half = torch.rand(count, 1, 2, generator=generator) * size * 0.15 + 3
    angle = torch.rand(count, generator=generator) * torch.pi
    corners = torch.tensor([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]) * half
    turn = torch.stack([torch.cos(angle), -torch.sin(angle), torch.sin(angle), torch.cos(angle)], dim=1).view(-1, 2, 2)
    return (corners @ turn.transpose(1, 2) + centre).flatten(1)


class PointHead(nn.Module):
    """Says of each point what it lies on, and how far the middle of that is."""

    def __init__(self, num_classes):
        super().__init__()
        self.hidden = nn.Linear(3, 16)
        self.cls = nn.Linear(16, num_classes + 1)
        self.offset = nn.Linear(16, 2)

    def forward(self, points, size):
        hidden = torch.tanh(self.hidden(points / size))
        return self.cls(hidden), self.offset(hidden)

    def loss(self, points, gt_rbboxes, assigned, size):
        scores, offsets = self(points, size)
        loss_cls = nn.functional.cross_entropy(scores, assigned.labels + 1)
        positive = assigned.gt_inds > 0
        middles = gt_rbboxes.view(-1, 4, 2).mean(dim=1)[assigned.gt_inds[positive] - 1]
        wanted = (middles - points[positive, :2]) / points[positive, 2:]
        return loss_cls, nn.functional.smooth_l1_loss(offsets[positive], wanted)


if __name__ == "__main__":
    torch.manual_seed(39)
    device, size = torch.device("cuda"), 64
    generator = torch.Generator().manual_seed(10)
    points = grid_points(size, strides=(4, 8, 16)).to(device)
    assigner = ConvexAssigner(scale=4, pos_num=3)
    head = PointHead(num_classes=2).to(device)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    found = 0
    for step in range(6):
        gt_rbboxes = turned_boxes(4, size, generator).to(device)
        gt_labels = torch.randint(0, 2, (4,), generator=generator).to(device)
        assigned = assigner.assign(points, gt_rbboxes, gt_labels=gt_labels)
        found += int((assigned.gt_inds > 0).sum())
        loss_cls, loss_offset = head.loss(points, gt_rbboxes, assigned, size)
        optimizer.zero_grad()
        (loss_cls + loss_offset).backward()
        optimizer.step()
    print(f"points {len(points)}, found {found}, classes {loss_cls.item():.3f}, offsets {loss_offset.item():.3f}")
# --- mmrotate/core/bbox/assigners/convex_assigner.py
from dataclasses import dataclass

import torch


@dataclass
class AssignResult:
    num_gts: int
    gt_inds: torch.Tensor
    labels: torch.Tensor


class ConvexAssigner:
    """Gives each box the few points that are nearest to its middle, on the level of its size."""

    def __init__(self, scale=4, pos_num=3):
        self.scale = scale
        self.pos_num = pos_num

    def get_horizontal_bboxes(self, gt_rbboxes):
        corners = gt_rbboxes.view(-1, 4, 2)
        return torch.cat([corners.amin(dim=1), corners.amax(dim=1)], dim=1)

    def assign(self, points, gt_rbboxes, gt_labels):
        num_points, num_gts = points.shape[0], gt_rbboxes.shape[0]
        assigned_gt_inds = points.new_zeros((num_points,), dtype=torch.long)
        assigned_labels = assigned_gt_inds.new_full((num_points,), -1)
        if num_gts == 0 or num_points == 0:
            return AssignResult(num_gts, assigned_gt_inds, assigned_labels)

        gt_bboxes = self.get_horizontal_bboxes(gt_rbboxes)
        middles = (gt_bboxes[:, :2] + gt_bboxes[:, 2:]) / 2
        sides = (gt_bboxes[:, 2:] - gt_bboxes[:, :2]).clamp(min=1e-6)
        points_lvl = points[:, 2].log2().int()
        gt_bboxes_lvl = torch.log2(sides / self.scale).mean(dim=1).int().clamp(points_lvl.min(), points_lvl.max())

        distance_so_far = points.new_full((num_points,), float("inf"))
        points_range = torch.arange(points.shape[0])

        for idx in range(num_gts):
            lvl_idx = gt_bboxes_lvl[idx] == points_lvl
            points_index = points_range[lvl_idx]
            distances = ((points[lvl_idx, :2] - middles[idx]) / sides[idx]).norm(dim=1)
            nearest, which = distances.topk(self.pos_num, largest=False)
            candidates = points_index[which]
            nearer = nearest < distance_so_far[candidates]
            assigned_gt_inds[candidates[nearer]] = idx + 1
            distance_so_far[candidates[nearer]] = nearest[nearer]

        positive = assigned_gt_inds > 0
        assigned_labels[positive] = gt_labels[assigned_gt_inds[positive] - 1]
        return AssignResult(num_gts, assigned_gt_inds, assigned_labels)

# === codes_drawn_on_a_sphere
# thread: https://github.com/nicola-decao/s-vae-pytorch/pull/4
# about: an autoencoder's codes lie on a sphere. They are drawn by trial, and how sharply they gather decides between two formulas of the trial
# operation: maximum|max on cpu, cuda:0
# operands: torch\.Tensor\(\[0\.\]\)|self|input
# category: created-without-device
# line: hyperspherical_vae/distributions/von_mises_fisher.py: s = torch.min(torch.max(torch.Tensor([0.]),
# repair: hyperspherical_vae/distributions/von_mises_fisher.py: s = torch.min(torch.max(torch.Tensor([0.]), self.scale - 10), torch.Tensor([1.])) -> s = torch.min(torch.max(torch.tensor([0.], device=self.device), self.scale - 10), torch.tensor([1.], device=self.device))
import torch
from torch import nn

from hyperspherical_vae.distributions.hyperspherical_uniform import HypersphericalUniform
from hyperspherical_vae.distributions.von_mises_fisher import VonMisesFisher


class ModelVAE(nn.Module):
    def __init__(self, x_dim, h_dim, z_dim):
        super().__init__()
        self.z_dim = z_dim
        self.fc_e0 = nn.Linear(x_dim, h_dim)
        self.fc_mean = nn.Linear(h_dim, z_dim)
        self.fc_var = nn.Linear(h_dim, 1)
        self.fc_d0 = nn.Linear(z_dim, h_dim)
        self.fc_logits = nn.Linear(h_dim, x_dim)

    def encode(self, x):
        x = torch.relu(self.fc_e0(x))
        z_mean = nn.functional.normalize(self.fc_mean(x), dim=-1)
        z_var = nn.functional.softplus(self.fc_var(x)) + 1
        return z_mean, z_var

    def decode(self, z):
        return self.fc_logits(torch.relu(self.fc_d0(z)))

    def forward(self, x):
        z_mean, z_var = self.encode(x)
        q_z = VonMisesFisher(z_mean, z_var)
        p_z = HypersphericalUniform(self.z_dim - 1)
        z = q_z.rsample()
        return q_z, p_z, self.decode(z)


def pictures(count, generator):
    """Bars of zeros and ones, some of whose pixels are flipped."""
    rows = torch.arange(12)[None] // torch.randint(2, 5, (count, 1), generator=generator) % 2
    flipped = torch.rand(count, 12, generator=generator) < 0.05
    return (rows.bool() ^ flipped).float()


if __name__ == "__main__":
    torch.manual_seed(4)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator().manual_seed(18)
    model = ModelVAE(x_dim=12, h_dim=16, z_dim=5).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(10):
        x_mb = pictures(24, generator).to(device)
        q_z, p_z, logits = model(x_mb)
        loss_recon = nn.functional.binary_cross_entropy_with_logits(logits, x_mb, reduction="none").sum(-1).mean()
        loss_kl = (p_z.entropy() - q_z.entropy()).mean()
        optimizer.zero_grad()
        (loss_recon + loss_kl).backward()
        optimizer.step()
    print(f"recon {loss_recon.item():.3f}, kl {loss_kl.item():.3f}, scale {q_z.scale.mean().item():.3f}")
# --- hyperspherical_vae/distributions/hyperspherical_uniform.py
import math


class HypersphericalUniform:
    """Every place of the sphere is as likely."""

    def __init__(self, dim):
        self._dim = dim

    def entropy(self):
        half = (self._dim + 1) / 2
        return math.log(2) + half * math.log(math.pi) - math.lgamma(half)
# --- hyperspherical_vae/distributions/von_mises_fisher.py
import math

import torch
from torch.distributions import Beta

from hyperspherical_vae.ops.ive import log_ive, mean_length


class VonMisesFisher(torch.distributions.Distribution):
    arg_constraints = {}
    has_rsample = True

    def __init__(self, loc, scale):
        self.dtype = loc.dtype
        self.loc = loc
        self.scale = scale
        self.device = loc.device
        self.__m = loc.shape[-1]
        self.__e1 = torch.Tensor([1.0] + [0] * (loc.shape[-1] - 1)).to(self.device)
        super().__init__(self.loc.size(), validate_args=False)

    def rsample(self, sample_shape=torch.Size()):
        w = self.__sample_w_rej()
        v = torch.randn(self.loc.shape)[..., 1:].to(self.device)
        v = v / v.norm(dim=-1, keepdim=True)
        x = torch.cat((w, torch.sqrt(torch.clamp(1 - w**2, 1e-10)) * v), -1)
        return self.__householder_rotation(x).type(self.dtype)

    def __sample_w_rej(self):
        c = torch.sqrt(4 * self.scale**2 + (self.__m - 1) ** 2)
        b_true = (-2 * self.scale + c) / (self.__m - 1)
        # for a large scale the difference above is not exact: between 10 and 11 an approximation takes over
        b_app = (self.__m - 1) / (4 * self.scale)
        s = torch.min(torch.max(torch.Tensor([0.]), self.scale - 10), torch.Tensor([1.]))
        b = b_app * s + b_true * (1 - s)
        a = (self.__m - 1 + 2 * self.scale + c) / 4
        d = 4 * a * b / (1 + b) - (self.__m - 1) * math.log(self.__m - 1)
        return self.__while_loop(b, a, d)

    def __while_loop(self, b, a, d):
        w = torch.zeros_like(b)
        waiting = torch.ones_like(b, dtype=torch.bool)
        beta = Beta((self.__m - 1) / 2, (self.__m - 1) / 2)
        while waiting.any():
            e_ = beta.sample(b.shape).to(self.device)
            u = torch.rand(b.shape).to(self.device)
            w_ = (1 - (1 + b) * e_) / (1 - (1 - b) * e_)
            t = 2 * a * b / (1 - (1 - b) * e_)
            accept = (self.__m - 1) * t.log() - t + d > torch.log(u)
            w = torch.where(waiting & accept, w_, w)
            waiting = waiting & ~accept
        return w

    def __householder_rotation(self, x):
        u = self.__e1 - self.loc
        u = u / (u.norm(dim=-1, keepdim=True) + 1e-5)
        return x - 2 * (x * u).sum(-1, keepdim=True) * u

    def entropy(self):
        half = self.__m / 2
        log_normalization = (half - 1) * torch.log(self.scale) - half * math.log(2 * math.pi) - self.scale - log_ive(half - 1, self.scale)
        return -self.scale * mean_length(half, self.scale) - log_normalization
# --- hyperspherical_vae/ops/ive.py
import torch


def log_ive(order, x, terms=40):
    """Logarithm of the modified Bessel function, weakened by exp(-x), from its series."""
    k = torch.arange(terms, dtype=x.dtype, device=x.device)
    parts = (2 * k + order) * torch.log(x / 2) - torch.lgamma(k + 1) - torch.lgamma(k + order + 1)
    return parts.logsumexp(dim=-1, keepdim=True) - x


def mean_length(order, x):
    return torch.exp(log_ive(order, x) - log_ive(order - 1, x))
