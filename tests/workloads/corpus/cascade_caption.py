# EXPECT {"kind":"refused-op","operation":"lstm","devices":["cuda:0","cuda:1"],"operands":["regions|img_enc|input","rnn|weight_ih_l0"],"category":"module split|input not moved","line":["outputs, state = self.net2(img_enc)","img_enc = self.net1(x)"],"error":"on the same device|not at the same device","thread":"https://github.com/pytorch/pytorch/issues/5703"}
# FIX outputs, state = self.net2(img_enc) -> outputs, state = self.net2(img_enc.to("cuda:1"))
import torch
from torch import nn


def vgg_net(width=8):
    layers, channels = [], 3
    for _ in range(2):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        channels = width
    return nn.Sequential(*layers)


class AttnLSTMNet(nn.Module):
    def __init__(self, width=8, hidden=10):
        super().__init__()
        self.rnn = nn.LSTM(width, hidden, batch_first=True)
        self.attn = nn.Linear(hidden, 1)

    def forward(self, img_enc):
        regions = img_enc.flatten(2).transpose(1, 2)
        states, (h, c) = self.rnn(regions)
        weights = torch.softmax(self.attn(states), dim=1)
        return (weights * states).sum(1), (h, c)


class CascadeNet(nn.Module):
    def __init__(self):
        super().__init__()
        # Too large for one card together.
        self.net1 = vgg_net().to("cuda:0")
        self.net2 = AttnLSTMNet().to("cuda:1")

    def forward(self, x):
        img_enc = self.net1(x)
        outputs, state = self.net2(img_enc)
        return outputs, state


torch.manual_seed(5703)
net = CascadeNet()
with torch.no_grad():
    cur_outputs, (cur_h, cur_c) = net(torch.rand(2, 3, 8, 8).to("cuda:0"))
print("caption state", tuple(cur_outputs.shape), round(cur_outputs.sum().item() + cur_c.sum().item(), 4))
