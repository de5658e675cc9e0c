# === speech_without_a_reference_text
# thread: https://github.com/RVC-Boss/GPT-SoVITS/issues/784
# about: text is spoken in the voice of a recording. What is said in the recording may be given too, and is, the first time
# operation: (embedding|index_select) on cuda:0, cpu
# operands: index|indices|y|input
# category: created-without-device
# line: t2s_model.py: y = torch.full((x.shape[0], 1), self.EOS)
# line: t2s_model.py: y_emb = self.ar_audio_embedding(y)
# line: t2s_model.py: y, y_emb = self.begin(x, prompts)
# repair: t2s_model.py: y = torch.full((x.shape[0], 1), self.EOS) -> y = torch.full((x.shape[0], 1), self.EOS, device=x.device)
import torch

from inference_webui import TTS

config = {"phonemes": 28, "vocab": 16, "width": 12, "top_k": 4, "max_sec": 9, "device": "cuda"}

if __name__ == "__main__":
    torch.manual_seed(784)
    tts = TTS(config)
    ref_wav = torch.linspace(0.0, 60.0, 96).sin()
    for prompt_text in ("hello there", None):
        audio = tts.get_tts_wav(ref_wav, prompt_text, "good morning")
    print(f"samples {len(audio)}, power {audio.square().mean().item():.5f}, last {audio[-1].item():.5f}")
# --- text.py
SYMBOLS = " abcdefghijklmnopqrstuvwxyz"


def cleaned_text_to_sequence(text):
    return [SYMBOLS.index(symbol) + 1 for symbol in text.lower() if symbol in SYMBOLS]
# --- t2s_model.py
import torch
from torch import nn
from torch.nn import functional as F


class Text2SemanticDecoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.EOS = config["vocab"]
        self.ar_text_embedding = nn.Embedding(config["phonemes"], config["width"])
        self.bert_proj = nn.Linear(4, config["width"])
        self.ar_audio_embedding = nn.Embedding(config["vocab"] + 1, config["width"])
        self.h = nn.GRU(config["width"], config["width"], batch_first=True)
        self.ar_predict_layer = nn.Linear(config["width"], config["vocab"], bias=False)

    def begin(self, x, prompts):
        if prompts is not None:
            y = prompts
        else:
            y = torch.full((x.shape[0], 1), self.EOS)
        y_emb = self.ar_audio_embedding(y)
        return y, y_emb

    def infer_panel(self, x, prompts, bert_feature, top_k, max_len):
        x = self.ar_text_embedding(x) + self.bert_proj(bert_feature.transpose(1, 2))
        y, y_emb = self.begin(x, prompts)
        prefix_len = y.shape[1]
        xy_pos = torch.cat([x, y_emb], dim=1)
        for _ in range(max_len):
            xy_dec, _ = self.h(xy_pos)
            logits = self.ar_predict_layer(xy_dec[:, -1])
            samples = self.sample(logits, y, top_k)
            y = torch.cat([y, samples], dim=1)
            xy_pos = torch.cat([xy_pos, self.ar_audio_embedding(samples)], dim=1)
        return y[:, prefix_len:]

    def sample(self, logits, previous_tokens, top_k, repetition_penalty=1.35):
        seen = previous_tokens[:, -3:].clamp(max=self.EOS - 1)
        score = torch.gather(logits, 1, seen)
        logits = logits.scatter(1, seen, torch.where(score < 0, score * repetition_penalty, score / repetition_penalty))
        values, indices = F.softmax(logits, dim=-1).topk(top_k, dim=-1)
        return indices.gather(1, values.argmax(dim=1, keepdim=True))
# --- inference_webui.py
import torch
from torch import nn

from t2s_model import Text2SemanticDecoder
from text import cleaned_text_to_sequence


