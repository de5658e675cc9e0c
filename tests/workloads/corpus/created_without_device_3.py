# === balance_trainer
# thread: https://github.com/strands-labs/robots/pull/877
# about: the environment makes everything on its own device, and nobody has told it another one than its default
# operation: addmm|linear|mm on cpu, cuda:0
# operands: observations|observation|input|x, weight|bias
# category: created-without-device|default-or-current-device|input-not-moved
# line: trainer.py: self.env = SimEnv(
# line: env.py: def __init__(
# line: trainer.py: observations = self.env.reset()
# repair: trainer.py: self.env = SimEnv(self.config.n_envs, seed=self.config.seed) -> self.env = SimEnv(self.config.n_envs, seed=self.config.seed, device=self.device)
from trainer import PpoConfig, PpoTrainer

trainer = PpoTrainer(PpoConfig(n_envs=6, horizon=12, updates=3))
trainer.setup()
reward = trainer.train()
print("mean reward", round(reward, 4))
# --- env.py
import torch


class SimEnv:
    """Carts that are to stay where they are, all simulated at once."""

    def __init__(self, n_envs, seed=0, device="cpu"):
        self.n_envs, self.device = n_envs, torch.device(device)
        self.generator = torch.Generator().manual_seed(seed)
        self.state = torch.zeros(n_envs, 2, device=self.device)
        self.ticks = torch.zeros(n_envs, dtype=torch.long, device=self.device)

    def fresh(self):
        return (torch.rand(self.n_envs, 2, generator=self.generator) - 0.5).to(self.device)

    def reset(self):
        self.state = self.fresh()
        self.ticks.zero_()
        return self.state.clone()

    def step(self, actions):
        push = actions.clamp(-1, 1)
        velocity = self.state[:, 1] + 0.1 * push
        self.state = torch.stack([self.state[:, 0] + 0.1 * velocity, velocity], dim=1)
        self.ticks += 1
        reward = 1 - self.state[:, 0].abs() - 0.1 * push.abs()
        done = (self.state[:, 0].abs() > 1) | (self.ticks >= 8)
        self.state = torch.where(done.unsqueeze(1), self.fresh(), self.state)
        self.ticks = torch.where(done, torch.zeros_like(self.ticks), self.ticks)
        return self.state.clone(), reward, done
# --- trainer.py
from dataclasses import dataclass

import torch
from torch import nn

from env import SimEnv


@dataclass
class PpoConfig:
    n_envs: int = 8
    horizon: int = 16
    updates: int = 4
    gamma: float = 0.95
    clip: float = 0.2
    learning_rate: float = 0.01
    device: str = ""
    seed: int = 877


class ActorCritic(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, hidden), nn.Tanh())
        self.actor, self.critic = nn.Linear(hidden, 1), nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.full((), -1.0))

    def forward(self, observations):
        hidden = self.body(observations)
        return self.actor(hidden).squeeze(-1), self.critic(hidden).squeeze(-1)

    def log_prob(self, mean, actions):
        return -0.5 * ((actions - mean) / self.log_std.exp()).square() - self.log_std


class PpoTrainer:
    def __init__(self, config):
        self.config = config
        self.device = torch.device(config.device or ("cuda" if torch.cuda.is_available() else "cpu"))

    def setup(self):
        torch.manual_seed(self.config.seed)
        self.noise = torch.Generator().manual_seed(self.config.seed)
        self.env = SimEnv(self.config.n_envs, seed=self.config.seed)
        self.policy = ActorCritic().to(self.device)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=self.config.learning_rate)
        shape = self.config.horizon, self.config.n_envs
        self.buffer = {
            "observations": torch.zeros(*shape, 2, device=self.device),
            **{name: torch.zeros(shape, device=self.device) for name in ("actions", "rewards", "values", "log_probs", "going")},
        }

    @torch.no_grad()
    def collect(self):
        observations = self.env.reset()
        for t in range(self.config.horizon):
            mean, values = self.policy(observations)
            draw = torch.randn(self.config.n_envs, generator=self.noise).to(self.device)
            actions = mean + self.policy.log_std.exp() * draw
            following, rewards, done = self.env.step(actions)
            row = (observations, actions, rewards, values, self.policy.log_prob(mean, actions), (~done).float())
            for name, value in zip(("observations", "actions", "rewards", "values", "log_probs", "going"), row):
                self.buffer[name][t] = value
            observations = following
        return self.policy(observations)[1]

    def returns(self, last):
        found = torch.zeros_like(self.buffer["rewards"])
        for t in reversed(range(self.config.horizon)):
            last = self.buffer["rewards"][t] + self.config.gamma * self.buffer["going"][t] * last
            found[t] = last
        return found

    def train(self):
        for _ in range(self.config.updates):
            returns = self.returns(self.collect())
            advantages = returns - self.buffer["values"]
            mean, values = self.policy(self.buffer["observations"])
            ratio = (self.policy.log_prob(mean, self.buffer["actions"]) - self.buffer["log_probs"]).exp()
            clipped = ratio.clamp(1 - self.config.clip, 1 + self.config.clip)
            loss = -torch.minimum(ratio * advantages, clipped * advantages).mean() + (values - returns).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return self.buffer["rewards"].mean().item()

