# What lies where it lies because another device was current then.
import torch
from torch import nn
torch.manual_seed(0)

# === made by lines that say no device, each while another one was current
# category: default-or-current-device
# confidence: medium
# repairs: line
# says: which says no device: it is the current one
class Spectrum(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.length = length
        self.register_buffer("window", torch.hann_window(length))

    def forward(self, wave):
        return torch.stft(wave, self.length, window=self.window, return_complex=True).abs()

def heard(spectrum, samples):
    return spectrum(torch.tensor(samples))

try:
    torch.set_default_device("cuda")
    spectrum = Spectrum(4)
    torch.cuda.set_device(1)
    heard(spectrum, [0.0, 0.5, 1.0, 0.5, 0.0, -0.5, -1.0, -0.5])
finally:
    torch.set_default_device(None)
    torch.cuda.set_device(0)

# === brought to the current device by a call above, and split since
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: comes from what
# fix: return torch.stack(picked).to(self.device)
class Waiting:
    def __init__(self, device):
        self.device, self.rows = device, []

    def add(self, rows):
        self.rows += list(rows.cpu())

    def pick(self, count):
        picked, self.rows = self.rows[:count], self.rows[count:]
        return torch.stack(picked).cuda()

def halves(rows):
    return torch.cat([rows / 2, rows * 2])

def searched(net, rows, device):
    waiting = Waiting(device)
    waiting.add(net(rows))
    rows = waiting.pick(2)
    rows = halves(rows)
    return net(rows)

torch.cuda.set_device(0)
searched(nn.Linear(3, 3).to("cuda:1"), torch.ones(2, 3, device="cuda:1"), "cuda:1")

# === taken to the current device in an optimizer's own line
# category: default-or-current-device
# confidence: medium
# repairs: cause
# fix: p.data = p.data + 0.5 * (p.data - old.to(p.data.device))
class Heavy(torch.optim.Optimizer):
    def __init__(self, params):
        params = list(params)
        super().__init__(params, {})
        self.kept = [p.detach().clone().cpu() for p in params]

    def step(self):
        for p, old in zip(self.param_groups[0]["params"], self.kept):
            p.data = p.data + 0.5 * (p.data - old.cuda())

torch.cuda.set_device(0)
Heavy(nn.Linear(3, 3).to("cuda:1").parameters()).step()

# === a classmethod that leaves the device to its default, and hands it on beside others
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: leaves device out
# fix: agent = Agent.load({"width": 3, "device": "cuda:0"}, device=device)
class Agent:
    def __init__(self, width, device="cpu"):
        self.device = device
        self.net = nn.Linear(width, 1).to(device)

    @classmethod
    def load(cls, saved, device="cpu"):
        agent = cls(**{"width": saved["width"]}, device=device)
        agent.device = saved["device"]
        return agent

    def act(self, state):
        state = torch.tensor(state).to(self.device)
        return self.net(state)

device = "cuda:0"
def play(device):
    agent = Agent.load({"width": 3, "device": "cuda:0"})
    return agent.act([1.0, 2.0, 3.0])
play(device)

# === what it was computed from was brought to a device whose variable says no number
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: which it names without a number
# fix: image = torch.from_numpy(image).to(next(self.parameters()).device, dtype=torch.float32)
import numpy
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

class Finder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 2)

    def read(self, image):
        image = torch.from_numpy(image).to(device, dtype=torch.float32)
        return image / 255

    def found(self, image):
        image = self.read(image)
        image = image - 0.5
        return self.body(image)

Finder().to("cuda:1").found(numpy.ones((2, 3)))
