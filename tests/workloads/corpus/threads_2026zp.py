# === a_layer_that_is_on_two_gpus
# thread: https://github.com/zai-org/CogVLM2/issues/32
# about: a model that sees and talks is shared out between two GPUs, by how much each has room for. Which kinds of layers are not to be cut is told by their names
# operation: add on cuda:0, cuda:1
# operands: other|mlp_output|self|mlp_input
# category: module-split
# line: cli_demo_multi_gpus.py: no_split_module_classes=[
# line: visual.py: output = mlp_input + mlp_output
# repair: cli_demo_multi_gpus.py: no_split_module_classes=["CogVLMDecoderLayer"], -> no_split_module_classes=["CogVLMDecoderLayer", "TransformerLayer"],
import torch

from cli_demo_multi_gpus import load_model
from configuration_cogvlm import CogVLMConfig

HISTORY = [3, 7, 1]


@torch.no_grad()
def answer(model, image, query, max_new_tokens=4):
    ids = torch.tensor([query])
    for _ in range(max_new_tokens):
        logits = model(ids, image)
        ids = torch.cat([ids, logits[:, -1:].argmax(-1).to(ids.device)], dim=1)
    return ids[0, len(query) :].tolist()


if __name__ == "__main__":
    torch.manual_seed(32)
    model = load_model(CogVLMConfig())
    image = torch.rand(1, 4, 6, generator=torch.Generator().manual_seed(1))
    print("CogVLM2:", answer(model, image, HISTORY))
# --- configuration_cogvlm.py
from dataclasses import dataclass


@dataclass
class CogVLMConfig:
    vocab_size: int = 24
    hidden_size: int = 16
    intermediate_size: int = 48
    num_hidden_layers: int = 3
    patch_dim: int = 6
    vision_layers: int = 3
# --- visual.py
from torch import nn


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x):
        return self.fc2(nn.functional.gelu(self.fc1(x)))


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x):
        q, k, v = self.query_key_value(x).chunk(3, dim=-1)
        return self.dense(nn.functional.scaled_dot_product_attention(q, k, v))


class TransformerLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(config.hidden_size)
        self.attention = Attention(config)
        self.mlp = MLP(config)
        self.post_attention_layernorm = nn.LayerNorm(config.hidden_size)

    def forward(self, hidden_states):
        attention_input = hidden_states
        attention_output = self.input_layernorm(self.attention(attention_input))
        hidden_states = attention_input + attention_output
        mlp_input = hidden_states
        mlp_output = self.post_attention_layernorm(self.mlp(mlp_input))
        output = mlp_input + mlp_output
        return output


class EVA2CLIPModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.patch_embedding = nn.Linear(config.patch_dim, config.hidden_size)
        self.transformer = nn.ModuleList(TransformerLayer(config) for _ in range(config.vision_layers))
        self.linear_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, images):
        x = self.patch_embedding(images)
        for layer in self.transformer:
            x = layer(x)
        return self.linear_proj(x)
# --- modeling_cogvlm.py
import torch
from torch import nn

from visual import EVA2CLIPModel


class CogVLMDecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(config.hidden_size)
        self.self_attn = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.mlp = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_states):
        q, k, v = self.self_attn(self.input_layernorm(hidden_states)).chunk(3, dim=-1)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return hidden_states + self.mlp(attended)


class CogVLMForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.vision = EVA2CLIPModel(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(CogVLMDecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids, images):
        features = self.vision(images)
        words = self.embed_tokens(input_ids)
        hidden_states = torch.cat([features.to(words.device), words], dim=1)
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        return self.lm_head(hidden_states)
# --- cli_demo_multi_gpus.py
import torch
from accelerate import dispatch_model, infer_auto_device_map

from modeling_cogvlm import CogVLMForCausalLM


def load_model(config, max_memory_per_gpu="34KB"):
    model = CogVLMForCausalLM(config).eval()
    num_gpus = torch.cuda.device_count()
    if num_gpus < 2:
        return model
    device_map = infer_auto_device_map(
        model=model,
        max_memory={i: max_memory_per_gpu for i in range(num_gpus)},
        no_split_module_classes=["CogVLMDecoderLayer"],
    )
    return dispatch_model(model, device_map=device_map)

# === a_face_beside_a_prompt
# thread: https://github.com/instantX-research/InstantID/pull/205
# about: parts of a pipeline wait in RAM, and a hook fetches each when it is called. What makes tokens of a face is a part of its own, of which the hooks are not told
# operation: cat on cuda:0, cpu
# operands: tensors|.*image_emb.*
# category: module-split|input-not-moved
# line: pipeline_instantid.py: return self.image_proj_model(
# line: pipeline_instantid.py: prompt_image_emb = self._encode_prompt_image_emb(
# line: pipeline_instantid.py: encoder_hidden_states = torch.cat(
# repair: pipeline_instantid.py: return self.image_proj_model(prompt_image_emb) -> return self.image_proj_model(prompt_image_emb).to(device)
import argparse

import torch

from pipeline_instantid import StableDiffusionXLInstantIDPipeline

parser = argparse.ArgumentParser()
parser.add_argument("--prompt", default="film noir style, ink sketch")
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--guidance", type=float, default=2.0)
parser.add_argument("--no-offload", action="store_true")
args = parser.parse_args()

torch.manual_seed(5)
pipe = StableDiffusionXLInstantIDPipeline(width=8)
pipe.load_ip_adapter_instantid(image_emb_dim=10, num_tokens=2)
if torch.cuda.is_available():
    if args.no_offload:
        pipe.to("cuda")
    else:
        pipe.enable_model_cpu_offload()
face_emb = torch.rand(10, generator=torch.Generator().manual_seed(2)).numpy()
image = pipe(args.prompt, image_embeds=face_emb, num_inference_steps=args.steps, guidance_scale=args.guidance)
print("image", [round(value, 4) for value in image.flatten().tolist()[:6]])
# --- diffusion_pipeline.py
import torch
from accelerate import cpu_offload_with_hook


class DiffusionPipeline:
    model_cpu_offload_seq = None

    def register_modules(self, **modules):
        self.components = modules
        for name, module in modules.items():
            setattr(self, name, module.eval())

    def to(self, device):
        for module in vars(self).values():
            if isinstance(module, torch.nn.Module):
                module.to(device)
        return self

    def enable_model_cpu_offload(self, device="cuda:0"):
        self._offload_device, hook = torch.device(device), None
        self._all_hooks = []
        modules = [self.components[name] for name in self.model_cpu_offload_seq.split("->")]
        for module in modules:
            _, hook = cpu_offload_with_hook(module, device, prev_module_hook=hook)
            self._all_hooks.append(hook)

    def maybe_free_model_hooks(self):
        for hook in getattr(self, "_all_hooks", ()):
            hook.offload()

    @property
    def _execution_device(self):
        offload_device = getattr(self, "_offload_device", None)
        return offload_device or next(self.unet.parameters()).device
# --- resampler.py
import torch
from torch import nn


class Resampler(nn.Module):
    """A few tokens look at what is known of a face."""

    def __init__(self, embedding_dim, dim, num_queries):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(1, num_queries, dim) / dim**0.5)
        self.proj_in = nn.Linear(embedding_dim, dim)
        self.to_kv = nn.Linear(dim, 2 * dim)
        self.norm_out = nn.LayerNorm(dim)

    def forward(self, x):
        latents = self.latents.expand(len(x), -1, -1)
        k, v = self.to_kv(self.proj_in(x)).chunk(2, dim=-1)
        return self.norm_out(latents + nn.functional.scaled_dot_product_attention(latents, k, v))
