# === inpaint_channels
# thread: https://github.com/Comfy-Org/ComfyUI/issues/11412
# about: what the VAE gives stays on the GPU if all is to be there, and else goes to the CPU; the mask comes from another node and knows neither
# operation: cat|concat on cpu, cuda:0
# operands: .*
# category: input-not-moved
# line: controlnet.py: mask = nn.functional.interpolate(
# line: controlnet.py: return torch.cat([mask, latent], dim=1)
# line: controlnet.py: self.cond_hint_original, self.inpaint_image, self.mask = image, inpaint_image, mask
# line: main.py: control.set_hint(
# repair: controlnet.py: mask = nn.functional.interpolate(self.mask, size=latent.shape[-2:], mode="nearest") -> mask = nn.functional.interpolate(self.mask.to(latent.device), size=latent.shape[-2:], mode="nearest")
import torch

from controlnet import ControlNet
from places import torch_device
from sampler import sample
from vae import VAE

torch.manual_seed(0)
vae = VAE(latent=4, width=8, gpu_only=True)
control = ControlNet(vae, latent=4, width=8, strength=0.7)
generator = torch.Generator().manual_seed(1)
image, mask = torch.rand(1, 3, 8, 8, generator=generator), (torch.rand(1, 1, 8, 8, generator=generator) > 0.5).float()
control.set_hint(image, inpaint_image=image.flip(-1), mask=mask)
latents = sample(control, torch.randn(1, 4, 4, 4, generator=generator).to(torch_device()), sigmas=[1.0, 0.6, 0.3, 0.0])
print("latents", [round(value, 4) for value in latents.mean((0, 2, 3)).tolist()])
# --- places.py
import torch

def torch_device():
    return torch.device("cuda", torch.cuda.current_device())

def intermediate_device(gpu_only):
    return torch_device() if gpu_only else torch.device("cpu")
# --- vae.py
import torch
from torch import nn

from places import intermediate_device, torch_device

class VAE:
    def __init__(self, latent, width, gpu_only=False):
        self.device, self.output_device = torch_device(), intermediate_device(gpu_only)
        self.encoder = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, latent, 2, stride=2)).to(self.device).eval()

    @torch.no_grad()
    def encode(self, pixels):
        latents = self.encoder(pixels.to(self.device) * 2 - 1)
        return latents.to(self.output_device)
# --- controlnet.py
import torch
from torch import nn

from places import torch_device

class ControlNet:
    def __init__(self, vae, latent, width, strength):
        self.vae, self.strength = vae, strength
        self.model = nn.Sequential(nn.Conv2d(3 * latent + 1, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, latent, 1)).to(torch_device()).eval()
        self.cond_hint = None

    def set_hint(self, image, inpaint_image=None, mask=None):
        self.cond_hint_original, self.inpaint_image, self.mask = image, inpaint_image, mask
        self.cond_hint = None

    def inpaint_channels(self):
        latent = self.vae.encode(self.inpaint_image * (self.mask < 0.5))
        mask = nn.functional.interpolate(self.mask, size=latent.shape[-2:], mode="nearest")
        return torch.cat([mask, latent], dim=1)

    def prepare(self, x_noisy):
        hint = self.vae.encode(self.cond_hint_original)
        if self.inpaint_image is not None:
            hint = torch.cat([hint, self.inpaint_channels()], dim=1)
        return hint.to(x_noisy)

    @torch.no_grad()
    def get_control(self, x_noisy):
        if self.cond_hint is None or self.cond_hint.shape[0] != x_noisy.shape[0]:
            self.cond_hint = self.prepare(x_noisy)
        return self.model(torch.cat([x_noisy, self.cond_hint], dim=1)) * self.strength
# --- sampler.py
def sample(control, x, sigmas):
    for sigma, following in zip(sigmas, sigmas[1:]):
        denoised = x - sigma * control.get_control(x / (1 + sigma**2) ** 0.5)
        x = x + (x - denoised) / sigma * (following - sigma)
    return x

