import torch
from torch import nn


class BarkSemanticModel(nn.Module):
    """The first of three: from text to semantic tokens, in the voice of a prompt."""

    def __init__(self, vocab_size=24, hidden_size=16):
        super().__init__()
        self.input_embeds_layer = nn.Embedding(vocab_size, hidden_size)
        self.rnn = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)

    def embed(self, input_ids, attention_mask, history_prompt):
        text = self.input_embeds_layer(input_ids) * attention_mask.unsqueeze(-1)
        if history_prompt is None:
            return text
        history = history_prompt["semantic_prompt"][-text.shape[1] :]
        return text + self.input_embeds_layer(history).unsqueeze(0)

    @torch.no_grad()
    def generate(self, input_ids, attention_mask, history_prompt=None, max_new_tokens=8):
        states, hidden = self.rnn(self.embed(input_ids, attention_mask, history_prompt))
        tokens = []
        for _ in range(max_new_tokens):
            tokens.append(self.lm_head(states[:, -1]).argmax(-1))
            states, hidden = self.rnn(self.input_embeds_layer(tokens[-1]).unsqueeze(1), hidden)
        return torch.cat(tokens)
