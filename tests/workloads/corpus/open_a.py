# === dpo_reference_device
# thread: https://github.com/huggingface/trl/pull/1190
# about: each model scores on its own device, the loss takes both scores
# operation: sub on cuda:0, cuda:1
# operands: policy_chosen_logps|chosen_logps, reference_chosen_logps
# category: input-not-moved|module-split
# line: dpo_trainer.py: chosen_logratios = policy_chosen_logps - reference_chosen_logps
# line: dpo_trainer.py: rejected_logratios = policy_rejected_logps - reference_rejected_logps
# line: dpo_trainer.py: reference = self.concatenated_forward(self.ref_model, batch)
# line: dpo_trainer.py: return logps[:half], logps[half:]
# line: dpo_trainer.py: losses, rewards = self.dpo_loss(
# line: main.py: reference = GPT2LMHeadModel(config).to("cuda:1")
# repair: dpo_trainer.py: chosen_logratios = policy_chosen_logps - reference_chosen_logps -> chosen_logratios = policy_chosen_logps.to(self.device) - reference_chosen_logps.to(self.device)
# repair: dpo_trainer.py: rejected_logratios = policy_rejected_logps - reference_rejected_logps -> rejected_logratios = policy_rejected_logps.to(self.device) - reference_rejected_logps.to(self.device)
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from dpo_trainer import DPOTrainer

torch.manual_seed(0)
config = GPT2Config(vocab_size=30, n_positions=16, n_embd=8, n_layer=2, n_head=2, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)
policy = GPT2LMHeadModel(config).to("cuda:0")
reference = GPT2LMHeadModel(config).to("cuda:1")
pairs = [
    {"prompt": [3, 8], "chosen": [5, 9, 2], "rejected": [7, 7, 2]},
    {"prompt": [4, 6], "chosen": [11, 12, 2], "rejected": [20, 1, 2]},
]
trainer = DPOTrainer(policy, reference, beta=0.1, device=torch.device("cuda:0"))
losses = [trainer.training_step(pairs) for _ in range(2)]
print("dpo", [round(loss, 3) for loss in losses])
# --- dpo_trainer.py
import torch
import torch.nn.functional as F


class DPOTrainer:
    def __init__(self, model, ref_model, beta, device):
        self.model, self.ref_model, self.beta, self.device = model, ref_model.eval(), beta, device
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def concatenated_inputs(self, pairs):
        """First all that were chosen, then all that were rejected."""
        rows = [pair["prompt"] + pair[which] for which in ("chosen", "rejected") for pair in pairs]
        return {"input_ids": torch.tensor(rows), "prompt_length": len(pairs[0]["prompt"])}

    def concatenated_forward(self, model, batch):
        input_ids = batch["input_ids"].to(model.device)
        logits = model(input_ids=input_ids).logits[:, :-1]
        per_token = logits.log_softmax(-1).gather(2, input_ids[:, 1:, None]).squeeze(2)
        logps = per_token[:, batch["prompt_length"] - 1 :].sum(-1)
        half = len(logps) // 2
        return logps[:half], logps[half:]

    def dpo_loss(self, policy_chosen_logps, policy_rejected_logps, reference_chosen_logps, reference_rejected_logps):
        chosen_logratios = policy_chosen_logps - reference_chosen_logps
        rejected_logratios = policy_rejected_logps - reference_rejected_logps
        losses = -F.logsigmoid(self.beta * (chosen_logratios - rejected_logratios))
        return losses, self.beta * chosen_logratios.detach()

    def training_step(self, pairs):
        batch = self.concatenated_inputs(pairs)
        policy = self.concatenated_forward(self.model, batch)
        with torch.no_grad():
            reference = self.concatenated_forward(self.ref_model, batch)
        losses, rewards = self.dpo_loss(*policy, *reference)
        self.optimizer.zero_grad()
        losses.mean().backward()
        self.optimizer.step()
        return losses.mean().item() + rewards.mean().item()

