# === matrices_of_the_layers_after_a_restart
# thread: https://github.com/f-dangel/sirfshampoo/issues/34
# about: an optimizer keeps two structured matrices for each layer, which stand for no parameter. It is saved with the model and read again in a second run
# operation: mm|matmul on cpu, cuda:0
# operands: mat1|mat2|self|tensor2|other|grad|mat.*
# category: optimizer|checkpoint
# line: sirfshampoo.py: self.preconditioner = matrices
# line: sirfshampoo.py: def load_state_dict(
# line: sirfshampoo.py: matrices = state_dict[
# line: checkpoint = torch.load(
# line: optimizer.load_state_dict(checkpoint[
# repair: sirfshampoo.py: self.preconditioner = matrices -> self.preconditioner = [[M.to(g["params"][0].device) for M in pair] for g, pair in
#   zip(self.param_groups, matrices)]
import os
import tempfile

import torch
from torch import nn

from sirfshampoo import SIRFShampoo

DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def make_model():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)).to(DEVICE)


def batches(seed, count=5):
    draw = torch.Generator().manual_seed(seed)
    for _ in range(count):
        X = torch.randn(16, 6, generator=draw)
        y = torch.stack([X[:, :3].sum(dim=1), X[:, 3:].prod(dim=1)], dim=1)
        yield X.to(DEVICE), y.to(DEVICE)


def train(model, optimizer, seed):
    for X, y in batches(seed):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(X), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def save(model, optimizer, file):
    torch.save({"model_state": model.state_dict(), "optimizer_state_dict": optimizer.state_dict()}, file)


def restore(file):
    checkpoint = torch.load(file, map_location="cpu", weights_only=False)
    model = make_model()
    optimizer = SIRFShampoo(model, lr=0.05)
    model.load_state_dict(checkpoint["model_state"])
    optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
    return model, optimizer


def main():
    model = make_model()
    optimizer = SIRFShampoo(model, lr=0.05)
    first = train(model, optimizer, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "checkpoint.pt")
        save(model, optimizer, file)
        model, optimizer = restore(file)
    second = train(model, optimizer, seed=2)
    print("losses", round(first, 4), round(second, 4), "groups", len(optimizer.param_groups))


if __name__ == "__main__":
    main()
# --- structured.py
import torch


class StructuredMatrix:
    """A square matrix of which only what is needed is kept."""

    def __init__(self, mat):
        self.mat = mat

    def to(self, device):
        return type(self)(self.mat.to(device))


class DenseMatrix(StructuredMatrix):
    @classmethod
    def eye(cls, dim, device):
        return cls(torch.eye(dim, device=device))

    def to_dense(self):
        return self.mat

    def update(self, m, beta):
        self.mat = self.mat - beta * self.mat @ m


class DiagonalMatrix(StructuredMatrix):
    @classmethod
    def eye(cls, dim, device):
        return cls(torch.ones(dim, device=device))

    def to_dense(self):
        return self.mat.diag()

    def update(self, m, beta):
        self.mat = self.mat * (1 - beta * m.diagonal())
# --- sirfshampoo.py
import torch
from torch import nn
from torch.optim import Optimizer

from structured import DenseMatrix, DiagonalMatrix


class SIRFShampoo(Optimizer):
    """Shampoo without roots and without inverses: one group is one layer, its bias is one more column."""

    def __init__(self, model, lr=0.01, beta=0.05, lam=0.01):
        groups = [{"params": [layer.weight, layer.bias]} for layer in model.modules() if isinstance(layer, nn.Linear)]
        super().__init__(groups, {"lr": lr, "beta": beta, "lam": lam})
        self.preconditioner = [self.initialize(group) for group in self.param_groups]

    @staticmethod
    def initialize(group):
        weight = group["params"][0]
        rows, columns = weight.shape
        return [DenseMatrix.eye(rows, weight.device), DiagonalMatrix.eye(columns + 1, weight.device)]

    def state_dict(self):
        return {**super().state_dict(), "preconditioner": self.preconditioner}

    def load_state_dict(self, state_dict):
        matrices = state_dict["preconditioner"]
        super().load_state_dict({key: state_dict[key] for key in ("state", "param_groups")})
        self.preconditioner = matrices

    @torch.no_grad()
    def step(self, closure=None):
        for idx, group in enumerate(self.param_groups):
            weight, bias = group["params"]
            G = torch.cat([weight.grad, bias.grad.unsqueeze(1)], dim=1)
            self.update_preconditioner(idx, group, G)
            K, C = self.preconditioner[idx]
            direction = K.to_dense() @ K.to_dense().T @ G @ C.to_dense() @ C.to_dense().T
            weight -= group["lr"] * direction[:, :-1]
            bias -= group["lr"] * direction[:, -1]

    def update_preconditioner(self, idx, group, G):
        for structured, grad in zip(self.preconditioner[idx], (G, G.T)):
            mat = structured.to_dense()
            projected = mat.T @ grad
            curvature = projected @ projected.T / grad.shape[1] + group["lam"] * mat.T @ mat
            identity = torch.eye(len(mat), device=mat.device)
            structured.update(0.5 * (curvature - identity), group["beta"])

