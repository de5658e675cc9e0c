# === choices_asked_of_a_picture
# thread: https://github.com/AILab-CVC/SEED-Bench/issues/21
# about: a model is asked which of four answers fits a picture; the one it would say most easily counts. What loads the model shares its layers among the
#   cards, and a tester is put around it
# operation: linear|addmm on cuda:1, cuda:0
# operands: input|mat1|weight|bias
# category: module-split|default-or-current-device
# line: eval.py: model = MLLM_Tester(
# line: builder.py: kwargs["device_map"] = infer_auto_device_map(
# repair: eval.py: model = MLLM_Tester(load_pretrained_model(args.model)).cuda().eval() -> model = MLLM_Tester(load_pretrained_model(args.model)).eval()
import argparse

import torch

import eval

parser = argparse.ArgumentParser(description="Arg Parser")
parser.add_argument("--model", type=str, default="llava_tiny")
parser.add_argument("--evaluate_part", type=int, nargs="+", default=[1, 3])
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(args.seed)
eval.run(args)
# --- eval.py
import torch
from torch import nn
from torch.utils.data import DataLoader

from builder import load_pretrained_model
from questions import build_data_loader, collate


class MLLM_Tester(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    @torch.no_grad()
    def forward(self, x):
        data_path, question, choices = x["image"], x["question"], x["choices"]
        losses = self.model(data_path, question, choices)
        return losses.argsort(dim=-1), losses


def is_integer(value):
    return isinstance(value, int) or value.is_integer()


def run(args):
    questions = build_data_loader(args.evaluate_part)
    loader = DataLoader(questions, batch_size=1, shuffle=False, collate_fn=collate)
    print(f"evaluating.. {args.model}")
    model = MLLM_Tester(load_pretrained_model(args.model)).cuda().eval()
    correct, total = {}, 0.0
    for x in loader:
        ranked, losses = model(x)
        kind = x["question_type_id"]
        correct.setdefault(kind, []).append(float(ranked[0].item() == x["answer"]))
        total += losses.min().item()
    for kind, hits in sorted(correct.items()):
        print(f"Data type {kind}: {sum(hits) / len(hits) * 100:.2f}%")
    print(f"least loss in all {total:.4f}")
# --- questions.py
import torch


def build_data_loader(parts, length=3):
    """Questions of each kind: a picture, words, four answers and which of these is right."""
    questions = []
    for part in parts:
        draw = torch.Generator().manual_seed(part)
        for _ in range(length):
            questions.append({
                "image": torch.rand(1, 3, 8, 8, generator=draw),
                "question": torch.randint(4, 30, (1, 5), generator=draw),
                "choices": torch.randint(4, 30, (4, 3), generator=draw),
                "answer": torch.randint(0, 4, (1,), generator=draw).item(),
                "question_type_id": part,
            })
    return questions


def collate(samples):
    return samples[0]
# --- builder.py
import torch

from dispatch import dispatch_model, infer_auto_device_map
from llava import Llava

SIZES = {"llava_tiny": (16, 4), "llava_small": (32, 8)}


def load_pretrained_model(name, device_map="auto", dtype=torch.float32):
    kwargs = {"device_map": device_map, "torch_dtype": dtype}
    width, layers = SIZES[name]
    model = Llava(width, layers).to(kwargs["torch_dtype"])
    if kwargs["device_map"] == "auto":
        kwargs["device_map"] = infer_auto_device_map(model, torch.cuda.device_count())
    return dispatch_model(model, kwargs["device_map"])
# --- dispatch.py
import torch


class AlignDevicesHook:
    """Gives a module what it is called with on the device that it runs on."""

    def __init__(self, execution_device):
        self.execution_device = execution_device

    def pre_forward(self, module, args):
        return tuple(arg.to(self.execution_device) if torch.is_tensor(arg) else arg for arg in args)


def infer_auto_device_map(model, num_devices):
    blocks = [name for name, _ in model.named_children() if name != "layers"]
    device_map = {name: num_devices - 1 if name in ("norm", "lm_head") else 0 for name in blocks}
    for i in range(len(model.layers)):
        device_map[f"layers.{i}"] = i * num_devices // len(model.layers)
    return device_map


def dispatch_model(model, device_map):
    for name, index in device_map.items():
        module = model.get_submodule(name)
        module.to(f"cuda:{index}")
        module.register_forward_pre_hook(AlignDevicesHook(torch.device("cuda", index)).pre_forward)
    model.hf_device_map = device_map
    return model
# --- llava.py
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, hidden):
        past = hidden.cumsum(dim=1) / torch.arange(1, hidden.shape[1] + 1, device=hidden.device)[:, None]
        return hidden + self.down(F.silu(self.up(past)))


