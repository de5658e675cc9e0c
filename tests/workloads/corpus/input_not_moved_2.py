# === harness_tokens
# thread: https://github.com/bigscience-workshop/lm-evaluation-harness/pull/72
# about: a base class calls what the subclass makes of the device
# operation: index_select|embedding on cpu, cuda:0
# operands: weight|wte.weight, input|inputs|context_enc|inp|tokens
# category: input-not-moved|created-without-device
# line: lm.py: inp = torch.tensor(
# line: lm.py: logits = self._model_call(
# repair: lm.py: inp = torch.tensor([(context + continuation)[-self.max_length - 1 : -1]]) -> inp = torch.tensor([(context + continuation)[-self.max_length - 1 : -1]], device=self.device)
import torch

from lm import CausalLM

torch.manual_seed(0)
lm = CausalLM(vocabulary=32, device="cuda:0")
requests = [("two plus two is", " four"), ("the sky is", " blue")]
print("scores", [round(score, 3) for score in lm.loglikelihood(requests)])
# --- lm.py
import abc

import torch
from torch import nn


class BaseLM(abc.ABC):
    @property
    @abc.abstractmethod
    def device(self): ...

    @abc.abstractmethod
    def tok_encode(self, text): ...

    @abc.abstractmethod
    def _model_call(self, inputs): ...

    def loglikelihood(self, requests):
        return self._loglikelihood_tokens([(self.tok_encode(context), self.tok_encode(answer)) for context, answer in requests])

    def _loglikelihood_tokens(self, requests):
        scores = []
        for context, continuation in requests:
            inp = torch.tensor([(context + continuation)[-self.max_length - 1 : -1]])
            logits = self._model_call(inp).log_softmax(-1)[0, -len(continuation) :].cpu()
            scores.append(logits.gather(1, torch.tensor(continuation)[:, None]).sum().item())
        return scores


class CausalLM(BaseLM):
    max_length = 16

    def __init__(self, vocabulary, device):
        self._device, self.vocabulary = torch.device(device), vocabulary
        self.wte, self.rnn, self.head = nn.Embedding(vocabulary, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, vocabulary)
        for module in (self.wte, self.rnn, self.head):
            module.to(self._device)

    @property
    def device(self):
        return self._device

    def tok_encode(self, text):
        return [ord(letter) % self.vocabulary for letter in text]

    @torch.no_grad()
    def _model_call(self, inputs):
        return self.head(self.rnn(self.wte(inputs))[0])

# === induced_subgraph
# thread: https://github.com/pyg-team/pytorch_geometric/issues/8817
# operation: index on cuda:0, cpu
# operands: node_mask, edge_index|select
# category: input-not-moved|created-without-device
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# line: subset = largest_component(
# line: node_mask = torch.zeros(
# line: edge_mask = node_mask[
# repair: subset = largest_component(data.edge_index, len(data.x)) -> subset = largest_component(data.edge_index, len(data.x)).to(data.x.device)
import dataclasses

import numpy as np
import torch
from torch import nn


@dataclasses.dataclass
class Data:
    x: torch.Tensor
    edge_index: torch.Tensor

    def to(self, device):
        return Data(**{f.name: getattr(self, f.name).to(device) for f in dataclasses.fields(self)})


def largest_component(edge_index, num_nodes):
    label = np.arange(num_nodes)
    source, target = edge_index.cpu().numpy()
    for _ in range(num_nodes):
        np.minimum.at(label, target, label[source])
        np.minimum.at(label, source, label[target])
    return torch.from_numpy(np.flatnonzero(label == np.bincount(label).argmax()))


def subgraph(subset, edge_index, num_nodes):
    node_mask = torch.zeros(num_nodes, dtype=torch.bool, device=subset.device)
    node_mask[subset] = True
    edge_mask = node_mask[edge_index[0]] & node_mask[edge_index[1]]
    return edge_index[:, edge_mask]


class EdgeConv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mlp = nn.Linear(2 * dim, dim)

    def forward(self, x, edge_index):
        source, target = edge_index
        messages = self.mlp(torch.cat((x[target], x[source] - x[target]), dim=1))
        return torch.zeros_like(x).index_add(0, target, messages)


torch.manual_seed(8817)
data = Data(torch.randn(7, 4), torch.tensor([[0, 1, 2, 3, 5], [1, 2, 0, 0, 6]])).to("cuda:0")
conv = EdgeConv(4).to("cuda:0")
subset = largest_component(data.edge_index, len(data.x))
edge_index = subgraph(subset, data.edge_index, len(data.x))
print("edges", edge_index.size(1), "out", round(conv(data.x, edge_index).sum().item(), 4))

