# === best_accuracy_of_a_run
# thread: https://github.com/pytorch/examples/pull/515
# about: pictures are learned on one card, and learned on from the file on another. Whether an epoch is the best so far is asked with the number in that file
# operation: gt on cuda:1, cuda:0
# operands: other|best_acc1
# category: checkpoint
# line: best_acc1 = checkpoint["best_acc1"]
# line: is_best = acc1 > best_acc1
# line: checkpoint = torch.load(
# line: "best_acc1": best_acc1,
# line: return top1.avg, losses.avg
# repair: best_acc1 = checkpoint["best_acc1"] -> best_acc1 = checkpoint["best_acc1"].to(torch.device("cuda", args.gpu))
import argparse
import os
import tempfile

import torch
from torch import nn

from data import FakeData
from meter import AverageMeter, accuracy
from models import resnet8

parser = argparse.ArgumentParser(description="PyTorch ImageNet Training")
parser.add_argument("--epochs", default=2, type=int, metavar="N", help="number of total epochs to run")
parser.add_argument("-b", "--batch-size", default=8, type=int, metavar="N")
parser.add_argument("--lr", default=0.01, type=float, metavar="LR", help="initial learning rate")
parser.add_argument("--resume", default="", type=str, metavar="PATH", help="path to latest checkpoint")
parser.add_argument("--gpu", default=None, type=int, help="GPU id to use.")
parser.add_argument("--out", default=".", type=str)


def main_worker(args):
    best_acc1, start_epoch = torch.zeros(1, device=torch.device("cuda", args.gpu)), 0
    torch.manual_seed(1)
    print("Use GPU: {} for training".format(args.gpu))
    torch.cuda.set_device(args.gpu)
    model = resnet8(num_classes=4).cuda(args.gpu)
    criterion = nn.CrossEntropyLoss().cuda(args.gpu)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)

    if args.resume:
        checkpoint = torch.load(args.resume)
        start_epoch = checkpoint["epoch"]
        best_acc1 = checkpoint["best_acc1"]
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        print("=> loaded checkpoint '{}' (epoch {})".format(os.path.basename(args.resume), start_epoch))

    dataset = FakeData(size=24, num_classes=4)
    loader = torch.utils.data.DataLoader(dataset, batch_size=args.batch_size)
    for epoch in range(start_epoch, args.epochs):
        train(loader, model, criterion, optimizer, args)
        acc1, loss = validate(loader, model, criterion, args)
        is_best = acc1 > best_acc1
        best_acc1 = torch.where(is_best, acc1, best_acc1)
        state = {
            "epoch": epoch + 1,
            "state_dict": model.state_dict(),
            "best_acc1": best_acc1,
            "optimizer": optimizer.state_dict(),
        }
        torch.save(state, os.path.join(args.out, "checkpoint.pth.tar"))
    return acc1.item(), best_acc1.item(), loss


def train(train_loader, model, criterion, optimizer, args):
    model.train()
    for images, target in train_loader:
        images, target = images.cuda(args.gpu), target.cuda(args.gpu)
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def validate(val_loader, model, criterion, args):
    losses, top1 = AverageMeter(), AverageMeter()
    model.eval()
    for images, target in val_loader:
        images, target = images.cuda(args.gpu), target.cuda(args.gpu)
        output = model(images)
        (acc1,) = accuracy(output, target, topk=(1,))
        losses.update(criterion(output, target).item(), images.size(0))
        top1.update(acc1, images.size(0))
    print(" * Acc@1 {:.3f} Loss {:.4f}".format(top1.avg.item(), losses.avg))
    return top1.avg, losses.avg


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as out:
        main_worker(parser.parse_args(["--gpu", "0", "--out", out]))
        latest = os.path.join(out, "checkpoint.pth.tar")
        acc1, best, loss = main_worker(parser.parse_args(["--gpu", "1", "--out", out, "--resume", latest, "--epochs", "4"]))
    print("acc1 {:.3f} best {:.3f} loss {:.4f}".format(acc1, best, loss))
# --- data.py
import torch


class FakeData(torch.utils.data.Dataset):
    """Pictures whose brightest quarter says what they show."""

    def __init__(self, size, num_classes, seed=3):
        draw = torch.Generator().manual_seed(seed)
        self.targets = torch.arange(size) % num_classes
        self.images = torch.randn(size, 3, 8, 8, generator=draw) * 1.5
        for image, target in zip(self.images, self.targets.tolist()):
            image[:, target * 2 : target * 2 + 2] += 1

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], self.targets[index]
# --- meter.py
class AverageMeter(object):
    """Computes and stores the average"""

    def __init__(self):
        self.sum, self.count, self.avg = 0, 0, 0

    def update(self, val, n=1):
        self.sum = self.sum + val * n
        self.count += n
        self.avg = self.sum / self.count


