# === rotated_system_ids
# thread: https://github.com/metatensor/metatrain/pull/1234
# about: an augmentation that workers call while they collate is called by a loss as well, where all that it is given is on the GPU
# operation: isin on cuda:0, cpu
# operands: .*samples.*|elements|.*, .*ids.*|test_elements|.*
# category: created-without-device
# line: augmentation.py: return torch.tensor(ids)
# line: augmentation.py: system_ids = _tensor_system_ids(
# line: augmentation.py: keep = torch.isin(
# repair: augmentation.py: return torch.tensor(ids) -> return torch.tensor(ids, device=block.values.device)
import torch

from blocks import collate
from losses import EquivarianceLoss
from model import DipoleModel

torch.manual_seed(0)
device = "cuda"
samples = [(torch.randn(size, 3), torch.randn(3)) for size in (4, 2, 3)]
batch = collate(samples, seed=3).to(device)
model = DipoleModel(width=8).to(device)
criterion = EquivarianceLoss(model, copies=2, seed=5)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    loss = criterion(batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 5))
# --- blocks.py
from dataclasses import dataclass, replace

import torch

from augmentation import rotate, rotations

@dataclass
class Block:
    """Vectors of atoms: for each row the number of its system, and the system's target."""

    values: torch.Tensor
    samples: torch.Tensor
    targets: torch.Tensor

    def to(self, device):
        return replace(self, **{key: value.to(device) for key, value in self.__dict__.items()})

def collate(samples, seed):
    values = torch.cat([positions for positions, _ in samples])
    numbers = torch.cat([torch.full((len(positions),), i) for i, (positions, _) in enumerate(samples)])
    block = Block(values, numbers, torch.stack([target for _, target in samples]))
    return rotate(block, rotations(len(samples), seed), range(len(samples)))
# --- augmentation.py
from dataclasses import replace

import torch

def rotations(count, seed):
    q, r = torch.linalg.qr(torch.randn(count, 3, 3, generator=torch.Generator().manual_seed(seed)))
    return q * torch.sign(torch.diagonal(r, dim1=-2, dim2=-1))[:, None]

def _tensor_system_ids(block, systems):
    """Numbers of those of the systems that have rows in the block."""
    present = set(block.samples.tolist())
    ids = [number for number in systems if number in present]
    return torch.tensor(ids)

def rotate(block, matrices, systems):
    system_ids = _tensor_system_ids(block, systems)
    keep = torch.isin(block.samples, system_ids)
    turned = torch.einsum("ni,nij->nj", block.values, matrices[block.samples])
    targets = torch.einsum("ni,nij->nj", block.targets, matrices)
    return replace(block, values=torch.where(keep[:, None], turned, block.values), targets=targets)
# --- losses.py
import torch

from augmentation import rotate, rotations

class EquivarianceLoss:
    """The error of predictions for turned systems, each time turned anew."""

    def __init__(self, model, copies, seed):
        self.model, self.copies, self.seed = model, copies, seed

    def __call__(self, block):
        losses = []
        for turn in range(self.copies):
            matrices = rotations(len(block.targets), self.seed + turn).to(block.values.device)
            turned = rotate(block, matrices, range(len(block.targets)))
            losses.append((self.model(turned) - turned.targets).square().mean())
        return torch.stack(losses).mean()
# --- model.py
import torch
from torch import nn

class DipoleModel(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.SiLU(), nn.Linear(width, 3))

    def forward(self, block):
        return torch.zeros_like(block.targets).index_add(0, block.samples, self.net(block.values))

# === exploration_noise
# thread: https://github.com/Toni-SM/skrl/issues/304
# about: a runner makes parts of an agent by their names in a file; to all but one of them it says where the environment is
# operation: add_?|iadd on cuda:1, cuda:0
# operands: actions|self|.*, noises|noise|other|.*
# category: default-or-current-device
# line: runner.py: noise = NOISES[options.pop("class")](**options)
# line: noises.py: self.device = torch.device(device or
# line: td3.py: noises = self.exploration_noise.sample(
# line: td3.py: actions.add_(noises)
# line: main.py: runner = Runner(
# repair: runner.py: noise = NOISES[options.pop("class")](**options) -> noise = NOISES[options.pop("class")](**options, device=self.env.device)
import torch

