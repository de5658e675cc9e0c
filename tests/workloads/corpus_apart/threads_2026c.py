# === multistep_ratios
# thread: https://github.com/huggingface/diffusers/pull/13489
# about: noise levels of no dimension mix with anything, until those of two devices are stacked; the first step, of lower order, has one alone
# operation: stack|cat on cpu, cuda:0
# operands: rks.*|tensors.*
# category: input-not-moved|created-without-device
# line: scheduler.py: rk = (lambda_si - lambda_s0) / h
# line: scheduler.py: rks.append(rk)
# line: scheduler.py: lambda_si = self._lambda(
# line: scheduler.py: lambda_t, lambda_s0 =
# line: scheduler.py: sigma_t, sigma_s0 =
# line: scheduler.py: h = lambda_t
# line: scheduler.py: rks = torch.stack(rks)
# line: scheduler.py: self.sigmas = torch.from_numpy(
# repair: scheduler.py: rk = (lambda_si - lambda_s0) / h -> rk = ((lambda_si - lambda_s0) / h).to(device)
import torch
from accelerate import cpu_offload_with_hook
from torch import nn

from scheduler import MultistepScheduler

class Transformer(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.time_proj = nn.Linear(1, channels)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, sample, timestep):
        return self.conv(sample) + self.time_proj(timestep.view(1, 1).to(sample.dtype))[..., None, None]

class Pipeline:
    def __init__(self, transformer, scheduler):
        self.transformer, self.scheduler = transformer, scheduler

    def enable_model_cpu_offload(self, device):
        self._execution_device = torch.device(device)
        self.transformer, self._hook = cpu_offload_with_hook(self.transformer, self._execution_device)

    @torch.no_grad()
    def __call__(self, steps, generator):
        device = self._execution_device
        latents = torch.randn(1, 4, 6, 6, generator=generator).to(device)
        self.scheduler.set_timesteps(steps, device=device)
        for timestep in self.scheduler.timesteps:
            prediction = self.transformer(latents, timestep)
            latents = self.scheduler.step(prediction, latents)
        self._hook.offload()
        return latents.cpu()

torch.manual_seed(0)
pipeline = Pipeline(Transformer(4).eval(), MultistepScheduler(order=2))
pipeline.enable_model_cpu_offload("cuda:0")
latents = pipeline(5, torch.Generator().manual_seed(3))
print("latents", tuple(latents.shape), round(latents.double().abs().mean().item(), 4))
# --- scheduler.py
import numpy as np
import torch

class MultistepScheduler:
    def __init__(self, order, sigma_min=0.1, sigma_max=8.0):
        self.order, self.sigma_min, self.sigma_max = order, sigma_min, sigma_max

    def set_timesteps(self, num_inference_steps, device=None):
        ramp = np.linspace(0, 1, num_inference_steps + 1, dtype=np.float32)
        sigmas = self.sigma_max * (self.sigma_min / self.sigma_max) ** ramp
        self.timesteps = torch.from_numpy(np.log(sigmas[:-1])).to(device)
        self.sigmas = torch.from_numpy(sigmas)
        self.model_outputs = []
        self.step_index = 0

    def _lambda(self, sigma):
        return -torch.log(sigma)

    def step(self, model_output, sample):
        self.model_outputs.append(model_output)
        order = min(self.order, len(self.model_outputs))
        sample = self.multistep_update(sample, order)
        self.step_index += 1
        return sample

    def multistep_update(self, sample, order):
        m0 = self.model_outputs[-1]
        sigma_t, sigma_s0 = self.sigmas[self.step_index + 1], self.sigmas[self.step_index]
        lambda_t, lambda_s0 = self._lambda(sigma_t), self._lambda(sigma_s0)
        h = lambda_t - lambda_s0
        device = sample.device
        rks, differences = [], []
        for i in range(1, order):
            lambda_si = self._lambda(self.sigmas[self.step_index - i])
            mi = self.model_outputs[-(i + 1)]
            rk = (lambda_si - lambda_s0) / h
            rks.append(rk)
            differences.append((mi - m0) / rk)
        rks.append(torch.ones((), device=device))
        rks = torch.stack(rks)
        sample = sigma_t / sigma_s0 * sample - torch.expm1(-h) * m0
        if differences:
            weights = rks[:-1] / (1 + rks.pow(2).sum())
            sample = sample - 0.5 * torch.einsum("k,kbchw->bchw", weights, torch.stack(differences))
        return sample

