# === alibi_bias_attribute
# thread: https://github.com/torchgeo/torchgeo/pull/3232
# about: one bias for two encoders, handed down three calls as an argument
# operation: add on cuda:0, cpu
# operands: attention_scores|scores, relative_position_bias|self.attn_bias|attn_bias
# category: state-not-registered
# line: croma.py: self.attn_bias = get_2dalibi(
# line: croma.py: attention_scores = attention_scores + relative_position_bias
# line: croma.py: encodings = encoder(patches, self.attn_bias)
# repair: croma.py: self.attn_bias = get_2dalibi(num_heads, self.num_patches) -> self.register_buffer("attn_bias", get_2dalibi(num_heads, self.num_patches), persistent=False)
import torch

from croma import croma_tiny

torch.manual_seed(3232)
model = croma_tiny(modalities=("sar", "optical")).to("cuda:0").eval()
x_sar, x_optical = torch.rand(2, 2, 12, 12).to("cuda:0"), torch.rand(2, 12, 12, 12).to("cuda:0")
with torch.no_grad():
    out = model(x_sar=x_sar, x_optical=x_optical)
print("encodings", {name: round(value.sum().item(), 3) for name, value in sorted(out.items())})
# --- croma.py
import itertools
import math

import torch
from torch import nn


def get_2dalibi(num_heads, num_patches):
    """A bias by the distance between two patches, less from head to head. [1, heads, patches, patches]"""
    side = math.isqrt(num_patches)
    points = list(itertools.product(range(side), repeat=2))
    slopes = [2 ** (-8 * (head + 1) / num_heads) for head in range(num_heads)]
    distances = [[-math.dist(one, other) * slope for other in points] for slope in slopes for one in points]
    return torch.tensor(distances).view(1, num_heads, num_patches, num_patches)


