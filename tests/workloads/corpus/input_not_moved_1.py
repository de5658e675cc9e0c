# === activation_rows
# thread: https://github.com/steering-vectors/steering-vectors/pull/40
# operation: index on cuda:0, cuda:1
# operands: rows|last, activation
# category: input|module-split
# error: indices should be either on cpu or on the same device as the indexed tensor
# line: return {name: activation[rows, last]
# line: rows = torch.arange(
# repair: return {name: activation[rows, last] for name, activation in record.items()} -> return {name: activation[rows.to(activation.device), last.to(activation.device)] for name, activation in record.items()}
import contextlib

import torch
from accelerate import dispatch_model
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, input_ids):
        hidden = self.embed(input_ids)
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden))
        return hidden


@contextlib.contextmanager
def record_activations(model):
    record, handles = {}, []
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            def keep(module, args, output, name=name):
                record[name] = output.detach()
            handles.append(module.register_forward_hook(keep))
    yield record
    for handle in handles:
        handle.remove()


def extract(model, input_ids, mask):
    with record_activations(model) as record:
        model(input_ids)
    rows = torch.arange(len(input_ids), device=input_ids.device)
    last = mask.sum(dim=1) - 1
    return {name: activation[rows, last] for name, activation in record.items()}


torch.manual_seed(0)
model = dispatch_model(Decoder(), {"embed": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1})
mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]).to("cuda:0")
vectors = extract(model, torch.randint(1, 32, (2, 4)).to("cuda:0"), mask)
print("vectors", {name: round(vector.sum().item(), 3) for name, vector in vectors.items()})

# === assisted_candidates
# thread: https://github.com/huggingface/transformers/pull/35116
# about: the ids come from another model, which brought its own input to its own device
# operation: index_select|embedding on cuda:0, cuda:1
# operands: candidate_ids|input_ids|input|ids, weight
# category: input-not-moved
# line: assisted.py: candidate_ids = drafter.candidates(ids)
# line: assisted.py: logits = model(candidate_ids)
# repair: assisted.py: candidate_ids = drafter.candidates(ids) -> candidate_ids = drafter.candidates(ids).to(ids.device)
import torch

from assisted import Drafter, assisted_decoding
from language_model import LanguageModel

torch.manual_seed(0)
model = LanguageModel(40, 16).to("cuda:0").eval()
assistant = LanguageModel(40, 4).to("cuda:1").eval()
prompt = torch.tensor([[3, 17, 5]]).to("cuda:0")
print("tokens", assisted_decoding(model, Drafter(assistant, tokens=3), prompt, length=10).tolist()[0])
# --- assisted.py
import torch


class Drafter:
    """Some tokens more, by a smaller model."""

    def __init__(self, model, tokens):
        self.model, self.tokens = model, tokens

    def candidates(self, ids):
        ids = ids.to(self.model.device)
        for _ in range(self.tokens):
            ids = torch.cat([ids, self.model(ids)[:, -1:].argmax(-1)], dim=1)
        return ids


@torch.no_grad()
def assisted_decoding(model, drafter, ids, length):
    while ids.shape[1] < length:
        known = ids.shape[1]
        candidate_ids = drafter.candidates(ids)
        logits = model(candidate_ids)
        chosen = logits[:, known - 1 :].argmax(-1)
        drafted = candidate_ids[:, known:]
        same = int((chosen[:, :-1] == drafted).cumprod(-1).sum())
        ids = torch.cat([ids, chosen[:, : same + 1].to(ids.device)], dim=1)
    return ids[:, :length]
# --- language_model.py
import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.lm_head = nn.Linear(width, vocabulary)

    @property
    def device(self):
        return self.lm_head.weight.device

    def forward(self, input_ids):
        hidden = self.embed_tokens(input_ids).cumsum(1)
        return self.lm_head(torch.tanh(hidden))

