# === weights_that_are_only_plus_or_minus_one
# thread: https://github.com/htqin/IR-Net/issues/19
# about: a network of one-bit weights is trained on two GPUs. How steep the gradient of a sign is taken to be changes from epoch to epoch
# operation: (mul|multiply) on cuda:1, cuda:0
# operands: other|t|.*\bt
# category: data-parallel|state-not-registered|default-or-current-device|cached-state
# line: modules/ir_1w1a.py: ba = binaryfunction.BinaryQuantize.apply(
# line: modules/ir_1w1a.py: bw = binaryfunction.BinaryQuantize.apply(
# line: modules/ir_1w1a.py: self.t = torch.tensor(
# line: modules/ir_1w1a.py: self.k = torch.tensor(
# line: modules/binaryfunction.py: ctx.save_for_backward(input, k, t)
# line: modules/binaryfunction.py: slope = 1 - torch.tanh(input * t)
# line: modules/binaryfunction.py: input, k, t = ctx.saved_tensors
# repair: modules/ir_1w1a.py: ba = binaryfunction.BinaryQuantize.apply(a, self.k, self.t) -> ba = binaryfunction.BinaryQuantize.apply(a, self.k.to(a.device), self.t.to(a.device))
# repair: modules/ir_1w1a.py: bw = binaryfunction.BinaryQuantize.apply(bw, self.k, self.t) -> bw = binaryfunction.BinaryQuantize.apply(bw, self.k.to(bw.device), self.t.to(bw.device))
import argparse
import math

import torch
from torch import nn

import resnet

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--lr", type=float, default=0.05)


def log_up(t_min, t_max, epoch, epochs):
    low, high = math.log10(t_min), math.log10(t_max)
    return torch.tensor([10 ** (low + (high - low) / epochs * epoch)]).float().cuda()


def images(count):
    generator = torch.Generator().manual_seed(19)
    target = torch.arange(count) % 4
    pictures = torch.randn(count, 3, 8, 8, generator=generator)
    pictures[range(count), :, target, target] += 3.0
    return pictures, target


def train(model, criterion, optimizer, batches):
    model.train()
    total = 0.0
    for input, target in batches:
        output = model(input.cuda())
        loss = criterion(output, target.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(batches)


def main():
    args = parser.parse_args([])
    torch.manual_seed(0)
    model = nn.DataParallel(resnet.resnet_1w1a(), device_ids=[0, 1])
    model.cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)
    pictures, target = images(32)
    batches = list(zip(pictures.split(args.batch_size), target.split(args.batch_size)))

    for epoch in range(args.epochs):
        t = log_up(1e-1, 1e1, epoch, args.epochs)
        k = 1 / t if t < 1 else torch.tensor([1.0]).cuda()
        for block in model.module.layers:
            for conv in (block.conv1, block.conv2):
                conv.k, conv.t = k, t
        loss = train(model, criterion, optimizer, batches)
    print(f"loss of epoch {args.epochs}: {loss:.3f}")


if __name__ == "__main__":
    main()
# --- resnet.py
import torch
import torch.nn.functional as F
from torch import nn

from modules import ir_1w1a


