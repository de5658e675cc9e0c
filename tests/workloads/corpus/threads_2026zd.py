# === intensities_of_two_scans
# thread: https://github.com/Project-MONAI/MONAI/pull/8872
# about: two scans are laid over each other until each one's brightness tells most of the other's. How bright is counted softly, around centers that are laid out once
# operation: sub on cuda:0, cpu
# operands: other|self.bin_centers|.*centers.*
# category: state-not-registered
# line: losses.py: self.bin_centers = centers[None, None]
# line: losses.py: weight = torch.exp(
# repair: losses.py: self.bin_centers = centers[None, None] -> self.register_buffer("bin_centers", centers[None, None], persistent=False)
import torch

from losses import GlobalMutualInformationLoss
from registration import register
from warp import Affine

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
rows, columns = torch.meshgrid(torch.linspace(-1, 1, 12), torch.linspace(-1, 1, 12), indexing="ij")
fixed = torch.exp(-4 * ((rows - 0.1) ** 2 + 2 * columns**2))[None, None]
moving = 1 - torch.exp(-4 * ((rows + 0.2) ** 2 + 2 * (columns - 0.1) ** 2))[None, None]
loss = GlobalMutualInformationLoss(num_bins=8, sigma_ratio=0.5).to(device)
warp, history = register(fixed.to(device), moving.to(device), Affine().to(device), loss, steps=5, rate=0.05)
print("information", [round(-value, 4) for value in history], "shift", [round(value, 4) for value in warp.theta[:, 2].tolist()])
# --- losses.py
import torch
from torch import nn

class GlobalMutualInformationLoss(nn.Module):
    """Negative mutual information of two images, by a Parzen window."""

    def __init__(self, num_bins=16, sigma_ratio=0.5):
        super().__init__()
        centers = torch.linspace(0.0, 1.0, num_bins)
        sigma = (centers[1] - centers[0]).item() * sigma_ratio
        self.preterm = 1 / (2 * sigma**2)
        self.bin_centers = centers[None, None]

    def window(self, image):
        values = image.clamp(0, 1).flatten(1)[..., None]
        weight = torch.exp(-self.preterm * (values - self.bin_centers) ** 2)
        weight = weight / weight.sum(-1, keepdim=True)
        return weight, weight.mean(1, keepdim=True)

    def forward(self, predicted, target):
        ours, ours_mean = self.window(predicted)
        theirs, theirs_mean = self.window(target)
        joint = ours.transpose(1, 2) @ theirs / ours.shape[1]
        apart = ours_mean.transpose(1, 2) @ theirs_mean
        return -(joint * torch.log((joint + 1e-7) / (apart + 1e-7))).sum((1, 2)).mean()
# --- warp.py
import torch
from torch import nn
from torch.nn import functional as F

class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.theta = nn.Parameter(torch.eye(2, 3))

    def forward(self, image):
        grid = F.affine_grid(self.theta[None], image.shape, align_corners=False)
        return F.grid_sample(image, grid, align_corners=False, padding_mode="border")
# --- registration.py
import torch

def register(fixed, moving, warp, loss, steps, rate):
    optimizer = torch.optim.SGD(warp.parameters(), lr=rate)
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(warp(moving), fixed)
        value.backward()
        optimizer.step()
        history.append(value.item())
    return warp, history

# === prompts_are_read_from_host_weights
# thread: https://github.com/sgl-project/sglang/pull/33864
# about: an encoder's weights stay in RAM and each layer's are fetched while it computes. What makes its inputs asks the encoder where it is
# operation: embedding|index_select on cpu, cuda:0
# operands: index|indices|input|.*ids
# category: default-or-current-device|input-not-moved|module-split
# line: encoder.py: return next(self.parameters()).device
# line: encoder.py: ids = torch.tensor(
# line: encoder.py: hidden = self.tokens(ids)
# repair: encoder.py: return next(self.parameters()).device -> return self.compute_device
import torch

from encoder import PromptEncoder
from offload import keep_on_host
from pipeline import ImagePipeline

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
encoder = PromptEncoder(vocabulary=32, width=8, depth=2, compute_device=device).eval()
keep_on_host(encoder, device)
pipeline = ImagePipeline(encoder, width=8, device=device)
for prompt in ("a red kite", "two boats at dawn"):
    image = pipeline(prompt, seed=4, steps=3)
print("image", [round(value, 4) for value in image.flatten()[:6].tolist()])
# --- offload.py
class HostWeights:
    """Parameters of one module: in RAM, and on the device while it computes."""

    def __init__(self, module, device):
        self.device = device
        self.host = {name: value.data for name, value in module.named_parameters(recurse=False)}
        module.register_forward_pre_hook(self.fetch)
        module.register_forward_hook(self.release)

    def fetch(self, module, args):
        for name, value in self.host.items():
            getattr(module, name).data = value.to(self.device, non_blocking=True)

    def release(self, module, args, output):
        for name, value in self.host.items():
            getattr(module, name).data = value

def keep_on_host(model, device):
    for module in model.modules():
        if any(True for _ in module.parameters(recurse=False)):
            HostWeights(module, device)
        for name, value in module.named_buffers(recurse=False):
            setattr(module, name, value.to(device))
# --- encoder.py
import torch
import zlib
from torch import nn

class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

