# EXPECT {"kind":"refused-op","operation":"layer_norm","devices":["cuda:1","cuda:0"],"operands":["x|inps|input","norm.weight|norm.bias|weight|bias"],"category":"default or current device|module split","line":["layer.cuda()","self.inps = layer(self.inps)"],"error":"on the same device","thread":"https://github.com/casper-hansen/AutoAWQ/issues/194","hard":"the first blocks are where .cuda() leads; the quantizer itself moved the block that fails, and its inputs followed it before that"}
# FIX layer.cuda() -> layer.to(self.inps.device)
import torch
from torch import nn


class DecoderLayer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.fc2(torch.relu(self.fc1(self.norm(x))))


class AwqQuantizer:
    def __init__(self, layers, samples, group_size=8, w_bit=4):
        self.layers, self.inps = layers, samples
        self.group_size, self.w_bit = group_size, w_bit

    def round_to_grid(self, w):
        groups = w.reshape(-1, self.group_size)
        step = groups.abs().amax(1, keepdim=True) / (2 ** (self.w_bit - 1) - 1)
        return ((groups / step).round() * step).view_as(w)

    def inputs_of_linears(self, layer):
        """What goes into each linear of the layer; the samples go to where it is."""
        features, handles = {}, []
        for name, module in layer.named_children():
            if isinstance(module, nn.Linear):
                handles.append(module.register_forward_hook(lambda m, x, y, name=name: features.update({name: x[0]})))
        self.inps = self.inps.to(next(layer.parameters()).device)
        layer(self.inps)
        for handle in handles:
            handle.remove()
        return features

    @torch.no_grad()
    def quantize(self):
        lost = 0.0
        for layer in self.layers:
            features = self.inputs_of_linears(layer)
            for name, feature in features.items():
                linear = getattr(layer, name)
                exact = linear(feature)
                linear.weight.data = self.round_to_grid(linear.weight.data)
                lost += (linear(feature) - exact).square().mean().item()
            layer.cuda()
            self.inps = layer(self.inps)
        return lost


torch.manual_seed(0)
# Dispatched by its author: two layers on each device.
decoder = nn.ModuleList(DecoderLayer().to(f"cuda:{i // 2}") for i in range(4))
lost = AwqQuantizer(decoder, torch.randn(4, 6, 16)).quantize()
print("lost", round(lost, 4))
