# === drugs_that_are_taken_together
# thread: https://github.com/AstraZeneca/chemicalx/issues/96
# about: whether two drugs disturb each other is told from the pieces their molecules have in common. Each piece alone is encoded too, as a dictionary
# operation: addmm|linear|mm|matmul on cpu, cuda:0
# operands: mat1|input|self
# category: created-without-device
# line: chemicalx/models/caster.py: dictionary_features_latent = self.encoder(torch.eye(self.drug_channels))
# repair: chemicalx/models/caster.py: dictionary_features_latent = self.encoder(torch.eye(self.drug_channels)) -> dictionary_features_latent = self.encoder(torch.eye(self.drug_channels, device=drug_pair_features.device))
# repair: chemicalx/models/caster.py: penalty = self.lambda3 * torch.eye(self.drug_channels) -> penalty = self.lambda3 * torch.eye(self.drug_channels, device=dict_feat_squared.device)
import torch

from chemicalx.data import BatchGenerator
from chemicalx.models.caster import CASTER
from chemicalx.pipeline import pipeline

if __name__ == "__main__":
    torch.manual_seed(8)
    draws = torch.Generator().manual_seed(5)
    fingerprints = torch.randint(0, 2, (14, 9), generator=draws).float()
    pairs = torch.randint(0, 14, (24, 2), generator=draws)
    labels = (fingerprints[pairs[:, 0]] * fingerprints[pairs[:, 1]]).sum(1).gt(2).float()
    model = CASTER(drug_channels=9, encoder_hidden_channels=12, encoder_output_channels=12)
    generator = BatchGenerator(fingerprints, pairs, labels, batch_size=8)
    losses, scores = pipeline(model=model, generator=generator, epochs=3, device=torch.device("cuda:0"))
    print(f"first loss {losses[0]:.4f}, last {losses[-1]:.4f}, scores {scores.sum().item():.3f}")
# --- chemicalx/data.py
from dataclasses import dataclass

import torch


@dataclass
class DrugPairBatch:
    drug_features_left: torch.Tensor
    drug_features_right: torch.Tensor
    labels: torch.Tensor

    def to(self, device):
        return DrugPairBatch(self.drug_features_left.to(device), self.drug_features_right.to(device), self.labels.to(device))


class BatchGenerator:
    def __init__(self, fingerprints, pairs, labels, batch_size):
        self.fingerprints, self.pairs, self.labels, self.batch_size = fingerprints, pairs, labels, batch_size

    def __iter__(self):
        for start in range(0, len(self.pairs), self.batch_size):
            left, right = self.pairs[start : start + self.batch_size].unbind(1)
            labels = self.labels[start : start + self.batch_size]
            yield DrugPairBatch(self.fingerprints[left], self.fingerprints[right], labels)
# --- chemicalx/models/caster.py
import torch
from torch import nn


def two_layers(inputs, hidden, outputs):
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(True), nn.Linear(hidden, outputs))


class CASTER(nn.Module):
    """Tells from common substructures whether two drugs interact."""

    def __init__(self, *, drug_channels, encoder_hidden_channels=32, encoder_output_channels=32, lambda3=1e-2, magnifying_factor=10):
        super().__init__()
        self.lambda3 = lambda3
        self.magnifying_factor = magnifying_factor
        self.drug_channels = drug_channels
        self.encoder = two_layers(drug_channels, encoder_hidden_channels, encoder_output_channels)
        self.decoder = two_layers(encoder_output_channels, encoder_hidden_channels, drug_channels)
        self.predictor = nn.Sequential(two_layers(drug_channels, 16, 1), nn.Sigmoid())

    def unpack(self, batch):
        both = torch.maximum(batch.drug_features_left, batch.drug_features_right)
        return (both.ge(1.0).float(),)

    def dictionary_encoder(self, drug_pair_features_latent, dictionary_features_latent):
        transposed = dictionary_features_latent.transpose(2, 1)
        dict_feat_squared = dictionary_features_latent @ transposed
        penalty = self.lambda3 * torch.eye(self.drug_channels)
        closed_form = torch.linalg.solve(dict_feat_squared + penalty, dictionary_features_latent)
        return (drug_pair_features_latent[:, None, :] @ closed_form.transpose(2, 1)).squeeze(1)

    def forward(self, drug_pair_features):
        drug_pair_features_latent = self.encoder(drug_pair_features)
        dictionary_features_latent = self.encoder(torch.eye(self.drug_channels))
        dictionary_features_latent = dictionary_features_latent.mul(drug_pair_features[:, :, None])
        reconstructed = torch.sigmoid(self.decoder(drug_pair_features_latent))
        dictionary_encoded = self.dictionary_encoder(drug_pair_features_latent, dictionary_features_latent)
        prediction_scores = self.predictor(self.magnifying_factor * dictionary_encoded)
        return prediction_scores, reconstructed, drug_pair_features
