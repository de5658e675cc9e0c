# === low_rank_beside_shared_out_blocks
# thread: https://github.com/ostris/ai-toolkit/issues/1031
# about: blocks of a transformer are shared out between the GPUs, and small trained layers are then put beside each linear one. What they are beside is only known by a weak reference
# operation: mm|matmul|addmm|linear on cuda:1, cuda:0
# operands: mat2|weight|.*lora_down.*
# category: module-split|default-or-current-device|input-not-moved
# line: network.py: self.loras = nn.ModuleList(loras)
# line: network.py: self.lora_down = nn.Linear(
# line: network.py: lora = LoRAModule(
# line: network.py: low = self.lora_up(self.lora_down(x))
# line: main.py: network = LoRANetwork(
# repair: network.py: self.loras = nn.ModuleList(loras) -> self.loras = nn.ModuleList(lora.to(next(lora.orig_module_ref().parameters()).device) for lora in loras)
import torch

from network import LoRANetwork
from transformer import Transformer, split_over_gpus

torch.manual_seed(0)
count = torch.cuda.device_count()
devices = [torch.device("cuda", index) for index in range(count)] or [torch.device("cpu")]
transformer = Transformer(width=8, depth=4).requires_grad_(False)
split_over_gpus(transformer, devices)
network = LoRANetwork(transformer, rank=2, device=devices[0])
network.apply_to()
optimizer = torch.optim.AdamW(network.parameters(), lr=0.05, foreach=False)
draw = torch.Generator().manual_seed(3)
losses = []
for _ in range(3):
    latents = torch.randn(2, 5, 8, generator=draw).to(devices[0])
    noise = torch.randn(2, 5, 8, generator=draw).to(devices[0])
    loss = (transformer(latents + noise) - noise).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- transformer.py
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.proj_in, self.proj_out = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.proj_out(nn.functional.silu(self.proj_in(self.norm(x))))

