# === adalora_ranknum
# thread: https://github.com/huggingface/peft/pull/583
# about: three of an adapter's four parameters follow the layer that they are added to; the fourth is made with them
# operation: div on cuda:0, cpu
# operands: ranknum|rank
# category: created-without-device|module-split
# line: adalora.py: for part in (self.lora_A
# line: adalora.py: self.ranknum[name] = nn.Parameter(
# line: adalora.py: rank = self.ranknum[self.active] + 1e-5
# line: main.py: model = get_svd_model(
# repair: adalora.py: for part in (self.lora_A, self.lora_E, self.lora_B): -> for part in (self.lora_A, self.lora_E, self.lora_B, self.ranknum):
import torch
from torch import nn

from adalora import get_svd_model


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        weights = (self.q_proj(x) @ self.k_proj(x).transpose(-1, -2)).softmax(-1)
        return x + weights @ self.v_proj(x)


class OPT(nn.Module):
    def __init__(self, vocabulary=24, width=8):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(Attention(width), Attention(width))
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids):
        return self.lm_head(self.layers(self.embed_tokens(input_ids)))


torch.manual_seed(0)
model = OPT().to("cuda")
model = get_svd_model(model, ["q_proj", "v_proj"], init_r=4, lora_alpha=16)
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=1e-2)
text = torch.randint(0, 24, (2, 9)).to("cuda")
for _ in range(3):
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trainable", sum(p.numel() for p in trainable), "loss", round(loss.item(), 3))
# --- adalora.py
import torch
from torch import nn


class SVDLinear(nn.Module):
    """A frozen layer, and beside it P E Q, whose rank is found while it learns."""

    def __init__(self, base_layer, name, r, lora_alpha):
        super().__init__()
        self.base_layer = base_layer
        self.lora_A, self.lora_E, self.lora_B, self.ranknum = (nn.ParameterDict() for _ in range(4))
        self.scaling = lora_alpha
        self.active = name
        self.update_layer(name, r)

    def update_layer(self, name, r):
        self.lora_A[name] = nn.Parameter(torch.randn(r, self.base_layer.in_features) * 0.02)
        self.lora_E[name] = nn.Parameter(torch.full((r, 1), 0.1))
        self.lora_B[name] = nn.Parameter(torch.randn(self.base_layer.out_features, r) * 0.02)
        self.ranknum[name] = nn.Parameter(torch.full((1,), float(r)), requires_grad=False)
        for part in (self.lora_A, self.lora_E, self.lora_B):
            part.to(self.base_layer.weight.device)

    def forward(self, x):
        lora_A, lora_E, lora_B = self.lora_A[self.active], self.lora_E[self.active], self.lora_B[self.active]
        rank = self.ranknum[self.active] + 1e-5
        return self.base_layer(x) + (x @ (lora_A * lora_E).T @ lora_B.T) * self.scaling / rank


def get_svd_model(model, target_modules, init_r, lora_alpha, adapter_name="default"):
    model.requires_grad_(False)
    for path, module in list(model.named_modules()):
        parent, _, child = path.rpartition(".")
        if child in target_modules:
            setattr(model.get_submodule(parent), child, SVDLinear(module, adapter_name, init_r, lora_alpha))
    return model

# === attention_reference
# thread: https://github.com/InfiniTensor/llaisys/pull/11
# operation: masked_fill on cuda:0, cpu
# operands: attn_bias|bias|self, mask|temp_mask|logical_not
# category: created-without-device
# error: expected self and mask to be on the same device, but got mask on cpu and self on cuda:0
# line: temp_mask = torch.ones(
# repair: temp_mask = torch.ones(L, S, dtype=torch.bool).tril(diagonal=S - L) -> temp_mask = torch.ones(L, S, dtype=torch.bool, device=query.device).tril(diagonal=S - L)
import torch