# === blocks_features
# thread: https://github.com/dmlc/dgl/pull/4242
# about: the features are to stay on the CPU; it is the indices that came to the GPU with the blocks
# operation: index on cuda:0, cpu
# operands: nfeat, input_nodes|seeds|nids
# category: input-not-moved|default-or-current-device
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# line: for step, (input_nodes, seeds, blocks)
# line: return nfeat[input_nodes].to(device), labels[seeds]
# line: batch_inputs, batch_labels = load_subtensor(
# repair: return nfeat[input_nodes].to(device), labels[seeds].to(device) -> return nfeat[input_nodes.to(nfeat.device)].to(device), labels[seeds.to(labels.device)].to(device)
import torch
from torch import nn


class NeighborLoader:
    """For some nodes at a time: who their neighbours are, and the edges to these."""

    def __init__(self, adjacency, nodes, batch_size, device):
        self.adjacency, self.nodes, self.batch_size, self.device = adjacency, nodes, batch_size, device

    def __iter__(self):
        for start in range(0, len(self.nodes), self.batch_size):
            seeds = self.nodes[start : start + self.batch_size]
            near = self.adjacency[seeds].any(0)
            near[seeds] = True
            input_nodes = near.nonzero().squeeze(1)
            block = self.adjacency[seeds][:, input_nodes].float()
            yield input_nodes.to(self.device), seeds.to(self.device), [block.to(self.device)]


class SAGE(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.fc = nn.Linear(width, classes)

    def forward(self, blocks, x):
        return self.fc(blocks[0] @ x / blocks[0].sum(1, keepdim=True).clamp_min(1))


def load_subtensor(nfeat, labels, seeds, input_nodes, device):
    return nfeat[input_nodes].to(device), labels[seeds].to(device)


torch.manual_seed(0)
device = torch.device("cuda:0")
adjacency = torch.rand(12, 12) < 0.4
nfeat, labels = torch.rand(12, 6), torch.arange(12) % 3
model = SAGE(6, 3).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
dataloader = NeighborLoader(adjacency, torch.arange(12), batch_size=4, device=device)
for step, (input_nodes, seeds, blocks) in enumerate(dataloader):
    batch_inputs, batch_labels = load_subtensor(nfeat, labels, seeds, input_nodes, device)
    loss = nn.functional.cross_entropy(model(blocks, batch_inputs), batch_labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 3))

# === clone_policy
# thread: https://github.com/HumanCompatibleAI/imitation/issues/820
# about: raised in torch/distributions/categorical.py, three calls below the line to change
# operation: gather on cuda:0, cpu
# operands: log_pmf|logits, value|acts|actions|index
# category: input-not-moved|created-without-device
# line: bc.py: acts = th.as_tensor(
# line: bc.py: metrics = self.loss_calculator(
# repair: bc.py: acts = th.as_tensor(batch["acts"]) -> acts = th.as_tensor(batch["acts"], device=self.policy.device)
import numpy as np
import torch as th

from bc import BC
from policies import ActorCriticPolicy


def demonstrations(n):
    """An expert that goes where the first observation is larger than the second."""
    rng = np.random.default_rng(820)
    obs = rng.normal(size=(n, 4)).astype(np.float32)
    return {"obs": obs, "acts": (obs[:, 0] > obs[:, 1]).astype(np.int64)}


