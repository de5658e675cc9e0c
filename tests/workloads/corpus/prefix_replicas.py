# EXPECT {"kind":"refused-op","operation":"index_select|embedding","devices":["cuda:1","cuda:0"],"operands":["wte.weight|weight","input_tokens|tokens|input|index"],"category":"data parallel|state not registered","line":["self.input_tokens = torch.arange(","prefix = self.control_trans(self.wte(self.input_tokens))"],"error":"on the same device","thread":"https://github.com/adapter-hub/adapters/pull/359","hard":"it fails in the second replica's thread only; with one device the same program runs"}
# FIX self.input_tokens = torch.arange(prefix_length, device="cuda") -> self.register_buffer("input_tokens", torch.arange(prefix_length, device="cuda"))
import torch
from torch import nn


class PrefixTuning(nn.Module):
    """Learned keys and values that stand before those of each layer."""

    def __init__(self, n_layers, width, prefix_length=5, bottleneck=6):
        super().__init__()
        self.n_layers = n_layers
        self.input_tokens = torch.arange(prefix_length, device="cuda")
        self.wte = nn.Embedding(prefix_length, width)
        self.control_trans = nn.Sequential(nn.Linear(width, bottleneck), nn.Tanh(), nn.Linear(bottleneck, n_layers * 2 * width))

    def forward(self, batch_size):
        prefix = self.control_trans(self.wte(self.input_tokens))
        prefix = prefix.unflatten(-1, (self.n_layers, 2, -1)).permute(1, 2, 0, 3)
        return prefix.unsqueeze(2).expand(-1, -1, batch_size, -1, -1)


class Encoder(nn.Module):
    def __init__(self, n_layers=2, width=8, vocabulary=30, labels=3):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(n_layers))
        self.prefix_tuning = PrefixTuning(n_layers, width)
        self.classifier = nn.Linear(width, labels)

    def forward(self, input_ids, labels):
        hidden = self.embed(input_ids)
        prefixes = self.prefix_tuning(len(input_ids))
        for layer, (prefix_keys, prefix_values) in zip(self.qkv, prefixes):
            query, keys, values = layer(hidden).chunk(3, dim=-1)
            keys, values = torch.cat((prefix_keys, keys), dim=1), torch.cat((prefix_values, values), dim=1)
            hidden = hidden + (query @ keys.transpose(1, 2)).softmax(-1) @ values
        return nn.functional.cross_entropy(self.classifier(hidden.mean(1)), labels, reduction="none")


torch.manual_seed(0)
encoder = Encoder().cuda()
for name, parameter in encoder.named_parameters():
    parameter.requires_grad = "prefix_tuning" in name
parallel = nn.DataParallel(encoder, device_ids=[0, 1])
optimizer = torch.optim.Adam((p for p in encoder.parameters() if p.requires_grad), lr=0.01)
input_ids, labels = torch.randint(0, 30, (6, 7)).cuda(), torch.tensor([0, 1, 2, 0, 1, 2]).cuda()
for _ in range(2):
    loss = parallel(input_ids, labels).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 3))
