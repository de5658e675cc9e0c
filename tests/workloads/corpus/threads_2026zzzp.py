# === answers_of_a_model_on_two_cards_kept_together
# thread: https://github.com/zai-org/GLM-4/issues/22
# about: a chat model's layers are shared out over two cards. While it writes, what every layer keeps for the next word is put together into one tensor
# operation: cat on cuda:0, cuda:1
# operands: tensors|kv_cache|presents
# category: module-split|cached-state
# line: modeling_chatglm.py: presents = torch.cat((presents, kv_cache), dim=0)
# repair: modeling_chatglm.py: presents = torch.cat((presents, kv_cache), dim=0) -> presents = torch.cat((presents, kv_cache.to(presents.device)), dim=0)
import torch
from accelerate import dispatch_model

from modeling_chatglm import ChatGLMConfig, ChatGLMForConditionalGeneration

WORDS = "<eos> hello how are you I am a model that runs on two cards and thinks of words".split()


def share_out(num_layers):
    """The first half of the layers for one card, the rest and the head for the other."""
    device_map = {"transformer.embedding": 0, "transformer.output_layer": 1, "transformer.encoder.final_layernorm": 1}
    for index in range(num_layers):
        device_map[f"transformer.encoder.layers.{index}"] = 0 if index < num_layers // 2 else 1
    return device_map


def chat(model, query, max_new_tokens=8):
    input_ids = torch.tensor([[WORDS.index(word) for word in query.split()]]).to("cuda:0")
    written, past_key_values = [], None
    for _ in range(max_new_tokens):
        with torch.no_grad():
            logits, past_key_values = model(input_ids=input_ids, past_key_values=past_key_values)
        token = int(logits[0, -1, 1:].argmax()) + 1
        written.append(token)
        input_ids = torch.tensor([[token]]).to("cuda:0")
    return written, logits


if __name__ == "__main__":
    torch.manual_seed(22)
    config = ChatGLMConfig(vocab_size=len(WORDS), hidden_size=16, num_heads=2, num_layers=4)
    model = ChatGLMForConditionalGeneration(config).eval()
    model = dispatch_model(model, device_map=share_out(config.num_layers))
    for query in ("hello how are you", "runs on two cards"):
        response, logits = chat(model, query)
        print(query, "->", " ".join(WORDS[token] for token in response), f"({logits.double().logsumexp(-1).sum().item():.3f})")
# --- modeling_chatglm.py
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class ChatGLMConfig:
    vocab_size: int
    hidden_size: int
    num_heads: int
    num_layers: int


class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_heads
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_states, kv_cache=None):
        batch, length, size = hidden_states.shape
        mixed = self.query_key_value(hidden_states).view(batch, length, 3, self.num_heads, -1)
        query_layer, key_layer, value_layer = mixed.permute(2, 0, 3, 1, 4)
        if kv_cache is not None:
            cache_k, cache_v = kv_cache
            key_layer = torch.cat((cache_k, key_layer), dim=2)
            value_layer = torch.cat((cache_v, value_layer), dim=2)
        context = nn.functional.scaled_dot_product_attention(query_layer, key_layer, value_layer, is_causal=kv_cache is None)
        output = self.dense(context.transpose(1, 2).reshape(batch, length, size))
        kv_cache = torch.stack((key_layer, value_layer)).unsqueeze(0)
        return output, kv_cache


class GLMBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size)
        self.self_attention = SelfAttention(config)
        self.mlp = nn.Sequential(nn.RMSNorm(config.hidden_size), nn.Linear(config.hidden_size, config.hidden_size), nn.SiLU())

    def forward(self, hidden_states, kv_cache=None):
        attention_output, kv_cache = self.self_attention(self.input_layernorm(hidden_states), kv_cache=kv_cache)
        hidden_states = hidden_states + attention_output
        return hidden_states + self.mlp(hidden_states), kv_cache


class GLMTransformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList(GLMBlock(config) for _ in range(config.num_layers))
        self.final_layernorm = nn.RMSNorm(config.hidden_size)

    def forward(self, hidden_states, kv_caches=None):
        presents = ()
        for index, layer in enumerate(self.layers):
            hidden_states, kv_cache = layer(hidden_states, kv_cache=kv_caches[index] if kv_caches is not None else None)
            if kv_caches is not None:
                presents = presents + (kv_cache[0],)
            elif len(presents) == 0:
                presents = kv_cache
            else:
                presents = torch.cat((presents, kv_cache), dim=0)
        return self.final_layernorm(hidden_states), presents


class ChatGLMModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.encoder = GLMTransformer(config)
        self.output_layer = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids, past_key_values=None):
        hidden_states, presents = self.encoder(self.embedding(input_ids), kv_caches=past_key_values)
        return self.output_layer(hidden_states), tuple(presents)


class ChatGLMForConditionalGeneration(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.transformer = ChatGLMModel(config)

    def forward(self, input_ids, past_key_values=None):
        return self.transformer(input_ids, past_key_values=past_key_values)

# === rounded_layers_on_the_second_card
# thread: https://github.com/qwopqwop200/GPTQ-for-LLaMa/pull/163
# about: weights of a language model are packed in four bits each, and its layers laid on two cards. Each product of such a layer is summed into a fresh output
# operation: add|add_|iadd on cuda:0, cuda:1
# operands: output|self|other
# category: default-or-current-device
# line: quant/quant_linear.py: output = torch.zeros((input.shape[0], qweight.shape[1]), device="cuda"
# repair: quant/quant_linear.py: output = torch.zeros((input.shape[0], qweight.shape[1]), device="cuda", dtype=scales.dtype) -> output = torch.zeros((input.shape[0], qweight.shape[1]), device=input.device, dtype=scales.dtype)
import torch

from llama import LlamaForCausalLM, llama_multigpu
from quant.quant_linear import make_quant_linear


def load_quant(vocab_size, hidden_size, num_layers, wbits, groupsize):
    torch.manual_seed(163)
    model = LlamaForCausalLM(vocab_size, hidden_size, num_layers)
    for layer in model.model.layers:
        make_quant_linear(layer, wbits, groupsize)
    return model.eval()


def generate(model, input_ids, max_length):
    while input_ids.shape[1] < max_length:
        with torch.no_grad():
            logits = model(input_ids)
        chosen = logits[:, -1].argmax(dim=-1, keepdim=True)
        input_ids = torch.cat([input_ids, chosen.to(input_ids.device)], dim=1)
    return input_ids, logits


if __name__ == "__main__":
    model = load_quant(vocab_size=30, hidden_size=32, num_layers=4, wbits=4, groupsize=16)
    gpus = [torch.device("cuda:%d" % i) for i in range(torch.cuda.device_count())]
    llama_multigpu(model, gpus)
    prompt = torch.tensor([[3, 14, 15, 9], [2, 6, 5, 3]]).to(gpus[0])
    generated_ids, logits = generate(model, prompt, max_length=12)
    print("generated", generated_ids.tolist())
    print(f"last logits {logits.double().square().sum().item():.3f}")
# --- quant/quant_linear.py
import torch
from torch import nn


def unpack(packed, bits, rows):
    shifts = torch.arange(0, 32, bits, device=packed.device)
    values = (packed[:, None, :] >> shifts[None, :, None]) & (2**bits - 1)
    return values.reshape(-1, packed.shape[1])[:rows]


def matmul248(input, qweight, scales, zeros, bits, groupsize):
    """The product with packed weights, a group of rows after the other."""
    output = torch.zeros((input.shape[0], qweight.shape[1]), device="cuda", dtype=scales.dtype)
    weight = unpack(qweight, bits, input.shape[1])
    for group in range(scales.shape[0]):
        rows = slice(group * groupsize, (group + 1) * groupsize)
        output += input[:, rows] @ ((weight[rows] - zeros[group]) * scales[group])
    return output


class QuantLinear(nn.Module):
    def __init__(self, linear, bits, groupsize):
        super().__init__()
        self.bits, self.groupsize = bits, groupsize
        self.outfeatures = linear.out_features
        groups = linear.weight.detach().t().reshape(-1, groupsize, linear.out_features)
        low, high = groups.amin(dim=1), groups.amax(dim=1)
        scales = (high - low) / (2**bits - 1)
        zeros = torch.round(-low / scales)
        rounded = torch.clamp(torch.round(groups / scales[:, None]) + zeros[:, None], 0, 2**bits - 1)
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", zeros)
        self.register_buffer("qweight", self.pack(rounded.reshape(-1, linear.out_features).long()))

    def pack(self, values):
        each = 32 // self.bits
        shifts = torch.arange(0, 32, self.bits)
        return (values.reshape(-1, each, values.shape[1]) << shifts[None, :, None]).sum(dim=1)

    def forward(self, x):
        out = matmul248(x.reshape(-1, x.shape[-1]), self.qweight, self.scales, self.zeros, self.bits, self.groupsize)
        return out.reshape(x.shape[:-1] + (self.outfeatures,))


def make_quant_linear(module, bits, groupsize):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, QuantLinear(child, bits, groupsize))
        else:
            make_quant_linear(child, bits, groupsize)
