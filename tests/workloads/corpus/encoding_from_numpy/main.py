# EXPECT {"kind":"refused-op","operation":"add","devices":["cpu","cuda:0"],"operands":["x","positional_encoding|from_numpy"],"category":"created without device|input not moved|cached state","line":["encoding.py: return torch.from_numpy(angles).float()","model.py: x = x + sinusoid("],"error":"on the same device","thread":"https://github.com/wingedsheep/transformer/issues/4","hard":"numpy made the memory, in another file; PyTorch never allocated it"}
# FIX encoding.py: return torch.from_numpy(angles).float() -> return torch.from_numpy(angles).float().to(get_device())
import torch

from encoding import get_device
from model import Decoder

torch.manual_seed(0)
model = Decoder(vocabulary=20, width=8).to(get_device())
tokens = torch.randint(0, 20, (2, 6)).to(get_device())
with torch.no_grad():
    print("logits", round(model(tokens).mean().item(), 4))
