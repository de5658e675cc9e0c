# === hypotheses_scored_by_more_than_one
# thread: https://github.com/speechbrain/speechbrain/issues/2576
# about: what was said is searched for with a beam. A decoder's scores are not all: other scorers look at the same speech and have a say, each with its own layers, by their names in a recipe
# operation: addmm|linear on cuda:0, cpu
# operands: weight|bias|mat2|self|mat1|.*ctc_fc.*
# category: state-not-registered|module-split
# line: hparams.py: return {"modules": {
# line: scorer.py: self.full_scorers = {
# line: scorer.py: class CTCScorer:
# line: scorer.py: logits = self.ctc_fc(
# repair: hparams.py: return {"modules": {"encoder": encoder, "decoder": decoder}, "tokens": TOKENS} -> return {"modules": {"encoder": encoder, "decoder": decoder, "ctc_fc": ctc_fc}, "tokens": TOKENS}
import argparse

import torch

from hparams import load_hparams
from inference import EncoderDecoderASR

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
parser.add_argument("--beam-size", type=int, default=3)
parser.add_argument("--ctc-weight", type=float, default=0.4)
args = parser.parse_args()

torch.manual_seed(16)
hparams = load_hparams(beam_size=args.beam_size, ctc_weight=args.ctc_weight)
asr_model = EncoderDecoderASR(hparams, run_opts={"device": args.device})
draw = torch.Generator().manual_seed(16)
for name, length in (("first.wav", 60), ("second.wav", 44)):
    words, score = asr_model.transcribe(torch.randn(length, generator=draw))
    print(name, words, round(score, 4))
# --- hparams.py
from torch import nn

from scorer import CoverageScorer, CTCScorer, ScorerBuilder
from seq2seq import BeamSearcher, Decoder

TOKENS = ["<s>", "a", "e", "n", "s", "t", "</s>"]


def load_hparams(beam_size, ctc_weight, width=10):
    """Every object of a recipe by its name, as if read from a file."""
    encoder = nn.Sequential(nn.Unflatten(1, (-1, 4)), nn.Linear(4, width), nn.GELU())
    ctc_fc = nn.Linear(width, len(TOKENS))
    ctc_scorer = CTCScorer(ctc_fc=ctc_fc)
    scorer = ScorerBuilder(
        full_scorers={"ctc": ctc_scorer, "coverage": CoverageScorer(len(TOKENS), TOKENS.index("</s>"))},
        weights={"ctc": ctc_weight, "coverage": 0.1},
    )
    decoder = BeamSearcher(Decoder(len(TOKENS), width), scorer, beam_size, max_length=6)
    return {"modules": {"encoder": encoder, "decoder": decoder}, "tokens": TOKENS}
# --- scorer.py
import torch
from torch import nn


class CTCScorer:
    """How often a frame is heard as each of the tokens."""

    def __init__(self, ctc_fc):
        self.ctc_fc = ctc_fc

    def reset_mem(self, x):
        logits = self.ctc_fc(x)
        return logits.log_softmax(-1).logsumexp(dim=1)

    def score(self, tokens, memory):
        return memory.expand(len(tokens), -1)


class CoverageScorer:
    """The longer a hypothesis is, the better may it end."""

    def __init__(self, vocabulary, eos_index):
        self.vocabulary, self.eos_index = vocabulary, eos_index

    def reset_mem(self, x):
        return x.shape[1]

    def score(self, tokens, memory):
        scores = torch.zeros(len(tokens), self.vocabulary, device=tokens.device)
        scores[:, self.eos_index] = tokens.shape[1] / memory
        return scores


class ScorerBuilder(nn.Module):
    def __init__(self, full_scorers, weights):
        super().__init__()
        self.full_scorers = {name: full_scorers[name] for name in weights if weights[name] > 0}
        self.weights = weights

    def reset_scorer_mem(self, x):
        return {name: scorer.reset_mem(x) for name, scorer in self.full_scorers.items()}

    def score(self, tokens, memory, log_probs):
        for name, scorer in self.full_scorers.items():
            log_probs = log_probs + self.weights[name] * scorer.score(tokens, memory[name])
        return log_probs
# --- seq2seq.py
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.fc = nn.Linear(width, tokens)

    def forward(self, tokens, enc_states):
        hidden, _ = self.rnn(self.embedding(tokens) + enc_states.mean(dim=1, keepdim=True))
        return self.fc(hidden[:, -1]).log_softmax(-1)


class BeamSearcher(nn.Module):
    def __init__(self, decoder, scorer, beam_size, max_length):
        super().__init__()
        self.decoder, self.scorer = decoder, scorer
        self.beam_size, self.max_length = beam_size, max_length

    def forward(self, enc_states):
        device = enc_states.device
        scorer_memory = self.scorer.reset_scorer_mem(enc_states)
        tokens = torch.zeros(1, 1, dtype=torch.long, device=device)
        scores = torch.zeros(1, device=device)
        for _ in range(self.max_length):
            log_probs = self.decoder(tokens, enc_states)
            log_probs = self.scorer.score(tokens, scorer_memory, log_probs)
            total = (scores[:, None] + log_probs).flatten()
            scores, candidates = total.topk(self.beam_size)
            beams = candidates // log_probs.shape[-1]
            tokens = torch.cat([tokens[beams], (candidates % log_probs.shape[-1])[:, None]], dim=1)
        return tokens[0, 1:], scores[0]
# --- inference.py
import torch
from torch import nn


class EncoderDecoderASR:
    def __init__(self, hparams, run_opts):
        self.device = run_opts["device"]
        self.tokens = hparams["tokens"]
        self.mods = nn.ModuleDict(hparams["modules"]).to(self.device).eval()

    @torch.no_grad()
    def transcribe(self, waveform):
        enc_states = self.mods.encoder(waveform.unsqueeze(0).to(self.device))
        predicted, score = self.mods.decoder(enc_states)
        words = "".join(self.tokens[token] for token in predicted.tolist())
        return words.partition("</s>")[0], score.item()

# === steps_between_two_sigmas
# thread: https://github.com/ussoewwin/ComfyUI-QwenImageLoraLoader/issues/7
# about: pictures are painted with a solver that makes steps in between, for which it says on its own how noisy they are. A wrapper puts small matrices into the model before it is called
# operation: addmm|linear on cpu, cuda:0
# operands: input|mat1|timesteps?|emb
# category: input-not-moved
# line: wrapper.py: return self.model(x, timestep,
# line: qwenimage.py: temb = self.time_text_embed(
# line: rk_sampler.py: timestep = sigma.float()
# line: rk_sampler.py: sigmas = sigmas.double().cpu()
# repair: wrapper.py: return self.model(x, timestep, context) -> return self.model(x, timestep.to(x), context)
import torch

from lora import lora_of
from nodes import KSampler, LoraLoader
from qwenimage import QwenImageTransformer2DModel

