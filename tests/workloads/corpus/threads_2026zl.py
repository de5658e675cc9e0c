# === views_against_a_bank
# thread: https://github.com/lightly-ai/lightly/pull/421
# about: two views of an image shall be alike, and unlike those that a bank of earlier images holds. Which column is the right one is told to the loss by numbers
# operation: nll_loss.*|cross_entropy.* on cuda:0, cpu
# operands: target|labels
# category: created-without-device
# line: ntx_ent_loss.py: labels = torch.zeros(
# line: ntx_ent_loss.py: loss = self.cross_entropy(
# repair: ntx_ent_loss.py: labels = torch.zeros(logits.shape[0], dtype=torch.long) -> labels = torch.zeros(logits.shape[0], dtype=torch.long, device=output0.device)
import argparse

import torch

from encoder import MoCo
from ntx_ent_loss import NTXentLoss
from views import ViewPairs


def build_parser():
    parser = argparse.ArgumentParser(description="Learns of images without labels.")
    parser.add_argument("--memory-bank-size", type=int, default=16)
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=torch.cuda.device_count())
    return parser


def train_epoch(model, criterion, optimizer, loader, device):
    losses = []
    for view0, view1 in loader:
        output0 = model(view0.to(device))
        with torch.no_grad():
            output1 = model.momentum_forward(view1.to(device))
        loss = criterion(output0, output1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.update_momentum(0.9)
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main():
    args = build_parser().parse_args()
    device = torch.device("cuda" if args.gpus > 0 else "cpu")
    torch.manual_seed(0)
    model = MoCo(inputs=12, width=6).to(device)
    criterion = NTXentLoss(
        temperature=args.temperature,
        memory_bank_size=args.memory_bank_size,
    )
    optimizer = torch.optim.SGD(
        model.backbone.parameters(),
        lr=0.1,
        foreach=False,
    )
    loader = ViewPairs(count=16, batch_size=8, inputs=12, seed=2)
    losses = [
        train_epoch(model, criterion, optimizer, loader, device)
        for _ in range(args.epochs)
    ]
    print("losses", [round(loss, 4) for loss in losses])


if __name__ == "__main__":
    main()
# --- views.py
import torch


class ViewPairs:
    def __init__(self, count, batch_size, inputs, seed):
        draw = torch.Generator().manual_seed(seed)
        images = torch.rand(count, inputs, generator=draw)
        noise = 0.1 * torch.randn(2, count, inputs, generator=draw)
        self.views = images + noise
        self.batch_size = batch_size

    def __iter__(self):
        for start in range(0, self.views.shape[1], self.batch_size):
            view0, view1 = self.views[:, start : start + self.batch_size]
            yield view0, view1
# --- encoder.py
import copy

import torch
from torch import nn


class MoCo(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Linear(inputs, width),
            nn.ReLU(),
            nn.Linear(width, width),
        )
        self.key_backbone = copy.deepcopy(self.backbone)

    def forward(self, x):
        return self.backbone(x)

    def momentum_forward(self, x):
        return self.key_backbone(x)

    @torch.no_grad()
    def update_momentum(self, m):
        pairs = zip(self.backbone.parameters(), self.key_backbone.parameters())
        for own, key in pairs:
            key.mul_(m).add_(own, alpha=1 - m)
# --- memory_bank.py
import torch
from torch import nn


class MemoryBankModule(nn.Module):
    """Keeps what was made of the last images, to hold new ones against it."""

    def __init__(self, size):
        super().__init__()
        self.size = size
        self.bank = None
        self.ptr = 0

    @torch.no_grad()
    def _init_memory_bank(self, output):
        draw = torch.Generator().manual_seed(3)
        bank = torch.randn(output.shape[1], self.size, generator=draw)
        self.bank = nn.functional.normalize(bank, dim=0).type_as(output)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, batch):
        end = min(self.ptr + len(batch), self.size)
        self.bank[:, self.ptr : end] = batch[: end - self.ptr].T
        self.ptr = end % self.size

    def forward(self, output, update=False):
        if self.bank is None:
            self._init_memory_bank(output)
        bank = self.bank.clone().detach()
        if update:
            self._dequeue_and_enqueue(output.detach())
        return output, bank
# --- ntx_ent_loss.py
import torch
from torch import nn

from memory_bank import MemoryBankModule


class NTXentLoss(MemoryBankModule):
    def __init__(self, temperature, memory_bank_size):
        super().__init__(size=memory_bank_size)
        self.temperature = temperature
        self.cross_entropy = nn.CrossEntropyLoss(reduction="mean")

    def forward(self, output0, output1):
        output0 = nn.functional.normalize(output0, dim=1)
        output1 = nn.functional.normalize(output1, dim=1)
        output1, negatives = super().forward(
            output1,
            update=output0.requires_grad,
        )
        sim_pos = torch.einsum("nc,nc->n", output0, output1).unsqueeze(-1)
        sim_neg = torch.einsum("nc,ck->nk", output0, negatives)
        logits = torch.cat([sim_pos, sim_neg], dim=1) / self.temperature
        labels = torch.zeros(logits.shape[0], dtype=torch.long)
        loss = self.cross_entropy(logits, labels)
        return loss

# === codes_that_are_drawn_softly
# thread: https://github.com/lucidrains/DALLE-pytorch/issues/41
# about: images are told by a few codes of a book. How far the choice of codes is from one that prefers none is part of the loss
# operation: sub on cuda:0, cpu
# operands: other|log_uniform
# category: created-without-device
# line: dvae.py: log_uniform = torch.log(
# line: dvae.py: kl_div = (
# repair: dvae.py: log_uniform = torch.log(torch.tensor([1.0 / self.num_tokens])) -> log_uniform = torch.log(torch.tensor([1.0 / self.num_tokens], device=img.device))
import torch

from anneal import temperatures
from dvae import DiscreteVAE

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
vae = DiscreteVAE(image_size=8, num_tokens=6, codebook_dim=4, kl_div_loss_weight=0.1).to(device)
optimizer = torch.optim.Adam(vae.parameters(), lr=0.01, foreach=False)
images = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(9)).to(device)
losses = []
for step, temperature in enumerate(temperatures(start=1.0, end=0.5, steps=4)):
    loss, recons = vae(images, temperature=temperature, seed=step, return_recons=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses, "recons", list(recons.shape), "codes", vae.get_codebook_indices(images).unique().numel() > 0)
# --- anneal.py
def temperatures(start, end, steps):
    for step in range(steps):
        yield max(end, start * 0.8**step)
# --- dvae.py
import torch
from torch import nn

def gumbel_noise(like, seed):
    uniform = torch.rand(like.shape, generator=torch.Generator().manual_seed(seed)).clamp(1e-6, 1 - 1e-6)
    return -torch.log(-torch.log(uniform)).to(like)

