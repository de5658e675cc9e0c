# === galaxies_drawn_from_a_population
# thread: https://github.com/Cosmo-Pop/pop-cosmos/issues/35
# about: a generator of mock catalogues is a module. It is moved to the GPU, then draws galaxies, their magnitudes and their noise
# operation: (mul|multiply) on cpu, cuda:0
# operands: self|range|.*range.*
# category: state-not-registered|created-without-device
# line: pop_cosmos/catalogue.py: self.range = upper - lower
# line: main.py: device="cpu")
# repair: pop_cosmos/catalogue.py: self.power = torch.tensor([1.0, 1.0, 0.5, 1.0], device=device) ->
#   self.register_buffer("power", torch.tensor([1.0, 1.0, 0.5, 1.0], device=device))
# repair: pop_cosmos/catalogue.py: self.lower = lower -> self.register_buffer("lower", lower)
# repair: pop_cosmos/catalogue.py: self.range = upper - lower -> self.register_buffer("range", upper - lower)
# repair: pop_cosmos/catalogue.py: self.f_b = torch.tensor(f_b, device=device) -> self.register_buffer("f_b", torch.tensor(f_b, device=device))
# repair: pop_cosmos/catalogue.py: self.zero_points = calibration_parameters.to(device) ->
#   self.register_buffer("zero_points", calibration_parameters.to(device))
import torch

from flowfusion.diffusion import PopulationModelDiffusion
from pop_cosmos.catalogue import CatalogueGenerator, NoiseModel
from speculator import PhotulatorModelStack

if __name__ == "__main__":
    torch.manual_seed(35)
    zero_points = torch.tensor([0.97, 1.02, 1.0, 1.05])
    emulator, population = PhotulatorModelStack(n_emulators=4), PopulationModelDiffusion(n_params=4)
    generator = CatalogueGenerator(NoiseModel(n_bands=4), population, zero_points, emulator, device="cpu")
    generator.to("cuda").eval()
    base_samples = generator.generate_base_samples(200)
    with torch.no_grad():
        noisy_fluxes, noisy_magnitudes, theta = generator(*(each.to("cuda") for each in base_samples))
    selection = generator.selection_cut(noisy_magnitudes, magnitude_limit=25.0)
    print(f"selected {selection.sum().item()} redshift {theta[selection, -1].mean().item():.3f}")
# --- speculator.py
import math

import torch
from torch import nn


def flux2asinhmag(flux, f_b):
    return -2.5 / math.log(10) * (torch.asinh(flux / (2 * f_b)) + torch.log(f_b)) + 22.5


class PhotulatorModelStack(nn.Module):
    """One small network for each band."""

    def __init__(self, n_emulators, n_inputs=3, n_hidden=8):
        super().__init__()
        self.n_emulators = n_emulators
        layers = [[nn.Linear(n_inputs, n_hidden), nn.Tanh(), nn.Linear(n_hidden, 1)] for _ in range(n_emulators)]
        self.emulators = nn.ModuleList(nn.Sequential(*each) for each in layers)

    def magnitudes(self, theta, norm):
        return torch.cat([emulator(theta) for emulator in self.emulators], dim=-1) + norm
# --- flowfusion/diffusion.py
import torch
from torch import nn


class PopulationModelDiffusion(nn.Module):
    """Carries base samples along a drift that was learnt."""

    def __init__(self, n_params, n_steps=6):
        super().__init__()
        self.n_steps = n_steps
        self.drift = nn.Sequential(nn.Linear(n_params + 1, 12), nn.SiLU(), nn.Linear(12, n_params))

    def forward(self, x):
        for step in range(self.n_steps):
            t = torch.full_like(x[:, :1], step / self.n_steps)
            x = x + self.drift(torch.cat([x, t], dim=-1)) / self.n_steps
        return x
# --- pop_cosmos/catalogue.py
import math

import torch
from speculator import flux2asinhmag
from torch import nn
from torch.distributions import StudentT


class NoiseModel(nn.Module):
    def __init__(self, n_bands):
        super().__init__()
        self.model = nn.Linear(n_bands, n_bands)
        self.register_buffer("log_error_min", torch.full((n_bands,), -4.0))
        self.register_buffer("log_error_max", torch.full((n_bands,), 0.5))

    def noise_realization(self, n_noise, n_sigma, fluxes, asinh_magnitudes):
        log_sigmas = self.model(asinh_magnitudes - 22.5) + 0.1 * n_sigma
        flux_sigmas = torch.exp(torch.clamp(log_sigmas, min=self.log_error_min, max=self.log_error_max))
        return fluxes + 0.1 * n_noise * flux_sigmas


