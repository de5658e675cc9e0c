# === noise_weighted_at_each_step
# thread: https://github.com/CompVis/latent-diffusion/pull/282
# about: a model learns to take noise out of small pictures. What it gets wrong at a step of the noise is weighed by that step's log variance
# operation: index on cpu, cuda:1
# operands: self|.*logvar.*, t|indices
# error: indices should be either on|same device
# category: state-not-registered|created-without-device
# line: ddpm.py: logvar_t = self.logvar[t].to(self.device)
# line: ddpm.py: self.logvar = torch.full(
# repair: ddpm.py: logvar_t = self.logvar[t].to(self.device) -> logvar_t = self.logvar.to(self.device)[t]
import torch

from data import TinyPictures
from ddpm import LatentDiffusion
from unet import UNetModel


def train(gpu=1, epochs=2):
    torch.manual_seed(282)
    model = LatentDiffusion(UNetModel(channels=3, width=8), timesteps=20, logvar_init=0.1)
    model = model.to(torch.device("cuda", gpu))
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    history = []
    for _ in range(epochs):
        for batch in TinyPictures(n_batches=2, batch_size=4):
            loss, loss_dict = model.training_step(batch)
            opt.zero_grad()
            loss.backward()
            opt.step()
            history.append((loss.item(), loss_dict["train/loss_vlb"].item()))
    return history


if __name__ == "__main__":
    for loss, vlb in train():
        print(f"loss {loss:.3f} vlb {vlb:.3f}")
# --- data.py
import torch


class TinyPictures:
    def __init__(self, n_batches, batch_size, timesteps=20):
        draw = torch.Generator().manual_seed(21)
        self.batches = []
        for _ in range(n_batches):
            image = torch.rand(batch_size, 3, 6, 6, generator=draw) * 2 - 1
            noise = torch.randn(batch_size, 3, 6, 6, generator=draw)
            t = torch.randint(timesteps, (batch_size,), generator=draw)
            self.batches.append({"image": image, "noise": noise, "t": t})

    def __iter__(self):
        return iter(self.batches)
# --- unet.py
import torch
from torch import nn


class UNetModel(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.time_embed = nn.Linear(1, width)
        self.in_conv = nn.Conv2d(channels, width, 3, padding=1)
        self.out_conv = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, t):
        emb = self.time_embed(t[:, None].float() / 20)
        h = torch.nn.functional.silu(self.in_conv(x) + emb[:, :, None, None])
        return self.out_conv(h)
# --- ddpm.py
import torch
from torch import nn


def extract_into_tensor(a, t, x_shape):
    out = a.gather(-1, t)
    return out.reshape(t.shape[0], *((1,) * (len(x_shape) - 1)))


class DDPM(nn.Module):
    def __init__(self, unet, timesteps, logvar_init=0.0, learn_logvar=False, original_elbo_weight=0.1):
        super().__init__()
        self.model = unet
        self.num_timesteps = timesteps
        self.original_elbo_weight = original_elbo_weight
        self.register_schedule(timesteps)
        self.learn_logvar = learn_logvar
        self.logvar = torch.full(fill_value=logvar_init, size=(self.num_timesteps,))
        if self.learn_logvar:
            self.logvar = nn.Parameter(self.logvar, requires_grad=True)

    @property
    def device(self):
        return self.betas.device

    def register_schedule(self, timesteps, linear_start=1e-2, linear_end=2e-1):
        betas = torch.linspace(linear_start, linear_end, timesteps)
        alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
        self.register_buffer("betas", betas)
        self.register_buffer("sqrt_alphas_cumprod", alphas_cumprod.sqrt())
        self.register_buffer("sqrt_one_minus_alphas_cumprod", (1.0 - alphas_cumprod).sqrt())
        self.register_buffer("lvlb_weights", betas**2 / (2 * (1.0 - betas) * (1.0 - alphas_cumprod)), persistent=False)

    def q_sample(self, x_start, t, noise):
        mean = extract_into_tensor(self.sqrt_alphas_cumprod, t, x_start.shape) * x_start
        return mean + extract_into_tensor(self.sqrt_one_minus_alphas_cumprod, t, x_start.shape) * noise


