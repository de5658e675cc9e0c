# === ligands_taken_apart
# thread: https://github.com/arneschneuing/DiffSBDD/pull/49
# about: molecules that fit into a pocket are made better over generations. Each is noised and denoised again, many at once, and a mask tells which atom belongs to which
# operation: index on cpu, cuda:0
# operands: indices|index.*|.*mask.*|self|data
# error: indices should be either on
# category: input-not-moved
# line: optimize.py: for coordinates, types in zip(
# line: optimize.py: x, one_hot = x.detach().cpu()
# line: utils.py: return [data[batch_mask == index]
# line: optimize.py: x, one_hot, lig_mask = model.diversify(
# repair: optimize.py: for coordinates, types in zip(batch_to_list(x, lig_mask), batch_to_list(one_hot, lig_mask)): -> for coordinates, types in zip(batch_to_list(x, lig_mask.cpu()), batch_to_list(one_hot, lig_mask.cpu())):
import torch

from lightning_modules import LigandPocketDDPM
from optimize import evolve

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = LigandPocketDDPM(types=3, width=8).to(device).eval()
draw = torch.Generator().manual_seed(9)
seed = {"x": torch.randn(5, 3, generator=draw), "one_hot": torch.eye(3)[torch.tensor([0, 1, 0, 2, 0])]}
best, score = evolve(model, seed, generations=2, population=3)
print("atoms", best["one_hot"].argmax(1).tolist(), "score", round(score, 4))
# --- lightning_modules.py
import torch
from torch import nn


class LigandPocketDDPM(nn.Module):
    def __init__(self, types, width):
        super().__init__()
        self.pocket = nn.Parameter(torch.randn(4, 3), requires_grad=False)
        self.near, self.kinds = nn.Sequential(nn.Linear(types + 4, width), nn.SiLU(), nn.Linear(width, 3)), nn.Linear(types, types)

    @torch.no_grad()
    def diversify(self, ligand, samples, noise):
        """A few molecules that are like this one, all their atoms in one row."""
        device = self.pocket.device
        atoms = len(ligand["x"])
        lig_mask = torch.arange(samples, device=device).repeat_interleave(atoms)
        x = ligand["x"].to(device).repeat(samples, 1) + noise.to(device)
        one_hot = ligand["one_hot"].to(device).repeat(samples, 1)
        for _ in range(3):
            pull = torch.cdist(x, self.pocket)
            x = x + 0.1 * self.near(torch.cat([one_hot, pull], 1))
        one_hot = torch.eye(one_hot.shape[1], device=device)[(one_hot + self.kinds(one_hot)).argmax(1)]
        return x, one_hot, lig_mask
# --- utils.py
def batch_to_list(data, batch_mask):
    """What belongs to each molecule of a batch."""
    return [data[batch_mask == index] for index in batch_mask.unique().tolist()]
# --- optimize.py
import torch

from utils import batch_to_list


def compactness(molecule):
    spread = (molecule["x"] - molecule["x"].mean(0)).norm(dim=1).mean()
    return (molecule["one_hot"][:, 0].mean() - 0.2 * spread).item()


def evolve(model, molecule, generations, population):
    draw = torch.Generator().manual_seed(2)
    best, score = molecule, compactness(molecule)
    for _ in range(generations):
        noise = 0.3 * torch.randn(population * len(best["x"]), 3, generator=draw)
        x, one_hot, lig_mask = model.diversify(best, population, noise)
        x, one_hot = x.detach().cpu(), one_hot.detach().cpu()
        molecules = []
        for coordinates, types in zip(batch_to_list(x, lig_mask), batch_to_list(one_hot, lig_mask)):
            molecules.append({"x": coordinates, "one_hot": types})
        best = max(molecules, key=compactness)
        score = compactness(best)
    return best, score

# === what_is_known_of_an_image
# thread: https://github.com/scraed/LanPaint/issues/6
# about: a part of an image is painted anew. A model made for this is shown what is known and where, next to the noisy latents; other models are only held to it between steps
# operation: cat on cuda:0, cpu
# operands: tensors|.*mask.*|.*known.*
# category: input-not-moved
# line: sampler.py: self.mask, self.known = 
# line: sampler.py: shown = torch.cat(
# line: nodes.py: guided = InpaintSampler(
# line: nodes.py: samples, mask = latent["samples"]
# repair: sampler.py: self.mask, self.known = mask, known -> self.mask, self.known = mask.to(model.device), known.to(model.device)
import torch

from model import TinyUNet
from nodes import InpaintKSampler

torch.manual_seed(0)
model = TinyUNet(channels=2, shown=3)
model.to("cuda" if torch.cuda.is_available() else "cpu")
draw = torch.Generator().manual_seed(1)
latent = {"samples": torch.randn(1, 2, 4, 4, generator=draw), "noise_mask": torch.zeros(1, 1, 4, 4)}
latent["noise_mask"][..., 1:3] = 1
(result,) = InpaintKSampler().sample(model, latent, steps=3, seed=5)
print("painted", [round(value, 3) for value in result["samples"][0, 0, 1].tolist()])
# --- model.py
import torch
from torch import nn


