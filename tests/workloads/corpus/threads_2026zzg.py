# === tally_of_a_change_of_variables
# thread: https://github.com/tonyduan/normalizing-flows/pull/6
# about: a chain of flows learns two moons on the second card. The likelihood of a batch is that of the prior, with what each flow adds to it
# operation: add_ on cpu, cuda:1
# operands: self|log_det|.*log_det.*
# category: created-without-device
# line: models.py: log_det = torch.zeros(m)
# line: models.py: log_det += ld
# repair: models.py: log_det = torch.zeros(m) -> log_det = torch.zeros(m, device=x.device)
import argparse

import torch
from torch.distributions import MultivariateNormal

from flows import Planar, RealNVP
from models import NormalizingFlowModel
from utils import gen_moons


def main():
    argparser = argparse.ArgumentParser()
    argparser.add_argument("--n", default=64, type=int)
    argparser.add_argument("--iterations", default=6, type=int)
    argparser.add_argument("--gpu", default=1, type=int)
    args = argparser.parse_args()

    torch.manual_seed(20)
    device = torch.device("cuda", args.gpu) if torch.cuda.is_available() else torch.device("cpu")
    x = gen_moons(args.n).to(device)
    flows = [RealNVP(dim=2, hidden_dim=8), Planar(dim=2), RealNVP(dim=2, hidden_dim=8)]
    prior = MultivariateNormal(torch.zeros(2, device=device), torch.eye(2, device=device))
    model = NormalizingFlowModel(prior, flows).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)

    for i in range(args.iterations):
        optimizer.zero_grad()
        z, prior_logprob, log_det = model(x)
        loss = -torch.mean(prior_logprob + log_det)
        loss.backward()
        optimizer.step()
    z, prior_logprob, _ = model(x)
    print(f"Iter: {args.iterations}\tLogprob: {-loss.item():.3f}\tPrior: {prior_logprob.mean().item():.3f}\tSpread: {z.std().item():.3f}")


if __name__ == "__main__":
    main()
# --- models.py
import torch.nn as nn
import torch


class NormalizingFlowModel(nn.Module):
    def __init__(self, prior, flows):
        super().__init__()
        self.prior = prior
        self.flows = nn.ModuleList(flows)

    def forward(self, x):
        m, _ = x.shape
        log_det = torch.zeros(m)
        for flow in self.flows:
            x, ld = flow(x)
            log_det += ld
        z, prior_logprob = x, self.prior.log_prob(x)
        return z, prior_logprob, log_det
# --- flows.py
import torch
import torch.nn as nn
import torch.nn.functional as F


class FCNN(nn.Module):
    def __init__(self, in_dim, out_dim, hidden_dim):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(in_dim, hidden_dim), nn.Tanh(), nn.Linear(hidden_dim, out_dim))

    def forward(self, x):
        return self.network(x)


class Planar(nn.Module):
    """One fold of the plane."""

    def __init__(self, dim):
        super().__init__()
        self.w = nn.Parameter(0.3 * torch.randn(dim))
        self.u = nn.Parameter(0.3 * torch.randn(dim))
        self.b = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        scale = torch.dot(self.w, self.u)
        u = self.u + (F.softplus(scale) - 1 - scale) * self.w / self.w.pow(2).sum()
        lin = x @ self.w + self.b
        z = x + torch.tanh(lin).unsqueeze(1) * u
        phi = (1 - torch.tanh(lin) ** 2).unsqueeze(1) * self.w
        return z, torch.log(torch.abs(1 + phi @ u) + 1e-4)


class RealNVP(nn.Module):
    """Each half is scaled and shifted by what a small network makes of the other."""

    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.half = dim // 2
        self.t1, self.s1 = FCNN(self.half, self.half, hidden_dim), FCNN(self.half, self.half, hidden_dim)
        self.t2, self.s2 = FCNN(self.half, self.half, hidden_dim), FCNN(self.half, self.half, hidden_dim)

    def forward(self, x):
        lower, upper = x[:, : self.half], x[:, self.half :]
        s_lower = self.s1(lower)
        upper = self.t1(lower) + upper * torch.exp(s_lower)
        s_upper = self.s2(upper)
        lower = self.t2(upper) + lower * torch.exp(s_upper)
        return torch.cat([lower, upper], dim=1), s_lower.sum(dim=1) + s_upper.sum(dim=1)