class LatentDiffusion(DDPM):
    def apply_model(self, x_noisy, t):
        return self.model(x_noisy, t)

    def training_step(self, batch):
        image, noise, t = (batch[key].to(self.device) for key in ("image", "noise", "t"))
        return self.p_losses(image, t, noise)

    def p_losses(self, x_start, t, noise):
        x_noisy = self.q_sample(x_start, t, noise)
        model_output = self.apply_model(x_noisy, t)
        prefix = "train" if self.training else "val"
        loss_simple = (model_output - noise).pow(2).mean([1, 2, 3])
        logvar_t = self.logvar[t].to(self.device)
        loss = (loss_simple / torch.exp(logvar_t) + logvar_t).mean()
        loss_vlb = (self.lvlb_weights[t] * loss_simple).mean()
        loss = loss + self.original_elbo_weight * loss_vlb
        return loss, {f"{prefix}/loss_simple": loss_simple.mean(), f"{prefix}/loss_vlb": loss_vlb}

# === a_closed_system_told_its_past
# thread: https://github.com/Fraunhofer-IIS/prosper_nn/issues/13
# about: a closed network is taught the past of a few series and then goes on by itself. At each step the observed part is read out of its hidden state
# operation: mm|matmul|linear on cuda:0, cpu
# operands: mat2|other|.*eye.*
# category: state-not-registered|created-without-device
# line: hcnn_cell.py: self.eye = torch.eye(
# line: hcnn_cell.py: expectation = torch.mm(
# line: hcnn_cell.py: state = state - torch.mm(
# repair: hcnn_cell.py: self.eye = torch.eye(n_features_Y, n_state_neurons) -> self.eye = nn.Parameter(torch.eye(n_features_Y, n_state_neurons),
#   requires_grad=False)
import torch
from torch import nn, optim

from generate_time_series import sample_data
from hcnn import HCNN


def train(model, Y, targets, epochs):
    optimizer = optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.02)
    loss_function = nn.MSELoss()
    epoch_loss = []
    for _ in range(epochs):
        model.zero_grad()
        past_error, _ = model(Y)
        loss = loss_function(past_error, targets)
        loss.backward()
        optimizer.step()
        epoch_loss.append(loss.item())
    return epoch_loss


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    past_horizon, forecast_horizon, n_features_Y = 6, 3, 2
    Y = sample_data(past_horizon, batchsize=2, n_features=n_features_Y).to(device)
    model = HCNN(n_state_neurons=5, n_features_Y=n_features_Y, past_horizon=past_horizon, forecast_horizon=forecast_horizon).to(device)
    targets = torch.zeros((past_horizon, 2, n_features_Y), device=device)
    epoch_loss = train(model, Y, targets, epochs=5)
    with torch.no_grad():
        _, forecast = model(Y)
    print("loss", " ".join(f"{loss:.3f}" for loss in epoch_loss))
    print("forecast", " ".join(f"{value:.3f}" for value in forecast[:, 0].flatten().tolist()))


if __name__ == "__main__":
    main()
# --- generate_time_series.py
import torch


def sample_data(sample_size, batchsize, n_features):
    time = torch.arange(sample_size, dtype=torch.float32)
    series = []
    for index in range(batchsize):
        waves = [torch.sin(0.7 * time * (feature + 1) + index) for feature in range(n_features)]
        series.append(torch.stack(waves, dim=1))
    return torch.stack(series, dim=1)
# --- hcnn.py
import torch
from torch import nn

from hcnn_cell import HCNNCell