# === exported_encoder
# thread: https://github.com/leggedrobotics/rsl_rl/pull/189
# about: the wrapper that is written to a file copies the normalizer and the head, but has the encoders in common with the model that trains on
# operation: .*conv.* on cuda:1, cpu
# operands: input|image|self, weight|bias|.*encoder.*
# error: should be the same|on the same device
# category: module-split
# line: export.py: self.encoders = model.encoders
# line: export.py: wrapper.to("cpu")
# repair: export.py: self.encoders = model.encoders -> self.encoders = copy.deepcopy(model.encoders)
import io

import torch
from torch import nn

from export import export_policy
from policy import Policy

class Runner:
    def __init__(self, policy, device, save_interval):
        self.policy, self.device, self.save_interval = policy.to(device), torch.device(device), save_interval
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-2)
        self.exported = []

    def learn(self, iterations, observations):
        observations = {name: value.to(self.device) for name, value in observations.items()}
        for iteration in range(iterations):
            loss = self.policy(observations).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
            self.optimizer.step()
            if iteration % self.save_interval == 0:
                self.exported.append(export_policy(self.policy, io.BytesIO()))
        return loss.item()

torch.manual_seed(0)
runner = Runner(Policy({"front": 1, "wrist": 3}, proprioception=5, actions=2), "cuda:1", save_interval=2)
observations = {"front": torch.rand(4, 1, 6, 6), "wrist": torch.rand(4, 3, 6, 6), "proprioception": torch.rand(4, 5)}
loss = runner.learn(4, observations)
print("loss", round(loss, 5), [sorted(set(each.values())) for each in runner.exported])
# --- policy.py
import torch
from torch import nn

class Normalizer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("var", torch.ones(size))

    def forward(self, x):
        if self.training:
            self.mean.lerp_(x.mean(0), 0.1)
            self.var.lerp_(x.var(0), 0.1)
        return (x - self.mean) / (self.var + 1e-2).sqrt()