class Llava(nn.Module):
    def __init__(self, width, layers, vocab=30):
        super().__init__()
        self.vision_tower = nn.Conv2d(3, width, 4, stride=4)
        self.embed_tokens = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab)

    def forward(self, image, question, choices):
        """How hard it is to say each of the choices."""
        seen = self.vision_tower(image).flatten(2).transpose(1, 2)
        words = torch.cat([question.expand(len(choices), -1), choices], dim=1)
        hidden = torch.cat([seen.expand(len(choices), -1, -1), self.embed_tokens(words)], dim=1)
        for layer in self.layers:
            hidden = layer(hidden)
        logits = self.lm_head(self.norm(hidden))[:, -choices.shape[1] - 1 : -1]
        targets = choices.to(logits.device)
        return F.cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean(dim=1)

# === faces_made_sharp_again
# thread: https://github.com/AUTOMATIC1111/stable-diffusion-webui/pull/4461
# about: faces in a painted picture are looked for, cut out, made sharp by a net and set in again. The user says which card shall do it
# operation: .*conv.* on cuda:0, cuda:1
# operands: input|weight|bias|image
# category: default-or-current-device
# line: codeformer_model.py: device = devices.device_codeformer
# line: retinaface.py: device = torch.device(
# line: retinaface.py: image = torch.from_numpy(image).to(device
# line: retinaface.py: self.mean_tensor = torch.tensor(
# line: retinaface.py: image = image - self.mean_tensor
# line: retinaface.py: scores = self.pool(
# repair: codeformer_model.py: device = devices.device_codeformer -> device = retinaface.device = devices.device_codeformer
import launch

if __name__ == "__main__":
    launch.start(["--device-id", "1"])
# --- launch.py
import argparse

import numpy as np

import devices
from codeformer_model import FaceRestorerCodeFormer

parser = argparse.ArgumentParser()
parser.add_argument("--device-id", type=str, help="Select the default CUDA device to use", default=None)
parser.add_argument("--use-cpu", nargs="+", default=[], choices=["codeformer", "all"], type=str.lower)


def start(argv):
    cmd_opts = parser.parse_args(argv)
    devices.device_codeformer = devices.cpu if {"codeformer", "all"} & set(cmd_opts.use_cpu) else devices.get_optimal_device(cmd_opts.device_id)
    restorer = FaceRestorerCodeFormer()
    rng = np.random.default_rng(3713)
    for index in range(2):
        picture = rng.random((32, 40, 3), dtype=np.float32)
        restored = restorer.restore(picture, w=0.5)
        print(index, restored.shape, f"{restored.mean():.5f} {np.abs(restored - picture).max():.5f}")
# --- devices.py
import torch

cpu = torch.device("cpu")
device_codeformer = None


def get_optimal_device(device_id=None):
    if not torch.cuda.is_available():
        return cpu
    return torch.device(f"cuda:{device_id}" if device_id is not None else "cuda")
