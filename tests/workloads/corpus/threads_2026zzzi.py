# === residues_of_a_protein_beside_its_relatives
# thread: https://github.com/Profluent-AI/E1/issues/5
# about: a protein is read after some of its relatives, in one row of tokens. Of the last one its residues are embedded, without what marks begin and end
# operation: isin|isin_Tensor_Tensor on cuda:1, cuda:0
# operands: test_elements|.*boundary_token_ids.*
# category: default-or-current-device|cached-state
# line: E1/batch_preparer.py: return torch.isin(tokens, self.boundary_token_ids)
# line: E1/batch_preparer.py: device = torch.cuda.current_device() if torch.cuda.is_available()
# line: E1/batch_preparer.py: self.boundary_token_ids = torch.tensor(ids, device=device)
# repair: E1/batch_preparer.py: return torch.isin(tokens, self.boundary_token_ids) ->
#   return torch.isin(tokens, self.boundary_token_ids.to(tokens.device))
import torch

from E1.batch_preparer import E1BatchPreparer
from E1.modeling import E1ForMaskedLM

SEQUENCES = ["MKTAYIAK,MKTAFIAR,MRTAYLAK", "GSHMLEDP,GSHMIEDP", "ACDEFGHIK"]

if __name__ == "__main__":
    torch.manual_seed(19)
    device = torch.device("cuda:1")
    model = E1ForMaskedLM(vocab_size=32, hidden_size=16).to(device).eval()

    batch_preparer = E1BatchPreparer()
    batch = batch_preparer.get_batch_kwargs(SEQUENCES, device=device)
    with torch.no_grad():
        logits, embeddings = model(batch["input_ids"], batch["within_seq_position_ids"], batch["sequence_ids"])

    last_sequence_selector = batch["sequence_ids"] == batch["sequence_ids"].max(dim=1)[0][:, None]
    residue_selector = ~batch_preparer.get_boundary_token_mask(batch["input_ids"])
    last_sequence_residue_selector = last_sequence_selector & residue_selector
    for sequence, embedding, selector in zip(SEQUENCES, embeddings, last_sequence_residue_selector):
        print(sequence.split(",")[-1], int(selector.sum()), f"{embedding[selector].mean(dim=0).abs().sum().item():.3f}")
    probabilities = logits[last_sequence_residue_selector].softmax(dim=-1)
    print(f"mean entropy {-(probabilities * probabilities.log()).sum(dim=-1).mean().item():.3f}")
# --- E1/tokenizer.py
class Tokenizer:
    def __init__(self):
        tokens = ["<pad>", "<bos>", "<eos>", "1", "2", "?", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
        self.vocab = {token: i for i, token in enumerate(tokens)}

    def token_to_id(self, token):
        return self.vocab[token]


def get_tokenizer():
    return Tokenizer()
# --- E1/batch_preparer.py
import torch
from torch.nn.utils.rnn import pad_sequence

from .tokenizer import get_tokenizer

BOUNDARY_TOKENS = ["<bos>", "<eos>", "1", "2", "<pad>"]


class E1BatchPreparer:
    def __init__(self, tokenizer=None):
        self.tokenizer = tokenizer or get_tokenizer()
        self.pad_token_id = self.tokenizer.token_to_id("<pad>")
        device = torch.cuda.current_device() if torch.cuda.is_available() else torch.device("cpu")
        ids = [self.tokenizer.token_to_id(token) for token in BOUNDARY_TOKENS]
        self.boundary_token_ids = torch.tensor(ids, device=device)

    def get_batch_kwargs(self, sequences, device=torch.device("cpu")):
        return self.pad_encodings([self.prepare_multiseq(sequence) for sequence in sequences], device)

    def pad_encodings(self, encodings, device):
        paddings = {"input_ids": self.pad_token_id, "sequence_ids": -1, "within_seq_position_ids": -1}
        return {
            key: pad_sequence([each[key] for each in encodings], batch_first=True, padding_value=value).to(device)
            for key, value in paddings.items()
        }

    def prepare_multiseq(self, sequence):
        singles = [self.prepare_singleseq(each) for each in sequence.split(",")]
        lengths = torch.tensor([len(each) for each in singles])
        return {
            "input_ids": torch.cat(singles),
            "sequence_ids": torch.repeat_interleave(lengths),
            "within_seq_position_ids": torch.cat([torch.arange(len(each)) for each in singles]),
        }

    def prepare_singleseq(self, sequence):
        if not sequence.isupper():
            raise ValueError(f"Invalid sequence: {sequence}")
        tokens = ["<bos>", "1", *sequence, "2", "<eos>"]
        return torch.tensor([self.tokenizer.token_to_id(token) for token in tokens])

    def get_boundary_token_mask(self, tokens):
        return torch.isin(tokens, self.boundary_token_ids)
# --- E1/modeling.py
from torch import nn


class E1ForMaskedLM(nn.Module):
    def __init__(self, vocab_size, hidden_size, max_positions=32, max_sequences=8):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, hidden_size)
        self.embed_positions = nn.Embedding(max_positions, hidden_size)
        self.embed_sequences = nn.Embedding(max_sequences, hidden_size)
        self.attention = nn.MultiheadAttention(hidden_size, 2, batch_first=True)
        self.norm = nn.LayerNorm(hidden_size)
        self.mlm_head = nn.Linear(hidden_size, vocab_size)

    def forward(self, input_ids, within_seq_position_ids, sequence_ids):
        padding = sequence_ids < 0
        hidden = self.embed_tokens(input_ids) + self.embed_positions(within_seq_position_ids.clamp_min(0))
        hidden = hidden + self.embed_sequences(sequence_ids.clamp_min(0))
        attended, _ = self.attention(hidden, hidden, hidden, key_padding_mask=padding, need_weights=False)
        embeddings = self.norm(hidden + attended)
        return self.mlm_head(embeddings), embeddings

