# === pictures_among_the_words_of_a_question
# thread: https://github.com/InternLM/InternLM-XComposer/issues/189
# about: a model that sees and talks is too big for one card. Its parts are laid on two of them by a table that its user wrote, and each part fetches what it
#   is called with
# operation: cat on cuda:0, cuda:1
# operands: tensors.*|wrap_embeds.*
# category: module-split
# line: "vision_proj": 1
# line: "vit": 1
# line: "model.tok_embeddings": 0
# line: modeling_internlm_xcomposer2.py: wrap_embeds = torch.cat(
# line: modeling_internlm_xcomposer2.py: wrap_embeds.append(image)
# line: modeling_internlm_xcomposer2.py: img_embeds = self.vision_proj(
# line: modeling_internlm_xcomposer2.py: part_embeds = self.model.tok_embeddings(
# repair: "vit": 1, -> "vit": 0,
# repair: "vision_proj": 1, -> "vision_proj": 0,
import torch

from dispatch import dispatch_model
from modeling_internlm_xcomposer2 import InternLMXComposer2ForCausalLM
from tokenization import Tokenizer

torch.set_grad_enabled(False)

NUM_LAYERS = 4
device_map = {
    "model.tok_embeddings": 0,
    **{f"model.layers.{i}": 0 for i in range(NUM_LAYERS // 2)},
    **{f"model.layers.{i}": 1 for i in range(NUM_LAYERS // 2, NUM_LAYERS)},
    "model.norm": 1,
    "output": 1,
    "vit": 1,
    "vision_proj": 1,
}

torch.manual_seed(189)
tokenizer = Tokenizer()
model = InternLMXComposer2ForCausalLM(tokenizer.vocab_size, hidden_size=16, num_layers=NUM_LAYERS).eval()
model = dispatch_model(model, device_map=device_map)

text = "<ImageHere>Please describe this image in detail."
image = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(4))
response, history = model.chat(tokenizer, query=text, image=image, history=[])
print(repr(response))
response, history = model.chat(tokenizer, query="And which colours has it?", image=None, history=history)
print("rounds", len(history), "second answer", [ord(c) for c in response])
# --- tokenization.py
class Tokenizer:
    """One token for each letter."""

    vocab_size = 128

    def __call__(self, text):
        return [min(ord(character), self.vocab_size - 1) for character in text]

    def decode(self, ids):
        return "".join(map(chr, ids))
# --- dispatch.py
import torch


def check_device_map(model, device_map):
    missing = [name for name, _ in model.named_parameters() if not any(name.startswith(key + ".") for key in device_map)]
    if missing:
        raise ValueError(f"The device_map provided does not give any device for the following parameters: {', '.join(missing)}")


class AlignDevicesHook:
    def __init__(self, execution_device):
        self.execution_device = execution_device

    def __call__(self, module, args):
        return tuple(arg.to(self.execution_device) if isinstance(arg, torch.Tensor) else arg for arg in args)


def dispatch_model(model, device_map):
    check_device_map(model, device_map)
    for name, index in device_map.items():
        device = torch.device("cuda", index)
        module = model.get_submodule(name).to(device)
        module.register_forward_pre_hook(AlignDevicesHook(device))
    return model
# --- modeling_internlm_xcomposer2.py
import torch
from torch import nn


class InternLM2DecoderLayer(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.attention_norm = nn.LayerNorm(hidden_size)
        self.wqkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.wo = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states):
        q, k, v = self.wqkv(self.attention_norm(hidden_states)).chunk(3, dim=-1)
        attn_output = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return hidden_states + self.wo(attn_output)


class InternLM2Model(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_layers):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab_size, hidden_size)
        self.layers = nn.ModuleList(InternLM2DecoderLayer(hidden_size) for _ in range(num_layers))
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, inputs_embeds):
        hidden_states = inputs_embeds
        for decoder_layer in self.layers:
            hidden_states = decoder_layer(hidden_states)
        return self.norm(hidden_states)


class InternLMXComposer2ForCausalLM(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_layers):
        super().__init__()
        self.model = InternLM2Model(vocab_size, hidden_size, num_layers)
        self.output = nn.Linear(hidden_size, vocab_size, bias=False)
        self.vit = nn.Sequential(nn.Conv2d(3, 12, 4, stride=4), nn.GELU(), nn.Flatten(2))
        self.vision_proj = nn.Linear(12, hidden_size)

    @property
    def device(self):
        return next(self.parameters()).device

    def encode_img(self, image):
        if image is None:
            return None
        img_features = self.vit(image.unsqueeze(0).to(self.device))
        img_embeds = self.vision_proj(img_features.transpose(1, 2))
        return img_embeds

    def interleav_wrap_chat(self, tokenizer, query, image, history):
        prompt = "".join(f"[U]{question}[B]{answer}" for question, answer in history) + f"[U]{query}[B]"
        parts = prompt.split("<ImageHere>") if image is not None else [prompt.replace("<ImageHere>", "")]
        wrap_embeds = []
        for idx, part in enumerate(parts):
            if part:
                part_tokens = torch.tensor([tokenizer(part)], device=self.device)
                part_embeds = self.model.tok_embeddings(part_tokens)
                wrap_embeds.append(part_embeds)
            if idx < len(parts) - 1:
                wrap_embeds.append(image)
        wrap_embeds = torch.cat(wrap_embeds, dim=1)
        return wrap_embeds

    def generate(self, inputs_embeds, max_new_tokens=8):
        tokens = []
        for _ in range(max_new_tokens):
            logits = self.output(self.model(inputs_embeds))[:, -1]
            next_token = logits.argmax(-1)
            tokens.append(next_token.item())
            next_embeds = self.model.tok_embeddings(next_token[:, None])
            inputs_embeds = torch.cat([inputs_embeds, next_embeds], dim=1)
        return tokens

    def chat(self, tokenizer, query, image=None, history=()):
        image = self.encode_img(image)
        inputs_embeds = self.interleav_wrap_chat(tokenizer, query, image, history)
        response = tokenizer.decode(self.generate(inputs_embeds))
        return response, [*history, (query, response)]

# === a_pendulum_swung_up_step_by_step
# thread: https://github.com/AI4Finance-Foundation/ElegantRL/issues/369
# about: an agent swings a pendulum up. It plays for a while and then learns of all that it saw, for which it looks beyond the last step
# operation: addmm|linear on cpu, cuda:0
# operands: input|mat1|self|state|last_state
# category: input-not-moved|created-without-device
# line: agent.py: self.last_state = state
# line: agent.py: last_state = self.last_state
# line: agent.py: next_action = self.act_target(last_state)
# line: agent.py: state = torch.as_tensor(
# repair: agent.py: self.last_state = state -> self.last_state = state.to(self.device)
import torch

from agent import AgentDDPG
from config import Config
from env import PendulumEnv


def train_agent(args):
    torch.manual_seed(args.random_seed)
    env = PendulumEnv(args.random_seed)
    agent = AgentDDPG(args.net_dims, env.state_dim, env.action_dim, args)
    agent.last_state = torch.as_tensor(env.reset(), dtype=torch.float32)

    buffer, logs = [], []
    torch.set_grad_enabled(False)
    while len(logs) < args.break_round:
        buffer_items = agent.explore_env(env, args.horizon_len)
        buffer = [torch.cat([old, new])[-args.buffer_size :] for old, new in zip(buffer, buffer_items)] or list(buffer_items)
        exp_r = buffer_items[2].mean().item()

        torch.set_grad_enabled(True)
        logging_tuple = agent.update_net(buffer, buffer_items)
        torch.set_grad_enabled(False)
        logs.append((exp_r, *logging_tuple))
        print("|".join(f"{value:8.3f}" for value in logs[-1]))
    return logs


if __name__ == "__main__":
    logs = train_agent(Config(gpu_id=0))
    print("return std", round(logs[-1][3], 4), "critic", round(logs[-1][1], 4))
# --- config.py
from dataclasses import dataclass


@dataclass
class Config:
    gpu_id: int = -1
    net_dims: tuple = (24, 16)
    gamma: float = 0.97
    learning_rate: float = 2e-3
    state_value_tau: float = 0.1
    explore_noise_std: float = 0.1
    horizon_len: int = 32
    buffer_size: int = 96
    batch_size: int = 16
    repeat_times: int = 4
    break_round: int = 3
    random_seed: int = 0
# --- env.py
import numpy as np


class PendulumEnv:
    state_dim, action_dim, max_step = 3, 1, 50

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.theta, self.theta_dot, self.count = self.random.uniform(-np.pi, np.pi), 0.0, 0
        return self.observe()

    def observe(self):
        return np.array([np.cos(self.theta), np.sin(self.theta), self.theta_dot], dtype=np.float32)

    def step(self, action):
        torque = 2.0 * float(action[0])
        angle = (self.theta + np.pi) % (2 * np.pi) - np.pi
        reward = -(angle**2 + 0.1 * self.theta_dot**2 + 0.001 * torque**2) * 0.5
        self.theta_dot = float(np.clip(self.theta_dot + (15 * np.sin(self.theta) + 3 * torque) * 0.05, -8, 8))
        self.theta += self.theta_dot * 0.05
        self.count += 1
        return self.observe(), reward, self.count >= self.max_step
# --- net.py
import torch
from torch import nn


def build_mlp(dims):
    layers = []
    for dim_in, dim_out in zip(dims, dims[1:]):
        layers += [nn.Linear(dim_in, dim_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Actor(nn.Module):
    def __init__(self, net_dims, state_dim, action_dim):
        super().__init__()
        self.net = build_mlp([state_dim, *net_dims, action_dim])

    def forward(self, state):
        return self.net(state).tanh()


class Critic(nn.Module):
    def __init__(self, net_dims, state_dim, action_dim):
        super().__init__()
        self.net = build_mlp([state_dim + action_dim, *net_dims, 1])

    def forward(self, state, action):
        return self.net(torch.cat([state, action], dim=-1)).squeeze(-1)
# --- agent.py
import copy

import torch

from net import Actor, Critic


class AgentDDPG:
    def __init__(self, net_dims, state_dim, action_dim, args):
        self.args = args
        self.device = torch.device(f"cuda:{args.gpu_id}" if torch.cuda.is_available() and args.gpu_id >= 0 else "cpu")
        self.act = Actor(net_dims, state_dim, action_dim).to(self.device)
        self.cri = Critic(net_dims, state_dim, action_dim).to(self.device)
        self.act_target, self.cri_target = copy.deepcopy(self.act), copy.deepcopy(self.cri)
        self.act_optimizer = torch.optim.Adam(self.act.parameters(), args.learning_rate)
        self.cri_optimizer = torch.optim.Adam(self.cri.parameters(), args.learning_rate)
        self.noise = torch.Generator().manual_seed(args.random_seed)
        self.last_state = None
        self.return_std = 1.0

    def explore_env(self, env, horizon_len):
        states = torch.zeros(horizon_len, env.state_dim, device=self.device)
        actions = torch.zeros(horizon_len, env.action_dim, device=self.device)
        rewards = torch.zeros(horizon_len, device=self.device)
        undones = torch.zeros(horizon_len, device=self.device)
        state = self.last_state
        for t in range(horizon_len):
            states[t] = state
            noise = self.args.explore_noise_std * torch.randn(env.action_dim, generator=self.noise)
            action = (self.act(states[t]).cpu() + noise).clip(-1, 1)
            ary_state, reward, done = env.step(action.numpy())
            state = torch.as_tensor(env.reset() if done else ary_state, dtype=torch.float32)
            actions[t], rewards[t], undones[t] = action, reward, 1.0 - done
        self.last_state = state
        return states, actions, rewards, undones

    def get_cumulative_rewards(self, rewards, undones):
        returns = torch.empty_like(rewards)
        masks = undones * self.args.gamma
        last_state = self.last_state
        next_action = self.act_target(last_state)
        next_value = self.cri_target(last_state, next_action)
        for t in range(len(rewards) - 1, -1, -1):
            returns[t] = next_value = rewards[t] + masks[t] * next_value
        return returns

    def update_net(self, buffer, buffer_items):
        with torch.no_grad():
            returns = self.get_cumulative_rewards(buffer_items[2], buffer_items[3])
            self.return_std += self.args.state_value_tau * (returns.std().item() - self.return_std)
        obj_critic = obj_actor = torch.zeros(1)
        for round_ in range(self.args.repeat_times):
            obj_critic = self.update_critic(buffer, round_)
            obj_actor = -self.cri(buffer[0], self.act(buffer[0])).mean()
            self.step(self.act_optimizer, obj_actor)
        return obj_critic.item(), -obj_actor.item(), self.return_std

    def update_critic(self, buffer, round_):
        states, actions, rewards, undones = buffer
        ids = (torch.arange(self.args.batch_size, device=self.device) * (2 * round_ + 3)) % (len(states) - 1)
        with torch.no_grad():
            following = self.cri_target(states[ids + 1], self.act_target(states[ids + 1]))
            q_labels = rewards[ids] + undones[ids] * self.args.gamma * following
        obj_critic = torch.nn.functional.smooth_l1_loss(self.cri(states[ids], actions[ids]), q_labels)
        self.step(self.cri_optimizer, obj_critic)
        return obj_critic

    @staticmethod
    def step(optimizer, objective):
        optimizer.zero_grad()
        objective.backward()
        optimizer.step()

# === particles_that_share_one_critic
# thread: https://github.com/marlbenchmark/off-policy/pull/12
# about: several agents move to landmarks, and one critic for all of them says how good it is. It has as many outputs as the algorithm needs to doubt itself
# operation: addmm|linear on cuda:0, cpu
# operands: weight|bias|mat2|self|mat1|.*q_outs?.*
# category: state-not-registered|module-split
# line: offpolicy/actor_critic.py: self.q_outs = [
# line: offpolicy/actor_critic.py: q_values = [
# repair: offpolicy/actor_critic.py: self.q_outs = [init_(nn.Linear(self.hidden_size, 1)) for _ in range(num_q_outs)]
#   -> self.q_outs = nn.ModuleList([init_(nn.Linear(self.hidden_size, 1)) for _ in range(num_q_outs)])
import argparse
import sys

import torch

from offpolicy.envs import SimpleSpread
from offpolicy.maddpg import MADDPG
from offpolicy.utils import ReplayBuffer


def parse_args(args):
    parser = argparse.ArgumentParser()
    parser.add_argument("--algorithm_name", default="matd3", choices=["maddpg", "matd3"])
    parser.add_argument("--num_agents", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--hidden_size", type=int, default=20)
    parser.add_argument("--cuda", action="store_false")
    return parser.parse_args(args)


def main(args):
    all_args = parse_args(args)
    torch.manual_seed(all_args.seed)
    device = torch.device("cuda:0" if all_args.cuda and torch.cuda.is_available() else "cpu")
    env = SimpleSpread(all_args.num_agents, all_args.seed)
    policy = MADDPG(all_args, env.obs_dim, env.act_dim, device)
    buffer = ReplayBuffer(all_args.seed)

    for episode in range(3):
        obs = env.reset()
        for _ in range(10):
            act = policy.get_actions(obs)
            next_obs, reward = env.step(act)
            buffer.insert(obs, act, reward, next_obs)
            obs = next_obs
        info = policy.train_policy_on_batch(buffer.sample(batch_size=16))
        print("episode", episode, "reward", round(float(reward), 3), "critic_loss", round(info["critic_loss"], 3))
    print("critic_loss", round(info["critic_loss"], 4), "actor_loss", round(info["actor_loss"], 4))


if __name__ == "__main__":
    main(sys.argv[1:])
# --- offpolicy/__init__.py
# --- offpolicy/envs.py
import numpy as np


class SimpleSpread:
    """As many landmarks as agents; the nearer the better."""

    act_dim = 2

    def __init__(self, num_agents, seed):
        self.num_agents, self.random = num_agents, np.random.default_rng(seed)
        self.obs_dim = 2 + 2 * num_agents

    def observe(self):
        offsets = self.landmarks[None] - self.positions[:, None]
        return np.concatenate([self.positions, offsets.reshape(self.num_agents, -1)], axis=1).astype(np.float32)

    def reset(self):
        self.positions = self.random.uniform(-1, 1, (self.num_agents, 2))
        self.landmarks = self.random.uniform(-1, 1, (self.num_agents, 2))
        return self.observe()

    def step(self, actions):
        self.positions = self.positions + 0.1 * actions
        distances = np.linalg.norm(self.landmarks[None] - self.positions[:, None], axis=-1)
        return self.observe(), np.float32(-distances.min(axis=0).sum())
# --- offpolicy/utils.py
import numpy as np
import torch
from torch import nn


def to_torch(value):
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def init_(module):
    nn.init.orthogonal_(module.weight.data)
    nn.init.constant_(module.bias.data, 0)
    return module


class ReplayBuffer:
    def __init__(self, seed):
        self.transitions, self.random = [], np.random.default_rng(seed)

    def insert(self, *transition):
        self.transitions.append(transition)

    def sample(self, batch_size):
        indices = self.random.integers(len(self.transitions), size=batch_size)
        return [np.stack(column) for column in zip(*[self.transitions[i] for i in indices])]
# --- offpolicy/actor_critic.py
import torch
from torch import nn

from offpolicy.utils import init_, to_torch


class MLPBase(nn.Module):
    def __init__(self, input_dim, hidden_size):
        super().__init__()
        self.feature_norm = nn.LayerNorm(input_dim)
        self.fc1 = nn.Sequential(init_(nn.Linear(input_dim, hidden_size)), nn.ReLU(), nn.LayerNorm(hidden_size))

    def forward(self, x):
        return self.fc1(self.feature_norm(x))


class MADDPG_Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_size, device):
        super().__init__()
        self.tpdv = dict(dtype=torch.float32, device=device)
        self.mlp = MLPBase(obs_dim, hidden_size)
        self.act = init_(nn.Linear(hidden_size, act_dim))
        self.to(device)

    def forward(self, x):
        return self.act(self.mlp(to_torch(x).to(**self.tpdv))).tanh()


class MADDPG_Critic(nn.Module):
    def __init__(self, central_obs_dim, central_act_dim, hidden_size, device, num_q_outs=1):
        super().__init__()
        self.tpdv = dict(dtype=torch.float32, device=device)
        self.hidden_size = hidden_size
        self.mlp = MLPBase(central_obs_dim + central_act_dim, self.hidden_size)
        self.q_outs = [init_(nn.Linear(self.hidden_size, 1)) for _ in range(num_q_outs)]
        self.to(device)

    def forward(self, central_obs, central_act):
        central_obs = to_torch(central_obs).to(**self.tpdv)
        central_act = to_torch(central_act).to(**self.tpdv)
        x = self.mlp(torch.cat([central_obs, central_act], dim=1))
        q_values = [q_out(x) for q_out in self.q_outs]
        return q_values
# --- offpolicy/maddpg.py
import copy

import torch

from offpolicy.actor_critic import MADDPG_Actor, MADDPG_Critic
from offpolicy.utils import to_torch


class MADDPG:
    def __init__(self, args, obs_dim, act_dim, device, gamma=0.95, tau=0.02):
        self.gamma, self.tau, self.tpdv = gamma, tau, dict(dtype=torch.float32, device=device)
        num_q_outs = 2 if args.algorithm_name == "matd3" else 1
        self.actor = MADDPG_Actor(obs_dim, act_dim, args.hidden_size, device)
        self.critic = MADDPG_Critic(obs_dim * args.num_agents, act_dim * args.num_agents, args.hidden_size, device, num_q_outs)
        self.target_actor, self.target_critic = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=args.lr)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=args.lr)

    @torch.no_grad()
    def get_actions(self, obs):
        return self.actor(obs).cpu().numpy()

    def train_policy_on_batch(self, batch):
        obs, act, reward, next_obs = batch
        central = [to_torch(value).flatten(1) for value in (obs, act, next_obs)]
        with torch.no_grad():
            next_act = self.target_actor(next_obs).flatten(1)
            next_q = torch.cat(self.target_critic(central[2], next_act), dim=-1).min(dim=-1).values
            target = to_torch(reward).to(**self.tpdv) + self.gamma * next_q
        critic_loss = sum(((q.squeeze(-1) - target) ** 2).mean() for q in self.critic(central[0], central[1]))
        self.update(self.critic_optimizer, critic_loss)
        actor_loss = -self.critic(central[0], self.actor(obs).flatten(1))[0].mean()
        self.update(self.actor_optimizer, actor_loss)
        for target_net, net in ((self.target_actor, self.actor), (self.target_critic, self.critic)):
            for target_param, param in zip(target_net.parameters(), net.parameters()):
                target_param.data.lerp_(param.data, self.tau)
        return {"critic_loss": critic_loss.item(), "actor_loss": actor_loss.item()}

    @staticmethod
    def update(optimizer, loss):
        optimizer.zero_grad(), loss.backward(), optimizer.step()

# === cells_of_a_picture_that_hold_things
# thread: https://github.com/Bobo-y/flexible-yolov5/issues/111
# about: a detector was saved whole after its training, and a script reads it, puts it on the card and counts what it finds. Where the cells of a picture lie
#   it works out once
# operation: add on cuda:0, cpu
# operands: self|other|y|.*grid.*
# category: state-not-registered|cached-state|checkpoint
# line: model = attempt_load(
# line: detection = model.detection
# line: od/yolov5_head.py: if self.grid[i].shape[2:4] != x[i].shape[2:4]:
# line: od/yolov5_head.py: self.grid[i], self.anchor_grid[i] = self._make_grid(
# line: od/yolov5_head.py: self.grid = [
# line: od/yolov5_head.py: y[..., 0:2] = (
# line: od/experimental.py: model = torch.load(
# repair: detection = model.detection -> detection = model.detection; detection.grid = [g.to(device) for g in detection.grid]
# repair: num_outputs = detection.no -> num_outputs = detection.no; detection.anchor_grid = [a.to(device) for a in detection.anchor_grid]
import os
import tempfile

import torch

from od.experimental import attempt_load, train_and_save


def non_max_suppression(prediction, conf_thres):
    confidence = prediction[..., 4] * prediction[..., 5:].max(dim=-1).values
    return [rows[scores > conf_thres] for rows, scores in zip(prediction, confidence)]


@torch.no_grad()
def test(weights, images, conf_thres=0.25):
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = attempt_load(weights).to(device)
    detection = model.detection
    num_outputs = detection.no
    print("strides", detection.stride.tolist(), "outputs for each anchor", num_outputs)

    seen, kept, extent = 0, 0, 0.0
    for img in images:
        out = model(img.unsqueeze(0).to(device))
        for rows in non_max_suppression(out, conf_thres):
            kept += len(rows)
            extent += rows[:, 2:4].prod(dim=1).sum().item()
        seen += 1
    return seen, kept, extent


def main():
    draw = torch.Generator().manual_seed(111)
    images = [torch.rand(3, 32, 32, generator=draw) for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, "best.pt")
        train_and_save(weights, images, seed=5)
        seen, kept, extent = test(weights, images)
    print("images", seen, "boxes", kept, "extent", round(extent, 2))


if __name__ == "__main__":
    main()
# --- od/__init__.py
# --- od/yolov5_head.py
import torch
from torch import nn


class YOLOHead(nn.Module):
    stride = None

    def __init__(self, nc=3, anchors=((4, 6, 8, 6), (12, 10, 14, 20)), ch=(8, 12)):
        super().__init__()
        self.nc, self.no = nc, nc + 5
        self.nl, self.na = len(anchors), len(anchors[0]) // 2
        self.grid = [torch.zeros(1)] * self.nl
        self.anchor_grid = [torch.zeros(1)] * self.nl
        self.register_buffer("anchors", torch.tensor(anchors).float().view(self.nl, -1, 2))
        self.m = nn.ModuleList(nn.Conv2d(x, self.no * self.na, 1) for x in ch)

    def forward(self, x):
        z = []
        for i in range(self.nl):
            x[i] = self.m[i](x[i])
            bs, _, ny, nx = x[i].shape
            x[i] = x[i].view(bs, self.na, self.no, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
            if not self.training:
                if self.grid[i].shape[2:4] != x[i].shape[2:4]:
                    self.grid[i], self.anchor_grid[i] = self._make_grid(nx, ny, i)
                y = x[i].sigmoid()
                y[..., 0:2] = (y[..., 0:2] * 2.0 - 0.5 + self.grid[i]) * self.stride[i]
                y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * self.anchor_grid[i]
                z.append(y.view(bs, -1, self.no))
        return x if self.training else torch.cat(z, 1)

    def _make_grid(self, nx, ny, i):
        d = self.anchors[i].device
        yv, xv = torch.meshgrid([torch.arange(ny, device=d), torch.arange(nx, device=d)], indexing="ij")
        grid = torch.stack((xv, yv), 2).expand(1, self.na, ny, nx, 2).float()
        anchor_grid = self.anchors[i].view(1, self.na, 1, 1, 2).expand(1, self.na, ny, nx, 2)
        return grid, anchor_grid
# --- od/model.py
import torch
from torch import nn

from od.yolov5_head import YOLOHead


class Model(nn.Module):
    def __init__(self, s=32):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), nn.SiLU())
        self.fpn = nn.Sequential(nn.Conv2d(8, 12, 2, stride=2), nn.SiLU())
        self.detection = YOLOHead()
        shapes = [out.shape[2] for out in self.forward(torch.zeros(1, 3, s, s))]
        self.detection.stride = torch.tensor([s / side for side in shapes])

    def forward(self, x):
        c3 = self.backbone(x)
        return self.detection([c3, self.fpn(c3)])
