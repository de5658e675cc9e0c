# === bilstm_replicas
# thread: https://github.com/taishan1994/pytorch_bert_bilstm_crf_ner/issues/19
# about: the device is an attribute that every replica has copied; the first replica runs
# operation: lstm on cuda:1, cuda:0
# operands: hidden|h0|hx, seq_out|input
# category: data-parallel|default-or-current-device
# error: Input and hidden tensors are not at the same device, found input tensor at cuda:1 and hidden tensor at cuda:0
# line: seq_out, _ = self.lstm(seq_out, hidden)
# line: hidden = self.init_hidden(
# line: h0 = torch.zeros(
# line: c0 = torch.zeros(
# repair: seq_out, _ = self.lstm(seq_out, hidden) -> seq_out, _ = self.lstm(seq_out)
from types import SimpleNamespace

import torch
from torch import nn


class NerModel(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        gpu_ids = args.gpu_ids.split(",")
        self.device = torch.device("cpu" if gpu_ids[0] == "-1" else "cuda:" + gpu_ids[0])
        self.embedding = nn.Embedding(args.vocab_size, args.embed_dim, padding_idx=0)
        self.lstm = nn.LSTM(args.embed_dim, args.lstm_hidden, args.num_layers, bidirectional=True, batch_first=True)
        self.linear = nn.Linear(2 * args.lstm_hidden, args.num_tags)

    def init_hidden(self, batch_size):
        shape = 2 * self.args.num_layers, batch_size, self.args.lstm_hidden
        h0 = torch.zeros(shape).to(self.device)
        c0 = torch.zeros(shape).to(self.device)
        return h0, c0

    def forward(self, token_ids, attention_masks, labels=None):
        seq_out = self.embedding(token_ids)
        hidden = self.init_hidden(seq_out.size(0))
        seq_out, _ = self.lstm(seq_out, hidden)
        logits = self.linear(seq_out)
        if labels is None:
            return logits
        active = attention_masks.view(-1) == 1
        loss = nn.functional.cross_entropy(logits.flatten(0, 1)[active], labels.view(-1)[active])
        return loss.unsqueeze(0), logits


class Trainer:
    def __init__(self, args, batches):
        self.args, self.batches = args, batches
        gpu_ids = [int(i) for i in args.gpu_ids.split(",")]
        self.device = torch.device("cuda", gpu_ids[0])
        model = NerModel(args).to(self.device)
        self.model = nn.DataParallel(model, device_ids=gpu_ids) if len(gpu_ids) > 1 else model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)

    def train(self):
        for batch in self.batches:
            batch = {name: value.to(self.device) for name, value in batch.items()}
            losses, _ = self.model(batch["token_ids"], batch["attention_masks"], batch["labels"])
            loss = losses.mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


def sentences(n, length):
    for _ in range(n):
        token_ids = torch.randint(1, 30, (4, length))
        token_ids[1, length - 2 :] = 0
        yield {"token_ids": token_ids, "attention_masks": (token_ids > 0).long(), "labels": token_ids % 5}


torch.manual_seed(19)
args = SimpleNamespace(gpu_ids="0,1", vocab_size=30, embed_dim=8, lstm_hidden=6, num_layers=1, num_tags=5)
print("loss", round(Trainer(args, list(sentences(3, 7))).train(), 4))

# === correlation_cost
# thread: https://github.com/cupy/cupy/issues/7979
# about: the kernel is compiled from a string by CuPy, which takes addresses; the same line has worked on the first device
# kind: wrong-current-device
# operation: correlate on cuda:0, cuda:1
# operands: one|two|output
# category: unguarded-kernel
# error: illegal
# line: launch("correlate")(
# repair: launch("correlate")( -> with torch.cuda.device(one.device): launch("correlate")(
import functools

import cupy
import torch

SOURCE = r"""
extern "C" __global__ void correlate(const int n, const float* one, const float* two, float* output,
                                     const int channels, const int height, const int width, const int radius) {
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= n) return;
    const int side = 2 * radius + 1;
    const int x = index % width, y = (index / width) % height;
    const int shift = (index / (width * height)) % (side * side), sample = index / (width * height * side * side);
    const int u = x + shift % side - radius, v = y + shift / side - radius;
    float sum = 0;
    if (u >= 0 && u < width && v >= 0 && v < height) {
        for (int c = 0; c < channels; ++c) {
            sum += one[((sample * channels + c) * height + y) * width + x] * two[((sample * channels + c) * height + v) * width + u];
        }
    }
    output[index] = sum / channels;
}
"""


