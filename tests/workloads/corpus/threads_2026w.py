# === samples_for_a_foreign_attack
# thread: https://github.com/pralab/secml-torch/pull/113
# about: attacks of a library are tried on a classifier, and so are those of another library, behind a wrapper. The classifier takes what it is asked about to where it is
# operation: addmm|linear|mm on cpu, cuda:0
# operands: .*adv.*|.*samples.*|x|input|mat1
# category: input-not-moved|input
# line: attacks.py: adversarial = fast_gradient(
# line: attacks.py: return torch.cat([self.run(
# repair: attacks.py: adversarial = fast_gradient(classifier.module, samples, labels, self.epsilon) -> adversarial = fast_gradient(classifier.module, samples.to(classifier.device), labels.to(classifier.device), self.epsilon)
import torch
from torch.utils.data import DataLoader, TensorDataset

from attacks import ForeignAttack, RandomAttack
from classifier import Classifier

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(3)
x = torch.rand(8, 4, generator=generator)
y = (x[:, 0] > x[:, 1]).long()
classifier = Classifier(torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)), device)
loader = DataLoader(TensorDataset(x, y), batch_size=4)
for attack in (RandomAttack(epsilon=0.2), ForeignAttack(epsilon=0.2)):
    moved = attack(classifier, loader)
    print(type(attack).__name__, [round(score, 4) for score in classifier.scores(moved)[:, 0].tolist()])
# --- classifier.py
import torch

class Classifier:
    def __init__(self, module, device):
        self.module, self.device = module.to(device).eval(), device

    @torch.no_grad()
    def scores(self, x):
        return self.module(x.to(self.device)).softmax(-1)
# --- foreign.py
import torch
from torch import nn

def fast_gradient(model, inputs, labels, eps):
    """As the other library has it: a function of a model, not of a classifier."""
    adv = inputs.clone().requires_grad_()
    loss = nn.functional.cross_entropy(model(adv), labels)
    (gradient,) = torch.autograd.grad(loss, adv)
    return (adv + eps * gradient.sign()).detach().clamp(0, 1)
# --- attacks.py
import torch

from foreign import fast_gradient

class Attack:
    def __init__(self, epsilon):
        self.epsilon = epsilon

    def __call__(self, classifier, loader):
        return torch.cat([self.run(classifier, samples, labels).cpu() for samples, labels in loader])

class RandomAttack(Attack):
    """The worst of a few directions."""

    def run(self, classifier, samples, labels):
        generator = torch.Generator().manual_seed(1)
        tried = [(samples + self.epsilon * (torch.rand(samples.shape, generator=generator) - 0.5).sign()).clamp(0, 1) for _ in range(4)]
        right = torch.stack([classifier.scores(each).cpu().gather(1, labels[:, None])[:, 0] for each in tried])
        return torch.stack(tried)[right.argmin(0), torch.arange(len(samples))]

class ForeignAttack(Attack):
    def run(self, classifier, samples, labels):
        adversarial = fast_gradient(classifier.module, samples, labels, self.epsilon)
        return adversarial

# === chunks_of_attacked_images
# thread: https://github.com/jeromerony/adversarial-library/issues/13
# about: images that a model gets wrong anyhow need no attack. Of the others an attack is given a chunk at a time, on the model's GPU, and a script reads images from a file
# operation: index_put_?|copy_?|_index_put_impl_? on cpu, cuda:1
# operands: .*adv_inputs.*|self|values|.*chunks.*
# category: input-not-moved|input
# line: main.py: results = run_attack(
# line: main.py: images, labels = read(
# line: attack_utils.py: adv_inputs[not_adv] = torch.cat(
# line: attack_utils.py: advs_chunks.append(
# repair: main.py: results = run_attack(model, images, labels, attack=l2_attack, batch_size=3) -> results = run_attack(model, images.to(args.device), labels.to(args.device), attack=l2_attack, batch_size=3)
import argparse

import torch

from attack_utils import run_attack
from attacks import l2_attack
from images import SmallNet, read

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:1" if torch.cuda.is_available() else "cpu")
args = parser.parse_args([])
torch.manual_seed(1)
images, labels = read(count=8, seed=2)
model = SmallNet(pixels=9, classes=3).to(args.device).eval()
results = run_attack(model, images, labels, attack=l2_attack, batch_size=3)
print("attacked", results["attacked"], "distances", [round(each, 4) for each in results["distances"].tolist()])
# --- images.py
import torch
from torch import nn

def read(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, 9, generator=generator), torch.randint(3, (count,), generator=generator)

class SmallNet(nn.Sequential):
    def __init__(self, pixels, classes):
        super().__init__(nn.Linear(pixels, 12), nn.ReLU(), nn.Linear(12, classes))
# --- attacks.py
import torch
from torch import nn

def l2_attack(model, inputs, labels, steps=5, lr=0.4):
    """Goes where the loss grows, with steps of one length."""
    adv = inputs.clone()
    for _ in range(steps):
        adv.requires_grad_()
        (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(model(adv), labels, reduction="sum"), adv)
        adv = (adv + lr * gradient / gradient.norm(dim=1, keepdim=True).clamp(min=1e-9)).detach().clamp(0, 1)
    return adv
# --- attack_utils.py
import torch

def predict(model, inputs, device):
    with torch.no_grad():
        return model(inputs.to(device)).argmax(1)

def run_attack(model, inputs, labels, attack, batch_size):
    device = next(model.parameters()).device
    not_adv = predict(model, inputs, device).to(labels.device) == labels
    adv_inputs = inputs.clone()
    advs_chunks = []
    for inputs_chunk, labels_chunk in zip(inputs[not_adv].split(batch_size), labels[not_adv].split(batch_size)):
        inputs_chunk, labels_chunk = inputs_chunk.to(device), labels_chunk.to(device)
        advs_chunks.append(attack(model, inputs_chunk, labels_chunk))
    adv_inputs[not_adv] = torch.cat(advs_chunks, 0)
    return {"attacked": int(not_adv.sum()), "distances": (adv_inputs - inputs).norm(dim=1).cpu()}

