"""Text files to passages to vectors in the store."""

from dataclasses import dataclass
from pathlib import Path

from embedding_component import EmbeddingComponent
from settings import IngestSettings
from vector_store import VectorStore


@dataclass
class Passage:
    file: str
    text: str


def split(path: Path, settings: IngestSettings) -> list[Passage]:
    """Windows of words that overlap, so that a sentence cut by one window is whole in the next. Never across paragraphs."""
    passages = []
    step = settings.words_per_passage - settings.words_of_overlap
    for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
        words = paragraph.split()
        for start in range(0, max(len(words) - settings.words_of_overlap, min(len(words), 1)), step):
            passages.append(Passage(path.name, " ".join(words[start : start + settings.words_per_passage])))
    return passages


class IngestComponent:
    def __init__(self, embedding: EmbeddingComponent, store: VectorStore, settings: IngestSettings):
        self.embedding = embedding
        self.store = store
        self.settings = settings

    def ingest_folder(self) -> int:
        """Returns the number of passages stored."""
        passages = [p for path in sorted(self.settings.folder.glob("*.txt")) for p in split(path, self.settings)]
        self.store.add(passages, self.embedding.embed([p.text for p in passages]))
        return len(passages)