class DiscreteVAE(nn.Module):
    def __init__(self, image_size, num_tokens, codebook_dim, kl_div_loss_weight=0.0):
        super().__init__()
        self.image_size, self.num_tokens, self.kl_div_loss_weight = image_size, num_tokens, kl_div_loss_weight
        self.codebook = nn.Embedding(num_tokens, codebook_dim)
        self.encoder = nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), nn.ReLU(), nn.Conv2d(8, num_tokens, 1))
        self.decoder = nn.ConvTranspose2d(codebook_dim, 3, 4, stride=4)

    @torch.no_grad()
    def get_codebook_indices(self, images):
        return self.encoder(images).argmax(dim=1).flatten(1)

    def kl_to_uniform(self, logits, img):
        log_qy = logits.flatten(2).transpose(1, 2).log_softmax(dim=-1)
        qy = log_qy.exp()
        log_uniform = torch.log(torch.tensor([1.0 / self.num_tokens]))
        kl_div = (qy * (log_qy - log_uniform)).sum(dim=(1, 2)).mean()
        return kl_div

    def forward(self, img, temperature, seed, return_recons=False):
        logits = self.encoder(img)
        soft_one_hot = ((logits + gumbel_noise(logits, seed)) / temperature).softmax(dim=1)
        sampled = torch.einsum("bnhw,nd->bdhw", soft_one_hot, self.codebook.weight)
        out = self.decoder(sampled)
        loss = nn.functional.mse_loss(img, out) + self.kl_div_loss_weight * self.kl_to_uniform(logits, img)
        return (loss, out) if return_recons else loss

# === a_draft_from_the_other_gpu
# thread: https://github.com/huggingface/transformers/issues/35099
# about: a small model on one GPU proposes words, and a larger one on the other GPU takes them or not. What is handed to the small one goes to its GPU, and its words come back
# operation: div|true_divide on cuda:0, cuda:1
# operands: other|q_i|.*candidate_logits.*|q
# category: input-not-moved|module-split
# line: candidate_generator.py: return candidate_ids.to(
# line: generation.py: candidate_ids, candidate_logits = self.candidate_generator.get_candidates(
# line: generation.py: q = candidate_logits
# line: generation.py: q_i = q.gather(
# line: generation.py: ratio = p_i / q_i
# line: main.py: draft = tiny(
# repair: candidate_generator.py: return candidate_ids.to(input_ids.device), torch.stack(scores, dim=1) -> return candidate_ids.to(input_ids.device), torch.stack(scores, dim=1).to(input_ids.device)
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from candidate_generator import AssistedCandidateGenerator
from generation import SpeculativeSampler

def tiny(layers, device, seed):
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=layers, num_attention_heads=2, num_key_value_heads=1
    )
    return LlamaForCausalLM(config).to(device).eval()

count = torch.cuda.device_count()
devices = [torch.device("cuda", 0), torch.device("cuda", count - 1)] if count else [torch.device("cpu")] * 2
target = tiny(3, devices[0], seed=0)
draft = tiny(1, devices[1], seed=1)
sampler = SpeculativeSampler(target, AssistedCandidateGenerator(draft, num_assistant_tokens=3, seed=5), seed=6)
prompt = torch.tensor([[1, 9, 4]], device=target.device)
output = sampler.generate(prompt, max_new_tokens=8)
print("words", output[0].tolist(), "taken", sampler.taken, "of", sampler.proposed)
# --- candidate_generator.py
import torch

class AssistedCandidateGenerator:
    def __init__(self, assistant_model, num_assistant_tokens, seed):
        self.assistant_model, self.num_assistant_tokens = assistant_model, num_assistant_tokens
        self.draw = torch.Generator().manual_seed(seed)

    @torch.no_grad()
    def get_candidates(self, input_ids):
        """Words that may follow, and what the assistant has thought of all words at each place."""
        candidate_ids, scores = input_ids.to(self.assistant_model.device), []
        for _ in range(self.num_assistant_tokens):
            logits = self.assistant_model(input_ids=candidate_ids).logits[:, -1]
            chances = logits.softmax(-1)
            new = torch.multinomial(chances.cpu(), 1, generator=self.draw).to(logits.device)
            candidate_ids = torch.cat([candidate_ids, new], dim=-1)
            scores.append(logits)
        return candidate_ids.to(input_ids.device), torch.stack(scores, dim=1)
# --- generation.py
import torch

class SpeculativeSampler:
    def __init__(self, model, candidate_generator, seed):
        self.model, self.candidate_generator = model, candidate_generator
        self.draw = torch.Generator().manual_seed(seed)
        self.taken = self.proposed = 0

    def speculative_sampling(self, candidate_ids, candidate_logits, new_logits):
        """A word is taken the more often, the more the model itself thinks of it."""
        count = candidate_logits.shape[1]
        new_candidates = candidate_ids[:, -count:]
        q = candidate_logits.softmax(dim=-1)
        p = new_logits.softmax(dim=-1)
        p_i = p[:, :count].gather(-1, new_candidates[..., None])[0, :, 0]
        q_i = q.gather(-1, new_candidates.to(q.device)[..., None])[0, :, 0]
        ratio = p_i / q_i
        accepted = torch.rand(count, generator=self.draw).to(ratio.device) <= ratio
        matches = int(accepted.long().cumprod(0).sum())
        following = p[:, matches]
        if matches < count:
            rest = (following - q[:, matches]).clamp(min=0)
            following = rest / rest.sum()
        last = torch.multinomial(following.cpu(), 1, generator=self.draw).to(new_candidates.device)
        return torch.cat([new_candidates[:, :matches], last], dim=-1), matches

    @torch.no_grad()
    def generate(self, input_ids, max_new_tokens):
        wanted = input_ids.shape[1] + max_new_tokens
        while input_ids.shape[1] < wanted:
            candidate_ids, candidate_logits = self.candidate_generator.get_candidates(input_ids)
            length = input_ids.shape[1]
            new_logits = self.model(input_ids=candidate_ids).logits[:, length - 1 :]
            new_ids, matches = self.speculative_sampling(candidate_ids, candidate_logits, new_logits)
            self.taken += matches
            self.proposed += candidate_logits.shape[1]
            input_ids = torch.cat([input_ids, new_ids], dim=-1)
        return input_ids[:, :wanted]

# === questions_without_a_second_loss
# thread: https://github.com/Lightning-AI/pytorch-lightning/issues/7023
# about: questions are made from images. For the first steps only one of two losses is learned, and the other is said to be nothing. At the end of an epoch all that steps have said is put together
# operation: stack|cat on cpu, cuda:0
# operands: tensors|.*loss_kl.*|.*kl.*
# category: created-without-device
# line: module.py: loss_kl = torch.tensor(0.0)
# line: module.py: together = torch.stack(
# repair: module.py: loss_kl = torch.tensor(0.0) -> loss_kl = torch.tensor(0.0, device=loss.device)
import argparse
import logging

from lightning.pytorch import Trainer, seed_everything
from torch.utils.data import DataLoader