# === strongest_frequencies
# thread: https://github.com/thuml/Time-Series-Library/issues/529
# about: seasons are what few frequencies of a series make up, and are drawn on beyond its end. Which are the strongest is found for each series and each of its columns
# operation: index on cpu, cuda:0
# operands: f|self|indices|index.*
# error: indices should be either on
# category: created-without-device
# line: fourier.py: f = torch.fft.rfftfreq(
# line: fourier.py: f = f[None, :, None].expand(
# line: fourier.py: chosen = f[index]
# repair: fourier.py: f = torch.fft.rfftfreq(steps)[1:-1] -> f = torch.fft.rfftfreq(steps, device=x.device)[1:-1]
import torch

from etsformer import ETSformer
from fit import fit

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
time = torch.arange(32.0)
series = torch.stack([torch.sin(time / 2) + 0.02 * time, torch.cos(time / 3)], 1)[None].repeat(3, 1, 1)
series = series + 0.1 * torch.randn(series.shape, generator=torch.Generator().manual_seed(5))
model = ETSformer(columns=2, width=4, horizon=8, k=2).to(device)
print("losses", fit(model, series[:, :24].to(device), series[:, 24:].to(device), epochs=4, lr=0.02))
# --- fourier.py
import math

import torch
from torch import nn

class FourierLayer(nn.Module):
    def __init__(self, horizon, k):
        super().__init__()
        self.horizon, self.k = horizon, k

    def topk(self, x_freq):
        indices = x_freq.abs().topk(self.k, dim=1).indices
        rows, columns = torch.meshgrid(torch.arange(x_freq.shape[0]), torch.arange(x_freq.shape[2]), indexing="ij")
        index = (rows[:, None], indices, columns[:, None])
        return x_freq[index], index

    def forward(self, x):
        steps = x.shape[1]
        x_freq = torch.fft.rfft(x, dim=1)[:, 1:-1]
        f = torch.fft.rfftfreq(steps)[1:-1]
        x_freq, index = self.topk(x_freq)
        f = f[None, :, None].expand(x.shape[0], -1, x.shape[2])
        chosen = f[index]
        return self.drawn_on(x_freq, chosen, steps)

    def drawn_on(self, x_freq, f, steps):
        time = torch.arange(steps + self.horizon, device=x_freq.device)[None, None, :, None]
        waves = 2 * x_freq.abs()[:, :, None] / steps * torch.cos(2 * math.pi * f[:, :, None] * time + x_freq.angle()[:, :, None])
        return waves.sum(1)
# --- etsformer.py
from torch import nn

from fourier import FourierLayer

class ETSformer(nn.Module):
    """A level, a growth and seasons."""

    def __init__(self, columns, width, horizon, k):
        super().__init__()
        self.horizon = horizon
        self.embed, self.seasons, self.head = nn.Linear(columns, width), FourierLayer(horizon, k), nn.Linear(width, columns)
        self.growth = nn.Linear(columns, columns)

    def forward(self, past):
        hidden = self.embed(past)
        seasons = self.seasons(hidden)[:, -self.horizon :]
        return self.head(seasons) + past[:, -1:] + self.growth(past[:, -1:] - past[:, -2:-1])
# --- fit.py
import torch
from torch import nn

def fit(model, past, future, epochs, lr):
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    for _ in range(epochs):
        loss = nn.functional.l1_loss(model(past), future)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === order_that_can_be_repeated
# thread: https://github.com/huggingface/accelerate/pull/3420
# about: rows are drawn in an order that a seed and the epoch decide, so that a run can go on where it stopped. A script has everything made on the accelerator
# operation: randperm|random on cuda:0, cpu
# operands: generator|self.generator
# error: Expected a 'cuda' device type for generator but found 'cpu'
# category: generator|default-or-current-device
# line: data_loader.py: self.generator = torch.Generator()
# line: data_loader.py: yield from torch.randperm(
# repair: data_loader.py: self.generator = torch.Generator() -> self.generator = torch.Generator(device=torch.get_default_device())
import torch

from data_loader import Loader
from model import Mean

if torch.cuda.is_available():
    torch.set_default_device("cuda")
rows = torch.arange(12.0).reshape(6, 2)
loader, model = Loader(rows, batch_size=4, seed=7), Mean(columns=2)
for epoch in range(2):
    loader.set_epoch(epoch)
    model.start()
    for batch in loader:
        model.add(batch)
    print("epoch", epoch, "rows", model.count, "mean", [round(value, 3) for value in model.mean().tolist()])
# --- data_loader.py
import torch

class SeedableRandomSampler:
    """The same order for the same seed and epoch, whatever else draws numbers."""

    def __init__(self, count, seed):
        self.count, self.seed, self.epoch, self.generator = count, seed, 0, None

    def __iter__(self):
        if self.generator is None:
            self.generator = torch.Generator()
        self.generator.manual_seed(self.seed + self.epoch)
        yield from torch.randperm(self.count, generator=self.generator).tolist()

class Loader:
    def __init__(self, rows, batch_size, seed):
        self.rows, self.batch_size = rows, batch_size
        self.sampler = SeedableRandomSampler(len(rows), seed)

    def set_epoch(self, epoch):
        self.sampler.epoch = epoch

    def __iter__(self):
        order = list(self.sampler)
        for start in range(0, len(order), self.batch_size):
            yield torch.stack([self.rows[at] for at in order[start : start + self.batch_size]])
# --- model.py
import torch

class Mean:
    def __init__(self, columns):
        self.columns = columns

    def start(self):
        self.total, self.count = torch.zeros(self.columns), 0

    def add(self, batch):
        self.total += batch.sum(0)
        self.count += len(batch)

    def mean(self):
        return self.total / self.count

# === noise_of_a_reproducible_video
# thread: https://github.com/huggingface/diffusers/pull/10535
# about: the same seed is to give the same video on every machine, so numbers are drawn on the CPU. A pipeline begins with noise, or with an image that noise is put on
# operation: randn|normal on cuda:0, cpu
# operands: generator
# error: Expected a 'cuda' device type for generator but found 'cpu'
# category: generator
# line: pipeline.py: noise = torch.randn(
# line: main.py: generator = torch.Generator(
# repair: pipeline.py: noise = torch.randn(shape, generator=generator, device=device) -> noise = torch.randn(shape, generator=generator).to(device)
import torch

from pipeline import ImageToVideoPipeline
from transformer import TinyTransformer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pipeline = ImageToVideoPipeline(TinyTransformer(channels=3)).to(device)
image = torch.rand(3, generator=torch.Generator().manual_seed(8))
generator = torch.Generator().manual_seed(42)
video = pipeline(image, frames=4, steps=3, generator=generator)
print("video", [[round(value, 3) for value in frame] for frame in video.tolist()])
# --- transformer.py
from torch import nn