# --- models.py
from torch import nn


class TextEncoder(nn.Module):
    def __init__(self, width, vocabulary=40):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.vocabulary = vocabulary

    def tokenize(self, prompt):
        return [sum(map(ord, word)) % self.vocabulary for word in prompt.split()] or [0]

    def forward(self, ids):
        return self.embed(ids)


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.to_kv = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, latents, encoder_hidden_states):
        k, v = self.to_kv(encoder_hidden_states).chunk(2, dim=-1)
        return self.out(latents + nn.functional.scaled_dot_product_attention(latents, k, v))
# --- pipeline_instantid.py
import torch
from torch import nn

from diffusion_pipeline import DiffusionPipeline
from models import TextEncoder, UNet
from resampler import Resampler


class StableDiffusionXLInstantIDPipeline(DiffusionPipeline):
    model_cpu_offload_seq = "text_encoder->unet->vae"

    def __init__(self, width):
        self.width = width
        self.register_modules(text_encoder=TextEncoder(width), unet=UNet(width), vae=nn.Linear(width, 3))

    def load_ip_adapter_instantid(self, image_emb_dim, num_tokens):
        self.image_proj_model = Resampler(embedding_dim=image_emb_dim, dim=self.width, num_queries=num_tokens).eval()

    def _encode_prompt_image_emb(self, image_embeds, device, do_classifier_free_guidance):
        prompt_image_emb = torch.as_tensor(image_embeds).reshape(1, 1, -1)
        if do_classifier_free_guidance:
            prompt_image_emb = torch.cat([torch.zeros_like(prompt_image_emb), prompt_image_emb], dim=0)
        prompt_image_emb = prompt_image_emb.to(device=self.image_proj_model.latents.device)
        return self.image_proj_model(prompt_image_emb)

    @torch.no_grad()
    def __call__(self, prompt, image_embeds, num_inference_steps, guidance_scale):
        device = self._execution_device
        ids = torch.tensor([self.text_encoder.tokenize(prompt)], device=device)
        prompt_embeds = self.text_encoder(ids)
        prompt_embeds = torch.cat([torch.zeros_like(prompt_embeds), prompt_embeds], dim=0)
        prompt_image_emb = self._encode_prompt_image_emb(image_embeds, device, do_classifier_free_guidance=True)
        encoder_hidden_states = torch.cat([prompt_embeds, prompt_image_emb], dim=1)
        latents = torch.randn(1, 4, self.width, generator=torch.Generator().manual_seed(0)).to(device)
        for _ in range(num_inference_steps):
            noise_pred = self.unet(torch.cat([latents] * 2), encoder_hidden_states)
            uncond, text = noise_pred.chunk(2)
            latents = latents - 0.2 * (uncond + guidance_scale * (text - uncond))
        image = self.vae(latents).cpu()
        self.maybe_free_model_hooks()
        return image

# === cells_as_they_might_have_been
# thread: https://github.com/nitzanlab/biolord/issues/14
# about: a model that was trained on the GPU is read from a folder, and tells what cells would look like with another attribute. What is asked is put where work is done
# operation: embedding|index_select on cpu, cuda:0
# operands: self|weight|.*embed.*
# category: default-or-current-device|module-split|input-not-moved
# line: biolord_model.py: device = get_device(
# line: biolord_model.py: tensors = {
# line: biolord_model.py: return model
# repair: biolord_model.py: return model -> model.module.to(get_device("auto")); return model
import tempfile
from pathlib import Path

import numpy as np
import torch

from anndata_like import Cells
from biolord_model import Biolord


def main():
    torch.manual_seed(16)
    adata = Cells.draw(count=20, genes=6, seed=4)
    model = Biolord(adata, n_latent=4)
    model.train(max_epochs=4, accelerator="auto")
    with tempfile.TemporaryDirectory() as folder:
        dir_path = Path(folder) / "model"
        model.save(dir_path)
        model = Biolord.load(dir_path, adata)
    idx_source = np.where(adata.obs["split"] == "Training")[0]
    preds = model.compute_prediction_adata(adata.subset(idx_source[:5]), target_attributes=["cell_type"])
    for cell_type, expression in preds.items():
        print(cell_type, round(float(expression.mean()), 4))


if __name__ == "__main__":
    main()
# --- anndata_like.py
from dataclasses import dataclass

import numpy as np

CELL_TYPES = ["B", "NK", "T"]


@dataclass
class Cells:
    X: np.ndarray
    obs: dict

    @classmethod
    def draw(cls, count, genes, seed):
        rng = np.random.default_rng(seed)
        kinds = rng.integers(0, len(CELL_TYPES), count)
        X = rng.normal(kinds[:, None], 0.3, (count, genes)).astype(np.float32)
        split = np.where(rng.random(count) < 0.8, "Training", "Test")
        return cls(X, {"cell_type": kinds, "split": split, "index": np.arange(count)})

    def subset(self, rows):
        return Cells(self.X[rows].copy(), {name: column[rows] for name, column in self.obs.items()})

    def __len__(self):
        return len(self.X)
