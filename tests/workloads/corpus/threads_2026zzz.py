# === rare_topics_count_more_on_all_gpus
# thread: https://github.com/ThilinaRajapakse/simpletransformers/issues/558
# about: texts are told apart by topic, and a list says how much each topic counts in the loss. All GPUs share the texts of a batch
# operation: nll_loss.*|cross_entropy.* on cuda:1, cuda:0
# operands: weight|.*weight.*
# category: state-not-registered|data-parallel|cached-state
# line: simpletransformers/transformer_models.py: self.weight = weight
# line: simpletransformers/transformer_models.py: loss_fct = nn.CrossEntropyLoss(weight=self.weight)
# line: simpletransformers/classification_model.py: model = torch.nn.DataParallel(self.model)
# repair: simpletransformers/transformer_models.py: self.weight = weight -> self.register_buffer("weight", weight)
import numpy as np

from simpletransformers.classification_model import ClassificationModel

TOPICS = ["sun rain wind storm", "bank loan price share", "goal match team coach"]


def headlines(count, seed=58):
    rng = np.random.default_rng(seed)
    for topic in rng.choice(3, size=count, p=[0.7, 0.2, 0.1]):
        words = list(rng.choice(TOPICS[topic].split(), size=3)) + list(rng.choice(["the", "of", "today", "again"], size=3))
        yield " ".join(rng.permutation(words)), int(topic)


if __name__ == "__main__":
    train_data = list(headlines(48))
    model = ClassificationModel("roberta", num_labels=3, weight=[0.5, 1.7, 3.3], args={"num_train_epochs": 3, "learning_rate": 0.03})
    losses = model.train_model(train_data)
    result = model.eval_model(list(headlines(20, seed=5)))
    print("loss", [f"{loss:.3f}" for loss in losses], f"eval_loss {result['eval_loss']:.3f} correct {result['correct']}")
# --- simpletransformers/model_args.py
from dataclasses import dataclass


@dataclass
class ClassificationArgs:
    num_train_epochs: int = 1
    train_batch_size: int = 16
    learning_rate: float = 4e-5
    max_seq_length: int = 8
    manual_seed: int = 4
    n_gpu: int = 2
    hidden_size: int = 12

    def update_from_dict(self, new_values):
        for key, value in new_values.items():
            setattr(self, key, value)
# --- simpletransformers/transformer_models.py
import torch
from torch import nn


class RobertaModel(nn.Module):
    def __init__(self, vocab_size, hidden_size):
        super().__init__()
        self.embeddings = nn.Embedding(vocab_size, hidden_size, padding_idx=0)
        self.layer = nn.Linear(hidden_size, hidden_size)

    def forward(self, input_ids, attention_mask):
        hidden = torch.tanh(self.layer(self.embeddings(input_ids))) * attention_mask[..., None]
        return hidden.sum(dim=1) / attention_mask.sum(dim=1, keepdim=True)


class RobertaForSequenceClassification(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_labels, weight=None):
        super().__init__()
        self.num_labels = num_labels
        self.roberta = RobertaModel(vocab_size, hidden_size)
        self.classifier = nn.Linear(hidden_size, num_labels)
        self.weight = weight

    def forward(self, input_ids, attention_mask, labels=None):
        logits = self.classifier(self.roberta(input_ids, attention_mask))
        if labels is None:
            return logits
        loss_fct = nn.CrossEntropyLoss(weight=self.weight)
        loss = loss_fct(logits, labels)
        return loss.unsqueeze(0), logits
# --- simpletransformers/classification_model.py
import torch

from simpletransformers.model_args import ClassificationArgs
from simpletransformers.transformer_models import RobertaForSequenceClassification

VOCAB_SIZE = 97


