# === channels_that_quiet_each_other
# thread: https://github.com/jorge-pessoa/pytorch-gdn/pull/5
# about: small pictures are squeezed and unfolded again. Between the layers channels are divided by what their neighbours say, and multiplied by it
#   on the way back
# operation: (sub|rsub) on cuda:0, cpu
# operands: other|.*pedestal.*|.*reparam_offset.*
# category: created-without-device|state-not-registered
# line: pytorch_gdn/gdn.py: self.pedestal = self.reparam_offset ** 2
# line: pytorch_gdn/gdn.py: self.reparam_offset = torch.FloatTensor([reparam_offset])
# line: pytorch_gdn/gdn.py: beta = beta ** 2 - self.pedestal
# line: pytorch_gdn/gdn.py: gamma = gamma ** 2 - self.pedestal
# repair: pytorch_gdn/gdn.py: self.pedestal = self.reparam_offset ** 2 -> self.pedestal = (self.reparam_offset ** 2).to(device)
# repair: pytorch_gdn/gdn.py: beta = torch.sqrt(torch.ones(ch) + self.pedestal) -> beta = torch.sqrt(torch.ones(ch, device=device) + self.pedestal)
# repair: pytorch_gdn/gdn.py: g = self.gamma_init * torch.eye(ch) -> g = self.gamma_init * torch.eye(ch, device=device)
import torch

from codec import Codec
from images import waves
from train import train_codec

if __name__ == "__main__":
    torch.manual_seed(12)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    codec = Codec(channels=6, device=device).to(device)
    images = waves(16, side=12)
    losses = train_codec(codec, images, epochs=8, lr=0.02)
    with torch.no_grad():
        code = codec.analysis(images[:4].to(device))
    print(f"mse {losses[0]:.4f} {losses[-1]:.4f} code {code.abs().mean().item():.4f}")
# --- images.py
import numpy as np
import torch


def waves(count, side):
    rng = np.random.default_rng(7)
    rows, columns = np.mgrid[0:side, 0:side] / side
    images = []
    for angle, phase in rng.uniform(0, 6.28, (count, 2)):
        images.append(np.sin(9 * (rows * np.cos(angle) + columns * np.sin(angle)) + phase))
    return torch.tensor(np.stack(images)[:, None], dtype=torch.float32)
# --- pytorch_gdn/gdn.py
import torch
from torch import nn


class LowerBound(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs, bound):
        b = (torch.ones(inputs.size()) * bound).to(inputs.device)
        ctx.save_for_backward(inputs, b)
        return torch.max(inputs, b)

    @staticmethod
    def backward(ctx, grad_output):
        inputs, b = ctx.saved_tensors
        pass_through = (inputs >= b) | (grad_output < 0)
        return pass_through.type(grad_output.dtype) * grad_output, None


class GDN(nn.Module):
    """Generalized divisive normalization layer.

    y[i] = x[i] / sqrt(beta[i] + sum_j(gamma[j, i] * x[j] ** 2))
    """

    def __init__(self, ch, device, inverse=False, beta_min=1e-6, gamma_init=.1, reparam_offset=2 ** -18):
        super().__init__()
        self.inverse = inverse
        self.beta_min = beta_min
        self.gamma_init = gamma_init
        self.reparam_offset = torch.FloatTensor([reparam_offset])
        self.build(ch, torch.device(device))

    def build(self, ch, device):
        self.pedestal = self.reparam_offset ** 2
        self.beta_bound = (self.beta_min + self.reparam_offset ** 2) ** .5
        self.gamma_bound = self.reparam_offset

        beta = torch.sqrt(torch.ones(ch) + self.pedestal)
        self.beta = nn.Parameter(beta.to(device))

        g = self.gamma_init * torch.eye(ch)
        gamma = torch.sqrt(g + self.pedestal)
        self.gamma = nn.Parameter(gamma.to(device))

    def forward(self, inputs):
        ch = inputs.size(1)
        beta = LowerBound.apply(self.beta, self.beta_bound)
        beta = beta ** 2 - self.pedestal
        gamma = LowerBound.apply(self.gamma, self.gamma_bound)
        gamma = gamma ** 2 - self.pedestal
        gamma = gamma.view(ch, ch, 1, 1)

        norm_ = torch.sqrt(nn.functional.conv2d(inputs ** 2, gamma, beta))
        return inputs * norm_ if self.inverse else inputs / norm_
# --- codec.py
from torch import nn

from pytorch_gdn.gdn import GDN