# --- llama.py
import math

import torch
from torch import nn


class LlamaDecoderLayer(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(hidden_size)
        self.qkv_proj = nn.Linear(hidden_size, 3 * hidden_size, bias=False)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None):
        q, k, v = self.qkv_proj(self.input_layernorm(hidden_states)).chunk(3, dim=-1)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask)
        hidden_states = hidden_states + self.o_proj(attended)
        return hidden_states + nn.functional.silu(self.up_proj(hidden_states))


class LlamaModel(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, hidden_size)
        self.layers = nn.ModuleList(LlamaDecoderLayer(hidden_size) for _ in range(num_layers))
        self.norm = nn.RMSNorm(hidden_size)

    def forward(self, input_ids):
        hidden_states = self.embed_tokens(input_ids)
        length = input_ids.shape[1]
        attention_mask = torch.ones(length, length, dtype=torch.bool, device=input_ids.device).tril()
        for decoder_layer in self.layers:
            hidden_states = decoder_layer(hidden_states, attention_mask=attention_mask)
        return self.norm(hidden_states)


class LlamaForCausalLM(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_layers):
        super().__init__()
        self.model = LlamaModel(vocab_size, hidden_size, num_layers)
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)

    def forward(self, input_ids):
        return self.lm_head(self.model(input_ids))


class MoveModule(nn.Module):
    """Brings all that its layer is called with to the layer's card."""

    def __init__(self, module, dev):
        super().__init__()
        self.module, self.dev = module, dev

    def forward(self, *inp, **kwargs):
        inp = [each.to(self.dev) for each in inp]
        kwargs = {name: each.to(self.dev) for name, each in kwargs.items()}
        return self.module(*inp, **kwargs)