# --- devices.py
import torch


def get_device(accelerator="auto"):
    if accelerator == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda:0")
# --- module.py
import torch
from torch import nn


class BiolordModule(nn.Module):
    """What is known of a cell, and what is its own, together make its genes."""

    def __init__(self, n_cells, n_types, n_latent, n_genes):
        super().__init__()
        self.latent_codes = nn.Embedding(n_cells, n_latent)
        self.categorical_embeddings = nn.ModuleDict({"cell_type": nn.Embedding(n_types, n_latent)})
        self.decoder = nn.Sequential(nn.Linear(2 * n_latent, 8), nn.ReLU(), nn.Linear(8, n_genes))

    def get_expression(self, tensors):
        own = self.latent_codes(tensors["index"])
        known = self.categorical_embeddings["cell_type"](tensors["cell_type"])
        return self.decoder(torch.cat([own, known], dim=-1))
# --- biolord_model.py
import json

import torch

from anndata_like import CELL_TYPES
from devices import get_device
from module import BiolordModule


class Biolord:
    def __init__(self, adata, n_latent):
        self.adata, self.init_params = adata, {"n_latent": n_latent}
        self.module = BiolordModule(len(adata), len(CELL_TYPES), n_latent, adata.X.shape[1])

    def train(self, max_epochs, accelerator="auto"):
        device = get_device(accelerator)
        self.module.to(device).train()
        tensors = {name: torch.as_tensor(self.adata.obs[name]).to(device) for name in ("index", "cell_type")}
        X = torch.from_numpy(self.adata.X).to(device)
        optimizer = torch.optim.Adam(self.module.parameters(), lr=0.02, foreach=False)
        for _ in range(max_epochs):
            loss = (self.module.get_expression(tensors) - X).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def save(self, dir_path):
        dir_path.mkdir()
        torch.save(self.module.state_dict(), dir_path / "model.pt")
        (dir_path / "init_params.json").write_text(json.dumps(self.init_params))

    @classmethod
    def load(cls, dir_path, adata):
        model = cls(adata, **json.loads((dir_path / "init_params.json").read_text()))
        state_dict = torch.load(dir_path / "model.pt", map_location="cpu", weights_only=True)
        model.module.load_state_dict(state_dict)
        return model

    @torch.no_grad()
    def compute_prediction_adata(self, source, target_attributes):
        self.module.eval()
        device = get_device("auto")
        predictions = {}
        for attribute in target_attributes:
            for number, name in enumerate(CELL_TYPES):
                asked = {"index": torch.as_tensor(source.obs["index"]), attribute: torch.full((len(source),), number)}
                tensors = {key: value.to(device) for key, value in asked.items()}
                predictions[name] = self.module.get_expression(tensors).cpu().numpy()
        return predictions

# === rounded_as_it_will_be
# thread: https://github.com/pytorch/pytorch/pull/127783
# about: what flows between a network's layers is rounded to eight bits, to see what that costs. What rounds is put behind the layers of a network that is on the GPU
# operation: fake_quantize.* on cuda:0, cpu
# operands: scale|zero_point|.*scale.*
# category: created-without-device|module-split
# line: prepare.py: observer = qconfig.activation()
# line: main.py: prepared = prepare(
# repair: prepare.py: observer = qconfig.activation() -> observer = qconfig.activation().to(next(model.parameters()).device)
import torch

from calibrate import calibrate, error_of
from model import TinyMobileNet, images
from prepare import prepare
from qconfig import get_symmetric_qconfig

torch.manual_seed(27)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = TinyMobileNet(num_classes=3).to(device).eval()
reference = [model(batch.to(device)) for batch in images(count=2, seed=1)]
prepared = prepare(model, get_symmetric_qconfig(bits=8, averaging_constant=0.1))
calibrate(prepared, images(count=4, seed=2), device)
print("ranges", prepared.ranges(), "error", round(error_of(prepared, reference, images(count=2, seed=1), device), 4))
# --- qconfig.py
from functools import partial

import torch
from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver, QConfig


def get_symmetric_qconfig(bits, averaging_constant):
    quant_min, quant_max = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    shared = dict(quant_min=quant_min, quant_max=quant_max, dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
    activation = partial(
        FakeQuantize,
        observer=MovingAverageMinMaxObserver,
        averaging_constant=averaging_constant,
        **shared,
    )
    weight = partial(FakeQuantize, observer=MovingAverageMinMaxObserver, **shared)
    return QConfig(activation=activation, weight=weight)
# --- model.py
import torch
from torch import nn


def images(count, seed):
    draw = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield torch.rand(2, 3, 6, 6, generator=draw)


class ConvReLU(nn.Module):
    def __init__(self, inputs, outputs, groups=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, groups=groups)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.conv(x))


