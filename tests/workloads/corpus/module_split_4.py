# === larger_vocabulary
# thread: https://github.com/huggingface/transformers/issues/25554
# about: the layer that takes the old one's place has its device, but not its hook
# operation: linear|mm|matmul on cuda:0, cuda:1
# operands: hidden|input, lm_head.weight|weight
# category: module-split|created-without-device
# line: model.lm_head = resized(
# line: device_map = {
# line: return self.lm_head(
# repair: model.lm_head = resized(model.lm_head, n_tokens) -> model.lm_head = accelerate.hooks.add_hook_to_module(resized(model.lm_head, n_tokens), model.lm_head._hf_hook)
import accelerate
import torch
from torch import nn


class LlamaLike(nn.Module):
    def __init__(self, vocab_size=20, dim=8, n_layers=4):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, dim)
        self.layers = nn.ModuleList([nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.SiLU()) for _ in range(n_layers)])
        self.lm_head = nn.Linear(dim, vocab_size, bias=False)

    def forward(self, input_ids):
        hidden = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.lm_head(hidden)


def resized(old_head, n_tokens):
    old_tokens, dim = old_head.weight.shape
    new_head = nn.Linear(dim, n_tokens, bias=False)
    new_head.to(old_head.weight.device)
    with torch.no_grad():
        new_head.weight[:old_tokens] = old_head.weight
    return new_head


def add_special_tokens(model, n_tokens):
    """The rows of the tokens there were stay as they are."""
    model.lm_head = resized(model.lm_head, n_tokens)
    return model


torch.manual_seed(25554)
model = LlamaLike().eval()
device_map = {"embed_tokens": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "lm_head": 0}
model = accelerate.dispatch_model(model, device_map=device_map)
model = add_special_tokens(model, 24)
with torch.no_grad():
    logits = model(torch.tensor([[1, 7, 13, 19]]))
print(list(logits.shape), round(logits[..., :20].abs().sum().item(), 4), flush=True)

# === low_memory_adapter
# thread: https://github.com/huggingface/peft/pull/2113
# about: the model is where it was asked to be; parameters that it got later, by assignment, are where their file was read to
# operation: linear|mm|matmul|addmm on cuda:0, cpu
# operands: weight|lora_A, x|input|hidden_states|hidden
# category: module-split|created-without-device|input-not-moved
# line: loaders.py: model.load_state_dict(state_dict, strict=False, assign=True)
# line: loaders.py: state_dict = torch.load(
# line: main.py: pipe.load_lora_weights(
# repair: loaders.py: state_dict = torch.load(file, map_location="cpu") -> state_dict = torch.load(file, map_location=next(model.parameters()).device)
import io

import torch
from torch import nn

from loaders import LoraLoaderMixin


class Attention(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.to_q, self.to_k = nn.Linear(width, width), nn.Linear(width, width)
        self.to_v, self.proj_out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, hidden_states):
        scores = self.to_q(hidden_states) @ self.to_k(hidden_states).transpose(-1, -2)
        return hidden_states + self.proj_out(scores.softmax(-1) @ self.to_v(hidden_states))


class Pipeline(LoraLoaderMixin):
    def __init__(self):
        self.transformer = nn.Sequential(Attention(), Attention())

    def to(self, device):
        self.transformer.to(device)
        self.device = torch.device(device)
        return self

    @torch.no_grad()
    def __call__(self, latents, num_inference_steps):
        latents = latents.to(self.device)
        for _ in range(num_inference_steps):
            latents = latents - 0.1 * self.transformer(latents)
        return latents


def trained_adapter(rank=2, width=8):
    generator = torch.Generator().manual_seed(2113)
    weights = {}
    for block in (0, 1):
        for layer in ("to_q", "proj_out"):
            weights[f"{block}.{layer}.lora_A.weight"] = torch.randn(rank, width, generator=generator)
            weights[f"{block}.{layer}.lora_B.weight"] = torch.randn(width, rank, generator=generator)
    file = io.BytesIO()
    torch.save(weights, file)
    return io.BytesIO(file.getvalue())


torch.manual_seed(9510)
pipe = Pipeline().to("cuda")
pipe.load_lora_weights(trained_adapter(), adapter_name="hound", low_cpu_mem_usage=True)
image = pipe(torch.linspace(-1, 1, 24).view(1, 3, 8), num_inference_steps=2)
print("image", round(image.abs().sum().item(), 3))
# --- loaders.py
import torch
from peft import LoraConfig, inject_adapter_in_model


class LoraLoaderMixin:
    """Puts adapters from files into the pipeline's transformer."""

    def load_lora_weights(self, file, adapter_name="default", low_cpu_mem_usage=False):
        model = self.transformer
        state_dict = torch.load(file, map_location="cpu")
        state_dict = self.named_for(adapter_name, state_dict)
        rank = next(weight for name, weight in state_dict.items() if ".lora_A." in name).shape[0]
        targets = sorted({name.split(".lora_")[0] for name in state_dict})
        config = LoraConfig(r=rank, lora_alpha=rank, target_modules=targets, init_lora_weights=False)
        # With little memory to spare the layers are made without weights, and the file's become theirs.
        inject_adapter_in_model(config, model, adapter_name=adapter_name, low_cpu_mem_usage=low_cpu_mem_usage)
        if low_cpu_mem_usage:
            model.load_state_dict(state_dict, strict=False, assign=True)
        else:
            model.load_state_dict(state_dict, strict=False)

    @staticmethod
    def named_for(adapter_name, state_dict):
        return {name.replace(".weight", f".{adapter_name}.weight"): weight for name, weight in state_dict.items()}