# --- retinaface.py
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class RetinaFace(nn.Module):
    """Says where faces are: corners of the squares that it is surest of."""

    def __init__(self, square=8):
        super().__init__()
        self.square = square
        self.body = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 1, 3, padding=1))
        self.pool = nn.AvgPool2d(square, stride=square)
        self.mean_tensor = torch.tensor([0.48, 0.46, 0.41]).view(1, 3, 1, 1).to(device)

    def transform(self, image):
        image = torch.from_numpy(image).to(device, dtype=torch.float32)
        return image.permute(2, 0, 1).unsqueeze(0)

    def detect_faces(self, image, count):
        image = self.transform(image)
        image = image - self.mean_tensor
        scores = self.pool(self.body(image))
        columns = scores.shape[-1]
        best = scores.flatten().topk(count).indices
        return [(int(i) // columns * self.square, int(i) % columns * self.square) for i in best]


def init_detection_model(model_name, half=False, device="cuda"):
    torch.manual_seed({"retinaface_resnet50": 50, "retinaface_mobile0.25": 25}[model_name])
    return RetinaFace().eval().requires_grad_(False).to(device)
# --- face_helper.py
import retinaface


class FaceRestoreHelper:
    def __init__(self, face_size, det_model="retinaface_resnet50", device="cuda"):
        self.face_size, self.device = face_size, device
        self.face_det = retinaface.init_detection_model(det_model, half=False, device=self.device)
        self.clean_all()

    def clean_all(self):
        self.cropped_faces, self.restored_faces, self.places = [], [], []

    def read_image(self, image):
        self.input_img = image

    def get_faces(self, count=2):
        size = self.face_size
        self.places = self.face_det.detect_faces(self.input_img, count)
        self.cropped_faces = [self.input_img[y : y + size, x : x + size] for y, x in self.places]

    def add_restored_face(self, face):
        self.restored_faces.append(face)

    def paste_faces_to_input_image(self):
        result = self.input_img.copy()
        for (y, x), face in zip(self.places, self.restored_faces):
            result[y : y + self.face_size, x : x + self.face_size] = face
        return result
# --- codeformer_model.py
import torch
from torch import nn

import devices
import retinaface
from face_helper import FaceRestoreHelper


class CodeFormer(nn.Module):
    def __init__(self, dim_embd=16):
        super().__init__()
        self.encoder = nn.Conv2d(3, dim_embd, 3, padding=1)
        self.decoder = nn.Conv2d(dim_embd, 3, 3, padding=1)

    def forward(self, face, w):
        return face + w * torch.tanh(self.decoder(torch.relu(self.encoder(face))))


class FaceRestorerCodeFormer:
    def __init__(self):
        self.net = self.face_helper = None

    def create_models(self):
        if self.net is not None and self.face_helper is not None:
            return self.net, self.face_helper
        device = devices.device_codeformer
        torch.manual_seed(4461)
        self.net = CodeFormer().to(device).eval().requires_grad_(False)
        self.face_helper = FaceRestoreHelper(8, det_model="retinaface_resnet50", device=device)
        assert isinstance(self.face_helper.face_det, retinaface.RetinaFace)
        return self.net, self.face_helper

    def restore(self, np_image, w=1.0):
        net, helper = self.create_models()
        helper.clean_all()
        helper.read_image(np_image)
        helper.get_faces()
        for cropped_face in helper.cropped_faces:
            face = torch.from_numpy(cropped_face).permute(2, 0, 1).unsqueeze(0).to(devices.device_codeformer)
            output = net(face, w=w).clamp(0, 1)
            helper.add_restored_face(output.squeeze(0).permute(1, 2, 0).cpu().numpy())
        return helper.paste_faces_to_input_image()

# === half_precision_training_goes_on
# thread: https://github.com/facebookresearch/ParlAI/pull/2512
# about: an agent learns to answer, its weights in half precision and what its optimizer remembers in full. Training is broken off, and goes on from the file
# operation: add_ on cpu, cuda:0
# operands: self|other|exp_avg|.*exp_avg.*|grad
# category: optimizer|checkpoint
# line: fp16.py: self.optimizer.state[id_map[k]] = v
# line: torch_agent.py: states = torch.load(
# line: torch_agent.py: self.optimizer.load_state_dict(
# repair: fp16.py: self.optimizer.state[id_map[k]] = v -> self.optimizer.state[id_map[k]] = {name: each.to(id_map[k].device) if torch.is_tensor(each) else each
#   for name, each in v.items()}
import os
import tempfile

import torch

from torch_agent import TorchAgent
from worlds import Teacher

OPT = {"hidden": 12, "vocab": 20, "learningrate": 0.02, "fp16": True, "fp16_impl": "mem_efficient", "gpu": 0, "seed": 2512}


def train(opt, steps):
    torch.manual_seed(opt["seed"])
    agent = TorchAgent(opt)
    teacher = Teacher(opt, start=agent.total_train_updates)
    for _ in range(steps):
        loss = agent.train_step(teacher.act())
    agent.save(opt["model_file"])
    return agent.total_train_updates, loss


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        opt = {**OPT, "model_file": os.path.join(folder, "model")}
        for steps in (3, 4):
            updates, loss = train(opt, steps)
            print(f"updates {updates} loss {loss:.3f}")
# --- worlds.py
import torch


class Teacher:
    """Says a few words; the answer to each is the word after it."""

    def __init__(self, opt, start=0):
        self.draw = torch.Generator().manual_seed(opt["seed"] + start)
        self.vocab = opt["vocab"]

    def act(self, batch=8):
        words = torch.randint(0, self.vocab, (batch, 4), generator=self.draw)
        return {"text_vec": words, "label_vec": (words + 1) % self.vocab}
# --- torch_agent.py
import os

import torch
from torch import nn

from fp16 import MemEffAdam, MemoryEfficientFP16Optimizer


class TorchAgent:
    def __init__(self, opt):
        self.opt = opt
        self.device = torch.device("cuda", opt["gpu"]) if torch.cuda.is_available() and opt["gpu"] >= 0 else torch.device("cpu")
        self.model = nn.Sequential(nn.Embedding(opt["vocab"], opt["hidden"]), nn.Linear(opt["hidden"], opt["vocab"]))
        self.criterion = nn.CrossEntropyLoss()
        self.total_train_updates = 0

        states = {}
        if os.path.isfile(opt["model_file"]):
            states = torch.load(opt["model_file"], map_location="cpu")
            self.model.load_state_dict(states["model"])
            self.total_train_updates = states["number_training_updates"]
        if opt["fp16"]:
            self.model = self.model.half()
        self.model.to(self.device)
        self.init_optim(states.get("optimizer"))

    def init_optim(self, optim_states=None):
        params = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = MemEffAdam(params, lr=self.opt["learningrate"])
        if self.opt["fp16"] and self.opt["fp16_impl"] == "mem_efficient":
            self.optimizer = MemoryEfficientFP16Optimizer(self.optimizer)
        if optim_states:
            self.optimizer.load_state_dict(optim_states)

    def train_step(self, batch):
        scores = self.model(batch["text_vec"].to(self.device))
        labels = batch["label_vec"].to(self.device)
        loss = self.criterion(scores.float().flatten(0, 1), labels.flatten())
        self.optimizer.zero_grad()
        self.optimizer.backward(loss)
        self.optimizer.step()
        self.total_train_updates += 1
        return loss.item()

    def save(self, path):
        states = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "number_training_updates": self.total_train_updates,
        }
        torch.save(states, path)
# --- fp16.py
import torch


class MemEffAdam(torch.optim.Optimizer):
    """Adam whose parameters may be halves; its moments are not."""

    def __init__(self, params, lr, betas=(0.9, 0.98), eps=1e-6):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, scale=1.0):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                grad = p.grad.float() / scale
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(grad)
                    state["exp_avg_sq"] = torch.zeros_like(grad)
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                state["step"] += 1
                exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                step_size = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.copy_(p.float() - step_size * exp_avg / (exp_avg_sq.sqrt() + group["eps"]))


