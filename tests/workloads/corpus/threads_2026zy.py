# === captions_for_a_warehouse_photo
# thread: https://github.com/roboflow/inference/pull/2560
# about: photos are matched with the names of classes, none of which the model was trained for. Both of its halves are run by sessions that are asked for in
#   one way; either half may be tried alone
# operation: mm|matmul|linear on cuda:0, cpu
# operands: mat2|other|tensor2|self|.*embeddings.*
# category: input-not-moved
# line: clip_onnx.py: tokens = tokenize(texts
# line: clip_onnx.py: embeddings = self._textual.run(tokens)
# line: zero_shot.py: return normalized(x) @ normalized(y).T
# line: zero_shot.py: self.class_embeddings = model.embed_text(class_names)
# line: zero_shot.py: similarity = compare_embeddings(
# line: session.py: device = tensor.device
# repair: clip_onnx.py: tokens = tokenize(texts, self.context_length) -> tokens = tokenize(texts, self.context_length).to(self._device)
import argparse

import numpy as np
import torch

from clip_onnx import ClipOnnx
from zero_shot import ZeroShotClassifier

CLASSES = ["a forklift", "an empty shelf", "a pallet of boxes", "a person"]


def frames(count: int, size: int):
    draw = np.random.default_rng(11)
    for index in range(count):
        yield f"frame-{index}", draw.integers(0, 256, (size, size, 3), dtype=np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-id", default="clip/rn-tiny")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    model = ClipOnnx.from_pretrained(args.model_id, device=torch.device(args.device))
    classifier = ZeroShotClassifier(model, CLASSES)
    for name, image in frames(count=3, size=16):
        label, confidence = classifier.infer(image)
        print(name, label, round(confidence, 4))


if __name__ == "__main__":
    main()
# --- zero_shot.py
import numpy as np
import torch

from clip_onnx import ClipOnnx


def normalized(embeddings: torch.Tensor) -> torch.Tensor:
    return embeddings / embeddings.norm(dim=-1, keepdim=True)


def compare_embeddings(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return normalized(x) @ normalized(y).T


class ZeroShotClassifier:
    def __init__(self, model: ClipOnnx, class_names: list[str], temperature: float = 0.1):
        self.model = model
        self.class_names = class_names
        self.temperature = temperature
        self.class_embeddings = model.embed_text(class_names)

    def infer(self, image: np.ndarray) -> tuple[str, float]:
        image_embeddings = self.model.embed_images([image])
        similarity = compare_embeddings(image_embeddings, self.class_embeddings)
        confidence, best = (similarity / self.temperature).softmax(dim=-1)[0].max(dim=0)
        return self.class_names[best.item()], confidence.item()
# --- clip_onnx.py
import numpy as np
import torch

from packages import load_package
from session import InferenceSession


def tokenize(texts: list[str], context_length: int) -> torch.Tensor:
    tokens = torch.zeros(len(texts), context_length, dtype=torch.int32)
    for row, text in zip(tokens, texts):
        codes = [1, *(2 + ord(letter) % 30 for letter in text), 1][:context_length]
        row[: len(codes)] = torch.tensor(codes, dtype=torch.int32)
    return tokens


class ClipOnnx:
    @classmethod
    def from_pretrained(cls, model_id: str, device: torch.device) -> "ClipOnnx":
        package = load_package(model_id)
        visual = InferenceSession(package["visual"], warm_up_on=device)
        textual = InferenceSession(package["textual"], warm_up_on=device)
        return cls(visual, textual, package["context_length"], device)

    def __init__(self, visual: InferenceSession, textual: InferenceSession, context_length: int, device: torch.device):
        self._visual = visual
        self._textual = textual
        self.context_length = context_length
        self._device = device

    def preprocess(self, images: list[np.ndarray]) -> torch.Tensor:
        pixels = torch.from_numpy(np.stack(images)).to(self._device)
        return (pixels.permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.25

    @torch.inference_mode()
    def embed_images(self, images: list[np.ndarray]) -> torch.Tensor:
        return self._visual.run(self.preprocess(images).flatten(1))

    @torch.inference_mode()
    def embed_text(self, texts: list[str]) -> torch.Tensor:
        tokens = tokenize(texts, self.context_length)
        embeddings = self._textual.run(tokens)
        return embeddings
# --- session.py
import torch


class InferenceSession:
    """Runs a graph, a list of steps with their weights. A device's copy of the weights is made once."""

    def __init__(self, graph, warm_up_on: torch.device):
        self.graph = graph
        self.bound = {}
        self.bind(warm_up_on)

    def bind(self, device: torch.device):
        if device not in self.bound:
            self.bound[device] = [(operator, weight.to(device)) for operator, weight in self.graph]
        return self.bound[device]

    def run(self, tensor: torch.Tensor) -> torch.Tensor:
        device = tensor.device
        for operator, weight in self.bind(device):
            tensor = operator(tensor, weight)
        return tensor
# --- packages.py
import torch


def gemm(x, weight):
    return x @ weight


def gather_mean(tokens, weight):
    return torch.nn.functional.embedding(tokens, weight).mean(dim=1)


def gelu_gemm(x, weight):
    return torch.nn.functional.gelu(x) @ weight


def load_package(model_id: str):
    """The halves of a model, as two files in its folder have them."""
    draw = torch.Generator().manual_seed(sum(map(ord, model_id)))
    width, embedding = 24, 12
    visual = [
        (gemm, torch.randn(3 * 16 * 16, width, generator=draw) * 0.05),
        (gelu_gemm, torch.randn(width, embedding, generator=draw) * 0.3),
    ]
    textual = [
        (gather_mean, torch.randn(32, width, generator=draw)),
        (gelu_gemm, torch.randn(width, embedding, generator=draw) * 0.3),
    ]
    return {"visual": visual, "textual": textual, "context_length": 20}

# === perplexity_after_turning_the_layers
# thread: https://github.com/Xilinx/brevitas/pull/1480
# about: a language model is spread over the cards each time something has to be computed with it, and gathered again afterwards. In between its layers are
#   turned, for which some are put into others
# operation: native_layer_norm|layer_norm on cuda:0, cuda:1
# operands: weight|bias|input
# category: module-split|cached-state
# line: main.py: fused_rotation_no_fx(model,
# line: rotation.py: model = offload_model(model)
# line: rotation.py: r.apply(model)
# line: accelerate_utils.py: old_forward = module.forward
# line: accelerate_utils.py: def offload_model(
# line: accelerate_utils.py: add_hook_to_module(module,
# line: accelerate_utils.py: module.forward = new_forward
# line: main.py: model = offload_model(model)
# repair: main.py: fused_rotation_no_fx(model, calibration_loader, args) -> fused_rotation_no_fx(model, calibration_loader, args); remove_hooks(model)
import argparse

import torch

from accelerate_utils import offload_model, remove_hooks
from llama import LlamaForCausalLM
from rotation import fused_rotation_no_fx


@torch.no_grad()
def compute_perplexity(model, data):
    losses = []
    for batch in data:
        logits = model(batch[:, :-1])
        targets = batch[:, 1:].to(logits.device)
        losses.append(torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()))
    return torch.stack(losses).mean().exp().item()


@torch.no_grad()
def quantize_weights(model, bits):
    for name, parameter in model.named_parameters():
        if name.endswith("proj.weight") or name.endswith("layer.weight"):
            scale = parameter.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
            parameter.copy_((parameter / scale).round() * scale)


def quantize_llm(args):
    torch.manual_seed(args.seed)
    model = LlamaForCausalLM().eval()
    calibration_loader = [torch.randint(0, 40, (2, 9)) for _ in range(2)]
    validation_loader = [torch.randint(0, 40, (2, 12)) for _ in range(3)]

    model = offload_model(model)
    float_ppl = compute_perplexity(model, validation_loader)
    remove_hooks(model)

    if args.rotation == "fused_no_fx":
        fused_rotation_no_fx(model, calibration_loader, args)

    model = offload_model(model)
    quantize_weights(model, args.weight_bit_width)
    quant_ppl = compute_perplexity(model, validation_loader)
    remove_hooks(model)
    return float_ppl, quant_ppl


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rotation", choices=["none", "fused_no_fx"], default="fused_no_fx")
    parser.add_argument("--weight-bit-width", type=int, default=6)
    parser.add_argument("--seed", type=int, default=3)
    print("perplexity %.3f, quantized %.3f" % quantize_llm(parser.parse_args()))
# --- accelerate_utils.py
import torch
from torch import nn


class AlignDevicesHook:
    def __init__(self, execution_device):
        self.execution_device = execution_device

    def pre_forward(self, args):
        return [arg.to(self.execution_device) if isinstance(arg, torch.Tensor) else arg for arg in args]


def add_hook_to_module(module: nn.Module, hook: AlignDevicesHook):
    old_forward = module.forward

    def new_forward(*args):
        return old_forward(*hook.pre_forward(args))

    module._hf_hook = hook
    module.forward = new_forward


def remove_hooks(model: nn.Module):
    for module in model.modules():
        if hasattr(module, "_hf_hook"):
            del module._hf_hook
            del module.forward
    model.cpu()


def infer_auto_device_map(model: nn.Module, max_memory):
    """The parts, in their order, each on the first card that still has room."""
    device_map, device, used = {}, 0, 0
    for name in model.parts():
        size = sum(parameter.numel() for parameter in model.get_submodule(name).parameters())
        if used + size > max_memory[device] and device + 1 < len(max_memory):
            device, used = device + 1, 0
        device_map[name] = device
        used += size
    return device_map


def offload_model(model: nn.Module, max_memory=(8200, 100000)):
    device_map = infer_auto_device_map(model, max_memory)
    for name, device in device_map.items():
        part = model.get_submodule(name).to(f"cuda:{device}")
        for module in part.modules():
            if any(True for _ in module.parameters(recurse=False)):
                add_hook_to_module(module, AlignDevicesHook(f"cuda:{device}"))
    return model
# --- rotation.py
from dataclasses import dataclass

import torch
from torch import nn

from accelerate_utils import offload_model


def random_orthogonal(size, seed):
    draw = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(size, size, generator=draw))[0]


class RotatedModule(nn.Module):
    """A layer whose input is turned first."""

    def __init__(self, layer, had_mat):
        super().__init__()
        self.layer = layer
        self.register_parameter("had_mat", nn.Parameter(had_mat, requires_grad=False))

    def forward(self, x):
        return self.layer(x @ self.had_mat.to(x.device))


@dataclass
class ModuleInstanceWrapModule:
    name: str
    seed: int

    def apply(self, model):
        parent, _, child = self.name.rpartition(".")
        layer = model.get_submodule(self.name)
        had_mat = random_orthogonal(layer.in_features, self.seed).to(layer.weight.device)
        with torch.no_grad():
            layer.weight.copy_(layer.weight @ had_mat)
        setattr(model.get_submodule(parent), child, RotatedModule(layer, had_mat))
        return model


@torch.no_grad()
def fused_rotation_no_fx(model, calibration_loader, args):
    model = offload_model(model)
    for batch in calibration_loader:
        model(batch)
    sinks = [name for name, _ in model.named_modules() if name.endswith("down_proj")]
    rewriters = [ModuleInstanceWrapModule(name, seed) for seed, name in enumerate(sinks)]
    for r in rewriters:
        r.apply(model)
# --- llama.py
from torch import nn


class LlamaDecoderLayer(nn.Module):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(hidden_size)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, hidden_states):
        mixed = hidden_states.cumsum(dim=1) / 4
        update = self.down_proj(nn.functional.silu(self.up_proj(self.input_layernorm(mixed))))
        return hidden_states.to(update.device) + update


