# === loss_normalizer
# thread: https://github.com/huggingface/transformers/issues/37886
# about: the labels follow the logits, the number of tokens that the sum is divided by does not; it comes through **kwargs
# operation: div|true_divide on cuda:1, cuda:0
# operands: loss, num_items_in_batch
# category: module-split|input-not-moved
# line: losses.py: return loss / num_items_in_batch
# line: losses.py: return fixed_cross_entropy(
# line: main.py: return samples, count.to(self.device)
# repair: losses.py: return loss / num_items_in_batch -> return loss / num_items_in_batch.to(loss.device)
import torch
from torch import nn

from losses import causal_lm_loss

class Decoder(nn.Module):
    def __init__(self, vocabulary, width, devices):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width).to(devices[0])
        self.layers = nn.ModuleList(nn.Linear(width, width).to(devices[i // 2]) for i in range(4))
        self.lm_head = nn.Linear(width, vocabulary).to(devices[-1])

    def forward(self, input_ids, labels, **loss_kwargs):
        hidden = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden.to(layer.weight.device)))
        return causal_lm_loss(self.lm_head(hidden), labels, **loss_kwargs)

class Trainer:
    def __init__(self, model, batches, device):
        self.model, self.batches, self.device = model, iter(batches), device

    def get_batch_samples(self):
        samples = [next(self.batches) for _ in range(2)]
        count = sum((sample["labels"][:, 1:] != -100).sum() for sample in samples)
        return samples, count.to(self.device)

    def training_step(self):
        samples, num_items_in_batch = self.get_batch_samples()
        step_loss = 0.0
        for inputs in samples:
            inputs = {name: tensor.to(self.device) for name, tensor in inputs.items()}
            loss = self.model(**inputs, num_items_in_batch=num_items_in_batch)
            loss.backward()
            step_loss += loss.item()
        return step_loss

torch.manual_seed(0)
ids = torch.randint(0, 12, (8, 2, 6))
labels = ids.clone()
labels[::2, :, :3] = -100
trainer = Trainer(Decoder(12, 8, ["cuda:0", "cuda:1"]), [{"input_ids": a, "labels": b} for a, b in zip(ids, labels)], "cuda:0")
print("losses", [round(trainer.training_step(), 3) for _ in range(4)])
# --- losses.py
from torch.nn import functional as F

def causal_lm_loss(logits, labels, num_items_in_batch=None, ignore_index=-100):
    labels = F.pad(labels, (0, 1), value=ignore_index)[..., 1:].flatten().to(logits.device)
    return fixed_cross_entropy(logits.flatten(0, 1), labels, num_items_in_batch, ignore_index)

def fixed_cross_entropy(source, target, num_items_in_batch, ignore_index):
    if num_items_in_batch is None:
        return F.cross_entropy(source, target, ignore_index=ignore_index)
    loss = F.cross_entropy(source, target, ignore_index=ignore_index, reduction="sum")
    return loss / num_items_in_batch

# === patch_positions
# thread: https://github.com/huggingface/transformers/issues/39947
# about: two tensors of one function are made on the CPU; repairing the first lets the second be seen
# operation: bucketize on cuda:0, cpu
# operands: fractional_h|self, boundaries
# category: created-without-device
# line: boundaries = torch.arange(
# line: position_ids = torch.full(
# repair: boundaries = torch.arange(1 / self.side, 1.0, 1 / self.side) -> boundaries = torch.arange(1 / self.side, 1.0, 1 / self.side, device=pixel_values.device)
# repair: position_ids = torch.full((len(pixel_values), patches.shape[1]), fill_value=0) -> position_ids = torch.full((len(pixel_values), patches.shape[1]), fill_value=0, device=pixel_values.device)
import torch
from torch import nn

class VisionEmbeddings(nn.Module):
    """Images of any aspect ratio: positions are those of the nearest patches of a square one."""

    def __init__(self, image_size, patch_size, width):
        super().__init__()
        self.side = image_size // patch_size
        self.patch_embedding = nn.Conv2d(3, width, patch_size, stride=patch_size)
        self.position_embedding = nn.Embedding(self.side**2, width)

    def forward(self, pixel_values, patch_attention_mask):
        patches = self.patch_embedding(pixel_values).flatten(2).transpose(1, 2)
        boundaries = torch.arange(1 / self.side, 1.0, 1 / self.side)
        position_ids = torch.full((len(pixel_values), patches.shape[1]), fill_value=0)
        for batch_idx, mask in enumerate(patch_attention_mask):
            rows, columns = mask[:, 0].sum(), mask[0].sum()
            fractional_h = torch.arange(mask.shape[0], device=mask.device)[mask[:, 0]] / rows
            fractional_w = torch.arange(mask.shape[1], device=mask.device)[mask[0]] / columns
            bucket_h = torch.bucketize(fractional_h, boundaries, right=True)
            bucket_w = torch.bucketize(fractional_w, boundaries, right=True)
            position_ids[batch_idx][mask.flatten()] = (bucket_h[:, None] * self.side + bucket_w).flatten()
        return patches + self.position_embedding(position_ids)

torch.manual_seed(0)
embeddings = VisionEmbeddings(16, 4, 6).to("cuda:0")
pixel_values, mask = torch.rand(2, 3, 16, 16), torch.zeros(2, 4, 4, dtype=torch.bool)
mask[0, :, :2] = mask[1, :2, :3] = True
with torch.no_grad():
    out = embeddings(pixel_values.to("cuda:0"), mask.to("cuda:0"))
print("embedded", tuple(out.shape), round(out.double().pow(2).sum().item(), 3))

# === unet_skip
# thread: https://github.com/huggingface/diffusers/pull/11690
# about: hooks bring a module's arguments to it; what a parent joins between two children of it stays where it was
# operation: cat on cuda:1, cuda:0
# operands: hidden_states|tensors, res_hidden_states|tensors
# category: module-split|input-not-moved
# line: unet.py: hidden_states = torch.cat(
# line: unet.py: res_hidden_states = skips.pop()
# repair: unet.py: hidden_states = torch.cat([hidden_states, res_hidden_states], dim=1) -> hidden_states = torch.cat([hidden_states, res_hidden_states.to(hidden_states.device)], dim=1)
import torch
from accelerate import dispatch_model

from unet import UNet

torch.manual_seed(0)
model = UNet(channels=4)
device_map = {"conv_in": 0, "down": 0, "middle": 1, "up.blocks.0": 1, "up.blocks.1": 1, "conv_out": 0}
model = dispatch_model(model, device_map)
with torch.no_grad():
    sample = model(torch.rand(1, 3, 8, 8).to("cuda:0"))
print("sample", tuple(sample.shape), round(sample.double().pow(2).sum().item(), 3))
# --- unet.py
import torch
from torch import nn
from torch.nn import functional as F

class Resnet(nn.Conv2d):
    def forward(self, hidden_states):
        return F.silu(super().forward(hidden_states))

class UpBlock(nn.Module):
    def __init__(self, channels, count):
        super().__init__()
        self.blocks = nn.ModuleList(Resnet(2 * channels, channels, 3, padding=1) for _ in range(count))

    def forward(self, hidden_states, skips):
        for block in self.blocks:
            res_hidden_states = skips.pop()
            hidden_states = torch.cat([hidden_states, res_hidden_states], dim=1)
            hidden_states = block(hidden_states)
        return hidden_states

class UNet(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv_in = nn.Conv2d(3, channels, 3, padding=1)
        self.down = nn.ModuleList(Resnet(channels, channels, 3, padding=1) for _ in range(2))
        self.middle = Resnet(channels, channels, 1)
        self.up = UpBlock(channels, 2)
        self.conv_out = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, sample):
        hidden_states, skips = self.conv_in(sample), []
        for block in self.down:
            hidden_states = block(hidden_states)
            skips.append(hidden_states)
        return self.conv_out(self.up(self.middle(hidden_states), skips))

# === restored_buffer
# thread: https://github.com/facebookresearch/BenchMARL/pull/180
# about: the buffer lies where its first batch lay; only after a restore is it where the configuration says
# operation: index_put|index_put_|copy on cpu, cuda:0
# operands: .*storage.*|self, value|values
# category: default-or-current-device|input-not-moved|checkpoint|cached-state
# line: main.py: storing_device=config
# line: buffer.py: self.storage[name][slots] = value
# line: main.py: self.buffer.extend(
# repair: main.py: self.collector = Collector(torch.tanh, storing_device=config["train_device"]) -> self.collector = Collector(torch.tanh, storing_device=config["buffer_device"])
import os

import torch

from buffer import ReplayBuffer

class Collector:
    def __init__(self, policy, storing_device):
        self.policy, self.storing_device = policy, storing_device

    def rollout(self, frames):
        observation = torch.rand(frames, 3)
        batch = {"observation": observation, "action": self.policy(observation), "reward": observation.sum(1)}
        return {name: value.to(self.storing_device) for name, value in batch.items()}

class Experiment:
    def __init__(self, config, restore=None):
        self.config = config
        self.collector = Collector(torch.tanh, storing_device=config["train_device"])
        self.buffer = ReplayBuffer(capacity=12)
        if restore:
            self.buffer.storage, self.buffer.written = torch.load(restore, map_location=config["buffer_device"])

    def run(self, iterations):
        for _ in range(iterations):
            self.buffer.extend(self.collector.rollout(frames=5))
            observation, action, reward = (value.to(self.config["train_device"]) for value in self.buffer.sample(4))
        return self.buffer.storage["observation"].sum().item(), (reward - action.sum(1)).mean().item()

torch.manual_seed(0)
config = {"train_device": "cuda:0", "buffer_device": "cpu"}
first = Experiment(config)
first.run(iterations=2)
torch.save((first.buffer.storage, first.buffer.written), "experiment.pt")
second = Experiment(config, restore="experiment.pt")
os.remove("experiment.pt")
print("buffer", [round(each, 3) for each in second.run(iterations=2)], second.buffer.written)
# --- buffer.py
import torch

class ReplayBuffer:
    def __init__(self, capacity):
        self.capacity, self.storage, self.written = capacity, None, 0

    def extend(self, batch):
        count = len(next(iter(batch.values())))
        if self.storage is None:
            self.storage = {name: value.new_zeros(self.capacity, *value.shape[1:]) for name, value in batch.items()}
        slots = torch.arange(self.written, self.written + count) % self.capacity
        for name, value in batch.items():
            self.storage[name][slots] = value
        self.written += count

    def sample(self, count):
        chosen = torch.randint(min(self.written, self.capacity), (count,))
        return [value[chosen] for value in self.storage.values()]

# === optimizer_before_model
# thread: https://github.com/autrainer/autrainer/pull/146
# about: the optimizer's state was read while the parameters were still on the CPU; moving them leaves it there
# operation: add on cpu, cuda:1
# operands: buf|momentum_buffer|self, grad|other
# category: optimizer|checkpoint
# line: training.py: self.optimizer.load_state_dict(
# line: training.py: self.model.to(self.device)
# line: training.py: self.model = model
# repair: training.py: self.optimizer.load_state_dict(state["optimizer"]) -> self.model.to(self.device); self.optimizer.load_state_dict(state["optimizer"])
import copy
import io

import torch
from torch import nn

from training import Trainer

torch.manual_seed(0)
x = torch.rand(32, 4)
data = [(x[i : i + 8], x[i : i + 8].sum(1, keepdim=True)) for i in range(0, 32, 8)]
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
trainer = Trainer(copy.deepcopy(model), "cuda:1")
trainer.fit(data, epochs=1)
checkpoint = io.BytesIO()
torch.save({"model": trainer.model.state_dict(), "optimizer": trainer.optimizer.state_dict()}, checkpoint)
checkpoint.seek(0)
resumed = Trainer(model, "cuda:1")
resumed.resume(checkpoint)
print("loss", round(resumed.fit(data, epochs=3), 4))
# --- training.py
import torch
from torch.nn import functional as F

class Trainer:
    def __init__(self, model, device):
        self.model = model
        self.device = torch.device(device)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=False)

    def resume(self, file):
        state = torch.load(file, map_location="cpu")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def fit(self, data, epochs):
        self.model.to(self.device)
        for _ in range(epochs):
            for inputs, targets in data:
                loss = F.mse_loss(self.model(inputs.to(self.device)), targets.to(self.device))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        return loss.item()

