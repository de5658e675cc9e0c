# === boxes_around_voted_things
# thread: https://github.com/torch-points3d/torch-points3d/issues/492
# about: points of a room vote for the middle of what they are part of, and a box is put around each. How well the boxes fit is measured with what is known of
#   the sizes of things
# operation: add on cpu, cuda:0
# operands: other|center.*|.*center.*
# category: input-not-moved|created-without-device|
# line: votenet_results.py: corners_3d = box_corners_from_param(
# line: box_utils.py: return (R @ corners_3d + center
# line: votenet_results.py: box_size = dataset.class2size(
# line: dataset.py: return self.mean_size_arr[pred_cls] + residual.cpu()
# line: box_utils.py: corners_3d = torch.stack(
# line: box_utils.py: R = euler_angles_to_rotation_matrix(
# repair: votenet_results.py: corners_3d = box_corners_from_param(box_size, heading_angle, self.center[i, j, :]) ->
#   corners_3d = box_corners_from_param(box_size, heading_angle, self.center[i, j, :].cpu())
import torch

from dataset import ScannetObjectDataset
from tracker import ScannetObjectTracker
from votenet import VoteNet


class Trainer:
    def __init__(self, cuda=0, seed=2):
        torch.manual_seed(seed)
        self._device = torch.device("cuda:{}".format(cuda) if torch.cuda.is_available() else "cpu")
        self._dataset = ScannetObjectDataset(rooms=2)
        self._model = VoteNet(self._dataset).to(self._device)
        self._tracker = ScannetObjectTracker(self._dataset)

    def eval(self, stage_name="test"):
        self._tracker.reset(stage_name)
        self._model.eval()
        with torch.no_grad():
            for pos in self._dataset.test_rooms().split(1):
                results = self._model(pos.to(self._device))
                self._tracker.track(results)
        return self._tracker.publish()


