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