class TinyTransformer(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.mix = nn.Linear(channels + 1, channels)

    def forward(self, latents, share):
        time = share * latents.new_ones(*latents.shape[:-1], 1)
        hidden = nn.functional.pad(latents, (0, 1)) + nn.functional.pad(time, (latents.shape[-1], 0))
        return self.mix(hidden).tanh()
# --- pipeline.py
import torch

class ImageToVideoPipeline:
    def __init__(self, transformer):
        self.transformer = transformer.eval()

    def to(self, device):
        self.transformer.to(device)
        return self

    @property
    def device(self):
        return self.transformer.mix.weight.device

    def prepare_latents(self, image, frames, generator, device):
        """The first frame is the image; others are mostly noise."""
        shape = (frames, len(image))
        noise = torch.randn(shape, generator=generator, device=device)
        mask = torch.full((frames, 1), 0.1, device=device)
        mask[0] = 1.0
        return mask * image.to(device) + (1 - mask) * noise

    @torch.no_grad()
    def __call__(self, image, frames, steps, generator=None):
        latents = self.prepare_latents(image, frames, generator, self.device)
        for step in range(steps):
            latents = latents - self.transformer(latents, 1 - step / steps) / steps
        return latents.cpu()

# === image_for_an_offloaded_encoder
# thread: https://github.com/huggingface/diffusers/pull/10480
# about: parts of a pipeline wait in RAM until they are called. Those methods of theirs that are not their forward fetch their part, too; what they are given stays where it is
# operation: .*conv.* on cpu, cuda:0
# operands: image|images|input|self|pixels
# error: Input type|on the same device
# category: module-split|input-not-moved
# line: pipeline.py: image = preprocessed(image).to(
# line: pipeline.py: return self.vae.encode(
# line: offload.py: self._hook.before(
# repair: pipeline.py: image = preprocessed(image).to(self.device) -> image = preprocessed(image).to(self.execution_device)
import torch

from pipeline import InversionPipeline
from vae import TinyDenoiser, TinyVAE

torch.manual_seed(0)
pipeline = InversionPipeline(TinyVAE(latent=4), TinyDenoiser(latent=4))
if torch.cuda.is_available():
    pipeline.enable_model_cpu_offload("cuda:0")
image = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(4))
latents = pipeline.invert(image, steps=3)
print("latents", [round(value, 4) for value in latents.mean((2, 3))[0].tolist()])
# --- offload.py
import functools

class OffloadHook:
    def __init__(self, device):
        self.device, self.others = device, []

    def before(self, module):
        for other in self.others:
            other.to("cpu")
        module.to(self.device)

def fetched(method):
    """A method that is as good as forward: its module is fetched for it."""

    @functools.wraps(method)
    def call(self, *args):
        if hasattr(self, "_hook"):
            self._hook.before(self)
        return method(self, *args)

    return call

def offload(modules, device):
    for module in modules:
        module._hook = OffloadHook(device)
        module._hook.others = [each for each in modules if each is not module]
        module.register_forward_pre_hook(lambda module, args: (module._hook.before(module), tuple(each.to(module._hook.device) for each in args))[1])
# --- vae.py
from torch import nn

from offload import fetched

