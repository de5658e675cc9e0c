# EXPECT {"kind":"refused-op","operation":"lt|less","devices":["cuda:0","cuda:1"],"operands":["arange|positions|row","lengths"],"category":"default or current device","line":["positions = torch.arange("],"error":"on the same device","thread":"https://github.com/OpenNMT/OpenNMT-py/pull/1494"}
# FIX positions = torch.arange(max_len or int(lengths.max()), device=torch.cuda.current_device()) -> positions = torch.arange(max_len or int(lengths.max()), device=lengths.device)
import torch
from torch import nn


def sequence_mask(lengths, max_len=None):
    """
    Creates a boolean mask from sequence lengths.
    """
    positions = torch.arange(max_len or int(lengths.max()), device=torch.cuda.current_device())
    return positions[None, :] < lengths[:, None]


class GlobalAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear_in = nn.Linear(dim, dim, bias=False)
        self.linear_out = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, source, memory_bank, memory_lengths):
        align = torch.einsum("btd,bsd->bts", self.linear_in(source), memory_bank)
        mask = sequence_mask(memory_lengths, max_len=align.size(-1))
        align.masked_fill_(~mask.unsqueeze(1), -float("inf"))
        context = align.softmax(-1) @ memory_bank
        return torch.tanh(self.linear_out(torch.cat([context, source], 2)))


class NMTModel(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embeddings = nn.Embedding(vocab, dim, padding_idx=1)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.GRU(dim, dim, batch_first=True)
        self.attn = GlobalAttention(dim)

    def forward(self, src, tgt, lengths):
        memory_bank, state = self.encoder(self.embeddings(src))
        dec_out, _ = self.decoder(self.embeddings(tgt), state)
        return self.attn(dec_out, memory_bank, lengths)


torch.manual_seed(1494)
gpu = torch.device("cuda", 1)
model = NMTModel(vocab=20, dim=8).to(gpu)
src, tgt = torch.randint(2, 20, (2, 5)), torch.randint(2, 20, (2, 4))
out = model(src.to(gpu), tgt.to(gpu), lengths=torch.tensor([5, 3]).to(gpu))
print("attended", list(out.shape), round(out.sum().item(), 4))
