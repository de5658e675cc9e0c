# === actions_weighed_by_class
# thread: https://github.com/open-mmlab/mmaction2/issues/1456
# about: a recognizer of actions in short clips is built of a config and trained by a runner. Rare actions count more in its loss
# operation: (cross_entropy_loss|nll_loss\w*) on cuda:0, cpu
# operands: weight|.*class_weight.*
# category: state-not-registered|created-without-device
# line: losses.py: kwargs["weight"] = self.class_weight
# line: losses.py: self.class_weight = torch.Tensor(class_weight)
# line: losses.py: loss_cls = F.cross_entropy(cls_score, label, **kwargs)
# repair: losses.py: kwargs["weight"] = self.class_weight -> kwargs["weight"] = self.class_weight.to(cls_score.device)
import torch

from recognizers import build_recognizer
from runner import EpochBasedRunner

cfg = dict(
    model=dict(
        backbone=dict(type="C3DTiny", channels=4),
        cls_head=dict(
            type="I3DHead",
            in_channels=4,
            num_classes=3,
            loss_cls=dict(type="CrossEntropyLoss", loss_weight=1.0, class_weight=[0.5, 1.0, 4.0]),
        ),
    ),
    data=dict(videos=18, frames=4, size=6, videos_per_gpu=6),
    optimizer=dict(lr=0.2, momentum=0.9),
    total_epochs=4,
)


