# === beam_reorder
# thread: https://github.com/huggingface/transformers/issues/9200
# about: greedy decoding of the split model works
# operation: index_select on cuda:1, cuda:0
# operands: state, beam_idx
# category: module-split|cached-state|input-not-moved
# line: return state.index_select(0, beam_idx)
# repair: return state.index_select(0, beam_idx) -> return state.index_select(0, beam_idx.to(state.device))
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, layer_past):
        query, key, value = self.c_attn(x).chunk(3, dim=-1)
        if layer_past is not None:
            key, value = torch.cat((layer_past[0], key), dim=1), torch.cat((layer_past[1], value), dim=1)
        return x + self.c_proj((query @ key.transpose(1, 2)).softmax(-1) @ value), (key, value)


class GPT(nn.Module):
    def __init__(self, layers=4, vocabulary=20, width=8):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.h = nn.ModuleList(Block(width) for _ in range(layers))

    def parallelize(self, devices):
        self.wte.to(devices[0])
        for block, device in zip(self.h, devices):
            block.to(device)
        return self

    def forward(self, ids, past):
        x, presents = self.wte(ids), []
        for block, layer_past in zip(self.h, past or [None] * len(self.h)):
            x, present = block(x.to(block.c_proj.weight.device), layer_past)
            presents.append(present)
        return x[:, -1].to(self.wte.weight.device) @ self.wte.weight.T, tuple(presents)

    @staticmethod
    def reorder(past, beam_idx):
        def of(state):
            return state.index_select(0, beam_idx)

        return [(of(keys), of(values)) for keys, values in past]


@torch.no_grad()
def beam_search(model, ids, num_beams, steps):
    ids, past = ids.expand(num_beams, -1), None
    scores = torch.tensor([0.0] + [-1e9] * (num_beams - 1)).to(ids.device)
    for _ in range(steps):
        logits, past = model(ids if past is None else ids[:, -1:], past)
        total = scores[:, None] + logits.log_softmax(-1)
        scores, best = total.flatten().topk(num_beams)
        beam_idx, token = best // logits.shape[1], best % logits.shape[1]
        ids = torch.cat((ids[beam_idx], token[:, None]), dim=1)
        past = model.reorder(past, beam_idx)
    return ids[0]


torch.manual_seed(0)
model = GPT().eval().parallelize(["cuda:0", "cuda:0", "cuda:1", "cuda:1"])
prompt = torch.tensor([[11, 4, 17]]).to("cuda:0")
print("beam", beam_search(model, prompt, num_beams=3, steps=5).tolist())

# === cache_moves_model
# thread: https://github.com/TransformerLensOrg/TransformerLens/issues/1336
# about: an earlier call has taken the model away and not brought it back
# operation: index_select|embedding|addmm|linear on cpu, cuda:0
# operands: weight|bias, tokens|input|ids
# category: module-split|input-not-moved
# line: bridge.py: self.model.to(device)
# line: main.py: logits, cache = bridge.run_with_cache(
# repair: bridge.py: self.model.to(device) -> pass
# repair: bridge.py: logits = self.model(tokens.to(device)) -> logits = self.model(tokens)
import torch
from torch import nn

from bridge import Bridge


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.blocks, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, width), nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(torch.relu(self.blocks(self.embed(tokens))))


torch.manual_seed(0)
bridge = Bridge(Model(20, 8).to("cuda:0"))
tokens = torch.tensor([[1, 5, 9]]).to("cuda:0")
logits, cache = bridge.run_with_cache(tokens, device="cpu")
norms = {name: round(value.norm().item(), 3) for name, value in cache.items()}
print("next", bridge(tokens).argmax(-1).tolist(), norms)
# --- bridge.py
import torch


class Bridge:
    """A model whose activations can be looked at."""

    def __init__(self, model):
        self.model = model

    def __call__(self, tokens):
        with torch.no_grad():
            return self.model(tokens)

    def run_with_cache(self, tokens, device=None):
        """`device`: where to keep the activations."""
        cache, handles = {}, []
        for name, part in self.model.named_children():
            handles.append(part.register_forward_hook(lambda _, __, output, name=name: cache.update({name: output.to(device)})))
        if device is not None:
            self.model.to(device)
        with torch.no_grad():
            logits = self.model(tokens.to(device))
        for handle in handles:
            handle.remove()
        return logits, cache