# === recurrent_state
# thread: https://github.com/styalai/xLSTM-pytorch/issues/2
# about: the state is made from an example in __init__, changed in forward, and begins anew in a third method; to() sees none of it
# operation: mul on cuda:0, cpu
# operands: forget, self.cell|cell
# category: state-not-registered
# line: xlstm.py: self.cell = torch.zeros(
# line: xlstm.py: self.hidden = torch.zeros(
# line: xlstm.py: self.cell = torch.zeros_like(self.cell)
# line: xlstm.py: self.cell = forget * self.cell
# line: main.py: model = Residual(
# repair: xlstm.py: self.cell = torch.zeros(len(example), width, device=example.device) -> self.register_buffer("cell", torch.zeros(len(example), width, device=example.device))
# repair: xlstm.py: self.hidden = torch.zeros(len(example), width, device=example.device) -> self.register_buffer("hidden", torch.zeros(len(example), width, device=example.device))
import torch
from torch.nn import functional as F

from xlstm import Residual

torch.manual_seed(0)
series = torch.rand(6, 5, 4).cumsum(1)
model = Residual(series[:2, 0], width=4)
model = model.to("cuda:0")
for batch in series.split(2):
    batch = batch.to("cuda:0")
    model.block.begin()
    losses = [F.mse_loss(model(batch[:, step]), batch[:, step + 1]) for step in range(4)]
    torch.stack(losses).mean().backward()