# === ema_of_the_cpu
# thread: https://github.com/huggingface/diffusers/pull/2382
# about: the average is a copy from before the model was moved, and no part of it; raised in diffusers
# operation: sub on cpu, cuda:0
# operands: s_param, param
# category: state-not-registered|cached-state
# line: train.py: ema_unet = EMAModel(
# line: train.py: unet, optimizer, loader = accelerator.prepare(
# line: train.py: ema_unet.step(
# line: train.py: unet = UNet2DModel(
# repair: train.py: ema_unet = EMAModel(unet.parameters(), decay=0.9) -> ema_unet = EMAModel(unet.parameters(), decay=0.9); ema_unet.to(accelerator.device)
import torch

from train import train

if __name__ == "__main__":
    torch.manual_seed(0)
    unet, ema_unet, loss = train(torch.rand(4, 1, 8, 8), epochs=1)
    with torch.no_grad():
        apart = sum((shadow - param).abs().sum().item() for shadow, param in zip(ema_unet.shadow_params, unet.parameters()))
    print("loss", round(loss, 3), "steps", ema_unet.optimization_step, "average apart", round(apart, 2))
# --- train.py
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel


def train(images, epochs):
    accelerator = Accelerator()
    scheduler = DDPMScheduler(num_train_timesteps=10)
    unet = UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, block_out_channels=(8, 8), layers_per_block=1, norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
    )
    ema_unet = EMAModel(unet.parameters(), decay=0.9)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(images, batch_size=2)
    unet, optimizer, loader = accelerator.prepare(unet, optimizer, loader)
    for _ in range(epochs):
        for clean in loader:
            noise = torch.randn(clean.shape).to(clean.device)
            timesteps = torch.randint(0, 10, (len(clean),)).to(clean.device)
            noisy = scheduler.add_noise(clean, noise, timesteps)
            loss = F.mse_loss(unet(noisy, timesteps).sample, noise)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            ema_unet.step(unet.parameters())
    return unet, ema_unet, loss.item()

# === f1_in_step
# thread: https://github.com/Lightning-AI/torchmetrics/issues/340
# about: a metric that is made anew in each step is no part of the module, which is what Lightning moves
# operation: add on cpu, cuda:0
# operands: tp, tp
# category: state-not-registered|created-without-device
# error: on the same device|different devices in metric calculation
# line: classify.py: f1 = MulticlassF1Score(
# line: classify.py: self.loss_fn = nn.CrossEntropyLoss()
# repair: classify.py: f1 = MulticlassF1Score(num_classes=self.num_classes)(preds, y) -> f1 = MulticlassF1Score(num_classes=self.num_classes).to(self.device)(preds, y)
import logging
import warnings

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from classify import ImageNetClassify

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.manual_seed(0)
images, labels = torch.rand(8, 3, 4, 4), torch.arange(8) % 3
loader = DataLoader(TensorDataset(images, labels), batch_size=4)
trainer = lightning.Trainer(
    accelerator="cuda", devices=1, max_epochs=1, num_sanity_val_steps=0, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(ImageNetClassify(num_classes=3), loader, loader)
print({name: round(trainer.callback_metrics[name].item(), 3) for name in ("val_acc", "val_f1", "val_loss")})
# --- classify.py
import lightning
import torch
from torch import nn
from torchmetrics.classification import MulticlassF1Score
from torchmetrics.functional import accuracy


class ImageNetClassify(lightning.LightningModule):
    def __init__(self, num_classes):
        super().__init__()
        self.num_classes = num_classes
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, num_classes))
        self.loss_fn = nn.CrossEntropyLoss()

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return self.loss_fn(self(x), y)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = self.loss_fn(logits, y)
        preds = torch.argmax(logits, dim=1)
        acc = accuracy(preds, y, task="multiclass", num_classes=self.num_classes)
        f1 = MulticlassF1Score(num_classes=self.num_classes)(preds, y)
        self.log("val_loss", loss)
        self.log("val_acc", acc)
        self.log("val_f1", f1)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

# === fast_loss_buffers
# thread: https://github.com/unslothai/unsloth/issues/996
# about: the buffers that the kernel writes to are on the first card, the model is on the second
# operation: masked_fill on cuda:0, cuda:1
# operands: losses, labels|mask|labels == -100
# category: default-or-current-device
# error: expected self and mask to be on the same device
# line: cross_entropy_loss.py: losses, logsumexp =
# repair: cross_entropy_loss.py: losses, logsumexp = (torch.empty(n_rows, dtype=torch.float32, device="cuda:0") for _ in range(2)) -> losses, logsumexp = (torch.empty(n_rows, dtype=torch.float32, device=logits.device) for _ in range(2))
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from cross_entropy_loss import fast_cross_entropy_loss


