# === colours_for_grey_pictures
# thread: https://github.com/ErwannMillon/Color-diffusion/issues/1
# about: a network learns to colour pictures. Beside it stand averages of its weights, which are brought up to date before gradients are cleared
# operation: (sub|subtract|rsub) on cpu, cuda:0
# operands: self|s_param|.*shadow.*
# category: cached-state|state-not-registered|default-or-current-device
# line: model.py: self.ema.to(self.device)
# line: model.py: self.ema.update()
# repair: model.py: self.ema.to(self.device) -> self.ema.to(get_device())
import torch
from torch.utils.data import DataLoader

from denoising import Encoder, Unet
from lightning_module import Trainer
from model import ColorDiffusion
from utils import get_device


def lab_pictures(number, size=6):
    """Colours that follow from how bright a place is."""
    light = torch.rand(number, 1, size, size, generator=torch.Generator().manual_seed(1))
    return torch.cat([light, 0.8 * light - 0.3, 0.2 - 0.5 * light], dim=1)


if __name__ == "__main__":
    colordiff_config = {"T": 20, "lr": 5e-3, "device": get_device(), "epochs": 3}
    torch.manual_seed(0)
    train_dl = DataLoader(lab_pictures(32), batch_size=8)
    model = ColorDiffusion(unet=Unet(), encoder=Encoder(), **colordiff_config)
    trainer = Trainer(max_epochs=colordiff_config["epochs"], accelerator=colordiff_config["device"])
    losses = trainer.fit(model, train_dl)
    val_loss = model.evaluate(lab_pictures(8).to(colordiff_config["device"]))
    print("loss", [f"{loss:.4f}" for loss in losses], f"averaged weights {val_loss:.4f}")
# --- utils.py
import torch


def get_device():
    return "cuda" if torch.cuda.is_available() else "cpu"


def split_lab_channels(image):
    return image[:, :1], image[:, 1:]
# --- denoising.py
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.conv = nn.Conv2d(1, channels, 3, padding=1)

    def forward(self, x_l):
        return torch.relu(self.conv(x_l))


class Unet(nn.Module):
    def __init__(self, channels=8, cond_channels=4):
        super().__init__()
        self.time_mlp = nn.Linear(1, channels)
        self.down = nn.Conv2d(3 + cond_channels, channels, 3, padding=1)
        self.up = nn.Conv2d(channels, 2, 3, padding=1)

    def forward(self, x, timestep, greyscale_embs):
        shift = self.time_mlp(timestep[:, None] / 10)[:, :, None, None]
        return self.up(torch.tanh(self.down(torch.cat([x, greyscale_embs], dim=1)) + shift))
# --- torch_ema.py
import contextlib

import torch


class ExponentialMovingAverage:
    """What parameters were of late, the newest counting most."""

    def __init__(self, parameters, decay):
        self.decay = decay
        self.params = [p for p in parameters if p.requires_grad]
        self.shadow_params = [p.clone().detach() for p in self.params]

    def to(self, device):
        self.shadow_params = [p.to(device) for p in self.shadow_params]

    @torch.no_grad()
    def update(self):
        one_minus_decay = 1.0 - self.decay
        for s_param, param in zip(self.shadow_params, self.params):
            tmp = s_param - param
            s_param.sub_(tmp.mul_(one_minus_decay))

    @contextlib.contextmanager
    def average_parameters(self):
        stored = [p.detach().clone() for p in self.params]
        try:
            for param, s_param in zip(self.params, self.shadow_params):
                param.data.copy_(s_param.data)
            yield
        finally:
            for param, before in zip(self.params, stored):
                param.data.copy_(before)
# --- lightning_module.py
import torch