class LlamaForCausalLM(nn.Module):
    def __init__(self, vocab_size=40, hidden_size=24, intermediate_size=40, num_hidden_layers=4):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, hidden_size)
        self.layers = nn.ModuleList(LlamaDecoderLayer(hidden_size, intermediate_size) for _ in range(num_hidden_layers))
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)

    def parts(self):
        return ["embed_tokens", *(f"layers.{index}" for index in range(len(self.layers))), "lm_head"]

    def forward(self, input_ids):
        hidden_states = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        return self.lm_head(hidden_states)

# === a_city_swapped_inside_the_model
# thread: https://github.com/stanfordnlp/pyvene/pull/171
# about: what a model has computed at a word of one sentence is put in at the word of another, to see what hangs on it. Where to take it from is told for each
#   sentence and may be told for heads and words at once
# operation: gather on cuda:0, cpu
# operands: index
# category: created-without-device
# line: modeling_utils.py: unit_locations_as_list, device="cpu"
# line: modeling_utils.py: unit_locations = torch.tensor(
# line: modeling_utils.py: unit_locations.reshape(*unit_locations.shape
# line: modeling_utils.py: expand(-1, -1, *tensor_input.shape[2:]),
# line: modeling_utils.py: def gather_neurons(
# repair: modeling_utils.py: unit_locations_as_list, device="cpu" -> unit_locations_as_list, device=tensor_input.device
import torch

