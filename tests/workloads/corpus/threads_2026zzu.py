# === weights_averaged_by_a_power_of_the_step
# thread: https://github.com/lucidrains/ema-pytorch/pull/31
# about: beside a network that learns a curve, two averages of its weights are kept whose memory grows with the steps. At the end all three are
#   asked for the curve
# operation: lerp_? on cuda:0, cuda:0, cpu
# operands: weight|.*decay.*|.*beta.*|.*step.*
# category: created-without-device|input-not-moved|module-split
# line: ema_pytorch/post_hoc_ema.py: return (1 - 1 / (self.step + 1)) ** (1 + self.gamma)
# line: ema_pytorch/post_hoc_ema.py: current_decay = self.beta
# line: ema_pytorch/post_hoc_ema.py: tgt.lerp_(src, 1.0 - decay)
# line: ema_pytorch/post_hoc_ema.py: self.register_buffer("step", torch.tensor([0]))
# line: ema_pytorch/post_hoc_ema.py: self.ema_models = nn.ModuleList(
# line: train.py: emas = PostHocEMA(
# repair: ema_pytorch/post_hoc_ema.py: return (1 - 1 / (self.step + 1)) ** (1 + self.gamma) -> return (1 - 1 / (self.step.item() + 1)) ** (1 +
#   self.gamma)
from train import train

if __name__ == "__main__":
    online, averaged = train(steps=60, lr=0.05, device="cuda:0")
    print(f"online {online:.4f} averaged", " ".join(f"{loss:.4f}" for loss in averaged))
# --- ema_pytorch/post_hoc_ema.py
from copy import deepcopy

import torch
from torch import nn


def exists(val):
    return val is not None