class FastLlamaForCausalLM(LlamaForCausalLM):
    def forward(self, input_ids, labels):
        hidden_states = self.model(input_ids).last_hidden_state
        logits = self.lm_head(hidden_states)
        shift_labels = torch.cat((labels[:, 1:], torch.full_like(labels[:, :1], -100)), dim=1)
        return fast_cross_entropy_loss(logits, shift_labels)


if __name__ == "__main__":
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=24, hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2
    )
    model = FastLlamaForCausalLM(config).to("cuda:1")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    input_ids = torch.randint(0, 24, (2, 6)).to(model.device)
    labels = input_ids.masked_fill(torch.arange(6).to(model.device) < 2, -100)
    for step in range(2):
        loss = model(input_ids, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("loss", round(loss.item(), 3))
# --- cross_entropy_loss.py
import torch


def cross_entropy_kernel(logits, labels, losses, logsumexp):
    """Writes both, a row at a time."""
    for row, label in enumerate(labels.tolist()):
        total = logits[row].logsumexp(-1)
        logsumexp[row] = total
        losses[row] = total - logits[row, max(label, 0)]


class Fast_CrossEntropyLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels):
        n_rows, vocab_size = logits.shape
        losses, logsumexp = (torch.empty(n_rows, dtype=torch.float32, device="cuda:0") for _ in range(2))
        cross_entropy_kernel(logits, labels, losses, logsumexp)
        losses.masked_fill_(labels == -100, 0)
        ctx.save_for_backward(logits, logsumexp, labels)
        return losses

    @staticmethod
    def backward(ctx, dlosses):
        logits, logsumexp, labels = ctx.saved_tensors
        grad = (logits - logsumexp[:, None]).exp()
        grad.scatter_add_(1, labels.clamp_min(0)[:, None], torch.full_like(grad[:, :1], -1.0))
        return grad * (dlosses * (labels != -100))[:, None], None


def fast_cross_entropy_loss(logits, labels):
    batch, seq_len, d = logits.shape
    loss = Fast_CrossEntropyLoss.apply(logits.view(batch * seq_len, d), labels.reshape(-1))
    return loss.sum() / torch.count_nonzero(labels != -100)

# === items_in_batch
# thread: https://github.com/unslothai/unsloth-zoo/pull/147
# about: two numbers of no dimensions, the loss on the last card and the count on the first
# operation: div on cuda:1, cuda:0
# operands: loss, num_items_in_batch|n_items
# category: module-split|input-not-moved
# line: fused_loss.py: return loss / n_items
# line: fused_loss.py: loss = F.cross_entropy(
# line: main.py: return fused_linear_cross_entropy(
# line: trainer.py: return num_items_in_batch.to(self.device)
# repair: fused_loss.py: return loss / n_items -> return loss / n_items.to(loss.device)
import torch
from accelerate import dispatch_model
from transformers import Qwen2Config, Qwen2ForCausalLM

from fused_loss import fused_linear_cross_entropy
from trainer import Trainer


class FusedQwen2(Qwen2ForCausalLM):
    def forward(self, input_ids, labels=None, num_items_in_batch=None):
        hidden_states = self.model(input_ids=input_ids).last_hidden_state
        return fused_linear_cross_entropy(self.lm_head, hidden_states, labels, num_items_in_batch)


if __name__ == "__main__":
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=24, hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2
    )
    device_map = {
        "model.embed_tokens": 0, "model.rotary_emb": 0, "model.layers.0": 0, "model.layers.1": 1, "model.norm": 1, "lm_head": 1
    }
    model = dispatch_model(FusedQwen2(config), device_map)
    examples = [{"input_ids": [1, 5, 9, 4], "labels": [-100, 5, 9, 4]}, {"input_ids": [2, 7, 3, 3], "labels": [-100, -100, 3, 3]}]
    print("losses", [round(loss, 3) for loss in Trainer(model, "cuda:0").train([examples[:1], examples[1:]], steps=2)])
# --- fused_loss.py
import torch.nn.functional as F


