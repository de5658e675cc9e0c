"""A model whose layers accelerate keeps on the CPU, and moves to the device for the moment they are used; then one that is partly offloaded.
With `cpu` neither is. Prints the outputs as JSON."""

import json
import sys

import torch
from accelerate import cpu_offload, dispatch_model
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.mix = nn.Linear(16, 16)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 16))

    def forward(self, x):
        return x + torch.relu(self.mix(self.norm(x))) * self.scale


def make():
    torch.manual_seed(2)
    return nn.Sequential(*(Block() for _ in range(4)), nn.Linear(16, 5)).eval()


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    inputs = torch.randn(3, 16)
    whole, part = make(), make()
    if "cpu" not in sys.argv:
        whole = cpu_offload(whole, execution_device="cuda:1")
        part = dispatch_model(part, device_map={"0": 0, "1": "cpu", "2": 1, "3": "cpu", "4": 1}, main_device=0)
        assert {parameter.device.type for parameter in whole.parameters()} == {"meta"}
    outputs = {"whole": whole(inputs), "part": part(inputs)}
    print(json.dumps({name: output.cpu().tolist() for name, output in outputs.items()} | {"again": whole(inputs * 2).cpu().tolist()}))


if __name__ == "__main__":
    main()
