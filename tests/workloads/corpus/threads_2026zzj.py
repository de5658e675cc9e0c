# === sensors_along_a_network_of_roads
# thread: https://github.com/GestaltCogTeam/BasicTS/pull/53
# about: how fast cars will go is told from what sensors saw before. Which sensors are near each other is known, and the net mixes what neighbors saw
# operation: bmm on cpu, cuda:0
# operands: .*gso.*
# category: state-not-registered
# line: stgcn.py: self.gso = gso
# line: stgcn.py: gso = self.gso
# line: stgcn.py: first_mul = torch.einsum(
# line: main.py: CFG["MODEL"]["PARAM"]["gso"] =
# line: adjacency.py: return torch.from_numpy(
# repair: stgcn.py: gso = self.gso -> gso = self.gso.to(x.device)
import numpy as np
import torch

from adjacency import normalized_adjacency
from runner import SimpleTimeSeriesForecastingRunner
from stgcn import STGCN

NODES = 6
CFG = {
    "GPU": 0,
    "SEED": 53,
    "DATASET_INPUT_LEN": 8,
    "MODEL": {"ARCH": STGCN, "PARAM": {"Ks": 3, "blocks": [[1], [8, 4, 8], [8, 1]], "T": 8, "n_vertex": NODES}},
    "TRAIN": {"LR": 5e-3, "NUM_EPOCHS": 2, "BATCH_SIZE": 8},
}


def roads():
    """A ring of roads, and one road across."""
    adj = np.zeros((NODES, NODES), dtype=np.float32)
    for node in range(NODES):
        adj[node, (node + 1) % NODES] = 1.0
    adj[0, 3] = 0.5
    return adj


def main():
    torch.manual_seed(CFG["SEED"])
    CFG["MODEL"]["PARAM"]["gso"] = normalized_adjacency(roads())
    runner = SimpleTimeSeriesForecastingRunner(CFG)
    runner.train()
    print(f"test MAE {runner.test():.3f}")


if __name__ == "__main__":
    main()
# --- adjacency.py
import numpy as np
import torch


def normalized_adjacency(adj):
    """Both ways, each node its own neighbor, and weighed by how many there are."""
    adj = np.maximum(adj, adj.T) + np.eye(len(adj), dtype=adj.dtype)
    scale = 1 / np.sqrt(adj.sum(1))
    return torch.from_numpy(scale[:, None] * adj * scale[None])
# --- stgcn.py
import torch
import torch.nn as nn


