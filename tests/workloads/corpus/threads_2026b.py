# === helios_block_noise
# thread: https://github.com/huggingface/diffusers/pull/13228
# about: one helper goes by the generator's device, the other one by the pipeline's; the first noise of every run comes from the helper that does it right
# operation: randn|normal on cuda:0, cpu
# operands: generator
# category: generator
# error: Expected a 'cuda' device type for generator but found 'cpu'
# line: pipeline.py: z = torch.randn(
# line: pipeline.py: noise = self.sample_block_noise(
# line: main.py: generator = torch.Generator(
# repair: pipeline.py: z = torch.randn(block_number, block_size, device=device, generator=generator) -> z = torch.randn(block_number, block_size, device=generator.device, generator=generator).to(device)
import torch

from pipeline import FlowScheduler, HeliosPyramidPipeline, HeliosTransformer

torch.manual_seed(13228)
pipe = HeliosPyramidPipeline(HeliosTransformer(channels=4, width=8), FlowScheduler(gamma=0.25)).to("cuda")
prompt_embeds = torch.rand(2, 8).to("cuda")
generator = torch.Generator("cpu").manual_seed(42)
latents = pipe(prompt_embeds, height=8, width=8, num_stages=2, num_inference_steps=3, generator=generator)
print("latents", tuple(latents.shape), round(latents.abs().mean().item(), 4))
# --- pipeline.py
import torch
from torch import nn


def randn_tensor(shape, generator=None, device=None):
    """Noise from a generator that may be on another device than the noise is wanted on."""
    rand_device = generator.device if generator is not None else device
    return torch.randn(shape, generator=generator, device=rand_device).to(device)


class FlowScheduler:
    def __init__(self, gamma):
        self.gamma = gamma

    def set_timesteps(self, steps, device):
        self.sigmas = torch.linspace(1, 0, steps + 1, device=device)

    def step(self, noise_pred, index, latents):
        return latents + (self.sigmas[index + 1] - self.sigmas[index]) * noise_pred