class HCNN(nn.Module):
    """Unfolds the cell over the past, where it is corrected, and over the future, where it is not."""

    def __init__(self, n_state_neurons, n_features_Y, past_horizon, forecast_horizon):
        super().__init__()
        self.past_horizon = past_horizon
        self.forecast_horizon = forecast_horizon
        self.HCNNCell = HCNNCell(n_state_neurons, n_features_Y)
        self.init_state = nn.Parameter(torch.rand(1, n_state_neurons), requires_grad=True)

    def forward(self, Y):
        state = self.init_state.repeat(Y.size(1), 1)
        past_error, forecast = [], []
        for t in range(self.past_horizon):
            state, output = self.HCNNCell(state, Y[t])
            past_error.append(output)
        for _ in range(self.forecast_horizon):
            state, output = self.HCNNCell(state)
            forecast.append(output)
        return torch.stack(past_error), torch.stack(forecast)
# --- hcnn_cell.py
import torch
from torch import nn


class HCNNCell(nn.Module):
    def __init__(self, n_state_neurons, n_features_Y):
        super().__init__()
        self.n_state_neurons = n_state_neurons
        self.n_features_Y = n_features_Y
        self.A = nn.Linear(n_state_neurons, n_state_neurons, bias=False)
        self.act_func = torch.tanh
        self.eye = torch.eye(n_features_Y, n_state_neurons)

    def forward(self, state, observation=None):
        expectation = torch.mm(state, self.eye.T)
        if observation is None:
            output = expectation
        else:
            output = expectation - observation
            state = state - torch.mm(output, self.eye)
        return self.A(self.act_func(state)), output

# === passages_and_an_answer_to_them
# thread: https://github.com/HKUDS/LightRAG/pull/3678
# about: a question is answered from passages by a language model that is kept between calls. It is loaded where there is room for it
# operation: embedding|index_select on cuda:1, cuda:0
# operands: index|indices|input|input_ids|.*input_ids.*
# category: default-or-current-device|input-not-moved
# line: hf.py: output = hf_model.generate(
# line: hf.py: input_ids = hf_tokenizer(
# repair: hf.py: output = hf_model.generate(**input_ids, max_new_tokens=max_new_tokens) -> output = hf_model.generate(**inputs, max_new_tokens=max_new_tokens)
import asyncio

from lightrag import LightRAG


async def main():
    rag = LightRAG(llm_model_name="tiny-llm", llm_model_kwargs={"max_new_tokens": 6})
    await rag.insert(["the old miser counts coins", "a ghost walks at night", "the clerk asks for coal"])
    for question in ("who counts coins", "what walks at night"):
        print("answer:", await rag.query(question))


if __name__ == "__main__":
    asyncio.run(main())
# --- lightrag.py
from hf import hf_model_if_cache


class LightRAG:
    def __init__(self, llm_model_name, llm_model_kwargs):
        self.llm_model_name = llm_model_name
        self.llm_model_kwargs = llm_model_kwargs
        self.chunks = []

    async def insert(self, texts):
        self.chunks.extend(texts)

    def retrieve(self, question, top_k=1):
        words = set(question.split())
        return sorted(self.chunks, key=lambda chunk: -len(words & set(chunk.split())))[:top_k]

    async def query(self, question):
        context = " ".join(self.retrieve(question))
        return await hf_model_if_cache(self.llm_model_name, question, system_prompt=context, **self.llm_model_kwargs)
# --- modeling.py
import torch
from torch import nn

FREE_MEMORY = {0: 100, 1: 100_000}


class BatchEncoding(dict):
    def to(self, device):
        return BatchEncoding({key: value.to(device) for key, value in self.items()})


class Tokenizer:
    def __init__(self, vocab_size):
        self.vocab_size = vocab_size

    def __call__(self, text, return_tensors="pt"):
        ids = [sum(map(ord, word)) % self.vocab_size for word in text.split()]
        input_ids = torch.tensor([ids])
        return BatchEncoding(input_ids=input_ids, attention_mask=torch.ones_like(input_ids))

    def decode(self, ids):
        return " ".join(f"w{index}" for index in ids)