if __name__ == "__main__":
    metrics = Trainer().eval()
    print(" ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
# --- dataset.py
import math

import numpy as np
import torch


class ScannetObjectDataset:
    NUM_HEADING_BIN = 4
    MEAN_SIZES = [[0.8, 0.8, 0.9], [1.9, 0.9, 0.8], [1.2, 0.6, 0.7]]

    def __init__(self, rooms):
        self.rooms = rooms
        self.mean_size_arr = torch.from_numpy(np.array(self.MEAN_SIZES, dtype=np.float32))
        self.num_classes = len(self.mean_size_arr)

    def test_rooms(self):
        return torch.randn(self.rooms, 24, 3, generator=torch.Generator().manual_seed(5))

    def class2angle(self, pred_cls, residual):
        return (pred_cls.item() * 2 * math.pi / self.NUM_HEADING_BIN + residual.item()) % (2 * math.pi)

    def class2size(self, pred_cls, residual):
        """Size of a box, of its class and of how it differs from the mean."""
        return self.mean_size_arr[pred_cls] + residual.cpu()
# --- box_utils.py
import math

import torch


def euler_angles_to_rotation_matrix(theta):
    c, s = math.cos(theta[2]), math.sin(theta[2])
    return torch.tensor([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def box_corners_from_param(box_size, heading_angle, center):
    """The eight corners of a box, as rows."""
    R = euler_angles_to_rotation_matrix([0, 0, heading_angle])
    l, w, h = box_size / 2  # noqa: E741
    x_corners = torch.stack([-l, l, l, -l, -l, l, l, -l])
    y_corners = torch.stack([w, w, -w, -w, w, w, -w, -w])
    z_corners = torch.stack([h, h, h, h, -h, -h, -h, -h])
    corners_3d = torch.stack([x_corners, y_corners, z_corners])
    return (R @ corners_3d + center[:, None]).t()


def box3d_vol(corners):
    edges = [(corners[a] - corners[b]).norm() for a, b in ((0, 1), (1, 2), (0, 4))]
    return math.prod(edge.item() for edge in edges)
# --- votenet_results.py
import math
from dataclasses import dataclass

import torch

from box_utils import box_corners_from_param


@dataclass
class VoteNetResults:
    """What is proposed: for each vote where it is, how it is turned, how large and of what kind."""

    center: torch.Tensor
    objectness_scores: torch.Tensor
    heading_scores: torch.Tensor
    heading_residuals: torch.Tensor
    size_scores: torch.Tensor
    size_residuals: torch.Tensor

    @classmethod
    def from_logits(cls, sampled_votes, features, num_heading_bin, mean_size_arr):
        classes = len(mean_size_arr)
        center, objectness, heading, heading_residuals, size, size_residuals = features.split(
            [3, 2, num_heading_bin, num_heading_bin, classes, 3 * classes], dim=-1
        )
        return cls(
            center=sampled_votes + center,
            objectness_scores=objectness,
            heading_scores=heading,
            heading_residuals=heading_residuals * (math.pi / num_heading_bin),
            size_scores=size,
            size_residuals=size_residuals.unflatten(-1, (classes, 3)).tanh() * 0.1,
        )

    @property
    def batch_size(self):
        return self.center.shape[0]

    @property
    def num_proposal(self):
        return self.center.shape[1]

    def get_boxes(self, dataset, objectness_threshold=0.05):
        pred_heading_class = torch.argmax(self.heading_scores, -1)
        pred_heading_residual = torch.gather(self.heading_residuals, 2, pred_heading_class.unsqueeze(-1))
        pred_size_class = torch.argmax(self.size_scores, -1)
        index = pred_size_class[..., None, None].repeat(1, 1, 1, 3)
        pred_size_residual = torch.gather(self.size_residuals, 2, index).squeeze(2)

        pred_corners_3d = torch.zeros((self.batch_size, self.num_proposal, 8, 3))
        for i in range(self.batch_size):
            for j in range(self.num_proposal):
                heading_angle = dataset.class2angle(pred_heading_class[i, j], pred_heading_residual[i, j])
                box_size = dataset.class2size(pred_size_class[i, j].item(), pred_size_residual[i, j])
                corners_3d = box_corners_from_param(box_size, heading_angle, self.center[i, j, :])
                pred_corners_3d[i, j] = corners_3d

        pred_obj = torch.softmax(self.objectness_scores, -1)[:, :, 1].tolist()
        return [
            [(corners, score) for corners, score in zip(room, scores) if score > objectness_threshold]
            for room, scores in zip(pred_corners_3d, pred_obj)
        ]
# --- votenet.py
from torch import nn

from votenet_results import VoteNetResults


class VoteNet(nn.Module):
    def __init__(self, dataset, width=16, num_proposal=4):
        super().__init__()
        self.num_heading_bin, self.num_proposal = dataset.NUM_HEADING_BIN, num_proposal
        self.register_buffer("mean_size_arr", dataset.mean_size_arr)
        outputs = 3 + 2 + 2 * self.num_heading_bin + 4 * dataset.num_classes
        self.backbone = nn.Sequential(nn.Linear(3, width), nn.LeakyReLU(), nn.Linear(width, width))
        self.voting_module = nn.Linear(width, 3)
        self.proposal_cls_module = nn.Linear(width, outputs)

    def forward(self, pos):
        features = self.backbone(pos)
        votes = pos + self.voting_module(features)
        step = pos.shape[1] // self.num_proposal
        logits = self.proposal_cls_module(features[:, ::step])
        return VoteNetResults.from_logits(votes[:, ::step], logits, self.num_heading_bin, self.mean_size_arr)
# --- tracker.py
from box_utils import box3d_vol


class ScannetObjectTracker:
    def __init__(self, dataset):
        self._dataset = dataset

    def reset(self, stage):
        self._stage, self._boxes = stage, []

    def track(self, results):
        for boxes in results.get_boxes(self._dataset):
            self._boxes += boxes

    def publish(self):
        volumes = [box3d_vol(corners) for corners, _ in self._boxes]
        heights = [corners[:, 2].mean().item() for corners, _ in self._boxes]
        return {
            f"{self._stage}_boxes": len(volumes),
            f"{self._stage}_volume": sum(volumes) / len(volumes),
            f"{self._stage}_height": sum(heights) / len(heights),
        }

# === patches_mixed_by_layers
# thread: https://github.com/xmu-xiaoma666/External-Attention-pytorch/issues/94
# about: a picture's patches are mixed with each other and its channels with each other, in turn, by blocks that a loop makes
# operation: native_layer_norm|layer_norm on cuda:0, cpu
# operands: weight|bias|.*ln.*
# category: state-not-registered
# line: model/mlp/mlp_mixer.py: self.mlp_blocks=[]
# line: model/mlp/mlp_mixer.py: self.mlp_blocks.append(
# repair: model/mlp/mlp_mixer.py: self.mlp_blocks=[] -> self.mlp_blocks=nn.ModuleList([])
import argparse

import torch
from torch import nn

from dataset import StripesDataset
from model.mlp.mlp_mixer import MlpMixer


def train_one_epoch(model,criterion,optimizer,loader,device):
    model.train()
    total=0.0
    for images,labels in loader:
        images,labels=images.to(device),labels.to(device)
        optimizer.zero_grad()
        loss=criterion(model(images),labels)
        loss.backward()
        optimizer.step()
        total+=loss.item()*len(labels)
    return total/len(loader.dataset)


@torch.no_grad()
def evaluate(model,loader,device):
    model.eval()
    correct=0
    for images,labels in loader:
        pred=model(images.to(device)).argmax(dim=-1)
        correct+=(pred.cpu()==labels).sum().item()
    return correct/len(loader.dataset)


if __name__ == '__main__':
    parser=argparse.ArgumentParser()
    parser.add_argument('--epochs',type=int,default=4)
    parser.add_argument('--batch_size',type=int,default=8)
    parser.add_argument('--lr',type=float,default=0.01)
    parser.add_argument('--depth',type=int,default=2)
    args=parser.parse_args()

    torch.manual_seed(3)
    device=torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')
    loader=torch.utils.data.DataLoader(StripesDataset(32),batch_size=args.batch_size)
    mlp_mixer=MlpMixer(num_classes=2,num_blocks=args.depth,patch_size=4,tokens_hidden_dim=8,channels_hidden_dim=12,tokens_mlp_dim=16,channels_mlp_dim=16)
    mlp_mixer=mlp_mixer.to(device)
    criterion=nn.CrossEntropyLoss()
    optimizer=torch.optim.Adam(mlp_mixer.parameters(),lr=args.lr)
    for epoch in range(args.epochs):
        loss=train_one_epoch(mlp_mixer,criterion,optimizer,loader,device)
        acc=evaluate(mlp_mixer,loader,device)
        print('epoch %d loss %.4f acc %.4f'%(epoch,loss,acc))
# --- dataset.py
import torch
from torch.utils.data import Dataset


class StripesDataset(Dataset):
    """Stripes that go down, or across."""

    def __init__(self,size):
        draw=torch.Generator().manual_seed(8)
        self.labels=torch.arange(size)%2
        stripes=(torch.arange(16)%4<2).float().expand(16,16)
        images=torch.stack([stripes.t() if label else stripes for label in self.labels])
        self.images=images[:,None]+0.7*torch.randn(size,3,16,16,generator=draw)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self,index):
        return self.images[index],self.labels[index]
# --- model/mlp/mlp_mixer.py
from torch import nn


class MlpBlock(nn.Module):
    def __init__(self,input_dim,mlp_dim=512):
        super().__init__()
        self.fc1=nn.Linear(input_dim,mlp_dim)
        self.gelu=nn.GELU()
        self.fc2=nn.Linear(mlp_dim,input_dim)

    def forward(self,x):
        #x: (bs,tokens,channels) or (bs,channels,tokens)
        return self.fc2(self.gelu(self.fc1(x)))


class MixerBlock(nn.Module):
    def __init__(self,tokens_mlp_dim=16,channels_mlp_dim=1024,tokens_hidden_dim=32,channels_hidden_dim=1024):
        super().__init__()
        self.ln=nn.LayerNorm(channels_mlp_dim)
        self.tokens_mlp_block=MlpBlock(tokens_mlp_dim,mlp_dim=tokens_hidden_dim)
        self.channels_mlp_block=MlpBlock(channels_mlp_dim,mlp_dim=channels_hidden_dim)

    def forward(self,x):
        """
        x: (bs,tokens,channels)
        """
        ### tokens mixing
        y=self.ln(x)
        y=y.transpose(1,2) #(bs,channels,tokens)
        y=self.tokens_mlp_block(y)
        ### channels mixing
        y=y.transpose(1,2) #(bs,tokens,channels)
        out=x+y
        y=self.ln(out)
        return out+self.channels_mlp_block(y)


class MlpMixer(nn.Module):
    def __init__(self,num_classes,num_blocks,patch_size,tokens_hidden_dim,channels_hidden_dim,tokens_mlp_dim,channels_mlp_dim):
        super().__init__()
        self.num_classes=num_classes
        self.num_blocks=num_blocks #num of mlp layers
        self.patch_size=patch_size
        self.tokens_mlp_dim=tokens_mlp_dim
        self.channels_mlp_dim=channels_mlp_dim
        self.embd=nn.Conv2d(3,channels_mlp_dim,kernel_size=patch_size,stride=patch_size)
        self.ln=nn.LayerNorm(channels_mlp_dim)
        self.mlp_blocks=[]
        for _ in range(num_blocks):
            self.mlp_blocks.append(MixerBlock(tokens_mlp_dim,channels_mlp_dim,tokens_hidden_dim,channels_hidden_dim))
        self.fc=nn.Linear(channels_mlp_dim,num_classes)

    def forward(self,x):
        y=self.embd(x) # bs,channels,h,w
        bs,c,h,w=y.shape
        y=y.view(bs,c,-1).transpose(1,2) # bs,tokens,channels
        if(self.tokens_mlp_dim!=y.shape[1]):
            raise ValueError('Tokens_mlp_dim is not correct.')
        for i in range(self.num_blocks):
            y=self.mlp_blocks[i](y) # bs,tokens,channels
        y=self.ln(y)
        y=y.mean(dim=1) # bs,channels
        return self.fc(y) # bs,num_classes

# === roads_learned_on_from_a_file
# thread: https://github.com/sacmehta/EdgeNets/issues/25
# about: a small net learns to tell roads from all else. After a stop it goes on from a file, with its optimizer as it was
# operation: _foreach_(mul|add)_|mul_?|add_? on cpu, cuda:0
# operands: self|bufs?|momentum_buffer.*|.*momentum_buffer.*
# category: optimizer|checkpoint
# line: train_segmentation.py: model.load_state_dict(checkpoint["state_dict"])
# line: train_segmentation.py: optimizer.load_state_dict(checkpoint["optimizer"])
# line: train_segmentation.py: model = model.to(device)
# repair: train_segmentation.py: model.load_state_dict(checkpoint["state_dict"]) -> model.to(device).load_state_dict(checkpoint["state_dict"])
import argparse
import os
import tempfile

from train_segmentation import main

parser = argparse.ArgumentParser(description="Training of a segmentation network")
parser.add_argument("--model", default="espnetv2", choices=["espnetv2"])
parser.add_argument("--s", default=2.0, type=float, help="scale of the network's channels")
parser.add_argument("--batch-size", default=4, type=int)
parser.add_argument("--lr", default=0.05, type=float)
parser.add_argument("--lr-mult", default=2.0, type=float)
parser.add_argument("--momentum", default=0.9, type=float)
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("--resume", default="", type=str)
parser.add_argument("--savedir", default="./results", type=str)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as savedir:
        main(parser.parse_args(["--savedir", savedir]))
        path = os.path.join(savedir, "espnetv2_checkpoint.pth.tar")
        main(parser.parse_args(["--savedir", savedir, "--resume", path, "--epochs", "4"]))
# --- train_segmentation.py
import os

import torch

from data_loader import StreetSegmentation
from espnetv2 import espnetv2_seg
from segmentation_criterion import IOUEval, SegmentationLoss


def train_seg(model, loader, optimizer, criterion, device):
    model.train()
    losses = 0.0
    for inputs, target in loader:
        inputs, target = inputs.to(device=device), target.to(device=device)
        loss = criterion(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses += loss.item()
    return losses / len(loader)


@torch.no_grad()
def val_seg(model, loader, device, num_classes):
    model.eval()
    miou = IOUEval(num_classes)
    for inputs, target in loader:
        miou.update(model(inputs.to(device=device)).argmax(dim=1), target.to(device=device))
    return miou.get()


def main(args):
    torch.manual_seed(9)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dataset = StreetSegmentation(size=12)
    loader = torch.utils.data.DataLoader(dataset, batch_size=args.batch_size)
    model = espnetv2_seg(args.s, classes=2)
    train_params = [
        {"params": model.get_basenet_params(), "lr": args.lr},
        {"params": model.get_segment_params(), "lr": args.lr * args.lr_mult},
    ]
    optimizer = torch.optim.SGD(train_params, lr=args.lr, momentum=args.momentum, weight_decay=4e-5)

    start_epoch, best_miou = 0, 0.0
    if args.resume:
        checkpoint = torch.load(args.resume, map_location=torch.device("cpu"))
        start_epoch = checkpoint["epoch"]
        best_miou = checkpoint["best_miou"]
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        print("=> loaded checkpoint (epoch {})".format(start_epoch))

    criterion = SegmentationLoss(n_classes=2, device=device)
    model = model.to(device)
    for epoch in range(start_epoch, args.epochs):
        loss = train_seg(model, loader, optimizer, criterion, device)
        miou = val_seg(model, loader, device, num_classes=2)
        best_miou = max(miou, best_miou)
        print("epoch {} loss {:.4f} mIOU {:.4f} best {:.4f}".format(epoch, loss, miou, best_miou))
        state = {
            "epoch": epoch + 1,
            "arch": args.model,
            "state_dict": model.state_dict(),
            "best_miou": best_miou,
            "optimizer": optimizer.state_dict(),
        }
        torch.save(state, os.path.join(args.savedir, "{}_checkpoint.pth.tar".format(args.model)))
# --- data_loader.py
import torch


class StreetSegmentation(torch.utils.data.Dataset):
    """A grey road that narrows to the top, and green at its sides."""

    def __init__(self, size):
        draw = torch.Generator().manual_seed(6)
        rows, columns = torch.meshgrid(torch.arange(12), torch.arange(12), indexing="ij")
        middles = torch.randint(4, 8, (size, 1, 1), generator=draw)
        self.masks = ((columns - middles).abs() * 3 <= rows).long()
        colours = torch.tensor([[0.2, 0.7, 0.2], [0.5, 0.5, 0.5]])
        self.images = colours[self.masks].permute(0, 3, 1, 2) + 0.3 * torch.randn(size, 3, 12, 12, generator=draw)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], self.masks[index]
# --- espnetv2.py
from torch import nn


class EESP(nn.Module):
    """Convolutions of different reach over the same input, added up."""

    def __init__(self, channels, dilations=(1, 2)):
        super().__init__()
        self.spp_dw = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=d, dilation=d, groups=channels) for d in dilations)
        self.conv_1x1_exp = nn.Conv2d(channels, channels, 1)
        self.module_act = nn.PReLU(channels)

    def forward(self, x):
        return self.module_act(x + self.conv_1x1_exp(sum(conv(x) for conv in self.spp_dw)))


