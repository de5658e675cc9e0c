# === noise_carried_to_two_moons_by_a_learned_flow
# thread: https://github.com/tum-pbs/pbdl-book/issues/31
# about: a network learns the speed with which noise becomes data. To draw points, its speed is added up over points in time
# operation: cat on cuda:0, cpu
# operands: t|tensors|t_batch|.*time_points.*
# category: created-without-device|input-not-moved|input
# line: time_points = torch.linspace(t_start, t_end, n_steps + 1)
# line: t_batch = time_points[i].expand(x.shape[0], 1)
# line: velocity = nn_fm(x, t_batch)
# line: xt = torch.cat([x, t], dim=1)
# repair: time_points = torch.linspace(t_start, t_end, n_steps + 1) -> time_points = torch.linspace(t_start, t_end, n_steps + 1, device=x.device)
import math

import torch
from torch import nn

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
torch.manual_seed(31)

# %% two half circles, one in the other


def two_moons(n, generator):
    angle = math.pi * torch.rand(n, generator=generator)
    upper = torch.arange(n) % 2 == 0
    x = torch.where(upper, angle.cos(), 1 - angle.cos())
    y = torch.where(upper, angle.sin(), 0.5 - angle.sin())
    return torch.stack([x, y], dim=-1) + 0.05 * torch.randn((n, 2), generator=generator)


generator = torch.Generator().manual_seed(1)
train_data = two_moons(256, generator).to(device)

# %% the network gets a place and a time


class VelocityNet(nn.Module):
    def __init__(self, dim=2, hidden=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim + 1, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, dim),
        )

    def forward(self, x, t):
        xt = torch.cat([x, t], dim=1)
        return self.net(xt)


nn_fm = VelocityNet().to(device)

# %% flow matching: straight ways from noise to data


