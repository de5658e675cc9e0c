# === scores_of_a_sampled_evaluation
# thread: https://github.com/RUCAIBox/RecBole/issues/1984
# about: items that were not sampled have no score: the evaluator fills a table on its device. A model of similarities in NumPy says its scores on the CPU
# operation: index_put_?|.*setitem.*|copy_ on cuda:0, cpu
# operands: predicted|scores|value.*
# category: input-not-moved|created-without-device
# line: slim.py: return torch.from_numpy(
# line: evaluation.py: scores[rows, items] = predicted
# line: evaluation.py: predicted = self.model.predict(
# repair: slim.py: return torch.from_numpy((self.history[users] * self.similarities[:, items].T).sum(1)) -> return torch.from_numpy((self.history[users] * self.similarities[:, items].T).sum(1)).to(self.device)
import numpy as np
import torch

from evaluation import SampledEvaluator
from slim import ItemSimilarity

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
random = np.random.default_rng(3)
history = (random.random((6, 10)) < 0.4).astype(np.float32)
model = ItemSimilarity(users=6, items=10, device=device)
model.fit(history, penalty=2.0)
evaluator = SampledEvaluator(model, items=10, device=device)
targets = torch.tensor([1, 3, 5, 7, 9, 0])
negatives = torch.randint(10, (6, 4), generator=torch.Generator().manual_seed(1))
print("hits", evaluator.hit_rate(torch.arange(6), targets, negatives, k=2))
# --- slim.py
import numpy as np
import torch
from torch import nn

class ItemSimilarity(nn.Module):
    """A ridge regression of each item on all others. The trainer wants a parameter, though nothing is trained."""

    def __init__(self, users, items, device):
        super().__init__()
        self.device, self.dummy = device, nn.Parameter(torch.zeros(1, device=device))
        self.history = np.zeros((users, items), dtype=np.float32)

    def fit(self, history, penalty):
        self.history = history
        inverse = np.linalg.inv(history.T @ history + penalty * np.eye(history.shape[1], dtype=np.float32))
        self.similarities = (-inverse / np.diag(inverse)).astype(np.float32)
        np.fill_diagonal(self.similarities, 0.0)

    def predict(self, interaction):
        users, items = interaction["user_id"].cpu().numpy(), interaction["item_id"].cpu().numpy()
        return torch.from_numpy((self.history[users] * self.similarities[:, items].T).sum(1))
# --- evaluation.py
import torch

class SampledEvaluator:
    """Ranks each user's target among a few items that the user did not see."""

    def __init__(self, model, items, device):
        self.model, self.items, self.device = model.eval(), items, device

    def interactions(self, users, candidates):
        rows = torch.arange(len(users)).repeat_interleave(candidates.shape[1])
        batch = {"user_id": users[rows], "item_id": candidates.flatten()}
        return rows.to(self.device), {name: values.to(self.device) for name, values in batch.items()}

    @torch.no_grad()
    def score(self, users, candidates):
        rows, interaction = self.interactions(users, candidates)
        items = interaction["item_id"]
        predicted = self.model.predict(interaction)
        scores = torch.full((len(users), self.items), -torch.inf, device=self.device)
        scores[rows, items] = predicted
        return scores

    def hit_rate(self, users, targets, negatives, k):
        scores = self.score(users, torch.cat([targets[:, None], negatives], dim=1))
        best = scores.topk(k, dim=1).indices
        hits = (best == targets.to(self.device)[:, None]).any(dim=1)
        return [round(hits.float().mean().item(), 4), round(scores[scores.isfinite()].sum().item(), 4)]

# === chances_of_each_relation
# thread: https://github.com/torchkge-team/torchkge/pull/246
# about: how often a head, not a tail, is replaced in a false fact is counted for each relation, once. The facts of a batch are on the GPU by then
# operation: index on cpu, cuda:0
# operands: self.bern_probs|bern_probs|relations
# category: created-without-device|state-not-registered|input-not-moved
# line: sampling.py: self.bern_probs = torch.tensor(
# line: sampling.py: chances = self.bern_probs[relations]
# line: train.py: negative_heads, negative_tails = self.sampler.corrupt(
# line: train.py: self.sampler = BernoulliSampler(
# repair: sampling.py: chances = self.bern_probs[relations] -> chances = self.bern_probs.to(relations.device)[relations]
import torch

from model import TransE
from train import Trainer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(5)
facts = torch.stack([torch.randint(9, (24,), generator=generator), torch.randint(3, (24,), generator=generator), torch.randint(9, (24,), generator=generator)])
trainer = Trainer(TransE(entities=9, relations=3, dim=6).to(device), facts, device, lr=0.05)
print("losses", [trainer.epoch(batch=8) for _ in range(3)])
# --- sampling.py
import torch

class BernoulliSampler:
    """A relation with many tails for each head has its heads replaced more often."""

    def __init__(self, facts, entities, relations, seed=0):
        self.entities, self.generator = entities, torch.Generator().manual_seed(seed)
        self.bern_probs = torch.tensor([self.chance(facts, relation) for relation in range(relations)])

    @staticmethod
    def chance(facts, relation):
        heads, _, tails = facts[:, facts[1] == relation]
        if not len(heads):
            return 0.5
        tails_per_head, heads_per_tail = len(heads) / len(heads.unique()), len(tails) / len(tails.unique())
        return tails_per_head / (tails_per_head + heads_per_tail)

    def corrupt(self, heads, relations, tails):
        device = heads.device
        chances = self.bern_probs[relations]
        replaced = torch.rand(len(heads), generator=self.generator).to(device) < chances
        others = torch.randint(self.entities, (len(heads),), generator=self.generator).to(device)
        return torch.where(replaced, others, heads), torch.where(replaced, tails, others)
# --- model.py
import torch
from torch import nn

class TransE(nn.Module):
    def __init__(self, entities, relations, dim):
        super().__init__()
        self.entities, self.relations = nn.Embedding(entities, dim), nn.Embedding(relations, dim)

    def distance(self, heads, relations, tails):
        unit = nn.functional.normalize
        return torch.linalg.vector_norm(unit(self.entities(heads)) + self.relations(relations) - unit(self.entities(tails)), dim=1)
# --- train.py
import torch
from torch import nn

from sampling import BernoulliSampler

class Trainer:
    def __init__(self, model, facts, device, lr):
        self.model, self.facts, self.device = model, facts, device
        self.sampler = BernoulliSampler(facts, model.entities.num_embeddings, model.relations.num_embeddings)
        self.optimizer, self.loss = torch.optim.Adam(model.parameters(), lr=lr), nn.MarginRankingLoss(margin=0.5)

    def epoch(self, batch):
        losses = []
        for heads, relations, tails in (part.to(self.device) for part in self.facts.split(batch, dim=1)):
            negative_heads, negative_tails = self.sampler.corrupt(heads, relations, tails)
            true = self.model.distance(heads, relations, tails)
            false = self.model.distance(negative_heads, relations, negative_tails)
            loss = self.loss(false, true, torch.ones_like(true))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return round(sum(losses) / len(losses), 4)

# === words_weighted_while_offloaded
# thread: https://github.com/xhinker/sd_embed/issues/2
# about: weights of words are put where the pipeline says it is, which is the CPU as long as its parts wait there. The text encoder's result is on the GPU
# operation: mul on cuda:0, cpu
# operands: weights|.*weights.*
# category: module-split|input-not-moved
# line: prompts.py: weights = torch.tensor(
# line: prompts.py: weighted = hidden * weights
# line: pipeline.py: return next(
# line: prompts.py: device = pipe.device
# line: main.py: embeddings = weighted_embeddings(
# repair: prompts.py: weights = torch.tensor([weight for _, weight in words], device=device)[:, None] -> weights = torch.tensor([weight for _, weight in words], device=hidden.device)[:, None]
import torch

from pipeline import Pipeline
from prompts import weighted_embeddings

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pipe = Pipeline(words=16, dim=6)
pipe.enable_model_cpu_offload(device)
embeddings = weighted_embeddings(pipe, "a (cat:1.4) on a (mat:0.7)")
image = pipe(embeddings, steps=3, seed=4)
print("image", [round(value, 4) for value in image[0].tolist()])
# --- offload.py
class OffloadHook:
    """A module comes to the execution device with its inputs when it is called; the one before it goes."""

    def __init__(self, module, device, before):
        self.module, self.device, self.before = module, device, before
        module.register_forward_pre_hook(self.load)

    def load(self, module, args):
        if self.before is not None:
            self.before.unload()
        module.to(self.device)
        return tuple(each.to(self.device) for each in args)

    def unload(self):
        self.module.to("cpu")