class TinyMobileNet(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.features = nn.Sequential(ConvReLU(3, 4), ConvReLU(4, 4, groups=4), ConvReLU(4, 6))
        self.classifier = nn.Linear(6, num_classes)

    @torch.no_grad()
    def forward(self, x):
        return self.classifier(self.features(x).mean(dim=(2, 3)))
# --- prepare.py
import copy

from torch import nn
from torch.ao.quantization import FakeQuantize

from model import ConvReLU


class Observed(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.activation_post_process(self.module(x))


class Prepared(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def observers(self):
        return [module for module in self.model.modules() if isinstance(module, FakeQuantize)]

    def ranges(self):
        ends = [each.activation_post_process for each in self.observers()]
        return [(round(each.min_val.item(), 3), round(each.max_val.item(), 3)) for each in ends]

    def forward(self, x):
        return self.model(x)


def prepare(model, qconfig):
    """A copy of the model, with what observes and rounds behind each of its layers."""
    model = copy.deepcopy(model)
    names = [name for name, module in model.named_modules() if isinstance(module, (ConvReLU, nn.Linear))]
    for name in names:
        parent_name, _, child = name.rpartition(".")
        parent = model.get_submodule(parent_name)
        observed = Observed(model.get_submodule(name))
        observer = qconfig.activation()
        observed.add_module("activation_post_process", observer)
        parent.add_module(child, observed)
    return Prepared(model)
# --- calibrate.py
import torch
from torch.ao.quantization import disable_observer


def calibrate(prepared, batches, device):
    for batch in batches:
        prepared(batch.to(device))
    prepared.apply(disable_observer)


def error_of(prepared, reference, batches, device):
    differences = [(prepared(batch.to(device)) - wanted).abs().mean() for batch, wanted in zip(batches, reference)]
    return torch.stack(differences).mean().item()

# === is_what_was_saved_the_same
# thread: https://github.com/huggingface/diffusers/pull/10325
# about: beside a network, averages of its weights are kept. They are saved and read again, and looked at for whether they are the same as before
# operation: allclose|isclose|eq|sub|ne on cuda:0, cpu
# operands: other|loaded_param|.*shadow_params.*
# category: module-split|checkpoint|input-not-moved
# line: checkpoint.py: return EMAModel.from_pretrained(
# line: verify.py: if not torch.allclose(
# line: main.py: loaded = load_ema(
# repair: checkpoint.py: return EMAModel.from_pretrained(path, model_cls=TinyDenoiser) -> ema = EMAModel.from_pretrained(path, model_cls=TinyDenoiser); ema.to(device); return ema
import tempfile
from pathlib import Path

import torch
from diffusers.training_utils import EMAModel

from checkpoint import load_ema, save_ema
from denoiser import TinyDenoiser
from training import train
from verify import differing

torch.manual_seed(10)
torch_device = "cuda" if torch.cuda.is_available() else "cpu"
unet = TinyDenoiser(channels=4, hidden=8).to(torch_device)
ema_unet = EMAModel(
    unet.parameters(),
    decay=0.9,
    model_cls=TinyDenoiser,
    model_config=unet.config,
)
losses = train(unet, ema_unet, steps=4, device=torch_device)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "unet_ema"
    save_ema(ema_unet, path)
    loaded = load_ema(path, torch_device)
print("losses", losses, "differing", differing(ema_unet, loaded), "decay", loaded.decay)
# --- denoiser.py
import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.modeling_utils import ModelMixin
from torch import nn


class TinyDenoiser(ModelMixin, ConfigMixin):
    @register_to_config
    def __init__(self, channels: int = 4, hidden: int = 8):
        super().__init__()
        self.time_embedding = nn.Linear(1, hidden)
        self.conv_in = nn.Linear(channels, hidden)
        self.conv_out = nn.Linear(hidden, channels)

    def forward(self, sample, timestep):
        hidden = self.conv_in(sample) + self.time_embedding(timestep[:, None])
        return self.conv_out(nn.functional.silu(hidden))


def noisy_batch(draw, channels, batch_size=6):
    clean = torch.rand(batch_size, channels, generator=draw)
    noise = torch.randn(batch_size, channels, generator=draw)
    timestep = torch.rand(batch_size, generator=draw)
    return clean + timestep[:, None] * noise, noise, timestep
# --- training.py
import torch

from denoiser import noisy_batch


def train(unet, ema_unet, steps, device):
    draw = torch.Generator().manual_seed(3)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=0.01, foreach=False)
    losses = []
    for _ in range(steps):
        sample, noise, timestep = (each.to(device) for each in noisy_batch(draw, unet.config.channels))
        loss = torch.nn.functional.mse_loss(unet(sample, timestep), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema_unet.step(unet.parameters())
        losses.append(round(loss.item(), 4))
    return losses
# --- checkpoint.py
from diffusers.training_utils import EMAModel

from denoiser import TinyDenoiser


def save_ema(ema, path):
    ema.save_pretrained(path)


def load_ema(path, device):
    """Averages of an earlier run, to go on with on `device`."""
    return EMAModel.from_pretrained(path, model_cls=TinyDenoiser)
# --- verify.py
import torch


def differing(ema, loaded):
    """How many parameters are not what they were."""
    count = 0
    for original_param, loaded_param in zip(ema.shadow_params, loaded.shadow_params):
        if not torch.allclose(original_param, loaded_param):
            count += 1
    return count

# === slopes_with_few_digits
# thread: https://github.com/es-ude/elastic-ai.creator/issues/471
# about: a chip computes with numbers of few digits. In a training for it slopes are rounded, too, on the way back through a network, and kept in a range
# operation: clamp.*|minimum|maximum on cuda:0, cpu
# operands: min|max|.*minimum.*|.*maximum.*
# category: created-without-device|cached-state
# line: fixed_point_config.py: self.minimum = torch.tensor(
# line: fixed_point_config.py: self.maximum = torch.tensor(
# line: round_to_fixed_point.py: return torch.clamp(
# line: main.py: config = FixedPointConfigV2(
# repair: round_to_fixed_point.py: return torch.clamp(rounded, config.minimum, config.maximum) -> return torch.clamp(rounded, config.minimum.to(number.device), config.maximum.to(number.device))
import torch

from fixed_point_config import FixedPointConfigV2
from layers import QuantizedGradLinear
from sensor import readings

config = FixedPointConfigV2(num_int_bits=3, num_fract_bits=6)
device = torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")
torch.manual_seed(19)
model = torch.nn.Sequential(
    QuantizedGradLinear(5, 8, config),
    torch.nn.ReLU(),
    QuantizedGradLinear(8, 2, config),
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, foreach=False)
losses = []
for x, y in readings(batches=5, seed=6):
    loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
steps = model[0].weight.grad / config.step
print("losses", losses, "slopes are whole steps:", bool((steps == steps.round()).all()))
# --- sensor.py
import torch


def readings(batches, seed, size=6):
    draw = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        x = torch.randn(size, 5, generator=draw)
        yield x, (x.sum(1) > 0).long()
# --- fixed_point_config.py
import torch


class FixedPointConfigV2:
    """Numbers with so many bits before the point, and so many behind it."""

    def __init__(self, num_int_bits, num_fract_bits):
        self.num_int_bits, self.num_fract_bits = num_int_bits, num_fract_bits
        self.step = 2.0**-num_fract_bits
        self.minimum = torch.tensor([-(2.0 ** (num_int_bits - 1))])
        self.maximum = torch.tensor([2.0 ** (num_int_bits - 1) - self.step])

    def __repr__(self):
        return f"FixedPointConfigV2({self.num_int_bits}, {self.num_fract_bits})"
# --- round_to_fixed_point.py
import torch


def round_to_fixed_point(number, config):
    rounded = torch.round(number / config.step) * config.step
    return torch.clamp(rounded, config.minimum, config.maximum)
# --- autograd.py
import torch

from round_to_fixed_point import round_to_fixed_point


class QuantizeGrad(torch.autograd.Function):
    """Changes nothing on the way there, and rounds slopes on the way back."""

    @staticmethod
    def forward(ctx, x, config):
        ctx.config = config
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return round_to_fixed_point(grad_output, ctx.config), None


def quantize_grad(x, config):
    return QuantizeGrad.apply(x, config)
# --- layers.py
from torch import nn

from autograd import quantize_grad


class QuantizedGradLinear(nn.Linear):
    def __init__(self, in_features, out_features, config, bias=True):
        super().__init__(in_features, out_features, bias=bias)
        self.config = config

    def forward(self, x):
        weight = quantize_grad(self.weight, self.config)
        bias = None if self.bias is None else quantize_grad(self.bias, self.config)
        return nn.functional.linear(x, weight, bias)

    def extra_repr(self):
        return f"{super().extra_repr()}, config={self.config}"

# === a_text_learned_on_the_second_gpu
# thread: https://github.com/davmacario/MDI-LLM/issues/21
# about: a small language model is trained on a device that the command line tells. What is not told a device takes that of the settings, which is the first GPU
# operation: embedding|index_select on cuda:1, cuda:0
# operands: index|indices|input|pos|pos_embd
# category: default-or-current-device|created-without-device|input-not-moved
# line: model.py: pos = torch.arange(
# line: model.py: pos_embd = self.transformer.wpe(
# line: config.py: DEVICE = "cuda" if torch
# repair: model.py: pos = torch.arange(0, t, dtype=torch.long, device=DEVICE) -> pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
import argparse

import torch

from config import BATCH_SIZE, LEARNING_RATE, GPTConfig
from data_loader import CharacterTokenizer, get_batch, split_dataset
from model import GPT

TEXT = "to be or not to be that is the question whether it is nobler in the mind to suffer"


def parse_args():
    parser = argparse.ArgumentParser(description="Train a GPT on one of this machine's devices")
    parser.add_argument("--device", default="cuda:1" if torch.cuda.device_count() > 1 else "cpu")
    parser.add_argument("--max-iters", type=int, default=4)
    parser.add_argument("--ckpt-interval", type=int, default=2)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(10137)
    tokenizer = CharacterTokenizer(TEXT)
    train, val = split_dataset(tokenizer.encode(TEXT))
    model = GPT(GPTConfig(vocab_size=tokenizer.n_vocab)).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, foreach=False)
    draw = torch.Generator().manual_seed(1)
    for iteration in range(1, args.max_iters + 1):
        x, y = get_batch(train, BATCH_SIZE, args.device, model.config, draw)
        _, loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if iteration % args.ckpt_interval == 0:
            with torch.no_grad():
                _, val_loss = model(*get_batch(val, BATCH_SIZE, args.device, model.config, draw))
            print("iter", iteration, "train", round(loss.item(), 4), "val", round(val_loss.item(), 4))


if __name__ == "__main__":
    main()
# --- config.py
from dataclasses import dataclass

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BATCH_SIZE = 4
LEARNING_RATE = 0.01


@dataclass
class GPTConfig:
    vocab_size: int
    block_size: int = 8
    n_layer: int = 2
    n_embd: int = 12
# --- data_loader.py
import torch


class CharacterTokenizer:
    def __init__(self, text):
        self.characters = sorted(set(text))
        self.n_vocab = len(self.characters)

    def encode(self, text):
        return torch.tensor([self.characters.index(character) for character in text])


def split_dataset(data, frac_train=0.7):
    cut = int(frac_train * len(data))
    return data[:cut], data[cut:]


def get_batch(dataset, batch_size, device, config, draw):
    starts = torch.randint(len(dataset) - config.block_size, (batch_size,), generator=draw).tolist()
    x = torch.stack([dataset[i : i + config.block_size] for i in starts])
    y = torch.stack([dataset[i + 1 : i + 1 + config.block_size] for i in starts])
    return x.to(device), y.to(device)
# --- model.py
import torch
from torch import nn

from config import DEVICE


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        wide = 4 * config.n_embd
        self.mlp = nn.Sequential(nn.Linear(config.n_embd, wide), nn.GELU(), nn.Linear(wide, config.n_embd))

    def forward(self, x):
        q, k, v = self.c_attn(self.ln_1(x)).chunk(3, dim=-1)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(config.vocab_size, config.n_embd),
                wpe=nn.Embedding(config.block_size, config.n_embd),
                h=nn.ModuleList(Block(config) for _ in range(config.n_layer)),
                ln_f=nn.LayerNorm(config.n_embd),
            )
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def forward(self, idx, targets=None):
        _, t = idx.shape
        pos = torch.arange(0, t, dtype=torch.long, device=DEVICE)
        tok_embd = self.transformer.wte(idx)
        pos_embd = self.transformer.wpe(pos)
        x = tok_embd + pos_embd
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        if targets is None:
            return logits, None
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

# === what_pupils_know_by_now
# thread: https://github.com/hcnoh/knowledge-tracing-collection-pytorch/issues/8
# about: it is foretold which questions pupils will answer rightly. All tensors are made on the GPU by default, and pupils come in another order in each epoch
# operation: randperm|random_? on cuda:0
# operands: generator|.*
# error: Expected a 'cuda' device type for generator but found 'cpu'
# category: generator|default-or-current-device
# line: train.py: train_loader = DataLoader(
# line: train.py: torch.set_default_tensor_type(
# repair: train.py: train_loader = DataLoader(train_dataset, batch_size=config["batch_size"], shuffle=True, collate_fn=collate_fn) -> train_loader = DataLoader(train_dataset, batch_size=config["batch_size"], shuffle=True, collate_fn=collate_fn, generator=torch.Generator(device=device))
import argparse
import json

from train import main

CONFIG = json.loads(
    """
{
  "train_config": {"batch_size": 4, "num_epochs": 2, "train_ratio": 0.75, "learning_rate": 0.02, "optimizer": "adam"},
  "dkt": {"emb_size": 8, "hidden_size": 10},
  "dkt+": {"emb_size": 8, "hidden_size": 10, "lambda_r": 0.01}
}
"""
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_name", default="dkt", choices=["dkt", "dkt+"])
    parser.add_argument("--dataset_name", default="ASSIST2009")
    args = parser.parse_args()
    main(args.model_name, args.dataset_name, CONFIG["train_config"], CONFIG[args.model_name])
# --- assist2009.py
import numpy as np
from torch.utils.data import Dataset


class ASSIST2009(Dataset):
    """Which questions pupils were asked, and whether they answered them rightly."""

    def __init__(self, pupils=16, questions=6, seed=9):
        rng = np.random.default_rng(seed)
        self.num_q = questions
        self.q_seqs = [rng.integers(0, questions, rng.integers(4, 8)) for _ in range(pupils)]
        self.r_seqs = [(rng.random(len(q)) < 0.4 + 0.08 * q).astype(int) for q in self.q_seqs]

    def __getitem__(self, index):
        return self.q_seqs[index], self.r_seqs[index]

    def __len__(self):
        return len(self.q_seqs)


DATASETS = {"ASSIST2009": ASSIST2009}
# --- utils.py
import torch
from torch.nn.utils.rnn import pad_sequence


def collate_fn(batch, pad_val=-1):
    q_seqs = pad_sequence([torch.tensor(q[:-1]) for q, _ in batch], batch_first=True, padding_value=pad_val)
    r_seqs = pad_sequence([torch.tensor(r[:-1]) for _, r in batch], batch_first=True, padding_value=pad_val)
    qshft_seqs = pad_sequence([torch.tensor(q[1:]) for q, _ in batch], batch_first=True, padding_value=pad_val)
    rshft_seqs = pad_sequence([torch.tensor(r[1:]) for _, r in batch], batch_first=True, padding_value=pad_val)
    mask_seqs = qshft_seqs != pad_val
    return q_seqs * mask_seqs, r_seqs * mask_seqs, qshft_seqs * mask_seqs, rshft_seqs * mask_seqs, mask_seqs
# --- dkt.py
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy, one_hot


class DKT(nn.Module):
    def __init__(self, num_q, emb_size, hidden_size):
        super().__init__()
        self.num_q = num_q
        self.interaction_emb = nn.Embedding(num_q * 2, emb_size)
        self.mix = nn.Linear(emb_size, hidden_size)
        self.out_layer = nn.Linear(hidden_size, num_q)

    def forward(self, q, r):
        hidden = torch.tanh(self.mix(self.interaction_emb(q + self.num_q * r)).cumsum(1))
        return torch.sigmoid(self.out_layer(hidden))

    def train_model(self, train_loader, num_epochs, opt):
        losses = []
        for _ in range(num_epochs):
            for q, r, qshft, rshft, mask in train_loader:
                y = (self(q, r) * one_hot(qshft, self.num_q)).sum(-1)
                loss = binary_cross_entropy(y[mask], rshft[mask].to(y.dtype))
                opt.zero_grad()
                loss.backward()
                opt.step()
                losses.append(loss.item())
        return losses
# --- train.py
import warnings

import torch
from torch.utils.data import DataLoader, random_split

from assist2009 import DATASETS
from dkt import DKT
from utils import collate_fn

device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_default_tensor_type("torch.cuda.FloatTensor")


def main(model_name, dataset_name, config, model_config):
    torch.manual_seed(22)
    dataset = DATASETS[dataset_name]()
    model = DKT(dataset.num_q, model_config["emb_size"], model_config["hidden_size"]).to(device)
    train_size = int(len(dataset) * config["train_ratio"])
    sizes = [train_size, len(dataset) - train_size]
    train_dataset, _ = random_split(dataset, sizes, generator=torch.Generator(device=device).manual_seed(1))
    train_loader = DataLoader(train_dataset, batch_size=config["batch_size"], shuffle=True, collate_fn=collate_fn)
    opt = torch.optim.Adam(model.parameters(), lr=config["learning_rate"], foreach=False)
    losses = model.train_model(train_loader, config["num_epochs"], opt)
    print(model_name, dataset_name, len(losses), "steps, losses are finite:", all(loss < 10 for loss in losses))

# === curves_that_are_learned
# thread: https://github.com/KindXiaoming/pykan/pull/315
# about: a network learns the curves on its edges. It is told its device when it is made; what trains it has a device of its own, with a default, to take data to
# operation: ge on cpu, cuda:0
# operands: self|x|input
# category: default-or-current-device|input-not-moved
# line: kan.py: device = torch.device(device)
# line: kan.py: def fit(
# line: main.py: losses = model.fit(
# line: kan.py: x, y = dataset["train_input"]
# repair: kan.py: device = torch.device(device) -> device = self.device
import torch

from create_dataset import create_dataset
from kan import KAN

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(device.type)


def f(x):
    return torch.exp(torch.sin(3.1416 * x[:, [0]]) + x[:, [1]] ** 2)


dataset = create_dataset(f, n_var=2, train_num=40, test_num=10, device=device)
model = KAN(width=[2, 3, 1], grid=4, seed=0, device=device)
losses = model.fit(dataset, opt="Adam", steps=6, lamb=0.001)
model.eval()
with torch.no_grad():
    error = (model(dataset["test_input"]) - dataset["test_label"]).square().mean().sqrt()
print("losses", losses, "test error", round(error.item(), 4))
# --- create_dataset.py
import torch


def create_dataset(f, n_var, train_num, test_num, device, ranges=(-1, 1), seed=0):
    draw = torch.Generator().manual_seed(seed)
    low, high = ranges
    dataset = {}
    for part, count in (("train", train_num), ("test", test_num)):
        x = low + (high - low) * torch.rand(count, n_var, generator=draw)
        dataset[f"{part}_input"] = x.to(device)
        dataset[f"{part}_label"] = f(x).to(device)
    return dataset
# --- spline.py
import torch


def extend_grid(grid, k):
    step = grid[1] - grid[0]
    left = [grid[0] - (i + 1) * step for i in range(k)][::-1]
    right = [grid[-1] + (i + 1) * step for i in range(k)]
    return torch.stack([*left, *grid, *right])


def b_splines(x, grid, k):
    """How much each curve of the base has to say at x: (points, inputs, curves)."""
    x = x.unsqueeze(-1)
    bases = ((x >= grid[:-1]) & (x < grid[1:])).to(x.dtype)
    for order in range(1, k + 1):
        left = (x - grid[: -(order + 1)]) / (grid[order:-1] - grid[: -(order + 1)])
        right = (grid[order + 1 :] - x) / (grid[order + 1 :] - grid[1:-order])
        bases = left * bases[..., :-1] + right * bases[..., 1:]
    return bases
# --- kan_layer.py
import torch
from torch import nn

from spline import b_splines, extend_grid


class KANLayer(nn.Module):
    def __init__(self, in_dim, out_dim, num, k, draw, device):
        super().__init__()
        self.k = k
        grid = extend_grid(torch.linspace(-1.5, 1.5, num + 1), k)
        self.register_buffer("grid", grid.to(device))
        self.coef = nn.Parameter((0.1 * torch.randn(in_dim, out_dim, num + k, generator=draw)).to(device))
        self.scale_base = nn.Parameter(torch.randn(in_dim, out_dim, generator=draw).to(device))

    def forward(self, x):
        curves = b_splines(x, self.grid, self.k)
        return torch.einsum("bic,ioc->bo", curves, self.coef) + nn.functional.silu(x) @ self.scale_base
# --- kan.py
import torch
from torch import nn

from kan_layer import KANLayer

OPTIMIZERS = {"Adam": torch.optim.Adam, "SGD": torch.optim.SGD}


class KAN(nn.Module):
    def __init__(self, width, grid=3, k=2, seed=0, device="cpu"):
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.device = torch.device(device)
        self.act_fun = nn.ModuleList()
        for before, after in zip(width, width[1:]):
            self.act_fun.append(KANLayer(before, after, grid, k, draw, device))

    def forward(self, x):
        for layer in self.act_fun:
            x = layer(x)
        return x

    def regularization(self):
        return sum(layer.coef.abs().mean() for layer in self.act_fun)

    def fit(self, dataset, opt="Adam", steps=20, lr=0.05, lamb=0.0, batch=-1, device="cpu"):
        device = torch.device(device)
        optimizer = OPTIMIZERS[opt](self.parameters(), lr=lr, foreach=False)
        batch = len(dataset["train_input"]) if batch < 1 else batch
        losses = []
        for step in range(steps):
            rows = torch.arange(step * batch, (step + 1) * batch) % len(dataset["train_input"])
            x, y = dataset["train_input"][rows].to(device), dataset["train_label"][rows].to(device)
            loss = (self(x) - y).square().mean() + lamb * self.regularization()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 4))
        return losses

