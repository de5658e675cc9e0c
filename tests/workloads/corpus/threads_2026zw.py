# === dry_air_of_a_coupled_run
# thread: https://github.com/ai2cm/ace/issues/570
# about: a model of the air and one of the sea step in turn, each rank on its own card. After each step of the air its pressure is put right, for which the
#   heights of its levels are needed
# operation: mul on cpu, cuda:1
# operands: self|ak_diff|.*ak.*
# category: input-not-moved|created-without-device
# line: gridded_data.py: self._coupled = properties
# line: main.py: GriddedData(
# line: getters.py: HybridSigmaPressureCoordinate(
# line: getters.py: ak = torch.linspace(
# line: corrector.py: self._vertical_coordinate = vertical_coordinate
# line: corrector.py: ak_diff, bk_diff =
# repair: gridded_data.py: self._coupled = properties -> self._coupled = properties.to_device()
import argparse

import torch

from corrector import AtmosphereCorrector
from device import get_device, set_local_rank
from getters import get_coupled_data
from gridded_data import GriddedData
from stepper import CoupledStepper, Stepper

parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", type=int, default=1)
parser.add_argument("--n-steps", type=int, default=3)
args = parser.parse_args()


def main():
    set_local_rank(args.local_rank)
    torch.manual_seed(570)
    batches, properties = get_coupled_data(n_batches=2, n_levels=3)
    data = GriddedData(batches, properties)
    corrector = AtmosphereCorrector(data.vertical_coordinate.atmosphere)
    atmosphere = Stepper(["PRESsfc", "water_0", "water_1", "water_2", "surface_temperature"], 12, corrector)
    ocean = Stepper(["sst", "thetao_0"], 8)
    stepper = CoupledStepper(atmosphere, ocean)
    for index, batch in enumerate(data.loader):
        with torch.no_grad():
            generated = stepper.predict(batch, args.n_steps)
        pressure, sst = generated["PRESsfc"], generated["sst"]
        print(index, tuple(pressure.shape), f"{pressure.mean().item():.2f} {sst.mean().item():.4f}")


if __name__ == "__main__":
    main()
# --- device.py
import torch

_device = torch.device("cpu")


def set_local_rank(local_rank: int):
    global _device
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
        _device = torch.device("cuda", torch.cuda.current_device())


def get_device() -> torch.device:
    return _device
# --- getters.py
import torch

from properties import CoupledDatasetProperties, CoupledVerticalCoordinate, DepthCoordinate, HybridSigmaPressureCoordinate


def get_coupled_data(n_batches: int, n_levels: int):
    ak = torch.linspace(300.0, 0.0, n_levels + 1)
    bk = torch.linspace(0.0, 1.0, n_levels + 1)
    vertical = CoupledVerticalCoordinate(
        atmosphere=HybridSigmaPressureCoordinate(ak, bk),
        ocean=DepthCoordinate(torch.linspace(0.0, 100.0, 2)),
    )
    draw = torch.Generator().manual_seed(1)
    batches = []
    for _ in range(n_batches):
        batch = {"PRESsfc": 1.0e3 + torch.randn(2, 4, 8, generator=draw)}
        for level in range(n_levels):
            batch[f"water_{level}"] = 0.01 * torch.rand(2, 4, 8, generator=draw)
        for name in ("surface_temperature", "sst", "thetao_0"):
            batch[name] = torch.randn(2, 4, 8, generator=draw)
        batches.append(batch)
    return batches, CoupledDatasetProperties(vertical, timestep_hours=6)
# --- properties.py
import dataclasses

import torch

from device import get_device


@dataclasses.dataclass
class HybridSigmaPressureCoordinate:
    ak: torch.Tensor
    bk: torch.Tensor

    def to(self, device):
        return HybridSigmaPressureCoordinate(self.ak.to(device), self.bk.to(device))


@dataclasses.dataclass
class DepthCoordinate:
    idepth: torch.Tensor

    def to(self, device):
        return DepthCoordinate(self.idepth.to(device))


@dataclasses.dataclass
class CoupledVerticalCoordinate:
    atmosphere: HybridSigmaPressureCoordinate
    ocean: DepthCoordinate


@dataclasses.dataclass
class CoupledDatasetProperties:
    vertical_coordinate: CoupledVerticalCoordinate
    timestep_hours: int

    def to_device(self) -> "CoupledDatasetProperties":
        device = get_device()
        vertical = CoupledVerticalCoordinate(self.vertical_coordinate.atmosphere.to(device), self.vertical_coordinate.ocean.to(device))
        return dataclasses.replace(self, vertical_coordinate=vertical)
# --- gridded_data.py
from device import get_device
from properties import CoupledDatasetProperties


class GriddedData:
    def __init__(self, loader, properties: CoupledDatasetProperties):
        self._loader = loader
        self._coupled = properties

    @property
    def loader(self):
        for batch in self._loader:
            yield {name: value.to(get_device()) for name, value in batch.items()}

    @property
    def vertical_coordinate(self):
        return self._coupled.vertical_coordinate