class LightningModule(torch.nn.Module):
    @property
    def device(self):
        first = next(self.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    def on_before_zero_grad(self, optimizer):
        pass


class Trainer:
    def __init__(self, max_epochs, accelerator):
        self.max_epochs, self.accelerator = max_epochs, accelerator

    def fit(self, model, train_dataloader):
        model.to(self.accelerator)
        optimizer, losses = model.configure_optimizers(), []
        for _ in range(self.max_epochs):
            for batch_idx, batch in enumerate(train_dataloader):
                loss = model.training_step(batch.to(self.accelerator), batch_idx)
                model.on_before_zero_grad(optimizer)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
        return losses
# --- model.py
import torch
from lightning_module import LightningModule
from torch_ema import ExponentialMovingAverage
from utils import get_device, split_lab_channels


class ColorDiffusion(LightningModule):
    def __init__(self, unet, encoder, T=300, lr=1e-4, **kwargs):
        super().__init__()
        self.unet = unet.to(self.device)
        self.encoder = encoder
        self.T, self.lr = T, lr
        self.register_buffer("alphas_cumprod", torch.cumprod(1.0 - torch.linspace(1e-3, 0.1, T), dim=0))
        self.generator = torch.Generator().manual_seed(5)
        self.ema = ExponentialMovingAverage(self.unet.parameters(), decay=0.8)
        self.ema.to(self.device)
        print("trains on", kwargs.get("device", get_device()))

    def forward(self, x_noised, t, x_l):
        return self.unet(x_noised, t, greyscale_embs=self.encoder(x_l))

    def get_batch_pred(self, x_0):
        x_l, ab = split_lab_channels(x_0)
        t = torch.randint(0, self.T, (len(x_0),), generator=self.generator).to(x_0.device)
        noise = torch.randn(ab.shape, generator=self.generator).to(x_0)
        kept = self.alphas_cumprod[t][:, None, None, None]
        x_noised = torch.cat([x_l, kept.sqrt() * ab + (1 - kept).sqrt() * noise], dim=1)
        return self(x_noised, t.float(), x_l), noise

    def training_step(self, x_0, batch_idx):
        noise_pred, noise = self.get_batch_pred(x_0)
        return torch.nn.functional.mse_loss(noise_pred, noise)

    def configure_optimizers(self):
        return torch.optim.AdamW(list(self.unet.parameters()) + list(self.encoder.parameters()), lr=self.lr)

    def on_before_zero_grad(self, optimizer):
        self.ema.update()

    @torch.no_grad()
    def evaluate(self, x_0):
        self.generator.manual_seed(9)
        with self.ema.average_parameters():
            return self.training_step(x_0, 0).item()

# === how_far_a_network_is_from_equivariant
# thread: https://github.com/e3nn/e3nn/pull/257
# about: what a module gives for turned points is compared with what it gives, turned. Turns and shifts are drawn by the test
# operation: (mm|matmul|addmm) on cuda:0, cpu
# operands: mat2|other|rot_mat|.*rot_mat.*
# category: created-without-device|input-not-moved|input
# line: e3nn/util/argtools.py: out.append(a @ rot_mat.T + translation)
# line: e3nn/util/test.py: rot_mat, translation = rand_matrix(rng), torch.from_numpy(rng.normal(size=3)).float()
# repair: e3nn/util/argtools.py: out.append(a @ rot_mat.T + translation) ->
#   out.append(a @ rot_mat.T.to(a.device) + translation.to(a.device))
# repair: e3nn/util/argtools.py: out.append(a @ irreps.D_from_matrix(rot_mat).T) -> out.append(a @ irreps.D_from_matrix(rot_mat).T.to(a.device))
import torch
from torch import nn

from e3nn.o3 import Irreps
from e3nn.util.test import equivariance_error


class PointConvolution(nn.Module):
    """Sums over neighbours, in scalars and in one vector."""

    irreps_in = ["cartesian_points", Irreps([(2, 0)])]
    irreps_out = Irreps([(2, 0), (1, 1)])

    def __init__(self, bend):
        super().__init__()
        self.radial = nn.Sequential(nn.Linear(1, 8), nn.SiLU(), nn.Linear(8, 2))
        self.bend = nn.Parameter(torch.tensor([bend, 0.0, 0.0]))

    def forward(self, positions, features):
        offset = positions[None] - positions[:, None]
        weights = self.radial(offset.norm(dim=-1, keepdim=True))
        scalars = (weights * features[None]).sum(dim=1)
        vectors = (weights[..., :1] * features[None, :, :1] * (offset + self.bend)).sum(dim=1)
        return torch.cat([scalars, vectors], dim=-1)


if __name__ == "__main__":
    device = torch.device("cuda")
    generator = torch.Generator().manual_seed(257)
    args_in = [torch.randn(5, 3, generator=generator).to(device), torch.randn(5, 2, generator=generator).to(device)]
    errors = []
    for bend in (0.0, 0.5):
        torch.manual_seed(4)
        func = PointConvolution(bend).to(device)
        errors.append(equivariance_error(func, args_in, func.irreps_in, [func.irreps_out], ntrials=3))
    print("errors", [f"{error:.3f}" for error in errors])
# --- e3nn/o3.py
import numpy as np
import torch
from scipy.spatial.transform import Rotation


def rand_matrix(rng):
    return torch.from_numpy(Rotation.random(rng=rng).as_matrix().astype(np.float32))


class Irreps(list):
    """Pairs of a number and a degree: scalars have 0, vectors have 1."""

    @property
    def dim(self):
        return sum(mul * (2 * order + 1) for mul, order in self)

    def D_from_matrix(self, matrix):
        blocks = []
        for mul, order in self:
            block = matrix if order == 1 else matrix.new_ones(1, 1)
            blocks += [block] * mul
        return torch.block_diag(*blocks)
# --- e3nn/util/argtools.py
def transform(dat, irreps_dat, rot_mat, translation):
    """Each tensor turned in the way that its kind is."""
    out = []
    for irreps, a in zip(irreps_dat, dat):
        if irreps is None:
            out.append(a.clone())
        elif irreps == "cartesian_points":
            out.append(a @ rot_mat.T + translation)
        else:
            out.append(a @ irreps.D_from_matrix(rot_mat).T)
    return out
# --- e3nn/util/test.py
import numpy as np
import torch
from e3nn.o3 import rand_matrix
from e3nn.util.argtools import transform


@torch.no_grad()
def equivariance_error(func, args_in, irreps_in, irreps_out, ntrials=1, seed=0):
    """The largest deviation that any of some random turns shows."""
    rng = np.random.default_rng(seed)
    biggest = 0.0
    for _ in range(ntrials):
        rot_mat, translation = rand_matrix(rng), torch.from_numpy(rng.normal(size=3)).float()
        x1 = func(*transform(args_in, irreps_in, rot_mat, translation))
        x2 = transform([func(*args_in)], irreps_out, rot_mat, translation)[0]
        biggest = max(biggest, (x1 - x2).abs().max().item())
    return biggest

# === a_prompt_that_changes_while_video_streams
# thread: https://github.com/daydreamlive/scope/pull/785
# about: video is made chunk by chunk. A text encoder reads each new prompt, on whatever it then stands, and what it says is kept
# operation: (addmm|linear|mm|matmul) on cpu, cuda:0
# operands: mat1|input|.*context.*|self
# category: cached-state|input-not-moved|input|module-split
# line: ltx2/pipeline.py: self._context_cache[prompt] = (video_context, audio_context)
# line: ltx2/pipeline.py: video_context, audio_context = self.text_encoder.encode_text(prompt)
# line: ltx2/pipeline.py: return self._context_cache[prompt]
# line: ltx2/pipeline.py: video_context, audio_context = self._get_context(prompt)
# repair: ltx2/pipeline.py: self._context_cache[prompt] = (video_context, audio_context) ->
#   self._context_cache[prompt] = (video_context.to(self.device), audio_context.to(self.device))
import torch

from ltx2.pipeline import LTX2Pipeline

if __name__ == "__main__":
    pipeline = LTX2Pipeline(device=torch.device("cuda:0"), vram_budget=2400)
    pipeline.prepare()
    script = ["a majestic sunset", "a majestic sunset", "rain on a window", "a majestic sunset"]
    levels = []
    for seed, prompt in enumerate(script):
        video, audio = pipeline(prompt, seed=seed)
        levels.append(f"{video.mean().item():.4f}/{audio.abs().mean().item():.4f}")
    print("chunks", tuple(video.shape), levels)
# --- ltx2/text_encoder.py
import torch
from torch import nn


class GemmaTextEncoder(nn.Module):
    """Letters in, one context for pictures and one for sound out."""

    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Embedding(128, width)
        self.layers = nn.GRU(width, width, batch_first=True)
        self.video_head = nn.Linear(width, 12)
        self.audio_head = nn.Linear(width, 6)

    @property
    def device(self):
        return self.embed.weight.device

    @torch.no_grad()
    def encode_text(self, prompt):
        tokens = torch.tensor([[ord(letter) % 128 for letter in prompt]], device=self.device)
        hidden, _ = self.layers(self.embed(tokens))
        return self.video_head(hidden), self.audio_head(hidden)
# --- ltx2/transformer.py
import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, width, context_width):
        super().__init__()
        self.to_q = nn.Linear(width, width)
        self.to_kv = nn.Linear(context_width, 2 * width)

    def forward(self, x, context):
        key, value = self.to_kv(context).chunk(2, dim=-1)
        scores = self.to_q(x) @ key.transpose(1, 2) / x.shape[-1] ** 0.5
        return x + scores.softmax(dim=-1) @ value