def fused_linear_cross_entropy(lm_head, hidden_states, labels, n_items):
    logits = lm_head(hidden_states)
    shift_logits, shift_labels = logits[:, :-1], labels[:, 1:].to(logits.device)
    loss = F.cross_entropy(shift_logits.reshape(-1, logits.shape[-1]), shift_labels.reshape(-1), ignore_index=-100, reduction="sum")
    return loss / n_items
# --- trainer.py
import torch


class Trainer:
    """Its batches are gradient accumulation's: all that are of one step know how many tokens the step has."""

    def __init__(self, model, device):
        self.model, self.device = model, torch.device(device)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def collate(self, examples):
        return {key: torch.tensor([example[key] for example in examples]).to(self.device) for key in examples[0]}

    def count(self, batches):
        num_items_in_batch = sum(batch["labels"][:, 1:].ne(-100).sum() for batch in batches)
        return num_items_in_batch.to(self.device)

    def train(self, batches, steps):
        batches, losses = [self.collate(examples) for examples in batches], []
        for _ in range(steps):
            num_items_in_batch, total = self.count(batches), 0.0
            for batch in batches:
                loss = self.model(**batch, num_items_in_batch=num_items_in_batch)
                loss.backward()
                total += loss.item()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(total)
        return losses

# === latents_mean_offload
# thread: https://github.com/huggingface/diffusers/issues/8523
# about: a pipeline that is offloaded says it is on the CPU; where it computes it says elsewhere
# operation: sub on cuda:0, cpu
# operands: init_latents, latents_mean
# category: created-without-device|default-or-current-device|module-split
# line: pipeline.py: latents_mean = torch.tensor(
# line: pipeline.py: latents_std = torch.tensor(
# line: pipeline.py: init_latents = (init_latents - latents_mean)
# repair: pipeline.py: latents_mean = torch.tensor(self.vae.config.latents_mean).view(1, -1, 1, 1).to(self.device, dtype) -> latents_mean = torch.tensor(self.vae.config.latents_mean).view(1, -1, 1, 1).to(device, dtype)
# repair: pipeline.py: latents_std = torch.tensor(self.vae.config.latents_std).view(1, -1, 1, 1).to(self.device, dtype) -> latents_std = torch.tensor(self.vae.config.latents_std).view(1, -1, 1, 1).to(device, dtype)
import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DModel

from pipeline import PlaygroundImg2ImgPipeline

torch.manual_seed(0)
vae = AutoencoderKL(
    block_out_channels=(8, 8), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    latent_channels=4, norm_num_groups=4, sample_size=16, latents_mean=[-1.6, 1.1, 0.4, 0.6], latents_std=[8.4, 5.9, 6.1, 5.2],
)
unet = UNet2DModel(
    sample_size=8, in_channels=4, out_channels=4, block_out_channels=(8, 8), layers_per_block=1, norm_num_groups=4,
    down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
)
pipe = PlaygroundImg2ImgPipeline(vae.eval(), unet.eval(), DDIMScheduler(num_train_timesteps=100))
pipe.set_progress_bar_config(disable=True)
pipe.enable_model_cpu_offload()
images = pipe(torch.linspace(-1, 1, 3 * 16 * 16).view(1, 3, 16, 16), strength=0.5, num_inference_steps=4)
print("images", tuple(images.shape), round(images.abs().mean().item(), 3))
# --- pipeline.py
import torch
from diffusers import DiffusionPipeline


class PlaygroundImg2ImgPipeline(DiffusionPipeline):
    model_cpu_offload_seq = "unet->vae"

    def __init__(self, vae, unet, scheduler):
        super().__init__()
        self.register_modules(vae=vae, unet=unet, scheduler=scheduler)

    @property
    def device(self):
        """Of the first model of it, as diffusers once told it."""
        return self.unet.device

    def prepare_latents(self, image, timestep, dtype, device):
        image = image.to(device, dtype)
        init_latents = self.vae.encode(image).latent_dist.mode().to(dtype)
        latents_mean = torch.tensor(self.vae.config.latents_mean).view(1, -1, 1, 1).to(self.device, dtype)
        latents_std = torch.tensor(self.vae.config.latents_std).view(1, -1, 1, 1).to(self.device, dtype)
        init_latents = (init_latents - latents_mean) * self.vae.config.scaling_factor / latents_std
        noise = torch.linspace(-2, 2, init_latents.numel()).view(init_latents.shape).to(device, dtype)
        return self.scheduler.add_noise(init_latents, noise, timestep)

    @torch.no_grad()
    def __call__(self, image, strength, num_inference_steps):
        device = self._execution_device
        self.scheduler.set_timesteps(num_inference_steps, device=device)
        timesteps = self.scheduler.timesteps[int(num_inference_steps * (1 - strength)) :]
        latents = self.prepare_latents(image, timesteps[:1], torch.float32, device)
        for t in self.progress_bar(timesteps):
            noise_pred = self.unet(latents, t).sample
            latents = self.scheduler.step(noise_pred, t, latents).prev_sample
        images = self.vae.decode(latents / self.vae.config.scaling_factor).sample
        self.maybe_free_model_hooks()
        return images