def train(model, data, n_epochs=20, batch_size=64):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(n_epochs):
        order = torch.randperm(len(data), generator=generator)
        for start in range(0, len(data), batch_size):
            x_1 = data[order[start : start + batch_size].to(device)]
            x_0 = torch.randn(x_1.shape, generator=generator).to(device)
            t = torch.rand((len(x_1), 1), generator=generator).to(device)
            x_t = (1 - t) * x_0 + t * x_1
            loss = (model(x_t, t) - (x_1 - x_0)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


last_loss = train(nn_fm, train_data)
print(f"last loss {last_loss:.4f}")

# %% from noise along the learned speed


@torch.no_grad()
def integrate_flow(nn_fm, x, t_start=0.0, t_end=1.0, n_steps=12):
    time_points = torch.linspace(t_start, t_end, n_steps + 1)
    dt = (t_end - t_start) / n_steps
    trajectory = [x]
    for i in range(n_steps):
        t_batch = time_points[i].expand(x.shape[0], 1)
        velocity = nn_fm(x, t_batch)
        x = x + dt * velocity
        trajectory.append(x)
    return torch.stack(trajectory), time_points


n_gen = 40
x_in = torch.randn(n_gen, generator=generator).to(device) * 0.95
y_in = torch.randn(n_gen, generator=generator).to(device) * 0.95
x0_gen = torch.stack([x_in, y_in], axis=-1)
trajectory, time_points = integrate_flow(nn_fm, x0_gen)

length = (trajectory[1:] - trajectory[:-1]).norm(dim=-1).sum(dim=0)
print(f"ways {length.mean().item():.3f}, ends {trajectory[-1].double().abs().sum().item():.3f}, times {time_points.sum().item():.2f}")

# === words_to_come_hidden_from_a_translator
# thread: https://github.com/SamLynnEvans/Transformer/issues/27
# about: a translator must not see words that come later. The iterator of batches is told a device in a way that it passes over
# operation: (__and__|bitwise_and|logical_and) on cpu, cuda:0
# operands: self|trg_mask|.*trg.*
# category: input-not-moved|input
# line: src = batch.src.transpose(0, 1)
# line: trg = batch.trg.transpose(0, 1)
# line: opt.train = MyIterator(
# repair: src = batch.src.transpose(0, 1) -> src = batch.src.transpose(0, 1).cuda()
# repair: trg = batch.trg.transpose(0, 1) -> trg = batch.trg.transpose(0, 1).cuda()
import argparse

import torch
import torch.nn.functional as F

from Batch import MyIterator, create_masks
from Models import get_model

SENTENCES = [
    ("je vois un chat", "i see a cat"),
    ("tu vois un chien", "you see a dog"),
    ("je mange", "i eat"),
    ("un chien mange un os", "a dog eats a bone"),
    ("tu manges", "you eat"),
    ("un chat dort", "a cat sleeps"),
]


def vocabulary(lines):
    words = sorted({word for line in lines for word in line.split()})
    return {word: index for index, word in enumerate(["<pad>", "<sos>", "<eos>", *words])}


def train_model(model, opt):
    model.train()
    for epoch in range(opt.epochs):
        total_loss = 0
        for i, batch in enumerate(opt.train):
            src = batch.src.transpose(0, 1)
            trg = batch.trg.transpose(0, 1)
            trg_input = trg[:, :-1]
            src_mask, trg_mask = create_masks(src, trg_input, opt)
            preds = model(src, trg_input, src_mask, trg_mask)
            ys = trg[:, 1:].contiguous().view(-1)
            opt.optimizer.zero_grad()
            loss = F.cross_entropy(preds.view(-1, preds.size(-1)), ys, ignore_index=opt.trg_pad)
            loss.backward()
            opt.optimizer.step()
            total_loss += loss.item()
        print(f"epoch {epoch + 1} loss = {total_loss / (i + 1):.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-no_cuda", action="store_true")
    parser.add_argument("-epochs", type=int, default=4)
    parser.add_argument("-d_model", type=int, default=16)
    parser.add_argument("-heads", type=int, default=2)
    parser.add_argument("-batchsize", type=int, default=3)
    parser.add_argument("-lr", type=float, default=0.01)
    opt = parser.parse_args()

    opt.device = 0 if opt.no_cuda is False else -1
    if opt.device == 0:
        assert torch.cuda.is_available()

    torch.manual_seed(27)
    src_vocab = vocabulary(src for src, _ in SENTENCES)
    trg_vocab = vocabulary(trg for _, trg in SENTENCES)
    opt.src_pad, opt.trg_pad = src_vocab["<pad>"], trg_vocab["<pad>"]
    opt.train = MyIterator(SENTENCES, src_vocab, trg_vocab, batch_size=opt.batchsize, device=opt.device)
    model = get_model(opt, len(src_vocab), len(trg_vocab))
    opt.optimizer = torch.optim.Adam(model.parameters(), lr=opt.lr)
    train_model(model, opt)


if __name__ == "__main__":
    main()
# --- Batch.py
from types import SimpleNamespace

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence


def nopeak_mask(size, opt):
    np_mask = np.triu(np.ones((1, size, size)), k=1).astype("uint8")
    np_mask = torch.from_numpy(np_mask) == 0
    if opt.device == 0:
        np_mask = np_mask.cuda()
    return np_mask


def create_masks(src, trg, opt):
    src_mask = (src != opt.src_pad).unsqueeze(-2)
    if trg is None:
        return src_mask, None
    trg_mask = (trg != opt.trg_pad).unsqueeze(-2)
    np_mask = nopeak_mask(trg.size(1), opt)
    trg_mask = trg_mask & np_mask
    return src_mask, trg_mask


class MyIterator:
    """Batches of sentences of about the same length, each word in a row."""

    def __init__(self, pairs, src_vocab, trg_vocab, batch_size, device=None):
        if not isinstance(device, (str, torch.device)):
            device = None  # numbers are of another time
        self.device, self.batch_size = device, batch_size
        self.src_vocab, self.trg_vocab = src_vocab, trg_vocab
        self.pairs = sorted(pairs, key=lambda pair: (len(pair[0].split()), len(pair[1].split())))

    def numericalize(self, lines, vocab, ends=False):
        rows = [[vocab[word] for word in line.split()] for line in lines]
        if ends:
            rows = [[vocab["<sos>"], *row, vocab["<eos>"]] for row in rows]
        padded = pad_sequence([torch.tensor(row) for row in rows], padding_value=vocab["<pad>"])
        return padded.to(self.device) if self.device is not None else padded

    def __iter__(self):
        for start in range(0, len(self.pairs), self.batch_size):
            src, trg = zip(*self.pairs[start : start + self.batch_size])
            yield SimpleNamespace(src=self.numericalize(src, self.src_vocab), trg=self.numericalize(trg, self.trg_vocab, ends=True))
# --- Models.py
import torch
from torch import nn
from torch.nn import functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, heads, d_model):
        super().__init__()
        self.h, self.d_k = heads, d_model // heads
        self.q_linear, self.k_linear, self.v_linear, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.view(x.size(0), -1, self.h, self.d_k).transpose(1, 2)

    def forward(self, q, k, v, mask):
        q, k, v = self.split(self.q_linear(q)), self.split(self.k_linear(k)), self.split(self.v_linear(v))
        scores = q @ k.transpose(-2, -1) / self.d_k**0.5
        scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        concat = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2)
        return self.out(concat)


class Transformer(nn.Module):
    def __init__(self, src_vocab, trg_vocab, d_model, heads):
        super().__init__()
        self.src_embed, self.trg_embed = nn.Embedding(src_vocab, d_model), nn.Embedding(trg_vocab, d_model)
        self.encoder = MultiHeadAttention(heads, d_model)
        self.attn_1, self.attn_2 = MultiHeadAttention(heads, d_model), MultiHeadAttention(heads, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, trg_vocab)

    def forward(self, src, trg, src_mask, trg_mask):
        x = self.src_embed(src)
        e_outputs = self.norm(x + self.encoder(x, x, x, src_mask))
        y = self.trg_embed(trg)
        y = self.norm(y + self.attn_1(y, y, y, trg_mask))
        y = y + self.attn_2(y, e_outputs, e_outputs, src_mask)
        return self.out(y)