from dataset import QuestionDataset
from module import TrainVQG

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden-dim", type=int, default=8)
    parser.add_argument("--latent-dim", type=int, default=3)
    parser.add_argument(
        "--num-pretraining-steps",
        type=int,
        default=2,
        help="steps without a latent variable",
    )
    parser.add_argument("--lr", type=float, default=0.05)
    return parser.parse_args()


def main():
    args = parse_args()
    seed_everything(4, verbose=False)
    data_loader = DataLoader(QuestionDataset(count=12, seed=1), batch_size=3)
    model = TrainVQG(args)
    trainer = Trainer(
        accelerator="auto",
        devices=1,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, data_loader)
    summary = {name: round(value, 4) for name, value in model.epoch_means.items()}
    print("epoch", summary)


if __name__ == "__main__":
    main()
# --- dataset.py
import torch
from torch.utils.data import Dataset


class QuestionDataset(Dataset):
    def __init__(self, count, seed):
        draw = torch.Generator().manual_seed(seed)
        self.images = torch.rand(count, 10, generator=draw)
        self.questions = torch.randint(0, 7, (count, 4), generator=draw)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return {
            "images": self.images[index],
            "questions": self.questions[index],
        }
# --- blt.py
import torch
from torch import nn


class BLT(nn.Module):
    """Reads an image and writes a question; how, it may draw from a latent variable."""

    def __init__(self, hidden_dim, latent_dim, vocab_size=7, length=4):
        super().__init__()
        self.length = length
        self.latent_transformer = False
        self.encoder = nn.Linear(10, hidden_dim)
        self.latent = nn.Linear(hidden_dim, 2 * latent_dim)
        self.back = nn.Linear(latent_dim, hidden_dim)
        self.decoder = nn.Linear(hidden_dim, length * vocab_size)

    def switch_GVT_train_mode(self, enabled):
        self.latent_transformer = enabled

    def forward(self, images):
        hidden = torch.tanh(self.encoder(images))
        kld = None
        if self.latent_transformer:
            mean, log_var = self.latent(hidden).chunk(2, dim=-1)
            kld = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(-1).mean()
            hidden = hidden + self.back(mean)
        return self.decoder(hidden).unflatten(-1, (self.length, -1)), kld
# --- module.py
import torch
from lightning.pytorch import LightningModule

from blt import BLT


class TrainVQG(LightningModule):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.model = BLT(args.hidden_dim, args.latent_dim)
        self.criterion = torch.nn.CrossEntropyLoss()
        self.step_outputs = []
        self.epoch_means = {}

    def calculate_losses(self, loss, kld, beta=0.5):
        if kld is None:
            loss_rec = loss
            total_loss = loss
            loss_kl = torch.tensor(0.0)
        else:
            loss_rec = loss
            total_loss = loss + beta * kld
            loss_kl = kld
        return total_loss, loss_rec, loss_kl

    def training_step(self, batch, batch_idx):
        if self.global_step == self.args.num_pretraining_steps:
            self.model.switch_GVT_train_mode(True)
        output, kld = self.model(batch["images"])
        loss = self.criterion(
            output.flatten(0, 1),
            batch["questions"].flatten(),
        )
        total_loss, loss_rec, loss_kl = self.calculate_losses(loss, kld)
        self.step_outputs.append(
            {
                "total_loss": total_loss.detach(),
                "loss_rec": loss_rec.detach(),
                "loss_kl": loss_kl.detach(),
            }
        )
        return total_loss

    def on_train_epoch_end(self):
        for name in self.step_outputs[0]:
            together = torch.stack([outputs[name] for outputs in self.step_outputs])
            self.epoch_means[name] = together.mean().item()
        self.step_outputs.clear()

    def configure_optimizers(self):
        return torch.optim.SGD(
            self.parameters(),
            lr=self.args.lr,
            foreach=False,
        )

# === where_most_is_learned_of_the_best
# thread: https://github.com/facebook/Ax/pull/2123
# about: where an experiment is tried next is where it tells most of the best value there is. What that value may be is guessed from places drawn between the bounds
# operation: mul on cuda:0, cpu
# operands: other|candidate_set
# category: created-without-device
# line: mes.py: candidate_set = torch.rand(
# line: mes.py: candidate_set = bounds_[0] + (
# repair: mes.py: candidate_set = torch.rand(candidate_size, bounds_.size(1), dtype=bounds_.dtype, generator=self.draw) -> candidate_set = torch.rand(candidate_size, bounds_.size(1), dtype=bounds_.dtype, generator=self.draw).to(bounds_)
import torch

from client import AxClient
from experiment import branin

torch_device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
client = AxClient(bounds=[(-5.0, 10.0), (0.0, 15.0)], sobol_trials=5, torch_device=torch_device)
for _ in range(8):
    parameters, trial_index = client.get_next_trial()
    client.complete_trial(trial_index, branin(*parameters))
index, best = client.get_best()
print("trials", len(client.trials), "best", index, [round(value, 2) for value in best])
# --- experiment.py
import math

def branin(x, y):
    bent = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return bent**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10
# --- gp.py
import torch

class SingleTaskGP:
    def __init__(self, train_x, train_y, lengthscale=0.3, noise=1e-3):
        self.x, self.lengthscale = train_x, lengthscale
        self.mean, self.std = train_y.mean(), train_y.std()
        covariance = self.kernel(train_x, train_x) + noise * torch.eye(len(train_x), dtype=train_x.dtype, device=train_x.device)
        self.root = torch.linalg.cholesky(covariance)
        self.weights = torch.cholesky_solve(((train_y - self.mean) / self.std)[:, None], self.root)

    def kernel(self, a, b):
        apart = (a[:, None] - b[None]).square().sum(-1)
        return (-0.5 * apart / self.lengthscale**2).exp()

    def posterior(self, x):
        across = self.kernel(x, self.x)
        solved = torch.cholesky_solve(across.T, self.root)
        return (across @ self.weights)[:, 0], (1 - (across * solved.T).sum(-1)).clamp(min=1e-6)
# --- mes.py
import torch

class MaxValueEntropySearch:
    """For a value that shall be small: all is turned round, so that the largest is looked for."""

    def __init__(self, device, seed):
        self.device, self.draw = device, torch.Generator().manual_seed(seed)

    def candidates(self, bounds, candidate_size):
        bounds_ = torch.tensor(bounds, dtype=torch.double, device=self.device).transpose(0, 1)
        candidate_set = torch.rand(candidate_size, bounds_.size(1), dtype=bounds_.dtype, generator=self.draw)
        candidate_set = bounds_[0] + (bounds_[1] - bounds_[0]) * candidate_set
        return candidate_set

    def gen(self, model, bounds, candidate_size=32, num_mv_samples=4):
        candidate_set = self.candidates(bounds, candidate_size)
        mean, variance = model.posterior(candidate_set)
        noise = torch.randn(num_mv_samples, candidate_size, dtype=mean.dtype, generator=self.draw).to(mean.device)
        max_values = (mean + noise * variance.sqrt()).amax(dim=1)
        gamma = (max_values[:, None] - mean) / variance.sqrt()
        normal = torch.distributions.Normal(torch.zeros_like(gamma), torch.ones_like(gamma))
        below = normal.cdf(gamma).clamp(min=1e-9)
        gained = (gamma * normal.log_prob(gamma).exp() / (2 * below) - below.log()).mean(0)
        return candidate_set[gained.argmax()]
