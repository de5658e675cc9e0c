# === one_step_size_for_each_head
# thread: https://github.com/zyushun/Adam-mini/pull/1
# about: an optimizer keeps one second moment for all numbers of an attention head, not one for each number. A small language model is trained with it on the
#   card that the command line names
# operation: mul on cuda:1, cuda:0
# operands: stepsize|other|.*vmean.*
# category: default-or-current-device|optimizer
# line: adam_mini.py: state["vmean"] = torch.zeros(state["head"]).cuda()
# line: adam_mini.py: tmp_lr = torch.mean(grad * grad, dim=1).cuda()
# line: train.py: device = torch.device(args.device)
# repair: adam_mini.py: state["vmean"] = torch.zeros(state["head"]).cuda() -> state["vmean"] = torch.zeros(state["head"]).to(p.device)
# repair: adam_mini.py: tmp_lr = torch.mean(grad * grad, dim=1).cuda() -> tmp_lr = torch.mean(grad * grad, dim=1).to(p.device)
import train

if __name__ == "__main__":
    train.main(["--device", "cuda:1", "--max_iters", "6"])
# --- train.py
import argparse

import torch
from torch.nn import functional as F

from adam_mini import Adam_mini
from model import GPT, GPTConfig


def get_batch(data, block_size, batch_size, device):
    ix = torch.randint(len(data) - block_size - 1, (batch_size,))
    x = torch.stack([data[i:i + block_size] for i in ix.tolist()])
    y = torch.stack([data[i + 1:i + 1 + block_size] for i in ix.tolist()])
    return x.to(device), y.to(device)


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--max_iters", type=int, default=100)
    parser.add_argument("--lr", type=float, default=5e-3)
    args = parser.parse_args(argv)

    torch.manual_seed(1337)
    device = torch.device(args.device)
    config = GPTConfig(block_size=8, vocab_size=11, n_layer=2, n_head=4, n_embd=16)
    model = GPT(config).to(device)
    data = (torch.arange(400) ** 2 + torch.arange(400) // 7) % config.vocab_size

    optimizer = Adam_mini(model.named_parameters(), lr=args.lr, weight_decay=0.1, n_embd=config.n_embd, n_head=config.n_head)
    for it in range(args.max_iters):
        x, y = get_batch(data, config.block_size, 6, device)
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    norm = sum(p.detach().square().sum().item() for p in model.parameters()) ** 0.5
    print(f"iters {args.max_iters} loss {loss.item():.3f} norm {norm:.3f}")
# --- model.py
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    block_size: int
    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int


class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.wq = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.wk = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.wv = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.wo = nn.Linear(config.n_embd, config.n_embd, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (w(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(config.n_embd)
        self.attn = SelfAttention(config)
        self.mlp = nn.Sequential(nn.Linear(config.n_embd, 2 * config.n_embd), nn.GELU(), nn.Linear(2 * config.n_embd, config.n_embd))

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        return x + self.mlp(x)


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.blocks = nn.Sequential(*[Block(config) for _ in range(config.n_layer)])
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def forward(self, idx):
        return self.lm_head(self.blocks(self.wte(idx)))
# --- adam_mini.py
import math

import torch
from torch.optim import Optimizer

HEADED = ("wq.weight", "wk.weight")
DENSE = ("wte", "lm_head")


class Adam_mini(Optimizer):
    """Adam with one second moment a head, or a block; embeddings have one for each number."""

    def __init__(self, named_parameters, lr, weight_decay, n_embd, n_head, betas=(0.9, 0.95), eps=1e-8):
        groups = [{"name": name, "params": [p], "dim": n_embd * n_embd // n_head} for name, p in named_parameters]
        super().__init__(groups, dict(lr=lr, weight_decay=weight_decay, beta1=betas[0], beta2=betas[1], eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2, eps, lr = group["beta1"], group["beta2"], group["eps"], group["lr"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                state["iteration"] = state.get("iteration", 0) + 1
                bias1, bias2 = 1 - beta1 ** state["iteration"], 1 - beta2 ** state["iteration"]
                p.mul_(1 - lr * group["weight_decay"])
                if group["name"].startswith(DENSE):
                    if "m" not in state:
                        state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
                    state["v"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                    state["m"].lerp_(p.grad, 1 - beta1)
                    p.addcdiv_(state["m"], (state["v"] / bias2).sqrt().add_(eps), value=-lr / bias1)
                elif group["name"].endswith(HEADED):
                    dim = group["dim"]
                    if "m" not in state:
                        state["m"] = torch.zeros_like(p).view(-1, dim)
                        state["head"] = state["m"].shape[0]
                        state["vmean"] = torch.zeros(state["head"]).cuda()
                    grad = p.grad.view(state["head"], dim)
                    tmp_lr = torch.mean(grad * grad, dim=1).cuda()
                    state["vmean"].mul_(beta2).add_(tmp_lr, alpha=1 - beta2)
                    state["m"].lerp_(grad, 1 - beta1)
                    h = (state["vmean"].sqrt() / math.sqrt(bias2)).add_(eps)
                    stepsize = ((1 / bias1) / h).view(state["head"], 1)
                    update = (state["m"] * stepsize).view(p.size())
                    p.add_(update, alpha=-lr)
                else:
                    if "m" not in state:
                        state["m"], state["vmean"] = torch.zeros_like(p), 0.0
                    state["vmean"] = beta2 * state["vmean"] + (1 - beta2) * p.grad.square().mean().item()
                    state["m"].lerp_(p.grad, 1 - beta1)
                    p.add_(state["m"], alpha=-lr / bias1 / (math.sqrt(state["vmean"] / bias2) + eps))

# === a_pendulum_by_the_fourth_order
# thread: https://github.com/tksmatsubara/symplectic-adjoint-method/issues/3
# about: a field is integrated by methods that the caller names. The simple method does on the card what it should, the ones of higher order fail there
# operation: mul on cpu, cuda:0
# operands: self|beta_i|.*tableau.*
# category: created-without-device
# line: solvers.py: self.tableau = TABLEAUS[method]
# line: tableaus.py: return torch.tensor(numbers, dtype=torch.float64)
# line: rk_common.py: yi = y0 + k[..., : i + 1].matmul(beta_i * dt)
# line: rk_common.py: y1 = y0 + k.matmul(dt * tableau.c_sol)
# repair: solvers.py: self.tableau = TABLEAUS[method] -> self.tableau = TABLEAUS[method].to(y0.device)
import torch

from compare import measure

if __name__ == "__main__":
    torch.manual_seed(3)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    losses = [measure(method, device) for method in ("euler", "midpoint", "rk4")]
    print("losses", [f"{loss:.3f}" for loss in losses])
# --- compare.py
import torch
from torch import nn

from odeint import odeint


class Pendulum(nn.Module):
    """Angles and speeds, and a friction that is learned."""

    def __init__(self, friction=0.1):
        super().__init__()
        self.friction = nn.Parameter(torch.tensor([friction], dtype=torch.float64))

    def forward(self, t, y):
        angle, speed = y.chunk(2, dim=-1)
        return torch.cat([speed, -torch.sin(angle) - self.friction * speed], dim=-1)


def measure(method, device, steps=4):
    func = Pendulum().to(device)
    optimizer = torch.optim.SGD(func.parameters(), lr=0.05)
    start = torch.tensor([[0.5, 0.0], [1.0, 0.2], [-0.7, 0.4]], dtype=torch.float64, device=device)
    t = torch.linspace(0.0, 1.5, 6, dtype=torch.float64, device=device)
    target = torch.cos(t)[:, None, None] * start
    for _ in range(steps):
        loss = (odeint(func, start, t, method=method) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()
# --- odeint.py
from solvers import EulerSolver, RungeKuttaSolver

SOLVERS = {"euler": EulerSolver, "midpoint": RungeKuttaSolver, "rk4": RungeKuttaSolver}


def odeint(func, y0, t, *, method="rk4"):
    if method not in SOLVERS:
        raise ValueError(f"no method is called {method}: {', '.join(SOLVERS)}")
    return SOLVERS[method](func=func, y0=y0, method=method).integrate(t)
# --- tableaus.py
import collections

import torch


class ButcherTableau(collections.namedtuple("ButcherTableau", "alpha, beta, c_sol")):
    def to(self, device):
        return ButcherTableau(self.alpha, [each.to(device) for each in self.beta], self.c_sol.to(device))


def row(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


TABLEAUS = {
    "midpoint": ButcherTableau(
        alpha=[1 / 2],
        beta=[row(1 / 2)],
        c_sol=row(0, 1),
    ),
    "rk4": ButcherTableau(
        alpha=[1 / 2, 1 / 2, 1.0],
        beta=[row(1 / 2), row(0, 1 / 2), row(0, 0, 1)],
        c_sol=row(1 / 6, 1 / 3, 1 / 3, 1 / 6),
    ),
}
# --- rk_common.py
import torch


def runge_kutta_step(func, y0, t0, dt, tableau):
    k = func(t0, y0)[..., None]
    for i, (alpha_i, beta_i) in enumerate(zip(tableau.alpha, tableau.beta)):
        yi = y0 + k[..., : i + 1].matmul(beta_i * dt)
        k = torch.cat([k, func(t0 + alpha_i * dt, yi)[..., None]], dim=-1)
    y1 = y0 + k.matmul(dt * tableau.c_sol)
    return y1
# --- solvers.py
import abc

import torch

from rk_common import runge_kutta_step
from tableaus import TABLEAUS


class FixedStepSolver(metaclass=abc.ABCMeta):
    def __init__(self, func, y0, method):
        self.func = func
        self.y0 = y0

    @abc.abstractmethod
    def advance(self, y, t0, t1):
        pass

    def integrate(self, t):
        solution = [self.y0]
        for t0, t1 in zip(t[:-1], t[1:]):
            solution.append(self.advance(solution[-1], t0, t1))
        return torch.stack(solution)


class EulerSolver(FixedStepSolver):
    def advance(self, y, t0, t1):
        return y + (t1 - t0) * self.func(t0, y)


class RungeKuttaSolver(FixedStepSolver):
    def __init__(self, func, y0, method):
        super().__init__(func, y0, method)
        self.tableau = TABLEAUS[method]

    def advance(self, y, t0, t1):
        return runge_kutta_step(self.func, y, t0, t1 - t0, self.tableau)

# === names_for_cells_after_the_fit
# thread: https://github.com/prism-oncology/scyan/issues/32
# about: cells are named by a flow that knows which markers each kind has. A trainer fits it on the card for some epochs, and then each cell shall get its name
# operation: mul on cuda:0, cpu
# operands: self|x|.*dataset.*
# category: cached-state|input-not-moved
# line: model.py: return DataLoader(self.dataset, batch_size=self.batch_size)
# line: model.py: self.dataset = TensorDataset(self.x, self.covariates)
# line: model.py: return torch.cat([func(*batch) for batch in loader], dim=0)
# line: trainer.py: model.to("cpu")
# repair: model.py: return DataLoader(self.dataset, batch_size=self.batch_size) -> return DataLoader(TensorDataset(self.x, self.covariates),
#   batch_size=self.batch_size)
import torch

from data import load
from model import Scyan

if __name__ == "__main__":
    torch.manual_seed(32)
    x, covariates, table = load(n_cells=60)
    model = Scyan(x, covariates, table, prior_std=0.25, lr=0.01)
    model.fit(max_epochs=3, accelerator="gpu")
    populations, log_prob = model.predict()
    counts = torch.bincount(populations, minlength=len(table))
    print("populations", counts.tolist(), f"log prob {log_prob:.3f}")
# --- data.py
import torch


def load(n_cells):
    """Cells of three populations, which have or lack each of four markers; one covariate tells the batch."""
    table = torch.tensor([[1.0, 1, -1, -1], [-1, 1, 1, -1], [-1, -1, -1, 1]])
    population = torch.arange(n_cells) % 3
    batch = (torch.arange(n_cells) % 2).float()[:, None]
    x = table[population] + 0.2 * torch.randn(n_cells, 4) + 0.1 * batch
    return x, batch, table
# --- trainer.py
import torch


class Trainer:
    def __init__(self, max_epochs, accelerator="cpu"):
        self.max_epochs = max_epochs
        self.device = torch.device("cuda:0" if accelerator == "gpu" else "cpu")

    def fit(self, model):
        model.to(self.device)
        optimizer = model.configure_optimizers()
        loader = model.train_dataloader()
        for epoch in range(self.max_epochs):
            for index, batch in enumerate(loader):
                loss = model.training_step([each.to(self.device) for each in batch], index)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        self.teardown(model)

    def teardown(self, model):
        model.to("cpu")
# --- module.py
import math

import torch
from torch import nn


class CouplingLayer(nn.Module):
    def __init__(self, n_markers, n_covariates, hidden_size, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(nn.Linear(n_markers + n_covariates, hidden_size), nn.LeakyReLU(), nn.Linear(hidden_size, 2 * n_markers))

    def forward(self, x, covariates):
        kept = x * self.mask
        scale, shift = self.net(torch.cat([kept, covariates], dim=1)).chunk(2, dim=1)
        scale = torch.tanh(scale) * (1 - self.mask)
        return kept + (1 - self.mask) * (x * scale.exp() + shift), scale.sum(dim=1)


class ScyanModule(nn.Module):
    def __init__(self, rho, n_covariates, prior_std, hidden_size=16, n_layers=4):
        super().__init__()
        self.prior_std = prior_std
        self.register_buffer("rho", rho)
        self.pi_logit = nn.Parameter(torch.zeros(len(rho)))
        masks = [(torch.arange(rho.shape[1]) % 2 == i % 2).float() for i in range(n_layers)]
        self.layers = nn.ModuleList(CouplingLayer(rho.shape[1], n_covariates, hidden_size, mask) for mask in masks)

    def compute_probabilities(self, x, covariates):
        ldj_sum = 0
        for layer in self.layers:
            x, ldj = layer(x, covariates)
            ldj_sum = ldj_sum + ldj
        distance = ((x[:, None] - self.rho) / self.prior_std).square().sum(dim=2)
        constant = self.rho.shape[1] * math.log(self.prior_std)
        return torch.log_softmax(self.pi_logit, dim=0) - distance / 2 - constant, ldj_sum

    def kl(self, x, covariates):
        log_probs, ldj_sum = self.compute_probabilities(x, covariates)
        return -(torch.logsumexp(log_probs, dim=1) + ldj_sum).mean()
# --- model.py
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from module import ScyanModule
from trainer import Trainer


class Scyan(nn.Module):
    def __init__(self, x, covariates, table, prior_std=0.3, lr=5e-4, batch_size=20):
        super().__init__()
        self.lr, self.batch_size = lr, batch_size
        self.register_buffer("x", x)
        self.register_buffer("covariates", covariates)
        self.module = ScyanModule(table, covariates.shape[1], prior_std)
        self._is_fitted = False

    def training_step(self, data, _):
        return self.module.kl(*data)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)

    def train_dataloader(self):
        self.dataset = TensorDataset(self.x, self.covariates)
        return DataLoader(self.dataset, batch_size=self.batch_size, shuffle=False)

    def predict_dataloader(self):
        return DataLoader(self.dataset, batch_size=self.batch_size)

    def dataset_apply(self, func):
        loader = self.predict_dataloader()
        return torch.cat([func(*batch) for batch in loader], dim=0)

    def fit(self, max_epochs=100, accelerator="cpu"):
        trainer = Trainer(max_epochs, accelerator)
        trainer.fit(self)
        self._is_fitted = True
        return self

    @torch.no_grad()
    def predict(self):
        assert self._is_fitted, "The model has to be trained first, consider running 'model.fit()'"
        log_probs = self.dataset_apply(lambda *data: self.module.compute_probabilities(*data)[0])
        probs = torch.softmax(log_probs, dim=1)
        return probs.argmax(dim=1), log_probs.max(dim=1).values.mean().item()

# === a_process_with_few_points
# thread: https://github.com/Unco3892/UncertaintyPlayground/pull/1
# about: a Gaussian process is told by a few points that are learned with it. After each epoch its error is measured on rows that were put aside
# operation: cat on cuda:0, cpu
# operands: tensors|x|.*X_val.*
# category: input-not-moved
# line: svgp_trainer.py: y_pred_val = self.likelihood(self.model(self.X_val)).mean
# line: base_trainer.py: self.X_train, self.X_val = self.X[:cut], self.X[cut:]
# line: svgp_model.py: full_inputs = torch.cat([self.inducing_points, x], dim=0)
# line: base_trainer.py: self.X = torch.from_numpy(X).to(dtype)
# repair: svgp_trainer.py: y_pred_val = self.likelihood(self.model(self.X_val)).mean -> y_pred_val =
#   self.likelihood(self.model(self.X_val.to(self.device))).mean.cpu()
import numpy as np
import torch

from svgp_trainer import SparseGPTrainer

if __name__ == "__main__":
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, size=(60, 2))
    y = np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] + 0.05 * rng.normal(size=60)
    torch.manual_seed(42)
    trainer = SparseGPTrainer(X, y, num_inducing_points=8, num_epochs=4, batch_size=16, lr=0.05)
    history = trainer.train()
    print("val mse", [f"{mse:.3f}" for mse in history])
# --- base_trainer.py
import torch
from torch.utils.data import DataLoader, TensorDataset


class BaseTrainer:
    """Splits the data, makes a loader of one part, and chooses the device."""

    def __init__(self, X, y, num_epochs=50, batch_size=128, test_size=0.2, lr=0.01, patience=10, dtype=torch.float32):
        self.num_epochs, self.batch_size, self.lr = num_epochs, batch_size, lr
        self.patience, self.dtype = patience, dtype
        self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        self.X = torch.from_numpy(X).to(dtype)
        self.y = torch.from_numpy(y).to(dtype)
        self.split_data(test_size)
        self.prepare_dataloader()

    def split_data(self, test_size):
        cut = int(len(self.X) * (1 - test_size))
        self.X_train, self.X_val = self.X[:cut], self.X[cut:]
        self.y_train, self.y_val = self.y[:cut], self.y[cut:]

    def prepare_dataloader(self):
        dataset = TensorDataset(self.X_train, self.y_train)
        self.train_loader = DataLoader(dataset, batch_size=self.batch_size, shuffle=False)
# --- svgp_model.py
import torch
from torch import nn
from torch.distributions import Normal


class RBFKernel(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw_lengthscale = nn.Parameter(torch.zeros(1))
        self.raw_outputscale = nn.Parameter(torch.zeros(1))

    def forward(self, x1, x2):
        lengthscale = nn.functional.softplus(self.raw_lengthscale)
        distance = ((x1[:, None] - x2[None]) / lengthscale).square().sum(dim=-1)
        return nn.functional.softplus(self.raw_outputscale) * torch.exp(-distance / 2)


class SVGP(nn.Module):
    def __init__(self, inducing_points, dtype=torch.float32):
        super().__init__()
        self.inducing_points = nn.Parameter(inducing_points.clone().to(dtype))
        self.variational_mean = nn.Parameter(torch.zeros(len(inducing_points), dtype=dtype))
        self.mean = nn.Parameter(torch.zeros(1, dtype=dtype))
        self.covar_module = RBFKernel().to(dtype)

    def forward(self, x):
        num_inducing = len(self.inducing_points)
        full_inputs = torch.cat([self.inducing_points, x], dim=0)
        full_covar = self.covar_module(full_inputs, full_inputs)
        jitter = 1e-3 * torch.eye(num_inducing, device=full_covar.device, dtype=full_covar.dtype)
        induc_induc = full_covar[:num_inducing, :num_inducing] + jitter
        induc_data = full_covar[:num_inducing, num_inducing:]
        weights = torch.linalg.solve(induc_induc, induc_data)
        variance = full_covar.diagonal()[num_inducing:] - (weights * induc_data).sum(dim=0)
        return Normal(self.mean + weights.T @ self.variational_mean, variance.clamp_min(1e-4).sqrt())


class GaussianLikelihood(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw_noise = nn.Parameter(torch.zeros(1))

    def forward(self, f):
        return Normal(f.mean, (f.variance + nn.functional.softplus(self.raw_noise)).sqrt())
# --- svgp_trainer.py
import torch

from base_trainer import BaseTrainer
from svgp_model import SVGP, GaussianLikelihood


class SparseGPTrainer(BaseTrainer):
    def __init__(self, *args, num_inducing_points=100, **kwargs):
        super().__init__(*args, **kwargs)
        inducing_points = self.X_train[:num_inducing_points, :]
        self.model = SVGP(inducing_points, dtype=self.dtype).to(self.device, dtype=self.dtype)
        self.likelihood = GaussianLikelihood().to(self.device, dtype=self.dtype)

    def train(self):
        params = [*self.model.parameters(), *self.likelihood.parameters()]
        optimizer = torch.optim.Adam(params, lr=self.lr)
        history, best, waited = [], float("inf"), 0
        for i in range(self.num_epochs):
            for X_batch, y_batch in self.train_loader:
                X_batch, y_batch = X_batch.to(self.device), y_batch.to(self.device)
                optimizer.zero_grad()
                output = self.likelihood(self.model(X_batch))
                loss = -output.log_prob(y_batch).mean() + 0.01 * self.model.variational_mean.square().sum()
                loss.backward()
                optimizer.step()

            with torch.no_grad():
                y_pred_val = self.likelihood(self.model(self.X_val)).mean
                mse_val = (y_pred_val - self.y_val).square().mean().item()
            history.append(mse_val)
            best, waited = (mse_val, 0) if mse_val < best else (best, waited + 1)
            if waited > self.patience:
                break
        return history

# === a_template_that_reads_its_config
# thread: https://github.com/victoresque/pytorch-template/pull/83
# about: what model, what optimizer and what loss are trained is told by a config, which names classes of PyTorch. With some of these names the first step fails
# operation: addcmul_ on cpu, cuda:0, cuda:0
# operands: self|state_sum|.*sum.*
# category: optimizer
# line: train.py: model = config.init_obj("arch", module_arch)
# line: train.py: optimizer = config.init_obj("optimizer", torch.optim, trainable_params)
# line: base_trainer.py: self.model = model.to(self.device)
# repair: train.py: model = config.init_obj("arch", module_arch) -> model = config.init_obj("arch", module_arch).to(prepare_device(config["n_gpu"]))
import train
from parse_config import ConfigParser

CONFIG = {
    "name": "Stripes",
    "n_gpu": 1,
    "arch": {"type": "StripeModel", "args": {"num_classes": 3}},
    "data": {"samples": 48, "batch_size": 12},
    "optimizer": {
        "type": "Adagrad",
        "args": {"lr": 0.02, "weight_decay": 0.001, "foreach": False},
    },
    "lr_scheduler": {"type": "StepLR", "args": {"step_size": 2, "gamma": 0.5}},
    "trainer": {"epochs": 3},
}

if __name__ == "__main__":
    log = train.main(ConfigParser(CONFIG))
    print("loss {:.3f} accuracy {:.3f}".format(log["loss"], log["accuracy"]))
# --- parse_config.py
class ConfigParser:
    def __init__(self, config):
        self._config = config

    def init_obj(self, name, module, *args, **kwargs):
        """An object of the class that the config names, made with the arguments that it gives."""
        module_args = dict(self[name]["args"])
        assert all(k not in module_args for k in kwargs), "Overwriting kwargs given in config file is not allowed"
        module_args.update(kwargs)
        return getattr(module, self[name]["type"])(*args, **module_args)

    def __getitem__(self, name):
        return self._config[name]
# --- module_arch.py
import torch
from torch import nn


class StripeModel(nn.Module):
    def __init__(self, num_classes=3):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3)
        self.fc = nn.Linear(6 * 9, num_classes)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
        return self.fc(x.flatten(1))


def stripes(samples):
    """Pictures with stripes one, two or three pixels wide, and how wide they are."""
    target = torch.arange(samples) % 3
    columns = torch.arange(8)[None] // (target[:, None] + 1) % 2
    images = columns[:, None, None].expand(-1, 1, 8, -1).float()
    return images + 0.3 * torch.randn(images.shape), target
# --- base_trainer.py
from abc import abstractmethod

from util import prepare_device


class BaseTrainer:
    def __init__(self, model, criterion, optimizer, config):
        self.config = config
        self.device = prepare_device(config["n_gpu"])
        self.model = model.to(self.device)
        self.criterion, self.optimizer = criterion, optimizer
        self.epochs = config["trainer"]["epochs"]

    @abstractmethod
    def _train_epoch(self, epoch):
        raise NotImplementedError

    def train(self):
        for epoch in range(1, self.epochs + 1):
            log = {"epoch": epoch, **self._train_epoch(epoch)}
        return log
# --- util.py
import torch


def prepare_device(n_gpu_use):
    n_gpu = torch.cuda.device_count()
    if n_gpu_use > n_gpu:
        print(f"Warning: {n_gpu_use} GPUs are configured to use, but only {n_gpu} are available.")
        n_gpu_use = n_gpu
    return torch.device("cuda:0" if n_gpu_use > 0 else "cpu")
# --- train.py
import torch
from torch.utils.data import DataLoader, TensorDataset

import module_arch
from base_trainer import BaseTrainer
from util import prepare_device


class Trainer(BaseTrainer):
    def __init__(self, model, criterion, optimizer, config, data_loader, lr_scheduler=None):
        super().__init__(model, criterion, optimizer, config)
        self.data_loader, self.lr_scheduler = data_loader, lr_scheduler

    def _train_epoch(self, epoch):
        self.model.train()
        total, correct, count = 0.0, 0, 0
        for data, target in self.data_loader:
            data, target = data.to(self.device), target.to(self.device)
            self.optimizer.zero_grad()
            output = self.model(data)
            loss = self.criterion(output, target)
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(data)
            correct += (output.argmax(dim=1) == target).sum().item()
            count += len(data)
        if self.lr_scheduler is not None:
            self.lr_scheduler.step()
        return {"loss": total / count, "accuracy": correct / count}


def main(config):
    torch.manual_seed(123)
    data_loader = DataLoader(TensorDataset(*module_arch.stripes(config["data"]["samples"])), batch_size=config["data"]["batch_size"])
    model = config.init_obj("arch", module_arch)
    trainable_params = [p for p in model.parameters() if p.requires_grad]
    optimizer = config.init_obj("optimizer", torch.optim, trainable_params)
    lr_scheduler = config.init_obj("lr_scheduler", torch.optim.lr_scheduler, optimizer)
    trainer = Trainer(model, torch.nn.functional.cross_entropy, optimizer, config, data_loader, lr_scheduler)
    return trainer.train()

# === which_gene_may_touch_which_pathway
# thread: https://github.com/uchida-takumi/CustomizedLinear/pull/1
# about: a layer has weights only where a table says that two nodes are connected. Whoever builds a network of such layers gives it the table
# operation: mul on cuda:0, cpu
# operands: other|mask|.*mask.*
# category: state-not-registered
# line: customized_linear.py: self.mask = torch.as_tensor(mask, dtype=torch.float).t()
# line: customized_linear.py: return CustomizedLinearFunction.apply(input, self.weight, self.bias, self.mask)
# line: customized_linear.py: weight = weight * mask
# repair: customized_linear.py: self.mask = torch.as_tensor(mask, dtype=torch.float).t() -> self.mask = nn.Parameter(torch.as_tensor(mask,
#   dtype=torch.float).t(), requires_grad=False)
import torch

from train import fit

if __name__ == "__main__":
    torch.manual_seed(19)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    loss, strengths = fit(device, epochs=5)
    print(f"loss {loss:.3f} strengths", [f"{each:.3f}" for each in strengths])
# --- pathways.py
import numpy as np

GENES = ["TP53", "MDM2", "CDK4", "RB1", "KRAS", "BRAF", "MYC"]
PATHWAYS = {
    "apoptosis": ["TP53", "MDM2"],
    "cell cycle": ["CDK4", "RB1", "MYC", "TP53"],
    "signals": ["KRAS", "BRAF", "MYC"],
}


def connections():
    """Whether a gene, which a row is, is part of a pathway, which a column is."""
    table = np.zeros((len(GENES), len(PATHWAYS)), dtype=np.float32)
    for column, members in enumerate(PATHWAYS.values()):
        for gene in members:
            table[GENES.index(gene), column] = 1.0
    return table
# --- customized_linear.py
import math

import torch
from torch import nn
from torch.autograd import Function


class CustomizedLinearFunction(Function):
    """A linear function that does without the weights that the mask has a zero for, forward and backward."""

    @staticmethod
    def forward(ctx, input, weight, bias=None, mask=None):
        if mask is not None:
            weight = weight * mask
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        ctx.save_for_backward(input, weight, bias, mask)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias, mask = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
            if mask is not None:
                grad_weight = grad_weight * mask
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias, None


class CustomizedLinear(nn.Module):
    def __init__(self, mask, bias=True):
        super().__init__()
        self.input_features, self.output_features = mask.shape
        self.mask = torch.as_tensor(mask, dtype=torch.float).t()
        self.weight = nn.Parameter(torch.empty(self.output_features, self.input_features))
        self.bias = nn.Parameter(torch.empty(self.output_features)) if bias else None
        self.reset_parameters()
        self.weight.data = self.weight.data * self.mask

    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input):
        return CustomizedLinearFunction.apply(input, self.weight, self.bias, self.mask)

    def extra_repr(self):
        return f"input_features={self.input_features}, output_features={self.output_features}, bias={self.bias is not None}"
# --- train.py
import torch
from torch import nn

from customized_linear import CustomizedLinear
from pathways import GENES, connections


class PathwayNet(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.pathway = CustomizedLinear(table)
        self.outcome = nn.Linear(table.shape[1], 1)

    def forward(self, expression):
        return self.outcome(torch.tanh(self.pathway(expression))).squeeze(1)


def fit(device, epochs):
    net = PathwayNet(connections()).to(device)
    optimizer = torch.optim.Adam((p for p in net.parameters() if p.requires_grad), lr=0.05)
    expression = torch.randn(32, len(GENES))
    outcome = (expression[:, 0] - expression[:, 4] > 0).float()
    expression, outcome = expression.to(device), outcome.to(device)
    for _ in range(epochs):
        loss = nn.functional.binary_cross_entropy_with_logits(net(expression), outcome)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item(), net.pathway.weight.detach().abs().sum(dim=1).tolist()
