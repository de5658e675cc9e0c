# === sentences_written_from_a_graph
# thread: https://github.com/rikdz/GraphWriter/issues/9
# about: a decoder looks at the nodes of a graph of knowledge with several heads before it writes each word. The user names the card to work on
# operation: div|true_divide|__truediv__ on cuda:1, cuda:0
# operands: other|.*key_dim.*
# category: default-or-current-device|state-not-registered
# line: attention.py: attention = attention / torch.sqrt(self._key_dim).cuda()
# line: attention.py: self._key_dim = torch.tensor(
# line: main.py: args = parser.parse_args()
# line: main.py: model = GraphWriter(
# repair: attention.py: attention = attention / torch.sqrt(self._key_dim).cuda() -> attention = attention / torch.sqrt(self._key_dim).to(attention.device)
import argparse

import torch

from graph_writer import GraphWriter
from graphs import make_graphs

parser = argparse.ArgumentParser()
parser.add_argument("-device", default="cuda:1")
parser.add_argument("-epochs", type=int, default=2)
parser.add_argument("-hsz", type=int, default=16)
args = parser.parse_args()


def main(args):
    torch.manual_seed(9)
    args.device = torch.device(args.device)
    model = GraphWriter(num_words=20, hsz=args.hsz, heads=4).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=0)
    for epoch in range(args.epochs):
        total = 0.0
        for nodes, mask, text in make_graphs(3, 4, args.hsz, args.device):
            logits = model(nodes, mask, text[:, :-1])
            loss = criterion(logits.flatten(0, 1), text[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total:.3f}")


if __name__ == "__main__":
    main(args)
# --- graphs.py
import torch


def make_graphs(num_batches, batch_size, hsz, device):
    """Nodes, a mask of those that are only padding, and a text that begins with a mark."""
    draw = torch.Generator().manual_seed(19)
    for _ in range(num_batches):
        nodes = torch.randn(batch_size, 5, hsz, generator=draw)
        lengths = torch.randint(2, 6, (batch_size,), generator=draw)
        mask = (torch.arange(5) >= lengths.unsqueeze(1)).unsqueeze(1)
        text = torch.randint(2, 20, (batch_size, 7), generator=draw)
        text[:, 0] = 1
        yield nodes.to(device), mask.to(device), text.to(device)
# --- attention.py
import torch
from torch import nn
from torch.nn import functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, query_dim, key_dim, num_units, h=8):
        super().__init__()
        self._h = h
        self._key_dim = torch.tensor(key_dim, requires_grad=False).float()
        self.query_layer = nn.Linear(query_dim, num_units, bias=False)
        self.key_layer = nn.Linear(key_dim, num_units, bias=False)
        self.value_layer = nn.Linear(key_dim, num_units, bias=False)

    def _split(self, x):
        return torch.cat(x.chunk(self._h, dim=2), dim=0)

    def forward(self, query, keys, mask=None):
        Q = self._split(self.query_layer(query))
        K = self._split(self.key_layer(keys))
        V = self._split(self.value_layer(keys))
        attention = torch.matmul(Q, K.transpose(1, 2))
        attention = attention / torch.sqrt(self._key_dim).cuda()
        if mask is not None:
            attention = attention.masked_fill(mask.repeat(self._h, 1, 1), -float("inf"))
        attention = torch.matmul(F.softmax(attention, dim=-1), V)
        return torch.cat(attention.chunk(self._h, dim=0), dim=2) + query
# --- graph_writer.py
import torch
from torch import nn

from attention import MultiHeadAttention


class GraphWriter(nn.Module):
    def __init__(self, num_words, hsz, heads):
        super().__init__()
        self.emb = nn.Embedding(num_words, hsz, padding_idx=0)
        self.decoder = nn.GRU(hsz, hsz, batch_first=True)
        self.attn = MultiHeadAttention(hsz, hsz, hsz, h=heads)
        self.out = nn.Linear(2 * hsz, num_words)

    def forward(self, nodes, mask, text):
        hidden, _ = self.decoder(self.emb(text), nodes.mean(dim=1).unsqueeze(0))
        looked = self.attn(hidden, nodes, mask=mask)
        return self.out(torch.cat([hidden, looked], dim=-1))

