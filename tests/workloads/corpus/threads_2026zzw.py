# === a_meeting_is_scored_as_it_is_heard
# thread: https://github.com/pyannote/pyannote-audio/pull/961
# about: a network hears who speaks when in pieces of a meeting. After training, the error rate of other pieces is summed up over batches
# operation: (gt|greater|__gt__) on cuda:0, cpu
# operands: other|threshold|.*threshold.*
# category: created-without-device
# line: diarization/metrics.py: threshold = torch.tensor([threshold], dtype=preds.dtype)
# line: diarization/metrics.py: hypothesis = (permutated_preds.unsqueeze(-1) > threshold).float()
# repair: diarization/metrics.py: threshold = torch.tensor([threshold], dtype=preds.dtype) -> threshold = torch.tensor([threshold],
#   dtype=preds.dtype, device=preds.device)
import torch

from diarization.model import PyanNet
from diarization.task import Segmentation

if __name__ == "__main__":
    torch.manual_seed(961)
    task = Segmentation(PyanNet(num_speakers=2), device=torch.device("cuda"), learning_rate=0.02)
    loss = task.fit(num_chunks=24, max_epochs=6)
    rate = task.validate(num_chunks=12)
    print(f"loss {loss:.4f} diarization error rate {rate:.4f}")
# --- diarization/metrics.py
import itertools
from typing import Union

import torch