# === anchor_and_motion
# thread: https://github.com/kijai/ComfyUI-KJNodes/issues/482
# about: a video is made in parts; each begins with the picture, which the VAE put on the CPU, later ones also with what a sampler left
# operation: cat|concat on cpu, cuda:0
# operands: .*
# category: input-not-moved
# line: nodes.py: image_cond_latent = torch.cat([anchor_latent, motion_latent], dim=2)
# line: nodes.py: motion_latent = prev_samples["samples"]
# line: nodes.py: anchor_latent = anchor_samples["samples"]
# line: sampling.py: return {"samples": x}
# repair: nodes.py: image_cond_latent = torch.cat([anchor_latent, motion_latent], dim=2) -> image_cond_latent = torch.cat([anchor_latent, motion_latent.to(anchor_latent.device)], dim=2)
import torch

from nodes import ImageToVideo
from sampling import Denoiser, sample
from vae import VAE

torch.manual_seed(0)
vae, model, node = VAE(channels=4), Denoiser(channels=4, width=8).to("cuda:0").eval(), ImageToVideo()
anchor, previous, parts = vae.encode(torch.rand(1, 8, 8, 3, generator=torch.Generator().manual_seed(2))), None, []
for seed in range(3):
    conditioning, latent = node.execute({"samples": anchor}, length=3, prev_samples=previous, motion_frames=1)
    previous = sample(model, conditioning, latent, steps=2, seed=seed)
    parts.append(vae.decode(previous)[1:] if parts else vae.decode(previous))
video = torch.cat(parts)
print("video", tuple(video.shape), [round(value, 4) for value in video.mean((1, 2, 3)).tolist()])
# --- vae.py
import torch
from torch import nn

class VAE:
    """On the GPU while it is at work; what it gives goes back to the CPU."""

    def __init__(self, channels):
        self.device, self.output_device = torch.device("cuda:0"), torch.device("cpu")
        self.encoder = nn.Conv3d(3, channels, (1, 2, 2), stride=(1, 2, 2)).to(self.device).eval()
        self.decoder = nn.ConvTranspose3d(channels, 3, (1, 2, 2), stride=(1, 2, 2)).to(self.device).eval()

    @torch.no_grad()
    def encode(self, pixels):
        frames = pixels.permute(3, 0, 1, 2)[None].to(self.device)
        return self.encoder(frames).to(self.output_device)

    @torch.no_grad()
    def decode(self, samples):
        frames = self.decoder(samples["samples"].to(self.device)).sigmoid()
        return frames[0].permute(1, 2, 3, 0).to(self.output_device)
# --- nodes.py
import torch

class ImageToVideo:
    def execute(self, anchor_samples, length, prev_samples=None, motion_frames=1):
        anchor_latent = anchor_samples["samples"]
        batch, channels, given, height, width = anchor_latent.shape
        latent = torch.zeros(batch, channels, length, height, width)
        if prev_samples is None or motion_frames == 0:
            image_cond_latent = anchor_latent
        else:
            motion_latent = prev_samples["samples"][:, :, -motion_frames:]
            image_cond_latent = torch.cat([anchor_latent, motion_latent], dim=2)
        known = image_cond_latent.shape[2]
        padding = torch.zeros(batch, channels, length - known, height, width, device=image_cond_latent.device)
        mask = torch.ones(batch, 1, length, height, width, device=image_cond_latent.device)
        mask[:, :, :known] = 0.0
        return {"concat_latent": torch.cat([image_cond_latent, padding], dim=2), "concat_mask": mask}, {"samples": latent}
# --- sampling.py
import torch
from torch import nn

