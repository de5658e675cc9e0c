"""Run under `devtrace rehearse --gpus 2` in each environment of `make matrix`: one of everything that docs/reference/versions.md tells of."""

import json
import sys

import torch

sys.path.insert(0, sys.argv[1])  # tests/helpers
from kernel_programs import DRIVER  # noqa: E402


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.scale = torch.ones(4, device="cuda:1")

    def forward(self, x):
        hidden = self.inner(x)
        return hidden * self.scale  # REFUSED


def moved_away(tensor):
    return tensor.to("cuda:1")


def mixed():
    return torch.sin(x) * moved_away(x)  # EXPRESSION


def caught(function) -> str:
    try:
        function()
    except Exception as error:  # of which class is PyTorch's business
        return type(error).__name__
    return ""


net = Net().to("cuda:0")
x = torch.ones(2, 4, device="cuda:0")
said = {"torch": torch.__version__, "refused": caught(lambda: net(x))}
said["raised in Python"] = caught(lambda: torch.ones(2, device="cuda:0").numpy())  # RAISED
caught(mixed)
numbers = torch.arange(4.0, device="cuda:0")
said["values"] = (torch.softmax(numbers, 0) @ numbers * 2 + 1).item()
said["values of the CPU"] = (torch.softmax(numbers.cpu(), 0) @ numbers.cpu() * 2 + 1).item()
moved = numbers.to("cuda:1")  # MOVED
said["moved"] = moved.tolist()
exec(compile(DRIVER + "launch(here, here, there)", "driver.py", "exec"), {})
runtime = next(line.split()[-1] for line in open("/proc/self/maps") if "libcudart.so" in line)
import ctypes  # noqa: E402

# The host is told to be the source, which lies on cuda:0.
buffer = ctypes.create_string_buffer(16)
ctypes.CDLL(runtime).cudaMemcpy(buffer, ctypes.c_void_p(numbers.data_ptr()), ctypes.c_size_t(16), 1)  # COPIED
print(json.dumps(said))
