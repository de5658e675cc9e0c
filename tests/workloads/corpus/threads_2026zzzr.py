# === events_that_excite_the_next_ones
# thread: https://github.com/ant-research/EasyTemporalPointProcess/pull/41
# about: what happens next, and when, is foretold by an attentive Hawkes process. Layers see the events before them, and of the other layers none
# operation: cat|concat on cuda:0, cpu
# operands: tensors\[1\]|tensors|.*layer_mask.*
# category: created-without-device
# line: easy_tpp/model/torch_model/torch_attnhp.py: layer_mask = (torch.eye(
# line: easy_tpp/model/torch_model/torch_attnhp.py: layer_mask = self.make_layer_mask(attention_mask)
# line: easy_tpp/model/torch_model/torch_attnhp.py: combined_mask = torch.cat([attention_mask, layer_mask], dim=-1)
# repair: easy_tpp/model/torch_model/torch_attnhp.py: layer_mask = (torch.eye(attention_mask.size(1)) < 1).unsqueeze(0).expand_as(attention_mask) -> layer_mask = (torch.eye(attention_mask.size(1)) < 1).unsqueeze(0).expand_as(attention_mask).to(attention_mask.device)
import torch

from easy_tpp.runner.tpp_runner import TPPRunner

CONFIG = {
    "hidden_size": 8,
    "time_emb_size": 4,
    "num_layers": 2,
    "num_heads": 2,
    "num_event_types": 3,
    "pad_token_id": 3,
    "loss_integral_num_sample_per_step": 4,
    "gpu": 0,
}


def sequences(count, seed=41):
    generator = torch.Generator().manual_seed(seed)
    made = []
    for index in range(count):
        length = 6 + index % 4
        time_delta_seq = -torch.rand(length, generator=generator).log()
        type_seq = torch.randint(3, (length,), generator=generator)
        made.append((time_delta_seq.cumsum(0), time_delta_seq, type_seq))
    return made


if __name__ == "__main__":
    torch.manual_seed(2)
    runner = TPPRunner(CONFIG, batch_size=4)
    loglikes = runner.train(sequences(12), max_epoch=3)
    print("log likelihood of an event", [round(value, 3) for value in loglikes])
# --- easy_tpp/preprocess/event_tokenizer.py
import torch
from torch.nn.utils.rnn import pad_sequence


def collate(batch, pad_token_id):
    """Times, their differences and types, padded, and where an event may not look."""
    time_seqs, time_delta_seqs, type_seqs = zip(*batch)
    time_seqs = pad_sequence(time_seqs, batch_first=True)
    time_delta_seqs = pad_sequence(time_delta_seqs, batch_first=True)
    type_seqs = pad_sequence(type_seqs, batch_first=True, padding_value=pad_token_id)
    batch_non_pad_mask = type_seqs != pad_token_id
    later = torch.triu(torch.ones(type_seqs.size(1), type_seqs.size(1)), diagonal=1).bool()
    attention_mask = later.unsqueeze(0) | ~batch_non_pad_mask.unsqueeze(1)
    return time_seqs, time_delta_seqs, type_seqs, batch_non_pad_mask, attention_mask
# --- easy_tpp/runner/tpp_runner.py
import torch
from torch.utils.data import DataLoader

from easy_tpp.model.torch_model.torch_attnhp import AttNHP
from easy_tpp.preprocess.event_tokenizer import collate


