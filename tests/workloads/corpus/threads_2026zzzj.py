# === bent_writing_is_straightened_first
# thread: https://github.com/parksunwoo/ocr_kor/issues/19
# about: words in pictures are read. Before that a network looks for points above and below a word, and the picture is bent until they lie on straight lines
# operation: cat on cuda:0, cpu
# operands: tensors\[1\]|tensors|.*zeros.*
# category: created-without-device
# line: modules/transformation.py: batch_C_prime_with_zeros = torch.cat(
# repair: modules/transformation.py: batch_C_prime_with_zeros = torch.cat((batch_C_prime, torch.zeros(batch_size, 3, 2).float()), dim=1) ->
#   batch_C_prime_with_zeros = torch.cat((batch_C_prime, torch.zeros(batch_size, 3, 2).float().to(batch_C_prime.device)), dim=1)
import argparse

import torch
from torch import nn

from dataset import words
from model import Model

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train(opt):
    model = Model(opt).to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=opt.lr, rho=0.95, eps=1e-6)
    for step, (image, text) in enumerate(words(opt)):
        preds = model(image.to(device))
        cost = criterion(preds.flatten(0, 1), text.to(device).flatten())
        optimizer.zero_grad()
        cost.backward()
        nn.utils.clip_grad_norm_(model.parameters(), opt.grad_clip)
        optimizer.step()
        print(f"[{step + 1}/{opt.num_iter}] loss: {cost.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_iter", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--batch_max_length", type=int, default=4)
    parser.add_argument("--num_class", type=int, default=6)
    parser.add_argument("--num_fiducial", type=int, default=6)
    parser.add_argument("--imgH", type=int, default=8)
    parser.add_argument("--imgW", type=int, default=24)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--grad_clip", type=float, default=5)
    torch.manual_seed(1111)
    train(parser.parse_args([]))
# --- dataset.py
import torch


def words(opt):
    """Every letter is a pattern of its own, and the line of writing is not straight."""
    generator = torch.Generator().manual_seed(5)
    width = opt.imgW // opt.batch_max_length
    letters = torch.rand(opt.num_class, opt.imgH, width, generator=generator)
    for _ in range(opt.num_iter):
        text = torch.randint(0, opt.num_class, (opt.batch_size, opt.batch_max_length), generator=generator)
        rows = [torch.cat([torch.roll(letters[c], i % 3 - 1, dims=0) for i, c in enumerate(word)], dim=1) for word in text]
        yield torch.stack(rows).unsqueeze(1), text
# --- model.py
from torch import nn

from modules.transformation import TPS_SpatialTransformerNetwork


class Model(nn.Module):
    def __init__(self, opt):
        super().__init__()
        size = (opt.imgH, opt.imgW)
        self.Transformation = TPS_SpatialTransformerNetwork(F=opt.num_fiducial, I_size=size, I_r_size=size)
        self.FeatureExtraction = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU())
        self.AdaptiveAvgPool = nn.AdaptiveAvgPool2d((1, opt.batch_max_length))
        self.SequenceModeling = nn.GRU(12, 12, bidirectional=True, batch_first=True)
        self.Prediction = nn.Linear(24, opt.num_class)

    def forward(self, input):
        visual_feature = self.AdaptiveAvgPool(self.FeatureExtraction(self.Transformation(input)))
        contextual_feature, _ = self.SequenceModeling(visual_feature.squeeze(2).transpose(1, 2))
        return self.Prediction(contextual_feature)
# --- modules/transformation.py
import numpy as np
import torch
import torch.nn.functional as functional
from torch import nn


def control_points(F, top, bottom):
    x = np.linspace(-1.0, 1.0, F // 2)
    return np.concatenate([np.stack([x, np.full_like(x, y)], axis=1) for y in (top, bottom)], axis=0)


class TPS_SpatialTransformerNetwork(nn.Module):
    def __init__(self, F, I_size, I_r_size):
        super().__init__()
        self.I_r_size = I_r_size
        self.LocalizationNetwork = LocalizationNetwork(F)
        self.GridGenerator = GridGenerator(F, I_r_size)

    def forward(self, batch_I):
        build_P_prime = self.GridGenerator.build_P_prime(self.LocalizationNetwork(batch_I))
        grid = build_P_prime.reshape(len(batch_I), *self.I_r_size, 2)
        return functional.grid_sample(batch_I, grid, padding_mode="border", align_corners=False)


class LocalizationNetwork(nn.Module):
    def __init__(self, F):
        super().__init__()
        self.F = F
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1))
        self.localization_fc = nn.Linear(8, F * 2)
        self.localization_fc.weight.data.fill_(0)
        self.localization_fc.bias.data = torch.from_numpy(control_points(F, -0.8, 0.8)).float().view(-1)

    def forward(self, batch_I):
        return self.localization_fc(self.conv(batch_I).flatten(1)).view(-1, self.F, 2)