class CatalogueGenerator(nn.Module):
    """Mass, metallicity, dust and redshift first, then fluxes."""

    def __init__(self, noise_model, population_model, calibration_parameters, flux_emulator, f_b=0.05, device="cuda", zmax=6.0):
        super().__init__()
        self.param_names = ["N", "log10Z", "dust2", "z"]
        self.n_params = len(self.param_names)
        lower = torch.tensor([7.0, -1.98, 0.0, 0.0], device=device)
        upper = torch.tensor([13.0, 0.19, 4.0, zmax], device=device)
        self.power = torch.tensor([1.0, 1.0, 0.5, 1.0], device=device)
        self.lower = lower
        self.range = upper - lower
        self.f_b = torch.tensor(f_b, device=device)
        self.zero_points = calibration_parameters.to(device)
        self.noise_model = noise_model
        self.population_model = population_model
        self.flux_emulator = flux_emulator
        self.noise_base = StudentT(4)
        self.n_bands = flux_emulator.n_emulators

    def generate_base_samples(self, nsamples):
        base_samples_phi = torch.randn(nsamples, self.n_params)
        base_samples_sigma = torch.randn(nsamples, self.n_bands)
        return self.noise_base.sample((nsamples, self.n_bands)), base_samples_sigma, base_samples_phi

    def phi2theta(self, phi):
        theta = phi.clone()
        theta[:, 1:] = 0.5 + 0.5 * torch.erf(phi[:, 1:] / math.sqrt(2.0))
        theta[:, 1:] = self.lower[1:] + self.range[1:] * theta[:, 1:]
        return theta

    def emulator_parameter_transform(self, theta):
        return theta**self.power

    def selection_cut(self, noisy_magnitudes, magnitude_limit):
        return torch.isfinite(noisy_magnitudes).all(dim=-1) & (noisy_magnitudes < magnitude_limit).all(dim=-1)

    def forward(self, base_samples_noise, base_samples_sigma, base_samples_phi):
        theta = self.phi2theta(self.population_model(base_samples_phi))
        model_magnitudes = self.flux_emulator.magnitudes(self.emulator_parameter_transform(theta)[:, 1:], 22.5 + theta[:, :1])
        model_fluxes = 10 ** ((22.5 - model_magnitudes) / 2.5)
        model_asinh_magnitudes = flux2asinhmag(model_fluxes * self.zero_points, self.f_b)
        noisy_fluxes = self.noise_model.noise_realization(base_samples_noise, base_samples_sigma, model_fluxes, model_asinh_magnitudes)
        return noisy_fluxes, flux2asinhmag(noisy_fluxes, self.f_b), theta

# === echoes_taken_out_of_a_voice
# thread: https://github.com/BrasD99/HeyGenClone/issues/8
# about: spectra of a recording go through an ONNX session, which takes and gives arrays. What comes back is padded and made a wave
# operation: cat on cpu, cuda:0
# operands: tensors|x|spec_pred|freq_pad|.*spec_pred.*|.*freq_pad.*
# category: input-not-moved|input|created-without-device
# line: core/dereverb.py: tar_waves = model.istft(torch.tensor(spec_pred))
# line: core/dereverb.py: x = torch.cat([x, freq_pad], -2)
# line: core/dereverb.py: device_type = "cuda" if torch.cuda.is_available() else "cpu"
# repair: core/dereverb.py: tar_waves = model.istft(torch.tensor(spec_pred)) -> tar_waves = model.istft(torch.tensor(spec_pred).to(self.device))
import numpy as np

from core.dereverb import MDXNetDereverb


def original_audio(seconds=0.5, rate=2000):
    """A tone in each ear, and a weaker one that comes later."""
    time = np.arange(int(seconds * rate)) / rate
    dry = np.stack([np.sin(2 * np.pi * 110 * time), np.sin(2 * np.pi * 150 * time)])
    return dry + 0.3 * np.roll(dry, 60, axis=1)


if __name__ == "__main__":
    mix = original_audio()
    dereverb_out = MDXNetDereverb(margin=100).split(mix)
    voice, noise = dereverb_out["voice_file"], dereverb_out["noise_file"]
    print("voice", voice.shape, f"{np.abs(voice).mean():.3f} noise {np.abs(noise).mean():.3f}")
# --- onnxruntime.py
import numpy as np


class InferenceSession:
    """A graph that keeps the low bins and takes from the high ones."""

    def __init__(self, path, providers):
        self.path, self.providers = path, providers

    def run(self, output_names, feed):
        spek = feed["input"]
        gain = 1.0 / (1.0 + np.arange(spek.shape[2], dtype=spek.dtype) / 8.0)
        return [spek * gain[None, None, :, None]]
# --- core/dereverb.py
import os