# === norm_loader
# thread: https://github.com/sgl-project/sglang/pull/36510
# about: parameters were taken to the CPU on purpose, what is derived from one of them is a buffer; the third tensor is an out= argument
# operation: add on cpu, cuda:0
# operands: param|weight|self, self.gemma_weight|gemma_weight|out
# category: module-split|input-not-moved
# line: layernorm.py: torch.add(param.data, 1.0, out=self.gemma_weight)
# line: offloader.py: param.data = param.data.to(
# repair: layernorm.py: torch.add(param.data, 1.0, out=self.gemma_weight) -> torch.add(param.data.to(self.gemma_weight.device), 1.0, out=self.gemma_weight)
import torch
from torch import nn

from layernorm import GemmaRMSNorm
from offloader import Offloader


class Layer(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.norm = GemmaRMSNorm(hidden_size)
        self.mlp = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Model(nn.Module):
    def __init__(self, offloader, vocab_size=20, hidden_size=8, n_layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, hidden_size)
        self.layers = nn.ModuleList(offloader.wrap(Layer(hidden_size).to("cuda")) for _ in range(n_layers))
        self.embed.to("cuda")

    def load_weights(self, weights):
        params = dict(self.named_parameters())
        for name, loaded in weights:
            loader = getattr(params[name], "weight_loader", lambda param, weight: param.data.copy_(weight))
            loader(params[name], loaded)

    @torch.no_grad()
    def forward(self, input_ids):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        return x @ self.embed.weight.T


def checkpoint(model):
    generator = torch.Generator().manual_seed(36510)
    for name, param in model.named_parameters():
        yield name, torch.rand(param.shape, generator=generator) - 0.5


model = Model(Offloader(budget=150))
model.load_weights(checkpoint(model))
logits = model(torch.tensor([3, 1, 4, 15], device="cuda"))
print("next", logits.argmax(-1).tolist(), round(logits.abs().mean().item(), 3))
# --- layernorm.py
import torch
from torch import nn


class GemmaRMSNorm(nn.Module):
    """Its weights are kept as what they differ from one by."""

    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(hidden_size), requires_grad=False)
        self.weight.weight_loader = self._weight_loader
        self.register_buffer("gemma_weight", torch.ones(hidden_size), persistent=False)

    def _weight_loader(self, param, loaded_weight):
        param.data.copy_(loaded_weight)
        # Once here, and not in every forward.
        torch.add(param.data, 1.0, out=self.gemma_weight)

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.gemma_weight
# --- offloader.py
import torch


class Offloader:
    """Leaves modules without their weights on the GPU, until so many numbers are saved there."""

    def __init__(self, budget):
        self.budget = budget

    def wrap(self, module):
        device = next(module.parameters()).device
        taken = [name for name, param in module.named_parameters() if self.take(param)]
        if taken:
            self.fetch_in_forward(module, set(taken), device)
        return module

    def take(self, param):
        if self.budget <= 0:
            return False
        self.budget -= param.numel()
        param.data = param.data.to("cpu")
        return True

    def fetch_in_forward(self, module, taken, device):
        forward = module.forward

        def fetch(*args, **kwargs):
            module.forward = forward
            fetched = {name: param.to(device) for name, param in module.named_parameters() if name in taken}
            result = torch.func.functional_call(module, fetched, args, kwargs)
            module.forward = fetch
            return result

        module.forward = fetch

# === norm_of_stages
# thread: https://github.com/pytorch/pytorch/issues/38605
# about: elements of a list; gradients of a model that is split without fault
# operation: stack|cat on cuda:0, cuda:1
# operands: norms|tensors|norm
# category: module-split
# line: norms = [torch.norm(
# line: total_norm = torch.norm(torch.stack(
# repair: norms = [torch.norm(p.grad.detach(), norm_type) for p in parameters] -> norms = [torch.norm(p.grad.detach(), norm_type).to(parameters[0].device) for p in parameters]
import torch
import torch.nn


class MyModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = torch.nn.Linear(10, 5).to('cuda:0')
        self.layer2 = torch.nn.Linear(5, 2).to('cuda:1')

    def forward(self, x):
        a = self.layer1(x)
        b = self.layer2(a.to('cuda:1'))
        return b


def clip_grad_norm_(parameters, max_norm, norm_type=2.0):
    parameters = [p for p in parameters if p.grad is not None]
    norms = [torch.norm(p.grad.detach(), norm_type) for p in parameters]
    total_norm = torch.norm(torch.stack(norms), norm_type)
    clip_coef = max_norm / (total_norm.item() + 1e-6)
    if clip_coef < 1:
        for p in parameters:
            p.grad.detach().mul_(clip_coef)
    return total_norm


torch.manual_seed(0)
m = MyModule()
opt = torch.optim.SGD(m.parameters(), lr=0.1)
x = torch.randn(32, 10).to('cuda:0')
for i in range(3):
    opt.zero_grad()
    loss = m(x).sum()
    loss.backward()
    norm = clip_grad_norm_(m.parameters(), 1.0)
    opt.step()
print('norm before clipping: %.3f, loss: %.3f' % (norm.item(), loss.item()))
