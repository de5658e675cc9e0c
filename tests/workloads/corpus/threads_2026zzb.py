# === blocks_in_turn_on_two_cards
# thread: https://github.com/FearL0rd/ComfyUI-ParallelAnything/pull/3
# about: the blocks of a model that takes noise away are laid out on two cards, so that one picture passes from one card to the next
# operation: mul on cuda:1, cuda:0
# operands: other|.*scale.*|.*vec.*
# category: input-not-moved|module-split
# line: parallel.py: x, rest = args[0].to(self.owner_device), args[1:]
# line: parallel.py: out = self.owner_block(
# line: flux.py: scale, shift, gate =
# repair: parallel.py: x, rest = args[0].to(self.owner_device), args[1:] -> x, *rest = move(args, self.owner_device)
# repair: parallel.py: out = self.owner_block(x, *rest, **kwargs) -> out = self.owner_block(x, *rest, **move(kwargs, self.owner_device))
import torch

from flux import Flux, FluxParams
from nodes import ParallelAnything, ParallelDeviceList


def sample(model, latent, steps, context):
    """From noise to a picture, by Euler's method."""
    times = torch.linspace(1.0, 0.0, steps + 1, device=latent.device)
    with torch.no_grad():
        for now, then in zip(times, times[1:]):
            latent = latent + (then - now) * model(latent, now.expand(len(latent)), context)
    return latent


def main():
    torch.manual_seed(33)
    model = Flux(FluxParams(hidden_size=16, depth=4))
    lead = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = model.to(lead).eval()
    (devices,) = ParallelDeviceList().create_list([f"cuda:{index}" for index in range(torch.cuda.device_count())], [50, 50])
    (model,) = ParallelAnything().setup_parallel(model, devices)
    latent, context = torch.randn(1, 12, 8).to(lead), torch.randn(1, 8).to(lead)
    result = sample(model, latent, 3, context)
    print("sample", tuple(result.shape), round(result.mean().item(), 3), round(result.std().item(), 3))


if __name__ == "__main__":
    main()
# --- flux.py
import dataclasses

import torch
from torch import nn


@dataclasses.dataclass
class FluxParams:
    in_channels: int = 8
    hidden_size: int = 32
    depth: int = 2