# === weights_of_four_bits_layer_by_layer
# thread: https://github.com/OpenGVLab/OmniQuant/issues/89
# about: a model too large for the card is made smaller, one layer after the other. What the first layer is given is caught while the calibration texts
#   run through the model
# operation: bmm|matmul|__matmul__ on cpu, cuda:0
# operands: self|input|mat2|.*inv_freq.*|.*position_ids.*|self.rotary_emb
# category: module-split
# line: omniquant.py: model.norm.to(dev)
# line: omniquant.py: model.embed_tokens.to(dev)
# line: omniquant.py: layers[0].to(dev)
# line: llama.py: self.rotary_emb = LlamaRotaryEmbedding(
# line: llama.py: freqs = (
# line: llama.py: cos, sin = self.rotary_emb(
# repair: omniquant.py: model.norm.to(dev) -> model.norm.to(dev), model.rotary_emb.to(dev)
import torch

from llama import LlamaModel
from omniquant import omniquant


def get_loaders(nsamples, seqlen, vocab):
    draw = torch.Generator().manual_seed(89)
    return [torch.randint(vocab, (1, seqlen), generator=draw) for _ in range(nsamples)]


def main():
    torch.manual_seed(0)
    model = LlamaModel(vocab=30, hidden=16, num_layers=3)
    dataloader = get_loaders(nsamples=4, seqlen=8, vocab=30)
    dev = torch.device("cuda:0")
    errors, outs = omniquant(model, dataloader, dev, wbits=4)
    print(" ".join(f"{error:.3f}" for error in errors), round(outs.abs().mean().item(), 3))


if __name__ == "__main__":
    main()
# --- llama.py
import torch
from torch import nn
from torch.nn import functional as F


