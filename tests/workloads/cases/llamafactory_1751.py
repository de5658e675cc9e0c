# thread: https://github.com/hiyouga/LLaMA-Factory/issues/1751
# about: an attention of an older style joins past_key_value with the new keys; the cache comes from a prefix that was computed on the first GPU, the layer
#   is on the second.
# category: cached-state-elsewhere
# operands: past_key_value[0] cuda:0, key cuda:1
# fails: key = torch.cat((past_key_value[0], key), dim=1)
# fix: key = torch.cat((past_key_value[0].to(key.device), key), dim=1)


import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query_key_value = nn.Linear(16, 48)

    def forward(self, hidden_states, past_key_value):
        query, key, value = self.query_key_value(hidden_states).chunk(3, dim=-1)
        key = torch.cat((past_key_value[0], key), dim=1)
        value = torch.cat((past_key_value[1], value), dim=1)
        return nn.functional.scaled_dot_product_attention(query, key, value)


prefix = torch.nn.Embedding(4, 32).to("cuda:0")
with torch.no_grad():
    past_key_values = prefix(torch.arange(4, device="cuda:0"))[None].chunk(2, dim=-1)
layer = Attention().to("cuda:1")
layer(torch.randn(1, 3, 16).to("cuda:1"), past_key_values)