# === band_pass
# thread: https://github.com/iver56/torch-audiomentations/issues/137
# about: two distributions side by side: one has its bounds on the device of the examples, the other does not
# operation: mul|sub|add|minimum on cuda:0, cpu
# operands: bandwidth_fraction|bandwidth, center_freq|center
# category: created-without-device
# line: bandwidth_dist = Uniform(
# line: low=torch.tensor(self.min_bandwidth_fraction)
# line: high=torch.tensor(self.max_bandwidth_fraction)
# line: "bandwidth": bandwidth_dist.sample(
# repair: low=torch.tensor(self.min_bandwidth_fraction), -> low=torch.tensor(self.min_bandwidth_fraction, device=examples.device),
# repair: high=torch.tensor(self.max_bandwidth_fraction), -> high=torch.tensor(self.max_bandwidth_fraction, device=examples.device),
import math

import torch
from torch import nn
from torch.distributions import Uniform


class BandPassFilter(nn.Module):
    """Lets a band of every example through, whose middle and width are drawn anew."""

    def __init__(self, min_center=200.0, max_center=4000.0, min_bandwidth_fraction=0.5, max_bandwidth_fraction=1.9):
        super().__init__()
        self.min_center, self.max_center = min_center, max_center
        self.min_bandwidth_fraction = min_bandwidth_fraction
        self.max_bandwidth_fraction = max_bandwidth_fraction
        self.parameters_drawn = {}

    def randomize_parameters(self, examples):
        center_dist = Uniform(
            low=torch.tensor(math.log(self.min_center), device=examples.device),
            high=torch.tensor(math.log(self.max_center), device=examples.device),
        )
        bandwidth_dist = Uniform(
            low=torch.tensor(self.min_bandwidth_fraction),
            high=torch.tensor(self.max_bandwidth_fraction),
        )
        self.parameters_drawn = {
            "center_freq": center_dist.sample((len(examples),)).exp(),
            "bandwidth": bandwidth_dist.sample((len(examples),)),
        }

    def forward(self, examples, sample_rate):
        self.randomize_parameters(examples)
        center_freq = self.parameters_drawn["center_freq"]
        bandwidth = self.parameters_drawn["bandwidth"] * center_freq
        low = (center_freq - 0.5 * bandwidth).unsqueeze(1)
        high = (center_freq + 0.5 * bandwidth).unsqueeze(1)
        spectrum = torch.fft.rfft(examples)
        frequencies = torch.fft.rfftfreq(examples.shape[1], 1 / sample_rate, device=examples.device)
        passes = (frequencies >= low) & (frequencies <= high)
        return torch.fft.irfft(spectrum * passes, n=examples.shape[1])


torch.manual_seed(137)
time = torch.arange(256) / 8000
tones = torch.stack([torch.sin(2 * math.pi * hertz * time) for hertz in (500, 1500, 3000)])
augment = BandPassFilter().to("cuda")
filtered = augment(tones.to("cuda"), sample_rate=8000)
# The draws are the device's own: what is printed does not hang on them.
print("filtered", tuple(filtered.shape), "never louder:", bool((filtered.square().sum(1) < tones.to("cuda").square().sum(1) + 1).all()))