class BasicBlock(nn.Module):
    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = ir_1w1a.IRConv2d(in_planes, planes, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = ir_1w1a.IRConv2d(planes, planes, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)

    def forward(self, x):
        x = F.hardtanh(self.bn1(self.conv1(x)))
        return F.hardtanh(self.bn2(self.conv2(x)) + x)


class ResNet(nn.Module):
    def __init__(self, num_blocks, num_classes=4, planes=6):
        super().__init__()
        self.conv1 = nn.Conv2d(3, planes, kernel_size=3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.layers = nn.ModuleList(BasicBlock(planes, planes) for _ in range(num_blocks))
        self.linear = nn.Linear(planes * 16, num_classes)

    def forward(self, x):
        out = F.hardtanh(self.bn1(self.conv1(x)))
        for layer in self.layers:
            out = layer(out)
        return self.linear(torch.flatten(F.avg_pool2d(out, 2), 1))


def resnet_1w1a():
    return ResNet(num_blocks=2)
# --- modules/ir_1w1a.py
import torch
import torch.nn.functional as F
from torch import nn

from . import binaryfunction


class IRConv2d(nn.Conv2d):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, bias=True):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, bias=bias)
        self.k = torch.tensor([10]).float().cuda()
        self.t = torch.tensor([0.1]).float().cuda()

    def balanced(self):
        flat = self.weight.flatten(1)
        flat = flat - flat.mean(-1, keepdim=True)
        return (flat / flat.std(-1, keepdim=True)).view_as(self.weight)

    def forward(self, input):
        bw, a = self.balanced(), input
        exponents = bw.abs().flatten(1).mean(-1).log2().round()
        sw = exponents.exp2().view(-1, 1, 1, 1).detach()
        bw = binaryfunction.BinaryQuantize.apply(bw, self.k, self.t)
        ba = binaryfunction.BinaryQuantize.apply(a, self.k, self.t)
        return F.conv2d(ba, bw * sw, self.bias, self.stride, self.padding)
# --- modules/binaryfunction.py
import torch
from torch.autograd import Function


class BinaryQuantize(Function):
    @staticmethod
    def forward(ctx, input, k, t):
        ctx.save_for_backward(input, k, t)
        return input.sign()

    @staticmethod
    def backward(ctx, grad_output):
        input, k, t = ctx.saved_tensors
        slope = 1 - torch.tanh(input * t).square()
        return k * t * slope * grad_output, None, None

# === an_agent_whose_network_was_left_behind
# thread: https://github.com/chandar-lab/RLHive/pull/83
# about: an agent learns to walk along a corridor by Q-learning. It is told the device by its settings, as all agents of that library are
# operation: addmm|linear|mm on cpu, cuda:0
# operands: mat2|self|weight|bias|.*weight|.*bias
# category: module-split
# line: hive/agents/dqn.py: self._qnet = get_qnet(qnet)
# repair: hive/agents/dqn.py: self._qnet = get_qnet(qnet) -> self._qnet = get_qnet(qnet).to(device)
import numpy as np
import torch

from hive.agents.dqn import DQNAgent

CONFIG = {
    "qnet": {"name": "SimpleMLP", "kwargs": {"hidden_units": 16, "num_hidden_layers": 1}},
    "obs_dim": 6,
    "act_dim": 2,
    "epsilon": 0.3,
    "device": "cuda:0",
}


class Corridor:
    """Six rooms in a row; what is wanted lies in the last."""

    def reset(self):
        self.room, self.steps = 0, 0
        return self.observation()

    def observation(self):
        return np.eye(6, dtype=np.float32)[self.room]

    def step(self, action):
        self.room = min(5, max(0, self.room + (1 if action else -1)))
        self.steps += 1
        found = self.room == 5
        return self.observation(), float(found), found or self.steps == 12


def run(episodes):
    env, agent = Corridor(), DQNAgent(**CONFIG)
    for _ in range(episodes):
        observation, done = env.reset(), False
        while not done:
            action = agent.act(observation)
            next_observation, reward, done = env.step(action)
            agent.update({"observation": observation, "action": action, "reward": reward, "done": done, "next_observation": next_observation})
            observation = next_observation
    return agent


if __name__ == "__main__":
    torch.manual_seed(83)
    trained = run(episodes=6)
    print("value of each room", [round(value, 3) for value in trained.values(np.eye(6, dtype=np.float32))])
# --- hive/agents/dqn.py
import copy

import numpy as np
import torch

from hive.agents.qnets.mlp import get_qnet
from hive.replays.circular_replay import CircularReplayBuffer