def get_model(opt, src_vocab, trg_vocab):
    model = Transformer(src_vocab, trg_vocab, opt.d_model, opt.heads)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.xavier_uniform_(p)
    if opt.device == 0:
        model = model.cuda()
    return model

# === walkers_followed_while_the_camera_turns
# thread: https://github.com/phil-bergmann/tracking_wo_bnw/issues/172
# about: people are followed through pictures without a card. What was lost waits, and its place follows the camera until it may be found again
# operation: cat on cuda:0, cpu
# operands: tensors|pos|t\.pos
# category: default-or-current-device|cached-state
# line: tracktor/utils.py: return torch.cat((p1_n, p2_n), 1).view(1, -1).cuda()
# repair: tracktor/utils.py: return torch.cat((p1_n, p2_n), 1).view(1, -1).cuda() -> return torch.cat((p1_n, p2_n), 1).view(1, -1).to(pos.device)
import argparse

import torch

from tracktor.frcnn_fpn import FRCNN_FPN
from tracktor.tracker import Tracker

CONFIG = {"regression_person_thresh": 0.5, "reid_iou_threshold": 0.2}
# per walker: first and last picture in which it is seen, and its box in the first
WALKERS = [(0, 1, (2, 2, 8, 8)), (0, 3, (14, 4, 20, 10)), (4, 7, (2, 3, 8, 9)), (0, 7, (6, 14, 12, 20))]


def sequence(length=8, size=24):
    for index in range(length):
        img, dets = torch.zeros(1, 3, size, size), []
        img[..., 0, :] = torch.linspace(0, 0.3, size).roll(index % 2)
        for first, last, box in WALKERS:
            if first <= index <= last:
                x0, y0, x1, y1 = (each + index % 2 * (i % 2 == 0) for i, each in enumerate(box))
                img[:, :, y0:y1, x0:x1] = 1.0
                dets.append([x0, y0, x1, y1])
        yield {"img": img, "dets": torch.tensor(dets, dtype=torch.float32)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(172)
    obj_detect = FRCNN_FPN()
    obj_detect.eval()
    if args.gpu:
        obj_detect.cuda()

    tracker = Tracker(obj_detect, CONFIG)
    with torch.no_grad():
        for frame in sequence():
            tracker.step(frame)
    results = tracker.results
    for track, places in results.items():
        print("track", track, "pictures", sorted(places))
    print(f"tracks {len(results)}, places {sum(float(place.sum()) for each in results.values() for place in each.values()):.3f}")


if __name__ == "__main__":
    main()
# --- tracktor/frcnn_fpn.py
import torch
from torch import nn


class FRCNN_FPN(nn.Module):
    """Gives boxes a better place, and says how sure it is that somebody is in them."""

    def __init__(self):
        super().__init__()
        self.box_head = nn.Linear(3, 4)
        self.cls_score = nn.Parameter(torch.tensor([8.0, -4.0]))

    def load_image(self, img):
        device = list(self.parameters())[0].device
        self.image = img.to(device)

    def predict_boxes(self, boxes):
        device = list(self.parameters())[0].device
        boxes = boxes.to(device)
        pooled = []
        for x0, y0, x1, y1 in boxes.round().int().tolist():
            crop = self.image[0, :, max(y0, 0) : max(y1, 1), max(x0, 0) : max(x1, 1)]
            pooled.append(crop.mean(dim=(1, 2)))
        pooled = torch.stack(pooled)
        scores = torch.sigmoid(pooled.mean(dim=1) * self.cls_score[0] + self.cls_score[1])
        return boxes + 0.2 * torch.tanh(self.box_head(pooled)), scores
# --- tracktor/utils.py
import torch


def bbox_overlaps(boxes, query_boxes):
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    query = (query_boxes[:, 2] - query_boxes[:, 0]) * (query_boxes[:, 3] - query_boxes[:, 1])
    low = torch.maximum(boxes[:, None, :2], query_boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], query_boxes[None, :, 2:])
    common = (high - low).clamp(min=0).prod(dim=2)
    return common / (area[:, None] + query[None] - common)


def warp_pos(pos, warp_matrix):
    p1 = torch.tensor([pos[0, 0].item(), pos[0, 1].item(), 1.0]).view(3, 1)
    p2 = torch.tensor([pos[0, 2].item(), pos[0, 3].item(), 1.0]).view(3, 1)
    p1_n = torch.mm(warp_matrix, p1).view(1, 2)
    p2_n = torch.mm(warp_matrix, p2).view(1, 2)
    return torch.cat((p1_n, p2_n), 1).view(1, -1).cuda()
# --- tracktor/tracker.py
import torch

from tracktor.utils import bbox_overlaps, warp_pos


class Track:
    def __init__(self, pos, score, track_id):
        self.pos, self.score, self.id = pos, score, track_id
        self.last_pos = pos.clone()