class TemporalConv(nn.Module):
    def __init__(self, Kt, c_in, c_out):
        super().__init__()
        self.conv = nn.Conv2d(c_in, 2 * c_out, (Kt, 1), padding=((Kt - 1) // 2, 0))

    def forward(self, x):
        value, gate = self.conv(x).chunk(2, dim=1)
        return value * gate.sigmoid()


class GraphConv(nn.Module):
    def __init__(self, c_in, c_out, gso):
        super().__init__()
        self.gso = gso
        self.weight = nn.Parameter(torch.empty(c_in, c_out))
        self.bias = nn.Parameter(torch.zeros(c_out))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x):
        gso = self.gso
        x = x.permute(0, 2, 3, 1)
        first_mul = torch.einsum("hi,btij->bthj", gso, x)
        second_mul = torch.einsum("bthi,ij->bthj", first_mul, self.weight)
        return (second_mul + self.bias).permute(0, 3, 1, 2)


class STConvBlock(nn.Module):
    def __init__(self, Kt, n_vertex, c_last, channels, gso):
        super().__init__()
        self.tmp_conv1 = TemporalConv(Kt, c_last, channels[0])
        self.graph_conv = GraphConv(channels[0], channels[1], gso)
        self.tmp_conv2 = TemporalConv(Kt, channels[1], channels[2])
        self.norm = nn.LayerNorm([n_vertex, channels[2]])

    def forward(self, x):
        x = self.tmp_conv1(x)
        x = self.graph_conv(x).relu()
        x = self.tmp_conv2(x)
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class STGCN(nn.Module):
    def __init__(self, Ks, blocks, T, n_vertex, gso):
        super().__init__()
        self.st_blocks = STConvBlock(Ks, n_vertex, blocks[0][-1], blocks[1], gso)
        self.output = nn.Conv2d(blocks[2][0], blocks[2][1], (T, 1))

    def forward(self, history_data):
        """[batch, time, node, feature], the same back, of the next time."""
        x = self.st_blocks(history_data.permute(0, 3, 1, 2))
        return self.output(x).permute(0, 2, 3, 1)
# --- runner.py
import torch


def speeds(steps, nodes):
    draw = torch.Generator().manual_seed(8)
    t = torch.arange(steps).view(-1, 1)
    phase = torch.arange(nodes).view(1, -1) / nodes
    return torch.sin(t / 6 + 6.3 * phase) + 0.1 * torch.randn(steps, nodes, generator=draw)


class SimpleTimeSeriesForecastingRunner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch.device("cuda", cfg["GPU"]) if torch.cuda.is_available() else torch.device("cpu")
        self.model = self.to_running_device(cfg["MODEL"]["ARCH"](**cfg["MODEL"]["PARAM"]))
        series = speeds(56, cfg["MODEL"]["PARAM"]["n_vertex"])
        windows = series.unfold(0, cfg["DATASET_INPUT_LEN"] + 1, 1).permute(0, 2, 1).unsqueeze(-1)
        self.train_data, self.test_data = windows[:32], windows[32:]

    def to_running_device(self, src):
        return src.to(self.device)

    def forward(self, data):
        history, future = data[:, :-1], data[:, -1:]
        prediction = self.model(self.to_running_device(history))
        return (prediction - self.to_running_device(future)).abs().mean()

    def train(self):
        optim = torch.optim.Adam(self.model.parameters(), lr=self.cfg["TRAIN"]["LR"])
        for _ in range(self.cfg["TRAIN"]["NUM_EPOCHS"]):
            for data in self.train_data.split(self.cfg["TRAIN"]["BATCH_SIZE"]):
                optim.zero_grad()
                self.forward(data).backward()
                optim.step()

    @torch.no_grad()
    def test(self):
        return self.forward(self.test_data).item()

# === why_this_word_and_not_that_one
# thread: https://github.com/inseq-team/inseq/issues/230
# about: which words made a model go on with this word rather than with that one. The model is too large for one card, and its layers are on two
# operation: sub on cuda:0, cuda:1
# operands: other|contrast_probs
# category: module-split|input-not-moved
# line: step_functions.py: return model_probs - contrast_probs
# line: step_functions.py: contrast_probs = probability_fn(
# line: step_functions.py: contrast_logits = args.attribution_model.output2logits(
# line: attribution_model.py: return forward_output["logits"][:, -1]
# line: attribution_model.py: logits = self.output2logits(output).to(self.device)
# repair: step_functions.py: return model_probs - contrast_probs -> return model_probs - contrast_probs.to(model_probs.device)
import torch

from attribution_model import load_model
from causal_lm import CausalLM, Tokenizer

TEXT = "the dog that chased the cats"
TARGET, CONTRAST = "is", "are"


def main():
    tokenizer = Tokenizer("the dog that chased cats is are big".split())
    torch.manual_seed(230)
    lm = CausalLM(len(tokenizer), dim=12, n_layers=2)
    if torch.cuda.device_count() > 1:
        lm.dispatch({"embed": 0, "layers.0": 0, "layers.1": 1, "lm_head": 1})
    model = load_model(lm, tokenizer)
    scores, difference = model.attribute(TEXT, TARGET, step_fn="contrast_prob_diff", contrast_targets=CONTRAST)
    for word, score in zip(TEXT.split(), scores):
        print(f"{word:8} {score:.3f}")
    print(f"{difference:.4f} {sum(scores):.4f}")


if __name__ == "__main__":
    main()
# --- causal_lm.py
import torch
from torch import nn


class Tokenizer:
    def __init__(self, words):
        self.ids = {word: index for index, word in enumerate(words)}

    def __len__(self):
        return len(self.ids)

    def encode(self, text):
        return torch.tensor([[self.ids[word] for word in text.split()]])


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        return x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).tanh())