from gpt import GPT
from intervenable_base import IntervenableModel, RepresentationConfig
from interventions import AdditionIntervention, VanillaIntervention

WORDS = "<bos> the capital of spain italy is madrid rome . river in".split()
NAMES = {"vanilla": VanillaIntervention, "addition": AdditionIntervention}


def encode(sentence):
    return torch.tensor([[WORDS.index(word) for word in ["<bos>", *sentence.split()]]])


def main():
    torch.manual_seed(23)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    gpt = GPT(vocab_size=len(WORDS)).eval().to(device)
    base = encode("the capital of spain is").to(device)
    source = encode("the river in italy is").to(device)

    for name in ("vanilla", "addition"):
        configs = [
            RepresentationConfig(layer=layer, component="block_output", unit="pos", intervention_type=NAMES[name])
            for layer in (0, 2)
        ]
        pv_gpt = IntervenableModel(configs, gpt)
        original, counterfactual = pv_gpt(
            base,
            [source, source],
            unit_locations={"sources->base": ([[[4]], [[5]]], [[[4]], [[5]]])},
        )
        moved = (original - counterfactual).abs()[0, -1]
        print(name, WORDS[moved.argmax().item()], round(moved.sum().item(), 4))


if __name__ == "__main__":
    main()
# --- interventions.py
import torch


class VanillaIntervention(torch.nn.Module):
    def forward(self, base, source):
        return source


class AdditionIntervention(torch.nn.Module):
    """How much of the source is added to what is there."""

    def __init__(self, share=0.5):
        super().__init__()
        self.register_buffer("share", torch.tensor(share))

    def forward(self, base, source):
        return base + self.share * source
# --- intervenable_base.py
from dataclasses import dataclass

import torch

from modeling_utils import gather_neurons, get_module_hook, scatter_neurons


@dataclass
class RepresentationConfig:
    layer: int
    component: str
    unit: str
    intervention_type: type