# --- client.py
import torch

from gp import SingleTaskGP
from mes import MaxValueEntropySearch

class AxClient:
    def __init__(self, bounds, sobol_trials, torch_device):
        self.bounds, self.sobol_trials, self.device = bounds, sobol_trials, torch_device
        self.sobol = torch.quasirandom.SobolEngine(len(bounds), scramble=True, seed=2)
        self.search = MaxValueEntropySearch(torch_device, seed=3)
        self.trials = []

    def scaled(self, unit):
        return [low + (high - low) * value for (low, high), value in zip(self.bounds, unit)]

    def get_next_trial(self):
        if len(self.trials) < self.sobol_trials:
            unit = self.sobol.draw(1)[0].tolist()
        else:
            done = [(unit, -value) for unit, value in self.trials]
            x = torch.tensor([unit for unit, _ in done], dtype=torch.double, device=self.device)
            y = torch.tensor([value for _, value in done], dtype=torch.double, device=self.device)
            unit = self.search.gen(SingleTaskGP(x, y), [(0.0, 1.0)] * len(self.bounds)).tolist()
        self.trials.append((unit, None))
        return self.scaled(unit), len(self.trials) - 1

    def complete_trial(self, index, value):
        self.trials[index] = self.trials[index][0], value

    def get_best(self):
        index = min(range(len(self.trials)), key=lambda each: self.trials[each][1])
        return index, self.scaled(self.trials[index][0])

# === pages_in_another_order
# thread: https://github.com/GXYM/TextBPN-Plus-Plus/issues/24
# about: lines of text are found in photographs. On a GPU all tensors shall be made there if nothing else is said, and photographs come in another order each time
# operation: randperm|random_? on cpu
# operands: generator
# error: Expected a 'cuda' device type for generator but found 'cpu'
# category: generator|default-or-current-device
# line: train_textBPN.py: train_loader = data.DataLoader(
# line: train_textBPN.py: torch.set_default_tensor_type(
# repair: train_textBPN.py: train_loader = data.DataLoader(trainset, batch_size=cfg.batch_size, shuffle=True, drop_last=True) -> train_loader = data.DataLoader(trainset, batch_size=cfg.batch_size, shuffle=True, drop_last=True, generator=torch.Generator(device=cfg.device))
import torch

from config import config
from train_textBPN import train

torch.manual_seed(config.seed)
losses = train(config)
print("epochs", len(losses), "falls", losses[-1] < losses[0])
# --- config.py
from types import SimpleNamespace

import torch

config = SimpleNamespace(seed=2, batch_size=4, max_epoch=6, lr=0.3, cuda=torch.cuda.is_available())
config.device = torch.device("cuda") if config.cuda else torch.device("cpu")
# --- dataset.py
import numpy as np
from torch.utils import data

class TextDataset(data.Dataset):
    """Photographs of one line each, and how far each place is from it."""

    def __init__(self, count, size):
        random = np.random.RandomState(0)
        self.images, self.distances = [], []
        for row in random.randint(1, size - 1, count).tolist():
            image = np.zeros((1, size, size), dtype=np.float32)
            image[:, row] = 1.0
            distance = np.abs(np.arange(size, dtype=np.float32) - row)[:, None].repeat(size, axis=1)
            self.images.append(image)
            self.distances.append(distance[None] / size)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], self.distances[index]
# --- network.py
from torch import nn