from environment import Reach
from runner import Runner

torch.manual_seed(0)
config = {
    "policy": {"hidden": 8},
    "agent": {"class": "TD3", "random_steps": 1, "exploration": {"noise": {"class": "GaussianNoise", "mean": 0.0, "std": 0.2, "seed": 4}, "scale": 0.5}},
}
runner = Runner(Reach(num_envs=3, device="cuda:1"), config)
print("rewards", [round(reward, 4) for reward in runner.run(steps=4)])
# --- noises.py
import torch

class Noise:
    def __init__(self, device=None):
        self.device = torch.device(device or ("cuda:0" if torch.cuda.is_available() else "cpu"))

    def sample(self, size):
        raise NotImplementedError

class GaussianNoise(Noise):
    def __init__(self, mean, std, seed, device=None):
        super().__init__(device)
        self.mean, self.std = mean, std
        self.generator = torch.Generator().manual_seed(seed)

    def sample(self, size):
        return (torch.randn(size, generator=self.generator) * self.std + self.mean).to(self.device)
# --- environment.py
import torch

class Reach:
    def __init__(self, num_envs, device):
        self.num_envs, self.device = num_envs, torch.device(device)

    def reset(self):
        self.position = torch.linspace(-1, 1, self.num_envs * 2, device=self.device).view(self.num_envs, 2)
        return self.position

    def step(self, actions):
        self.position = self.position + 0.1 * actions
        return self.position, -self.position.norm(dim=-1)
# --- td3.py
import torch

class TD3:
    def __init__(self, policy, random_steps, noise, scale, device):
        self.policy, self.random_steps, self.device = policy, random_steps, device
        self.exploration_noise, self.exploration_scale = noise, scale

    def random_act(self, states):
        return torch.zeros(len(states), 2, device=self.device) + 0.5

    @torch.no_grad()
    def act(self, states, step):
        if step < self.random_steps:
            return self.random_act(states)
        actions = self.policy(states)
        if self.exploration_noise is not None:
            noises = self.exploration_noise.sample(actions.shape)
            noises.mul_(self.exploration_scale)
            actions.add_(noises)
            actions.clamp_(-1, 1)
        return actions
# --- runner.py
import copy

from torch import nn

from noises import GaussianNoise
from td3 import TD3

NOISES, AGENTS = {"GaussianNoise": GaussianNoise}, {"TD3": TD3}

class Runner:
    def __init__(self, env, config):
        self.env, config = env, copy.deepcopy(config)
        self.agent = self.make_agent(self.make_policy(**config["policy"]), config["agent"])

    def make_policy(self, hidden):
        return nn.Sequential(nn.Linear(2, hidden), nn.ELU(), nn.Linear(hidden, 2), nn.Tanh()).to(self.env.device)

    def make_agent(self, policy, config):
        options, scale = config["exploration"]["noise"], config["exploration"]["scale"]
        noise = NOISES[options.pop("class")](**options)
        return AGENTS[config["class"]](policy, config["random_steps"], noise, scale, device=self.env.device)

    def run(self, steps):
        states, rewards = self.env.reset(), []
        for step in range(steps):
            states, reward = self.env.step(self.agent.act(states, step))
            rewards.append(reward.mean().item())
        return rewards

# === context_on_the_gpu
# thread: https://github.com/amazon-science/chronos-forecasting/issues/208
# about: a pipeline turns a series into tokens where the series is and moves the tokens itself; who calls it has moved the series before
# operation: bucketize|searchsorted on cuda:0, cpu
# operands: .*scaled.*|self|input|.*, .*boundaries.*|.*
# category: input-not-moved|created-without-device
# line: tokenizer.py: token_ids = torch.bucketize(
# line: main.py: context = torch.tensor(series, device=device)
# line: tokenizer.py: self.boundaries = torch.cat(
# line: pipeline.py: token_ids, scale = self.tokenizer.context_input_transform(
# line: main.py: forecast = pipeline.predict(
# repair: tokenizer.py: token_ids = torch.bucketize(scaled, self.boundaries, right=True) + self.specials -> token_ids = torch.bucketize(scaled, self.boundaries.to(scaled.device), right=True) + self.specials
import torch
from transformers import T5Config, T5ForConditionalGeneration