def permutate(preds: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Speakers of a chunk have no order of their own: the one nearest to the target is taken."""
    orders = list(itertools.permutations(range(preds.shape[-1])))
    candidates = torch.stack([preds[..., list(order)] for order in orders])
    costs = (candidates - target).square().mean(dim=(-2, -1))
    best = costs.argmin(dim=0)
    return torch.stack([candidates[index, chunk] for chunk, index in enumerate(best.tolist())])


def der_update(preds: torch.Tensor, target: torch.Tensor, threshold: Union[float, torch.Tensor] = 0.5):
    """False alarm, missed detection, confusion and speech, one of each for every threshold."""
    if preds.shape != target.shape:
        raise ValueError(f"shapes differ: {tuple(preds.shape)}, {tuple(target.shape)}")
    if isinstance(threshold, float):
        threshold = torch.tensor([threshold], dtype=preds.dtype)

    permutated_preds = permutate(preds, target)
    hypothesis = (permutated_preds.unsqueeze(-1) > threshold).float()
    target = target.unsqueeze(-1)

    detection_error = hypothesis.sum(dim=2) - target.sum(dim=2)
    false_alarm = detection_error.clamp_min(0.0)
    missed_detection = (-detection_error).clamp_min(0.0)
    speaker_confusion = ((hypothesis != target) * hypothesis).sum(dim=2) - false_alarm
    errors = [each.sum(dim=(0, 1)) for each in (false_alarm, missed_detection, speaker_confusion)]
    return (*errors, target.sum())


def der_compute(false_alarm, missed_detection, speaker_confusion, speech_total):
    return (false_alarm + missed_detection + speaker_confusion) / (speech_total + 1e-8)


class DiarizationErrorRate:
    def __init__(self, threshold=0.5):
        self.threshold = threshold
        self.reset()

    def reset(self):
        self.false_alarm = self.missed_detection = self.speaker_confusion = self.speech_total = 0.0

    def update(self, preds, target):
        false_alarm, missed_detection, speaker_confusion, speech_total = der_update(preds, target, threshold=self.threshold)
        self.false_alarm += false_alarm
        self.missed_detection += missed_detection
        self.speaker_confusion += speaker_confusion
        self.speech_total += speech_total

    def compute(self):
        return der_compute(self.false_alarm, self.missed_detection, self.speaker_confusion, self.speech_total)
# --- diarization/model.py
import torch
from torch import nn


class PyanNet(nn.Module):
    def __init__(self, num_speakers, num_channels=12):
        super().__init__()
        self.sincnet = nn.Sequential(nn.Conv1d(1, num_channels, 16, stride=8), nn.LeakyReLU())
        self.context = nn.Conv1d(num_channels, num_channels, 5, padding=2)
        self.classifier = nn.Linear(num_channels, num_speakers)

    def forward(self, waveforms):
        features = self.sincnet(waveforms).abs()
        outputs = nn.functional.leaky_relu(self.context(features)) + features
        return torch.sigmoid(self.classifier(outputs.transpose(1, 2)))
# --- diarization/task.py
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from diarization.metrics import DiarizationErrorRate, permutate


def chunks(number, seed, frames=24):
    """Two voices, high and low, that are silent now and then."""
    rng = np.random.default_rng(seed)
    samples = []
    for _ in range(number):
        activity = rng.random((frames // 4, 2)).repeat(4, axis=0) > 0.4
        time = np.arange(frames * 8 + 8)
        voices = np.stack([np.sin(0.3 * time), np.sin(1.4 * time)], axis=1)
        gates = np.concatenate([activity.repeat(8, axis=0), np.zeros((8, 2))])
        waveform = (voices * gates).sum(axis=1) + 0.05 * rng.normal(size=len(time))
        samples.append((waveform[None].astype(np.float32), activity.astype(np.float32)))
    return samples


class Segmentation:
    def __init__(self, model, device, learning_rate):
        self.device = device
        self.model = model.to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=learning_rate)
        self.metric = DiarizationErrorRate()

    def batches(self, number, seed):
        for X, y in DataLoader(chunks(number, seed), batch_size=6):
            yield X.to(self.device), y.to(self.device)

    def fit(self, num_chunks, max_epochs):
        for _ in range(max_epochs):
            for X, y in self.batches(num_chunks, seed=0):
                loss = nn.functional.binary_cross_entropy(permutate(self.model(X), y), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def validate(self, num_chunks):
        self.metric.reset()
        for X, y in self.batches(num_chunks, seed=1):
            self.metric.update(self.model(X), y)
        return self.metric.compute().item()

# === a_network_that_counts_in_four_bits
# thread: https://github.com/Samsung/TICO/issues/443
# about: observers look at what goes through a network, so that it can be computed in few bits. How much is lost by it, is measured on other data
# operation: (div|mul|add|true_divide) on cuda:0, cpu
# operands: other|self|scale|.*scale.*
# category: state-not-registered|cached-state
# line: wrapq/observers.py: class ObserverBase:
# line: wrapq/observers.py: self._cached_scale = None
# line: wrapq/observers.py: scale, zp = self._cached_scale, self._cached_zp
# repair: wrapq/observers.py: class ObserverBase: -> class ObserverBase(torch.nn.Module):
# repair: wrapq/observers.py: self.name = name -> super().__init__(); self.name = name
# repair: wrapq/observers.py: self.min_val = torch.full((channels,), float("inf")) ->
#   self.register_buffer("min_val", torch.full((channels,), float("inf")))
# repair: wrapq/observers.py: self.max_val = torch.full((channels,), float("-inf")) ->
#   self.register_buffer("max_val", torch.full((channels,), float("-inf")))
# repair: wrapq/observers.py: self._cached_scale = None -> self.register_buffer("_cached_scale", None)
# repair: wrapq/observers.py: self._cached_zp = None -> self.register_buffer("_cached_zp", None)
import torch

from ptq import convert, evaluate, prepare
from wrapq.mlp import MLP


def blobs(number, classes, seed=0, features=6):
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(number) % classes
    centers = torch.eye(classes, features) * 3
    return centers[targets] + 0.7 * torch.randn(number, features, generator=generator), targets


if __name__ == "__main__":
    torch.manual_seed(443)
    model = MLP(in_features=6, hidden=16, classes=3)
    inputs, targets = blobs(120, classes=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(30):
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    prepare(model)
    for batch in inputs.split(40):
        model(batch)
    convert(model)
    agreement, error = evaluate(model, *blobs(60, classes=3, seed=1), device="cuda")
    print(f"right {agreement} error {error:.4f}")
# --- wrapq/observers.py
from enum import Enum, auto

import torch


class Mode(Enum):
    NO_QUANT = auto()
    CALIB = auto()
    QUANT = auto()


class ObserverBase:
    """Sees what goes by, and can afterwards round to a few steps."""

    def __init__(self, name, bits):
        self.name = name
        self.qmin, self.qmax = 0, 2**bits - 1
        self.enabled = True

    def collect(self, x):
        if self.enabled:
            self._update_stats(x.detach().flatten(0, -2))

    def _update_stats(self, x):
        raise NotImplementedError


class AffineObserver(ObserverBase):
    """A step and a zero of its own for every channel of the last dimension."""

    def __init__(self, name, channels, bits=4):
        super().__init__(name, bits)
        self.min_val = torch.full((channels,), float("inf"))
        self.max_val = torch.full((channels,), float("-inf"))
        self._cached_scale = None
        self._cached_zp = None

    def _update_stats(self, x):
        self.min_val = torch.minimum(self.min_val, x.amin(dim=0))
        self.max_val = torch.maximum(self.max_val, x.amax(dim=0))

    def compute_qparams(self):
        low, high = self.min_val.clamp_max(0.0), self.max_val.clamp_min(0.0)
        scale = ((high - low) / (self.qmax - self.qmin)).clamp_min(1e-8)
        zp = (self.qmin - low / scale).round().clamp(self.qmin, self.qmax)
        return scale, zp

    def freeze(self):
        self.enabled = False
        self._cached_scale, self._cached_zp = self.compute_qparams()

    def fake_quant(self, x):
        scale, zp = self._cached_scale, self._cached_zp
        steps = torch.round(x / scale + zp).clamp(self.qmin, self.qmax)
        return (steps - zp) * scale
# --- wrapq/mlp.py
from torch import nn

from wrapq.observers import AffineObserver, Mode


class QuantLinear(nn.Module):
    def __init__(self, in_features, out_features, qcfg_name):
        super().__init__()
        self.mode = Mode.NO_QUANT
        self.module = nn.Linear(in_features, out_features)
        self.act_in_obs = AffineObserver(f"{qcfg_name}.act_in", in_features)
        self.act_out_obs = AffineObserver(f"{qcfg_name}.act_out", out_features, bits=6)

    def _fq(self, x, obs):
        if self.mode is Mode.CALIB:
            obs.collect(x)
        return obs.fake_quant(x) if self.mode is Mode.QUANT else x

    def forward(self, x):
        return self._fq(self.module(self._fq(x, self.act_in_obs)), self.act_out_obs)


class MLP(nn.Module):
    def __init__(self, in_features, hidden, classes):
        super().__init__()
        self.up_proj = QuantLinear(in_features, hidden, "up_proj")
        self.down_proj = QuantLinear(hidden, classes, "down_proj")

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.up_proj(x)))
# --- ptq.py
import torch

from wrapq.mlp import QuantLinear
from wrapq.observers import Mode


def quant_modules(model):
    return [module for module in model.modules() if isinstance(module, QuantLinear)]


def prepare(model):
    model.eval().requires_grad_(False)
    for module in quant_modules(model):
        module.mode = Mode.CALIB


def convert(model):
    for module in quant_modules(model):
        module.act_in_obs.freeze()
        module.act_out_obs.freeze()
        module.mode = Mode.QUANT


@torch.no_grad()
def evaluate(model, inputs, targets, device):
    model.to(device)
    inputs, targets = inputs.to(device), targets.to(device)
    logits = model(inputs)
    for module in quant_modules(model):
        module.mode = Mode.NO_QUANT
    return (logits.argmax(dim=1) == targets).sum().item(), (logits - model(inputs)).abs().mean().item()

# === a_player_with_two_controllers
# thread: https://github.com/nv-tlabs/ASE/issues/67
# about: one policy says what skill to use, another one moves by it for some steps. A player runs many games at once and tells the mean reward of them
# operation: (add_|add|__iadd__|iadd) on cpu, cuda:0
# operands: self|cr
# category: created-without-device
# line: learning/hrl_players.py: cr = torch.zeros(batch_size, dtype=torch.float32)
# line: learning/hrl_players.py: steps = torch.zeros(batch_size, dtype=torch.float32)
# repair: learning/hrl_players.py: cr = torch.zeros(batch_size, dtype=torch.float32) ->
#   cr = torch.zeros(batch_size, dtype=torch.float32, device=self.device)
# repair: learning/hrl_players.py: steps = torch.zeros(batch_size, dtype=torch.float32) ->
#   steps = torch.zeros(batch_size, dtype=torch.float32, device=self.device)
import torch

from env.heading import HumanoidHeading
from learning.hrl_players import HRLPlayer

if __name__ == "__main__":
    torch.manual_seed(67)
    params = {
        "device_name": "cuda:0",
        "games_num": 10,
        "max_steps": 8,
        "llc_steps": 3,
        "latent_dim": 4,
        "units": 16,
    }
    env = HumanoidHeading(num_envs=6, device=params["device_name"])
    reward, steps = HRLPlayer(params, env).run()
    print(f"av reward: {reward:.4f} av steps: {steps:.3f}")
# --- env/heading.py
import torch


class HumanoidHeading:
    """Bodies on a plane, who shall go where they are told to, and fall when they go too fast."""

    num_obs, num_actions = 6, 2

    def __init__(self, num_envs, device):
        self.num_envs, self.device = num_envs, device
        self.position = torch.zeros(num_envs, 2, device=device)
        self.velocity = torch.zeros(num_envs, 2, device=device)
        self.target = torch.randn(num_envs, 2).to(device)
        self.progress = torch.zeros(num_envs, device=device)

    def observe(self):
        return torch.cat([self.position, self.velocity, self.target], dim=-1)

    def reset(self, env_ids=None):
        env_ids = torch.arange(self.num_envs, device=self.device) if env_ids is None else env_ids
        for state in (self.position, self.velocity, self.progress):
            state[env_ids] = 0.0
        return {"obs": self.observe()}

    def step(self, actions):
        self.velocity = 0.8 * self.velocity + 0.3 * actions
        self.position = self.position + self.velocity
        self.progress += 1
        distance = (self.target - self.position).norm(dim=-1)
        rewards = torch.exp(-0.5 * distance)
        fallen = self.velocity.norm(dim=-1) > 0.7
        return {"obs": self.observe()}, rewards, (fallen | (self.progress >= 18)).float(), {"fallen": fallen}
# --- learning/network.py
import torch
from torch import nn


class HLCNetwork(nn.Module):
    def __init__(self, num_obs, latent_dim, units):
        super().__init__()
        self.actor_mlp = nn.Sequential(nn.Linear(num_obs, units), nn.ReLU())
        self.mu = nn.Linear(units, latent_dim)

    def forward(self, obs):
        return nn.functional.normalize(self.mu(self.actor_mlp(obs)), dim=-1)


class LLCNetwork(nn.Module):
    def __init__(self, num_obs, latent_dim, num_actions, units):
        super().__init__()
        self.style_dense = nn.Linear(latent_dim, units)
        self.dense = nn.Linear(num_obs, units)
        self.mu = nn.Linear(units, num_actions)

    def forward(self, obs, latents):
        return torch.tanh(2 * self.mu(torch.tanh(self.dense(obs) + self.style_dense(latents))))
# --- learning/hrl_players.py
import torch

from learning.network import HLCNetwork, LLCNetwork


class HRLPlayer:
    def __init__(self, params, env):
        self.env = env
        self.device = torch.device(params["device_name"])
        self.games_num, self.max_steps = params["games_num"], params["max_steps"]
        self._llc_steps = params["llc_steps"]
        self.model = HLCNetwork(env.num_obs, params["latent_dim"], params["units"]).to(self.device)
        self._llc_agent = LLCNetwork(env.num_obs, params["latent_dim"], env.num_actions, params["units"]).to(self.device)

    def get_action(self, obs_dict):
        return self.model(obs_dict["obs"])

    def env_step(self, env, obs_dict, action):
        rewards, done_count = 0.0, 0.0
        for _ in range(self._llc_steps):
            llc_actions = self._llc_agent(obs_dict["obs"], action)
            obs_dict, curr_rewards, curr_dones, infos = env.step(llc_actions)
            rewards += curr_rewards
            done_count += curr_dones
        rewards /= self._llc_steps
        dones = torch.zeros_like(done_count)
        dones[done_count > 0] = 1.0
        return obs_dict, rewards, dones, infos

    @torch.no_grad()
    def run(self):
        sum_rewards, sum_steps, games_played = 0.0, 0.0, 0
        while games_played < self.games_num:
            obs_dict = self.env.reset()
            batch_size = self.env.num_envs
            cr = torch.zeros(batch_size, dtype=torch.float32)
            steps = torch.zeros(batch_size, dtype=torch.float32)
            for _ in range(self.max_steps):
                action = self.get_action(obs_dict)
                obs_dict, r, done, _ = self.env_step(self.env, obs_dict, action)
                cr += r
                steps += 1
                done_indices = done.nonzero(as_tuple=False).flatten()
                if len(done_indices) == 0:
                    continue
                games_played += len(done_indices)
                sum_rewards += cr[done_indices].sum().item()
                sum_steps += steps[done_indices].sum().item()
                cr = cr * (1.0 - done)
                steps = steps * (1.0 - done)
                obs_dict = self.env.reset(done_indices)
        return sum_rewards / games_played, sum_steps / games_played

# === answers_learned_by_a_model_on_two_cards
# thread: https://github.com/shuxueslpi/chatGLM-6B-QLoRA/issues/38
# about: layers of a language model are spread over two cards and get small matrices that are trained. A trainer lets it learn short answers
# operation: (nll_loss|nll_loss_forward|nll_loss_nd|cross_entropy|cross_entropy_loss) on cuda:1, cuda:0
# operands: target|shift_labels|labels|.*labels.*
# category: module-split
# line: modeling_chatglm.py: shift_labels = labels[..., 1:].contiguous()
# line: modeling_chatglm.py: loss = loss_fct(shift_logits.view(
# line: modeling_chatglm.py: lm_logits = self.output_layer(hidden_states)
# line: device_map.py: device_map["output_layer"] = num_gpus - 1
# line: train_qlora.py: self.device = model.embedding.weight.device
# line: train_qlora.py: batch = {name: tensor.to(self.device) for name, tensor in batch.items()}
# repair: modeling_chatglm.py: shift_labels = labels[..., 1:].contiguous() -> shift_labels = labels[..., 1:].contiguous().to(shift_logits.device)
import torch

from device_map import dispatch_model, infer_device_map
from modeling_chatglm import ChatGLMForConditionalGeneration
from train_qlora import LoRATrainer, get_peft_model

if __name__ == "__main__":
    torch.manual_seed(38)
    model = ChatGLMForConditionalGeneration(vocab=24, width=16, num_layers=4)
    model = dispatch_model(model, infer_device_map(num_layers=4, num_gpus=torch.cuda.device_count()))
    model = get_peft_model(model, rank=4)
    losses = LoRATrainer(model, lr=0.02).train(epochs=4)
    print("train_loss", [f"{loss:.4f}" for loss in losses])
# --- device_map.py
import torch


def infer_device_map(num_layers, num_gpus):
    """Words go in on the first card, each card has as many layers as the others."""
    device_map = {"embedding": 0}
    for i in range(num_layers):
        device_map[f"layers.{i}"] = i * num_gpus // num_layers
    device_map["final_layernorm"] = num_gpus - 1
    device_map["output_layer"] = num_gpus - 1
    return device_map


def send_to(index):
    device = torch.device("cuda", index)

    def pre_forward(module, args):
        return tuple(arg.to(device) if torch.is_tensor(arg) else arg for arg in args)

    return pre_forward


def dispatch_model(model, device_map):
    for name, index in device_map.items():
        module = model.get_submodule(name)
        module.to(torch.device("cuda", index))
        module.register_forward_pre_hook(send_to(index))
    model.hf_device_map = device_map
    return model
# --- modeling_chatglm.py
import torch
from torch import nn


class GLMBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.dense = nn.Linear(width, width)

    def forward(self, hidden_states):
        query, key, value = self.query_key_value(self.input_layernorm(hidden_states)).chunk(3, dim=-1)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        context = scores.masked_fill(later, float("-inf")).softmax(dim=-1) @ value
        return hidden_states + self.dense(context)


class ChatGLMForConditionalGeneration(nn.Module):
    def __init__(self, vocab, width, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(GLMBlock(width) for _ in range(num_layers))
        self.final_layernorm = nn.LayerNorm(width)
        self.output_layer = nn.Linear(width, vocab, bias=False)

    def forward(self, input_ids, labels=None):
        hidden_states = self.embedding(input_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        hidden_states = self.final_layernorm(hidden_states)
        lm_logits = self.output_layer(hidden_states)

        loss = None
        if labels is not None:
            shift_logits = lm_logits[..., :-1, :].contiguous()
            shift_labels = labels[..., 1:].contiguous()
            loss_fct = nn.CrossEntropyLoss(ignore_index=-100)
            loss = loss_fct(shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1))
        return {"loss": loss, "logits": lm_logits}
# --- train_qlora.py
import torch
from torch import nn
from torch.utils.data import DataLoader


class LoraLinear(nn.Module):
    def __init__(self, base_layer, rank):
        super().__init__()
        weight = base_layer.weight
        step = weight.detach().abs().max() / 7
        weight.data = (weight.data / step).round() * step
        self.base_layer = base_layer.requires_grad_(False)
        self.lora_A = nn.Parameter(0.1 * torch.randn(rank, weight.shape[1]).to(weight.device))
        self.lora_B = nn.Parameter(torch.zeros(weight.shape[0], rank, device=weight.device))

    def forward(self, x):
        return self.base_layer(x) + x @ self.lora_A.t() @ self.lora_B.t()


def get_peft_model(model, rank):
    model.requires_grad_(False)
    for layer in model.layers:
        layer.query_key_value = LoraLinear(layer.query_key_value, rank)
        layer.dense = LoraLinear(layer.dense, rank)
    return model


def questions(number=24, length=6):
    """The answer is the question once more, and two higher. Only the answer counts."""
    generator = torch.Generator().manual_seed(6)
    asked = torch.randint(2, 12, (number, length), generator=generator)
    input_ids = torch.cat([asked, torch.ones(number, 1, dtype=torch.long), asked + 2], dim=1)
    labels = input_ids.clone()
    labels[:, :length] = -100
    return [{"input_ids": ids, "labels": label} for ids, label in zip(input_ids, labels)]


class LoRATrainer:
    def __init__(self, model, lr):
        self.model = model
        self.device = model.embedding.weight.device
        self.optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)

    def _prepare_inputs(self, batch):
        batch = {name: tensor.to(self.device) for name, tensor in batch.items()}
        return batch

    def compute_loss(self, batch):
        return self.model(**self._prepare_inputs(batch))["loss"]

    def train(self, epochs):
        losses = []
        for _ in range(epochs):
            for batch in DataLoader(questions(), batch_size=8):
                loss = self.compute_loss(batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            losses.append(loss.item())
        return losses

# === a_dressed_body_on_the_card_that_is_free
# thread: https://github.com/shunsukesaito/SCANimate/issues/8
# about: from points of scans of a body, a network learns how far each point is from the skin, in every pose
# operation: (sub|div|mul|add|cat) on cuda:1, cuda:0
# operands: other|bbox_min|.*bbox.*
# category: default-or-current-device
# line: apps/train_scanimate.py: bbox_min = torch.from_numpy(bbox[0]).float()[None, :, None].cuda()
# line: apps/train_scanimate.py: bbox_max = torch.from_numpy(bbox[1]).float()[None, :, None].cuda()
# line: apps/train_scanimate.py: igr_net.set_bbox(bbox_min, bbox_max)
# line: apps/train_scanimate.py: cuda = torch.device("cuda:%d" % opt.gpu_id)
# line: lib/model/igr_net.py: self.bbox_min, self.bbox_max = bbox_min, bbox_max
# line: lib/model/igr_net.py: points = 2.0 * (points - self.bbox_min)
# repair: apps/train_scanimate.py: bbox_min = torch.from_numpy(bbox[0]).float()[None, :, None].cuda() ->
#   bbox_min = torch.from_numpy(bbox[0]).float()[None, :, None].to(device=cuda)
# repair: apps/train_scanimate.py: bbox_max = torch.from_numpy(bbox[1]).float()[None, :, None].cuda() ->
#   bbox_max = torch.from_numpy(bbox[1]).float()[None, :, None].to(device=cuda)
import argparse

from apps.train_scanimate import train

parser = argparse.ArgumentParser()
parser.add_argument("--gpu_id", type=int, default=1)
parser.add_argument("--num_epoch", type=int, default=5)
parser.add_argument("--batch_size", type=int, default=4)
parser.add_argument("--learning_rate", type=float, default=0.01)

if __name__ == "__main__":
    losses = train(parser.parse_args())
    print("igr", [f"{loss:.4f}" for loss in losses])
# --- lib/data/mvp_dataset.py
import numpy as np
from torch.utils.data import Dataset


class MVPDataset(Dataset):
    """A round body that breathes: frames have points, normals and a number."""

    def __init__(self, num_frames=8, num_points=48):
        rng = np.random.default_rng(20)
        self.samples = []
        for frame in range(num_frames):
            normals = rng.normal(size=(3, num_points))
            normals /= np.linalg.norm(normals, axis=0, keepdims=True)
            size = np.array([[0.9], [1.6], [0.7]]) * (1.0 + 0.05 * frame)
            self.samples.append((normals.astype(np.float32), (size * normals).astype(np.float32)))

    def get_bbox(self):
        points = np.concatenate([scan for _, scan in self.samples], axis=1)
        return points.min(axis=1) - 0.1, points.max(axis=1) + 0.1

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        normals, scan = self.samples[index]
        return {"f_ids": index, "scan": scan, "normals": normals}
# --- lib/model/igr_net.py
import torch
from torch import nn


class IGRSDFNet(nn.Module):
    def __init__(self, latent_dim, width=24):
        super().__init__()
        self.conv0 = nn.Conv1d(3 + latent_dim, width, 1)
        self.conv1 = nn.Conv1d(width, width, 1)
        self.last = nn.Conv1d(width, 1, 1)
        self.bbox_min, self.bbox_max = None, None

    def set_bbox(self, bbox_min, bbox_max):
        self.bbox_min, self.bbox_max = bbox_min, bbox_max

    def query(self, points, latent):
        points = 2.0 * (points - self.bbox_min) / (self.bbox_max - self.bbox_min) - 1.0
        features = torch.cat([points, latent[:, :, None].expand(-1, -1, points.shape[2])], dim=1)
        features = nn.functional.softplus(self.conv0(features), beta=20)
        return self.last(nn.functional.softplus(self.conv1(features), beta=20))

    def forward(self, points, normals, latent):
        """On the skin the distance is none; a bit before it and behind it, it is that bit."""
        on_surface = self.query(points, latent).abs().mean()
        off_surface = sum((self.query(points + step * normals, latent) - step).abs().mean() for step in (-0.2, 0.2))
        return on_surface + off_surface + 0.001 * latent.square().mean()
# --- apps/train_scanimate.py
import torch
from torch import nn
from torch.utils.data import DataLoader

from lib.data.mvp_dataset import MVPDataset
from lib.model.igr_net import IGRSDFNet


def train_igr(opt, igr_net, lat_vecs, loader, optimizer, cuda):
    igr_net.train()
    total = 0.0
    for data in loader:
        f_ids = data["f_ids"].to(device=cuda)
        scan = data["scan"].to(device=cuda)
        normals = data["normals"].to(device=cuda)
        loss = igr_net(scan, normals, lat_vecs(f_ids))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def train(opt):
    cuda = torch.device("cuda:%d" % opt.gpu_id)
    torch.manual_seed(8)
    dataset = MVPDataset()
    loader = DataLoader(dataset, batch_size=opt.batch_size, shuffle=True)
    bbox = dataset.get_bbox()

    igr_net = IGRSDFNet(latent_dim=4).to(device=cuda)
    lat_vecs = nn.Embedding(len(dataset), 4).to(device=cuda)
    nn.init.normal_(lat_vecs.weight, 0.0, 0.1)

    bbox_min = torch.from_numpy(bbox[0]).float()[None, :, None].cuda()
    bbox_max = torch.from_numpy(bbox[1]).float()[None, :, None].cuda()
    igr_net.set_bbox(bbox_min, bbox_max)

    optimizer = torch.optim.Adam([*igr_net.parameters(), *lat_vecs.parameters()], lr=opt.learning_rate)
    return [train_igr(opt, igr_net, lat_vecs, loader, optimizer, cuda) for _ in range(opt.num_epoch)]

# === how_much_power_a_house_will_need
# thread: https://github.com/NatLabRockies/Wattile/issues/243
# about: a recurrent network foretells quantiles of the power of a building from its weather. It is trained, saved, and then validated with later days
# operation: (lstm|_cudnn_rnn|_thnn_fused_lstm_cell) on cuda:0, cpu
# operands: .*weight.*|params|params\[0\]|.*_flat_weights.*|rnn
# error: Input and parameter tensors are not at the same device
# category: input-not-moved|checkpoint
# line: wattile/models/alfa_model.py: model = self.load_model(self.init_model())
# line: wattile/models/alfa_model.py: return model.eval()
# line: wattile/models/alfa_model.py: preds = model(features.to(self.device)).cpu()
# line: wattile/models/alfa_model.py: return AlfaRNN(
# repair: wattile/models/alfa_model.py: model = self.load_model(self.init_model()) -> model = self.load_model(self.init_model()).to(self.device)
import tempfile
from pathlib import Path

from wattile.buildings import weather_and_power
from wattile.models.alfa_model import AlfaModel

if __name__ == "__main__":
    configs = {
        "arch_version": "alfa",
        "window": 8,
        "hidden_nodes": 12,
        "quantiles": [0.1, 0.5, 0.9],
        "learning_rate": 0.03,
        "num_epochs": 4,
        "batch_size": 32,
    }
    train_df, val_df = weather_and_power(hours=136), weather_and_power(hours=56, start=136)
    with tempfile.TemporaryDirectory() as exp_dir:
        model = AlfaModel(configs, Path(exp_dir))
        losses = model.run_training(train_df)
        qs, coverage = model.run_validation(val_df)
    print("train", [f"{loss:.4f}" for loss in losses], f"val {qs:.4f} covered {coverage:.3f}")
# --- wattile/buildings.py
import numpy as np


def weather_and_power(hours, start=0):
    """Per hour: warmth, sun, wind, and what the building took."""
    rng = np.random.default_rng(start)
    hour = np.arange(start, start + hours)
    warmth = np.sin(hour * 2 * np.pi / 24) + 0.1 * rng.normal(size=hours)
    sun = np.clip(np.sin((hour - 6) * 2 * np.pi / 24), 0, None)
    wind = rng.normal(size=hours) * 0.5
    power = 1.0 + 0.6 * np.roll(warmth, 2) - 0.3 * sun + 0.1 * wind
    return np.stack([warmth, sun, wind, power], axis=1).astype(np.float32)
# --- wattile/models/alfa_nn.py
import torch
from torch import nn


class AlfaRNN(nn.Module):
    def __init__(self, num_features, hidden_nodes, num_quantiles):
        super().__init__()
        self.rnn = nn.LSTM(num_features, hidden_nodes, batch_first=True)
        self.fc = nn.Linear(hidden_nodes, num_quantiles)

    def forward(self, features):
        outputs, _ = self.rnn(features)
        return self.fc(outputs[:, -1])


def pinball_loss(preds, target, quantiles):
    errors = target[:, None] - preds
    levels = torch.tensor(quantiles, device=preds.device)
    return torch.maximum(levels * errors, (levels - 1) * errors).mean()
# --- wattile/models/alfa_model.py
import torch
from torch.utils.data import DataLoader, TensorDataset

from wattile.models.alfa_nn import AlfaRNN, pinball_loss


class AlfaModel:
    def __init__(self, configs, exp_dir):
        self.configs = configs
        self.checkpoint = exp_dir / "torch_model"
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def init_model(self):
        torch.manual_seed(243)
        return AlfaRNN(3, self.configs["hidden_nodes"], len(self.configs["quantiles"]))

    def load_model(self, model):
        model.load_state_dict(torch.load(self.checkpoint))
        return model.eval()

    def data_transform(self, data, shuffle):
        window = self.configs["window"]
        data = torch.from_numpy(data)
        features = data[:, :3].unfold(0, window, 1).transpose(1, 2)
        dataset = TensorDataset(features, data[window - 1:, 3])
        return DataLoader(dataset, batch_size=self.configs["batch_size"], shuffle=shuffle)

    def run_training(self, train_df):
        model = self.init_model()
        model.to(self.device)
        optimizer = torch.optim.Adam(model.parameters(), lr=self.configs["learning_rate"])
        train_loader, losses = self.data_transform(train_df, shuffle=True), []
        for _ in range(self.configs["num_epochs"]):
            for features, target in train_loader:
                features, target = features.to(self.device), target.to(self.device)
                loss = pinball_loss(model(features), target, self.configs["quantiles"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
        torch.save(model.state_dict(), self.checkpoint)
        return losses

    @torch.no_grad()
    def run_validation(self, val_df):
        model = self.load_model(self.init_model())
        all_preds, all_targets = [], []
        for features, target in self.data_transform(val_df, shuffle=False):
            preds = model(features.to(self.device)).cpu()
            all_preds.append(preds)
            all_targets.append(target)
        preds, target = torch.cat(all_preds), torch.cat(all_targets)
        covered = (preds[:, 0] <= target) & (target <= preds[:, -1])
        return pinball_loss(preds, target, self.configs["quantiles"]).item(), covered.float().mean().item()