# === shapes_that_are_like_no_other
# thread: https://github.com/jayliu0313/Shape-Guided/issues/11
# about: what is wrong with a thing is found by comparison with patches of good ones, of the same shape. Patches are kept in RAM; which ones to look at is found on the GPU
# operation: index on cpu, cuda:0
# operands: indices|index.*|.*knn_idx.*|self|.*features.*
# error: indices should be either on
# category: input-not-moved|cached-state
# line: features.py: shape_guide_rgb_features = torch.cat(
# line: features.py: knn_features = shape_guide_rgb_features[
# line: features.py: self.rgb_patch_lib.append(
# repair: features.py: shape_guide_rgb_features = torch.cat(self.rgb_patch_lib) -> shape_guide_rgb_features = torch.cat(self.rgb_patch_lib).to(rgb_feature.device)
import argparse

import torch

from shape_guide_core import ShapeGuide
from things import samples

parser = argparse.ArgumentParser(description="Shape-guided dual memory")
parser.add_argument("--classes", nargs="+", default=["bagel", "peach"])
parser.add_argument("--k_number", type=int, default=3)
parser.add_argument("--sampling_size", type=int, default=5)
args = parser.parse_args()

for cls in args.classes:
    torch.manual_seed(7)
    guide = ShapeGuide(args)
    guide.fit(samples(cls, count=args.sampling_size, good=True))
    good = guide.score(samples(cls, count=3, good=True, seed=50))
    bad = guide.score(samples(cls, count=3, good=False, seed=60))
    print(cls, "good", [round(s, 3) for s in good], "bad", [round(s, 3) for s in bad])