class TinyUNet(nn.Module):
    """Takes `shown` further channels, if it is made for painting."""

    def __init__(self, channels, shown=0):
        super().__init__()
        self.shown = shown
        self.inner = nn.Conv2d(channels + shown + 1, 6, 3, padding=1)
        self.outer = nn.Conv2d(6, channels, 1)

    @property
    def device(self):
        return self.outer.weight.device

    def forward(self, x, sigma):
        level = torch.full_like(x[:, :1], float(sigma))
        return self.outer(self.inner(torch.cat([x, level], 1)).tanh())
# --- sampler.py
import torch


class InpaintSampler:
    def __init__(self, model, mask, known):
        self.model = model
        self.mask, self.known = mask, known

    def predicted(self, x, sigma):
        if self.model.shown:
            shown = torch.cat([x, self.mask, self.known * (1 - self.mask)], 1)
            return self.model(shown, sigma)
        return self.model(x, sigma)

    def run(self, noise, sigmas):
        x = noise * sigmas[0]
        for sigma, after in zip(sigmas, sigmas[1:]):
            clean = x - sigma * self.predicted(x, sigma)
            clean = self.mask * clean + (1 - self.mask) * self.known
            x = clean + (x - clean) * (after / sigma)
        return x
# --- nodes.py
import torch

from sampler import InpaintSampler


class InpaintKSampler:
    RETURN_TYPES = ("LATENT",)

    @torch.no_grad()
    def sample(self, model, latent, steps, seed):
        samples, mask = latent["samples"], latent["noise_mask"]
        noise = torch.randn(samples.shape, generator=torch.Generator().manual_seed(seed)).to(model.device)
        sigmas = [3.0 * (1 - step / steps) for step in range(steps)] + [0.0]
        guided = InpaintSampler(model, mask, samples)
        return ({**latent, "samples": guided.run(noise, sigmas).cpu()},)

# === levels_between_two_steps
# thread: https://github.com/ClownsharkBatwing/RES4LYF/pull/223
# about: a sampler of a higher order asks its model at levels of noise between two steps, too. Levels of steps come from a scheduler and go with the latents
# operation: addmm|linear on cpu, cuda:0
# operands: input|mat1|.*sigma.*|.*level.*|time
# category: created-without-device
# line: rk_coefficients.py: nodes = torch.tensor(
# line: rk_sampler.py: between = sigma + nodes
# line: rk_sampler.py: nodes, weights = tableau(
# line: rk_sampler.py: slope = self.slope(
# line: model.py: hidden = self.time(
# line: rk_sampler.py: level = between[stage]
# line: rk_sampler.py: return self.model(
# repair: rk_coefficients.py: nodes = torch.tensor(TABLEAUS[name][0]) -> nodes = torch.tensor(TABLEAUS[name][0], device=device)
import torch

from model import Denoiser
from rk_sampler import RKSampler
from schedulers import karras

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Denoiser(width=3).to(device)
sigmas = karras(steps=4, lowest=0.1, highest=2.0).to(device)
noise = torch.randn(2, 3, generator=torch.Generator().manual_seed(4)).to(device)
latents = RKSampler(model, "midpoint").sample(noise * sigmas[0], sigmas)
print("latents", [[round(value, 3) for value in row] for row in latents.tolist()])
# --- schedulers.py
import torch


def karras(steps, lowest, highest, rho=7.0):
    ramp = torch.linspace(0, 1, steps)
    return (highest ** (1 / rho) + ramp * (lowest ** (1 / rho) - highest ** (1 / rho))) ** rho
# --- rk_coefficients.py
import torch

TABLEAUS = {"euler": ([0.0], [1.0]), "midpoint": ([0.0, 0.5], [0.0, 1.0]), "heun": ([0.0, 1.0], [0.5, 0.5])}


def tableau(name, device):
    """Where a method looks within a step, and how much it makes of it."""
    nodes = torch.tensor(TABLEAUS[name][0])
    weights = torch.tensor(TABLEAUS[name][1], device=device)
    return nodes, weights
# --- model.py
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.time, self.inner, self.outer = nn.Linear(1, 8), nn.Linear(width, 8), nn.Linear(8, width)

    def forward(self, x, levels):
        hidden = self.time(levels.log()[:, None])
        return self.outer((self.inner(x) + hidden).tanh())
# --- rk_sampler.py
import torch

from rk_coefficients import tableau


class RKSampler:
    def __init__(self, model, method):
        self.model, self.method = model, method

    def slope(self, x, level):
        return self.model(x, level.expand(len(x)))

    @torch.no_grad()
    def sample(self, x, sigmas):
        nodes, weights = tableau(self.method, x.device)
        for sigma, after in zip(sigmas.tolist(), sigmas[1:].tolist()):
            between = sigma + nodes * (after - sigma)
            moved, slope = torch.zeros_like(x), None
            for stage, weight in enumerate(weights):
                level = between[stage]
                at = x if slope is None else x + (level.item() - sigma) * slope
                slope = self.slope(at, level)
                moved = moved + weight * slope
            x = x + (after - sigma) * moved
        return x