class TextNet(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size, self.layers = size, nn.Sequential(nn.Flatten(), nn.Linear(size * size, 8), nn.ReLU(), nn.Linear(8, size * size))

    def forward(self, image):
        return self.layers(image).view(-1, 1, self.size, self.size)
# --- train_textBPN.py
import torch
from torch.utils import data

from dataset import TextDataset
from network import TextNet

def train(cfg):
    if cfg.cuda:
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
    trainset = TextDataset(count=12, size=6)
    train_loader = data.DataLoader(trainset, batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    model = TextNet(size=6).to(cfg.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, foreach=False)
    losses = []
    for _ in range(cfg.max_epoch):
        summed = 0.0
        for image, distance in train_loader:
            loss = torch.nn.functional.mse_loss(model(image.to(cfg.device)), distance.to(cfg.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            summed += loss.item()
        losses.append(summed / len(train_loader))
    return losses

# === weights_for_weak_labels
# thread: https://github.com/JieyuZ2/wrench/issues/4
# about: labels come from rules that are often wrong. How much each counts is learned by a small network, by what is gained on a few that people have labelled
# operation: nll_loss.*|cross_entropy.* on cuda:0, cpu
# operands: target|meta_target
# category: input-not-moved
# line: meta_weight_net.py: meta_target = torch.tensor(
# line: meta_weight_net.py: meta_loss = cross_entropy_with_probs(
# line: utils.py: return F.cross_entropy(
# line: utils.py: target.long(),
# repair: meta_weight_net.py: meta_target = torch.tensor([label for _, label in batch]) -> meta_target = torch.tensor([label for _, label in batch], device=self.model.device)
import argparse

import torch

from dataset import load_dataset
from labelmodel import MajorityVoting
from meta_weight_net import MetaWeightNet
from networks import MLPModel


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset", default="toy")
    parser.add_argument("--n_steps", type=int, default=6)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=3)
    return parser.parse_args()


def run_meta_weight_net():
    args = get_args()
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_data, valid_data = load_dataset(args.dataset, seed=args.seed)

    label_model = MajorityVoting(n_class=2)
    soft_labels = label_model.predict_proba(train_data)

    model = MetaWeightNet(
        MLPModel(n_features=4, hidden=6, n_class=2),
        lr=args.lr,
    )
    history = model.fit(
        train_data,
        soft_labels,
        valid_data,
        n_steps=args.n_steps,
        device=device,
    )
    print("meta losses", [round(loss, 4) for loss in history])


run_meta_weight_net()
# --- dataset.py
import random


def load_dataset(name, seed):
    """Rows with what three rules say of them (-1: nothing), and rows with a label."""
    draw = random.Random(f"{name} {seed}")
    rows = []
    for _ in range(24):
        features = [draw.uniform(-1, 1) for _ in range(4)]
        label = int(sum(features) > 0)
        votes = [
            draw.choice([label, label, 1 - label, -1]),
            draw.choice([label, -1]),
            draw.choice([0, 1]),
        ]
        rows.append((features, label, votes))
    train = [(features, votes) for features, _, votes in rows[:16]]
    valid = [(features, label) for features, label, _ in rows[16:]]
    return train, valid
# --- labelmodel.py
import torch


class MajorityVoting:
    def __init__(self, n_class):
        self.n_class = n_class

    def predict_proba(self, data):
        counts = torch.full((len(data), self.n_class), 0.1)
        for row, (_, votes) in enumerate(data):
            for vote in votes:
                if vote >= 0:
                    counts[row, vote] += 1
        return counts / counts.sum(dim=1, keepdim=True)
# --- networks.py
import torch
from torch import nn
from torch.func import functional_call


class MLPModel(nn.Module):
    def __init__(self, n_features, hidden, n_class):
        super().__init__()
        self.fc1 = nn.Linear(n_features, hidden)
        self.fc2 = nn.Linear(hidden, n_class)

    @property
    def device(self):
        return self.fc1.weight.device

    def forward(self, batch):
        features = torch.tensor(
            [row[0] for row in batch],
            device=self.device,
        )
        return self.fc2(torch.tanh(self.fc1(features)))

    def forward_with(self, weights, batch):
        return functional_call(self, weights, (batch,))


class WeightNet(nn.Module):
    def __init__(self, hidden=4):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(1, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 1),
            nn.Sigmoid(),
        )

    def forward(self, losses):
        return self.layers(losses.unsqueeze(-1)).squeeze(-1)
# --- utils.py
import torch.nn.functional as F


def cross_entropy_with_probs(input, target, weight=None, reduction="mean"):
    """As F.cross_entropy; labels may be chances as well."""
    if target.dim() == 1:
        return F.cross_entropy(
            input,
            target.long(),
            weight=weight,
            reduction=reduction,
        )
    losses = -(target * F.log_softmax(input, dim=-1)).sum(dim=-1)
    return losses.mean() if reduction == "mean" else losses
# --- meta_weight_net.py
import itertools

import torch

from networks import WeightNet
from utils import cross_entropy_with_probs


class MetaWeightNet:
    def __init__(self, model, lr):
        self.model = model
        self.weight_net = WeightNet()
        self.lr = lr

    def meta_step(self, batch, weights):
        outputs = self.model.forward_with(weights, batch)
        meta_target = torch.tensor([label for _, label in batch])
        meta_loss = cross_entropy_with_probs(outputs, meta_target)
        return meta_loss

    def fit(self, data, soft_labels, valid_data, n_steps, device, batch_size=8):
        self.model.to(device)
        self.weight_net.to(device)
        soft_labels = soft_labels.to(device)
        optimizer = torch.optim.SGD(
            self.model.parameters(),
            lr=self.lr,
            foreach=False,
        )
        meta_optimizer = torch.optim.SGD(
            self.weight_net.parameters(),
            lr=self.lr,
            foreach=False,
        )
        starts = itertools.cycle(range(0, len(data), batch_size))
        history = []
        for _, start in zip(range(n_steps), starts):
            batch = data[start : start + batch_size]
            target = soft_labels[start : start + batch_size]

            # How the network would be after a step with these weights.
            losses = cross_entropy_with_probs(
                self.model(batch),
                target,
                reduction="none",
            )
            weighted = (losses * self.weight_net(losses.detach())).mean()
            names, values = zip(*self.model.named_parameters())
            grads = torch.autograd.grad(weighted, values, create_graph=True)
            updated = {
                name: value - self.lr * grad
                for name, value, grad in zip(names, values, grads)
            }
            meta_loss = self.meta_step(valid_data, updated)
            meta_optimizer.zero_grad()
            meta_loss.backward()
            meta_optimizer.step()

            losses = cross_entropy_with_probs(
                self.model(batch),
                target,
                reduction="none",
            )
            with torch.no_grad():
                weights = self.weight_net(losses)
            optimizer.zero_grad()
            (losses * weights).mean().backward()
            optimizer.step()
            history.append(meta_loss.item())
        return history

# === a_floor_to_be_cleaned
# thread: https://github.com/thu-ml/tianshou/issues/589
# about: a game of one's own gives arrays, and an agent learns to play it. Its network takes arrays as well as tensors, and is moved to the GPU as all networks are
# operation: addmm|linear|mm on cuda:0, cpu
# operands: mat1|input|obs
# category: default-or-current-device|created-without-device|input-not-moved
# line: main.py: net = Net(
# line: net.py: obs = torch.as_tensor(
# line: net.py: def __init__(self, state_shape, action_shape, hidden_sizes, device="cpu"):
# repair: main.py: net = Net(env.state_shape, env.action_shape, hidden_sizes=[16]).to(device) -> net = Net(env.state_shape, env.action_shape, hidden_sizes=[16], device=device).to(device)
import numpy as np
import torch

from collector import Collector
from dqn import DQNPolicy
from net import Net
from vacuum_land import VacuumLand


def main():
    lr, gamma, target_freq = 0.02, 0.9, 5
    epochs, steps_per_epoch, batch_size = 3, 12, 8
    device = "cuda" if torch.cuda.is_available() else "cpu"

    torch.manual_seed(0)
    env = VacuumLand(height=3, width=3, trash=3, seed=0)
    net = Net(env.state_shape, env.action_shape, hidden_sizes=[16]).to(device)
    optim = torch.optim.Adam(net.parameters(), lr=lr, foreach=False)
    policy = DQNPolicy(
        net,
        optim,
        discount_factor=gamma,
        target_update_freq=target_freq,
    )
    collector = Collector(policy, env, seed=1)

    losses = []
    for epoch in range(epochs):
        collector.collect(n_step=steps_per_epoch, eps=0.5 / (epoch + 1))
        losses.append(policy.learn(collector.sample(batch_size)))
    print(
        "stored",
        len(collector.buffer),
        "losses",
        [round(loss, 4) for loss in losses],
        "reward",
        round(float(np.sum([row[2] for row in collector.buffer])), 2),
    )


if __name__ == "__main__":
    main()
# --- vacuum_land.py
import numpy as np


class VacuumLand:
    """A floor with trash on it; one is rewarded for being where trash is."""

    moves = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])

    def __init__(self, height, width, trash, seed):
        self.shape = (height, width)
        self.trash = trash
        self.random = np.random.RandomState(seed)
        self.state_shape = (2 * height * width,)
        self.action_shape = len(self.moves)

    def reset(self):
        self.floor = np.zeros(self.shape, dtype=np.float32)
        places = self.random.permutation(self.floor.size)[: self.trash]
        self.floor.flat[places] = 1.0
        self.position = np.zeros(2, dtype=np.int64)
        return self.observe()

    def observe(self):
        here = np.zeros(self.shape, dtype=np.float32)
        here[tuple(self.position)] = 1.0
        return np.concatenate([here.ravel(), self.floor.ravel()])

    def step(self, action):
        self.position = np.clip(
            self.position + self.moves[action],
            0,
            np.array(self.shape) - 1,
        )
        reward = float(self.floor[tuple(self.position)]) - 0.05
        self.floor[tuple(self.position)] = 0.0
        return self.observe(), reward, not self.floor.any()