def self_attention(query, key, value, scale):
    """The plain way, to compare the fast ones with. [seq, heads, dim]"""
    query, key, value = (t.transpose(-2, -3) for t in (query, key, value))
    L, S = query.size(-2), key.size(-2)
    attn_bias = torch.zeros(L, S, dtype=query.dtype, device=query.device)

    temp_mask = torch.ones(L, S, dtype=torch.bool).tril(diagonal=S - L)
    attn_bias.masked_fill_(temp_mask.logical_not(), float("-inf"))

    groups = query.size(-3) // key.size(-3)
    key = key.repeat_interleave(groups, -3)
    value = value.repeat_interleave(groups, -3)
    attn_weight = query @ key.transpose(-2, -1) * scale + attn_bias
    return (torch.softmax(attn_weight, dim=-1) @ value).transpose(-2, -3)


def test_op(qlen, kvlen, nh, nkvh, hd, device):
    gen = torch.Generator().manual_seed(qlen)
    q = torch.rand(qlen, nh, hd, generator=gen).to(device)
    k = torch.rand(kvlen, nkvh, hd, generator=gen).to(device)
    v = torch.rand(kvlen, nkvh, hd, generator=gen).to(device)
    out = self_attention(q, k, v, scale=hd**-0.5)
    first = v[: kvlen - qlen + 1, 0].mean(dim=0)
    return out.shape, bool((out[0, 0] - first).abs().max() < 0.2)


if __name__ == "__main__":
    for shape in [(2, 2, 1, 1, 4), (5, 11, 4, 2, 8)]:
        print("self attention", *shape, test_op(*shape, device="cuda"))

# === backward_creates
# thread: https://github.com/pytorch/pytorch/issues/172798
# about: the default device holds in one thread; autograd calls backward in another
# operation: mul on cuda:0, cpu
# operands: grad, slope
# category: created-without-device|default-or-current-device
# line: slope = torch.linspace(
# repair: slope = torch.linspace(1.0, 2.0, x.shape[-1]) -> slope = torch.linspace(1.0, 2.0, x.shape[-1], device=x.device)
import torch