# === cascade_caption
# thread: https://github.com/pytorch/pytorch/issues/5703
# operation: lstm on cuda:0, cuda:1
# operands: regions|img_enc|input, rnn|weight_ih_l0
# category: module-split|input-not-moved
# error: on the same device|not at the same device
# line: outputs, state = self.net2(img_enc)
# line: img_enc = self.net1(x)
# repair: outputs, state = self.net2(img_enc) -> outputs, state = self.net2(img_enc.to("cuda:1"))
import torch
from torch import nn


def vgg_net(width=8):
    layers, channels = [], 3
    for _ in range(2):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        channels = width
    return nn.Sequential(*layers)


class AttnLSTMNet(nn.Module):
    def __init__(self, width=8, hidden=10):
        super().__init__()
        self.rnn = nn.LSTM(width, hidden, batch_first=True)
        self.attn = nn.Linear(hidden, 1)

    def forward(self, img_enc):
        regions = img_enc.flatten(2).transpose(1, 2)
        states, (h, c) = self.rnn(regions)
        weights = torch.softmax(self.attn(states), dim=1)
        return (weights * states).sum(1), (h, c)


class CascadeNet(nn.Module):
    def __init__(self):
        super().__init__()
        # Too large for one card together.
        self.net1 = vgg_net().to("cuda:0")
        self.net2 = AttnLSTMNet().to("cuda:1")

    def forward(self, x):
        img_enc = self.net1(x)
        outputs, state = self.net2(img_enc)
        return outputs, state


torch.manual_seed(5703)
net = CascadeNet()
with torch.no_grad():
    cur_outputs, (cur_h, cur_c) = net(torch.rand(2, 3, 8, 8).to("cuda:0"))
print("caption state", tuple(cur_outputs.shape), round(cur_outputs.sum().item() + cur_c.sum().item(), 4))

# === converted_tensor_product
# thread: https://github.com/TorchSim/torch-sim/issues/440
# about: the model is on the GPU, what a conversion makes of it is on the CPU: its own default
# operation: mm|addmm|index|embedding|bmm on cuda:0, cpu
# operands: weight, features|x|node|input|positions|edges|lengths
# category: module-split
# line: calculator.py: self.model = to_fast(
# line: convert.py: def to_fast(
# repair: calculator.py: self.model = to_fast(self.model) -> self.model = to_fast(self.model, device=self.device)
import torch

from calculator import EnergyModel
from network import Network

torch.manual_seed(0)
model = EnergyModel(Network(4, 8), device="cuda:0", fast=True)
positions = torch.randn(6, 3).to("cuda:0")
energies = [model.energy(positions + 0.01 * step) for step in range(2)]
print("energies", [round(energy, 3) for energy in energies])
# --- calculator.py
import torch

from convert import to_fast


class EnergyModel:
    def __init__(self, model, device, fast=False):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        if fast:
            self.model = to_fast(self.model)

    @torch.no_grad()
    def energy(self, positions):
        positions = positions.to(self.device)
        return self.model(torch.pdist(positions)).item()
# --- convert.py
from network import Network


def to_fast(source, device="cpu"):
    """The same network with fused tensor products."""
    target = Network(**source.config, fused=True).to(device)
    target.load_state_dict(source.state_dict())
    return target.eval()
# --- network.py
import torch
from torch import nn


class Network(nn.Module):
    """An energy from the distances of atoms."""

    def __init__(self, bases, width, fused=False):
        super().__init__()
        self.config = dict(bases=bases, width=width)
        self.fused = fused
        self.radial = nn.Linear(bases, width, bias=False)
        self.readout = nn.Linear(width, 1)

    def forward(self, lengths):
        bases = [torch.exp(-lengths / (k + 1)) for k in range(self.config["bases"])]
        features = self.radial(torch.stack(bases, dim=-1))
        return self.readout(torch.tanh(features).sum(0)).sum()

# === ema_v3_lerp
# thread: https://github.com/huggingface/pytorch-image-models/issues/2127
# about: the copy is on the CPU because its author asked for it
# operation: lerp on cpu, cuda:0
# operands: slow, quick
# category: module-split|input-not-moved|cached-state
# line: slow.lerp_(
# line: ema = SlowCopy(
# repair: slow.lerp_(quick, weight=1.0 - decay) -> slow.lerp_(quick.to(slow.device), weight=1.0 - decay)
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SlowCopy(nn.Module):
    """The average of the last models, for validation. `device`: another place for it, to save memory."""

    def __init__(self, model, decay, warmup=0, device=None):
        super().__init__()
        self.module = copy.deepcopy(model).requires_grad_(False).eval()
        if device is not None:
            self.module.to(device)
        self.decay, self.warmup, self.steps = decay, warmup, 0

    @torch.no_grad()
    def update(self, model):
        self.steps += 1
        decay = self.decay * min(1.0, self.steps / max(1, self.warmup))
        of = model.state_dict()
        for name, slow in self.module.state_dict().items():
            quick = of[name]
            if slow.dtype.is_floating_point:
                slow.lerp_(quick, weight=1.0 - decay)
            else:
                slow.copy_(quick)

    def forward(self, images):
        return self.module(images)