class CausalLM(nn.Module):
    def __init__(self, vocab, dim, n_layers):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Block(dim) for _ in range(n_layers))
        self.lm_head = nn.Linear(dim, vocab)

    def dispatch(self, device_map):
        for name, index in device_map.items():
            self.get_submodule(name).to(torch.device("cuda", index))

    @property
    def device(self):
        return self.embed.weight.device

    def forward(self, inputs_embeds):
        x = inputs_embeds
        for layer in self.layers:
            x = layer(x.to(layer.qkv.weight.device))
        return {"logits": self.lm_head(x.to(self.lm_head.weight.device))}
# --- attribution_model.py
import torch

from step_functions import STEP_SCORES_MAP, StepFunctionArgs


class AttributionModel:
    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model.eval(), tokenizer
        self.device = model.device

    def embed(self, ids):
        return self.model.embed(ids.to(self.device))

    def get_forward_output(self, embeds):
        return self.model(embeds)

    @staticmethod
    def output2logits(forward_output):
        return forward_output["logits"][:, -1]

    def attribute(self, text, target, step_fn, **step_fn_args):
        input_ids = self.tokenizer.encode(text)
        target_ids = self.tokenizer.encode(target)[:, 0].to(self.device)
        embeds = self.embed(input_ids).detach().requires_grad_()
        output = self.get_forward_output(embeds)
        logits = self.output2logits(output).to(self.device)
        args = StepFunctionArgs(self, logits, embeds, target_ids)
        score = STEP_SCORES_MAP[step_fn](args, **step_fn_args).sum()
        score.backward()
        return embeds.grad.norm(dim=-1)[0].tolist(), score.item()


def load_model(model, tokenizer):
    return AttributionModel(model, tokenizer)
# --- step_functions.py
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class StepFunctionArgs:
    attribution_model: Any
    logits: torch.Tensor
    embeds: torch.Tensor
    target_ids: torch.Tensor


def probability_fn(logits, target_ids):
    probs = logits.softmax(-1)
    return probs.gather(-1, target_ids.to(probs.device).unsqueeze(-1)).squeeze(-1)


def entropy_fn(args):
    return torch.distributions.Categorical(logits=args.logits).entropy()


def contrast_prob_diff_fn(args, contrast_targets):
    """How much likelier the word is than the one it is held against."""
    contrast_ids = args.attribution_model.tokenizer.encode(contrast_targets)[:, 0]
    contrast_output = args.attribution_model.get_forward_output(args.embeds)
    contrast_logits = args.attribution_model.output2logits(contrast_output)
    model_probs = probability_fn(args.logits, args.target_ids)
    contrast_probs = probability_fn(contrast_logits, contrast_ids)
    return model_probs - contrast_probs


STEP_SCORES_MAP = {
    "probability": lambda args: probability_fn(args.logits, args.target_ids),
    "entropy": entropy_fn,
    "contrast_prob_diff": contrast_prob_diff_fn,
}

# === things_cut_out_of_a_scene_by_points
# thread: https://github.com/Jumpat/SegAnyGAussians/issues/40
# about: a scene is made of many small blobs, each with features. Someone points at a thing in one picture, and all blobs of that thing are found
# operation: index on cpu, cuda:0
# operands: self|cluster_centers, indices|cluster_mask
# category: input-not-moved
# line: prompt_segmenting.py: prototypes = torch.cat(
# line: prompt_segmenting.py: cluster_ids, cluster_centers = kmeans(
# line: prompt_segmenting.py: cluster_mask = ioa > 0.75
# line: kmeans.py: return ids.cpu(), centers.cpu()
# repair: prompt_segmenting.py: prototypes = torch.cat([mask_prototype.unsqueeze(0), cluster_centers[cluster_mask, :].cuda()], dim=0) -> prototypes =
#   torch.cat([mask_prototype.unsqueeze(0), cluster_centers.cuda()[cluster_mask, :]], dim=0)
import torch

