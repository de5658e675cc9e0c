# EXPECT {"kind":"refused-op","operation":"index_select","devices":["cuda:1","cuda:0"],"operands":["state","beam_idx"],"category":"module split|cached state|input not moved","line":["return state.index_select(0, beam_idx)"],"error":"on the same device","thread":"https://github.com/huggingface/transformers/issues/9200","hard":"greedy decoding of the split model works"}
# FIX return state.index_select(0, beam_idx) -> return state.index_select(0, beam_idx.to(state.device))
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, layer_past):
        query, key, value = self.c_attn(x).chunk(3, dim=-1)
        if layer_past is not None:
            key, value = torch.cat((layer_past[0], key), dim=1), torch.cat((layer_past[1], value), dim=1)
        return x + self.c_proj((query @ key.transpose(1, 2)).softmax(-1) @ value), (key, value)


class GPT(nn.Module):
    def __init__(self, layers=4, vocabulary=20, width=8):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.h = nn.ModuleList(Block(width) for _ in range(layers))

    def parallelize(self, devices):
        self.wte.to(devices[0])
        for block, device in zip(self.h, devices):
            block.to(device)
        return self

    def forward(self, ids, past):
        x, presents = self.wte(ids), []
        for block, layer_past in zip(self.h, past or [None] * len(self.h)):
            x, present = block(x.to(block.c_proj.weight.device), layer_past)
            presents.append(present)
        return x[:, -1].to(self.wte.weight.device) @ self.wte.weight.T, tuple(presents)

    @staticmethod
    def reorder(past, beam_idx):
        def of(state):
            return state.index_select(0, beam_idx)

        return [(of(keys), of(values)) for keys, values in past]


@torch.no_grad()
def beam_search(model, ids, num_beams, steps):
    ids, past = ids.expand(num_beams, -1), None
    scores = torch.tensor([0.0] + [-1e9] * (num_beams - 1)).to(ids.device)
    for _ in range(steps):
        logits, past = model(ids if past is None else ids[:, -1:], past)
        total = scores[:, None] + logits.log_softmax(-1)
        scores, best = total.flatten().topk(num_beams)
        beam_idx, token = best // logits.shape[1], best % logits.shape[1]
        ids = torch.cat((ids[beam_idx], token[:, None]), dim=1)
        past = model.reorder(past, beam_idx)
    return ids[0]


torch.manual_seed(0)
model = GPT().eval().parallelize(["cuda:0", "cuda:0", "cuda:1", "cuda:1"])
prompt = torch.tensor([[11, 4, 17]]).to("cuda:0")
print("beam", beam_search(model, prompt, num_beams=3, steps=5).tolist())
