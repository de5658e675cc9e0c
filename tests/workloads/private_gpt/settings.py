"""What private_gpt can be told. One GPU serves the language model, the next one the embeddings."""

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass
class EmbeddingSettings:
    device: str = "cuda:1"
    batch_size: int = 8


@dataclass
class IngestSettings:
    folder: Path = HERE / "documents"
    words_per_passage: int = 60
    words_of_overlap: int = 15


@dataclass
class RetrievalSettings:
    top_k: int = 3