def llama_multigpu(model, gpus):
    model.model.embed_tokens = model.model.embed_tokens.to(gpus[0])
    model.model.norm = model.model.norm.to(gpus[-1])
    model.lm_head = model.lm_head.to(gpus[-1])
    layers = model.model.layers
    pergpu = math.ceil(len(layers) / len(gpus))
    for i in range(len(layers)):
        dev = gpus[i // pergpu]
        layers[i] = MoveModule(layers[i].to(dev), dev)
    model.gpus = gpus

# === tensor_trains_of_measurements_joined
# thread: https://github.com/rballester/tntorch/issues/46
# about: measurements over time are kept as small cores whose product they are. To join two of them along time, the cores are widened with zeros
# operation: add|add_|iadd on cpu, cuda:0
# operands: other|self|.*cores.*
# category: created-without-device
# line: tntorch/tools.py: t.cores[dim] = torch.zeros(
# repair: tntorch/tools.py: t.cores[dim] = torch.zeros(t.cores[dim].shape[0], sumshapes[-1], t.cores[dim].shape[-1]) -> t.cores[dim] = torch.zeros(t.cores[dim].shape[0], sumshapes[-1], t.cores[dim].shape[-1], device=t.cores[dim].device)
# repair: tntorch/tools.py: t.Us[dim] = torch.zeros(sumshapes[-1], t.Us[dim].shape[-1]) -> t.Us[dim] = torch.zeros(sumshapes[-1], t.Us[dim].shape[-1], device=t.Us[dim].device)
import torch

import tntorch as tn


def station(day, generator, hours=6):
    """Temperatures of a day over a field of sensors, with a little noise."""
    time = (torch.arange(hours) + hours * day)[:, None, None]
    y, x = torch.arange(5)[:, None] / 5, torch.arange(4)[None, :] / 4
    warm = torch.sin(time / 4 + 2 * x) + torch.cos(y * 3) * (1 + time / 20)
    return warm + 0.01 * torch.randn(hours, 5, 4, generator=generator)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator().manual_seed(46)
    archive, days = None, []
    for day in range(3):
        measured = station(day, generator).to(device)
        days.append(measured)
        compressed = tn.Tensor(measured, ranks_tt=4)
        archive = compressed if archive is None else tn.cat(archive, compressed, dim=0)
        print(f"day {day}: shape {archive.shape}, numbers kept {archive.numcoef()}")
    error = (archive.torch() - torch.cat(days)).norm() / torch.cat(days).norm()
    mean = archive.torch().mean(dim=(1, 2))
    print(f"error {error.item():.3f}, warmest {mean.max().item():.3f}, sum {mean.sum().item():.3f}")


if __name__ == "__main__":
    main()
# --- tntorch/__init__.py
from tntorch.tensor import Tensor
from tntorch.tools import cat

__all__ = ["Tensor", "cat"]
# --- tntorch/tensor.py
import torch


class Tensor:
    """A tensor train. A core may have a factor besides, which widens its middle axis."""

    def __init__(self, data, Us=None, ranks_tt=None):
        self.cores = list(data) if isinstance(data, (list, tuple)) else train_of(data, ranks_tt)
        self.Us = list(Us) if Us is not None else [None] * len(self.cores)

    @property
    def shape(self):
        return tuple(core.shape[1] if U is None else U.shape[0] for core, U in zip(self.cores, self.Us))

    def dim(self):
        return len(self.cores)

    def numcoef(self):
        return sum(each.numel() for each in self.cores + self.Us if each is not None)

    def clone(self):
        return Tensor([core.clone() for core in self.cores], [None if U is None else U.clone() for U in self.Us])

    def whole_cores(self):
        return [core if U is None else torch.einsum("ijk,aj->iak", core, U) for core, U in zip(self.cores, self.Us)]

    def torch(self):
        result = self.whole_cores()[0]
        for core in self.whole_cores()[1:]:
            result = torch.tensordot(result, core, dims=1)
        return result[0, ..., 0]

    def __add__(self, other):
        """The sum of two trains: their cores side by side, in blocks."""
        cores = []
        last = self.dim() - 1
        for n, (a, b) in enumerate(zip(self.whole_cores(), other.whole_cores())):
            if n == 0:
                cores.append(torch.cat([a, b], dim=2))
            elif n == last:
                cores.append(torch.cat([a, b], dim=0))
            else:
                above = torch.cat([a, a.new_zeros(a.shape[0], a.shape[1], b.shape[2])], dim=2)
                below = torch.cat([b.new_zeros(b.shape[0], b.shape[1], a.shape[2]), b], dim=2)
                cores.append(torch.cat([above, below], dim=0))
        return Tensor(cores)


def train_of(data, rank):
    cores, rest, left = [], data, 1
    for size in data.shape[:-1]:
        u, s, vh = torch.linalg.svd(rest.reshape(left * size, -1), full_matrices=False)
        kept = min(rank, len(s))
        cores.append(u[:, :kept].reshape(left, size, kept))
        rest, left = s[:kept, None] * vh[:kept], kept
    return cores + [rest.reshape(left, -1, 1)]
# --- tntorch/tools.py
import numpy as np
import torch


def cat(*ts, dim):
    """Joins trains along an axis: each is widened with zeros to the length of all, and these are added."""
    for t in ts[1:]:
        if any(t.shape[n] != ts[0].shape[n] for n in range(t.dim()) if n != dim):
            raise ValueError("All must have the same shape along all but the given dim")
    sumshapes = np.cumsum([0] + [t.shape[dim] for t in ts]).tolist()
    result = None
    for i in range(len(ts)):
        t = ts[i].clone()
        if t.Us[dim] is None:
            t.cores[dim] = torch.zeros(t.cores[dim].shape[0], sumshapes[-1], t.cores[dim].shape[-1])
            t.cores[dim][:, sumshapes[i] : sumshapes[i + 1], :] += ts[i].cores[dim]
        else:
            t.Us[dim] = torch.zeros(sumshapes[-1], t.Us[dim].shape[-1])
            t.Us[dim][sumshapes[i] : sumshapes[i + 1], :] += ts[i].Us[dim]
        result = t if result is None else result + t
    return result

# === more_messages_like_these_written
# thread: https://github.com/prakhar21/TextAugmentation-GPT2/issues/8
# about: a small GPT-2 learns messages on the card. A second script loads it again and writes more of them, one word after the other
# operation: cat on cpu, cuda:0
# operands: tensors|cur_ids|.*next_token_id|.*torch\.ones.*
# category: default-or-current-device|input-not-moved|input|module-split
# line: cur_ids = torch.cat([cur_ids, torch.ones((1, 1)).long().to(device) * next_token_id], dim=1)
# repair: cur_ids = torch.cat([cur_ids, torch.ones((1, 1)).long().to(device) * next_token_id], dim=1) -> cur_ids = torch.cat([cur_ids, torch.ones((1, 1)).long().to(cur_ids.device) * next_token_id], dim=1)
import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import train
from tokens import WordTokenizer


def choose_from_top_k_top_n(probs, k=10, p=0.8):
    ind = np.argpartition(probs, -k)[-k:]
    ind = ind[np.argsort(-probs[ind])]
    kept = int(np.searchsorted(np.cumsum(probs[ind]), p)) + 1
    top_prob = probs[ind[:kept]] / probs[ind[:kept]].sum()
    return int(np.random.choice(ind[:kept], 1, p=top_prob)[0])


def generate(tokenizer, model, sentences, label, device):
    texts = []
    with torch.no_grad():
        for idx in range(sentences):
            cur_ids = torch.tensor(tokenizer.encode(label)).unsqueeze(0).to("cpu")
            for i in range(12):
                outputs = model(cur_ids, labels=cur_ids)
                loss, logits = outputs[:2]
                softmax_logits = torch.softmax(logits[0, -1].double(), dim=0)
                next_token_id = choose_from_top_k_top_n(softmax_logits.to("cpu").numpy())
                cur_ids = torch.cat([cur_ids, torch.ones((1, 1)).long().to(device) * next_token_id], dim=1)
                if next_token_id in tokenizer.encode("<|endoftext|>"):
                    break
            texts.append(tokenizer.decode(cur_ids.squeeze().to("cpu").tolist()))
    return texts, loss


def load_models(model_name):
    tokenizer = WordTokenizer(train.MESSAGES)
    model = GPT2LMHeadModel(GPT2Config(**train.SIZES, vocab_size=len(tokenizer)))
    model.load_state_dict(torch.load(model_name, map_location="cpu"))
    return tokenizer, model.eval()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes more messages of a kind")
    parser.add_argument("--sentences", type=int, default=3)
    parser.add_argument("--label", default="SPAM")
    args = parser.parse_args()

    DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        MODEL_NAME = Path(folder) / "mymodel.pt"
        train.train(MODEL_NAME, DEVICE)
        TOKENIZER, MODEL = load_models(MODEL_NAME)
    np.random.seed(8)
    texts, loss = generate(TOKENIZER, MODEL, args.sentences, args.label, DEVICE)
    print(*texts, sep="\n")
    print(f"words {sum(len(text.split()) for text in texts)}, loss {loss.item():.3f}")
# --- tokens.py
class WordTokenizer:
    def __init__(self, messages):
        self.words = sorted({word for message in messages for word in message.split()} | {"<|endoftext|>"})

    def __len__(self):
        return len(self.words)

    def encode(self, text):
        return [self.words.index(word) for word in text.split()]

    def decode(self, ids):
        return " ".join(self.words[each] for each in ids)
# --- train.py
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from tokens import WordTokenizer

MESSAGES = [
    "SPAM you won a prize call now",
    "SPAM call now for a free prize",
    "SPAM win free tickets text now",
    "HAM are you home for dinner",
    "HAM I will call you later",
    "HAM see you at dinner later",
]
SIZES = {"n_positions": 24, "n_embd": 24, "n_layer": 2, "n_head": 2, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def train(model_path, device, epochs=6):
    torch.manual_seed(2020)
    tokenizer = WordTokenizer(MESSAGES)
    model = GPT2LMHeadModel(GPT2Config(**SIZES, vocab_size=len(tokenizer))).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(epochs):
        for message in MESSAGES:
            ids = torch.tensor([tokenizer.encode(message + " <|endoftext|>")]).to(device)
            loss = model(ids, labels=ids)[0]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save(model.state_dict(), model_path)

# === happy_or_not_asked_of_a_saved_model
# thread: https://github.com/RajKKapadia/Transformers-Text-Classification-BERT-Blog/issues/1
# about: a small BERT learns moods of sentences and is saved. It is loaded again under a new name, and sentences are given to that one
# operation: index|index_select|embedding on cuda:0, cpu
# operands: index|input|input_ids|self|weight|.*word_embeddings.*|new_model
# category: module-split|checkpoint
# line: new_model = BertForSequenceClassification.from_pretrained(folder)
# line: encoding = {k: v.to(trainer.model.device)
# line: outputs = new_model(**encoding)
# repair: new_model = BertForSequenceClassification.from_pretrained(folder) -> new_model = BertForSequenceClassification.from_pretrained(folder).to(trainer.model.device)
import tempfile

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

SENTENCES = {
    "I am happy to see you": 1,
    "I am not happy to see you": 0,
    "what a lovely day": 1,
    "this is not a lovely day": 0,
    "I love this film": 1,
    "I do not love this": 0,
    "you are a good friend": 1,
    "you are not good to me": 0,
}


def make_tokenizer():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted({word for text in SENTENCES for word in text.split()})]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")


class TextTrainer:
    """Takes batches of texts and labels, and moves them to where its model is."""

    def __init__(self, model, tokenizer, epochs, learning_rate):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        self.tokenizer, self.epochs = tokenizer, epochs
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=learning_rate)

    def train(self, dataset):
        loader = DataLoader(dataset, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(1))
        for epoch in range(self.epochs):
            for texts, labels in loader:
                batch = self.tokenizer(list(texts), return_tensors="pt", padding=True)
                batch["labels"] = labels
                loss = self.model(**{name: each.to(self.device) for name, each in batch.items()}).loss
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        return loss.item()