@functools.cache
def launch(name):
    return cupy.RawKernel(SOURCE, name)


def correlation(one, two, radius=2):
    """How well every place of the one fits the places around it in the other."""
    samples, channels, height, width = one.shape
    output = one.new_zeros(samples, (2 * radius + 1) ** 2, height, width)
    n = output.numel()
    launch("correlate")(
        grid=((n + 127) // 128, 1, 1),
        block=(128, 1, 1),
        args=(
            cupy.int32(n), one.data_ptr(), two.data_ptr(), output.data_ptr(),
            cupy.int32(channels), cupy.int32(height), cupy.int32(width), cupy.int32(radius),
        ),
    )
    torch.cuda.synchronize()
    return output


torch.manual_seed(7979)
first, second = torch.rand(2, 1, 4, 6, 8).unbind()
volumes = [correlation(first.to(device), second.to(device)) for device in ("cuda:0", "cuda:1")]
print("volumes", *(f"{tuple(volume.shape)} on {volume.device}" for volume in volumes))

# === default_boxes
# thread: https://github.com/pytorch/vision/issues/9414
# about: a module that was moved, with tensors in a list
# operation: cat on cuda:0, cpu
# operands: shifts|tensors, wh_pairs
# category: state-not-registered|created-without-device
# line: self._wh_pairs = [
# line: default_box = torch.cat(
# repair: default_box = torch.cat((shifts, wh_pairs), dim=1) -> default_box = torch.cat((shifts, wh_pairs.to(shifts.device)), dim=1)
import math
from typing import List

import torch
from torch import Tensor, nn


class DefaultBoxGenerator(nn.Module):
    def __init__(self, aspect_ratios: List[List[int]], scales: List[float]):
        super().__init__()
        self.aspect_ratios = aspect_ratios
        self.scales = scales
        self._wh_pairs = [self._generate_wh_pairs(s_k, ratios) for s_k, ratios in zip(scales, aspect_ratios)]

    def _generate_wh_pairs(self, s_k: float, ratios: List[int], dtype=torch.float32) -> Tensor:
        pairs = [[s_k, s_k]]
        for ratio in ratios:
            root = math.sqrt(ratio)
            pairs += [[s_k * root, s_k / root], [s_k / root, s_k * root]]
        return torch.as_tensor(pairs, dtype=dtype)

    def _grid_default_boxes(self, grid_sizes: List[List[int]], like: Tensor) -> Tensor:
        default_boxes = []
        for k, (h, w) in enumerate(grid_sizes):
            shifts_x = ((torch.arange(0, w, device=like.device) + 0.5) / w).to(like.dtype)
            shifts_y = ((torch.arange(0, h, device=like.device) + 0.5) / h).to(like.dtype)
            shift_y, shift_x = torch.meshgrid(shifts_y, shifts_x, indexing="ij")
            wh_pairs = self._wh_pairs[k].repeat(h * w, 1)
            shifts = torch.stack((shift_x.flatten(), shift_y.flatten()), dim=-1)
            shifts = shifts.repeat_interleave(len(self._wh_pairs[k]), dim=0)
            default_box = torch.cat((shifts, wh_pairs), dim=1)
            default_boxes.append(default_box)
        return torch.cat(default_boxes, dim=0)

    def forward(self, feature_maps: List[Tensor]) -> Tensor:
        return self._grid_default_boxes([list(f.shape[-2:]) for f in feature_maps], feature_maps[0])


class SSD(nn.Module):
    def __init__(self, anchor_generator: DefaultBoxGenerator, boxes_per_cell: int):
        super().__init__()
        self.backbone = nn.ModuleList([nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.Conv2d(6, 6, 3, stride=2, padding=1)])
        self.head = nn.Conv2d(6, 4 * boxes_per_cell, 1)
        self.anchor_generator = anchor_generator

    def forward(self, images: Tensor) -> Tensor:
        features = []
        for layer in self.backbone:
            images = layer(images).relu()
            features.append(images)
        offsets = torch.cat([self.head(f).permute(0, 2, 3, 1).reshape(len(f), -1, 4) for f in features], dim=1)
        return self.anchor_generator(features) + 0.1 * offsets


torch.manual_seed(9414)
ssd = SSD(DefaultBoxGenerator([[2], [2]], [0.2, 0.5]), boxes_per_cell=3).cuda().eval()
with torch.no_grad():
    boxes = ssd(torch.rand(1, 3, 8, 8).cuda())
print(tuple(boxes.shape), round(boxes.mean().item(), 4))

# === fabric_resume
# thread: https://github.com/Lightning-AI/pytorch-lightning/issues/19225
# about: raised in torch/optim; what sets the run up moves the model and leaves the optimizer's state
# operation: add|mul|lerp on cuda:0, cpu
# operands: momentum_buffer|bufs|buf|state, device_grads|grad
# category: optimizer
# line: main.py: optimizer.load_state_dict(
# line: main.py: fabric.setup(model, optimizer)
# line: fabric.py: module.to(self.device)
# repair: main.py: optimizer.load_state_dict(checkpoint["optimizer"]) -> model, optimizer = fabric.setup(model, optimizer)  # first
# repair: main.py: model, optimizer = fabric.setup(model, optimizer) -> optimizer.load_state_dict(checkpoint["optimizer"])  # then
import io

import torch
from torch import nn

from fabric import Fabric


def batches(n):
    generator = torch.Generator().manual_seed(19225)
    return [torch.randn(8, 5, generator=generator) for _ in range(n)]


def fit(accelerator, n_batches, checkpoint=None):
    torch.manual_seed(1)
    fabric = Fabric(accelerator)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if checkpoint is not None:
        checkpoint = torch.load(checkpoint, map_location="cpu")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        model, optimizer = fabric.setup(model, optimizer)
    else:
        model, optimizer = fabric.setup(model, optimizer=optimizer)
    for batch in fabric.setup_dataloader(batches(n_batches)):
        optimizer.zero_grad()
        loss = (model(batch) - batch.mean(1, keepdim=True)).square().mean()
        fabric.backward(loss)
        optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    return file, loss.item()


saved, _ = fit("cpu", 3)
_, loss = fit("gpu", 3, checkpoint=saved)
print("loss", round(loss, 4))
# --- fabric.py
import torch


class Fabric:
    """Takes a training loop to a device and leaves the rest of it as it is."""

    def __init__(self, accelerator="gpu"):
        self.device = torch.device("cuda", 0) if accelerator == "gpu" else torch.device("cpu")

    def setup(self, module, optimizer):
        module.to(self.device)
        return module, optimizer

    def setup_dataloader(self, loader):
        for batch in loader:
            yield batch.to(self.device)

    def backward(self, loss):
        loss.backward()

# === rank_not_moved
# thread: https://github.com/pytorch/pytorch/issues/100243
# about: raised in Python, by the wrapper's own check; the device was chosen three lines above, for the data alone
# operation: |DistributedDataParallel on cpu, cuda:0
# operands:
# category: data-parallel|module-split|input-not-moved
# error: DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU modules or CPU modules, but got device_ids \[0\], output_device 0, and module parameters \{device\(type='cpu'\)\}
# line: model = DistributedDataParallel(
# line: model = create_model(
# repair: model = create_model(n_classes=4) -> model = create_model(n_classes=4).to(device)
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))