# --- things.py
import torch


def samples(cls, count, good, seed=0, patches=6):
    """Points and pictures of things; a bad one has a patch of another colour."""
    draw = torch.Generator().manual_seed(sum(map(ord, cls)) + seed)
    base = torch.rand(patches, 5, generator=torch.Generator().manual_seed(len(cls)))
    for _ in range(count):
        shape = base + 0.05 * torch.randn(patches, 5, generator=draw)
        colour = base.flip(1) + 0.05 * torch.randn(patches, 5, generator=draw)
        if not good:
            colour[torch.randint(patches, (1,), generator=draw)] += 1.0
        yield shape, colour
# --- networks.py
from torch import nn


def sdf_encoder():
    return nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 6))


def rgb_encoder():
    return nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 8))
# --- features.py
import torch

from networks import rgb_encoder, sdf_encoder


class Features:
    def __init__(self, k_number):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.k_number = k_number
        self.sdf_model = sdf_encoder().to(self.device).eval()
        self.rgb_model = rgb_encoder().to(self.device).eval()
        self.sdf_patch_lib, self.rgb_patch_lib = [], []

    @torch.no_grad()
    def extract(self, shape, colour):
        return self.sdf_model(shape.to(self.device)), self.rgb_model(colour.to(self.device))

    def add_sample_to_mem_bank(self, shape, colour):
        sdf_feature, rgb_feature = self.extract(shape, colour)
        self.sdf_patch_lib.append(sdf_feature)
        self.rgb_patch_lib.append(rgb_feature.to("cpu"))

    def find_knn_shape(self, sdf_feature):
        """Numbers of the patches whose shapes are most alike, for each patch."""
        library = torch.cat(self.sdf_patch_lib)
        distance = torch.cdist(sdf_feature, library)
        knn_idx = torch.topk(distance, self.k_number, largest=False).indices
        return knn_idx, distance.amin(dim=1)

    def dict_compute_rgb_map(self, rgb_feature, knn_idx):
        shape_guide_rgb_features = torch.cat(self.rgb_patch_lib)
        scores = []
        for patch in range(len(rgb_feature)):
            knn_features = shape_guide_rgb_features[knn_idx[patch]]
            scores.append(torch.cdist(rgb_feature[patch : patch + 1], knn_features).amin())
        return torch.stack(scores)