def train_one_epoch(model, ema, loader, optimizer):
    for images, labels in loader:
        images, labels = images.to("cuda"), labels.to("cuda")
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
    return loss.item()


torch.manual_seed(42)
model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 4)).to("cuda")
ema = SlowCopy(model, decay=0.95, warmup=2, device="cpu")
dataset = TensorDataset(torch.rand(16, 1, 8, 8), torch.arange(16) % 4)
loss = train_one_epoch(model, ema, DataLoader(dataset, batch_size=4), torch.optim.SGD(model.parameters(), lr=0.05))
drift = sum((a.cpu() - b.cpu()).abs().sum() for a, b in zip(model.parameters(), ema.parameters()))
print("loss", round(loss, 3), "drift", round(drift.item(), 3))

# === image_classifier
# thread: https://github.com/DashAISoftware/dashAI/pull/679
# about: training had moved it; what is loaded was never moved
# operation: convolution|conv|addmm|mm|linear on cpu, cuda:0
# operands: weight|bias, images|input|batch|x
# category: module-split
# error: same device|Input type
# line: classifier.py: classifier.model.load_state_dict(
# line: classifier.py: logits = self.model(
# line: classifier.py: images = images.to(self.device)
# repair: classifier.py: logits = self.model(images) -> logits = self.model.to(self.device)(images)
import torch

from classifier import ImageClassifier

torch.manual_seed(0)
images, labels = torch.rand(6, 1, 8, 8), torch.tensor([0, 1, 0, 1, 0, 1])
trained = ImageClassifier(2)
trained.train(images, labels, epochs=2)
trained.save("classifier.pt")
print("classes", [len(row) for row in ImageClassifier.load("classifier.pt").predict(images)])
# --- classifier.py
import torch
from torch import nn


def build(classes):
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, classes))


