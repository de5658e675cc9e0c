# Models that lie on several devices: causes that only structure tells apart.
import torch
from torch import nn
torch.manual_seed(0)

# === results of two models
# category: module-split-or-hook-missing
# confidence: low
# repairs: line
# says: self.reference
class Trainer:
    def __init__(self):
        self.model, self.reference = nn.Linear(4, 2).to("cuda:0"), nn.Linear(4, 2).to("cuda:1")
    def answers(self, model, x):
        return model(x.to(model.weight.device)).log_softmax(-1).sum(-1)
    def loss(self, chosen, reference):
        ratios = chosen - reference
        return ratios.mean()
    def step(self, x):
        return self.loss(self.answers(self.model, x), self.answers(self.reference, x))
Trainer().step(torch.ones(3, 4))

# === two models of one object
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# says: Converter is no module
# fix: self.encoder.to(x.device)
# fix: return self.encoder(x)
class Converter:
    def __init__(self):
        self.model, self.encoder = nn.Linear(4, 4).to("cuda:1"), nn.LSTM(4, 4).to("cuda:0")
    def convert(self, x):
        x = x.to(self.model.weight.device)
        return self.encoder(x)
Converter().convert(torch.ones(3, 2, 4))

# === a loss with a weight beside a model
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# says: Learner is no module and holds several
# fix: self.loss_function.to(y.device)
# fix: self.loss = self.loss_function(self.model(x), y)
class Learner:
    def __init__(self, model, loss_function, device):
        self.model = model.to(device)
        self.loss_function = loss_function
    def step(self, x, y):
        self.loss = self.loss_function(self.model(x), y)
learner = Learner(nn.Linear(4, 3), nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.0, 5.0])), "cuda:0")
learner.step(torch.ones(2, 4, device="cuda:0"), torch.zeros(2, dtype=torch.long, device="cuda:0"))

# === arguments that came the same way
# category: module-split-or-hook-missing
# confidence: low
# repairs: line
# fix: chosen = chosen.to(like_chosen.device)
# fix: rejected = rejected.to(like_chosen.device)
# fix: first = chosen - like_chosen
policy, reference = nn.Linear(3, 1).to("cuda:0"), nn.Linear(3, 1).to("cuda:1")
def scores(model, rows):
    out = model(rows.to(model.weight.device)).squeeze(1)
    return out[:2], out[2:]
def loss(chosen, rejected, like_chosen, like_rejected):
    first = chosen - like_chosen
    second = rejected - like_rejected
    return (first - second).mean()
rows = torch.ones(4, 3)
loss(*scores(policy, rows), *scores(reference, rows))

# === a model that a call took to the CPU
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: until
# fix: exported = export(model, x)
# fix: model.to(x.device)
def export(model, x):
    model.to("cpu")
    return model(x.cpu())
model = nn.Linear(4, 2).to("cuda:0")
x = torch.ones(1, 4, device="cuda:0")
exported = export(model, x)
model(x)

