# === layer_inputs
# thread: https://github.com/huggingface/transformers/issues/45823
# about: placed by hand, layer by layer; a second stream of embeddings is used by all layers
# operation: mul|add on cuda:1, cuda:0
# operands: per_layer_input|per_layer_inputs|hidden|gated|gate, gate|hidden|per_layer_input
# category: module-split
# line: hidden = layer(hidden, per_layer[i])
# line: gated = torch.nn.functional.gelu(
# repair: hidden = layer(hidden, per_layer[i]) -> hidden = layer(hidden, per_layer[i].to(hidden.device))
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width, side):
        super().__init__()
        self.norm, self.gate, self.up = nn.LayerNorm(width), nn.Linear(width, side), nn.Linear(side, width)

    def forward(self, hidden, per_layer_input):
        gated = torch.nn.functional.gelu(self.gate(self.norm(hidden))) * per_layer_input
        return hidden + self.up(gated)


class TextModel(nn.Module):
    """Each layer is given an embedding of its own of every token, besides what the layer before has made."""

    def __init__(self, vocabulary, width, side, layers):
        super().__init__()
        self.side = side
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.embed_per_layer = nn.Embedding(vocabulary, layers * side)
        self.layers = nn.ModuleList(Layer(width, side) for _ in range(layers))

    def spread(self, devices):
        """The embeddings on the first device, the layers over all of them."""
        self.embed_tokens.to(devices[0])
        self.embed_per_layer.to(devices[0])
        for i, layer in enumerate(self.layers):
            layer.to(devices[i * len(devices) // len(self.layers)])
        return self

    def forward(self, ids):
        hidden = self.embed_tokens(ids)
        per_layer = self.embed_per_layer(ids).unflatten(-1, (len(self.layers), self.side)).unbind(-2)
        for i, layer in enumerate(self.layers):
            hidden = hidden.to(layer.norm.weight.device)
            hidden = layer(hidden, per_layer[i])
        return hidden


torch.manual_seed(0)
model = TextModel(24, 8, 4, layers=4).spread(["cuda:0", "cuda:1"]).eval()
with torch.no_grad():
    hidden = model(torch.arange(6)[None].to("cuda:0"))
print("hidden", round(hidden.abs().sum().item(), 3))

# === margin_criterion
# thread: https://github.com/OML-Team/open-metric-learning/issues/620
# about: the loss has a weight of its own, and nobody moved it
# operation: linear|addmm|mm on cpu, cuda:0
# operands: fc.weight|weight, embeddings|x|input|features
# category: module-split|input-not-moved
# error: on the same device|is on
# line: criterion = ArcFaceLoss(
# repair: criterion = ArcFaceLoss(in_features=8, num_classes=5) -> criterion = ArcFaceLoss(in_features=8, num_classes=5).to(device)
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class ArcFaceLoss(nn.Module):
    def __init__(self, in_features, num_classes, margin=0.5, scale=8.0):
        super().__init__()
        self.fc = nn.Linear(in_features, num_classes, bias=False)
        nn.init.eye_(self.fc.weight)
        self.margin, self.scale = margin, scale
        self.last_logs = {}

    def logits(self, embeddings, labels):
        cosine = F.linear(F.normalize(embeddings), F.normalize(self.fc.weight))
        sine = (1.0 - cosine.square()).clamp(min=1e-6).sqrt()
        turned = cosine * math.cos(self.margin) - sine * math.sin(self.margin)
        chosen = F.one_hot(labels, cosine.shape[1]).bool()
        return self.scale * torch.where(chosen, turned, cosine)

    def forward(self, embeddings, labels):
        logits = self.logits(embeddings, labels)
        self.last_logs["accuracy"] = (logits.argmax(1) == labels).float().mean().item()
        return F.cross_entropy(logits, labels)


def training(model, criterion, optimizer, loader, device):
    for inputs, labels in loader:
        embeddings = model(inputs.to(device))
        loss = criterion(embeddings, labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(0)
device = "cuda"
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = ArcFaceLoss(in_features=8, num_classes=5)
loader = DataLoader(TensorDataset(torch.rand(20, 6), torch.arange(20) % 5), batch_size=10)
print("loss", round(training(model, criterion, optimizer, loader, device), 3))

# === mfcc_matrix
# thread: https://github.com/pytorch/audio/issues/3765
# about: the window was given a device by its keyword arguments; the other two constants of the transform were not, and the transform is no part of the model
# operation: mm|matmul|bmm on cuda:0, cpu
# operands: power|specgram|.*, fb|self.fb|mel_scale.fb|.*fb
# category: module-split
# line: mfcc = MFCC(
# line: self.transform, self.device = transform, device
# line: self.mel_scale = MelScale(
# repair: mfcc = MFCC(8, 64, {"device": "cuda:0"}) -> mfcc = MFCC(8, 64, {"device": "cuda:0"}).to("cuda:0")
import math

import torch
from torch import nn


class Spectrogram(nn.Module):
    def __init__(self, n_fft, wkwargs):
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft, **wkwargs))

    def forward(self, waveform):
        frames = waveform.unfold(-1, self.n_fft, self.n_fft // 2) * self.window
        return torch.fft.rfft(frames).abs().square()


class MelScale(nn.Module):
    def __init__(self, n_mels, n_stft):
        super().__init__()
        centres = torch.linspace(0, n_stft - 1, n_mels)
        self.register_buffer("fb", (1 - (torch.arange(n_stft)[:, None] - centres).abs() / 4).clamp(min=0))

    def forward(self, specgram):
        return specgram @ self.fb


class MFCC(nn.Module):
    def __init__(self, n_mfcc, n_fft, wkwargs):
        super().__init__()
        self.spectrogram = Spectrogram(n_fft, wkwargs)
        self.mel_scale = MelScale(16, n_fft // 2 + 1)
        n = torch.arange(16.0)
        self.register_buffer("dct_mat", torch.cos(math.pi / 16 * (n[:, None] + 0.5) * torch.arange(n_mfcc)))

    def forward(self, waveform):
        mel = self.mel_scale(self.spectrogram(waveform))
        return (mel + 1e-6).log() @ self.dct_mat


class Features:
    """What a data loader's batches go through, on the GPU."""

    def __init__(self, transform, device):
        self.transform, self.device = transform, device

    def __call__(self, waveforms):
        return self.transform(waveforms.to(self.device))


torch.manual_seed(0)
mfcc = MFCC(8, 64, {"device": "cuda:0"})
features = Features(mfcc, "cuda:0")
classifier = nn.Sequential(nn.Flatten(), nn.Linear(8 * 7, 3)).to("cuda:0")
print("class", classifier(features(torch.rand(4, 256))).argmax(1).tolist())

# === middle_positions
# thread: https://github.com/huggingface/transformers/pull/46886
# about: a parameter of the encoder itself is used between its layers, which hooks have spread
# operation: add on cuda:1, cuda:0
# operands: hidden, self.mid_position_embeddings|mid_position_embeddings|middle
# category: module-split
# line: hidden = hidden + middle[i]
# line: hidden = layer(hidden)
# repair: hidden = hidden + middle[i] -> hidden = hidden + middle[i].to(hidden.device)
import torch
from accelerate import dispatch_model
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, hidden):
        return hidden + torch.tanh(self.mlp(self.norm(hidden)))


class Encoder(nn.Module):
    """Positions are added again behind every layer, resized to the picture."""

    def __init__(self, width, layers, positions):
        super().__init__()
        self.layer = nn.ModuleList(Layer(width) for _ in range(layers))
        self.mid_position_embeddings = nn.Parameter(torch.randn(layers, 1, width, positions) * 0.1)

    def interpolate(self, length):
        flat = self.mid_position_embeddings.flatten(0, 1)
        return nn.functional.interpolate(flat, size=length, mode="linear").unsqueeze(1).transpose(-1, -2)

    def forward(self, hidden):
        middle = self.interpolate(hidden.shape[1])
        for i, layer in enumerate(self.layer):
            hidden = layer(hidden)
            hidden = hidden + middle[i]
        return hidden


torch.manual_seed(0)
encoder = Encoder(6, 3, positions=4).eval()
encoder = dispatch_model(encoder, {"mid_position_embeddings": 0, "layer.0": 0, "layer.1": 1, "layer.2": 1}, main_device=0)
with torch.no_grad():
    hidden = encoder(torch.rand(1, 8, 6).to("cuda:0"))
print("hidden", round(hidden.sum().item(), 4))

# === nnclr_queue
# thread: https://github.com/galilai-group/stable-pretraining/issues/379
# about: the queue is made after the model was moved, in a table that no module holds
# operation: mm|matmul on cuda:0, cpu
# operands: support|support_norm, query|query_norm|projection
# category: module-split|state-not-registered
# line: shared_queues[self.key] = OrderedQueue(
# line: query_norm @ support_norm.T
# line: support = shared_queues[
# repair: shared_queues[self.key] = OrderedQueue(self.size, self.width) -> shared_queues[self.key] = OrderedQueue(self.size, self.width).to(next(module.parameters()).device)
import torch
from torch import nn

shared_queues = {}


class OrderedQueue(nn.Module):
    """The last `size` embeddings."""

    def __init__(self, size, width):
        super().__init__()
        self.register_buffer("rows", torch.zeros(size, width))
        self.register_buffer("pointer", torch.tensor(0))

    @torch.no_grad()
    def append(self, rows):
        where = (self.pointer + torch.arange(len(rows), device=self.rows.device)) % len(self.rows)
        self.rows[where] = rows.to(self.rows.device)
        self.pointer.add_(len(rows))

    def get(self):
        return self.rows


class OnlineQueue:
    """A callback that keeps what the model gave in a queue that others may read."""

    def __init__(self, key, size, width):
        self.key, self.size, self.width = key, size, width

    def setup(self, module):
        if self.key not in shared_queues:
            shared_queues[self.key] = OrderedQueue(self.size, self.width)

    def on_batch_end(self, projection):
        shared_queues[self.key].append(projection.detach())


def nearest(query, key):
    """For each row the embedding of the queue that is most like it."""
    support = shared_queues[key].get()
    query_norm = nn.functional.normalize(query, dim=1)
    support_norm = nn.functional.normalize(support, dim=1)
    return support[(query_norm @ support_norm.T).argmax(dim=1)]


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4)).to("cuda:0")
queue = OnlineQueue("nnclr", 16, 4)
queue.setup(model)
for _ in range(3):
    views = torch.randn(2, 4, 6).to("cuda:0")
    projection, other = model(views[0]), model(views[1])
    queue.on_batch_end(other)
    loss = (projection - nearest(other, "nnclr")).square().mean()
