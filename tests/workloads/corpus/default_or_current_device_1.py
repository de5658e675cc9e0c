# === awq_block_moved
# thread: https://github.com/casper-hansen/AutoAWQ/issues/194
# about: the first blocks are where .cuda() leads; the quantizer itself moved the block that fails, and its inputs followed it before that
# operation: layer_norm on cuda:1, cuda:0
# operands: x|inps|input, norm.weight|norm.bias|weight|bias
# category: default-or-current-device|module-split
# line: layer.cuda()
# line: self.inps = layer(self.inps)
# repair: layer.cuda() -> layer.to(self.inps.device)
import torch
from torch import nn


class DecoderLayer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.fc2(torch.relu(self.fc1(self.norm(x))))


class AwqQuantizer:
    def __init__(self, layers, samples, group_size=8, w_bit=4):
        self.layers, self.inps = layers, samples
        self.group_size, self.w_bit = group_size, w_bit

    def round_to_grid(self, w):
        groups = w.reshape(-1, self.group_size)
        step = groups.abs().amax(1, keepdim=True) / (2 ** (self.w_bit - 1) - 1)
        return ((groups / step).round() * step).view_as(w)

    def inputs_of_linears(self, layer):
        """What goes into each linear of the layer; the samples go to where it is."""
        features, handles = {}, []
        for name, module in layer.named_children():
            if isinstance(module, nn.Linear):
                handles.append(module.register_forward_hook(lambda m, x, y, name=name: features.update({name: x[0]})))
        self.inps = self.inps.to(next(layer.parameters()).device)
        layer(self.inps)
        for handle in handles:
            handle.remove()
        return features

    @torch.no_grad()
    def quantize(self):
        lost = 0.0
        for layer in self.layers:
            features = self.inputs_of_linears(layer)
            for name, feature in features.items():
                linear = getattr(layer, name)
                exact = linear(feature)
                linear.weight.data = self.round_to_grid(linear.weight.data)
                lost += (linear(feature) - exact).square().mean().item()
            layer.cuda()
            self.inps = layer(self.inps)
        return lost


torch.manual_seed(0)
# Dispatched by its author: two layers on each device.
decoder = nn.ModuleList(DecoderLayer().to(f"cuda:{i // 2}") for i in range(4))
lost = AwqQuantizer(decoder, torch.randn(4, 6, 16)).quantize()
print("lost", round(lost, 4))

# === bins_decoder
# thread: https://github.com/LMCache/LMCache/pull/3091
# about: its sibling two lines above is right
# operation: div|mul|sub|add on cuda:1, cuda:0
# operands: self.value_bins|bins, value|values
# category: default-or-current-device
# line: self.value_bins = self.value_bins.cuda()
# repair: self.value_bins = self.value_bins.cuda() -> self.value_bins = self.value_bins.to(value.device)
import torch


class CacheDecoder:
    """Keys and values come as small integers, with so many bins for each layer."""

    def __init__(self, layers):
        self.key_bins = torch.tensor([32.0 if i < 2 else 16.0 for i in range(layers)])
        self.value_bins = torch.tensor([32.0 if i < 2 else 16.0 for i in range(layers)])

    def dequantize(self, codes, bins, scale):
        half = (bins / 2 - 1)[:, None, None]
        return (codes - half) / half * scale

    def decode(self, key, value, scale):
        if self.key_bins.device != key.device:
            self.key_bins = self.key_bins.to(key.device)
        if self.value_bins.device != value.device:
            self.value_bins = self.value_bins.cuda()
        return self.dequantize(key, self.key_bins, scale), self.dequantize(value, self.value_bins, scale)


torch.manual_seed(0)
device = torch.device("cuda:1")
decoder = CacheDecoder(layers=4)
codes = torch.randint(0, 16, (2, 4, 6, 8)).float().to(device)
key, value = decoder.decode(codes[0], codes[1], scale=0.5)
print("decoded", round((key.mean() + value.mean()).item(), 4))