class CausalLM(nn.Module):
    def __init__(self, vocab_size=40, hidden=16):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, hidden)
        self.rnn = nn.Linear(2 * hidden, hidden)
        self.lm_head = nn.Linear(hidden, vocab_size)

    @classmethod
    def from_pretrained(cls, name, device_map=None):
        torch.manual_seed(len(name))
        model = cls().eval()
        if device_map == "auto":
            size = 4 * sum(p.numel() for p in model.parameters())
            index = next(index for index, free in FREE_MEMORY.items() if free >= size)
            model = model.to(torch.device("cuda", index))
        return model

    @property
    def device(self):
        return self.lm_head.weight.device

    def forward(self, input_ids, attention_mask):
        embeds = self.embed_tokens(input_ids) * attention_mask.unsqueeze(-1)
        state = torch.zeros_like(embeds[:, 0])
        for step in embeds.unbind(dim=1):
            state = torch.tanh(self.rnn(torch.cat([step, state], dim=-1)))
        return self.lm_head(state)

    @torch.inference_mode()
    def generate(self, input_ids, attention_mask, max_new_tokens):
        for _ in range(max_new_tokens):
            token = self(input_ids, attention_mask).argmax(-1, keepdim=True)
            input_ids = torch.cat([input_ids, token], dim=1)
            attention_mask = torch.cat([attention_mask, torch.ones_like(token)], dim=1)
        return input_ids
# --- hf.py
from functools import lru_cache

from modeling import CausalLM, Tokenizer


@lru_cache(maxsize=1)
def initialize_hf_model(model_name):
    hf_tokenizer = Tokenizer(vocab_size=40)
    hf_model = CausalLM.from_pretrained(model_name, device_map="auto")
    return hf_model, hf_tokenizer


async def hf_model_if_cache(model, prompt, system_prompt=None, history_messages=(), max_new_tokens=512):
    hf_model, hf_tokenizer = initialize_hf_model(model)
    messages = []
    if system_prompt:
        messages.append({"role": "system", "content": system_prompt})
    messages.extend(history_messages)
    messages.append({"role": "user", "content": prompt})
    input_prompt = " ".join(f"<{message['role']}> {message['content']}" for message in messages)
    input_ids = hf_tokenizer(input_prompt, return_tensors="pt").to("cuda")
    inputs = {key: value.to(hf_model.device) for key, value in input_ids.items()}
    output = hf_model.generate(**input_ids, max_new_tokens=max_new_tokens)
    return hf_tokenizer.decode(output[0][inputs["input_ids"].shape[1] :].tolist())

# === a_chat_over_a_picture
# thread: https://github.com/IDEA-CCNL/Fengshenbang-LM/issues/415
# about: a model that sees and chats is too large for one card. It is spread over two, as much as fits on each, and asked about a picture
# operation: add on cuda:0, cuda:1
# operands: self|residual, other|hidden_states
# category: module-split
# line: modeling_ziya_blip2.py: _no_split_modules = [
# line: launch.py: device_map = infer_auto_device_map(
# line: launch.py: max_memory = {
# line: launch.py: no_split_module_classes=
# line: modeling_llama.py: hidden_states = residual + hidden_states
# line: modeling_llama.py: hidden_states = self.mlp(
# repair: modeling_ziya_blip2.py: _no_split_modules = ["Blip2VisionLayer"] -> _no_split_modules = ["Blip2VisionLayer", "LlamaDecoderLayer"]
import torch

from launch import load_model


def main():
    torch.manual_seed(415)
    model = load_model()
    draw = torch.Generator().manual_seed(1)
    pixel_values = torch.randn(1, 4, 12, generator=draw).to("cuda:0")
    query = torch.tensor([[3, 14, 15, 9]], device="cuda:0")
    answer, logits = model.chat(pixel_values, query, max_new_tokens=3)
    print("answer", answer)
    print("logits", " ".join(f"{value:.3f}" for value in logits.topk(3).values.tolist()))


if __name__ == "__main__":
    main()
# --- launch.py
from accelerate import dispatch_model, infer_auto_device_map

from modeling_ziya_blip2 import ZiyaBlip2ForCausalLM


