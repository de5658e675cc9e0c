# === a_small_model_out_of_a_fast_store
# thread: https://github.com/ServerlessLLM/ServerlessLLM/issues/12
# about: a store keeps models so that they load fast, and spreads a model over all cards at once. A very small language model is loaded from it and asked
#   for the next words
# operation: add on cuda:0, cuda:1
# operands: self|other|inputs_embeds|pos_embeds
# category: module-split
# line: loader.py: device_map = fully_parallel_device_map(
# line: loader.py: dispatch_model(
# line: device_map_utils.py: device_map[name] = index % num_devices
# line: modeling_opt.py: hidden_states = inputs_embeds + pos_embeds
# repair: loader.py: device_map = fully_parallel_device_map(names, torch.cuda.device_count()) -> device_map =
#   {**fully_parallel_device_map(names, torch.cuda.device_count()), "model.embed_positions": 0}
import torch

from loader import load_model, save_model
from modeling_opt import OPTConfig, OPTForCausalLM


def main():
    torch.manual_seed(12)
    store = {}
    save_model(OPTForCausalLM(OPTConfig()), "opt-tiny", store)
    model = load_model("opt-tiny", store, fully_parallel=torch.cuda.device_count() > 1)
    input_ids = torch.tensor([[2, 7, 19, 4], [2, 30, 11, 5]], device="cuda:0")
    with torch.no_grad():
        for _ in range(3):
            logits = model(input_ids)
            following = logits[:, -1].argmax(dim=-1, keepdim=True).to(input_ids.device)
            input_ids = torch.cat([input_ids, following], dim=1)
    print(input_ids.tolist(), round(logits.mean().item(), 3), round(logits.std().item(), 3))


if __name__ == "__main__":
    main()
# --- device_map_utils.py
def parts_of_model(model):
    """Names of the parts that are never split: embeddings, layers, what ends the model."""
    names = []
    for name, child in model.named_children():
        for inner, module in child.named_children():
            if inner == "layers":
                names += [f"{name}.{inner}.{index}" for index in range(len(module))]
            else:
                names.append(f"{name}.{inner}")
        if not list(child.children()):
            names.append(name)
    return names


def fully_parallel_device_map(names, num_devices):
    """Every card reads its share of the parts at the same time."""
    device_map = {}
    for index, name in enumerate(names):
        device_map[name] = index % num_devices
    return device_map
# --- loader.py
import torch
from accelerate import dispatch_model

from device_map_utils import fully_parallel_device_map, parts_of_model
from modeling_opt import OPTForCausalLM


def save_model(model, name, store):
    store[name] = (model.config, {key: value.clone() for key, value in model.state_dict().items()})


def load_model(name, store, fully_parallel=False):
    config, state = store[name]
    model = OPTForCausalLM(config)
    model.load_state_dict(state)
    model.eval()
    if not fully_parallel:
        return model.to("cuda:0")
    names = parts_of_model(model)
    device_map = fully_parallel_device_map(names, torch.cuda.device_count())
    return dispatch_model(model, device_map=device_map)
# --- modeling_opt.py
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class OPTConfig:
    vocab_size: int = 32
    hidden_size: int = 16
    num_layers: int = 3
    max_positions: int = 24


class OPTLearnedPositionalEmbedding(nn.Embedding):
    offset = 2

    def __init__(self, num, dim):
        super().__init__(num + self.offset, dim)

    def forward(self, attention_mask):
        positions = torch.cumsum(attention_mask, dim=1) * attention_mask - 1
        return super().forward(positions.long() + self.offset)


class OPTDecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden_size)
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.out = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_states):
        query, key, value = self.qkv(self.norm(hidden_states)).chunk(3, dim=-1)
        return hidden_states + self.out(F.scaled_dot_product_attention(query, key, value, is_causal=True))


class OPTDecoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = OPTLearnedPositionalEmbedding(config.max_positions, config.hidden_size)
        self.layers = nn.ModuleList(OPTDecoderLayer(config) for _ in range(config.num_layers))
        self.final_layer_norm = nn.LayerNorm(config.hidden_size)

    def forward(self, input_ids):
        inputs_embeds = self.embed_tokens(input_ids)
        pos_embeds = self.embed_positions(torch.ones_like(input_ids))
        hidden_states = inputs_embeds + pos_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        return self.final_layer_norm(hidden_states)


class OPTForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = OPTDecoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids):
        return self.lm_head(self.model(input_ids))

# === a_flag_and_another_interface
# thread: https://github.com/oobabooga/textgen/issues/1486
# about: a web page lets people talk to a language model, which is too large for the card. The page is started for plain text, and then the user asks for
#   the chat view
# operation: embedding|index_select on cpu, cuda:0
# operands: index|indices|input_ids
# category: input-not-moved|created-without-device
# line: server.py: setattr(shared.args, key, key in bool_active)
# line: server.py: bool_list =
# line: main.py: server.set_interface_arguments(
# line: text_generation.py: return input_ids if shared.args.cpu else input_ids.cuda()
# line: text_generation.py: output = shared.model.generate(
# repair: server.py: setattr(shared.args, key, key in bool_active) -> setattr(shared.args, key, key in bool_active or (key == "cpu" and shared.args.cpu))
import torch

import chat
import server
import shared
from text_generation import generate_reply


def main():
    torch.manual_seed(1486)
    shared.args = shared.parse_args(["--cpu", "--notebook"])
    server.load_model()
    print(generate_reply("good day", max_new_tokens=4))
    server.set_interface_arguments("chat", ["verbose"])
    history = []
    for line in ["how are you", "and what now"]:
        history = chat.chatbot_wrapper(line, history)
    score = shared.model.head(shared.model.embed(torch.tensor([[3, 5]], device=shared.model.head.weight.device))).mean()
    print([len(reply) for _, reply in history], history[-1][1], round(score.item(), 3))


if __name__ == "__main__":
    main()
# --- shared.py
import argparse

args = None
model = None
tokenizer = None


