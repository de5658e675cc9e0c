import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, x, layer, cache, metadata):
        keys = cache.update(layer, self.wk(x))
        scores = self.wq(x) @ keys.T
        scores = scores + metadata.mask.bias
        return scores.softmax(-1) @ self.wv(x)


class Transformer(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.tok_embeddings, self.pos_embeddings = nn.Embedding(vocabulary, width), nn.Embedding(32, width)
        self.layers = nn.ModuleList(Attention(width) for _ in range(layers))
        self.output = nn.Linear(width, vocabulary)

    def forward(self, tokens, seqlens, cache):
        metadata = cache.get_input_metadata(seqlens)
        x = self.tok_embeddings(tokens) + self.pos_embeddings(metadata.positions)
        for index, layer in enumerate(self.layers):
            x = x + layer(x, index, cache, metadata)
        last = torch.tensor(seqlens).cumsum(0).to(x.device) - 1
        return self.output(x[last])
