# EXPECT {"kind":"refused-op","operation":"add|mul","devices":["cuda:0","cuda:1"],"operands":["x","t|self.t"],"category":"state not registered","line":["self.t = nn.Parameter(torch.rand(width)).cuda()"],"error":"on the same device","thread":"https://github.com/pytorch/pytorch/issues/94828","hard":"what .cuda() of a Parameter returns is no Parameter: the model's own move leaves it where it is"}
# FIX self.t = nn.Parameter(torch.rand(width)).cuda() -> self.t = nn.Parameter(torch.rand(width))
import torch
from torch import nn


class Shifted(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.t = nn.Parameter(torch.rand(width)).cuda()
        self.linear = nn.Linear(width, 3)

    def forward(self, x):
        x = self.t + x
        return self.linear(x)


class Student(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.inputs = nn.Linear(4, width)
        self.heads = nn.ModuleList(Shifted(width) for _ in range(blocks))

    def forward(self, x):
        hidden = self.inputs(x).tanh()
        return sum(head(hidden) for head in self.heads)


torch.manual_seed(0)
student = Student(8, blocks=2).to("cuda:1")
x = torch.linspace(-1, 1, 12).view(3, 4).to("cuda:1")
print("shape", tuple(student(x).shape), student(x).device)