def create_model(n_classes):
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, n_classes)
    )


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    correct = total = 0
    for images, labels in loader:
        scores = model(images.to(device))
        correct += (scores.argmax(1) == labels.to(device)).sum().item()
        total += len(labels)
    return correct, total


def main():
    torch.cuda.set_device(LOCAL_RANK)
    device = torch.device("cuda", LOCAL_RANK)
    torch.manual_seed(100243)
    model = create_model(n_classes=4)
    model = DistributedDataParallel(model, device_ids=[LOCAL_RANK], output_device=LOCAL_RANK)
    loader = [(torch.rand(5, 3, 8, 8), torch.arange(5) % 4) for _ in range(2)]
    correct, total = evaluate(model, loader, device)
    if dist.get_rank() == 0:
        print("of", total, "images", correct, "are right")


with tempfile.TemporaryDirectory() as folder:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=LOCAL_RANK, world_size=WORLD_SIZE)
    try:
        main()
    finally:
        dist.destroy_process_group()

# === restart_rng
# thread: https://github.com/lanl/hippynn/pull/12
# about: raised by a generator, which gets its state from a file that was read to another GPU as a whole
# operation:  on cuda:0, cpu
# operands:
# category: generator|input
# error: RNG state must be a torch.ByteTensor
# line: serialization.py: torch.random.set_rng_state(
# line: serialization.py: return torch.load(
# line: main.py: state = load_checkpoint(
# repair: serialization.py: torch.random.set_rng_state(state["torch_rng_state"]) -> torch.random.set_rng_state(state["torch_rng_state"].cpu())
import torch
from torch import nn