class ClassificationModel:
    def __init__(self, model_type, num_labels, weight=None, args=None, use_cuda=True):
        self.args = ClassificationArgs()
        self.args.update_from_dict(args or {})
        torch.manual_seed(self.args.manual_seed)
        self.model_type, self.num_labels, self.weight = model_type, num_labels, weight
        self.device = torch.device("cuda" if use_cuda else "cpu")
        if weight:
            self.model = RobertaForSequenceClassification(
                VOCAB_SIZE, self.args.hidden_size, num_labels, weight=torch.tensor(weight).to(self.device)
            )
        else:
            self.model = RobertaForSequenceClassification(VOCAB_SIZE, self.args.hidden_size, num_labels)

    def _move_model_to_device(self):
        self.model.to(self.device)

    def _get_inputs(self, examples):
        ids = [[1 + sum(map(ord, word)) % (VOCAB_SIZE - 1) for word in text.split()] for text, _ in examples]
        padded = [row[: self.args.max_seq_length] + [0] * (self.args.max_seq_length - len(row)) for row in ids]
        input_ids = torch.tensor(padded).to(self.device)
        labels = torch.tensor([label for _, label in examples]).to(self.device)
        return {"input_ids": input_ids, "attention_mask": (input_ids != 0).float(), "labels": labels}

    def train_model(self, train_data):
        self._move_model_to_device()
        model = self.model
        if self.args.n_gpu > 1:
            model = torch.nn.DataParallel(self.model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.args.learning_rate)
        losses = []
        for _ in range(self.args.num_train_epochs):
            for first in range(0, len(train_data), self.args.train_batch_size):
                inputs = self._get_inputs(train_data[first:first + self.args.train_batch_size])
                loss = model(**inputs)[0].mean()
                loss.backward()
                optimizer.step()
                model.zero_grad()
            losses.append(loss.item())
        return losses

    @torch.no_grad()
    def eval_model(self, eval_data):
        self._move_model_to_device()
        inputs = self._get_inputs(eval_data)
        loss, logits = self.model(**inputs)
        return {"eval_loss": loss.mean().item(), "correct": (logits.argmax(dim=1) == inputs["labels"]).sum().item()}

# === how_long_a_sensor_was_silent
# thread: https://github.com/timeseriesAI/tsai/issues/333
# about: sensors that fail at times are measured together. Each batch is given further variables, which say how many steps ago a sensor was heard last
# operation: where on cuda:0, cpu
# operands: self|other|.*pos.*|.*arange.*
# category: created-without-device
# line: tsai/data/preprocessing.py: pos = torch.arange(o.shape[-1], dtype=o.dtype)
# line: tsai/data/preprocessing.py: idx = torch.where(torch.isnan(o), zero, pos)
# repair: tsai/data/preprocessing.py: pos = torch.arange(o.shape[-1], dtype=o.dtype) ->
#   pos = torch.arange(o.shape[-1], dtype=o.dtype, device=o.device)
import numpy as np
import torch

from tsai.data.preprocessing import TSMagScale, TSNan2Value, TSPositionGaps
from tsai.learner import TSClassifier


def silent_sensors(samples=40, variables=3, steps=16):
    rng = np.random.default_rng(33)
    y = rng.integers(0, 2, samples)
    X = np.sin(np.arange(steps) * (0.4 + 0.3 * y[:, None, None])) + 0.2 * rng.normal(size=(samples, variables, steps))
    X[rng.random(X.shape) < 0.15 + 0.3 * y[:, None, None]] = np.nan
    return X.astype(np.float32), y


if __name__ == "__main__":
    X, y = silent_sensors()
    batch_tfms = [TSPositionGaps(feature_idxs=[0, 1, 2]), TSMagScale(), TSNan2Value(0.0)]
    clf = TSClassifier(X, y, bs=(20, 40), batch_tfms=batch_tfms, device=torch.device("cuda"), seed=1)
    losses = clf.fit(4, 0.02)
    valid_loss, accuracy = clf.validate()
    print("train_loss", [f"{loss:.4f}" for loss in losses], f"valid_loss {valid_loss:.4f} accuracy {accuracy:.3f}")
# --- tsai/data/preprocessing.py
import torch


class Transform:
    def setup(self, variables):
        """How many variables there are afterwards."""
        return variables

    def __call__(self, o):
        return self.encodes(o)


class TSMagScale(Transform):
    def encodes(self, o):
        return o / torch.nan_to_num(o.abs()).amax(dim=-1, keepdim=True).clamp_min(1e-3)


class TSNan2Value(Transform):
    def __init__(self, value=0.0):
        self.value = value

    def encodes(self, o):
        return torch.nan_to_num_(o, self.value)


def get_gaps(o, forward=True, backward=True):
    """Steps since each variable was measured last, and until it is measured next."""

    def fwd_gaps(o):
        pos = torch.arange(o.shape[-1], dtype=o.dtype)
        zero = torch.zeros_like(o)
        idx = torch.where(torch.isnan(o), zero, pos)
        last = torch.cummax(idx, dim=-1).values
        return (pos - last) / o.shape[-1]

    gaps = []
    if forward:
        gaps.append(fwd_gaps(o))
    if backward:
        gaps.append(fwd_gaps(o.flip(-1)).flip(-1))
    return torch.cat(gaps, dim=1)