class TinyVAE(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.inner, self.outer = nn.Conv2d(3, latent, 2, stride=2), nn.ConvTranspose2d(latent, 3, 2, stride=2)

    @fetched
    def encode(self, images):
        return self.inner(images)

    @fetched
    def decode(self, latents):
        return self.outer(latents)

class TinyDenoiser(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.mix = nn.Conv2d(latent, latent, 1)

    def forward(self, latents):
        return self.mix(latents).tanh()
# --- pipeline.py
import torch

from offload import offload

def preprocessed(image):
    return 2 * image - 1

class InversionPipeline:
    """Goes from an image to the noise that it could have come from."""

    def __init__(self, vae, denoiser):
        self.vae, self.denoiser, self.offloaded_to = vae, denoiser, None

    def enable_model_cpu_offload(self, device):
        self.offloaded_to = torch.device(device)
        offload([self.vae, self.denoiser], self.offloaded_to)

    @property
    def device(self):
        return next(self.vae.parameters()).device

    @property
    def execution_device(self):
        return self.offloaded_to or self.device

    def encode_image(self, image):
        image = preprocessed(image).to(self.device)
        return self.vae.encode(image)

    @torch.no_grad()
    def invert(self, image, steps):
        image_latents = self.encode_image(image)
        for _ in range(steps):
            image_latents = image_latents + self.denoiser(image_latents) / steps
        return image_latents.cpu()

# === thresholds_of_a_scheduled_loss
# thread: https://github.com/kohya-ss/sd-scripts/pull/2153
# about: how soon a loss stops to be square depends on how much noise a sample has, which a table of the scheduler knows. The table is on the CPU, as long as none has asked for noise
# operation: index_select|index on cuda:0, cpu
# operands: .*alphas_cumprod.*|index|self|.*timesteps.*
# category: cached-state|input-not-moved
# line: train_util.py: noisy = scheduler.add_noise(
# line: train_util.py: alphas = torch.index_select(
# line: scheduler.py: self.alphas_cumprod = self.alphas_cumprod.to(
# repair: train_util.py: alphas = torch.index_select(scheduler.alphas_cumprod, 0, timesteps.cpu()) -> alphas = torch.index_select(scheduler.alphas_cumprod, 0, timesteps.to(scheduler.alphas_cumprod.device))
import torch

from scheduler import Scheduler
from train_util import train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
denoiser = torch.nn.Sequential(torch.nn.Linear(5, 12), torch.nn.SiLU(), torch.nn.Linear(12, 4)).to(device)
images = torch.randn(6, 4, generator=torch.Generator().manual_seed(2)).clamp(-1, 1)
print("losses", train(denoiser, Scheduler(steps=50), images.to(device), device, epochs=4, huber_c=0.1))
# --- scheduler.py
import torch

class Scheduler:
    def __init__(self, steps):
        self.steps = steps
        self.alphas_cumprod = torch.cumprod(1 - torch.linspace(0.001, 0.1, steps), 0)

    def add_noise(self, samples, noise, timesteps):
        self.alphas_cumprod = self.alphas_cumprod.to(device=samples.device)
        alphas = self.alphas_cumprod[timesteps][:, None]
        return alphas.sqrt() * samples + (1 - alphas).sqrt() * noise
# --- train_util.py
import torch

def noise_and_timesteps(samples, scheduler, generator, device):
    noise = torch.randn(samples.shape, generator=generator).to(device)
    timesteps = torch.randint(scheduler.steps, (len(samples),), generator=generator).to(device)
    noisy = scheduler.add_noise(samples, noise, timesteps)
    return noise, noisy, timesteps

def huber_thresholds(timesteps, scheduler, huber_c):
    """The more noise, the sooner the loss is linear."""
    alphas = torch.index_select(scheduler.alphas_cumprod, 0, timesteps.cpu())
    sigmas = ((1 - alphas) / alphas).sqrt()
    return ((1 - huber_c) / (1 + sigmas) ** 2 + huber_c).to(timesteps.device)

def pseudo_huber(predicted, target, thresholds):
    thresholds = thresholds[:, None]
    return (2 * thresholds * (((predicted - target) ** 2 + thresholds**2).sqrt() - thresholds)).mean()

def train(denoiser, scheduler, samples, device, epochs, huber_c, lr=0.02):
    generator, optimizer, losses = torch.Generator().manual_seed(1), torch.optim.AdamW(denoiser.parameters(), lr=lr), []
    for _ in range(epochs):
        noise, noisy, timesteps = noise_and_timesteps(samples, scheduler, generator, device)
        predicted = denoiser(torch.cat([noisy, timesteps[:, None] / scheduler.steps], dim=1))
        loss = pseudo_huber(predicted, noise, huber_thresholds(timesteps, scheduler, huber_c))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === coefficients_of_a_pickled_potential
# thread: https://github.com/openmm/openmm-ml/issues/142
# about: a potential was saved as a whole. Its own calculator reads it straight to the GPU; a simulator that calls it, too, reads it first and chooses the platform later
# operation: mm|matmul|einsum|bmm|mul|tensordot on cuda:0, cpu
# operands: .*coefficients.*|mat2|other|each
# category: state-not-registered|checkpoint
# line: simulator.py: self.model = torch.load(
# line: simulator.py: self.model = self.model.to(
# line: potential.py: self.coefficients = [
# line: potential.py: energy = energy + power @ coefficients
# repair: simulator.py: self.model = torch.load(file, map_location="cpu", weights_only=False) -> self.model = torch.load(file, map_location=self.device, weights_only=False)
import tempfile
from pathlib import Path

import torch

from calculator import Calculator
from potential import Potential
from simulator import Simulator

torch.manual_seed(0)
platform = "CUDA" if torch.cuda.is_available() else "CPU"
positions = torch.tensor([[0.0, 0.0, 0.0], [1.1, 0.0, 0.0], [0.0, 0.9, 0.3]])
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "potential.model"
    torch.save(Potential(width=4, order=2), file)
    energy = Calculator(file, "cuda" if platform == "CUDA" else "cpu").energy(positions)
    print("energy", round(energy, 4))
    simulator = Simulator(file, platform)
    print("path", [round(each, 4) for each in simulator.run(positions, steps=3, dt=0.05)])
# --- potential.py
import torch
from torch import nn

class Potential(nn.Module):
    """Of each pair of atoms a product of what it is, taken several times."""

    def __init__(self, width, order):
        super().__init__()
        self.embed = nn.Linear(1, width)
        self.coefficients = [torch.linspace(0.5, 1.0, width)[:, None] / (1 + power) for power in range(order)]
        self.readout = nn.Linear(1, 1)

    def forward(self, positions):
        first, second = torch.triu_indices(len(positions), len(positions), 1, device=positions.device)
        distances = (positions[first] - positions[second]).norm(dim=1, keepdim=True)
        features = self.embed(1 / distances).tanh()
        energy, power = 0.0, torch.ones_like(features)
        for coefficients in self.coefficients:
            power = power * features
            energy = energy + power @ coefficients
        return self.readout(energy).sum()
# --- calculator.py
import torch

class Calculator:
    def __init__(self, file, device):
        self.device = device
        self.model = torch.load(file, map_location=device, weights_only=False).eval()

    def energy(self, positions):
        with torch.no_grad():
            return self.model(positions.to(self.device)).item()
# --- simulator.py
import torch

PLATFORMS = {"CPU": "cpu", "CUDA": "cuda:0"}

class Simulator:
    def __init__(self, file, platform):
        self.device = torch.device(PLATFORMS[platform])
        self.model = torch.load(file, map_location="cpu", weights_only=False)
        self.model = self.model.to(self.device).eval()

    def run(self, positions, steps, dt):
        positions, energies = positions.to(self.device), []
        for _ in range(steps):
            positions = positions.detach().requires_grad_()
            energy = self.model(positions)
            (gradient,) = torch.autograd.grad(energy, positions)
            positions = positions - dt * gradient
            energies.append(energy.item())
        return energies

# === second_segment_of_a_song
# thread: https://github.com/smthemex/ComfyUI_YuE/issues/30
# about: one model writes a song's melody and another one makes it sound. For want of memory either is on the GPU while the other one waits. Longer songs are made in segments
# operation: embedding|index_select on cpu, cuda:0
# operands: .*weight|input|ids|index|indices|.*ids.*
# category: module-split|cached-state
# line: song.py: codes = self.melody.continued(
# line: song.py: self.load(self.sound, instead_of=self.melody)
# line: song.py: for segment in segments
# repair: song.py: codes = self.melody.continued(ids, new=3) -> codes = self.load(self.melody, instead_of=self.sound).continued(ids, new=3)
import torch

from models import Melody, Sound
from song import SongMaker

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
maker = SongMaker(Melody(codes=16, dim=6), Sound(codes=16, samples=4), device)
waves = maker.sing(["so it begins", "and so it ends"])
print("samples", len(waves), "loudest", round(waves.abs().max().item(), 4), "mean", round(waves.mean().item(), 4))
# --- models.py
import torch
from torch import nn

class Melody(nn.Module):
    def __init__(self, codes, dim):
        super().__init__()
        self.codes, self.embed, self.mix = codes, nn.Embedding(codes, dim), nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, codes)

    def continued(self, ids, new):
        for _ in range(new):
            ids = torch.cat([ids, self.head(self.mix(self.embed(ids))[0][:, -1:]).argmax(-1)], dim=1)
        return ids[:, -new:]

class Sound(nn.Module):
    def __init__(self, codes, samples):
        super().__init__()
        self.table, self.shape = nn.Embedding(codes, samples), nn.Linear(samples, samples)

    def forward(self, codes):
        return self.shape(self.table(codes)).tanh().flatten()
# --- song.py
import torch

class SongMaker:
    def __init__(self, melody, sound, device):
        self.melody, self.sound, self.device = melody.eval(), sound.eval(), device
        self.load(self.melody)

    def load(self, model, instead_of=None):
        if instead_of is not None:
            instead_of.to("cpu")
        return model.to(self.device)

    def ids_of(self, words):
        return [ord(letter) % self.melody.codes for letter in words]

    @torch.no_grad()
    def sing(self, segments):
        return torch.cat([self.segment(segment) for segment in segments])

    def segment(self, words):
        ids = torch.tensor([self.ids_of(words)], device=self.device)
        codes = self.melody.continued(ids, new=3)
        self.load(self.sound, instead_of=self.melody)
        return self.sound(codes).cpu()

# === occupancy_among_the_metas
# thread: https://github.com/NotACracker/COTR/issues/15
# about: of what a loader gives for a scene, pictures are a tensor. What else is known is a dict for each scene: its name, and which parts of space are full
# operation: nll_loss.*|cross_entropy.* on cuda:1, cpu
# operands: target|.*voxels.*|other
# category: input-not-moved|input
# line: detector.py: voxels = torch.stack(
# line: runner.py: batch = scattered(
# line: runner.py: return {name: value.to(device)
# line: detector.py: return {"loss_voxels": nn.functional.cross_entropy(
# repair: detector.py: voxels = torch.stack([meta["voxels"] for meta in img_metas]) -> voxels = torch.stack([meta["voxels"] for meta in img_metas]).to(logits.device)
import torch

from detector import OccupancyDetector
from runner import run
from scenes import Scenes

torch.manual_seed(0)
device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")
model = OccupancyDetector(classes=3).to(device)
print("losses", run(model, Scenes(count=6, seed=4), device, batch_size=2, lr=0.1))
# --- scenes.py
import torch
from torch.utils.data import Dataset

class Scenes(Dataset):
    """Pictures of a space of 2 x 2 x 2 cells, and what is in each of these."""

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.voxels = torch.randint(3, (count, 2, 2, 2), generator=generator)
        self.pictures = self.voxels.float().flatten(1) + 0.1 * torch.randn(count, 8, generator=generator)

    def __len__(self):
        return len(self.voxels)

    def __getitem__(self, index):
        return {"img": self.pictures[index], "img_metas": {"token": f"scene {index}", "voxels": self.voxels[index]}}
# --- runner.py
import torch
from torch.utils.data import DataLoader

def collate(samples):
    return {"img": torch.stack([sample["img"] for sample in samples]), "img_metas": [sample["img_metas"] for sample in samples]}

def scattered(batch, device):
    return {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in batch.items()}

def run(model, dataset, device, batch_size, lr):
    optimizer, log = torch.optim.SGD(model.parameters(), lr=lr), []
    for batch in DataLoader(dataset, batch_size=batch_size, collate_fn=collate):
        batch = scattered(batch, device)
        losses = model.forward_train(**batch)
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
        log.append({name: round(loss.item(), 4) for name, loss in losses.items()})
    return log
# --- detector.py
import torch
from torch import nn

class OccupancyDetector(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.classes = classes
        self.lift, self.head = nn.Linear(8, 16), nn.Linear(2, classes)

    def forward(self, img):
        cells = self.lift(img).tanh().view(-1, 2, 2, 2, 2)
        return self.head(cells).movedim(-1, 1)

    def forward_train(self, img, img_metas):
        logits = self(img)
        return self.losses(logits, img_metas)

    def losses(self, logits, img_metas):
        voxels = torch.stack([meta["voxels"] for meta in img_metas])
        return {"loss_voxels": nn.functional.cross_entropy(logits, voxels)}

# === weights_of_a_merging_recipe
# thread: https://github.com/ljleb/comfy-mecha/issues/15
# about: models are merged by a recipe, layer by layer: a layer is read, taken to the GPU, merged there, and taken back. How much of either model counts can differ from row to row
# operation: mul|sub|lerp|rsub on cuda:0, cpu
# operands: alpha|other|weight|.*values.*
# category: input-not-moved|input
# line: executor.py: return recipe.values[
# line: executor.py: arguments = [self.visit(
# line: methods.py: return a * (1 - alpha) + b * alpha
# repair: executor.py: return recipe.values[key] -> return recipe.values[key].to(self.device)
import torch

from executor import Executor
from methods import weighted_sum
from recipes import Literal, Merge, Model

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(6)
first, second = ({"inner": torch.randn(3, 4, generator=generator), "outer": torch.randn(2, 3, generator=generator)} for _ in range(2))
alphas = Literal({"inner": torch.tensor([[0.0], [0.5], [1.0]]), "outer": torch.tensor([[0.3], [0.7]])})
recipe = Merge(weighted_sum, [Model(first), Merge(weighted_sum, [Model(first), Model(second), alphas]), alphas])
merged = Executor(device).run(recipe, keys=["inner", "outer"])
print("merged", {key: [round(value, 4) for value in each.sum(1).tolist()] for key, each in merged.items()})
# --- recipes.py
from dataclasses import dataclass
from typing import Any, Callable

@dataclass
class Model:
    state_dict: dict

@dataclass
class Literal:
    values: dict

@dataclass
class Merge:
    method: Callable
    arguments: list[Any]
# --- methods.py
def weighted_sum(a, b, alpha):
    return a * (1 - alpha) + b * alpha
# --- executor.py
import torch

from recipes import Literal, Merge, Model

class Executor:
    def __init__(self, device, output_device="cpu"):
        self.device, self.output_device = device, output_device

    @torch.no_grad()
    def run(self, recipe, keys):
        return {key: self.visit(recipe, key).to(self.output_device) for key in keys}

    def visit(self, recipe, key):
        visit = {Model: self.visit_model, Literal: self.visit_literal, Merge: self.visit_merge}[type(recipe)]
        return visit(recipe, key)

    def visit_model(self, recipe, key):
        return recipe.state_dict[key].to(self.device)

    def visit_literal(self, recipe, key):
        return recipe.values[key]

    def visit_merge(self, recipe, key):
        arguments = [self.visit(argument, key) for argument in recipe.arguments]
        return recipe.method(*arguments)

# === memory_of_earlier_segments
# thread: https://github.com/RodkinIvan/associative-recurrent-memory-transformer/pull/20
# about: a long text is read in segments, and a layer keeps of earlier ones what belongs together, in a matrix. With each text it begins with an empty one
# operation: bmm|matmul|mm|baddbmm on cuda:0, cpu
# operands: .*memory.*|mat2|other|batch2
# category: created-without-device|cached-state
# line: layer.py: self.memory = torch.zeros(
# line: model.py: self.layer.zero_memory(len(ids))
# repair: layer.py: self.memory = torch.zeros(count, self.size, self.size) -> self.memory = torch.zeros(count, self.size, self.size, device=self.key.weight.device)
import torch

from model import RecurrentModel
from train import train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = RecurrentModel(words=10, size=6, segment=4).to(device)
texts = torch.randint(10, (4, 12), generator=torch.Generator().manual_seed(3))
texts[:, 8:] = texts[:, :4]
print("losses", train(model, texts.split(2), device, epochs=3))
# --- layer.py
import torch
from torch import nn

class AssociativeLayer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size, self.memory = size, None
        self.key, self.value, self.query = (nn.Linear(size, size, bias=False) for _ in range(3))

    def zero_memory(self, count):
        self.memory = torch.zeros(count, self.size, self.size)

    def remember(self, hidden):
        """What a key stands for already is taken off what it is to stand for now."""
        keys, values = nn.functional.normalize(self.key(hidden), dim=-1), self.value(hidden)
        known = keys @ self.memory
        self.memory = self.memory + keys.transpose(1, 2) @ (values - known) / hidden.shape[1]

    def forward(self, hidden):
        recalled = nn.functional.normalize(self.query(hidden), dim=-1) @ self.memory
        return hidden + recalled
# --- model.py
from torch import nn

from layer import AssociativeLayer

class RecurrentModel(nn.Module):
    def __init__(self, words, size, segment):
        super().__init__()
        self.segment, self.embed, self.head = segment, nn.Embedding(words, size), nn.Linear(size, words)
        self.layer = AssociativeLayer(size)

    def forward(self, ids):
        self.layer.zero_memory(len(ids))
        logits, before = [], None
        for part in ids.split(self.segment, dim=1):
            hidden = self.embed(part)
            if before is not None:
                self.layer.remember(before)
                hidden = self.layer(hidden)
            logits.append(self.head(hidden))
            before = hidden
        return logits
# --- train.py
import torch
from torch import nn

def train(model, batches, device, epochs, lr=0.05):
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=lr), []
    for _ in range(epochs):
        total = 0.0
        for ids in batches:
            ids = ids.to(device)
            logits = torch.cat(model(ids), dim=1)
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(round(total / len(batches), 4))
    return losses

# === voice_model_made_faster
# thread: https://github.com/index-tts/index-tts/issues/265
# about: a voice is written as codes by a model that is given its GPU. Before it is used, a faster form of it is made for the writing alone
# operation: embedding|index_select on cuda:0, cuda:1
# operands: .*weight|input|ids|index|indices|.*codes.*
# category: default-or-current-device
# line: gpt.py: self.inference_model = accelerated(
# line: fast.py: return FastModel(copy.deepcopy(module)).to(
# repair: gpt.py: self.inference_model = accelerated(self.gpt) -> self.inference_model = accelerated(self.gpt).to(self.device)
import torch

from gpt import VoiceModel

torch.manual_seed(0)
device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")
model = VoiceModel(codes=20, dim=8).to(device).eval()
model.post_init()
text = torch.tensor([[4, 8, 15, 16]])
loss = model.loss(text.to(device))
print("loss", round(loss.item(), 4), "codes", model.write(text.to(device), new=4)[0].tolist())
# --- decoder.py
from torch import nn

class Decoder(nn.Module):
    def __init__(self, codes, dim):
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(codes, dim), nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, codes)

    def forward(self, ids):
        return self.head(self.mix(self.embed(ids))[0])
