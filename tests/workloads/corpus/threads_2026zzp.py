# === an_edge_nobody_shall_see
# thread: https://github.com/nullquant/ComfyUI-BrushNet/issues/27
# about: a hole in a picture is painted anew, and the new is laid over the old with a soft edge. Nodes of a graph give each other pictures and masks
# operation: mul on cuda:0, cpu
# operands: self|result|.*inpaint.*, other|.*mask.*|m
# category: input-not-moved|input
# line: brushnet_nodes.py: inpaint = inpaint[:len(original)]
# line: brushnet_nodes.py: ret.append(
# line: brushnet_nodes.py: for result, source, m in zip(
# line: nodes.py: return (images.movedim(1, -1).clamp(0, 1).to(intermediate_device()),)
# line: comfy/model_management.py: return get_torch_device() if args.gpu_only
# line: nodes.py: return pixels, 1.0 - alpha
# repair: brushnet_nodes.py: inpaint = inpaint[:len(original)] -> inpaint = inpaint[:len(original)].to(original.device)
import torch

from brushnet_nodes import BlendInpaint, BrushNet
from comfy.model_management import args
from nodes import VAE, LoadImage, VAEDecode, VAEEncode

if __name__ == "__main__":
    args.gpu_only = True
    torch.manual_seed(27)
    vae = VAE(channels=6)
    brushnet = BrushNet(channels=6)
    original, mask = LoadImage().load_image("portrait", size=16)
    latents, = VAEEncode().encode(vae, original * (1.0 - mask[..., None]))
    latents, = brushnet.sample(latents, mask, steps=3)
    inpaint, = VAEDecode().decode(vae, latents)
    image, blurred = BlendInpaint().blend_inpaint(inpaint, original, kernel=5, sigma=1.5, mask=mask)
    print(f"mean {image.mean().item():.5f} changed {(image - original).abs().mean().item():.5f} edge {blurred.std().item():.5f}")
# --- comfy/model_management.py
from types import SimpleNamespace

import torch

args = SimpleNamespace(gpu_only=False)


def get_torch_device():
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def intermediate_device():
    return get_torch_device() if args.gpu_only else torch.device("cpu")
# --- nodes.py
import numpy as np
import torch
from torch import nn

from comfy.model_management import get_torch_device, intermediate_device