def sigma_rel_to_gamma(sigma_rel):
    """The larger root of the cubic that Karras et al. solve, found by halving."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        if (middle + 1) ** 0.5 / (middle + 2) / (middle + 3) ** 0.5 > sigma_rel:
            low = middle
        else:
            high = middle
    return (low + high) / 2


class KarrasEMA(nn.Module):
    def __init__(self, model, sigma_rel=None, gamma=None, update_every=10, frozen=False):
        super().__init__()
        assert exists(sigma_rel) ^ exists(gamma), "either sigma_rel or gamma is given"
        self.gamma = sigma_rel_to_gamma(sigma_rel) if exists(sigma_rel) else gamma
        self.frozen = frozen
        self.update_every = update_every
        self.online_model = [model]
        self.ema_model = deepcopy(model).requires_grad_(False)
        self.register_buffer("initted", torch.tensor(False))
        self.register_buffer("step", torch.tensor([0]))

    @property
    def model(self):
        return self.online_model[0]

    @property
    def beta(self):
        return (1 - 1 / (self.step + 1)) ** (1 + self.gamma)

    def copy_params_from_model_to_ema(self):
        for ma_params, current_params in zip(self.ema_model.parameters(), self.model.parameters()):
            ma_params.data.copy_(current_params.data)

    def update(self):
        step = self.step.item()
        self.step += 1
        if step % self.update_every != 0:
            return
        if not self.initted.item():
            self.copy_params_from_model_to_ema()
            self.initted.data.copy_(torch.tensor(True))
        self.update_moving_average(self.ema_model, self.model)

    @torch.no_grad()
    def update_moving_average(self, ma_model, current_model):
        if self.frozen:
            return
        current_decay = self.beta
        for (_, current_params), (_, ma_params) in zip(current_model.named_parameters(), ma_model.named_parameters()):
            self.inplace_lerp(ma_params.data, current_params.data, current_decay)

    @staticmethod
    def inplace_lerp(tgt, src, decay):
        tgt.lerp_(src, 1.0 - decay)

    def forward(self, *args, **kwargs):
        return self.ema_model(*args, **kwargs)


class PostHocEMA(nn.Module):
    def __init__(self, model, sigma_rels=(0.05, 0.28), update_every=10):
        super().__init__()
        self.ema_models = nn.ModuleList([KarrasEMA(model, sigma_rel=each, update_every=update_every) for each in sigma_rels])

    def update(self):
        for ema_model in self.ema_models:
            ema_model.update()
# --- train.py
import torch
from torch import nn

from ema_pytorch.post_hoc_ema import PostHocEMA


def curve(size, generator):
    x = torch.rand(size, 1, generator=generator) * 4 - 2
    return x, torch.sin(2 * x) + 0.1 * torch.randn(size, 1, generator=generator)


def train(steps, lr, device):
    torch.manual_seed(3)
    generator = torch.Generator().manual_seed(5)
    net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    emas = PostHocEMA(net, sigma_rels=(0.05, 0.2), update_every=2)
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    for _ in range(steps):
        x, y = (each.to(device) for each in curve(32, generator))
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        emas.update()
    x, y = (each.to(device) for each in curve(128, generator))
    with torch.no_grad():
        losses = [nn.functional.mse_loss(ema(x), y).item() for ema in emas.ema_models]
        return nn.functional.mse_loss(net(x), y).item(), losses

# === pictures_out_of_noise_step_by_step
# thread: https://github.com/explainingai-code/DDPM-Pytorch/issues/5
# about: small pictures are covered with noise of a drawn strength, a network learns to tell the noise, and in the end a picture is made out of
#   noise alone
# operation: index on cpu, cuda:0
# operands: self|.*sqrt_alpha_cum_prod.*, indices|t|.*timesteps.*
# error: indices should be
# category: created-without-device|state-not-registered
# line: scheduler/linear_noise_scheduler.py: sqrt_alpha_cum_prod = self.sqrt_alpha_cum_prod[t]
# line: scheduler/linear_noise_scheduler.py: sqrt_one_minus_alpha_cum_prod = self.sqrt_one_minus_alpha_cum_prod[t]
# line: scheduler/linear_noise_scheduler.py: self.betas = torch.linspace(
# line: scheduler/linear_noise_scheduler.py: self.sqrt_alpha_cum_prod = torch.sqrt(
# line: scheduler/linear_noise_scheduler.py: self.sqrt_one_minus_alpha_cum_prod = torch.sqrt(
# line: scheduler/linear_noise_scheduler.py: self.alpha_cum_prod = torch.cumprod(
# line: tools/train_ddpm.py: scheduler = LinearNoiseScheduler(
# repair: scheduler/linear_noise_scheduler.py: sqrt_alpha_cum_prod = self.sqrt_alpha_cum_prod[t].reshape(batch_size) ->
#   sqrt_alpha_cum_prod = self.sqrt_alpha_cum_prod.to(original.device)[t].reshape(batch_size)
# repair: scheduler/linear_noise_scheduler.py: sqrt_one_minus_alpha_cum_prod = self.sqrt_one_minus_alpha_cum_prod[t].reshape(batch_size) ->
#   sqrt_one_minus_alpha_cum_prod = self.sqrt_one_minus_alpha_cum_prod.to(original.device)[t].reshape(batch_size)
from tools.train_ddpm import sample, train

config = {
    "diffusion_params": {"num_timesteps": 20, "beta_start": 0.01, "beta_end": 0.3},
    "model_params": {"im_channels": 1, "width": 8, "time_emb_dim": 8},
    "train_params": {"batch_size": 16, "num_epochs": 3, "lr": 0.01},
}

if __name__ == "__main__":
    model, scheduler, losses = train(config)
    image = sample(model, scheduler, config)
    print("losses", [f"{loss:.3f}" for loss in losses], f"sample mean {image.mean().item():.3f} std {image.std().item():.3f}")
# --- scheduler/linear_noise_scheduler.py
import torch


class LinearNoiseScheduler:
    def __init__(self, num_timesteps, beta_start, beta_end):
        self.num_timesteps = num_timesteps
        self.betas = torch.linspace(beta_start, beta_end, num_timesteps)
        self.alphas = 1.0 - self.betas
        self.alpha_cum_prod = torch.cumprod(self.alphas, dim=0)
        self.sqrt_alpha_cum_prod = torch.sqrt(self.alpha_cum_prod)
        self.sqrt_one_minus_alpha_cum_prod = torch.sqrt(1 - self.alpha_cum_prod)

    def add_noise(self, original, noise, t):
        """Forward process: the picture at step t, all at once."""
        original_shape = original.shape
        batch_size = original_shape[0]

        sqrt_alpha_cum_prod = self.sqrt_alpha_cum_prod[t].reshape(batch_size)
        sqrt_one_minus_alpha_cum_prod = self.sqrt_one_minus_alpha_cum_prod[t].reshape(batch_size)
        for _ in range(len(original_shape) - 1):
            sqrt_alpha_cum_prod = sqrt_alpha_cum_prod.unsqueeze(-1)
            sqrt_one_minus_alpha_cum_prod = sqrt_one_minus_alpha_cum_prod.unsqueeze(-1)
        return sqrt_alpha_cum_prod * original + sqrt_one_minus_alpha_cum_prod * noise

    def sample_prev_timestep(self, xt, noise_pred, t):
        """Backward process: one step towards the picture."""
        betas, alphas = self.betas.to(xt.device), self.alphas.to(xt.device)
        spread = self.sqrt_one_minus_alpha_cum_prod.to(xt.device)
        mean = (xt - betas[t] * noise_pred / spread[t]) / torch.sqrt(alphas[t])
        if t == 0:
            return mean
        variance = betas[t] * (spread[t - 1] / spread[t]) ** 2
        return mean + variance.sqrt() * torch.randn(xt.shape).to(xt.device)
# --- models/unet_base.py
import torch
from torch import nn


def get_time_embedding(time_steps, temb_dim):
    factor = 10000 ** (torch.arange(temb_dim // 2, device=time_steps.device) / (temb_dim // 2))
    t_emb = time_steps[:, None] / factor
    return torch.cat([torch.sin(t_emb), torch.cos(t_emb)], dim=-1)


class Unet(nn.Module):
    def __init__(self, im_channels, width, time_emb_dim):
        super().__init__()
        self.t_emb_dim = time_emb_dim
        self.t_proj = nn.Sequential(nn.Linear(time_emb_dim, width), nn.SiLU(), nn.Linear(width, width))
        self.conv_in = nn.Conv2d(im_channels, width, 3, padding=1)
        self.down = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(width, width, 4, stride=2, padding=1)
        self.conv_out = nn.Conv2d(2 * width, im_channels, 3, padding=1)

    def forward(self, x, t):
        t_emb = self.t_proj(get_time_embedding(t, self.t_emb_dim))
        skip = nn.functional.silu(self.conv_in(x) + t_emb[:, :, None, None])
        out = nn.functional.silu(self.down(skip) + t_emb[:, :, None, None])
        return self.conv_out(torch.cat([nn.functional.silu(self.up(out)), skip], dim=1))
# --- tools/train_ddpm.py
import numpy as np
import torch
from torch.utils.data import DataLoader

from models.unet_base import Unet
from scheduler.linear_noise_scheduler import LinearNoiseScheduler

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def squares(size=64, side=8):
    rng = np.random.default_rng(1)
    images = np.full((size, 1, side, side), -1.0, dtype=np.float32)
    for image, (row, column) in zip(images, rng.integers(0, side - 3, (size, 2))):
        image[0, row:row + 4, column:column + 4] = 1.0
    return images


def train(config):
    torch.manual_seed(4)
    diffusion, params = config["diffusion_params"], config["train_params"]
    scheduler = LinearNoiseScheduler(num_timesteps=diffusion["num_timesteps"], beta_start=diffusion["beta_start"], beta_end=diffusion["beta_end"])
    loader = DataLoader(squares(), batch_size=params["batch_size"], shuffle=True)
    model = Unet(**config["model_params"]).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
    losses = []
    for _ in range(params["num_epochs"]):
        for im in loader:
            im = im.float().to(device)
            noise = torch.randn(im.shape).to(device)
            t = torch.randint(0, diffusion["num_timesteps"], (im.shape[0],)).to(device)
            noise_pred = model(scheduler.add_noise(im, noise, t), t)
            loss = torch.nn.functional.mse_loss(noise_pred, noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return model, scheduler, losses


@torch.no_grad()
def sample(model, scheduler, config):
    xt = torch.randn((1, config["model_params"]["im_channels"], 8, 8)).to(device)
    for i in reversed(range(scheduler.num_timesteps)):
        noise_pred = model(xt, torch.as_tensor(i).unsqueeze(0).to(device))
        xt = scheduler.sample_prev_timestep(xt, noise_pred, i)
    return xt

# === numbers_put_in_order_by_pointing
# thread: https://github.com/ast0414/pointer-networks-pytorch/pull/5
# about: a network reads lists of numbers, some longer than others, and points at them from the smallest to the largest
# operation: _pack_padded_sequence on cuda:0, cuda:0
# operands: lengths|.*length.*
# error: lengths.*CPU
# category: input|input-not-moved|
# line: pointer_network.py: packed = nn.utils.rnn.pack_padded_sequence(
# line: train.py: seq, length, target = seq.to(device), length.to(device), target.to(device)
# line: pointer_network.py: encoder_outputs, encoder_hidden = self.encoder(embedded, input_lengths)
# line: train.py: log_pointer_score, argmax_pointer, mask = model(seq, length)
# repair: pointer_network.py: packed = nn.utils.rnn.pack_padded_sequence(embedded_inputs, input_lengths, batch_first=self.batch_first) ->
#   packed = nn.utils.rnn.pack_padded_sequence(embedded_inputs, input_lengths.cpu(), batch_first=self.batch_first)
import argparse

from train import run

parser = argparse.ArgumentParser(description="PtrNet-Sorting-Integer")
parser.add_argument("--low", type=int, default=0)
parser.add_argument("--high", type=int, default=20)
parser.add_argument("--max-len", type=int, default=6)
parser.add_argument("--emb-dim", type=int, default=8)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--train-samples", type=int, default=256)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.03)
parser.add_argument("--seed", type=int, default=123)

if __name__ == "__main__":
    losses, accuracy = run(parser.parse_args([]))
    print("losses", [f"{loss:.3f}" for loss in losses], f"accuracy {accuracy:.3f}")
# --- dataset.py
import numpy as np
import torch
from torch.utils.data import Dataset


class IntegerSortDataset(Dataset):
    def __init__(self, num_samples, low, high, max_len, seed):
        self.prng = np.random.RandomState(seed)
        lengths = self.prng.randint(2, max_len + 1, num_samples)
        self.seqs = [self.prng.choice(np.arange(low, high), length, replace=False) for length in lengths]
        self.labels = [np.argsort(seq) for seq in self.seqs]
        self.low, self.high = low, high

    def __len__(self):
        return len(self.seqs)

    def __getitem__(self, index):
        seq = (self.seqs[index] - self.low) / (self.high - self.low)
        return torch.tensor(seq, dtype=torch.float)[:, None], len(seq), torch.tensor(self.labels[index])


def sparse_seq_collate_fn(batch):
    """The longest list comes first; what is shorter is filled up with zeros."""
    seqs, lengths, labels = zip(*sorted(batch, key=lambda each: -each[1]))
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(seqs, batch_first=True), torch.tensor(lengths), pad(labels, batch_first=True)
# --- pointer_network.py
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, embedding_dim, hidden_size, batch_first=True):
        super().__init__()
        self.batch_first = batch_first
        self.rnn = nn.LSTM(embedding_dim, hidden_size, batch_first=batch_first)

    def forward(self, embedded_inputs, input_lengths):
        packed = nn.utils.rnn.pack_padded_sequence(embedded_inputs, input_lengths, batch_first=self.batch_first)
        outputs, hidden = self.rnn(packed)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=self.batch_first)
        return outputs, hidden


class Attention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.W1 = nn.Linear(hidden_size, hidden_size, bias=False)
        self.W2 = nn.Linear(hidden_size, hidden_size, bias=False)
        self.vt = nn.Linear(hidden_size, 1, bias=False)

    def forward(self, decoder_state, encoder_outputs, mask):
        u = self.vt(torch.tanh(self.W1(encoder_outputs) + self.W2(decoder_state)[:, None])).squeeze(-1)
        return u.masked_fill(~mask, -1e9).log_softmax(dim=-1)


class PointerNet(nn.Module):
    def __init__(self, input_dim, embedding_dim, hidden_size):
        super().__init__()
        self.embedding = nn.Linear(input_dim, embedding_dim)
        self.encoder = Encoder(embedding_dim, hidden_size)
        self.decoding_rnn = nn.LSTMCell(hidden_size, hidden_size)
        self.attn = Attention(hidden_size)

    def forward(self, input_seq, input_lengths):
        embedded = self.embedding(input_seq)
        encoder_outputs, encoder_hidden = self.encoder(embedded, input_lengths)
        positions = torch.arange(encoder_outputs.size(1), device=input_seq.device)
        mask = positions[None] < input_lengths[:, None]
        decoder_hidden = encoder_hidden[0][-1], encoder_hidden[1][-1]
        decoder_input = torch.zeros_like(decoder_hidden[0])
        scores, pointers = [], []
        for _ in range(encoder_outputs.size(1)):
            decoder_hidden = self.decoding_rnn(decoder_input, decoder_hidden)
            scores.append(self.attn(decoder_hidden[0], encoder_outputs, mask))
            pointers.append(scores[-1].argmax(dim=-1))
            decoder_input = encoder_outputs[torch.arange(len(mask), device=mask.device), pointers[-1]]
        return torch.stack(scores, 1), torch.stack(pointers, 1), mask
# --- train.py
import torch
from torch.utils.data import DataLoader

from dataset import IntegerSortDataset, sparse_seq_collate_fn
from pointer_network import PointerNet


def run(args):
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = IntegerSortDataset(args.train_samples, args.low, args.high, args.max_len, args.seed)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, collate_fn=sparse_seq_collate_fn)
    model = PointerNet(input_dim=1, embedding_dim=args.emb_dim, hidden_size=2 * args.emb_dim).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    losses = []
    for _ in range(args.epochs):
        right = count = 0
        for seq, length, target in loader:
            seq, length, target = seq.to(device), length.to(device), target.to(device)
            log_pointer_score, argmax_pointer, mask = model(seq, length)
            loss = torch.nn.functional.nll_loss(log_pointer_score[mask], target[mask])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += ((argmax_pointer == target) & mask).sum().item()
            count += mask.sum().item()
        losses.append(loss.item())
    return losses, right / count

# === which_of_three_grids_a_target_falls_to
# thread: https://github.com/iscyy/ultralyticsPro/issues/159
# about: a detector looks at a picture with grids of several widths. Which cells have to answer for an object is found by what they say of it so far
# operation: index on cpu, cuda:0
# operands: self|.*from_which_layer.*, indices|.*fg_mask.*
# error: indices should be
# category: created-without-device
# line: utils/loss.py: from_which_layer.append(torch.ones(size=(len(cells),)) * i)
# line: utils/loss.py: from_which_layer = torch.cat(from_which_layer, dim=0)
# line: utils/loss.py: from_which_layer = from_which_layer[fg_mask_inboxes]
# repair: utils/loss.py: from_which_layer.append(torch.ones(size=(len(cells),)) * i) ->
#   from_which_layer.append((torch.ones(size=(len(cells),)) * i).to("cuda"))
import torch

from models.yolo import Model
from train import train
from utils.datasets import load_batch

if __name__ == "__main__":
    torch.manual_seed(8)
    model = Model(ch=1, width=8, nl=3).to("cuda")
    losses, share = train(model, steps=12, batch_size=4, lr=0.02)
    with torch.no_grad():
        images, _ = load_batch(99, 4)
        best = [p[..., 2].sigmoid().max().item() for p in model(images.to("cuda"))]
    print(f"loss {losses[0]:.4f} {losses[-1]:.4f} layers {share}", [f"{each:.3f}" for each in best])
# --- models/yolo.py
from torch import nn


class Conv(nn.Module):
    def __init__(self, c1, c2, s=1):
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, 3, s, padding=1)
        self.act = nn.SiLU()

    def forward(self, x):
        return self.act(self.conv(x))


class Model(nn.Module):
    """Every level says of every cell where an object's middle is, and whether there is one."""

    def __init__(self, ch, width, nl):
        super().__init__()
        self.nl = nl
        self.stem = Conv(ch, width)
        self.stages = nn.ModuleList(Conv(width, width, s=2) for _ in range(nl))
        self.detect = nn.ModuleList(nn.Conv2d(width, 3, 1) for _ in range(nl))
        self.stride = [2 ** (i + 1) for i in range(nl)]

    def forward(self, x):
        x, out = self.stem(x), []
        for stage, detect in zip(self.stages, self.detect):
            x = stage(x)
            out.append(detect(x).permute(0, 2, 3, 1))
        return out
