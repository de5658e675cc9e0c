# === a_series_seen_coarsely_first
# thread: https://github.com/BorealisAI/scaleformer/issues/5
# about: a series is forecast at a coarse scale, then at finer ones. Each scale is told to the model as one more feature of its time stamps. The second card was asked for
# operation: cat on cuda:1, cuda:0
# operands: tensors\[1\]|tensors|concat_tensor
# category: default-or-current-device|created-without-device|cached-state
# line: layers/Embed.py: concat_tensor = torch.tensor([[[1 / scale - 0.5]]]).cuda()
# line: exp/exp_basic.py: device = torch.device("cuda:{}".format(self.args.gpu))
# repair: layers/Embed.py: concat_tensor = torch.tensor([[[1 / scale - 0.5]]]).cuda().repeat(x.shape[0], x.shape[1], 1) -> concat_tensor = torch.tensor([[[1 / scale - 0.5]]]).to(x.device).repeat(x.shape[0], x.shape[1], 1)
import argparse

import torch

from exp.exp_basic import Exp_Basic
from models.MultiScale import Model


class Exp_Main(Exp_Basic):
    def _build_model(self):
        return Model(self.args)

    def _get_data(self):
        draws = torch.Generator().manual_seed(3)
        time = torch.arange(48.0)
        series = torch.stack([torch.sin(time / 3), torch.cos(time / 5)], dim=1) + 0.05 * torch.randn((48, 2), generator=draws)
        stamps = torch.stack([time % 24 / 24 - 0.5, time % 7 / 7 - 0.5], dim=1)
        length = self.args.seq_len + self.args.pred_len
        for start in range(0, 48 - length, 6):
            window = slice(start, start + length)
            yield series[window].unsqueeze(0), stamps[window].unsqueeze(0)

    def train(self):
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.args.learning_rate)
        losses = []
        for _ in range(self.args.train_epochs):
            for batch, mark in self._get_data():
                batch, mark = batch.to(self.device), mark.to(self.device)
                outputs = self.model(batch[:, : self.args.seq_len], mark)
                target = batch[:, self.args.seq_len :].transpose(1, 2)
                loss = sum(
                    (output - torch.nn.functional.avg_pool1d(target, scale).transpose(1, 2)).square().mean()
                    for output, scale in zip(outputs, self.args.scales)
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--use_gpu", type=bool, default=True)
    parser.add_argument("--gpu", type=int, default=1)
    parser.add_argument("--seq_len", type=int, default=16)
    parser.add_argument("--pred_len", type=int, default=8)
    parser.add_argument("--scales", type=int, nargs="+", default=[4, 2, 1])
    parser.add_argument("--d_model", type=int, default=12)
    parser.add_argument("--train_epochs", type=int, default=2)
    parser.add_argument("--learning_rate", type=float, default=0.01)
    args = parser.parse_args()
    torch.manual_seed(2021)
    losses = Exp_Main(args).train()
    print(f"losses {losses[0]:.4f} to {losses[-1]:.4f}, sum {sum(losses):.3f}")
# --- exp/exp_basic.py
import torch


class Exp_Basic(object):
    def __init__(self, args):
        self.args = args
        self.device = self._acquire_device()
        self.model = self._build_model().to(self.device)

    def _build_model(self):
        raise NotImplementedError

    def _acquire_device(self):
        if self.args.use_gpu:
            device = torch.device("cuda:{}".format(self.args.gpu))
            print("Use GPU: cuda:{}".format(self.args.gpu))
        else:
            device = torch.device("cpu")
            print("Use CPU")
        return device
# --- layers/Embed.py
import torch
from torch import nn


class TimeFeatureEmbedding_new(nn.Module):
    """Time stamps, and as a further feature how coarse the scale is."""

    def __init__(self, d_inp, d_model):
        super().__init__()
        self.embed = nn.Linear(d_inp + 1, d_model, bias=False)
        self.concats = dict()

    def forward(self, x, scale=1):
        key = (scale, x.shape[0], x.shape[1])
        if key not in self.concats:
            concat_tensor = torch.tensor([[[1 / scale - 0.5]]]).cuda().repeat(x.shape[0], x.shape[1], 1)
            self.concats[key] = concat_tensor
        else:
            concat_tensor = self.concats[key]
        x = torch.cat((x, concat_tensor), 2)
        return self.embed(x)


class DataEmbedding_mine(nn.Module):
    def __init__(self, c_in, d_inp, d_model):
        super().__init__()
        self.value_embedding = nn.Linear(c_in, d_model, bias=False)
        self.temporal_embedding = TimeFeatureEmbedding_new(d_inp, d_model)

    def forward(self, x, x_mark, scale=1):
        return self.value_embedding(x) + self.temporal_embedding(x_mark, scale=scale)
# --- models/MultiScale.py
import torch
from torch import nn
from torch.nn import functional as F

from layers.Embed import DataEmbedding_mine


class Model(nn.Module):
    def __init__(self, configs):
        super().__init__()
        self.seq_len, self.pred_len, self.scales = configs.seq_len, configs.pred_len, configs.scales
        self.embedding = DataEmbedding_mine(2, 2, configs.d_model)
        self.mixer = nn.GRU(configs.d_model, configs.d_model, batch_first=True)
        self.projection = nn.Linear(configs.d_model, 2)

    def coarse(self, x, scale):
        return F.avg_pool1d(x.transpose(1, 2), scale, scale).transpose(1, 2)

    def forward(self, x_enc, x_mark):
        outputs, guess = [], None
        for scale in self.scales:
            past = self.coarse(x_enc, scale)
            mean = past.mean(1, keepdim=True)
            if guess is None:
                future = mean.expand(-1, self.pred_len // scale, -1)
            else:
                future = F.interpolate(guess.detach().transpose(1, 2), size=self.pred_len // scale, mode="linear").transpose(1, 2)
            whole = torch.cat((past, future), 1) - mean
            hidden, _ = self.mixer(self.embedding(whole, x_mark[:, scale // 2 :: scale], scale=scale))
            guess = self.projection(hidden[:, -(self.pred_len // scale) :]) + mean
            outputs.append(guess)
        return outputs

# === anchors_given_to_what_they_cover
# thread: https://github.com/jozhang97/DETA/issues/14
# about: a detector chooses for each true box those of its anchors that cover it best, as detectors did before transformers. The others are taught to be empty
# operation: index on cpu, cuda:0
# operands: self|all_pr_inds
# error: indices should be either on
# category: created-without-device
# line: models/assigner.py: all_pr_inds = torch.arange(len(anchors))
# line: models/assigner.py: pos_pr_inds = all_pr_inds[matched_labels == 1]
# repair: models/assigner.py: all_pr_inds = torch.arange(len(anchors)) -> all_pr_inds = torch.arange(len(anchors), device=matched_labels.device)
import torch

from models.deformable_detr import DeformableDETR, SetCriterion


def images_of(seed, device):
    draws = torch.Generator().manual_seed(seed)
    images, targets = [], []
    for number in (1, 2, 3):
        boxes = torch.cat([0.25 + 0.5 * torch.rand((number, 2), generator=draws), 0.2 + 0.2 * torch.rand((number, 2), generator=draws)], 1)
        labels = torch.randint(0, 4, (number,), generator=draws)
        image = torch.zeros(3, 16, 16)
        for (x, y, w, h), label in zip((boxes * 16).tolist(), labels.tolist()):
            image[label % 3, int(y - h / 2) : int(y + h / 2) + 1, int(x - w / 2) : int(x + w / 2) + 1] = 1.0 + label
        images.append(image)
        targets.append({"boxes": boxes, "labels": labels})
    return torch.stack(images).to(device), [{k: v.to(device) for k, v in t.items()} for t in targets]


def main():
    torch.manual_seed(42)
    device = torch.device("cuda")
    model = DeformableDETR(num_classes=4).to(device)
    criterion = SetCriterion(num_classes=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for epoch in range(4):
        samples, targets = images_of(epoch % 2, device)
        loss_dict = criterion(model(samples), targets)
        losses = sum(loss_dict.values())
        optimizer.zero_grad()
        losses.backward()
        optimizer.step()
    print("losses", {k: round(v.item(), 3) for k, v in loss_dict.items()})


if __name__ == "__main__":
    main()
# --- util/box_ops.py
import torch


def box_cxcywh_to_xyxy(x):
    center, size = x[..., :2], x[..., 2:]
    return torch.cat([center - size / 2, center + size / 2], dim=-1)


def box_iou(boxes1, boxes2):
    area1, area2 = ((b[:, 2:] - b[:, :2]).clamp(min=0).prod(1) for b in (boxes1, boxes2))
    lt = torch.maximum(boxes1[:, None, :2], boxes2[None, :, :2])
    rb = torch.minimum(boxes1[:, None, 2:], boxes2[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(2)
    return inter / (area1[:, None] + area2[None] - inter)
# --- models/assigner.py
import torch
from torch import nn

from util.box_ops import box_cxcywh_to_xyxy, box_iou


class Matcher:
    """For each anchor the best true box, and whether it is one (1), none (0) or doubtful (-1)."""

    def __init__(self, t_low, t_high):
        self.t_low, self.t_high = t_low, t_high

    def __call__(self, match_quality_matrix):
        matched_vals, matches = match_quality_matrix.max(dim=0)
        match_labels = torch.full_like(matches, -1)
        match_labels[matched_vals < self.t_low] = 0
        match_labels[matched_vals >= self.t_high] = 1
        match_labels[match_quality_matrix.argmax(dim=1)] = 1
        return matches, match_labels


def sample_topk_per_gt(pr_inds, gt_inds, iou, k):
    if len(gt_inds) == 0:
        return pr_inds, gt_inds
    gt_inds2, counts = gt_inds.unique(return_counts=True)
    _, pr_inds2 = iou[gt_inds2].topk(k, dim=1)
    kept = [(pr[:c], gt.repeat(min(int(c), k))) for c, pr, gt in zip(counts, pr_inds2, gt_inds2)]
    return torch.cat([pr for pr, _ in kept]), torch.cat([gt for _, gt in kept])


class Stage1Assigner(nn.Module):
    def __init__(self, t_low=0.3, t_high=0.5, max_k=4):
        super().__init__()
        self.k = max_k
        self.anchor_matcher = Matcher(t_low, t_high)

    def forward(self, outputs, targets):
        indices = []
        for anchors, target in zip(outputs["anchors"], targets):
            iou = box_iou(box_cxcywh_to_xyxy(target["boxes"]), box_cxcywh_to_xyxy(anchors))
            matched_idxs, matched_labels = self.anchor_matcher(iou)
            all_pr_inds = torch.arange(len(anchors))
            pos_pr_inds = all_pr_inds[matched_labels == 1]
            pos_gt_inds = matched_idxs[pos_pr_inds]
            pos_pr_inds, pos_gt_inds = sample_topk_per_gt(pos_pr_inds, pos_gt_inds, iou, self.k)
            indices.append((pos_pr_inds.to(anchors.device), pos_gt_inds.to(anchors.device)))
        return indices
# --- models/deformable_detr.py
import torch
from torch import nn
from torch.nn import functional as F

from models.assigner import Stage1Assigner


class DeformableDETR(nn.Module):
    def __init__(self, num_classes, hidden_dim=16):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, hidden_dim, 5, stride=2, padding=2), nn.ReLU(), nn.AvgPool2d(2))
        self.class_embed = nn.Linear(hidden_dim, num_classes)
        self.bbox_embed = nn.Linear(hidden_dim, 4)
        centers = (torch.arange(4) + 0.5) / 4
        y, x = torch.meshgrid(centers, centers, indexing="ij")
        size = torch.full_like(x, 0.35)
        self.register_buffer("anchors", torch.stack([x, y, size, size], dim=-1).flatten(0, 1))

    def forward(self, samples):
        memory = self.backbone(samples).flatten(2).transpose(1, 2)
        anchors = self.anchors.expand(len(samples), -1, -1)
        boxes = torch.sigmoid(self.bbox_embed(memory) + torch.logit(anchors))
        return {"pred_logits": self.class_embed(memory), "pred_boxes": boxes, "anchors": anchors}


class SetCriterion(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.num_classes = num_classes
        self.stg1_assigner = Stage1Assigner()

    def forward(self, outputs, targets):
        indices = self.stg1_assigner(outputs, targets)
        wanted = torch.zeros_like(outputs["pred_logits"])
        box_losses = []
        for b, (pr, gt) in enumerate(indices):
            wanted[b, pr, targets[b]["labels"][gt]] = 1.0
            box_losses.append(F.l1_loss(outputs["pred_boxes"][b, pr], targets[b]["boxes"][gt]))
        loss_ce = F.binary_cross_entropy_with_logits(outputs["pred_logits"], wanted)
        return {"loss_ce": loss_ce, "loss_bbox": torch.stack(box_losses).mean()}

# === a_car_that_plans_from_a_picture_from_above
# thread: https://github.com/motional/nuplan-devkit/issues/140
# about: a car is driven in simulation by a network that was trained before. At each step the streets around it are drawn, and the network says where to go
# operation: conv2d|_?convolution(_overrideable)?|_?slow_conv2d(_forward)? on cpu, cuda:0
# operands: input|self|x|.*raster.*
# error: on the same device|should be the same
# category: input-not-moved|input
# line: nuplan/planning/simulation/planner/ml_planner/model_loader.py: features = {name: feature.to_feature_tensor() for
# line: nuplan/planning/simulation/planner/ml_planner/model_loader.py: features = {name: feature.collate([feature]) for
# repair: nuplan/planning/simulation/planner/ml_planner/model_loader.py: features = {name: feature.to_feature_tensor() for name, feature in features.items()} -> features = {name: feature.to_feature_tensor().to_device(self.device) for name, feature in features.items()}
import numpy as np
import torch

from nuplan.planning.simulation.planner.ml_planner.ml_planner import MLPlanner
from nuplan.planning.training.modeling.models.raster_model import RasterModel


class Simulation:
    """A street that bends, and a car on it."""

    def __init__(self):
        self.ego = np.zeros(3, dtype=np.float32)
        self.street = np.stack([np.linspace(-5, 15, 60), np.sin(np.linspace(-5, 15, 60) / 4)], axis=1).astype(np.float32)

    def current_input(self):
        return {"ego": self.ego, "street": self.street}

    def propagate(self, trajectory):
        x, y, heading = trajectory[0]
        cos, sin = np.cos(self.ego[2]), np.sin(self.ego[2])
        self.ego = self.ego + np.array([cos * x - sin * y, sin * x + cos * y, heading], dtype=np.float32)


if __name__ == "__main__":
    torch.manual_seed(140)
    planner = MLPlanner(RasterModel(num_poses=4))
    planner.initialize()
    simulation = Simulation()
    for iteration in range(5):
        trajectory = planner.compute_trajectory(simulation.current_input())
        simulation.propagate(trajectory)
    print("the car is at", [f"{value:.3f}" for value in simulation.ego.tolist()])
# --- nuplan/planning/training/modeling/models/raster_model.py
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Raster:
    data: object

    def to_feature_tensor(self):
        return Raster(torch.from_numpy(np.ascontiguousarray(self.data.transpose(2, 0, 1))))

    def to_device(self, device):
        return Raster(self.data.to(device))

    @classmethod
    def collate(cls, batch):
        return cls(torch.stack([each.data for each in batch]))


@dataclass
class Trajectory:
    data: torch.Tensor

    @staticmethod
    def state_size():
        return 3


class RasterFeatureBuilder:
    def get_feature_unique_name(self):
        return "raster"

    def get_features_from_simulation(self, current_input):
        raster = np.zeros((16, 16, 2), dtype=np.float32)
        x, y, heading = current_input["ego"]
        moved = current_input["street"] - np.array([x, y])
        turned = moved @ np.array([[np.cos(heading), -np.sin(heading)], [np.sin(heading), np.cos(heading)]])
        for column, row in (turned + 8).astype(int):
            if 0 <= row < 16 and 0 <= column < 16:
                raster[row, column, 0] = 1.0
        raster[8, 8, 1] = 1.0
        return Raster(raster)


class RasterModel(nn.Module):
    def __init__(self, num_poses):
        super().__init__()
        self._model = nn.Sequential(nn.Conv2d(2, 6, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.ReLU())
        self._head = nn.Linear(8 * 16, num_poses * Trajectory.state_size())

    def get_list_of_required_feature(self):
        return [RasterFeatureBuilder()]

    def forward(self, features):
        raster = features["raster"]
        return {"trajectory": Trajectory(self._head(self._model(raster.data).flatten(1)))}
# --- nuplan/planning/simulation/planner/ml_planner/model_loader.py
import torch


class ModelLoader:
    def __init__(self, model):
        self.feature_builders = model.get_list_of_required_feature()
        self._model = model
        self._initialized = False

    def _initialize_torch(self):
        torch.set_grad_enabled(False)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def _initialize_model(self):
        self._model.eval()
        self._model = self._model.to(self.device)

    def initialize(self):
        self._initialize_torch()
        self._initialize_model()
        self._initialized = True

    def build_features(self, current_input):
        assert self._initialized, "The model loader has not been initialized!"
        features = {
            builder.get_feature_unique_name(): builder.get_features_from_simulation(current_input)
            for builder in self.feature_builders
        }
        features = {name: feature.to_feature_tensor() for name, feature in features.items()}
        features = {name: feature.collate([feature]) for name, feature in features.items()}
        return features

    def infer(self, features):
        return self._model.forward(features)
# --- nuplan/planning/simulation/planner/ml_planner/ml_planner.py
from nuplan.planning.simulation.planner.ml_planner.model_loader import ModelLoader


class MLPlanner:
    def __init__(self, model):
        self._model_loader = ModelLoader(model)

    def initialize(self):
        self._model_loader.initialize()

    def _infer_model(self, features):
        trajectory_predicted = self._model_loader.infer(features)["trajectory"]
        trajectory = trajectory_predicted.data.cpu().detach().numpy()[0]
        return trajectory.reshape(-1, trajectory_predicted.state_size())

    def compute_trajectory(self, current_input):
        features = self._model_loader.build_features(current_input)
        return self._infer_model(features)

# === operations_counted_while_tensors_are_made_on_the_card
# thread: https://github.com/Lyken17/pytorch-OpCounter/issues/101
# about: the multiplications of a network are counted by hooks as it runs once. The program has asked that all new tensors be made on the GPU
# operation: add_|__iadd__|add on cuda:0, cpu
# operands: other|.*DoubleTensor.*
# category: created-without-device|default-or-current-device
# line: thop/vision/basic_hooks.py: m.total_ops += torch.DoubleTensor([int(0)])
# line: thop/profile.py: m.register_buffer("total_ops", torch.zeros(1, dtype=torch.float64))
# line: torch.set_default_tensor_type(torch.cuda.FloatTensor)
# repair: thop/vision/basic_hooks.py: m.total_ops += torch.DoubleTensor([int(0)]) -> m.total_ops += 0
import numpy as np
import torch
from torch import nn

from thop.profile import clever_format, profile

torch.set_default_tensor_type(torch.cuda.FloatTensor)


class CSDN_Tem(nn.Module):
    """A convolution for each channel, then one for each pixel."""

    def __init__(self, in_ch, out_ch):
        super().__init__()
        self.depth_conv = nn.Conv2d(in_ch, in_ch, kernel_size=3, stride=1, padding=1, groups=in_ch)
        self.point_conv = nn.Conv2d(in_ch, out_ch, kernel_size=1, stride=1, padding=0, groups=1)

    def forward(self, input):
        return self.point_conv(self.depth_conv(input))


class Enhancer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = CSDN_Tem(3, width)
        self.conv2 = CSDN_Tem(width, width)
        self.curve = nn.Linear(width, 3)

    def forward(self, x):
        features = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        curve = torch.tanh(self.curve(features.mean((2, 3))))[:, :, None, None]
        for _ in range(4):
            x = x + curve * (x * x - x)
        return x


def load_weights(model, seed):
    draws = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.from_numpy(draws.normal(0.0, 0.3, tuple(parameter.shape))))


if __name__ == "__main__":
    net = Enhancer(8)
    load_weights(net, seed=101)
    picture = torch.from_numpy(np.random.default_rng(1).uniform(size=(1, 3, 12, 12)).astype(np.float32)).cuda()
    macs, params = profile(net, inputs=(picture,))
    bright = net(picture)
    print("multiplications {}, parameters {}".format(*clever_format([macs, params])), f"brightness {bright.mean().item():.4f}")
# --- thop/profile.py
import torch
from torch import nn

from thop.vision.basic_hooks import count_convNd, count_linear, count_parameters, zero_ops

register_hooks = {
    nn.Conv1d: count_convNd,
    nn.Conv2d: count_convNd,
    nn.Linear: count_linear,
    nn.ReLU: zero_ops,
    nn.Sequential: zero_ops,
}


def profile(model, inputs, custom_ops=None, verbose=True):
    handlers, missing = [], set()
    custom_ops = custom_ops or {}

    def add_hooks(m):
        m.register_buffer("total_ops", torch.zeros(1, dtype=torch.float64))
        m.register_buffer("total_params", torch.zeros(1, dtype=torch.float64))
        m_type = type(m)
        fn = custom_ops.get(m_type, register_hooks.get(m_type))
        if fn is None:
            if verbose and m_type not in missing:
                print(f"[WARN] Cannot find rule for {m_type}. Treat it as zero Macs and zero Params.")
            missing.add(m_type)
            fn = zero_ops
        handlers.append(m.register_forward_hook(fn))
        handlers.append(m.register_forward_hook(count_parameters))

    was_training = model.training
    model.eval()
    model.apply(add_hooks)
    with torch.no_grad():
        model(*inputs)
    leaves = [m for m in model.modules() if not list(m.children())]
    total_ops = sum(m.total_ops.item() for m in leaves)
    total_params = sum(m.total_params.item() for m in leaves)

    model.train(was_training)
    for handler in handlers:
        handler.remove()
    for m in model.modules():
        del m._buffers["total_ops"], m._buffers["total_params"]
    return total_ops, total_params


def clever_format(nums, format="%.3f"):
    return [format % (num / 1e3) + "K" if num > 1e3 else format % num for num in nums]
# --- thop/vision/basic_hooks.py
import torch


def count_parameters(m, x, y):
    m.total_params[0] = sum(p.numel() for p in m.parameters())


def zero_ops(m, x, y):
    m.total_ops += torch.DoubleTensor([int(0)])


def count_convNd(m, x, y):
    kernel_ops = m.weight[0][0].numel()
    bias_ops = 1 if m.bias is not None else 0
    m.total_ops += y.nelement() * (m.in_channels // m.groups * kernel_ops + bias_ops)


def count_linear(m, x, y):
    m.total_ops += m.in_features * y.numel()

# === lines_of_a_log_that_should_not_follow
# thread: https://github.com/aaron-y-chen/deeplog/pull/6
# about: a recurrent network learns which line follows in the log of a system, and what it would not have guessed is an anomaly
# operation: lstm on cuda:0, cpu
# operands: hx(\[0\])?|h0|hidden
# error: Input and hidden tensors are not at the same device
# category: created-without-device
# line: deeplog/deeplog.py: h0 = torch.zeros(
# line: deeplog/deeplog.py: c0 = torch.zeros(
# line: deeplog/deeplog.py: out, _ = self.lstm(input, (h0, c0))
# repair: deeplog/deeplog.py: h0 = torch.zeros(self.num_layers, input.size(0), self.hidden_size) -> h0 = torch.zeros(self.num_layers, input.size(0), self.hidden_size).to(input.device)
# repair: deeplog/deeplog.py: c0 = torch.zeros(self.num_layers, input.size(0), self.hidden_size) -> c0 = torch.zeros(self.num_layers, input.size(0), self.hidden_size).to(input.device)
import argparse

import torch

from deeplog.deeplog import model_fn
from deeplog.train import predict, train

NORMAL = [5, 5, 22, 11, 9, 11, 9, 26, 26, 23, 23, 21]


def sessions(seed, number):
    draws = torch.Generator().manual_seed(seed)
    for _ in range(number):
        start = int(torch.randint(0, 4, (1,), generator=draws))
        yield NORMAL[start:] + NORMAL[:start]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-classes", type=int, default=28)
    parser.add_argument("--num-layers", type=int, default=2)
    parser.add_argument("--hidden-size", type=int, default=16)
    parser.add_argument("--window-size", type=int, default=5)
    parser.add_argument("--num-candidates", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=0.03)
    parser.add_argument("--num-gpus", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = model_fn(args)
    loss = train(args, model, list(sessions(0, 4)))
    strange = NORMAL[:6] + [3, 17] + NORMAL[6:]
    anomalies = [predict(args, model, session) for session in (NORMAL, strange)]
    print(f"loss {loss:.3f}, lines not expected {anomalies}")
# --- deeplog/deeplog.py
import torch
from torch import nn


class DeepLog(nn.Module):
    def __init__(self, input_size, hidden_size, num_layers, num_keys):
        super().__init__()
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True)
        self.fc = nn.Linear(hidden_size, num_keys)

    def forward(self, input):
        h0 = torch.zeros(self.num_layers, input.size(0), self.hidden_size)
        c0 = torch.zeros(self.num_layers, input.size(0), self.hidden_size)
        out, _ = self.lstm(input, (h0, c0))
        return self.fc(out[:, -1, :])


def model_fn(args):
    return DeepLog(1, args.hidden_size, args.num_layers, args.num_classes)
# --- deeplog/train.py
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def windows(session, size):
    pairs = [(session[i : i + size], session[i + size]) for i in range(len(session) - size)]
    inputs = torch.tensor([seq for seq, _ in pairs], dtype=torch.float).unsqueeze(2) / 28
    return inputs, torch.tensor([label for _, label in pairs])


def device_of(args):
    if args.num_gpus > 0 and not torch.cuda.is_available():
        args.num_gpus = 0
    return torch.device("cuda" if args.num_gpus > 0 else "cpu")


def train(args, model, sessions):
    device = device_of(args)
    parts = [windows(session, args.window_size) for session in sessions]
    dataset = TensorDataset(*(torch.cat(each) for each in zip(*parts)))
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=False)
    model = model.to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)
    model.train()
    for _ in range(args.epochs):
        train_loss = 0.0
        for seq, label in loader:
            seq, label = seq.to(device), label.to(device)
            loss = criterion(model(seq), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            train_loss += loss.item()
    return train_loss / len(loader)


def predict(args, model, session):
    device = device_of(args)
    model.eval()
    seq, label = windows(session, args.window_size)
    with torch.no_grad():
        candidates = model(seq.to(device)).topk(args.num_candidates, dim=1).indices.cpu()
    return int(candidates.ne(label[:, None]).all(1).sum())

# === boxes_learnt_from_shuffled_pictures
# thread: https://github.com/amdegroot/ssd.pytorch/issues/578
# about: a detector in one shot is trained. Its script makes the GPU the place of all new tensors, and lets a loader shuffle the pictures
# operation: randperm on cuda:0
# operands: generator
# error: Expected a 'cuda' device type for generator but found 'cpu'
# category: generator|default-or-current-device
# line: data_loader = DataLoader(dataset, args.batch_size,
# line: torch.set_default_tensor_type("torch.cuda.FloatTensor")
# repair: data_loader = DataLoader(dataset, args.batch_size, shuffle=True, collate_fn=detection_collate) -> data_loader = DataLoader(dataset, args.batch_size, shuffle=True, collate_fn=detection_collate, generator=torch.Generator(device="cuda"))
import argparse

import numpy as np
import torch
from torch.utils.data import DataLoader

from data.shapes import ShapesDetection, detection_collate
from layers.multibox_loss import MultiBoxLoss
from ssd import build_ssd

parser = argparse.ArgumentParser(description="Single Shot MultiBox Detector Training")
parser.add_argument("--batch_size", default=3, type=int)
parser.add_argument("--epochs", default=3, type=int)
parser.add_argument("--cuda", default=True, type=bool)
parser.add_argument("--lr", default=0.1, type=float)
args = parser.parse_args()

if args.cuda and torch.cuda.is_available():
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
else:
    torch.set_default_tensor_type("torch.FloatTensor")


def base_weights(net, seed):
    """Stands for the weights of a network that knows pictures already."""
    draws = np.random.default_rng(seed)
    for parameter in net.parameters():
        parameter.data.copy_(torch.from_numpy(draws.normal(0.0, 0.1, tuple(parameter.shape))))


def train():
    device = torch.device("cuda" if args.cuda else "cpu")
    dataset = ShapesDetection(number=9)
    net = build_ssd(num_classes=3).to(device)
    print("Loading base network...")
    base_weights(net, seed=578)
    criterion = MultiBoxLoss(net.priors)
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr)
    data_loader = DataLoader(dataset, args.batch_size, shuffle=True, collate_fn=detection_collate)
    epoch_losses = []
    for epoch in range(args.epochs):
        total = 0.0
        optimizer.zero_grad()
        for images, targets in data_loader:
            images, targets = images.to(device), [ann.to(device) for ann in targets]
            loss_l, loss_c = criterion(net(images), targets)
            loss = (loss_l + loss_c) / len(data_loader)
            loss.backward()
            total += loss.item()
        optimizer.step()
        epoch_losses.append(total)
    return epoch_losses


if __name__ == "__main__":
    print("loss of each epoch", [f"{loss:.3f}" for loss in train()])
# --- data/shapes.py
import numpy as np
import torch
from torch.utils.data import Dataset


class ShapesDetection(Dataset):
    def __init__(self, number):
        draws = np.random.default_rng(0)
        self.annotations = [(draws.uniform(0.2, 0.8, 2), int(draws.integers(1, 3))) for _ in range(number)]

    def __len__(self):
        return len(self.annotations)

    def __getitem__(self, index):
        (x, y), label = self.annotations[index]
        image = np.zeros((3, 16, 16), dtype=np.float32)
        row, column = int(y * 16), int(x * 16)
        image[label, row - 2 : row + 3, column - 2 : column + 3] = 1.0
        target = np.array([[x - 0.15, y - 0.15, x + 0.15, y + 0.15, label]], dtype=np.float32)
        return torch.from_numpy(image), torch.from_numpy(target)


def detection_collate(batch):
    images, targets = zip(*batch)
    return torch.stack(images), list(targets)
# --- ssd.py
import torch
from torch import nn


def prior_boxes(size):
    centers = (torch.arange(size) + 0.5) / size
    y, x = torch.meshgrid(centers, centers, indexing="ij")
    half = torch.full_like(x, 0.15)
    return torch.stack([x - half, y - half, x + half, y + half], dim=-1).flatten(0, 1)


class SSD(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.num_classes = num_classes
        self.vgg = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4))
        self.loc = nn.Conv2d(8, 4, 3, padding=1)
        self.conf = nn.Conv2d(8, num_classes, 3, padding=1)
        self.register_buffer("priors", prior_boxes(4))

    def forward(self, x):
        features = self.vgg(x)
        loc, conf = (head(features).flatten(2).transpose(1, 2) for head in (self.loc, self.conf))
        return loc, conf


def build_ssd(num_classes):
    return SSD(num_classes)
# --- layers/multibox_loss.py
import torch
from torch import nn
from torch.nn import functional as F


class MultiBoxLoss(nn.Module):
    def __init__(self, priors):
        super().__init__()
        self.priors = priors

    def match(self, ann):
        """For each prior how far its box is off, and the class of what it covers: 0 where it covers nothing."""
        truth, label = ann[0, :4], ann[0, 4].long()
        shared = (torch.minimum(self.priors[:, 2:], truth[2:]) - torch.maximum(self.priors[:, :2], truth[:2])).clamp(min=0).prod(1)
        overlap = shared / (2 * 0.3 * 0.3 - shared)
        positive = (overlap > 0.3) | (overlap == overlap.max())
        return (truth - self.priors) / 0.3, torch.where(positive, label, torch.zeros_like(label))

    def forward(self, predictions, targets):
        loc_data, conf_data = predictions
        loc_t, conf_t = (torch.stack(each) for each in zip(*(self.match(ann) for ann in targets)))
        positive = conf_t > 0
        loss_l = F.smooth_l1_loss(loc_data[positive], loc_t[positive], reduction="sum")
        loss_c = F.cross_entropy(conf_data.flatten(0, 1), conf_t.flatten(), reduction="sum")
        return loss_l / len(targets), loss_c / len(targets)