class HeliosTransformer(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.proj_in, self.proj_out = nn.Conv2d(channels, width, 3, padding=1), nn.Conv2d(width, channels, 1)

    def forward(self, latents, sigma, prompt_embeds):
        hidden_states = self.proj_in(latents) + prompt_embeds[:, :, None, None] * sigma
        return self.proj_out(torch.tanh(hidden_states))


class HeliosPyramidPipeline:
    def __init__(self, transformer, scheduler):
        self.transformer, self.scheduler = transformer, scheduler

    def to(self, device):
        self.transformer.to(device)
        return self

    @property
    def device(self):
        return next(self.transformer.parameters()).device

    def prepare_latents(self, batch_size, height, width, device, generator):
        return randn_tensor((batch_size, self.transformer.proj_in.in_channels, height, width), generator=generator, device=device)

    def sample_block_noise(self, batch_size, channels, height, width, patch_size=(2, 2), device=None, generator=None):
        """Noise whose entries are alike within a block."""
        ph, pw = patch_size
        block_size, gamma = ph * pw, self.scheduler.gamma
        mix = torch.eye(block_size, device=device) * (1 + gamma) - torch.ones(block_size, block_size, device=device) * gamma
        block_number = batch_size * channels * (height // ph) * (width // pw)
        z = torch.randn(block_number, block_size, device=device, generator=generator)
        noise = (z @ mix).view(batch_size, channels, height // ph, width // pw, ph, pw)
        return noise.permute(0, 1, 2, 4, 3, 5).reshape(batch_size, channels, height, width)

    def stage_sample(self, latents, prompt_embeds, num_inference_steps):
        self.scheduler.set_timesteps(num_inference_steps, latents.device)
        for i in range(num_inference_steps):
            noise_pred = self.transformer(latents, self.scheduler.sigmas[i], prompt_embeds)
            latents = self.scheduler.step(noise_pred, i, latents)
        return latents

    @torch.no_grad()
    def __call__(self, prompt_embeds, height, width, num_stages, num_inference_steps, generator=None):
        device, batch_size = self.device, len(prompt_embeds)
        scale = 2 ** (num_stages - 1)
        latents = self.prepare_latents(batch_size, height // scale, width // scale, device, generator)
        for i_s in range(num_stages):
            if i_s > 0:
                latents = nn.functional.interpolate(latents, scale_factor=2, mode="nearest")
                alpha, beta = 1 / (1 + self.scheduler.gamma), self.scheduler.gamma**0.5
                noise = self.sample_block_noise(*latents.shape, device=device, generator=generator)
                latents = alpha * latents + beta * noise
            latents = self.stage_sample(latents, prompt_embeds, num_inference_steps)
        return latents

# === denoiser_left
# thread: https://github.com/vladmandic/sdnext/issues/5018
# about: one part of the pipeline was on the GPU before it was put together; its device is taken for that of the whole
# operation: addmm|mm|linear on cuda:0, cpu
# operands: sample|input|mat1|temb|timestep, time_embedding.weight|time_embedding.bias|weight|bias
# category: module-split
# line: sd_models.py: if pipe.device == device:
# line: sd_models.py: move_model(pipe
# line: sd_models.py: pipe = StableDiffusionXLPipeline(
# line: diffusion.py: return next((
# repair: sd_models.py: if pipe.device == device: -> if all(module_device(module) == device for module in pipe.components.values()):
import torch

import sd_models
from processing import process_images

torch.manual_seed(5018)
options = sd_models.Options(checkpoint="sd_xl_base", vae="fp16-fix", offload_mode="none", device=torch.device("cuda", 0))
pipe = sd_models.load_diffuser(options)
images = process_images(pipe, [[3, 1, 4, 1], [5, 9, 2, 6]], steps=4, options=options)
print("images", [round(image.mean().item(), 4) for image in images])
# --- diffusion.py
import torch
from torch import nn


def module_device(module):
    return next(module.parameters()).device


class AutoencoderKL(nn.Module):
    def __init__(self, latent_channels=4):
        super().__init__()
        self.decoder = nn.Linear(latent_channels, 3)

    def decode(self, latents):
        return torch.sigmoid(self.decoder(latents))


class CLIPTextModel(nn.Module):
    def __init__(self, vocabulary=16, width=8):
        super().__init__()
        self.token_embedding, self.final = nn.Embedding(vocabulary, width), nn.Linear(width, width)

    def forward(self, ids):
        return self.final(self.token_embedding(ids)).mean(1, keepdim=True)


class UNet2DConditionModel(nn.Module):
    def __init__(self, channels=4, width=8):
        super().__init__()
        self.time_embedding = nn.Linear(2, width)
        self.conv_in, self.conv_out = nn.Linear(channels, width), nn.Linear(width, channels)

    def forward(self, sample, timestep, encoder_hidden_states):
        emb = self.time_embedding(torch.stack([timestep.sin(), timestep.cos()])[None])
        return self.conv_out(torch.tanh(self.conv_in(sample) + emb + encoder_hidden_states))


class StableDiffusionXLPipeline:
    def __init__(self, **components):
        self.components = components
        for name, module in components.items():
            setattr(self, name, module)

    @property
    def device(self):
        """That of the first part that is not on the CPU."""
        devices = [module_device(module) for module in self.components.values()]
        return next((device for device in devices if device.type != "cpu"), devices[0])

    def to(self, device):
        for module in self.components.values():
            module.to(device)
        return self

    @torch.no_grad()
    def __call__(self, prompt_embeds, num_inference_steps):
        device = self.device
        latents = torch.linspace(-1, 1, len(prompt_embeds) * 6 * 4).view(-1, 6, 4).to(device)
        for timestep in torch.linspace(1, 0.1, num_inference_steps, device=device):
            latents = latents - 0.3 * self.unet(latents, timestep, prompt_embeds)
        return self.vae.decode(latents)
# --- sd_models.py
import dataclasses

import torch

from diffusion import AutoencoderKL, CLIPTextModel, StableDiffusionXLPipeline, UNet2DConditionModel, module_device


@dataclasses.dataclass
class Options:
    checkpoint: str
    vae: str
    offload_mode: str
    device: torch.device


def load_vae(options):
    """A VAE of its own is used by several checkpoints, and loaded before them."""
    return AutoencoderKL().to(options.device)


def set_diffuser_offload(pipe, options):
    if options.offload_mode == "none":
        move_model(pipe, options.device)


def move_model(pipe, device):
    if pipe.device == device:
        return
    pipe.to(device)


def load_diffuser(options):
    vae = load_vae(options) if options.vae else AutoencoderKL()
    pipe = StableDiffusionXLPipeline(vae=vae, text_encoder=CLIPTextModel(), unet=UNet2DConditionModel())
    set_diffuser_offload(pipe, options)
    return pipe
# --- processing.py
import torch


class PromptEmbedder:
    def __init__(self, pipe, options):
        self.text_encoder = pipe.text_encoder.to(options.device)
        self.device = options.device

    @torch.no_grad()
    def encode(self, ids):
        return self.text_encoder(torch.tensor(ids).to(self.device))


def process_images(pipe, ids, steps, options):
    prompt_embeds = PromptEmbedder(pipe, options).encode(ids)
    return list(pipe(prompt_embeds, num_inference_steps=steps))

# === rpb_coords
# thread: https://github.com/facebookresearch/sam3/pull/188
# about: the model is to run on the CPU; coordinates of the size that is usual are made beforehand, where a device is written
# operation: sub on cuda:0, cpu
# operands: coords_h, boxes_xyxy
# category: default-or-current-device|cached-state
# line: decoder.py: coords_h, coords_w = self._get_coords(feat_size
# line: decoder.py: coords_h, coords_w = self.compilable_cord_cache
# line: decoder.py: deltas_y = coords_h
# repair: decoder.py: coords_h, coords_w = self._get_coords(feat_size, feat_size, device="cuda") -> coords_h, coords_w = self._get_coords(feat_size, feat_size, device=self.query_embed.weight.device)
import torch

from model_builder import build_sam3_image_model

torch.manual_seed(188)
model = build_sam3_image_model(device="cpu", resolution=24, stride=4)
with torch.inference_mode():
    outputs = model(torch.rand(2, 3, 24, 24))
print("boxes", [round(value, 4) for value in outputs["pred_boxes"].mean((0, 1)).tolist()])
# --- model_builder.py
import torch
from torch import nn

from decoder import TransformerDecoder


class Sam3Image(nn.Module):
    def __init__(self, backbone, decoder):
        super().__init__()
        self.backbone, self.decoder = backbone, decoder

    def forward(self, images):
        memory = self.backbone(images)
        feat_size = tuple(memory.shape[-2:])
        hs, reference_boxes = self.decoder(memory.flatten(2).transpose(1, 2), feat_size)
        return {"queries": hs, "pred_boxes": reference_boxes.transpose(0, 1)}


def build_sam3_image_model(device, resolution, stride):
    backbone = nn.Conv2d(3, 8, stride, stride=stride)
    decoder = TransformerDecoder(d_model=8, num_layers=2, num_queries=5, nheads=2, resolution=resolution, stride=stride)
    return Sam3Image(backbone, decoder).to(device).eval()
# --- decoder.py
import torch
from torch import nn


def box_cxcywh_to_xyxy(boxes):
    cx, cy, w, h = boxes.unbind(-1)
    return torch.stack([cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h], dim=-1)


class DecoderLayer(nn.Module):
    def __init__(self, d_model, nheads):
        super().__init__()
        self.cross_attn_image = nn.MultiheadAttention(d_model, nheads, batch_first=True)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, tgt, memory, cross_attn_mask):
        return self.norm(tgt + self.cross_attn_image(tgt, memory, memory, attn_mask=cross_attn_mask)[0])


class TransformerDecoder(nn.Module):
    def __init__(self, d_model, num_layers, num_queries, nheads, resolution=None, stride=None):
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(d_model, nheads) for _ in range(num_layers))
        self.query_embed, self.reference_points = nn.Embedding(num_queries, d_model), nn.Embedding(num_queries, 4)
        self.bbox_embed = nn.Linear(d_model, 4)
        self.boxRPB_embed_x, self.boxRPB_embed_y = nn.Linear(2, nheads), nn.Linear(2, nheads)
        self.compilable_cord_cache, self.compilable_stored_size, self.coord_cache = None, None, {}
        if resolution is not None and stride is not None:
            feat_size = resolution // stride
            coords_h, coords_w = self._get_coords(feat_size, feat_size, device="cuda")
            self.compilable_cord_cache = coords_h, coords_w
            self.compilable_stored_size = feat_size, feat_size

    @staticmethod
    def _get_coords(H, W, device):
        return torch.arange(0, H, device=device) / H, torch.arange(0, W, device=device) / W

    def _get_rpb_matrix(self, reference_boxes, feat_size):
        H, W = feat_size
        boxes_xyxy = box_cxcywh_to_xyxy(reference_boxes).transpose(0, 1)
        bs, num_queries, _ = boxes_xyxy.shape
        if self.compilable_stored_size == feat_size:
            coords_h, coords_w = self.compilable_cord_cache
        else:
            if feat_size not in self.coord_cache:
                self.coord_cache[feat_size] = self._get_coords(H, W, reference_boxes.device)
            coords_h, coords_w = self.coord_cache[feat_size]
        deltas_y = coords_h.view(1, -1, 1) - boxes_xyxy.reshape(-1, 1, 4)[:, :, 1:4:2]
        deltas_x = coords_w.view(1, -1, 1) - boxes_xyxy.reshape(-1, 1, 4)[:, :, 0:3:2]
        deltas_y = self.boxRPB_embed_y(deltas_y.view(bs, num_queries, H, 2))
        deltas_x = self.boxRPB_embed_x(deltas_x.view(bs, num_queries, W, 2))
        bias = deltas_y.unsqueeze(3) + deltas_x.unsqueeze(2)
        return bias.flatten(2, 3).permute(0, 3, 1, 2).flatten(0, 1)

    def forward(self, memory, feat_size):
        bs = memory.shape[0]
        output = self.query_embed.weight.unsqueeze(0).repeat(bs, 1, 1)
        reference_boxes = self.reference_points.weight.unsqueeze(1).repeat(1, bs, 1).sigmoid()
        for layer in self.layers:
            memory_mask = self._get_rpb_matrix(reference_boxes, feat_size)
            output = layer(output, memory, cross_attn_mask=memory_mask)
            delta = self.bbox_embed(output).transpose(0, 1)
            reference_boxes = (torch.logit(reference_boxes, eps=1e-3) + delta).sigmoid()
        return output, reference_boxes

# === smolvlm_merger
# thread: https://github.com/huggingface/transformers/pull/38557
# about: places in the text, counted where the text is, are looked up in what the images gave on the other GPU
# operation: index on cuda:1, cuda:0
# operands: image_hidden_states|self, block_idx|local_idx
# category: module-split
# line: smolvlm.py: image_hidden_states = self.get_image_features(
# line: smolvlm.py: inputs_embeds = self.inputs_merger(
# line: smolvlm.py: image_embeds[image_mask] =
# line: smolvlm.py: return self.connector(
# repair: smolvlm.py: image_hidden_states = self.get_image_features(pixel_values) -> image_hidden_states = self.get_image_features(pixel_values).to(input_ids.device)
import torch
from accelerate import dispatch_model

from smolvlm import SmolVLMConfig, SmolVLMForConditionalGeneration

IMAGE = 3


def processor(texts):
    """Every image is as many tokens of one kind as it has patches."""
    ids = [[token for word in text for token in ([IMAGE] * 4 if word == "<image>" else [word])] for text in texts]
    longest = max(map(len, ids))
    return torch.tensor([[0] * (longest - len(row)) + row for row in ids])


torch.manual_seed(38557)
config = SmolVLMConfig(vocab_size=20, hidden_size=8, image_token_id=IMAGE, patch=4)
model = SmolVLMForConditionalGeneration(config).eval()
model = dispatch_model(model, {"model.text_model": 0, "lm_head": 0, "model.vision_model": 1, "model.connector": 1})
input_ids = processor([[5, "<image>", 7, "<image>", 9], ["<image>", 11, 12]]).to("cuda:0")
pixel_values = torch.rand(3, 3, 8, 8)
with torch.no_grad():
    logits = model(input_ids=input_ids, pixel_values=pixel_values.to("cuda:0"))
print("logits", round(logits.float().abs().sum().item(), 3), logits.argmax(-1)[:, -1].tolist())
# --- smolvlm.py
import dataclasses

import torch
from torch import nn


@dataclasses.dataclass
class SmolVLMConfig:
    vocab_size: int
    hidden_size: int
    image_token_id: int
    patch: int


class SmolVLMVisionTransformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.patch_embedding = nn.Conv2d(3, config.hidden_size, config.patch, stride=config.patch)
        self.post_layernorm = nn.LayerNorm(config.hidden_size)

    def forward(self, pixel_values):
        return self.post_layernorm(self.patch_embedding(pixel_values).flatten(2).transpose(1, 2))


class SmolVLMTextModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(nn.Linear(config.hidden_size, config.hidden_size) for _ in range(2))

    def forward(self, inputs_embeds):
        for layer in self.layers:
            inputs_embeds = inputs_embeds + torch.tanh(layer(inputs_embeds))
        return inputs_embeds


class SmolVLMModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.vision_model, self.text_model = SmolVLMVisionTransformer(config), SmolVLMTextModel(config)
        self.connector = nn.Linear(config.hidden_size, config.hidden_size)

    def get_image_features(self, pixel_values):
        return self.connector(self.vision_model(pixel_values))

    def inputs_merger(self, input_ids, inputs_embeds, image_hidden_states):
        _, patch_size, _ = image_hidden_states.shape
        image_mask = input_ids == self.config.image_token_id
        blocks_per_sample = image_mask.sum(dim=1) // patch_size
        block_offset = nn.functional.pad(blocks_per_sample.cumsum(dim=0), (1, 0), value=0)[:-1]
        row_cum = image_mask.cumsum(dim=-1)
        chunk_idx, local_idx = (row_cum - 1) // patch_size, (row_cum - 1) % patch_size
        block_idx = block_offset.unsqueeze(1) + chunk_idx
        image_embeds = torch.zeros_like(inputs_embeds)
        image_embeds[image_mask] = image_hidden_states[block_idx[image_mask], local_idx[image_mask], :]
        return torch.where(image_mask.unsqueeze(-1), image_embeds, inputs_embeds)

    def forward(self, input_ids, pixel_values=None, image_hidden_states=None):
        inputs_embeds = self.text_model.embed_tokens(input_ids)
        if pixel_values is not None:
            image_hidden_states = self.get_image_features(pixel_values)
        if image_hidden_states is not None:
            inputs_embeds = self.inputs_merger(input_ids, inputs_embeds, image_hidden_states)
        return self.text_model(inputs_embeds)


class SmolVLMForConditionalGeneration(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model, self.lm_head = SmolVLMModel(config), nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids, **kwargs):
        return self.lm_head(self.model(input_ids=input_ids, **kwargs))

# === threaded_trainer
# thread: https://github.com/Unity-Technologies/ml-agents/pull/6245
# about: the default device is one of the thread that set it; the trainer runs in another one, where arrays become tensors of the CPU
# operation: addmm|mm|linear on cuda:0, cpu
# operands: inputs|vector_obs|input|mat1, weight|bias|mat2
# category: default-or-current-device|created-without-device
# line: torch_utils.py: return torch.as_tensor(
# line: trainer.py: current_obs = ModelUtils.list_to_tensor(
# repair: torch_utils.py: return torch.as_tensor(np.asanyarray(ndarray_list), dtype=dtype) -> return torch.as_tensor(np.asanyarray(ndarray_list), dtype=dtype, device=default_device())
import numpy as np
import torch

from controller import TrainerController
from networks import ValueNetwork
from torch_utils import set_torch_config
from trainer import PPOTrainer, Trajectory


def episodes(rng, number, length):
    for _ in range(number):
        obs = rng.random((length, 4), dtype=np.float32)
        yield Trajectory(obs=list(obs), rewards=[float(row[0] - row[1]) for row in obs])


torch.manual_seed(6245)
set_torch_config("cuda")
trainer = PPOTrainer(ValueNetwork(observation_size=4, hidden_units=8), learning_rate=0.01)
for trajectory in episodes(np.random.default_rng(6245), number=6, length=5):
    trainer.trajectory_queue.append(trajectory)
stats = TrainerController([trainer], threaded=True).start_learning()
print("value loss", [round(each, 4) for each in stats])
# --- torch_utils.py
import numpy as np
import torch

_device = torch.device("cpu")


def set_torch_config(torch_device):
    global _device
    _device = torch.device(torch_device)
    torch.set_default_device(_device)


def default_device():
    return _device


class ModelUtils:
    @staticmethod
    def list_to_tensor(ndarray_list, dtype=torch.float32):
        """One tensor of a list of arrays, which is slow without NumPy."""
        return torch.as_tensor(np.asanyarray(ndarray_list), dtype=dtype)
# --- networks.py
import torch
from torch import nn


class LinearEncoder(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.seq_layers = nn.Sequential(nn.Linear(input_size, hidden_size), nn.SiLU(), nn.Linear(hidden_size, hidden_size), nn.SiLU())

    def forward(self, inputs):
        return self.seq_layers(inputs)


class ValueNetwork(nn.Module):
    def __init__(self, observation_size, hidden_units):
        super().__init__()
        self.network_body, self.value_heads = LinearEncoder(observation_size, hidden_units), nn.Linear(hidden_units, 1)

    def critic_pass(self, inputs):
        return self.value_heads(self.network_body(inputs)).squeeze(-1)
# --- trainer.py
import collections
import dataclasses

import torch

from torch_utils import ModelUtils


@dataclasses.dataclass
class Trajectory:
    obs: list
    rewards: list


def discount_rewards(rewards, gamma=0.9):
    total, returns = 0.0, []
    for reward in reversed(rewards):
        total = reward + gamma * total
        returns.append(total)
    return returns[::-1]


class TorchPPOOptimizer:
    def __init__(self, critic, learning_rate):
        self.critic = critic
        self.optimizer = torch.optim.Adam(critic.parameters(), lr=learning_rate)

    def get_trajectory_value_estimates(self, trajectory):
        current_obs = ModelUtils.list_to_tensor(trajectory.obs)
        return self.critic.critic_pass(current_obs)

    def update(self, values, returns):
        loss = torch.nn.functional.mse_loss(values, ModelUtils.list_to_tensor(returns))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


class PPOTrainer:
    def __init__(self, critic, learning_rate):
        self.optimizer = TorchPPOOptimizer(critic, learning_rate)
        self.trajectory_queue, self.stats = collections.deque(), []

    def _process_trajectory(self, trajectory):
        values = self.optimizer.get_trajectory_value_estimates(trajectory)
        self.stats.append(self.optimizer.update(values, discount_rewards(trajectory.rewards)))

    def advance(self):
        self._process_trajectory(self.trajectory_queue.popleft())
# --- controller.py
import threading


class TrainerThread(threading.Thread):
    error = None

    def run(self):
        try:
            super().run()
        except RuntimeError as error:
            self.error = error


class TrainerController:
    def __init__(self, trainers, threaded):
        self.trainers, self.threaded = trainers, threaded

    def trainer_update_func(self, trainer):
        while trainer.trajectory_queue:
            trainer.advance()

    def start_learning(self):
        threads = [TrainerThread(target=self.trainer_update_func, args=(trainer,)) for trainer in self.trainers if self.threaded]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
            if thread.error:
                raise thread.error
        if not self.threaded:
            for trainer in self.trainers:
                self.trainer_update_func(trainer)
        return [value for trainer in self.trainers for value in trainer.stats]

# === gaussian_illumination
# thread: https://github.com/kornia/kornia/pull/3457
# about: what an augmentation draws is drawn on the CPU on purpose, and handed on in a dict; the transformation has to bring it to the image
# operation: add on cuda:0, cpu
# operands: input|self, gradient|params\['gradient'\]|params\["gradient"\]|other
# category: created-without-device|default-or-current-device|input-not-moved
# line: illumination.py: return input.add_(
# line: base.py: params = self.forward_parameters(
# line: base.py: self.set_rng_device_and_dtype(
# line: generators.py: gradient =
# repair: illumination.py: return input.add_(params["gradient"]).clamp_(0, 1) -> return input.add_(params["gradient"].to(input.device, input.dtype)).clamp_(0, 1)
import torch
from torch import nn

from base import AugmentationSequential
from illumination import RandomBrightness, RandomGaussianIllumination

torch.manual_seed(3457)
device = torch.device("cuda")
augment = AugmentationSequential(RandomBrightness((0.8, 1.2)), RandomGaussianIllumination(gain=(0.01, 0.15), sigma=(0.2, 1.0)))
model = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5)).to(device)
images, labels = torch.rand(4, 3, 12, 10), torch.tensor([0, 3, 1, 4])
for epoch in range(2):
    augmented = augment(images.to(device))
    loss = nn.functional.cross_entropy(model(augmented), labels.to(device))
print("loss", round(loss.item(), 4), "mean", round(augmented.mean().item(), 4))
# --- base.py
import torch
from torch import nn


class RandomGeneratorBase(nn.Module):
    """Draws the parameters of a batch; on which device, the augmentation says."""

    def set_rng_device_and_dtype(self, device, dtype):
        self.device, self.dtype = device, dtype
        self.make_samplers(device, dtype)


class IntensityAugmentationBase2D(nn.Module):
    def __init__(self, generator):
        super().__init__()
        self._param_generator = generator
        self.set_rng_device_and_dtype(torch.device("cpu"), torch.get_default_dtype())

    def set_rng_device_and_dtype(self, device, dtype):
        self._param_generator.set_rng_device_and_dtype(device, dtype)

    def forward_parameters(self, batch_shape):
        return self._param_generator(batch_shape)

    def forward(self, input):
        params = self.forward_parameters(input.shape)
        return self.apply_transform(input.clone(), params)


class AugmentationSequential(nn.Sequential):
    def forward(self, input):
        for module in self:
            input = module(input)
        return input
# --- generators.py
import torch
from torch.distributions import Uniform

from base import RandomGeneratorBase


class FactorGenerator(RandomGeneratorBase):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def make_samplers(self, device, dtype):
        self.factor_sampler = Uniform(*torch.tensor(self.factor, device=device, dtype=dtype))

    def forward(self, batch_shape):
        return {"factor": self.factor_sampler.sample(batch_shape[:1]).tolist()}


class GaussianIlluminationGenerator(RandomGeneratorBase):
    def __init__(self, gain, center, sigma):
        super().__init__()
        self.ranges = gain, center, sigma

    def make_samplers(self, device, dtype):
        self.samplers = [Uniform(*torch.tensor(limits, device=device, dtype=dtype)) for limits in self.ranges]

    def forward(self, batch_shape):
        batch_size, channels, height, width = batch_shape
        gain, center, sigma = (sampler.sample((batch_size, 1, 1, 1)) for sampler in self.samplers)
        y = torch.linspace(0, 1, height, device=self.device, dtype=self.dtype).view(1, 1, -1, 1)
        x = torch.linspace(0, 1, width, device=self.device, dtype=self.dtype).view(1, 1, 1, -1)
        distance = (y - center) ** 2 + (x - center) ** 2
        gradient = (gain * torch.exp(-distance / (2 * sigma**2))).expand(-1, channels, -1, -1)
        return {"gradient": gradient}
# --- illumination.py
from base import IntensityAugmentationBase2D
from generators import FactorGenerator, GaussianIlluminationGenerator


class RandomBrightness(IntensityAugmentationBase2D):
    def __init__(self, brightness):
        super().__init__(FactorGenerator(brightness))

    def apply_transform(self, input, params):
        for image, factor in zip(input, params["factor"]):
            image.mul_(factor)
        return input.clamp_(0, 1)


class RandomGaussianIllumination(IntensityAugmentationBase2D):
    def __init__(self, gain, sigma, center=(0.1, 0.9)):
        super().__init__(GaussianIlluminationGenerator(gain, center, sigma))

    def apply_transform(self, input, params):
        return input.add_(params["gradient"]).clamp_(0, 1)

# === metric_reset
# thread: https://github.com/Lightning-AI/torchmetrics/pull/3316
# about: made on the GPU by a context of PyTorch's, which the metric knows nothing of; the first epoch goes well, then it is reset
# operation: add on cpu, cuda:0
# operands: tp|self, tp
# category: default-or-current-device|cached-state|state-not-registered
# line: metric.py: self._device = torch.device("cpu")
# line: metric.py: setattr(self, attr, default.detach()
# line: accuracy.py: self.tp += tp
# line: evaluation.py: self.metric = MulticlassAccuracy(
# repair: metric.py: self._device = torch.device("cpu") -> self._device = torch.get_default_device()
import torch
from torch import nn

from evaluation import Evaluator

torch.manual_seed(3316)
device = torch.device("cuda")
with device:
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    evaluator = Evaluator(model, num_classes=3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
data = torch.randn(5, 8, 6)
batches = [(x.to(device), x[:, :3].argmax(1).to(device)) for x in data]
history = []
for epoch in range(3):
    for x, y in batches[:3]:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    history.append(evaluator.run(batches[3:]))
print("accuracy", [round(value, 4) for value in history])
# --- metric.py
import copy

import torch
from torch import nn


class Metric(nn.Module):
    """States are attributes that are set back to what they were added with."""

    def __init__(self):
        super().__init__()
        self._device = torch.device("cpu")
        self._defaults, self._update_count = {}, 0

    @property
    def device(self):
        return self._device

    def add_state(self, name, default):
        setattr(self, name, default)
        self._defaults[name] = copy.deepcopy(default)

    def reset(self):
        self._update_count = 0
        for attr, default in self._defaults.items():
            setattr(self, attr, default.detach().clone().to(self._device))

    def _apply(self, fn):
        this = super()._apply(fn)
        for name in self._defaults:
            setattr(this, name, fn(getattr(this, name)))
        this._device = fn(torch.zeros(1, device=self.device)).device
        return this

    def forward(self, *args):
        self._update_count += 1
        self.update(*args)
# --- accuracy.py
import torch

from metric import Metric


class MulticlassAccuracy(Metric):
    def __init__(self, num_classes):
        super().__init__()
        self.num_classes = num_classes
        self.add_state("tp", torch.zeros(num_classes, dtype=torch.long))
        self.add_state("total", torch.zeros(num_classes, dtype=torch.long))

    def update(self, preds, target):
        hit = preds.argmax(-1) == target
        tp = torch.bincount(target[hit], minlength=self.num_classes)
        self.tp += tp
        self.total += torch.bincount(target, minlength=self.num_classes)

    def compute(self):
        return (self.tp / self.total.clamp(min=1)).mean()
# --- evaluation.py
import torch

from accuracy import MulticlassAccuracy


class Evaluator:
    def __init__(self, model, num_classes):
        self.model = model
        self.metric = MulticlassAccuracy(num_classes)

    @torch.no_grad()
    def run(self, batches):
        for x, y in batches:
            self.metric(self.model(x), y)
        value = self.metric.compute()
        self.metric.reset()
        return value.item()

# === mrope_deltas
# thread: https://github.com/NVIDIA/TensorRT-LLM/pull/16537
# about: which entries of the nested dict are moved is a list of paths that each model has; this one's is shorter than its parent's
# operation: index_copy on cuda:0, cpu
# operands: mrope_position_deltas_cache|self, deltas|source
# category: input-not-moved
# line: models.py: return ["image.pixel_values", "multimodal_embedding"]
# line: models.py: self.mrope_position_deltas_cache.index_copy_(
# line: models.py: deltas = torch.cat(
# line: engine.py: params.to_device(
# repair: models.py: return ["image.pixel_values", "multimodal_embedding"] -> return ["image.pixel_values", "multimodal_embedding", "mrope_config.mrope_position_ids", "mrope_config.mrope_position_deltas"]
import torch

from engine import PyTorchModelEngine, Request
from models import MODELS

torch.manual_seed(16537)
config = {"architecture": "Qwen3_5ForConditionalGeneration", "language_model_only": False, "hidden_size": 8, "vocab_size": 20}
engine = PyTorchModelEngine(MODELS, config, device="cuda:0", max_num_requests=4)
logits = engine.forward([Request(slot=2, prompt=[4, 8, 15]), Request(slot=0, prompt=[16, 3, 7])])
print("logits", round(logits.sum().item(), 4), engine.model.mrope_position_deltas_cache.flatten().tolist())
# --- multimodal.py
import dataclasses

import torch


def moved(element, device):
    if isinstance(element, torch.Tensor):
        return element.to(device)
    if isinstance(element, dict):
        return {key: moved(value, device) for key, value in element.items()}
    return [moved(value, device) for value in element] if isinstance(element, list) else element


@dataclasses.dataclass
class MultimodalParams:
    multimodal_data: dict

    def to_device(self, device, target_keywords=None):
        """Moves what the paths, with a dot between their keys, lead to; without any, all."""
        if target_keywords is None:
            self.multimodal_data = moved(self.multimodal_data, device)
            return
        for path in target_keywords:
            *keys, last = path.split(".")
            element = self.multimodal_data
            for key in keys:
                element = element.get(key, {})
            if last in element:
                element[last] = moved(element[last], device)
# --- models.py
import torch
from torch import nn


class Qwen3VLModelBase(nn.Module):
    def __init__(self, config, max_num_requests):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.lm_head = nn.Linear(config["hidden_size"], config["vocab_size"])
        self.register_buffer("mrope_position_deltas_cache", torch.zeros(max_num_requests, 1, dtype=torch.long))

    def prepare_mrope_config(self, multimodal_params, seq_slots):
        deltas = torch.cat([params.multimodal_data["mrope_config"]["mrope_position_deltas"] for params in multimodal_params])
        self.mrope_position_deltas_cache.index_copy_(0, seq_slots, deltas)
        return {"position_deltas": self.mrope_position_deltas_cache[seq_slots]}

    def forward(self, input_ids, multimodal_params, seq_slots):
        mrope_config = self.prepare_mrope_config(multimodal_params, seq_slots)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device) + mrope_config["position_deltas"]
        hidden_states = self.embed_tokens(input_ids) * torch.cos(positions / 10).unsqueeze(-1)
        return self.lm_head(hidden_states[:, -1])


class Qwen3_5VLModel(Qwen3VLModelBase):
    @property
    def multimodal_data_device_paths(self):
        return ["image.pixel_values", "multimodal_embedding", "mrope_config.mrope_position_ids", "mrope_config.mrope_position_deltas"]


class QwenImageBenchModel(Qwen3_5VLModel):
    @property
    def multimodal_data_device_paths(self):
        return ["image.pixel_values", "multimodal_embedding"]


def MODELS(config, max_num_requests):
    is_image_bench = config["language_model_only"] is False
    return (QwenImageBenchModel if is_image_bench else Qwen3_5VLModel)(config, max_num_requests)
# --- engine.py
import dataclasses

import torch

from multimodal import MultimodalParams


@dataclasses.dataclass
class Request:
    slot: int
    prompt: list

    def multimodal_params(self):
        """Text alone has positions as well, without a shift between them and its tokens."""
        positions = torch.arange(len(self.prompt)).expand(3, 1, -1)
        deltas = positions.max().view(1, 1) + 1 - len(self.prompt) + self.slot
        return MultimodalParams({"mrope_config": {"mrope_position_ids": positions, "mrope_position_deltas": deltas}})


class PyTorchModelEngine:
    def __init__(self, build, config, device, max_num_requests):
        self.device = torch.device(device)
        self.model = build(config, max_num_requests).to(self.device)

    def _prepare_inputs(self, requests):
        multimodal_params = [request.multimodal_params() for request in requests]
        for params in multimodal_params:
            params.to_device(self.device, target_keywords=getattr(self.model, "multimodal_data_device_paths", None))
        return {
            "input_ids": torch.tensor([request.prompt for request in requests], device=self.device),
            "seq_slots": torch.tensor([request.slot for request in requests], device=self.device),
            "multimodal_params": multimodal_params,
        }

    @torch.no_grad()
    def forward(self, requests):
        return self.model(**self._prepare_inputs(requests))

# === prior_base_distribution
# thread: https://github.com/cornellius-gp/gpytorch/pull/2779
# about: buffers of the prior move with the model, the distribution that it computes with does not; it fails inside torch.distributions
# operation: sub on cuda:0, cpu
# operands: value, self.loc|loc
# category: state-not-registered|cached-state
# line: priors.py: load_state_dict = synced(
# line: priors.py: return super().log_prob(
# line: priors.py: LogNormal.__init__(
# line: priors.py: _bufferize_attributes(
# repair: priors.py: load_state_dict = synced(nn.Module.load_state_dict) -> load_state_dict, _apply = synced(nn.Module.load_state_dict), synced(nn.Module._apply)
import torch

from gp import ExactGP, ExactMarginalLogLikelihood
from priors import LogNormalPrior

torch.manual_seed(2779)
train_x = torch.rand(10, 2)
train_y = torch.sin(3 * train_x[:, 0]) + train_x[:, 1]
prior = LogNormalPrior(loc=torch.tensor([0.0, 0.5]), scale=torch.tensor([1.0, 0.7]))
model = ExactGP(dimensions=2, lengthscale_prior=prior).to("cuda")
mll = ExactMarginalLogLikelihood(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    loss = -mll(train_x.to("cuda"), train_y.to("cuda"))
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
# --- priors.py
import functools

from torch import nn
from torch.distributions import Distribution, LogNormal

BUFFERED_PREFIX = "_transformed_"


def _bufferize_attributes(prior, attributes):
    """What a distribution is made of, as buffers, so that state_dict has it."""
    for name in attributes:
        prior.register_buffer(BUFFERED_PREFIX + name, getattr(prior.base_dist, name).clone())


def _load_transformed_to_base_dist(prior):
    for name, buffer in prior.named_buffers(recurse=False):
        setattr(prior.base_dist, name.removeprefix(BUFFERED_PREFIX), buffer)


def synced(method):
    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        result = method(self, *args, **kwargs)
        _load_transformed_to_base_dist(self)
        return result

    return wrapper


class Prior(Distribution, nn.Module):
    load_state_dict = synced(nn.Module.load_state_dict)

    def transform(self, x):
        return self._transform(x) if self._transform is not None else x

    def log_prob(self, x):
        return super().log_prob(self.transform(x))


class LogNormalPrior(Prior, LogNormal):
    def __init__(self, loc, scale, transform=None):
        nn.Module.__init__(self)
        LogNormal.__init__(self, loc, scale)
        _bufferize_attributes(self, ("loc", "scale"))
        self._transform = transform
# --- gp.py
import torch
from torch import nn


class RBFKernel(nn.Module):
    def __init__(self, dimensions, lengthscale_prior):
        super().__init__()
        self.raw_lengthscale = nn.Parameter(torch.zeros(dimensions))
        self.lengthscale_prior = lengthscale_prior

    @property
    def lengthscale(self):
        return nn.functional.softplus(self.raw_lengthscale)

    def forward(self, x):
        scaled = x / self.lengthscale
        return torch.exp(-0.5 * (scaled.unsqueeze(0) - scaled.unsqueeze(1)).square().sum(-1))


class ExactGP(nn.Module):
    def __init__(self, dimensions, lengthscale_prior):
        super().__init__()
        self.covar_module = RBFKernel(dimensions, lengthscale_prior)
        self.raw_noise = nn.Parameter(torch.zeros(()))

    def named_priors(self):
        for name, module in self.named_modules():
            if getattr(module, "lengthscale_prior", None) is not None:
                yield f"{name}.lengthscale_prior", module.lengthscale_prior, module.lengthscale

    def forward(self, x):
        return self.covar_module(x) + nn.functional.softplus(self.raw_noise) * torch.eye(len(x), device=x.device)


class ExactMarginalLogLikelihood:
    def __init__(self, model):
        self.model = model

    def add_other_terms(self, res):
        for _, prior, value in self.model.named_priors():
            res = res + prior.log_prob(value).sum()
        return res

    def __call__(self, x, y):
        covariance = self.model(x)
        res = -0.5 * (y @ torch.linalg.solve(covariance, y) + torch.logdet(covariance))
        return self.add_other_terms(res) / len(x)

# === evs_replacement
# thread: https://github.com/vllm-project/vllm/pull/44202
# about: only videos that are pruned come here: the tokens between their frames are embedded apart from the prompt
# operation: embedding|index_select on cpu, cuda:0
# operands: input_|input_ids|repl_token_ids|input|indices|index, weight
# category: created-without-device
# line: qwen3_vl.py: repl_token_ids = torch.tensor(
# line: qwen3_vl.py: text_embeddings = self.language_model.embed_input_ids(
# line: layers.py: output_parallel = nn.functional.embedding(
# repair: qwen3_vl.py: repl_token_ids = torch.tensor(video_repl.full) -> repl_token_ids = torch.tensor(video_repl.full, device=video_embeddings.device)
import torch

from qwen3_vl import Qwen3VLForConditionalGeneration
from runner import GPUModelRunner

torch.manual_seed(44202)
runner = GPUModelRunner(Qwen3VLForConditionalGeneration(vocab_size=40, hidden_size=8, video_pruning_rate=0.5), device="cuda:0")
videos = [torch.rand(3, 2, 2, 6), torch.rand(2, 2, 2, 6)]
embeddings = runner.execute_model(prompt=[1, 2, 30, 5], videos=videos)
print("embeddings", [tuple(each.shape) for each in embeddings], round(sum(each.sum() for each in embeddings).item(), 4))
# --- layers.py
import torch
from torch import nn


class VocabParallelEmbedding(nn.Module):
    def __init__(self, num_embeddings, embedding_dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_embeddings, embedding_dim))

    def forward(self, input_):
        output_parallel = nn.functional.embedding(input_, self.weight)
        return output_parallel


class Qwen3LLMModel(nn.Module):
    def __init__(self, vocab_size, hidden_size):
        super().__init__()
        self.embed_tokens = VocabParallelEmbedding(vocab_size, hidden_size)

    def embed_input_ids(self, input_ids):
        return self.embed_tokens(input_ids)
# --- qwen3_vl.py
import dataclasses

import torch
from torch import nn

from layers import Qwen3LLMModel

VISION_START, VISION_END, VIDEO_PAD = 37, 38, 39


@dataclasses.dataclass
class PromptUpdateDetails:
    full: list
    is_embed: list


def get_video_repl(timestamps, tokens_per_frame):
    """The tokens of a video: of each frame its time, then as many places as are left of it."""
    full = []
    for timestamp, number in zip(timestamps, tokens_per_frame):
        full += [10 + timestamp, VISION_START, *[VIDEO_PAD] * number, VISION_END]
    return PromptUpdateDetails(full, [token == VIDEO_PAD for token in full])


class Qwen3VLForConditionalGeneration(nn.Module):
    def __init__(self, vocab_size, hidden_size, video_pruning_rate):
        super().__init__()
        self.visual = nn.Linear(6, hidden_size)
        self.language_model = Qwen3LLMModel(vocab_size, hidden_size)
        self.video_pruning_rate = video_pruning_rate

    def embed_multimodal(self, videos):
        video_embeds = [self.visual(video) for video in videos]
        if self.video_pruning_rate > 0:
            return [self._postprocess_video_embeds_evs(embeds) for embeds in video_embeds]
        return [embeds.flatten(0, -2) for embeds in video_embeds]

    def _postprocess_video_embeds_evs(self, embeds):
        """Of each frame what differs most from the one before."""
        frames = embeds.flatten(1, 2)
        change = (frames - frames.roll(1, dims=0)).norm(dim=-1)
        kept = change >= change.flatten().quantile(self.video_pruning_rate)
        return self._create_final_video_embeddings(frames[kept], kept.sum(1).tolist(), range(len(frames)))

    def _create_final_video_embeddings(self, video_embeddings, tokens_per_frame, timestamps):
        video_repl = get_video_repl(timestamps, tokens_per_frame)
        repl_token_ids = torch.tensor(video_repl.full)
        text_embeddings = self.language_model.embed_input_ids(repl_token_ids)
        is_video = torch.tensor(video_repl.is_embed, device=video_embeddings.device)
        return text_embeddings.masked_scatter(is_video.unsqueeze(-1), video_embeddings)
# --- runner.py
import torch


class GPUModelRunner:
    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.encoder_cache = {}

    def _execute_mm_encoder(self, videos):
        outputs = self.model.embed_multimodal([video.to(self.device) for video in videos])
        self.encoder_cache.update(enumerate(outputs))

    @torch.inference_mode()
    def execute_model(self, prompt, videos):
        self._execute_mm_encoder(videos)
        input_ids = torch.tensor(prompt, device=self.device)
        inputs_embeds = self.model.language_model.embed_input_ids(input_ids)
        return [torch.cat([inputs_embeds, self.encoder_cache[index]]) for index in range(len(videos))]

# === visual_prompts
# thread: https://github.com/ultralytics/ultralytics/pull/21981
# about: a new entry of the batches, which the trainer's list of what it moves does not have
# operation: bmm|einsum|mul on cpu, cuda:0
# operands: visuals|vp|operands|self|input, feats|features|mat2|embeddings
# category: input-not-moved
# line: trainers.py: for k in ["batch_idx", "cls", "bboxes"]:
# line: trainers.py: batch = self.preprocess_batch(
# line: model.py: return torch.einsum(
# line: model.py: vpe = self.savpe(
# line: model.py: preds = self.predict(
# repair: trainers.py: for k in ["batch_idx", "cls", "bboxes"]: -> for k in batch:
import torch

from data import YOLOEDataset
from model import YOLOEModel
from trainers import YOLOEVPTrainer

torch.manual_seed(21981)
trainer = YOLOEVPTrainer(YOLOEModel(nc=3, width=8), YOLOEDataset(length=6, size=8, nc=3), device="cuda:0")
losses = trainer.train(epochs=2)
print("losses", [round(loss, 4) for loss in losses])
# --- data.py
import torch
from torch.utils.data import Dataset


class YOLOEDataset(Dataset):
    def __init__(self, length, size, nc):
        self.images = torch.randint(0, 256, (length, 3, size, size), dtype=torch.uint8)
        self.cls, self.size, self.nc = torch.arange(length) % nc, size, nc

    def __len__(self):
        return len(self.images)

    def get_visual_mask(self, cls, box):
        """Where each class has a box, in the resolution of the features."""
        visuals = torch.zeros(self.nc, self.size // 2, self.size // 2)
        x1, y1, x2, y2 = (box * self.size / 2).long().tolist()
        visuals[cls, y1 : y2 + 1, x1 : x2 + 1] = 1
        return visuals

    def __getitem__(self, index):
        box = torch.tensor([0.1, 0.2, 0.5, 0.7]) + 0.05 * (index % 4)
        cls = self.cls[index]
        return {"img": self.images[index], "cls": cls.view(1), "bboxes": box.view(1, 4), "visuals": self.get_visual_mask(cls, box)}

    @staticmethod
    def collate_fn(samples):
        batch = {k: [sample[k] for sample in samples] for k in samples[0]}
        for k, v in batch.items():
            batch[k] = torch.stack(v) if k in {"img", "visuals"} else torch.cat(v)
        batch["batch_idx"] = torch.arange(len(samples))
        return batch
# --- model.py
import torch
from torch import nn


class SAVPE(nn.Module):
    """The features that each class has where its boxes are."""

    def __init__(self, width):
        super().__init__()
        self.cv = nn.Conv2d(width, width, 1)

    def forward(self, features, vp):
        features = self.cv(features)
        vp = vp / vp.sum((2, 3), keepdim=True).clamp(min=1)
        return torch.einsum("bqhw,bchw->bqc", vp, features)


class YOLOEModel(nn.Module):
    def __init__(self, nc, width):
        super().__init__()
        self.backbone, self.savpe = nn.Conv2d(3, width, 3, stride=2, padding=1), SAVPE(width)
        self.cls_head, self.box_head = nn.Linear(width, width), nn.Linear(width, 4)

    def predict(self, img, visuals):
        features = torch.relu(self.backbone(img))
        vpe = self.savpe(features, visuals)
        pooled = features.mean((2, 3))
        return torch.einsum("bc,bqc->bq", self.cls_head(pooled), vpe), self.box_head(pooled).sigmoid()

    def loss(self, batch):
        preds = self.predict(batch["img"], visuals=batch["visuals"])
        scores, boxes = preds
        cls_loss = nn.functional.cross_entropy(scores[batch["batch_idx"]], batch["cls"])
        return cls_loss + nn.functional.l1_loss(boxes[batch["batch_idx"]], batch["bboxes"])
# --- trainers.py
import torch
from torch.utils.data import DataLoader


class BaseTrainer:
    def __init__(self, model, dataset, device):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.train_loader = DataLoader(dataset, batch_size=3, collate_fn=dataset.collate_fn)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, epochs):
        losses = []
        for _ in range(epochs):
            for batch in self.train_loader:
                batch = self.preprocess_batch(batch)
                loss = self.model.loss(batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            losses.append(loss.item())
        return losses


class DetectionTrainer(BaseTrainer):
    def preprocess_batch(self, batch):
        batch["img"] = batch["img"].to(self.device, non_blocking=True).float() / 255
        for k in ["batch_idx", "cls", "bboxes"]:
            batch[k] = batch[k].to(self.device, non_blocking=True)
        return batch


class YOLOEVPTrainer(DetectionTrainer):
    """Trains with visual prompts: masks of boxes instead of the names of classes."""

# === split_prodigy_groups
# thread: https://github.com/huggingface/accelerate/issues/3372
# about: running sums that each group of parameters has for itself, on the GPU of its parameters; a saved state comes back to the CPU
# operation: add on cpu, cuda:0
# operands: running_d_numerator|self
# category: optimizer|checkpoint
# line: accelerator.py: states = torch.load(
# line: accelerator.py: optimizer.load_state_dict(
# line: trainer.py: self.accelerator.load_state(
# line: prodigy.py: running_d_numerator, running_d_denom = group[
# line: prodigy.py: running_d_numerator.mul_(
# repair: trainer.py: self.accelerator.load_state(checkpoint) -> self.accelerator.load_state(checkpoint); [group.update({k: v.to(group["params"][0].device) for k, v in group.items() if hasattr(v, "to")}) for group in self.optimizer.param_groups]
import tempfile

import torch

from trainer import Trainer

with tempfile.TemporaryDirectory() as checkpoint:
    torch.manual_seed(3372)
    batches = [(torch.randn(6, 4), torch.randn(6, 2)) for _ in range(5)]
    first = Trainer(resume_from=None)
    first.train(batches[:3])
    first.accelerator.save_state(checkpoint)
    again = Trainer(resume_from=checkpoint)
    loss = again.train(batches[3:])
print("loss", round(loss, 4), "d", [f"{group['d']:.3e}" for group in again.optimizer.param_groups])
# --- prodigy.py
import torch


class ProdigyPlusScheduleFree(torch.optim.Optimizer):
    """Estimates the step size of each group from how far its parameters have come."""

    def __init__(self, params, lr=1.0, d0=1e-3, beta3=0.9):
        super().__init__(params, dict(lr=lr, d=d0, d0=d0, beta3=beta3, running_d_numerator=None, running_d_denom=None))
        for group in self.param_groups:
            device = group["params"][0].device
            group["running_d_numerator"] = torch.tensor(0.0, device=device)
            group["running_d_denom"] = torch.tensor(0.0, device=device)

    def initialise_state(self, p):
        state = self.state[p]
        if not state:
            state["p0"], state["s"] = p.detach().clone(), torch.zeros_like(p)
        return state

    def update_d(self, group, d_update, s_sum):
        running_d_numerator, running_d_denom = group["running_d_numerator"], group["running_d_denom"]
        running_d_numerator.mul_(group["beta3"]).add_(d_update)
        running_d_denom.mul_(group["beta3"]).add_(s_sum)
        group["d"] = max(group["d"], (running_d_numerator / running_d_denom.clamp(min=1e-12)).item())

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            d_update, s_sum = 0.0, 0.0
            for p in group["params"]:
                state = self.initialise_state(p)
                x0_minus = state["p0"] - p
                d_update = d_update + group["d"] * torch.dot(p.grad.flatten(), x0_minus.flatten())
                state["s"].mul_(group["beta3"]).add_(p.grad, alpha=group["d"])
                s_sum = s_sum + state["s"].abs().sum()
            self.update_d(group, d_update, s_sum)
            for p in group["params"]:
                p.sub_(p.grad, alpha=group["lr"] * group["d"])
# --- accelerator.py
from pathlib import Path

import torch


class Accelerator:
    def __init__(self):
        self._models, self._optimizers = [], []

    def prepare(self, model, optimizer):
        self._models.append(model)
        self._optimizers.append(optimizer)
        return model, optimizer

    def save_state(self, output_dir):
        for index, (model, optimizer) in enumerate(zip(self._models, self._optimizers)):
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, Path(output_dir) / f"state_{index}.bin")

    def load_state(self, input_dir):
        """Through the CPU, so that no GPU has to have room for it twice."""
        for index, (model, optimizer) in enumerate(zip(self._models, self._optimizers)):
            states = torch.load(Path(input_dir) / f"state_{index}.bin", map_location="cpu")
            model.load_state_dict(states["model"])
            optimizer.load_state_dict(states["optimizer"])
# --- trainer.py
from torch import nn

from accelerator import Accelerator
from prodigy import ProdigyPlusScheduleFree


class SplitModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Linear(4, 8).to("cuda:0"), nn.Linear(8, 2).to("cuda:1")

    def forward(self, x):
        return self.head(self.encoder(x.to("cuda:0")).tanh().to("cuda:1"))


class Trainer:
    def __init__(self, resume_from):
        self.accelerator = Accelerator()
        model = SplitModel()
        groups = [{"params": list(model.encoder.parameters())}, {"params": list(model.head.parameters())}]
        self.model, self.optimizer = self.accelerator.prepare(model, ProdigyPlusScheduleFree(groups))
        if resume_from is not None:
            self.init_resume_checkpoint(resume_from)

    def init_resume_checkpoint(self, checkpoint):
        self.accelerator.load_state(checkpoint)

    def train(self, batches):
        for x, y in batches:
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x), y.to("cuda:1"))
            loss.backward()
            self.optimizer.step()
        return loss.item()