# --- utils/datasets.py
import numpy as np
import torch


def load_batch(seed, batch_size, side=16):
    rng = np.random.default_rng(seed)
    images = rng.normal(0, 0.1, (batch_size, 1, side, side)).astype(np.float32)
    targets = []
    for b in range(batch_size):
        for row, column in rng.integers(2, side - 2, (2, 2)):
            images[b, 0, row - 1:row + 2, column - 1:column + 2] += 1.0
            targets.append((b, column + 0.5, row + 0.5))
    return torch.from_numpy(images), torch.tensor(targets, dtype=torch.float32)
# --- utils/loss.py
import torch
from torch import nn


class ComputeLossOTA:
    def __init__(self, model, topk=3):
        self.nl, self.stride, self.topk = model.nl, model.stride, topk
        self.BCEobj = nn.BCEWithLogitsLoss()
        self.last_layers = []

    def __call__(self, p, targets):
        matches = self.build_targets(p, targets)
        lbox, lobj = torch.zeros(1, device=targets.device), torch.zeros(1, device=targets.device)
        for i, pi in enumerate(p):
            tobj = torch.zeros_like(pi[..., 2])
            b, gj, gi, txy = matches[i]
            if len(b):
                tobj[b, gj, gi] = 1.0
                pxy = pi[b, gj, gi][:, :2].sigmoid() * 2 - 0.5
                lbox = lbox + nn.functional.smooth_l1_loss(pxy, txy)
            lobj = lobj + self.BCEobj(pi[..., 2], tobj)
        return lbox + lobj

    @torch.no_grad()
    def build_targets(self, p, targets):
        found = [[] for _ in range(self.nl)]
        self.last_layers = [0] * self.nl
        for target in targets:
            b = int(target[0])
            all_cells, costs, from_which_layer = [], [], []
            for i, pi in enumerate(p):
                txy = target[1:] / self.stride[i]
                cells = self.candidates(txy, pi.shape[1])
                pred = pi[b, cells[:, 1], cells[:, 0]]
                distance = ((pred[:, :2].sigmoid() * 2 - 0.5 + cells) - txy).abs().sum(1) * self.stride[i]
                costs.append(distance - pred[:, 2].sigmoid())
                all_cells.append(torch.cat([cells, (txy - cells)], dim=1))
                from_which_layer.append(torch.ones(size=(len(cells),)) * i)
            from_which_layer = torch.cat(from_which_layer, dim=0)
            cost, all_cells = torch.cat(costs), torch.cat(all_cells)
            fg_mask_inboxes = self.dynamic_k(cost)
            from_which_layer = from_which_layer[fg_mask_inboxes]
            chosen = all_cells[fg_mask_inboxes]
            for i in range(self.nl):
                layer = chosen[from_which_layer == i]
                self.last_layers[i] += len(layer)
                found[i].append(torch.cat([torch.full_like(layer[:, :1], b), layer], dim=1))
        matches = [torch.cat(each) for each in found]
        return [(m[:, 0].long(), m[:, 2].long(), m[:, 1].long(), m[:, 3:]) for m in matches]

    def candidates(self, txy, side):
        offsets = torch.tensor([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1]], device=txy.device)
        cells = txy.long() + offsets
        return cells[((cells >= 0) & (cells < side)).all(dim=1)]

    def dynamic_k(self, cost):
        mask = torch.zeros_like(cost, dtype=torch.bool)
        mask[cost.topk(self.topk, largest=False).indices] = True
        return mask