# --- shape_guide_core.py
import torch

from features import Features


class ShapeGuide:
    def __init__(self, args):
        self.methods = Features(args.k_number)
        self.weight, self.bias = 1.0, 0.0

    def fit(self, train_loader):
        train = list(train_loader)
        for shape, colour in train:
            self.methods.add_sample_to_mem_bank(shape, colour)
        self.align(train)

    def align(self, train):
        """Scores of shapes and of colours are brought to one scale."""
        sdf_scores, rgb_scores = [], []
        for shape, colour in train:
            sdf_map, rgb_map = self.predict_align_data(shape, colour)
            sdf_scores.append(sdf_map + 1e-3)
            rgb_scores.append(rgb_map + 1e-3)
        sdf_scores, rgb_scores = torch.cat(sdf_scores), torch.cat(rgb_scores)
        self.weight = (sdf_scores.std() / rgb_scores.std().clamp(min=1e-6)).item()
        self.bias = (sdf_scores.mean() - self.weight * rgb_scores.mean()).item()

    def predict_align_data(self, shape, colour):
        sdf_feature, rgb_feature = self.methods.extract(shape, colour)
        knn_idx, sdf_map = self.methods.find_knn_shape(sdf_feature)
        return sdf_map, self.methods.dict_compute_rgb_map(rgb_feature, knn_idx)

    def score(self, test_loader):
        scores = []
        for shape, colour in test_loader:
            sdf_map, rgb_map = self.predict_align_data(shape, colour)
            scores.append(torch.maximum(sdf_map, self.weight * rgb_map + self.bias).max().item())
        return scores