class Denoiser(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.net = nn.Sequential(nn.Conv3d(2 * channels + 1, width, 3, padding=1), nn.SiLU(), nn.Conv3d(width, channels, 3, padding=1))

    def forward(self, x, conditioning):
        return self.net(torch.cat([x, conditioning["concat_mask"], conditioning["concat_latent"]], dim=1))

@torch.no_grad()
def sample(model, conditioning, latent, steps, seed):
    device = next(model.parameters()).device
    noise = torch.randn(latent["samples"].shape, generator=torch.Generator().manual_seed(seed))
    x = (latent["samples"] + noise).to(device)
    conditioning = {key: value.to(device) for key, value in conditioning.items()}
    for _ in range(steps):
        x = x - model(x, conditioning) / steps
    return {"samples": x}

# === replaced_buffer
# thread: https://github.com/ModelTC/LightX2V/pull/1208
# about: a tower is made without memory and filled on the GPU; what its file does not have is worked out and registered anew, as a buffer, after that
# operation: embedding|index_select on cuda:0, cpu
# operands: .*weight.*|.*, .*position_ids.*|input|.*
# category: created-without-device|module-split
# line: populate.py: position_ids = torch.arange(
# line: populate.py: module._buffers[name] = value
# line: populate.py: register_or_replace_buffer(embeddings, "position_ids"
# line: loader.py: for operation in self.operations:
# line: main.py: operations=[populate_positions]
# repair: populate.py: position_ids = torch.arange(embeddings.num_positions).expand(1, -1) -> position_ids = torch.arange(embeddings.num_positions, device=embeddings.position_embedding.weight.device).expand(1, -1)
import torch
from transformers import SiglipVisionConfig, SiglipVisionModel

from encoder import ImageEncoder
from loader import ModelBuilder
from populate import populate_positions

config = SiglipVisionConfig(
    hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4, vision_use_head=False,
)
torch.manual_seed(0)
weights = {name: torch.randn(value.shape) * 0.1 for name, value in SiglipVisionModel(config).state_dict().items()}
builder = ModelBuilder(SiglipVisionModel, config, operations=[populate_positions])
encoder = ImageEncoder(builder.build(weights, device=torch.device("cuda:0")))
features = encoder(torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(1)))
print("features", [round(value, 4) for value in features.mean(1).tolist()])
# --- populate.py
import torch

def register_or_replace_buffer(module, name, value):
    if name in module._buffers:
        module._buffers[name] = value
    else:
        module.register_buffer(name, value, persistent=False)

def populate_positions(model):
    """Buffers that are in no file: what is in them after loading is whatever was in memory."""
    for module in model.modules():
        if hasattr(module, "position_embedding"):
            embeddings = module
            position_ids = torch.arange(embeddings.num_positions).expand(1, -1)
            register_or_replace_buffer(embeddings, "position_ids", position_ids)
    return model
# --- loader.py
import torch

class ModelBuilder:
    def __init__(self, model_class, config, operations=()):
        self.model_class, self.config, self.operations = model_class, config, operations

    def meta_model(self):
        with torch.device("meta"):
            return self.model_class(self.config)

    def build(self, weights, device):
        model = self.meta_model().to_empty(device=device)
        missing, unexpected = model.load_state_dict(weights, strict=False)
        if missing or unexpected:
            raise KeyError(f"missing {missing}, unexpected {unexpected}")
        for operation in self.operations:
            model = operation(model)
        return model.eval()
# --- encoder.py
import torch

class ImageEncoder:
    def __init__(self, tower):
        self.tower = tower

    @property
    def device(self):
        return next(self.tower.parameters()).device

    @torch.inference_mode()
    def __call__(self, images):
        pixels = (images.to(self.device) - 0.5) / 0.5
        return self.tower(pixel_values=pixels).last_hidden_state.mean(1)

# === invariant_gradients
# thread: https://github.com/KarhouTam/FL-bench/issues/172
# about: clients send gradients to the server, which keeps them on the CPU; what it sends back is loaded into the model or kept as it came
# operation: sub on cuda:0, cpu
# operands: .*grad.*|self|.*, .*mean.*|other|.*
# category: input-not-moved
# line: client.py: self.grad_mean = package["grad_mean"]
# line: client.py: penalty = sum((grad - mean).square().sum()
# line: server.py: "grad_mean": self.grad_mean
# line: server.py: self.grad_mean = [
# line: client.py: return [grad.detach().cpu()
# repair: client.py: self.grad_mean = package["grad_mean"] -> self.grad_mean = [mean.to(self.device) for mean in package["grad_mean"]]
import torch
from torch import nn

