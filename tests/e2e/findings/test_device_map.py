"""What accelerate's map of a model says of the tensors that met, and what the verdict makes of it."""

from conftest import findings_of, start_snippets

MODEL = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        return self.second(self.first(x))
model = Net()
x = torch.ones(2, 4, device="cuda:0")
"""
SNIPPETS = {
    # accelerate's own map and hooks; then somebody moves a part.
    "moved afterwards": MODEL + """
from accelerate import dispatch_model
model = dispatch_model(model, {"first": 0, "second": 1})
model(x)
model.second.cuda(0)
model(x)
""",
    "not in the map": MODEL + """
model.first.to("cuda:0")
model.hf_device_map = {"first": 0}
model(x)
""",
    "as the map says": MODEL + """
model.first.to("cuda:0"), model.second.to("cuda:1")
model.hf_device_map = {"first": 0, "second": torch.device("cuda:1")}
model(x)
""",
    "no map at all": MODEL + """
model.first.to("cuda:0"), model.second.to("cuda:1")
model.hf_device_map = ["first", "second"]
model(x)
""",
}
SAID = {
    "moved afterwards": ("second: cuda:1", "The model's hf_device_map has second on cuda:1: something moved second."),
    "not in the map": ("not in the map", "The model's hf_device_map does not name second."),
    "as the map says": ("second: cuda:1", None),
    "no map at all": (None, None),
}


def test_the_map_is_read_and_contradicted_where_it_is_wrong(tmp_path):
    outcome, _ = start_snippets(SNIPPETS, tmp_path)
    for name, (entry, sentence) in SAID.items():
        (finding,) = findings_of(outcome, name)
        operand = next(one for one in finding["operands"] if one.get("module_path", "").startswith("second."))
        assert operand.get("device_map") == entry, name
        because = finding["cause"]["because"]
        assert finding["cause"]["category"] == "module-split-or-hook-missing", (name, because)
        assert (sentence in because) if sentence else "hf_device_map" not in because, (name, because)