# --- net.py
import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, state_shape, action_shape, hidden_sizes, device="cpu"):
        super().__init__()
        self.device = device
        sizes = [int(np.prod(state_shape)), *hidden_sizes]
        layers = []
        for inputs, outputs in zip(sizes[:-1], sizes[1:]):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.model = nn.Sequential(*layers, nn.Linear(sizes[-1], action_shape))

    def forward(self, obs):
        obs = torch.as_tensor(obs, device=self.device, dtype=torch.float32)
        return self.model(obs.flatten(1))
# --- dqn.py
import copy

import torch


class DQNPolicy:
    def __init__(self, model, optim, discount_factor, target_update_freq):
        self.model = model
        self.model_old = copy.deepcopy(model)
        self.optim = optim
        self.gamma = discount_factor
        self.freq = target_update_freq
        self.iteration = 0

    @torch.no_grad()
    def act(self, obs):
        return int(self.model(obs[None]).argmax(dim=1))

    def learn(self, batch):
        obs, act, rew, obs_next, done = batch
        if self.iteration % self.freq == 0:
            self.model_old.load_state_dict(self.model.state_dict())
        q = self.model(obs)
        rows = torch.arange(len(act))
        q = q[rows, torch.as_tensor(act)]
        with torch.no_grad():
            following = self.model_old(obs_next).max(dim=1).values
        rew = torch.as_tensor(rew).to(q)
        done = torch.as_tensor(done).to(q)
        returns = rew + self.gamma * (1 - done) * following
        loss = torch.nn.functional.smooth_l1_loss(q, returns)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        self.iteration += 1
        return loss.item()
# --- collector.py
import numpy as np


class Collector:
    def __init__(self, policy, env, seed):
        self.policy = policy
        self.env = env
        self.random = np.random.RandomState(seed)
        self.buffer = []
        self.obs = env.reset()

    def collect(self, n_step, eps):
        for _ in range(n_step):
            if self.random.rand() < eps:
                act = self.random.randint(self.env.action_shape)
            else:
                act = self.policy.act(self.obs)
            obs_next, rew, done = self.env.step(act)
            self.buffer.append((self.obs, act, rew, obs_next, done))
            self.obs = self.env.reset() if done else obs_next

    def sample(self, batch_size):
        chosen = self.random.choice(len(self.buffer), batch_size, replace=False)
        columns = zip(*(self.buffer[index] for index in chosen))
        obs, act, rew, obs_next, done = (np.array(column) for column in columns)
        return obs, act, rew, obs_next, done.astype(np.float64)

# === slower_and_no_lower
# thread: https://github.com/pytorch/audio/pull/457
# about: sounds are made longer without becoming lower. A transformation is a module, and what it knows of each frequency is computed when it is made
# operation: sub on cuda:0, cpu
# operands: other|.*phase_advance
# category: state-not-registered
# line: transforms.py: self.phase_advance = torch.linspace(
# line: transforms.py: return phase_vocoder(
# line: functional.py: advanced = angle_1 - angle_0 - phase_advance
# repair: transforms.py: self.phase_advance = torch.linspace(0, math.pi * hop_length, n_freq)[..., None] -> self.register_buffer("phase_advance", torch.linspace(0, math.pi * hop_length, n_freq)[..., None])
import torch

from augment import Augmentation
from sounds import chirps

device = "cuda" if torch.cuda.is_available() else "cpu"
augmentation = Augmentation(n_fft=16, rates=(0.8, 1.3)).to(device)
waveforms = chirps(count=2, length=120).to(device)
stretched = augmentation(waveforms)
for rate, spectrum in zip(augmentation.rates, stretched):
    print("rate", rate, "frames", spectrum.shape[-1], "loudness", round(spectrum.mean().item(), 4))
# --- sounds.py
import torch

def chirps(count, length):
    time = torch.arange(length) / length
    rising = torch.stack([20 * (number + 1) * time**2 for number in range(count)])
    return torch.sin(6.2832 * rising)
# --- functional.py
import math

import torch

def frames_of(waveform, n_fft, hop_length):
    return waveform.unfold(-1, n_fft, hop_length)

def spectrum(waveform, window, cosines, sines, hop_length):
    """Cosines and sines of each frame, as a last dimension of two."""
    frames = frames_of(waveform, len(window), hop_length) * window
    return torch.stack([frames @ cosines, -(frames @ sines)], dim=-1).transpose(1, 2)

def magphase(complex_spectrum):
    real, imaginary = complex_spectrum.unbind(-1)
    return (real**2 + imaginary**2).sqrt(), torch.atan2(imaginary, real)

def phase_vocoder(complex_spectrum, rate, phase_advance):
    frames = complex_spectrum.shape[2]
    steps = torch.arange(0, frames, rate, device=complex_spectrum.device)
    alphas = steps % 1.0
    padded = torch.nn.functional.pad(complex_spectrum, [0, 0, 0, 2])
    norm_0, angle_0 = magphase(padded.index_select(2, steps.long()))
    norm_1, angle_1 = magphase(padded.index_select(2, (steps + 1).long()))
    advanced = angle_1 - angle_0 - phase_advance
    advanced = advanced - 2 * math.pi * (advanced / (2 * math.pi)).round() + phase_advance
    phase = torch.cat([angle_0[..., :1], advanced[..., :-1]], dim=-1).cumsum(-1)
    loudness = alphas * norm_1 + (1 - alphas) * norm_0
    return torch.stack([loudness * phase.cos(), loudness * phase.sin()], dim=-1)
# --- transforms.py
import math

import torch
from torch import nn

from functional import magphase, phase_vocoder, spectrum