class ESPNetv2Segmentation(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.base_net = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), EESP(channels))
        self.bu_dec = nn.Sequential(EESP(channels), nn.Conv2d(channels, classes, 1))

    def get_basenet_params(self):
        return list(self.base_net.parameters())

    def get_segment_params(self):
        return list(self.bu_dec.parameters())

    def forward(self, x):
        return self.bu_dec(self.base_net(x))


def espnetv2_seg(scale, classes):
    return ESPNetv2Segmentation(int(3 * scale), classes)
# --- segmentation_criterion.py
import torch
from torch import nn


class SegmentationLoss(nn.Module):
    def __init__(self, n_classes, device, weights=(1.0, 1.5)):
        super().__init__()
        self.num_classes = n_classes
        self.loss_fn = nn.CrossEntropyLoss(weight=torch.tensor(weights)).to(device)

    def forward(self, inputs, target):
        return self.loss_fn(inputs, target)


class IOUEval:
    def __init__(self, num_classes):
        self.num_classes = num_classes
        self.inter, self.union = 0, 0

    def update(self, pred, target):
        classes = torch.arange(self.num_classes, device=pred.device)[:, None]
        pred, target = pred.flatten() == classes, target.flatten() == classes
        self.inter = self.inter + (pred & target).sum(dim=1)
        self.union = self.union + (pred | target).sum(dim=1)

    def get(self):
        return (self.inter / self.union).mean().item()