class SynthesizerTrn(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.ssl_proj = nn.Conv1d(1, width, 8, stride=8)
        self.codebook = nn.Embedding(vocab, width)
        self.dec = nn.ConvTranspose1d(width, 1, 8, stride=8)

    def extract_latent(self, wav):
        latent = self.ssl_proj(wav[None, None])[0].t()
        return torch.cdist(latent, self.codebook.weight).argmin(dim=1)[None]

    def decode(self, codes, refer):
        tone = self.ssl_proj(refer[None, None]).mean(dim=2, keepdim=True)
        return torch.tanh(self.dec(self.codebook(codes).transpose(1, 2) + tone))[0, 0]


class TTS:
    def __init__(self, config):
        self.config, self.device = config, config["device"]
        self.t2s_model = Text2SemanticDecoder(config).to(self.device).eval()
        self.vq_model = SynthesizerTrn(config["vocab"], config["width"]).to(self.device).eval()

    def get_bert_inf(self, phones):
        steps = torch.arange(len(phones), dtype=torch.float32)
        return torch.stack([torch.cos(steps / (k + 1)) for k in range(4)])

    @torch.no_grad()
    def get_tts_wav(self, ref_wav, prompt_text, text):
        ref_free = prompt_text is None
        refer = ref_wav.to(self.device)
        prompt = self.vq_model.extract_latent(refer)
        phones = cleaned_text_to_sequence(text if ref_free else f"{prompt_text} {text}")
        bert = self.get_bert_inf(phones).to(self.device).unsqueeze(0)
        all_phoneme_ids = torch.LongTensor(phones).to(self.device).unsqueeze(0)
        pred_semantic = self.t2s_model.infer_panel(
            all_phoneme_ids,
            None if ref_free else prompt,
            bert,
            top_k=self.config["top_k"],
            max_len=self.config["max_sec"],
        )
        return self.vq_model.decode(pred_semantic, refer)

# === cells_segmented_within_boxes
# thread: https://github.com/vanvalenlab/cellSAM/pull/78
# about: a detector proposes boxes around the cells of a picture, and in each box a decoder says which pixels are the cell's
# operation: sub on cpu, cuda:0
# operands: self|x
# category: input-not-moved
# line: sam_inference.py: x = self.sam_resize(x)
# line: sam_inference.py: x = (x - self.model.pixel_mean) / self.model.pixel_std
# line: sam_inference.py: return torch.stack([self.sam_preprocess(
# line: sam_inference.py: embeddings = self.model.image_encoder(self.preprocess(images))
# line: cellsam_pipeline.py: images = [torch.from_numpy(
# repair: sam_inference.py: x = self.sam_resize(x) -> x = self.sam_resize(x).to(self.model.pixel_mean.device)
import numpy as np
import torch

from cellsam_pipeline import segment_cellular_image
from sam_inference import CellSAM


def picture(size, centers):
    rng = np.random.default_rng(78)
    rows, columns = np.mgrid[:size, :size]
    img = rng.normal(0.1, 0.02, (3, size, size))
    for row, column in centers:
        img[1:] += np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / 6.0)
    return img.astype(np.float32)


if __name__ == "__main__":
    torch.manual_seed(78)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = CellSAM({"img_size": 24, "patch": 4, "dim": 12, "bbox_threshold": 0.3}).eval()
    img = picture(20, [(5, 6), (13, 12)])
    mask, boxes, scores = segment_cellular_image(img, model, device=device)
    print(f"boxes {len(boxes)}, pixels {int((mask > 0).sum())}, scores", [f"{score:.5f}" for score in scores])
# --- modeling_sam.py
import torch
from torch import nn