# === block_colors
# thread: https://github.com/monniert/differentiable-blocksworld/issues/2
# about: the message names the table's device; the mask is a comparison that has no name
# operation: index on cpu, cuda:0
# operands: val_blocks
# category: created-without-device
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# line: val_blocks = torch.linspace(
# line: val_blocks = val_blocks[
# repair: val_blocks = torch.linspace(0, 1, self.n_blocks + 1)[1:] -> val_blocks = torch.linspace(0, 1, self.n_blocks + 1, device=self.bkg.device)[1:]
# repair: values = torch.cat([torch.zeros(n_env), val_blocks.repeat_interleave(self.block_faces)]) -> values = torch.cat([torch.zeros(n_env, device=self.bkg.device), val_blocks.repeat_interleave(self.block_faces)])
import torch
from torch import nn


class BlocksWorld(nn.Module):
    """A scene of a background and some blocks, each of which can fade away."""

    env_faces, block_faces = 3, 4

    def __init__(self, n_blocks=6):
        super().__init__()
        self.n_blocks = n_blocks
        self.bkg = nn.Parameter(torch.rand(self.env_faces, 3))
        self.textures = nn.Parameter(torch.rand(n_blocks, self.block_faces, 3))
        self.alpha_logit = nn.Parameter(torch.linspace(-3, 3, n_blocks))

    def get_opacities(self):
        return torch.sigmoid(self.alpha_logit)

    def forward(self):
        alpha = self.get_opacities()
        blocks = self.textures * alpha[:, None, None]
        return torch.cat([self.bkg, blocks.flatten(0, 1)]).mean()

    @torch.no_grad()
    def get_scene_face_colors(self, filter_transparent=False, with_env=True):
        val_blocks = torch.linspace(0, 1, self.n_blocks + 1)[1:]
        if filter_transparent:
            val_blocks = val_blocks[self.get_opacities() > 0.5]
        n_env = self.env_faces if with_env else 0
        values = torch.cat([torch.zeros(n_env), val_blocks.repeat_interleave(self.block_faces)])
        colors = torch.stack([values, 1 - values, 0.5 + 0 * values], dim=1)
        return colors.to(self.bkg.device)


torch.manual_seed(2)
model = BlocksWorld().to("cuda")
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = (model() - 0.2).square()
    loss.backward()
    optimizer.step()

colors = model.get_scene_face_colors(filter_transparent=True)
print(len(colors), "faces, colors", [round(v, 3) for v in colors.mean(dim=0).tolist()])

# === both_directions
# thread: https://github.com/pyg-team/pytorch_geometric/issues/3390
# operation: sub on cuda:0, cpu
# operands: arange|idx, mask|cumsum
# category: created-without-device
# line: idx = torch.arange(
# repair: idx = torch.arange(0, nnz).sub_(mask.logical_not_().cumsum(dim=0)) -> idx = torch.arange(0, nnz, device=edge_index.device).sub_(mask.logical_not_().cumsum(dim=0))
from typing import Optional

import torch
from torch import Tensor


def coalesce(edge_index: Tensor, edge_attr: Optional[Tensor] = None, num_nodes: Optional[int] = None):
    """Sorts edges and makes one of those that are there more than once; their attributes are added."""
    nnz = edge_index.size(1)
    num_nodes = int(edge_index.max()) + 1 if num_nodes is None else num_nodes

    keys = edge_index[0] * num_nodes + edge_index[1]
    keys, perm = keys.sort()
    edge_index = edge_index[:, perm]
    edge_attr = None if edge_attr is None else edge_attr[perm]

    mask = torch.cat([keys.new_ones(1, dtype=torch.bool), keys[1:] > keys[:-1]])
    if mask.all():
        return edge_index, edge_attr

    edge_index = edge_index[:, mask]
    if edge_attr is None:
        return edge_index, None
    dim_size = edge_index.size(1)
    idx = torch.arange(0, nnz).sub_(mask.logical_not_().cumsum(dim=0))
    out = edge_attr.new_zeros((dim_size,) + edge_attr.shape[1:])
    return edge_index, out.index_add_(0, idx, edge_attr)