class SurrogateSpike(torch.autograd.Function):
    """A step whose gradient is that of something smoother, steeper from channel to channel."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).float()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        slope = torch.linspace(1.0, 2.0, x.shape[-1])
        steep = grad * slope
        return steep / (1 + x.abs()).square()


class SpikingMLP(torch.nn.Module):
    def __init__(self, n_in, n_hidden, n_out):
        super().__init__()
        self.fc1 = torch.nn.Linear(n_in, n_hidden)
        self.fc2 = torch.nn.Linear(n_hidden, n_out)

    def forward(self, x):
        return self.fc2(SurrogateSpike.apply(self.fc1(x)))


torch.manual_seed(0)
weights = SpikingMLP(4, 6, 2).state_dict()

with torch.device("cuda:0"):
    model = SpikingMLP(4, 6, 2)
    model.load_state_dict(weights)
    x = torch.arange(12.0).reshape(3, 4) / 12
    loss = model(x).square().sum()
    loss.backward()

print("gradient", round(model.fc1.weight.grad.norm().item(), 4))

# === biquad_map
# thread: https://github.com/gdalsanto/flamo/pull/30
# about: a closure made in the constructor asks the module's own device attribute when it is called, after .to()
# operation: clamp on cuda:0, cpu
# operands: min|lowest, x|param
# category: created-without-device|cached-state|state-not-registered
# line: dsp.py: lowest = torch.tensor(
# line: main.py: core = Biquad(
# repair: dsp.py: lowest = torch.tensor([0.0, 0.0, -60.0], device=self.device) -> lowest = torch.tensor([0.0, 0.0, -60.0], device=x.device)
# repair: dsp.py: highest = torch.tensor([self.fs / 2, 10.0, 60.0], device=self.device) -> highest = torch.tensor([self.fs / 2, 10.0, 60.0], device=x.device)
import torch

from dsp import Biquad


class Shell(torch.nn.Module):
    """What goes in and out are signals in time; the core works on their spectrum."""

    def __init__(self, core, nfft):
        super().__init__()
        self.core = core
        self.nfft = nfft

    def forward(self, signal):
        spectrum = torch.fft.rfft(signal, self.nfft)
        return torch.fft.irfft(self.core(spectrum), self.nfft)


nfft, fs = 32, 8000
core = Biquad(n_sections=2, nfft=nfft, fs=fs)
model = Shell(core, nfft).to("cuda")
impulse = torch.zeros(1, nfft).to("cuda")
impulse[:, 0] = 1.0
with torch.no_grad():
    response = model(impulse)
print("response", [round(value, 4) for value in response[0, :4].tolist()])
# --- dsp.py
import torch
from torch import nn


class DSP(nn.Module):
    """A processor whose parameters are mapped to where it is stable."""

    def __init__(self, initial, nfft, fs, device="cpu"):
        super().__init__()
        self.device = device
        self.nfft, self.fs = nfft, fs
        self.param = nn.Parameter(torch.tensor(initial, device=device))
        self.map = self.get_map()

    def forward(self, spectrum):
        return spectrum * self.freq_response(self.map(self.param))


class Biquad(DSP):
    def __init__(self, n_sections, nfft, fs, device="cpu"):
        super().__init__([[1000.0 * (i + 1), 0.7, 6.0] for i in range(n_sections)], nfft, fs, device)

    def get_map(self):
        """Frequency, resonance and gain, each within its bounds."""

        def bounded(x):
            lowest = torch.tensor([0.0, 0.0, -60.0], device=self.device)
            highest = torch.tensor([self.fs / 2, 10.0, 60.0], device=self.device)
            return torch.clamp(x, min=lowest, max=highest)

        return bounded

    def freq_response(self, param):
        frequency, resonance, gain = param.unsqueeze(-1).unbind(dim=1)
        bins = torch.linspace(0, self.fs / 2, self.nfft // 2 + 1, device=param.device)
        lowpass = 1 / (1 + (bins / frequency).square() / resonance)
        return (lowpass * 10 ** (gain / 20)).prod(dim=0)

# === blend_by_chance
# thread: https://github.com/kornia/kornia/issues/4151
# about: what was drawn stands in a dict of parameters that goes through three methods
# operation: where|mul|add|index on cuda:0, cpu
# operands: to_apply|condition|chosen|gate|factor
# category: created-without-device
# line: augment.py: draws = torch.rand(
# line: augment.py: gate = params["to_apply"]
# repair: augment.py: gate = params["to_apply"].view(-1, 1, 1, 1) -> gate = params["to_apply"].view(-1, 1, 1, 1).to(images.device)
import torch
from torch import nn

from augment import RandomInvert, RandomShift

torch.manual_seed(0)
augment = nn.Sequential(RandomInvert(p=0.5), RandomShift(p=0.5))
images = torch.rand(8, 3, 6, 6).to("cuda:0")
out = augment(images)
print("augmented", tuple(out.shape), bool(out.isfinite().all()))
# --- augment.py
import torch
from torch import nn


class Augmentation(nn.Module):
    """Changes each image of a batch with probability p."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def generate(self, count):
        draws = torch.rand(count)
        return {"to_apply": draws < self.p, "count": count}

    def blend(self, changed, images, params):
        gate = params["to_apply"].view(-1, 1, 1, 1)
        return torch.where(gate, changed, images)

    def forward(self, images):
        params = self.generate(len(images))
        return self.blend(self.apply_transform(images), images, params)


class RandomInvert(Augmentation):
    def apply_transform(self, images):
        return 1 - images


class RandomShift(Augmentation):
    def apply_transform(self, images):
        return images.roll(1, dims=-1)

# === conditional_base_noise
# thread: https://github.com/bayesiains/nflows/issues/8
# operation: mul|add on cpu, cuda:0
# operands: noise, stds|means
# category: created-without-device
# line: noise = torch.randn(
# line: samples = means + stds * noise
# repair: noise = torch.randn(len(context) * num_samples, *self._shape) -> noise = torch.randn(len(context) * num_samples, *self._shape).to(means.device)
import torch
from torch import nn