# --- pipeline.py
import torch
from torch import nn

from offload import OffloadHook

class TextEncoder(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.embed, self.mix = nn.Embedding(words, dim), nn.GRU(dim, dim, batch_first=True)

    def forward(self, ids):
        return self.mix(self.embed(ids))[0]

class Pipeline:
    def __init__(self, words, dim):
        self.text_encoder = TextEncoder(words, dim)
        self.denoiser = nn.Sequential(nn.Linear(2 * dim, 8), nn.SiLU(), nn.Linear(8, dim))
        self.words, self.dim, self.last = words, dim, None

    @property
    def device(self):
        return next(self.denoiser.parameters()).device

    def enable_model_cpu_offload(self, device):
        for module in (self.text_encoder, self.denoiser):
            self.last = OffloadHook(module, device, self.last)

    @torch.no_grad()
    def __call__(self, embeddings, steps, seed):
        latents = torch.randn(1, self.dim, generator=torch.Generator().manual_seed(seed)).to(embeddings.device)
        for _ in range(steps):
            latents = latents - self.denoiser(torch.cat([latents, embeddings.mean(1)], dim=1)) / steps
        return latents.cpu()
# --- prompts.py
import re

import torch

def parse(prompt):
    """Words with what each weighs: (word:weight), or 1."""
    found = re.findall(r"\((\w+):([\d.]+)\)|(\w+)", prompt)
    return [(word or plain, float(weight or 1.0)) for word, weight, plain in found]

@torch.no_grad()
def weighted_embeddings(pipe, prompt):
    device = pipe.device
    words = parse(prompt)
    ids = torch.tensor([[sum(map(ord, word)) % pipe.words for word, _ in words]], device=device)
    hidden = pipe.text_encoder(ids)
    weights = torch.tensor([weight for _, weight in words], device=device)[:, None]
    weighted = hidden * weights
    return weighted * (hidden.mean() / weighted.mean())

# === scale_of_an_unscaled_series
# thread: https://github.com/Nixtla/neuralforecast/issues/711
# about: a forecast of a distribution is taken back to the scale of its series. A scaler that changes nothing says a location of 0 and a scale of 1
# operation: mul on cuda:0, cpu
# operands: scale|loc
# category: created-without-device
# line: scalers.py: return torch.zeros(
# line: losses.py: mean = mean * scale
# line: model.py: loc, scale = self.scaler.statistics(
# line: model.py: mean, deviation = self.loss.decouple(
# repair: scalers.py: return torch.zeros(len(window), 1), torch.ones(len(window), 1) -> return window.new_zeros(len(window), 1), window.new_ones(len(window), 1)
import torch

from losses import NormalLoss
from model import Recurrent, fit
from scalers import Scaler

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
time = torch.arange(40) / 4
series = torch.stack([time.sin() * size + 0.1 * time for size in (1.0, 2.0, 0.5)])
model = Recurrent(horizon=4, width=8, loss=NormalLoss(), scaler=Scaler("identity")).to(device)
losses = fit(model, [series[:, start : start + 20] for start in (0, 8, 16)], lr=0.02, device=device)
mean, deviation = model.predict(series[:, -16:].to(device))
print("losses", losses, "forecast", [round(value, 4) for value in mean[0].tolist()])
# --- scalers.py
import torch

class Scaler:
    """Statistics of each window along time."""

    def __init__(self, kind):
        self.kind = kind

    def statistics(self, window):
        if self.kind == "standard":
            return window.mean(1, keepdim=True), window.std(1, keepdim=True) + 1e-4
        if self.kind == "minmax":
            low, high = window.aminmax(dim=1, keepdim=True)
            return low, high - low + 1e-4
        return torch.zeros(len(window), 1), torch.ones(len(window), 1)

    def transform(self, window, loc, scale):
        return window if self.kind == "identity" else (window - loc) / scale
# --- losses.py
from torch import nn

class NormalLoss(nn.Module):
    outputs = 2

    def decouple(self, output, loc, scale, least=0.1):
        """Mean and deviation, in units of the series."""
        mean, deviation = output.chunk(2, dim=1)
        deviation = nn.functional.softplus(deviation) + least
        mean = mean * scale + loc
        return mean, deviation * scale

    def forward(self, mean, deviation, actual):
        return ((actual - mean).square() / (2 * deviation.square()) + deviation.log()).mean()
# --- model.py
import torch
from torch import nn

class Recurrent(nn.Module):
    def __init__(self, horizon, width, loss, scaler):
        super().__init__()
        self.horizon, self.loss, self.scaler = horizon, loss, scaler
        self.encoder, self.head = nn.GRU(1, width, batch_first=True), nn.Linear(width, horizon * loss.outputs)

    def forward(self, window):
        loc, scale = self.scaler.statistics(window)
        scaled = self.scaler.transform(window, loc, scale)
        output = self.head(self.encoder(scaled[:, :, None])[0][:, -1])
        mean, deviation = self.loss.decouple(output, loc, scale)
        return mean, deviation

    @torch.no_grad()
    def predict(self, window):
        return self(window)

def fit(model, windows, lr, device):
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    for window in windows:
        window = window.to(device)
        mean, deviation = model(window[:, : -model.horizon])
        loss = model.loss(mean, deviation, window[:, -model.horizon :])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === embeddings_moved_by_class
# thread: https://github.com/mit-han-lab/llm-awq/pull/322
# about: what lies before the layers is moved by a list for each kind of model. That of the model with images leaves out what positions are turned by
# operation: mul on cuda:0, cpu
# operands: self.inv_freq|inv_freq
# category: module-split
# line: pre_quant.py: model.vision_tower.to(
# line: pre_quant.py: elif model.kind == "llava":
# line: models.py: angles = positions[:, None] * self.inv_freq
# line: models.py: cos, sin = self.rotary_emb(
# line: pre_quant.py: move_embed(model, device)
# repair: pre_quant.py: model.vision_tower.to(device) -> model.vision_tower.to(device), model.rotary_emb.to(device)
import torch

from models import TinyLlava
from pre_quant import run_search

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = TinyLlava(words=20, dim=8, layers=3)
generator = torch.Generator().manual_seed(2)
ids, pixels = torch.randint(20, (2, 5), generator=generator), torch.randn(2, 12, generator=generator)
print("scales", run_search(model, ids, pixels, device))
# --- models.py
import torch
from torch import nn

class Rotary(nn.Module):
    def __init__(self, dim, base=100.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2) / dim), persistent=False)

    def forward(self, hidden):
        positions = torch.arange(hidden.shape[1], device=hidden.device)
        angles = positions[:, None] * self.inv_freq
        return torch.cat([angles, angles], dim=1).cos(), torch.cat([angles, angles], dim=1).sin()

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def turn(self, x, cos, sin):
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-second, first], dim=-1) * sin

    def forward(self, hidden, cos, sin):
        q, k, v = self.qkv(self.norm(hidden)).chunk(3, dim=-1)
        mixed = nn.functional.scaled_dot_product_attention(self.turn(q, cos, sin), self.turn(k, cos, sin), v, is_causal=True)
        return hidden + self.out(mixed)

class TinyLlava(nn.Module):
    kind = "llava"

    def __init__(self, words, dim, layers):
        super().__init__()
        self.vision_tower, self.embed_tokens = nn.Linear(12, dim), nn.Embedding(words, dim)
        self.rotary_emb = Rotary(dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(layers))

    def forward(self, ids, pixels):
        hidden = torch.cat([self.vision_tower(pixels)[:, None], self.embed_tokens(ids)], dim=1)
        cos, sin = self.rotary_emb(hidden)
        for layer in self.layers:
            hidden = layer(hidden, cos, sin)
        return hidden
# --- pre_quant.py
import torch
from torch import nn

class FirstInputs(Exception):
    pass