class Sam(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.img_size = config["img_size"]
        dim, patch = config["dim"], config["patch"]
        self.image_encoder = nn.Sequential(nn.Conv2d(3, dim, patch, stride=patch), nn.GELU(), nn.Conv2d(dim, dim, 1))
        self.prompt_encoder = nn.Linear(4, dim)
        self.mask_decoder = nn.ConvTranspose2d(dim, 1, patch, stride=patch)
        self.register_buffer("pixel_mean", torch.tensor([0.12, 0.14, 0.14]).view(-1, 1, 1), persistent=False)
        self.register_buffer("pixel_std", torch.tensor([0.05, 0.2, 0.2]).view(-1, 1, 1), persistent=False)

    def decode(self, embedding, boxes):
        prompts = self.prompt_encoder(boxes / self.img_size)
        return self.mask_decoder(embedding * torch.sigmoid(prompts)[..., None, None])[:, 0]


class CellfinderHead(nn.Module):
    """Scores every patch, and gives it a box."""

    def __init__(self, config):
        super().__init__()
        self.patch = config["patch"]
        self.score = nn.Conv2d(config["dim"], 1, 1)
        self.shape = nn.Conv2d(config["dim"], 4, 1)

    def forward(self, embeddings):
        scores = torch.sigmoid(self.score(embeddings)).flatten(1)
        side = embeddings.shape[-1]
        index = torch.arange(side * side, device=embeddings.device)
        corner = torch.stack([index % side, index // side] * 2, dim=1) * self.patch
        grow = 4.0 * torch.sigmoid(self.shape(embeddings).flatten(2).transpose(1, 2))
        away = torch.tensor([-1.0, -1.0, 1.0, 1.0], device=embeddings.device)
        return scores, corner + away * grow + (away + 1.0) / 2 * self.patch
# --- sam_inference.py
import torch
from torch import nn
from torch.nn import functional as F

from modeling_sam import CellfinderHead, Sam


class CellSAM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = Sam(config)
        self.cellfinder = CellfinderHead(config)

    def sam_resize(self, x):
        size = self.model.img_size
        scale = size / max(x.shape[-2:])
        return F.interpolate(x[None], scale_factor=scale, mode="bilinear", align_corners=False)[0]

    def sam_preprocess(self, x):
        """Normalize pixel values and pad to a square input."""
        x = self.sam_resize(x)
        x = (x - self.model.pixel_mean) / self.model.pixel_std
        height, width = x.shape[-2:]
        return F.pad(x, (0, self.model.img_size - width, 0, self.model.img_size - height))

    def preprocess(self, images):
        return torch.stack([self.sam_preprocess(image) for image in images])

    def generate_bounding_boxes(self, embeddings):
        scores, boxes = self.cellfinder(embeddings)
        best = scores[0].topk(4).indices
        best = best[scores[0][best] > self.config["bbox_threshold"]]
        return boxes[0][best], scores[0][best]

    @torch.no_grad()
    def predict(self, images):
        embeddings = self.model.image_encoder(self.preprocess(images))
        boxes, scores = self.generate_bounding_boxes(embeddings)
        return self.model.decode(embeddings, boxes), boxes, scores
# --- cellsam_pipeline.py
import numpy as np
import torch


def normalize_image(img, low=1.0, high=99.0):
    bottom, top = np.percentile(img, (low, high), axis=(1, 2), keepdims=True)
    return np.clip((img - bottom) / (top - bottom), 0.0, 1.0).astype(np.float32)


def segment_cellular_image(img, model, normalize=True, device="cpu"):
    model = model.to(device)
    if normalize:
        img = normalize_image(img)
    images = [torch.from_numpy(img)]
    low_masks, boxes, scores = model.predict(images)
    height, width = img.shape[-2:]
    masks = torch.nn.functional.interpolate(low_masks[:, None], size=(height, width), mode="bilinear")[:, 0]
    labels = torch.zeros(height, width, dtype=torch.long, device=masks.device)
    for number, mask in enumerate(masks, 1):
        labels[mask > mask.mean()] = number
    return labels.cpu().numpy(), boxes.cpu().numpy(), scores.tolist()

# === steps_an_agent_remembers
# thread: https://github.com/p-christ/Deep-Reinforcement-Learning-Algorithms-with-PyTorch/pull/57
# about: agents learn to flip bits until they are as wished. Steps are kept in a buffer, and the network learns of some of them, drawn anew
# operation: (addmm|linear) on cpu, cuda:0
# operands: mat1|input|x|states
# category: default-or-current-device|input|input-not-moved
# line: DQN.py: self.memory = Replay_Buffer(config.hyperparameters["buffer_size"], config.hyperparameters["batch_size"], config.seed)
# line: Replay_Buffer.py: self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
# line: main.py: config.use_GPU = False
# line: DQN.py: states, actions, rewards, next_states, dones = self.memory.sample()
# repair: DQN.py: self.memory = Replay_Buffer(config.hyperparameters["buffer_size"], config.hyperparameters["batch_size"], config.seed) ->
#   self.memory = Replay_Buffer(config.hyperparameters["buffer_size"], config.hyperparameters["batch_size"], config.seed, self.device)
from DQN import DQN, Config
from environments import Bit_Flipping_Environment

config = Config()
config.seed = 1
config.environment = Bit_Flipping_Environment(4)
config.num_episodes_to_run = 14
config.use_GPU = False
config.hyperparameters = {
    "learning_rate": 0.01,
    "batch_size": 16,
    "buffer_size": 400,
    "epsilon": 0.5,
    "discount_rate": 0.9,
    "tau": 0.1,
}

if __name__ == "__main__":
    agent = DQN(config)
    agent.run_n_episodes()
    q_values = agent.q_values([0, 1, 0, 1, 1, 1, 1, 1])
    print("q", [f"{value:.4f}" for value in q_values], f"reward {sum(agent.game_scores):.1f}")
# --- environments.py
import random


class Bit_Flipping_Environment:
    def __init__(self, environment_dimension=20):
        self.environment_dimension = environment_dimension

    def reset(self):
        self.step_count = 0
        self.bits = [random.randint(0, 1) for _ in range(self.environment_dimension)]
        self.desired_goal = [1] * self.environment_dimension
        return self.bits + self.desired_goal

    def step(self, action):
        self.step_count += 1
        self.bits[action] = 1 - self.bits[action]
        goal_achieved = self.bits == self.desired_goal
        done = goal_achieved or self.step_count >= 2 * self.environment_dimension
        return self.bits + self.desired_goal, 4.0 if goal_achieved else -1.0, done
# --- Replay_Buffer.py
import random
from collections import deque, namedtuple

import numpy as np
import torch


class Replay_Buffer:
    """Replay buffer to store past experiences that the agent can then use for training data"""

    def __init__(self, buffer_size, batch_size, seed, device=None):
        self.memory = deque(maxlen=buffer_size)
        self.batch_size = batch_size
        self.experience = namedtuple("Experience", field_names=["state", "action", "reward", "next_state", "done"])
        self.random = random.Random(seed)
        if device:
            self.device = torch.device(device)
        else:
            self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

    def add_experience(self, *step):
        self.memory.append(self.experience(*step))

    def sample(self):
        experiences = self.random.sample(self.memory, k=self.batch_size)
        return self.separate_out_data_types(experiences)

    def separate_out_data_types(self, experiences):
        states = torch.from_numpy(np.vstack([e.state for e in experiences])).float().to(self.device)
        actions = torch.from_numpy(np.vstack([e.action for e in experiences])).long().to(self.device)
        rewards = torch.from_numpy(np.vstack([e.reward for e in experiences])).float().to(self.device)
        next_states = torch.from_numpy(np.vstack([e.next_state for e in experiences])).float().to(self.device)
        dones = torch.from_numpy(np.vstack([int(e.done) for e in experiences])).float().to(self.device)
        return states, actions, rewards, next_states, dones

    def __len__(self):
        return len(self.memory)
# --- DQN.py
import copy
import random

import torch
import torch.nn.functional as F
from torch import nn, optim

from Replay_Buffer import Replay_Buffer


class Config:
    """Object to hold the config requirements for an agent"""

    seed = environment = num_episodes_to_run = hyperparameters = use_GPU = None


class DQN:
    def __init__(self, config):
        random.seed(config.seed)
        torch.manual_seed(config.seed)
        self.config, self.environment = config, config.environment
        self.hyperparameters = config.hyperparameters
        self.device = "cuda:0" if config.use_GPU else "cpu"
        self.action_size = self.environment.environment_dimension
        self.memory = Replay_Buffer(config.hyperparameters["buffer_size"], config.hyperparameters["batch_size"], config.seed)
        self.q_network_local = self.create_NN(2 * self.action_size, self.action_size)
        self.q_network_target = copy.deepcopy(self.q_network_local)
        self.q_network_optimizer = optim.Adam(self.q_network_local.parameters(), lr=self.hyperparameters["learning_rate"])
        self.game_scores = []

    def create_NN(self, input_dim, output_dim):
        return nn.Sequential(nn.Linear(input_dim, 16), nn.ReLU(), nn.Linear(16, output_dim)).to(self.device)

    def q_values(self, state):
        with torch.no_grad():
            return self.q_network_local(torch.tensor([state], dtype=torch.float32, device=self.device))[0].tolist()

    def pick_action(self, state):
        if random.random() < self.hyperparameters["epsilon"]:
            return random.randrange(self.action_size)
        values = self.q_values(state)
        return values.index(max(values))

    def learn(self):
        states, actions, rewards, next_states, dones = self.memory.sample()
        with torch.no_grad():
            Q_targets_next = self.q_network_target(next_states).max(1)[0].unsqueeze(1)
        Q_targets = rewards + self.hyperparameters["discount_rate"] * Q_targets_next * (1 - dones)
        loss = F.mse_loss(self.q_network_local(states).gather(1, actions), Q_targets)
        self.q_network_optimizer.zero_grad()
        loss.backward()
        self.q_network_optimizer.step()
        for target, local in zip(self.q_network_target.parameters(), self.q_network_local.parameters()):
            target.data.lerp_(local.data, self.hyperparameters["tau"])

    def run_n_episodes(self):
        for _ in range(self.config.num_episodes_to_run):
            state, done, score = self.environment.reset(), False, 0.0
            while not done:
                action = self.pick_action(state)
                next_state, reward, done = self.environment.step(action)
                self.memory.add_experience(list(state), action, reward, list(next_state), done)
                if len(self.memory) >= self.hyperparameters["batch_size"]:
                    self.learn()
                state, score = next_state, score + reward
            self.game_scores.append(score)

# === prompts_enhanced_by_a_vision_model
# thread: https://github.com/Tencent-Hunyuan/HunyuanDiT/issues/37
# about: a model that sees and writes improves a prompt. As the card is small, some of its modules wait in main memory and are fetched when they
#   are called
# operation: (_to_copy|to|copy_?) on meta
# operands: self|src|images|arg|.*images.*
# error: Cannot copy out of meta tensor; no data!
# category: module-split|input|input-not-moved
# line: clip_encoder.py: image_forward_outs = self.vision_tower(images.to(
# line: clip_encoder.py: return self.vision_tower.device
# line: clip_encoder.py: return self.class_embedding.device
# line: main.py: MAX_MEMORY = 3500
# repair: clip_encoder.py: image_forward_outs = self.vision_tower(images.to(device=self.device, dtype=self.dtype)) ->
#   image_forward_outs = self.vision_tower(images.to(dtype=self.dtype))
import torch

from builder import load_pretrained_model

MAX_MEMORY = 3500


class DialogGen:
    def __init__(self, model, device):
        self.model, self.device = model, device

    @torch.inference_mode()
    def __call__(self, prompt, image, max_new_tokens):
        input_ids = torch.tensor([[sum(map(ord, word)) % 40 for word in prompt.split()]], device=self.device)
        image_tensor = ((image - image.mean()) / image.std()).to(self.device)
        total = 0.0
        for _ in range(max_new_tokens):
            scores = self.model(input_ids, image_tensor)[:, -1].log_softmax(dim=-1)
            score, token = scores.max(dim=-1)
            total += score.item()
            input_ids = torch.cat([input_ids, token[None]], dim=1)
        return input_ids[0, -max_new_tokens:].tolist(), total


if __name__ == "__main__":
    model = load_pretrained_model(seed=37, max_memory=MAX_MEMORY)
    enhancer = DialogGen(model, device="cuda:0")
    image = torch.linspace(0.0, 3.0, 3 * 8 * 8).sin().reshape(1, 3, 8, 8)
    tokens, score = enhancer("a fisher sings at dusk", image, max_new_tokens=4)
    print(f"enhanced {tokens} score {score:.4f}")
# --- hooks.py
import torch
from torch import nn


def send_to_device(args, device):
    return tuple(arg.to(device) if isinstance(arg, torch.Tensor) else arg for arg in args)


class AlignDevicesHook:
    """Gives a module its weights for as long as it runs, and the inputs on the device where it runs."""

    def __init__(self, module, execution_device, offload):
        self.module, self.execution_device = module, execution_device
        self.weights_map = {}
        if offload:
            self.weights_map = {name: weight.detach().clone() for name, weight in module.named_parameters()}
            self.place(lambda weight: weight.to("meta"))
        else:
            module.to(execution_device)
        self.old_forward, module.forward = module.forward, self.new_forward

    def place(self, make):
        for name, weight in self.weights_map.items():
            owner, _, leaf = name.rpartition(".")
            parameter = nn.Parameter(make(weight), requires_grad=False)
            setattr(self.module.get_submodule(owner), leaf, parameter)

    def pre_forward(self, *args):
        self.place(lambda weight: weight.to(self.execution_device))
        return send_to_device(args, self.execution_device)

    def new_forward(self, *args):
        output = self.old_forward(*self.pre_forward(*args))
        self.place(lambda weight: weight.to("meta"))
        return output


def dispatch_model(model, device_map, main_device):
    for name, device in device_map.items():
        AlignDevicesHook(model.get_submodule(name), main_device, offload=device == "cpu")
    return model
# --- clip_encoder.py
import torch
from torch import nn


class CLIPVisionModel(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.class_embedding = nn.Parameter(torch.randn(hidden_size))
        self.patch_embedding = nn.Conv2d(3, hidden_size, 4, stride=4)
        self.layers = nn.ModuleList(nn.Linear(hidden_size, hidden_size) for _ in range(2))

    @property
    def device(self):
        return self.class_embedding.device

    @property
    def dtype(self):
        return self.class_embedding.dtype

    def forward(self, pixel_values):
        patches = self.patch_embedding(pixel_values).flatten(2).transpose(1, 2)
        hidden = torch.cat([self.class_embedding.expand(len(patches), 1, -1), patches], dim=1)
        hidden_states = [hidden]
        for layer in self.layers:
            hidden = hidden + torch.tanh(layer(hidden))
            hidden_states.append(hidden)
        return hidden_states


class CLIPVisionTower(nn.Module):
    def __init__(self, hidden_size, select_layer=-2):
        super().__init__()
        self.select_layer = select_layer
        self.vision_tower = CLIPVisionModel(hidden_size)

    @property
    def device(self):
        return self.vision_tower.device

    @property
    def dtype(self):
        return self.vision_tower.dtype

    def forward(self, images):
        image_forward_outs = self.vision_tower(images.to(device=self.device, dtype=self.dtype))
        return image_forward_outs[self.select_layer][:, 1:]
# --- builder.py
import torch
from torch import nn

from clip_encoder import CLIPVisionTower
from hooks import dispatch_model


class LlavaLlamaForCausalLM(nn.Module):
    def __init__(self, vocab=40, width=16, vision_width=12):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, width)
        self.mm_projector = nn.Linear(vision_width, width)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.image_encoder = CLIPVisionTower(vision_width)

    def encode_images(self, images):
        return self.mm_projector(self.image_encoder(images))

    def forward(self, input_ids, images):
        embeds = torch.cat([self.encode_images(images), self.embed_tokens(input_ids)], dim=1)
        hidden, _ = self.decoder(embeds)
        return self.lm_head(hidden)


def infer_auto_device_map(model, max_memory):
    """Modules in their order, on the card as long as it has room for them."""
    device_map = {}
    for name in ("embed_tokens", "mm_projector", "decoder", "lm_head", "image_encoder.vision_tower"):
        size = sum(parameter.numel() for parameter in model.get_submodule(name).parameters())
        device_map[name] = "cuda:0" if size <= max_memory else "cpu"
        max_memory -= size if size <= max_memory else 0
    return device_map


def load_pretrained_model(seed, max_memory):
    torch.manual_seed(seed)
    model = LlavaLlamaForCausalLM().requires_grad_(False).eval()
    return dispatch_model(model, infer_auto_device_map(model, max_memory), main_device="cuda:0")

# === segmentation_gone_on_with
# thread: https://github.com/orsic/swiftnet/issues/29
# about: a network that labels pixels is trained for two epochs, stored, and trained for two more as by a second start of the program
# operation: (_foreach_)?lerp_? on cpu, cuda:0
# operands: self|.*exp_avg.*
# category: optimizer|checkpoint
# line: train.py: self.model = self.conf.model
# line: train.py: self.model.cuda()
# line: train.py: self.optimizer.load_state_dict(checkpoint["opt"])
# line: train.py: self.load_checkpoint(self.args.resume)
# line: rn_pyramid.py: model = SemsegModel(
# line: rn_pyramid.py: optimizer = optim.Adam(
# repair: train.py: self.model = self.conf.model -> self.model = self.conf.model.cuda()
import argparse
import tempfile
from pathlib import Path

import rn_pyramid
from train import Trainer

parser = argparse.ArgumentParser(description="Detector train")
parser.add_argument("--store_dir", type=Path, required=True)
parser.add_argument("--resume", type=Path, default=None)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as store:
        first = Trainer(rn_pyramid.make(epochs=2), parser.parse_args(["--store_dir", store]))
        losses = first.train()
        stored = str(Path(store) / "stored" / "model.pt")
        second = Trainer(rn_pyramid.make(epochs=4), parser.parse_args(["--store_dir", store, "--resume", stored]))
        losses += second.train()
    print("epochs", len(losses), "losses", [f"{loss:.4f}" for loss in losses])
# --- semseg.py
import torch
from torch import nn
from torch.nn import functional as F


class ResNetPyramid(nn.Module):
    def __init__(self, width, levels):
        super().__init__()
        self.levels = levels
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))

    def forward(self, x):
        skips = []
        for _ in range(self.levels):
            skips.append(self.stem(x))
            x = F.avg_pool2d(x, 2)
        return skips


class SemsegModel(nn.Module):
    def __init__(self, backbone, width, num_classes):
        super().__init__()
        self.backbone = backbone
        self.blend = nn.Conv2d(width, width, 1)
        self.logits = nn.Conv2d(width, num_classes, 1)

    def forward(self, x):
        *skips, x = self.backbone(x)
        for skip in reversed(skips):
            x = F.relu(self.blend(skip + F.interpolate(x, skip.shape[-2:], mode="nearest")))
        return self.logits(x)

    def loss(self, batch):
        return F.cross_entropy(self(batch["image"]), batch["labels"])


def street_scenes(count, size):
    """Below the horizon is road, above it sky, and a box stands on the road."""
    generator = torch.Generator().manual_seed(29)
    images = 0.1 * torch.randn(count, 3, size, size, generator=generator)
    labels = torch.zeros(count, size, size, dtype=torch.long)
    labels[:, size // 2:] = 1
    for i in range(count):
        labels[i, size // 2 - 1:size // 2 + 2, i % (size - 3):i % (size - 3) + 3] = 2
    images += torch.nn.functional.one_hot(labels, 3).permute(0, 3, 1, 2)
    return images, labels
# --- rn_pyramid.py
from types import SimpleNamespace

import torch
from torch import optim

from semseg import ResNetPyramid, SemsegModel, street_scenes


def make(epochs):
    torch.manual_seed(18)
    width, lr, lr_min, fine_tune_factor, weight_decay = 6, 4e-2, 1e-3, 4, 1e-4
    images, labels = street_scenes(count=8, size=8)
    model = SemsegModel(ResNetPyramid(width, levels=2), width, num_classes=3)
    head = list(model.blend.parameters()) + list(model.logits.parameters())
    optim_params = [
        {"params": head, "lr": lr, "weight_decay": weight_decay},
        {"params": list(model.backbone.parameters()), "lr": lr / fine_tune_factor},
    ]
    optimizer = optim.Adam(optim_params, betas=(0.9, 0.99))
    lr_scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 4, lr_min)
    loader_train = [{"image": i, "labels": k} for i, k in zip(images.split(4), labels.split(4))]
    return SimpleNamespace(model=model, optimizer=optimizer, lr_scheduler=lr_scheduler, loader_train=loader_train, epochs=epochs)
# --- train.py
import torch


class Trainer:
    def __init__(self, conf, args):
        self.conf, self.args = conf, args
        self.model = self.conf.model
        self.optimizer = self.conf.optimizer
        self.lr_scheduler = self.conf.lr_scheduler
        self.start_epoch = 0
        if self.args.resume:
            self.load_checkpoint(self.args.resume)

    def load_checkpoint(self, path):
        checkpoint = torch.load(path)
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["opt"])
        self.lr_scheduler.load_state_dict(checkpoint["lr_scheduler"])
        self.start_epoch = checkpoint["epoch"] + 1

    def store_checkpoint(self, epoch):
        folder = self.args.store_dir / "stored"
        folder.mkdir(exist_ok=True)
        state = {"model": self.model.state_dict(), "opt": self.optimizer.state_dict()}
        torch.save({**state, "lr_scheduler": self.lr_scheduler.state_dict(), "epoch": epoch}, folder / "model.pt")

    def train_epoch(self):
        total = 0.0
        for batch in self.conf.loader_train:
            batch = {key: value.cuda() for key, value in batch.items()}
            self.optimizer.zero_grad()
            loss = self.model.loss(batch)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(self.conf.loader_train)

    def train(self):
        self.model.cuda()
        self.model.train()
        losses = []
        for epoch in range(self.start_epoch, self.conf.epochs):
            losses.append(self.train_epoch())
            self.lr_scheduler.step()
            self.store_checkpoint(epoch)
        return losses

# === series_made_alike_and_back
# thread: https://github.com/ts-kim/RevIN/pull/8
# about: loads of some machines are forecast. Each window is normalized before the model sees it, and the forecast gets the window's mean and
#   spread back
# operation: mul on cuda:0, cpu
# operands: other|.*affine_weight.*
# category: module-split|state-not-registered|created-without-device
# line: exp_main.py: self.revin = RevIN(args.enc_in)
# line: RevIN.py: self.affine_weight = nn.Parameter(
# line: RevIN.py: self.affine_bias = nn.Parameter(
# line: RevIN.py: x = x * self.affine_weight
# repair: exp_main.py: self.revin = RevIN(args.enc_in) -> self.revin = RevIN(args.enc_in).to(self.device)
import argparse

import torch

from exp_main import Exp_Main

parser = argparse.ArgumentParser(description="Time Series Forecasting")
parser.add_argument("--enc_in", type=int, default=3)
parser.add_argument("--seq_len", type=int, default=16)
parser.add_argument("--pred_len", type=int, default=4)
parser.add_argument("--d_model", type=int, default=10)
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--train_epochs", type=int, default=3)
parser.add_argument("--learning_rate", type=float, default=0.02)
parser.add_argument("--gpu", type=int, default=0)

if __name__ == "__main__":
    torch.manual_seed(2021)
    exp = Exp_Main(parser.parse_args([]))
    losses = exp.train()
    mse, mae = exp.test()
    print("train", [f"{loss:.4f}" for loss in losses], f"mse:{mse:.4f}, mae:{mae:.4f}")
# --- RevIN.py
import torch
import torch.nn as nn


class RevIN(nn.Module):
    def __init__(self, num_features: int, eps=1e-5, affine=True):
        """
        :param num_features: the number of features or channels
        :param eps: a value added for numerical stability
        :param affine: if True, RevIN has learnable affine parameters
        """
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.affine = affine
        if self.affine:
            self._init_params()

    def forward(self, x, mode: str):
        if mode == "norm":
            self._get_statistics(x)
            return self._normalize(x)
        if mode == "denorm":
            return self._denormalize(x)
        raise NotImplementedError(mode)

    def _init_params(self):
        self.affine_weight = nn.Parameter(torch.ones(self.num_features))
        self.affine_bias = nn.Parameter(torch.zeros(self.num_features))

    def _get_statistics(self, x):
        self.mean = torch.mean(x, dim=1, keepdim=True).detach()
        self.stdev = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + self.eps).detach()

    def _normalize(self, x):
        x = x - self.mean
        x = x / self.stdev
        if self.affine:
            x = x * self.affine_weight
            x = x + self.affine_bias
        return x

    def _denormalize(self, x):
        if self.affine:
            x = x - self.affine_bias
            x = x / (self.affine_weight + self.eps * self.eps)
        return x * self.stdev + self.mean