class ConditionalDiagonalNormal(nn.Module):
    def __init__(self, shape, context_encoder):
        super().__init__()
        self._shape = torch.Size(shape)
        self._context_encoder = context_encoder

    def _compute_params(self, context):
        params = self._context_encoder(context)
        split = params.shape[-1] // 2
        return params[..., :split], params[..., split:]

    def sample(self, num_samples, context):
        means, log_stds = self._compute_params(context)
        means = means.repeat_interleave(num_samples, dim=0)
        stds = log_stds.exp().repeat_interleave(num_samples, dim=0)
        noise = torch.randn(len(context) * num_samples, *self._shape)
        samples = means + stds * noise
        return samples.reshape(len(context), num_samples, *self._shape)


class Affine(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.shift, self.log_scale = nn.Parameter(torch.zeros(features)), nn.Parameter(torch.full((features,), 0.1))

    def inverse(self, z):
        return z * self.log_scale.exp() + self.shift


class Flow(nn.Module):
    def __init__(self, transform, base):
        super().__init__()
        self.transform, self.base = transform, base

    @torch.no_grad()
    def sample(self, num_samples, context):
        return self.transform.inverse(self.base.sample(num_samples, context))


torch.manual_seed(0)
flow = Flow(Affine(3), ConditionalDiagonalNormal([3], nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 6)))).to("cuda:0")
drawn = flow.sample(5, context=torch.ones(4, 2).to("cuda:0"))
print("drawn", tuple(drawn.shape), bool(drawn.isfinite().all()))

# === continual_delay
# thread: https://github.com/LukasHedegaard/continual-inference/pull/68
# about: a registered buffer is made anew by a method that is called after the move
# operation: add|index|cat|remainder|mul on cuda:0, cpu
# operands: self.state_index|state_index|index, self.ticks|ticks|slots
# category: created-without-device|module-split
# line: self.state_index = torch.zeros(
# line: where = (self.state_index
# repair: self.state_index = torch.zeros(1, dtype=torch.long) -> self.state_index = torch.zeros(1, dtype=torch.long, device=self.ticks.device)
import torch
from torch import nn


class Delay(nn.Module):
    """Gives what it was given some steps ago."""

    def __init__(self, steps, width):
        super().__init__()
        self.register_buffer("ticks", torch.arange(steps))
        self.register_buffer("state_index", torch.zeros(1, dtype=torch.long))
        self.register_buffer("rows", torch.zeros(steps, width))

    def clean_state(self):
        self.state_index = torch.zeros(1, dtype=torch.long)
        self.rows.zero_()

    def forward(self, x):
        where = (self.state_index + self.ticks) % len(self.ticks)
        given = self.rows[where[:1]]
        self.rows[where[:1]] = x
        self.state_index = (self.state_index + 1) % len(self.ticks)
        return given


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 3), Delay(2, 3)).to("cuda:0")
net[1].clean_state()
with torch.no_grad():
    rows = [net(torch.full((1, 4), float(i), device="cuda:0")) for i in range(4)]
print("late", round(torch.cat(rows).sum().item(), 4))

# === crop_categories
# thread: https://github.com/facebookresearch/segment-anything/issues/17
# about: given to a function of a library, which meets it far inside
# operation: eq|index|nms|add|mul on cuda:0, cpu
# operands: categories|idxs|offsets|boxes
# category: created-without-device
# error: same device
# line: categories = torch.zeros(
# line: keep = batched_nms(
# repair: categories = torch.zeros(len(boxes)) -> categories = torch.zeros(len(boxes), device=boxes.device)
import torch
from torch import nn


def iou(a, b):
    low, high = torch.maximum(a[:2], b[:, :2]), torch.minimum(a[2:], b[:, 2:])
    inside = (high - low).clamp(min=0).prod(1)
    return inside / ((a[2:] - a[:2]).prod() + (b[:, 2:] - b[:, :2]).prod(1) - inside)


