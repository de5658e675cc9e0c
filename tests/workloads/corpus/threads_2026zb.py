# === keypoints_of_other_classes
# thread: https://github.com/LibreYOLO/libreyolo/issues/874
# about: a checkpoint says how many keypoints each class of things has, and a model that is on its GPU already is told so when it is loaded. Keypoints look at those of their own class
# operation: .*multi_head_attention|.*scaled_dot_product.*|baddbmm|add on cuda:0, cpu
# operands: .*mask.*|attn_bias
# category: created-without-device|cached-state
# line: decoder.py: self.keypoint_class_mask = owner
# line: decoder.py: owner = torch.arange(
# line: decoder.py: combined, _ = self.kp_inst_self_attn(
# line: libre.py: self.model.decoder.set_schema(
# repair: decoder.py: self.keypoint_class_mask = owner[:, None] != owner[None] -> self.keypoint_class_mask = (owner[:, None] != owner[None]).to(self.queries.device)
import tempfile
from pathlib import Path

import torch

from libre import LibrePose
from training import train

device = "cuda:0" if torch.cuda.is_available() else "cpu"
with tempfile.TemporaryDirectory() as folder:
    checkpoint = Path(folder) / "pose.pt"
    train(checkpoint, keypoints=[3, 2], steps=3)
    model = LibrePose(checkpoint, device=device)
image = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(4))
result = model.predict(image, conf=0.2)
print("keypoints", [[round(value, 3) for value in point] for point in result])
# --- decoder.py
import torch
from torch import nn

MOST = 8

class KeypointDecoder(nn.Module):
    """Keypoints look at an image, and at those of the same class."""

    def __init__(self, width):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(MOST, width))
        self.register_buffer("keypoint_class_mask", torch.zeros(0, 0, dtype=torch.bool), persistent=False)
        self.cross_attn = nn.MultiheadAttention(width, 2, batch_first=True)
        self.kp_inst_self_attn = nn.MultiheadAttention(width, 2, batch_first=True)
        self.place = nn.Linear(width, 3)

    def set_schema(self, counts):
        owner = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
        self.keypoint_class_mask = owner[:, None] != owner[None]

    def forward(self, memory):
        count = len(self.keypoint_class_mask)
        q = self.queries[:count].expand(len(memory), -1, -1)
        seen, _ = self.cross_attn(q, memory, memory, need_weights=False)
        q = q + seen
        combined, _ = self.kp_inst_self_attn(q, q, q, attn_mask=self.keypoint_class_mask, need_weights=False)
        return self.place(q + combined).sigmoid()
# --- detector.py
from torch import nn

from decoder import KeypointDecoder

class PoseDetector(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.backbone = nn.Conv2d(3, width, 2, stride=2)
        self.decoder = KeypointDecoder(width)

    def forward(self, images):
        features = self.backbone(images).relu()
        return self.decoder(features.flatten(2).transpose(1, 2))
# --- training.py
import torch

from detector import PoseDetector

def train(path, keypoints, steps):
    torch.manual_seed(0)
    model = PoseDetector()
    model.decoder.set_schema(keypoints)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    images, aims = torch.rand(2, 3, 8, 8), torch.rand(2, sum(keypoints), 3)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(images) - aims).square().mean().backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "keypoints": keypoints}, path)
# --- libre.py
import torch

from detector import PoseDetector

class LibrePose:
    def __init__(self, path, device):
        self.device = torch.device(device)
        self.model = PoseDetector().to(self.device)
        self.load(path)

    def load(self, path):
        checkpoint = torch.load(path, map_location=self.device)
        self.model.load_state_dict(checkpoint["model"])
        self.model.decoder.set_schema(checkpoint["keypoints"])
        self.model.eval()

    @torch.inference_mode()
    def predict(self, image, conf):
        points = self.model(image.to(self.device))[0].cpu()
        return [point[:2].tolist() for point in points if point[2] > conf]

# === sentences_corrected_again_and_again
# thread: https://github.com/gotutiyan/gector/pull/11
# about: each word of a sentence gets an edit from a tagger that is loaded from files. A sentence is edited until nothing is left to do, and a loop brings words to the device that it has chosen
# operation: embedding|index_select on cuda:0, cpu
# operands: index|indices|input|input_ids|.*weight
# category: module-split|input-not-moved
# line: main.py: model = GECToR.from_pretrained(
# line: correct.py: inputs = encode(
# line: correct.py: logits, wrong = model(
# line: correct.py: device = torch.device(
# repair: main.py: model = GECToR.from_pretrained(folder).eval() -> model = GECToR.from_pretrained(folder).eval().to("cuda" if torch.cuda.is_available() else "cpu")
import tempfile

import torch

from correct import correct_all
from modeling import GECToR, make_checkpoint
from vocabulary import WORDS

sentences = ["he go to school", "she have a dog", "they goes home"]
with tempfile.TemporaryDirectory() as folder:
    make_checkpoint(folder, words=len(WORDS), seed=3)
    model = GECToR.from_pretrained(folder).eval()
corrected = list(correct_all(model, sentences, rounds=3, batch_size=2))
for sentence, rounds in corrected:
    print(sentence, "after", rounds)
print("corrected", [sentence for sentence, _ in corrected])
# --- vocabulary.py
WORDS = ["[PAD]", "he", "she", "they", "go", "goes", "to", "school", "have", "has", "a", "dog", "home"]
EDITS = ["keep", "delete", "replace:goes", "replace:has", "append:the"]

def ids_of(sentence):
    return [WORDS.index(word) if word in WORDS else 0 for word in sentence.split()]

def edited(sentence, edits):
    words = []
    for word, edit in zip(sentence.split(), edits):
        what, _, other = EDITS[edit].partition(":")
        words += {"keep": [word], "delete": [], "replace": [other], "append": [word, other]}[what]
    return " ".join(words) or sentence
# --- modeling.py
import torch
from torch import nn
from transformers import BertConfig, BertModel, PreTrainedModel

from vocabulary import EDITS

