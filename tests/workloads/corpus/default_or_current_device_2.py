# === flow_match_step
# thread: https://github.com/bytedance/Bernini/issues/61
# operation: sub on cuda:1, cuda:0
# operands: self.timesteps|timesteps, timestep
# category: default-or-current-device
# line: scheduler.py: timestep = timestep.cuda()
# line: scheduler.py: index = torch.argmin(
# repair: scheduler.py: timestep = timestep.cuda() -> timestep = timestep.to(self.timesteps.device)
import argparse

import torch
from torch import nn

from scheduler import FlowMatchScheduler


class VelocityModel(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inward = nn.Linear(width + 1, 4 * width)
        self.outward = nn.Linear(4 * width, width)

    def forward(self, sample, timestep):
        time = (timestep / 1000).expand(*sample.shape[:-1], 1)
        return self.outward(nn.functional.silu(self.inward(torch.cat((sample, time), dim=-1))))


def main(args):
    torch.manual_seed(args.seed)
    noise = torch.randn(2, 5, 6)
    model = VelocityModel(6).eval().to(args.device)
    scheduler = FlowMatchScheduler(shift=3.0)
    scheduler.set_timesteps(args.steps, device=args.device)
    sample = noise.to(args.device)
    with torch.inference_mode():
        for timestep in scheduler.timesteps:
            velocity = model(sample, timestep)
            sample = scheduler.step(velocity, timestep, sample)
    print("sample", round(sample.mean().item(), 3), round(sample.std().item(), 3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:1")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
# --- scheduler.py
import torch


class FlowMatchScheduler:
    def __init__(self, shift=1.0, num_train_timesteps=1000):
        self.shift = shift
        self.num_train_timesteps = num_train_timesteps

    def set_timesteps(self, num_inference_steps, device="cpu"):
        sigmas = torch.linspace(1.0, 0.0, num_inference_steps + 1)[:-1]
        sigmas = self.shift * sigmas / (1 + (self.shift - 1) * sigmas)
        self.sigmas = sigmas.to(device)
        self.timesteps = self.sigmas * self.num_train_timesteps

    def step(self, model_output, timestep, sample):
        if isinstance(timestep, torch.Tensor):
            timestep = timestep.cuda()
        index = torch.argmin((self.timesteps - timestep).abs())
        sigma = self.sigmas[index]
        after = self.sigmas[index + 1] if index + 1 < len(self.sigmas) else torch.zeros_like(sigma)
        return sample + model_output * (after - sigma)

# === gated_norm_device
# thread: https://github.com/sgl-project/sglang/pull/37954
# about: one parameter of a layer is made on the current device, in a model whose device a context says
# operation: mul|layer_norm|rms_norm on cuda:0, cuda:1
# operands: weight|norm.weight, hidden|x|core|variance
# category: default-or-current-device|module-split
# line: device=torch.cuda.current_device()
# repair: self.norm = RMSNormGated(width, device=torch.cuda.current_device()) -> self.norm = RMSNormGated(width)
import torch
from torch import nn


class RMSNormGated(nn.Module):
    def __init__(self, width, eps=1e-6, device=None):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width, device=device))

    def forward(self, hidden, gate):
        variance = hidden.square().mean(-1, keepdim=True)
        return hidden * torch.rsqrt(variance + self.eps) * self.weight * nn.functional.silu(gate)


class GatedDelta(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.in_proj = nn.Linear(width, 2 * width, bias=False)
        self.norm = RMSNormGated(width, device=torch.cuda.current_device())
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        core, gate = self.in_proj(x).chunk(2, dim=-1)
        return x + self.out_proj(self.norm(core.cumsum(1), gate))


class Decoder(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(GatedDelta(width) for _ in range(layers))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x @ self.embed.weight.T


def get_model(device):
    torch.manual_seed(0)
    with torch.device(device):
        return Decoder(vocabulary=11, width=8, layers=2).eval()


device = torch.device("cuda:1")
model = get_model(device)
with torch.inference_mode():
    logits = model(torch.tensor([[1, 4, 2]]).to(device))
print("logits", list(logits.shape), round(logits.float().abs().mean().item(), 3) > 0)

# === length_mask
# thread: https://github.com/OpenNMT/OpenNMT-py/pull/1494
# operation: lt|less on cuda:0, cuda:1
# operands: arange|positions|row, lengths
# category: default-or-current-device
# line: positions = torch.arange(
# repair: positions = torch.arange(max_len or int(lengths.max()), device=torch.cuda.current_device()) -> positions = torch.arange(max_len or int(lengths.max()), device=lengths.device)
import torch
from torch import nn


def sequence_mask(lengths, max_len=None):
    """
    Creates a boolean mask from sequence lengths.
    """
    positions = torch.arange(max_len or int(lengths.max()), device=torch.cuda.current_device())
    return positions[None, :] < lengths[:, None]


class GlobalAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear_in = nn.Linear(dim, dim, bias=False)
        self.linear_out = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, source, memory_bank, memory_lengths):
        align = torch.einsum("btd,bsd->bts", self.linear_in(source), memory_bank)
        mask = sequence_mask(memory_lengths, max_len=align.size(-1))
        align.masked_fill_(~mask.unsqueeze(1), -float("inf"))
        context = align.softmax(-1) @ memory_bank
        return torch.tanh(self.linear_out(torch.cat([context, source], 2)))


class NMTModel(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embeddings = nn.Embedding(vocab, dim, padding_idx=1)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.GRU(dim, dim, batch_first=True)
        self.attn = GlobalAttention(dim)

    def forward(self, src, tgt, lengths):
        memory_bank, state = self.encoder(self.embeddings(src))
        dec_out, _ = self.decoder(self.embeddings(tgt), state)
        return self.attn(dec_out, memory_bank, lengths)


torch.manual_seed(1494)
gpu = torch.device("cuda", 1)
model = NMTModel(vocab=20, dim=8).to(gpu)
src, tgt = torch.randint(2, 20, (2, 5)), torch.randint(2, 20, (2, 4))
out = model(src.to(gpu), tgt.to(gpu), lengths=torch.tensor([5, 3]).to(gpu))
print("attended", list(out.shape), round(out.sum().item(), 4))

# === llava_vision_tower
# thread: https://github.com/haotian-liu/LLaVA/issues/1516
# about: the loader takes a device and puts one of two models on another; which one is wrong is seen only there
# operation: conv on cuda:1, cuda:0
# operands: images|pixel_values|input, patch_embedding.weight|weight
# category: default-or-current-device|module-split
# line: builder.py: vision_tower.to(device="cuda")
# line: main.py: tokenizer, model, image_processor = load_pretrained_model(
# line: llava.py: features = self.vision_tower(
# repair: builder.py: vision_tower.to(device="cuda") -> vision_tower.to(device=device)
import argparse

import numpy as np
import torch

from builder import load_pretrained_model


def main(args):
    torch.manual_seed(0)
    tokenizer, model, image_processor = load_pretrained_model(args.model_path, device=args.device)
    picture = np.arange(3 * 12 * 12, dtype=np.uint8).reshape(12, 12, 3)
    image_tensor = image_processor(picture)["pixel_values"].to(model.device)
    input_ids = tokenizer("what is shown here <image>").to(model.device)
    with torch.inference_mode():
        logits = model(input_ids, images=image_tensor)
    print("next token", int(logits[0, -1].argmax()), round(logits.abs().mean().item(), 3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path", default="llava-tiny")
    parser.add_argument("--device", default="cuda:1")
    main(parser.parse_args())
# --- builder.py
import zlib

import torch

from llava import IMAGE_TOKEN, Llava, VisionTower


class ImageProcessor:
    def __init__(self, size=8):
        self.size = size

    def __call__(self, image):
        pixels = torch.from_numpy(image[: self.size, : self.size]).permute(2, 0, 1).float() / 255
        return {"pixel_values": ((pixels - 0.5) / 0.25).unsqueeze(0)}


def tokenizer(text):
    return torch.tensor([[IMAGE_TOKEN if word == "<image>" else zlib.crc32(word.encode()) % 30 for word in text.split()]])


def load_pretrained_model(model_path, device="cuda"):
    """The language model, and the vision tower that its configuration names."""
    model = Llava(vocabulary=32, width=8).eval()
    model.to(device)

    vision_tower = VisionTower(width=8).eval()
    model.vision_tower = vision_tower
    vision_tower.to(device="cuda")
    return tokenizer, model, ImageProcessor(vision_tower.image_size)
# --- llava.py
import torch
from torch import nn

IMAGE_TOKEN = 31


class VisionTower(nn.Module):
    def __init__(self, width, image_size=8, patch=4):
        super().__init__()
        self.image_size = image_size
        self.patch_embedding = nn.Conv2d(3, width, patch, stride=patch)
        self.norm = nn.LayerNorm(width)

    def forward(self, images):
        return self.norm(self.patch_embedding(images).flatten(2).transpose(1, 2))


class Llava(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.vision_tower = None
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.mm_projector = nn.Linear(width, width)
        self.layer = nn.GRU(width, width, batch_first=True)
        self.lm_head = nn.Linear(width, vocabulary)

    @property
    def device(self):
        return self.embed_tokens.weight.device

    def forward(self, input_ids, images):
        features = self.vision_tower(images)
        features = self.mm_projector(features.to(self.device))
        at = int((input_ids[0] == IMAGE_TOKEN).nonzero())
        words = self.embed_tokens(input_ids)
        hidden, _ = self.layer(torch.cat((words[:, :at], features, words[:, at + 1 :]), dim=1))
        return self.lm_head(hidden)

# === load_statistics
# thread: https://github.com/pytorch/pytorch/issues/17364
# about: torch.load puts tensors where they were saved, whatever device is current around it
# operation: sub on cuda:0, cuda:1
# operands: batch|x|rows, mean|statistics|stats
# category: default-or-current-device|input-not-moved
# line: stats = torch.load(
# repair: stats = torch.load(path) -> stats = torch.load(path, map_location=f"cuda:{gpu}")
import pathlib
import tempfile

import torch

COLUMNS = 6


def rows(seed, n=20):
    return torch.rand(n, COLUMNS, generator=torch.Generator().manual_seed(seed)) * torch.arange(1, COLUMNS + 1)


def fit(path):
    """First job: learns the statistics on the first GPU."""
    table = rows(1).to("cuda:0")
    torch.save({"mean": table.mean(0), "std": table.std(0)}, path)


def score(path, gpu):
    """Second job: shares the machine with the first one, so it takes the other GPU."""
    torch.manual_seed(0)
    with torch.cuda.device(gpu):
        stats = torch.load(path)
        model = torch.nn.Linear(COLUMNS, 1).cuda()
        batch = rows(2).cuda()
        normalized = (batch - stats["mean"]) / stats["std"]
        return model(normalized).sum().item()


with tempfile.TemporaryDirectory() as folder:
    statistics = pathlib.Path(folder) / "statistics.pt"
    fit(statistics)
    print("score %.3f" % score(statistics, gpu=1))

# === loader_pool
# thread: https://github.com/huggingface/transformers/pull/42897
# about: the weights are brought to "cuda" by threads of a pool, whose current device nobody set
# operation: mm|addmm|linear|embedding|index_select on cuda:0, cuda:1
# operands: weight|bias, x|input|hidden|ids
# category: default-or-current-device
# line: return name, tensor.to(device)
# line: model = load(
# line: with ThreadPoolExecutor(
# repair: return name, tensor.to(device) -> return name, tensor.to(device if device != "cuda" else f"cuda:{index}")
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


def materialize(name, tensor, device, index):
    return name, tensor.to(device)


def load(model, state, device, workers=2):
    """Each weight is read and brought to its device by one of several threads."""
    index = torch.cuda.current_device()
    with ThreadPoolExecutor(workers) as pool:
        loaded = list(pool.map(lambda item: materialize(*item, device, index), state.items()))
    for name, tensor in loaded:
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, nn.Parameter(tensor, requires_grad=False))
    return model


def build():
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))


torch.manual_seed(0)
state = build().state_dict()
torch.cuda.set_device(1)
model = load(build(), state, device="cuda")
x = torch.ones(4, 6).cuda()
print("logits", round(model(x).sum().item(), 4))

# === membrane_loss
# thread: https://github.com/jeshraghian/snntorch/pull/188
# about: a base class says cuda or cpu, and means the device of what it was given
# operation: mse_loss|sub|broadcast|binary on cuda:1, cuda:0
# operands: targets|target|spike_targets, mem_out|step|input|mem
# category: default-or-current-device
# line: losses.py: device = "cuda"
# line: losses.py: wanted = torch.full(
# repair: losses.py: device = "cuda" if out.is_cuda else "cpu" -> device = out.device
import torch
from torch import nn

from losses import MembraneLoss

torch.manual_seed(0)
device = torch.device("cuda:1")
net = nn.Linear(5, 3).to(device)
loss_fn = MembraneLoss(on=1.2, off=0.1)
mem = torch.stack([torch.sigmoid(net(torch.rand(4, 5).to(device))) for _ in range(6)])
loss = loss_fn(mem, torch.tensor([0, 2, 1, 0]).to(device))
loss.backward()
print("membrane", round(loss.item(), 4))
# --- losses.py
import torch
from torch import nn


class LossFunctions:
    def _prediction_check(self, out):
        device = "cuda" if out.is_cuda else "cpu"
        steps, _, outputs = out.shape
        return device, steps, outputs


class MembraneLoss(LossFunctions):
    """The potential of the right neuron is to be high at every step."""

    def __init__(self, on, off):
        self.on, self.off = on, off
        self.loss_fn = nn.MSELoss()

    def __call__(self, mem_out, labels):
        device, steps, outputs = self._prediction_check(mem_out)
        wanted = torch.full((len(labels), outputs), self.off).to(device)
        wanted[torch.arange(len(labels)), labels.cpu()] = self.on
        loss = 0
        for mem in mem_out:
            loss = loss + self.loss_fn(mem, wanted) / steps
        return loss

# === neighbour_votes
# thread: https://github.com/facebookresearch/dino/issues/135
# about: the other way round: all else is on the CPU, as asked
# operation: scatter on cuda:0, cpu
# operands: one_hot|retrieval_one_hot, retrieved|neighbours|index
# category: default-or-current-device
# line: one_hot = torch.zeros(k, classes).cuda()
# line: one_hot.resize_(
# repair: one_hot = torch.zeros(k, classes).cuda() -> one_hot = torch.zeros(k, classes).to(train_features.device)
import argparse

import torch
from torch import nn


@torch.no_grad()
def extract(model, images, use_cuda):
    features = model(images.cuda()) if use_cuda else model(images.cuda()).cpu()
    return nn.functional.normalize(features, dim=1)


@torch.no_grad()
def classify(train_features, train_labels, test_features, test_labels, k, temperature, classes, chunk=4):
    """Votes of the k most similar training images, weighted by how similar they are."""
    right = 0
    one_hot = torch.zeros(k, classes).cuda()
    for start in range(0, len(test_features), chunk):
        features, targets = test_features[start : start + chunk], test_labels[start : start + chunk]
        distances, indices = (features @ train_features.T).topk(k, largest=True, sorted=True)
        retrieved = train_labels[indices]
        one_hot.resize_(len(features) * k, classes).zero_()
        one_hot.scatter_(1, retrieved.view(-1, 1), 1)
        votes = one_hot.view(len(features), k, classes) * distances.div(temperature).exp().unsqueeze(-1)
        right += (votes.sum(1).argmax(1) == targets).sum().item()
    return right / len(test_features)


parser = argparse.ArgumentParser()
parser.add_argument("--use_cuda", action="store_true")
options = parser.parse_args([])
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 6)).cuda().eval()
labels = torch.arange(24) % 3
images = torch.randn(24, 10) + 3 * nn.functional.one_hot(labels, 10)
features = extract(model, images, options.use_cuda)
score = classify(features[:16], labels[:16], features[16:], labels[16:], k=3, temperature=0.07, classes=3)
print("right", score)

# === noise_mixin
# thread: https://github.com/Nerogar/OneTrainer/issues/366
# about: what is cached follows the latents, which a stage of the data loader left on the default device, in another class
# operation: index on cuda:0, cuda:1
# operands: timestep, sqrt_alphas_cumprod
# category: default-or-current-device|input-not-moved|cached-state
# error: indices should be either on cpu or on the same device as the indexed tensor \(cuda:0\)
# line: main.py: self.latents = [vae(
# line: main.py: latents = cache[step
# repair: main.py: self.latents = [vae(image.to("cuda")) for image in images] -> self.latents = [vae(image.to("cuda")).to(config.train_device) for image in images]
from dataclasses import dataclass

import torch
from torch import nn

from noise import DiffusionNoiseMixin


@dataclass
class TrainConfig:
    train_device: str = "cuda:0"
    steps: int = 2
    num_train_timesteps: int = 10


class LatentCache:
    """Images are encoded once, before the training."""

    def __init__(self, config, images):
        torch.manual_seed(0)
        vae = nn.Conv2d(3, 4, 2, stride=2).to("cuda").requires_grad_(False)
        self.latents = [vae(image.to("cuda")) for image in images]

    def __getitem__(self, i):
        return self.latents[i]


class Setup(DiffusionNoiseMixin):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.unet = nn.Conv2d(4, 4, 3, padding=1).to(config.train_device)
        self.betas = torch.linspace(0.001, 0.02, config.num_train_timesteps)

    def predict(self, latents):
        timestep = self._timesteps(len(latents), self.config)
        noise = torch.full_like(latents, 0.5)
        noisy = self._add_noise(latents, noise, timestep, self.betas)
        return (self.unet(noisy) - noise).square().mean()


config = TrainConfig(train_device="cuda:1")
cache = LatentCache(config, [torch.full((2, 3, 8, 8), 0.3), torch.full((2, 3, 8, 8), 0.6)])
setup = Setup(config)
for step in range(config.steps):
    latents = cache[step % 2]
    loss = setup.predict(latents)
print("loss", round(loss.item(), 4))
# --- coefficients.py
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ScheduleCoefficients:
    sqrt_alphas_cumprod: Tensor
    sqrt_one_minus_alphas_cumprod: Tensor

    @staticmethod
    def from_betas(betas: Tensor) -> "ScheduleCoefficients":
        alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
        return ScheduleCoefficients(alphas_cumprod.sqrt(), (1.0 - alphas_cumprod).sqrt())
# --- noise.py
import torch

from coefficients import ScheduleCoefficients


class DiffusionNoiseMixin:
    def __init__(self):
        self.__coefficients = None

    def _timesteps(self, batch_size, config):
        return torch.arange(1, batch_size + 1, device=config.train_device) * 3 % config.num_train_timesteps

    def _add_noise(self, latents, noise, timestep, betas):
        if self.__coefficients is None:
            self.__coefficients = ScheduleCoefficients.from_betas(betas.to(latents.device))
        signal = self.__coefficients.sqrt_alphas_cumprod[timestep]
        rest = self.__coefficients.sqrt_one_minus_alphas_cumprod[timestep]
        return latents * signal.view(-1, 1, 1, 1) + noise * rest.view(-1, 1, 1, 1)