class LlamaRotaryEmbedding(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** -(torch.arange(0, dim, 2).float() / dim), persistent=False)

    def forward(self, x, position_ids):
        inv_freq_expanded = self.inv_freq[None, :, None].expand(position_ids.shape[0], -1, 1)
        position_ids_expanded = position_ids[:, None, :].float()
        freqs = (inv_freq_expanded.float() @ position_ids_expanded).transpose(1, 2)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(x.dtype), emb.sin().to(x.dtype)


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class LlamaDecoderLayer(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, hidden, bias=False)
        self.v_proj = nn.Linear(hidden, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(self, hidden_states, position_embeddings):
        cos, sin = position_embeddings
        query, key = self.q_proj(hidden_states), self.k_proj(hidden_states)
        query, key = (x * cos + rotate_half(x) * sin for x in (query, key))
        attended = F.scaled_dot_product_attention(query, key, self.v_proj(hidden_states), is_causal=True)
        return hidden_states + self.down_proj(F.silu(attended))


class LlamaModel(nn.Module):
    def __init__(self, vocab, hidden, num_layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList(LlamaDecoderLayer(hidden) for _ in range(num_layers))
        self.norm = nn.LayerNorm(hidden)
        self.rotary_emb = LlamaRotaryEmbedding(hidden)

    def forward(self, input_ids):
        hidden_states = self.embed_tokens(input_ids)
        position_ids = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        cos, sin = self.rotary_emb(hidden_states, position_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states, position_embeddings=(cos, sin))
        return self.norm(hidden_states)
# --- quantizer.py
import torch
from torch import nn


def quantize_weight(weight, wbits):
    scale = weight.abs().amax(dim=1, keepdim=True) / (2 ** (wbits - 1) - 1)
    return torch.round(weight / scale) * scale


def quantize_layer(layer, wbits):
    with torch.no_grad():
        for module in layer.modules():
            if isinstance(module, nn.Linear):
                module.weight.copy_(quantize_weight(module.weight, wbits))
# --- omniquant.py
import torch
from torch import nn

from quantizer import quantize_layer


class Catcher(nn.Module):
    """Stands before the first layer, and keeps what it is given."""

    def __init__(self, module, inps):
        super().__init__()
        self.module = module
        self.inps = inps
        self.position_embeddings = None

    def forward(self, inp, position_embeddings):
        self.inps.append(inp)
        self.position_embeddings = position_embeddings
        raise ValueError


@torch.no_grad()
def omniquant(model, dataloader, dev, wbits):
    layers = model.layers
    model.embed_tokens.to(dev)
    model.norm.to(dev)
    layers[0].to(dev)
    inps = []
    catcher = layers[0] = Catcher(layers[0], inps)
    for batch in dataloader:
        try:
            model(batch.to(dev))
        except ValueError:
            pass
    layers[0] = catcher.module
    model.embed_tokens.cpu()
    inps, errors = torch.cat(inps), []
    for index in range(len(layers)):
        layer = layers[index].to(dev)
        fp_outs = layer(inps, catcher.position_embeddings)
        quantize_layer(layer, wbits)
        inps = layer(inps, catcher.position_embeddings)
        errors.append((fp_outs - inps).abs().mean().item())
        layers[index] = layer.cpu()
    return errors, inps

# === a_small_pupil_of_a_large_teacher
# thread: https://github.com/nlp-with-transformers/notebooks/pull/64
# about: a chapter of a book on language models trains a small classifier to answer as a large one does. Its trainer only changes how the loss is computed
# operation: embedding|index_select on cuda:0, cpu
# operands: index|input|indices|input_ids|inputs
# category: input-not-moved
# line: distillation.py: labels = inputs["labels"]
# line: distillation.py: outputs_stu = model(
# line: distillation.py: def compute_loss(
# line: trainer.py: loss = self.compute_loss(self.model, inputs)
# line: trainer.py: inputs = self.collate(
# line: data.py: return BatchEncoding(
# repair: distillation.py: labels = inputs["labels"] -> inputs = inputs.to(self.args.device); labels = inputs["labels"]
import torch

from data import Intents
from distillation import DistillationTrainer, DistillationTrainingArguments
from models import SequenceClassifier


def main():
    torch.manual_seed(64)
    dataset = Intents(24, vocab_size=30, num_labels=3)
    teacher = SequenceClassifier(30, 24, 2, num_labels=3)
    student = SequenceClassifier(30, 8, 1, num_labels=3)
    args = DistillationTrainingArguments(num_train_epochs=2, batch_size=8, learning_rate=0.1, alpha=0.5, temperature=2.0)
    trainer = DistillationTrainer(student, args, dataset, teacher_model=teacher.to(args.device).eval())
    history = trainer.train()
    print(" ".join(f"{loss:.3f}" for loss in history))


if __name__ == "__main__":
    main()
# --- data.py
import torch


class BatchEncoding(dict):
    def to(self, device):
        return BatchEncoding({name: value.to(device) for name, value in self.items()})


class Intents:
    """What a customer wants: words, and the number of the wish."""

    def __init__(self, size, vocab_size, num_labels):
        draw = torch.Generator().manual_seed(8)
        self.input_ids = torch.randint(1, vocab_size, (size, 6), generator=draw)
        self.labels = self.input_ids.sum(dim=1) % num_labels

    def __len__(self):
        return len(self.labels)

    def batch(self, start, end):
        return BatchEncoding(input_ids=self.input_ids[start:end], labels=self.labels[start:end])
# --- models.py
from types import SimpleNamespace

from torch import nn
from torch.nn import functional as F


class SequenceClassifier(nn.Module):
    def __init__(self, vocab_size, hidden, num_layers, num_labels):
        super().__init__()
        self.embeddings = nn.Embedding(vocab_size, hidden)
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(num_layers))
        self.classifier = nn.Linear(hidden, num_labels)

    def forward(self, input_ids, labels=None):
        hidden = self.embeddings(input_ids).mean(dim=1)
        for layer in self.layers:
            hidden = hidden + F.gelu(layer(hidden))
        logits = self.classifier(hidden)
        loss = F.cross_entropy(logits, labels) if labels is not None else None
        return SimpleNamespace(loss=loss, logits=logits)
# --- trainer.py
from dataclasses import dataclass

import torch


@dataclass
class TrainingArguments:
    num_train_epochs: int = 1
    batch_size: int = 8
    learning_rate: float = 0.1

    @property
    def device(self):
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class Trainer:
    def __init__(self, model, args, train_dataset):
        self.model = model.to(args.device)
        self.args = args
        self.train_dataset = train_dataset
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.learning_rate)

    def compute_loss(self, model, inputs):
        return model(**inputs.to(self.args.device)).loss

    def collate(self, start):
        return self.train_dataset.batch(start, start + self.args.batch_size)

    def train(self):
        history = []
        for _ in range(self.args.num_train_epochs):
            for start in range(0, len(self.train_dataset), self.args.batch_size):
                inputs = self.collate(start)
                loss = self.compute_loss(self.model, inputs)
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                history.append(loss.item())
        return history