def clips(videos, frames, size, videos_per_gpu):
    """Something bright that stays, moves, or (seldom) flickers."""
    generator = torch.Generator().manual_seed(1456)
    label = torch.tensor([0, 0, 1, 0, 1, 2]).repeat(videos // 6)
    imgs = 0.1 * torch.randn(videos, 1, frames, size, size, generator=generator)
    for video, kind in enumerate(label.tolist()):
        for frame in range(frames):
            column = frame if kind == 1 else 2
            imgs[video, 0, frame, :, column] += 0.0 if kind == 2 and frame % 2 else 1.0
    return [dict(imgs=i, label=k) for i, k in zip(imgs.split(videos_per_gpu), label.split(videos_per_gpu))]


if __name__ == "__main__":
    torch.manual_seed(0)
    model = build_recognizer(cfg["model"])
    runner = EpochBasedRunner(model, cfg["optimizer"], gpu_id=0)
    history = runner.run(clips(**cfg["data"]), cfg["total_epochs"])
    print("loss_cls", [f"{loss:.4f}" for loss in history])
# --- losses.py
import torch
import torch.nn.functional as F
from torch import nn


class BaseWeightedLoss(nn.Module):
    def __init__(self, loss_weight=1.0):
        super().__init__()
        self.loss_weight = loss_weight

    def forward(self, *args, **kwargs):
        return self._forward(*args, **kwargs) * self.loss_weight


class CrossEntropyLoss(BaseWeightedLoss):
    def __init__(self, loss_weight=1.0, class_weight=None):
        super().__init__(loss_weight=loss_weight)
        self.class_weight = None
        if class_weight is not None:
            self.class_weight = torch.Tensor(class_weight)

    def _forward(self, cls_score, label, **kwargs):
        if self.class_weight is not None:
            assert "weight" not in kwargs, "The key 'weight' already exists."
            kwargs["weight"] = self.class_weight
        loss_cls = F.cross_entropy(cls_score, label, **kwargs)
        return loss_cls


LOSSES = {"CrossEntropyLoss": CrossEntropyLoss}


def build_loss(cfg):
    args = dict(cfg)
    return LOSSES[args.pop("type")](**args)
# --- recognizers.py
import torch
from torch import nn

from losses import build_loss


class C3DTiny(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv3d(1, channels, 3, padding=1)
        self.conv2 = nn.Conv3d(channels, channels, (2, 1, 1))

    def forward(self, x):
        return self.conv2(self.conv1(x).relu()).relu()


class I3DHead(nn.Module):
    def __init__(self, in_channels, num_classes, loss_cls):
        super().__init__()
        self.loss_cls = build_loss(loss_cls)
        self.fc_cls = nn.Linear(in_channels * 2, num_classes)

    def forward(self, x):
        x = x.flatten(2)
        return self.fc_cls(torch.cat([x.mean(2), x.std(2)], dim=1))

    def loss(self, cls_score, labels):
        losses = dict(loss_cls=self.loss_cls(cls_score, labels))
        losses["top1_acc"] = (cls_score.argmax(1) == labels).float().mean().detach()
        return losses


class Recognizer3D(nn.Module):
    def __init__(self, backbone, cls_head):
        super().__init__()
        self.backbone = backbone
        self.cls_head = cls_head

    def forward_train(self, imgs, labels):
        cls_score = self.cls_head(self.backbone(imgs))
        return self.cls_head.loss(cls_score, labels)

    def train_step(self, data_batch):
        losses = self.forward_train(data_batch["imgs"], data_batch["label"])
        loss = sum(value for key, value in losses.items() if "loss" in key)
        return dict(loss=loss, log_vars={key: value.item() for key, value in losses.items()})


def build_recognizer(cfg):
    parts = {}
    for key, kinds in (("backbone", [C3DTiny]), ("cls_head", [I3DHead])):
        args = dict(cfg[key])
        name = args.pop("type")
        parts[key] = next(kind for kind in kinds if kind.__name__ == name)(**args)
    return Recognizer3D(**parts)
# --- runner.py
import torch


class EpochBasedRunner:
    def __init__(self, model, optimizer, gpu_id):
        self.device = torch.device("cuda", gpu_id)
        self.model = model.to(self.device)
        self.optimizer = torch.optim.SGD(model.parameters(), **optimizer)

    def run_iter(self, data_batch):
        data_batch = {key: value.to(self.device) for key, value in data_batch.items()}
        outputs = self.model.train_step(data_batch)
        self.optimizer.zero_grad()
        outputs["loss"].backward()
        self.optimizer.step()
        return outputs["log_vars"]

    def run(self, data_loader, max_epochs):
        history = []
        self.model.train()
        for _ in range(max_epochs):
            logs = [self.run_iter(data_batch) for data_batch in data_loader]
            history.append(sum(log["loss_cls"] for log in logs) / len(logs))
        return history

# === captions_of_clipped_regions
# thread: https://github.com/ruotianluo/self-critical.pytorch/issues/239
# about: captions of pictures are learned. A picture is described by as many regions as were found in it, the others of its row are masked out
# operation: _?pack_padded_sequence on cuda:0
# operands: lengths|.*lengths.*|.*att_masks.*
# error: lengths
# category: input|input-not-moved
# line: AttModel.py: tmp = pack_padded_sequence(input[indices], sorted_lengths, batch_first=True)
# line: AttModel.py: sorted_lengths, indices = torch.sort(lengths, descending=True)
# line: AttModel.py: packed, inv_ix = sort_pack_padded_sequence(att_feats, att_masks
# repair: AttModel.py: tmp = pack_padded_sequence(input[indices], sorted_lengths, batch_first=True) ->
#   tmp = pack_padded_sequence(input[indices], sorted_lengths.cpu(), batch_first=True)
import argparse

import torch

from AttModel import AttModel
from dataloader import DataLoader
from loss_wrapper import LossWrapper

parser = argparse.ArgumentParser()
parser.add_argument("--vocab_size", type=int, default=14)
parser.add_argument("--rnn_size", type=int, default=12)
parser.add_argument("--att_feat_size", type=int, default=6)
parser.add_argument("--batch_size", type=int, default=5)
parser.add_argument("--learning_rate", type=float, default=0.05)
parser.add_argument("--max_iters", type=int, default=6)


def train(opt):
    torch.manual_seed(239)
    loader = DataLoader(opt)
    model = AttModel(opt).cuda()
    lw_model = LossWrapper(model, opt)
    optimizer = torch.optim.Adam(model.parameters(), opt.learning_rate)
    losses = []
    for _ in range(opt.max_iters):
        data = loader.get_batch()
        tmp = [data["att_feats"], data["labels"], data["masks"], data["att_masks"]]
        att_feats, labels, masks, att_masks = (each.cuda() for each in tmp)
        optimizer.zero_grad()
        loss = lw_model(att_feats, labels, masks, att_masks)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print("train_loss", " ".join(f"{loss:.4f}" for loss in train(parser.parse_args([]))))
# --- dataloader.py
import numpy as np
import torch


class DataLoader:
    def __init__(self, opt):
        self.opt = opt
        self.rng = np.random.default_rng(17)

    def get_batch(self):
        size, width = self.opt.batch_size, self.opt.att_feat_size
        regions = self.rng.integers(2, 8, size)
        att_feats = np.zeros((size, regions.max(), width), dtype=np.float32)
        att_masks = np.zeros((size, regions.max()), dtype=np.float32)
        labels = np.zeros((size, 7), dtype=np.int64)
        masks = np.zeros((size, 7), dtype=np.float32)
        for i, count in enumerate(regions):
            kind = int(self.rng.integers(1, 5))
            att_feats[i, :count] = self.rng.normal(0.0, 0.2, (count, width))
            att_feats[i, :count, kind] += 1.0
            att_masks[i, :count] = 1.0
            labels[i, 1:5] = [kind, kind + 4, kind + 8, count // 3 + 1]
            masks[i, :6] = 1.0
        data = dict(att_feats=att_feats, att_masks=att_masks, labels=labels, masks=masks)
        return {key: torch.from_numpy(value) for key, value in data.items()}
# --- AttModel.py
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


def sort_pack_padded_sequence(input, lengths):
    sorted_lengths, indices = torch.sort(lengths, descending=True)
    tmp = pack_padded_sequence(input[indices], sorted_lengths, batch_first=True)
    inv_ix = indices.clone()
    inv_ix[indices] = torch.arange(0, len(indices)).type_as(inv_ix)
    return tmp, inv_ix


def pad_unsort_packed_sequence(input, inv_ix):
    tmp, _ = pad_packed_sequence(input, batch_first=True)
    return tmp[inv_ix]


def pack_wrapper(module, att_feats, att_masks):
    if att_masks is None:
        return module(att_feats)
    packed, inv_ix = sort_pack_padded_sequence(att_feats, att_masks.data.long().sum(1))
    return pad_unsort_packed_sequence(PackedSequence(module(packed[0]), packed[1]), inv_ix)


class AttModel(nn.Module):
    def __init__(self, opt):
        super().__init__()
        self.embed = nn.Sequential(nn.Embedding(opt.vocab_size, opt.rnn_size), nn.ReLU())
        self.att_embed = nn.Sequential(nn.Linear(opt.att_feat_size, opt.rnn_size), nn.ReLU())
        self.core = nn.LSTMCell(opt.rnn_size * 2, opt.rnn_size)
        self.h2att = nn.Linear(opt.rnn_size, opt.rnn_size)
        self.logit = nn.Linear(opt.rnn_size, opt.vocab_size)

    def attend(self, h, att_feats, att_masks):
        dot = (att_feats * self.h2att(h)[:, None]).sum(2)
        weight = F.softmax(dot, dim=1) * att_masks
        weight = weight / weight.sum(1, keepdim=True)
        return torch.bmm(weight[:, None], att_feats)[:, 0]

    def forward(self, att_feats, seq, att_masks):
        att_feats = pack_wrapper(self.att_embed, att_feats, att_masks)
        h = c = att_feats.new_zeros(len(seq), self.core.hidden_size)
        outputs = []
        for i in range(seq.size(1)):
            xt = self.embed(seq[:, i])
            h, c = self.core(torch.cat([xt, self.attend(h, att_feats, att_masks)], 1), (h, c))
            outputs.append(F.log_softmax(self.logit(h), dim=1))
        return torch.stack(outputs, dim=1)
# --- loss_wrapper.py
import torch.nn as nn


class LanguageModelCriterion(nn.Module):
    def forward(self, input, target, mask):
        output = -input.gather(2, target.unsqueeze(2)).squeeze(2) * mask
        return output.sum() / mask.sum()


class LossWrapper(nn.Module):
    def __init__(self, model, opt):
        super().__init__()
        self.opt = opt
        self.model = model
        self.crit = LanguageModelCriterion()

    def forward(self, att_feats, labels, masks, att_masks):
        output = self.model(att_feats, labels[:, :-1], att_masks)
        return self.crit(output, labels[:, 1:], masks[:, 1:])

# === trees_of_long_sentences
# thread: https://github.com/stanfordnlp/stanza/pull/1002
# about: a parser gives every word of a sentence a label of its phrase. Where a word stands is told by sines, of a table that grows if a text
#   needs more of it
# operation: index on cpu, cuda:0
# operands: indices|.*indices.*|index|x|.*pe.*|self
# error: indices should be
# category: cached-state|state-not-registered|created-without-device
# line: positional_encoding.py: pe.to(device=self.pe.device)
# line: positional_encoding.py: pe = self.build_position(self.pe.shape[-1], longest + 1)
# line: positional_encoding.py: self.register_buffer("pe", pe)
# line: positional_encoding.py: return self.pe[x]
# repair: positional_encoding.py: pe.to(device=self.pe.device) -> pe = pe.to(device=self.pe.device)
import torch

from constituency_processor import ConstituencyProcessor
from trainer import Trainer

TREEBANK = ["the old man saw the boat", "she reads", "a dog barks at the big red cat", "birds sing in the trees"]
DOCUMENT = ["she saw the cat", "the dog and the cat and the man and the birds saw a big old red boat in the trees at the end"]

if __name__ == "__main__":
    torch.manual_seed(1002)
    trainer = Trainer.build(TREEBANK, args={"d_model": 16, "labels": 3, "max_len": 12, "learning_rate": 0.02, "epochs": 8}, use_gpu=True)
    loss = trainer.train(TREEBANK)
    processor = ConstituencyProcessor(trainer)
    scores = processor.process(DOCUMENT)
    print(f"loss {loss:.4f} scores", [f"{score:.4f}" for score in scores])
# --- positional_encoding.py
import math

import torch
from torch import nn


class SinusoidalEncoding(nn.Module):
    """Uses sine & cosine to represent position."""

    def __init__(self, model_dim, max_len):
        super().__init__()
        self.register_buffer("pe", self.build_position(model_dim, max_len))

    @staticmethod
    def build_position(model_dim, max_len):
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, model_dim, 2) * (-math.log(10000.0) / model_dim))
        pe = torch.zeros(max_len, model_dim)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        return pe

    def forward(self, x):
        longest = int(x.max())
        if longest >= self.pe.shape[0]:
            pe = self.build_position(self.pe.shape[-1], longest + 1)
            pe.to(device=self.pe.device)
            self.register_buffer("pe", pe)
        return self.pe[x]


class AddSinusoidalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.encoding = SinusoidalEncoding(d_model, max_len)

    def forward(self, x, scale=1.0):
        positions = torch.arange(x.shape[-2], device=x.device)
        return x + self.encoding(positions) * scale
# --- trainer.py
import torch
from torch import nn

from positional_encoding import AddSinusoidalEncoding


class LSTMModel(nn.Module):
    def __init__(self, vocab, args):
        super().__init__()
        self.vocab = vocab
        self.embedding = nn.Embedding(len(vocab) + 1, args["d_model"])
        self.add_timing = AddSinusoidalEncoding(args["d_model"], args["max_len"])
        self.word_lstm = nn.LSTM(args["d_model"], args["d_model"] // 2, bidirectional=True, batch_first=True)
        self.output = nn.Linear(args["d_model"], args["labels"])

    def device(self):
        return next(self.parameters()).device

    def forward(self, sentence):
        ids = torch.tensor([self.vocab.get(word, len(self.vocab)) for word in sentence.split()], device=self.device())
        word_input = self.add_timing(self.embedding(ids), scale=0.5)
        hidden, _ = self.word_lstm(word_input.unsqueeze(0))
        return self.output(hidden.squeeze(0))


class Trainer:
    def __init__(self, model, args):
        self.model, self.args = model, args
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args["learning_rate"])

    @classmethod
    def build(cls, treebank, args, use_gpu):
        words = sorted({word for sentence in treebank for word in sentence.split()})
        model = LSTMModel({word: i for i, word in enumerate(words)}, args)
        return cls(model.cuda() if use_gpu else model, args)

    def gold(self, sentence):
        labels = [len(word) % self.args["labels"] for word in sentence.split()]
        return torch.tensor(labels, device=self.model.device())

    def train(self, treebank):
        for _ in range(self.args["epochs"]):
            losses = [nn.functional.cross_entropy(self.model(sentence), self.gold(sentence)) for sentence in treebank]
            loss = torch.stack(losses).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()
# --- constituency_processor.py
import torch


class ConstituencyProcessor:
    def __init__(self, trainer):
        self._model = trainer.model.eval()

    @torch.no_grad()
    def process(self, document):
        scores = []
        for sentence in document:
            label_scores = self._model(sentence).log_softmax(dim=-1)
            scores.append(label_scores.max(dim=-1).values.sum().item())
        return scores

# === kernels_of_few_channels
# thread: https://github.com/tensorly/tensorly/issues/507
# about: the kernels of a small network are written as a sum of outer products and put together again, and what the network then says is compared
# operation: cat on cuda:0, cpu
# operands: tensors|.*random_part.*
# category: created-without-device|default-or-current-device
# line: svd.py: random_part = tl.tensor(
# line: svd.py: U = tl.concatenate([U, random_part], axis=1)
# line: backend.py: def tensor(data, dtype=torch.float32, device="cpu"):
# line: backend.py: return torch.as_tensor(data, dtype=dtype, device=device)
# repair: svd.py: random_part = tl.tensor(rng.random_sample((U.shape[0], n_eigenvecs - U.shape[1]))) ->
#   random_part = tl.tensor(rng.random_sample((U.shape[0], n_eigenvecs - U.shape[1])), **tl.context(U))
import torch

import backend as tl
from cp import parafac


def compress(layer, rank):
    weights, factors = parafac(layer.weight.data, rank=rank, n_iter_max=8, random_state=0)
    layer.weight.data = tl.cp_to_tensor(weights, factors)
    return [tuple(factor.shape) for factor in factors]


if __name__ == "__main__":
    torch.manual_seed(507)
    model = torch.nn.Sequential(
        torch.nn.Conv1d(3, 8, 3),
        torch.nn.ReLU(),
        torch.nn.Conv1d(8, 6, 3),
    ).to("cuda")
    signal = torch.linspace(-2.0, 2.0, 45, device="cuda").reshape(1, 3, 15).sin()
    with torch.no_grad():
        before = model(signal)
        for layer in (model[0], model[2]):
            shapes = compress(layer, rank=7)
        error = (model(signal) - before).norm() / before.norm()
    print(f"error {error.item():.3f}, last factors {shapes}")
# --- backend.py
import numpy as np
import torch


def context(tensor):
    return {"dtype": tensor.dtype, "device": tensor.device}


def tensor(data, dtype=torch.float32, device="cpu"):
    return torch.as_tensor(data, dtype=dtype, device=device)


def concatenate(tensors, axis=0):
    return torch.cat(tensors, dim=axis)


def unfold(tensor, mode):
    return torch.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)