class Block(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.modulation = nn.Linear(hidden_size, 3 * hidden_size)
        self.norm = nn.LayerNorm(hidden_size, elementwise_affine=False)
        self.mlp = nn.Sequential(nn.Linear(hidden_size, 2 * hidden_size), nn.GELU(), nn.Linear(2 * hidden_size, hidden_size))

    def forward(self, img, vec, pe=None):
        scale, shift, gate = vec[:, None].chunk(3, dim=-1)
        x = self.norm(img) * (1 + scale) + shift
        return img + gate * self.mlp(x + pe)


class Flux(nn.Module):
    def __init__(self, params):
        super().__init__()
        self.params = params
        hidden = params.hidden_size
        self.img_in = nn.Linear(params.in_channels, hidden)
        self.time_in, self.vector_in = nn.Linear(1, hidden), nn.Linear(params.in_channels, hidden)
        self.modulation = nn.Linear(hidden, 3 * hidden)
        self.double_blocks = nn.ModuleList([Block(hidden) for _ in range(params.depth)])
        self.final_layer = nn.Linear(hidden, params.in_channels)

    def forward(self, img, timesteps, context):
        vec = self.modulation(torch.tanh(self.time_in(timesteps[:, None]) + self.vector_in(context)))
        pe = torch.sin(torch.arange(img.shape[1], device=img.device))[None, :, None]
        img = self.img_in(img)
        for block in self.double_blocks:
            img = block(img, vec, pe=pe)
        return self.final_layer(img)
# --- parallel.py
from torch import nn
import torch


def move(value, device):
    """All tensors in it, at any depth."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, (list, tuple)):
        return type(value)(move(each, device) for each in value)
    if isinstance(value, dict):
        return {key: move(each, device) for key, each in value.items()}
    return value


class ParallelBlock(nn.Module):
    def __init__(self, block, owner_device, lead_device, is_last_block):
        super().__init__()
        self.owner_block = block.to(owner_device)
        self.owner_device, self.lead_device = owner_device, lead_device
        self.is_last_block = is_last_block

    def forward(self, *args, **kwargs):
        x, rest = args[0].to(self.owner_device), args[1:]
        out = self.owner_block(x, *rest, **kwargs)
        return move(out, self.lead_device) if self.is_last_block else out
# --- nodes.py
import torch
from torch import nn

from parallel import ParallelBlock

BLOCK_LISTS = ("double_blocks", "single_blocks", "layers")


class ParallelDeviceList:
    def create_list(self, names, percentages):
        return ([(torch.device(name), share / 100) for name, share in zip(names, percentages)],)


class ParallelAnything:
    def setup_parallel(self, model, devices):
        if len(devices) < 2:
            return (model,)
        lead = devices[0][0]
        for name in BLOCK_LISTS:
            blocks = getattr(model, name, None)
            if isinstance(blocks, nn.ModuleList):
                setattr(model, name, nn.ModuleList(self.spread(blocks, devices, lead)))
        return (model,)

    def spread(self, blocks, devices, lead):
        start, until = 0, 0.0
        for device, share in devices:
            until += share * len(blocks)
            for index in range(start, round(until)):
                yield ParallelBlock(blocks[index], device, lead, index == len(blocks) - 1)
            start = round(until)

# === actions_within_their_bounds
# thread: https://github.com/Intelligent-Driving-Laboratory/GOPS/issues/15
# about: a policy is trained through a model of its environment, on a card. Around the model is a wrapper by which the policy's actions lie between -1 and 1
# operation: clamp|clip on cuda:0, cpu, cpu
# operands: min|.*min_action.*, max|.*max_action.*
# category: created-without-device
# line: scale_action.py: self.min_action = torch.
# line: scale_action.py: self.max_action = torch.
# line: scale_action.py: action = torch.clip(action, self.min_action
# line: pyth_base_model.py: self.action_lower_bound =
# line: pyth_base_model.py: self.action_upper_bound =
# line: create_env_model.py: env_model = ENV_MODELS[
# line: create_env_model.py: env_model = ScaleActionModel(
# line: fhadp.py: self.envmodel = create_env_model(
# repair: create_env_model.py: env_model = ENV_MODELS[env_id]() -> env_model = ENV_MODELS[env_id](device="cuda" if use_gpu else None)
import argparse

import torch

from fhadp import FHADP


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--env_id", default="pyth_lq")
    parser.add_argument("--enable_cuda", type=int, default=1)
    parser.add_argument("--pre_horizon", type=int, default=5)
    parser.add_argument("--max_iteration", type=int, default=6)
    parser.add_argument("--min_action", type=float, default=-1.0)
    parser.add_argument("--max_action", type=float, default=1.0)
    args = vars(parser.parse_args())

    torch.manual_seed(15)
    args["use_gpu"] = bool(args["enable_cuda"]) and torch.cuda.is_available()
    alg = FHADP(**args)
    draw = torch.Generator().manual_seed(1)
    for iteration in range(args["max_iteration"]):
        data = {"obs": torch.randn(16, 2, generator=draw)}
        if args["use_gpu"]:
            data = {key: value.cuda() for key, value in data.items()}
        loss = alg.local_update(data)
        if iteration % 3 == 0:
            print("iteration", iteration, round(loss, 3))
    print("loss", round(loss, 3))


if __name__ == "__main__":
    main()
# --- pyth_base_model.py
import torch


class PythBaseModel:
    """The dynamics of an environment, made of differentiable steps."""

    def __init__(self, action_lower_bound, action_upper_bound, device=None):
        self.action_lower_bound = torch.tensor(action_lower_bound, dtype=torch.float32, device=device)
        self.action_upper_bound = torch.tensor(action_upper_bound, dtype=torch.float32, device=device)
        self.device = device

    def forward(self, obs, action):
        raise NotImplementedError


class LqModel(PythBaseModel):
    dt = 0.1

    def __init__(self, device=None):
        super().__init__([-2.0], [2.0], device)

    def forward(self, obs, action):
        position, speed = obs.unbind(dim=-1)
        force = action.squeeze(-1)
        reward = -(position.square() + 0.5 * speed.square() + 0.1 * force.square())
        return torch.stack([position + self.dt * speed, speed + self.dt * force], dim=-1), reward


class PendulumModel(PythBaseModel):
    dt = 0.05

    def __init__(self, device=None):
        super().__init__([-5.0], [5.0], device)

    def forward(self, obs, action):
        angle, speed = obs.unbind(dim=-1)
        speed = speed + self.dt * (9.8 * torch.sin(angle) + action.squeeze(-1))
        return torch.stack([angle + self.dt * speed, speed], dim=-1), torch.cos(angle) - 0.01 * speed.square()
# --- scale_action.py
import torch


class ScaleActionModel:
    """From what the policy says to what the model takes."""

    def __init__(self, model, min_action, max_action):
        self.model = model
        self.min_action = torch.zeros_like(model.action_lower_bound) + min_action
        self.max_action = torch.zeros_like(model.action_upper_bound) + max_action
        self.action_lower_bound = self.min_action
        self.action_upper_bound = self.max_action

    def action(self, action):
        action = torch.clip(action, self.min_action, self.max_action)
        low, high = self.model.action_lower_bound, self.model.action_upper_bound
        return low + (high - low) * (action - self.min_action) / (self.max_action - self.min_action)

    def forward(self, obs, action):
        return self.model.forward(obs, self.action(action))
# --- create_env_model.py
from pyth_base_model import LqModel, PendulumModel
from scale_action import ScaleActionModel

ENV_MODELS = {"pyth_lq": LqModel, "pyth_pendulum": PendulumModel}


def create_env_model(env_id, min_action=None, max_action=None, use_gpu=False, **kwargs):
    env_model = ENV_MODELS[env_id]()
    if min_action is not None and max_action is not None:
        env_model = ScaleActionModel(env_model, min_action, max_action)
    return env_model
# --- fhadp.py
import torch
from torch import nn

from create_env_model import create_env_model


class ApproxContainer(nn.Module):
    def __init__(self, learning_rate=0.01):
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(2, 16), nn.ELU(), nn.Linear(16, 1))
        self.policy_optimizer = torch.optim.Adam(self.policy.parameters(), lr=learning_rate)


class FHADP:
    """Looks a few steps ahead, and makes what it costs small."""

    def __init__(self, pre_horizon, use_gpu, **kwargs):
        self.networks = ApproxContainer()
        if use_gpu:
            self.networks.cuda()
        self.envmodel = create_env_model(use_gpu=use_gpu, **kwargs)
        self.pre_horizon = pre_horizon

    def local_update(self, data):
        obs, total = data["obs"], 0
        for _ in range(self.pre_horizon):
            obs, reward = self.envmodel.forward(obs, self.networks.policy(obs))
            total = total + reward
        loss = -total.mean()
        self.networks.policy_optimizer.zero_grad()
        loss.backward()
        self.networks.policy_optimizer.step()
        return loss.item()

# === pictures_in_a_new_order
# thread: https://github.com/dbolya/yolact/issues/664
# about: a net paints masks, each mixed of a few prototypes. The pictures of an epoch come shuffled, and a step is made when all have been seen
# operation: randperm
# operands: generator
# error: Expected a 'cuda' device type for generator but found 'cpu'
# category: generator|default-or-current-device
# line: train.py: data_loader = data.DataLoader(
# line: train.py: torch.set_default_tensor_type(
# repair: train.py: data_loader = data.DataLoader(dataset, args.batch_size, shuffle=True, collate_fn=detection_collate) -> data_loader =
#   data.DataLoader(dataset, args.batch_size, shuffle=True, collate_fn=detection_collate, generator=torch.Generator(device="cuda"))
from train import parse_args, train

if __name__ == "__main__":
    args = parse_args()
    losses = train(args)
    print("epochs", len(losses), "loss", [round(loss, 3) for loss in losses])
# --- config.py
from dataclasses import dataclass


@dataclass
class Config:
    name: str
    mask_dim: int = 4
    image_size: int = 16
    train_images: int = 10
    lr: float = 0.05


CONFIGS = {each.name: each for each in (Config("yolact_base"), Config("yolact_im32", image_size=32, mask_dim=6))}
# --- coco.py
import numpy as np
import torch
from torch.utils import data


class COCODetection(data.Dataset):
    """A picture, and the mask of the one thing in it."""

    def __init__(self, cfg):
        rng = np.random.default_rng(664)
        size = cfg.image_size
        self.images = rng.random((cfg.train_images, 3, size, size), dtype=np.float32)
        self.corners = rng.integers(0, size // 2, (cfg.train_images, 2))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index].copy()
        mask = np.zeros(image.shape[1:], np.float32)
        top, left = self.corners[index]
        half = image.shape[1] // 2
        mask[top : top + half, left : left + half] = 1
        image[:, mask > 0] += 0.5
        return torch.from_numpy(image), torch.from_numpy(mask)


def detection_collate(batch):
    images, masks = zip(*batch)
    return torch.stack(images), torch.stack(masks)
# --- yolact.py
import torch
from torch import nn


class Yolact(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
        self.proto_net = nn.Sequential(nn.Conv2d(8, cfg.mask_dim, 3, padding=1), nn.ReLU())
        self.mask_layer = nn.Linear(8, cfg.mask_dim)

    def forward(self, images):
        features = self.backbone(images)
        proto = self.proto_net(features)
        coefficients = torch.tanh(self.mask_layer(features.mean(dim=(2, 3))))
        return torch.einsum("bkhw,bk->bhw", proto, coefficients)
# --- train.py
import argparse

import torch
import torch.nn.functional as F
from torch.utils import data

from coco import COCODetection, detection_collate
from config import CONFIGS
from yolact import Yolact


def parse_args():
    parser = argparse.ArgumentParser(description="Yolact Training Script")
    parser.add_argument("--config", default="yolact_base")
    parser.add_argument("--batch_size", default=4, type=int)
    parser.add_argument("--epochs", default=3, type=int)
    parser.add_argument("--cpu", action="store_true")
    return parser.parse_args()


def train(args):
    torch.manual_seed(9)
    cfg = CONFIGS[args.config]
    dataset = COCODetection(cfg)
    net = Yolact(cfg)
    if torch.cuda.is_available() and not args.cpu:
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        net = net.cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=cfg.lr, momentum=0.9)
    data_loader = data.DataLoader(dataset, args.batch_size, shuffle=True, collate_fn=detection_collate)

    losses = []
    for _ in range(args.epochs):
        total = torch.zeros(())
        for images, masks in data_loader:
            images, masks = images.to(total.device), masks.to(total.device)
            total = total + F.binary_cross_entropy_with_logits(net(images), masks, reduction="sum")
        loss = total / (len(dataset) * masks[0].numel())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

# === sentences_by_two_cards
# thread: https://github.com/bentrevett/pytorch-seq2seq/issues/4
# about: a transformer, written to learn by, is told to turn sentences of one language into another. The sentences of a batch are shared by two cards
# operation: div on cuda:1, cuda:0
# operands: other|.*scale.*
# category: state-not-registered|data-parallel
# line: layers.py: self.scale = torch.sqrt(
# line: layers.py: energy = torch.matmul(
# repair: layers.py: self.scale = torch.sqrt(torch.FloatTensor([self.head_dim])).to(device) -> self.register_buffer("scale",
#   torch.sqrt(torch.FloatTensor([self.head_dim])))
import random

import torch
from torch import nn

from data import PAD, batches
from layers import MultiHeadAttentionLayer
from models import Decoder, Encoder, Seq2Seq

SEED = 1234
HID_DIM, N_HEADS = 16, 4


def train(model, iterator, optimizer, criterion):
    model.train()
    epoch_loss = 0
    for src, trg in iterator:
        optimizer.zero_grad()
        output = model(src, trg[:, :-1])
        loss = criterion(output.reshape(-1, output.shape[-1]), trg[:, 1:].reshape(-1).to(output.device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        epoch_loss += loss.item()
    return epoch_loss / len(iterator)


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def attention():
        return MultiHeadAttentionLayer(HID_DIM, N_HEADS, device)

    model = Seq2Seq(Encoder(20, HID_DIM, attention), Decoder(24, HID_DIM, attention)).to(device)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model, device_ids=[0, 1])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    iterator = [(src.to(device), trg.to(device)) for src, trg in batches(3)]
    for epoch in range(2):
        train_loss = train(model, iterator, optimizer, criterion)
        print(f"Epoch: {epoch + 1:02} | Train Loss: {train_loss:.3f}")


if __name__ == "__main__":
    main()
# --- data.py
import random

import torch

PAD, SOS, EOS = 0, 1, 2


def sentence(words, length, longest):
    inner = [random.randrange(3, words) for _ in range(length)]
    return [SOS, *inner, EOS] + [PAD] * (longest - length)


def batches(count, size=6, longest=7):
    """Pairs of sentences, each as long as the longest may be."""
    for _ in range(count):
        lengths = [random.randrange(2, longest + 1) for _ in range(size)]
        yield tuple(torch.tensor([sentence(words, length, longest) for length in lengths]) for words in (20, 24))
# --- layers.py
import torch
from torch import nn


class MultiHeadAttentionLayer(nn.Module):
    def __init__(self, hid_dim, n_heads, device):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = hid_dim // n_heads
        self.fc_q, self.fc_k = nn.Linear(hid_dim, hid_dim), nn.Linear(hid_dim, hid_dim)
        self.fc_v, self.fc_o = nn.Linear(hid_dim, hid_dim), nn.Linear(hid_dim, hid_dim)
        self.scale = torch.sqrt(torch.FloatTensor([self.head_dim])).to(device)

    def heads(self, x):
        return x.view(x.shape[0], -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)

    def forward(self, query, key, value, mask=None):
        Q, K, V = self.heads(self.fc_q(query)), self.heads(self.fc_k(key)), self.heads(self.fc_v(value))
        energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / self.scale
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        x = torch.matmul(torch.softmax(energy, dim=-1), V)
        return self.fc_o(x.permute(0, 2, 1, 3).reshape(query.shape))
# --- models.py
import torch
from torch import nn

from data import PAD


class Encoder(nn.Module):
    def __init__(self, input_dim, hid_dim, attention):
        super().__init__()
        self.tok_embedding, self.pos_embedding = nn.Embedding(input_dim, hid_dim), nn.Embedding(20, hid_dim)
        self.self_attention = attention()
        self.norm = nn.LayerNorm(hid_dim)

    def forward(self, src, src_mask):
        pos = torch.arange(src.shape[1], device=src.device)
        src = self.tok_embedding(src) + self.pos_embedding(pos)
        return self.norm(src + self.self_attention(src, src, src, src_mask))


class Decoder(Encoder):
    def __init__(self, output_dim, hid_dim, attention):
        super().__init__(output_dim, hid_dim, attention)
        self.encoder_attention = attention()
        self.fc_out = nn.Linear(hid_dim, output_dim)

    def forward(self, trg, enc_src, trg_mask, src_mask):
        trg = super().forward(trg, trg_mask)
        return self.fc_out(trg + self.encoder_attention(trg, enc_src, enc_src, src_mask))


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, src, trg):
        src_mask = (src != PAD)[:, None, None]
        length = trg.shape[1]
        trg_mask = (trg != PAD)[:, None, None] & torch.ones(length, length, device=trg.device).tril().bool()
        return self.decoder(trg, self.encoder(src, src_mask), trg_mask, src_mask)

# === which_particle_passed
# thread: https://github.com/graphnet-team/graphnet/issues/328
# about: pulses of light in ice tell what passed, noise, a muon or a neutrino. A net of the pulses as a graph is trained to tell which, by the kinds' numbers
# operation: mul|cross_entropy_loss on cuda:0, cpu
# operands: other|target.*
# category: created-without-device
# line: loss_functions.py: target_new = one_hot(
# line: loss_functions.py: return cross_entropy(
# repair: loss_functions.py: target_new = one_hot(torch.tensor([PID_CLASS[abs(int(value))] for value in target]), 3) -> target_new =
#   one_hot(torch.tensor([PID_CLASS[abs(int(value))] for value in target], device=prediction.device), 3)
import torch

from data import EventDataset, collate
from gnn import DynEdge
from loss_functions import LogCoshLoss, MultiClassificationCrossEntropyLoss
from model import StandardModel, Task


def main():
    torch.manual_seed(328)
    gnn = DynEdge(nb_inputs=4, nb_outputs=16)
    tasks = [
        Task("energy", hidden_size=16, nb_outputs=1, loss_function=LogCoshLoss()),
        Task("pid", hidden_size=16, nb_outputs=3, loss_function=MultiClassificationCrossEntropyLoss()),
    ]
    model = StandardModel(gnn=gnn, tasks=tasks)
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    events = EventDataset(count=12)
    for epoch in range(2):
        losses = []
        for start in range(0, len(events), 4):
            batch = {name: value.to(device) for name, value in collate(events[start : start + 4]).items()}
            loss = model.compute_loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    print("last epoch", [round(loss, 3) for loss in losses])


if __name__ == "__main__":
    main()
# --- data.py
import torch

PIDS = (1, 12, -12, 13, -13, 14, -14, 16, -16)


class EventDataset:
    def __init__(self, count):
        draw = torch.Generator().manual_seed(0)
        self.events = []
        for index in range(count):
            pulses = int(torch.randint(5, 9, (1,), generator=draw))
            x = torch.randn(pulses, 4, generator=draw) + index % 3
            self.events.append({"x": x, "pid": PIDS[index % len(PIDS)], "energy": x.abs().sum().log10().item()})

    def __len__(self):
        return len(self.events)

    def __getitem__(self, rows):
        return self.events[rows]


def collate(events):
    """One graph of all pulses, each with the number of its event."""
    lengths = torch.tensor([len(event["x"]) for event in events])
    return {
        "x": torch.cat([event["x"] for event in events]),
        "batch": torch.arange(len(events)).repeat_interleave(lengths),
        "pid": torch.tensor([event["pid"] for event in events]),
        "energy": torch.tensor([event["energy"] for event in events]),
    }
# --- gnn.py
import torch
from torch import nn


class DynEdge(nn.Module):
    """Each pulse hears from all others of its event; an event is the mean of its pulses."""

    def __init__(self, nb_inputs, nb_outputs):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * nb_inputs, nb_outputs), nn.LeakyReLU())
        self.post = nn.Linear(nb_outputs, nb_outputs)

    def forward(self, data):
        x, batch = data["x"], data["batch"]
        source, target = (batch[:, None] == batch[None]).nonzero(as_tuple=True)
        messages = self.edge(torch.cat([x[target], x[source] - x[target]], dim=1))
        events = int(batch.max()) + 1
        pooled = messages.new_zeros(events, messages.shape[1]).index_add(0, batch[target], messages)
        counts = torch.bincount(batch[target], minlength=events)[:, None]
        return torch.relu(self.post(pooled / counts))
# --- loss_functions.py
import math

import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot, softplus

PID_CLASS = {1: 0, 12: 2, 13: 1, 14: 2, 16: 2}


class LossFunction(nn.Module):
    def forward(self, prediction, target):
        return self._forward(prediction, target).mean()


class LogCoshLoss(LossFunction):
    def _forward(self, prediction, target):
        diff = prediction[:, 0] - target
        return diff + softplus(-2.0 * diff) - math.log(2.0)


class MultiClassificationCrossEntropyLoss(LossFunction):
    """Noise, muon or neutrino, told by the absolute number of the particle."""

    def _forward(self, prediction, target):
        target_new = one_hot(torch.tensor([PID_CLASS[abs(int(value))] for value in target]), 3)
        return cross_entropy(prediction.float(), target_new.float(), reduction="none")
# --- model.py
from torch import nn


class Task(nn.Module):
    def __init__(self, target_label, hidden_size, nb_outputs, loss_function):
        super().__init__()
        self.target_label = target_label
        self._affine = nn.Linear(hidden_size, nb_outputs)
        self._loss_function = loss_function

    def forward(self, x):
        return self._affine(x)

    def compute_loss(self, prediction, data):
        return self._loss_function(prediction, data[self.target_label])


class StandardModel(nn.Module):
    def __init__(self, gnn, tasks):
        super().__init__()
        self._gnn = gnn
        self._tasks = nn.ModuleList(tasks)

    def forward(self, data):
        x = self._gnn(data)
        return [task(x) for task in self._tasks]

    def compute_loss(self, predictions, data):
        return sum(task.compute_loss(prediction, data) for task, prediction in zip(self._tasks, predictions))

# === instructions_of_unequal_length
# thread: https://github.com/databrickslabs/dolly/pull/180
# about: instructions are put into a prompt, filled up to the longest and answered word by word. It is done by a pipeline of three steps
# operation: masked_fill_? on cuda:0, cpu
# operands: .*mask.*
# category: input-not-moved
# line: generate.py: attention_mask=attention_mask,
# line: generate.py: attention_mask = model_inputs["attention_mask"]
# line: generate.py: inputs = self.tokenizer(instructions)
# line: model.py: scores = scores.masked_fill(attention_mask
# line: model.py: scores = self(input_ids, attention_mask)
# repair: generate.py: attention_mask=attention_mask, -> attention_mask=attention_mask.to(self.model.device),
import torch

from generate import InstructionTextGenerationPipeline
from model import DollyConfig, DollyForCausalLM
from tokenizer import WordTokenizer

INSTRUCTIONS = [
    "name three colours",
    "tell me how a bridge is built over a wide river",
    "what is the best of all possible words",
]


def main():
    torch.manual_seed(180)
    tokenizer = WordTokenizer(INSTRUCTIONS)
    model = DollyForCausalLM(DollyConfig(vocab_size=len(tokenizer), hidden_size=16, num_layers=2))
    model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    generate_text = InstructionTextGenerationPipeline(model, tokenizer, max_new_tokens=5)
    for record in generate_text(INSTRUCTIONS):
        print(record["generated_text"])
    print("words", sum(len(record["generated_text"].split()) for record in generate_text(INSTRUCTIONS)), round(model.last_score, 3))


if __name__ == "__main__":
    main()
# --- tokenizer.py
import torch

PAD, END, INSTRUCTION, RESPONSE = "<pad>", "### End", "### Instruction:", "### Response:"


class WordTokenizer:
    padding_side = "left"

    def __init__(self, texts):
        words = sorted({word for text in texts for word in text.split()})
        self.words = [PAD, END, INSTRUCTION, RESPONSE, *words]
        self.pad_token_id, self.eos_token_id = 0, 1

    def __len__(self):
        return len(self.words)

    def __call__(self, texts):
        rows = [[2, *(self.words.index(word) for word in text.split()), 3] for text in texts]
        longest = max(len(row) for row in rows)
        input_ids = torch.tensor([[self.pad_token_id] * (longest - len(row)) + row for row in rows])
        return {"input_ids": input_ids, "attention_mask": (input_ids != self.pad_token_id).long()}

    def decode(self, ids):
        return " ".join(self.words[index] for index in ids if index > 3)
# --- generate.py
import torch


class InstructionTextGenerationPipeline:
    """Preprocess, forward, postprocess."""

    def __init__(self, model, tokenizer, **generate_kwargs):
        self.model, self.tokenizer = model, tokenizer
        self.generate_kwargs = generate_kwargs

    def __call__(self, instructions):
        model_inputs = self.preprocess(instructions)
        with torch.no_grad():
            outputs = self._forward(model_inputs, **self.generate_kwargs)
        return self.postprocess(outputs)

    def preprocess(self, instructions):
        inputs = self.tokenizer(instructions)
        inputs["instruction_text"] = instructions
        return inputs

    def _forward(self, model_inputs, **generate_kwargs):
        input_ids = model_inputs["input_ids"]
        attention_mask = model_inputs["attention_mask"]
        generated_sequence = self.model.generate(
            input_ids=input_ids.to(self.model.device),
            attention_mask=attention_mask,
            pad_token_id=self.tokenizer.pad_token_id,
            eos_token_id=self.tokenizer.eos_token_id,
            **generate_kwargs,
        )
        start = input_ids.shape[1]
        return {"generated_sequence": generated_sequence[:, start:].cpu(), "instruction_text": model_inputs["instruction_text"]}

    def postprocess(self, outputs):
        rows = zip(outputs["instruction_text"], outputs["generated_sequence"].tolist())
        return [{"instruction_text": text, "generated_text": self.tokenizer.decode(ids)} for text, ids in rows]
# --- model.py
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class DollyConfig:
    vocab_size: int
    hidden_size: int
    num_layers: int


class DollyLayer(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Sequential(nn.Linear(hidden, 2 * hidden), nn.GELU(), nn.Linear(2 * hidden, hidden))

    def forward(self, x, attention_mask):
        query, key, value = self.query_key_value(x).chunk(3, dim=-1)
        scores = query @ key.transpose(1, 2) / x.shape[-1] ** 0.5
        later = torch.ones(scores.shape[-2:], device=x.device).triu(1).bool()
        scores = scores.masked_fill(later, -1e4)
        scores = scores.masked_fill(attention_mask[:, None] == 0, -1e9)
        return x + scores.softmax(dim=-1) @ value + self.dense(x)


class DollyForCausalLM(nn.Module):
    last_score = 0.0

    def __init__(self, config):
        super().__init__()
        self.embed_in = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([DollyLayer(config.hidden_size) for _ in range(config.num_layers)])
        self.embed_out = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    @property
    def device(self):
        return self.embed_in.weight.device

    def forward(self, input_ids, attention_mask):
        x = self.embed_in(input_ids)
        for layer in self.layers:
            x = layer(x, attention_mask)
        return self.embed_out(x)

    def generate(self, input_ids, attention_mask, pad_token_id, eos_token_id, max_new_tokens):
        finished = torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
        for _ in range(max_new_tokens):
            scores = self(input_ids, attention_mask)[:, -1].log_softmax(dim=-1)
            best, token = scores.max(dim=-1)
            token = token.masked_fill(finished, pad_token_id)
            finished = finished | (token == eos_token_id)
            input_ids = torch.cat([input_ids, token[:, None]], dim=1)
            attention_mask = torch.cat([attention_mask, attention_mask.new_ones(len(input_ids), 1)], dim=1)
        self.last_score = best.mean().item()
        return input_ids