def accuracy(output, target, topk=(1,)):
    _, pred = output.topk(max(topk), 1, True, True)
    correct = pred.t().eq(target.view(1, -1))
    return [correct[:k].reshape(-1).float().sum(0, keepdim=True) * (100.0 / target.size(0)) for k in topk]
# --- models.py
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, planes):
        super().__init__()
        self.conv1 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)

    def forward(self, x):
        return (x + self.bn1(self.conv1(x))).relu()


def resnet8(num_classes, planes=6):
    stem = nn.Conv2d(3, planes, 3, padding=1, bias=False)
    return nn.Sequential(stem, BasicBlock(planes), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(planes * 16, num_classes))

# === net_shown_to_be_safe
# thread: https://github.com/Verified-Intelligence/alpha-beta-CROWN/pull/24
# about: what a net can answer within a box of inputs is bounded, and the box is cut where this is not enough. Pieces wait in main memory
# operation: addmm|linear on cuda:0, cuda:1
# operands: input|mat1|center|x_L|x_U|.*center.*
# category: default-or-current-device
# line: branching_domains.py: x_L, x_U =
# line: bound_general.py: center, radius =
# line: batch_branch_and_bound.py: lb = net.compute_bounds(
# line: batch_branch_and_bound.py: x_L, x_U = domains.pick_out(
# repair: branching_domains.py: x_L, x_U = torch.stack(lowers).cuda(), torch.stack(uppers).cuda() ->
#   x_L, x_U = torch.stack(lowers).to(self.device), torch.stack(uppers).to(self.device)
import arguments
from batch_branch_and_bound import input_bab_parallel
from bound_general import BoundedModule
from model_defs import mnist_tiny
from specifications import construct_vnnlib


class ABCROWN:
    def __init__(self, args=None):
        arguments.Config.parse_config(args)

    def main(self):
        config = arguments.Config
        model = mnist_tiny(seed=config["general"]["seed"])
        net = BoundedModule(model, device=config["general"]["device"])
        for name, x_L, x_U, C, rhs in construct_vnnlib(config["data"]["eps"]):
            lb, visited = input_bab_parallel(net, x_L, x_U, C, rhs)
            status = "safe" if lb > rhs else "unknown"
            print(f"{name}: {status} with {visited} domains, lower bound {lb:.4f}")
        print("done", visited, round(lb, 4))


if __name__ == "__main__":
    ABCROWN(args=["--device", "cuda:1", "--max_iterations", "6"]).main()
# --- arguments.py
import argparse


class ConfigHandler:
    def __init__(self):
        self.all_args = {"general": {"device": "cuda", "seed": 100}, "data": {"eps": 0.25}, "bab": {"max_iterations": 4, "batch_size": 4}}

    def parse_config(self, args=None):
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default=self.all_args["general"]["device"])
        parser.add_argument("--eps", type=float, default=self.all_args["data"]["eps"])
        parser.add_argument("--max_iterations", type=int, default=self.all_args["bab"]["max_iterations"])
        parsed = parser.parse_args(args)
        self.all_args["general"]["device"] = parsed.device
        self.all_args["data"]["eps"] = parsed.eps
        self.all_args["bab"]["max_iterations"] = parsed.max_iterations

    def __getitem__(self, key):
        return self.all_args[key]


Config = ConfigHandler()
# --- model_defs.py
import torch
from torch import nn


def mnist_tiny(seed, width=8):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))
# --- specifications.py
import torch


def construct_vnnlib(eps):
    """What is to hold: the first answer is above the second by more than rhs."""
    x = torch.tensor([0.4, -0.2, 0.1, 0.6])
    C = torch.tensor([[1.0, -1.0, 0.0]])
    for name, rhs in (("prop_1", -2.0), ("prop_2", 0.23)):
        yield name, x - eps, x + eps, C, rhs
# --- bound_general.py
from torch import nn


class BoundedModule:
    def __init__(self, model, device):
        self.device = device
        self.final_name = list(model._modules)[-1]
        self.model = model.to(device).eval()

    def compute_bounds(self, x_L, x_U, C):
        """Lower bounds of C times what the net says of inputs between x_L and x_U."""
        center, radius = (x_L + x_U) / 2, (x_U - x_L) / 2
        for layer in self.model[:-1]:
            if isinstance(layer, nn.Linear):
                center = layer(center)
                radius = nn.functional.linear(radius, layer.weight.abs())
            else:
                lower, upper = layer(center - radius), layer(center + radius)
                center, radius = (lower + upper) / 2, (upper - lower) / 2
        last = self.model[-1]
        weight, bias = C @ last.weight, C @ last.bias
        return (center @ weight.t() + bias - radius @ weight.abs().t()).squeeze(-1)