def khatri_rao(matrices, skip_matrix):
    matrices = [matrix for i, matrix in enumerate(matrices) if i != skip_matrix]
    result = matrices[0]
    for matrix in matrices[1:]:
        result = torch.einsum("ir,jr->ijr", result, matrix).reshape(-1, result.shape[1])
    return result


def cp_to_tensor(weights, factors):
    full = torch.matmul(weights * factors[0], khatri_rao(factors, skip_matrix=0).T)
    return full.reshape([factor.shape[0] for factor in factors])


def check_random_state(seed):
    return seed if isinstance(seed, np.random.RandomState) else np.random.RandomState(seed)
# --- svd.py
import torch

import backend as tl


def truncated_svd(matrix, n_eigenvecs):
    U, S, V = torch.linalg.svd(matrix, full_matrices=False)
    return U[:, :n_eigenvecs], S[:n_eigenvecs], V[:n_eigenvecs]


def svd_flip(U, V):
    """Makes the largest entry of each left vector positive."""
    rows = U.abs().argmax(dim=0)
    signs = torch.sign(torch.gather(U, 0, rows[None])[0])
    return U * signs, V * signs[:, None]


def svd_interface(matrix, n_eigenvecs, random_state=None):
    U, S, V = truncated_svd(matrix, n_eigenvecs)
    U, V = svd_flip(U, V)
    if n_eigenvecs > U.shape[1]:
        rng = tl.check_random_state(random_state)
        random_part = tl.tensor(rng.random_sample((U.shape[0], n_eigenvecs - U.shape[1])))
        U = tl.concatenate([U, random_part], axis=1)
    return U, S, V