# === preferred_and_refused_answers
# thread: https://github.com/axolotl-ai-cloud/axolotl/issues/1302
# about: a language model that lies on two GPUs by layers learns which of two answers is preferred. The trainer sums up the losses of its steps for the log
# operation: add_|add|__iadd__ on cuda:0, cuda:1
# operands: tr_loss|tr_loss_step|self|other
# category: module-split|
# line: trainer.py: return loss.detach()
# line: trainer.py: tr_loss += tr_loss_step
# line: trainer.py: tr_loss_step = self.training_step(
# line: dpo.py: return -F.logsigmoid(
# line: model.py: return self.lm_head(
# repair: trainer.py: return loss.detach() / self.args.gradient_accumulation_steps -> return loss.detach().to(self.args.device) /
#   self.args.gradient_accumulation_steps
import torch

from dpo import AxolotlDPOTrainer
from model import load_model
from trainer import TrainingArguments

CFG = {
    "base_model": "mistral-tiny",
    "rl": "dpo",
    "dpo_beta": 0.1,
    "device_map": {"embed_tokens": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "norm": 1, "lm_head": 1},
    "learning_rate": 1e-2,
    "micro_batch_size": 2,
    "gradient_accumulation_steps": 2,
    "max_steps": 3,
    "vocab_size": 31,
    "hidden_size": 16,
}


def preference_pairs(cfg, count, length=7, prompt=3):
    draw = torch.Generator().manual_seed(22)
    for _ in range(count):
        answers = torch.randint(1, cfg["vocab_size"], (2, cfg["micro_batch_size"], length), generator=draw)
        answers[1, :, :prompt] = answers[0, :, :prompt]
        labels = answers.clone()
        labels[:, :, :prompt] = -100
        yield {"chosen": answers[0], "rejected": answers[1], "chosen_labels": labels[0], "rejected_labels": labels[1]}


def train(cfg):
    model = load_model(cfg, seed=5)
    model_ref = load_model(cfg, seed=5).requires_grad_(False)
    args = TrainingArguments(
        device=torch.device("cuda", 0),
        learning_rate=cfg["learning_rate"],
        gradient_accumulation_steps=cfg["gradient_accumulation_steps"],
        max_steps=cfg["max_steps"],
    )
    trainer = AxolotlDPOTrainer(model, model_ref, args, beta=cfg["dpo_beta"])
    return trainer.train(list(preference_pairs(cfg, cfg["max_steps"] * cfg["gradient_accumulation_steps"])))


if __name__ == "__main__":
    print("train_loss", round(train(CFG), 5))
# --- model.py
import torch
from torch import nn


class DecoderLayer(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(hidden_size)
        self.qkv_proj = nn.Linear(hidden_size, 3 * hidden_size, bias=False)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, hidden_states):
        q, k, v = self.qkv_proj(self.input_layernorm(hidden_states)).chunk(3, dim=-1)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return hidden_states + self.o_proj(attended)


class MistralForCausalLM(nn.Module):
    def __init__(self, vocab_size, hidden_size, layers=4):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(hidden_size) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden_size)
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)

    def forward(self, input_ids):
        hidden_states = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        return self.lm_head(self.norm(hidden_states))


def dispatch_model(model, device_map):
    """Each named module goes to its GPU, and what it is called with follows it."""

    def align(module, args):
        device = next(module.parameters()).device
        return tuple(arg.to(device) for arg in args)

    for name, index in device_map.items():
        module = model.get_submodule(name).to(torch.device("cuda", index))
        module.register_forward_pre_hook(align)
    return model