print("losses", [round(loss.item(), 4) for loss in losses])
# --- xlstm.py
import torch
from torch import nn

class Cell(nn.Module):
    def __init__(self, example, width):
        super().__init__()
        self.gates = nn.Linear(example.shape[1], 3 * width)
        self.cell = torch.zeros(len(example), width, device=example.device)
        self.hidden = torch.zeros(len(example), width, device=example.device)

    def begin(self):
        self.cell = torch.zeros_like(self.cell)
        self.hidden = torch.zeros_like(self.hidden)

    def forward(self, x):
        forget, write, candidate = self.gates(x).chunk(3, dim=1)
        forget, write = torch.sigmoid(forget), torch.sigmoid(write)
        self.cell = forget * self.cell + write * torch.tanh(candidate)
        self.hidden = 0.5 * self.hidden + torch.tanh(self.cell)
        return self.hidden

class Residual(nn.Module):
    def __init__(self, example, width):
        super().__init__()
        self.block, self.head = Cell(example, width), nn.Linear(width, example.shape[1])

    def forward(self, x):
        return self.head(x + self.block(x))

# === perplexity_metric
# thread: https://github.com/haoyangzheng-ai/didi-instruct/issues/1
# about: of several metrics that an object keeps, to() leaves one out; torchmetrics writes a message of its own over PyTorch's
# operation: add on cpu, cuda:0
# operands: self.mean_value|mean_value|self, value|other
# error: different devices in metric calculation
# category: state-not-registered|input-not-moved
# line: metrics.py: self.valid_nlls = self.valid_nlls.to(device)
# line: metrics.py: self.gen_ppl.update(
# line: metrics.py: self.mean_value += value.sum()
# repair: metrics.py: self.valid_nlls = self.valid_nlls.to(device) -> self.valid_nlls, self.gen_ppl = self.valid_nlls.to(device), self.gen_ppl.to(device)
import torch
from torch import nn