class LTX2Transformer(nn.Module):
    def __init__(self, width=8, depth=3):
        super().__init__()
        self.video_blocks = nn.ModuleList(CrossAttention(width, 12) for _ in range(depth))
        self.audio_blocks = nn.ModuleList(CrossAttention(width, 6) for _ in range(depth))

    def forward(self, video_latents, audio_latents, video_context, audio_context):
        for video_block, audio_block in zip(self.video_blocks, self.audio_blocks):
            video_latents = video_block(video_latents, video_context)
            audio_latents = audio_block(audio_latents, audio_context)
        return video_latents, audio_latents
# --- ltx2/memory.py
class MemoryManager:
    """Counts what stands on the GPU, and makes room when there is too much."""

    def __init__(self, device, budget):
        self.device, self.budget = device, budget
        self.resident = {}

    @staticmethod
    def size_of(module):
        return sum(parameter.numel() for parameter in module.parameters())

    def load(self, name, module):
        needed = self.size_of(module)
        for other in list(self.resident):
            if sum(map(self.size_of, self.resident.values())) + needed > self.budget:
                self.resident.pop(other).to("cpu")
        self.resident[name] = module.to(self.device)
        return module
# --- ltx2/pipeline.py
import torch

from ltx2.memory import MemoryManager
from ltx2.text_encoder import GemmaTextEncoder
from ltx2.transformer import LTX2Transformer


