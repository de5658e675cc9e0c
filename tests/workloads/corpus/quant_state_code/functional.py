import torch

NF4 = [-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0, 0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0]


class QuantState:
    """What it takes to read a packed weight: the largest value of each block, and what the sixteen codes mean."""

    def __init__(self, absmax, code, shape, blocksize):
        self.absmax, self.code, self.shape, self.blocksize = absmax, code, shape, blocksize

    def to(self, device):
        self.absmax = self.absmax.to(device)
        return self


def quantize_4bit(weight, blocksize=16):
    code = torch.tensor(NF4, device=weight.device)
    blocks = weight.reshape(-1, blocksize)
    absmax = blocks.abs().amax(dim=1)
    nearest = ((blocks / absmax[:, None]).flatten()[:, None] - code).abs().argmin(dim=1).to(torch.uint8)
    return nearest[0::2] * 16 + nearest[1::2], QuantState(absmax, code, weight.shape, blocksize)


def dequantize_4bit(packed, state):
    nibbles = torch.stack((packed // 16, packed % 16), dim=1).flatten().long()
    values = state.code[nibbles]
    return (values.view(-1, state.blocksize) * state.absmax[:, None]).view(state.shape)