from metrics import Metrics

torch.manual_seed(0)
device = torch.device("cuda:0")
scorer = nn.Sequential(nn.Embedding(20, 8), nn.Tanh(), nn.Linear(8, 20)).to(device)
metrics = Metrics(eos=3)
metrics.to(device)
samples = torch.randint(0, 20, (6, 9)).to(device)
metrics.valid_nlls.update(torch.ones(6, device=device), torch.ones(6, device=device))
metrics.record_generative_perplexity(samples, scorer, batch_size=4)
print("perplexity", round(metrics.gen_ppl.compute().exp().item(), 3), "nll", metrics.valid_nlls.compute().item())
# --- metrics.py
import torch
from torch.nn import functional as F
from torchmetrics.aggregation import MeanMetric

class NLL(MeanMetric):
    def update(self, value, weight):
        self.mean_value += value.sum()
        self.weight += weight.sum()

class Metrics:
    def __init__(self, eos):
        self.eos = eos
        self.valid_nlls = NLL()
        self.gen_ppl = NLL()

    def to(self, device):
        self.valid_nlls = self.valid_nlls.to(device)

    @torch.no_grad()
    def record_generative_perplexity(self, samples, scorer, batch_size):
        for chunk in samples.split(batch_size):
            nlls = F.cross_entropy(scorer(chunk[:, :-1]).transpose(1, 2), chunk[:, 1:], reduction="none")
            first_eos = (chunk == self.eos).cumsum(1) <= 1
            valid_tokens = first_eos[:, 1:].to(nlls.dtype)
            self.gen_ppl.update(nlls * valid_tokens, valid_tokens)