class Spectrogram(nn.Module):
    def __init__(self, n_fft, hop_length):
        super().__init__()
        self.hop_length = hop_length
        angles = 2 * math.pi / n_fft * torch.outer(torch.arange(n_fft), torch.arange(n_fft // 2 + 1)).float()
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())

    def forward(self, waveform):
        return spectrum(waveform, self.window, self.cosines, self.sines, self.hop_length)

class TimeStretch(nn.Module):
    def __init__(self, n_freq, hop_length=None):
        super().__init__()
        hop_length = hop_length if hop_length is not None else n_freq - 1
        self.phase_advance = torch.linspace(0, math.pi * hop_length, n_freq)[..., None]

    def forward(self, complex_spectrum, rate):
        return phase_vocoder(complex_spectrum, rate, self.phase_advance)

class ComplexNorm(nn.Module):
    def forward(self, complex_spectrum):
        return magphase(complex_spectrum)[0]
# --- augment.py
from torch import nn

from transforms import ComplexNorm, Spectrogram, TimeStretch

class Augmentation(nn.Module):
    def __init__(self, n_fft, rates):
        super().__init__()
        self.rates = rates
        self.spectrogram, self.norm = Spectrogram(n_fft, hop_length=n_fft // 4), ComplexNorm()
        self.stretch = TimeStretch(n_fft // 2 + 1, hop_length=n_fft // 4)

    def forward(self, waveforms):
        found = self.spectrogram(waveforms)
        return [self.norm(self.stretch(found, rate)) for rate in self.rates]

# === a_voice_to_be_copied
# thread: https://github.com/2noise/ChatTTS/issues/603
# about: a few seconds of a voice are encoded, for the model to speak alike. The sound comes from a file as an array, and what is made of it first is part of the encoder
# operation: stft on cpu, cuda:0
# operands: self|input|waveform|audio|wav|window
# error: stft input and window must be on the same device
# category: input-not-moved
# line: dvae.py: mel = self.preprocessor_mel(
# line: dvae.py: audio = torch.from_numpy(
# line: dvae.py: specgram = torch.stft(
# repair: dvae.py: audio = torch.from_numpy(wav) -> audio = torch.from_numpy(wav).to(self.coef.device)
import argparse

import numpy as np
import torch

from core import Chat

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=0.1)
parser.add_argument("--rate", type=int, default=2400)
args = parser.parse_args()

torch.manual_seed(0)
chat = Chat()
chat.load(device="cuda" if torch.cuda.is_available() else "cpu")
time = np.arange(int(args.seconds * args.rate), dtype=np.float32) / args.rate
wav = np.sin(2 * np.pi * 220 * time) + 0.3 * np.sin(2 * np.pi * 550 * time)
prompt = chat.sample_audio_speaker(wav.astype(np.float32))
spoken = chat.infer([3, 1, 4], prompt)
print("prompt", prompt, "spoken", round(spoken, 4))
# --- dvae.py
import torch
from torch import nn

class MelSpectrogramFeatures(nn.Module):
    def __init__(self, n_fft, hop_length, n_mels):
        super().__init__()
        self.n_fft, self.hop_length = n_fft, hop_length
        self.register_buffer("window", torch.hann_window(n_fft))
        places = torch.linspace(0, n_mels - 1, n_fft // 2 + 1)
        self.register_buffer("fb", (1 - (places[:, None] - torch.arange(n_mels)).abs()).clamp(min=0))

    def forward(self, waveform):
        specgram = torch.stft(waveform, self.n_fft, self.hop_length, window=self.window, return_complex=True).abs()
        return torch.log(specgram.transpose(-1, -2) @ self.fb + 1e-5).transpose(-1, -2)

class DVAE(nn.Module):
    def __init__(self, n_mels, dim, codes):
        super().__init__()
        self.preprocessor_mel = MelSpectrogramFeatures(n_fft=32, hop_length=16, n_mels=n_mels)
        self.register_buffer("coef", torch.full((n_mels, 1), 2.0))
        self.downsample, self.codebook = nn.Conv1d(n_mels, dim, 4, stride=4), nn.Embedding(codes, dim)

    @torch.inference_mode()
    def sample_audio(self, wav):
        audio = torch.from_numpy(wav)
        mel = self.preprocessor_mel(audio)
        hidden = self.downsample((mel / self.coef)[None])
        apart = (hidden.transpose(1, 2)[0][:, None] - self.codebook.weight).square().sum(-1)
        return apart.argmin(dim=-1)
# --- gpt.py
import torch
from torch import nn

class GPT(nn.Module):
    def __init__(self, words, codes, dim):
        super().__init__()
        self.emb_text, self.emb_code = nn.Embedding(words, dim), nn.Embedding(codes, dim)
        self.gru, self.head = nn.Linear(dim, dim), nn.Linear(dim, codes)

    @torch.inference_mode()
    def forward(self, text_ids, codes):
        device = self.head.weight.device
        seen = torch.cat([self.emb_code(codes.to(device)), self.emb_text(text_ids.to(device))])
        return self.head(torch.tanh(self.gru(seen)).mean(0)).log_softmax(-1)
# --- core.py
import torch

from dvae import DVAE
from gpt import GPT

class Chat:
    def load(self, device):
        self.device = torch.device(device)
        self.dvae = DVAE(n_mels=6, dim=5, codes=9).eval().to(self.device)
        self.gpt = GPT(words=7, codes=9, dim=5).eval().to(self.device)

    def sample_audio_speaker(self, wav):
        return self._encode_prompt(wav).tolist()

    def _encode_prompt(self, wav):
        return self.dvae.sample_audio(wav)

    def infer(self, words, prompt):
        scores = self.gpt(torch.tensor(words), torch.tensor(prompt))
        return scores.max().item()

# === weather_from_two_sources
# thread: https://github.com/openclimatefix/pvnet/pull/112
# about: how much the sun will give is forecast from satellites and from two forecasts of the weather. A batch has the latter by the name of their source
# operation: addmm|linear|mm on cpu, cuda:0
# operands: mat1|input|.*nwp.*|x
# category: input-not-moved
# line: batch.py: batch_copy[key] = value
# line: batch.py: if isinstance(value, torch.Tensor):
# line: train.py: batch = copy_batch_to_device(
# line: model.py: encoded.append(self.nwp_encoders[
# repair: batch.py: batch_copy[key] = value -> batch_copy[key] = copy_batch_to_device(value, device) if isinstance(value, dict) else value
import argparse
import json

import torch

from datamodule import DataModule
from model import Model
from train import Trainer

CONFIG = """
{
    "model": {"hidden": 6, "forecast_len": 3},
    "data": {"batch_size": 4, "nwp": {"ukv": 5, "ecmwf": 3}},
    "trainer": {"max_steps": 4, "lr": 0.05}
}
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default=CONFIG)
    config = json.loads(parser.parse_args().config)

    torch.manual_seed(8)
    datamodule = DataModule(
        **config["data"],
        forecast_len=config["model"]["forecast_len"],
        seed=8,
    )
    model = Model(
        nwp_channels=config["data"]["nwp"],
        **config["model"],
    )
    trainer = Trainer(
        device=torch.device("cuda" if torch.cuda.is_available() else "cpu"),
        **config["trainer"],
    )
    losses = trainer.fit(model, datamodule)
    print("mae", [round(loss, 4) for loss in losses])


if __name__ == "__main__":
    main()
# --- datamodule.py
import numpy as np

from batch import batch_to_tensor


class DataModule:
    def __init__(self, batch_size, nwp, forecast_len, seed):
        self.batch_size = batch_size
        self.nwp = nwp
        self.forecast_len = forecast_len
        self.random = np.random.RandomState(seed)

    def numpy_batch(self):
        sun = self.random.rand(self.batch_size, 1)
        noise = {
            source: self.random.rand(self.batch_size, channels)
            for source, channels in self.nwp.items()
        }
        return {
            "satellite": sun + 0.1 * self.random.rand(self.batch_size, 4),
            "nwp": {source: sun + 0.2 * values for source, values in noise.items()},
            "gsp": sun.repeat(self.forecast_len, axis=1),
            "gsp_id": list(range(self.batch_size)),
        }

    def __iter__(self):
        while True:
            yield batch_to_tensor(self.numpy_batch())
# --- batch.py
import numpy as np
import torch


def batch_to_tensor(batch):
    """Arrays become tensors, at every depth."""
    for key, value in batch.items():
        if isinstance(value, dict):
            batch[key] = batch_to_tensor(value)
        elif isinstance(value, np.ndarray):
            batch[key] = torch.as_tensor(value, dtype=torch.float32)
    return batch


def copy_batch_to_device(batch, device):
    batch_copy = {}
    for key, value in batch.items():
        if isinstance(value, torch.Tensor):
            batch_copy[key] = value.to(device)
        else:
            batch_copy[key] = value
    return batch_copy
# --- model.py
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, nwp_channels, hidden, forecast_len):
        super().__init__()
        self.sat_encoder = nn.Linear(4, hidden)
        self.nwp_encoders = nn.ModuleDict(
            {
                source: nn.Linear(channels, hidden)
                for source, channels in nwp_channels.items()
            }
        )
        self.output_network = nn.Sequential(
            nn.LeakyReLU(),
            nn.Linear(hidden * (1 + len(nwp_channels)), forecast_len),
        )

    def forward(self, batch):
        encoded = [self.sat_encoder(batch["satellite"])]
        for source in self.nwp_encoders:
            encoded.append(self.nwp_encoders[source](batch["nwp"][source]))
        return self.output_network(torch.cat(encoded, dim=-1))
# --- train.py
import itertools

import torch

from batch import copy_batch_to_device


class Trainer:
    def __init__(self, device, max_steps, lr):
        self.device = device
        self.max_steps = max_steps
        self.lr = lr

    def fit(self, model, datamodule):
        model.to(self.device)
        optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=self.lr,
            foreach=False,
        )
        losses = []
        for batch in itertools.islice(datamodule, self.max_steps):
            batch = copy_batch_to_device(batch, self.device)
            loss = (model(batch) - batch["gsp"]).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

# === what_stripes_mean_to_a_network
# thread: https://github.com/meta-pytorch/captum/issues/721
# about: how much stripes count for what a network says is measured. What stripes are in a layer is learned by a classifier of another library, and kept in files
# operation: mm|matmul|mv|mul|bmm|addmm|dot on cuda:0, cpu
# operands: mat2|other|cav.*|.*weights
# category: created-without-device|cached-state|input-not-moved
# line: classifier.py: self.weights = torch.tensor(
# line: tcav.py: cavs = torch.stack(
# line: tcav.py: scores = attributions @ cavs.T
# line: tcav.py: cav.weights = classifier.weights
# repair: tcav.py: cavs = torch.stack([cav.weights for cav in self.cavs[name].values()]) -> cavs = torch.stack([cav.weights for cav in self.cavs[name].values()]).to(attributions.device)
import tempfile

import torch

from concepts import Concept, images_of
from model import StripeNet
from tcav import TCAV

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def main():
    torch.manual_seed(0)
    model = StripeNet(channels=4, classes=2).to(DEVICE).eval()
    striped = Concept(0, "striped", images_of("striped", count=8, seed=1))
    dotted = Concept(1, "dotted", images_of("dotted", count=8, seed=2))
    inputs = images_of("striped", count=5, seed=3).to(DEVICE)

    with tempfile.TemporaryDirectory() as folder:
        tcav = TCAV(
            model=model,
            layers=["pool"],
            save_path=folder,
        )
        results = tcav.interpret(
            inputs,
            experimental_set=[striped, dotted],
            target=1,
        )
    for layer, scores in results.items():
        rounded = {
            name: round(value, 4)
            for name, value in scores.items()
        }
        print(layer, rounded)


if __name__ == "__main__":
    main()
# --- model.py
from torch import nn


class StripeNet(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.conv = nn.Conv2d(1, channels, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d((2, 2))
        self.flatten = nn.Flatten()
        self.classifier = nn.Linear(4 * channels, classes)

    def forward(self, images):
        x = self.pool(self.conv(images).relu())
        return self.classifier(self.flatten(x).tanh())
# --- concepts.py
from dataclasses import dataclass

import torch


def images_of(kind, count, seed):
    draw = torch.Generator().manual_seed(seed)
    images = 0.3 * torch.rand(count, 1, 8, 8, generator=draw)
    if kind == "striped":
        images[:, :, ::2] += 0.7
    else:
        images[:, :, ::3, ::3] += 0.7
    return images


@dataclass
class Concept:
    id: int
    name: str
    data: torch.Tensor
# --- classifier.py
import numpy as np
import torch
from sklearn.linear_model import LogisticRegression


class DefaultClassifier:
    """A line between two kinds of activations."""

    def __init__(self):
        self.lm = LogisticRegression(C=0.5)

    def train_and_eval(self, activations, labels):
        features = activations.flatten(1).cpu().numpy()
        labels = np.asarray(labels)
        self.lm.fit(features, labels)
        self.weights = torch.tensor(self.lm.coef_[0], dtype=torch.float32)
        return {"accs": float(self.lm.score(features, labels))}
# --- cav.py
import os
from dataclasses import dataclass

import torch


@dataclass
class CAV:
    concepts: str
    layer: str
    weights: torch.Tensor = None

    def path(self, folder):
        return os.path.join(folder, f"{self.concepts}-{self.layer}.pkl")

    def save(self, folder):
        torch.save({"weights": self.weights}, self.path(folder))

    def load(self, folder):
        if not os.path.exists(self.path(folder)):
            return False
        stats = torch.load(self.path(folder))
        weights = stats["weights"]
        self.weights = weights
        return True
# --- tcav.py
import torch

from cav import CAV
from classifier import DefaultClassifier


class TCAV:
    def __init__(self, model, layers, save_path):
        self.model = model
        self.layers = layers
        self.save_path = save_path
        self.cavs = {name: {} for name in layers}
        self.activations = {}
        for name in layers:
            layer = model.get_submodule(name)
            layer.register_forward_hook(self._keep(name))

    def _keep(self, name):
        def hook(module, args, output):
            self.activations[name] = output

        return hook

    @torch.no_grad()
    def generate_activations(self, concept):
        device = next(self.model.parameters()).device
        self.model(concept.data.to(device))
        return {name: self.activations[name] for name in self.layers}

    def compute_cavs(self, concepts):
        found = [self.generate_activations(concept) for concept in concepts]
        labels = [
            concept.id
            for concept in concepts
            for _ in range(len(concept.data))
        ]
        key = "-".join(concept.name for concept in concepts)
        for name in self.layers:
            cav = CAV(key, name)
            if not cav.load(self.save_path):
                classifier = DefaultClassifier()
                together = torch.cat([each[name] for each in found])
                classifier.train_and_eval(together, labels)
                cav.weights = classifier.weights
                cav.save(self.save_path)
            self.cavs[name][key] = cav

    def interpret(self, inputs, experimental_set, target):
        self.compute_cavs(experimental_set)
        results = {}
        for name in self.layers:
            output = self.model(inputs)[:, target].sum()
            attributions = torch.autograd.grad(output, self.activations[name])[0]
            attributions = attributions.flatten(1)
            cavs = torch.stack([cav.weights for cav in self.cavs[name].values()])
            scores = attributions @ cavs.T
            results[name] = {
                "sign_count": (scores > 0).float().mean().item(),
                "magnitude": scores.abs().mean().item(),
            }
        return results