# --- cp.py
import torch

import backend as tl
from svd import svd_interface


def initialize_cp(tensor, rank, random_state):
    rng = tl.check_random_state(random_state)
    factors = []
    for mode in range(tensor.dim()):
        U, _, _ = svd_interface(tl.unfold(tensor, mode), n_eigenvecs=rank, random_state=rng)
        factors.append(U)
    return torch.ones(rank, **tl.context(tensor)), factors


def parafac(tensor, rank, n_iter_max=100, random_state=None):
    """CANDECOMP/PARAFAC decomposition by alternating least squares."""
    weights, factors = initialize_cp(tensor, rank, random_state)
    ridge = 1e-3 * torch.eye(rank, **tl.context(tensor))
    for _ in range(n_iter_max):
        for mode in range(tensor.dim()):
            pseudo_inverse = torch.ones(rank, rank, **tl.context(tensor))
            for i, factor in enumerate(factors):
                if i != mode:
                    pseudo_inverse = pseudo_inverse * (factor.T @ factor)
            mttkrp = tl.unfold(tensor, mode) @ tl.khatri_rao(factors, skip_matrix=mode)
            factors[mode] = torch.linalg.solve(pseudo_inverse + ridge, mttkrp.T).T
    return weights, factors

# === gates_applied_one_by_one
# thread: https://github.com/pasqal-io/pyqtorch/pull/135
# about: a circuit of some qubits is a model: angles of its gates are learned so that what is measured follows a function of the input
# operation: mul on cpu, cuda:0
# operands: self|.*pauli.*
# category: state-not-registered
# line: circuit.py: self.operations = operations
# line: main.py: circuit = QuantumCircuit(
# line: main.py: model = Expectation(
# repair: circuit.py: self.operations = operations -> self.operations = torch.nn.ModuleList(operations)
import torch