def load_model():
    model = ZiyaBlip2ForCausalLM(hidden=16, n_layers=3, vocab_size=30).eval()
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    max_memory = {0: int(0.66 * size), 1: size}
    device_map = infer_auto_device_map(
        model,
        max_memory=max_memory,
        no_split_module_classes=model._no_split_modules,
    )
    return dispatch_model(model, device_map=device_map)
# --- modeling_ziya_blip2.py
import torch
from torch import nn

from modeling_llama import LlamaModel


class Blip2VisionLayer(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.proj = nn.Linear(hidden, hidden)

    def forward(self, x):
        return x + torch.relu(self.proj(self.norm(x)))


class ZiyaBlip2ForCausalLM(nn.Module):
    _no_split_modules = ["Blip2VisionLayer"]

    def __init__(self, hidden, n_layers, vocab_size):
        super().__init__()
        self.vision_model = nn.Sequential(nn.Linear(12, hidden), Blip2VisionLayer(hidden))
        self.language_projection = nn.Linear(hidden, hidden)
        self.language_model = LlamaModel(hidden, n_layers, vocab_size)

    @torch.no_grad()
    def chat(self, pixel_values, query, max_new_tokens):
        vision = self.language_projection(self.vision_model(pixel_values))
        ids = query
        for _ in range(max_new_tokens):
            text = self.language_model.embed_tokens(ids)
            logits = self.language_model(torch.cat([vision.to(text.device), text], dim=1))
            ids = torch.cat([ids, logits.argmax(-1, keepdim=True).to(ids.device)], dim=1)
        return ids[0, query.size(1) :].tolist(), logits[0]
# --- modeling_llama.py
import torch
from torch import nn


class LlamaMLP(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, 2 * hidden, bias=False)
        self.down_proj = nn.Linear(2 * hidden, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(torch.nn.functional.silu(self.gate_proj(x)))


class LlamaAttention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.qkv_proj = nn.Linear(hidden, 3 * hidden, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x):
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        return self.o_proj(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))


class LlamaDecoderLayer(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(hidden)
        self.self_attn = LlamaAttention(hidden)
        self.post_attention_layernorm = nn.LayerNorm(hidden)
        self.mlp = LlamaMLP(hidden)

    def forward(self, hidden_states):
        hidden_states = hidden_states + self.self_attn(self.input_layernorm(hidden_states))
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class LlamaModel(nn.Module):
    def __init__(self, hidden, n_layers, vocab_size):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, hidden)
        self.layers = nn.ModuleList(LlamaDecoderLayer(hidden) for _ in range(n_layers))
        self.lm_head = nn.Linear(hidden, vocab_size)

    def forward(self, inputs_embeds):
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        return self.lm_head(hidden_states[:, -1])

# === two_views_of_each_picture
# thread: https://github.com/lucidrains/contrastive-learner/issues/4
# about: a network learns from two views of each picture, without labels. How wide its hidden layer is, and so the projection, is found out when the
#   learner is made
# operation: .*conv.* on cpu, cuda:0
# operands: input|self|x, weight
# error: should be the same|same device
# category: created-without-device|input-not-moved
# line: contrastive_learner.py: self.forward(torch.randn(
# repair: contrastive_learner.py: self.forward(torch.randn(1, 3, image_size, image_size)) -> self.forward(torch.randn(1, 3, image_size,
#   image_size).to(next(net.parameters()).device))
import torch
from torch import optim

from contrastive_learner import ContrastiveLearner
from net import TinyNet, sample_batches


def main():
    torch.manual_seed(2024)
    device = torch.device("cuda:0")
    net = TinyNet(width=6, num_classes=4).to(device)
    learner = ContrastiveLearner(net, image_size=8, hidden_layer="pool", project_dim=5, temperature=0.5)
    opt = optim.SGD(learner.parameters(), lr=0.05)
    history = []
    for images in sample_batches(n_batches=4, batch_size=5):
        loss = learner(images.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(loss.item())
    print("loss", " ".join(f"{loss:.3f}" for loss in history))


if __name__ == "__main__":
    main()
# --- net.py
import torch
from torch import nn


class TinyNet(nn.Module):
    def __init__(self, width, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(2 * width, num_classes)

    def forward(self, x):
        return self.fc(self.pool(torch.relu(self.conv2(torch.relu(self.conv1(x))))))


def sample_batches(n_batches, batch_size):
    draw = torch.Generator().manual_seed(9)
    for _ in range(n_batches):
        yield torch.rand(batch_size, 3, 8, 8, generator=draw)
# --- losses.py
import torch
import torch.nn.functional as F


def nt_xent_loss(queries, keys, temperature=0.1):
    b, device = queries.shape[0], queries.device
    n = b * 2
    projs = F.normalize(torch.cat((queries, keys)), dim=1)
    logits = projs @ projs.t()
    mask = torch.eye(n, device=device).bool()
    logits = logits[~mask].reshape(n, n - 1)
    logits = logits / temperature
    labels = torch.cat(((torch.arange(b, device=device) + b - 1), torch.arange(b, device=device)), dim=0)
    return F.cross_entropy(logits, labels, reduction="sum") / n
# --- contrastive_learner.py
import torch
from torch import nn

from losses import nt_xent_loss


class OutputHiddenLayer(nn.Module):
    """Gives what one layer of the network puts out, in place of what the network does."""

    def __init__(self, net, layer):
        super().__init__()
        self.net = net
        self.hidden = None
        layer = dict(net.named_modules()).get(layer)
        assert layer is not None, "hidden layer not found"
        layer.register_forward_hook(self._hook)

    def _hook(self, _, __, output):
        self.hidden = output

    def forward(self, x):
        _ = self.net(x)
        hidden, self.hidden = self.hidden, None
        return hidden


class ContrastiveLearner(nn.Module):
    def __init__(self, net, image_size, hidden_layer, project_dim=128, temperature=0.1):
        super().__init__()
        self.net = OutputHiddenLayer(net, layer=hidden_layer)
        self.projection = None
        self.project_dim = project_dim
        self.temperature = temperature
        self.forward(torch.randn(1, 3, image_size, image_size))

    def augment(self, x):
        return 0.9 * x.flip(-1) + 0.05

    def _get_projection_fn(self, hidden):
        if self.projection is None:
            _, dim = hidden.shape
            layers = [nn.Linear(dim, dim, bias=False), nn.LeakyReLU(inplace=True), nn.Linear(dim, self.project_dim, bias=False)]
            for layer in layers[::2]:
                nn.init.eye_(layer.weight)
            self.projection = nn.Sequential(*layers).to(hidden)
        return self.projection

    def forward(self, x):
        queries = self.net(x)
        keys = self.net(self.augment(x))
        project_fn = self._get_projection_fn(queries)
        return nt_xent_loss(project_fn(queries), project_fn(keys), temperature=self.temperature)

# === a_large_reader_teaches_a_small_one
# thread: https://github.com/HoyTta0/KnowledgeDistillation/issues/10
# about: a large model learns to sort short texts and then teaches a small one. Before it teaches, it is judged after each pass over the texts
# operation: nll_loss.*|cross_entropy.* on cuda:0, cpu
# operands: target|labels
# category: input-not-moved
# line: teacher.py: loss = F.cross_entropy(outputs, labels)
# line: teacher.py: for ids, mask, labels in train_loader:
# line: teacher.py: total_loss += F.cross_entropy(outputs, labels)
# line: utils.py: yield ids, mask, labels
# repair: teacher.py: loss = F.cross_entropy(outputs, labels) -> labels = labels.to(config.device); loss = F.cross_entropy(outputs, labels)
# repair: teacher.py: total_loss += F.cross_entropy(outputs, labels).item() -> labels = labels.to(config.device); total_loss += F.cross_entropy(outputs,
#   labels).item()
import torch

from models import BERT_Model, biLSTM
from student import student_train
from teacher import teacher_predict, teacher_train
from utils import Config, get_dataset, get_loader


def main():
    torch.manual_seed(10)
    cfg = Config()
    train_loader = get_loader(get_dataset(16, seed=1), cfg)
    test_loader = get_loader(get_dataset(8, seed=2), cfg)
    T_model = BERT_Model(cfg).to(cfg.device)
    dev_losses = teacher_train(T_model, cfg, train_loader, test_loader)
    S_model = biLSTM(cfg).to(cfg.device)
    student_losses = student_train(teacher_predict(T_model, cfg, train_loader), S_model, cfg, train_loader)
    print("teacher", " ".join(f"{loss:.3f}" for loss in dev_losses))
    print("teacher's last", f"{dev_losses[-1]:.3f}", "student", " ".join(f"{loss:.3f}" for loss in student_losses))


if __name__ == "__main__":
    main()
# --- utils.py
import torch


class Config:
    def __init__(self):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.vocab_size = 25
        self.num_classes = 3
        self.batch_size = 4
        self.num_epochs = 2
        self.learning_rate = 1e-2
        self.hidden_size = 12


def get_dataset(n_texts, seed, vocab_size=25, length=6):
    draw = torch.Generator().manual_seed(seed)
    texts = torch.randint(1, vocab_size, (n_texts, length), generator=draw)
    lengths = torch.randint(3, length + 1, (n_texts,), generator=draw)
    labels = texts[:, 0] % 3
    return texts, lengths, labels


class get_loader:
    def __init__(self, dataset, config):
        self.dataset, self.batch_size = dataset, config.batch_size

    def __len__(self):
        return len(self.dataset[0]) // self.batch_size

    def __iter__(self):
        for texts, lengths, labels in zip(*(part.split(self.batch_size) for part in self.dataset)):
            mask = torch.arange(texts.size(1)) < lengths[:, None]
            ids = texts * mask
            yield ids, mask, labels
# --- models.py
import torch
from torch import nn


class BERT_Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layer = nn.Linear(config.hidden_size, config.hidden_size)
        self.fc = nn.Linear(config.hidden_size, config.num_classes)

    def forward(self, ids, mask):
        hidden = torch.relu(self.layer(self.embedding(ids))) * mask.unsqueeze(-1)
        return self.fc(hidden.sum(dim=1) / mask.sum(dim=1, keepdim=True))


class biLSTM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, 4)
        self.fc = nn.Linear(4, config.num_classes)

    def forward(self, ids):
        return self.fc(self.embedding(ids).mean(dim=1))
# --- teacher.py
import torch
import torch.nn.functional as F


def teacher_predict(model, config, loader):
    model.eval()
    t_logits = []
    with torch.no_grad():
        for ids, mask, labels in loader:
            t_logits.append(model(ids.to(config.device), mask.to(config.device)))
    return t_logits


def teacher_train(model, config, train_loader, test_loader):
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    dev_losses = []
    for epoch in range(config.num_epochs):
        model.train()
        for ids, mask, labels in train_loader:
            ids, mask = ids.to(config.device), mask.to(config.device)
            outputs = model(ids, mask)
            model.zero_grad()
            loss = F.cross_entropy(outputs, labels)
            loss.backward()
            optimizer.step()
        dev_losses.append(teacher_evaluate(model, config, test_loader))
    return dev_losses


def teacher_evaluate(model, config, loader):
    model.eval()
    total_loss = 0.0
    with torch.no_grad():
        for ids, mask, labels in loader:
            outputs = model(ids.to(config.device), mask.to(config.device))
            total_loss += F.cross_entropy(outputs, labels).item()
    return total_loss / len(loader)
# --- student.py
import torch
import torch.nn.functional as F


def student_train(t_logits, model, config, loader, alpha=0.8):
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    losses = []
    for _ in range(config.num_epochs):
        total = 0.0
        for (ids, _, labels), t_logit in zip(loader, t_logits):
            s_logit = model(ids.to(config.device))
            hard = F.cross_entropy(s_logit, labels.to(config.device))
            loss = (1 - alpha) * hard + alpha * F.mse_loss(s_logit, t_logit)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / len(loader))
    return losses
