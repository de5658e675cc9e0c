# EXPECT {"kind":"refused-op","operation":"mm|addmm|linear|embedding|index_select","devices":["cuda:0","cuda:1"],"operands":["weight|bias","x|input|hidden|ids"],"category":"default or current device","line":["return name, tensor.to(device)","model = load(","with ThreadPoolExecutor("],"error":"on the same device","thread":"https://github.com/huggingface/transformers/pull/42897","hard":"the weights are brought to \"cuda\" by threads of a pool, whose current device nobody set"}
# FIX return name, tensor.to(device) -> return name, tensor.to(device if device != "cuda" else f"cuda:{index}")
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


def materialize(name, tensor, device, index):
    return name, tensor.to(device)


def load(model, state, device, workers=2):
    """Each weight is read and brought to its device by one of several threads."""
    index = torch.cuda.current_device()
    with ThreadPoolExecutor(workers) as pool:
        loaded = list(pool.map(lambda item: materialize(*item, device, index), state.items()))
    for name, tensor in loaded:
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, nn.Parameter(tensor, requires_grad=False))
    return model


def build():
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))


torch.manual_seed(0)
state = build().state_dict()
torch.cuda.set_device(1)
model = load(build(), state, device="cuda")
x = torch.ones(4, 6).cuda()
print("logits", round(model(x).sum().item(), 4))
