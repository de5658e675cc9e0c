# === checkpoint_offload
# thread: https://github.com/kohya-ss/musubi-tuner/pull/1038
# about: what blocks compute is kept in host memory until the backward pass, their results too; the next block's wrapper brings them back, the final layer has none
# operation: mul on cpu, cuda:0
# operands: normed|x|self, self.weight|weight|other
# category: input-not-moved|module-split
# line: model.py: return self.final_layer(hidden, conditioning)
# line: model.py: hidden = self.run(block, hidden, conditioning)
# line: offload.py: return moved(function(
# repair: model.py: return self.final_layer(hidden, conditioning) -> return self.final_layer(hidden.to(conditioning.device), conditioning)
import torch

from model import Transformer

def noised(latents, timesteps, noise):
    weight = timesteps[:, None, None]
    return (1 - weight) * latents + weight * noise

def train(model, optimizer, batches, device):
    model.train()
    for latents, timesteps, noise in batches:
        latents, timesteps, noise = latents.to(device), timesteps.to(device), noise.to(device)
        velocity = model(noised(latents, timesteps, noise), timesteps)
        loss = torch.nn.functional.mse_loss(velocity, noise - latents)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return loss.item()

torch.manual_seed(0)
device = torch.device("cuda:0")
model = Transformer(channels=4, width=16, depth=3).to(device)
model.enable_gradient_checkpointing(cpu_offload=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
batches = [(torch.randn(2, 6, 4), torch.rand(2), torch.randn(2, 6, 4)) for _ in range(3)]
print("loss", round(train(model, optimizer, batches, device), 4))
# --- offload.py
import torch

def moved(value, device):
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, (list, tuple)):
        return type(value)(moved(each, device) for each in value)
    return value

def create_cpu_offloading_wrapper(function, device):
    """What is kept for the backward pass are the arguments: they shall lie in host memory until then."""

    def wrapper(*args):
        return moved(function(*moved(args, device)), torch.device("cpu"))

    return wrapper
# --- model.py
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from offload import create_cpu_offloading_wrapper

class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return normed * self.weight

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.modulation = RMSNorm(width), nn.Linear(width, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, hidden, conditioning):
        q, k, v = self.qkv(self.norm(hidden) * (1 + self.modulation(conditioning))).chunk(3, dim=-1)
        return hidden + self.out(torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1) @ v)

class FinalLayer(nn.Module):
    def __init__(self, width, channels):
        super().__init__()
        self.norm, self.scale, self.out = RMSNorm(width), nn.Linear(width, width), nn.Linear(width, channels)

    def forward(self, hidden, conditioning):
        return self.out(self.norm(hidden) * (1 + self.scale(conditioning)))

class Transformer(nn.Module):
    def __init__(self, channels, width, depth):
        super().__init__()
        self.embed, self.time = nn.Linear(channels, width), nn.Linear(1, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.final_layer = FinalLayer(width, channels)
        self.gradient_checkpointing = self.cpu_offload = False

    def enable_gradient_checkpointing(self, cpu_offload=False):
        self.gradient_checkpointing, self.cpu_offload = True, cpu_offload

    def run(self, block, *args):
        if not (self.training and self.gradient_checkpointing):
            return block(*args)
        function = create_cpu_offloading_wrapper(block, self.embed.weight.device) if self.cpu_offload else block
        return checkpoint(function, *args, use_reentrant=False)

    def forward(self, latents, timesteps):
        hidden = self.embed(latents)
        conditioning = self.time(timesteps[:, None, None])
        for block in self.blocks:
            hidden = self.run(block, hidden, conditioning)
        return self.final_layer(hidden, conditioning)

# === parked_scale
# thread: https://github.com/Nerogar/OneTrainer/pull/1673
# about: layers wait in host memory for their turn; what parks them knows weight and bias, not the scale of quantized ones; adapters are made meanwhile
# operation: mul on cpu, cuda:0
# operands: self.weight.*|self|weight, self.scale|other|scale
# category: module-split|input-not-moved
# line: quantized.py: return self.weight.to(dtype) * self.scale
# line: conductor.py: PARKED = (
# line: conductor.py: for name in PARKED:
# line: conductor.py: tensor.data = tensor.data.to(
# repair: quantized.py: return self.weight.to(dtype) * self.scale -> return self.weight.to(dtype) * self.scale.to(self.weight.device)
import torch
from torch import nn

from adapters import DoRAModule
from conductor import LayerConductor
from quantized import quantize_layers

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(x)))

