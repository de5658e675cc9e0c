# === decay_match
# thread: https://github.com/artificial-audio/pyFDN/pull/224
# about: the target itself follows the response; what was derived from it at the first call does not
# operation: sub on cuda:0, cpu
# operands: surface|compressed|self._compressed, reference|self._reference
# category: cached-state
# line: losses.py: if self._reference is None:
# line: losses.py: difference =
# repair: losses.py: if self._reference is None: -> if self._reference is None or self._reference.device != response.device:
import numpy as np
import torch

from fdn import FeedbackDelayNetwork
from losses import MatchCumulativeEnergy


def target_response(n_samples):
    rng = np.random.default_rng(224)
    return rng.normal(size=n_samples) * np.exp(-np.arange(n_samples) / 20)


def train(model, loss_function, device, n_steps):
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(n_steps):
        loss = loss_function(model(n_samples=64))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(224)
fdn = FeedbackDelayNetwork(delays=(3, 5, 7))
match = MatchCumulativeEnergy(target_response(64))
with torch.no_grad():
    before = match(fdn(n_samples=64)).item()
after = train(fdn, match, "cuda", n_steps=3)
print(f"{before:.4f} -> {after:.4f}")
# --- fdn.py
import torch
from torch import nn


class FeedbackDelayNetwork(nn.Module):
    """Delay lines that are mixed back into themselves; answers with its impulse response."""

    def __init__(self, delays):
        super().__init__()
        n = len(delays)
        self.delays = delays
        self.skew = nn.Parameter(0.3 * torch.randn(n, n))
        self.gain = nn.Parameter(torch.full((n,), 1.0))
        self.out = nn.Parameter(torch.linspace(1, 0.5, n))

    def forward(self, n_samples):
        mixing = torch.linalg.matrix_exp(self.skew - self.skew.T) * self.gain.sigmoid()
        lines = [[torch.ones_like(self.gain[0])] + [torch.zeros_like(self.gain[0])] * (d - 1) for d in self.delays]
        response = []
        for _ in range(n_samples):
            heads = torch.stack([line.pop(0) for line in lines])
            response.append((self.out * heads).sum())
            for line, sample in zip(lines, (mixing @ heads).unbind()):
                line.append(sample)
        return torch.stack(response)
# --- losses.py
import torch


class MatchCumulativeEnergy:
    """How far a response's decay of energy is from that of a recorded one, in a compressed scale."""

    def __init__(self, target, power=0.3):
        self.target = target
        self.power = power
        self._reference = None
        self._scale = None

    def _surface(self, response):
        return response.square().flip(0).cumsum(0).flip(0)

    def _compressed(self, surface):
        return (surface / self._scale).clamp(min=1e-8) ** self.power

    def _prepare(self, response):
        """Aligns the target to the first response there is: its length, type and device."""
        target = torch.as_tensor(self.target[: len(response)]).to(response)
        surface = self._surface(target)
        self._scale = surface.max().item()
        self._reference = self._compressed(surface)

    def __call__(self, response):
        if self._reference is None:
            self._prepare(response.detach())
        difference = self._compressed(self._surface(response)) - self._reference
        return difference.square().mean().sqrt()

# === fitted_process
# thread: https://github.com/cornellius-gp/gpytorch/issues/1619
# about: the model moves its training data itself; what was solved from it lies in an object that is no module
# operation: mm|matmul|mv|addmm|addmv|bmm on cuda:0, cpu
# operands: cross|test_train|covariance, mean_cache|self.mean_cache|weights
# category: cached-state|state-not-registered
# line: exact_gp.py: if self.prediction_strategy is None:
# line: prediction.py: return cross @ self.mean_cache
# line: main.py: model.cuda()
# repair: exact_gp.py: if self.prediction_strategy is None: -> if self.prediction_strategy is None or self.prediction_strategy.mean_cache.device != x.device:
import torch

from exact_gp import ExactGP

x = torch.linspace(-1, 1, 12).unsqueeze(-1)
y = torch.sin(3 * x).squeeze(-1)

model = ExactGP(x, y)
model.eval()
with torch.no_grad():
    checked = model(torch.tensor([[0.25], [0.5]]))
    assert (checked - torch.sin(3 * torch.tensor([0.25, 0.5]))).abs().max() < 0.1

    model.cuda()
    grid = torch.linspace(-1, 1, 200, device="cuda").unsqueeze(-1)
    mean = model(grid)
print("the mean goes from", round(mean.min().item(), 3), "to", round(mean.max().item(), 3))
# --- exact_gp.py
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
# --- prediction.py
import torch