class GridGenerator(nn.Module):
    def __init__(self, F, I_r_size):
        super().__init__()
        C, (height, width) = control_points(F, -1.0, 1.0), I_r_size
        ys, xs = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
        P = np.stack([xs, ys], axis=2).reshape(-1, 2)
        delta_C = np.zeros((F + 3, F + 3))
        delta_C[:F] = np.concatenate([np.ones((F, 1)), C, self._rbf(C, C)], axis=1)
        delta_C[F : F + 2, 3:], delta_C[F + 2, 3:] = C.T, 1
        P_hat = np.concatenate([np.ones((len(P), 1)), P, self._rbf(P, C)], axis=1)
        self.register_buffer("inv_delta_C", torch.tensor(np.linalg.inv(delta_C)).float())
        self.register_buffer("P_hat", torch.tensor(P_hat).float())

    @staticmethod
    def _rbf(a, b):
        norm = np.linalg.norm(a[:, None] - b[None], axis=2)
        return norm**2 * np.log(norm + 1e-6)

    def build_P_prime(self, batch_C_prime):
        batch_size = batch_C_prime.size(0)
        batch_inv_delta_C = self.inv_delta_C.repeat(batch_size, 1, 1)
        batch_P_hat = self.P_hat.repeat(batch_size, 1, 1)
        batch_C_prime_with_zeros = torch.cat((batch_C_prime, torch.zeros(batch_size, 3, 2).float()), dim=1)
        batch_T = torch.bmm(batch_inv_delta_C, batch_C_prime_with_zeros)
        return torch.bmm(batch_P_hat, batch_T)

# === views_turned_until_they_agree
# thread: https://github.com/utiasSTARS/liegroups/pull/7
# about: some scans of one thing were turned in ways nobody knows. Each is turned back by a vector of three numbers, at first none, that is improved
# operation: (add|add_) on cpu, cuda:0
# operands: self|.*eye.*
# category: created-without-device
# line: liegroups/torch/so3.py: mat[small_angle_inds] = torch.eye(
# line: liegroups/torch/so3.py: A = c * torch.eye(
# repair: liegroups/torch/so3.py: mat[small_angle_inds] = torch.eye(cls.dim, dtype=phi.dtype) + cls.wedge(phi[small_angle_inds]) ->
#   mat[small_angle_inds] = torch.eye(cls.dim, dtype=phi.dtype, device=phi.device) + cls.wedge(phi[small_angle_inds])
# repair: liegroups/torch/so3.py: A = c * torch.eye(cls.dim, dtype=phi.dtype).unsqueeze_(dim=0) ->
#   A = c * torch.eye(cls.dim, dtype=phi.dtype, device=phi.device).unsqueeze_(dim=0)
import numpy as np
import torch

from liegroups.torch import SO3
from scans import turned_scans


def align(reference, scans, iterations, lr):
    phi = torch.zeros(len(scans), 3, dtype=reference.dtype, device=reference.device, requires_grad=True)
    optimizer = torch.optim.Adam([phi], lr=lr)
    for iteration in range(iterations):
        residual = SO3.exp(phi).dot(scans) - reference
        cost = residual.pow(2).sum(dim=-1).mean()
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        if iteration % 10 == 0:
            print(f"iteration {iteration}: {cost.item():.4f}")
    return SO3.exp(phi.detach())


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    reference, scans, true_rotations = turned_scans(num_scans=3, num_points=20)
    reference, scans = torch.from_numpy(reference).to(device), torch.from_numpy(scans).to(device)
    rotations = align(reference, scans, iterations=30, lr=0.05).mat.cpu().numpy()
    traces = np.trace(rotations @ true_rotations, axis1=1, axis2=2)
    errors = np.degrees(np.arccos(np.clip((traces - 1) / 2, -1, 1)))
    print("degrees left", [f"{error:.2f}" for error in errors])


if __name__ == "__main__":
    main()
# --- scans.py
import numpy as np


def rotation(axis, angle):
    axis = axis / np.linalg.norm(axis)
    cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def turned_scans(num_scans, num_points):
    rng = np.random.default_rng(7)
    reference = rng.normal(size=(num_points, 3))
    true_rotations = np.stack([rotation(rng.normal(size=3), 0.3 + 0.4 * i) for i in range(num_scans)])
    scans = np.einsum("nij,pj->npi", true_rotations, reference)
    return reference, scans + 0.01 * rng.normal(size=scans.shape), true_rotations
# --- liegroups/torch/__init__.py
from .so3 import SO3Matrix as SO3
# --- liegroups/torch/utils.py
import torch


def isclose(mat1, mat2, tol=1e-6):
    return (mat1 - mat2).abs_().lt(tol)


def outer(vecs1, vecs2):
    return torch.bmm(vecs1.unsqueeze(dim=2), vecs2.unsqueeze(dim=2).transpose(2, 1))
# --- liegroups/torch/so3.py
import torch

from . import utils