class Trainer:
    def __init__(self, layers, train_device, temp_device="cpu", resident=1):
        self.train_device = torch.device(train_device)
        self.layers = quantize_layers(layers).to(self.train_device)
        self.conductor = LayerConductor(self.layers, self.train_device, torch.device(temp_device), resident)

    def setup(self, rank):
        self.conductor.park()
        self.adapters = nn.ModuleList(
            DoRAModule(child, rank).hook_to_module() for layer in self.layers for child in layer.children()
        ).to(self.train_device)
        self.optimizer = torch.optim.AdamW(self.adapters.parameters(), lr=1e-2)

    def step(self, x, target):
        for index, layer in enumerate(self.layers):
            self.conductor.before_layer(index)
            x = layer(x)
        loss = nn.functional.mse_loss(x, target)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

torch.manual_seed(0)
trainer = Trainer(nn.ModuleList(Block(8) for _ in range(3)), "cuda:0", resident=3)
trainer.setup(rank=2)
x, target = torch.randn(4, 8), torch.randn(4, 8)
losses = [trainer.step(x.to(trainer.train_device), target.to(trainer.train_device)) for _ in range(3)]
print("losses", [round(loss, 4) for loss in losses])
# --- quantized.py
import torch
from torch import nn

class LinearW8A8(nn.Linear):
    """Eight-bit weights with a scale for each row."""

    def __init__(self, linear):
        super().__init__(linear.in_features, linear.out_features, linear.bias is not None)
        scale = linear.weight.detach().abs().amax(dim=1, keepdim=True) / 127
        self.weight = nn.Parameter((linear.weight.detach() / scale).round().to(torch.int8), requires_grad=False)
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach(), requires_grad=False)
        self.register_buffer("scale", scale)

    def unquantized_weight(self, dtype):
        return self.weight.to(dtype) * self.scale

    def forward(self, x):
        return nn.functional.linear(x, self.unquantized_weight(x.dtype), self.bias)

def quantize_layers(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, LinearW8A8(child))
        else:
            quantize_layers(child)
    return module
# --- conductor.py
PARKED = ("weight", "bias")

class LayerConductor:
    def __init__(self, layers, train_device, temp_device, resident):
        self.layers, self.train_device, self.temp_device, self.resident = layers, train_device, temp_device, resident
        self.loaded = list(range(len(layers)))

    def _move(self, index, device):
        for module in self.layers[index].modules():
            for name in PARKED:
                tensor = getattr(module, name, None)
                if tensor is not None:
                    tensor.data = tensor.data.to(device)

    def park(self):
        while self.loaded:
            self._move(self.loaded.pop(), self.temp_device)

    def before_layer(self, index):
        if index not in self.loaded:
            if len(self.loaded) == self.resident:
                self._move(self.loaded.pop(0), self.temp_device)
            self._move(index, self.train_device)
            self.loaded.append(index)
# --- adapters.py
import torch
from torch import nn

def get_unquantized_weight(module, dtype):
    return module.unquantized_weight(dtype) if hasattr(module, "unquantized_weight") else module.weight.to(dtype)

