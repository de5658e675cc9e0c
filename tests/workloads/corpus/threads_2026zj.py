# === words_in_ram_of_a_shared_out_model
# thread: https://github.com/unslothai/unsloth/pull/8272
# about: a model is so large that its layers are on two GPUs, and the table of its words is put into RAM on top of that. A hook sees to it that words are looked up where the table is
# operation: embedding|index_select on cpu, cuda:0
# operands: index|input.*|indices
# category: module-split
# line: loader.py: if offload_embedding:
# line: main.py: model = from_pretrained(
# line: offload.py: embed_tokens.to("cpu")
# line: offload.py: embed_tokens.register_forward_pre_hook(
# repair: loader.py: if offload_embedding: -> if offload_embedding and len(set(device_map.values())) == 1:
import torch
from transformers import LlamaConfig

from loader import from_pretrained

config = LlamaConfig(vocab_size=24, hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2)
count = max(torch.cuda.device_count(), 1)
device_map = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": count - 1, "lm_head": count - 1}
for index in range(config.num_hidden_layers):
    device_map[f"model.layers.{index}"] = index * count // config.num_hidden_layers
model = from_pretrained(config, device_map, offload_embedding=True)
ids = torch.tensor([[2, 19, 7, 7]], device="cuda" if torch.cuda.is_available() else "cpu")
with torch.inference_mode():
    logits = model(input_ids=ids).logits
print("next", logits[0, -1].argmax().item(), "spread", round(logits.float().std().item(), 4))
# --- offload.py
def install_offload_embedding_hooks(model):
    embed_tokens = model.get_input_embeddings()
    embed_tokens.to("cpu")
    print(f"Offloading embeddings to RAM to save {embed_tokens.weight.nbytes} bytes.")

    def to_table(module, args):
        ids = args[0]
        module.saved_device = ids.device
        return (ids.to(module.weight.device), *args[1:])

    def from_table(module, args, output):
        return output.to(module.saved_device)

    embed_tokens.register_forward_pre_hook(to_table, prepend=True)
    embed_tokens.register_forward_hook(from_table)
# --- loader.py
import torch
from accelerate import dispatch_model
from transformers import LlamaForCausalLM

from offload import install_offload_embedding_hooks

def from_pretrained(config, device_map, offload_embedding=False):
    torch.manual_seed(5)
    model = LlamaForCausalLM(config).eval()
    model = dispatch_model(model, device_map=device_map, force_hooks=True)
    if offload_embedding:
        install_offload_embedding_hooks(model)
    return model

# === prepared_on_the_first_gpu
# thread: https://github.com/unslothai/unsloth/pull/10033
# about: a planner finds that the second GPU has room for all of a model, so it is loaded there, with tables of turned positions as fast kernels want them. Then it is handed to what trains it
# operation: mul on cuda:0, cuda:1
# operands: other|.*cos.*|.*sin.*
# category: cached-state|default-or-current-device
# line: trainer.py: self.model, self.optimizer = self.accelerator.prepare(
# line: rope.py: self.multi_gpu_cos_cached = [
# line: attention.py: cos, sin = self.rotary.get_cached(
# line: attention.py: query, key = turned(query, cos, sin), turned(key, cos, sin)
# repair: trainer.py: self.model, self.optimizer = self.accelerator.prepare(model, optimizer) -> self.model, self.optimizer = self.accelerator.prepare(model, optimizer, device_placement=[False, False])
import torch

from loader import from_pretrained
from trainer import Trainer

free = [32, 80][: torch.cuda.device_count()]
model = from_pretrained(vocabulary=14, width=8, layers=2, free=free)
trainer = Trainer(model)
draw = torch.Generator().manual_seed(1)
losses = [trainer.step(torch.randint(0, 14, (2, 6), generator=draw)) for _ in range(3)]
print("losses", [round(loss, 4) for loss in losses])
# --- rope.py
import torch

class FastRotary:
    """Tables for each GPU that a model is on, so that no kernel waits for a copy."""

    def __init__(self, width, length, devices):
        angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, width, 2) / width)).repeat(1, 2)
        self.multi_gpu_cos_cached = [angles.cos().to(device) for device in devices]
        self.multi_gpu_sin_cached = [angles.sin().to(device) for device in devices]

    def get_cached(self, length, place=0):
        return self.multi_gpu_cos_cached[place][:length], self.multi_gpu_sin_cached[place][:length]
# --- attention.py
import torch
from torch import nn

from rope import FastRotary

def turned(x, cos, sin):
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin

class FastLayer(nn.Module):
    def __init__(self, width, rotary):
        super().__init__()
        self.qkv, self.out, self.rotary = nn.Linear(width, 3 * width), nn.Linear(width, width), rotary

    def forward(self, x):
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        cos, sin = self.rotary.get_cached(x.shape[1])
        query, key = turned(query, cos, sin), turned(key, cos, sin)
        return x + self.out(nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True))

class FastModel(nn.Module):
    def __init__(self, vocabulary, width, layers, devices):
        super().__init__()
        rotary = FastRotary(width, length=16, devices=devices)
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.Sequential(*(FastLayer(width, rotary) for _ in range(layers)))

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids)))
# --- loader.py
import torch

from attention import FastModel

def planned(free):
    return torch.device("cuda", max(range(len(free)), key=free.__getitem__)) if free else torch.device("cpu")

def from_pretrained(vocabulary, width, layers, free):
    device = planned(free)
    torch.manual_seed(2)
    model = FastModel(vocabulary, width, layers, devices=[device])
    return model.to(device)
# --- trainer.py
import torch
from accelerate import Accelerator

class Trainer:
    def __init__(self, model):
        self.accelerator = Accelerator()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)

    def step(self, ids):
        ids = ids.to(next(self.model.parameters()).device)
        loss = torch.nn.functional.cross_entropy(self.model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        self.accelerator.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

# === days_that_count_more
# thread: https://github.com/Nixtla/neuralforecast/pull/706
# about: what is forecast for tomorrow may count more than what is forecast for the day after. These weights are given to a loss, and the loss to a model
# operation: mul on cuda:0, cpu
# operands: other|.*weight.*|mask
# category: state-not-registered|input-not-moved
# line: losses.py: weights = self.horizon_weight.repeat(
# line: losses.py: self.horizon_weight = horizon_weight
# line: losses.py: return mask * weights
# repair: losses.py: weights = self.horizon_weight.repeat(len(mask), 1) -> weights = self.horizon_weight.repeat(len(mask), 1).to(mask.device)
import logging

import torch
from lightning.pytorch import Trainer, seed_everything

from base_model import MLPForecaster
from losses import MAE
from windows import make_loader

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
seed_everything(3, verbose=False)
loss = MAE(horizon_weight=torch.tensor([4.0, 2.0, 1.0]))
model = MLPForecaster(past=6, horizon=3, loss=loss)
loader = make_loader(rows=4, length=14, past=6, horizon=3)
settings = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer = Trainer(max_epochs=2, accelerator="auto", devices=1, **settings)
trainer.fit(model, loader)
print("losses", [round(value, 4) for value in model.seen])
# --- losses.py
import torch

class BasePointLoss(torch.nn.Module):
    def __init__(self, horizon_weight=None, outputsize_multiplier=1):
        super().__init__()
        if horizon_weight is not None:
            horizon_weight = torch.as_tensor(horizon_weight).flatten()
        self.horizon_weight = horizon_weight
        self.outputsize_multiplier = outputsize_multiplier

    def _compute_weights(self, y, mask):
        if mask is None:
            mask = torch.ones_like(y)
        if self.horizon_weight is None:
            return mask
        weights = self.horizon_weight.repeat(len(mask), 1)
        return mask * weights

class MAE(BasePointLoss):
    def forward(self, y, y_hat, mask=None):
        weights = self._compute_weights(y, mask)
        return ((y - y_hat).abs() * weights).sum() / weights.sum()
# --- base_model.py
import torch
from lightning.pytorch import LightningModule
from torch import nn

class MLPForecaster(LightningModule):
    def __init__(self, past, horizon, loss):
        super().__init__()
        self.loss, self.past, self.seen = loss, past, []
        self.mlp = nn.Sequential(nn.Linear(past, 8), nn.ReLU(), nn.Linear(8, horizon * loss.outputsize_multiplier))

    def training_step(self, batch, batch_idx):
        y, mask = batch["temporal"], batch["available"]
        y_hat = self.mlp(y[:, : self.past])
        loss = self.loss(y=y[:, self.past :], y_hat=y_hat, mask=mask[:, self.past :])
        self.seen.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01, foreach=False)
# --- windows.py
import torch
from torch.utils.data import DataLoader

def make_loader(rows, length, past, horizon):
    draw = torch.Generator().manual_seed(9)
    series = torch.rand(rows, length, generator=draw).cumsum(1) / length
    windows = series.unfold(1, past + horizon, 1).flatten(0, 1)
    available = torch.ones_like(windows)
    available[::5, -1] = 0
    return DataLoader([{"temporal": y, "available": mask} for y, mask in zip(windows, available)], batch_size=12)