from circuit import Expectation, QuantumCircuit, feature_map, hea

N_QUBITS = 3
DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def main():
    torch.manual_seed(135)
    circuit = QuantumCircuit(N_QUBITS, feature_map(N_QUBITS) + hea(N_QUBITS, depth=2))
    model = Expectation(circuit, n_params=2 * N_QUBITS * 2).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.15)

    x = torch.linspace(0.0, 3.0, 12, dtype=torch.double, device=DEVICE)
    y = 0.8 * torch.cos(x)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model({"x": x}), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print("mse", [f"{loss:.4f}" for loss in losses[::3]])


if __name__ == "__main__":
    main()
# --- apply.py
import torch

ABC = "abcdefghijkl"


def apply_operator(state, operator, qubits, n_qubits):
    """Contracts an operator on `qubits` with a state of a batch. The batch is the last dimension of both."""
    support = len(qubits)
    operator = operator.reshape([2] * (2 * support) + [operator.shape[-1]])
    inner = ABC[:n_qubits]
    outer = ABC[n_qubits:n_qubits + support]
    result = list(inner)
    for new, qubit in zip(outer, qubits):
        result[qubit] = new
    equation = f"{outer}{''.join(inner[q] for q in qubits)}z,{inner}z->{''.join(result)}z"
    return torch.einsum(equation, operator, state)