# === adapters_of_two_subjects
# thread: https://github.com/yaoliliu/FreeFuse/issues/7
# about: two adapters act on one model, each where its subject is in the image. They are not merged into weights: hooks of the layers add what they give
# operation: mm|matmul|addmm|linear|t on cuda:0, cpu
# operands: mat2|other|weight|.*down.*|.*tensors.*|.*up.*
# category: state-not-registered|input-not-moved|cached-state
# line: bypass.py: self.adapters[name] = load_file(
# line: bypass.py: down, up = (
# line: bypass.py: tensors = self.adapters[subject]
# line: bypass.py: added = x @ down.T
# line: main.py: manager.load(
# repair: bypass.py: self.adapters[name] = load_file(path) -> self.adapters[name] = load_file(path, device=str(next(self.model.parameters()).device))
import tempfile
from pathlib import Path

import torch

from adapters import write_adapter
from bypass import BypassManager
from transformer import Transformer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Transformer(width=6, blocks=2).to(device).eval()
manager = BypassManager(model)
with tempfile.TemporaryDirectory() as folder:
    for seed, name in enumerate(("cat", "dog")):
        write_adapter(Path(folder) / f"{name}.safetensors", model, rank=2, seed=seed)
        manager.load(name, Path(folder) / f"{name}.safetensors")
where = torch.zeros(2, 5, 1)
where[0, :2], where[1, 3:] = 1, 1
manager.enable({"cat": where[0].to(device), "dog": where[1].to(device)})
tokens = torch.randn(5, 6, generator=torch.Generator().manual_seed(6)).to(device)
with torch.no_grad():
    print("tokens", [round(value, 4) for value in model(tokens).mean(1).tolist()])
# --- transformer.py
from torch import nn