class Tracker:
    def __init__(self, obj_detect, tracker_cfg):
        self.obj_detect = obj_detect
        self.regression_person_thresh = tracker_cfg["regression_person_thresh"]
        self.reid_iou_threshold = tracker_cfg["reid_iou_threshold"]
        self.tracks, self.inactive_tracks = [], []
        self.track_num, self.im_index, self.results = 0, 0, {}

    def tracks_to_inactive(self, tracks):
        self.tracks = [t for t in self.tracks if t not in tracks]
        for t in tracks:
            t.pos = t.last_pos
        self.inactive_tracks += tracks

    def add(self, new_det_pos, new_det_scores):
        for pos, score in zip(new_det_pos, new_det_scores):
            self.tracks.append(Track(pos.view(1, -1), score, self.track_num))
            self.track_num += 1

    def get_pos(self):
        return torch.cat([t.pos for t in self.tracks], 0)

    def regress_tracks(self):
        boxes, scores = self.obj_detect.predict_boxes(self.get_pos())
        lost = []
        for t, box, score in zip(self.tracks, boxes, scores):
            t.score = score
            if score <= self.regression_person_thresh:
                lost.append(t)
            else:
                t.pos = box.view(1, -1)
        self.tracks_to_inactive(lost)

    def align(self, blob):
        """How far the camera turned is seen at the upper border."""
        before, now = self.last_image[0, 0], blob["img"][0, 0, 0]
        shifts = [-1, 0, 1]
        errors = [(before.roll(shift) - now).abs().sum().item() for shift in shifts]
        warp_matrix = torch.tensor([[1.0, 0.0, shifts[errors.index(min(errors))]], [0.0, 1.0, 0.0]])
        for t in self.tracks:
            t.pos = warp_pos(t.pos, warp_matrix)
        for t in self.inactive_tracks:
            t.pos = warp_pos(t.pos, warp_matrix)

    def reid(self, new_det_pos, new_det_scores):
        """What was lost may be among new detections."""
        if not self.inactive_tracks:
            return new_det_pos, new_det_scores
        pos = torch.cat([t.pos for t in self.inactive_tracks], 0)
        iou = bbox_overlaps(pos, new_det_pos)
        assigned = set()
        for row, t in enumerate(list(self.inactive_tracks)):
            best = int(iou[row].argmax())
            if iou[row, best] >= self.reid_iou_threshold and best not in assigned:
                t.pos = new_det_pos[best].view(1, -1)
                self.tracks.append(t)
                self.inactive_tracks.remove(t)
                assigned.add(best)
        keep = [i for i in range(len(new_det_pos)) if i not in assigned]
        return new_det_pos[keep], new_det_scores[keep]

    def step(self, blob):
        for t in self.tracks:
            t.last_pos = t.pos.clone()
        self.obj_detect.load_image(blob["img"])
        det_pos, det_scores = self.obj_detect.predict_boxes(blob["dets"])

        if self.tracks:
            self.align(blob)
            self.regress_tracks()
        if self.tracks:
            new = bbox_overlaps(self.get_pos(), det_pos).amax(dim=0) < 0.3
            det_pos, det_scores = det_pos[new], det_scores[new]
        if det_pos.nelement() > 0:
            self.add(*self.reid(det_pos, det_scores))

        for t in self.tracks:
            self.results.setdefault(t.id, {})[self.im_index] = t.pos[0].cpu()
        self.im_index += 1
        self.last_image = blob["img"][0]

# === batches_grown_by_their_nearest_neighbors
# thread: https://github.com/shaham-lab/SpectralNet/issues/4
# about: points are grouped by a network that learns a graph's slow waves. If the graph has few edges, neighbors of a batch's points are added
# operation: cat on cuda:1, cpu
# operands: tensors|nn_tensors
# category: created-without-device|input-not-moved|input
# line: spectralnet/_utils.py: nn_tensors = torch.tensor(nn_tensors)
# line: spectralnet/_utils.py: new_batch_x = torch.cat((new_batch_x, nn_tensors))
# repair: spectralnet/_utils.py: nn_tensors = torch.tensor(nn_tensors) -> nn_tensors = torch.tensor(nn_tensors, device=batch_x.device)
import torch

from spectralnet._trainers._spectralnet_trainer import SpectralTrainer
from spectralnet._utils import build_ann

CONFIG = {"hiddens": [16, 2], "epochs": 6, "lr": 1e-2, "batch_size": 20, "n_nbg": 4}


def main():
    torch.manual_seed(4)
    generator = torch.Generator().manual_seed(7)
    centers = torch.tensor([[0.0, 0.0, 1.0], [3.0, 3.0, 0.0]])
    X = torch.cat([center + 0.4 * torch.randn((40, 3), generator=generator) for center in centers])

    build_ann(X)
    device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")
    trainer = SpectralTrainer(CONFIG, device, is_sparse=True)
    spec_net = trainer.train(X)

    with torch.no_grad():
        embedding = spec_net(X.to(device), should_update_orth_weights=False)
    apart = (embedding[:40].mean(dim=0) - embedding[40:].mean(dim=0)).norm()
    print(f"losses {[round(loss, 3) for loss in trainer.losses]}, groups apart {apart.item():.3f}")