# --- branching_domains.py
import torch


class UnsortedInputDomainList:
    """The boxes that are not settled, with the worst first."""

    def __init__(self, device):
        self.device = device
        self.domains = []

    def add(self, lb, x_L, x_U, threshold):
        for bound, lower, upper in zip(lb.tolist(), x_L.cpu(), x_U.cpu()):
            if bound <= threshold:
                self.domains.append((bound, lower, upper))
        self.domains.sort(key=lambda domain: domain[0])

    def pick_out(self, batch):
        batch = min(len(self.domains), batch)
        picked, self.domains = self.domains[:batch], self.domains[batch:]
        lowers, uppers = [domain[1] for domain in picked], [domain[2] for domain in picked]
        x_L, x_U = torch.stack(lowers).cuda(), torch.stack(uppers).cuda()
        return x_L, x_U

    def __len__(self):
        return len(self.domains)
# --- batch_branch_and_bound.py
import torch

import arguments
from branching_domains import UnsortedInputDomainList


def input_split(x_L, x_U):
    """Each box cut in two, where it is widest."""
    split = torch.nn.functional.one_hot((x_U - x_L).argmax(dim=-1), x_L.shape[-1]).bool()
    middle = (x_L + x_U) / 2
    return torch.cat([x_L, torch.where(split, middle, x_L)]), torch.cat([torch.where(split, middle, x_U), x_U])


@torch.no_grad()
def input_bab_parallel(net, x_L, x_U, C, rhs):
    bab_args = arguments.Config["bab"]
    C = C.to(net.device)
    x_L, x_U = x_L.unsqueeze(0).to(net.device), x_U.unsqueeze(0).to(net.device)
    global_lb = net.compute_bounds(x_L, x_U, C)
    domains = UnsortedInputDomainList(net.device)
    domains.add(global_lb, x_L, x_U, rhs)
    visited, worst = 1, global_lb.min().item()
    for _ in range(bab_args["max_iterations"]):
        if not len(domains):
            break
        x_L, x_U = domains.pick_out(bab_args["batch_size"])
        x_L, x_U = input_split(x_L, x_U)
        lb = net.compute_bounds(x_L, x_U, C)
        domains.add(lb, x_L, x_U, rhs)
        visited += len(lb)
        worst = min([lb.min().item(), *[domain[0] for domain in domains.domains]])
    return worst, visited

# === layers_brought_in_one_by_one
# thread: https://github.com/yandex-research/specexec/issues/1
# about: a language model too large for the card keeps its layers in main memory. Each is copied into one of a few places on the card when its turn is
# operation: bmm|matmul on cpu, cuda:0
# operands: self|input|inv_freq.*|.*inv_freq.*
# category: module-split
# line: offloading/offload_model.py: "lm_head": main_device,
# line: offloading/offload_model.py: device_map = {
# line: modeling_llama.py: inv_freq_expanded =
# line: modeling_llama.py: freqs = (
# line: offloading/offload_model.py: for name, device in device_map.items():
# line: modeling_llama.py: self.register_buffer("inv_freq"
# repair: offloading/offload_model.py: "lm_head": main_device, -> "lm_head": main_device, "model.rotary_emb": main_device,
import argparse

import torch

from engine import SpecGenerator
from modeling_llama import LlamaConfig
from offloading.offload_model import load_offloaded_model

parser = argparse.ArgumentParser()
parser.add_argument("--offload", action="store_true", default=True)
parser.add_argument("--device_size", type=int, default=2, help="layers that the card has room for")
parser.add_argument("--max_new_tokens", type=int, default=5)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(args.seed)
device = torch.device("cuda:0")
model = load_offloaded_model(LlamaConfig(), device_size=args.device_size, main_device=device)
generator = SpecGenerator(model)
tokens, logprob = generator.generate(torch.tensor([[5, 11, 2, 19]]).to(device), args.max_new_tokens)
print("tokens", tokens, "logprob", round(logprob, 4))
# --- engine.py
import torch


class SpecGenerator:
    def __init__(self, target_model):
        self.target_model = target_model

    @torch.inference_mode()
    def generate(self, input_ids, max_new_tokens):
        total = 0.0
        for _ in range(max_new_tokens):
            logits = self.target_model(input_ids)[:, -1]
            logprobs, best = logits.log_softmax(dim=-1).max(dim=-1)
            total += logprobs.item()
            input_ids = torch.cat([input_ids, best[:, None]], dim=1)
        return input_ids[0].tolist(), total
