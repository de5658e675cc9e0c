"""The programs whose cost is compared: each makes ready what it needs and gives the function that is one step. One table."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Program:
    about: str
    prepare: Callable[[], Callable[[], object]] | None
    steps: int  # of one turn: some tens of milliseconds
    binary: str = ""  # in place of `prepare`: a program that was built, below the build folder


def llama():
    import torch
    from accelerate import dispatch_model
    from transformers import LlamaConfig, LlamaForCausalLM

    layers = 4
    model = LlamaForCausalLM(LlamaConfig(hidden_size=64, intermediate_size=192, num_hidden_layers=layers, num_attention_heads=8, vocab_size=1000)).eval()
    places = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "lm_head": 1}
    places.update({f"model.layers.{layer}": int(layer >= layers // 2) for layer in range(layers)})
    model = dispatch_model(model, places)
    words = torch.arange(1, 33)[None].to("cuda:0")

    def step():
        with torch.no_grad():
            model(words, use_cache=False)

    return step


def residual_training():
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
            )

        def forward(self, x):
            return torch.relu(x + self.body(x))

    model = nn.Sequential(nn.Conv2d(3, 8, 3), *(Block(8) for _ in range(8)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)).to("cuda:0")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.zeros(4, 3, 16, 16, device="cuda:0"), torch.zeros(4, dtype=torch.long, device="cuda:0")

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def allocations():
    import torch

    def step():
        for size in range(1, 101):
            torch.empty(size * 64, device="cuda:0")

    return step


def data_loader():
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(torch.zeros(256, 64)), batch_size=16, num_workers=2, persistent_workers=True)

    def step():
        for (batch,) in loader:
            batch.to("cuda:0")

    return step


PROGRAMS = {
    "llama": Program("a forward step of LLaMA, 4 layers over two devices, bound by launches", llama, 2),
    "training": Program("a training step of a residual network of 8 blocks", residual_training, 2),
    "allocations": Program("a hundred tensors made and freed", allocations, 20),
    "loader": Program("an epoch of 16 batches from a DataLoader with two workers, moved to a device", data_loader, 2),
    "launches": Program("C++: a hundred launches on each of two devices; the stand-in takes a quarter of a microsecond for one", None, 50, "bench/peer-launches"),
}
