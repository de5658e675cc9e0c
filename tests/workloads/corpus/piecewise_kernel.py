# EXPECT {"kind":"refused-op","operation":"max|maximum","devices":["cuda:0","cpu"],"operands":["torch.zeros\\(1\\)|zero|floor","r|1 - r|distance"],"category":"created without device","line":["return torch.max(torch.zeros(1), 1 - r).pow(j + q)"],"error":"on the same device","thread":"https://github.com/cornellius-gp/gpytorch/issues/2199","hard":"made and used in one expression of a helper"}
# FIX return torch.max(torch.zeros(1), 1 - r).pow(j + q) -> return torch.max(torch.zeros(1, device=r.device), 1 - r).pow(j + q)
import math

import torch
from torch import nn


def fmax(r, j, q):
    return torch.max(torch.zeros(1), 1 - r).pow(j + q)


def get_cov(r, j, q):
    return 1 if q == 0 else (j + 1) * r + 1


class PiecewisePolynomialKernel(nn.Module):
    """A kernel of compact support: points further apart than the length scale have nothing to do with each other."""

    def __init__(self, q=1):
        super().__init__()
        self.q = q
        self.raw_lengthscale = nn.Parameter(torch.zeros(()))

    def forward(self, x1, x2):
        lengthscale = nn.functional.softplus(self.raw_lengthscale)
        r = torch.cdist(x1 / lengthscale, x2 / lengthscale, compute_mode="donot_use_mm_for_euclid_dist")
        j = math.floor(x1.shape[-1] / 2.0) + self.q + 1
        return fmax(r, j, self.q) * get_cov(r, j, self.q)


class ExactGP(nn.Module):
    def __init__(self, train_x, train_y, kernel):
        super().__init__()
        self.train_inputs, self.train_targets = (train_x,), train_y
        self.covar_module = kernel
        self.raw_noise = nn.Parameter(torch.zeros(()))

    def forward(self):
        covar = self.covar_module(*self.train_inputs, *self.train_inputs)
        covar = covar + nn.functional.softplus(self.raw_noise) * torch.eye(len(covar), device=covar.device)
        return 0.5 * (self.train_targets @ torch.linalg.solve(covar, self.train_targets) + torch.logdet(covar))


torch.manual_seed(0)
output_device = torch.device("cuda:0")
train_x, train_y = torch.rand(8, 2).to(output_device), torch.rand(8).to(output_device)
model = ExactGP(train_x, train_y, PiecewisePolynomialKernel(q=1)).to(output_device)
loss = model()
loss.backward()
print("nll", round(loss.item(), 3))
