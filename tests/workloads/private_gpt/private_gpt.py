"""Ask your documents: files are split and embedded, the question is embedded, the nearest passages are printed.

    python private_gpt.py             the model is on cuda:1 and the token ids on cuda:0: PyTorch refuses
    python private_gpt.py --fixed     the token ids follow the model
    python private_gpt.py --cpu       everything on the CPU
"""

import argparse
from pathlib import Path

from embedding_component import EmbeddingComponent
from ingest_component import IngestComponent
from settings import EmbeddingSettings, IngestSettings, RetrievalSettings
from vector_store import VectorStore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    variant = parser.add_mutually_exclusive_group()
    variant.add_argument("--fixed", action="store_true", help="move the token ids to the model's device")
    variant.add_argument("--cpu", action="store_true", help="use no GPU")
    parser.add_argument("--documents", type=Path, default=IngestSettings.folder, help="folder of .txt files")
    parser.add_argument("--question", default="How do I stop water from running into the cellar?")
    options = parser.parse_args()

    settings = EmbeddingSettings(device="cpu") if options.cpu else EmbeddingSettings()
    embedding = EmbeddingComponent(settings, follow_model=options.fixed or options.cpu)
    store = VectorStore()
    count = IngestComponent(embedding, store, IngestSettings(folder=options.documents)).ingest_folder()
    print(f"{count} passages from {options.documents.name}/ on {embedding.device}")

    print(f"Question: {options.question}")
    question = embedding.embed([options.question])[0]
    if not store.has_true_vectors():
        print("No similarity is shown: this device computed no values.")
        return
    for score, passage in store.nearest(question, RetrievalSettings.top_k):
        print(f"  {score:.3f}  {passage.file}: {passage.text}")


if __name__ == "__main__":
    main()