# === rare_labels_of_pictures_with_many
# thread: https://github.com/wutong16/DistributionBalancedLoss/issues/4
# about: a picture has several labels, and some of them are rare. A loss gives these more weight, and the batch is divided among two cards
# operation: (mul|multiply) on cuda:1, cuda:0
# operands: other|.*freq_inv.*
# category: default-or-current-device|data-parallel|state-not-registered
# line: mllt/models/losses/resample_loss.py: self.freq_inv = torch.ones(self.class_freq.shape).cuda()
# line: mllt/models/losses/resample_loss.py: self.class_freq = torch.from_numpy(np.asarray(freq["class_freq"])).float().cuda()
# line: mllt/models/losses/resample_loss.py: repeat_rate = torch.sum(gt_labels.float() * self.freq_inv
# repair: mllt/models/losses/resample_loss.py: self.freq_inv = torch.ones(self.class_freq.shape).cuda() / self.class_freq ->
#   self.register_buffer("freq_inv", torch.ones(self.class_freq.shape).cuda() / self.class_freq)
# repair: mllt/models/losses/resample_loss.py: self.neg_bias = -torch.log(self.train_num / self.class_freq - 1) * neg_bias / self.neg_scale ->
#   self.register_buffer("neg_bias", -torch.log(self.train_num / self.class_freq - 1) * neg_bias / self.neg_scale)
import pickle
import tempfile
from pathlib import Path

import torch
from torch import nn

from mllt.datasets.long_tail import LongTailDataset
from mllt.models.classifiers.simple import SimpleClassifier

CONFIG = dict(
    focal=dict(focal=True, balance_param=2.0, gamma=2),
    map_param=dict(alpha=0.1, beta=10.0, gamma=0.2),
    logit_reg=dict(neg_scale=2.0, init_bias=0.05),
)


def batch_processor(model, data):
    losses = model(data["img"], data["gt_labels"])
    return losses.mean()


def main():
    torch.manual_seed(33)
    dataset = LongTailDataset(num_samples=24, num_classes=6)
    with tempfile.TemporaryDirectory() as folder:
        freq_file = Path(folder) / "class_freq.pkl"
        freq_file.write_bytes(pickle.dumps(dataset.class_freq()))
        model = SimpleClassifier(dataset.num_features, dataset.num_classes, dict(CONFIG, freq_file=freq_file))
    model = nn.DataParallel(model, device_ids=[0, 1]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        total = 0.0
        for data in dataset.batches(8):
            loss = batch_processor(model, data)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / 3:.3f}")


if __name__ == "__main__":
    main()
# --- mllt/datasets/long_tail.py
import torch


class LongTailDataset:
    num_features = 10

    def __init__(self, num_samples, num_classes):
        generator = torch.Generator().manual_seed(4)
        self.num_classes = num_classes
        chance = 0.7 ** torch.arange(1, num_classes + 1)
        self.gt_labels = (torch.rand(num_samples, num_classes, generator=generator) < chance).long()
        self.gt_labels[torch.arange(num_samples), torch.arange(num_samples) % num_classes] = 1
        prototypes = torch.randn(num_classes, self.num_features, generator=generator)
        noise = 0.3 * torch.randn(num_samples, self.num_features, generator=generator)
        self.img = self.gt_labels.float() @ prototypes + noise

    def class_freq(self):
        positive = self.gt_labels.sum(dim=0)
        return {"class_freq": positive.numpy(), "neg_class_freq": (len(self.gt_labels) - positive).numpy()}

    def batches(self, size):
        for img, gt_labels in zip(self.img.split(size), self.gt_labels.split(size)):
            yield {"img": img, "gt_labels": gt_labels}
