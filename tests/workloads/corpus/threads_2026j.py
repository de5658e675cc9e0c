# === reference_before_prepare
# thread: https://github.com/huggingface/trl/pull/6403
# about: the trainer scores all pairs while it is put together; its loader is prepared and gives batches of the GPU, the model is prepared only to train
# operation: embedding|index_select on cpu, cuda:0
# operands: .*weight.*|wte.*, .*input_ids.*|input|.*
# category: module-split|input-not-moved
# line: trainer.py: margins = self.score(self.model, batch)
# line: trainer.py: self.model = model
# line: trainer.py: self.pairs = self.with_reference(pairs)
# line: trainer.py: self.model.eval()
# line: main.py: model = GPT2LMHeadModel(
# line: main.py: trainer = PreferenceTrainer(
# repair: trainer.py: self.model.eval() -> self.model.to(self.accelerator.device).eval()
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from trainer import PreferenceTrainer

torch.manual_seed(0)
config = GPT2Config(
    vocab_size=24, n_positions=12, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
)
model = GPT2LMHeadModel(config)
pairs = [{"chosen": [1, 5, 9, 2 + i], "rejected": [1, 5, 9, 20 - i]} for i in range(4)]
trainer = PreferenceTrainer(model, pairs, batch_size=2, precompute_ref_log_probs=True)
print("losses", [round(loss, 4) for loss in trainer.train(learning_rate=0.01)])
# --- collate.py
import torch

def collate(pairs):
    batch = {"input_ids": torch.tensor([pair["chosen"] for pair in pairs] + [pair["rejected"] for pair in pairs])}
    if "reference" in pairs[0]:
        batch["reference"] = torch.tensor([pair["reference"] for pair in pairs])
    return batch
# --- trainer.py
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from collate import collate

class PreferenceTrainer:
    def __init__(self, model, pairs, batch_size, precompute_ref_log_probs, beta=0.5):
        self.accelerator = Accelerator()
        self.model = model
        self.batch_size, self.beta = batch_size, beta
        self.pairs = pairs
        if precompute_ref_log_probs:
            self.pairs = self.with_reference(pairs)

    def loader(self, pairs):
        return self.accelerator.prepare(DataLoader(pairs, batch_size=self.batch_size, collate_fn=collate))

    def score(self, model, batch):
        """How much likelier what was chosen is than what was rejected, for each pair."""
        tokens = batch["input_ids"]
        logits = model(input_ids=tokens).logits[:, :-1]
        logps = logits.log_softmax(-1).gather(-1, tokens[:, 1:, None]).squeeze(-1).sum(-1)
        chosen, rejected = logps.chunk(2)
        return chosen - rejected

    @torch.no_grad()
    def with_reference(self, pairs):
        references = []
        self.model.eval()
        for batch in self.loader(pairs):
            margins = self.score(self.model, batch)
            references += margins.tolist()
        return [{**pair, "reference": reference} for pair, reference in zip(pairs, references)]

    def train(self, learning_rate):
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=learning_rate)
        model, optimizer = self.accelerator.prepare(self.model, optimizer)
        losses = []
        for batch in self.loader(self.pairs):
            margins = self.score(model, batch) - batch["reference"]
            loss = -torch.nn.functional.logsigmoid(self.beta * margins).mean()
            self.accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

# === yarn_ramp_mask
# thread: https://github.com/ROCm/aiter/pull/2489
# about: frequencies are counted out on the GPU by two kinds of embeddings; the helper that says how to mix them is a function of numbers alone
# operation: mul on cuda:1, cpu
# operands: inv_freq_interpolation|self|input|.*, .*mask.*|other|.*
# category: created-without-device
# line: scaling.py: ramp = torch.arange(
# line: scaling.py: def linear_ramp_mask(
# line: rotary.py: inv_freq_mask = 1 - linear_ramp_mask(
# repair: rotary.py: inv_freq_mask = 1 - linear_ramp_mask(low, high, self.rotary_dim // 2) -> inv_freq_mask = 1 - linear_ramp_mask(low, high, self.rotary_dim // 2).to(pos_freqs.device)
import torch

from attention import Attention

torch.manual_seed(0)
device = torch.device("cuda", 1)
attention = Attention(width=16, heads=2, scaling={"factor": 4.0, "original": 8, "beta_fast": 4, "beta_slow": 1}, device=device)
x, positions = torch.randn(3, 16, device=device), torch.tensor([0, 7, 19], device=device)
with torch.no_grad():
    out = attention(positions, x)