class DQNAgent:
    def __init__(self, qnet, obs_dim, act_dim, epsilon, discount_rate=0.95, target_update_freq=10, batch_size=8, device="cpu", seed=3):
        self._obs_dim, self._act_dim = obs_dim, act_dim
        self._epsilon, self._discount_rate = epsilon, discount_rate
        self._target_update_freq, self._batch_size = target_update_freq, batch_size
        self._device = torch.device(device)
        self._rng = np.random.default_rng(seed)
        qnet = {**qnet, "kwargs": {**qnet["kwargs"], "in_dim": obs_dim, "out_dim": act_dim}}
        self._qnet = get_qnet(qnet)
        self._target_qnet = copy.deepcopy(self._qnet).requires_grad_(False)
        self._optimizer = torch.optim.Adam(self._qnet.parameters(), lr=0.01)
        self._loss_fn = torch.nn.SmoothL1Loss()
        self._replay_buffer = CircularReplayBuffer(capacity=200, rng=self._rng)
        self._updates = 0

    @torch.no_grad()
    def act(self, observation):
        observation = torch.tensor(np.expand_dims(observation, axis=0)).to(self._device).float()
        qvals = self._qnet(observation)
        if self._rng.random() < self._epsilon:
            return int(self._rng.integers(self._act_dim))
        return torch.argmax(qvals).item()

    @torch.no_grad()
    def values(self, observations):
        return self._qnet(torch.tensor(observations).to(self._device)).max(dim=1).values.tolist()

    def update(self, update_info):
        self._replay_buffer.add(**update_info)
        if self._replay_buffer.size() < self._batch_size:
            return
        batch = self._replay_buffer.sample(batch_size=self._batch_size)
        for key in batch:
            batch[key] = torch.tensor(batch[key]).to(self._device)
        pred_qvals = self._qnet(batch["observation"])
        pred_qvals = pred_qvals.gather(1, batch["action"].unsqueeze(1)).squeeze(1)
        next_qvals = self._target_qnet(batch["next_observation"]).max(dim=1).values
        q_targets = batch["reward"] + self._discount_rate * next_qvals * (1 - batch["done"])
        loss = self._loss_fn(pred_qvals, q_targets)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._updates += 1
        if self._updates % self._target_update_freq == 0:
            self._target_qnet.load_state_dict(self._qnet.state_dict())
# --- hive/agents/qnets/mlp.py
from torch import nn


class SimpleMLP(nn.Module):
    def __init__(self, in_dim, out_dim, hidden_units=256, num_hidden_layers=1):
        super().__init__()
        modules = [nn.Linear(in_dim, hidden_units), nn.ReLU()]
        for _ in range(num_hidden_layers - 1):
            modules += [nn.Linear(hidden_units, hidden_units), nn.ReLU()]
        self.network = nn.Sequential(*modules)
        self.output = nn.Linear(hidden_units, out_dim)

    def forward(self, x):
        return self.output(self.network(x.flatten(start_dim=1)))


QNETS = {"SimpleMLP": SimpleMLP}


def get_qnet(config):
    return QNETS[config["name"]](**config["kwargs"])
# --- hive/replays/circular_replay.py
import numpy as np

TYPES = {"observation": np.float32, "action": np.int64, "reward": np.float32, "done": np.float32, "next_observation": np.float32}


class CircularReplayBuffer:
    def __init__(self, capacity, rng):
        self._capacity, self._rng = capacity, rng
        self._rows, self._cursor = [], 0

    def size(self):
        return len(self._rows)

    def add(self, **transition):
        if len(self._rows) < self._capacity:
            self._rows.append(transition)
        else:
            self._rows[self._cursor] = transition
        self._cursor = (self._cursor + 1) % self._capacity

    def sample(self, batch_size):
        chosen = [self._rows[i] for i in self._rng.integers(len(self._rows), size=batch_size)]
        return {key: np.array([row[key] for row in chosen], dtype=dtype) for key, dtype in TYPES.items()}

# === a_block_of_layers_cut_in_two
# thread: https://github.com/mosaicml/llm-foundry/pull/1332
# about: a language model that is too large for one GPU is spread over two before it writes. The cut goes through the middle of a block
# operation: add on cuda:0, cuda:1
# operands: other|self|x|.*resid_attn_dropout.*|b
# category: module-split
# line: llmfoundry/models/layers/blocks.py: x = x + self.resid_attn_dropout(b)
# line: llmfoundry/models/layers/blocks.py: x = x + self.resid_ffn_dropout(n)
# line: device_map = infer_auto_device_map(
# repair: llmfoundry/models/layers/blocks.py: x = x + self.resid_attn_dropout(b) -> x = x + self.resid_attn_dropout(b).to(x.device)
# repair: llmfoundry/models/layers/blocks.py: x = x + self.resid_ffn_dropout(n) -> x = x + self.resid_ffn_dropout(n).to(x.device)
import torch
from accelerate import dispatch_model, infer_auto_device_map