# === blocks_swapped_while_all_is_trained
# thread: https://github.com/kohya-ss/musubi-tuner/issues/889
# about: all of a model is trained, though the GPU has no room for all of its blocks: some are in RAM while others work. What was learned of a block stays where it was computed
# operation: lerp_? on cpu, cuda:0
# operands: end|.*grad.*
# category: optimizer|module-split
# line: offloader.py: weight.data = weight.data.to(device)
# line: train.py: optimizer.step()
# repair: offloader.py: weight.data = weight.data.to(device) -> weight.data, weight.grad = weight.data.to(device), None if weight.grad is None else weight.grad.to(device)
import torch

from offloader import BlockSwap
from train import train
from zimage import ZImage

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = ZImage(width=8, blocks=4).to(device)
model.offloader = BlockSwap(model.blocks, swapped=2, device=device)
draw = torch.Generator().manual_seed(4)
latents = [torch.randn(3, 8, generator=draw) for _ in range(3)]
print("losses", [round(loss, 4) for loss in train(model, latents, device)])
# --- zimage.py
from torch import nn

class ZImage(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(blocks))
        self.final, self.offloader = nn.Linear(width, width), None

    def forward(self, x):
        for index, block in enumerate(self.blocks):
            self.offloader.wait_for_block(index)
            x = x + block(x)
            self.offloader.submit_move_blocks(index)
        return self.final(x)
# --- offloader.py
import torch

class BlockSwap:
    """Of the last blocks, each is on the GPU only while it works, forward and backward."""

    def __init__(self, blocks, swapped, device):
        self.blocks, self.device, self.first = list(blocks), device, len(blocks) - swapped
        for block in self.blocks[self.first :]:
            block.register_full_backward_pre_hook(lambda module, grad: self.move(module, self.device))

    def move(self, block, device):
        for weight in block.parameters():
            weight.data = weight.data.to(device)

    def prepare_before_forward(self):
        for block in self.blocks[self.first :]:
            self.move(block, torch.device("cpu"))

    def wait_for_block(self, index):
        if index >= self.first:
            self.move(self.blocks[index], self.device)

    def submit_move_blocks(self, index):
        if index >= self.first:
            self.move(self.blocks[index], torch.device("cpu"))
# --- train.py
import torch

def train(model, latents, device):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, foreach=False)
    offloader, losses = model.offloader, []
    offloader.prepare_before_forward()
    for x in latents:
        x = x.to(device)
        loss = (model(x) - x.roll(1, dims=1)).square().mean()
        loss.backward()
        offloader.prepare_before_forward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses

# === an_agent_on_the_second_gpu
# thread: https://github.com/Unity-Technologies/ml-agents/pull/6243
# about: on the command line one says on which GPU an agent learns. What it saw comes from the game as lists, and tensors are made where they are by default
# operation: addmm|linear|mm on cuda:0, cuda:1
# operands: mat1|input|.*obs.*
# category: default-or-current-device|input-not-moved
# line: torch_utils.py: torch.set_default_device(
# line: torch_utils.py: return torch.as_tensor(
# line: trainer.py: obs = torch_utils.list_to_tensor(
# repair: torch_utils.py: torch.set_default_device(_device.type) -> torch.set_default_device(_device)
import torch

import torch_utils
from settings import TorchSettings
from trainer import PPOTrainer

torch.manual_seed(1)
last = torch.cuda.device_count() - 1
torch_utils.set_torch_config(TorchSettings(device=f"cuda:{last}" if last >= 0 else None))
trainer = PPOTrainer(inputs=4, actions=3)
for start in range(3):
    seen = [[(start + step + place) % 5 / 5 for place in range(4)] for step in range(6)]
    trainer.process_trajectory(seen, reward=[1.0, 0.0, 0.5, 0.0, 0.0, 1.0])
    trainer.advance()
print("losses", [round(loss, 4) for loss in trainer.losses])
# --- settings.py
from dataclasses import dataclass

@dataclass
class TorchSettings:
    device: str | None = None
# --- torch_utils.py
import numpy as np
import torch

_device = torch.device("cpu")

def set_torch_config(settings):
    global _device
    name = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
    _device = torch.device(name)
    torch.set_default_device(_device.type)

def default_device():
    return _device

def list_to_tensor(values):
    return torch.as_tensor(np.asanyarray(values, dtype=np.float32))
# --- policy.py
import torch
from torch import nn

import torch_utils

class Actor(nn.Module):
    def __init__(self, inputs, actions):
        super().__init__()
        self.body, self.head = nn.Linear(inputs, 8), nn.Linear(8, actions)

    def forward(self, obs):
        return torch.distributions.Categorical(logits=self.head(self.body(obs).tanh()))

