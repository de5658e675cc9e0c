# === training
"""A model in two halves, each on its own device, is trained with AdamW. With `cpu` both halves are on the CPU. Prints the losses as JSON."""

import json
import sys

import torch
from torch import nn


class Halves(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second
        self.embedding = nn.Embedding(50, 32).to(first)
        self.lower = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True).to(first)
        self.upper = nn.LSTM(32, 24, batch_first=True).to(second)
        self.norm = nn.LayerNorm(24).to(second)
        self.head = nn.Linear(24, 50).to(second)

    def forward(self, tokens):
        hidden = self.lower(self.embedding(tokens.to(self.first)))
        hidden, _ = self.upper(hidden.to(self.second))
        return self.head(self.norm(hidden))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(11)
    first, second = ("cpu", "cpu") if "cpu" in sys.argv else ("cuda:0", "cuda:1")
    data = torch.randint(50, (4, 13))
    model = Halves(first, second)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=12)
    losses, norms = [], []
    for _ in range(12):
        optimizer.zero_grad()
        logits = model(data[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), data[:, 1:].flatten().to(second))
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    state = torch.cat([value.flatten().cpu() for value in model.state_dict().values()])
    print(json.dumps({"losses": losses, "norms": norms, "weights": [state.mean().item(), state.std().item()]}))


if __name__ == "__main__":
    main()

# === data_parallel
"""nn.DataParallel on two devices; with `cpu` the bare module. Prints the losses as JSON."""

import json
import sys

import torch
from torch import nn