class TSPositionGaps(Transform):
    def __init__(self, feature_idxs, forward=True, backward=True):
        self.feature_idxs = feature_idxs
        self.gap_fn = {"forward": forward, "backward": backward}

    def setup(self, variables):
        return variables + len(self.feature_idxs) * sum(self.gap_fn.values())

    def encodes(self, o):
        return torch.cat([o, get_gaps(o[:, self.feature_idxs], **self.gap_fn)], dim=1)
# --- tsai/models/FCN.py
from torch import nn


def ConvBlock(ni, nf, ks):
    return nn.Sequential(nn.Conv1d(ni, nf, ks, padding=ks // 2, bias=False), nn.BatchNorm1d(nf), nn.ReLU())


class FCN(nn.Module):
    def __init__(self, c_in, c_out, layers=(12, 16), kss=(5, 3)):
        super().__init__()
        self.convblock1 = ConvBlock(c_in, layers[0], kss[0])
        self.convblock2 = ConvBlock(layers[0], layers[1], kss[1])
        self.gap = nn.AdaptiveAvgPool1d(1)
        self.fc = nn.Linear(layers[1], c_out)

    def forward(self, x):
        return self.fc(self.gap(self.convblock2(self.convblock1(x))).flatten(1))
# --- tsai/learner.py
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

from tsai.models.FCN import FCN


class TSClassifier:
    def __init__(self, X, y, bs, batch_tfms, device, seed):
        torch.manual_seed(seed)
        dset = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
        train, valid = random_split(dset, [0.75, 0.25], generator=torch.Generator().manual_seed(seed))
        self.train_dl = DataLoader(train, batch_size=bs[0], shuffle=True, generator=torch.Generator().manual_seed(seed))
        self.valid_dl = DataLoader(valid, batch_size=bs[1])
        self.batch_tfms, self.device = batch_tfms, device
        c_in = X.shape[1]
        for tfm in batch_tfms:
            c_in = tfm.setup(c_in)
        self.model = FCN(c_in, int(y.max()) + 1).to(device)

    def batches(self, dl):
        for xb, yb in dl:
            xb, yb = xb.to(self.device), yb.to(self.device)
            for tfm in self.batch_tfms:
                xb = tfm(xb)
            yield xb, yb

    def fit(self, n_epoch, lr):
        opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        losses = []
        for _ in range(n_epoch):
            self.model.train()
            for xb, yb in self.batches(self.train_dl):
                loss = F.cross_entropy(self.model(xb), yb)
                loss.backward()
                opt.step()
                opt.zero_grad()
            losses.append(loss.item())
        return losses

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        (xb, yb), = self.batches(self.valid_dl)
        out = self.model(xb)
        return F.cross_entropy(out, yb).item(), (out.argmax(dim=1) == yb).float().mean().item()

# === a_face_that_speaks_along
# thread: https://github.com/smthemex/ComfyUI_Sonic/pull/25
# about: a node of a workflow makes the pictures of a speaking face, from one picture and a sound. Another node loads what turns pictures into latents
# operation: .*conv.* on cuda:0, cpu
# operands: input|.*, weight|.*weight.*
# error: Input type \(torch.cuda.FloatTensor\) and weight type \(torch.FloatTensor\) should be the same|on the same device
# category: module-split|input-not-moved
# line: sonic_node.py: vae = vae.first_stage_model
# line: sonic_node.py: pipe = SonicPipeline(unet=unet, vae=vae)
# line: sonic_node.py: pipe.unet.to(device)
# line: pipeline_sonic.py: self.unet, self.vae = unet, vae
# line: pipeline_sonic.py: image_latents = self.vae.encode(image)
# repair: sonic_node.py: vae = vae.first_stage_model -> vae = vae.first_stage_model.to(device)
import numpy as np
import torch

from comfy_sd import VAE
from sonic_node import SonicLoader, SonicSampler

if __name__ == "__main__":
    torch.manual_seed(25)
    rng = np.random.default_rng(25)
    vae = VAE(width=8)
    image = torch.tensor(rng.random((1, 16, 16, 3)), dtype=torch.float)
    audio = {"waveform": torch.tensor(np.sin(np.arange(800) / 9.0)[None], dtype=torch.float), "sample_rate": 400}
    before = vae.decode(vae.encode(image))
    model, = SonicLoader().loader_main(width=12)
    frames, fps = SonicSampler().sampler_main(model, vae, image, audio, seed=3, inference_steps=4, fps=4)
    moved = (frames[1:] - frames[:-1]).abs().mean().item()
    print(f"frames {len(frames)} at {fps} mean {frames.mean().item():.4f} moved {moved:.4f} before {before.mean().item():.4f}")
# --- comfy_sd.py
import torch
from torch import nn


def get_torch_device():
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


class AutoencoderKL(nn.Module):
    scaling_factor = 0.18215

    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, 4, 2, stride=2))
        self.decoder = nn.Sequential(nn.ConvTranspose2d(4, width, 2, stride=2), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def encode(self, pixels):
        return self.encoder(pixels) * self.scaling_factor

    def decode(self, latents):
        return self.decoder(latents / self.scaling_factor)


class VAE:
    """Weights lie on the GPU only while a picture is encoded or decoded."""

    def __init__(self, width):
        self.first_stage_model = AutoencoderKL(width).eval().requires_grad_(False)
        self.device = get_torch_device()
        self.offload_device = torch.device("cpu")
        self.first_stage_model.to(self.offload_device)

    def run(self, function, samples):
        self.first_stage_model.to(self.device)
        out = function(samples.to(self.device)).cpu()
        self.first_stage_model.to(self.offload_device)
        return out

    def encode(self, pixels):
        return self.run(self.first_stage_model.encode, pixels.movedim(-1, 1) * 2.0 - 1.0)

    def decode(self, latents):
        return (self.run(self.first_stage_model.decode, latents) / 2 + 0.5).clamp(0, 1).movedim(1, -1)
# --- pipeline_sonic.py
import torch
from torch import nn


class UNetSpatioTemporal(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv_in = nn.Conv2d(8, width, 3, padding=1)
        self.audio_proj = nn.Linear(16, width)
        self.mix_frames = nn.Conv1d(width, width, 3, padding=1)
        self.conv_out = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, latents, image_latents, audio_embeds):
        hidden = self.conv_in(torch.cat([latents, image_latents.expand_as(latents)], dim=1))
        sound = self.mix_frames(self.audio_proj(audio_embeds).t()).t()
        return self.conv_out(torch.nn.functional.silu(hidden + sound[:, :, None, None]))


class SonicPipeline:
    def __init__(self, unet, vae):
        self.unet, self.vae = unet, vae

    def prepare_image(self, image, device):
        return image.movedim(-1, 1).to(device) * 2.0 - 1.0

    def decode_latents(self, latents, decode_chunk_size=4):
        frames = [self.vae.decode(each) for each in latents.split(decode_chunk_size)]
        return (torch.cat(frames) / 2 + 0.5).clamp(0, 1).movedim(1, -1)

    @torch.no_grad()
    def __call__(self, image, audio_embeds, num_inference_steps, generator):
        device = audio_embeds.device
        image = self.prepare_image(image, device)
        image_latents = self.vae.encode(image)
        shape = (len(audio_embeds), *image_latents.shape[1:])
        latents = torch.randn(shape, generator=generator).to(device)
        for step in range(num_inference_steps, 0, -1):
            latents = latents - self.unet(latents, image_latents, audio_embeds) / step
        return self.decode_latents(latents)
# --- sonic_node.py
import torch

from comfy_sd import get_torch_device
from pipeline_sonic import SonicPipeline, UNetSpatioTemporal

device = get_torch_device()


class SonicLoader:
    def loader_main(self, width):
        unet = UNetSpatioTemporal(width).eval().requires_grad_(False)
        return ({"unet": unet},)


class SonicSampler:
    def audio_windows(self, audio, fps):
        waveform = audio["waveform"][0]
        per_frame = audio["sample_rate"] // fps
        frames = waveform[: len(waveform) // per_frame * per_frame].view(-1, per_frame)
        return torch.fft.rfft(frames, dim=1).abs()[:, :16] / per_frame

    def sampler_main(self, model, vae, image, audio, seed, inference_steps, fps):
        unet = model["unet"]
        vae = vae.first_stage_model
        pipe = SonicPipeline(unet=unet, vae=vae)
        pipe.unet.to(device)
        audio_embeds = self.audio_windows(audio, fps).to(device)
        video = pipe(image, audio_embeds, inference_steps, generator=torch.Generator().manual_seed(seed))
        pipe.unet.to("cpu")
        return video.cpu(), fps

# === how_well_a_rounded_model_reads
# thread: https://github.com/spcl/QuaRot/issues/68
# about: a language model is turned so that it loses less when its weights are rounded. How well it still reads is measured
#   with one layer at a time on the GPU
# operation: bmm|matmul|baddbmm on cpu, cuda:0
# operands: self|inv_freq.*|.*inv_freq.*
# category: module-split|input-not-moved
# line: fake_quant/eval_utils.py: model.model.embed_tokens = model.model.embed_tokens.to(dev)
# line: fake_quant/eval_utils.py: layers[0] = layers[0].to(dev)
# line: fake_quant/modeling_llama.py: freqs = (inv_freq_expanded @ position_ids_expanded).transpose(1, 2)
# line: fake_quant/modeling_llama.py: inv_freq_expanded = self.inv_freq[None, :, None].expand(
# line: fake_quant/modeling_llama.py: position_embeddings = self.rotary_emb(hidden_states, position_ids)
# repair: fake_quant/eval_utils.py: model.model.embed_tokens = model.model.embed_tokens.to(dev) -> model.model.embed_tokens, model.model.rotary_emb =
#   model.model.embed_tokens.to(dev), model.model.rotary_emb.to(dev)
from argparse import Namespace

import torch

from fake_quant import eval_utils, quant_utils
from fake_quant.modeling_llama import LlamaForCausalLM

if __name__ == "__main__":
    args = Namespace(w_bits=4, bsz=2, seqlen=12)
    torch.manual_seed(0)
    model = LlamaForCausalLM(vocab_size=40, hidden_size=16, num_heads=2, num_layers=3).eval().requires_grad_(False)
    testenc = torch.randint(0, 40, (1, 6 * args.seqlen), generator=torch.Generator().manual_seed(68))
    dev = torch.device("cuda:0")
    quant_utils.rotate_model(model, dev)
    error = quant_utils.rtn_fwrd(model, args.w_bits, dev)
    ppl = eval_utils.evaluator(model, testenc, dev, args)
    print(f"WIKITEXT2 PPL: {ppl:.3f} rounding {error:.4f}")
# --- fake_quant/modeling_llama.py
import torch
from torch import nn
from torch.nn import functional as F


class LlamaRotaryEmbedding(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim)), persistent=False)

    def forward(self, x, position_ids):
        inv_freq_expanded = self.inv_freq[None, :, None].expand(position_ids.shape[0], -1, 1)
        position_ids_expanded = position_ids[:, None, :].float()
        freqs = (inv_freq_expanded @ position_ids_expanded).transpose(1, 2)
        return torch.cat((freqs, freqs), dim=-1)