if __name__ == "__main__":
    th.manual_seed(820)
    policy = ActorCriticPolicy(obs_dim=4, n_actions=2, device="cuda")
    bc_trainer = BC(policy, demonstrations(32), batch_size=8)
    metrics = bc_trainer.train(n_epochs=2)
    print(", ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
# --- bc.py
import dataclasses

import torch as th


@dataclasses.dataclass(frozen=True)
class BehaviorCloningLossCalculator:
    ent_weight: float = 1e-3
    l2_weight: float = 1e-4

    def __call__(self, policy, obs, acts):
        _, log_prob, entropy = policy.evaluate_actions(obs, acts)
        l2_norm = sum(p.square().sum() for p in policy.parameters()) / 2
        loss = -log_prob.mean() - self.ent_weight * entropy.mean() + self.l2_weight * l2_norm
        return {"loss": loss, "prob_true_act": log_prob.exp().mean()}


class BC:
    def __init__(self, policy, demonstrations, batch_size):
        self.policy = policy
        self.loss_calculator = BehaviorCloningLossCalculator()
        self.optimizer = th.optim.Adam(policy.parameters(), lr=0.01)
        self.batches = [
            {name: array[start : start + batch_size] for name, array in demonstrations.items()}
            for start in range(0, len(demonstrations["acts"]), batch_size)
        ]

    def train(self, n_epochs):
        for _ in range(n_epochs):
            for batch in self.batches:
                obs = th.as_tensor(batch["obs"], device=self.policy.device)
                acts = th.as_tensor(batch["acts"])
                metrics = self.loss_calculator(self.policy, obs, acts)
                self.optimizer.zero_grad()
                metrics["loss"].backward()
                self.optimizer.step()
        return {name: value.item() for name, value in metrics.items()}
# --- policies.py
import torch as th
from torch import nn
from torch.distributions import Categorical


class ActorCriticPolicy(nn.Module):
    def __init__(self, obs_dim, n_actions, device="auto"):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(obs_dim, 16), nn.Tanh())
        self.action_net = nn.Linear(16, n_actions)
        self.value_net = nn.Linear(16, 1)
        self.to("cuda" if device == "auto" else device)

    @property
    def device(self):
        return next(self.parameters()).device

    def evaluate_actions(self, obs: th.Tensor, actions: th.Tensor):
        latent = self.features(obs)
        distribution = Categorical(logits=self.action_net(latent))
        log_prob = distribution.log_prob(actions)
        return self.value_net(latent), log_prob, distribution.entropy()

# === crf_tags_left
# thread: https://github.com/kmkurn/pytorch-crf/pull/101
# about: what is refused is made from the tags inside the layer, as a mask
# operation: index|where|mul|gather on cpu, cuda:0
# operands: tags|mask
# category: input-not-moved
# error: on the same device|indices should be|device
# line: loss = -crf(emissions, tags)
# line: tokens, tags = batch
# repair: loss = -crf(emissions, tags) -> loss = -crf(emissions, tags.to(emissions.device))
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class CRF(nn.Module):
    def __init__(self, num_tags):
        super().__init__()
        self.start_transitions = nn.Parameter(torch.linspace(-0.1, 0.1, num_tags))
        self.transitions = nn.Parameter(torch.linspace(-0.1, 0.1, num_tags * num_tags).view(num_tags, num_tags))

    def forward(self, emissions, tags, mask=None):
        if mask is None:
            mask = torch.ones_like(tags, dtype=torch.float)
        return (self._score(emissions, tags, mask) - self._normalizer(emissions, mask)).mean()

    def _normalizer(self, emissions, mask):
        score = self.start_transitions + emissions[:, 0]
        for i in range(1, emissions.size(1)):
            following = (score.unsqueeze(2) + self.transitions + emissions[:, i].unsqueeze(1)).logsumexp(1)
            score = torch.where(mask[:, i].unsqueeze(1) > 0, following, score)
        return score.logsumexp(1)

    def _score(self, emissions, tags, mask):
        score = self.start_transitions.sum() * mask[:, 0]
        for i in range(emissions.size(1)):
            score = score + emissions[:, i].gather(1, tags[:, i : i + 1]).squeeze(1) * mask[:, i]
        return score


class Tagger(nn.Module):
    def __init__(self, vocabulary, num_tags):
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocabulary, 8), nn.Linear(8, num_tags)

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


torch.manual_seed(0)
device = torch.device("cuda:0")
tagger, crf = Tagger(30, 4).to(device), CRF(4).to(device)
optimizer = torch.optim.SGD([*tagger.parameters(), *crf.parameters()], lr=0.1)
data = DataLoader(TensorDataset(torch.randint(0, 30, (8, 5)), torch.randint(0, 4, (8, 5))), batch_size=4)
for batch in data:
    tokens, tags = batch
    emissions = tagger(tokens.to(device))
    loss = -crf(emissions, tags)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 3))

# === dpo_logratios
# thread: https://github.com/rui-ye/OpenFedLLM/issues/51
# about: each model is in order by itself; both come from one function, which gave them different maps
# operation: sub on cuda:0, cuda:1
# operands: pi_logratios, ref_logratios
# category: input-not-moved|module-split
# line: dpo.py: logits = pi_logratios - ref_logratios
# line: dpo.py: return self.sequence_logps(
# line: main.py: model_ref = load(
# repair: dpo.py: logits = pi_logratios - ref_logratios -> logits = pi_logratios - ref_logratios.to(pi_logratios.device)
import torch
from torch.utils.data import DataLoader

