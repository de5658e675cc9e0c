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