if __name__ == "__main__":
    main()
# --- spectralnet/_utils.py
import torch


class NeighborIndex:
    """Finds what is nearest to a vector. It knows nothing but lists of numbers."""

    def __init__(self):
        self.items = []

    def add_item(self, vector):
        self.items.append([float(each) for each in vector])

    def get_nns_by_vector(self, vector, n):
        distance = [sum((a - b) ** 2 for a, b in zip(item, vector)) for item in self.items]
        return sorted(range(len(self.items)), key=distance.__getitem__)[:n]

    def get_item_vector(self, i):
        return self.items[i]


INDEX = NeighborIndex()


def build_ann(X):
    for x in X.view(X.size(0), -1).tolist():
        INDEX.add_item(x)


def make_batch_for_sparse_grapsh(batch_x):
    batch_size = batch_x.shape[0] // 5
    new_batch_x = batch_x[:batch_size]
    batch_x = new_batch_x
    n_neighbors = 5
    for x in batch_x:
        x = x.detach().cpu().tolist()
        nn_indices = INDEX.get_nns_by_vector(x, n_neighbors)
        nn_tensors = [INDEX.get_item_vector(i) for i in nn_indices[1:]]
        nn_tensors = torch.tensor(nn_tensors)
        new_batch_x = torch.cat((new_batch_x, nn_tensors))
    return new_batch_x


def get_gaussian_kernel(distances, n_neighbors):
    """Near points have weights; between all others there is no edge."""
    near, indices = distances.topk(n_neighbors + 1, largest=False)
    scale = near[:, -1].median()
    W = torch.exp(-distances.square() / (2 * scale.square()))
    mask = torch.zeros_like(W).scatter_(1, indices, 1.0)
    W = W * mask
    return (W + W.t()) / 2
# --- spectralnet/_models.py
import torch
from torch import nn


class SpectralNetModel(nn.Module):
    def __init__(self, architecture, input_dim):
        super().__init__()
        sizes = [input_dim, *architecture]
        layers = [nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in zip(sizes, sizes[1:])]
        self.layers = nn.ModuleList(layers)
        self.register_buffer("orthonorm_weights", torch.eye(architecture[-1]))

    def _make_orthonorm_weights(self, Y):
        _, R = torch.linalg.qr(Y)
        inverse = torch.linalg.solve(R + 1e-4 * torch.eye(len(R), device=R.device), torch.eye(len(R), device=R.device))
        return Y.shape[0] ** 0.5 * inverse

    def forward(self, x, should_update_orth_weights):
        for layer in self.layers:
            x = layer(x)
        if should_update_orth_weights:
            self.orthonorm_weights = self._make_orthonorm_weights(x.detach())
        return x @ self.orthonorm_weights
# --- spectralnet/_trainers/_spectralnet_trainer.py
import torch
from torch import optim
from torch.utils.data import DataLoader, TensorDataset

from spectralnet._models import SpectralNetModel
from spectralnet._utils import get_gaussian_kernel, make_batch_for_sparse_grapsh


class SpectralTrainer:
    def __init__(self, config, device, is_sparse=False):
        self.device, self.is_sparse = device, is_sparse
        self.spectral_config = config
        self.losses = []

    def _get_data_loader(self, seed):
        generator = torch.Generator().manual_seed(seed)
        dataset = TensorDataset(self.X)
        return DataLoader(dataset, batch_size=self.spectral_config["batch_size"], shuffle=True, generator=generator)

    def train(self, X):
        self.X = X.view(X.size(0), -1)
        self.spectral_net = SpectralNetModel(self.spectral_config["hiddens"], input_dim=self.X.shape[1]).to(self.device)
        optimizer = optim.Adam(self.spectral_net.parameters(), lr=self.spectral_config["lr"])
        train_loader, ortho_loader = self._get_data_loader(1), self._get_data_loader(2)
        for _ in range(self.spectral_config["epochs"]):
            train_loss = 0.0
            for (X_grad,), (X_orth,) in zip(train_loader, ortho_loader):
                X_grad = X_grad.to(device=self.device)
                X_orth = X_orth.to(device=self.device)
                if self.is_sparse:
                    X_grad = make_batch_for_sparse_grapsh(X_grad)
                    X_orth = make_batch_for_sparse_grapsh(X_orth)

                self.spectral_net.eval()
                self.spectral_net(X_orth, should_update_orth_weights=True)

                self.spectral_net.train()
                optimizer.zero_grad()
                Y = self.spectral_net(X_grad, should_update_orth_weights=False)
                W = get_gaussian_kernel(torch.cdist(X_grad, X_grad), self.spectral_config["n_nbg"])
                loss = (W * torch.cdist(Y, Y).square()).sum() / (2 * Y.shape[0])
                loss.backward()
                optimizer.step()
                train_loss += loss.item()
            self.losses.append(train_loss / len(train_loader))
        return self.spectral_net

