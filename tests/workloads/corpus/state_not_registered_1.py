# === attention_bias_table
# thread: https://github.com/ChaoningZhang/MobileSAM/pull/47
# about: it was computed from a parameter, which was moved
# operation: add on cuda:0, cpu
# operands: self.ab|ab
# category: state-not-registered
# line: self.ab = self.attention_biases[
# line: scores = (q @ k.transpose
# line: else self.ab
# repair: self.ab = self.attention_biases[:, self.indices] -> self.register_buffer("ab", self.attention_biases[:, self.indices], persistent=False)
import torch
from torch import nn


class Attention(nn.Module):
    """Attention with a learned bias for each offset between positions."""

    def __init__(self, width, heads, positions):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        offsets = torch.arange(positions)
        self.register_buffer("indices", (offsets[None] - offsets[:, None]).abs(), persistent=False)
        self.attention_biases = nn.Parameter(torch.randn(heads, positions) * 0.1)

    @torch.no_grad()
    def train(self, mode=True):
        super().train(mode)
        if mode and hasattr(self, "ab"):
            del self.ab
        if not mode:
            self.ab = self.attention_biases[:, self.indices]
        return self

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = self.attention_biases[:, self.indices] if self.training else self.ab
        scores = (q @ k.transpose(-2, -1)) * self.scale + bias
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


torch.manual_seed(0)
encoder = nn.Sequential(Attention(8, 2, 6), nn.LayerNorm(8), Attention(8, 2, 6))
encoder.eval()
encoder.to("cuda:0")
with torch.no_grad():
    mask = encoder(torch.randn(1, 6, 8).to("cuda:0"))
print("mask", round(mask.sum().item(), 4))

# === box_priors
# thread: https://github.com/qfgaohao/pytorch-ssd/issues/89
# about: the table was brought to the GPU by the constructor; the network never was
# operation: mul|add on cpu, cuda:0
# operands: locations|locations\[.*\], priors|self.priors
# category: state-not-registered
# error: on the same device|cuda:0
# line: self.priors = priors.to(self.device)
# line: self.device = torch.device(
# repair: self.priors = priors.to(self.device) -> self.register_buffer("priors", priors, persistent=False)
import torch
from torch import nn


def convert_locations_to_boxes(locations, priors, center_variance, size_variance):
    return torch.cat([
        locations[..., :2] * center_variance * priors[..., 2:] + priors[..., :2],
        torch.exp(locations[..., 2:] * size_variance) * priors[..., 2:],
    ], dim=-1)


class SSD(nn.Module):
    def __init__(self, priors, classes):
        super().__init__()
        self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        self.base = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.locations, self.scores = nn.Conv2d(8, 4, 1), nn.Conv2d(8, classes, 1)
        self.priors = priors.to(self.device)

    def forward(self, images):
        features = torch.relu(self.base(images))
        locations = self.locations(features).flatten(2).transpose(1, 2)
        scores = self.scores(features).flatten(2).transpose(1, 2)
        return scores.softmax(-1), convert_locations_to_boxes(locations, self.priors, 0.1, 0.2)


torch.manual_seed(0)
centers = torch.cartesian_prod(torch.arange(4), torch.arange(4)) / 4 + 0.125
net = SSD(torch.cat([centers, torch.full_like(centers, 0.2)], dim=1), classes=3).eval()
with torch.no_grad():
    scores, boxes = net(torch.rand(1, 3, 8, 8))
print("boxes", tuple(boxes.shape), round(boxes.sum().item(), 3))

# === buffers_in_dict
# thread: https://github.com/pytorch/pytorch/issues/43815
# about: the tensors are registered; the dict still holds what they were before .to(), which replaces buffers
# operation: sub on cuda:0, cpu
# operands: x|features|points, data\[|shift|scale
# category: state-not-registered|cached-state
# line: points = (points - self.data[
# line: points = points * self.data[
# line: self.data = {
# repair: points = (points - self.data["shift"]) -> points = points - self.data_shift
# repair: points = points * self.data["scale"] -> points = points * self.data_scale
import torch
import torch.nn as nn


class Whiten(nn.Module):
    def __init__(self, shift, scale):
        super().__init__()
        self.data = {"shift": torch.tensor(shift), "scale": torch.tensor(scale)}
        for name in self.data:
            self.register_buffer("data_" + name, self.data[name])

    def forward(self, points):
        points = (points - self.data["shift"])
        points = points * self.data["scale"]
        return points


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.whiten = Whiten([0.5, 0.5, 1.0], [2.0, 2.0, 1.0])
        self.mlp = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, points):
        return self.mlp(self.whiten(points)).amax(dim=1)