class Codec(nn.Module):
    def __init__(self, channels, device):
        super().__init__()
        self.analysis = nn.Sequential(
            nn.Conv2d(1, channels, 5, stride=2, padding=2),
            GDN(channels, device),
            nn.Conv2d(channels, channels, 5, stride=2, padding=2),
        )
        self.synthesis = nn.Sequential(
            nn.ConvTranspose2d(channels, channels, 4, stride=2, padding=1),
            GDN(channels, device, inverse=True),
            nn.ConvTranspose2d(channels, 1, 4, stride=2, padding=1),
        )

    def forward(self, x):
        return self.synthesis(self.analysis(x))
# --- train.py
import torch


def train_codec(codec, images, epochs, lr):
    device = next(codec.parameters()).device
    optimizer = torch.optim.Adam(codec.parameters(), lr=lr)
    losses = []
    for _ in range(epochs):
        for batch in images.split(8):
            batch = batch.to(device)
            loss = torch.nn.functional.mse_loss(codec(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return losses

# === lips_and_voice_read_by_a_beam
# thread: https://github.com/ms-dot-k/AVSR/issues/1
# about: what is said is read from sound and lips together. Beams of a batch are grown a word at a time, and those that have come to an end are
#   taken out of it
# operation: index on cpu, cuda:0
# operands: self|.*score.*, indices|ids|.*remained_ids.*
# error: indices should be
# category: created-without-device|input-not-moved
# line: nets/batch_beam_search.py: remained_ids = torch.nonzero(
# line: nets/batch_beam_search.py: score=torch.tensor([h.score for h in hyps]),
# line: nets/batch_beam_search.py: length=torch.tensor([len(h.yseq) for h in hyps]),
# line: nets/batch_beam_search.py: score=hyps.score[ids],
# line: nets/batch_beam_search.py: length=hyps.length[ids],
# line: nets/batch_beam_search.py: return self._batch_select(running_hyps, remained_ids)
# repair: nets/batch_beam_search.py: remained_ids = torch.nonzero(~is_eos).view(-1) -> remained_ids = torch.nonzero(~is_eos).view(-1).cpu()
import torch

from nets.batch_beam_search import BatchBeamSearch
from nets.av_model import AVModel, utterances
from train import train

if __name__ == "__main__":
    torch.manual_seed(14)
    device = "cuda:0"
    model = AVModel(vocab=7, width=16).to(device)
    data = utterances(24, vocab=7)
    loss = train(model, data, epochs=6, lr=0.02, device=device)
    search = BatchBeamSearch(model, beam_size=3, sos=0, eos=1, maxlen=8).to(device)
    audio, video, text = data[0]
    with torch.no_grad():
        best = search(model.encode(audio.to(device), video.to(device)))
    print(f"loss {loss:.3f} read {best.yseq.tolist()} said {text.tolist()} score {float(best.score):.3f}")
# --- nets/av_model.py
import torch
from torch import nn


def utterances(count, vocab):
    """Words are heard and seen as directions with some noise; 0 begins and 1 ends."""
    generator = torch.Generator().manual_seed(3)
    sound, lips = torch.randn(vocab, 6, generator=generator), torch.randn(vocab, 4, generator=generator)
    made = []
    for index in range(count):
        words = torch.randint(2, vocab, (2 + index % 3,), generator=generator)
        text = torch.cat([torch.tensor([0]), words, torch.tensor([1])])
        noise = 0.2 * torch.randn(len(words), 10, generator=generator)
        made.append((sound[words] + noise[:, :6], lips[words] + noise[:, 6:], text))
    return made


class AVModel(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.vocab = vocab
        self.audio = nn.Linear(6, width)
        self.video = nn.Linear(4, width)
        self.memory = nn.GRU(width, width, batch_first=True)
        self.embed = nn.Embedding(vocab, width)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.position = nn.Embedding(16, width)
        self.output = nn.Linear(2 * width, vocab)

    def encode(self, audio, video):
        fused = torch.tanh(self.audio(audio) + self.video(video))
        return self.memory(fused[None])[0][0] + self.position.weight[:len(fused)]

    def score(self, ys, x):
        """Log probabilities of the next word after every word of ys, for what was encoded."""
        states, _ = self.decoder(self.embed(ys) + self.position.weight[:ys.shape[1]])
        weights = (states @ x.t()).softmax(dim=-1)
        return self.output(torch.cat([states, weights @ x], dim=-1)).log_softmax(dim=-1)
# --- nets/batch_beam_search.py
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence


class Hypothesis(NamedTuple):
    yseq: torch.Tensor
    score: torch.Tensor


class BatchHypothesis(NamedTuple):
    yseq: torch.Tensor
    score: torch.Tensor
    length: torch.Tensor

    def __len__(self):
        return len(self.length)


class BatchBeamSearch(nn.Module):
    def __init__(self, scorer, beam_size, sos, eos, maxlen):
        super().__init__()
        self.scorer = scorer
        self.beam_size, self.sos, self.eos, self.maxlen = beam_size, sos, eos, maxlen

    def batchfy(self, hyps):
        return BatchHypothesis(
            yseq=pad_sequence([h.yseq for h in hyps], batch_first=True, padding_value=self.eos),
            length=torch.tensor([len(h.yseq) for h in hyps]),
            score=torch.tensor([h.score for h in hyps]),
        )

    def _batch_select(self, hyps, ids):
        return BatchHypothesis(
            yseq=hyps.yseq[ids],
            score=hyps.score[ids],
            length=hyps.length[ids],
        )

    def _select(self, hyps, i):
        return Hypothesis(hyps.yseq[i, : hyps.length[i]], hyps.score[i])

    def init_hyp(self, x):
        return self.batchfy([Hypothesis(torch.tensor([self.sos], device=x.device), 0.0)])

    def search(self, running_hyps, x):
        scores = self.scorer.score(running_hyps.yseq, x)[:, -1]
        weighted_scores = scores + running_hyps.score.to(x.device).unsqueeze(1)
        top_ids = weighted_scores.view(-1).topk(self.beam_size)[1]
        best_hyps = []
        for full_prev, token in zip((top_ids // self.scorer.vocab).tolist(), (top_ids % self.scorer.vocab).tolist()):
            yseq = torch.cat([running_hyps.yseq[full_prev], torch.tensor([token], device=x.device)])
            best_hyps.append(Hypothesis(yseq, weighted_scores[full_prev, token]))
        return self.batchfy(best_hyps)

    def post_process(self, running_hyps, ended_hyps):
        last = running_hyps.yseq[:, -1]
        is_eos = last == self.eos
        for i in torch.nonzero(is_eos).view(-1).tolist():
            ended_hyps.append(self._select(running_hyps, i))
        remained_ids = torch.nonzero(~is_eos).view(-1)
        return self._batch_select(running_hyps, remained_ids)

    def forward(self, x):
        running_hyps, ended_hyps = self.init_hyp(x), []
        for _ in range(self.maxlen):
            best = self.search(running_hyps, x)
            running_hyps = self.post_process(best, ended_hyps)
            if len(running_hyps) == 0:
                break
        ended_hyps += [self._select(running_hyps, i) for i in range(len(running_hyps))]
        return max(ended_hyps, key=lambda hyp: float(hyp.score) / len(hyp.yseq))
# --- train.py
import torch


def train(model, data, epochs, lr, device):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        for audio, video, text in data:
            audio, video, text = audio.to(device), video.to(device), text.to(device)
            log_probs = model.score(text[None, :-1], model.encode(audio, video))
            loss = torch.nn.functional.nll_loss(log_probs[0], text[1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()

# === two_stones_in_a_row_won_by_search
# thread: https://github.com/JoshVarty/AlphaZeroSimple/issues/7
# about: a program learns to put stones on a line of four by playing against itself. A tree search looks ahead, and a network tells it what moves
#   and places are good
# operation: addmm on cuda:1, cuda:0, cuda:1
# operands: mat1|input|.*boards.*|x
# category: default-or-current-device|input-not-moved
# line: trainer.py: boards = boards.contiguous().cuda()
# line: trainer.py: target_pis = target_pis.contiguous().cuda()
# line: trainer.py: target_vs = target_vs.contiguous().cuda()
# line: trainer.py: out_pi, out_v = self.model(boards)
# line: main.py: device = torch.device("cuda:1")
# repair: trainer.py: boards = boards.contiguous().cuda() -> boards = boards.contiguous().to(self.model.device)
# repair: trainer.py: target_pis = target_pis.contiguous().cuda() -> target_pis = target_pis.contiguous().to(self.model.device)
# repair: trainer.py: target_vs = target_vs.contiguous().cuda() -> target_vs = target_vs.contiguous().to(self.model.device)
import numpy as np
import torch

from game import Connect2Game
from model import Connect2Model
from trainer import Trainer

args = {"batch_size": 16, "numIters": 3, "num_simulations": 12, "numEps": 6, "epochs": 3}

if __name__ == "__main__":
    torch.manual_seed(1)
    np.random.seed(1)
    device = torch.device("cuda:1")
    game = Connect2Game()
    model = Connect2Model(board_size=game.columns, action_size=game.columns, device=device)
    losses = Trainer(game, model, args).learn()
    pi, v = model.predict(game.get_init_board())
    print("losses", [f"{loss:.3f}" for loss in losses], "policy", [f"{p:.3f}" for p in pi], f"value {v:.3f}")
# --- game.py
import numpy as np


class Connect2Game:
    """Four places in a line; who has two stones side by side wins."""

    columns = 4

    def get_init_board(self):
        return np.zeros((self.columns,), dtype=int)

    def get_next_state(self, board, action):
        b = np.copy(board)
        b[action] = 1
        return -b

    def is_win(self, board, player):
        return any((board[i:i + 2] == player).all() for i in range(self.columns - 1))

    def get_reward(self, board):
        """None while the game goes on."""
        if self.is_win(board, 1):
            return 1
        if self.is_win(board, -1):
            return -1
        return None if (board == 0).any() else 0
# --- model.py
import torch
import torch.nn as nn
import torch.nn.functional as F


class Connect2Model(nn.Module):
    def __init__(self, board_size, action_size, device):
        super().__init__()
        self.device = device
        self.size = board_size
        self.fc1 = nn.Linear(in_features=self.size, out_features=16)
        self.action_head = nn.Linear(in_features=16, out_features=action_size)
        self.value_head = nn.Linear(in_features=16, out_features=1)
        self.to(device)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return F.softmax(self.action_head(x), dim=1), torch.tanh(self.value_head(x))

    def predict(self, board):
        board = torch.FloatTensor(board.astype("float32")).to(self.device).view(1, self.size)
        with torch.no_grad():
            pi, v = self.forward(board)
        return pi.cpu().numpy()[0], v.item()
# --- monte_carlo_tree_search.py
import numpy as np


class Node:
    def __init__(self, prior):
        self.prior, self.visit_count, self.value_sum = prior, 0, 0.0
        self.children, self.state = {}, None

    def ucb_score(self, child):
        value = child.value_sum / max(child.visit_count, 1)
        return child.prior * self.visit_count ** 0.5 / (child.visit_count + 1) - value

    def select_child(self):
        return max(self.children.items(), key=lambda item: self.ucb_score(item[1]))


class MCTS:
    def __init__(self, game, model, args):
        self.game, self.model, self.args = game, model, args

    def evaluate(self, node, state):
        action_probs, value = self.model.predict(state)
        action_probs = action_probs * (state == 0)
        node.state = state
        node.children = {a: Node(p) for a, p in enumerate(action_probs / action_probs.sum()) if p > 0}
        return value

    def run(self, state):
        root = Node(0)
        self.evaluate(root, state)
        for _ in range(self.args["num_simulations"]):
            node, path = root, [root]
            while node.children:
                parent = node
                action, node = node.select_child()
                path.append(node)
            next_state = self.game.get_next_state(parent.state, action)
            value = self.game.get_reward(next_state)
            if value is None:
                value = self.evaluate(node, next_state)
            for each in reversed(path):
                each.value_sum += value
                each.visit_count += 1
                value = -value
        counts = np.array([root.children[a].visit_count if a in root.children else 0 for a in range(len(state))])
        return counts / counts.sum()
# --- trainer.py
import numpy as np
import torch

from monte_carlo_tree_search import MCTS


class Trainer:
    def __init__(self, game, model, args):
        self.game, self.model, self.args = game, model, args
        self.mcts = MCTS(self.game, self.model, self.args)

    def execute_episode(self):
        history, state, reward = [], self.game.get_init_board(), None
        while reward is None:
            pi = self.mcts.run(state)
            history.append((state, pi))
            state = self.game.get_next_state(state, np.random.choice(len(pi), p=pi))
            reward = self.game.get_reward(state)
        signs = [(-1) ** (len(history) - i) for i in range(len(history))]
        return [(board, pi, sign * reward) for (board, pi), sign in zip(history, signs)]

    def learn(self):
        losses = []
        for _ in range(self.args["numIters"]):
            examples = [each for _ in range(self.args["numEps"]) for each in self.execute_episode()]
            losses.append(self.train(examples))
        return losses

    def train(self, examples):
        optimizer = torch.optim.Adam(self.model.parameters(), lr=5e-3)
        for _ in range(self.args["epochs"]):
            sample_ids = np.random.randint(len(examples), size=self.args["batch_size"])
            boards, pis, vs = list(zip(*[examples[i] for i in sample_ids]))
            boards = torch.FloatTensor(np.array(boards).astype(np.float64))
            target_pis = torch.FloatTensor(np.array(pis))
            target_vs = torch.FloatTensor(np.array(vs).astype(np.float64))

            boards = boards.contiguous().cuda()
            target_pis = target_pis.contiguous().cuda()
            target_vs = target_vs.contiguous().cuda()
            out_pi, out_v = self.model(boards)
            loss = -(target_pis * torch.log(out_pi)).sum(dim=1).mean() + ((target_vs - out_v.view(-1)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

# === a_model_that_is_given_memory_late
# thread: https://github.com/Lightning-AI/litgpt/pull/993
# about: a small language model is described first and given memory only afterwards, where each of its parts sets its own values. Then it learns to
#   count on
# operation: mul on cuda:0, cpu
# operands: other|cos|.*cos.*
# category: created-without-device
# line: litgpt/model.py: self.cos, self.sin = self.rope_cache()
# line: litgpt/model.py: return build_rope_cache(
# line: litgpt/model.py: cos, sin = self.cos[:T], self.sin[:T]
# line: pretrain/debug.py: model.apply(reset_parameters)
# line: litgpt/rope.py: theta = 1.0 / (base ** (torch.arange(
# line: litgpt/rope.py: seq_idx = torch.arange(
# repair: litgpt/model.py: self.cos, self.sin = self.rope_cache() -> self.cos, self.sin = self.rope_cache(device=self.cos.device)
from litgpt.config import Config
from pretrain.debug import main

if __name__ == "__main__":
    config = Config(block_size=12, vocab_size=10, n_layer=2, n_head=2, n_embd=16)
    losses, text = main(config, steps=30, device="cuda:0")
    print("losses", [f"{loss:.4f}" for loss in losses[::10]], f"{losses[-1]:.4f}", "text", text)
# --- litgpt/config.py
from dataclasses import dataclass


@dataclass
class Config:
    block_size: int
    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    rope_base: int = 10000

    @property
    def head_size(self):
        return self.n_embd // self.n_head
# --- litgpt/rope.py
import torch


def build_rope_cache(seq_len, n_elem, device=None, base=10000):
    """Cosines and sines of all places, by which queries and keys are turned."""
    theta = 1.0 / (base ** (torch.arange(0, n_elem, 2, device=device).float() / n_elem))
    seq_idx = torch.arange(seq_len, device=device)
    idx_theta = torch.outer(seq_idx, theta).repeat(1, 2)
    return torch.cos(idx_theta), torch.sin(idx_theta)


def apply_rope(x, cos, sin):
    half = x.size(-1) // 2
    rotated = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return (x * cos) + (rotated * sin)
# --- litgpt/model.py
import torch
from torch import nn

from litgpt.rope import apply_rope, build_rope_cache


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x, cos, sin):
        B, T, C = x.size()
        qkv = self.attn(x).view(B, T, self.config.n_head, 3, self.config.head_size)
        q, k, v = qkv.permute(3, 0, 2, 1, 4)
        q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm_1 = nn.LayerNorm(config.n_embd)
        self.attn = CausalSelfAttention(config)
        self.norm_2 = nn.LayerNorm(config.n_embd)
        self.mlp = nn.Sequential(nn.Linear(config.n_embd, 2 * config.n_embd), nn.GELU(), nn.Linear(2 * config.n_embd, config.n_embd))

    def forward(self, x, cos, sin):
        x = x + self.attn(self.norm_1(x), cos, sin)
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd)
        cos, sin = self.rope_cache(device=self.wte.weight.device)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def reset_parameters(self):
        self.cos, self.sin = self.rope_cache()

    def rope_cache(self, device=None):
        return build_rope_cache(self.config.block_size, self.config.head_size, device=device, base=self.config.rope_base)

    def forward(self, idx):
        T = idx.size(1)
        cos, sin = self.cos[:T], self.sin[:T]
        x = self.wte(idx)
        for block in self.h:
            x = block(x, cos, sin)
        return self.lm_head(self.ln_f(x))
# --- pretrain/debug.py
import torch

from litgpt.model import GPT


def reset_parameters(module):
    if callable(getattr(module, "reset_parameters", None)):
        module.reset_parameters()


def fit(model, config, steps, device):
    generator = torch.Generator().manual_seed(2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        start = torch.randint(0, config.vocab_size, (8, 1), generator=generator)
        ids = (start + torch.arange(config.block_size + 1)) % config.vocab_size
        input_ids, targets = ids[:, :-1].to(device), ids[:, 1:].to(device)
        logits = model(input_ids)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def generate(model, prompt, length):
    idx = prompt
    for _ in range(length):
        idx = torch.cat([idx, model(idx)[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    return idx[0].tolist()


def main(config, steps, device):
    with torch.device("meta"):
        model = GPT(config)
    model.to_empty(device=device)
    torch.manual_seed(1337)
    model.apply(reset_parameters)
    losses = fit(model, config, steps, device)
    return losses, generate(model, torch.tensor([[3, 4]], device=device), 8)

# === doors_opened_by_one_who_remembers
# thread: https://github.com/lcswillems/rl-starter-files/pull/47
# about: an agent with a memory learns which of two doors to open after it was shown a colour. What it learned is written down, and then looked at
#   in further rounds
# operation: addmm on cpu, cuda:0, cpu
# operands: mat1|hx|input|.*memor.*|hidden
# category: input-not-moved|module-split|input|checkpoint
# line: utils/agent.py: self.acmodel.load_state_dict(utils.storage.get_model_state(model_dir))
# line: utils/agent.py: preprocessed_obss = self.preprocess_obss(obss)
# line: utils/agent.py: self.memories = torch.zeros(num_envs, self.acmodel.memory_size, device=self.device)
# line: utils/agent.py: self.acmodel = ACModel(
# line: utils/agent.py: self.device = device
# line: scripts/evaluate.py: agent = Agent(
# repair: utils/agent.py: self.acmodel.load_state_dict(utils.storage.get_model_state(model_dir)) ->
#   self.acmodel.load_state_dict(utils.storage.get_model_state(model_dir)); self.acmodel.to(self.device)
# repair: utils/agent.py: preprocessed_obss = self.preprocess_obss(obss) -> preprocessed_obss = self.preprocess_obss(obss, device=self.device)
import tempfile

from scripts.evaluate import evaluate
from scripts.train import train

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as model_dir:
        loss = train(model_dir, updates=40, procs=16)
        rate, value = evaluate(model_dir, episodes=32, procs=8)
    print(f"loss {loss:.4f} opened the right door {rate:.3f} value {value:.4f}")
# --- envs.py
import numpy as np


class MemoryDoors:
    """A colour is shown at first; after two dark steps one of two doors is chosen."""

    n_obs, n_actions, length = 4, 2, 3

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.step_count, self.colour = 0, int(self.rng.integers(2))
        return self.observe()

    def observe(self):
        image = np.zeros(self.n_obs, dtype=np.float32)
        image[self.colour if self.step_count == 0 else 2] = 1.0
        image[3] = self.step_count / self.length
        return {"image": image}

    def step(self, action):
        self.step_count += 1
        done = self.step_count == self.length
        reward = float(done and action == self.colour)
        return (self.reset() if done else self.observe()), reward, done
# --- model.py
import torch
from torch import nn
from torch.distributions import Categorical


class ACModel(nn.Module):
    def __init__(self, n_obs, n_actions, width=12):
        super().__init__()
        self.memory_size = width
        self.image_conv = nn.Sequential(nn.Linear(n_obs, width), nn.Tanh())
        self.memory_rnn = nn.GRUCell(width, width)
        self.actor = nn.Linear(width, n_actions)
        self.critic = nn.Linear(width, 1)

    def forward(self, obs, memory):
        x = self.image_conv(obs["image"])
        hidden = self.memory_rnn(x, memory)
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(1), hidden


def preprocess_obss(obss, device=None):
    images = [torch.from_numpy(obs["image"]) for obs in obss]
    return {"image": torch.stack(images).to(device)}
# --- utils/storage.py
import os

import torch


def save_status(status, model_dir):
    torch.save(status, os.path.join(model_dir, "status.pt"))


def get_model_state(model_dir):
    path = os.path.join(model_dir, "status.pt")
    return torch.load(path)["model_state"]
# --- utils/agent.py
import torch

import utils.storage
from model import ACModel, preprocess_obss


class Agent:
    """Chooses actions in all environments, and remembers what it saw in each."""

    def __init__(self, n_obs, n_actions, model_dir, device, num_envs, argmax):
        self.preprocess_obss = preprocess_obss
        self.acmodel = ACModel(n_obs, n_actions)
        self.device = device
        self.argmax = argmax
        self.memories = torch.zeros(num_envs, self.acmodel.memory_size, device=self.device)
        self.acmodel.load_state_dict(utils.storage.get_model_state(model_dir))
        self.acmodel.eval()

    def get_actions(self, obss):
        preprocessed_obss = self.preprocess_obss(obss)
        with torch.no_grad():
            dist, values, self.memories = self.acmodel(preprocessed_obss, self.memories)
        actions = dist.probs.max(1)[1] if self.argmax else dist.sample()
        return actions.cpu().numpy(), values.cpu().numpy()

    def analyze_feedbacks(self, dones):
        masks = 1 - torch.tensor(dones, dtype=torch.float, device=self.device).unsqueeze(1)
        self.memories *= masks
# --- scripts/train.py
import torch

import utils.storage
from envs import MemoryDoors
from model import ACModel, preprocess_obss


def train(model_dir, updates, procs):
    torch.manual_seed(5)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    envs = [MemoryDoors(seed) for seed in range(procs)]
    acmodel = ACModel(MemoryDoors.n_obs, MemoryDoors.n_actions).to(device)
    optimizer = torch.optim.Adam(acmodel.parameters(), lr=0.02)
    for _ in range(updates):
        obss = [env.reset() for env in envs]
        colours = torch.tensor([env.colour for env in envs], device=device)
        memory = torch.zeros(procs, acmodel.memory_size, device=device)
        for _ in range(MemoryDoors.length):
            dist, value, memory = acmodel(preprocess_obss(obss, device=device), memory)
            obss = [env.step(0)[0] for env in envs]
        expected = dist.probs.gather(1, colours[:, None]).squeeze(1)
        loss = -expected.mean() + (value - expected.detach()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    utils.storage.save_status({"model_state": acmodel.state_dict()}, model_dir)
    return loss.item()
# --- scripts/evaluate.py
import torch

from envs import MemoryDoors
from utils.agent import Agent


def evaluate(model_dir, episodes, procs):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    envs = [MemoryDoors(100 + seed) for seed in range(procs)]
    agent = Agent(MemoryDoors.n_obs, MemoryDoors.n_actions, model_dir, device=device, num_envs=procs, argmax=True)
    obss, rewards, seen = [env.reset() for env in envs], [], []
    while len(rewards) < episodes:
        actions, values = agent.get_actions(obss)
        obss, step_rewards, dones = zip(*[env.step(action) for env, action in zip(envs, actions)])
        agent.analyze_feedbacks(dones)
        seen.append(values.mean())
        rewards += [reward for reward, done in zip(step_rewards, dones) if done]
    return sum(rewards) / len(rewards), float(seen[-1])

# === captions_beside_their_pictures
# thread: https://github.com/google-deepmind/tips/pull/17
# about: pictures and their captions are encoded to lie near each other. The words of a caption know their places by waves, and what is padded does
#   not count
# operation: add on cuda:0, cpu
# operands: other|.*pos.*|.*signal.*
# category: created-without-device
# line: pytorch/text_encoder.py: pos_emb = self.pos_embedder(seq_length=ids.shape[1])
# line: pytorch/text_encoder.py: position = torch.arange(seq_length, dtype=torch.float32)[None]
# line: pytorch/text_encoder.py: inv_timescales = self.min_timescale * torch.exp(
# line: pytorch/text_encoder.py: scaled_time = position[..., None] *
# line: pytorch/text_encoder.py: signal = torch.cat(
# line: pytorch/text_encoder.py: return signal
# line: pytorch/text_encoder.py: x = x + pos_emb
# repair: pytorch/text_encoder.py: pos_emb = self.pos_embedder(seq_length=ids.shape[1]) ->
#   pos_emb = self.pos_embedder(seq_length=ids.shape[1]).to(x.device)
import torch

from data.captions import Tokenizer, scenes
from pytorch.text_encoder import TextEncoder
from pytorch.vision_encoder import VisionEncoder
from pytorch.contrastive import retrieve, train

if __name__ == "__main__":
    torch.manual_seed(21)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, captions = scenes()
    tokenizer = Tokenizer(captions, max_len=6)
    text_model = TextEncoder({"hidden_size": 16, "mlp_dim": 32, "num_heads": 2, "num_layers": 1}, len(tokenizer.words)).to(device)
    image_model = VisionEncoder(embed_dim=16).to(device)
    losses = train(image_model, text_model, tokenizer, images, captions, steps=30, lr=0.01, device=device)
    right = retrieve(image_model, text_model, tokenizer, images, captions, device)
    print(f"loss {losses[0]:.3f} {losses[-1]:.3f} found {right} of {len(captions)}")
# --- data/captions.py
import numpy as np


def scenes(side=6):
    """A bright or dim block in one of four corners, and the words for it."""
    images, captions = [], []
    for brightness, value in (("bright", 1.0), ("dim", 0.4)):
        for vertical, row in (("top", 0), ("bottom", side // 2)):
            for horizontal, column in (("left", 0), ("right", side // 2)):
                image = np.zeros((1, side, side), dtype=np.float32)
                image[0, row:row + 3, column:column + 3] = value
                images.append(image)
                words = ["a", brightness, "block", vertical, horizontal]
                captions.append(" ".join(words if brightness == "bright" else words[1:]))
    return np.stack(images), captions


class Tokenizer:
    def __init__(self, captions, max_len):
        self.max_len = max_len
        self.words = ["<pad>", *sorted({word for caption in captions for word in caption.split()})]

    def tokenize(self, captions):
        ids = np.zeros((len(captions), self.max_len), dtype=np.int64)
        for row, caption in zip(ids, captions):
            found = [self.words.index(word) for word in caption.split()]
            row[:len(found)] = found
        return ids, (ids == 0).astype(np.float32)
# --- pytorch/text_encoder.py
import math

import torch
from torch import nn


class PositionalEmbedding(nn.Module):
    min_timescale = 1
    max_timescale = 10_000

    def __init__(self, embedding_dim):
        super().__init__()
        self.embedding_dim = embedding_dim

    def __call__(self, seq_length):
        position = torch.arange(seq_length, dtype=torch.float32)[None]
        num_timescales = self.embedding_dim // 2
        increment = math.log(self.max_timescale / self.min_timescale) / max(num_timescales - 1, 1)
        inv_timescales = self.min_timescale * torch.exp(torch.arange(num_timescales, dtype=torch.float32) * -increment)
        scaled_time = position[..., None] * inv_timescales[None, None]
        signal = torch.cat([torch.sin(scaled_time), torch.cos(scaled_time)], dim=2)
        return signal


class ResidualBlock(nn.Module):
    def __init__(self, d_model, n_head, mlp_dim):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, n_head, batch_first=True)
        self.ln_1, self.ln_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, mlp_dim), nn.ReLU(), nn.Linear(mlp_dim, d_model))

    def forward(self, x, padded):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, key_padding_mask=padded, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class TextEncoder(nn.Module):
    def __init__(self, config, vocab_size):
        super().__init__()
        width = config["hidden_size"]
        self.token_embedding = nn.Embedding(vocab_size, width)
        self.pos_embedder = PositionalEmbedding(embedding_dim=width)
        self.resblocks = nn.ModuleList(ResidualBlock(width, config["num_heads"], config["mlp_dim"]) for _ in range(config["num_layers"]))
        self.ln_final = nn.LayerNorm(width)

    def forward(self, ids, paddings):
        x = self.token_embedding(ids) * self.token_embedding.embedding_dim**0.5
        pos_emb = self.pos_embedder(seq_length=ids.shape[1])
        x = x + pos_emb
        for block in self.resblocks:
            x = block(x, paddings > 0)
        mask = (1 - paddings)[..., None]
        return (self.ln_final(x) * mask).sum(dim=1) / mask.sum(dim=1)
# --- pytorch/vision_encoder.py
from torch import nn


class VisionEncoder(nn.Module):
    def __init__(self, embed_dim):
        super().__init__()
        self.patch_embed = nn.Conv2d(1, embed_dim, 3, stride=3)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(4 * embed_dim, embed_dim))

    def forward(self, x):
        return self.head(self.patch_embed(x).relu())
# --- pytorch/contrastive.py
import torch
import torch.nn.functional as F


def embed(image_model, text_model, tokenizer, images, captions, device):
    ids, paddings = tokenizer.tokenize(captions)
    image_embeddings = image_model(torch.from_numpy(images).to(device))
    text_embeddings = text_model(torch.from_numpy(ids).to(device), torch.from_numpy(paddings).to(device))
    return F.normalize(image_embeddings, dim=-1), F.normalize(text_embeddings, dim=-1)


def train(image_model, text_model, tokenizer, images, captions, steps, lr, device):
    optimizer = torch.optim.Adam([*image_model.parameters(), *text_model.parameters()], lr=lr)
    losses = []
    for _ in range(steps):
        image, text = embed(image_model, text_model, tokenizer, images, captions, device)
        logits = image @ text.t() / 0.1
        labels = torch.arange(len(logits), device=device)
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def retrieve(image_model, text_model, tokenizer, images, captions, device):
    image, text = embed(image_model, text_model, tokenizer, images, captions, device)
    return (image @ text.t()).argmax(dim=1).eq(torch.arange(len(image), device=device)).sum().item()