# --- offloading/offload_model.py
import copy

import torch
from torch import nn

from modeling_llama import LlamaDecoderLayer, LlamaForCausalLM
from offloading.offload_engine import OffloadingCache


class OffloadedLayerIter(nn.Module):
    def __init__(self, cache):
        super().__init__()
        self.cache = cache

    def __iter__(self):
        yield from self.cache.load_modules()


def load_offloaded_model(config, device_size, main_device):
    device_map = {
        "model.embed_tokens": main_device,
        "model.norm": main_device,
        "lm_head": main_device,
    }
    model = LlamaForCausalLM(config).eval()
    for name, device in device_map.items():
        model.get_submodule(name).to(device)

    def make_module():
        return LlamaDecoderLayer(config).to(main_device).eval()

    cache = OffloadingCache(make_module, device_size)
    for layer in model.model.layers:
        cache.add_module(copy.deepcopy(layer))
    model.model.layers = OffloadedLayerIter(cache)
    return model
# --- offloading/offload_engine.py
import torch


class OffloadingCache:
    """Modules that lie in main memory; a few of them have a place on the device at a time."""

    def __init__(self, make_module, device_size):
        self.device_buffers = [make_module() for _ in range(device_size)]
        self.offloaded_storages = []

    def add_module(self, module):
        self.offloaded_storages.append({name: value.clone() for name, value in module.state_dict().items()})

    @torch.no_grad()
    def load_modules(self):
        for i, storage in enumerate(self.offloaded_storages):
            buffer = self.device_buffers[i % len(self.device_buffers)]
            for name, value in buffer.state_dict().items():
                value.copy_(storage[name])
            yield buffer
# --- modeling_llama.py
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class LlamaConfig:
    vocab_size: int = 24
    hidden_size: int = 8
    num_hidden_layers: int = 4
    rope_theta: float = 100.0


class LlamaRotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        dim = config.hidden_size
        inv_freq = 1.0 / config.rope_theta ** (torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    @torch.no_grad()
    def forward(self, x, position_ids):
        inv_freq_expanded = self.inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
        position_ids_expanded = position_ids[:, None, :].float()
        freqs = (inv_freq_expanded @ position_ids_expanded).transpose(1, 2)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(x.dtype), emb.sin().to(x.dtype)


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class LlamaDecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.input_layernorm = nn.RMSNorm(width)
        self.qkv_proj = nn.Linear(width, 3 * width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, hidden_states, position_embeddings):
        cos, sin = position_embeddings
        q, k, v = self.qkv_proj(self.input_layernorm(hidden_states)).chunk(3, dim=-1)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        attn_output = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return hidden_states + self.o_proj(attn_output)


class LlamaModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(LlamaDecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size)
        self.rotary_emb = LlamaRotaryEmbedding(config)

    def forward(self, input_ids):
        hidden_states = self.embed_tokens(input_ids)
        position_ids = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        position_embeddings = self.rotary_emb(hidden_states, position_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states, position_embeddings)
        return self.norm(hidden_states)


class LlamaForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = LlamaModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids):
        return self.lm_head(self.model(input_ids))

# === energies_of_lone_atoms
# thread: https://github.com/torchmd/torchmd-net/pull/284
# about: of a molecule's energy only what is left without its atoms' own is learned. These come with the data, and are taken off each batch
# error: indices should be either on cpu or on the same device
# operation: index on cpu, cuda:0
# operands: self|.*_atomref.*
# category: state-not-registered|input-not-moved
# line: torchmdnet/utils.py: data.y.index_add_(
# line: torchmdnet/utils.py: self._atomref = atomref
# line: torchmdnet/module.py: self.data_transform = EnergyRefRemover(
# line: torchmdnet/module.py: batch = self.data_transform(
# line: torchmdnet/data.py: return self.atomref
# repair: torchmdnet/utils.py: data.y.index_add_(0, data.batch, -self._atomref[data.z]) ->
#   data.y.index_add_(0, data.batch, -self._atomref.to(data.z.device)[data.z])
import argparse

import torch

from torchmdnet.data import DataModule
from torchmdnet.module import LNNP, fit


