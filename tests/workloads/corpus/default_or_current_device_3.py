# === patch_targets
# thread: https://github.com/Project-MONAI/GenerativeModels/pull/371
# about: the target is a view of a scalar on the first device
# operation: mse_loss|sub|broadcast|binary on cuda:1, cuda:0
# operands: target|filled|label
# category: default-or-current-device
# line: filled = torch.tensor(label).cuda()
# line: return filled.expand_as(logits)
# repair: filled = torch.tensor(label).cuda() -> filled = torch.tensor(label).to(logits.device)
import torch
from torch import nn


class PatchAdversarialLoss(nn.Module):
    """Least squares between what the discriminator says of each patch and what it should have said."""

    def __init__(self, real=1.0, fake=0.0):
        super().__init__()
        self.real, self.fake = real, fake
        self.distance = nn.MSELoss()

    def target_of(self, logits, is_real):
        label = self.real if is_real else self.fake
        if logits.is_cuda:
            filled = torch.tensor(label).cuda()
        else:
            filled = torch.tensor(label)
        return filled.expand_as(logits)

    def forward(self, scales, is_real):
        losses = []
        for logits in scales:
            target = self.target_of(logits, is_real)
            losses.append(self.distance(logits, target))
        return torch.stack(losses).mean()


torch.manual_seed(0)
device = torch.device("cuda:1")
discriminator = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.LeakyReLU(0.2), nn.Conv2d(4, 1, 3)).to(device)
loss = PatchAdversarialLoss().to(device)
images = torch.rand(2, 1, 16, 16).to(device)
scales = [discriminator(images), discriminator(nn.functional.avg_pool2d(images, 2) + 0.1)]
print("adversarial", round((loss(scales, True) + loss(scales, False)).item(), 4))

# === prefetch_thread
# thread: https://github.com/meta-pytorch/torchrec/pull/1742
# about: the batch was moved in a thread for which cuda:0 is current; two tensors of it are wrong, one is refused
# operation: addmm|linear|mm on cuda:0, cuda:1
# operands: x|batch, weight|bias
# category: default-or-current-device
# line: self.ready.put({name: value.cuda(
# line: torch.cuda.set_device(1)
# repair: self.ready.put({name: value.cuda(non_blocking=True) for name, value in batch.items()}) -> self.ready.put({name: value.to("cuda:1", non_blocking=True) for name, value in batch.items()})
import queue
import threading

import torch
from torch import nn


class Prefetcher:
    """Brings the next batches to the device while this one is worked on."""

    def __init__(self, batches, depth=2):
        self.ready = queue.Queue(depth)
        self.thread = threading.Thread(target=self._load, args=(batches,), daemon=True)
        self.thread.start()

    def _load(self, batches):
        for batch in batches:
            self.ready.put({name: value.cuda(non_blocking=True) for name, value in batch.items()})
        self.ready.put(None)

    def __iter__(self):
        while (batch := self.ready.get()) is not None:
            yield batch


def samples(count):
    for i in range(count):
        yield {"x": torch.full((4, 6), 0.1 * i), "y": torch.tensor([0, 1, 2, 1])}


torch.cuda.set_device(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in Prefetcher(samples(3)):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(batch["x"]), batch["y"])
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))

# === raster_buffers
# thread: https://github.com/graphdeco-inria/diff-gaussian-rasterization/pull/82
# about: buffers that an autograd function makes for itself, on whatever device is current
# operation: mul|index|index_add on cuda:0, cuda:1
# operands: touched|binning|buffer|radii, grad_image|opacity|grad|means|near|depth
# category: default-or-current-device
# line: touched = torch.zeros(len(means), height * width, device="cuda")
# repair: touched = torch.zeros(len(means), height * width, device="cuda") -> touched = torch.zeros(len(means), height * width, device=means.device)
import torch
from torch import nn


class RasterizeGaussians(torch.autograd.Function):
    @staticmethod
    def forward(ctx, means, opacity, settings):
        height, width = settings
        touched = torch.zeros(len(means), height * width, device="cuda")
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        pixels = torch.stack((rows, columns), -1).view(-1, 2).to(means)
        near = (-torch.cdist(means, pixels).square()).exp()
        touched += (near > 0.1).float().to(touched.device)
        ctx.save_for_backward(near, touched)
        return (near * opacity[:, None]).sum(0).view(height, width)

    @staticmethod
    def backward(ctx, grad_image):
        near, touched = ctx.saved_tensors
        grad_opacity = (near * grad_image.reshape(1, -1) * touched).sum(1)
        return None, grad_opacity, None