class SO3Matrix:
    """Rotations of space, one or a batch."""

    dim = 3
    dof = 3

    def __init__(self, mat):
        self.mat = mat

    def dot(self, points):
        return points @ self.mat.transpose(-1, -2)

    @classmethod
    def wedge(cls, phi):
        Phi = phi.new_zeros(phi.shape[0], cls.dim, cls.dim)
        Phi[:, 0, 1] = -phi[:, 2]
        Phi[:, 1, 0] = phi[:, 2]
        Phi[:, 0, 2] = phi[:, 1]
        Phi[:, 2, 0] = -phi[:, 1]
        Phi[:, 1, 2] = -phi[:, 0]
        Phi[:, 2, 1] = phi[:, 0]
        return Phi

    @classmethod
    def exp(cls, phi):
        if phi.dim() < 2:
            phi = phi.unsqueeze(dim=0)
        if phi.shape[1] != cls.dof:
            raise ValueError(f"phi must have shape ({cls.dof},) or (N,{cls.dof})")

        mat = phi.new_empty(phi.shape[0], cls.dim, cls.dim)
        angle = phi.detach().norm(p=2, dim=1)
        small_angle_mask = utils.isclose(angle, 0.0)
        small_angle_inds = small_angle_mask.nonzero().squeeze_(dim=1)
        if len(small_angle_inds) > 0:
            mat[small_angle_inds] = torch.eye(cls.dim, dtype=phi.dtype) + cls.wedge(phi[small_angle_inds])

        large_angle_inds = small_angle_mask.logical_not().nonzero().squeeze_(dim=1)
        if len(large_angle_inds) > 0:
            angle = phi[large_angle_inds].norm(p=2, dim=1)
            axis = phi[large_angle_inds] / angle.unsqueeze(dim=1)
            s, c = angle.sin()[:, None, None], angle.cos()[:, None, None]
            A = c * torch.eye(cls.dim, dtype=phi.dtype).unsqueeze_(dim=0)
            B = (1.0 - c) * utils.outer(axis, axis)
            C = s * cls.wedge(axis)
            mat[large_angle_inds] = A + B + C
        return cls(mat)

# === a_next_trial_of_choices_and_numbers
# thread: https://github.com/xingchenwan/Casmopolitan/issues/7
# about: a function of choices and of numbers is costly. What to try next is searched with a Gaussian process over what was tried, for which a card is asked for
# operation: (sub|subtract|rsub) on cpu, cuda:0
# operands: self|X|x1|.*x1.*
# category: input-not-moved|input|created-without-device
# line: bo/localbo_mixed.py: X = torch.tensor(X, dtype=torch.float32)
# line: bo/localbo_mixed.py: preds_mean, preds_std = gp(X)
# line: bo/localbo_utils.py: covar = self.covar_module(x, self.train_x)
# repair: bo/localbo_mixed.py: X = torch.tensor(X, dtype=torch.float32) -> X = torch.tensor(X, dtype=torch.float32, device=device)
# repair: bo/localbo_mixed.py: gauss = Normal(torch.zeros(1), torch.ones(1)) -> gauss = Normal(torch.zeros(1, device=device), torch.ones(1, device=device))
# repair: bo/localbo_mixed.py: center = torch.tensor(x_center.reshape(1, -1), dtype=torch.float32) ->
#   center = torch.tensor(x_center.reshape(1, -1), dtype=torch.float32, device=device)
import numpy as np
import torch

from bo.localbo_mixed import CASMOPOLITANMixed

CAT_DIMS, CONT_DIMS, CONFIG = [0, 1], [2, 3], [3, 5]


def func2C(x):
    """Two choices of a curve, and where on it."""
    h1, h2, x1, x2 = int(x[0]), int(x[1]), *(4 * x[2:] - 2)
    curves = [
        100 * (x2 - x1**2) ** 2 + (1 - x1) ** 2,
        (4 - 2.1 * x1**2 + x1**4 / 3) * x1**2 + x1 * x2 + (4 * x2**2 - 4) * x2**2,
        (x1 + 2 * x2 - 1) ** 2 + (2 * x1 + x2 + 1) ** 2,
    ]
    return np.log1p(curves[h1] + 2 + [1, 0.5, 0, 2, 3][h2])


if __name__ == "__main__":
    torch.manual_seed(3)
    rng = np.random.default_rng(6)
    optim = CASMOPOLITANMixed(CONFIG, CAT_DIMS, CONT_DIMS, rng, n_training_steps=6, min_cuda=1, device="cuda")
    X = np.hstack([rng.integers(0, CONFIG, size=(6, 2)), rng.random((6, 2))])
    fX = np.array([func2C(x) for x in X])
    for i in range(3):
        X_next = optim.suggest(X, fX)
        X, fX = np.vstack([X, X_next]), np.append(fX, func2C(X_next))
        print(f"Iter {i}, value {fX[-1]:.3f}, best {fX.min():.3f}")
    print(f"sum of what was tried {fX.sum():.3f}")
# --- bo/localbo_mixed.py
import torch
from torch.distributions import Normal

from .localbo_utils import interleaved_search, train_gp