class Attention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.input_norm, self.to_qkv, self.to_out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)

    def forward(self, x, relative_position_bias):
        b, n, d = x.shape
        q, k, v = self.to_qkv(self.input_norm(x)).view(b, n, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        attention_scores = q @ k.transpose(-2, -1) * self.scale
        attention_scores = attention_scores + relative_position_bias
        return self.to_out((attention_scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class BaseTransformer(nn.Module):
    def __init__(self, dim, depth, num_heads):
        super().__init__()
        self.layers = nn.ModuleList(Attention(dim, num_heads) for _ in range(depth))

    def forward(self, x, relative_position_bias):
        for layer in self.layers:
            x = x + layer(x, relative_position_bias)
        return x


class CROMA(nn.Module):
    channels = {"sar": 2, "optical": 12}

    def __init__(self, modalities, dim=16, depth=2, num_heads=4, image_size=12, patch_size=4):
        super().__init__()
        self.patch_size, self.num_patches = patch_size, (image_size // patch_size) ** 2
        self.attn_bias = get_2dalibi(num_heads, self.num_patches)
        self.embed = nn.ModuleDict({name: nn.Linear(self.channels[name] * patch_size**2, dim) for name in modalities})
        self.encoders = nn.ModuleDict({name: BaseTransformer(dim, depth, num_heads) for name in modalities})

    def forward(self, **images):
        out = {}
        for name, encoder in self.encoders.items():
            tiles = nn.functional.unfold(images[f"x_{name}"], self.patch_size, stride=self.patch_size)
            patches = self.embed[name](tiles.transpose(1, 2))
            encodings = encoder(patches, self.attn_bias)
            out[f"{name}_GAP"] = encodings.mean(1)
        return out


def croma_tiny(**options):
    return CROMA(**options)

# === bars_begun
# thread: https://github.com/dvruette/figaro/pull/11
# about: what it is compared with goes forward token by token on the GPU; the first value does not come from there
# operation: eq on cuda:0, cpu
# operands: next_bars, curr_bars
# category: created-without-device
# line: seq2seq.py: curr_bars = torch.zeros(
# line: seq2seq.py: bars_changed = not
# repair: seq2seq.py: curr_bars = torch.zeros(batch_size, dtype=torch.long).fill_(-1) -> curr_bars = torch.zeros(batch_size, dtype=torch.long, device=x.device).fill_(-1)
import torch

from seq2seq import Seq2SeqModule
from vocab import RemiVocab

torch.manual_seed(11)
vocab = RemiVocab(pitches=12)
model = Seq2SeqModule(vocab, width=16).to("cuda").eval()
batch = {
    "input_ids": torch.tensor([[vocab.bar, 3, 7], [vocab.bar, 5, 5]]),
    "bar_ids": torch.ones(2, 3, dtype=torch.long),
    "description": torch.rand(2, 6, 16),
}
batch = {name: value.to("cuda") for name, value in batch.items()}
sample = model.sample(batch, max_length=12)
print("sequences", sample["sequences"].tolist(), sample["bar_ids"][:, -1].tolist())
# --- vocab.py
class RemiVocab:
    """Notes by their pitch, and one token that begins a bar."""

    def __init__(self, pitches):
        self.bar = pitches

    def __len__(self):
        return self.bar + 1
# --- seq2seq.py
import torch
from torch import nn


class Seq2SeqModule(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.vocab = vocab
        self.embed, self.out = nn.Embedding(len(vocab), width), nn.Linear(width, len(vocab))

    def encode(self, descriptions):
        return descriptions.softmax(-1)

    def decode(self, x, encoded, bars):
        hidden = self.embed(x).mean(1) + encoded[torch.arange(len(x)), bars.clamp(max=encoded.shape[1] - 1)]
        return self.out(torch.tanh(hidden))

    @torch.no_grad()
    def sample(self, batch, max_length):
        x, bar_ids = batch["input_ids"], batch["bar_ids"]
        batch_size = x.shape[0]
        curr_bars = torch.zeros(batch_size, dtype=torch.long).fill_(-1)
        encoded = None
        while x.shape[1] < max_length:
            next_bars = bar_ids[:, -1]
            bars_changed = not (next_bars == curr_bars).all()
            if bars_changed:
                encoded = self.encode(batch["description"])
                curr_bars = next_bars
            logits = self.decode(x, encoded, curr_bars)
            logits[:, self.vocab.bar] += (x.shape[1] % 4 == 0) * 10.0
            token = logits.argmax(-1, keepdim=True)
            x = torch.cat([x, token], dim=1)
            bar_ids = torch.cat([bar_ids, bar_ids[:, -1:] + (token == self.vocab.bar)], dim=1)
        return {"sequences": x, "bar_ids": bar_ids}

# === bit_buffer
# thread: https://github.com/michaelsdr/momentumnet/pull/30
# about: the type of a device has lost its index
# operation: add|mul on cuda:0, cuda:1
# operands: self.rep|rep, remainder
# category: default-or-current-device
# line: exact_rep.py: self.device = val.device.type
# line: exact_rep.py: self.rep = torch.zeros(
# line: exact_rep.py: self.aux = BitBuffer(
# repair: exact_rep.py: self.device = val.device.type -> self.device = val.device
import torch
from torch import nn

from momentum import MomentumNet

torch.manual_seed(30)
blocks = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)) for _ in range(3)]
net = MomentumNet(blocks, gamma=(9, 10)).to("cuda:1").eval()
x = torch.randn(5, 4).to("cuda:1")
with torch.no_grad():
    y, velocity = net(x)
    back = net.invert(y, velocity)
print("out", round(y.sum().item(), 3), "lost", (back - x).abs().max().item() < 1e-4)
# --- momentum.py
import torch
from torch import nn

from exact_rep import ExactRep


class MomentumNet(nn.Module):
    """Residual blocks with a velocity, which can be gone back through without activations kept."""

    def __init__(self, functions, gamma):
        super().__init__()
        self.functions, self.gamma = nn.ModuleList(functions), gamma

    def forward(self, x):
        velocity = ExactRep(torch.zeros_like(x))
        for function in self.functions:
            velocity.multiply(*self.gamma)
            velocity.add(0.1 * function(x))
            x = x + velocity.value()
        return x, velocity

    def invert(self, x, velocity):
        for function in reversed(self.functions):
            x = x - velocity.value()
            velocity.add(-0.1 * function(x))
            velocity.divide(*self.gamma)
        return x
# --- exact_rep.py
import torch


class BitBuffer:
    """A stack, for each entry, of what a division has left over."""

    def __init__(self, shape, device):
        self.rep = torch.zeros(shape, dtype=torch.long, device=device)

    def push(self, remainder, base):
        self.rep = self.rep * base + remainder

    def pop(self, base):
        remainder = self.rep % base
        self.rep = self.rep // base
        return remainder


class ExactRep:
    """Numbers of fixed precision that can be multiplied by a fraction and back."""

    def __init__(self, val, radix=20):
        self.device = val.device.type
        self.scale = 2**radix
        self.intrep = self.to_int(val)
        self.aux = BitBuffer(val.shape, self.device)

    def to_int(self, val):
        return (val.double() * self.scale).round().long()

    def value(self):
        return (self.intrep.double() / self.scale).float()

    def add(self, val):
        self.intrep = self.intrep + self.to_int(val)

    def multiply(self, n, d):
        self.aux.push(self.intrep % d, d)
        self.intrep = self.intrep // d * n + self.aux.pop(n)

    def divide(self, n, d):
        self.aux.push(self.intrep % n, n)
        self.intrep = self.intrep // n * d + self.aux.pop(d)

# === cross_entropy_chunks
# thread: https://github.com/unslothai/unsloth/pull/4059
# about: an autograd function gets logits of the last card and labels of the first
# operation: masked_fill_ on cuda:1, cuda:0
# operands: losses|self, labels|mask
# category: input-not-moved|module-split
# error: expected self and mask to be on the same device
# line: losses.py: n_rows, vocab_size = logits.shape
# line: losses.py: losses.masked_fill_(
# line: losses.py: loss = Fast_CrossEntropyLoss.apply(
# line: losses.py: shift_labels = torch.cat(
# line: main.py: return fast_cross_entropy_loss(
# repair: losses.py: n_rows, vocab_size = logits.shape -> labels, (n_rows, vocab_size) = labels.to(logits.device), logits.shape
import torch
from accelerate import dispatch_model
from torch import nn

from losses import fast_cross_entropy_loss


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mlp = nn.Linear(width, width)

    def forward(self, hidden_states):
        return hidden_states + torch.tanh(self.mlp(hidden_states))


class CausalLM(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids, labels):
        hidden_states = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        logits = self.lm_head(hidden_states)
        return fast_cross_entropy_loss(logits, labels)


def collate(examples):
    longest = max(len(ids) for ids in examples)
    input_ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids in examples])
    labels = torch.tensor([ids + [-100] * (longest - len(ids)) for ids in examples])
    return {"input_ids": input_ids.to("cuda:0"), "labels": labels.to("cuda:0")}