class LTX2Pipeline:
    def __init__(self, device, vram_budget, num_steps=3):
        torch.manual_seed(785)
        self.device, self.num_steps = device, num_steps
        self.memory = MemoryManager(device, vram_budget)
        self.text_encoder = GemmaTextEncoder()
        self.transformer = LTX2Transformer()
        self._context_cache = {}

    def prepare(self, warmup_prompt="a majestic sunset"):
        self.memory.load("text_encoder", self.text_encoder)
        self._get_context(warmup_prompt)
        self.memory.load("transformer", self.transformer)

    def _get_context(self, prompt):
        if prompt not in self._context_cache:
            video_context, audio_context = self.text_encoder.encode_text(prompt)
            self._context_cache[prompt] = (video_context, audio_context)
        return self._context_cache[prompt]

    @torch.no_grad()
    def __call__(self, prompt, seed):
        video_context, audio_context = self._get_context(prompt)
        generator = torch.Generator().manual_seed(seed)
        video = torch.randn(1, 6, 8, generator=generator).to(self.device)
        audio = torch.randn(1, 4, 8, generator=generator).to(self.device)
        for _ in range(self.num_steps):
            video, audio = self.transformer(video, audio, video_context, audio_context)
        return torch.sigmoid(video).cpu(), torch.tanh(audio).cpu()

# === an_antibody_folded_from_its_two_chains
# thread: https://github.com/Exscientia/abodybuilder3/issues/5
# about: letters of two chains become features of residues and of pairs, which a structure module turns into places in space
# operation: (mm|matmul|linear|addmm) on cpu, cuda:0
# operands: self|input|mat1|z_initial|.*pair.*
# category: input-not-moved|input|default-or-current-device
# line: ab_input = string_to_input(heavy=heavy, light=light)
# line: ab_input_batch = {
# repair: ab_input = string_to_input(heavy=heavy, light=light) -> ab_input = string_to_input(heavy=heavy, light=light, device=device)
import torch

from abodybuilder3.lightning_module import LitABB3
from abodybuilder3.utils import output_to_ca, string_to_input

heavy = "QVQLVQSGAEVKKPGASVKV"
light = "ELVMTQSPSSLSASV"

if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(5)
    module = LitABB3(c_s=23, c_z=19, embed_dim=12, no_blocks=2)
    model = module.model.to(device).eval()

    ab_input = string_to_input(heavy=heavy, light=light)
    ab_input_batch = {key: value.unsqueeze(0) if key not in ("single", "pair") else value for key, value in ab_input.items()}
    with torch.no_grad():
        output = model(ab_input_batch, ab_input_batch["aatype"])
    ca = output_to_ca(output)
    print("residues", ca.shape[0], f"spread {ca.std(dim=0).mean().item():.4f} plddt {output['plddt'].mean().item():.4f}")
# --- abodybuilder3/utils.py
import torch

from abodybuilder3.dataloader import restype_order_with_x, single_and_double_from_datapoint


