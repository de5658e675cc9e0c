# EXPECT {"kind":"refused-op","operation":"conv","devices":["cuda:0","cuda:1"],"operands":["x|input","weight|bias"],"category":"tied weights|module split","line":["self.body2 = nn.Sequential(*resblocks)"],"error":"on the same device","thread":"https://github.com/xinntao/Real-ESRGAN/issues/598","hard":"one list of blocks was given to both halves; the second .to() took the first half's parameters along"}
# FIX self.body2 = nn.Sequential(*resblocks).to("cuda:1") -> import copy; self.body2 = nn.Sequential(*copy.deepcopy(resblocks)).to("cuda:1")
import torch
import torch.nn as nn


def conv(in_channel, out_channel, kernel_size):
    layer = nn.Conv2d(in_channel, out_channel, kernel_size, padding=kernel_size // 2)
    nn.init.constant_(layer.weight, 0.02)
    nn.init.constant_(layer.bias, 0.1)
    return layer


class ResBlock(nn.Module):
    def __init__(self, channels, kernel_size):
        super().__init__()
        self.block = nn.Sequential(conv(channels, channels, kernel_size), nn.PReLU(), conv(channels, channels, kernel_size))

    def forward(self, x):
        return x + self.block(x)


class SRResNet(nn.Module):
    def __init__(self, img_feat=1, n_feats=4, kernel_size=3, num_block=4, scale=2):
        super().__init__()
        self.conv01 = conv(img_feat, n_feats, 5).to("cuda:0")
        resblocks = [ResBlock(n_feats, kernel_size) for _ in range(num_block // 2)]
        self.body1 = nn.Sequential(*resblocks).to("cuda:0")
        self.body2 = nn.Sequential(*resblocks).to("cuda:1")
        self.upscale = nn.PixelShuffle(scale)
        self.last_conv = conv(n_feats // scale**2, img_feat, kernel_size).to("cuda:1")

    def forward(self, x):
        x = self.conv01(x)
        skip = x
        x = self.body1(x)
        x = self.body2(x.to("cuda:1"))
        x = self.upscale(x + skip.to("cuda:1"))
        return self.last_conv(x)


model = SRResNet()
low = torch.linspace(0, 1, 36).reshape(1, 1, 6, 6).to("cuda:0")
high = model(low)
print("x2:", tuple(high.shape), "%.4f" % high.mean().item())