from pipeline import ForecastPipeline
from tokenizer import MeanScaleUniformBins

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
config = T5Config(
    vocab_size=24, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2, dropout_rate=0.0, initializer_factor=4.0, pad_token_id=0,
    eos_token_id=1, decoder_start_token_id=0,
)
pipeline = ForecastPipeline(T5ForConditionalGeneration(config), MeanScaleUniformBins(-4.0, 4.0, bins=20, specials=2)).to(device)
series = [[1.0, 2.0, 3.5, 2.5, 1.5], [-2.0, -1.0, 0.5, 1.0, 2.0]]
context = torch.tensor(series, device=device)
forecast = pipeline.predict(context, prediction_length=3)
print("forecast", [[round(value, 3) for value in row] for row in forecast.tolist()])
# --- tokenizer.py
import torch

class MeanScaleUniformBins:
    """A number divided by the mean of its series is the token of the bin that it falls into."""

    def __init__(self, low, high, bins, specials):
        self.specials = specials
        self.centers = torch.linspace(low, high, bins)
        middles = (self.centers[1:] + self.centers[:-1]) / 2
        self.boundaries = torch.cat([torch.tensor([-1e20]), middles, torch.tensor([1e20])])

    def context_input_transform(self, context):
        scale = context.abs().mean(-1)
        scale = torch.where(scale > 0, scale, 1.0)
        scaled = context / scale[:, None]
        token_ids = torch.bucketize(scaled, self.boundaries, right=True) + self.specials
        return token_ids - 1, scale

    def output_transform(self, tokens, scale):
        indices = (tokens - self.specials).clamp(0, len(self.centers) - 1)
        return self.centers[indices] * scale[:, None]
# --- pipeline.py
import torch

class ForecastPipeline:
    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model.eval(), tokenizer

    def to(self, device):
        self.model.to(device)
        return self

    @torch.no_grad()
    def predict(self, context, prediction_length):
        token_ids, scale = self.tokenizer.context_input_transform(context)
        tokens = self.model.generate(
            input_ids=token_ids.to(self.model.device), max_new_tokens=prediction_length, min_new_tokens=prediction_length, do_sample=False, num_beams=1,
        )
        return self.tokenizer.output_transform(tokens[:, 1:].cpu(), scale.cpu())

# === spaced_kernel
# thread: https://github.com/K-H-Ismail/Dilated-Convolution-with-Learnable-Spacings-PyTorch/pull/8
# about: a layer tries its kernel out while it is made; what the kernel counts out at its first use is kept, and no buffer
# operation: add on cuda:0, cpu
# operands: P|self|.*, .*lim.*|other|.*
# category: cached-state|state-not-registered
# line: construct.py: if self.lim is None:
# line: construct.py: self.lim = torch.tensor(
# line: construct.py: P = P + self.lim // 2
# line: construct.py: self.init_tmp_variables(W.device)
# line: layer.py: self.check()
# line: layer.py: self.construct(self.weight, self.P, self.SIG)
# repair: construct.py: if self.lim is None: -> if self.lim is None or self.lim.device != W.device:
import torch
from torch import nn

from layer import SpacedConv2d

torch.manual_seed(0)
device = torch.device("cuda:0")
net = nn.Sequential(SpacedConv2d(2, 4, kernel_count=3, dilated_size=5), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 64, 2)).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
x, y = torch.randn(3, 2, 8, 8, device=device), torch.tensor([0, 1, 1], device=device)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 5))
# --- construct.py
import torch
from torch import nn

class ConstructKernel2d(nn.Module):
    """Spreads weights over a large kernel, each as a bell around a place of its own."""

    def __init__(self, dilated_size):
        super().__init__()
        self.size = (dilated_size, dilated_size)
        self.lim = None

    def init_tmp_variables(self, device):
        axes = [torch.arange(size, device=device) for size in self.size]
        self.idx = torch.stack(torch.meshgrid(*axes, indexing="ij"))[:, :, :, None, None, None].float()
        self.lim = torch.tensor(self.size, device=device).view(2, 1, 1, 1)

    def forward(self, W, P, SIG):
        if self.lim is None:
            self.init_tmp_variables(W.device)
        P = P + self.lim // 2
        SIG = SIG.abs() + 0.27
        distance = (self.idx - P[:, None, None]) / SIG[:, None, None]
        bell = torch.exp(-0.5 * distance.square().sum(0))
        bell = bell / (bell.sum((0, 1), keepdim=True) + 1e-7)
        return (bell * W).sum(-1).permute(2, 3, 0, 1)