class IntervenableModel(torch.nn.Module):
    def __init__(self, configs, model):
        super().__init__()
        self.configs = configs
        self.model = model
        device = next(model.parameters()).device
        self.interventions = torch.nn.ModuleList(config.intervention_type() for config in configs).to(device)

    def _gather_activations(self, sources, locations):
        activations = []
        for config, source, location in zip(self.configs, sources, locations):
            kept = []
            handle = get_module_hook(self.model, config)(
                lambda module, args, output, unit=config.unit, location=location: kept.append(
                    gather_neurons(output, unit, location)
                )
            )
            self.model(source)
            handle.remove()
            activations.append(kept[0])
        return activations

    def _set_interventions(self, activations, locations):
        handles = []
        for config, intervention, activation, location in zip(
            self.configs, self.interventions, activations, locations
        ):

            def swap(module, args, output, config=config, intervention=intervention, activation=activation, location=location):
                base = gather_neurons(output, config.unit, location)
                return scatter_neurons(output, intervention(base, activation), config.unit, location)

            handles.append(get_module_hook(self.model, config)(swap))
        return handles

    @torch.no_grad()
    def forward(self, base, sources, unit_locations):
        source_locations, base_locations = unit_locations["sources->base"]
        original = self.model(base)
        activations = self._gather_activations(sources, source_locations)
        handles = self._set_interventions(activations, base_locations)
        counterfactual = self.model(base)
        for handle in handles:
            handle.remove()
        return original, counterfactual
# --- modeling_utils.py
import torch


def get_module_hook(model, config):
    block = model.blocks[config.layer]
    module = {"block_output": block, "mlp_output": block.mlp}[config.component]
    return module.register_forward_hook


def gather_neurons(tensor_input, unit, unit_locations_as_list):
    """What stands at the locations. Units are "pos", or heads and positions, "h.pos"."""
    if unit == "h.pos":
        heads, positions = (
            torch.tensor(unit_locations_as_list[0], device=tensor_input.device),
            torch.tensor(unit_locations_as_list[1], device=tensor_input.device),
        )
        chosen = torch.gather(tensor_input, 1, heads[:, :, None, None].expand(-1, -1, *tensor_input.shape[2:]))
        return torch.gather(chosen, 2, positions[:, None, :, None].expand(-1, chosen.shape[1], -1, chosen.shape[3]))
    unit_locations = torch.tensor(
        unit_locations_as_list, device="cpu"
    )
    return torch.gather(
        tensor_input,
        1,
        unit_locations.reshape(*unit_locations.shape, *(1,) * (len(tensor_input.shape) - 2)).expand(-1, -1, *tensor_input.shape[2:]),
    )


def scatter_neurons(tensor_input, replacing_tensor_input, unit, unit_locations_as_list):
    unit_locations = torch.tensor(unit_locations_as_list, device=tensor_input.device)
    _batch_idx = torch.arange(tensor_input.shape[0], device=tensor_input.device).unsqueeze(1)
    tensor_output = tensor_input.clone()
    tensor_output[_batch_idx, unit_locations] = replacing_tensor_input
    return tensor_output
# --- gpt.py
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, n_embd):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = nn.Linear(n_embd, 3 * n_embd)
        self.mlp = nn.Sequential(nn.LayerNorm(n_embd), nn.Linear(n_embd, 32), nn.GELU(), nn.Linear(32, n_embd))

    def forward(self, x):
        q, k, v = self.attn(self.ln_1(x)).chunk(3, dim=-1)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.mlp(x)