def get_args():
    parser = argparse.ArgumentParser(description="Training")
    parser.add_argument("--batch-size", default=4, type=int)
    parser.add_argument("--num-epochs", default=3, type=int)
    parser.add_argument("--lr", default=0.02, type=float, help="learning rate")
    parser.add_argument("--embedding-dimension", default=8, type=int)
    parser.add_argument("--remove-ref-energy", default=True, type=bool, help="train on relative energies")
    parser.add_argument("--accelerator", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", default=1, type=int)
    return parser.parse_args()


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    data = DataModule(args)
    model = LNNP(args, atomref=data.get_atomref() if args.remove_ref_energy else None)
    losses = fit(model, data, args)
    print("train_loss", *[round(loss, 4) for loss in losses])


if __name__ == "__main__":
    main()
# --- torchmdnet/data.py
from dataclasses import dataclass, fields

import torch


@dataclass
class Data:
    z: torch.Tensor
    pos: torch.Tensor
    y: torch.Tensor
    batch: torch.Tensor

    def to(self, device):
        return Data(*[getattr(self, field.name).to(device) for field in fields(self)])


class WaterAndMethane:
    """Small molecules, each a little out of shape, with the energy of it all."""

    KINDS = ((8, 1, 1), (6, 1, 1, 1, 1))

    def __init__(self, size=12, seed=7):
        draw = torch.Generator().manual_seed(seed)
        self.atomref = torch.zeros(10)
        self.atomref[1], self.atomref[6], self.atomref[8] = -0.5, -37.8, -75.0
        self.molecules = []
        for i in range(size):
            z = torch.tensor(self.KINDS[i % 2])
            pos = torch.randn(len(z), 3, generator=draw)
            self.molecules.append((z, pos, self.atomref[z].sum() - 1 / pos.norm(dim=1).mean()))

    def get_atomref(self):
        return self.atomref


class DataModule:
    def __init__(self, hparams):
        self.hparams = hparams
        self.dataset = WaterAndMethane()

    def get_atomref(self):
        return self.dataset.get_atomref()

    def train_dataloader(self):
        step = self.hparams.batch_size
        for start in range(0, len(self.dataset.molecules), step):
            z, pos, y = zip(*self.dataset.molecules[start : start + step])
            batch = torch.repeat_interleave(torch.arange(len(z)), torch.tensor([len(each) for each in z]))
            yield Data(torch.cat(z), torch.cat(pos), torch.stack(y), batch)
# --- torchmdnet/utils.py
class EnergyRefRemover:
    """Takes the reference energies of its atoms off a batch."""

    def __init__(self, atomref):
        self._atomref = atomref

    def __call__(self, data):
        data.y.index_add_(0, data.batch, -self._atomref[data.z])
        return data
# --- torchmdnet/module.py
import torch
from torch import nn
from torch.nn.functional import mse_loss

from torchmdnet.models import TorchMD_GN
from torchmdnet.utils import EnergyRefRemover


class LNNP(nn.Module):
    def __init__(self, hparams, atomref=None):
        super().__init__()
        self.hparams = hparams
        self.model = TorchMD_GN(hparams.embedding_dimension)
        self.data_transform = EnergyRefRemover(atomref) if atomref is not None else lambda data: data

    def configure_optimizers(self):
        return torch.optim.AdamW(self.model.parameters(), lr=self.hparams.lr)

    def training_step(self, batch):
        batch = self.data_transform(batch)
        pred = self.model(batch.z, batch.pos, batch.batch)
        return mse_loss(pred, batch.y)


def fit(module, datamodule, hparams):
    device = torch.device(hparams.accelerator)
    module.to(device)
    optimizer = module.configure_optimizers()
    losses = []
    for _ in range(hparams.num_epochs):
        total = 0.0
        for batch in datamodule.train_dataloader():
            loss = module.training_step(batch.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total)
    return losses
# --- torchmdnet/models.py
import torch
from torch import nn


class TorchMD_GN(nn.Module):
    def __init__(self, hidden_channels, max_z=10):
        super().__init__()
        self.embedding = nn.Embedding(max_z, hidden_channels)
        self.distance_expansion = nn.Linear(1, hidden_channels)
        self.output = nn.Sequential(nn.Linear(hidden_channels, hidden_channels), nn.SiLU(), nn.Linear(hidden_channels, 1))

    def forward(self, z, pos, batch):
        x = self.embedding(z) * torch.tanh(self.distance_expansion(pos.norm(dim=1, keepdim=True)))
        energies = self.output(x).squeeze(-1)
        out = torch.zeros(int(batch.max()) + 1, device=energies.device)
        return out.index_add(0, batch, energies)

# === triples_that_are_not_so
# thread: https://github.com/pykeen/pykeen/issues/935
# about: facts about nations are learned next to made up ones. What was made up and is a fact by chance is left out; the loss has to know which these were
# operation: index_put_ on cpu, cuda:0
# operands: self|indices|negative_scores_|batch_filter|positive_filter.*
# category: input-not-moved
# line: pykeen/training.py: positive_filter = positive_filter[start:stop]
# line: pykeen/losses.py: negative_scores_ = torch.zeros_like(
# line: pykeen/losses.py: negative_scores_[batch_filter] =
# line: pykeen/training.py: batch_filter=positive_filter
# line: pykeen/training.py: negative_batch, positive_filter =
# line: pykeen/sampling.py: return negative_batch, self.filterer(
# repair: pykeen/training.py: positive_filter = positive_filter[start:stop] -> positive_filter = positive_filter[start:stop].to(model.device)
from pykeen.pipeline import pipeline

result = pipeline(
    dataset="nations",
    model="TransE",
    model_kwargs=dict(embedding_dim=6),
    loss="CrossEntropyLoss",
    negative_sampler="basic",
    negative_sampler_kwargs=dict(num_negs_per_pos=3, filtered=True),
    training_kwargs=dict(num_epochs=3, batch_size=16, sub_batch_size=8),
    random_seed=4,
)
print("losses", *[round(loss, 4) for loss in result])
# --- pykeen/pipeline.py
import torch

from pykeen.losses import CrossEntropyLoss
from pykeen.models import TransE
from pykeen.sampling import BasicNegativeSampler
from pykeen.training import SLCWATrainingLoop
from pykeen.triples import DATASETS

MODELS = {"TransE": TransE}
LOSSES = {"CrossEntropyLoss": CrossEntropyLoss}
SAMPLERS = {"basic": BasicNegativeSampler}


def resolve_device(device=None):
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


def pipeline(dataset, model, loss, negative_sampler, model_kwargs, negative_sampler_kwargs, training_kwargs, random_seed, device=None):
    torch.manual_seed(random_seed)
    triples = DATASETS[dataset]()
    model_instance = MODELS[model](triples, loss=LOSSES[loss](), **model_kwargs).to(resolve_device(device))
    sampler = SAMPLERS[negative_sampler](triples, seed=random_seed, **negative_sampler_kwargs)
    return SLCWATrainingLoop(model_instance, triples, sampler).train(**training_kwargs)
# --- pykeen/triples.py
import torch

ENTITIES, RELATIONS = 7, 3


def nations():
    """Mapped triples: head, relation, tail."""
    grid = torch.cartesian_prod(torch.arange(ENTITIES), torch.arange(RELATIONS), torch.arange(ENTITIES))
    return grid[(grid[:, 0] * 3 + grid[:, 1] * 5 + grid[:, 2]) % 4 == 1]


DATASETS = {"nations": nations}
# --- pykeen/models.py
from torch import nn

from pykeen.triples import ENTITIES, RELATIONS


class TransE(nn.Module):
    def __init__(self, triples, loss, embedding_dim):
        super().__init__()
        self.loss = loss
        self.entity_representations = nn.Embedding(ENTITIES, embedding_dim)
        self.relation_representations = nn.Embedding(RELATIONS, embedding_dim)

    @property
    def device(self):
        return self.entity_representations.weight.device

    def score_hrt(self, hrt_batch):
        h = self.entity_representations(hrt_batch[..., 0])
        r = self.relation_representations(hrt_batch[..., 1])
        t = self.entity_representations(hrt_batch[..., 2])
        return -(h + r - t).norm(dim=-1)
# --- pykeen/sampling.py
import torch

from pykeen.triples import ENTITIES


class PythonSetFilterer:
    """True where a triple is none of the known ones."""

    def __init__(self, mapped_triples):
        self.triples = {tuple(triple) for triple in mapped_triples.tolist()}

    def __call__(self, negative_batch):
        known = [tuple(triple) in self.triples for triple in negative_batch.view(-1, 3).tolist()]
        return ~torch.as_tensor(known, dtype=torch.bool).view(negative_batch.shape[:-1])


class BasicNegativeSampler:
    def __init__(self, mapped_triples, num_negs_per_pos, filtered, seed):
        self.num_negs_per_pos = num_negs_per_pos
        self.filterer = PythonSetFilterer(mapped_triples) if filtered else None
        self.generator = torch.Generator().manual_seed(seed)

    def sample(self, positive_batch):
        negative_batch = positive_batch[:, None].repeat(1, self.num_negs_per_pos, 1)
        negative_batch[..., 2] = torch.randint(ENTITIES, negative_batch.shape[:-1], generator=self.generator)
        if self.filterer is None:
            return negative_batch, None
        return negative_batch, self.filterer(negative_batch)
# --- pykeen/losses.py
import torch
from torch import nn


def prepare_negative_scores_for_softmax(batch_filter, negative_scores):
    """Scores with a place for each negative again; what was filtered counts for nothing."""
    if batch_filter is None:
        return negative_scores
    negative_scores_ = torch.zeros_like(batch_filter, dtype=negative_scores.dtype)
    negative_scores_[batch_filter] = negative_scores
    return negative_scores_.masked_fill(~batch_filter, float("-inf"))


class CrossEntropyLoss(nn.Module):
    def process_slcwa_scores(self, positive_scores, negative_scores, batch_filter=None):
        negative_scores = prepare_negative_scores_for_softmax(batch_filter, negative_scores)
        scores = torch.cat([positive_scores[:, None], negative_scores], dim=-1)
        target = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
        return nn.functional.cross_entropy(scores, target)
# --- pykeen/training.py
import torch


class SLCWATrainingLoop:
    def __init__(self, model, mapped_triples, negative_sampler):
        self.model, self.triples, self.negative_sampler = model, mapped_triples, negative_sampler
        self.optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)

    def train(self, num_epochs, batch_size, sub_batch_size):
        losses = []
        for _ in range(num_epochs):
            epoch_loss = 0.0
            for positive_batch in self.triples.split(batch_size):
                self.optimizer.zero_grad()
                negatives = self.negative_sampler.sample(positive_batch)
                for start in range(0, len(positive_batch), sub_batch_size):
                    loss = self._process_batch(positive_batch, negatives, start, start + sub_batch_size)
                    loss.backward()
                    epoch_loss += loss.item()
                self.optimizer.step()
            losses.append(epoch_loss)
        return losses

    def _process_batch(self, positive_batch, negatives, start, stop):
        model = self.model
        negative_batch, positive_filter = negatives
        positive_batch = positive_batch[start:stop].to(device=model.device)
        negative_batch = negative_batch[start:stop]
        if positive_filter is not None:
            positive_filter = positive_filter[start:stop]
            negative_batch = negative_batch.to(model.device)[positive_filter]
        positive_scores = model.score_hrt(positive_batch)
        negative_scores = model.score_hrt(negative_batch.to(device=model.device))
        return model.loss.process_slcwa_scores(positive_scores, negative_scores, batch_filter=positive_filter)