class Encoder(nn.Sequential):
    def __init__(self, channels):
        super().__init__(nn.Conv2d(channels, 4, 3), nn.ELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

class Policy(nn.Module):
    def __init__(self, cameras, proprioception, actions):
        super().__init__()
        self.encoders = nn.ModuleDict({name: Encoder(channels) for name, channels in cameras.items()})
        self.normalizer = Normalizer(proprioception)
        self.head = nn.Sequential(nn.Linear(4 * len(cameras) + proprioception, 8), nn.ELU(), nn.Linear(8, actions))

    def forward(self, observations):
        features = [encoder(observations[name]) for name, encoder in self.encoders.items()]
        return self.head(torch.cat([*features, self.normalizer(observations["proprioception"])], dim=-1))
# --- export.py
import copy

import torch
from torch import nn

class ExportedPolicy(nn.Module):
    """Takes images in the order of their names, not a dict: what reads the file has none."""

    def __init__(self, model):
        super().__init__()
        self.names = sorted(model.encoders)
        self.encoders = model.encoders
        self.normalizer = copy.deepcopy(model.normalizer).eval()
        self.head = copy.deepcopy(model.head)

    def forward(self, proprioception, *images):
        features = [self.encoders[name](image) for name, image in zip(self.names, images)]
        return self.head(torch.cat([*features, self.normalizer(proprioception)], dim=-1))

def export_policy(model, file):
    wrapper = ExportedPolicy(model)
    wrapper.to("cpu")
    state = wrapper.state_dict()
    torch.save(state, file)
    return {name: str(value.device) for name, value in state.items()}

# === nested_effector
# thread: https://github.com/motornet-org/MotorNet/pull/15
# about: each class keeps its own device, which its to() sets; a parent moves the buffers of its children without calling theirs
# operation: add on cuda:0, cpu
# operands: self.rest_length|rest_length|self, noise|other
# category: created-without-device|cached-state|state-not-registered
# line: plant.py: noise = torch.full(
# line: plant.py: return self.rest_length + noise
# line: plant.py: self._device = torch.device(
# line: plant.py: def to(self, device):
# line: plant.py: return super().to(
# line: plant.py: return self._device
# repair: plant.py: noise = torch.full((batch_size, len(self.rest_length)), 0.02, device=self.device) -> noise = torch.full((batch_size, len(self.rest_length)), 0.02, device=self.rest_length.device)
import torch
from torch import nn

from environment import Environment
from plant import Effector, Muscle

class Controller(nn.Module):
    def __init__(self, observations, muscles):
        super().__init__()
        self.gru, self.out = nn.GRUCell(observations, 8), nn.Linear(8, muscles)

    def forward(self, observation, hidden=None):
        hidden = self.gru(observation, hidden)
        return torch.sigmoid(self.out(hidden)), hidden

torch.manual_seed(0)
environment = Environment(Effector(Muscle(rest_length=[0.8, 1.0, 1.3], gain=2.0), moment_arms=[[0.3, -0.2, 0.1], [0.0, 0.2, -0.3]]))
environment.to("cuda:0")
controller = Controller(observations=5, muscles=3).to(environment.device)
optimizer = torch.optim.Adam(controller.parameters(), lr=0.05)
for _ in range(3):
    observation, hidden, cost = environment.reset(batch_size=4), None, 0.0
    for _ in range(5):
        excitation, hidden = controller(observation, hidden)
        observation, distance = environment.step(excitation)
        cost = cost + distance
    optimizer.zero_grad()
    cost.backward()
    optimizer.step()
print("cost", round(cost.item(), 4))
# --- plant.py
import torch
from torch import nn

class Tracked(nn.Module):
    """Knows where it is, for what it makes while it runs."""

    def __init__(self):
        super().__init__()
        self._device = torch.device("cpu")

    @property
    def device(self):
        return self._device

    def to(self, device):
        self._device = torch.device(device)
        return super().to(device)

class Muscle(Tracked):
    def __init__(self, rest_length, gain):
        super().__init__()
        self.gain = gain
        self.register_buffer("rest_length", torch.tensor(rest_length))

    def initial_length(self, batch_size):
        noise = torch.full((batch_size, len(self.rest_length)), 0.02, device=self.device)
        return self.rest_length + noise

    def force(self, excitation, length):
        return self.gain * excitation * torch.exp(-((length / self.rest_length - 1) ** 2))

class Effector(Tracked):
    def __init__(self, muscle, moment_arms):
        super().__init__()
        self.muscle = muscle
        self.register_buffer("moment_arms", torch.tensor(moment_arms))

    def initial_state(self, batch_size):
        return {"joints": self.moment_arms.new_zeros(batch_size, 2), "length": self.muscle.initial_length(batch_size)}

    def integrate(self, state, excitation, dt=0.1):
        torque = self.muscle.force(excitation, state["length"]) @ self.moment_arms.T
        joints = state["joints"] + dt * torque
        return {"joints": joints, "length": state["length"] - dt * torque @ self.moment_arms}
# --- environment.py
import torch

from plant import Tracked

class Environment(Tracked):
    def __init__(self, effector, target=(0.4, -0.2)):
        super().__init__()
        self.effector = effector
        self.register_buffer("target", torch.tensor(target))

    def observe(self):
        return torch.cat([self.state["joints"], self.state["length"]], dim=-1)

    def reset(self, batch_size):
        self.state = self.effector.initial_state(batch_size)
        return self.observe()

    def step(self, excitation):
        self.state = self.effector.integrate(self.state, excitation)
        return self.observe(), (self.state["joints"] - self.target).pow(2).sum(-1).mean()

# === hessian_replicas
# thread: https://github.com/ModelCloud/GPTQModel/pull/2979
# about: copies of a layer run in threads, each on its device; their hooks add to one sum, which lies where the layer was when the sum began
# operation: add on cuda:0, cuda:1
# operands: self.H|self, xtx|other
# category: input-not-moved|cached-state
# line: hessian.py: self.H += xtx
# line: hessian.py: xtx = rows.T @ rows
# line: hessian.py: rows = x.detach().reshape(
# line: calibrate.py: task.add_batch(
# repair: hessian.py: self.H += xtx -> self.H += xtx.to(self.H.device)
import torch
from torch import nn

from calibrate import calibrate
from hessian import round_with

class Expert(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))