torch.manual_seed(4059)
model = dispatch_model(CausalLM(50, 8, 4), {"embed_tokens": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "lm_head": 1})
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for batch in [collate([[4, 9, 17, 23], [8, 3]]), collate([[11, 12, 13], [31, 5, 2]])]:
    loss = model(**batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("loss", round(loss.item(), 4))
# --- losses.py
import torch

MAX_FUSED_SIZE = 16


class Fast_CrossEntropyLoss(torch.autograd.Function):
    """The vocabulary in chunks, which are summed up at the end."""

    @staticmethod
    def forward(ctx, logits, labels):
        n_rows, vocab_size = logits.shape
        chunks = [logits[:, start : start + MAX_FUSED_SIZE].logsumexp(1) for start in range(0, vocab_size, MAX_FUSED_SIZE)]
        logsumexp = torch.stack(chunks, dim=1).logsumexp(1)
        losses = logsumexp.clone()
        losses.masked_fill_(labels == -100, 0)
        picked = logits.gather(1, labels.clamp(min=0).unsqueeze(1)).squeeze(1)
        losses -= picked * (labels != -100)
        ctx.save_for_backward(logits, logsumexp, labels)
        return losses

    @staticmethod
    def backward(ctx, dlosses):
        logits, logsumexp, labels = ctx.saved_tensors
        grad = (logits - logsumexp.unsqueeze(1)).exp()
        rows = torch.arange(len(labels), device=logits.device)
        grad[rows, labels.clamp(min=0)] -= 1
        return grad * (dlosses * (labels != -100)).unsqueeze(1), None


def fast_cross_entropy_loss(logits, labels):
    batch, seq_len, d = logits.shape
    shift_labels = torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], -100)], dim=1)
    loss = Fast_CrossEntropyLoss.apply(logits.view(batch * seq_len, d), shift_labels.view(-1))
    n_items = torch.count_nonzero(shift_labels != -100)
    return loss.sum() / n_items.item()

# === entropy_none
# thread: https://github.com/HumanCompatibleAI/imitation/issues/870
# about: only a policy whose distribution has no entropy comes to the other half of the line
# operation: add on cuda:0, cpu
# operands: neglogp, ent_loss
# category: created-without-device
# line: bc.py: ent_loss = -self.ent_weight
# line: bc.py: loss = neglogp + ent_loss + l2_loss
# repair: bc.py: ent_loss = -self.ent_weight * (entropy if entropy is not None else th.zeros(1)) -> ent_loss = -self.ent_weight * (entropy if entropy is not None else th.zeros(1, device=neglogp.device))
import torch as th

from bc import BC, Trajectory
from policies import POLICIES


def expert(n):
    obs = th.linspace(-1, 1, 4 * n).view(n, 4)
    return [Trajectory(obs=obs[i : i + 8], acts=obs[i : i + 8, :2] * 0.5) for i in range(0, n, 8)]


th.manual_seed(870)
for name, use_sde in (("MlpPolicy", False), ("SdePolicy", True)):
    policy = POLICIES[name](obs_dim=4, act_dim=2, device="cuda")
    trainer = BC(policy=policy, demonstrations=expert(32))
    metrics = trainer.train(n_epochs=2)
print("bc", name, " ".join(f"{key} {value:.4f}" for key, value in sorted(metrics.items())))
# --- policies.py
import torch as th
from torch import nn
from torch.distributions import Normal

POLICIES = {}


def register(policy_class):
    POLICIES[policy_class.__name__] = policy_class
    return policy_class


@register
class MlpPolicy(nn.Module):
    def __init__(self, obs_dim, act_dim, device):
        super().__init__()
        self.latent, self.action_net = nn.Linear(obs_dim, 16), nn.Linear(16, act_dim)
        self.log_std = nn.Parameter(th.zeros(act_dim))
        self.device = th.device(device)
        self.to(self.device)

    def distribution(self, obs):
        return Normal(self.action_net(th.tanh(self.latent(obs))), self.log_std.exp())

    def evaluate_actions(self, obs, actions):
        distribution = self.distribution(obs)
        return distribution.log_prob(actions).sum(1), distribution.entropy().sum(1)


@register
class SdePolicy(MlpPolicy):
    """Noise that depends on the state, squashed: there is no formula for its entropy."""

    def evaluate_actions(self, obs, actions):
        gaussian = th.atanh(actions.clamp(-0.999, 0.999))
        log_prob = self.distribution(obs).log_prob(gaussian) - th.log(1 - actions**2 + 1e-6)
        return log_prob.sum(1), None
# --- bc.py
import dataclasses

import torch as th


@dataclasses.dataclass
class Trajectory:
    obs: th.Tensor
    acts: th.Tensor


@dataclasses.dataclass(frozen=True)
class BehaviorCloningLossCalculator:
    ent_weight: float
    l2_weight: float

    def __call__(self, policy, obs, acts):
        log_prob, entropy = policy.evaluate_actions(obs, acts)
        entropy = entropy.mean() if entropy is not None else None
        l2_norm = sum(th.sum(th.square(w)) for w in policy.parameters()) / 2
        neglogp = -log_prob.mean()
        ent_loss = -self.ent_weight * (entropy if entropy is not None else th.zeros(1))
        l2_loss = self.l2_weight * l2_norm
        loss = neglogp + ent_loss + l2_loss
        return {"neglogp": neglogp, "l2_loss": l2_loss, "loss": loss}


class BC:
    def __init__(self, policy, demonstrations, ent_weight=1e-3, l2_weight=1e-4):
        self.policy, self.demonstrations = policy, demonstrations
        self.loss_calculator = BehaviorCloningLossCalculator(ent_weight, l2_weight)
        self.optimizer = th.optim.Adam(policy.parameters(), lr=0.01)

    def train(self, n_epochs):
        for _ in range(n_epochs):
            for batch in self.demonstrations:
                metrics = self.loss_calculator(self.policy, batch.obs.to(self.policy.device), batch.acts.to(self.policy.device))
                self.optimizer.zero_grad()
                metrics["loss"].backward()
                self.optimizer.step()
        return {key: value.item() for key, value in metrics.items()}