import numpy as np
import onnxruntime as ort
import torch


class Conv_TDF_net_trim:
    def __init__(self, device, target_name, dim_f, dim_t, n_fft, hop):
        self.dim_c = 4
        self.dim_f, self.dim_t = dim_f, 2**dim_t
        self.n_fft, self.hop = n_fft, hop
        self.n_bins = n_fft // 2 + 1
        self.chunk_size = hop * (self.dim_t - 1)
        self.target_name = target_name
        self.window = torch.hann_window(n_fft, periodic=True).to(device)
        self.freq_pad = torch.zeros(1, self.dim_c, self.n_bins - dim_f, self.dim_t).to(device)

    def stft(self, x):
        x = x.reshape(-1, self.chunk_size)
        x = torch.stft(x, n_fft=self.n_fft, hop_length=self.hop, window=self.window, center=True, return_complex=True)
        x = torch.view_as_real(x).permute(0, 3, 1, 2)
        return x.reshape(-1, self.dim_c, self.n_bins, self.dim_t)[:, :, : self.dim_f]

    def istft(self, x):
        freq_pad = self.freq_pad.repeat(x.shape[0], 1, 1, 1)
        x = torch.cat([x, freq_pad], -2)
        x = x.reshape(-1, 2, self.n_bins, self.dim_t).permute(0, 2, 3, 1).contiguous()
        x = torch.view_as_complex(x)
        x = torch.istft(x, n_fft=self.n_fft, hop_length=self.hop, window=self.window, center=True)
        return x.reshape(-1, 2, self.chunk_size)


class Predictor:
    def __init__(self, args):
        device_type = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device(device_type)
        self.args = args
        self.model_ = Conv_TDF_net_trim(self.device, "vocals", args.dim_f, args.dim_t, args.n_fft, args.hop)
        path = os.path.join(args.onnx, self.model_.target_name + ".onnx")
        self.model = ort.InferenceSession(path, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])

    def demix(self, mix):
        """Cuts into segments that overlap by a margin."""
        samples, margin, chunk_size = mix.shape[-1], self.args.margin, self.args.chunk
        segmented_mix = {}
        for skip in range(0, samples, chunk_size):
            start = skip - (0 if skip == 0 else margin)
            end = min(skip + chunk_size + margin, samples)
            segmented_mix[skip] = mix[:, start:end].copy()
            if end == samples:
                break
        return self.demix_base(segmented_mix, margin)

    def demix_base(self, mixes, margin_size):
        chunked_sources = []
        model, _ort = self.model_, self.model
        trim = model.n_fft // 2
        gen_size = model.chunk_size - 2 * trim
        for mix, cmix in mixes.items():
            n_sample = cmix.shape[1]
            pad = gen_size - n_sample % gen_size
            mix_p = np.concatenate((np.zeros((2, trim)), cmix, np.zeros((2, pad)), np.zeros((2, trim))), 1)
            mix_waves = [mix_p[:, i : i + model.chunk_size] for i in range(0, n_sample + pad, gen_size)]
            mix_waves = torch.tensor(np.array(mix_waves), dtype=torch.float32).to(self.device)
            with torch.no_grad():
                spek = model.stft(mix_waves).cpu().numpy()
                spec_pred = 0.5 * (_ort.run(None, {"input": spek})[0] - _ort.run(None, {"input": -spek})[0])
                tar_waves = model.istft(torch.tensor(spec_pred))
                tar_signal = tar_waves[:, :, trim:-trim].transpose(0, 1).reshape(2, -1).cpu().numpy()[:, :-pad]
            start = 0 if mix == 0 else margin_size
            end = None if mix == list(mixes)[-1] else -margin_size
            chunked_sources.append(tar_signal[:, start:end])
        return np.concatenate(chunked_sources, axis=-1)


class MDXNetDereverb:
    def __init__(self, margin, chunk=500):
        self.onnx = os.path.join("weights", "onnx_dereverb")
        self.margin, self.chunk = margin, chunk
        self.dim_t, self.dim_f, self.n_fft, self.hop = 4, 24, 64, 16
        self.pred = Predictor(self)

    def split(self, mix):
        opt = self.pred.demix(mix)
        return {"voice_file": mix - opt, "noise_file": opt}