def parse_args(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--notebook", action="store_true")
    parser.add_argument("--chat", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--no-cache", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args(argv)
# --- server.py
import models
import shared

modes = ["notebook", "chat"]


def load_model():
    shared.tokenizer = models.CharTokenizer()
    shared.model = models.TinyLM(len(shared.tokenizer))
    if not shared.args.cpu:
        shared.model = shared.model.cuda()
    shared.model.eval()


def set_interface_arguments(interface_mode, bool_active):
    """What the tab of the interface does when it is applied: the view, and the boxes that are ticked."""
    for mode in modes:
        setattr(shared.args, mode, mode == interface_mode)
    bool_list = [key for key, value in vars(shared.args).items() if isinstance(value, bool) and key not in modes]
    for key in bool_list:
        setattr(shared.args, key, key in bool_active)
# --- models.py
import torch
from torch import nn


class CharTokenizer:
    letters = " abcdefghijklmnopqrstuvwxyz:"

    def __len__(self):
        return len(self.letters)

    def encode(self, text):
        return torch.tensor([[self.letters.index(letter) for letter in text.lower() if letter in self.letters]])

    def decode(self, ids):
        return "".join(self.letters[index] for index in ids)


class TinyLM(nn.Module):
    def __init__(self, vocab_size, width=12):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocab_size)

    @torch.no_grad()
    def generate(self, input_ids, max_new_tokens):
        for _ in range(max_new_tokens):
            hidden, _ = self.mix(self.embed(input_ids))
            input_ids = torch.cat([input_ids, self.head(hidden[:, -1:]).argmax(dim=-1)], dim=1)
        return input_ids
# --- text_generation.py
import shared


def encode(prompt):
    input_ids = shared.tokenizer.encode(prompt)
    return input_ids if shared.args.cpu else input_ids.cuda()


def generate_reply(question, max_new_tokens):
    input_ids = encode(question)
    output = shared.model.generate(input_ids, max_new_tokens)
    return shared.tokenizer.decode(output[0, input_ids.shape[1] :].tolist())
# --- chat.py
import shared
from text_generation import generate_reply


def generate_chat_prompt(user_input, history):
    rows = ["this is a talk"]
    for question, answer in history:
        rows += [f"you: {question}", f"bot: {answer}"]
    return " ".join(rows + [f"you: {user_input}", "bot:"])


def chatbot_wrapper(text, history, max_new_tokens=6):
    prompt = generate_chat_prompt(text, history)
    if shared.args.verbose:
        print(prompt)
    return history + [(text, generate_reply(prompt, max_new_tokens))]

# === how_many_were_right_so_far
# thread: https://github.com/pytorch/ignite/pull/1232
# about: an engine runs a model over batches, and metrics that are attached to it count over an epoch. One counts how often the model was right
# operation: add_?|iadd|__iadd__ on cpu, cuda:1
# operands: self|other|self._num_correct|.*_num_correct.*
# category: created-without-device
# line: metric.py: def __init__(self, output_transform=lambda output: output, device=None):
# line: accuracy.py: self._num_correct = torch.tensor(0, device=self._device)
# line: accuracy.py: self._num_correct += torch.sum(correct).to(self._device)
# line: main.py: Accuracy(
# repair: metric.py: def __init__(self, output_transform=lambda output: output, device=None): -> def __init__(self, output_transform=lambda output: output,
#   device=torch.device("cpu")):
import torch
from torch import nn

from accuracy import Accuracy, TopKCategoricalAccuracy
from engine import create_supervised_evaluator

DEVICE = torch.device("cuda:1" if torch.cuda.device_count() > 1 else "cpu")


def batches(count, size):
    draw = torch.Generator().manual_seed(1232)
    for _ in range(count):
        x = torch.randn(size, 10, generator=draw)
        yield x, (x[:, :5] + 0.3 * torch.randn(size, 5, generator=draw)).argmax(dim=1)


def main():
    torch.manual_seed(0)
    model = nn.Linear(10, 5)
    with torch.no_grad():
        model.weight.copy_(torch.eye(5, 10) + 0.01 * model.weight)
    metrics = {"accuracy": Accuracy(), "top2": TopKCategoricalAccuracy(k=2)}
    evaluator = create_supervised_evaluator(model, metrics, device=DEVICE)
    state = evaluator.run(batches(4, 16))
    print(" ".join(f"{name} {value:.3f}" for name, value in sorted(state.metrics.items())))


if __name__ == "__main__":
    main()
# --- engine.py
from collections import defaultdict
from types import SimpleNamespace

import torch


class Engine:
    def __init__(self, process_function):
        self._process_function = process_function
        self._handlers = defaultdict(list)
        self.state = SimpleNamespace(output=None, metrics={}, iteration=0)

    def add_event_handler(self, event, handler):
        self._handlers[event].append(handler)

    def _fire_event(self, event):
        for handler in self._handlers[event]:
            handler(self)

    def run(self, data):
        self._fire_event("epoch_started")
        for batch in data:
            self.state.iteration += 1
            self.state.output = self._process_function(self, batch)
            self._fire_event("iteration_completed")
        self._fire_event("epoch_completed")
        return self.state


def create_supervised_evaluator(model, metrics, device):
    model.to(device)

    def _inference(engine, batch):
        model.eval()
        with torch.no_grad():
            x, y = (value.to(device) for value in batch)
            return model(x), y

    evaluator = Engine(_inference)
    for name, metric in metrics.items():
        metric.attach(evaluator, name)
    return evaluator
# --- metric.py
import torch


class Metric:
    def __init__(self, output_transform=lambda output: output, device=None):
        self._output_transform = output_transform
        self._device = torch.device(device) if device is not None else None
        self.reset()

    def iteration_completed(self, engine):
        self.update(self._output_transform(engine.state.output))

    def completed(self, engine, name):
        engine.state.metrics[name] = self.compute()

    def attach(self, engine, name):
        engine.add_event_handler("epoch_started", lambda engine: self.reset())
        engine.add_event_handler("iteration_completed", self.iteration_completed)
        engine.add_event_handler("epoch_completed", lambda engine: self.completed(engine, name))
# --- accuracy.py
import torch

from metric import Metric


class Accuracy(Metric):
    def reset(self):
        self._num_correct = torch.tensor(0, device=self._device)
        self._num_examples = 0

    def correct(self, y_pred, y):
        return torch.eq(y_pred.argmax(dim=1), y)

    def update(self, output):
        y_pred, y = (value.detach() for value in output)
        correct = self.correct(y_pred, y).view(-1)
        self._num_correct += torch.sum(correct).to(self._device)
        self._num_examples += y.shape[0]

    def compute(self):
        if self._num_examples == 0:
            raise ValueError("there is no example to compute from")
        return self._num_correct.item() / self._num_examples


class TopKCategoricalAccuracy(Accuracy):
    def __init__(self, k=5, **kwargs):
        self._k = k
        super().__init__(**kwargs)

    def correct(self, y_pred, y):
        return torch.topk(y_pred, self._k, dim=1).indices.eq(y.unsqueeze(1)).any(dim=1)

# === passages_near_the_words_of_a_question
# thread: https://github.com/stanford-futuredata/ColBERT/issues/148
# about: a search keeps, for each of its centroids, the list of passages near it. A question's words are compared with the centroids, and the lists of the
#   nearest are read
# operation: index|getitem|__getitem__ on cpu, cuda:0
# operands: indices|pids|self.lengths|.*lengths.*|.*offsets.*
# category: input-not-moved
# line: strided_tensor.py: pids = pids.long()
# line: strided_tensor.py: lengths = self.lengths[pids]
# line: candidate_generation.py: pids, cell_lengths = self.ivf.lookup(cells)
# line: candidate_generation.py: return cells.unique(sorted=True), scores
# line: strided_tensor.py: self.lengths = lengths.long()
# repair: strided_tensor.py: pids = pids.long() -> pids = pids.long().cpu()
import torch

from index_storage import IndexScorer
from searcher import Searcher


def main():
    draw = torch.Generator().manual_seed(148)
    passages = torch.nn.functional.normalize(torch.randn(12, 4, 8, generator=draw), dim=-1)
    centroids = torch.nn.functional.normalize(torch.randn(6, 8, generator=draw), dim=-1)
    searcher = Searcher(IndexScorer(passages, centroids, use_gpu=torch.cuda.is_available()), ncells=2)
    queries = torch.nn.functional.normalize(passages[[3, 8]] + 0.2 * torch.randn(2, 4, 8, generator=draw), dim=-1)
    results = [searcher.search(query, k=3) for query in queries]
    for pids, ranks, scores in results:
        print([(pid, rank, round(score, 3)) for pid, rank, score in zip(pids, ranks, scores)])


if __name__ == "__main__":
    main()
# --- searcher.py
class Searcher:
    def __init__(self, ranker, ncells):
        self.ranker = ranker
        self.ncells = ncells

    def search(self, query, k=10):
        return self.dense_search(query, k)

    def dense_search(self, Q, k):
        pids, scores = self.ranker.rank(Q, self.ncells)
        return pids[:k], list(range(1, k + 1)), scores[:k]
# --- index_storage.py
import torch

from candidate_generation import CandidateGeneration
from strided_tensor import StridedTensor


class IndexScorer(CandidateGeneration):
    def __init__(self, passages, centroids, use_gpu=True):
        super().__init__(use_gpu)
        self.embeddings = passages
        self.centroids = centroids.cuda() if use_gpu else centroids
        self.ivf = self.build_ivf(passages, centroids)

    def build_ivf(self, passages, centroids):
        nearest = (passages @ centroids.T).argmax(dim=-1)
        lists = [(nearest == cell).any(dim=1).nonzero().flatten() for cell in range(len(centroids))]
        return StridedTensor(torch.cat(lists), torch.tensor([len(entries) for entries in lists]))

    def rank(self, Q, ncells):
        with torch.inference_mode():
            pids, centroid_scores = self.generate_candidates(Q, ncells)
            scores = self.score_pids(Q, pids)
            order = scores.sort(descending=True, stable=True)
            return pids[order.indices.cpu()].tolist(), order.values.tolist()

    def score_pids(self, Q, pids):
        D = self.embeddings[pids]
        if self.use_gpu:
            Q, D = Q.cuda(), D.cuda()
        return (D @ Q.T).max(dim=1).values.sum(dim=-1)
# --- candidate_generation.py
import torch


class CandidateGeneration:
    def __init__(self, use_gpu=True):
        self.use_gpu = use_gpu

    def get_cells(self, Q, ncells):
        scores = self.centroids @ Q.T
        cells = scores.topk(ncells, dim=0, sorted=False).indices.permute(1, 0)
        cells = cells.flatten().contiguous()
        return cells.unique(sorted=True), scores

    def generate_candidate_pids(self, Q, ncells):
        cells, scores = self.get_cells(Q, ncells)
        pids, cell_lengths = self.ivf.lookup(cells)
        return pids.long(), scores

    def generate_candidates(self, Q, ncells):
        if self.use_gpu:
            Q = Q.cuda()
        pids, centroid_scores = self.generate_candidate_pids(Q, ncells)
        return torch.unique(pids, sorted=True), centroid_scores
# --- strided_tensor.py
import torch


class StridedTensor:
    """Lists of different lengths, one behind the other."""

    def __init__(self, packed_tensor, lengths):
        self.tensor = packed_tensor
        self.lengths = lengths.long()
        self.offsets = torch.cat([torch.zeros(1, dtype=torch.long), self.lengths.cumsum(dim=0)])

    def _prepare_lookup(self, pids):
        if isinstance(pids, list):
            pids = torch.tensor(pids)
        assert pids.dim() == 1
        pids = pids.long()
        lengths = self.lengths[pids]
        offsets = self.offsets[pids]
        return lengths, offsets

    def lookup(self, pids):
        lengths, offsets = self._prepare_lookup(pids)
        rows = [self.tensor[start : start + length] for start, length in zip(offsets.tolist(), lengths.tolist())]
        return torch.cat(rows), lengths

# === soft_tokens_that_begin_as_words
# thread: https://github.com/thunlp/OpenDelta/issues/4
# about: a library adds a few parameters to a model that is frozen. Here they are tokens put in front of each sentence, which start out as copies of words
#   of the model
# operation: embedding|index_select on cuda:1, cpu
# operands: index|indices|input
# category: created-without-device|input-not-moved
# line: soft_prompt.py: first = torch.tensor(
# line: soft_prompt.py: soft_embeds = torch.clone(self.raw_embedding(first)
# line: main.py: backbone_model = Backbone(vocab_size=40).to(device)
# repair: soft_prompt.py: first = torch.tensor([i for i in range(self.num_tokens)]) -> first = torch.tensor([i for i in range(self.num_tokens)],
#   device=self.device)
import torch
from torch.nn import functional as F

from backbone import Backbone
from soft_prompt import SoftPromptModel


def main():
    torch.manual_seed(4)
    device = torch.device("cuda", torch.cuda.device_count() - 1)
    backbone_model = Backbone(vocab_size=40).to(device)
    delta_model = SoftPromptModel(backbone_model, soft_token_num=5, token_init=True)
    delta_model.freeze_module(exclude=["deltas"])
    optimizer = torch.optim.SGD([p for p in backbone_model.parameters() if p.requires_grad], lr=0.5)
    input_ids = torch.arange(24).view(4, 6).to(device)
    labels = torch.tensor([0, 1, 1, 0], device=device)
    for _ in range(3):
        loss = F.cross_entropy(backbone_model(input_ids=input_ids), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(len(optimizer.param_groups[0]["params"]), round(loss.item(), 3))


if __name__ == "__main__":
    main()
# --- backbone.py
import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self, vocab_size, hidden=16, num_labels=2):
        super().__init__()
        self.shared = nn.Embedding(vocab_size, hidden)
        self.block = nn.TransformerEncoderLayer(hidden, 2, 32, dropout=0.0, batch_first=True)
        self.classifier = nn.Linear(hidden, num_labels)

    def get_input_embeddings(self):
        return self.shared

    def forward(self, input_ids=None, inputs_embeds=None):
        if inputs_embeds is None:
            inputs_embeds = self.shared(input_ids)
        return self.classifier(self.block(inputs_embeds).mean(dim=1))
# --- basemodel.py
from torch import nn


def get_device(module):
    return next(module.parameters()).device


class DeltaBase(nn.Module):
    def __init__(self, backbone_model):
        super().__init__()
        self.__dict__["backbone_model"] = backbone_model
        self.delta_modules = nn.ModuleList()

    def insert_sequential_module(self, module, delta_module, delta_name):
        """What is given to the module goes through the delta first."""
        module.add_module(delta_name, delta_module)
        module.register_forward_pre_hook(lambda _, args, kwargs: delta_module.pre_forward(*args, **kwargs), with_kwargs=True)

    def freeze_module(self, exclude=()):
        for parameter in self.backbone_model.parameters():
            parameter.requires_grad_(False)
        if "deltas" in exclude:
            for parameter in self.delta_modules.parameters():
                parameter.requires_grad_(True)
# --- soft_prompt.py
import torch
from torch import nn

from basemodel import DeltaBase, get_device


class SoftPromptLayer(nn.Module):
    def __init__(self, soft_token_num, raw_embedding, init_range=0.5, token_init=False, device=None):
        super().__init__()
        self.__dict__["raw_embedding"] = raw_embedding
        self.init_range = init_range
        self.num_tokens = soft_token_num
        self.token_init = token_init
        self.device = device
        self.instantiate(raw_embedding.embedding_dim)

    def instantiate(self, hidden_dim):
        if self.token_init:
            first = torch.tensor([i for i in range(self.num_tokens)])
            soft_embeds = torch.clone(self.raw_embedding(first).detach())
        else:
            soft_embeds = torch.empty(self.num_tokens, hidden_dim).uniform_(-self.init_range, self.init_range)
        self.soft_embeds = nn.Parameter(soft_embeds.to(self.device))

    def pre_forward(self, *args, **kwargs):
        inputs_embeds = self.raw_embedding(kwargs.pop("input_ids"))
        soft_embeds = self.soft_embeds.repeat(inputs_embeds.size(0), 1, 1)
        kwargs["inputs_embeds"] = torch.cat([soft_embeds, inputs_embeds], dim=1)
        return args, kwargs


class SoftPromptModel(DeltaBase):
    def __init__(self, backbone_model, soft_token_num=100, init_range=0.5, token_init=True):
        super().__init__(backbone_model)
        raw_embedding = backbone_model.get_input_embeddings()
        layer = SoftPromptLayer(soft_token_num, raw_embedding, init_range, token_init, get_device(raw_embedding))
        self.delta_modules.append(layer)
        self.insert_sequential_module(backbone_model, layer, "soft_prompt_layer")

# === videos_with_a_label_but_no_times
# thread: https://github.com/zhang-can/CoLA/issues/10
# about: a net learns when an action happens in a video from videos that only say which action it is. Videos are drawn in a random order that a seed fixes
# operation: randperm on cuda:0
# operands: generator|.*generator.*
# error: Expected a 'cpu' device type for generator but found 'cuda'
# category: generator
# line: utils.py: generator = torch.Generator(
# line: main.py: sampler = RandomSampler(
# repair: utils.py: generator = torch.Generator(device=cfg.DEVICE) -> generator = torch.Generator()
import torch
from torch.utils.data import DataLoader, RandomSampler

import utils
from config import cfg
from dataset import NpyFeature
from model import CoLA, TotalLoss


def main():
    generator = utils.set_seed(cfg.SEED, cfg)
    net = CoLA(cfg).to(cfg.DEVICE)
    dataset = NpyFeature(cfg.NUM_VIDEOS, cfg.NUM_SEGMENTS, cfg.FEATS_DIM, cfg.NUM_CLASSES, seed=cfg.SEED)
    sampler = RandomSampler(dataset, generator=generator)
    train_loader = DataLoader(dataset, batch_size=cfg.NUM_VIDEOS, sampler=sampler, num_workers=0)
    criterion = TotalLoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=cfg.LR)
    losses = utils.AverageMeter()
    for step in range(1, cfg.NUM_ITERS + 1):
        if (step - 1) % len(train_loader) == 0:
            loader_iter = iter(train_loader)
        losses.update(train_one_step(net, loader_iter, optimizer, criterion))
    print(f"steps {step} loss {losses.avg:.3f}")