from client import FedIIRClient
from server import FedIIRServer

torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
shards = [(torch.randn(8, 4, generator=generator) + i, torch.randint(0, 3, (8,), generator=generator)) for i in range(3)]
model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
client = FedIIRClient(model, shards, device="cuda:0", penalty=0.1)
server = FedIIRServer({name: value.clone() for name, value in client.model.cpu().state_dict().items()}, client)
print("losses", [[round(loss, 4) for loss in server.train_one_round()] for _ in range(2)])
# --- client.py
import torch
from torch import nn

class FedIIRClient:
    """One worker that plays all clients, one after the other."""

    def __init__(self, model, shards, device, penalty, lr=0.1):
        self.model, self.shards, self.device, self.penalty, self.lr = model, shards, torch.device(device), penalty, lr
        self.classifier = model[-1]

    def set_parameters(self, package):
        self.x, self.y = (part.to(self.device) for part in self.shards[package["client_id"]])
        self.model.load_state_dict(package["weights"])
        self.model.to(self.device)
        self.grad_mean = package["grad_mean"]

    def classifier_gradients(self, create_graph):
        loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        return loss, torch.autograd.grad(loss, list(self.classifier.parameters()), create_graph=create_graph)

    def gradients(self, package):
        self.set_parameters(package)
        _, gradients = self.classifier_gradients(create_graph=False)
        return [grad.detach().cpu() for grad in gradients]

    def train(self, package):
        self.set_parameters(package)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=self.lr)
        loss, gradients = self.classifier_gradients(create_graph=True)
        penalty = sum((grad - mean).square().sum() for grad, mean in zip(gradients, self.grad_mean))
        optimizer.zero_grad()
        (loss + self.penalty * penalty).backward()
        optimizer.step()
        return {"loss": loss.item(), "weights": {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}}
# --- server.py
import torch

class FedIIRServer:
    def __init__(self, weights, client, momentum=0.9):
        self.weights, self.client, self.momentum = weights, client, momentum
        self.grad_mean = [torch.zeros_like(weights[f"{len(client.model) - 1}.{name}"]) for name, _ in client.classifier.named_parameters()]

    def package(self, client_id):
        return {"client_id": client_id, "weights": self.weights, "grad_mean": self.grad_mean}

    def train_one_round(self):
        clients = range(len(self.client.shards))
        gradients = [torch.stack(each).mean(0) for each in zip(*(self.client.gradients(self.package(i)) for i in clients))]
        self.grad_mean = [self.momentum * mean + (1 - self.momentum) * grad for mean, grad in zip(self.grad_mean, gradients)]
        results = [self.client.train(self.package(i)) for i in clients]
        self.weights = {name: torch.stack([result["weights"][name] for result in results]).mean(0) for name in self.weights}
        return [result["loss"] for result in results]

# === simplex_range
# thread: https://github.com/sunlabuiuc/PyHealth/pull/1139
# about: which activation calibrates the features is an option; one of two is a module that counts places of sorted values at each call
# operation: mul on cpu, cuda:0
# operands: .*ranks.*|.*range.*|self|.*, .*zs.*|.*sorted.*|.*
# category: created-without-device
# line: activations.py: ranks = torch.arange(
# line: activations.py: bound = 1 + ranks * zs_sorted
# line: adacare.py: self.activation = ACTIVATIONS[activation]()
# repair: activations.py: ranks = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype) -> ranks = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
import torch

from adacare import AdaCare
from records import collate

torch.manual_seed(0)
device = "cuda:0" if torch.cuda.is_available() else "cpu"
visits = [[[1.0, 0.5, 0.0], [0.2, 0.1, 0.9], [0.4, 0.4, 0.3]], [[0.3, 0.8, 0.7], [0.9, 0.6, 0.1]]]
batch = collate([{"visits": each, "label": i} for i, each in enumerate(visits)])
model = AdaCare(features=3, hidden=6, activation="sparsemax").to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    out = model(**batch)
    optimizer.zero_grad()
    out["loss"].backward()
    optimizer.step()