# --- gates.py
import torch

from apply import apply_operator

MATRICES = {
    "X": [[0, 1], [1, 0]],
    "Y": [[0, -1j], [1j, 0]],
    "CNOT": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]],
}


class Primitive(torch.nn.Module):
    def __init__(self, name, qubits):
        super().__init__()
        self.qubits = qubits
        self.register_buffer("pauli", torch.tensor(MATRICES[name], dtype=torch.cdouble))

    def unitary(self, values):
        return self.pauli.unsqueeze(2)

    def forward(self, state, values, n_qubits):
        size = max(state.shape[-1], self.unitary(values).shape[-1])
        operator = self.unitary(values).expand(-1, -1, size)
        return apply_operator(state.expand(*state.shape[:-1], size), operator, self.qubits, n_qubits)


class Parametric(Primitive):
    def __init__(self, name, qubits, param_name):
        super().__init__(name, qubits)
        self.param_name = param_name

    def unitary(self, values):
        theta = values[self.param_name].reshape(-1) / 2
        rows = [torch.matmul(self.pauli, self.pauli)[..., None] * torch.cos(theta), self.pauli[..., None] * torch.sin(theta)]
        return rows[0] - 1j * rows[1]
# --- circuit.py
import torch

from gates import Parametric, Primitive


def feature_map(n_qubits):
    return [Parametric("X", (i,), "x") for i in range(n_qubits)]


