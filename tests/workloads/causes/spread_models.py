# Models whose parts are on several devices.
import torch
from torch import nn
torch.manual_seed(0)

# === taken to one GPU after its hooks were told another one
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: where a hook still brings what its module is given
# fix: answers = Asked(placed(Layered())).eval()
class Layered(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

class Asked(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).sum()

class Bring:
    def __init__(self, device):
        self.device = device

    def before(self, module, given):
        return tuple(each.to(self.device) for each in given)

def placed(model):
    for index, layer in enumerate(model.layers):
        layer.to(f"cuda:{index}").register_forward_pre_hook(Bring(f"cuda:{index}").before)
    return model

answers = Asked(placed(Layered())).cuda().eval()
answers(torch.ones(2, 3))

# === taken to one GPU, and its own code brings what its parts get to where they were
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: where the model's own code still brings what its module is given
# fix: self.model = model
class Mapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3).to(f"cuda:{index}") for index in range(2))
        self.places = ["cuda:0", "cuda:1"]

    def forward(self, x):
        for layer, place in zip(self.layers, self.places):
            x = layer(x.to(place))
        return x

class Judge:
    def __init__(self, model):
        self.model = model.to("cuda")

Judge(Mapped()).model(torch.ones(2, 3))

# === what its parts keep is put behind each other
# category: module-split-or-hook-missing
# confidence: low
# repairs: line
# fix: return torch.cat([state.flatten().to(states[0].device) for state in states])
class Recurrent:
    def __init__(self):
        self.layers = [nn.Linear(3, 3).to(f"cuda:{index}") for index in range(2)]

    def read(self, x):
        states = []
        for index, layer in enumerate(self.layers):
            x = layer(x.to(f"cuda:{index}"))
            states.append(x)
        return states

def packed(states):
    return torch.cat([state.flatten() for state in states])

packed(Recurrent().read(torch.ones(1, 3)))

# === a part whose buffers no loader has moved
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# says: while all other parts of Tower are on cuda:0
# fix: places = self.places_of(4).to(rows.device)
class Places(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("speeds", torch.ones(2), persistent=False)
    def forward(self, length):
        return torch.outer(torch.arange(length, dtype=self.speeds.dtype), self.speeds)
class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.places, self.entry = Places(), nn.Linear(2, 2)
    def places_of(self, length):
        table = self.places(length)
        return table.flip(0)
    def turned(self, rows, places):
        turns = places.cos()
        return rows * turns
    def forward(self, x):
        rows = self.entry(x)
        places = self.places_of(4)
        return self.turned(rows, places)
tower = Tower()
for parameter in tower.parameters():
    parameter.data = parameter.data.to("cuda:0")
tower(torch.ones(4, 2, device="cuda:0"))

# === a table of angles whose part was left, asked by a view of it
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# fix: angles = self.rotary.to(places.device)(places)
class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("speeds", torch.ones(2), persistent=False)
    def forward(self, places):
        return self.speeds[:, None] @ places[None, :].float()
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.rotary, self.head = nn.Embedding(5, 4), Rotary(), nn.Linear(4, 5)
    def forward(self, ids):
        x = self.words(ids)
        places = torch.arange(len(ids), device=x.device)
        angles = self.rotary(places)
        return x * angles.sum()
decoder = Decoder()
for name in ("words",):
    setattr(decoder, name, getattr(decoder, name).to("cuda:0"))
decoder(torch.tensor([1, 2], device="cuda:0"))

# === spread by a map, and a function moves all models that an object has
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: where AlignDevicesHook(execution_device=1) still brings what its module is given
# fix: if not hasattr(each, "hf_device_map"):
# fix:     each.cuda(0)
class AlignDevicesHook:
    def __init__(self, execution_device):
        self.execution_device = execution_device

    def pre_forward(self, module, given):
        return tuple(each.to(f"cuda:{self.execution_device}") for each in given)

def dispatched(model, device_map):
    for name, index in device_map.items():
        part = model.get_submodule(name).to(f"cuda:{index}")
        part._hf_hook = AlignDevicesHook(index)
        part.register_forward_pre_hook(part._hf_hook.pre_forward)
    model.hf_device_map = device_map
    return model

class Translator:
    def __init__(self, model):
        self.model = model

    def prepare(self):
        for each in vars(self).values():
            each.cuda(0)
        return self

Translator(dispatched(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)), {"0": 0, "1": 1})).prepare().model(torch.ones(2, 3))

# === spread by a map, and a constructor takes it to the device that it is told
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: where AlignDevicesHook(execution_device=1) still brings what its module is given
# fix: self.model = model if hasattr(model, "hf_device_map") else model.to(device)
class AlignDevicesHook:
    def __init__(self, execution_device):
        self.execution_device = execution_device

    def pre_forward(self, module, given):
        return tuple(each.to(f"cuda:{self.execution_device}") for each in given)

def dispatched(model, device_map):
    for name, index in device_map.items():
        part = model.get_submodule(name).to(f"cuda:{index}")
        part._hf_hook = AlignDevicesHook(index)
        part.register_forward_pre_hook(part._hf_hook.pre_forward)
    model.hf_device_map = device_map
    return model

class Judge:
    def __init__(self, model, device):
        self.model = model.to(device)

Judge(dispatched(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)), {"0": 0, "1": 1}), "cuda:0").model(torch.ones(2, 3))