# === processed_in_forward
# thread: https://github.com/Lightning-AI/pytorch-lightning/issues/20276
# about: the batch is words; what they are made into in the step is nothing that Lightning moves
# operation: index_select|embedding on cuda:0, cpu
# operands: weight, input_ids|input
# category: created-without-device|input-not-moved
# line: icv_model.py: query_inputs = self.lmm.process_input(
# line: lmm.py: return {"input_ids": torch.tensor(
# line: icv_model.py: **query_inputs
# line: lmm.py: return self.processor(texts)
# repair: icv_model.py: query_inputs = self.lmm.process_input(query_answer) -> query_inputs = {name: value.to(self.device) for name, value in self.lmm.process_input(query_answer).items()}
import logging
import warnings

import lightning
import torch
from torch.utils.data import DataLoader

from icv_model import ICVModel
from lmm import LMM

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.manual_seed(0)
samples = [{"query": "what is this", "answer": "a cat"}, {"query": "and this here", "answer": "a dog"}] * 2
model = ICVModel(LMM(), torch.nn.Embedding(1, 8))
trainer = lightning.Trainer(
    accelerator="cuda", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(model, DataLoader(samples, batch_size=2))
print("icv", round(model.icv_encoder.weight.abs().sum().item(), 3), "loss", round(trainer.callback_metrics["loss"].item(), 3))
# --- icv_model.py
import lightning
import torch


class ICVModel(lightning.LightningModule):
    """Learns a vector that is added to the embeddings of a model that stays as it is."""

    def __init__(self, lmm, icv_encoder):
        super().__init__()
        self.lmm = lmm
        self.lmm.requires_grad_(False)
        self.icv_encoder = icv_encoder
        self.eos_token = lmm.processor.eos_token

    def forward(self, query_texts, answers):
        query_answer = [f"{query} {answer} {self.eos_token}" for query, answer in zip(query_texts, answers)]
        query_inputs = self.lmm.process_input(query_answer)
        query_outputs = self.lmm(
            **query_inputs, labels=query_inputs["input_ids"], icv=self.icv_encoder.weight
        )
        return query_outputs.loss

    def training_step(self, batch, batch_idx):
        loss = self(batch["query"], batch["answer"])
        self.log("loss", loss, batch_size=2)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.icv_encoder.parameters(), lr=0.1)
# --- lmm.py
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


class Processor:
    eos_token = "</s>"

    def __init__(self):
        self.vocabulary = ["<pad>", "</s>", "what", "is", "this", "and", "here", "a", "cat", "dog"]

    def __call__(self, texts):
        ids = [[self.vocabulary.index(word) for word in text.split()] for text in texts]
        return {"input_ids": torch.tensor(ids), "attention_mask": torch.ones(len(ids), len(ids[0]), dtype=torch.long)}


class LMM(nn.Module):
    """A model and its processor."""

    def __init__(self):
        super().__init__()
        self.processor = Processor()
        config = GPT2Config(vocab_size=10, n_positions=16, n_embd=8, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=1)
        self.model = GPT2LMHeadModel(config).eval()

    def process_input(self, texts):
        return self.processor(texts)

    def forward(self, input_ids, attention_mask, labels, icv):
        embeds = self.model.get_input_embeddings()(input_ids) + icv
        self.model.eval()
        return self.model(inputs_embeds=embeds, attention_mask=attention_mask, labels=labels)