from prompt_segmenting import segment_by_points
from scene import FeatureGaussianModel, Sam


def main():
    gaussians = FeatureGaussianModel(n_points=90, feature_dim=8, seed=40)
    if torch.cuda.is_available():
        gaussians.cuda()
    view = gaussians.render(height=12, width=12)
    sam = Sam(threshold=0.8)
    counts = []
    for input_point in ([2, 3], [8, 9]):
        point_scores = segment_by_points(gaussians, view, sam, input_point)
        selected = point_scores > 0.6
        counts.append(int(selected.sum()))
        print(input_point, f"{point_scores.mean().item():.3f}")
    print(counts)


if __name__ == "__main__":
    main()
# --- scene.py
import torch


class FeatureGaussianModel:
    """Three things, whose blobs have features that are alike."""

    def __init__(self, n_points, feature_dim, seed):
        draw = torch.Generator().manual_seed(seed)
        self.kinds = torch.arange(n_points) % 3
        directions = torch.eye(feature_dim)[:3]
        self.xy = torch.tensor([[0.25, 0.25], [0.75, 0.75], [0.25, 0.75]])[self.kinds] + 0.08 * torch.randn(n_points, 2, generator=draw)
        features = directions[self.kinds] + 0.1 * torch.randn(n_points, feature_dim, generator=draw)
        self.point_features = torch.nn.functional.normalize(features, dim=-1)

    def cuda(self):
        self.xy, self.point_features = self.xy.cuda(), self.point_features.cuda()

    def render(self, height, width):
        """Each pixel has the features of what is near it."""
        y = torch.linspace(0, 1, height, device=self.xy.device)
        x = torch.linspace(0, 1, width, device=self.xy.device)
        pixels = torch.stack(torch.meshgrid(y, x, indexing="ij"), dim=-1).view(-1, 2)
        weights = (-30 * (pixels[:, None] - self.xy[None]).square().sum(-1)).softmax(-1)
        rendered = torch.nn.functional.normalize(weights @ self.point_features, dim=-1)
        return rendered.T.reshape(-1, height, width)


class Sam:
    def __init__(self, threshold):
        self.threshold = threshold

    def predict(self, rendered_feature, point):
        at = rendered_feature[:, point[0], point[1]]
        return torch.einsum("C,CHW->HW", at, rendered_feature) > self.threshold
# --- kmeans.py
import torch


def kmeans(X, num_clusters, iterations=8):
    """Centers by their direction; the first ones are the first features that are far from those before."""
    centers = X[:1]
    while len(centers) < num_clusters:
        far = (X @ centers.T).amax(1).argmin()
        centers = torch.cat([centers, X[far:far + 1]])
    for _ in range(iterations):
        ids = (X @ centers.T).argmax(1)
        members = torch.nn.functional.one_hot(ids, num_clusters).float()
        centers = torch.nn.functional.normalize(members.T @ X, dim=-1)
    return ids.cpu(), centers.cpu()
# --- prompt_segmenting.py
import torch

from kmeans import kmeans


def drop_repeats(similarity_mask, cluster_mask, ioa):
    for i in range(len(cluster_mask)):
        for j in range(i + 1, len(cluster_mask)):
            if not (cluster_mask[i] and cluster_mask[j]):
                continue
            both = (similarity_mask[i] & similarity_mask[j]).sum()
            either = (similarity_mask[i] | similarity_mask[j]).sum()
            if both / either > 0.75:
                cluster_mask[j if ioa[i] > ioa[j] else i] = False
    return cluster_mask