class CASMOPOLITANMixed:
    """Proposes trials by what is known of those before. Few of them are fitted on the CPU."""

    def __init__(self, config, cat_dims, cont_dims, rng, n_training_steps=50, min_cuda=1024, device="cpu"):
        assert device in ("cpu", "cuda")
        self.config, self.cat_dims, self.cont_dims = config, cat_dims, cont_dims
        self.rng, self.n_training_steps, self.min_cuda = rng, n_training_steps, min_cuda
        self.device = torch.device(device)

    def suggest(self, X, fX):
        fX = (fX - fX.mean()) / fX.std()
        return self._create_and_select_candidates(X, fX)

    def _create_and_select_candidates(self, X, fX):
        device = torch.device("cpu") if len(X) < self.min_cuda else self.device
        X_torch = torch.tensor(X).to(device=device, dtype=torch.float32)
        y_torch = torch.tensor(fX).to(device=device, dtype=torch.float32)
        gp = train_gp(X_torch, y_torch, self.n_training_steps, self.cat_dims, self.cont_dims)
        x_center = X[fX.argmin()]

        def _ei(X):
            """Expected improvement"""
            X = torch.tensor(X, dtype=torch.float32)
            if X.dim() == 1:
                X = X.reshape(1, -1)
            gauss = Normal(torch.zeros(1), torch.ones(1))
            with torch.no_grad():
                preds_mean, preds_std = gp(X)
                center = torch.tensor(x_center.reshape(1, -1), dtype=torch.float32)
                mean, mu_star = -preds_mean, -gp(center)[0]
                u = (mean - mu_star) / preds_std
                ei = preds_std * torch.exp(gauss.log_prob(u)) + (mean - mu_star) * gauss.cdf(u)
            return ei

        return interleaved_search(x_center, _ei, self.cat_dims, self.cont_dims, self.config, self.rng)
# --- bo/kernels.py
import torch
from torch import nn


class MixtureKernel(nn.Module):
    """Choices are alike where they are equal, numbers where they are near."""

    def __init__(self, cat_dims, cont_dims):
        super().__init__()
        self.cat_dims, self.cont_dims = cat_dims, cont_dims
        self.raw_lengthscale = nn.Parameter(torch.zeros(2))
        self.raw_lamda = nn.Parameter(torch.zeros(()))

    def forward(self, x1, x2):
        cat, cont = nn.functional.softplus(self.raw_lengthscale)
        diff = x1[:, None, self.cat_dims] - x2[None, :, self.cat_dims]
        k_cat = torch.exp((diff.abs() < 1e-5).float().mean(dim=-1) / cat) / torch.exp(1 / cat)
        dist = x1[:, None, self.cont_dims] - x2[None, :, self.cont_dims]
        k_cont = torch.exp(-dist.pow(2).sum(dim=-1) / (2 * cont**2))
        lamda = torch.sigmoid(self.raw_lamda)
        return (1 - lamda) * (k_cat + k_cont) / 2 + lamda * k_cat * k_cont
# --- bo/localbo_utils.py
import numpy as np
import torch
from torch import nn

from .kernels import MixtureKernel


class GP(nn.Module):
    def __init__(self, train_x, train_y, covar_module):
        super().__init__()
        self.train_x, self.train_y = train_x, train_y
        self.covar_module = covar_module
        self.raw_noise = nn.Parameter(torch.tensor(-3.0))

    def factor(self):
        covar = self.covar_module(self.train_x, self.train_x)
        noise = nn.functional.softplus(self.raw_noise) + 1e-4
        return torch.linalg.cholesky(covar + noise * torch.eye(len(covar), device=covar.device))

    def loss(self):
        L = self.factor()
        solved = torch.cholesky_solve(self.train_y[:, None], L)[:, 0]
        return 0.5 * self.train_y @ solved + L.diagonal().log().sum()

    def forward(self, x):
        covar = self.covar_module(x, self.train_x)
        L = self.factor()
        mean = covar @ torch.cholesky_solve(self.train_y[:, None], L)[:, 0]
        explained = (covar * torch.cholesky_solve(covar.t(), L).t()).sum(dim=1)
        return mean, (1 - explained).clamp_min(1e-6).sqrt()


