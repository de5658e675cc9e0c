# === a_node_asks_its_neighbors
# thread: https://github.com/alibaba/graphlearn-for-pytorch/pull/10
# about: nodes of a graph get a label by what their neighbors are. Neighbors are drawn on the card, and features are stored in an order of their own
# operation: index on cpu, cuda:0
# operands: self.id2index|id2index|self|tensor, ids|indices
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# category: input-not-moved|input
# line: data/feature.py: return self.cpu_get(ids)
# line: data/feature.py: ids = self.id2index[ids]
# line: loader/node_loader.py: x = self.data.node_features[node]
# line: data/dataset.py: self.node_features = Feature(
# line: data/dataset.py: def init_node_features(
# line: main.py: dataset.init_node_features(
# repair: data/feature.py: return self.cpu_get(ids) -> return self.cpu_get(ids.to("cpu"))
import numpy as np
import torch

from data.dataset import Dataset
from loader.node_loader import NeighborLoader
from models import GraphSAGE


def train(model, loader, optimizer):
    losses = []
    for batch in loader:
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[:batch.batch_size]
        loss = torch.nn.functional.cross_entropy(out, batch.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


if __name__ == "__main__":
    rng = np.random.default_rng(10)
    kind = torch.from_numpy(rng.integers(0, 3, 40))
    rows = np.repeat(np.arange(40), 6)
    cols = np.array([rng.choice(np.flatnonzero(kind.numpy() == kind[row].item()) if rng.random() < 0.8 else np.arange(40)) for row in rows])
    dataset = Dataset()
    dataset.init_graph(torch.from_numpy(rows), torch.from_numpy(cols), graph_mode="CUDA")
    dataset.init_node_features(torch.from_numpy(rng.normal(size=(40, 5))).float() + kind[:, None], sort=True)
    dataset.node_labels = kind
    torch.manual_seed(13)
    device = torch.device("cuda", 0)
    model = GraphSAGE(5, 12, 3).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    loader = NeighborLoader(dataset, fanout=4, input_nodes=torch.arange(30), batch_size=10, device=device)
    print("loss", [f"{train(model, loader, optimizer):.4f}" for _ in range(5)])
# --- data/feature.py
import torch


class Feature:
    """Rows of nodes. With `id2index` a node's row is where this says, and not where the node's number is."""

    def __init__(self, feature_tensor, id2index=None, with_gpu=False, device=None):
        self.feature_tensor, self.id2index = feature_tensor, id2index
        self.with_gpu, self.device = with_gpu, device
        if self.with_gpu:
            self.feature_tensor = self.feature_tensor.to(device)
            self.id2index = None if id2index is None else id2index.to(device)

    def __getitem__(self, ids):
        if not self.with_gpu:
            return self.cpu_get(ids)
        ids = ids.to(self.device)
        return self.feature_tensor[ids if self.id2index is None else self.id2index[ids]]

    def cpu_get(self, ids):
        if self.id2index is not None:
            ids = self.id2index[ids]
        return self.feature_tensor[ids]


def sort_by_in_degree(feature, degree):
    """Those that are asked for most often stand first."""
    order = torch.argsort(degree, descending=True, stable=True)
    id2index = torch.empty_like(order)
    id2index[order] = torch.arange(len(order))
    return feature[order], id2index
# --- data/dataset.py
import torch

from data.feature import Feature, sort_by_in_degree


class Graph:
    """Rows of neighbors, one behind the other."""

    def __init__(self, row, col, mode):
        order = torch.argsort(row, stable=True)
        degree = torch.bincount(row)
        device = "cuda:0" if mode == "CUDA" else "cpu"
        self.indptr = torch.cat([torch.zeros(1, dtype=torch.long), degree.cumsum(0)]).to(device)
        self.indices = col[order].to(device)
        self.in_degree = torch.bincount(col, minlength=len(degree))


class Dataset:
    def __init__(self):
        self.graph = self.node_features = self.node_labels = None

    def init_graph(self, row, col, graph_mode):
        self.graph = Graph(row, col, graph_mode)

    def init_node_features(self, node_feature_data, sort=False, with_gpu=False):
        id2index = None
        if sort:
            node_feature_data, id2index = sort_by_in_degree(node_feature_data, self.graph.in_degree)
        self.node_features = Feature(node_feature_data, id2index, with_gpu, "cuda:0")
# --- loader/node_loader.py
from types import SimpleNamespace

import torch


class NeighborSampler:
    """The first neighbors of each seed."""

    def __init__(self, graph, fanout):
        self.graph, self.fanout = graph, fanout

    def sample_from_nodes(self, seeds):
        seeds = seeds.to(self.graph.indptr.device)
        start = self.graph.indptr[seeds]
        count = self.graph.indptr[seeds + 1] - start
        steps = torch.arange(self.fanout, device=seeds.device)
        valid = steps < count[:, None]
        nbrs = self.graph.indices[(start[:, None] + steps).clamp(max=len(self.graph.indices) - 1)][valid]
        node = torch.cat([seeds, nbrs])
        target = torch.arange(len(seeds), device=seeds.device)[:, None].expand_as(valid)[valid]
        source = len(seeds) + torch.arange(len(nbrs), device=seeds.device)
        return node, torch.stack([source, target])


class NeighborLoader:
    def __init__(self, data, fanout, input_nodes, batch_size, device):
        self.data = data
        self.sampler = NeighborSampler(data.graph, fanout)
        self.seeds = input_nodes.split(batch_size)
        self.device = device

    def __iter__(self):
        for seeds in self.seeds:
            node, edge_index = self.sampler.sample_from_nodes(seeds)
            yield self._collate_fn(seeds, node, edge_index)

    def _collate_fn(self, seeds, node, edge_index):
        x = self.data.node_features[node]
        y = self.data.node_labels[seeds]
        return SimpleNamespace(x=x.to(self.device), y=y.to(self.device), edge_index=edge_index.to(self.device), batch_size=len(seeds))
# --- models.py
import torch
from torch import nn


class SAGEConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin_l, self.lin_r = nn.Linear(in_channels, out_channels), nn.Linear(in_channels, out_channels, bias=False)

    def forward(self, x, edge_index):
        source, target = edge_index
        total = torch.zeros_like(x).index_add_(0, target, x[source])
        count = torch.zeros_like(x[:, :1]).index_add_(0, target, torch.ones_like(x[source, :1]))
        return self.lin_l(total / count.clamp(min=1)) + self.lin_r(x)


class GraphSAGE(nn.Module):
    def __init__(self, in_channels, hidden_channels, out_channels):
        super().__init__()
        self.conv = SAGEConv(in_channels, hidden_channels)
        self.head = nn.Linear(hidden_channels, out_channels)

    def forward(self, x, edge_index):
        return self.head(torch.relu(self.conv(x, edge_index)))

# === a_pole_is_balanced_by_guesses
# thread: https://github.com/DeepRLChinese/DeepRL-Chinese/issues/4
# about: an agent learns to hold a pole upright. Every state is asked for an action, and steps that were made are learned from later
# operation: addmm|linear|mm on cpu, cuda:0
# operands: state|input, weight|bias|fc1.weight|fc1.bias
# category: input-not-moved
# line: dqn.py: action = agent.get_action(torch.from_numpy(state), epsilon)
# line: agent.py: qvals = self.Q(state)
# line: agent.py: x = F.relu(self.fc1(state))
# repair: dqn.py: action = agent.get_action(torch.from_numpy(state), epsilon) -> action = agent.get_action(torch.from_numpy(state).to(args.device),
#   epsilon)
import argparse
import random

import torch

import dqn
from agent import DQN
from environment import CartPole

parser = argparse.ArgumentParser()
parser.add_argument("--dim_hidden", default=16, type=int)
parser.add_argument("--discount", default=0.95, type=float)
parser.add_argument("--lr", default=5e-3, type=float)
parser.add_argument("--max_steps", default=120, type=int)
parser.add_argument("--batch_size", default=16, type=int)
parser.add_argument("--update_target", default=10, type=int)
parser.add_argument("--no_cuda", action="store_true")

if __name__ == "__main__":
    args = parser.parse_args()
    args.device = torch.device("cuda" if torch.cuda.is_available() and not args.no_cuda else "cpu")
    random.seed(4)
    torch.manual_seed(4)
    env = CartPole(seed=4)
    agent = DQN(dim_obs=4, num_act=2, dim_hidden=args.dim_hidden, discount=args.discount).to(args.device)
    rewards, losses = dqn.train(args, env, agent)
    print("rewards", rewards, "loss", [f"{loss:.4f}" for loss in losses[::25]])
# --- environment.py
import math

import numpy as np


class CartPole:
    """A pole on a cart that is pushed to the left or to the right."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.state = None

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, 4).astype(np.float32)
        return self.state

    def step(self, action):
        x, x_dot, theta, theta_dot = self.state.tolist()
        force = 10.0 if action == 1 else -10.0
        temp = (force + 0.05 * theta_dot ** 2 * math.sin(theta)) / 1.1
        theta_acc = (9.8 * math.sin(theta) - math.cos(theta) * temp) / (0.5 * (4 / 3 - 0.1 * math.cos(theta) ** 2 / 1.1))
        x_acc = temp - 0.05 * theta_acc * math.cos(theta) / 1.1
        self.state = np.array([x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc], dtype=np.float32)
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        return self.state, 1.0, bool(done)
# --- agent.py
import copy
import random

import torch
import torch.nn.functional as F
from torch import nn


class QNet(nn.Module):
    def __init__(self, dim_obs, num_act, dim_hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim_obs, dim_hidden)
        self.fc2 = nn.Linear(dim_hidden, dim_hidden)
        self.fc3 = nn.Linear(dim_hidden, num_act)

    def forward(self, state):
        x = F.relu(self.fc1(state))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


class DQN(nn.Module):
    def __init__(self, dim_obs, num_act, dim_hidden, discount):
        super().__init__()
        self.num_act, self.discount = num_act, discount
        self.Q = QNet(dim_obs, num_act, dim_hidden)
        self.target_Q = copy.deepcopy(self.Q)

    @torch.no_grad()
    def get_action(self, state, epsilon):
        if random.random() < epsilon:
            return random.randrange(self.num_act)
        qvals = self.Q(state)
        return qvals.argmax().item()

    def compute_loss(self, s_batch, a_batch, r_batch, d_batch, next_s_batch):
        qvals = self.Q(s_batch).gather(1, a_batch.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            next_qvals, _ = self.target_Q(next_s_batch).max(dim=1)
        return F.mse_loss(self.discount * next_qvals * (1 - d_batch) + r_batch, qvals)

    def update_target(self):
        self.target_Q.load_state_dict(self.Q.state_dict())
# --- dqn.py
import random

import numpy as np
import torch


class ReplayBuffer:
    def __init__(self):
        self.steps = []

    def push(self, *step):
        self.steps.append(step)

    def sample(self, n):
        states, actions, rewards, dones, next_states = zip(*random.sample(self.steps, n))
        return (
            torch.from_numpy(np.stack(states)),
            torch.tensor(actions),
            torch.tensor(rewards),
            torch.tensor(dones, dtype=torch.float32),
            torch.from_numpy(np.stack(next_states)),
        )


def train(args, env, agent):
    replay_buffer = ReplayBuffer()
    optimizer = torch.optim.Adam(agent.Q.parameters(), lr=args.lr)
    epsilon, episode_reward, rewards, losses = 1.0, 0.0, [], []
    state = env.reset()
    for i in range(args.max_steps):
        action = agent.get_action(torch.from_numpy(state), epsilon)
        next_state, reward, done = env.step(action)
        replay_buffer.push(state, action, reward, done, next_state)
        episode_reward += reward
        state = next_state
        if done:
            rewards.append(episode_reward)
            episode_reward = 0.0
            epsilon = max(0.1, 0.7 * epsilon)
            state = env.reset()
        if i < args.batch_size:
            continue
        batch = [each.to(args.device) for each in replay_buffer.sample(args.batch_size)]
        loss = agent.compute_loss(*batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if i % args.update_target == 0:
            agent.update_target()
    return rewards, losses

# === what_a_buyer_will_click_next
# thread: https://github.com/GitHub-HongweiZhang/prediction-flow/issues/37
# about: by what a buyer has looked at before, a net guesses if an advert will be clicked. Buyers have looked at more things or at fewer
# operation: _?pack_padded_sequence on cuda:0
# operands: lengths|keys_length
# error: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor
# category: input
# line: pytorch/interest.py: return pack_padded_sequence(keys, lengths=keys_length,
# line: pytorch/interest.py: packed_keys = pack(keys, keys_length)
# line: pytorch/interest.py: packed_interests = pack(
# repair: pytorch/interest.py: return pack_padded_sequence(keys, lengths=keys_length, batch_first=True, enforce_sorted=False) ->
#   return pack_padded_sequence(keys, lengths=keys_length.cpu(), batch_first=True, enforce_sorted=False)
import torch

from features import Features, clicks
from pytorch.dien import DIEN
from pytorch.functions import create_dataloader, fit, predict

if __name__ == "__main__":
    torch.manual_seed(37)
    features = Features(number_of_ads=12, max_length=6)
    train_loader = create_dataloader(clicks(features, rows=48, seed=1), batch_size=16)
    valid_loader = create_dataloader(clicks(features, rows=16, seed=2), batch_size=16)
    model = DIEN(features, embedding_size=8, hidden=(12,))
    if torch.cuda.is_available():
        print("GPU is available, transfer model to GPU.")
        model = model.cuda()
    losses = fit(3, model, torch.nn.BCEWithLogitsLoss(), torch.optim.Adam(model.parameters(), lr=0.02), train_loader)
    scores = predict(model, valid_loader)
    print("loss", [f"{loss:.4f}" for loss in losses], "scores", f"{scores.mean().item():.4f} {scores.std().item():.4f}")
# --- features.py
from dataclasses import dataclass

import numpy as np


@dataclass
class Features:
    number_of_ads: int
    max_length: int


def clicks(features, rows, seed):
    """An advert is clicked by those who have looked at others of its kind. Number 0 is no advert."""
    rng = np.random.default_rng(seed)
    table = []
    for _ in range(rows):
        ad = int(rng.integers(1, features.number_of_ads))
        length = int(rng.integers(1, features.max_length + 1))
        history = rng.integers(1, features.number_of_ads, length)
        label = float((history % 3 == ad % 3).mean() > 0.3)
        padded = np.concatenate([history, np.zeros(features.max_length - length, dtype=np.int64)])
        table.append({"ad": ad, "history": padded, "history_length": length, "label": np.float32(label)})
    return table
# --- pytorch/functions.py
import torch
from torch.utils.data import DataLoader


def create_dataloader(table, batch_size):
    return DataLoader(table, batch_size=batch_size)


def to_model(batch, model):
    device = next(model.parameters()).device
    return {name: value.to(device) for name, value in batch.items()}


def fit(epochs, model, loss, optimizer, train_loader):
    losses = []
    for _ in range(epochs):
        model.train()
        total = 0.0
        for batch in train_loader:
            batch = to_model(batch, model)
            optimizer.zero_grad()
            batch_loss = loss(model(batch), batch["label"])
            batch_loss.backward()
            optimizer.step()
            total += batch_loss.item()
        losses.append(total / len(train_loader))
    return losses


@torch.no_grad()
def predict(model, loader):
    model.eval()
    return torch.cat([model(to_model(batch, model)).sigmoid().cpu() for batch in loader])
# --- pytorch/interest.py
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def pack(keys, keys_length):
    return pack_padded_sequence(keys, lengths=keys_length, batch_first=True, enforce_sorted=False)


class InterestExtractorNetwork(nn.Module):
    def __init__(self, input_size):
        super().__init__()
        self.gru = nn.GRU(input_size, input_size, batch_first=True)

    def forward(self, keys, keys_length):
        packed_keys = pack(keys, keys_length)
        packed_interests, _ = self.gru(packed_keys)
        return pad_packed_sequence(packed_interests, batch_first=True, total_length=keys.shape[1])[0]


class InterestEvolvingNetwork(nn.Module):
    """What of a row of interests is alike to the advert goes through a further row."""

    def __init__(self, input_size):
        super().__init__()
        self.att = nn.Linear(3 * input_size, 1)
        self.gru = nn.GRU(input_size, input_size, batch_first=True)

    def attention(self, query, interests, keys_length):
        query = query[:, None].expand_as(interests)
        scores = self.att(torch.cat([query, interests, query * interests], dim=-1))[..., 0]
        mask = torch.arange(interests.shape[1], device=interests.device) < keys_length[:, None]
        return scores.masked_fill(~mask, float("-inf")).softmax(dim=1)

    def forward(self, query, interests, keys_length):
        weights = self.attention(query, interests, keys_length)
        packed_interests = pack(interests * weights[..., None], keys_length)
        return self.gru(packed_interests)[1][0]
# --- pytorch/dien.py
import torch
from torch import nn

from pytorch.interest import InterestEvolvingNetwork, InterestExtractorNetwork


class DIEN(nn.Module):
    def __init__(self, features, embedding_size, hidden):
        super().__init__()
        self.embedding = nn.Embedding(features.number_of_ads, embedding_size, padding_idx=0)
        self.interest_extractor = InterestExtractorNetwork(embedding_size)
        self.interest_evolution = InterestEvolvingNetwork(embedding_size)
        sizes = [2 * embedding_size, *hidden]
        layers = [each for a, b in zip(sizes, sizes[1:]) for each in (nn.Linear(a, b), nn.PReLU())]
        self.mlp = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))

    def forward(self, x):
        query = self.embedding(x["ad"])
        keys, keys_length = self.embedding(x["history"]), x["history_length"]
        interests = self.interest_extractor(keys, keys_length)
        evolved = self.interest_evolution(query, interests, keys_length)
        return self.mlp(torch.cat([query, evolved], dim=1))[:, 0]

# === depth_helps_a_field_of_light
# thread: https://github.com/dunbar12138/DSNeRF/issues/3
# about: colors and depths of rays teach a field of light. Rays come in batches in an order that is drawn, and a step is made when all were seen
# operation: randperm on cpu
# operands: generator|.*generator.*
# error: Expected a 'cuda' device type for generator but found 'cpu'
# category: generator|default-or-current-device
# line: run_nerf.py: raysRGB_loader = DataLoader(
# line: main.py: torch.set_default_tensor_type(
# repair: run_nerf.py: raysRGB_loader = DataLoader(RayDataset(rays_rgb), batch_size=args.N_rand, shuffle=True, num_workers=0) ->
#   raysRGB_loader = DataLoader(RayDataset(rays_rgb), batch_size=args.N_rand, shuffle=True, num_workers=0, generator=torch.Generator(device=device))
import argparse
import warnings

import torch

import run_nerf

warnings.filterwarnings("ignore", message=".*set_default_tensor_type.*")

parser = argparse.ArgumentParser()
parser.add_argument("--N_rand", type=int, default=36)
parser.add_argument("--N_samples", type=int, default=12)
parser.add_argument("--N_iters", type=int, default=12)
parser.add_argument("--netwidth", type=int, default=24)
parser.add_argument("--depth_lambda", type=float, default=0.1)
parser.add_argument("--lrate", type=float, default=5e-3)

if __name__ == "__main__":
    if torch.cuda.is_available():
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
    losses = run_nerf.train(parser.parse_args())
    print("loss", [f"{loss:.4f}" for loss in losses[::4] + losses[-1:]])
# --- data.py
import numpy as np
from torch.utils.data import Dataset


class RayDataset(Dataset):
    def __init__(self, ray_data):
        self.rayData = ray_data

    def __len__(self):
        return self.rayData.shape[0]

    def __getitem__(self, index):
        return self.rayData[index]


def load_colmap_data(views=3, side=6):
    """Rays that look at a ball, a row of ten numbers for each: origin, direction, color, depth."""
    rows = []
    for view in range(views):
        angle = 2 * np.pi * view / views
        origin = 4 * np.array([np.sin(angle), 0.0, np.cos(angle)])
        forward, right = -origin / 4, np.array([np.cos(angle), 0.0, -np.sin(angle)])
        for v in np.linspace(-0.4, 0.4, side):
            for u in np.linspace(-0.4, 0.4, side):
                direction = forward + u * right + v * np.array([0.0, 1.0, 0.0])
                direction = direction / np.linalg.norm(direction)
                b = origin @ direction
                inside = b * b - (origin @ origin - 1)
                depth = -b - np.sqrt(inside) if inside > 0 else 6.0
                color = (origin + depth * direction + 1) / 2 if inside > 0 else np.ones(3)
                rows.append(np.concatenate([origin, direction, color, [depth]]))
    return np.stack(rows).astype(np.float32)
# --- run_nerf_helpers.py
import numpy as np
import torch
from torch import nn

img2mse = lambda x, y: torch.mean((x - y) ** 2)


class Embedder(nn.Module):
    def __init__(self, multires):
        super().__init__()
        self.freq_bands = [2.0 ** n for n in range(multires)]

    def forward(self, inputs):
        return torch.cat([inputs] + [fn(inputs * freq) for freq in self.freq_bands for fn in (torch.sin, torch.cos)], -1)


class NeRF(nn.Module):
    def __init__(self, W, multires=3):
        super().__init__()
        self.embed = Embedder(multires)
        self.pts_linears = nn.Sequential(nn.Linear(3 + 6 * multires, W), nn.ReLU(), nn.Linear(W, W), nn.ReLU())
        self.output_linear = nn.Linear(W, 4)

    def load_weights_from_keras(self, seed):
        rng = np.random.default_rng(seed)
        for param in self.parameters():
            param.data = torch.from_numpy(rng.normal(0, 0.2, param.shape).astype(np.float32))
        return self

    def forward(self, pts):
        return self.output_linear(self.pts_linears(self.embed(pts)))


def raw2outputs(raw, z_vals):
    dists = torch.cat([z_vals[..., 1:] - z_vals[..., :-1], torch.full_like(z_vals[..., :1], 1e1)], -1)
    alpha = 1.0 - torch.exp(-torch.relu(raw[..., 3]) * dists)
    free = torch.cumprod(torch.cat([torch.ones_like(alpha[..., :1]), 1.0 - alpha + 1e-10], -1), -1)[..., :-1]
    weights = alpha * free
    rgb_map = torch.sum(weights[..., None] * torch.sigmoid(raw[..., :3]), -2)
    return rgb_map, torch.sum(weights * z_vals, -1)
# --- run_nerf.py
import torch
from torch.utils.data import DataLoader

from data import RayDataset, load_colmap_data
from run_nerf_helpers import NeRF, img2mse, raw2outputs

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def render_rays(ray_batch, network_fn, N_samples, near=2.0, far=6.0):
    rays_o, rays_d = ray_batch[:, 0:3], ray_batch[:, 3:6]
    t_vals = torch.linspace(0.0, 1.0, steps=N_samples, device=ray_batch.device)
    z_vals = (near * (1.0 - t_vals) + far * t_vals).expand(len(ray_batch), N_samples)
    pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
    return raw2outputs(network_fn(pts), z_vals)


def train(args):
    rays_rgb = load_colmap_data()
    network_fn = NeRF(args.netwidth).load_weights_from_keras(seed=3).to(device)
    optimizer = torch.optim.Adam(params=network_fn.parameters(), lr=args.lrate, betas=(0.9, 0.999))
    raysRGB_loader = DataLoader(RayDataset(rays_rgb), batch_size=args.N_rand, shuffle=True, num_workers=0)
    losses = []
    for _ in range(args.N_iters):
        total = 0.0
        optimizer.zero_grad()
        for batch in raysRGB_loader:
            batch = batch.to(device)
            batch_rays, target_s, target_depth = batch[:, :6], batch[:, 6:9], batch[:, 9]
            rgb, depth = render_rays(batch_rays, network_fn, args.N_samples)
            loss = img2mse(rgb, target_s) + args.depth_lambda * img2mse(depth, target_depth)
            loss = loss / len(raysRGB_loader)
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses

# === a_face_is_kept_through_a_film
# thread: https://github.com/kijai/ComfyUI-WanVideoWrapper/pull/1705
# about: a film is drawn of words and a first picture, and a face stays that of a reference. The reference goes through the net once, for its parts
# operation: addmm|linear|mm on cpu, cuda:0
# operands: context|input|x, weight|bias|.*text_embedding.*
# category: input-not-moved|module-split|cached-state
# line: nodes_sampler.py: context=lynx_ref_text_embed["prompt_embeds"],
# line: nodes_sampler.py: context=lynx_ref_text_embed["negative_prompt_embeds"],
# line: nodes_sampler.py: lynx_ref_text_embed = lynx_embeds["ref_text_embed"]
# line: nodes.py: return {"prompt_embeds": prompt_embeds, "negative_prompt_embeds": negative_prompt_embeds}
# line: nodes.py: prompt_embeds = self.encode(
# line: nodes.py: negative_prompt_embeds = self.encode(
# line: nodes.py: return [each.to(self.offload_device)
# line: wanvideo/model.py: context = self.text_embedding(
# repair: nodes_sampler.py: context=lynx_ref_text_embed["prompt_embeds"], -> context=[each.to(device) for each in
#   lynx_ref_text_embed["prompt_embeds"]],
# repair: nodes_sampler.py: context=lynx_ref_text_embed["negative_prompt_embeds"], -> context=[each.to(device) for each in
#   lynx_ref_text_embed["negative_prompt_embeds"]],
import torch

from nodes import WanVideoAddLynxEmbeds, WanVideoTextEncode
from nodes_sampler import WanVideoSampler
from wanvideo.model import WanModel

if __name__ == "__main__":
    torch.manual_seed(1705)
    encode = WanVideoTextEncode(vocab=30, width=10)
    transformer = WanModel(latent_dim=4, dim=16, text_dim=10, num_layers=2)
    text_embeds = encode.process("a woman walks in the rain", "blurry")
    ref_text_embed = encode.process("portrait of a woman", "blurry")
    steps = torch.linspace(0, 1, 6)
    image_embeds = {"image_latent": torch.sin(7 * steps)[:, None].repeat(1, 4)}
    face = torch.cos(5 * torch.linspace(0, 1, 3))[:, None] * torch.ones(4)
    image_embeds = WanVideoAddLynxEmbeds().add(image_embeds, face, ref_text_embed, ref_scale=0.8)
    samples = WanVideoSampler().process(transformer, image_embeds, text_embeds, steps=3, cfg=3.0)
    print("film", [f"{each:.4f}" for each in samples.mean(dim=1).tolist()])
# --- nodes.py
import torch
from torch import nn


class WanVideoTextEncode:
    """Words become rows of numbers. The encoder is on the card only while it is at work."""

    def __init__(self, vocab, width, device="cuda:0", offload_device="cpu"):
        self.vocab = vocab
        self.device, self.offload_device = torch.device(device), torch.device(offload_device)
        self.encoder = nn.Sequential(nn.Embedding(vocab, width), nn.LayerNorm(width), nn.Linear(width, width))

    @torch.no_grad()
    def encode(self, prompts):
        ids = [torch.tensor([sum(map(ord, word)) % self.vocab for word in prompt.split()], device=self.device) for prompt in prompts]
        return [each.to(self.offload_device) for each in map(self.encoder, ids)]

    def process(self, positive_prompt, negative_prompt):
        self.encoder.to(self.device)
        prompt_embeds = self.encode([positive_prompt])
        negative_prompt_embeds = self.encode([negative_prompt])
        self.encoder.to(self.offload_device)
        return {"prompt_embeds": prompt_embeds, "negative_prompt_embeds": negative_prompt_embeds}


class WanVideoAddLynxEmbeds:
    def add(self, embeds, ref_latent, ref_text_embed, ref_scale):
        lynx_embeds = {"ref_latent": ref_latent, "ref_text_embed": ref_text_embed, "ref_scale": ref_scale}
        return {**embeds, "lynx_embeds": lynx_embeds}
# --- nodes_sampler.py
import torch


class WanVideoSampler:
    def __init__(self, device="cuda:0", offload_device="cpu"):
        self.device, self.offload_device = torch.device(device), torch.device(offload_device)

    def extract_ref_buffers(self, transformer, lynx_embeds):
        """What the blocks have of the reference, with the words and without."""
        device = self.device
        ref_latent = lynx_embeds["ref_latent"].to(device)
        timestep = torch.zeros(1, device=device)
        lynx_ref_text_embed = lynx_embeds["ref_text_embed"]
        lynx_ref_buffer = transformer(
            ref_latent,
            timestep,
            context=lynx_ref_text_embed["prompt_embeds"],
            return_buffer=True,
        )
        lynx_ref_buffer_uncond = transformer(
            ref_latent,
            timestep,
            context=lynx_ref_text_embed["negative_prompt_embeds"],
            return_buffer=True,
        )
        return lynx_ref_buffer, lynx_ref_buffer_uncond

    @torch.no_grad()
    def process(self, transformer, image_embeds, text_embeds, steps, cfg):
        device = self.device
        transformer.to(device)
        text_embeds = {name: [each.to(device) for each in embeds] for name, embeds in text_embeds.items()}
        latent = image_embeds["image_latent"].to(device)
        lynx_embeds = image_embeds.get("lynx_embeds")
        buffer, buffer_uncond, ref_scale = None, None, 0.0
        if lynx_embeds is not None:
            buffer, buffer_uncond = self.extract_ref_buffers(transformer, lynx_embeds)
            ref_scale = lynx_embeds["ref_scale"]

        timesteps = torch.linspace(1, 0, steps + 1, device=device)
        for t, t_next in zip(timesteps, timesteps[1:]):
            cond = transformer(latent, t[None], text_embeds["prompt_embeds"], buffer, ref_scale)
            uncond = transformer(latent, t[None], text_embeds["negative_prompt_embeds"], buffer_uncond, ref_scale)
            latent = latent + (t_next - t) * (uncond + cfg * (cond - uncond))
        transformer.to(self.offload_device)
        return latent.to(self.offload_device)
# --- wanvideo/model.py
import torch
from torch import nn


def attention(q, k, v):
    return torch.softmax(q @ k.t() / q.shape[-1] ** 0.5, dim=-1) @ v


class WanAttentionBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.cross_k, self.cross_v = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, context, ref, ref_scale):
        normed = self.norm(x)
        q, k, v = self.qkv(normed).chunk(3, dim=-1)
        out = x + attention(q, k, v) + attention(q, self.cross_k(context), self.cross_v(context))
        if ref is not None:
            out = out + ref_scale * attention(q, *ref)
        return out + self.ffn(self.norm(out)), (k, v)


class WanModel(nn.Module):
    def __init__(self, latent_dim, dim, text_dim, num_layers):
        super().__init__()
        self.patch_embedding = nn.Linear(latent_dim, dim)
        self.time_embedding = nn.Linear(1, dim)
        self.text_embedding = nn.Sequential(nn.Linear(text_dim, dim), nn.GELU(approximate="tanh"), nn.Linear(dim, dim))
        self.blocks = nn.ModuleList(WanAttentionBlock(dim) for _ in range(num_layers))
        self.head = nn.Linear(dim, latent_dim)

    def forward(self, x, t, context, ref_buffer=None, ref_scale=0.0, return_buffer=False):
        x = self.patch_embedding(x) + self.time_embedding(t)
        context = self.text_embedding(torch.cat(context))
        buffer = []
        for index, block in enumerate(self.blocks):
            x, kept = block(x, context, ref_buffer[index] if ref_buffer else None, ref_scale)
            buffer.append(kept)
        return buffer if return_buffer else self.head(x)

# === atoms_move_by_a_learned_potential
# thread: https://github.com/ACEsuit/mace/pull/245
# about: atoms are moved by forces of a potential that was learned before and comes of a file. Its calculator is told by a name which device to take
# operation: mm|addmm|linear|matmul on cpu, cuda:0
# operands: node_attrs|input|self, weight|mat2
# category: default-or-current-device|input-not-moved|module-split
# line: tools/torch_tools.py: if device_str == "cuda":
# line: tools/torch_tools.py: return torch.device("cpu")
# line: calculators/mace.py: self.device = torch_tools.init_device(device)
# line: calculators/mace.py: batch = {key: value.to(self.device)
# line: run_md.py: return MACECalculator(
# line: main.py: calculator = mace_mp(
# repair: tools/torch_tools.py: if device_str == "cuda": -> if "cuda" in device_str:
# repair: tools/torch_tools.py: return torch.device("cuda") -> return torch.device(device_str)
import tempfile
from pathlib import Path

import numpy as np
import torch

from modules.models import ScaleShiftMACE
from run_md import VelocityVerlet, mace_mp

if __name__ == "__main__":
    torch.manual_seed(245)
    with tempfile.TemporaryDirectory() as folder:
        cached_model_path = Path(folder) / "mace-small.model"
        torch.save(ScaleShiftMACE(z_table=[1, 6, 8], r_max=3.0, channels=8), cached_model_path)
        calculator = mace_mp(cached_model_path, device="cuda:0")
    numbers = np.array([8, 1, 1, 6, 8])
    positions = np.array([[0.0, 0.0, 0.0], [0.9, 0.2, 0.0], [-0.3, 0.9, 0.1], [2.2, 1.0, 0.4], [2.6, 2.0, 0.3]])
    dyn = VelocityVerlet(numbers, positions, calculator, timestep=0.05)
    energies = dyn.run(steps=6)
    print("energies", [f"{energy:.4f}" for energy in energies], "moved", f"{np.abs(dyn.positions - positions).sum():.4f}")
# --- tools/torch_tools.py
import torch


def to_one_hot(indices, num_classes):
    oh = torch.zeros(len(indices), num_classes, device=indices.device)
    oh.scatter_(dim=-1, index=indices[:, None], value=1)
    return oh


def init_device(device_str):
    """The device of this name, when it can be used."""
    if device_str == "cuda":
        assert torch.cuda.is_available(), "No CUDA device available!"
        torch.cuda.init()
        return torch.device("cuda")
    return torch.device("cpu")
# --- modules/models.py
import math

import torch
from torch import nn


class RadialEmbeddingBlock(nn.Module):
    """Waves of a distance that end at the cutoff."""

    def __init__(self, r_max, num_bessel):
        super().__init__()
        self.r_max = r_max
        self.register_buffer("bessel_weights", math.pi / r_max * torch.arange(1, num_bessel + 1).float())

    def forward(self, lengths):
        cutoff = 0.5 * (torch.cos(math.pi * lengths / self.r_max) + 1)
        return torch.sin(self.bessel_weights * lengths) / lengths * cutoff


class ScaleShiftMACE(nn.Module):
    def __init__(self, z_table, r_max, channels, num_bessel=4):
        super().__init__()
        self.z_table, self.r_max = z_table, r_max
        self.node_embedding = nn.Linear(len(z_table), channels, bias=False)
        self.radial_embedding = RadialEmbeddingBlock(r_max, num_bessel)
        self.conv_tp_weights = nn.Sequential(nn.Linear(num_bessel, 16), nn.SiLU(), nn.Linear(16, channels))
        self.readout = nn.Sequential(nn.Linear(channels, 16), nn.SiLU(), nn.Linear(16, 1))
        self.register_buffer("atomic_energies", torch.linspace(-0.5, -2.0, len(z_table)))

    def forward(self, data):
        positions = data["positions"].requires_grad_()
        sender, receiver = data["edge_index"]
        node_feats = self.node_embedding(data["node_attrs"])
        vectors = positions[receiver] - positions[sender]
        lengths = torch.linalg.norm(vectors, dim=-1, keepdim=True)
        messages = node_feats[sender] * self.conv_tp_weights(self.radial_embedding(lengths))
        node_feats = node_feats + torch.zeros_like(node_feats).index_add(0, receiver, messages)
        node_energy = self.readout(node_feats)[:, 0] + data["node_attrs"] @ self.atomic_energies
        energy = node_energy.sum()
        return {"energy": energy.detach(), "forces": -torch.autograd.grad(energy, positions)[0]}
# --- calculators/mace.py
import torch

from tools import torch_tools


def atomic_data(numbers, positions, z_table, cutoff):
    positions = torch.from_numpy(positions).float()
    distances = torch.cdist(positions, positions)
    sender, receiver = torch.nonzero((distances < cutoff) & (distances > 0), as_tuple=True)
    indices = torch.tensor([z_table.index(number) for number in numbers.tolist()])
    return {
        "positions": positions,
        "edge_index": torch.stack([sender, receiver]),
        "node_attrs": torch_tools.to_one_hot(indices, len(z_table)),
    }


class MACECalculator:
    """Energy and forces of some atoms."""

    def __init__(self, model_path, device):
        self.model = torch.load(model_path, map_location=device, weights_only=False)
        self.device = torch_tools.init_device(device)
        for param in self.model.parameters():
            param.requires_grad = False
        self.results = {}

    def calculate(self, numbers, positions):
        batch = atomic_data(numbers, positions, self.model.z_table, self.model.r_max)
        batch = {key: value.to(self.device) for key, value in batch.items()}
        out = self.model(batch)
        self.results = {"energy": out["energy"].item(), "forces": out["forces"].cpu().double().numpy()}
        return self.results
# --- run_md.py
import numpy as np

from calculators.mace import MACECalculator


def mace_mp(model, device):
    return MACECalculator(model_path=model, device=device)


class VelocityVerlet:
    def __init__(self, numbers, positions, calculator, timestep):
        self.numbers, self.positions = numbers, positions.copy()
        self.velocities = np.zeros_like(positions)
        self.calculator, self.timestep = calculator, timestep

    def run(self, steps):
        results = self.calculator.calculate(self.numbers, self.positions)
        energies = [results["energy"]]
        for _ in range(steps):
            self.velocities += 0.5 * self.timestep * results["forces"] / self.numbers[:, None]
            self.positions += self.timestep * self.velocities
            results = self.calculator.calculate(self.numbers, self.positions)
            self.velocities += 0.5 * self.timestep * results["forces"] / self.numbers[:, None]
            energies.append(results["energy"])
        return energies