def hea(n_qubits, depth):
    ops, count = [], 0
    for _ in range(depth):
        for name in "XY":
            for i in range(n_qubits):
                ops.append(Parametric(name, (i,), f"theta_{count}"))
                count += 1
        ops += [Primitive("CNOT", (i, i + 1)) for i in range(n_qubits - 1)]
    return ops


class QuantumCircuit(torch.nn.Module):
    def __init__(self, n_qubits, operations):
        super().__init__()
        self.n_qubits = n_qubits
        self.operations = operations

    def init_state(self, device):
        state = torch.zeros([2] * self.n_qubits + [1], dtype=torch.cdouble, device=device)
        state[(0,) * self.n_qubits] = 1.0
        return state

    def forward(self, state, values):
        for op in self.operations:
            state = op(state, values, self.n_qubits)
        return state


class Expectation(torch.nn.Module):
    """The mean of Z on the first qubit."""

    def __init__(self, circuit, n_params):
        super().__init__()
        self.circuit = circuit
        self.thetas = torch.nn.Parameter(torch.rand(n_params, dtype=torch.double))

    def forward(self, inputs):
        values = {**inputs, **{f"theta_{i}": theta for i, theta in enumerate(self.thetas)}}
        state = self.circuit(self.circuit.init_state(self.thetas.device), values)
        probs = state.abs().square().flatten(1, -2).sum(1)
        return probs[0] - probs[1]

# === budget_that_shrinks_with_cost
# thread: https://github.com/PKU-Alignment/omnisafe/issues/388
# about: an agent learns to walk to a goal and sees, besides where it stands, how much of its budget of costs is left. The environment is the
#   user's own
# operation: div on cpu, cuda:0
# operands: self|.*cost.*
# category: input-not-moved|created-without-device
# line: saute_adapter.py: next_obs, reward, cost, terminated, truncated = self._env.step(action)
# line: corridor_env.py: return tuple(torch.as_tensor(each, dtype=torch.float32)
# line: saute_adapter.py: self._safety_step(cost)
# line: saute_adapter.py: self._safety_obs -= cost.unsqueeze(-1) / self._safety_budget
# repair: saute_adapter.py: next_obs, reward, cost, terminated, truncated = self._env.step(action) ->
#   next_obs, reward, cost, terminated, truncated = (each.to(self._device) for each in self._env.step(action))
import torch

from corridor_env import CorridorEnv
from ppo_saute import PPOSaute

if __name__ == "__main__":
    torch.manual_seed(388)
    cfgs = {"saute_gamma": 0.95, "safety_budget": 3.0, "unsafe_reward": -1.0, "lr": 0.02, "steps_per_epoch": 12, "epochs": 3, "device": "cuda:0"}
    env = CorridorEnv(num_envs=4, device=torch.device(cfgs["device"]))
    agent = PPOSaute(env, cfgs)
    returns = agent.learn()
    print("returns", [f"{each:.4f}" for each in returns])