# === epoch_of_metrics
# thread: https://github.com/chemprop/chemprop/pull/973
# about: the criterion, of the same class, moves with the model; the metrics, in a list, do not
# operation: mul on cuda:0, cpu
# operands: L, self.task_weights|task_weights
# category: state-not-registered|module-split
# line: mpnn.py: self.metrics = [
# line: metrics.py: L = L * self.task_weights
# line: main.py: model = MPNN(
# repair: metrics.py: L = L * self.task_weights -> L = L * self.task_weights.to(L.device)
import torch

from metrics import MetricRegistry
from mpnn import MPNN

torch.manual_seed(973)
metrics = [MetricRegistry[name](task_weights=[1.0, 0.5, 2.0]) for name in ("bce", "binary-mcc")]
model = MPNN(n_atom_features=5, n_tasks=3, criterion=MetricRegistry["bce"](), metrics=metrics).to("cuda")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
batches = [(torch.rand(8, 6, 5), torch.randint(0, 2, (8, 3)).float()) for _ in range(3)]
batches = [tuple(part.to("cuda") for part in batch) for batch in batches]
for batch in batches[:2]:
    optimizer.zero_grad()
    model.training_step(batch).backward()
    optimizer.step()
model.eval()
print("validation", {name: round(value, 4) for name, value in model.validation_step(batches[2]).items()})
# --- metrics.py
import torch
from torch import nn

MetricRegistry = {}


def register(alias):
    def add(metric):
        metric.alias = alias
        return MetricRegistry.setdefault(alias, metric)

    return add


@register("bce")
class BCELoss(nn.Module):
    def __init__(self, task_weights=(1.0,)):
        super().__init__()
        self.register_buffer("task_weights", torch.as_tensor(task_weights).view(1, -1))

    def forward(self, preds, targets):
        L = self.unreduced(preds, targets)
        L = L * self.task_weights
        return L.mean()

    def unreduced(self, preds, targets):
        return nn.functional.binary_cross_entropy_with_logits(preds, targets, reduction="none")


@register("binary-mcc")
class BinaryMCCMetric(BCELoss):
    """Matthews' coefficient of each task, out of 1."""

    def unreduced(self, preds, targets):
        yes, true = (preds > 0).float(), targets
        tp, tn = (yes * true).sum(0, keepdim=True), ((1 - yes) * (1 - true)).sum(0, keepdim=True)
        fp, fn = (yes * (1 - true)).sum(0, keepdim=True), ((1 - yes) * true).sum(0, keepdim=True)
        return 1 - (tp * tn - fp * fn) / ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)).clamp_min(1).sqrt()
# --- mpnn.py
import torch
from torch import nn


class MPNN(nn.Module):
    def __init__(self, n_atom_features, n_tasks, criterion, metrics):
        super().__init__()
        self.message_passing = nn.Linear(n_atom_features, 16)
        self.predictor = nn.Linear(16, n_tasks)
        self.criterion = criterion
        self.metrics = [*metrics]

    def forward(self, atoms):
        return self.predictor(torch.relu(self.message_passing(atoms)).mean(1))

    def training_step(self, batch):
        atoms, targets = batch
        return self.criterion(self(atoms), targets)

    @torch.no_grad()
    def validation_step(self, batch):
        atoms, targets = batch
        preds = self(atoms)
        return {metric.alias: metric(preds, targets).item() for metric in self.metrics}

# === grad_norm_score
# thread: https://github.com/kkirchheim/pytorch-ood/issues/104
# about: the sum is a single number, which a CPU tensor may be in any operation but not where it is written into
# operation: add_ on cpu, cuda:0
# operands: total_norm|self
# category: created-without-device
# line: gradnorm.py: total_norm = torch.tensor(0.0)
# line: gradnorm.py: total_norm += torch.sum(
# repair: gradnorm.py: total_norm = torch.tensor(0.0) -> total_norm = torch.tensor(0.0, device=x.device)
import torch
from torch import nn

from gradnorm import GradNorm
from ood_metrics import OODMetrics

torch.manual_seed(104)
device = "cuda:0"
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4)).to(device).eval()
detector = GradNorm(model, param_filter=lambda name: name.startswith("2."))
loader = [(torch.rand(4, 6) + shift, torch.full((4,), label)) for shift, label in ((0.0, 1), (0.2, -1))]
metrics = OODMetrics()
for x, y in loader:
    metrics.update(detector(x.to(device)), y)
print("auroc", metrics.compute(), "mean score", round(torch.cat(metrics.scores).mean().item(), 4))
# --- gradnorm.py
import torch


class GradNorm:
    """Of how far the model is from being sure: the norm of the gradient that a uniform target gives."""

    def __init__(self, model, param_filter=None):
        self.model, self.param_filter = model, param_filter or (lambda name: True)

    def __call__(self, *args, **kwargs):
        return self.predict(*args, **kwargs)

    def predict(self, x):
        scores = []
        for sample in x:
            self.model.zero_grad()
            logits = self.model(sample.unsqueeze(0))
            loss = -logits.log_softmax(dim=1).mean()
            loss.backward()
            total_norm = torch.tensor(0.0)
            for name, p in self.model.named_parameters():
                if self.param_filter(name) and p.grad is not None:
                    total_norm += torch.sum(p.grad.detach() ** 2)
            scores.append(-total_norm.sqrt())
        return torch.stack(scores)
# --- ood_metrics.py
import torch