class PromptEncoder(nn.Module):
    def __init__(self, vocabulary, width, depth, compute_device):
        super().__init__()
        self.vocabulary, self.compute_device = vocabulary, compute_device
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.register_buffer("inv_freq", 1.0 / 100 ** torch.linspace(0, 1, width))

    @property
    def device(self):
        return next(self.parameters()).device

    def tokenize(self, prompt):
        return [zlib.crc32(word.encode()) % self.vocabulary for word in prompt.split()]

    @torch.no_grad()
    def encode(self, prompt):
        ids = torch.tensor(self.tokenize(prompt), device=self.device)
        hidden = self.tokens(ids)
        places = torch.arange(len(ids), device=hidden.device)
        hidden = hidden + torch.sin(places[:, None] * self.inv_freq)
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden.mean(0)
# --- pipeline.py
import torch
from torch import nn

class ImagePipeline:
    def __init__(self, encoder, width, device):
        self.encoder, self.device = encoder, device
        self.denoiser = nn.Sequential(nn.Linear(2 * width, 16), nn.SiLU(), nn.Linear(16, width)).to(device)
        self.width = width

    @torch.no_grad()
    def __call__(self, prompt, seed, steps):
        words = self.encoder.encode(prompt).expand(4, -1)
        latents = torch.randn(4, self.width, generator=torch.Generator().manual_seed(seed)).to(self.device)
        for _ in range(steps):
            latents = latents - self.denoiser(torch.cat([latents, words], -1)) / steps
        return latents.cpu()

# === where_a_checkpoint_wants_to_be
# thread: https://github.com/strands-labs/robots/pull/430
# about: a policy is loaded onto the device that its checkpoint's configuration names, and who runs it asks for another one
# operation: addmm|linear on cuda:0, cpu
# operands: mat1|input|batch.*|.*
# category: input-not-moved|module-split|checkpoint|default-or-current-device
# line: local_policy.py: self._policy = ActPolicy.from_pretrained(path)
# repair: local_policy.py: self._policy = ActPolicy.from_pretrained(path) -> self._policy = ActPolicy.from_pretrained(path).to(self._device)
import tempfile

from act import ActConfig, ActPolicy
from arm import SimulatedArm
from local_policy import LocalPolicy

import torch

torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    ActPolicy(ActConfig(state=4, action=4, chunk=3)).save_pretrained(folder)
    policy = LocalPolicy(folder, device="cuda" if torch.cuda.is_available() else "cpu")
arm = SimulatedArm(joints=4, seed=2)
for _ in range(5):
    for action in policy.get_actions(arm.observe()):
        arm.move(action)
print("joints", [round(value, 4) for value in arm.joints.tolist()])
# --- act.py
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

@dataclass
class ActConfig:
    state: int
    action: int
    chunk: int
    device: str = "cpu"

class ActPolicy(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.encoder = nn.Sequential(nn.Linear(config.state, 16), nn.Tanh())
        self.head = nn.Linear(16, config.chunk * config.action)

    def save_pretrained(self, folder):
        (Path(folder) / "config.json").write_text(json.dumps(asdict(self.config)))
        torch.save(self.state_dict(), Path(folder) / "model.pt")

    @classmethod
    def from_pretrained(cls, folder):
        config = ActConfig(**json.loads((Path(folder) / "config.json").read_text()))
        policy = cls(config)
        policy.load_state_dict(torch.load(Path(folder) / "model.pt", map_location="cpu"))
        policy.to(config.device)
        return policy.eval()

    @torch.no_grad()
    def select_chunk(self, batch):
        hidden = self.encoder(batch["observation.state"])
        return self.head(hidden).unflatten(-1, (self.config.chunk, self.config.action))
# --- local_policy.py
import torch

from act import ActPolicy

class LocalPolicy:
    def __init__(self, path, device):
        self._device = torch.device(device)
        self._load_model(path)

    def _load_model(self, path):
        self._policy = ActPolicy.from_pretrained(path)

    def get_actions(self, observation):
        batch = {name: torch.as_tensor(value, dtype=torch.float32)[None].to(self._device) for name, value in observation.items()}
        chunk = self._policy.select_chunk(batch)
        return chunk[0].cpu()
# --- arm.py
import torch

class SimulatedArm:
    def __init__(self, joints, seed):
        self.joints = torch.randn(joints, generator=torch.Generator().manual_seed(seed))

    def observe(self):
        return {"observation.state": self.joints.numpy()}

    def move(self, action):
        self.joints = (self.joints + 0.1 * action).clamp(-3, 3)

# === waking_up_leaves_weights_in_ram
# thread: https://github.com/verl-project/verl/pull/4777
# about: one set of weights is trained, and copied to another engine that makes samples. To make room for it the trained ones go to RAM; whether they do so between steps, too, is a setting
# operation: addmm|mm|linear|matmul|.*cat|.* on cuda:0, cpu
# operands: .*
# category: module-split|cached-state|input-not-moved
# line: worker.py: self.engine.to("cpu")
# line: engine.py: if self.offload_params:
# repair: worker.py: self.engine.to("cpu") -> self.engine.to("cpu" if self.engine.offload_params else self.engine.device)
import torch

from data import prompts
from worker import ActorRolloutWorker

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
worker = ActorRolloutWorker(width=6, actions=5, device=device, offload_params=False)
rewards = []
for step, batch in enumerate(prompts(count=4, size=8, width=6, seed=1)):
    samples = worker.generate(batch, seed=step)
    rewards.append(worker.update(batch, samples))
print("rewards", [round(value, 4) for value in rewards], "weights", round(worker.engine.checksum(), 4))
# --- data.py
import torch

def prompts(count, size, width, seed):
    draw = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield torch.randn(size, width, generator=draw)
# --- engine.py
import torch
from torch import nn

class TrainingEngine:
    def __init__(self, width, actions, device, offload_params):
        self.device, self.offload_params = device, offload_params
        self.module = nn.Sequential(nn.Linear(width, 12), nn.Tanh(), nn.Linear(12, actions))
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=0.2)
        self.to("cpu" if offload_params else device)

    def to(self, device):
        self.module.to(device)

    def train_mode(self):
        if self.offload_params:
            self.to(self.device)
        self.module.train()

    def log_probs(self, states, actions):
        scores = self.module(states.to(self.device)).log_softmax(-1)
        return scores.gather(-1, actions.to(self.device)[:, None])[:, 0]

    def checksum(self):
        return sum(weight.detach().abs().sum().item() for weight in self.module.parameters())