# === a_likelihood_walked_through_in_latent_space
# thread: https://github.com/adammoss/nnest/issues/3
# about: a flow learns where samples of a likelihood lie. It is built of layers that each leave a part of the parameters as they are
# operation: (mul|multiply) on cuda:0, cpu
# operands: other|mask|.*mask.*
# category: state-not-registered|created-without-device|module-split|input|input-not-moved
# line: nnest/trainer.py: self.netG = SingleSpeed(
# line: nnest/networks.py: mask = torch.arange(0, num_inputs) % 2
# line: nnest/networks.py: self.mask = mask
# line: nnest/networks.py: self.net = FlowSequential(
# repair: nnest/trainer.py: self.netG = SingleSpeed(xdim, ndim, num_blocks, num_layers) ->
#   self.netG = SingleSpeed(xdim, ndim, num_blocks, num_layers, device=self.device)
# repair: nnest/networks.py: def __init__(self, num_inputs, num_hidden, num_blocks, num_layers): ->
#   def __init__(self, num_inputs, num_hidden, num_blocks, num_layers, device=None):
# repair: nnest/networks.py: mask = torch.arange(0, num_inputs) % 2 -> mask = torch.arange(0, num_inputs, device=device) % 2
# repair: nnest/networks.py: self.net = FlowSequential(*modules) -> self.net = FlowSequential(*modules).to(device)
import argparse

import numpy as np

from nnest.mcmc import MCMCSampler

parser = argparse.ArgumentParser()
parser.add_argument("--x_dim", type=int, default=2)
parser.add_argument("--train_iters", type=int, default=25)
parser.add_argument("--mcmc_steps", type=int, default=60)
parser.add_argument("--hidden_dim", type=int, default=16)
parser.add_argument("--num_layers", type=int, default=1)
parser.add_argument("--num_blocks", type=int, default=3)
parser.add_argument("--use_gpu", type=bool, default=True)


def loglike(z):
    return np.array([-sum(5.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0) for x in z])


if __name__ == "__main__":
    args = parser.parse_args()
    sampler = MCMCSampler(args.x_dim, loglike, args.hidden_dim, args.num_blocks, args.num_layers, args.use_gpu)
    losses, samples = sampler.run(args.train_iters, args.mcmc_steps)
    print("loss", f"{losses[0]:.3f}", f"{losses[-1]:.3f}", "mean", [f"{each:.2f}" for each in samples.mean(axis=0)])
# --- nnest/mcmc.py
import numpy as np

from nnest.trainer import Trainer


class MCMCSampler:
    def __init__(self, x_dim, loglike, hidden_dim, num_blocks, num_layers, use_gpu):
        self.x_dim, self.loglike = x_dim, loglike
        self.rng = np.random.default_rng(3)
        self.trainer = Trainer(x_dim, hidden_dim, num_blocks=num_blocks, num_layers=num_layers, use_gpu=use_gpu)

    def _init_samples(self, number=150, steps=80):
        """Walks that are blind to what the flow will learn."""
        x = self.rng.normal(size=(number, self.x_dim))
        logl = self.loglike(x)
        for _ in range(steps):
            proposed = x + 0.4 * self.rng.normal(size=x.shape)
            x, logl = self._accept(x, logl, proposed, np.zeros(number))
        return x

    def _accept(self, x, logl, proposed, log_ratio):
        proposed_logl = self.loglike(proposed)
        accepted = np.log(self.rng.uniform(size=len(x))) < proposed_logl - logl + log_ratio
        return np.where(accepted[:, None], proposed, x), np.where(accepted, proposed_logl, logl)

    def run(self, train_iters, mcmc_steps):
        samples = self._init_samples()
        losses = self.trainer.train(samples, max_iters=train_iters)
        x, logl = samples[:20], self.loglike(samples[:20])
        for _ in range(mcmc_steps):
            proposed, log_ratio = self.trainer.propose(x, 0.3 * self.rng.normal(size=x.shape))
            x, logl = self._accept(x, logl, proposed, log_ratio)
        return losses, x
# --- nnest/trainer.py
import numpy as np
import torch

from nnest.networks import SingleSpeed


class Trainer:
    def __init__(self, xdim, ndim, batch_size=50, num_blocks=5, num_layers=2, use_gpu=False):
        self.device = torch.device("cuda" if use_gpu and torch.cuda.is_available() else "cpu")
        self.x_dim, self.batch_size = xdim, batch_size
        torch.manual_seed(2)
        self.netG = SingleSpeed(xdim, ndim, num_blocks, num_layers)
        self.optimizer = torch.optim.Adam(self.netG.parameters(), lr=0.005, weight_decay=1e-6)

    def train(self, samples, max_iters=5000):
        train_dataset = torch.utils.data.TensorDataset(torch.from_numpy(samples.astype(np.float32)))
        train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=self.batch_size)
        return [self._train(self.netG, train_loader) for _ in range(max_iters)]

    def _train(self, model, loader):
        model.train()
        train_loss = 0.0
        for (data,) in loader:
            data = data.to(self.device)
            self.optimizer.zero_grad()
            loss = -model.log_probs(data).mean()
            loss.backward()
            self.optimizer.step()
            train_loss += loss.item()
        return train_loss / len(loader)

    @torch.no_grad()
    def propose(self, x, step):
        """A step in latent space, and what it does to volumes."""
        inputs = torch.from_numpy(x.astype(np.float32)).to(self.device)
        z, log_jacob = self.netG(inputs)
        moved, log_jacob_back = self.netG(z + torch.from_numpy(step.astype(np.float32)).to(self.device), mode="inverse")
        return moved.cpu().numpy().astype(np.float64), (log_jacob + log_jacob_back).squeeze(1).cpu().numpy()
