# === city_sounds
# thread: https://github.com/musikalkemist/pytorchforaudio/issues/11
# about: the module is made anew at every use; another of the same kind has been moved
# operation: conv on cuda:0, cpu
# operands: waveform|signal|input, kernel|weight
# category: input-not-moved|created-without-device|state-not-registered
# error: Input type \(torch.cuda.FloatTensor\) and weight type \(torch.FloatTensor\) should be the same|on the same device
# line: dataset.py: resampler = transforms.Resample(
# line: dataset.py: signal = resampler(
# repair: dataset.py: resampler = transforms.Resample(sr, self.target_sample_rate) -> resampler = transforms.Resample(sr, self.target_sample_rate).to(self.device)
import torch

import transforms
from dataset import UrbanSounds

if torch.cuda.is_available():
    device = "cuda"
else:
    device = "cpu"
print(f"Using device {device}")

recordings = [
    (torch.sin(torch.arange(480) * 0.05)[None], 4000, 3),
    (torch.sin(torch.arange(960) * 0.03).repeat(2, 1), 8000, 7),
]
spectrogram = transforms.Spectrogram(n_fft=64, hop_length=32)
usd = UrbanSounds(recordings, spectrogram, target_sample_rate=4000, num_samples=512, device=device)

print(f"There are {len(usd)} samples in the dataset.")
for signal, label in (usd[i] for i in range(len(usd))):
    summary = tuple(signal.shape), label, round(signal.sum().item(), 2)
    print(*summary)
# --- dataset.py
import torch
from torch.utils.data import Dataset

import transforms


class UrbanSounds(Dataset):
    def __init__(self, recordings, transformation, target_sample_rate, num_samples, device):
        self.recordings = recordings
        self.device = device
        self.transformation = transformation.to(self.device)
        self.target_sample_rate = target_sample_rate
        self.num_samples = num_samples

    def __len__(self):
        return len(self.recordings)

    def __getitem__(self, index):
        signal, sr, label = self.recordings[index]
        signal = signal.to(self.device)
        signal = self._resample_if_necessary(signal, sr)
        signal = self._mix_down_if_necessary(signal)
        signal = self._right_pad_if_necessary(signal)
        return self.transformation(signal), label

    def _resample_if_necessary(self, signal, sr):
        if sr != self.target_sample_rate:
            resampler = transforms.Resample(sr, self.target_sample_rate)
            signal = resampler(signal)
        return signal

    def _mix_down_if_necessary(self, signal):
        if signal.shape[0] > 1:
            signal = torch.mean(signal, dim=0, keepdim=True)
        return signal

    def _right_pad_if_necessary(self, signal):
        missing = self.num_samples - signal.shape[1]
        if missing > 0:
            signal = torch.nn.functional.pad(signal, (0, missing))
        return signal
# --- transforms.py
import torch
from torch import nn
from torch.nn import functional as F


class Resample(nn.Module):
    """To a frequency that divides the original one."""

    def __init__(self, orig_freq, new_freq):
        super().__init__()
        self.step = orig_freq // new_freq
        kernel = torch.hann_window(2 * self.step + 1)
        self.register_buffer("kernel", (kernel / kernel.sum()).view(1, 1, -1))

    def forward(self, waveform):
        return F.conv1d(waveform.unsqueeze(1), self.kernel, stride=self.step, padding=self.step).squeeze(1)


class Spectrogram(nn.Module):
    def __init__(self, n_fft, hop_length):
        super().__init__()
        self.n_fft, self.hop_length = n_fft, hop_length
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, waveform):
        return torch.stft(waveform, self.n_fft, self.hop_length, window=self.window, return_complex=True).abs()

# === decode_hook
# thread: https://github.com/huggingface/diffusers/issues/7602
# about: a hook has moved the arguments, but its answer is thrown away by a decorator
# operation: conv on cuda:0, cuda:1
# operands: z|latents|input, weight|bias
# category: input-not-moved|module-split
# line: vae.py: self._hf_hook.pre_forward(self)
# line: main.py: image = self.vae.decode(
# repair: vae.py: self._hf_hook.pre_forward(self) -> args, kwargs = self._hf_hook.pre_forward(self, *args, **kwargs)
import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from torch import nn

