# EXPECT {"kind":"refused-op","operation":"embedding|index_select","devices":["cuda:0","cpu"],"operands":["speaker|input|indices|index","embed_speaker|weight"],"category":"created without device","line":["speaker = torch.full("],"error":"on the same device","thread":"https://github.com/huggingface/transformers/issues/26055"}
# FIX speaker = torch.full((len(input_ids),), speaker_id) -> speaker = torch.full((len(input_ids),), speaker_id, device=input_ids.device)
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class VitsConfig:
    vocab_size: int = 40
    hidden_size: int = 8
    num_speakers: int = 6
    speaker_embedding_size: int = 4
    upsample_rate: int = 4


class VitsModel(nn.Module):
    def __init__(self, config: VitsConfig):
        super().__init__()
        self.config = config
        self.text_encoder = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_speaker = nn.Embedding(config.num_speakers, config.speaker_embedding_size)
        self.cond = nn.Conv1d(config.speaker_embedding_size, config.hidden_size, 1)
        self.decoder = nn.ConvTranspose1d(config.hidden_size, 1, config.upsample_rate, stride=config.upsample_rate)

    def forward(self, input_ids, attention_mask=None, speaker_id=None):
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)

        hidden_states = (self.text_encoder(input_ids) * attention_mask.unsqueeze(-1)).transpose(1, 2)
        if self.config.num_speakers > 1 and speaker_id is not None:
            if not 0 <= speaker_id < self.config.num_speakers:
                raise ValueError(f"Set `speaker_id` in the range 0-{self.config.num_speakers - 1}.")
            speaker = torch.full((len(input_ids),), speaker_id)
            hidden_states = hidden_states + self.cond(self.embed_speaker(speaker).unsqueeze(-1))
        return torch.tanh(self.decoder(hidden_states)).squeeze(1)


torch.manual_seed(555)
model = VitsModel(VitsConfig()).to("cuda").eval()
inputs = {"input_ids": torch.tensor([[0, 17, 0, 25, 0, 3, 0]]), "attention_mask": torch.ones(1, 7, dtype=torch.long)}
inputs = {name: value.to("cuda") for name, value in inputs.items()}
inputs["speaker_id"] = 3
with torch.no_grad():
    waveform = model(**inputs)[0]
print("waveform of", len(waveform), "samples, energy", round(waveform.square().sum().item(), 4))