# --- nnest/networks.py
import math

import torch
from torch import nn


def network(num_inputs, num_hidden, num_layers, activation):
    layers = [nn.Linear(num_inputs, num_hidden), activation()]
    for _ in range(num_layers):
        layers += [nn.Linear(num_hidden, num_hidden), activation()]
    return nn.Sequential(*layers, nn.Linear(num_hidden, num_inputs))


class CouplingLayer(nn.Module):
    def __init__(self, num_inputs, num_hidden, mask, num_layers=2):
        super().__init__()
        self.num_inputs = num_inputs
        self.mask = mask
        self.scale_net = network(num_inputs, num_hidden, num_layers, nn.Tanh)
        self.translate_net = network(num_inputs, num_hidden, num_layers, nn.ReLU)

    def forward(self, inputs, mode="direct"):
        mask = self.mask
        masked_inputs = inputs * mask
        log_s = self.scale_net(masked_inputs) * (1 - mask)
        t = self.translate_net(masked_inputs) * (1 - mask)
        if mode == "direct":
            return inputs * torch.exp(log_s) + t, log_s.sum(-1, keepdim=True)
        return (inputs - t) * torch.exp(-log_s), -log_s.sum(-1, keepdim=True)


class FlowSequential(nn.Sequential):
    def forward(self, inputs, mode="direct"):
        logdets = torch.zeros(inputs.size(0), 1, device=inputs.device)
        for module in self if mode == "direct" else reversed(self):
            inputs, logdet = module(inputs, mode)
            logdets = logdets + logdet
        return inputs, logdets

    def log_probs(self, inputs):
        u, log_jacob = self(inputs)
        log_probs = (-0.5 * u.pow(2) - 0.5 * math.log(2 * math.pi)).sum(-1, keepdim=True)
        return log_probs + log_jacob


class SingleSpeed(nn.Module):
    def __init__(self, num_inputs, num_hidden, num_blocks, num_layers):
        super().__init__()
        mask = torch.arange(0, num_inputs) % 2
        mask = mask.float()
        modules = []
        for _ in range(num_blocks):
            modules += [CouplingLayer(num_inputs, num_hidden, mask, num_layers=num_layers)]
            mask = 1 - mask
        self.net = FlowSequential(*modules)

    def forward(self, inputs, mode="direct"):
        return self.net(inputs, mode=mode)

    def log_probs(self, inputs):
        return self.net.log_probs(inputs)

# === classes_that_a_network_is_unsure_of
# thread: https://github.com/IBM/UQ360/issues/28
# about: weights have a mean and a variance each, and what a layer gives is drawn anew at each call
# operation: (mul|multiply) on cpu, cuda:0
# operands: self|eps
# category: created-without-device
# line: uq360/layers.py: eps = torch.FloatTensor(std.size()).normal_()
# repair: uq360/layers.py: eps = torch.FloatTensor(std.size()).normal_() -> eps = torch.randn_like(std)
import numpy as np
import torch

from uq360.bnn import BnnClassification


def make_moons(number, seed):
    rng = np.random.default_rng(seed)
    y = np.arange(number) % 2
    angle = np.pi * rng.random(number)
    X = np.stack([np.cos(angle) + y, np.sin(angle) * (1 - 2 * y) - 1.2 * y], axis=1) + 0.05 * rng.normal(size=(number, 2))
    return X.astype(np.float32), y


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = {"ip_dim": 2, "op_dim": 2, "num_nodes": 16, "num_layers": 1, "step_size": 0.03, "num_epochs": 60, "batch_size": 50}
    X, y = make_moons(100, seed=0)
    uq_model = BnnClassification(config, device=device).fit(X, y)
    X_test, y_test = make_moons(40, seed=1)
    y_mean = uq_model.predict(X_test)
    print("right", int((y_mean.argmax(axis=1) == y_test).sum()), "of", len(y_test), f"sure {y_mean.max(axis=1).mean():.1f} kl", uq_model.kl_is_finite())
# --- uq360/bnn.py
import torch

from uq360.bayesian_mlp import BayesianClassificationNet


