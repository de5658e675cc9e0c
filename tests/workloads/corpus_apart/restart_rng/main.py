# EXPECT {"kind":"refused-op","operation":"","devices":["cuda:0","cpu"],"operands":[],"category":"generator|input","line":["serialization.py: torch.random.set_rng_state(","serialization.py: return torch.load(","main.py: state = load_checkpoint("],"error":"RNG state must be a torch.ByteTensor","thread":"https://github.com/lanl/hippynn/pull/12","hard":"raised by a generator, which gets its state from a file that was read to another GPU as a whole"}
# FIX serialization.py: torch.random.set_rng_state(state["torch_rng_state"]) -> torch.random.set_rng_state(state["torch_rng_state"].cpu())
import torch
from torch import nn

from serialization import create_state, load_checkpoint, restore_checkpoint, save_checkpoint


def network():
    return nn.Sequential(nn.Linear(3, 10), nn.Tanh(), nn.Dropout(0.1), nn.Linear(10, 1))


def energies(x):
    return (x.square().sum(dim=1, keepdim=True) + 1).log()


def train(model, optimizer, device, epochs):
    for _ in range(epochs):
        # Drawn on the CPU, so that a run is the same wherever it goes on.
        x = torch.rand(16, 3)
        loss = (model(x.to(device)) - energies(x).to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(12)
first = torch.device("cuda:1")
model = network().to(first).eval()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
train(model, optimizer, first, epochs=4)
file = save_checkpoint(create_state(model, optimizer, epoch=4))

second = torch.device("cuda:0")
model = network().to(second).eval()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
state = load_checkpoint(file, map_location=second)
epoch = restore_checkpoint(state, model, optimizer)
loss = train(model, optimizer, second, epochs=6 - epoch)
print("epoch 6, loss", round(loss, 4))
