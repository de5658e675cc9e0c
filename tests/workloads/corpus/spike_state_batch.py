# EXPECT {"kind":"refused-op","operation":"index_select","devices":["cpu","cuda:0"],"operands":["buffer","indices"],"category":"created without device","line":["indices = torch.randint(","resized = torch.index_select("],"error":"on the same device","thread":"https://github.com/synsense/sinabs/issues/84","hard":"only the last, smaller batch gets there"}
# FIX indices = torch.randint(low=0, high=len(buffer), size=(batch_size,)) -> indices = torch.randint(low=0, high=len(buffer), size=(batch_size,)).to(buffer.device)
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LeakyLayer(nn.Module):
    """Integrates its input over time; what is left of a batch is where the next one begins."""

    def __init__(self, shape, tau=0.9):
        super().__init__()
        self.tau = tau
        self.register_buffer("v_mem", torch.zeros(1, *shape))

    def fit_batch(self, batch_size):
        for name, buffer in list(self.named_buffers()):
            indices = torch.randint(low=0, high=len(buffer), size=(batch_size,))
            resized = torch.index_select(buffer, 0, indices)
            setattr(self, name, resized)

    def forward(self, spikes):
        if len(self.v_mem) not in (1, len(spikes)):
            self.fit_batch(len(spikes))
        out = []
        for step in spikes.unbind(1):
            self.v_mem = self.tau * self.v_mem.detach() + step
            out.append((self.v_mem > 1.0).float())
        return torch.stack(out, 1)


torch.manual_seed(0)
network = nn.Sequential(nn.Linear(6, 5), LeakyLayer((5,)), nn.Linear(5, 2)).to("cuda:0")
for layer in network:
    if isinstance(layer, nn.Linear):
        nn.init.constant_(layer.weight, 0.4)
        nn.init.zeros_(layer.bias)
loader = DataLoader(TensorDataset(torch.ones(11, 7, 6)), batch_size=4)
counts = []
with torch.no_grad():
    for (events,) in loader:
        counts.append(round(network(events.to("cuda:0")).sum().item(), 2))
print("spikes", counts)