class DoRAModule(nn.Module):
    def __init__(self, orig_module, rank):
        super().__init__()
        self.orig = [orig_module]
        weight = get_unquantized_weight(orig_module, torch.float32)
        self.lora_down = nn.Parameter(torch.randn(rank, weight.shape[1]) * 0.1)
        self.lora_up = nn.Parameter(torch.zeros(weight.shape[0], rank))
        self.dora_scale = nn.Parameter(torch.linalg.norm(weight, dim=1, keepdim=True))

    def hook_to_module(self):
        self.orig[0].forward = self.forward
        return self

    def forward(self, x):
        orig = self.orig[0]
        weight = get_unquantized_weight(orig, x.dtype) + self.lora_up @ self.lora_down
        direction = weight / torch.linalg.norm(weight, dim=1, keepdim=True).detach()
        return nn.functional.linear(x, self.dora_scale * direction, orig.bias)

# === modules_to_save_card
# thread: https://github.com/unslothai/unsloth/pull/10034
# about: PEFT keeps a copy of the head that is trained, on the head's own card; a helper takes the copy to "cuda", which is the first one
# operation: addmm|mm|linear|matmul on cuda:0, cuda:1
# operands: input|hidden_states.*|mat2|mat1|self|x, weight|.*weight.*|mat2|other
# category: default-or-current-device|module-split
# line: offload.py: copy.to(device=device_type, dtype=dtype, non_blocking=True)
# line: offload.py: DEVICE_TYPE = "cuda"
# line: main.py: offload_frozen_module(
# repair: offload.py: copy.to(device=device_type, dtype=dtype, non_blocking=True) -> copy.to(device=copy.weight.device, dtype=dtype, non_blocking=True)
import torch
from accelerate import dispatch_model
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from offload import DEVICE_TYPE, offload_frozen_module

def load(device_map):
    config = LlamaConfig(
        vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
        max_position_embeddings=32, tie_word_embeddings=False,
    )
    return dispatch_model(LlamaForCausalLM(config), device_map)

def prepare_for_pretraining(model, rank):
    config = LoraConfig(r=rank, lora_alpha=8, target_modules=["q_proj", "v_proj"], modules_to_save=["embed_tokens", "lm_head"])
    model = get_peft_model(model, config)
    offload_frozen_module(model.get_base_model().get_input_embeddings(), DEVICE_TYPE)
    offload_frozen_module(model.get_base_model().get_output_embeddings(), DEVICE_TYPE)
    return model

torch.manual_seed(0)
model = load({"model.embed_tokens": 0, "model.rotary_emb": 0, "model.layers.0": 0, "model.layers.1": 1, "model.norm": 1, "lm_head": 1})
model = prepare_for_pretraining(model, rank=2)
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
input_ids = torch.randint(0, 40, (2, 12))
for _ in range(3):
    loss = model(input_ids=input_ids.to("cuda:0"), labels=input_ids.to("cuda:0")).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
# --- offload.py
import torch

DEVICE_TYPE = "cuda"

def offload_frozen_module(module, device_type, offload_device="cpu"):
    """The trained copy on the accelerator, in a type that can be trained; the frozen original out of its memory."""
    if not hasattr(module, "modules_to_save"):
        return
    copy = module.modules_to_save.default
    dtype = torch.float32 if copy.weight.dtype == torch.float16 else copy.weight.dtype
    copy.to(device=device_type, dtype=dtype, non_blocking=True)
    copy.requires_grad_(True)
    module.original_module.to(device=offload_device, non_blocking=True)
    module.original_module.requires_grad_(False)