class Catcher(nn.Module):
    """In the first layer's place: keeps what it was given, and ends the run."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, *args):
        self.args = args
        raise FirstInputs

def move_embed(model, device):
    if model.kind == "llama":
        model.embed_tokens.to(device)
        model.rotary_emb.to(device)
    elif model.kind == "llava":
        model.embed_tokens.to(device)
        model.vision_tower.to(device)
    else:
        raise NotImplementedError(model.kind)

@torch.no_grad()
def run_search(model, ids, pixels, device):
    """The largest input of each layer's projection, in layers that are on the GPU one after the other."""
    move_embed(model, device)
    catcher = model.layers[0] = Catcher(model.layers[0].to(device))
    try:
        model(ids.to(device), pixels.to(device))
    except FirstInputs:
        model.layers[0] = catcher.layer
    hidden, *turns = catcher.args
    scales = []
    for layer in model.layers:
        layer.to(device)
        scales.append(round(layer.norm(hidden).abs().max().item(), 4))
        hidden = layer(hidden, *turns)
        layer.cpu()
    return scales

# === speaker_in_the_other_dict
# thread: https://github.com/idiap/coqui-ai-TTS/pull/378
# about: a trainer moves the fields of a batch that it knows. Who speaks is among those that are handed through to the model as they are
# operation: embedding|index_select on cuda:0, cpu
# operands: g|input|indices|index|.*speaker.*
# category: input-not-moved|input
# line: trainer.py: moved = {
# line: trainer.py: aux = {"speaker_ids": batch["speaker_ids"]}
# line: forward_tts.py: g = self.emb_g(g)
# line: forward_tts.py: g = aux_input["speaker_ids"]
# line: trainer.py: outputs = self.model(
# repair: forward_tts.py: g = self.emb_g(g)[:, None] -> g = self.emb_g(g.to(x.device))[:, None]
import torch
from torch.utils.data import DataLoader

from dataset import Utterances
from forward_tts import ForwardTTS
from trainer import Trainer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
dataset = Utterances(count=8, tokens=12, bins=5, speakers=3, seed=6)
loader = DataLoader(dataset, batch_size=4, collate_fn=dataset.collate)
trainer = Trainer(ForwardTTS(tokens=12, bins=5, speakers=3, dim=8), device, lr=0.02)
print("losses", [trainer.epoch(loader) for _ in range(2)])
# --- dataset.py
import torch
from torch.nn.utils.rnn import pad_sequence

class Utterances(torch.utils.data.Dataset):
    def __init__(self, count, tokens, bins, speakers, seed):
        generator = torch.Generator().manual_seed(seed)
        lengths = torch.randint(3, 7, (count,), generator=generator).tolist()
        self.texts = [torch.randint(1, tokens, (length,), generator=generator) for length in lengths]
        self.mels = [torch.randn(length, bins, generator=generator) for length in lengths]
        self.speakers = torch.randint(speakers, (count,), generator=generator).tolist()

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return self.texts[index], self.mels[index], self.speakers[index]

    def collate(self, items):
        texts, mels, speakers = zip(*items)
        lengths = torch.tensor([len(text) for text in texts])
        return {
            "token_ids": pad_sequence(texts, batch_first=True), "token_lengths": lengths,
            "mel": pad_sequence(mels, batch_first=True), "speaker_ids": torch.tensor(speakers),
        }  # fmt: skip
# --- forward_tts.py
import torch
from torch import nn

class ForwardTTS(nn.Module):
    def __init__(self, tokens, bins, speakers, dim):
        super().__init__()
        self.emb, self.emb_g = nn.Embedding(tokens, dim, padding_idx=0), nn.Embedding(speakers, dim)
        self.encoder, self.decoder = nn.Conv1d(dim, dim, 3, padding=1), nn.Linear(dim, bins)

    def forward_encoder(self, x, x_mask, g=None):
        x = self.emb(x)
        if g is not None:
            g = self.emb_g(g)[:, None]
            x = x + g
        return torch.relu(self.encoder(x.transpose(1, 2)).transpose(1, 2)) * x_mask

    def forward(self, x, x_lengths, aux_input):
        g = aux_input["speaker_ids"]
        steps = torch.arange(x.shape[1], device=x.device)
        x_mask = (steps < x_lengths[:, None])[:, :, None].float()
        return {"mel": self.decoder(self.forward_encoder(x, x_mask, g)) * x_mask, "mask": x_mask}
# --- trainer.py
import torch

class Trainer:
    fields = ("token_ids", "token_lengths", "mel")

    def __init__(self, model, device, lr):
        self.model, self.device = model.to(device), device
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)

    def format_batch_on_device(self, batch):
        moved = {name: batch[name].to(self.device) for name in self.fields}
        aux = {"speaker_ids": batch["speaker_ids"]}
        return moved, aux

    def train_step(self, batch):
        moved, aux = self.format_batch_on_device(batch)
        outputs = self.model(moved["token_ids"], moved["token_lengths"], aux)
        error = (outputs["mel"] - moved["mel"]).abs() * outputs["mask"]
        loss = error.sum() / outputs["mask"].sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def epoch(self, loader):
        losses = [self.train_step(batch) for batch in loader]
        return round(sum(losses) / len(losses), 4)

# === residual_at_the_server
# thread: https://github.com/APPFL/APPFL/issues/40
# about: a server was written to be on the CPU, and takes clients' states to its device. Run in one process with its clients, it has a GPU, but its model does not
# operation: sub on cpu, cuda:0
# operands: global_state.*|.*state.*
# category: module-split|input-not-moved
# line: run.py: server = FedAvgServer(
# line: server.py: global_state = copy.deepcopy(
# line: server.py: difference = global_state[name] - state[name].to(self.device)
# line: server.py: residual = self.primal_residual(
# line: server.py: self.model, self.weights, self.device = model
# line: run.py: model = build(
# repair: server.py: self.model, self.weights, self.device = model, weights, device -> self.model, self.weights, self.device = model.to(device), weights, device
import torch

from run import run_serial

torch.manual_seed(0)
generator = torch.Generator().manual_seed(9)
truth = torch.randn(4, generator=generator)
datasets = []
for count in (8, 12, 6):
    x = torch.randn(count, 4, generator=generator)
    datasets.append((x, x @ truth + 0.1 * torch.randn(count, generator=generator)))
config = {"device": "cuda" if torch.cuda.is_available() else "cpu", "rounds": 3, "local_steps": 4, "lr": 0.1}
print("residuals", run_serial(config, datasets))
# --- client.py
import copy

import torch

class FedAvgClient:
    def __init__(self, model, data, device, steps, lr):
        self.model, self.device, self.steps, self.lr = copy.deepcopy(model), device, steps, lr
        self.x, self.y = (each.to(device) for each in data)

    def update(self, global_state):
        self.model.load_state_dict(global_state)
        self.model.to(self.device)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=self.lr)
        for _ in range(self.steps):
            optimizer.zero_grad()
            loss = (self.model(self.x)[:, 0] - self.y).square().mean()
            loss.backward()
            optimizer.step()
        return {name: value.detach().clone() for name, value in self.model.state_dict().items()}
# --- server.py
import copy

class FedAvgServer:
    def __init__(self, model, weights, device):
        self.model, self.weights, self.device = model, weights, device

    def primal_residual(self, global_state, local_states):
        """How far the clients went from what they had been given."""
        squares = 0.0
        for state in local_states:
            for name, _ in self.model.named_parameters():
                difference = global_state[name] - state[name].to(self.device)
                squares += difference.square().sum().item()
        return squares**0.5

    def update(self, local_states):
        global_state = copy.deepcopy(self.model.state_dict())
        residual = self.primal_residual(global_state, local_states)
        for name in global_state:
            global_state[name] = sum(weight * state[name].to(self.device) for weight, state in zip(self.weights, local_states))
        self.model.load_state_dict(global_state)
        return round(residual, 4)
# --- run.py
import torch
from torch import nn

from client import FedAvgClient
from server import FedAvgServer

def build(features):
    return nn.Sequential(nn.Linear(features, 6), nn.Tanh(), nn.Linear(6, 1))

