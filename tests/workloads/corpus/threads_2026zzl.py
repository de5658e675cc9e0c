# === skeletons_in_any_order
# thread: https://github.com/sunsmarterjie/SDL-Skeleton/issues/9
# about: a network draws the skeletons of shapes. Pictures come one by one in an order that is drawn anew, and gradients of all are added up before a step
# operation: randperm on cpu
# operands: generator|.*generator.*
# error: device type for generator
# category: generator|default-or-current-device
# line: train.py: dataloader = DataLoader(dataset, shuffle=True)
# line: train.py: torch.set_default_tensor_type(torch.cuda.FloatTensor)
# repair: train.py: dataloader = DataLoader(dataset, shuffle=True) -> dataloader = DataLoader(dataset, shuffle=True,
#   generator=torch.Generator(device="cuda"))
import argparse

import train

parser = argparse.ArgumentParser(description="TRAIN SKELETON")
parser.add_argument("--gpu_id", default=0, type=int)
parser.add_argument("--max_step", default=3, type=int)
parser.add_argument("--iter_size", default=8, type=int)
parser.add_argument("--base_lr", default=0.05, type=float)

if __name__ == "__main__":
    totals = train.train_model(parser.parse_args([]))
    print("totloss", [f"{total:.3f}" for total in totals])
# --- sklarge.py
import numpy as np
from torch.utils.data import Dataset


class SkLarge(Dataset):
    """Bars of several widths, and the line in the middle of each."""

    def __init__(self, size=8, side=12):
        rng = np.random.default_rng(9)
        self.samples = []
        for index in range(size):
            image = rng.normal(0.0, 0.1, (1, side, side)).astype(np.float32)
            target = np.zeros((1, side, side), dtype=np.float32)
            middle, half = 3 + index % 6, 1 + index % 3
            image[:, 2:-2, middle - half:middle + half + 1] += 1.0
            target[:, 2:-2, middle] = 1.0
            self.samples.append((image, target))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]
# --- hed.py
import torch
from torch import nn


def bce2d(logits, target):
    """What is rare, points of a skeleton, counts as much as what is not."""
    positive = target.sum()
    total = target.numel()
    weights = torch.where(target > 0, (total - positive) / total, positive / total)
    return nn.functional.binary_cross_entropy_with_logits(logits, target, weights, reduction="sum")


class HED(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU())
        self.conv2 = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(width, width, 3, padding=1), nn.ReLU())
        self.dsn1 = nn.Conv2d(width, 1, 1)
        self.dsn2 = nn.Conv2d(width, 1, 1)
        self.fuse = nn.Conv2d(2, 1, 1)

    def forward(self, data, target):
        conv1 = self.conv1(data)
        conv2 = self.conv2(conv1)
        d1 = self.dsn1(conv1)
        d2 = nn.functional.interpolate(self.dsn2(conv2), scale_factor=2, mode="bilinear", align_corners=False)
        fuse_loss = bce2d(self.fuse(torch.cat([d1, d2], dim=1)), target)
        return bce2d(d1, target) + bce2d(d2, target) + fuse_loss, fuse_loss
# --- trainer.py
class Trainer:
    def __init__(self, network, optimizer, dataloader, args):
        self.args = args
        self.network = network
        self.optimizer = optimizer
        self.dataloader = dataloader
        self.dataiter = None

    def next_sample(self):
        try:
            return next(self.dataiter)
        except (StopIteration, TypeError):
            self.dataiter = iter(self.dataloader)
            return next(self.dataiter)

    def train(self):
        totals = []
        self.optimizer.zero_grad()
        for step in range(self.args.max_step):
            loss_acc = 0.0
            for _ in range(self.args.iter_size):
                data, target = self.next_sample()
                data, target = data.cuda(self.args.gpu_id), target.cuda(self.args.gpu_id)
                loss, _ = self.network(data, target)
                loss = loss / self.args.iter_size
                loss.backward()
                loss_acc += loss.item()
            self.optimizer.step()
            self.optimizer.zero_grad()
            totals.append(loss_acc)
        return totals