def apply_rotary_pos_emb(x, emb):
    x1, x2 = x.chunk(2, dim=-1)
    return x * emb.cos() + torch.cat((-x2, x1), dim=-1) * emb.sin()


class LlamaDecoderLayer(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(4))
        self.up_proj, self.down_proj = nn.Linear(hidden_size, 32, bias=False), nn.Linear(32, hidden_size, bias=False)

    def forward(self, hidden_states, position_embeddings):
        emb = position_embeddings[:, None]
        x = F.rms_norm(hidden_states, hidden_states.shape[-1:])
        q, k, v = (proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for proj in (self.q_proj, self.k_proj, self.v_proj))
        q, k = apply_rotary_pos_emb(q, emb), apply_rotary_pos_emb(k, emb)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        hidden_states = hidden_states + self.o_proj(attended)
        return hidden_states + self.down_proj(F.silu(self.up_proj(hidden_states)))


class LlamaModel(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_heads, num_layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, hidden_size)
        self.layers = nn.ModuleList(LlamaDecoderLayer(hidden_size, num_heads) for _ in range(num_layers))
        self.rotary_emb = LlamaRotaryEmbedding(hidden_size // num_heads)

    def forward(self, input_ids):
        hidden_states = self.embed_tokens(input_ids)
        position_ids = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        position_embeddings = self.rotary_emb(hidden_states, position_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states, position_embeddings=position_embeddings)
        return hidden_states


class LlamaForCausalLM(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_heads, num_layers):
        super().__init__()
        self.model = LlamaModel(vocab_size, hidden_size, num_heads, num_layers)
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)

    def forward(self, input_ids):
        return self.lm_head(F.rms_norm(self.model(input_ids), (self.lm_head.in_features,)))