def run_serial(config, datasets):
    device = torch.device(config["device"])
    model = build(datasets[0][0].shape[1])
    total = sum(len(y) for _, y in datasets)
    server = FedAvgServer(model, [len(y) / total for _, y in datasets], device)
    clients = [FedAvgClient(model, data, device, config["local_steps"], config["lr"]) for data in datasets]
    residuals = []
    for _ in range(config["rounds"]):
        local_states = [client.update(server.model.state_dict()) for client in clients]
        residuals.append(server.update(local_states))
    return residuals

# === kernel_beside_the_training_data
# thread: https://github.com/meta-pytorch/botorch/pull/1701
# about: points that stand for all data are chosen by a kernel's covariances. The one that was made for this is on the CPU, the data are not
# operation: div|true_divide on cuda:0, cpu
# operands: self.lengthscale|lengthscale|.*lengthscale.*
# category: module-split|input-not-moved|created-without-device
# line: main.py: kernel = RBFKernel(
# line: kernels.py: x1, x2 = x1 / self.lengthscale
# line: allocators.py: variances = kernel.diagonal(
# line: allocators.py: row = kernel(
# line: regression.py: inducing = pivoted_points(
# line: main.py: model = SparseRegression(
# repair: main.py: kernel = RBFKernel(dims=2, lengthscale=0.6) -> kernel = RBFKernel(dims=2, lengthscale=0.6).to(device)
import torch

from kernels import RBFKernel
from regression import SparseRegression

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(7)
train_x = torch.rand(20, 2, generator=generator, dtype=torch.double)
train_y = (3 * train_x[:, 0]).sin() + train_x[:, 1]
kernel = RBFKernel(dims=2, lengthscale=0.6)
model = SparseRegression(train_x.to(device), train_y.to(device), kernel, inducing=5, noise=1e-2)
mean = model.posterior_mean(torch.tensor([[0.2, 0.4], [0.7, 0.1]], device=device, dtype=torch.double))
print("mean", [round(value, 4) for value in mean.tolist()])
# --- kernels.py
import torch
from torch import nn

class RBFKernel(nn.Module):
    def __init__(self, dims, lengthscale):
        super().__init__()
        raw = torch.full((1, dims), lengthscale, dtype=torch.double).expm1().log()
        self.raw_lengthscale = nn.Parameter(raw)

    @property
    def lengthscale(self):
        return nn.functional.softplus(self.raw_lengthscale)

    def forward(self, x1, x2):
        x1, x2 = x1 / self.lengthscale, x2 / self.lengthscale
        return (-0.5 * (x1[:, None] - x2[None]).square().sum(-1)).exp()

    def diagonal(self, x):
        return torch.ones(len(x), dtype=x.dtype, device=x.device)
# --- allocators.py
import torch

@torch.no_grad()
def pivoted_points(x, kernel, count):
    """A pivoted Cholesky decomposition: each point is the one of which those before it say least."""
    variances = kernel.diagonal(x)
    factors = torch.zeros(count, len(x), dtype=x.dtype, device=x.device)
    chosen = []
    for index in range(count):
        pivot = int(variances.argmax())
        chosen.append(pivot)
        row = kernel(x[pivot : pivot + 1], x)[0]
        row = row - factors[:index].T @ factors[:index, pivot]
        factors[index] = row / variances[pivot].sqrt()
        variances = (variances - factors[index].square()).clamp(min=1e-9)
        variances[chosen] = -1.0
    return x[chosen]
# --- regression.py
import torch

from allocators import pivoted_points

class SparseRegression:
    def __init__(self, x, y, kernel, inducing, noise):
        self.kernel, self.x, self.y, self.noise = kernel, x, y, noise
        inducing = pivoted_points(x, kernel, inducing)
        self.inducing = inducing

    @torch.no_grad()
    def posterior_mean(self, points):
        cross = self.kernel(self.inducing, self.x)
        inner = self.noise * self.kernel(self.inducing, self.inducing) + cross @ cross.T
        jitter = 1e-6 * torch.eye(len(inner), dtype=inner.dtype, device=inner.device)
        solved = torch.linalg.solve(inner + jitter, cross @ self.y)
        return self.kernel(points, self.inducing) @ solved

# === baseline_of_the_rewards
# thread: https://github.com/huawei-noah/trustworthyAI/issues/53
# about: an actor draws causal graphs, NumPy scores them, and rewards go to the GPU. What is taken off them is a running mean, begun when the actor is made
# operation: add|mul on cpu, cuda:0
# operands: .*avg_baseline.*|.*reward_mean.*
# category: created-without-device|cached-state|state-not-registered
# line: actor.py: self.avg_baseline = torch.full(
# line: actor.py: self.avg_baseline = self.alpha * self.avg_baseline
# repair: actor.py: self.avg_baseline = torch.full((1,), -1.0) -> self.avg_baseline = torch.full((1,), -1.0, device=device)
import numpy as np
import torch

from search import learn

torch.manual_seed(0)
random = np.random.default_rng(4)
cause = random.normal(size=(60, 1))
data = np.hstack([cause, 2 * cause + 0.3 * random.normal(size=(60, 1)), random.normal(size=(60, 1))])
matrix, rewards = learn(data, device_type="gpu" if torch.cuda.is_available() else "cpu", iterations=4, graphs=8)
print("rewards", rewards, "edges", matrix)
# --- scores.py
import numpy as np

class BICReward:
    """How well each variable is told by its parents, and how few these are. Not on a GPU."""

    def __init__(self, data):
        self.data = data - data.mean(0)

    def __call__(self, graph):
        count, total = len(self.data), 0.0
        for node in range(self.data.shape[1]):
            parents = self.data[:, graph[:, node] > 0]
            rest = self.data[:, node]
            if parents.shape[1]:
                rest = rest - parents @ np.linalg.lstsq(parents, rest, rcond=None)[0]
            total += np.log(rest.var()) + parents.shape[1] * np.log(count) / count
        return -total
# --- actor.py
import torch
from torch import nn

class GraphActor(nn.Module):
    def __init__(self, variables, samples, device, lr, alpha=0.9):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(samples, 8), nn.Tanh()).to(device)
        self.bilinear = nn.Parameter(0.1 * torch.randn(8, 8, device=device))
        self.avg_baseline = torch.full((1,), -1.0)
        self.alpha, self.optimizer = alpha, torch.optim.Adam(self.parameters(), lr=lr)
        self.upper = torch.ones(variables, variables, device=device).triu(1)

    def build_permutation(self, inputs, drawn):
        hidden = self.encoder(inputs)
        chances = (hidden @ self.bilinear @ hidden.T).sigmoid()
        self.graphs = (drawn < chances).float() * self.upper
        likely = torch.where(self.graphs > 0, chances, 1 - chances).clamp(min=1e-6).log()
        self.log_probs = (likely * self.upper).sum((1, 2))
        return self.graphs

    def build_reward(self, reward):
        self.reward = reward
        reward_mean = self.reward.mean()
        self.avg_baseline = self.alpha * self.avg_baseline + (1.0 - self.alpha) * reward_mean
        loss = -((self.reward - self.avg_baseline) * self.log_probs).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
# --- search.py
import numpy as np
import torch

from actor import GraphActor
from scores import BICReward

def learn(data, device_type, iterations, graphs):
    device = torch.device("cuda" if device_type == "gpu" else "cpu")
    inputs = torch.from_numpy(data.T.astype(np.float32)).to(device)
    actor = GraphActor(len(inputs), inputs.shape[1], device, lr=0.05)
    score, generator, means = BICReward(data), torch.Generator().manual_seed(1), []
    for _ in range(iterations):
        drawn = torch.rand(graphs, len(inputs), len(inputs), generator=generator).to(device)
        sampled = actor.build_permutation(inputs, drawn).cpu().numpy()
        rewards = np.array([score(graph) for graph in sampled], dtype=np.float32)
        actor.build_reward(torch.from_numpy(rewards).to(device))
        means.append(round(float(rewards.mean()), 4))
    return sampled[rewards.argmax()].tolist(), means