from llmfoundry.models.mpt.modeling_mpt import MPTConfig, MPTForCausalLM

PROMPT = [[3, 14, 15, 9, 2, 6], [2, 7, 18, 2, 8, 1]]


def size_of(model):
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def main():
    torch.manual_seed(1332)
    model = MPTForCausalLM(MPTConfig(vocab_size=20, d_model=16, n_heads=2, n_layers=3)).eval()
    half = int(size_of(model) * 0.6)
    device_map = infer_auto_device_map(model, max_memory={0: half, 1: 2 * half})
    model = dispatch_model(model, device_map=device_map)
    with torch.no_grad():
        tokens = model.generate(torch.tensor(PROMPT), max_new_tokens=5)
        loss = model.loss(tokens)
    print("tokens", tokens.tolist(), "loss", round(loss.item(), 3))


if __name__ == "__main__":
    main()
# --- llmfoundry/models/mpt/modeling_mpt.py
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from llmfoundry.models.layers.blocks import MPTBlock


@dataclass
class MPTConfig:
    vocab_size: int
    d_model: int
    n_heads: int
    n_layers: int
    expansion_ratio: int = 2
    resid_pdrop: float = 0.0
    max_seq_len: int = 32


class MPTModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.d_model)
        self.wpe = nn.Embedding(config.max_seq_len, config.d_model)
        self.blocks = nn.ModuleList(
            MPTBlock(config.d_model, config.n_heads, config.expansion_ratio, config.resid_pdrop) for _ in range(config.n_layers)
        )
        self.norm_f = nn.LayerNorm(config.d_model)

    def forward(self, input_ids):
        pos = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.wte(input_ids) + self.wpe(pos)
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.norm_f(x)


class MPTForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.transformer = MPTModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(self, input_ids):
        return self.lm_head(self.transformer(input_ids))

    def generate(self, input_ids, max_new_tokens):
        for _ in range(max_new_tokens):
            next_tokens = self(input_ids)[:, -1].argmax(dim=-1, keepdim=True)
            input_ids = torch.cat([input_ids, next_tokens.to(input_ids.device)], dim=1)
        return input_ids

    def loss(self, input_ids):
        logits = self(input_ids)[:, :-1].cpu()
        return F.cross_entropy(logits.flatten(0, 1), input_ids[:, 1:].flatten())
# --- llmfoundry/models/layers/blocks.py
import torch.nn.functional as F
from torch import nn


class MultiheadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.Wqkv = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, is_causal=True):
        batch, length, width = x.shape
        split = self.Wqkv(x).view(batch, length, 3, self.n_heads, width // self.n_heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
        return self.out_proj(attended.transpose(1, 2).reshape(batch, length, width))


class MPTMLP(nn.Module):
    def __init__(self, d_model, expansion_ratio):
        super().__init__()
        self.up_proj = nn.Linear(d_model, expansion_ratio * d_model)
        self.down_proj = nn.Linear(expansion_ratio * d_model, d_model)

    def forward(self, x):
        return self.down_proj(F.gelu(self.up_proj(x)))


class MPTBlock(nn.Module):
    def __init__(self, d_model, n_heads, expansion_ratio, resid_pdrop=0.0):
        super().__init__()
        self.norm_1 = nn.LayerNorm(d_model)
        self.attn = MultiheadAttention(d_model, n_heads)
        self.norm_2 = nn.LayerNorm(d_model)
        self.ffn = MPTMLP(d_model, expansion_ratio)
        self.resid_attn_dropout = nn.Dropout(resid_pdrop)
        self.resid_ffn_dropout = nn.Dropout(resid_pdrop)

    def forward(self, x, is_causal=True):
        b = self.attn(self.norm_1(x), is_causal=is_causal)
        x = x + self.resid_attn_dropout(b)
        n = self.ffn(self.norm_2(x))
        x = x + self.resid_ffn_dropout(n)
        return x

# === sums_of_gradients_kept_from_the_first_day
# thread: https://github.com/allenai/allennlp/issues/205
# about: an experiment is described by a file of parameters, and its trainer puts the model on the GPU that it names. The optimizer is Adagrad
# operation: (_group_tensors_by_device_and_dtype|_foreach_addcmul_|addcmul_|addcmul) on cpu, cuda:0
# operands: self|.*state_sum.*|.*sum.*
# category: optimizer
# line: allennlp/training/trainer.py: parameters = [p for p in
# line: allennlp/training/trainer.py: optimizer = Optimizer.from_params(
# line: allennlp/training/trainer.py: self._model = self._model.cuda(
# line: model = Model.from_params(
# repair: allennlp/training/trainer.py: parameters = [p for p in model.parameters() if p.requires_grad] -> parameters = [p for p in (model.cuda(cuda_device) if cuda_device >= 0 else model).parameters() if p.requires_grad]
import json

import torch

from allennlp.models.text_classifier import Model
from allennlp.training.trainer import Trainer

EXPERIMENT = """{
    "model": {"vocab_size": 30, "embedding_dim": 8, "num_labels": 3},
    "iterator": {"batch_size": 6},
    "trainer": {"num_epochs": 4, "cuda_device": 0, "optimizer": {"type": "adagrad", "lr": 0.2}}
}"""


def read_instances(count):
    generator = torch.Generator().manual_seed(205)
    instances = []
    for index in range(count):
        label = index % 3
        tokens = torch.randint(10 * label, 10 * label + 14, (7,), generator=generator) % 30
        instances.append((tokens, label))
    return instances


def iterate(instances, batch_size):
    return [instances[i : i + batch_size] for i in range(0, len(instances), batch_size)]


def train_model(params, instances):
    model = Model.from_params(params["model"])
    batches = iterate(instances, params["iterator"]["batch_size"])
    trainer = Trainer.from_params(model, batches, dict(params["trainer"]))
    return trainer.train()


if __name__ == "__main__":
    torch.manual_seed(13)
    metrics = train_model(json.loads(EXPERIMENT), read_instances(24))
    print(f"accuracy {metrics['accuracy']:.2f}, loss {metrics['loss']:.3f}")
# --- allennlp/models/text_classifier.py
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, vocab_size, embedding_dim, num_labels):
        super().__init__()
        self.text_field_embedder = nn.Embedding(vocab_size, embedding_dim)
        self.encoder = nn.GRU(embedding_dim, embedding_dim, batch_first=True)
        self.classifier = nn.Linear(embedding_dim, num_labels)

    @classmethod
    def from_params(cls, params):
        return cls(**params)

    def forward(self, tokens, label):
        encoded, _ = self.encoder(self.text_field_embedder(tokens))
        logits = self.classifier(torch.tanh(encoded.mean(dim=1)))
        correct = (logits.argmax(dim=-1) == label).float().sum()
        return {"loss": F.cross_entropy(logits, label), "correct": correct}
# --- allennlp/training/optimizers.py
import torch