class TorchPolicy:
    def __init__(self, inputs, actions):
        self.actor = Actor(inputs, actions)
        self.actor.to(torch_utils.default_device())
# --- trainer.py
from collections import deque

import torch

import torch_utils
from policy import TorchPolicy

class PPOTrainer:
    def __init__(self, inputs, actions):
        self.policy, self.buffer, self.losses = TorchPolicy(inputs, actions), deque(), []
        self.optimizer = torch.optim.SGD(self.policy.actor.parameters(), lr=0.3)

    def process_trajectory(self, obs, reward):
        self.buffer.append({"obs": obs, "reward": reward})

    def advance(self):
        while self.buffer:
            batch = self.buffer.popleft()
            obs = torch_utils.list_to_tensor(batch["obs"])
            chances = self.policy.actor(obs)
            reward = torch_utils.list_to_tensor(batch["reward"])
            gain = chances.log_prob(chances.logits.argmax(1)) * (reward - reward.mean())
            loss = -gain.mean() - 0.1 * chances.entropy().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())

# === an_average_to_look_at_first
# thread: https://github.com/facebookresearch/schedule_free/pull/42
# about: an optimizer keeps where it is and an average of where it was, and switches between them for training and for looking at how good a model is. A training that ended is looked at again
# operation: lerp_? on cuda:0, cpu
# operands: end|.*z.*
# category: optimizer|checkpoint
# line: schedulefree.py: p.lerp_(end=self.state[p]["z"]
# line: main.py: resumed.load_state_dict(
# line: main.py: model.to(device)
# repair: schedulefree.py: p.lerp_(end=self.state[p]["z"], weight=1 - 1 / beta) -> p.lerp_(end=self.state[p]["z"].to(p.device), weight=1 - 1 / beta)
import tempfile
from pathlib import Path

import torch
from torch import nn

from checkpoint import load, save, train
from schedulefree import AdamWScheduleFree

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
draw = torch.Generator().manual_seed(2)
rows, targets = torch.randn(6, 3, generator=draw), torch.randn(6, 1, generator=draw)
torch.manual_seed(0)
model = nn.Linear(3, 1).to(device)
optimizer = AdamWScheduleFree(model.parameters(), lr=0.05)
losses = train(model, optimizer, rows.to(device), targets.to(device), steps=4)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "last.pt"
    save(path, model, optimizer)
    state = load(path)
model = nn.Linear(3, 1)
model.load_state_dict(state["model"])
resumed = AdamWScheduleFree(model.parameters(), lr=0.05)
resumed.load_state_dict(state["optimizer"])
model.to(device)
resumed.eval()
with torch.no_grad():
    error = (model(rows.to(device)) - targets.to(device)).abs().mean()
print("losses", [round(loss, 4) for loss in losses], "looked at again", round(error.item(), 4))
# --- schedulefree.py
import torch

class AdamWScheduleFree(torch.optim.Optimizer):
    def __init__(self, params, lr, beta=0.9):
        super().__init__(params, dict(lr=lr, beta=beta, k=0, train_mode=True))

    @torch.no_grad()
    def eval(self):
        for group in self.param_groups:
            beta = group["beta"]
            if group["train_mode"]:
                for p in group["params"]:
                    if "z" in self.state[p]:
                        p.lerp_(end=self.state[p]["z"], weight=1 - 1 / beta)
                group["train_mode"] = False

    @torch.no_grad()
    def train(self):
        for group in self.param_groups:
            if not group["train_mode"]:
                for p in group["params"]:
                    if "z" in self.state[p]:
                        p.lerp_(end=self.state[p]["z"], weight=1 - group["beta"])
                group["train_mode"] = True

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            group["k"] += 1
            for p in group["params"]:
                state = self.state[p]
                if "z" not in state:
                    state["z"], state["exp_avg_sq"] = p.clone(), torch.zeros_like(p)
                state["exp_avg_sq"].mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
                update = p.grad / (state["exp_avg_sq"].sqrt() + 1e-8)
                p.lerp_(end=state["z"], weight=1 / group["k"])
                p.add_(update, alpha=group["lr"] * (group["beta"] * (1 - 1 / group["k"]) - 1))
                state["z"].sub_(update, alpha=group["lr"])
# --- checkpoint.py
import torch

def train(model, optimizer, rows, targets, steps):
    losses = []
    optimizer.train()
    for _ in range(steps):
        loss = (model(rows) - targets).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

def save(path, model, optimizer):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

def load(path):
    return torch.load(path, map_location="cpu", weights_only=True)

