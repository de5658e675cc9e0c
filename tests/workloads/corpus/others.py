# === default_argument_module
# thread: https://github.com/pytorch/pytorch/issues/58140
# about: a default argument is made once: the first object took it to the GPU with it
# operation: sub on cuda:0, cpu
# operands: image|x, self.mean|mean
# category: tied-weights|cached-state|input-not-moved
# line: def __init__(self, image, normalize=Normalize()):
# line: image = self.normalize(
# repair: def __init__(self, image, normalize=Normalize()): -> def __init__(self, image, normalize=None):
# repair: self.normalize = normalize -> self.normalize = normalize or Normalize()
import torch


class Normalize(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1))

    def forward(self, x):
        return (x - self.mean) / self.std

    def inverse(self, x):
        return x * self.std + self.mean


class NaturalImage(torch.nn.Module):
    """An image to be optimized, kept normalized."""

    def __init__(self, image, normalize=Normalize()):
        super().__init__()
        self.normalize = normalize
        image = self.normalize(image)
        self.image = torch.nn.Parameter(image)

    def forward(self):
        return self.normalize.inverse(self.image).clamp(0, 1)


def visualize(start, steps=2):
    image = NaturalImage(start).cuda()
    optimizer = torch.optim.SGD(image.parameters(), lr=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        (-image().mean()).backward()
        optimizer.step()
    return image().mean().item()


results = [visualize(torch.full((3, 4, 4), value)) for value in (0.2, 0.6)]
print("brighter", [round(value, 4) for value in results])

# === deserialize_count
# thread: https://github.com/macrocosm-os/iota/pull/47
# about: raised in Python, by torch.serialization, in another process than the one that chose the device
# operation:  on cuda:1
# operands:
# category:
# error: Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count\(\) is 1
# line: layer = torch.load(
# repair: layer = torch.load(path) -> layer = torch.load(path, map_location="cuda:0")
import os
import subprocess
import sys
import tempfile

import torch


def upload(path):
    """The miner of the second layer saves what it has learned."""
    torch.manual_seed(0)
    torch.save(torch.nn.Linear(4, 4, bias=False).to("cuda:1").state_dict(), path)


def merge(path):
    """A miner with one device goes on from it."""
    mine = torch.nn.Linear(4, 4, bias=False).to("cuda:0")
    layer = torch.load(path)
    mine.load_state_dict(layer)
    print("merged", round(mine.weight.sum().item(), 4))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        merge(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "layer.pt")
            upload(path)
            sys.exit(subprocess.run([sys.executable, __file__, path], env=dict(os.environ, CUDA_VISIBLE_DEVICES="0")).returncode)

# === font_location
# thread: https://github.com/torchfont/torchfont/pull/327
# about: one of the two is no tensor; the generator comes from far away, in an attribute of a transform
# operation: rand|uniform on cpu, cuda:0
# operands: generator
# category: generator|created-without-device
# error: Expected a 'cpu' device type for generator but found 'cuda'
# line: unit = torch.rand(
# line: augment = Compose(
# repair: unit = torch.rand(len(axes), generator=generator) -> unit = torch.rand(len(axes), generator=generator, device=generator.device if generator is not None else None)
from typing import NamedTuple

import torch


class Axis(NamedTuple):
    tag: str
    minimum: float
    maximum: float


def random_location(axes, *, generator=None):
    """A point of a variable font's design space, as {tag: value}."""
    unit = torch.rand(len(axes), generator=generator)
    lowest = torch.tensor([axis.minimum for axis in axes], device=unit.device)
    highest = torch.tensor([axis.maximum for axis in axes], device=unit.device)
    values = torch.lerp(lowest, highest, unit).tolist()
    return {axis.tag: value for axis, value in zip(axes, values)}


class RandomInstance:
    """A transform: draws the glyph at another weight and width each time."""

    def __init__(self, axes, generator=None):
        self.axes = axes
        self.generator = generator

    def __call__(self, outline):
        location = random_location(self.axes, generator=self.generator)
        return outline * (location["wdth"] / 100.0), location


class Compose:
    def __init__(self, *transforms):
        self.transforms = transforms

    def __call__(self, outline):
        notes = []
        for transform in self.transforms:
            outline, note = transform(outline)
            notes.append(note)
        return outline, notes


axes = [Axis("wght", 100.0, 900.0), Axis("wdth", 75.0, 125.0)]
generator = torch.Generator(device="cuda").manual_seed(327)
augment = Compose(RandomInstance(axes, generator))
outline = torch.rand(12, 2, device="cuda", generator=generator)
inside = [axis.minimum <= augment(outline)[1][0][axis.tag] <= axis.maximum for axis in axes for _ in range(3)]
print("inside the design space:", all(inside), len(inside))

# === kivi_minmax
# thread: https://github.com/jy-yuan/KIVI/issues/24
# about: the layers of the first device run the same line, rightly
# kind: wrong-current-device
# operation: minmax_along_last_dim on cuda:0, cuda:1
# operands: data|groups
# category: unguarded-kernel
# error:
# line: minmax_along_last_dim[grid](
# repair: minmax_along_last_dim[grid](groups, mn, mx, groups.numel(), GROUP=group_size, BLOCK=4) -> with torch.cuda.device(groups.device): minmax_along_last_dim[grid](groups, mn, mx, groups.numel(), GROUP=group_size, BLOCK=4)
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def minmax_along_last_dim(data, mn, mx, count, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = row[:, None] * GROUP + tl.arange(0, GROUP)[None]
    mask = at < count
    tl.store(mn + row, tl.min(tl.load(data + at, mask=mask, other=float("inf")), axis=1), mask=row * GROUP < count)
    tl.store(mx + row, tl.max(tl.load(data + at, mask=mask, other=float("-inf")), axis=1), mask=row * GROUP < count)


def quantize_along_last_dim(data, group_size, bits):
    groups = data.reshape(-1, group_size)
    mn = torch.empty(len(groups), device=data.device)
    mx = torch.empty(len(groups), device=data.device)
    grid = (triton.cdiv(len(groups), 4),)
    minmax_along_last_dim[grid](groups, mn, mx, groups.numel(), GROUP=group_size, BLOCK=4)
    return data.shape, bits * data.numel() // 8 + 8 * len(groups)


class Attention(nn.Module):
    def __init__(self, width, group_size=8, bits=2):
        super().__init__()
        self.k_proj, self.v_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.group_size, self.bits = group_size, bits

    def forward(self, hidden):
        keys, values = self.k_proj(hidden), self.v_proj(hidden)
        # Keys by channel, values by token.
        stored = [quantize_along_last_dim(part, self.group_size, self.bits) for part in (keys.transpose(1, 2).contiguous(), values)]
        return hidden + values, sum(size for _, size in stored)


torch.manual_seed(0)
layers = [Attention(16).to(f"cuda:{i // 2}") for i in range(4)]
hidden, cached = torch.rand(1, 8, 16).to("cuda:0"), 0
with torch.no_grad():
    for layer in layers:
        hidden, size = layer(hidden.to(layer.k_proj.weight.device))
        cached += size
print("bytes of the cache", cached)

# === mpt_tied_logits
# thread: https://github.com/rmihaylov/mpttune/pull/8
# about: no module is called there, so none of the hooks moves anything
# operation: mm|linear|addmm on cuda:1, cuda:0
# operands: hidden_states|input|self, wte.weight|weight|mat2
# category: tied-weights|module-split
# line: logits = F.linear(hidden_states, self.transformer.wte.weight)
# line: device_map = {
# repair: logits = F.linear(hidden_states, self.transformer.wte.weight) -> logits = F.linear(hidden_states.to(self.transformer.wte.weight.device), self.transformer.wte.weight)
import math

import torch
from accelerate import dispatch_model
from torch import nn
from torch.nn import functional as F


class MPTBlock(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.Wqkv, self.out_proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model))

    def forward(self, x, attn_bias):
        q, k, v = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in self.Wqkv(self.norm_1(x)).chunk(3, -1))
        weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + attn_bias).softmax(-1)
        x = x + self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        return x + self.ffn(self.norm_2(x))


