# === a_first_look_at_fields_from_above
# thread: https://github.com/syuu1987/geekTime-semantic-segmentation/issues/1
# about: a small network is to say of each pixel of a picture what grows there. Before a long training one batch goes through it, to see what the loss and the
#   overlap are by chance
# operation: native_batch_norm|batch_norm|cudnn_batch_norm|_batch_norm_impl_index|batch_norm_.* on cuda:0, cpu
# operands: weight|bias|running_mean|running_var
# category: created-without-device|module-split|state-not-registered
# line: model.py: x = nn.BatchNorm2d(num_features=self.features)(x)
# line: model.py: self.features = features
# repair: model.py: self.features = features -> self.norm = nn.BatchNorm2d(num_features=features)
# repair: model.py: x = nn.BatchNorm2d(num_features=self.features)(x) -> x = self.norm(x)
import argparse

import torch
from torch.utils.data import DataLoader

from dataset import LandCover
from metrics import SegmentationMetric
from model import UNet


def get_args():
    parser = argparse.ArgumentParser(description='语义分割')
    parser.add_argument('--batch_size', type=int, default=4)
    parser.add_argument('--num_classes', type=int, default=4)
    parser.add_argument('--lr', type=float, default=1e-3)
    parser.add_argument('--check', action='store_true', default=True, help='只跑一个 batch')
    return parser.parse_args()


def main():
    args = get_args()
    torch.manual_seed(20)
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    net = UNet(in_channels=3, num_classes=args.num_classes)
    net = net.to(device)
    criterion = torch.nn.CrossEntropyLoss().to(device)
    metric = SegmentationMetric(args.num_classes)
    train_loader = DataLoader(LandCover(8, args.num_classes), batch_size=args.batch_size, shuffle=False)

    for index, (image, mask) in enumerate(train_loader):
        image, mask = image.to(device), mask.to(device)
        pred = net(image)
        loss = criterion(pred, mask)
        metric.update(pred.argmax(dim=1), mask)
        print('batch: {}, loss: {:.4f}, mIoU: {:.4f}'.format(index, loss.item(), metric.miou()))
        if args.check:
            break


if __name__ == '__main__':
    main()
# --- model.py
import torch
from torch import nn