class LoadImage:
    def load_image(self, name, size):
        """Pixels, and a mask of what is seen through."""
        rng = np.random.default_rng(sum(map(ord, name)))
        pixels = torch.from_numpy(rng.random((1, size, size, 3), dtype=np.float32))
        alpha = torch.ones(1, size, size)
        alpha[:, size // 4:size // 2, size // 4:-4] = 0.0
        return pixels, 1.0 - alpha


class VAE(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.encoder = nn.Conv2d(3, channels, 4, stride=4)
        self.decoder = nn.Sequential(nn.Upsample(scale_factor=4), nn.Conv2d(channels, 3, 3, padding=1), nn.Sigmoid())


class VAEEncode:
    @torch.no_grad()
    def encode(self, vae, pixels):
        vae.to(get_torch_device())
        return (vae.encoder(pixels.movedim(-1, 1).to(get_torch_device())).to(intermediate_device()),)


class VAEDecode:
    @torch.no_grad()
    def decode(self, vae, samples):
        vae.to(get_torch_device())
        images = vae.decoder(samples.to(get_torch_device()))
        return (images.movedim(1, -1).clamp(0, 1).to(intermediate_device()),)
# --- brushnet_nodes.py
import torch
import torch.nn.functional as F
from torch import nn

from comfy.model_management import get_torch_device, intermediate_device


class BrushNet(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv_in = nn.Conv2d(2 * channels + 1, channels, 3, padding=1)
        self.conv_out = nn.Conv2d(channels, channels, 3, padding=1)

    @torch.no_grad()
    def sample(self, latents, mask, steps):
        torch_device = get_torch_device()
        self.to(torch_device)
        conditioning = latents.to(torch_device)
        small_mask = F.interpolate(mask[:, None], latents.shape[-2:], mode="nearest").to(torch_device)
        x = torch.randn(latents.shape, generator=torch.Generator().manual_seed(3)).to(torch_device)
        for _ in range(steps):
            noise = self.conv_out(F.silu(self.conv_in(torch.cat([x, conditioning, small_mask], dim=1))))
            x = x - noise / steps
        return (x.to(intermediate_device()),)


def gaussian_blur(mask, kernel, sigma):
    at = torch.arange(kernel, dtype=mask.dtype, device=mask.device) - kernel // 2
    weight = torch.exp(-at.square() / (2 * sigma * sigma))
    weight = weight / weight.sum()
    mask = F.conv2d(F.pad(mask[:, None], [kernel // 2] * 4, mode="reflect"), weight.view(1, 1, 1, -1))
    return F.conv2d(mask, weight.view(1, 1, -1, 1))[:, 0]


def check_image_mask(image, mask, name):
    if len(image.shape) < 4:
        image = image[None]
    if len(mask.shape) < 3:
        mask = mask[None]
    if image.shape[1:3] != mask.shape[1:3]:
        raise ValueError(f"{name}: image and mask are of different sizes")
    return image, mask.expand(len(image), -1, -1)


class BlendInpaint:
    def blend_inpaint(self, inpaint, original, kernel, sigma, mask):
        original, mask = check_image_mask(original, mask, "Blend Inpaint")
        if len(inpaint) < len(original):
            raise ValueError("Blend Inpaint: fewer pictures than originals")
        inpaint = inpaint[:len(original)]
        blurred_mask = gaussian_blur(mask, kernel, sigma)
        ret = []
        for result, source, m in zip(inpaint, original, blurred_mask):
            ret.append(source * (1.0 - m[:, :, None]) + result * m[:, :, None])
        return torch.stack(ret), blurred_mask

# === photos_drawn_like_cartoons
# thread: https://github.com/TobiasSunderdiek/cartoon-gan/issues/5
# about: a generator makes cartoons out of photos.
#   What is in a photo shall stay in it, as a network that was trained before sees it, which is kept in a file
# operation: conv(olution|2d) on cuda:0, cpu
# operands: input, weight|vgg16.*weight|.*weight.*
# error: should be the same|on the same device
# category: module-split|input-not-moved
# line: vgg.py: vgg16 = pretrained_vgg16()
# line: vgg.py: feature_extractor = vgg16.features
# line: vgg.py: return feature_extractor
# line: train.py: feature_extractor = vgg.load(
# line: losses.py: self.feature_extractor = feature_extractor
# repair: vgg.py: vgg16 = pretrained_vgg16() -> vgg16 = pretrained_vgg16().to(device)
import tempfile

import train

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as drive:
        history = train.run(drive, epochs=3)
    print("content, adversarial, discriminator:", "; ".join(", ".join(f"{each:.4f}" for each in row) for row in history))
# --- vgg.py
import os

import torch
from torch import nn


class VGG(nn.Module):
    def __init__(self, widths=(6, 8)):
        super().__init__()
        layers, channels = [], 3
        for width in widths:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
            channels = width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, 10)


def pretrained_vgg16():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(16)
        return VGG()


def load(path, device):
    """Downloaded once; afterwards it is in the drive."""
    weights = os.path.join(path, "vgg16.pth")
    try:
        vgg16 = torch.load(weights, map_location=device, weights_only=False)
    except FileNotFoundError:
        vgg16 = pretrained_vgg16()
        torch.save(vgg16, weights)
    for param in vgg16.parameters():
        param.requires_grad = False
    feature_extractor = vgg16.features[:4]
    return feature_extractor
# --- models.py
from torch import nn


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv_1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.InstanceNorm2d(channels)
        self.conv_2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + self.conv_2(self.norm(self.conv_1(x)).relu())


class Generator(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.conv_in = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.Sequential(ResidualBlock(channels), ResidualBlock(channels))
        self.conv_out = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x):
        return self.conv_out(self.blocks(self.conv_in(x).relu())).tanh()


class Discriminator(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, channels, 3, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(channels, 1, 3, stride=2, padding=1),
        )

    def forward(self, x):
        return self.layers(x)
# --- losses.py
import torch
from torch import nn


class GeneratorLoss:
    def __init__(self, feature_extractor, omega=1.0):
        self.feature_extractor = feature_extractor
        self.omega = omega
        self.bce = nn.BCEWithLogitsLoss()

    def content_loss(self, photos, generated):
        return nn.functional.l1_loss(self.feature_extractor(generated), self.feature_extractor(photos))

    def __call__(self, judged, photos, generated):
        adversarial = self.bce(judged, torch.ones_like(judged))
        content = self.omega * self.content_loss(photos, generated)
        return content, adversarial


def discriminator_loss(on_cartoons, on_edges, on_generated):
    bce = nn.functional.binary_cross_entropy_with_logits
    loss = bce(on_cartoons, torch.ones_like(on_cartoons))
    return loss + bce(on_edges, torch.zeros_like(on_edges)) + bce(on_generated, torch.zeros_like(on_generated))
# --- train.py
import torch
from torch.utils.data import DataLoader, TensorDataset

import losses
import vgg
from models import Discriminator, Generator


def loaders(count=8, size=12):
    generator = torch.Generator().manual_seed(5)
    photos = 2 * torch.rand(count, 3, size, size, generator=generator) - 1
    cartoons = photos.flip(0).mul(3).round().div(3)
    edges = torch.nn.functional.avg_pool2d(cartoons, 3, stride=1, padding=1)
    return DataLoader(TensorDataset(photos, cartoons, edges), batch_size=4)


def run(drive, epochs):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(2021)
    feature_extractor = vgg.load(drive, device)
    generator, discriminator = Generator().to(device), Discriminator().to(device)
    generator_loss = losses.GeneratorLoss(feature_extractor)
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    history = []
    for _ in range(epochs):
        for batch in loaders():
            photos, cartoons, edges = (each.to(device) for each in batch)
            generated = generator(photos)
            d_loss = losses.discriminator_loss(discriminator(cartoons), discriminator(edges), discriminator(generated.detach()))
            d_optimizer.zero_grad()
            d_loss.backward()
            d_optimizer.step()

            content, adversarial = generator_loss(discriminator(generated), photos, generated)
            g_optimizer.zero_grad()
            (content + adversarial).backward()
            g_optimizer.step()
        history.append((content.item(), adversarial.item(), d_loss.item()))
    return history

# === who_was_there_a_picture_before
# thread: https://github.com/timmeinhardt/trackformer/issues/136
# about: what was found in the picture before is looked for again in this one.
#   While it trains, some finds of before that are nothing are asked for as well
# operation: eq on cuda:0, cpu
# operands: ind|element|self, prev_out_ind|self|other
# category: input-not-moved|created-without-device
# line: detr_tracking.py: prev_out_ind, prev_target_ind = prev_ind
# line: detr_tracking.py: not_prev_out_ind = [
# line: detr_tracking.py: not_prev_out_ind = torch.arange(
# line: detr_tracking.py: prev_indices = self._matcher(
# line: matcher.py: indices.append(
# repair: detr_tracking.py: prev_out_ind, prev_target_ind = prev_ind -> prev_out_ind, prev_target_ind = (each.to(device) for each in prev_ind)
import torch

from datasets import MOTSequence, collate_fn
from detr_tracking import DETRTracking, SetCriterion
from matcher import GreedyMatcher

if __name__ == "__main__":
    torch.manual_seed(136)
    device = torch.device("cuda")
    matcher = GreedyMatcher(cost_class=1.0, cost_bbox=2.0)
    model = DETRTracking(hidden_dim=16, num_queries=5, matcher=matcher).to(device)
    criterion = SetCriterion(matcher)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data_loader = torch.utils.data.DataLoader(MOTSequence(length=6), batch_size=2, collate_fn=collate_fn)
    for epoch in range(2):
        for samples, targets in data_loader:
            samples = samples.to(device)
            targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
            loss = criterion(*model(samples, targets))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")
# --- datasets.py
import torch


class MOTSequence(torch.utils.data.Dataset):
    """Pictures in a row. Boxes drift, and one is there only now and then."""

    def __init__(self, length, size=12):
        generator = torch.Generator().manual_seed(17)
        self.images = torch.rand(length + 1, 3, size, size, generator=generator)
        self.boxes = torch.rand(1, 3, 4, generator=generator) + 0.03 * torch.arange(length + 1)[:, None, None]
        self.there = torch.ones(length + 1, 3).bool()
        self.there[1::2, 1] = False

    def __len__(self):
        return len(self.images) - 1

    def __getitem__(self, index):
        target = {}
        for prefix, frame in (("prev_", index), ("", index + 1)):
            ids = torch.arange(3)[self.there[frame]]
            target[f"{prefix}track_ids"], target[f"{prefix}boxes"] = ids, self.boxes[frame, ids]
        target["prev_image"] = self.images[index]
        return self.images[index + 1], target


def collate_fn(batch):
    images, targets = zip(*batch)
    return torch.stack(images), list(targets)
# --- matcher.py
import torch


class GreedyMatcher:
    def __init__(self, cost_class, cost_bbox):
        self.cost_class, self.cost_bbox = cost_class, cost_bbox

    @torch.no_grad()
    def __call__(self, outputs, boxes):
        """For each picture: indices of queries, and of the boxes that they are to find."""
        indices = []
        for logits, pred_boxes, tgt_boxes in zip(outputs["pred_logits"], outputs["pred_boxes"], boxes):
            C = self.cost_bbox * torch.cdist(pred_boxes, tgt_boxes, p=1) - self.cost_class * logits.sigmoid()[:, None]
            C = C.cpu()
            rows = []
            for column in range(C.shape[1]):
                row = int(C[:, column].argmin())
                C[row] = float("inf")
                rows.append(row)
            indices.append((torch.as_tensor(rows, dtype=torch.int64), torch.arange(C.shape[1])))
        return indices
# --- detr_tracking.py
import torch
from torch import nn


class DETR(nn.Module):
    def __init__(self, hidden_dim, num_queries):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, hidden_dim, 4, stride=4), nn.Flatten(2))
        self.query_embed = nn.Embedding(num_queries, hidden_dim)
        self.class_embed = nn.Linear(hidden_dim, 1)
        self.bbox_embed = nn.Linear(hidden_dim, 4)

    def detect(self, samples, track_queries=None):
        memory = self.backbone(samples)
        queries = self.query_embed.weight.expand(len(samples), -1, -1)
        if track_queries is not None:
            queries = torch.cat([track_queries, queries], dim=1)
        hs = queries + torch.softmax(queries @ memory, dim=-1) @ memory.transpose(1, 2)
        return {"pred_logits": self.class_embed(hs).squeeze(-1), "pred_boxes": self.bbox_embed(hs).sigmoid(), "hs_embed": hs}


class DETRTracking(DETR):
    def __init__(self, hidden_dim, num_queries, matcher, false_positives=1, max_track=4):
        super().__init__(hidden_dim, num_queries)
        self._matcher = matcher
        self._false_positives, self._max_track = false_positives, max_track

    def add_track_queries_to_targets(self, targets, prev_indices, prev_out):
        device = prev_out["pred_boxes"].device
        for i, (target, prev_ind) in enumerate(zip(targets, prev_indices)):
            prev_out_ind, prev_target_ind = prev_ind
            prev_track_ids = target["prev_track_ids"][prev_target_ind]
            target["matched"] = prev_track_ids.unsqueeze(1).eq(target["track_ids"]).any(dim=1)

            not_prev_out_ind = torch.arange(prev_out["pred_boxes"].shape[1], device=device)
            not_prev_out_ind = [ind.item() for ind in not_prev_out_ind if ind not in prev_out_ind]
            false_ind = torch.tensor(not_prev_out_ind[:self._false_positives], device=device)

            track_ind = torch.cat([prev_out_ind, false_ind])
            hs = prev_out["hs_embed"][i, track_ind]
            target["track_query_hs_embeds"] = nn.functional.pad(hs, (0, 0, 0, self._max_track - len(hs)))

    def forward(self, samples, targets):
        prev_out = self.detect(torch.stack([target["prev_image"] for target in targets]))
        prev_indices = self._matcher(prev_out, [target["prev_boxes"] for target in targets])
        self.add_track_queries_to_targets(targets, prev_indices, prev_out)
        track_queries = torch.stack([target["track_query_hs_embeds"] for target in targets])
        return self.detect(samples, track_queries), targets


class SetCriterion:
    def __init__(self, matcher):
        self.matcher = matcher

    def __call__(self, outputs, targets):
        losses = []
        for i, (rows, columns) in enumerate(self.matcher(outputs, [t["boxes"] for t in targets])):
            found = torch.zeros_like(outputs["pred_logits"][i])
            found[rows] = 1.0
            losses.append(nn.functional.binary_cross_entropy_with_logits(outputs["pred_logits"][i], found))
            losses.append(nn.functional.l1_loss(outputs["pred_boxes"][i, rows], targets[i]["boxes"][columns]))
            losses.append(0.1 * targets[i]["matched"].float().mean())
        return torch.stack(losses).sum()

# === neurons_that_spike_now_and_then
# thread: https://github.com/nengo/pytorch-spiking/issues/6
# about: a network of spiking neurons is trained as if it had rates. Each neuron starts with some voltage of its own, unless it is told with which
# operation: add on cpu, cuda:0
# operands: self|voltage|initial_state, other|inputs.*
# category: created-without-device
# line: pytorch_spiking/functional.py: initial_state = torch.from_numpy(
# line: pytorch_spiking/functional.py: voltage = voltage + inputs[:, i] * dt
# line: pytorch_spiking/functional.py: voltage = initial_state
# line: pytorch_spiking/modules.py: return functional.SpikingActivation.apply(
# line: example.py: spikes = self.spiking(self.dense_0(inputs))
# repair: pytorch_spiking/functional.py: initial_state = torch.from_numpy(rng.uniform(size=(inputs.shape[0], inputs.shape[2]))).to(inputs.dtype) ->
#   initial_state = torch.from_numpy(rng.uniform(size=(inputs.shape[0], inputs.shape[2]))).to(inputs)
import example

if __name__ == "__main__":
    accuracy, loss, rate = example.train(epochs=6)
    print(f"accuracy {accuracy:.3f} loss {loss:.4f} mean rate {rate:.3f}")
# --- example.py
import numpy as np
import torch
from torch import nn

from pytorch_spiking.modules import Lowpass, SpikingActivation, TemporalAvgPool


class Classifier(nn.Module):
    def __init__(self, n_in, units, classes, dt):
        super().__init__()
        self.dense_0 = nn.Linear(n_in, units)
        self.spiking = SpikingActivation(nn.ReLU(), dt=dt, spiking_aware_training=True, seed=3)
        self.lowpass = Lowpass(tau=0.05, units=units, dt=dt)
        self.pool = TemporalAvgPool()
        self.dense_1 = nn.Linear(units, classes)

    def forward(self, inputs):
        spikes = self.spiking(self.dense_0(inputs))
        return self.dense_1(self.pool(self.lowpass(spikes))), spikes


def garments(count=24, n_in=6, n_steps=10):
    rng = np.random.default_rng(1)
    labels = np.arange(count) % 3
    images = rng.normal(size=(3, n_in))[labels] + 0.2 * rng.normal(size=(count, n_in))
    return np.tile(images[:, None], (1, n_steps, 1)).astype(np.float32), labels


def train(epochs, dt=0.05):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    model = Classifier(n_in=6, units=16, classes=3, dt=dt).to(device)
    images, labels = (torch.from_numpy(each).to(device) for each in garments())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(epochs):
        for start in range(0, len(images), 8):
            output, spikes = model(images[start:start + 8])
            loss = nn.functional.cross_entropy(output, labels[start:start + 8])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        output, spikes = model(images)
    accuracy = (output.argmax(dim=1) == labels).float().mean()
    return accuracy.item(), loss.item(), spikes.mean().item()
# --- pytorch_spiking/functional.py
import numpy as np
import torch


class SpikingActivation(torch.autograd.Function):
    """Spikes whose rates are those of the activation. Its gradient is that of the rates."""

    @staticmethod
    def forward(ctx, inputs, activation, dt, initial_state, spiking_aware_training, return_sequences, training, seed):
        ctx.activation, ctx.return_sequences = activation, return_sequences
        ctx.save_for_backward(inputs)
        if training and not spiking_aware_training:
            output = activation(inputs if return_sequences else inputs[:, -1])
            return output
        if initial_state is None:
            rng = np.random.RandomState(seed)
            initial_state = torch.from_numpy(rng.uniform(size=(inputs.shape[0], inputs.shape[2]))).to(inputs.dtype)
        inputs = activation(inputs)
        voltage = initial_state
        all_spikes = []
        for i in range(inputs.shape[1]):
            voltage = voltage + inputs[:, i] * dt
            n_spikes = torch.floor(voltage)
            voltage = voltage - n_spikes
            all_spikes.append(n_spikes / dt)
        return torch.stack(all_spikes, dim=1) if return_sequences else all_spikes[-1]

    @staticmethod
    def backward(ctx, grad_output):
        inputs, = ctx.saved_tensors
        with torch.enable_grad():
            inputs = inputs.detach().requires_grad_()
            output = ctx.activation(inputs if ctx.return_sequences else inputs[:, -1])
        grad_inputs, = torch.autograd.grad(output, inputs, grad_output)
        return grad_inputs, None, None, None, None, None, None, None
# --- pytorch_spiking/modules.py
import torch
from torch import nn

from pytorch_spiking import functional


class SpikingActivation(nn.Module):
    def __init__(self, activation, dt=0.001, initial_state=None, spiking_aware_training=True, return_sequences=True, seed=None):
        super().__init__()
        self.activation = activation
        self.initial_state = initial_state
        self.dt, self.seed = dt, seed
        self.spiking_aware_training = spiking_aware_training
        self.return_sequences = return_sequences

    def forward(self, inputs):
        return functional.SpikingActivation.apply(
            inputs,
            self.activation,
            self.dt,
            self.initial_state,
            self.spiking_aware_training,
            self.return_sequences,
            self.training,
            self.seed,
        )


class Lowpass(nn.Module):
    def __init__(self, tau, units, dt):
        super().__init__()
        self.smoothing = nn.Parameter(torch.full((units,), float(torch.exp(torch.tensor(-dt / tau)))))
        self.initial_level = nn.Parameter(torch.zeros(1, units))

    def forward(self, inputs):
        level, levels = self.initial_level, []
        for i in range(inputs.shape[1]):
            level = self.smoothing * level + (1 - self.smoothing) * inputs[:, i]
            levels.append(level)
        return torch.stack(levels, dim=1)


class TemporalAvgPool(nn.Module):
    def forward(self, inputs):
        return inputs.mean(dim=1)

# === means_that_all_parts_agree_on
# thread: https://github.com/vacancy/Synchronized-BatchNorm-PyTorch/issues/37
# about: a model runs on parts of a batch at the same time.
#   Its norms are replaced by such as tell each other their sums, so that all use the same mean
# operation: DataParallel on cpu, cuda:0
# operands: .*num_batches_tracked.*|module|.*buffer.*
# error: module must have its parameters and buffers on device cuda:0 \(device_ids\[0\]\) but found one of them on device: cpu
# category: data-parallel|created-without-device|module-split
# line: train.py: model = convert_model(model)
# line: sync_batchnorm/batchnorm.py: mod = sync_module(
# line: sync_batchnorm/batchnorm.py: mod.running_var = module.running_var
# line: sync_batchnorm/batchnorm.py: mod = DataParallelWithCallback(
# line: train.py: model.cuda()
# line: train.py: model = nn.DataParallel(
# repair: train.py: model = convert_model(model) -> model = convert_model(model).cuda()
import train

if __name__ == "__main__":
    losses, model = train.main(steps=4)
    norm = model.module.layer1[1]
    print("losses", [f"{loss:.4f}" for loss in losses], f"mean {norm.running_mean.mean().item():.5f} variance {norm.running_var.mean().item():.5f}")
# --- train.py
import torch
from torch import nn

from resnet import ResNet
from sync_batchnorm.batchnorm import convert_model


def build():
    model = ResNet(width=8, classes=4)
    model.cuda()
    model = nn.DataParallel(model, device_ids=[0, 1])
    model = convert_model(model)
    return model


def main(steps):
    torch.manual_seed(37)
    model = build()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images = torch.randn(8, 3, 8, 8) + torch.arange(8)[:, None, None, None] % 4
    target = torch.arange(8) % 4
    losses = []
    model.train()
    for _ in range(steps):
        output = model(images.cuda())
        loss = criterion(output, target.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model
# --- resnet.py
from torch import nn


def block(inplanes, planes):
    return nn.Sequential(nn.Conv2d(inplanes, planes, 3, padding=1, bias=False), nn.BatchNorm2d(planes), nn.ReLU(inplace=True))


class ResNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.layer1 = block(3, width)
        self.layer2 = block(width, width)
        self.avgpool = nn.AdaptiveAvgPool2d(2)
        self.fc = nn.Linear(4 * width, classes)

    def forward(self, x):
        x = self.layer1(x)
        x = x + self.layer2(x)
        return self.fc(self.avgpool(x).flatten(1))
# --- sync_batchnorm/comm.py
import threading


class SyncMaster:
    """A place where replicas meet. Each brings what it has, and each gets the sum."""

    def __init__(self, replicas):
        self.barrier = threading.Barrier(replicas)
        self.messages = [None] * replicas

    def run(self, identifier, message):
        self.messages[identifier] = message
        self.barrier.wait()
        device = message[0].device
        sums = [sum(part.to(device) for part in parts) for parts in zip(*self.messages)]
        self.barrier.wait()
        return sums
# --- sync_batchnorm/replicate.py
from torch import nn

from sync_batchnorm.comm import SyncMaster


class DataParallelWithCallback(nn.DataParallel):
    """Tells modules that are to know of it that they were replicated."""

    def replicate(self, module, device_ids):
        modules = super().replicate(module, device_ids)
        for copies in zip(*(replica.modules() for replica in modules)):
            if hasattr(copies[0], "__data_parallel_replicate__"):
                master = SyncMaster(len(copies))
                for copy_id, each in enumerate(copies):
                    each.__data_parallel_replicate__(master, copy_id)
        return modules
# --- sync_batchnorm/batchnorm.py
import torch
from torch import nn

from sync_batchnorm.replicate import DataParallelWithCallback


class SynchronizedBatchNorm2d(nn.BatchNorm2d):
    _sync_master, _parallel_id = None, 0

    def __data_parallel_replicate__(self, master, copy_id):
        self._sync_master, self._parallel_id = master, copy_id

    def forward(self, input):
        if self._sync_master is None or not self.training:
            return super().forward(input)
        flat = input.transpose(0, 1).flatten(1)
        size = torch.tensor(float(flat.shape[1]), device=flat.device)
        sum_, ssum, size = self._sync_master.run(self._parallel_id, (flat.sum(1), flat.square().sum(1), size))
        mean = sum_ / size
        bias_var = ssum / size - mean.square()
        if self._parallel_id == 0:
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(bias_var * size / (size - 1), self.momentum)
        inv_std = bias_var.clamp(min=self.eps) ** -0.5
        return (input - mean.view(1, -1, 1, 1)) * (inv_std * self.weight).view(1, -1, 1, 1) + self.bias.view(1, -1, 1, 1)


def convert_model(module):
    """The same model with synchronized norms in the places of the others."""
    if isinstance(module, nn.DataParallel):
        mod = convert_model(module.module)
        mod = DataParallelWithCallback(mod, device_ids=module.device_ids)
        return mod
    mod = module
    for pth_module, sync_module in zip([nn.BatchNorm2d], [SynchronizedBatchNorm2d]):
        if isinstance(module, pth_module):
            mod = sync_module(module.num_features, module.eps, module.momentum, module.affine)
            mod.running_mean = module.running_mean
            mod.running_var = module.running_var
            if module.affine:
                mod.weight.data = module.weight.data.clone().detach()
                mod.bias.data = module.bias.data.clone().detach()
    for name, child in module.named_children():
        mod.add_module(name, convert_model(child))
    return mod

# === a_task_told_by_one_vector
# thread: https://github.com/roeehendel/icl_task_vectors/issues/2
# about: what a language model makes of examples is put into it while it reads no examples, at one layer after the other. The layers are on two cards
# operation: index on cuda:1, cuda:0
# operands: self|hidden_to_inject|idx_to_inject, indices|mask
# error: indices should be either on cpu or on the same device as the indexed tensor \(cuda:1\)
# category: module-split|input-not-moved|cached-state
# line: core/hidden_injector.py: self._injection_layers = injection_layers.to(
# line: core/hidden_injector.py: self._injection_positions = injection_positions.to(
# line: core/hidden_injector.py: mask = self._injection_layers == layer_idx
# line: core/hidden_injector.py: out[idx_to_inject[mask], self._injection_positions[mask]]
# line: core/hidden_injector.py: idx_to_inject = torch.arange(
# line: core/llm.py: return next(self.parameters()).device
# repair: core/hidden_injector.py: self._injection_layers = injection_layers.to(model.device) -> self._injection_layers = injection_layers.cpu()
# repair: core/hidden_injector.py: self._injection_positions = injection_positions.to(model.device) -> self._injection_positions =
#   injection_positions.cpu()
import torch

from core.llm import load_model
from core.task_vectors import run_task_vector
from core.tasks import sample_datasets

if __name__ == "__main__":
    torch.manual_seed(41)
    model = load_model(vocab=23, width=16, n_layers=4, device_map={0: "cuda:0", 1: "cuda:0", 2: "cuda:1", 3: "cuda:1"})
    dev, test = (sample_datasets(offset=7, num_datasets=5, num_examples=4, seed=seed) for seed in (41, 42))
    predictions, scores_by_layer = run_task_vector(model, dev, test)
    print("predictions", predictions.tolist(), "scores by layer", {layer: f"{score:.4f}" for layer, score in scores_by_layer.items()})
# --- core/tasks.py
from typing import NamedTuple

import numpy as np
import torch

ARROW, NEWLINE = 21, 22


class FewShotDataset(NamedTuple):
    train_inputs: list
    train_outputs: list
    test_input: int
    test_output: int


def sample_datasets(offset, num_datasets, num_examples, seed):
    """Letters, and the letter that many places on."""
    rng = np.random.RandomState(seed)
    datasets = []
    for _ in range(num_datasets):
        letters = rng.choice(21, num_examples + 1, replace=False).tolist()
        shifted = [(letter + offset) % 21 for letter in letters]
        datasets.append(FewShotDataset(letters[:-1], shifted[:-1], letters[-1], shifted[-1]))
    return datasets


def tokenize(datasets, include_train):
    rows = []
    for dataset in datasets:
        row = []
        if include_train:
            for each_input, each_output in zip(dataset.train_inputs, dataset.train_outputs):
                row += [each_input, ARROW, each_output, NEWLINE]
        rows.append(row + [dataset.test_input, ARROW])
    return torch.tensor(rows)
# --- core/llm.py
import torch
from torch import nn


class DecoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, hidden):
        q, k, v = self.qkv(self.norm(hidden)).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2)
        blocked = torch.ones_like(scores[0]).triu(1).bool()
        return hidden + self.out(scores.masked_fill(blocked, float("-inf")).softmax(dim=-1) @ v)


class CausalLM(nn.Module):
    def __init__(self, vocab, width, n_layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(DecoderLayer(width) for _ in range(n_layers))
        self.lm_head = nn.Linear(width, vocab)

    @property
    def device(self):
        return next(self.parameters()).device

    @torch.no_grad()
    def forward(self, input_ids):
        hidden = self.embed_tokens(input_ids.to(self.device))
        for layer in self.layers:
            hidden = layer(hidden.to(layer.out.weight.device))
        return self.lm_head(hidden)


def load_model(vocab, width, n_layers, device_map):
    model = CausalLM(vocab, width, n_layers).eval()
    model.embed_tokens.to(device_map[0])
    for i, layer in enumerate(model.layers):
        layer.to(device_map[i])
    model.lm_head.to(device_map[n_layers - 1])
    return model
# --- core/hidden_injector.py
import torch


class HiddenInjector:
    """While it is entered, layers give out other hidden states at the positions it was told."""

    def __init__(self, model, injection_layers, injection_positions, hiddens_to_inject):
        self._model = model
        self._injection_layers = injection_layers.to(model.device)
        self._injection_positions = injection_positions.to(model.device)
        self._hiddens_to_inject = hiddens_to_inject
        self._hooks = []

    def _hook_of(self, layer_idx):
        def inject_hidden_hook(mod, inp, out):
            mask = self._injection_layers == layer_idx
            if mask.any():
                hidden_to_inject = self._hiddens_to_inject.to(out.device).type(out.dtype)
                idx_to_inject = torch.arange(out.shape[0], device=out.device)
                out[idx_to_inject[mask], self._injection_positions[mask]] = hidden_to_inject[mask]
            return out

        return inject_hidden_hook

    def __enter__(self):
        self._hooks = [layer.register_forward_hook(self._hook_of(i)) for i, layer in enumerate(self._model.layers)]
        return self

    def __exit__(self, *exc):
        for hook in self._hooks:
            hook.remove()
# --- core/task_vectors.py
import torch

from core.hidden_injector import HiddenInjector
from core.tasks import tokenize


def get_task_hiddens(model, datasets):
    hiddens = []
    hooks = [layer.register_forward_hook(lambda mod, inp, out: hiddens.append(out[:, -1].cpu())) for layer in model.layers]
    model(tokenize(datasets, include_train=True))
    for hook in hooks:
        hook.remove()
    return torch.stack(hiddens, dim=1)


def modulated_logits(model, datasets, task_hiddens, intermediate_layer):
    inputs = tokenize(datasets, include_train=False)
    injection_layers = torch.full((len(inputs),), intermediate_layer)
    injection_positions = torch.full((len(inputs),), -1)
    hiddens = task_hiddens[:, intermediate_layer]
    with HiddenInjector(model, injection_layers, injection_positions, hiddens):
        return model(inputs)[:, -1]


def run_task_vector(model, dev_datasets, test_datasets):
    task_hiddens = get_task_hiddens(model, dev_datasets)
    outputs = torch.tensor([dataset.test_output for dataset in dev_datasets])
    scores_by_layer = {}
    for layer in range(len(model.layers)):
        log_probs = modulated_logits(model, dev_datasets, task_hiddens, layer).log_softmax(dim=-1).cpu()
        scores_by_layer[layer] = log_probs.gather(1, outputs[:, None]).mean().item()
    best = max(scores_by_layer, key=scores_by_layer.get)
    return modulated_logits(model, test_datasets, get_task_hiddens(model, test_datasets), best).argmax(dim=-1), scores_by_layer