from vae import AutoencoderKL


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, sample, timestep):
        return self.conv(sample) * (1 - timestep / 10)


class Pipeline:
    """Every model has a device of its own; hooks bring it what it is given."""

    def __init__(self, unet, vae, devices):
        self.unet, self.vae = unet, vae
        for model, device in zip((unet, vae), devices):
            model.to(device)
            add_hook_to_module(model, AlignDevicesHook(execution_device=device))

    @torch.no_grad()
    def __call__(self, latents, steps=3):
        for timestep in reversed(range(steps)):
            latents = latents - 0.1 * self.unet(latents, timestep).to(latents.device)
        image = self.vae.decode(latents / self.vae.scaling_factor)
        return image.clamp(0, 1)


torch.manual_seed(7602)
pipe = Pipeline(UNet(), AutoencoderKL(), devices=[torch.device("cuda:0"), torch.device("cuda:1")])
image = pipe(torch.randn(1, 4, 4, 4).to("cuda:0"))
print(tuple(image.shape), f"{image.mean().item():.4f}")
# --- vae.py
import functools

from torch import nn


def apply_forward_hook(method):
    """Hooks are called around `forward` alone; this calls them before another method too."""

    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        if hasattr(self, "_hf_hook"):
            self._hf_hook.pre_forward(self)
        return method(self, *args, **kwargs)

    return wrapper


class AutoencoderKL(nn.Module):
    scaling_factor = 0.5

    def __init__(self, latent_channels=4):
        super().__init__()
        self.encoder = nn.Conv2d(3, latent_channels, 2, stride=2)
        self.post_quant_conv = nn.Conv2d(latent_channels, latent_channels, 1)
        self.decoder = nn.ConvTranspose2d(latent_channels, 3, 2, stride=2)

    @apply_forward_hook
    def encode(self, x):
        return self.encoder(x)

    @apply_forward_hook
    def decode(self, z):
        return self.decoder(self.post_quant_conv(z).sigmoid())

    def forward(self, x):
        return self.decode(self.encode(x))

# === pinned_molecules
# thread: https://github.com/DavidWBressler/GCNN/issues/2
# about: the collate function brings the batch to the GPU; it is the loader that then pins it, in PyTorch's files
# operation: pin_memory|_pin_memory| on cuda:0
# operands:
# category: input
# error: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned
# line: train_loader = DataLoader(
# line: return nodes.to(device), adjacency.to(device), torch.stack(values).to(device)
# line: pin_memory=True
# repair: train_loader = DataLoader(molecules, batch_size=4, collate_fn=pad_collate, pin_memory=True) -> train_loader = DataLoader(molecules, batch_size=4, collate_fn=pad_collate, pin_memory=False)
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class Molecules(Dataset):
    def __init__(self, n, n_features=5):
        generator = torch.Generator().manual_seed(2)
        self.items = []
        for i in range(n):
            size = 3 + i % 4
            nodes = torch.rand(size, n_features, generator=generator)
            ring = torch.eye(size).roll(1, dims=0)
            self.items.append((nodes, ring + ring.T, nodes.sum()))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def pad_collate(items):
    """Molecules differ in size: all get as many atoms as the largest one."""
    largest = max(len(nodes) for nodes, _, _ in items)
    nodes = torch.zeros(len(items), largest, items[0][0].shape[1])
    adjacency = torch.zeros(len(items), largest, largest)
    values = []
    for i, (atoms, bonds, value) in enumerate(items):
        nodes[i, : len(atoms)] = atoms
        adjacency[i, : len(atoms), : len(atoms)] = bonds
        values.append(value)
    return nodes.to(device), adjacency.to(device), torch.stack(values).to(device)


class GraphConvolutions(nn.Module):
    def __init__(self, n_features=5, width=8):
        super().__init__()
        self.first = nn.Linear(n_features, width)
        self.second = nn.Linear(width, 1)

    def forward(self, nodes, adjacency):
        hidden = torch.relu(self.first(nodes + adjacency @ nodes))
        return self.second(hidden).sum(dim=(1, 2))