# === collated_predictions
# thread: https://github.com/NVIDIA-BioNeMo/bionemo-recipes/pull/897
# about: predictions of two GPUs, in dicts of tuples, are put together by a function that calls itself
# operation: cat on cuda:0, cuda:1
# operands: batches|batches\[\d\]|tensors
# category: module-split|data-parallel|input-not-moved
# line: lightning.py: return torch.cat(batches
# line: predict.py: outputs.append(
# line: predict.py: return self.loss_reduction.reduce(
# repair: lightning.py: return torch.cat(batches, dim=0) -> return torch.cat([batch.to(batches[0].device) for batch in batches], dim=0)
import torch

from predict import ESM2Model, Predictor

torch.manual_seed(897)
predictor = Predictor(ESM2Model(vocab_size=24, hidden_size=8), devices=["cuda:0", "cuda:1"])
sequences = torch.randint(0, 24, (7, 6))
predictions = predictor.predict(sequences, micro_batch_size=2)
hidden, lengths = predictions["embeddings"]
print("logits", round(predictions["token_logits"].sum().item(), 3), "hidden", round(hidden.mean().item(), 4), lengths.tolist())
# --- lightning.py
import torch
from torch import Tensor


def batch_collator(batches):
    """One batch out of several, which already have a dimension for it."""
    match batches:
        case [Tensor(), *_]:
            return torch.cat(batches, dim=0)
        case [dict(), *_]:
            return {key: batch_collator([batch[key] for batch in batches]) for key in batches[0]}
        case [tuple(), *_]:
            return tuple(batch_collator([batch[i] for batch in batches]) for i in range(len(batches[0])))
        case [list(), *_]:
            return [batch_collator([batch[i] for batch in batches]) for i in range(len(batches[0]))]
        case _:
            raise ValueError("Unsupported input structure in batch_collator")