# === explainer_of_a_moved_network
# thread: https://github.com/pyg-team/pytorch_geometric/issues/10024
# about: an explainer is an object that has an algorithm, and this has a network of its own that tells an edge's weight. Only the explained network was moved
# operation: addmm|linear on cuda:0, cpu
# operands: .*weight|.*bias|input|pairs
# category: module-split|input-not-moved
# line: main.py: explainer = Explainer(
# line: explain.py: logits = self.mlp(
# line: explain.py: loss = self.algorithm.train_step(
# line: explain.py: self.mlp = nn.Sequential(
# line: explain.py: self.model, self.algorithm = model
# line: main.py: losses = explainer.fit(
# repair: main.py: explainer = Explainer(model, PGExplainer(dim=8, lr=0.02)) -> explainer = Explainer(model, PGExplainer(dim=8, lr=0.02).to(device))
import torch

from explain import Explainer, PGExplainer
from network import GraphClassifier, train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(3)
graphs = []
for label in (0, 1, 0, 1):
    edges = torch.randint(6, (2, 10), generator=generator)
    graphs.append((torch.randn(6, 4, generator=generator).to(device), edges.to(device), torch.tensor([label], device=device)))
model = GraphClassifier(features=4, dim=8, classes=2).to(device)
train(model, graphs, epochs=3, lr=0.05)
explainer = Explainer(model, PGExplainer(dim=8, lr=0.02))
losses = explainer.fit(graphs, epochs=3, generator=generator)
mask = explainer.edge_mask(graphs[0])
print("losses", losses, "mask", [round(value, 4) for value in mask.tolist()])
# --- network.py
import torch
from torch import nn

class GraphClassifier(nn.Module):
    def __init__(self, features, dim, classes):
        super().__init__()
        self.inner, self.outer, self.head = nn.Linear(features, dim), nn.Linear(dim, dim), nn.Linear(dim, classes)

    def convolve(self, layer, x, edge_index, edge_weight):
        source, target = edge_index
        messages = x[source] if edge_weight is None else x[source] * edge_weight[:, None]
        return torch.relu(layer(x + torch.zeros_like(x).index_add(0, target, messages)))

    def embed(self, x, edge_index, edge_weight=None):
        return self.convolve(self.outer, self.convolve(self.inner, x, edge_index, edge_weight), edge_index, edge_weight)

    def forward(self, x, edge_index, edge_weight=None):
        return self.head(self.embed(x, edge_index, edge_weight).mean(0, keepdim=True))

def train(model, graphs, epochs, lr):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        for x, edge_index, label in graphs:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x, edge_index), label).backward()
            optimizer.step()
# --- explain.py
import torch
from torch import nn

class PGExplainer(nn.Module):
    """A network that gives each edge a weight by the embeddings of its two nodes."""

    def __init__(self, dim, lr, size_cost=0.05):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 16), nn.ReLU(), nn.Linear(16, 1))
        self.optimizer, self.size_cost = torch.optim.Adam(self.mlp.parameters(), lr=lr), size_cost

    def edge_logits(self, model, x, edge_index):
        embedded = model.embed(x, edge_index).detach()
        pairs = torch.cat([embedded[edge_index[0]], embedded[edge_index[1]]], dim=1)
        logits = self.mlp(pairs)
        return logits[:, 0]

    def train_step(self, model, graph, noise, temperature):
        x, edge_index, label = graph
        logits = self.edge_logits(model, x, edge_index)
        mask = ((logits + noise.logit(eps=1e-3)) / temperature).sigmoid()
        loss = nn.functional.cross_entropy(model(x, edge_index, mask), label) + self.size_cost * mask.sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

class Explainer:
    def __init__(self, model, algorithm):
        self.model, self.algorithm = model.eval().requires_grad_(False), algorithm

    def fit(self, graphs, epochs, generator):
        losses = []
        for epoch in range(epochs):
            total = 0.0
            for graph in graphs:
                noise = torch.rand(graph[1].shape[1], generator=generator).to(graph[0].device)
                loss = self.algorithm.train_step(self.model, graph, noise, temperature=5.0 * 0.5**epoch)
                total += loss
            losses.append(round(total / len(graphs), 4))
        return losses

    @torch.no_grad()
    def edge_mask(self, graph):
        return self.algorithm.edge_logits(self.model, *graph[:2]).sigmoid()

# === delta_saved_on_the_way
# thread: https://github.com/CompVis/attribute-control/pull/4
# about: a direction in the space of prompts is learned. At every so many steps it is saved from the CPU, and to go there moves the module itself
# operation: mul on cuda:0, cpu
# operands: self.delta|delta
# category: module-split
# line: learn.py: torch.save(self.delta.cpu().state_dict()
# line: learn.py: controlled = self.delta.apply(
# line: learn.py: self.save(
# repair: learn.py: torch.save(self.delta.cpu().state_dict(), self.folder / f"{step}.pt") -> torch.save(self.delta.state_dict(), self.folder / f"{step}.pt")
from pathlib import Path

import torch

from delta import AttributeDelta
from diffusion import ConditionalDenoiser
from learn import DeltaLearner

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
denoiser = ConditionalDenoiser(latent=6, prompt=4).to(device)
learner = DeltaLearner(denoiser, AttributeDelta(dim=4).to(device), Path("."), lr=0.05)
generator = torch.Generator().manual_seed(8)
prompts = {name: torch.randn(1, 3, 4, generator=generator).to(device) for name in ("young", "person", "old")}
losses = learner.learn(prompts, steps=6, save_every=2, generator=generator)
saved = sorted(path.name for path in Path(".").glob("*.pt"))
print("losses", losses, saved)
# --- delta.py
import torch
from torch import nn

class AttributeDelta(nn.Module):
    """What is added to a subject's tokens, as often as one likes."""

    def __init__(self, dim):
        super().__init__()
        self.delta = nn.Parameter(torch.zeros(1, 1, dim))

    def apply(self, embeddings, alphas, subject):
        shift = alphas[:, None, None] * self.delta
        marked = torch.zeros(1, embeddings.shape[1], 1, device=embeddings.device)
        marked[:, subject] = 1
        return embeddings + shift * marked
# --- diffusion.py
import torch
from torch import nn

class ConditionalDenoiser(nn.Module):
    def __init__(self, latent, prompt):
        super().__init__()
        self.attend, self.body = nn.Linear(latent, prompt), nn.Linear(latent + prompt, latent)
        self.register_buffer("alphas", torch.linspace(0.98, 0.05, 10))

    def add_noise(self, latents, noise, steps):
        alpha = self.alphas[steps][:, None]
        return alpha.sqrt() * latents + (1 - alpha).sqrt() * noise

    def forward(self, noisy, embeddings):
        scores = (embeddings @ self.attend(noisy)[:, :, None]).softmax(1)
        return self.body(torch.cat([noisy, (scores * embeddings).sum(1)], dim=1))
# --- learn.py
import torch