# --- fast.py
import copy

import torch
from torch import nn

FAST = "cuda" if torch.cuda.is_available() else "cpu"

class FastModel(nn.Module):
    """Only the last word's scores, and no gradients."""

    def __init__(self, module):
        super().__init__()
        self.module = module.requires_grad_(False)

    def forward(self, ids):
        return self.module(ids)[:, -1:]

def accelerated(module):
    return FastModel(copy.deepcopy(module)).to(FAST).eval()
# --- gpt.py
import torch
from torch import nn

from decoder import Decoder
from fast import accelerated

class VoiceModel(nn.Module):
    def __init__(self, codes, dim):
        super().__init__()
        self.gpt = Decoder(codes, dim)

    @property
    def device(self):
        return self.gpt.head.weight.device

    def post_init(self):
        self.inference_model = accelerated(self.gpt)

    @torch.no_grad()
    def loss(self, ids):
        return nn.functional.cross_entropy(self.gpt(ids)[0, :-1], ids[0, 1:])

    @torch.no_grad()
    def write(self, ids, new):
        for _ in range(new):
            logits = self.inference_model(ids)
            ids = torch.cat([ids, logits.argmax(-1)], dim=1)
        return ids

# === engine_behind_a_transformer
# thread: https://github.com/nunchux-ai/nunchaku/issues/102
# about: the middle of a pipeline is an engine with weights of its own in four bits; for the pipeline it looks like a module. The pipeline is put on the second GPU
# operation: mm|matmul|addmm|mul|linear on cuda:1, cuda:0
# operands: .*packed.*|weight|mat2|other|.*scales.*|.*levels.*
# category: default-or-current-device|state-not-registered
# line: main.py: transformer = FourBitTransformer.from_pretrained(
# line: transformer.py: def from_pretrained(cls, weights
# line: transformer.py: self.engine = engine
# repair: main.py: transformer = FourBitTransformer.from_pretrained(weights) -> transformer = FourBitTransformer.from_pretrained(weights, device=device)
import torch