# --- data_loader.py
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def data_provider(args, flag):
    """Days of loads that also grow, so that what comes last is higher than what is learned of."""
    rng = np.random.default_rng(8)
    hours = np.arange(200)[:, None]
    loads = np.sin(2 * np.pi * hours / 12 + np.arange(args.enc_in)) + 0.02 * hours + rng.normal(0.0, 0.1, (200, args.enc_in))
    span = args.seq_len + args.pred_len
    windows = np.stack([loads[start:start + span] for start in range(len(loads) - span)]).astype(np.float32)
    windows = torch.from_numpy(windows[:128] if flag == "train" else windows[128:])
    data_set = TensorDataset(windows[:, :args.seq_len], windows[:, args.seq_len:])
    return DataLoader(data_set, batch_size=args.batch_size, shuffle=flag == "train")
# --- exp_main.py
import torch
from torch import nn, optim

from data_loader import data_provider
from RevIN import RevIN


class Informer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.enc_embedding = nn.Linear(args.seq_len, args.d_model)
        self.attention = nn.MultiheadAttention(args.d_model, 2, batch_first=True)
        self.projection = nn.Linear(args.d_model, args.pred_len)

    def forward(self, x_enc):
        enc = self.enc_embedding(x_enc.transpose(1, 2))
        attn, _ = self.attention(enc, enc, enc, need_weights=False)
        return self.projection(enc + attn).transpose(1, 2)


