# === poses_trained_on_from_a_checkpoint
# thread: https://github.com/Daniil-Osokin/lightweight-human-pose-estimation.pytorch/issues/208
# about: a network marks joints of bodies in pictures, in stages. Training stops, and goes on later with the rate and the step it had come to
# operation: .* on cpu, cuda:0
# operands: self|.*exp_avg.*|input|tensors1, .*grad.*|end|other|tensor1|weight
# category: optimizer|checkpoint
# line: train.py: net = net.cuda()
# line: train.py: net = PoseEstimationWithMobileNet(
# line: train.py: optimizer.load_state_dict(
# line: train.py: optimizer = optim.Adam(
# repair: train.py: net = PoseEstimationWithMobileNet(num_refinement_stages) -> net = PoseEstimationWithMobileNet(num_refinement_stages).cuda()
import argparse
import tempfile
from pathlib import Path

import torch

from train import train

parser = argparse.ArgumentParser()
parser.add_argument("--num-refinement-stages", type=int, default=1)
parser.add_argument("--base-lr", type=float, default=0.02)
parser.add_argument("--batches-per-iter", type=int, default=2)
parser.add_argument("--weights-only", action="store_true")

if __name__ == "__main__":
    args = vars(parser.parse_args())
    torch.manual_seed(208)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint_path = Path(folder) / "checkpoint_last_iter.pth"
        first = train(checkpoint_path=None, save_path=checkpoint_path, until_iter=3, **args)
        then = train(checkpoint_path=checkpoint_path, save_path=None, until_iter=6, **args)
    print("loss", [f"{loss:.4f}" for loss in first + then])
# --- datasets/coco.py
import torch
from torch.utils.data import Dataset


class CocoTrainDataset(Dataset):
    """Bright spots are joints of two kinds. Their maps are hills around the spots."""

    def __init__(self, size=8, side=16):
        generator = torch.Generator().manual_seed(4)
        self.side = side
        self.joints = torch.randint(3, side - 3, (size, 2, 2), generator=generator)
        self.noise = 0.1 * torch.randn(size, 2, side, side, generator=generator)

    def __len__(self):
        return len(self.joints)

    def __getitem__(self, idx):
        grid = torch.stack(torch.meshgrid(torch.arange(self.side), torch.arange(self.side), indexing="ij"))
        distance = (grid[None] - self.joints[idx][:, :, None, None]).pow(2).sum(1)
        keypoint_maps = torch.exp(-distance / 4)
        return {"image": (distance < 2).float() + self.noise[idx], "keypoint_maps": keypoint_maps}
# --- models/with_mobilenet.py
import torch
from torch import nn


def conv_dw(in_channels, out_channels):
    return nn.Sequential(
        nn.Conv2d(in_channels, in_channels, 3, padding=1, groups=in_channels, bias=False),
        nn.BatchNorm2d(in_channels),
        nn.ReLU(),
        nn.Conv2d(in_channels, out_channels, 1),
    )


class PoseEstimationWithMobileNet(nn.Module):
    def __init__(self, num_refinement_stages=1, num_channels=8, num_heatmaps=2):
        super().__init__()
        self.model = conv_dw(2, num_channels)
        self.initial_stage = conv_dw(num_channels, num_heatmaps)
        self.refinement_stages = nn.ModuleList(conv_dw(num_channels + num_heatmaps, num_heatmaps) for _ in range(num_refinement_stages))

    def forward(self, x):
        features = self.model(x)
        stages_output = [self.initial_stage(features)]
        for stage in self.refinement_stages:
            stages_output.append(stage(torch.cat([features, stages_output[-1]], dim=1)))
        return stages_output
# --- modules/load_state.py
def load_state(net, checkpoint):
    source_state = checkpoint["state_dict"]
    target_state = net.state_dict()
    for key, value in source_state.items():
        if key in target_state and target_state[key].size() == value.size():
            target_state[key] = value
    net.load_state_dict(target_state)
# --- train.py
import torch
from torch import optim
from torch.utils.data import DataLoader

from datasets.coco import CocoTrainDataset
from models.with_mobilenet import PoseEstimationWithMobileNet
from modules.load_state import load_state


def l2_loss(prediction, target, batch_size):
    return (prediction - target).pow(2).sum() / 2 / batch_size