from dpo import DPOTrainer, PreferenceCollator
from models import load

PAIRS = [
    {"prompt": [3, 9, 4], "chosen": [11, 2], "rejected": [7, 7, 2]},
    {"prompt": [5, 1], "chosen": [8, 6, 2], "rejected": [2]},
    {"prompt": [12, 13, 3, 4], "chosen": [10, 2], "rejected": [14, 1, 2]},
]


def main():
    torch.manual_seed(0)
    model = load("tiny", reserved={})
    model_ref = load("tiny", reserved={"cuda:0": 2})  # what the first one has filled
    model_ref.load_state_dict(model.state_dict())
    trainer = DPOTrainer(model, model_ref, beta=0.1, lr=1e-2)
    loader = DataLoader(PAIRS, batch_size=3, collate_fn=PreferenceCollator(pad=0))
    losses = [round(trainer.training_step(batch), 4) for _ in range(3) for batch in loader]
    print("losses", losses)


main()
# --- dpo.py
import torch
from torch import nn


class PreferenceCollator:
    def __init__(self, pad):
        self.pad = pad

    def __call__(self, pairs):
        rows = [pair["prompt"] + pair[kind] for kind in ("chosen", "rejected") for pair in pairs]
        starts = [len(pair["prompt"]) for _ in range(2) for pair in pairs]
        width = max(map(len, rows))
        ids = torch.tensor([row + [self.pad] * (width - len(row)) for row in rows])
        answers = torch.arange(width) >= torch.tensor(starts)[:, None]
        return {"input_ids": ids, "answer_mask": answers & (ids != self.pad)}


class DPOTrainer:
    def __init__(self, model, ref_model, beta, lr):
        self.model, self.ref_model, self.beta = model, ref_model.eval(), beta
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def concatenated_forward(self, model, batch):
        logits = model(batch["input_ids"])[:, :-1]
        labels, mask = batch["input_ids"][:, 1:].to(logits.device), batch["answer_mask"][:, 1:].to(logits.device)
        return self.sequence_logps(logits, labels, mask).chunk(2)

    @staticmethod
    def sequence_logps(logits, labels, mask):
        logps = logits.log_softmax(-1).gather(2, labels[..., None]).squeeze(-1)
        return (logps * mask).sum(-1)

    def dpo_loss(self, pi_chosen, pi_rejected, ref_chosen, ref_rejected):
        pi_logratios = pi_chosen - pi_rejected
        ref_logratios = ref_chosen - ref_rejected
        logits = pi_logratios - ref_logratios
        return -nn.functional.logsigmoid(self.beta * logits).mean()

    def training_step(self, batch):
        with torch.no_grad():
            reference = self.concatenated_forward(self.ref_model, batch)
        loss = self.dpo_loss(*self.concatenated_forward(self.model, batch), *reference)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
# --- models.py
from torch import nn

CONFIGS = {"tiny": {"vocabulary": 16, "width": 8, "layers": 2}}


class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.value = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + (self.gate(x).sigmoid() * self.value(x)).cumsum(1) / x.shape[1]


class CausalLM(nn.Module):
    """Its layers may be on any devices: what comes in is moved before each."""

    def __init__(self, vocabulary, width, layers, placement):
        super().__init__()
        parts = [nn.Embedding(vocabulary, width), *(Mixer(width) for _ in range(layers)), nn.Linear(width, vocabulary)]
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, placement))

    def forward(self, x):
        for part in self.parts:
            x = part(x.to(next(part.parameters()).device))
        return x


def load(name, reserved, room=4):
    """As many parts on the first device as there is room left for."""
    config = CONFIGS[name]
    first = room - reserved.get("cuda:0", 0)
    placement = ["cuda:0" if number < first else "cuda:1" for number in range(config["layers"] + 2)]
    return CausalLM(**config, placement=placement)