# === caching_hooks
# thread: https://github.com/TransformerLensOrg/TransformerLens/issues/202
# about: hooks bring what they keep to "the" GPU, a closure's variable
# operation: mm|matmul|mv|addmm|dot|bmm on cuda:0, cuda:1
# operands: resid|residual|activation|stack|cache[^"]*"\], unembed|direction|weight|W_U
# category: default-or-current-device
# line: hook_points.py: device = "cuda"
# line: main.py: cache = add_caching_hooks(
# repair: main.py: cache = add_caching_hooks(model) -> cache = add_caching_hooks(model, device="cuda:1")
import torch
from torch import nn

from hook_points import add_caching_hooks

torch.manual_seed(0)
device = "cuda:1"
model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.GELU()) for _ in range(3)), nn.Linear(8, 5)).to(device)
cache = add_caching_hooks(model)
with torch.no_grad():
    logits = model(torch.randn(4, 8).to(device))
    direction = model[-1].weight[2] - model[-1].weight[1]
    lenses = {}
    for name, activation in cache.items():
        if activation.shape[-1] == 8:
            lenses[name] = round((activation @ direction).mean().item(), 4)
print("logit lens", lenses)
# --- hook_points.py
import torch


def add_caching_hooks(model, device=None):
    """What each part of the model gives, by its name, from the next run on."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    cache = {}

    def hook_of(name):
        def save(module, inputs, output):
            cache[name] = output.detach().to(device)

        return save

    for name, child in model.named_children():
        child.register_forward_hook(hook_of(name))
    return cache

# === char_generator
# thread: https://github.com/flairNLP/flair/pull/666
# about: the device is a global of another file, which everything else asks
# operation: embedding|index_select on cuda:0, cuda:1
# operands: token|input|indices, encoder.weight|weight
# category: default-or-current-device|input-not-moved
# line: language_model.py: token = token.cuda()
# repair: language_model.py: token = token.cuda() -> token = token.to(settings.device)
import argparse

import settings
import torch
from language_model import LanguageModel

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--prefix", default="flat ")
    parser.add_argument("--gpu", type=int, default=1)
    args = parser.parse_args()

    settings.device = torch.device("cuda", args.gpu)
    torch.manual_seed(464)
    lm = LanguageModel("abcdefghijklmnopqrstuvwxyz .", hidden_size=16)
    lm.to(settings.device)
    print(repr(lm.generate_text(args.prefix, number_of_characters=20)))
# --- language_model.py
import torch
import torch.nn as nn

import settings


class LanguageModel(nn.Module):
    def __init__(self, characters: str, hidden_size: int):
        super().__init__()
        self.characters = characters
        self.hidden_size = hidden_size
        self.encoder = nn.Embedding(len(characters), 8)
        self.rnn = nn.LSTM(8, hidden_size)
        self.decoder = nn.Linear(hidden_size, len(characters))

    def init_hidden(self, batch):
        weight = next(self.parameters()).detach()
        return tuple(weight.new_zeros(1, batch, self.hidden_size) for _ in range(2))

    def forward(self, token, hidden):
        output, hidden = self.rnn(self.encoder(token), hidden)
        return self.decoder(output), hidden

    def generate_text(self, prefix: str, number_of_characters: int) -> str:
        """Goes on from the prefix, always with the likeliest character."""
        text = prefix
        with torch.no_grad():
            hidden = self.init_hidden(1)
            for char in prefix[:-1]:
                token = torch.tensor([[self.characters.index(char)]]).to(settings.device)
                _, hidden = self.forward(token, hidden)
            token = torch.tensor([[self.characters.index(prefix[-1])]])
            for _ in range(number_of_characters):
                if torch.cuda.is_available():
                    token = token.cuda()
                prediction, hidden = self.forward(token, hidden)
                token = prediction.argmax(dim=-1)
                text += self.characters[token.item()]
        return text
# --- settings.py
import torch

# What all models of the library are on; may be set before one is made.
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

# === controller_rewards
# thread: https://github.com/VITA-Group/AutoGAN/issues/11
# operation: add on cuda:0, cuda:1
# operands: rewards, entropies|mul
# category: default-or-current-device
# line: rewards = torch.tensor(
# repair: rewards = torch.tensor(rewards, requires_grad=False).cuda() -> rewards = torch.tensor(rewards, requires_grad=False).to(entropies.device)
import torch
import torch.nn as nn
from torch.distributions import Categorical


class Controller(nn.Module):
    """An LSTM that writes the architecture of a generator, one choice after the other."""

    def __init__(self, hid_size, n_choices, n_ops):
        super(Controller, self).__init__()
        self.hid_size, self.n_choices = hid_size, n_choices
        self.lstm = nn.LSTMCell(hid_size, hid_size)
        self.decoder = nn.Linear(hid_size, n_ops)

    def sample(self, batch_size):
        x = torch.zeros(batch_size, self.hid_size, device=self.decoder.weight.device)
        h = None
        archs, log_probs, entropies = [], [], []
        for _ in range(self.n_choices):
            h = self.lstm(x, h)
            x = h[0]
            choice = Categorical(logits=self.decoder(x))
            action = choice.probs.argmax(dim=-1)
            archs.append(action)
            log_probs.append(choice.log_prob(action))
            entropies.append(choice.entropy())
        return torch.stack(archs, 1), torch.stack(log_probs, 1), torch.stack(entropies, 1)


def inception_score(arch):
    return 1.5 + 0.1 * float(arch.sum())


def train_controller(controller, optimizer, steps, entropy_coeff=1e-2, baseline_decay=0.9):
    baseline = None
    for _ in range(steps):
        archs, selected_log_probs, entropies = controller.sample(batch_size=3)
        rewards = [inception_score(arch) for arch in archs]
        rewards = torch.tensor(rewards, requires_grad=False).cuda()
        rewards = rewards.unsqueeze(-1) + entropy_coeff * entropies
        baseline = rewards if baseline is None else baseline_decay * baseline.detach() + (1 - baseline_decay) * rewards
        loss = (-selected_log_probs * (rewards - 0.9 * baseline)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return rewards.mean().item()


torch.manual_seed(12345)
ctrl = Controller(hid_size=6, n_choices=3, n_ops=4).cuda(1)
ctrl_optimizer = torch.optim.Adam(ctrl.parameters(), lr=3e-4)
print(f"mean reward {train_controller(ctrl, ctrl_optimizer, steps=2):.3f}")

# === dice_one_hot
# thread: https://github.com/yassouali/pytorch-segmentation/issues/80
# operation: scatter on cuda:0, cuda:1
# operands: one_hot|self, labels|index
# category: default-or-current-device
# line: dice.py: one_hot = torch.zeros(
# repair: dice.py: one_hot = torch.zeros(n, classes, h, w).cuda() -> one_hot = torch.zeros(n, classes, h, w).cuda(labels.device)
import argparse

import torch
import torch.nn as nn

from dice import CE_DiceLoss


def batches(n_batches, n_classes):
    gen = torch.Generator().manual_seed(80)
    for _ in range(n_batches):
        yield torch.rand(2, 3, 6, 6, generator=gen), torch.randint(n_classes, (2, 6, 6), generator=gen)


def main(opt):
    device = torch.device('cuda:%d' % opt.gpu)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, opt.classes, 1)).to(device)
    criterion = CE_DiceLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for i, (image, target) in enumerate(batches(2, opt.classes)):
        output = model(image.to(device))
        loss = criterion(output, target.to(device).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print('epoch 0: loss = %.4f' % loss.item())


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--gpu', type=int, default=1)
    parser.add_argument('--classes', type=int, default=4)
    main(parser.parse_args())
# --- dice.py
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_one_hot(labels, classes):
    n, _, h, w = labels.size()
    one_hot = torch.zeros(n, classes, h, w).cuda()
    return one_hot.scatter_(1, labels.data, 1)


class DiceLoss(nn.Module):
    def __init__(self, smooth=1.):
        super(DiceLoss, self).__init__()
        self.smooth = smooth

    def forward(self, output, target):
        target = make_one_hot(target.unsqueeze(dim=1), classes=output.size()[1])
        output_flat = F.softmax(output, dim=1).contiguous().view(-1)
        target_flat = target.contiguous().view(-1)
        intersection = (output_flat * target_flat).sum()
        return 1 - (2. * intersection + self.smooth) / (output_flat.sum() + target_flat.sum() + self.smooth)


class CE_DiceLoss(nn.Module):
    def __init__(self):
        super(CE_DiceLoss, self).__init__()
        self.dice = DiceLoss()
        self.cross_entropy = nn.CrossEntropyLoss()

    def forward(self, output, target):
        return self.cross_entropy(output, target) + self.dice(output, target)

# === dtw_cost_kernel
# thread: https://github.com/openai/whisper/pull/2561
# about: the launch itself is guarded, rightly; another tensor was made after the wrong one and shares its fault
# kind: remote-access
# operation: dtw_kernel on cuda:0, cuda:1
# operands: cost
# category: default-or-current-device
# error:
# line: cost = cost.cuda()
# repair: cost = cost.cuda() -> cost = cost.to(x.device)
import torch
import triton
import triton.language as tl


@triton.jit
def dtw_kernel(cost, trace, x, rows, columns):
    width = columns + 1
    for i in range(rows):
        for j in range(columns):
            both = tl.load(cost + i * width + j)
            row = tl.load(cost + i * width + j + 1)
            column = tl.load(cost + (i + 1) * width + j)
            best = tl.minimum(both, tl.minimum(row, column))
            here = (i + 1) * width + j + 1
            tl.store(cost + here, tl.load(x + i * columns + j) + best)
            tl.store(trace + here, tl.where(best == both, 0, tl.where(best == row, 1, 2)))


def align(x):
    """The cheapest way through a matrix of tokens and frames, which the kernel walks alone."""
    rows, columns = x.shape
    cost = torch.full((rows + 1, columns + 1), float("inf"))
    cost[0, 0] = 0
    cost = cost.cuda()
    trace = torch.zeros_like(cost, dtype=torch.int32)
    with torch.cuda.device(x.device):
        dtw_kernel[(1,)](cost, trace, x, rows, columns)
    return cost, trace


def word_timestamps(attention, words):
    cost, trace = align(-attention.softmax(dim=-1).mean(dim=0))
    return {word: tuple(trace[row + 1 :].shape) for row, word in enumerate(words)}, tuple(cost.shape)


torch.manual_seed(0)
attention = torch.rand(2, 3, 12).to("cuda:1")
print("timestamps", *word_timestamps(attention, ["and", "so", "on"]))

# === executor_threads
# thread: https://github.com/mstar-project/mstar/pull/180
# about: the worker chose its device in the main thread; PyTorch's own operators go by the tensors, the kernel goes by the thread
# kind: wrong-current-device
# operation: gate_kernel on cuda:1, cuda:0
# operands: x|hidden|gate
# category: default-or-current-device|unguarded-kernel
# error:
# line: self.gpu_executor = ThreadPoolExecutor(
# line: gate_kernel[(
# repair: self.gpu_executor = ThreadPoolExecutor(1) -> self.gpu_executor = ThreadPoolExecutor(1, initializer=torch.cuda.set_device, initargs=(self.device,))
from concurrent.futures import ThreadPoolExecutor

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gate_kernel(x, gate, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    tl.store(out + at, tl.load(x + at, mask=mask) * tl.load(gate + at, mask=mask), mask=mask)


def gated(x, gate):
    out = torch.empty_like(x)
    gate_kernel[(triton.cdiv(x.numel(), 16),)](x, gate, out, x.numel(), BLOCK=16)
    return out


class Thinker(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.gate, self.down = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        return self.down(gated(self.up(x).contiguous(), self.gate(x).sigmoid().contiguous()))


class Worker:
    """Requests are answered in a thread of their own: the main thread goes on to receive them."""

    def __init__(self, device):
        self.device = torch.device(device)
        torch.cuda.set_device(self.device)
        self.model = Thinker(8).cuda()
        self.gpu_executor = ThreadPoolExecutor(1)

    @torch.no_grad()
    def answer(self, request):
        hidden = torch.tensor(request).to(self.device)
        return self.model(hidden).sum().item()

    def run(self, requests):
        futures = [self.gpu_executor.submit(self.answer, request) for request in requests]
        return [round(each.result(), 4) for each in futures]


torch.manual_seed(0)
workers = [Worker("cuda:0"), Worker("cuda:1")]
requests = [[[0.1 * i] * 8] * 2 for i in range(3)]
answers = [worker.run(requests) for worker in workers]
print("answers", [len(each) for each in answers])