# --- corrector.py
import torch


class AtmosphereCorrector:
    """After a step there is as much dry air as there was before."""

    def __init__(self, vertical_coordinate):
        self._vertical_coordinate = vertical_coordinate

    def __call__(self, before, after):
        ak_diff, bk_diff = self._vertical_coordinate.ak.diff(), self._vertical_coordinate.bk.diff()
        levels = range(len(ak_diff))
        wat = torch.stack([after[f"water_{level}"] for level in levels], dim=-1)
        dry_air = (before["PRESsfc"] * (1 - before["water_0"])).mean()
        new_pressure = (dry_air + (ak_diff * wat).sum(-1)) / (1 - (bk_diff * wat).sum(-1))
        return {**after, "PRESsfc": new_pressure}
# --- stepper.py
import torch
from torch import nn

from device import get_device


class Stepper:
    def __init__(self, names, width, corrector=None):
        self.names = names
        module = nn.Sequential(nn.Conv2d(len(names), width, 3, padding=1), nn.GELU(), nn.Conv2d(width, len(names), 1))
        self.module = module.to(get_device())
        self._corrector = corrector

    def step(self, state):
        packed = torch.stack([state[name] for name in self.names], dim=1)
        output = packed + 0.01 * self.module(packed / (1 + packed.abs().amax(dim=(2, 3), keepdim=True)))
        after = dict(zip(self.names, output.unbind(dim=1)))
        return self._corrector(state, after) if self._corrector else after


class CoupledStepper:
    def __init__(self, atmosphere: Stepper, ocean: Stepper):
        self.atmosphere, self.ocean = atmosphere, ocean

    def predict(self, state, n_steps: int):
        for _ in range(n_steps):
            state = {**state, **self.ocean.step(state)}
            for _ in range(2):
                state = {**state, **self.atmosphere.step({**state, "surface_temperature": state["sst"]})}
        return state

# === rows_of_a_picture_end_with_a_mark
# thread: https://github.com/LLaVA-VL/LLaVA-NeXT/issues/154
# about: a model that sees is put on two cards, layer by layer. A picture becomes rows of features, and a learned vector is set behind each picture before the
#   words
# operation: cat on cuda:1, cuda:0
# operands: tensors|.*image_newline.*
# category: module-split
# line: llava_arch.py: image_feature = torch.cat(
# line: builder.py: device_map["model.image_newline"] =
# line: builder.py: device_map["model.mm_projector"] =
# line: llava_arch.py: image_features = self.encode_images(
# line: llava_arch.py: return self.model.mm_projector(
# line: eval_onevision.py: load_pretrained_model(
# repair: llava_arch.py: image_feature = torch.cat((image_feature, self.model.image_newline[None]), dim=0) -> image_feature = torch.cat((image_feature,
#   self.model.image_newline[None].to(image_feature.device)), dim=0)
import eval_onevision

if __name__ == "__main__":
    eval_onevision.main()
# --- eval_onevision.py
import torch

from builder import load_pretrained_model
from llava_arch import IMAGE_TOKEN_INDEX


@torch.inference_mode()
def main():
    torch.manual_seed(154)
    model = load_pretrained_model("llava-onevision-tiny", device_map="auto")
    generator = torch.Generator().manual_seed(7)
    questions = [[3, IMAGE_TOKEN_INDEX, 5, 9], [IMAGE_TOKEN_INDEX, 4, 4, 8]]
    answers = []
    for ids in questions:
        images = [torch.randn(3, 8, 8, generator=generator).to(dtype=torch.float32, device="cuda:0")]
        input_ids = torch.tensor([ids], device="cuda:0")
        output_ids, scores = model.generate(input_ids, images=images, max_new_tokens=4)
        answers.append((output_ids[0].tolist(), round(scores.sum().item(), 4)))
    print("answers", answers)
# --- builder.py
import torch
from torch import nn

from llava_qwen import LlavaQwenForCausalLM


def send_input_to(device):
    def pre_hook(module, args):
        return tuple(arg.to(device) if torch.is_tensor(arg) else arg for arg in args)

    return pre_hook


