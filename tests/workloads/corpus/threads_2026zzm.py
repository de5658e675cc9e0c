# === a_sentence_read_by_an_inverted_flow
# thread: https://github.com/DigitalPhonetics/IMS-Toucan/issues/88
# about: a sentence is made into a spectrogram. A flow is run backwards for this, with matrices that were inverted once, when the speaker was loaded
# operation: conv|convolution|_convolution|conv2d on cuda:0, cpu
# operands: x|input, weight
# error: Input type \(torch.cuda.FloatTensor\) and weight type \(torch.FloatTensor\) should be the same|on the same device
# category: state-not-registered|cached-state
# line: glow.py: weight = weight.view(self.n_split, self.n_split, 1, 1)
# line: glow.py: self.weight_inv = torch.inverse(
# line: glow.py: weight = self.weight_inv
# line: glow.py: z = F.conv2d(x, weight)
# line: portaspeech_interface.py: self.phone2mel.store_inverse()
# line: portaspeech_interface.py: self.to(torch.device(device))
# repair: glow.py: weight = weight.view(self.n_split, self.n_split, 1, 1) -> weight = weight.view(self.n_split, self.n_split, 1, 1).to(x.device)
import tempfile
from pathlib import Path

import torch

from portaspeech_interface import PortaSpeechInterface, phonemes
from portaspeech import PortaSpeech


def read_texts(model_path, sentences, device):
    tts = PortaSpeechInterface(device=device, tts_model_path=model_path)
    return [tts(sentence) for sentence in sentences]


if __name__ == "__main__":
    torch.manual_seed(88)
    with tempfile.TemporaryDirectory() as folder:
        best = Path(folder) / "best.pt"
        torch.save({"model": PortaSpeech(idim=len(phonemes) + 1, odim=8).state_dict()}, best)
        exec_device = "cuda" if torch.cuda.is_available() else "cpu"
        mels = read_texts(best, ["le corbeau sur un arbre", "tenait un fromage"], exec_device)
    print("mel", [f"{mel.mean().item():.4f} {mel.std().item():.4f} {len(mel)}" for mel in mels])
# --- glow.py
import torch
from torch import nn
from torch.nn import functional as F


class ActNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.logs = nn.Parameter(0.1 * torch.randn(1, channels, 1))
        self.bias = nn.Parameter(0.1 * torch.randn(1, channels, 1))

    def forward(self, x, reverse=False):
        if reverse:
            return (x - self.bias) * torch.exp(-self.logs)
        return self.bias + torch.exp(self.logs) * x


