# Tensors on the meta device, which have a shape and no values.
import torch
from torch import nn
torch.manual_seed(0)

# === a part that the checkpoint has no key for
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: other state of Segmenter has values by now, and this was given none
# fix: with torch.device("cpu") if lazily else contextlib.nullcontext():
import contextlib
class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Linear(3, 3), nn.Linear(3, 2)
def read(state, lazily):
    with torch.device("meta") if lazily else contextlib.nullcontext():
        model = Segmenter()
    model.load_state_dict(state, strict=False, assign=lazily)
    return model
read({"backbone.weight": torch.ones(3, 3), "backbone.bias": torch.ones(3)}, lazily=True).to("cuda:0")

# === a model that nothing has filled
# category: no-memory-yet
# confidence: high
# repairs: line
# fix: model.to_empty(device="cuda:0")
model = nn.Linear(3, 2, device="".join(["me", "ta"]))
model.to("cuda:0")

# === a part that a device map leaves on the disk, of a model that is moved as a whole
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: A model that a map has placed is not moved as a whole
# fix: model = loaded(device_map={"": device})
class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
def loaded(device_map):
    values = Layers().state_dict()
    with torch.device("meta"):
        model = Layers()
    model.hf_device_map = {"first": "cpu", "second": "disk"} if device_map == "auto" else device_map
    for name, device in model.hf_device_map.items():
        if device != "disk":
            part = {key: value.to(device) for key, value in values.items() if key.startswith(name)}
            model.load_state_dict(part, strict=False, assign=True)
    return model
def run(device):
    model = loaded(device_map="auto")
    return model.to(device)
run("cuda:0")