WORKFLOW = [
    {"class": "LoraLoader", "inputs": {"lora_name": "lightning", "strength": 1.0}},
    {"class": "KSampler", "inputs": {"sampler_name": "res_2m", "steps": 4, "seed": 5}},
]
NODES = {"LoraLoader": LoraLoader, "KSampler": KSampler}


def main():
    torch.manual_seed(5)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = QwenImageTransformer2DModel(channels=4, width=12).to(device).eval()
    files = {"lightning": lora_of(model, rank=2, seed=9)}
    context = torch.randn(1, 3, 12, generator=torch.Generator().manual_seed(6)).to(device)

    result = model
    for node in WORKFLOW:
        result = NODES[node["class"]](files, device).run(result, context, **node["inputs"])
    print("latent", list(result.shape), round(result.float().std().item(), 4))


if __name__ == "__main__":
    main()
# --- nodes.py
import torch

from rk_sampler import SAMPLERS
from wrapper import ComfyQwenImageWrapper


class LoraLoader:
    def __init__(self, files, device):
        self.files, self.device = files, device

    def run(self, model, context, lora_name, strength):
        if not isinstance(model, ComfyQwenImageWrapper):
            model = ComfyQwenImageWrapper(model)
        model.loras.append((self.files[lora_name], strength))
        return model


class KSampler:
    def __init__(self, files, device):
        self.device = device

    @torch.no_grad()
    def run(self, model, context, sampler_name, steps, seed):
        sigmas = torch.linspace(1, 0, steps + 1, device=self.device)
        noise = torch.randn(1, 4, 6, 6, generator=torch.Generator().manual_seed(seed))
        x = noise.to(self.device) * sigmas[0]
        return SAMPLERS[sampler_name](model, x, sigmas, context)
# --- lora.py
import torch
from torch import nn


def lora_of(model, rank, seed):
    """Small matrices for each layer of the blocks, as a file has them."""
    draw = torch.Generator().manual_seed(seed)
    lora = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and name.startswith("transformer_blocks"):
            lora[name + ".lora_A"] = torch.randn(rank, module.in_features, generator=draw) * 0.1
            lora[name + ".lora_B"] = torch.randn(module.out_features, rank, generator=draw) * 0.1
    return lora


@torch.no_grad()
def compose_loras(model, loras):
    count = 0
    for lora, strength in loras:
        for name, module in model.named_modules():
            if name + ".lora_A" in lora:
                down, up = lora[name + ".lora_A"], lora[name + ".lora_B"]
                module.weight += strength * (up @ down).to(module.weight)
                count += 1
    return count
# --- wrapper.py
from torch import nn

from lora import compose_loras


class ComfyQwenImageWrapper(nn.Module):
    """Puts what was loaded into the model at the first call."""

    def __init__(self, model):
        super().__init__()
        self.model, self.loras, self.applied = model, [], 0

    def forward(self, x, timestep, context):
        if self.loras and not self.applied:
            self.applied = compose_loras(self.model, self.loras)
        return self.model(x, timestep, context)
# --- rk_sampler.py
import torch


def sample_euler(model, x, sigmas, context):
    for sigma, following in zip(sigmas, sigmas[1:]):
        velocity = model(x, sigma.expand(len(x)), context)
        x = x + velocity * (following - sigma)
    return x


def sample_res_2m(model, x, sigmas, context):
    """What is computed of the sigmas is to be exact, and is little."""
    sigmas = sigmas.double().cpu()
    previous = None
    for sigma, following in zip(sigmas, sigmas[1:]):
        timestep = sigma.float().expand(len(x))
        velocity = model(x, timestep, context)
        step = velocity if previous is None else 1.5 * velocity - 0.5 * previous
        x = x + step * (following - sigma).item()
        previous = velocity
    return x


SAMPLERS = {"euler": sample_euler, "res_2m": sample_res_2m}
# --- qwenimage.py
import math

import torch
from torch import nn


class TimestepProjEmbeddings(nn.Module):
    def __init__(self, width, frequencies=4):
        super().__init__()
        self.frequencies = frequencies
        self.linear_1 = nn.Linear(2 * frequencies, width)
        self.linear_2 = nn.Linear(width, width)

    def forward(self, timestep):
        powers = torch.arange(self.frequencies, device=timestep.device)
        emb = timestep[:, None] * torch.exp(powers * -math.log(100) / self.frequencies)
        emb = torch.cat([emb.cos(), emb.sin()], dim=-1)
        return self.linear_2(nn.functional.silu(self.linear_1(emb)))


class QwenImageTransformerBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.to_qkv = nn.Linear(width, 3 * width)
        self.to_out = nn.Linear(width, width)

    def forward(self, hidden_states, temb):
        q, k, v = self.to_qkv(self.norm(hidden_states) + temb[:, None]).chunk(3, dim=-1)
        return hidden_states + self.to_out(nn.functional.scaled_dot_product_attention(q, k, v))


class QwenImageTransformer2DModel(nn.Module):
    def __init__(self, channels, width, layers=2):
        super().__init__()
        self.img_in = nn.Linear(channels, width)
        self.time_text_embed = TimestepProjEmbeddings(width)
        self.transformer_blocks = nn.ModuleList(QwenImageTransformerBlock(width) for _ in range(layers))
        self.proj_out = nn.Linear(width, channels)

    def forward(self, x, timestep, context):
        hidden_states = self.img_in(x.flatten(2).transpose(1, 2))
        temb = self.time_text_embed(timestep)
        hidden_states = torch.cat([context, hidden_states], dim=1)
        for block in self.transformer_blocks:
            hidden_states = block(hidden_states, temb)
        return self.proj_out(hidden_states[:, context.shape[1] :]).transpose(1, 2).view_as(x)

# === heat_learned_from_its_equation
# thread: https://github.com/pnnl/neuromancer/issues/177
# about: a network learns how heat spreads from the equation alone: points of space and time go in, and derivatives of what comes out are compared. What is known at the edges is data, too
# operation: addmm|linear on cpu, cuda:0
# operands: input|mat1
# category: input-not-moved
# line: trainer.py: output = self.model(t_batch)
# line: trainer.py: for t_batch in self.train_data:
# repair: trainer.py: output = self.model(t_batch) -> output = self.model(move_batch_to_device(t_batch, self.device))
import torch

from blocks import MLP
from dataset import collocation, get_loader
from pde import boundary_objective, pde_objective
from problem import PenaltyLoss, Problem
from system import Node
from trainer import Trainer

torch.manual_seed(12)
device = "cuda:0" if torch.cuda.is_available() else "cpu"