torch.manual_seed(0)
molecules = Molecules(10)
train_loader = DataLoader(molecules, batch_size=4, collate_fn=pad_collate, pin_memory=True)
model = GraphConvolutions().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for epoch in range(2):
    total = 0.0
    for nodes, adjacency, values in train_loader:
        optimizer.zero_grad()
        loss = (model(nodes, adjacency) - values).abs().mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
print("loss", round(total, 3))

# === voice_preset
# thread: https://github.com/huggingface/transformers/issues/34634
# about: the inputs were moved, and they say so; what is nested in them was not
# operation: embedding|index_select on cuda:0, cpu
# operands: history|semantic_history|input|indices|index, input_embeds_layer.weight|weight
# category: input-not-moved
# line: processing.py: key: value.to(device) if isinstance(value, torch.Tensor)
# line: main.py: inputs = processor(
# line: model.py: history = history_prompt[
# repair: processing.py: key: value.to(device) if isinstance(value, torch.Tensor) else value -> key: value.to(device) if isinstance(value, (torch.Tensor, BatchFeature)) else value
import torch

from model import BarkSemanticModel
from processing import BarkProcessor

device = torch.device("cuda:0")
presets = {
    "v2/en_speaker_6": {
        "semantic_prompt": torch.tensor([5, 9, 2, 7, 11, 3]),
        "coarse_prompt": torch.tensor([[1, 4, 2], [6, 0, 3]]),
    }
}
processor = BarkProcessor(presets)

torch.manual_seed(34634)
model = BarkSemanticModel().to(device).eval()

pieces = []
for sentence in ["my dog is cute", "and so is the cat"]:
    inputs = processor(sentence, voice_preset="v2/en_speaker_6").to(device)
    pieces.append(model.generate(**inputs, max_new_tokens=4))
print("semantic tokens", [piece.tolist() for piece in pieces])
# --- model.py
import torch
from torch import nn


class BarkSemanticModel(nn.Module):
    """The first of three: from text to semantic tokens, in the voice of a prompt."""

    def __init__(self, vocab_size=24, hidden_size=16):
        super().__init__()
        self.input_embeds_layer = nn.Embedding(vocab_size, hidden_size)
        self.rnn = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)

    def embed(self, input_ids, attention_mask, history_prompt):
        text = self.input_embeds_layer(input_ids) * attention_mask.unsqueeze(-1)
        if history_prompt is None:
            return text
        history = history_prompt["semantic_prompt"][-text.shape[1] :]
        return text + self.input_embeds_layer(history).unsqueeze(0)

    @torch.no_grad()
    def generate(self, input_ids, attention_mask, history_prompt=None, max_new_tokens=8):
        states, hidden = self.rnn(self.embed(input_ids, attention_mask, history_prompt))
        tokens = []
        for _ in range(max_new_tokens):
            tokens.append(self.lm_head(states[:, -1]).argmax(-1))
            states, hidden = self.rnn(self.input_embeds_layer(tokens[-1]).unsqueeze(1), hidden)
        return torch.cat(tokens)
# --- processing.py
import torch


class BatchFeature(dict):
    """What a feature extractor returns."""

    def to(self, device):
        return BatchFeature({name: value.to(device) for name, value in self.items()})


class BatchEncoding:
    """What a tokenizer returns."""

    def __init__(self, data):
        self.data = data

    def keys(self):
        return self.data.keys()

    def __getitem__(self, name):
        return self.data[name]

    def __setitem__(self, name, value):
        self.data[name] = value

    def to(self, device):
        self.data = {
            key: value.to(device) if isinstance(value, torch.Tensor) else value
            for key, value in self.data.items()
        }
        return self


class BarkProcessor:
    def __init__(self, speaker_embeddings):
        self.speaker_embeddings = speaker_embeddings

    def tokenize(self, text):
        ids = torch.tensor([[12 + len(word) for word in text.split()]])
        return BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)})

    def __call__(self, text, voice_preset=None):
        encoded = self.tokenize(text)
        if voice_preset is not None:
            encoded["history_prompt"] = BatchFeature(self.speaker_embeddings[voice_preset])
        return encoded
