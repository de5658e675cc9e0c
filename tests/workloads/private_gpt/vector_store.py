"""Unit vectors in memory and the passages they stand for; on the CPU, as vector databases are."""

import torch


class VectorStore:
    def __init__(self):
        self.passages = []
        self.vectors = None

    def add(self, passages: list, vectors: torch.Tensor) -> None:
        """vectors: float32 [len(passages), width], rows of unit length."""
        self.passages += passages
        self.vectors = vectors if self.vectors is None else torch.cat([self.vectors, vectors])

    def nearest(self, vector: torch.Tensor, count: int) -> list[tuple[float, object]]:
        """Passages with the largest cosine similarity, best first."""
        best = torch.topk(self.vectors @ vector, min(count, len(self.passages)))
        return [(score.item(), self.passages[index]) for score, index in zip(best.values, best.indices)]

    def has_true_vectors(self) -> bool:
        """False where the device computed nothing (a rehearsal without values): such rows are not of unit length."""
        length = self.vectors.double().norm(dim=1)
        return bool(torch.isfinite(length).all() and (length - 1).abs().max() < 1e-3)