class MemoryEfficientFP16Optimizer:
    def __init__(self, optimizer, loss_scale=128.0):
        self.optimizer, self.loss_scale = optimizer, loss_scale

    def zero_grad(self):
        self.optimizer.zero_grad()

    def backward(self, loss):
        (loss * self.loss_scale).backward()

    def step(self):
        self.optimizer.step(scale=self.loss_scale)

    def state_dict(self):
        return {**self.optimizer.state_dict(), "loss_scale": self.loss_scale}

    def load_state_dict(self, state_dict):
        """What is loaded keeps its precision, whatever that of the parameters is."""
        state_dict = dict(state_dict)
        self.loss_scale = state_dict.pop("loss_scale")
        self.optimizer.load_state_dict(state_dict)

        groups, saved_groups = self.optimizer.param_groups, state_dict["param_groups"]
        saved = [each for group in saved_groups for each in group["params"]]
        params = [p for group in groups for p in group["params"]]
        id_map = dict(zip(saved, params))
        for k, v in state_dict["state"].items():
            if k in id_map:
                self.optimizer.state[id_map[k]] = v

# === bases_that_follow_a_genome
# thread: https://github.com/evo-design/evo/issues/61
# about: a model of genomes is too large for one card. Which of its layers go where is told by a list of names that came with it, and a user shares these out
#   evenly
# operation: matmul|mm|linear|addmm on cuda:1, cpu
# operands: mat2|other|weight|.*unembed.*
# category: module-split
# line: make_device_map.py: names = list(json.loads(DEFAULT_DEVICE_MAP))
# line: make_device_map.py: "backbone.norm.scale": 0
# line: make_device_map.py: return {
# line: score.py: device_map =
# line: stripedhyena.py: return x @ self.weight.T
# repair: make_device_map.py: names = list(json.loads(DEFAULT_DEVICE_MAP)) -> names = list(json.loads(DEFAULT_DEVICE_MAP)) + ["backbone.unembed.weight"]
import sys

from score import main

sys.exit(main(["--num-devices", "2", "ACGTTGCA", "GGGATTTC"]))
# --- score.py
import argparse

import torch

from dispatch import dispatch
from make_device_map import make_new_device_map
from stripedhyena import StripedHyenaModelForCausalLM
from tokenizer import CharLevelTokenizer