def segment_by_points(gaussians, rendered_feature, sam, input_point):
    ref_mask = sam.predict(rendered_feature, input_point)
    in_mask = rendered_feature[:, ref_mask]
    mask_prototype = torch.nn.functional.normalize(in_mask.mean(-1), dim=-1)

    cluster_ids, cluster_centers = kmeans(in_mask.T, num_clusters=3)
    centers = cluster_centers.to(rendered_feature.device)
    similarity_mask = torch.einsum("NC,CHW->NHW", centers, rendered_feature) > 0.7
    covered = (similarity_mask & ref_mask).flatten(1).sum(-1)
    ioa = covered / similarity_mask.flatten(1).sum(-1).clamp(min=1)
    cluster_mask = ioa > 0.75
    cluster_mask = drop_repeats(similarity_mask, cluster_mask, ioa)

    if torch.cuda.is_available():
        prototypes = torch.cat([mask_prototype.unsqueeze(0), cluster_centers[cluster_mask, :].cuda()], dim=0)
    else:
        prototypes = torch.cat([mask_prototype.unsqueeze(0), cluster_centers[cluster_mask, :]], dim=0)
    point_logits = torch.einsum("NC,LC->NL", gaussians.point_features, prototypes).amax(-1)
    return torch.sigmoid(point_logits)

# === an_agent_that_sees_a_grid
# thread: https://github.com/abaisero/asym-rlpo/issues/5
# about: an agent walks on a grid, sees what lies around it and what it carries, and remembers. It is not trained yet, but walks some episodes
# operation: cat on cpu, cuda:0
# operands: tensors|cnn_output|.*cnn.*
# category: module-split
# line: grid_model.py: self.device = torch.device(
# line: grid_model.py: self.to(self.device)
# line: representations.py: return torch.cat([item, cnn_output], dim=-1)
# line: representations.py: cnn_output = self.cnn(
# line: main_a2c.py: models = make_models(
# repair: grid_model.py: self.device = torch.device('cuda' if torch.cuda.is_available() else 'cpu') -> self.device = torch.device('cpu')
import main_a2c

if __name__ == '__main__':
    raise SystemExit(main_a2c.main())
# --- main_a2c.py
import argparse

import torch
from torch import nn

from grid_env import GridEnv
from representations import GRUHistoryRepresentation, GV_ObservationRepresentation


def make_models(env, grid_model_type):
    observation_model = GV_ObservationRepresentation(env.num_objects, grid_model_type, embedding_size=4)
    history_model = GRUHistoryRepresentation(observation_model, hidden_size=16)
    policy_model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, env.num_actions), nn.LogSoftmax(dim=-1))
    return nn.ModuleDict({'history_model': history_model, 'policy_model': policy_model})