class Transformer(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(nn.ModuleDict({"attn": nn.Linear(width, width), "mlp": nn.Linear(width, width)}) for _ in range(blocks))

    def forward(self, x):
        for block in self.blocks:
            x = x + block["attn"](x).softmax(-1)
            x = x + block["mlp"](x).tanh()
        return x
# --- adapters.py
import torch
from safetensors.torch import save_file
from torch import nn


def write_adapter(path, model, rank, seed):
    draw, tensors = torch.Generator().manual_seed(seed), {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            tensors[f"{name}.lora_down"] = torch.randn(rank, module.in_features, generator=draw)
            tensors[f"{name}.lora_up"] = torch.randn(module.out_features, rank, generator=draw) / 4
    save_file(tensors, path)
# --- bypass.py
from safetensors.torch import load_file
from torch import nn


class BypassManager:
    def __init__(self, model):
        self.model, self.adapters, self.handles = model, {}, []

    def load(self, name, path):
        self.adapters[name] = load_file(path)

    def enable(self, masks):
        for name, module in self.model.named_modules():
            if isinstance(module, nn.Linear):
                self.handles.append(module.register_forward_hook(self.hook(name, masks)))

    def hook(self, layer, masks):
        def add(module, args, output):
            (x,) = args
            for subject, mask in masks.items():
                tensors = self.adapters[subject]
                down, up = (tensors[f"{layer}.lora_{part}"] for part in ("down", "up"))
                added = x @ down.T @ up.T
                output = output + mask * added
            return output

        return add

# === pictures_over_all_gpus
# thread: https://github.com/huggingface/smollm/issues/32
# about: a notebook's model for pictures and words is finetuned on a machine with more than one GPU, by the library's trainer, which uses them all
# operation: embedding|index_select on cuda:1, cuda:0
# operands: index|indices|input|.*patch_places.*
# category: data-parallel|state-not-registered|cached-state
# line: modeling.py: self.patch_places = torch.arange(
# line: modeling.py: seen = seen + self.place(
# line: finetune.py: args = TrainingArguments(
# line: finetune.py: trainer = Trainer(
# line: finetune.py: model = PictureModel(
# repair: modeling.py: self.patch_places = torch.arange(patches, device=device) -> self.register_buffer("patch_places", torch.arange(patches, device=device), persistent=False)
import tempfile

from finetune import finetune

with tempfile.TemporaryDirectory() as folder:
    print("losses", finetune(folder, steps=3))
# --- data.py
import torch
from torch.utils.data import Dataset


class Pictures(Dataset):
    def __init__(self, count, seed):
        draw = torch.Generator().manual_seed(seed)
        self.pictures = torch.rand(count, 4, 3, generator=draw)
        self.ids = torch.randint(0, 12, (count, 5), generator=draw)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"pixel_values": self.pictures[index], "input_ids": self.ids[index], "labels": self.ids[index]}
# --- modeling.py
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


class PictureModel(nn.Module):
    """Shows a language model the patches of a picture before the words."""

    def __init__(self, patches, words, device):
        super().__init__()
        config = GPT2Config(vocab_size=words, n_positions=16, n_embd=8, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
        self.text = GPT2LMHeadModel(config)
        self.patch, self.place = nn.Linear(3, 8), nn.Embedding(patches, 8)
        self.patch_places = torch.arange(patches, device=device)
        self.to(device)

    def forward(self, pixel_values, input_ids, labels=None):
        seen = self.patch(pixel_values)
        seen = seen + self.place(self.patch_places)
        embeds = torch.cat([seen, self.text.get_input_embeddings()(input_ids)], 1)
        logits = self.text(inputs_embeds=embeds).logits[:, seen.shape[1] - 1 : -1]
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}
# --- finetune.py
import torch
from transformers import Trainer, TrainingArguments

from data import Pictures
from modeling import PictureModel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def finetune(folder, steps):
    torch.manual_seed(0)
    model = PictureModel(patches=4, words=12, device=DEVICE)
    args = TrainingArguments(
        output_dir=folder, max_steps=steps, per_device_train_batch_size=4 // max(1, torch.cuda.device_count()), learning_rate=0.01, logging_steps=1,
        save_strategy="no", report_to=[], disable_tqdm=True, dataloader_pin_memory=False, remove_unused_columns=False, seed=3,
    )  # fmt: skip
    trainer = Trainer(model=model, args=args, train_dataset=Pictures(count=12, seed=2))
    trainer.train()
    return [round(float(entry["loss"]), 3) for entry in trainer.state.log_history if "loss" in entry]

# === enhancer_loaded_in_part
# thread: https://github.com/Lightricks/ComfyUI-LTXVideo/issues/135
# about: a prompt is made longer by a language model before a video is made of it. Where a GPU has little memory, parts of a model that do not fit stay in RAM, and are cast when they are used, by layers that can do so
# operation: addmm|mm|linear|matmul|bmm|mul|rms_norm|.*norm on cuda:0, cpu
# operands: mat2|weight|other|self.*|bias
# category: module-split|input-not-moved
# line: prompt_enhancer.py: load_model_gpu(
# line: model_management.py: if used + size > budget
# line: model_management.py: module.cast_weights = True
# line: prompt_enhancer.py: ids = self.patcher.model.generate(
# line: main.py: enhancer = PromptEnhancer(
# repair: prompt_enhancer.py: load_model_gpu(self.patcher, self.memory) -> load_model_gpu(self.patcher, self.memory, whole=True)
import torch

from ops import CastLinear
from prompt_enhancer import PromptEnhancer
from model_management import Patcher, load_model_gpu

torch.manual_seed(0)
enhancer = PromptEnhancer(memory=9_000)
video = Patcher(torch.nn.Sequential(CastLinear(16, 32), CastLinear(32, 4)))
ids = enhancer.enhance([3, 7, 2], new=4)
load_model_gpu(video, 1_000)
with torch.no_grad():
    frames = video.model(torch.nn.functional.one_hot(torch.tensor(ids), 16).float().to(video.device))
print("prompt", ids, "frames", [round(value, 4) for value in frames.mean(1).tolist()])
# --- ops.py
from torch import nn


class CastLinear(nn.Linear):
    """Its weights may be elsewhere: they are brought to what it is given."""

    cast_weights = False

    def forward(self, x):
        if self.cast_weights:
            return nn.functional.linear(x, self.weight.to(x.device), self.bias.to(x.device))
        return super().forward(x)
# --- model_management.py
import torch


def get_torch_device():
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class Patcher:
    def __init__(self, model):
        self.model, self.device = model.eval(), get_torch_device()


def load_model_gpu(patcher, budget, whole=False):
    """Loads what fits, module by module; a model that cannot do without any part is to be loaded as a whole."""
    if whole:
        patcher.model.to(patcher.device)
        return
    used = 0
    for module in patcher.model.modules():
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        size = sum(each.nbytes for each in own)
        if used + size > budget:
            module.cast_weights = True
            continue
        used += size
        for each in own:
            each.data = each.data.to(patcher.device)
# --- prompt_enhancer.py
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from model_management import Patcher, load_model_gpu


class PromptEnhancer:
    def __init__(self, memory):
        config = LlamaConfig(
            vocab_size=16, hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=2,
            bos_token_id=1, eos_token_id=None, pad_token_id=0,
        )  # fmt: skip
        self.patcher = Patcher(LlamaForCausalLM(config))
        self.memory = memory

    @torch.no_grad()
    def enhance(self, prompt, new):
        load_model_gpu(self.patcher, self.memory)
        inputs = torch.tensor([prompt], device=self.patcher.device)
        ids = self.patcher.model.generate(inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=new, do_sample=False)
        return ids[0].tolist()

# === boxes_without_doubles
# thread: https://github.com/mikel-brostrom/boxmot/issues/1946
# about: what a detector sees in each frame is handed to a tracker. Of boxes that lie on one another only the best is kept, by a function that replaces one which the machine's build lacks
# operation: bitwise_or_?|logical_or_?|__ior__ on cpu, cuda:0
# operands: self|other|suppressed
# category: created-without-device
# line: ops.py: suppressed = torch.zeros(
# line: ops.py: suppressed |= 
# line: ops.py: overlap = box_iou(
# line: detector.py: keep = nms(
# repair: ops.py: suppressed = torch.zeros(len(boxes), dtype=torch.bool) -> suppressed = torch.zeros(len(boxes), dtype=torch.bool, device=boxes.device)
import torch

from detector import Detector
from tracker import Tracker

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
detector, tracker = Detector(cells=12).to(device).eval(), Tracker(reach=0.03)
draw = torch.Generator().manual_seed(7)
for frame in torch.rand(3, 12, 6, generator=draw):
    tracks = tracker.update(detector.detect(frame.to(device), threshold=0.85).cpu().numpy())
print("tracks", [(number, round(float(x), 3)) for number, x in sorted(tracks.items())])
# --- ops.py
import torch


def box_iou(first, second):
    low = torch.maximum(first[:, None, :2], second[None, :, :2])
    high = torch.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    area_1, area_2 = ((boxes[:, 2:] - boxes[:, :2]).prod(-1) for boxes in (first, second))
    return shared / (area_1[:, None] + area_2[None] - shared)


def nms(boxes, scores, threshold):
    """Indices of boxes that no better one covers, the best first."""
    order = scores.argsort(descending=True)
    overlap = box_iou(boxes[order], boxes[order])
    suppressed = torch.zeros(len(boxes), dtype=torch.bool)
    keep = []
    for place in range(len(order)):
        if suppressed[place]:
            continue
        keep.append(place)
        suppressed |= overlap[place] > threshold
    return order[keep]
# --- detector.py
import torch
from torch import nn

from ops import nms


class Detector(nn.Module):
    def __init__(self, cells):
        super().__init__()
        self.cells = cells
        self.head = nn.Linear(6, 5)

    @torch.no_grad()
    def detect(self, frame, threshold):
        raw = self.head(frame).sigmoid()
        centre, size, scores = raw[:, :2], raw[:, 2:4], raw[:, 4]
        boxes = torch.cat([centre - size / 2, centre + size / 2], 1)
        keep = nms(boxes, scores, threshold)
        return torch.cat([boxes[keep], scores[keep, None]], 1)
# --- tracker.py
import numpy as np


class Tracker:
    def __init__(self, reach):
        self.reach, self.places, self.next = reach, {}, 0

    def update(self, detections):
        for box in detections:
            centre = (box[:2] + box[2:4]) / 2
            near = {number: np.linalg.norm(place - centre) for number, place in self.places.items()}
            number = min(near, key=near.get) if near else None
            if number is None or near[number] > self.reach:
                number, self.next = self.next, self.next + 1
            self.places[number] = centre
        return {number: place[0] for number, place in self.places.items()}

# === uptake_of_what_was_said
# thread: https://github.com/ddemszky/conversational-uptake/pull/4
# about: how much a teacher takes up what a student has said is told by a model that sees both utterances, which are put into one row of words
# operation: embedding|index_select on cuda:0, cpu
# operands: index|indices|input|input_ids|.*instance.*
# category: input-not-moved
# line: uptake.py: instance[key].to(
# line: uptake.py: output = self.model(
# line: uptake.py: instance[key] = torch.tensor(
# line: multi_head.py: hidden = self.bert(
# repair: uptake.py: instance[key].to(self.device) -> instance[key] = instance[key].to(self.device)
import torch

from multi_head import MultiHeadModel
from uptake import Utterance, UptakeClassifier

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
classifier = UptakeClassifier(MultiHeadModel({"uptake": 2, "focus": 2}), device=device)
pairs = [("we add both numbers", "why do we add them"), ("it is seven", "good now the next one")]
scores = [classifier.score(Utterance(student), Utterance(teacher)) for student, teacher in pairs]
print("uptake", [round(score, 6) for score in scores])
# --- multi_head.py
from torch import nn
from transformers import BertConfig, BertModel


class MultiHeadModel(nn.Module):
    def __init__(self, heads):
        super().__init__()
        config = BertConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=32)
        self.bert = BertModel(config)
        self.heads = nn.ModuleDict({name: nn.Linear(16, classes) for name, classes in heads.items()})

    def forward(self, input_ids, attention_mask, token_type_ids):
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).pooler_output
        return {name: head(hidden) for name, head in self.heads.items()}