@torch.inference_mode()
def score_sequences(seqs, model, tokenizer, device):
    input_ids = torch.tensor([tokenizer.tokenize(seq) for seq in seqs], device=device)
    logits, _ = model(input_ids)
    logprobs = logits.log_softmax(dim=-1)[:, :-1]
    picked = logprobs.gather(2, input_ids[:, 1:, None].to(logprobs.device)).squeeze(-1)
    return picked.mean(dim=1).tolist()


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("sequences", nargs="+")
    parser.add_argument("--num-devices", type=int, default=torch.cuda.device_count())
    args = parser.parse_args(argv)

    torch.manual_seed(61)
    tokenizer = CharLevelTokenizer(32)
    model = StripedHyenaModelForCausalLM(hidden_size=16, num_layers=4, vocab_size=32).eval()
    device_map = make_new_device_map(args.num_devices)
    model = dispatch(model, device_map)
    scores = score_sequences(args.sequences, model, tokenizer, device="cuda:0")
    print("scores", *(f"{score:.5f}" for score in scores))
    return 0
# --- tokenizer.py
class CharLevelTokenizer:
    def __init__(self, vocab_size):
        self.vocab_size = vocab_size

    def tokenize(self, text):
        return [ord(letter) % self.vocab_size for letter in text]
# --- make_device_map.py
import json
import math

DEFAULT_DEVICE_MAP = """{
    "backbone.embedding_layer.weight": 0,
    "backbone.blocks.0.pre_norm.scale": 0,
    "backbone.blocks.0.filter.short": 0,
    "backbone.blocks.0.mlp.weight": 0,
    "backbone.blocks.1.pre_norm.scale": 0,
    "backbone.blocks.1.filter.short": 0,
    "backbone.blocks.1.mlp.weight": 0,
    "backbone.blocks.2.pre_norm.scale": 0,
    "backbone.blocks.2.filter.short": 0,
    "backbone.blocks.2.mlp.weight": 0,
    "backbone.blocks.3.pre_norm.scale": 0,
    "backbone.blocks.3.filter.short": 0,
    "backbone.blocks.3.mlp.weight": 0,
    "backbone.norm.scale": 0
}"""


def module_of(name):
    """Layers of a block stay together."""
    parts = name.split(".")
    return ".".join(parts[:3] if parts[1] == "blocks" else parts[:2])


def make_new_device_map(num_devices):
    names = list(json.loads(DEFAULT_DEVICE_MAP))
    modules = list(dict.fromkeys(module_of(name) for name in names))
    even_split = math.ceil(len(modules) / num_devices)
    return {module: index // even_split for index, module in enumerate(modules)}
# --- dispatch.py
import torch


def bring_inputs(module, args):
    device = next(module.parameters()).device
    return tuple(arg.to(device) if torch.is_tensor(arg) else arg for arg in args)


def dispatch(model, device_map):
    for name, index in device_map.items():
        module = model.get_submodule(name).to(torch.device("cuda", index))
        module.register_forward_pre_hook(bring_inputs)
    model.device_map = device_map
    return model
# --- stripedhyena.py
import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return self.scale * x / (x.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt()


class ShortFilter(nn.Module):
    def __init__(self, size, length=3):
        super().__init__()
        self.short = nn.Parameter(torch.randn(size, 1, length) * 0.3)

    def forward(self, x):
        padded = nn.functional.pad(x.transpose(1, 2), (self.short.shape[-1] - 1, 0))
        return nn.functional.conv1d(padded, self.short, groups=len(self.short)).transpose(1, 2)


class ParallelGatedConvBlock(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.pre_norm = RMSNorm(size)
        self.filter = ShortFilter(size)
        self.mlp = nn.Linear(size, size, bias=False)

    def forward(self, u):
        return u + self.mlp(torch.tanh(self.filter(self.pre_norm(u))))


class VocabParallelEmbedding(nn.Embedding):
    def embed(self, tokens):
        return self.forward(tokens)


class VocabParallelUnembedding(nn.Module):
    def __init__(self, size, vocab):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab, size) * 0.3)

    def forward(self, x):
        return x @ self.weight.T


class StripedHyena(nn.Module):
    def __init__(self, size, layers, vocab):
        super().__init__()
        self.embedding_layer = VocabParallelEmbedding(vocab, size)
        self.norm = RMSNorm(size)
        self.unembed = VocabParallelUnembedding(size, vocab)
        self.blocks = nn.ModuleList(ParallelGatedConvBlock(size) for _ in range(layers))

    def forward(self, tokens):
        x = self.embedding_layer(tokens)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.unembed(x), None


class StripedHyenaModelForCausalLM(nn.Module):
    def __init__(self, hidden_size, num_layers, vocab_size):
        super().__init__()
        self.backbone = StripedHyena(hidden_size, num_layers, vocab_size)

    def forward(self, input_ids):
        return self.backbone(input_ids)

# === classes_with_a_proxy_each
# thread: https://github.com/KevinMusgrave/pytorch-metric-learning/issues/139
# about: pictures of one class shall lie close together. Each class has a point of its own that is learned along with the net and pulls its pictures to it
# operation: linear|addmm|mm|matmul on cuda:0, cpu
# operands: weight|mat2|other|.*prox.*
# category: module-split
# line: losses.py: proxies = F.normalize(self.proxies
# line: losses.py: self.proxies = nn.Parameter(
# line: losses.py: cos = F.linear(
# line: trainers.py: loss = self.loss_funcs["metric_loss"](
# line: trainers.py: self.loss_funcs = loss_funcs
# line: example.py: loss_func = ProxyAnchorLoss(
# line: trainers.py: model.to(self.data_device)
# repair: losses.py: proxies = F.normalize(self.proxies, p=2, dim=1) -> proxies = F.normalize(self.proxies.to(embeddings.device), p=2, dim=1)
import example

if __name__ == "__main__":
    example.run()
# --- example.py
import torch
from torch import nn

from dataset import ColouredSquares
from losses import ProxyAnchorLoss
from trainers import MetricLossOnly, test

NUM_CLASSES, EMBEDDING_SIZE = 4, 8


def run():
    # %% Simple Trainer
    torch.manual_seed(139)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    # %% A trunk, and an embedder behind it
    trunk = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()).to(device)
    embedder = nn.Linear(48, EMBEDDING_SIZE).to(device)

    # %% What is to become small
    loss_func = ProxyAnchorLoss(num_classes=NUM_CLASSES, embedding_size=EMBEDDING_SIZE, margin=0.1, alpha=16)

    # %% All three learn, each at its own pace
    optimizers = {
        "trunk_optimizer": torch.optim.Adam(trunk.parameters(), lr=0.01),
        "embedder_optimizer": torch.optim.Adam(embedder.parameters(), lr=0.01),
        "metric_loss_optimizer": torch.optim.Adam(loss_func.parameters(), lr=0.05),
    }

    # %% Put together
    models = {"trunk": trunk, "embedder": embedder}
    loss_funcs = {"metric_loss": loss_func}

    # %% Train and test
    trainer = MetricLossOnly(models, optimizers, 16, loss_funcs, ColouredSquares(NUM_CLASSES, seed=1))
    trainer.train(num_epochs=3)
    precision = test(models, ColouredSquares(NUM_CLASSES, seed=2), device)
    print(f"total_loss={trainer.losses['total_loss']:.5f} precision_at_1={precision:.4f}")
