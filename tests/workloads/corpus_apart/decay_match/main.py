# EXPECT {"kind":"refused-op","operation":"sub","devices":["cuda:0","cpu"],"operands":["surface|compressed|self._compressed","reference|self._reference"],"category":"cached state","line":["losses.py: if self._reference is None:","losses.py: difference = "],"error":"on the same device","thread":"https://github.com/artificial-audio/pyFDN/pull/224","hard":"the target itself follows the response; what was derived from it at the first call does not"}
# FIX losses.py: if self._reference is None: -> if self._reference is None or self._reference.device != response.device:
import numpy as np
import torch

from fdn import FeedbackDelayNetwork
from losses import MatchCumulativeEnergy


def target_response(n_samples):
    rng = np.random.default_rng(224)
    return rng.normal(size=n_samples) * np.exp(-np.arange(n_samples) / 20)


def train(model, loss_function, device, n_steps):
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(n_steps):
        loss = loss_function(model(n_samples=64))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(224)
fdn = FeedbackDelayNetwork(delays=(3, 5, 7))
match = MatchCumulativeEnergy(target_response(64))
with torch.no_grad():
    before = match(fdn(n_samples=64)).item()
after = train(fdn, match, "cuda", n_steps=3)
print(f"{before:.4f} -> {after:.4f}")
