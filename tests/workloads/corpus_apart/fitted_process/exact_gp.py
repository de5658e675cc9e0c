import torch
from torch import nn

from prediction import PredictionStrategy


class RBFKernel(nn.Module):
    def __init__(self, lengthscale=0.4):
        super().__init__()
        self.raw_lengthscale = nn.Parameter(torch.tensor([lengthscale]).log())

    def forward(self, x1, x2):
        distance = (x1.unsqueeze(-2) - x2.unsqueeze(-3)) / self.raw_lengthscale.exp()
        return torch.exp(-0.5 * distance.square().sum(-1))


class ExactGP(nn.Module):
    def __init__(self, train_inputs, train_targets, noise=1e-3):
        super().__init__()
        self.kernel = RBFKernel()
        self.raw_noise = nn.Parameter(torch.tensor([noise]).log())
        self.train_inputs, self.train_targets = train_inputs, train_targets
        self.prediction_strategy = None

    def _apply(self, fn):
        self.train_inputs = fn(self.train_inputs)
        self.train_targets = fn(self.train_targets)
        return super()._apply(fn)

    def train(self, mode=True):
        if mode:
            self.prediction_strategy = None
        return super().train(mode)

    def forward(self, x):
        if self.training:
            raise RuntimeError("set the model to eval() to predict")
        if self.prediction_strategy is None:
            covariance = self.kernel(self.train_inputs, self.train_inputs)
            noise = torch.diag_embed(self.raw_noise.exp().expand(len(covariance)))
            self.prediction_strategy = PredictionStrategy(covariance + noise, self.train_targets)
        return self.prediction_strategy.exact_predictive_mean(self.kernel(x, self.train_inputs))