class PredictionStrategy:
    """What can be solved for once, before it is known where the predictions are wanted."""

    def __init__(self, train_covariance, targets):
        factor = torch.linalg.cholesky(train_covariance)
        self.mean_cache = torch.cholesky_solve(targets.unsqueeze(-1), factor).squeeze(-1)

    def exact_predictive_mean(self, cross):
        return cross @ self.mean_cache

# === saved_replay
# thread: https://github.com/DLR-RM/stable-baselines3/issues/1561
# about: what was pickled holds no tensor: it holds the name of the device that it makes them on
# operation: addmm|linear|mm on cpu, cuda:0
# operands: observations|obs|next_observations|input|x, weight|bias
# category: cached-state|default-or-current-device|input-not-moved
# line: algorithm.py: self.replay_buffer = pickle.loads(
# line: buffers.py: return torch.as_tensor(
# line: main.py: model.load_replay_buffer(
# repair: algorithm.py: self.replay_buffer = pickle.loads(file.read()) -> self.replay_buffer = pickle.loads(file.read()); self.replay_buffer.device = self.device
import io

from algorithm import DQN, Corridor


def train_on_the_server():
    model = DQN(Corridor(), device="cuda:0", seed=3)
    model.learn(40)
    policy, replay = io.BytesIO(), io.BytesIO()
    model.save(policy)
    model.save_replay_buffer(replay)
    return io.BytesIO(policy.getvalue()), io.BytesIO(replay.getvalue())


def train_on_the_robot(policy, replay):
    model = DQN.load(policy, Corridor(), device="cpu")
    model.load_replay_buffer(replay)
    return model.learn(20)


loss = train_on_the_robot(*train_on_the_server())
print("loss", round(loss, 5))
# --- algorithm.py
import pickle

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from buffers import ReplayBuffer


class Corridor:
    """Five places in a row; the last one pays."""

    def __init__(self, length=5):
        self.length, self.place = length, 0

    def observe(self):
        return np.eye(self.length, dtype=np.float32)[self.place]

    def step(self, action):
        self.place = min(max(self.place + (1 if action else -1), 0), self.length - 1)
        reward = float(self.place == self.length - 1)
        if reward:
            self.place = 0
        return self.observe(), reward


class DQN:
    def __init__(self, env, device, seed=0):
        torch.manual_seed(seed)
        self.env, self.device = env, torch.device(device)
        self.rng = np.random.default_rng(seed)
        self.q_net = nn.Sequential(nn.Linear(env.length, 16), nn.ReLU(), nn.Linear(16, 2)).to(self.device)
        self.optimizer = torch.optim.SGD(self.q_net.parameters(), lr=0.05)
        self.replay_buffer = ReplayBuffer(64, env.length, self.device)

    def save(self, file):
        torch.save(self.q_net.state_dict(), file)

    @classmethod
    def load(cls, file, env, device):
        model = cls(env, device)
        model.q_net.load_state_dict(torch.load(file, map_location=model.device))
        return model

    def save_replay_buffer(self, file):
        file.write(pickle.dumps(self.replay_buffer))

    def load_replay_buffer(self, file):
        self.replay_buffer = pickle.loads(file.read())

    def learn(self, steps, batch_size=8, gamma=0.9):
        for step in range(steps):
            before, action = self.env.observe(), int(self.rng.integers(2))
            after, reward = self.env.step(action)
            self.replay_buffer.add(before, action, reward, after)
            if step < batch_size:
                continue
            observations, actions, rewards, next_observations = self.replay_buffer.sample(batch_size, self.rng)
            with torch.no_grad():
                target = rewards + gamma * self.q_net(next_observations).max(dim=1, keepdim=True).values
            loss = F.smooth_l1_loss(self.q_net(observations).gather(1, actions), target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()
# --- buffers.py
import numpy as np
import torch


class ReplayBuffer:
    def __init__(self, size, observation_dim, device):
        self.device = torch.device(device)
        self.observations = np.zeros((size, observation_dim), dtype=np.float32)
        self.next_observations = np.zeros((size, observation_dim), dtype=np.float32)
        self.actions = np.zeros((size, 1), dtype=np.int64)
        self.rewards = np.zeros((size, 1), dtype=np.float32)
        self.position, self.filled = 0, 0

    def add(self, observation, action, reward, next_observation):
        self.observations[self.position] = observation
        self.next_observations[self.position] = next_observation
        self.actions[self.position] = action
        self.rewards[self.position] = reward
        self.position = (self.position + 1) % len(self.rewards)
        self.filled = min(self.filled + 1, len(self.rewards))

    def to_torch(self, array):
        return torch.as_tensor(array, device=self.device)

    def sample(self, batch_size, rng):
        rows = rng.integers(0, self.filled, size=batch_size)
        arrays = self.observations, self.actions, self.rewards, self.next_observations
        return [self.to_torch(array[rows]) for array in arrays]