print("out", [round(value, 4) for value in out.mean(1).tolist()])
# --- scaling.py
import math

import torch

def find_correction_dim(rotations, dim, base, length):
    return dim * math.log(length / (rotations * 2 * math.pi)) / (2 * math.log(base))

def find_correction_range(fast, slow, dim, base, length):
    low = math.floor(find_correction_dim(fast, dim, base, length))
    high = math.ceil(find_correction_dim(slow, dim, base, length))
    return max(low, 0), min(high, dim - 1)

def linear_ramp_mask(low, high, dim, dtype=torch.float32):
    if low == high:
        high += 0.001
    ramp = torch.arange(dim, dtype=dtype)
    return ((ramp - low) / (high - low)).clamp(0, 1)
# --- rotary.py
import torch
from torch import nn

from scaling import find_correction_range, linear_ramp_mask

class RotaryEmbedding(nn.Module):
    def __init__(self, rotary_dim, length, base, device):
        super().__init__()
        self.rotary_dim, self.length, self.base, self.device = rotary_dim, length, base, device
        self.register_buffer("cos_sin_cache", self.compute_cache(), persistent=False)

    def compute_inv_freq(self):
        return 1.0 / self.base ** (torch.arange(0, self.rotary_dim, 2, device=self.device).float() / self.rotary_dim)

    def compute_cache(self):
        freqs = torch.outer(torch.arange(self.length, device=self.device).float(), self.compute_inv_freq())
        return torch.cat([freqs.cos(), freqs.sin()], dim=-1)

    def forward(self, positions, x):
        cos, sin = self.cos_sin_cache[positions][:, None].chunk(2, dim=-1)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

class YaRNScalingRotaryEmbedding(RotaryEmbedding):
    def __init__(self, rotary_dim, base, factor, original, beta_fast, beta_slow, device):
        self.__dict__.update(factor=factor, original=original, betas=(beta_fast, beta_slow))
        super().__init__(rotary_dim, int(original * factor), base, device)

    def compute_inv_freq(self):
        pos_freqs = self.base ** (torch.arange(0, self.rotary_dim, 2, device=self.device).float() / self.rotary_dim)
        inv_freq_extrapolation, inv_freq_interpolation = 1.0 / pos_freqs, 1.0 / (self.factor * pos_freqs)
        low, high = find_correction_range(*self.betas, self.rotary_dim, self.base, self.original)
        inv_freq_mask = 1 - linear_ramp_mask(low, high, self.rotary_dim // 2)
        return inv_freq_interpolation * (1 - inv_freq_mask) + inv_freq_extrapolation * inv_freq_mask
# --- attention.py
import torch
from torch import nn

from rotary import RotaryEmbedding, YaRNScalingRotaryEmbedding

class Attention(nn.Module):
    def __init__(self, width, heads, scaling, device):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width, device=device), nn.Linear(width, width, device=device)
        if scaling is None:
            self.rotary = RotaryEmbedding(width // heads, 64, 100.0, device)
        else:
            self.rotary = YaRNScalingRotaryEmbedding(width // heads, 100.0, **scaling, device=device)

    def forward(self, positions, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)) for part in self.qkv(x).chunk(3, dim=-1))
        q, k = self.rotary(positions, q), self.rotary(positions, k)
        mixed = nn.functional.scaled_dot_product_attention(*(part.transpose(0, 1) for part in (q, k, v)), is_causal=True)
        return self.out(mixed.transpose(0, 1).flatten(1))

# === occlusion_padding
# thread: https://github.com/meta-pytorch/captum/issues/1879
# about: the windows that hide a part of the image are built one by one, which is right; those of several steps at once are put together from another start
# operation: cat|concat on cpu, cuda:0
# operands: .*
# category: created-without-device
# line: occlusion.py: blank = torch.zeros(
# line: occlusion.py: masks = torch.cat(
# repair: occlusion.py: blank = torch.zeros((1,) + tuple(inputs.shape[1:])) -> blank = torch.zeros((1,) + tuple(inputs.shape[1:]), device=inputs.device)
import torch
from torch import nn

from occlusion import Occlusion