class PassthroughLossReduction:
    """Hands on what the model gave in the place of a loss, so that it is kept until the end."""

    def forward(self, batch, forward_out):
        return torch.zeros(1), forward_out

    def reduce(self, forward_out):
        return batch_collator(forward_out)
# --- predict.py
import copy

import torch
from torch import nn

from lightning import PassthroughLossReduction


class ESM2Model(nn.Module):
    def __init__(self, vocab_size, hidden_size):
        super().__init__()
        self.embedding, self.encoder = nn.Embedding(vocab_size, hidden_size), nn.Linear(hidden_size, hidden_size)
        self.output_layer = nn.Linear(hidden_size, vocab_size)

    def forward(self, tokens):
        hidden_states = torch.tanh(self.encoder(self.embedding(tokens)))
        pooled, lengths = hidden_states.mean(1), (tokens > 2).sum(1)
        return {"token_logits": self.output_layer(hidden_states), "embeddings": (pooled, lengths)}


class Predictor:
    def __init__(self, model, devices):
        self.devices = [torch.device(device) for device in devices]
        self.replicas = [copy.deepcopy(model).to(device).eval() for device in self.devices]
        self.loss_reduction = PassthroughLossReduction()

    def predict_step(self, index, batch):
        forward_out = self.replicas[index](batch.to(self.devices[index]))
        return self.loss_reduction.forward(batch, forward_out)[1]

    @torch.no_grad()
    def predict(self, tokens, micro_batch_size):
        outputs = []
        for number, batch in enumerate(tokens.split(micro_batch_size)):
            outputs.append(self.predict_step(number % len(self.replicas), batch))
        return self.loss_reduction.reduce(outputs)