def to_undirected(edge_index: Tensor, edge_attr: Tensor, num_nodes: Optional[int] = None):
    row, col = edge_index
    edge_index = torch.stack([torch.cat([row, col]), torch.cat([col, row])])
    return coalesce(edge_index, torch.cat([edge_attr, edge_attr]), num_nodes)


def propagate(x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
    row, col = edge_index
    return torch.zeros_like(x).index_add_(0, col, edge_attr.view(-1, 1) * x[row])


device = torch.device('cuda')
edge_index = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 3, 0]], device=device)
edge_attr = torch.tensor([1., 2., 3., 4., 5.], device=device)
edge_index, edge_attr = to_undirected(edge_index, edge_attr)
x = torch.eye(4, device=device)
for _ in range(2):
    x = propagate(x, edge_index, edge_attr)
print(edge_index.tolist(), x.diag().tolist())

# === detected_boxes
# thread: https://github.com/huggingface/transformers/pull/21974
# operation: mul on cuda:0, cpu
# operands: boxes, scale_fct
# category: created-without-device|input-not-moved
# line: target_sizes = torch.tensor(
# line: boxes = boxes * scale_fct
# line: scale_fct = torch.stack(
# line: results = processor.post_process_object_detection(
# repair: boxes = boxes * scale_fct[:, None, :] -> boxes = boxes * scale_fct.to(boxes.device)[:, None, :]
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class DetectionOutput:
    logits: torch.Tensor
    pred_boxes: torch.Tensor


class Detector(nn.Module):
    def __init__(self, n_queries=5, n_labels=3, width=16):
        super().__init__()
        self.backbone = nn.Conv2d(3, width, 4, stride=4)
        self.queries = nn.Parameter(torch.randn(n_queries, width))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.labels = nn.Linear(width, n_labels + 1)
        self.boxes = nn.Linear(width, 4)

    def forward(self, pixel_values):
        memory = self.backbone(pixel_values).flatten(2).transpose(1, 2)
        queries = self.queries.expand(len(memory), -1, -1)
        hidden, _ = self.attention(queries, memory, memory)
        return DetectionOutput(self.labels(hidden), self.boxes(hidden).sigmoid())


def center_to_corners_format(x):
    center, size = x.chunk(2, dim=-1)
    return torch.cat([center - 0.5 * size, center + 0.5 * size], dim=-1)


class ImageProcessor:
    def __call__(self, images):
        return {"pixel_values": torch.stack([nn.functional.interpolate(image[None], (16, 16))[0] for image in images])}

    def post_process_object_detection(self, outputs, threshold=0.5, target_sizes=None):
        prob = outputs.logits.softmax(-1)
        scores, labels = prob[..., :-1].max(-1)
        boxes = center_to_corners_format(outputs.pred_boxes)
        if target_sizes is not None:
            height, width = target_sizes.unbind(1)
            scale_fct = torch.stack([width, height, width, height], dim=1)
            boxes = boxes * scale_fct[:, None, :]
        kept = [score > threshold for score in scores]
        found = zip(kept, scores, labels, boxes)
        return [{"scores": score[k], "labels": label[k], "boxes": box[k]} for k, score, label, box in found]


torch.manual_seed(21974)
images = [torch.rand(3, 24, 32), torch.rand(3, 40, 20)]
processor = ImageProcessor()
model = Detector().to("cuda").eval()
inputs = {name: value.to("cuda") for name, value in processor(images).items()}
with torch.no_grad():
    outputs = model(**inputs)
target_sizes = torch.tensor([image.shape[-2:] for image in images])
results = processor.post_process_object_detection(outputs, threshold=0.2, target_sizes=target_sizes)
print([(len(each["scores"]), round(each["boxes"].sum().item(), 1)) for each in results])