def auto_device_map(model: nn.Module, num_gpus: int) -> dict:
    layers = len(model.model.layers)
    device_map = {f"model.layers.{i}": i * num_gpus // layers for i in range(layers)}
    device_map["model.embed_tokens"] = 0
    device_map["model.image_newline"] = 0
    device_map["model.norm"] = num_gpus - 1
    device_map["model.vision_tower"] = num_gpus - 1
    device_map["model.mm_projector"] = num_gpus - 1
    device_map["lm_head"] = 0
    return device_map


def dispatch_model(model: nn.Module, device_map: dict) -> nn.Module:
    for name, index in device_map.items():
        device = torch.device("cuda", index)
        parent, _, leaf = name.rpartition(".")
        part = getattr(model.get_submodule(parent), leaf) if leaf.isidentifier() else model.get_submodule(name)
        if isinstance(part, nn.Parameter):
            part.data = part.data.to(device)
        else:
            part.to(device).register_forward_pre_hook(send_input_to(device))
    model.hf_device_map = device_map
    return model


def load_pretrained_model(model_name: str, device_map="auto"):
    width = {"llava-onevision-tiny": 16, "llava-onevision-small": 32}[model_name]
    model = LlavaQwenForCausalLM(width=width, layers=4, vocab=24).eval()
    if device_map == "auto":
        return dispatch_model(model, auto_device_map(model, torch.cuda.device_count()))
    return model.to(device_map)
# --- llava_arch.py
import torch

IMAGE_TOKEN_INDEX = -200


class LlavaMetaForCausalLM:
    """What a language model needs besides, to be given pictures."""

    def encode_images(self, images):
        return self.model.mm_projector(self.model.vision_tower(images))

    def prepare_inputs_labels_for_multimodal(self, input_ids, images):
        image_features = self.encode_images(torch.stack(images))
        new_image_features = []
        for image_feature in image_features:
            image_feature = torch.cat((image_feature, self.model.image_newline[None]), dim=0)
            new_image_features.append(image_feature)

        new_input_embeds = []
        for cur_input_ids in input_ids:
            at = torch.where(cur_input_ids == IMAGE_TOKEN_INDEX)[0].item()
            before = self.model.embed_tokens(cur_input_ids[:at])
            after = self.model.embed_tokens(cur_input_ids[at + 1 :])
            cur_new_input_embeds = [before, new_image_features.pop(0), after]
            cur_new_input_embeds = [x.to(self.device) for x in cur_new_input_embeds]
            new_input_embeds.append(torch.cat(cur_new_input_embeds))
        return torch.stack(new_input_embeds)
# --- llava_qwen.py
import torch
from torch import nn

from llava_arch import LlavaMetaForCausalLM


class DecoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, hidden):
        length = torch.arange(1, hidden.shape[1] + 1, device=hidden.device)[:, None]
        hidden = hidden + self.mix(hidden).cumsum(dim=1) / length
        return hidden + self.mlp(hidden)