class MPTModel(nn.Module):
    def __init__(self, d_model=8, n_heads=2, n_layers=3, vocab_size=28):
        super().__init__()
        self.n_heads = n_heads
        self.wte = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(MPTBlock(d_model, n_heads) for _ in range(n_layers))
        self.norm_f = nn.LayerNorm(d_model)

    def forward(self, input_ids):
        n = input_ids.shape[1]
        distance = torch.arange(n, device=input_ids.device) - torch.arange(n, device=input_ids.device)[:, None]
        slopes = 2.0 ** -torch.arange(1, self.n_heads + 1, device=input_ids.device)
        attn_bias = (slopes[:, None, None] * distance).masked_fill(distance > 0, float("-inf"))
        x = self.wte(input_ids)
        for block in self.blocks:
            x = block(x, attn_bias=attn_bias)
        return self.norm_f(x)


class MPTForCausalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = MPTModel()

    def forward(self, input_ids):
        hidden_states = self.transformer(input_ids)
        # The output layer is the embedding.
        logits = F.linear(hidden_states, self.transformer.wte.weight)
        return logits


torch.manual_seed(0)
device_map = {"transformer.wte": 0, "transformer.blocks.0": 0, "transformer.blocks.1": 1, "transformer.blocks.2": 1, "transformer.norm_f": 1}
model = dispatch_model(MPTForCausalLM().eval(), device_map)
with torch.no_grad():
    logits = model(torch.randint(0, 28, (2, 6)).to("cuda:0"))