# === steered_shard
# thread: https://github.com/science-of-finetuning/diffing-toolkit/pull/81
# about: the vector is on the device of the arguments, the layer where accelerate has put it
# operation: add on cuda:1, cuda:0
# operands: hidden|activations|output, latent|steering|vector
# category: module-split|input-not-moved
# line: steering.py: self.latent = latent.to(device)
# line: steering.py: steered = hidden + self.strength * self.latent
# line: main.py: steering = LatentSteering(
# line: main.py: device = "cuda:0"
# repair: steering.py: self.latent = latent.to(device) -> self.latent = latent.to(next(layer.parameters()).device)
import torch
from accelerate import dispatch_model
from transformers import LlamaConfig, LlamaForCausalLM

from steering import LatentSteering

torch.manual_seed(0)
device = "cuda:0"
config = LlamaConfig(
    vocab_size=32, hidden_size=8, intermediate_size=16, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2,
    bos_token_id=1, eos_token_id=None, pad_token_id=0,
)
device_map = {f"model.layers.{i}": i // 2 for i in range(4)}
device_map |= {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "lm_head": 1}
model = dispatch_model(LlamaForCausalLM(config).eval(), device_map)
decoder = torch.nn.functional.normalize(torch.randn(5, 8), dim=1)
prompt = torch.tensor([[1, 9, 17]]).to(device)
texts = []
for index in (1, 4):
    steering = LatentSteering(model.model.layers[2], decoder[index], strength=4.0, device=device)
    with steering:
        texts.append(model.generate(prompt, max_new_tokens=4, do_sample=False)[0].tolist())
print("steered", texts)
# --- steering.py
class LatentSteering:
    """While it is entered, what the layer gives is moved along a latent's direction."""

    def __init__(self, layer, latent, strength, device):
        self.layer, self.strength = layer, strength
        self.latent = latent.to(device)
        self.handle = None

    def hook(self, module, args, output):
        hidden = output[0] if isinstance(output, tuple) else output
        steered = hidden + self.strength * self.latent
        return (steered, *output[1:]) if isinstance(output, tuple) else steered

    def __enter__(self):
        self.handle = self.layer.register_forward_hook(self.hook)
        return self

    def __exit__(self, *error):
        self.handle.remove()

# === stop_token_cuda
# thread: https://github.com/unslothai/unsloth/pull/10684
# about: "cuda" is the first card, whichever the model is on
# operation: eq on cuda:1, cuda:0
# operands: last_tokens|input_ids, stop_token
# category: default-or-current-device
# line: chat_templates.py: self.stop_token = torch.tensor(stop_ids
# line: chat_templates.py: stopped = (last_tokens == self.stop_token)
# line: chat_templates.py: def __init__(self, stop_ids, device="cuda"
# line: chat_templates.py: return StoppingCriteriaList(
# repair: chat_templates.py: stopped = (last_tokens == self.stop_token).all(dim=1) -> self.stop_token = self.stop_token.to(input_ids.device); stopped = (last_tokens == self.stop_token).all(dim=1)
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from chat_templates import create_stopping_criteria

WORDS = ["<pad>", "<s>", "<|im_end|>", *(chr(ord("a") + i) for i in range(26))]


def load_model(device):
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(WORDS), n_positions=32, n_embd=8, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=None, pad_token_id=0)
    return GPT2LMHeadModel(config).to(device).eval()


def chat(model, prompt, stop_word):
    ids = torch.tensor([[1, *(WORDS.index(letter) for letter in prompt)]]).to(model.device)
    stopping_criteria = create_stopping_criteria(WORDS, stop_word)
    return model.generate(ids, max_new_tokens=8, do_sample=False, stopping_criteria=stopping_criteria)[0].tolist()


if __name__ == "__main__":
    model = load_model("cuda:1")
    print("answer", chat(model, "hello", stop_word="m"))
# --- chat_templates.py
import torch
from transformers import StoppingCriteria, StoppingCriteriaList


class StoppingCriteriaSub(StoppingCriteria):
    def __init__(self, stop_ids, device="cuda", encounters=1):
        super().__init__()
        self.stop_token = torch.tensor(stop_ids, device=device)
        self.encounters, self.seen = encounters, 0

    def __call__(self, input_ids, scores, **kwargs):
        last_tokens = input_ids[:, -len(self.stop_token) :]
        stopped = (last_tokens == self.stop_token).all(dim=1)
        self.seen += int(stopped.any())
        return stopped & (self.seen >= self.encounters)