# --- fake_quant/quant_utils.py
import torch
from torch import nn


def get_orthogonal_matrix(size, device):
    matrix = torch.randn(size, size, generator=torch.Generator().manual_seed(size))
    return torch.linalg.qr(matrix)[0].to(device)


def rotate_model(model, dev):
    """What a layer reads is turned, and what a layer adds is turned alike: the model says the same."""
    Q = get_orthogonal_matrix(model.lm_head.in_features, dev)
    reads, adds = [model.model.embed_tokens, model.lm_head], []
    for layer in model.model.layers:
        reads += [layer.q_proj, layer.k_proj, layer.v_proj, layer.up_proj]
        adds += [layer.o_proj, layer.down_proj]
    for module in reads:
        module.weight.data = (module.weight.data.to(dev) @ Q).cpu()
    for module in adds:
        module.weight.data = (Q.t() @ module.weight.data.to(dev)).cpu()


def rtn_fwrd(model, bits, dev):
    """Rounds to the nearest of a few numbers, row by row."""
    error, maxq = 0.0, 2 ** (bits - 1) - 1
    for module in model.model.layers.modules():
        if isinstance(module, nn.Linear):
            W = module.weight.data.to(dev)
            scale = W.abs().amax(dim=1, keepdim=True) / maxq
            rounded = (W / scale).round().clamp(-maxq - 1, maxq) * scale
            error += (rounded - W).square().mean().item()
            module.weight.data = rounded.cpu()
    return error