# === what_made_a_picture_so
# thread: https://github.com/shap/shap/issues/3725
# about: what a network says is explained by comparison with pictures that say nothing. They are given when the explainer is made, and the ones to explain later
# operation: cat|concat on cuda:0, cpu
# operands: tensors.*|.*data.*|.*background.*
# category: input-not-moved
# line: main.py: explainer = DeepExplainer(
# line: main.py: background =
# line: explainer.py: self.data = data
# line: explainer.py: joint = [torch.cat(
# repair: main.py: explainer = DeepExplainer(model, background) -> explainer = DeepExplainer(model, background.to(device))
import numpy as np
import torch

from explainer import DeepExplainer
from network import ResidualCNN

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = ResidualCNN(channels=4).to(device).eval()
draw = np.random.default_rng(4)
measured = draw.normal(size=(12, 2, 5, 5)).astype(np.float32)
background = torch.from_numpy(measured[:6])
to_explain = torch.from_numpy(measured[6:8]).to(device)
explainer = DeepExplainer(model, background)
values = explainer.shap_values(to_explain)
print("expected", round(explainer.expected_value, 4), "values", [round(float(value), 4) for value in values.sum((1, 2, 3))])
# --- network.py
from torch import nn

class ResidualCNN(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, channels, 3, padding=1), nn.Conv2d(channels, channels, 3, padding=1)
        self.head = nn.Linear(channels, 1)

    def forward(self, x):
        x = self.first(x).relu()
        x = x + self.second(x).relu()
        return self.head(x.mean((2, 3)))
# --- explainer.py
import torch

class DeepExplainer:
    def __init__(self, model, data):
        self.model, self.multi_input = model, isinstance(data, list)
        data = data if isinstance(data, list) else [data]
        self.data = data
        device = next(model.parameters()).device
        with torch.no_grad():
            self.expected_value = model(*[part.to(device) for part in data]).mean().item()

    def gradients(self, inputs):
        inputs = [part.requires_grad_() for part in inputs]
        self.model(*inputs).sum().backward()
        return [part.grad for part in inputs]

    def shap_values(self, samples):
        samples = samples if self.multi_input else [samples]
        totals = []
        for row in range(len(samples[0])):
            tiled = [part[row : row + 1].repeat(len(data), 1, 1, 1) for part, data in zip(samples, self.data)]
            joint = [torch.cat((part, data), dim=0).detach() for part, data in zip(tiled, self.data)]
            halves = [grads.chunk(2)[0] for grads in self.gradients(joint)]
            totals.append(torch.stack([(grads * (part - data)).mean(0) for grads, part, data in zip(halves, tiled, self.data)]).sum(0))
        return torch.stack(totals).cpu().numpy()

# === rows_of_many_lengths
# thread: https://github.com/NVIDIA-Merlin/dataloader/pull/113
# about: each GPU has a loader of its own, which reads tables and gives batches. What a customer bought is a list, as values of all rows and where each row begins
# operation: cat|concat on cuda:1, cpu
# operands: tensors.*|.*row_lengths.*|.*zero_value.*
# category: input-not-moved|created-without-device
# line: loader.py: return torch.cat((zero_value, torch.cumsum(row_lengths, 0)))
# line: loader.py: zero_value = torch.tensor(
# line: loader.py: row_lengths = offsets[1:] - offsets[:-1]
# line: table.py: return torch.from_numpy(
# line: loader.py: offsets = column.offsets(
# repair: loader.py: return torch.cat((zero_value, torch.cumsum(row_lengths, 0))) -> return torch.cat((zero_value, torch.cumsum(row_lengths, 0).to(self.device)))
import torch

from loader import Loader
from table import ListColumn
from tower import Tower

torch.manual_seed(3)
count = max(torch.cuda.device_count(), 1)
lists = [[4, 1], [7], [2, 2, 9], [5], [8, 3, 1, 6], [0, 5]]
loader = Loader({"bought": ListColumn(lists)}, batch_size=3, rank=count - 1)
tower = Tower(items=10, width=4).to(loader.device)
for batch in loader:
    scores = tower(batch["bought__values"], batch["bought__offsets"])
    print("scores", [round(value, 4) for value in scores.flatten().tolist()])
# --- table.py
import numpy as np
import torch

class ListColumn:
    """As in Arrow: values of all rows, and where each row begins."""

    def __init__(self, lists):
        self.flat = np.concatenate([np.asarray(row, dtype=np.int64) for row in lists])
        self.starts = np.cumsum([0, *map(len, lists)])

    def __len__(self):
        return len(self.starts) - 1

    def values(self, start, stop, device):
        return torch.from_numpy(self.flat[self.starts[start] : self.starts[stop]]).to(device)

    def offsets(self, start, stop):
        return torch.from_numpy(self.starts[start : stop + 1])
# --- loader.py
import torch