from pipeline import Pipeline
from transformer import FourBitTransformer

device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(5)
weights = [torch.randn(6, 6, generator=generator) for _ in range(2)]
torch.manual_seed(0)
transformer = FourBitTransformer.from_pretrained(weights)
pipeline = Pipeline(transformer, dim=6).to(device)
image = pipeline(torch.randn(1, 6, generator=generator), steps=2)
print("image", [round(value, 3) for value in image[0].tolist()])
# --- engine.py
import torch

class Engine:
    """Rows of sixteen levels each, and what a level is worth."""

    def __init__(self, weights, device):
        self.device = torch.device(device)
        self.scales = [weight.abs().amax(1, keepdim=True).to(self.device) / 7 for weight in weights]
        self.levels = [(weight.to(self.device) / scale).round().to(torch.int8) for weight, scale in zip(weights, self.scales)]

    def forward(self, hidden):
        for levels, scale in zip(self.levels, self.scales):
            hidden = hidden + (hidden @ (levels.float() * scale).T).tanh()
        return hidden
# --- transformer.py
import torch
from torch import nn

from engine import Engine

ACCELERATOR = "cuda" if torch.cuda.is_available() else "cpu"

class FourBitTransformer(nn.Module):
    def __init__(self, engine):
        super().__init__()
        self.engine = engine

    @classmethod
    def from_pretrained(cls, weights, device=ACCELERATOR):
        return cls(Engine(weights, device))

    def forward(self, hidden):
        return self.engine.forward(hidden)