# --- train.py
import warnings

import torch
from torch.utils.data import DataLoader

from hed import HED
from sklarge import SkLarge
from trainer import Trainer

warnings.filterwarnings("ignore", message=".*set_default_tensor_type.*")


def train_model(args):
    torch.manual_seed(9)
    network = HED().cuda(args.gpu_id)
    torch.cuda.set_device(args.gpu_id)
    torch.set_default_tensor_type(torch.cuda.FloatTensor)
    dataset = SkLarge()
    dataloader = DataLoader(dataset, shuffle=True)
    optimizer = torch.optim.Adam(network.parameters(), lr=args.base_lr)
    return Trainer(network, optimizer, dataloader, args).train()

# === cells_of_two_kinds_of_measurement
# thread: https://github.com/rpmccordlab/SMILE/issues/2
# about: what was measured of the same cells in two ways shall be alike after two encoders. Each pair is compared with all other pairs of its batch
# operation: mul on cpu, cuda:0
# operands: self|.*negatives_mask.*
# category: created-without-device|input-not-moved
# line: contrastive_loss_pytorch.py: self.register_buffer("negatives_mask",
# line: smile.py: f_con = ContrastiveLoss(
# line: smile.py: p_con = ContrastiveLoss(
# line: contrastive_loss_pytorch.py: denominator = self.negatives_mask *
# repair: contrastive_loss_pytorch.py: self.register_buffer("negatives_mask", (~torch.eye(batch_size * 2, dtype=torch.bool)).float()) ->
#   self.register_buffer("negatives_mask", (~torch.eye(batch_size * 2, dtype=torch.bool)).float().cuda())
import numpy as np
import torch

from smile import PairedSMILE, PairedSMILE_trainer

if __name__ == "__main__":
    rng = np.random.default_rng(2)
    kinds = rng.normal(size=(4, 5))[np.arange(48) % 4]
    X_a = kinds @ rng.normal(size=(5, 20)) + 0.1 * rng.normal(size=(48, 20))
    X_b = np.maximum(kinds @ rng.normal(size=(5, 14)), 0.0)
    torch.manual_seed(1)
    net = PairedSMILE(input_dim_a=20, input_dim_b=14, clf_out=6)
    losses = PairedSMILE_trainer(X_a, X_b, net, batch_size=16, num_epoch=3, f_temp=0.2, p_temp=0.5)
    print("losses", [f"{loss:.3f}" for loss in losses])
# --- layers.py
from torch import nn


def encoder(input_dim, hidden_dim=16, output_dim=8):
    return nn.Sequential(
        nn.Linear(input_dim, hidden_dim),
        nn.BatchNorm1d(hidden_dim),
        nn.ReLU(),
        nn.Linear(hidden_dim, output_dim),
        nn.BatchNorm1d(output_dim),
        nn.ReLU(),
    )


def weights_init(m):
    if isinstance(m, nn.Linear):
        nn.init.xavier_uniform_(m.weight.data)
        m.bias.data.fill_(0)
# --- contrastive_loss_pytorch.py
import torch
import torch.nn.functional as F


class ContrastiveLoss(torch.nn.Module):
    """As in SimCLR: every row of one side shall find its own row on the other side."""

    def __init__(self, batch_size, temperature=0.5):
        super().__init__()
        self.batch_size = batch_size
        self.temperature = temperature
        self.register_buffer("negatives_mask", (~torch.eye(batch_size * 2, dtype=torch.bool)).float())

    def forward(self, emb_i, emb_j):
        z_i = F.normalize(emb_i, dim=1, p=2)
        z_j = F.normalize(emb_j, dim=1, p=2)
        representations = torch.cat([z_i, z_j], dim=0)
        similarity_matrix = representations @ representations.t()

        sim_ij = torch.diag(similarity_matrix, self.batch_size)
        sim_ji = torch.diag(similarity_matrix, -self.batch_size)
        positives = torch.cat([sim_ij, sim_ji], dim=0)

        nominator = torch.exp(positives / self.temperature)
        denominator = self.negatives_mask * torch.exp(similarity_matrix / self.temperature)
        loss_partial = -torch.log(nominator / torch.sum(denominator, dim=1))
        return torch.sum(loss_partial) / (2 * self.batch_size)