class TPPRunner:
    def __init__(self, config, batch_size):
        self.pad_token_id, self.batch_size = config["pad_token_id"], batch_size
        self.model = AttNHP(config)
        self.model.to(self.model.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def train(self, data, max_epoch):
        loader = DataLoader(data, batch_size=self.batch_size, collate_fn=lambda batch: collate(batch, self.pad_token_id))
        loglikes = []
        for _ in range(max_epoch):
            total, events = 0.0, 0
            for batch in loader:
                batch = [values.to(self.model.device) for values in batch]
                loss, num_event = self.model.loglike_loss(batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total, events = total + loss.item(), events + num_event
            loglikes.append(-total / events)
        return loglikes
# --- easy_tpp/model/torch_model/torch_attnhp.py
import math

import torch
from torch import nn


class EncoderLayer(nn.Module):
    def __init__(self, d_input, d_output):
        super().__init__()
        self.query_key_value = nn.Linear(d_input, 3 * d_output)

    def forward(self, x, mask):
        query, key, value = self.query_key_value(x).chunk(3, dim=-1)
        scores = query @ key.transpose(1, 2) / math.sqrt(query.size(-1))
        return torch.softmax(scores.masked_fill(mask, -1e9), dim=-1) @ value


class AttNHP(nn.Module):
    def __init__(self, model_config):
        super().__init__()
        self.device = torch.device(f"cuda:{model_config['gpu']}" if model_config["gpu"] >= 0 else "cpu")
        self.d_model, self.d_time = model_config["hidden_size"], model_config["time_emb_size"]
        self.n_head, self.n_layers = model_config["num_heads"], model_config["num_layers"]
        self.num_event_types = model_config["num_event_types"]
        self.num_samples = model_config["loss_integral_num_sample_per_step"]
        self.div_term = torch.exp(torch.arange(0, self.d_time, 2) * -(math.log(10000.0) / self.d_time)).reshape(1, 1, -1)
        self.layer_type_emb = nn.Embedding(self.num_event_types + 1, self.d_model, padding_idx=model_config["pad_token_id"])
        self.heads = nn.ModuleList(
            nn.ModuleList(EncoderLayer(self.d_model + self.d_time, self.d_model) for _ in range(self.n_layers)) for _ in range(self.n_head)
        )
        self.layer_intensity = nn.Sequential(nn.Linear(self.d_model * self.n_head, self.num_event_types), nn.Softplus())

    def compute_temporal_embedding(self, time):
        angles = time.unsqueeze(-1) * self.div_term.to(time)
        return torch.cat([angles.sin(), angles.cos()], dim=-1)

    def make_layer_mask(self, attention_mask):
        layer_mask = (torch.eye(attention_mask.size(1)) < 1).unsqueeze(0).expand_as(attention_mask)
        return layer_mask

    def make_combined_att_mask(self, attention_mask, layer_mask):
        combined_mask = torch.cat([attention_mask, layer_mask], dim=-1)
        contextual_mask = torch.cat([attention_mask, torch.ones_like(layer_mask)], dim=-1)
        return torch.cat([contextual_mask, combined_mask], dim=1)

    def forward(self, time_seqs, event_seqs, attention_mask, sample_times):
        time_emb = self.compute_temporal_embedding(time_seqs)
        sample_time_emb = self.compute_temporal_embedding(sample_times)
        type_emb = torch.tanh(self.layer_type_emb(event_seqs))
        layer_mask = self.make_layer_mask(attention_mask)
        combined_mask = self.make_combined_att_mask(attention_mask, layer_mask)
        seq_len, of_heads = event_seqs.size(1), []
        for head in self.heads:
            event_emb, cur_layer = torch.cat([type_emb, time_emb], dim=-1), torch.zeros_like(type_emb)
            for layer in head:
                layer_input = torch.cat([cur_layer, sample_time_emb], dim=-1)
                enc_output = layer(torch.cat([event_emb, layer_input], dim=1), combined_mask)
                cur_layer = cur_layer + torch.tanh(enc_output[:, seq_len:])
                event_emb = torch.cat([enc_output[:, :seq_len], time_emb], dim=-1)
            of_heads.append(cur_layer)
        return torch.cat(of_heads, dim=-1)

    def loglike_loss(self, batch):
        time_seqs, time_delta_seqs, type_seqs, batch_non_pad_mask, attention_mask = batch
        seen = time_seqs[:, :-1], type_seqs[:, :-1], attention_mask[:, :-1, :-1]
        lambda_at_event = self.layer_intensity(self.forward(*seen, time_seqs[:, 1:]))
        mask = batch_non_pad_mask[:, 1:]
        next_types = type_seqs[:, 1:].clamp(max=self.num_event_types - 1)
        event_ll = lambda_at_event.gather(-1, next_types.unsqueeze(-1)).squeeze(-1).log()

        lambdas = []
        for ratio in torch.linspace(0.0, 1.0, self.num_samples).tolist():
            sample_times = time_seqs[:, :-1] + ratio * time_delta_seqs[:, 1:]
            lambdas.append(self.layer_intensity(self.forward(*seen, sample_times)).sum(-1))
        non_event_ll = torch.stack(lambdas).mean(0) * time_delta_seqs[:, 1:]
        return -((event_ll - non_event_ll) * mask).sum(), mask.sum().item()

# === where_a_peptide_is_cut_out_of_a_protein
# thread: https://github.com/fteufel/DeepPeptide/issues/4
# about: proteins are embedded, and an ensemble of networks with a random field above finds the peptides in them. Lately this runs on a GPU
# operation: conv1d|convolution|_convolution|cudnn_convolution|_conv_forward on cpu, cuda:0
# operands: input|embeddings|.*embeddings.*
# error: (on the same device|should be the same)
# category: input-not-moved|input
# line: predictor/predict.py: embeddings.to(device)
# line: predictor/predict.py: embeddings, mask = b
# line: predictor/predict.py: features = model.feature_extractor(
# line: predictor/predict.py: mask.to(device)
# repair: predictor/predict.py: embeddings.to(device) -> embeddings = embeddings.to(device)
# repair: predictor/predict.py: mask.to(device) -> mask = mask.to(device)
from predictor.predict import main

FASTA = """>first
MKTLLVAGGKRSPEWLKR
>second
MRKKAVLLGSWPDEEKRAAG
>third
MSKRGGPAWLEKKRDD
"""

if __name__ == "__main__":
    main(FASTA, batch_size=2)
# --- predictor/predict.py
import torch

from predictor import utils


def main(fasta, batch_size):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    out_dict = {"PREDICTIONS": {}}

    ids, seqs = utils.parse_fasta(fasta)
    batches = utils.batchify(utils.esm_embed(seqs), batch_size)
    models = utils.load_models(["checkpoints/0/1", "checkpoints/0/2", "checkpoints/1/0"])
    crf = utils.combine_crf(models)

    all_paths, all_probs = [], []
    with torch.no_grad():
        for b in batches:
            embeddings, mask = b
            embeddings.to(device)
            mask.to(device)

            batch_emissions = []
            for model in models:
                model.to(device)
                model.eval()
                features = model.feature_extractor(embeddings.permute(0, 2, 1), mask)
                emissions = model.features_to_emissions(features)
                batch_emissions.append(emissions.cpu())

            batch_emissions = torch.stack(batch_emissions).mean(dim=0)
            ensemble_paths, path_llhs = crf.to(device).decode(batch_emissions.to(device), mask.bool())
            all_paths.extend(ensemble_paths)
            all_probs.extend(path_llhs)

    for name, path, llh in zip(ids, all_paths, all_probs):
        out_dict["PREDICTIONS"][name] = {"peptides": utils.peptide_borders(path), "score": round(llh, 3)}
    print(out_dict["PREDICTIONS"])
# --- predictor/utils.py
import copy

import torch
from torch.nn.utils.rnn import pad_sequence

from predictor.model import LSTMCNNCRF

ALPHABET = "ACDEFGHIKLMNPQRSTVWY"


def parse_fasta(text):
    ids, seqs = [], []
    for line in text.split():
        if line.startswith(">"):
            ids.append(line[1:])
            seqs.append("")
        else:
            seqs[-1] += line
    return ids, seqs


def esm_embed(seqs, width=12):
    """Stands for the language model of proteins: what an amino acid is, with its neighbours."""
    table = torch.randn(len(ALPHABET), width, generator=torch.Generator().manual_seed(14))
    embedded = [table[[ALPHABET.index(letter) for letter in seq]] for seq in seqs]
    return [each + each.roll(1, 0) / 2 for each in embedded]


def batchify(embeddings, batch_size):
    batches = []
    for start in range(0, len(embeddings), batch_size):
        chosen = embeddings[start : start + batch_size]
        mask = pad_sequence([torch.ones(len(each)) for each in chosen], batch_first=True)
        batches.append((pad_sequence(chosen, batch_first=True), mask))
    return batches


def load_models(paths):
    models = []
    for seed, _ in enumerate(paths):
        torch.manual_seed(seed + 5)
        models.append(LSTMCNNCRF(input_size=12, num_labels=3))
    return models


def combine_crf(models):
    crf = copy.deepcopy(models[0].crf)
    for name, parameter in crf.named_parameters():
        parameter.data = torch.stack([dict(model.crf.named_parameters())[name].data for model in models]).mean(0)
    return crf


def peptide_borders(path, state=1):
    """First and last residue of each run of the state, counted from one."""
    borders, start = [], None
    for position, label in enumerate([*path, None], 1):
        if label == state and start is None:
            start = position
        elif label != state and start is not None:
            borders.append((start, position - 1))
            start = None
    return borders
# --- predictor/model.py
import torch
from torch import nn


class CRF(nn.Module):
    def __init__(self, num_tags):
        super().__init__()
        self.start_transitions = nn.Parameter(torch.randn(num_tags))
        self.transitions = nn.Parameter(0.1 * torch.randn(num_tags, num_tags))

    def decode(self, emissions, mask):
        """The best path of each sequence, and its score."""
        paths, scores = [], []
        for emission, valid in zip(emissions, mask):
            emission = emission[valid]
            score, history = self.start_transitions + emission[0], []
            for step in emission[1:]:
                score, best = (score.unsqueeze(1) + self.transitions).max(dim=0)
                score = score + step
                history.append(best.tolist())
            path = [score.argmax().item()]
            for best in reversed(history):
                path.append(best[path[-1]])
            paths.append(path[::-1])
            scores.append(score.max().item())
        return paths, scores


class CNNFeatures(nn.Module):
    def __init__(self, input_size, n_filters):
        super().__init__()
        self.conv1 = nn.Conv1d(input_size, n_filters, kernel_size=3, padding=1)
        self.conv2 = nn.Conv1d(n_filters, n_filters, kernel_size=5, padding=2)
        self.ReLU = nn.ReLU()

    def forward(self, embeddings, mask):
        out = self.ReLU(self.conv1(embeddings))
        out = self.ReLU(self.conv2(out * mask.unsqueeze(1)))
        return out.permute(0, 2, 1)


class LSTMCNNCRF(nn.Module):
    def __init__(self, input_size, num_labels, n_filters=8):
        super().__init__()
        self.feature_extractor = CNNFeatures(input_size, n_filters)
        self.features_to_emissions = nn.Linear(n_filters, num_labels, bias=False)
        self.crf = CRF(num_labels)

# === colours_of_a_shape_baked_into_a_picture
# thread: https://github.com/iffyloop/TripoSR-Bake/issues/7
# about: a shape got of one picture is given a texture. Where its surface lies is drawn into an atlas, and a field is asked for the colour there
# operation: grid_sampler_2d|grid_sampler|grid_sample|cudnn_grid_sampler on cuda:0, cpu
# operands: grid|.*indices2D.*|positions|.*positions.*
# category: input-not-moved|input
# line: texture.py: positions = torch.tensor(
# line: texture.py: positions,
# line: tsr/models/nerf_renderer.py: net_out = chunk_batch(
# line: tsr/models/nerf_renderer.py: positions = positions / self.radius
# repair: texture.py: positions = torch.tensor(rasterize_result.reshape(-1, 4)[:, :-1]) -> positions = torch.tensor(rasterize_result.reshape(-1, 4)[:, :-1]).to(args.device)
# repair: texture.py: rgb_f = queried_grid["color"].numpy().reshape(-1, 3) -> rgb_f = queried_grid["color"].cpu().numpy().reshape(-1, 3)
import pickle
import tempfile
from pathlib import Path

import torch

import texture
from tsr.system import TSR


def mesh(device, output_scene_codes):
    model = TSR.from_pretrained("stabilityai/TripoSR").to(device)
    picture = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        scene_codes = model(picture.to(device))
    with open(output_scene_codes, "wb") as outfile:
        pickle.dump(scene_codes, outfile)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        scene_codes = str(Path(folder) / "scene_codes.pkl")
        mesh("cuda:0", scene_codes)
        image = texture.main(["--device", "cuda:0", "--input-scene-codes", scene_codes, "--texture-resolution", "12"])
    covered = image[..., 3] > 0
    print(f"{covered.sum()} of {covered.size} texels, mean colour {[round(float(part), 3) for part in image[covered][:, :3].mean(axis=0)]}")
# --- texture.py
import argparse
import pickle

import numpy as np
import torch

from tsr.system import TSR


def run_tsr(args):
    model = TSR.from_pretrained("stabilityai/TripoSR")
    model.renderer.set_chunk_size(args.tsr_chunk_size)
    model.to(args.device)
    with open(args.input_scene_codes, "rb") as infile:
        scene_codes = pickle.load(infile)
    return {"model": model, "scene_codes": scene_codes}


def run_rasterize(args):
    """A ball whose surface is unrolled; the poles stay empty."""
    steps = (np.arange(args.texture_resolution, dtype=np.float32) + 0.5) / args.texture_resolution
    height, turn = np.meshgrid(2 * steps - 1, 2 * np.pi * steps, indexing="ij")
    ring = np.sqrt(1 - height**2)
    covered = (np.abs(height) < 0.9).astype(np.float32)
    points = np.stack([ring * np.cos(turn), ring * np.sin(turn), height], axis=-1) * 0.6
    return np.concatenate([points * covered[..., None], covered[..., None]], axis=-1)


def run_bake(args, tsr_result, rasterize_result):
    positions = torch.tensor(rasterize_result.reshape(-1, 4)[:, :-1])
    with torch.no_grad():
        queried_grid = tsr_result["model"].renderer.query_triplane(
            tsr_result["model"].decoder,
            positions,
            tsr_result["scene_codes"][0],
        )
    rgb_f = queried_grid["color"].numpy().reshape(-1, 3)
    rgba_f = np.insert(rgb_f, 3, rasterize_result.reshape(-1, 4)[:, -1], axis=1)
    rgba_f[rgba_f[:, -1] == 0.0] = 0.0
    return rgba_f.reshape(args.texture_resolution, args.texture_resolution, 4)


def main(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--input-scene-codes", required=True)
    parser.add_argument("--texture-resolution", type=int, default=1024)
    parser.add_argument("--tsr-chunk-size", type=int, default=50)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args(argv)

    tsr_result = run_tsr(args)
    rasterize_result = run_rasterize(args)
    return run_bake(args, tsr_result, rasterize_result)
# --- tsr/system.py
import torch
from torch import nn

from tsr.models.nerf_renderer import TriplaneNeRFRenderer


class NeRFMLP(nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(in_channels, 8), nn.SiLU(), nn.Linear(8, 4))

    def forward(self, x):
        out = self.layers(x)
        return {"density": out[..., :1], "features": out[..., 1:]}


class TSR(nn.Module):
    def __init__(self, channels=4, plane_size=8):
        super().__init__()
        self.plane = (3, channels, plane_size, plane_size)
        self.tokenizer = nn.Conv2d(3, 3 * channels, kernel_size=2, stride=2)
        self.decoder = NeRFMLP(3 * channels)
        self.renderer = TriplaneNeRFRenderer(radius=0.87)

    @classmethod
    def from_pretrained(cls, name):
        torch.manual_seed(len(name))
        return cls()

    def forward(self, image):
        return self.tokenizer(image).view(image.shape[0], *self.plane)
# --- tsr/models/nerf_renderer.py
import torch
import torch.nn.functional as F
from torch import nn


def chunk_batch(func, chunk_size, x):
    if chunk_size <= 0:
        return func(x)
    parts = [func(chunk) for chunk in x.split(chunk_size)]
    return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}


class TriplaneNeRFRenderer(nn.Module):
    def __init__(self, radius):
        super().__init__()
        self.radius, self.chunk_size = radius, 0

    def set_chunk_size(self, chunk_size):
        self.chunk_size = chunk_size

    def query_triplane(self, decoder, positions, triplane):
        positions = positions / self.radius

        def _query_chunk(x):
            indices2D = torch.stack([x[..., [0, 1]], x[..., [0, 2]], x[..., [1, 2]]])
            out = F.grid_sample(triplane, indices2D.unsqueeze(1), align_corners=False, mode="bilinear")
            return decoder(out.squeeze(2).permute(2, 0, 1).flatten(1))

        net_out = chunk_batch(_query_chunk, self.chunk_size, positions)
        net_out["color"] = torch.sigmoid(net_out["features"])
        return net_out

# === few_steps_of_a_model_that_waits_in_ram
# thread: https://github.com/lllyasviel/stable-diffusion-webui-forge/issues/71
# about: pictures are drawn in a few steps by a latent consistency model. The model waits in RAM, and its network alone comes to the GPU
# operation: (index|__getitem__|index_select) on cpu, cuda:0
# operands: indices|index|indices\[0\]|.*low_idx.*|.*high_idx.*|self|.*log_sigmas.*
# error: indices should be either on cpu or on the same device as the indexed tensor
# category: module-split|created-without-device|default-or-current-device|cached-state
# line: modules/sd_samplers_lcm.py: t = torch.linspace(
# line: modules/sd_samplers_lcm.py: return append_zero(self.t_to_sigma(t))
# line: modules/sd_samplers_lcm.py: timestep = (timestep -
# line: k_diffusion/external.py: low_idx, high_idx =
# line: k_diffusion/external.py: log_sigma = (1 - w)
# repair: modules/sd_samplers_lcm.py: t = torch.linspace(start, end, n, device=shared.sd_model.forge_objects.unet.current_device) -> t = torch.linspace(start, end, n, device=self.log_sigmas.device)
import torch

from modules import shared
from modules.sd_samplers_lcm import LCMSampler, sample_lcm


def process_images(seed, steps):
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(2, 4, 6, 6, generator=generator)
    shared.sd_model.forge_objects.unet.load_to(shared.device)
    sampler = LCMSampler(sample_lcm, shared.sd_model)
    with torch.no_grad():
        return sampler.sample(noise.to(shared.device), steps, generator)


if __name__ == "__main__":
    samples = process_images(seed=71, steps=4)
    print(f"mean {samples.mean().item():.3f}, deviation {samples.std().item():.3f}")
# --- modules/shared.py
from types import SimpleNamespace

import torch
from torch import nn

device = torch.device("cuda:0")


class UnetPatcher:
    """The network, and where it is at present."""

    def __init__(self, model):
        self.model, self.current_device = model, torch.device("cpu")

    def load_to(self, target):
        self.model.to(target)
        self.current_device = target


class StableDiffusion:
    def __init__(self):
        torch.manual_seed(5)
        self.device = torch.device("cpu")
        self.alphas_cumprod = torch.cumprod(1 - torch.linspace(0.03**2, 0.11**2, 1000), dim=0)
        unet = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.SiLU(), nn.Conv2d(8, 4, 3, padding=1))
        self.forge_objects = SimpleNamespace(unet=UnetPatcher(unet))

    def apply_model(self, x, t):
        return self.forge_objects.unet.model(x + 0.001 * t.view(-1, 1, 1, 1))


sd_model = StableDiffusion()
# --- k_diffusion/external.py
import torch
from torch import nn


def append_zero(x):
    return torch.cat([x, x.new_zeros([1])])


class DiscreteEpsDDPMDenoiser(nn.Module):
    """Speaks of noise by its strength to a model that knows it by its step."""

    def __init__(self, model, alphas_cumprod):
        super().__init__()
        sigmas = ((1 - alphas_cumprod) / alphas_cumprod).sqrt()
        self.inner_model = model
        self.register_buffer("sigmas", sigmas)
        self.register_buffer("log_sigmas", sigmas.log())

    def t_to_sigma(self, t):
        low_idx, high_idx = t.floor().long(), t.ceil().long()
        w = t.frac()
        log_sigma = (1 - w) * self.log_sigmas[low_idx] + w * self.log_sigmas[high_idx]
        return log_sigma.exp()

    def get_scalings(self, sigma):
        return -sigma, 1 / (sigma**2 + 1.0) ** 0.5
# --- modules/sd_samplers_lcm.py
import torch

from k_diffusion.external import DiscreteEpsDDPMDenoiser, append_zero
from modules import shared


class LCMCompVisDenoiser(DiscreteEpsDDPMDenoiser):
    def __init__(self, model):
        timesteps, original_timesteps = 1000, 50
        self.skip_steps = timesteps // original_timesteps
        chosen = torch.arange(self.skip_steps - 1, timesteps, self.skip_steps)
        super().__init__(model, model.alphas_cumprod[chosen].to(model.device))
        self.skip_steps = timesteps // original_timesteps

    def get_sigmas(self, n):
        start = self.sigma_to_t(self.sigmas[-1:]).item()
        end = self.sigma_to_t(self.sigmas[:1]).item()
        t = torch.linspace(start, end, n, device=shared.sd_model.forge_objects.unet.current_device)
        return append_zero(self.t_to_sigma(t))

    def sigma_to_t(self, sigma):
        distances = (sigma.log() - self.log_sigmas.to(sigma)[:, None]).abs()
        return distances.argmin(dim=0).view(sigma.shape) * self.skip_steps + (self.skip_steps - 1)

    def t_to_sigma(self, timestep):
        timestep = (timestep - (self.skip_steps - 1)) / self.skip_steps
        return super().t_to_sigma(timestep.clamp(min=0, max=len(self.sigmas) - 1))

    def forward(self, input, sigma):
        c_out, c_in = (each.view(-1, 1, 1, 1) for each in self.get_scalings(sigma))
        eps = self.inner_model.apply_model(input * c_in, self.sigma_to_t(sigma).float())
        return input + eps * c_out


def sample_lcm(model, x, sigmas, generator):
    for i in range(len(sigmas) - 1):
        x = model(x, sigmas[i] * x.new_ones([x.shape[0]]))
        if sigmas[i + 1] > 0:
            x = x + sigmas[i + 1] * torch.randn(x.shape, generator=generator).to(x.device)
    return x


class LCMSampler:
    def __init__(self, func, sd_model):
        self.func = func
        self.model_wrap = LCMCompVisDenoiser(sd_model)

    def sample(self, x, steps, generator):
        sigmas = self.model_wrap.get_sigmas(steps).to(shared.device)
        return self.func(self.model_wrap, x * sigmas[0], sigmas, generator)

# === neighbours_across_the_walls_of_a_slanted_cell
# thread: https://github.com/learningmatter-mit/NeuralForceField/issues/8
# about: atoms of a crystal see their neighbours in the next cell too. Cells whose walls stand upright are treated apart from slanted ones
# operation: linalg_solve|_linalg_solve_ex|linalg_solve_ex|solve on cpu, cuda:0
# operands: A|.*cell.*|self
# category: input-not-moved|created-without-device|input
# line: nff/nn/utils.py: cell = torch.Tensor(atomsobject.cell)
# line: nff/nn/utils.py: f = torch.linalg.solve(
# repair: nff/nn/utils.py: cell = torch.Tensor(atomsobject.cell) -> cell = torch.Tensor(atomsobject.cell).to(device)
import numpy as np
import torch

from nff.io.ase import AtomsBatch
from nff.nn.models.schnet import SchNet

UPRIGHT = np.diag([3.0, 3.2, 3.4])
SLANTED = UPRIGHT + np.array([[0.0, 0.0, 0.0], [0.6, 0.0, 0.0], [0.2, 0.3, 0.0]])


def crystal(cell, seed=8):
    rng = np.random.default_rng(seed)
    return AtomsBatch(numbers=[11, 17, 11, 17, 8], positions=rng.random((5, 3)) @ cell, cell=cell, pbc=[True] * 3)


def main():
    torch.manual_seed(8)
    model = SchNet(n_atom_basis=8, cutoff=1.7).to("cuda:0")
    energies = []
    for cell in (UPRIGHT, SLANTED):
        atoms = crystal(cell)
        batch = atoms.get_batch(cutoff=1.7, device="cuda:0")
        energies.append((len(batch["nbr_list"]), round(model(batch).item(), 3)))
    print("pairs and energy, upright and slanted", energies)


if __name__ == "__main__":
    main()
# --- nff/io/ase.py
import numpy as np
import torch

from nff.nn.utils import torch_nbr_list


class AtomsBatch:
    def __init__(self, numbers, positions, cell, pbc):
        self.numbers = np.array(numbers)
        self.positions, self.cell, self.pbc = positions, cell, pbc

    def get_positions(self):
        return self.positions

    def get_batch(self, cutoff, device):
        edge_from, edge_to, distances = torch_nbr_list(self, cutoff, device=device)
        return {
            "numbers": torch.tensor(self.numbers, device=device),
            "nbr_list": torch.tensor(np.stack([edge_from, edge_to], axis=1), device=device),
            "distances": torch.tensor(distances, device=device),
        }
# --- nff/nn/utils.py
import numpy as np
import torch


def torch_nbr_list(atomsobject, cutoff, device="cuda:0", directed=True):
    """Pairs of atoms nearer than the cutoff, and how far apart they are, by the nearest image."""
    xyz = torch.Tensor(atomsobject.get_positions()).to(device)
    dis_mat = xyz[None, :, :] - xyz[:, None, :]

    if any(atomsobject.pbc):
        if np.count_nonzero(atomsobject.cell - np.diag(np.diagonal(atomsobject.cell))) != 0:
            shape = dis_mat.shape
            cell = torch.Tensor(atomsobject.cell)
            f = torch.linalg.solve(cell.T, dis_mat.view(-1, 3).T).T
            g = f - torch.floor(f + 0.5)
            dis_mat = torch.matmul(g, cell).view(shape)
        else:
            box_len = torch.Tensor(np.diagonal(atomsobject.cell).copy()).to(device)
            dis_mat = dis_mat - torch.round(dis_mat / box_len) * box_len

    dis_sq = dis_mat.pow(2).sum(-1)
    mask = (dis_sq < cutoff**2) & (dis_sq != 0)
    nbr_list = mask.nonzero()
    if not directed:
        nbr_list = nbr_list[nbr_list[:, 1] > nbr_list[:, 0]]
    i, j = nbr_list.T
    return i.cpu().numpy(), j.cpu().numpy(), dis_sq[i, j].sqrt().cpu().numpy()
# --- nff/nn/models/schnet.py
import torch
from torch import nn


class SchNet(nn.Module):
    def __init__(self, n_atom_basis, cutoff, n_gaussians=6):
        super().__init__()
        self.atom_embed = nn.Embedding(20, n_atom_basis)
        self.register_buffer("offsets", torch.linspace(0.0, cutoff, n_gaussians))
        self.filter = nn.Sequential(nn.Linear(n_gaussians, n_atom_basis), nn.Softplus())
        self.readout = nn.Sequential(nn.Linear(n_atom_basis, n_atom_basis // 2), nn.Softplus(), nn.Linear(n_atom_basis // 2, 1))

    def forward(self, batch):
        r = self.atom_embed(batch["numbers"])
        smeared = torch.exp(-4.0 * (batch["distances"].unsqueeze(1) - self.offsets) ** 2)
        sent = self.filter(smeared) * r[batch["nbr_list"][:, 1]]
        r = r.index_add(0, batch["nbr_list"][:, 0], sent)
        return self.readout(r).sum()

# === those_who_are_seen_again_by_another_card
# thread: https://github.com/erdos-project/pylot/issues/216
# about: a car detects what moves around it and keeps track of it by how it looks. Two operators of its pipeline are run on one card each
# operation: (mul|multiply) on cuda:0, cuda:1
# operands: self|other|gaussian_mask|.*gaussian_mask.*|.*processed_crops.*
# category: default-or-current-device|cached-state
# line: nanonets_object_tracking/deepsort.py: processed_crops = self.pre_process(frame, detections).cuda()
# line: nanonets_object_tracking/deepsort.py: processed_crops = self.gaussian_mask * processed_crops
# repair: nanonets_object_tracking/deepsort.py: processed_crops = self.pre_process(frame, detections).cuda() -> processed_crops = self.pre_process(frame, detections).to(self.gaussian_mask.device)
import argparse

import torch

from pylot.perception.detection.detection_operator import DetectionOperator
from pylot.perception.tracking.object_tracker_operator import ObjectTrackerOperator

FLAGS = argparse.Namespace(obstacle_detection_gpu_index=1, tracking_gpu_index=0, tracker_type="deep_sort", min_matching_similarity=0.5)


def drive(frames):
    """Two bright things that move through a dark picture, apart in their colour."""
    generator = torch.Generator().manual_seed(6)
    for step in range(frames):
        frame = 0.5 * torch.rand(3, 24, 40, generator=generator)
        frame[0, 4:10, 2 + 2 * step : 8 + 2 * step] = 1.0
        frame[1:, 14:20, 30 - 2 * step : 36 - 2 * step] = torch.tensor([0.6, 0.9]).view(2, 1, 1)
        yield frame


def main():
    torch.manual_seed(216)
    tracking = ObjectTrackerOperator(FLAGS)
    detection = DetectionOperator(FLAGS)
    for frame in drive(6):
        boxes = detection.on_msg_camera_stream(frame)
        tracks = tracking.on_frame_msg(frame, boxes)
    print("tracks", [(track["id"], track["box"], round(track["similarity"], 3)) for track in tracks])


if __name__ == "__main__":
    main()
# --- pylot/perception/detection/detection_operator.py
import torch
import torch.nn.functional as F


class DetectionOperator:
    def __init__(self, flags):
        torch.cuda.set_device(flags.obstacle_detection_gpu_index)
        self._kernel = torch.ones(1, 1, 6, 6).cuda() / 36

    @torch.no_grad()
    def on_msg_camera_stream(self, frame):
        """The corners and sizes of the two places that are brightest, in order of their height."""
        bright = F.conv2d(frame.cuda().amax(dim=0)[None, None], self._kernel)[0, 0]
        boxes = []
        for half in (bright[:10], bright[10:]):
            y, x = divmod(half.argmax().item(), half.shape[1])
            boxes.append((x, y + (10 if len(boxes) else 0), 6, 6))
        return boxes
# --- pylot/perception/tracking/object_tracker_operator.py
import torch

from nanonets_object_tracking.deepsort import deepsort_rbc


class MultiObjectDeepSORTTracker:
    def __init__(self, flags):
        self._flags = flags
        self._deepsort = deepsort_rbc()
        self._tracks = []

    def empty(self):
        return not self._tracks

    def reinitialize(self, frame, boxes):
        features = self._deepsort.extract(frame, boxes)
        self._tracks = [{"id": n, "box": box, "feature": feature, "similarity": 1.0} for n, (box, feature) in enumerate(zip(boxes, features))]
        return self._tracks

    def track(self, frame, boxes):
        features = self._deepsort.extract(frame, boxes)
        for track in self._tracks:
            similarities = [float(track["feature"] @ feature) for feature in features]
            best = max(range(len(boxes)), key=similarities.__getitem__)
            if similarities[best] > self._flags.min_matching_similarity:
                track.update(box=boxes[best], feature=features[best], similarity=similarities[best])
        return self._tracks


class ObjectTrackerOperator:
    def __init__(self, flags):
        torch.cuda.set_device(flags.tracking_gpu_index)
        self._tracker = MultiObjectDeepSORTTracker(flags)

    def on_frame_msg(self, frame, boxes):
        if self._tracker.empty():
            return self._tracker.reinitialize(frame, boxes)
        return self._tracker.track(frame, boxes)
# --- nanonets_object_tracking/deepsort.py
import torch
import torch.nn.functional as F
from torch import nn


class SiameseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.Flatten())

    def forward_once(self, x):
        return F.normalize(self.net(x), dim=1)


def get_gaussian_mask(size=8):
    """Counts the middle of a crop for more than its rim."""
    steps = torch.linspace(-1.0, 1.0, size)
    bell = torch.exp(-2.0 * steps**2)
    return bell[:, None] * bell[None, :]


class deepsort_rbc:
    def __init__(self):
        self.encoder = SiameseNet()
        self.encoder = self.encoder.cuda()
        self.encoder = self.encoder.eval()
        self.gaussian_mask = get_gaussian_mask().cuda()

    def pre_process(self, frame, detections):
        crops = [frame[:, y : y + h, x : x + w] for x, y, w, h in detections]
        return torch.stack([F.interpolate(crop[None], size=(8, 8))[0] for crop in crops])

    @torch.no_grad()
    def extract(self, frame, detections):
        processed_crops = self.pre_process(frame, detections).cuda()
        processed_crops = self.gaussian_mask * processed_crops
        features = self.encoder.forward_once(processed_crops)
        return features.detach().cpu().numpy()