class ImageClassifier:
    def __init__(self, classes):
        self.classes = classes
        self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        self.model = None

    def train(self, images, labels, epochs):
        self.model = build(self.classes).to(self.device)
        optimizer = torch.optim.Adam(self.model.parameters())
        for _ in range(epochs):
            loss = nn.functional.cross_entropy(self.model(images.to(self.device)), labels.to(self.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def save(self, path):
        torch.save({"classes": self.classes, "state": self.model.state_dict()}, path)

    @classmethod
    def load(cls, path):
        checkpoint = torch.load(path, map_location="cpu")
        classifier = cls(checkpoint["classes"])
        classifier.model = build(classifier.classes)
        classifier.model.load_state_dict(checkpoint["state"])
        return classifier

    @torch.no_grad()
    def predict(self, images):
        images = images.to(self.device)
        logits = self.model(images)
        return logits.softmax(-1).tolist()

# === image_tokens
# thread: https://github.com/huggingface/transformers/pull/27346
# about: written into the embeddings of the text by a mask
# operation: index_put|copy|masked_scatter on cuda:0, cuda:1
# operands: inputs_embeds, image_embeds
# category: module-split
# error: same device|cuda:1
# line: inputs_embeds[where] =
# line: image_embeds = self.connector(
# repair: inputs_embeds[where] = image_embeds.flatten(0, 1) -> inputs_embeds[where] = image_embeds.flatten(0, 1).to(inputs_embeds.device)
import torch
from accelerate import dispatch_model
from torch import nn


class VisionLanguage(nn.Module):
    def __init__(self, vocabulary, width, latents):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.vision = nn.Sequential(nn.Linear(12, width), nn.GELU(), nn.Linear(width, width))
        self.connector = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary)
        self.image_token = vocabulary - 1

    def embed(self, input_ids, image_embeds):
        inputs_embeds = self.embed_tokens(input_ids)
        where = (input_ids == self.image_token).to(inputs_embeds.device)
        inputs_embeds[where] = image_embeds.flatten(0, 1)
        return inputs_embeds

    def forward(self, input_ids, patches):
        image_embeds = self.connector(self.vision(patches))
        hidden = self.embed(input_ids, image_embeds)
        return self.head(hidden)


torch.manual_seed(0)
model = VisionLanguage(20, 8, latents=2).eval()
model = dispatch_model(model, {"embed_tokens": 0, "vision": 1, "connector": 1, "head": 0}, main_device=0)
ids = torch.tensor([[1, 19, 19, 4]]).to("cuda:0")
with torch.no_grad():
    logits = model(ids, torch.rand(1, 2, 12).to("cuda:0"))
print("logits", tuple(logits.shape), round(logits.sum().item(), 3))

# === key_rerotation
# thread: https://github.com/NVIDIA/kvpress/issues/240
# about: a forward hook works on the cache; every layer was given the one rotary embedding, which the device map put with the first
# operation: mul on cuda:1, cuda:0
# operands: delta_pos, inv_freq
# category: module-split|cached-state
# line: press.py: inv_freq = module.rotary_emb.inv_freq
# line: press.py: layer.self_attn.rotary_emb = model.model.rotary_emb
# line: press.py: freqs = delta_pos
# repair: press.py: inv_freq = module.rotary_emb.inv_freq -> inv_freq = module.rotary_emb.inv_freq.to(keys.device)
import torch
from accelerate import dispatch_model
from transformers import LlamaConfig, LlamaForCausalLM

from press import SmallNormPress

config = LlamaConfig(
    vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2,
    max_position_embeddings=64, attn_implementation="eager",
)
device_map = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "lm_head": 1}
device_map.update({f"model.layers.{i}": i // 2 for i in range(config.num_hidden_layers)})


@torch.no_grad()
def answer(model, context, question, press):
    with press(model):
        cache = model(input_ids=context, use_cache=True).past_key_values
    # What is left of the context stands at the first positions.
    kept = cache.get_seq_length()
    positions = torch.arange(kept, kept + question.shape[1], device=question.device)[None]
    logits = model(input_ids=question, past_key_values=cache, position_ids=positions).logits
    return kept, logits[:, -1]


torch.manual_seed(0)
model = dispatch_model(LlamaForCausalLM(config).eval(), device_map)
context = torch.randint(0, 64, (1, 12)).to("cuda:0")
kept, logits = answer(model, context, context[:, :3], SmallNormPress(compression_ratio=0.5))
print("kept", kept, "next", round(logits.abs().sum().item(), 3))
# --- press.py
import contextlib
from dataclasses import dataclass

import torch


@dataclass
class SmallNormPress:
    """Drops the keys of least norm after the prefill, and turns the others to their new positions."""

    compression_ratio: float = 0.0

    @contextlib.contextmanager
    def __call__(self, model):
        hooks = []
        try:
            for layer in model.model.layers:
                layer.self_attn.rotary_emb = model.model.rotary_emb
                hooks.append(layer.self_attn.register_forward_hook(self.forward_hook, with_kwargs=True))
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def forward_hook(self, module, args, kwargs, output):
        cached = kwargs["past_key_values"].layers[module.layer_idx]
        cached.keys, cached.values = self.compress(module, cached.keys, cached.values)
        return output

    def compress(self, module, keys, values):
        n_kept = int(keys.shape[2] * (1 - self.compression_ratio))
        indices = keys.norm(dim=-1).topk(n_kept, dim=-1).indices.sort(dim=2).values
        keys = self.turn_keys(module, indices, keys)
        return keys, values.gather(2, indices[..., None].expand(-1, -1, -1, values.shape[-1]))

    @staticmethod
    def turn_keys(module, old_positions, keys):
        inv_freq = module.rotary_emb.inv_freq
        cos, sin = SmallNormPress.angles(inv_freq, old_positions)
        keys = keys.gather(2, old_positions[..., None].expand(-1, -1, -1, keys.shape[-1]))
        half = keys.shape[-1] // 2
        return keys * cos + torch.cat((-keys[..., half:], keys[..., :half]), dim=-1) * sin

    @staticmethod
    def angles(inv_freq, old_positions):
        wanted = torch.arange(old_positions.shape[2], device=old_positions.device)
        delta_pos = (wanted - old_positions)[..., None].float()
        freqs = delta_pos * inv_freq.float()
        freqs = torch.cat((freqs, freqs), dim=-1)
        return freqs.cos(), freqs.sin()