class GPT(nn.Module):
    def __init__(self, vocab_size, n_embd=16, n_layer=3, block_size=16):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.blocks = nn.ModuleList(Block(n_embd) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(n_embd)

    def forward(self, input_ids):
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.wte(input_ids) + self.wpe(positions)
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T

# === patches_dropped_on_the_way
# thread: https://github.com/raoyongming/DynamicViT/issues/44
# about: a transformer for pictures drops patches between its blocks and learns which. Two pictures and their labels are mixed before; a run is started with
#   options in a shell script
# operation: scatter_ on cuda:0, cuda:1
# operands: index|src|x
# category: default-or-current-device|created-without-device
# line: main.py: "--device", "cuda:1"
# line: mixup.py: def mixup_target(
# line: mixup.py: def one_hot(
# line: mixup.py: target = mixup_target(
# line: mixup.py: y1 = one_hot(
# line: mixup.py: return torch.full(
# line: main.py: device = torch.device(args.device)
# repair: main.py: RUN = ["--device", "cuda:1", "--mixup", "0.8", "--smoothing", "0.1", "--base_rate", "0.7"] -> RUN = ["--device", "cuda", "--mixup", "0.8",
#   "--smoothing", "0.1", "--base_rate", "0.7"]
import argparse

import torch

from dyvit import VisionTransformerDiffPruning
from engine import train_one_epoch
from losses import DiffPruningLoss, SoftTargetCrossEntropy
from mixup import Mixup

RUN = ["--device", "cuda:1", "--mixup", "0.8", "--smoothing", "0.1", "--base_rate", "0.7"]


def get_args_parser():
    parser = argparse.ArgumentParser("Dynamic training script")
    parser.add_argument("--batch_size", default=4, type=int)
    parser.add_argument("--epochs", default=2, type=int)
    parser.add_argument("--lr", default=2e-3, type=float)
    parser.add_argument("--base_rate", default=0.9, type=float)
    parser.add_argument("--mixup", default=0.0, type=float, help="mixup alpha, mixup enabled if > 0.")
    parser.add_argument("--smoothing", default=0.1, type=float, help="Label smoothing")
    parser.add_argument("--nb_classes", default=5, type=int)
    parser.add_argument("--device", default="cuda", help="device to use for training / testing")
    parser.add_argument("--seed", default=0, type=int)
    return parser


def build_dataset(args, length=16):
    draw = torch.Generator().manual_seed(args.seed)
    images = torch.randn(length, 3, 16, 16, generator=draw)
    return torch.utils.data.TensorDataset(images, torch.randint(0, args.nb_classes, (length,), generator=draw))


def main(args):
    device = torch.device(args.device)
    torch.manual_seed(args.seed)
    data_loader_train = torch.utils.data.DataLoader(build_dataset(args), batch_size=args.batch_size)

    mixup_fn = None
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=args.smoothing)
    if args.mixup > 0:
        mixup_fn = Mixup(args.mixup, label_smoothing=args.smoothing, num_classes=args.nb_classes, seed=args.seed)
        criterion = SoftTargetCrossEntropy()

    model = VisionTransformerDiffPruning(num_classes=args.nb_classes, token_ratio=args.base_rate)
    model.to(device)
    criterion = DiffPruningLoss(criterion, keep_ratio=args.base_rate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        loss, kept = train_one_epoch(model, criterion, data_loader_train, optimizer, device, mixup_fn)
        print("epoch %d loss %.4f kept %.4f" % (epoch, loss, kept))


if __name__ == "__main__":
    main(get_args_parser().parse_args(RUN))
# --- engine.py
def train_one_epoch(model, criterion, data_loader, optimizer, device, mixup_fn=None):
    model.train()
    total, kept = 0.0, 0.0
    for samples, targets in data_loader:
        samples = samples.to(device, non_blocking=True)
        targets = targets.to(device, non_blocking=True)
        if mixup_fn is not None:
            samples, targets = mixup_fn(samples, targets)
        output, scores = model(samples)
        loss = criterion((output, scores), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        kept += scores.mean().item()
    return total / len(data_loader), kept / len(data_loader)
# --- mixup.py
import numpy as np
import torch


def one_hot(x, num_classes, on_value=1., off_value=0., device='cuda'):
    x = x.long().view(-1, 1)
    return torch.full((x.size()[0], num_classes), off_value, device=device).scatter_(1, x, on_value)


def mixup_target(target, num_classes, lam=1., smoothing=0.0, device='cuda'):
    off_value = smoothing / num_classes
    on_value = 1. - smoothing + off_value
    y1 = one_hot(target, num_classes, on_value=on_value, off_value=off_value, device=device)
    y2 = one_hot(target.flip(0), num_classes, on_value=on_value, off_value=off_value, device=device)
    return y1 * lam + y2 * (1. - lam)


class Mixup:
    """Mixes a batch with itself, last picture first.

    Args:
        mixup_alpha (float): mixup alpha value, mixup is active if > 0.
        label_smoothing (float): apply label smoothing to the mixed target tensor
        num_classes (int): number of classes for target
    """

    def __init__(self, mixup_alpha=1., label_smoothing=0.1, num_classes=1000, seed=0):
        self.mixup_alpha = mixup_alpha
        self.label_smoothing = label_smoothing
        self.num_classes = num_classes
        self.rng = np.random.default_rng(seed)

    def __call__(self, x, target):
        assert len(x) % 2 == 0, 'Batch size should be even when using this'
        lam = float(self.rng.beta(self.mixup_alpha, self.mixup_alpha))
        x = x * lam + x.flip(0) * (1. - lam)
        target = mixup_target(target, self.num_classes, lam, self.label_smoothing)
        return x, target
# --- losses.py
import torch
import torch.nn.functional as F


class SoftTargetCrossEntropy(torch.nn.Module):
    def forward(self, x, target):
        return torch.sum(-target * F.log_softmax(x, dim=-1), dim=-1).mean()


class DiffPruningLoss(torch.nn.Module):
    def __init__(self, base_criterion, keep_ratio, ratio_weight=2.0):
        super().__init__()
        self.base_criterion = base_criterion
        self.keep_ratio = keep_ratio
        self.ratio_weight = ratio_weight

    def forward(self, outputs, labels):
        pred, scores = outputs
        pred_loss = ((scores.mean(1) - self.keep_ratio) ** 2).mean()
        return self.base_criterion(pred, labels) + self.ratio_weight * pred_loss
# --- dyvit.py
import torch
import torch.nn as nn


class PredictorLG(nn.Module):
    """How much of each patch is wanted further on."""

    def __init__(self, embed_dim):
        super().__init__()
        self.in_conv = nn.Sequential(nn.LayerNorm(embed_dim), nn.Linear(embed_dim, embed_dim), nn.GELU())
        self.out_conv = nn.Linear(2 * embed_dim, 1)

    def forward(self, x):
        local_x = self.in_conv(x)
        global_x = local_x.mean(dim=1, keepdim=True).expand_as(local_x)
        return self.out_conv(torch.cat([local_x, global_x], dim=-1)).sigmoid().squeeze(-1)


class VisionTransformerDiffPruning(nn.Module):
    def __init__(self, num_classes, token_ratio, embed_dim=16, patch_size=4):
        super().__init__()
        self.token_ratio = token_ratio
        self.patch_embed = nn.Conv2d(3, embed_dim, patch_size, patch_size)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(embed_dim, 2, 32, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.score_predictor = PredictorLG(embed_dim)
        self.head = nn.Linear(embed_dim, num_classes)

    def forward(self, x):
        x = self.blocks[0](self.patch_embed(x).flatten(2).transpose(1, 2))
        scores = self.score_predictor(x)
        keep = scores.topk(int(self.token_ratio * x.shape[1]), dim=1).indices
        x = (x * scores.unsqueeze(-1)).gather(1, keep.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
        return self.head(self.blocks[1](x).mean(dim=1)), scores

# === great_or_terrible_at_the_mask
# thread: https://github.com/thunlp/OpenPrompt/pull/161
# about: a review is put into a sentence with a gap, and a language model says what word it would write there. Which card the model is on the script says; what
#   goes in travels as one object
# operation: index_select|embedding on cuda:1, cuda:0
# operands: index|indices|input_ids
# category: default-or-current-device|input-not-moved
# line: utils.py: return self.to("cuda:0")
# line: utils.py: def cuda(self):
# line: main.py: inputs = inputs.cuda()
# line: main.py: prompt_model = prompt_model.cuda(gpu)
# line: main.py: gpu = torch.cuda.device_count() - 1
# repair: utils.py: def cuda(self): -> def cuda(self, device="cuda:0"):
# repair: utils.py: return self.to("cuda:0") -> return self.to(device)
# repair: main.py: inputs = inputs.cuda() -> inputs = inputs.cuda(gpu)
# %% In this scripts, you will learn
# 1. how to use openprompt's template and verbalizer,
# 2. how to train a prompt model with few examples
import torch

from data_loader import PromptDataLoader
from pipeline_base import PromptForClassification
from plm import load_plm
from prompts import ManualTemplate, ManualVerbalizer
from utils import InputExample

dataset = {
    "train": [
        InputExample(guid=0, text_a="albert ate all of it", label=1),
        InputExample(guid=1, text_a="the soup was cold", label=0),
        InputExample(guid=2, text_a="we all loved the soup", label=1),
        InputExample(guid=3, text_a="it was cold and late", label=0),
    ],
    "validation": [
        InputExample(guid=4, text_a="the soup was late", label=0),
        InputExample(guid=5, text_a="albert loved all of it", label=1),
    ],
}

# %% load the pre-trained language model
plm, tokenizer = load_plm("bert", seed=7)
template = ManualTemplate('{"placeholder":"text_a"} it was {"mask"}')
verbalizer = ManualVerbalizer(tokenizer, label_words=[["terrible", "cold"], ["great"]])

train_dataloader = PromptDataLoader(dataset["train"], template, tokenizer, max_seq_length=10, batch_size=2)
validation_dataloader = PromptDataLoader(dataset["validation"], template, tokenizer, max_seq_length=10, batch_size=2)

use_cuda = torch.cuda.is_available()
gpu = torch.cuda.device_count() - 1
prompt_model = PromptForClassification(plm=plm, verbalizer=verbalizer)
if use_cuda:
    prompt_model = prompt_model.cuda(gpu)


def batches(dataloader):
    for inputs in dataloader:
        if use_cuda:
            inputs = inputs.cuda()
        yield inputs


# %% below is standard training
loss_func = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(prompt_model.parameters(), lr=5e-3)
for epoch in range(5):
    tot_loss = 0
    for step, inputs in enumerate(batches(train_dataloader)):
        logits = prompt_model(inputs)
        loss = loss_func(logits, inputs["label"])
        loss.backward()
        tot_loss += loss.item()
        optimizer.step()
        optimizer.zero_grad()
    print("Epoch {}, average loss: {:.4f}".format(epoch, tot_loss / (step + 1)))

# %% evaluate
probs = torch.cat([prompt_model(inputs).softmax(-1)[:, 1] for inputs in batches(validation_dataloader)])
print([round(prob, 4) for prob in probs.tolist()])
# --- utils.py
from dataclasses import dataclass

import torch


@dataclass
class InputExample:
    guid: int
    text_a: str
    label: int = None


class InputFeatures(dict):
    """What a batch is made of, all by its name."""

    tensorable_keys = ["input_ids", "attention_mask", "loss_ids", "label"]

    def to(self, device):
        """move the tensor keys to runtime device, such as gpu:0"""
        for key in self.tensorable_keys:
            value = self.get(key)
            if value is not None:
                self[key] = value.to(device)
        return self

    def cuda(self):
        """mimic the tensor behavior"""
        return self.to("cuda:0")

    @staticmethod
    def collate_fct(batch):
        keys = batch[0].keys()
        return InputFeatures({key: torch.tensor([features[key] for features in batch]) for key in keys})
# --- data_loader.py
from torch.utils.data import DataLoader

from utils import InputFeatures


class PromptDataLoader:
    def __init__(self, dataset, template, tokenizer, max_seq_length, batch_size):
        tensor_dataset = []
        for example in dataset:
            input_ids = [tokenizer[word] for word in template.wrap_one_example(example)]
            padding = [0] * (max_seq_length - len(input_ids))
            features = {
                "input_ids": input_ids + padding,
                "attention_mask": [1] * len(input_ids) + padding,
                "loss_ids": [int(token == tokenizer["[MASK]"]) for token in input_ids] + padding,
                "label": example.label,
            }
            tensor_dataset.append(features)
        self.dataloader = DataLoader(tensor_dataset, batch_size=batch_size, collate_fn=InputFeatures.collate_fct)

    def __iter__(self):
        return iter(self.dataloader)
# --- prompts.py
import ast
import re

import torch
from torch import nn


class ManualTemplate:
    def __init__(self, text):
        self.parts = [ast.literal_eval(part) if part[0] == "{" else part for part in re.findall(r"\{.*?\}|\w+", text)]

    def wrap_one_example(self, example):
        words = []
        for part in self.parts:
            if isinstance(part, str):
                words.append(part)
            elif "mask" in part:
                words.append("[MASK]")
            else:
                words += getattr(example, part["placeholder"]).split()
        return words


class ManualVerbalizer(nn.Module):
    """A class has several words; the gap's logits are averaged over them."""

    def __init__(self, tokenizer, label_words):
        super().__init__()
        weights = torch.zeros(len(tokenizer), len(label_words))
        for label, words in enumerate(label_words):
            for word in words:
                weights[tokenizer[word], label] = 1 / len(words)
        self.register_buffer("label_words_mask", weights)

    def forward(self, logits):
        return logits @ self.label_words_mask
# --- plm.py
import torch
from torch import nn

VOCABULARY = "[PAD] [MASK] it was great terrible albert ate all of the soup cold we loved and late".split()


class MaskedLM(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.cls = nn.Linear(width, vocabulary)

    def forward(self, input_ids, attention_mask):
        hidden = self.word_embeddings(input_ids) * attention_mask.unsqueeze(-1)
        return self.cls(self.encoder(hidden)[0])


def load_plm(model_name, seed, width=16):
    torch.manual_seed(seed)
    tokenizer = {word: index for index, word in enumerate(VOCABULARY)}
    return {"bert": MaskedLM}[model_name](len(VOCABULARY), width), tokenizer
# --- pipeline_base.py
import torch


class PromptForClassification(torch.nn.Module):
    def __init__(self, plm, verbalizer):
        super().__init__()
        self.plm = plm
        self.verbalizer = verbalizer

    def forward(self, batch):
        outputs = self.plm(batch["input_ids"], batch["attention_mask"])
        outputs_at_mask = outputs[torch.where(batch["loss_ids"] > 0)]
        return self.verbalizer(outputs_at_mask)

# === boxes_of_one_grid
# thread: https://github.com/WongKinYiu/PyTorch_YOLOv4/issues/296
# about: a detector read from a configuration learns boxes that are told against a handful of shapes. On a machine with more than one card a batch is divided
#   among them, and the loss is computed of what comes back
# operation: div on cuda:0, cpu
# operands: other|.*anchors.*
# category: state-not-registered|data-parallel
# line: utils/general.py: anchors = (model.module if multi_gpu else model).module_list[jj].anchor_vec
# line: utils/general.py: r = t[None, :, 4:6] / anchors[:, None]
# line: models/models.py: self.anchor_vec = self.anchors / self.stride
# line: models/models.py: self.anchors = torch.Tensor(anchors)
# repair: utils/general.py: anchors = (model.module if multi_gpu else model).module_list[jj].anchor_vec -> anchors = (model.module if multi_gpu else
#   model).module_list[jj].anchor_vec.to(targets.device)
import argparse

import torch

from models.models import Darknet
from utils.datasets import create_dataloader
from utils.general import compute_loss

CFG = [
    {"type": "convolutional", "filters": 8, "size": 3, "stride": 2},
    {"type": "convolutional", "filters": 16, "size": 3, "stride": 2},
    {"type": "convolutional", "filters": 21, "size": 1, "stride": 2},
    {"type": "yolo", "anchors": [[8, 8], [12, 18], [20, 10]], "classes": 2, "stride": 8},
]


def train(hyp, opt):
    torch.manual_seed(1)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = Darknet(CFG).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=hyp["lr0"], momentum=hyp["momentum"])

    # DP mode
    if device.type != "cpu" and torch.cuda.device_count() > 1:
        model = torch.nn.DataParallel(model)
    model.hyp = hyp
    model.train()

    for epoch in range(opt.epochs):
        for imgs, targets in create_dataloader(opt.batch_size, opt.img_size):
            imgs = imgs.to(device, non_blocking=True).float() / 255.0
            pred = model(imgs)
            loss, loss_items = compute_loss(pred, targets.to(device), model)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print("%g/%g " % (epoch, opt.epochs - 1) + "  ".join("%.3f" % item for item in loss_items.tolist()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--img-size", type=int, default=32)
    train({"lr0": 0.01, "momentum": 0.9, "anchor_t": 4.0, "box": 0.05, "obj": 1.0}, parser.parse_args())
# --- models/models.py
import torch
import torch.nn as nn


class YOLOLayer(nn.Module):
    def __init__(self, anchors, nc, stride):
        super(YOLOLayer, self).__init__()
        self.anchors = torch.Tensor(anchors)
        self.stride = stride  # layer stride
        self.na = len(anchors)  # number of anchors (3)
        self.no = nc + 5  # number of outputs
        self.nx, self.ny = 0, 0  # initialize number of x, y gridpoints
        self.anchor_vec = self.anchors / self.stride

    def create_grids(self, ng, device):
        self.nx, self.ny = ng  # x and y grid size
        if not self.training:
            yv, xv = torch.meshgrid(torch.arange(self.ny, device=device), torch.arange(self.nx, device=device), indexing="ij")
            self.grid = torch.stack((xv, yv), 2).view((1, 1, self.ny, self.nx, 2)).float()
        self.anchor_vec = self.anchor_vec.to(device)

    def forward(self, p):
        bs, _, ny, nx = p.shape
        if (self.nx, self.ny) != (nx, ny):
            self.create_grids((nx, ny), p.device)
        p = p.view(bs, self.na, self.no, ny, nx).permute(0, 1, 3, 4, 2).contiguous()  # prediction
        if self.training:
            return p
        io = p.sigmoid()
        io[..., :2] = (io[..., :2] * 2. - 0.5 + self.grid) * self.stride
        io[..., 2:4] = (io[..., 2:4] * 2) ** 2 * self.anchor_vec.view(1, self.na, 1, 1, 2) * self.stride
        return io.view(bs, -1, self.no)


def create_modules(module_defs):
    module_list, filters = nn.ModuleList(), 3
    for mdef in module_defs:
        if mdef["type"] == "convolutional":
            k = mdef["size"]
            module_list.append(nn.Conv2d(filters, mdef["filters"], k, mdef["stride"], padding=k // 2))
            filters = mdef["filters"]
        elif mdef["type"] == "yolo":
            module_list.append(YOLOLayer(mdef["anchors"], mdef["classes"], mdef["stride"]))
    return module_list


class Darknet(nn.Module):
    def __init__(self, cfg):
        super(Darknet, self).__init__()
        self.module_list = create_modules(cfg)
        self.yolo_layers = [i for i, m in enumerate(self.module_list) if isinstance(m, YOLOLayer)]

    def forward(self, x):
        yolo_out = []
        for module in self.module_list:
            if isinstance(module, YOLOLayer):
                yolo_out.append(module(x))
            else:
                x = torch.relu(module(x)) if module.out_channels < 20 else module(x)
        return yolo_out
# --- utils/datasets.py
import torch


def create_dataloader(batch_size, img_size, batches=3):
    draw = torch.Generator().manual_seed(2)
    for _ in range(batches):
        imgs = torch.randint(0, 256, (batch_size, 3, img_size, img_size), generator=draw, dtype=torch.uint8)
        targets = torch.rand(batch_size, 6, generator=draw) * 0.5 + 0.25
        targets[:, 0] = torch.arange(batch_size)  # image
        targets[:, 1] = (targets[:, 1] > 0.5).float()  # class
        yield imgs, targets
# --- utils/general.py
import torch
import torch.nn as nn


def is_parallel(model):
    return type(model) in (nn.parallel.DataParallel, nn.parallel.DistributedDataParallel)


def compute_loss(p, targets, model):  # predictions, targets, model
    device = targets.device
    lbox, lobj = torch.zeros(1, device=device), torch.zeros(1, device=device)
    tbox, indices, anchors = build_targets(p, targets, model)
    for i, pi in enumerate(p):  # layer index, layer predictions
        b, a, gj, gi = indices[i]
        tobj = torch.zeros_like(pi[..., 0])
        if len(b):
            ps = pi[b, a, gj, gi]
            pxy = ps[:, :2].sigmoid() * 2. - 0.5
            pwh = (ps[:, 2:4].sigmoid() * 2) ** 2 * anchors[i]
            lbox += (torch.cat((pxy, pwh), 1) - tbox[i]).abs().mean()
            tobj[b, a, gj, gi] = 1.0
        lobj += nn.functional.binary_cross_entropy_with_logits(pi[..., 4], tobj)
    lbox, lobj = lbox * model.hyp["box"], lobj * model.hyp["obj"]
    loss = lbox + lobj
    return loss * len(p[0]), torch.cat((lbox, lobj, loss)).detach()


def build_targets(p, targets, model):
    tbox, indices, anch = [], [], []
    gain = torch.ones(6, device=targets.device)
    multi_gpu = is_parallel(model)
    for i, jj in enumerate((model.module if multi_gpu else model).yolo_layers):
        # get number of grid points and anchor vec for this yolo layer
        anchors = (model.module if multi_gpu else model).module_list[jj].anchor_vec
        gain[2:] = torch.tensor(p[i].shape)[[3, 2, 3, 2]]  # xyxy gain

        # Match targets to anchors
        t = targets * gain
        na = anchors.shape[0]  # number of anchors
        at = torch.arange(na, device=targets.device).view(na, 1).repeat(1, len(t))
        r = t[None, :, 4:6] / anchors[:, None]  # wh ratio
        j = torch.max(r, 1. / r).max(2)[0] < model.hyp["anchor_t"]  # compare
        a, t = at[j], t.repeat(na, 1, 1)[j]  # filter

        # Define
        b = t[:, 0].long()  # image
        gxy, gwh = t[:, 2:4], t[:, 4:6]
        gij = gxy.long()
        gi, gj = gij.T
        indices.append((b, a, gj, gi))
        tbox.append(torch.cat((gxy - gij, gwh), 1))
        anch.append(anchors[a])
    return tbox, indices, anch