class DeltaLearner:
    def __init__(self, denoiser, delta, folder, lr):
        self.denoiser, self.delta, self.folder = denoiser.eval().requires_grad_(False), delta, folder
        self.optimizer = torch.optim.AdamW(delta.parameters(), lr=lr)
        self.device = denoiser.alphas.device

    def draw(self, generator):
        latents, noise = (torch.randn(2, 6, generator=generator).to(self.device) for _ in range(2))
        return self.denoiser.add_noise(latents, noise, torch.randint(10, (2,), generator=generator).to(self.device))

    def save(self, step):
        torch.save(self.delta.cpu().state_dict(), self.folder / f"{step}.pt")

    def learn(self, prompts, steps, save_every, generator):
        losses, alphas = [], torch.tensor([-1.0, 1.0], device=self.device)
        ends = torch.cat([prompts["young"], prompts["old"]])
        for step in range(1, steps + 1):
            noisy = self.draw(generator)
            controlled = self.delta.apply(prompts["person"].expand(2, -1, -1), alphas, subject=1)
            loss = (self.denoiser(noisy, controlled) - self.denoiser(noisy, ends)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(round(loss.item(), 4))
            if step % save_every == 0:
                self.save(step)
        return losses

# === passages_of_the_reranker
# thread: https://github.com/Marker-Inc-Korea/AutoRAG/issues/301
# about: a reranker compares tokens of a question with those of passages. Passages are encoded once, and cut into batches of a dict's fields
# operation: embedding|index_select on cuda:1, cpu
# operands: .*input_ids.*|input|indices|index
# category: input-not-moved|input
# line: colbert.py: fields = {name: values[start : start + size]
# line: colbert.py: embedded.append(self.model(
# line: colbert.py: encoded = self.tokenizer(passages)
# repair: colbert.py: fields = {name: values[start : start + size] for name, values in encoded.items()} -> fields = {name: values[start : start + size].to(self.device) for name, values in encoded.items()}
import torch

from colbert import ColbertReranker
from model import TokenEncoder
from tokens import Tokenizer

torch.manual_seed(0)
device = torch.device(f"cuda:{torch.cuda.device_count() - 1}" if torch.cuda.is_available() else "cpu")
reranker = ColbertReranker(TokenEncoder(words=40, dim=8), Tokenizer(words=40), device)
passages = ["a cat sat on a mat", "tensors lie on one device", "the mat of the cat", "how to cook rice"]
order, scores = reranker.rerank("where is the cat", passages, top_k=3, batch=3)
print("order", order, "scores", scores)
# --- tokens.py
import torch
from torch.nn.utils.rnn import pad_sequence

class Tokenizer:
    def __init__(self, words):
        self.words = words

    def __call__(self, texts):
        rows = [torch.tensor([1 + sum(map(ord, word)) % (self.words - 1) for word in text.split()]) for text in texts]
        input_ids = pad_sequence(rows, batch_first=True)
        return {"input_ids": input_ids, "attention_mask": (input_ids > 0).long()}
# --- model.py
from torch import nn

class TokenEncoder(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.embed, self.project = nn.Embedding(words, dim, padding_idx=0), nn.Linear(dim, dim)
        self.layer = nn.TransformerEncoderLayer(dim, nhead=2, dim_feedforward=16, dropout=0.0, batch_first=True)

    def forward(self, input_ids, attention_mask):
        hidden = self.embed(input_ids)
        hidden = self.project(self.layer(hidden))
        return nn.functional.normalize(hidden, dim=-1) * attention_mask[:, :, None]
# --- colbert.py
import torch

class ColbertReranker:
    def __init__(self, model, tokenizer, device):
        self.model, self.tokenizer, self.device = model.to(device), tokenizer, device

    def embed_query(self, query):
        encoded = self.tokenizer([query])
        return self.model(encoded["input_ids"].to(self.device), encoded["attention_mask"].to(self.device))[0]

    def embed_passages(self, passages, size):
        encoded = self.tokenizer(passages)
        embedded = []
        for start in range(0, len(passages), size):
            fields = {name: values[start : start + size] for name, values in encoded.items()}
            embedded.append(self.model(**fields))
        return torch.cat(embedded)

    @torch.no_grad()
    def rerank(self, query, passages, top_k, batch):
        """Each of the question's tokens counts by the token of a passage that is most like it."""
        likeness = self.embed_query(query) @ self.embed_passages(passages, batch).transpose(1, 2)
        best = likeness.max(dim=2).values.sum(dim=1).topk(top_k)
        return best.indices.tolist(), [round(score, 4) for score in best.values.tolist()]

# === optimizers_before_the_models_move
# thread: https://github.com/pytorch/tutorials/pull/577
# about: a chatbot goes on from its checkpoint. Optimizers get back what they kept while the models are on the CPU, and the models go to the GPU after that
# operation: .*lerp.*|.*mul.*|.*add.* on cpu, cuda:0
# operands: .*exp_avg.*|.*grad.*
# category: optimizer|checkpoint
# line: chatbot.py: optimizer.load_state_dict(
# line: chatbot.py: module.to(device)
# line: train.py: optimizer.step()
# line: chatbot.py: models = build(
# line: chatbot.py: optimizers = {
# line: main.py: models, optimizers = resume(
# repair: chatbot.py: models = build(checkpoint["config"]) -> models = {name: module.to(device) for name, module in build(checkpoint["config"]).items()}
import torch

from chatbot import build, resume, save
from train import train_iterations

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(5)
pairs = [(torch.randint(1, 15, (4, 5), generator=generator), torch.randint(1, 15, (4, 6), generator=generator)) for _ in range(3)]

# cell 1: the run before
config = {"words": 15, "hidden": 8}
models = {name: module.to(device) for name, module in build(config).items()}
optimizers = {name: torch.optim.Adam(module.parameters(), lr=0.01) for name, module in models.items()}
before = train_iterations(models, optimizers, pairs, device)
save("4000_checkpoint.tar", config, models, optimizers)

# cell 2: it goes on
models, optimizers = resume("4000_checkpoint.tar", device, lr=0.01)
print("losses", before, train_iterations(models, optimizers, pairs, device))
# --- chatbot.py
import torch
from torch import nn

class Encoder(nn.Module):
    def __init__(self, words, hidden):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(words, hidden), nn.GRU(hidden, hidden, batch_first=True)

    def forward(self, ids):
        return self.gru(self.embedding(ids))

class Decoder(nn.Module):
    def __init__(self, words, hidden):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(words, hidden), nn.GRU(hidden, hidden, batch_first=True)
        self.concat, self.out = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, words)

    def forward(self, ids, state, encoded):
        output, _ = self.gru(self.embedding(ids), state)
        context = (output @ encoded.transpose(1, 2)).softmax(-1) @ encoded
        return self.out(self.concat(torch.cat([output, context], dim=-1)).tanh())

def build(config):
    return {"encoder": Encoder(**config), "decoder": Decoder(**config)}

def save(path, config, models, optimizers):
    parts = {name: (module.state_dict(), optimizers[name].state_dict()) for name, module in models.items()}
    torch.save({"config": config, "parts": parts}, path)

def resume(path, device, lr):
    checkpoint = torch.load(path, map_location="cpu")
    models = build(checkpoint["config"])
    optimizers = {name: torch.optim.Adam(module.parameters(), lr=lr) for name, module in models.items()}
    for name, optimizer in optimizers.items():
        weights, state = checkpoint["parts"][name]
        models[name].load_state_dict(weights)
        optimizer.load_state_dict(state)
    for module in models.values():
        module.to(device)
    return models, optimizers
# --- train.py
from torch import nn

def train_iterations(models, optimizers, pairs, device, clip=1.0):
    losses = []
    for question, answer in pairs:
        question, answer = question.to(device), answer.to(device)
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        encoded, state = models["encoder"](question)
        logits = models["decoder"](answer[:, :-1], state, encoded)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), answer[:, 1:].flatten())
        loss.backward()
        for name, optimizer in optimizers.items():
            nn.utils.clip_grad_norm_(models[name].parameters(), clip)
            optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === choices_of_each_replica
# thread: https://github.com/yuhuixu1993/PC-DARTS/issues/57
# about: what a cell's edge computes is a mixture, whose weights are searched for with an optimizer of their own. They are a tensor and no parameter of the network
# operation: mul on cuda:0, cuda:1
# operands: w|op\(x\)
# category: state-not-registered|data-parallel
# line: search.py: self.alphas = (
# line: search.py: weights = self.alphas.softmax(
# line: operations.py: return sum(w * op(x)
# line: train.py: self.network = nn.DataParallel(
# line: search.py: states.append(sum(
# repair: search.py: self.alphas = (1e-3 * torch.randn(self.edges, len(OPERATIONS))).to(device).requires_grad_() -> self.alphas = nn.Parameter((1e-3 * torch.randn(self.edges, len(OPERATIONS))).to(device))
import torch

from search import SearchNetwork
from train import Searcher

torch.manual_seed(0)
device = torch.device("cuda:0")
generator = torch.Generator().manual_seed(6)
images, labels = torch.randn(16, 3, 8, 8, generator=generator), torch.randint(4, (16,), generator=generator)
searcher = Searcher(SearchNetwork(channels=4, nodes=2, classes=4, device=device), device)
losses = [searcher.step((images[:8], labels[:8]), (images[8:], labels[8:])) for _ in range(3)]
print("losses", losses, searcher.genotype())
# --- operations.py
from torch import nn

OPERATIONS = {
    "skip": lambda channels: nn.Identity(),
    "pool": lambda channels: nn.AvgPool2d(3, stride=1, padding=1),
    "conv": lambda channels: nn.Sequential(nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1)),
}

