# Optimizers and gradients: causes that only structure tells apart.
import torch
from torch import nn
torch.manual_seed(0)

# === a value of a parameter group
# category: optimizer-state
# confidence: high
# repairs: cause
# says: param_groups[0]["total"]
# says: load_state_dict
class Counting(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, dict(total=None))
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if group["total"] is None:
                    group["total"] = torch.zeros(1, device=p.device)
                group["total"].add_(p.grad.sum().reshape(1))
import io
model = nn.Linear(4, 1).to("cuda:0")
optimizer = Counting(model.parameters())
def step():
    model(torch.ones(2, 4, device="cuda:0")).sum().backward()
    optimizer.step()
step()
file = io.BytesIO()
torch.save(optimizer.state_dict(), file)
file.seek(0)
optimizer.load_state_dict(torch.load(file, map_location="cpu"))
step()

# === slow weights around an optimizer
# category: optimizer-state
# confidence: medium
# repairs: cause
# says: is kept by optimizer (Lookahead)
class Lookahead:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.slow = [p.detach().clone() for p in optimizer.param_groups[0]["params"]]
    def step(self):
        for p, slow in zip(self.optimizer.param_groups[0]["params"], self.slow):
            slow = slow.lerp(p.detach(), 0.5)
model = nn.Linear(4, 2)
optimizer = Lookahead(torch.optim.SGD(model.parameters(), lr=0.1))
model.to("cuda:0")
optimizer.step()

# === a state that was read before the parameters moved on
# category: optimizer-state
# confidence: medium
# repairs: cause
# says: moved after
# fix: self.model.to(device)
# fix: self.optimizer.load_state_dict(self.optimizer.state_dict())
import io
class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
    def resume(self, file):
        saved = torch.load(file, map_location="cpu")
        self.optimizer.load_state_dict(saved)
    def fit(self, device):
        self.model.to(device)
        self.step(device)
    def step(self, device):
        self.optimizer.zero_grad()
        self.model(torch.ones(3, 4, device=device)).sum().backward()
        self.optimizer.step()
first, second, file = Trainer(), Trainer(), io.BytesIO()
first.step("cpu")
torch.save(first.optimizer.state_dict(), file)
file.seek(0)
second.resume(file)
second.fit("cuda:0")