def train_gp(train_x, train_y, num_steps, cat_dims, cont_dims):
    model = GP(train_x, train_y, MixtureKernel(cat_dims, cont_dims)).to(train_x.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss = model.loss()
        loss.backward()
        optimizer.step()
    return model.eval()


def interleaved_search(x_center, f, cat_dims, cont_dims, config, rng, rounds=3, trials=8):
    """Improves the choices and the numbers in turn."""
    best, value = x_center.copy(), f(x_center).item()
    for _ in range(rounds):
        candidates = np.repeat(best[None], 2 * trials, axis=0)
        for row in candidates[:trials]:
            dim = rng.integers(len(cat_dims))
            row[cat_dims[dim]] = rng.integers(config[dim])
        moved = candidates[trials:, cont_dims] + 0.2 * rng.normal(size=(trials, len(cont_dims)))
        candidates[trials:, cont_dims] = np.clip(moved, 0, 1)
        values = f(candidates)
        if values.max().item() > value:
            best, value = candidates[values.argmax().item()], values.max().item()
    return best

# === payments_made_up_after_every_round
# thread: https://github.com/sattarov/FedTabDiff/issues/1
# about: offices that keep their tables to themselves learn to denoise rows together. After each round the server makes rows up and compares them to real ones
# operation: (addmm|linear) on cpu, cuda:0
# operands: mat1|input|.*timesteps.*
# category: created-without-device|input-not-moved|input
# line: fedtabdiff_modules.py: t = torch.full((n_samples,), i, dtype=torch.long)
# line: fedtabdiff_modules.py: model_out = synthesizer(z_norm, t, label)
# line: fedtabdiff_modules.py: z_norm = torch.randn((n_samples, encoded_dim), generator=GENERATOR)
# repair: fedtabdiff_modules.py: t = torch.full((n_samples,), i, dtype=torch.long) ->
#   t = torch.full((n_samples,), i, dtype=torch.long, device=next(synthesizer.parameters()).device)
# repair: fedtabdiff_modules.py: z_norm = torch.randn((n_samples, encoded_dim), generator=GENERATOR) ->
#   z_norm = torch.randn((n_samples, encoded_dim), generator=GENERATOR).to(next(synthesizer.parameters()).device)
# repair: fedtabdiff_modules.py: model_out = synthesizer(z_norm, t, label) -> model_out = synthesizer(z_norm, t, label.to(z_norm.device))
import numpy as np
import torch

from fedtabdiff_modules import generate_samples, init_model, train_model

exp_params = dict(
    seed=111, n_clients=3, server_rounds=3, client_rounds=4, learning_rate=5e-3, mlp_layers=[24, 24],
    encoded_dim=4, n_classes=2, diffusion_steps=12, beta_start=1e-3, beta_end=0.2, device="cuda" if torch.cuda.is_available() else "cpu",
)  # fmt: skip


def get_parameters(model):
    return [value.cpu().numpy() for value in model.state_dict().values()]


def set_parameters(model, parameters):
    model.load_state_dict({key: torch.from_numpy(value) for key, value in zip(model.state_dict(), parameters)})


class FlowerClient:
    def __init__(self, cid):
        rng = np.random.default_rng(cid)
        label = rng.integers(0, 2, size=32)
        rows = rng.normal(size=(32, exp_params["encoded_dim"])) * 0.4 + (2 * label - 1)[:, None]
        self.train_set = torch.from_numpy(rows).float(), torch.from_numpy(label)
        self.synthesizer, self.diffuser = init_model(exp_params)

    def fit(self, parameters):
        set_parameters(self.synthesizer, parameters)
        loss = train_model(self.synthesizer, self.diffuser, self.train_set, exp_params)
        return get_parameters(self.synthesizer), loss


def get_evaluate_server_fn(test_set, test_label):
    def evaluate_server(server_round, parameters):
        synthesizer, diffuser = init_model(exp_params)
        synthesizer = synthesizer.to(exp_params["device"])
        set_parameters(synthesizer, parameters)
        generated = generate_samples(synthesizer, diffuser, exp_params["encoded_dim"], exp_params["diffusion_steps"], test_label)
        distance = (generated.cpu().mean(dim=0) - test_set.mean(dim=0)).abs().sum().item()
        print(f"server round {server_round}: distance {distance:.3f}")

    return evaluate_server


if __name__ == "__main__":
    torch.manual_seed(exp_params["seed"])
    clients = [FlowerClient(cid) for cid in range(exp_params["n_clients"])]
    evaluate_server = get_evaluate_server_fn(*FlowerClient(99).train_set)
    parameters = get_parameters(init_model(exp_params)[0])
    for server_round in range(1, exp_params["server_rounds"] + 1):
        results = [client.fit(parameters) for client in clients]
        print(f"losses {[f'{loss:.3f}' for _, loss in results]}")
        parameters = [np.mean(each, axis=0) for each in zip(*(weights for weights, _ in results))]
        evaluate_server(server_round, parameters)
# --- MLPSynthesizer.py
import math

import torch
from torch import nn


def timestep_embedding(timesteps, dim_out, max_period=10000):
    half = dim_out // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half) / half).to(timesteps.device)
    args = timesteps[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


class MLPSynthesizer(nn.Module):
    def __init__(self, d_in, hidden_layers, n_classes, dim_t=16):
        super().__init__()
        self.dim_t = dim_t
        sizes = [dim_t, *hidden_layers]
        layers = [layer for pair in zip(sizes, sizes[1:]) for layer in (nn.Linear(*pair), nn.LeakyReLU(0.4))]
        self.backbone = nn.Sequential(*layers)
        self.proj = nn.Linear(d_in, dim_t)
        self.time_embed = nn.Sequential(nn.Linear(dim_t, dim_t), nn.SiLU(), nn.Linear(dim_t, dim_t))
        self.label_emb = nn.Embedding(n_classes, dim_t)
        self.head = nn.Linear(hidden_layers[-1], d_in)

    def forward(self, x, timesteps, label=None):
        emb = self.time_embed(timestep_embedding(timesteps, self.dim_t))
        if label is not None:
            emb = emb + self.label_emb(label)
        return self.head(self.backbone(self.proj(x) + emb))
# --- BaseDiffuser.py
import torch


class BaseDiffuser:
    def __init__(self, total_steps, beta_start, beta_end, device):
        self.total_steps, self.device = total_steps, device
        self.betas = torch.linspace(beta_start, beta_end, total_steps).to(device)
        self.alphas = 1.0 - self.betas
        self.alphas_hat = torch.cumprod(self.alphas, dim=0)
        self.generator = torch.Generator().manual_seed(5)

    def sample_timesteps(self, n):
        return torch.randint(1, self.total_steps, (n,), generator=self.generator).to(self.device)

    def noise_like(self, x):
        return torch.randn(x.shape, generator=self.generator).to(x.device)

    def add_gauss_noise(self, x_num, t):
        noise_num = self.noise_like(x_num)
        alpha_hat = self.alphas_hat[t][:, None]
        return alpha_hat.sqrt() * x_num + (1 - alpha_hat).sqrt() * noise_num, noise_num

    def p_sample_gauss(self, model_out, z_norm, t):
        alpha, alpha_hat, beta = (each[t][:, None] for each in (self.alphas, self.alphas_hat, self.betas))
        random_noise = self.noise_like(z_norm) * (t > 0)[:, None]
        model_mean = (z_norm - beta * model_out / (1 - alpha_hat).sqrt()) / alpha.sqrt()
        return model_mean + beta.sqrt() * random_noise
# --- fedtabdiff_modules.py
import torch
from torch import nn

from BaseDiffuser import BaseDiffuser
from MLPSynthesizer import MLPSynthesizer

GENERATOR = torch.Generator().manual_seed(17)


def init_model(exp_params):
    synthesizer = MLPSynthesizer(exp_params["encoded_dim"], exp_params["mlp_layers"], exp_params["n_classes"])
    diffuser = BaseDiffuser(exp_params["diffusion_steps"], exp_params["beta_start"], exp_params["beta_end"], exp_params["device"])
    return synthesizer, diffuser


def train_model(synthesizer, diffuser, train_set, exp_params):
    device = exp_params["device"]
    synthesizer.to(device).train()
    optimizer = torch.optim.Adam(synthesizer.parameters(), lr=exp_params["learning_rate"])
    total = 0.0
    for _ in range(exp_params["client_rounds"]):
        batch, batch_y = (each.to(device) for each in train_set)
        timesteps = diffuser.sample_timesteps(n=batch.shape[0])
        batch_noise_t, noise_t = diffuser.add_gauss_noise(x_num=batch, t=timesteps)
        loss = nn.functional.mse_loss(synthesizer(x=batch_noise_t, timesteps=timesteps, label=batch_y), noise_t)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / exp_params["client_rounds"]


@torch.no_grad()
def generate_samples(synthesizer, diffuser, encoded_dim, last_diff_step, label):
    n_samples = len(label)
    z_norm = torch.randn((n_samples, encoded_dim), generator=GENERATOR)
    for i in reversed(range(last_diff_step)):
        t = torch.full((n_samples,), i, dtype=torch.long)
        model_out = synthesizer(z_norm, t, label)
        z_norm = diffuser.p_sample_gauss(model_out, z_norm, t)
    return z_norm

# === a_picture_painted_over_in_a_graph_of_nodes
# thread: https://github.com/XLabs-AI/x-flux-comfyui/issues/11
# about: nodes hand each other pictures, texts and models. One starts from a picture that was encoded before, and paints it anew while it follows a text
# operation: (addmm|linear) on cpu, cuda:0
# operands: mat1|input|.*img.*
# category: input-not-moved|input
# line: nodes.py: x.to(device)
# line: nodes.py: x = lat_processor2.go_back(x)
# line: nodes.py: x = latent_image["samples"]
# line: nodes.py: inp_cond = prepare(
# line: sampling.py: img = img.reshape(
# repair: nodes.py: x.to(device) -> x = x.to(device)
import torch

import model_management as mm
from layers import Flux
from nodes import XlabsSampler


class VAEEncode:
    """Puts what it makes where results of nodes are kept."""

    def encode(self, pixels):
        latent = torch.nn.functional.avg_pool2d(pixels, 8).repeat(1, 6, 1, 1)[:, :16]
        return ({"samples": latent.to(mm.intermediate_device())},)


class CLIPTextEncodeFlux:
    def encode(self, words, guidance):
        generator = torch.Generator().manual_seed(len(words))
        cond = torch.randn(1, len(words), 12, generator=generator)
        return ([[cond, {"pooled_output": cond.mean(dim=1), "guidance": guidance}]],)


if __name__ == "__main__":
    torch.manual_seed(11)
    model = Flux(hidden=16, txt_dim=12, vec_dim=12)
    (latent_image,) = VAEEncode().encode(torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(3)))
    (positive,) = CLIPTextEncodeFlux().encode(["a", "red", "barn"], guidance=3.5)
    (negative,) = CLIPTextEncodeFlux().encode(["blur"], guidance=3.5)
    with torch.no_grad():
        (latent,) = XlabsSampler().sampling(model, positive, negative, 7, steps=4, timestep_to_start_cfg=2, true_gs=3.0, latent_image=latent_image)
    samples = latent["samples"].double()
    print(tuple(samples.shape), f"mean {samples.mean().item():.4f}, spread {samples.std().item():.3f}")
# --- model_management.py
import torch


def get_torch_device():
    return torch.device(torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def intermediate_device():
    return torch.device("cpu")
# --- layers.py
import math

import torch
from torch import nn


def timestep_embedding(t, dim):
    freqs = torch.exp(-math.log(1000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    args = 1000 * t[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


class Flux(nn.Module):
    def __init__(self, hidden, txt_dim, vec_dim, in_channels=64):
        super().__init__()
        self.hidden = hidden
        self.img_in = nn.Linear(in_channels, hidden)
        self.time_in = nn.Linear(hidden, hidden)
        self.guidance_in = nn.Linear(hidden, hidden)
        self.vector_in = nn.Linear(vec_dim, hidden)
        self.txt_in = nn.Linear(txt_dim, hidden)
        self.ids_in = nn.Linear(3, hidden)
        self.blocks = nn.ModuleList(nn.MultiheadAttention(hidden, 2, batch_first=True) for _ in range(2))
        self.final_layer = nn.Linear(hidden, in_channels)
# --- sampling.py
import torch

from layers import timestep_embedding


def model_forward(model, img, img_ids, txt, txt_ids, timesteps, y, guidance):
    img = model.img_in(img)
    vec = model.time_in(timestep_embedding(timesteps, model.hidden))
    vec = vec + model.guidance_in(timestep_embedding(guidance, model.hidden)) + model.vector_in(y)
    stream = torch.cat((model.txt_in(txt), img), dim=1) + model.ids_in(torch.cat((txt_ids, img_ids), dim=1))
    for block in model.blocks:
        attended, _ = block(stream, stream, stream, need_weights=False)
        stream = stream + attended * torch.sigmoid(vec)[:, None]
    return model.final_layer(stream[:, txt.shape[1] :])


def get_noise(num_samples, height, width, device, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_samples, 16, 2 * (height // 16), 2 * (width // 16), generator=generator).to(device)


def get_schedule(num_steps):
    return torch.linspace(1, 0, num_steps + 1).tolist()


def prepare(txt_t5, vec_clip, img):
    bs, c, h, w = img.shape
    img = img.reshape(bs, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(bs, h * w // 4, c * 4)
    img_ids = torch.zeros(h // 2, w // 2, 3)
    img_ids[..., 1] = torch.arange(h // 2)[:, None]
    img_ids[..., 2] = torch.arange(w // 2)[None, :]
    txt_ids = torch.zeros(bs, txt_t5.shape[1], 3)
    return {
        "img": img,
        "img_ids": img_ids.reshape(1, -1, 3).to(img.device),
        "txt": txt_t5.to(img.device),
        "txt_ids": txt_ids.to(img.device),
        "vec": vec_clip.to(img.device),
    }


def unpack(x, height, width):
    h, w = height // 16, width // 16
    return x.reshape(len(x), h, w, -1, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(len(x), -1, 2 * h, 2 * w)


def denoise(model, img, img_ids, txt, txt_ids, vec, neg_txt, neg_txt_ids, neg_vec, timesteps, guidance, true_gs, timestep_to_start_cfg):
    guidance_vec = torch.full((img.shape[0],), guidance, device=img.device)
    for i, (t_curr, t_prev) in enumerate(zip(timesteps[:-1], timesteps[1:])):
        t_vec = torch.full((img.shape[0],), t_curr, device=img.device)
        pred = model_forward(model, img, img_ids, txt, txt_ids, t_vec, vec, guidance_vec)
        if i >= timestep_to_start_cfg:
            neg_pred = model_forward(model, img, img_ids, neg_txt, neg_txt_ids, t_vec, neg_vec, guidance_vec)
            pred = neg_pred + true_gs * (pred - neg_pred)
        img = img + (t_prev - t_curr) * pred
    return img
# --- nodes.py
import model_management as mm
from sampling import denoise, get_noise, get_schedule, prepare, unpack


class LATENT_PROCESSOR_COMFY:
    scale, shift = 0.3611, 0.1159

    def __call__(self, x):
        return x / self.scale + self.shift

    def go_back(self, x):
        return (x - self.shift) * self.scale


class XlabsSampler:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "sampling"

    def sampling(self, model, conditioning, neg_conditioning, noise_seed, steps, timestep_to_start_cfg, true_gs, latent_image):
        device = mm.get_torch_device()
        guidance = conditioning[0][1]["guidance"]
        bc, c, h, w = latent_image["samples"].shape
        height, width = h * 8, w * 8
        if c == 16:
            x = latent_image["samples"]
            lat_processor2 = LATENT_PROCESSOR_COMFY()
            x = lat_processor2.go_back(x)
        else:
            x = get_noise(1, height, width, device=device, seed=noise_seed)

        timesteps = get_schedule(steps)
        model.to(device)
        x.to(device)
        inp_cond = prepare(conditioning[0][0], conditioning[0][1]["pooled_output"], img=x)
        neg_inp_cond = prepare(neg_conditioning[0][0], neg_conditioning[0][1]["pooled_output"], img=x)
        x = denoise(
            model,
            **inp_cond,
            neg_txt=neg_inp_cond["txt"],
            neg_txt_ids=neg_inp_cond["txt_ids"],
            neg_vec=neg_inp_cond["vec"],
            timesteps=timesteps,
            guidance=guidance,
            true_gs=true_gs,
            timestep_to_start_cfg=timestep_to_start_cfg,
        )
        x = unpack(x, height, width)
        return ({"samples": LATENT_PROCESSOR_COMFY()(x)},)

# === gradients_of_many_players_reach_one_learner
# thread: https://github.com/seolhokim/DistributedRL-Pytorch-Ray/pull/8
# about: several players try a task at once, and send what would make them better to a learner, from which they fetch weights again
# operation: (grad|set_grad|__set__|__setattr__|.*grad.*) on cuda:0, cpu
# operands: grad|g|gradient|.*grad.*|new_grad|value
# error: attempting to assign a gradient with device type|assigned grad has data located on a different device
# category: input-not-moved|input|inter-process
# line: agents/algorithms/base.py: p.grad = g
# line: agents/algorithms/base.py: for g, p in zip(gradients, self.parameters()):
# line: agents/runners.py: self.brain.set_gradients(gradients)
# repair: agents/algorithms/base.py: p.grad = g -> p.grad = g.to(p.device)
import torch

from agents.algorithms.a3c import A3C
from agents.runners import A3CActor, A3CLearner, ParameterServer

AGENT_ARGS = dict(hidden_dim=16, lr=5e-3, gamma=0.95, traj_length=12, max_grad_norm=1.0)


def run(num_actors, epochs, state_dim, action_dim):
    learner = A3CLearner(A3C, torch.device("cuda:0"), state_dim, action_dim, AGENT_ARGS)
    actors = [A3CActor(i, A3C, torch.device("cuda:1"), state_dim, action_dim, AGENT_ARGS) for i in range(num_actors)]
    ps = ParameterServer(learner.get_weights())
    for epoch in range(epochs):
        scores = [actor.run(learner, ps) for actor in actors]
        print(f"epoch {epoch}: scores {[f'{score:.2f}' for score in scores]}")
    print(f"weights {sum(value.abs().sum().item() for value in ps.pull().values()):.3f}")


if __name__ == "__main__":
    torch.manual_seed(8)
    run(num_actors=3, epochs=3, state_dim=4, action_dim=2)
# --- utils/environment.py
import torch


class Environment:
    """A point on a plane that shall be brought to the middle."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def reset(self):
        self.place = torch.randn(2, generator=self.generator)
        self.speed = torch.zeros(2)
        return torch.cat([self.place, self.speed])

    def step(self, action):
        self.speed = 0.8 * self.speed + 0.2 * action.clamp(-1, 1)
        self.place = self.place + 0.3 * self.speed
        return torch.cat([self.place, self.speed]), -self.place.norm().item()
# --- agents/algorithms/base.py
from torch import nn


class Agent(nn.Module):
    def get_weights(self):
        return {k: v.cpu().clone() for k, v in self.state_dict().items()}

    def set_weights(self, weights):
        self.load_state_dict(weights)

    def get_gradients(self):
        grads = []
        for p in self.parameters():
            grad = None if p.grad is None else p.grad.data.cpu()
            grads.append(grad)
        return grads

    def set_gradients(self, gradients):
        for g, p in zip(gradients, self.parameters()):
            if g is not None:
                p.grad = g


class ActorCritic(Agent):
    def __init__(self, state_dim, action_dim, args):
        super().__init__()
        self.args = args
        self.actor = nn.Sequential(nn.Linear(state_dim, args["hidden_dim"]), nn.Tanh(), nn.Linear(args["hidden_dim"], action_dim))
        self.critic = nn.Sequential(nn.Linear(state_dim, args["hidden_dim"]), nn.Tanh(), nn.Linear(args["hidden_dim"], 1))

    def get_action(self, x):
        return self.actor(x), 0.3

    def v(self, x):
        return self.critic(x).squeeze(-1)
# --- agents/algorithms/a3c.py
import torch
import torch.nn.functional as F
from torch import nn

from .base import ActorCritic


class A3C(ActorCritic):
    def __init__(self, device, state_dim, action_dim, args):
        super().__init__(state_dim, action_dim, args)
        self.device = device

    @torch.no_grad()
    def run_env(self, env):
        state, data = env.reset(), []
        for _ in range(self.args["traj_length"]):
            mu, std = self.get_action(state.to(self.device))
            action = mu.cpu() + std * torch.randn(mu.shape, generator=env.generator)
            next_state, reward = env.step(action)
            data.append((state, action, torch.tensor(reward), next_state))
            state = next_state
        return [torch.stack(each).to(self.device) for each in zip(*data)]

    def compute_gradients(self, env):
        states, actions, rewards, next_states = self.run_env(env)
        returns = rewards + self.args["gamma"] * self.v(next_states).detach()
        advantages = returns - self.v(states).detach()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-3)
        mu, std = self.get_action(states)
        log_prob = -((actions - mu) / std).pow(2).sum(dim=-1) / 2
        loss = (-log_prob * advantages).mean() + F.smooth_l1_loss(self.v(states), returns)
        self.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters(), self.args["max_grad_norm"])
        return self.get_gradients(), rewards.mean().item()
# --- agents/runners.py
import torch

from utils.environment import Environment


class ParameterServer:
    def __init__(self, weights):
        self.weights = weights

    def pull(self):
        return self.weights

    def push(self, weights):
        self.weights = weights


class A3CActor:
    def __init__(self, num, brain, device, state_dim, action_dim, agent_args):
        self.env = Environment(seed=num)
        self.brain = brain(device, state_dim, action_dim, agent_args).to(device)

    def run(self, learner, ps):
        self.brain.set_weights(ps.pull())
        gradients, score = self.brain.compute_gradients(self.env)
        learner.apply_gradients(gradients, ps)
        return score


class A3CLearner:
    def __init__(self, brain, device, state_dim, action_dim, agent_args):
        self.brain = brain(device, state_dim, action_dim, agent_args).to(device)
        self.optimizer = torch.optim.Adam(self.brain.parameters(), lr=agent_args["lr"])

    def get_weights(self):
        return self.brain.get_weights()

    def apply_gradients(self, gradients, ps):
        self.optimizer.zero_grad()
        self.brain.set_gradients(gradients)
        self.optimizer.step()
        ps.push(self.get_weights())