# --- train.py
import torch

from utils.datasets import load_batch
from utils.loss import ComputeLossOTA


def train(model, steps, batch_size, lr):
    device = next(model.parameters()).device
    compute_loss = ComputeLossOTA(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for ni in range(steps):
        imgs, targets = load_batch(ni, batch_size)
        imgs = imgs.to(device, non_blocking=True)
        loss = compute_loss(model(imgs), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, compute_loss.last_layers

# === energies_above_those_of_lone_atoms
# thread: https://github.com/materialyzeai/matgl/pull/158
# about: a potential is fitted to energies of small molecules. What the atoms alone have of it is fitted before by least squares, and added to what
#   the network says
# operation: mul on cpu, cuda:0
# operands: self|.*property_offset.*
# category: state-not-registered
# line: matgl/layers/_atom_ref.py: self.property_offset = torch.tensor(property_offset)
# line: matgl/layers/_atom_ref.py: offset = self.property_offset * self.onehot[atomic_numbers]
# line: matgl/layers/_atom_ref.py: self.property_offset = torch.linalg.lstsq(
# repair: matgl/layers/_atom_ref.py: self.property_offset = torch.tensor(property_offset) ->
#   self.register_buffer("property_offset", torch.tensor(property_offset))
import torch

from matgl.apps.pes import Potential
from matgl.models._pairnet import PairNet
from matgl.utils.training import PotentialTrainer, molecules

if __name__ == "__main__":
    torch.manual_seed(6)
    dataset = molecules(24, seed=2)
    potential = Potential(PairNet(max_z=4, dim=8, cutoff=3.0), max_z=4)
    potential.element_refs.fit([each.numbers for each in dataset], torch.stack([each.energy for each in dataset]))
    trainer = PotentialTrainer(potential, device="cuda", lr=0.01)
    history = trainer.fit(dataset, epochs=3)
    energy, forces = trainer.predict(dataset[0])
    print("mae", [f"{each:.4f}" for each in history], f"energy {energy:.4f} force {forces.abs().max().item():.4f}")
# --- matgl/layers/_atom_ref.py
import torch
from torch import nn


class AtomRef(nn.Module):
    """Offsets of a property that belong to the elements."""

    def __init__(self, property_offset, max_z):
        super().__init__()
        self.max_z = max_z
        self.property_offset = torch.tensor(property_offset)
        self.register_buffer("onehot", torch.eye(max_z))

    def get_feature_matrix(self, graphs):
        """How often each element is in each structure."""
        return torch.stack([torch.bincount(numbers, minlength=self.max_z) for numbers in graphs]).float()

    def fit(self, graphs, properties):
        features = self.get_feature_matrix(graphs)
        self.property_offset = torch.linalg.lstsq(features, properties[:, None]).solution[:, 0]

    def forward(self, atomic_numbers):
        offset = self.property_offset * self.onehot[atomic_numbers]
        return offset.sum()
# --- matgl/models/_pairnet.py
import torch
from torch import nn


class PairNet(nn.Module):
    def __init__(self, max_z, dim, cutoff):
        super().__init__()
        self.cutoff = cutoff
        self.embedding = nn.Embedding(max_z, dim)
        self.register_buffer("centers", torch.linspace(0.5, cutoff, dim))
        self.filter = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, numbers, positions):
        source, target = torch.nonzero(~torch.eye(len(numbers), dtype=torch.bool, device=numbers.device), as_tuple=True)
        distance = (positions[source] - positions[target]).norm(dim=1)
        smooth = 0.5 * (torch.cos(torch.pi * distance.clamp(max=self.cutoff) / self.cutoff) + 1)
        weights = self.filter(torch.exp(-4 * (distance[:, None] - self.centers) ** 2)) * smooth[:, None]
        nodes = self.embedding(numbers)
        messages = torch.zeros_like(nodes).index_add(0, target, weights * nodes[source])
        return self.readout(nodes + messages).sum()
# --- matgl/apps/pes.py
import torch
from torch import nn

from matgl.layers._atom_ref import AtomRef


class Potential(nn.Module):
    def __init__(self, model, max_z, data_std=1.0, calc_forces=True):
        super().__init__()
        self.model = model
        self.calc_forces = calc_forces
        self.element_refs = AtomRef([0.0] * max_z, max_z)
        self.register_buffer("data_std", torch.tensor(data_std))

    def forward(self, numbers, positions):
        positions = positions.detach().requires_grad_(self.calc_forces)
        total_energies = self.data_std * self.model(numbers, positions)
        total_energies = total_energies + self.element_refs(numbers)
        if not self.calc_forces:
            return total_energies, None
        grad, = torch.autograd.grad(total_energies, positions, retain_graph=True)
        return total_energies, -grad
# --- matgl/utils/training.py
from dataclasses import dataclass

import torch


@dataclass
class Molecule:
    numbers: torch.Tensor
    positions: torch.Tensor
    energy: torch.Tensor


def molecules(count, seed):
    generator = torch.Generator().manual_seed(seed)
    alone = torch.tensor([-1.0, -3.0, -5.5, -2.0])
    made = []
    for _ in range(count):
        size = int(torch.randint(3, 6, (1,), generator=generator))
        numbers = torch.randint(0, 4, (size,), generator=generator)
        positions = 1.5 * torch.randn(size, 3, generator=generator)
        pairs = torch.pdist(positions)
        made.append(Molecule(numbers, positions, alone[numbers].sum() - torch.exp(-pairs).sum()))
    return made


class PotentialTrainer:
    def __init__(self, potential, device, lr):
        self.potential = potential.to(device)
        self.device = device
        self.optimizer = torch.optim.Adam(potential.model.parameters(), lr=lr)

    def predict(self, molecule):
        return self.potential(molecule.numbers.to(self.device), molecule.positions.to(self.device))

    def fit(self, dataset, epochs):
        history = []
        for _ in range(epochs):
            errors = []
            for molecule in dataset:
                energy, _ = self.predict(molecule)
                loss = (energy - molecule.energy.to(self.device)).abs()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                errors.append(loss.item())
            history.append(sum(errors) / len(errors))
        return history

# === a_simulation_that_goes_on_where_it_stopped
# thread: https://github.com/atomistic-machine-learning/schnetpack/pull/266
# about: atoms move under the forces of a small network. Halfway all that is needed to go on is written to a file, and another run reads it and
#   goes on
# operation: div on cpu, cuda:0
# operands: self|.*momenta.*
# category: checkpoint
# line: schnetpack/md/system.py: self.momenta = state_dict["momenta"]
# line: schnetpack/md/system.py: self.positions = state_dict["positions"]
# line: schnetpack/md/system.py: self.forces = state_dict["forces"]
# line: schnetpack/md/simulator.py: state_dict = torch.load(path, map_location="cpu")
# line: schnetpack/md/simulator.py: self.system.load_system_state(state_dict["system"])
# repair: schnetpack/md/system.py: self.positions = state_dict["positions"] -> self.positions = state_dict["positions"].to(self.device)
# repair: schnetpack/md/system.py: self.momenta = state_dict["momenta"] -> self.momenta = state_dict["momenta"].to(self.device)
# repair: schnetpack/md/system.py: self.forces = state_dict["forces"] -> self.forces = state_dict["forces"].to(self.device)
import os
import tempfile

import torch

from schnetpack.md.calculator import PairModel, SchnetPackCalculator
from schnetpack.md.integrator import VelocityVerlet
from schnetpack.md.simulator import Simulator
from schnetpack.md.system import System


def set_up(device):
    torch.manual_seed(11)
    model = PairModel(width=8).to(device)
    system = System(n_replicas=2, device=device)
    system.load_molecule(masses=[12.0, 1.0, 1.0, 16.0], spread=1.2)
    return Simulator(system, VelocityVerlet(time_step=0.05), SchnetPackCalculator(model))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = os.path.join(folder, "simulation.chk")
        first = set_up("cuda:0")
        first.simulate(10)
        first.save_checkpoint(checkpoint)
        second = set_up("cuda:0")
        second.restart_simulation(checkpoint)
        second.simulate(10)
    system = second.system
    print(f"step {second.step} kinetic {system.kinetic_energy.mean().item():.5f} spread {system.positions.std().item():.5f}")
# --- schnetpack/md/system.py
import torch


class System:
    """Positions, momenta and forces of all replicas of a molecule."""

    def __init__(self, n_replicas, device="cuda"):
        self.n_replicas = n_replicas
        self.device = device
        self.masses = None
        self.positions = None
        self.momenta = None
        self.forces = None

    def load_molecule(self, masses, spread):
        shape = self.n_replicas, len(masses), 3
        self.masses = torch.tensor(masses, device=self.device)[None, :, None]
        self.positions = (spread * torch.randn(shape)).to(self.device)
        self.momenta = torch.zeros(shape, device=self.device)
        self.forces = torch.zeros(shape, device=self.device)

    @property
    def velocities(self):
        return self.momenta / self.masses

    @property
    def kinetic_energy(self):
        return 0.5 * (self.masses * self.velocities**2).sum(dim=(1, 2))

    @property
    def state_dict(self):
        return {"positions": self.positions, "momenta": self.momenta, "forces": self.forces}

    def load_system_state(self, state_dict):
        self.positions = state_dict["positions"]
        self.momenta = state_dict["momenta"]
        self.forces = state_dict["forces"]
        self.n_replicas = len(self.positions)
# --- schnetpack/md/integrator.py
class VelocityVerlet:
    def __init__(self, time_step):
        self.time_step = time_step

    def half_step(self, system):
        system.momenta = system.momenta + 0.5 * system.forces * self.time_step

    def main_step(self, system):
        system.positions = system.positions + self.time_step * system.velocities
# --- schnetpack/md/calculator.py
import torch
from torch import nn


class PairModel(nn.Module):
    """A learned energy of distances, with a wall that keeps atoms apart."""

    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, positions):
        rows, columns = torch.triu_indices(positions.shape[1], positions.shape[1], offset=1).tolist()
        distances = (positions[:, rows] - positions[:, columns]).norm(dim=-1, keepdim=True)
        return (self.net(distances) + 0.1 / distances + 0.05 * distances**2).sum()


class SchnetPackCalculator:
    def __init__(self, model):
        self.model = model

    def calculate(self, system):
        positions = system.positions.detach().requires_grad_()
        grad, = torch.autograd.grad(self.model(positions), positions)
        system.forces = -grad
# --- schnetpack/md/simulator.py
import torch


class Simulator:
    def __init__(self, system, integrator, calculator):
        self.system = system
        self.integrator = integrator
        self.calculator = calculator
        self.step = 0

    def simulate(self, n_steps):
        if self.step == 0:
            self.calculator.calculate(self.system)
        for _ in range(n_steps):
            self.integrator.half_step(self.system)
            self.integrator.main_step(self.system)
            self.calculator.calculate(self.system)
            self.integrator.half_step(self.system)
            self.step += 1

    def save_checkpoint(self, path):
        torch.save({"step": self.step, "system": self.system.state_dict}, path)

    def restart_simulation(self, path):
        state_dict = torch.load(path, map_location="cpu")
        self.step = state_dict["step"]
        self.system.load_system_state(state_dict["system"])