pde_net = Node(MLP(insize=2, outsize=1, hsizes=[12, 12]), ["x", "t"], "y_hat", name="net")
objectives = [
    pde_objective("y_hat", scaling=10.0, diffusion=0.4),
    boundary_objective("y_hat", "y_bound", scaling=30.0),
]
problem = Problem(nodes=[pde_net], loss=PenaltyLoss(objectives))
train_data = get_loader(collocation(24, seed=12), batch_size=12)
dev_data = get_loader(collocation(8, seed=13), batch_size=8)
optimizer = torch.optim.AdamW(problem.parameters(), lr=0.01, foreach=False)
trainer = Trainer(problem.to(device), train_data, dev_data, optimizer, epochs=3, device=device)
best = trainer.train()
print("best", round(best, 4), "of", [round(loss, 4) for loss in trainer.dev_losses])
# --- blocks.py
from torch import nn


class MLP(nn.Module):
    def __init__(self, insize, outsize, hsizes):
        super().__init__()
        sizes = [insize, *hsizes]
        layers = []
        for before, after in zip(sizes, sizes[1:]):
            layers += [nn.Linear(before, after), nn.Tanh()]
        self.net = nn.Sequential(*layers, nn.Linear(sizes[-1], outsize))

    def forward(self, x):
        return self.net(x)
# --- dataset.py
import math

import torch


