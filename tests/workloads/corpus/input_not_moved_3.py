# === predict_on_cpu
# thread: https://github.com/shenweichen/DeepCTR-Torch/issues/272
# about: the model as a whole has left the device that it still writes down as its own
# operation: index_select|embedding|addmm|linear on cpu, cuda:0
# operands: weight|bias, x|ids|input|X
# category: input-not-moved|state-not-registered|cached-state
# line: base_model.py: self.device =
# line: base_model.py: x = torch.from_numpy(batch).to(self.device)
# line: main.py: model.to("cpu")
# repair: base_model.py: x = torch.from_numpy(batch).to(self.device) -> x = torch.from_numpy(batch).to(next(self.parameters()).device)
import numpy
import torch

from base_model import FactorizationModel

torch.manual_seed(0)
ids = (numpy.arange(24).reshape(8, 3) * 5 % 20).astype("int64")
clicks = (ids.sum(1) % 2).astype("float32")
model = FactorizationModel(20, 4, device="cuda:0")
model.fit(ids, clicks, epochs=2)
model.to("cpu")
print("clicks", [round(float(p), 3) for p in model.predict(ids)][:3])
# --- base_model.py
import numpy
import torch
from torch import nn


class BaseModel(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device

    def fit(self, x, y, epochs):
        self.to(self.device)
        optimizer = torch.optim.Adam(self.parameters(), lr=0.05)
        x, y = torch.from_numpy(x).to(self.device), torch.from_numpy(y).to(self.device)
        for _ in range(epochs):
            loss = nn.functional.binary_cross_entropy(self(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    @torch.no_grad()
    def predict(self, x, batch_size=4):
        answers = []
        for batch in numpy.split(x, len(x) // batch_size):
            x = torch.from_numpy(batch).to(self.device)
            answers.append(self(x).cpu().numpy())
        return numpy.concatenate(answers)


class FactorizationModel(BaseModel):
    def __init__(self, features, width, device):
        super().__init__(device)
        self.embedding, self.linear = nn.Embedding(features, width), nn.Embedding(features, 1)

    def forward(self, x):
        vectors = self.embedding(x)
        pairs = vectors.sum(1).square() - vectors.square().sum(1)
        return torch.sigmoid(self.linear(x).sum((1, 2)) + 0.5 * pairs.sum(1))

# === priority_replay
# thread: https://github.com/reiniscimurs/DRL-robot-navigation/issues/142
# operation: mul on cuda:0, cpu
# operands: reward|done, target_Q
# category: input-not-moved|created-without-device
# line: reward = torch.Tensor(
# line: done = torch.Tensor(
# line: target_Q = reward +
# repair: reward = torch.Tensor(batch_rewards) -> reward = torch.Tensor(batch_rewards).to(device)
# repair: done = torch.Tensor(batch_dones) -> done = torch.Tensor(batch_dones).to(device)
import random

import numpy as np
import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # cuda or cpu
seed = 0
torch.manual_seed(seed)
np.random.seed(seed)
random.seed(seed)


class Actor(nn.Module):
    def __init__(self, state_dim, action_dim):
        super(Actor, self).__init__()
        self.layer = nn.Linear(state_dim, action_dim)

    def forward(self, s):
        return torch.tanh(self.layer(s))


class Critic(nn.Module):
    def __init__(self, state_dim, action_dim):
        super(Critic, self).__init__()
        self.layer = nn.Linear(state_dim + action_dim, 1)

    def forward(self, s, a):
        return self.layer(torch.cat([s, a], 1))


class TD3(object):
    def __init__(self, state_dim, action_dim, discount=0.99):
        self.actor_target = Actor(state_dim, action_dim).to(device)
        self.critic = Critic(state_dim, action_dim).to(device)
        self.discount = discount

    def to_priority(self, batch_states, batch_actions, batch_rewards, batch_dones, batch_next_states):
        state = torch.Tensor(batch_states).to(device)
        next_state = torch.Tensor(batch_next_states).to(device)
        action = torch.Tensor(batch_actions).to(device)
        reward = torch.Tensor(batch_rewards)
        done = torch.Tensor(batch_dones)
        with torch.no_grad():
            target_Q = self.critic(next_state, self.actor_target(next_state))
            target_Q = reward + self.discount * (1 - done) * target_Q
            return (target_Q - self.critic(state, action)).abs()


network = TD3(state_dim=5, action_dim=2)
transitions = [(np.random.rand(5), np.random.rand(2), [1.0], [float(i == 5)], np.random.rand(5)) for i in range(6)]
batch = [np.array(column) for column in zip(*random.sample(transitions, 4))]
priority = network.to_priority(*batch)
print("priorities", np.round(priority.cpu().numpy().ravel(), 3))

# === rotary_pos_list
# thread: https://github.com/AutoGPTQ/AutoGPTQ/issues/370
# about: what is a tensor was moved; the rotary positions are a list of tensors among the keyword arguments, kept on the CPU by a forward pass that never ended
# operation: mul on cuda:0, cpu
# operands: query|hidden_states|x|t, cos|rotary_pos_emb|rotary_pos_emb\[0\]
# category: input-not-moved
# line: quantizer.py: kept[key] = value
# line: quantizer.py: kept[key] = value.to(device) if isinstance(value, torch.Tensor) else value
# repair: quantizer.py: kept[key] = value.to(device) if isinstance(value, torch.Tensor) else value -> kept[key] = [each.to(device) for each in value] if isinstance(value, list) else value.to(device) if isinstance(value, torch.Tensor) else value
import torch

from modeling import Model
from quantizer import Quantizer

torch.manual_seed(0)
model = Model(16, layers=2)
examples = [torch.randint(0, 30, (1, 5)) for _ in range(3)]
errors = Quantizer(model, bits=4).quantize(examples, "cuda:0")
print("rounded", [round(each, 4) for each in errors])
# --- modeling.py
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, hidden_states, rotary_pos_emb_list=None, attention_mask=None):
        query = self.c_attn(hidden_states)
        cos, sin = rotary_pos_emb_list
        query = query * cos + query.roll(1, -1) * sin
        return hidden_states + self.c_proj(query * attention_mask[..., None])


class Model(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.wte = nn.Embedding(30, width)
        self.h = nn.ModuleList(Block(width) for _ in range(layers))

    def forward(self, input_ids):
        hidden_states = self.wte(input_ids)
        angle = torch.arange(input_ids.shape[1])[:, None] / torch.arange(1, hidden_states.shape[-1] + 1)
        rotary_pos_emb_list = [angle.cos(), angle.sin()]
        mask = torch.ones(input_ids.shape)
        for block in self.h:
            hidden_states = block(hidden_states, rotary_pos_emb_list=rotary_pos_emb_list, attention_mask=mask)
        return hidden_states
# --- quantizer.py
import torch


class Caught(Exception):
    """The inputs of the first layer are known: the rest of the model need not run."""


class Quantizer:
    """Layer by layer on the GPU; the model itself stays on the CPU."""

    def __init__(self, model, bits):
        self.model, self.bits = model, bits
        self.inputs, self.kwargs = [], []

    def store(self, module, args, kwargs):
        self.inputs.append(args[0])
        self.kwargs.append(kwargs)
        raise Caught

    def collect(self, examples, device):
        hook = self.model.h[0].register_forward_pre_hook(self.store, with_kwargs=True)
        for example in examples:
            try:
                self.model(example)
            except Caught:
                pass
        hook.remove()
        self.inputs = [each.to(device) for each in self.inputs]
        moved = []
        for kwargs in self.kwargs:
            kept = {}
            for key, value in kwargs.items():
                kept[key] = value.to(device) if isinstance(value, torch.Tensor) else value
            moved.append(kept)
        self.kwargs = moved

    @torch.no_grad()
    def quantize(self, examples, device):
        self.collect(examples, device)
        errors = []
        for block in self.model.h:
            block.to(device)
            before = [block(each, **kwargs) for each, kwargs in zip(self.inputs, self.kwargs)]
            for weight in block.parameters():
                scale = weight.abs().max() / 2 ** (self.bits - 1)
                weight.copy_((weight / scale).round() * scale)
            after = [block(each, **kwargs) for each, kwargs in zip(self.inputs, self.kwargs)]
            errors.append(sum((one - other).square().mean().item() for one, other in zip(before, after)))
            self.inputs = after
            block.to("cpu")
        return errors

# === schedule_sampler
# thread: https://github.com/huggingface/accelerate/issues/2251
# about: .to() is called, its result is thrown away
# operation: embedding|index_select on cuda:0, cpu
# operands: t|input|indices, weight
# category: input-not-moved|created-without-device
# line: t.to(batch.device)
# line: t = th.from_numpy(
# repair: t.to(batch.device) -> t = t.to(batch.device)
# repair: weights.to(batch.device) -> weights = weights.to(batch.device)
import numpy as np
import torch as th
import torch.nn as nn


class LossSecondMomentResampler:
    """Takes the steps more often whose loss has been large."""

    def __init__(self, num_timesteps):
        self._loss_history = np.linspace(1, 2, num_timesteps)
        self._random = np.random.RandomState(2251)

    def sample(self, batch_size):
        p = self._loss_history / np.sum(self._loss_history)
        indices_np = self._random.choice(len(p), size=(batch_size,), p=p)
        t = th.from_numpy(indices_np).long()
        weights = th.from_numpy(1 / (len(p) * p[indices_np])).float()
        return t, weights


class Denoiser(nn.Module):
    def __init__(self, num_timesteps, dim):
        super().__init__()
        self.time_embed = nn.Embedding(num_timesteps, dim)
        self.net = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, t):
        return self.net(x + self.time_embed(t))


def run_step(model, sampler, opt, batch):
    opt.zero_grad()
    t, weights = sampler.sample(batch.shape[0])
    t.to(batch.device)
    weights.to(batch.device)
    losses = (model(batch, t) - batch).pow(2).mean(dim=1)
    loss = (losses * weights).mean()
    loss.backward()
    opt.step()
    return loss.item()


th.manual_seed(0)
model = Denoiser(num_timesteps=10, dim=6).to("cuda")
opt = th.optim.AdamW(model.parameters(), lr=1e-3)
sampler = LossSecondMomentResampler(10)
data = th.randn(2, 8, 6)
print("losses", [round(run_step(model, sampler, opt, part.to("cuda")), 3) for part in data])

# === slice_sampler_stops
# thread: https://github.com/pytorch/rl/issues/2207
# about: the storage lies on the GPU, the tree of priorities on the CPU; both are right where they are
# operation: eq on cpu, cuda:0
# operands: index, stop_idx
# category: input-not-moved|cached-state|
# line: owner = index.unsqueeze(0) == stop_idx.unsqueeze(1)
# line: index = torch.multinomial(
# line: stop_idx =
# repair: owner = index.unsqueeze(0) == stop_idx.unsqueeze(1) -> owner = index.unsqueeze(0) == stop_idx.unsqueeze(1).to(index.device)
import torch


class Storage:
    def __init__(self, capacity, device):
        self.data, self.device, self.capacity = {}, torch.device(device), capacity

    def extend(self, items):
        self.data = {key: value[: self.capacity].to(self.device) for key, value in items.items()}

    def __getitem__(self, key):
        return self.data[key]


class PrioritizedSlices:
    def __init__(self, length, alpha=0.7):
        self.length, self.alpha = length, alpha
        self.priorities = None

    def fill(self, size):
        self.priorities = torch.linspace(0.5, 1.0, size) ** self.alpha

    def ends(self, storage):
        trajectory = storage["trajectory"]
        last = torch.ones_like(trajectory, dtype=torch.bool)
        last[:-1] = trajectory[1:] != trajectory[:-1]
        return last.nonzero().squeeze(-1)

    def sample(self, storage, number):
        index = torch.multinomial(self.priorities, number, generator=torch.Generator().manual_seed(0))
        stop_idx = self.ends(storage)
        owner = index.unsqueeze(0) == stop_idx.unsqueeze(1)
        index = (index - owner.any(0).long() * self.length).clamp(min=0)
        return index[:, None] + torch.arange(self.length)


class Replay:
    def __init__(self, storage, sampler):
        self.storage, self.sampler = storage, sampler

    def extend(self, items):
        self.storage.extend(items)
        self.sampler.fill(len(items["steps"]))

    def sample(self, number):
        index = self.sampler.sample(self.storage, number).clamp(max=9).to(self.storage.device)
        return self.storage["steps"][index]


replay = Replay(Storage(20, "cuda:0"), PrioritizedSlices(length=2))
replay.extend({"trajectory": torch.tensor([3, 3, 0, 1, 1, 1, 2, 2, 2, 3]), "steps": torch.arange(10)})
print("sampled", replay.sample(6).sum().item())

# === strats_collate
# thread: https://github.com/Oufattole/meds-torch/pull/16
# about: the move stands there, and its result is dropped; the lengths behind it are moved rightly; the tensor goes through nested dicts
# operation: index_select|embedding on cpu, cuda:0
# operands: weight|self.code_embedding.weight|code_embedding.weight|.*weight, codes|input|.*code.*
# category: input-not-moved
# line: collate.py: tensors.to(device)
# repair: collate.py: tensors.to(device) -> tensors = tensors.to(device)
import torch

from collate import collate_triplets
from model import TripletEncoder

torch.manual_seed(0)
samples = [{"code": [1, 4, 2], "value": [0.1, 0.2, 0.3]}, {"code": [3], "value": [0.7]}, {"code": [5, 6], "value": [0.4, 0.9]}]
loader = torch.utils.data.DataLoader(samples, batch_size=2, collate_fn=lambda batch: collate_triplets(batch, device="cuda:0"))
model = TripletEncoder(codes=8, width=6).to("cuda:0")
with torch.no_grad():
    sums = [round(model(batch).sum().item(), 4) for batch in loader]
print("encoded", sums)
# --- collate.py
import torch
from torch.nn.utils.rnn import pad_sequence

DTYPES = {"code": torch.long, "value": torch.float32}


def collate_values(samples, key, device):
    tensors = pad_sequence([torch.tensor(each[key], dtype=DTYPES[key]) for each in samples], batch_first=True)
    tensors.to(device)
    return tensors


def collate_triplets(samples, device=None):
    """{"early_fusion": {"code", "value", "length"}}, padded."""
    early = {key: collate_values(samples, key, device) for key in ("code", "value")}
    early["length"] = torch.tensor([len(each["code"]) for each in samples]).to(device)
    return {"early_fusion": early}
# --- model.py
import torch
from torch import nn


class TripletEncoder(nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.code_embedding, self.value_embedding = nn.Embedding(codes, width), nn.Linear(1, width)

    def forward(self, batch):
        view = batch["early_fusion"]
        embedded = self.embed(view["code"], view["value"])
        mask = torch.arange(embedded.shape[1], device=embedded.device)[None] < view["length"][:, None]
        return (embedded * mask[..., None]).sum(1) / view["length"][:, None]

    def embed(self, codes, values):
        return self.code_embedding(codes) + self.value_embedding(values[..., None])

# === text_perplexity
# thread: https://github.com/asahi417/lmppl/pull/12
# operation: nll_loss|cross_entropy on cuda:0, cpu
# operands: target|labels|label, logits|input|loss|valid_length
# category: input-not-moved
# line: label = model_inputs["input_ids"]
# line: loss = self.loss_fct(
# line: output = self.model(
# repair: label = model_inputs["input_ids"] -> label = model_inputs["input_ids"].to(self.device)
import torch
from torch import nn


class Tokenizer:
    pad_token_id = 0

    def __call__(self, texts, length):
        rows = [[ord(c) % 31 + 1 for c in text][:length] for text in texts]
        ids = torch.tensor([row + [self.pad_token_id] * (length - len(row)) for row in rows])
        return {"input_ids": ids, "attention_mask": ids.ne(self.pad_token_id)}


class TinyLM(nn.Module):
    def __init__(self, vocabulary=32, width=8):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(vocabulary, width), nn.GRU(width, width, batch_first=True), nn.Linear(width, vocabulary)

    def forward(self, input_ids, attention_mask):
        hidden = self.embed(input_ids) * attention_mask.unsqueeze(-1)
        return self.head(self.rnn(hidden)[0])


class LM:
    def __init__(self, device):
        self.device = device
        self.tokenizer, self.model = Tokenizer(), TinyLM().to(device).eval()
        self.loss_fct = nn.CrossEntropyLoss(reduction="none")

    @torch.no_grad()
    def get_perplexity(self, texts):
        model_inputs = self.tokenizer(texts, length=12)
        output = self.model(**{name: value.to(self.device) for name, value in model_inputs.items()})
        label = model_inputs["input_ids"]
        label[label == self.tokenizer.pad_token_id] = -100
        shift_logits, shift_label = output[:, :-1].transpose(1, 2), label[:, 1:]
        loss = self.loss_fct(shift_logits, shift_label)
        length = (shift_label != -100).sum(-1)
        return (loss.sum(-1) / length).exp().tolist()


torch.manual_seed(0)
scorer = LM("cuda:0")
print("perplexity", [round(value, 2) for value in scorer.get_perplexity(["sentiment: happy", "dog"])])