def nms(boxes, scores, threshold):
    keep, order = [], scores.argsort(descending=True)
    while len(order):
        keep.append(order[0])
        order = order[1:][iou(boxes[order[0]], boxes[order[1:]]) <= threshold]
    return torch.stack(keep)


def batched_nms(boxes, scores, idxs, threshold):
    """Boxes of different categories do not suppress one another: each lies in a plane of its own."""
    offsets = idxs * (boxes.max() + 1)
    return nms(boxes + offsets[:, None], scores, threshold)


class MaskDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 5)

    def forward(self, points):
        out = self.head(points)
        boxes = torch.cat([points - 0.1, points + 0.05 + out[:, :2].abs()], dim=1)
        return boxes, out[:, 4].sigmoid()


def generate(model, points, threshold=0.3):
    boxes, scores = model(points)
    categories = torch.zeros(len(boxes))
    keep = batched_nms(boxes, scores, categories, threshold)
    return boxes[keep]


torch.manual_seed(0)
model = MaskDecoder().to("cuda:0").eval()
side = torch.linspace(0.1, 0.9, 4)
points = torch.cartesian_prod(side, side).to("cuda:0")
with torch.no_grad():
    boxes = generate(model, points)
print("boxes", 0 < len(boxes) <= 16, len(boxes))

# === crps_accumulator
# thread: https://github.com/WenjieDu/PyPOTS/pull/837
# about: a number on the CPU may meet any device, but not be added to in place
# operation: add on cuda:0, cpu
# operands: crps, q_loss|q_loss / denominator
# category: created-without-device
# line: crps = torch.tensor(0.0)
# repair: crps = torch.tensor(0.0) -> crps = torch.tensor(0.0, device=predictions.device)
import torch


def quantile_loss(target, forecast, q, mask):
    return 2 * torch.sum(torch.abs((forecast - target) * mask * ((target <= forecast) * 1.0 - q)))


def calc_quantile_crps(predictions, targets, masks, scale=1.0):
    """How far the predicted quantiles are from what came, over all of them."""
    targets, predictions = targets * scale, predictions * scale
    quantiles = [q / 20 for q in range(1, 20)]
    denominator = torch.sum(torch.abs(targets * masks))
    crps = torch.tensor(0.0)
    for i in range(len(quantiles)):
        q_pred = torch.quantile(predictions, quantiles[i], dim=1)
        q_loss = quantile_loss(targets, q_pred, quantiles[i], masks)
        crps += q_loss / denominator
    return crps.item() / len(quantiles)


torch.manual_seed(0)
network = torch.nn.Linear(6, 5 * 6).to("cuda:0")
history = torch.rand(2, 6)
with torch.no_grad():
    samples = network(history.to("cuda:0")).view(2, 5, 6)
truth = torch.rand(2, 6)
score = calc_quantile_crps(samples, truth.to("cuda:0"), torch.ones_like(truth).to("cuda:0"))
print("crps", round(score, 3))

# === empty_detections
# thread: https://github.com/ultralytics/yolov5/issues/1617
# about: an image in which nothing was found keeps the placeholder, and the first image says where the scales go
# operation: div on cuda:0, cpu
# operands: x|xyxy|pred, g|gn
# category: created-without-device
# line: nms.py: output = [
# line: nms.py: self.xyxyn = [x / g
# repair: nms.py: output = [torch.zeros(0, 6)] * len(prediction) -> output = [torch.zeros(0, 6, device=prediction.device)] * len(prediction)
import torch
import torch.nn as nn

from nms import Detections, non_max_suppression