torch.manual_seed(1)
m = PointNet()
cloud = torch.rand(2, 30, 3)
with torch.no_grad():
    on_cpu = m(cloud)
    m.cuda()
    on_gpu = m(cloud.cuda())
print("same on both:", torch.allclose(on_cpu, on_gpu.cpu(), atol=1e-5))

# === criterion_list
# thread: https://github.com/Lightning-AI/pytorch-lightning/issues/2984
# about: the losses' weights are buffers of modules that a list hides; raised in F.cross_entropy
# operation: nll_loss on cuda:0, cpu
# operands: weight
# category: state-not-registered
# line: self.criterions = [
# repair: self.criterions = [nn.CrossEntropyLoss(weight=weight) for weight in letter_weights] -> self.criterions = nn.ModuleList(nn.CrossEntropyLoss(weight=weight) for weight in letter_weights)
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, pixels, letter_weights):
        super().__init__()
        self.positions, self.letters = letter_weights.shape
        self.body = nn.Sequential(nn.Linear(pixels, 12), nn.ReLU())
        self.head = nn.Linear(12, self.positions * self.letters)
        self.criterions = [nn.CrossEntropyLoss(weight=weight) for weight in letter_weights]

    def forward(self, image):
        return self.head(self.body(image)).unflatten(-1, (self.positions, self.letters))

    def training_step(self, batch):
        image, text = batch
        out = self(image)
        losses = {f"position_{i}": criterion(out[:, i], text[:, i]) for i, criterion in enumerate(self.criterions)}
        return sum(losses.values())


class Trainer:
    def __init__(self, device):
        self.device = torch.device(device)

    def fit(self, module, batches):
        module.to(self.device)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for batch in batches:
            optimizer.zero_grad()
            loss = module.training_step([part.to(self.device) for part in batch])
            loss.backward()
            optimizer.step()
        return loss.item()


torch.manual_seed(0)
batches = [(torch.rand(4, 10), torch.randint(0, 5, (4, 3))) for _ in range(2)]
print("loss", round(Trainer("cuda:0").fit(Reader(10, torch.rand(3, 5) + 0.5), batches), 4))

# === ema_shadow
# thread: https://github.com/dptech-corp/Uni-Core/issues/42
# about: one flat tensor of all parameters was made before the model was moved
# operation: sub on cuda:1, cpu
# operands: self.param|param, new_param
# category: state-not-registered|cached-state|input-not-moved
# line: main.py: self.ema = ExponentialMovingAverage(
# line: main.py: self.model = self.model.to(
# repair: main.py: self.ema = ExponentialMovingAverage(self.model, decay=0.9) -> self.ema = ExponentialMovingAverage(self.model.to(self.device), decay=0.9)
import torch

from ema import ExponentialMovingAverage


class Trainer(object):
    def __init__(self, model, device_id):
        self.device = torch.device("cuda", device_id)
        self.model = model
        self.ema = ExponentialMovingAverage(self.model, decay=0.9)
        self.model = self.model.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def train_step(self, sample):
        self.optimizer.zero_grad()
        loss = self.model(sample.to(self.device)).square().mean()
        loss.backward()
        self.optimizer.step()
        self.ema.update(self.model)
        return loss.item()


def cli_main():
    torch.manual_seed(42)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    trainer = Trainer(model, device_id=1)
    for _ in range(3):
        trainer.train_step(torch.rand(6, 4))
    print("averaged norm: {:.4f}".format(trainer.ema.param.norm().item()))


if __name__ == "__main__":
    cli_main()
# --- ema.py
import torch


def flatten(model):
    return torch.cat([p.detach().view(-1) for p in model.parameters()])


class ExponentialMovingAverage:
    def __init__(self, model, decay):
        self.decay = decay
        self.param = flatten(model)

    def update(self, model):
        with torch.no_grad():
            new_param = flatten(model)
            diff = self.param - new_param
            diff *= 1 - self.decay
            self.param -= diff