class DoubleConv(nn.Module):
    def __init__(self, in_channels, features):
        super(DoubleConv, self).__init__()
        self.features = features
        self.conv1 = nn.Conv2d(in_channels, features, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(features, features, kernel_size=3, padding=1)

    def forward(self, input):
        x = self.conv1(input)
        x = nn.BatchNorm2d(num_features=self.features)(x)
        x = nn.ReLU(inplace=True)(x)
        x = self.conv2(x)
        x = nn.ReLU(inplace=True)(x)
        return x


class UNet(nn.Module):
    def __init__(self, in_channels, num_classes, features=6):
        super(UNet, self).__init__()
        self.encode1 = DoubleConv(in_channels, features)
        self.encode2 = DoubleConv(features, features * 2)
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.up = nn.ConvTranspose2d(features * 2, features, kernel_size=2, stride=2)
        self.decode1 = DoubleConv(features * 2, features)
        self.classifier = nn.Conv2d(features, num_classes, kernel_size=1)

    def forward(self, x):
        skip = self.encode1(x)
        x = self.encode2(self.pool(skip))
        x = torch.cat([skip, self.up(x)], dim=1)
        return self.classifier(self.decode1(x))
# --- dataset.py
import torch
from torch.utils.data import Dataset


class LandCover(Dataset):
    """遥感图像: each class has a colour of its own, and some noise."""

    def __init__(self, length, num_classes, size=16):
        draw = torch.Generator().manual_seed(7)
        self.masks = torch.randint(0, num_classes, (length, size // 4, size // 4), generator=draw)
        self.masks = self.masks.repeat_interleave(4, dim=1).repeat_interleave(4, dim=2)
        colours = torch.rand(num_classes, 3, generator=draw)
        noise = torch.randn(length, 3, size, size, generator=draw)
        self.images = colours[self.masks].permute(0, 3, 1, 2) + 0.1 * noise

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], self.masks[index]
# --- metrics.py
import torch


class SegmentationMetric:
    def __init__(self, num_classes):
        self.num_classes = num_classes
        self.confusion = torch.zeros(num_classes, num_classes)

    def update(self, pred, mask):
        pairs = mask.flatten() * self.num_classes + pred.flatten()
        counts = torch.bincount(pairs.cpu(), minlength=self.num_classes ** 2)
        self.confusion += counts.view(self.num_classes, self.num_classes)

    def miou(self):
        both = self.confusion.diag()
        either = self.confusion.sum(0) + self.confusion.sum(1) - both
        return (both / either.clamp(min=1)).mean().item()

# === a_short_story_read_further
# thread: https://github.com/rasbt/LLMs-from-scratch/issues/232
# about: a small language model was trained for an epoch in one session, and its training goes on in another, from a file that has all it needs
# operation: _foreach_lerp_|lerp_ on cpu, cuda:0
# operands: self|tensors1|.*exp_avg.*|.*grad.*
# category: optimizer|checkpoint
# line: optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
# line: model.to(device)
# line: checkpoint = torch.load("model_and_optimizer.pth")
# line: optimizer = torch.optim.AdamW(model.parameters(), lr=0.004
# line: model = GPTModel(GPT_CONFIG_124M)
# line: model.load_state_dict(checkpoint["model_state_dict"])
# repair: model.load_state_dict(checkpoint["model_state_dict"]) -> model.load_state_dict(checkpoint["model_state_dict"]); model.to(device)
# %% [markdown]
# Exercise 5.4: Continued pretraining

# %%
import torch
from torch import nn

from previous_chapters import GPTModel, calc_loss_batch, create_dataloader_v1, evaluate_model

GPT_CONFIG_124M = {
    "vocab_size": 28,      # Vocabulary size
    "context_length": 12,  # Shortened context length (orig: 1024)
    "emb_dim": 20,         # Embedding dimension
    "n_heads": 2,          # Number of attention heads
    "n_layers": 2,         # Number of layers
    "drop_rate": 0.0,      # Dropout rate
}

text_data = "i had always thought jack gisburn rather a cheap genius though a good fellow enough so it was no great surprise to me"
split_idx = int(0.8 * len(text_data))
train_loader = create_dataloader_v1(text_data[:split_idx], batch_size=2, max_length=12, stride=12)
val_loader = create_dataloader_v1(text_data[split_idx - 8:], batch_size=2, max_length=12, stride=12)


# %%
def train_model_simple(model, train_loader, val_loader, optimizer, device, num_epochs):
    for epoch in range(num_epochs):
        model.train()
        for input_batch, target_batch in train_loader:
            optimizer.zero_grad()
            loss = calc_loss_batch(input_batch, target_batch, model, device)
            loss.backward()
            optimizer.step()
        train_loss, val_loss = evaluate_model(model, train_loader, val_loader, device)
        print(f"Ep {epoch+1}: Train loss {train_loss:.3f}, Val loss {val_loss:.3f}")


# %% the first session, on a laptop
torch.manual_seed(123)
model = GPTModel(GPT_CONFIG_124M)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.004, weight_decay=0.1)
train_model_simple(model, train_loader, val_loader, optimizer, torch.device("cpu"), num_epochs=1)

torch.save({
    "model_state_dict": model.state_dict(),
    "optimizer_state_dict": optimizer.state_dict(),
    },
    "model_and_optimizer.pth"
)
del model, optimizer

# %% the second session
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
checkpoint = torch.load("model_and_optimizer.pth")

model = GPTModel(GPT_CONFIG_124M)
model.load_state_dict(checkpoint["model_state_dict"])
optimizer = torch.optim.AdamW(model.parameters(), lr=0.0004, weight_decay=0.1)
optimizer.load_state_dict(checkpoint["optimizer_state_dict"])

# %%
model.to(device)
train_model_simple(model, train_loader, val_loader, optimizer, device, num_epochs=2)

# %%
model.eval()
with torch.no_grad():
    first, _ = next(iter(train_loader))
    probas = nn.functional.softmax(model(first.to(device))[:, -1], dim=-1)
print([round(proba, 4) for proba in probas.max(dim=-1).values.tolist()])
# --- previous_chapters.py
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class GPTDatasetV1(Dataset):
    def __init__(self, txt, max_length, stride):
        token_ids = [" abcdefghijklmnopqrstuvwxyz".index(letter) for letter in txt]
        self.pairs = []
        for i in range(0, len(token_ids) - max_length, stride):
            input_chunk, target_chunk = token_ids[i:i + max_length], token_ids[i + 1:i + max_length + 1]
            self.pairs.append((torch.tensor(input_chunk), torch.tensor(target_chunk)))

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, idx):
        return self.pairs[idx]