def get_prediction(text):
    encoding = new_tokenizer(text, return_tensors="pt", padding="max_length", truncation=True, max_length=12)
    encoding = {k: v.to(trainer.model.device) for k, v in encoding.items()}
    outputs = new_model(**encoding)
    logits = outputs.logits
    probs = torch.sigmoid(logits.squeeze().detach().cpu()).numpy()
    return ("happy" if probs.argmax() == 1 else "unhappy"), float(probs[probs.argmax()])


torch.manual_seed(2023)
tokenizer = make_tokenizer()
config = BertConfig(
    vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16,
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2, initializer_range=0.3,
)  # fmt: skip
trainer = TextTrainer(BertForSequenceClassification(config), tokenizer, epochs=8, learning_rate=1e-2)
print(f"loss {trainer.train(list(SENTENCES.items())):.3f}")

with tempfile.TemporaryDirectory() as folder:
    trainer.model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    new_model = BertForSequenceClassification.from_pretrained(folder)
    new_tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)

for text in ("I am not happy to see you.", "a lovely friend"):
    mood, probability = get_prediction(text)
    print(f"{text} {mood} {probability:.3f}")

# === waves_of_hydrogen_weighed_by_their_length
# thread: https://github.com/sambit-giri/tools21cm/issues/82
# about: a cube of early hydrogen is taken apart into waves on the card. Their power is averaged over shells, whose members numpy has counted
# operation: div|true_divide on cuda:0, cpu
# operands: counts|other
# category: created-without-device|input-not-moved|input
# line: tools21cm/power_spectrum.py: counts = _as_backend_array(n_modes, name, xp)
# line: tools21cm/power_spectrum.py: return input_array if xp.is_tensor(input_array) else
# line: tools21cm/power_spectrum.py: outdata = sums / counts
# repair: tools21cm/power_spectrum.py: def _as_backend_array(input_array, name, xp): -> def _as_backend_array(input_array, name, xp, device=None):
# repair: tools21cm/power_spectrum.py: return input_array if xp.is_tensor(input_array) else xp.as_tensor(np.ascontiguousarray(input_array)) -> return xp.as_tensor(input_array if xp.is_tensor(input_array) else np.ascontiguousarray(input_array), device=device)
# repair: tools21cm/power_spectrum.py: counts = _as_backend_array(n_modes, name, xp).to(sums.dtype) -> counts = _as_backend_array(n_modes, name, xp, device=sums.device).to(sums.dtype)
import numpy as np
import torch