# === hybrid_offloaded_cache
# thread: https://github.com/huggingface/transformers/pull/46748
# about: a cache keeps its layers in host memory and fetches the next one early; where that one has no keys the one behind it is never fetched
# operation: cat on cpu, cuda:0
# operands: self.keys|tensors.*, key_states|tensors.*|k
# category: input-not-moved|cached-state
# line: cache.py: self.prefetch((layer_idx + 1) % len(self.layers))
# line: cache.py: if isinstance(self.layers[layer_idx], AttentionLayer):
# line: cache.py: self.keys = torch.cat(
# line: cache.py: layer.offload()
# repair: cache.py: self.prefetch((layer_idx + 1) % len(self.layers)) -> self.prefetch(next(i % len(self.layers) for i in range(layer_idx + 1, layer_idx + 1 + len(self.layers)) if isinstance(self.layers[i % len(self.layers)], AttentionLayer)))
import torch
from torch import nn

from cache import OffloadedCache
from model import HybridModel

@torch.no_grad()
def generate(model, input_ids, max_new_tokens):
    cache = OffloadedCache(model.kinds, device=input_ids.device)
    tokens = input_ids
    for _ in range(max_new_tokens):
        logits = model(tokens, cache)
        tokens = logits[:, -1:].argmax(dim=-1)
        input_ids = torch.cat([input_ids, tokens], dim=1)
    return input_ids

torch.manual_seed(0)
device = "cuda:0"
model = HybridModel(vocabulary=23, width=16, kinds=["full", "linear", "full", "linear"]).to(device).eval()
prompt = torch.randint(0, 23, (2, 5))
output = generate(model, prompt.to(device), max_new_tokens=6)
print("tokens", output.tolist())
# --- cache.py
import torch

class AttentionLayer:
    def __init__(self):
        self.keys = self.values = None

    def update(self, key_states, value_states):
        if self.keys is None:
            self.keys, self.values = key_states, value_states
        else:
            self.keys = torch.cat([self.keys, key_states], dim=-2)
            self.values = torch.cat([self.values, value_states], dim=-2)
        return self.keys, self.values

    def offload(self):
        self.keys, self.values = self.keys.to("cpu", non_blocking=True), self.values.to("cpu", non_blocking=True)

    def fetch(self, device):
        if self.keys is not None:
            self.keys, self.values = self.keys.to(device, non_blocking=True), self.values.to(device, non_blocking=True)

class LinearAttentionLayer:
    """Its state has one size for ever: that stays where it is."""

    def __init__(self):
        self.state = None

    def update(self, state):
        self.state = state if self.state is None else 0.9 * self.state + state
        return self.state

class OffloadedCache:
    def __init__(self, kinds, device):
        self.layers = [AttentionLayer() if kind == "full" else LinearAttentionLayer() for kind in kinds]
        self.device = torch.device(device)
        self.prefetch_stream = torch.cuda.Stream(self.device)

    def prefetch(self, layer_idx):
        if isinstance(self.layers[layer_idx], AttentionLayer):
            with torch.cuda.stream(self.prefetch_stream):
                self.layers[layer_idx].fetch(self.device)

    def update(self, layer_idx, *states):
        layer = self.layers[layer_idx]
        if not isinstance(layer, AttentionLayer):
            return layer.update(*states)
        torch.cuda.default_stream(self.device).wait_stream(self.prefetch_stream)
        self.prefetch((layer_idx + 1) % len(self.layers))
        keys, values = layer.update(*states)
        layer.offload()
        return keys, values
# --- model.py
import torch
from torch import nn

class FullAttention(nn.Module):
    def __init__(self, width, layer_idx):
        super().__init__()
        self.qkv, self.layer_idx = nn.Linear(width, 3 * width), layer_idx

    def forward(self, hidden, cache):
        q, k, v = self.qkv(hidden).chunk(3, dim=-1)
        keys, values = cache.update(self.layer_idx, k, v)
        mask = torch.ones(q.shape[1], keys.shape[1], dtype=torch.bool, device=q.device).tril(keys.shape[1] - q.shape[1])
        return nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)

class LinearAttention(nn.Module):
    def __init__(self, width, layer_idx):
        super().__init__()
        self.qkv, self.layer_idx = nn.Linear(width, 3 * width), layer_idx

    def forward(self, hidden, cache):
        q, k, v = self.qkv(hidden).chunk(3, dim=-1)
        return q @ cache.update(self.layer_idx, nn.functional.elu(k).mT @ v) / 10