# --- fake_quant/eval_utils.py
import torch
from torch import nn


class Catcher(nn.Module):
    def __init__(self, module, inps, cache):
        super().__init__()
        self.module, self.inps, self.cache = module, inps, cache

    def forward(self, inp, **kwargs):
        self.inps.append(inp)
        self.cache.update(kwargs)
        raise ValueError


@torch.no_grad()
def evaluator(model, testenc, dev, args):
    layers = model.model.layers
    model.model.embed_tokens = model.model.embed_tokens.to(dev)
    layers[0] = layers[0].to(dev)

    nsamples = testenc.numel() // args.seqlen
    input_ids = testenc[:, : nsamples * args.seqlen].view(nsamples, args.seqlen).to(dev).split(args.bsz)
    inps, cache = [], {}
    layers[0] = Catcher(layers[0], inps, cache)
    for i in range(len(input_ids)):
        try:
            model(input_ids[i])
        except ValueError:
            pass
    layers[0] = layers[0].module.cpu()
    model.model.embed_tokens = model.model.embed_tokens.cpu()
    for i in range(len(layers)):
        layer = layers[i].to(dev)
        inps = [layer(inp, **cache) for inp in inps]
        layers[i] = layer.cpu()

    model.lm_head = model.lm_head.to(dev)
    nlls = []
    for inp, ids in zip(inps, input_ids):
        logits = model.lm_head(nn.functional.rms_norm(inp, inp.shape[-1:]))
        nlls.append(nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:]))
    return torch.exp(torch.stack(nlls).mean()).item()

# === names_and_places_of_a_sentence
# thread: https://github.com/taishan1994/pytorch_triple_extraction/issues/8
# about: a trained model finds names and places in a sentence. What it was trained with is read from a file, and who uses it says which GPU to use
# operation: lstm|_VF\.lstm|_cudnn_rnn on cuda:0, cpu
# operands: hx|hidden|.*hidden.*
# error: Input and hidden tensors are not at the same device
# category: cached-state|created-without-device|default-or-current-device
# line: bert_ner_model.py: hidden = [i.to(self.device) for i in self.init_hidden(seq_out.size(0))]
# line: bert_ner_model.py: seq_out, (hn, _) = self.lstm(seq_out, hidden)
# line: bert_ner_model.py: self.device = torch.device(
# line: get_result.py: model = BertNerModel(train_args, num_tags=len(LABELS))
# line: get_result.py: train_args = Args(**json.loads(
# line: get_result.py: gpu_ids: str = "-1"
# repair: bert_ner_model.py: hidden = [i.to(self.device) for i in self.init_hidden(seq_out.size(0))] -> hidden = [i.to(seq_out.device) for i in
#   self.init_hidden(seq_out.size(0))]
import sys

from get_result import get_ner_result

TEXTS = ["anna met peter in rome", "the train to oslo left without maria"]

if __name__ == "__main__":
    gpu_ids = sys.argv[1] if len(sys.argv) > 1 else "0"
    results = [get_ner_result(text, gpu_ids) for text in TEXTS]
    for text, (tags, _) in zip(TEXTS, results):
        print(text, tags)
    print("scores", [f"{score:.4f}" for _, score in results])
# --- bert_ner_model.py
import torch
from torch import nn


class BaseModel(nn.Module):
    """Stands in for BERT: words, their places, and one layer of attention."""

    def __init__(self, args, vocab_size=60):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, args.bert_dim)
        self.position_embeddings = nn.Embedding(args.max_seq_len, args.bert_dim)
        self.attention = nn.MultiheadAttention(args.bert_dim, 2, batch_first=True)

    def bert_module(self, token_ids, attention_masks):
        positions = torch.arange(token_ids.size(1), device=token_ids.device)
        hidden = self.word_embeddings(token_ids) + self.position_embeddings(positions)
        return self.attention(hidden, hidden, hidden, key_padding_mask=attention_masks == 0, need_weights=False)[0]


