# === what_comes_later_in_a_signal
# thread: https://github.com/talipucar/CPC/issues/1
# about: an encoder and a recurrent net learn a signal by telling its later parts from those of other signals. The options say which device to take
# operation: gru|_VF\.gru|_cudnn_rnn on cuda:0, cpu
# operands: hx|hidden|.*hidden.*
# error: Input and hidden tensors are not at the same device
# category: created-without-device
# line: model.py: hidden = th.zeros(
# line: model.py: encoder_samples, predictions, hidden = self.cpc(
# line: model_utils.py: output, hidden = self.gru(
# repair: model.py: hidden = th.zeros(2, bs, self.options["conv_dims"][-1]) -> hidden = th.zeros((2, bs, self.options["conv_dims"][-1]), device=self.device)
import torch as th

from load_data import Loader
from model import CPCModel

options = {
    "device": "cuda:0" if th.cuda.is_available() else "cpu",
    "conv_dims": [[1, 6, 4, 2, 1], [6, 6, 4, 2, 1], 6],
    "time_steps": 3,
    "batch_size": 8,
    "sequence_length": 48,
    "downsampling_factor": 4,
    "epochs": 2,
    "learning_rate": 5e-3,
}


def main(config):
    th.manual_seed(1)
    data_loader = Loader(config)
    encoder = CPCModel(config)
    encoder.fit(data_loader)
    losses = encoder.loss["tloss_b"]
    print(f"{len(losses)} batches, first {losses[0]:.3f}, last {losses[-1]:.3f}, right {sum(encoder.loss['acc_b']) / len(losses):.3f}")


if __name__ == "__main__":
    main(options)
# --- model.py
import torch as th

from loss_functions import cpc_loss
from model_utils import CPC


class CPCModel:
    """Training of contrastive predictive coding."""

    def __init__(self, options):
        self.options = options
        self.device = options["device"]
        self.loss = {"tloss_b": [], "acc_b": []}
        self.set_cpc()

    def set_cpc(self):
        self.cpc = CPC(self.options)
        self.cpc.to(self.device)
        self.optimizer_cpc = th.optim.Adam(self.cpc.parameters(), lr=self.options["learning_rate"])

    def fit(self, data_loader):
        bs = self.options["batch_size"]
        self.cpc.train()
        for _ in range(self.options["epochs"]):
            for Xbatch in data_loader.train_loader:
                Xbatch = self.process_batch(Xbatch)
                hidden = th.zeros(2, bs, self.options["conv_dims"][-1])
                encoder_samples, predictions, hidden = self.cpc(Xbatch, hidden)
                loss, accuracy = cpc_loss(encoder_samples, predictions, self.options)
                self.loss["tloss_b"].append(loss.item())
                self.loss["acc_b"].append(accuracy)
                self.update_model(loss, self.optimizer_cpc)

    def update_model(self, loss, optimizer):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def process_batch(self, Xbatch):
        return Xbatch.float().unsqueeze(1).to(self.device)
# --- model_utils.py
import torch as th
from torch import nn


