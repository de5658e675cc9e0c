# EXPECT {"kind":"refused-op","operation":"embedding|index_select|mm|addmm|linear","devices":["cuda:0","cpu"],"operands":["weight|embed.weight|embed","tokens|inp_tokens|memory|input"],"category":"state not registered|module split|input not moved","line":["scorer.py: self.lm = lm","searcher.py: self.scorer = scorer","main.py: self.mods = nn.ModuleDict","scorer.py: return self.weight * self.lm(","main.py: lm = LanguageModel("],"error":"on the same device","thread":"https://github.com/speechbrain/speechbrain/issues/2804","hard":"the searcher is a module; the scorer that it has is none, and has the language model"}
# FIX main.py: self.mods = nn.ModuleDict({"encoder": encoder, "decoder": searcher}).to(device) -> self.mods = nn.ModuleDict({"encoder": encoder, "decoder": searcher, "lm": searcher.scorer.lm}).to(device)
import torch
from torch import nn

from scorer import LanguageModel, LanguageModelScorer
from searcher import BeamSearcher


class EncoderDecoder:
    """Speech to words, as somebody has trained it."""

    def __init__(self, encoder, searcher, device):
        self.device = device
        self.mods = nn.ModuleDict({"encoder": encoder, "decoder": searcher}).to(device)

    @torch.no_grad()
    def transcribe(self, wavs):
        states = self.mods["encoder"](wavs.to(self.device))
        return self.mods["decoder"](states)


torch.manual_seed(0)
vocabulary, width = 9, 8
lm = LanguageModel(vocabulary, width)
searcher = BeamSearcher(vocabulary, width, LanguageModelScorer(lm, weight=0.3), steps=4)
asr = EncoderDecoder(nn.Linear(5, width), searcher, device="cuda:0")
print("tokens", list(asr.transcribe(torch.rand(2, 7, 5)).shape))