def main():
    torch.set_num_threads(1)
    torch.manual_seed(5)
    cpu = "cpu" in sys.argv
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.GELU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 10))
    images, labels = torch.randn(8, 3, 12, 12), torch.randint(10, (8,))
    device = "cpu" if cpu else "cuda:0"
    model = module if cpu else nn.DataParallel(module.to(device), device_ids=[0, 1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(8):
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        outputs = model(images.to(device)).cpu()
    print(json.dumps({"losses": losses, "outputs": outputs[0].tolist()}))


if __name__ == "__main__":
    main()

# === distributed
"""DistributedDataParallel over gloo, a device a process, started by torchrun. Alone, and with `cpu`, one process has all of the data on
the CPU. The first process prints the losses (of all data) and the weights as JSON."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4))
    inputs, targets = torch.randn(16, 12), torch.randn(16, 4)
    rank, world, device = 0, 1, "cpu"
    if "cpu" not in sys.argv:
        dist.init_process_group("gloo")
        rank, world = dist.get_rank(), dist.get_world_size()
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
        model = DistributedDataParallel(model.to(device), device_ids=[rank])
    mine = slice(rank * 16 // world, (rank + 1) * 16 // world)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(8):
        loss = nn.functional.mse_loss(model(inputs[mine].to(device)), targets[mine].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        if world > 1:
            dist.all_reduce(total)
        losses.append(total.item() / world)
    if world > 1:
        gathered = [torch.zeros_like(total) for _ in range(world)]
        dist.all_gather(gathered, loss.detach())
        assert abs(sum(gathered).item() / world - losses[-1]) < 1e-5
    if rank == 0:
        print(json.dumps({"losses": losses, "weights": [parameter.sum().item() for parameter in model.parameters()]}))
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

# === offload
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

# === loader
"""A DataLoader with workers and pinned memory feeds two devices by copies that do not wait. With `cpu` everything is the CPU's. Prints what
was learnt as JSON."""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        x = torch.linspace(0, 1, 20) * (index + 1)
        return {"wave": torch.sin(x), "label": torch.tensor(index % 3)}


def main():
    torch.set_num_threads(1)
    torch.manual_seed(9)
    cpu = "cpu" in sys.argv
    devices = ["cpu", "cpu"] if cpu else ["cuda:0", "cuda:1"]
    model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 3))
    models = [nn.Sequential(*(type(part)(*shape) if shape else type(part)() for part, shape in zip(model, ((20, 16), (), (16, 3))))).to(d) for d in devices]
    for copy in models:
        copy.load_state_dict(model.state_dict())
    optimizers = [torch.optim.SGD(copy.parameters(), lr=0.5) for copy in models]
    # The CUDA context exists before the workers are forked.
    loader = DataLoader(Waves(), batch_size=8, num_workers=2, pin_memory=not cpu, shuffle=True, generator=torch.Generator().manual_seed(4), persistent_workers=True)
    losses, pinned = [], set()
    for _ in range(2):
        for batch in loader:
            pinned.add(batch["wave"].is_pinned() if not cpu else True)
            for device, copy, optimizer in zip(devices, models, optimizers):
                wave, label = (batch[key].to(device, non_blocking=True) for key in ("wave", "label"))
                loss = nn.functional.cross_entropy(copy(wave), label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
    print(json.dumps({"losses": losses, "pinned": sorted(pinned)}))


if __name__ == "__main__":
    main()

# === cuda_graph
"""A training step and an inference captured into CUDA graphs and replayed with new data; with `cpu` the same steps by themselves. Prints
losses and outputs as JSON."""

import json
import sys

import torch
from torch import nn


def make(device):
    torch.manual_seed(13)
    return nn.Sequential(nn.Linear(10, 24), nn.SiLU(), nn.Linear(24, 3)).to(device)


def main():
    torch.set_num_threads(1)
    cpu = "cpu" in sys.argv
    device = "cpu" if cpu else "cuda:1"
    torch.manual_seed(17)
    batches = [(torch.randn(6, 10), torch.randn(6, 3)) for _ in range(5)]
    if not cpu:
        torch.cuda.set_device(device)
    model = make(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.zeros(6, 10, device=device), torch.zeros(6, 3, device=device)

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def fill(batch):
        x.copy_(batch[0])
        y.copy_(batch[1])

    run = step
    fill(batches[0])
    for _ in range(2):  # warm-up, as PyTorch asks for: the momentum buffers come into being
        side = None if cpu else torch.cuda.Stream()
        if side is None:
            step()
        else:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                step()
            torch.cuda.current_stream().wait_stream(side)
    if not cpu:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = step()

        def run():
            graph.replay()
            return captured

    losses = []
    for batch in batches:
        fill(batch)
        losses.append(run().item())
    with torch.no_grad():
        if cpu:
            call = model
        else:
            call = torch.cuda.make_graphed_callables(make(device).eval(), (torch.zeros(6, 10, device=device),))
            call.load_state_dict(model.state_dict())
        outputs = [call(batch[0].to(device)).sum(dim=1).tolist() for batch in batches[:2]]
    print(json.dumps({"losses": losses, "outputs": outputs}))


if __name__ == "__main__":
    main()

# === allocators
"""Work that makes the allocator grow, shrink and reuse, for any of its back ends. With `cpu` on the CPU. Prints results as JSON."""

import json
import sys

import torch


def main():
    torch.set_num_threads(1)
    torch.manual_seed(19)
    cpu = "cpu" in sys.argv
    devices = ["cpu", "cpu"] if cpu else ["cuda:0", "cuda:1"]
    sums, kept = [], []
    for round_ in range(6):
        made = [torch.randn(1 << (10 + round_ * 2)).to(d) for d in devices]
        sums += [tensor.double().sum().item() for tensor in made]
        kept.append((made[0][:512] * made[1][:512].to(devices[0])).clone())
        if round_ % 2:
            kept.pop(0)
            del made
            if not cpu:
                torch.cuda.empty_cache()
    large = torch.arange(3 << 20, dtype=torch.float32).to(devices[1])  # 12 MiB: several pages of an expandable segment
    sums.append(large.view(3, -1).double().mean(dim=1).cpu().tolist())
    if not cpu:
        stream = torch.cuda.Stream(devices[0])
        with torch.cuda.stream(stream):
            side = kept[-1] * 2
        side.record_stream(torch.cuda.current_stream(devices[0]))
        torch.cuda.current_stream(devices[0]).wait_stream(stream)
    else:
        side = kept[-1] * 2
    sums.append(side.double().sum().item())
    backend = None if cpu else torch.cuda.get_allocator_backend()
    segments = [] if cpu or backend != "native" else sorted({segment["is_expandable"] for segment in torch.cuda.memory_snapshot()})
    print(json.dumps({"sums": sums, "kept": [tensor.double().sum().item() for tensor in kept], "about": [backend, segments]}))


if __name__ == "__main__":
    main()

# === generation
"""Two language models, each split by accelerate over some devices, generate text.

generation.py FOLDER DEVICES… (2 4 8): for each model and each number of devices, the tokens and where the layers were, as JSON; the
number 0 means the CPU. FOLDER keeps the models, as a cache of downloads would.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

LAYERS = 16


def make(name):
    torch.manual_seed(3)
    if name == "llama":
        return LlamaForCausalLM(LlamaConfig(
            vocab_size=160, hidden_size=64, intermediate_size=128, num_hidden_layers=LAYERS, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=64, initializer_range=0.3))
    return GPT2LMHeadModel(GPT2Config(vocab_size=160, n_embd=64, n_layer=LAYERS, n_head=4, n_positions=64, initializer_range=0.3, bos_token_id=1, eos_token_id=2))


def load(folder, name, devices):
    path = folder / name
    if not path.exists():
        make(name).save_pretrained(path)
    if devices == 0:
        return AutoModelForCausalLM.from_pretrained(path)
    # Devices that hold just their share, but for the last, so that the model reaches all of them.
    share = sum(file.stat().st_size for file in path.glob("*.safetensors")) // devices
    limits = {device: share if device < devices - 1 else "1GiB" for device in range(devices)}
    return AutoModelForCausalLM.from_pretrained(path, device_map="auto", max_memory=limits)


def generate(model, **how):
    prompt = torch.tensor([[5, 80, 7, 33, 121, 9], [100, 3, 64, 12, 90, 41]], device=model.device)
    made = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=10, pad_token_id=0, eos_token_id=None, **how)
    return made[:, prompt.shape[1]:].tolist()


def main():
    torch.set_num_threads(1)
    folder, counts = Path(sys.argv[1]), [int(word) for word in sys.argv[2:]]
    found = {}
    for name in ("llama", "gpt2"):
        for devices in counts:
            model = load(folder, name, devices).eval()
            found[f"{name} {devices}"] = {
                "greedy": generate(model, do_sample=False),
                "beams": generate(model, do_sample=False, num_beams=2),
                "devices": sorted({str(parameter.device) for parameter in model.parameters()}),
            }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