class MixedOperation(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.ops = nn.ModuleList(make(channels) for make in OPERATIONS.values())

    def forward(self, x, weights):
        return sum(w * op(x) for w, op in zip(weights, self.ops))
# --- search.py
import torch
from torch import nn

from operations import OPERATIONS, MixedOperation

class SearchNetwork(nn.Module):
    def __init__(self, channels, nodes, classes, device):
        super().__init__()
        self.nodes, self.edges = nodes, sum(range(1, nodes + 1))
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.mixed = nn.ModuleList(MixedOperation(channels) for _ in range(self.edges))
        self.classifier = nn.Linear(channels, classes)
        self.alphas = (1e-3 * torch.randn(self.edges, len(OPERATIONS))).to(device).requires_grad_()
        self.to(device)

    def weights_and_choices(self):
        return [value for name, value in self.named_parameters() if name != "alphas"], [self.alphas]

    def forward(self, images):
        weights = self.alphas.softmax(dim=-1)
        states, edge = [self.stem(images)], 0
        for _ in range(self.nodes):
            count = len(states)
            states.append(sum(self.mixed[edge + i](states[i], weights[edge + i]) for i in range(count)))
            edge += count
        return self.classifier(states[-1].mean((2, 3)))
# --- train.py
import torch
from torch import nn

from operations import OPERATIONS

class Searcher:
    """Weights learn from one half of the data, choices from the other."""

    def __init__(self, network, device):
        self.device, self.choices = device, network.alphas
        weights, choices = network.weights_and_choices()
        self.optimizer = torch.optim.SGD(weights, lr=0.05, momentum=0.9)
        self.architect = torch.optim.Adam(choices, lr=0.05)
        self.network = nn.DataParallel(network, device_ids=[0, 1])

    def descend(self, optimizer, batch):
        images, labels = (each.to(self.device) for each in batch)
        logits = self.network(images)
        loss = nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return round(loss.item(), 4)

    def step(self, train, valid):
        return self.descend(self.architect, valid), self.descend(self.optimizer, train)

    def genotype(self):
        return [list(OPERATIONS)[index] for index in self.choices.argmax(dim=1).tolist()]

# === anchors_where_nobody_asked
# thread: https://github.com/open-mmlab/mmdetection/pull/1478
# about: a detector is opened on the CPU, on a machine that has GPUs. Its anchors are made where a default of the generator's function says
# operation: mul on cuda:0, cpu
# operands: .*anchors.*|.*deltas.*
# category: default-or-current-device|input-not-moved
# line: anchors.py: def grid_anchors(
# line: head.py: anchors = self.generator.grid_anchors(
# line: boxes.py: centres = anchors[:, :2] + anchors[:, 2:] * deltas
# line: head.py: boxes = decode(
# repair: head.py: anchors = self.generator.grid_anchors(scores.shape[-2:], self.stride) -> anchors = self.generator.grid_anchors(scores.shape[-2:], self.stride, device=scores.device)
import torch

from head import init_detector

torch.manual_seed(0)
generator = torch.Generator().manual_seed(2)
detector = init_detector({"channels": 4, "stride": 4, "sizes": (6.0, 12.0)}, device="cpu")
images = torch.rand(2, 3, 16, 16, generator=generator)
for found in detector.simple_test(images, keep=2):
    print("boxes", [[round(value, 3) for value in box] for box in found.tolist()])
# --- anchors.py
import torch

class AnchorGenerator:
    """Squares of some sizes, around each cell of a grid."""

    def __init__(self, sizes):
        self.sizes = sizes

    def grid_anchors(self, shape, stride, device="cuda"):
        height, width = shape
        x = torch.arange(width, device=device) * stride
        y = torch.arange(height, device=device) * stride
        centres = torch.stack(torch.meshgrid(y, x, indexing="ij"), dim=-1).flip(-1).reshape(-1, 2) + stride / 2
        sizes = torch.tensor(self.sizes, device=device).repeat(len(centres))[:, None].expand(-1, 2)
        centres = centres.repeat_interleave(len(self.sizes), dim=0)
        return torch.cat([centres, sizes], dim=1)
# --- boxes.py
import torch

def decode(anchors, deltas):
    """Corners of the boxes that an anchor becomes when it is shifted and scaled."""
    centres = anchors[:, :2] + anchors[:, 2:] * deltas[:, :2]
    sizes = anchors[:, 2:] * deltas[:, 2:].clamp(max=4).exp()
    return torch.cat([centres - sizes / 2, centres + sizes / 2], dim=1)
# --- head.py
import torch
from torch import nn

from anchors import AnchorGenerator
from boxes import decode

class AnchorHead(nn.Module):
    def __init__(self, channels, stride, sizes):
        super().__init__()
        self.stride, self.generator = stride, AnchorGenerator(sizes)
        self.classify = nn.Conv2d(channels, len(sizes), 1)
        self.regress = nn.Conv2d(channels, 4 * len(sizes), 1)

    def forward(self, features):
        return self.classify(features).sigmoid(), self.regress(features)

    def get_bboxes(self, scores, deltas, keep):
        anchors = self.generator.grid_anchors(scores.shape[-2:], self.stride)
        results = []
        for score, delta in zip(scores, deltas):
            boxes = decode(anchors, delta.permute(1, 2, 0).reshape(-1, 4))
            best = score.permute(1, 2, 0).flatten().topk(keep)
            results.append(torch.cat([boxes[best.indices], best.values[:, None]], dim=1))
        return results

class SingleStage(nn.Module):
    def __init__(self, channels, stride, sizes):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, channels, stride, stride=stride), nn.ReLU())
        self.head = AnchorHead(channels, stride, sizes)

    @torch.no_grad()
    def simple_test(self, images, keep):
        images = images.to(next(self.parameters()).device)
        return self.head.get_bboxes(*self.head(self.backbone(images)), keep=keep)

def init_detector(config, device="cuda:0"):
    return SingleStage(**config).to(device).eval()

# === spans_that_do_not_count
# thread: https://github.com/urchade/GraphER/issues/2
# about: spans that only fill a batch up are labelled -1, and get no score. A trainer moves every field; who predicts hands over what the collator made
# operation: masked_fill_? on cuda:0, cpu
# operands: label.*|mask|.*label == -1.*
# category: input-not-moved|input
# line: filtering.py: scores = scores.masked_fill(label == -1
# line: model.py: scores = self.filter(
# line: model.py: scores = self.forward(x)
# line: main.py: for words, found in zip(texts, model.predict(
# line: main.py: batch = collator(
# repair: filtering.py: scores = scores.masked_fill(label == -1, -1e9) -> scores = scores.masked_fill(label.to(scores.device) == -1, -1e9)
import torch

from data import Collator
from model import SpanModel, train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
collator = Collator(words=30, width=2)
examples = [("anna met bob in oslo", {(0, 0), (2, 2)}), ("paris is large", {(0, 0)})]
model = SpanModel(words=30, dim=8).to(device)
losses = train(model, collator(*zip(*examples)), device, steps=4, lr=0.05)
texts = ["bob is in paris", "anna sings"]
batch = collator(texts, [set(), set()])
for words, found in zip(texts, model.predict(batch, keep=1)):
    print(words, found, losses)
# --- data.py
import torch
from torch.nn.utils.rnn import pad_sequence

class Collator:
    """Every span of up to `width` words, with 1 for those that are names."""

    def __init__(self, words, width):
        self.words, self.width = words, width

    def spans(self, count):
        return [(start, end) for start in range(count) for end in range(start, min(start + self.width, count))]

    def __call__(self, texts, names):
        rows = [[1 + sum(map(ord, word)) % (self.words - 1) for word in text.split()] for text in texts]
        spans = [self.spans(len(row)) for row in rows]
        labels = [torch.tensor([int(span in known) for span in each]) for each, known in zip(spans, names)]
        ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        span_idx = pad_sequence([torch.tensor(each) for each in spans], batch_first=True)
        return {"ids": ids, "span_idx": span_idx, "span_label": pad_sequence(labels, batch_first=True, padding_value=-1)}
# --- filtering.py
from torch import nn