# === replica_device
# thread: https://github.com/shenweichen/DeepCTR-Torch/issues/309
# about: every replica has the attribute that names the first device
# operation: add on cuda:0, cuda:1
# operands: linear_logit|self, embeddings|other|sum
# category: data-parallel
# line: models.py: linear_logit = torch.zeros(
# line: models.py: self.device = device
# repair: models.py: linear_logit = torch.zeros([len(X), 1], device=self.device) -> linear_logit = torch.zeros([len(X), 1], device=X.device)
import torch
from torch import nn
from torch.nn import functional as F

from models import DCN, Feature

torch.manual_seed(0)
features = [Feature("user", 5), Feature("item", 7), Feature("price", None), Feature("age", None)]
x = torch.stack([torch.randint(0, 5, (16,)), torch.randint(0, 7, (16,)), torch.rand(16), torch.rand(16)], dim=1)
y = (x[:, 2] > 0.5).float()
model = DCN(features, device="cuda:0")
prediction = nn.DataParallel(model, device_ids=[0, 1])(x.to(model.device))
loss = F.binary_cross_entropy(prediction[:, 0], y.to(model.device))
loss.backward()
print("loss", round(loss.item(), 4), round(model.linear_model.weight.grad.abs().sum().item(), 4))
# --- models.py
from typing import NamedTuple, Optional

import torch
from torch import nn

class Feature(NamedTuple):
    name: str
    vocabulary: Optional[int]  # of a sparse one

class Linear(nn.Module):
    def __init__(self, features, device):
        super().__init__()
        self.device = device
        self.features = features
        self.embedding_dict = nn.ModuleDict({f.name: nn.Embedding(f.vocabulary, 1) for f in features if f.vocabulary})
        self.weight = nn.Parameter(torch.full((sum(not f.vocabulary for f in features), 1), 0.1))

    def forward(self, X):
        columns = dict(zip((f.name for f in self.features), X.unbind(dim=1)))
        embeddings = [self.embedding_dict[name](columns.pop(name).long()) for name in self.embedding_dict]
        linear_logit = torch.zeros([len(X), 1], device=self.device)
        if embeddings:
            linear_logit += torch.cat(embeddings, dim=-1).sum(dim=-1, keepdim=True)
        if columns:
            linear_logit += torch.stack(list(columns.values()), dim=1) @ self.weight
        return linear_logit

class DCN(nn.Module):
    def __init__(self, features, device):
        super().__init__()
        self.device = device
        self.linear_model = Linear(features, device)
        self.to(device)

    def forward(self, X):
        return torch.sigmoid(self.linear_model(X))

# === recreated_head
# thread: https://github.com/NVIDIA/Isaac-GR00T/issues/280
# about: the model was moved; after it a part is made anew with what the old one had learned
# operation: addmm|linear|mm on cpu, cuda:0
# operands: bias|weight|.*decoder.*, tokens|input|features
# category: created-without-device|input-not-moved
# line: policy.py: new_head = ActionHead(
# line: policy.py: model.action_head = new_head
# line: policy.py: model.to(device=self.device)
# line: policy.py: return model
# repair: policy.py: return model -> return model.to(self.device)
import torch

from policy import Config, Policy, VisionLanguageAction

torch.manual_seed(0)
pretrained = VisionLanguageAction(Config(width=6, horizon=4))
policy = Policy(pretrained.state_dict(), Config(6, 4), delta_indices=range(6), device="cuda:0")
observation = {"image": torch.rand(1, 3, 6), "state": torch.rand(1, 6)}
action = policy.get_action(observation)
print("action", tuple(action.shape), round(action.double().pow(2).sum().item(), 4))
# --- policy.py
from typing import NamedTuple

import torch
from torch import nn

class Config(NamedTuple):
    width: int
    horizon: int

class ActionHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.decoder = nn.Linear(config.width, 2)

    def forward(self, features):
        tokens = features[:, None].expand(-1, self.config.horizon, -1)
        return self.decoder(tokens)