print("loss", round(out["loss"].item(), 5), "probabilities", [round(value, 4) for value in out["y_prob"].flatten().tolist()])
# --- records.py
import torch
from torch.nn.utils.rnn import pad_sequence

def collate(samples):
    visits = [torch.tensor(sample["visits"]) for sample in samples]
    return {
        "visits": pad_sequence(visits, batch_first=True), "lengths": torch.tensor([len(each) for each in visits]),
        "label": torch.tensor([[float(sample["label"])] for sample in samples]),
    }
# --- activations.py
import torch
from torch import nn

class Sparsemax(nn.Module):
    """The point of the simplex that is closest."""

    def forward(self, x):
        x = x - x.amax(-1, keepdim=True)
        zs_sorted = x.sort(dim=-1, descending=True).values
        ranks = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
        bound = 1 + ranks * zs_sorted
        support = (bound > zs_sorted.cumsum(-1)).to(x.dtype)
        size = support.sum(-1, keepdim=True)
        threshold = ((zs_sorted * support).sum(-1, keepdim=True) - 1) / size
        return (x - threshold).clamp_min(0)

ACTIVATIONS = {"sigmoid": nn.Sigmoid, "sparsemax": Sparsemax}
# --- adacare.py
import torch
from torch import nn

from activations import ACTIVATIONS

class Recalibration(nn.Module):
    def __init__(self, channels, activation):
        super().__init__()
        self.activation = ACTIVATIONS[activation]()
        self.down, self.up = nn.Linear(channels, channels, bias=False), nn.Linear(channels, channels, bias=False)

    def forward(self, x):
        summary = x.cumsum(1) / torch.arange(1, x.shape[1] + 1, device=x.device).view(1, -1, 1)
        return x * self.activation(self.up(torch.relu(self.down(summary))))

class AdaCare(nn.Module):
    def __init__(self, features, hidden, activation):
        super().__init__()
        self.convolve = nn.Conv1d(features, features, 2)
        self.recalibrate = nn.ModuleList(Recalibration(features, activation) for _ in range(2))
        self.rnn, self.output = nn.GRU(2 * features, hidden, batch_first=True), nn.Linear(hidden, 1)

    @property
    def device(self):
        return self.output.weight.device

    def forward(self, visits, lengths, label):
        visits, lengths, label = visits.to(self.device), lengths.to(self.device), label.to(self.device)
        convolved = self.convolve(nn.functional.pad(visits.transpose(1, 2), (1, 0))).transpose(1, 2)
        x = torch.cat([part(each) for part, each in zip(self.recalibrate, (convolved, visits))], dim=-1)
        states, _ = self.rnn(x)
        logits = self.output(states[torch.arange(len(states), device=self.device), lengths - 1])
        return {"loss": nn.functional.binary_cross_entropy_with_logits(logits, label), "y_prob": logits.sigmoid()}

# === adapter_orthogonality
# thread: https://github.com/zjunlp/EasyEdit/issues/149
# about: adapters lie with the layers of a model that is spread over two GPUs; how far each is from orthogonal is added up over all of them
# operation: add on cuda:0, cuda:1
# operands: total|.*regu.*|self|.*, penalty|.*norm.*|other|.*
# category: module-split
# line: regularizer.py: total = total + penalty
# line: regularizer.py: penalty = torch.linalg.matrix_norm(
# line: editor.py: penalty = orthogonality(
# line: main.py: device_map = {
# repair: regularizer.py: total = total + penalty -> total = total + penalty.to(next(model.parameters()).device)
import torch
from accelerate import dispatch_model
from transformers import OPTConfig, OPTForCausalLM

from editor import LoRAEditor