from serialization import create_state, load_checkpoint, restore_checkpoint, save_checkpoint


def network():
    return nn.Sequential(nn.Linear(3, 10), nn.Tanh(), nn.Dropout(0.1), nn.Linear(10, 1))


def energies(x):
    return (x.square().sum(dim=1, keepdim=True) + 1).log()


def train(model, optimizer, device, epochs):
    for _ in range(epochs):
        # Drawn on the CPU, so that a run is the same wherever it goes on.
        x = torch.rand(16, 3)
        loss = (model(x.to(device)) - energies(x).to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(12)
first = torch.device("cuda:1")
model = network().to(first).eval()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
train(model, optimizer, first, epochs=4)
file = save_checkpoint(create_state(model, optimizer, epoch=4))

second = torch.device("cuda:0")
model = network().to(second).eval()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
state = load_checkpoint(file, map_location=second)
epoch = restore_checkpoint(state, model, optimizer)
loss = train(model, optimizer, second, epochs=6 - epoch)
print("epoch 6, loss", round(loss, 4))
# --- serialization.py
import io

import torch


def create_state(model, optimizer, epoch):
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "torch_rng_state": torch.random.get_rng_state(),
    }


def save_checkpoint(state):
    file = io.BytesIO()
    torch.save(state, file)
    return io.BytesIO(file.getvalue())


def load_checkpoint(file, map_location=None):
    return torch.load(file, map_location=map_location)


def restore_checkpoint(state, model, optimizer):
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.random.set_rng_state(state["torch_rng_state"])
    return state["epoch"]

# === split_students
# thread: https://github.com/hcnoh/knowledge-tracing-collection-pytorch/issues/1
# about: the generator is a default argument of torch.utils.data; no tensor of the program is wrong
# operation: randperm|random on cuda:0, cpu
# operands: generator
# category: generator|default-or-current-device
# error: Expected a 'cuda' device type for generator but found 'cpu'
# line: train_set, test_set = random_split(
# line: torch.set_default_device(
# repair: train_set, test_set = random_split(dataset, [6, 2]) -> train_set, test_set = random_split(dataset, [6, 2], generator=torch.Generator(device="cuda"))
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

if torch.cuda.is_available():
    torch.set_default_device("cuda")


class Answers(Dataset):
    """Which questions a student was asked, and whether the answers were right."""

    def __init__(self, n_students, n_questions, length):
        rng = np.random.RandomState(1)
        self.q_seqs = rng.randint(0, n_questions, (n_students, length))
        self.r_seqs = rng.randint(0, 2, (n_students, length))

    def __getitem__(self, index):
        return self.q_seqs[index], self.r_seqs[index]

    def __len__(self):
        return len(self.q_seqs)


class DKT(nn.Module):
    def __init__(self, n_questions, dim):
        super().__init__()
        self.n_questions = n_questions
        self.register_buffer("difficulty", torch.arange(n_questions) / n_questions)
        self.half_life = nn.Parameter(torch.full((dim,), 0.5))

    def forward(self, q, r):
        right = (r - self.difficulty[q]).cumsum(dim=1)
        return torch.sigmoid(right * self.half_life.mean())


def collate(batch):
    q, r = zip(*batch)
    return torch.tensor(np.stack(q)), torch.tensor(np.stack(r))


def evaluate(model, loader):
    with torch.no_grad():
        return sum(((model(q, r) > 0.5).long() == r).sum().item() for q, r in loader)


dataset = Answers(n_students=8, n_questions=10, length=7)
train_set, test_set = random_split(dataset, [6, 2])
model = DKT(10, dim=4)
hits = [evaluate(model, DataLoader(part, batch_size=2, collate_fn=collate)) for part in (train_set, test_set)]
print("students", len(train_set) + len(test_set), "answers told rightly", sum(hits))

# === traced_forward
# thread: https://github.com/openvinotoolkit/nncf/pull/3310
# about: what the replicas copy is a forward that is bound to the first module
# operation: conv on cuda:0, cuda:1
# operands: x|input|images, weight|bias
# category: data-parallel
# line: layer.forward = traced(
# line: forward = traced(
# repair: layer.forward = traced(layer.forward, name, record) -> type(layer).forward = traced(type(layer).forward, name, record)
import functools

import torch
from torch import nn