def load_model(cfg, seed):
    torch.manual_seed(seed)
    model = MistralForCausalLM(cfg["vocab_size"], cfg["hidden_size"])
    return dispatch_model(model, cfg["device_map"])
# --- trainer.py
from dataclasses import dataclass

import torch


@dataclass
class TrainingArguments:
    device: torch.device
    learning_rate: float
    gradient_accumulation_steps: int
    max_steps: int


class Trainer:
    def __init__(self, model, args):
        self.model, self.args = model, args
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
        self.global_step = 0

    def _prepare_inputs(self, inputs):
        return {name: value.to(self.args.device) for name, value in inputs.items()}

    def training_step(self, model, inputs):
        model.train()
        loss = self.compute_loss(model, self._prepare_inputs(inputs))
        (loss / self.args.gradient_accumulation_steps).backward()
        return loss.detach() / self.args.gradient_accumulation_steps

    def train(self, dataloader):
        tr_loss = torch.tensor(0.0).to(self.args.device)
        for step, inputs in enumerate(dataloader):
            tr_loss_step = self.training_step(self.model, inputs)
            tr_loss += tr_loss_step
            if (step + 1) % self.args.gradient_accumulation_steps == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.global_step += 1
        return tr_loss.item() / self.global_step
# --- dpo.py
import torch
import torch.nn.functional as F

from trainer import Trainer


class AxolotlDPOTrainer(Trainer):
    def __init__(self, model, ref_model, args, beta):
        super().__init__(model, args)
        self.ref_model, self.beta = ref_model, beta

    @staticmethod
    def get_batch_logps(logits, labels):
        labels = labels[:, 1:].to(logits.device)
        loss_mask = labels != -100
        per_token = logits[:, :-1].log_softmax(-1).gather(2, labels.clamp(min=0).unsqueeze(2)).squeeze(2)
        return (per_token * loss_mask).sum(-1)

    def concatenated_forward(self, model, batch):
        logits = model(torch.cat([batch["chosen"], batch["rejected"]]))
        logps = self.get_batch_logps(logits, torch.cat([batch["chosen_labels"], batch["rejected_labels"]]))
        return logps.chunk(2)

    def compute_loss(self, model, inputs):
        chosen, rejected = self.concatenated_forward(model, inputs)
        with torch.no_grad():
            reference_chosen, reference_rejected = self.concatenated_forward(self.ref_model, inputs)
        margin = (chosen - rejected) - (reference_chosen - reference_rejected)
        return -F.logsigmoid(self.beta * margin).mean()

# === a_new_sequence_for_a_known_fold
# thread: https://github.com/generatebio/chroma/issues/46
# about: a protein of the data bank is given to a network that thinks up another sequence for its backbone. Both are made in one line each, with nothing said
#   but the name
# operation: addmm|linear on cpu, cuda:0
# operands: input|mat1|self|.*\bX\b.*|.*embed_atoms.*
# category: default-or-current-device|input-not-moved|created-without-device
# line: protein = Protein("1GFP")
# line: chroma/models.py: X, C, S = protein.to_XCS(
# line: chroma/protein.py: device: str = "cpu"
# line: chroma/protein.py: device = self.device
# repair: protein = Protein("1GFP") -> protein = Protein("1GFP", device="cuda")
from chroma.models import Chroma
from chroma.protein import Protein

chroma = Chroma()

# Redesign a protein
protein = Protein("1GFP")
before = protein.sequence()
protein = chroma.design(protein, temperature=0.7)
after = protein.sequence()
same = sum(a == b for a, b in zip(before, after))

print(before)
print(after)
print("residues", len(after), "unchanged", same, "score", round(chroma.score(protein), 4))
# --- chroma/__init__.py
# --- chroma/system.py
import torch

AA20 = "ACDEFGHIKLMNPQRSTVWY"

# What the data bank has: the sequence, and a number of which the coordinates are drawn.
ENTRIES = {"1GFP": ("SKGEELFTGVVPILVELDGDVNGHK", 46), "1UBQ": ("MQIFVKTLTGKTITLEVEPSD", 9)}