@torch.no_grad()
def sample_episode(env, models, max_steps):
    observation, hidden, rewards, certainty = env.reset(), None, 0.0, 0.0
    for _ in range(max_steps):
        features, hidden = models['history_model'](observation, hidden)
        logits = models['policy_model'](features)
        action = logits.argmax(-1).item()
        certainty += logits.amax().exp().item()
        observation, reward, done = env.step(action)
        rewards += reward
        if done:
            break
    return rewards, certainty / max_steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--gv-state-grid-model-type', default='cnn', choices=['cnn', 'fc'])
    parser.add_argument('--num-episodes', type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(5)
    env = GridEnv(size=5, seed=18)
    models = make_models(env, args.gv_state_grid_model_type)
    episodes = [sample_episode(env, models, max_steps=6) for _ in range(args.num_episodes)]
    print(*(f'{rewards:.1f} {certainty:.3f}' for rewards, certainty in episodes))
    return 0
# --- grid_env.py
import torch


class GridEnv:
    """Walls, floor and a key; the agent sees three cells each way."""

    num_objects, num_actions = 4, 4
    moves = ((-1, 0), (1, 0), (0, -1), (0, 1))

    def __init__(self, size, seed):
        self.size = size
        self.generator = torch.Generator().manual_seed(seed)

    def reset(self):
        self.grid = torch.randint(1, 3, (self.size, self.size), generator=self.generator)
        self.grid[self.size - 1, self.size - 1] = 3
        self.at, self.item = [1, 1], 0
        return self.observe()

    def observe(self):
        padded = torch.nn.functional.pad(self.grid, (1, 1, 1, 1))
        row, column = self.at
        seen = padded[row:row + 3, column:column + 3]
        return {'grid': seen.unsqueeze(0), 'item': torch.tensor([[self.item]])}

    def step(self, action):
        self.at = [min(max(place + move, 0), self.size - 1) for place, move in zip(self.at, self.moves[action])]
        self.item = int(self.grid[self.at[0], self.at[1]])
        done = self.item == 3
        return self.observe(), 10.0 if done else -0.1, done
# --- grid_model.py
import torch
from torch import nn


class GridCNN(nn.Module):
    def __init__(self, in_channels, dim=8):
        super().__init__()
        self.device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
        self.net = nn.Sequential(
            nn.Conv2d(in_channels, dim, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(dim, dim, kernel_size=3),
            nn.Flatten(),
        )
        self.dim = dim
        self.to(self.device)

    def forward(self, grid):
        return self.net(grid.permute(0, 3, 1, 2).to(self.device))


class GridFC(nn.Module):
    def __init__(self, in_channels, dim=8):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(9 * in_channels, dim))
        self.dim = dim

    def forward(self, grid):
        return self.net(grid)
# --- representations.py
import torch
from torch import nn

from grid_model import GridCNN, GridFC


class GV_ObservationRepresentation(nn.Module):
    def __init__(self, num_objects, grid_model_type, embedding_size):
        super().__init__()
        self.embedding = nn.Embedding(num_objects, embedding_size)
        self.cnn = {'cnn': GridCNN, 'fc': GridFC}[grid_model_type](embedding_size)
        self.dim = embedding_size + self.cnn.dim

    def forward(self, inputs):
        item = self.embedding(inputs['item']).flatten(start_dim=1)
        cnn_output = self.cnn(self.embedding(inputs['grid']))
        return torch.cat([item, cnn_output], dim=-1)


class GRUHistoryRepresentation(nn.Module):
    def __init__(self, observation_model, hidden_size):
        super().__init__()
        self.observation_model = observation_model
        self.rnn = nn.GRUCell(observation_model.dim, hidden_size)

    def forward(self, observation, hidden=None):
        hidden = self.rnn(self.observation_model(observation), hidden)
        return hidden, hidden

# === balls_that_take_the_shape_of_things
# thread: https://github.com/hassony2/obman_train/issues/13
# about: the shape of a thing that a hand holds is told from one picture, by bending a ball. To go faster, a batch of pictures is shared by two cards
# operation: cat on cuda:0, cuda:1
# operands: tensors|.*test_grid.*|.*test_verts.*
# category: data-parallel|state-not-registered
# line: atlasbranch.py: self.test_verts = test_verts.cuda() if torch.cuda.is_available() else test_verts
# line: atlasbranch.py: test_grid = self.test_verts
# line: atlasbranch.py: dec_img_features_grid = torch.cat(
# line: traineval.py: model = torch.nn.DataParallel(
# repair: atlasbranch.py: self.test_verts = test_verts.cuda() if torch.cuda.is_available() else test_verts -> self.register_buffer("test_verts", test_verts)
import traineval

if __name__ == "__main__":
    traineval.main(epochs=1, batch_size=4)
# --- icosphere.py
import torch

FACES = [(0, 2, 4), (2, 1, 4), (1, 3, 4), (3, 0, 4), (2, 0, 5), (1, 2, 5), (3, 1, 5), (0, 3, 5)]


def icosphere():
    """Eight faces, each cut in four, and all corners as far from the middle."""
    corners = torch.cat([torch.eye(3)[:2], -torch.eye(3)[:2]])[[0, 2, 1, 3]]
    corners = torch.cat([corners, torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])])
    middles = {tuple(sorted(edge)) for a, b, c in FACES for edge in ((a, b), (b, c), (a, c))}
    verts = torch.cat([corners, torch.stack([corners[a] + corners[b] + 1e-3 for a, b in sorted(middles)])])
    return torch.nn.functional.normalize(verts, dim=1)
# --- atlasbranch.py
import torch
from torch import nn
import torch.nn.functional as torch_f

from icosphere import icosphere


class PointGenCon(nn.Module):
    def __init__(self, bottleneck_size, out_factor):
        super().__init__()
        self.conv1 = nn.Conv1d(bottleneck_size, 16, 1)
        self.conv2 = nn.Conv1d(16, 3, 1)
        self.out_factor = out_factor

    def forward(self, x):
        return self.out_factor * self.conv2(torch_f.relu(self.conv1(x))).tanh()