torch.manual_seed(0)
config = OPTConfig(
    vocab_size=20, hidden_size=16, ffn_dim=24, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=16, word_embed_proj_dim=16, dropout=0.0,
    pad_token_id=1, bos_token_id=2, eos_token_id=2,
)
model = OPTForCausalLM(config).eval()
device_map = {
    "model.decoder.embed_tokens": 0, "lm_head": 0, "model.decoder.embed_positions": 0, "model.decoder.final_layer_norm": 1,
    "model.decoder.layers.0": 0, "model.decoder.layers.1": 1,
}
editor = LoRAEditor(dispatch_model(model, device_map), rank=2, weight=0.05)
requests = [{"prompt": [2, 5, 7], "target": [11, 4]}, {"prompt": [2, 9, 6], "target": [3, 8]}]
print("losses", [round(loss, 4) for loss in editor.execute(requests, steps=3)])
# --- regularizer.py
import torch

def orthogonality(model, names=("lora_A", "lora_B")):
    """The mean distance of adapters' factors from factors whose rows, or columns, are orthonormal."""
    total, count = 0.0, 0
    for name, parameter in model.named_parameters():
        if not any(each in name for each in names):
            continue
        gram = parameter @ parameter.T if "lora_A" in name else parameter.T @ parameter
        penalty = torch.linalg.matrix_norm(gram - torch.eye(len(gram), device=gram.device))
        total = total + penalty
        count += 1
    return total / count
# --- editor.py
import torch
from peft import LoraConfig, get_peft_model

from regularizer import orthogonality

class LoRAEditor:
    """Trains adapters until a model gives the answers that it is told."""

    def __init__(self, model, rank, weight):
        config = LoraConfig(r=rank, lora_alpha=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.0, task_type="CAUSAL_LM", init_lora_weights=True)
        self.model, self.weight = get_peft_model(model, config), weight

    def batch_of(self, requests):
        tokens = torch.tensor([request["prompt"] + request["target"] for request in requests])
        labels = tokens.clone()
        for row, request in zip(labels, requests):
            row[: len(request["prompt"])] = -100
        device = self.model.get_input_embeddings().weight.device
        return {"input_ids": tokens.to(device), "attention_mask": torch.ones_like(tokens).to(device), "labels": labels.to(device)}

    def execute(self, requests, steps):
        optimizer = torch.optim.AdamW([parameter for parameter in self.model.parameters() if parameter.requires_grad], lr=0.02)
        batch, losses = self.batch_of(requests), []
        for _ in range(steps):
            loss = self.model(**batch).loss
            penalty = orthogonality(self.model)
            loss = loss + self.weight * penalty.to(loss.device)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

# === metric_on_best_device
# thread: https://github.com/PrunaAI/pruna/pull/223
# about: metrics that are asked for by name go to the best device that there is; the agent has the pictures made where the model is, on another one
# operation: addmm|linear|mm on cuda:0, cuda:1
# operands: .*
# category: default-or-current-device|input-not-moved
# line: metrics.py: self.device = best_available_device(device)
# line: task.py: self.metrics = [get_metric(name, **
# line: main.py: task = Task(
# line: metrics.py: self.metric.update(
# line: agent.py: metric.update(
# repair: task.py: self.metrics = [get_metric(name, **options.get(name, {})) for name in names] -> self.metrics = [get_metric(name, device=device, **options.get(name, {})) for name in names]
import torch
from torch import nn

from agent import EvaluationAgent, Generator
from task import Task

torch.manual_seed(0)
features = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16, 4))
device = torch.device("cuda", 1)
task = Task(["fid", "mean_color"], {"fid": {"features": features, "size": 4}}, device=device)
generator = Generator(latent=5, size=4).to(device).eval()
results = EvaluationAgent(task, device).evaluate(generator, batches=3)
print("results", {name: round(value, 3) for name, value in results.items()})
# --- metrics.py
import torch
from torchmetrics import MeanMetric
from torchmetrics.image.fid import FrechetInceptionDistance

def best_available_device(device=None):
    if device is not None:
        return torch.device(device)
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

class FidMetric:
    name = "fid"

    def __init__(self, features, size, device=None):
        self.device = best_available_device(device)
        features.num_features = 4
        self.metric = FrechetInceptionDistance(features, normalize=True, input_img_size=(3, size, size)).to(self.device)

    def update(self, real, generated):
        self.metric.update(real.to(torch.float32), real=True)
        self.metric.update(generated, real=False)

    def compute(self):
        return self.metric.compute().item()