torch.manual_seed(0)
expert = Expert(width=6, hidden=10).double().to("cuda:0")
samples = torch.randn(4, 5, 6, dtype=torch.float64)
tasks = calibrate(expert, samples, devices=["cuda:0", "cuda:1"])
with torch.no_grad():
    for name, task in tasks.items():
        weight = expert.get_submodule(name).weight
        weight.copy_(round_with(weight, task.finish(), bits=4))
    output = expert(samples.to("cuda:0"))
print("quantized", sorted(tasks), round(output.abs().sum().item(), 4))
# --- calibrate.py
import copy
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from hessian import HessianTask

def observer(task):
    def hook(module, args, output):
        task.add_batch(args[0])

    return hook

def replicate(module, devices):
    return [copy.deepcopy(module).to(device) for device in devices]

@torch.no_grad()
def calibrate(module, samples, devices):
    tasks = {name: HessianTask(layer) for name, layer in module.named_modules() if isinstance(layer, nn.Linear)}
    replicas = replicate(module, devices)
    for replica in replicas:
        for name, task in tasks.items():
            replica.get_submodule(name).register_forward_hook(observer(task))
    shares = samples.chunk(len(replicas))

    def run(replica, share):
        for x in share:
            replica(x.to(next(replica.parameters()).device))

    with ThreadPoolExecutor(len(replicas)) as pool:
        for future in [pool.submit(run, replica, share) for replica, share in zip(replicas, shares)]:
            future.result()
    return tasks
# --- hessian.py
import threading

import torch

class HessianTask:
    def __init__(self, layer):
        size = layer.in_features
        self.H = torch.zeros(size, size, dtype=layer.weight.dtype, device=layer.weight.device)
        self.lock = threading.Lock()
        self.count = 0

    def add_batch(self, x):
        rows = x.detach().reshape(-1, x.shape[-1])
        xtx = rows.T @ rows
        with self.lock:
            self.H += xtx
            self.count += len(rows)

    def finish(self, damping=0.01):
        H = 2 / self.count * self.H
        return H + damping * H.diagonal().mean() * torch.eye(len(H), dtype=H.dtype, device=H.device)

def round_with(weight, hessian, bits):
    """Coarser where inputs say little."""
    importance = hessian.diagonal().sqrt()
    step = weight.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
    return (weight / step + 0.1 * importance / importance.max()).round() * step

# === unbounded_prior
# thread: https://github.com/sbi-dev/sbi/pull/1895
# about: the map to unbounded parameters is given the device, which only one of its branches uses; its numbers are no buffers of the network that keeps it
# operation: sub on cuda:0, cpu
# operands: y|self|theta, self.loc|loc|other
# category: input-not-moved|state-not-registered|created-without-device
# line: transforms.py: transform = biject_to(
# line: transforms.py: return transform
# line: estimator.py: self.prior_transform = prior_transform
# repair: transforms.py: transform = biject_to(prior.support) -> transform = biject_to(constraints.independent(constraints.interval(support.lower_bound.to(device), support.upper_bound.to(device)), 1))
import torch
from torch.distributions import Independent, Uniform

from estimator import MixtureDensity
from transforms import mcmc_transform

def simulator(theta):
    return torch.stack([theta.sum(-1), theta[:, 0] * theta[:, 1]], dim=-1) + 0.1 * torch.randn(len(theta), 2)