# --- layer.py
import torch
from torch import nn

from construct import ConstructKernel2d

class SpacedConv2d(nn.Module):
    def __init__(self, inputs, outputs, kernel_count, dilated_size):
        super().__init__()
        self.dilated_size = dilated_size
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel_count) * 0.2)
        self.P = nn.Parameter(torch.randn(2, outputs, inputs, kernel_count) * 0.5)
        self.SIG = nn.Parameter(torch.full((2, outputs, inputs, kernel_count), 0.23))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.construct = ConstructKernel2d(dilated_size)
        self.check()

    @torch.no_grad()
    def check(self):
        kernel = self.construct(self.weight, self.P, self.SIG)
        if kernel.shape != (*self.weight.shape[:2], self.dilated_size, self.dilated_size) or not kernel.isfinite().all():
            raise ValueError(f"no kernel can be made of {tuple(self.weight.shape)}")

    def forward(self, x):
        kernel = self.construct(self.weight, self.P, self.SIG)
        return nn.functional.conv2d(x, kernel, self.bias, padding=self.dilated_size // 2)

# === wrapped_when_asked
# thread: https://github.com/modelscope/ms-swift/pull/9446
# about: a model was made on the CPU on purpose, only what is trained is on the GPU; for the same reason its move is left out
# operation: embedding|index_select on cpu, cuda:1
# operands: .*weight.*|.*embed.*|.*, .*tokens.*|input|indices|.*
# category: module-split|input-not-moved
# line: wrapping.py: if not args.use_cpu_initialization:
# line: wrapping.py: model.to(args.device)
# line: main.py: models = wrap_model(
# line: main.py: use_cpu_initialization=True
# line: model.py: device = torch.device("cpu") if args.use_cpu_initialization
# repair: wrapping.py: if not args.use_cpu_initialization: -> if next(model.parameters()).device != args.device:
from types import SimpleNamespace

import torch

from model import get_model
from training import train_step
from tuner import prepare_adapter, trained
from wrapping import wrap_model

args = SimpleNamespace(vocabulary=19, width=12, layers=2, rank=2, use_cpu_initialization=True, device=torch.device("cuda", 1), dtype=torch.float32)
torch.manual_seed(0)
model = prepare_adapter(get_model(args), args)
models = wrap_model(args, [model])
optimizer = torch.optim.AdamW([parameter for each in models for parameter in trained(each)], lr=0.05)
batches = [torch.tensor([[1, 5, 3, 9], [2, 2, 7, 4]]), torch.tensor([[6, 0, 3, 1], [8, 5, 5, 2]])]
print("losses", [round(train_step(args, models[0], optimizer, batch), 4) for batch in batches])
# --- model.py
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.proj = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + torch.tanh(self.proj(self.norm(x)))

class GPT(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embedding = nn.Embedding(args.vocabulary, args.width)
        self.blocks = nn.ModuleList(Block(args.width) for _ in range(args.layers))
        self.output = nn.Linear(args.width, args.vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.output(x)

def get_model(args):
    """On the CPU, its weights are the same whatever the number of ranks."""
    device = torch.device("cpu") if args.use_cpu_initialization else args.device
    with device:
        return GPT(args).requires_grad_(False)
# --- tuner.py
import torch
from torch import nn

class LoraLinear(nn.Module):
    def __init__(self, base, rank, device):
        super().__init__()
        self.base = base
        self.lora_A = nn.Linear(base.in_features, rank, bias=False).to(device)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False).to(device)
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x):
        return self.base(x) + self.lora_B(self.lora_A(x))

def prepare_adapter(model, args):
    for block in model.blocks:
        block.proj = LoraLinear(block.proj, args.rank, args.device)
    return model

def trained(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]
# --- wrapping.py
from torch import nn

class Float16Module(nn.Module):
    def __init__(self, module, dtype):
        super().__init__()
        self.module = module.to(dtype)

    def forward(self, tokens):
        return self.module(tokens).float()

def wrap_model(args, models):
    for model in models:
        if not args.use_cpu_initialization:
            model.to(args.device)
    return [Float16Module(model, args.dtype) for model in models]
# --- training.py
from torch import nn

def train_step(args, model, optimizer, batch):
    tokens = batch.to(args.device)
    loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()

# === conditions_of_the_encoder
# thread: https://github.com/huggingface/diffusers/pull/14795
# about: the encoder of the text has a GPU of its own; what it gives is counted where it lies, and both reach the transformer as they are
# operation: mul on cuda:1, cuda:0
# operands: .*position.*|self|.*, .*inv_freq.*|.*
# category: input-not-moved|module-split
# line: pipeline.py: prompt_embeds = self.encode_prompt(
# line: transformer.py: angles = position_ids[:, None] * self.inv_freq
# line: transformer.py: cos, sin = self.rope(
# line: pipeline.py: position_ids = torch.arange(
# line: pipeline.py: return self.text_encoder(
# line: pipeline.py: noise_pred = self.transformer(
# repair: pipeline.py: prompt_embeds = self.encode_prompt(prompt) -> prompt_embeds = self.encode_prompt(prompt).to(self.transformer.device)
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from transformers import CLIPTextConfig, CLIPTextModel

from pipeline import Pipeline
from transformer import Transformer

torch.manual_seed(0)
encoder = CLIPTextModel(
    CLIPTextConfig(vocab_size=30, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=12,
                   bos_token_id=0, eos_token_id=1, pad_token_id=1)
)
transformer = Transformer(channels=4, width=16, text_width=16, heads=2)
pipe = Pipeline(encoder.to("cuda:1").eval(), transformer.to("cuda:0").eval(), FlowMatchEulerDiscreteScheduler(shift=2.0))
latents = pipe([[0, 7, 19, 4, 1]], steps=3, size=6, generator=torch.Generator().manual_seed(2))
print("latents", [round(value, 4) for value in latents.mean(-1).flatten().tolist()])
# --- transformer.py
import torch
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from torch import nn

class RotaryPosEmbed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("inv_freq", 100.0 ** (-torch.arange(0, width, 2).float() / width), persistent=False)

    def forward(self, position_ids):
        angles = position_ids[:, None] * self.inv_freq
        return angles.cos(), angles.sin()

class Transformer(ModelMixin, ConfigMixin):
    @register_to_config
    def __init__(self, channels, width, text_width, heads):
        super().__init__()
        self.heads = heads
        self.x_in, self.context_in = nn.Linear(channels, width), nn.Linear(text_width, width)
        self.time_in, self.rope = nn.Linear(1, width), RotaryPosEmbed(width // heads)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, channels)

    def turn(self, x, cos, sin):
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    def forward(self, hidden_states, encoder_hidden_states, timestep, position_ids):
        cos, sin = self.rope(position_ids)
        context = self.context_in(encoder_hidden_states)
        x = torch.cat([context, self.x_in(hidden_states) + self.time_in(timestep.view(-1, 1, 1) / 1000)], dim=1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = nn.functional.scaled_dot_product_attention(self.turn(q, cos, sin), self.turn(k, cos, sin), v)
        return self.out((x + mixed.transpose(1, 2).flatten(2))[:, context.shape[1] :])
# --- pipeline.py
import torch

class Pipeline:
    def __init__(self, text_encoder, transformer, scheduler):
        self.text_encoder, self.transformer, self.scheduler = text_encoder, transformer, scheduler

    def encode_prompt(self, prompt):
        tokens = torch.tensor(prompt, device=self.text_encoder.device)
        return self.text_encoder(input_ids=tokens).last_hidden_state

    @torch.no_grad()
    def __call__(self, prompt, steps, size, generator):
        device = self.transformer.device
        prompt_embeds = self.encode_prompt(prompt)
        position_ids = torch.arange(prompt_embeds.shape[1] + size, device=prompt_embeds.device)
        latents = torch.randn(len(prompt), size, self.transformer.config.channels, generator=generator).to(device)
        self.scheduler.set_timesteps(steps, device=device)
        for t in self.scheduler.timesteps:
            noise_pred = self.transformer(latents, prompt_embeds, t.expand(len(latents)), position_ids)
            latents = self.scheduler.step(noise_pred, t, latents, return_dict=False)[0]
        return latents

# === objective_weights
# thread: https://github.com/xopt-org/Xopt/issues/311
# about: a function is given the device for its weights and does not pass it on; the function that it returns meets samples of the GPU
# operation: mm|matmul|mv|bmm on cuda:0, cpu
# operands: .*samples.*|Z|self|.*, .*weights.*|.*
# category: created-without-device
# line: objectives.py: weights = set_botorch_weights(
# line: objectives.py: weights = torch.zeros(
# line: objectives.py: return torch.matmul(samples
# repair: objectives.py: weights = set_botorch_weights(vocs) -> weights = set_botorch_weights(vocs).to(**tkwargs)
import torch

from generator import BayesianGenerator
from vocs import Vocs

torch.manual_seed(0)
vocs = Vocs(variables={"x": (0.0, 1.0), "y": (-1.0, 1.0)}, objectives={"f": "MINIMIZE", "g": "MAXIMIZE"})
generator = BayesianGenerator(vocs, use_cuda=True, samples=16, seed=3)
points = torch.rand(6, 2) * 2 - 0.5
generator.add_data(points, torch.stack([(points**2).sum(-1), points.sin().sum(-1)], dim=-1))
best = generator.generate(candidates=5)
print("best", [round(value, 4) for value in best])
# --- vocs.py
from dataclasses import dataclass

@dataclass
class Vocs:
    variables: dict
    objectives: dict

    @property
    def bounds(self):
        return list(zip(*self.variables.values()))
# --- objectives.py
import torch

def set_botorch_weights(vocs):
    """What to multiply outputs with so that more is better."""
    weights = torch.zeros(len(vocs.objectives), dtype=torch.double)
    for i, kind in enumerate(vocs.objectives.values()):
        weights[i] = -1.0 if kind == "MINIMIZE" else 1.0
    return weights

def create_mc_objective(vocs, tkwargs):
    weights = set_botorch_weights(vocs)

    def objective(samples, X=None):
        return torch.matmul(samples, weights.reshape(-1, 1)).squeeze(-1)

    return objective
# --- generator.py
import torch

from objectives import create_mc_objective
from process import Process

class BayesianGenerator:
    def __init__(self, vocs, use_cuda, samples, seed):
        self.vocs, self.use_cuda, self.samples, self.seed = vocs, use_cuda, samples, seed

    @property
    def tkwargs(self):
        return {"dtype": torch.double, "device": torch.device("cuda" if self.use_cuda else "cpu")}

    def add_data(self, points, outputs):
        self.points, self.outputs = points.to(**self.tkwargs), outputs.to(**self.tkwargs)

    def generate(self, candidates):
        process = Process(self.points, self.outputs)
        objective = create_mc_objective(self.vocs, self.tkwargs)
        low, high = (torch.tensor(bound, **self.tkwargs) for bound in self.vocs.bounds)
        steps = torch.linspace(0, 1, candidates, **self.tkwargs)
        grid = torch.cartesian_prod(steps, steps) * (high - low) + low
        noise = torch.randn(self.samples, len(grid), self.outputs.shape[1], generator=torch.Generator().manual_seed(self.seed))
        improvement = objective(process.samples(grid, noise.to(**self.tkwargs))) - objective(self.outputs).max()
        return grid[improvement.clamp_min(0).mean(0).argmax()].tolist()
# --- process.py
import torch

class Process:
    """A Gaussian process, with samples that do not depend on one another."""

    def __init__(self, points, outputs, scale=0.5, noise=1e-3):
        self.points, self.scale = points, scale
        self.mean, self.spread = outputs.mean(0), outputs.std(0)
        covariance = self.kernel(points, points) + noise * torch.eye(len(points), dtype=points.dtype, device=points.device)
        self.factor = torch.linalg.cholesky(covariance)
        self.weights = torch.cholesky_solve((outputs - self.mean) / self.spread, self.factor)

    def kernel(self, a, b):
        return torch.exp(-0.5 * (a[:, None] - b[None]).square().sum(-1) / self.scale**2)

    def samples(self, X, noise):
        cross = self.kernel(X, self.points)
        reduced = torch.linalg.solve_triangular(self.factor, cross.mT, upper=False)
        variance = (1 - reduced.square().sum(0)).clamp_min(1e-6)
        return (cross @ self.weights + variance.sqrt()[:, None] * noise) * self.spread + self.mean

# === inverse_window_sum
# thread: https://github.com/NVIDIA/DeepLearningExamples/pull/1432
# about: a sum of windows comes from NumPy; it is put on the GPU where the signal is, if the signal is on one, whichever that is
# operation: div_?|true_divide.*|itruediv on cuda:1, cuda:0
# operands: .*inverse_transform.*|self|.*, .*window_sum.*|.*
# category: default-or-current-device
# line: stft.py: window_sum = window_sum.cuda() if
# line: stft.py: inverse_transform[:, :, places] /= window_sum[places]
# line: stft.py: window_sum = torch.from_numpy(
# repair: stft.py: window_sum = window_sum.cuda() if magnitude.is_cuda else window_sum -> window_sum = window_sum.to(inverse_transform.device)
import torch

from denoiser import Denoiser
from vocoder import Vocoder

torch.manual_seed(0)
device = torch.device("cuda", 1)
vocoder = Vocoder(channels=4, hop=4).to(device).eval()
denoiser = Denoiser(vocoder, filter_length=16, hop_length=4).to(device)
with torch.no_grad():
    audio = denoiser(vocoder(torch.randn(1, 4, 12, device=device)), strength=0.1)
print("audio", round(audio.abs().mean().item(), 5), [round(value, 4) for value in audio.flatten()[8:12].tolist()])
# --- windows.py
import numpy as np

def hann(size):
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)

def window_sumsquare(frames, hop_length, filter_length):
    """What squares of windows add up to at each sample."""
    total = np.zeros(filter_length + hop_length * (frames - 1), dtype=np.float32)
    for i in range(frames):
        total[i * hop_length : i * hop_length + filter_length] += hann(filter_length) ** 2
    return total
# --- stft.py
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from windows import hann, window_sumsquare

class STFT(nn.Module):
    def __init__(self, filter_length, hop_length):
        super().__init__()
        self.filter_length, self.hop_length, self.cutoff = filter_length, hop_length, filter_length // 2 + 1
        basis = np.fft.fft(np.eye(filter_length))
        basis = np.vstack([basis.real[: self.cutoff], basis.imag[: self.cutoff]])
        inverse = np.linalg.pinv(filter_length / hop_length * basis).T
        self.register_buffer("forward_basis", torch.from_numpy(basis * hann(filter_length)).float()[:, None])
        self.register_buffer("inverse_basis", torch.from_numpy(inverse * hann(filter_length)).float()[:, None])

    def transform(self, audio):
        transformed = F.conv1d(audio[:, None], self.forward_basis, stride=self.hop_length)
        real, imaginary = transformed.chunk(2, dim=1)
        return (real**2 + imaginary**2).sqrt(), torch.atan2(imaginary, real)

    def inverse(self, magnitude, phase):
        recombined = torch.cat([magnitude * phase.cos(), magnitude * phase.sin()], dim=1)
        inverse_transform = F.conv_transpose1d(recombined, self.inverse_basis, stride=self.hop_length)
        window_sum = window_sumsquare(magnitude.size(-1), self.hop_length, self.filter_length)
        places = torch.from_numpy(np.where(window_sum > np.finfo(np.float32).tiny)[0])
        window_sum = torch.from_numpy(window_sum)
        window_sum = window_sum.cuda() if magnitude.is_cuda else window_sum
        inverse_transform[:, :, places] /= window_sum[places]
        return inverse_transform * self.filter_length / self.hop_length
# --- denoiser.py
import torch
from torch import nn

from stft import STFT

class Denoiser(nn.Module):
    """Takes away the spectrum that the vocoder has when it is given nothing."""

    def __init__(self, vocoder, filter_length, hop_length):
        super().__init__()
        self.stft = STFT(filter_length, hop_length).to(vocoder.device)
        with torch.no_grad():
            silence = vocoder(torch.zeros(1, vocoder.channels, 12, device=vocoder.device))
            self.register_buffer("bias_spec", self.stft.transform(silence)[0][:, :, :1])

    def forward(self, audio, strength):
        magnitude, phase = self.stft.transform(audio)
        return self.stft.inverse((magnitude - self.bias_spec * strength).clamp_min(0), phase)
# --- vocoder.py
import torch
from torch import nn

class Vocoder(nn.Module):
    def __init__(self, channels, hop):
        super().__init__()
        self.channels = channels
        self.up = nn.ConvTranspose1d(channels, 1, 2 * hop, stride=hop)

    @property
    def device(self):
        return self.up.weight.device

    def forward(self, mel):
        return torch.tanh(self.up(mel)).squeeze(1)

# === network_multiplier
# thread: https://github.com/ostris/ai-toolkit/issues/1048
# about: blocks and what is trained beside them are spread over two GPUs; how strong it is for each sample of a batch is one tensor for all of it
# operation: mul on cuda:1, cuda:0
# operands: lx|lora.*|self|.*, .*multiplier.*|.*
# category: module-split|input-not-moved
# line: lora.py: return self.org_forward(x) + lx * multiplier
# line: lora.py: multiplier = self.network().torch_multiplier
# line: network.py: self.torch_multiplier = torch.tensor(
# line: splitting.py: lora.to(device)
# line: main.py: network.set_multiplier(
# repair: lora.py: multiplier = self.network().torch_multiplier -> multiplier = self.network().torch_multiplier.to(lx.device)
import torch

from model import Flux
from network import LoRANetwork
from splitting import split_over_gpus

torch.manual_seed(0)
model = Flux(channels=6, width=8, blocks=4).requires_grad_(False)
network = LoRANetwork(model, rank=2)
split_over_gpus(model, network, ["cuda:0", "cuda:1"])
optimizer = torch.optim.AdamW(network.parameters(), lr=0.05)
x, target = torch.randn(2, 5, 6, device="cuda:0"), torch.randn(2, 5, 6, device="cuda:0")
for _ in range(3):
    network.set_multiplier([1.0, 0.5])
    with network:
        loss = torch.nn.functional.mse_loss(model(x).to(target.device), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 5))
# --- model.py
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.proj = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + torch.nn.functional.gelu(self.proj(self.norm(x)))

class Flux(nn.Module):
    def __init__(self, channels, width, blocks):
        super().__init__()
        self.x_in, self.out = nn.Linear(channels, width), nn.Linear(width, channels)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))

    def forward(self, x):
        x = self.x_in(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x.to(self.out.weight.device))