torch.manual_seed(0)
device = "cuda:0"
net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)).to(device).eval()
image = torch.rand(1, 1, 6, 6, device=device)
attribution = Occlusion(net).attribute(image, window=(1, 3, 3), strides=(1, 2, 2), target=1, per_eval=3)
print("attribution", [round(value, 4) for value in attribution[0, 0].diagonal().tolist()])
# --- perturbation.py
import torch

class PerturbationAttribution:
    """Attributes by how much an output falls when parts of the input are hidden."""

    def __init__(self, forward_func):
        self.forward_func = forward_func

    def steps(self, inputs, count, per_eval, **kwargs):
        for start in range(0, count, per_eval):
            stop = min(start + per_eval, count)
            mask = self.construct_mask(inputs, start, stop, **kwargs)
            expanded = inputs.expand(stop - start, *inputs.shape[1:])
            yield expanded * (1 - mask), mask

    @torch.no_grad()
    def weighted(self, inputs, target, count, per_eval, **kwargs):
        base = self.forward_func(inputs)[:, target]
        total, weights = torch.zeros_like(inputs), torch.zeros_like(inputs)
        for hidden, mask in self.steps(inputs, count, per_eval, **kwargs):
            drop = base - self.forward_func(hidden)[:, target]
            total += (drop.view(-1, *[1] * (inputs.dim() - 1)) * mask).sum(0, keepdim=True)
            weights += mask.sum(0, keepdim=True)
        return total / weights.clamp_min(1)
# --- occlusion.py
import torch

from perturbation import PerturbationAttribution