def create_dataloader_v1(txt, batch_size, max_length, stride):
    return DataLoader(GPTDatasetV1(txt, max_length, stride), batch_size=batch_size)


class TransformerBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.att = nn.MultiheadAttention(cfg["emb_dim"], cfg["n_heads"], dropout=cfg["drop_rate"], batch_first=True)
        self.ff = nn.Sequential(nn.Linear(cfg["emb_dim"], 4 * cfg["emb_dim"]), nn.GELU(), nn.Linear(4 * cfg["emb_dim"], cfg["emb_dim"]))
        self.norm1 = nn.LayerNorm(cfg["emb_dim"])
        self.norm2 = nn.LayerNorm(cfg["emb_dim"])
        self.register_buffer("mask", torch.triu(torch.ones(cfg["context_length"], cfg["context_length"]), diagonal=1).bool())

    def forward(self, x):
        normed, length = self.norm1(x), x.shape[1]
        x = x + self.att(normed, normed, normed, attn_mask=self.mask[:length, :length], need_weights=False)[0]
        return x + self.ff(self.norm2(x))


class GPTModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok_emb = nn.Embedding(cfg["vocab_size"], cfg["emb_dim"])
        self.pos_emb = nn.Embedding(cfg["context_length"], cfg["emb_dim"])
        self.trf_blocks = nn.Sequential(*[TransformerBlock(cfg) for _ in range(cfg["n_layers"])])
        self.out_head = nn.Linear(cfg["emb_dim"], cfg["vocab_size"], bias=False)

    def forward(self, in_idx):
        pos_embeds = self.pos_emb(torch.arange(in_idx.shape[1], device=in_idx.device))
        return self.out_head(self.trf_blocks(self.tok_emb(in_idx) + pos_embeds))


def calc_loss_batch(input_batch, target_batch, model, device):
    input_batch, target_batch = input_batch.to(device), target_batch.to(device)
    return nn.functional.cross_entropy(model(input_batch).flatten(0, 1), target_batch.flatten())


@torch.no_grad()
def evaluate_model(model, train_loader, val_loader, device):
    model.eval()
    losses = []
    for loader in (train_loader, val_loader):
        losses.append(sum(calc_loss_batch(x, y, model, device).item() for x, y in loader) / len(loader))
    return losses

# === a_critic_of_soft_labels
# thread: https://github.com/szq0214/MEAL-V2/issues/24
# about: a student learns from what its teachers say of pictures, while a third network learns to tell the two apart. All of it is meant for a machine with
#   several cards
# operation: _slow_conv2d_forward|.*convolution.*|conv2d on cuda:1, cuda:0
# operands: weight|bias|input|x
# category: data-parallel
# line: train.py: d = torch.nn.DataParallel(d)
# line: train.py: discriminators_criterion = torch.nn.DataParallel(
# line: train.py: discriminators_criterion = discriminatorLoss(d)
# line: train.py: if len(args.gpus) > 1:
# repair: train.py: d = torch.nn.DataParallel(d) -> pass
from opts import parse_args
from train import run

ARGUMENTS = "--gpus 0 1 --batch-size 8 --epochs 2 --d-lr 0.05"

if __name__ == "__main__":
    for epoch, (g_loss, d_loss, top1) in enumerate(run(parse_args(ARGUMENTS.split()))):
        print("epoch: %d g_loss: %.4f d_loss: %.4f top1: %.3f" % (epoch, g_loss, d_loss, top1))
# --- opts.py
import argparse


def parse_args(argv):
    parser = argparse.ArgumentParser(description="Train a student with soft labels")
    parser.add_argument("--gpus", metavar="N", type=int, nargs="+", default=[0], help="GPUs to use")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--d-lr", type=float, default=1e-3)
    parser.add_argument("--num-classes", type=int, default=16)
    return parser.parse_args(argv)
# --- train.py
import torch

from imagenet import get_train_loader
from loss import CrossEntropy, discriminatorLoss
from models import Discriminator, Network, ParallelTeacherWrapper


def create_model(args):
    student = Network(args.num_classes, width=12)
    teachers = [Network(args.num_classes, width=width) for width in (16, 20)]
    model = ParallelTeacherWrapper(student, teachers).cuda(args.gpus[0])
    if len(args.gpus) > 1:
        model = torch.nn.DataParallel(model, device_ids=args.gpus)
    return model, CrossEntropy