def create_stopping_criteria(words, stop_word):
    return StoppingCriteriaList([StoppingCriteriaSub([words.index(stop_word)])])

# === vera_shared_buffers
# thread: https://github.com/huggingface/peft/pull/2163
# about: two buffers for all layers, which are on more cards than one
# operation: addmm|linear|mm on cuda:1, cuda:0
# operands: x|input, sliced_A|vera_A
# category: module-split|tied-weights
# line: vera.py: sliced_A = self.vera_A[
# line: vera.py: sliced_B = self.vera_B[
# line: vera.py: result = result + lambda_b * F.linear(
# line: vera.py: adapter = VeraLinear(
# line: vera.py: self.vera_A, self.vera_B = vera_A, vera_B
# repair: vera.py: sliced_A = self.vera_A[:, : self.base_layer.in_features] -> sliced_A = self.vera_A[:, : self.base_layer.in_features].to(x.device)
# repair: vera.py: sliced_B = self.vera_B[: self.base_layer.out_features] -> sliced_B = self.vera_B[: self.base_layer.out_features].to(x.device)
import torch
from accelerate import dispatch_model
from transformers import OPTConfig, OPTForCausalLM

from vera import VeraConfig, VeraModel

torch.manual_seed(0)
config = OPTConfig(
    vocab_size=32, hidden_size=8, word_embed_proj_dim=8, ffn_dim=16, num_hidden_layers=2, num_attention_heads=2,
    max_position_embeddings=16, dropout=0.0, tie_word_embeddings=False,
)
base = "model.decoder."
device_map = {base + "embed_tokens": 0, base + "embed_positions": 0, base + "layers.0": 0, base + "layers.1": 1}
device_map |= {base + "final_layer_norm": 1, "lm_head": 1}
model = VeraModel(dispatch_model(OPTForCausalLM(config), device_map), VeraConfig(r=4, target_modules=("q_proj", "v_proj")))
optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=0.5)
input_ids = torch.tensor([[3, 9, 14, 5]]).to("cuda:0")
for step in range(2):
    loss = model(input_ids=input_ids, labels=input_ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
trainable = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
print("trainable", trainable, "loss", round(loss.item(), 3))
# --- vera.py
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class VeraConfig:
    r: int
    target_modules: tuple
    d_initial: float = 0.1


class VeraLinear(nn.Module):
    """Random matrices that all layers share, and a layer's own scales of them."""

    def __init__(self, base_layer, vera_A, vera_B, config):
        super().__init__()
        self.base_layer = base_layer
        self.vera_A, self.vera_B = vera_A, vera_B
        device = base_layer.weight.device
        self.vera_lambda_d = nn.Parameter(torch.full((config.r,), config.d_initial, device=device))
        self.vera_lambda_b = nn.Parameter(torch.ones(base_layer.out_features, device=device))

    def forward(self, x):
        result = self.base_layer(x)
        lambda_d, lambda_b = self.vera_lambda_d, self.vera_lambda_b
        sliced_A = self.vera_A[:, : self.base_layer.in_features]
        sliced_B = self.vera_B[: self.base_layer.out_features]
        result = result + lambda_b * F.linear(lambda_d * F.linear(x, sliced_A), sliced_B)
        return result


class VeraModel(nn.Module):
    def __init__(self, model, config):
        super().__init__()
        self.model = model.requires_grad_(False)
        targets = [name for name, part in model.named_modules() if name.endswith(config.target_modules)]
        widest_in = max(model.get_submodule(name).in_features for name in targets)
        widest_out = max(model.get_submodule(name).out_features for name in targets)
        device = model.get_submodule(targets[0]).weight.device
        self.vera_A = nn.Buffer(torch.randn(config.r, widest_in).to(device))
        self.vera_B = nn.Buffer(torch.randn(widest_out, config.r).to(device))
        for name in targets:
            parent, _, child = name.rpartition(".")
            adapter = VeraLinear(model.get_submodule(name), self.vera_A, self.vera_B, config)
            setattr(model.get_submodule(parent), child, adapter)

    def forward(self, **inputs):
        return self.model(**inputs)