class Detect(nn.Module):
    """Looks for bright spots; gives back rows of (x, y, w, h, objectness, class scores)."""

    def __init__(self, nc=2, cell=4):
        super().__init__()
        self.nc, self.cell = nc, cell
        self.pool = nn.AvgPool2d(cell)

    def forward(self, imgs):
        objectness = self.pool(imgs)[:, 0]
        ys, xs = torch.meshgrid(*(torch.arange(n, device=imgs.device) for n in objectness.shape[1:]), indexing="ij")
        centers = torch.stack((xs, ys), -1).expand(len(imgs), -1, -1, 2) * self.cell + self.cell / 2
        sizes = torch.full_like(centers, float(self.cell))
        scores = torch.stack((objectness, 1 - objectness), -1)
        return torch.cat((centers, sizes, objectness[..., None], scores), -1).flatten(1, 2)


model = Detect().to("cuda:0").eval()
imgs = torch.zeros(2, 1, 16, 16)
imgs[1, :, 4:8, 8:12] = 0.9  # the first picture is empty
shapes = [tuple(img.shape[1:]) for img in imgs]
with torch.no_grad():
    pred = non_max_suppression(model(imgs.to("cuda:0")), conf_thres=0.5)
det = Detections(pred, shapes)
print([len(p) for p in det.xyxyn], [round(v, 3) for v in det.xyxyn[1][0].tolist()])
# --- nms.py
import torch


def xywh2xyxy(x):
    return torch.cat((x[:, :2] - x[:, 2:4] / 2, x[:, :2] + x[:, 2:4] / 2), 1)


def non_max_suppression(prediction, conf_thres):
    """Rows of (x1, y1, x2, y2, confidence, class) for every image; no two that overlap, as the cells do not."""
    candidates = prediction[..., 4] > conf_thres
    output = [torch.zeros(0, 6)] * len(prediction)
    for xi, x in enumerate(prediction):
        x = x[candidates[xi]]
        if not x.shape[0]:
            continue
        conf, j = (x[:, 5:] * x[:, 4:5]).max(1, keepdim=True)
        output[xi] = torch.cat((xywh2xyxy(x), conf, j.float()), 1)
    return output


class Detections:
    """The result for a batch, in pixels and in parts of the image."""

    def __init__(self, pred, shapes):
        d = pred[0].device
        gn = [torch.tensor([w, h, w, h, 1.0, 1.0], device=d) for h, w in shapes]
        self.xyxy = pred
        self.xyxyn = [x / g for x, g in zip(self.xyxy, gn)]

# === encoding_from_numpy
# thread: https://github.com/wingedsheep/transformer/issues/4
# about: numpy made the memory, in another file; PyTorch never allocated it
# operation: add on cpu, cuda:0
# operands: x, positional_encoding|from_numpy
# category: created-without-device|input-not-moved|cached-state
# line: encoding.py: return torch.from_numpy(angles).float()
# line: model.py: x = x + sinusoid(
# repair: encoding.py: return torch.from_numpy(angles).float() -> return torch.from_numpy(angles).float().to(get_device())
import torch

from encoding import get_device
from model import Decoder

torch.manual_seed(0)
model = Decoder(vocabulary=20, width=8).to(get_device())
tokens = torch.randint(0, 20, (2, 6)).to(get_device())
with torch.no_grad():
    print("logits", round(model(tokens).mean().item(), 4))
# --- encoding.py
import numpy as np
import torch


def get_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def sinusoid(length, width):
    """Sine in the even columns, cosine in the odd ones."""
    position, column = np.arange(length)[:, None], np.arange(width)[None, :]
    angles = position / np.power(10000, 2 * (column // 2) / width)
    angles[:, 0::2], angles[:, 1::2] = np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])
    return torch.from_numpy(angles).float()
# --- model.py
import torch
from torch import nn

from encoding import sinusoid


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        future = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1).bool()
        return self.out((q @ k.mT / x.shape[-1] ** 0.5).masked_fill(future, float("-inf")).softmax(-1) @ v)


class Decoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.width = width
        self.embedding, self.attention, self.head = nn.Embedding(vocabulary, width), Attention(width), nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = x + sinusoid(tokens.shape[1], self.width)
        return self.head(x + self.attention(x))
