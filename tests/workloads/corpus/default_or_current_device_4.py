# === adapter_second_gpu
# thread: https://github.com/huggingface/transformers/issues/33744
# about: the device is inferred two calls down; an argument that says it exists, but is not passed on
# operation: linear|mm|matmul|addmm on cuda:0, cuda:1
# operands: x|input|hidden, lora_A|weight
# category: default-or-current-device
# line: adapters.py: weights = load_peft_weights(
# line: adapters.py: device = infer_device()
# line: adapters.py: return torch.load(
# repair: adapters.py: weights = load_peft_weights(checkpoint) -> weights = load_peft_weights(checkpoint, device=model.device)
import io

import torch
from torch import nn

from adapters import LoraLinear, load_adapter


class Model(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.q_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, 3)

    @property
    def device(self):
        return next(self.parameters()).device

    def forward(self, x):
        return self.out(self.q_proj(x).sigmoid() * self.v_proj(x))


def from_pretrained(device_map, adapter=None):
    torch.manual_seed(33744)
    model = Model().to(device_map)
    if adapter is not None:
        load_adapter(model, adapter)
    return model.eval()


def trained_adapter(rank=2, dim=8):
    torch.manual_seed(7)
    weights = {}
    for target in ("q_proj", "v_proj"):
        weights[target + ".lora_A"] = torch.randn(rank, dim)
        weights[target + ".lora_B"] = torch.randn(dim, rank)
    file = io.BytesIO()
    torch.save(weights, file)
    return io.BytesIO(file.getvalue())


model = from_pretrained(device_map="cuda:1", adapter=trained_adapter())
assert isinstance(model.v_proj, LoraLinear)
with torch.no_grad():
    logits = model(torch.linspace(-1, 1, 16).view(2, 8).to("cuda:1"))
print("logits:", [[round(v, 3) for v in row] for row in logits.tolist()])
# --- adapters.py
import torch
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, base_layer, lora_A, lora_B, scaling=0.5):
        super().__init__()
        self.base_layer = base_layer
        self.lora_A = nn.Parameter(lora_A)
        self.lora_B = nn.Parameter(lora_B)
        self.scaling = scaling

    def forward(self, x):
        result = self.base_layer(x)
        hidden = nn.functional.linear(x, self.lora_A)
        return result + nn.functional.linear(hidden, self.lora_B) * self.scaling


def infer_device():
    return "cuda" if torch.cuda.is_available() else "cpu"


def load_peft_weights(file, device=None):
    if device is None:
        device = infer_device()
    return torch.load(file, map_location=torch.device(device))


def load_adapter(model, checkpoint):
    """Puts the adapters of a checkpoint over the layers they are for."""
    weights = load_peft_weights(checkpoint)
    for name in sorted({key.split(".")[0] for key in weights}):
        layer = getattr(model, name)
        setattr(model, name, LoraLinear(layer, weights[name + ".lora_A"], weights[name + ".lora_B"]))

# === chamfer_outputs
# thread: https://github.com/otaheri/chamfer_distance/pull/5
# about: outputs are made for an extension to fill in, which is where they are refused
# operation: add|minimum|min|copy on cuda:0, cuda:1
# operands: dist1|dist, best|nearest.*|values
# category: default-or-current-device
# error: Expected all tensors to be on the same device, but found at least two devices
# line: dist1 = torch.zeros(
# line: dist2 = torch.zeros(
# repair: dist1 = torch.zeros(batch, n).cuda() -> dist1 = torch.zeros(batch, n).to(xyz1.device)
# repair: dist2 = torch.zeros(batch, m).cuda() -> dist2 = torch.zeros(batch, m).to(xyz1.device)
# repair: idx1 = torch.zeros(batch, n, dtype=torch.long).cuda() -> idx1 = torch.zeros(batch, n, dtype=torch.long).to(xyz1.device)
# repair: idx2 = torch.zeros(batch, m, dtype=torch.long).cuda() -> idx2 = torch.zeros(batch, m, dtype=torch.long).to(xyz1.device)
import torch
from torch import nn


class ext:
    """What the compiled extension does: its outputs are the caller's."""

    @staticmethod
    def nearest(points, others, dist, idx):
        squared = (points.unsqueeze(2) - others.unsqueeze(1)).square().sum(-1)
        best, where = squared.min(dim=2)
        dist += best
        idx += where

    @staticmethod
    def forward(xyz1, xyz2, dist1, dist2, idx1, idx2):
        ext.nearest(xyz1, xyz2, dist1, idx1)
        ext.nearest(xyz2, xyz1, dist2, idx2)


class ChamferDistanceFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, xyz1, xyz2):
        batch, n, _ = xyz1.shape
        m = xyz2.shape[1]
        xyz1, xyz2 = xyz1.contiguous(), xyz2.contiguous()
        dist1 = torch.zeros(batch, n).cuda()
        dist2 = torch.zeros(batch, m).cuda()
        idx1 = torch.zeros(batch, n, dtype=torch.long).cuda()
        idx2 = torch.zeros(batch, m, dtype=torch.long).cuda()
        ext.forward(xyz1, xyz2, dist1, dist2, idx1, idx2)
        ctx.save_for_backward(xyz1, xyz2, idx1, idx2)
        return dist1, dist2

    @staticmethod
    def backward(ctx, grad_dist1, grad_dist2):
        xyz1, xyz2, idx1, idx2 = ctx.saved_tensors
        grad1, grad2 = torch.zeros_like(xyz1), torch.zeros_like(xyz2)
        for from_, to, idx, grad, grad_from, grad_to in (
            (xyz1, xyz2, idx1, grad_dist1, grad1, grad2),
            (xyz2, xyz1, idx2, grad_dist2, grad2, grad1),
        ):
            rows = idx.unsqueeze(-1).expand(-1, -1, 3)
            pull = 2 * grad.unsqueeze(-1) * (from_ - to.gather(1, rows))
            grad_from += pull
            grad_to.scatter_add_(1, rows, -pull)
        return grad1, grad2


class ChamferDistance(nn.Module):
    def forward(self, xyz1, xyz2):
        return ChamferDistanceFunction.apply(xyz1, xyz2)


torch.manual_seed(5)
device = torch.device("cuda:1")
hands = torch.rand(2, 10, 3).to(device)
template = nn.Parameter(torch.rand(2, 6, 3).to(device))
distance, optimizer = ChamferDistance(), torch.optim.SGD([template], lr=0.5)
for _ in range(3):
    to_template, to_hands = distance(hands, template)
    loss = to_template.mean() + to_hands.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))

# === free_anchor
# thread: https://github.com/open-mmlab/mmdetection/pull/7521
# about: the device is a default argument that another file's default argument hides
# operation: mul|sub|add on cuda:0, cuda:1
# operands: sizes|anchors|centers|priors, deltas|bbox
# category: default-or-current-device
# line: head.py: anchors = self.get_anchors(
# line: head.py: iou = overlaps(
# repair: head.py: anchors = self.get_anchors([tuple(score.shape[-2:]) for score in cls_scores]) -> anchors = self.get_anchors([tuple(score.shape[-2:]) for score in cls_scores], device=cls_scores[0].device)
import torch

from head import FreeAnchorHead


def train(cfg):
    torch.manual_seed(cfg["seed"])
    device = torch.device("cuda", cfg["gpu_id"])
    head = FreeAnchorHead(in_channels=4, num_classes=2, strides=[4, 8]).to(device)
    optimizer = torch.optim.SGD(head.parameters(), lr=cfg["lr"])
    pyramid = [torch.rand(1, 4, 4, 4), torch.rand(1, 4, 2, 2)]
    gt_boxes = torch.tensor([[2.0, 2.0, 9.0, 8.0], [6.0, 5.0, 15.0, 15.0]])
    for _ in range(cfg["iters"]):
        losses = head.loss(*head([level.to(device) for level in pyramid]), gt_boxes.to(device))
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
    return {name: round(value.item(), 4) for name, value in losses.items()}


print(train({"seed": 7521, "gpu_id": 1, "lr": 0.01, "iters": 2}))
# --- anchors.py
import torch


class AnchorGenerator:
    def __init__(self, strides, scale=2.0):
        self.strides = strides
        self.scale = scale

    def grid_anchors(self, featmap_sizes, device="cuda"):
        """All levels' anchors, (center x, center y, width, height)."""
        levels = []
        for (h, w), stride in zip(featmap_sizes, self.strides):
            ys = (torch.arange(h, device=device) + 0.5) * stride
            xs = (torch.arange(w, device=device) + 0.5) * stride
            centers = torch.cartesian_prod(ys, xs).flip(1)
            levels.append(torch.cat([centers, torch.full_like(centers, self.scale * stride)], dim=1))
        return torch.cat(levels)


def delta2bbox(anchors, deltas):
    sizes = anchors[:, 2:]
    centers = anchors[:, :2] + sizes * deltas[:, :2]
    halves = sizes * deltas[:, 2:].exp() / 2
    return torch.cat([centers - halves, centers + halves], dim=1)