# === offloaded_vae
# thread: https://github.com/huggingface/diffusers/pull/13417
# about: the VAE is on the GPU inside of a with statement only, which ends one line too early
# operation: conv2d|convolution on cuda:0, cpu
# operands: pixel_values|x|input, conv_in.weight|weight
# category: module-split
# error: Input type .* and weight type|on the same device
# line: train.py: model_input = vae.encode(
# line: train.py: with offload_models(vae, device=accelerator.device, offload=args.offload):
# repair: train.py: model_input = vae.encode(pixel_values).mode() -> with offload_models(vae, device=accelerator.device, offload=args.offload): model_input = vae.encode(pixel_values.to(accelerator.device)).mode()
from types import SimpleNamespace

import torch

from train import train

torch.manual_seed(13417)
args = SimpleNamespace(offload=True, cache_latents=False, learning_rate=0.05, max_train_steps=3)
dataset = [{"pixel_values": torch.rand(2, 3, 8, 8) * 2 - 1, "prompt_embeds": torch.rand(2, 6)} for _ in range(3)]
print("loss", round(train(args, dataset), 4))
# --- training_utils.py
import contextlib


@contextlib.contextmanager
def offload_models(*modules, device, offload=True):
    """Has the modules on a device while they are needed, if they are offloaded at all."""
    originals = [next(module.parameters()).device for module in modules]
    if offload:
        for module in modules:
            module.to(device)
    try:
        yield
    finally:
        if offload:
            for module, original in zip(modules, originals):
                module.to(original)