# --- lora.py
import weakref

import torch
from torch import nn

class LoRAModule(nn.Module):
    """Stands in for a layer's forward; the layer itself stays where it was."""

    def __init__(self, network, org_module, rank):
        super().__init__()
        self.network = weakref.ref(network)
        self.lora_down, self.lora_up = nn.Linear(org_module.in_features, rank, bias=False), nn.Linear(rank, org_module.out_features, bias=False)
        nn.init.constant_(self.lora_up.weight, 0.05)
        self.org_module = [org_module]

    def apply_to(self):
        self.org_forward = self.org_module[0].forward
        self.org_module[0].forward = self.forward

    def forward(self, x):
        if not self.network().is_active:
            return self.org_forward(x)
        lx = self.lora_up(self.lora_down(x))
        multiplier = self.network().torch_multiplier
        multiplier = multiplier.view(-1, *[1] * (lx.dim() - 1))
        return self.org_forward(x) + lx * multiplier
# --- network.py
import torch
from torch import nn

from lora import LoRAModule

class LoRANetwork(nn.Module):
    def __init__(self, model, rank):
        super().__init__()
        self.is_active = False
        self.loras = nn.ModuleDict()
        for name, module in model.blocks.named_modules():
            if isinstance(module, nn.Linear):
                self.loras[name.replace(".", "$$")] = LoRAModule(self, module, rank)
        for lora in self.loras.values():
            lora.apply_to()

    def set_multiplier(self, values):
        device = next(self.parameters()).device
        self.torch_multiplier = torch.tensor(values, device=device)

    def __enter__(self):
        self.is_active = True

    def __exit__(self, *error):
        self.is_active = False
# --- splitting.py
def split_over_gpus(model, network, devices):
    """Blocks in equal parts; what else there is goes to the first of the devices, inputs follow."""
    model.to(devices[0])
    share = -(-len(model.blocks) // len(devices))
    for i, block in enumerate(model.blocks):
        device = devices[i // share]
        block.to(device)
        block.register_forward_pre_hook(lambda module, args, device=device: tuple(each.to(device) for each in args))
        for lora in network.loras.values():
            if any(lora.org_module[0] is module for module in block.modules()):
                lora.to(device)