# --- mllt/models/classifiers/simple.py
from torch import nn

from ..losses.resample_loss import ResampleLoss


class SimpleClassifier(nn.Module):
    def __init__(self, in_channels, num_classes, loss_cls):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(in_channels, 16), nn.ReLU())
        self.fc_cls = nn.Linear(16, num_classes)
        self.loss_cls = ResampleLoss(**loss_cls)

    def forward(self, img, gt_labels):
        cls_score = self.fc_cls(self.backbone(img))
        return self.loss_cls(cls_score, gt_labels).unsqueeze(0)
# --- mllt/models/losses/resample_loss.py
import pickle

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class ResampleLoss(nn.Module):
    """Rebalances labels that come together, and tolerates negatives."""

    def __init__(self, focal, map_param, logit_reg, freq_file, loss_weight=1.0):
        super().__init__()
        self.loss_weight = loss_weight
        self.gamma, self.balance_param = focal["gamma"], focal["balance_param"]
        self.map_alpha, self.map_beta, self.map_gamma = map_param["alpha"], map_param["beta"], map_param["gamma"]

        freq = pickle.loads(freq_file.read_bytes())
        self.class_freq = torch.from_numpy(np.asarray(freq["class_freq"])).float().cuda()
        self.neg_class_freq = torch.from_numpy(np.asarray(freq["neg_class_freq"])).float().cuda()
        self.train_num = self.class_freq[0].item() + self.neg_class_freq[0].item()

        self.neg_scale, neg_bias = logit_reg["neg_scale"], logit_reg["init_bias"]
        self.neg_bias = -torch.log(self.train_num / self.class_freq - 1) * neg_bias / self.neg_scale
        self.freq_inv = torch.ones(self.class_freq.shape).cuda() / self.class_freq

    def forward(self, cls_score, label):
        weight = self.rebalance_weight(label.float())
        cls_score, weight = self.logit_reg_functions(label.float(), cls_score, weight)
        logpt = -F.binary_cross_entropy_with_logits(cls_score, label.float(), reduction="none")
        loss = F.binary_cross_entropy_with_logits(cls_score, label.float(), weight=weight, reduction="none")
        loss = ((1 - logpt.exp()) ** self.gamma) * loss * self.balance_param
        return self.loss_weight * loss.mean()

    def rebalance_weight(self, gt_labels):
        repeat_rate = torch.sum(gt_labels.float() * self.freq_inv, dim=1, keepdim=True)
        pos_weight = self.freq_inv.clone().detach().unsqueeze(0) / repeat_rate
        return torch.sigmoid(self.map_beta * (pos_weight - self.map_gamma)) + self.map_alpha

    def logit_reg_functions(self, labels, logits, weight):
        logits = logits + self.neg_bias
        logits = logits * (1 - labels) * self.neg_scale + logits * labels
        weight = weight / self.neg_scale * (1 - labels) + weight * labels
        return logits, weight

# === flow_seen_in_a_pyramid_of_features
# thread: https://github.com/neu-vi/ezflow/pull/173
# about: motion between two pictures is estimated from coarse to fine. An encoder of residual blocks is asked for what it sees on the way, not for the end
# operation: (conv2d|convolution|_convolution|cudnn_convolution|.*conv2d.*) on cuda:0, cpu
# operands: weight|.*weight.*
# error: Input type .* and weight type .* should be the same|on the same device
# category: state-not-registered|module-split
# line: ezflow/encoder/residual.py: self.encoder = layers
# line: ezflow/encoder/residual.py: layers = [
# line: ezflow/encoder/residual.py: if self.intermediate_features is False:
# repair: ezflow/encoder/residual.py: self.encoder = layers -> self.encoder = nn.ModuleList(layers)
import torch

from ezflow.engine import Trainer
from ezflow.models.pyramid import PyramidFlow


def pairs(count, size=16):
    generator = torch.Generator().manual_seed(2)
    for _ in range(count):
        img1 = torch.rand(2, 3, size, size, generator=generator)
        shift = torch.randint(-2, 3, (2,), generator=generator).tolist()
        flow = torch.tensor(shift[::-1]).float().view(1, 2, 1, 1).expand(2, 2, size, size)
        yield (img1, torch.roll(img1, shift, dims=(2, 3))), flow