# === a_saved_policy_shown_without_the_switch
# thread: https://github.com/rlworkgroup/garage/issues/2318
# about: a policy learns on a card that a global switch names, and is saved. Whoever shows it later has not set the switch
# operation: (addmm|mm|linear) on cpu, cuda:1
# operands: mat1|input|self|.*observations?
# category: default-or-current-device|input-not-moved|input|module-split
# line: data = snapshotter.load(folder)
# line: policy = data["algo"].policy
# line: garage/torch/policies.py: observations = np_to_torch(observations)
# repair: data = snapshotter.load(folder) -> set_gpu_mode(True, gpu_id=GPU_ID); data = snapshotter.load(folder)
import tempfile

import numpy as np
import torch

from garage.experiment import Snapshotter, rollout, wrap_experiment
from garage.torch._functions import global_device, np_to_torch, prefer_gpu, set_gpu_mode
from garage.torch.policies import GaussianMLPPolicy

GPU_ID = 1


class PointEnv:
    """A point in a plane that should come to its goal."""

    def __init__(self, goal, seed):
        self.goal = np.array(goal)
        self.rng = np.random.default_rng(seed)
        self.spec = {"observation_dim": 2, "action_dim": 2}

    def reset(self):
        self.point = np.zeros(2)
        return self.point.copy()

    def step(self, action):
        self.point = self.point + 0.1 * np.clip(action, -1.0, 1.0)
        return self.point.copy(), -float(np.linalg.norm(self.point - self.goal))


class VPG:
    def __init__(self, env_spec, policy, lr, discount=0.9):
        self.policy, self._discount, self._lr = policy, discount, lr
        self._optimizer = torch.optim.Adam(policy.parameters(), lr=lr)

    def to(self, device=None):
        self.policy.to(device or global_device())
        self._optimizer = torch.optim.Adam(self.policy.parameters(), lr=self._lr)

    def train_once(self, paths):
        returns = []
        for path in paths:
            future = 0.0
            for reward in reversed(path["rewards"]):
                future = reward + self._discount * future
                returns.append(future)
            returns[-len(path["rewards"]) :] = returns[: -len(path["rewards"]) - 1 : -1]
        advantages = np_to_torch(np.array(returns))
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-6)
        observations = np_to_torch(np.concatenate([path["observations"] for path in paths]))
        actions = np_to_torch(np.concatenate([path["actions"] for path in paths]))
        dist, _ = self.policy(observations)
        loss = -(dist.log_prob(actions) * advantages).mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        return float(np.mean([sum(path["rewards"]) for path in paths]))


@wrap_experiment
def vpg_point(ctxt, seed=2318, n_epochs=4):
    torch.manual_seed(seed)
    env = PointEnv(goal=(0.6, -0.4), seed=seed)
    policy = GaussianMLPPolicy(env.spec, hidden_sizes=(8, 8))
    algo = VPG(env.spec, policy, lr=0.02)
    if prefer_gpu(GPU_ID):
        algo.to()
    for epoch in range(n_epochs):
        paths = [rollout(env, policy, max_episode_length=10) for _ in range(4)]
        returned = algo.train_once(paths)
        ctxt.save({"algo": algo, "env": env, "epoch": epoch})
        print(f"epoch {epoch}: return {returned:.3f}")