class Loader:
    def __init__(self, columns, batch_size, rank):
        self.columns, self.batch_size = columns, batch_size
        self.device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")

    def _row_lengths_to_offsets(self, row_lengths):
        zero_value = torch.tensor([0], device=self.device, dtype=row_lengths.dtype)
        return torch.cat((zero_value, torch.cumsum(row_lengths, 0)))

    def __iter__(self):
        length = len(next(iter(self.columns.values())))
        for start in range(0, length, self.batch_size):
            stop, batch = min(start + self.batch_size, length), {}
            for name, column in self.columns.items():
                offsets = column.offsets(start, stop)
                row_lengths = offsets[1:] - offsets[:-1]
                batch[f"{name}__values"] = column.values(start, stop, self.device)
                batch[f"{name}__offsets"] = self._row_lengths_to_offsets(row_lengths)
            yield batch
# --- tower.py
from torch import nn

class Tower(nn.Module):
    def __init__(self, items, width):
        super().__init__()
        self.items, self.out = nn.EmbeddingBag(items, width, include_last_offset=True, mode="sum"), nn.Linear(width, 1)

    def forward(self, values, offsets):
        return self.out(self.items(values, offsets))

# === keys_that_stand_before
# thread: https://github.com/adapter-hub/adapters/issues/456
# about: a model that translates is not trained itself, only keys and values that stand before those of its words. They are added by name, to a model that has long been where it is
# operation: cat|concat on cpu, cuda:0
# operands: tensors.*|.*prefix.*
# category: created-without-device|module-split
# line: main.py: model.add_adapter(
# line: prefix_tuning.py: self.prefixes[name] = nn.Parameter(
# line: seq2seq.py: attention.prefix_tuning.add_adapter(
# line: prefix_tuning.py: keys, values = torch.cat(
# line: main.py: model = TinySeq2Seq(
# repair: prefix_tuning.py: self.prefixes[name] = nn.Parameter(torch.randn(2, self.length, self.width) * 0.1) -> self.prefixes[name] = nn.Parameter((torch.randn(2, self.length, self.width) * 0.1).to(device))
# repair: prefix_tuning.py: def add_adapter(self, name): -> def add_adapter(self, name, device):
# repair: seq2seq.py: attention.prefix_tuning.add_adapter(name) -> attention.prefix_tuning.add_adapter(name, attention.query.weight.device)
import torch