# === kaldi_banks
# thread: https://github.com/pytorch/audio/issues/310
# about: one function of several makes tensors without looking at the wave's device; another one below it does the same, and is not reached
# operation: mul on cuda:0, cpu
# operands: strided_input|frames, window|window_function
# category: created-without-device
# line: return torch.hann_window(window_size, periodic=False).pow(0.85)
# line: window = feature_window(
# line: strided_input = strided_input * window
# repair: return torch.hann_window(window_size, periodic=False).pow(0.85) -> return torch.hann_window(window_size, periodic=False, device=device).pow(0.85)
# repair: window = feature_window(window_type, window_size) -> window = feature_window(window_type, window_size, strided_input.device)
# repair: def feature_window(window_type, window_size): -> def feature_window(window_type, window_size, device=None):
# repair: banks = mel_banks(num_mel_bins, power.shape[-1], sample_frequency) -> banks = mel_banks(num_mel_bins, power.shape[-1], sample_frequency).to(power.device)
import math

import torch


def frames(waveform, window_size, shift):
    count = 1 + (len(waveform) - window_size) // shift
    return waveform.as_strided((count, window_size), (shift * waveform.stride(0), waveform.stride(0)))


def feature_window(window_type, window_size):
    if window_type == "hanning":
        return torch.hann_window(window_size, periodic=False)
    if window_type == "hamming":
        return torch.hamming_window(window_size, periodic=False, alpha=0.54, beta=0.46)
    if window_type == "povey":
        return torch.hann_window(window_size, periodic=False).pow(0.85)
    raise ValueError("no window of the name " + window_type)


def mel(hertz):
    return 1127.0 * math.log(1.0 + hertz / 700.0)


def mel_banks(num_bins, num_frequencies, sample_frequency, low=20.0):
    edges = torch.linspace(mel(low), mel(sample_frequency / 2), num_bins + 2)
    hertz = torch.arange(num_frequencies) * (sample_frequency / 2 / (num_frequencies - 1))
    mels = 1127.0 * (1.0 + hertz / 700.0).log()
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    return torch.minimum((mels - left) / (middle - left), (right - mels) / (right - middle)).clamp(min=0)


def fbank(waveform, sample_frequency=8000.0, num_mel_bins=8, frame_length=25.0, frame_shift=10.0, window_type="povey"):
    window_size = int(sample_frequency * frame_length / 1000)
    strided_input = frames(waveform, window_size, int(sample_frequency * frame_shift / 1000))
    strided_input = strided_input - strided_input.mean(dim=1, keepdim=True)
    window = feature_window(window_type, window_size)
    strided_input = strided_input * window
    power = torch.fft.rfft(strided_input, n=256).abs().square()
    banks = mel_banks(num_mel_bins, power.shape[-1], sample_frequency)
    return (power @ banks.T).clamp(min=1e-8).log()


time = torch.arange(1600) / 8000
wave = torch.sin(2 * math.pi * 440 * time) + 0.3 * torch.sin(2 * math.pi * 1800 * time)
features = fbank(wave.to("cuda"))
print("features", tuple(features.shape), round(features.mean().item(), 3))

# === sparsity_masks
# thread: https://github.com/microsoft/nni/issues/4911
# operation: mul on cuda:0, cpu
# operands: metric, weight_mask|mask
# category: created-without-device|state-not-registered
# line: pruner.py: self.weight_mask = torch.ones(
# line: allocator.py: metric = metric * wrapper.weight_mask
# repair: pruner.py: self.weight_mask = torch.ones(module.weight.shape) -> self.weight_mask = torch.ones_like(module.weight.detach())
import torch
from torch import nn
from torch.nn import functional as F

from pruner import TaylorFOWeightPruner

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def trainer(model, optimizer, criterion, batches):
    model.train()
    for data, target in batches:
        optimizer.zero_grad()
        loss = criterion(model(data.to(device)), target.to(device))
        loss.backward()
        optimizer.step()
        yield loss.item()