def train(estimator, theta, x, epochs):
    optimizer = torch.optim.Adam(estimator.parameters(), lr=0.05)
    for _ in range(epochs):
        loss = -estimator.log_prob(theta, x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()

torch.manual_seed(0)
device = "cuda:0"
prior = Independent(Uniform(torch.tensor([0.0, -1.0]), torch.tensor([2.0, 1.0])), 1)
theta = prior.sample((64,))
x = simulator(theta)
estimator = MixtureDensity(theta.shape[1], x.shape[1], components=3, prior_transform=mcmc_transform(prior, device=device)).to(device)
loss = train(estimator, theta.to(device), x.to(device), epochs=4)
print("loss", round(loss, 4))
# --- transforms.py
import torch
from torch.distributions import AffineTransform, biject_to, constraints

def mcmc_transform(prior, device="cpu"):
    """From all of R^n to the prior's support."""
    support = prior.support.base_constraint
    if hasattr(support, "upper_bound"):
        transform = biject_to(prior.support)
    elif support is constraints.real:
        transform = AffineTransform(prior.mean.to(device), prior.stddev.to(device), event_dim=1)
    else:
        raise NotImplementedError(support)
    return transform
# --- estimator.py
import torch
from torch import nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

class MixtureDensity(nn.Module):
    """Of parameters given an observation; the components live where parameters have no bounds."""

    def __init__(self, parameters, observations, components, prior_transform):
        super().__init__()
        self.prior_transform = prior_transform
        self.shape = components, parameters
        self.net = nn.Sequential(nn.Linear(observations, 16), nn.Tanh(), nn.Linear(16, components * (2 * parameters + 1)))

    def mixture(self, x):
        components, parameters = self.shape
        logits, means, scales = self.net(x).split([components, components * parameters, components * parameters], dim=-1)
        normal = Normal(means.view(-1, components, parameters), scales.view(-1, components, parameters).exp())
        return MixtureSameFamily(Categorical(logits=logits), Independent(normal, 1))

    def log_prob(self, theta, x):
        u = self.prior_transform.inv(theta)
        return self.mixture(x).log_prob(u) - self.prior_transform.log_abs_det_jacobian(u, theta)

# === censoring_weights
# thread: https://github.com/Novartis/torchsurv/pull/146
# about: the estimator works where its argument says, which has a default; an index may be on the CPU, the values that it puts may not
# operation: index_put|__setitem__ on cuda:0, cpu
# operands: ipcw|self, values|value|1 / survival.*
# category: input-not-moved|default-or-current-device|created-without-device
# line: ipcw.py: km = KaplanMeier(
# line: ipcw.py: survival = km.predict(
# line: ipcw.py: ipcw[seen] = 1 /
# line: kaplan_meier.py: return self.estimate[
# repair: ipcw.py: km = KaplanMeier() -> km = KaplanMeier(device=time.device)
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ipcw import get_ipcw

class Evaluator:
    """Brier's score at one time, of who is known to live or to have died by then."""

    def __init__(self, horizon):
        self.horizon = horizon

    def __call__(self, risk, event, time):
        weights = get_ipcw(event, time, at=self.horizon)
        died = (time <= self.horizon) & event
        return (weights * (died.to(risk.dtype) - risk) ** 2).mean()

torch.manual_seed(0)
covariates = torch.randn(48, 4)
time = torch.distributions.Exponential(covariates[:, 0].exp()).sample()
event = torch.rand(48) < 0.7
device = torch.device("cuda:0")
model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1), nn.Sigmoid()).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
evaluate = Evaluator(horizon=0.8)
for batch in DataLoader(TensorDataset(covariates, event, time), batch_size=16):
    x, died, at = (each.to(device) for each in batch)
    loss = evaluate(model(x).squeeze(-1), died, at)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("score", round(loss.item(), 4))
# --- ipcw.py
import torch

from kaplan_meier import KaplanMeier

def get_ipcw(event, time, at=None):
    """One by the chance of not being censored before one's time, or before `at`."""
    km = KaplanMeier()
    km.fit(~event, time)
    until = time if at is None else time.clamp(max=at)
    survival = km.predict(until)
    ipcw = torch.zeros_like(time)
    seen = survival > 0
    ipcw[seen] = 1 / survival[seen]
    return ipcw
