# === scales_searched_layer_by_layer
# thread: https://github.com/microsoft/Olive/pull/1480
# about: weights of a language model are rounded to a few bits. For that its layers come to the card one by one, and inputs of the first are caught
# operation: mm|matmul on cpu, cuda:0
# operands: self|input|.*inv_freq.*
# category: module-split|input-not-moved
# line: olive/passes/pytorch/autoawq.py: EMBED_MODULES = ["embed_tokens"]
# line: olive/passes/pytorch/autoawq.py: for name in EMBED_MODULES:
# line: olive/model/modeling_llama.py: freqs = self.inv_freq[:, None] @
# line: olive/model/modeling_llama.py: position_embeddings = self.rotary_emb(
# repair: olive/passes/pytorch/autoawq.py: EMBED_MODULES = ["embed_tokens"] -> EMBED_MODULES = ["embed_tokens", "rotary_emb"]
import torch

from olive.model.modeling_llama import LlamaForCausalLM
from olive.passes.pytorch.autoawq import AutoAWQQuantizer

if __name__ == "__main__":
    torch.manual_seed(43)
    model = LlamaForCausalLM(vocab_size=24, hidden_size=16, num_layers=2)
    samples = torch.randint(0, 24, (4, 10), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        before = model(samples)
        AutoAWQQuantizer(model, w_bit=3).quantize(samples)
        after = model.to("cpu")(samples)
    error = (after - before).square().mean().item()
    print(f"error {error:.5f} of {before.square().mean().item():.5f}, sum {after.double().sum().item():.3f}")
# --- olive/model/modeling_llama.py
import torch
from torch import nn


class LlamaRotaryEmbedding(nn.Module):
    def __init__(self, dim, base=100.0):
        super().__init__()
        inv_freq = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, position_ids):
        freqs = self.inv_freq[:, None] @ position_ids[None, :].float()
        emb = torch.cat([freqs, freqs]).t()
        return emb.cos(), emb.sin()


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([-x2, x1], dim=-1)


class LlamaDecoderLayer(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(hidden_size)
        self.qkv_proj = nn.Linear(hidden_size, 3 * hidden_size, bias=False)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.mlp = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, hidden_states, position_embeddings):
        cos, sin = position_embeddings
        q, k, v = self.qkv_proj(self.input_layernorm(hidden_states)).chunk(3, dim=-1)
        q, k = (each * cos + rotate_half(each) * sin for each in (q, k))
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        hidden_states = hidden_states + self.o_proj(attended)
        return hidden_states + torch.tanh(self.mlp(hidden_states))


class LlamaModel(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, hidden_size)
        self.layers = nn.ModuleList(LlamaDecoderLayer(hidden_size) for _ in range(num_layers))
        self.rotary_emb = LlamaRotaryEmbedding(hidden_size)

    def forward(self, input_ids):
        hidden_states = self.embed_tokens(input_ids)
        position_ids = torch.arange(input_ids.shape[1], device=hidden_states.device)
        position_embeddings = self.rotary_emb(position_ids)
        for decoder_layer in self.layers:
            hidden_states = decoder_layer(hidden_states, position_embeddings=position_embeddings)
        return hidden_states


class LlamaForCausalLM(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_layers):
        super().__init__()
        self.model = LlamaModel(vocab_size, hidden_size, num_layers)
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)

    def forward(self, input_ids):
        return self.lm_head(self.model(input_ids))
# --- olive/passes/pytorch/autoawq.py
import torch
from torch import nn

from olive.passes.pytorch.search import best_scale, fake_quantize

EMBED_MODULES = ["embed_tokens"]