class GECToR(PreTrainedModel):
    config_class = BertConfig

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.label_proj, self.d_proj = nn.Linear(config.hidden_size, len(EDITS)), nn.Linear(config.hidden_size, 2)
        self.post_init()

    def forward(self, input_ids, attention_mask):
        hidden = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        wrong = self.d_proj(hidden).softmax(-1)[..., 1] * attention_mask
        return self.label_proj(hidden), wrong.max(-1).values

def make_checkpoint(folder, words, seed):
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=words, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, max_position_embeddings=32,
        initializer_range=0.5,
    )  # fmt: skip
    GECToR(config).save_pretrained(folder)
# --- correct.py
import torch

from vocabulary import edited, ids_of

def encode(sentences, device):
    rows = [ids_of(sentence) for sentence in sentences]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}

@torch.no_grad()
def iterative_predict(model, sentences, rounds, least):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    counts, waiting = [0] * len(sentences), list(range(len(sentences)))
    for _ in range(rounds):
        inputs = encode([sentences[at] for at in waiting], device)
        logits, wrong = model(**inputs)
        edits = logits.argmax(-1).cpu().tolist()
        left = []
        for at, row, error in zip(waiting, edits, wrong.tolist()):
            better = edited(sentences[at], row)
            if error > least and better != sentences[at]:
                sentences[at], counts[at] = better, counts[at] + 1
                left.append(at)
        waiting = left
        if not waiting:
            break
    return counts

def correct_all(model, sentences, rounds, batch_size, least=0.4):
    for start in range(0, len(sentences), batch_size):
        batch = list(sentences[start : start + batch_size])
        counts = iterative_predict(model, batch, rounds, least)
        yield from zip(batch, counts)

# === guidance_over_blocks_that_are_swapped
# thread: https://github.com/ChenDarYen/ComfyUI-NAG/issues/52
# about: blocks of a video model wait in RAM, and what calls a block fetches it first. Another node gives blocks a way of its own to compute, in which what one does not want to see counts, too
# operation: .*rms_norm.*|mul on cuda:0, cpu
# operands: .*weight|other
# category: module-split
# line: nag.py: block.forward = functools.partial(
# line: nag.py: normed = block.norm(x)
# line: block_swap.py: block.forward = block.swapping(
# repair: nag.py: block.forward = functools.partial(self.guided, block) -> block.forward = getattr(block, "swapping", lambda call: call)(functools.partial(self.guided, block))
import torch

from sampler import Sampler
from wan import WanModel

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
sampler = Sampler(WanModel(width=8, depth=4).eval(), device, blocks_to_swap=2)
draw = torch.Generator().manual_seed(2)
noise, wanted, unwanted = torch.randn(5, 8, generator=draw), torch.randn(3, 8, generator=draw), torch.randn(3, 8, generator=draw)
plain = sampler.sample(noise, wanted, steps=2)
guided = sampler.sample(noise, wanted, steps=2, nag=(unwanted, 4.0))
print("plain", [round(value, 4) for value in plain.mean(0).tolist()[:3]], "guided", [round(value, 4) for value in guided.mean(0).tolist()[:3]])
# --- wan.py
import torch
from torch import nn

class CrossAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x, context):
        key, value = self.kv(context).chunk(2, -1)
        weights = (self.q(x) @ key.T / key.shape[-1] ** 0.5).softmax(-1)
        return self.o(weights @ value)

class WanBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.cross = nn.RMSNorm(width, eps=1e-6), CrossAttention(width)
        self.ffn = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x, context):
        x = x + self.cross(self.norm(x), context)
        return x + self.ffn(x)