def sim_policy(folder):
    snapshotter = Snapshotter(folder)
    data = snapshotter.load(folder)
    policy = data["algo"].policy
    env = data["env"]
    path = rollout(env, policy, max_episode_length=15)
    print(f"shown: return {sum(path['rewards']):.3f}, ended at {path['observations'][-1].round(3).tolist()}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as log_dir:
        vpg_point(log_dir)
        sim_policy(log_dir)
# --- garage/torch/_functions.py
import torch

_DEVICE = None


def set_gpu_mode(mode, gpu_id=0):
    global _DEVICE
    _DEVICE = torch.device(f"cuda:{gpu_id}" if mode else "cpu")


def prefer_gpu(gpu_id=0):
    set_gpu_mode(torch.cuda.is_available(), gpu_id)
    return torch.cuda.is_available()


def global_device():
    return _DEVICE


def np_to_torch(array):
    return torch.from_numpy(array).float().to(device=global_device())
# --- garage/torch/policies.py
import numpy as np
import torch
from torch import nn

from garage.torch._functions import np_to_torch


class GaussianMLPPolicy(nn.Module):
    def __init__(self, env_spec, hidden_sizes):
        super().__init__()
        sizes = [env_spec["observation_dim"], *hidden_sizes]
        layers = []
        for n_in, n_out in zip(sizes, sizes[1:]):
            layers += [nn.Linear(n_in, n_out), nn.Tanh()]
        self._mean = nn.Sequential(*layers, nn.Linear(sizes[-1], env_spec["action_dim"]))
        self._log_std = nn.Parameter(torch.full((env_spec["action_dim"],), -2.0))

    def forward(self, observations):
        mean = self._mean(observations)
        dist = torch.distributions.Independent(torch.distributions.Normal(mean, self._log_std.exp()), 1)
        return dist, {"mean": mean, "log_std": self._log_std.expand_as(mean)}

    def get_action(self, observation):
        actions, infos = self.get_actions(observation[None])
        return actions[0], {key: value[0] for key, value in infos.items()}

    def get_actions(self, observations):
        with torch.no_grad():
            if isinstance(observations, np.ndarray):
                observations = np_to_torch(observations)
            dist, info = self.forward(observations)
            return dist.mean.cpu().numpy(), {key: value.cpu().numpy() for key, value in info.items()}
# --- garage/experiment.py
import functools
import pathlib

import cloudpickle
import numpy as np

from garage.torch._functions import set_gpu_mode


class Snapshotter:
    def __init__(self, snapshot_dir):
        self._path = pathlib.Path(snapshot_dir) / "params.pkl"

    def save(self, params):
        self._path.write_bytes(cloudpickle.dumps(params))

    def load(self, load_dir):
        return cloudpickle.loads((pathlib.Path(load_dir) / self._path.name).read_bytes())


def wrap_experiment(function):
    """An experiment gets what it saves with, and leaves a clean process behind."""

    @functools.wraps(function)
    def run(log_dir, **kwargs):
        try:
            return function(Snapshotter(log_dir), **kwargs)
        finally:
            set_gpu_mode(False)

    return run


def rollout(env, agent, max_episode_length):
    observations, actions, rewards = [], [], []
    observation = env.reset()
    for _ in range(max_episode_length):
        action, info = agent.get_action(observation)
        action = action + 0.3 * env.rng.standard_normal(2)
        observations.append(observation)
        actions.append(action)
        observation, reward = env.step(action)
        rewards.append(reward)
    return {"observations": np.array(observations), "actions": np.array(actions), "rewards": rewards}

# === kinds_of_moves_each_with_numbers_of_its_own
# thread: https://github.com/opendilab/DI-engine/pull/220
# about: an agent chooses a kind of move and numbers that go with it. To judge a kind, only its own numbers are put into a table
# operation: (scatter_|scatter) on cpu, cuda:0
# operands: self|mp_action|index|.*action_scatter_index.*|src|.*action_args.*
# category: created-without-device|state-not-registered
# line: ding/model/template/pdqn.py: mp_action = torch.full(shape, fill_value=-2.0)
# line: ding/model/template/pdqn.py: index = self.action_scatter_index.view(1, -1, 1).repeat(dis_x.shape[0], 1, 1)
# line: ding/model/template/pdqn.py: self.action_scatter_index = index
# repair: ding/model/template/pdqn.py: mp_action = torch.full(shape, fill_value=-2.0) -> mp_action = torch.full(shape, fill_value=-2.0, device=dis_x.device)
# repair: ding/model/template/pdqn.py: index = self.action_scatter_index.view(1, -1, 1).repeat(dis_x.shape[0], 1, 1) ->
#   index = self.action_scatter_index.view(1, -1, 1).repeat(dis_x.shape[0], 1, 1).to(dis_x.device)
import torch

from ding.model.template.pdqn import PDQN
from ding.policy.pdqn import PDQNPolicy
from ding.utils import SimpleEnv, deep_merge

main_config = dict(
    policy=dict(
        cuda=True,
        model=dict(
            obs_shape=4,
            action_shape=dict(action_type_shape=3, action_args_shape=2),
            encoder_hidden_size_list=[16, 12],
            multi_pass=True,
            action_mask=[[1, 0], [0, 1], [0, 0]],
        ),
        learn=dict(batch_size=12, learning_rate_dis=3e-3, learning_rate_cont=1e-3),
    ),
)


def serial_pipeline(config, seed, max_iterations):
    torch.manual_seed(seed)
    cfg = deep_merge(PDQNPolicy.config, config["policy"])
    policy = PDQNPolicy(cfg, PDQN(**cfg["model"]))
    env = SimpleEnv(seed)
    for _ in range(max_iterations):
        obs = env.observe(cfg["learn"]["batch_size"])
        action = policy.collect_forward(obs)
        reward = env.step(obs, action)
        info = policy.learn_forward({"obs": obs, "reward": reward, **action})
    return reward.mean().item(), info


if __name__ == "__main__":
    reward_mean, info = serial_pipeline(main_config, seed=0, max_iterations=5)
    print(f"reward {reward_mean:.4f}", {name: round(value, 4) for name, value in info.items()})
# --- ding/utils.py
import torch


def deep_merge(first, second):
    merged = dict(first)
    for key, value in second.items():
        merged[key] = deep_merge(first[key], value) if isinstance(first.get(key), dict) else value
    return merged


def to_device(item, device):
    if isinstance(item, dict):
        return {key: to_device(value, device) for key, value in item.items()}
    return item.to(device)


class SimpleEnv:
    """Accelerate, turn or brake: how much is right is seen in what the agent observes."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def observe(self, n):
        return torch.randn((n, 4), generator=self.generator)

    def step(self, obs, action):
        right_type = obs[:, :3].argmax(dim=1)
        chosen = torch.cat([action["action_args"], torch.zeros(len(obs), 1)], dim=1).gather(1, action["action_type"][:, None])[:, 0]
        return (right_type == action["action_type"]).float() - 0.5 * (chosen - torch.tanh(obs[:, 3])).square()
# --- ding/model/template/pdqn.py
import torch
from torch import nn


class PDQN(nn.Module):
    """Judges kinds of moves after it has chosen their numbers. With multi_pass each kind sees its own numbers only."""

    mode = ["compute_discrete", "compute_continuous"]

    def __init__(self, obs_shape, action_shape, encoder_hidden_size_list, multi_pass=False, action_mask=None):
        super().__init__()
        self.action_args_shape = action_shape["action_args_shape"]
        self.action_type_shape = action_shape["action_type_shape"]
        self.multi_pass = multi_pass
        if self.multi_pass:
            nonzero = torch.nonzero(torch.LongTensor(action_mask))
            index = torch.zeros(self.action_args_shape).long()
            index.scatter_(dim=0, index=nonzero[:, 1], src=nonzero[:, 0])
            self.action_scatter_index = index

        sizes = [obs_shape, *encoder_hidden_size_list]
        layers = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in zip(sizes, sizes[1:])]
        self.encoder = nn.Sequential(*layers)
        dis_head = nn.Linear(sizes[-1] + self.action_args_shape, self.action_type_shape)
        cont_head = nn.Sequential(nn.Linear(sizes[-1], self.action_args_shape), nn.Tanh())
        self.actor_head = nn.ModuleList([dis_head, cont_head])

    def forward(self, inputs, mode):
        assert mode in self.mode, f"not support forward mode: {mode}/{self.mode}"
        return getattr(self, mode)(inputs)

    def compute_continuous(self, inputs):
        return {"action_args": self.actor_head[1](self.encoder(inputs))}

    def compute_discrete(self, inputs):
        dis_x = self.encoder(inputs["state"])
        action_args = inputs["action_args"]
        if self.multi_pass:
            shape = (dis_x.shape[0], self.action_args_shape, self.action_type_shape)
            mp_action = torch.full(shape, fill_value=-2.0)
            index = self.action_scatter_index.view(1, -1, 1).repeat(dis_x.shape[0], 1, 1)
            mp_action.scatter_(dim=-1, index=index, src=action_args.unsqueeze(-1))
            mp_action = mp_action.permute(0, 2, 1)
            mp_state = dis_x.unsqueeze(1).repeat(1, self.action_type_shape, 1)
            logit = self.actor_head[0](torch.cat([mp_state, mp_action], dim=-1))
            logit = torch.diagonal(logit, dim1=-2, dim2=-1)
        else:
            logit = self.actor_head[0](torch.cat((dis_x, action_args), dim=-1))
        return {"logit": logit, "action_args": action_args}
# --- ding/policy/pdqn.py
import torch

from ding.utils import to_device


class PDQNPolicy:
    config = dict(cuda=False, learn=dict(batch_size=64, learning_rate_dis=3e-4, learning_rate_cont=3e-4))

    def __init__(self, cfg, model):
        self._cuda = cfg["cuda"] and torch.cuda.is_available()
        self._device = f"cuda:{torch.cuda.current_device()}" if self._cuda else "cpu"
        self._model = model.to(self._device)
        dis_head, cont_head = model.actor_head
        self._dis_optimizer = torch.optim.Adam([*dis_head.parameters(), *model.encoder.parameters()], lr=cfg["learn"]["learning_rate_dis"])
        self._cont_optimizer = torch.optim.Adam(cont_head.parameters(), lr=cfg["learn"]["learning_rate_cont"])

    def collect_forward(self, data):
        data = to_device(data, self._device)
        with torch.no_grad():
            action_args = self._model.forward(data, "compute_continuous")["action_args"]
            output = self._model.forward({"state": data, "action_args": action_args}, "compute_discrete")
        action = {"action_type": output["logit"].argmax(dim=-1), "action_args": output["action_args"]}
        return to_device(action, "cpu")

    def learn_forward(self, data):
        data = to_device(data, self._device)
        inputs = {"state": data["obs"], "action_args": data["action_args"]}
        logit = self._model.forward(inputs, "compute_discrete")["logit"]
        dis_loss = (logit.gather(1, data["action_type"][:, None])[:, 0] - data["reward"]).square().mean()
        self._dis_optimizer.zero_grad()
        dis_loss.backward()
        self._dis_optimizer.step()

        inputs["action_args"] = self._model.forward(data["obs"], "compute_continuous")["action_args"]
        cont_loss = -self._model.forward(inputs, "compute_discrete")["logit"].sum(dim=-1).mean()
        self._cont_optimizer.zero_grad()
        cont_loss.backward()
        self._cont_optimizer.step()
        return {"dis_loss": dis_loss.item(), "cont_loss": cont_loss.item()}