# --- models.py
import torch
from torch import nn


class DiagonalGaussian:
    def __init__(self, parameters):
        self.mean, self.logvar = parameters.chunk(2, dim=1)

    def mode(self):
        return self.mean


class Encoder(nn.Module):
    def __init__(self, channels, latent_channels):
        super().__init__()
        self.conv_in, self.conv_out = nn.Conv2d(3, channels, 3, stride=2, padding=1), nn.Conv2d(channels, 2 * latent_channels, 1)

    def forward(self, x):
        return self.conv_out(torch.tanh(self.conv_in(x)))


class AutoencoderKLFlux2(nn.Module):
    def __init__(self, channels=8, latent_channels=4):
        super().__init__()
        self.encoder = Encoder(channels, latent_channels)

    @property
    def dtype(self):
        return next(self.parameters()).dtype

    def encode(self, x):
        return DiagonalGaussian(self.encoder(x))


class Flux2Transformer2DModel(nn.Module):
    def __init__(self, channels=4, width=6):
        super().__init__()
        self.x_embedder, self.proj_out = nn.Linear(channels, width), nn.Linear(width, channels)

    def forward(self, hidden_states, timestep, encoder_hidden_states):
        hidden_states = self.x_embedder(hidden_states) + encoder_hidden_states.unsqueeze(1)
        return self.proj_out(torch.tanh(hidden_states + timestep.view(-1, 1, 1)))