# --- pipeline.py
import torch
from torch import nn

class Pipeline:
    def __init__(self, transformer, dim):
        self.parts = {"embedder": nn.Linear(dim, dim), "transformer": transformer, "head": nn.Linear(dim, dim)}
        self.device = torch.device("cpu")

    def to(self, device):
        for part in self.parts.values():
            part.to(device)
        self.device = device
        return self

    @torch.no_grad()
    def __call__(self, latents, steps):
        latents = latents.to(self.device)
        for _ in range(steps):
            hidden = self.parts["transformer"](self.parts["embedder"](latents))
            latents = latents - self.parts["head"](hidden) / steps
        return latents.cpu()

# === noise_that_was_drawn_elsewhere
# thread: https://github.com/modelscope/DiffSynth-Studio/pull/318
# about: a pipeline for images can be told where its noise is drawn, as seeds mean something else on other hardware. Sizes of images are rounded, and prompts are encoded on the way
# operation: addmm|linear|mm|matmul on cpu, cuda:0
# operands: .*noise.*|.*latents.*|input|mat1
# category: input-not-moved|created-without-device
# line: pipeline.py: return torch.randn(
# line: pipeline.py: latents = self.generate_noise(
# repair: pipeline.py: latents = self.generate_noise((1, 4, height * width), seed=seed, device=rand_device) -> latents = self.generate_noise((1, 4, height * width), seed=seed, device=rand_device).to(self.device)
import torch

from dit import TinyDiT
from pipeline import ImagePipeline

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pipeline = ImagePipeline(TinyDiT(latent=4, width=6, words=128), device)
image = pipeline("two birds", height=18, width=18, steps=3, seed=1, rand_device="cpu")
print("image", tuple(image.shape), [round(value, 4) for value in image.mean(1)[0].tolist()])
# --- dit.py
import torch
from torch import nn

class TinyDiT(nn.Module):
    def __init__(self, latent, width, words):
        super().__init__()
        self.words, self.inner, self.outer = nn.Embedding(words, width), nn.Linear(latent, width), nn.Linear(width, latent)

    def encode(self, prompt, device):
        return self.words(torch.tensor([[ord(letter) for letter in prompt]], device=device)).mean(1, keepdim=True)

    def forward(self, latents, prompt_emb, share):
        hidden = self.inner(latents) + prompt_emb * (1 - share)
        return self.outer(hidden.tanh())
# --- pipeline.py
import torch

class ImagePipeline:
    def __init__(self, dit, device):
        self.dit, self.device = dit.to(device).eval(), device

    def generate_noise(self, shape, seed, device):
        generator = torch.Generator(device).manual_seed(seed)
        return torch.randn(shape, generator=generator, device=device).transpose(1, 2)

    def rounded(self, *sizes, multiple=16):
        return [(size + multiple - 1) // multiple * multiple for size in sizes]

    @torch.no_grad()
    def __call__(self, prompt, height, width, steps, seed, rand_device):
        height, width = (size // 8 for size in self.rounded(height, width))
        latents = self.generate_noise((1, 4, height * width), seed=seed, device=rand_device)
        prompt_emb = self.dit.encode(prompt, self.device)
        for step in range(steps):
            latents = latents - self.dit(latents, prompt_emb, step / steps) / steps
        return latents.cpu()

# === layers_that_replace_linear_ones
# thread: https://github.com/codewithdark-git/QuantLLM/pull/6
# about: a model is on the GPU when its linear layers are replaced by layers of whole numbers, one after the other. What inputs look like is asked before, so that big ones count more
# operation: mul|div|mm|matmul|addmm|linear on cuda:0, cpu
# operands: .*weight.*|.*scale.*|mat2|other|.*quantized.*
# category: module-split|created-without-device
# line: awq.py: quantized = QuantizedLinear(
# line: awq.py: setattr(model, name, quantized)
# line: main.py: quantize(model
# repair: awq.py: setattr(model, name, quantized) -> setattr(model, name, quantized.to(linear.weight.device))
import torch
from torch import nn

from awq import quantize

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 3)).to(device)
x = torch.randn(8, 6, generator=torch.Generator().manual_seed(2)).to(device)
with torch.no_grad():
    before = model(x)
    quantize(model, x[:4])
    after = model(x)
print("after", [round(value, 3) for value in after[0].tolist()], "furthest", round((after - before).abs().max().item(), 3))
# --- layers.py
import torch
from torch import nn

class QuantizedLinear(nn.Module):
    def __init__(self, inputs, outputs, bits=4):
        super().__init__()
        self.levels = 2 ** (bits - 1) - 1
        self.register_buffer("weight_quantized", torch.zeros(outputs, inputs, dtype=torch.int8))
        self.register_buffer("weight_scale", torch.ones(outputs, 1))
        self.register_buffer("input_scale", torch.ones(inputs))
        self.register_buffer("bias", torch.zeros(outputs))

    def fill(self, linear, input_scale):
        weight = linear.weight * input_scale
        scale = weight.abs().amax(1, keepdim=True) / self.levels
        self.weight_quantized.copy_((weight / scale).round())
        self.weight_scale.copy_(scale)
        self.input_scale.copy_(input_scale)
        self.bias.copy_(linear.bias)

    def forward(self, x):
        weight = self.weight_quantized.float() * self.weight_scale
        return nn.functional.linear(x / self.input_scale, weight, self.bias)
# --- awq.py
from torch import nn