class InvConvNear(nn.Module):
    """Mixes groups of channels by a square matrix."""

    def __init__(self, channels, n_split=4, n_sqz=2):
        super().__init__()
        assert channels % n_split == 0
        self.n_split, self.n_sqz = n_split, n_sqz
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(n_split, n_split))[0])

    def forward(self, x, reverse=False):
        b, c, t = x.size()
        x = x.view(b, self.n_sqz, c // self.n_split, self.n_split // self.n_sqz, t)
        x = x.permute(0, 1, 3, 2, 4).contiguous().view(b, self.n_split, c // self.n_split, t)
        if reverse:
            if hasattr(self, "weight_inv"):
                weight = self.weight_inv
            else:
                weight = torch.inverse(self.weight)
        else:
            weight = self.weight
        weight = weight.view(self.n_split, self.n_split, 1, 1)
        z = F.conv2d(x, weight)
        z = z.view(b, self.n_sqz, self.n_split // self.n_sqz, c // self.n_split, t)
        return z.permute(0, 1, 3, 2, 4).contiguous().view(b, c, t)

    def store_inverse(self):
        self.weight_inv = torch.inverse(self.weight.detach())


class CouplingBlock(nn.Module):
    def __init__(self, channels, gin_channels, hidden_channels=12):
        super().__init__()
        self.half = channels // 2
        self.start = nn.Conv1d(self.half, hidden_channels, 1)
        self.cond = nn.Conv1d(gin_channels, hidden_channels, 1)
        self.end = nn.Conv1d(hidden_channels, channels, 3, padding=1)

    def forward(self, x, g, reverse=False):
        x_0, x_1 = x[:, :self.half], x[:, self.half:]
        m, logs = self.end(torch.tanh(self.start(x_0) + self.cond(g))).chunk(2, dim=1)
        z_1 = (x_1 - m) * torch.exp(-logs) if reverse else m + torch.exp(logs) * x_1
        return torch.cat([x_0, z_1], dim=1)


class Glow(nn.Module):
    def __init__(self, channels, gin_channels, n_blocks=2):
        super().__init__()
        self.flows = nn.ModuleList()
        for _ in range(n_blocks):
            self.flows.append(ActNorm(channels))
            self.flows.append(InvConvNear(channels))
            self.flows.append(CouplingBlock(channels, gin_channels))

    def forward(self, x, g, reverse=False):
        for f in reversed(self.flows) if reverse else self.flows:
            x = f(x, g, reverse=reverse) if isinstance(f, CouplingBlock) else f(x, reverse=reverse)
        return x

    def store_inverse(self):
        for f in self.flows:
            if isinstance(f, InvConvNear):
                f.store_inverse()
# --- portaspeech.py
import torch
from torch import nn

from glow import Glow


class PortaSpeech(nn.Module):
    """Phonemes are encoded, drawn out in time, and decoded; what is fine in the spectrogram comes of the flow."""

    def __init__(self, idim, odim, adim=16):
        super().__init__()
        self.odim = odim
        self.embed = nn.Embedding(idim, adim)
        self.encoder = nn.GRU(adim, adim, batch_first=True)
        self.duration = nn.Linear(adim, 1)
        self.feat_out = nn.Linear(adim, odim)
        self.post_flow = Glow(odim, gin_channels=adim)

    def store_inverse(self):
        self.post_flow.store_inverse()

    def inference(self, text):
        encoded, _ = self.encoder(self.embed(text)[None])
        durations = 1 + torch.round(2 * torch.sigmoid(self.duration(encoded[0])[:, 0])).long()
        upsampled = torch.repeat_interleave(encoded, durations, dim=1)
        before = self.feat_out(upsampled).transpose(1, 2)
        residual = self.post_flow(torch.tanh(before), g=upsampled.transpose(1, 2), reverse=True)
        return (before + residual)[0].t()
# --- portaspeech_interface.py
import torch
from torch import nn

from portaspeech import PortaSpeech

phonemes = "abcdefghijklmnopqrstuvwxyz ~"


class PortaSpeechInterface(nn.Module):
    def __init__(self, device, tts_model_path):
        super().__init__()
        self.device = device
        checkpoint = torch.load(tts_model_path, map_location="cpu")
        self.phone2mel = PortaSpeech(idim=len(phonemes) + 1, odim=8)
        self.phone2mel.load_state_dict(checkpoint["model"])
        with torch.no_grad():
            self.phone2mel.store_inverse()
        self.phone2mel.eval()
        self.to(torch.device(device))

    def text2phone(self, text):
        return [1 + phonemes.index(each) for each in text + "~"]

    def forward(self, text):
        with torch.inference_mode():
            phones = torch.tensor(self.text2phone(text), device=self.device)
            return self.phone2mel.inference(phones)

# === noise_for_a_batch_of_digits
# thread: https://github.com/mattroz/diffusion-ddpm/issues/5
# about: a net learns to take noise off small pictures. Each picture of a batch gets the noise of a step that is drawn for it
# operation: index on cpu, cuda:0
# operands: self.alphas_hat|alphas_hat|tensor|self, timesteps|indices
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# category: created-without-device|state-not-registered|cached-state
# line: scheduler/ddpm.py: self.betas = torch.linspace(
# line: scheduler/ddpm.py: self.alphas = 1 - self.betas
# line: scheduler/ddpm.py: self.alphas_hat = torch.cumprod(
# line: scheduler/ddpm.py: alpha_hat = self.alphas_hat[timesteps]
# repair: scheduler/ddpm.py: self.betas = torch.linspace(beta_start, beta_end, num_timesteps) -> self.betas = torch.linspace(beta_start, beta_end,
#   num_timesteps, device="cuda")
import numpy as np
import torch

from config import training_config
from model.unet import UNet
from scheduler.ddpm import DDPMPipeline
from train_loop import train_loop

if __name__ == "__main__":
    torch.manual_seed(training_config.seed)
    rng = np.random.default_rng(training_config.seed)
    rows = np.tri(8, dtype=np.float32)[rng.integers(2, 8, size=32)]
    digits = torch.from_numpy(np.stack([np.outer(row, row[::-1]) for row in rows]) * 2 - 1).float()[:, None]
    loader = torch.utils.data.DataLoader(digits, batch_size=training_config.train_batch_size)
    model = UNet(hidden=12, max_timesteps=training_config.diffusion_timesteps).to(training_config.device)
    diffusion_pipeline = DDPMPipeline(beta_start=1e-3, beta_end=0.2, num_timesteps=training_config.diffusion_timesteps)
    losses = train_loop(training_config, model, diffusion_pipeline, loader)
    images = diffusion_pipeline.sampling(model, torch.zeros(2, 1, 8, 8, device=training_config.device) + 0.3)
    print("loss", [f"{loss:.4f}" for loss in losses], "sampled", [f"{each:.4f}" for each in images.mean(dim=(1, 2, 3)).tolist()])
# --- config.py
from dataclasses import dataclass

import torch


@dataclass
class TrainingConfig:
    train_batch_size: int = 8
    num_epochs: int = 3
    learning_rate: float = 5e-3
    diffusion_timesteps: int = 20
    seed: int = 5
    device: str = "cuda" if torch.cuda.is_available() else "cpu"


training_config = TrainingConfig()
# --- model/layers.py
import torch
from torch import nn


class TransformerPositionalEmbedding(nn.Module):
    """Sines and cosines of a step's number."""

    def __init__(self, dimension, max_timesteps):
        super().__init__()
        position = torch.arange(max_timesteps, dtype=torch.float32)[:, None]
        frequency = torch.exp(-torch.arange(0, dimension, 2) * 4.0 / dimension)
        pe_matrix = torch.zeros(max_timesteps, dimension)
        pe_matrix[:, 0::2] = torch.sin(position * frequency)
        pe_matrix[:, 1::2] = torch.cos(position * frequency)
        self.register_buffer("pe_matrix", pe_matrix)

    def forward(self, timestep):
        return self.pe_matrix[timestep]


class ResNetBlock(nn.Module):
    def __init__(self, channels, time_emb_channels):
        super().__init__()
        self.time_embedding_projection = nn.Linear(time_emb_channels, channels)
        self.block1 = nn.Sequential(nn.GroupNorm(2, channels), nn.SiLU(), nn.Conv2d(channels, channels, 3, padding=1))
        self.block2 = nn.Sequential(nn.GroupNorm(2, channels), nn.SiLU(), nn.Conv2d(channels, channels, 3, padding=1))

    def forward(self, x, time_embedding):
        h = self.block1(x) + self.time_embedding_projection(time_embedding)[:, :, None, None]
        return x + self.block2(h)
# --- model/unet.py
import torch
from torch import nn

from model.layers import ResNetBlock, TransformerPositionalEmbedding


class UNet(nn.Module):
    def __init__(self, hidden, max_timesteps, time_emb=16):
        super().__init__()
        self.positional_encoding = nn.Sequential(TransformerPositionalEmbedding(time_emb, max_timesteps), nn.Linear(time_emb, time_emb), nn.GELU())
        self.initial_conv = nn.Conv2d(1, hidden, 3, padding=1)
        self.downsample = nn.Conv2d(hidden, hidden, 2, stride=2)
        self.bottleneck = ResNetBlock(hidden, time_emb)
        self.upsample = nn.ConvTranspose2d(hidden, hidden, 2, stride=2)
        self.out_conv = nn.Conv2d(2 * hidden, 1, 3, padding=1)

    def forward(self, input_tensor, time):
        time_encoded = self.positional_encoding(time)
        initial_x = self.initial_conv(input_tensor)
        x = self.upsample(self.bottleneck(self.downsample(initial_x), time_encoded))
        return self.out_conv(torch.cat([initial_x, x], dim=1))
# --- scheduler/ddpm.py
import torch


class DDPMPipeline:
    def __init__(self, beta_start=1e-4, beta_end=1e-2, num_timesteps=1000):
        self.betas = torch.linspace(beta_start, beta_end, num_timesteps)
        self.alphas = 1 - self.betas
        self.alphas_hat = torch.cumprod(self.alphas, dim=0)
        self.num_timesteps = num_timesteps

    def forward_diffusion(self, images, timesteps):
        """The pictures at these steps, and the noise that is in them."""
        gaussian_noise = torch.randn(images.shape, device=images.device)
        alpha_hat = self.alphas_hat[timesteps].to(images.device)
        alpha_hat = alpha_hat[:, None, None, None]
        return torch.sqrt(alpha_hat) * images + torch.sqrt(1 - alpha_hat) * gaussian_noise, gaussian_noise

    @torch.no_grad()
    def sampling(self, model, image):
        """Takes the noise off step by step. What would be drawn anew at each is left out."""
        for timestep in reversed(range(self.num_timesteps)):
            ts = torch.full((image.shape[0],), timestep, dtype=torch.long, device=image.device)
            predicted_noise = model(image, ts)
            beta_t, alpha_t, alpha_hat = self.betas[timestep], self.alphas[timestep], self.alphas_hat[timestep]
            image = (image - beta_t / torch.sqrt(1 - alpha_hat) * predicted_noise) / torch.sqrt(alpha_t)
        return image
# --- train_loop.py
import torch
import torch.nn.functional as F


def train_loop(config, model, pipeline, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate)
    losses = []
    for _ in range(config.num_epochs):
        mean_loss = 0.0
        for original_images in loader:
            original_images = original_images.to(config.device)
            batch_size = original_images.shape[0]
            timesteps = torch.randint(0, pipeline.num_timesteps, (batch_size,), device=config.device).long()
            noisy_images, noise = pipeline.forward_diffusion(original_images, timesteps)
            loss = F.mse_loss(model(noisy_images, timesteps), noise)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            mean_loss += loss.item() / len(loader)
        losses.append(mean_loss)
    return losses

# === words_that_find_a_thing_in_a_picture
# thread: https://github.com/GinnyXiao/OpenWorldSAM/issues/7
# about: a picture and words for a thing in it give a mask. The encoder of both is read from a file, and the parts that only this project has are new
# operation: _to_copy|to|copy_?|empty_like on meta
# operands: .*text_hidden_fcs.*|.*weight.*|.*bias.*|self|t
# error: Cannot copy out of meta tensor; no data!
# category: checkpoint|default-or-current-device|created-without-device
# line: modeling/open_world_sam.py: low_cpu_mem_usage=True,
# line: modeling/evf.py: with torch.device("meta") if low_cpu_mem_usage else nullcontext():
# line: modeling/evf.py: model = cls(**kwargs)
# repair: modeling/open_world_sam.py: low_cpu_mem_usage=True, -> low_cpu_mem_usage=False,
import tempfile
from pathlib import Path

import torch

from modeling.build import build_model
from modeling.evf import Beit3

if __name__ == "__main__":
    torch.manual_seed(7)
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "beit3.pth"
        torch.save({f"beit3.{name}": value for name, value in Beit3(vocab=40, width=16).state_dict().items()}, weights)
        cfg = {
            "MODEL": {"META_ARCHITECTURE": "OpenWorldSAM", "DEVICE": "cuda:0", "EVF": weights, "WIDTH": 16, "VOCAB": 40, "MASK_DIM": 8},
            "TEST": {"IMAGE_SIZE": 16},
        }
        model = build_model(cfg).eval()
    picture = torch.linspace(-1, 1, 16 * 16 * 3).view(1, 3, 16, 16)
    with torch.no_grad():
        masks = [model({"image": picture, "prompt": prompt}) for prompt in ("the red kite", "a boat")]
    print("mask", [f"{mask.sigmoid().mean().item():.4f} {mask.std().item():.4f}" for mask in masks])
# --- modeling/build.py
import torch

from modeling.open_world_sam import OpenWorldSAM

META_ARCH_REGISTRY = {"OpenWorldSAM": OpenWorldSAM}


def build_model(cfg):
    """The whole model, by the name that the configuration has for it. It has no weights of its own project yet."""
    meta_arch = cfg["MODEL"]["META_ARCHITECTURE"]
    model = META_ARCH_REGISTRY[meta_arch](cfg)
    model.to(torch.device(cfg["MODEL"]["DEVICE"]))
    return model
# --- modeling/evf.py
from contextlib import nullcontext

import torch
from torch import nn


class Beit3(nn.Module):
    """Words and patches of a picture in one row."""

    def __init__(self, vocab, width):
        super().__init__()
        self.text_embed = nn.Embedding(vocab, width)
        self.patch_embed = nn.Conv2d(3, width, 4, stride=4)
        self.norm = nn.LayerNorm(width)
        self.mix = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, image, tokens):
        patches = self.patch_embed(image).flatten(2).transpose(1, 2)
        row = self.norm(torch.cat([self.text_embed(tokens), patches], dim=1))
        return row + self.mix(row, row, row, need_weights=False)[0]


class EvfSam2Model(nn.Module):
    def __init__(self, vocab, width, out_dim):
        super().__init__()
        self.beit3 = Beit3(vocab, width)
        self.text_hidden_fcs = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out_dim))

    @classmethod
    def from_pretrained(cls, path, low_cpu_mem_usage=False, **kwargs):
        with torch.device("meta") if low_cpu_mem_usage else nullcontext():
            model = cls(**kwargs)
        state_dict = torch.load(path, map_location="cpu")
        model.load_state_dict(state_dict, strict=False, assign=low_cpu_mem_usage)
        return model

    def encode(self, image, tokens):
        output = self.beit3(image, tokens)
        return self.text_hidden_fcs(output[:, 0])