# --- utils.py
import math

import torch


def gen_moons(n, noise=0.05):
    angle = math.pi * torch.arange(n // 2) / (n // 2)
    outer = torch.stack([angle.cos(), angle.sin()], dim=1)
    inner = torch.stack([1 - angle.cos(), 0.5 - angle.sin()], dim=1)
    return torch.cat([outer, inner]) + noise * torch.randn(n // 2 * 2, 2)

# === walks_from_every_node
# thread: https://github.com/toenshoff/CRaWl/pull/4
# about: random walks over a batch of small graphs are drawn and read by a convolution. In evaluation a walk begins at every node that has a neighbour
# operation: index|index_select|getitem|__getitem__ on cpu, cuda:0
# operands: self|start|.*degrees.*
# error: indices should be either on cpu or on the same device as the indexed tensor
# category: created-without-device
# line: walker.py: start = torch.arange(
# line: walker.py: start = start[degrees[start] > 0]
# repair: walker.py: start = torch.arange(0, n, dtype=torch.int64).view(-1) -> start = torch.arange(0, n, dtype=torch.int64).view(-1).to(device)
import torch

from graphs import merge, path_with_a_hermit, star
from model import WalkNet

CONFIG = {"steps": 6, "train_start_ratio": 0.5, "win_size": 3, "hidden_dim": 8, "out_dim": 2}


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    outputs = [model(data.to(device), start_p=1.0) for data in loader]
    return torch.cat(outputs).softmax(dim=-1)


def main():
    torch.manual_seed(4)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = [merge([star(5), path_with_a_hermit(4)]), merge([path_with_a_hermit(6), star(3), star(4)])]
    model = WalkNet(node_feat_dim=3, config=CONFIG).to(device)
    scores = evaluate(model, loader, device)
    print(len(scores), " ".join(f"{value:.3f}" for value in scores[:, 0].tolist()))


if __name__ == "__main__":
    main()
# --- walker.py
import torch


class Walker(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.steps = config["steps"]
        self.train_start_ratio = config["train_start_ratio"]

    @staticmethod
    def sample_start(start_p, n, device):
        """Every k-th node, so that about this part of them is taken."""
        return torch.arange(0, n, max(1, round(1 / start_p)), device=device)

    def next_edges(self, i, nodes, adj_offset, degrees):
        choices = (7 * nodes + 3 * i) % degrees[nodes]
        return adj_offset[nodes] + choices

    def sample_walks(self, data, steps=None, start_p=1.0):
        device = data.x.device
        adj_nodes = data.edge_index[1]
        adj_offset, degrees = data.adj_offset, data.degrees
        steps = self.steps if steps is None else steps
        n = degrees.shape[0]

        if self.training and start_p < 1.0:
            start = Walker.sample_start(start_p, n, device)
        else:
            start = torch.arange(0, n, dtype=torch.int64).view(-1)
        start = start[degrees[start] > 0]

        w = start.shape[0]
        walks = torch.zeros((steps + 1, w), dtype=torch.int64, device=device)
        walks[0] = start
        for i in range(steps):
            walks[i + 1] = adj_nodes[self.next_edges(i, walks[i], adj_offset, degrees)]
        return walks
# --- graphs.py
import dataclasses

import torch


@dataclasses.dataclass
class GraphData:
    x: torch.Tensor
    edge_index: torch.Tensor
    batch: torch.Tensor
    adj_offset: torch.Tensor
    degrees: torch.Tensor
    num_graphs: int

    def to(self, device):
        moved = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return GraphData(**{name: v.to(device) if isinstance(v, torch.Tensor) else v for name, v in moved.items()})


def star(n):
    return n, [(0, i) for i in range(1, n)] + [(i, 0) for i in range(1, n)]


def path_with_a_hermit(n):
    """The last node has no neighbour."""
    return n, [(i, i + 1) for i in range(n - 2)] + [(i + 1, i) for i in range(n - 2)]


def merge(graphs):
    edges, batch, offset = [], [], 0
    for g, (n, pairs) in enumerate(graphs):
        edges += [(a + offset, b + offset) for a, b in pairs]
        batch += [g] * n
        offset += n
    edge_index = torch.tensor(sorted(edges)).t().contiguous()
    degrees = torch.bincount(edge_index[0], minlength=offset)
    adj_offset = torch.cumsum(degrees, 0) - degrees
    x = torch.nn.functional.one_hot(torch.arange(offset) % 3, 3).float()
    return GraphData(x, edge_index, torch.tensor(batch), adj_offset, degrees, len(graphs))
# --- model.py
import torch
from torch import nn

from walker import Walker


class WalkNet(nn.Module):
    """Walks are read by a convolution; its windows are pooled where they were centred."""

    def __init__(self, node_feat_dim, config):
        super().__init__()
        self.walker = Walker(config)
        self.pad = config["win_size"] // 2
        self.conv = nn.Conv1d(node_feat_dim, config["hidden_dim"], config["win_size"])
        self.out = nn.Linear(config["hidden_dim"], config["out_dim"])

    def forward(self, data, start_p=None):
        walks = self.walker.sample_walks(data, start_p=self.walker.train_start_ratio if start_p is None else start_p)
        feat = data.x[walks].permute(1, 2, 0)
        hidden = torch.relu(self.conv(feat))
        center = walks[self.pad : -self.pad].t().reshape(-1)
        flat = hidden.transpose(1, 2).reshape(center.shape[0], -1)
        pooled = torch.zeros(data.num_graphs, flat.shape[1], dtype=flat.dtype, device=flat.device)
        pooled = pooled.index_add(0, data.batch[center], flat)
        return self.out(pooled / walks.shape[1])

# === equal_odds_of_two_groups
# thread: https://github.com/wbawakate/fairtorch/pull/23
# about: a small network judges applicants. A penalty of its loss grows when the mean of its answers is another for one group than for all
# operation: mv|addmv_? on cpu, cuda:0
# operands: self|M|.*self\.M.*
# category: state-not-registered|created-without-device
# line: constraint.py: gap_constraint = F.relu(
# line: constraint.py: self.M = constraint_matrix(
# line: constraint.py: self.c = torch.zeros(
# repair: constraint.py: gap_constraint = F.relu(torch.mv(self.M, mu) - self.c) ->
#   gap_constraint = F.relu(torch.mv(self.M.to(mu.device), mu) - self.c.to(mu.device))
import torch
from torch import nn

from constraint import DemographicParityLoss
from dataset import SensitiveDataset, loader_of


class Judge(nn.Module):
    def __init__(self, n_features):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_features, 12), nn.ReLU(), nn.Linear(12, 1))

    def forward(self, x):
        return self.layers(x)


def train(model, criterion, dp_loss, optimizer, loader, device, epochs=3):
    for _ in range(epochs):
        for x, y, sensitive in loader:
            x, y, sensitive = x.to(device), y.to(device), sensitive.to(device)
            optimizer.zero_grad()
            logit = model(x)
            loss = criterion(logit.view(-1), y)
            loss = loss + dp_loss(x, logit, sensitive)
            loss.backward()
            optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(23)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = SensitiveDataset(n=60, n_features=5)
    model = Judge(5).to(device)
    criterion = nn.BCEWithLogitsLoss()
    dp_loss = DemographicParityLoss(sensitive_classes=[0, 1], alpha=10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = train(model, criterion, dp_loss, optimizer, loader_of(dataset, batch_size=20), device)
    with torch.no_grad():
        answers = torch.sigmoid(model(dataset.x.to(device))).view(-1).cpu()
    means = [answers[dataset.sensitive == v].mean().item() for v in (0, 1)]
    print(f"loss {loss:.3f} means {means[0]:.3f} {means[1]:.3f}")


if __name__ == "__main__":
    main()
# --- constraint.py
import torch
from torch import nn
from torch.nn import functional as F


def constraint_matrix(n_constraints, dim_condition):
    """Rows in pairs: a group is not above all, and all are not above the group."""
    matrix = torch.zeros(n_constraints, dim_condition)
    for i in range(n_constraints):
        sign = 1.0 if i % 2 == 0 else -1.0
        matrix[i, i // 2] = sign
        matrix[i, -1] = -sign
    return matrix


class ConstraintLoss(nn.Module):
    def __init__(self, n_class=2, alpha=1, p_norm=2):
        super().__init__()
        self.alpha = alpha
        self.p_norm = p_norm
        self.n_class = n_class
        self.n_constraints = 2 * n_class
        self.dim_condition = n_class + 1
        self.M = constraint_matrix(self.n_constraints, self.dim_condition)
        self.c = torch.zeros(self.n_constraints)

    def mu_f(self, X=None, out=None, sensitive=None, y=None):
        raise NotImplementedError

    def forward(self, X, out, sensitive, y=None):
        sensitive = sensitive.view(out.shape)
        out = torch.sigmoid(out)
        mu = self.mu_f(X=X, out=out, sensitive=sensitive, y=y)
        gap_constraint = F.relu(torch.mv(self.M, mu) - self.c)
        if self.p_norm == 2:
            return self.alpha * torch.dot(gap_constraint, gap_constraint)
        return self.alpha * torch.dot(gap_constraint.detach(), gap_constraint)


class DemographicParityLoss(ConstraintLoss):
    def __init__(self, sensitive_classes=(0, 1), alpha=1, p_norm=2):
        super().__init__(n_class=len(sensitive_classes), alpha=alpha, p_norm=p_norm)
        self.sensitive_classes = list(sensitive_classes)

    def mu_f(self, X=None, out=None, sensitive=None, y=None):
        expected_values = [out[sensitive == v].mean() for v in self.sensitive_classes]
        return torch.stack([*expected_values, out.mean()])
# --- dataset.py
import torch
from torch.utils.data import DataLoader, Dataset


class SensitiveDataset(Dataset):
    def __init__(self, n, n_features):
        self.x = torch.randn(n, n_features)
        self.sensitive = torch.arange(n) % 2
        self.y = ((self.x[:, 0] + 0.8 * self.sensitive) > 0.3).float()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index], self.sensitive[index]


def loader_of(dataset, batch_size):
    return DataLoader(dataset, batch_size=batch_size, shuffle=False)

# === order_of_turned_letters
# thread: https://github.com/ziatdinovmax/pyroVED/pull/50
# about: an autoencoder that does not mind turns learns small pictures. Its batches come from a loader that shuffles them
# operation: random_ on cpu, cuda:0
# operands: generator|.*generator.*
# error: Expected a '(cpu|cuda)' device type for generator but found '(cpu|cuda)'
# category: generator|default-or-current-device
# line: data.py: generator = torch.Generator(
# line: data.py: device = kwargs.get("device",
# line: data.py: tensor_set, batch_size=batch_size, shuffle=True, generator=generator
# repair: data.py: generator = torch.Generator(device) -> generator = torch.Generator(device) if kwargs.get("device") else None
import torch

from data import gen_letters, init_dataloader
from model import RVAE
from trainer import SVItrainer


def main():
    torch.manual_seed(50)
    train_data = gen_letters(n=24, size=8)
    train_loader = init_dataloader(train_data, batch_size=24)
    rvae = RVAE((8, 8), latent_dim=2)
    trainer = SVItrainer(rvae, lr=1e-2)
    for epoch in range(3):
        trainer.step(train_loader)
        trainer.print_statistics()
    z_mean = rvae.encode(train_data)
    print(f"{trainer.loss_history[-1]:.3f} {z_mean.shape[1]} {z_mean.std().item():.3f}")


if __name__ == "__main__":
    main()
# --- data.py
import torch


def gen_letters(n, size):
    """A bar and a foot, turned by a quarter each time."""
    letter = torch.zeros(size, size)
    letter[1:-1, 2] = 1.0
    letter[-2, 2:-1] = 1.0
    shades = torch.linspace(0.5, 1.0, n)
    return torch.stack([shade * torch.rot90(letter, k % 4) for k, shade in enumerate(shades)])


def init_dataloader(*args, shuffle=True, **kwargs):
    """A loader of these tensors, which have as many rows."""
    device = kwargs.get("device", "cuda:0" if torch.cuda.is_available() else "cpu")
    batch_size = kwargs.get("batch_size", 100)
    tensor_set = torch.utils.data.dataset.TensorDataset(*args)
    if not shuffle:
        return torch.utils.data.DataLoader(tensor_set, batch_size=batch_size)
    generator = torch.Generator(device)
    return torch.utils.data.DataLoader(
        tensor_set, batch_size=batch_size, shuffle=True, generator=generator
    )
# --- model.py
import torch
from torch import nn
from torch.nn import functional as F


class RVAE(nn.Module):
    """Reads a picture's angle first, turns a grid by it, and paints the picture on the grid."""

    def __init__(self, in_dim, latent_dim, hidden=16):
        super().__init__()
        self.in_dim = in_dim
        n = in_dim[0] * in_dim[1]
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(n, hidden), nn.Tanh(), nn.Linear(hidden, latent_dim + 1))
        self.decoder = nn.Sequential(nn.Linear(latent_dim + 2, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, in_dim[0]), torch.linspace(-1, 1, in_dim[1]), indexing="ij")
        self.register_buffer("grid", torch.stack([xs, ys], dim=-1).view(-1, 2))

    def forward(self, x):
        angle, z = self.encoder(x).split([1, self.encoder[-1].out_features - 1], dim=-1)
        cos, sin = angle.cos(), angle.sin()
        turn = torch.stack([torch.cat([cos, -sin], 1), torch.cat([sin, cos], 1)], dim=1)
        coord = self.grid.unsqueeze(0) @ turn
        z = z.unsqueeze(1).expand(-1, coord.shape[1], -1)
        return self.decoder(torch.cat([coord, z], dim=-1)).view_as(x)

    def elbo(self, x):
        return F.binary_cross_entropy_with_logits(self(x), x, reduction="none").sum(dim=(1, 2)).mean()

    @torch.no_grad()
    def encode(self, x):
        return self.encoder(x.to(self.grid.device))[:, 1:].cpu()
# --- trainer.py
import torch


class SVItrainer:
    def __init__(self, model, lr=1e-3, device=None):
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.loss_history = []
        self.current_epoch = 0

    def step(self, train_loader):
        epoch_loss = 0.0
        for (x,) in train_loader:
            loss = self.model.elbo(x.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            epoch_loss += loss.item() * len(x)
        self.loss_history.append(epoch_loss / len(train_loader.dataset))
        self.current_epoch += 1

    def print_statistics(self):
        print(f"Epoch: {self.current_epoch} Training loss: {self.loss_history[-1]:.4f}")

# === noise_taken_from_a_codeword
# thread: https://github.com/yoniLc/DDECC/pull/2
# about: a received word is cleaned step by step, as pictures are in diffusion. How many parity checks fail tells which step it is
# operation: index|getitem|__getitem__ on cpu, cuda:0
# operands: self|.*betas_bar.*|t
# error: indices should be either on cpu or on the same device as the indexed tensor
# category: input-not-moved|state-not-registered
# line: ddecc.py: t = sum_syndrome
# repair: ddecc.py: t = sum_syndrome -> t = sum_syndrome.cpu()
import argparse

import torch

from codes import Code, sign_to_bin
from ddecc import DDECCT

parser = argparse.ArgumentParser()
parser.add_argument("--N_steps", type=int, default=4)
parser.add_argument("--d_model", type=int, default=8)
parser.add_argument("--sigma", type=float, default=0.1)
parser.add_argument("--words", type=int, default=16)


def test(model, code, words, sigma):
    model.eval()
    draw = torch.Generator().manual_seed(2)
    x = torch.ones(words, code.n)
    y = x + 9 * sigma * torch.randn(words, code.n, generator=draw)
    with torch.no_grad():
        cleaned, steps = model.p_sample_loop(y)
    errors = [(sign_to_bin(torch.sign(word)) != 0).float().mean().item() for word in (y.cpu(), cleaned.cpu())]
    return errors, cleaned.abs().mean().item(), steps


def main():
    args = parser.parse_args()
    torch.manual_seed(49)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    code = Code.hamming()
    model = DDECCT(args, code, device=device).to(device)
    errors, size, steps = test(model, code, args.words, args.sigma)
    print(f"BER {errors[0]:.3f} -> {errors[1]:.3f} size {size:.3f} checks {steps}")


if __name__ == "__main__":
    main()
# --- ddecc.py
import torch
from torch import nn

from codes import bin_to_sign, sign_to_bin


class DDECCT(nn.Module):
    def __init__(self, args, code, device):
        super().__init__()
        self.n_steps = args.N_steps
        self.sigma = args.sigma
        self.register_buffer("pc_matrix", code.pc_matrix.transpose(0, 1).float())
        self.device = device
        betas = torch.full((self.n_steps,), self.sigma)
        self.betas = betas.view(-1, 1)
        self.betas_bar = torch.cumsum(self.betas, 0).view(-1, 1)
        self.src_embed = nn.Parameter(0.2 * torch.randn(code.n + code.pc_matrix.size(0), args.d_model))
        self.time_embed = nn.Embedding(self.n_steps, args.d_model)
        self.decoder = nn.TransformerEncoderLayer(args.d_model, 2, 2 * args.d_model, dropout=0.0, batch_first=True)
        self.final_embed = nn.Linear(args.d_model, 1)
        self.out_fc = nn.Linear(code.n + code.pc_matrix.size(0), code.n)

    def syndrome(self, y):
        return torch.matmul(sign_to_bin(torch.sign(y)), self.pc_matrix) % 2

    def forward(self, y, time_step):
        emb = torch.cat([torch.abs(y), bin_to_sign(self.syndrome(y))], -1).unsqueeze(-1)
        emb = self.src_embed.unsqueeze(0) * emb
        emb = self.time_embed(time_step).unsqueeze(1) * emb
        return self.out_fc(self.final_embed(self.decoder(emb)).squeeze(-1))

    def p_sample(self, yt):
        sum_syndrome = self.syndrome(yt.to(self.device)).round().long().sum(-1)
        t = sum_syndrome
        noise_mul_pred = self(yt.to(self.device), sum_syndrome).cpu()
        noise_add_pred = yt - torch.sign(-noise_mul_pred * torch.sign(yt))
        factor = torch.sqrt(self.betas_bar[t]) * self.betas[t] / (self.betas_bar[t] + self.betas[t])
        yt_1 = yt - noise_add_pred * factor
        done = (t == 0).unsqueeze(-1)
        return torch.where(done, yt, yt_1), t

    def p_sample_loop(self, cur_y):
        steps = []
        for _ in range(self.n_steps - 1):
            cur_y, t = self.p_sample(cur_y)
            steps.append(int(t.sum()))
        return cur_y, steps
# --- codes.py
import dataclasses

import torch


def bin_to_sign(x):
    return 1 - 2 * x


def sign_to_bin(x):
    return 0.5 * (1 - x)


@dataclasses.dataclass
class Code:
    n: int
    k: int
    pc_matrix: torch.Tensor

    @staticmethod
    def hamming():
        columns = torch.arange(1, 8)
        return Code(7, 4, torch.stack([(columns >> bit) & 1 for bit in range(3)]))

# === rain_of_the_next_hour
# thread: https://github.com/ndrplz/ConvLSTM_pytorch/pull/10
# about: cells that convolve and remember read radar pictures one after the other. The run is told which card to take
# operation: cat on cuda:1, cuda:0
# operands: tensors|h_cur|.*h_cur.*|.*hidden_state.*
# category: default-or-current-device|created-without-device
# line: convlstm.py: return h.cuda(), h.clone().cuda()
# line: main.py: device = torch.device(
# repair: convlstm.py: return h.cuda(), h.clone().cuda() -> return h.to(self.conv.weight.device), h.clone().to(self.conv.weight.device)
import argparse

import torch
from torch import nn

from convlstm import ConvLSTM
from radar import sequences


class Nowcast(nn.Module):
    def __init__(self, hidden_dim=4, num_layers=2):
        super().__init__()
        self.rnn = ConvLSTM(input_dim=1, hidden_dim=hidden_dim, kernel_size=3, num_layers=num_layers)
        self.head = nn.Conv2d(hidden_dim, 1, 1)

    def forward(self, frames):
        layer_output, _ = self.rnn(frames)
        return self.head(layer_output[:, -1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4)
    opt = parser.parse_args()
    torch.manual_seed(10)
    device = torch.device("cuda", opt.gpu) if torch.cuda.is_available() else torch.device("cpu")
    model = Nowcast().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    frames, following = (x.to(device) for x in sequences(batch=3, seq_len=5, size=6))
    for step in range(opt.steps):
        loss = nn.functional.mse_loss(model(frames), following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, f"{loss.item():.4f}")
    rain = model(frames).detach()
    print(f"{loss.item():.3f} {rain.mean().item():.3f} {rain.amax().item():.3f}")


if __name__ == "__main__":
    main()
# --- convlstm.py
import torch
from torch import nn


class ConvLSTMCell(nn.Module):
    def __init__(self, input_dim, hidden_dim, kernel_size, bias=True):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.conv = nn.Conv2d(input_dim + hidden_dim, 4 * hidden_dim, kernel_size, padding=kernel_size // 2, bias=bias)

    def forward(self, input_tensor, cur_state):
        h_cur, c_cur = cur_state
        combined = torch.cat([input_tensor, h_cur], dim=1)
        cc_i, cc_f, cc_o, cc_g = torch.split(self.conv(combined), self.hidden_dim, dim=1)
        c_next = torch.sigmoid(cc_f) * c_cur + torch.sigmoid(cc_i) * torch.tanh(cc_g)
        h_next = torch.sigmoid(cc_o) * torch.tanh(c_next)
        return h_next, c_next

    def init_hidden(self, batch_size, image_size):
        h = torch.zeros(batch_size, self.hidden_dim, *image_size)
        return h.cuda(), h.clone().cuda()


class ConvLSTM(nn.Module):
    """Pictures are given as (batch, time, channel, height, width)."""

    def __init__(self, input_dim, hidden_dim, kernel_size, num_layers):
        super().__init__()
        dims = [input_dim] + [hidden_dim] * (num_layers - 1)
        self.cell_list = nn.ModuleList([ConvLSTMCell(dim, hidden_dim, kernel_size) for dim in dims])

    def forward(self, input_tensor, hidden_state=None):
        b, seq_len, _, h, w = input_tensor.size()
        if hidden_state is None:
            hidden_state = self._init_hidden(b, (h, w))
        cur_layer_input = input_tensor
        last_states = []
        for cell, state in zip(self.cell_list, hidden_state):
            output_inner = []
            for t in range(seq_len):
                state = cell(cur_layer_input[:, t], state)
                output_inner.append(state[0])
            cur_layer_input = torch.stack(output_inner, dim=1)
            last_states.append(state)
        return cur_layer_input, last_states

    def _init_hidden(self, batch_size, image_size):
        return [cell.init_hidden(batch_size, image_size) for cell in self.cell_list]
# --- radar.py
import torch


def sequences(batch, seq_len, size):
    """A cloud goes over the field, another way in each sequence; the picture after the last is to be told."""
    ys, xs = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    pictures = []
    for b in range(batch):
        way = [torch.exp(-((xs - 0.8 * t - 0.5 * b) ** 2 + (ys - 0.6 * t) ** 2) / 4) for t in range(seq_len + 1)]
        pictures.append(torch.stack(way).unsqueeze(1))
    pictures = torch.stack(pictures)
    return pictures[:, :-1], pictures[:, -1]