# === words_in_a_borrowed_voice
# thread: https://github.com/SWivid/F5-TTS/pull/213
# about: speech that goes on in the voice of a short recording. The recording is made louder and of another rate first; frames and words are joined, and noise
#   flows to a spectrogram
# operation: embedding|index_select on cuda:0, cpu
# operands: indices|index|input|text.*
# category: input-not-moved
# line: infer/utils_infer.py: cond=audio,
# line: infer/utils_infer.py: audio, sr =
# line: infer/utils_infer.py: audio = resample(
# line: model/cfm.py: text = list_str_to_idx(
# line: model/cfm.py: cond_seq_len, device =
# line: infer/utils_infer.py: generated = model_obj.sample(
# repair: infer/utils_infer.py: cond=audio, -> cond=audio.to(device),
import argparse

import numpy as np

from infer.utils_infer import infer_process, load_model

parser = argparse.ArgumentParser(prog="python3 inference-cli.py", description="Commandline interface with Batch Inference.")
parser.add_argument("-m", "--model", default="F5-TTS")
parser.add_argument("-s", "--ref_text", default="well so")
parser.add_argument("-t", "--gen_text", default="here we go. and on")
parser.add_argument("--speed", type=float, default=1.0)
args = parser.parse_args()


def main_process(ref_text, text_gen, model_obj, speed):
    time = np.arange(640) / 4000
    ref_audio = np.stack([np.sin(700 * time), np.cos(450 * time)]).astype(np.float32) * 0.05
    wave, sample_rate, spectrogram = infer_process((ref_audio, 4000), ref_text, text_gen, model_obj, speed=speed)
    print("rate", sample_rate, "frames", spectrogram.shape, "mean", round(float(wave.mean()), 4), "peak", round(float(abs(wave).max()), 4))