# --- modeling/open_world_sam.py
import torch
from torch import nn

from modeling.evf import EvfSam2Model


class OpenWorldSAM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        model_cfg = cfg["MODEL"]
        self.vocab = model_cfg["VOCAB"]
        self.evf_sam2 = EvfSam2Model.from_pretrained(
            model_cfg["EVF"],
            low_cpu_mem_usage=True,
            vocab=model_cfg["VOCAB"],
            width=model_cfg["WIDTH"],
            out_dim=model_cfg["MASK_DIM"],
        )
        self.image_encoder = nn.Sequential(nn.Conv2d(3, model_cfg["MASK_DIM"], 3, padding=1), nn.GELU())
        self.tie_breaker = nn.Parameter(torch.zeros(2, model_cfg["MASK_DIM"]).normal_(std=0.1))

    @property
    def device(self):
        return self.tie_breaker.device

    def tokenize(self, prompt):
        ids = [1] + [2 + sum(map(ord, word)) % (self.vocab - 2) for word in prompt.split()]
        return torch.tensor([ids], device=self.device)

    def forward(self, inputs):
        image = inputs["image"].to(self.device)
        query = self.evf_sam2.encode(image, self.tokenize(inputs["prompt"])) + self.tie_breaker
        return torch.einsum("qc,bchw->bqhw", query, self.image_encoder(image))