# --- uptake.py
import torch


class Utterance:
    def __init__(self, text):
        self.words = text.lower().split()

    def ids(self):
        return [4 + sum(map(ord, word)) % 36 for word in self.words]


class UptakeClassifier:
    def __init__(self, model, device):
        self.model, self.device = model.to(device).eval(), device

    def instance(self, first, second):
        first, second = [2, *first.ids(), 3], [*second.ids(), 3]
        return {
            "input_ids": [first + second],
            "attention_mask": [[1] * len(first + second)],
            "token_type_ids": [[0] * len(first) + [1] * len(second)],
        }

    @torch.no_grad()
    def score(self, first, second):
        instance = self.instance(first, second)
        for key in instance:
            instance[key] = torch.tensor(instance[key])
            instance[key].to(self.device)
        output = self.model(**instance)
        return output["uptake"].softmax(-1)[0, 1].item()

# === weights_patched_where_they_are
# thread: https://github.com/yolain/ComfyUI-Easy-Use/issues/937
# about: small changes to a model's weights are read from files, for several nodes at once, and added to the weights before a model is used. A model that is not in use is in RAM
# operation: mm|matmul on cpu, cuda:0
# operands: mat2|other|.*down.*
# category: input-not-moved
# line: lora.py: low = down.flatten(
# line: lora.py: change = torch.mm(
# line: lora.py: up, down, alpha = patch
# line: easy_nodes.py: self.loaded[name] = {
# line: model_patcher.py: weight.copy_(
# line: easy_nodes.py: model = patcher.patch_model(
# line: main.py: pipe = FullLoader(
# repair: lora.py: low = down.flatten(1).float() -> low = down.flatten(1).float().to(weight.device)
import torch

