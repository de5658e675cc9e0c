# === generation_thread
# thread: https://github.com/dottxt-ai/outlines/issues/679
# about: "cuda" is the card that is current for a thread; it was set for the one that loads the model, requests are answered in another one
# operation: add on cuda:0, cuda:1
# operands: weights|self, .*
# category: default-or-current-device
# line: sampler.py: sequence_weights = torch.zeros(
# line: main.py: model = Transformers(
# line: generator.py: self.device = model.device
# line: server.py: self.pool = ThreadPoolExecutor(
# repair: sampler.py: sequence_weights = torch.zeros(len(prompt_ids), dtype=torch.float32, device=self.device) -> sequence_weights = torch.zeros(len(prompt_ids), dtype=torch.float32, device=prompt_ids.device)
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from generator import SequenceGenerator, Transformers
from server import Server

def load():
    torch.cuda.set_device(1)
    config = LlamaConfig(
        vocab_size=30, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
        bos_token_id=1, eos_token_id=2, pad_token_id=2,
    )
    model = Transformers(LlamaForCausalLM(config).eval(), device="cuda")
    return SequenceGenerator(model, samples=2, seed=3)

torch.manual_seed(0)
server = Server(load(), workers=1)
requests = [torch.randint(3, 30, (size,)).tolist() for size in (4, 6)]
for tokens, weights in server.answer(requests, max_tokens=5):
    print("tokens", tokens, "weights", [round(weight, 3) for weight in weights])
# --- generator.py
import torch

from sampler import MultinomialSampler