class Exp_Main:
    def __init__(self, args):
        self.args = args
        self.device = torch.device(f"cuda:{args.gpu}" if torch.cuda.is_available() else "cpu")
        self.model = Informer(args).to(self.device)
        self.revin = RevIN(args.enc_in)

    def _process_one_batch(self, batch_x, batch_y):
        batch_x, batch_y = batch_x.to(self.device), batch_y.to(self.device)
        x_in = self.revin(batch_x, "norm")
        outputs = self.revin(self.model(x_in), "denorm")
        return outputs, batch_y

    def train(self):
        params = [*self.model.parameters(), *self.revin.parameters()]
        model_optim = optim.Adam(params, lr=self.args.learning_rate)
        losses = []
        for _ in range(self.args.train_epochs):
            for batch_x, batch_y in data_provider(self.args, "train"):
                model_optim.zero_grad()
                pred, true = self._process_one_batch(batch_x, batch_y)
                loss = nn.functional.mse_loss(pred, true)
                loss.backward()
                model_optim.step()
            losses.append(loss.item())
        return losses

    @torch.no_grad()
    def test(self):
        pairs = [self._process_one_batch(*batch) for batch in data_provider(self.args, "test")]
        preds, trues = (torch.cat(each) for each in zip(*pairs))
        return (preds - trues).square().mean().item(), (preds - trues).abs().mean().item()