# === clips_told_in_words
# thread: https://github.com/PKU-YuanGroup/Video-LLaVA/issues/102
# about: a model tells what is seen in a clip: frames take the place of a mark between the words of a question. Its parts are spread over the cards there are
# operation: cat on cuda:0, cuda:1
# operands: tensors|tensors\[\d\]|cur_new_input_embeds.*|video_features.*|cur_video_features.*
# category: module-split
# line: llava_arch.py: cur_new_input_embeds = torch.cat(
# line: llava_arch.py: cur_new_input_embeds.append(cur_video_features)
# line: llava_arch.py: video_features = self.encode_videos(
# line: builder.py: device_map = infer_auto_device_map(
# line: tokenizer, model = load_pretrained_model(
# line: builder.py: def load_pretrained_model(
# repair: llava_arch.py: cur_new_input_embeds = torch.cat(cur_new_input_embeds) ->
#   cur_new_input_embeds = torch.cat([x.to(self.device) for x in cur_new_input_embeds])
import torch

from builder import load_pretrained_model
from llava_arch import DEFAULT_VIDEO_TOKEN, tokenizer_video_token


def main():
    torch.manual_seed(12)
    inp = "why is this clip funny ?"
    tokenizer, model = load_pretrained_model("LanguageBind/Video-LLaVA-7B")
    video = torch.sin(torch.arange(4 * 3 * 6 * 6) / 7).view(1, 4, 3, 6, 6)

    prompt = "user " + DEFAULT_VIDEO_TOKEN + " " + inp + " assistant"
    input_ids = tokenizer_video_token(prompt, tokenizer).unsqueeze(0).to(model.device)
    with torch.inference_mode():
        output_ids, score = model.generate(input_ids, images=[video.to(model.device)], max_new_tokens=4)
    print(f"{inp}\n> {tokenizer.decode(output_ids)}")
    print("ids", output_ids, "score", round(score, 4))