print("loss", round(loss.item(), 4))

# === offloaded_text_encoder
# thread: https://github.com/damian0815/compel/issues/121
# about: the hook that fetches the weights is on the module around the one that is called
# operation: index_select|embedding on cpu, cuda:0
# operands: token_embedding.weight|weight, input_ids|index|input
# category: module-split|input-not-moved
# line: embeds.py: hidden = self.text_encoder.text_model(
# line: embeds.py: tokens = tokenize(prompts).to(
# repair: embeds.py: hidden = self.text_encoder.text_model(tokens["input_ids"], skip_norm=True) -> hidden = self.text_encoder(tokens["input_ids"], skip_norm=True)
import torch
from torch import nn

from embeds import EmbeddingsProvider
from pipeline import Pipeline, TextEncoder


class UNet(nn.Module):
    def __init__(self, channels=4, width=8):
        super().__init__()
        self.inward, self.outward = nn.Conv2d(channels, width, 3, padding=1), nn.Conv2d(width, channels, 3, padding=1)
        self.attend = nn.Linear(width, width)

    def forward(self, latents, encoder_hidden_states):
        hidden = self.inward(latents) + self.attend(encoder_hidden_states.mean(1))[:, :, None, None]
        return self.outward(torch.relu(hidden))


torch.manual_seed(0)
pipe = Pipeline(text_encoder=TextEncoder(), unet=UNet())
pipe.enable_model_cpu_offload(gpu_id=0)
provider = EmbeddingsProvider(pipe.text_encoder, device=pipe.execution_device)
with torch.no_grad():
    prompt_embeds = provider.get_embeddings(["a cat playing with a ball++ in the forest", "a dog"])
    image = pipe(prompt_embeds, latents=torch.randn(2, 4, 4, 4))