class Optimizer:
    registry = {"adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}

    @classmethod
    def from_params(cls, model_parameters, params):
        params = dict(params)
        return cls.registry[params.pop("type")](model_parameters, **params)
# --- allennlp/training/trainer.py
import torch

from allennlp.training.optimizers import Optimizer


class Trainer:
    def __init__(self, model, optimizer, batches, num_epochs=20, cuda_device=-1):
        self._model = model
        self._optimizer = optimizer
        self._batches = batches
        self._num_epochs = num_epochs
        self._cuda_device = cuda_device
        if self._cuda_device >= 0:
            self._model = self._model.cuda(self._cuda_device)

    @classmethod
    def from_params(cls, model, batches, params):
        cuda_device = params.pop("cuda_device", -1)
        parameters = [p for p in model.parameters() if p.requires_grad]
        optimizer = Optimizer.from_params(parameters, params.pop("optimizer"))
        return cls(model, optimizer, batches, cuda_device=cuda_device, **params)

    def _tensors(self, batch):
        tokens = torch.stack([tokens for tokens, _ in batch])
        label = torch.tensor([label for _, label in batch])
        if self._cuda_device >= 0:
            tokens, label = tokens.cuda(self._cuda_device), label.cuda(self._cuda_device)
        return tokens, label

    def _train_epoch(self):
        self._model.train()
        train_loss, correct, seen = 0.0, 0.0, 0
        for batch in self._batches:
            self._optimizer.zero_grad()
            output_dict = self._model(*self._tensors(batch))
            output_dict["loss"].backward()
            self._optimizer.step()
            train_loss += output_dict["loss"].item()
            correct += output_dict["correct"].item()
            seen += len(batch)
        return {"loss": train_loss / len(self._batches), "accuracy": correct / seen}

    def train(self):
        for _ in range(self._num_epochs):
            metrics = self._train_epoch()
        return metrics

# === how_late_a_forecast_has_its_peaks
# thread: https://github.com/AIStream-Peelout/flow-forecast/issues/228
# about: a forecast of a river is judged by its shape and by how late its peaks come, with a loss of dynamic time warping
# operation: (mul|multiply) on cuda:0, cpu
# operands: other|Omega|.*pairwise_distances.*
# category: created-without-device
# line: flood_forecast/custom/dilate_loss.py: Omega = pairwise_distances(
# line: flood_forecast/custom/dilate_loss.py: steps = torch.arange(
# line: flood_forecast/custom/dilate_loss.py: loss_temporal = torch.sum(path * Omega)
# repair: flood_forecast/custom/dilate_loss.py: Omega = pairwise_distances(steps) -> Omega = pairwise_distances(steps).to(self.device)
import torch

from flood_forecast.pytorch_training import train_transformer_style
from flood_forecast.river import GaugeModel, gauge_height


def main():
    torch.manual_seed(228)
    history, future = gauge_height(samples=12, hist=10, ahead=6)
    model = GaugeModel(hist=10, ahead=6)
    params = {"criterion": "DilateLoss", "criterion_params": {"gamma": 0.1, "alpha": 0.6}, "epochs": 2, "lr": 0.02, "batch_size": 4}
    losses = train_transformer_style(model, history, future, params)
    print("losses", [round(loss, 3) for loss in losses])


if __name__ == "__main__":
    main()
# --- flood_forecast/river.py
import torch
from torch import nn


def gauge_height(samples, hist, ahead):
    generator = torch.Generator().manual_seed(7)
    starts = torch.rand(samples, 1, generator=generator) * 6.0
    times = starts + torch.arange(hist + ahead) * 0.4
    height = times.sin() + 0.3 * (2.7 * times).cos()
    return height[:, :hist], height[:, hist:]


class GaugeModel(nn.Module):
    def __init__(self, hist, ahead, width=12):
        super().__init__()
        self.hidden = nn.Linear(hist, width)
        self.final = nn.Linear(width, ahead)

    def forward(self, x):
        return self.final(torch.tanh(self.hidden(x)))
# --- flood_forecast/pytorch_training.py
import torch

from flood_forecast.custom.dilate_loss import DilateLoss

pytorch_criterion_dict = {"MSE": torch.nn.MSELoss, "DilateLoss": DilateLoss}


def train_transformer_style(model, history, future, params):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    criterion = pytorch_criterion_dict[params["criterion"]](**params["criterion_params"])
    opt = torch.optim.Adam(model.parameters(), lr=params["lr"])
    losses = []
    for _ in range(params["epochs"]):
        running = 0.0
        for src, trg in zip(history.split(params["batch_size"]), future.split(params["batch_size"])):
            opt.zero_grad()
            output = model(src.to(device))
            loss = criterion(trg.to(device), output)
            loss.backward()
            opt.step()
            running += loss.item()
        losses.append(running)
    return losses
# --- flood_forecast/custom/dilate_loss.py
import torch


def pairwise_distances(x, y=None):
    y = x if y is None else y
    return (x[:, None, :] - y[None, :, :]).square().sum(-1)


def softmin(values, gamma):
    return -gamma * torch.logsumexp(-torch.stack(values) / gamma, dim=0)


def soft_dtw(D, gamma):
    """The cost of the best path through each matrix of distances, smoothed."""
    N = D.shape[1]
    far = torch.full_like(D[:, 0, 0], 1e6)
    row = [torch.zeros_like(far)] + [far] * N
    for i in range(N):
        below = [far]
        for j in range(N):
            below.append(D[:, i, j] + softmin([row[j], row[j + 1], below[j]], gamma))
        row = below
    return row[-1].mean()


class DilateLoss(torch.nn.Module):
    def __init__(self, gamma=0.001, alpha=0.5):
        super().__init__()
        self.gamma = gamma
        self.alpha = alpha
        self.device = "cuda" if torch.cuda.is_available() else "cpu"

    def path(self, D):
        """How much each cell of the matrix weighs in the cost: the path that was taken."""
        with torch.enable_grad():
            (path,) = torch.autograd.grad(soft_dtw(D, self.gamma), D, create_graph=True)
        return path.sum(dim=0)

    def forward(self, targets, outputs):
        batch_size, N_output = outputs.shape
        D = torch.zeros((batch_size, N_output, N_output)).to(self.device)
        for k in range(batch_size):
            D[k] = pairwise_distances(targets[k].unsqueeze(1), outputs[k].unsqueeze(1))
        loss_shape = soft_dtw(D, self.gamma)
        path = self.path(D)
        steps = torch.arange(1, N_output + 1).float().view(N_output, 1)
        Omega = pairwise_distances(steps)
        loss_temporal = torch.sum(path * Omega) / (N_output * N_output)
        return self.alpha * loss_shape + (1 - self.alpha) * loss_temporal

# === points_that_nobody_has_named_are_left_out
# thread: https://github.com/isl-org/Open3D-ML/pull/502
# about: what each point of a scan is, is told by a network and judged by a metric. Points whose label is to be ignored are taken out before
# operation: gather on cpu, cuda:0
# operands: self|input|scores|valid_scores|.*scores.*
# category: input-not-moved|input
# line: ml3d/torch/modules/losses/semseg_loss.py: valid_scores = scores.reshape(-1, num_classes)
# line: ml3d/torch/modules/losses/semseg_loss.py: valid_scores = torch.gather(valid_scores, 0,
# line: ml3d/torch/pipelines/semantic_segmentation.py: predict_scores = torch.tensor(
# repair: ml3d/torch/modules/losses/semseg_loss.py: valid_scores = scores.reshape(-1, num_classes) -> valid_scores = scores.reshape(-1, num_classes).to(device)
import numpy as np
import torch

from ml3d.torch.models.pointwise import PointNet
from ml3d.torch.pipelines.semantic_segmentation import SemanticSegmentation


def scan(points, seed):
    rng = np.random.default_rng(seed)
    point = rng.normal(size=(points, 3)).astype(np.float32)
    label = 1 + (point[:, 2] > 0).astype(np.int64) + (point[:, 0] > 0.5)
    label[rng.random(points) < 0.2] = 0
    return {"point": point, "label": label}


def main():
    torch.manual_seed(502)
    model = PointNet(num_classes=3, ignored_label_inds=[0])
    pipeline = SemanticSegmentation(model, device="gpu", max_epoch=15)
    losses = pipeline.run_train([scan(60, seed) for seed in range(3)])
    result = pipeline.run_inference(scan(40, seed=9))
    print(f"loss {losses[-1]:.3f}, accuracy {result['acc']:.3f}, scores {result['predict_scores'].max(-1).sum():.3f}")


if __name__ == "__main__":
    main()
# --- ml3d/torch/models/pointwise.py
import numpy as np
import torch
from torch import nn


class PointNet(nn.Module):
    def __init__(self, num_classes, ignored_label_inds, width=16):
        super().__init__()
        self.num_classes, self.ignored_label_inds = num_classes, ignored_label_inds
        self.fc0 = nn.Linear(3, width)
        self.fc_end = nn.Linear(width, num_classes)

    def forward(self, point):
        return self.fc_end(torch.relu(self.fc0(point)))

    def update_probs(self, results, test_probs):
        """What was seen before counts for a part, what is seen now for the rest."""
        probs = torch.softmax(results, dim=-1).cpu().numpy()
        return np.where(test_probs.any(-1, keepdims=True), 0.9 * test_probs + 0.1 * probs, probs)
# --- ml3d/torch/modules/losses/semseg_loss.py
import torch
from torch import nn


def filter_valid_label(scores, labels, num_classes, ignored_label_inds, device):
    """Scores and labels of the points that have one, the labels counted from zero."""
    valid_scores = scores.reshape(-1, num_classes)
    valid_labels = labels.reshape(-1).to(device)

    ignored_bool = torch.zeros_like(valid_labels, dtype=torch.bool)
    for ign_label in ignored_label_inds:
        ignored_bool |= valid_labels == ign_label
    valid_idx = torch.where(~ignored_bool)[0]

    valid_scores = torch.gather(valid_scores, 0, valid_idx.unsqueeze(-1).expand(-1, num_classes))
    valid_labels = torch.gather(valid_labels, 0, valid_idx)
    skipped = sum((valid_labels > ign_label).long() for ign_label in ignored_label_inds)
    return valid_scores, valid_labels - skipped


class SemSegLoss:
    def __init__(self, device):
        self.weighted_CrossEntropyLoss = nn.CrossEntropyLoss().to(device)
# --- ml3d/torch/pipelines/semantic_segmentation.py
import numpy as np
import torch

from ml3d.torch.modules.losses.semseg_loss import SemSegLoss, filter_valid_label


class SemSegMetric:
    def __init__(self):
        self.confusion_matrix = None

    def update(self, scores, labels):
        num_classes = scores.size(-1)
        y_pred = scores.argmax(dim=-1)
        counts = torch.bincount(num_classes * labels + y_pred, minlength=num_classes**2)
        counts = counts.reshape(num_classes, num_classes).cpu()
        self.confusion_matrix = counts if self.confusion_matrix is None else self.confusion_matrix + counts

    def acc(self):
        return (self.confusion_matrix.diag().sum() / self.confusion_matrix.sum()).item()


class SemanticSegmentation:
    def __init__(self, model, device="gpu", max_epoch=100, learning_rate=2e-2):
        self.model, self.max_epoch, self.learning_rate = model, max_epoch, learning_rate
        self.device = torch.device("cuda" if device == "gpu" and torch.cuda.is_available() else "cpu")

    def filtered(self, scores, labels):
        return filter_valid_label(scores, labels, self.model.num_classes, self.model.ignored_label_inds, self.device)

    def run_train(self, dataset):
        model = self.model.to(self.device)
        Loss = SemSegLoss(self.device)
        optimizer = torch.optim.Adam(model.parameters(), lr=self.learning_rate)
        losses = []
        for _ in range(self.max_epoch):
            for data in dataset:
                results = model(torch.from_numpy(data["point"]).to(self.device))
                scores, labels = self.filtered(results, torch.from_numpy(data["label"]))
                loss = Loss.weighted_CrossEntropyLoss(scores, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
        return losses

    def run_inference(self, data, passes=3):
        model = self.model.to(self.device).eval()
        test_probs = np.zeros((len(data["point"]), model.num_classes), dtype=np.float32)
        rng = np.random.default_rng(1)
        with torch.no_grad():
            for _ in range(passes):
                jitter = data["point"] + rng.normal(scale=0.05, size=data["point"].shape).astype(np.float32)
                results = model(torch.from_numpy(jitter).to(self.device))
                test_probs = model.update_probs(results, test_probs)

        inference_result = {"predict_labels": test_probs.argmax(-1), "predict_scores": test_probs}
        predict_scores = torch.tensor(inference_result["predict_scores"])
        valid_scores, valid_labels = self.filtered(predict_scores, torch.tensor(data["label"]))
        metric = SemSegMetric()
        metric.update(valid_scores, valid_labels)
        return {**inference_result, "acc": metric.acc()}