print("logits", tuple(logits.shape), round(logits.square().mean().item(), 3))

# === per_priorities_numpy
# thread: https://github.com/LucasAlegre/morl-baselines/pull/185
# about: numpy asks for the array, two calls below
# operation:  on cuda:0
# operands: idxes|indices|nodes|ar
# category:
# error: can't convert cuda:0 device type tensor to numpy
# line: self.replay_buffer.update_priorities(idxes
# line: idxes =
# line: unique, first = np.unique(
# repair: self.replay_buffer.update_priorities(idxes, priority.cpu().numpy().flatten()) -> self.replay_buffer.update_priorities(idxes.cpu(), priority.cpu().numpy().flatten())
import numpy as np
import torch as th
from torch import nn


class SumTree:
    def __init__(self, size):
        self.leaves = np.ones(size, dtype=np.float64)

    def batch_set(self, nodes, values):
        unique, first = np.unique(nodes, return_index=True)
        self.leaves[unique] = values[first]

    def chances(self):
        return self.leaves / self.leaves.sum()


class PrioritizedReplayBuffer:
    def __init__(self, observation_size, size, seed=0):
        self.tree, self.random = SumTree(size), np.random.RandomState(seed)
        self.obs = self.random.rand(size, observation_size).astype(np.float32)
        self.rewards = self.random.rand(size, 1).astype(np.float32)

    def sample(self, batch_size, device):
        idxes = self.random.choice(len(self.obs), batch_size, p=self.tree.chances())
        return tuple(th.tensor(each).to(device) for each in (self.obs[idxes], self.rewards[idxes], idxes))

    def update_priorities(self, idxes, priorities, alpha=0.6):
        self.tree.batch_set(idxes, priorities**alpha)


class Agent:
    def __init__(self, device):
        self.device = th.device(device)
        self.q_net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1)).to(self.device)
        self.optimizer = th.optim.Adam(self.q_net.parameters(), lr=1e-3)
        self.replay_buffer = PrioritizedReplayBuffer(4, size=32)

    def update(self):
        obs, rewards, idxes = self.replay_buffer.sample(8, self.device)
        error = self.q_net(obs) - rewards
        self.optimizer.zero_grad()
        error.square().mean().backward()
        self.optimizer.step()
        priority = error.abs().detach().clamp(min=0.01)
        self.replay_buffer.update_priorities(idxes, priority.cpu().numpy().flatten())
        return error.square().mean().item()


th.manual_seed(0)
agent = Agent("cuda:0")
print("error", [round(agent.update(), 3) for _ in range(3)])

# === ray_sampler_generator
# thread: https://github.com/NarcissusEx/CuNeRF/issues/8
# about: raised inside a sampler of PyTorch's; the line that matters is a setting of the whole program
# operation: randperm|random_ on cpu
# operands:
# category: generator|default-or-current-device
# error: Expected a 'cuda' device type for generator but found 'cpu'
# line: self.trainloader = DataLoader(
# line: torch.set_default_device(
# repair: self.trainloader = DataLoader(volume, batch_size=cfg.batch, shuffle=True) -> self.trainloader = DataLoader(volume, batch_size=cfg.batch, shuffle=True, generator=torch.Generator(device="cuda"))
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Cfg:
    device: str = "cuda"
    size: int = 6
    batch: int = 4
    frequencies: int = 3


class Volume(Dataset):
    """Slices of a volume: where each voxel is, and how dense."""

    def __init__(self, size):
        axis = torch.linspace(-1, 1, size)
        self.where = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), dim=-1)
        self.density = torch.exp(-self.where.square().sum(-1))

    def __len__(self):
        return len(self.where)

    def __getitem__(self, index):
        return self.where[index].reshape(-1, 3), self.density[index].reshape(-1)