if __name__ == "__main__":
    print(f"Using {args.model}...")
    main_process(args.ref_text, args.gen_text, load_model(dim=12, seed=0), args.speed)
# --- infer/utils_infer.py
import numpy as np
import torch

from model.cfm import CFM
from model.modules import DiT, MelSpec, get_vocab

device = "cuda" if torch.cuda.is_available() else "cpu"

target_sample_rate = 2000
hop_length = 16
target_rms = 0.1
nfe_step = 4
cfg_strength = 2.0


def load_model(dim, seed):
    torch.manual_seed(seed)
    vocab_char_map = get_vocab()
    model = CFM(transformer=DiT(dim, len(vocab_char_map), n_mel=9), mel_spec=MelSpec(hop_length), vocab_char_map=vocab_char_map)
    return model.to(device).eval()


def resample(audio, orig, new):
    return torch.nn.functional.interpolate(audio[None], scale_factor=new / orig, mode="linear")[0]


def infer_process(ref_audio, ref_text, gen_text, model_obj, speed=1.0):
    gen_text_batches = [sentence.strip() for sentence in gen_text.split(".") if sentence]
    return infer_batch_process(ref_audio, ref_text, gen_text_batches, model_obj, speed)


def infer_batch_process(ref_audio, ref_text, gen_text_batches, model_obj, speed):
    audio, sr = torch.from_numpy(ref_audio[0]), ref_audio[1]
    if audio.shape[0] > 1:
        audio = torch.mean(audio, dim=0, keepdim=True)
    rms = torch.sqrt(torch.mean(torch.square(audio))).item()
    if rms < target_rms:
        audio = audio * target_rms / rms
    if sr != target_sample_rate:
        audio = resample(audio, sr, target_sample_rate)

    generated_waves, spectrograms = [], []
    for gen_text in gen_text_batches:
        ref_audio_len = audio.shape[-1] // hop_length
        duration = ref_audio_len + int(ref_audio_len / len(ref_text) * len(gen_text) / speed)
        with torch.inference_mode():
            generated = model_obj.sample(
                cond=audio,
                text=[ref_text + " " + gen_text],
                duration=duration,
                steps=nfe_step,
                cfg_strength=cfg_strength,
            )
        generated = generated[:, ref_audio_len:]
        generated_waves.append((generated.mean(dim=-1) * min(rms / target_rms, 1)).squeeze(0).cpu().numpy())
        spectrograms.append(generated[0].cpu().numpy())
    return np.concatenate(generated_waves), target_sample_rate, np.concatenate(spectrograms)