from easy_nodes import FullLoader, PreSampling
from model_patcher import ModelPatcher

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.SiLU(), torch.nn.Conv2d(4, 2, 1))
pipe = FullLoader(device).load(ModelPatcher(model, device), loras=[("sketch", 0.8), ("warm", 0.5)])
noise = torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(2))
samples = PreSampling().run(pipe, noise, steps=3)
print("samples", [round(value, 4) for value in samples[0, 0].mean(1).tolist()])
# --- files.py
import torch


def read_lora(name, shapes, rank=2):
    """As if from a file: for each weight two thin matrices, and how strong they are meant to be."""
    draw = torch.Generator().manual_seed(sum(map(ord, name)))
    patches = {}
    for key, shape in shapes.items():
        down = torch.randn(rank, *shape[1:], generator=draw)
        up = torch.randn(shape[0], rank, *[1] * (len(shape) - 2), generator=draw)
        patches[key] = (up / 4, down, 1.0)
    return patches
# --- lora.py
import torch


def calculate_weight(patches, weight):
    """What a weight is with all that was asked for added."""
    changed = weight.float()
    for strength, patch in patches:
        up, down, alpha = patch
        high = up.flatten(1).float().to(weight.device)
        low = down.flatten(1).float()
        change = torch.mm(high, low).reshape(weight.shape)
        changed = changed + strength * alpha / low.shape[0] * change
    return changed
# --- model_patcher.py
import torch

from lora import calculate_weight


class ModelPatcher:
    def __init__(self, model, load_device):
        self.model, self.load_device, self.patches = model.eval(), load_device, {}

    def shapes(self):
        return {name: tuple(weight.shape) for name, weight in self.model.named_parameters() if weight.dim() > 1}

    def add_patches(self, patches, strength):
        for key, patch in patches.items():
            self.patches.setdefault(key, []).append((strength, patch))

    @torch.no_grad()
    def patch_model(self):
        for name, weight in self.model.named_parameters():
            if name in self.patches:
                weight.copy_(calculate_weight(self.patches.pop(name), weight))
        return self.model.to(self.load_device)
# --- easy_nodes.py
import torch

from files import read_lora


class FullLoader:
    def __init__(self, device):
        self.device, self.loaded = device, {}

    def lora(self, name, shapes):
        if name not in self.loaded:
            patches = read_lora(name, shapes)
            self.loaded[name] = {key: (up.to(self.device), down.to(self.device), alpha) for key, (up, down, alpha) in patches.items()}
        return self.loaded[name]

    def load(self, patcher, loras):
        for name, strength in loras:
            patcher.add_patches(self.lora(name, patcher.shapes()), strength)
        return {"model": patcher}


class PreSampling:
    @torch.no_grad()
    def run(self, pipe, noise, steps):
        patcher = pipe["model"]
        model = patcher.patch_model()
        samples = noise.to(patcher.load_device)
        for _ in range(steps):
            samples = samples - model(samples) / steps
        return samples.cpu()

# === forecasts_for_a_table
# thread: https://github.com/TimeCopilot/timecopilot/pull/236
# about: many forecasters have one face: a table of series goes in and a table of forecasts comes out. Each moves what it computes with to its device; NumPy makes the table
# operation:  on cuda:0
# operands: .*fcst_mean.*|.*
# error: can't convert cuda:0 device type tensor to numpy
# category: input
# line: flowstate.py: fcst_mean_np = fcst_mean.detach().numpy()
# line: flowstate.py: fcst_mean = fcst[
# line: flowstate.py: fcst = model(
# repair: flowstate.py: fcst_mean_np = fcst_mean.detach().numpy() -> fcst_mean_np = fcst_mean.detach().cpu().numpy()
# repair: flowstate.py: fcst_quantiles_np = fcst.detach().numpy() if quantiles is not None else None -> fcst_quantiles_np = fcst.detach().cpu().numpy() if quantiles is not None else None
import numpy as np