class SpanFilter(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score, self.loss = nn.Linear(dim, 1), nn.BCEWithLogitsLoss(reduction="none")

    def forward(self, span_rep, label):
        scores = self.score(span_rep)[:, :, 0]
        scores = scores.masked_fill(label == -1, -1e9)
        return scores

    def loss_of(self, scores, label):
        counted = (label > -1).float()
        return (self.loss(scores, label.clamp(min=0).float()) * counted).sum() / counted.sum()
# --- model.py
import torch
from torch import nn

from filtering import SpanFilter

class SpanModel(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.embed, self.mix = nn.Embedding(words, dim, padding_idx=0), nn.GRU(dim, dim, batch_first=True)
        self.filter = SpanFilter(2 * dim)

    @property
    def device(self):
        return self.embed.weight.device

    def represent(self, ids, spans):
        hidden = self.mix(self.embed(ids))[0]
        rows = torch.arange(len(ids), device=ids.device)[:, None]
        return torch.cat([hidden[rows, spans[:, :, 0]], hidden[rows, spans[:, :, 1]]], dim=-1)

    def forward(self, x):
        span_rep = self.represent(x["ids"].to(self.device), x["span_idx"].to(self.device))
        scores = self.filter(span_rep, x["span_label"])
        return scores

    @torch.no_grad()
    def predict(self, x, keep):
        scores = self.forward(x)
        best = scores.topk(keep, dim=1).indices.cpu()
        return [[tuple(x["span_idx"][row, index].tolist()) for index in each] for row, each in enumerate(best)]

def train(model, batch, device, steps, lr):
    batch = {name: values.to(device) for name, values in batch.items()}
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    for _ in range(steps):
        loss = model.filter.loss_of(model(batch), batch["span_label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === chunks_of_the_policy_server
# thread: https://github.com/huggingface/lerobot/issues/2244
# about: a server runs the policy on its GPU and sends chunks of actions. The arm's client mixes them into a queue that began with the arm's own position
# operation: lerp on cpu, cuda:0
# operands: old|new|action
# category: input-not-moved
# line: server.py: return [TimedAction(
# line: client.py: mixed = torch.lerp(old, new
# line: client.py: self.aggregate(
# line: client.py: chunk = self.server.get_actions(
# repair: server.py: return [TimedAction(observation.step + index, action) for index, action in enumerate(chunk)] -> return [TimedAction(observation.step + index, action) for index, action in enumerate(chunk.cpu())]
import torch

from client import ArmClient
from messages import PolicyConfig
from server import PolicyServer

torch.manual_seed(0)
config = PolicyConfig(device="cuda" if torch.cuda.is_available() else "cpu", joints=3, chunk=5)
server = PolicyServer()
server.prepare(config)
client = ArmClient(server, torch.tensor([0.1, -0.4, 0.8]), hold=3)
print("positions", [[round(value, 4) for value in position] for position in client.control(steps=8, refill=2)])
# --- messages.py
from dataclasses import dataclass

import torch

@dataclass
class PolicyConfig:
    device: str
    joints: int
    chunk: int

@dataclass
class Observation:
    step: int
    state: torch.Tensor

@dataclass
class TimedAction:
    step: int
    action: torch.Tensor
# --- server.py
import torch
from torch import nn

from messages import TimedAction

class ChunkPolicy(nn.Module):
    def __init__(self, joints, chunk):
        super().__init__()
        self.joints, self.chunk = joints, chunk
        self.body = nn.Sequential(nn.Linear(joints, 16), nn.Tanh(), nn.Linear(16, chunk * joints))

    def forward(self, state):
        return state[:, None] + 0.3 * self.body(state).view(-1, self.chunk, self.joints)

class PolicyServer:
    def prepare(self, config):
        self.device = torch.device(config.device)
        self.policy = ChunkPolicy(config.joints, config.chunk).to(self.device).eval()

    @torch.inference_mode()
    def get_actions(self, observation):
        state = observation.state[None].to(self.device)
        chunk = self.policy(state)[0]
        return [TimedAction(observation.step + index, action) for index, action in enumerate(chunk)]
# --- client.py
import torch

from messages import Observation

class ArmClient:
    """Walks through a queue of actions, and asks for more before it is empty."""

    def __init__(self, server, position, hold, weight=0.7):
        self.server, self.position, self.weight = server, position, weight
        self.queue = {step: position.clone() for step in range(hold)}

    def aggregate(self, chunk):
        for timed in chunk:
            new = timed.action
            if timed.step in self.queue:
                old = self.queue[timed.step]
                mixed = torch.lerp(old, new, self.weight)
                self.queue[timed.step] = mixed
            else:
                self.queue[timed.step] = new

    def send(self, action):
        self.position = self.position + (action - self.position).clamp(-0.1, 0.1)
        return self.position.tolist()

    def control(self, steps, refill):
        positions = []
        for step in range(steps):
            if len(self.queue) <= refill:
                chunk = self.server.get_actions(Observation(step, self.position))
                self.aggregate(chunk)
            positions.append(self.send(self.queue.pop(step)))
        return positions

# === teacher_of_a_config
# thread: https://github.com/huggingface/optimum-intel/pull/182
# about: a trainer moves the model that it trains, as trainers do. That which it learns from comes by a config for distillation
# operation: embedding|index_select on cpu, cuda:1
# operands: .*weight
# category: module-split|input-not-moved
# line: trainer.py: self.teacher = distillation.teacher_model
# line: trainer.py: teacher_logits = self.teacher(
# line: main.py: distillation = DistillationConfig(
# line: main.py: teacher = TextClassifier(
# line: trainer.py: self.model = model.to(
# repair: trainer.py: self.teacher = distillation.teacher_model.eval().requires_grad_(False) -> self.teacher = distillation.teacher_model.eval().requires_grad_(False).to(args.device)
import torch

from models import TextClassifier
from trainer import DistillationConfig, DistillingTrainer, TrainingArguments

torch.manual_seed(0)
last = torch.cuda.device_count() - 1
generator = torch.Generator().manual_seed(4)
dataset = [{"input_ids": torch.randint(1, 25, (4, 7), generator=generator), "labels": torch.arange(4) % 3} for _ in range(4)]
teacher = TextClassifier(words=25, dim=16, classes=3, kernel=3)
distillation = DistillationConfig(teacher_model=teacher, temperature=2.0, weights=(0.4, 0.6))
args = TrainingArguments(device=torch.device(f"cuda:{last}"), learning_rate=0.02, epochs=2)
trainer = DistillingTrainer(TextClassifier(words=25, dim=6, classes=3, kernel=1), args, distillation, dataset)
print("losses", trainer.train(), "agreement", trainer.agreement())
# --- models.py
import torch
from torch import nn

class TextClassifier(nn.Module):
    def __init__(self, words, dim, classes, kernel):
        super().__init__()
        self.embedding = nn.Embedding(words, dim)
        self.convolution = nn.Conv1d(dim, dim, kernel, padding=kernel // 2)
        self.head = nn.Linear(dim, classes)

    def forward(self, input_ids):
        embedded = self.embedding(input_ids).transpose(1, 2)
        return self.head(torch.relu(self.convolution(embedded)).amax(-1))
# --- trainer.py
from dataclasses import dataclass

import torch
from torch import nn

@dataclass
class TrainingArguments:
    device: torch.device
    learning_rate: float
    epochs: int

@dataclass
class DistillationConfig:
    teacher_model: nn.Module
    temperature: float
    weights: tuple

class DistillingTrainer:
    def __init__(self, model, args, distillation, dataset):
        self.args, self.dataset, self.distillation = args, dataset, distillation
        self.model = model.to(args.device)
        self.teacher = distillation.teacher_model.eval().requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.learning_rate)

    def compute_loss(self, batch):
        inputs = {name: values.to(self.args.device) for name, values in batch.items()}
        labels = inputs.pop("labels")
        logits = self.model(**inputs)
        teacher_logits = self.teacher(**inputs)
        heat, (hard, soft) = self.distillation.temperature, self.distillation.weights
        distance = nn.functional.kl_div((logits / heat).log_softmax(-1), (teacher_logits / heat).softmax(-1), reduction="batchmean")
        return hard * nn.functional.cross_entropy(logits, labels) + soft * heat**2 * distance

    def train(self):
        losses = []
        for _ in range(self.args.epochs):
            for batch in self.dataset:
                loss = self.compute_loss(batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            losses.append(round(loss.item(), 4))
        return losses

    @torch.no_grad()
    def agreement(self):
        ids = torch.cat([batch["input_ids"] for batch in self.dataset]).to(self.args.device)
        return round((self.model(ids).argmax(1) == self.teacher(ids).argmax(1)).float().mean().item(), 4)
