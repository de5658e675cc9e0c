# thread: https://github.com/pytorch/pytorch/issues/1515
# about: the way most people meet it: training goes on from a checkpoint, and the model goes to the GPU after the optimizer's state was made on the CPU.
# category: optimizer-state
# operands: optimizer.state[…]["exp_avg"] cpu
# fails: optimizer.step()
# fix: optimizer.load_state_dict(optimizer.state_dict())  # once, after the model was moved



import torch
from torch import nn

model = nn.Linear(6, 3)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)


def step(device):
    optimizer.zero_grad()
    model(torch.randn(4, 6, device=device)).square().mean().backward()
    optimizer.step()


step("cpu")
model.to("cuda:0")
step("cuda:0")