# === iou_metric
# thread: https://github.com/Lightning-AI/torchmetrics/issues/275
# about: the metric can be moved, but nobody did; it is no part of the model
# operation: add on cuda:0, cpu
# operands: self.confmat|confmat, bins
# category: input-not-moved|state-not-registered
# line: main.py: iou = IoU(
# line: main.py: iou(model(
# line: metric.py: self.confmat += bins
# repair: main.py: iou = IoU(num_classes=3) -> iou = IoU(num_classes=3).to(device)
import torch

from metric import IoU

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(275)

model = torch.nn.Conv2d(2, 3, kernel_size=1).to(device).eval()
iou = IoU(num_classes=3)

with torch.no_grad():
    for _ in range(2):
        image = torch.randn(2, 2, 5, 5).to(device)
        target = torch.randint(0, 3, (2, 5, 5)).to(device)
        iou(model(image).argmax(dim=1), target)

print(f"IoU: {iou.compute().item():.4f}")
# --- metric.py
from torch import nn
import torch


class Metric(nn.Module):
    """Keeps states that grow with every batch; what .to() does to a module, it does to them."""

    def __init__(self):
        super().__init__()
        self._states = []

    def add_state(self, name, default):
        self._states.append(name)
        setattr(self, name, default)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        for name in self._states:
            setattr(self, name, fn(getattr(self, name)))
        return self

    def forward(self, preds, target):
        self.update(preds, target)


class IoU(Metric):
    def __init__(self, num_classes):
        super().__init__()
        self.num_classes = num_classes
        self.add_state("confmat", default=torch.zeros(num_classes, num_classes, dtype=torch.long))

    def update(self, preds, target):
        unique = (target * self.num_classes + preds).flatten()
        bins = torch.bincount(unique, minlength=self.num_classes**2).reshape(self.num_classes, self.num_classes)
        self.confmat += bins

    def compute(self):
        confmat = self.confmat.float()
        intersection = confmat.diagonal()
        return (intersection / (confmat.sum(0) + confmat.sum(1) - intersection)).mean()

# === merge_hada
# thread: https://github.com/KohakuBlueleaf/LyCORIS/issues/87
# about: two checkpoints; the device of the merge was asked for and applied to one of them
# operation: add|mul on cpu, cuda:0
# operands: orig_weight|original, diff|delta|scale
# category: input-not-moved|module-split
# line: return orig_weight +
# line: merge(model.state_dict(), adapter
# line: adapter = {
# repair: return orig_weight + scale * diff -> return orig_weight + scale * diff.to(orig_weight.device)
import torch
from torch import nn


def rebuild_weight(factors, orig_weight, scale):
    diff = (factors["w1_a"] @ factors["w1_b"]) * (factors["w2_a"] @ factors["w2_b"])
    return orig_weight + scale * diff


@torch.no_grad()
def merge(state, adapter, scale, device):
    adapter = {name: {key: value.to(device) for key, value in factors.items()} for name, factors in adapter.items()}
    merged = {}
    for name, weight in state.items():
        merged[name] = rebuild_weight(adapter[name], weight, scale) if name in adapter else weight
    return merged


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
adapter = {}
for name, weight in model.state_dict().items():
    if weight.ndim == 2:
        rows, columns = weight.shape
        adapter[name] = {"w1_a": torch.randn(rows, 2), "w1_b": torch.randn(2, columns), "w2_a": torch.randn(rows, 2), "w2_b": torch.randn(2, columns)}
model.load_state_dict(merge(model.state_dict(), adapter, 0.1, device="cuda:0"))
print("merged", round(model(torch.ones(1, 6)).sum().item(), 4))

# === mo_agent
# thread: https://github.com/LucasAlegre/morl-baselines/issues/153
# about: the device stands where the seed is wanted: the base class goes to its default
# operation: addmm|linear|mm on cuda:1, cuda:0
# operands: observation|obs|x, weight|bias|.*\.weight|.*\.bias
# category: input-not-moved|default-or-current-device|module-split
# line: agents.py: super().__init__(observation_size, reward_size, device)
# repair: agents.py: super().__init__(observation_size, reward_size, device) -> super().__init__(observation_size, reward_size, device=device)
import torch

from agents import Envelope

torch.manual_seed(0)
agent = Envelope(4, 2, action_size=3, device="cuda:1")
chosen = [agent.act([0.1 * step, 0.2, -0.3, 0.4], [0.5, 0.5]) for step in range(4)]
print("chosen", chosen, round(agent.update([[0.1, 0.2, 0.3, 0.4]] * 4, [[0.5, 0.5]] * 4), 4))
# --- agents.py
import torch
from torch import nn