class GaussianModel(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.register_buffer("means", torch.rand(count, 2) * 6)
        self.opacity = nn.Parameter(torch.full((count,), 0.5))

    def render(self, height, width):
        return RasterizeGaussians.apply(self.means, self.opacity, (height, width))


torch.manual_seed(0)
gaussians = GaussianModel(5).to("cuda:1")
target = torch.ones(6, 6).to("cuda:1")
optimizer = torch.optim.Adam(gaussians.parameters(), lr=0.05)
for _ in range(3):
    loss = (gaussians.render(6, 6) - target).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))

# === rolling_cache
# thread: https://github.com/mistralai/mistral-inference/issues/215
# about: the mask's device has a default, cuda; the cache, which knows its device, does not give it
# operation: add on cuda:1, cuda:0
# operands: scores, mask|bias|cache.mask|.*mask.*
# category: default-or-current-device
# line: cache.py: mask = CausalMask.from_seqlens(seqlens)
# line: masks.py: lengths = torch.tensor(seqlens, device=
# line: masks.py: def from_seqlens(
# repair: cache.py: mask = CausalMask.from_seqlens(seqlens) -> mask = CausalMask.from_seqlens(seqlens, device=self.device)
import torch

from cache import BufferCache
from transformer import Transformer

torch.manual_seed(0)
model = Transformer(20, 8, layers=2).to("cuda:1")
cache = BufferCache(layers=2, width=8, device="cuda:1")
prompts = [[1, 4, 2], [7, 5, 3, 6]]
with torch.no_grad():
    logits = model(torch.tensor(sum(prompts, []), device="cuda:1"), [len(each) for each in prompts], cache)
print("next", logits.argmax(-1).tolist())
# --- cache.py
from dataclasses import dataclass

import torch

from masks import CausalMask


@dataclass
class InputMetadata:
    positions: torch.Tensor
    mask: CausalMask


class BufferCache:
    def __init__(self, layers, width, size=16, device="cuda"):
        self.device = device
        self.keys = [torch.zeros(size, width, device=device) for _ in range(layers)]
        self.filled = 0

    def get_input_metadata(self, seqlens):
        positions = torch.cat([torch.arange(length) for length in seqlens]).to(self.device)
        mask = CausalMask.from_seqlens(seqlens)
        return InputMetadata(positions, mask)

    def update(self, layer, keys):
        self.keys[layer][: len(keys)] = keys
        return self.keys[layer][: len(keys)]
# --- masks.py
from dataclasses import dataclass

import torch


@dataclass
class CausalMask:
    """Tokens of several sequences, one behind the other: each sees those of its own sequence before it."""

    bias: torch.Tensor

    @classmethod
    def from_seqlens(cls, seqlens, device=None):
        device = torch.device("cuda") if device is None else device
        lengths = torch.tensor(seqlens, device=device)
        owner = torch.repeat_interleave(torch.arange(len(seqlens), device=device), lengths)
        position = torch.arange(len(owner), device=device)
        seen = (owner[:, None] == owner[None]) & (position[:, None] >= position[None])
        return cls(torch.zeros(seen.shape, device=device).masked_fill(~seen, float("-inf")))
# --- transformer.py
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, x, layer, cache, metadata):
        keys = cache.update(layer, self.wk(x))
        scores = self.wq(x) @ keys.T
        scores = scores + metadata.mask.bias
        return scores.softmax(-1) @ self.wv(x)


