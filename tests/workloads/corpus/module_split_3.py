# === policy_submodules
# thread: https://github.com/DLR-RM/stable-baselines3/issues/111
# about: the constructor takes a device, and one of its modules honours it
# operation: addmm|linear|mm on cuda:0, cpu
# operands: latent_pi|input|mat1, action_net.weight|action_net.bias|weight|bias
# category: module-split|created-without-device
# line: policies.py: self.action_net = nn.Linear(
# line: main.py: policy = ActorCriticPolicy(
# repair: policies.py: self.action_net = nn.Linear(self.mlp_extractor.latent_dim, actions) -> self.action_net = nn.Linear(self.mlp_extractor.latent_dim, actions).to(self.device)
# repair: policies.py: self.value_net = nn.Linear(self.mlp_extractor.latent_dim, 1) -> self.value_net = nn.Linear(self.mlp_extractor.latent_dim, 1).to(self.device)
import numpy as np
import torch

from policies import ActorCriticPolicy


class Pole:
    """A made-up task: the state drifts, and an action pushes it."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.state = self.random.normal(size=4).astype(np.float32)
        return self.state

    def step(self, action):
        self.state = 0.9 * self.state + np.float32(0.1 if action else -0.1)
        return self.state, -float(np.abs(self.state).sum())


torch.manual_seed(0)
env = Pole(seed=1)
policy = ActorCriticPolicy(observation_size=4, actions=2, lr_schedule=lambda done: 3e-4, device="cuda:0")
observation, steps = env.reset(), 0
while steps < 5:
    action, value = policy.predict(observation)
    observation, reward = env.step(action)
    steps += np.isfinite(value) and reward < 0
print("steps", steps)
# --- policies.py
import torch as th
from torch import nn


class MlpExtractor(nn.Module):
    """Two towers: one for what to do, one for how good it is."""

    def __init__(self, feature_dim, net_arch, device):
        super().__init__()
        self.latent_dim = net_arch[-1]

        def tower():
            sizes = [feature_dim, *net_arch]
            return nn.Sequential(*(part for i, o in zip(sizes, net_arch) for part in (nn.Linear(i, o), nn.Tanh())))

        self.policy_net = tower().to(device)
        self.value_net = tower().to(device)

    def forward(self, features):
        return self.policy_net(features), self.value_net(features)


class BasePolicy(nn.Module):
    def __init__(self, device="cpu"):
        super().__init__()
        self.device = th.device(device)

    def predict(self, observation, deterministic=True):
        observation = th.as_tensor(observation).unsqueeze(0).to(self.device)
        with th.no_grad():
            action, value = self._predict(observation, deterministic)
        return int(action), float(value)


class ActorCriticPolicy(BasePolicy):
    def __init__(self, observation_size, actions, lr_schedule, net_arch=(8, 8), device="cpu"):
        super().__init__(device)
        self.mlp_extractor = MlpExtractor(observation_size, net_arch, self.device)
        self.action_net = nn.Linear(self.mlp_extractor.latent_dim, actions)
        self.value_net = nn.Linear(self.mlp_extractor.latent_dim, 1)
        self.optimizer = th.optim.Adam(self.parameters(), lr=lr_schedule(1))

    def _predict(self, observation, deterministic):
        latent_pi, latent_vf = self.mlp_extractor(observation)
        logits = self.action_net(latent_pi)
        action = logits.argmax(-1) if deterministic else th.distributions.Categorical(logits=logits).sample()
        return action, self.value_net(latent_vf)

# === protein_class_weights
# thread: https://github.com/sacdallago/biotrainer/issues/67
# operation: nll_loss|cross_entropy on cuda:0, cpu
# operands: weight|self.weight|class_weights
# category: module-split|created-without-device
# line: return torch.tensor(
# line: criterion = nn.CrossEntropyLoss(
# line: class_weights =
# repair: criterion = nn.CrossEntropyLoss(weight=class_weights, ignore_index=-100) -> criterion = nn.CrossEntropyLoss(weight=class_weights, ignore_index=-100).to(device)
from collections import Counter

import torch
from torch import nn


def weights_of(targets, classes):
    """A class counts the more the rarer it is."""
    counts = Counter(label for sequence in targets for label in sequence)
    total = sum(counts.values())
    return torch.tensor([total / (classes * counts[label]) for label in range(classes)])


class ResidueCNN(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(width, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, classes, 1))

    def forward(self, x):
        return self.layers(x.transpose(1, 2))


class Solver:
    def __init__(self, network, optimizer, criterion, device):
        self.network, self.optimizer, self.criterion, self.device = network.to(device), optimizer, criterion, device

    def step(self, x, y):
        x, y = x.to(self.device), y.to(self.device)
        loss = self.criterion(self.network(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
device = torch.device("cuda:0")
targets = [[0, 1, 2, 2, 1], [2, 2, 2, 0, 1]]
network = ResidueCNN(6, 3)
class_weights = weights_of(targets, 3)
criterion = nn.CrossEntropyLoss(weight=class_weights, ignore_index=-100)
solver = Solver(network, torch.optim.Adam(network.parameters(), lr=1e-2), criterion, device)
losses = [solver.step(torch.ones(2, 5, 6), torch.tensor(targets)) for _ in range(3)]
print("falls", losses[-1] < losses[0])

# === q_function_size
# thread: https://github.com/takuseno/d3rlpy/issues/329
# about: the encoder is moved as part of the Q function, some lines later; a probe runs through it before
# operation: addmm|linear|mm on cpu, cuda:0
# operands: x|inputs, weight|bias|encoder.layers\[0\].weight|encoder.layers\[0\].bias|.*\.weight|.*\.bias
# category: module-split
# line: offline/builders.py: encoder = factory.create(
# line: offline/builders.py: hidden_size = compute_output_size(
# repair: offline/builders.py: encoder = factory.create(observation_size) -> encoder = factory.create(observation_size).to(device)
import torch

from offline.algorithm import DiscreteQ

torch.manual_seed(0)
algorithm = DiscreteQ(observation_size=6, action_size=3, device="cuda:0")
for _ in range(3):
    loss = algorithm.update(torch.rand(8, 6), torch.randint(0, 3, (8,)), torch.rand(8))
print("loss", round(loss, 4))
# --- offline/__init__.py
# --- offline/algorithm.py
import torch

from offline.builders import create_discrete_q_function
from offline.encoders import VectorEncoderFactory


class DiscreteQ:
    def __init__(self, observation_size, action_size, device):
        self.device = device
        self.q_function = create_discrete_q_function(observation_size, action_size, VectorEncoderFactory((16, 8)), device)
        self.optimizer = torch.optim.Adam(self.q_function.parameters(), lr=1e-2)

    def update(self, observations, actions, targets):
        observations, actions, targets = (each.to(self.device) for each in (observations, actions, targets))
        self.optimizer.zero_grad()
        values = self.q_function(observations).gather(1, actions[:, None])[:, 0]
        loss = torch.nn.functional.smooth_l1_loss(values, targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()
# --- offline/builders.py
import torch
from torch import nn


class QFunction(nn.Module):
    def __init__(self, encoder, hidden_size, action_size):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(hidden_size, action_size)

    def forward(self, x):
        return self.head(self.encoder(x))


@torch.no_grad()
def compute_output_size(shapes, encoder, device):
    """A batch of one goes through it: what comes out says how wide it is."""
    inputs = [torch.rand(1, *shape, device=device) for shape in shapes]
    return encoder(*inputs).shape[1]


def create_discrete_q_function(observation_size, action_size, factory, device):
    encoder = factory.create(observation_size)
    hidden_size = compute_output_size([(observation_size,)], encoder, device)
    q_function = QFunction(encoder, hidden_size, action_size)
    q_function.to(device)
    return q_function
# --- offline/encoders.py
from torch import nn


class VectorEncoder(nn.Module):
    def __init__(self, observation_size, hidden_units):
        super().__init__()
        sizes = (observation_size, *hidden_units)
        self.layers = nn.ModuleList(nn.Linear(one, other) for one, other in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


class VectorEncoderFactory:
    def __init__(self, hidden_units):
        self.hidden_units = hidden_units

    def create(self, observation_size):
        return VectorEncoder(observation_size, self.hidden_units)

# === residual_split
# thread: https://github.com/huggingface/accelerate/issues/1851
# about: the cause is the call that made the device map, which let a block be split
# operation: add on cuda:0, cuda:1
# operands: residual, hidden
# category: module-split
# line: device_map = infer_auto_device_map(
# line: return residual + hidden
# repair: device_map = infer_auto_device_map(decoder, max_memory=memory) -> device_map = infer_auto_device_map(decoder, max_memory=memory, no_split_module_classes=["Block"])
import torch
from accelerate import dispatch_model, infer_auto_device_map
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, hidden):
        residual = hidden
        hidden = self.down(torch.relu(self.up(self.norm(hidden))))
        return residual + hidden


class Decoder(nn.Module):
    def __init__(self, width=16, depth=4):
        super().__init__()
        self.embed = nn.Embedding(32, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 32)

    def forward(self, input_ids):
        hidden = self.embed(input_ids)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


def load(decoder, memory):
    device_map = infer_auto_device_map(decoder, max_memory=memory)
    return dispatch_model(decoder, device_map)


torch.manual_seed(0)
model = load(Decoder().eval(), {0: 26_000, 1: 100_000})
with torch.no_grad():
    logits = model(torch.randint(0, 32, (1, 6)).to("cuda:0"))
print("logits", round(logits.sum().item(), 3))

# === return_percentiles
# thread: https://github.com/pytorch/rl/pull/4248
# about: a loss makes a module of its own beside networks that were moved before
# operation: mul|lerp|add|sub on cuda:0, cpu
# operands: self.low|low|self.high|high
# category: module-split
# line: self.normalizer = ReturnNormalizer(
# line: self.low.lerp_(
# repair: self.normalizer = ReturnNormalizer(decay=0.9) -> self.normalizer = ReturnNormalizer(decay=0.9).to(next(actor.parameters()).device)
import torch
from torch import nn


class ReturnNormalizer(nn.Module):
    """Running percentiles of returns."""

    def __init__(self, decay):
        super().__init__()
        self.decay = decay
        self.register_buffer("low", torch.zeros(1))
        self.register_buffer("high", torch.ones(1))

    def update(self, returns):
        flat = returns.detach().flatten()
        self.low.lerp_(torch.quantile(flat, 0.05), 1 - self.decay)
        self.high.lerp_(torch.quantile(flat, 0.95), 1 - self.decay)

    def scale(self):
        return (self.high - self.low).clamp(min=1.0)


class ActorLoss(nn.Module):
    """Imagined returns, as large as their spread lets them be."""

    def __init__(self, actor, value):
        super().__init__()
        self.actor, self.value = actor, value
        self.normalizer = ReturnNormalizer(decay=0.9)

    def forward(self, states):
        action = torch.tanh(self.actor(states))
        returns = self.value(torch.cat([states, action], dim=-1))
        self.normalizer.update(returns)
        return -(returns / self.normalizer.scale()).mean()


torch.manual_seed(0)
actor = nn.Linear(6, 2).to("cuda:0")
value = nn.Sequential(nn.Linear(8, 16), nn.ELU(), nn.Linear(16, 1)).to("cuda:0")
objective = ActorLoss(actor, value)
optimizer = torch.optim.Adam(actor.parameters(), lr=1e-2)
for _ in range(2):
    loss = objective(torch.randn(32, 6).to("cuda:0"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("actor loss", round(loss.item(), 4))

# === reward_at_eos
# thread: https://github.com/OpenRLHF/OpenRLHF/issues/938
# about: accelerate's hooks moved all that modules were given; the mask is used beside them
# operation: gather on cuda:1, cuda:0
# operands: values, eos_indices
# category: module-split
# line: reward = values.gather(
# line: eos_indices =
# repair: reward = values.gather(dim=1, index=eos_indices).squeeze(1) -> reward = values.gather(dim=1, index=eos_indices.to(values.device)).squeeze(1)
import torch
from accelerate import dispatch_model
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, hidden):
        return hidden + torch.tanh(self.mix(self.norm(hidden)))


class RewardModel(nn.Module):
    """One number for a sequence: what the head says of its last token."""

    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.value_head = nn.Linear(width, 1, bias=False)

    def forward(self, input_ids, attention_mask):
        hidden = self.embed(input_ids)
        for layer in self.layers:
            hidden = layer(hidden)
        values = self.value_head(hidden).squeeze(-1)
        eos_indices = attention_mask.size(1) - 1 - attention_mask.long().fliplr().argmax(dim=1, keepdim=True)
        reward = values.gather(dim=1, index=eos_indices).squeeze(1)
        return reward


torch.manual_seed(0)
model = RewardModel(32, 8, layers=4).eval()
device_map = {"embed": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "value_head": 1}
model = dispatch_model(model, device_map)
input_ids = torch.randint(32, (3, 7)).to("cuda:0")
attention_mask = (torch.arange(7)[None] < torch.tensor([[7], [4], [6]])).to("cuda:0")
with torch.no_grad():
    scores = model(input_ids=input_ids, attention_mask=attention_mask)
print("scores", [round(score, 4) for score in scores.tolist()])

# === rotary_hook
# thread: https://github.com/casper-hansen/AutoAWQ/pull/668
# about: a hook that was attached before the module was moved takes its inputs to the old device
# operation: mul|bmm|matmul on cuda:1, cuda:0
# operands: position_ids|positions, self.inv_freq|inv_freq
# category: module-split|input-not-moved
# line: model.rotary_emb.to(device)
# line: freqs = positions * self.inv_freq
# repair: model.rotary_emb.to(device) -> from accelerate.hooks import remove_hook_from_module; remove_hook_from_module(model.rotary_emb.to(device))
import torch
from accelerate import dispatch_model
from torch import nn


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2) / dim), persistent=False)

    def forward(self, position_ids):
        positions = position_ids[..., None].float()
        freqs = positions * self.inv_freq
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos(), emb.sin()


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, hidden, cos, sin):
        q, k, v = self.qkv(hidden).chunk(3, dim=-1)
        q, k = (part * cos + part.roll(part.shape[-1] // 2, -1) * sin for part in (q, k))
        return hidden + self.out((q @ k.transpose(-1, -2)).softmax(-1) @ v)


class Qwen(nn.Module):
    def __init__(self, dim=8, layers=4):
        super().__init__()
        self.embed_tokens = nn.Embedding(32, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(layers))
        self.rotary_emb = RotaryEmbedding(dim)

    def forward(self, input_ids):
        hidden = self.embed_tokens(input_ids)
        cos, sin = self.rotary_emb(torch.arange(input_ids.shape[1], device=input_ids.device)[None])
        for layer in self.layers:
            hidden = layer(hidden, cos, sin)
        return hidden


def move_embed(model, device):
    """What stands before the first layer goes to where that is calibrated."""
    model.embed_tokens.to(device)
    model.rotary_emb.to(device)


torch.manual_seed(0)
device_map = {"embed_tokens": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "rotary_emb": 1}
model = dispatch_model(Qwen().eval(), device_map)
move_embed(model, "cuda:0")
with torch.no_grad():
    hidden = model(torch.randint(0, 32, (2, 7)).to("cuda:0"))
print("calibrated", round(hidden.square().mean().item(), 4))

# === trainer_loss_sum
# thread: https://github.com/huggingface/transformers/pull/29144
# about: two scalars; the loss comes from the last of the model's devices, what it is added to from the arguments
# operation: add on cuda:0, cuda:1
# operands: tr_loss, tr_loss_step
# category: module-split|input-not-moved|created-without-device
# line: tr_loss += tr_loss_step
# line: return loss.detach() /
# line: tr_loss = torch.tensor(0.0)
# repair: return loss.detach() / self.args.gradient_accumulation_steps -> return loss.detach().to(self.args.device) / self.args.gradient_accumulation_steps
from types import SimpleNamespace

import torch
from torch import nn


class TwoStage(nn.Module):
    def __init__(self, features=6, hidden=10, classes=3):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(features, hidden), nn.GELU()).to("cuda:0")
        self.second = nn.Linear(hidden, classes).to("cuda:1")

    def forward(self, features, labels):
        logits = self.second(self.first(features).to("cuda:1"))
        return nn.functional.cross_entropy(logits, labels.to(logits.device)), logits


class Trainer:
    def __init__(self, model, args, batches):
        self.model, self.args, self.batches = model, args, batches
        self.optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
        self.log_history = []

    def compute_loss(self, model, inputs):
        return model(**inputs)[0]

    def training_step(self, model, inputs):
        inputs = {name: value.to(self.args.device) for name, value in inputs.items()}
        loss = self.compute_loss(model, inputs)
        (loss / self.args.gradient_accumulation_steps).backward()
        return loss.detach() / self.args.gradient_accumulation_steps

    def train(self):
        tr_loss = torch.tensor(0.0).to(self.args.device)
        for step, inputs in enumerate(self.batches, start=1):
            tr_loss_step = self.training_step(self.model, inputs)
            tr_loss += tr_loss_step
            if step % self.args.gradient_accumulation_steps == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
            if step % self.args.logging_steps == 0:
                self.log_history.append(round(tr_loss.item() / self.args.logging_steps, 4))
                tr_loss.zero_()
        return self.log_history


torch.manual_seed(0)
args = SimpleNamespace(device="cuda:0", learning_rate=0.2, gradient_accumulation_steps=2, logging_steps=4)
batches = [{"features": torch.randn(4, 6), "labels": torch.tensor([0, 1, 2, 1])} for _ in range(8)]
print("log", Trainer(TwoStage(), args, batches).train())

# === vector_candidates
# thread: https://github.com/huggingface/transformers/pull/47877
# about: ids computed from what the last part of the model gave meet ids that were given
# operation: cat on cuda:0, cuda:1
# operands: input_ids|ids|tensors, tokens|candidates|candidate
# category: module-split
# line: return torch.cat([input_ids, tokens]
# line: tokens = logits
# repair: return torch.cat([input_ids, tokens], dim=1) -> return torch.cat([input_ids, tokens.to(input_ids.device)], dim=1)
import torch
from torch import nn


class BlockDrafter(nn.Module):
    """Several tokens at once: the embeddings on the first device, the output on the last."""

    def __init__(self, vocabulary, width, block):
        super().__init__()
        self.block = block
        self.embed = nn.Embedding(vocabulary, width).to("cuda:0")
        self.mix = nn.Linear(width, width).to("cuda:0")
        self.out = nn.Linear(width, vocabulary * block).to("cuda:1")

    def forward(self, ids):
        hidden = torch.tanh(self.mix(self.embed(ids).mean(1)))
        return self.out(hidden.to(self.out.weight.device)).unflatten(-1, (self.block, -1))


class CandidateGenerator:
    def __init__(self, drafter):
        self.drafter = drafter

    @torch.no_grad()
    def get_candidates(self, input_ids):
        logits = self.drafter(input_ids)
        tokens = logits.argmax(-1)
        return torch.cat([input_ids, tokens], dim=1)


torch.manual_seed(0)
generator = CandidateGenerator(BlockDrafter(16, 8, block=3))
ids = torch.tensor([[2, 7]]).to("cuda:0")
for _ in range(2):
    ids = generator.get_candidates(ids)
print("ids", ids.tolist()[0])