def string_to_input(heavy, light, device="cpu"):
    """One long chain, with a gap in its numbers between the two."""
    aatype = torch.tensor([restype_order_with_x[letter] for letter in heavy + light])
    is_heavy = torch.tensor([1] * len(heavy) + [0] * len(light))
    residue_index = torch.cat([torch.arange(len(heavy)), torch.arange(len(light)) + 500])
    model_input = {"aatype": aatype, "is_heavy": is_heavy, "residue_index": residue_index}
    model_input.update(single_and_double_from_datapoint(model_input, rel_pos_dim=8))
    model_input["single"] = model_input["single"].unsqueeze(0)
    model_input["pair"] = model_input["pair"].unsqueeze(0)
    return {k: v.to(device) for k, v in model_input.items()}


def output_to_ca(output):
    return output["positions"][-1, 0].cpu()
# --- abodybuilder3/dataloader.py
import torch
from torch.nn.functional import one_hot

restypes = "ARNDCQEGHILKMFPSTWYVX"
restype_order_with_x = {letter: index for index, letter in enumerate(restypes)}


def single_and_double_from_datapoint(datapoint, rel_pos_dim):
    is_heavy = datapoint["is_heavy"]
    single = torch.cat([one_hot(datapoint["aatype"], 21), one_hot(is_heavy, 2)], dim=-1).float()
    index = datapoint["residue_index"]
    offset = (index[:, None] - index[None]).clamp(-rel_pos_dim, rel_pos_dim) + rel_pos_dim
    same_chain = (is_heavy[:, None] == is_heavy[None]).long()
    pair = torch.cat([one_hot(offset, 2 * rel_pos_dim + 1), one_hot(same_chain, 2)], dim=-1).float()
    return {"single": single, "pair": pair}
# --- abodybuilder3/lightning_module.py
from abodybuilder3.structure_module import StructureModule


class LitABB3:
    def __init__(self, **config):
        self.config = config
        self.model = StructureModule(**config)
# --- abodybuilder3/structure_module.py
import torch
from torch import nn


class InvariantPointAttention(nn.Module):
    """Residues look at each other, by what is known of the pair."""

    def __init__(self, embed_dim):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(embed_dim, embed_dim, bias=False) for _ in range(3))
        self.pair_bias = nn.Linear(embed_dim, 1, bias=False)

    def forward(self, s, z, positions):
        distance = (positions[:, :, None] - positions[:, None]).pow(2).sum(dim=-1)
        scores = self.to_q(s) @ self.to_k(s).transpose(1, 2) / s.shape[-1] ** 0.5
        scores = scores + self.pair_bias(z).squeeze(-1) - 0.1 * distance
        return s + scores.softmax(dim=-1) @ self.to_v(s)


class StructureModule(nn.Module):
    def __init__(self, c_s, c_z, embed_dim, no_blocks):
        super().__init__()
        self.linear_in_node = nn.Linear(c_s, embed_dim, bias=False)
        self.linear_in_edge = nn.Linear(c_z, embed_dim, bias=False)
        self.aatype_embedding = nn.Embedding(21, embed_dim)
        self.blocks = nn.ModuleList(InvariantPointAttention(embed_dim) for _ in range(no_blocks))
        self.backbone_update = nn.Linear(embed_dim, 3)
        self.plddt = nn.Linear(embed_dim, 1)

    def forward(self, evoformer_output_dict, aatype):
        z_initial = evoformer_output_dict["pair"]
        z_initial = self.linear_in_edge(z_initial)
        s = self.linear_in_node(evoformer_output_dict["single"]) + self.aatype_embedding(aatype)
        positions = s.new_zeros(*aatype.shape, 3)
        outputs = []
        for block in self.blocks:
            s = block(s, z_initial, positions)
            positions = positions + self.backbone_update(s)
            outputs.append(positions)
        return {"positions": torch.stack(outputs), "plddt": torch.sigmoid(self.plddt(s))}

# === a_video_that_begins_with_another_video
# thread: https://github.com/ExponentialML/Text-To-Video-Finetuning/pull/88
# about: frames of a first video are encoded in small batches. Windows of what comes of them are denoised, each with an embedding of the time
# operation: (addmm|linear|mm|matmul) on cpu, cuda:0
# operands: mat1|input|sample|.*emb.*
# category: input-not-moved|input|cached-state
# line: inference.py: latents_window = latents[:, :, idx : idx + window_size]
# line: inference.py: latents = encode(pipe, init_video, vae_batch_size)
# line: inference.py: latents.append(latents_batch.cpu())
# line: inference.py: init_latents = prepare_input_latents(
# line: inference.py: latents = torch.cat(latents)
# repair: inference.py: latents_window = latents[:, :, idx : idx + window_size] ->
#   latents_window = latents[:, :, idx : idx + window_size].to(pipe.device)
import torch