# --- rollout.py
import torch
from torch import nn

class Rollout:
    def __init__(self, width, actions, device):
        self.device = device
        self.module = nn.Sequential(nn.Linear(width, 12), nn.Tanh(), nn.Linear(12, actions)).to(device).eval()

    def update_weights(self, weights):
        self.module.load_state_dict({name: value.to(self.device) for name, value in weights.items()})

    @torch.no_grad()
    def sample(self, states, seed):
        odds = self.module(states.to(self.device)).softmax(-1).cpu()
        return torch.multinomial(odds, 1, generator=torch.Generator().manual_seed(seed))[:, 0]
# --- worker.py
from engine import TrainingEngine
from rollout import Rollout

class ActorRolloutWorker:
    def __init__(self, width, actions, device, offload_params):
        self.engine = TrainingEngine(width, actions, device, offload_params)
        self.rollout = Rollout(width, actions, device)

    def wake_up(self):
        self.rollout.update_weights(self.engine.module.state_dict())
        self.engine.to("cpu")

    def generate(self, states, seed):
        self.wake_up()
        return self.rollout.sample(states, seed)

    def update(self, states, actions):
        self.engine.train_mode()
        reward = (actions == states.argmax(-1) % 5).float()
        gain = (reward - reward.mean()).to(self.engine.device)
        loss = -(gain * self.engine.log_probs(states, actions)).mean()
        self.engine.optimizer.zero_grad()
        loss.backward()
        self.engine.optimizer.step()
        return reward.mean().item()

# === tokens_are_counted_before
# thread: https://github.com/huggingface/transformers/pull/37916
# about: gradients of several batches are summed, so losses are sums that are divided by how many tokens all of the batches have. The model begins on one GPU and ends on another
# operation: div on cuda:1, cuda:0
# operands: other|num_items_in_batch
# category: module-split|input-not-moved
# line: losses.py: return loss / num_items_in_batch
# line: trainer.py: num_items = sum(
# line: trainer.py: logits, loss = self.model(
# repair: losses.py: return loss / num_items_in_batch -> return loss / num_items_in_batch.to(loss.device)
import torch

from model import PipelinedLM
from trainer import Trainer

torch.manual_seed(0)
count = torch.cuda.device_count()
devices = [f"cuda:{index}" for index in range(count)] or ["cpu"]
model = PipelinedLM(vocabulary=16, width=8, depth=4, devices=devices)
draw = torch.Generator().manual_seed(3)
texts = [torch.randint(1, 16, (2, length), generator=draw) for length in (5, 7, 6, 4)]
trainer = Trainer(model, lr=0.1, accumulate=2)
losses = trainer.fit(texts)
print("losses", [round(value, 4) for value in losses])
# --- model.py
import torch
from torch import nn

from losses import causal_lm_loss

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mix, self.out = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        seen = self.mix(self.norm(x)).cumsum(1) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        return x + self.out(torch.tanh(seen))