class Transformer(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.tok_embeddings, self.pos_embeddings = nn.Embedding(vocabulary, width), nn.Embedding(32, width)
        self.layers = nn.ModuleList(Attention(width) for _ in range(layers))
        self.output = nn.Linear(width, vocabulary)

    def forward(self, tokens, seqlens, cache):
        metadata = cache.get_input_metadata(seqlens)
        x = self.tok_embeddings(tokens) + self.pos_embeddings(metadata.positions)
        for index, layer in enumerate(self.layers):
            x = x + layer(x, index, cache, metadata)
        last = torch.tensor(seqlens).cumsum(0).to(x.device) - 1
        return self.output(x[last])

# === running_loss_device
# thread: https://github.com/huggingface/trl/pull/1919
# about: the trainer believes that a loss is on its device; the model's last part is on another one
# operation: add on cuda:0, cuda:1
# operands: tr_loss, tr_loss_step|loss
# category: default-or-current-device|module-split|input-not-moved|cached-state
# line: tr_loss = torch.tensor(0.0).to(args.device)
# line: tr_loss += tr_loss_step
# line: return loss.detach() / self.args.accumulation
# repair: tr_loss += tr_loss_step -> tr_loss += tr_loss_step.to(tr_loss.device)
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class TrainingArguments:
    steps: int = 3
    accumulation: int = 1
    lr: float = 0.05

    @property
    def device(self):
        return torch.device("cuda:0")


class TwoStage(nn.Module):
    """As a device map would lay it out: the body on one device, the head on the next."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(width, width).to("cuda:0")
        self.head = nn.Linear(width, 1).to("cuda:1")

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)).to("cuda:1"))


class Trainer:
    def __init__(self, model, args):
        self.model, self.args = model, args
        self.optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)

    def training_step(self, inputs):
        chosen, rejected = (self.model(inputs[name].to(self.args.device)) for name in ("chosen", "rejected"))
        loss = -nn.functional.logsigmoid(chosen - rejected).mean()
        loss.backward()
        return loss.detach() / self.args.accumulation

    def train(self, batches):
        args = self.args
        tr_loss = torch.tensor(0.0).to(args.device)
        for step in range(args.steps):
            tr_loss_step = self.training_step(batches[step % len(batches)])
            tr_loss += tr_loss_step
            self.optimizer.step()
            self.optimizer.zero_grad()
        return tr_loss.item() / args.steps


torch.manual_seed(0)
batches = [{"chosen": torch.rand(4, 6), "rejected": torch.rand(4, 6)} for _ in range(2)]
print("mean loss", round(Trainer(TwoStage(6), TrainingArguments()).train(batches), 4))

# === sampler_register_buffer
# thread: https://github.com/easydiffusion/easydiffusion/pull/561
# about: the sampler is no module and has a register_buffer of its own, which knows one GPU
# operation: index|mul on cuda:0, cuda:1
# operands: ddim_alphas|alphas|a_t, x|e_t
# category: default-or-current-device|cached-state
# line: attr = attr.to(torch.device("cuda"))
# line: sampler = PlainSampler(model)
# repair: attr = attr.to(torch.device("cuda")) -> attr = attr.to(self.model.device)
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, channels=4, steps=20):
        super().__init__()
        self.steps = steps
        self.net = nn.Conv2d(channels, channels, 3, padding=1)

    @property
    def device(self):
        return self.net.weight.device

    def apply_model(self, x, t):
        return self.net(x) * (1 + t.float().view(-1, 1, 1, 1) / self.steps)


class PlainSampler:
    def __init__(self, model):
        self.model = model

    def register_buffer(self, name, attr):
        if isinstance(attr, torch.Tensor):
            attr = attr.to(torch.device("cuda"))
        setattr(self, name, attr)

    def make_schedule(self, steps):
        betas = torch.linspace(0.01, 0.2, self.model.steps)
        alphas = torch.cumprod(1 - betas, 0)
        chosen = torch.arange(0, self.model.steps, self.model.steps // steps)
        self.register_buffer("ddim_alphas", alphas[chosen].clone())
        self.register_buffer("ddim_steps", steps)

    def p_sample(self, x, index):
        t = torch.full((len(x),), index, device=x.device)
        e_t = self.model.apply_model(x, t)
        a_t = self.ddim_alphas[index].expand(len(x)).view(-1, 1, 1, 1)
        return (x - (1 - a_t).sqrt() * e_t) / a_t.sqrt()

    @torch.no_grad()
    def sample(self, shape, steps=4):
        self.make_schedule(steps)
        x = torch.ones(shape).to(self.model.device)
        for index in reversed(range(self.ddim_steps)):
            x = self.p_sample(x, index)
        return x


torch.manual_seed(0)
model = Denoiser().to("cuda:1").eval()
sampler = PlainSampler(model)
print("image", round(sampler.sample((2, 4, 8, 8)).mean().item(), 4))

# === speaker_encoder
# thread: https://github.com/coqui-ai/TTS/issues/3985
# about: __getattr__ hands .to() to the model alone; the encoder chose its device in another file
# operation: lstm on cuda:0, cuda:1
# operands: target|mel|input, lstm.weight_ih_l0|lstm|weight_ih_l0
# category: default-or-current-device|module-split
# error: Input and parameter tensors are not at the same device
# line: freevc.py: self.speaker_encoder = SpeakerEncoder(
# line: main.py: converter.to(
# line: encoder.py: device = torch.device(
# line: encoder.py: self.to(device)
# line: freevc.py: return self.model(source, self.speaker_encoder(target))
# repair: main.py: converter.to("cuda:1") -> converter.to("cuda:1"); converter.speaker_encoder.to("cuda:1")
import torch

from freevc import VoiceConverter

torch.manual_seed(0)
converter = VoiceConverter()
converter.eval()
converter.to("cuda:1")
with torch.no_grad():
    converted = converter.convert(torch.rand(1, 12, 8), torch.rand(1, 20, 8))
print("converted", tuple(converted.shape), round(converted.sum().item(), 3))
# --- encoder.py
import torch
from torch import nn


class SpeakerEncoder(nn.Module):
    """A pretrained one; it looks for a device itself."""

    def __init__(self, mels, size, device=None):
        super().__init__()
        self.lstm = nn.LSTM(mels, size, batch_first=True)
        self.linear = nn.Linear(size, size)
        if device is None:
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.to(device)

    def forward(self, mel):
        _, (hidden, _) = self.lstm(mel)
        return nn.functional.normalize(self.linear(hidden[-1]), dim=-1)
# --- freevc.py
import torch
from torch import nn

from encoder import SpeakerEncoder


class FreeVC(nn.Module):
    def __init__(self, mels=8, size=16):
        super().__init__()
        self.content = nn.Linear(mels, size)
        self.decoder = nn.Linear(2 * size, mels)

    @property
    def device(self):
        return self.content.weight.device

    def forward(self, mel, speaker):
        content = torch.relu(self.content(mel))
        return self.decoder(torch.cat((content, speaker[:, None].expand_as(content)), dim=-1))


class VoiceConverter:
    """What users hold: the model, and what prepares its inputs. Anything it does not know it asks the model for."""

    def __init__(self):
        self.model = FreeVC()
        self.speaker_encoder = SpeakerEncoder(8, 16)

    def __getattr__(self, name):
        return getattr(self.__dict__["model"], name)

    def convert(self, source, target):
        source, target = source.to(self.device), target.to(self.device)
        return self.model(source, self.speaker_encoder(target))

# === voxel_map
# thread: https://github.com/open-mmlab/mmdetection3d/pull/3140
# about: what came back from NumPy goes to the device that is current
# operation: index on cuda:1, cuda:0
# operands: points|res|features, inds|point2voxel_map|inverse
# category: default-or-current-device
# error: indices should be either on cpu or on the same device
# line: inds = torch.from_numpy(
# line: voxels = points[inds]
# repair: inds = torch.from_numpy(inds).cuda() -> inds = torch.from_numpy(inds).to(points.device)
import numpy
import torch
from torch import nn


class Voxelizer:
    def __init__(self, size):
        self.size = size

    def sparse_quantize(self, coordinates):
        """One point of every voxel, and the voxel of every point."""
        return numpy.unique(coordinates, axis=0, return_index=True, return_inverse=True)[1:]

    def __call__(self, points):
        coordinates = (points[:, :3] / self.size).floor().int()
        inds, inverse = self.sparse_quantize(coordinates.cpu().numpy())
        inds = torch.from_numpy(inds).cuda()
        voxels = points[inds]
        return voxels, torch.from_numpy(inverse.reshape(-1)).to(points.device)


torch.manual_seed(0)
device = torch.device("cuda:1")
voxelize, encoder = Voxelizer(0.25), nn.Linear(4, 6).to(device)
points = torch.rand(20, 4).to(device)
voxels, inverse = voxelize(points)
features = encoder(voxels)[inverse]
print("features", tuple(features.shape), len(voxels))