class Transformers:
    def __init__(self, model, device):
        self.device = device
        self.model = model.to(device)

    def encode(self, tokens, samples):
        return torch.tensor([tokens] * samples).to(self.model.device)

    @torch.inference_mode()
    def next_logprobs(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits[:, -1].log_softmax(dim=-1)

class SequenceGenerator:
    def __init__(self, model, samples, seed):
        self.model = model
        self.device = model.device
        self.samples = samples
        self.sampler = MultinomialSampler(self.device, seed)

    def __call__(self, tokens, max_tokens):
        prompt_ids = self.model.encode(tokens, self.samples)
        state = self.sampler.start(prompt_ids)
        for _ in range(max_tokens):
            state = self.sampler.step(state, self.model.next_logprobs(state.token_ids))
        best = state.weights.argmax()
        return state.token_ids[best, prompt_ids.shape[1] :].tolist(), state.weights.tolist()
# --- sampler.py
from dataclasses import dataclass

import torch

@dataclass(frozen=True)
class GenerationState:
    token_ids: torch.Tensor
    weights: torch.Tensor

class MultinomialSampler:
    def __init__(self, device, seed):
        self.device, self.seed = device, seed

    def start(self, prompt_ids):
        self.generator = torch.Generator().manual_seed(self.seed)
        sequence_weights = torch.zeros(len(prompt_ids), dtype=torch.float32, device=self.device)
        return GenerationState(prompt_ids, sequence_weights)

    def step(self, state, logprobs):
        noise = torch.rand(logprobs.shape, generator=self.generator).clamp_min(1e-6).to(logprobs.device)
        next_token_ids = (logprobs - (-noise.log()).log()).argmax(dim=-1, keepdim=True)
        weights = state.weights + torch.gather(logprobs, 1, next_token_ids).squeeze(1)
        return GenerationState(torch.cat([state.token_ids, next_token_ids], dim=1), weights)
# --- server.py
from concurrent.futures import ThreadPoolExecutor

class Server:
    def __init__(self, generate, workers):
        self.generate = generate
        self.pool = ThreadPoolExecutor(workers)

    def answer(self, requests, max_tokens):
        futures = [self.pool.submit(self.generate, tokens, max_tokens) for tokens in requests]
        return [future.result() for future in futures]

# === mask_factory
# thread: https://github.com/mistralai/mistral-inference/pull/267
# about: masks come from a factory whose device is the first card unless it is told; the cache that asks for them knows that it is on the second
# operation: .* on cuda:1, cuda:0
# operands: .*
# category: default-or-current-device|created-without-device|input-not-moved
# line: cache.py: mask = BlockDiagonalCausalMask.from_seqlens(seqlens)
# line: cache.py: mask = BlockDiagonalCausalMask.from_seqlens_with_prefix(
# line: fmha.py: def from_seqlens(
# line: fmha.py: def from_seqlens_with_prefix(
# repair: cache.py: mask = BlockDiagonalCausalMask.from_seqlens(seqlens) -> mask = BlockDiagonalCausalMask.from_seqlens(seqlens, device=self.device)
# repair: cache.py: mask = BlockDiagonalCausalMask.from_seqlens_with_prefix(seqlens, self.kv_seqlens) -> mask = BlockDiagonalCausalMask.from_seqlens_with_prefix(seqlens, self.kv_seqlens, device=self.device)
import torch

from cache import BufferCache
from model import Transformer

@torch.no_grad()
def generate(prompts, model, max_tokens):
    cache = BufferCache(len(model.layers), len(prompts), max(map(len, prompts)) + max_tokens, model.width)
    cache.to(device=model.device, dtype=model.dtype)
    seqlens, tokens = [len(prompt) for prompt in prompts], torch.tensor(sum(prompts, []), device=model.device)
    generated = []
    for _ in range(max_tokens):
        logits = model(tokens, seqlens, cache)
        last = torch.tensor(seqlens, device=logits.device).cumsum(0) - 1
        tokens, seqlens = logits[last].argmax(dim=-1), [1] * len(prompts)
        generated.append(tokens)
    return torch.stack(generated, dim=1)

torch.manual_seed(0)
model = Transformer(vocabulary=19, width=12, layers=2).to("cuda:1").eval()
print("generated", generate([[3, 1, 4, 1], [5, 9]], model, max_tokens=4).tolist())
# --- fmha.py
from dataclasses import dataclass

import torch

@dataclass
class BlockDiagonalCausalMask:
    """Which of the keys, all sequences' one after the other, a token sees: those of its own sequence that are not later."""

    bias: torch.Tensor

    @classmethod
    def from_seqlens(cls, q_seqlens, *, device=None):
        return cls.from_seqlens_with_prefix(q_seqlens, [0] * len(q_seqlens), device=device)

    @classmethod
    def from_seqlens_with_prefix(cls, q_seqlens, prefixes, *, device=None):
        device = torch.device("cuda", 0) if device is None else device
        blocks = [torch.ones(q, prefix + q, device=device, dtype=torch.bool).tril(prefix) for q, prefix in zip(q_seqlens, prefixes)]
        return cls(torch.where(torch.block_diag(*blocks).bool(), 0.0, float("-inf")))

def memory_efficient_attention(query, key, value, attn_bias):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return torch.softmax(scores + attn_bias.bias, dim=-1) @ value
# --- cache.py
import torch

from fmha import BlockDiagonalCausalMask

class BufferCache:
    def __init__(self, n_layers, max_batch_size, max_seq_len, width):
        self.cache_k = torch.zeros(n_layers, max_batch_size, max_seq_len, width)
        self.cache_v = torch.zeros_like(self.cache_k)
        self.kv_seqlens = [0] * max_batch_size

    def to(self, device, dtype):
        self.cache_k, self.cache_v = self.cache_k.to(device=device, dtype=dtype), self.cache_v.to(device=device, dtype=dtype)

    @property
    def device(self):
        return self.cache_k.device

    def get_mask(self, seqlens):
        if not any(self.kv_seqlens):
            mask = BlockDiagonalCausalMask.from_seqlens(seqlens)
        else:
            mask = BlockDiagonalCausalMask.from_seqlens_with_prefix(seqlens, self.kv_seqlens)
        return mask

    def update(self, layer, k, v, seqlens):
        """What is in it with what is new, sequence by sequence."""
        for buffer, new in ((self.cache_k, k), (self.cache_v, v)):
            for i, (start, part) in enumerate(zip(self.kv_seqlens, new.split(seqlens))):
                buffer[layer, i, start : start + len(part)] = part
        ends = [start + length for start, length in zip(self.kv_seqlens, seqlens)]
        return [torch.cat([buffer[layer, i, :end] for i, end in enumerate(ends)]) for buffer in (self.cache_k, self.cache_v)]

    def advance(self, seqlens):
        self.kv_seqlens = [start + length for start, length in zip(self.kv_seqlens, seqlens)]
# --- model.py
import torch
from torch import nn

from fmha import memory_efficient_attention

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.wqkv, self.wo = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x, layer, seqlens, cache, mask):
        q, k, v = self.wqkv(x).chunk(3, dim=-1)
        key, value = cache.update(layer, k, v, seqlens)
        return self.wo(memory_efficient_attention(q, key, value, mask))

class Transformer(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.width = width
        self.tok_embeddings = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Attention(width) for _ in range(layers))
        self.output = nn.Linear(width, vocabulary, bias=False)

    @property
    def device(self):
        return next(self.parameters()).device

    @property
    def dtype(self):
        return next(self.parameters()).dtype

    def forward(self, tokens, seqlens, cache):
        h, mask = self.tok_embeddings(tokens), cache.get_mask(seqlens)
        for i, layer in enumerate(self.layers):
            h = h + layer(h, i, seqlens, cache, mask)
        cache.advance(seqlens)
        return self.output(h)
