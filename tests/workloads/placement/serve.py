"""A model of linear layers that is dealt out to all devices, as a server would: weights of `--layers` times 32 MiB, and rows of `--batch`.

usage: serve.py [--layers N] [--batch N] [--tokens N] [--way dispatch|load]
"""

import argparse

import accelerate
import torch
from accelerate import dispatch_model, infer_auto_device_map, load_checkpoint_and_dispatch
from torch import nn

WIDTH = 2896  # a layer of float32: 32 MiB


class Model(nn.Module):
    _no_split_modules = ["Linear"]

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--tokens", type=int, default=4)
parser.add_argument("--way", default="dispatch", choices=["dispatch", "load"])
options = parser.parse_args()
torch.cuda.init()
if options.way == "load":
    with accelerate.init_empty_weights():
        model = Model(options.layers)
    torch.save({name: torch.zeros(each.shape) for name, each in model.state_dict().items()}, "checkpoint.bin")
    model = load_checkpoint_and_dispatch(model, "checkpoint.bin", device_map="sequential")
else:
    model = Model(options.layers)
    model = dispatch_model(model, infer_auto_device_map(model, no_split_module_classes=["Linear"]))
x = torch.ones(options.batch, WIDTH, device="cuda:0")
with torch.inference_mode():
    for _ in range(options.tokens):
        model(x)
print("served", options.batch)