class BertNerModel(BaseModel):
    def __init__(self, args, num_tags):
        super().__init__(args)
        self.num_layers, self.lstm_hidden = args.num_layers, args.lstm_hidden
        gpu_ids = args.gpu_ids.split(",")
        self.device = torch.device("cpu" if gpu_ids[0] == "-1" else "cuda:" + gpu_ids[0])
        self.lstm = nn.LSTM(args.bert_dim, args.lstm_hidden, args.num_layers, bidirectional=True, batch_first=True, dropout=args.dropout)
        self.linear = nn.Linear(args.lstm_hidden * 2, num_tags)

    def init_hidden(self, batch_size):
        h0 = torch.zeros(2 * self.num_layers, batch_size, self.lstm_hidden)
        c0 = torch.zeros(2 * self.num_layers, batch_size, self.lstm_hidden)
        return h0, c0

    def forward(self, token_ids, attention_masks):
        seq_out = self.bert_module(token_ids, attention_masks)
        hidden = [i.to(self.device) for i in self.init_hidden(seq_out.size(0))]
        seq_out, (hn, _) = self.lstm(seq_out, hidden)
        return self.linear(seq_out), hn[-1]
# --- ner_predict.py
import torch


class BertForNer:
    def __init__(self, args, model, labels):
        self.args, self.labels = args, labels
        self.device = torch.device("cpu" if args.gpu_ids == "-1" else f"cuda:{args.gpu_ids.split(',')[0]}")
        self.model = model.to(self.device)

    def convert(self, raw_text):
        tokens = [1 + sum(map(ord, word)) % 59 for word in raw_text.split()][: self.args.max_seq_len]
        padding = self.args.max_seq_len - len(tokens)
        return torch.tensor([tokens + [0] * padding]), torch.tensor([[1] * len(tokens) + [0] * padding])

    @torch.no_grad()
    def predict(self, raw_text):
        self.model.eval()
        token_ids, attention_masks = self.convert(raw_text)
        logits, _ = self.model(token_ids.to(self.device), attention_masks.to(self.device))
        scores = logits.log_softmax(dim=-1)[0, : int(attention_masks.sum())]
        best, tags = scores.max(dim=-1)
        return [self.labels[tag] for tag in tags.tolist()], best.sum().item()
# --- get_result.py
import json
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

import torch

from bert_ner_model import BertNerModel
from ner_predict import BertForNer


@dataclass
class Args:
    max_seq_len: int = 12
    bert_dim: int = 16
    lstm_hidden: int = 10
    num_layers: int = 2
    dropout: float = 0.3
    gpu_ids: str = "-1"
    seed: int = 123


LABELS = ["O", "B-per", "I-per", "B-loc", "I-loc"]
SAVED = json.dumps(asdict(Args(lstm_hidden=12)))


@lru_cache
def load(gpu_ids):
    train_args = Args(**json.loads(SAVED))
    torch.manual_seed(train_args.seed)
    model = BertNerModel(train_args, num_tags=len(LABELS))
    return BertForNer(replace(train_args, gpu_ids=gpu_ids), model, LABELS)


def get_ner_result(raw_text, gpu_ids):
    return load(gpu_ids).predict(raw_text)

# === a_finetuned_judge_loaded_again
# thread: https://github.com/timothelaborie/text_classification_scripts/issues/15
# about: a language model was taught with small additional matrices to tell texts apart. It is loaded again, these matrices from a folder of their own
# operation: _to_copy|to|copy_?|empty_like on meta
# operands: self|param|t|.*lora_.*|.*weight.*
# error: Cannot copy out of meta tensor; no data!
# category: checkpoint|created-without-device|default-or-current-device
# line: fast_language_model.py: model.load_state_dict(adapters, strict=False)
# line: fast_language_model.py: inject_adapter(model, config, low_cpu_mem_usage=True)
# line: peft_lora.py: with torch.device("meta") if low_cpu_mem_usage else nullcontext():
# line: peft_lora.py: self.lora_A = nn.Linear(
# line: peft_lora.py: self.lora_B = nn.Linear(
# repair: fast_language_model.py: model.load_state_dict(adapters, strict=False) -> model.load_state_dict(adapters, strict=False, assign=True)
import tempfile
from pathlib import Path

import torch
from torch.nn import functional as F

from fast_language_model import FastLanguageModel

YES, NO = 1, 2
TEXTS = [
    ("what a lovely evening", YES), ("dull and far too long", NO), ("i laughed all the time", YES),
    ("nobody should see this", NO), ("warm and well played", YES), ("the end makes no sense", NO),
]


def collate(texts):
    rows = [[3 + sum(map(ord, word)) % 45 for word in text.split()] for text, _ in texts]
    longest = max(map(len, rows))
    input_ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    return input_ids.to("cuda"), torch.tensor([label for _, label in texts]).to("cuda")