# === lm_scorer
# thread: https://github.com/speechbrain/speechbrain/issues/2804
# about: the searcher is a module; the scorer that it has is none, and has the language model
# operation: embedding|index_select|mm|addmm|linear on cuda:0, cpu
# operands: weight|embed.weight|embed, tokens|inp_tokens|memory|input
# category: state-not-registered|module-split|input-not-moved
# line: scorer.py: self.lm = lm
# line: searcher.py: self.scorer = scorer
# line: main.py: self.mods = nn.ModuleDict
# line: scorer.py: return self.weight * self.lm(
# line: main.py: lm = LanguageModel(
# repair: main.py: self.mods = nn.ModuleDict({"encoder": encoder, "decoder": searcher}).to(device) -> self.mods = nn.ModuleDict({"encoder": encoder, "decoder": searcher, "lm": searcher.scorer.lm}).to(device)
import torch
from torch import nn

from scorer import LanguageModel, LanguageModelScorer
from searcher import BeamSearcher


class EncoderDecoder:
    """Speech to words, as somebody has trained it."""

    def __init__(self, encoder, searcher, device):
        self.device = device
        self.mods = nn.ModuleDict({"encoder": encoder, "decoder": searcher}).to(device)

    @torch.no_grad()
    def transcribe(self, wavs):
        states = self.mods["encoder"](wavs.to(self.device))
        return self.mods["decoder"](states)


torch.manual_seed(0)
vocabulary, width = 9, 8
lm = LanguageModel(vocabulary, width)
searcher = BeamSearcher(vocabulary, width, LanguageModelScorer(lm, weight=0.3), steps=4)
asr = EncoderDecoder(nn.Linear(5, width), searcher, device="cuda:0")
print("tokens", list(asr.transcribe(torch.rand(2, 7, 5)).shape))
# --- scorer.py
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.out(self.embed(tokens)).log_softmax(-1)


class LanguageModelScorer:
    """How likely each next token is, by a language model."""

    def __init__(self, lm, weight):
        self.lm = lm
        self.weight = weight

    def score(self, inp_tokens):
        return self.weight * self.lm(inp_tokens)
# --- searcher.py
import torch
from torch import nn


class BeamSearcher(nn.Module):
    def __init__(self, vocabulary, width, scorer, steps):
        super().__init__()
        self.fc = nn.Linear(width, vocabulary)
        self.scorer = scorer
        self.steps = steps

    def forward(self, states):
        inp_tokens = torch.zeros(len(states), dtype=torch.long, device=states.device)
        chosen = []
        for step in range(self.steps):
            log_probs = self.fc(states[:, step]).log_softmax(-1)
            log_probs = log_probs + self.scorer.score(inp_tokens)
            inp_tokens = log_probs.argmax(-1)
            chosen.append(inp_tokens)
        return torch.stack(chosen, 1)

# === masternet
# thread: https://github.com/Adlik/zen_nas/issues/7
# about: the list is made in a base class; the model was moved, most of it
# operation: conv on cuda:0, cpu
# operands: x|input, weight
# category: state-not-registered
# error: Input type \(torch.cuda.FloatTensor\) and weight type \(torch.FloatTensor\) should be the same|on the same device
# line: plain_net.py: self.block_list = [
# repair: plain_net.py: self.block_list = [block(text) for text in structure.split("|")] -> self.block_list = nn.ModuleList(block(text) for text in structure.split("|"))
import torch

from plain_net import PlainNet


class MasterNet(PlainNet):
    def __init__(self, structure, num_classes):
        super().__init__(structure)
        self.fc_linear = torch.nn.Linear(self.out_channels, num_classes)

    def forward(self, x):
        x = super().forward(x)
        return self.fc_linear(x.mean(dim=(2, 3)))


def zen_score(model, resolution, gpu, repeat=2):
    """How much the outputs differ where the inputs do, without any training."""
    if gpu is not None:
        torch.cuda.set_device(gpu)
        model = model.cuda(gpu)
    scores = []
    for i in range(repeat):
        grid = torch.linspace(-1, 1, 3 * resolution**2).view(1, 3, resolution, resolution)
        x = (grid + 0.1 * i).cuda(gpu)
        with torch.no_grad():
            scores.append((model(x + 0.01) - model(x)).abs().sum().item())
    return sum(scores) / repeat


if __name__ == "__main__":
    torch.manual_seed(1)
    net = MasterNet("conv:3,8,3|conv:8,8,1", num_classes=4)
    print("score", round(zen_score(net, resolution=8, gpu=0), 5))
# --- plain_net.py
from torch import nn