# --- chemicalx/pipeline.py
import torch
from torch.nn import functional as F


def caster_loss(outputs, labels):
    scores, reconstructed, features = outputs
    return F.binary_cross_entropy(scores.squeeze(1), labels) + 0.1 * F.binary_cross_entropy(reconstructed, features)


def pipeline(*, model, generator, epochs, device, lr=0.01):
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    model.train()
    for _ in range(epochs):
        for batch in generator:
            batch = batch.to(device)
            optimizer.zero_grad()
            prediction = model(*model.unpack(batch))
            loss = caster_loss(prediction, batch.labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        scores = torch.cat([model(*model.unpack(batch.to(device)))[0] for batch in generator])
    return losses, scores

# === cameras_that_were_calibrated_elsewhere
# thread: https://github.com/facebookresearch/pytorch3d/issues/1021
# about: cameras come from another library, with its rotations and pixels. They are turned into the renderer's own, and points of a body are fitted to them
# operation: b?addbmm|bmm|matmul on cuda:0, cpu
# operands: mat2|batch2|other|.*\bR\b.*
# category: default-or-current-device|created-without-device
# line: pytorch3d/renderer/camera_conversions.py: return PerspectiveCameras(
# line: pytorch3d/renderer/camera_conversions.py: image_size=image_size,
# line: cameras = cameras_from_opencv_projection(R=R, tvec=tvec,
# repair: pytorch3d/renderer/camera_conversions.py: image_size=image_size, -> image_size=image_size, device=R.device,
import torch

from pytorch3d.renderer.camera_conversions import cameras_from_opencv_projection


def rotation_y(angles):
    zeros, ones = torch.zeros_like(angles), torch.ones_like(angles)
    rows = [angles.cos(), zeros, angles.sin(), zeros, ones, zeros, -angles.sin(), zeros, angles.cos()]
    return torch.stack(rows, dim=1).view(-1, 3, 3)


def main():
    device = torch.device("cuda", 0)
    draws = torch.Generator().manual_seed(17)
    R = rotation_y(torch.tensor([0.0, 0.4, -0.3], device=device))
    tvec = torch.tensor([[0.0, 0.1, 4.0], [0.3, 0.0, 4.5], [-0.2, 0.0, 5.0]], device=device)
    camera_matrix = torch.tensor([[300.0, 0.0, 160.0], [0.0, 310.0, 120.0], [0.0, 0.0, 1.0]], device=device).expand(3, 3, 3)
    image_size = torch.tensor([[240, 320]], device=device).expand(3, 2)

    truth = torch.rand((12, 3), generator=draws).sub(0.5).to(device)
    points = torch.zeros(12, 3, device=device, requires_grad=True)
    cameras = cameras_from_opencv_projection(R=R, tvec=tvec, camera_matrix=camera_matrix, image_size=image_size)
    keypoints = cameras.transform_points_ndc(truth)

    optimizer = torch.optim.Adam([points], lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        loss = (cameras.transform_points_ndc(points) - keypoints).square().mean()
        loss.backward()
        optimizer.step()
    print(f"keypoints {keypoints.sum().item():.3f}, reprojection error {loss.item():.4f}")


if __name__ == "__main__":
    main()
# --- pytorch3d/renderer/utils.py
import torch
from torch import nn


class TensorProperties(nn.Module):
    """Keeps tensors of one batch as attributes, all of them on one device."""

    def __init__(self, dtype=torch.float32, device="cpu", **kwargs):
        super().__init__()
        self.device = torch.device(device)
        values = {k: torch.as_tensor(v, dtype=dtype).to(self.device) for k, v in kwargs.items()}
        self._N = max(len(v) for v in values.values())
        for k, v in values.items():
            setattr(self, k, v.expand(self._N, *v.shape[1:]))

    def __len__(self):
        return self._N

    def to(self, device):
        self.device = torch.device(device)
        for k, v in list(vars(self).items()):
            if torch.is_tensor(v):
                setattr(self, k, v.to(self.device))
        return self
# --- pytorch3d/renderer/cameras.py
import torch

from pytorch3d.renderer.utils import TensorProperties


class CamerasBase(TensorProperties):
    def get_world_to_view(self, points):
        return points @ self.R + self.T[:, None, :]

    def transform_points_ndc(self, points):
        view = self.get_world_to_view(points.expand(len(self), *points.shape))
        return self.project(view)


class PerspectiveCameras(CamerasBase):
    def __init__(self, focal_length, principal_point, R, T, image_size, device="cpu"):
        super().__init__(
            device=device,
            focal_length=focal_length,
            principal_point=principal_point,
            R=R,
            T=T,
            image_size=image_size,
        )

    def project(self, view):
        xy = view[..., :2] / view[..., 2:].clamp_min(1e-3)
        return xy * self.focal_length[:, None, :] + self.principal_point[:, None, :]
# --- pytorch3d/renderer/camera_conversions.py
import torch

from pytorch3d.renderer.cameras import PerspectiveCameras


def cameras_from_opencv_projection(R, tvec, camera_matrix, image_size):
    """OpenCV looks along +z with y down, multiplies from the left and counts pixels; here x and y are flipped and go from -1 to 1."""
    focal_length = torch.stack([camera_matrix[:, 0, 0], camera_matrix[:, 1, 1]], dim=-1)
    principal_point = camera_matrix[:, :2, 2]
    image_size_wh = image_size.to(R).flip(dims=(1,))
    scale = image_size_wh.min(dim=1, keepdim=True).values / 2.0

    R_pytorch3d = R.transpose(1, 2).clone()
    T_pytorch3d = tvec.clone()
    R_pytorch3d[:, :, :2] *= -1
    T_pytorch3d[:, :2] *= -1
    return PerspectiveCameras(
        R=R_pytorch3d,
        T=T_pytorch3d,
        focal_length=focal_length / scale,
        principal_point=-(principal_point - image_size_wh / 2.0) / scale,
        image_size=image_size,
    )

# === molecules_with_letters_left_out
# thread: https://github.com/GT4SD/gt4sd-core/issues/144
# about: a variational autoencoder learns molecules as rows of tokens. So that its decoder leans on the code, some tokens of what it reads are replaced
# operation: index_put_?|_index_put_impl_ on cuda:0, cpu
# operands: values?|dropout_indices
# category: created-without-device
# line: paccmann_chemistry/utils/utils.py: dropout_indices = torch.LongTensor(
# line: paccmann_chemistry/utils/utils.py: decoder_batch[dropout_loc] = dropout_indices
# repair: paccmann_chemistry/utils/utils.py: dropout_indices = torch.LongTensor(dropout_index * torch.ones(1, batch_size).numpy()) -> dropout_indices = torch.LongTensor(dropout_index * torch.ones(1, batch_size).numpy()).to(device)
# repair: paccmann_chemistry/utils/utils.py: end_padding = torch.LongTensor(torch.zeros(1, batch_size).numpy()) -> end_padding = torch.LongTensor(torch.zeros(1, batch_size).numpy()).to(device)
import torch

from paccmann_chemistry.models.training import train_vae
from paccmann_chemistry.models.vae import TeacherVAE

SMILES = ["CCO", "CCN", "CC(=O)O", "C1CCCCC1", "CNC", "OCCO", "CC(C)N", "CCOC", "NCC=O", "CCCC"]
PARAMS = {"batch_size": 5, "epochs": 3, "input_keep": 0.7, "kl_weight": 0.05, "learning_rate": 0.02}

if __name__ == "__main__":
    torch.manual_seed(50)
    tokens = {"<PAD>": 0, "<UNK>": 1, "<START>": 2, "<STOP>": 3}
    for token in sorted(set("".join(SMILES))):
        tokens[token] = len(tokens)
    sequences = [torch.tensor([2, *(tokens[t] for t in smiles), 3]) for smiles in SMILES]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = TeacherVAE(vocab_size=len(tokens), rnn_cell_size=16, latent_dim=8).to(device)
    losses = train_vae(model, sequences, PARAMS, device)
    print("loss of each epoch", [f"{loss:.3f}" for loss in losses])
# --- paccmann_chemistry/utils/utils.py
import copy

import numpy as np
import torch
from torch.distributions import Bernoulli


def sequential_data_preparation(input_batch, input_keep=1, dropout_index=1, device=torch.device("cpu")):
    """What the encoder reads, what the decoder reads (with some tokens unknown) and what it has to say, each [length, batch]."""
    batch_size = input_batch.shape[1]
    input_batch = input_batch.long().to(device)
    decoder_batch = input_batch.clone()
    if input_keep != 1:
        dropout_indices = torch.LongTensor(dropout_index * torch.ones(1, batch_size).numpy())
        mask = Bernoulli(input_keep).sample((input_batch.shape[0],))
        dropout_loc = np.where(mask.numpy() == 0)[0]
        decoder_batch[dropout_loc] = dropout_indices
    end_padding = torch.LongTensor(torch.zeros(1, batch_size).numpy())
    target_seq = torch.cat((input_batch[1:, :], end_padding), dim=0)
    return input_batch, decoder_batch, copy.deepcopy(target_seq)
# --- paccmann_chemistry/models/vae.py
import torch
from torch import nn


class TeacherVAE(nn.Module):
    def __init__(self, vocab_size, rnn_cell_size, latent_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, rnn_cell_size, padding_idx=0)
        self.encoder = nn.GRU(rnn_cell_size, rnn_cell_size)
        self.encoding_to_mu = nn.Linear(rnn_cell_size, latent_dim)
        self.encoding_to_logvar = nn.Linear(rnn_cell_size, latent_dim)
        self.latent_to_hidden = nn.Linear(latent_dim, rnn_cell_size)
        self.decoder = nn.GRU(rnn_cell_size, rnn_cell_size)
        self.output_layer = nn.Linear(rnn_cell_size, vocab_size)

    def encode(self, input_seq):
        _, hidden = self.encoder(self.embedding(input_seq))
        return self.encoding_to_mu(hidden[0]), self.encoding_to_logvar(hidden[0])

    def reparameterize(self, mu, logvar):
        noise = torch.randn(mu.shape).to(mu)
        return mu + noise * logvar.mul(0.5).exp()

    def decode(self, latent, decoder_seq):
        hidden = torch.tanh(self.latent_to_hidden(latent)).unsqueeze(0)
        output, _ = self.decoder(self.embedding(decoder_seq), hidden)
        return self.output_layer(output)

    def forward(self, input_seq, decoder_seq):
        mu, logvar = self.encode(input_seq)
        return self.decode(self.reparameterize(mu, logvar), decoder_seq), mu, logvar
# --- paccmann_chemistry/models/training.py
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from paccmann_chemistry.utils.utils import sequential_data_preparation


def _prepare_padded(batch, input_keep, device):
    padded = pad_sequence(batch)
    return sequential_data_preparation(padded, input_keep=input_keep, device=device)


def vae_loss(logits, target, mu, logvar, kl_weight):
    reconstruction = cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0)
    divergence = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(1).mean()
    return reconstruction + kl_weight * divergence


def train_vae(model, sequences, params, device):
    loader = DataLoader(sequences, batch_size=params["batch_size"], collate_fn=list)
    optimizer = torch.optim.Adam(model.parameters(), lr=params["learning_rate"])
    losses = []
    for _ in range(params["epochs"]):
        total = 0.0
        for batch in loader:
            encoder_seq, decoder_seq, target_seq = _prepare_padded(batch, params["input_keep"], device)
            logits, mu, logvar = model(encoder_seq, decoder_seq)
            loss = vae_loss(logits, target_seq, mu, logvar, params["kl_weight"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / len(loader))
    return losses

# === passages_are_found_before_they_are_answered_from
# thread: https://github.com/arcee-ai/DALM/issues/73
# about: a model that looks passages up and one that answers from them were trained together. A script reads both again and measures how often the right passage is found
# operation: embedding|index_select on cpu, cuda:0
# operands: weight|self
# category: module-split
# line: dalm/eval/eval_rag.py: rag_model = AutoModelForRagE2E(
# line: dalm/models/rag_e2e_base_model.py: self.retriever_model = AutoModel.from_pretrained(
# line: dalm/models/rag_e2e_base_model.py: self.generator_model = AutoModelForCausalLM.from_pretrained(
# repair: dalm/eval/eval_rag.py: rag_model = AutoModelForRagE2E(args.retriever_name_or_path, args.generator_name_or_path) -> rag_model = AutoModelForRagE2E(args.retriever_name_or_path, args.generator_name_or_path).to(args.device)
import argparse
import tempfile
from pathlib import Path

import torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

from dalm.eval.eval_rag import evaluate_rag

WORDS = "what who where is the of a cat dog moon river city red tall old sleeps shines flows barks stands".split()
ROWS = [
    ("what is the cat", "the old cat sleeps"),
    ("where is the moon", "the moon shines red"),
    ("what is the river", "a river flows"),
    ("who is the dog", "the dog barks"),
    ("where is the city", "a tall city stands"),
]


def trained_models(folder):
    torch.manual_seed(73)
    sizes = {"vocab_size": len(WORDS) + 1, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    BertModel(BertConfig(**sizes)).save_pretrained(folder / "retriever")
    LlamaForCausalLM(LlamaConfig(**sizes, bos_token_id=None, eos_token_id=None, pad_token_id=0)).save_pretrained(folder / "generator")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--retriever_name_or_path", default="retriever")
    parser.add_argument("--generator_name_or_path", default="generator")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--top_k", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        trained_models(Path(name))
        args.retriever_name_or_path = str(Path(name) / args.retriever_name_or_path)
        args.generator_name_or_path = str(Path(name) / args.generator_name_or_path)
        results = evaluate_rag(args, ROWS, WORDS)
    print("recall {recall:.2f}, similarity {similarity:.3f}, answers {answers}".format(**results))
# --- dalm/models/rag_e2e_base_model.py
import torch
from transformers import AutoModel, AutoModelForCausalLM


class AutoModelForRagE2E(torch.nn.Module):
    def __init__(self, retriever_name, generator_name, normalize=True):
        super().__init__()
        self.normalize = normalize
        self.retriever_model = AutoModel.from_pretrained(retriever_name)
        self.generator_model = AutoModelForCausalLM.from_pretrained(generator_name)

    def forward(self, task, input_ids, attention_mask):
        if task == "retrieval":
            hidden = self.retriever_model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            embeddings = self.mean_pooling(hidden, attention_mask)
            return torch.nn.functional.normalize(embeddings, dim=1) if self.normalize else embeddings
        return self.generator_model(input_ids=input_ids, attention_mask=attention_mask).logits

    @staticmethod
    def mean_pooling(token_embeddings, attention_mask):
        mask = attention_mask.unsqueeze(-1).to(token_embeddings.dtype)
        return (token_embeddings * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
# --- dalm/eval/utils.py
import numpy as np
import torch


class WordTokenizer:
    def __init__(self, words):
        self.ids = {word: number for number, word in enumerate(words, 1)}

    def __call__(self, texts):
        rows = [torch.tensor([self.ids[word] for word in text.split()]) for text in texts]
        input_ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)
        return {"input_ids": input_ids, "attention_mask": input_ids.ne(0).long()}


def get_nearest_neighbours(k, passage_embeddings, query_embedding):
    similarities = passage_embeddings @ query_embedding
    best = np.argsort(-similarities, kind="stable")[:k]
    return best.tolist(), float(similarities[best[0]])
# --- dalm/eval/eval_rag.py
import numpy as np
import torch

from dalm.eval.utils import WordTokenizer, get_nearest_neighbours
from dalm.models.rag_e2e_base_model import AutoModelForRagE2E


def run_generator_on_prompts(model, tokenizer, prompts, device):
    inputs = {name: value.to(device) for name, value in tokenizer(prompts).items()}
    outputs = model.generate(**inputs, max_new_tokens=3, do_sample=False)
    return outputs[:, -3:].cpu().tolist()


def evaluate_rag(args, rows, words):
    rag_model = AutoModelForRagE2E(args.retriever_name_or_path, args.generator_name_or_path)
    rag_model.eval()
    tokenizer = WordTokenizer(words)

    def get_embeddings(texts):
        batch = tokenizer(texts)
        with torch.no_grad():
            output = rag_model("retrieval", batch["input_ids"].to(args.device), batch["attention_mask"].to(args.device))
        return output.float().cpu().numpy()

    passages = [passage for _, passage in rows]
    passage_embeddings = np.concatenate([get_embeddings(passages[start : start + 2]) for start in range(0, len(passages), 2)])
    hits, similarities, answers = 0, [], []
    for number, (query, _) in enumerate(rows):
        found, similarity = get_nearest_neighbours(args.top_k, passage_embeddings, get_embeddings([query])[0])
        hits += number in found
        similarities.append(similarity)
        answers += run_generator_on_prompts(rag_model.generator_model, tokenizer, [f"{query} {passages[found[0]]}"], args.device)
    return {"recall": hits / len(rows), "similarity": sum(similarities), "answers": answers}

# === a_whirl_measured_by_its_lengths
# thread: https://github.com/MagriLab/KolSol/issues/107
# about: a flow that is stirred by waves is computed from its waves. How much energy is in whirls of each size is summed up over the wavenumbers
# operation: add_?|__iadd__ on cpu, cuda:0
# operands: self|ek.*
# category: created-without-device
# line: kolsol/torch/solver.py: ek = torch.zeros(
# repair: kolsol/torch/solver.py: ek = torch.zeros((*leading_dims, int(intk.max()) + 1)) -> ek = torch.zeros((*leading_dims, int(intk.max()) + 1), device=self.device)
import argparse

import torch

from kolsol.torch.solver import KolSol

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nk", type=int, default=4)
    parser.add_argument("--nf", type=int, default=2)
    parser.add_argument("--re", type=float, default=20.0)
    parser.add_argument("--dt", type=float, default=0.01)
    parser.add_argument("--device", default="cuda:0")
    args = parser.parse_args()
    ks = KolSol(nk=args.nk, nf=args.nf, re=args.re, ndim=2, device=torch.device(args.device))
    field = ks.random_field(magnitude=10.0, sigma=1.2, seed=11)
    trajectory = [field]
    for _ in range(6):
        field = field + args.dt * ks.dynamics(field)
        trajectory.append(field)
    u_hat = torch.stack(trajectory[2:])
    dissipation = ks.dissip(u_hat).mean().item()
    spectrum = ks.energy_spectrum(u_hat, agg=True)
    print(f"dissipation {dissipation:.4f}")
    print("energy", [f"{value:.4f}" for value in spectrum.tolist()])
# --- kolsol/base/base_solver.py
class BaseKolSol:
    def __init__(self, nk, nf, re, ndim):
        self.nk, self.nf, self.re, self.ndim = nk, nf, re, ndim
        self.nk_grid = 2 * nk + 1
        self.dims = tuple(range(-ndim, 0))
# --- kolsol/torch/solver.py
import itertools as it

import numpy as np
import torch

from kolsol.base.base_solver import BaseKolSol


class KolSol(BaseKolSol):
    """The flow's equations in wavenumbers. A field in them is [..., k, k, u]."""

    def __init__(self, nk, nf, re, ndim=2, device=torch.device("cpu")):
        super().__init__(nk, nf, re, ndim)
        self.device = device
        k = torch.fft.fftshift(torch.fft.fftfreq(self.nk_grid, 1 / self.nk_grid, dtype=torch.float64)).to(device)
        self.kt = torch.stack(torch.meshgrid(k, k, indexing="ij"), dim=-1)
        self.kk = self.kt.square().sum(-1)
        self.kk_div = torch.where(self.kk == 0, torch.ones_like(self.kk), self.kk)
        self.nabla = 1j * self.kt
        x = torch.linspace(0.0, 2.0 * np.pi, self.nk_grid + 1, dtype=torch.float64)[:-1].to(device)
        wave = torch.sin(nf * x).expand(self.nk_grid, self.nk_grid)
        self.f = torch.stack([self.phys_to_fourier(wave), torch.zeros_like(self.kk)], dim=-1)

    def phys_to_fourier(self, t):
        return torch.fft.fftshift(torch.fft.fftn(t, dim=self.dims), dim=self.dims)

    def fourier_to_phys(self, t_hat):
        return torch.fft.ifftn(torch.fft.ifftshift(t_hat, dim=self.dims), dim=self.dims).real

    def components(self, u_hat):
        return [u_hat[..., i] for i in range(self.ndim)]

    def dynamics(self, u_hat):
        u = [self.fourier_to_phys(each) for each in self.components(u_hat)]
        f_hat = []
        for u_i in u:
            products = [self.phys_to_fourier(u_i * u_j) for u_j in u]
            f_hat.append(-sum(self.nabla[..., j] * product for j, product in enumerate(products)))
        forces = torch.stack(f_hat, dim=-1) + self.f
        pressure = self.kt * ((self.kt * forces).sum(-1) / self.kk_div)[..., None]
        return forces - pressure - self.kk[..., None] * u_hat / self.re

    def vorticity(self, u_hat):
        return self.nabla[..., 0] * u_hat[..., 1] - self.nabla[..., 1] * u_hat[..., 0]

    def dissip(self, u_hat):
        w_hat = self.vorticity(u_hat)
        return w_hat.abs().square().sum(self.dims) / (self.re * self.nk_grid ** (2 * self.ndim))

    def random_field(self, magnitude, sigma, seed):
        phase = torch.from_numpy(np.random.default_rng(seed).uniform(size=tuple(self.kt.shape))).to(self.device)
        size = magnitude * torch.exp(-0.5 * self.kk.sqrt() / sigma**2)
        u_hat = size[..., None] * torch.exp(2j * np.pi * phase)
        u = [self.fourier_to_phys(each) for each in self.components(u_hat)]
        return torch.stack([self.phys_to_fourier(each) for each in u], dim=-1)

    def energy_spectrum(self, u_hat, agg=False):
        leading_dims = u_hat.shape[: u_hat.ndim - (self.ndim + 1)]
        uu = 0.5 * u_hat.abs().square().sum(-1)
        intk = self.kk.sqrt().to(torch.int)
        ek = torch.zeros((*leading_dims, int(intk.max()) + 1))
        for combo in it.product(*map(range, intk.shape)):
            ek[..., intk[combo]] += uu[(..., *combo)] / self.nk_grid**self.ndim
        return ek.flatten(0, -2).mean(0) if agg else ek

# === squares_of_gradients_through_two_cards
# thread: https://github.com/kssteven418/SqueezeLLM-gradients/pull/14
# about: how much each weight of a language model matters is measured by the squares of its gradients. The layers are spread over all cards that there are
# operation: index on cuda:1, cuda:0
# operands: indices|position_ids
# error: indices should be either on
# category: input-not-moved|input|module-split
# line: modeling_llama.py: cos = cos[position_ids]
# line: modeling_llama.py: sin = sin[position_ids]
# line: modeling_llama.py: attention_mask = attention_mask.to(f"cuda:{device}")
# line: modeling_llama.py: hidden_states = hidden_states.to(f"cuda:{device}")
# line: modeling_llama.py: hidden_states = decoder_layer(hidden_states, attention_mask, position_ids)
# repair: modeling_llama.py: cos = cos[position_ids].unsqueeze(unsqueeze_dim) -> cos = cos[position_ids.to(cos.device)].unsqueeze(unsqueeze_dim)
# repair: modeling_llama.py: sin = sin[position_ids].unsqueeze(unsqueeze_dim) -> sin = sin[position_ids.to(sin.device)].unsqueeze(unsqueeze_dim)
import torch

from datautils import get_loaders
from modeling_llama import LlamaForCausalLM


def get_modules(layer):
    return [layer.self_attn.qkv_proj, layer.self_attn.o_proj, layer.mlp]


def train(num_examples=3):
    torch.manual_seed(14)
    dataloader = get_loaders(seed=1, seqlen=7, nsamples=num_examples)
    model = LlamaForCausalLM(vocab_size=30, hidden_size=16, num_layers=4)
    _model = model.model
    _model.set_devices()
    model.lm_head.to("cuda:0")
    grads = [[0.0] * 3 for _ in _model.layers]
    for data in dataloader:
        x = data.cuda()
        loss = model(input_ids=x, labels=x)
        loss.backward()
        for i, layer in enumerate(_model.layers):
            for j, module in enumerate(get_modules(layer)):
                grads[i][j] += (module.weight.grad**2).float().cpu()
        model.zero_grad()
    return grads


if __name__ == "__main__":
    sums = [sum(grad.sum().item() for grad in layer) for layer in train()]
    print("squares of each layer", [f"{value:.4f}" for value in sums])
# --- datautils.py
import torch


def get_loaders(seed, seqlen, nsamples, vocab_size=30):
    draws = torch.Generator().manual_seed(seed)
    return [torch.randint(0, vocab_size, (1, seqlen), generator=draws) for _ in range(nsamples)]
# --- modeling_llama.py
import torch
from torch import nn
from torch.nn import functional as F


class LlamaRotaryEmbedding(nn.Module):
    def __init__(self, dim, max_position_embeddings=16, base=100.0):
        super().__init__()
        inv_freq = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
        freqs = torch.outer(torch.arange(max_position_embeddings).float(), inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        self.register_buffer("cos_cached", emb.cos(), persistent=False)
        self.register_buffer("sin_cached", emb.sin(), persistent=False)

    def forward(self, seq_len):
        return self.cos_cached[:seq_len], self.sin_cached[:seq_len]


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, position_ids, unsqueeze_dim=1):
    cos = cos[position_ids].unsqueeze(unsqueeze_dim)
    sin = sin[position_ids].unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class LlamaAttention(nn.Module):
    def __init__(self, hidden_size, num_heads=2):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, hidden_size // num_heads
        self.qkv_proj = nn.Linear(hidden_size, 3 * hidden_size, bias=False)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.rotary_emb = LlamaRotaryEmbedding(self.head_dim)

    def forward(self, hidden_states, attention_mask, position_ids):
        batch, length, _ = hidden_states.shape
        qkv = self.qkv_proj(hidden_states).view(batch, length, 3, self.num_heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        cos, sin = self.rotary_emb(length)
        q, k = apply_rotary_pos_emb(q, k, cos, sin, position_ids)
        weights = torch.softmax(q @ k.transpose(2, 3) / self.head_dim**0.5 + attention_mask, dim=-1)
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2))


class LlamaDecoderLayer(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(hidden_size)
        self.self_attn = LlamaAttention(hidden_size)
        self.mlp = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask, position_ids):
        hidden_states = hidden_states + self.self_attn(self.input_layernorm(hidden_states), attention_mask, position_ids)
        return hidden_states + F.silu(self.mlp(hidden_states))


class LlamaModel(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, hidden_size)
        self.layers = nn.ModuleList(LlamaDecoderLayer(hidden_size) for _ in range(num_layers))
        self.norm = nn.LayerNorm(hidden_size)

    def set_devices(self):
        num_visible_devices = torch.cuda.device_count()
        self.split_indices = []
        self.embed_tokens.to("cuda:0")
        self.norm.to("cuda:0")
        prev_device, nums = 0, len(self.layers) // num_visible_devices
        for i, layer in enumerate(self.layers):
            device = min(num_visible_devices - 1, i // nums)
            if prev_device != device:
                self.split_indices.append(i)
            layer.to(f"cuda:{device}")
            prev_device = device

    def forward(self, input_ids):
        length = input_ids.shape[1]
        hidden_states = self.embed_tokens(input_ids)
        position_ids = torch.arange(length, device=input_ids.device).unsqueeze(0)
        attention_mask = torch.full((length, length), -1e4, device=input_ids.device).triu(1)
        device = 0
        for idx, decoder_layer in enumerate(self.layers):
            if idx in self.split_indices:
                device += 1
                hidden_states = hidden_states.to(f"cuda:{device}")
                attention_mask = attention_mask.to(f"cuda:{device}")
            hidden_states = decoder_layer(hidden_states, attention_mask, position_ids)
        return self.norm(hidden_states.to("cuda:0"))


class LlamaForCausalLM(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_layers):
        super().__init__()
        self.model = LlamaModel(vocab_size, hidden_size, num_layers)
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)

    def forward(self, input_ids, labels):
        logits = self.lm_head(self.model(input_ids))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