# --- train.py
import torch

from models import AutoencoderKLFlux2, Flux2Transformer2DModel
from training_utils import offload_models


class Accelerator:
    def __init__(self, device="cuda:0"):
        self.device = torch.device(device)

    def prepare(self, model, dataloader):
        return model.to(self.device), self.batches(dataloader)

    def batches(self, dataloader):
        for batch in dataloader:
            yield {name: value.to(self.device) for name, value in batch.items()}


def pack_latents(latents):
    return latents.flatten(2).transpose(1, 2)


def train(args, dataset):
    accelerator = Accelerator()
    vae, transformer = AutoencoderKLFlux2().requires_grad_(False), Flux2Transformer2DModel()
    if not args.offload:
        vae.to(accelerator.device)
    transformer, dataloader = accelerator.prepare(transformer, dataset)
    optimizer = torch.optim.AdamW(transformer.parameters(), lr=args.learning_rate)
    for step, batch in enumerate(dataloader):
        with offload_models(vae, device=accelerator.device, offload=args.offload):
            pixel_values = batch["pixel_values"].to(dtype=vae.dtype)
        model_input = vae.encode(pixel_values).mode()
        model_input = pack_latents(model_input)
        noise = torch.full_like(model_input, 0.1 * (step + 1))
        timesteps = torch.full((len(model_input),), 0.2 * (step + 1), device=model_input.device)
        sigmas = timesteps.view(-1, 1, 1)
        model_pred = transformer((1 - sigmas) * model_input + sigmas * noise, timesteps, batch["prompt_embeds"])
        loss = torch.nn.functional.mse_loss(model_pred, noise - model_input)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()