class System:
    """Chains of residues, each with four atoms of the backbone."""

    def __init__(self, coordinates, chains, sequence):
        self.coordinates, self.chains, self.sequence = coordinates, chains, sequence

    @classmethod
    def from_PDBID(cls, pdb_id):
        sequence, seed = ENTRIES[pdb_id]
        draw = torch.Generator().manual_seed(seed)
        trace = torch.randn(len(sequence), 1, 3, generator=draw).cumsum(dim=0)
        atoms = trace + 0.4 * torch.randn(len(sequence), 4, 3, generator=draw)
        return cls(atoms, torch.ones(len(sequence), dtype=torch.long), sequence)

    def to_XCS(self):
        S = torch.tensor([AA20.index(residue) for residue in self.sequence])
        return self.coordinates[None].clone(), self.chains[None].clone(), S[None]
# --- chroma/protein.py
from typing import Optional

from chroma.system import AA20, System


class Protein:
    """A protein, by its name in the data bank or from the tensors X, C and S."""

    sys: System
    device: str = "cpu"

    def __init__(self, protein_input, device: str = "cpu"):
        self.sys = protein_input if isinstance(protein_input, System) else System.from_PDBID(protein_input)
        self.device = device

    @classmethod
    def from_XCS(cls, X, C, S):
        sequence = "".join(AA20[index] for index in S[0].tolist())
        return cls(System(X[0].cpu(), C[0].cpu(), sequence), device=X.device)

    def to_XCS(self, device: Optional[str] = None):
        if device is None:
            device = self.device
        X, C, S = [tensor.to(device) for tensor in self.sys.to_XCS()]
        return X, C, S

    def sequence(self):
        return self.sys.sequence
# --- chroma/graph_design.py
import torch
from torch import nn


class BackboneEncoder(nn.Module):
    def __init__(self, dim_nodes, neighbors=6):
        super().__init__()
        self.neighbors = neighbors
        self.embed_atoms = nn.Linear(12, dim_nodes)
        self.message = nn.Linear(2 * dim_nodes + 1, dim_nodes)

    def forward(self, X, C):
        center = X.mean(dim=2)
        nodes = self.embed_atoms((X - center[:, :, None]).flatten(2))
        distances = torch.cdist(center, center)
        nearest, edge_idx = distances.topk(self.neighbors, largest=False)
        others = torch.stack([n[idx] for n, idx in zip(nodes, edge_idx)])
        here = nodes[:, :, None].expand_as(others)
        messages = self.message(torch.cat([here, others, nearest[..., None]], dim=-1))
        return (nodes + torch.relu(messages).mean(dim=2)) * (C > 0)[..., None]


class GraphDesign(nn.Module):
    def __init__(self, num_alphabet=20, dim_nodes=24):
        super().__init__()
        self.encoder = BackboneEncoder(dim_nodes)
        self.W_S = nn.Embedding(num_alphabet, dim_nodes)
        self.out = nn.Linear(dim_nodes, num_alphabet)

    def forward(self, X, C, S):
        nodes = self.encoder(X, C)
        previous = torch.roll(self.W_S(S), 1, dims=1)
        return self.out(torch.tanh(nodes + previous)).log_softmax(-1)

    @torch.no_grad()
    def sample(self, X, C, S, temperature):
        nodes = self.encoder(X, C)
        S_sample = S.clone()
        for position in range(S.shape[1]):
            previous = self.W_S(S_sample[:, position - 1])
            logits = self.out(torch.tanh(nodes[:, position] + previous)) / temperature
            S_sample[:, position] = logits.argmax(-1)
        return X, C, S_sample
# --- chroma/models.py
from typing import Optional

import torch

from chroma.graph_design import GraphDesign
from chroma.protein import Protein


class Chroma:
    def __init__(self, weights_seed: int = 11, device: Optional[str] = None):
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(weights_seed)
        self.design_network = GraphDesign().to(device).eval()

    def design(self, protein: Protein, temperature: float = 1.0) -> Protein:
        X, C, S = protein.to_XCS()
        return Protein.from_XCS(*self.design_network.sample(X, C, S, temperature))

    @torch.no_grad()
    def score(self, protein: Protein) -> float:
        X, C, S = protein.to_XCS()
        log_probs = self.design_network(X, C, S)
        return log_probs.gather(2, S[..., None]).mean().item()