from layers import QuantizedLinear

def observed(model, x):
    """How big each input of each linear layer is."""
    sizes, hooks = {}, []
    for name, module in model.named_children():
        if isinstance(module, nn.Linear):
            hooks.append(module.register_forward_pre_hook(lambda module, args, name=name: sizes.update({name: args[0].abs().mean(0)})))
    model(x)
    for hook in hooks:
        hook.remove()
    return sizes

def quantize(model, x, strength=0.5):
    sizes = observed(model, x)
    for name, size in sizes.items():
        linear = model.get_submodule(name)
        quantized = QuantizedLinear(linear.in_features, linear.out_features)
        quantized.fill(linear, size.clamp(min=1e-3) ** strength)
        setattr(model, name, quantized)

# === blocks_sent_by_a_pool
# thread: https://github.com/vllm-project/vllm/pull/39548
# about: a server has the second GPU, and keeps keys and values of requests there in blocks. What another server asks for is gathered and sent by a thread, so that nobody waits
# operation: index on cuda:1, cuda:0
# operands: ids|indices|index.*
# error: indices should be either on
# category: default-or-current-device
# line: connector.py: self.pool = ThreadPoolExecutor(
# line: connector.py: ids = torch.tensor(
# line: connector.py: keys = self.cache[ids]
# repair: connector.py: ids = torch.tensor(block_ids, device=ACCELERATOR) -> ids = torch.tensor(block_ids, device=self.cache.device)
import torch

from connector import Connector
from worker import Worker

rank = 1
if torch.cuda.is_available():
    torch.cuda.set_device(rank)
worker = Worker(blocks=6, block_size=2, dim=3)
generator = torch.Generator().manual_seed(rank)
for name in ("first", "second"):
    worker.write(name, torch.randn(4, 3, generator=generator))
connector = Connector(worker.cache)
print("attended", round(worker.attend("second", torch.ones(3)), 4))
received = connector.ask(worker.block_ids["first"]).result()
print("received", [round(value, 3) for value in received.sum((1, 2)).tolist()])
connector.close()
# --- connector.py
from concurrent.futures import ThreadPoolExecutor

import torch

ACCELERATOR = "cuda" if torch.cuda.is_available() else "cpu"

class Connector:
    """Sends blocks of the cache to who asks for them."""

    def __init__(self, cache):
        self.cache = cache
        self.pool = ThreadPoolExecutor(max_workers=1)

    def ask(self, block_ids):
        return self.pool.submit(self.send_blocks, block_ids)

    def send_blocks(self, block_ids):
        ids = torch.tensor(block_ids, device=ACCELERATOR)
        keys = self.cache[ids]
        return keys.cpu()

    def close(self):
        self.pool.shutdown()
# --- worker.py
import torch

from connector import ACCELERATOR

class Worker:
    def __init__(self, blocks, block_size, dim):
        self.cache = torch.zeros(blocks, block_size, dim, device=ACCELERATOR)
        self.free, self.block_ids = list(range(blocks)), {}

    def write(self, request, keys):
        pieces = keys.to(self.cache.device).split(self.cache.shape[1])
        self.block_ids[request] = [self.free.pop() for _ in pieces]
        self.cache[torch.tensor(self.block_ids[request], device=ACCELERATOR)] = torch.stack(pieces)

    def attend(self, request, query):
        keys = self.cache[torch.tensor(self.block_ids[request], device=ACCELERATOR)].flatten(0, 1)
        return (keys @ query.to(keys.device)).softmax(0).max().item()

# === weights_looked_back_at
# thread: https://github.com/67372a/LoRA_Easy_Training_Scripts/issues/56
# about: an optimizer looks back each few steps: it goes part of the way from where it last was to where it is. A trainer makes the adapter and its optimizer and then prepares both
# operation: lerp_?|add_?|sub|mul on cpu, cuda:0
# operands: .*slow.*|self|end
# category: optimizer
# line: lookahead.py: self.slow = [
# line: lookahead.py: slow.lerp_(
# line: trainer.py: self.optimizer = Lookahead(
# line: trainer.py: self.network.to(
# repair: lookahead.py: slow.lerp_(parameter.data, self.alpha) -> slow.data = slow.to(parameter.device).lerp(parameter.data, self.alpha)
import torch

from trainer import NetworkTrainer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
trainer = NetworkTrainer(dim=6, rank=2, lr=0.2, look_back=3)
trainer.prepare(device)
generator = torch.Generator().manual_seed(1)
samples = torch.randn(10, 6, generator=generator)
print("losses", [trainer.step(sample[None], sample.flip(0)[None]) for sample in samples])
# --- network.py
import torch
from torch import nn

class Adapter(nn.Module):
    """A frozen layer, and a narrow way around it that is learned."""

    def __init__(self, dim, rank):
        super().__init__()
        self.frozen = nn.Linear(dim, dim).requires_grad_(False)
        self.down, self.up = nn.Parameter(torch.randn(rank, dim) / rank), nn.Parameter(torch.zeros(dim, rank))

    def forward(self, x):
        return self.frozen(x) + x @ self.down.T @ self.up.T
# --- lookahead.py
import torch

class Lookahead:
    def __init__(self, optimizer, k, alpha=0.5):
        self.optimizer, self.k, self.alpha, self.steps = optimizer, k, alpha, 0
        self.parameters = [each for group in optimizer.param_groups for each in group["params"]]
        self.slow = [each.detach().clone() for each in self.parameters]

    def zero_grad(self):
        self.optimizer.zero_grad()

    @torch.no_grad()
    def step(self):
        self.optimizer.step()
        self.steps += 1
        if self.steps % self.k:
            return
        for slow, parameter in zip(self.slow, self.parameters):
            slow.lerp_(parameter.data, self.alpha)
            parameter.copy_(slow)
# --- trainer.py
import torch
from torch import nn

from lookahead import Lookahead
from network import Adapter

class NetworkTrainer:
    def __init__(self, dim, rank, lr, look_back):
        self.network, self.device = Adapter(dim, rank), torch.device("cpu")
        learned = [each for each in self.network.parameters() if each.requires_grad]
        self.optimizer = Lookahead(torch.optim.SGD(learned, lr=lr), k=look_back)

    def prepare(self, device):
        self.device = device
        self.network.to(device)

    def step(self, x, target):
        loss = nn.functional.mse_loss(self.network(x.to(self.device)), target.to(self.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return round(loss.item(), 4)