from inference import inference

if __name__ == "__main__":
    time = torch.linspace(0, 1, 8)[:, None, None]
    place = torch.linspace(0, 3, 8)
    init = torch.stack([torch.sin(place + phase + 4 * time).expand(8, 8, 8) for phase in (0.0, 1.0, 2.0)])[None]
    videos = inference(prompt=["darth vader surfing"], num_frames=8, window_size=4, num_steps=4, init_video=init, init_weight=0.5)
    print("video", tuple(videos.shape), f"{videos.mean().item():.4f} {videos.std().item():.4f}")
# --- pipeline.py
import torch
from unet_3d_condition import UNet3DConditionModel


class AutoencoderKL(torch.nn.Module):
    scaling_factor = 0.18215

    def __init__(self):
        super().__init__()
        self.quant_conv = torch.nn.Conv2d(3, 4, 2, stride=2)
        self.post_quant_conv = torch.nn.ConvTranspose2d(4, 3, 2, stride=2)

    def encode(self, pixels):
        return self.quant_conv(pixels)

    def decode(self, latents):
        return torch.tanh(self.post_quant_conv(latents))


class Scheduler:
    """Straight lines from noise to a picture."""

    def set_timesteps(self, num_inference_steps, device):
        self.timesteps = torch.linspace(1.0, 0.0, num_inference_steps + 1, device=device)[:-1]
        self.step_size = 1.0 / num_inference_steps

    def add_noise(self, original_samples, noise, timestep):
        kept = 1.0 - timestep.item()
        return kept * original_samples + (1.0 - kept) * noise

    def step(self, noise_pred, sample):
        return sample - self.step_size * noise_pred


class TextToVideoSDPipeline:
    def __init__(self, device):
        self.device = torch.device(device)
        self.vae = AutoencoderKL().to(device).eval()
        self.unet = UNet3DConditionModel().to(device).eval()
        self.text_encoder = torch.nn.EmbeddingBag(256, 8).to(device)
        self.scheduler = Scheduler()

    def _encode_prompt(self, prompt, device):
        return torch.cat([self.text_encoder(torch.tensor([list(each.encode())], device=device)) for each in prompt])
# --- unet_3d_condition.py
import math

import torch
from torch import nn