# --- dataset.py
import torch
from torch.utils.data import Dataset


class ColouredSquares(Dataset):
    def __init__(self, num_classes, seed, length=48):
        draw = torch.Generator().manual_seed(seed)
        colours = torch.rand(num_classes, 3, 1, 1, generator=torch.Generator().manual_seed(0))
        self.targets = torch.arange(length) % num_classes
        self.data = colours[self.targets] + 0.25 * torch.randn(length, 3, 6, 6, generator=draw)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return self.data[index], self.targets[index]
# --- losses.py
import torch
from torch import nn
from torch.nn import functional as F


class WeightRegularizerMixin:
    def __init__(self, weight_reg_weight=0.0, **kwargs):
        super().__init__(**kwargs)
        self.weight_reg_weight = weight_reg_weight


class BaseMetricLossFunction(nn.Module):
    def forward(self, embeddings, labels, indices_tuple=None):
        """
        Args:
            embeddings: a row for each picture
            labels: of which class each is
            indices_tuple: those that a miner has picked
        """
        embeddings = F.normalize(embeddings, p=2, dim=1)
        return self.compute_loss(embeddings, labels, indices_tuple)

    def compute_loss(self, embeddings, labels, indices_tuple):
        raise NotImplementedError


class ProxyAnchorLoss(WeightRegularizerMixin, BaseMetricLossFunction):
    def __init__(self, num_classes, embedding_size, margin=0.1, alpha=32, **kwargs):
        super().__init__(**kwargs)
        self.proxies = nn.Parameter(torch.randn(num_classes, embedding_size))
        nn.init.kaiming_normal_(self.proxies, mode="fan_out")
        self.num_classes = num_classes
        self.margin = margin
        self.alpha = alpha

    def compute_loss(self, embeddings, labels, indices_tuple):
        proxies = F.normalize(self.proxies, p=2, dim=1)
        cos = F.linear(embeddings, proxies)

        pos_mask = F.one_hot(labels, self.num_classes).float()
        neg_mask = 1 - pos_mask
        with_pos_proxies = (pos_mask.sum(dim=0) != 0).sum()

        pos_exp = torch.exp(-self.alpha * (cos - self.margin)) * pos_mask
        neg_exp = torch.exp(self.alpha * (cos + self.margin)) * neg_mask
        pos_term = torch.log(1 + pos_exp.sum(dim=0)).sum() / with_pos_proxies
        neg_term = torch.log(1 + neg_exp.sum(dim=0)).sum() / self.num_classes
        return pos_term + neg_term