class AtlasBranch(nn.Module):
    def __init__(self, points_nb, bottleneck_size, out_factor=2):
        super().__init__()
        self.points_nb = points_nb
        self.decoder = PointGenCon(3 + bottleneck_size, out_factor)
        test_verts = icosphere()
        self.test_verts = test_verts.cuda() if torch.cuda.is_available() else test_verts

    def forward(self, img_features):
        # any points on the ball, as many as are asked for
        steps = torch.arange(self.points_nb, device=img_features.device) + 0.5
        height = 1 - 2 * steps / self.points_nb
        angle = 2.4 * steps
        ring = (1 - height.square()).sqrt()
        grid = torch.stack([ring * angle.cos(), ring * angle.sin(), height]).unsqueeze(0).repeat(len(img_features), 1, 1)
        features = img_features.unsqueeze(2).repeat(1, 1, self.points_nb)
        return {"objpoints3d": self.decoder(torch.cat((grid, features), 1)).transpose(2, 1)}

    def forward_inference(self, img_features):
        test_grid = self.test_verts.unsqueeze(0).repeat(img_features.shape[0], 1, 1).transpose(2, 1)
        dec_img_features = img_features.unsqueeze(2).repeat(1, 1, test_grid.size(2))
        dec_img_features_grid = torch.cat((test_grid, dec_img_features), 1)
        return {"objpoints3d": self.decoder(dec_img_features_grid).transpose(2, 1)}
# --- handnet.py
from torch import nn

from atlasbranch import AtlasBranch


class HandNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.base_net = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.atlas_branch = AtlasBranch(points_nb=20, bottleneck_size=width)

    def forward(self, images):
        features = self.base_net(images)
        if self.training:
            return self.atlas_branch(features)
        return self.atlas_branch.forward_inference(features)
# --- traineval.py
import torch

from handnet import HandNet


def samples(number):
    draw = torch.Generator().manual_seed(12)
    images = torch.rand(number, 3, 16, 16, generator=draw)
    points = torch.nn.functional.normalize(torch.randn(number, 24, 3, generator=draw), dim=-1)
    return images, points * images.mean(dim=(1, 2, 3)).view(-1, 1, 1)


def chamfer(preds, targets):
    apart = (preds.unsqueeze(2) - targets.unsqueeze(1)).square().sum(-1)
    return apart.amin(1).mean() + apart.amin(2).mean()


def main(epochs, batch_size):
    torch.manual_seed(13)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = HandNet().to(device)
    if torch.cuda.device_count() > 1:
        model = torch.nn.DataParallel(model, device_ids=[0, 1])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    images, points = samples(12)
    for _ in range(epochs):
        model.train()
        for batch, target in zip(images.split(batch_size), points.split(batch_size)):
            loss = chamfer(model(batch.to(device))["objpoints3d"], target.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [
            chamfer(model(batch.to(device))["objpoints3d"], target.to(device)).item()
            for batch, target in zip(images.split(batch_size), points.split(batch_size))
        ]
    print(f"{sum(losses) / len(losses):.3f}")

# === what_was_taken_for_what
# thread: https://github.com/gradsflow/gradsflow-automl/issues/105
# about: a model is compiled with a loss, a way to train and some scores, and then fit. How often each class was taken for each other is counted on the way
# operation: add_ on cpu, cuda:0
# operands: self|.*confusion.*
# category: input-not-moved|module-split|created-without-device
# line: model.py: self.metrics.append(metric)
# line: model.py: self.add_metrics(*metrics)
# line: model.py: self.metrics = nn.ModuleList()
# line: metrics.py: self.register_buffer(
# line: metrics.py: self.confusion += counts
# line: model.py: metric.update(logits.detach(), target)
# repair: model.py: self.metrics.append(metric) -> self.metrics.append(metric.to(self.device))
import torch
from torch import nn

from autodata import AutoDataset
from metrics import Accuracy, MacroRecall
from model import Model


def main():
    torch.manual_seed(105)
    autodata = AutoDataset.from_clusters(num_classes=4, features=6, batch_size=16)
    learner = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 4))
    model = Model(learner)
    model.compile("crossentropyloss", "adam", metrics=(Accuracy(4), MacroRecall(4)), learning_rate=1e-2)
    tracker = model.fit(autodata, max_epochs=3)
    print(tracker[-1])