class Occlusion(PerturbationAttribution):
    def attribute(self, inputs, window, strides, target, per_eval=1):
        shifts = [-(-(size - length) // stride) + 1 for size, length, stride in zip(inputs.shape[1:], window, strides)]
        count = torch.Size(shifts).numel()
        tensor = torch.ones(window, device=inputs.device)
        return self.weighted(inputs, target, count, per_eval, window=tensor, strides=strides, shifts=shifts)

    def construct_mask(self, inputs, start, stop, window, strides, shifts):
        if stop - start == 1:
            return self.occlude(inputs, start, window, strides, shifts)
        blank = torch.zeros((1,) + tuple(inputs.shape[1:]))
        masks = torch.cat([blank] + [self.occlude(inputs, index, window, strides, shifts) for index in range(start, stop)])
        return masks[1:]

    def occlude(self, inputs, index, window, strides, shifts):
        padding, remaining = [], index
        for size, length, stride, shift in zip(inputs.shape[1:], window.shape, strides, shifts):
            place = min(remaining % shift * stride, size - length)
            padding, remaining = [place, size - length - place] + padding, remaining // shift
        return torch.nn.functional.pad(window, padding)[None]

# === joint_torque_buffers
# thread: https://github.com/unitreerobotics/unitree_sim_isaaclab/pull/123
# about: buffers to gather into are made once, on the device that the environment is told; terms are first asked for before the robot's data is there
# operation: gather on cpu, cuda:0
# operands: .*
# category: input-not-moved|cached-state|created-without-device
# line: observations.py: buffers = _buffers_of(env.device
# line: observations.py: torch.gather(robot.data.torque, 1, index, out=torque)
# line: observations.py: robot = env.scene
# line: scene.py: self.data = JointData(
# line: environment.py: self.observations = ObservationManager(
# line: environment.py: self.scene["robot"].to(self.device)
# repair: observations.py: buffers = _buffers_of(env.device, len(robot.data.position)) -> buffers = _buffers_of(robot.data.position.device, len(robot.data.position))
import torch

from environment import Environment
from observations import joint_state

torch.manual_seed(0)
env = Environment(num_envs=2, joints=5, device="cuda:0", terms={"joints": joint_state})
for _ in range(3):
    observation = env.step(torch.ones(2, 5, device="cuda:0") * 0.1)
print("size", env.observations.sizes, "joints", [round(value, 3) for value in observation["joints"].flatten().tolist()])
# --- scene.py
from dataclasses import dataclass, fields

import torch

@dataclass
class JointData:
    position: torch.Tensor
    velocity: torch.Tensor
    torque: torch.Tensor

class Articulation:
    def __init__(self, num_envs, joints):
        self.data = JointData(torch.rand(num_envs, joints), torch.zeros(num_envs, joints), torch.zeros(num_envs, joints))

    def to(self, device):
        for field in fields(self.data):
            setattr(self.data, field.name, getattr(self.data, field.name).to(device))
# --- observations.py
import torch

JOINTS = [3, 0, 4]
_cache = {}

def _buffers_of(device, batch):
    key = (str(device), batch)
    if key not in _cache:
        index = torch.tensor(JOINTS, device=device).expand(batch, -1)
        _cache[key] = (index, *(torch.empty(batch, len(JOINTS), device=device) for _ in range(3)))
    return _cache[key]

def joint_state(env):
    robot = env.scene["robot"]
    buffers = _buffers_of(env.device, len(robot.data.position))
    index, position, velocity, torque = buffers
    torch.gather(robot.data.torque, 1, index, out=torque)
    torch.gather(robot.data.position, 1, index, out=position)
    torch.gather(robot.data.velocity, 1, index, out=velocity)
    return torch.cat([position, velocity, torque], dim=-1)

class ObservationManager:
    def __init__(self, env, terms):
        self.env, self.terms = env, terms
        self.sizes = {name: tuple(term(env).shape) for name, term in terms.items()}

    def compute(self):
        return {name: term(self.env) for name, term in self.terms.items()}
# --- environment.py
import torch

from observations import ObservationManager
from scene import Articulation

class Environment:
    def __init__(self, num_envs, joints, device, terms, dt=0.1):
        self.device, self.dt = torch.device(device), dt
        self.scene = {"robot": Articulation(num_envs, joints)}
        self.observations = ObservationManager(self, terms)
        self.playing = False

    def play(self):
        self.scene["robot"].to(self.device)
        self.playing = True

    def step(self, targets):
        if not self.playing:
            self.play()
        data = self.scene["robot"].data
        data.torque = 4.0 * (targets - data.position) - 0.5 * data.velocity
        data.velocity = data.velocity + self.dt * data.torque
        data.position = data.position + self.dt * data.velocity
        return self.observations.compute()

# === augmented_on_cpu
# thread: https://github.com/torchgeo/terratorch/issues/362
# about: the batch was moved, then a hook of the data module has it augmented; of several keys the augmentation takes what it computes off the GPU
# operation: .*conv.* on cpu, cuda:0
# operands: x|image|input|.*, .*weight.*|.*
# category: input-not-moved
# error: should be the same
# line: augment.py: outputs[key] = outputs[key].detach().cpu()
# line: augment.py: return outputs
# line: data.py: batch = self.augment(batch)
# line: task.py: logits = self.net(
# repair: augment.py: outputs[key] = outputs[key].detach().cpu() -> outputs[key] = outputs[key].detach()
import lightning as L

from data import Fields
from task import Segmentation

L.seed_everything(0)
task = Segmentation(classes=3)
trainer = L.Trainer(
    accelerator="gpu", devices=1, max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(task, datamodule=Fields(count=4, batch_size=2))
print("losses", [round(loss, 4) for loss in task.losses])
# --- augment.py
import torch

class Flip:
    def __call__(self, image):
        return image.flip(-1)

class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, image):
        return (image - self.mean) / self.std if image.is_floating_point() else image

class AugmentationSequential:
    """Does the same to the image and to all that lies on it."""

    def __init__(self, *transforms, data_keys):
        self.transforms, self.data_keys = transforms, data_keys

    def __call__(self, batch):
        outputs = {**batch}
        for transform in self.transforms:
            for key in self.data_keys:
                outputs[key] = transform(outputs[key])
        if len(self.data_keys) > 1:
            for key in self.data_keys:
                if torch.is_floating_point(outputs[key]):
                    outputs[key] = outputs[key].detach().cpu()
        return outputs
# --- data.py
import lightning as L
import torch
from torch.utils.data import DataLoader

from augment import AugmentationSequential, Flip, Normalize

class Fields(L.LightningDataModule):
    def __init__(self, count, batch_size):
        super().__init__()
        self.count, self.batch_size = count, batch_size
        self.augment = AugmentationSequential(Normalize(0.5, 0.25), Flip(), data_keys=["image", "mask"])

    def setup(self, stage):
        generator = torch.Generator().manual_seed(1)
        images = torch.rand(self.count, 3, 8, 8, generator=generator)
        self.samples = [{"image": image, "mask": (image.mean(0) * 3).long()} for image in images]

    def train_dataloader(self):
        return DataLoader(self.samples, batch_size=self.batch_size)

    def on_after_batch_transfer(self, batch, dataloader_idx):
        if self.trainer.training:
            batch = self.augment(batch)
        return batch
# --- task.py
import lightning as L
import torch
from torch import nn

class Segmentation(L.LightningModule):
    def __init__(self, classes):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, classes, 1))
        self.losses = []

    def training_step(self, batch, batch_idx):
        logits = self.net(batch["image"])
        loss = nn.functional.cross_entropy(logits, batch["mask"])
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