def block(text):
    kind, sizes = text.split(":")
    assert kind == "conv", kind
    c_in, c_out, kernel = map(int, sizes.split(","))
    layer = nn.Conv2d(c_in, c_out, kernel, padding=kernel // 2)
    layer.block_name = text
    return layer


class PlainNet(nn.Module):
    """A network written as a string; searching is to change the string."""

    def __init__(self, structure):
        super().__init__()
        self.structure = structure
        self.block_list = [block(text) for text in structure.split("|")]
        self.out_channels = self.block_list[-1].out_channels

    def forward(self, x):
        for layer in self.block_list:
            x = layer(x).relu()
        return x

# === mqf2_network
# thread: https://github.com/sktime/pytorch-forecasting/pull/1916
# about: the metric is no module and has a network; the optimizer has its weights
# operation: addmm|mm|linear on cuda:0, cpu
# operands: weight|bias, hidden_state|hidden|input
# category: state-not-registered|module-split
# line: metrics.py: self.picnn =
# line: forecaster.py: self.loss =
# line: main.py: forecaster = Forecaster(
# repair: main.py: forecaster = Forecaster(width=6, loss=loss).to("cuda:0") -> forecaster = Forecaster(width=6, loss=loss).to("cuda:0"); loss.picnn.to("cuda:0")
import torch

from forecaster import Forecaster
from metrics import QuantileFunctionLoss

torch.manual_seed(0)
loss = QuantileFunctionLoss(hidden_size=6)
forecaster = Forecaster(width=6, loss=loss).to("cuda:0")
optimizer = torch.optim.SGD(forecaster.trained_parameters(), lr=0.05)
for step in range(2):
    batch = {"encoder_cont": torch.rand(4, 5, 6).to("cuda:0"), "target": torch.rand(4).to("cuda:0")}
    value = forecaster.training_step(batch)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
print("loss", round(value.item(), 4))
# --- forecaster.py
from torch import nn

from metrics import weights_of


class Forecaster(nn.Module):
    def __init__(self, width, loss):
        super().__init__()
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.loss = loss

    def trained_parameters(self):
        return [*self.parameters(), *weights_of(self.loss)]

    def forward(self, x):
        _, hidden = self.encoder(x["encoder_cont"])
        return hidden[-1]

    def training_step(self, x):
        return self.loss(self(x), x["target"])
# --- metrics.py
from torch import nn


class Metric:
    def __init__(self, name=None):
        self.name = name or type(self).__name__

    def __call__(self, prediction, target):
        return self.loss(prediction, target).mean()


class QuantileFunctionLoss(Metric):
    """A distribution as the gradient of a convex network."""

    def __init__(self, hidden_size, layers=2):
        super().__init__()
        dims = [hidden_size] * layers + [1]
        self.picnn = nn.Sequential(*(nn.Sequential(nn.Linear(a, b), nn.Softplus()) for a, b in zip(dims, dims[1:])))

    def map_x_to_distribution(self, hidden_state):
        return self.picnn(hidden_state).squeeze(-1)

    def loss(self, prediction, target):
        return (self.map_x_to_distribution(prediction) - target).square()


def weights_of(metric):
    return [p for each in vars(metric).values() if isinstance(each, nn.Module) for p in each.parameters()]

# === parameter_moved
# thread: https://github.com/pytorch/pytorch/issues/94828
# about: what .cuda() of a Parameter returns is no Parameter: the model's own move leaves it where it is
# operation: add|mul on cuda:0, cuda:1
# operands: x, t|self.t
# category: state-not-registered
# line: self.t = nn.Parameter(torch.rand(width)).cuda()
# repair: self.t = nn.Parameter(torch.rand(width)).cuda() -> self.t = nn.Parameter(torch.rand(width))
import torch
from torch import nn


class Shifted(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.t = nn.Parameter(torch.rand(width)).cuda()
        self.linear = nn.Linear(width, 3)

    def forward(self, x):
        x = self.t + x
        return self.linear(x)


class Student(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.inputs = nn.Linear(4, width)
        self.heads = nn.ModuleList(Shifted(width) for _ in range(blocks))

    def forward(self, x):
        hidden = self.inputs(x).tanh()
        return sum(head(hidden) for head in self.heads)


torch.manual_seed(0)
student = Student(8, blocks=2).to("cuda:1")
x = torch.linspace(-1, 1, 12).view(3, 4).to("cuda:1")
print("shape", tuple(student(x).shape), student(x).device)