class VisionLanguageAction(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.backbone = nn.Linear(config.width, config.width)
        self.action_head = ActionHead(config)

    def forward(self, image, state):
        return self.action_head(torch.tanh(self.backbone(image)).mean(1) + state)

class Policy:
    def __init__(self, weights, config, delta_indices, device):
        self.device = device
        self.expected_horizon = len(delta_indices)
        self.model = self._load_model(weights, config)

    def _load_model(self, weights, config):
        model = VisionLanguageAction(config)
        model.load_state_dict(weights)
        model.to(device=self.device)
        if model.action_head.config.horizon != self.expected_horizon:
            new_head = ActionHead(config._replace(horizon=self.expected_horizon))
            new_head.load_state_dict(model.action_head.state_dict())
            model.action_head = new_head
        return model

    @torch.no_grad()
    def get_action(self, observation):
        return self.model(**{name: value.to(self.device) for name, value in observation.items()}).cpu()

# === offloaded_statics
# thread: https://github.com/huggingface/transformers/pull/41385
# about: a parameter is read past its module's forward, so that accelerate's hook never brings it: it is on meta
# operation: add on cuda:0, meta
# operands: routing_weights, routing_bias|.*e_score_correction_bias
# error: on the expected device cuda:0|on the same device
# category: module-split|input-not-moved
# line: moe.py: routing_bias = self.moe_statics.e_score_correction_bias
# line: moe.py: _, selected = torch.topk(
# repair: moe.py: routing_bias = self.moe_statics.e_score_correction_bias.squeeze() -> routing_bias = self.moe_statics(torch.zeros_like(routing_weights))
import torch
from accelerate import cpu_offload
from torch import nn

from moe import SparseMoe

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(16, 6), SparseMoe(6, experts=4), SparseMoe(6, experts=4), nn.Linear(6, 16))
tokens = torch.randint(0, 16, (2, 5))
model = cpu_offload(model, execution_device=torch.device("cuda:0"))
with torch.no_grad():
    logits = model(tokens.to("cuda:0"))
print("logits", tuple(logits.shape), round(logits.double().pow(2).sum().item(), 3))
# --- moe.py
import torch
from torch import nn

class Statics(nn.Module):
    """Evens out how often each expert is chosen."""

    def __init__(self, experts):
        super().__init__()
        self.e_score_correction_bias = nn.Parameter(torch.linspace(-0.2, 0.2, experts)[None], requires_grad=False)

    def forward(self, routing_weights):
        return routing_weights + self.e_score_correction_bias.squeeze()

class SparseMoe(nn.Module):
    def __init__(self, width, experts, top_k=2):
        super().__init__()
        self.top_k = top_k
        self.gate = nn.Linear(width, experts, bias=False)
        self.moe_statics = Statics(experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, hidden):
        flat = hidden.reshape(-1, hidden.shape[-1])
        routing_weights = self.gate(flat).softmax(dim=-1)
        routing_bias = self.moe_statics.e_score_correction_bias.squeeze()
        _, selected = torch.topk(routing_weights + routing_bias, self.top_k, dim=-1)
        weights = torch.gather(routing_weights, 1, selected)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            rows, places = torch.where(selected == index)
            if len(rows):
                out.index_add_(0, rows, expert(flat[rows]) * weights[rows, places, None])
        return hidden + out.view_as(hidden)

# === rope_registry
# thread: https://github.com/LMCache/LMCache-Ascend/pull/71
# about: a registry answers with the module that was made while loading; who asks later has no model that would move it
# operation: index_select on cpu, cuda:0
# operands: self.cos_sin_cache|cos_sin_cache|self, positions|new_positions|old_positions|index
# category: cached-state|created-without-device|input-not-moved
# line: fused.py: rope = get_rope(
# line: rope.py: cos, sin = self.cos_sin_cache.index_select(
# line: fused.py: if not turns_back(rope
# repair: fused.py: rope = get_rope(head_size, max_position, base) -> rope = get_rope(head_size, max_position, base).to(device)
import torch

from fused import get_fused_rope
from rope import get_rope

torch.manual_seed(0)
while_loading = get_rope(head_size=8, max_position=32, base=100)
fused = get_fused_rope(head_size=8, max_position=32, base=100, device="cuda:0")
keys = torch.rand(6, 8).to("cuda:0")
old = torch.arange(6).to("cuda:0")
moved = fused(old, old + 10, keys)
print("keys", round(moved.double().pow(2).sum().item(), 4), round(moved[3, 1].item(), 4))
# --- rope.py
import torch
from torch import nn

_ROPES = {}