# --- od/experimental.py
import torch

from od.model import Model


def fitness(model, images):
    """How sure the model is of what it sees."""
    model.eval()
    with torch.no_grad():
        return model(torch.stack(images))[..., 4].mean().item()


def train_and_save(weights, images, seed, epochs=2):
    torch.manual_seed(seed)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    results = []
    for _ in range(epochs):
        model.train()
        loss = sum(out[..., 4].sigmoid().sub(0.6).square().mean() for out in model(torch.stack(images)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results.append(fitness(model, images))
    torch.save({"epoch": epochs, "results": results, "model": model}, weights)


def attempt_load(weights):
    model = torch.load(weights, map_location="cpu", weights_only=False)["model"]
    return model.float().eval()

# === sounds_drawn_as_pictures
# thread: https://github.com/moiseshorta/MelSpecVAE/issues/5
# about: in a notebook sounds are turned into pictures of their pitches, for which a network is to be trained. The workstation has two cards, of which
#   somebody else uses the first
# operation: stft on cuda:1, cuda:0
# operands: self|input|window|waveform
# category: default-or-current-device|created-without-device
# line: S = np.array(torch.squeeze(melspecfunc(torch.Tensor(wv)
# line: torch.cuda.set_device(1)
# line: specobj = Spectrogram(
# line: torchaudio_like.py: return torch.stft(
# repair: S = np.array(torch.squeeze(melspecfunc(torch.Tensor(wv).view(1, -1))).detach().cpu())
#   -> S = np.array(torch.squeeze(melspecfunc(torch.Tensor(wv).view(1, -1).to(specobj.window.device))).detach().cpu())
# In[1]:
import numpy as np
import torch

from torchaudio_like import MelScale, Spectrogram

torch.set_default_tensor_type("torch.cuda.FloatTensor")

# In[2]:
hop = 32
sr = 2000
shape = 8
min_level_db = -100
ref_level_db = 20

specobj = Spectrogram(n_fft=4 * hop, win_length=4 * hop, hop_length=hop)
specfunc = specobj.forward
melobj = MelScale(n_mels=hop, sample_rate=sr, f_min=0.0, n_stft=2 * hop + 1)
melfunc = melobj.forward


# In[3]:
def melspecfunc(waveform):
    specgram = specfunc(waveform)
    mel_specgram = melfunc(specgram)
    return mel_specgram


def power_to_db(S, amin=1e-10):
    return 10.0 * np.log10(np.maximum(amin, S))


def normalize(S):
    return np.clip((((S - min_level_db) / -min_level_db) * 2.0) - 1.0, -1, 1)


def prep(wv):
    S = np.array(torch.squeeze(melspecfunc(torch.Tensor(wv).view(1, -1))).detach().cpu())
    S = power_to_db(S) - ref_level_db
    return normalize(S)


# In[4]:
torch.cuda.set_device(1)


# In[5]:
def audio_array(count=3, seconds=0.6):
    t = np.arange(int(sr * seconds)) / sr
    random = np.random.default_rng(5)
    sounds = []
    for pitch in random.uniform(80, 600, count):
        sounds.append(np.sin(2 * np.pi * pitch * t) * np.exp(-2 * t) + 0.01 * random.standard_normal(len(t)))
    return np.array(sounds, dtype=np.float32)


def tospec(data):
    specs = np.empty(data.shape[0], dtype=object)
    for i in range(data.shape[0]):
        x = data[i]
        S = prep(x)
        S = np.array(S, dtype=np.float32)
        specs[i] = np.expand_dims(S, -1)
    return specs


def splitcut(data):
    cuts = []
    for spec in data:
        for start in range(0, spec.shape[1] - shape + 1, shape):
            cuts.append(spec[:, start : start + shape])
    return np.array(cuts)


awv = audio_array()
aspec = tospec(awv)
adata = splitcut(aspec)
print(np.shape(adata), round(float(adata.mean()), 3), round(float(adata.std()), 3))
# --- torchaudio_like.py
import math

import torch
from torch import nn


class Spectrogram(nn.Module):
    def __init__(self, n_fft, win_length, hop_length, power=2.0):
        super().__init__()
        self.n_fft, self.win_length, self.hop_length, self.power = n_fft, win_length, hop_length, power
        self.register_buffer("window", torch.hann_window(win_length))

    def stft(self, waveform):
        return torch.stft(waveform, self.n_fft, self.hop_length, self.win_length, self.window, center=True, return_complex=True)

    def forward(self, waveform):
        return self.stft(waveform).abs().pow(self.power)


def hz_to_mel(frequency):
    return 2595.0 * math.log10(1.0 + frequency / 700.0)


class MelScale(nn.Module):
    def __init__(self, n_mels, sample_rate, f_min, n_stft):
        super().__init__()
        frequencies = torch.linspace(0, sample_rate // 2, n_stft)
        mels = torch.linspace(hz_to_mel(f_min), hz_to_mel(sample_rate / 2), n_mels + 2)
        points = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
        slopes = points[None] - frequencies[:, None]
        down = -slopes[:, :-2] / (points[1:-1] - points[:-2])
        up = slopes[:, 2:] / (points[2:] - points[1:-1])
        self.register_buffer("fb", torch.minimum(down, up).clamp(min=0))

    def forward(self, specgram):
        return torch.matmul(specgram.transpose(-1, -2), self.fb).transpose(-1, -2)

# === solvents_for_a_reaction
# thread: https://github.com/Lung-Yi/rxn_yield_context/issues/3
# about: for a reaction that is given by its fingerprint, one model proposes solvents and reagents, and another ranks all that can be combined of them
# operation: addmm|linear on cpu, cuda:0
# operands: input|mat1|self|rxn_fp|fp
# category: input-not-moved
# line: evaluation_utils.py: rxn_fp = rxn_fp.repeat(
# line: evaluation_utils.py: rxn_fp = rxn_fp.view(
# line: evaluation_utils.py: rxn_fp = rxn_fp.unsqueeze(0)
# line: evaluation_utils.py: scores, temperatures = self.model(rxn_fp
# line: top_contexts = rc_ranker.rank_top_contexts(
# line: rxn_fp = create_rxn_Morgan2FP_concatenate(
# repair: evaluation_utils.py: rxn_fp = rxn_fp.unsqueeze(0) -> rxn_fp = rxn_fp.unsqueeze(0).to(self.device)
import os
import tempfile

import torch

from evaluation_utils import Multitask_Multilabel_Evaluator, Ranking_Evaluator
from fingerprints import create_rxn_Morgan2FP_concatenate
from models import save_models

SOLVENTS = ["water", "ethanol", "toluene", "THF", "DMF", "DCM"]
REAGENTS = ["K2CO3", "Pd(PPh3)4", "NaH", "HCl", "CuI", "None", "Et3N"]
REACTIONS = [
    ("Brc1ccccc1.OB(O)c1ccccc1", "c1ccc(-c2ccccc2)cc1"),
    ("CC(=O)O.OCC", "CC(=O)OCC"),
]


def predict(folder, fp_size=64, topk=3):
    rc_multilabel = Multitask_Multilabel_Evaluator(SOLVENTS, REAGENTS, cutoff_solv=0.45, cutoff_reag=0.45)
    rc_multilabel.load_model(os.path.join(folder, "first_model.pt"))
    rc_ranker = Ranking_Evaluator(SOLVENTS, REAGENTS)
    rc_ranker.load_model(os.path.join(folder, "second_model.pt"))

    total = []
    for reactants, product in REACTIONS:
        rxn_fp = create_rxn_Morgan2FP_concatenate(reactants, product, fp_size)
        input_solvents, input_reagents = rc_multilabel.make_input_rxn_condition(rxn_fp)
        top_contexts = rc_ranker.rank_top_contexts(rxn_fp, input_solvents, input_reagents)
        print(product, top_contexts[:topk])
        total.append((len(top_contexts), round(top_contexts[0][3], 4)))
    return total


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        save_models(folder, fp_size=64, len_solvent=len(SOLVENTS), len_reagent=len(REAGENTS), seed=13)
        with torch.no_grad():
            print("contexts and best score", *predict(folder))
# --- fingerprints.py
import numpy as np
import torch


def fingerprint(smiles, fp_size, radius=2):
    """One bit for each piece of up to `radius` letters."""
    bits = np.zeros(fp_size, dtype=np.float32)
    for size in range(1, radius + 1):
        for start in range(len(smiles) - size + 1):
            code = 0
            for letter in smiles[start : start + size]:
                code = code * 131 + ord(letter)
            bits[code % fp_size] = 1
    return bits


def create_rxn_Morgan2FP_concatenate(rsmi, psmi, fp_size):
    reactants, product = fingerprint(rsmi, fp_size), fingerprint(psmi, fp_size)
    return torch.from_numpy(np.concatenate([product, product - reactants]))
# --- models.py
import os

import torch
from torch import nn


class ReactionModel_Multitask(nn.Module):
    def __init__(self, fp_size, len_solvent, len_reagent, hidden=24):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(2 * fp_size, hidden), nn.ReLU())
        self.solvent_head = nn.Linear(hidden, len_solvent)
        self.reagent_head = nn.Linear(hidden, len_reagent)

    def forward(self, rxn_fp):
        shared = self.shared(rxn_fp)
        return self.solvent_head(shared).sigmoid(), self.reagent_head(shared).sigmoid()


class ReactionModel_LWTemp(nn.Module):
    def __init__(self, fp_size, len_solvent, len_reagent, hidden=24):
        super().__init__()
        self.fp_layer = nn.Sequential(nn.Linear(2 * fp_size, hidden), nn.ReLU())
        self.context_layer = nn.Sequential(nn.Linear(len_solvent + len_reagent, hidden), nn.ReLU())
        self.ranking_layer = nn.Linear(2 * hidden, 1)
        self.temperature_layer = nn.Linear(2 * hidden, 1)

    def forward(self, fp, solvent, reagent):
        context = self.context_layer(torch.cat([solvent, reagent], dim=-1))
        hidden = torch.cat([self.fp_layer(fp), context], dim=-1)
        return self.ranking_layer(hidden), self.temperature_layer(hidden) * 100


def save_models(folder, fp_size, len_solvent, len_reagent, seed):
    torch.manual_seed(seed)
    for file, cls in (("first_model.pt", ReactionModel_Multitask), ("second_model.pt", ReactionModel_LWTemp)):
        args = {"fp_size": fp_size, "len_solvent": len_solvent, "len_reagent": len_reagent}
        torch.save({"args": args, "state_dict": cls(**args).state_dict()}, os.path.join(folder, file))
# --- evaluation_utils.py
from itertools import combinations

import torch
import torch.nn.functional as F

from models import ReactionModel_LWTemp, ReactionModel_Multitask

DEVICE = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")


class Multitask_Multilabel_Evaluator:
    """ Proposes what may be put together. """

    def __init__(self, solvent_classes, reagent_classes, cutoff_solv, cutoff_reag):
        self.solvent_classes, self.reagent_classes = solvent_classes, reagent_classes
        self.cutoff_solv, self.cutoff_reag = cutoff_solv, cutoff_reag

    def load_model(self, model_path, device=DEVICE):
        state = torch.load(model_path, map_location=device)
        self.device = device
        self.model = ReactionModel_Multitask(**state["args"]).to(device)
        self.model.load_state_dict(state["state_dict"])
        self.model.eval()

    @staticmethod
    def enumerate_combinations(preds, cutoff, upper=2):
        candidates = [i for i, p in enumerate(preds.tolist()) if p > cutoff] or [preds.argmax().item()]
        chosen = [c for size in range(1, upper + 1) for c in combinations(candidates, size)]
        features = torch.zeros(len(chosen), len(preds))
        for row, indices in zip(features, chosen):
            row[list(indices)] = 1
        return features

    def make_input_rxn_condition(self, rxn_fp):
        """ Enumerate all possible reaction conditions for the inputs of ranking model. """
        rxn_fp = rxn_fp.to(self.device)
        preds_solv, preds_reag = self.model(rxn_fp)
        solvents = self.enumerate_combinations(preds_solv, self.cutoff_solv)
        reagents = self.enumerate_combinations(preds_reag, self.cutoff_reag)
        return solvents.repeat_interleave(len(reagents), dim=0), reagents.repeat(len(solvents), 1)


class Ranking_Evaluator:
    """ Used to rank the different reaction conditions. """

    def __init__(self, solvent_classes, reagent_classes):
        self.solvent_classes, self.reagent_classes = solvent_classes, reagent_classes
        self.model = None
        self.device = None

    def load_model(self, model_path, device=DEVICE):
        self.device = device
        state = torch.load(model_path, map_location=device)
        self.model = ReactionModel_LWTemp(**state["args"]).to(device)
        self.model.load_state_dict(state["state_dict"])
        self.model.eval()

    def make_contexts(self, input_solvents, input_reagents):
        def names(features, classes):
            return "; ".join(classes[i] for i in features.nonzero().flatten().tolist())

        solvents = [names(row, self.solvent_classes) for row in input_solvents]
        return list(zip(solvents, [names(row, self.reagent_classes) for row in input_reagents]))

    def predict_scores(self, rxn_fp, input_solvents, input_reagents):
        """ Input rxn_fp shape should be [1, N, fp_size*2] per query. """
        input_solvents = input_solvents.unsqueeze(0).to(self.device)
        input_reagents = input_reagents.unsqueeze(0).to(self.device)

        rxn_fp = rxn_fp.view(1, -1)
        rxn_fp = rxn_fp.repeat(input_solvents.shape[1], 1)
        rxn_fp = rxn_fp.unsqueeze(0)

        scores, temperatures = self.model(rxn_fp, input_solvents, input_reagents)
        scores = F.softmax(scores, dim=1).view(-1)
        return scores, temperatures.view(-1).tolist()

    def rank_top_contexts(self, rxn_fp, input_solvents, input_reagents):
        contexts = self.make_contexts(input_solvents, input_reagents)
        scores, temperatures = self.predict_scores(rxn_fp, input_solvents, input_reagents)
        top_index = torch.argsort(scores, descending=True).tolist()
        return [[*contexts[j], round(temperatures[j], 1), scores[j].item()] for j in top_index]
