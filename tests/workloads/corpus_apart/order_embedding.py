# EXPECT {"kind":"refused-op","operation":"add","devices":["cuda:0","cuda:1"],"operands":["x|tokens|features","pos_embed"],"category":"default or current device","line":["return x + pos_embed.cuda()","pos_embed = torch.zeros("],"error":"on the same device","thread":"https://github.com/xcyao00/FOD/issues/1"}
# FIX return x + pos_embed.cuda() -> return x + pos_embed.to(x.device)
import argparse
import math

import torch
import torch.nn as nn


class PositionEmbedding(nn.Module):
    """Sines and cosines over the rows and columns of a feature map."""

    def __init__(self, dim, temperature=10000):
        super().__init__()
        self.dim = dim
        self.temperature = temperature

    def forward(self, x, h, w):
        pos_embed = torch.zeros(1, h * w, self.dim)
        half = self.dim // 2
        steps = torch.exp(torch.arange(0, half, 2) * (-math.log(self.temperature) / half))
        rows = torch.arange(h).repeat_interleave(w)[:, None] * steps
        cols = torch.arange(w).repeat(h)[:, None] * steps
        pos_embed[0, :, 0:half:2], pos_embed[0, :, 1:half:2] = rows.sin(), rows.cos()
        pos_embed[0, :, half::2], pos_embed[0, :, half + 1 :: 2] = cols.sin(), cols.cos()
        return x + pos_embed.cuda()


class FODNet(nn.Module):
    def __init__(self, in_channels, dim, n_blocks):
        super().__init__()
        self.project = nn.Conv2d(in_channels, dim, 1)
        self.pos_embed = PositionEmbedding(dim)
        self.encoder = nn.ModuleList([nn.TransformerEncoderLayer(dim, 2, 2 * dim, dropout=0.0, batch_first=True) for _ in range(n_blocks)])

    def forward(self, features):
        h, w = features.shape[-2:]
        x = self.project(features).flatten(2).transpose(1, 2)
        x = self.pos_embed(x, h, w)
        for block in self.encoder:
            x = block(x)
        return x


def main(args):
    torch.manual_seed(args.seed)
    net = FODNet(6, 8, n_blocks=2).to(args.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    features = torch.rand(2, 6, 4, 5)
    for epoch in range(args.epochs):
        tokens = net(features.to(args.device))
        loss = (tokens - tokens.mean(1, keepdim=True)).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch {} loss {:.4f}".format(args.epochs, loss.item()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    main(parser.parse_args())