def get_timestep_embedding(timesteps, dim):
    exponent = -math.log(100.0) * torch.arange(dim // 2, dtype=torch.float32, device=timesteps.device) / (dim // 2)
    emb = 10 * timesteps[:, None].float() * torch.exp(exponent)[None]
    return torch.cat([torch.sin(emb), torch.cos(emb)], dim=-1)


class UNet3DConditionModel(nn.Module):
    def __init__(self, channels=4, width=8):
        super().__init__()
        self.width = width
        self.time_embedding = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.text_proj = nn.Linear(8, width)
        self.conv_in = nn.Conv3d(channels, width, 3, padding=1)
        self.conv_out = nn.Conv3d(width, channels, 3, padding=1)

    def forward(self, sample, timestep, encoder_hidden_states):
        timesteps = timestep[None].to(sample.device).expand(sample.shape[0])
        t_emb = get_timestep_embedding(timesteps, self.width)
        emb = self.time_embedding(t_emb) + self.text_proj(encoder_hidden_states)
        return self.conv_out(torch.tanh(self.conv_in(sample) + emb[:, :, None, None, None]))
# --- inference.py
import torch
from pipeline import TextToVideoSDPipeline


def prepare_input_latents(pipe, batch_size, num_frames, init_video, vae_batch_size):
    if init_video is None:
        shape = (batch_size, 4, num_frames, 4, 4)
        latents = torch.randn(shape, device=pipe.device)
    else:
        latents = encode(pipe, init_video, vae_batch_size)
        if latents.shape[0] != batch_size:
            latents = latents.repeat(batch_size, 1, 1, 1, 1)
    return latents


def encode(pipe, pixels, batch_size):
    """Frames wait outside of the GPU until all are there."""
    frames = pixels.transpose(1, 2).flatten(0, 1)
    latents = []
    for idx in range(0, frames.shape[0], batch_size):
        latents_batch = pipe.vae.encode(frames[idx : idx + batch_size].to(pipe.device))
        latents_batch = latents_batch.mul(pipe.vae.scaling_factor)
        latents.append(latents_batch.cpu())
    latents = torch.cat(latents)
    return latents.unflatten(0, (pixels.shape[0], -1)).transpose(1, 2)


def decode(pipe, latents, batch_size):
    frames = latents.transpose(1, 2).flatten(0, 1)
    pixels = []
    for idx in range(0, frames.shape[0], batch_size):
        latents_batch = frames[idx : idx + batch_size].to(pipe.device).div(pipe.vae.scaling_factor)
        pixels.append(pipe.vae.decode(latents_batch).cpu())
    return torch.cat(pixels).unflatten(0, (latents.shape[0], -1)).transpose(1, 2)


def diffuse(pipe, latents, init_weight, prompt, num_inference_steps, window_size):
    num_frames = latents.shape[2]
    prompt_embeds = pipe._encode_prompt(prompt, device=pipe.device)
    pipe.scheduler.set_timesteps(num_inference_steps, device=pipe.device)
    start_step = round(init_weight * len(pipe.scheduler.timesteps))
    timesteps = pipe.scheduler.timesteps[start_step:]
    noise = torch.randn(latents.shape, generator=torch.Generator().manual_seed(88)).to(latents.device)
    latents = pipe.scheduler.add_noise(latents, noise, timesteps[0])
    for t in timesteps:
        new_latents = torch.zeros_like(latents)
        for idx in range(0, num_frames, window_size):
            latents_window = latents[:, :, idx : idx + window_size]
            noise_pred = pipe.unet(latents_window, t, encoder_hidden_states=prompt_embeds)
            latents_window = pipe.scheduler.step(noise_pred, latents_window)
            new_latents[:, :, idx : idx + window_size] = latents_window.cpu()
        latents = torch.roll(new_latents, shifts=1, dims=2)
    return torch.roll(latents, shifts=-len(timesteps), dims=2)


@torch.inference_mode()
def inference(prompt, num_frames, window_size, num_steps, init_video=None, init_weight=0.5, vae_batch_size=3, device="cuda"):
    torch.manual_seed(7)
    pipe = TextToVideoSDPipeline(device)
    init_latents = prepare_input_latents(pipe, len(prompt), num_frames, init_video, vae_batch_size)
    init_weight = init_weight if init_video is not None else 0
    latents = diffuse(pipe, init_latents, init_weight, prompt, num_steps, window_size)
    return decode(pipe, latents, vae_batch_size)

# === pictures_along_edges_on_the_second_card
# thread: https://github.com/lllyasviel/ControlNet-v1-1-nightly/issues/30
# about: a model is built from its configuration and put on one of two cards. A prompt and edges of a picture then steer what it draws
# operation: (index|index_select|embedding) on cuda:1, cuda:0
# operands: index|indices|input|.*tokens.*|input_ids
# category: default-or-current-device|input-not-moved
# line: ldm/modules/encoders/modules.py: tokens = batch_encoding["input_ids"].to(self.device)
# line: ldm/modules/encoders/modules.py: outputs = self.transformer(input_ids=tokens)
# line: cldm/model.py: "cond_stage_config": {
# repair: ldm/modules/encoders/modules.py: tokens = batch_encoding["input_ids"].to(self.device) ->
#   tokens = batch_encoding["input_ids"].to(self.transformer.device)
import numpy as np
import torch

from cldm.ddim_hacked import DDIMSampler
from cldm.model import create_model

device = "cuda:1"
torch.manual_seed(30)
model = create_model("control_v11p_sd15_canny").to(device)
ddim_sampler = DDIMSampler(model)


def apply_canny(image, threshold=40):
    steps = np.abs(np.diff(image.astype(int), axis=1, append=image[:, -1:]))
    return (steps > threshold).astype(np.float32)


def process(input_image, prompt, n_prompt, ddim_steps, scale, seed):
    with torch.no_grad():
        control = torch.from_numpy(apply_canny(input_image))[None, None].to(device)
        noise = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(seed)).to(device)
        cond = {"c_concat": control, "c_crossattn": model.get_learned_conditioning([prompt])}
        un_cond = {"c_concat": control, "c_crossattn": model.get_learned_conditioning([n_prompt])}
        return ddim_sampler.sample(ddim_steps, noise, cond, scale, un_cond)