class MOAgent:
    def __init__(self, observation_size, reward_size, seed=None, device="cuda:0"):
        self.observation_size, self.reward_size = observation_size, reward_size
        self.seed = seed
        self.device = torch.device(device)

    def tensor(self, values):
        return torch.tensor(values, device=self.device)


class QNet(nn.Module):
    def __init__(self, observation_size, reward_size, action_size, width=16):
        super().__init__()
        self.reward_size = reward_size
        self.state_features = nn.Linear(observation_size, width)
        self.weight_features = nn.Linear(reward_size, width)
        self.net = nn.Linear(width, action_size * reward_size)

    def forward(self, observation, weights):
        features = self.state_features(observation) * self.weight_features(weights)
        return self.net(features).view(*features.shape[:-1], -1, self.reward_size)


class Envelope(MOAgent):
    def __init__(self, observation_size, reward_size, action_size, device):
        super().__init__(observation_size, reward_size, device)
        self.q_net = QNet(observation_size, reward_size, action_size).to(device)
        self.target_q_net = QNet(observation_size, reward_size, action_size).to(device)
        self.target_q_net.load_state_dict(self.q_net.state_dict())
        self.optimizer = torch.optim.Adam(self.q_net.parameters(), lr=1e-2)

    @torch.no_grad()
    def act(self, observation, weights):
        observation, weights = self.tensor(observation), self.tensor(weights)
        return (self.q_net(observation, weights) @ weights).argmax().item()

    def update(self, observations, weights):
        observations, weights = self.tensor(observations), self.tensor(weights)
        loss = (self.q_net(observations, weights) - 0.9 * self.target_q_net(observations, weights).detach()).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

# === packed_lengths
# thread: https://github.com/pytorch/pytorch/issues/43227
# operation: pack_padded_sequence on cuda:0
# operands: lengths
# category: input
# error: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor
# line: packed = pack_padded_sequence(
# line: batch = {name: value.to(
# repair: packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False) -> packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 8, padding_idx=0)
        self.rnn = nn.GRU(8, 12, batch_first=True)
        self.head = nn.Linear(12, 1)

    def forward(self, text, lengths):
        embedded = self.embedding(text)
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        _, hidden = self.rnn(packed)
        return self.head(hidden[-1]).squeeze(-1)


def collate(sentences):
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    return {"text": pad_sequence(sentences, batch_first=True), "lengths": lengths}


torch.manual_seed(0)
model = Sentiment().to("cuda:0")
batch = collate([torch.randint(1, 32, (length,)) for length in (3, 7, 5)])
batch = {name: value.to("cuda:0") for name, value in batch.items()}
print("sentiment", [round(value, 3) for value in model(**batch).tolist()])

# === ppo_logprobs
# thread: https://github.com/shibing624/MedicalGPT/issues/420
# about: the policy's last layers, the reward model and the queries are each where their author wanted them
# operation: gather on cuda:1, cuda:0
# operands: logp, labels|index
# category: input-not-moved|module-split
# line: ppo.py: logprobs = token_logprobs(
# line: core.py: return logp.gather(
# line: policy.py: return self.lm_head(hidden),
# repair: ppo.py: logprobs = token_logprobs(logits[:, :-1, :], input_ids[:, 1:]) -> logprobs = token_logprobs(logits[:, :-1, :].to(input_ids.device), input_ids[:, 1:])
import torch

from policy import CausalLMWithValueHead, RewardModel
from ppo import PPOTrainer


def collate(queries, pad=0):
    width = max(map(len, queries))
    ids = torch.tensor([query + [pad] * (width - len(query)) for query in queries])
    return {"input_ids": ids, "attention_mask": (ids != pad).long()}


torch.manual_seed(0)
policy = CausalLMWithValueHead(blocks=4, devices=["cuda:0", "cuda:1"])
reward_model = RewardModel().to("cuda:0")
trainer = PPOTrainer(policy, reward_model)
batch = collate([[4, 7, 1, 9], [3, 3, 12], [8, 2, 6, 11]])
for _ in range(2):
    stats = trainer.step({name: value.to("cuda:0") for name, value in batch.items()})
print({name: round(value, 3) for name, value in stats.items()})
# --- core.py
def token_logprobs(logits, labels):
    """The log probability that each label had."""
    logp = logits.log_softmax(-1)
    index = labels[..., None]
    return logp.gather(-1, index)[..., 0]


def masked_mean(values, mask):
    return (values * mask).sum() / mask.sum()
# --- policy.py
import torch
from torch import nn