class Transformer(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.final = nn.Linear(width, width)

    def forward(self, x):
        home = x.device
        for block in self.blocks:
            x = block(x.to(next(block.parameters()).device))
        return self.final(x.to(home))

def split_over_gpus(transformer, devices):
    transformer.to(devices[0])
    for index, block in enumerate(transformer.blocks):
        block.to(devices[index * len(devices) // len(transformer.blocks)])
# --- network.py
import weakref

from torch import nn

class LoRAModule(nn.Module):
    def __init__(self, name, orig_module, rank, device):
        super().__init__()
        self.name, self.scale = name, 1 / rank
        self.lora_down = nn.Linear(orig_module.in_features, rank, bias=False, device=device)
        self.lora_up = nn.Linear(rank, orig_module.out_features, bias=False, device=device)
        self.orig_module_ref = weakref.ref(orig_module)

    def apply_to(self):
        orig_module = self.orig_module_ref()
        self.orig_forward = orig_module.forward
        orig_module.forward = self.forward

    def forward(self, x):
        low = self.lora_up(self.lora_down(x))
        return self.orig_forward(x) + low * self.scale

class LoRANetwork(nn.Module):
    def __init__(self, transformer, rank, device):
        super().__init__()
        loras = []
        for name, module in transformer.blocks.named_modules():
            if isinstance(module, nn.Linear):
                lora = LoRAModule(name, module, rank, device)
                loras.append(lora)
        self.loras = nn.ModuleList(loras)

    def apply_to(self):
        for lora in self.loras:
            lora.apply_to()

# === how_long_the_lines_are
# thread: https://github.com/mittagessen/kraken/pull/799
# about: lines of a page are read several at a time, padded to the longest. A network for them makes them shorter on the way, and so has to be told how long each is
# operation: lt|less on cuda:0, cpu
# operands: other|seq_lens.*|lens
# category: input-not-moved|created-without-device
# line: recognition.py: lens = torch.as_tensor(
# line: recognition.py: outputs, out_lens = self.net(
# line: ppocr.py: mask = places < seq_lens[:, None]
# line: ppocr.py: seq_lens = seq_lens.div(
# repair: recognition.py: lens = torch.as_tensor([line.shape[-1] for line in lines]) -> lens = torch.as_tensor([line.shape[-1] for line in lines], device=self.device)
import torch

from codec import Codec
from ppocr import PPOCRNet
from recognition import Recognizer

torch.manual_seed(4)
codec = Codec("abcdefg")
device = "cuda:0" if torch.cuda.is_available() else "cpu"
recognizer = Recognizer(PPOCRNet(height=8, hidden=12, classes=len(codec) + 1), codec, device)
draw = torch.Generator().manual_seed(6)
page = [torch.rand(1, 8, width, generator=draw) for width in (24, 40, 32)]
for text, confidence in recognizer.predict(page):
    print(repr(text), round(confidence, 4))
# --- codec.py
class Codec:
    def __init__(self, characters):
        self.characters = characters

    def __len__(self):
        return len(self.characters)

    def decode(self, labels):
        """Of labels that follow each other, one; 0 is no character."""
        kept = [label for before, label in zip([0, *labels], labels) if label and label != before]
        return "".join(self.characters[label - 1] for label in kept)
# --- ppocr.py
import torch
from torch import nn

class PPOCRNet(nn.Module):
    STRIDE = 4

    def __init__(self, height, hidden, classes):
        super().__init__()
        self.stem = nn.Conv2d(1, hidden, (height, self.STRIDE), stride=(height, self.STRIDE))
        self.mixer = nn.MultiheadAttention(hidden, 2, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, images, seq_lens):
        x = self.stem(images).squeeze(2).transpose(1, 2)
        seq_lens = seq_lens.div(self.STRIDE, rounding_mode="floor")
        places = torch.arange(x.shape[1], device=x.device)[None]
        mask = places < seq_lens[:, None]
        mixed, _ = self.mixer(x, x, x, key_padding_mask=~mask, need_weights=False)
        return self.head(x + mixed), seq_lens
# --- recognition.py
import torch

class Recognizer:
    def __init__(self, net, codec, device):
        self.device = torch.device(device)
        self.net, self.codec = net.to(self.device).eval(), codec

    def forward(self, lines):
        widest = max(line.shape[-1] for line in lines)
        batch = torch.stack([torch.nn.functional.pad(line, (0, widest - line.shape[-1])) for line in lines])
        lens = torch.as_tensor([line.shape[-1] for line in lines])
        outputs, out_lens = self.net(batch.to(self.device), lens)
        return outputs.softmax(-1).cpu().numpy(), out_lens.cpu().numpy()

    @torch.inference_mode()
    def predict(self, lines):
        outputs, lens = self.forward(lines)
        for output, length in zip(outputs, lens):
            output = output[:length]
            yield self.codec.decode(output.argmax(-1).tolist()), float(output.max(-1).mean())

# === a_server_for_each_model
# thread: https://github.com/capgym/cap-x/issues/9
# about: a robot asks servers what it sees. A file says on which GPU each server's model is, and it is not the first one
# operation: .*conv.* on cuda:0, cuda:1
# operands: weight|input|.*image.*|.*patch.*
# category: default-or-current-device|input-not-moved
# line: launch_sam3_server.py: self.processor = Sam3Processor(
# line: sam3.py: def __init__(self, model, resolution=16, device="cuda"):
# line: sam3.py: image = torch.from_numpy(
# line: sam3.py: features = self.model.patches(
# repair: launch_sam3_server.py: self.processor = Sam3Processor(model) -> self.processor = Sam3Processor(model, device=device)
import numpy as np
import torch

from launch_sam3_server import Sam3Server

last = max(torch.cuda.device_count() - 1, 0)
config = {"api_servers": [{"_target_": "sam3", "device": f"cuda:{last}", "port": 8114}]}
servers = {entry["port"]: Sam3Server(entry["device"]) for entry in config["api_servers"]}
draw = np.random.default_rng(2)
asked = []
for prompt in (3, 5):
    frame = draw.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    asked.append(servers[8114].submit({"image": frame, "prompt": prompt}))
for reply in asked:
    answer = reply.result()
    print("score", round(answer["score"], 4), "area", answer["area"])
for server in servers.values():
    server.close()
# --- sam3.py
import torch
from torch import nn

class Sam3Image(nn.Module):
    def __init__(self, width=8, words=10):
        super().__init__()
        self.patches, self.words = nn.Conv2d(3, width, 4, stride=4), nn.Embedding(words, width)

def build_sam3_image_model(device):
    torch.manual_seed(0)
    return Sam3Image().to(device).eval()

class Sam3Processor:
    def __init__(self, model, resolution=16, device="cuda"):
        self.model, self.resolution, self.device = model, resolution, device

    @torch.inference_mode()
    def set_image(self, image):
        image = torch.from_numpy(image).to(self.device).permute(2, 0, 1).float()
        image = nn.functional.interpolate(image[None] / 255, size=self.resolution)
        features = self.model.patches(image - 0.5)
        return {"features": features.flatten(2)[0]}

    @torch.inference_mode()
    def set_text_prompt(self, prompt, state):
        word = self.model.words(torch.tensor(prompt, device=self.device))
        state["scores"] = (word @ state["features"]).sigmoid()
        return state
# --- launch_sam3_server.py
from concurrent.futures import ThreadPoolExecutor

from sam3 import Sam3Processor, build_sam3_image_model

class Sam3Server:
    """Answers one request after the other, in a thread of its own."""

    def __init__(self, device):
        model = build_sam3_image_model(device)
        self.processor = Sam3Processor(model)
        self.worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sam3")

    def submit(self, request):
        return self.worker.submit(self.segment, request)

    def segment(self, request):
        state = self.processor.set_image(request["image"])
        scores = self.processor.set_text_prompt(request["prompt"], state)["scores"]
        return {"score": scores.max().item(), "area": int((scores > 0.5).sum())}

    def close(self):
        self.worker.shutdown()

# === where_a_pipeline_of_blocks_runs
# thread: https://github.com/huggingface/diffusers/pull/14252
# about: a pipeline is put together of blocks, which ask it where it runs. Its models wait in RAM, a group of layers at a time is on the GPU
# operation: sub on cpu, cuda:0
# operands: self|other|.*latents.*|.*noise_pred.*
# category: default-or-current-device|input-not-moved|module-split|created-without-device
# line: pipeline.py: return hooks[0].execution_device if hooks else self.device
# line: pipeline.py: return self.models()[0].weight.device
# line: blocks.py: latents = randn_tensor(
# line: blocks.py: state["latents"] = state["latents"] -
# line: blocks.py: noise_pred = components
# repair: pipeline.py: import torch -> import diffusers.hooks.group_offloading as group_offloading, torch
# repair: pipeline.py: hooks = [model._hf_hook for model in models if hasattr(model, "_hf_hook")] -> onload = [group_offloading._get_group_onload_device(model) for model in models if group_offloading._is_group_offload_enabled(model)]
# repair: pipeline.py: return hooks[0].execution_device if hooks else self.device -> return onload[0] if onload else self.device
import torch
from diffusers.hooks import apply_group_offloading

from blocks import DenoiseStep, PrepareLatents, TextStep
from models import Denoiser, TextEncoder
from pipeline import ModularPipeline

onload = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
pipeline = ModularPipeline([TextStep(), PrepareLatents(), DenoiseStep()])
pipeline.update_components(text_encoder=TextEncoder(words=9, width=8), transformer=Denoiser(width=8))
for model in pipeline.components.values():
    apply_group_offloading(model, onload_device=onload, offload_type="leaf_level")
for prompt in ([1, 4, 2], [7, 3]):
    latents = pipeline(prompt=prompt, steps=3, generator=torch.Generator().manual_seed(5))
    print("latents", [round(value, 4) for value in latents[0, 0, :4].tolist()])
# --- models.py
import torch
from torch import nn

class TextEncoder(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed, self.out = nn.Embedding(words, width), nn.Linear(width, width)

    def forward(self, ids):
        return self.out(self.embed(ids)).mean(1, keepdim=True)

class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.time, self.up, self.down = nn.Linear(1, width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, latents, words, sigma):
        x = self.up(latents).tanh()
        return self.down(x) + words + self.time(sigma)
# --- blocks.py
import torch
from diffusers.utils.torch_utils import randn_tensor

class TextStep:
    def __call__(self, components, state):
        ids = torch.tensor([state["prompt"]], device=components._execution_device)
        state["prompt_embeds"] = components.text_encoder(ids)

class PrepareLatents:
    def __call__(self, components, state):
        latents = randn_tensor((1, 6, 8), generator=state["generator"], device=components._execution_device)
        state["latents"] = latents

class DenoiseStep:
    def __call__(self, components, state):
        steps = state["steps"]
        for step in range(steps):
            sigma = torch.full((1, 1, 1), 1 - step / steps, device=components._execution_device)
            noise_pred = components.transformer(state["latents"], state["prompt_embeds"], sigma)
            state["latents"] = state["latents"] - noise_pred / steps
# --- pipeline.py
import torch

class ModularPipeline:
    def __init__(self, blocks):
        self.blocks, self.components = blocks, {}

    def update_components(self, **components):
        self.components.update(components)

    def __getattr__(self, name):
        try:
            return self.__dict__["components"][name]
        except KeyError:
            raise AttributeError(name) from None

    def models(self):
        return [module for model in self.components.values() for module in model.modules() if hasattr(module, "weight")]

    @property
    def device(self):
        return self.models()[0].weight.device

    @property
    def _execution_device(self):
        models = list(self.components.values())
        hooks = [model._hf_hook for model in models if hasattr(model, "_hf_hook")]
        return hooks[0].execution_device if hooks else self.device

    @torch.no_grad()
    def __call__(self, **state):
        for block in self.blocks:
            block(self, state)
        return state["latents"]

# === masks_of_two_things_in_a_video
# thread: https://github.com/facebookresearch/sam2/issues/489
# about: things are followed through a video, each on its own, and what is known of each frame is kept in RAM. A thing that was shown to the tracker by hand needs no look at that frame
# operation: cat|concat on cpu, cuda:0
# operands: tensors.*|.*pred_masks.*
# category: cached-state|input-not-moved
# line: predictor.py: pred_masks_per_obj.append(pred_masks)
# line: predictor.py: pred_masks = outputs["cond"][frame]["pred_masks"]
# line: predictor.py: all_masks = torch.cat(
# line: main.py: state = predictor.init_state(
# repair: predictor.py: pred_masks_per_obj.append(pred_masks) -> pred_masks_per_obj.append(pred_masks.to(self.device))
import torch

from predictor import VideoPredictor
from tracker import Tracker

torch.manual_seed(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
predictor = VideoPredictor(Tracker(channels=4), device)
video = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(7))
state = predictor.init_state(video, offload_state_to_cpu=True)
predictor.add_new_points(state, frame=0, obj=11, points=[[2, 3]])
predictor.add_new_points(state, frame=2, obj=12, points=[[6, 1], [5, 5]])
predictor.add_new_points(state, frame=0, obj=12, points=[[4, 4]])
for frame, objs, masks in predictor.propagate_in_video(state):
    print(frame, objs, [round(value, 4) for value in masks.mean((1, 2, 3)).tolist()])
# --- tracker.py
import torch
from torch import nn

class Tracker(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.image, self.memory = nn.Conv2d(3, channels, 3, padding=1), nn.Conv2d(1, channels, 3, padding=1)
        self.head = nn.Conv2d(channels, 1, 1)

    def forward(self, frame, points=None, last=None):
        x = self.image(frame)
        if last is not None:
            x = x + self.memory(last)
        if points is not None:
            spots = torch.zeros_like(frame[:, :1])
            spots[:, :, points[:, 1], points[:, 0]] = 1
            x = x + self.memory(spots)
        return self.head(x.relu())
# --- predictor.py
import torch

class VideoPredictor:
    def __init__(self, model, device):
        self.model, self.device = model.to(device).eval(), device

    def init_state(self, video, offload_state_to_cpu=False):
        storage = torch.device("cpu") if offload_state_to_cpu else self.device
        return {"images": video.to(self.device), "storage_device": storage, "per_obj": {}}

    @torch.inference_mode()
    def run_single_frame(self, state, frame, points, last):
        if last is not None:
            last = last.to(self.device)
        pred_masks = self.model(state["images"][frame, None], points, last)
        kept = {"pred_masks": pred_masks.to(state["storage_device"], non_blocking=True)}
        return kept, pred_masks

    def add_new_points(self, state, frame, obj, points):
        outputs = state["per_obj"].setdefault(obj, {"cond": {}, "non_cond": {}})
        points = torch.tensor(points, device=self.device)
        outputs["cond"][frame], _ = self.run_single_frame(state, frame, points, None)

    def propagate_in_video(self, state):
        for frame in range(len(state["images"])):
            pred_masks_per_obj = []
            for outputs in state["per_obj"].values():
                if frame in outputs["cond"]:
                    pred_masks = outputs["cond"][frame]["pred_masks"]
                else:
                    last = {**outputs["non_cond"], **outputs["cond"]}[frame - 1]["pred_masks"]
                    kept, pred_masks = self.run_single_frame(state, frame, None, last)
                    outputs["non_cond"][frame] = kept
                pred_masks_per_obj.append(pred_masks)
            all_masks = torch.cat(pred_masks_per_obj)
            yield frame, list(state["per_obj"]), all_masks.sigmoid()

# === answers_after_their_question
# thread: https://github.com/dhcode-cpp/X-R1/issues/21
# about: a language model learns from answers that it gives itself. Another copy of it writes these, and hands over lists of words
# operation: cat|concat on cpu, cuda:0
# operands: tensors.*|.*prompt_ids.*|.*completion_ids.*
# category: input-not-moved
# line: grpo_trainer.py: prompt_ids, prompt_mask = prompt_inputs["input_ids"], prompt_inputs["attention_mask"]
# line: grpo_trainer.py: prompt_inputs = self.tokenizer(
# line: grpo_trainer.py: prompt_completion_ids = torch.cat(
# repair: grpo_trainer.py: prompt_inputs = self.tokenizer(prompts) -> prompt_inputs = self.tokenizer(prompts).to(self.device)
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from grpo_trainer import GRPOTrainer
from tokenizer import Tokenizer

torch.manual_seed(0)
config = GPT2Config(vocab_size=16, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = GPT2LMHeadModel(config).to(device)
trainer = GRPOTrainer(model, Tokenizer(), device, reward=lambda answer: float(sum(answer) % 5))
losses = trainer.train(["ab", "cade"], steps=3)
print("losses", [round(loss, 4) for loss in losses])
# --- tokenizer.py
import torch
from transformers import BatchEncoding

class Tokenizer:
    pad_token_id = 0

    def __call__(self, texts):
        longest = max(map(len, texts))
        rows = [[0] * (longest - len(text)) + [ord(letter) - 94 for letter in text] for text in texts]
        ids = torch.tensor(rows)
        return BatchEncoding({"input_ids": ids, "attention_mask": (ids != 0).long()})
# --- grpo_trainer.py
import copy

import torch
from torch.nn.utils.rnn import pad_sequence

class GRPOTrainer:
    def __init__(self, model, tokenizer, device, reward, group=2):
        self.model, self.tokenizer, self.device, self.reward, self.group = model, tokenizer, device, reward, group
        self.writer = copy.deepcopy(model).eval()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def write(self, prompt_ids, prompt_mask, length=4):
        """As vLLM does: lists go in, and lists come out."""
        rows = [row[mask.bool()].tolist() for row, mask in zip(prompt_ids, prompt_mask)]
        answers = []
        for row in rows:
            text = self.writer.generate(torch.tensor([row], device=self.device), max_new_tokens=length, do_sample=False, pad_token_id=0)
            answers.append(text[0, len(row) :].tolist())
        return answers

    def prepare_inputs(self, prompts):
        prompts = [prompt for prompt in prompts for _ in range(self.group)]
        prompt_inputs = self.tokenizer(prompts)
        prompt_ids, prompt_mask = prompt_inputs["input_ids"], prompt_inputs["attention_mask"]
        answers = self.write(prompt_ids, prompt_mask)
        completion_ids = [torch.tensor(answer, device=self.device) for answer in answers]
        completion_ids = pad_sequence(completion_ids, batch_first=True, padding_value=self.tokenizer.pad_token_id)
        prompt_completion_ids = torch.cat([prompt_ids, completion_ids], dim=1)
        rewards = torch.tensor([self.reward(answer) for answer in answers], device=self.device)
        return prompt_completion_ids, prompt_ids.shape[1], rewards - rewards.mean()

    def train(self, prompts, steps):
        losses = []
        for _ in range(steps):
            ids, start, advantages = self.prepare_inputs(prompts)
            logits = self.model(ids).logits[:, start - 1 : -1]
            chances = logits.log_softmax(-1).gather(-1, ids[:, start:, None])[..., 0]
            loss = -(chances.mean(1) * advantages).mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(loss.item())
        return losses

# === baseline_and_what_came
# thread: https://github.com/sktime/pytorch-forecasting/issues/1352
# about: before anything is trained, one looks at how good it is to say that tomorrow is like today. A trainer makes these forecasts, and a metric compares them with what came
# operation: sub on cuda:0, cpu
# operands: other|target|.*actuals.*
# category: input-not-moved|default-or-current-device
# line: main.py: predictions = Baseline(horizon=2).predict(loader)
# line: main.py: print("SMAPE"
# line: main.py: actuals = torch.cat(
# line: base_model.py: trainer = Trainer(
# line: base_model.py: self.predictions.append(outputs)
# line: metrics.py: losses = 2 * (y_pred - target).abs()
# repair: main.py: predictions = Baseline(horizon=2).predict(loader) -> predictions = Baseline(horizon=2).predict(loader, trainer_kwargs={"accelerator": "cpu"})
import torch
from torch.utils.data import DataLoader

from baseline import Baseline
from metrics import SMAPE
from series import Windows

draw = torch.Generator().manual_seed(8)
series = torch.rand(5, 9, generator=draw).cumsum(1)
loader = DataLoader(Windows(series, past=4, horizon=2), batch_size=8)
actuals = torch.cat([y for x, y in loader])
predictions = Baseline(horizon=2).predict(loader)
print("SMAPE", round(SMAPE()(predictions, actuals).item(), 4))
# --- series.py
from torch.utils.data import Dataset

class Windows(Dataset):
    def __init__(self, series, past, horizon):
        self.series, self.past, self.horizon = series, past, horizon
        self.each = series.shape[1] - past - horizon + 1

    def __len__(self):
        return len(self.series) * self.each

    def __getitem__(self, index):
        row, start = divmod(index, self.each)
        window = self.series[row, start : start + self.past + self.horizon]
        return {"encoder_cont": window[: self.past]}, window[self.past :]
# --- base_model.py
import logging

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

class PredictCallback(Callback):
    def __init__(self):
        self.predictions = []

    def on_predict_batch_end(self, trainer, module, outputs, batch, batch_idx, dataloader_idx=0):
        self.predictions.append(outputs)

class BaseModel(LightningModule):
    def predict_step(self, batch, batch_idx):
        x, _ = batch
        return self(x)

    def predict(self, dataloader, trainer_kwargs=None):
        callback = PredictCallback()
        settings = {"accelerator": "auto", "devices": 1, "logger": False, "enable_progress_bar": False, **(trainer_kwargs or {})}
        trainer = Trainer(callbacks=[callback], **settings)
        trainer.predict(self, dataloader, return_predictions=False)
        return torch.cat(callback.predictions)
# --- baseline.py
from base_model import BaseModel

class Baseline(BaseModel):
    def __init__(self, horizon):
        super().__init__()
        self.horizon = horizon

    def forward(self, x):
        return x["encoder_cont"][:, -1:].repeat(1, self.horizon)
# --- metrics.py
import torch
from torchmetrics import Metric

class SMAPE(Metric):
    def __init__(self):
        super().__init__()
        self.add_state("losses", default=torch.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("lengths", default=torch.tensor(0), dist_reduce_fx="sum")

    def update(self, y_pred, target):
        losses = 2 * (y_pred - target).abs() / (y_pred.abs() + target.abs() + 1e-8)
        self.losses += losses.sum()
        self.lengths += losses.numel()

    def compute(self):
        return self.losses / self.lengths

# === scales_drawn_from_a_prior
# thread: https://github.com/cornellius-gp/gpytorch/issues/2581
# about: where nothing was measured yet, curves are drawn with scales that are drawn themselves. What is believed of these scales is a module, and goes to the GPU as all modules do
# operation: div|true_divide on cuda:0, cpu
# operands: other|lengthscale.*
# category: state-not-registered|cached-state
# line: priors.py: self.base_dist = HalfCauchy(
# line: priors.py: return self.base_dist.sample(shape)
# line: kernel.py: lengthscales = self.prior.sample(
# line: kernel.py: scaled = distances / lengthscales
# repair: priors.py: return self.base_dist.sample(shape) -> return HalfCauchy(self._transformed_scale).sample(shape)
import torch

from curves import draw_curves
from kernel import RBFKernel
from priors import GammaPrior, HalfCauchyPrior

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
places = torch.linspace(0, 1, 6).to(device)
for prior in (GammaPrior(2.0, 3.0), HalfCauchyPrior(0.5)):
    torch.manual_seed(3)
    kernel = RBFKernel(prior).to(device)
    curves = draw_curves(kernel, places, count=4)
    print(type(prior).__name__, "curves", len(curves), "size", round(curves.abs().mean().item(), 4))
# --- priors.py
import torch
from torch import nn
from torch.distributions import Gamma, HalfCauchy

class GammaPrior(nn.Module):
    def __init__(self, concentration, rate):
        super().__init__()
        self.register_buffer("concentration", torch.as_tensor(concentration))
        self.register_buffer("rate", torch.as_tensor(rate))

    def sample(self, shape):
        return Gamma(self.concentration, self.rate).sample(shape)

class HalfCauchyPrior(nn.Module):
    """One of those that PyTorch makes of another distribution and a transformation."""

    def __init__(self, scale):
        super().__init__()
        self.base_dist = HalfCauchy(torch.as_tensor(scale))
        self.register_buffer("_transformed_scale", self.base_dist.scale)

    def sample(self, shape):
        return self.base_dist.sample(shape)
# --- kernel.py
from torch import nn

class RBFKernel(nn.Module):
    def __init__(self, prior):
        super().__init__()
        self.prior = prior

    def sample_covariances(self, places, count):
        distances = (places[:, None] - places[None]).expand(count, -1, -1)
        lengthscales = self.prior.sample((count,)).view(-1, 1, 1) + 0.05
        scaled = distances / lengthscales
        return (-0.5 * scaled.square()).exp()
# --- curves.py
import torch

def draw_curves(kernel, places, count):
    covariances = kernel.sample_covariances(places, count)
    jitter = 1e-3 * torch.eye(len(places), device=places.device)
    roots = torch.linalg.cholesky(covariances + jitter)
    noise = torch.randn(count, len(places), 1).to(places.device)
    return (roots @ noise)[..., 0]

# === told_to_move_after_it_was_shared_out
# thread: https://github.com/huggingface/accelerate/issues/1613
# about: a model was loaded with its layers on two GPUs, and its weights turn out to fit on one
# operation: mul on cuda:0, cuda:1
# operands: self|other|.*weight|.*hidden_states.*
# category: module-split
# line: main.py: model.to(
# line: loading.py: return dispatch_model(
# line: main.py: model = load(
# repair: main.py: model = load(config, devices) -> model = load(config, devices[:1])
import torch
from transformers import LlamaConfig

from loading import load

torch.manual_seed(0)
count = torch.cuda.device_count()
devices = [torch.device("cuda", index) for index in range(count)] or [torch.device("cpu")]
config = LlamaConfig(vocab_size=20, hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1)
model = load(config, devices)
ids = torch.tensor([[3, 17, 5]])
with torch.no_grad():
    first = model(input_ids=ids.to(devices[0])).logits[0, -1].cpu()
    model.to(devices[0])
    again = model(input_ids=ids.to(devices[0])).logits[0, -1].cpu()
print("scores", [round(value, 4) for value in again[:4].tolist()], "same", torch.allclose(first, again, atol=1e-4))
# --- loading.py
from accelerate import dispatch_model
from transformers import LlamaForCausalLM

def balanced(layers, devices):
    parts = {f"model.layers.{index}": devices[index * len(devices) // layers] for index in range(layers)}
    return {"model.embed_tokens": devices[0], "model.rotary_emb": devices[0], **parts, "model.norm": devices[-1], "lm_head": devices[-1]}

def load(config, devices):
    """As from_pretrained with a device map does it; a model for one device has no hooks."""
    model = LlamaForCausalLM(config).eval()
    if len(devices) == 1:
        return model.to(devices[0])
    return dispatch_model(model, device_map=balanced(config.num_hidden_layers, devices))

# === what_was_believed_before
# thread: https://github.com/sbi-dev/sbi/issues/460
# about: a network learns which settings of a simulator made what was seen. From the second round on it is told what was believed of the settings at first
# operation: sub on cuda:0, cpu
# operands: other|.*loc.*|.*mean.*
# category: input-not-moved|created-without-device
# line: main.py: prior = MultivariateNormal(
# line: inference.py: prior_log_prob = self.prior.log_prob(
# line: inference.py: self.prior, self.device, self.round = prior
# repair: main.py: prior = MultivariateNormal(torch.zeros(2), torch.eye(2)) -> prior = MultivariateNormal(torch.zeros(2, device=device), torch.eye(2, device=device))
import torch
from torch.distributions import MultivariateNormal

from inference import SNPE_C
from simulator import simulate

torch.manual_seed(2)
device = "cuda" if torch.cuda.is_available() else "cpu"
prior = MultivariateNormal(torch.zeros(2), torch.eye(2))
inference = SNPE_C(prior, device=device)
for _ in range(2):
    theta = inference.propose(24)
    inference.append_simulations(theta, simulate(theta)).train(steps=3)
print("rounds", inference.round, "losses", [round(loss, 4) for loss in inference.losses])
# --- simulator.py
import torch

def simulate(theta):
    return torch.stack([theta.sum(1), theta.prod(1), theta[:, 0].sin()], dim=1)
# --- network.py
import torch
from torch import nn

class DensityEstimator(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inputs, 12), nn.Tanh(), nn.Linear(12, 2 * outputs))

    def log_prob(self, theta, x):
        mean, scale = self.net(x).chunk(2, dim=1)
        return torch.distributions.Normal(mean, scale.exp()).log_prob(theta).sum(1)
# --- inference.py
import torch

from network import DensityEstimator

class SNPE_C:
    def __init__(self, prior, device):
        self.prior, self.device, self.round = prior, torch.device(device), 0
        self.rounds, self.losses, self.net = [], [], None

    def propose(self, count):
        theta = self.prior.sample((count,))
        return theta

    def append_simulations(self, theta, x):
        self.rounds.append((theta, x))
        return self

    def loss(self, theta, x):
        if self.round == 0:
            return -self.net.log_prob(theta, x).mean()
        other = theta.roll(1, dims=0)
        prior_log_prob = self.prior.log_prob(torch.cat([theta, other])).view(2, -1)
        chances = torch.stack([self.net.log_prob(theta, x), self.net.log_prob(other, x)])
        return -(chances - prior_log_prob).log_softmax(0)[0].mean()

    def train(self, steps):
        theta = torch.cat([theta for theta, x in self.rounds]).to(self.device)
        x = torch.cat([x for theta, x in self.rounds]).to(self.device)
        if self.net is None:
            self.net = DensityEstimator(x.shape[1], theta.shape[1]).to(self.device)
        optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01, foreach=False)
        for _ in range(steps):
            loss = self.loss(theta, x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.losses.append(loss.item())
        self.round += 1

# === rounded_layer_by_layer
# thread: https://github.com/deepseek-ai/DeepSeek-R1/issues/554
# about: a model that is too large for the GPU is rounded to few bits a layer at a time. What its first layer is given is caught, so what stands before the layers goes to the GPU first
# operation: bmm|matmul on cpu, cuda:0
# operands: mat2|self|inv_freq.*|position_ids.*
# category: module-split
# line: quantize.py: OUTSIDE_LAYERS = (
# line: quantize.py: model.get_submodule(name).to(device)
# line: modeling.py: freqs = inv_freq @ position_ids
# line: quantize.py: position_ids = torch.arange(
# repair: quantize.py: OUTSIDE_LAYERS = ("embed_tokens", "norm") -> OUTSIDE_LAYERS = ("embed_tokens", "norm", "rotary_emb")
import torch

from modeling import LlamaModel
from quantize import quantize

torch.manual_seed(0)
model = LlamaModel(vocabulary=12, width=8, depth=3).eval()
examples = [torch.tensor([[1, 5, 2, 9]]), torch.tensor([[4, 4, 11]])]
device = "cuda:0" if torch.cuda.is_available() else "cpu"
errors = quantize(model, examples, bits=4, device=device)
for name, error in errors.items():
    print(name, round(error, 5))
# --- modeling.py
import torch
from torch import nn

def rotated(x, cos, sin):
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin

class RotaryEmbedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, width, 2) / width), persistent=False)

    def forward(self, position_ids):
        inv_freq = self.inv_freq[None, :, None].expand(len(position_ids), -1, 1)
        position_ids = position_ids[:, None, :].float()
        freqs = inv_freq @ position_ids
        angles = freqs.transpose(1, 2).repeat(1, 1, 2)
        return angles.cos(), angles.sin()

class DecoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, x, position_embeddings):
        query, key = rotated(self.q_proj(x), *position_embeddings), rotated(self.k_proj(x), *position_embeddings)
        return x + nn.functional.scaled_dot_product_attention(query, key, self.v_proj(x), is_causal=True)

class LlamaModel(nn.Module):
    def __init__(self, vocabulary, width, depth):
        super().__init__()
        self.embed_tokens, self.rotary_emb, self.norm = nn.Embedding(vocabulary, width), RotaryEmbedding(width), nn.RMSNorm(width)
        self.layers = nn.ModuleList(DecoderLayer(width) for _ in range(depth))

    def forward(self, input_ids, position_ids):
        x = self.embed_tokens(input_ids)
        position_embeddings = self.rotary_emb(position_ids)
        for layer in self.layers:
            x = layer(x, position_embeddings=position_embeddings)
        return self.norm(x)
# --- quantize.py
import torch

OUTSIDE_LAYERS = ("embed_tokens", "norm")

class Caught(Exception):
    pass

def catch_inputs(model, examples, device):
    caught = []

    def store(module, args, kwargs):
        caught.append((args[0], kwargs))
        raise Caught

    for name in OUTSIDE_LAYERS:
        model.get_submodule(name).to(device)
    handle = model.layers[0].register_forward_pre_hook(store, with_kwargs=True)
    for input_ids in examples:
        position_ids = torch.arange(input_ids.shape[1], device=device)[None]
        try:
            model(input_ids.to(device), position_ids)
        except Caught:
            pass
    handle.remove()
    return caught

@torch.no_grad()
def quantize(model, examples, bits, device):
    inputs, errors = catch_inputs(model, examples, device), {}
    for index, layer in enumerate(model.layers):
        layer.to(device)
        before = [layer(x, **kwargs) for x, kwargs in inputs]
        for weight in layer.parameters():
            step = weight.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
            weight.copy_((weight / step).round() * step)
        after = [layer(x, **kwargs) for x, kwargs in inputs]
        errors[f"layers.{index}"] = sum((a - b).square().mean().item() for a, b in zip(after, before))
        inputs = [(x, kwargs) for x, (_, kwargs) in zip(after, inputs)]
        layer.to("cpu")
    return errors

# === a_test_that_knows_one_gpu
# thread: https://github.com/huggingface/peft/pull/3228
# about: tests of adapters were written on a machine with one GPU. On another they put a model where there is most room
# operation: embedding|index_select on cuda:1, cuda:0
# operands: index|input.*|indices
# category: default-or-current-device|input-not-moved
# line: tests.py: inputs = torch.arange(
# line: tests.py: before = model(
# repair: tests.py: inputs = torch.arange(10).view(-1, 1).to(0) -> inputs = torch.arange(10).view(-1, 1).to(model.device)
import torch
from peft import LoraConfig, VeraConfig
from transformers import OPTConfig, OPTForCausalLM

from tests import MergeTests

CONFIGS = {
    "lora": LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False),
    "vera": VeraConfig(r=4, target_modules=["q_proj", "v_proj"], init_weights=False, projection_prng_key=3),
}

def tiny():
    torch.manual_seed(0)
    return OPTForCausalLM(OPTConfig(vocab_size=16, hidden_size=16, ffn_dim=24, word_embed_proj_dim=16, num_hidden_layers=2, num_attention_heads=2, dropout=0.0))

tests = MergeTests(tiny)
for name, config in CONFIGS.items():
    score, difference = tests.test_merge(config)
    print(name, "score", round(score, 4), "merged within 1e-4", difference < 1e-4)
# --- tests.py
import torch
from peft import get_peft_model

def roomiest_device():
    free = {index: torch.cuda.mem_get_info(index)[0] for index in range(torch.cuda.device_count())}
    return torch.device("cuda", max(sorted(free, reverse=True), key=free.get)) if free else torch.device("cpu")

class MergeTests:
    def __init__(self, factory):
        self.factory = factory
        self.device = roomiest_device()

    def base(self):
        return self.factory().to(self.device).eval()

    @torch.inference_mode()
    def test_merge(self, config):
        model = self.base()
        inputs = torch.arange(10).view(-1, 1).to(0)
        before = model(inputs).logits
        torch.manual_seed(1)
        model = get_peft_model(model, config).eval()
        adapted = model(inputs).logits
        merged = model.merge_and_unload()(inputs).logits
        assert not torch.allclose(before, adapted, atol=1e-5)
        return adapted.logsumexp(-1).mean().item(), (adapted - merged).abs().max().item()