from flowstate import FlowState
from naive import SeasonalNaive
from table import forecasts

time = np.arange(24, dtype=np.float32)
series = {"visits": np.sin(time / 2) + 0.05 * time, "orders": np.cos(time / 3)}
table = forecasts(series, [SeasonalNaive(season=6), FlowState(seed=0)], h=4, quantiles=[0.1, 0.5, 0.9])
for (model, name), values in sorted(table.items()):
    print(model, name, [round(float(value), 3) for value in values["mean"]])
# --- table.py
def forecasts(series, models, h, quantiles=None):
    table = {}
    for model in models:
        means, quantile_values = model.forecast(list(series.values()), h, quantiles)
        for row, name in enumerate(series):
            table[type(model).__name__, name] = {"mean": means[row], "quantiles": None if quantile_values is None else quantile_values[row]}
    return table
# --- naive.py
import numpy as np


class SeasonalNaive:
    def __init__(self, season):
        self.season = season

    def forecast(self, series, h, quantiles=None):
        return np.stack([np.resize(values[-self.season :], h) for values in series]), None
# --- network.py
import torch
from torch import nn


class StateNetwork(nn.Module):
    def __init__(self, quantiles, width=8):
        super().__init__()
        self.encode, self.head = nn.GRU(1, width, batch_first=True), nn.Linear(width + 1, quantiles)

    def forward(self, context, prediction_length):
        _, state = self.encode(context[..., None])
        ahead = torch.arange(1, prediction_length + 1, device=context.device) / prediction_length
        hidden = torch.cat([state[0][:, None].expand(-1, prediction_length, -1), ahead[None, :, None].expand(len(context), -1, 1)], -1)
        return self.head(hidden).cumsum(-1) + context[:, -1:, None]
# --- flowstate.py
from contextlib import contextmanager

import numpy as np
import torch

from network import StateNetwork


class FlowState:
    QUANTILES = (0.1, 0.5, 0.9)

    def __init__(self, seed):
        self.seed = seed
        self.device = "cuda" if torch.cuda.is_available() else "cpu"

    @contextmanager
    def get_model(self):
        """Only as long as it is used."""
        torch.manual_seed(self.seed)
        model = StateNetwork(len(self.QUANTILES)).to(self.device).eval()
        try:
            yield model
        finally:
            del model

    def predict_batch(self, model, context, h, quantiles):
        context = context.to(self.device)
        fcst = model(context, prediction_length=h)
        fcst_mean = fcst[..., self.QUANTILES.index(0.5)]
        fcst_mean_np = fcst_mean.detach().numpy()
        fcst_quantiles_np = fcst.detach().numpy() if quantiles is not None else None
        return fcst_mean_np, fcst_quantiles_np

    def forecast(self, series, h, quantiles=None):
        context = torch.from_numpy(np.stack(series))
        with self.get_model() as model:
            return self.predict_batch(model, context, h, quantiles)

# === memory_of_agents_that_began_anew
# thread: https://github.com/Metta-AI/metta/pull/2268
# about: agents of many worlds have a memory each, which the policy keeps by where the worlds begin in a batch, and clears for agents whose episode is over. Worlds are simulated on the CPU
# operation: masked_fill_? on cuda:0, cpu
# operands: mask|.*reset.*|.*mask.*
# category: input-not-moved
# line: lstm_policy.py: reset_mask = 
# line: lstm_policy.py: hidden = hidden.masked_fill(
# line: lstm_policy.py: cell = cell.masked_fill(
# line: rollout.py: actions = policy.act(
# line: rollout.py: observations, rewards, dones = vecenv.step(
# line: vecenv.py: dones = self.age
# repair: lstm_policy.py: reset_mask = dones.bool().view(-1, 1) -> reset_mask = dones.bool().view(-1, 1).to(hidden.device)
import torch

from lstm_policy import LSTMPolicy
from rollout import collect
from vecenv import VecEnv

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
policy = LSTMPolicy(inputs=3, width=6, actions=2).to(device).eval()
total, chosen = collect(policy, VecEnv(agents=4, longest=3, seed=1), steps=8, device=device)
print("reward", round(total, 4), "chosen", chosen)
# --- vecenv.py
import torch


class VecEnv:
    """Agents that are rewarded for an action which their sight tells; episodes differ in length."""

    def __init__(self, agents, longest, seed):
        self.draw = torch.Generator().manual_seed(seed)
        self.limit = 1 + torch.arange(agents) % longest
        self.age = torch.zeros(agents, dtype=torch.long)

    def observe(self):
        self.seen = torch.randn(len(self.age), 3, generator=self.draw)
        return self.seen

    def reset(self):
        return self.observe(), torch.zeros(len(self.age), dtype=torch.bool)

    def step(self, actions):
        rewards = torch.where((self.seen[:, 0] > 0).long() == actions, 1.0, -0.5)
        self.age += 1
        dones = self.age >= self.limit
        self.age[dones] = 0
        return self.observe(), rewards, dones