def overlaps(boxes, others):
    left_top = torch.maximum(boxes[:, None, :2], others[:, :2])
    sides = (torch.minimum(boxes[:, None, 2:], others[:, 2:]) - left_top).clamp(min=0)
    area = lambda b: (b[:, 2:] - b[:, :2]).prod(dim=1)
    shared = sides.prod(dim=2)
    return shared / (area(boxes)[:, None] + area(others) - shared)
# --- head.py
import torch
from torch import nn

from anchors import AnchorGenerator, delta2bbox, overlaps


class FreeAnchorHead(nn.Module):
    """Learns which anchors stand for an object: the best of a bag."""

    def __init__(self, in_channels, num_classes, strides, bag=3):
        super().__init__()
        self.cls = nn.Conv2d(in_channels, num_classes, 3, padding=1)
        self.reg = nn.Conv2d(in_channels, 4, 3, padding=1)
        self.prior_generator = AnchorGenerator(strides)
        self.bag = bag

    def forward(self, feats):
        return [self.cls(feat) for feat in feats], [self.reg(feat) for feat in feats]

    def get_anchors(self, featmap_sizes, device="cuda"):
        return self.prior_generator.grid_anchors(featmap_sizes, device=device)

    def loss(self, cls_scores, bbox_preds, gt_boxes):
        anchors = self.get_anchors([tuple(score.shape[-2:]) for score in cls_scores])
        scores = torch.cat([score[0].flatten(1).T for score in cls_scores]).sigmoid()
        deltas = torch.cat([pred[0].flatten(1).T for pred in bbox_preds])
        iou = overlaps(delta2bbox(anchors, deltas), gt_boxes)
        bag = iou.topk(self.bag, dim=0)
        positive = (bag.values * scores.amax(1)[bag.indices]).mean(dim=0)
        negative = (scores * (1 - iou.amax(1, keepdim=True))).square().mean()
        return {"positive_bag_loss": -positive.clamp(min=1e-6).log().mean(), "negative_bag_loss": negative}

# === order_embedding
# thread: https://github.com/xcyao00/FOD/issues/1
# operation: add on cuda:0, cuda:1
# operands: x|tokens|features, pos_embed
# category: default-or-current-device
# line: return x + pos_embed.cuda()
# line: pos_embed = torch.zeros(
# repair: return x + pos_embed.cuda() -> return x + pos_embed.to(x.device)
import argparse
import math

import torch
import torch.nn as nn


class PositionEmbedding(nn.Module):
    """Sines and cosines over the rows and columns of a feature map."""

    def __init__(self, dim, temperature=10000):
        super().__init__()
        self.dim = dim
        self.temperature = temperature

    def forward(self, x, h, w):
        pos_embed = torch.zeros(1, h * w, self.dim)
        half = self.dim // 2
        steps = torch.exp(torch.arange(0, half, 2) * (-math.log(self.temperature) / half))
        rows = torch.arange(h).repeat_interleave(w)[:, None] * steps
        cols = torch.arange(w).repeat(h)[:, None] * steps
        pos_embed[0, :, 0:half:2], pos_embed[0, :, 1:half:2] = rows.sin(), rows.cos()
        pos_embed[0, :, half::2], pos_embed[0, :, half + 1 :: 2] = cols.sin(), cols.cos()
        return x + pos_embed.cuda()


class FODNet(nn.Module):
    def __init__(self, in_channels, dim, n_blocks):
        super().__init__()
        self.project = nn.Conv2d(in_channels, dim, 1)
        self.pos_embed = PositionEmbedding(dim)
        self.encoder = nn.ModuleList([nn.TransformerEncoderLayer(dim, 2, 2 * dim, dropout=0.0, batch_first=True) for _ in range(n_blocks)])

    def forward(self, features):
        h, w = features.shape[-2:]
        x = self.project(features).flatten(2).transpose(1, 2)
        x = self.pos_embed(x, h, w)
        for block in self.encoder:
            x = block(x)
        return x


def main(args):
    torch.manual_seed(args.seed)
    net = FODNet(6, 8, n_blocks=2).to(args.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    features = torch.rand(2, 6, 4, 5)
    for epoch in range(args.epochs):
        tokens = net(features.to(args.device))
        loss = (tokens - tokens.mean(1, keepdim=True)).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch {} loss {:.4f}".format(args.epochs, loss.item()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    main(parser.parse_args())