# === boxes_found_by_a_sentence
# thread: https://github.com/luca-medeiros/lang-segment-anything/pull/60
# about: things that a sentence names are found and cut out of a picture, and another model, loaded in the same process, says how far away they are
# operation: mul on cpu, cuda:0
# operands: self|other|.*boxes.*|.*Tensor.*
# category: default-or-current-device|created-without-device
# line: lang_sam.py: boxes = box_ops.box_cxcywh_to_xyxy(
# line: depth.py: torch.set_default_tensor_type(
# line: groundingdino.py: boxes = outputs["pred_boxes"]
# line: groundingdino.py: return boxes[keep]
# repair: lang_sam.py: boxes = box_ops.box_cxcywh_to_xyxy(boxes) * torch.Tensor([W, H, W, H]) -> boxes = box_ops.box_cxcywh_to_xyxy(boxes) * torch.tensor([W,
#   H, W, H], device=boxes.device)
import torch

from depth import DepthModel
from lang_sam import LangSAM


class Measurer:
    """How far away is what the prompt speaks of?"""

    def __init__(self):
        self.langSam = LangSAM(seed=3)
        self.depth = DepthModel(seed=4)

    def __call__(self, image, prompt):
        distances = self.depth.infer(image)
        masks, boxes, phrases, logits = self.langSam.predict(image, prompt)
        found = []
        for mask, box, phrase in zip(masks, boxes, phrases):
            inside = distances.cpu()[mask]
            found.append((phrase, [round(x) for x in box.tolist()], inside.mean().item() if len(inside) else 0.0))
        return found


def main():
    draw = torch.Generator().manual_seed(60)
    image = torch.rand(3, 20, 28, generator=draw)
    image[:, 4:12, 6:18] += 1.0

    measurer = Measurer()
    found = measurer(image, "a red cup . a table")
    for phrase, box, _ in found:
        print(phrase, box)
    print("found", len(found), "mean depth", round(sum(distance for _, _, distance in found) / len(found), 4))


if __name__ == "__main__":
    main()
# --- depth.py
import torch
from torch import nn


class DepthModel:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 1)).eval()
        if torch.cuda.is_available():
            torch.set_default_tensor_type(torch.cuda.FloatTensor)
            self.net.cuda()

    @torch.no_grad()
    def infer(self, image):
        inverse = self.net(image[None].to(next(self.net.parameters()).device))
        return 1 / (inverse.abs() + 0.1)[0, 0]
# --- box_ops.py
import torch


def box_cxcywh_to_xyxy(x):
    x_c, y_c, w, h = x.unbind(-1)
    return torch.stack([x_c - 0.5 * w, y_c - 0.5 * h, x_c + 0.5 * w, y_c + 0.5 * h], dim=-1)
# --- groundingdino.py
import torch
from torch import nn


class GroundingDINO(nn.Module):
    def __init__(self, queries=5, width=12):
        super().__init__()
        self.backbone = nn.Conv2d(3, width, 4, stride=4)
        self.query = nn.Parameter(torch.randn(queries, width))
        self.words = nn.Embedding(64, width)
        self.bbox_embed = nn.Linear(width, 4)

    def forward(self, image, token_ids):
        features = self.backbone(image[None]).flatten(2).transpose(1, 2)
        attention = (self.query @ features.transpose(1, 2)).softmax(-1)
        hidden = self.query + attention @ features
        logits = hidden @ self.words(token_ids).T
        return {"pred_logits": logits.sigmoid(), "pred_boxes": self.bbox_embed(hidden).sigmoid()}


def tokenize(caption):
    """One number for each phrase, and the phrases."""
    phrases = [phrase.strip() for phrase in caption.split(".")]
    return [sum(map(ord, phrase)) % 64 for phrase in phrases], phrases


@torch.no_grad()
def predict(model, image, caption, box_threshold, device):
    ids, phrases = tokenize(caption)
    outputs = model(image.to(device), torch.tensor(ids, device=device))
    logits = outputs["pred_logits"].cpu()[0]
    boxes = outputs["pred_boxes"].cpu()[0]
    keep = logits.max(dim=1).values > box_threshold
    return boxes[keep], logits[keep].max(dim=1).values, [phrases[i] for i in logits[keep].argmax(dim=1).tolist()]
# --- lang_sam.py
import torch
from torch import nn

import box_ops
from groundingdino import GroundingDINO, predict