class OODMetrics:
    def __init__(self):
        self.scores, self.labels = [], []

    def update(self, scores, labels):
        self.scores.append(scores.detach().cpu())
        self.labels.append(labels < 0)

    def compute(self):
        scores, outliers = torch.cat(self.scores), torch.cat(self.labels)
        ahead = scores[outliers].unsqueeze(1) > scores[~outliers].unsqueeze(0)
        return round(ahead.float().mean().item(), 4)

# === hypothesis_scores
# thread: https://github.com/espnet/espnet/issues/5612
# about: tensors of a batch of hypotheses, some on the GPU and some on the CPU; an index from the GPU suits only the first
# operation: index on cpu, cuda:0
# operands: hyps.score|score, ids|remained_ids
# category: created-without-device|input-not-moved
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# line: batch_beam_search.py: remained_ids = torch.nonzero(
# line: batch_beam_search.py: score=torch.tensor(
# line: batch_beam_search.py: score=hyps.score[ids]
# line: batch_beam_search.py: return self._batch_select(running, remained_ids)
# repair: batch_beam_search.py: remained_ids = torch.nonzero(is_eos == 0).view(-1) -> remained_ids = torch.nonzero(is_eos == 0).view(-1).cpu()
import torch

from batch_beam_search import BatchBeamSearch
from decoder import Decoder

torch.manual_seed(5613)
decoder = Decoder(vocabulary=9, width=6).to("cuda").eval()
search = BatchBeamSearch(decoder, beam_size=3, sos=0, eos=8)
speech = torch.rand(7, 6).to("cuda")
with torch.no_grad():
    nbest = search(speech, maxlen=6)
print("nbest", [(hyp.yseq.tolist(), round(float(hyp.score), 3)) for hyp in nbest[:2]])
# --- decoder.py
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.output = nn.Embedding(vocabulary, width), nn.Linear(2 * width, vocabulary)

    def batch_score(self, yseq, x):
        query = self.embed(yseq[:, -1])
        context = (query @ x.T).softmax(-1) @ x
        return self.output(torch.cat([query, context], dim=1) * 4).log_softmax(-1)
# --- batch_beam_search.py
from typing import NamedTuple

import torch


class Hypothesis(NamedTuple):
    yseq: torch.Tensor
    score: float = 0


class BatchHypothesis(NamedTuple):
    yseq: torch.Tensor
    score: torch.Tensor

    def __len__(self):
        return len(self.yseq)


class BatchBeamSearch:
    def __init__(self, scorer, beam_size, sos, eos):
        self.scorer, self.beam_size, self.sos, self.eos = scorer, beam_size, sos, eos

    def batchfy(self, hyps):
        return BatchHypothesis(
            yseq=torch.stack([h.yseq for h in hyps]),
            score=torch.tensor([h.score for h in hyps]),
        )

    def _batch_select(self, hyps, ids):
        return BatchHypothesis(
            yseq=hyps.yseq[ids],
            score=hyps.score[ids],
        )

    def search(self, running, x):
        weighted = self.scorer.batch_score(running.yseq, x) + running.score.to(x.device).unsqueeze(1)
        top = weighted.view(-1).topk(min(self.beam_size, weighted.numel()))
        best = []
        for score, place in zip(top.values.tolist(), top.indices.tolist()):
            parent, token = divmod(place, weighted.shape[1])
            yseq = torch.cat([running.yseq[parent], torch.tensor([token]).to(x.device)])
            best.append(Hypothesis(yseq, score))
        return self.batchfy(best)

    def post_process(self, i, maxlen, running, ended):
        is_eos = running.yseq[:, -1] == self.eos
        if i == maxlen - 1:
            is_eos = torch.ones_like(is_eos)
        for b in torch.nonzero(is_eos).view(-1).tolist():
            ended.append(Hypothesis(running.yseq[b], running.score[b]))
        remained_ids = torch.nonzero(is_eos == 0).view(-1)
        return self._batch_select(running, remained_ids)

    def __call__(self, x, maxlen):
        running, ended = self.batchfy([Hypothesis(torch.tensor([self.sos]).to(x.device), 0.0)]), []
        for i in range(maxlen):
            running = self.post_process(i, maxlen, self.search(running, x), ended)
            if len(running) == 0:
                break
        return sorted(ended, key=lambda hyp: float(hyp.score), reverse=True)

# === forward_put_back
# thread: https://github.com/openvinotoolkit/nncf/issues/1582
# about: after an export each replica has the forward() of the first one, as an attribute; training before it works
# operation: addmm|mm|linear|mul on cuda:0, cuda:1
# operands: weight|bias|self.fc1.weight|self.fc1.bias, x|input
# category: data-parallel|cached-state
# line: controller.py: model.forward = forward
# line: controller.py: model.forward = functools.partial(
# repair: controller.py: model.forward = forward -> del model.forward
import torch
from torch import nn

from controller import QuantizationController
from network import Classifier

