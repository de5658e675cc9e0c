# EXPECT {"kind":"refused-op","operation":"div|mul|sub|add","devices":["cuda:1","cuda:0"],"operands":["self.value_bins|bins","value|values"],"category":"default or current device","line":["self.value_bins = self.value_bins.cuda()"],"error":"on the same device","thread":"https://github.com/LMCache/LMCache/pull/3091","hard":"its sibling two lines above is right"}
# FIX self.value_bins = self.value_bins.cuda() -> self.value_bins = self.value_bins.to(value.device)
import torch


class CacheDecoder:
    """Keys and values come as small integers, with so many bins for each layer."""

    def __init__(self, layers):
        self.key_bins = torch.tensor([32.0 if i < 2 else 16.0 for i in range(layers)])
        self.value_bins = torch.tensor([32.0 if i < 2 else 16.0 for i in range(layers)])

    def dequantize(self, codes, bins, scale):
        half = (bins / 2 - 1)[:, None, None]
        return (codes - half) / half * scale

    def decode(self, key, value, scale):
        if self.key_bins.device != key.device:
            self.key_bins = self.key_bins.to(key.device)
        if self.value_bins.device != value.device:
            self.value_bins = self.value_bins.cuda()
        return self.dequantize(key, self.key_bins, scale), self.dequantize(value, self.value_bins, scale)


torch.manual_seed(0)
device = torch.device("cuda:1")
decoder = CacheDecoder(layers=4)
codes = torch.randint(0, 16, (2, 4, 6, 8)).float().to(device)
key, value = decoder.decode(codes[0], codes[1], scale=0.5)
print("decoded", round((key.mean() + value.mean()).item(), 4))
