import zlib

import torch
from transformers import BatchEncoding


def tokenize(prompts, length=10, vocabulary=49):
    """The ids of the words, and how much each weighs: a + more, a tenth more."""
    ids, weights = torch.zeros(len(prompts), length, dtype=torch.long), torch.ones(len(prompts), length)
    for row, prompt in enumerate(prompts):
        for column, word in enumerate(prompt.split()[:length]):
            ids[row, column] = zlib.crc32(word.rstrip("+").encode()) % vocabulary
            weights[row, column] = 1.1 ** word.count("+")
    return BatchEncoding({"input_ids": ids, "weights": weights})


class EmbeddingsProvider:
    """Prompts with weights, which the pipeline's own encoding does not know."""

    def __init__(self, text_encoder, device):
        self.text_encoder, self.device = text_encoder, device

    def get_embeddings(self, prompts):
        tokens = tokenize(prompts).to(self.device)
        # One layer earlier than the encoder's own output.
        hidden = self.text_encoder.text_model(tokens["input_ids"], skip_norm=True)
        return hidden * tokens["weights"][..., None]