# === an optimizer's copies of weights that an engine moves later
# category: optimizer-state
# confidence: medium
# repairs: cause
# says: the parameter was moved after
# fix: self.model, self.optimizer = model.to(device), optimizer
# fix: self.optimizer.load_state_dict(self.optimizer.state_dict())
class Copies(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["z"] = parameter.detach().clone()
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                z = self.state[parameter]["z"]
                z.sub_(parameter.grad)
class Engine:
    def __init__(self, model, optimizer, device):
        self.model, self.optimizer = model.to(device), optimizer
    def step(self, x):
        self.model(x).sum().backward()
        self.optimizer.step()
def run():
    model = nn.Linear(4, 2)
    Engine(model, Copies(model.parameters()), "cuda:0").step(torch.ones(1, 4, device="cuda:0"))
run()

# === a gradient that backward makes of nothing
# category: gradient-elsewhere
# confidence: high
# repairs: cause
# says: Quantize.backward
# fix: return grad, torch.zeros(levels.shape, device=levels.device)
class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        ctx.save_for_backward(levels)
        return x.round()
    @staticmethod
    def backward(ctx, grad):
        levels, = ctx.saved_tensors
        return grad, torch.zeros(levels.shape)
def run(device):
    levels = nn.Parameter(torch.ones(4, device=device))
    Quantize.apply(torch.ones(2, 4, device=device), levels).sum().backward()
run("cuda:0")

# === a gradient that backward makes for a weight that it does not name
# category: gradient-elsewhere
# confidence: high
# repairs: cause
# fix: return grad, torch.zeros(4, device=grad.device)
class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        return x.round()
    @staticmethod
    def backward(ctx, grad):
        return grad, torch.zeros(4)
def run(device):
    levels = nn.Parameter(torch.ones(4, device=device))
    Round.apply(torch.ones(2, 4, device=device), levels).sum().backward()
run("cuda:0")

# === a function that has the optimizer alone
# category: optimizer-state
# confidence: high
# repairs: cause
# fix: saved = torch.load(path, map_location=optimizer.param_groups[0]["params"][0].device)
def resume(path, optimizer):
    saved = torch.load(path, map_location="cpu")
    for group in optimizer.param_groups:
        for parameter, state in zip(group["params"], saved.values()):
            optimizer.state[parameter] = dict(state)
import tempfile
model = nn.Linear(3, 1).to("cuda:0")
def step(optimizer):
    model(torch.ones(2, 3, device="cuda:0")).sum().backward()
    optimizer.step()
    return optimizer
with tempfile.NamedTemporaryFile() as file:
    torch.save(step(torch.optim.Adam(model.parameters())).state_dict()["state"], file.name)
    optimizer = torch.optim.Adam(model.parameters())
    resume(file.name, optimizer)
step(optimizer)

# === an average that was read from a file is written in place
# category: input-not-moved
# confidence: low
# repairs: line
# fix: average.lerp_(parameter.detach().to(average.device), 0.1)
class Average:
    def __init__(self):
        self.shadow = {}
    def load(self, state):
        self.shadow = dict(state)
    def update(self, module):
        for name, parameter in module.named_parameters():
            average = self.shadow[name]
            average.lerp_(parameter.detach(), 0.1)
module = nn.Linear(2, 2)
average = Average()
average.load({name: parameter.detach().clone() for name, parameter in module.named_parameters()})
module.to("cuda:0")
average.update(module)

# === a gradient that another attribute has
# category: optimizer-state
# confidence: medium
# repairs: cause
# says: lies where its parameter does
# fix: state["average"].lerp_(grad.to(state["average"].device), 0.1)
class Momentum(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.gathered
                state = self.state[p]
                if not state:
                    state["average"] = torch.zeros_like(p)
                state["average"].lerp_(grad, 0.1)
                p.sub_(state["average"])
layer = nn.Linear(3, 1)
for p in layer.parameters():
    p.gathered = torch.ones_like(p, device="cuda:0")
Momentum(layer.parameters()).step()

# === an attribute of the optimizer's own, from a file that was read to the CPU
# category: optimizer-state
# confidence: medium
# repairs: cause
# fix: saved = torch.load(file, map_location=DEVICE)
import io
DEVICE = torch.device("cuda:0")
class Factors(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
        self.factors = [torch.ones_like(p) for p in self.param_groups[0]["params"]]

    def step(self):
        for p, factor in zip(self.param_groups[0]["params"], self.factors):
            p.data = p.data - 0.1 * factor * p.grad

def restored(file):
    saved = torch.load(file, map_location="cpu")
    net = nn.Linear(2, 1).to(DEVICE)
    optimizer = Factors(net.parameters())
    optimizer.factors = saved["factors"]
    return net, optimizer

kept = io.BytesIO()
torch.save({"factors": Factors(nn.Linear(2, 1).to(DEVICE).parameters()).factors}, kept)
kept.seek(0)
net, optimizer = restored(kept)
net(torch.ones(3, 2, device=DEVICE)).sum().backward()
optimizer.step()

# === how long the gradients of two GPUs are
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# fix: each.grad.norm().to(self.param_groups[0]["params"][0].device)
class Uphill(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
    def length(self):
        return torch.norm(
            torch.stack([
                each.grad.norm()
                for group in self.param_groups for each in group["params"]
                if each.grad is not None
            ]),
        )
first, second = nn.Linear(2, 2).to("cuda:0"), nn.Linear(2, 1).to("cuda:1")
second(first(torch.ones(1, 2, device="cuda:0")).to("cuda:1")).sum().backward()
Uphill([*first.parameters(), *second.parameters()]).length()

# === an optimizer that goes on from a file, in front of the move of its model
# category: optimizer-state
# confidence: medium
# repairs: cause
# fix: self.model.cuda()
# fix: self.optimizer.load_state_dict(self.optimizer.state_dict())
import io
from types import SimpleNamespace
class GoingOn:
    def __init__(self, parts, stored=None):
        self.model, self.optimizer, self.schedule = parts.model, parts.optimizer, parts.schedule
        if stored:
            self.read(stored)
    def read(self, stored):
        stored.seek(0)
        self.optimizer.load_state_dict(torch.load(stored))
    def step(self):
        self.optimizer.zero_grad()
        self.model(torch.ones(1, 2).cuda()).sum().backward()
        self.optimizer.step()
    def train(self):
        self.model.cuda()
        self.step()
def parts():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    return SimpleNamespace(model=model, optimizer=optimizer, schedule=torch.optim.lr_scheduler.StepLR(optimizer, 1))
once, stored = GoingOn(parts()), io.BytesIO()
once.train()
torch.save(once.optimizer.state_dict(), stored)
GoingOn(parts(), stored).train()

# === an object that keeps an optimizer below the line that moves the model
# category: optimizer-state
# confidence: high
# repairs: cause
# fix: served = Server(model, optimizer, "cuda:0")
# fix: optimizer.load_state_dict(optimizer.state_dict())
class Server:
    def __init__(self, model, optimizer, device):
        self.model = model.to(device)
        self.device = device
        self.optimizer = optimizer
    def step(self, rows):
        self.model(rows.to(self.device)).sum().backward()
        self.optimizer.step()
def run(model, rows):
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1, foreach=False)
    served = Server(model, optimizer, "cuda:0")
    served.step(rows)
run(nn.Linear(2, 1), torch.ones(3, 2))