class HybridModel(nn.Module):
    def __init__(self, vocabulary, width, kinds):
        super().__init__()
        self.kinds = kinds
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList((FullAttention if kind == "full" else LinearAttention)(width, i) for i, kind in enumerate(kinds))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, cache):
        hidden = self.embed(tokens)
        for layer in self.layers:
            hidden = hidden + layer(hidden, cache)
        return self.head(hidden)

# === automagic_resume
# thread: https://github.com/wochenlong/lora-scripts-next/pull/322
# about: an optimizer has a learning rate for each weight, which its own load_state_dict() restores past PyTorch's, as it was read: on the CPU
# operation: where|add|mul|sub on cuda:0, cpu
# operands: lr_mask.*|self|other|input
# category: optimizer|checkpoint
# line: automagic.py: self.state[p]["lr_mask"] = saved["lr_mask"]
# line: automagic.py: lr_mask = state["lr_mask"]
# line: checkpoint.py: state = torch.load(
# repair: automagic.py: self.state[p]["lr_mask"] = saved["lr_mask"] -> self.state[p]["lr_mask"] = saved["lr_mask"].to(p.device)
import io

import torch
from torch import nn

from automagic import Automagic
from checkpoint import load_checkpoint, save_checkpoint

def make(device):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 3)).to(device)
    return network, Automagic(network.parameters(), lr=1e-2)

def train(network, optimizer, batches, device):
    for x, y in batches:
        loss = nn.functional.cross_entropy(network(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()

device = torch.device("cuda:0")
network, optimizer = make(device)
batches = [(torch.randn(8, 6), torch.randint(0, 3, (8,))) for _ in range(4)]
train(network, optimizer, batches[:2], device)
file = save_checkpoint(io.BytesIO(), network, optimizer, step=2)

network, optimizer = make(device)
step = load_checkpoint(file, network, optimizer)
loss = train(network, optimizer, batches[step:], device)
print("resumed at", step, "loss", round(loss, 4))
# --- checkpoint.py
import torch

def save_checkpoint(file, network, optimizer, step):
    torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, file)
    return file

def load_checkpoint(file, network, optimizer):
    file.seek(0)
    state = torch.load(file, map_location="cpu")
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]
# --- automagic.py
import torch

class Automagic(torch.optim.Optimizer):
    """Each weight's rate goes up while its gradient keeps its sign, and down when it turns."""

    def __init__(self, params, lr=1e-3, min_lr=1e-5, max_lr=1e-1, lr_bump=1e-3, beta2=0.99):
        super().__init__(params, {"lr": lr, "min_lr": min_lr, "max_lr": max_lr, "lr_bump": lr_bump, "beta2": beta2})

    def initialize_state(self, p, group):
        state = self.state[p]
        state["step"] = 0
        state["lr_mask"] = torch.full(p.shape, group["lr"], device=p.device)
        state["last_polarity"] = torch.zeros(p.shape, dtype=torch.bool, device=p.device)
        state["exp_avg_sq"] = torch.zeros_like(p)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    self.initialize_state(p, group)
                state["step"] += 1
                state["exp_avg_sq"].mul_(group["beta2"]).addcmul_(p.grad, p.grad, value=1 - group["beta2"])
                polarity = p.grad > 0
                same = polarity == state["last_polarity"]
                lr_mask = state["lr_mask"]
                new_lr = torch.where(same, lr_mask + group["lr_bump"], lr_mask - group["lr_bump"])
                state["lr_mask"] = new_lr.clamp_(group["min_lr"], group["max_lr"])
                state["last_polarity"] = polarity
                p.sub_(p.grad / (state["exp_avg_sq"].sqrt() + 1e-8) * state["lr_mask"])

    def load_state_dict(self, state_dict, strict=True):
        """Parameters that were never updated have no state: those that have are told by their place among all."""
        masks = {index: {"lr_mask": each["lr_mask"]} for index, each in state_dict["state"].items()}
        rest = {index: {name: value for name, value in each.items() if name != "lr_mask"} for index, each in state_dict["state"].items()}
        super().load_state_dict({"state": rest, "param_groups": state_dict["param_groups"]})
        params = [p for group in self.param_groups for p in group["params"]]
        for index, saved in masks.items():
            p = params[index]
            self.state[p]["lr_mask"] = saved["lr_mask"]