# === token_delta_tied
# thread: https://github.com/huggingface/peft/issues/3043
# about: rows of an embedding are trained beside it; the head is tied to it, and takes the rows with it, but runs on the last of the GPUs
# operation: linear|mm|matmul|bmm|addmm on cuda:1, cuda:0
# operands: hidden.*|x|input|self|.*, .*
# category: tied-weights|module-split
# line: trainable.py: weight = self.tied.merged_weight()
# line: trainable.py: return nn.functional.linear(x, weight)
# line: trainable.py: return self.base_layer.weight.index_copy(
# line: main.py: device_map = {
# line: main.py: add_trainable_tokens(
# repair: trainable.py: weight = self.tied.merged_weight() -> weight = self.tied.merged_weight().to(x.device)
import torch
from accelerate import dispatch_model
from transformers import LlamaConfig, LlamaForCausalLM

from trainable import add_trainable_tokens, trainable_parameters

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=20, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=True,
    bos_token_id=1, eos_token_id=2, pad_token_id=0,
)
model = LlamaForCausalLM(config)
model.requires_grad_(False)
device_map = {"model.embed_tokens": 0, "model.layers.0": 0, "model.rotary_emb": 0, "model.layers.1": 1, "model.norm": 1, "lm_head": 1}
add_trainable_tokens(model, [17, 18])
model = dispatch_model(model, device_map)
optimizer = torch.optim.AdamW(trainable_parameters(model), lr=0.05)
tokens = torch.tensor([[1, 17, 5, 18, 9], [1, 4, 17, 6, 18]], device="cuda:0")
for _ in range(3):
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("loss", round(loss.item(), 4))
# --- trainable.py
import torch
from torch import nn

class TrainableTokens(nn.Module):
    """An embedding some of whose rows are learned; all others stay as they are."""

    def __init__(self, base_layer, token_indices):
        super().__init__()
        self.base_layer = base_layer
        self.register_buffer("token_indices", torch.tensor(token_indices), persistent=False)
        self.delta = nn.Parameter(base_layer.weight.detach()[token_indices].clone())

    @property
    def weight(self):
        return self.base_layer.weight

    def merged_weight(self):
        return self.base_layer.weight.index_copy(0, self.token_indices, self.delta)

    def forward(self, tokens):
        return nn.functional.embedding(tokens, self.merged_weight())

class TiedTrainableTokens(nn.Module):
    """What the head does with the rows of the embedding that it is tied to."""

    def __init__(self, tied):
        super().__init__()
        self.__dict__["tied"] = tied

    @property
    def weight(self):
        return self.tied.weight

    def forward(self, x):
        weight = self.tied.merged_weight()
        return nn.functional.linear(x, weight)

def add_trainable_tokens(model, token_indices):
    embedding = TrainableTokens(model.get_input_embeddings(), token_indices)
    if model.config.tie_word_embeddings:
        model.set_output_embeddings(TiedTrainableTokens(embedding))
    model.set_input_embeddings(embedding)

def trainable_parameters(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]

# === trainer_state_file
# thread: https://github.com/decoderesearch/SAELens/pull/731
# about: a run goes on with another GPU; the model's file is read to where it runs, the trainer's own file to where it was written
# operation: add_?|iadd on cuda:0, cuda:1
# operands: .*act_freq_scores.*|.*, .*
# category: checkpoint|cached-state
# line: trainer.py: state = torch.load(folder / "trainer_state.pt")
# line: trainer.py: self.act_freq_scores = state["act_freq_scores"]
# line: trainer.py: self.act_freq_scores += fired.float().sum(0)
# repair: trainer.py: state = torch.load(folder / "trainer_state.pt") -> state = torch.load(folder / "trainer_state.pt", map_location=self.device)
import tempfile
from pathlib import Path