# === a_scan_model_goes_on_where_it_stopped
# thread: https://github.com/microsoft/InnerEye-DeepLearning/pull/205
# about: a net marks parts of a scan. Its training is broken off after some epochs and goes on from the file that was written then
# operation: add_?|_foreach_add_?|lerp_? on cpu, cuda:0
# operands: buf|.*momentum_buffer.*|self, grad|other|.*grad.*
# category: optimizer|checkpoint
# line: model_util.py: self._optimizer.load_state_dict(
# line: model_util.py: self._model = self._model.cuda()
# line: model_util.py: self._model = UNet(
# line: model_training.py: models_and_optimizer.try_load_checkpoint_for_optimizer(
# line: model_training.py: models_and_optimizer.adjust_model_for_gpus()
# repair: model_util.py: self._optimizer.load_state_dict(checkpoint["opt_dict"]) -> self._optimizer.load_state_dict(checkpoint["opt_dict"]);
#   [state.update({k: v.cuda() for k, v in state.items() if torch.is_tensor(v)}) for state in self._optimizer.state.values()]
import tempfile
from pathlib import Path

import torch

from model_config import SegmentationModel
from model_training import model_train

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        config = SegmentationModel(checkpoint_folder=Path(folder), num_epochs=2)
        first = model_train(config)
        config.start_epoch, config.num_epochs = 2, 4
        second = model_train(config)
    results = torch.tensor(first + second)
    print("epochs", len(results), "loss", [f"{loss:.4f}" for loss in results.tolist()])