def train(model, steps):
    input_ids, labels = collate(TEXTS)
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=0.03)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(model(input_ids), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def accuracy_of(model):
    input_ids, labels = collate(TEXTS)
    probabilities = model(input_ids)[:, [YES, NO]].softmax(dim=1)
    return (probabilities.argmax(dim=1) == labels - 1).sum().item(), probabilities[:, 0].mean().item()


if __name__ == "__main__":
    torch.manual_seed(15)
    with tempfile.TemporaryDirectory() as folder:
        base, saved_name = Path(folder) / "llama-3-tiny", Path(folder) / "lora_model_llama-3-tiny"
        FastLanguageModel.create(base, vocab_size=48, width=16, layers=2)
        model = FastLanguageModel.get_peft_model(FastLanguageModel.from_pretrained(base), r=4, lora_alpha=8)
        losses = train(model, steps=8)
        model.save_pretrained(saved_name)
        model = FastLanguageModel.from_pretrained(saved_name)
        correct, score = accuracy_of(model)
    print(f"loss {losses[0]:.3f} {losses[-1]:.3f} correct {correct} score {score:.4f}")
# --- modeling_llama.py
import torch
from torch import nn


class LlamaLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(2))

    def forward(self, hidden):
        return hidden + self.o_proj(torch.tanh(self.q_proj(hidden)).cumsum(dim=1) / hidden.shape[1])


class LlamaForCausalLM(nn.Module):
    def __init__(self, vocab_size, width, layers):
        super().__init__()
        self.config = {"vocab_size": vocab_size, "width": width, "layers": layers}
        self.embed_tokens = nn.Embedding(vocab_size, width)
        self.layers = nn.ModuleList(LlamaLayer(width) for _ in range(layers))
        self.lm_head = nn.Linear(width, vocab_size, bias=False)

    def forward(self, input_ids):
        hidden = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.lm_head(hidden[:, -1])

    def save_pretrained(self, folder):
        folder.mkdir()
        adapters = {name: tensor for name, tensor in self.state_dict().items() if "lora_" in name}
        torch.save({"adapters": adapters, "peft_config": self.peft_config, "base": self.base}, folder / "adapter_model.bin")
# --- peft_lora.py
from contextlib import nullcontext

import torch
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, base_layer, r, lora_alpha):
        super().__init__()
        self.base_layer = base_layer
        self.lora_A = nn.Linear(base_layer.in_features, r, bias=False)
        self.lora_B = nn.Linear(r, base_layer.out_features, bias=False)
        self.scaling = lora_alpha / r

    def forward(self, x):
        return self.base_layer(x) + self.scaling * self.lora_B(self.lora_A(x))


def inject_adapter(model, config, low_cpu_mem_usage=False):
    for layer in model.layers:
        with torch.device("meta") if low_cpu_mem_usage else nullcontext():
            layer.q_proj = LoraLinear(layer.q_proj, **config)
    model.peft_config = config
# --- fast_language_model.py
import torch
from torch import nn

from modeling_llama import LlamaForCausalLM
from peft_lora import inject_adapter


class FastLanguageModel:
    @staticmethod
    def create(folder, **config):
        folder.mkdir()
        torch.save({"config": config, "weights": LlamaForCausalLM(**config).state_dict()}, folder / "pytorch_model.bin")

    @staticmethod
    def from_pretrained(folder):
        if (folder / "adapter_model.bin").exists():
            return FastLanguageModel.load_with_adapters(torch.load(folder / "adapter_model.bin", map_location="cpu", weights_only=False))
        return FastLanguageModel.load_base(folder).to("cuda")

    @staticmethod
    def load_with_adapters(checkpoint):
        adapters, config = checkpoint["adapters"], checkpoint["peft_config"]
        model = FastLanguageModel.load_base(checkpoint["base"])
        inject_adapter(model, config, low_cpu_mem_usage=True)
        model.load_state_dict(adapters, strict=False)
        return model.to("cuda")

    @staticmethod
    def load_base(folder):
        saved = torch.load(folder / "pytorch_model.bin", map_location="cpu")
        with torch.device("meta"):
            model = LlamaForCausalLM(**saved["config"])
        model.load_state_dict(saved["weights"], assign=True)
        model.base = folder
        return model.requires_grad_(False)

    @staticmethod
    def get_peft_model(model, r, lora_alpha):
        inject_adapter(model, {"r": r, "lora_alpha": lora_alpha})
        for layer in model.layers:
            nn.init.zeros_(layer.q_proj.lora_B.weight)
        return model.to("cuda")