if __name__ == "__main__":
    torch.manual_seed(8)
    model = PyramidFlow(layer_config=(8, 12), search_range=1)
    trainer = Trainer(model, device="cuda", lr=2e-3)
    for epoch in range(2):
        trainer.train_one_epoch(pairs(3))
    print(f"end point error {trainer.validate(pairs(2)):.3f}")
# --- ezflow/engine.py
import torch


class Trainer:
    def __init__(self, model, device, lr):
        self.device = torch.device(device if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    def _epe(self, batch):
        (img1, img2), flow = batch
        img1, img2, flow = img1.to(self.device), img2.to(self.device), flow.to(self.device)
        return torch.norm(self.model(img1, img2) - flow, p=2, dim=1).mean()

    def train_one_epoch(self, loader):
        self.model.train()
        for batch in loader:
            loss = self._epe(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        errors = [self._epe(batch).item() for batch in loader]
        return sum(errors) / len(errors)
# --- ezflow/modules.py
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, in_channels, out_channels, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.relu = nn.ReLU()
        self.shortcut = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Conv2d(in_channels, out_channels, 1, stride=stride)

    def forward(self, x):
        out = self.conv2(self.relu(self.conv1(x)))
        return self.relu(self.shortcut(x) + out)
# --- ezflow/encoder/residual.py
from torch import nn

from ..modules import BasicBlock


class BasicEncoder(nn.Module):
    def __init__(self, in_channels=3, out_channels=16, layer_config=(8, 12), intermediate_features=False):
        super().__init__()
        self.intermediate_features = intermediate_features
        start_channels = layer_config[0]
        layers = [
            nn.Conv2d(in_channels, start_channels, kernel_size=3, padding=1),
            nn.GroupNorm(2, start_channels),
            nn.ReLU(),
        ]
        for i, channels in enumerate(layer_config):
            layers.append(self._make_layer(start_channels, channels, stride=1 if i == 0 else 2))
            start_channels = channels
        layers.append(nn.Conv2d(start_channels, out_channels, kernel_size=1))

        self.encoder = layers
        if self.intermediate_features is False:
            self.encoder = nn.Sequential(*self.encoder)

    def _make_layer(self, in_channels, out_channels, stride):
        return nn.Sequential(BasicBlock(in_channels, out_channels, stride), BasicBlock(out_channels, out_channels))

    def forward(self, x):
        if self.intermediate_features is False:
            return self.encoder(x)
        features = []
        for layer in self.encoder:
            x = layer(x)
            if isinstance(layer, nn.Sequential):
                features.append(x)
        return features
# --- ezflow/models/pyramid.py
import torch
import torch.nn.functional as F
from torch import nn

from ..encoder.residual import BasicEncoder


class PyramidFlow(nn.Module):
    def __init__(self, layer_config, search_range):
        super().__init__()
        self.search_range = search_range
        self.encoder = BasicEncoder(layer_config=layer_config, intermediate_features=True)
        costs = (2 * search_range + 1) ** 2
        self.decoders = nn.ModuleList(nn.Conv2d(costs + 2, 2, 3, padding=1) for _ in layer_config)

    def correlate(self, features1, features2):
        steps = range(-self.search_range, self.search_range + 1)
        moved = [torch.roll(features2, (dy, dx), dims=(2, 3)) for dy in steps for dx in steps]
        return torch.stack([(features1 * each).mean(dim=1) for each in moved], dim=1)

    def forward(self, img1, img2):
        pyramid = list(zip(self.encoder(img1), self.encoder(img2), self.decoders))[::-1]
        flow = None
        for features1, features2, decoder in pyramid:
            costs = self.correlate(features1, features2)
            if flow is None:
                flow = torch.zeros_like(costs[:, :2])
            else:
                flow = 2 * F.interpolate(flow, size=costs.shape[-2:], mode="bilinear", align_corners=False)
            flow = flow + decoder(torch.cat([costs, flow], dim=1))
        return flow

# === hedged_where_volatility_itself_moves
# thread: https://github.com/pfnet-research/pfhedge/issues/140
# about: prices are simulated whose volatility moves, too, and a small network learns to hedge an option on them. Randomness comes from a sequence that fills
#   space
# operation: (mul|multiply) on cuda:0, cpu
# operands: other|randn|.*randn.*
# category: created-without-device
# line: pfhedge/stochastic/heston.py: randn = engine(n_paths, n_steps)
# line: pfhedge/stochastic/heston.py: log_spot = torch.empty(n_paths, n_steps)
# repair: pfhedge/stochastic/heston.py: randn = engine(n_paths, n_steps) -> randn = engine(n_paths, n_steps, dtype=variance.dtype, device=variance.device)
# repair: pfhedge/stochastic/heston.py: log_spot = torch.empty(n_paths, n_steps) -> log_spot = torch.empty_like(variance)
import torch

from pfhedge.instruments import EuropeanOption, HestonStock
from pfhedge.nn import Hedger

if __name__ == "__main__":
    torch.manual_seed(140)
    stock = HestonStock(cost=1e-3, device="cuda:0")
    deriv = EuropeanOption(stock, strike=1.0, maturity=8)
    hedger = Hedger(n_features=3).to("cuda:0")
    history = hedger.fit(deriv, n_paths=32, n_epochs=4, lr=5e-3)
    print("history", [f"{loss:.4f}" for loss in history])
    print(f"price in basis points {1e4 * hedger.price(deriv, n_paths=32).item():.3f}")
# --- pfhedge/stochastic/engine.py
import torch
from torch.distributions import Normal
from torch.quasirandom import SobolEngine


def quasi_normal(n_paths, n_steps, dtype=None, device=None):
    """Numbers of a normal distribution that are spread evenly over the paths."""
    points = SobolEngine(n_steps, scramble=True, seed=7).draw(n_paths).clamp(1e-4, 1 - 1e-4)
    numbers = Normal(torch.tensor(0.0), torch.tensor(1.0)).icdf(points)
    return numbers.to(dtype=dtype, device=device)
# --- pfhedge/stochastic/cir.py
import torch

from .engine import quasi_normal


def generate_cir(n_paths, n_steps, init_value=0.04, kappa=1.0, theta=0.04, sigma=0.3, dt=1 / 50, dtype=None, device=None, engine=quasi_normal):
    """Paths of a variance that returns to its mean."""
    randn = engine(n_paths, n_steps, dtype=dtype, device=device)
    output = torch.empty_like(randn)
    output[:, 0] = init_value
    for i_step in range(n_steps - 1):
        v = output[:, i_step].clamp_min(0.0)
        drift = kappa * (theta - v) * dt
        output[:, i_step + 1] = (v + drift + sigma * (v * dt).sqrt() * randn[:, i_step]).clamp_min(1e-6)
    return output
# --- pfhedge/stochastic/heston.py
import torch

from .cir import generate_cir
from .engine import quasi_normal

GAMMA1 = GAMMA2 = 0.5


def generate_heston(
    n_paths, n_steps, init_state=(1.0, 0.04), kappa=1.0, theta=0.04, sigma=0.3, rho=-0.7, dt=1 / 50, dtype=None, device=None, engine=quasi_normal
):
    init_spot, init_var = init_state
    variance = generate_cir(n_paths, n_steps, init_var, kappa, theta, sigma, dt, dtype=dtype, device=device, engine=engine)
    log_spot = torch.empty(n_paths, n_steps)
    log_spot[:, 0] = torch.tensor(init_spot).log()
    randn = engine(n_paths, n_steps)

    k0 = -rho * kappa * theta * dt / sigma
    k1 = GAMMA1 * dt * (kappa * rho / sigma - 0.5) - rho / sigma
    k2 = GAMMA2 * dt * (kappa * rho / sigma - 0.5) + rho / sigma
    k3 = GAMMA1 * dt * (1 - rho**2)
    k4 = GAMMA2 * dt * (1 - rho**2)
    for i_step in range(n_steps - 1):
        v0, v1 = variance[:, i_step], variance[:, i_step + 1]
        diffused = (k3 * v0 + k4 * v1).sqrt() * randn[:, i_step]
        log_spot[:, i_step + 1] = log_spot[:, i_step] + k0 + k1 * v0 + k2 * v1 + diffused
    return log_spot.exp(), variance
# --- pfhedge/instruments.py
import torch

from .stochastic.heston import generate_heston


class HestonStock:
    def __init__(self, cost=0.0, dtype=torch.float32, device=None):
        self.cost, self.dtype, self.device = cost, dtype, device

    def simulate(self, n_paths, n_steps):
        self.spot, self.variance = generate_heston(n_paths, n_steps, dtype=self.dtype, device=self.device)


class EuropeanOption:
    def __init__(self, underlier, strike, maturity):
        self.underlier, self.strike, self.maturity = underlier, strike, maturity

    def simulate(self, n_paths):
        self.underlier.simulate(n_paths, self.maturity + 1)

    def features(self, i_step):
        spot, variance = self.underlier.spot[:, i_step], self.underlier.variance[:, i_step]
        left = torch.full_like(spot, 1 - i_step / self.maturity)
        return torch.stack([(spot / self.strike).log(), variance.sqrt(), left], dim=-1)

    def payoff(self):
        return (self.underlier.spot[:, -1] - self.strike).clamp_min(0.0)
# --- pfhedge/nn.py
import torch
from torch import nn


class Hedger(nn.Module):
    def __init__(self, n_features, a=10.0):
        super().__init__()
        self.a = a
        self.model = nn.Sequential(nn.Linear(n_features, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

    def compute_loss(self, deriv, n_paths):
        deriv.simulate(n_paths)
        spot = deriv.underlier.spot
        hedges = [self.model(deriv.features(i)).squeeze(-1) for i in range(deriv.maturity)]
        pnl, held = -deriv.payoff(), torch.zeros_like(spot[:, 0])
        for i, hedge in enumerate(hedges):
            pnl = pnl + hedge * (spot[:, i + 1] - spot[:, i]) - deriv.underlier.cost * (hedge - held).abs() * spot[:, i]
            held = hedge
        return (-self.a * pnl).exp().mean().log() / self.a

    def fit(self, deriv, n_paths, n_epochs, lr):
        optimizer = torch.optim.Adam(self.parameters(), lr=lr)
        history = []
        for _ in range(n_epochs):
            loss = self.compute_loss(deriv, n_paths)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        return history

    @torch.no_grad()
    def price(self, deriv, n_paths):
        return self.compute_loss(deriv, n_paths)

# === a_voice_out_of_a_sine_and_noise
# thread: https://github.com/nii-yamagishilab/project-NN-Pytorch-scripts/issues/5
# about: sound is made out of a sine that follows the pitch and of noise, by filters that are learned. Spectra of several widths are compared with the voice's
# operation: stft on cuda:0, cpu
# operands: window|.*win.*
# category: created-without-device
# line: model.py: window=self.win(frame_len)
# line: model.py: self.win = torch.hann_window
# line: model.py: return torch.stft(
# repair: model.py: window=self.win(frame_len), -> window=self.win(frame_len, dtype=signal.dtype, device=signal.device),
import torch

import nn_manager
from data import CustomDataSet
from model import Loss, Model


def main():
    torch.manual_seed(2021)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trn_set = CustomDataSet(num=4, frames=8, upsamp=40)
    model = Model(in_dim=2, upsamp=40).to(device)
    loss_wrapper = Loss()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = nn_manager.f_train_wrapper(model, loss_wrapper, device, optimizer, trn_set, epochs=3)
    print("losses", [f"{loss:.3f}" for loss in losses])


if __name__ == "__main__":
    main()
# --- data.py
import math

import torch


class CustomDataSet:
    """Spectral features and pitch at the rate of frames, and the waveform."""

    def __init__(self, num, frames, upsamp):
        generator = torch.Generator().manual_seed(9)
        self.items = []
        for _ in range(num):
            f0 = 0.05 + 0.02 * torch.rand(1, frames, 1, generator=generator)
            mel = torch.randn(1, frames, 1, generator=generator)
            phase = torch.cumsum(f0.repeat_interleave(upsamp, dim=1), dim=1) * 2 * math.pi
            wave = 0.5 * torch.sin(phase) * torch.sigmoid(mel).repeat_interleave(upsamp, dim=1)
            self.items.append((torch.cat([mel, f0], dim=2), wave))

    def __iter__(self):
        return iter(self.items)
# --- nn_manager.py
def f_run_one_epoch(model, loss_wrapper, device, optimizer, loader):
    total = 0.0
    for data_in, data_tar in loader:
        data_in, data_tar = data_in.to(device), data_tar.to(device)
        optimizer.zero_grad()
        normed_target = model.normalize_target(data_tar)
        data_gen = model(data_in)
        loss_computed = loss_wrapper.compute(data_gen, normed_target)
        total += loss_computed.item()
        loss_computed.backward()
        optimizer.step()
    return total


def f_train_wrapper(model, loss_wrapper, device, optimizer, trn_set, epochs):
    model.train()
    return [f_run_one_epoch(model, loss_wrapper, device, optimizer, trn_set) for _ in range(epochs)]
# --- model.py
import math

import torch
from torch import nn


class SourceModule(nn.Module):
    def __init__(self, upsamp):
        super().__init__()
        self.upsamp = upsamp
        self.merge = nn.Linear(3, 1)

    def forward(self, f0):
        phase = torch.cumsum(f0.repeat_interleave(self.upsamp, dim=1), dim=1) * 2 * math.pi
        harmonics = torch.cat([torch.sin(k * phase) for k in (1, 2, 3)], dim=2)
        return torch.tanh(self.merge(0.1 * harmonics))


class Model(nn.Module):
    def __init__(self, in_dim, upsamp):
        super().__init__()
        self.upsamp = upsamp
        self.register_buffer("output_std", torch.tensor(0.5))
        self.cond = nn.GRU(in_dim, 8, batch_first=True)
        self.source = SourceModule(upsamp)
        self.filters = nn.ModuleList(nn.Conv1d(9, 1, 5, padding=2) for _ in range(2))

    def normalize_target(self, y):
        return y / self.output_std

    def forward(self, x):
        cond = self.cond(x)[0].repeat_interleave(self.upsamp, dim=1).transpose(1, 2)
        signal = self.source(x[:, :, -1:]).transpose(1, 2)
        for conv in self.filters:
            signal = signal + torch.tanh(conv(torch.cat([signal, cond], dim=1)))
        return signal.transpose(1, 2)


class Loss:
    """Spectral amplitudes are compared at several resolutions."""

    def __init__(self):
        self.frame_hops = [16, 8, 32]
        self.frame_lens = [64, 16, 128]
        self.fft_n = [64, 16, 128]
        self.win = torch.hann_window
        self.amp_floor = 1e-5
        self.loss = nn.MSELoss()

    def _stft(self, signal, fft_p, frame_shift, frame_len):
        return torch.stft(
            signal,
            fft_p,
            frame_shift,
            frame_len,
            window=self.win(frame_len),
            onesided=True,
            pad_mode="constant",
            return_complex=True,
        )

    def _amp(self, x):
        return torch.log(torch.view_as_real(x).pow(2).sum(dim=-1) + self.amp_floor)

    def compute(self, output, target):
        output, target = output.squeeze(-1), target.squeeze(-1)
        loss = 0.0
        for frame_shift, frame_len, fft_p in zip(self.frame_hops, self.frame_lens, self.fft_n):
            x_amp = self._amp(self._stft(output, fft_p, frame_shift, frame_len))
            y_amp = self._amp(self._stft(target, fft_p, frame_shift, frame_len))
            loss = loss + self.loss(x_amp, y_amp)
        return loss

# === a_tree_of_drafts_and_a_head_elsewhere
# thread: https://github.com/SafeAILab/EAGLE/issues/12
# about: a small layer drafts what may come next as a tree. A language model that is spread over cards reads all of it at once and takes the longest branch
#   it agrees with
# operation: (index|__getitem__) on cuda:1, cuda:0
# operands: indices|index|indices\[\d\]|.*retrieve_indices.*
# error: indices should be either on cpu or on the same device as the indexed tensor
# category: module-split|cached-state|input-not-moved
# line: model/ea_model.py: tree_buffers["retrieve_indices"],
# line: model/utils.py: logits = tree_logits[0, retrieve_indices]
# line: model/ea_model.py: logits = tree_decoding(
# repair: model/ea_model.py: tree_buffers["retrieve_indices"], -> tree_buffers["retrieve_indices"].to(self.base_model.lm_head.weight.device),
import torch

from model.ea_model import EaModel
from model.modeling_llama import LlamaForCausalLM

if __name__ == "__main__":
    torch.manual_seed(12)
    base_model = LlamaForCausalLM(vocab_size=24, hidden_size=16, num_layers=3).eval()
    base_model.dispatch({"embed_tokens": "cuda:0", "layers": "cuda:0", "norm": "cuda:1", "lm_head": "cuda:1"})
    model = EaModel(base_model)
    for prompt in ([3, 5, 7], [11, 2, 19, 8]):
        output_ids, steps = model.eagenerate(torch.tensor([prompt], device="cuda:0"), max_new_tokens=10)
        print(steps, output_ids[0].tolist())
# --- model/modeling_llama.py
import torch
from torch import nn


class LlamaDecoderLayer(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.qkv_proj = nn.Linear(hidden_size, 3 * hidden_size)
        self.o_proj = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, mask):
        q, k, v = self.qkv_proj(hidden_states).chunk(3, dim=-1)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return hidden_states + torch.tanh(self.o_proj(attended))


class LlamaForCausalLM(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_layers, max_positions=64):
        super().__init__()
        self.embed_tokens = nn.ModuleList([nn.Embedding(vocab_size, hidden_size), nn.Embedding(max_positions, hidden_size)])
        self.layers = nn.ModuleList(LlamaDecoderLayer(hidden_size) for _ in range(num_layers))
        self.norm = nn.LayerNorm(hidden_size)
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)

    def dispatch(self, device_map):
        for name, device in device_map.items():
            getattr(self, name).to(device)

    def forward(self, input_ids, position_ids, mask):
        tokens, positions = self.embed_tokens
        hidden_states = tokens(input_ids) + positions(position_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states, mask)
        hidden_states = self.norm(hidden_states.to(self.norm.weight.device))
        return self.lm_head(hidden_states)
# --- model/choices.py
mc_sim = [[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0]]
# --- model/utils.py
import torch


def generate_tree_buffers(tree_choices, device):
    tree_len = len(tree_choices) + 1
    places = {(): 0, **{tuple(choice): i + 1 for i, choice in enumerate(tree_choices)}}
    tree_attn_mask = torch.eye(tree_len, dtype=torch.bool)
    for path, place in places.items():
        for depth in range(len(path)):
            tree_attn_mask[place, places[path[:depth]]] = True
    leaves = [path for path in places if not any(other[:-1] == path for other in places if other)]
    longest = max(map(len, leaves)) + 1
    rows = [[places[path[:depth]] for depth in range(len(path) + 1)] for path in leaves]
    buffers = {
        "tree_attn_mask": tree_attn_mask,
        "tree_position_ids": torch.tensor([len(path) for path in places]),
        "retrieve_indices": torch.tensor([row + [-1] * (longest - len(row)) for row in rows]),
    }
    return {name: buffer.to(device) for name, buffer in buffers.items()}


def generate_candidates(tree_candidates, retrieve_indices):
    ended = torch.full((1,), -1, device=tree_candidates.device)
    return torch.cat([tree_candidates, ended])[retrieve_indices]


def tree_decoding(model, input_ids, tree_candidates, tree_attn_mask, tree_position_ids, retrieve_indices):
    length, tree_len = input_ids.shape[1], len(tree_candidates)
    position_ids = torch.cat([torch.arange(length, device=input_ids.device), tree_position_ids + length])
    mask = torch.ones(length + tree_len, length + tree_len, dtype=torch.bool, device=input_ids.device).tril()
    mask[length:, length:] = tree_attn_mask
    tree_logits = model(torch.cat([input_ids, tree_candidates[None]], dim=1), position_ids, mask)[:, length:]
    logits = tree_logits[0, retrieve_indices]
    return logits


def evaluate_posterior(logits, candidates):
    posterior_mask = (candidates[:, 1:].to(logits.device) == torch.argmax(logits[:, :-1], dim=-1)).int()
    accepted = torch.cumprod(posterior_mask, dim=1).sum(dim=1)
    best_candidate = torch.argmax(accepted).item()
    accept_length = accepted[best_candidate].item()
    return best_candidate, accept_length, torch.argmax(logits[best_candidate, accept_length]).item()
# --- model/ea_model.py
import torch
from torch import nn

from .choices import mc_sim
from .utils import evaluate_posterior, generate_candidates, generate_tree_buffers, tree_decoding


class DraftLayer(nn.Module):
    """Tells of a token which are likely to come after it."""

    def __init__(self, base_model):
        super().__init__()
        embedding, head = base_model.embed_tokens[0].weight, base_model.lm_head.weight
        self.register_buffer("scores", embedding.detach().cpu() @ head.detach().cpu().t())

    def topk_generate(self, token, tree_choices):
        ranked = self.scores.argsort(dim=-1, descending=True)
        tokens = {(): token}
        for choice in tree_choices:
            tokens[tuple(choice)] = ranked[tokens[tuple(choice[:-1])], choice[-1]].item()
        return torch.tensor(list(tokens.values()), device=self.scores.device)


class EaModel(nn.Module):
    def __init__(self, base_model):
        super().__init__()
        self.base_model = base_model
        device = base_model.layers[-1].qkv_proj.weight.device
        self.ea_layer = DraftLayer(base_model).to(device)
        self.tree_choices = mc_sim
        self.tree_buffers = generate_tree_buffers(self.tree_choices, device=device)

    @torch.no_grad()
    def eagenerate(self, input_ids, max_new_tokens):
        tree_buffers, sample_token, wanted, steps = self.tree_buffers, 1, input_ids.shape[1] + max_new_tokens, 0
        while input_ids.shape[1] < wanted:
            tree_candidates = self.ea_layer.topk_generate(sample_token, self.tree_choices)
            candidates = generate_candidates(tree_candidates, tree_buffers["retrieve_indices"])
            logits = tree_decoding(
                self.base_model,
                input_ids,
                tree_candidates,
                tree_buffers["tree_attn_mask"],
                tree_buffers["tree_position_ids"],
                tree_buffers["retrieve_indices"],
            )
            best_candidate, accept_length, sample_token = evaluate_posterior(logits, candidates)
            input_ids = torch.cat([input_ids, candidates[None, best_candidate, : accept_length + 1]], dim=1)
            steps += 1
        return input_ids[:, :wanted], steps