# === two layers that a constructor leaves behind
# category: module-split-or-hook-missing
# confidence: high
# repairs: cause
# also: self.value = nn.Linear(4, 1).to(self.device)
class Heads(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = torch.device(device)
        self.body = nn.Linear(4, 4).to(self.device)
        self.action = nn.Linear(4, 2)
        self.value = nn.Linear(4, 1)
    def forward(self, x):
        hidden = self.body(x)
        return self.action(hidden), self.value(hidden)
Heads("cuda:0")(torch.ones(2, 4, device="cuda:0"))

# === most of what a line reads is on the other device
# category: module-split-or-hook-missing
# confidence: high
# repairs: line
class Low(nn.Module):
    def __init__(self):
        super().__init__()
        self.base, self.d, self.b = nn.Linear(4, 4).to("cuda:1"), nn.Parameter(torch.ones(2, device="cuda:1")), nn.Parameter(torch.ones(4, device="cuda:1"))
        self.first, self.second = nn.Parameter(torch.ones(2, 4, device="cuda:0")), nn.Parameter(torch.ones(4, 2, device="cuda:0"))
    def forward(self, x):
        d, b, first, second = self.d, self.b, self.first[:, :4], self.second[:4]
        result = self.base(x)
        result = result + b * nn.functional.linear(d * nn.functional.linear(x, first), second)
        return result + self.base(x)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.start, self.low = nn.Linear(4, 4).to("cuda:1"), Low()
    def forward(self, x):
        return self.low(self.start(x))
Model()(torch.ones(1, 4, device="cuda:1"))

# === a buffer that is registered when the model has been moved
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: was given to Policy by Normalizer.fit after that was moved
# fix: policy.normalizer.fit(data)
# fix: policy.to(device)
class Normalizer(nn.Module):
    def fit(self, data):
        self.register_buffer("mean", data.mean(dim=0))
    def forward(self, x):
        return x - self.mean
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.normalizer, self.net = Normalizer(), nn.Linear(4, 2)
    def forward(self, x):
        return self.net(self.normalizer(x))
def run(data, device):
    policy = Policy().to(device)
    policy.normalizer.fit(data)
    x = torch.ones(1, 4, device=device)
    return policy(x)
run(torch.ones(8, 4), "cuda:0")

# === a state is begun on the GPU in a model on the CPU
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: all of whose state is on the CPU
# fix: state = self.begin(len(x), x.device)
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)
    def begin(self, count, device):
        return torch.zeros(count, 4, device=device)
    def forward(self, x):
        state = self.begin(len(x), torch.device("cuda:0"))
        return torch.addmm(x, state, self.net.weight)
Cell()(torch.ones(2, 4))

# === a model taken to the CPU for a while
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: took it to the CPU
# fix: return vae.to(pixels.device)(pixels)
import contextlib
@contextlib.contextmanager
def on_the_cpu(model):
    model.to("cpu")
    yield
    model.to("cuda:0")
def encode(vae, pixels):
    with on_the_cpu(vae):
        return vae(pixels)
encode(nn.Linear(4, 4).to("cuda:0"), torch.ones(1, 4, device="cuda:0"))

# === options say the device
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# fix: parts = dict(net=Late().to(options.device))
class Options:
    def __init__(self):
        self.device = "cuda:0"
class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def forward(self, x):
        return self.layer(x)
class Pipeline:
    def __init__(self, parts):
        self.net = parts["net"]
def load(options):
    parts = dict(net=Late())
    return Pipeline(parts)
def run(options):
    pipeline = load(options)
    return pipeline.net(torch.ones(1, 4, device=options.device))
run(Options())