def create_discriminator_criterion(args):
    d = Discriminator(outputs_size=args.num_classes, K=2).cuda(args.gpus[0])
    d = torch.nn.DataParallel(d)
    update_parameters = {"params": d.parameters(), "lr": args.d_lr}
    discriminators_criterion = discriminatorLoss(d).cuda(args.gpus[0])
    if len(args.gpus) > 1:
        discriminators_criterion = torch.nn.DataParallel(discriminators_criterion, device_ids=args.gpus)
    return discriminators_criterion, update_parameters


def create_optimizer(model, discriminator_parameters, args):
    trainable = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.SGD([{"params": trainable, "lr": args.lr}, discriminator_parameters], lr=args.lr)


def train_for_one_epoch(model, g_loss, discriminator_loss, train_loader, optimizer, args):
    model.train()
    g_total, d_total, hits, seen = 0.0, 0.0, 0, 0
    for images, labels in train_loader:
        images = images.cuda(args.gpus[0], non_blocking=True)
        labels = labels.cuda(args.gpus[0], non_blocking=True)

        # Forward pass, backward pass, and update parameters.
        output, soft_label = model(images)
        g_loss_value = g_loss(output, soft_label)
        d_loss_value = discriminator_loss([output], [soft_label]).mean()
        loss_value = g_loss_value + d_loss_value
        optimizer.zero_grad()
        loss_value.backward()
        optimizer.step()

        g_total += g_loss_value.item()
        d_total += d_loss_value.item()
        hits += (output.argmax(1) == labels).sum().item()
        seen += len(labels)
    return g_total / len(train_loader), d_total / len(train_loader), hits / seen


def run(args):
    torch.manual_seed(4)
    train_loader = get_train_loader(args.batch_size, args.num_classes)
    model, loss = create_model(args)
    discriminator_loss, update_parameters = create_discriminator_criterion(args)
    optimizer = create_optimizer(model, update_parameters, args)
    for _ in range(args.epochs):
        yield train_for_one_epoch(model, loss, discriminator_loss, train_loader, optimizer, args)
# --- imagenet.py
import torch
from torch.utils.data import DataLoader, TensorDataset


def get_train_loader(batch_size, num_classes, length=32):
    draw = torch.Generator().manual_seed(40)
    labels = torch.randint(0, num_classes, (length,), generator=draw)
    images = torch.randn(length, 3, 8, 8, generator=draw) + labels[:, None, None, None] / num_classes
    return DataLoader(TensorDataset(images, labels), batch_size=batch_size)
# --- loss.py
import torch
import torch.nn as nn
import torch.nn.functional as F


def CrossEntropy(outputs, targets):
    log_softmax_outputs = F.log_softmax(outputs, dim=1)
    softmax_targets = F.softmax(targets, dim=1)
    return -(log_softmax_outputs * softmax_targets).sum(dim=1).mean()