def train_one_step(net, loader_iter, optimizer, criterion):
    net.train()
    data, label = next(loader_iter)
    data, label = data.to(cfg.DEVICE), label.to(cfg.DEVICE)
    optimizer.zero_grad()
    video_scores, contrast = net(data)
    cost = criterion(video_scores, label, contrast)
    cost.backward()
    optimizer.step()
    return cost.item()


if __name__ == "__main__":
    main()
# --- config.py
from types import SimpleNamespace

import torch

cfg = SimpleNamespace(
    SEED=10,
    NUM_ITERS=4,
    NUM_VIDEOS=8,
    NUM_SEGMENTS=12,
    FEATS_DIM=6,
    NUM_CLASSES=3,
    R_EASY=4,
    LR=0.01,
    DEVICE="cuda" if torch.cuda.is_available() else "cpu",
)
# --- utils.py
import random

import numpy as np
import torch


def set_seed(seed, cfg):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    generator = torch.Generator(device=cfg.DEVICE)
    generator.manual_seed(seed)
    return generator


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / self.count
# --- dataset.py
import numpy as np
import torch
from torch.utils.data import Dataset


class NpyFeature(Dataset):
    def __init__(self, num_videos, num_segments, feats_dim, num_classes, seed):
        draw = np.random.RandomState(seed)
        self.features = draw.randn(num_videos, num_segments, feats_dim).astype(np.float32)
        self.labels = np.eye(num_classes, dtype=np.float32)[draw.randint(num_classes, size=num_videos)]

    def __len__(self):
        return len(self.features)

    def __getitem__(self, index):
        return torch.from_numpy(self.features[index]), torch.from_numpy(self.labels[index])
# --- model.py
import torch
from torch import nn
from torch.nn import functional as F


class CoLA(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.r_easy = cfg.R_EASY
        self.embed = nn.Conv1d(cfg.FEATS_DIM, 16, 3, padding=1)
        self.cls = nn.Conv1d(16, cfg.NUM_CLASSES, 1)

    def forward(self, x):
        features = F.relu(self.embed(x.permute(0, 2, 1)))
        cas = self.cls(features)
        actionness = cas.sum(dim=1)
        easy_act = actionness.topk(self.r_easy, dim=1).indices
        easy_bkg = (-actionness).topk(self.r_easy, dim=1).indices
        pick = [features.permute(0, 2, 1).gather(1, index[..., None].expand(-1, -1, 16)).mean(dim=1) for index in (easy_act, easy_bkg)]
        return torch.softmax(cas.topk(self.r_easy, dim=2).values.mean(dim=2), dim=1), pick


class TotalLoss(nn.Module):
    def forward(self, video_scores, label, contrast):
        label = label / label.sum(dim=1, keepdim=True)
        action = F.binary_cross_entropy(video_scores, label)
        return action + 0.01 * F.cosine_similarity(*contrast).mean()