class Field(nn.Module):
    def __init__(self, frequencies):
        super().__init__()
        self.register_buffer("scales", 2.0 ** torch.arange(frequencies))
        self.net = nn.Sequential(nn.Linear(6 * frequencies, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, where):
        angles = (where[..., None] * self.scales).flatten(-2)
        return self.net(torch.cat((angles.sin(), angles.cos()), dim=-1)).squeeze(-1)


class Runner:
    def __init__(self, cfg):
        torch.set_default_device(cfg.device)
        volume = Volume(cfg.size)
        self.trainloader = DataLoader(volume, batch_size=cfg.batch, shuffle=True)
        self.field = Field(cfg.frequencies)

    @torch.no_grad()
    def evaluate(self):
        seen = 0
        for where, density in self.trainloader:
            error = (self.field(where) - density).abs()
            seen += int((error < 1).sum())
        return seen


torch.manual_seed(0)
print("voxels", Runner(Cfg()).evaluate())

# === residual_body_twice
# thread: https://github.com/xinntao/Real-ESRGAN/issues/598
# about: one list of blocks was given to both halves; the second .to() took the first half's parameters along
# operation: conv on cuda:0, cuda:1
# operands: x|input, weight|bias
# category: tied-weights|module-split
# line: self.body2 = nn.Sequential(*resblocks)
# repair: self.body2 = nn.Sequential(*resblocks).to("cuda:1") -> import copy; self.body2 = nn.Sequential(*copy.deepcopy(resblocks)).to("cuda:1")
import torch
import torch.nn as nn


def conv(in_channel, out_channel, kernel_size):
    layer = nn.Conv2d(in_channel, out_channel, kernel_size, padding=kernel_size // 2)
    nn.init.constant_(layer.weight, 0.02)
    nn.init.constant_(layer.bias, 0.1)
    return layer


class ResBlock(nn.Module):
    def __init__(self, channels, kernel_size):
        super().__init__()
        self.block = nn.Sequential(conv(channels, channels, kernel_size), nn.PReLU(), conv(channels, channels, kernel_size))

    def forward(self, x):
        return x + self.block(x)


class SRResNet(nn.Module):
    def __init__(self, img_feat=1, n_feats=4, kernel_size=3, num_block=4, scale=2):
        super().__init__()
        self.conv01 = conv(img_feat, n_feats, 5).to("cuda:0")
        resblocks = [ResBlock(n_feats, kernel_size) for _ in range(num_block // 2)]
        self.body1 = nn.Sequential(*resblocks).to("cuda:0")
        self.body2 = nn.Sequential(*resblocks).to("cuda:1")
        self.upscale = nn.PixelShuffle(scale)
        self.last_conv = conv(n_feats // scale**2, img_feat, kernel_size).to("cuda:1")

    def forward(self, x):
        x = self.conv01(x)
        skip = x
        x = self.body1(x)
        x = self.body2(x.to("cuda:1"))
        x = self.upscale(x + skip.to("cuda:1"))
        return self.last_conv(x)


model = SRResNet()
low = torch.linspace(0, 1, 36).reshape(1, 1, 6, 6).to("cuda:0")
high = model(low)
print("x2:", tuple(high.shape), "%.4f" % high.mean().item())

# === rnd_rollout
# thread: https://github.com/jcwleo/random-network-distillation-pytorch/pull/14
# about: raised by Tensor.numpy, which numpy calls for the elements of a list
# operation:  on cuda:0
# operands: policy|total_policy
# category:
# error: can't convert cuda:0 device type tensor to numpy
# line: total_policy.append(
# line: return action, policy.detach()
# repair: total_policy.append(policy) -> total_policy.append(policy.cpu())
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class RNDAgent:
    def __init__(self, input_size, output_size, use_cuda=True):
        self.device = torch.device('cuda' if use_cuda else 'cpu')
        self.model = nn.Linear(input_size, output_size).to(self.device)
        self.predictor = nn.Linear(input_size, 4).to(self.device)
        self.target = nn.Linear(input_size, 4).to(self.device)

    def get_action(self, state):
        state = torch.Tensor(state).to(self.device)
        policy = self.model(state)
        action = F.softmax(policy, dim=-1).data.cpu().numpy().argmax(axis=1)
        return action, policy.detach()

    def compute_intrinsic_reward(self, next_obs):
        next_obs = torch.FloatTensor(next_obs).to(self.device)
        reward = (self.target(next_obs) - self.predictor(next_obs)).pow(2).sum(1) / 2
        return reward.data.cpu().numpy()


def step(states, actions):
    return np.tanh(states + 0.1 * actions[:, None])


torch.manual_seed(14)
agent = RNDAgent(6, 3)
states = np.random.default_rng(14).normal(size=(2, 6))
total_action, total_int_reward, total_policy = [], [], []
for _ in range(5):
    actions, policy = agent.get_action(states)
    states = step(states, actions)
    total_action.append(actions)
    total_int_reward.append(agent.compute_intrinsic_reward(states))
    total_policy.append(policy)

total_int_reward = np.stack(total_int_reward)
total_logging_policy = np.vstack(total_policy)
print(total_logging_policy.shape, round(float(total_logging_policy.mean()), 4), round(float(total_int_reward.mean()), 4))

# === shuffle_default_device
# thread: https://github.com/pyro-ppl/pyro/pull/3264
# about: the generator is made in torch's sampler, the device is the default one
# operation: randperm|random on cuda:0, cpu
# operands: generator
# category: generator|default-or-current-device
# error: Expected a 'cuda' device type for generator but found 'cpu'
# line: dataloader = DataLoader(
# repair: dataloader = DataLoader(TensorDataset(x, t, y), batch_size=batch_size, shuffle=True) -> dataloader = DataLoader(TensorDataset(x, t, y), batch_size=batch_size, shuffle=True, generator=torch.Generator("cuda").manual_seed(0))
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_device("cuda")


class EffectNet(nn.Module):
    """What comes of a treatment, or of none."""

    def __init__(self, width):
        super().__init__()
        self.heads = nn.ModuleList(nn.Sequential(nn.Linear(width, 6), nn.ELU(), nn.Linear(6, 1)) for _ in range(2))

    def forward(self, x, t):
        outcomes = torch.stack([head(x).squeeze(-1) for head in self.heads], -1)
        return outcomes.gather(-1, t[:, None]).squeeze(-1)


def fit(model, x, t, y, epochs, batch_size):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    dataloader = DataLoader(TensorDataset(x, t, y), batch_size=batch_size, shuffle=True)
    seen = 0
    for _ in range(epochs):
        for each_x, each_t, each_y in dataloader:
            loss = (model(each_x, each_t) - each_y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += len(each_x)
    return seen


x, t = torch.rand(10, 3), torch.arange(10) % 2
print("seen", fit(EffectNet(3), x, t, x.sum(-1) + t, epochs=2, batch_size=4))

# === top_q_gradient
# thread: https://github.com/mit-ll-responsible-ai/responsible-ai-toolbox/pull/64
# about: inside the step of an optimizer: nothing of its state is at fault
# operation: rand|uniform on cpu, cuda:0
# operands: generator|self.generator
# category: generator
# error: Expected a 'cpu' device type for generator but found 'cuda'
# line: change = torch.rand(
# line: optimizer = TopQGradient(
# repair: change = torch.rand(1, generator=self.generator) * 2 - 1 -> change = torch.rand(1, generator=self.generator, device=self.generator.device) * 2 - 1
import torch


class TopQGradient(torch.optim.Optimizer):
    """A step along the largest part of the gradient; how large a part is drawn anew each time."""

    def __init__(self, params, lr, q, dq, generator=None):
        super().__init__(params, dict(lr=lr, q=q, dq=dq))
        self.generator = generator if generator is not None else torch.default_generator

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                change = torch.rand(1, generator=self.generator) * 2 - 1
                q = min(1.0, max(0.0, group["q"] + group["dq"] * change.item()))
                size = p.grad.abs().flatten()
                keep = max(1, int(round(q * size.numel())))
                threshold = size.topk(keep).values[-1]
                p.sub_(group["lr"] * p.grad.sign() * (p.grad.abs() >= threshold))


torch.manual_seed(0)
generator = torch.Generator(device="cuda:0").manual_seed(3)
image = torch.rand(12, device="cuda:0", requires_grad=True)
optimizer = TopQGradient([image], lr=0.1, q=0.5, dq=0.2, generator=generator)
losses = []
for _ in range(3):
    loss = (image - 0.5).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print("smaller", losses[-1] < losses[0], "within", bool(image.isfinite().all()))