# === keys_of_batch
# thread: https://github.com/zillur01/LVLane/issues/13
# about: a loop over a batch's keys asks whether the key is a tensor, which none is: nothing is moved, and nothing complains
# operation: conv.*|.*convolution.* on cpu, cuda:0
# operands: input|x|self, weight|.*weight.*
# error: should be the same|on the same device
# category: input-not-moved
# line: runner.py: if not isinstance(key, torch.Tensor):
# line: runner.py: batch[key] = batch[key].to(self.device)
# line: runner.py: batch = self.to_device(batch)
# line: runner.py: output = self.net(batch)
# repair: runner.py: if not isinstance(key, torch.Tensor): -> if not isinstance(batch[key], torch.Tensor):
import torch
from torch.utils.data import DataLoader

from lanes import LaneDataset, LaneNet
from runner import Runner

torch.manual_seed(0)
runner = Runner(LaneNet(classes=3, lanes=2), device="cuda:0", lr=0.05)
loader = DataLoader(LaneDataset(8), batch_size=4, collate_fn=LaneDataset.collate)
for epoch in range(2):
    loss = runner.train_epoch(epoch, loader)
print("loss", round(loss, 4))
# --- runner.py
import torch

class Runner:
    def __init__(self, net, device, lr):
        self.device = torch.device(device)
        self.net = net.to(self.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=lr)
        self.history = []

    def to_device(self, batch):
        for key in batch:
            if not isinstance(key, torch.Tensor):
                continue
            batch[key] = batch[key].to(self.device)
        return batch

    def train_epoch(self, epoch, loader):
        self.net.train()
        for i, batch in enumerate(loader):
            batch = self.to_device(batch)
            output = self.net(batch)
            self.optimizer.zero_grad()
            output["loss"].backward()
            self.optimizer.step()
            self.history.append({"epoch": epoch, "iteration": i, "images": len(batch["meta"]), "loss": output["loss"].item()})
        return self.history[-1]["loss"]
# --- lanes.py
import torch
from torch import nn
from torch.utils.data import Dataset

class LaneDataset(Dataset):
    def __init__(self, size):
        generator = torch.Generator().manual_seed(1)
        self.images = torch.rand(size, 3, 16, 16, generator=generator)
        self.categories = torch.randint(0, 3, (size, 2), generator=generator)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return {"img": self.images[index], "lane_line": self.categories[index].float() / 3, "category": self.categories[index], "meta": f"{index:04}.jpg"}

    @staticmethod
    def collate(samples):
        return {key: [each[key] for each in samples] if key == "meta" else torch.stack([each[key] for each in samples]) for key in samples[0]}

class LaneNet(nn.Module):
    def __init__(self, classes, lanes):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.heads = nn.ModuleDict({"category": nn.Linear(8, classes * lanes), "line": nn.Linear(8, lanes)})
        self.classes, self.lanes = classes, lanes

    def forward(self, batch):
        features = self.backbone(batch["img"])
        category = self.heads["category"](features).view(-1, self.classes, self.lanes)
        output = {"category": category, "line": self.heads["line"](features)}
        if self.training:
            output["loss"] = nn.functional.cross_entropy(category, batch["category"]) + nn.functional.mse_loss(output["line"], batch["lane_line"])
        return output