def main():
    torch.manual_seed(4911)
    model = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 3)).to(device)
    batches = [(torch.rand(5, 6), torch.arange(5) % 3) for _ in range(4)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pruner = TaylorFOWeightPruner(model, kinds=(nn.Linear,), sparsity=0.5)
    for _ in trainer(model, optimizer, F.cross_entropy, batches):
        pruner.collect()
    pruner.compress()
    *_, loss = trainer(model, optimizer, F.cross_entropy, batches)
    print("zeros", {name: int((w == 0).sum()) for name, w in pruner.masked_weights().items()}, "loss %.4f" % loss)


if __name__ == "__main__":
    main()
# --- allocator.py
class NormalSparsityAllocator:
    def __init__(self, wrappers, sparsity):
        self.wrappers = wrappers
        self.sparsity = sparsity

    def generate_sparsity(self, metrics):
        """New masks; what has gone stays gone."""
        masks = {}
        for name, wrapper in self.wrappers.items():
            metric = metrics[name]
            metric = metric * wrapper.weight_mask
            n_pruned = int(self.sparsity * metric.numel())
            threshold = metric.flatten().kthvalue(n_pruned).values
            masks[name] = (metric > threshold).to(metric.dtype)
        return masks
# --- pruner.py
import torch

from allocator import NormalSparsityAllocator


class Wrapper:
    """A layer and which of its weights stay."""

    def __init__(self, name, module):
        self.name = name
        self.module = module
        self.weight_mask = torch.ones(module.weight.shape)


class TaylorFOWeightPruner:
    """Weights that matter little for the loss go: those of a small product with their gradient."""

    def __init__(self, model, kinds, sparsity):
        modules = [(name, module) for name, module in model.named_modules() if isinstance(module, kinds)]
        self.wrappers = {name: Wrapper(name, module) for name, module in modules}
        self.metrics = {}
        self.allocator = NormalSparsityAllocator(self.wrappers, sparsity)

    def collect(self):
        for name, wrapper in self.wrappers.items():
            weight = wrapper.module.weight
            importance = (weight * weight.grad).detach().square()
            self.metrics[name] = self.metrics.get(name, 0) + importance

    def compress(self):
        for name, mask in self.allocator.generate_sparsity(self.metrics).items():
            self.wrappers[name].weight_mask = mask
            self.wrappers[name].module.weight.data.mul_(mask)

    def masked_weights(self):
        return {name: w.module.weight.detach() * w.weight_mask for name, w in self.wrappers.items()}

# === speaker_number
# thread: https://github.com/huggingface/transformers/issues/26055
# operation: embedding|index_select on cuda:0, cpu
# operands: speaker|input|indices|index, embed_speaker|weight
# category: created-without-device
# line: speaker = torch.full(
# repair: speaker = torch.full((len(input_ids),), speaker_id) -> speaker = torch.full((len(input_ids),), speaker_id, device=input_ids.device)
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class VitsConfig:
    vocab_size: int = 40
    hidden_size: int = 8
    num_speakers: int = 6
    speaker_embedding_size: int = 4
    upsample_rate: int = 4


class VitsModel(nn.Module):
    def __init__(self, config: VitsConfig):
        super().__init__()
        self.config = config
        self.text_encoder = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_speaker = nn.Embedding(config.num_speakers, config.speaker_embedding_size)
        self.cond = nn.Conv1d(config.speaker_embedding_size, config.hidden_size, 1)
        self.decoder = nn.ConvTranspose1d(config.hidden_size, 1, config.upsample_rate, stride=config.upsample_rate)

    def forward(self, input_ids, attention_mask=None, speaker_id=None):
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)

        hidden_states = (self.text_encoder(input_ids) * attention_mask.unsqueeze(-1)).transpose(1, 2)
        if self.config.num_speakers > 1 and speaker_id is not None:
            if not 0 <= speaker_id < self.config.num_speakers:
                raise ValueError(f"Set `speaker_id` in the range 0-{self.config.num_speakers - 1}.")
            speaker = torch.full((len(input_ids),), speaker_id)
            hidden_states = hidden_states + self.cond(self.embed_speaker(speaker).unsqueeze(-1))
        return torch.tanh(self.decoder(hidden_states)).squeeze(1)


torch.manual_seed(555)
model = VitsModel(VitsConfig()).to("cuda").eval()
inputs = {"input_ids": torch.tensor([[0, 17, 0, 25, 0, 3, 0]]), "attention_mask": torch.ones(1, 7, dtype=torch.long)}
inputs = {name: value.to("cuda") for name, value in inputs.items()}
inputs["speaker_id"] = 3
with torch.no_grad():
    waveform = model(**inputs)[0]
print("waveform of", len(waveform), "samples, energy", round(waveform.square().sum().item(), 4))