print("image", tuple(image.shape), round(image.abs().mean().item(), 4))
# --- embeds.py
import zlib

import torch
from transformers import BatchEncoding


def tokenize(prompts, length=10, vocabulary=49):
    """The ids of the words, and how much each weighs: a + more, a tenth more."""
    ids, weights = torch.zeros(len(prompts), length, dtype=torch.long), torch.ones(len(prompts), length)
    for row, prompt in enumerate(prompts):
        for column, word in enumerate(prompt.split()[:length]):
            ids[row, column] = zlib.crc32(word.rstrip("+").encode()) % vocabulary
            weights[row, column] = 1.1 ** word.count("+")
    return BatchEncoding({"input_ids": ids, "weights": weights})


class EmbeddingsProvider:
    """Prompts with weights, which the pipeline's own encoding does not know."""

    def __init__(self, text_encoder, device):
        self.text_encoder, self.device = text_encoder, device

    def get_embeddings(self, prompts):
        tokens = tokenize(prompts).to(self.device)
        # One layer earlier than the encoder's own output.
        hidden = self.text_encoder.text_model(tokens["input_ids"], skip_norm=True)
        return hidden * tokens["weights"][..., None]
# --- pipeline.py
import torch
from accelerate import cpu_offload_with_hook
from torch import nn


class TextTransformer(nn.Module):
    def __init__(self, vocabulary=49, width=8):
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.encoder = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, input_ids, skip_norm=False):
        hidden = self.encoder(self.token_embedding(input_ids))
        return hidden if skip_norm else self.final_layer_norm(hidden)


class TextEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.text_model = TextTransformer()

    def forward(self, input_ids, skip_norm=False):
        return self.text_model(input_ids, skip_norm)