# === a transform of which one constant was given a device
# category: module-split-or-hook-missing
# confidence: high
# repairs: cause
# says: Two parts of Transform
# fix: return self.transform.to(self.device)(x.to(self.device))
class Bank(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bank", torch.ones(4, 2))
class Transform(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.register_buffer("window", torch.ones(4, **given))
        self.mel = Bank()
    def forward(self, x):
        return torch.matmul(self.window, self.mel.bank) + x.sum()
class Features:
    def __init__(self, transform, device):
        self.transform, self.device = transform, device
    def __call__(self, x):
        return self.transform(x.to(self.device))
Features(Transform({"device": "cuda:0"}), "cuda:0")(torch.ones(1, 4))

# === an object constructs a model of a class that it is given
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# fix: evaluator = Evaluator(lambda: nn.Linear(4, 2))
# fix: evaluator.network.to(device)
class Evaluator:
    def __init__(self, kind):
        self.network = kind()
    def play(self, state):
        return self.network(state)
def run(device):
    evaluator = Evaluator(lambda: nn.Linear(4, 2))
    evaluator.play(torch.ones(2, 4).to(device))
run("cuda:0")

# === an object that has a device is given a second model
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# fix: self.average = average.to(self.device)
class Trainer:
    def __init__(self, model, average, device):
        self.device = device
        self.model = model.to(self.device)
        self.average = average
    def evaluate(self, x):
        return self.model(x.to(self.device)) - self.average(x.to(self.device))
model, average = nn.Linear(4, 2), nn.Linear(4, 2)
Trainer(model, average, "cuda:0").evaluate(torch.ones(3, 4))

# === the sum over the parts of a spread model
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: which is spread over devices
# fix: total = total + size.to(next(net.parameters()).device)
def squares(net):
    total = 0.0
    for weight in net.parameters():
        size = (weight * weight).sum()
        total = total + size
    return total
net = nn.Sequential(nn.Linear(2, 2).to("cuda:0"), nn.Linear(2, 2).to("cuda:1"))
squares(net)

# === wrapped after it was spread
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: Wrapper or this part of it was never moved
# fix: model.to(tokens.device)
# fix: model(tokens)
class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.near, self.far = nn.Embedding(5, 3), nn.Linear(3, 3).to("cuda:0")
    def forward(self, x):
        return self.far(self.near(x))
class Wrapper(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        return self.inner(x)
model, tokens = Wrapper(Body()), torch.tensor([1, 2]).to("cuda:0")
model(tokens)

# === a table of a spread model
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# says: on one of the devices that its parts are spread over
class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(3, 3).to(device) for device in ("cuda:0", "cuda:1"))
        self.bias = torch.arange(3.0, device="cuda:0")
    def forward(self, x):
        for part in self.parts:
            x = part(x.to(part.weight.device)) + self.bias
        return x
Stack()(torch.ones(2, 3))

# === an encoder that its pipeline has not moved
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# says: Pipe is no module and holds several
# fix: return self.decode(c.to(next(self.decode.parameters()).device))
class Pipe:
    def __init__(self):
        self.text, self.decode = nn.Embedding(5, 4), nn.Linear(4, 2)
    def to(self, device):
        self.decode.to(device)
        return self
    def run(self, ids):
        c = self.text(ids)
        return self.decode(c)
pipe = Pipe().to("cuda:0")
pipe.run(torch.tensor([1, 2]))

# === answers of two models on numbered devices
# category: module-split-or-hook-missing
# confidence: low
# repairs: line
# fix: return own.to(proposed.device) == proposed
target, draft = nn.Linear(3, 4).to("cuda:0"), nn.Linear(3, 4).to("cuda:1")
def verify(x):
    proposed = draft(x.to("cuda:1")).argmax(-1)
    own = target(x.to("cuda:0")).argmax(-1)
    return own == proposed
verify(torch.ones(2, 3))

# === an adapter put around a layer that has been moved
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# fix: setattr(model, name, Adapter(child).to(next(child.parameters()).device))
class Adapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.ones(2, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, 2))
    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T
def inject(model):
    for name, child in list(model.named_children()):
        setattr(model, name, Adapter(child))
    return model
model = inject(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)).to("cuda:0"))
model(torch.ones(2, 4, device="cuda:0"))

# === the trained side of two stays
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# fix: return nn.functional.cross_entropy(s, y) + nn.functional.kl_div(s.log_softmax(-1), t.to(s.device).softmax(-1))
class Distiller(nn.Module):
    def __init__(self):
        super().__init__()
        self.student, self.teacher = nn.Linear(4, 3).to("cuda:0"), nn.Linear(4, 3).to("cuda:1")
    def forward(self, x, y):
        with torch.no_grad():
            t = self.teacher(x.to("cuda:1"))
        s = self.student(x)
        return nn.functional.cross_entropy(s, y) + nn.functional.kl_div(s.log_softmax(-1), t.softmax(-1))
Distiller()(torch.ones(2, 4, device="cuda:0"), torch.tensor([0, 2], device="cuda:0"))