class Catcher(nn.Module):
    """Stands for the first layer, and keeps what it is called with."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        self.inps, self.kwargs = None, {}

    def forward(self, hidden_states, **kwargs):
        self.inps, self.kwargs = hidden_states, kwargs
        raise StopIteration


class AutoAWQQuantizer:
    def __init__(self, model, w_bit):
        self.model, self.w_bit = model, w_bit
        self.modules = model.model.layers
        self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

    def move_embed(self, device):
        for name in EMBED_MODULES:
            getattr(self.model.model, name).to(device)

    def init_quant(self, samples):
        self.modules[0] = self.modules[0].to(self.device)
        self.move_embed(self.device)
        self.modules[0] = catcher = Catcher(self.modules[0])
        try:
            self.model(samples.to(self.device))
        except StopIteration:
            pass
        self.modules[0] = catcher.module.cpu()
        self.move_embed("cpu")
        return catcher.inps, catcher.kwargs

    def quantize(self, samples):
        inps, module_kwargs = self.init_quant(samples)
        for layer in self.modules:
            layer.to(self.device)
            for linear in (each for each in layer.modules() if isinstance(each, nn.Linear)):
                features = self.features_of(layer, linear, inps, module_kwargs)
                scale = best_scale(linear.weight, features, self.w_bit)
                linear.weight.copy_(fake_quantize(linear.weight * scale, self.w_bit) / scale)
            inps = layer(inps, **module_kwargs)
            layer.cpu()

    def features_of(self, layer, linear, inps, module_kwargs):
        caught = []
        handle = linear.register_forward_hook(lambda _, args, output: caught.append(args[0]))
        layer(inps, **module_kwargs)
        handle.remove()
        return caught[0].flatten(0, 1)
# --- olive/passes/pytorch/search.py
def fake_quantize(weight, w_bit):
    step = weight.abs().amax(dim=1, keepdim=True).clamp_min(1e-5) / (2 ** (w_bit - 1) - 1)
    return (weight / step).round() * step


def best_scale(weight, features, w_bit, grid=5):
    """How much channels are widened before they are rounded, as larger inputs ask for it."""
    size = features.abs().mean(dim=0).clamp_min(1e-4)
    scales = [size.pow(ratio / grid) for ratio in range(grid)]
    wanted = features @ weight.t()
    errors = [(features @ (fake_quantize(weight * each, w_bit) / each).t() - wanted).square().mean().item() for each in scales]
    return scales[errors.index(min(errors))]

# === strings_of_molecules_encoded_against_an_adversary
# thread: https://github.com/molecularsets/moses/issues/97
# about: an adversarial autoencoder learns molecules, written as strings of unlike length. A discriminator tells its codes from codes that were drawn
# operation: _?pack_padded_sequence on cuda:0
# operands: lengths|.*lengths.*
# error: 'lengths' argument should be a 1D CPU
# category: input|input-not-moved|created-without-device
# line: moses/aae/model.py: x = pack_padded_sequence(x, lengths,
# line: moses/aae/trainer.py: lengths = torch.tensor([len(t) - 1 for t in tensors],
# line: moses/aae/model.py: return self.encoder(x, lengths)
# line: moses/aae/trainer.py: latent_codes = model.encoder_forward(*encoder_inputs)
# repair: moses/aae/model.py: x = pack_padded_sequence(x, lengths, batch_first=True) -> x = pack_padded_sequence(x, lengths.cpu(), batch_first=True)
import torch

from moses.aae.config import get_parser
from moses.aae.model import AAE
from moses.aae.trainer import AAETrainer
from moses.vocab import CharVocab

DATA = ["CCO", "CCN", "c1ccccc1", "CC(=O)O", "CCCC", "C1CCCCC1", "CNC", "OCCO", "CC(C)N", "c1ccncc1", "CCOC", "NCC=O"]

if __name__ == "__main__":
    config = get_parser().parse_args([])
    torch.manual_seed(config.seed)
    vocab = CharVocab.from_data(DATA)
    model = AAE(vocab, config).to(config.device)
    losses = AAETrainer(config).fit(model, DATA)
    print("autoencoder, generator, discriminator", [f"{loss:.3f}" for loss in losses])
# --- moses/aae/config.py
import argparse


def get_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:1")
    parser.add_argument("--embedding_size", type=int, default=8)
    parser.add_argument("--hidden_size", type=int, default=12)
    parser.add_argument("--latent_size", type=int, default=4)
    parser.add_argument("--n_batch", type=int, default=4)
    parser.add_argument("--train_epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=97)
    return parser
# --- moses/vocab.py
import torch


class CharVocab:
    def __init__(self, chars):
        self.i2c = ["<bos>", "<eos>", "<pad>", *sorted(chars)]
        self.c2i = {c: i for i, c in enumerate(self.i2c)}
        self.bos, self.eos, self.pad = 0, 1, 2

    @classmethod
    def from_data(cls, data):
        return cls(set("".join(data)))

    def __len__(self):
        return len(self.i2c)

    def string2tensor(self, string, device):
        ids = [self.bos] + [self.c2i[c] for c in string] + [self.eos]
        return torch.tensor(ids, dtype=torch.long, device=device)
# --- moses/aae/model.py
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Encoder(nn.Module):
    def __init__(self, embedding, hidden_size, latent_size):
        super().__init__()
        self.embedding = embedding
        self.lstm = nn.LSTM(embedding.embedding_dim, hidden_size, batch_first=True)
        self.linear = nn.Linear(hidden_size, latent_size)

    def forward(self, x, lengths):
        x = self.embedding(x)
        x = pack_padded_sequence(x, lengths, batch_first=True)
        _, (_, x) = self.lstm(x)
        return self.linear(x.squeeze(0))


class Decoder(nn.Module):
    def __init__(self, embedding, hidden_size, latent_size):
        super().__init__()
        self.embedding = embedding
        self.latent2hidden = nn.Linear(latent_size, hidden_size)
        self.lstm = nn.LSTM(embedding.embedding_dim, hidden_size, batch_first=True)
        self.linear = nn.Linear(hidden_size, embedding.num_embeddings)

    def forward(self, x, lengths, states):
        h0 = self.latent2hidden(states).unsqueeze(0)
        packed = pack_padded_sequence(self.embedding(x), lengths, batch_first=True)
        packed, _ = self.lstm(packed, (h0, torch.zeros_like(h0)))
        return self.linear(pad_packed_sequence(packed, batch_first=True)[0])


class AAE(nn.Module):
    def __init__(self, vocabulary, config):
        super().__init__()
        self.vocabulary, self.latent_size = vocabulary, config.latent_size
        embeddings = nn.Embedding(len(vocabulary), config.embedding_size, padding_idx=vocabulary.pad)
        self.encoder = Encoder(embeddings, config.hidden_size, config.latent_size)
        self.decoder = Decoder(embeddings, config.hidden_size, config.latent_size)
        self.discriminator = nn.Sequential(nn.Linear(config.latent_size, 8), nn.ELU(), nn.Linear(8, 1))

    @property
    def device(self):
        return next(self.parameters()).device

    def encoder_forward(self, x, lengths):
        return self.encoder(x, lengths)

    def decoder_forward(self, x, lengths, states):
        return self.decoder(x, lengths, states)
# --- moses/aae/trainer.py
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


class AAETrainer:
    def __init__(self, config):
        self.config = config

    def get_collate_fn(self, model):
        device, vocab = model.device, model.vocabulary

        def collate(data):
            data.sort(key=len, reverse=True)
            tensors = [vocab.string2tensor(string, device=device) for string in data]
            pad = lambda parts: pad_sequence(parts, batch_first=True, padding_value=vocab.pad)
            lengths = torch.tensor([len(t) - 1 for t in tensors], dtype=torch.long, device=device)
            encoder_inputs = pad([t[1:] for t in tensors]), lengths
            decoder_inputs = pad([t[:-1] for t in tensors]), lengths.tolist()
            return encoder_inputs, decoder_inputs, pad([t[1:] for t in tensors])

        return collate

    def _train_epoch(self, model, loader, criterions, optimizers):
        for encoder_inputs, decoder_inputs, targets in loader:
            latent_codes = model.encoder_forward(*encoder_inputs)
            outputs = model.decoder_forward(*decoder_inputs, latent_codes)
            autoencoder_loss = criterions["ce"](outputs.flatten(0, 1), targets.flatten())
            fooled = model.discriminator(latent_codes)
            generator_loss = criterions["bce"](fooled, torch.ones_like(fooled))
            optimizers["autoencoder"].zero_grad()
            (autoencoder_loss + 0.1 * generator_loss).backward()
            optimizers["autoencoder"].step()

            drawn = torch.randn(latent_codes.shape).to(model.device)
            real, false = model.discriminator(drawn), model.discriminator(latent_codes.detach())
            discriminator_loss = criterions["bce"](real, torch.ones_like(real)) + criterions["bce"](false, torch.zeros_like(false))
            optimizers["discriminator"].zero_grad()
            discriminator_loss.backward()
            optimizers["discriminator"].step()
        return [each.item() for each in (autoencoder_loss, generator_loss, discriminator_loss)]

    def fit(self, model, data):
        loader = DataLoader(data, batch_size=self.config.n_batch, collate_fn=self.get_collate_fn(model))
        criterions = {"ce": nn.CrossEntropyLoss(ignore_index=model.vocabulary.pad), "bce": nn.BCEWithLogitsLoss()}
        coders = [*model.encoder.parameters(), *model.decoder.linear.parameters(), *model.decoder.lstm.parameters()]
        optimizers = {
            "autoencoder": torch.optim.Adam(coders + list(model.decoder.latent2hidden.parameters()), lr=self.config.lr),
            "discriminator": torch.optim.Adam(model.discriminator.parameters(), lr=self.config.lr),
        }
        return [self._train_epoch(model, loader, criterions, optimizers) for _ in range(self.config.train_epochs)][-1]

# === answers_end_where_a_word_says_so
# thread: https://github.com/magic-research/bubogpt/issues/11
# about: a chat about pictures and sounds writes its answer word by word, until one of some words has come. Which card it runs on is an option
# operation: (eq|equal) on cuda:0, cuda:1
# operands: self|stop|.*stop.*
# category: default-or-current-device|created-without-device|cached-state|state-not-registered
# line: conversation.py: stop_words_ids = [torch.tensor(ids).to(device) for ids in STOP_IDS]
# line: demo.py: chat = Chat(model)
# line: conversation.py: def __init__(self, model, device="cuda:0"):
# line: conversation.py: self.stopping_criteria = [StoppingCriteriaSub(stops=stop_words_ids)]
# line: conversation.py: if torch.all(stop == input_ids[0][-len(stop):]):
# repair: demo.py: chat = Chat(model) -> chat = Chat(model, device=f"cuda:{args.gpu_id}")
import argparse

from demo import build, ask

parser = argparse.ArgumentParser(description="Demo")
parser.add_argument("--gpu-id", type=int, default=1)
parser.add_argument("--max-new-tokens", type=int, default=12)

if __name__ == "__main__":
    args = parser.parse_args()
    chat = build(args)
    first = ask(chat, "what is to be heard", seed=1, max_new_tokens=args.max_new_tokens)
    second = ask(chat, "and what is to be seen", seed=2, max_new_tokens=args.max_new_tokens)
    print("answers", first, second)
# --- demo.py
import torch

from conversation import Chat
from mm_gpt4 import MMGPT4


def build(args):
    torch.manual_seed(13)
    model = MMGPT4(vocab=16, width=12)
    model = model.to(f"cuda:{args.gpu_id}").eval()
    chat = Chat(model)
    return chat


def ask(chat, text, seed, max_new_tokens):
    generator = torch.Generator().manual_seed(seed)
    emb_list = [
        chat.model.encode_image(torch.rand((1, 3, 8, 8), generator=generator)),
        chat.model.encode_audio(torch.rand((1, 1, 32), generator=generator)),
    ]
    return chat.answer(text, emb_list, max_new_tokens)
# --- mm_gpt4.py
import torch
from torch import nn


class MMGPT4(nn.Module):
    """Pictures and sounds are turned into words of a language model."""

    def __init__(self, vocab, width):
        super().__init__()
        self.visual_encoder = nn.Sequential(nn.Conv2d(3, width, 4, stride=4), nn.Flatten(2))
        self.audio_encoder = nn.Sequential(nn.Conv1d(1, width, 8, stride=8), nn.Flatten(2))
        self.embed_tokens = nn.Embedding(vocab, width)
        self.mixer = nn.GRU(width, width, batch_first=True)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    @property
    def device(self):
        return self.lm_head.weight.device

    @torch.no_grad()
    def encode_image(self, image):
        return self.visual_encoder(image.to(self.device)).transpose(1, 2)

    @torch.no_grad()
    def encode_audio(self, audio):
        return self.audio_encoder(audio.to(self.device)).transpose(1, 2)

    @torch.no_grad()
    def generate(self, inputs_embeds, max_new_tokens, stopping_criteria):
        hidden, state = self.mixer(inputs_embeds)
        input_ids = torch.empty((1, 0), dtype=torch.long, device=self.device)
        scores = []
        for _ in range(max_new_tokens):
            logits = self.lm_head(hidden[:, -1]).log_softmax(dim=-1)
            for seen in input_ids[0].tolist():
                logits[0, seen] -= 1.5
            score, token = logits.max(dim=-1)
            input_ids = torch.cat([input_ids, token[None]], dim=1)
            scores.append(score)
            if any(criterion(input_ids, scores) for criterion in stopping_criteria):
                break
            hidden, state = self.mixer(self.embed_tokens(token[None]), state)
        return input_ids[0], torch.stack(scores).mean()
# --- conversation.py
import torch

STOP_IDS = [[3], [7, 2], [5, 11]]


def tokenize(text):
    return torch.tensor([[sum(map(ord, word)) % 16 for word in text.split()]])


class StoppingCriteriaSub:
    def __init__(self, stops):
        self.stops = stops

    def __call__(self, input_ids, scores):
        for stop in self.stops:
            if len(input_ids[0]) < len(stop):
                continue
            if torch.all(stop == input_ids[0][-len(stop):]):
                return True
        return False


class Chat:
    def __init__(self, model, device="cuda:0"):
        self.model = model
        self.device = device
        stop_words_ids = [torch.tensor(ids).to(device) for ids in STOP_IDS]
        self.stopping_criteria = [StoppingCriteriaSub(stops=stop_words_ids)]

    def get_context_emb(self, text, emb_list):
        tokens = tokenize(text).to(self.model.device)
        return torch.cat([*emb_list, self.model.embed_tokens(tokens)], dim=1)

    def answer(self, text, emb_list, max_new_tokens):
        embs = self.get_context_emb(text, emb_list)
        ids, score = self.model.generate(embs, max_new_tokens, self.stopping_criteria)
        return ids.tolist(), round(score.item(), 3)

# === tasks_learned_without_forgetting
# thread: https://github.com/lywang3081/AFEC/issues/4
# about: a net learns tasks one after the other, and weights that mattered before are held. Batches of a task are drawn in an order of their own
# operation: randperm on cpu
# operands: generator|.*generator.*
# error: device type for generator
# category: generator|default-or-current-device
# line: approaches/loader.py: return data.DataLoader(
# line: approaches/loader.py: shuffle=True,
# line: main.py: torch.set_default_tensor_type("torch.cuda.FloatTensor")
# line: approaches/afec_ewc.py: self.train_iterator = make_loader(
# line: approaches/loader.py: drop_last=True,
# repair: approaches/loader.py: drop_last=True, -> drop_last=True, generator=torch.Generator(device="cuda"),
import argparse
import warnings

import torch

from approaches.afec_ewc import Appr
from dataloaders.tasks import get
from networks.mlp import Net

warnings.filterwarnings("ignore")

parser = argparse.ArgumentParser(description="Continual")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--nepochs", type=int, default=3)
parser.add_argument("--batch_size", type=int, default=24)
parser.add_argument("--lr", type=float, default=0.02)
parser.add_argument("--lamb", type=float, default=40.0)
parser.add_argument("--lamb_emp", type=float, default=0.1)


def main(args):
    torch.manual_seed(args.seed)
    if torch.cuda.is_available():
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
    taskcla, dataset = get(args.seed)
    net = Net(inputsize=6, hidden=16, taskcla=taskcla).cuda()
    appr = Appr(net, args)
    for t, ncla in taskcla:
        appr.train(t, *dataset[t])
    return [appr.eval(t, *dataset[t]) for t, _ in taskcla]


if __name__ == "__main__":
    print("acc, loss", [f"{acc:.0f} {loss:.2f}" for acc, loss in main(parser.parse_args([]))])
# --- dataloaders/tasks.py
import numpy as np
import torch


def get(seed, tasks=3, classes=2, size=24):
    """Each task tells apart two heaps, which lie far from each other."""
    rng = np.random.default_rng(seed)
    dataset = {}
    for t in range(tasks):
        label = np.arange(size) % classes
        middle = 4.0 * rng.normal(size=(classes, 6))
        rows = middle[label] + 0.3 * rng.normal(size=(size, 6))
        dataset[t] = torch.from_numpy(rows.astype(np.float32)), torch.from_numpy(label)
    return [(t, classes) for t in range(tasks)], dataset
# --- networks/mlp.py
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, inputsize, hidden, taskcla):
        super().__init__()
        self.fc1 = nn.Linear(inputsize, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.last = nn.ModuleList(nn.Linear(hidden, n) for _, n in taskcla)

    def forward(self, x, t):
        h = torch.relu(self.fc1(x))
        h = torch.relu(self.fc2(h))
        return self.last[t](h)
# --- approaches/loader.py
import torch
from torch.utils import data


def make_loader(x, y, batch_size):
    return data.DataLoader(
        data.TensorDataset(x, y),
        batch_size=batch_size,
        shuffle=True,
        drop_last=True,
    )


def to_cuda(batch):
    return [each.cuda() if torch.cuda.is_available() else each for each in batch]
# --- approaches/afec_ewc.py
import torch
from torch import nn

from approaches.loader import make_loader, to_cuda


class Appr:
    """Elastic weights. Beside the old ones a net fresh for the task is remembered."""

    def __init__(self, model, args):
        self.model, self.args = model, args
        self.criterion = nn.CrossEntropyLoss()
        self.fisher, self.old, self.emp = None, None, None

    def _penalty(self):
        loss = 0.0
        for name, param in self.model.named_parameters():
            if self.fisher is not None:
                loss = loss + 0.5 * self.args.lamb * (self.fisher[name] * (param - self.old[name]).square()).sum()
            if self.emp is not None and "last" not in name:
                loss = loss + 0.5 * self.args.lamb_emp * (param - self.emp[name]).square().sum()
        return loss

    def _train_epoch(self, t, optimizer, penalty):
        for batch in self.train_iterator:
            images, targets = to_cuda(batch)
            loss = self.criterion(self.model(images, t), targets)
            if penalty:
                loss = loss + self._penalty()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def _snapshot(self):
        return {name: param.detach().clone() for name, param in self.model.named_parameters()}

    def train(self, t, x, y):
        self.train_iterator = make_loader(x, y, self.args.batch_size)
        before = self._snapshot()
        self._train_epoch(t, torch.optim.SGD(self.model.parameters(), lr=self.args.lr), penalty=False)
        self.emp = self._snapshot()
        self.model.load_state_dict(before)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=self.args.lr)
        for _ in range(self.args.nepochs):
            self._train_epoch(t, optimizer, penalty=True)
        self._update_fisher(t)

    def _update_fisher(self, t):
        new = {name: torch.zeros_like(param) for name, param in self.model.named_parameters()}
        for batch in self.train_iterator:
            images, targets = to_cuda(batch)
            self.model.zero_grad()
            self.criterion(self.model(images, t), targets).backward()
            for name, param in self.model.named_parameters():
                if param.grad is not None:
                    new[name] += param.grad.square()
        old = self.fisher
        self.fisher = {name: (value + t * old[name]) / (t + 1) if old else value for name, value in new.items()}
        self.old = self._snapshot()

    @torch.no_grad()
    def eval(self, t, x, y):
        images, targets = to_cuda([x, y])
        output = self.model(images, t)
        right = (output.argmax(dim=1) == targets).sum().item()
        return 100 * right / len(targets), self.criterion(output, targets).item()

# === poses_that_a_second_model_believes
# thread: https://github.com/gcorso/DiffDock/issues/196
# about: ligands are turned and shifted into a pocket by a diffusion. A second model, which reads the complexes as graphs of another kind, says how
#   sure each pose is
# operation: embedding|index_select on cuda:0, cpu
# operands: index|indices|.*receptor_x.*
# category: input-not-moved|input
# line: utils/sampling.py: confidence_batch = next(confidence_loader)
# line: utils/sampling.py: confidence.append(filtering_model(confidence_batch))
# line: utils/sampling.py: confidence_loader = iter(
# repair: utils/sampling.py: confidence_batch = next(confidence_loader) -> confidence_batch = next(confidence_loader).to(device)
import argparse
import copy

import torch

from datasets.pdb import InferenceDataset
from models.score_model import ConfidenceModel, ScoreModel
from utils.sampling import randomize_position, sampling

parser = argparse.ArgumentParser()
parser.add_argument("--samples_per_complex", type=int, default=6)
parser.add_argument("--inference_steps", type=int, default=5)
parser.add_argument("--batch_size", type=int, default=3)


def main(args):
    torch.manual_seed(96)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = ScoreModel(width=12).to(device).eval()
    filtering_model = ConfidenceModel(width=12).to(device).eval()
    test_dataset = InferenceDataset(size=2, all_atoms=False)
    filtering_dataset = InferenceDataset(size=2, all_atoms=True)
    for orig, filtering in zip(test_dataset, filtering_dataset):
        data_list = [copy.deepcopy(orig) for _ in range(args.samples_per_complex)]
        filtering_list = [copy.deepcopy(filtering) for _ in range(args.samples_per_complex)]
        randomize_position(data_list)
        poses, confidence = sampling(data_list, model, args.inference_steps, args.batch_size, device, filtering_list, filtering_model)
        best = confidence.argmax().item()
        yield best, confidence[best].item(), poses[best].norm(dim=1).mean().item()


if __name__ == "__main__":
    print("complexes", [f"rank1 {best} {sure:.3f} {far:.3f}" for best, sure, far in main(parser.parse_args())])
# --- datasets/pdb.py
from dataclasses import dataclass, fields

import torch


@dataclass
class ComplexGraph:
    """A ligand, and the receptor by its residues or by all its atoms."""

    ligand_x: torch.Tensor
    ligand_pos: torch.Tensor
    receptor_x: torch.Tensor
    receptor_pos: torch.Tensor

    def to(self, device):
        return ComplexGraph(*(getattr(self, field.name).to(device) for field in fields(self)))

    @staticmethod
    def collate(graphs):
        return ComplexGraph(*(torch.stack([getattr(graph, field.name) for graph in graphs]) for field in fields(ComplexGraph)))


class InferenceDataset:
    def __init__(self, size, all_atoms):
        self.size, self.all_atoms = size, all_atoms

    def __getitem__(self, index):
        if index >= self.size:
            raise IndexError(index)
        generator = torch.Generator().manual_seed(index)
        ligand_x = torch.randint(0, 8, (5,), generator=generator)
        ligand_pos = torch.randn((5, 3), generator=generator)
        receptor_pos = 3.0 * torch.randn((7, 3), generator=generator)
        receptor_x = torch.randint(0, 20, (7,), generator=generator)
        if self.all_atoms:
            receptor_pos = (receptor_pos[:, None] + 0.4 * torch.randn((7, 4, 3), generator=generator)).flatten(0, 1)
            receptor_x = receptor_x.repeat_interleave(4)
        return ComplexGraph(ligand_x, ligand_pos, receptor_x, receptor_pos)
# --- models/score_model.py
import torch
from torch import nn


class Interaction(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ligand_embedding = nn.Embedding(8, width)
        self.receptor_embedding = nn.Embedding(20, width)
        self.edge = nn.Sequential(nn.Linear(2 * width + 1, width), nn.SiLU())

    def forward(self, batch):
        receptor = self.receptor_embedding(batch.receptor_x)[:, None].expand(-1, batch.ligand_x.shape[1], -1, -1)
        ligand = self.ligand_embedding(batch.ligand_x)[:, :, None].expand_as(receptor)
        distance = torch.cdist(batch.ligand_pos, batch.receptor_pos)[..., None]
        return self.edge(torch.cat([ligand, receptor, distance], dim=-1)) * torch.exp(-0.2 * distance)


class ScoreModel(nn.Module):
    """Where each atom of the ligand shall go, along the lines to the receptor."""

    def __init__(self, width):
        super().__init__()
        self.interaction = Interaction(width)
        self.force = nn.Linear(width, 1)

    def forward(self, batch, t):
        pull = self.force(self.interaction(batch)) * (1 - t)
        return (pull * (batch.receptor_pos[:, None] - batch.ligand_pos[:, :, None])).mean(dim=2)


class ConfidenceModel(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.interaction = Interaction(width)
        self.predictor = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch):
        return self.predictor(self.interaction(batch).mean(dim=(1, 2))).squeeze(-1)
# --- utils/sampling.py
import torch
from torch.utils.data import DataLoader

from datasets.pdb import ComplexGraph


def randomize_position(data_list):
    for graph in data_list:
        turn = torch.linalg.qr(torch.randn(3, 3))[0]
        graph.ligand_pos = graph.ligand_pos @ turn + 2.0 * torch.randn(1, 3)


def batches(data_list, batch_size):
    return DataLoader(data_list, batch_size=batch_size, collate_fn=ComplexGraph.collate)


@torch.no_grad()
def sampling(data_list, model, inference_steps, batch_size, device, confidence_data_list=None, filtering_model=None):
    loader = batches(data_list, batch_size)
    confidence_loader = iter(batches(confidence_data_list, batch_size))
    poses, confidence = [], []
    for complex_batch in loader:
        complex_batch = complex_batch.to(device)
        for t_idx in range(inference_steps):
            t = t_idx / inference_steps
            score = model(complex_batch, t)
            noise = torch.randn(score.shape).to(device)
            complex_batch.ligand_pos = complex_batch.ligand_pos + 0.5 * score + 0.1 * (1 - t) * noise
        poses.append(complex_batch.ligand_pos)

        confidence_batch = next(confidence_loader)
        confidence_batch.ligand_pos = complex_batch.ligand_pos
        confidence.append(filtering_model(confidence_batch))
    return torch.cat(poses).cpu(), torch.cat(confidence).cpu()

# === weights_of_many_trainers_on_cards_and_without
# thread: https://github.com/cisco-open/flame/pull/350
# about: trainers improve a model on rows of their own. An aggregator without a card averages by how much their weights changed, and the round
#   begins anew
# operation: sub on cuda:0, cpu
# operands: other|b.*|.*prev_weights.*
# category: cached-state|input-not-moved|module-split|checkpoint
# line: flame/common/util.py: return {k: a[k] - b[k] for k in a}
# line: flame/mode/trainer.py: self.weights = self.model.state_dict()
# line: flame/mode/trainer.py: self.prev_weights = msg["weights"]
# line: flame/mode/trainer.py: msg = self.channel.recv(self.name)
# line: flame/mode/trainer.py: delta_weights = delta_weights_pytorch(
# repair: flame/mode/trainer.py: self.weights = self.model.state_dict() -> self.weights = {k: v.cpu() for k, v in self.model.state_dict().items()}
import torch

from examples.rows import shards
from flame.channel import Channel
from flame.mode.aggregator import TopAggregator
from flame.mode.trainer import Trainer

if __name__ == "__main__":
    torch.manual_seed(350)
    channel = Channel()
    devices = ["cpu", "cuda:0", "cuda:1"]
    trainers = [
        Trainer(end_id, channel, rows, device)
        for end_id, (rows, device) in enumerate(zip(shards(parts=3, seed=1), devices))
    ]
    aggregator = TopAggregator(channel, test=next(shards(parts=1, seed=2)))
    for _ in range(4):
        aggregator.distribute(ends=range(len(trainers)))
        for trainer in trainers:
            trainer.fetch()
            trainer.train(epochs=2)
            trainer.upload()
        aggregator.aggregate()
        loss = aggregator.evaluate()
    norm = sum(each.norm().item() for each in aggregator.model.parameters())
    print(f"loss {loss:.4f} weights {norm:.4f}")
# --- examples/rows.py
import numpy as np
import torch


def shards(parts, seed, size=24):
    """Rows with one truth behind them, that lie elsewhere for each part."""
    rng = np.random.default_rng(seed)
    for part in range(parts):
        x = rng.normal(loc=0.5 * part, size=(size, 4))
        y = np.sin(x[:, :1]) + 0.5 * x[:, 1:2] - 0.2 * x[:, 2:3] * x[:, 3:4]
        yield torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
# --- examples/net.py
from torch import nn


def initialize():
    return nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 1))
# --- flame/channel.py
import io
from collections import defaultdict, deque

import torch


class Channel:
    """Messages go as bytes, as they would between machines."""

    def __init__(self):
        self._boxes = defaultdict(deque)

    def send(self, end, message):
        buffer = io.BytesIO()
        torch.save(message, buffer)
        self._boxes[end].append(buffer.getvalue())

    def recv(self, end):
        return torch.load(io.BytesIO(self._boxes[end].popleft()), map_location="cpu")

    def waiting(self, end):
        return len(self._boxes[end])
# --- flame/common/util.py
def delta_weights_pytorch(a, b):
    """Return delta weights for pytorch model weights."""
    return {k: a[k] - b[k] for k in a}


def weighted_sum(updates):
    total = sum(count for _, count in updates)
    return {k: sum(delta[k] * count / total for delta, count in updates) for k in updates[0][0]}
# --- flame/mode/aggregator.py
import torch
from torch import nn

from examples.net import initialize
from flame.common.util import weighted_sum


class TopAggregator:
    def __init__(self, channel, test):
        self.channel, self.test = channel, test
        self.model = initialize()

    def distribute(self, ends):
        for end in ends:
            self.channel.send(f"trainer-{end}", {"weights": self.model.state_dict()})

    def aggregate(self):
        updates = []
        while self.channel.waiting("aggregator"):
            msg = self.channel.recv("aggregator")
            updates.append((msg["delta"], msg["dataset_size"]))
        mean = weighted_sum(updates)
        weights = self.model.state_dict()
        self.model.load_state_dict({k: weights[k] + mean[k] for k in weights})

    @torch.no_grad()
    def evaluate(self):
        x, y = self.test
        return nn.functional.mse_loss(self.model(x), y).item()
# --- flame/mode/trainer.py
import torch
from torch import nn

from examples.net import initialize
from flame.common.util import delta_weights_pytorch


class Trainer:
    def __init__(self, end_id, channel, rows, device):
        self.name, self.channel = f"trainer-{end_id}", channel
        self.device = torch.device(device)
        self.x, self.y = (each.to(self.device) for each in rows)
        self.model = initialize().to(self.device)
        self.prev_weights = None

    def fetch(self):
        msg = self.channel.recv(self.name)
        self.prev_weights = msg["weights"]
        self.model.load_state_dict(self.prev_weights)

    def train(self, epochs):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for _ in range(epochs):
            for rows in torch.arange(len(self.x), device=self.device).split(8):
                loss = nn.functional.mse_loss(self.model(self.x[rows]), self.y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    def upload(self):
        self.weights = self.model.state_dict()
        delta_weights = delta_weights_pytorch(self.weights, self.prev_weights)
        self.channel.send("aggregator", {"delta": delta_weights, "dataset_size": len(self.x)})