# --- model_config.py
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass
class SegmentationModel:
    """What a training is told. Numbers of epochs begin with 1."""

    checkpoint_folder: Path
    num_epochs: int
    start_epoch: int = 0
    l_rate: float = 0.05
    momentum: float = 0.6
    feature_channels: int = 6
    use_gpu: bool = torch.cuda.is_available()
    random_seed: int = 42

    @property
    def should_load_checkpoint_for_training(self):
        return self.start_epoch > 0

    def get_path_to_checkpoint(self, epoch):
        return self.checkpoint_folder / f"{epoch}_checkpoint.pth.tar"
# --- model_util.py
import torch
from torch import nn


class UNet(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.down = nn.Sequential(nn.Conv3d(1, channels, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2))
        self.bottom = nn.Sequential(nn.Conv3d(channels, channels, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose3d(channels, channels, 2, stride=2)
        self.head = nn.Conv3d(channels + 1, 2, 1)

    def forward(self, patches):
        return self.head(torch.cat([self.up(self.bottom(self.down(patches))), patches], dim=1))


class ModelAndInfo:
    """A model, its optimizer, and how both are read from a file."""

    def __init__(self, config, checkpoint_path=None):
        self.config = config
        self.checkpoint_path = checkpoint_path
        self._model = None
        self._optimizer = None

    @property
    def model(self):
        return self._model

    @property
    def optimizer(self):
        return self._optimizer

    def create_model(self):
        self._model = UNet(self.config.feature_channels)

    def create_optimizer(self):
        self._optimizer = torch.optim.SGD(self._model.parameters(), self.config.l_rate, self.config.momentum, foreach=False)

    def load_checkpoint(self):
        return torch.load(self.checkpoint_path, map_location="cpu")

    def try_load_checkpoint_for_model(self):
        if self.checkpoint_path is not None:
            self._model.load_state_dict(self.load_checkpoint()["state_dict"])

    def try_load_checkpoint_for_optimizer(self):
        if self.checkpoint_path is not None:
            checkpoint = self.load_checkpoint()
            self._optimizer.load_state_dict(checkpoint["opt_dict"])

    def adjust_model_for_gpus(self):
        if self.config.use_gpu:
            self._model = self._model.cuda()

    def save(self, epoch):
        state = {"epoch": epoch, "state_dict": self._model.state_dict(), "opt_dict": self._optimizer.state_dict()}
        torch.save(state, self.config.get_path_to_checkpoint(epoch))
# --- model_training.py
import numpy as np
import torch

from model_util import ModelAndInfo


def scans(config):
    """Balls of a middle brightness in noise, and which points are in them."""
    rng = np.random.default_rng(config.random_seed)
    grid = np.stack(np.meshgrid(*[np.arange(8)] * 3, indexing="ij"))
    for _ in range(4):
        inside = np.square(grid - rng.uniform(2, 6, (3, 1, 1, 1))).sum(axis=0) < 6
        image = inside + rng.normal(0, 0.3, inside.shape)
        yield torch.from_numpy(image).float()[None, None], torch.from_numpy(inside).long()[None]


def train_step(model, optimizer, image, labels):
    loss = torch.nn.functional.cross_entropy(model(image), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def model_train(config):
    torch.manual_seed(config.random_seed)
    path = config.get_path_to_checkpoint(config.start_epoch) if config.should_load_checkpoint_for_training else None
    models_and_optimizer = ModelAndInfo(config, path)
    models_and_optimizer.create_model()
    models_and_optimizer.try_load_checkpoint_for_model()
    models_and_optimizer.create_optimizer()
    models_and_optimizer.try_load_checkpoint_for_optimizer()
    models_and_optimizer.adjust_model_for_gpus()
    results = []
    for epoch in range(config.start_epoch + 1, config.num_epochs + 1):
        losses = []
        for image, labels in scans(config):
            if config.use_gpu:
                image, labels = image.cuda(), labels.cuda()
            losses.append(train_step(models_and_optimizer.model, models_and_optimizer.optimizer, image, labels))
        results.append(sum(losses) / len(losses))
        models_and_optimizer.save(epoch)
    return results

# === heads_of_a_crowd_in_windows
# thread: https://github.com/cxliu0/PET/issues/4
# about: people of a crowd are counted by points. A map tells which windows of the picture are worth a question, and only these are asked
# operation: index on cpu, cuda:0
# operands: points_queries_win|self|tensor, v_idx|indices
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# category: created-without-device|input-not-moved
# line: models/pet.py: points_queries_win = points_queries_win[:, v_idx].reshape(-1, 2)
# line: models/pet.py: v_idx = valid_div > 0
# line: models/pet.py: points_queries = torch.vstack(
# line: models/pet.py: shift_x = ((torch.arange(
# line: models/pet.py: shift_y = ((torch.arange(
# line: models/pet.py: points_queries = points_queries.reshape(
# line: models/pet.py: points_queries_win = window_partition(
# repair: models/pet.py: points_queries_win = points_queries_win[:, v_idx].reshape(-1, 2) -> points_queries_win = points_queries_win[:,
#   v_idx.cpu()].reshape(-1, 2)
import argparse

import torch

from engine import evaluate
from models.pet import PET

parser = argparse.ArgumentParser("Point quEry Transformer")
parser.add_argument("--device", default="cuda")
parser.add_argument("--seed", default=4, type=int)
parser.add_argument("--hidden_dim", default=12, type=int)
parser.add_argument("--stride", default=4, type=int)

if __name__ == "__main__":
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = PET(args).to(torch.device(args.device))
    counts, places = evaluate(model, torch.device(args.device), images=3)
    print("count", counts, "mean place", [f"{place:.4f}" for place in places])
# --- engine.py
import numpy as np
import torch


def crowd(index, side=32):
    """Bright spots, more of them in one half of the picture."""
    rng = np.random.default_rng(40 + index)
    image = rng.normal(0, 0.05, (3, side, side)).astype(np.float32)
    for y, x in rng.integers(2, [side - 2, side // 2], size=(6, 2)):
        image[:, y - 1:y + 2, x - 1:x + 2] += 1.0
    return torch.from_numpy(image)[None]


@torch.no_grad()
def evaluate(model, device, images):
    model.eval()
    counts, places = [], []
    for index in range(images):
        samples = crowd(index).to(device)
        outputs = model(samples)
        scores = outputs["pred_logits"].softmax(dim=-1)[:, 1]
        chosen = scores > scores.median()
        counts.append(int(chosen.sum()))
        places.append((outputs["pred_points"][chosen] * scores[chosen, None]).mean().item())
    return counts, places
# --- models/misc.py
def window_partition(x, window_size_h, window_size_w):
    """B x C x H x W becomes points of a window, windows, C."""
    B, C, H, W = x.shape
    x = x.permute(0, 2, 3, 1)
    x = x.reshape(B, H // window_size_h, window_size_h, W // window_size_w, window_size_w, C)
    windows = x.permute(0, 1, 3, 2, 4, 5).reshape(-1, window_size_h * window_size_w, C)
    return windows.permute(1, 0, 2)
# --- models/pet.py
import torch
from torch import nn

from models.misc import window_partition


class BasePETCount(nn.Module):
    def __init__(self, hidden_dim, stride):
        super().__init__()
        self.pq_stride = stride
        self.class_embed = nn.Linear(hidden_dim, 2)
        self.coord_embed = nn.Sequential(nn.Linear(hidden_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, 2))
        self.decoder = nn.MultiheadAttention(hidden_dim, 2)

    def points_queris_embed_inference(self, samples, src, dense_input_embed, div, dec_win_size):
        stride = self.pq_stride
        shape = [(side + stride // 2 - 1) // stride for side in samples.shape[2:]]

        # generate points queries
        shift_x = ((torch.arange(0, shape[1]) + 0.5) * stride).long()
        shift_y = ((torch.arange(0, shape[0]) + 0.5) * stride).long()
        shift_y, shift_x = torch.meshgrid(shift_y, shift_x, indexing="ij")
        points_queries = torch.vstack([shift_y.flatten(), shift_x.flatten()]).permute(1, 0)
        h, w = shift_x.shape

        # get points queries embedding and features
        query_embed = dense_input_embed[:, :, points_queries[:, 0], points_queries[:, 1]]
        shift_y_down, shift_x_down = points_queries[:, 0] // stride, points_queries[:, 1] // stride
        query_feats = src[:, :, shift_y_down, shift_x_down]

        # window-rize
        query_embed = query_embed.reshape(1, -1, h, w)
        points_queries = points_queries.reshape(h, w, 2).permute(2, 0, 1).unsqueeze(0)
        query_feats = query_feats.reshape(1, -1, h, w)
        dec_win_w, dec_win_h = dec_win_size
        query_embed_win = window_partition(query_embed, dec_win_h, dec_win_w)
        points_queries_win = window_partition(points_queries, dec_win_h, dec_win_w)
        query_feats_win = window_partition(query_feats, dec_win_h, dec_win_w)

        # dynamic point query generation
        div_win = window_partition(div, dec_win_h, dec_win_w)
        valid_div = (div_win > div.mean()).sum(dim=0)[:, 0]
        v_idx = valid_div > 0
        query_embed_win = query_embed_win[:, v_idx]
        query_feats_win = query_feats_win[:, v_idx]
        points_queries_win = points_queries_win[:, v_idx].reshape(-1, 2)
        return query_embed_win, points_queries_win, query_feats_win

    def forward(self, samples, src, dense_input_embed, div, dec_win_size):
        query_embed, points_queries, query_feats = self.points_queris_embed_inference(samples, src, dense_input_embed, div, dec_win_size)
        memory = src.flatten(2).permute(2, 0, 1).expand(-1, query_feats.shape[1], -1)
        hs = self.decoder(query_feats + query_embed, memory, memory, need_weights=False)[0].reshape(-1, src.shape[1])
        offsets = (self.coord_embed(hs).sigmoid() - 0.5) * 2.0
        points_queries = points_queries.float().cuda() / samples.shape[-1]
        return {"pred_logits": self.class_embed(hs), "pred_points": offsets / samples.shape[-1] + points_queries}


class PET(nn.Module):
    def __init__(self, args):
        super().__init__()
        hidden_dim = args.hidden_dim
        self.backbone = nn.Sequential(nn.Conv2d(3, hidden_dim, args.stride, stride=args.stride), nn.ReLU(), nn.Conv2d(hidden_dim, hidden_dim, 1))
        self.pos_embed = nn.Conv2d(3, hidden_dim, 7, padding=3)
        self.quadtree_splitter = nn.Sequential(nn.Conv2d(hidden_dim, 1, 1), nn.Sigmoid())
        self.quadtree_dense = BasePETCount(hidden_dim, args.stride)

    def forward(self, samples):
        src = self.backbone(samples)
        split_map = self.quadtree_splitter(src)
        return self.quadtree_dense(samples, src, self.pos_embed(samples), split_map, dec_win_size=[4, 2])

# === how_sure_a_model_is_of_what_it_says
# thread: https://github.com/awslabs/fortuna/pull/154
# about: answers of a language model get a number that tells how sure it is. By answers that are known to be right or wrong this number is corrected
# operation: addmm|linear|mm|native_layer_norm|layer_norm|.*norm.* on cuda:1, cuda:0
# operands: weight|bias, input|hidden|x
# category: module-split|default-or-current-device
# line: hallucination/multicalibrator.py: self.generative_model = generative_model.to(
# repair: hallucination/multicalibrator.py: self.generative_model = generative_model.to("cuda") -> self.generative_model = generative_model
import torch

from generative.modeling import CausalLM
from generative.tokenizer import WordTokenizer
from hallucination.multicalibrator import HallucinationMulticalibrator

if __name__ == "__main__":
    torch.manual_seed(154)
    questions = ["capital of france", "capital of peru", "largest planet", "color of snow", "opposite of hot", "two plus two"]
    answers = ["paris", "rome", "jupiter", "white", "green", "four"]
    correct = [1, 0, 1, 1, 0, 1]
    generative_model = CausalLM.from_config({"vocab": 48, "width": 16, "layers": 4}, device_map="balanced")
    calibrator = HallucinationMulticalibrator(generative_model, WordTokenizer(48))
    history = calibrator.fit(questions, answers, correct, steps=30)
    probs = calibrator.predict_proba(["capital of spain", "color of coal"], ["madrid", "black"])
    print("brier", f"{history[0]:.4f} {history[-1]:.4f}", "probs", [f"{prob:.4f}" for prob in probs.tolist()])
# --- generative/tokenizer.py
import torch


class WordTokenizer:
    def __init__(self, vocab):
        self.vocab = vocab

    def __call__(self, text):
        return torch.tensor([[1] + [2 + sum(map(ord, word)) % (self.vocab - 2) for word in text.split()]])
# --- generative/modeling.py
import torch
from torch import nn


def balanced(layers, devices):
    """A device for each part: the first ones together, then the others."""
    per_device = -(-layers // len(devices))
    device_map = {f"layers.{index}": devices[index // per_device] for index in range(layers)}
    return {"embed": devices[0], **device_map, "norm": devices[-1], "lm_head": devices[-1]}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, hidden):
        mixed = hidden.cumsum(dim=1) / torch.arange(1, hidden.shape[1] + 1, device=hidden.device)[:, None]
        return hidden + self.down(torch.nn.functional.gelu(self.up(self.norm(mixed))))


class CausalLM(nn.Module):
    def __init__(self, vocab, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.device_map = {}

    @classmethod
    def from_config(cls, config, device_map):
        model = cls(**config).requires_grad_(False).eval()
        assert device_map == "balanced"
        devices = [f"cuda:{index}" for index in range(torch.cuda.device_count())] or ["cpu"]
        model.device_map = balanced(len(model.layers), devices)
        for name, device in model.device_map.items():
            model.get_submodule(name).to(device)
        return model

    def forward(self, input_ids):
        hidden = self.embed(input_ids.to(self.device_map["embed"]))
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden.to(self.device_map[f"layers.{index}"]))
        hidden = self.norm(hidden.to(self.device_map["norm"]))
        return self.lm_head(hidden), hidden
# --- hallucination/scoring.py
import torch


def inv_perplexity(logits, input_ids, start):
    """How likely the words from `start` on are, as a mean of one word."""
    logprobs = logits[0, :-1].log_softmax(dim=-1)
    taken = logprobs.gather(1, input_ids[0, 1:, None].to(logprobs.device))[:, 0]
    return torch.exp(taken[start - 1:].mean())
# --- hallucination/multicalibrator.py
import torch
from torch import nn

from hallucination.scoring import inv_perplexity


class HallucinationMulticalibrator:
    """Corrects scores of a generative model, by what it thinks of question and answer."""

    def __init__(self, generative_model, tokenizer, scoring_fn=inv_perplexity):
        self.generative_model = generative_model.to("cuda")
        self.tokenizer = tokenizer
        self.scoring_fn = scoring_fn
        self.calibrator = None

    @torch.no_grad()
    def _features(self, texts, contexts):
        rows = []
        for text, context in zip(texts, contexts):
            start = self.tokenizer(context).shape[1]
            input_ids = self.tokenizer(f"{context} {text}")
            logits, hidden = self.generative_model(input_ids)
            score = self.scoring_fn(logits, input_ids, start)
            rows.append(torch.cat([score.log()[None], hidden[0, start:].mean(dim=0)]).cpu())
        return torch.stack(rows)

    def fit(self, contexts, texts, targets, steps):
        features = self._features(texts, contexts)
        targets = torch.tensor(targets, dtype=torch.float32)
        self.calibrator = nn.Linear(features.shape[1], 1)
        optimizer = torch.optim.Adam(self.calibrator.parameters(), lr=0.05)
        history = []
        for _ in range(steps):
            loss = (self.calibrator(features)[:, 0].sigmoid() - targets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        return history

    @torch.no_grad()
    def predict_proba(self, contexts, texts):
        return self.calibrator(self._features(texts, contexts))[:, 0].sigmoid()