class CausalLMWithValueHead(nn.Module):
    """The first half of the blocks on one device, the rest and the heads on another."""

    def __init__(self, blocks, devices, vocabulary=16, width=8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width).to(devices[0])
        half = blocks // 2
        self.stages = nn.ModuleList(
            nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(half))).to(device) for device in devices
        )
        self.lm_head = nn.Linear(width, vocabulary).to(devices[-1])
        self.v_head = nn.Linear(width, 1).to(devices[-1])

    def forward(self, input_ids):
        hidden = self.embed(input_ids)
        for stage in self.stages:
            hidden = stage(hidden.to(stage[0][0].weight.device))
        return self.lm_head(hidden), self.v_head(hidden).squeeze(-1)


class RewardModel(nn.Module):
    def __init__(self, vocabulary=16):
        super().__init__()
        self.score = nn.EmbeddingBag(vocabulary, 1)

    def forward(self, input_ids):
        return torch.tanh(self.score(input_ids)).squeeze(-1)
# --- ppo.py
import torch

from core import token_logprobs, masked_mean


class PPOTrainer:
    def __init__(self, policy, reward_model, lr=1e-2, clip=0.2):
        self.policy, self.reward_model, self.clip = policy, reward_model, clip
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=lr)
        self.old_logprobs = None

    def step(self, batch):
        input_ids, mask = batch["input_ids"], batch["attention_mask"][:, 1:]
        with torch.no_grad():
            scores = self.reward_model(input_ids)
        logits, values = self.policy(input_ids)
        logprobs = token_logprobs(logits[:, :-1, :], input_ids[:, 1:])
        values = values[:, :-1].to(logprobs.device)
        if self.old_logprobs is None:
            self.old_logprobs = logprobs.detach()
        advantages = scores[:, None].to(logprobs.device) - values.detach()
        ratio = torch.exp(logprobs - self.old_logprobs)
        clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
        mask = mask.to(logprobs.device)
        pg_loss = masked_mean(torch.max(-advantages * ratio, -advantages * clipped), mask)
        vf_loss = masked_mean((values - scores[:, None].to(values.device)).square(), mask)
        self.optimizer.zero_grad()
        (pg_loss + 0.1 * vf_loss).backward()
        self.optimizer.step()
        return {"policy": pg_loss.item(), "value": vf_loss.item()}

# === ppo_response_mask
# thread: https://github.com/huggingface/trl/issues/1691
# about: masks of responses go through a list, padding and three methods
# operation: mul on cuda:0, cpu
# operands: values, mask|masks
# category: input-not-moved|created-without-device
# line: masks.append(torch.cat((torch.zeros(len(query) - 1), torch.ones(len(response)))))
# repair: masks.append(torch.cat((torch.zeros(len(query) - 1), torch.ones(len(response))))) -> masks.append(torch.cat((torch.zeros(len(query) - 1), torch.ones(len(response)))).to(query.device))
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence


class ValueHeadModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.body = nn.Embedding(vocabulary, width), nn.GRU(width, width, batch_first=True)
        self.lm_head, self.v_head = nn.Linear(width, vocabulary), nn.Linear(width, 1)

    def forward(self, input_ids):
        hidden, _ = self.body(self.embed(input_ids))
        return self.lm_head(hidden), self.v_head(hidden).squeeze(-1)


def masked_mean(values, mask):
    return (values * mask).sum() / mask.sum()


class PPOTrainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def batched_forward_pass(self, queries, responses):
        input_ids = pad_sequence([torch.cat(pair) for pair in zip(queries, responses)], batch_first=True)
        logits, values = self.model(input_ids)
        logprobs = logits[:, :-1].log_softmax(-1).gather(2, input_ids[:, 1:, None]).squeeze(2)
        masks = []
        for query, response in zip(queries, responses):
            masks.append(torch.cat((torch.zeros(len(query) - 1), torch.ones(len(response)))))
        return logprobs, values[:, :-1], pad_sequence(masks, batch_first=True)

    def compute_advantages(self, values, rewards, mask):
        values = values * mask
        return rewards[:, None] * mask - values

    def step(self, queries, responses, scores):
        logprobs, values, masks = self.batched_forward_pass(queries, responses)
        advantages = self.compute_advantages(values, scores, masks)
        loss = masked_mean(advantages.square(), masks) - masked_mean(logprobs * advantages.detach(), masks)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
model = ValueHeadModel(13, 8).to("cuda:0")
queries = [torch.randint(1, 13, (n,)).to("cuda:0") for n in (3, 4)]
responses = [torch.randint(1, 13, (n,)).to("cuda:0") for n in (2, 5)]
print("loss", round(PPOTrainer(model).step(queries, responses, torch.tensor([1.0, -1.0]).to("cuda:0")), 3))