class LangSAM:
    def __init__(self, seed):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(seed)
        self.groundingdino = GroundingDINO().to(self.device).eval()
        self.sam = nn.Conv2d(3, 1, 3, padding=1).to(self.device).eval()

    def predict_dino(self, image, text_prompt, box_threshold):
        boxes, logits, phrases = predict(self.groundingdino, image, text_prompt, box_threshold, self.device)
        H, W = image.shape[1:]
        boxes = box_ops.box_cxcywh_to_xyxy(boxes) * torch.Tensor([W, H, W, H])
        return boxes, logits, phrases

    @torch.no_grad()
    def predict_sam(self, image, boxes):
        scores = self.sam(image[None].to(self.device))[0, 0].cpu()
        masks = torch.zeros(len(boxes), *scores.shape, dtype=torch.bool, device=scores.device)
        for mask, box in zip(masks, boxes.round().long().clamp(min=0).tolist()):
            x1, y1, x2, y2 = box
            mask[y1:y2, x1:x2] = scores[y1:y2, x1:x2] > scores.median()
        return masks

    def predict(self, image, text_prompt, box_threshold=0.3):
        boxes, logits, phrases = self.predict_dino(image, text_prompt, box_threshold)
        masks = self.predict_sam(image, boxes) if len(boxes) else torch.zeros(0)
        return masks, boxes, phrases, logits

# === a_line_search_with_momentum
# thread: https://github.com/IssamLaradji/sls/issues/7
# about: the length of a step is searched for until the loss falls enough, and then the way of the step before is added. The experiment runs on the card that
#   the command line names
# operation: sub on cuda:1, cuda:0
# operands: self|other|p_current|p_old
# category: default-or-current-device
# line: sls_acc.py: p_model.data = p_model.data + momentum * (p_current - p_old.cuda())
# repair: sls_acc.py: p_model.data = p_model.data + momentum * (p_current - p_old.cuda()) -> p_model.data = p_model.data + momentum * (p_current -
#   p_old.to(p_current.device))
import argparse

import torch
from torch import nn

from models import get_model
from sls_acc import SlsAcc

EXP_GROUPS = {
    "mushrooms": [
        {"model": "logistic", "opt": {"name": "sgd_polyak", "acceleration_method": "polyak", "momentum": 0.6}, "max_epoch": 2},
        {"model": "mlp", "opt": {"name": "sgd_polyak", "acceleration_method": "polyak", "momentum": 0.3}, "max_epoch": 2},
    ]
}


def get_dataset(name, n_samples=48, n_features=10):
    draw = torch.Generator().manual_seed(sum(map(ord, name)))
    X = torch.randn(n_samples, n_features, generator=draw)
    margin = X @ torch.randn(n_features, generator=draw)
    return X, (margin > 0).float()


def softloss(model, images, labels):
    return nn.functional.binary_cross_entropy_with_logits(model(images).view(-1), labels)


def trainval(exp_dict, dataset, device, batch_size=16):
    torch.manual_seed(42)
    X, y = dataset
    model = get_model(exp_dict["model"], X.shape[1]).to(device)
    opt_dict = exp_dict["opt"]
    opt = SlsAcc(model.parameters(), acceleration_method=opt_dict["acceleration_method"], momentum=opt_dict["momentum"])
    score_list = []
    for epoch in range(exp_dict["max_epoch"]):
        losses = []
        for start in range(0, len(X), batch_size):
            images, labels = X[start : start + batch_size].to(device), y[start : start + batch_size].to(device)
            opt.zero_grad()
            losses.append(opt.step(lambda: softloss(model, images, labels)).item())
        score_list.append({"epoch": epoch, "train_loss": sum(losses) / len(losses), "step_size": opt.state["step_size"]})
    return score_list


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-e", "--exp_group", default="mushrooms")
    parser.add_argument("-d", "--device", default="cuda:1")
    args = parser.parse_args()

    finals = []
    for exp_dict in EXP_GROUPS[args.exp_group]:
        score_list = trainval(exp_dict, get_dataset(args.exp_group), torch.device(args.device))
        finals.append(score_list[-1])
        print(exp_dict["model"], score_list)
    print("final", *[round(score["train_loss"], 4) for score in finals])
# --- models.py
from torch import nn


def get_model(name, n_features):
    if name == "logistic":
        return nn.Linear(n_features, 1, bias=False)
    if name == "mlp":
        return nn.Sequential(nn.Linear(n_features, 12), nn.ReLU(), nn.Linear(12, 1))
    raise ValueError(f"{name} is not supported")
# --- utils.py
import torch


def reset_step(step_size, gamma, reset_option, init_step_size):
    if reset_option == 0:
        return step_size
    if reset_option == 1:
        return step_size * gamma
    return init_step_size


def get_grad_list(params):
    return [p.grad for p in params]