import torch

from autoencoder import SparseAutoencoder
from trainer import SAETrainer

def activations(count):
    generator = torch.Generator().manual_seed(count)
    return [torch.randn(16, 8, generator=generator) for _ in range(count)]

torch.manual_seed(0)
folder = Path(tempfile.mkdtemp())
first = SAETrainer(SparseAutoencoder(8, 12), device="cuda:0")
first.fit(activations(3))
first.save(folder)
second = SAETrainer(SparseAutoencoder(8, 12), device="cuda:1")
second.load(folder)
losses = second.fit(activations(2))
print("losses", [round(loss, 4) for loss in losses], "dead", int((second.act_freq_scores == 0).sum()), "steps", second.steps)
# --- autoencoder.py
import torch
from torch import nn

class SparseAutoencoder(nn.Module):
    def __init__(self, width, features):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(width, features), nn.Linear(features, width)

    def forward(self, x):
        features = torch.relu(self.encoder(x))
        return self.decoder(features), features
# --- trainer.py
import torch

class SAETrainer:
    def __init__(self, sae, device, l1=0.01):
        self.device, self.l1, self.steps = torch.device(device), l1, 0
        self.sae = sae.to(self.device)
        self.optimizer = torch.optim.Adam(self.sae.parameters(), lr=0.01)
        features = self.sae.encoder.out_features
        self.act_freq_scores = torch.zeros(features, device=self.device)
        self.since_fired = torch.zeros(features, dtype=torch.long, device=self.device)

    def save(self, folder):
        torch.save(self.sae.state_dict(), folder / "weights.pt")
        state = {"optimizer": self.optimizer.state_dict(), "steps": self.steps}
        torch.save({**state, "act_freq_scores": self.act_freq_scores, "since_fired": self.since_fired}, folder / "trainer_state.pt")

    def load(self, folder):
        self.sae.load_state_dict(torch.load(folder / "weights.pt", map_location=self.device))
        state = torch.load(folder / "trainer_state.pt")
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps = state["steps"]
        self.act_freq_scores = state["act_freq_scores"]
        self.since_fired = state["since_fired"]

    def train_step(self, x):
        out, features = self.sae(x)
        with torch.no_grad():
            fired = features > 0
            self.act_freq_scores += fired.float().sum(0)
            self.since_fired = torch.where(fired.any(0), 0, self.since_fired + 1)
        loss = (out - x).square().mean() + self.l1 * features.sum(-1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        return loss.item()

    def fit(self, batches):
        return [self.train_step(batch.to(self.device)) for batch in batches]

# === calibration_mask
# thread: https://github.com/vllm-project/llm-compressor/pull/1572
# about: layers are offloaded and take their inputs to the GPU themselves; in between, the model adds what one gave to what it was given
# operation: add on cuda:0, cpu
# operands: scores|attn_weights|self|.*, .*mask.*|other|.*
# category: input-not-moved
# line: pipeline.py: batch = {key: value.to(device) for key, value in batch.items()}
# line: pipeline.py: device = next(model.parameters()).device
# line: model.py: attn_weights = attn_weights + attention_mask
# line: model.py: attention_mask = causal_mask(
# line: main.py: run(model,
# repair: pipeline.py: device = next(model.parameters()).device -> device = model.score._hf_hook.execution_device
import torch
from accelerate import cpu_offload

from model import LatentAttention
from pipeline import Observer, run

torch.manual_seed(0)
model = LatentAttention(tokens=17, width=12, latent=6).eval()
cpu_offload(model, execution_device=torch.device("cuda:0"), offload_buffers=True)
samples = [torch.randint(0, 17, (2, 5)) for _ in range(3)]
loader = [{"input_ids": tokens, "padding": torch.ones_like(tokens).index_fill(1, torch.tensor([4]), 0)} for tokens in samples]
observer = Observer(model, names=["key", "value"])
run(model, loader)
print("ranges", {name: [round(value, 3) for value in bounds] for name, bounds in observer.ranges.items()})
# --- pipeline.py
import torch

class Observer:
    """Lowest and highest value of what goes into each of some layers."""

    def __init__(self, model, names):
        self.ranges = {}
        for name in names:
            model.get_submodule(name).register_forward_pre_hook(self.hook(name))

    def hook(self, name):
        def observe(module, inputs):
            low, high = self.ranges.get(name, (float("inf"), -float("inf")))
            self.ranges[name] = (min(low, inputs[0].min().item()), max(high, inputs[0].max().item()))
        return observe

def onload_device(model):
    """Where a batch has to be for the model, which is in one place."""
    device = next(model.parameters()).device
    return torch.device("cpu") if device.type == "meta" else device

@torch.no_grad()
def run(model, loader):
    device = onload_device(model)
    for batch in loader:
        batch = {key: value.to(device) for key, value in batch.items()}
        model(**batch)
# --- model.py
import torch
from torch import nn

def causal_mask(padding):
    size = padding.shape[1]
    seen = torch.ones(size, size, dtype=torch.bool, device=padding.device).tril() & padding[:, None].bool()
    return torch.where(seen, 0.0, -1e4)

class Score(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(width**-0.5))

    def forward(self, q, k):
        return q @ k.mT * self.scale

class LatentAttention(nn.Module):
    def __init__(self, tokens, width, latent):
        super().__init__()
        self.embed, self.down = nn.Embedding(tokens, width), nn.Linear(width, latent)
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(latent, width), nn.Linear(latent, width)
        self.score, self.head = Score(width), nn.Linear(width, tokens)

    def forward(self, input_ids, padding):
        attention_mask = causal_mask(padding)
        x = self.embed(input_ids)
        latent = self.down(x)
        attn_weights = self.score(self.query(x), self.key(latent))
        attn_weights = attn_weights + attention_mask
        return self.head(x + attn_weights.softmax(-1) @ self.value(latent))

# === score_bias_stages
# thread: https://github.com/meta-pytorch/attention-gym/issues/135
# about: the function that changes a score reads a table that it closes over; it was made where the first layers are, and the last ones use it too
# operation: index on cuda:0, cuda:1
# operands: .*
# category: module-split|input-not-moved|cached-state
# line: flex.py: return score - bias[head
# line: model.py: x = layer(x, self.score_mod)
# line: model.py: self.score_mod = alibi(
# repair: model.py: x = layer(x, self.score_mod) -> x = layer(x, alibi(self.heads, x.shape[1], x.device))
import torch

from model import Decoder

torch.manual_seed(0)
model = Decoder(tokens=13, width=12, heads=3, layers=4, devices=["cuda:0", "cuda:1"]).eval()
tokens = torch.tensor([[1, 5, 9, 2, 7], [3, 3, 8, 0, 11]])
with torch.no_grad():
    logits = model(tokens)
print("next", logits[:, -1].argmax(-1).tolist(), round(logits.abs().mean().item(), 4))
# --- flex.py
import torch

def alibi(heads, length, device):
    slopes = 2.0 ** -torch.arange(1, heads + 1, device=device)
    distance = torch.arange(length, device=device)
    bias = slopes[:, None] * distance

    def score_mod(score, head, q_index, k_index):
        return score - bias[head, (q_index - k_index).clamp_min(0)]

    return score_mod

def attention(q, k, v, score_mod):
    """Attention whose scores a function of the head's number and of both places may change."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    size = q.shape[-2]
    places = torch.arange(size, device=q.device)
    heads = torch.arange(q.shape[1], device=q.device)
    scores = score_mod(scores, heads[:, None, None], places[:, None], places[None])
    scores = scores.masked_fill(places[:, None] < places, float("-inf"))
    return scores.softmax(-1) @ v
# --- model.py
import torch
from torch import nn

from flex import alibi, attention

class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, score_mod):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, dim=-1))
        return x + self.out(attention(q, k, v, score_mod).transpose(1, 2).flatten(2))

class Decoder(nn.Module):
    def __init__(self, tokens, width, heads, layers, devices, length=32):
        super().__init__()
        self.heads = heads
        self.devices = [devices[i * len(devices) // layers] for i in range(layers)]
        self.embed = nn.Embedding(tokens, width).to(devices[0])
        self.layers = nn.ModuleList(Layer(width, heads).to(device) for device in self.devices)
        self.head = nn.Linear(width, tokens).to(devices[-1])
        self.score_mod = alibi(heads, length, devices[0])

    def forward(self, tokens):
        x = self.embed(tokens.to(self.embed.weight.device))
        for device, layer in zip(self.devices, self.layers):
            x = x.to(device)
            x = layer(x, self.score_mod)
        return self.head(x)