if __name__ == "__main__":
    main()
# --- autodata.py
import torch
from torch.utils.data import DataLoader, TensorDataset


class AutoDataset:
    def __init__(self, train, val, num_classes, batch_size):
        self.num_classes = num_classes
        self.train_dataloader = DataLoader(train, batch_size=batch_size)
        self.val_dataloader = DataLoader(val, batch_size=batch_size)

    @classmethod
    def from_clusters(cls, num_classes, features, batch_size, size=64):
        draw = torch.Generator().manual_seed(9)
        centers = 1.5 * torch.randn(num_classes, features, generator=draw)
        sets = []
        for _ in range(2):
            target = torch.randint(num_classes, (size,), generator=draw)
            sets.append(TensorDataset(centers[target] + torch.randn(size, features, generator=draw), target))
        return cls(*sets, num_classes, batch_size)
# --- metrics.py
import torch
from torch import nn


class ConfusionMetric(nn.Module):
    """Rows are what is true, columns what was said."""

    def __init__(self, num_classes):
        super().__init__()
        self.num_classes = num_classes
        self.register_buffer("confusion", torch.zeros(num_classes, num_classes))

    @property
    def name(self):
        return type(self).__name__.lower()

    def update(self, logits, target):
        cells = target * self.num_classes + logits.argmax(-1)
        counts = torch.bincount(cells, minlength=self.num_classes**2).view(self.num_classes, -1)
        self.confusion += counts

    def reset(self):
        self.confusion.zero_()


class Accuracy(ConfusionMetric):
    def compute(self):
        return (self.confusion.diagonal().sum() / self.confusion.sum()).item()


class MacroRecall(ConfusionMetric):
    def compute(self):
        return (self.confusion.diagonal() / self.confusion.sum(1).clamp(min=1)).mean().item()
# --- model.py
import torch
from torch import nn

LOSSES = {"crossentropyloss": nn.CrossEntropyLoss, "mse": nn.MSELoss}
OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


def default_device():
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class Model:
    def __init__(self, learner, device=None):
        self.device = device or default_device()
        self.learner = learner.to(self.device)
        self.metrics = nn.ModuleList()

    def add_metrics(self, *metrics):
        for metric in metrics:
            if not hasattr(metric, "compute"):
                raise NotImplementedError(f"metrics not implemented for {metric}!")
            self.metrics.append(metric)

    def compile(self, loss, optimizer, metrics=(), learning_rate=3e-4):
        self.loss = LOSSES[loss]()
        self.optimizer = OPTIMIZERS[optimizer](self.learner.parameters(), lr=learning_rate)
        self.add_metrics(*metrics)

    def send_to_device(self, batch):
        return [part.to(self.device) for part in batch]

    def step(self, batch):
        inputs, target = self.send_to_device(batch)
        logits = self.learner(inputs)
        for metric in self.metrics:
            metric.update(logits.detach(), target)
        return self.loss(logits, target)

    def _epoch(self, dataloader, train):
        for metric in self.metrics:
            metric.reset()
        losses = []
        with torch.set_grad_enabled(train):
            for batch in dataloader:
                loss = self.step(batch)
                if train:
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                losses.append(loss.item())
        scores = {metric.name: round(metric.compute(), 3) for metric in self.metrics}
        return {"loss": round(sum(losses) / len(losses), 3), **scores}

    def fit(self, autodataset, max_epochs):
        tracker = []
        for epoch in range(max_epochs):
            train = self._epoch(autodataset.train_dataloader, train=True)
            val = self._epoch(autodataset.val_dataloader, train=False)
            tracker.append({"epoch": epoch, "train/loss": train["loss"], **{f"val/{name}": value for name, value in val.items()}})
        return tracker