class QuantConv(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 1)
        self.step = 0.125

    def forward(self, x):
        x = torch.round(x / self.step) * self.step
        return self.conv(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3)
        self.quant = QuantConv(4)

    def forward(self, x):
        return self.quant(torch.relu(self.stem(x))).mean(dim=(2, 3))


def traced(forward, name, record):
    @functools.wraps(forward)
    def wrapper(*args):
        out = forward(*args)
        record[name] = max(record.get(name, 0), out.abs().max().item())
        return out

    return wrapper


def trace(net, kind):
    """Notes the largest value that any layer of a kind has put out."""
    record = {}
    for name, layer in net.named_modules():
        if isinstance(layer, kind):
            layer.forward = traced(layer.forward, name, record)
    return record


torch.manual_seed(3310)
net = Net().to("cuda:0").eval()
ranges = trace(net, QuantConv)
parallel_net = nn.DataParallel(net, device_ids=[0, 1])
with torch.no_grad():
    out = parallel_net(torch.rand(6, 1, 5, 5).to("cuda:0"))
print(sorted(ranges), round(out.sum().item(), 4))

# === wave_levels
# thread: https://github.com/pranavphoenix/WaveMix/pull/8
# about: layers that belong to a file, not to the model; they are on the first device since it was imported
# operation: conv on cuda:1, cuda:0
# operands: x|input, self.filters|filters|weight
# category: state-not-registered|default-or-current-device|module-split
# error: on the same device|should be the same
# line: wavelets.py: xf1 = DWTForward(
# line: wavelets.py: xf2 = DWTForward(
# line: wavemix.py: bands = xf1(x)
# line: main.py: model = WaveMix(
# repair: wavemix.py: self.norm = nn.BatchNorm2d(dim) -> self.norm = nn.BatchNorm2d(dim); self.xf1, self.xf2 = DWTForward(levels=1), DWTForward(levels=2)
# repair: wavemix.py: bands = xf1(x) -> bands = self.xf1(x)
# repair: wavemix.py: coarse = xf2(x) -> coarse = self.xf2(x)
# repair: wavemix.py: from wavelets import xf1, xf2 -> from wavelets import DWTForward
import torch

from wavemix import WaveMix

torch.manual_seed(8)
device = torch.device("cuda:1")
model = WaveMix(num_classes=3, dim=6, depth=2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.rand(4, 3, 16, 16).to(device), torch.tensor([0, 2, 1, 0]).to(device)
for _ in range(2):
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
# --- wavelets.py
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda:0" if torch.cuda.is_available() else "cpu"


class DWTForward(nn.Module):
    """Haar's transform: four bands of half the size, of which the smooth one can be split again."""

    def __init__(self, levels=1):
        super().__init__()
        self.levels = levels
        smooth, rough = torch.tensor([1.0, 1.0]) / 2, torch.tensor([1.0, -1.0]) / 2
        pairs = [(smooth, smooth), (smooth, rough), (rough, smooth), (rough, rough)]
        self.register_buffer("filters", torch.stack([torch.outer(a, b) for a, b in pairs]).unsqueeze(1))

    def forward(self, x):
        for _ in range(self.levels):
            batch, channels, height, width = x.shape
            bands = F.conv2d(x.reshape(batch * channels, 1, height, width), self.filters, stride=2)
            bands = bands.view(batch, channels, 4, height // 2, width // 2)
            x = bands[:, :, 0]
        return bands.flatten(1, 2)


xf1 = DWTForward(levels=1).to(device)
xf2 = DWTForward(levels=2).to(device)
# --- wavemix.py
import torch
from torch import nn

from wavelets import xf1, xf2


class WaveBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.reduction = nn.Conv2d(dim, dim // 2, 1)
        self.fine = nn.ConvTranspose2d(2 * dim, dim, 2, stride=2)
        self.rest = nn.ConvTranspose2d(2 * dim, dim, 4, stride=4)
        self.norm = nn.BatchNorm2d(dim)

    def forward(self, inputs):
        x = self.reduction(inputs)
        bands = xf1(x)
        coarse = xf2(x)
        return inputs + self.norm(self.fine(bands) + self.rest(coarse))


class WaveMix(nn.Module):
    def __init__(self, num_classes, dim, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, 3, padding=1)
        self.layers = nn.ModuleList(WaveBlock(dim) for _ in range(depth))
        self.head = nn.Linear(dim, num_classes)

    def forward(self, images):
        x = self.stem(images)
        for block in self.layers:
            x = torch.relu(block(x))
        return self.head(x.mean(dim=(2, 3)))