def compute_grad_norm(grad_list):
    return torch.sqrt(sum((g * g).sum() for g in grad_list if g is not None)).item()


def try_sgd_update(params, step_size, params_current, grad_current):
    for p_next, p_current, g_current in zip(params, params_current, grad_current):
        p_next.data = p_current - step_size * g_current


def check_armijo_conditions(step_size, loss, grad_norm, loss_next, c, beta_b):
    if loss_next <= loss - step_size * c * grad_norm**2:
        return True, step_size
    return False, step_size * beta_b
# --- sls_acc.py
import copy

import torch

import utils as ut


class SlsAcc(torch.optim.Optimizer):
    def __init__(self, params, init_step_size=1, c=0.1, beta_b=0.7, gamma=2.0, momentum=0.6, reset_option=1, acceleration_method="polyak"):
        params = list(params)
        super().__init__(params, {})
        self.params = params
        self.momentum, self.c, self.beta_b, self.gamma = momentum, c, beta_b, gamma
        self.reset_option, self.init_step_size = reset_option, init_step_size
        if acceleration_method != "polyak":
            raise ValueError(f"{acceleration_method} is not supported")
        self.state["step"] = 0
        self.state["step_size"] = init_step_size
        self.state["params_current"] = copy.deepcopy(self.params)

    def step(self, closure):
        step_size = ut.reset_step(self.state["step_size"], self.gamma, self.reset_option, self.init_step_size)
        loss = closure()
        loss.backward()

        params_current = [p.detach().clone() for p in self.params]
        grad_current = ut.get_grad_list(self.params)
        grad_norm = ut.compute_grad_norm(grad_current)
        params_old = self.state["params_current"]
        self.state["params_current"] = params_current

        with torch.no_grad():
            for _ in range(40):
                ut.try_sgd_update(self.params, step_size, params_current, grad_current)
                found, step_size = ut.check_armijo_conditions(step_size, loss, grad_norm, closure(), self.c, self.beta_b)
                if found:
                    break
            polyak_update(self.params, params_current, grad_current, params_old, self.momentum)

        self.state["step_size"] = step_size
        self.state["step"] += 1
        return loss


def polyak_update(params_model, params_current, grad_current, params_old, momentum):
    zipped = zip(params_model, params_current, grad_current, params_old)
    for p_model, p_current, g_current, p_old in zipped:
        if g_current is None:
            continue
        p_model.data = p_model.data + momentum * (p_current - p_old.cuda())

# === a_pole_balanced_by_a_saved_agent
# thread: https://github.com/AgileRL/AgileRL/issues/223
# about: an agent that was taught to hold a pole upright is saved, and a script for looking at it reads it again and lets it play
# operation: addmm|linear on cuda:0, cpu
# operands: weight|bias|mat2|mat1|self|input|obs|state|.*feature_net.*
# category: checkpoint|default-or-current-device
# line: rainbow_dqn = RainbowDQN.load(
# line: rainbow_dqn.py: def load(
# line: rainbow_dqn.py: setattr(agent, attribute, value)
# line: rainbow_dqn.py: agent = cls(
# line: rainbow_dqn.py: checkpoint = torch.load(
# line: rainbow_dqn.py: state = torch.from_numpy(
# repair: rainbow_dqn = RainbowDQN.load(path) -> rainbow_dqn = RainbowDQN.load(path, device=device)
import os
import tempfile

import numpy as np
import torch

from cartpole import CartPole
from rainbow_dqn import RainbowDQN

device = "cuda" if torch.cuda.is_available() else "cpu"


def train(path, episodes=3, max_steps=30):
    env = CartPole(seed=1)
    agent = RainbowDQN(state_dim=4, action_dim=2, seed=200, device=device)
    for _ in range(episodes):
        state = env.reset()
        for _ in range(max_steps):
            action = agent.get_action(state)
            next_state, reward, done = env.step(action)
            agent.learn((state, action, reward, next_state, done))
            agent.steps += 1
            state = next_state
            if done:
                break
    agent.save_checkpoint(path)
    return agent.steps


def evaluate(path, episodes=2, max_steps=40):
    rainbow_dqn = RainbowDQN.load(path)
    env = CartPole(seed=2)
    rewards = []
    for _ in range(episodes):
        state, score = env.reset(), 0.0
        for _ in range(max_steps):
            action = rainbow_dqn.get_action(state, training=False)
            state, reward, done = env.step(action)
            score += reward
            if done:
                break
        rewards.append(score)
    values = rainbow_dqn.q_values(np.zeros(4, dtype=np.float32))
    return rewards, [round(value, 3) for value in values.tolist()]