class WanModel(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.patch, self.head = nn.Linear(width, width), nn.Linear(width, width)
        self.blocks = nn.ModuleList(WanBlock(width) for _ in range(depth))

    def forward(self, x, context):
        x = self.patch(x)
        for block in self.blocks:
            x = block(x, context)
        return self.head(x)
# --- block_swap.py
import functools

def swapping_for(block, device):
    def swapping(call):
        @functools.wraps(call)
        def swapped(*args):
            block.to(device)
            try:
                return call(*args)
            finally:
                block.to("cpu")

        return swapped

    return swapping

def apply_block_swap(model, count, device):
    for name, child in model.named_children():
        if name != "blocks":
            child.to(device)
    for index, block in enumerate(model.blocks):
        if index < count:
            block.swapping = swapping_for(block, device)
            block.forward = block.swapping(block.forward)
        else:
            block.to(device)
# --- nag.py
import functools

class NAG:
    """While it is entered, blocks are led away from what is not wanted."""

    def __init__(self, model, unwanted, scale):
        self.model, self.unwanted, self.scale, self.kept = model, unwanted, scale, []

    def __enter__(self):
        for block in self.model.blocks:
            self.kept.append(block.forward)
            block.forward = functools.partial(self.guided, block)

    def __exit__(self, *error):
        for block, forward in zip(self.model.blocks, self.kept):
            block.forward = forward

    def guided(self, block, x, context):
        normed = block.norm(x)
        toward, away = block.cross(normed, context), block.cross(normed, self.unwanted)
        moved = toward * self.scale - away * (self.scale - 1)
        moved = moved * (toward.norm() / moved.norm()).clamp(max=1.0)
        x = x + moved
        return x + block.ffn(x)
# --- sampler.py
import contextlib

import torch

from block_swap import apply_block_swap
from nag import NAG

class Sampler:
    def __init__(self, model, device, blocks_to_swap):
        self.model, self.device = model, device
        apply_block_swap(model, blocks_to_swap, device)

    @torch.no_grad()
    def sample(self, noise, wanted, steps, nag=None):
        x, context = noise.to(self.device), wanted.to(self.device)
        guidance = contextlib.nullcontext()
        if nag is not None:
            guidance = (nag[0].to(self.device), nag[1])
        for _ in range(steps):
            if nag is None:
                x = x - self.model(x, context) / steps
                continue
            with NAG(self.model, *guidance):
                x = x - self.model(x, context) / steps
        return x.cpu()

# === stages_of_a_delayed_equation
# thread: https://github.com/thibmonsel/torchdde/issues/43
# about: a network says how a state changes by what it is and by what it was before. A solver of many stages goes from time to time; its coefficients are tensors of its own
# operation: bmm|mm|mv|dot|mul|matmul on cpu, cuda:0
# operands: self|mat|mat1|input|.*a_lower.*|batch1|.*tableau.*
# category: module-split|created-without-device
# line: main.py: solver = RungeKutta(
# line: solvers.py: stage = torch.einsum(
# line: integrate.py: y = solver.step(
# line: main.py: path = integrate(
# repair: main.py: solver = RungeKutta("midpoint3") -> solver = RungeKutta("midpoint3").to(device)
import torch

from dynamics import DelayedField
from integrate import integrate
from solvers import RungeKutta
from training import targets

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
field = DelayedField(width=2, delay=0.3).to(device)
solver = RungeKutta("midpoint3")
times = torch.linspace(0, 1, 6, device=device)
start = torch.tensor([[1.0, 0.0], [0.5, -0.5]], device=device)
aims = targets(times, start)
optimizer = torch.optim.Adam(field.parameters(), lr=0.02)
losses = []
for _ in range(3):
    path = integrate(field, solver, times, start)
    loss = (path - aims).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- dynamics.py
import torch
from torch import nn

class DelayedField(nn.Module):
    def __init__(self, width, delay):
        super().__init__()
        self.delay, self.net = delay, nn.Sequential(nn.Linear(2 * width, 8), nn.Tanh(), nn.Linear(8, width))

    def forward(self, t, y, history):
        return self.net(torch.cat([y, history(t - self.delay)], -1))
# --- solvers.py
import torch
from torch import nn

TABLEAUS = {
    "heun": ([0.0, 1.0], [[0.0, 0.0], [1.0, 0.0]], [0.5, 0.5]),
    "midpoint3": ([0.0, 0.5, 1.0], [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [-1.0, 2.0, 0.0]], [1 / 6, 2 / 3, 1 / 6]),
}

class RungeKutta(nn.Module):
    def __init__(self, name):
        super().__init__()
        c, a_lower, b = TABLEAUS[name]
        self.c = c
        self.register_buffer("a_lower", torch.tensor(a_lower))
        self.register_buffer("b", torch.tensor(b))

    def step(self, func, t, y, dt, history):
        slopes = [func(t, y, history)]
        for at in range(1, len(self.c)):
            stage = torch.einsum("s,sbd->bd", self.a_lower[at, :at], torch.stack(slopes))
            slopes.append(func(t + self.c[at] * dt, y + dt * stage, history))
        return y + dt * torch.einsum("s,sbd->bd", self.b, torch.stack(slopes))
# --- integrate.py
import torch

class History:
    """What a state was, at any time: known points, and lines between them."""

    def __init__(self, start):
        self.times, self.states = [0.0], [start]

    def add(self, t, y):
        self.times.append(t)
        self.states.append(y)

    def __call__(self, t):
        t = float(t)
        if t <= self.times[0]:
            return self.states[0]
        for at in range(1, len(self.times)):
            if t <= self.times[at]:
                share = (t - self.times[at - 1]) / (self.times[at] - self.times[at - 1])
                return torch.lerp(self.states[at - 1], self.states[at], share)
        return self.states[-1]

def integrate(func, solver, times, start):
    history, y, path = History(start), start, [start]
    for t, after in zip(times, times[1:]):
        y = solver.step(func, t, y, after - t, history)
        history.add(float(after), y)
        path.append(y)
    return torch.stack(path)
# --- training.py
import torch

def targets(times, start):
    """A turn about the origin, which fades."""
    turns = torch.stack([torch.stack([times.cos(), -times.sin()], -1), torch.stack([times.sin(), times.cos()], -1)], -2)
    return torch.einsum("tij,bj->tbi", turns, start) * (-times)[:, None, None].exp()

# === worlds_that_ended_or_took_too_long
# thread: https://github.com/RoboVerseOrg/RoboVerse/issues/362
# about: arms in many worlds learn to reach points. One simulator or another is behind a handler, and has its states on a GPU; an episode ends when a task is done or has taken too long
# operation: bitwise_or|logical_or|__or__ on cuda:0, cpu
# operands: other|.*timeout.*
# category: created-without-device|input-not-moved
# line: base_task.py: return torch.tensor([age >= self.limit
# line: vec_env.py: dones = success | timeout
# line: vec_env.py: timeout = self.task.timed_out(
# repair: base_task.py: return torch.tensor([age >= self.limit for age in ages]) -> return torch.tensor([age >= self.limit for age in ages], device=self.handler.device)
import torch

from handler import build_handler
from policy import Policy
from reach import ReachTask
from vec_env import VecEnv

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
task = ReachTask(build_handler("points", worlds=4, device=device, seed=5), limit=4, reach=0.15)
env = VecEnv(task)
policy = Policy(size=4, seed=1).to(device)
episodes, observations = [], env.reset()
for _ in range(14):
    observations, rewards, ended = env.step(policy.act(observations))
    episodes += ended
    policy.improve(rewards)
print("episodes", len(episodes), "done", sum(done for done, _ in episodes), "lengths", [length for _, length in episodes])
# --- handler.py
import torch

class PointsHandler:
    """Hands that go where they are told, up to a speed."""

    def __init__(self, worlds, device, seed):
        self.worlds, self.device, self.draw = worlds, device, torch.Generator().manual_seed(seed)
        self.hands, self.goals = (torch.zeros(worlds, 2, device=device) for _ in range(2))

    def set_states(self, where):
        for world in where:
            self.hands[world] = 0.0
            self.goals[world] = (torch.rand(2, generator=self.draw) - 0.5).to(self.device)

    def get_states(self):
        return {"hands": self.hands, "goals": self.goals}

    def simulate(self, actions):
        self.hands = self.hands + actions.clamp(-0.1, 0.1)

SIMULATORS = {"points": PointsHandler}

def build_handler(sim, **options):
    return SIMULATORS[sim](**options)
# --- base_task.py
import torch

class BaseTask:
    def __init__(self, handler, limit):
        self.handler, self.limit = handler, limit

    def timed_out(self, ages):
        return torch.tensor([age >= self.limit for age in ages])

    def observations(self):
        states = self.handler.get_states()
        return torch.cat([states["hands"], states["goals"]], 1)

    def success(self):
        raise NotImplementedError
# --- reach.py
from base_task import BaseTask

class ReachTask(BaseTask):
    def __init__(self, handler, limit, reach):
        super().__init__(handler, limit)
        self.reach = reach

    def distances(self):
        states = self.handler.get_states()
        return (states["hands"] - states["goals"]).norm(dim=1)

    def success(self):
        return self.distances() < self.reach

    def rewards(self):
        return -self.distances()
# --- vec_env.py
class VecEnv:
    def __init__(self, task):
        self.task, self.handler = task, task.handler

    def reset(self):
        self.ages = [0] * self.handler.worlds
        self.handler.set_states(range(self.handler.worlds))
        return self.task.observations()

    def step(self, actions):
        self.handler.simulate(actions)
        self.ages = [age + 1 for age in self.ages]
        success = self.task.success()
        timeout = self.task.timed_out(self.ages)
        rewards = self.task.rewards()
        dones = success | timeout
        over = dones.nonzero()[:, 0].tolist()
        ended = [(bool(success[world]), self.ages[world]) for world in over]
        self.handler.set_states(over)
        for world in over:
            self.ages[world] = 0
        return self.task.observations(), rewards, ended
# --- policy.py
import torch
from torch import nn

class Policy(nn.Module):
    """Goes to the goal, with a strength that rewards change."""

    def __init__(self, size, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.net = nn.Linear(size, 2)
        with torch.no_grad():
            self.net.weight.copy_(torch.tensor([[-0.3, 0.0, 0.3, 0.0], [0.0, -0.3, 0.0, 0.3]]))
            self.net.bias.zero_()
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.01)

    def act(self, observations):
        self.actions = self.net(observations)
        return self.actions.detach()

    def improve(self, rewards):
        self.optimizer.zero_grad()
        (-(rewards + 1).detach()[:, None] * self.actions.abs()).mean().backward()
        self.optimizer.step()

# === seconds_between_frames
# thread: https://github.com/QwenLM/Qwen3-VL/issues/1131
# about: tokens of a video have a place in time, row and column, which a model computes on the CPU from sizes, and seconds between frames. All that a processor gives is moved to the GPU
# operation: mul on cpu, cuda:0
# operands: other|.*second.*
# category: created-without-device|input-not-moved
# line: rope_index.py: seconds = second_per_grid_ts[
# line: rope_index.py: time = (spans * seconds
# line: model.py: positions = get_rope_index(
# repair: rope_index.py: seconds = second_per_grid_ts[video] -> seconds = second_per_grid_ts[video].item()
import torch

from model import VideoChat
from processing import VideoProcessor

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = VideoChat(vocabulary=24, width=12).to(device).eval()
processor = VideoProcessor(fps=2.0, patch=2)
video = torch.rand(4, 3, 4, 4, generator=torch.Generator().manual_seed(8))
inputs = processor(videos=[video], texts=[[5, 9, 3]]).to(device)
with torch.no_grad():
    logits = model(**inputs)
print("next", int(logits[0, -1].argmax()), "best", [round(value, 4) for value in logits[0, -1].topk(3).values.tolist()])
# --- processing.py
import torch
from transformers import BatchFeature

VIDEO = 1

class VideoProcessor:
    """Patches of videos, and texts with a place for each."""

    def __init__(self, fps, patch, temporal=2):
        self.fps, self.patch, self.temporal = fps, patch, temporal

    def __call__(self, videos, texts):
        rows, patches, grids, seconds = [], [], [], []
        for video, text in zip(videos, texts):
            frames, _, height, width = video.shape
            grid = [frames // self.temporal, height // self.patch, width // self.patch]
            rows.append([VIDEO] * (grid[0] * grid[1] * grid[2]) + text)
            cut = video.reshape(grid[0], self.temporal, 3, grid[1], self.patch, grid[2], self.patch)
            patches.append(cut.permute(0, 3, 5, 1, 2, 4, 6).flatten(0, 2).flatten(1))
            grids.append(grid)
            seconds.append(self.temporal / self.fps)
        return BatchFeature({
            "input_ids": torch.tensor(rows), "pixel_values_videos": torch.cat(patches), "video_grid_thw": torch.tensor(grids),
            "second_per_grid_ts": torch.tensor(seconds),
        })  # fmt: skip
# --- rope_index.py
import torch

def get_rope_index(input_ids, video_grid_thw, second_per_grid_ts, tokens_per_second):
    """(3, rows, length): time, row and column of each token; those of a text are one number."""
    rows = []
    for video, (ids, grid) in enumerate(zip(input_ids, video_grid_thw.tolist())):
        frames, height, width = grid
        seconds = second_per_grid_ts[video]
        spans = torch.arange(frames)[:, None].expand(-1, height * width)
        time = (spans * seconds * tokens_per_second).long().flatten()
        row = torch.arange(height)[None, :, None].expand(frames, -1, width).flatten()
        column = torch.arange(width)[None, None].expand(frames, height, -1).flatten()
        seen = torch.stack([time, row, column])
        text = torch.arange(len(ids) - seen.shape[1]) + seen.max() + 1
        rows.append(torch.cat([seen, text.expand(3, -1)], 1))
    return torch.stack(rows, 1).to(input_ids.device)
# --- model.py
import torch
from torch import nn

from processing import VIDEO
from rope_index import get_rope_index

class VideoChat(nn.Module):
    def __init__(self, vocabulary, width, tokens_per_second=2):
        super().__init__()
        self.tokens_per_second = tokens_per_second
        self.embed, self.visual = nn.Embedding(vocabulary, width), nn.Linear(24, width)
        self.attention, self.head = nn.MultiheadAttention(width, 1, batch_first=True), nn.Linear(width, vocabulary)
        self.register_buffer("inv_freq", 1 / 50 ** (torch.arange(0, width, 3) / width))

    def turned(self, hidden, positions):
        angles = positions[..., None] * self.inv_freq
        return hidden + torch.cat([angle.sin() for angle in angles], -1)

    def forward(self, input_ids, pixel_values_videos, video_grid_thw, second_per_grid_ts):
        hidden = self.embed(input_ids)
        seen = self.visual(pixel_values_videos)
        hidden = hidden.masked_scatter((input_ids == VIDEO)[..., None], seen)
        positions = get_rope_index(input_ids, video_grid_thw, second_per_grid_ts, self.tokens_per_second)
        hidden = self.turned(hidden, positions)
        attended, _ = self.attention(hidden, hidden, hidden, need_weights=False)
        return self.head(hidden + attended)

# === words_are_read_without_the_gpu
# thread: https://github.com/invoke-ai/InvokeAI/pull/8851
# about: nodes of a graph take models from a cache, which brings each to where it is to compute. The one that reads prompts may be set to stay on the CPU, to leave memory of the GPU to others
# operation: embedding|index_select on cuda:0, cpu
# operands: index|indices|input|input_ids|.*weight
# category: default-or-current-device|input-not-moved
# line: text_encoder_node.py: device = TorchDevice.choose_torch_device()
# line: text_encoder_node.py: input_ids, attention_mask =
# line: text_encoder_node.py: outputs = text_encoder(
# repair: text_encoder_node.py: device = TorchDevice.choose_torch_device() -> device = next(text_encoder.parameters()).device
import torch
from torch import nn
from transformers import Qwen3Config, Qwen3Model

from denoise_node import DenoiseNode
from model_cache import ModelCache
from text_encoder_node import TextEncoderNode

torch.manual_seed(0)
config = Qwen3Config(
    vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=2, head_dim=8,
    max_position_embeddings=32,
)  # fmt: skip
cache = ModelCache()
cache.put("encoder", Qwen3Model(config).eval(), cpu_only=True)
cache.put("transformer", nn.Sequential(nn.Linear(36, 16), nn.SiLU(), nn.Linear(16, 4)).eval())
conditioning = TextEncoderNode(cache, layers=(1, 2), longest=6).invoke("a red fox in snow")
latents = DenoiseNode(cache, steps=3).invoke(conditioning, seed=4)
print("latents", [round(value, 4) for value in latents.flatten().tolist()])
# --- devices.py
import torch

class TorchDevice:
    @staticmethod
    def choose_torch_device():
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
# --- model_cache.py
import contextlib

from devices import TorchDevice

class ModelCache:
    """Models are in RAM until they are asked for."""

    def __init__(self):
        self.models, self.stay, self.compute_device = {}, set(), TorchDevice.choose_torch_device()

    def put(self, key, model, cpu_only=False):
        self.models[key] = model
        if cpu_only:
            self.stay.add(key)

    @contextlib.contextmanager
    def model_on_device(self, key):
        model = self.models[key]
        device = self.compute_device if key not in self.stay else "cpu"
        model.to(device)
        try:
            yield model
        finally:
            model.to("cpu")
# --- text_encoder_node.py
import zlib

import torch

from devices import TorchDevice

class TextEncoderNode:
    def __init__(self, cache, layers, longest):
        self.cache, self.layers, self.longest = cache, layers, longest

    def tokenize(self, prompt):
        ids = [zlib.crc32(word.encode()) % 31 + 1 for word in prompt.split()][: self.longest]
        lacking = self.longest - len(ids)
        return torch.tensor([ids + [0] * lacking]), torch.tensor([[1] * len(ids) + [0] * lacking])

    @torch.no_grad()
    def invoke(self, prompt):
        with self.cache.model_on_device("encoder") as text_encoder:
            device = TorchDevice.choose_torch_device()
            input_ids, attention_mask = (each.to(device) for each in self.tokenize(prompt))
            outputs = text_encoder(input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True)
            hidden = torch.cat([outputs.hidden_states[layer] for layer in self.layers], -1)
            mean = (hidden * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True)
        return mean.cpu()
# --- denoise_node.py
import torch

from devices import TorchDevice

class DenoiseNode:
    def __init__(self, cache, steps):
        self.cache, self.steps = cache, steps

    @torch.no_grad()
    def invoke(self, conditioning, seed):
        device = TorchDevice.choose_torch_device()
        latents = torch.randn(1, 4, generator=torch.Generator().manual_seed(seed)).to(device)
        conditioning = conditioning.to(device)
        with self.cache.model_on_device("transformer") as transformer:
            for _ in range(self.steps):
                latents = latents - transformer(torch.cat([latents, conditioning], 1)) / self.steps
        return latents.cpu()

# === galaxies_in_an_order_by_chance
# thread: https://github.com/lincc-frameworks/hyrax/pull/924
# about: a run says once on which device it is, for all tensors. Loaders of its parts are made by one function, which draws their order with a seed that a configuration has
# operation: randperm|random_? on cuda:0
# operands: generator|.*rng.*|.*
# error: Expected a 'cuda' device type for generator but found 'cpu'
# category: generator|default-or-current-device
# line: loaders.py: torch_rng = torch.Generator()
# line: loaders.py: sampler = SubsetRandomSampler(
# repair: loaders.py: torch_rng = torch.Generator() -> torch_rng = torch.Generator(device=torch.get_default_device())
import torch

from galaxies import Galaxies
from run import Run

config = {"seed": 12, "batch_size": 3, "splits": {"train": 0.75, "validate": 0.25}, "epochs": 2}
run = Run(config, Galaxies(count=12, seed=7))
losses = run.train()
print("rows", {name: len(rows) for name, rows in run.splits.items()}, "losses", [round(loss, 4) for loss in losses])
# --- galaxies.py
import random

class Galaxies:
    """Brightness in three bands, and whether a galaxy turns."""

    def __init__(self, count, seed):
        drawn = random.Random(seed)
        self.rows = [[drawn.random() for _ in range(3)] for _ in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        row = self.rows[at]
        return {"bands": row, "turns": float(row[0] > row[2])}
# --- loaders.py
import random

import torch
from torch.utils.data import DataLoader
from torch.utils.data.sampler import SubsetRandomSampler

def create_splits(count, shares, seed):
    order = list(range(count))
    random.Random(seed).shuffle(order)
    splits, start = {}, 0
    for name, share in shares.items():
        size = round(share * count)
        splits[name] = order[start : start + size]
        start += size
    return splits

def collate(rows):
    return {name: torch.tensor([row[name] for row in rows]) for name in rows[0]}

def dist_data_loader(dataset, rows, config):
    torch_rng = torch.Generator()
    torch_rng.manual_seed(config["seed"])
    sampler = SubsetRandomSampler(rows, generator=torch_rng)
    return DataLoader(dataset, batch_size=config["batch_size"], sampler=sampler, collate_fn=collate)
# --- network.py
import torch
from torch import nn

class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
        for index, parameter in enumerate(self.parameters()):
            nn.init.constant_(parameter, 0.1 * (index + 1))
        with torch.no_grad():
            self.layers[0].weight[::2] *= -1

    def forward(self, bands):
        return self.layers(bands)[:, 0]
# --- run.py
import torch
from torch import nn

from loaders import create_splits, dist_data_loader
from network import Classifier

class Run:
    def __init__(self, config, dataset):
        torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
        self.config, self.dataset, self.model = config, dataset, Classifier()
        self.splits = create_splits(len(dataset), config["splits"], config["seed"])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5)

    def loss(self, batch):
        return nn.functional.binary_cross_entropy_with_logits(self.model(batch["bands"]), batch["turns"])

    def train(self):
        losses = []
        for _ in range(self.config["epochs"]):
            for batch in dist_data_loader(self.dataset, self.splits["train"], self.config):
                self.optimizer.zero_grad()
                self.loss(batch).backward()
                self.optimizer.step()
            losses.append(self.validate())
        return losses

    @torch.no_grad()
    def validate(self):
        batches = list(dist_data_loader(self.dataset, self.splits["validate"], self.config))
        return sum(self.loss(batch).item() for batch in batches) / len(batches)

# === a_server_on_the_second_gpu
# thread: https://github.com/CVHub520/X-AnyLabeling-Server/pull/29
# about: a server that labels pictures has models, each with a file of settings that names its GPU. One finds what a sentence says, and gets words from a tokenizer that it has itself
# operation: embedding|index_select on cuda:0, cuda:1
# operands: index|indices|input|.*tokens.*|.*weight
# category: default-or-current-device
# line: segment_text.py: tokens = torch.tensor(
# line: segment_text.py: self.words = self.network.encode_text(
# line: networks.py: hidden = self.embed(
# repair: segment_text.py: tokens = torch.tensor([self.tokenizer(text)], device="cuda") -> tokens = torch.tensor([self.tokenizer(text)], device=self.device)
import random

import torch

from registry import build
from settings import SETTINGS

models = {name: build(name, settings) for name, settings in SETTINGS.items()}
drawn = random.Random(3)
picture = [[[drawn.random() for _ in range(8)] for _ in range(8)] for _ in range(3)]
for name, request in (("brightness", {}), ("segment_text", {"text": "a bright corner"})):
    shapes = models[name].predict(picture, **request)
    print(name, shapes)
print("models", len(models), "shapes", [[round(value, 2) for value in shape["points"]] for shape in shapes])
# --- settings.py
import torch

LAST = max(torch.cuda.device_count() - 1, 0)
SETTINGS = {
    "brightness": {"device": "cpu", "conf_threshold": 0.4},
    "segment_text": {"device": f"cuda:{LAST}", "conf_threshold": 0.52, "width": 6, "seed": 4},
}
# --- registry.py
MODELS = {}

def register(name):
    def keep(model):
        MODELS[name] = model
        return model

    return keep

def build(name, settings):
    import brightness  # noqa: F401
    import segment_text  # noqa: F401

    model = MODELS[name](settings)
    model.load()
    return model
# --- base.py
import torch

class BaseModel:
    def __init__(self, settings):
        self.params, self.device = settings, torch.device(settings["device"])

    def load(self):
        pass

    def image(self, picture):
        return torch.tensor(picture, device=self.device)[None]

    def shapes(self, scores, label):
        where = (scores > self.params["conf_threshold"]).nonzero().tolist()
        if not where:
            return []
        rows, columns = zip(*where)
        return [{"label": label, "points": [min(columns), min(rows), max(columns), max(rows)]}]
# --- brightness.py
from base import BaseModel
from registry import register

@register("brightness")
class Brightness(BaseModel):
    def predict(self, picture):
        return self.shapes(self.image(picture)[0].mean(0), "bright")
# --- networks.py
import torch
from torch import nn

class TextSegmenter(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed, self.text = nn.Embedding(40, width), nn.Linear(width, width)
        self.pixels = nn.Conv2d(3, width, 3, padding=1)

    def encode_text(self, tokens):
        hidden = self.embed(tokens)
        return self.text(hidden.mean(1))

    def forward(self, image, words):
        return torch.einsum("bchw,bc->bhw", self.pixels(image), words).sigmoid()
# --- segment_text.py
import zlib

import torch

from base import BaseModel
from networks import TextSegmenter
from registry import register

@register("segment_text")
class SegmentText(BaseModel):
    def load(self):
        torch.manual_seed(self.params["seed"])
        self.network = TextSegmenter(self.params["width"]).to(self.device).eval()

    def tokenizer(self, text):
        return [zlib.crc32(word.encode()) % 40 for word in text.lower().split()]

    @torch.inference_mode()
    def predict(self, picture, text):
        image = self.image(picture)
        tokens = torch.tensor([self.tokenizer(text)], device="cuda")
        self.words = self.network.encode_text(tokens)
        scores = self.network(image, self.words)[0]
        return self.shapes(scores, text)

# === a_policy_and_what_it_was_before
# thread: https://github.com/QunBB/DeepLearning/issues/6
# about: answers to a question are drawn in a group, and a model learns from what is better than the others. A copy of it that does not learn has a GPU of its own, and holds it back
# operation: sub on cuda:1, cuda:0
# operands: other|.*log_?probs.*|.*logps.*|self
# category: module-split|input-not-moved
# line: grpo_trainer.py: ref_logps = per_token_logps(
# line: grpo_trainer.py: difference = ref_logps - logps
# line: main.py: reference = 
# repair: grpo_trainer.py: ref_logps = per_token_logps(self.reference, ids.to(self.reference.device), start) -> ref_logps = per_token_logps(self.reference, ids.to(self.reference.device), start).to(ids.device)
import copy

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from grpo_trainer import GRPOTrainer
from rewards import even_tokens, no_repeats

torch.manual_seed(0)
config = Qwen2Config(
    vocab_size=16, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=32,
)  # fmt: skip
count = torch.cuda.device_count()
devices = [torch.device(f"cuda:{index}") for index in range(count)] or [torch.device("cpu")]
policy = Qwen2ForCausalLM(config)
reference = copy.deepcopy(policy).requires_grad_(False).eval().to(devices[-1])
trainer = GRPOTrainer(policy.to(devices[0]), reference, [even_tokens, no_repeats], group=4, beta=0.1)
for question in ([3, 7, 1], [2, 2, 9]):
    print("question", question, "loss", trainer.step(question, length=4))
print("weights", [round(weight.abs().sum().item(), 2) for weight in policy.model.layers[0].mlp.parameters()])
# --- rewards.py
def even_tokens(answer):
    return sum(token % 2 == 0 for token in answer) / len(answer)

def no_repeats(answer):
    return len(set(answer)) / len(answer)
# --- logprobs.py
def per_token_logps(model, ids, start):
    """Of each token from `start` on, how probable the model holds it after those before it."""
    logits = model(ids).logits[:, start - 1 : -1]
    chosen = logits.log_softmax(-1).gather(-1, ids[:, start:, None])
    return chosen.squeeze(-1)
# --- sampling.py
import torch

@torch.no_grad()
def answers(model, question, group, length, draw):
    """Drawn on the CPU: a seed gives the same on every machine."""
    ids = torch.tensor([question] * group, device=model.device)
    for _ in range(length):
        chances = model(ids).logits[:, -1].softmax(-1)
        drawn = torch.multinomial(chances.cpu(), 1, generator=draw)
        ids = torch.cat([ids, drawn.to(ids.device)], 1)
    return ids
# --- grpo_trainer.py
import torch

from logprobs import per_token_logps
from sampling import answers

class GRPOTrainer:
    def __init__(self, policy, reference, rewards, group, beta):
        self.policy, self.reference, self.rewards, self.group, self.beta = policy, reference, rewards, group, beta
        self.optimizer = torch.optim.AdamW(policy.parameters(), lr=0.01)
        self.draw = torch.Generator().manual_seed(5)

    def advantages(self, ids, start):
        texts = ids[:, start:].tolist()
        scores = torch.tensor([sum(reward(text) for reward in self.rewards) for text in texts], device=ids.device)
        return (scores - scores.mean()) / (scores.std() + 1e-4)

    def step(self, question, length):
        start = len(question)
        ids = answers(self.policy, question, self.group, length, self.draw)
        logps = per_token_logps(self.policy, ids, start)
        with torch.no_grad():
            ref_logps = per_token_logps(self.reference, ids.to(self.reference.device), start)
        difference = ref_logps - logps
        kl = difference.exp() - difference - 1
        gain = (logps - logps.detach()).exp() * self.advantages(ids, start)[:, None]
        loss = -(gain - self.beta * kl).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

# === frames_that_share_attention
# thread: https://github.com/huchenlei/ComfyUI-layerdiffuse/pull/128
# about: foreground, background and their blend are painted at once. Attention of a model gets a processor in which frames see one another, with small layers for each of them from a file
# operation: addmm|mm|linear|matmul|t on cuda:0, cpu
# operands: mat2|weight|.*weight|other
# category: state-not-registered|module-split
# line: sharing.py: self.lora = [
# line: sharing.py: added = lora(
# repair: sharing.py: self.lora = [LowRank(width, rank) for _ in range(frames)] -> self.lora = [LowRank(width, rank).to(device) for _ in range(frames)]
import tempfile
from pathlib import Path

import torch

from nodes import LayeredDiffusion
from unet import TinyUNet
from weights import write_sharing_file

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
unet = TinyUNet(channels=3, width=8).to(device).eval()
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "layer_sd15_joint.safetensors"
    write_sharing_file(path, unet, frames=3, rank=2, seed=3)
    node = LayeredDiffusion(unet, path, frames=3, rank=2)
pictures = node.sample(size=4, steps=2, seed=6)
print("pictures", [round(value, 4) for value in pictures.abs().mean((1, 2, 3)).tolist()])
# --- unet.py
from diffusers.models.attention_processor import Attention
from torch import nn

class TinyUNet(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.inner, self.outer = nn.Conv2d(channels, width, 3, padding=1), nn.Conv2d(width, channels, 3, padding=1)
        self.attentions = nn.ModuleList(Attention(query_dim=width, heads=2, dim_head=width // 2) for _ in range(2))

    def forward(self, x):
        hidden = self.inner(x)
        rows = hidden.flatten(2).transpose(1, 2)
        for attention in self.attentions:
            rows = rows + attention(rows)
        return self.outer(rows.transpose(1, 2).reshape(hidden.shape))
# --- weights.py
import torch
from safetensors.torch import save_file

def write_sharing_file(path, unet, frames, rank, seed):
    draw, tensors = torch.Generator().manual_seed(seed), {}
    for index, attention in enumerate(unet.attentions):
        width = attention.to_q.in_features
        for frame in range(frames):
            tensors[f"{index}.{frame}.down.weight"] = torch.randn(rank, width, generator=draw)
            tensors[f"{index}.{frame}.up.weight"] = torch.randn(width, rank, generator=draw) / 4
    save_file(tensors, path)
# --- sharing.py
from torch import nn

class LowRank(nn.Module):
    def __init__(self, width, rank):
        super().__init__()
        self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)

    def forward(self, x):
        return self.up(self.down(x))

class AttentionSharing:
    """A processor: each frame's queries have a layer of their own; keys are those of all frames."""

    def __init__(self, width, frames, rank, device):
        self.frames = frames
        self.lora = [LowRank(width, rank) for _ in range(frames)]

    def load(self, tensors, index):
        for frame, lora in enumerate(self.lora):
            begins = f"{index}.{frame}."
            lora.load_state_dict({name.removeprefix(begins): value for name, value in tensors.items() if name.startswith(begins)})

    def __call__(self, attn, hidden_states, **options):
        query = attn.to_q(hidden_states)
        for frame, lora in enumerate(self.lora):
            added = lora(hidden_states[frame :: self.frames])
            query[frame :: self.frames] = query[frame :: self.frames] + added
        rows, length, width = hidden_states.shape
        together = hidden_states.reshape(rows // self.frames, self.frames * length, width).repeat_interleave(self.frames, 0)
        query, key, value = (attn.head_to_batch_dim(each) for each in (query, attn.to_k(together), attn.to_v(together)))
        weights = attn.get_attention_scores(query, key)
        return attn.to_out[0](attn.batch_to_head_dim(weights @ value))

def patch_attention(unet, tensors, frames, rank):
    for index, attention in enumerate(unet.attentions):
        unit = AttentionSharing(attention.to_q.in_features, frames, rank, attention.to_q.weight.device)
        unit.load(tensors, index)
        attention.set_processor(unit)
# --- nodes.py
import torch
from safetensors.torch import load_file

from sharing import patch_attention

class LayeredDiffusion:
    def __init__(self, unet, path, frames, rank):
        self.unet, self.frames = unet, frames
        patch_attention(unet, load_file(path), frames, rank)

    @torch.no_grad()
    def sample(self, size, steps, seed):
        device = self.unet.outer.weight.device
        x = torch.randn(self.frames, 3, size, size, generator=torch.Generator().manual_seed(seed)).to(device)
        for _ in range(steps):
            x = x - self.unet(x) / steps
        return x.cpu()

# === neurons_return_to_rest
# thread: https://github.com/fangwei123456/spikingjelly/pull/743
# about: neurons that fire keep a potential from step to step, which is moved with their module. After each batch they go back to what they were when they were made
# operation: sub|add|mul|lerp on cuda:0, cpu
# operands: other|.*v|self|end
# category: cached-state|state-not-registered
# line: memory.py: self._memories[name] = function(value)
# line: memory.py: self._memories[name] = copy.deepcopy(
# line: memory.py: self._memories_rv[name] =
# line: memory.py: return super()._apply(
# line: neuron.py: self.v = self.v + (
# repair: memory.py: self._memories[name] = function(value) -> self._memories[name], self._memories_rv[name] = function(value), function(self._memories_rv[name])
import torch
from torch import nn

from data import bars
from memory import reset_net
from neuron import LIFNode

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Sequential(nn.Linear(9, 8), LIFNode(8, tau=2.0), nn.Linear(8, 2), LIFNode(2, tau=1.5)).to(device)
optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
losses = []
for pictures, labels in bars(batches=4, size=6, seed=9):
    pictures, labels = pictures.to(device), labels.to(device)
    rate = sum(net(pictures) for _ in range(5)) / 5
    loss = nn.functional.mse_loss(rate, nn.functional.one_hot(labels, 2).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    reset_net(net)
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- data.py
import torch

def bars(batches, size, seed):
    """Pictures of three by three with a bar that lies or stands."""
    draw = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        labels, places = torch.randint(2, (size,), generator=draw), torch.randint(3, (size,), generator=draw)
        pictures = 0.3 * torch.rand(size, 3, 3, generator=draw)
        for picture, stands, place in zip(pictures, labels.tolist(), places.tolist()):
            (picture.T if stands else picture)[place] += 1.0
        yield pictures.flatten(1), labels
# --- memory.py
import copy

from torch import nn

class MemoryModule(nn.Module):
    """Has memories, which are no parameters, and go back to their first values by `reset`."""

    def __init__(self):
        super().__init__()
        self._memories, self._memories_rv = {}, {}

    def register_memory(self, name, value):
        self._memories[name] = value
        self._memories_rv[name] = copy.deepcopy(value)

    def __getattr__(self, name):
        memories = self.__dict__.get("_memories", {})
        return memories[name] if name in memories else super().__getattr__(name)

    def __setattr__(self, name, value):
        memories = self.__dict__.get("_memories", {})
        if name in memories:
            memories[name] = value
        else:
            super().__setattr__(name, value)

    def reset(self):
        for name in self._memories:
            self._memories[name] = copy.deepcopy(self._memories_rv[name])

    def _apply(self, function, recurse=True):
        for name, value in self._memories.items():
            self._memories[name] = function(value)
        return super()._apply(function, recurse)

def reset_net(net):
    for module in net.modules():
        if isinstance(module, MemoryModule):
            module.reset()
# --- surrogate.py
import torch

class Fires(torch.autograd.Function):
    """A step, whose slope is taken for that of a smooth one."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x >= 0).to(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        slope = 1 / (1 + (2 * x) ** 2)
        return gradient * slope
# --- neuron.py
import torch

from memory import MemoryModule
from surrogate import Fires

class LIFNode(MemoryModule):
    def __init__(self, neurons, tau, threshold=0.5):
        super().__init__()
        self.tau, self.threshold = tau, threshold
        self.register_memory("v", torch.full((neurons,), 0.1))

    def forward(self, x):
        self.v = self.v + (x - self.v) / self.tau
        spikes = Fires.apply(self.v - self.threshold)
        self.v = self.v * (1 - spikes.detach())
        return spikes