class BnnClassification:
    def __init__(self, config, device):
        self.config, self.device = config, device
        torch.manual_seed(28)
        self.net = BayesianClassificationNet(config["ip_dim"], config["op_dim"], config["num_nodes"], config["num_layers"])
        self.net.to(device)

    def fit(self, X, y):
        optimizer = torch.optim.Adam(self.net.parameters(), lr=self.config["step_size"])
        train_data = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(y).long())
        train_loader = torch.utils.data.DataLoader(train_data, batch_size=self.config["batch_size"])
        for _ in range(self.config["num_epochs"]):
            for batch_x, batch_y in train_loader:
                batch_x, batch_y = batch_x.to(self.device), batch_y.to(self.device)
                optimizer.zero_grad()
                elbo = self.net.neg_elbo(batch_x, batch_y, num_batches=len(train_loader), size=len(X))
                elbo.backward()
                optimizer.step()
        return self

    @torch.no_grad()
    def predict(self, X):
        """What the means of the weights say."""
        out = self.net(torch.from_numpy(X).to(self.device), do_sample=False)
        return torch.softmax(out, dim=-1).cpu().numpy()

    def kl_is_finite(self):
        return bool(torch.isfinite(self.net.kl_divergence_w()))
# --- uq360/bayesian_mlp.py
import torch
from torch import nn

from uq360.layers import BayesianLinearLayer


class BayesianClassificationNet(nn.Module):
    def __init__(self, ip_dim, op_dim, num_nodes, num_layers):
        super().__init__()
        self.fc1 = BayesianLinearLayer(ip_dim, num_nodes)
        self.fc_hidden = nn.ModuleList(BayesianLinearLayer(num_nodes, num_nodes) for _ in range(num_layers))
        self.fc_out = BayesianLinearLayer(num_nodes, op_dim)
        self.loss = nn.CrossEntropyLoss(reduction="sum")

    def forward(self, x, do_sample=True):
        x = torch.tanh(self.fc1(x, do_sample))
        for layer in self.fc_hidden:
            x = torch.tanh(layer(x, do_sample))
        return self.fc_out(x, do_sample, scale_variances=True)

    def kl_divergence_w(self):
        return self.fc1.kl() + self.fc_out.kl() + sum(layer.kl() for layer in self.fc_hidden)

    def neg_elbo(self, x, y, num_batches, size):
        Elik = -self.loss(self(x), y) * num_batches
        return (0.01 * self.kl_divergence_w() - Elik) / size
# --- uq360/layers.py
import math

import torch
from torch import nn
from torch.nn import functional as F


def reparam(mu, logvar, do_sample=True, mc_samples=1):
    if do_sample:
        std = torch.exp(0.5 * logvar)
        eps = torch.FloatTensor(std.size()).normal_()
        sample = mu + eps * std
        for _ in range(1, mc_samples):
            sample = sample + mu + eps * std
        return sample / mc_samples
    return mu