if __name__ == "__main__":
    main()
# --- builder.py
import torch
from torch import nn

from llava_arch import LlavaLlamaForCausalLM

WORDS = "<unk> user assistant why is this clip funny ? the baby reads a book upside down".split()


class Tokenizer:
    def encode(self, text):
        return [WORDS.index(word) if word in WORDS else 0 for word in text.split()]

    def decode(self, ids):
        return " ".join(WORDS[i] for i in ids)


def infer_auto_device_map(model, devices):
    """Whole parts in their order, about as much of them for each device."""
    parts = dict(model.named_parts())
    sizes = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
    share, used, device_map = sum(sizes.values()) / len(devices), 0, {}
    for name, size in sizes.items():
        device_map[name] = devices[min(int(used / share), len(devices) - 1)]
        used += size
    return device_map


def move_args(module, args, kwargs):
    device = next(module.parameters()).device
    args = tuple(each.to(device) if torch.is_tensor(each) else each for each in args)
    return args, {key: each.to(device) if torch.is_tensor(each) else each for key, each in kwargs.items()}


def dispatch_model(model, device_map):
    for name, device in device_map.items():
        part: nn.Module = model.get_submodule(name).to(device)
        part.register_forward_pre_hook(move_args, with_kwargs=True)
    return model


def load_pretrained_model(model_path, device_map="auto"):
    model = LlavaLlamaForCausalLM(vocab_size=len(WORDS)).eval()
    if device_map == "auto":
        devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())] or ["cpu"]
        device_map = infer_auto_device_map(model, devices)
    return Tokenizer(), dispatch_model(model, device_map)
# --- llava_arch.py
import torch
from torch import nn

DEFAULT_VIDEO_TOKEN = "<video>"
VIDEO_TOKEN_INDEX = -200