from tools21cm.power_spectrum import power_spectrum_1d


def brightness(cells, box, bubbles, seed):
    """A cube of neutral gas with noise, in which round bubbles have been burnt out."""
    rng = np.random.default_rng(seed)
    axis = (np.arange(cells) + 0.5) * box / cells
    x, y, z = np.meshgrid(axis, axis, axis, indexing="ij")
    field = 1 + 0.1 * rng.standard_normal((cells, cells, cells))
    for centre, radius in zip(rng.random((bubbles, 3)) * box, rng.random(bubbles) * box / 6 + box / 12):
        field[(x - centre[0]) ** 2 + (y - centre[1]) ** 2 + (z - centre[2]) ** 2 < radius**2] = 0
    return field.astype(np.float32)


def main():
    cells, box = 12, 60.0
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print("redshift, bubbles, strongest wave, sum of the spectrum")
    total = 0.0
    for redshift, bubbles in ((9, 2), (8, 5), (7, 9)):
        field = brightness(cells, box, bubbles, seed=redshift)
        cube = torch.as_tensor(field, device=device)
        ps, ks, n_modes = power_spectrum_1d(cube, box_dims=box, kbins=6, backend="torch")
        scaled = ps * torch.as_tensor(ks**3, device=ps.device) / (2 * np.pi**2)
        total += scaled.sum().item()
        print(redshift, bubbles, f"{ks[int(scaled.argmax())]:.3f}", f"{scaled.sum().item():.4f}")

    check, ks, n_modes = power_spectrum_1d(field, box_dims=box, kbins=6, backend="numpy")
    print(f"sum {total:.3f}, modes {int(n_modes.sum())}, against numpy {np.abs(check - ps.cpu().numpy()).max():.3f}")


