"""What programs begin with whose threads change modules while devtrace looks at them: objects that count their beginning and their end."""

CLASSES = """
import gc, linecache, sys, threading, time
from collections import deque
import torch

made, gone = deque(), deque()  # appending is atomic, in a `__del__` that the collector calls, too
class Noted:
    def __init__(self):
        self.kept = [torch.ones(2)]
        made.append(1)
    def __del__(self):
        gone.append(1)
class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.noted = torch.nn.Parameter(torch.ones(2)), Noted()
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))
        self.listed, self.named = [], {}
net = Net().to("cuda:0")
"""