# === what is summed up stays where it is
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# fix: total = total + (piece.to(device) @ part.T).to(self.bias.device)
class Rows(nn.Module):
    def __init__(self, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ParameterList([nn.Parameter(torch.ones(4, 3).to(device)) for device in devices])
        self.bias = nn.Parameter(torch.ones(4).to(devices[0]))
    def forward(self, x):
        total = 0
        for part, device, piece in zip(self.parts, self.devices, x.chunk(2, -1)):
            total = total + piece.to(device) @ part.T
        return total + self.bias
Rows(["cuda:0", "cuda:1"])(torch.ones(2, 6))

# === answers of members, one after the other
# category: module-split-or-hook-missing
# confidence: low
# repairs: line
# says: which lie where it was computed each time
# fix: return torch.stack([value.to(place) for value in outs]).mean(0)
class Ensemble:
    def __init__(self, members):
        self.members = members
    def predict(self, x):
        outs = []
        for member in self.members:
            place = next(member.parameters()).device
            outs.append(member(x.to(place)).softmax(-1))
        return torch.stack(outs).mean(0)
Ensemble([nn.Linear(4, 3).to("cuda:0"), nn.Linear(4, 3).to("cuda:1")]).predict(torch.ones(2, 4))

# === saved from the CPU, and left there
# category: module-split-or-hook-missing
# confidence: high
# repairs: cause
# says: a module's .cpu() moves the module itself
# fix: states.append(self.delta.state_dict())
class Learner:
    def __init__(self, delta):
        self.delta, self.states = delta, []
    def save(self):
        states = self.states
        states.append(self.delta.cpu().state_dict())
    def learn(self, x):
        for _ in range(2):
            loss = self.delta(x).sum()
            self.save()
        return loss
Learner(nn.Linear(3, 2).to("cuda:0")).learn(torch.ones(2, 3, device="cuda:0"))

# === a teacher that its trainer has not moved
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# fix: taught = self.teacher.to(inputs["ids"].device)(**inputs)
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
    def forward(self, ids):
        return self.embed(ids).mean(1)
class Trainer:
    def __init__(self, model, teacher, device):
        self.model, self.teacher, self.device = model.to(device), teacher.eval(), device
    def loss(self, batch):
        inputs = {name: values.to(self.device) for name, values in batch.items()}
        learned = self.model(**inputs)
        taught = self.teacher(**inputs)
        return (learned - taught).square().mean()
trainer = Trainer(Classifier(), Classifier(), "cuda:0")
trainer.loss({"ids": torch.tensor([[1, 2], [3, 4]])})

# === a residual that goes into a part on the first card
# category: module-split-or-hook-missing
# confidence: low
# repairs: line
# says: did not come along
# fix: return self.norm(x.to(skip.device) + skip)
class Stage(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device, self.net = device, nn.Linear(4, 4).to(device)
    def forward(self, x):
        return self.net(x.to(self.device))
class Pipe(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([Stage("cuda:0"), Stage("cuda:1")])
        self.norm = nn.LayerNorm(4).to("cuda:0")
    def forward(self, x):
        skip = x
        for stage in self.stages:
            x = stage(x)
        return self.norm(x + skip)
Pipe()(torch.ones(2, 4, device="cuda:0"))

# === pictures are put among words, whose mask lies with them
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# fix: words = words.masked_scatter(mask[..., None], seen.to(words.dtype).to(words.device))
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision, self.text = nn.Linear(5, 6).to("cuda:1"), nn.Embedding(10, 6).to("cuda:0")
    def forward(self, ids, pixels):
        words = self.text(ids)
        seen = self.vision(pixels)
        mask = ids == 9
        words = words.masked_scatter(mask[..., None], seen.to(words.dtype))
        return words
Reader()(torch.tensor([[1, 9, 9, 2]], device="cuda:0"), torch.ones(2, 5, device="cuda:1"))

# === norms of all gradients, one by one
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# fix: return torch.stack([value.norm().to(self.params[0].device) for value in self.params]).norm()
class Norm:
    def __init__(self, params):
        self.params = list(params)
    def __call__(self):
        return torch.stack([value.norm() for value in self.params]).norm()
parts = nn.ModuleDict({"first": nn.Linear(3, 3).to("cuda:0"), "second": nn.Linear(3, 1).to("cuda:1")})
Norm(parts.parameters())()

# === one line has made the norms of two stages
# category: module-split-or-hook-missing
# confidence: low
# repairs: line
# says: made both
def norms_of(groups):
    norms = []
    for values in groups:
        norms.append(torch.linalg.vector_norm(torch.stack([value.sum() for value in values])))
    return torch.stack(norms).sum()
stages = [nn.Linear(2, 3, device=f"cuda:{card}") for card in range(2)]
norms_of([[value.detach() for value in stage.parameters()] for stage in stages])

# === an adapter in the options of a model, put away with all others
# category: cached-state-elsewhere
# confidence: medium
# repairs: cause
# fix: return hidden + adapter.to(latents.device)(hidden)
class Known:
    def __init__(self, device):
        self.device, self.known = device, []
    def load(self, module):
        self.known.append(module)
        return module.to(self.device)
    def unload(self):
        for module in self.known:
            module.to("cpu")
class Adapter(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(4, 4)
    def forward(self, hidden):
        return self.query(hidden)
class Flux(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.options = nn.Linear(4, 4), {}
    def forward(self, latents):
        hidden = self.inner(latents).tanh()
        adapter = self.options["adapter"]
        return hidden + adapter(hidden)
known, flux, adapter = Known("cuda:0"), Flux(), Adapter()
flux.options["adapter"] = known.load(adapter)
known.unload()
flux.to(known.device)
latents = torch.ones(1, 4).to(known.device)
flux(latents)

# === a scale of each layer, beside that layer
# category: module-split-or-hook-missing
# confidence: low
# repairs: line
# says: made both
# fix: return torch.cat([value.to(scales[1].device) for value in scales]).min()
def scale_of(weight):
    return 448 / weight.abs().max().reshape(1)
def smallest(layers):
    scales = [layer.global_scale for layer in layers]
    return torch.cat(scales).min()
fused = nn.ModuleDict({"query": nn.Linear(3, 3).to("cuda:0"), "value": nn.Linear(3, 3).to("cuda:1")})
for each in fused.children():
    each.global_scale = scale_of(each.weight.detach())
smallest(list(fused.children()))

# === modules of a list that no module has, of two layers each
# category: state-not-registered
# confidence: high
# repairs: line
# fix: added = low_rank.to(x.device)(x[:1])
class LowRank(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(4, 1), nn.Linear(1, 4)

    def forward(self, x):
        return self.up(self.down(x))

class Processor:
    def __init__(self):
        self.lora = [LowRank() for _ in range(2)]

    def __call__(self, x):
        for low_rank in self.lora:
            added = low_rank(x[:1])
            x = x + added
        return x

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.processor = nn.Linear(4, 4), Processor()

    def forward(self, x):
        x = self.inner(x)
        return self.processor(x)

attention = Attention().to("cuda:0")
attention(torch.ones(2, 4, device="cuda:0"))

# === a view of a buffer whose module nobody has moved
# category: module-split-or-hook-missing
# confidence: low
# repairs: cause
# fix: solver = Solver().to(device)
class Solver(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("lower", torch.ones(2, 2))
        self.register_buffer("weights", torch.ones(2))

    def step(self, field, x):
        slopes = torch.stack([field(x), field(x)])
        return torch.einsum("s,sd->d", self.lower[1, :], slopes) + torch.einsum("s,sd->d", self.weights, slopes)

device = torch.device("cuda:0")
field = nn.Linear(3, 3).to(device)
solver = Solver()
solver.step(field, torch.ones(3, device=device))

# === a module that its constructing line puts on the CPU
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: codes = torch.tensor([0, 1], device=next(self.tokenizer.parameters()).device)
class Tokenizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.book, self.out = nn.Embedding(3, 2), nn.Linear(2, 1)

    def decode(self, codes):
        return self.out(self.book(codes))

def load_tokenizer(device="cpu"):
    return Tokenizer().to(device).eval()

class Stage:
    def __init__(self, device):
        self.device = device
        self.tokenizer = load_tokenizer({"tokenizer": "cpu"}["tokenizer"])

    def __call__(self):
        codes = torch.tensor([0, 1], device=self.device)
        return self.tokenizer.decode(codes)

Stage(torch.device("cuda:0"))()

# === a part that is put away while others work
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# fix: style = self.parts["painter"].to(seen.device).embed(seen)
class Painter(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.paint = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x, style):
        return self.paint(x) + style

class Pipeline:
    def __init__(self, device):
        self.device = device
        self.parts = {"vision": nn.Linear(2, 3), "painter": Painter()}

    def activate(self, wanted):
        for name, part in self.parts.items():
            part.to(self.device if name == wanted else "cpu")

    def __call__(self, image=None):
        x, style = torch.ones(1, 3, device=self.device), 0.0
        if image is not None:
            self.activate("vision")
            seen = self.parts["vision"](image.to(self.device))
            style = self.parts["painter"].embed(seen)
        self.activate("painter")
        return self.parts["painter"](x, style)

pipeline = Pipeline(torch.device("cuda:0"))
for image in (None, torch.ones(1, 2)):
    pipeline(image)

# === a model that made room comes back where it is called
# category: cached-state-elsewhere
# confidence: medium
# repairs: cause
# fix: return self.module.to(self.device)(states.to(self.device)).log_softmax(-1)
class Engine:
    def __init__(self, device):
        self.device, self.module = device, nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).to(device)
    def to(self, device):
        self.module.to(device)
    def scores(self, states):
        return self.module(states.to(self.device)).log_softmax(-1)
def run(engine, states):
    engine.scores(states)
    engine.to("cpu")
    return engine.scores(states)
run(Engine("cuda:0"), torch.ones(2, 3))

# === a part that nothing fetches
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: something brings a layer's state there while it runs
# fix: return x + self.table.to(x.device)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.table = nn.Linear(3, 3), nn.Parameter(torch.ones(3))
    def forward(self, x):
        x = self.up(x)
        return x + self.table
block = Block()
block.up.register_forward_pre_hook(lambda module, args: module.to("cuda:0") and None)
block.up.register_forward_hook(lambda module, args, out: module.to("cpu") and None)
block(torch.ones(2, 3, device="cuda:0"))

# === weights that are used without a call
# category: module-split-or-hook-missing
# confidence: high
# repairs: line
# fix: return x @ self.mix.weight.to(x.device)
class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.mix = nn.Linear(3, 3), nn.Linear(3, 3)
    def forward(self, x):
        x = self.first(x)
        return x @ self.mix.weight
model = Mixed()
model.first.to("cuda:0")
model(torch.ones(2, 3, device="cuda:0"))

# === the device that its line can say, and not where a hook brings the weights
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: ids = torch.tensor(words, device=self.compute_device)
class Encoder(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.compute_device, self.tokens, self.out = device, nn.Embedding(5, 3), nn.Linear(3, 3)
    @property
    def device(self):
        return next(self.parameters()).device
    def encode(self, words):
        ids = torch.tensor(words, device=self.device)
        return self.tokens(ids).sum()
def fetched(module, args):
    module.weight.data = module.weight.data.to("cuda:0")
encoder = Encoder(torch.device("cuda:0"))
encoder.tokens.register_forward_pre_hook(fetched)
encoder.encode([1, 2])

# === a trainer that leaves the model on the CPU
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# fix: mean = self.module.to(counts.device).inference(counts)
class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(3, 2)
    def inference(self, counts):
        return self.encoder(torch.log1p(counts))
class Model:
    def __init__(self):
        self.module = Counts()
    def train(self, device):
        self.module.to(device)
        self.module.cpu()
        self.device = device
    def latent(self, rows):
        counts = rows.to(self.device)
        mean = self.module.inference(counts)
        return mean
model = Model()
model.train("cuda:0")
model.latent(torch.ones(2, 3))

# === an adapter on another card beside the layer that it stands in front of
# category: input-not-moved
# confidence: medium
# repairs: line
# fix: low = self.up(self.down(x.to(self.down.weight.device))).to(x.device)
class Adapter(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.forward_of_layer = layer.forward
        self.down, self.up = nn.Linear(4, 2), nn.Linear(2, 4)

    def forward(self, x):
        low = self.up(self.down(x))
        return self.forward_of_layer(x) + low

Adapter(nn.Linear(4, 4).to("cuda:0")).to("cuda:1")(torch.ones(3, 4, device="cuda:0"))

# === a wrapper round modules of a GPU, with a token of its own
# category: module-split-or-hook-missing
# confidence: high
# repairs: cause
# fix: distiller = Distiller(student=student).to(device)
class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 3)
    def forward(self, x, token):
        x = self.embed(x)
        tokens = token.expand(len(x), -1)
        return torch.cat([x, tokens])
class Distiller(nn.Module):
    def __init__(self, student):
        super().__init__()
        self.student, self.token, self.head = student, nn.Parameter(torch.ones(1, 3)), nn.Linear(3, 2)
    def forward(self, x):
        return self.head(self.student(x, self.token))
def train(device):
    student = Student().to(device)
    distiller = Distiller(student=student)
    return distiller(torch.ones(2, 3, device=device))
train(torch.device("cuda:0"))

# === what two replicas gave, which nobody has gathered
# category: data-parallel
# confidence: medium
# repairs: line
# says: nothing has gathered them
class Parallel(nn.DataParallel):
    def gather(self, outputs, output_device):
        return outputs
parallel = Parallel(nn.Linear(3, 3).to("cuda:0"), device_ids=[0, 1])
outputs = parallel(torch.ones(4, 3, device="cuda:0"))
torch.cat(outputs)

# === a layer that forward constructs and calls at once
# category: state-not-registered
# confidence: medium
# repairs: cause
# says: which it has not registered
# fix: x = nn.BatchNorm1d(self.features).to(x.device)(x)
class Normed(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.features = features
        self.down = nn.Linear(3, features)

    def forward(self, x):
        x = self.down(x)
        x = nn.BatchNorm1d(self.features)(x)
        return x.relu()

Normed(2).to("cuda:0")(torch.ones(4, 3, device="cuda:0"))

# === a model that was never moved is asked by a method with a decorator of PyTorch's
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# fix: return speaker.to(ids.device).generate(ids)
class Speaker(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5)
    @torch.no_grad()
    def generate(self, ids):
        return self.head(self.embed(ids)).argmax(-1)
def answered(speaker, text):
    ids = torch.tensor([ord(letter) % 5 for letter in text]).cuda()
    return speaker.generate(ids)
answered(Speaker(), "hello")

# === an agent moves its memory, and neither its model nor what that sees
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# fix: self.model = Recurrent().to(device)
# also: seen = self.prepare(rows, device=self.memory.device)
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.see, self.cell = nn.Linear(2, 4), nn.GRUCell(4, 4)
    def forward(self, seen, memory):
        x = self.see(seen)
        return self.cell(x, memory)
def prepare(rows, device=None):
    return torch.stack(rows).to(device)
class Agent:
    def __init__(self, device):
        self.prepare = prepare
        self.model = Recurrent()
        self.memory = torch.zeros(3, 4, device=device)
    def act(self, rows):
        seen = self.prepare(rows)
        self.memory = self.model(seen, self.memory)
        return self.memory
gpu = torch.device("cuda:0")
agent = Agent(gpu)
agent.act([torch.ones(2)] * 3)

# === what a module that waits on the CPU makes for the card, and counts on
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: a method of Tides
# fix: hours = torch.linspace(0, 3, count, device=self.levels.device)
class Tides(nn.Module):
    def __init__(self, place):
        super().__init__()
        self.place = place
        self.register_buffer("levels", torch.arange(5.0))

    def at(self, hours):
        hours = hours + 0.5
        return self.between(hours)

    def between(self, hours):
        below = hours.floor().long()
        return self.levels[below]

    def forward(self, count):
        hours = torch.linspace(0, 3, count, device=self.place["drawn"])
        return self.at(hours)

Tides({"drawn": "cuda:0"})(4)