def train(num_refinement_stages, base_lr, batches_per_iter, checkpoint_path, weights_only, save_path, until_iter):
    net = PoseEstimationWithMobileNet(num_refinement_stages)
    train_loader = DataLoader(CocoTrainDataset(), batch_size=2)
    optimizer = optim.Adam(net.parameters(), lr=base_lr, weight_decay=5e-4)
    scheduler = optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 5], gamma=0.333)
    num_iter = 0
    if checkpoint_path:
        checkpoint = torch.load(checkpoint_path, map_location="cpu")
        load_state(net, checkpoint)
        if not weights_only:
            optimizer.load_state_dict(checkpoint["optimizer"])
            scheduler.load_state_dict(checkpoint["scheduler"])
            num_iter = checkpoint["iter"]
    net = net.cuda()
    net.train()
    losses = []
    while num_iter < until_iter:
        total = 0.0
        optimizer.zero_grad()
        for batch_data, _ in zip(train_loader, range(batches_per_iter)):
            images, keypoint_maps = batch_data["image"].cuda(), batch_data["keypoint_maps"].cuda()
            loss = sum(l2_loss(output, keypoint_maps, len(images)) for output in net(images)) / batches_per_iter
            loss.backward()
            total += loss.item()
        optimizer.step()
        scheduler.step()
        num_iter += 1
        losses.append(total)
    if save_path:
        state = {"state_dict": net.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "iter": num_iter}
        torch.save(state, save_path)
    return losses

# === commands_for_a_small_world
# thread: https://github.com/LauraRuis/multimodal_seq2seq_gSCAN/pull/2
# about: a command in words and a grid world become the actions of an agent. Commands are sorted by their number of words for the encoder
# operation: _?pack_padded_sequence on cuda:0
# operands: lengths|.*lengths.*
# error: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor
# category: input
# line: seq2seq/seq2seq_model.py: packed_input = pack_padded_sequence(
# line: seq2seq/seq2seq_model.py: input_lengths, perm_idx = torch.sort(
# repair: seq2seq/seq2seq_model.py: packed_input = pack_padded_sequence(input_embeddings, input_lengths, batch_first=True) -> packed_input =
#   pack_padded_sequence(input_embeddings, input_lengths.cpu(), batch_first=True)
import torch

from seq2seq.gSCAN_dataset import GroundedScanDataset
from seq2seq.model import Model
from seq2seq.train import train

if __name__ == "__main__":
    torch.manual_seed(2)
    training_set = GroundedScanDataset()
    model = Model(len(training_set.input_vocabulary), len(training_set.target_vocabulary), num_cnn_channels=3, hidden_size=16)
    losses, accuracy = train(model, training_set, training_batch_size=4, max_training_iterations=10, learning_rate=0.03)
    print(f"loss {losses[0]:.4f} to {losses[-1]:.4f}, accuracy {accuracy:.3f}")
# --- seq2seq/gSCAN_dataset.py
import numpy as np
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

EXAMPLES = [
    ("walk to a red circle", "walk walk left"),
    ("push a square", "walk push"),
    ("walk to a square", "walk left walk"),
    ("pull a small blue circle cautiously", "left right walk pull"),
    ("push a red circle", "walk left push"),
    ("walk to a small square hesitantly", "walk stay walk stay"),
    ("pull a square", "left pull"),
    ("push a small circle", "right walk push"),
]


class Vocabulary:
    def __init__(self, sentences):
        words = sorted({word for sentence in sentences for word in sentence.split()})
        self.idx_to_word = ["<PAD>", "<SOS>", "<EOS>"] + words

    def to_indices(self, sentence):
        return [1] + [self.idx_to_word.index(word) for word in sentence.split()] + [2]

    def __len__(self):
        return len(self.idx_to_word)


class GroundedScanDataset:
    def __init__(self, grid_size=4, seed=66):
        rng = np.random.default_rng(seed)
        self.input_vocabulary = Vocabulary([command for command, _ in EXAMPLES])
        self.target_vocabulary = Vocabulary([actions for _, actions in EXAMPLES])
        self.examples = [
            (self.input_vocabulary.to_indices(command), rng.normal(size=(3, grid_size, grid_size)), self.target_vocabulary.to_indices(actions))
            for command, actions in EXAMPLES
        ]

    @staticmethod
    def pad(rows):
        longest = max(len(row) for row in rows)
        return torch.tensor([row + [0] * (longest - len(row)) for row in rows], dtype=torch.long, device=device)

    def get_data_iterator(self, batch_size):
        for start in range(0, len(self.examples), batch_size):
            commands, situations, targets = zip(*self.examples[start:start + batch_size])
            input_lengths = torch.tensor([len(command) for command in commands], dtype=torch.long, device=device)
            situations = torch.tensor(np.stack(situations), dtype=torch.float32, device=device)
            yield self.pad(commands), input_lengths, situations, self.pad(targets)