# --- model/modules.py
import torch
from torch import nn


def get_vocab():
    return {char: i for i, char in enumerate(" abcdefghijklmnopqrstuvwxyz")}


class MelSpec(nn.Module):
    def __init__(self, hop_length):
        super().__init__()
        self.hop_length = hop_length
        self.register_buffer("window", torch.hann_window(hop_length), persistent=False)

    def forward(self, wav):
        if self.window.device != wav.device:
            self.to(wav.device)
        frames = wav.unfold(-1, self.hop_length, self.hop_length) * self.window
        return torch.fft.rfft(frames).abs().clamp(min=1e-5).log()


class DiT(nn.Module):
    def __init__(self, dim, vocab, n_mel):
        super().__init__()
        self.text_embed = nn.Embedding(vocab + 1, dim)
        self.time_embed = nn.Linear(1, dim)
        self.input_embed = nn.Linear(2 * n_mel + dim, dim)
        self.norm_out = nn.LayerNorm(dim)
        self.proj_out = nn.Linear(dim, n_mel)

    def forward(self, x, cond, text, time, drop_text=False):
        text = text + 1
        if drop_text:
            text = torch.zeros_like(text)
        text_embed = self.text_embed(text)
        x = self.input_embed(torch.cat((x, cond, text_embed), dim=-1))
        x = x + self.time_embed(time.view(1, 1))[:, None]
        return self.proj_out(torch.nn.functional.gelu(self.norm_out(x)))
# --- model/cfm.py
import torch
import torch.nn.functional as F
from torch import nn


def list_str_to_idx(text, vocab_char_map):
    rows = [torch.tensor([vocab_char_map[char] for char in line]) for line in text]
    return nn.utils.rnn.pad_sequence(rows, padding_value=-1, batch_first=True)


class CFM(nn.Module):
    def __init__(self, transformer, mel_spec, vocab_char_map):
        super().__init__()
        self.transformer, self.mel_spec, self.vocab_char_map = transformer, mel_spec, vocab_char_map

    def sample(self, cond, text, duration, steps, cfg_strength):
        cond = self.mel_spec(cond)
        cond_seq_len, device = cond.shape[1], cond.device
        text = list_str_to_idx(text, self.vocab_char_map).to(device)
        text = F.pad(text, (0, duration - text.shape[1]), value=-1)[:, :duration]
        cond = F.pad(cond, (0, 0, 0, duration - cond_seq_len))
        y = torch.linspace(-1, 1, cond.numel(), device=device).view_as(cond)
        t = torch.linspace(0, 1, steps + 1, device=device)
        for time, following in zip(t, t[1:]):
            pred = self.transformer(y, cond, text, time)
            null_pred = self.transformer(y, torch.zeros_like(cond), text, time, drop_text=True)
            y = y + (following - time) * (pred + (pred - null_pred) * cfg_strength)
        cond_mask = torch.arange(duration, device=device)[None, :, None] < cond_seq_len
        return torch.where(cond_mask, cond, y)