class LlavaQwenModel(nn.Module):
    def __init__(self, width, layers, vocab):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, width)
        self.vision_tower = nn.Sequential(nn.Conv2d(3, width, 4, stride=4), nn.Flatten(2))
        self.mm_projector = nn.Sequential(nn.Linear(4, width), nn.GELU(), nn.Linear(width, width))
        self.image_newline = nn.Parameter(torch.randn(width) * width**-0.5)
        self.layers = nn.ModuleList(DecoderLayer(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)


class LlavaQwenForCausalLM(nn.Module, LlavaMetaForCausalLM):
    def __init__(self, width, layers, vocab):
        super().__init__()
        self.model = LlavaQwenModel(width, layers, vocab)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    @property
    def device(self):
        return self.model.embed_tokens.weight.device

    def generate(self, input_ids, images, max_new_tokens):
        embeds = self.prepare_inputs_labels_for_multimodal(input_ids, images)
        tokens, scores = [], []
        for _ in range(max_new_tokens):
            hidden = embeds
            for layer in self.model.layers:
                hidden = layer(hidden)
            logits = self.lm_head(self.model.norm(hidden)[:, -1])
            tokens.append(logits.argmax(dim=-1, keepdim=True))
            scores.append(logits.log_softmax(dim=-1).gather(1, tokens[-1]))
            embeds = torch.cat([embeds, self.model.embed_tokens(tokens[-1])], dim=1)
        return torch.cat(tokens, dim=1), torch.cat(scores, dim=1)

# === edges_of_tracks_that_are_real
# thread: https://github.com/gnn-tracking/gnn_tracking/pull/449
# about: hits in a detector are joined by edges, and a network says which edges belong to a track. Real edges are few, so the loss may be told to weigh them
#   more
# operation: mul on cpu, cuda:0
# operands: self|other|pos_weight
# category: created-without-device|state-not-registered
# line: losses.py: pos_weight = torch.tensor([1.0])
# line: losses.py: pos_weight=self.hparams["pos_weight"],
# line: losses.py: pos_term =
# repair: losses.py: pos_weight = torch.tensor([1.0]) -> pass
# repair: losses.py: pos_weight=self.hparams["pos_weight"], -> pos_weight=torch.tensor([1.0], device=w.device) if self.hparams["pos_weight"] is None else
#   self.hparams["pos_weight"],
import torch

from ec import ECForGraphTCN, Graph
from losses import EdgeWeightFocalLoss
from trainer import Trainer, TrackingModule


def make_graph(seed: int, hits: int = 40) -> Graph:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(hits, 4, generator=draw)
    edge_index = torch.randint(0, hits, (2, 120), generator=draw)
    particle = torch.randint(0, 8, (hits,), generator=draw)
    y = particle[edge_index[0]] == particle[edge_index[1]]
    pt = torch.rand(hits, generator=draw) * 2
    return Graph(x=x, edge_index=edge_index, y=y, pt=pt)


def main() -> None:
    torch.manual_seed(449)
    model = ECForGraphTCN(node_indim=4, hidden_dim=16)
    module = TrackingModule(model, loss_fct=EdgeWeightFocalLoss(alpha=0.4, gamma=2.0, pt_thld=0.2), lr=0.01)
    trainer = Trainer(max_epochs=3, accelerator="gpu" if torch.cuda.is_available() else "cpu")
    trainer.fit(module, [make_graph(seed) for seed in range(4)])
    print("losses", *(f"{loss:.5f}" for loss in trainer.history))


if __name__ == "__main__":
    main()
# --- losses.py
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


def binary_focal_loss(*, inpt: Tensor, target: Tensor, alpha: float, gamma: float, pos_weight: Tensor) -> Tensor:
    """Focal loss of two classes: what is nearly right already counts less.

    Args:
        alpha: How much of the weight real edges have
        gamma: How much less
        pos_weight: To find more of the real edges, or fewer false ones
    """
    assert gamma >= 0.0
    assert 0 <= alpha <= 1
    probs_neg = 1 - inpt
    pos_term = pos_weight * (-alpha * probs_neg.pow(gamma) * target * inpt.log())
    neg_term = -(1.0 - alpha) * inpt.pow(gamma) * (1.0 - target) * probs_neg.log()
    return torch.mean(pos_term + neg_term)


def falsify_low_pt_edges(*, y: Tensor, edge_index: Tensor, pt: Tensor, pt_thld: float = 0.0) -> Tensor:
    """An edge of a slow particle counts as none."""
    fast_enough = pt.index_select(0, edge_index[0]) > pt_thld
    return y.bool() & fast_enough if pt_thld else y


class FalsifyLowPtEdgeWeightLoss(nn.Module, ABC):
    def __init__(self, *, pt_thld: float = 0.0):
        super().__init__()
        self.hparams = {"pt_thld": pt_thld}

    def forward(self, *, w: Tensor, y: Tensor, edge_index: Tensor, pt: Tensor) -> Tensor:
        y = falsify_low_pt_edges(y=y, edge_index=edge_index, pt=pt, pt_thld=self.hparams["pt_thld"])
        return self._forward(w=w, y=y.float())

    @abstractmethod
    def _forward(self, *, w: Tensor, y: Tensor) -> Tensor:
        pass


class EdgeWeightFocalLoss(FalsifyLowPtEdgeWeightLoss):
    def __init__(self, *, alpha=0.25, gamma=2.0, pos_weight=None, **kwargs):
        super().__init__(**kwargs)
        if pos_weight is None:
            pos_weight = torch.tensor([1.0])
        self.hparams.update(alpha=alpha, gamma=gamma, pos_weight=pos_weight)

    def _forward(self, *, w: Tensor, y: Tensor) -> Tensor:
        return binary_focal_loss(
            inpt=w,
            target=y,
            alpha=self.hparams["alpha"],
            gamma=self.hparams["gamma"],
            pos_weight=self.hparams["pos_weight"],
        )
# --- ec.py
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn


@dataclass
class Graph:
    x: Tensor
    edge_index: Tensor
    y: Tensor
    pt: Tensor

    def to(self, device) -> "Graph":
        return Graph(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})


class ECForGraphTCN(nn.Module):
    """Says of each edge how likely it is that both of its hits are of one track."""

    def __init__(self, node_indim: int, hidden_dim: int):
        super().__init__()
        self.node_encoder = nn.Sequential(nn.Linear(node_indim, hidden_dim), nn.ReLU())
        self.relational = nn.Linear(2 * hidden_dim, hidden_dim)
        self.w = nn.Sequential(nn.Linear(2 * hidden_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, 1))

    def forward(self, data: Graph) -> Tensor:
        i, j = data.edge_index
        h = self.node_encoder(data.x)
        messages = self.relational(torch.cat([h[i], h[j]], dim=1))
        h = h + torch.zeros_like(h).index_add(0, j, messages)
        logits = self.w(torch.cat([h[i], h[j]], dim=1)).squeeze(-1)
        return torch.sigmoid(0.2 * logits).clamp(1e-6, 1 - 1e-6)
# --- trainer.py
import torch
from torch import nn


class TrackingModule(nn.Module):
    def __init__(self, model: nn.Module, loss_fct: nn.Module, lr: float):
        super().__init__()
        self.model = model
        self.loss_fct = loss_fct
        self.lr = lr

    def training_step(self, batch):
        w = self.model(batch)
        return self.loss_fct(w=w, y=batch.y, edge_index=batch.edge_index, pt=batch.pt)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