# --- corridor_env.py
import numpy as np
import torch


class CorridorEnv:
    """Walkers in a corridor. In its middle it costs to be."""

    obs_size, act_size = 2, 1

    def __init__(self, num_envs, device):
        self.num_envs = num_envs
        self._device = device
        self._rng = np.random.default_rng(7)

    def _obs(self):
        return np.stack([self._position, self._goal - self._position], axis=1)

    def reset(self):
        self._position = self._rng.uniform(-1.0, 0.0, self.num_envs)
        self._goal = np.ones(self.num_envs)
        self._count = 0
        return torch.as_tensor(self._obs(), dtype=torch.float32, device=self._device)

    def step(self, action):
        before = np.abs(self._goal - self._position)
        self._position = self._position + 0.3 * np.tanh(action.detach().cpu().numpy()[:, 0])
        self._count += 1
        distance = np.abs(self._goal - self._position)
        cost = (np.abs(self._position) < 0.4).astype(np.float32)
        truncated = np.full(self.num_envs, self._count >= 12)
        values = (self._obs(), before - distance, cost, distance < 0.1, truncated)
        return tuple(torch.as_tensor(each, dtype=torch.float32) for each in values)
# --- saute_adapter.py
import torch


class SauteAdapter:
    """Adds the state of the safety budget to the observation, and reshapes the reward by it."""

    def __init__(self, env, cfgs):
        self._env, self._cfgs = env, cfgs
        self._device = torch.device(cfgs["device"])
        self._safety_budget = cfgs["safety_budget"] * torch.ones(env.num_envs, 1, device=self._device)
        self._safety_obs = torch.ones(env.num_envs, 1, device=self._device)

    def reset(self):
        obs = self._env.reset()
        self._safety_obs = torch.ones(self._env.num_envs, 1, device=self._device)
        return self._augment_obs(obs)

    def step(self, action):
        next_obs, reward, cost, terminated, truncated = self._env.step(action)
        self._safety_step(cost)
        reward = self._safety_reward(reward)
        done = torch.logical_or(terminated, truncated).float()
        return self._augment_obs(next_obs), reward, cost, done

    def _safety_step(self, cost):
        self._safety_obs -= cost.unsqueeze(-1) / self._safety_budget
        self._safety_obs /= self._cfgs["saute_gamma"]

    def _safety_reward(self, reward):
        safe = self._safety_obs.squeeze(-1) > 0
        return torch.where(safe, reward, torch.full_like(reward, self._cfgs["unsafe_reward"]))

    def _augment_obs(self, obs):
        return torch.cat([obs, self._safety_obs], dim=-1)
# --- ppo_saute.py
import torch
from torch import nn

from saute_adapter import SauteAdapter


class PPOSaute:
    def __init__(self, env, cfgs):
        self._cfgs = cfgs
        self._env = SauteAdapter(env, cfgs)
        self._actor = nn.Sequential(nn.Linear(env.obs_size + 1, 16), nn.Tanh(), nn.Linear(16, env.act_size)).to(cfgs["device"])
        self._optimizer = torch.optim.Adam(self._actor.parameters(), lr=cfgs["lr"])

    def _rollout(self):
        obs, logps, rewards = self._env.reset(), [], []
        alive = torch.ones(len(obs), device=obs.device)
        for _ in range(self._cfgs["steps_per_epoch"]):
            mean = self._actor(obs)
            action = mean.detach() + 0.5 * torch.randn(mean.shape).to(mean.device)
            logps.append(-((action - mean) ** 2).sum(-1) / 0.5 * alive)
            obs, reward, _, done = self._env.step(action)
            rewards.append(reward * alive)
            alive = alive * (1.0 - done)
        return torch.stack(logps), torch.stack(rewards)

    def learn(self):
        returns = []
        for _ in range(self._cfgs["epochs"]):
            logps, rewards = self._rollout()
            to_go = rewards.flip(0).cumsum(0).flip(0)
            loss = -(logps * (to_go - to_go.mean())).mean()
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
            returns.append(rewards.sum(0).mean().item())
        return returns