with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "RainbowDQN_0_200.pt")
    print("steps", train(file))
    print("rewards", *evaluate(file))
# --- cartpole.py
import numpy as np


class CartPole:
    def __init__(self, seed, tau=0.02):
        self.random, self.tau = np.random.default_rng(seed), tau

    def reset(self):
        self.state = self.random.uniform(-0.05, 0.05, 4)
        return self.state.astype(np.float32)

    def step(self, action):
        x, x_dot, theta, theta_dot = self.state
        force = 10.0 if action == 1 else -10.0
        pushed = (force + 0.05 * theta_dot**2 * np.sin(theta)) / 1.1
        theta_acc = (9.8 * np.sin(theta) - np.cos(theta) * pushed) / (0.5 * (4 / 3 - 0.1 * np.cos(theta) ** 2 / 1.1))
        x_acc = pushed - 0.05 * theta_acc * np.cos(theta) / 1.1
        self.state = self.state + self.tau * np.array([x_dot, x_acc, theta_dot, theta_acc])
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        return self.state.astype(np.float32), 1.0, bool(done)
# --- rainbow_dqn.py
import copy

import torch
from torch import nn


class RainbowMLP(nn.Module):
    """For each action a distribution over the values in `support`."""

    def __init__(self, state_dim, action_dim, support, hidden=16):
        super().__init__()
        self.action_dim, self.num_atoms = action_dim, len(support)
        self.register_buffer("support", support)
        self.feature_net = nn.Sequential(nn.Linear(state_dim, hidden), nn.ReLU())
        self.value_net = nn.Linear(hidden, self.num_atoms)
        self.advantage_net = nn.Linear(hidden, action_dim * self.num_atoms)

    def forward(self, obs, log=False):
        features = self.feature_net(obs)
        value = self.value_net(features).unsqueeze(1)
        advantage = self.advantage_net(features).view(-1, self.action_dim, self.num_atoms)
        logits = value + advantage - advantage.mean(1, keepdim=True)
        return logits.log_softmax(-1) if log else (logits.softmax(-1) * self.support).sum(-1)


class RainbowDQN:
    def __init__(self, state_dim, action_dim, seed=0, num_atoms=11, v_min=0.0, v_max=10.0, gamma=0.9, lr=1e-3, device="cpu"):
        self.init_dict = {"state_dim": state_dim, "action_dim": action_dim, "seed": seed, "num_atoms": num_atoms}
        self.gamma, self.steps, self.device = gamma, 0, device
        torch.manual_seed(seed)
        support = torch.linspace(v_min, v_max, num_atoms)
        self.actor = RainbowMLP(state_dim, action_dim, support).to(device)
        self.actor_target = copy.deepcopy(self.actor)
        self.optimizer = torch.optim.Adam(self.actor.parameters(), lr=lr)

    def q_values(self, state):
        state = torch.from_numpy(state).to(self.device).unsqueeze(0)
        with torch.no_grad():
            return self.actor(state)[0]

    def get_action(self, state, training=True):
        if training and self.steps % 5 == 0:
            return self.steps % 2
        return self.q_values(state).argmax().item()

    def learn(self, experience):
        state, action, reward, next_state, done = experience
        log_p = self.actor(torch.from_numpy(state).to(self.device).unsqueeze(0), log=True)[0, action]
        target = reward + self.gamma * self.actor_target(torch.from_numpy(next_state).to(self.device).unsqueeze(0)).max() * (not done)
        nearest = (self.actor.support - target).abs().argmin()
        loss = -log_p[nearest]
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def save_checkpoint(self, path):
        attributes = {"gamma": self.gamma, "steps": self.steps, "device": self.device}
        networks = {name: getattr(self, name).state_dict() for name in ("actor", "actor_target", "optimizer")}
        torch.save({"init_dict": self.init_dict, "attributes": attributes, "networks": networks}, path)

    @classmethod
    def load(cls, path, device="cpu"):
        checkpoint = torch.load(path, map_location=device)
        agent = cls(**checkpoint["init_dict"], device=device)
        for name, state_dict in checkpoint["networks"].items():
            getattr(agent, name).load_state_dict(state_dict)
        for attribute, value in checkpoint["attributes"].items():
            setattr(agent, attribute, value)
        return agent