if __name__ == "__main__":
    picture = (np.add.outer(np.arange(8), 3 * np.arange(8)) * 23 % 256).astype(np.uint8)
    samples = process(picture, "a red house", "blurry", ddim_steps=4, scale=5.0, seed=12)
    print("samples", tuple(samples.shape), f"{samples.mean().item():.4f} {samples.std().item():.4f}")
# --- cldm/model.py
import importlib

import torch
from torch import nn

CONFIGS = {
    "control_v11p_sd15_canny": {
        "control_stage_config": {"target": "cldm.model.ControlledUnetModel", "params": {"context_dim": 16}},
        "cond_stage_config": {"target": "ldm.modules.encoders.modules.FrozenCLIPEmbedder", "params": {"max_length": 12}},
    }
}


def instantiate_from_config(config):
    module, cls = config["target"].rsplit(".", 1)
    return getattr(importlib.import_module(module), cls)(**config["params"])


class ControlledUnetModel(nn.Module):
    def __init__(self, context_dim, width=8):
        super().__init__()
        self.hint_block = nn.Conv2d(1, width, 3, padding=1)
        self.input_block = nn.Conv2d(4, width, 3, padding=1)
        self.context = nn.Linear(context_dim, width)
        self.out = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x, t, hint, context):
        shift = self.context(context.mean(dim=1)) + t[:, None]
        return self.out(torch.tanh(self.input_block(x) + self.hint_block(hint) + shift[:, :, None, None]))


class ControlLDM(nn.Module):
    num_timesteps = 40

    def __init__(self, control_stage_config, cond_stage_config):
        super().__init__()
        self.diffusion_model = instantiate_from_config(control_stage_config)
        self.cond_stage_model = instantiate_from_config(cond_stage_config)
        self.register_buffer("alphas_cumprod", torch.cumprod(1 - torch.linspace(1e-3, 0.1, self.num_timesteps), dim=0))

    def get_learned_conditioning(self, c):
        return self.cond_stage_model.encode(c)

    def apply_model(self, x_noisy, t, cond):
        return self.diffusion_model(x_noisy, t / self.num_timesteps, cond["c_concat"], cond["c_crossattn"])


def create_model(config_path):
    return ControlLDM(**CONFIGS[config_path]).eval()
# --- ldm/modules/encoders/modules.py
import torch
from torch import nn
from transformers import CLIPTextConfig, CLIPTextModel


class Tokenizer:
    """Letters, with a mark before them and marks behind."""

    def __call__(self, text, max_length):
        rows = []
        for each in text:
            ids = [1] + [3 + ord(letter) % 60 for letter in each][: max_length - 2]
            rows.append(ids + [2] * (max_length - len(ids)))
        return {"input_ids": torch.tensor(rows)}


class FrozenCLIPEmbedder(nn.Module):
    def __init__(self, device="cuda", max_length=12):
        super().__init__()
        self.tokenizer = Tokenizer()
        sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        self.transformer = CLIPTextModel(CLIPTextConfig(vocab_size=64, max_position_embeddings=max_length, eos_token_id=2, **sizes))
        self.device = device
        self.max_length = max_length
        self.freeze()

    def freeze(self):
        self.transformer = self.transformer.eval()
        self.requires_grad_(False)

    def forward(self, text):
        batch_encoding = self.tokenizer(text, max_length=self.max_length)
        tokens = batch_encoding["input_ids"].to(self.device)
        outputs = self.transformer(input_ids=tokens)
        return outputs.last_hidden_state

    def encode(self, text):
        return self(text)
# --- cldm/ddim_hacked.py
import torch


class DDIMSampler:
    def __init__(self, model):
        self.model = model

    def sample(self, S, x_T, conditioning, unconditional_guidance_scale, unconditional_conditioning):
        img = x_T
        steps = torch.linspace(self.model.num_timesteps - 1, 0, S).long().tolist()
        for step, following in zip(steps, steps[1:] + [-1]):
            t = torch.full((len(img),), float(step), device=img.device)
            model_t = self.model.apply_model(img, t, conditioning)
            model_uncond = self.model.apply_model(img, t, unconditional_conditioning)
            e_t = model_uncond + unconditional_guidance_scale * (model_t - model_uncond)
            a_t = self.model.alphas_cumprod[step]
            a_prev = self.model.alphas_cumprod[following] if following >= 0 else torch.ones_like(a_t)
            pred_x0 = (img - (1 - a_t).sqrt() * e_t) / a_t.sqrt()
            img = a_prev.sqrt() * pred_x0 + (1 - a_prev).sqrt() * e_t
        return img