def collocation(count, seed):
    """A third of the points is where the heat is known from the start."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.rand(count, 1, generator=draw) * 2 - 1
    t = torch.rand(count, 1, generator=draw)
    known = (torch.arange(count) % 3 == 0).float().unsqueeze(1)
    t = t * (1 - known)
    return {"x": x, "t": t, "y_bound": torch.sin(math.pi * x), "known": known}


class DictDataset(torch.utils.data.Dataset):
    def __init__(self, datadict, name):
        self.datadict, self.name = datadict, name

    def __len__(self):
        return len(next(iter(self.datadict.values())))

    def __getitem__(self, index):
        return {key: value[index] for key, value in self.datadict.items()}

    def collate_fn(self, items):
        batch = {key: torch.stack([item[key] for item in items]) for key in self.datadict}
        batch["name"] = self.name
        return batch


def get_loader(datadict, batch_size):
    dataset = DictDataset(datadict, name=f"{len(datadict['x'])} points")
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, collate_fn=dataset.collate_fn)
# --- system.py
import torch
from torch import nn


class Node(nn.Module):
    """A module that finds its inputs in a dictionary, by their names."""

    def __init__(self, callable, input_keys, output_key, name):
        super().__init__()
        self.callable, self.name = callable, name
        self.input_keys, self.output_key = input_keys, output_key

    def forward(self, data):
        for key in self.input_keys:
            data[key] = data[key].detach().requires_grad_(True)
        data[self.output_key] = self.callable(torch.cat([data[key] for key in self.input_keys], dim=-1))
        return data
# --- pde.py
import torch


def gradient(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def pde_objective(key, scaling, diffusion):
    def objective(data):
        y = data[key]
        residual = gradient(y, data["t"]) - diffusion * gradient(gradient(y, data["x"]), data["x"])
        return scaling * residual.square().mean()

    return objective


def boundary_objective(key, bound, scaling):
    def objective(data):
        error = (data[key] - data[bound]) * data["known"]
        return scaling * error.square().sum() / data["known"].sum()

    return objective
# --- problem.py
from torch import nn


class PenaltyLoss:
    def __init__(self, objectives):
        self.objectives = objectives

    def __call__(self, data):
        return sum(objective(data) for objective in self.objectives)


class Problem(nn.Module):
    def __init__(self, nodes, loss):
        super().__init__()
        self.nodes, self.loss = nn.ModuleList(nodes), loss

    def forward(self, data):
        output = dict(data)
        for node in self.nodes:
            output = node(output)
        output["loss"] = self.loss(output)
        return output
# --- trainer.py
import torch


def move_batch_to_device(batch, device):
    return {key: value.to(device) if torch.is_tensor(value) else value for key, value in batch.items()}


class Trainer:
    def __init__(self, problem, train_data, dev_data, optimizer, epochs, device):
        self.model, self.optimizer = problem, optimizer
        self.train_data, self.dev_data = train_data, dev_data
        self.epochs, self.device = epochs, device
        self.dev_losses = []

    def evaluate(self):
        losses = [self.model(move_batch_to_device(d_batch, self.device))["loss"].item() for d_batch in self.dev_data]
        return sum(losses) / len(losses)

    def train(self):
        for epoch in range(self.epochs):
            self.model.train()
            for t_batch in self.train_data:
                t_batch["epoch"] = epoch
                output = self.model(t_batch)
                self.optimizer.zero_grad()
                output["loss"].backward()
                self.optimizer.step()
            self.model.eval()
            self.dev_losses.append(self.evaluate())
        return min(self.dev_losses)

# === residues_and_how_far_apart
# thread: https://github.com/ogchen/nanofold/pull/4
# about: a small folding network learns from pairs of residues. How far apart two are in the chain is told in steps, as the nearest of a few; far ones count as the same
# operation: sub on cuda:0, cpu
# operands: other|bins|v_bins
# category: created-without-device
# line: input_embedding.py: bins = torch.arange(
# line: input_embedding.py: nearest = (offset[
# repair: input_embedding.py: bins = torch.arange(-self.position_bins, self.position_bins + 1) -> bins = torch.arange(-self.position_bins, self.position_bins + 1, device=residue_index.device)
import argparse
from configparser import ConfigParser

import torch

from chains import ChainDataset
from model import Nanofold
from training_loop import training_loop

CONFIG = """
[General]
device = auto
seed = 41
[Nanofold]
embedding_size = 10
pair_embedding_size = 6
position_bins = 4
num_layers = 2
[Optimizer]
lr = 0.01
epochs = 3
"""


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("-d", "--device", default=None)
    parser.add_argument("-b", "--batch-size", type=int, default=2)
    return parser.parse_args()


def get_device(config, args):
    wanted = args.device or config["General"]["device"]
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted)


def main():
    args = parse_args()
    config = ConfigParser()
    config.read_string(CONFIG)
    torch.manual_seed(config["General"].getint("seed"))
    device = get_device(config, args)
    model = Nanofold.from_config(config["Nanofold"]).to(device)
    chains = ChainDataset(count=4, length=7)
    losses = training_loop(model, chains, args.batch_size, device, config["Optimizer"])
    print("losses", losses)


if __name__ == "__main__":
    main()
# --- chains.py
import torch
from torch.utils.data import Dataset

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"


class ChainDataset(Dataset):
    """Parts of chains; where a part begins is not the same for all."""

    def __init__(self, count, length):
        draw = torch.Generator().manual_seed(3)
        self.starts = torch.randint(0, 50, (count,), generator=draw)
        self.kinds = torch.randint(0, len(RESIDUES), (count, length), generator=draw)
        steps = torch.randn(count, length, 3, generator=draw)
        self.coords = (3.8 * torch.nn.functional.normalize(steps, dim=-1)).cumsum(dim=1)

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, index):
        positions = self.starts[index] + torch.arange(self.kinds.shape[1])
        return {"kinds": self.kinds[index], "positions": positions, "coords": self.coords[index]}
# --- input_embedding.py
import torch
from torch import nn

from chains import RESIDUES


class InputEmbedding(nn.Module):
    def __init__(self, embedding_size, pair_embedding_size, position_bins):
        super().__init__()
        self.position_bins = position_bins
        self.single = nn.Embedding(len(RESIDUES), embedding_size)
        self.linear_a = nn.Embedding(len(RESIDUES), pair_embedding_size)
        self.linear_b = nn.Embedding(len(RESIDUES), pair_embedding_size)
        self.linear_position = nn.Linear(2 * position_bins + 1, pair_embedding_size)

    def relative_position(self, residue_index):
        offset = residue_index[..., None] - residue_index[..., None, :]
        bins = torch.arange(-self.position_bins, self.position_bins + 1)
        nearest = (offset[..., None] - bins).abs().argmin(dim=-1)
        one_hot = nn.functional.one_hot(nearest, num_classes=2 * self.position_bins + 1)
        return self.linear_position(one_hot.float())

    def forward(self, kinds, residue_index):
        pair_repr = self.linear_a(kinds)[:, :, None] + self.linear_b(kinds)[:, None]
        return self.single(kinds), pair_repr + self.relative_position(residue_index)
# --- model.py
import torch
from torch import nn

from input_embedding import InputEmbedding


class PairBiasedAttention(nn.Module):
    def __init__(self, embedding_size, pair_embedding_size):
        super().__init__()
        self.norm = nn.LayerNorm(embedding_size)
        self.qkv = nn.Linear(embedding_size, 3 * embedding_size, bias=False)
        self.bias = nn.Linear(pair_embedding_size, 1, bias=False)
        self.out = nn.Linear(embedding_size, embedding_size)

    def forward(self, single_repr, pair_repr):
        q, k, v = self.qkv(self.norm(single_repr)).chunk(3, dim=-1)
        weights = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + self.bias(pair_repr).squeeze(-1)
        return single_repr + self.out(weights.softmax(dim=-1) @ v)


class Nanofold(nn.Module):
    def __init__(self, embedding_size, pair_embedding_size, position_bins, num_layers):
        super().__init__()
        self.input_embedding = InputEmbedding(embedding_size, pair_embedding_size, position_bins)
        self.layers = nn.ModuleList(PairBiasedAttention(embedding_size, pair_embedding_size) for _ in range(num_layers))
        self.to_coords = nn.Linear(embedding_size, 3)

    @classmethod
    def from_config(cls, section):
        names = ("embedding_size", "pair_embedding_size", "position_bins", "num_layers")
        return cls(**{name: section.getint(name) for name in names})

    def forward(self, batch):
        single_repr, pair_repr = self.input_embedding(batch["kinds"], batch["positions"])
        for layer in self.layers:
            single_repr = layer(single_repr, pair_repr)
        coords = self.to_coords(single_repr).cumsum(dim=1)
        true, found = (torch.cdist(each, each) for each in (batch["coords"], coords))
        return {"coords": coords, "loss": (true - found).abs().clamp(max=10).mean()}
# --- training_loop.py
import torch
from torch.utils.data import DataLoader


def training_loop(model, dataset, batch_size, device, settings):
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.getfloat("lr"), foreach=False)
    losses = []
    for _ in range(settings.getint("epochs")):
        for batch in DataLoader(dataset, batch_size=batch_size):
            batch = {key: value.to(device) for key, value in batch.items()}
            loss = model(batch)["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === forces_fitted_with_damping
# thread: https://github.com/openforcefield/smee/pull/83
# about: parameters of a force field are fitted to energies by steps that are kept short. How short is set by a damping that is added to the second derivatives
# operation: add on cuda:0, cpu
# operands: other|.*eye.*|.*damping.*
# category: created-without-device
# line: lm.py: hessian_regular = hessian +
# repair: lm.py: hessian_regular = hessian + (damping_factor - 1) ** 2 * torch.eye(len(hessian)) -> hessian_regular = hessian + (damping_factor - 1) ** 2 * torch.eye(len(hessian), device=hessian.device)
import logging

import torch

from dimers import make_dataset
from lm import LevenbergMarquardtConfig, levenberg_marquardt
from objective import Trainable, default_closure

logging.basicConfig(level=logging.WARNING)


def main():
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    dataset = make_dataset(count=3, points=12, seed=6)
    trainable = Trainable(
        {"epsilon": [0.2, 0.15], "r_min": [3.6, 3.9]},
        scales={"epsilon": 10.0, "r_min": 1.0},
        device=device,
    )
    closure = default_closure(trainable, [entry.to(device) for entry in dataset])
    config = LevenbergMarquardtConfig(max_iterations=5, trust_radius=0.3)
    x, history = levenberg_marquardt(trainable.to_values(), closure, config)
    fitted = {name: [round(value, 3) for value in values.tolist()] for name, values in trainable.to_parameters(x).items()}
    print("losses", [round(loss, 3) for loss in history])
    print("fitted", fitted)


if __name__ == "__main__":
    main()
# --- dimers.py
from dataclasses import dataclass, fields

import torch


@dataclass
class DimerScan:
    """Two atoms at some distances, and the energy at each."""

    kinds: torch.Tensor
    distances: torch.Tensor
    energies: torch.Tensor

    def to(self, device):
        return DimerScan(*(getattr(self, field.name).to(device) for field in fields(self)))


def lennard_jones(epsilon, r_min, distances):
    ratio = (r_min / distances) ** 6
    return epsilon * (ratio**2 - 2 * ratio)


def make_dataset(count, points, seed):
    draw = torch.Generator().manual_seed(seed)
    epsilon, r_min = torch.tensor([0.12, 0.22]), torch.tensor([3.4, 4.1])
    dataset = []
    for _ in range(count):
        kinds = torch.randint(0, 2, (2,), generator=draw)
        distances = 3.4 + 3 * torch.rand(points, generator=draw)
        energies = lennard_jones(epsilon[kinds].prod().sqrt(), r_min[kinds].mean(), distances)
        dataset.append(DimerScan(kinds, distances, energies))
    return dataset
# --- objective.py
import torch

from dimers import lennard_jones


class Trainable:
    """All parameters as one vector, in which none is much larger than the others."""

    def __init__(self, parameters, scales, device):
        self.names = list(parameters)
        self.sizes = [len(parameters[name]) for name in self.names]
        flat = [value * scales[name] for name in self.names for value in parameters[name]]
        self._values = torch.tensor(flat, device=device)
        repeated = [scales[name] for name, size in zip(self.names, self.sizes) for _ in range(size)]
        self._scales = torch.tensor(repeated, device=device)

    def to_values(self):
        return self._values.clone()

    def to_parameters(self, x):
        return dict(zip(self.names, (x / self._scales).split(self.sizes)))


def default_closure(trainable, dataset):
    def residuals(x):
        parameters = trainable.to_parameters(x)
        errors = []
        for entry in dataset:
            epsilon = parameters["epsilon"][entry.kinds].prod().abs().sqrt()
            r_min = parameters["r_min"][entry.kinds].mean()
            errors.append(lennard_jones(epsilon, r_min, entry.distances) - entry.energies)
        return 10 * torch.cat(errors)

    def closure(x):
        error = residuals(x)
        jacobian = torch.autograd.functional.jacobian(residuals, x)
        return (error**2).sum(), 2 * jacobian.T @ error, 2 * jacobian.T @ jacobian

    return closure
# --- lm.py
import logging

import torch
from pydantic import BaseModel, Field

_LOGGER = logging.getLogger(__name__)


class LevenbergMarquardtConfig(BaseModel):
    trust_radius: float = Field(0.2, gt=0.0)
    min_trust_radius: float = 0.02
    adaptive_factor: float = Field(0.25, gt=0.0)
    error_tolerance: float = 1.0
    max_iterations: int = Field(..., ge=0)


def _solver(damping_factor, gradient, hessian):
    hessian_regular = hessian + (damping_factor - 1) ** 2 * torch.eye(len(hessian))
    dx = -torch.linalg.lstsq(hessian_regular, gradient.unsqueeze(-1)).solution.squeeze(-1)
    return dx, 0.5 * dx @ hessian @ dx + (dx * gradient).sum()


def _step(gradient, hessian, trust_radius):
    """The damping is doubled until the step is as short as it may be."""
    damping_factor = 1.05
    dx, expected = _solver(damping_factor, gradient, hessian)
    while dx.norm() > trust_radius:
        damping_factor = 1 + 2 * (damping_factor - 1)
        dx, expected = _solver(damping_factor, gradient, hessian)
    _LOGGER.info(f"step of {dx.norm():.4e} with damping {damping_factor:.3f}")
    return dx, expected


def levenberg_marquardt(x, closure, config):
    loss, gradient, hessian = closure(x)
    history, trust_radius = [loss.item()], config.trust_radius
    for _ in range(config.max_iterations):
        dx, expected = _step(gradient, hessian, trust_radius)
        proposed = closure(x + dx)
        quality = (proposed[0] - loss) / expected
        if proposed[0] > loss + config.error_tolerance or quality < 0.25:
            trust_radius = max(trust_radius / (1 + config.adaptive_factor), config.min_trust_radius)
        if proposed[0] <= loss + config.error_tolerance:
            x, (loss, gradient, hessian) = x + dx, proposed
        history.append(loss.item())
    return x, history

# === frames_written_into_an_output
# thread: https://github.com/tsugumi-sys/SA-ConvLSTM-Pytorch/pull/26
# about: frames that come next are drawn by a network that goes from frame to frame. What it says of each frame is written into one tensor, and its layers are normed one after another
# operation: .*batch_norm.* on cpu, cuda:0
# operands: input|self|output|x|weight
# category: created-without-device
# line: convlstm.py: output = torch.zeros(
# line: seq2seq.py: x = norm(layer(x))
# line: convlstm.py: return output
# repair: convlstm.py: output = torch.zeros((batch_size, self.out_channels, seq_len, height, width)) -> output = torch.zeros((batch_size, self.out_channels, seq_len, height, width), device=X.device)
import torch

from experimenter import Experimenter
from moving_squares import moving_squares
from seq2seq import Seq2Seq

PARAMS = {
    "model": {"in_channels": 1, "num_kernels": 4, "num_layers": 2, "kernel_size": 3},
    "optimizer": {"lr": 1e-2},
    "epochs": 2,
    "batch_size": 2,
}


def main():
    torch.manual_seed(26)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    frames, following = moving_squares(videos=6, seq_len=4, size=10)
    experimenter = Experimenter(Seq2Seq(**PARAMS["model"]), device, PARAMS)
    train_losses = experimenter.train(frames[:4], following[:4])
    score = experimenter.evaluate(frames[4:], following[4:])
    print("train", train_losses, "evaluate", round(score, 4))


if __name__ == "__main__":
    main()
# --- moving_squares.py
import torch


def moving_squares(videos, seq_len, size, edge=3):
    draw = torch.Generator().manual_seed(1)
    data = torch.zeros(videos, 1, seq_len + 1, size, size)
    for video in data:
        row, column = torch.randint(0, size - edge, (2,), generator=draw).tolist()
        down, right = torch.randint(-1, 2, (2,), generator=draw).tolist()
        for frame in video[0]:
            frame[row : row + edge, column : column + edge] = 1
            row = min(max(row + down, 0), size - edge)
            column = min(max(column + right, 0), size - edge)
    return data[:, :, :-1], data[:, :, -1]
# --- convlstm_cell.py
import torch
from torch import nn


class ConvLSTMCell(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels + out_channels, 4 * out_channels, kernel_size, padding=kernel_size // 2)

    def forward(self, X, prev_h, prev_cell):
        i, f, o, g = self.conv(torch.cat([X, prev_h], dim=1)).chunk(4, dim=1)
        new_cell = torch.sigmoid(f) * prev_cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(new_cell), new_cell
# --- convlstm.py
import torch
from torch import nn

from convlstm_cell import ConvLSTMCell


class ConvLSTM(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.out_channels = out_channels
        self.convlstm_cell = ConvLSTMCell(in_channels, out_channels, kernel_size)

    def forward(self, X):
        """X: (batch_size, channels, seq_len, height, width)"""
        batch_size, _, seq_len, height, width = X.shape
        output = torch.zeros((batch_size, self.out_channels, seq_len, height, width))
        h = X.new_zeros(batch_size, self.out_channels, height, width)
        cell = torch.zeros_like(h)
        for time_step in range(seq_len):
            h, cell = self.convlstm_cell(X[:, :, time_step], h, cell)
            output[:, :, time_step] = h
        return output
# --- seq2seq.py
from torch import nn

from convlstm import ConvLSTM


class Seq2Seq(nn.Module):
    def __init__(self, in_channels, num_kernels, num_layers, kernel_size):
        super().__init__()
        widths = [in_channels] + [num_kernels] * num_layers
        self.layers = nn.ModuleList(ConvLSTM(a, b, kernel_size) for a, b in zip(widths, widths[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm3d(width) for width in widths[1:])
        self.conv = nn.Conv2d(num_kernels, in_channels, kernel_size, padding=kernel_size // 2)

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            x = norm(layer(x))
        return self.conv(x[:, :, -1])
# --- experimenter.py
import torch
from torch.utils.data import DataLoader, TensorDataset


class Experimenter:
    def __init__(self, model, device, params):
        self.model, self.device, self.params = model.to(device), device, params
        self.criterion = torch.nn.BCEWithLogitsLoss()
        self.optimizer = torch.optim.Adam(model.parameters(), foreach=False, **params["optimizer"])

    def loader(self, frames, following):
        return DataLoader(TensorDataset(frames, following), batch_size=self.params["batch_size"])

    def train(self, frames, following):
        losses = []
        self.model.train()
        for _ in range(self.params["epochs"]):
            for x, y in self.loader(frames, following):
                loss = self.criterion(self.model(x.to(self.device)), y.to(self.device))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            losses.append(round(loss.item(), 4))
        return losses

    @torch.no_grad()
    def evaluate(self, frames, following):
        self.model.eval()
        errors = []
        for x, y in self.loader(frames, following):
            predicted = self.model(x.to(self.device)).sigmoid()
            errors.append((predicted - y.to(self.device)).abs().mean().item())
        return sum(errors) / len(errors)

# === a_call_inside_a_sentence
# thread: https://github.com/xrsrke/toolformer/issues/6
# about: a language model looks for places in a text where a tool would help, and writes a call of the tool there. Words are drawn one after another, and the text grows by each
# operation: cat on cpu, cuda:0
# operands: tensors|next_token.*|generated_ids
# category: input-not-moved
# line: sampler.py: generated_ids = torch.cat([generated_ids, next_token
# line: sampler.py: next_token = top_k_token(
# repair: sampler.py: generated_ids = torch.cat([generated_ids, next_token.reshape(1)]) -> generated_ids = torch.cat([generated_ids, next_token.reshape(1).to(generated_ids.device)])
import torch
import yaml
from transformers import GPT2Config, GPT2LMHeadModel

from data_generator import DataGenerator
from tokenizer import WordTokenizer
from tools import CalculatorAPI, CalendarAPI

CONFIG = yaml.safe_load("""
data_generator:
  max_call_length: 4
  top_k: 3
  sampling_threshold: 0.05