def tokenizer_video_token(prompt, tokenizer):
    before, after = prompt.split(DEFAULT_VIDEO_TOKEN)
    return torch.tensor(tokenizer.encode(before) + [VIDEO_TOKEN_INDEX] + tokenizer.encode(after))


class LlamaDecoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv_proj = nn.Linear(width, 3 * width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, hidden_states):
        q, k, v = self.qkv_proj(self.norm(hidden_states)).chunk(3, dim=-1)
        hidden_states = hidden_states + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return hidden_states + self.mlp(hidden_states)


class VideoTower(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.patch_embedding = nn.Conv2d(3, width, 3, stride=3)

    def forward(self, frames):
        return self.patch_embedding(frames).flatten(2).mean(dim=-1)


class LlavaMetaForCausalLM:
    def encode_videos(self, videos):
        b, t = videos.shape[:2]
        video_features = self.model.video_tower(videos.flatten(0, 1))
        return self.model.mm_projector(video_features).view(b, t, -1)

    def prepare_inputs_labels_for_multimodal(self, input_ids, images):
        videos = torch.cat(images)
        video_features = self.encode_videos(videos)
        new_input_embeds = []
        for batch_idx, cur_input_ids in enumerate(input_ids):
            where = (cur_input_ids == VIDEO_TOKEN_INDEX).nonzero().item()
            cur_video_features = video_features[batch_idx]
            cur_new_input_embeds = [self.model.embed_tokens(cur_input_ids[:where])]
            cur_new_input_embeds.append(cur_video_features)
            cur_new_input_embeds.append(self.model.embed_tokens(cur_input_ids[where + 1 :]))
            cur_new_input_embeds = torch.cat(cur_new_input_embeds)
            new_input_embeds.append(cur_new_input_embeds)
        return torch.stack(new_input_embeds)


class LlavaLlamaModel(nn.Module):
    def __init__(self, vocab_size, width=8, layers=3):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, width)
        self.layers = nn.ModuleList(LlamaDecoderLayer(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.video_tower = VideoTower(width + 4)
        self.mm_projector = nn.Linear(width + 4, width)


class LlavaLlamaForCausalLM(nn.Module, LlavaMetaForCausalLM):
    def __init__(self, vocab_size):
        super().__init__()
        self.model = LlavaLlamaModel(vocab_size)
        self.lm_head = nn.Linear(8, vocab_size, bias=False)

    @property
    def device(self):
        return next(self.parameters()).device

    def named_parts(self):
        for name, module in self.model.named_children():
            if isinstance(module, nn.ModuleList):
                yield from ((f"model.{name}.{i}", layer) for i, layer in enumerate(module))
            else:
                yield f"model.{name}", module
        yield "lm_head", self.lm_head

    def forward(self, inputs_embeds):
        hidden_states = inputs_embeds
        for layer in self.model.layers:
            hidden_states = layer(hidden_states)
        return self.lm_head(self.model.norm(hidden_states))

    def generate(self, input_ids, images, max_new_tokens):
        inputs_embeds = self.prepare_inputs_labels_for_multimodal(input_ids, images)
        output_ids, score = [], 0.0
        for _ in range(max_new_tokens):
            logprobs = self.forward(inputs_embeds)[0, -1].log_softmax(dim=-1)
            output_ids.append(logprobs.argmax().item())
            score += logprobs.max().item()
            following = self.model.embed_tokens(torch.tensor([output_ids[-1:]], device=self.device))
            inputs_embeds = torch.cat([inputs_embeds, following.to(inputs_embeds.device)], dim=1)
        return output_ids, score

# === classes_that_keep_coming
# thread: https://github.com/sun-hailong/CVPR24-Ease/issues/1
# about: a net is shown more kinds of things again and again. What the old layer knew is made as wide as the new features are, in each copy of the net on a
#   card of its own
# operation: cat on cuda:1, cuda:0
# operands: tensors|tensors\[\d\]|.*zeros.*|padding
# category: data-parallel|created-without-device|default-or-current-device
# line: utils/inc_net.py: padding = torch.zeros(
# line: utils/inc_net.py: fc_weight = torch.cat(
# line: models/beef.py: self._network = nn.DataParallel(
# line: utils/inc_net.py: self._device =
# repair: utils/inc_net.py: padding = torch.zeros((new_task_size, self.feature_dim - self.out_dim)).to(self._device) ->
#   padding = torch.zeros((new_task_size, self.feature_dim - self.out_dim)).to(self.old_fc.weight.device)
import torch

from models.beef import Learner
from utils.data_manager import DataManager

PARAM = {
    "prefix": "reproduce",
    "init_cls": 2,
    "increment": 2,
    "model_name": "beef",
    "device": ["0", "1"],
    "seed": [1993],
    "epochs": 3,
    "lr": 0.1,
}


def _set_device(args):
    gpus = [torch.device("cpu") if each == "-1" else torch.device("cuda:{}".format(each)) for each in args["device"]]
    args["device"] = gpus


def _train(args):
    torch.manual_seed(args["seed"])
    _set_device(args)
    data_manager = DataManager(args["init_cls"], args["increment"], tasks=3)
    model = Learner(args)
    cnn_curve = []
    for _ in range(data_manager.nb_tasks):
        loss = model.incremental_train(data_manager)
        cnn_curve.append(model.eval_task(data_manager))
        model.after_task()
    print("loss", round(loss, 4), "CNN top1 curve:", *[round(each, 2) for each in cnn_curve])


def train(args):
    for seed in args["seed"]:
        _train({**args, "seed": seed})


if __name__ == "__main__":
    train(PARAM)
# --- utils/data_manager.py
import torch


class DataManager:
    """Two more classes a task, each somewhere else in the plane."""

    def __init__(self, init_cls, increment, tasks):
        self._increments = [init_cls] + [increment] * (tasks - 1)

    @property
    def nb_tasks(self):
        return len(self._increments)

    def get_task_size(self, task):
        return self._increments[task]

    def get_dataset(self, first, last, per_class=8):
        targets = torch.arange(first, last).repeat(per_class)
        draw = torch.Generator().manual_seed(first)
        angles = targets * 1.05
        inputs = torch.stack([angles.cos(), angles.sin()], dim=1) + 0.1 * torch.randn(len(targets), 2, generator=draw)
        return inputs, targets
# --- utils/inc_net.py
import copy

import torch
from torch import nn


class SimpleLinear(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.kaiming_uniform_(self.weight, nonlinearity="linear")

    def forward(self, input):
        return {"logits": nn.functional.linear(input, self.weight, self.bias)}


def get_convnet(out_dim):
    return nn.Sequential(nn.Linear(2, out_dim), nn.Tanh())


class BEEFISONet(nn.Module):
    def __init__(self, args, out_dim=6):
        super().__init__()
        self.convnets = nn.ModuleList()
        self.new_fc, self.old_fc = None, None
        self.out_dim = out_dim
        self.task_sizes = []
        self._device = args["device"][0]

    @property
    def feature_dim(self):
        return self.out_dim * len(self.convnets)

    def forward(self, x):
        features = torch.cat([convnet(x) for convnet in self.convnets], 1)
        if self.old_fc is None:
            return self.new_fc(features)["logits"]
        new_task_size = self.task_sizes[-1]
        padding = torch.zeros((new_task_size, self.feature_dim - self.out_dim)).to(self._device)
        fc_weight = torch.cat([self.old_fc.weight, padding], dim=0)
        old_logits = nn.functional.linear(features[:, : -self.out_dim], fc_weight)
        return self.new_fc(features)["logits"] + old_logits

    def update_fc(self, task_size):
        self.convnets.append(get_convnet(self.out_dim))
        self.task_sizes.append(task_size)
        if self.new_fc is not None:
            old_fc = SimpleLinear(self.feature_dim - self.out_dim, sum(self.task_sizes[:-1]))
            old_fc.weight.data.copy_(self.new_fc.weight.data)
            self.old_fc = old_fc
        self.new_fc = SimpleLinear(self.feature_dim, sum(self.task_sizes))

    def freeze(self):
        for param in self.parameters():
            param.requires_grad = False
        self.eval()

    def copy(self):
        return copy.deepcopy(self)
# --- models/beef.py
import torch
from torch import nn
from torch.nn import functional as F

from utils.inc_net import BEEFISONet


class Learner:
    def __init__(self, args):
        self.args = args
        self._network = BEEFISONet(args)
        self._device = args["device"][0]
        self._multiple_gpus = args["device"]
        self._cur_task, self._total_classes = -1, 0

    def after_task(self):
        self._network.freeze()

    def incremental_train(self, data_manager):
        self._cur_task += 1
        self._total_classes += data_manager.get_task_size(self._cur_task)
        self._network.update_fc(data_manager.get_task_size(self._cur_task))
        train_dataset = data_manager.get_dataset(0, self._total_classes)
        if len(self._multiple_gpus) > 1:
            self._network = nn.DataParallel(self._network, self._multiple_gpus)
        loss = self._train(*train_dataset)
        if len(self._multiple_gpus) > 1:
            self._network = self._network.module
        return loss

    def _train(self, inputs, targets):
        self._network.to(self._device)
        params = [p for p in self._network.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(params, lr=self.args["lr"], momentum=0.9)
        self._network.train()
        for _ in range(self.args["epochs"]):
            losses = 0.0
            for input, target in zip(inputs.split(8), targets.split(8)):
                input, target = input.to(self._device), target.to(self._device)
                loss = F.cross_entropy(self._network(input), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses += loss.item()
        return losses

    @torch.no_grad()
    def eval_task(self, data_manager):
        self._network.eval()
        inputs, targets = data_manager.get_dataset(0, self._total_classes)
        predicts = self._network(inputs.to(self._device)).argmax(dim=1)
        return 100 * (predicts.cpu() == targets).float().mean().item()

# === planes_fitted_to_rays
# thread: https://github.com/ziangcao0312/DiffTF/issues/3
# about: three planes of features are fitted to the colours along rays. The rays come in an order that is drawn anew
# error: device type for generator
# operation: randperm on cuda:0, cpu
# operands: generator
# category: generator|default-or-current-device
# line: training_loader = DataLoader(
# line: torch.set_default_tensor_type(
# repair: training_loader = DataLoader(dataset, batch_size=args.N_rand, shuffle=True) ->
#   training_loader = DataLoader(dataset, batch_size=args.N_rand, shuffle=True, generator=torch.Generator(device=device))
import torch
from torch.utils.data import DataLoader

from dataset import OmniRays
from options import config_parser
from render import render_rays
from triplane import TriPlaneDecoder

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def mse2psnr(x):
    return -10.0 * torch.log10(x)


def train(args):
    dataset = OmniRays(args.datadir, args.n_rays)
    training_loader = DataLoader(dataset, batch_size=args.N_rand, shuffle=True)
    decoder = TriPlaneDecoder(args.plane_size, args.channels).to(device)
    optimizer = torch.optim.Adam(decoder.parameters(), lr=args.lrate, betas=(0.9, 0.999))

    print("start training!")
    for step in range(args.N_iters):
        optimizer.zero_grad()
        squared = torch.zeros(())
        for rays_o, rays_d, target in training_loader:
            rgb = render_rays(decoder, rays_o.to(device), rays_d.to(device), args.N_samples)
            loss = ((rgb - target.to(device)) ** 2).sum() / (3 * len(dataset))
            loss.backward()
            squared += loss.detach()
        optimizer.step()
        print(f"[TRAIN] Iter: {step} Loss: {squared.item():.4f} PSNR: {mse2psnr(squared).item():.2f}")
    return squared.item()


if __name__ == "__main__":
    torch.set_default_tensor_type("torch.cuda.FloatTensor" if device.type == "cuda" else "torch.FloatTensor")
    final = train(config_parser().parse_args())
    print("final loss", round(final, 3))
# --- options.py
import argparse


def config_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--datadir", default="./dataset/Omniobject3D/renders", help="input data directory")
    parser.add_argument("--n_rays", type=int, default=48)
    parser.add_argument("--N_rand", type=int, default=16, help="batch size (number of random rays per gradient step)")
    parser.add_argument("--N_samples", type=int, default=6, help="number of coarse samples per ray")
    parser.add_argument("--N_iters", type=int, default=5)
    parser.add_argument("--lrate", type=float, default=5e-2, help="learning rate")
    parser.add_argument("--plane_size", type=int, default=5)
    parser.add_argument("--channels", type=int, default=4)
    return parser
# --- dataset.py
import os

import numpy as np
from torch.utils.data import Dataset


class OmniRays(Dataset):
    """Rays from a ring of cameras to the middle, with the colours they are to have."""

    def __init__(self, datadir, n_rays):
        self.name = os.path.basename(datadir)
        rng = np.random.default_rng(11)
        angles = np.linspace(0, 2 * np.pi, n_rays, endpoint=False)
        self.rays_o = np.stack([np.cos(angles), np.sin(angles), 0.3 * np.sin(3 * angles)], axis=1).astype(np.float32)
        jitter = rng.normal(scale=0.1, size=self.rays_o.shape)
        self.rays_d = (jitter - self.rays_o).astype(np.float32)
        self.rgbs = (0.5 + 0.4 * self.rays_o).astype(np.float32)

    def __len__(self):
        return len(self.rays_o)

    def __getitem__(self, index):
        return self.rays_o[index], self.rays_d[index], self.rgbs[index]
# --- triplane.py
import torch
from torch import nn
from torch.nn import functional as F


class TriPlaneDecoder(nn.Module):
    def __init__(self, plane_size, channels):
        super().__init__()
        self.planes = nn.Parameter(torch.linspace(-1, 1, 3 * channels * plane_size**2).sin().view(3, channels, plane_size, plane_size))
        self.net = nn.Linear(channels, 4)
        with torch.no_grad():
            self.net.weight.copy_(torch.linspace(-0.5, 0.5, 4 * channels).view(4, channels))
            self.net.bias.zero_()

    def forward(self, points):
        coordinates = torch.stack([points[..., [0, 1]], points[..., [1, 2]], points[..., [0, 2]]])
        features = F.grid_sample(self.planes, coordinates, align_corners=True).sum(dim=0)
        outputs = self.net(features.permute(1, 2, 0))
        return outputs[..., :3].sigmoid(), F.softplus(outputs[..., 3])
# --- render.py
import torch


def render_rays(decoder, rays_o, rays_d, n_samples, near=0.2, far=1.8):
    z_vals = torch.linspace(near, far, n_samples)
    points = rays_o[:, None] + rays_d[:, None] * z_vals[:, None]
    rgb, sigma = decoder(points)
    alpha = 1 - torch.exp(-sigma * (far - near) / n_samples)
    through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], dim=1), dim=1)
    return ((alpha * through)[..., None] * rgb).sum(dim=1)