# --- lstm_policy.py
import torch
from torch import nn


class LSTMPolicy(nn.Module):
    def __init__(self, inputs, width, actions):
        super().__init__()
        self.encode, self.core, self.head = nn.Linear(inputs, width), nn.LSTMCell(width, width), nn.Linear(width, actions)
        self.states = {}

    @torch.no_grad()
    def act(self, observations, dones, start):
        features = self.encode(observations).relu()
        if start in self.states:
            hidden, cell = self.states[start]
            reset_mask = dones.bool().view(-1, 1)
            hidden = hidden.masked_fill(reset_mask, 0)
            cell = cell.masked_fill(reset_mask, 0)
        else:
            hidden = cell = features.new_zeros(len(features), self.core.hidden_size)
        self.states[start] = self.core(features, (hidden, cell))
        return self.head(self.states[start][0]).argmax(1)
# --- rollout.py
def collect(policy, vecenv, steps, device):
    observations, dones = vecenv.reset()
    total, chosen = 0.0, 0
    for _ in range(steps):
        actions = policy.act(observations.to(device), dones, start=0)
        observations, rewards, dones = vecenv.step(actions.cpu())
        total += rewards.sum().item()
        chosen += int(actions.sum())
    return total, chosen

# === steps_that_were_not_computed
# thread: https://github.com/vipshop/cache-dit/pull/466
# about: what a transformer's blocks add hardly changes from one step to the next, so some steps add what the step before did. Blocks are spread over two GPUs, and each fetches what it is given
# operation: add on cuda:0, cuda:1
# operands: other|.*residual.*
# category: cached-state|module-split|input-not-moved
# line: cached_blocks.py: hidden = hidden + self.residual
# line: cached_blocks.py: self.residual = after
# line: cached_blocks.py: hidden = after
# line: transformer.py: hidden = self.embed(
# line: transformer.py: return self.head(
# repair: cached_blocks.py: hidden = hidden + self.residual -> hidden = hidden.to(self.residual.device) + self.residual
import torch

from cached_blocks import CachedBlocks
from pipeline import Pipeline
from transformer import TinyDiT

torch.manual_seed(0)
gpus = torch.cuda.device_count()
devices = [f"cuda:{index}" for index in range(gpus)] or ["cpu"]
transformer = TinyDiT(channels=3, width=8, blocks=4).eval()
transformer.spread(devices)
transformer.blocks = CachedBlocks(transformer.blocks, threshold=0.8, warmup=2)
latents = torch.randn(5, 3, generator=torch.Generator().manual_seed(11)).to(devices[0])
image = Pipeline(transformer)(latents, steps=6)
print("skipped", transformer.blocks.skipped, "image", [round(value, 3) for value in image.mean(1).tolist()])
# --- transformer.py
import torch
from torch import nn


def fetch(module, args, device):
    return tuple(each.to(device) for each in args)


class Blocks(nn.Sequential):
    pass


class TinyDiT(nn.Module):
    def __init__(self, channels, width, blocks):
        super().__init__()
        self.embed, self.head = nn.Linear(channels + 1, width), nn.Linear(width, channels)
        self.blocks = Blocks(*(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(blocks)))

    def spread(self, devices):
        share = len(self.blocks) / len(devices)
        placed = [(self.embed, devices[0]), (self.head, devices[-1])]
        placed += [(block, devices[int(index / share)]) for index, block in enumerate(self.blocks)]
        for module, device in placed:
            module.to(device)
            module.register_forward_pre_hook(lambda module, args, device=device: fetch(module, args, device))

    def forward(self, latents, time):
        level = torch.full_like(latents[:, :1], time)
        hidden = self.embed(torch.cat([latents, level], 1))
        return self.head(self.blocks(hidden))
# --- cached_blocks.py
import torch
from torch import nn


class CachedBlocks(nn.Module):
    """Blocks that are left out where the first of them changes little."""

    def __init__(self, blocks, threshold, warmup):
        super().__init__()
        self.wrapped, self.threshold, self.warmup = blocks, threshold, warmup
        self.step, self.skipped, self.previous, self.residual = 0, 0, None, None

    def alike(self, first):
        if self.previous is None or self.step <= self.warmup:
            return False
        change = (first - self.previous).abs().mean() / self.previous.abs().mean()
        return change.item() < self.threshold

    def forward(self, hidden):
        self.step += 1
        first = self.wrapped[0](hidden)
        if self.alike(first):
            self.skipped += 1
            hidden = hidden + self.residual
            return hidden
        self.previous = first
        after = first
        for block in self.wrapped[1:]:
            after = block(after)
        self.residual = after - hidden.to(after.device)
        hidden = after
        return hidden
# --- pipeline.py
import torch


class Pipeline:
    def __init__(self, transformer):
        self.transformer = transformer

    @torch.no_grad()
    def __call__(self, latents, steps):
        for step in range(steps):
            predicted = self.transformer(latents, 1 - step / steps)
            latents = latents - predicted.to(latents.device) / steps
        return latents.cpu()