class PipelinedLM(nn.Module):
    def __init__(self, vocabulary, width, depth, devices):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0).to(devices[0])
        self.stages = [devices[index * len(devices) // depth] for index in range(depth)]
        self.blocks = nn.ModuleList(Block(width).to(device) for device in self.stages)
        self.head = nn.Linear(width, vocabulary).to(devices[-1])

    @property
    def device(self):
        return self.embed.weight.device

    def forward(self, input_ids, labels=None, **loss_kwargs):
        x = self.embed(input_ids)
        for device, block in zip(self.stages, self.blocks):
            x = block(x.to(device))
        logits = self.head(x)
        loss = None if labels is None else causal_lm_loss(logits, labels, **loss_kwargs)
        return logits, loss
# --- losses.py
from torch.nn import functional as F

def fixed_cross_entropy(source, target, num_items_in_batch=None, ignore_index=-100):
    reduction = "sum" if num_items_in_batch is not None else "mean"
    loss = F.cross_entropy(source, target, ignore_index=ignore_index, reduction=reduction)
    if num_items_in_batch is None:
        return loss
    return loss / num_items_in_batch

def causal_lm_loss(logits, labels, num_items_in_batch=None, ignore_index=-100):
    shifted = F.pad(labels, (0, 1), value=ignore_index)[:, 1:]
    target = shifted.reshape(-1).to(logits.device)
    return fixed_cross_entropy(logits.flatten(0, 1), target, num_items_in_batch, ignore_index)
# --- trainer.py
import torch

class Trainer:
    def __init__(self, model, lr, accumulate):
        self.model, self.accumulate = model, accumulate
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def prepare(self, texts):
        inputs = [text.to(self.model.device) for text in texts]
        num_items = sum((text[:, 1:] != -100).sum() for text in inputs)
        return inputs, num_items

    def fit(self, texts):
        losses = []
        for start in range(0, len(texts), self.accumulate):
            inputs, num_items = self.prepare(texts[start : start + self.accumulate])
            total = 0.0
            for ids in inputs:
                logits, loss = self.model(ids, labels=ids, num_items_in_batch=num_items)
                loss.backward()
                total += loss.item()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(total)
        return losses

# === patches_of_images_of_any_shape
# thread: https://github.com/huggingface/transformers/pull/40117
# about: images of different shapes are cut into patches, and where a patch lies is told as a share of its image, looked up among places that were learned
# operation: bucketize|searchsorted on cuda:0, cpu
# operands: boundaries
# category: created-without-device
# line: vision.py: boundaries = torch.arange(
# line: vision.py: bucket_rows = torch.bucketize(
# line: vision.py: position_ids = torch.zeros(
# repair: vision.py: boundaries = torch.arange(1 / self.side, 1.0, 1 / self.side) -> boundaries = torch.arange(1 / self.side, 1.0, 1 / self.side, device=patch_mask.device)
# repair: vision.py: position_ids = torch.zeros(patch_mask.flatten(1).shape, dtype=torch.long) -> position_ids = torch.zeros(patch_mask.flatten(1).shape, dtype=torch.long, device=patch_mask.device)
import torch

from collate import pad_images
from vision import VisionTower

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
tower = VisionTower(width=8, patch=2, side=4, depth=2).to(device).eval()
draw = torch.Generator().manual_seed(1)
images = [torch.rand(3, height, width, generator=draw) for height, width in ((8, 8), (4, 8), (6, 4))]
pixels, mask = pad_images(images, patch=2)
with torch.no_grad():
    seen = tower(pixels.to(device), mask.to(device))
print("pooled", [[round(value, 4) for value in row[:3]] for row in seen.tolist()])
# --- collate.py
import torch

def pad_images(images, patch):
    height, width = (max(image.shape[side] for image in images) for side in (1, 2))
    pixels = torch.zeros(len(images), 3, height, width)
    mask = torch.zeros(len(images), height // patch, width // patch, dtype=torch.bool)
    for index, image in enumerate(images):
        pixels[index, :, : image.shape[1], : image.shape[2]] = image
        mask[index, : image.shape[1] // patch, : image.shape[2] // patch] = True
    return pixels, mask
# --- vision.py
import torch
from torch import nn

class VisionEmbeddings(nn.Module):
    def __init__(self, width, patch, side):
        super().__init__()
        self.side = side
        self.patch_embedding = nn.Conv2d(3, width, patch, stride=patch)
        self.position_embedding = nn.Embedding(side * side, width)

    def forward(self, pixel_values, patch_mask):
        embeddings = self.patch_embedding(pixel_values).flatten(2).transpose(1, 2)
        boundaries = torch.arange(1 / self.side, 1.0, 1 / self.side)
        position_ids = torch.zeros(patch_mask.flatten(1).shape, dtype=torch.long)
        for index, mask in enumerate(patch_mask):
            rows, columns = mask[:, 0].sum(), mask[0].sum()
            share_rows = torch.arange(mask.shape[0], device=mask.device) / rows
            share_columns = torch.arange(mask.shape[1], device=mask.device) / columns
            bucket_rows = torch.bucketize(share_rows, boundaries, right=True)
            bucket_columns = torch.bucketize(share_columns, boundaries, right=True)
            ids = bucket_rows[:, None] * self.side + bucket_columns[None]
            position_ids[index][mask.flatten()] = ids[mask]
        return embeddings + self.position_embedding(position_ids)

class VisionTower(nn.Module):
    def __init__(self, width, patch, side, depth):
        super().__init__()
        self.embeddings = VisionEmbeddings(width, patch, side)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, pixel_values, patch_mask):
        x = self.embeddings(pixel_values, patch_mask)
        flat = patch_mask.flatten(1)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=~flat)
        x = self.norm(x).masked_fill(~flat[..., None], 0.0)
        return x.sum(1) / flat.sum(1, keepdim=True)

# === tables_beside_the_layers
# thread: https://github.com/huggingface/diffusers/pull/12347
# about: only layers of some kinds are fetched to the GPU while they compute. A block of a video model has numbers of its own beside its layers, by which it is shifted and scaled
# operation: add on cpu, cuda:0
# operands: self|self.scale_shift_table|.*table.*
# category: module-split|input-not-moved
# line: transformer.py: table = self.scale_shift_table + temb
# line: leaves.py: if isinstance(module, LEAVES):
# repair: transformer.py: table = self.scale_shift_table + temb -> table = self.scale_shift_table.to(temb.device) + temb
# repair: transformer.py: shift, scale = (self.scale_shift_table + temb[:, :1]).chunk(2, dim=1) -> shift, scale = (self.scale_shift_table.to(temb.device) + temb[:, :1]).chunk(2, dim=1)
import torch
from torch import nn

from leaves import offload_leaves
from scheduler import FlowSchedule
from transformer import VideoTransformer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
transformer = VideoTransformer(channels=4, width=8, depth=3).eval()
nn.init.normal_(transformer.proj_out.weight, std=0.2)
offload_leaves(transformer, device)
schedule = FlowSchedule(steps=4, shift=3.0)
latents = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(2)).to(device)
with torch.no_grad():
    for sigma, following in schedule:
        velocity = transformer(latents, torch.tensor([sigma], device=device))
        latents = latents + (following - sigma) * velocity
print("latents", [round(value, 4) for value in latents[0, :3].flatten().tolist()])
# --- leaves.py
from torch import nn

LEAVES = (nn.Linear, nn.LayerNorm, nn.Conv1d, nn.Embedding)

def offload_leaves(model, device):
    """Layers of the kinds above are on the device only while they compute."""
    for module in model.modules():
        if isinstance(module, LEAVES):
            module.register_forward_pre_hook(lambda module, args: module.to(device) and None)
            module.register_forward_hook(lambda module, args, output: module.to("cpu") and None)
# --- scheduler.py
class FlowSchedule:
    def __init__(self, steps, shift):
        times = [1 - index / steps for index in range(steps + 1)]
        self.sigmas = [shift * time / (1 + (shift - 1) * time) for time in times]

    def __iter__(self):
        return iter(zip(self.sigmas, self.sigmas[1:]))
# --- transformer.py
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.scale_shift_table = nn.Parameter(torch.randn(1, 3, width) / width**0.5)

    def forward(self, x, temb):
        table = self.scale_shift_table + temb
        shift, scale, gate = table.chunk(3, dim=1)
        hidden = self.norm(x) * (1 + scale) + shift
        return x + gate * self.down(nn.functional.gelu(self.up(hidden)))

class VideoTransformer(nn.Module):
    def __init__(self, channels, width, depth):
        super().__init__()
        self.width = width
        self.proj_in, self.time = nn.Linear(channels, width), nn.Linear(width, 3 * width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.norm_out, self.proj_out = nn.LayerNorm(width), nn.Linear(width, channels)
        self.scale_shift_table = nn.Parameter(torch.randn(1, 2, width) / width**0.5)

    def embed_time(self, sigma):
        rates = torch.exp(-torch.arange(self.width // 2, device=sigma.device))
        angles = 1000 * sigma[:, None] * rates
        return self.time(torch.cat([angles.sin(), angles.cos()], -1)).unflatten(-1, (3, self.width))

    def forward(self, x, sigma):
        temb = self.embed_time(sigma)
        x = self.proj_in(x)
        for block in self.blocks:
            x = block(x, temb)
        shift, scale = (self.scale_shift_table + temb[:, :1]).chunk(2, dim=1)
        return self.proj_out(self.norm_out(x) * (1 + scale) + shift)

# === a_voice_on_the_second_card
# thread: https://github.com/index-tts/index-tts/pull/147
# about: a program that speaks with a voice it was given takes its GPU as an argument. What is computed of the voice is put where GPUs begin
# operation: cat on cuda:1, cuda:0
# operands: tensors|.*
# category: default-or-current-device|input-not-moved|cached-state
# line: infer.py: mel = mel.cuda()
# line: infer.py: self.voices[path] = self.conditioning(mel)
# line: gpt.py: hidden = torch.cat(
# repair: infer.py: mel = mel.cuda() if torch.cuda.is_available() else mel -> mel = mel.to(self.device)
import argparse

import torch

from infer import IndexTTS

parser = argparse.ArgumentParser()
parser.add_argument("text", nargs="?", default="a vehicle arrives at dock seven")
parser.add_argument("-v", "--voice", default="input.wav")
parser.add_argument("-d", "--device", default="cuda:1" if torch.cuda.device_count() > 1 else None)
options = parser.parse_args()
speaker = IndexTTS(device=options.device, seed=0)
for sentence in (options.text, "it leaves again"):
    wave = speaker.infer(options.voice, sentence)
    print(len(wave), "samples")
print("wave", [round(value, 4) for value in wave[:6].tolist()])
# --- audio.py
import zlib

import torch

def read_voice(path, length=48):
    """Stands for a file: the same path is the same voice."""
    draw = torch.Generator().manual_seed(zlib.crc32(path.encode()))
    return torch.randn(length, generator=draw)

def mel_of(wave, frame=8):
    frames = wave.unfold(0, frame, frame // 2)
    return torch.log1p(torch.fft.rfft(frames).abs())
# --- gpt.py
import torch
from torch import nn

class SpeechGPT(nn.Module):
    def __init__(self, letters, width, codes):
        super().__init__()
        self.letters, self.head = nn.Embedding(letters, width), nn.Linear(width, codes)
        self.rnn = nn.GRU(width, width, batch_first=True)

    def forward(self, text, voice):
        hidden = torch.cat([voice[None], self.letters(text)])
        states, _ = self.rnn(hidden[None])
        return self.head(states[0, 1:]).argmax(-1)

class Vocoder(nn.Module):
    def __init__(self, codes, hop):
        super().__init__()
        self.table = nn.Embedding(codes, hop)

    def forward(self, codes):
        return self.table(codes).flatten().tanh()
# --- infer.py
import zlib

import torch
from torch import nn

from audio import mel_of, read_voice
from gpt import SpeechGPT, Vocoder

class IndexTTS:
    def __init__(self, device=None, seed=0):
        torch.manual_seed(seed)
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.gpt = SpeechGPT(letters=31, width=8, codes=12).to(self.device).eval()
        self.vocoder = Vocoder(codes=12, hop=4).to(self.device).eval()
        self.projection = torch.randn(5, 8, generator=torch.Generator().manual_seed(seed))
        self.voices = {}

    def conditioning(self, mel):
        return nn.functional.normalize(mel.mean(0) @ self.projection.to(mel.device), dim=0)

    def voice_of(self, path):
        if path not in self.voices:
            mel = mel_of(read_voice(path))
            mel = mel.cuda() if torch.cuda.is_available() else mel
            self.voices[path] = self.conditioning(mel)
        return self.voices[path]

    @torch.no_grad()
    def infer(self, path, text):
        letters = [zlib.crc32(letter.encode()) % 31 for letter in text]
        codes = self.gpt(torch.tensor(letters, device=self.device), self.voice_of(path))
        return self.vocoder(codes).cpu()

# === what_transforms_give_back
# thread: https://github.com/InternRobotics/InternManip/issues/14
# about: what a robot sees goes through a chain of transforms, each of numbers of its own, and then to a model on the GPU
# operation: addmm|linear on cpu, cuda:0
# operands: mat1|input|.*
# category: input-not-moved|input
# line: agent.py: normalized = self.transforms(
# line: agent.py: chunk = self.model.inference(
# line: model.py: tokens = torch.stack(
# repair: agent.py: normalized = self.transforms(unsqueeze_values(observation)) -> normalized = {name: value.to(self.device) for name, value in self.transforms(unsqueeze_values(observation)).items()}
import torch

from agent import GenManipAgent
from bench import Bench

torch.manual_seed(0)
agent = GenManipAgent(device="cuda" if torch.cuda.is_available() else "cpu", replan=2)
bench = Bench(seed=5, length=6)
observation = bench.reset()
while not bench.done:
    observation = bench.step(agent.act(observation))
print("returned", round(bench.total, 4), "at", [round(value, 4) for value in bench.hand.tolist()])
# --- transforms.py
import torch

class ToFloat:
    def __call__(self, data):
        return {name: value.float() / 255 if value.dtype == torch.uint8 else value.float() for name, value in data.items()}

class Normalize:
    def __init__(self, statistics):
        self.statistics = statistics

    def __call__(self, data):
        for name, (mean, std) in self.statistics.items():
            data[name] = (data[name] - mean) / std
        return data

class Compose:
    def __init__(self, *steps):
        self.steps = steps

    def __call__(self, data):
        for step in self.steps:
            data = step(data)
        return data
# --- model.py
import torch
from torch import nn

class ManipModel(nn.Module):
    def __init__(self, width, horizon):
        super().__init__()
        self.horizon = horizon
        self.image, self.state = nn.Linear(3 * 16, width), nn.Linear(3, width)
        self.mix = nn.MultiheadAttention(width, 2, batch_first=True)
        self.actions = nn.Linear(width, horizon * 3)

    def inference(self, data):
        tokens = torch.stack([self.image(data["image"].flatten(1)), self.state(data["state"])], 1)
        mixed, _ = self.mix(tokens, tokens, tokens, need_weights=False)
        return {"action_pred": self.actions(mixed.mean(1)).view(-1, self.horizon, 3).tanh()}
# --- agent.py
import torch

from model import ManipModel
from transforms import Compose, Normalize, ToFloat

def unsqueeze_values(observation):
    return {name: torch.as_tensor(value)[None] for name, value in observation.items()}

class GenManipAgent:
    def __init__(self, device, replan):
        self.device, self.replan, self.queue = torch.device(device), replan, []
        self.transforms = Compose(ToFloat(), Normalize({"state": (torch.tensor([0.1, 0.0, -0.1]), torch.full((3,), 0.5))}))
        self.model = ManipModel(width=8, horizon=4).to(self.device).eval()

    def inference(self, observation):
        normalized = self.transforms(unsqueeze_values(observation))
        with torch.inference_mode():
            chunk = self.model.inference(normalized)["action_pred"].float().cpu()
        return chunk[0]

    def act(self, observation):
        if not self.queue:
            self.queue = list(self.inference(observation)[: self.replan])
        return self.queue.pop(0).numpy()
# --- bench.py
import numpy

class Bench:
    def __init__(self, seed, length):
        self.random, self.length = numpy.random.default_rng(seed), length

    def reset(self):
        self.hand, self.goal = numpy.zeros(3, dtype=numpy.float32), self.random.normal(size=3).astype(numpy.float32)
        self.time, self.total = 0, 0.0
        return self.observe()

    @property
    def done(self):
        return self.time >= self.length

    def observe(self):
        image = self.random.integers(0, 256, (3, 4, 4), dtype=numpy.uint8)
        return {"image": image, "state": self.hand}

    def step(self, action):
        self.hand = self.hand + 0.2 * action
        self.total -= float(numpy.abs(self.hand - self.goal).sum())
        self.time += 1
        return self.observe()

# === ranges_that_are_empty
# thread: https://github.com/huggingface/lerobot/pull/1801
# about: values are brought between -1 and 1 by their least and their greatest, and where these two are all but the same a small number stands in. Each worker has its own GPU
# operation: maximum on cuda:1, cuda:0
# operands: self|input|.*eps.*|.*
# category: default-or-current-device|created-without-device|input-not-moved
# line: normalize.py: eps = torch.tensor(
# line: normalize.py: span = torch.maximum(
# line: worker.py: self.normalize = MinMax(
# repair: normalize.py: eps = torch.tensor(self.eps, device=self.device, dtype=span.dtype) -> eps = torch.tensor(self.eps, device=span.device, dtype=span.dtype)
import torch

from dataset import recorded
from normalize import MinMax
from worker import Worker

torch.manual_seed(0)
count = torch.cuda.device_count()
config = {"device": "cuda" if count else "cpu", "lr": 0.1, "width": 8}
workers = [Worker(rank, f"cuda:{rank}" if count else "cpu", config) for rank in range(max(1, count))]
frames, stats = recorded(count=16, seed=3)
for step in range(3):
    losses = [worker.train(frames[worker.rank :: len(workers)], stats) for worker in workers]
print("losses", [round(value, 4) for value in losses])
# --- dataset.py
import torch

def recorded(count, seed):
    """Frames of an arm whose last joint never moved."""
    draw = torch.Generator().manual_seed(seed)
    frames = [{"state": torch.cat([torch.randn(3, generator=draw), torch.ones(1)]), "action": torch.randn(2, generator=draw)} for _ in range(count)]
    stats = {}
    for name in ("state", "action"):
        values = torch.stack([frame[name] for frame in frames])
        stats[name] = {"min": values.amin(0), "max": values.amax(0)}
    return frames, stats
# --- normalize.py
import torch

class MinMax:
    def __init__(self, stats, device, eps=1e-4):
        self.stats, self.device, self.eps = stats, torch.device(device), eps

    def to(self, device):
        self.stats = {name: {key: value.to(device) for key, value in entry.items()} for name, entry in self.stats.items()}
        return self

    def __call__(self, batch):
        normalized = {}
        for name, value in batch.items():
            low, high = self.stats[name]["min"], self.stats[name]["max"]
            span = high - low
            eps = torch.tensor(self.eps, device=self.device, dtype=span.dtype)
            span = torch.maximum(span, eps)
            normalized[name] = 2 * (value - low) / span - 1
        return normalized
# --- worker.py
import torch
from torch import nn

from normalize import MinMax

class Worker:
    def __init__(self, rank, device, config):
        self.rank, self.device, self.config = rank, torch.device(device), config
        torch.manual_seed(0)
        self.policy = nn.Sequential(nn.Linear(4, config["width"]), nn.Tanh(), nn.Linear(config["width"], 2)).to(self.device)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=config["lr"])
        self.normalize = None

    def collate(self, frames):
        return {name: torch.stack([frame[name] for frame in frames]).to(self.device) for name in frames[0]}

    def train(self, frames, stats):
        if self.normalize is None:
            self.normalize = MinMax(stats, self.config["device"]).to(self.device)
        batch = self.normalize(self.collate(frames))
        loss = nn.functional.mse_loss(self.policy(batch["state"]), batch["action"])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

# === graphs_that_grow_by_edges
# thread: https://github.com/GFNOrg/torchgfn/pull/288
# about: graphs are built edge by edge, with a chance that follows a reward. An environment knows which edges are not there yet; a sampler asks it before each step
# operation: masked_fill|where on cuda:0, cpu
# operands: mask|.*mask.*
# category: created-without-device|cached-state
# line: environment.py: free = torch.ones(
# line: environment.py: adjacency = torch.zeros(
# line: sampler.py: scores = scores.masked_fill(
# repair: environment.py: free = torch.ones(len(states.edges), self.pairs.shape[1] + 1, dtype=torch.bool) -> free = torch.ones(len(states.edges), self.pairs.shape[1] + 1, dtype=torch.bool, device=states.edges.device)
# repair: environment.py: adjacency = torch.zeros(len(states.edges), self.nodes, self.nodes) -> adjacency = torch.zeros(len(states.edges), self.nodes, self.nodes, device=states.edges.device)
import torch

from environment import GraphBuilding
from policy import EdgePolicy
from sampler import trajectory_balance

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
environment = GraphBuilding(nodes=4, device=device)
policy = EdgePolicy(environment.pairs.shape[1], width=16).to(device)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
draw = torch.Generator().manual_seed(7)
losses = []
for step in range(4):
    loss = trajectory_balance(environment, policy, batch=6, draw=draw)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print("losses", [round(value, 4) for value in losses])
# --- environment.py
from dataclasses import dataclass

import torch

@dataclass
class States:
    edges: torch.Tensor
    done: torch.Tensor

class GraphBuilding:
    def __init__(self, nodes, device):
        self.nodes, self.device = nodes, device
        self.pairs = torch.triu_indices(nodes, nodes, 1)

    def reset(self, batch):
        edges = torch.zeros(batch, self.pairs.shape[1], dtype=torch.bool, device=self.device)
        return States(edges, torch.zeros(batch, dtype=torch.bool, device=self.device))

    def forward_masks(self, states):
        """An edge that is not there, or to stop, which is the last."""
        free = torch.ones(len(states.edges), self.pairs.shape[1] + 1, dtype=torch.bool)
        free[:, :-1] = ~states.edges
        return free

    def step(self, states, actions):
        stops = actions == self.pairs.shape[1]
        chosen = torch.nn.functional.one_hot(actions, self.pairs.shape[1] + 1)[:, :-1].bool()
        return States(states.edges | (chosen & ~states.done[:, None]), states.done | stops)

    def log_reward(self, states):
        first, second = self.pairs.to(states.edges.device)
        adjacency = torch.zeros(len(states.edges), self.nodes, self.nodes)
        adjacency[:, first, second] = states.edges.float()
        adjacency = adjacency + adjacency.transpose(1, 2)
        triangles = torch.diagonal(adjacency @ adjacency @ adjacency, dim1=1, dim2=2).sum(-1) / 6
        return triangles - 0.2 * states.edges.sum(-1)
# --- policy.py
import torch
from torch import nn

class EdgePolicy(nn.Module):
    def __init__(self, pairs, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(pairs, width), nn.ReLU(), nn.Linear(width, pairs + 1))
        self.log_z = nn.Parameter(torch.zeros(()))

    def forward(self, edges):
        return self.net(edges.float())
# --- sampler.py
import torch

def choose(odds, draw):
    return torch.multinomial(odds.detach().cpu(), 1, generator=draw)[:, 0].to(odds.device)

def trajectory_balance(environment, policy, batch, draw):
    states = environment.reset(batch)
    forward = torch.zeros(batch, device=states.edges.device)
    backward = torch.zeros(batch, device=states.edges.device)
    while not states.done.all():
        scores = policy(states.edges)
        scores = scores.masked_fill(~environment.forward_masks(states), float("-inf"))
        actions = choose(scores.softmax(-1), draw)
        chosen = scores.log_softmax(-1).gather(-1, actions[:, None])[:, 0]
        forward = forward + chosen.masked_fill(states.done, 0.0)
        states = environment.step(states, actions)
        backward = backward - torch.log(states.edges.sum(-1).clamp(min=1)).masked_fill(states.done, 0.0)
    return (policy.log_z + forward - environment.log_reward(states) - backward).square().mean()

# === corrections_come_from_the_server
# thread: https://github.com/NVIDIA/NVFlare/pull/4838
# about: clients each train on their own data, and a server tells them by how much theirs differ from all of it, so that they do not drift apart. It sends arrays
# operation: sub on cpu, cuda:0
# operands: self|.*global.*|.*control.*
# category: input-not-moved|created-without-device|cached-state
# line: scaffold.py: self.global_control = {name
# line: scaffold.py: correction = self.global_control[name] - self.local_control[name]
# line: client.py: self.scaffold.load_global(
# repair: scaffold.py: self.global_control = {name: torch.as_tensor(value) for name, value in arrays.items()} -> self.global_control = {name: torch.as_tensor(value).to(self.local_control[name].device) for name, value in arrays.items()}
import torch

from client import Client
from server import Server

device = "cuda" if torch.cuda.is_available() else "cpu"
clients = [Client(seed, device, rate=0.1, steps=3) for seed in range(3)]
server = Server(clients[0].new_model())
for _ in range(3):
    answers = [client.train(server.weights, server.controls) for client in clients]
    server.aggregate(answers)
print("weights", [round(float(value), 4) for value in server.weights["0.weight"].flatten()[:5]], "loss", round(sum(client.loss for client in clients), 4))
# --- server.py
import numpy

class Server:
    """Knows arrays only, for they are what is sent."""

    def __init__(self, model):
        self.weights = {name: value.detach().numpy().copy() for name, value in model.named_parameters()}
        self.controls = {name: numpy.zeros_like(value) for name, value in self.weights.items()}

    def aggregate(self, answers):
        for name in self.weights:
            self.weights[name] = self.weights[name] + sum(answer["weights"][name] for answer in answers) / len(answers)
            self.controls[name] = self.controls[name] + sum(answer["controls"][name] for answer in answers) / len(answers)
# --- scaffold.py
import torch

class ScaffoldHelper:
    def __init__(self, model):
        self.local_control = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
        self.global_control = {}

    def load_global(self, arrays):
        self.global_control = {name: torch.as_tensor(value) for name, value in arrays.items()}

    @torch.no_grad()
    def correct(self, model, rate):
        for name, weight in model.named_parameters():
            correction = self.global_control[name] - self.local_control[name]
            weight -= rate * correction

    @torch.no_grad()
    def update(self, before, model, rate, steps):
        changes = {}
        for name, weight in model.named_parameters():
            drift = (before[name] - weight) / (steps * rate)
            fresh = self.local_control[name] - self.global_control[name] + drift
            changes[name] = (fresh - self.local_control[name]).cpu().numpy()
            self.local_control[name] = fresh
        return changes
# --- client.py
import torch
from torch import nn

from scaffold import ScaffoldHelper

class Client:
    def __init__(self, seed, device, rate, steps):
        draw = torch.Generator().manual_seed(seed)
        self.inputs = (torch.randn(12, 3, generator=draw) + seed).to(device)
        self.targets = self.inputs.sum(-1, keepdim=True).sin()
        self.rate, self.steps, self.loss = rate, steps, 0.0
        self.model = self.new_model().to(device)
        self.scaffold = ScaffoldHelper(self.model)

    @staticmethod
    def new_model():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))

    def train(self, weights, controls):
        self.model.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})
        self.scaffold.load_global(controls)
        before = {name: value.detach().clone() for name, value in self.model.named_parameters()}
        optimizer = torch.optim.SGD(self.model.parameters(), lr=self.rate)
        for _ in range(self.steps):
            loss = nn.functional.mse_loss(self.model(self.inputs), self.targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.scaffold.correct(self.model, self.rate)
        self.loss = loss.item()
        changes = self.scaffold.update(before, self.model, self.rate, self.steps)
        after = {name: (value.detach() - before[name]).cpu().numpy() for name, value in self.model.named_parameters()}
        return {"weights": after, "controls": changes}