if __name__ == "__main__":
    main()
# --- tools21cm/power_spectrum.py
import numpy as np
import torch

BACKENDS = {"numpy": np, "torch": torch}


def _as_backend_array(input_array, name, xp):
    """The backend's kind of array; what is of that kind already is not copied."""
    if name == "torch":
        return input_array if xp.is_tensor(input_array) else xp.as_tensor(np.ascontiguousarray(input_array))
    return xp.asarray(input_array)


def _get_dims(box_dims, shape):
    return [float(box_dims)] * len(shape) if np.isscalar(box_dims) else [float(length) for length in box_dims]


def _get_k(shape, box_dims):
    """How many times each wave turns along a length of one, for all of the cube's waves."""
    axes = [2 * np.pi * np.fft.fftshift(np.fft.fftfreq(size, d=length / size)) for size, length in zip(shape, box_dims)]
    return np.sqrt(sum(component**2 for component in np.meshgrid(*axes, indexing="ij")))


def _get_kbins(kbins, k):
    lowest = k[k > 0].min()
    return np.logspace(np.log10(lowest * 0.99), np.log10(k.max() * 1.01), kbins + 1)


def power_spectrum_nd(input_array, box_dims, name, xp):
    if name == "torch":
        ft = xp.fft.fftshift(xp.fft.fftn(input_array.double()))
    else:
        ft = xp.fft.fftshift(xp.fft.fftn(input_array.astype("float64")))
    boxvol = float(np.prod(box_dims))
    pixelsize = boxvol / float(np.prod(input_array.shape))
    return xp.abs(ft) ** 2 * (pixelsize**2 / boxvol)


def _radial_average_numpy(power, which, n_modes):
    sums = np.bincount(which, weights=power.flatten(), minlength=len(n_modes) + 2)[1:-1]
    return sums / n_modes


def _radial_average_backend(power, which, n_modes, name, xp):
    index = xp.as_tensor(which, device=power.device)
    sums = xp.bincount(index, weights=power.flatten(), minlength=len(n_modes) + 2)[1:-1]
    counts = _as_backend_array(n_modes, name, xp).to(sums.dtype)
    outdata = sums / counts
    return outdata


def radial_average(power, box_dims, kbins, name, xp):
    k = _get_k(power.shape, box_dims)
    edges = _get_kbins(kbins, k)
    which = np.digitize(k.flatten(), edges)
    n_modes = np.bincount(which, minlength=kbins + 2)[1:-1].astype(float)
    if name == "torch":
        outdata = _radial_average_backend(power, which, n_modes, name, xp)
    else:
        outdata = _radial_average_numpy(power, which, n_modes)
    return outdata, (edges[1:] + edges[:-1]) / 2, n_modes


def power_spectrum_1d(input_array_nd, box_dims, kbins=100, backend="numpy"):
    name, xp = backend, BACKENDS[backend]
    input_array = _as_backend_array(input_array_nd, name, xp)
    box_dims = _get_dims(box_dims, input_array.shape)
    power = power_spectrum_nd(input_array, box_dims, name, xp)
    return radial_average(power, box_dims, kbins, name, xp)