class discriminatorLoss(nn.Module):
    def __init__(self, models, loss=nn.BCEWithLogitsLoss()):
        super(discriminatorLoss, self).__init__()
        self.models = models
        self.loss = loss

    def forward(self, outputs, targets):
        inputs = [torch.cat((i, j), 0) for i, j in zip(outputs, targets)]
        inputs = torch.cat(inputs, 1)
        batch_size = inputs.size(0)
        target = torch.FloatTensor([[1, 0] for _ in range(batch_size // 2)] + [[0, 1] for _ in range(batch_size // 2)])
        target = target.to(inputs.device)
        output = self.models(inputs)
        return self.loss(output, target)
# --- models.py
import torch
import torch.nn as nn
import torch.nn.functional as F


class Network(nn.Module):
    def __init__(self, num_classes, width):
        super(Network, self).__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.fc = nn.Linear(width, num_classes)

    def forward(self, x):
        return self.fc(F.relu(self.stem(x)).mean(dim=(2, 3)))


class ParallelTeacherWrapper(nn.Module):
    """The student's output, and the average of what the teachers say."""

    def __init__(self, student, teachers):
        super(ParallelTeacherWrapper, self).__init__()
        self.student = student
        self.teachers = nn.ModuleList(teachers).requires_grad_(False)

    def forward(self, x):
        soft_label = torch.stack([teacher(x) for teacher in self.teachers]).mean(dim=0)
        return self.student(x), soft_label


class Discriminator(nn.Module):
    def __init__(self, outputs_size, K=2):
        super(Discriminator, self).__init__()
        self.conv1 = nn.Conv2d(in_channels=outputs_size, out_channels=outputs_size // K, kernel_size=1, bias=True)
        self.conv2 = nn.Conv2d(in_channels=outputs_size // K, out_channels=2, kernel_size=1, bias=True)

    def forward(self, x):
        x = x[:, :, None, None]
        out = F.relu(self.conv1(x))
        return self.conv2(out).view(x.size(0), -1)

# === snippets_of_ordinary_and_odd_days
# thread: https://github.com/tianyu0207/RTFM/pull/74
# about: of a camera's days some are ordinary and some are not, and no one says when something happened. Both kinds are drawn in a random order; the largest
#   features of each are what a day is judged by
# operation: randperm on cuda:0, cpu
# operands: generator
# error: device type for generator but found
# category: generator|default-or-current-device
# line: option.py: torch.set_default_tensor_type("torch.cuda.FloatTensor")
# line: main.py: train_nloader = DataLoader(
# line: main.py: train_aloader = DataLoader(
# repair: option.py: torch.set_default_tensor_type("torch.cuda.FloatTensor") -> pass
# repair: scorer.py: weights = torch.linspace(1.0, 0.5, self.k_abn) -> weights = torch.linspace(1.0, 0.5, self.k_abn, device=scores.device)
# repair: main.py: totals = torch.zeros(2) -> totals = torch.zeros(2, device=device)
import torch
from torch.utils.data import DataLoader

import option
from dataset import Dataset
from scorer import Scorer, load_weights


def run_epoch(nloader, aloader, model, device):
    totals = torch.zeros(2)
    for (ninput, _), (ainput, _) in zip(nloader, aloader):
        ninput, ainput = ninput.to(device), ainput.to(device)
        with torch.no_grad():
            totals += torch.stack([model(ninput).sum(), model(ainput).sum()])
    return totals / len(nloader.dataset)


if __name__ == "__main__":
    args = option.parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    train_nloader = DataLoader(Dataset(args, is_normal=True), batch_size=args.batch_size, shuffle=True,
                               num_workers=args.workers, pin_memory=False, drop_last=False)
    train_aloader = DataLoader(Dataset(args, is_normal=False), batch_size=args.batch_size, shuffle=True,
                               num_workers=args.workers, pin_memory=False, drop_last=False)

    model = Scorer(args.feature_size, args.top_k).to(device)
    load_weights(model, args.seed)
    model.eval()
    normal, abnormal = run_epoch(train_nloader, train_aloader, model, device).tolist()
    print("normal %.3f abnormal %.3f" % (normal, abnormal))
# --- option.py
import argparse

import torch

torch.set_default_tensor_type("torch.cuda.FloatTensor")

parser = argparse.ArgumentParser(description="RTFM")
parser.add_argument("--feature-size", type=int, default=12, help="size of feature (default: 2048)")
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--top-k", type=int, default=3)
parser.add_argument("--seed", type=int, default=5)
parser.add_argument("--videos", type=int, default=10)
# --- dataset.py
import numpy as np
import torch
import torch.utils.data as data


class Dataset(data.Dataset):
    """Features of a video's snippets, as a file of numbers has them."""

    def __init__(self, args, is_normal=True, snippets=16):
        draw = np.random.default_rng(0 if is_normal else 1)
        self.is_normal = is_normal
        self.list = []
        for _ in range(args.videos):
            features = draw.normal(size=(snippets, args.feature_size)).astype(np.float32)
            if not is_normal:
                begin = draw.integers(0, snippets - 4)
                features[begin:begin + 4] *= 2.5
            self.list.append(features)

    def get_label(self):
        return 0.0 if self.is_normal else 1.0

    def __len__(self):
        return len(self.list)

    def __getitem__(self, index):
        return torch.from_numpy(self.list[index]), self.get_label()
# --- scorer.py
import numpy as np
import torch
import torch.nn as nn


class Aggregate(nn.Module):
    """Looks at what comes before and after a snippet, at several distances."""

    def __init__(self, len_feature):
        super(Aggregate, self).__init__()
        self.convs = nn.ModuleList(
            nn.Conv1d(len_feature, len_feature // 2, kernel_size=3, dilation=dilation, padding=dilation) for dilation in (1, 2)
        )

    def forward(self, x):
        out = x.permute(0, 2, 1)
        return torch.cat([conv(out).relu() for conv in self.convs], dim=1).permute(0, 2, 1) + x


class Scorer(nn.Module):
    def __init__(self, n_features, k_abn):
        super(Scorer, self).__init__()
        self.k_abn = k_abn
        self.aggregate = Aggregate(n_features)
        self.fc = nn.Sequential(nn.Linear(n_features, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, inputs):
        features = self.aggregate(inputs)
        magnitudes = torch.norm(features, p=2, dim=2)
        chosen = magnitudes.topk(self.k_abn, dim=1)
        scores = self.fc(features).squeeze(-1).gather(1, chosen.indices)
        weights = torch.linspace(1.0, 0.5, self.k_abn)
        return (scores * weights).sum(dim=1) + chosen.values.mean(dim=1) / 10


def load_weights(model, seed):
    draw = np.random.default_rng(seed)
    weights = {name: draw.normal(0, 0.3, value.shape) for name, value in model.state_dict().items()}
    model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})

# === the_tightest_hull_around_a_shape
# thread: https://github.com/wenxin-liu/neural_bounding/pull/2
# about: a shape is enclosed by simple bodies, each fitted in its own way; one counts how much of what is outside they take in and whether they leave out
#   anything that is inside
# operation: sub on cuda:0, cpu
# operands: other|center|centre
# category: created-without-device
# line: baselines/OElli.py: centre_coords = torch.full(
# line: baselines/OElli.py: axis_lengths = torch.full(
# line: baselines/OElli.py: ellipsoid_params = torch.cat((centre_coords, axis_lengths))
# line: baselines/OElli.py: ellipsoid_params = generate_ellipsoid_params(
# line: baselines/OElli.py: center, axis_lengths = ellipsoid_params[:dim]
# repair: baselines/OElli.py: centre_coords = torch.full((dimensions,), centre, dtype=torch.float32) -> centre_coords = torch.full((dimensions,), centre,
#   dtype=torch.float32, device=device)
# repair: baselines/OElli.py: axis_lengths = torch.full((dimensions,), radius, dtype=torch.float32) -> axis_lengths = torch.full((dimensions,), radius,
#   dtype=torch.float32, device=device)
# repair: baselines/OElli.py: from indicator import count_inside -> from indicator import count_inside, device
import argparse

import torch

from baselines.AABox import calculate_AABox
from baselines.OElli import calculate_OElli
from baselines.Sphere import calculate_Sphere
from indicator import get_training_data
from metrics_registry import MetricsRegistry

BASELINES = {"AABox": calculate_AABox, "Sphere": calculate_Sphere, "OElli": calculate_OElli}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Bounding volumes of an object")
    parser.add_argument("--object_name", default="bunny")
    parser.add_argument("--dim", type=int, default=3)
    parser.add_argument("--samples", type=int, default=400)
    args = parser.parse_args()

    gt_positive, gt_negative = get_training_data(args.object_name, args.dim, args.samples)
    metrics_registry = MetricsRegistry()
    for name, calculate in BASELINES.items():
        calculate(gt_negative, gt_positive, metrics_registry, args.dim)
        print(name, metrics_registry.metrics_registry[name])
    print(args.object_name, metrics_registry.summary())
# --- indicator.py
import torch

device = 'cuda' if torch.cuda.is_available() else 'cpu'


def get_training_data(object_name, dim, n):
    """Points of a cube around the object, apart by whether they are in it."""
    draw = torch.Generator().manual_seed(len(object_name))
    points = torch.rand(n, dim, generator=draw).to(device)
    weights = torch.linspace(0.5, 2.0, dim, device=device)
    inside = (((points - 0.5) * weights) ** 2).sum(dim=1) < 0.08
    inside |= (points - 0.6).abs().sum(dim=1) < 0.35
    return points[inside], points[~inside]


def count_inside(is_inside):
    num_inside = torch.sum(is_inside).item()
    return num_inside, len(is_inside) - num_inside
# --- metrics_registry.py
class MetricsRegistry:
    def __init__(self):
        self.metrics_registry = {}

    def register(self, name, false_positives, true_negatives, true_positives, false_negatives):
        self.metrics_registry[name] = {
            "false negatives": false_negatives,
            "false positives": false_positives,
            "true values": true_negatives + true_positives,
            "total samples": false_negatives + false_positives + true_negatives + true_positives,
        }

    def summary(self):
        return [(metrics["false negatives"], metrics["false positives"]) for metrics in self.metrics_registry.values()]
# --- baselines/AABox.py
from indicator import count_inside


def is_inside_box(points, low, high):
    return ((points >= low) & (points <= high)).all(dim=1)


def calculate_AABox(gt_negative, gt_positive, metrics_registry, dim):
    low, high = gt_positive.amin(dim=0), gt_positive.amax(dim=0)
    negative = count_inside(is_inside_box(gt_negative, low, high))
    positive = count_inside(is_inside_box(gt_positive, low, high))
    metrics_registry.register("AABox", *negative, *positive)
# --- baselines/Sphere.py
import torch

from indicator import count_inside


def calculate_Sphere(gt_negative, gt_positive, metrics_registry, dim):
    centre = gt_positive.mean(dim=0)
    radius = torch.norm(gt_positive - centre, dim=1).max()
    negative = count_inside(torch.norm(gt_negative - centre, dim=1) <= radius)
    positive = count_inside(torch.norm(gt_positive - centre, dim=1) <= radius)
    metrics_registry.register("Sphere", *negative, *positive)
# --- baselines/OElli.py
import torch
import torch.optim as optim

from indicator import count_inside


# OElli - aka. oriented ellipsoid, non-axis-aligned ellipsoid
def generate_ellipsoid_params(dimensions, centre=0.5, radius=0.3):
    # create the centre coordinates
    centre_coords = torch.full((dimensions,), centre, dtype=torch.float32)

    # create the axis lengths (radius)
    axis_lengths = torch.full((dimensions,), radius, dtype=torch.float32)

    # concatenate to form the ellipsoid parameters
    ellipsoid_params = torch.cat((centre_coords, axis_lengths))

    # set requires_grad to True for gradient-based optimization
    ellipsoid_params.requires_grad = True
    return ellipsoid_params


def distance_to_ellipsoid(points, ellipsoid_params, dim):
    center, axis_lengths = ellipsoid_params[:dim], ellipsoid_params[dim:]
    normed_diff = (points - center) / axis_lengths
    return torch.norm(normed_diff, dim=1) - 1


def loss_fn(points, ellipsoid_params, dim):
    return torch.sum(torch.relu(distance_to_ellipsoid(points, ellipsoid_params, dim)))


def calculate_OElli(gt_negative, gt_positive, metrics_registry, dim):
    covariance = torch.cov(gt_positive.T)
    _, eigen_vectors = torch.linalg.eigh(covariance)
    eigen_vectors = eigen_vectors * eigen_vectors.sum(dim=0).sign()
    gt_positive_transformed = gt_positive @ eigen_vectors
    gt_negative_transformed = gt_negative @ eigen_vectors

    ellipsoid_params = generate_ellipsoid_params(dimensions=dim)
    optimizer = optim.Adam([ellipsoid_params], lr=0.01)
    for i in range(150):
        optimizer.zero_grad()
        loss = loss_fn(gt_positive_transformed, ellipsoid_params, dim)
        loss.backward()
        optimizer.step()
        if loss == 0.:
            break

    with torch.no_grad():
        negative = count_inside(distance_to_ellipsoid(gt_negative_transformed, ellipsoid_params, dim) <= 1e-3)
        positive = count_inside(distance_to_ellipsoid(gt_positive_transformed, ellipsoid_params, dim) <= 1e-3)
    metrics_registry.register("OElli", *negative, *positive)

# === actions_of_a_wavering_agent
# thread: https://github.com/vwxyzjn/cleanrl/pull/396
# about: an agent acts in many copies of a little world at once and is trained in one file, start to end. When it looks at its past actions again it is made to
#   waver a little more than it did
# operation: add on cuda:0, cpu
# operands: other|z
# category: created-without-device
# line: z = torch.FloatTensor(action_mean.shape).uniform_(
# line: action_mean = action_mean + z
# repair: z = torch.FloatTensor(action_mean.shape).uniform_(-self.rpo_alpha, self.rpo_alpha) -> z =
#   torch.FloatTensor(action_mean.shape).uniform_(-self.rpo_alpha, self.rpo_alpha).to(device)
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.normal import Normal


def parse_args():
    # fmt: off
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1,
        help="seed of the experiment")
    parser.add_argument("--cuda", type=lambda x: x == "True", default=True, nargs="?", const=True,
        help="if toggled, cuda will be enabled by default")
    parser.add_argument("--total-timesteps", type=int, default=128)
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--num-steps", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--gamma", type=float, default=0.95)
    parser.add_argument("--update-epochs", type=int, default=1)
    parser.add_argument("--clip-coef", type=float, default=0.2)
    parser.add_argument("--rpo-alpha", type=float, default=0.5,
        help="the alpha parameter for RPO")
    # fmt: on
    return parser.parse_args()


class PointEnvs:
    """Points in a plane that are to be steered to its middle."""

    single_observation_space_shape, single_action_space_shape = (4,), (2,)

    def __init__(self, num_envs, seed):
        self.rng = np.random.default_rng(seed)
        self.num_envs = num_envs

    def reset(self):
        self.state = np.concatenate([self.rng.uniform(-1, 1, (self.num_envs, 2)), np.zeros((self.num_envs, 2))], axis=1)
        return self.state.astype(np.float32)

    def step(self, action):
        self.state[:, 2:] = 0.8 * self.state[:, 2:] + 0.1 * np.clip(action, -1, 1)
        self.state[:, :2] += self.state[:, 2:]
        reward = -np.linalg.norm(self.state[:, :2], axis=1)
        done = reward < -2
        self.state[done] = 0.5
        return self.state.astype(np.float32), reward, done


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self, envs, rpo_alpha):
        super().__init__()
        self.rpo_alpha = rpo_alpha
        obs, act = np.prod(envs.single_observation_space_shape), np.prod(envs.single_action_space_shape)
        self.critic = nn.Sequential(layer_init(nn.Linear(obs, 16)), nn.Tanh(), layer_init(nn.Linear(16, 1), std=1.0))
        self.actor_mean = nn.Sequential(layer_init(nn.Linear(obs, 16)), nn.Tanh(), layer_init(nn.Linear(16, act), std=0.01))
        self.actor_logstd = nn.Parameter(torch.zeros(1, act))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        action_mean = self.actor_mean(x)
        action_logstd = self.actor_logstd.expand_as(action_mean)
        action_std = torch.exp(action_logstd)
        probs = Normal(action_mean, action_std)
        if action is None:
            action = probs.sample()
        else:  # new to RPO
            # sample again to add stochasticity to the policy
            z = torch.FloatTensor(action_mean.shape).uniform_(-self.rpo_alpha, self.rpo_alpha)
            action_mean = action_mean + z
            probs = Normal(action_mean, action_std)
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


if __name__ == "__main__":
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() and args.cuda else "cpu")

    envs = PointEnvs(args.num_envs, args.seed)
    agent = Agent(envs, args.rpo_alpha).to(device)
    optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    # ALGO Logic: Storage setup
    obs = torch.zeros((args.num_steps, args.num_envs) + envs.single_observation_space_shape).to(device)
    actions = torch.zeros((args.num_steps, args.num_envs) + envs.single_action_space_shape).to(device)
    logprobs = torch.zeros((args.num_steps, args.num_envs)).to(device)
    rewards = torch.zeros((args.num_steps, args.num_envs)).to(device)
    dones = torch.zeros((args.num_steps, args.num_envs)).to(device)

    next_obs = torch.Tensor(envs.reset()).to(device)
    for update in range(args.total_timesteps // (args.num_envs * args.num_steps)):
        for step in range(args.num_steps):
            obs[step] = next_obs
            with torch.no_grad():
                action, logprob, _, _ = agent.get_action_and_value(next_obs)
            actions[step], logprobs[step] = action, logprob
            next_obs, reward, done = envs.step(action.cpu().numpy())
            rewards[step] = torch.tensor(reward).to(device).view(-1)
            next_obs, dones[step] = torch.Tensor(next_obs).to(device), torch.Tensor(done).to(device)

        # bootstrap value if not done
        with torch.no_grad():
            returns, following = torch.zeros_like(rewards), agent.get_value(next_obs).flatten()
            for t in reversed(range(args.num_steps)):
                following = rewards[t] + args.gamma * following * (1 - dones[t])
                returns[t] = following

        # flatten the batch
        b_obs, b_actions = obs.flatten(0, 1), actions.flatten(0, 1)
        b_logprobs, b_returns = logprobs.flatten(), returns.flatten()
        for epoch in range(args.update_epochs):
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs, b_actions)
            ratio = (newlogprob - b_logprobs).exp()
            advantages = b_returns - newvalue.flatten().detach()
            clipped = torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
            pg_loss = torch.max(-advantages * ratio, -advantages * clipped).mean()
            v_loss = 0.5 * ((newvalue.flatten() - b_returns) ** 2).mean()
            optimizer.zero_grad()
            (pg_loss + 0.5 * v_loss - 0.001 * entropy.mean()).backward()
            optimizer.step()
        print(f"update={update}, return={returns[0].mean().item():.3f}, value_loss={v_loss.item():.3f}, entropy={entropy.mean().item():.3f}")