class BayesianLinearLayer(nn.Module):
    """Gaussians of their own for each weight."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.in_features = in_features
        self.prior_stdv = 1.0 / math.sqrt(in_features)
        self.weights = nn.Parameter(torch.empty(out_features, in_features).normal_(0, self.prior_stdv))
        self.bias = nn.Parameter(torch.empty(out_features).normal_(0, 0.1))
        self.weights_logvar = nn.Parameter(torch.full((out_features, in_features), -9.0))
        self.bias_logvar = nn.Parameter(torch.full((out_features,), -9.0))

    def forward(self, x, do_sample=True, scale_variances=False):
        mu_activations = F.linear(x, self.weights, self.bias)
        var_activations = F.linear(x.pow(2), self.weights_logvar.exp(), self.bias_logvar.exp())
        shift = math.log(self.in_features) if scale_variances else 0.0
        return reparam(mu_activations, var_activations.log() - shift, do_sample=do_sample)

    def kl(self):
        scaled = (self.weights_logvar.exp() + self.weights.pow(2)) / (2 * self.prior_stdv**2)
        kld_weights = math.log(self.prior_stdv) - 0.5 * self.weights_logvar + scaled - 0.5
        kld_bias = -0.5 * self.bias_logvar + 0.5 * (self.bias_logvar.exp() + self.bias.pow(2)) - 0.5
        return kld_weights.sum() + kld_bias.sum()

# === captions_against_what_a_blurred_picture_says
# thread: https://github.com/BillChan226/HALC/pull/16
# about: a caption is decoded word by word. What a model says of the picture with noise is taken from what it says of the clear one
# operation: (.*conv.*) on cuda:0, cuda:1
# operands: input|self|image|.*image_cd.*, weight|bias
# error: on the same device|should be the same
# category: default-or-current-device|input-not-moved
# line: image_cd = image_tensor_cd.unsqueeze(0).cuda() if image_tensor_cd is not None else None
# line: output = model.generate(
# line: minigpt4/mini_gpt4.py: img_embeds_cd = self.encode_img(images_cd)
# repair: image_cd = image_tensor_cd.unsqueeze(0).cuda() if image_tensor_cd is not None else None ->
#   image_cd = image_tensor_cd.unsqueeze(0).to(device) if image_tensor_cd is not None else None
import argparse

import torch

from minigpt4.mini_gpt4 import MiniGPT4
from vcd_utils.vcd_add_noise import add_diffusion_noise

parser = argparse.ArgumentParser(description="caption_generation")
parser.add_argument("--decoder", default="VCD")
parser.add_argument("--gpu-id", type=int, default=1)
parser.add_argument("--noise-step", type=int, default=40)
parser.add_argument("--cd-alpha", type=float, default=1.0)
parser.add_argument("--cd-beta", type=float, default=0.1)
parser.add_argument("--max-new-tokens", type=int, default=8)


def pictures(number):
    generator = torch.Generator().manual_seed(16)
    return torch.rand(number, 3, 16, 16, generator=generator) + 4 * torch.rand(number, 3, 1, 1, generator=generator)


def main(args):
    vcd_decoding = args.decoder == "VCD"
    device = torch.device(f"cuda:{args.gpu_id}") if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(1)
    model = MiniGPT4(vocab_size=24, hidden_size=16).to(device).eval()
    prompt = torch.tensor([[3, 9, 1, 5]], device=device)
    captions = []
    for image in pictures(3):
        image = image.to(device)
        image_tensor_cd = None
        if vcd_decoding:
            image_tensor_cd = add_diffusion_noise(image, args.noise_step)
        image_cd = image_tensor_cd.unsqueeze(0).cuda() if image_tensor_cd is not None else None
        with torch.inference_mode():
            output = model.generate(image.unsqueeze(0), prompt, args.max_new_tokens, image_cd, args.cd_alpha, args.cd_beta)
        captions.append(output[0].tolist())
    print("captions", captions)


if __name__ == "__main__":
    main(parser.parse_args())
# --- vcd_utils/vcd_add_noise.py
import torch


def add_diffusion_noise(image_tensor, noise_step, num_steps=100):
    """A picture as it is after some steps towards noise."""
    betas = torch.sigmoid(torch.linspace(-6, 6, num_steps)) * 0.02
    alphas_prod = torch.cumprod(1 - betas, dim=0)
    noise = torch.randn(image_tensor.shape, generator=torch.Generator().manual_seed(noise_step)).to(image_tensor.device)
    alphas_t = alphas_prod[noise_step].sqrt().item()
    alphas_1_m_t = (1 - alphas_prod[noise_step]).sqrt().item()
    return alphas_t * image_tensor + 3.0 * alphas_1_m_t * noise
# --- minigpt4/mini_gpt4.py
import math

import torch
from torch import nn


class VisionTransformer(nn.Module):
    def __init__(self, hidden_size, patch=4):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, hidden_size, patch, stride=patch)
        self.ln_vision = nn.LayerNorm(hidden_size)

    def forward(self, image):
        return self.ln_vision(self.patch_embed(image).flatten(2).transpose(1, 2))


class MiniGPT4(nn.Module):
    """Patches of a picture stand before the words."""

    def __init__(self, vocab_size, hidden_size):
        super().__init__()
        self.visual_encoder = VisionTransformer(hidden_size)
        self.llama_proj = nn.Linear(hidden_size, hidden_size)
        self.embed_tokens = nn.Embedding(vocab_size, hidden_size)
        self.llama_model = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.lm_head = nn.Linear(hidden_size, vocab_size)

    def encode_img(self, image):
        return self.llama_proj(self.visual_encoder(image))

    def next_logits(self, img_embeds, tokens):
        hidden, _ = self.llama_model(torch.cat([img_embeds, self.embed_tokens(tokens)], dim=1))
        return 4.0 * self.lm_head(hidden[:, -1] + img_embeds.mean(dim=1))

    def generate(self, images, input_ids, max_new_tokens, images_cd=None, cd_alpha=0.5, cd_beta=0.1):
        img_embeds = self.encode_img(images)
        tokens = input_ids
        if images_cd is not None:
            img_embeds_cd = self.encode_img(images_cd)
        for _ in range(max_new_tokens):
            logits = self.next_logits(img_embeds, tokens)
            if images_cd is not None:
                logits_cd = self.next_logits(img_embeds_cd, tokens)
                cutoff = math.log(cd_beta) + logits.max(dim=-1, keepdim=True).values
                diffs = (1 + cd_alpha) * logits - cd_alpha * logits_cd
                logits = diffs.masked_fill(logits < cutoff, -float("inf"))
            tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
        return tokens[:, input_ids.shape[1] :]

# === a_second_video_from_the_same_pipeline
# thread: https://github.com/hao-ai-lab/FastVideo/pull/420
# about: stages take turns: a picture is encoded, steps of denoising follow, frames are decoded. The pipeline serves one request, then the next
# operation: (.*conv.*) on cuda:0, cpu
# operands: input|self|x, weight|bias
# error: Input type \(.*\) and weight type \(.*\) should be the same|on the same device
# category: module-split|cached-state
# line: stages/encoding.py: latents = self.vae.encode(latents)
# repair: stages/encoding.py: latents = self.vae.encode(latents) -> latents = self.vae.to(get_local_torch_device()).encode(latents)
import torch

from distributed import get_local_torch_device
from pipeline import ForwardBatch, ImageToVideoPipeline, Transformer, Vae

if __name__ == "__main__":
    torch.manual_seed(420)
    vae, transformer = Vae().to(get_local_torch_device()), Transformer().to(get_local_torch_device())
    pipeline = ImageToVideoPipeline(vae.eval(), transformer.eval())
    shown = []
    for seed in (1, 2):
        generator = torch.Generator().manual_seed(seed)
        batch = ForwardBatch(latents=torch.rand(1, 3, 2, 8, 8, generator=generator), num_inference_steps=4)
        with torch.no_grad():
            output = pipeline.forward(batch).output
        shown.append(f"{output.mean().item():.4f}")
    print("videos", tuple(output.shape), shown)
# --- distributed.py
import torch


def get_local_torch_device(local_rank=0):
    return torch.device(f"cuda:{local_rank}") if torch.cuda.is_available() else torch.device("cpu")
# --- pipeline.py
from dataclasses import dataclass

import torch
from stages.decoding import DecodingStage
from stages.denoising import DenoisingStage
from stages.encoding import EncodingStage
from torch import nn


@dataclass
class ForwardBatch:
    latents: torch.Tensor
    num_inference_steps: int
    output: torch.Tensor | None = None


class Vae(nn.Module):
    """Half as wide and half as high, each frame by itself."""

    scaling_factor = 0.7

    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv3d(3, 4, (1, 2, 2), stride=(1, 2, 2))
        self.decoder = nn.ConvTranspose3d(4, 3, (1, 2, 2), stride=(1, 2, 2))

    def encode(self, pixels):
        return self.encoder(pixels)

    def decode(self, latents):
        return torch.tanh(self.decoder(latents))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.time_in = nn.Linear(1, 4)
        self.proj = nn.Conv3d(4, 4, 3, padding=1)

    def forward(self, latents, timestep):
        shift = self.time_in(timestep[:, None])[:, :, None, None, None]
        return self.proj(torch.tanh(latents + shift))


class ImageToVideoPipeline:
    def __init__(self, vae, transformer):
        self.stages = [EncodingStage(vae), DenoisingStage(transformer), DecodingStage(vae)]

    def forward(self, batch):
        for stage in self.stages:
            batch = stage.forward(batch)
        return batch
# --- stages/encoding.py
from distributed import get_local_torch_device


class EncodingStage:
    def __init__(self, vae):
        self.vae = vae

    def forward(self, batch):
        latents = (batch.latents * 2.0 - 1.0).clamp(-1, 1)
        latents = latents.to(get_local_torch_device())
        latents = self.vae.encode(latents)
        batch.latents = latents * self.vae.scaling_factor
        return batch
# --- stages/denoising.py
import torch


class DenoisingStage:
    def __init__(self, transformer):
        self.transformer = transformer

    def forward(self, batch):
        latents = batch.latents
        timesteps = torch.linspace(1.0, 0.0, batch.num_inference_steps + 1, device=latents.device)
        for current, following in zip(timesteps, timesteps[1:]):
            noise_pred = self.transformer(latents, current.expand(len(latents)))
            latents = latents + (following - current) * noise_pred
        batch.latents = latents
        return batch
# --- stages/decoding.py
from distributed import get_local_torch_device


class DecodingStage:
    """The last to use the autoencoder, which then makes room."""

    def __init__(self, vae):
        self.vae = vae

    def forward(self, batch):
        self.vae = self.vae.to(get_local_torch_device())
        image = self.vae.decode(batch.latents / self.vae.scaling_factor)
        batch.output = (image / 2 + 0.5).clamp(0, 1).cpu().float()
        self.vae.to("cpu")
        return batch