# --- trainers.py
import torch
from torch.utils.data import DataLoader


class MetricLossOnly:
    def __init__(self, models, optimizers, batch_size, loss_funcs, dataset, data_device=None):
        self.models = models
        self.optimizers = optimizers
        self.loss_funcs = loss_funcs
        self.loader = DataLoader(dataset, batch_size=batch_size)
        self.data_device = data_device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.losses = {"metric_loss": 0, "total_loss": 0}

    def train(self, num_epochs):
        for model in self.models.values():
            model.to(self.data_device)
            model.train()
        for self.epoch in range(1, num_epochs + 1):
            for batch in self.loader:
                self.forward_and_backward(batch)

    def forward_and_backward(self, batch):
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()
        self.calculate_loss(batch)
        self.losses["total_loss"].backward()
        for optimizer in self.optimizers.values():
            optimizer.step()

    def calculate_loss(self, batch):
        data, labels = batch
        embeddings = self.compute_embeddings(data)
        labels = labels.to(self.data_device)
        loss = self.loss_funcs["metric_loss"](embeddings, labels)
        self.losses["metric_loss"] = loss
        self.losses["total_loss"] = sum(value for name, value in self.losses.items() if name != "total_loss")

    def compute_embeddings(self, data):
        return self.models["embedder"](self.models["trunk"](data.to(self.data_device)))


@torch.no_grad()
def test(models, dataset, device):
    """How often the nearest other picture is of the same class."""
    embeddings = models["embedder"](models["trunk"](dataset.data.to(device)))
    distances = torch.cdist(embeddings, embeddings).fill_diagonal_(float("inf"))
    nearest = distances.argmin(dim=1).cpu()
    return (dataset.targets[nearest] == dataset.targets).float().mean().item()

# === masks_that_explain_a_class
# thread: https://github.com/khorrams/IGOS_pp/issues/9
# about: which part of a picture makes a net see a class is shown by a mask, which is learned. How far to go in each step is searched for, for those pictures
#   of a batch that still want it
# error: indices should be either on cpu or on the same device
# operation: index|getitem|__getitem__ on cpu, cuda:0
# operands: self|indices|index|label
# category: input-not-moved|created-without-device
# line: methods.py: label[indices],
# line: main.py: label = torch.tensor(
# line: main.py: label=label.detach(),
# repair: methods.py: label[indices], -> label.cuda()[indices],
import argparse

import numpy as np
import torch

from methods import IGOS, iGOS_pp
from methods_helper import init
from model import load_model
from utils import get_initial, load_images

METHODS = {'I-GOS': IGOS, 'iGOS++': iGOS_pp}


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument('--method', type=str, default='I-GOS', choices=METHODS)
    parser.add_argument('--opt', type=str, default='LS', choices=['LS', 'NAG'])
    parser.add_argument('--size', type=int, default=4)
    parser.add_argument('--input_size', type=int, default=16)
    parser.add_argument('--num_images', type=int, default=3)
    parser.add_argument('--manual_seed', type=int, default=63)
    return parser.parse_args()


def main(args):
    torch.manual_seed(args.manual_seed)
    np.random.seed(args.manual_seed)
    init(args.input_size)
    model = load_model('vgg', classes=5).cuda().eval()
    for param in model.parameters():
        param.requires_grad = False

    image, baseline = load_images(args.num_images, args.input_size)
    image, baseline = image.cuda(), baseline.cuda()
    predicted = model(image).argmax(dim=1).tolist()
    label = torch.tensor(predicted)
    method = METHODS[args.method]
    masks = method(
        model,
        init_mask=get_initial(args.num_images, args.size),
        image=image.detach(),
        baseline=baseline.detach(),
        label=label.detach(),
        size=args.size,
        opt=args.opt,
    )
    print('labels', predicted, 'masks', tuple(masks.shape), round(masks.mean().item(), 4), round(masks.min().item(), 4))


if __name__ == '__main__':
    main(arguments())
# --- model.py
from torch import nn


def load_model(new_model, classes):
    width = {'vgg': 12, 'resnet': 16}[new_model]
    model = nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.ReLU(inplace=False),
        nn.AdaptiveMaxPool2d(4),
        nn.Flatten(),
        nn.Linear(16 * width, classes),
    )
    nn.init.normal_(model[-1].weight, std=0.6)
    return model