# --- kaplan_meier.py
import torch

class KaplanMeier:
    def __init__(self, device="cpu"):
        self.device = torch.device(device)

    def fit(self, event, time):
        event, time = event.to(self.device), time.to(self.device)
        self.time, index = torch.unique(time, return_inverse=True)
        deaths, leaving = (torch.zeros(len(self.time), device=self.device) for _ in range(2))
        deaths.index_add_(0, index, event.float())
        leaving.index_add_(0, index, torch.ones_like(time))
        at_risk = leaving.flip(0).cumsum(0).flip(0)
        factors = 1 - deaths / at_risk
        self.estimate = torch.cat([torch.ones(1, device=self.device), factors.cumprod(0)])

    def predict(self, time):
        place = torch.searchsorted(self.time, time.to(self.device).contiguous(), right=True)
        return self.estimate[place]

# === set_environment
# thread: https://github.com/alexhernandezgarcia/gflownet/pull/449
# about: states are lists until a batch of them is put on the device; a table that is made for each batch is read with a column of it
# operation: index|__getitem__ on cpu, cuda:0
# operands: .*eye.*|table|self, active|indices|index
# error: indices should be either on cpu or on the same device as the indexed tensor
# category: created-without-device
# line: envs.py: table = torch.eye(
# line: envs.py: one_hot = table[active]
# repair: envs.py: table = torch.eye(len(self.subenvs) + 1) -> table = torch.eye(len(self.subenvs) + 1, device=states.device)
import torch
from torch import nn

from agent import Agent
from envs import Grid, SetFix

torch.manual_seed(0)
env = SetFix([Grid(n_dim=2, length=3), Grid(n_dim=1, length=4)])
policy = nn.Sequential(nn.Linear(env.policy_input_dim, 12), nn.LeakyReLU(), nn.Linear(12, 1))
agent = Agent(env, policy, device="cuda:0")
loss = agent.train(steps=3, batch_size=4)
print("loss", round(loss, 4))
# --- envs.py
import random

import torch

class Grid:
    def __init__(self, n_dim, length):
        self.n_dim, self.length = n_dim, length
        self.state_dim, self.policy_input_dim = n_dim, n_dim * length

    def sample_state(self, rng):
        return [rng.randrange(self.length) for _ in range(self.n_dim)]

    def states2policy(self, states):
        """A one in the cell of each dimension."""
        cells = torch.arange(self.length, device=states.device)
        return (states.unsqueeze(-1) == cells).flatten(1).float()

class SetFix:
    """Several environments, one of which is active, or none: that comes first in a state."""

    def __init__(self, subenvs):
        self.subenvs = subenvs
        self.policy_input_dim = len(subenvs) + 1 + sum(each.policy_input_dim for each in subenvs)

    def sample_state(self, rng):
        parts = [each.sample_state(rng) for each in self.subenvs]
        return [rng.randrange(len(self.subenvs) + 1), *(cell for part in parts for cell in part)]

    def states2policy(self, states):
        active = states[:, 0]
        table = torch.eye(len(self.subenvs) + 1)
        one_hot = table[active]
        parts = states[:, 1:].split([each.state_dim for each in self.subenvs], dim=1)
        return torch.cat([one_hot, *(each.states2policy(part) for each, part in zip(self.subenvs, parts))], dim=1)

def batch_of(env, size, seed):
    rng = random.Random(seed)
    return [env.sample_state(rng) for _ in range(size)]
# --- agent.py
import torch

from envs import batch_of

class Agent:
    def __init__(self, env, policy, device):
        self.env, self.device = env, torch.device(device)
        self.policy = policy.to(self.device)
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)

    def rewards(self, states):
        return torch.tensor([1.0 + sum(state[1:]) for state in states], device=self.device)

    def train(self, steps, batch_size):
        for step in range(steps):
            states = batch_of(self.env, batch_size, seed=step)
            tensor = torch.tensor(states, device=self.device)
            flow = self.policy(self.env.states2policy(tensor)).squeeze(-1)
            loss = (flow - self.rewards(states).log()).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()