tools: [calculator, calendar]
seed: 28
""")
TOOLS = {"calculator": CalculatorAPI, "calendar": CalendarAPI}
TEXTS = ["from this we have 4 apples", "on monday we have 2 and 3"]


def main():
    torch.manual_seed(CONFIG["seed"])
    tokenizer = WordTokenizer(TEXTS, extra=["[", "]", "->", "calculator", "calendar", "(", ")"])
    size = GPT2Config(vocab_size=len(tokenizer), n_embd=16, n_layer=2, n_head=2, n_positions=48)
    model = GPT2LMHeadModel(size).eval()
    if torch.cuda.is_available():
        model = model.cuda()
    generator = DataGenerator(CONFIG["data_generator"], model, tokenizer, [TOOLS[name]() for name in CONFIG["tools"]])
    for text in TEXTS:
        for tool, position, call in generator.generate(text):
            print(f"{tool} at {position}: {call}")
    print("texts", len(TEXTS))


if __name__ == "__main__":
    main()
# --- tokenizer.py
import torch


class WordTokenizer:
    def __init__(self, texts, extra):
        self.words = sorted({word for text in texts for word in text.split()}) + extra
        self.ids = {word: number for number, word in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def __call__(self, text):
        ids = torch.tensor([self.ids[word] for word in text.split() if word in self.ids])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def decode(self, ids):
        return " ".join(self.words[number] for number in ids.tolist())
# --- tools.py
from dataclasses import dataclass


@dataclass
class Tool:
    name: str
    prompt: str

    def prompt_for(self, text):
        return f"{self.prompt} {text} -> {text}"


class CalculatorAPI(Tool):
    def __init__(self):
        super().__init__("calculator", "[ calculator ( 2 and 3 ) ]")


class CalendarAPI(Tool):
    def __init__(self):
        super().__init__("calendar", "[ calendar ( ) ]")
# --- sampler.py
import torch


def top_k_token(logits, top_k):
    values, indices = logits.topk(top_k)
    chances = torch.softmax(values, dim=-1)
    return indices[(chances.cumsum(-1) > 0.5).int().argmax()]


@torch.no_grad()
def call_chances(model, input_ids, call_start):
    """How likely a call begins, after each of the words."""
    logits = model(input_ids=input_ids.unsqueeze(0).to(model.device)).logits[0]
    return torch.softmax(logits, dim=-1)[:, call_start]


@torch.no_grad()
def sample_api_call(model, prompt_ids, call_start, call_end, max_length, top_k):
    generated_ids = prompt_ids
    next_token = torch.tensor(call_start)
    for _ in range(max_length):
        generated_ids = torch.cat([generated_ids, next_token.reshape(1)])
        logits = model(input_ids=generated_ids.unsqueeze(0).to(model.device)).logits[0, -1]
        next_token = top_k_token(logits, top_k)
        if next_token.item() == call_end:
            break
    return generated_ids[len(prompt_ids) :]
# --- data_generator.py
from sampler import call_chances, sample_api_call


class DataGenerator:
    def __init__(self, config, model, tokenizer, tools):
        self.config, self.model, self.tokenizer, self.tools = config, model, tokenizer, tools
        self.call_start, self.call_end = (tokenizer.ids[word] for word in "[]")

    def obtain_api_position(self, prompt_ids, text_length):
        chances = call_chances(self.model, prompt_ids, self.call_start)[-text_length:]
        best = chances.argmax().item()
        return best if chances[best] > self.config["sampling_threshold"] else 0

    def generate(self, text):
        text_length = len(text.split())
        for tool in self.tools:
            encoded = self.tokenizer(tool.prompt_for(text))
            prompt_ids = encoded["input_ids"]
            position = self.obtain_api_position(prompt_ids, text_length)
            prompt_ids = prompt_ids[: len(prompt_ids) - text_length + position + 1]
            generated = sample_api_call(
                self.model,
                prompt_ids,
                self.call_start,
                self.call_end,
                self.config["max_call_length"],
                self.config["top_k"],
            )
            yield tool.name, position, self.tokenizer.decode(generated)

# === words_of_one_gpu_and_pictures_of_another
# thread: https://github.com/open-compass/VLMEvalKit/issues/546
# about: a model that is asked about pictures is shared out, so that the picture part is on the first GPU and the words begin on the second. Where pictures stand among words is told by the words' numbers
# operation: masked_scatter_? on cuda:1, cuda:0
# operands: mask|image_mask
# category: module-split|input-not-moved
# line: modeling_qwen2_vl.py: image_mask = (input_ids == self.image_token_id)
# line: modeling_qwen2_vl.py: inputs_embeds = inputs_embeds.masked_scatter(
# line: model_zoo.py: device_map["model.embed_tokens"] =
# repair: modeling_qwen2_vl.py: image_mask = (input_ids == self.image_token_id).unsqueeze(-1).expand_as(inputs_embeds) -> image_mask = (input_ids == self.image_token_id).unsqueeze(-1).expand_as(inputs_embeds).to(inputs_embeds.device)
import argparse
import os

import torch

from benchmark import YesNoBenchmark, evaluate
from model_zoo import supported_VLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="Qwen2-VL-Tiny", choices=sorted(supported_VLM))
    parser.add_argument("--samples", type=int, default=3)
    args = parser.parse_args()

    os.environ.setdefault("AUTO_SPLIT", "1")
    torch.manual_seed(46)
    model = supported_VLM[args.model]()
    answers, score = evaluate(model, YesNoBenchmark(args.samples))
    print("answers", answers, "score", round(score, 3))


if __name__ == "__main__":
    main()
# --- benchmark.py
import torch


class YesNoBenchmark:
    """Is there more light on the left than on the right?"""

    def __init__(self, samples):
        draw = torch.Generator().manual_seed(18)
        self.pictures = torch.rand(samples, 3, 4, 8, generator=draw)

    def __iter__(self):
        for picture in self.pictures:
            left, right = picture.chunk(2, dim=-1)
            yield picture, "is there more light left", "yes" if left.mean() > right.mean() else "no"


def evaluate(model, benchmark):
    answers, hits = [], 0
    for picture, question, truth in benchmark:
        answers.append(model.generate(picture, question))
        hits += answers[-1] == truth
    return answers, hits / len(answers)
# --- model_zoo.py
import os

import torch
from accelerate import dispatch_model

from modeling_qwen2_vl import Qwen2VLForConditionalGeneration

WORDS = "<pad> <image> is there more light left right yes no".split()


def split_model(layers):
    """What sees is on the first GPU; all that follows is on the last."""
    last = torch.cuda.device_count() - 1
    device_map = {"visual": 0, "model.norm": last, "lm_head": last}
    device_map["model.embed_tokens"] = last
    for number in range(layers):
        device_map[f"model.layers.{number}"] = last
    return device_map


class Qwen2VLChat:
    def __init__(self, layers=2):
        self.model = Qwen2VLForConditionalGeneration(len(WORDS), 12, layers, WORDS.index("<image>")).eval()
        self.device = "cuda:0" if torch.cuda.is_available() else "cpu"
        if os.environ.get("AUTO_SPLIT") == "1" and torch.cuda.device_count() > 1:
            self.model = dispatch_model(self.model, split_model(layers))
        else:
            self.model = self.model.to(self.device)

    @torch.no_grad()
    def generate(self, picture, question):
        patches = picture.unfold(1, 4, 4).unfold(2, 4, 4).permute(1, 2, 0, 3, 4).flatten(2).flatten(0, 1)
        ids = [WORDS.index("<image>")] * len(patches) + [WORDS.index(word) for word in question.split()]
        inputs = {
            "input_ids": torch.tensor([ids]).to(self.device),
            "pixel_values": patches.to(self.device),
        }
        logits = self.model(**inputs)
        choices = logits[0, [WORDS.index("yes"), WORDS.index("no")]]
        return ("yes", "no")[choices.argmax().item()]


supported_VLM = {"Qwen2-VL-Tiny": Qwen2VLChat}
# --- modeling_qwen2_vl.py
from torch import nn


class Qwen2VLDecoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(width)
        self.qkv_proj = nn.Linear(width, 3 * width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, hidden_states):
        q, k, v = self.qkv_proj(self.input_layernorm(hidden_states)).chunk(3, dim=-1)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return hidden_states + self.mlp(attended)


class Qwen2VLModel(nn.Module):
    def __init__(self, vocab_size, width, layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, width)
        self.layers = nn.ModuleList(Qwen2VLDecoderLayer(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, inputs_embeds):
        for layer in self.layers:
            inputs_embeds = layer(inputs_embeds)
        return self.norm(inputs_embeds)


class Qwen2VLForConditionalGeneration(nn.Module):
    def __init__(self, vocab_size, width, layers, image_token_id):
        super().__init__()
        self.image_token_id = image_token_id
        self.visual = nn.Sequential(nn.Linear(48, width), nn.GELU(), nn.Linear(width, width))
        self.model = Qwen2VLModel(vocab_size, width, layers)
        self.lm_head = nn.Linear(width, vocab_size, bias=False)

    def forward(self, input_ids, pixel_values):
        inputs_embeds = self.model.embed_tokens(input_ids)
        image_embeds = self.visual(pixel_values)
        image_mask = (input_ids == self.image_token_id).unsqueeze(-1).expand_as(inputs_embeds)
        image_embeds = image_embeds.to(inputs_embeds.device, inputs_embeds.dtype)
        inputs_embeds = inputs_embeds.masked_scatter(image_mask, image_embeds)
        return self.lm_head(self.model(inputs_embeds)[:, -1])

# === small_matrices_in_whole_numbers_or_not
# thread: https://github.com/tloen/alpaca-lora/issues/287
# about: small matrices are put beside the layers of a model that is shared out to two GPUs, and only these are trained. Layers of whole numbers get theirs in another way than all others
# operation: mm|linear|matmul on cuda:0, cpu
# operands: mat2|weight|.*lora_A.*
# category: created-without-device|module-split
# line: lora.py: new_module = LoraLinear(
# line: lora.py: setattr(parent, name, new_module)
# line: lora.py: self.lora_A = nn.Linear(
# repair: lora.py: new_module = LoraLinear(target, self.config.r, self.config.lora_alpha) -> new_module = LoraLinear(target, self.config.r, self.config.lora_alpha).to(target.weight.device)
import argparse

import torch
from accelerate import dispatch_model

from data import generate_and_tokenize, random_instructions
from llama import LlamaForCausalLM
from lora import LoraConfig, LoraModel


def train(load_in_8bit, micro_batch_size, num_steps, lora_r, learning_rate):
    torch.manual_seed(42)
    model = LlamaForCausalLM(vocab_size=20, width=12, layers=4, load_in_8bit=load_in_8bit)
    last = torch.cuda.device_count() - 1
    if last > 0:
        device_map = {"embed_tokens": 0, "norm": last, "lm_head": last}
        device_map.update({f"layers.{i}": 0 if i < 2 else last for i in range(4)})
        model = dispatch_model(model, device_map)
    config = LoraConfig(r=lora_r, lora_alpha=2 * lora_r, target_modules=("q_proj", "v_proj"))
    model = LoraModel(config, model)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=learning_rate, foreach=False)
    data = [generate_and_tokenize(*pair) for pair in random_instructions(micro_batch_size * num_steps)]
    losses = []
    for step in range(num_steps):
        batch = torch.stack(data[step * micro_batch_size :][:micro_batch_size])
        loss = model(batch[:, :-1], labels=batch[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses, sum(p.numel() for p in trainable)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--load-in-8bit", action="store_true")
    parser.add_argument("--micro-batch-size", type=int, default=2)
    parser.add_argument("--num-steps", type=int, default=3)
    parser.add_argument("--lora-r", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    losses, count = train(**vars(parser.parse_args()))
    print("losses", losses, "trainable", count)
# --- data.py
import torch


def random_instructions(count):
    draw = torch.Generator().manual_seed(10)
    for _ in range(count):
        instruction = torch.randint(4, 20, (4,), generator=draw).tolist()
        yield instruction, instruction[::-1][:3]


def generate_and_tokenize(instruction, output, bos=1, response=2, eos=3):
    return torch.tensor([bos, *instruction, response, *output, eos])
# --- quantized.py
import torch
from torch import nn


class Linear8bit(nn.Module):
    """Weights in whole numbers, and one factor for each row."""

    def __init__(self, in_features, out_features):
        super().__init__()
        weight = nn.Linear(in_features, out_features, bias=False).weight.detach()
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        self.in_features, self.out_features = in_features, out_features
        self.register_buffer("weight", (weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)

    def forward(self, x):
        return nn.functional.linear(x, self.weight * self.scale)
# --- llama.py
from torch import nn

from quantized import Linear8bit


class LlamaDecoderLayer(nn.Module):
    def __init__(self, width, linear):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(width)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (linear(width, width) for _ in range(4))

    def forward(self, hidden_states):
        x = self.input_layernorm(hidden_states)
        attended = nn.functional.scaled_dot_product_attention(
            self.q_proj(x), self.k_proj(x), self.v_proj(x), is_causal=True
        )
        return hidden_states + self.o_proj(attended)


class LlamaForCausalLM(nn.Module):
    def __init__(self, vocab_size, width, layers, load_in_8bit):
        super().__init__()
        linear = Linear8bit if load_in_8bit else lambda a, b: nn.Linear(a, b, bias=False)
        self.embed_tokens = nn.Embedding(vocab_size, width)
        self.layers = nn.ModuleList(LlamaDecoderLayer(width, linear) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab_size, bias=False)

    def forward(self, input_ids, labels):
        hidden_states = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        logits = self.lm_head(self.norm(hidden_states))
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten().to(logits.device))
# --- lora.py
from dataclasses import dataclass

from torch import nn

from quantized import Linear8bit


@dataclass
class LoraConfig:
    r: int
    lora_alpha: int
    target_modules: tuple[str, ...]


class LoraLayer(nn.Module):
    def __init__(self, base, r, lora_alpha):
        super().__init__()
        self.base, self.scaling = base, lora_alpha / r
        self.lora_A = nn.Linear(base.in_features, r, bias=False)
        self.lora_B = nn.Linear(r, base.out_features, bias=False)
        nn.init.normal_(self.lora_B.weight, std=0.02)

    def forward(self, x):
        return self.base(x) + self.scaling * self.lora_B(self.lora_A(x))


class LoraLinear(LoraLayer):
    pass


class LoraLinear8bit(LoraLayer):
    def __init__(self, base, r, lora_alpha):
        super().__init__(base, r, lora_alpha)
        self.to(base.scale.device)


class LoraModel(nn.Module):
    def __init__(self, config, model):
        super().__init__()
        self.config, self.model = config, model
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        for key, target in list(model.named_modules()):
            name = key.rpartition(".")[2]
            if name in config.target_modules:
                self._replace_module(model.get_submodule(key.rpartition(".")[0]), name, target)

    def _replace_module(self, parent, name, target):
        if isinstance(target, Linear8bit):
            new_module = LoraLinear8bit(target, self.config.r, self.config.lora_alpha)
        else:
            new_module = LoraLinear(target, self.config.r, self.config.lora_alpha)
        setattr(parent, name, new_module)

    def forward(self, *args, **kwargs):
        return self.model(*args, **kwargs)

# === shares_of_an_epoch
# thread: https://github.com/pytorch/pytorch/issues/61457
# about: several processes learn from one set, each from its share, and all have to draw the same order for an epoch. Every tensor is to be on the GPU, unless it is said otherwise
# operation: randperm on cuda:0, cpu
# operands: generator|g
# error: Expected a 'cuda(:0)?' (generator device|device type for generator) but found 'cpu'
# category: generator|default-or-current-device
# line: worker.py: torch.set_default_device(
# repair: worker.py: torch.set_default_device(self.device) -> torch.cuda.set_device(self.device)
import os
from dataclasses import dataclass

import torch

from population import Population
from worker import Worker


@dataclass
class Settings:
    world_size: int = int(os.environ.get("WORLD_SIZE", 2))
    rank: int = int(os.environ.get("RANK", 0))
    local_rank: int = int(os.environ.get("LOCAL_RANK", 0))
    epochs: int = 2
    batch_size: int = 4
    lr: float = 0.05
    seed: int = 61


def main():
    settings = Settings()
    torch.manual_seed(settings.seed)
    dataset = Population(count=20, features=5, seed=settings.seed)
    worker = Worker(settings, dataset)
    losses = []
    for epoch in range(settings.epochs):
        losses.append(round(worker.train_epoch(epoch), 4))
    print(f"rank {settings.rank} of {settings.world_size}", "losses", losses, "score", round(worker.score(), 3))


if __name__ == "__main__":
    main()
# --- population.py
import numpy as np
import torch
from torch.utils.data import Dataset


class Population(Dataset):
    """What people are like, as a table has it, and what they bought."""

    def __init__(self, count, features, seed):
        rng = np.random.default_rng(seed)
        self.table = rng.normal(size=(count, features)).astype(np.float32)
        self.bought = (self.table @ rng.normal(size=features) > 0).astype(np.int64)

    def __len__(self):
        return len(self.table)

    def __getitem__(self, index):
        return torch.from_numpy(self.table[index]), int(self.bought[index])

    def all(self):
        return torch.from_numpy(self.table), torch.from_numpy(self.bought)
# --- model.py
import torch
from torch import nn


class Factorization(nn.Module):
    """Each feature for itself, and each pair by what their factors have in common."""

    def __init__(self, features, factors):
        super().__init__()
        self.linear = nn.Linear(features, 2)
        self.factors = nn.Parameter(0.1 * torch.randn(2, features, factors))

    def forward(self, x):
        mixed = torch.einsum("bf,cfk->bck", x, self.factors)
        squares = torch.einsum("bf,cfk->bck", x**2, self.factors**2)
        return self.linear(x) + 0.5 * (mixed**2 - squares).sum(dim=-1)
# --- worker.py
import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from model import Factorization


class Worker:
    def __init__(self, settings, dataset):
        self.settings, self.dataset = settings, dataset
        self.device = torch.device("cuda", settings.local_rank) if torch.cuda.is_available() else torch.device("cpu")
        torch.set_default_device(self.device)
        self.model = Factorization(dataset.table.shape[1], factors=3).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=settings.lr, foreach=False)
        sampler = DistributedSampler(dataset, settings.world_size, settings.rank, shuffle=True, seed=settings.seed)
        self.loader = DataLoader(dataset, batch_size=settings.batch_size, sampler=sampler)

    def train_epoch(self, epoch):
        loader = self.loader
        loader.sampler.set_epoch(epoch)
        total = 0.0
        for features, target in loader:
            logits = self.model(features.to(self.device))
            loss = torch.nn.functional.cross_entropy(logits, target.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(loader)

    @torch.no_grad()
    def score(self):
        features, bought = self.dataset.all()
        found = self.model(features.to(self.device)).argmax(dim=-1)
        return (found == bought.to(self.device)).float().mean().item()