class Trainer:
    def __init__(self, max_epochs: int, accelerator: str):
        self.max_epochs = max_epochs
        self.device = torch.device("cuda:0" if accelerator == "gpu" else "cpu")
        self.history = []

    def fit(self, module: TrackingModule, graphs) -> None:
        module.to(self.device)
        optimizer = module.configure_optimizers()
        for _ in range(self.max_epochs):
            total = 0.0
            for graph in graphs:
                loss = module.training_step(graph.to(self.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item() / len(graphs)
            self.history.append(total)

# === hamiltonians_from_a_reference
# thread: https://github.com/deepmodeling/DeePTB/pull/178
# about: a model of a solid is trained on one card and written to a file, with how it was made. On another card a new one is begun from that file
# operation: mm|matmul on cuda:0, cuda:1
# operands: mat2|other|scales|.*scales.*
# category: checkpoint|created-without-device
# line: deeptb.py: ckpt = torch.load(checkpoint)
# line: scale.py: scales = torch.as_tensor(
# line: scale.py: self.register_buffer("scales"
# line: scale.py: return hamiltonian * (
# line: deeptb.py: self.scale =
# line: deeptb.py: model = cls(
# repair: deeptb.py: ckpt = torch.load(checkpoint) -> ckpt = torch.load(checkpoint, map_location=device)
import argparse
import os
import tempfile

import torch

from deeptb import NNENV
from statistics_of import element_statistics
from structures import silicon_carbide


def train(checkpoint, device):
    structures = [silicon_carbide(seed, device=device) for seed in range(3)]
    scales = element_statistics(structures, n_types=2)
    model = NNENV(
        embedding={"n_types": 2, "hidden": 12, "r_max": 3.0},
        prediction={"n_orbitals": 4, "scales": scales},
        device=device,
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(4):
        for data in structures:
            loss = (model(data) - data["hamiltonian"]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.save(checkpoint)
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-device", default="cuda:1")
    parser.add_argument("--device", default="cuda:0")
    args = parser.parse_args()
    torch.manual_seed(178)
    with tempfile.TemporaryDirectory() as output:
        checkpoint = os.path.join(output, "nnenv.best.pth")
        loss = train(checkpoint, args.train_device)
        print("trained", round(loss, 5))
        model = NNENV.from_reference(checkpoint, device=args.device)
    data = silicon_carbide(9, device=args.device)
    with torch.no_grad():
        hamiltonian = model(data)
    print("onsite", list(hamiltonian.shape), round(hamiltonian.abs().mean().item(), 5))


if __name__ == "__main__":
    main()
# --- deeptb.py
import torch
from torch import nn

from embedding import E3Embedding
from scale import PerSpeciesScale


class NNENV(nn.Module):
    """Blocks of a Hamiltonian from where the atoms are."""

    def __init__(self, embedding: dict, prediction: dict, device="cpu"):
        super().__init__()
        self.model_options = {"embedding": embedding, "prediction": prediction}
        self.embedding = E3Embedding(**embedding, device=device)
        self.head = nn.Linear(embedding["hidden"], prediction["n_orbitals"], device=device)
        self.scale = PerSpeciesScale(prediction["scales"], device=device)

    def forward(self, data):
        features = self.embedding(data)
        return self.scale(self.head(features), data["atom_types"])

    def save(self, checkpoint):
        torch.save({"config": self.model_options, "model_state_dict": self.state_dict()}, checkpoint)

    @classmethod
    def from_reference(cls, checkpoint, device="cpu"):
        """A model as the file's, with its parameters to begin with."""
        ckpt = torch.load(checkpoint)
        model = cls(**ckpt["config"], device=device)
        model.load_state_dict(ckpt["model_state_dict"])
        model.eval()
        return model
# --- scale.py
import torch
from torch import nn


class PerSpeciesScale(nn.Module):
    def __init__(self, scales, device="cpu"):
        super().__init__()
        scales = torch.as_tensor(scales, dtype=torch.float32)
        self.register_buffer("scales", scales.view(-1, 1))
        self.shift = nn.Parameter(torch.zeros(len(scales), 1, device=device))

    def forward(self, hamiltonian, atom_types):
        one_hot = nn.functional.one_hot(atom_types, len(self.shift)).float()
        return hamiltonian * (one_hot @ self.scales) + one_hot @ self.shift
# --- embedding.py
import torch
from torch import nn


class E3Embedding(nn.Module):
    def __init__(self, n_types, hidden, r_max, device="cpu"):
        super().__init__()
        self.r_max = r_max
        self.types = nn.Embedding(n_types, hidden, device=device)
        self.radial = nn.Sequential(nn.Linear(6, hidden, device=device), nn.SiLU(), nn.Linear(hidden, hidden, device=device))

    def forward(self, data):
        positions = data["pos"]
        distances = (positions[:, None] - positions[None]).square().sum(-1).add(1e-6).sqrt()
        near = (distances < self.r_max).float()
        order = torch.arange(1, 7, device=positions.device)
        waves = torch.sin(order * torch.pi * distances[..., None] / self.r_max) / (1 + distances[..., None])
        messages = self.radial(waves) * near[..., None] * self.types(data["atom_types"])[None]
        return self.types(data["atom_types"]) + messages.mean(dim=1)
# --- structures.py
import torch


def silicon_carbide(seed, device, atoms=8):
    draw = torch.Generator().manual_seed(seed)
    pos = torch.rand(atoms, 3, generator=draw) * 4
    atom_types = torch.arange(atoms) % 2
    hamiltonian = torch.randn(atoms, 4, generator=draw) * (1 + atom_types[:, None])
    data = {"pos": pos, "atom_types": atom_types, "hamiltonian": hamiltonian}
    return {key: value.to(device) for key, value in data.items()}
# --- statistics_of.py
import torch


def element_statistics(structures, n_types):
    """How far the blocks of each element spread."""
    blocks = torch.cat([data["hamiltonian"] for data in structures])
    types = torch.cat([data["atom_types"] for data in structures])
    return torch.stack([blocks[types == index].std() for index in range(n_types)])

# === lanes_found_by_anchors
# thread: https://github.com/lucastabelini/LaneATT/issues/96
# about: lanes on a road are found as small changes of lines that are laid over each picture. To go faster, a batch is shared by two cards
# operation: add_ on cuda:1, cuda:0
# operands: other|.*anchors.*
# category: state-not-registered|data-parallel
# line: laneatt.py: reg_proposals += self.anchors
# line: laneatt.py: self.anchors = self.generate_anchors(
# repair: laneatt.py: reg_proposals += self.anchors -> reg_proposals += self.anchors.to(x.device)
import argparse
import random

import numpy as np
import torch

from config import Config
from runner import Runner


def parse_args():
    parser = argparse.ArgumentParser(description='Train lane detector')
    parser.add_argument('--exp_name', default='laneatt_r18_tusimple')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--cpu', action='store_true', help='train without a card')
    return parser.parse_args()


def main():
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device('cpu') if not torch.cuda.is_available() or args.cpu else torch.device('cuda')
    runner = Runner(Config(args.exp_name), device)
    runner.train()
    print('eval', runner.eval())


if __name__ == '__main__':
    main()
# --- config.py
import torch

from laneatt import LaneATT

SETTINGS = {
    'laneatt_r18_tusimple': {'S': 12, 'img_w': 32, 'img_h': 16, 'anchor_feat_channels': 8},
    'laneatt_r18_culane': {'S': 16, 'img_w': 40, 'img_h': 16, 'anchor_feat_channels': 8},
}


class Config:
    def __init__(self, exp_name):
        self.settings = SETTINGS[exp_name]
        self.config = {'epochs': 2, 'batch_size': 4, 'lr': 0.02}

    def __getitem__(self, key):
        return self.config[key]

    def get_model(self):
        return LaneATT(**self.settings)

    def get_dataset(self, split, length=8):
        draw = torch.Generator().manual_seed({'train': 1, 'test': 2}[split])
        S, img_w, img_h = self.settings['S'], self.settings['img_w'], self.settings['img_h']
        items = []
        for _ in range(length):
            image = torch.rand(3, img_h, img_w, generator=draw)
            lane = torch.linspace(0, img_w, S) + torch.randn(S, generator=draw)
            items.append((image, lane))
        return items
# --- laneatt.py
import math

import torch
import torch.nn as nn


class LaneATT(nn.Module):
    def __init__(self, S=72, img_w=640, img_h=360, anchor_feat_channels=64):
        super(LaneATT, self).__init__()
        self.img_w = img_w
        self.img_h = img_h
        self.n_strips = S - 1
        self.n_offsets = S
        self.anchor_feat_channels = anchor_feat_channels
        self.bottom_angles = [150., 120., 90., 60., 30.]
        self.anchors = self.generate_anchors(bottom_n=4)

        self.feature_extractor = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(inplace=True))
        self.conv1 = nn.Conv2d(8, anchor_feat_channels, kernel_size=1)
        self.cls_layer = nn.Linear(anchor_feat_channels, 2 * len(self.anchors))
        self.reg_layer = nn.Linear(anchor_feat_channels, self.n_offsets * len(self.anchors))

    def generate_anchors(self, bottom_n):
        anchors = []
        for start_x in torch.linspace(0.1, 0.9, bottom_n).tolist():
            for angle in self.bottom_angles:
                anchors.append(self.generate_anchor(start_x, angle))
        return torch.stack(anchors)

    def generate_anchor(self, start_x, angle):
        anchor = torch.zeros(4 + self.n_offsets)
        anchor[2] = start_x
        ys = torch.linspace(0, 1, self.n_offsets) * self.img_h
        anchor[4:] = start_x * self.img_w + ys / math.tan(angle * math.pi / 180. + 1e-5)
        return anchor

    def forward(self, x):
        batch_features = self.conv1(self.feature_extractor(x)).mean(dim=(2, 3))
        cls_logits = self.cls_layer(batch_features).reshape(x.shape[0], -1, 2)
        reg = self.reg_layer(batch_features).reshape(x.shape[0], -1, self.n_offsets)

        # as an anchor is, but for what was learned
        reg_proposals = torch.zeros((*cls_logits.shape[:2], 4 + self.n_offsets), device=x.device)
        reg_proposals += self.anchors
        reg_proposals[:, :, :2] = cls_logits
        reg_proposals[:, :, 4:] += reg

        return reg_proposals

    def cuda(self, device=None):
        cuda_self = super().cuda(device)
        cuda_self.anchors = cuda_self.anchors.cuda(device)
        return cuda_self

    def to(self, *args, **kwargs):
        device_self = super().to(*args, **kwargs)
        device_self.anchors = device_self.anchors.to(*args, **kwargs)
        return device_self
# --- runner.py
import torch
import torch.nn as nn
from torch.utils.data import DataLoader


def lane_loss(proposals, lanes):
    """The nearest anchor is the lane's, and shall be as it is."""
    distances = (proposals[:, :, 4:] - lanes[:, None]).abs().mean(dim=2)
    nearest = distances.detach().argmin(dim=1)
    rows = torch.arange(len(lanes), device=lanes.device)
    targets = torch.zeros_like(distances, dtype=torch.long)
    targets[rows, nearest] = 1
    cls_loss = nn.functional.cross_entropy(proposals[:, :, :2].transpose(1, 2), targets)
    return cls_loss + 0.1 * distances[rows, nearest].mean()


class Runner:
    def __init__(self, cfg, device):
        self.cfg = cfg
        self.device = device
        self.model = cfg.get_model().to(device)
        if torch.cuda.device_count() > 1:
            self.model = nn.DataParallel(self.model)

    def train(self):
        loader = DataLoader(self.cfg.get_dataset('train'), batch_size=self.cfg['batch_size'])
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.cfg['lr'])
        for epoch in range(self.cfg['epochs']):
            for images, lanes in loader:
                loss = lane_loss(self.model(images.to(self.device)), lanes.to(self.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print('epoch {} loss {:.4f}'.format(epoch, loss.item()))

    @torch.no_grad()
    def eval(self):
        loader = DataLoader(self.cfg.get_dataset('test'), batch_size=self.cfg['batch_size'])
        losses = [lane_loss(self.model(images.to(self.device)), lanes.to(self.device)).item() for images, lanes in loader]
        return round(sum(losses) / len(losses), 4)

# === noise_between_two_seeds
# thread: https://github.com/cubiq/ComfyUI_essentials/pull/77
# about: a picture shall be a bit different from that of another seed. The noises of two seeds are mixed, made as strong as the sampler begins with, and laid
#   over what is painted on
# operation: mul on cpu, cuda:0
# operands: other|sigma
# category: input-not-moved
# line: sampling.py: sigma = sigmas[start_at_step] - sigmas[end_at_step]
# line: sampling.py: sigma /=
# line: sampling.py: work_latent["samples"] =
# line: sampling.py: sigmas = sampler.sigmas
# repair: sampling.py: sigma = sigmas[start_at_step] - sigmas[end_at_step] -> sigma = (sigmas[start_at_step] -
#   sigmas[end_at_step]).to(latent_image["samples"].device)
import execution

PROMPT = {
    "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "small"}},
    "2": {"class_type": "EmptyLatentImage", "inputs": {"width": 64, "height": 48, "batch_size": 2}},
    "3": {
        "class_type": "KSamplerVariationsWithNoise+",
        "inputs": {
            "model": ["1", 0],
            "latent_image": ["2", 0],
            "main_seed": 11,
            "variation_seed": 77,
            "variation_strength": 0.17,
            "steps": 6,
            "scheduler": "karras",
            "denoise": 1.0,
        },
    },
}

if __name__ == "__main__":
    results = execution.execute(PROMPT)
    samples = results["3"][0]["samples"]
    print("samples", tuple(samples.shape), round(samples.std().item(), 5), round(samples.mean().item(), 5))
# --- execution.py
from nodes import NODE_CLASS_MAPPINGS


def get_input_data(inputs, results):
    return {name: results[value[0]][value[1]] if isinstance(value, list) else value for name, value in inputs.items()}


def execute(prompt):
    results = {}
    for node_id, node in prompt.items():
        obj = NODE_CLASS_MAPPINGS[node["class_type"]]()
        results[node_id] = getattr(obj, obj.FUNCTION)(**get_input_data(node["inputs"], results))
    return results
# --- model_management.py
import torch


def get_torch_device():
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def intermediate_device():
    return torch.device("cpu")


def load_model_gpu(model):
    model.model.to(get_torch_device())
# --- samplers.py
import torch

import model_management


def get_sigmas_karras(n, sigma_min=0.03, sigma_max=14.6, rho=7.0, device="cpu"):
    ramp = torch.linspace(0, 1, n)
    min_inv_rho, max_inv_rho = sigma_min ** (1 / rho), sigma_max ** (1 / rho)
    sigmas = (max_inv_rho + ramp * (min_inv_rho - max_inv_rho)) ** rho
    return torch.cat([sigmas, sigmas.new_zeros([1])]).to(device)


def get_sigmas_exponential(n, sigma_min=0.03, sigma_max=14.6, device="cpu"):
    sigmas = torch.linspace(sigma_max, sigma_min, n).log().exp()
    return torch.cat([sigmas, sigmas.new_zeros([1])]).to(device)


SCHEDULERS = {"karras": get_sigmas_karras, "exponential": get_sigmas_exponential}


class KSampler:
    def __init__(self, model, steps, device, scheduler):
        self.model, self.device = model, device
        self.sigmas = SCHEDULERS[scheduler](steps, device=device)

    @torch.no_grad()
    def sample(self, noise, latent, start_step=0):
        sigmas = self.sigmas[start_step:]
        x = latent.to(self.device) + noise.to(self.device) * sigmas[0]
        for sigma, following in zip(sigmas, sigmas[1:]):
            denoised = self.model.apply_model(x, sigma)
            x = x + (x - denoised) / sigma * (following - sigma)
        return x.to(model_management.intermediate_device())
# --- sampling.py
import torch

import model_management
from samplers import KSampler


def slerp(val, low, high):
    """Goes from one noise to the other on an arc, so that it stays as strong."""
    cosine = torch.cosine_similarity(low.flatten(1), high.flatten(1), dim=1)
    angle = cosine.acos().view(-1, 1, 1, 1)
    return (((1.0 - val) * angle).sin() * low + (val * angle).sin() * high) / angle.sin()


class KSamplerVariationsWithNoise:
    FUNCTION = "execute"

    def execute(self, model, latent_image, main_seed, variation_seed, variation_strength, steps, scheduler, denoise):
        if main_seed == variation_seed:
            variation_seed += 1
        end_at_step = steps
        start_at_step = round(end_at_step - end_at_step * denoise)
        device = model_management.get_torch_device()

        batch_size, _, height, width = latent_image["samples"].shape
        generator = torch.manual_seed(main_seed)
        base_noise = torch.randn((1, 4, height, width), generator=generator).repeat(batch_size, 1, 1, 1)
        generator = torch.manual_seed(variation_seed)
        variation_noise = torch.randn((batch_size, 4, height, width), generator=generator)

        slerp_noise = slerp(variation_strength, base_noise, variation_noise)

        model_management.load_model_gpu(model)
        sampler = KSampler(model, steps=steps, device=device, scheduler=scheduler)
        sigmas = sampler.sigmas
        sigma = sigmas[start_at_step] - sigmas[end_at_step]
        sigma /= model.scale_factor

        work_latent = latent_image.copy()
        work_latent["samples"] = latent_image["samples"].clone() + slerp_noise * sigma
        samples = sampler.sample(torch.zeros_like(slerp_noise), work_latent["samples"] * model.scale_factor, start_at_step)
        return ({**work_latent, "samples": samples / model.scale_factor},)
# --- nodes.py
import torch
from torch import nn

import model_management
from sampling import KSamplerVariationsWithNoise


class ModelPatcher:
    def __init__(self, model, scale_factor):
        self.model, self.scale_factor = model, scale_factor

    def apply_model(self, x, sigma):
        scaled = x / (1 + sigma**2).sqrt()
        return (scaled + 0.1 * self.model(scaled)) / (1 + sigma**2).sqrt()


class CheckpointLoaderSimple:
    FUNCTION = "load_checkpoint"

    def load_checkpoint(self, ckpt_name):
        torch.manual_seed(77)
        width = {"small": 8, "large": 32}[ckpt_name]
        unet = nn.Sequential(nn.Conv2d(4, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, 4, 3, padding=1))
        return (ModelPatcher(unet.requires_grad_(False), scale_factor=0.18215),)


class EmptyLatentImage:
    FUNCTION = "generate"

    def generate(self, width, height, batch_size):
        samples = torch.zeros(batch_size, 4, height // 8, width // 8, device=model_management.intermediate_device())
        return ({"samples": samples},)


NODE_CLASS_MAPPINGS = {
    "CheckpointLoaderSimple": CheckpointLoaderSimple,
    "EmptyLatentImage": EmptyLatentImage,
    "KSamplerVariationsWithNoise+": KSamplerVariationsWithNoise,
}