# === rain_that_looks_right
# thread: https://github.com/meteofrance/mfai/pull/114
# about: fields of the weather are compared by what another network sees in them. It is put on its device when it is made, and that is before a trainer takes a model to the GPU
# operation: .*conv.* on cuda:0, cpu
# operands: weight|.*weight.*|bias
# error: should be the same|on the same device
# category: module-split|state-not-registered|default-or-current-device|input-not-moved
# line: perceptual.py: y_hat, y = self.normalize(
# line: perceptual.py: class PerceptualLoss:
# line: perceptual.py: for number, layer in enumerate(self.network)
# line: perceptual.py: self.network = feature_network(
# line: lightning_module.py: self.perceptual = PerceptualLoss(
# repair: perceptual.py: y_hat, y = self.normalize(preds), self.normalize(targets) -> self.network.to(preds.device); y_hat, y = self.normalize(preds), self.normalize(targets)
import torch

from lightning_module import SegmentationModule
from radar import RadarDataset
from trainer import Trainer

torch.manual_seed(18)
model = SegmentationModule(channels=2, hidden=6, alpha=0.5)
trainer = Trainer(accelerator="gpu" if torch.cuda.is_available() else "cpu", max_epochs=2)
loader = torch.utils.data.DataLoader(RadarDataset(hours=6, size=8), batch_size=3)
trainer.fit(model, loader)
print("logged", trainer.logged)
# --- radar.py
import torch
from torch.utils.data import Dataset


class RadarDataset(Dataset):
    """Fields of an hour, and the field of the next hour."""

    def __init__(self, hours, size):
        draw = torch.Generator().manual_seed(hours)
        fields = torch.rand(hours + 2, size, size, generator=draw)
        self.fields = (fields + fields.roll(1, dims=1) + fields.roll(1, dims=2)) / 3

    def __len__(self):
        return len(self.fields) - 2

    def __getitem__(self, index):
        return self.fields[index : index + 2], self.fields[index + 2 : index + 3]
# --- features.py
import torch
from torch import nn


def feature_network(in_channels, seed=0):
    """Stands for a network that was trained on many pictures."""
    draw = torch.Generator().manual_seed(seed)
    network = nn.Sequential(
        nn.Conv2d(in_channels, 6, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3, padding=1),
        nn.ReLU(),
    )
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=draw))
    return network.requires_grad_(False)
# --- perceptual.py
import torch.nn.functional as F
from torch import nn

from features import feature_network


class PerceptualLoss:
    """Two fields are alike if a network sees the same in both."""

    def __init__(self, device="cpu", in_channels=1, layer_ids=(1, 3), alpha_feature=1.0):
        self.device = device
        self.layer_ids, self.alpha_feature = layer_ids, alpha_feature
        self.network = feature_network(in_channels).to(device).eval()

    @staticmethod
    def normalize(x):
        low, high = x.amin(dim=(2, 3), keepdim=True), x.amax(dim=(2, 3), keepdim=True)
        return (x - low) / (high - low + 1e-6)

    def compute_features(self, x):
        features = []
        for number, layer in enumerate(self.network):
            x = layer(x)
            if number in self.layer_ids:
                features.append(x)
        return features

    def __call__(self, preds, targets):
        y_hat, y = self.normalize(preds), self.normalize(targets)
        seen, wanted = self.compute_features(y_hat), self.compute_features(y)
        return self.alpha_feature * sum(F.l1_loss(a, b) for a, b in zip(seen, wanted))


class UNetLike(nn.Sequential):
    def __init__(self, channels, hidden):
        super().__init__(
            nn.Conv2d(channels, hidden, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(hidden, 1, 3, padding=1),
        )
# --- lightning_module.py
import torch
from torch import nn

from perceptual import PerceptualLoss, UNetLike


class SegmentationModule(nn.Module):
    def __init__(self, channels, hidden, alpha):
        super().__init__()
        self.model = UNetLike(channels, hidden)
        self.alpha = alpha
        self.perceptual = PerceptualLoss(device=self.device)

    @property
    def device(self):
        return next(self.model.parameters()).device

    def training_step(self, batch):
        x, y = batch
        y_hat = self.model(x)
        pixel = nn.functional.mse_loss(y_hat, y)
        return pixel + self.alpha * self.perceptual(y_hat, y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01, foreach=False)
# --- trainer.py
import torch


class Trainer:
    def __init__(self, accelerator, max_epochs):
        self.device = torch.device("cuda:0" if accelerator == "gpu" else "cpu")
        self.max_epochs, self.logged = max_epochs, []

    def batch_to_device(self, batch):
        return [each.to(self.device) for each in batch]

    def fit(self, model, loader):
        model.to(self.device).train()
        optimizer = model.configure_optimizers()
        for _ in range(self.max_epochs):
            total = 0.0
            for batch in loader:
                loss = model.training_step(self.batch_to_device(batch))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            self.logged.append(round(total / len(loader), 4))