class MeanColor:
    name = "mean_color"

    def __init__(self, device=None):
        self.metric = MeanMetric().to(best_available_device(device))

    def update(self, real, generated):
        self.metric.update(generated.mean().item())

    def compute(self):
        return self.metric.compute().item()
# --- task.py
from metrics import FidMetric, MeanColor

REGISTRY = {metric.name: metric for metric in (FidMetric, MeanColor)}

def get_metric(name, **options):
    return REGISTRY[name](**options)

class Task:
    def __init__(self, names, options, device=None):
        self.metrics = [get_metric(name, **options.get(name, {})) for name in names]
# --- agent.py
import torch
from torch import nn

class Generator(nn.Module):
    def __init__(self, latent, size):
        super().__init__()
        self.latent, self.size = latent, size
        self.net = nn.Sequential(nn.Linear(latent, 3 * size * size), nn.Sigmoid())

    def forward(self, z):
        return self.net(z).unflatten(1, (3, self.size, self.size))

class EvaluationAgent:
    def __init__(self, task, device):
        self.task, self.device = task, device

    @torch.no_grad()
    def evaluate(self, model, batches):
        seeded = torch.Generator().manual_seed(3)
        for _ in range(batches):
            real = torch.rand(8, 3, model.size, model.size, generator=seeded).to(self.device)
            generated = model(torch.randn(8, model.latent, generator=seeded).to(self.device))
            for metric in self.task.metrics:
                metric.update(real, generated)
        return {metric.name: metric.compute() for metric in self.task.metrics}

# === parameters_report_host
# thread: https://github.com/vllm-project/vllm-omni/pull/6125
# about: an encoder is asked where its weights are and answers truly; when it is called a moment later, a hook has taken them to the GPU
# operation: embedding|index_select on cuda:0, cpu
# operands: .*weight.*|.*, .*input_ids.*|input|.*
# category: input-not-moved
# line: pipeline.py: device = next(self.text_encoder.parameters()).device
# line: pipeline.py: tokens = torch.tensor(prompts, device=device)
# line: pipeline.py: states = self.text_encoder(input_ids=tokens
# line: offload.py: module.to(self.device)
# repair: pipeline.py: device = next(self.text_encoder.parameters()).device -> device = self.device
import torch
from transformers import CLIPTextConfig, CLIPTextModel

from offload import ModelOffloader
from pipeline import Pipeline
from unet import UNet

torch.manual_seed(0)
config = CLIPTextConfig(
    vocab_size=30, hidden_size=12, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=10,
    bos_token_id=0, eos_token_id=1, pad_token_id=1,
)
pipe = Pipeline(CLIPTextModel(config).eval(), UNet(channels=4, width=12).eval(), device=torch.device("cuda:0"))
ModelOffloader(pipe.device).offload(pipe.text_encoder, pipe.unet)
for seed in range(2):
    latents = pipe([[0, 7 + seed, 19, 4, 1]], [[0, 1, 1, 1, 1]], steps=2, generator=torch.Generator().manual_seed(seed))
    print("latents", [round(value, 4) for value in latents.mean((0, 2, 3)).tolist()])
# --- offload.py
class ModelOffloader:
    """Of several models, one is on the GPU: the one that was called last."""

    def __init__(self, device):
        self.device, self.models = device, []

    def offload(self, *models):
        self.models = list(models)
        for model in models:
            model.to("cpu")
            model.register_forward_pre_hook(self.onload)

    def onload(self, module, args):
        for other in self.models:
            if other is not module:
                other.to("cpu")
        module.to(self.device)
# --- unet.py
import torch
from torch import nn

class UNet(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.channels = channels
        self.x_in, self.out = nn.Conv2d(channels, width, 3, padding=1), nn.Conv2d(width, channels, 3, padding=1)
        self.attend = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, x, states):
        x = torch.nn.functional.silu(self.x_in(x))
        flat = x.flatten(2).transpose(1, 2)
        flat = flat + self.attend(flat, states, states, need_weights=False)[0]
        return self.out(flat.transpose(1, 2).reshape(x.shape))