class RotaryEmbedding(nn.Module):
    def __init__(self, head_size, max_position, base):
        super().__init__()
        inverse = 1.0 / base ** (torch.arange(0, head_size, 2) / head_size)
        angles = torch.outer(torch.arange(max_position), inverse)
        self.register_buffer("cos_sin_cache", torch.cat((angles.cos(), angles.sin()), dim=-1), persistent=False)

    def forward(self, positions, x, sign=1):
        cos, sin = self.cos_sin_cache.index_select(0, positions).chunk(2, dim=-1)
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - sign * second * sin, second * cos + sign * first * sin), dim=-1)

def get_rope(head_size, max_position, base):
    key = (head_size, max_position, base)
    if key not in _ROPES:
        _ROPES[key] = RotaryEmbedding(*key)
    return _ROPES[key]
# --- fused.py
import torch

from rope import get_rope

def turns_back(rope, head_size, device):
    positions, keys = torch.arange(8, device=device), torch.ones(8, head_size, device=device)
    return torch.allclose(rope(positions, rope(positions, keys), sign=-1), keys, atol=1e-5)

def get_fused_rope(head_size, max_position, base, device):
    rope = get_rope(head_size, max_position, base)
    if not turns_back(rope, head_size, device):
        raise ValueError("this rope is not one that can be undone")
    return lambda old_positions, new_positions, keys: rope(new_positions, rope(old_positions, keys, sign=-1))

# === rotary_left_out
# thread: https://github.com/huggingface/transformers/issues/35505
# about: a map written by hand names all that has weights; a module with a buffer that is not saved is in nobody's list
# operation: bmm|matmul on cpu, cuda:0
# operands: inv_freq_expanded|self.inv_freq|self, position_ids_expanded|mat2
# category: module-split|state-not-registered|input-not-moved
# line: mapping.py: device_map = {"embed_tokens": 0}
# line: mapping.py: return {**device_map
# line: modeling.py: inv_freq_expanded = self.inv_freq
# line: modeling.py: freqs = (inv_freq_expanded
# repair: mapping.py: device_map = {"embed_tokens": 0} -> device_map = {"embed_tokens": 0, "rotary_emb": 0}
import torch
from accelerate import dispatch_model

from mapping import split_model
from modeling import Decoder

torch.manual_seed(0)
model = Decoder(vocabulary=20, width=8, layers=4).eval()
tokens = torch.randint(0, 20, (2, 5))
device_map = split_model(layers=4, gpus=2)
model = dispatch_model(model, device_map)
with torch.no_grad():
    logits = model(tokens.to("cuda:0"))
print("logits", tuple(logits.shape), round(logits.double().pow(2).sum().item(), 3))
# --- mapping.py
import math

def split_model(layers, gpus):
    """The first device has the embedding too, so it gets fewer layers."""
    per_gpu = math.ceil(layers / (gpus - 0.5))
    device_map = {"embed_tokens": 0}
    device_map |= {f"layers.{layer}": (layer + per_gpu // 2) // per_gpu for layer in range(layers)}
    return {**device_map, "norm": 0, "lm_head": 0}
# --- modeling.py
import torch
from torch import nn

class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base=100.0):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, dim, 2) / dim), persistent=False)

    def forward(self, x, position_ids):
        inv_freq_expanded = self.inv_freq[None, :, None].expand(len(position_ids), -1, 1)
        position_ids_expanded = position_ids[:, None, :].to(x.dtype)
        freqs = (inv_freq_expanded @ position_ids_expanded).transpose(1, 2)
        angles = torch.cat((freqs, freqs), dim=-1)
        return angles.cos(), angles.sin()

class Layer(nn.Linear):
    def forward(self, x, position_embeddings):
        cos, sin = position_embeddings
        first, second = x.chunk(2, dim=-1)
        return x + super().forward(x * cos + torch.cat((-second, first), dim=-1) * sin)

class Decoder(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.rotary_emb = RotaryEmbedding(width)
        self.layers = nn.ModuleList(Layer(width, width) for _ in range(layers))
        self.norm, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens):
        hidden = self.embed_tokens(tokens)
        position_ids = torch.arange(tokens.shape[1], device=tokens.device).expand(len(tokens), -1)
        position_embeddings = self.rotary_emb(hidden, position_ids)
        for layer in self.layers:
            hidden = layer(hidden, position_embeddings=position_embeddings)
        return self.lm_head(self.norm(hidden))