torch.manual_seed(1582)
model = Classifier(6, 10, 3).to("cuda:0")
controller = QuantizationController(model, bits=4)
parallel = nn.DataParallel(model, device_ids=[0, 1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
x, y = torch.rand(8, 6).to("cuda:0"), (torch.arange(8) % 3).to("cuda:0")
for epoch in range(3):
    for _ in range(2):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(parallel(x), y)
        loss.backward()
        optimizer.step()
    exported = controller.export_model(x[:1])
print("loss", round(loss.item(), 4), "exported", round(sum(exported.values()), 3))
# --- network.py
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(features, hidden), nn.Linear(hidden, classes)

    def forward(self, x, trace=None):
        hidden = torch.relu(self.fc1(x))
        logits = self.fc2(hidden)
        if trace is not None:
            trace.update(hidden=hidden.sum().item(), logits=logits.sum().item())
        return logits
# --- controller.py
import functools

import torch


class QuantizationController:
    def __init__(self, model, bits):
        self.model, self.steps = model, 2**bits - 1

    @torch.no_grad()
    def quantized(self):
        for parameter in self.model.parameters():
            yield parameter, parameter.clone()
            scale = parameter.abs().max() / self.steps
            parameter.copy_((parameter / scale).round() * scale)

    @torch.no_grad()
    def export_model(self, example):
        """What an exporter sees, which calls the model with an example alone."""
        model, trace = self.model, {}
        kept = list(self.quantized())
        forward = model.forward
        model.forward = functools.partial(model.forward, trace=trace)
        model(example)
        model.forward = forward
        for parameter, value in kept:
            parameter.copy_(value)
        return trace

# === global_hidden
# thread: https://github.com/rociomer/dl-chem-101/issues/10
# about: a model loaded onto the CPU where there is a GPU, too
# operation: lstm|gru on cpu, cuda:0
# operands: embedded|input, hidden|cell|hx|hidden_state
# category: default-or-current-device|module-split
# error: not at the same device|on the same device
# line: rnn.py: hidden_state = self.zero_state(len(input_vector), get_device())
# line: sampler.py: logits, state = model.rnn(token, state)
# line: main.py: model = SmilesModel.load(
# repair: rnn.py: hidden_state = self.zero_state(len(input_vector), get_device()) -> hidden_state = self.zero_state(len(input_vector), input_vector.device)
import io

import torch

from rnn import SmilesModel, get_device
from sampler import likelihood, sample

torch.manual_seed(10)
trained = SmilesModel("^$CNO()").to(get_device())
print("trained", round(likelihood(trained, ["CNO", "C(O)"]).sum().item(), 3))
file = io.BytesIO()
trained.save(file)
file.seek(0)
model = SmilesModel.load(file, device="cpu")
print("sampled", sample(model, 3, length=6), "likelihood", round(likelihood(model, ["CNO", "C(O)"]).sum().item(), 3))
# --- rnn.py
import torch
from torch import nn


def get_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class RNN(nn.Module):
    def __init__(self, vocabulary_size, width=8, layers=2):
        super().__init__()
        self.layers, self.width = layers, width
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.lstm = nn.LSTM(width, width, num_layers=layers, batch_first=True)
        self.linear = nn.Linear(width, vocabulary_size)

    def zero_state(self, batch_size, device):
        shape = (self.layers, batch_size, self.width)
        return torch.zeros(shape, device=device), torch.zeros(shape, device=device)

    def forward(self, input_vector, hidden_state=None):
        if hidden_state is None:
            hidden_state = self.zero_state(len(input_vector), get_device())
        embedded = self.embedding(input_vector)
        output, hidden_state = self.lstm(embedded, hidden_state)
        return self.linear(output), hidden_state


class SmilesModel(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.vocabulary = vocabulary
        self.rnn = RNN(len(vocabulary))

    @property
    def device(self):
        return self.rnn.linear.weight.device

    def save(self, file):
        torch.save({"vocabulary": self.vocabulary, "network": self.state_dict()}, file)

    @classmethod
    def load(cls, file, device):
        saved = torch.load(file, map_location=device)
        model = cls(saved["vocabulary"])
        model.load_state_dict(saved["network"])
        return model.to(device).eval()
# --- sampler.py
import torch


@torch.no_grad()
def likelihood(model, smiles):
    longest = max(map(len, smiles))
    padded = [f"^{each}".ljust(longest + 1, "$") + "$" for each in smiles]
    tokens = torch.tensor([[model.vocabulary.index(letter) for letter in each] for each in padded], device=model.device)
    logits, _ = model.rnn(tokens[:, :-1])
    return logits.log_softmax(-1).gather(2, tokens[:, 1:].unsqueeze(2)).squeeze(2).sum(1)


@torch.no_grad()
def sample(model, count, length):
    """The likeliest letters after each of the first ones."""
    token, state = torch.arange(count, device=model.device).unsqueeze(1), None
    letters = []
    for _ in range(length):
        logits, state = model.rnn(token, state)
        token = logits[:, -1].argmax(-1, keepdim=True)
        letters.append(token)
    return ["".join(model.vocabulary[index] for index in row) for row in torch.cat(letters, dim=1).tolist()]

# === prompt_to_first
# thread: https://github.com/haotian-liu/LLaVA/pull/1921
# about: the images, one line above, go where the model is
# operation: index_select|embedding on cuda:1, cuda:0
# operands: weight|self.embed_tokens.weight, cur_input_ids_noim|part|input_ids|input|ids
# category: default-or-current-device
# line: run_llava.py: input_ids = tokenizer_image_token(
# line: llava_arch.py: def generate(self, input_ids, images
# line: run_llava.py: output_ids = model.generate(
# repair: run_llava.py: input_ids = tokenizer_image_token(prompt, IMAGE_TOKEN_INDEX).unsqueeze(0).cuda() -> input_ids = tokenizer_image_token(prompt, IMAGE_TOKEN_INDEX).unsqueeze(0).to(model.device)
import torch

from llava_arch import LlavaModel
from run_llava import Arguments, eval_model

torch.manual_seed(1921)
model = LlavaModel(vocabulary=128, width=8).to("cuda:1").eval()
args = Arguments(query="what is it?", images=[torch.rand(3, 4, 4), torch.rand(3, 4, 4)], max_new_tokens=5)
print("tokens", eval_model(model, args))
# --- run_llava.py
from dataclasses import dataclass

import torch

from llava_arch import IMAGE_TOKEN_INDEX


@dataclass
class Arguments:
    query: str
    images: list
    max_new_tokens: int = 8


def process_images(images):
    return torch.stack([(image - image.mean()) / image.std() for image in images])


def tokenizer_image_token(prompt, image_token_index):
    ids = []
    for i, chunk in enumerate(prompt.split("<image>")):
        ids += ([image_token_index] if i else []) + [ord(letter) for letter in chunk]
    return torch.tensor(ids, dtype=torch.long)


def eval_model(model, args):
    prompt = "<image>" * len(args.images) + "\nUSER: " + args.query
    images_tensor = process_images(args.images).to(model.device)
    input_ids = tokenizer_image_token(prompt, IMAGE_TOKEN_INDEX).unsqueeze(0).cuda()
    with torch.inference_mode():
        output_ids = model.generate(input_ids, images=images_tensor, max_new_tokens=args.max_new_tokens)
    return output_ids.tolist()
# --- llava_arch.py
import torch
from torch import nn

IMAGE_TOKEN_INDEX = -200


class LlavaModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.vision_tower = nn.Conv2d(3, width, kernel_size=2, stride=2)
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.lm_head = nn.Linear(width, vocabulary)

    @property
    def device(self):
        return self.lm_head.weight.device

    def prepare_inputs(self, input_ids, images):
        features = self.vision_tower(images).flatten(2).transpose(1, 2)
        ids = input_ids[0]
        places = [-1] + (ids == IMAGE_TOKEN_INDEX).nonzero().view(-1).tolist() + [len(ids)]
        embeds = []
        for i, (before, after) in enumerate(zip(places, places[1:])):
            cur_input_ids_noim = ids[before + 1 : after]
            embeds.append(self.embed_tokens(cur_input_ids_noim))
            if i < len(features):
                embeds.append(features[i])
        return torch.cat(embeds).unsqueeze(0)

    def generate(self, input_ids, images, max_new_tokens):
        embeds, tokens = self.prepare_inputs(input_ids, images), []
        for _ in range(max_new_tokens):
            hidden = torch.tanh(embeds.cumsum(1)[:, -1] / 4)
            tokens.append(self.lm_head(hidden).argmax(-1))
            embeds = torch.cat([embeds, self.embed_tokens(tokens[-1]).unsqueeze(1)], dim=1)
        return torch.cat(tokens)

# === patches_within_cache
# thread: https://github.com/vllm-project/vllm/pull/43844
# about: the loader puts parameters onto the GPU and leaves a buffer behind; images too large for it make it anew on the right device
# operation: add on cuda:0, cpu
# operands: x, pos_embed
# category: cached-state|created-without-device|module-split
# line: resampler.py: pos_embed = self.pos_embed[
# line: resampler.py: self._set_2d_pos_cache(self.max_size)
# line: resampler.py: self.register_buffer("pos_embed"
# line: resampler.py: pos_embed = torch.cat([parts[
# line: resampler.py: if tgt_h > self.max_size[0]
# line: loader.py: return model.eval()
# repair: resampler.py: pos_embed = self.pos_embed[:tgt_h, :tgt_w].reshape(tgt_h * tgt_w, -1).to(x.dtype) -> pos_embed = self.pos_embed[:tgt_h, :tgt_w].reshape(tgt_h * tgt_w, -1).to(device=x.device, dtype=x.dtype)
import torch

from loader import load_model
from resampler import Resampler

weights = {name: torch.linspace(-0.5, 0.5, size).view(shape) for name, size, shape in [
    ("query", 24, (3, 8)), ("kv_proj.weight", 48, (8, 6)), ("attn.in_proj_weight", 192, (24, 8)), ("attn.in_proj_bias", 24, (24,)),
    ("attn.out_proj.weight", 64, (8, 8)), ("attn.out_proj.bias", 8, (8,)),
]}
resampler = load_model(Resampler, weights, target_device="cuda:0", num_queries=3, embed_dim=8, kv_dim=6)
torch.manual_seed(43844)
sums = []
for tgt_sizes in ([5, 6], [2, 3]):
    image = torch.rand(1, tgt_sizes[0] * tgt_sizes[1], 6).to("cuda:0")
    for model in (resampler, load_model(Resampler, weights, target_device="cuda:0", num_queries=3, embed_dim=8, kv_dim=6)):
        with torch.inference_mode():
            sums.append(round(model(image, tgt_sizes).square().sum().item(), 3))
print("resampled", sums)
# --- loader.py
import torch


def load_model(model_class, weights, target_device, **config):
    """The model's parameters are made where they are to be and filled one after the other."""
    with torch.device(target_device):
        model = model_class(**config)
    parameters = dict(model.named_parameters())
    for name, loaded_weight in weights.items():
        parameters[name].data.copy_(loaded_weight)
    return model.eval()
# --- resampler.py
import numpy as np
import torch
from torch import nn


def get_1d_sincos(embed_dim, places):
    omega = 1.0 / 10000 ** (np.arange(embed_dim // 2) / (embed_dim / 2))
    angles = np.outer(places, omega)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


class Resampler(nn.Module):
    """A fixed number of queries that look at as many patches as there are."""

    def __init__(self, num_queries, embed_dim, kv_dim, num_heads=2, max_size=(4, 4)):
        super().__init__()
        self.embed_dim, self.max_size = embed_dim, max_size
        self.query = nn.Parameter(torch.zeros(num_queries, embed_dim))
        self.kv_proj = nn.Linear(kv_dim, embed_dim, bias=False)
        self.attn = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)
        self._set_2d_pos_cache(self.max_size)

    def _set_2d_pos_cache(self, max_size, device="cpu"):
        height, width = max_size
        parts = [torch.from_numpy(get_1d_sincos(self.embed_dim // 2, np.arange(size))).float() for size in (height, width)]
        pos_embed = torch.cat([parts[0][:, None].expand(-1, width, -1), parts[1][None].expand(height, -1, -1)], dim=-1).to(device)
        self.register_buffer("pos_embed", pos_embed, persistent=False)

    def _adjust_pos_cache(self, tgt_h, tgt_w, device):
        if tgt_h > self.max_size[0] or tgt_w > self.max_size[1]:
            self.max_size = (max(tgt_h, self.max_size[0]), max(tgt_w, self.max_size[1]))
            self._set_2d_pos_cache(self.max_size, device)

    def forward(self, x, tgt_sizes):
        tgt_h, tgt_w = tgt_sizes
        self._adjust_pos_cache(tgt_h, tgt_w, device=x.device)
        pos_embed = self.pos_embed[:tgt_h, :tgt_w].reshape(tgt_h * tgt_w, -1).to(x.dtype)
        x = self.kv_proj(x)
        out, _ = self.attn(self.query.unsqueeze(0), x + pos_embed, x, need_weights=False)
        return out

# === priority_weights
# thread: https://github.com/pytorch/rl/issues/2518
# about: storage and samples are on the GPU, the weights that come with them are not
# operation: mul on cpu, cuda:0
# operands: weight|info\[.*, td_error|td_error.square\(\)|.*pow.*
# category: created-without-device|input-not-moved
# line: samplers.py: weight = torch.as_tensor(
# line: samplers.py: return index, {
# line: replay_buffers.py: index, info = self.sampler.sample(
# line: replay_buffers.py: return self.storage.get(index), info
# line: dqn.py: weight = info["_weight"]
# line: dqn.py: loss = (weight *
# line: dqn.py: sample, info = self.buffer.sample(
# repair: samplers.py: weight = torch.as_tensor(weight, dtype=torch.float) -> weight = torch.as_tensor(weight, dtype=torch.float, device=storage.device)
import torch

from dqn import Agent
from replay_buffers import LazyTensorStorage, ReplayBuffer
from samplers import PrioritizedSampler

torch.manual_seed(2518)
device = torch.device("cuda")
buffer = ReplayBuffer(LazyTensorStorage(16, device=device), PrioritizedSampler(16, alpha=0.7, beta=0.5), batch_size=8)
agent = Agent(buffer, device)
obs = torch.rand(4)
for step in range(16):
    action = agent.act(obs)
    after = (obs + 0.1 * (action - 0.5)).clamp(0, 1)
    buffer.add({"obs": obs, "action": torch.tensor([action]), "reward": after.mean(), "next_obs": after})
    obs = after
losses = [agent.learn() for _ in range(3)]
print("losses", [round(loss, 4) for loss in losses])
# --- replay_buffers.py
import torch


class LazyTensorStorage:
    """Rows of tensors, made when the first row comes."""

    def __init__(self, max_size, device):
        self.max_size, self.device, self.length, self.data = max_size, device, 0, None

    def set(self, index, row):
        if self.data is None:
            self.data = {key: torch.zeros(self.max_size, *value.shape, dtype=value.dtype, device=self.device) for key, value in row.items()}
        for key, value in row.items():
            self.data[key][index] = value.to(self.device)
        self.length = max(self.length, index + 1)

    def get(self, index):
        return {key: value[index] for key, value in self.data.items()}


class ReplayBuffer:
    def __init__(self, storage, sampler, batch_size):
        self.storage, self.sampler, self.batch_size, self.cursor = storage, sampler, batch_size, 0

    def add(self, row):
        self.storage.set(self.cursor, row)
        self.sampler.add(self.cursor)
        self.cursor = (self.cursor + 1) % self.storage.max_size

    def sample(self):
        index, info = self.sampler.sample(self.storage, self.batch_size)
        return self.storage.get(index), info

    def update_priority(self, index, priority):
        self.sampler.update_priority(index, priority)
# --- samplers.py
import numpy as np
import torch


class PrioritizedSampler:
    def __init__(self, max_capacity, alpha, beta, eps=1e-6):
        self.alpha, self.beta, self.eps = alpha, beta, eps
        self.priorities, self.rng = np.zeros(max_capacity), np.random.default_rng(0)

    def add(self, index):
        self.priorities[index] = max(self.priorities.max(), 1.0)

    def sample(self, storage, batch_size):
        chances = self.priorities[: storage.length] / self.priorities[: storage.length].sum()
        index = self.rng.choice(storage.length, size=batch_size, p=chances)
        weight = (chances[index] / chances.min()) ** -self.beta
        weight = torch.as_tensor(weight, dtype=torch.float)
        return index, {"_weight": weight, "index": index}

    def update_priority(self, index, priority):
        self.priorities[index] = (priority + self.eps) ** self.alpha
# --- dqn.py
import torch
from torch import nn


class Agent:
    def __init__(self, buffer, device, gamma=0.9):
        self.buffer, self.device, self.gamma = buffer, device, gamma
        self.q, self.target = (nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 2)).to(device) for _ in range(2))
        self.target.load_state_dict(self.q.state_dict())
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=0.01)

    @torch.no_grad()
    def act(self, obs):
        return self.q(obs.to(self.device)).argmax().item()

    def learn(self):
        sample, info = self.buffer.sample()
        weight = info["_weight"]
        with torch.no_grad():
            goal = sample["reward"] + self.gamma * self.target(sample["next_obs"]).amax(1)
        td_error = goal - self.q(sample["obs"]).gather(1, sample["action"]).squeeze(1)
        loss = (weight * td_error.square()).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.buffer.update_priority(info["index"], td_error.detach().abs().cpu().numpy())
        return loss.item()