# --- pipeline.py
import torch

class Pipeline:
    def __init__(self, text_encoder, unet, device):
        self.text_encoder, self.unet, self.device = text_encoder, unet, device

    def encode_prompt(self, prompts):
        device = next(self.text_encoder.parameters()).device
        tokens = torch.tensor(prompts, device=device)
        states = self.text_encoder(input_ids=tokens, output_hidden_states=True).hidden_states[-2]
        return states.to(self.device)

    @torch.no_grad()
    def __call__(self, prompts, negative, steps, generator, scale=4.0):
        states = torch.cat([self.encode_prompt(negative), self.encode_prompt(prompts)])
        latents = torch.randn(len(prompts), self.unet.channels, 4, 4, generator=generator).to(self.device)
        for _ in range(steps):
            empty, given = self.unet(torch.cat([latents, latents]), states).chunk(2)
            latents = latents - (empty + scale * (given - empty)) / steps
        return latents

# === remembered_device
# thread: https://github.com/huggingface/sentence-transformers/issues/2694
# about: what embeds texts says at each call where to do it, as was decided when it was made; the model had been moved to where the index is
# operation: mm|matmul on cuda:0, cuda:1
# operands: .*
# category: cached-state|default-or-current-device|input-not-moved
# line: embedder.py: device=self.device
# line: embedder.py: self.model.to(device)
# line: embedder.py: self.device = torch.device(
# line: index.py: scores = cos_sim(
# line: main.py: embedder = Embedder(
# repair: embedder.py: return self.model.encode(texts, convert_to_tensor=True, device=self.device, show_progress_bar=False) -> return self.model.encode(texts, convert_to_tensor=True, device=self.model.device, show_progress_bar=False)
import torch
from sentence_transformers import SentenceTransformer

from embedder import Embedder
from hashing import HashedWords
from index import Index

torch.manual_seed(0)
embedder = Embedder(SentenceTransformer(modules=[HashedWords(buckets=50, width=8)], device="cpu")).to("cuda:1")
texts = ["the cat sat on the mat", "a dog ran after the cat", "rain falls on the hills"]
vectors = torch.nn.functional.normalize(torch.randn(len(texts), 8, generator=torch.Generator().manual_seed(3)), dim=-1)
index = Index(texts, vectors, device="cuda:1")
print("found", index.search(embedder, ["where is the cat", "what falls on hills"], count=2))
# --- hashing.py
import zlib

import torch
from torch import nn

class HashedWords(nn.Module):
    """The mean of vectors of words, which are found by their checksums."""

    def __init__(self, buckets, width):
        super().__init__()
        self.vectors, self.width = nn.EmbeddingBag(buckets, width, mode="mean", padding_idx=0), width

    def tokenize(self, texts, **options):
        rows = [[1 + zlib.crc32(word.encode()) % (self.vectors.num_embeddings - 1) for word in str(text).split()] for text in texts]
        longest = max(map(len, rows))
        return {"input_ids": torch.tensor([row + [0] * (longest - len(row)) for row in rows])}

    preprocess = tokenize

    def get_embedding_dimension(self):
        return self.width

    def forward(self, features, **options):
        return {**features, "sentence_embedding": self.vectors(features["input_ids"])}
# --- embedder.py
import torch

class Embedder:
    def __init__(self, model, device=None):
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.model = model.eval()

    def to(self, device):
        self.model.to(device)
        return self

    def embed(self, texts):
        return self.model.encode(texts, convert_to_tensor=True, device=self.device, show_progress_bar=False)
# --- index.py
from sentence_transformers.util import cos_sim

class Index:
    def __init__(self, texts, vectors, device):
        self.texts, self.vectors = texts, vectors.to(device)

    def search(self, embedder, queries, count):
        scores = cos_sim(embedder.embed(queries), self.vectors)
        best = scores.topk(count, dim=-1)
        return [[(self.texts[i].split()[1], round(score, 3)) for i, score in zip(*row)] for row in zip(best.indices.tolist(), best.values.tolist())]