# --- utils.py
import numpy as np
import torch
from torch.nn import functional as F


def load_images(count, size):
    """Pictures, and the same so blurred that nothing is seen."""
    images = torch.from_numpy(np.random.rand(count, 3, size, size).astype(np.float32))
    blurred = F.avg_pool2d(images, 5, stride=1, padding=2, count_include_pad=False)
    return images, blurred


def get_initial(count, size):
    return torch.ones(count, 1, size, size) * 0.9
# --- methods_helper.py
import torch


def init(out_size):
    upscale.out_size = out_size
    upscale.up = torch.nn.UpsamplingBilinear2d(size=(out_size, out_size)).cuda()


def upscale(masks):
    return upscale.up(masks).expand((-1, 1, upscale.out_size, upscale.out_size))


def tv_norm(image, beta=2):
    down, across = image.diff(dim=2), image.diff(dim=3)
    return down.abs().pow(beta).mean(dim=(1, 2, 3)) + across.abs().pow(beta).mean(dim=(1, 2, 3))


def softmax_output(inputs, model):
    return model(inputs).softmax(dim=1)


def interval_score(model, image, baseline, label, up_masks, num_iter, output_func):
    parts = torch.linspace(1 / num_iter, 1, num_iter).cuda()
    part_masks = torch.einsum('bchw,n->bnchw', up_masks, parts)
    blended = torch.lerp(baseline[:, None].expand(-1, num_iter, -1, -1, -1), image[:, None], part_masks)
    scores = output_func(blended.flatten(0, 1), model).unflatten(0, (-1, num_iter))
    wanted = label.cuda()[:, None, None].expand(-1, num_iter, 1)
    return scores.gather(2, wanted) / num_iter


def line_search(masks, total_grads, loss_function, alpha, decay=0.2, beta=1e-4, max_steps=6):
    """The longest step, for each mask, that makes its loss small enough."""
    size = masks.shape[0]
    alphas = torch.ones(size, 1, 1, 1, device=masks.device) * alpha
    unfinished = torch.ones(size, dtype=torch.bool, device=masks.device)
    start = None
    for _ in range(max_steps):
        indices = unfinished.nonzero().flatten()
        with torch.no_grad():
            if start is None:
                start = loss_function(upscale(masks), masks, indices).clone()
            trial = (masks - alphas * total_grads).clamp(0, 1)[indices]
            losses = loss_function(upscale(trial), trial, indices)
        wanted = beta * alphas[indices].flatten() * total_grads[indices].flatten(1).square().sum(dim=1)
        unfinished[indices] = losses > start[indices] - wanted
        if not unfinished.any():
            break
        alphas[unfinished] *= decay
    return alphas
# --- methods.py
import torch

from methods_helper import interval_score, line_search, softmax_output, tv_norm, upscale


def IGOS(model, init_mask, image, baseline, label, L1=0.02, L2=0.2, size=28, ig_iter=5, iterations=4, alpha=8, opt='LS', deletion=True):

    def regularization_loss(masks):
        return L1 * (1 - masks).abs().mean(dim=(1, 2, 3)) + L2 * tv_norm(masks)

    def loss_function(up_masks, masks, indices):
        losses = interval_score(
            model,
            image[indices],
            baseline[indices],
            label[indices],
            up_masks,
            ig_iter,
            softmax_output,
        )
        sign = 1 if deletion else -1
        return sign * losses.sum(dim=1).view(-1) + regularization_loss(masks)

    masks = torch.ones((image.shape[0], 1, size, size), dtype=torch.float32, device='cuda')
    masks = (masks * init_mask.cuda()).requires_grad_(True)
    cita = torch.zeros(1).cuda()

    for i in range(iterations):
        losses = regularization_loss(masks)
        losses = losses + interval_score(model, image, baseline, label, upscale(masks), ig_iter, softmax_output).sum(dim=(1, 2))
        total_grads, = torch.autograd.grad(losses.sum(), masks)

        if opt == 'LS':
            alphas = line_search(masks, total_grads, loss_function, alpha)
            masks.data -= total_grads * alphas

        if opt == 'NAG':
            e = i / (i + 3)
            cita_p = cita
            cita = masks.data - alpha * total_grads
            masks.data = cita + e * (cita - cita_p)

        masks.data.clamp_(0, 1)

    return masks


def iGOS_pp(*args, **kwargs):
    """A mask that takes away and one that puts in, laid on each other."""
    return IGOS(*args, **kwargs, deletion=True) * IGOS(*args, **kwargs, deletion=False)