# --- seq2seq/seq2seq_model.py
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class EncoderRNN(nn.Module):
    """Embed a sequence of symbols using an LSTM."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(input_size, hidden_size, padding_idx=0)
        self.lstm = nn.LSTM(hidden_size, hidden_size, batch_first=True)

    def forward(self, input_batch, input_lengths):
        input_lengths, perm_idx = torch.sort(input_lengths, descending=True)
        input_embeddings = self.embedding(input_batch.index_select(dim=0, index=perm_idx))
        packed_input = pack_padded_sequence(input_embeddings, input_lengths, batch_first=True)
        packed_output, (hidden, _) = self.lstm(packed_input)
        output_per_timestep, _ = pad_packed_sequence(packed_output, batch_first=True)
        _, unperm_idx = perm_idx.sort(0)
        return hidden[-1].index_select(dim=0, index=unperm_idx), output_per_timestep.index_select(dim=0, index=unperm_idx)


class BahdanauDecoder(nn.Module):
    def __init__(self, output_size, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size, padding_idx=0)
        self.lstm = nn.LSTM(hidden_size, hidden_size, batch_first=True)
        self.hidden_to_output = nn.Linear(2 * hidden_size, output_size)

    def forward(self, input_tokens, initial_hidden, keys):
        states = (initial_hidden[None], torch.zeros_like(initial_hidden)[None])
        output, _ = self.lstm(self.embedding(input_tokens), states)
        attention = torch.softmax(output @ keys.transpose(1, 2), dim=-1)
        return self.hidden_to_output(torch.cat([output, attention @ keys], dim=-1))
# --- seq2seq/model.py
import torch
from torch import nn
from torch.nn import functional as F

from seq2seq.seq2seq_model import BahdanauDecoder, EncoderRNN


class Model(nn.Module):
    def __init__(self, input_vocabulary_size, target_vocabulary_size, num_cnn_channels, hidden_size):
        super().__init__()
        self.encoder = EncoderRNN(input_vocabulary_size, hidden_size)
        self.situation_encoder = nn.Conv2d(num_cnn_channels, hidden_size, 3, padding=1)
        self.attention_decoder = BahdanauDecoder(target_vocabulary_size, hidden_size)
        self.enc_hidden_to_dec_hidden = nn.Linear(hidden_size, hidden_size)

    def forward(self, commands, commands_lengths, situations, target_batch):
        encoded_commands = self.encoder(commands, commands_lengths)
        encoded_image = self.situation_encoder(situations).flatten(2).transpose(1, 2)
        keys = torch.cat([encoded_commands[1], encoded_image], dim=1)
        initial_hidden = torch.tanh(self.enc_hidden_to_dec_hidden(encoded_commands[0]))
        return self.attention_decoder(target_batch[:, :-1], initial_hidden, keys)

    @staticmethod
    def get_loss(scores, target_batch):
        return F.cross_entropy(scores.transpose(1, 2), target_batch[:, 1:], ignore_index=0)

    @staticmethod
    def get_accuracy(scores, target_batch):
        mask = target_batch[:, 1:] != 0
        return (scores.argmax(-1) == target_batch[:, 1:])[mask].float().mean().item()
# --- seq2seq/train.py
import torch

from seq2seq.gSCAN_dataset import device


def train(model, training_set, training_batch_size, max_training_iterations, learning_rate):
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    losses, accuracy = [], 0.0
    while len(losses) < max_training_iterations:
        for commands, input_lengths, situations, targets in training_set.get_data_iterator(training_batch_size):
            scores = model(commands, input_lengths, situations, targets)
            loss = model.get_loss(scores, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            accuracy = model.get_accuracy(scores, targets)
    return losses, accuracy

# === clients_with_and_without_a_card
# thread: https://github.com/FedML-AI/FedML/issues/779
# about: machines learn a model together without showing each other their data. A mapping says which of them have a card, and a server averages models
# operation: add_? on cpu, cuda:0
# operands: self|.*averaged_params.*|averaged, other|.*local_model_params.*
# category: module-split|input-not-moved
# line: simulation/fedavg_api.py: averaged_params[k] += local_model_params[k] * w
# line: core/model_trainer.py: return self.model.state_dict()
# line: simulation/fedavg_api.py: w_locals.append((client.local_sample_number
# line: simulation/client.py: return self.model_trainer.get_model_params()
# repair: core/model_trainer.py: return self.model.state_dict() -> return {k: v.cpu() for k, v in self.model.state_dict().items()}
import torch

from device import gpu_mapping
from simulation.fedavg_api import FedAvgAPI

CONFIG = {
    "random_seed": 0, "client_num_in_total": 3, "comm_round": 4, "epochs": 2, "batch_size": 10, "learning_rate": 0.3,
    "gpu_mapping": {"host1": ["cpu"], "host2": ["cuda:0", "cpu"]},
}

if __name__ == "__main__":
    torch.manual_seed(CONFIG["random_seed"])
    api = FedAvgAPI(CONFIG, gpu_mapping(CONFIG["gpu_mapping"]))
    accuracy, loss = api.train()
    print(f"test accuracy {accuracy:.3f} loss {loss:.4f}")
# --- device.py
import torch


def gpu_mapping(hosts):
    """The device of each client, in the order of the hosts and of their slots."""
    devices = []
    for slots in hosts.values():
        for slot in slots:
            devices.append(torch.device(slot if torch.cuda.is_available() else "cpu"))
    return devices
# --- data_loader.py
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def load_partition_data(client_num, batch_size, features=12, classes=3):
    """Clients have the same classes in unlike shares."""
    rng = np.random.default_rng(779)
    centers = rng.normal(size=(classes, features))
    train_data_local_dict = {}
    for client_idx in range(client_num + 1):
        shares = np.ones(classes) if client_idx == client_num else 0.5 + np.roll(np.arange(classes), client_idx)
        y = rng.choice(classes, size=30 + 10 * client_idx, p=shares / shares.sum())
        x = centers[y] + 0.8 * rng.normal(size=(len(y), features))
        dataset = TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))
        train_data_local_dict[client_idx] = DataLoader(dataset, batch_size=batch_size)
    return train_data_local_dict, train_data_local_dict.pop(client_num)
# --- core/model_trainer.py
import torch
from torch import nn


class LogisticRegression(nn.Module):
    def __init__(self, input_dim=12, output_dim=3):
        super().__init__()
        self.linear = nn.Linear(input_dim, output_dim)

    def forward(self, x):
        return self.linear(x)


class ModelTrainerCLS:
    def __init__(self, args):
        self.args = args
        self.model = LogisticRegression()
        self.criterion = nn.CrossEntropyLoss()

    def get_model_params(self):
        return self.model.state_dict()

    def set_model_params(self, model_parameters):
        self.model.load_state_dict(model_parameters)

    def train(self, train_data, device):
        self.model.to(device)
        self.model.train()
        optimizer = torch.optim.SGD(self.model.parameters(), lr=self.args["learning_rate"])
        for _ in range(self.args["epochs"]):
            for x, labels in train_data:
                x, labels = x.to(device), labels.to(device)
                optimizer.zero_grad()
                self.criterion(self.model(x), labels).backward()
                optimizer.step()

    @torch.no_grad()
    def test(self, test_data, device):
        self.model.to(device)
        self.model.eval()
        correct, loss, total = 0, 0.0, 0
        for x, target in test_data:
            x, target = x.to(device), target.to(device)
            pred = self.model(x)
            correct += (pred.argmax(-1) == target).sum().item()
            loss += self.criterion(pred, target).item() * len(target)
            total += len(target)
        return correct / total, loss / total
# --- simulation/client.py
from core.model_trainer import ModelTrainerCLS


class Client:
    def __init__(self, client_idx, local_training_data, args, device):
        self.client_idx = client_idx
        self.local_training_data = local_training_data
        self.local_sample_number = len(local_training_data.dataset)
        self.device = device
        self.model_trainer = ModelTrainerCLS(args)

    def train(self, w_global):
        self.model_trainer.set_model_params(w_global)
        self.model_trainer.train(self.local_training_data, self.device)
        return self.model_trainer.get_model_params()
# --- simulation/fedavg_api.py
import copy

from core.model_trainer import ModelTrainerCLS
from data_loader import load_partition_data
from simulation.client import Client


class FedAvgAPI:
    def __init__(self, args, devices):
        self.args, self.device = args, devices[0]
        train_data_local_dict, self.test_global = load_partition_data(args["client_num_in_total"], args["batch_size"])
        self.model_trainer = ModelTrainerCLS(args)
        self.client_list = [Client(i, train_data_local_dict[i], args, devices[i % len(devices)]) for i in train_data_local_dict]

    def train(self):
        w_global = self.model_trainer.get_model_params()
        for _ in range(self.args["comm_round"]):
            w_locals = []
            for client in self.client_list:
                w = client.train(copy.deepcopy(w_global))
                w_locals.append((client.local_sample_number, copy.deepcopy(w)))
            w_global = self._aggregate(w_locals)
            self.model_trainer.set_model_params(w_global)
        return self.model_trainer.test(self.test_global, self.device)

    @staticmethod
    def _aggregate(w_locals):
        training_num = sum(sample_num for sample_num, _ in w_locals)
        averaged_params = {}
        for i, (sample_num, local_model_params) in enumerate(w_locals):
            w = sample_num / training_num
            for k in local_model_params:
                if i == 0:
                    averaged_params[k] = local_model_params[k] * w
                else:
                    averaged_params[k] += local_model_params[k] * w
        return averaged_params

# === fewer_steps_with_extra_schedulers
# thread: https://github.com/DenOfEquity/webUI_ExtraSchedulers/pull/3
# about: an extension gives a program for pictures further ways to space the levels of noise, and a sampler that goes down them step by step
# operation: div on cuda:0, cpu
# operands: other|.*append_dims.*|.*sigma.*
# category: input-not-moved|created-without-device
# line: extra_samplers.py: d = to_d(x, sigmas[i], denoised)
# line: extra_samplers.py: return (x - denoised) / append_dims(
# line: modules/sd_samplers_kdiffusion.py: sigmas = scheduler.function(
# line: modules/sd_samplers_kdiffusion.py: samples = self.func(
# line: modules/sd_samplers_kdiffusion.py: sigmas = self.get_sigmas(
# repair: extra_samplers.py: d = to_d(x, sigmas[i], denoised) -> d = to_d(x, sigmas[i].to(x.device), denoised)
import extra_samplers
import extra_schedulers
from modules import processing

if __name__ == "__main__":
    extra_schedulers.register()
    extra_samplers.register()
    p = processing.StableDiffusionProcessing(seed=3, steps=6, sampler_name="Euler a (tempered)", scheduler="Cosine", batch_size=2)
    images = processing.process_images(p)
    print(f"mean {images.mean():.4f} std {images.std():.4f}", [f"{each:.3f}" for each in images[0, 0, 0].tolist()])
# --- modules/devices.py
import torch

cpu = torch.device("cpu")
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def randn(seed, shape):
    """The same noise on every machine."""
    return torch.randn(shape, generator=torch.Generator(cpu).manual_seed(seed)).to(device)
# --- modules/sd_schedulers.py
from dataclasses import dataclass
from typing import Callable

import torch


@dataclass
class Scheduler:
    label: str
    function: Callable


def get_sigmas_karras(n, sigma_min, sigma_max, device, rho=7.0):
    ramp = torch.linspace(0, 1, n, device=device)
    return torch.cat([(sigma_max ** (1 / rho) + ramp * (sigma_min ** (1 / rho) - sigma_max ** (1 / rho))) ** rho, ramp.new_zeros([1])])


schedulers = {"Karras": Scheduler("Karras", get_sigmas_karras)}
# --- modules/sd_samplers_kdiffusion.py
import torch

from modules import devices, sd_schedulers

samplers_k_diffusion = {}


class CFGDenoiser(torch.nn.Module):
    def __init__(self, channels=3, width=12):
        super().__init__()
        self.inner_model = torch.nn.Sequential(
            torch.nn.Conv2d(channels + 1, width, 3, padding=1), torch.nn.SiLU(), torch.nn.Conv2d(width, channels, 3, padding=1))

    def forward(self, x, sigma):
        level = (sigma.log() / 4)[:, None, None, None].expand(-1, 1, *x.shape[2:])
        scaled = x / (sigma[:, None, None, None] ** 2 + 1).sqrt()
        return torch.tanh(self.inner_model(torch.cat([scaled, level], dim=1)))


class KDiffusionSampler:
    def __init__(self, name, model):
        self.func = samplers_k_diffusion[name]
        self.model_wrap_cfg = model

    def get_sigmas(self, p, steps):
        scheduler = sd_schedulers.schedulers[p.scheduler]
        sigmas = scheduler.function(n=steps, sigma_min=0.03, sigma_max=14.6, device=devices.cpu)
        return sigmas

    @torch.no_grad()
    def sample(self, p, x):
        sigmas = self.get_sigmas(p, p.steps)
        x = x * sigmas[0]
        samples = self.func(self.model_wrap_cfg, x, sigmas=sigmas, noise_seed=p.seed + 1)
        return samples
# --- modules/processing.py
from dataclasses import dataclass

import torch

from modules import devices
from modules.sd_samplers_kdiffusion import CFGDenoiser, KDiffusionSampler


@dataclass
class StableDiffusionProcessing:
    seed: int
    steps: int
    sampler_name: str
    scheduler: str
    batch_size: int = 1
    width: int = 8
    height: int = 8


def process_images(p):
    torch.manual_seed(0)
    model = CFGDenoiser().to(devices.device)
    noise = devices.randn(p.seed, (p.batch_size, 3, p.height, p.width))
    samples = KDiffusionSampler(p.sampler_name, model).sample(p, noise)
    return (samples.clamp(-1, 1) + 1).cpu() / 2
# --- extra_schedulers.py
import math

import torch

from modules import sd_schedulers


def cosine_scheduler(n, sigma_min, sigma_max, device):
    ramp = torch.linspace(0, 1, n, device=device)
    level = (1 + torch.cos(math.pi * ramp)) / 2
    return torch.cat([sigma_min + (sigma_max - sigma_min) * level ** 2, ramp.new_zeros([1])])


def register():
    sd_schedulers.schedulers["Cosine"] = sd_schedulers.Scheduler("Cosine", cosine_scheduler)
# --- extra_samplers.py
from modules import devices, sd_samplers_kdiffusion


def append_dims(x, target_dims):
    return x[(...,) + (None,) * (target_dims - x.ndim)]


def to_d(x, sigma, denoised):
    """Converts a denoiser output to a Karras ODE derivative."""
    return (x - denoised) / append_dims(sigma, x.ndim)


def sample_euler_tempered(model, x, sigmas, noise_seed, s_churn=0.3):
    """Euler steps, with a little fresh noise between them that gets less."""
    s_in = x.new_ones([x.shape[0]])
    for i in range(len(sigmas) - 1):
        denoised = model(x, sigmas[i] * s_in)
        d = to_d(x, sigmas[i], denoised)
        x = x + d * (sigmas[i + 1] - sigmas[i])
        if sigmas[i + 1] > 0:
            eps = devices.randn(noise_seed + i, x.shape)
            x = x + eps * s_churn * sigmas[i + 1] / (i + 1)
    return x


def register():
    sd_samplers_kdiffusion.samplers_k_diffusion["Euler a (tempered)"] = sample_euler_tempered

# === residues_of_antibodies_as_numbers
# thread: https://github.com/dohlee/antiberty-pytorch/issues/1
# about: a language model of antibodies gives numbers for each letter of both chains, without the padding, and a second one makes a structure of them
# operation: index on cpu, cuda:0
# operands: self|.*embeddings.*, indices|index|.*a == 1.*|a
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# category: input-not-moved|input
# line: antiberty/AntiBERTyRunner.py: for i, a in enumerate(attention_mask):
# line: antiberty/AntiBERTyRunner.py: embeddings[i] = embeddings[i][:, a == 1]
# line: antiberty/AntiBERTyRunner.py: embeddings = list(embeddings.detach().cpu())
# repair: antiberty/AntiBERTyRunner.py: for i, a in enumerate(attention_mask): -> for i, a in enumerate(attention_mask.detach().cpu()):
import torch

from igfold.IgFoldRunner import IgFoldRunner

SEQUENCES = {"H": "EVQLVQSGPEVKKPGTSVK", "L": "DVVMTQTPFSLPV"}

if __name__ == "__main__":
    torch.manual_seed(30)
    igfold = IgFoldRunner(num_models=2)
    coords, prmsd = igfold.fold(SEQUENCES)
    print(f"residues {len(coords)} end to end {(coords[0] - coords[-1]).norm():.4f} prmsd {prmsd.mean():.4f}")
# --- antiberty/model.py
from types import SimpleNamespace

from torch import nn


class AntiBERTy(nn.Module):
    def __init__(self, vocab, dim=16, layers=3):
        super().__init__()
        self.embeddings = nn.Embedding(vocab, dim, padding_idx=0)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, nhead=2, dim_feedforward=2 * dim, dropout=0.0, batch_first=True) for _ in range(layers))

    def forward(self, input_ids, attention_mask):
        hidden_states = [self.embeddings(input_ids)]
        for layer in self.layers:
            hidden_states.append(layer(hidden_states[-1], src_key_padding_mask=attention_mask == 0))
        return SimpleNamespace(hidden_states=tuple(hidden_states))
# --- antiberty/tokenizer.py
import torch


class BertTokenizer:
    def __init__(self):
        self.vocab = ["[PAD]", "[CLS]", "[SEP]"] + list("ACDEFGHIKLMNPQRSTVWY")

    def __call__(self, sequences):
        rows = [[1] + [self.vocab.index(letter) for letter in sequence] + [2] for sequence in sequences]
        longest = max(len(row) for row in rows)
        input_ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        return {"input_ids": input_ids, "attention_mask": (input_ids != 0).long()}
# --- antiberty/AntiBERTyRunner.py
import torch

from antiberty.model import AntiBERTy
from antiberty.tokenizer import BertTokenizer


class AntiBERTyRunner:
    """Wrapper class for running AntiBERTy"""

    def __init__(self):
        self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        self.tokenizer = BertTokenizer()
        self.model = AntiBERTy(len(self.tokenizer.vocab)).to(self.device)
        self.model.eval()

    @torch.no_grad()
    def embed(self, sequences):
        """
        Embed a list of sequences.

        :return: list(torch.Tensor): embeddings, [layers, length, dim] for each sequence
        """
        tokens = self.tokenizer(sequences)
        input_ids = tokens["input_ids"].to(self.device)
        attention_mask = tokens["attention_mask"].to(self.device)
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask)

        # gather embeddings
        embeddings = torch.stack(outputs.hidden_states, dim=1)
        embeddings = list(embeddings.detach().cpu())
        for i, a in enumerate(attention_mask):
            embeddings[i] = embeddings[i][:, a == 1]
        return embeddings
# --- igfold/model.py
import torch
from torch import nn


class IgFold(nn.Module):
    def __init__(self, layers=4, dim=16):
        super().__init__()
        self.layer_weights = nn.Parameter(torch.randn(layers))
        self.str_node_transform = nn.Sequential(nn.Linear(dim, 24), nn.ReLU(), nn.Linear(24, 3))
        self.prmsd = nn.Linear(dim, 1)

    def forward(self, embeddings):
        nodes = torch.cat([torch.einsum("l,lnd->nd", self.layer_weights.softmax(0), chain[:, 1:-1]) for chain in embeddings])
        coords = self.str_node_transform(nodes).cumsum(dim=0)
        return coords, nn.functional.softplus(self.prmsd(nodes)).squeeze(-1)
# --- igfold/IgFoldRunner.py
import torch

from antiberty.AntiBERTyRunner import AntiBERTyRunner
from igfold.model import IgFold


class IgFoldRunner:
    def __init__(self, num_models=4):
        self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        self.models = [IgFold().eval().to(self.device) for _ in range(num_models)]
        self.antiberty = AntiBERTyRunner()

    @torch.no_grad()
    def fold(self, sequences):
        """The structure of the model that is surest of it."""
        embeddings = self.antiberty.embed(list(sequences.values()))
        embeddings = [each.to(self.device) for each in embeddings]
        outputs = [model(embeddings) for model in self.models]
        return min(outputs, key=lambda output: output[1].mean().item())

# === jobs_scheduled_by_a_language_model
# thread: https://github.com/duowuyms/NetLLM/issues/17
# about: a language model, with small parts around it that are trained, says which job of a cluster runs next. What does not fit a card stays on disk
# operation: _to_copy|to|copy_?|empty_like on meta
# operands: .*weight.*|.*bias.*|self|t|.*layers.*
# error: Cannot copy out of meta tensor; no data!
# category: module-split|checkpoint|created-without-device|default-or-current-device
# line: run_plm.py: plm = load_plm(
# line: plm_special/utils/plm_utils.py: if device == "disk":
# line: plm_special/utils/plm_utils.py: MAX_MEMORY = {
# line: run_plm.py: plm = plm.to(args.device)
# line: plm_special/utils/plm_utils.py: max_memory = MAX_MEMORY
# repair: run_plm.py: plm = load_plm(args.plm_type, args.plm_size, device_map="auto") -> plm = load_plm(args.plm_type, args.plm_size,
#   device_map={"": args.device})
import argparse

from run_plm import run

parser = argparse.ArgumentParser()
parser.add_argument("--plm-type", type=str, default="llama")
parser.add_argument("--plm-size", type=str, default="base")
parser.add_argument("--state-feature-dim", type=int, default=16)
parser.add_argument("--num-iters", type=int, default=5)
parser.add_argument("--lr", type=float, default=0.02)
parser.add_argument("--device", type=str, default="cuda:0")

if __name__ == "__main__":
    losses, order = run(parser.parse_args())
    print("loss", [f"{loss:.4f}" for loss in losses], "order", order)
# --- plm_special/models/llama.py
from torch import nn


class LlamaBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, hidden):
        return hidden + self.mlp(self.norm(hidden.cumsum(dim=1)))


class LlamaModel(nn.Module):
    def __init__(self, width=16, num_layers=4):
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(LlamaBlock(width) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, inputs_embeds):
        hidden = inputs_embeds
        for layer in self.layers:
            hidden = layer(hidden)
        return self.norm(hidden)
# --- plm_special/models/scheduler.py
import torch
from torch import nn


class OfflineRLPolicy(nn.Module):
    """Features of jobs go through an encoder, the language model and a head that scores each job."""

    def __init__(self, plm, state_feature_dim, num_features=5):
        super().__init__()
        self.plm = plm.requires_grad_(False)
        self.state_encoder = nn.Sequential(nn.Linear(num_features, state_feature_dim), nn.ReLU())
        self.embed_state = nn.Linear(state_feature_dim, plm.width)
        self.action_head = nn.Linear(plm.width, 1)

    def forward(self, states):
        return self.action_head(self.plm(self.embed_state(self.state_encoder(states)))).squeeze(-1)

    @torch.no_grad()
    def order(self, states):
        return self.forward(states).argsort(dim=-1, descending=True)
# --- plm_special/utils/plm_utils.py
import torch

from plm_special.models.llama import LlamaModel

SIZES = {"base": {"width": 16, "num_layers": 4}, "small": {"width": 8, "num_layers": 2}}
MAX_MEMORY = {"cuda:0": 11000}  # bytes


def pretrained_weights(config):
    generator = torch.Generator().manual_seed(17)
    shapes = LlamaModel(**config).state_dict()
    return {name: value + 0.05 * torch.randn(value.shape, generator=generator) for name, value in shapes.items()}


def infer_auto_device_map(model, max_memory):
    """Fills each card in turn, and leaves the rest to the disk."""
    device_map, budget = {}, dict(max_memory)
    for name, module in [(f"layers.{i}", layer) for i, layer in enumerate(model.layers)] + [("norm", model.norm)]:
        size = sum(p.numel() * p.element_size() for p in module.parameters())
        device = next((device for device, free in budget.items() if free >= size), "disk")
        device_map[name] = device
        if device in budget:
            budget[device] -= size
    return device_map


def load_plm(model_name, model_size, device_map=None):
    if model_name != "llama":
        raise ValueError(f"unsupported model: {model_name}")
    config = SIZES[model_size]
    torch.manual_seed(17)
    weights = pretrained_weights(config)
    with torch.device("meta"):
        model = LlamaModel(**config)
    max_memory = MAX_MEMORY
    if device_map == "auto":
        device_map = infer_auto_device_map(model, max_memory)
    for prefix, device in device_map.items():
        if device == "disk":
            continue
        part = {name: value.to(device) for name, value in weights.items() if name.startswith(prefix)}
        model.load_state_dict(part, strict=False, assign=True)
    model.hf_device_map = device_map
    return model
# --- run_plm.py
import torch
from torch.nn import functional as F

from plm_special.models.scheduler import OfflineRLPolicy
from plm_special.utils.plm_utils import load_plm


def collect_experience(count=12, jobs=6):
    """States of a queue, and the job that a scheduler with hindsight took."""
    generator = torch.Generator().manual_seed(8)
    states = torch.rand(count, jobs, 5, generator=generator)
    return states, (states[..., 0] - 2 * states[..., 1]).argmax(dim=-1)


def run(args):
    plm = load_plm(args.plm_type, args.plm_size, device_map="auto")
    plm = plm.to(args.device)
    torch.manual_seed(666)
    policy = OfflineRLPolicy(plm, args.state_feature_dim).to(args.device)
    states, actions = (each.to(args.device) for each in collect_experience())
    optimizer = torch.optim.AdamW([p for p in policy.parameters() if p.requires_grad], lr=args.lr)
    losses = []
    for _ in range(args.num_iters):
        loss = F.cross_entropy(policy(states), actions)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, policy.order(states[:1])[0].tolist()
