# EXPECT {"kind":"refused-op","operation":"add|index|cat|remainder|mul","devices":["cuda:0","cpu"],"operands":["self.state_index|state_index|index","self.ticks|ticks|slots"],"category":"created without device|module split","line":["self.state_index = torch.zeros(","where = (self.state_index"],"error":"on the same device","thread":"https://github.com/LukasHedegaard/continual-inference/pull/68","hard":"a registered buffer is made anew by a method that is called after the move"}
# FIX self.state_index = torch.zeros(1, dtype=torch.long) -> self.state_index = torch.zeros(1, dtype=torch.long, device=self.ticks.device)
import torch
from torch import nn


class Delay(nn.Module):
    """Gives what it was given some steps ago."""

    def __init__(self, steps, width):
        super().__init__()
        self.register_buffer("ticks", torch.arange(steps))
        self.register_buffer("state_index", torch.zeros(1, dtype=torch.long))
        self.register_buffer("rows", torch.zeros(steps, width))

    def clean_state(self):
        self.state_index = torch.zeros(1, dtype=torch.long)
        self.rows.zero_()

    def forward(self, x):
        where = (self.state_index + self.ticks) % len(self.ticks)
        given = self.rows[where[:1]]
        self.rows[where[:1]] = x
        self.state_index = (self.state_index + 1) % len(self.ticks)
        return given


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 3), Delay(2, 3)).to("cuda:0")
net[1].clean_state()
with torch.no_grad():
    rows = [net(torch.full((1, 4), float(i), device="cuda:0")) for i in range(4)]
print("late", round(torch.cat(rows).sum().item(), 4))