from seq2seq import TinySeq2Seq

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = TinySeq2Seq(vocabulary=15, width=8).to(device)
model.add_adapter("de-en")
model.train_adapter("de-en")
optimizer = torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad], lr=0.05, foreach=False)
draw = torch.Generator().manual_seed(6)
source, target = (torch.randint(0, 15, (3, length), generator=draw).to(device) for length in (6, 5))
losses = []
for _ in range(3):
    logits = model(source, target[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- prefix_tuning.py
import torch
from torch import nn

class PrefixTuning(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.length, self.width, self.active = length, width, None
        self.prefixes = nn.ParameterDict()

    def add_adapter(self, name):
        self.prefixes[name] = nn.Parameter(torch.randn(2, self.length, self.width) * 0.1)

    def forward(self, keys, values):
        if self.active is None:
            return keys, values
        prefix_keys, prefix_values = self.prefixes[self.active][:, None].expand(-1, len(keys), -1, -1)
        keys, values = torch.cat([prefix_keys, keys], dim=1), torch.cat([prefix_values, values], dim=1)
        return keys, values
# --- seq2seq.py
from torch import nn

from prefix_tuning import PrefixTuning

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.prefix_tuning = PrefixTuning(length=2, width=width)

    def forward(self, x, seen):
        keys, values = self.prefix_tuning(self.key(seen), self.value(seen))
        return x + nn.functional.scaled_dot_product_attention(self.query(x), keys, values)

class TinySeq2Seq(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.words, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.encoder, self.cross = Attention(width), Attention(width)

    def attentions(self):
        return [module for module in self.modules() if isinstance(module, Attention)]

    def add_adapter(self, name):
        for attention in self.attentions():
            attention.prefix_tuning.add_adapter(name)

    def train_adapter(self, name):
        for weight_name, weight in self.named_parameters():
            weight.requires_grad_(f"prefixes.{name}" in weight_name)
        for attention in self.attentions():
            attention.prefix_tuning.active = name

    def forward(self, source, target):
        seen = self.words(source)
        seen = self.encoder(seen, seen)
        return self.head(self.cross(self.words(target), seen))

# === going_on_with_half_as_many_digits
# thread: https://github.com/bghira/SimpleTuner/issues/2224
# about: weights have few digits, so what is added to them is rounded by chance. A training that was broken off goes on, with what the optimizer remembered, and a part of the model is in RAM until it is needed
# operation: add_? on cpu, cuda:0
# operands: other|_?input|grad
# category: optimizer|checkpoint
# line: trainer.py: network = LoRANetwork(
# line: trainer.py: network.to(device)
# line: trainer.py: optimizer.load_state_dict(
# repair: trainer.py: network = LoRANetwork(seed) -> network = LoRANetwork(seed).to(device)
import io

import torch

from trainer import train

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
draw = torch.Generator().manual_seed(12)
batches = [torch.randn(4, 6, generator=draw) for _ in range(4)]
saved = io.BytesIO()
first = train(batches[:2], device, seed=0, save_to=saved)
saved.seek(0)
second = train(batches[2:], device, seed=1, resume_from=saved)
print("losses", [round(loss, 3) for loss in first + second])
# --- adamw_bf16.py
import torch

def add_stochastic_(target, _input, alpha):
    """Adds with all digits, and drops half of them by chance."""
    result = target.to(torch.float32)
    result.add_(_input.to(torch.float32), alpha=alpha)
    chance = torch.full_like(result, 1 << 15, dtype=torch.int32)
    bits = result.view(torch.int32).add_(chance).bitwise_and_(-65536)
    target.copy_(bits.view(torch.float32))

class AdamWBF16(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr, beta1=0.9, beta2=0.99))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                self.make_step(p, p.grad, state["exp_avg"], state["exp_avg_sq"], **{key: group[key] for key in ("lr", "beta1", "beta2")})

    def make_step(self, p, grad, exp_avg, exp_avg_sq, lr, beta1, beta2):
        exp_avg.mul_(beta1)
        add_stochastic_(exp_avg, grad, alpha=1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        add_stochastic_(p, exp_avg / (exp_avg_sq.sqrt() + 1e-6), alpha=-lr)
# --- network.py
import torch
from torch import nn

class LoRANetwork(nn.Module):
    def __init__(self, seed, width=6, rank=2):
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.down = nn.Parameter(torch.randn(width, rank, generator=draw).to(torch.bfloat16))
        self.up = nn.Parameter(torch.randn(rank, width, generator=draw).to(torch.bfloat16))

    def forward(self, x):
        return x + x @ self.down @ self.up
# --- trainer.py
import torch

from adamw_bf16 import AdamWBF16
from network import LoRANetwork

def train(batches, device, seed, save_to=None, resume_from=None):
    network = LoRANetwork(seed)
    optimizer = AdamWBF16(network.parameters(), lr=0.05)
    if resume_from is not None:
        state = torch.load(resume_from, map_location="cpu", weights_only=True)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
    network.to(device)
    losses = []
    for batch in batches:
        batch = batch.to(device, torch.bfloat16)
        loss = (network(batch) - batch.flip(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if save_to is not None:
        torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict()}, save_to)
    return losses

# === what_all_ranks_found
# thread: https://github.com/open-mmlab/mmengine/pull/385
# about: a test set is shared out between processes, each with a GPU. What they found is written to a folder, and the first of them reads it all and says how good it was
# operation: cat|concat|stack on cuda:0, cuda:1
# operands: tensors.*|.*scores.*
# category: input-not-moved
# line: metric.py: results = collect_results(
# line: accuracy.py: self.results.append(
# line: accuracy.py: scores = torch.cat(
# line: collect.py: parts.append(torch.load(
# line: collect.py: torch.save(results,
# repair: metric.py: results = collect_results(self.results, size, self.rank, folder, self.world_size) -> results = to_cpu(collect_results(self.results, size, self.rank, folder, self.world_size))
import tempfile

import torch

from accuracy import Accuracy
from metric import to_cpu
from network import Classifier

count = max(torch.cuda.device_count(), 1)
draw = torch.Generator().manual_seed(8)
images, labels = torch.randn(7, 3, 4, 4, generator=draw), torch.randint(0, 3, (7,), generator=draw)
with tempfile.TemporaryDirectory() as folder:
    for rank in reversed(range(count)):
        device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
        model, metric = Classifier().to(device).eval(), Accuracy(rank, count)
        for index in range(rank, len(images), count):
            with torch.no_grad():
                scores = model(images[index, None].to(device))
            metric.process({"label": labels[index, None].to(device)}, {"scores": scores})
        found = metric.evaluate(size=len(images), folder=folder)
print({name: round(value, 4) for name, value in to_cpu(found).items()})
# --- network.py
import torch
from torch import nn

class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.head = nn.Conv2d(3, 6, 3), nn.Linear(6, 3)

    def forward(self, images):
        return self.head(self.conv(images).relu().mean((2, 3)))
# --- collect.py
from itertools import zip_longest
from pathlib import Path

import torch

def collect_results(results, size, rank, folder, world_size):
    """All results, in the order of the data; only for the first process."""
    torch.save(results, Path(folder) / f"part_{rank}.pt")
    if rank != 0:
        return None
    parts = []
    for index in range(world_size):
        parts.append(torch.load(Path(folder) / f"part_{index}.pt", weights_only=True))
    ordered = [result for row in zip_longest(*parts) for result in row if result is not None]
    return ordered[:size]
# --- metric.py
import torch

from collect import collect_results

def to_cpu(value):
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {name: to_cpu(part) for name, part in value.items()}
    return [to_cpu(part) for part in value] if isinstance(value, list) else value

class BaseMetric:
    def __init__(self, rank, world_size):
        self.rank, self.world_size, self.results = rank, world_size, []

    def evaluate(self, size, folder):
        results = collect_results(self.results, size, self.rank, folder, self.world_size)
        metrics = self.compute_metrics(results) if self.rank == 0 else {}
        self.results.clear()
        return metrics
# --- accuracy.py
import torch

from metric import BaseMetric

class Accuracy(BaseMetric):
    def process(self, batch, outputs):
        self.results.append({"scores": outputs["scores"].softmax(1), "label": batch["label"]})

    def compute_metrics(self, results):
        scores = torch.cat([result["scores"] for result in results])
        labels = torch.cat([result["label"] for result in results])
        chances = scores.gather(1, labels[:, None])
        return {"accuracy": (scores.argmax(1) == labels).float().mean().item(), "chance": chances.mean().item()}

# === spots_that_touch
# thread: https://github.com/open-edge-platform/anomalib/pull/2924
# about: how well spoilt places in pictures are found is measured place by place. Which pixels belong to one place is found out by a library that knows arrays
# operation: index on cpu, cuda:0
# operands: self|target|indices|.*
# error: indices should be either on|on the same device
# category: input-not-moved|created-without-device
# line: aupro.py: components = connected_components(
# line: components.py: return torch.from_numpy(
# line: aupro.py: fpr, tpr, _ = binary_roc(
# line: aupro.py: target = (components == label)
# repair: aupro.py: components = connected_components(target) -> components = connected_components(target).to(preds.device)
import torch

from aupro import AUPRO
from pictures import make_pictures

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
metric = AUPRO(fpr_limit=0.3).to(device)
for seed in range(2):
    maps, masks = make_pictures(count=3, size=12, seed=seed)
    metric.update(maps.to(device), masks.to(device))
print("AUPRO", round(metric.compute().item(), 4))
# --- pictures.py
import torch

def make_pictures(count, size, seed):
    """Maps of how odd each pixel looks, and masks of what is spoilt."""
    draw = torch.Generator().manual_seed(seed)
    masks = torch.zeros(count, size, size, dtype=torch.int64)
    for mask in masks:
        for _ in range(2):
            top, left = torch.randint(0, size - 3, (2,), generator=draw).tolist()
            mask[top : top + 3, left : left + 3] = 1
    maps = torch.rand(count, size, size, generator=draw) + 0.4 * masks
    return maps / maps.amax(), masks
# --- components.py
import numpy as np
import torch
from scipy import ndimage

def connected_components(masks):
    labelled, last = [], 0
    for mask in masks.cpu().numpy():
        found, count = ndimage.label(mask)
        labelled.append(np.where(found > 0, found + last, 0))
        last += count
    return torch.from_numpy(np.stack(labelled))
# --- aupro.py
import torch
from torchmetrics import Metric
from torchmetrics.functional.classification import binary_roc
from torchmetrics.utilities import dim_zero_cat

from components import connected_components

class AUPRO(Metric):
    def __init__(self, fpr_limit):
        super().__init__()
        self.add_state("preds", default=[], dist_reduce_fx="cat")
        self.add_state("target", default=[], dist_reduce_fx="cat")
        self.register_buffer("fpr_limit", torch.tensor(fpr_limit))

    def update(self, preds, target):
        self.preds.append(preds)
        self.target.append(target)

    def compute(self):
        preds, target = dim_zero_cat(self.preds), dim_zero_cat(self.target)
        components = connected_components(target)
        background, areas = components == 0, []
        for label in components.unique()[1:].tolist():
            kept = background | (components == label)
            target = (components == label)[kept].long()
            fpr, tpr, _ = binary_roc(preds[kept], target)
            inside = fpr <= self.fpr_limit
            areas.append(torch.trapezoid(tpr[inside], fpr[inside]) / self.fpr_limit)
        return torch.stack(areas).mean()