# --- smile.py
import numpy as np
import torch
from torch import nn

from contrastive_loss_pytorch import ContrastiveLoss
from layers import encoder, weights_init


class PairedSMILE(nn.Module):
    def __init__(self, input_dim_a, input_dim_b, clf_out=10):
        super().__init__()
        self.clf_out = clf_out
        self.encoder_a = encoder(input_dim_a)
        self.encoder_b = encoder(input_dim_b)
        self.clf = nn.Sequential(nn.Linear(8, clf_out), nn.Softmax(dim=1))
        self.feature = nn.Sequential(nn.Linear(8, 8))

    def forward(self, x_a, x_b):
        x_a, x_b = self.encoder_a(x_a), self.encoder_b(x_b)
        return (self.clf(x_a), self.feature(x_a)), (self.clf(x_b), self.feature(x_b))


def PairedSMILE_trainer(X_a, X_b, model, batch_size=512, num_epoch=5, f_temp=0.05, p_temp=0.15):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.apply(weights_init)
    model.to(device)

    f_con = ContrastiveLoss(batch_size=batch_size, temperature=f_temp)
    p_con = ContrastiveLoss(batch_size=model.clf_out, temperature=p_temp)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    order, losses = np.random.default_rng(0), []
    for k in range(num_epoch):
        shuffled = order.permutation(len(X_a))
        X_tensor_A = torch.tensor(X_a[shuffled]).float()
        X_tensor_B = torch.tensor(X_b[shuffled]).float()
        for j in range(len(X_a) // batch_size):
            rows = slice(j * batch_size, (j + 1) * batch_size)
            inputs_a, inputs_b = X_tensor_A[rows].to(device), X_tensor_B[rows].to(device)
            (p_a, f_a), (p_b, f_b) = model(inputs_a, inputs_b)
            loss = f_con(f_a, f_b) + p_con(p_a.t(), p_b.t())
            opt.zero_grad()
            loss.backward()
            opt.step()
        losses.append(loss.item())
    return losses

# === voices_that_shall_not_be_told_apart
# thread: https://github.com/usc-sail/gard-adversarial-speaker-id/issues/2
# about: a network tells speakers apart, and a small disturbance of the sound shall not change what it says. Its first layer makes pictures of the sound
# operation: stft on cuda:0, cpu
# operands: window|.*window.*
# category: created-without-device
# line: dataset.py: window=torch.hann_window(hp.win_length),
# repair: dataset.py: window=torch.hann_window(hp.win_length), -> window=torch.hann_window(hp.win_length, device=wav.device),
import torch

from attack import FastGradientSign
from model import SpeakerNet, tones

if __name__ == "__main__":
    torch.manual_seed(2)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = SpeakerNet(num_speakers=3).to(device)
    wavs, speakers = (each.to(device) for each in tones(num_speakers=3, takes=4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    attack = FastGradientSign(model, eps=0.002)
    for _ in range(8):
        loss = attack.loss(wavs, speakers) + attack.loss(attack.generate(wavs, speakers), speakers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = (model(wavs).argmax(dim=1) == speakers).sum().item()
    print(f"loss {loss.item():.3f} right {right} of {len(speakers)}")
# --- hparams.py
from types import SimpleNamespace

hp = SimpleNamespace(sr=800, n_fft=64, win_length=48, hop_length=24, n_mels=10, preemphasis=0.97, epsilon=1e-8)
# --- dataset.py
import torch
from torch import nn

from hparams import hp


def mel_filters(n_fft, n_mels):
    """Triangles over the frequencies, wider the higher."""
    centers = torch.linspace(0.0, 1.0, n_mels + 2) ** 1.5 * (n_fft // 2)
    frequencies = torch.arange(n_fft // 2 + 1).float()
    low, middle, high = (centers[i:i + n_mels, None] for i in range(3))
    up, down = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return torch.minimum(up, down).clamp_min(0.0)


class Preprocessor(nn.Module):
    def __init__(self):
        super().__init__()
        self.mel_basis = nn.Parameter(mel_filters(hp.n_fft, hp.n_mels).t(), requires_grad=False)

    def _convert_to_mel_frequency(self, mag_spec):
        return torch.matmul(mag_spec.transpose(2, 1), self.mel_basis).transpose(2, 1).contiguous()

    def preemphasize(self, wav, coeff):
        return wav[:, 1:] - coeff * wav[:, :-1]

    def forward(self, wav):
        wav = self.preemphasize(wav, hp.preemphasis)
        spec = torch.stft(
            wav,
            n_fft=hp.n_fft,
            hop_length=hp.hop_length,
            win_length=hp.win_length,
            window=torch.hann_window(hp.win_length),
            return_complex=True,
        )
        mel = self._convert_to_mel_frequency(torch.view_as_real(spec).square().sum(-1))
        return 10 * torch.clamp(mel, min=hp.epsilon).log10()
# --- model.py
import torch
from torch import nn

from dataset import Preprocessor
from hparams import hp


def tones(num_speakers, takes, length=400):
    """Speakers hum, each at a height of its own."""
    speakers = torch.arange(num_speakers * takes) % num_speakers
    time = torch.arange(length) / hp.sr
    heights = 60.0 + 70.0 * speakers + 4.0 * torch.randn(len(speakers))
    wavs = torch.sin(6.2832 * heights[:, None] * time) + 0.05 * torch.randn(len(speakers), length)
    return wavs, speakers


class SpeakerNet(nn.Module):
    def __init__(self, num_speakers, width=12):
        super().__init__()
        self.prep = Preprocessor()
        self.norm = nn.InstanceNorm1d(hp.n_mels)
        self.convs = nn.Sequential(nn.Conv1d(hp.n_mels, width, 3), nn.ReLU(), nn.Conv1d(width, width, 3), nn.ReLU())
        self.classifier = nn.Linear(width + hp.n_mels, num_speakers)

    def encode(self, wav):
        mel = self.prep(wav)
        return torch.cat([self.convs(self.norm(mel)).mean(dim=2), mel.mean(dim=2) / 20], dim=1)

    def forward(self, wav):
        return self.classifier(self.encode(wav))
# --- attack.py
import torch
from torch import nn


class FastGradientSign:
    def __init__(self, model, eps):
        self.model, self.eps = model, eps
        self.criterion = nn.CrossEntropyLoss()

    def loss(self, wavs, speakers):
        return self.criterion(self.model(wavs), speakers)

    def generate(self, wavs, speakers):
        wavs = wavs.clone().requires_grad_()
        grad, = torch.autograd.grad(self.loss(wavs, speakers), wavs)
        return (wavs + self.eps * grad.sign()).detach()

# === functions_drawn_after_training
# thread: https://github.com/wesselb/neuralprocesses/issues/26
# about: a model that reads some points and gives a distribution over functions is trained on the card. Afterwards its mean and variance are asked for, and some
#   functions drawn from it
# operation: (b?mm|matmul) on cuda:0, cpu
# operands: mat2|other|noise|.*noise.*|.*randn.*
# category: default-or-current-device|created-without-device
# line: predict.py: state = B.global_random_state(xt.dtype)
# line: lab.py: active_name = "cpu"
# line: main.py: device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
# line: dist.py: state, noise = B.randn(
# line: dist.py: return state, self.mean + torch.matmul(chol, noise).squeeze(-1)
# repair: predict.py: state = B.global_random_state(xt.dtype) -> with B.on_device(xt): state = B.global_random_state(xt.dtype)
import torch

import neuralprocesses as nps

if __name__ == "__main__":
    torch.manual_seed(26)
    txs = torch.linspace(0, 1, 40)
    tys = torch.sin(txs * 6.2832) + 0.05 * torch.randn(40)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    cnp = nps.GNP(width=16).to(device)
    opt = torch.optim.AdamW(cnp.parameters(), lr=1e-2)
    for _ in range(12):
        rows = torch.randperm(40)
        xc, yc, xt, yt = (each.to(device) for each in (txs[rows[:16]], tys[rows[:16]], txs[rows[16:]], tys[rows[16:]]))
        loss = -nps.loglik(cnp, xc, yc, xt, yt)
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        mean, var, noiseless, noisy = nps.predict(cnp, txs[::4].to(device), tys[::4].to(device), txs[1::4].to(device), num_samples=5)
    print(f"mean {mean.mean().item():.3f} var {var.mean().item():.3f}", tuple(noiseless.shape), tuple(noisy.shape))
# --- lab.py
"""What the models need of a library of numbers, whichever that is."""

import contextlib

import torch


class ActiveDevice:
    active_name = "cpu"


_states = {}


@contextlib.contextmanager
def on_device(device):
    before = ActiveDevice.active_name
    ActiveDevice.active_name = str(getattr(device, "device", device))
    try:
        yield
    finally:
        ActiveDevice.active_name = before


def set_global_device(device):
    ActiveDevice.active_name = str(device)


def create_random_state(dtype, seed=0):
    return torch.Generator(device=ActiveDevice.active_name).manual_seed(seed)


def global_random_state(dtype):
    name = ActiveDevice.active_name
    if name not in _states:
        _states[name] = create_random_state(dtype)
    return _states[name]


def randn(state, dtype, *shape):
    return state, torch.randn(shape, dtype=dtype, device=state.device, generator=state)
# --- dist.py
import torch

import lab as B


class MultiOutputNormal:
    def __init__(self, mean, noise, root):
        self.mean, self.root = mean, root
        self.cov = torch.diag(noise) + root @ root.t()

    @property
    def noiseless(self):
        return MultiOutputNormal(self.mean, torch.full_like(self.mean, 1e-4), self.root)

    @property
    def var(self):
        return self.cov.diagonal()

    def logpdf(self, y):
        return torch.distributions.MultivariateNormal(self.mean, self.cov).log_prob(y)

    def sample(self, state, num):
        chol = torch.linalg.cholesky(self.cov)
        state, noise = B.randn(state, self.mean.dtype, num, len(self.mean), 1)
        return state, self.mean + torch.matmul(chol, noise).squeeze(-1)
# --- predict.py
import lab as B


def predict(model, xc, yc, xt, *, num_samples=50):
    """Marginal mean, marginal variance, samples without and with the noise of the observations."""
    state = B.global_random_state(xt.dtype)
    pred = model(xc, yc, xt)
    state, ft = pred.noiseless.sample(state, num_samples)
    state, yt = pred.sample(state, num_samples)
    return pred.mean, pred.var, ft, yt


def loglik(model, xc, yc, xt, yt):
    return model(xc, yc, xt).logpdf(yt) / len(yt)
# --- neuralprocesses.py
import torch
from torch import nn

from dist import MultiOutputNormal
from predict import loglik, predict  # noqa: F401


class GNP(nn.Module):
    """A Gaussian neural process: what is known is summed up, and every target is told of it."""

    def __init__(self, width, rank=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width))
        self.decoder = nn.Sequential(nn.Linear(width + 1, width), nn.ReLU(), nn.Linear(width, 2 + rank))

    def forward(self, xc, yc, xt):
        code = self.encoder(torch.stack([xc, yc], dim=-1)).mean(dim=0)
        z = self.decoder(torch.cat([xt[:, None], code.expand(len(xt), -1)], dim=-1))
        noise = 1e-2 + nn.functional.softplus(z[:, 1])
        return MultiOutputNormal(z[:, 0], noise, z[:, 2:] / z.shape[1])

# === a_chat_about_a_picture_on_the_second_card
# thread: https://github.com/Vision-CAIR/MiniGPT-4/issues/44
# about: a picture is turned into words of a language model that was loaded in eight bits. The demo is told to run on the second card
# operation: (embedding|index_select) on cuda:0, cuda:1
# operands: weight|self|index|indices|seg_tokens|.*embed_tokens.*
# category: module-split
# line: mini_gpt4.py: device_map="auto",
# line: mini_gpt4.py: self.llama_model = LlamaForCausalLM8bit.from_pretrained(
# line: conversation.py: seg_tokens = [
# repair: mini_gpt4.py: device_map="auto", -> device_map={"": gpu_id},
import argparse

import demo

parser = argparse.ArgumentParser(description="Demo")
parser.add_argument("--gpu-id", type=int, default=1)
parser.add_argument("--vit-width", type=int, default=12)

if __name__ == "__main__":
    tokens, scores = demo.main(vars(parser.parse_args()))
    print("answer", tokens, [f"{score:.3f}" for score in scores])
# --- modeling_llama.py
import torch
from torch import nn


class LlamaModel(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU()) for _ in range(2))

    def forward(self, inputs_embeds):
        hidden = inputs_embeds
        for layer in self.layers:
            hidden = hidden + layer(hidden.cumsum(dim=1))
        return hidden


class LlamaForCausalLM8bit(nn.Module):
    """Weights are rounded when they are loaded, and from then on stay where they are."""

    def __init__(self, vocab=20, width=16):
        super().__init__()
        self.model = LlamaModel(vocab, width)
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.is_loaded = False

    @classmethod
    def from_pretrained(cls, name, device_map):
        model = cls()
        for parameter in (each for each in model.parameters() if each.dim() > 1):
            scale = parameter.data.abs().max() / 127
            parameter.data = (parameter.data / scale).round() * scale
        index = 0 if device_map == "auto" else device_map[""]
        model.to(torch.device("cuda", index) if torch.cuda.is_available() else "cpu")
        model.is_loaded = True
        return model.requires_grad_(False)

    def _apply(self, fn, recurse=True):
        return self if self.is_loaded else super()._apply(fn, recurse)

    def generate(self, inputs_embeds, max_new_tokens):
        tokens, scores = [], []
        for _ in range(max_new_tokens):
            logits = self.lm_head(self.model(inputs_embeds))[:, -1].log_softmax(dim=-1)
            score, token = logits.max(dim=-1)
            tokens.append(token.item())
            scores.append(score.item())
            inputs_embeds = torch.cat([inputs_embeds, self.model.embed_tokens(token[None])], dim=1)
        return tokens, scores
# --- mini_gpt4.py
import torch
from torch import nn

from modeling_llama import LlamaForCausalLM8bit


class MiniGPT4(nn.Module):
    def __init__(self, vit_width, gpu_id):
        super().__init__()
        self.gpu_id = gpu_id
        self.visual_encoder = nn.Sequential(nn.Conv2d(3, vit_width, 4, stride=4), nn.Flatten(2))
        self.ln_vision = nn.LayerNorm(vit_width)
        self.llama_model = LlamaForCausalLM8bit.from_pretrained(
            "vicuna-tiny",
            device_map="auto",
        )
        self.llama_proj = nn.Linear(vit_width, self.llama_model.lm_head.in_features)

    @classmethod
    def from_config(cls, cfg):
        return cls(vit_width=cfg["vit_width"], gpu_id=cfg["gpu_id"])

    @torch.no_grad()
    def encode_img(self, image):
        image_embeds = self.ln_vision(self.visual_encoder(image).transpose(1, 2))
        return self.llama_proj(image_embeds)
# --- conversation.py
import torch

IMAGE = "<ImageHere>"


def tokenize(text):
    return torch.tensor([[1 + sum(map(ord, word)) % 19 for word in text.split()]])


class Chat:
    def __init__(self, model, device="cuda:0"):
        self.device = device
        self.model = model
        self.img_list, self.prompt = [], "Human:"

    def upload_img(self, image):
        self.img_list.append(self.model.encode_img(image[None].to(self.device)))
        self.prompt += f" Img {IMAGE} Img"

    def ask(self, text):
        self.prompt += f" {text} Assistant:"

    def get_context_emb(self):
        prompt_segs = self.prompt.split(IMAGE)
        seg_tokens = [tokenize(seg).to(self.device) for seg in prompt_segs]
        seg_embs = [self.model.llama_model.model.embed_tokens(seg_t) for seg_t in seg_tokens]
        mixed_embs = [emb for pair in zip(seg_embs[:-1], self.img_list) for emb in pair] + [seg_embs[-1]]
        return torch.cat(mixed_embs, dim=1)

    @torch.no_grad()
    def answer(self, max_new_tokens=5):
        return self.model.llama_model.generate(self.get_context_emb(), max_new_tokens)
# --- demo.py
import torch

from conversation import Chat
from mini_gpt4 import MiniGPT4


def main(cfg):
    torch.manual_seed(42)
    model = MiniGPT4.from_config(cfg).to(f"cuda:{cfg['gpu_id']}").eval()
    chat = Chat(model, device=f"cuda:{cfg['gpu_id']}")
    chat.upload_img(torch.rand(3, 12, 12, generator=torch.Generator().manual_seed(44)))
    chat.ask("what is to be seen here ?")
    return chat.answer()

# === captions_go_through_a_pipeline
# thread: https://github.com/Nerogar/mgds/pull/51
# about: modules of a pipeline make of captions what is trained with. Each caption is cut into tokens, encoded, and put into a batch with the others
# operation: (embedding|index_select) on cpu, cuda:0
# operands: index|indices|tokens|.*tokens.*
# category: input-not-moved
# line: encode_mistral_text.py: tokens = tokens.unsqueeze(0)
# line: encode_mistral_text.py: tokens_attention_mask = tokens_attention_mask.unsqueeze(0)
# line: encode_mistral_text.py: text_encoder_output = self.text_encoder(tokens,
# line: tokenize_text.py: tokens = tokens.to(self.pipeline.device)
# line: tokenize_text.py: mask = mask.to(self.pipeline.device)
# line: main.py: text_encoder = MistralTextEncoder(
# repair: encode_mistral_text.py: tokens = tokens.unsqueeze(0) -> tokens = tokens.unsqueeze(0).to(self.text_encoder.device)
# repair: encode_mistral_text.py: tokens_attention_mask = tokens_attention_mask.unsqueeze(0) -> tokens_attention_mask =
#   tokens_attention_mask.unsqueeze(0).to(self.text_encoder.device)
import torch

from encode_mistral_text import EncodeMistralText
from mistral import MistralTextEncoder
from pipeline import Captions, Collate, LoadingPipeline
from tokenize_text import Tokenize

if __name__ == "__main__":
    torch.manual_seed(51)
    train_device = torch.device("cuda:0")
    text_encoder = MistralTextEncoder(vocab=32, width=12, layers=3).requires_grad_(False)
    transformer = torch.nn.Linear(24, 3).to(train_device)
    modules = [
        Captions("prompt", ["a red kite", "two boats at dusk", "snow"]),
        Tokenize("prompt", "tokens", "tokens_mask", max_token_length=6),
        EncodeMistralText("tokens", "tokens_mask", "text_encoder_hidden_state", text_encoder, hidden_state_output_index=[1, 3]),
        Collate(["text_encoder_hidden_state", "tokens_mask"]),
    ]
    batch = LoadingPipeline(train_device, modules).batch()
    mask = batch["tokens_mask"][..., None]
    pooled = (batch["text_encoder_hidden_state"] * mask).sum(dim=1) / mask.sum(dim=1)
    print("predicted", [f"{each:.3f}" for each in transformer(pooled).mean(dim=0).tolist()])
# --- mistral.py
from types import SimpleNamespace

import torch
from torch import nn


class MistralTextEncoder(nn.Module):
    def __init__(self, vocab, width, layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    @property
    def device(self):
        return self.embed_tokens.weight.device

    def forward(self, input_ids, attention_mask):
        hidden = self.embed_tokens(input_ids) * attention_mask[..., None]
        hidden_states = [hidden]
        for layer in self.layers:
            hidden = hidden + torch.tanh(layer(hidden.cumsum(dim=1))) * attention_mask[..., None]
            hidden_states.append(hidden)
        return SimpleNamespace(hidden_states=hidden_states)
# --- pipeline.py
import torch


class PipelineModule:
    pipeline = None
    position = 0

    def _get_previous_item(self, name, index):
        return self.pipeline.get_item(name, index, before=self.position)


class LoadingPipeline:
    """A row of modules. Each asks those before it for what it needs."""

    def __init__(self, device, modules):
        self.device, self.modules = device, modules
        for position, module in enumerate(modules):
            module.pipeline, module.position = self, position

    def get_item(self, name, index, before):
        for module in reversed(self.modules[:before]):
            if name in module.get_outputs():
                return module.get_item(index)[name]
        raise KeyError(f"no module makes: {name}")

    def batch(self):
        length = self.modules[0].length()
        items = [self.modules[-1].get_item(index) for index in range(length)]
        return {name: torch.stack([item[name] for item in items]) for name in items[0]}


class Captions(PipelineModule):
    def __init__(self, out_name, texts):
        self.out_name, self.texts = out_name, texts

    def length(self):
        return len(self.texts)

    def get_outputs(self):
        return [self.out_name]

    def get_item(self, index):
        return {self.out_name: self.texts[index]}


class Collate(PipelineModule):
    def __init__(self, names):
        self.names = names

    def get_outputs(self):
        return self.names

    def get_item(self, index):
        return {name: self._get_previous_item(name, index).to(self.pipeline.device) for name in self.names}
# --- tokenize_text.py
import torch

from pipeline import PipelineModule


class Tokenize(PipelineModule):
    def __init__(self, in_name, tokens_out_name, mask_out_name, max_token_length):
        self.in_name, self.tokens_out_name, self.mask_out_name = in_name, tokens_out_name, mask_out_name
        self.max_token_length = max_token_length

    def get_outputs(self):
        return [self.tokens_out_name, self.mask_out_name]

    def get_item(self, index):
        text = self._get_previous_item(self.in_name, index)
        ids = [1] + [2 + sum(map(ord, word)) % 30 for word in text.split()]
        padding = self.max_token_length - len(ids)
        tokens = torch.tensor(ids + [0] * padding)
        mask = torch.tensor([1.0] * len(ids) + [0.0] * padding)
        tokens = tokens.to(self.pipeline.device)
        mask = mask.to(self.pipeline.device)
        return {self.tokens_out_name: tokens, self.mask_out_name: mask}
# --- encode_mistral_text.py
import torch

from pipeline import PipelineModule


class EncodeMistralText(PipelineModule):
    def __init__(self, tokens_name, tokens_attention_mask_name, hidden_state_out_name, text_encoder, hidden_state_output_index):
        self.tokens_name, self.tokens_attention_mask_name = tokens_name, tokens_attention_mask_name
        self.hidden_state_out_name = hidden_state_out_name
        self.text_encoder = text_encoder
        self.hidden_state_indexes = hidden_state_output_index

    def get_outputs(self):
        return [self.hidden_state_out_name]

    def get_item(self, index):
        tokens = self._get_previous_item(self.tokens_name, index)
        tokens = tokens.unsqueeze(0)
        tokens_attention_mask = self._get_previous_item(self.tokens_attention_mask_name, index)
        tokens_attention_mask = tokens_attention_mask.unsqueeze(0)
        text_encoder_output = self.text_encoder(tokens, attention_mask=tokens_attention_mask)
        hidden_state = torch.cat([text_encoder_output.hidden_states[k] for k in self.hidden_state_indexes], dim=-1)
        return {self.hidden_state_out_name: hidden_state.squeeze(dim=0)}