# --- distillation.py
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from trainer import Trainer, TrainingArguments


@dataclass
class DistillationTrainingArguments(TrainingArguments):
    alpha: float = 0.5
    temperature: float = 2.0


class DistillationTrainer(Trainer):
    def __init__(self, *args, teacher_model=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher_model = teacher_model

    def compute_loss(self, model, inputs):
        labels = inputs["labels"]
        outputs_stu = model(inputs["input_ids"], labels=labels)
        with torch.no_grad():
            logits_tea = self.teacher_model(inputs["input_ids"]).logits
        soft_stu = F.log_softmax(outputs_stu.logits / self.args.temperature, dim=-1)
        soft_tea = F.softmax(logits_tea / self.args.temperature, dim=-1)
        loss_kd = self.args.temperature**2 * F.kl_div(soft_stu, soft_tea, reduction="batchmean")
        return self.args.alpha * outputs_stu.loss + (1 - self.args.alpha) * loss_kd

# === a_pole_kept_upright_by_evolution
# thread: https://github.com/nnaisense/evotorch/pull/6
# about: populations of parameters are tried out in a gym, several actors at once, and the best are kept. Each set of parameters becomes a policy, which is
#   asked for an action at every step
# operation: linear|mm|mv|addmv|addmm|matmul on cpu, cuda:0
# operands: self|mat1|mat2|input|weight|vec|observation|policy
# category: input-not-moved|created-without-device
# line: neproblem.py: return self.aux_device
# line: neproblem.py: return net.to(self.network_device)
# line: gymne.py: torch.as_tensor(observation, dtype=torch.float32, device="cpu")
# repair: neproblem.py: return self.aux_device -> return torch.device("cpu")
import torch

from core import SolutionBatch
from gymne import GymNE
from policies import LinearPolicy


def main():
    problem = GymNE("Pole", LinearPolicy(4, 3), num_actors=2, seed=6)
    population = SolutionBatch(problem.solution_length, popsize=6, seed=4)
    center = torch.zeros(problem.solution_length)
    for generation in range(3):
        values = population.sample(center, stdev=0.5)
        fitnesses = problem.evaluate(values)
        elite = values[fitnesses.argsort(descending=True, stable=True)[:2]]
        center = elite.mean(dim=0)
    print(f"best {fitnesses.max().item():.3f} center {center.norm().item():.3f}")


if __name__ == "__main__":
    main()
# --- core.py
import torch


class SolutionBatch:
    def __init__(self, solution_length, popsize, seed):
        self.shape = (popsize, solution_length)
        self.generator = torch.Generator().manual_seed(seed)

    def sample(self, center, stdev):
        return center + stdev * torch.randn(self.shape, generator=self.generator)


class Problem:
    def __init__(self, num_actors):
        self.num_actors = num_actors
        self.actor_index = None

    @property
    def aux_device(self):
        """A device for what is heavy: each actor has a card of its own if there are enough."""
        if self.actor_index is None or not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda", self.actor_index % torch.cuda.device_count())

    def evaluate(self, values):
        """The actors' shares, here one after the other."""
        fitnesses = torch.empty(len(values))
        for self.actor_index in range(self.num_actors):
            for row in range(self.actor_index, len(values), self.num_actors):
                fitnesses[row] = self._evaluate(values[row])
        self.actor_index = None
        return fitnesses
# --- policies.py
import torch
from torch import nn


class LinearPolicy(nn.Module):
    def __init__(self, num_observations, num_actions):
        super().__init__()
        self.linear = nn.Linear(num_observations, num_actions, bias=False)

    def forward(self, observation):
        return torch.tanh(self.linear(observation.unsqueeze(0))).squeeze(0)
# --- neproblem.py
import copy

import torch
from torch.nn.utils import vector_to_parameters

from core import Problem


class NEProblem(Problem):
    def __init__(self, network, num_actors):
        super().__init__(num_actors)
        self._original_network = network
        self.solution_length = sum(p.numel() for p in network.parameters())

    @property
    def network_device(self):
        return self.aux_device

    def parameterize_net(self, parameters):
        net = copy.deepcopy(self._original_network)
        with torch.no_grad():
            vector_to_parameters(parameters, net.parameters())
        return net.to(self.network_device)

    def _evaluate(self, parameters):
        with torch.no_grad():
            return self._evaluate_network(self.parameterize_net(parameters))
# --- gymne.py
import numpy as np
import torch

from neproblem import NEProblem


class Pole:
    """A pole on a cart, which tips over unless it is pushed."""

    def reset(self, seed):
        self.state = np.random.RandomState(seed).uniform(-0.1, 0.1, size=4)
        return self.state

    def step(self, action):
        x, speed, angle, turning = self.state
        push = float(action) - 1.0
        speed, turning = speed + 0.1 * push, turning + 0.2 * angle - 0.1 * push
        self.state = np.array([x + 0.1 * speed, speed, angle + 0.1 * turning, turning])
        return self.state, 1.0 - abs(self.state[2]), abs(self.state[2]) > 0.5


class GymNE(NEProblem):
    def __init__(self, env, network, num_actors, seed):
        super().__init__(network, num_actors)
        self._make_env = {"Pole": Pole}[env]
        self._seed = seed

    def _use_policy(self, observation, policy):
        result = policy(torch.as_tensor(observation, dtype=torch.float32, device="cpu")).cpu().numpy()
        return int(result.argmax())

    def _evaluate_network(self, policy):
        env = self._make_env()
        observation, total, done, steps = env.reset(self._seed), 0.0, False, 0
        while not done and steps < 25:
            observation, reward, done = env.step(self._use_policy(observation, policy))
            total, steps = total + reward, steps + 1
        return total

# === an_arm_that_explores_a_little
# thread: https://github.com/pranz24/pytorch-soft-actor-critic/pull/21
# about: an agent of soft actor-critic may be given a deterministic policy, to whose actions a little noise is added while it explores
# operation: add on cuda:1, cpu
# operands: other|noise|self.noise
# category: state-not-registered|created-without-device
# line: model.py: self.noise = torch.zeros(num_actions)
# line: model.py: action = mean + noise
# line: model.py: noise = self.noise.copy_(
# line: sac.py: self.policy = DeterministicPolicy(
# repair: model.py: self.noise = torch.zeros(num_actions) -> self.register_buffer("noise", torch.zeros(num_actions))
import torch

from arm import Arm
from sac import SAC


def main():
    torch.manual_seed(21)
    env = Arm(seed=3)
    agent = SAC(env.num_inputs, env.num_actions, policy="Deterministic", hidden_size=16, seed=5)
    memory = []
    for episode in range(3):
        state = env.reset()
        for _ in range(6):
            action = agent.select_action(state)
            next_state, reward = env.step(action)
            memory.append((state, action, reward, next_state))
            state = next_state
        loss = agent.update_parameters(memory[-6:])
    action = agent.select_action(env.reset(), evaluate=True)
    print(f"critic {loss:.3f} action {' '.join(f'{part:.3f}' for part in action)}")


if __name__ == "__main__":
    main()
# --- arm.py
import numpy as np


class Arm:
    num_inputs, num_actions = 4, 2

    def __init__(self, seed):
        self.draw = np.random.RandomState(seed)

    def reset(self):
        self.state = self.draw.uniform(-1, 1, size=4).astype(np.float32)
        return self.state

    def step(self, action):
        self.state = self.state + 0.1 * np.concatenate([action, -action]).astype(np.float32)
        return self.state, -float(np.abs(self.state).sum())
# --- model.py
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class QNetwork(nn.Module):
    def __init__(self, num_inputs, num_actions, hidden_dim):
        super().__init__()
        self.linear1 = nn.Linear(num_inputs + num_actions, hidden_dim)
        self.linear2 = nn.Linear(hidden_dim, 1)

    def forward(self, state, action):
        return self.linear2(F.relu(self.linear1(torch.cat([state, action], dim=1))))


class DeterministicPolicy(nn.Module):
    def __init__(self, num_inputs, num_actions, hidden_dim, seed):
        super().__init__()
        self.linear1 = nn.Linear(num_inputs, hidden_dim)
        self.mean = nn.Linear(hidden_dim, num_actions)
        self.draw = np.random.RandomState(seed)
        self.noise = torch.zeros(num_actions)

    def forward(self, state):
        return torch.tanh(self.mean(F.relu(self.linear1(state))))

    def sample(self, state):
        mean = self.forward(state)
        noise = self.noise.copy_(torch.from_numpy(self.draw.normal(0.0, 0.1, size=len(self.noise))))
        noise = noise.clamp(-0.25, 0.25)
        action = mean + noise
        return action, mean
# --- sac.py
import numpy as np
import torch
from torch.nn import functional as F

from model import DeterministicPolicy, QNetwork


class SAC:
    def __init__(self, num_inputs, num_actions, policy, hidden_size, seed, gamma=0.9):
        if policy != "Deterministic":
            raise ValueError(policy)
        self.gamma = gamma
        self.device = torch.device("cuda", torch.cuda.device_count() - 1)
        self.critic = QNetwork(num_inputs, num_actions, hidden_size).to(self.device)
        self.critic_optim = torch.optim.Adam(self.critic.parameters(), lr=0.01)
        self.policy = DeterministicPolicy(num_inputs, num_actions, hidden_size, seed).to(self.device)
        self.policy_optim = torch.optim.Adam(self.policy.parameters(), lr=0.01)

    def select_action(self, state, evaluate=False):
        state = torch.as_tensor(state, device=self.device).unsqueeze(0)
        with torch.no_grad():
            action = self.policy(state) if evaluate else self.policy.sample(state)[0]
        return action.cpu().numpy()[0]

    def update_parameters(self, batch):
        state, action, reward, following = (torch.as_tensor(np.array(part, dtype=np.float32), device=self.device) for part in zip(*batch))
        with torch.no_grad():
            target = reward.unsqueeze(1) + self.gamma * self.critic(following, self.policy.sample(following)[0])
        critic_loss = F.mse_loss(self.critic(state, action), target)
        self.critic_optim.zero_grad()
        critic_loss.backward()
        self.critic_optim.step()
        policy_loss = -self.critic(state, self.policy.sample(state)[0]).mean()
        self.policy_optim.zero_grad()
        policy_loss.backward()
        self.policy_optim.step()
        return critic_loss.item()

# === one_network_for_many_tasks
# thread: https://github.com/namisan/mt-dnn/pull/40
# about: one encoder is trained on several tasks in turn, each with a head of its own. A class holds the network and all that is needed to update it
# operation: add_? on cpu, cuda:0
# operands: self|other|exp_avg|grad|p.grad|.*exp_avg.*
# category: optimizer
# line: dnn_model.py: self.network = SANBertNetwork(opt)
# line: dnn_model.py: self.network.cuda()
# line: dnn_model.py: self._setup_optim(
# line: dnn_model.py: self.optimizer = Adamax(
# line: bert_optim.py: state["exp_avg"] = torch.zeros_like(p)
# repair: dnn_model.py: self.network = SANBertNetwork(opt) -> self.network = SANBertNetwork(opt).cuda() if opt["cuda"] else SANBertNetwork(opt)
import torch

from dnn_model import MTDNNModel
from tasks import batches_of_tasks


def main():
    opt = {"cuda": torch.cuda.is_available(), "vocab_size": 25, "hidden_size": 12, "label_size": [2, 3], "learning_rate": 0.05, "grad_clipping": 1.0}
    torch.manual_seed(40)
    model = MTDNNModel(opt)
    for epoch in range(2):
        for task_id, inputs, labels in batches_of_tasks(opt, count=4):
            model.update(task_id, inputs, labels)
        print(f"epoch {epoch} updates {model.updates} loss {model.train_loss:.3f}")


if __name__ == "__main__":
    main()
# --- tasks.py
import torch


def batches_of_tasks(opt, count):
    draw = torch.Generator().manual_seed(2019)
    for index in range(count):
        task_id = index % len(opt["label_size"])
        inputs = torch.randint(opt["vocab_size"], (8, 5), generator=draw)
        yield task_id, inputs, inputs.sum(dim=1) % opt["label_size"][task_id]
# --- matcher.py
import torch
from torch import nn


class SANBertNetwork(nn.Module):
    def __init__(self, opt):
        super().__init__()
        hidden = opt["hidden_size"]
        self.bert = nn.Embedding(opt["vocab_size"], hidden)
        self.pooler = nn.Linear(hidden, hidden)
        self.scoring_list = nn.ModuleList(nn.Linear(hidden, size) for size in opt["label_size"])

    def forward(self, input_ids, task_id):
        pooled = torch.tanh(self.pooler(self.bert(input_ids).mean(dim=1)))
        return self.scoring_list[task_id](pooled)
# --- bert_optim.py
import torch
from torch.optim import Optimizer


class Adamax(Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, max_grad_norm=1.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, max_grad_norm=max_grad_norm))
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["step"] = 0
                state["exp_avg"] = torch.zeros_like(p)
                state["exp_inf"] = torch.zeros_like(p)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                state["step"] += 1
                grad = p.grad
                exp_avg = state["exp_avg"].mul_(beta1).add_(grad, alpha=1 - beta1)
                state["exp_inf"] = torch.maximum(state["exp_inf"] * beta2, grad.abs() + group["eps"])
                p.sub_(group["lr"] / (1 - beta1 ** state["step"]) * exp_avg / state["exp_inf"])
# --- dnn_model.py
import torch
from torch.nn import functional as F

from bert_optim import Adamax
from matcher import SANBertNetwork


class MTDNNModel:
    def __init__(self, opt):
        self.config = opt
        self.updates = 0
        self.train_loss = 0.0
        self.network = SANBertNetwork(opt)
        self._setup_optim([p for p in self.network.parameters() if p.requires_grad])
        if opt["cuda"]:
            self.network.cuda()

    def _setup_optim(self, parameters):
        self.optimizer = Adamax(parameters, self.config["learning_rate"], max_grad_norm=self.config["grad_clipping"])
        self.total_state = sum(value.numel() for state in self.optimizer.state.values() for value in state.values() if torch.is_tensor(value))

    def update(self, task_id, inputs, labels):
        self.network.train()
        if self.config["cuda"]:
            inputs, labels = inputs.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        loss = F.cross_entropy(self.network(inputs, task_id), labels)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config["grad_clipping"])
        self.optimizer.step()
        self.updates += 1
        self.train_loss += (loss.item() - self.train_loss) / self.updates