class CPC(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.dims = options["conv_dims"]
        self.ts, self.bs = options["time_steps"], options["batch_size"]
        self.hindex = options["sequence_length"] // options["downsampling_factor"] - self.ts - 2
        self.encoder = CPCEncoder(self.dims[:-1])
        self.gru = nn.GRU(input_size=self.dims[-1], hidden_size=self.dims[-1], num_layers=2, batch_first=True)
        self.wk = nn.ModuleList([nn.Linear(self.dims[-1], self.dims[-1]) for _ in range(self.ts)])

    def forward(self, x, hidden):
        encoder_samples, predictions = [], []
        time_sample = int(th.randint(low=0, high=self.hindex, size=(1,)))
        z = self.encoder(x).transpose(1, 2)
        for k in range(1, self.ts + 1):
            encoder_samples.append(z[:, time_sample + k, :])
        prior_sequence = z[:, : time_sample + 1, :]
        output, hidden = self.gru(prior_sequence, hidden)
        ct = output[:, time_sample, :].view(self.bs, -1)
        for k in range(self.ts):
            predictions.append(self.wk[k](ct))
        return th.stack(encoder_samples), th.stack(predictions), hidden


class CPCEncoder(nn.Module):
    def __init__(self, convolution_layers):
        super().__init__()
        self.layers = nn.ModuleList()
        for i, o, k, s, p in convolution_layers:
            self.layers.extend([nn.Conv1d(i, o, k, stride=s, padding=p), nn.LeakyReLU()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
# --- loss_functions.py
import torch as th


def cpc_loss(encoder_samples, predictions, options):
    """Of each step the right sample is to be found among those of the batch."""
    loss, correct = 0, 0
    labels = th.arange(options["batch_size"], device=predictions.device)
    for sample, prediction in zip(encoder_samples, predictions):
        scores = sample @ prediction.t()
        loss = loss + th.nn.functional.cross_entropy(scores.t(), labels)
        correct += (scores.argmax(dim=0) == labels).sum().item()
    return loss / len(predictions), correct / (len(predictions) * options["batch_size"])
# --- load_data.py
import torch as th
from torch.utils.data import DataLoader


class Loader:
    def __init__(self, options, n=24):
        times = th.arange(options["sequence_length"]) / 6
        self.signals = th.stack([th.sin((1 + 0.1 * i) * times + i) for i in range(n)])
        self.train_loader = DataLoader(self.signals, batch_size=options["batch_size"], shuffle=False, drop_last=True)

# === molecules_of_another_domain
# thread: https://github.com/tencent-ailab/DrugOOD/issues/6
# about: molecules are read by a graph network that a config builds by name. The config says which of two GPUs to take
# operation: mm|matmul|linear on cuda:0, cuda:1
# operands: self|input|mat1|node_feats|.*node_feats.*
# category: default-or-current-device|input-not-moved
# line: gat.py: input = move_to_device(input)
# line: misc.py: device = torch.device("cuda")
# line: main.py: device = torch.device("cuda", cfg
# repair: gat.py: input = move_to_device(input) -> input = move_to_device(input, next(self.parameters()).device)
import torch

from builder import MODELS
from classifier import Classifier
from gat import GAT
from misc import MolGraph

cfg = {"gpu_ids": [1], "model": {"type": Classifier.__name__, "num_classes": 2}}
cfg["model"]["backbone"] = {"type": GAT.__name__, "in_feats": 4, "hidden_feats": 6, "num_layers": 2}
cfg.update(optimizer={"lr": 0.05}, epochs=4)


def molecules():
    """Rings and chains; the class is which of both."""
    graphs, labels = [], []
    for i in range(8):
        n, ring = 4 + i % 3, i % 2
        src = torch.arange(n if ring else n - 1)
        edges = torch.stack([src, (src + 1) % n])
        atoms = torch.nn.functional.one_hot((torch.arange(n) * (i + 1)) % 4, 4).float()
        graphs.append(MolGraph(atoms, torch.cat([edges, edges.flip(0)], dim=1)))
        labels.append(ring)
    return MolGraph.batch(graphs), torch.tensor(labels)


def train_model(model, data, labels, cfg):
    optimizer = torch.optim.Adam(model.parameters(), **cfg["optimizer"])
    for _ in range(cfg["epochs"]):
        loss = model(input=data, gt_label=labels)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(6)
    device = torch.device("cuda", cfg["gpu_ids"][0]) if torch.cuda.is_available() else torch.device("cpu")
    model = MODELS.build(cfg["model"]).to(device)
    data, labels = molecules()
    loss = train_model(model, data, labels, cfg)
    with torch.no_grad():
        scores = model.simple_test(data).softmax(dim=-1)[:, 1].cpu()
    print(f"{loss:.3f}", " ".join(f"{score:.3f}" for score in scores.tolist()))


if __name__ == "__main__":
    main()
# --- builder.py
class Registry:
    def __init__(self):
        self.classes = {}

    def register_module(self):
        def register(cls):
            self.classes[cls.__name__] = cls
            return cls

        return register

    def build(self, cfg):
        args = dict(cfg)
        return self.classes[args.pop("type")](**args)


MODELS = Registry()
# --- misc.py
import dataclasses

import torch


@dataclasses.dataclass
class MolGraph:
    x: torch.Tensor
    edges: torch.Tensor
    graph_of: torch.Tensor = None

    @staticmethod
    def batch(graphs):
        sizes = torch.tensor([len(g.x) for g in graphs])
        offsets = torch.cumsum(sizes, 0) - sizes
        edges = torch.cat([g.edges + offset for g, offset in zip(graphs, offsets)], dim=1)
        return MolGraph(torch.cat([g.x for g in graphs]), edges, torch.repeat_interleave(torch.arange(len(graphs)), sizes))

    def to(self, device):
        return MolGraph(self.x.to(device), self.edges.to(device), self.graph_of.to(device))


def move_to_device(obj, device=None):
    if device is None:
        device = torch.device("cuda")
    if isinstance(obj, dict):
        return {k: move_to_device(v, device) for k, v in obj.items()}
    if isinstance(obj, list):
        return [move_to_device(v, device) for v in obj]
    if isinstance(obj, (float, int)):
        return obj
    return obj.to(device)
# --- gat.py
import torch
from torch import nn

from builder import MODELS
from misc import move_to_device


class Attention(nn.Module):
    def __init__(self, feats):
        super().__init__()
        self.value = nn.Linear(feats, feats, bias=False)
        self.gate = nn.Linear(2 * feats, 1)

    def forward(self, h, edges):
        src, dst = edges
        weight = torch.sigmoid(self.gate(torch.cat([h[src], h[dst]], dim=-1)))
        return torch.relu(h + torch.zeros_like(h).index_add(0, dst, weight * self.value(h[src])))


@MODELS.register_module()
class GAT(nn.Module):
    def __init__(self, in_feats, hidden_feats, num_layers):
        super().__init__()
        self.out_feats = hidden_feats
        self.embed = nn.Linear(in_feats, hidden_feats, bias=False)
        self.layers = nn.ModuleList([Attention(hidden_feats) for _ in range(num_layers)])

    def forward(self, input):
        input = move_to_device(input)
        node_feats = input.x
        node_feats = torch.relu(self.embed(node_feats))
        for layer in self.layers:
            node_feats = layer(node_feats, input.edges)
        pooled = node_feats.new_zeros(int(input.graph_of.max()) + 1, self.out_feats)
        return pooled.index_add(0, input.graph_of, node_feats)
# --- classifier.py
from torch import nn

from builder import MODELS


@MODELS.register_module()
class Classifier(nn.Module):
    def __init__(self, backbone, num_classes):
        super().__init__()
        self.backbone = MODELS.build(backbone)
        self.head = nn.Linear(self.backbone.out_feats, num_classes)

    def forward(self, input, gt_label):
        cls_score = self.head(self.backbone(input))
        return {"loss": nn.functional.cross_entropy(cls_score, gt_label.to(cls_score.device))}

    def simple_test(self, input):
        return self.head(self.backbone(input))

# === energies_with_a_stopwatch
# thread: https://github.com/ORNL/HydraGNN/pull/251
# about: a net of atoms learns energies. How long the parts of a step take can be traced, at several levels
# operation: embedding|index_select on cuda:0, cpu
# operands: index|indices|.*data.*
# category: input-not-moved
# line: train_validate_test.py: data = data.to(get_device()) if traced else data
# line: train_validate_test.py: for data in iterate_tqdm(
# repair: train_validate_test.py: data = data.to(get_device()) if traced else data -> data = data.to(get_device())
import torch

from atoms import AtomLoader, small_molecules
from base import SCFBase
from train_validate_test import train_validate_test
from utils import get_device

config = {"num_epoch": 2, "batch_size": 4, "hidden_dim": 8, "learning_rate": 0.02, "trace_level": 0}


def run_training(config):
    torch.manual_seed(251)
    loader = AtomLoader(small_molecules(12), config["batch_size"])
    model = SCFBase(num_elements=10, hidden_dim=config["hidden_dim"]).to(get_device())
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learning_rate"])
    history = train_validate_test(model, optimizer, loader, config)
    print(" ".join(f"{loss:.3f}" for loss in history))


if __name__ == "__main__":
    run_training(config)
# --- utils.py
import contextlib
import time

import torch


def get_device(use_gpu=True, rank_per_model=1, local_rank=0):
    if use_gpu and torch.cuda.is_available():
        return torch.device("cuda", local_rank // rank_per_model % torch.cuda.device_count())
    return torch.device("cpu")


class Tracer:
    def __init__(self):
        self.regions = {}

    @contextlib.contextmanager
    def region(self, name, enabled=True):
        """The time of what is done inside, if it is to be known."""
        begin = time.perf_counter()
        yield enabled
        if enabled:
            self.regions[name] = self.regions.get(name, 0.0) + time.perf_counter() - begin


tr = Tracer()
# --- train_validate_test.py
import torch

from utils import get_device, tr


def iterate_tqdm(loader, verbosity=0):
    for step, data in enumerate(loader):
        if verbosity > 0:
            print("step", step)
        yield data


def train(loader, model, opt, verbosity, trace_level=0):
    total_error, num_samples = 0.0, 0
    model.train()
    for data in iterate_tqdm(loader, verbosity):
        opt.zero_grad()
        with tr.region("h2d", enabled=trace_level > 0) as traced:
            data = data.to(get_device()) if traced else data
        with tr.region("forward", enabled=trace_level > 0):
            pred = model(data)
            loss = model.loss(pred, data.y)
        with tr.region("backward", enabled=trace_level > 0):
            loss.backward()
        opt.step()
        total_error += loss.item() * data.num_graphs
        num_samples += data.num_graphs
    return total_error / num_samples


@torch.no_grad()
def validate(loader, model, verbosity):
    total_error, num_samples = 0.0, 0
    model.eval()
    for data in iterate_tqdm(loader, verbosity):
        data = data.to(get_device())
        total_error += model.loss(model(data), data.y).item() * data.num_graphs
        num_samples += data.num_graphs
    return total_error / num_samples


def train_validate_test(model, optimizer, loader, config, verbosity=0):
    history = []
    for _ in range(config["num_epoch"]):
        history.append(train(loader, model, optimizer, verbosity, config["trace_level"]))
        history.append(validate(loader, model, verbosity))
    return history
# --- atoms.py
import dataclasses

import torch


@dataclasses.dataclass
class Data:
    z: torch.Tensor
    pos: torch.Tensor
    y: torch.Tensor

    @property
    def num_graphs(self):
        return len(self.y)

    def to(self, device):
        return Data(self.z.to(device), self.pos.to(device), self.y.to(device))


def small_molecules(n, atoms=5):
    molecules = []
    for i in range(n):
        z = (torch.arange(atoms) * (i + 2)) % 9 + 1
        angle = torch.arange(atoms) * (0.7 + 0.05 * i)
        pos = torch.stack([angle.cos(), angle.sin(), 0.3 * torch.arange(atoms)], dim=-1)
        molecules.append(Data(z, pos, z.sum().float() / 20))
    return molecules


class AtomLoader:
    def __init__(self, molecules, batch_size):
        self.molecules, self.batch_size = molecules, batch_size

    def __iter__(self):
        for begin in range(0, len(self.molecules), self.batch_size):
            part = self.molecules[begin : begin + self.batch_size]
            yield Data(*(torch.stack([getattr(m, name) for m in part]) for name in ("z", "pos", "y")))
# --- base.py
import torch
from torch import nn


class SCFBase(nn.Module):
    def __init__(self, num_elements, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(num_elements, hidden_dim)
        self.interaction = nn.Linear(hidden_dim, hidden_dim)
        self.energy = nn.Linear(hidden_dim, 1)

    def forward(self, data):
        h = self.embedding(data.z)
        weight = torch.exp(-(data.pos.unsqueeze(1) - data.pos.unsqueeze(2)).square().sum(-1))
        h = h + torch.tanh(self.interaction(weight @ h))
        return self.energy(h).sum(dim=(1, 2))

    def loss(self, pred, value):
        return nn.functional.mse_loss(pred, value)

# === classes_divided_among_cards
# thread: https://github.com/zhongyy/Face-Transformer/issues/37
# about: faces are told apart by a small transformer. The weights of the many persons are divided among the cards that are named, and joined again
# operation: scatter_ on cuda:0, cuda:1
# operands: index|label|.*label.*
# category: input-not-moved|module-split
# line: sface.py: one_hot.scatter_(
# line: config.py: "DEVICE":
# line: train.py: labels = labels.to(
# line: train.py: outputs, loss = backbone(
# repair: sface.py: one_hot.scatter_(1, label.view(-1, 1), 1) -> one_hot.scatter_(1, label.cuda(self.device_id[0]).view(-1, 1), 1)
import torch

from config import get_config
from train import faces, train_epoch
from vit_face import ViTFace


def main():
    cfg = get_config(workers_id="0,1")
    torch.manual_seed(cfg["SEED"])
    backbone = ViTFace(
        gpu_id=cfg["GPU_ID"], num_class=cfg["NUM_CLASS"], image_size=8, patch_size=4, dim=cfg["EMBEDDING_SIZE"], depth=2, heads=2
    )
    backbone = backbone.to(cfg["DEVICE"])
    optimizer = torch.optim.AdamW(backbone.parameters(), lr=5e-3)
    for epoch in range(cfg["NUM_EPOCH"]):
        loss, top = train_epoch(backbone, optimizer, faces(cfg["NUM_CLASS"], cfg["BATCH_SIZE"]), cfg["DEVICE"])
        print("Epoch", epoch)
    print(f"loss {loss:.3f} best cosine {top:.3f}")


if __name__ == "__main__":
    main()
# --- config.py
import torch


def get_config(workers_id):
    return {
        "SEED": 37,
        "GPU_ID": [int(i) for i in workers_id.split(",")],
        "DEVICE": torch.device("cuda:1"),
        "EMBEDDING_SIZE": 8,
        "NUM_CLASS": 6,
        "BATCH_SIZE": 6,
        "NUM_EPOCH": 2,
    }
# --- train.py
import torch


def faces(num_class, batch_size, batches=3):
    """Each person is a slope of grey of another direction."""
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8), indexing="ij")
    for b in range(batches):
        labels = (torch.arange(batch_size) + b) % num_class
        angle = labels.view(-1, 1, 1) * 1.0
        yield (angle.cos() * xs + angle.sin() * ys + 0.1 * b).unsqueeze(1), labels


def train_epoch(backbone, optimizer, loader, device):
    backbone.train()
    for inputs, labels in loader:
        inputs = inputs.to(device)
        labels = labels.to(device).long()
        outputs, loss = backbone(inputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item(), outputs.max().item() / backbone.loss.s
# --- sface.py
import torch
import torch.nn.functional as F
from torch import nn


class SFaceLoss(nn.Module):
    """The weight of the classes is cut in as many parts as there are ids in device_id."""

    def __init__(self, in_features, out_features, device_id, s=16.0, k=10.0, a=0.8, b=1.22):
        super().__init__()
        self.device_id = device_id
        self.s, self.k, self.a, self.b = s, k, a, b
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        nn.init.xavier_normal_(self.weight, gain=2)

    def cosine_of(self, x):
        sub_weights = torch.chunk(self.weight, len(self.device_id), dim=0)
        parts = []
        for i, sub_weight in zip(self.device_id, sub_weights):
            part = F.linear(F.normalize(x.cuda(i)), F.normalize(sub_weight.cuda(i)))
            parts.append(part.cuda(self.device_id[0]))
        return torch.cat(parts, dim=1)

    def forward(self, input, label):
        cosine = self.cosine_of(input)
        output = cosine * self.s
        one_hot = torch.zeros(cosine.size()).cuda(self.device_id[0])
        one_hot.scatter_(1, label.view(-1, 1), 1)
        theta = torch.acos(cosine.detach().clamp(-0.999, 0.999))
        pull = torch.sigmoid(self.k * (theta - self.a)) * one_hot
        push = torch.sigmoid(self.k * (self.b - theta)) * (1.0 - one_hot)
        loss = (-(pull * output).sum(dim=1) + (push * output).sum(dim=1)).mean()
        return output, loss
# --- vit_face.py
import torch
from torch import nn

from sface import SFaceLoss


class ViTFace(nn.Module):
    def __init__(self, *, gpu_id, num_class, image_size, patch_size, dim, depth, heads):
        super().__init__()
        num_patches = (image_size // patch_size) ** 2
        self.unfold = nn.Unfold(patch_size, stride=patch_size)
        self.patch_to_embedding = nn.Linear(patch_size**2, dim)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.pos_embedding = nn.Parameter(0.1 * torch.randn(1, num_patches + 1, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True)
        self.transformer = nn.TransformerEncoder(layer, depth)
        self.mlp_head = nn.LayerNorm(dim)
        self.loss = SFaceLoss(dim, num_class, device_id=gpu_id)

    def forward(self, img, label):
        x = self.patch_to_embedding(self.unfold(img).transpose(1, 2))
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embedding
        return self.loss(self.mlp_head(self.transformer(x)[:, 0]), label)

# === a_picture_among_the_words
# thread: https://github.com/OpenBMB/MiniCPM-V/issues/100
# about: a small model that sees and writes is spread over two GPUs by a map of its modules. What it sees is put in the place of some words
# operation: scatter_ on cuda:0, cuda:0, cuda:1
# operands: src|.*vision_hidden_states.*|cur_vision.*
# category: module-split
# line: modeling_minicpmv.py: cur_vllm_emb.scatter_(
# line: modeling_minicpmv.py: cur_vision = vision_hidden_states[i]
# line: modeling_minicpmv.py: vision_hidden_states = self.get_vision_embedding(
# line: modeling_minicpmv.py: return self.resampler(
# line: main.py: device_map =
# repair: modeling_minicpmv.py: cur_vllm_emb.scatter_(0, rows, cur_vision.view(-1, width)) ->
#   cur_vllm_emb.scatter_(0, rows, cur_vision.view(-1, width).to(cur_vllm_emb.device))
import torch
from accelerate import dispatch_model

from modeling_minicpmv import MiniCPMV, MiniCPMVConfig
from processing import encode

QUESTIONS = ["what is in the picture", "is it dark"]


def load(config):
    torch.manual_seed(100)
    model = MiniCPMV(config).eval()
    if torch.cuda.device_count() < 2:
        return model
    device_map = {"llm": 0, "vpm": 1, "resampler": 1}
    return dispatch_model(model, device_map=device_map)


def main():
    config = MiniCPMVConfig()
    model = load(config)
    pictures = [torch.linspace(0, 1, 64).view(8, 8), torch.linspace(1, 0, 64).view(8, 8).t().contiguous()]
    model_inputs = encode(QUESTIONS, pictures, config)
    answers = model.generate(model_inputs, max_new_tokens=4)
    logits = model.next_logits(model_inputs)
    print(answers.tolist(), f"{logits.max().item():.3f} {logits.std().item():.3f}")


if __name__ == "__main__":
    main()
# --- processing.py
import torch


def encode(questions, pictures, config):
    """Before the words of each question stands a place for the picture."""
    rows, bounds = [], []
    longest = max(len(q.split()) for q in questions)
    for question in questions:
        words = [3 + sum(map(ord, word)) % (config.vocab_size - 3) for word in question.split()]
        pad = [0] * (longest - len(words))
        rows.append(pad + [1] + [2] * config.query_num + words)
        bounds.append((len(pad) + 1, len(pad) + 1 + config.query_num))
    return {"input_ids": torch.tensor(rows), "image_bound": bounds, "pixel_values": torch.stack(pictures).unsqueeze(1)}
# --- resampler.py
import torch
from torch import nn


class Resampler(nn.Module):
    """A few learned queries ask the patches of a picture."""

    def __init__(self, num_queries, embed_dim, kv_dim):
        super().__init__()
        self.query = nn.Parameter(torch.randn(num_queries, embed_dim))
        self.kv_proj = nn.Linear(kv_dim, embed_dim, bias=False)
        self.ln_post = nn.LayerNorm(embed_dim)

    def forward(self, x):
        x = self.kv_proj(x)
        scores = torch.einsum("qd,bnd->bqn", self.query, x) / x.shape[-1] ** 0.5
        return self.ln_post(scores.softmax(dim=-1) @ x)
# --- modeling_minicpmv.py
import dataclasses

import torch
from torch import nn

from resampler import Resampler


@dataclasses.dataclass
class MiniCPMVConfig:
    vocab_size: int = 24
    hidden_size: int = 16
    vision_size: int = 12
    query_num: int = 3
    num_layers: int = 2


class Vision(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.patch_embed = nn.Conv2d(1, config.vision_size, kernel_size=4, stride=4)
        self.norm = nn.LayerNorm(config.vision_size)

    def forward(self, pixel_values):
        return self.norm(self.patch_embed(pixel_values).flatten(2).transpose(1, 2))


class LLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([nn.GRU(config.hidden_size, config.hidden_size, batch_first=True) for _ in range(config.num_layers)])
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, inputs_embeds):
        for layer in self.layers:
            inputs_embeds = inputs_embeds + layer(inputs_embeds)[0]
        return self.lm_head(inputs_embeds)


class MiniCPMV(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.vpm = Vision(config)
        self.resampler = Resampler(config.query_num, config.hidden_size, config.vision_size)
        self.llm = LLM(config)

    def get_vision_embedding(self, pixel_values):
        return self.resampler(self.vpm(pixel_values))

    def get_vllm_embedding(self, data):
        vision_hidden_states = self.get_vision_embedding(data["pixel_values"])
        vllm_embedding = self.llm.embed_tokens(data["input_ids"])
        width = vllm_embedding.shape[-1]
        for i, (begin, end) in enumerate(data["image_bound"]):
            cur_vllm_emb = vllm_embedding[i]
            cur_vision = vision_hidden_states[i]
            image_indices = torch.arange(begin, end, device=cur_vllm_emb.device)
            rows = image_indices.view(-1, 1).repeat(1, width)
            cur_vllm_emb.scatter_(0, rows, cur_vision.view(-1, width))
        return vllm_embedding

    @torch.no_grad()
    def next_logits(self, data):
        return self.llm(inputs_embeds=self.get_vllm_embedding(data))[:, -1]

    @torch.no_grad()
    def generate(self, data, max_new_tokens):
        data, begin = dict(data), data["input_ids"].shape[1]
        for _ in range(max_new_tokens):
            token = self.next_logits(data).argmax(dim=-1, keepdim=True)
            data["input_ids"] = torch.cat([data["input_ids"], token.to(data["input_ids"].device)], dim=1)
        return data["input_ids"][:, begin:]

# === steps_of_an_expert
# thread: https://github.com/robfiras/loco-mujoco/issues/5
# about: a net learns to tell an expert's steps from an agent's. What it is given is brought to mean zero and spread one, as seen so far
# operation: sub on cuda:0, cpu
# operands: other|mean|.*mean.*
# category: created-without-device
# line: networks.py: return torch.tensor(
# line: networks.py: mean = to_float_tensor(
# line: networks.py: return (inputs - mean) / std
# repair: networks.py: return torch.tensor(array, dtype=torch.float) -> return torch.tensor(array, dtype=torch.float, device=like.device)
import numpy as np
import torch

from gail import GAIL
from networks import DiscriminatorNetwork, Standardizer
from walker import expert_steps, rollout

USE_CUDA = True


def experiment(n_epochs=3, seed=5):
    torch.manual_seed(seed)
    np.random.seed(seed)
    use_cuda = USE_CUDA and torch.cuda.is_available()
    demonstrations = expert_steps(40)
    standardizer = Standardizer(demonstrations.shape[1])
    discriminator = DiscriminatorNetwork(demonstrations.shape[1], n_features=[12, 8], standardizer=standardizer)
    agent = GAIL(discriminator, demonstrations, lr=1e-2, use_cuda=use_cuda)
    for epoch in range(n_epochs):
        loss = agent.fit(rollout(20, shift=0.2 * epoch))
    reward = agent.make_discrim_reward(rollout(8, shift=0.1))
    print(f"loss {loss:.3f} reward {reward.mean():.3f} {reward.std():.3f} count {standardizer.count}")


if __name__ == "__main__":
    experiment()
# --- walker.py
import numpy as np


def expert_steps(n):
    """Hip, knee and speed over a gait."""
    phase = np.linspace(0, 8 * np.pi, n)
    return np.stack([0.6 * np.sin(phase), 0.9 * np.cos(phase) - 0.4, 1.2 + 0.1 * np.sin(2 * phase)], axis=1)


def rollout(n, shift):
    phase = np.linspace(0, 5 * np.pi, n)
    return np.stack([0.3 * np.sin(phase) + shift, 0.5 * np.cos(phase), 0.8 + 0.2 * np.cos(phase)], axis=1)
# --- networks.py
import numpy as np
import torch
from torch import nn


def to_float_tensor(array, like):
    """An array as a tensor for computing with `like`."""
    return torch.tensor(array, dtype=torch.float)


class Standardizer(nn.Module):
    def __init__(self, dim, alpha=1e-8):
        super().__init__()
        self.alpha = alpha
        self._sum = np.zeros(dim)
        self._sumsq = np.full(dim, alpha)
        self.count = 0

    def update_mean_std(self, x):
        self._sum += x.sum(axis=0)
        self._sumsq += np.square(x).sum(axis=0)
        self.count += len(x)

    @property
    def mean(self):
        return self._sum / self.count

    @property
    def std(self):
        return np.sqrt(np.maximum(self._sumsq / self.count - np.square(self.mean), 1e-2))

    def forward(self, inputs):
        if self.training:
            self.update_mean_std(inputs.detach().cpu().numpy())
        mean = to_float_tensor(self.mean, inputs)
        std = to_float_tensor(self.std, inputs)
        return (inputs - mean) / std


class DiscriminatorNetwork(nn.Module):
    def __init__(self, input_shape, n_features, standardizer=None):
        super().__init__()
        self._stand = standardizer
        dims = [input_shape, *n_features]
        hidden = [layer for i, o in zip(dims, dims[1:]) for layer in (nn.Linear(i, o), nn.Tanh())]
        self._h = nn.Sequential(*hidden, nn.Linear(dims[-1], 1))

    def forward(self, inputs):
        if self._stand is not None:
            inputs = self._stand(inputs)
        return self._h(inputs).squeeze(-1)
# --- gail.py
import torch
from torch.nn import functional as F


class GAIL:
    def __init__(self, discriminator, demonstrations, lr, use_cuda):
        self._device = "cuda" if use_cuda else "cpu"
        self._D = discriminator.to(self._device)
        self._demonstrations = demonstrations
        self._optimizer = torch.optim.Adam(self._D.parameters(), lr=lr)

    def _tensor(self, array):
        return torch.as_tensor(array, dtype=torch.float32).to(self._device)

    def fit(self, plcy_obs):
        self._D.train()
        demo_obs = self._demonstrations[:: max(1, len(self._demonstrations) // len(plcy_obs))]
        inputs = torch.cat([self._tensor(plcy_obs), self._tensor(demo_obs)])
        targets = torch.zeros(len(inputs), device=inputs.device)
        targets[len(plcy_obs) :] = 1.0
        loss = F.binary_cross_entropy_with_logits(self._D(inputs), targets)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        return loss.item()

    @torch.no_grad()
    def make_discrim_reward(self, obs):
        self._D.eval()
        return -F.logsigmoid(-self._D(self._tensor(obs))).neg().cpu().numpy()