class Pipeline:
    def __init__(self, **components):
        self.components = components
        self.__dict__.update(components)

    def enable_model_cpu_offload(self, gpu_id):
        """Each model is on the GPU only while it works."""
        self.execution_device, hook = torch.device("cuda", gpu_id), None
        for component in self.components.values():
            _, hook = cpu_offload_with_hook(component.eval(), self.execution_device, prev_module_hook=hook)
        self.final_offload_hook = hook

    def __call__(self, prompt_embeds, latents, steps=2):
        latents, prompt_embeds = latents.to(self.execution_device), prompt_embeds.to(self.execution_device)
        for _ in range(steps):
            latents = latents - 0.5 * self.unet(latents, prompt_embeds)
        self.final_offload_hook.offload()
        return latents

# === percentile_norm
# thread: https://github.com/pytorch/rl/pull/4241
# about: registered and all; nobody moved the loss, which is a module as well
# operation: quantile on cuda:0, cpu
# operands: flat|returns|lambda_target|input, _q|q
# category: module-split|state-not-registered
# error: quantile\(\) q tensor must be on the same device as the input tensor
# line: actor_loss = DreamerActorLoss(
# line: low, high = torch.quantile(flat, self._q)
# repair: actor_loss = DreamerActorLoss(world, actor) -> actor_loss = DreamerActorLoss(world, actor).to("cuda:0")
import torch
from torch import nn


class PercentileValueNorm(nn.Module):
    """Divides returns by how far the usual ones are apart."""

    def __init__(self, low=0.05, high=0.95, decay=0.99):
        super().__init__()
        self.decay = decay
        self.register_buffer("_q", torch.tensor([low, high]))
        self.register_buffer("_span", torch.ones(()))

    def forward(self, returns):
        flat = returns.detach().flatten()
        low, high = torch.quantile(flat, self._q)
        self._span = self.decay * self._span + (1 - self.decay) * (high - low)
        return returns / self._span.clamp_min(1.0)


class DreamerActorLoss(nn.Module):
    def __init__(self, world, actor, horizon=3):
        super().__init__()
        object.__setattr__(self, "world", world)
        object.__setattr__(self, "actor", actor)
        self.horizon = horizon
        self.value_norm = PercentileValueNorm()

    def forward(self, state):
        total = 0
        for _ in range(self.horizon):
            state = torch.tanh(self.world(torch.cat((state, self.actor(state)), -1)))
            total = total + state.sum(-1)
        return -self.value_norm(total).mean()


torch.manual_seed(0)
world, actor = nn.Linear(6, 4).to("cuda:0"), nn.Linear(4, 2).to("cuda:0")
actor_loss = DreamerActorLoss(world, actor)
loss = actor_loss(torch.rand(5, 4, device="cuda:0"))
loss.backward()
print("loss", round(loss.item(), 4))

# === pipeline_labels
# thread: https://github.com/sksq96/pytorch-summary/issues/178
# operation: nll_loss on cuda:0, cuda:1
# operands: target|b_y, output|input|log_probs|self
# category: module-split|input-not-moved
# line: b_y = labels.to(
# line: loss = loss_func(output, b_y)
# repair: b_y = labels.to('cuda:0') -> b_y = labels.to('cuda:1')
import torch
import torch.nn as nn
from torch import optim
from torch.utils.data import DataLoader, TensorDataset

num_classes = 2
num_epochs = 2


class CNN(nn.Module):
    def __init__(self):
        super(CNN, self).__init__()
        self.seq1 = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ).to('cuda:0')
        self.seq2 = nn.Sequential(
            nn.Conv2d(4, 4, 3, padding=1),
            nn.AdaptiveAvgPool2d(1),
        ).to('cuda:1')
        self.fc = nn.Linear(4, num_classes).to('cuda:1')

    def forward(self, x):
        x = self.seq2(self.seq1(x).to('cuda:1'))
        return self.fc(x.view(x.size(0), -1))


def train(num_epochs, cnn, loaders):
    cnn.train()
    for epoch in range(num_epochs):
        for i, (images, labels) in enumerate(loaders['train']):
            b_x = images.to('cuda:0')
            b_y = labels.to('cuda:0')
            output = cnn(b_x)
            loss = loss_func(output, b_y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


torch.manual_seed(3)
data = TensorDataset(torch.randn(8, 1, 8, 8), torch.arange(8) % num_classes)
loaders = {'train': DataLoader(data, batch_size=4)}
cnn = CNN()
loss_func = nn.CrossEntropyLoss()
optimizer = optim.Adam(cnn.parameters(), lr=0.01)
print('loss: {:.3f}'.format(train(num_epochs, cnn, loaders)))
